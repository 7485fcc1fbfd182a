//! The controller's core: what a command needs from when it comes until it is answered.
//!
//! [`Core`] holds the tables of namespaces, controllers and commands in flight, the queue of timed events,
//! arbitration, fused pairs, and the state that outlives power. Its methods admit, hold, schedule, complete and count
//! commands. Components (one feature of the controller each) stand above it: a component owns its own state and gets
//! `&mut Core` and [`Cx`] for a call. [`Drive`](crate::Drive) stands above the components. It hands commands and events
//! out, and passes on what one component returns for another.
//!
//! Rules:
//! - The core imports no component. Where it stores plain data of one (in [`PersistentState`], [`Controller`] or
//!   [`Namespace`]), that data's file imports nothing of the core.
//! - A component imports neither another component nor the drive.
//! - What the core wants of a component it notes in [`ComponentRequests`]; the drive looks there before a call ends.

mod access;
mod arbitration;
mod async_events;
mod clock;
mod completion;
mod controller;
mod departures;
pub(crate) mod failure;
mod fair_queueing;
mod fused;
mod held_queue;
mod in_flight;
mod keep_alive;
mod loss_alerts;
mod meter;
mod namespace;
mod output;
mod persistent_state;
mod placement;
mod power;
mod record;
mod role;
mod state;
mod waiting;

pub use controller::{ControllerId, Host, MAX_IO_QUEUES, MAX_QUEUE_ENTRIES, Origin, PortId, TransportModel};
pub use in_flight::MAX_IO;
pub use output::Output;
pub use role::Role;

pub(crate) use access::ANA_GROUP;
pub(crate) use arbitration::StartDecision;
pub(crate) use async_events::{ASYNC_EVENT_LIMIT, AsyncEvent};
pub(crate) use controller::{Controller, ERROR_ENTRIES};
pub(crate) use failure::{AdminResult, Failure, Reply, StepCost, WORK_TIME};
pub(crate) use fair_queueing::Direction;
pub(crate) use fused::{FIRST, SECOND, is_fused, other_failed};
pub(crate) use held_queue::NamespaceArbitration;
pub(crate) use in_flight::{CommandKind, CommandStage, InFlight, Token, WaitingAdminCommand};
pub(crate) use keep_alive::KEEP_ALIVE_GRANULARITY;
pub(crate) use namespace::{Admission, AttachmentPolicy, FormatLayout, Namespace, Namespaces, identifiers};
pub(crate) use persistent_state::PersistentState;
pub(crate) use record::{SECTION_VERSION, SavedState};
pub(crate) use state::{ComponentRequests, Core, Cx, TimedEvent};
