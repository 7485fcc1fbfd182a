//! LBA Status Information (LID 0Eh, NVM 4.1.4.5): blocks that may be unrecoverable, for the host to ask Get LBA Status about.

use crate::{U16, U32, U64};

wire! {
    /// Header of the LBA Status Information log page.
    pub struct LbaStatusLogHeader[16] {
        /// LBA Status Log Page Length: bytes of the whole log page.
        pub lslplen: U32,
        /// Number of LBA Status Log Namespace Elements.
        pub nlslne: U32,
        /// Estimate of Unrecoverable Logical Blocks, over all elements.
        pub estulb: U32,
        /// Reserved.
        pub rsvd12: [u8; 2],
        /// LBA Status Generation Counter: one more each time that the log page changes; rolls over.
        pub lsgc: U16,
    }

    /// LBA Status Log Namespace Element: what follows it are its range descriptors.
    pub struct LbaStatusLogElement[16] {
        /// Namespace Element Identifier: the NSID.
        pub neid: U32,
        /// Number of LBA Range Descriptors; [`LbaStatusLogElement::WHOLE_NAMESPACE`] for none, and the whole namespace is meant.
        pub nlrd: U32,
        /// Recommended Action Type of Get LBA Status.
        pub ratype: u8,
        /// Reserved.
        pub rsvd9: [u8; 7],
    }

    /// LBA Range Descriptor.
    pub struct LbaRangeDescriptor[16] {
        /// Range Starting LBA.
        pub rslba: U64,
        /// Range Number of Logical Blocks, counted from one.
        pub rnlb: U32,
        /// Reserved.
        pub rsvd12: [u8; 4],
    }
}
layout!(LbaStatusLogHeader, 16, nlslne @ 4, estulb @ 8, lsgc @ 14);
layout!(LbaStatusLogElement, 16, nlrd @ 4, ratype @ 8);
layout!(LbaRangeDescriptor, 16, rnlb @ 8);

impl LbaStatusLogElement {
    /// NLRD of an element without range descriptors: the host is to look at the whole namespace.
    pub const WHOLE_NAMESPACE: u32 = u32::MAX;
}
