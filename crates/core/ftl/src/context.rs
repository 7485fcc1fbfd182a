//! What a set works with besides its own state.

use crate::answer::CompletedIo;
use crate::storage::Storage;
use crate::volume::{SetId, Volumes};
use media::{Events, Unit};

/// What a set wants to be told of later.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// The first program of a die should have ended.
    Programmed(u32),
    /// The pages of a chain of gathered programs are in the controller.
    Gathered(u32),
    /// The erase of one block should have ended.
    Erased(Unit),
    /// The disk has something to do.
    Disk,
    /// A zone may have come of age.
    ZonesAged,
}

/// The drive's queue of events, of all sets.
pub(crate) type EventQueue = Events<(SetId, Event)>;

/// What a call may touch besides the set itself.
pub(crate) struct SetContext<'a, S: Storage> {
    pub storage: &'a mut S,
    pub events: &'a mut EventQueue,
    pub volumes: &'a mut Volumes,
    pub done: &'a mut Vec<CompletedIo>,
    /// Order of the drive's writes.
    pub version: &'a mut u64,
}
