//! One controller: the association of a host with the subsystem.

use super::async_events::{AnsweredEventRequest, AsyncEvent, AsyncEvents};
use super::role::Role;
use crate::feature::values::{Behavior, FeatureValues};
use crate::firmware::download::Download;
use crate::reservation::hosts::ReservationHost;
use crate::reservation::notifications::Notifications;
use crate::streams::open::Streams;
use media::Nanos;
use nvme::Nqn;
use nvme::log::{AnaState, ErrorInformation};
use nvme::property::{Cc, Csts, Shn, Shst};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Port identifier, from 1; 0 is no port.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct PortId(pub u16);

/// Controller identifier (CNTLID), from 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ControllerId(pub u16);

/// Where a host comes from. Commands that cut power or inject faults are refused to the network.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// The process that runs the drive: FUSE export, simulator, tests.
    InProcess,
    /// A Unix socket.
    Unix,
    /// A network, loopback included.
    Network,
}

/// How a host and its controller exchange commands and data (Base 2.1, "NVMe transports").
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TransportModel {
    /// Messages with one buffer for a command's data, as in NVMe over Fabrics.
    Message,
    /// Queues and buffers in the host's memory, as over PCI Express. A command may have a second buffer for metadata.
    Memory,
}

/// A host that connects.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Host {
    /// Its NQN.
    pub nqn: Nqn,
    /// Its Host Identifier.
    pub id: [u8; 16],
    /// Where it comes from.
    pub origin: Origin,
    /// How its commands and their data travel.
    pub transport: TransportModel,
    /// What it may do.
    pub role: Role,
    /// Whether it needs no authentication, or has authenticated itself. Until then nothing is attached to its controller
    /// ([`Drive::prove`](crate::Drive::prove)).
    pub proven: bool,
}

impl Host {
    /// A host that needs no authentication, and may do everything. It exchanges messages.
    pub fn administrator(nqn: Nqn, id: [u8; 16], origin: Origin) -> Self {
        let transport = TransportModel::Message;
        Host { nqn, id, origin, transport, role: Role::Administrator, proven: true }
    }
}

/// Entries of the Error Information log (ELPE + 1).
pub(crate) const ERROR_ENTRIES: usize = 64;

/// I/O queues of a controller, at most; their identifiers are 1 to this.
pub const MAX_IO_QUEUES: u16 = 64;

/// Entries of a queue, at most (MQES + 1).
pub const MAX_QUEUE_ENTRIES: u32 = 1024;

/// Lost blocks that one controller's host has not read of.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct UnreadLosses {
    /// Whether the log has news for it.
    pub unread: bool,
    /// When it was alerted, or read the log, most recently.
    pub last: Option<Nanos>,
}

impl UnreadLosses {
    /// The controller is reset: what was not read is still to be told.
    pub fn restart(&mut self) {
        self.last = None;
    }

    /// Its host reads the log without retaining the event.
    pub fn read(&mut self, now: Nanos) {
        *self = UnreadLosses { unread: false, last: Some(now) };
    }
}

