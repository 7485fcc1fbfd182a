//! A set on a hard disk against a model: random writes, reads, deallocations, flushes, power cuts with and without capacitors, kills with
//! journal replay, several of them in a row, on disks of random shapes.
//!
//!     TRANCHE_MODEL_ROUNDS=10000 cargo test -p ftl --release --test suite disk::      (a campaign)
//!     TRANCHE_MODEL_FIRST=10000 …                                                      (its first seed)
//!     TRANCHE_MODEL_SEED=42 cargo test -p ftl --test suite disk::                     (repeats one seed)
//!
//! What is promised: what was complete and flushed, or forced, or is saved by capacitors. What may be there after a power cut: that, or
//! anything newer. A sector that was being written when power went may be unreadable, and no other: those of one page at most. All of
//! that holds also while the host's disk is full.

use crate::support::{SECTOR, Store, for_seeds, pick};
use ftl::{
    Answer, Config, Extent, Fault, Ftl, Io, PAGE, Restorer, SetConfig, SetId, Source, VolumeId, Write,
};
use media::disk::cache::{CacheConfig, Extent as Ahead, ReadAhead};
use media::disk::drive::Scheduling;
use media::disk::shape::{DiskShape, SeekTimes};
use media::{FaultPlan, Nanos, Rng};
use std::collections::BTreeMap;

const SECTORS: u64 = (PAGE / SECTOR) as u64;
const SET: SetId = SetId(0);
/// Pages of the disk.
const PAGES: u32 = 1024;

fn random_config(rng: &mut Rng) -> Config {
    let seek =
        |average: u64| SeekTimes { track: Nanos(500_000), average: Nanos(average), full: Nanos(2 * average) };
    let sector_bytes = pick(rng, &[512, 512, 4096]);
    let shape = DiskShape {
        rpm: pick(rng, &[5_400, 15_000]),
        heads: pick(rng, &[1, 3]),
        cylinders: pick(rng, &[150, 400]),
        zones: pick(rng, &[1, 5]),
        outer_sectors: if sector_bytes == 512 { 120 } else { 15 },
        inner_sectors: if sector_bytes == 512 { 70 } else { 9 },
        sector_bytes,
        read_seek: seek(3_000_000),
        write_seek: seek(4_000_000),
        head_switch: [Nanos(300_000); 2],
        overhead: Nanos(50_000),
        link: 300_000_000,
        cache: CacheConfig {
            segments: pick(rng, &[0, 1, 8]),
            read_ahead: pick(rng, &[ReadAhead::Off, ReadAhead::Always, ReadAhead::Sequential]),
            extent: Ahead::Track,
            ..CacheConfig::default()
        },
        write_cache: rng.below(2) == 0,
        write_buffer: 1 + rng.below(400),
        scheduling: pick(rng, &[Scheduling::Fcfs, Scheduling::Sptf { age: 0 }, Scheduling::Sptf { age: 60 }]),
    };
    Config {
        sets: vec![SetConfig::Disk { shape, capacity_pages: PAGES, timed: rng.below(8) > 0 }],
        buffer_pages: 16,
        protected: rng.below(3) == 0,
        energy_bytes: 1 << 30,
        atomic_pages: 1,
        durable: true,
        faults: FaultPlan { seed: rng.next_u64(), ..FaultPlan::default() },
    }
}

/// What a sector may hold: the last value that is promised, and all later ones.
#[derive(Clone, Debug)]
struct Sector {
    promised: u32,
    /// What a read returns now, once nothing is in flight.
    latest: u32,
    /// Written since the promise, acknowledged or not.
    later: Vec<u32>,
    /// All that it may have held since the last power cut or deallocation: capacitors that fail promise no more.
    all: Vec<u32>,
    /// Torn: no read gives it until it is written.
    torn: bool,
}

#[derive(Clone, Debug)]
enum InFlight {
    Write {
        first: u64,
        count: u64,
        value: u32,
        durable: bool,
    },
    /// What a read may give: sector by sector, each value that it had while the read was under way.
    Read {
        first: u64,
        count: u64,
        values: Vec<u32>,
    },
    /// Values that were acknowledged when the flush was sent.
    Flush {
        promises: Vec<(u64, u32)>,
    },
}

