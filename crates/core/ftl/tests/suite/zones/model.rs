//! What a host knows of a zone.

use crate::support::SECTOR;
use ftl::PAGE;

/// A zone as the host sees it.
#[derive(Clone, Debug, Default)]
pub struct Model {
    /// Sectors that were written since the last reset, acknowledged or not.
    pub sectors: Vec<u32>,
    /// How many of them are acknowledged, and how many must be there after any loss of power.
    pub acknowledged: usize,
    pub promised: usize,
    /// How many times it was reset or finished: writes that were under way then may fail.
    pub ended: u32,
    /// How many times it was reset.
    pub resets: u32,
    /// What it holds if it was opened with a Zone Random Write Area since its last reset.
    pub area: Option<Area>,
}

/// A zone that was opened with a Zone Random Write Area. Values are those of whole pages.
#[derive(Clone, Debug, Default)]
pub struct Area {
    /// What each page may hold: the last value that was acknowledged, and those that were written since.
    pub pages: Vec<Vec<u32>>,
    /// The write pointer, in pages, and how far it was acknowledged.
    pub pointer: u32,
    pub acknowledged: u32,
}

impl Area {
    /// Whether a page may hold a value.
    pub fn may_hold(&self, page: usize, value: u32) -> bool {
        self.pages.get(page).map_or(value == 0, |values| values.contains(&value))
    }

    pub fn write(&mut self, first: usize, count: usize, value: u32) {
        let pages = self.pages.len().max(first + count);
        self.pages.resize(pages, vec![0]);
        self.pages[first..first + count].iter_mut().for_each(|values| values.push(value));
    }

    pub fn acknowledge(&mut self, first: usize, count: usize, value: u32, pointer: u32) {
        for values in &mut self.pages[first..first + count] {
            // If it is not there, a later write was acknowledged first: this one had waited, and its answer waited for a poll.
            if let Some(at) = values.iter().position(|&v| v == value) {
                values.drain(..at);
            }
        }
        self.acknowledged = self.acknowledged.max(pointer);
    }
}

impl Model {
    /// The write pointer, in bytes.
    pub fn pointer(&self) -> u64 {
        match &self.area {
            Some(area) => u64::from(area.pointer) * u64::from(PAGE),
            None => self.sectors.len() as u64 * u64::from(SECTOR),
        }
    }
}
