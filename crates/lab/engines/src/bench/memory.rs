//! How much memory jobs take, said before they start.

use anyhow::{Result, bail};
use load_formats::fio::{Direction, Jobs, Plan};

/// Most bytes that the jobs of a file may take, or half of the machine's memory if that is less.
const MAX_JOB_BYTES: u64 = 4 << 30;

/// Whether the jobs fit into memory: what they remember, and the data of the commands that may be outstanding at
/// once. `granted` commands fit into a queue, `transfer` bytes into a command.
pub(crate) fn check(jobs: &Jobs, plans: &[(usize, Plan)], granted: usize, transfer: usize) -> Result<()> {
    within(
        jobs,
        plans,
        granted,
        transfer,
        half_of_memory().map_or(MAX_JOB_BYTES, |half| half.min(MAX_JOB_BYTES)),
    )
}

fn within(jobs: &Jobs, plans: &[(usize, Plan)], granted: usize, transfer: usize, bound: u64) -> Result<()> {
    let remembered = plans.iter().fold(0u64, |sum, (_, plan)| sum.saturating_add(plan.memory()));
    let last = jobs.jobs.last().map_or(0, |spec| spec.phase);
    let phase = |phase: u32| {
        let members = plans.iter().filter(|(index, _)| jobs.jobs[*index].phase == phase);
        members.fold(0u64, |sum, (_, plan)| sum.saturating_add(data(plan, granted, transfer)))
    };
    let buffers = (0..=last).map(phase).max().unwrap_or(0);
    let sum = remembered.saturating_add(buffers);
    if sum <= bound {
        return Ok(());
    }
    let largest =
        plans.iter().max_by_key(|(_, plan)| plan.memory().saturating_add(data(plan, granted, transfer)));
    let name = largest.map_or("", |(index, _)| &jobs.jobs[*index].name);
    let mib = |bytes: u64| bytes.div_ceil(1 << 20);
    bail!(
        "the jobs would take {} MiB of memory: {} MiB for the data of commands that are outstanding at once, {} MiB for \
         what is remembered of I/Os; that is more than {} MiB, and most of it is for each clone of job {name}: reduce its \
         iodepth, bs or numjobs",
        mib(sum),
        mib(buffers),
        mib(remembered),
        mib(bound)
    );
}

/// Bytes of data of a job's outstanding commands, at most.
fn data(plan: &Plan, granted: usize, transfer: usize) -> u64 {
    let (granted, transfer) = (granted as u64, (transfer as u64).max(1));
    let options = &plan.options;
    let moves = [Direction::Read, Direction::Write].into_iter().filter(|way| options.rw.does[*way as usize]);
    let Some(block) = moves.map(|way| options.sizes[way as usize].most()).max() else { return 0 };
    let commands = u64::from(options.iodepth).saturating_mul(block.div_ceil(transfer));
    commands.min(granted).saturating_mul(block.min(transfer))
}

/// Half of this machine's memory in bytes, if it tells.
fn half_of_memory() -> Option<u64> {
    let info = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = info.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib.saturating_mul(512))
}

#[cfg(test)]
mod tests {
    use super::*;
    use load_formats::fio::{JobFile, Space};

    fn check(text: &str, granted: usize, transfer: usize) -> Result<()> {
        let jobs = JobFile::parse(text, &|_| None).unwrap().jobs().unwrap();
        let space = Space::new(1 << 28, 4096);
        let mut plans = Vec::new();
        for (index, spec) in jobs.jobs.iter().enumerate() {
            for clone in 0..spec.options.numjobs {
                plans.push((index, Plan::new(&spec.options, space, clone, clone, 0).unwrap()));
            }
        }
        within(&jobs, &plans, granted, transfer, MAX_JOB_BYTES)
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let error = check("[a]\nbs=1m\niodepth=1024\nnumjobs=32\n", 1024, 1 << 20).unwrap_err().to_string();
        assert!(error.contains("would take 32776 MiB of memory: 32768 MiB for the data"), "{error}");
        assert!(error.contains("more than 4096 MiB") && error.contains("job a: reduce"), "{error}");
        let unlimited = check("[b]\nbs=1g\niodepth=65535\n", 1024, 1 << 30).unwrap_err();
        assert!(unlimited.to_string().contains("1048576 MiB for the data"), "{unlimited}");
        // So many places alone are too much.
        assert!(check("[b]\nrw=trim\niodepth=65535\nnumjobs=1024\n", 128, 1 << 20).is_err());
        // And maps of several block sizes.
        let maps = "[b]\nrw=randread\nbsrange=4k-8k\nnumjobs=1024\n";
        assert!(check(maps, 128, 1 << 20).is_err());
    }

    #[test]
    fn what_fits_may_run() {
        // The queue and the size of commands bound what is outstanding, however large the I/Os are.
        check("[a]\nbs=1g\niodepth=65535\n", 1024, 1 << 20).unwrap();
        check("[a]\nrw=trim\nbs=1g\niodepth=1024\nnumjobs=8\n", 1024, 1 << 30).unwrap();
        check("[a]\nbs=4k\niodepth=128\nnumjobs=64\n", 1024, 1 << 20).unwrap();
        // Those after a stonewall take what those before it have left.
        let two = "[a]\nbs=1m\niodepth=1024\nnumjobs=3\n[b]\nstonewall\nbs=1m\niodepth=1024\nnumjobs=3\n";
        check(two, 1024, 1 << 20).unwrap();
    }
}
