//! The streams of the set: a superblock is open for each host stream, and for each relocation stream. A set has a host stream for each
//! placement handle; one with a placement policy of its own has one handle, and as many host streams as the policy says.

use crate::flash::Stream;
use crate::placement::PlacementPolicy;
use crate::policy_input::{Candidate, HostWrite, Writer};

#[derive(Clone)]
pub(super) struct Streams {
    /// The host streams, then the relocation streams: what collection writes to.
    all: Vec<Stream>,
    /// Placement handles.
    handles: usize,
    /// Host streams.
    hosts: usize,
    /// Whose turn it is to be programmed.
    turn: usize,
    /// Host streams with an open superblock, if there are several.
    open_hosts: u32,
    /// By host stream: chunks with a number below this are the last of its superblock; 0 if none are.
    closing: Vec<u64>,
    policy: Box<dyn PlacementPolicy>,
    /// The policy as it was made.
    made: Box<dyn PlacementPolicy>,
}

impl Streams {
    /// With so many placement handles; the configuration was checked.
    pub fn new(handles: usize, policy: Box<dyn PlacementPolicy>) -> Streams {
        let hosts = policy.host_streams(handles).max(handles);
        Streams {
            all: vec![Stream::CLOSED; hosts + policy.relocation_streams(handles)],
            handles,
            hosts,
            turn: 0,
            open_hosts: 0,
            closing: vec![0; hosts],
            made: policy.clone(),
            policy,
        }
    }

    /// Placement handles.
    #[inline]
    pub fn handles(&self) -> usize {
        self.handles
    }

    /// Host streams: one for each placement handle at least.
    #[inline]
    pub fn hosts(&self) -> usize {
        self.hosts
    }

    /// Streams of hosts and of collection.
    #[inline]
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// Whether a stream belongs to collection.
    #[inline]
    pub fn is_relocation(&self, stream: usize) -> bool {
        stream >= self.hosts
    }

    /// A stream as the policy names it.
    pub fn writer(&self, stream: usize) -> Writer {
        match stream.checked_sub(self.hosts) {
            None => Writer::Host(stream),
            Some(stream) => Writer::Relocation(stream),
        }
    }

    /// The stream that takes what a host writes from `page` on with this handle, when hosts wrote so many pages before.
    #[inline]
    pub fn of_host(&mut self, page: u32, handle: u8, written: u64) -> u8 {
        // Mostly there is but one.
        if self.hosts == 1 {
            return 0;
        }
        let write = HostWrite { page, written, handle: handle.into(), handles: self.handles };
        let stream = self.policy.host(write);
        if stream < self.hosts { stream as u8 } else { 0 }
    }

    /// The stream that takes what is collected from a superblock.
    pub fn of_relocated(&mut self, victim: &Candidate) -> usize {
        match self.policy.relocated(victim) {
            // Collection may only take the host's last superblock where it is the same one.
            Writer::Host(0) if self.hosts == 1 => 0,
            Writer::Relocation(stream) if self.hosts + stream < self.all.len() => self.hosts + stream,
            Writer::Host(_) | Writer::Relocation(_) => self.hosts,
        }
    }

    /// The stream that takes the data of a victim chosen for its wear. It is a relocation stream, because such data stays.
    pub fn of_cold(&mut self, victim: &Candidate) -> usize {
        match self.all.len() - self.hosts {
            1 => self.hosts,
            _ => self.of_relocated(victim).max(self.hosts),
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
        (self.hosts..self.all.len()).find(|&stream| self.all[stream].is_open())
    }

    /// The host stream whose turn it is; the next one's is next.
    #[inline]
    pub fn next_turn(&mut self) -> usize {
        let stream = self.turn;
        self.turn = if stream + 1 == self.hosts { 0 } else { stream + 1 };
        stream
    }

    /// Superblocks that are kept free for host streams beyond the first, as all may need another at the same time.
    #[inline]
    pub fn kept_for_hosts(&self) -> u32 {
        self.open_hosts.saturating_sub(1)
    }

    /// A stream is about to get another superblock.
    pub fn count_open(&mut self, opening: usize) {
        if self.hosts > 1 {
            let others = (0..self.hosts).filter(|&h| h != opening && self.all[h].is_open()).count();
            self.open_hosts = others as u32 + u32::from(!self.is_relocation(opening));
        }
    }

    /// Counts the host streams with an open superblock: power is back.
    pub fn recount_open(&mut self) {
        if self.hosts > 1 {
            self.open_hosts = (0..self.hosts).filter(|&h| self.all[h].is_open()).count() as u32;
        }
    }

    /// What was accepted for a host stream before this mark is the last that goes to its superblock; 0 if there is no such mark.
    #[inline]
    pub fn closes_at(&self, stream: usize) -> u64 {
        self.closing[stream]
    }

    /// Sets that mark.
    pub fn close_at(&mut self, stream: usize, mark: u64) {
        self.closing[stream] = mark;
    }

    /// No stream has a superblock any more.
    pub fn close_all(&mut self) {
        self.all.fill(Stream::CLOSED);
        self.open_hosts = 0;
    }

    /// Forgets everything: power is lost.
    pub fn reset(&mut self) {
        self.close_all();
        self.closing.fill(0);
        self.turn = 0;
        self.policy = self.made.clone();
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
        assert_eq!((streams.kept_for_hosts(), streams.open_relocation_stream()), (0, None));
        for (stream, kept) in [(0, 0), (2, 1), (3, 1), (1, 2)] {
            streams.count_open(stream);
            *streams.get_mut(stream) = Stream::new(stream as u32);
            assert_eq!(streams.kept_for_hosts(), kept, "with stream {stream}");
        }
        assert_eq!(streams.open_relocation_stream(), Some(3));
        streams.close_all();
        streams.recount_open();
        assert_eq!((streams.kept_for_hosts(), streams.open_relocation_stream()), (0, None));
    }
}