struct Run {
    seed: u64,
    rng: Rng,
    config: Config,
    ftl: Ftl,
    store: Store,
    now: Nanos,
    volume: VolumeId,
    sectors: Vec<Sector>,
    in_flight: BTreeMap<u32, InFlight>,
    done: Vec<ftl::CompletedIo>,
    next_io: u32,
    next_value: u32,
    saved: Vec<u8>,
    cuts: u64,
    torn: u64,
    /// Writes under way of which a cut left a part.
    parts: u64,
    /// Only a few pages are written, so that several writes of one are under way.
    hot: bool,
}

impl Run {
    fn new(seed: u64) -> Run {
        let mut rng = Rng::new(seed);
        let config = random_config(&mut rng);
        let hot = rng.below(2) == 0;
        let mut ftl = Ftl::new(config.clone()).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        let mut store = Store::new(40_000);
        // Two volumes that are deleted leave holes, so that the volume has several runs of granules.
        let mut create = |mib: u64| ftl.create(SET, mib << 20, &mut store).expect("space");
        let (hole, _kept) = (create(1), create(1));
        ftl.delete(Nanos::ZERO, hole, &mut store);
        let volume = ftl.create(SET, 3 << 20, &mut store).expect("space");
        let sector = Sector { promised: 0, latest: 0, later: Vec::new(), all: vec![0], torn: false };
        let mut saved = Vec::new();
        ftl.save(&mut saved);
        store.journal.clear();
        let sectors = vec![sector; (3 << 20) / SECTOR as usize];
        let (in_flight, done) = (BTreeMap::new(), Vec::new());
        let now = Nanos::ZERO;
        Run {
            seed,
            rng,
            config,
            ftl,
            store,
            now,
            volume,
            sectors,
            in_flight,
            done,
            next_io: 0,
            next_value: 1,
            saved,
            cuts: 0,
            torn: 0,
            parts: 0,
            hot,
        }
    }

    /// A range of sectors. Two writes of a sector are never under way at a time: the host would race with itself.
    fn range(&mut self, clashes: fn(&InFlight) -> Option<(u64, u64)>) -> Option<(u64, u64)> {
        let all = self.sectors.len() as u64;
        let span = match self.rng.below(4) {
            0..=2 if self.hot => 6 * SECTORS,
            0 | 1 => all / 8,
            _ => all,
        };
        let first = self.rng.below(span);
        let count = match self.rng.below(4) {
            0 => 1 + self.rng.below(40),
            1 => 1 + self.rng.below(6),
            _ => SECTORS * (1 + self.rng.below(8)),
        };
        let first = if self.rng.below(2) == 0 { first / SECTORS * SECTORS } else { first };
        let count = count.min(all - first);
        let clash =
            self.in_flight.values().filter_map(clashes).any(|(f, c)| f < first + count && first < f + c);
        (!clash).then_some((first, count))
    }

    fn extent(first: u64, count: u64) -> Extent {
        Extent { start: first * u64::from(SECTOR), bytes: (count * u64::from(SECTOR)) as u32 }
    }

    fn write(&mut self) {
        let under_way = |k: &InFlight| match k {
            InFlight::Write { first, count, .. } | InFlight::Read { first, count, .. } => {
                Some((*first, *count))
            }
            InFlight::Flush { .. } => None,
        };
        let Some((first, count)) = self.range(under_way) else { return };
        let (io, value, durable) = (self.next_io, self.next_value, self.rng.below(5) == 0);
        self.next_io += 1;
        self.next_value += 1;
        self.store.host_writes(Io(io), value);
        for sector in &mut self.sectors[first as usize..(first + count) as usize] {
            sector.later.push(value);
            sector.all.push(value);
        }
        self.in_flight.insert(io, InFlight::Write { first, count, value, durable });
        let extent = Self::extent(first, count);
        let write = Write { durable, ..Write::new(Io(io), self.volume, extent, Source::Host) };
        let answer = self.ftl.write(self.now, write, &mut self.store);
        self.answered(io, answer);
    }

