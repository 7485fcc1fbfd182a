//! Notes of what happens to the reclaim units of placement handles without the host's asking.

use crate::answer::{PlacementChange, PlacementNote};
use media::Nanos;
use std::collections::VecDeque;

/// Notes that are kept until somebody takes them; of more the oldest are dropped.
const MOST_NOTES: usize = 256;

#[derive(Clone, Debug, Default)]
pub(super) struct Notes {
    wanted: bool,
    notes: VecDeque<PlacementNote>,
}

impl Notes {
    /// Whether notes are taken.
    #[inline]
    pub fn are_wanted(&self) -> bool {
        self.wanted
    }

    /// Whether notes are taken from now on.
    pub fn want(&mut self, wanted: bool) {
        self.wanted = wanted;
        if !wanted {
            self.notes.clear();
        }
    }

    pub fn add(&mut self, at: Nanos, handle: usize, change: PlacementChange) {
        if self.wanted {
            if self.notes.len() == MOST_NOTES {
                self.notes.pop_front();
            }
            self.notes.push_back(PlacementNote { at, handle: handle as u8, change });
        }
    }

    /// Takes them, the oldest first.
    pub fn take(&mut self) -> Vec<PlacementNote> {
        self.notes.drain(..).collect()
    }

    /// Forgets them: power is lost.
    pub fn clear(&mut self) {
        self.notes.clear();
    }
}
