//! A drive that the program serves.
#![allow(unused, reason = "each test takes what it needs")]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub const TRANCHE: &str = env!("CARGO_BIN_EXE_tranche");

/// A drive of 256 MiB, on which a study takes less than a second.
pub const SMALL_DRIVE: &str = testkit::drives::SMALL_DRIVE;

/// A simulated study on that drive, `small.toml`, as small as can be.
pub const SMALL_STUDY: [&str; 10] =
    ["study", "quota", "--sim", "--quick", "--repeat", "1", "--variants", "none", "--drive", "small.toml"];

/// The project's directory.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").canonicalize().unwrap()
}

/// The static library of `store-c` that this program was compiled with.
pub fn store_library() -> PathBuf {
    // This program is in `target/PROFILE/deps`, as is the library.
    let program = std::env::current_exe().unwrap();
    let files = std::fs::read_dir(program.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path());
    let libraries = files.filter(|file| {
        let name = file.file_name().unwrap().to_str().unwrap();
        name.starts_with("libtranche_store-") && name.ends_with(".a")
    });
    let written = |file: &PathBuf| std::fs::metadata(file).unwrap().modified().unwrap();
    libraries.max_by_key(written).expect("the static library of store-c")
}

/// What a program said.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The path of a file in a directory.
pub fn at(dir: &Path, name: &str) -> String {
    dir.join(name).display().to_string()
}

/// Killed, without notice, when it goes out of scope.
pub struct Served {
    pub child: Child,
    /// The line that it printed when it accepted connections.
    pub ready: String,
}

impl Served {
    /// `tranche serve` with these arguments.
    pub fn start(args: &[&str]) -> Self {
        Self::run(Command::new(TRANCHE).arg("serve").args(args))
    }

    /// Runs a command that serves a drive, and waits until it accepts connections.
    pub fn run(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut ready = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut ready).unwrap();
        let served = Served { child, ready };
        assert!(served.ready.starts_with("ready"), "{:?}", served.ready);
        served
    }

    /// Where it listens, as for `--on`: its TCP addresses.
    pub fn tcp(&self) -> Vec<String> {
        let all = self.ready.split_whitespace().find_map(|word| word.strip_prefix("tcp=")).expect("TCP");
        all.split(',').map(|address| format!("tcp://{address}")).collect()
    }

    /// Where NBD is served.
    pub fn nbd(&self) -> Vec<String> {
        let all = self.ready.split_whitespace().find_map(|word| word.strip_prefix("nbd=")).expect("NBD");
        all.split(',').map(str::to_owned).collect()
    }

    /// Memory that it has, in bytes.
    pub fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.split_whitespace().next().unwrap().parse::<u64>().unwrap() * 1024
    }

    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status();
        assert!(sent.unwrap().success());
    }

    /// Kills it, without notice.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Exit code, if it ends.
    pub fn end(mut self) -> Option<i32> {
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(60) {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("it does not end");
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.kill();
    }
}