    fn read(&mut self) {
        let writes = |k: &InFlight| match k {
            InFlight::Write { first, count, .. } => Some((*first, *count)),
            _ => None,
        };
        let Some((first, count)) = self.range(writes) else { return };
        let io = self.next_io;
        self.next_io += 1;
        self.store.host_reads(count as usize);
        let extent = Self::extent(first, count);
        let answer = self.ftl.read(self.now, Io(io), self.volume, extent, &mut self.store);
        let values = self.store.host.clone();
        self.in_flight.insert(io, InFlight::Read { first, count, values });
        self.answered(io, answer);
    }

    fn answered(&mut self, io: u32, answer: Answer) {
        match answer {
            Answer::At(_) => self.ended(io, Ok(())),
            Answer::Later => {}
            Answer::Failed(fault) => self.ended(io, Err(fault)),
        }
    }

    fn ended(&mut self, io: u32, result: Result<(), Fault>) {
        let seed = self.seed;
        let command =
            self.in_flight.remove(&io).unwrap_or_else(|| panic!("seed {seed}: command {io} ended twice"));
        match command {
            InFlight::Write { first, count, value, durable } => {
                // A part of a sector can be written only if the sector can be read.
                let range = first as usize..(first + count) as usize;
                let per_sector = match &self.config.sets[0] {
                    SetConfig::Disk { shape, .. } => u64::from(shape.sector_bytes / SECTOR),
                    _ => 1,
                };
                if result == Err(Fault::Unrecovered) && per_sector > 1 {
                    let around =
                        first / per_sector * per_sector..(first + count).next_multiple_of(per_sector);
                    let torn =
                        self.sectors[around.start as usize..around.end as usize].iter().any(|s| s.torn);
                    assert!(torn, "seed {seed}: write of sector {first} failed, and none around it is torn");
                    for sector in &mut self.sectors[range] {
                        sector.later.retain(|&v| v != value);
                    }
                    return;
                }
                assert_eq!(result, Ok(()), "seed {seed}: write of sector {first}");
                let promised = self.config.protected || durable || !self.has_write_cache();
                for sector in &mut self.sectors[range] {
                    sector.latest = value;
                    sector.torn = false;
                    if promised {
                        sector.promised = value;
                        sector.later.retain(|&v| v > value);
                    }
                }
            }
            InFlight::Read { first, count, values } => {
                let sectors = &self.sectors[first as usize..(first + count) as usize];
                if let Err(fault) = result {
                    assert_eq!(fault, Fault::Unrecovered, "seed {seed}");
                    let torn = self.any_torn_near(first, count);
                    assert!(torn, "seed {seed}: read of sectors {first}+{count} failed, and none is torn");
                    return;
                }
                for (i, (value, sector)) in values.iter().zip(sectors).enumerate() {
                    assert!(!sector.torn, "seed {seed}: sector {} is torn and was read", first + i as u64);
                    assert_eq!(*value, sector.latest, "seed {seed}: sector {} reads wrong", first + i as u64);
                }
            }
            InFlight::Flush { promises } => {
                assert_eq!(result, Ok(()), "seed {seed}: flush");
                for (index, value) in promises {
                    let sector = &mut self.sectors[index as usize];
                    if value > sector.promised && sector.later.contains(&value) {
                        sector.promised = value;
                        sector.later.retain(|&v| v > value);
                    }
                }
            }
        }
    }

    /// Whether a sector of the disk that holds one of these is torn.
    fn any_torn_near(&self, first: u64, count: u64) -> bool {
        let around = first / SECTORS * SECTORS..(first + count).next_multiple_of(SECTORS);
        self.sectors[around.start as usize..around.end as usize].iter().any(|s| s.torn)
    }

    fn has_write_cache(&self) -> bool {
        match &self.config.sets[0] {
            SetConfig::Disk { shape, timed, .. } => shape.write_cache && *timed,
            _ => false,
        }
    }

    fn flush(&mut self) {
        let promises = (0..).zip(&self.sectors).filter(|(_, s)| s.latest != s.promised);
        let promises = promises.map(|(i, s)| (i, s.latest)).collect();
        let io = self.next_io;
        self.next_io += 1;
        self.in_flight.insert(io, InFlight::Flush { promises });
        let answer = self.ftl.flush(self.now, Io(io), &mut self.store);
        self.answered(io, answer);
    }

