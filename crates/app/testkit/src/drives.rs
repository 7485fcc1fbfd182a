//! Small drives, as TOML.

/// A drive of 256 MiB, on which a study takes less than a second.
pub const SMALL_DRIVE: &str = include_str!("small_drive.toml");

/// An NVM Set of TLC flash in 4 dies with 60 % spare and times of flash; `capacity` is a size as in TOML, `keys` are further lines of the set.
///
/// Planes and pages are small, so that garbage collection and zones have work at a few MiB.
pub fn flash(capacity: &str, keys: &str) -> String {
    format!(
        r#"
[[set]]
media = "nand"
cell = "tlc"
capacity = "{capacity}"
spare = "60%"
channels = 2
dies = 4
planes = 2
nand_page = "4KiB"
pages_per_block = 48
rated_cycles = 3000
timing = {{ read = "60us", program = "700us", erase = "4ms", channel = "800MB/s" }}
{keys}
"#
    )
}
