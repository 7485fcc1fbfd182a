//! Memory of this machine and of this process, and what may be planned with.

pub use image::machine::{available_memory as available, peak_memory as peak};

/// What of that may be planned with: a sixteenth, and half a GiB at least, are left for everything else.
pub fn spendable(available: u64) -> u64 {
    available.saturating_sub((available / 16).max(512 << 20))
}