    fn trim(&mut self) {
        let any = |k: &InFlight| match k {
            InFlight::Write { first, count, .. } | InFlight::Read { first, count, .. } => {
                Some((*first, *count))
            }
            InFlight::Flush { .. } => None,
        };
        let Some((first, count)) = self.range(any) else { return };
        let extent = Self::extent(first, count);
        let trimmed =
            self.ftl.trim(self.now, self.volume, extent.start, extent.bytes.into(), &mut self.store);
        trimmed.unwrap_or_else(|e| panic!("seed {}: {e}", self.seed));
        let pages = first.div_ceil(SECTORS)..(first + count) / SECTORS;
        for i in pages.flat_map(|p| p * SECTORS..(p + 1) * SECTORS) {
            self.sectors[i as usize] =
                Sector { promised: 0, latest: 0, later: Vec::new(), all: vec![0], torn: false };
        }
    }

    fn pass_time(&mut self, all: bool) {
        for _ in 0..if all { 1_000_000 } else { 1 + self.rng.below(12) } {
            match self.ftl.next_event() {
                Some(at) => self.now = self.now.max(at),
                None => break,
            }
            self.poll();
        }
        if all {
            let left = self.in_flight.len();
            assert_eq!(left, 0, "seed {}: {left} commands never end; {}", self.seed, self.ftl.describe(SET));
        }
    }

    fn poll(&mut self) {
        let mut done = std::mem::take(&mut self.done);
        self.ftl.poll(self.now, &mut self.store, &mut done);
        done.drain(..).for_each(|done| self.ended(done.io.0, done.result));
        self.done = done;
    }

    fn audit(&self) {
        let sound = self.ftl.audit(SET).and_then(|()| self.store.audit(self.ftl.references()));
        sound.unwrap_or_else(|e| panic!("seed {}: {e}", self.seed));
        // That it is the exact number of mapped pages, this asserts itself.
        self.ftl.allocated_bytes(self.volume);
    }

    /// Cuts power, kills the process, or both, and checks what is there afterwards.
    fn cut(&mut self) {
        self.cuts += 1;
        // Somewhere between two events, where an arm is.
        if let Some(next) = self.ftl.next_event().filter(|next| *next > self.now) {
            self.now += Nanos(self.rng.below((next - self.now).0));
        }
        let (off, energy) = (self.rng.below(3) > 0, self.rng.below(4) > 0);
        let kill = !off || self.rng.below(3) == 0;
        let kept = !off || (self.config.protected && energy);
        self.store.full = self.rng.below(4) == 0;
        if off {
            self.ftl.power_cut(self.now, energy, &mut self.store);
            if kill && self.rng.below(2) == 0 {
                self.save();
            }
        }
        if kill {
            self.restore();
        } else {
            self.ftl.recover(self.now, &mut self.store);
        }
        self.store.full = false;
        let writes = std::mem::take(&mut self.in_flight).into_values().filter_map(|k| match k {
            InFlight::Write { first, count, value, .. } => Some((first, count, value)),
            _ => None,
        });
        let writes: Vec<(u64, u64, u32)> = writes.collect();
        let under_way: Vec<(u64, u64)> = writes.iter().map(|w| (w.0, w.1)).collect();
        self.audit();
        self.check_after_cut(kept, self.config.protected && !kept, &under_way);
        for (first, count, value) in writes {
            let sectors = &self.sectors[first as usize..(first + count) as usize];
            let there = sectors.iter().filter(|s| s.latest == value).count() as u64;
            self.parts += u64::from(there > 0 && there < count);
        }
    }

    fn save(&mut self) {
        self.saved.clear();
        self.ftl.save(&mut self.saved);
        self.store.journal.clear();
    }

    fn restore(&mut self) {
        let seed = self.seed;
        let restorer = Ftl::restore(self.config.clone(), &self.saved);
        let mut restorer: Restorer = restorer.unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        for record in &self.store.journal {
            restorer.apply(&record.borrowed()).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        }
        let ftl = restorer.finish(self.now, &mut self.store);
        self.ftl = ftl.unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        self.save();
    }

