//! Every command ends soon after it is asked to, whatever it is doing.
//!
//! `TRANCHE_SIGNALS=20 cargo test --profile suite --locked -p tranche --test signals -- --nocapture` is the campaign: so many moments for
//! each command. It prints the longest time that a command took.

mod common;

use common::{SMALL_DRIVE, Served, TRANCHE, at};
use rng::Rng;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, atomic::AtomicBool};
use std::time::{Duration, Instant};

/// What is promised is a second. A machine with other things to do takes longer.
const END_TIMEOUT: Duration = Duration::from_secs(20);

/// Commands that take minutes if nobody ends them.
const LONG_COMMANDS: &[&[&str]] = &[
    &["sim", "long.fio"],
    &["sim", "long.fio", "--until-steady", "--precondition", "steady", "--no-cache"],
    &["sim", "long.fio", "--drive", "pblaze5-910-short", "--precondition", "steady", "--no-cache"],
    &["sim", "long.fio", "--set", "seed=1..64", "--precondition", "steady", "--out", "sweep", "--force"],
    &["sim", "long.fio", "--interval", "1ms", "--out", "series", "--force"],
    &["sim", "pipe"],
    &["advise", "my.cnf", "--no-ask"],
    &["advise", "postgresql.conf", "--no-ask"],
    &["profile", "check", "pblaze5-910-3.84t"],
    &["study", "doublewrite", "--sim", "--out", "study", "--force"],
    &["study", "quota", "--sim", "--out", "study", "--force"],
    &["study", "namespaces", "--sim", "--out", "study", "--force"],
    &["study", "zoned", "--sim", "--out", "study", "--force"],
    &["study", "filesystem", "--sim", "--out", "study", "--force"],
    &["study", "cache", "--sim", "--out", "study", "--force"],
    &["study", "oltp", "--sim", "--out", "study", "--force"],
    &["study", "quota", "--live", "--out", "study", "--force"],
    &["study", "oltp", "--live", "--scratch", "scratch", "--out", "study", "--force"],
    &["study", "powercut", "--scratch", "scratch", "--out", "study", "--force"],
    &["serve", "--unix", "socket"],
    &["serve", "--unix", "socket", "--drive", "pblaze5-910-short", "--precondition", "steady"],
    &["bench", "long.fio", "--on", "unix://drive"],
    &["demo"],
];

fn prepare(dir: &Path) {
    let job = "[a]\nrw=randwrite\nbs=4k\nsize=100%\niodepth=32\ntime_based\nruntime=1d\n";
    let files = [
        ("long.fio", job),
        ("small.toml", SMALL_DRIVE),
        ("my.cnf", "[mysqld]\ninnodb_buffer_pool_size=8G\n"),
        ("postgresql.conf", "shared_buffers = 64GB\nmax_wal_size = 200GB\n"),
    ];
    for (name, content) in files {
        std::fs::write(dir.join(name), content).unwrap();
    }
    std::fs::create_dir(dir.join("scratch")).unwrap();
    assert!(Command::new("mkfifo").arg(dir.join("pipe")).status().unwrap().success());
}

/// Waits for the end of a process; `None` if that takes too long.
fn wait(child: &mut Child) -> Option<ExitStatus> {
    let begun = Instant::now();
    while begun.elapsed() < END_TIMEOUT {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    None
}

#[test]
fn every_command_ends_when_it_is_asked_to() {
    let rounds: u32 = std::env::var("TRANCHE_SIGNALS").map_or(1, |n| n.parse().unwrap());
    let seed =
        Rng::new(Instant::now().elapsed().as_nanos() as u64 ^ u64::from(std::process::id())).next_u64();
    println!("seed {seed}");
    let mut rng = Rng::new(seed);
    let dir = tempfile::tempdir().unwrap();
    prepare(dir.path());
    // In the background of a shell SIGINT is ignored, and a child inherits that until it handles the signal. A signal that is handled here has
    // its default effect in a child.
    for signal in [SIGINT, SIGTERM] {
        let always = Arc::new(AtomicBool::new(true));
        signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, always).unwrap();
    }
    let _drive = Served::start(&["--unix", &at(dir.path(), "drive")]);
    for arguments in LONG_COMMANDS {
        let mut longest = Duration::ZERO;
        for _ in 0..rounds {
            // Most of what can take long is at the beginning.
            let moment = Duration::from_millis(1 << rng.below(12));
            let signal = ["-TERM", "-INT"][rng.below(2) as usize];
            let log = std::fs::File::create(dir.path().join("log")).unwrap();
            let mut child = Command::new(TRANCHE)
                .current_dir(dir.path())
                .env("XDG_CACHE_HOME", dir.path().join("cache"))
                .args(*arguments)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(log)
                .spawn()
                .unwrap();
            std::thread::sleep(moment);
            if child.try_wait().unwrap().is_some() {
                // A study that does not find its database, or a load without a drive.
                continue;
            }
            let asked = Instant::now();
            assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
            let status = wait(&mut child);
            let said = std::fs::read_to_string(dir.path().join("log")).unwrap();
            assert!(status.is_some(), "{arguments:?}, kill {signal} after {moment:?}, seed {seed}: {said}");
            longest = longest.max(asked.elapsed());
        }
        println!("{:6.2} s  {}", longest.as_secs_f64(), arguments.join(" "));
    }
}
