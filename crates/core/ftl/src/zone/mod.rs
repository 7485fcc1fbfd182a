//! Zones, as those see them who do not know how they lie on flash.

mod layout;
mod state;
mod zrwa;

pub use layout::{ZoneLayout, ZoneSupport};
pub use state::{ZoneEvent, ZoneFault, ZoneState};
pub use zrwa::ZrwaLayout;

/// Most bytes of a zone's descriptor extension: NVMe counts them in units of 64 bytes, with a number of 8 bits.
pub const MAX_ZONE_EXTENSION: usize = 255 * 64;

/// What a zone is, for those above.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ZoneInfo {
    /// Its state.
    pub state: ZoneState,
    /// Bytes from its begin to the write pointer, whole pages. Of no meaning where the zone is full, read only or offline.
    pub written: u64,
    /// The host's descriptor extension; empty if none is set.
    pub extension: Box<[u8]>,
    /// Whether it has a Zone Random Write Area.
    pub zrwa: bool,
    /// Whether the set recommends to finish it, or to reset it.
    pub finish_recommended: bool,
    /// See `finish_recommended`.
    pub reset_recommended: bool,
    /// Whether the set finished it by itself.
    pub finished_by_set: bool,
}

/// What a host asks of zones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ZoneAction<'a> {
    /// Opens a zone explicitly. Of all: those that are closed.
    Open,
    /// Opens a zone explicitly, with a Zone Random Write Area. A zone without one must be empty.
    OpenWithZrwa,
    /// Moves the write pointer of a zone with a Zone Random Write Area to this byte of the zone. What was never written before it reads
    /// as zeros from then on. One zone at a time.
    Commit(u64),
    /// Closes a zone. Of all: those that are open.
    Close,
    /// Makes a zone full. Of all: those that are open or closed.
    Finish,
    /// Gives up what a zone holds. Of all: those that are open, closed or full.
    Reset,
    /// Takes a read-only zone out of use. Of all: those that are read only.
    TakeOffline,
    /// Sets the descriptor extension of an empty zone, which is closed then. At most [`MAX_ZONE_EXTENSION`] bytes.
    Extend(&'a [u8]),
}

/// Which zones are meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ZoneTarget {
    /// This one.
    One(u32),
    /// All that the action can concern.
    All,
    /// Those of a range that the action can concern. The range may end behind the last zone.
    Range {
        /// First zone.
        first: u32,
        /// Number of zones.
        count: u32,
    },
}
