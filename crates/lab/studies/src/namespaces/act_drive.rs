//! A drive cut into namespaces, prepared as the tool's act_prep does, and tests of it in virtual time.

use anyhow::{Context, Result, bail};
use host::Host;
use live::Config;
use load_formats::act;
use nvme::Nsid;
use sim::{Checkpoint, Contents, Nanos, Sim, SimTransport};
use workload::{Actor, Mix, MixConfig, Next, Order};

use super::{
    live::LiveActDrive,
    trial::{Counted, LARGE_BLOCK_BYTES, NQN, Plan, Seen, Trial, names},
};
use lab_report::{control::Cancel, counters::flash_bytes_written};

/// Threads with which act_prep writes a device.
const PREP_THREADS: u32 = 8;
/// Parts of the capacity after which write amplification is compared, and how many there are at most.
const PARTS: u64 = 4;
const PARTS_MAX: u64 = 12;
/// Completions between two looks at what the user wants.
const COMPLETIONS_PER_CHECK: u64 = 4096;
/// Rest before each test, in which the drive ends what it has begun.
const REST_NANOS: u64 = 100_000_000;
/// A prepared drive.
pub(super) struct ActDrive {
    // The host goes before the drive.
    host: Host<SimTransport>,
    sim: Sim,
    nsids: Vec<Nsid>,
    spaces: Vec<act::Space>,
    trials: u64,
    cancel: Cancel,
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

impl ActDrive {
    /// A drive that has been written as act_prep does, all devices at the same time: every large block of every namespace twice, one
    /// after the other, and then large blocks at random, as the test writes them, until write amplification no longer changes. The tests
    /// use the first `used` namespaces. `contents`: [`Contents::Later`] if it shall go live.
    pub(super) fn prepare(
        mut config: Config,
        used: u32,
        contents: Contents,
        seed: u64,
        cancel: &Cancel,
    ) -> Result<ActDrive> {
        config.timing = true;
        let count = config.namespaces.len() as u32;
        let sim = Sim::new(config, contents)?;
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
        let mut drive = ActDrive { host, sim, nsids, spaces, trials: 0, cancel: cancel.clone() };
        for _ in 0..2 {
            drive.write_all(Order::Sequential, 1, 1, 0)?;
        }
        let mut before: Vec<f64> = Vec::new();
        for part in 0..PARTS_MAX {
            let start = flash_bytes_written(&mut drive.host)?;
            let written = drive.write_all(Order::Random, 1, PARTS, seed.wrapping_add(part))?;
            before.push((flash_bytes_written(&mut drive.host)? - start) as f64 / written as f64);
            if part + 1 >= PARTS
                && let [.., a, b, c] = before[..]
                && a.max(b).max(c) - a.min(b).min(c) <= a / 50.0
            {
                break;
            }
        }
        drive.nsids.truncate(used as usize);
        drive.spaces.truncate(used as usize);
        Ok(drive)
    }

    /// Writes a share of all namespaces, at the same time; how many bytes.
    fn write_all(&mut self, order: Order, share: u64, of: u64, seed: u64) -> Result<u64> {
        let mut actors = self.sim.actors();
        let mut bytes = 0;
        for (&nsid, space) in self.nsids.iter().zip(&self.spaces) {
            let blocks = (LARGE_BLOCK_BYTES / u64::from(space.block_bytes)) as u32;
            let count = space.blocks / u64::from(blocks) * share / of;
            bytes += count * LARGE_BLOCK_BYTES;
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
        let (mut failed, cancel) = (false, &self.cancel);
        actors.run(Nanos::MAX, |step| {
            failed |= !step.status.is_success();
            step.outcome.requests.is_multiple_of(COMPLETIONS_PER_CHECK) && cancel.is_cancelled()
        });
        cancel.check()?;
        if failed {
            bail!("the drive did not take what prepares it");
        }
        Ok(bytes)
    }

    /// Waits until the drive has ended what it has begun.
    fn rest(&mut self) -> Result<()> {
        let rest = Rest(self.sim.now().0 + REST_NANOS);
        let mut actors = self.sim.actors();
        actors.add(&mut self.host, 1, rest)?;
        actors.run(Nanos::MAX, |_| false);
        Ok(())
    }

    /// A test, on all namespaces that are used. Each further one has other random numbers.
    pub(super) fn test(&mut self, plan: &Plan) -> Result<Trial> {
        self.rest()?;
        self.trials += 1;
        let plan = plan.numbered(self.trials);
        let act = plan.act(names(&self.nsids), &self.spaces)?;
        let before = Counted::read(&mut self.host)?;
        let mut actors = self.sim.actors();
        let at = actors.add_over(&mut self.host, &self.nsids, act)?;
        // To attach it took some of the drive's time.
        let start = self.sim.now().0;
        let (from, end) = plan.times();
        let mut seen = Seen::new(start + from, &self.spaces)?;
        let (mut completions, cancel) = (0u64, &self.cancel);
        actors.run(Nanos(start + end), |step| {
            seen.add(step.request, step.now.0, step.latency.0);
            completions += 1;
            completions.is_multiple_of(COMPLETIONS_PER_CHECK) && cancel.is_cancelled()
        });
        cancel.check()?;
        let behind = actors.actor(at).behind(start + end);
        // What is outstanding is waited for.
        actors.run(Nanos::MAX, |_| true);
        let act = actors.actor(at).clone();
        drop(actors);
        let after = Counted::read(&mut self.host)?;
        seen.judge(&plan, &act, behind, &before, &after)
    }

    /// Switches the drive off and keeps it.
    pub(super) fn park(self) -> Result<ParkedDrive> {
        let ActDrive { host, sim, nsids, spaces, cancel, .. } = self;
        drop(host);
        Ok(ParkedDrive { drive: Checkpoint::of(sim)?, nsids, spaces, cancel })
    }
}

/// A prepared drive that is switched off, to be switched on as often as wanted: every time it is the same.
pub(super) struct ParkedDrive {
    drive: Checkpoint,
    nsids: Vec<Nsid>,
    spaces: Vec<act::Space>,
    cancel: Cancel,
}

impl ParkedDrive {
    /// A test of the drive as it was switched off.
    pub(super) fn test(&self, plan: &Plan) -> Result<Trial> {
        self.begin()?.test(plan)
    }

    /// The same under the wall's clock, of which `slow_motion` seconds pass for one of the drive's.
    pub(super) fn test_live(&self, plan: &Plan, slow_motion: u32) -> Result<Trial> {
        let mut drive = self.begin()?;
        drive.rest()?;
        let ActDrive { host, sim, nsids, spaces, cancel, .. } = drive;
        drop(host);
        LiveActDrive::new(sim.go_live(slow_motion)?, nsids, spaces, slow_motion, cancel)?
            .test(&plan.numbered(1))
    }

    fn begin(&self) -> Result<ActDrive> {
        let sim = self.drive.clone().start()?;
        let host = sim.host(NQN).context("connecting to the drive")?;
        let (nsids, spaces, cancel) = (self.nsids.clone(), self.spaces.clone(), self.cancel.clone());
        Ok(ActDrive { host, sim, nsids, spaces, trials: 0, cancel })
    }
}
