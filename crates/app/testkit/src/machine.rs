//! What a test may need of the machine: programs, FUSE, loop devices, mounts.

use crate::{not_in_this_kernel, skipped};
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Whether the machine allows what a test needs: root, FUSE, these programs, and loop devices for
/// `losetup`. Says so loudly where it does not.
pub fn possible(test: &str, programs: &[&str]) -> bool {
    let fuse = || File::options().read(true).write(true).open("/dev/fuse").is_ok();
    let loops = !programs.contains(&"losetup") || Path::new("/dev/loop-control").exists();
    let root = std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
    let missing = if !root {
        "root".to_owned()
    } else if !fuse() {
        "/dev/fuse".to_owned()
    } else if !loops {
        "/dev/loop-control".to_owned()
    } else if let Some(program) = programs.iter().find(|program| !has_program(program)) {
        format!("the program {program} (scripts/setup-debian.sh installs it)")
    } else {
        return true;
    };
    skipped(test, &format!("needs {missing}"));
    false
}

/// Whether the kernel has FUSE over io_uring. It is off by default: as root it is turned on, for the tests of that way,
/// and stays so. Where the kernel lacks it, the test says so; where it cannot be turned on, that is one.
pub fn has_rings(test: &str) -> bool {
    let switch = "/sys/module/fuse/parameters/enable_uring";
    let _ = std::fs::write(switch, "Y");
    let Ok(text) = std::fs::read_to_string(switch) else {
        not_in_this_kernel(test, "FUSE over io_uring");
        return false;
    };
    if text.trim() != "Y" {
        skipped(test, &format!("cannot write to {switch}"));
    }
    text.trim() == "Y"
}

/// Makes two tests of each function: one where requests come through the device, one where they come through io_uring.
#[macro_export]
macro_rules! each_way {
    ($($name:ident),* $(,)?) => {
        mod through_device {
            $(#[test] fn $name() { super::$name(false) })*
        }
        mod through_uring {
            $(#[test] fn $name() { if $crate::has_rings(stringify!($name)) { super::$name(true) } })*
        }
    };
}
/// Whether a program can be run: in `PATH`, or where programs of root are.
pub fn has_program(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    dirs.into_iter().any(|dir| dir.join(program).is_file())
}

/// Runs a program and returns what it printed.
///
/// # Panics
/// It fails: its output is in the message.
#[track_caller]
pub fn run(program: &str, arguments: &[&str]) -> String {
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    let mut command = Command::new(program);
    command.args(arguments).env("PATH", path).env("LC_ALL", "C").stdin(Stdio::null());
    let output = command.output().unwrap_or_else(|error| panic!("{program}: {error}"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {}\n{text}{errors}", output.status);
    text
}

/// Waits for something that must happen.
///
/// # Panics
/// It does not happen within a minute. The limit is only there to end a failing test.
#[track_caller]
pub fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what} does not happen");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether something is mounted at a directory.
///
/// # Panics
/// The kernel does not tell.
pub fn is_mounted(dir: &Path) -> bool {
    let dir = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    mounts.lines().any(|line| line.split(' ').nth(4) == dir.to_str())
}
