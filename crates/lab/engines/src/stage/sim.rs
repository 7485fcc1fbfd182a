//! Under a virtual clock.

use anyhow::{Context, Result, bail};
use host::Host;
use live::Config;
use load_formats::fio::Prompt;
use sim::{self, Checkpoint, Contents, Sim, SimTransport};
use workload::Verb;

use super::{
    contract::{HostJob, JobResult, MANAGER, Nanos, Script, Stage, StageResult, count, job, nqn},
    live::LiveStage,
};
use lab_report::{control::Cancel, results::Cpu};

/// A drive under a virtual clock.
pub struct SimStage {
    // Hosts go before the drive.
    manager: Host<SimTransport>,
    hosts: Vec<Host<SimTransport>>,
    sim: Sim,
    cancel: Cancel,
}

impl SimStage {
    /// A new drive with so many hosts. `live`: it shall be run live afterwards. `cancel` ends loads before their time.
    ///
    /// # Errors
    /// The drive cannot be so, or refuses the hosts.
    pub fn new(config: Config, hosts: usize, live: bool, cancel: &Cancel) -> Result<Self> {
        Self::on(Sim::new(config, if live { Contents::Later } else { Contents::None })?, hosts, cancel)
    }

    fn on(sim: Sim, hosts: usize, cancel: &Cancel) -> Result<Self> {
        let manager = sim.host(MANAGER).context("connecting to the drive")?;
        let hosts = (0..hosts).map(|n| sim.host(&nqn(n))).collect::<Result<_, _>>()?;
        Ok(Self { manager, hosts, sim, cancel: cancel.clone() })
    }

    /// The same drive with the same hosts, under the wall's clock from now on: [in slow motion](Sim::go_live), or 1.
    ///
    /// # Errors
    /// The machine or the drive refuses something.
    pub fn go_live(self, slow_motion: u32) -> Result<LiveStage> {
        let Self { manager, hosts, sim, cancel } = self;
        let count = hosts.len();
        drop((manager, hosts));
        LiveStage::new(sim.go_live(slow_motion)?, count, slow_motion.max(1), cancel)
    }

    /// Switches the drive off and keeps it.
    ///
    /// # Errors
    /// Somebody else is connected to it.
    pub fn prepared(self) -> Result<Prepared> {
        let Self { manager, hosts, sim, cancel } = self;
        let count = hosts.len();
        drop((manager, hosts));
        Ok(Prepared { drive: Checkpoint::of(sim)?, hosts: count, cancel })
    }
}

/// A drive that is switched off, to be switched on as often as wanted: every time it is the same.
pub struct Prepared {
    drive: Checkpoint,
    hosts: usize,
    cancel: Cancel,
}

impl Prepared {
    /// The drive switched on, with the same hosts; it can go live if the one could that it was made from. Settings that were not saved
    /// are lost, as in any power cycle.
    ///
    /// # Errors
    /// The drive refuses the hosts.
    pub fn begin(&self) -> Result<SimStage> {
        SimStage::on(self.drive.clone().start()?, self.hosts, &self.cancel)
    }
}

/// Completions between two looks at what the user wants.
const COMPLETIONS_PER_CHECK: u64 = 4096;

impl Stage for SimStage {
    type Transport = SimTransport;

    const ENGINE: &'static str = "sim";

    fn manager(&mut self) -> &mut Host<SimTransport> {
        &mut self.manager
    }

    fn play(&mut self, loads: &[HostJob], script: &mut Script<'_, SimTransport>) -> Result<StageResult> {
        let mut actors = self.sim.actors::<Prompt>();
        let mut blocks = Vec::new();
        for (thread, load) in (0..).zip(loads) {
            let host = self.hosts.get_mut(load.host).context("no such host")?;
            let namespace = host.namespace(load.nsid)?;
            blocks.push(u64::from(namespace.block_size));
            actors.add(host, load.nsid, Prompt::new(job(load, &namespace, thread)?))?;
        }
        let (start, cancel) = (self.sim.now(), &self.cancel);
        let mut bytes = vec![Vec::new(); loads.len()];
        let mut completions = 0;
        loop {
            let now = self.sim.now().since(start).0;
            let next = script(&mut self.manager, now)?;
            let until = next.map_or(sim::Nanos::MAX, |at: Nanos| start + sim::Nanos(at.max(now + 1)));
            let ended = actors.run(until, |step| {
                if step.status.is_success() && matches!(step.request.verb, Verb::Read | Verb::Write) {
                    let moved = u64::from(step.request.blocks) * blocks[step.actor];
                    count(&mut bytes[step.actor], step.now.since(start).0, moved);
                }
                completions += 1;
                completions % COMPLETIONS_PER_CHECK == 0 && cancel.is_cancelled()
            });
            cancel.check()?;
            if ended {
                break;
            }
        }
        let mut ran = Vec::new();
        for (number, bytes) in bytes.into_iter().enumerate() {
            let failed = actors.outcome(number).failed;
            if failed > 0 {
                bail!("{failed} commands of the job {:?} failed", loads[number].job);
            }
            ran.push(JobResult::new(actors.actor(number).job().stats().clone(), bytes, start.0));
        }
        Ok(StageResult { loads: ran, cpu: Cpu::default() })
    }
}
