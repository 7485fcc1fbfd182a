//! The translation layer against a model: random writes, reads, deallocations, flushes, power cuts,
//! kills with journal replay, program and erase failures, on small drives of random shapes.
//!
//!     TRANCHE_MODEL_ROUNDS=10000 cargo test -p ftl --release --test suite model::      (a campaign)
//!     TRANCHE_MODEL_FIRST=10000 …                                                       (its first seed)
//!     TRANCHE_MODEL_SEED=42 cargo test -p ftl --test suite model::                     (repeats one seed)

use crate::support::{SECTOR, Store, for_seeds, pick};
use ftl::{
    Answer, Candidate, Config, Extent, Fault, Ftl, GcConfig, GcPolicy, HostWrite, Io, PAGE, PlacementConfig,
    PlacementPolicy, Policies, Restorer, SetConfig, SetId, Source, VictimPolicy, VolumeId, Write, Writer,
    ZonesConfig,
};
use media::{Cell, FaultPlan, Geometry, MemoryConfig, MemoryKind, NandConfig, NandTiming, Nanos, Rng};
use std::collections::BTreeMap;
use std::sync::Arc;

const SECTORS: u64 = (PAGE / SECTOR) as u64;

/// Policies without any sense, some of whose answers cannot be.
#[derive(Clone)]
struct Whims {
    rng: Rng,
    hosts: usize,
    relocations: usize,
}

impl VictimPolicy for Whims {
    fn choose(&mut self, candidates: &mut dyn Iterator<Item = Candidate>) -> Option<u32> {
        let all: Vec<Candidate> = candidates.collect();
        match self.rng.below(8) {
            0 => None,
            1 => Some(self.rng.next_u64() as u32),
            _ => all.get(self.rng.below(all.len().max(1) as u64) as usize).map(|c| c.superblock),
        }
    }
}

impl PlacementPolicy for Whims {
    fn host_streams(&self, _handles: usize) -> usize {
        self.hosts
    }

    fn relocation_streams(&self, _handles: usize) -> usize {
        self.relocations
    }

    fn host(&mut self, _write: HostWrite) -> usize {
        self.rng.below(self.hosts as u64 + 1) as usize
    }

    fn relocated(&mut self, _victim: &Candidate) -> Writer {
        let stream = self.rng.below(self.relocations as u64 + 1) as usize;
        if self.rng.below(8) == 0 { Writer::Host(stream) } else { Writer::Relocation(stream) }
    }
}

/// Policies of another crate, sometimes.
fn whims(rng: &mut Rng) -> Policies {
    let whims = Whims {
        rng: Rng::new(rng.next_u64()),
        hosts: 1 + rng.below(4) as usize,
        relocations: 1 + rng.below(3) as usize,
    };
    Policies {
        victim: (rng.below(4) == 0).then(|| Arc::new(whims.clone()) as Arc<dyn VictimPolicy>),
        placement: (rng.below(4) == 0).then(|| Arc::new(whims) as Arc<dyn PlacementPolicy>),
    }
}

