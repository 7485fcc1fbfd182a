//! Changed Zone List (ZNS, "Changed Zone List", LID BFh): zones whose descriptor the controller changed by itself.

use crate::{U16, U64};

wire! {
    /// Changed Zone List.
    pub struct ChangedZones[4096] {
        /// Number of Zone Identifiers; [`ChangedZones::TOO_MANY`] if more than 511 zones changed, and the list is empty.
        pub nrzid: U16,
        /// Reserved.
        pub rsvd2: [u8; 6],
        /// Zone Identifiers: the first LBA of each zone, ascending.
        pub zid: [U64; 511],
    }
}
layout!(ChangedZones, 4096, zid @ 8);

impl ChangedZones {
    /// Number of Zone Identifiers when they are more than the list has room for.
    pub const TOO_MANY: u16 = u16::MAX;

    /// The log for zones that begin at these ascending LBAs: all of them, or none and [`ChangedZones::TOO_MANY`].
    pub fn new(zslbas: impl IntoIterator<Item = u64>) -> Self {
        let mut log = Self::default();
        let mut zslbas = zslbas.into_iter();
        let mut count = 0;
        for (entry, zslba) in log.zid.iter_mut().zip(zslbas.by_ref()) {
            entry.set(zslba);
            count += 1;
        }
        log.nrzid.set(count);
        if zslbas.next().is_some() {
            log = Self::default();
            log.nrzid.set(Self::TOO_MANY);
        }
        log
    }

    /// The first LBA of each zone that changed; `None` if they are too many to list. `nrzid` is not trusted beyond the list's size.
    #[must_use]
    pub fn zones(&self) -> Option<&[U64]> {
        match self.nrzid.get() {
            Self::TOO_MANY => None,
            count => Some(&self.zid[..usize::from(count).min(self.zid.len())]),
        }
    }
}