    /// `kept`: everything that was complete is there. `betrayed`: capacitors promised to keep it, and did not.
    fn check_after_cut(&mut self, kept: bool, betrayed: bool, under_way: &[(u64, u64)]) {
        let seed = self.seed;
        let mut torn = None;
        for i in 0..self.sectors.len() as u64 {
            self.store.host_reads(1);
            let answer =
                self.ftl.read(self.now, Io(u32::MAX), self.volume, Self::extent(i, 1), &mut self.store);
            let value = self.store.host[0];
            let mut done = Vec::new();
            while done.is_empty() && answer == Answer::Later {
                self.now = self.now.max(self.ftl.next_event().expect("the read ends"));
                self.ftl.poll(self.now, &mut self.store, &mut done);
            }
            let result = done.first().map_or(Ok(()), |d| d.result);
            let cuts = self.cuts;
            // A sector that is written through the disk's buffer is not in flight for the host.
            let may_tear = under_way.iter().any(|&(first, count)| {
                (first / SECTORS * SECTORS..(first + count).next_multiple_of(SECTORS)).contains(&i)
            });
            let sector = &mut self.sectors[i as usize];
            if result.is_err() {
                let was_volatile = !sector.later.is_empty() || may_tear || sector.torn;
                let near = self.any_torn_near(i, 1) || was_volatile || self.near_volatile(i, betrayed);
                assert!(
                    near,
                    "seed {seed}: after cut {cuts}, sector {i} cannot be read, and nothing was writing it"
                );
                assert!(
                    !kept || self.sectors[i as usize].torn || self.any_torn_near(i, 1),
                    "seed {seed}: cut {cuts}: sector {i} is lost"
                );
                let sector = &mut self.sectors[i as usize];
                if !sector.torn {
                    self.torn += 1;
                    let page = i / SECTORS;
                    let other = torn.replace(page).filter(|&other| other != page);
                    assert_eq!(other, None, "seed {seed}: cut {cuts}: a disk writes one sector at a time");
                }
                sector.torn = true;
                sector.promised = value;
                sector.latest = value;
                sector.later.clear();
                sector.all = vec![value];
                continue;
            }
            let written = value == sector.promised || sector.later.contains(&value);
            let allowed = match kept {
                true => value == sector.latest || (value > sector.latest && written),
                // Everything that was in the disk's buffer may be gone, and nothing that was on the platters.
                false if betrayed => sector.all.contains(&value),
                false => written,
            };
            assert!(allowed, "seed {seed}: after cut {cuts}, sector {i} holds {value}, not {sector:?}");
            let rewritten = !sector.later.is_empty() || (betrayed && sector.all.len() > 1);
            let healed = !sector.torn || rewritten;
            assert!(healed, "seed {seed}: after cut {cuts}, sector {i} is torn and can be read");
            sector.torn = false;
            sector.latest = value;
            sector.promised = value;
            sector.later.clear();
            sector.all = vec![value];
        }
    }

    /// Whether the host's writes to a page are not safe from a power cut.
    fn near_volatile(&self, i: u64, betrayed: bool) -> bool {
        let first = i / SECTORS * SECTORS;
        let page = &self.sectors[first as usize..(first + SECTORS) as usize];
        page.iter().any(|s| !s.later.is_empty() || (betrayed && s.all.len() > 1))
    }

    fn go(&mut self, steps: u32) {
        for _ in 0..steps {
            match self.rng.below(100) {
                0..45 => self.write(),
                45..62 => self.read(),
                62..66 => self.trim(),
                66..70 => self.flush(),
                70..92 => self.pass_time(false),
                92 => self.pass_time(true),
                93 => self.audit(),
                94 => self.save(),
                // Time in which the host does nothing.
                95 => {
                    self.pass_time(true);
                    self.now += Nanos(self.rng.below(5_000_000_000));
                }
                _ => self.cut(),
            }
        }
        self.pass_time(true);
        self.audit();
        self.cut();
        self.audit();
    }
}

#[test]
fn random_operations_and_power_cuts() {
    let (mut cuts, mut torn, mut parts) = (0, 0, 0);
    let rounds = for_seeds(40, |seed| {
        let mut run = Run::new(seed);
        run.go(600);
        (cuts, torn, parts) = (cuts + run.cuts, torn + run.torn, parts + run.parts);
    });
    println!("{rounds} disks, {cuts} cuts, {parts} writes left in part, {torn} sectors torn");
    assert!(rounds < 40 || torn > 0 && parts > 0, "no cut tore a sector, or left a part of a write");
}
