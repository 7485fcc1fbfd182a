//! The open streams of one controller on one namespace.

/// Streams of one controller on one namespace. A reset of the controller ends them.
#[derive(Clone, Default, Debug)]
pub(crate) struct Streams {
    /// Resources of its own; 0 if it shares those that are not allocated.
    allocated: u16,
    /// Open streams, oldest first: identifier and placement handle.
    open: Vec<(u16, u8)>,
}

impl Streams {
    /// Resources that others cannot have.
    pub fn taken(&self) -> usize {
        self.open.len().max(self.allocated.into())
    }

    /// Resources of its own; 0 if it has none.
    pub fn allocated(&self) -> u16 {
        self.allocated
    }

    /// Identifiers and placement handles of open streams, oldest first.
    pub fn open(&self) -> &[(u16, u8)] {
        &self.open
    }

    /// The placement handle of an open stream.
    pub fn handle(&self, stream: u16) -> Option<u8> {
        self.open.iter().find(|(s, _)| *s == stream).map(|(_, handle)| *handle)
    }

    /// Whether all resources of its own are in use. Without any of its own, the set decides.
    pub fn is_full(&self) -> bool {
        self.allocated > 0 && self.open.len() >= self.allocated.into()
    }

    /// Opens a stream.
    pub fn push(&mut self, stream: u16, handle: u8) {
        self.open.push((stream, handle));
    }

    /// Closes the stream that was opened first.
    pub fn close_oldest(&mut self) {
        if !self.open.is_empty() {
            self.open.remove(0);
        }
    }

    /// Closes a stream.
    pub fn close(&mut self, stream: u16) {
        self.open.retain(|(s, _)| *s != stream);
    }

    /// Takes this many resources of its own. Open streams count among them; the oldest beyond them close.
    pub fn allocate(&mut self, count: u16) {
        self.allocated = count;
        let excess = self.open.len().saturating_sub(count.into());
        self.open.drain(..excess);
    }

    /// Closes all streams; resources stay allocated.
    pub fn release(&mut self) {
        self.open.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_hold_the_newest_streams() {
        let mut streams = Streams::default();
        (1..=3).for_each(|s| streams.push(s, s as u8));
        assert!(!streams.is_full() && streams.taken() == 3);
        streams.allocate(2);
        assert_eq!(streams.open(), [(2, 2), (3, 3)]);
        assert!(streams.is_full());
        streams.close_oldest();
        assert_eq!((streams.handle(2), streams.handle(3), streams.taken()), (None, Some(3), 2));
        streams.close(3);
        streams.close_oldest();
        assert_eq!((streams.open().len(), streams.allocated()), (0, 2));
    }
}
