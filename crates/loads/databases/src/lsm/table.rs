//! Tables, and the levels that they are in.

use super::keys::{Segment, scale};
use super::space::FileId;
use std::collections::VecDeque;

/// Index of a table; used again when the table is gone.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct TableId(pub u32);

/// A table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Table {
    pub segment: Segment,
    pub bytes: u64,
    pub file: FileId,
    /// A compaction has it among its inputs.
    pub busy: bool,
    /// Reads that look at it; and whether it is in no level any more.
    pub readers: u32,
    pub gone: bool,
}

/// All tables by level.
#[derive(Debug)]
pub(super) struct Levels {
    tables: Vec<Option<Table>>,
    free: Vec<u32>,
    /// Level 0, the newest first.
    pub zero: VecDeque<TableId>,
    /// The others, from level 1 on, in the order of their keys.
    sorted: Vec<Vec<TableId>>,
    /// Bytes of each level, from 0 on.
    bytes: Vec<u64>,
    /// Bytes of each level that compactions have among their inputs.
    busy: Vec<u64>,
}

impl Levels {
    pub fn new(levels: u32) -> Self {
        let count = levels.max(2) as usize;
        Levels {
            tables: Vec::new(),
            free: Vec::new(),
            zero: VecDeque::new(),
            sorted: vec![Vec::new(); count - 1],
            bytes: vec![0; count],
            busy: vec![0; count],
        }
    }

    /// Number of the last level.
    pub fn last(&self) -> usize {
        self.sorted.len()
    }

    pub fn table(&self, id: TableId) -> &Table {
        self.tables[id.0 as usize].as_ref().unwrap_or_else(|| unreachable!("a table that is gone"))
    }

    pub fn table_mut(&mut self, id: TableId) -> &mut Table {
        self.tables[id.0 as usize].as_mut().unwrap_or_else(|| unreachable!("a table that is gone"))
    }

    /// Tables of a level from 1 on.
    pub fn sorted(&self, level: usize) -> &[TableId] {
        &self.sorted[level - 1]
    }

    pub fn count(&self, level: usize) -> usize {
        if level == 0 { self.zero.len() } else { self.sorted(level).len() }
    }

    /// Bytes of a level.
    pub fn bytes(&self, level: usize) -> u64 {
        self.bytes[level]
    }

    /// Bytes of a level that no compaction has.
    pub fn idle_bytes(&self, level: usize) -> u64 {
        self.bytes[level] - self.busy[level]
    }

    /// Adds a table to a level.
    pub fn add(&mut self, level: usize, segment: Segment, bytes: u64, file: FileId) -> TableId {
        let table = Table { segment, bytes, file, busy: false, readers: 0, gone: false };
        let id = match self.free.pop() {
            Some(index) => {
                self.tables[index as usize] = Some(table);
                TableId(index)
            }
            None => {
                self.tables.push(Some(table));
                TableId(self.tables.len() as u32 - 1)
            }
        };
        self.bytes[level] += bytes;
        if level == 0 {
            self.zero.push_front(id);
        } else {
            let at = self.lower(level, segment.from);
            self.sorted[level - 1].insert(at, id);
        }
        id
    }

    /// Puts a table behind those of level 0 that are newer: in the place of the inputs of a compaction within that level.
    pub fn settle(&mut self, id: TableId, newer: usize) {
        self.zero.retain(|other| *other != id);
        self.zero.insert(newer.min(self.zero.len()), id);
    }

    /// Marks a table as input of a compaction, or not.
    pub fn claim(&mut self, level: usize, id: TableId, busy: bool) {
        let bytes = self.table(id).bytes;
        self.table_mut(id).busy = busy;
        if busy {
            self.busy[level] += bytes;
        } else {
            self.busy[level] -= bytes;
        }
    }

    /// Puts a table into another level as it is.
    pub fn transfer(&mut self, from: usize, to: usize, id: TableId) {
        self.claim(from, id, true);
        self.remove(from, id);
        self.table_mut(id).gone = false;
        let Table { segment, bytes, .. } = *self.table(id);
        self.bytes[to] += bytes;
        let at = self.lower(to, segment.from);
        self.sorted[to - 1].insert(at, id);
    }