fn random_config(rng: &mut Rng) -> Config {
    let cell = pick(rng, &[Cell::Slc, Cell::Mlc, Cell::Tlc]);
    let (planes, sense_pages) = (pick(rng, &[1, 2]), pick(rng, &[1, 4]));
    let unit_pages = planes * sense_pages * pick(rng, &[1, cell.bits()]);
    let dies = pick(rng, &[1, 2, 4]);
    let mut placement = PlacementConfig { handles: pick(rng, &[1, 1, 2, 4]), isolated: rng.below(2) == 0 };
    let policies = whims(rng);
    let mut hosts = placement.handles;
    let mut more = 2 * (hosts - 1) + if placement.isolated { hosts - 1 } else { 0 };
    if let Some(own) = &policies.placement {
        placement.handles = 1;
        hosts = own.host_streams(1) as u32;
        more = 2 * (hosts - 1) + own.relocation_streams(1) as u32 - 1;
    }
    // Superblocks of about 64 pages, 24 to 40 of them, and more for placement handles.
    let units_per_block = (64 / (unit_pages * dies)).max(2);
    let superblocks = 27 + more + rng.below(16) as u32;
    let geometry = Geometry {
        dies,
        channels: 1,
        planes,
        superblocks,
        units_per_block,
        unit_pages,
        sense_pages,
        in_place: false,
        rated_cycles: 100_000,
    };
    let timed = rng.below(4) > 0;
    let timing = match timed {
        false => NandTiming::default(),
        true => NandTiming {
            sense: Nanos(40_000).into(),
            program: Nanos(300_000),
            erase: Nanos(2_000_000),
            channel_bytes_per_second: 400_000_000,
            suspend: Nanos(5_000),
            resume: Nanos(5_000),
            max_suspends: pick(rng, &[0, 2]),
        },
    };
    let raw = geometry.pages() as u32;
    let ahead = pick(rng, &[0, 3]);
    let more = more + ahead;
    let reserve = (8 + more + rng.below(4) as u32) * geometry.pages_per_superblock();
    let capacity_pages = (raw - reserve) / 256 * 256;
    let atomic_pages = if unit_pages >= 4 { pick(rng, &[1, 4]) } else { 1 };
    let per_billion = pick(rng, &[0, 0, 3_000_000, 20_000_000]);
    let units = hosts.max(1 + rng.below(4) as u32);
    let buffer_pages = (unit_pages.max(atomic_pages) * units).max(16);
    Config {
        sets: vec![
            SetConfig::Nand {
                nand: NandConfig { geometry, cell, timing, durable: true },
                capacity_pages,
                gc: GcConfig {
                    policy: pick(rng, GcPolicy::ALL),
                    ahead,
                    window: pick(rng, &[25, 100]),
                    wear_gap: pick(rng, &[3, 100]),
                    wear_stop: pick(rng, &[None, Some(1)]),
                    together: match hosts == 1 && policies.placement.is_none() {
                        true => pick(rng, &[0, 40, 100]),
                        false => 0,
                    },
                    idle_share: pick(rng, &[1, 8]),
                    ..GcConfig::default()
                },
                placement,
                policies,
                zones: ZonesConfig::default(),
            },
            SetConfig::Memory {
                memory: MemoryConfig {
                    kind: MemoryKind::Dram,
                    pages: 256,
                    banks: 2,
                    read_latency: Nanos(100),
                    write_latency: Nanos(100),
                    bytes_per_second: Default::default(),
                    rated_cycles: u32::MAX,
                    durable: true,
                },
                volatile: true,
            },
        ],
        buffer_pages,
        protected: rng.below(2) == 0,
        energy_bytes: 1 << 30,
        atomic_pages,
        durable: true,
        faults: FaultPlan {
            seed: rng.next_u64(),
            program_failures: per_billion,
            erase_failures: per_billion,
            // Programs then end in another order than they began in.
            slow_operations: pick(rng, &[0, 200_000_000]),
            slow_factor: 5,
            ..FaultPlan::default()
        },
    }
}

/// What a sector may hold after a power cut: the last value that is promised, and all later ones.
#[derive(Clone, Debug)]
struct Sector {
    promised: u32,
    /// What a read returns now, once nothing is in flight.
    latest: u32,
    /// Written since the promise, acknowledged or not.
    later: Vec<u32>,
    /// All of it since the last power cut or deallocation.
    all: Vec<u32>,
}

impl Sector {
    fn new(value: u32) -> Sector {
        Sector { promised: value, latest: value, later: Vec::new(), all: vec![value] }
    }
}

#[derive(Clone, Debug)]
enum InFlight {
    Write {
        volume: usize,
        first: u64,
        count: u64,
        value: u32,
        durable: bool,
    },
    /// Values that were acknowledged when the flush was sent.
    Flush {
        promises: Vec<(usize, u64, u32)>,
    },
}

struct Run {
    seed: u64,
    rng: Rng,
    config: Config,
    ftl: Ftl,
    store: Store,
    now: Nanos,
    volumes: Vec<(VolumeId, Vec<Sector>)>,
    in_flight: BTreeMap<u32, InFlight>,
    done: Vec<ftl::CompletedIo>,
    next_io: u32,
    next_value: u32,
    saved: Vec<u8>,
    cuts: u32,
    worn_out: bool,
    /// Whether a few pages are written again and again.
    hot: bool,
}

