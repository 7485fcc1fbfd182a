//! A firmware image while a controller's host downloads it.

use std::collections::BTreeMap;

/// The pieces so far, by their offset in bytes.
#[derive(Default, Debug)]
pub(crate) struct Download {
    pieces: BTreeMap<u64, Vec<u8>>,
}

/// A piece overlaps one that is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Overlap;

impl Download {
    /// Whether no piece came yet.
    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Takes a piece.
    ///
    /// # Errors
    /// If some of it is there. All pieces are dropped then.
    pub(super) fn add(&mut self, offset: u64, data: &[u8]) -> Result<(), Overlap> {
        let end = offset + data.len() as u64;
        let before = self.pieces.range(..end).next_back();
        if before.is_some_and(|(at, piece)| at + piece.len() as u64 > offset) {
            self.pieces.clear();
            return Err(Overlap);
        }
        self.pieces.insert(offset, data.to_vec());
        Ok(())
    }

    /// The whole image, if its pieces follow each other without gaps.
    pub(super) fn image(self) -> Option<Vec<u8>> {
        let mut image = Vec::new();
        for (offset, piece) in self.pieces {
            (offset == image.len() as u64).then_some(())?;
            image.extend(piece);
        }
        Some(image)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_come_in_any_order_without_gap_or_overlap() {
        let mut download = Download::default();
        assert!(download.is_empty());
        download.add(4, &[2; 4]).unwrap();
        download.add(0, &[1; 4]).unwrap();
        assert_eq!(download.image(), Some(vec![1, 1, 1, 1, 2, 2, 2, 2]));
        let mut gap = Download::default();
        gap.add(4, &[2; 4]).unwrap();
        assert_eq!(gap.image(), None);
        let mut twice = Download::default();
        twice.add(0, &[1; 8]).unwrap();
        assert_eq!(twice.add(4, &[2; 8]), Err(Overlap));
        assert!(twice.is_empty());
    }
}
