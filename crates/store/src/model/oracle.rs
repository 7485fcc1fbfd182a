//! What a store must hold: names and bytes, now and after a crash.

use std::collections::{BTreeMap, BTreeSet};

use crate::record::Ino;

/// All names: a directory and a name in it, and what it names.
pub(crate) type Names = BTreeMap<(Ino, Vec<u8>), Ino>;

/// A change of a file's contents.
#[derive(Clone, Debug)]
enum Act {
    Write(u64, Vec<u8>),
    Truncate(u64),
    Hole(u64, u64),
}

/// A file: what was synced, and what happened to it since.
#[derive(Clone, Default, Debug)]
pub(crate) struct File {
    pub(crate) now: Vec<u8>,
    synced: Vec<u8>,
    acts: Vec<Act>,
    sizes: BTreeSet<u64>,
}

impl File {
    /// A file whose contents are durable.
    pub(crate) fn durable(contents: Vec<u8>) -> Self {
        let mut file = Self { now: contents, ..Self::default() };
        file.synced();
        file
    }

    /// What it holds is durable.
    pub(crate) fn synced(&mut self) {
        self.synced.clone_from(&self.now);
        self.acts.clear();
        self.sizes = BTreeSet::from([self.now.len() as u64]);
    }

    pub(crate) fn write(&mut self, offset: u64, data: &[u8]) {
        let end = offset as usize + data.len();
        // A write can survive in part, and so can the space before it.
        let size = self.now.len() as u64;
        self.sizes.extend(size..=size.max(end as u64));
        if self.now.len() < end {
            self.now.resize(end, 0);
        }
        self.now[offset as usize..end].copy_from_slice(data);
        self.acts.push(Act::Write(offset, data.to_vec()));
    }

    pub(crate) fn truncate(&mut self, size: u64) {
        self.now.resize(size as usize, 0);
        self.acts.push(Act::Truncate(size));
        self.sizes.insert(size);
    }

    pub(crate) fn punch(&mut self, from: u64, to: u64) {
        let to = to.min(self.now.len() as u64);
        if from < to {
            self.now[from as usize..to as usize].fill(0);
            self.acts.push(Act::Hole(from, to));
        }
    }

    /// Whether a byte at a place may be there after a crash.
    fn may_be(&self, at: u64, byte: u8) -> bool {
        let synced = self.synced.get(at as usize).copied().unwrap_or(0);
        synced == byte
            || self.acts.iter().any(|act| match act {
                Act::Write(offset, data) => {
                    at.checked_sub(*offset).and_then(|at| data.get(at as usize)) == Some(&byte)
                }
                Act::Truncate(size) => byte == 0 && at >= *size,
                Act::Hole(from, to) => byte == 0 && (*from..*to).contains(&at),
            })
    }

    /// Why these contents may not be there after a crash.
    pub(crate) fn objection(&self, contents: &[u8]) -> Option<String> {
        let size = contents.len() as u64;
        if !self.sizes.contains(&size) {
            return Some(format!("it has {size} bytes, and may have {:?}", self.sizes));
        }
        let wrong = (0..).zip(contents).find(|(at, byte)| !self.may_be(*at, **byte));
        wrong.map(|(at, byte)| {
            let synced = self.synced.get(at as usize);
            format!(
                "byte {at} of {size} is {byte}, and was {synced:?} when it was synced; now {:?}",
                self.now.get(at as usize)
            )
        })
    }
}

/// The whole store.
#[derive(Clone, Debug)]
pub(crate) struct Oracle {
    pub(crate) names: Names,
    /// What the names may be after a crash: those that were durable, and all since.
    candidates: Vec<Names>,
    pub(crate) files: BTreeMap<Ino, File>,
    /// Files that are gone now, and may be back after a crash.
    pub(crate) gone: BTreeMap<Ino, File>,
}

impl Oracle {
    /// A store that holds this, durably.
    pub(crate) fn new(names: Names, files: BTreeMap<Ino, File>) -> Self {
        Self { candidates: vec![names.clone()], names, files, gone: BTreeMap::new() }
    }

    /// The names are these from now on, or will be.
    pub(crate) fn rename(&mut self, names: Names) {
        self.candidates.push(names.clone());
        self.names = names;
    }

    /// The last change of names did not happen.
    pub(crate) fn undo(&mut self, before: Names) {
        self.candidates.pop();
        self.names = before;
    }

    /// The names are durable.
    pub(crate) fn synced_names(&mut self) {
        self.candidates = vec![self.names.clone()];
    }

    /// Why the store may not hold this after a crash.
    pub(crate) fn objection(&self, names: &Names, contents: &BTreeMap<Ino, Vec<u8>>) -> Option<String> {
        if !self.candidates.contains(names) {
            let (last, count) = (&self.names, self.candidates.len());
            let first = &self.candidates[0];
            return Some(format!("the names are {names:?}; none of {count} from {first:?} to {last:?}"));
        }
        contents.iter().find_map(|(ino, contents)| {
            let Some(file) = self.files.get(ino).or_else(|| self.gone.get(ino)) else {
                return Some(format!("{ino:?} was never made"));
            };
            file.objection(contents).map(|why| format!("{ino:?}: {why}"))
        })
    }

    /// Blocks that files have at most.
    pub(crate) fn blocks(&self, block: u64) -> u64 {
        self.files.values().map(|file| (file.now.len() as u64).div_ceil(block)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_objects_to_what_cannot_be() {
        let mut file = File::durable(vec![1; 10]);
        file.write(5, &[2; 10]);
        let mut contents = vec![1; 10];
        assert_eq!(file.objection(&contents), None, "nothing survived");
        contents[7] = 2;
        assert_eq!(file.objection(&contents), None, "some survived");
        contents[4] = 2;
        assert!(file.objection(&contents).is_some(), "never written there");
        assert!(file.objection(&[1; 9]).is_some(), "too short");
        file.synced();
        assert!(file.objection(&[1; 10]).is_some(), "lost what was synced");
        let names = Names::from([((Ino::ROOT, b"a".to_vec()), Ino(2))]);
        let mut oracle = Oracle::new(names.clone(), BTreeMap::new());
        oracle.rename(Names::new());
        assert_eq!(oracle.objection(&names, &BTreeMap::new()), None);
        oracle.synced_names();
        assert!(oracle.objection(&names, &BTreeMap::new()).is_some());
    }
}
