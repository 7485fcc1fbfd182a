//! How long data is expected to live. Files that die together share zones, so that a zone is empty when they are gone.

/// The expected life of a file's data, as `fcntl(F_SET_RW_HINT)` of Linux names it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub enum Lifetime {
    /// Not known.
    #[default]
    Unknown,
    /// Shorter than most (`RWH_WRITE_LIFE_SHORT`).
    Short,
    /// Medium (`RWH_WRITE_LIFE_MEDIUM`).
    Medium,
    /// Longer than most (`RWH_WRITE_LIFE_LONG`).
    Long,
    /// Longest (`RWH_WRITE_LIFE_EXTREME`).
    Extreme,
}

impl Lifetime {
    /// The extended attribute that says it: `short`, `medium`, `long`, `extreme`, or none of them.
    pub const XATTR: &'static [u8] = b"user.tranche.lifetime";

    /// The lifetime that the value of the extended attribute names. The numbers of Linux's hints (0 to 5) are names, too.
    ///
    /// Returns `None` for a value that is no name.
    #[must_use]
    pub fn parse(value: &[u8]) -> Option<Self> {
        Some(match value {
            b"unknown" | b"none" | b"0" | b"1" => Self::Unknown,
            b"short" | b"2" => Self::Short,
            b"medium" | b"3" => Self::Medium,
            b"long" | b"4" => Self::Long,
            b"extreme" | b"5" => Self::Extreme,
            _ => return None,
        })
    }

    /// Its name, as [`parse`](Self::parse) reads it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Short => "short",
            Self::Medium => "medium",
            Self::Long => "long",
            Self::Extreme => "extreme",
        }
    }

    /// How far two lifetimes are from each other. Data of unknown life counts as medium.
    pub(crate) fn distance(self, other: Self) -> usize {
        self.rank().abs_diff(other.rank())
    }

    fn rank(self) -> usize {
        match self {
            Self::Short => 1,
            Self::Unknown | Self::Medium => 2,
            Self::Long => 3,
            Self::Extreme => 4,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_distances() {
        assert_eq!(Lifetime::parse(b"short"), Some(Lifetime::Short));
        assert_eq!(Lifetime::parse(b"5"), Some(Lifetime::Extreme));
        assert_eq!(Lifetime::parse(b"soon"), None);
        assert_eq!(Lifetime::Short.distance(Lifetime::Extreme), 3);
        assert_eq!(Lifetime::Unknown.distance(Lifetime::Medium), 0);
    }
}
