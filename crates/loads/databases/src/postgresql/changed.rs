//! Which pages the log has whole since the last checkpoint began.

/// Pages that changed since the last checkpoint began, a bit each.
#[derive(Debug)]
pub(super) struct Changed(Vec<u64>);

impl Changed {
    /// For a database of so many pages.
    pub(super) fn new(pages: u64) -> Changed {
        Changed(vec![0; usize::try_from(pages.div_ceil(64)).unwrap_or(0)])
    }

    /// Whether this is the first change of the page since the last checkpoint began. It no longer is.
    pub(super) fn is_first(&mut self, page: u64) -> bool {
        let Some(word) = self.0.get_mut((page / 64) as usize) else { return false };
        let bit = 1 << (page % 64);
        let first = *word & bit == 0;
        *word |= bit;
        first
    }

    /// A checkpoint begins here.
    pub(super) fn begin_checkpoint(&mut self) {
        self.0.fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_change_after_a_checkpoint_is_told() {
        let mut changed = Changed::new(100);
        assert!(changed.is_first(70) && changed.is_first(6) && !changed.is_first(70));
        changed.begin_checkpoint();
        assert!(changed.is_first(70) && !changed.is_first(70) && !changed.is_first(1 << 40));
    }
}
