//! FUSE over io_uring: requests and answers travel through queues that are shared with the kernel (Linux 6.14).
//!
//! The kernel has a queue for each processor and puts a request into that of the processor it is made on. A [`Frame`](frame::Frame)
//! is the place for one request: it belongs to the kernel until a request is in it, to this program until the answer
//! is in it. `ring` moves frames to and fro, a batch at each system call; `serve` says what a request means and asks the same
//! [`Directory`](crate::directory::Directory) as the other way.
//!
//! Some things still go through `/dev/fuse`, which the crate `fuser` serves: the first request, inodes that the kernel forgets, and what
//! this program tells the kernel.

mod frame;
mod ring;
mod serve;

pub use ring::Rings;

use std::path::Path;

/// The kernel's switch: a file that root may write `Y` and `N` to.
const SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";
/// Processors that the kernel has a queue for: `0-3,8`.
const POSSIBLE_PROCESSORS: &str = "/sys/devices/system/cpu/possible";

/// Whether this process may have a ring for commands to a driver.
///
/// # Errors
/// The kernel is too old, or does not let it.
pub fn probe() -> std::io::Result<()> {
    ring::probe()
}

/// Whether the kernel offers FUSE over io_uring to this process.
///
/// # Errors
/// Why not, and what to do about it, in words.
pub fn offered() -> Result<(), String> {
    offered_by(Path::new(SWITCH))?;
    probe().map_err(|reason| format!("io_uring cannot be used ({reason})"))
}

fn offered_by(switch: &Path) -> Result<(), String> {
    match std::fs::read_to_string(switch) {
        Ok(text) if text.trim() == "Y" => Ok(()),
        Ok(_) => Err(format!("the kernel has it turned off (as root: echo Y > {})", switch.display())),
        Err(_) => Err("the kernel does not have it (Linux 6.14, CONFIG_FUSE_IO_URING)".into()),
    }
}

/// How many queues the kernel has: one for each processor that there can be.
fn queues() -> u16 {
    let list = std::fs::read_to_string(POSSIBLE_PROCESSORS).unwrap_or_default();
    count(list.trim()).unwrap_or(1).max(1)
}

/// How many numbers a list like `0-3,8` has.
fn count(list: &str) -> Option<u16> {
    let mut sum = 0u16;
    for range in list.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u16, u16) = (first.parse().ok()?, last.parse().ok()?);
        sum = sum.checked_add(last.checked_sub(first)?)?.checked_add(1)?;
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_counted() {
        assert_eq!([count("0"), count("0-1"), count("0-3,8,10-11")], [Some(1), Some(2), Some(7)]);
        assert_eq!([count(""), count("3-1"), count("x")], [None; 3]);
        assert!(queues() >= 1);
    }

    #[test]
    fn the_reason_says_what_to_do() {
        let dir = tempfile::tempdir().unwrap();
        let switch = dir.path().join("enable_uring");
        assert!(offered_by(&switch).unwrap_err().contains("Linux 6.14"));
        std::fs::write(&switch, "N\n").unwrap();
        let off = offered_by(&switch).unwrap_err();
        assert!(off.contains(&format!("echo Y > {}", switch.display())), "{off}");
        std::fs::write(&switch, "Y\n").unwrap();
        assert_eq!(offered_by(&switch), Ok(()));
    }
}