impl Run {
    fn new(seed: u64) -> Run {
        let mut rng = Rng::new(seed);
        let config = random_config(&mut rng);
        let hot = rng.below(2) == 0;
        let mut ftl = Ftl::new(config.clone()).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        ftl.set_faults(SetId(1), FaultPlan::default());
        // Twice what the volumes can hold: a page on flash, and another that replaces it.
        let slots: u64 = ftl.set_info(SetId(0)).map_or(0, |s| s.capacity_bytes / u64::from(PAGE)) * 2 + 1024;
        let mut store = Store::new(slots as u32);
        let mut volumes = Vec::new();
        for set in [SetId(0), SetId(1)] {
            let bytes = ftl.set_info(set).map_or(0, |s| s.unallocated_bytes);
            let volume = ftl.create(set, bytes, &mut store).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
            let sector = Sector::new(0);
            volumes.push((volume, vec![sector; (bytes / u64::from(SECTOR)) as usize]));
        }
        let mut saved = Vec::new();
        ftl.save(&mut saved);
        store.journal.clear();
        let (now, next_io, next_value) = (Nanos::ZERO, 0, 1);
        let (in_flight, done) = (BTreeMap::new(), Vec::new());
        Run {
            seed,
            rng,
            config,
            ftl,
            store,
            now,
            volumes,
            in_flight,
            done,
            next_io,
            next_value,
            saved,
            cuts: 0,
            worn_out: false,
            hot,
        }
    }

    /// A range of sectors that no write in flight touches: hosts must not race with themselves.
    fn range(&mut self) -> Option<(usize, u64, u64)> {
        let volume = usize::from(self.rng.below(8) == 0);
        let sectors = self.volumes[volume].1.len() as u64;
        // Mostly a small hot part, so that pages are overwritten in the buffer and on their way.
        let group = u64::from(self.config.atomic_pages) * SECTORS;
        let span = match self.rng.below(6) {
            // So small a part at times that there are several versions of a page on their way.
            0 | 1 if self.hot => 4 * group,
            0..4 => sectors / 8,
            _ => sectors,
        };
        let (first, count) = if self.config.atomic_pages > 1 {
            (self.rng.below(span / group) * group, group * (1 + self.rng.below(2)))
        } else if self.rng.below(3) == 0 {
            (self.rng.below(span), 1 + self.rng.below(20))
        } else {
            (self.rng.below(span / SECTORS) * SECTORS, SECTORS * (1 + self.rng.below(12)))
        };
        let count = count.min(sectors - first);
        let clash = self.in_flight.values().any(|k| match k {
            InFlight::Write { volume: v, first: f, count: c, .. } => {
                *v == volume && *f < first + count && first < *f + *c
            }
            InFlight::Flush { .. } => false,
        });
        (!clash).then_some((volume, first, count))
    }

    fn extent(first: u64, count: u64) -> Extent {
        Extent { start: first * u64::from(SECTOR), bytes: (count * u64::from(SECTOR)) as u32 }
    }

    fn write(&mut self) {
        let Some((volume, first, count)) = self.range() else { return };
        let (io, value, durable) = (self.next_io, self.next_value, self.rng.below(8) == 0);
        self.next_io += 1;
        self.next_value += 1;
        self.store.host_writes(Io(io), value);
        for sector in &mut self.volumes[volume].1[first as usize..(first + count) as usize] {
            sector.later.push(value);
            sector.all.push(value);
        }
        self.in_flight.insert(io, InFlight::Write { volume, first, count, value, durable });
        let id = self.volumes[volume].0;
        // Now and then one that does not exist.
        let handle = self.rng.below(5) as u8;
        let write = Write::new(Io(io), id, Self::extent(first, count), Source::Host);
        let answer = self.ftl.write(self.now, Write { durable, handle, ..write }, &mut self.store);
        self.answered(io, answer);
    }

    fn answered(&mut self, io: u32, answer: Answer) {
        match answer {
            Answer::At(_) => self.ended(io),
            Answer::Later => {}
            Answer::Failed(fault) => self.failed(io, fault),
        }
    }

    /// Only a worn-out drive may refuse; what it held must still be there.
    fn failed(&mut self, io: u32, fault: Fault) {
        assert_eq!(fault, Fault::ReadOnly, "seed {}: command {io}", self.seed);
        self.in_flight.remove(&io);
        self.worn_out = true;
    }

    fn ended(&mut self, io: u32) {
        let protected = self.config.protected;
        match self.in_flight.remove(&io) {
            Some(InFlight::Write { volume, first, count, value, durable }) => {
                // Memory is written in place: durable when it is acknowledged, if it is protected.
                for sector in &mut self.volumes[volume].1[first as usize..(first + count) as usize] {
                    sector.latest = value;
                    if protected || (durable && volume == 0) {
                        sector.promised = value;
                        sector.later.retain(|&v| v > value);
                    }
                }
            }
            Some(InFlight::Flush { promises }) => {
                for (volume, index, value) in promises {
                    let sector = &mut self.volumes[volume].1[index as usize];
                    // Unless it was deallocated in between.
                    if value > sector.promised && sector.later.contains(&value) {
                        sector.promised = value;
                        sector.later.retain(|&v| v > value);
                    }
                }
            }
            None => panic!("seed {}: command {io} ended twice", self.seed),
        }
    }

