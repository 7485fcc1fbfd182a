//! The streams of the set: a superblock is open for each placement handle, and for each relocation stream.

use crate::flash::Stream;
use crate::placement::{PlacementPolicy, Writer};

#[derive(Clone)]
pub(super) struct Streams {
    /// Those of the placement handles, then the relocation streams: what collection writes to.
    all: Vec<Stream>,
    /// Placement handles.
    handles: usize,
    /// Whose turn it is to be programmed.
    turn: usize,
    /// Placement handles with an open superblock, if there are several.
    open_handles: u32,
    /// By placement handle: chunks with a number below this are the last of its superblock; 0 if none are.
    closing: Vec<u64>,
    policy: &'static dyn PlacementPolicy,
}

impl Streams {
    pub fn new(handles: usize, policy: &'static dyn PlacementPolicy) -> Streams {
        Streams {
            all: vec![Stream::CLOSED; handles + policy.relocation_streams(handles)],
            handles,
            turn: 0,
            open_handles: 0,
            closing: vec![0; handles],
            policy,
        }
    }

    /// Placement handles.
    #[inline]
    pub fn handles(&self) -> usize {
        self.handles
    }

    /// Streams of handles and of collection.
    #[inline]
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// Whether a stream belongs to collection.
    #[inline]
    pub fn is_relocation(&self, stream: usize) -> bool {
        stream >= self.handles
    }

    /// A stream as the policy names it.
    fn writer(&self, stream: usize) -> Writer {
        match stream.checked_sub(self.handles) {
            None => Writer::Host(stream),
            Some(stream) => Writer::Relocation(stream),
        }
    }

    /// The handle whose stream takes what a host writes with this one.
    #[inline]
    pub fn of_host(&self, handle: u8) -> u8 {
        // Mostly there is but one.
        if self.handles == 1 { 0 } else { self.policy.host(handle.into(), self.handles) as u8 }
    }

    /// The stream that takes what is collected from a superblock that this one wrote.
    pub fn of_relocated(&self, stream: usize) -> usize {
        match self.policy.relocated(self.writer(stream)) {
            Writer::Host(handle) => handle,
            Writer::Relocation(stream) => self.handles + stream,
        }
    }

    /// The placement handle that all data of a superblock belong to that this stream wrote; `None` if they may belong to several.
    pub fn handle_of(&self, stream: usize) -> Option<usize> {
        self.policy.handle(self.writer(stream))
    }

    #[inline]
    pub fn get(&self, stream: usize) -> &Stream {
        &self.all[stream]
    }

    #[inline]
    pub fn get_mut(&mut self, stream: usize) -> &mut Stream {
        &mut self.all[stream]
    }

    /// The first relocation stream with an open superblock.
    pub fn open_relocation_stream(&self) -> Option<usize> {
        (self.handles..self.all.len()).find(|&stream| self.all[stream].is_open())
    }

    /// The placement handle whose turn it is; the next one's is next.
    #[inline]
    pub fn next_turn(&mut self) -> usize {
        let handle = self.turn;
        self.turn = if handle + 1 == self.handles { 0 } else { handle + 1 };
        handle
    }

    /// Superblocks that are kept free for placement handles beyond the first, as all may need another at the same time.
    #[inline]
    pub fn kept_for_handles(&self) -> u32 {
        self.open_handles.saturating_sub(1)
    }

    /// A stream is about to get another superblock.
    pub fn count_open(&mut self, opening: usize) {
        if self.handles > 1 {
            let others = (0..self.handles).filter(|&h| h != opening && self.all[h].is_open()).count();
            self.open_handles = others as u32 + u32::from(!self.is_relocation(opening));
        }
    }

    /// Counts the placement handles with an open superblock: power is back.
    pub fn recount_open(&mut self) {
        if self.handles > 1 {
            self.open_handles = (0..self.handles).filter(|&h| self.all[h].is_open()).count() as u32;
        }
    }

    /// What was accepted for a handle before this mark is the last that goes to its superblock; 0 if there is no such mark.
    #[inline]
    pub fn closes_at(&self, handle: usize) -> u64 {
        self.closing[handle]
    }

    /// Sets that mark.
    pub fn close_at(&mut self, handle: usize, mark: u64) {
        self.closing[handle] = mark;
    }

    /// No stream has a superblock any more.
    pub fn close_all(&mut self) {
        self.all.fill(Stream::CLOSED);
        self.open_handles = 0;
    }

    /// Forgets everything: power is lost.
    pub fn reset(&mut self) {
        self.close_all();
        self.closing.fill(0);
        self.turn = 0;
    }
}

impl std::fmt::Debug for Streams {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(&self.all).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::Placement;

    #[test]
    fn handles_take_turns_and_those_that_are_open_are_counted() {
        let mut streams = Streams::new(3, Placement::Mixed.policy());
        assert_eq!([(); 4].map(|()| streams.next_turn()), [0, 1, 2, 0]);
        assert_eq!((streams.kept_for_handles(), streams.open_relocation_stream()), (0, None));
        for (stream, kept) in [(0, 0), (2, 1), (3, 1), (1, 2)] {
            streams.count_open(stream);
            *streams.get_mut(stream) = Stream::new(stream as u32);
            assert_eq!(streams.kept_for_handles(), kept, "with stream {stream}");
        }
        assert_eq!(streams.open_relocation_stream(), Some(3));
        streams.close_all();
        streams.recount_open();
        assert_eq!((streams.kept_for_handles(), streams.open_relocation_stream()), (0, None));
    }
}
