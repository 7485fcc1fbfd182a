//! Threads that read points: one key after the other, each in the newest table that has it.

use super::engine::{Engine, Event, Purpose};
use super::job::{BLOCK, Reader};
use super::keys::{distinct, scale};
use super::space::FileSpace;
use super::table::TableId;

impl<S: FileSpace> Engine<S> {
    /// A reader's time has come: it begins with a key, or it is done with the processor's part of one.
    pub(super) fn reader_goes_on(&mut self, number: u32) {
        if self.readers[number as usize].reading {
            self.look(number);
        } else if number < self.config.readers {
            self.begin_read(number);
        } else {
            self.readers[number as usize].ended = true;
        }
    }

    fn begin_read(&mut self, number: u32) {
        let key = self.rng.below(self.config.keys.max(1));
        let mut tables: Vec<TableId> = Vec::new();
        // Memtables first.
        let records = self.active.records + self.full.iter().map(|memtable| memtable.records).sum::<u64>();
        let in_memory = distinct(records, self.config.keys);
        if self.rng.below(self.config.keys.max(1)) >= in_memory {
            tables.extend(self.levels.zero.iter().filter(|id| {
                let segment = self.levels.table(**id).segment;
                segment.from <= key && key < segment.to
            }));
            tables.extend((1..=self.levels.last()).filter_map(|level| self.levels.find(level, key)));
        }
        for id in &tables {
            self.levels.table_mut(*id).readers += 1;
        }
        let work = self.config.read + self.config.read / 4 * tables.len() as u64;
        let reader = &mut self.readers[number as usize];
        (reader.key, reader.began, reader.at, reader.reading) = (key, self.now, 0, true);
        reader.tables = tables;
        self.at(self.now + work, Event::Reader(number));
    }

    /// Whether a table has a key of its range: with the share of these that it has.
    fn has(&mut self, id: TableId) -> bool {
        let segment = self.levels.table(id).segment;
        self.rng.below((segment.to - segment.from).max(1)) < segment.entries
    }

    /// Looks for the key in the next table; a block that is not in the cache is read.
    fn look(&mut self, number: u32) {
        loop {
            let Reader { key, at, ref tables, .. } = self.readers[number as usize];
            let Some(&id) = tables.get(at) else { return self.end_read(number) };
            // A filter says at once that it is not there, but for one in a hundred.
            if self.config.filters && !self.has(id) && self.rng.below(100) > 0 {
                self.readers[number as usize].at += 1;
                continue;
            }
            let (from, blocks, file) = {
                let table = self.levels.table(id);
                let stored = u64::from(self.config.block) * u64::from(self.config.table_record)
                    / u64::from(self.config.memory_record.max(1));
                let stored = stored.max(1);
                let segment = table.segment;
                let byte = scale(table.bytes, key - segment.from, segment.to - segment.from);
                let first = byte / stored * stored;
                let end = (first + stored).min(table.bytes.max(1));
                let from = first / BLOCK;
                (from, (end.div_ceil(BLOCK) - from).max(1) as u32, table.file)
            };
            // Each of them is in the cache from now on.
            let mut there = true;
            for block in from..from + u64::from(blocks) {
                there &= self.cache.touch(u64::from(file.0), block);
            }
            if there {
                self.counts.hits += 1;
                if self.found(number, id) {
                    return self.end_read(number);
                }
                continue;
            }
            self.counts.block_reads += 1;
            return self.read(file, from, blocks, Purpose::Reader(number));
        }
    }

    /// A table was looked at. Whether it has the key.
    fn found(&mut self, number: u32, id: TableId) -> bool {
        self.readers[number as usize].at += 1;
        self.config.filters || self.has(id)
    }

    /// A block was read.
    pub(super) fn block_read(&mut self, number: u32) {
        let Reader { at, ref tables, .. } = self.readers[number as usize];
        let Some(&id) = tables.get(at) else { return };
        if self.found(number, id) {
            self.end_read(number);
        } else {
            self.look(number);
        }
    }

    fn end_read(&mut self, number: u32) {
        let reader = &mut self.readers[number as usize];
        reader.reading = false;
        let took = self.now - reader.began;
        let tables = std::mem::take(&mut reader.tables);
        let _ = self.read_latency.record(took.max(1));
        self.counts.reads += 1;
        for id in tables {
            self.levels.table_mut(id).readers -= 1;
            self.drop_table(id);
        }
        self.at(self.now, Event::Reader(number));
    }
}
