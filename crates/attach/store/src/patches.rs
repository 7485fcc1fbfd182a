//! Bytes of a file that lie in the log of the metadata, and in no zone of data yet.

use std::collections::BTreeMap;

/// Pieces of bytes that lie over the blocks of a file. No piece crosses the border of a block, and no two overlap.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Patches {
    pieces: BTreeMap<u64, Vec<u8>>,
    bytes: u64,
}

impl Patches {
    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Number of pieces.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pieces.len()
    }

    /// Bytes of all pieces.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// All pieces, each with its offset in the file.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.pieces.iter().map(|(at, piece)| (*at, piece.as_slice()))
    }

    /// The blocks (of `block` bytes) that have pieces, ascending.
    #[must_use]
    pub fn blocks(&self, block: u64) -> Vec<u64> {
        let mut blocks: Vec<u64> = self.pieces.keys().map(|at| at / block).collect();
        blocks.dedup();
        blocks
    }

    /// Takes bytes out, from the offset `from` to `to` (exclusive).
    pub fn remove(&mut self, from: u64, to: u64) {
        let first = self.pieces.range(..=from).next_back().map_or(from, |(at, _)| *at);
        let touched: Vec<u64> = self.pieces.range(first..to.max(first)).map(|(at, _)| *at).collect();
        for at in touched {
            let Some(mut piece) = self.pieces.remove(&at) else { continue };
            let end = at + piece.len() as u64;
            self.bytes -= piece.len() as u64;
            if end > to {
                let cut = usize::try_from(to.saturating_sub(at)).unwrap_or(0);
                self.put(at + cut as u64, piece.split_off(cut));
            }
            if at < from {
                piece.truncate(usize::try_from(from - at).unwrap_or(0));
                self.put(at, piece);
            }
        }
    }

    fn put(&mut self, at: u64, piece: Vec<u8>) {
        if !piece.is_empty() {
            self.bytes += piece.len() as u64;
            self.pieces.insert(at, piece);
        }
    }

    /// Lays bytes over the file from an offset on, in place of pieces that were there. Cuts at borders of blocks of `block` bytes.
    pub fn insert(&mut self, mut at: u64, mut bytes: &[u8], block: u64) {
        self.remove(at, at + bytes.len() as u64);
        while !bytes.is_empty() {
            let room = usize::try_from(block - at % block).unwrap_or(usize::MAX).min(bytes.len());
            let (piece, rest) = bytes.split_at(room);
            let before = self.pieces.range_mut(..at).next_back();
            match before {
                Some((start, earlier)) if start + earlier.len() as u64 == at && !at.is_multiple_of(block) => {
                    earlier.extend_from_slice(piece);
                    self.bytes += piece.len() as u64;
                }
                _ => self.put(at, piece.to_vec()),
            }
            (at, bytes) = (at + room as u64, rest);
        }
    }

    /// The pieces that have bytes between the offsets `from` and `to` (exclusive), cut to that range.
    pub fn within(&self, from: u64, to: u64) -> impl Iterator<Item = (u64, &[u8])> {
        let first = self.pieces.range(..=from).next_back().map_or(from, |(at, _)| *at);
        self.pieces.range(first..to.max(first)).filter_map(move |(at, piece)| {
            let (start, end) = ((*at).max(from), (at + piece.len() as u64).min(to));
            let place = |of: u64| usize::try_from(of - at).unwrap_or(0);
            (start < end).then(|| (start, &piece[place(start)..place(end)]))
        })
    }

    /// Lays the pieces over a buffer that holds the bytes of the file from `offset` on.
    pub fn overlay(&self, offset: u64, buffer: &mut [u8]) {
        let end = offset + buffer.len() as u64;
        for (at, piece) in self.within(offset, end) {
            let at = usize::try_from(at - offset).unwrap_or(0);
            buffer[at..at + piece.len()].copy_from_slice(piece);
        }
    }
}

#[cfg(test)]
mod tests {
    use rng::Rng;

    use super::*;

    #[test]
    fn they_say_the_same_as_an_array() {
        for seed in 0..200 {
            let mut rng = Rng::new(seed);
            let mut patches = Patches::default();
            let mut array = [0xFF; 128];
            let mut covered = [false; 128];
            for step in 1..60 {
                let from = rng.below(128);
                let length = 1 + rng.below((128 - from).min(40));
                let range = from as usize..(from + length) as usize;
                if rng.below(3) == 0 {
                    patches.remove(from, from + length);
                    array[range.clone()].fill(0xFF);
                    covered[range].fill(false);
                } else {
                    patches.insert(from, &vec![step; length as usize], 16);
                    array[range.clone()].fill(step);
                    covered[range].fill(true);
                }
                let mut buffer = [0xFF; 128];
                patches.overlay(0, &mut buffer);
                assert_eq!(buffer, array, "seed {seed}");
                let part = rng.below(100) as usize;
                let mut buffer = [0xFF; 20];
                patches.overlay(part as u64, &mut buffer);
                assert_eq!(buffer, array[part..part + 20], "seed {seed}");
                assert_eq!(patches.bytes() as usize, covered.iter().filter(|covered| **covered).count());
                assert!(patches.iter().all(|(at, piece)| at / 16 == (at + piece.len() as u64 - 1) / 16));
            }
        }
    }
}