#[derive(Debug)]
pub(crate) struct Controller {
    pub host: Nqn,
    pub host_id: [u8; 16],
    pub origin: Origin,
    pub transport: TransportModel,
    /// What its host may do.
    pub role: Role,
    /// Whether its host has authenticated itself, or need not. Until then nothing is attached, and no other host knows of it.
    pub proven: bool,
    /// The port that it is reached through; 0 without one, as in the drive's own process.
    pub port: PortId,
    /// The state of the ANA group on this controller: its port's.
    pub ana: AnaState,
    /// Changes of the ANA log since the last reset.
    pub ana_changes: u64,
    /// Tells this association from earlier ones with the same identifier.
    pub association: u32,
    /// Keep Alive Timeout; zero is off.
    pub kato: Nanos,
    /// Tells the timer that counts from those before it.
    pub timer: u32,
    /// When the last command came: any command keeps the association alive (TBKAS).
    pub last_command: Nanos,
    pub cc: Cc,
    pub csts: Csts,
    /// Existing queues, by identifier.
    queues: u128,
    /// I/O queues that Number of Queues granted.
    pub granted: u16,
    /// Bit `nsid - 1` of word `(nsid - 1) / 64`.
    namespaces: Vec<AttachmentWord>,
    pub values: FeatureValues,
    pub behavior: Behavior,
    pub events: AsyncEvents,
    /// Attached namespaces that were changed since the log was read.
    pub changed: BTreeSet<u32>,
    /// Endurance Groups with events that were not read yet.
    pub changed_groups: BTreeSet<u16>,
    /// NVM Sets with events of Predictable Latency Mode that it has not read.
    pub changed_windows: BTreeSet<u16>,
    /// What happened to windows of Predictable Latency Mode that its host has not read, by NVM Set.
    pub window_events: BTreeMap<u16, u16>,
    /// Blocks that are potentially unrecoverable.
    pub lost: UnreadLosses,
    /// Of reservations.
    pub notifications: Notifications,
    /// The Streams directive, by namespace for which it is enabled.
    pub streams: BTreeMap<u32, Streams>,
    /// Newest first.
    pub errors: VecDeque<ErrorInformation>,
    /// Errors since the controller exists.
    pub error_count: u64,
    /// Critical warnings that were told about.
    pub warned: u8,
    /// A firmware image that is being downloaded.
    pub download: Download,
    /// The Persistent Event log as its reporting context was established.
    pub persistent_events: Option<Box<[u8]>>,
}

impl Controller {
    pub fn new(host: Host, namespaces: u32) -> Self {
        Controller {
            host: host.nqn,
            host_id: host.id,
            origin: host.origin,
            transport: host.transport,
            role: host.role,
            proven: host.proven,
            port: PortId::default(),
            ana: AnaState::OPTIMIZED,
            ana_changes: 0,
            association: 0,
            kato: Nanos::ZERO,
            timer: 0,
            last_command: Nanos::ZERO,
            cc: Cc::new(),
            csts: Csts::new(),
            queues: 1,
            granted: MAX_IO_QUEUES,
            namespaces: vec![AttachmentWord::default(); (namespaces as usize).div_ceil(64)],
            values: FeatureValues::default(),
            behavior: Behavior::default(),
            events: AsyncEvents::default(),
            changed: BTreeSet::new(),
            changed_groups: BTreeSet::new(),
            changed_windows: BTreeSet::new(),
            window_events: BTreeMap::new(),
            lost: UnreadLosses::default(),
            notifications: Notifications::default(),
            streams: BTreeMap::new(),
            errors: VecDeque::new(),
            error_count: 0,
            warned: 0,
            download: Download::default(),
            persistent_events: None,
        }
    }

    /// Controller Level Reset: everything is as after Connect, with these values of features. Returns the event requests that
    /// waited.
    pub fn reset(&mut self, values: FeatureValues) -> Vec<u32> {
        self.csts = Csts::new();
        self.cc = self.cc.with_shn(Shn::NONE);
        self.values = values;
        self.behavior = Behavior::default();
        self.granted = MAX_IO_QUEUES;
        self.warned = 0;
        self.persistent_events = None;
        self.download = Download::default();
        self.ana_changes = 0;
        self.changed.clear();
        self.changed_groups.clear();
        self.changed_windows.clear();
        self.lost.restart();
        self.streams.clear();
        self.notifications = Notifications::default();
        self.remove_io_queues();
        self.events.reset()
    }

    /// Something happened that the host may want to know: a request that is answered by it.
    pub fn raise(&mut self, event: AsyncEvent) -> Option<AnsweredEventRequest> {
        let configuration = self.values.events();
        self.events.raise(event, configuration)
    }

    /// Whether commands other than fabrics commands are executed.
    #[inline]
    pub fn is_ready(&self) -> bool {
        self.csts.rdy() && self.csts.shst() == Shst::NORMAL
    }

    #[inline]
    pub fn has_queue(&self, qid: u16) -> bool {
        qid <= MAX_IO_QUEUES && self.queues >> qid & 1 != 0
    }

    pub fn has_io_queues(&self) -> bool {
        self.queues > 1
    }

    /// How many I/O queues it has.
    pub fn io_queues(&self) -> u32 {
        (self.queues >> 1).count_ones()
    }

