//! Stores at their limits: logs of three small zones, many and long names, attributes, files in many pieces.

use super::world::{BLOCK, MIN_NAMES, World};
use crate::error::Error;
use crate::metadata::{BLOCK_BYTES, Claim, inode_bytes};
use crate::record::{Attributes, Ino, NewKind};
use crate::tree::EXTENT_BYTES;

/// Length of the names for which the number of free inodes holds.
const NAME_BYTES: usize = 55;
/// Inodes that are made at once, at most.
const MAX_INODES: u64 = 20;

impl World {
    /// Brings the store nearer to its limits.
    pub(super) fn strain(&mut self) {
        match self.rng.below(12) {
            0..5 => self.scatter(),
            5..8 => self.write_far(),
            _ if self.names == MIN_NAMES => self.scatter(),
            8..11 => self.annotate(),
            _ => self.make_free_inodes(),
        }
    }

    /// Single blocks of a file are overwritten, far from each other.
    fn scatter(&mut self) {
        self.doing = "overwrite";
        let Some(ino) = self.file() else { return };
        if self.is_tight && self.rng.below(3) == 0 {
            let length = BLOCK * (1 + self.rng.below(60));
            let _ = self.write_at(ino, 0, length);
        }
        let blocks = self.oracle.files[&ino].now.len() as u64 / BLOCK;
        let most = if self.is_tight { 60 } else { 6 };
        for _ in 0..=self.rng.below(most) {
            if blocks == 0 || self.is_stopped() {
                return;
            }
            let offset = self.rng.below(blocks) * BLOCK;
            let (at, length) = match self.rng.below(4) {
                0 => (self.rng.below(BLOCK / 2), 1 + self.rng.below(8)),
                1 => (self.rng.below(BLOCK / 2), 1 + self.rng.below(BLOCK / 2)),
                _ => (0, BLOCK),
            };
            let there = self.store().lock().claim(ino, offset / BLOCK, offset / BLOCK + 1);
            let written = self.write_at(ino, offset + at, length);
            if written == Err(Error::NoSpace) && there == Ok(Claim::Change) {
                self.refused(Claim::Change, BLOCK_BYTES);
            }
        }
    }

    /// A file gets a block behind a hole.
    fn write_far(&mut self) {
        self.doing = "write far";
        let Some(ino) = self.file() else { return };
        let offset = self.rng.below(60) * BLOCK + self.rng.below(3) * 100;
        let length = 1 + self.rng.below(BLOCK + 20);
        let _ = self.write_at(ino, offset, length);
    }

    fn annotate(&mut self) {
        self.doing = "annotate";
        let Some(ino) = self.file() else { return };
        let name = format!("user.{}", self.rng.below(4)).into_bytes();
        let value = vec![7; self.rng.below(300) as usize];
        let value = if self.rng.below(4) == 0 { None } else { Some(value.as_slice()) };
        match self.store().set_xattr(ino, &name, value) {
            Ok(()) | Err(Error::NoAttribute) => {}
            Err(Error::NoSpace) if value.is_none() => self.fail("no space to remove an attribute"),
            Err(error) => self.failed(&error, 0),
        }
    }

    /// As many inodes as the store counts as free can be made.
    fn make_free_inodes(&mut self) {
        self.doing = "make free inodes";
        let free = self.store().usage().free_inodes.min(MAX_INODES);
        for number in 0..free {
            let name = format!("{number:0NAME_BYTES$}").into_bytes();
            if self.is_stopped() || self.oracle.names.contains_key(&(Ino::ROOT, name.clone())) {
                return;
            }
            let ino = Ino(self.store().lock().tree.next_number());
            let mut names = self.oracle.names.clone();
            names.insert((Ino::ROOT, name.clone()), ino);
            let made = self.renamed(names, |store, _| {
                store.create(Ino::ROOT, &name, NewKind::Symlink(Vec::new()), Attributes::default()).map(drop)
            });
            if made == Err(Error::NoSpace) {
                self.fail(&format!("inode {number} of {free} that are free cannot be made"));
            }
        }
    }

    fn is_stopped(&self) -> bool {
        self.store().device.is_without_power() || self.store().lock().stopped.is_some()
    }

    /// A change was refused that needs so many bytes in the log. There must be a reason.
    pub(super) fn refused(&self, claim: Claim, bytes: u64) {
        let room = self.store().lock().metadata_room(claim);
        if room >= bytes && self.broken == 0 {
            self.fail(&format!("{} finds no space, though the log has {room} bytes", self.doing));
        }
    }

    /// No inode could be made.
    pub(super) fn not_made(&self, name: &[u8], kind: &NewKind) {
        let target = if let NewKind::Symlink(target) = kind { target.len() } else { 0 };
        self.refused(Claim::New, inode_bytes(name.len(), target));
    }

    /// What was taken could not be made durable. Only garbage collection may lack place for that.
    pub(super) fn not_synced(&self) {
        self.refused(Claim::Move, EXTENT_BYTES);
    }

    /// The log has place for all that memory owes it.
    pub(super) fn check_owed(&self) {
        let state = self.store().lock();
        let (owed, limit) = (state.owed(), state.metadata_limit(Claim::Move));
        if owed > limit && state.stopped.is_none() {
            drop(state);
            self.fail(&format!("{} leaves {owed} bytes for the log, which takes {limit}", self.doing));
        }
    }
}
