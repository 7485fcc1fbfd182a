//! Where InnoDB's doublewrite buffer is.

use std::fmt;

use clap::ValueEnum;

/// A layout of the doublewrite buffer.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Variant {
    /// Doublewrite buffer beside the data, on NAND.
    Nand,
    /// Doublewrite buffer on a DRAM namespace of the same drive.
    Dram,
    /// Doublewrite buffer on a persistent memory namespace of the same drive.
    Pmem,
    /// No doublewrite buffer: the upper bound, and unsafe.
    Off,
    /// No doublewrite buffer, on a drive that writes 16 KiB atomically.
    Atomic,
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Variant {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Nand, Self::Dram, Self::Pmem, Self::Off, Self::Atomic];

    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nand => "nand",
            Self::Dram => "dram",
            Self::Pmem => "pmem",
            Self::Off => "off",
            Self::Atomic => "atomic",
        }
    }

    /// That of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|variant| variant.name() == name)
    }

    /// What it is, in a sentence.
    pub fn description(self) -> &'static str {
        match self {
            Self::Nand => "Doublewrite buffer beside the data on the NAND namespace.",
            Self::Dram => "Doublewrite buffer on a DRAM namespace of the same drive.",
            Self::Pmem => "Doublewrite buffer on a persistent memory namespace of the same drive.",
            Self::Off => "No doublewrite buffer: the upper bound; a power cut may tear pages.",
            Self::Atomic => "No doublewrite buffer, on a drive that writes 16 KiB atomically.",
        }
    }

    /// Colour in charts.
    pub fn colour(self) -> &'static str {
        match self {
            Self::Nand => "#c2410c",
            Self::Dram => "#2563eb",
            Self::Pmem => "#7c3aed",
            Self::Off => "#6b7280",
            Self::Atomic => "#059669",
        }
    }

    /// Whether InnoDB writes pages twice.
    pub fn doublewrite(self) -> bool {
        !matches!(self, Self::Off | Self::Atomic)
    }

    /// The medium that holds the doublewrite buffer, when it is not the data's.
    pub fn medium(self) -> Option<&'static str> {
        match self {
            Self::Dram => Some("dram"),
            Self::Pmem => Some("pmem"),
            _ => None,
        }
    }

    /// Which prepared drive it starts from: variants of one family share it.
    pub fn family(self) -> Family {
        if self == Self::Atomic { Family::Atomic } else { Family::Standard }
    }
}

/// A prepared drive that several variants start from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// The drive of the profile.
    Standard,
    /// The same with an atomic write unit of 16 KiB.
    Atomic,
}

impl Family {
    /// For messages and directories.
    pub fn name(self) -> &'static str {
        match self {
            Self::Standard => "standard",
            Self::Atomic => "atomic",
        }
    }
}