    fn flush(&mut self) {
        let promises = self.volumes[0]
            .1
            .iter()
            .enumerate()
            .filter(|(_, s)| s.latest != s.promised)
            .map(|(i, s)| (0, i as u64, s.latest))
            .collect();
        let io = self.next_io;
        self.next_io += 1;
        self.in_flight.insert(io, InFlight::Flush { promises });
        let answer = match self.rng.below(8) {
            0 => self.ftl.shutdown(self.now, Io(io), &mut self.store),
            _ => self.ftl.flush(self.now, Io(io), &mut self.store),
        };
        self.answered(io, answer);
    }

    fn trim(&mut self) {
        let Some((volume, first, count)) = self.range() else { return };
        let extent = Self::extent(first, count);
        let id = self.volumes[volume].0;
        let (start, bytes) = (extent.start, u64::from(extent.bytes));
        self.ftl
            .trim(self.now, id, start, bytes, &mut self.store)
            .unwrap_or_else(|e| panic!("seed {}: {e}", self.seed));
        let pages = first.div_ceil(SECTORS)..(first + count) / SECTORS;
        for sector in pages.flat_map(|p| p * SECTORS..(p + 1) * SECTORS) {
            self.volumes[volume].1[sector as usize] = Sector::new(0);
        }
    }

    fn read(&mut self, volume: usize, first: u64, count: u64) -> Vec<u32> {
        let id = self.volumes[volume].0;
        self.store.host_reads(count as usize);
        let answer = self.ftl.read(self.now, Io(u32::MAX), id, Self::extent(first, count), &mut self.store);
        assert!(matches!(answer, Answer::At(_)), "seed {}: read of sector {first}: {answer:?}", self.seed);
        self.store.host.clone()
    }

    fn check_read(&mut self) {
        let Some((volume, first, count)) = self.range() else { return };
        let values = self.read(volume, first, count);
        for (i, value) in values.into_iter().enumerate() {
            let sector = &self.volumes[volume].1[first as usize + i];
            assert_eq!(
                value,
                sector.latest,
                "seed {}: volume {volume} sector {} reads wrong",
                self.seed,
                first + i as u64
            );
        }
    }

    /// What a volume says it holds is at least what was written and not deallocated; that it is the exact
    /// number of mapped pages, `allocated_bytes` asserts itself.
    fn check_allocation(&self) {
        for (id, sectors) in &self.volumes {
            let written = sectors.chunks(SECTORS as usize).filter(|page| page.iter().any(|s| s.latest != 0));
            let (allocated, written) = (self.ftl.allocated_bytes(*id), written.count() as u64 * 4096);
            assert!(
                allocated >= written,
                "seed {}: {allocated} bytes allocated, {written} written",
                self.seed
            );
        }
    }

    /// Looks at everything that the drive keeps in memory.
    fn audit(&self) {
        let sound = self.ftl.audit(SetId(0)).and_then(|()| self.store.audit(self.ftl.references()));
        sound.unwrap_or_else(|e| panic!("seed {}: {e}", self.seed));
    }

    fn pass_time(&mut self, all: bool) {
        for _ in 0..if all { 1_000_000 } else { 1 + self.rng.below(20) } {
            if all && self.in_flight.is_empty() {
                return;
            }
            match self.ftl.next_event() {
                Some(at) => self.now = self.now.max(at),
                None if all => panic!(
                    "seed {}: {} commands never end; {}",
                    self.seed,
                    self.in_flight.len(),
                    self.ftl.describe(SetId(0))
                ),
                None => return,
            }
            self.poll();
        }
        assert!(!all, "seed {}: the drive never comes to rest", self.seed);
    }

    fn poll(&mut self) {
        let mut done = std::mem::take(&mut self.done);
        self.ftl.poll(self.now, &mut self.store, &mut done);
        for done in done.drain(..) {
            match done.result {
                Ok(()) => self.ended(done.io.0),
                Err(fault) => self.failed(done.io.0, fault),
            }
        }
        self.done = done;
    }

    /// Cuts power, kills the process, or both, and checks what is there afterwards.
    fn cut(&mut self) {
        self.cuts += 1;
        let bad = self.bad_blocks();
        let protected = self.config.protected;
        let (off, energy) = (self.rng.below(2) == 0, self.rng.below(4) > 0);
        let kill = !off || self.rng.below(3) == 0;
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
        let (seed, now_bad) = (self.seed, self.bad_blocks());
        assert!(now_bad >= bad, "seed {seed}: {bad} blocks of flash were bad, now {now_bad} are");
        let kept = !off || (protected && energy);
        if protected && !kept {
            // The capacitors promise nothing.
            for sector in self.volumes.iter_mut().flat_map(|(_, sectors)| sectors) {
                sector.later.clone_from(&sector.all);
            }
        }
        self.check_after_cut(!off, !kept);
    }

