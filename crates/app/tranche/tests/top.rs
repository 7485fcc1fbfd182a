//! `tranche top` beside a load, in lines and on a terminal.

mod common;

use common::{Served, TRANCHE, text};
use serde_json::Value;
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use testkit::wait_for;

const OUTPUT_TIMEOUT: Duration = Duration::from_secs(60);

struct Loaded {
    on: String,
    load: std::process::Child,
    _served: Served,
    _dir: tempfile::TempDir,
}

impl Loaded {
    /// A drive with a load that writes, until this is dropped.
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("socket");
        let served =
            Served::run(Command::new(TRANCHE).args(["serve", "--timing", "off", "--unix"]).arg(&socket));
        let on = format!("unix://{}", socket.display());
        let job = dir.path().join("job.fio");
        let lines = "[a]\nrw=randrw\nbs=4k\niodepth=8\nsize=16m\ntime_based=1\nruntime=10m\n";
        std::fs::write(&job, lines).unwrap();
        let mut load = Command::new(TRANCHE);
        let load = load.arg("bench").arg(job).args(["--on", &on]).stdout(Stdio::null()).stderr(Stdio::null());
        Self { load: load.spawn().unwrap(), on, _served: served, _dir: dir }
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        let _ = self.load.kill();
        let _ = self.load.wait();
    }
}

#[test]
fn each_interval_is_a_line() {
    let loaded = Loaded::start();
    let begun = Instant::now();
    loop {
        let mut command = Command::new(TRANCHE);
        command.args(["top", "--count", "2", "--interval", "300ms", "--output", "json", "--on", &loaded.on]);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        let said = text(&output.stdout);
        let lines: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 2, "{said}");
        let namespace = &lines[1]["namespaces"][0];
        // The load may take a while to begin.
        if namespace["write"]["bytes_per_second"].as_f64().unwrap() > 0.0 {
            let sum = lines[1]["write"]["bytes_per_second"].as_f64().unwrap();
            assert_eq!(sum, namespace["write"]["bytes_per_second"].as_f64().unwrap());
            assert!(
                namespace["read"]["p99_ns"].as_u64() >= namespace["read"]["p50_ns"].as_u64(),
                "{namespace}"
            );
            assert!(namespace["read"]["iops"].as_f64().unwrap() > 0.0, "{namespace}");
            break;
        }
        assert!(begun.elapsed() < OUTPUT_TIMEOUT, "{said}");
    }
    let output = Command::new(TRANCHE).args(["top", "--count", "1", "--on", &loaded.on]).output().unwrap();
    let said = text(&output.stdout);
    assert!(said.contains("write amplification") && said.contains("NSID"), "{said}");
}

/// `script` of util-linux gives it a terminal.
#[test]
fn on_a_terminal_it_fills_the_screen_until_the_user_quits() {
    let loaded = Loaded::start();
    let top = format!("stty rows 24 cols 140; {TRANCHE} top --interval 100ms --on {}", loaded.on);
    let mut command = Command::new("script");
    command.args(["--quiet", "--return", "--command", &top, "/dev/null"]).env("TERM", "xterm");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut keys, mut screen) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut shown = Vec::new();
    let mut read_until = |word: &str| {
        let begun = Instant::now();
        let mut bytes = [0; 4096];
        while !String::from_utf8_lossy(&shown).contains(word) {
            let tail = &shown[shown.len().saturating_sub(2000)..];
            assert!(begun.elapsed() < OUTPUT_TIMEOUT, "{word}: {}", String::from_utf8_lossy(tail));
            match screen.read(&mut bytes).unwrap() {
                0 => panic!("it ends without {word}"),
                count => shown.extend_from_slice(&bytes[..count]),
            }
        }
    };
    // Spaces are not drawn where the screen is empty.
    read_until("tranche");
    read_until("MB/s");
    keys.write_all(b"p").unwrap();
    read_until("PAUSED");
    keys.write_all(b"q").unwrap();
    wait_for("its end", || child.try_wait().unwrap().is_some());
    assert!(child.wait().unwrap().success());
}
