//! Ending a process together with everything that it has started.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

/// Kills a process and all its descendants at once (SIGKILL). A server's helpers may have process groups of their own, and may wait for
/// one that is dead.
pub(crate) fn kill_all(root: Pid) {
    // Stopped, it starts no more.
    let _ = kill_process(root, Signal::STOP);
    let children = descendants(root);
    let _ = kill_process(root, Signal::KILL);
    for &child in &children {
        let _ = kill_process(child, Signal::KILL);
    }
    // What they hold, such as shared memory, is free when they have ended.
    let end = Instant::now() + KILL_TIMEOUT;
    while children.iter().any(|child| lives(*child)) && Instant::now() < end {
        thread::sleep(Duration::from_millis(1));
    }
}

/// How long killed descendants may take to end.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);

/// Whether a process has not ended. One that only waits to be collected has.
fn lives(process: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero()));
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}

/// All that a process has started and that is still below it, without itself.
fn descendants(root: Pid) -> Vec<Pid> {
    let parent = |pid: i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name before may hold anything.
        stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse::<i32>().ok()
    };
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    let all: Vec<(i32, i32)> = numbers.filter_map(|pid| Some((pid, parent(pid)?))).collect();
    let mut found = vec![root.as_raw_nonzero().get()];
    let mut next = 0;
    while let Some(&one) = found.get(next) {
        found.extend(all.iter().filter(|(_, parent)| *parent == one).map(|(pid, _)| *pid));
        next += 1;
    }
    found.into_iter().skip(1).filter_map(Pid::from_raw).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        io::{BufRead, BufReader},
        process::{Command, Stdio},
    };

    #[test]
    fn a_grandchild_in_a_session_of_its_own_dies_too() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "setsid sh -c 'echo $$; exec sleep 600' & wait"]).stdout(Stdio::piped());
        let mut shell = shell.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(shell.stdout.take().unwrap()).read_line(&mut line).unwrap();
        kill_all(Pid::from_child(&shell));
        shell.wait().unwrap();
        let grandchild = Pid::from_raw(line.trim().parse().unwrap()).unwrap();
        assert!(!lives(grandchild), "the grandchild lives");
    }
}
