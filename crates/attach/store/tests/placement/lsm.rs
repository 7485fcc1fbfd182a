//! A log-structured merge tree of real keys, with levelled compactions, some of them at the same time. It gives its files lifetimes as RocksDB does, and their keys.

use std::collections::{BTreeSet, VecDeque};

use rng::Rng;
use store::{Ino, KeyRange, Placement};

use crate::{Files, amplification, measure, seeds};

/// Keys that there are.
const KEYS: u64 = 40_000;
/// Records in a block, and in a table at most.
const RECORDS: usize = 4;
const TABLE: usize = 256;
/// Tables of level 0 that begin a compaction, and of the levels below that are too many.
const TRIGGER: usize = 4;
const TARGETS: [usize; 2] = [8, 40];
/// Compactions at the same time, and blocks that each writes before others go on.
const COMPACTIONS: usize = 3;
const PIECE: u64 = 16;

#[derive(Clone, Debug)]
struct Table {
    name: String,
    ino: Ino,
    keys: Vec<u32>,
    /// A compaction reads it.
    busy: bool,
}

/// A compaction: the keys of its results, and how far the first of them is written.
struct Job {
    level: usize,
    inputs: BTreeSet<Ino>,
    left: VecDeque<Vec<u32>>,
    begun: Option<(Table, u64)>,
    made: Vec<Table>,
}

struct Tree {
    files: Files,
    rng: Rng,
    /// It tells lifetimes.
    hints: bool,
    memory: BTreeSet<u32>,
    log: (String, Ino, u64),
    levels: Vec<Vec<Table>>,
    jobs: Vec<Job>,
}

impl Tree {
    fn new(placement: Placement, seed: u64, hints: bool) -> Self {
        let mut files = Files::new(48, 512, 14, placement);
        let (name, ino) = files.create();
        if hints {
            files.hint(ino, "short");
        }
        Self {
            files,
            rng: Rng::new(seed),
            hints,
            memory: BTreeSet::new(),
            log: (name, ino, 0),
            levels: vec![Vec::new(); 4],
            jobs: Vec::new(),
        }
    }

    fn table(&mut self, level: usize, keys: Vec<u32>) -> Table {
        let (name, ino) = self.files.create();
        if self.hints {
            self.files.hint(ino, ["medium", "medium", "long", "extreme"][level]);
        }
        let [first, last] = [keys[0], keys[keys.len() - 1]].map(|key| format!("key{key:010}"));
        let range = KeyRange::new(level as u8, first.as_bytes(), last.as_bytes()).unwrap();
        self.files.keys(ino, &range);
        Table { name, ino, keys, busy: false }
    }

