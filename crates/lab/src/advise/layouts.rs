//! Layouts: what all servers share.

use serde::Serialize;

/// How the server lies on the drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrangement {
    /// Whether pages are written twice, so that torn ones are mended: to the doublewrite buffer, or as full-page images to the log.
    pub twice: bool,
    /// Whether what is written first (the doublewrite buffer, or the log) is on a namespace in the drive's memory.
    pub memory: bool,
    /// Whether the drive writes pages atomically.
    pub atomic: bool,
}

/// A layout that is simulated.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Its name.
    pub name: &'static str,
    /// What it is, in a sentence.
    pub description: String,
    /// How the server lies on the drive.
    pub arrangement: Arrangement,
    /// Whether a power cut leaves no torn page that nothing mends.
    pub safe: bool,
    /// What must hold for it.
    pub warnings: Vec<String>,
    /// How one gets there.
    pub steps: Vec<String>,
}

/// A layout that is not simulated.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Excluded {
    /// Its name.
    pub name: &'static str,
    /// Why not, and what answers the question.
    pub why: String,
}

impl Excluded {
    /// Layouts that are about something else than one server on flash.
    pub fn usual() -> [Self; 2] {
        [
            Self {
                name: "cache",
                why: "a cache tier is for data on a hard disk, and this drive is flash: tranche study oltp has the database on a disk with a cache".into(),
            },
            Self {
                name: "quota",
                why: "a quota helps against a neighbour on the same drive, whose load a configuration does not tell: tranche study quota".into(),
            },
        ]
    }
}

/// What must hold where nothing but the drive keeps pages whole.
pub const GUARANTEE: &str = "Without the guarantee of the drive, and of each layer between (file system, RAID, LVM), a power cut tears pages and nothing mends them.";
/// What a layout in the memory of a drive without capacitors lacks.
pub const NOT_PROTECTED: &str = "This drive's memory is not protected (power_loss_protection = false).";

/// An NVM Set of memory, in a drive's TOML.
pub fn memory(size: &str) -> String {
    format!("[[set]]\nmedia = \"dram\"\ncapacity = \"{size}\"")
}

/// A size as the drive's TOML and its command line take it.
pub fn size(bytes: u64) -> String {
    crate::figure::show_size(bytes).replace(".0 ", "").replace(' ', "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile;

    #[test]
    fn lines_for_a_drive_are_read_by_it() {
        let text = format!("{}\n{}", profile::read("pblaze5-910-short").unwrap(), memory("48MiB"));
        assert_eq!(run::Config::from_toml(&text).unwrap().ftl.sets.len(), 2);
        assert_eq!(size(48 << 20), "48MiB");
    }
}
