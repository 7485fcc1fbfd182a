//! The drives under test.

use super::load::Space;
use super::model::Memory;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DriveKind {
    /// Flash with blocks of two sizes and with protection information, DRAM and persistent memory.
    Mixed,
    /// The same; its capacitors fail now and then.
    Unreliable,
    /// The same, without capacitors.
    Unprotected,
    /// Small, full, and its blocks go bad.
    Worn,
    /// Its namespaces are formatted, deleted and created.
    Shifting,
}

const MIB: u64 = 1 << 20;

impl DriveKind {
    pub fn protected(self) -> bool {
        self != DriveKind::Unprotected
    }

    /// Whether cuts happen that the capacitors do not cover.
    pub fn lost_on_cuts(self) -> bool {
        matches!(self, DriveKind::Unreliable | DriveKind::Unprotected)
    }

    /// Its file, and its namespaces.
    pub fn describe(self) -> (String, Vec<Space>) {
        if self == DriveKind::Worn {
            return (worn(), vec![Space::new(1, 4096, 10 * MIB), Space::new(2, 512, 2 * MIB)]);
        }
        if self == DriveKind::Shifting {
            let spaces = [(1, 4096, 10 * MIB), (2, 512, 4 * MIB), (3, 4096, 8 * MIB)];
            return (shifting(), spaces.map(|(nsid, sector, bytes)| Space::new(nsid, sector, bytes)).into());
        }
        let mut dram = Space::new(4, 512, 2 * MIB);
        dram.memory = Memory::Dram;
        let mut pmem = Space::new(5, 4096, 2 * MIB);
        pmem.memory = Memory::Persistent;
        let mut spaces = vec![
            Space::new(1, 4096, 16 * MIB),
            Space::new(2, 512, 4 * MIB),
            Space::new(3, 4096, 8 * MIB),
            dram,
            pmem,
        ];
        if self.protected() {
            spaces[..3].iter_mut().for_each(|space| space.memory = Memory::Relying);
        }
        (mixed(self.protected()), spaces)
    }
}

fn mixed(protected: bool) -> String {
    format!(
        r#"
[drive]
write_buffer = "1MiB"
power_loss_protection = {protected}

[[set]]
media = "nand"
cell = "tlc"
capacity = "32MiB"
spare = "25%"
channels = 2
dies = 2
planes = 1
nand_page = "16KiB"
pages_per_block = 24
rated_cycles = 30000

[[set]]
media = "dram"
capacity = "2MiB"

[[set]]
media = "pmem"
capacity = "2MiB"

[[namespace]]
set = 1
size = "16MiB"
lba = 4096

[[namespace]]
set = 1
size = "4MiB"
lba = 512

[[namespace]]
set = 1
size = "8MiB"
lba = "4096+8"
pi = 1

[[namespace]]
set = 2
size = "2MiB"
lba = 512

[[namespace]]
set = 3
size = "2MiB"
lba = 4096
"#
    )
}

fn worn() -> String {
    r#"
[drive]
write_buffer = "256KiB"

[[set]]
media = "nand"
cell = "tlc"
capacity = "12MiB"
spare = "15%"
channels = 2
dies = 2
planes = 1
nand_page = "4KiB"
pages_per_block = 24
rated_cycles = 30000

[[namespace]]
set = 1
size = "10MiB"
lba = 4096

[[namespace]]
set = 1
size = "2MiB"
lba = 512
"#
    .into()
}

fn shifting() -> String {
    r#"
[drive]
write_buffer = "1MiB"

[[set]]
media = "nand"
cell = "tlc"
capacity = "40MiB"
spare = "20%"
channels = 2
dies = 2
planes = 1
nand_page = "16KiB"
pages_per_block = 24
rated_cycles = 30000

[[namespace]]
set = 1
size = "10MiB"
lba = 4096

[[namespace]]
set = 1
size = "4MiB"
lba = 512

[[namespace]]
set = 1
size = "8MiB"
lba = "4096+8"
pi = 1

[[namespace]]
set = 1
size = "1MiB"
lba = 4096
"#
    .into()
}

/// Room for a file system: XFS wants 300 MiB at least.
pub fn roomy(protected: bool) -> String {
    format!(
        r#"
[drive]
write_buffer = "2MiB"
power_loss_protection = {protected}

[[set]]
media = "nand"
cell = "tlc"
capacity = "384MiB"
spare = "20%"
channels = 2
dies = 4
planes = 1
nand_page = "16KiB"
pages_per_block = 48
rated_cycles = 30000

[[namespace]]
set = 1
size = "384MiB"
lba = 4096
"#
    )
}
