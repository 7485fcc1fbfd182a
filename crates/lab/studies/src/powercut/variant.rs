//! What is tried: layouts of the doublewrite buffer, MyRocks on zones, and what protects PostgreSQL's pages.

use std::fmt;

use clap::{ValueEnum, builder::PossibleValue};
use lab_databases::layout::{Layout, Precondition};
use lab_models::innodb;

/// What is tried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Variant {
    /// InnoDB with a layout of its doublewrite buffer.
    InnoDb(innodb::Variant),
    /// MyRocks on a store on zones.
    Rocks,
    /// PostgreSQL, whose pages something protects from being torn, or nothing.
    PostgreSql(Protection),
}

/// What protects the pages of PostgreSQL, which have 8 KiB.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protection {
    /// `full_page_writes`: the log has them whole.
    FullPages,
    /// The drive writes 8 KiB atomically. `full_page_writes` is off.
    AtomicWrites,
    /// Nothing: the drive writes 4 KiB atomically, and `full_page_writes` is off.
    Nothing,
}

impl Protection {
    fn name(self) -> &'static str {
        match self {
            Self::FullPages => "postgres-fpw",
            Self::AtomicWrites => "postgres-atomic",
            Self::Nothing => "postgres-torn",
        }
    }

    /// The drive's atomic write unit.
    pub(super) fn atomic_write(self) -> &'static str {
        if self == Self::AtomicWrites { "8KiB" } else { "4KiB" }
    }
}

impl Variant {
    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::InnoDb(variant) => variant.name(),
            Self::Rocks => "myrocks-zones",
            Self::PostgreSql(protection) => protection.name(),
        }
    }

    /// Tells the random numbers of variants apart.
    pub(super) fn number(self) -> u64 {
        match self {
            Self::InnoDb(variant) => variant as u64,
            Self::Rocks => 100,
            Self::PostgreSql(protection) => 200 + protection as u64,
        }
    }

    /// Whether it must lose nothing.
    pub(super) fn is_safe(name: &str) -> bool {
        name != innodb::Variant::Off.name() && name != Protection::Nothing.name()
    }

    /// Whether the drive keeps its pages whole, so that not even one is torn before recovery.
    pub(super) fn is_whole(name: &str) -> bool {
        name == innodb::Variant::Atomic.name() || name == Protection::AtomicWrites.name()
    }

    /// Whether capacitors protect the drive. Contents of DRAM outlive a power cut only where they do. The other variants must do without, which is
    /// harder: everything that was not flushed is gone.
    pub(super) fn is_protected(self) -> bool {
        self == Self::InnoDb(innodb::Variant::Dram)
    }

    /// What all variants want of a layout.
    pub(super) fn finish(self, layout: &mut Layout) {
        layout.name = format!("powercut-{self}");
        // Cuts are about what is in flight, not about an aged drive.
        layout.precondition = Precondition::None;
        let drive = layout.overrides.entry("drive").or_insert_with(|| toml::Table::new().into());
        if let Some(drive) = drive.as_table_mut() {
            drive.insert("power_loss_protection".into(), self.is_protected().into());
        }
    }
}

impl ValueEnum for Variant {
    fn value_variants<'a>() -> &'a [Self] {
        use innodb::Variant::{Atomic, Dram, Nand, Off, Pmem};
        &[
            Self::InnoDb(Nand),
            Self::InnoDb(Dram),
            Self::InnoDb(Pmem),
            Self::InnoDb(Off),
            Self::InnoDb(Atomic),
            Self::Rocks,
            Self::PostgreSql(Protection::FullPages),
            Self::PostgreSql(Protection::AtomicWrites),
            Self::PostgreSql(Protection::Nothing),
        ]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        use innodb::Variant::{Atomic, Dram, Nand, Off, Pmem};
        let help = match self {
            Self::InnoDb(Nand) => "InnoDB, doublewrite buffer beside the data, on NAND",
            Self::InnoDb(Dram) => "InnoDB, doublewrite buffer on a DRAM namespace of the same drive",
            Self::InnoDb(Pmem) => {
                "InnoDB, doublewrite buffer on a persistent memory namespace of the same drive"
            }
            Self::InnoDb(Off) => "InnoDB without doublewrite buffer: unsafe",
            Self::InnoDb(Atomic) => {
                "InnoDB without doublewrite buffer, on a drive that writes 16 KiB atomically"
            }
            Self::Rocks => "MyRocks on a store on zones, on the drive zn540-lab",
            Self::PostgreSql(Protection::FullPages) => "PostgreSQL with full_page_writes",
            Self::PostgreSql(Protection::AtomicWrites) => {
                "PostgreSQL without full_page_writes, on a drive that writes 8 KiB atomically"
            }
            Self::PostgreSql(Protection::Nothing) => {
                "PostgreSQL without full_page_writes, on a drive that writes 4 KiB atomically: unsafe"
            }
        };
        Some(PossibleValue::new(self.name()).help(help))
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
