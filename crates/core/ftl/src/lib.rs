//! The flash translation layer: mapping, write buffer, placement, garbage collection, wear levelling,
//! recovery, over NVM Sets of different media.
//!
//! A state machine without I/O, threads or a clock: requests carry the current time, answers and events
//! say when something ends. It knows volumes, not namespaces; pages, not logical blocks; and of contents
//! only handles, through [`Storage`].
//!
//! Validated here: that an extent lies in its volume. Not here: everything that NVMe says about commands.
//!
//! Rules of the core: no floating point, no hash order; the same requests at the same times give the same events on every machine. The
//! running drive does not allocate: tables are made at start, and lists are reused. What allocates is rare: recovery, volumes, purges,
//! and what tests ask for.
//!
//! Imports point down only. `layer` has requests, volumes, events and saving. `sets` has the kinds of sets: `nand_set`, `memory` and `disk`.
//! Their contract is `set`. Below are the mechanism `flash`, the policies `victim` and `placement`, and configuration, answers and storage.
//!
//! Each NAND set has its own share of the write buffer, so that one set cannot starve another.
//!
//! Not modelled: the flash that a real drive spends on its own tables. The map is rebuilt from the spare
//! areas; deallocations and volumes are in a *system area* that is taken to be reliable.

mod answer;
mod broadcast;
mod compare;
mod config;
mod context;
mod disk;
mod flash;
mod layer;
mod lost;
mod memory;
mod nand_set;
mod page_mapped;
mod placement;
mod policies;
mod policy_input;
mod properties;
mod set;
mod sets;
mod storage;
mod victim;
mod volume;
mod write;
mod zone;
mod zoned;
mod zoned_set;

pub use answer::{
    Answer, CompletedIo, Fault, MediaKind, PageState, PlacementChange, PlacementNote, STEP_EMPTY_FACTOR,
    STEP_MAPPED_PAGES, SetInfo, SetStats, Source, StepDone, SuperblockInfo, SuperblockUse, WriteHistory,
};
pub use config::{
    Config, ConfigError, GRANULE_PAGES, GcConfig, MAX_HANDLES, PAGE, PlacementConfig, SetConfig, ZoneAging,
    ZonesConfig,
};
pub use layer::Ftl;
pub use layer::persist::{LoadError, Restorer};
pub use placement::PlacementPolicy;
pub use policies::Policies;
pub use policy_input::{Candidate, HostWrite, Writer};
pub use properties::{SetCost, SetProperties, WindowProperties};
pub use storage::{Io, NoContents, Piece, Record, Section, SectorState, Storage, StorageError};
pub use victim::{GcPolicy, VictimPolicy};
pub use volume::{Extent, MAX_VOLUMES, SetId, VolumeId, VolumeStats};
pub use write::Write;
pub use zone::{
    MAX_ZONE_EXTENSION, ZoneAction, ZoneEvent, ZoneFault, ZoneInfo, ZoneLayout, ZoneState, ZoneSupport,
    ZoneTarget, ZrwaLayout,
};
