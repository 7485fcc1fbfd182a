//! What the tests share.

use live::Shape;

/// A drive of 64 MiB of NAND and 4 MiB of DRAM.
#[allow(dead_code, reason = "not every test needs it")]
pub fn shape() -> Shape {
    shape_with("")
}

/// The same with further keys in its `[drive]` table.
pub fn shape_with(drive: &str) -> Shape {
    let toml = format!(
        r#"
[drive]
{drive}

[[set]]
media = "nand"
cell = "tlc"
capacity = "64MiB"
spare = "100%"
channels = 2
dies = 2
planes = 1
nand_page = "4KiB"
pages_per_block = 48
rated_cycles = 3000

[[set]]
media = "dram"
capacity = "4MiB"

[[namespace]]
set = 1
size = "32MiB"
lba = 4096
attach = "all"
"#
    );
    Shape { config: device::Config::from_toml(&toml).unwrap(), toml }
}
