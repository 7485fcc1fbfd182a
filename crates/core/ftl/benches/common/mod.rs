//! The chips and the closed loop of the benchmarks.

#![allow(dead_code, reason = "not every benchmark needs all of it")]

use ftl::{
    Answer, Config, Extent, Ftl, GcConfig, Io, NoContents, SetConfig, SetId, Source, VolumeId, Write,
    ZonesConfig,
};
use media::{Cell, Events, Geometry, NandConfig, NandTiming, Nanos, Rng};

pub const PAGE: u64 = 4096;
pub const DEPTH: u32 = 64;

/// CPU time of this process in seconds.
pub fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let nanos: f64 = stat.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0.0);
    nanos / 1e9
}

/// 16 GiB of flash with so much spare, and these zones.
pub fn config(spare_percent: f64, zones: ZonesConfig) -> Config {
    let geometry = Geometry {
        dies: 64,
        channels: 8,
        planes: 1,
        superblocks: 256,
        units_per_block: 256,
        unit_pages: 1,
        sense_pages: 1,
        in_place: false,
        rated_cycles: 1_000_000,
    };
    let timing = NandTiming {
        sense: Nanos(40_000).into(),
        program: Nanos(200_000),
        erase: Nanos(2_000_000),
        channel_bytes_per_second: 800_000_000,
        suspend: Nanos(5_000),
        resume: Nanos(5_000),
        max_suspends: 4,
    };
    let capacity = (geometry.pages() as f64 / (1.0 + spare_percent / 100.0)) as u32 / 256 * 256;
    Config {
        sets: vec![SetConfig::Nand {
            nand: NandConfig { geometry, cell: Cell::Slc, timing, durable: false },
            capacity_pages: capacity,
            gc: GcConfig::default(),
            placement: Default::default(),
            policies: Default::default(),
            zones,
        }],
        buffer_pages: 1024,
        protected: true,
        energy_bytes: 1 << 30,
        atomic_pages: 1,
        durable: false,
        faults: Default::default(),
    }
}

/// Writes in a closed loop; returns the latency of each in nanoseconds.
pub struct ClosedLoop {
    pub ftl: Ftl,
    pub volume: VolumeId,
    pub pages: u64,
    pub now: Nanos,
    rng: Rng,
    begun: Vec<Nanos>,
    free: Vec<u32>,
    /// Ends that are known already.
    ends: Events<u32>,
    /// The page after the one that is next: a controller, too, sees its queue.
    coming: u64,
    done: Vec<ftl::CompletedIo>,
    pub latencies: Vec<u32>,
}

impl ClosedLoop {
    /// On one page-mapped volume of all that the flash offers.
    pub fn new(spare: f64) -> ClosedLoop {
        let mut ftl = Ftl::new(config(spare, ZonesConfig::default())).expect("a good configuration");
        let bytes = ftl.set_info(SetId(0)).expect("set").capacity_bytes;
        let volume = ftl.create(SetId(0), bytes, &mut NoContents).expect("space");
        ClosedLoop::on(ftl, volume, bytes)
    }

    /// On a volume of so many bytes.
    pub fn on(ftl: Ftl, volume: VolumeId, bytes: u64) -> ClosedLoop {
        ClosedLoop {
            ftl,
            volume,
            pages: bytes / PAGE,
            now: Nanos::ZERO,
            rng: Rng::new(1),
            begun: vec![Nanos::ZERO; DEPTH as usize],
            free: (0..DEPTH).collect(),
            ends: Default::default(),
            coming: 0,
            done: Vec::new(),
            latencies: Vec::new(),
        }
    }

    /// Waits until another command may begin, which is numbered so.
    pub fn begin(&mut self) -> Io {
        self.wait();
        let io = self.free.pop().expect("waited");
        self.begun[io as usize] = self.now;
        Io(io)
    }

    /// Takes the answer to a command.
    pub fn answered(&mut self, io: Io, answer: Answer) {
        match answer {
            Answer::At(at) => self.ends.push(at, io.0),
            Answer::Later => {}
            Answer::Failed(fault) => panic!("{fault}"),
        }
    }

    fn wait(&mut self) {
        while self.free.is_empty() {
            let known = self.ends.next_at();
            let event = self.ftl.next_event();
            self.now = match (known, event) {
                (Some(a), Some(b)) => a.min(b).max(self.now),
                (Some(a), None) | (None, Some(a)) => a.max(self.now),
                (None, None) => panic!("nothing under way"),
            };
            self.ftl.poll(self.now, &mut NoContents, &mut self.done);
            for done in self.done.drain(..) {
                done.result.expect("no faults");
                self.ends.push(done.at, done.io.0);
            }
            while let Some((at, io)) = self.ends.pop_due(self.now) {
                self.latencies.push(at.since(self.begun[io as usize]).0 as u32);
                self.free.push(io);
            }
        }
    }

    pub fn write(&mut self, page: u64) {
        let io = self.begin();
        let extent = Extent { start: page * PAGE, bytes: PAGE as u32 };
        let answer =
            self.ftl.write(self.now, Write::new(io, self.volume, extent, Source::Host), &mut NoContents);
        self.answered(io, answer);
    }

    pub fn read(&mut self, page: u64) {
        let io = self.begin();
        let extent = Extent { start: page * PAGE, bytes: PAGE as u32 };
        let answer = self.ftl.read(self.now, io, self.volume, extent, &mut NoContents);
        self.answered(io, answer);
    }

    pub fn random(&mut self) -> u64 {
        let page = std::mem::replace(&mut self.coming, self.rng.below(self.pages));
        self.ftl.prefetch(self.volume, self.coming * PAGE);
        page
    }
}