    /// Takes a table that a compaction has out of its level. It stays a table until it is [dropped](Levels::forget).
    pub fn remove(&mut self, level: usize, id: TableId) {
        self.claim(level, id, false);
        let Table { segment, bytes, .. } = *self.table(id);
        self.bytes[level] -= bytes;
        if level == 0 {
            self.zero.retain(|other| *other != id);
        } else {
            let at = self.lower(level, segment.from);
            let removed = self.sorted[level - 1].remove(at);
            debug_assert_eq!(removed, id);
        }
        self.table_mut(id).gone = true;
    }

    /// A table that is in no level and that nobody reads is no more. Its file, which nobody else has.
    pub fn forget(&mut self, id: TableId) -> Option<FileId> {
        let table = self.table(id);
        if !table.gone || table.readers > 0 {
            return None;
        }
        let file = table.file;
        self.tables[id.0 as usize] = None;
        self.free.push(id.0);
        Some(file)
    }

    /// Where a table that begins there is, or would be.
    fn lower(&self, level: usize, from: u64) -> usize {
        self.sorted[level - 1].partition_point(|id| self.table(*id).segment.from < from)
    }

    /// The tables of a level from 1 on that have keys of a range.
    pub fn overlap(&self, level: usize, from: u64, to: u64) -> &[TableId] {
        let tables = &self.sorted[level - 1];
        let first = tables.partition_point(|id| self.table(*id).segment.to <= from);
        let end = tables.partition_point(|id| self.table(*id).segment.from < to);
        &tables[first..end.max(first)]
    }

    /// The table of a level from 1 on that may have a key.
    pub fn find(&self, level: usize, key: u64) -> Option<TableId> {
        self.overlap(level, key, key + 1).first().copied()
    }

    /// Bytes of tables.
    pub fn sum(&self, ids: &[TableId]) -> u64 {
        ids.iter().map(|id| self.table(*id).bytes).sum()
    }

    /// The range of tables: the first key, and the first behind all.
    pub fn range(&self, ids: &[TableId]) -> (u64, u64) {
        ids.iter().fold((u64::MAX, 0), |(from, to), id| {
            let segment = self.table(*id).segment;
            (from.min(segment.from), to.max(segment.to))
        })
    }

    /// For each table of a level from 1 on, but not the last, that no compaction has: bytes that it meets in the next level over its own, in thousandths, and
    /// whether any of those is busy. In one pass over both.
    pub fn overlap_ratios(&self, level: usize) -> impl Iterator<Item = (TableId, u64)> + '_ {
        let next = &self.sorted[level];
        let mut first = 0;
        self.sorted[level - 1].iter().filter_map(move |&id| {
            let table = self.table(id);
            while next.get(first).is_some_and(|other| self.table(*other).segment.to <= table.segment.from) {
                first += 1;
            }
            let (mut bytes, mut at) = (0, first);
            while let Some(other) = next.get(at).map(|other| self.table(*other)) {
                if other.segment.from >= table.segment.to {
                    break;
                }
                if other.busy {
                    return None;
                }
                bytes += other.bytes;
                at += 1;
            }
            (!table.busy).then(|| (id, scale(1000, bytes, table.bytes.max(1))))
        })
    }

    /// What must hold at any time.
    ///
    /// # Errors
    /// What does not.
    pub fn check(&self) -> Result<(), String> {
        for (level, tables) in (1..).zip(&self.sorted) {
            for pair in tables.windows(2) {
                let (a, b) = (self.table(pair[0]).segment, self.table(pair[1]).segment);
                if a.to > b.from {
                    return Err(format!("tables of level {level} meet: {a:?} and {b:?}"));
                }
            }
            if self.sum(tables) != self.bytes[level] {
                return Err(format!("bytes of level {level} are miscounted"));
            }
        }
        let zero: Vec<TableId> = self.zero.iter().copied().collect();
        if self.sum(&zero) != self.bytes[0] {
            return Err("bytes of level 0 are miscounted".to_owned());
        }
        for level in 0..=self.last() {
            let ids = if level == 0 { &zero[..] } else { self.sorted(level) };
            let busy: u64 = ids.iter().map(|id| self.table(*id)).filter(|t| t.busy).map(|t| t.bytes).sum();
            if busy != self.busy[level] {
                return Err(format!("busy bytes of level {level} are miscounted"));
            }
            if ids.iter().any(|id| self.table(*id).gone) {
                return Err(format!("a table of level {level} is gone"));
            }
        }
        Ok(())
    }
}
