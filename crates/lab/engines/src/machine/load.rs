//! fio jobs on devices of a machine.

use anyhow::{Context, Result, anyhow, bail};
use load_formats::fio::{JobFile, Prompt, Space, Stats};
use sim::{BlockLayer, MachineDevice};

use super::Drives;
use crate::{
    bench,
    sim::{Moved, moved},
};
use lab_report::control::{Control, Interrupted};

/// What a job has done: reads, writes, trims.
#[derive(Clone, Copy, Debug, Default)]
pub struct Played {
    /// Of reads, of writes, and of trims.
    pub traffic: [Moved; 3],
    /// Simulated seconds.
    pub seconds: f64,
}

impl Played {
    /// Reads and writes per second.
    #[expect(clippy::cast_precision_loss, reason = "for reading")]
    pub fn iops(&self) -> f64 {
        self.traffic.iter().map(|moved| moved.ios as f64).sum::<f64>() / self.seconds.max(1e-9)
    }

    /// Mean latency of reads and writes in microseconds.
    #[expect(clippy::cast_precision_loss, reason = "for reading")]
    pub fn mean_us(&self) -> f64 {
        let ios: f64 = self.traffic.iter().map(|moved| moved.ios as f64).sum();
        let sum: f64 = self.traffic.iter().map(|moved| moved.ios as f64 * moved.mean).sum();
        sum / ios.max(1.0) / 1e3
    }
}

/// Steps between looks at whether the user has interrupted.
const STEPS_PER_CHECK: u64 = 4096;

/// Runs the job file on a device, and gives the device back. `watch` is told the time after each request, and says whether it has been
/// enough.
///
/// # Errors
/// The job does not fit the device; a request failed; an interruption.
pub fn play(
    drives: &Drives,
    device: MachineDevice,
    job: &str,
    seed: u64,
    control: &Control,
    mut watch: impl FnMut(u64) -> bool,
) -> Result<Played> {
    let jobs =
        JobFile::parse(job, &|_| None).and_then(|file| file.jobs()).map_err(|e| anyhow!("{job:?}: {e}"))?;
    let geometry = blockdev::BlockDevice::geometry(&*device);
    let space = Space::new(geometry.blocks, geometry.block_size);
    let mut plans = bench::plans("job", &jobs, &vec![space; jobs.jobs.len()], seed)?;
    for (number, (_, plan)) in plans.iter_mut().enumerate() {
        plan.seed =
            plan.seed.wrapping_add(seed.wrapping_mul(0xD6E8_FEB8_6659_FD93)).wrapping_add(number as u64);
    }
    let clones = bench::clones("job", &jobs, plans)?;
    let mut layer = BlockLayer::new(drives.machine(), drives.path().host());
    let device = layer.add_device(device, false);
    for (_, job) in clones {
        layer
            .add_load(Prompt::new(job), &[device])
            .context("the device takes less than a request of the job")?;
    }
    let (began, mut steps, mut failed) = (layer.now(), 0_u64, None);
    layer.run(sim::Nanos::MAX, |step| {
        steps += 1;
        if !step.status.is_success() {
            failed = Some((*step.request, step.status));
        }
        let interrupted = steps.is_multiple_of(STEPS_PER_CHECK) && control.is_cancelled();
        watch(step.now.0) || interrupted || failed.is_some()
    });
    if let Some((request, status)) = failed {
        bail!("{request:?} failed: {status}");
    }
    if control.is_cancelled() {
        return Err(Interrupted.into());
    }
    let mut together = Stats::default();
    for job in layer.clear() {
        together.merge(job.job().stats());
    }
    let seconds = std::time::Duration::from_nanos(drives.machine().now().0 - began.0).as_secs_f64();
    Ok(Played { traffic: moved(&[together]), seconds })
}
