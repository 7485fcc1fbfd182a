//! How busy the host's processors were, and with what.

use std::{collections::BTreeMap, fs, time::Instant};

use crate::results::Cpu;

/// Counters at one moment, in ticks.
#[derive(Clone, Debug)]
pub struct Sample {
    total: u64,
    idle: u64,
    steal: u64,
    processes: BTreeMap<String, u64>,
    when: Instant,
    /// Nanoseconds that threads of the processes were ready to run but did not.
    waited: u64,
}

impl Sample {
    /// Samples the machine and these processes, each under a name.
    pub fn take(processes: &[(&str, u32)]) -> Self {
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        let first = stat.lines().next().unwrap_or_default();
        let fields: Vec<u64> = first.split_whitespace().skip(1).filter_map(|f| f.parse().ok()).collect();
        let field = |i: usize| fields.get(i).copied().unwrap_or(0);
        // user nice system idle iowait irq softirq steal; guest time is part of user time already
        Self {
            total: (0..8).map(field).sum(),
            idle: field(3) + field(4),
            steal: field(7),
            processes: ticks_of_families(processes, &all()),
            when: Instant::now(),
            waited: processes.iter().map(|&(_, pid)| nanoseconds_waited(pid)).sum(),
        }
    }

    /// What happened since an earlier sample, under a load of so many connections.
    pub fn since(&self, earlier: &Self, connections: u32) -> Cpu {
        let total = self.total.saturating_sub(earlier.total).max(1);
        #[expect(clippy::cast_precision_loss, reason = "ticks stay far below 2^52")]
        let percent = |now: u64, before: u64| now.saturating_sub(before) as f64 * 100.0 / total as f64;
        let idle = percent(self.idle, earlier.idle);
        let steal = percent(self.steal, earlier.steal);
        let by_process = self.processes.iter().map(|(name, &now)| {
            (name.clone(), percent(now, earlier.processes.get(name).copied().unwrap_or(now)))
        });
        #[expect(clippy::cast_precision_loss, reason = "for reading")]
        let waited = self.waited.saturating_sub(earlier.waited) as f64 / 1e9;
        let window = self.when.duration_since(earlier.when).as_secs_f64() * f64::from(connections.max(1));
        Cpu {
            // Everything that takes a processor away from the load, hypervisor included.
            busy: (100.0 - idle).max(0.0),
            steal,
            waiting: waited * 100.0 / window.max(1e-9),
            by_process: by_process.collect(),
        }
    }
}

/// Time that the threads of a process waited for a processor.
fn nanoseconds_waited(pid: u32) -> u64 {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return 0 };
    let waited = |task: fs::DirEntry| -> Option<u64> {
        let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split(' ').nth(1)?.parse().ok()
    };
    tasks.flatten().filter_map(waited).sum()
}

/// What `/proc/PID/stat` says of a process.
struct Stat {
    parent: u32,
    /// User and system time of all its threads, and of children that it has waited for.
    ticks: u64,
}

fn stat(pid: u32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = text.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split(' ').collect();
    let ticks = fields.get(11..15)?.iter().filter_map(|field| field.parse::<u64>().ok()).sum();
    Some(Stat { parent: fields.get(1)?.parse().ok()?, ticks })
}

/// Every process of this machine.
fn all() -> BTreeMap<u32, Stat> {
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter_map(|pid| Some((pid, stat(pid)?))).collect()
}

/// Time of processes with all their descendants, by name. A descendant counts for its nearest ancestor.
fn ticks_of_families(processes: &[(&str, u32)], stats: &BTreeMap<u32, Stat>) -> BTreeMap<String, u64> {
    let family = |mut pid: u32| -> Option<&str> {
        // Processes that change meanwhile make no circle of this.
        for _ in 0..64 {
            if let Some((name, _)) = processes.iter().find(|(_, head)| *head == pid) {
                return Some(*name);
            }
            pid = stats.get(&pid)?.parent;
        }
        None
    };
    let mut ticks: BTreeMap<String, u64> =
        processes.iter().map(|(name, _)| ((*name).to_owned(), 0)).collect();
    for (pid, stat) in stats {
        if let Some(sum) = family(*pid).and_then(|name| ticks.get_mut(name)) {
            *sum += stat.ticks;
        }
    }
    ticks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_of_this_process_is_seen() {
        let me = [("me", std::process::id())];
        let before = Sample::take(&me);
        let mut after = before.clone();
        let mut x = 1u64;
        while after.total < before.total + 20 || after.processes["me"] < before.processes["me"] + 5 {
            for _ in 0..1_000_000 {
                x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            }
            after = Sample::take(&me);
        }
        assert_ne!(x, 0);
        let cpu = after.since(&before, 1);
        assert!(cpu.busy > 0.0 && cpu.busy <= 100.0, "{cpu:?}");
        assert!(cpu.by_process["me"] > 0.0, "{cpu:?}");
    }

    #[test]
    fn work_counts_for_the_nearest_ancestor_alone() {
        let process = |pid: u32, parent: u32, ticks: u64| (pid, Stat { parent, ticks });
        // 10 is measured, so is its grandchild 12; 14 is nobody's.
        let stats = [(10, 1, 1), (11, 10, 20), (12, 11, 300), (13, 12, 4_000), (14, 1, 50_000)];
        let stats = stats.map(|(pid, parent, ticks)| process(pid, parent, ticks)).into();
        let ticks = ticks_of_families(&[("server", 10), ("load", 12), ("gone", 15)], &stats);
        let expected = [("gone", 0), ("load", 4_300), ("server", 21)].map(|(name, n)| (name.to_owned(), n));
        assert_eq!(ticks, expected.into());
    }

    /// As of a shell that starts the load and does nothing itself.
    #[test]
    fn work_of_children_is_seen() {
        let script = "for i in 1 2; do (while :; do :; done) & done; wait";
        let mut shell = std::process::Command::new("sh").args(["-c", script]).spawn().unwrap();
        let family = [("load", shell.id())];
        let before = Sample::take(&family);
        let mut after = before.clone();
        while after.processes["load"] < before.processes["load"] + 10 {
            std::thread::sleep(std::time::Duration::from_millis(20));
            after = Sample::take(&family);
        }
        for (pid, _) in all().into_iter().filter(|(_, stat)| stat.parent == shell.id()) {
            let _ = std::process::Command::new("kill").arg(pid.to_string()).status();
        }
        shell.wait().unwrap();
        let cpu = after.since(&before, 1);
        assert!(cpu.by_process["load"] > 0.0, "{cpu:?}");
    }
}
