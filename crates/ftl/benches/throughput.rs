//! The translation layer and the media alone: 16 GiB of flash (64 dies x 256 blocks x 256 pages of
//! 4 KiB), no contents, one thread, 4 KiB uniform random, in virtual time.
//!
//!     cargo bench -p ftl --bench throughput [-- SPARE%...]
//!
//! Prints host operations per second of CPU time, write amplification beside theory, and the latencies
//! of writes in virtual time.

use ftl::{
    Answer, Config, Extent, Ftl, GcConfig, Io, NoContents, SetConfig, SetId, Source, WriteHistory,
    ZonesConfig,
};
use media::{Cell, Events, Geometry, NandConfig, NandTiming, Nanos, Rng};

const PAGE: u64 = 4096;
const DEPTH: u32 = 64;

/// CPU time of this process in seconds.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let nanos: f64 = stat.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0.0);
    nanos / 1e9
}

fn config(spare_percent: f64) -> Config {
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
            zones: ZonesConfig::default(),
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
struct ClosedLoop {
    ftl: Ftl,
    volume: ftl::VolumeId,
    pages: u64,
    now: Nanos,
    rng: Rng,
    begun: Vec<Nanos>,
    free: Vec<u32>,
    /// Ends that are known already.
    ends: Events<u32>,
    /// The page after the one that is next: a controller, too, sees its queue.
    coming: u64,
    done: Vec<ftl::CompletedIo>,
    latencies: Vec<u32>,
}

impl ClosedLoop {
    fn new(spare: f64) -> ClosedLoop {
        let mut ftl = Ftl::new(config(spare)).expect("a good configuration");
        let bytes = ftl.set_info(SetId(0)).expect("set").capacity_bytes;
        let volume = ftl.create(SetId(0), bytes, &mut NoContents).expect("space");
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

    fn write(&mut self, page: u64) {
        self.wait();
        let io = self.free.pop().expect("waited");
        self.begun[io as usize] = self.now;
        let extent = Extent { start: page * PAGE, bytes: PAGE as u32 };
        match self.ftl.write(self.now, Io(io), self.volume, extent, Source::Host, false, &mut NoContents) {
            Answer::At(at) => self.ends.push(at, io),
            Answer::Later => {}
            Answer::Failed(fault) => panic!("{fault}"),
        }
    }

    fn read(&mut self, page: u64) {
        self.wait();
        let io = self.free.pop().expect("waited");
        self.begun[io as usize] = self.now;
        let extent = Extent { start: page * PAGE, bytes: PAGE as u32 };
        match self.ftl.read(self.now, Io(io), self.volume, extent, &mut NoContents) {
            Answer::At(end) => self.ends.push(end, io),
            answer => panic!("{answer:?}"),
        }
    }

    fn random(&mut self) -> u64 {
        let page = std::mem::replace(&mut self.coming, self.rng.below(self.pages));
        self.ftl.prefetch(self.volume, self.coming * PAGE);
        page
    }
}

/// The branch of the Lambert function that the formula needs, by Newton's method.
fn theory(alpha: f64) -> f64 {
    let x = -alpha * (-alpha).exp();
    let mut w = -0.5;
    for _ in 0..100 {
        w -= (w * f64::exp(w) - x) / (f64::exp(w) * (w + 1.0));
    }
    alpha / (alpha + w)
}

fn main() {
    let spares: Vec<f64> =
        std::env::args().skip(1).filter_map(|a| a.trim_end_matches('%').parse().ok()).collect();
    let spares = if spares.is_empty() { vec![28.0, 12.5, 7.0] } else { spares };
    println!("spare  writes/s  WA    theory  p50 us  p99 us  p99.99 us  max us   reads/s");
    for spare in spares {
        let mut load = ClosedLoop::new(spare);
        // What was written for long, and more until the last of it is settled.
        assert!(load.ftl.precondition(
            Nanos::ZERO,
            &[load.volume],
            WriteHistory::Overwritten(1),
            &mut NoContents,
            &mut || true
        ));
        for _ in 0..load.pages / 2 {
            let page = load.random();
            load.write(page);
        }
        load.latencies.clear();
        let before = load.ftl.set_stats(SetId(0));
        let begin = cpu_seconds();
        let count = load.pages;
        for _ in 0..count {
            let page = load.random();
            load.write(page);
        }
        let rate = count as f64 / (cpu_seconds() - begin);
        let after = load.ftl.set_stats(SetId(0));
        let amplification = (after.media_written_bytes - before.media_written_bytes) as f64
            / (after.host_written_bytes - before.host_written_bytes) as f64;
        load.latencies.sort_unstable();
        let at = |q: f64| f64::from(load.latencies[((load.latencies.len() - 1) as f64 * q) as usize]) / 1e3;
        let (p50, p99, p9999, most) = (at(0.5), at(0.99), at(0.9999), at(1.0));
        // Open superblocks and those kept free are no spare: two half-full ones and the free ones.
        let geometry_pages = load.ftl.set_info(SetId(0)).map_or(0, |s| s.raw_bytes / PAGE);
        let reserved = (2.0 + 1.0) * 16384.0;
        let effective = (geometry_pages as f64 - reserved) / load.pages as f64;
        let begin = cpu_seconds();
        let count = 4 * load.pages;
        for _ in 0..count {
            let page = load.random();
            load.read(page);
        }
        let reads = count as f64 / (cpu_seconds() - begin);
        println!(
            "{spare:>4}%  {:>6.3} M  {amplification:.3}  {:.3}  {p50:>6.1}  {p99:>6.1}  {p9999:>8.1}  {most:>8.1}  {:>6.3} M",
            rate / 1e6,
            theory(effective),
            reads / 1e6
        );
    }
}
