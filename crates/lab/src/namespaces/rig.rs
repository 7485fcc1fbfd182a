//! A drive cut into namespaces, prepared as the tool's act_prep does, and tests of it.

use anyhow::{Context, Result, anyhow, bail};
use hdrhistogram::Histogram;
use host::Host;
use nvme::Nsid;
use run::{
    Config,
    sim::{Contents, Nanos, Sim, SimTransport},
};
use workload::{
    Actor, Mix, MixConfig, Next, Order, Verb,
    act::{self, Act, Kind, LIMITS, Stop, Window},
};

use super::published::THREADS;
use crate::{interrupt, results::Percentiles};

/// Host NQN of the load.
const NQN: &str = "nqn.2026-11.io.tranche:act";
/// Bytes of a large block, and of what act_prep writes at once.
const LARGE: u64 = 128 << 10;
/// Threads with which act_prep writes a device.
const PREP_THREADS: u32 = 8;
/// Parts of the capacity after which write amplification is compared, and how many there are at most.
const PARTS: u64 = 4;
const PARTS_MAX: u64 = 12;
/// Completions between two looks at what the user wants.
const LOOK: u64 = 4096;
/// Rest before each test, in which the drive ends what it has begun.
const REST: u64 = 100_000_000;
/// A thread that is behind by this share of the test's length (1 in …) at its end does not keep up: in the 24 hours of the real test, where 10 seconds are
/// allowed, it would be stopped.
const BEHIND: u64 = 100;
const SECOND: u64 = 1_000_000_000;

/// Why a multiple does not pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Limit {
    /// The one thread of each device that reads large blocks is behind, or the one that writes them, or requests queue up.
    Behind(Stop),
    /// Too many small reads take longer than a limit of the tool: its index in [`LIMITS`].
    Latency(usize),
}

impl Limit {
    pub(super) fn text(self) -> String {
        match self {
            Limit::Behind(Stop::LargeBlockReads) => "the threads that read large blocks".into(),
            Limit::Behind(Stop::LargeBlockWrites) => "the threads that write large blocks".into(),
            Limit::Behind(Stop::Service | Stop::Queued | Stop::Cache) => "the threads of small reads".into(),
            Limit::Latency(index) => {
                let (nanos, mille) = LIMITS[index];
                format!("reads over {} ms ({}.{} % allowed)", nanos / 1_000_000, mille / 10, mille % 10)
            }
        }
    }
}

/// What a test was.
#[derive(Clone, Debug)]
pub(super) struct Trial {
    /// Load as a multiple of 2,000 reads and 1,000 writes per second, of the whole drive.
    pub multiple: u32,
    /// Why it does not pass, if it does not.
    pub limit: Option<Limit>,
    /// Small reads of the measured window.
    pub window: Window,
    /// Their latencies, in milliseconds.
    pub latency: Percentiles,
    /// 99th percentile of large-block reads and writes, in milliseconds.
    pub large_p99_ms: [f64; 2],
    /// Mean of the same.
    pub large_mean_ms: [f64; 2],
    /// Large blocks read and written per second.
    pub large: [f64; 2],
    /// Bytes programmed on flash for each that was written.
    pub write_amplification: f64,
    /// Seconds that were measured.
    pub seconds: f64,
}

/// How long a test takes, in seconds: until it is measured, and measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Length {
    pub ramp: u32,
    pub window: u32,
}

/// A prepared drive.
pub(super) struct Rig {
    // The host goes before the drive.
    host: Host<SimTransport>,
    sim: Sim,
    nsids: Vec<Nsid>,
    spaces: Vec<act::Space>,
    trials: u64,
}

/// The drive's TOML with so many equal namespaces of its first set, with logical blocks of 512 bytes, and nothing else.
pub(super) fn cut(toml: &toml::Table, count: u32) -> Result<Config> {
    let text = |toml: &toml::Table| toml::to_string(toml).context("writing the drive's TOML");
    let whole = Config::from_toml(&text(toml)?)?;
    let first = whole.namespaces.first().context("the drive's profile has no namespace")?;
    let mib = (first.bytes >> 20) / u64::from(count);
    if mib == 0 {
        bail!("the drive is too small for {count} namespaces");
    }
    let mut toml = toml.clone();
    let namespace = |_| {
        let mut table = toml::Table::new();
        table.insert("set".into(), toml::Value::Integer(1));
        table.insert("size".into(), toml::Value::String(format!("{mib}MiB")));
        table.insert("lba".into(), toml::Value::Integer(512));
        toml::Value::Table(table)
    };
    toml.insert("namespace".into(), toml::Value::Array((0..count).map(namespace).collect()));
    Ok(Config::from_toml(&text(&toml)?)?)
}

