//! Which data shares zones. A zone takes data of one group.

use crate::keys::KeyRange;
use crate::lifetime::Lifetime;
use crate::record::Ino;

/// What decides which data shares zones.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Placement {
    /// Nothing: all data does.
    None,
    /// The lifetime that its writer expects, else size and age. What garbage collection moves has zones of its own.
    Lifetime,
    /// As `Lifetime`, and ranges of keys where the writer gives them.
    #[default]
    Overlap,
}

impl Placement {
    /// The extended attribute of the top directory that says it: `none`, `lifetime` or `overlap`.
    pub const XATTR: &'static [u8] = b"user.tranche.placement";
    /// All of them.
    pub const ALL: [Self; 3] = [Self::None, Self::Lifetime, Self::Overlap];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Lifetime => "lifetime",
            Self::Overlap => "overlap",
        }
    }

    /// The placement of a name.
    ///
    /// Returns `None` for what is no name.
    #[must_use]
    pub fn parse(name: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|placement| placement.name().as_bytes() == name)
    }
}

/// Data of one group shares zones.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub(crate) struct Group {
    pub(crate) lifetime: Lifetime,
    /// Garbage collection moved it: it is older than what programs write.
    pub(crate) is_moved: bool,
    /// The level of tables whose keys are known, and their lifetime is not.
    pub(crate) level: Option<u8>,
}

impl Group {
    /// How badly a zone of this group suits data of another one: the least is the best.
    pub(crate) fn distance(self, other: Self) -> (bool, usize, bool) {
        (self.is_moved != other.is_moved, self.lifetime.distance(other.lifetime), self.level != other.level)
    }
}

/// Data that needs a place.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Newcomer {
    pub(crate) group: Group,
    /// It replaces other data of its file, or lies among such data.
    pub(crate) is_rewritten: bool,
    /// The file, and its keys if they count.
    pub(crate) table: Option<(Ino, KeyRange)>,
    /// When it was written, in blocks that programs had written before. That of moved data is the time of the zone that it comes from.
    pub(crate) since: u64,
}

/// What data without a hint does: how old the data is that it replaces, and how long its file is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Habits {
    /// Blocks that programs wrote since what it replaces was written; `None` if it replaces nothing.
    pub(crate) replaced: Option<u64>,
    /// The file has as many blocks as a zone.
    pub(crate) is_large: bool,
    /// Blocks of all files.
    pub(crate) live: u64,
}

impl Habits {
    /// How long such data is expected to live.
    ///
    /// What replaces young data is replaced soon, too, and what replaces old data late. That is how SepBIT (FAST 2022) tells blocks apart. Young is less than the mean
    /// age at which data dies. While the store stays as full as it is, that is the number of blocks that files have (Little's law). A file as large as a zone fills zones
    /// by itself, and shares them with what lives long, not with small files.
    pub(crate) fn lifetime(self) -> Lifetime {
        match self.replaced {
            Some(age) if age < self.live => Lifetime::Short,
            Some(_) => Lifetime::Long,
            None if self.is_large => Lifetime::Long,
            None => Lifetime::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read() {
        for placement in Placement::ALL {
            assert_eq!(Placement::parse(placement.name().as_bytes()), Some(placement));
        }
        assert_eq!(Placement::parse(b"best"), None);
    }

    #[test]
    fn size_and_age_tell_lifetimes() {
        let lifetime = |replaced, is_large| Habits { replaced, is_large, live: 100 }.lifetime();
        assert_eq!(lifetime(Some(99), true), Lifetime::Short);
        assert_eq!(lifetime(Some(100), false), Lifetime::Long);
        assert_eq!(lifetime(None, true), Lifetime::Long);
        assert_eq!(lifetime(None, false), Lifetime::Unknown);
    }

    #[test]
    fn moved_data_suits_moved_data_first() {
        let group = |lifetime, is_moved| Group { lifetime, is_moved, level: None };
        let own = group(Lifetime::Short, true);
        let distances =
            [group(Lifetime::Extreme, true), group(Lifetime::Short, false), group(Lifetime::Long, false)]
                .map(|other| own.distance(other));
        assert!(distances.is_sorted(), "{distances:?}");
    }
}
