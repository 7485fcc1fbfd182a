//! The core's state.

use super::clock::Clock;
use super::controller::{Controller, ControllerId, Controllers};
use super::failure::Failure;
use super::fair_queueing::{Direction, FairQueueing};
use super::fused::Fused;
use super::held_queue::HeldCommands;
use super::in_flight::{CommandsInFlight, WaitingAdminCommand};
use super::namespace::Namespaces;
use super::output::Output;
use super::persistent_state::PersistentState;
use crate::contents::Contents;
use drive_config::{Config, Link};
use ftl::{Ftl, SetConfig, SetId, SetInfo, SetProperties};
use media::{Events, Nanos, Timeline};
use nvme::log::{EnduranceWarning, PersistentEvent, PersistentEventType};
use nvme::zerocopy::{FromBytes, IntoBytes};
use nvme::{Status, U16, U64};

/// What a call may touch besides the drive.
pub(crate) struct Cx<'a, S: Contents> {
    pub now: Nanos,
    pub storage: &'a mut S,
    pub out: &'a mut Vec<Output>,
}

/// What is due at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TimedEvent {
    /// A command's modelled time has come.
    End(u32),
    /// A namespace's quota lets commands go on that were held.
    HeldQueue(u32, Direction),
    /// A keep-alive timer, told from others by its number, may have run out.
    KeepAlive(ControllerId, u32),
    /// The next step of a command that is done in steps.
    Step,
    /// A sanitize operation may go on.
    Sanitize,
    /// It is time to look at the deterministic window of a set, told from others by its number.
    Window(SetId, u32),
    /// A controller may be told of lost blocks now.
    LbaAlert(ControllerId),
    /// The next step of a self-test, told from others by its number.
    SelfTest(u32),
    /// The shutdown of a controller (and its association), or of the drive, is complete.
    ShutdownComplete(Option<(ControllerId, u32)>),
}

/// What the core wants of components. The drive does it before the call ends.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct ComponentRequests {
    /// Look for new critical warnings: a command has failed.
    pub health: bool,
    /// Look whether the media have worn: many writes have passed.
    pub wear: bool,
}

/// Whether there is power, and since when.
#[derive(Clone, Debug)]
pub(crate) struct Power {
    pub on: bool,
    /// When it came, or went.
    pub since: Nanos,
}

impl Default for Power {
    fn default() -> Self {
        Power { on: true, since: Nanos::ZERO }
    }
}

/// What the drive knows of its drive key.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct DriveKey {
    /// It is not the one that the keys of namespaces were wrapped with.
    pub locked: bool,
    /// There is one, and it is the right one.
    pub keyed: bool,
}

/// What the lives of commands share. See the [module](super).
pub(crate) struct Core {
    pub config: Config,
    pub ftl: Ftl,
    pub namespaces: Namespaces,
    pub controllers: Controllers,
    pub commands: CommandsInFlight,
    /// I/O commands that wait for their turn.
    pub held: HeldCommands,
    pub fair: FairQueueing,
    pub fused: Fused,
    /// Admin commands that wait until their namespaces are idle.
    pub waiting: Vec<WaitingAdminCommand>,
    /// Whether one of those namespaces may have become idle.
    pub drained: bool,
    pub events: Events<TimedEvent>,
    pub persistent: PersistentState,
    pub power: Power,
    pub clock: Clock,
    /// Critical warnings by Endurance Group, as the last look at the media found them.
    pub group_warnings: Vec<EnduranceWarning>,
    pub drive_key: DriveKey,
    pub requests: ComponentRequests,
    pub(super) link: Link,
    /// I/O commands on their way, and since when there are any.
    busy: (u32, Nanos),
    pub(super) read_link: Timeline,
    pub(super) write_link: Timeline,
    /// The controller's own part of commands that move data.
    pub(super) processor: Timeline,
    now: Nanos,
}

impl Core {
    /// The core of a drive that has just got power.
    pub fn new(config: Config, ftl: Ftl, namespaces: Namespaces, persistent: PersistentState) -> Core {
        Core {
            link: config.effective_link(),
            ftl,
            namespaces,
            controllers: Controllers::default(),
            commands: CommandsInFlight::default(),
            held: HeldCommands::default(),
            fair: FairQueueing::new(&config),
            fused: Fused::default(),
            waiting: Vec::new(),
            drained: false,
            events: Events::default(),
            persistent,
            power: Power::default(),
            clock: Clock::default(),
            group_warnings: Vec::new(),
            drive_key: DriveKey::default(),
            requests: ComponentRequests::default(),
            busy: (0, Nanos::ZERO),
            read_link: Timeline::default(),
            write_link: Timeline::default(),
            processor: Timeline::default(),
            now: Nanos::ZERO,
            config,
        }
    }