/// Does nothing until a time.
struct Rest(u64);

impl Actor for Rest {
    fn next(&mut self, now: u64) -> Next {
        if now < self.0 { Next::At(self.0) } else { Next::Done }
    }

    fn completed(&mut self, _: u64, _: u32, _: bool) {}
}

impl Rig {
    /// A drive that has been written as act_prep does, all devices at the same time: every large block of every namespace twice, one
    /// after the other, and then large blocks at random, as the test writes them, until write amplification no longer changes.
    pub(super) fn prepare(mut config: Config, seed: u64) -> Result<Rig> {
        config.timing = true;
        config.ftl.durable = false;
        let count = config.namespaces.len() as u32;
        let sim = Sim::new(config, Contents::None)?;
        let mut host = sim.host(NQN).context("connecting to the drive")?;
        let controller = host.identify_controller()?;
        let mut spaces = Vec::new();
        let nsids: Vec<Nsid> = (1..=count).collect();
        for &nsid in &nsids {
            let namespace = host.namespace(nsid)?;
            spaces.push(act::Space {
                blocks: namespace.blocks,
                block_bytes: namespace.block_size,
                volatile_cache: controller.vwc.present(),
            });
        }
        let mut rig = Rig { host, sim, nsids, spaces, trials: 0 };
        for _ in 0..2 {
            rig.write_all(Order::Sequential, 1, 1, 0)?;
        }
        let mut before: Vec<f64> = Vec::new();
        for part in 0..PARTS_MAX {
            let start = rig.programmed()?;
            let written = rig.write_all(Order::Random, 1, PARTS, seed.wrapping_add(part))?;
            before.push((rig.programmed()? - start) as f64 / written as f64);
            if part + 1 >= PARTS
                && let [.., a, b, c] = before[..]
                && a.max(b).max(c) - a.min(b).min(c) <= a / 50.0
            {
                break;
            }
        }
        Ok(rig)
    }

    /// Writes a share of all namespaces, at the same time; how many bytes.
    fn write_all(&mut self, order: Order, share: u64, of: u64, seed: u64) -> Result<u64> {
        let mut actors = self.sim.actors();
        let mut bytes = 0;
        for (&nsid, space) in self.nsids.iter().zip(&self.spaces) {
            let blocks = (LARGE / u64::from(space.block_bytes)) as u32;
            let count = space.blocks / u64::from(blocks) * share / of;
            bytes += count * LARGE;
            let mix = Mix::new(MixConfig {
                range: space.blocks,
                blocks,
                order,
                writes_per_mille: 1000,
                depth: PREP_THREADS,
                count: Some(count),
                seed: seed ^ u64::from(nsid) << 32,
            });
            actors.add(&mut self.host, nsid, mix)?;
        }
        let mut failed = false;
        actors.run(Nanos::MAX, |step| {
            failed |= !step.status.is_success();
            step.outcome.requests.is_multiple_of(LOOK) && interrupt::asked()
        });
        interrupt::check()?;
        if failed {
            bail!("the drive did not take what prepares it");
        }
        Ok(bytes)
    }

    /// Bytes programmed on flash so far.
    fn programmed(&mut self) -> Result<u64> {
        let written = self.host.ocp_smart()?.physical_media_units_written.get();
        Ok(u64::try_from(written).unwrap_or(u64::MAX))
    }