    fn put(&mut self) {
        self.memory.insert(self.rng.below(KEYS) as u32);
        if self.memory.len().is_multiple_of(16) {
            let (_, ino, end) = self.log;
            self.files.write(ino, end, 4);
            self.log.2 += 4;
        }
        if self.memory.len() >= TABLE {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let keys: Vec<u32> = std::mem::take(&mut self.memory).into_iter().collect();
        let table = self.table(0, keys);
        self.files.write(table.ino, 0, table.keys.len().div_ceil(RECORDS) as u64);
        self.levels[0].push(table);
        self.files.delete(&self.log.0);
        let (name, ino) = self.files.create();
        if self.hints {
            self.files.hint(ino, "short");
        }
        self.log = (name, ino, 0);
        // Compactions keep up with the writer.
        loop {
            while self.jobs.len() < COMPACTIONS && self.pick() {}
            let behind = self.levels[0].len() > 2 * TRIGGER;
            for _ in 0..12 {
                self.step();
            }
            if !behind || self.jobs.is_empty() {
                break;
            }
        }
    }

    /// Begins a compaction, if a level has too much.
    fn pick(&mut self) -> bool {
        let fill = |level: usize| match level {
            0 => self.levels[0].len() * 1000 / TRIGGER,
            _ => self.levels[level].iter().filter(|table| !table.busy).count() * 1000 / TARGETS[level - 1],
        };
        let mut fullest = [0, 1, 2];
        fullest.sort_by_key(|level| std::cmp::Reverse(fill(*level)));
        for level in fullest {
            let idle: Vec<&Table> = self.levels[level].iter().filter(|table| !table.busy).collect();
            let inputs: Vec<Ino> = if level == 0 {
                if idle.len() < TRIGGER || idle.len() < self.levels[0].len() {
                    continue;
                }
                idle.iter().map(|table| table.ino).collect()
            } else {
                if idle.len() <= TARGETS[level - 1] {
                    continue;
                }
                // That which meets the fewest keys of the level below, as RocksDB chooses by default.
                let met = |table: &&&Table| {
                    let (first, last) = (table.keys[0], *table.keys.last().unwrap());
                    let meets =
                        |other: &&Table| other.keys[0] <= last && *other.keys.last().unwrap() >= first;
                    let met: usize =
                        self.levels[level + 1].iter().filter(meets).map(|other| other.keys.len()).sum();
                    met * 1000 / table.keys.len()
                };
                vec![idle.iter().min_by_key(met).unwrap().ino]
            };
            if self.begin(level, &inputs) {
                return true;
            }
        }
        false
    }

    fn begin(&mut self, level: usize, inputs: &[Ino]) -> bool {
        let of = |tables: &[Table], inos: &[Ino]| -> Vec<Table> {
            tables.iter().filter(|table| inos.contains(&table.ino)).cloned().collect()
        };
        let above = of(&self.levels[level], inputs);
        let first = above.iter().map(|table| table.keys[0]).min().unwrap();
        let last = above.iter().map(|table| *table.keys.last().unwrap()).max().unwrap();
        let meets = |table: &&Table| table.keys[0] <= last && *table.keys.last().unwrap() >= first;
        let below: Vec<Table> = self.levels[level + 1].iter().filter(meets).cloned().collect();
        if below.iter().any(|table| table.busy) {
            return false;
        }
        // A running compaction writes into these keys.
        let meets_job = |job: &Job| {
            let keys = job.left.iter().flatten();
            let written = job.made.iter().chain(job.begun.iter().map(|(table, _)| table));
            let mut all = keys.chain(written.flat_map(|table| &table.keys));
            job.level == level + 1 && all.any(|key| (first..=last).contains(key))
        };
        if self.jobs.iter().any(meets_job) {
            return false;
        }
        let merged: BTreeSet<u32> =
            above.iter().chain(&below).flat_map(|table| table.keys.iter().copied()).collect();
        let merged: Vec<u32> = merged.into_iter().collect();
        let inputs: BTreeSet<Ino> = above.iter().chain(&below).map(|table| table.ino).collect();
        for table in self.levels[level..=level + 1].iter_mut().flatten() {
            table.busy |= inputs.contains(&table.ino);
        }
        let left = merged.chunks(TABLE).map(<[u32]>::to_vec).collect();
        self.jobs.push(Job { level: level + 1, inputs, left, begun: None, made: Vec::new() });
        true
    }

    /// Each compaction writes a piece.
    fn step(&mut self) {
        for mut job in std::mem::take(&mut self.jobs) {
            let (table, written) = match job.begun.take() {
                Some(begun) => begun,
                None => match job.left.pop_front() {
                    Some(keys) => (self.table(job.level, keys), 0),
                    None => {
                        self.end(job);
                        continue;
                    }
                },
            };
            let all = table.keys.len().div_ceil(RECORDS) as u64;
            let blocks = PIECE.min(all - written);
            self.files.write(table.ino, written, blocks);
            if written + blocks == all {
                job.made.push(table);
            } else {
                job.begun = Some((table, written + blocks));
            }
            self.jobs.push(job);
        }
    }

    fn end(&mut self, job: Job) {
        for level in &mut self.levels {
            level.retain(|table| {
                let gone = job.inputs.contains(&table.ino);
                if gone {
                    self.files.delete(&table.name);
                }
                !gone
            });
        }
        self.levels[job.level].extend(job.made);
        self.levels[job.level].sort_by_key(|table| table.keys[0]);
    }
}

fn run(placement: Placement, seed: u64, hints: bool) -> u64 {
    let mut tree = Tree::new(placement, seed, hints);
    for _ in 0..KEYS * 2 {
        tree.put();
    }
    let before = tree.files.store.usage();
    for _ in 0..KEYS * 4 {
        tree.put();
    }
    amplification(&before, &tree.files.store.usage())
}

#[test]
fn lifetimes_save_and_so_do_keys_where_there_are_none() {
    for seed in 0..seeds() {
        let [none, lifetime, overlap] =
            measure("tables with lifetimes and keys", seed, |p| run(p, seed, true));
        assert!(lifetime * 120 < none * 100 && overlap * 120 < none * 100, "seed {seed}");
        let [none, lifetime, overlap] = measure("tables with keys alone", seed, |p| run(p, seed, false));
        assert!(overlap * 110 < lifetime.min(none) * 100 && lifetime * 100 < none * 110, "seed {seed}");
    }
}