    /// Power is lost: forgets every controller, command and event.
    pub fn clear(&mut self) {
        self.controllers.clear();
        self.commands.clear();
        self.held.clear();
        self.fused.clear();
        self.fair = FairQueueing::new(&self.config);
        self.events.clear();
        self.waiting.clear();
        self.requests = ComponentRequests::default();
        self.clear_links();
    }
}

impl Core {
    /// The time of a call: never earlier than that of the call before.
    #[inline]
    pub(crate) fn tick(&mut self, now: Nanos) -> Nanos {
        self.now = self.now.max(now);
        self.now
    }

    /// The latest time that the drive was told.
    pub(crate) fn now(&self) -> Nanos {
        self.now
    }

    pub(crate) fn controller(&self, id: ControllerId) -> Result<&Controller, Failure> {
        self.controllers.get(id).ok_or(Failure::transient(Status::COMMAND_SEQUENCE_ERROR))
    }

    pub(crate) fn controller_mut(&mut self, id: ControllerId) -> Result<&mut Controller, Failure> {
        self.controllers.get_mut(id).ok_or(Failure::transient(Status::COMMAND_SEQUENCE_ERROR))
    }

    #[inline]
    pub(crate) fn begin_busy(&mut self, now: Nanos) {
        if self.busy.0 == 0 {
            self.busy.1 = now;
        }
        self.busy.0 += 1;
    }

    #[inline]
    pub(crate) fn end_busy(&mut self, now: Nanos) {
        self.busy.0 -= 1;
        if self.busy.0 == 0 {
            self.persistent.busy += now.since(self.busy.1).0;
        }
    }

    /// Whether any command of an I/O queue is on its way.
    pub(crate) fn io_under_way(&self) -> bool {
        self.busy.0 > 0
    }

    /// Nanoseconds during which there was an I/O command on its way.
    pub(crate) fn busy_time(&self, now: Nanos) -> u64 {
        let current = if self.busy.0 > 0 { now.since(self.busy.1).0 } else { 0 };
        self.persistent.busy + current
    }

    /// Forgets all that was under way.
    pub(crate) fn clear_links(&mut self) {
        self.busy.0 = 0;
        self.read_link.clear();
        self.write_link.clear();
        self.processor.clear();
    }

    /// Nanoseconds with power over the drive's life.
    pub(crate) fn powered(&self, now: Nanos) -> u64 {
        self.persistent.powered + now.since(self.power.since).0
    }

    /// All NVM Sets, each with its state. The state of a set on flash takes a look at each of its blocks: who needs none asks for
    /// [the identifiers](Core::set_ids).
    pub(crate) fn sets(&self) -> impl Iterator<Item = (SetId, SetInfo)> {
        self.set_ids().filter_map(|id| Some((id, self.ftl.set_info(id)?)))
    }

    /// The identifiers of all NVM Sets.
    pub(crate) fn set_ids(&self) -> impl Iterator<Item = SetId> + use<> {
        (0..self.ftl.set_count()).map_while(|set| u8::try_from(set).ok()).map(SetId)
    }

    /// Whether a set can only be read, as far as the last look at it found.
    pub(crate) fn is_read_only(&self, set: SetId) -> bool {
        self.group_warnings.get(usize::from(set.0)).is_some_and(|group| group.read_only())
    }

    /// What a set is like, with the times of its medium whether timing is on or off.
    pub(crate) fn set_properties(&self, set: SetId) -> SetProperties {
        self.config.ftl.sets.get(usize::from(set.0)).map_or(SetProperties::NONE, SetConfig::properties)
    }

    /// Adds an event to the Persistent Event log. It is in memory only: the caller [records](Core::record) the state before the command
    /// completes.
    pub(crate) fn remember(
        &mut self,
        now: Nanos,
        id: Option<ControllerId>,
        kind: PersistentEventType,
        data: &[u8],
    ) {
        let port = id.and_then(|id| self.controllers.get(id)).map(|c| c.port.0);
        let bytes = u16::try_from(data.len()).unwrap_or(u16::MAX);
        let header = PersistentEvent {
            // A port of the subsystem, or not associated with any.
            ehai: if port.is_some() { 1 } else { 3 },
            cntlid: U16::new(id.map_or(0xFFFF, |id| id.0)),
            ets: self.timestamp(now),
            pelpid: U16::new(port.unwrap_or(0)),
            ..PersistentEvent::new(kind, bytes)
        };
        let mut event = header.as_bytes().to_vec();
        event.extend_from_slice(&data[..usize::from(bytes)]);
        self.persistent.events.push(event);
    }

    /// The Timestamp feature as events have it.
    pub(crate) fn timestamp(&self, now: Nanos) -> U64 {
        U64::read_from_bytes(self.clock.read(now).as_bytes()).unwrap_or_default()
    }

    /// Controllers that have a namespace attached.
    pub(crate) fn attached_controllers(&self, nsid: u32) -> Vec<ControllerId> {
        self.controllers.iter().filter(|(_, c)| c.is_attached(nsid)).map(|(id, _)| id).collect()
    }
}
