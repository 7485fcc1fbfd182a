//! What is appended to a file in small pieces goes to the store in large ones that end with a block.

use store::{Error, Ino, Store, ZoneDevice};

/// Bytes that are collected before they go to the store.
pub(crate) const APPEND_BUFFER_BYTES: u64 = 1 << 20;

/// The end of a file that somebody appends to.
#[derive(Debug)]
pub(crate) struct Appender {
    ino: Ino,
    /// Bytes of a block of the store.
    block: u64,
    /// Where the first byte of the collected ones belongs.
    start: u64,
    collected: Vec<u8>,
}

impl Appender {
    pub(crate) fn new(ino: Ino, block: u64, start: u64) -> Self {
        Self { ino, block, start, collected: Vec::new() }
    }

    /// The size of the file, with what is collected.
    pub(crate) fn end(&self) -> u64 {
        self.start + self.collected.len() as u64
    }

    /// Goes on from another byte of the file. Nothing is collected.
    pub(crate) fn seek(&mut self, start: u64) {
        debug_assert!(self.collected.is_empty(), "what is collected belongs elsewhere");
        self.start = start;
    }

    /// Appends bytes. After an error some of them may be in the file. What was collected before stays so.
    pub(crate) fn append<D: ZoneDevice>(
        &mut self,
        store: &Store<D>,
        mut data: &[u8],
        now: u64,
    ) -> Result<(), Error> {
        while !data.is_empty() {
            // Pieces end with a block, so that the next one begins with one.
            let room = APPEND_BUFFER_BYTES - self.start % self.block - self.collected.len() as u64;
            let room = usize::try_from(room).unwrap_or(usize::MAX);
            if self.collected.is_empty() && data.len() >= room {
                // All of it that ends with a block.
                let block = usize::try_from(self.block).unwrap_or(usize::MAX);
                let (piece, rest) = data.split_at(data.len() - (data.len() - room) % block);
                store.write(self.ino, self.start, piece, now)?;
                (self.start, data) = (self.start + piece.len() as u64, rest);
                continue;
            }
            let (piece, rest) = data.split_at(room.min(data.len()));
            self.collected.extend_from_slice(piece);
            data = rest;
            if piece.len() == room {
                self.drain(store, now)?;
            }
        }
        Ok(())
    }

    /// Gives the store what is collected.
    pub(crate) fn drain<D: ZoneDevice>(&mut self, store: &Store<D>, now: u64) -> Result<(), Error> {
        if self.collected.is_empty() {
            return Ok(());
        }
        store.write(self.ino, self.start, &self.collected, now)?;
        self.start = self.end();
        self.collected.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::device::Shape;
    use store::simulated::Simulated;
    use store::{Attributes, FormatOptions, NewKind, Placement};

    #[test]
    fn small_pieces_become_the_file() {
        let shape = Shape { block: 4096, zone_blocks: 512, zones: 32, open: 6, append_blocks: 64 };
        let device = Simulated::new(shape, 512, 1);
        Store::format(&device, &FormatOptions::default(), [1; 16], 0).unwrap();
        let store = Store::open(&device, Placement::default()).unwrap();
        let file = store.create(Ino::ROOT, b"file", NewKind::File, Attributes::default()).unwrap().ino;
        let mut appender = Appender::new(file, 4096, 0);
        let mut expected = Vec::new();
        let lengths = [1, 5000, 70_000, 4096, 1 << 20, 3 << 20, 777, 2_000_000];
        for (round, length) in (0..).zip(lengths.iter().cycle().take(24)) {
            let piece: Vec<u8> = (0..*length).map(|at| (at * 7 + round * 31) as u8).collect();
            appender.append(&store, &piece, 1).unwrap();
            expected.extend(piece);
            assert_eq!(appender.end(), expected.len() as u64);
            if round % 5 == 4 {
                appender.drain(&store, 1).unwrap();
                assert_eq!(store.stat(file).unwrap().size, expected.len() as u64);
            }
        }
        appender.drain(&store, 1).unwrap();
        let mut read = vec![0; expected.len() + 1];
        assert_eq!(store.read(file, 0, &mut read).unwrap(), expected.len());
        assert!(read[..expected.len()] == expected);
    }
}
