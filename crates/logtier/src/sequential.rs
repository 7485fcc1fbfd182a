//! Streams of requests in order, which go past the cache.

/// Streams that are remembered, as many as bcache remembers recent requests.
const STREAMS: usize = 128;

#[derive(Clone, Copy)]
struct Stream {
    /// Where the next request would begin.
    next: u64,
    /// Blocks of its requests so far.
    blocks: u64,
    /// When it was continued last, in requests.
    used: u64,
}

/// The streams.
pub(crate) struct Sequential {
    streams: Vec<Stream>,
    requests: u64,
}

impl Sequential {
    pub(crate) const fn new() -> Self {
        Self { streams: Vec::new(), requests: 0 }
    }

    /// Notes a request. Returns the blocks of its stream, with its own.
    pub(crate) fn note(&mut self, first: u64, blocks: u64) -> u64 {
        self.requests += 1;
        let used = self.requests;
        if let Some(stream) = self.streams.iter_mut().find(|stream| stream.next == first) {
            *stream = Stream { next: first + blocks, blocks: stream.blocks + blocks, used };
            return stream.blocks;
        }
        let stream = Stream { next: first + blocks, blocks, used };
        if self.streams.len() < STREAMS {
            self.streams.push(stream);
        } else if let Some(oldest) = self.streams.iter_mut().min_by_key(|stream| stream.used) {
            *oldest = stream;
        }
        blocks
    }
}
