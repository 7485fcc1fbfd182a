//! Layouts: what all servers share.

use std::{fmt, str::FromStr};

use schemars::JsonSchema;
use serde::Serialize;

/// A layout that can be asked for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Layout {
    /// What the configuration says.
    Configured,
    /// InnoDB's doublewrite buffer on, beside the data.
    Doublewrite,
    /// PostgreSQL's `full_page_writes` on.
    Fpw,
    /// InnoDB's doublewrite buffer in the drive's memory.
    Dram,
    /// PostgreSQL's log in the drive's memory.
    Wal,
    /// No copies, on a drive that writes pages atomically.
    Atomic,
    /// Logs on zones.
    Zones,
    /// On a disk, without and with a cache on the drive before it.
    Cache,
    /// Beside a neighbour, without and with a quota.
    Quota,
}

impl Layout {
    /// All of them, in the order of reports.
    pub const ALL: [Self; 9] = [
        Self::Configured,
        Self::Doublewrite,
        Self::Fpw,
        Self::Dram,
        Self::Wal,
        Self::Atomic,
        Self::Zones,
        Self::Cache,
        Self::Quota,
    ];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Configured => "configured",
            Self::Doublewrite => "doublewrite",
            Self::Fpw => "fpw",
            Self::Dram => "dram",
            Self::Wal => "wal",
            Self::Atomic => "atomic",
            Self::Zones => "zones",
            Self::Cache => "cache",
            Self::Quota => "quota",
        }
    }

    /// Whether it is simulated only if it is asked for: it is no layout of one server on this drive, or it takes much longer.
    #[must_use]
    pub fn is_extra(self) -> bool {
        matches!(self, Self::Zones | Self::Cache | Self::Quota)
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Layout {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names = || Self::ALL.map(Self::name);
        Self::ALL.into_iter().find(|layout| layout.name() == text).ok_or_else(|| {
            let near = units::did_you_mean(text, names());
            format!("there is no layout {text:?}: there are {}{near}", names().join(", "))
        })
    }
}

/// On what the server lies, and beside whom.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// The drive is its own.
    Drive,
    /// So it is, and the logs are on zones.
    Zones,
    /// A neighbour has another namespace of the drive, with a quota or without.
    Shared {
        /// Whether the neighbour has a quota.
        quota: bool,
    },
    /// It lies on a disk.
    Disk {
        /// Whether a part of the drive is a cache before the disk.
        cache: bool,
    },
}

impl Place {
    /// Whether a server can be put there to gain something. Else it is there to be compared with.
    pub fn is_choice(self) -> bool {
        matches!(self, Self::Drive | Self::Zones)
    }
}

/// How the server lies on the drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrangement {
    /// Whether pages are written twice, so that torn ones are mended: to the doublewrite buffer, or as full-page images to the log.
    pub twice: bool,
    /// Whether what is written first (the doublewrite buffer, or the log) is on a namespace in the drive's memory.
    pub memory: bool,
    /// Whether the drive writes pages atomically.
    pub atomic: bool,
    /// Whether what is written in a circle and thrown away is on a namespace of its own: logs, and files of the doublewrite buffer.
    pub logs: bool,
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
    /// On what, and beside whom.
    pub place: Place,
    /// What it wants that this drive has not; none if it can be done on this drive.
    pub needs: Option<String>,
    /// Whether a power cut leaves no torn page that nothing mends.
    pub safe: bool,
    /// What must hold for it.
    pub warnings: Vec<String>,
    /// How one gets there.
    pub steps: Vec<String>,
}

/// A layout that is not simulated.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct Excluded {
    /// Its name.
    pub name: &'static str,
    /// Why not.
    pub why: String,
}

/// What must hold where nothing but the drive keeps pages whole.
pub const GUARANTEE: &str = "Without the guarantee of the drive, and of each layer between (file system, RAID, LVM), a power cut tears pages and nothing mends them.";
/// What a layout in the memory of a drive without capacitors lacks.
pub const NOT_PROTECTED: &str = "This drive's memory is not protected (power_loss_protection = false).";

/// An NVM Set of memory, in a drive's TOML.
pub fn memory(size: &str) -> String {
    format!("[[set]]\nmedia = \"dram\"\ncapacity = \"{size}\"")
}

/// What a layout wants that a drive has not which writes pages of so many bytes in parts.
pub fn atomic_writes(drive: &super::drive::Drive, page: u64) -> Option<String> {
    let wanted =
        format!("a drive that writes {} KiB atomically (this one: {})", page >> 10, drive.atomic_write());
    (!drive.is_atomic(page)).then_some(wanted)
}

/// What a layout wants that a drive has not: so many bytes of protected memory.
pub fn protected_memory(drive: &super::drive::Drive, bytes: u64) -> Option<String> {
    let has = drive.memory();
    let wanted = || {
        let has = if has == 0 { "none that namespaces can have".to_owned() } else { size(has) };
        format!("a drive with {} of protected memory (this one: {has})", size(bytes))
    };
    (has < bytes).then(wanted)
}

/// A size as the drive's TOML and its command line take it.
pub fn size(bytes: u64) -> String {
    lab_report::figure::show_size(bytes).replace(".0 ", "").replace(' ', "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab_report::profile;

    #[test]
    fn layouts_are_named() {
        for layout in Layout::ALL {
            assert_eq!(layout.name().parse(), Ok(layout));
        }
        let wrong = "doublewrit".parse::<Layout>().unwrap_err();
        assert!(wrong.contains("did you mean doublewrite?") && wrong.contains("configured, "), "{wrong}");
        assert!(!"x".parse::<Layout>().unwrap_err().contains("did you mean"));
    }

    #[test]
    fn what_a_drive_lacks_is_told() {
        let mut drive = crate::drive::tests::drive("4KiB", true);
        drive.profile = profile::table("pblaze5-910-3.84t").unwrap();
        assert_eq!(protected_memory(&drive, 64 << 20), None);
        assert!(
            protected_memory(&drive, 65 << 20)
                .unwrap()
                .contains("65MiB of protected memory (this one: 64MiB)")
        );
        assert!(atomic_writes(&drive, 16384).unwrap().contains("16 KiB atomically (this one: 4KiB)"));
        assert_eq!(atomic_writes(&drive, 4096), None);
        let tlc = super::super::drive::Drive { profile: profile::table("tlc-3.84t").unwrap(), ..drive };
        assert!(protected_memory(&tlc, 1).unwrap().contains("none"));
    }

    #[test]
    fn lines_for_a_drive_are_read_by_it() {
        let text = format!("{}\n{}", profile::read("pblaze5-910-short").unwrap(), memory("48MiB"));
        assert_eq!(live::Config::from_toml(&text).unwrap().ftl.sets.len(), 2);
        assert_eq!(size(48 << 20), "48MiB");
    }
}
