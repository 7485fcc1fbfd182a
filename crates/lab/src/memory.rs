//! Memory of this machine and of this process, as Linux tells it (proc(5)).

use std::fs;

pub(crate) use run::machine::available_memory as available;

/// What of that may be planned with: a sixteenth, and half a GiB at least, are left for everything else.
pub(crate) fn spendable(available: u64) -> u64 {
    available.saturating_sub((available / 16).max(512 << 20))
}

/// The most memory that this process has had, in bytes.
pub(crate) fn peak() -> Option<u64> {
    entry("/proc/self/status", "VmHWM:")
}

/// An entry in kB, in bytes.
fn entry(file: &str, name: &str) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib.saturating_mul(1024))
}
