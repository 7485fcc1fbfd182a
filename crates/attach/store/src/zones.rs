//! What zones of data hold, for people who look at a placement.

use std::collections::{BTreeMap, BTreeSet};

use crate::device::ZoneDevice;
use crate::lifetime::Lifetime;
use crate::record::Ino;
use crate::space::Use;
use crate::store::Store;

/// What a zone of data is used for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ZoneState {
    /// It is empty.
    Empty,
    /// It takes data.
    Open,
    /// It takes no data. Files have blocks of it.
    Closed,
    /// No file has blocks of it. It will be reset.
    Dead,
    /// It is worn out.
    Broken,
}

impl ZoneState {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Open => "open",
            Self::Closed => "closed",
            Self::Dead => "dead",
            Self::Broken => "broken",
        }
    }
}

/// What a zone of data holds. Blocks are logical blocks of the device.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ZoneUse {
    /// Its number on the device.
    pub zone: u32,
    /// What it is used for.
    pub state: ZoneState,
    /// Blocks that it can hold.
    pub capacity: u64,
    /// Blocks that were written since its last reset.
    pub written: u64,
    /// Of these, blocks that files have.
    pub live: u64,
    /// Files that have them.
    pub files: u64,
    /// Lifetimes that the hints of these files tell.
    pub lifetimes: BTreeSet<Lifetime>,
    /// Levels of the files whose keys are known.
    pub levels: BTreeSet<u8>,
}

impl<D: ZoneDevice> Store<D> {
    /// What each zone of data holds.
    pub fn zones(&self) -> Vec<ZoneUse> {
        let state = self.lock();
        let shape = self.device.shape();
        let mut files: BTreeMap<u32, BTreeSet<Ino>> = BTreeMap::new();
        for (ino, inode) in state.tree.inodes() {
            for (_, run) in inode.contents().into_iter().flat_map(|contents| contents.extents.iter()) {
                files.entry(shape.zone_of(run.lba)).or_default().insert(ino);
            }
        }
        let describe = |(zone, data): (u32, &crate::space::DataZone)| {
            let files = files.get(&zone);
            let hints = || files.into_iter().flatten().map(|ino| state.hints(*ino));
            ZoneUse {
                zone,
                state: match data.usage {
                    Use::Empty => ZoneState::Empty,
                    Use::Open(_) => ZoneState::Open,
                    Use::Closed => ZoneState::Closed,
                    Use::Dead | Use::Freed(_) => ZoneState::Dead,
                    Use::Broken => ZoneState::Broken,
                },
                capacity: data.capacity,
                written: data.written,
                live: state.tree.live(zone),
                files: files.map_or(0, |files| files.len() as u64),
                lifetimes: hints().map(|(lifetime, _)| lifetime).collect(),
                levels: hints().filter_map(|(_, keys)| Some(keys?.level())).collect(),
            }
        };
        state.space.numbered().map(describe).collect()
    }
}