    pub fn add_queue(&mut self, qid: u16) {
        if qid <= MAX_IO_QUEUES {
            self.queues |= 1 << qid;
        }
    }

    pub fn remove_queue(&mut self, qid: u16) {
        if qid != 0 && qid <= MAX_IO_QUEUES {
            self.queues &= !(1 << qid);
        }
    }

    /// Deletes all I/O queues.
    pub fn remove_io_queues(&mut self) {
        self.queues = 1;
    }

    #[inline]
    fn word(&self, nsid: u32) -> AttachmentWord {
        self.namespaces.get((nsid.wrapping_sub(1) / 64) as usize).copied().unwrap_or_default()
    }

    #[inline]
    pub fn is_attached(&self, nsid: u32) -> bool {
        self.word(nsid).attached & bit(nsid) != 0
    }

    /// Whether commands may access the namespace: it is attached, and the host knows it as it is.
    #[inline]
    pub fn is_open(&self, nsid: u32) -> bool {
        let AttachmentWord { attached, stale } = self.word(nsid);
        attached & !stale & bit(nsid) != 0
    }

    fn set_stale(&mut self, nsid: u32, stale: bool) {
        if let Some(word) = self.namespaces.get_mut((nsid.wrapping_sub(1) / 64) as usize) {
            set(&mut word.stale, nsid, stale);
        }
    }

    pub fn attach(&mut self, nsid: u32, attached: bool) {
        self.ana_changes += 1;
        if !attached {
            self.streams.remove(&nsid);
            if !self.events.zones_read(nsid) {
                self.events.withdraw(AsyncEvent::Zones);
            }
        }
        if let Some(word) = self.namespaces.get_mut((nsid.wrapping_sub(1) / 64) as usize) {
            set(&mut word.attached, nsid, attached);
        }
    }

    /// Its host, as reservations know it.
    pub(crate) fn reservation_host(&self) -> ReservationHost {
        ReservationHost { id: self.host_id, nqn: Some(self.host) }
    }

    /// A namespace is detached for other reasons than its host's own acts: when it is back, the host is to look at it again.
    pub fn lose(&mut self, nsid: u32) {
        self.set_stale(nsid, true);
        self.attach(nsid, false);
    }

    /// Whether its host may know of a namespace.
    pub(crate) fn sees(&self, nsid: u32) -> bool {
        match &self.role {
            Role::Administrator => true,
            Role::Tenant(own) => own.contains(&nsid),
            Role::Guest => self.is_attached(nsid),
        }
    }

    /// Whether its host may know of another controller: its own ones, and all if it administers.
    pub(crate) fn sees_controller(&self, other: &Controller) -> bool {
        other.proven && (self.role.is_administrator() || self.host == other.host)
    }

    /// Logs an error; the oldest entry goes when the log is full. Returns whether the host may read more.
    pub fn log_error(&mut self, mut entry: ErrorInformation) {
        self.error_count += 1;
        entry.error_count.set(self.error_count);
        self.errors.truncate(ERROR_ENTRIES - 1);
        self.errors.push_front(entry);
    }
}

/// What a controller has of 64 namespaces.
#[derive(Clone, Copy, Default, Debug)]
struct AttachmentWord {
    attached: u64,
    /// Those that others have replaced, or detached, since the host identified them. What it knows of them holds no more.
    stale: u64,
}

/// The bit of a namespace in its word.
#[inline]
fn bit(nsid: u32) -> u64 {
    1 << (nsid.wrapping_sub(1) % 64)
}

fn set(word: &mut u64, nsid: u32, value: bool) {
    *word = *word & !bit(nsid) | if value { bit(nsid) } else { 0 };
}

/// All controllers, by identifier. A host that returns gets an identifier that it had before, also after a power cycle. Other hosts
/// get the lowest identifier that was never used. So a late queue of a host that has gone finds no controller of another host.
#[derive(Debug, Default)]
pub(crate) struct Controllers {
    table: Vec<Option<Box<Controller>>>,
    /// Which host has or had each identifier, the first ones.
    hosts: Vec<KnownHost>,
    numbers: u32,
}

