//! What a store must hold: names and bytes, now and after a crash.

use std::collections::{BTreeMap, BTreeSet};

use super::world::BLOCK;
use crate::record::Ino;

/// All names: a directory and a name in it, and what it names.
pub(crate) type Names = BTreeMap<(Ino, Vec<u8>), Ino>;

/// A file: what it held when it was synced, and at every moment since.
#[derive(Clone, Default, Debug)]
pub(crate) struct File {
    pub(crate) now: Vec<u8>,
    synced: Vec<u8>,
    /// What a block held when it was synced and after each change since, up to the end of the file then. Other blocks hold what was synced.
    versions: BTreeMap<u64, BTreeSet<Vec<u8>>>,
    sizes: BTreeSet<u64>,
}

/// The bytes of a block, up to the end of the file.
fn block(contents: &[u8], number: u64) -> &[u8] {
    let (from, to) = (number * BLOCK, (number + 1) * BLOCK);
    let end = contents.len() as u64;
    &contents[from.min(end) as usize..to.min(end) as usize]
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
        self.versions.clear();
        self.sizes = BTreeSet::from([self.now.len() as u64]);
    }

    /// The bytes from `from` to `to` (exclusive) change, and perhaps the size.
    fn change(&mut self, from: u64, to: u64, change: impl FnOnce(&mut Vec<u8>)) {
        let touched = from / BLOCK..to.div_ceil(BLOCK);
        for number in touched.clone() {
            let synced = block(&self.synced, number).to_vec();
            self.versions.entry(number).or_insert_with(|| BTreeSet::from([synced]));
        }
        change(&mut self.now);
        for number in touched {
            let now = block(&self.now, number).to_vec();
            self.versions.entry(number).or_default().insert(now);
        }
    }

    /// What makes the file longer can survive up to a border of blocks.
    fn grows(&mut self, size: u64, end: u64) {
        self.sizes.extend(((size + 1).next_multiple_of(BLOCK)..end).step_by(BLOCK as usize));
    }

    pub(crate) fn write(&mut self, offset: u64, data: &[u8]) {
        let (size, end) = (self.now.len() as u64, offset + data.len() as u64);
        // What made the file longer can survive in part, also up to the end of a later write.
        self.grows(size, end);
        if self.sizes.first().is_none_or(|least| *least < end) {
            self.sizes.insert(end);
        }
        // What lies between the end and the write reads as zeroes from now on.
        self.change(offset.min(size), end, |now| {
            now.resize(size.max(end) as usize, 0);
            now[offset as usize..end as usize].copy_from_slice(data);
        });
    }

    pub(crate) fn truncate(&mut self, size: u64) {
        let before = self.now.len() as u64;
        self.grows(before, size);
        self.change(size.min(before), size.max(before), |now| now.resize(size as usize, 0));
        self.sizes.insert(size);
    }

    pub(crate) fn punch(&mut self, from: u64, to: u64) {
        let to = to.min(self.now.len() as u64);
        if from < to {
            self.change(from, to, |now| now[from as usize..to as usize].fill(0));
        }
    }

    /// Why these contents may not be there after a crash. The size is one that the file had, or the end of a block or of a write below. Each block
    /// holds what it held when it was synced, or at some moment since. So a zero is only there where the file had one.
    pub(crate) fn objection(&self, contents: &[u8]) -> Option<String> {
        let size = contents.len() as u64;
        if !self.sizes.contains(&size) {
            return Some(format!("it has {size} bytes, and may have {:?}", self.sizes));
        }
        let wrong = (0..size.div_ceil(BLOCK)).find(|number| {
            let found = block(contents, *number);
            match self.versions.get(number) {
                Some(versions) => !versions.iter().any(|version| version.starts_with(found)),
                None => !block(&self.synced, *number).starts_with(found),
            }
        });
        wrong.map(|number| {
            let (found, now) = (block(contents, number), block(&self.now, number));
            let at = found.iter().zip(now).position(|(found, now)| found != now).unwrap_or(now.len());
            let start = block(&self.synced, number);
            format!(
                "block {number} of {size} bytes was never so: its byte {at} is {:?}, now it is {:?}, and was {:?} when it was synced",
                found.get(at),
                now.get(at),
                start.get(at)
            )
        })
    }

    /// A write failed, and this is there now.
    pub(crate) fn failed(&mut self, there: Vec<u8>) -> Option<String> {
        let objection = self.objection(&there);
        let longest = self.now.len().max(there.len()) as u64;
        self.sizes.insert(there.len() as u64);
        self.change(0, longest, |now| *now = there);
        objection
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
        assert!(file.objection(&contents).is_some(), "half of a block survived");
        let whole = [vec![1; 5], vec![2; 10]].concat();
        assert_eq!(file.objection(&whole), None, "all survived");
        assert!(file.objection(&[1; 9]).is_some(), "too short");
        assert!(file.objection(&[vec![1; 10], vec![0; 5]].concat()).is_some(), "longer without the bytes");
        file.write(4 * BLOCK, &[3; 2 * BLOCK as usize]);
        let mut contents = file.now.clone();
        contents.truncate(5 * BLOCK as usize);
        assert_eq!(file.objection(&contents), None, "a block of the last write survived");
        contents.truncate(5 * BLOCK as usize - 1);
        assert!(file.objection(&contents).is_some(), "no border of a block");
        file.synced();
        assert!(file.objection(&whole).is_some(), "lost what was synced");
        // Zeroes that the file had, and others.
        let mut file = File::durable(vec![1; 10]);
        file.punch(2, 4);
        file.truncate(8);
        file.truncate(12);
        assert_eq!(file.objection(&[1, 1, 0, 0, 1, 1, 1, 1]), None);
        assert_eq!(file.objection(&[1, 1, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0]), None);
        assert!(file.objection(&[1, 1, 0, 0, 1, 1, 0, 0]).is_some());
        assert!(file.objection(&[1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0]).is_some());
        let names = Names::from([((Ino::ROOT, b"a".to_vec()), Ino(2))]);
        let mut oracle = Oracle::new(names.clone(), BTreeMap::new());
        oracle.rename(Names::new());
        assert_eq!(oracle.objection(&names, &BTreeMap::new()), None);
        oracle.synced_names();
        assert!(oracle.objection(&names, &BTreeMap::new()).is_some());
    }
}
