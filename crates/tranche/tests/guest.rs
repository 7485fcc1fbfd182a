//! A stock Linux kernel, booted in an emulated machine, as a host of the drive over NVMe/TCP: see `guest/host.sh`. Needs
//! what `scripts/guest.sh` needs; says so where it is missing.

#[path = "../../block/tests/support/mod.rs"]
#[allow(dead_code)]
mod support;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const TRANCHE: &str = env!("CARGO_BIN_EXE_tranche");
const NQN: &str = "nqn.2026-11.io.tranche:drive";

/// A drive that is killed when it goes out of scope.
struct Drive {
    child: Child,
    port: u16,
}

impl Drive {
    fn start(image: &Path, port: u16) -> Self {
        let mut child = Command::new(TRANCHE)
            .args([
                "serve",
                "--timing",
                "off",
                "--no-host-sync",
                "--tcp",
                &format!("127.0.0.1:{port}"),
                "--image",
            ])
            .arg(image)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port =
            line.split("tcp=127.0.0.1:").nth(1).and_then(|rest| rest.split(' ').next()).expect("ready");
        Drive { port: port.parse().unwrap(), child }
    }

    /// Write commands of hosts so far.
    fn writes(&self) -> u64 {
        let on = format!("tcp://127.0.0.1:{}", self.port);
        let smart = Command::new(TRANCHE).args(["smart", "--output", "json", "--on", &on]).output().unwrap();
        let smart: serde_json::Value = serde_json::from_slice(&smart.stdout).expect("SMART");
        smart["host_write_commands"].as_u64().expect("a count")
    }
}

impl Drop for Drive {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_linux_host_attaches_uses_and_keeps_the_drive() {
    let name = "a_linux_host_attaches_uses_and_keeps_the_drive";
    let needed = ["qemu-system-x86_64", "busybox", "nvme", "fio", "mkfs.xfs", "cpio", "modprobe", "xz"];
    if !support::possible(name, &needed) {
        return;
    }
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let temporary = tempfile::tempdir().unwrap();
    let image = temporary.path().join("image");
    let mut drive = Drive::start(&image, 0);
    let port = drive.port;
    let log = std::fs::File::create(temporary.path().join("log")).unwrap();
    let mut guest = Command::new(root.join("scripts/guest.sh"))
        .args(["-t", "400", "sh"])
        .arg(root.join("crates/tranche/tests/guest/host.sh").canonicalize().unwrap())
        .args(["10.0.2.2", &port.to_string(), NQN])
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap();
    // The last load makes 8,192 writes; all before it make fewer than 4,000.
    let begun = Instant::now();
    let mut killed = false;
    let status = loop {
        if let Some(status) = guest.try_wait().unwrap() {
            break status;
        }
        if !killed && drive.writes() > 6_000 {
            drop(drive);
            std::thread::sleep(Duration::from_secs(1));
            drive = Drive::start(&image, port);
            killed = true;
        }
        assert!(begun.elapsed() < Duration::from_secs(500), "the guest hangs");
        std::thread::sleep(Duration::from_millis(300));
    };
    let log = std::fs::read_to_string(temporary.path().join("log")).unwrap();
    println!("{log}");
    if status.code() == Some(77) {
        return support::skipped(name, &log);
    }
    assert!(status.success() && killed && log.contains("== all is well"), "{status}, killed {killed}\n{log}");
}