/// A host that has or had a controller.
#[derive(Debug)]
struct KnownHost {
    key: HostKey,
    /// While it is away: the words of [`AttachmentWord::stale`]. What it identifies by another controller, it knows.
    stale: Vec<u64>,
}

/// A host: its NQN and its Host Identifier.
type HostKey = (Nqn, [u8; 16]);

/// Controllers at a time.
const MAX_CONTROLLERS: u16 = 4096;

impl Controllers {
    /// Adds a controller; `None` if there are too many.
    pub fn add(&mut self, mut controller: Controller) -> Option<ControllerId> {
        let most = usize::from(MAX_CONTROLLERS);
        if self.table.is_empty() {
            self.table.resize_with(most, || None);
        }
        let host = (controller.host, controller.host_id);
        let is_free = |at: usize| self.table[at].is_none();
        let own = (0..self.hosts.len()).find(|at| self.hosts[*at].key == host && is_free(*at));
        let new = Some(self.hosts.len()).filter(|at| *at < most);
        let at = own.or(new).or_else(|| (0..most).find(|at| is_free(*at)))?;
        if own.is_some() {
            let stale = &self.hosts[at].stale;
            controller.namespaces.iter_mut().zip(stale).for_each(|(word, stale)| word.stale = *stale);
        }
        let known = KnownHost { key: host, stale: Vec::new() };
        match self.hosts.get_mut(at) {
            Some(before) => *before = known,
            None => self.hosts.push(known),
        }
        controller.association = self.fresh();
        self.table[at] = Some(Box::new(controller));
        // At most 4,096.
        Some(ControllerId(at as u16 + 1))
    }

    /// A number that no association and no timer had.
    pub fn fresh(&mut self) -> u32 {
        self.numbers = self.numbers.wrapping_add(1);
        self.numbers
    }

    #[inline]
    pub fn get(&self, id: ControllerId) -> Option<&Controller> {
        self.table.get(usize::from(id.0).wrapping_sub(1))?.as_deref()
    }

    #[inline]
    pub fn get_mut(&mut self, id: ControllerId) -> Option<&mut Controller> {
        self.table.get_mut(usize::from(id.0).wrapping_sub(1))?.as_deref_mut()
    }

    pub fn remove(&mut self, id: ControllerId) -> Option<Box<Controller>> {
        let at = usize::from(id.0).wrapping_sub(1);
        let controller = self.table.get_mut(at)?.take()?;
        if let Some(host) = self.hosts.get_mut(at) {
            host.stale = controller.namespaces.iter().map(|word| word.stale).collect();
        }
        Some(controller)
    }

    /// The host of a controller knows a namespace as it is now: it has identified it, or has changed it itself.
    pub fn known(&mut self, id: ControllerId, nsid: u32) {
        let Some(controller) = self.get_mut(id) else { return };
        controller.set_stale(nsid, false);
        let key = (controller.host, controller.host_id);
        for host in &mut self.hosts {
            if let Some(word) = host.stale.get_mut((nsid.wrapping_sub(1) / 64) as usize)
                && *word & bit(nsid) != 0
                && host.key == key
            {
                set(word, nsid, false);
            }
        }
    }

