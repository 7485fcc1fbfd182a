//! What is erased for good must be in no file: neither contents, plain or encrypted, nor the keys that they were encrypted with.

use super::world::{World, WorldCommand};
use ftl::PageState;
use image::testing::SLOT;
use image::testing::{CONTENTS, SPARES, unmasked};
use media::Slot;
use nvme::Command;
use std::collections::{BTreeSet, HashSet};
use std::fmt;

const SECTOR: usize = 512;
/// Blocks of a read that is under way during an erasure.
const READ_BLOCKS: u64 = 8;

type Word = [u8; 8];

/// What an erasure takes along.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Remains {
    /// Words of contents: as they lie in their own files, and as journals hold them.
    words: HashSet<Word>,
    /// Whether one of them begins with two bytes: most places of a file are passed over by that.
    begins: Vec<bool>,
    /// Wrapped keys of the drive's namespaces before.
    keys: BTreeSet<Vec<u8>>,
}

impl fmt::Debug for Remains {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} words, {} keys", self.words.len(), self.keys.len())
    }
}

/// The number of a word's first two bytes.
fn beginning(word: &[u8]) -> usize {
    usize::from(u16::from_le_bytes([word[0], word[1]]))
}

impl Remains {
    fn holds(&self, word: &[u8]) -> bool {
        self.begins[beginning(word)] && self.words.contains(word)
    }

    /// Whether a file holds any of it. `keys` are those that must be gone.
    fn are_in(&self, name: &str, bytes: &[u8], keys: &[&Vec<u8>]) -> bool {
        match name {
            // Contents lie at the beginning of sectors, and of what is beside a page.
            CONTENTS | SPARES => bytes.as_chunks::<8>().0.iter().any(|word| self.holds(word)),
            _ => {
                bytes.windows(8).any(|word| self.holds(word))
                    || keys.iter().any(|key| bytes.windows(key.len()).any(|window| window == &key[..]))
            }
        }
    }
}

/// The wrapped keys that a drive's state names.
fn wrapped_keys(state: &[u8]) -> BTreeSet<Vec<u8>> {
    const NAME: &[u8] = br#""key":""#;
    let places = (0..state.len()).filter(|&at| state[at..].starts_with(NAME));
    let key = |at: usize| state[at + NAME.len()..].split(|byte| *byte == b'"').next().unwrap_or_default();
    places.map(|at| key(at).to_vec()).collect()
}

impl World {
    /// What is in the files of a namespace that is to be erased.
    pub(super) fn remains(&mut self, index: usize) -> Remains {
        let mut words = HashSet::from([self.spaces[index].mark()]);
        if self.setup.key.is_some() {
            words.extend(self.ciphertext(index));
        }
        let masked: Vec<Word> = words.iter().filter_map(|word| unmasked(word).try_into().ok()).collect();
        words.extend(masked);
        let mut begins = vec![false; 1 << 16];
        words.iter().for_each(|word| begins[beginning(word)] = true);
        Remains { words, begins, keys: wrapped_keys(&self.engine.drive.save()) }
    }

    /// A word of every sector of a namespace, as it lies in the file.
    fn ciphertext(&self, index: usize) -> HashSet<Word> {
        let space = &self.spaces[index];
        let drive = &self.engine.drive;
        let Some(layout) = drive.namespace_layouts().find(|layout| layout.nsid == space.nsid) else {
            return HashSet::new();
        };
        let contents = self.disk.bytes(CONTENTS);
        let mut words = HashSet::new();
        for page in 0..space.len().div_ceil(self.setup.spaces[index].per_page) {
            let Some(PageState::Held(slot)) = drive.ftl().page_state(layout.volume, page as u64) else {
                continue;
            };
            if slot != Slot::NONE {
                let bytes = contents.get(slot.0 as usize * SLOT..).unwrap_or_default();
                let sectors = bytes.chunks(SECTOR).take(SLOT / SECTOR);
                words.extend(sectors.filter_map(|sector| sector.first_chunk::<8>().copied()));
            }
        }
        words.remove(&[0; 8]);
        words
    }

    /// What was erased for good is in no file: that of a namespace, or `all`.
    pub(super) fn nothing_is_left(&self, index: usize, remains: &Remains, all: bool) {
        let kept = wrapped_keys(&self.engine.drive.save());
        let mut gone: Vec<&Vec<u8>> = remains.keys.difference(&kept).collect();
        assert!(self.setup.key.is_none() || !gone.is_empty(), "an erasure has left all keys as they were");
        if gone.len() > 1 && !all {
            // Another namespace is being erased, too, and its old key may be in files until that ends.
            gone.clear();
        }
        let left = self.disk.holding(|name, bytes| remains.are_in(name, bytes, &gone));
        let nsid = self.spaces[index].nsid;
        assert!(left.is_empty(), "what was erased of namespace {nsid} is still in {left:?}");
    }

    /// Reads of a namespace begin that wait for the host's disk. They are under way when it is erased.
    pub(super) fn begin_missed_reads(&mut self, index: usize) {
        self.disk.miss_reads(true);
        for _ in 0..self.rng.below(4) {
            let space = &self.spaces[index];
            let (nsid, size, len) = (space.nsid, space.size, space.len() as u64);
            let count = 1 + self.rng.below(READ_BLOCKS.min(len)) as usize;
            let first = self.rng.below(len - count as u64 + 1) as usize;
            if self.powered {
                let command = Command::read(nsid, first as u64, count as u32);
                let what = WorldCommand::Read { space: index, first, count };
                self.submit(1, command, vec![0; count * size], what);
            }
        }
        self.disk.miss_reads(false);
    }
}