    /// A test with this multiple of the tool's standard load, for the whole drive, on all its namespaces.
    pub(super) fn test(&mut self, multiple: u32, length: Length, seed: u64) -> Result<Trial> {
        let rest = Rest(self.sim.now().0 + REST);
        let mut actors = self.sim.actors();
        actors.add(&mut self.host, 1, rest)?;
        actors.run(Nanos::MAX, |_| false);

        let (service, queues, each) = THREADS;
        let names = self.nsids.iter().map(|nsid| format!("/dev/nvme0n{nsid}")).collect();
        let config = act::Config {
            test_duration_sec: length.ramp + length.window,
            report_interval_sec: length.ramp + length.window,
            read_reqs_per_sec: multiple * 2000,
            write_reqs_per_sec: multiple * 1000,
            service_threads: service,
            num_queues: queues,
            threads_per_queue: each,
            ..act::Config::standard(Kind::Storage, names)
        };
        self.trials += 1;
        let seed = seed ^ self.trials.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let act = Act::new(config, &self.spaces, seed, 1).map_err(|problem| anyhow!(problem))?;
        let before = self.programmed()?;
        let mut actors = self.sim.actors();
        let at = actors.add_over(&mut self.host, &self.nsids, act)?;
        // To attach it took some of the drive's time.
        let start = self.sim.now().0;
        let from = start + u64::from(length.ramp) * SECOND;
        let end = from + u64::from(length.window) * SECOND;
        let large_blocks = (LARGE / u64::from(self.spaces[0].block_bytes)) as u32;
        let (mut latencies, mut written) = (Latencies::new()?, 0u64);
        let mut completions = 0u64;
        actors.run(Nanos(end), |step| {
            let large = step.request.blocks == large_blocks;
            let write = step.request.verb == Verb::Write;
            written += u64::from(large && write);
            if step.now.0 >= from {
                latencies.add(large, write, step.latency.0);
            }
            completions += 1;
            completions.is_multiple_of(LOOK) && interrupt::asked()
        });
        interrupt::check()?;
        let behind = actors.actor(at).behind(end);
        // What is outstanding is waited for.
        actors.run(Nanos::MAX, |_| true);
        let windows = actors.actor(at).windows();
        let window = windows.iter().skip(length.ramp as usize).fold(Window::default(), sum);
        let stopped = actors.actor(at).stopped().map(Limit::Behind);
        let failed = actors.actor(at).failed();
        if stopped.is_none() && windows.len() != (length.ramp + length.window) as usize {
            bail!("the test has {} windows: {} were expected", windows.len(), length.ramp + length.window);
        }
        drop(actors);
        if failed > 0 {
            bail!("{failed} requests of the test failed");
        }
        let programmed = self.programmed()? - before;
        let allowed = u64::from(length.window) * SECOND / BEHIND;
        let slow =
            LIMITS.iter().zip(window.over).position(|((_, mille), over)| over * 1000 >= window.reads * mille);
        let limit = stopped
            .or_else(|| behind.filter(|(lag, _)| *lag > allowed).map(|(_, who)| Limit::Behind(who)))
            .or_else(|| slow.filter(|_| window.reads > 0).map(Limit::Latency));
        let seconds = f64::from(length.window);
        let [small, large_reads, large_writes] = &latencies.0;
        Ok(Trial {
            multiple,
            limit,
            window,
            latency: percentiles(small),
            large_p99_ms: [large_reads, large_writes].map(|h| h.value_at_quantile(0.99) as f64 / 1e6),
            large_mean_ms: [large_reads, large_writes].map(|h| h.mean() / 1e6),
            large: [large_reads, large_writes].map(|h| h.len() as f64 / seconds),
            write_amplification: programmed as f64 / (written.max(1) * LARGE) as f64,
            seconds,
        })
    }
}

fn sum(all: Window, next: &Window) -> Window {
    let mut over = all.over;
    for (count, next) in over.iter_mut().zip(next.over) {
        *count += next;
    }
    Window { reads: all.reads + next.reads, over }
}

/// Latencies as the drive's hosts see them: of small reads, and of large blocks read and written.
struct Latencies([Histogram<u64>; 3]);

impl Latencies {
    fn new() -> Result<Self> {
        let one = || Histogram::new_with_bounds(1000, 100 * SECOND, 3);
        Ok(Self([one()?, one()?, one()?]))
    }

    fn add(&mut self, large: bool, write: bool, nanos: u64) {
        let [small, reads, writes] = &mut self.0;
        let histogram = match (large, write) {
            (false, _) => small,
            (true, false) => reads,
            (true, true) => writes,
        };
        histogram.saturating_record(nanos);
    }
}

fn percentiles(histogram: &Histogram<u64>) -> Percentiles {
    let at = |quantile| histogram.value_at_quantile(quantile) as f64 / 1e6;
    Percentiles {
        count: histogram.len(),
        mean: histogram.mean() / 1e6,
        p50: at(0.5),
        p95: at(0.95),
        p99: at(0.99),
        max: at(1.0),
    }
}
