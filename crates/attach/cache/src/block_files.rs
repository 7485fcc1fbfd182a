//! Tiers as block files, alone or beside the namespaces of the drive that they are served with.

use crate::live::LiveTier;
use blockdev::Geometry;
use export::Errno;
use export::drive::{Drive, DriveCommand, DriveNotice, Extent, ExtentQuery, Namespace, Reports, Then};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, mpsc};

/// Tiers have numbers beyond those of namespaces.
const FIRST_TIER_NUMBER: u32 = 0xFFFF_0000;
/// Requests under way at once, where no drive says otherwise.
const COMMANDS: u32 = 256;

thread_local! {
    /// Whether this thread submits requests [together](Drive::together).
    static IS_BATCHING: Cell<bool> = const { Cell::new(false) };
}

/// What has block files: tiers, and perhaps a drive.
pub struct BlockFiles {
    drive: Option<Arc<dyn Drive>>,
    /// Namespaces that tiers use: nobody else may write them.
    hidden: BTreeSet<u32>,
    tiers: Vec<Arc<LiveTier>>,
    reports: Reports,
}

impl BlockFiles {
    /// Shows tiers, and a drive without these namespaces.
    pub fn new(
        drive: Option<Arc<dyn Drive>>,
        hidden: BTreeSet<u32>,
        tiers: Vec<Arc<LiveTier>>,
        reports: Reports,
    ) -> Arc<Self> {
        for tier in &tiers {
            tier.answer_to(reports.completions.clone());
        }
        Arc::new(BlockFiles { drive, hidden, tiers, reports })
    }

    /// Where to say that a tier has failed: its file vanishes then.
    pub fn news(&self) -> mpsc::Sender<DriveNotice> {
        self.reports.news.clone()
    }

    fn tier(&self, nsid: u32) -> Option<&Arc<LiveTier>> {
        self.tiers.get(nsid.checked_sub(FIRST_TIER_NUMBER)? as usize)
    }
}

/// The name of a tier's block file.
fn file_name(tier: &LiveTier) -> String {
    format!("cache-{}", tier.name())
}

impl Drive for BlockFiles {
    fn queue_entries(&self) -> u32 {
        self.drive.as_ref().map_or(COMMANDS, |drive| drive.queue_entries())
    }

    fn namespaces(&self) -> Result<Vec<Namespace>, String> {
        let mut all = match &self.drive {
            Some(drive) => drive.namespaces()?,
            None => Vec::new(),
        };
        all.retain(|namespace| !self.hidden.contains(&namespace.nsid()));
        let losses = self.losses();
        for (nsid, tier) in (FIRST_TIER_NUMBER..).zip(&self.tiers) {
            if self.drive.is_some() && tier.failure().is_some() {
                continue;
            }
            let Geometry { block_size, blocks, limits } = tier.geometry();
            let device =
                blockdev::Namespace { limits, ..blockdev::Namespace::plain(nsid, blocks, block_size) };
            all.push(Namespace { losses, ..Namespace::new(device) });
        }
        Ok(all)
    }

    fn losses(&self) -> u64 {
        self.drive.as_ref().map_or(0, |drive| drive.losses())
    }

    fn names(&self) -> BTreeMap<u32, String> {
        (FIRST_TIER_NUMBER..).zip(self.tiers.iter().map(|tier| file_name(tier))).collect()
    }

    fn extents(&self, query: ExtentQuery, then: Then<Vec<Extent>>) {
        match (self.tier(query.namespace().nsid), &self.drive) {
            (None, Some(drive)) => drive.extents(query, then),
            _ => then(Err(Errno::EOPNOTSUPP)),
        }
    }

    fn submit(&self, tag: u64, of: &blockdev::Namespace, command: DriveCommand, data: Vec<u8>) {
        let (tier, operation) = match (self.tier(of.nsid), &self.drive, command) {
            (None, Some(drive), _) => return drive.submit(tag, of, command, data),
            (Some(tier), _, DriveCommand::Blocks(operation)) => (tier, operation),
            // A tier has no zones.
            _ => return self.refuse(tag, data),
        };
        match IS_BATCHING.get() {
            true => tier.leave(tag, operation, data),
            false => tier.submit(tag, operation, data),
        }
    }

    fn together(&self, submits: &mut dyn FnMut()) {
        let outer = IS_BATCHING.replace(true);
        match &self.drive {
            Some(drive) => drive.together(submits),
            None => submits(),
        }
        IS_BATCHING.set(outer);
        self.tiers.iter().for_each(|tier| tier.run());
    }
}

impl BlockFiles {
    fn refuse(&self, tag: u64, data: Vec<u8>) {
        if let Some(completions) = self.reports.completions.upgrade() {
            completions.complete(tag, Err(Errno::ENODEV), data);
        }
    }
}