    fn bad_blocks(&self) -> u32 {
        self.ftl.set_info(SetId(0)).expect("the set is there").bad_blocks
    }

    /// The process is gone: opens what was saved and recorded.
    fn restore(&mut self) {
        let restorer = Ftl::restore(self.config.clone(), &self.saved);
        let mut restorer: Restorer = restorer.unwrap_or_else(|e| panic!("seed {}: {e}", self.seed));
        for record in &self.store.journal {
            restorer.apply(&record.borrowed()).unwrap_or_else(|e| panic!("seed {}: {e}", self.seed));
        }
        let ftl = restorer.finish(self.now, &mut self.store);
        self.ftl = ftl.unwrap_or_else(|e| panic!("seed {}: {e}", self.seed));
        self.ftl.set_faults(SetId(1), FaultPlan::default());
        self.save();
    }

    fn check_after_cut(&mut self, complete: bool, memory_lost: bool) {
        self.in_flight.clear();
        self.audit();
        self.poll();
        for volume in 0..self.volumes.len() {
            let sectors = self.volumes[volume].1.len() as u64;
            let group = u64::from(self.config.atomic_pages) * SECTORS;
            for first in (0..sectors).step_by(group as usize) {
                let values = self.read(volume, first, group.min(sectors - first));
                if self.config.atomic_pages > 1 && volume == 0 {
                    let torn = values.iter().any(|v| v != &values[0]);
                    assert!(!torn, "seed {}: torn atomic write at sector {first}: {values:?}", self.seed);
                }
                for (i, value) in values.into_iter().enumerate() {
                    let sector = &mut self.volumes[volume].1[first as usize + i];
                    let written = value == sector.promised || sector.later.contains(&value);
                    let allowed = match complete {
                        // Whatever becomes of the process, what was completed is there.
                        true => value == sector.latest || (value > sector.latest && written),
                        false if volume == 1 && memory_lost => value == 0,
                        false => written,
                    };
                    assert!(
                        allowed,
                        "seed {}: after cut {}, volume {volume} sector {} holds {value}, not {sector:?}",
                        self.seed,
                        self.cuts,
                        first + i as u64
                    );
                    sector.latest = value;
                    sector.all.retain(|&v| v <= value);
                    // What a killed process had in its buffer is there again, and power can still take it away.
                    if complete && !self.config.protected {
                        sector.later.retain(|&v| v <= value);
                    } else {
                        sector.promised = value;
                        sector.later.clear();
                    }
                }
            }
        }
    }

    fn save(&mut self) {
        self.saved.clear();
        self.ftl.save(&mut self.saved);
        self.store.journal.clear();
    }

    fn go(&mut self, steps: u32) {
        for _ in 0..steps {
            if self.worn_out {
                break;
            }
            match self.rng.below(100) {
                0..55 => self.write(),
                55..70 => self.check_read(),
                70..76 => self.trim(),
                76..80 => self.flush(),
                80 => {
                    let handle = self.rng.below(4) as u8;
                    self.ftl.renew_handle(self.now, SetId(0), handle, &mut self.store);
                }
                81 => {
                    let ahead = self.rng.below(2) == 0;
                    self.ftl.collect_ahead(self.now, SetId(0), ahead, &mut self.store);
                }
                82 => {
                    let held = self.rng.below(3) > 0;
                    self.ftl.pause_gc(self.now, SetId(0), held, &mut self.store);
                }
                83..96 => self.pass_time(false),
                97 => {
                    self.pass_time(true);
                    self.check_allocation();
                }
                96 => self.audit(),
                98 => self.save(),
                _ => self.cut(),
            }
        }
        self.pass_time(true);
        self.check_allocation();
        self.audit();
        self.cut();
        self.check_allocation();
        self.audit();
    }
}

#[test]
fn random_operations_and_power_cuts() {
    let (mut cuts, mut worn_out) = (0, 0);
    let rounds = for_seeds(60, |seed| {
        let mut run = Run::new(seed);
        run.go(3000);
        cuts += run.cuts;
        worn_out += u32::from(run.worn_out);
    });
    println!("{rounds} drives, {cuts} power cuts and kills, {worn_out} drives worn out");
}