    /// A namespace is deleted or formatted: what its hosts know of it holds no more, also of those that are away and may come back.
    pub fn replaced(&mut self, nsid: u32) {
        for controller in self.table.iter_mut().flatten().filter(|controller| controller.is_attached(nsid)) {
            controller.set_stale(nsid, true);
        }
        for (host, controller) in self.hosts.iter_mut().zip(&self.table) {
            if controller.is_none()
                && let Some(word) = host.stale.get_mut((nsid.wrapping_sub(1) / 64) as usize)
            {
                set(word, nsid, true);
            }
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = (ControllerId, &Controller)> {
        (1..).zip(&self.table).filter_map(|(id, c)| Some((ControllerId(id), c.as_deref()?)))
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = (ControllerId, &mut Controller)> {
        (1..).zip(&mut self.table).filter_map(|(id, c)| Some((ControllerId(id), c.as_deref_mut()?)))
    }

    pub fn ids(&self) -> Vec<ControllerId> {
        self.iter().map(|(id, _)| id).collect()
    }

    /// Power was lost.
    pub fn clear(&mut self) {
        self.ids().into_iter().for_each(|id| drop(self.remove(id)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(host: &str, id: u8) -> Controller {
        Controller::new(Host::administrator(Nqn::new(host).unwrap(), [id; 16], Origin::InProcess), 70)
    }

    #[test]
    fn a_host_that_comes_again_gets_its_identifier_again() {
        let mut all = Controllers::default();
        let add = |all: &mut Controllers, host, id| all.add(of(host, id)).map(|id| id.0);
        let (a, b) = ("nqn.2026-11.test:a", "nqn.2026-11.test:b");
        // Two paths of the first host, and hosts that differ in either name alone.
        for (host, id, expected) in [(a, 1, 1), (a, 1, 2), (b, 1, 3), (a, 2, 4)] {
            assert_eq!(add(&mut all, host, id), Some(expected));
        }
        for id in [2, 3] {
            all.remove(ControllerId(id));
        }
        assert_eq!(add(&mut all, b, 1), Some(3));
        assert_eq!(add(&mut all, b, 1), Some(5), "2 is remembered as the first host's");
        assert_eq!(add(&mut all, a, 1), Some(2));
        all.clear();
        assert_eq!(
            (add(&mut all, b, 1), add(&mut all, a, 2)),
            (Some(3), Some(4)),
            "power takes nothing along"
        );
    }

    #[test]
    fn when_all_identifiers_are_known_those_of_absent_hosts_serve() {
        let mut all = Controllers::default();
        let host = "nqn.2026-11.test:host";
        for id in 1..=MAX_CONTROLLERS {
            assert_eq!(all.add(of(host, 0)), Some(ControllerId(id)));
        }
        assert_eq!(all.add(of(host, 0)), None);
        all.remove(ControllerId(7));
        assert_eq!(all.add(of(host, 1)), Some(ControllerId(7)));
        assert!(all.get(ControllerId(0)).is_none() && all.get(ControllerId(u16::MAX)).is_none());
    }

    #[test]
    fn attachment_is_a_bit_per_namespace() {
        let mut c = of("nqn.2026-11.test:host", 0);
        c.attach(70, true);
        c.attach(1, true);
        c.attach(1, false);
        c.attach(0, true);
        c.attach(u32::MAX, true);
        assert!(c.is_attached(70) && !c.is_attached(1) && !c.is_attached(0) && !c.is_attached(u32::MAX));
    }

    #[test]
    fn what_was_replaced_is_open_when_its_host_has_identified_it() {
        let host = "nqn.2026-11.test:host";
        let mut all = Controllers::default();
        let id = all.add(of(host, 0)).unwrap();
        let is_open = |all: &Controllers, nsid| all.get(id).unwrap().is_open(nsid);
        all.get_mut(id).unwrap().attach(70, true);
        all.get_mut(id).unwrap().attach(1, true);
        assert!(is_open(&all, 70) && is_open(&all, 1), "no host had them before");
        all.replaced(70);
        all.get_mut(id).unwrap().attach(70, false);
        all.get_mut(id).unwrap().attach(70, true);
        assert!(!is_open(&all, 70) && is_open(&all, 1));
        // The host is away, and nobody tells it of the other one.
        all.remove(id);
        all.replaced(1);
        assert_eq!(all.add(of(host, 0)), Some(id));
        for nsid in [1, 70] {
            all.get_mut(id).unwrap().attach(nsid, true);
            assert!(!is_open(&all, nsid));
            all.known(id, nsid);
            assert!(is_open(&all, nsid));
        }
        all.replaced(1);
        all.clear();
        assert_eq!(all.add(of(host, 0)), Some(id));
        all.get_mut(id).unwrap().attach(1, true);
        assert!(!is_open(&all, 1), "power does not tell it either");
        // Two ways of one host: what it has learnt by one, it knows by the other.
        let second = all.add(of(host, 0)).unwrap();
        all.remove(id);
        all.replaced(1);
        all.get_mut(second).unwrap().attach(1, true);
        all.known(second, 1);
        assert_eq!(all.add(of(host, 0)), Some(id));
        all.get_mut(id).unwrap().attach(1, true);
        assert!(is_open(&all, 1));
    }
}
