//! What becomes of the contents of a drive in virtual time.

use device::Config;
use image::{Store, pages};

/// Whether a simulated drive keeps what is written to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Contents {
    /// No: reads give zeros, and nothing is copied. The spare areas have no versions and handles of contents. Those would take two thirds
    /// of the memory, and change none of the drive's decisions.
    None,
    /// Not yet: the drive keeps contents when it has gone live ([`Sim::go_live`](crate::Sim::go_live)). What was written before reads
    /// as zeros, and takes no room.
    Later,
    /// In memory.
    Memory,
}

impl Contents {
    /// A drive's configuration with what its contents need.
    pub(crate) fn shape(self, mut config: Config) -> Config {
        // Only contents need places for their slots: after a power cut they are looked for there.
        config.ftl.durable = self != Contents::None;
        config
    }

    pub(crate) fn store(self, config: &Config) -> Store {
        match self {
            Contents::None => Store::without_contents(),
            Contents::Later => Store::dry(),
            Contents::Memory => Store::in_memory(pages(config)),
        }
    }
}
