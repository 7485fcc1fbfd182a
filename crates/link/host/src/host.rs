//! The typed host: a controller and what can be asked of it.

use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use blockdev::{ControllerLimits, Namespace, Unusable};
use nvme::admin::{
    FormatNvm, NamespaceAttachment, NamespaceAttachmentSelect, NamespaceManagement,
    NamespaceManagementSelect, PowerCut, Sanitize, SetFeatures,
};
use nvme::aer::AsyncEvent;
use nvme::feature::{FeatureId, HostBehaviorSupport, NumberOfQueues, Select};
use nvme::identify::{
    Cns, ControllerList, EnduranceGroupList, IdentifyController, IdentifyNamespace, IndependentNamespace,
    NamespaceCreate, NamespaceGranularityList, NamespaceIdDescriptor, NamespaceList, NvmController,
    NvmNamespace, NvmSetAttributes, NvmSetList,
};
use nvme::plm::{PredictableLatencyConfig, WindowSelect};
use nvme::property::Cap;
use nvme::quota::Quota;
use nvme::zerocopy::{FromBytes, IntoBytes};
use nvme::{AdminCommand, Command, Csi, IDENTIFY_SIZE, NSID_ALL, Nsid, U16};

use crate::io::IoQueue;
use crate::queue::{CompletedCommand, Data, Identity, Queue, Tag, Transport};
use crate::{Error, TransportError};

/// How long an ordinary admin command may take.
const TIMEOUT: Duration = Duration::from_secs(60);
/// How long a command that works through a whole namespace may take (Format NVM, deletion).
const LONG_TIMEOUT: Duration = Duration::from_secs(600);
/// I/O queues that are asked for.
const IO_QUEUES: u16 = 64;

/// A host and its controller.
///
/// A failed command is [`Error::Command`] with its status; after [`Error::Transport`] the host is of no more
/// use.
#[derive(Debug)]
pub struct Host<T: Transport> {
    pub(crate) transport: T,
    admin: T::Queue,
    cntlid: u16,
    cap: Cap,
    controller: IdentifyController,
    /// What it says of the NVM Command Set, once that was asked for.
    nvm: Option<NvmController>,
    queues_requested: bool,
    /// The keep-alive timeout that was asked for; zero is off.
    keep_alive: Duration,
    /// When an admin command was submitted last.
    last_command: Instant,
    /// Outstanding Asynchronous Event Requests.
    event_requests: Vec<Tag>,
    events: VecDeque<AsyncEvent>,
}

impl<T: Transport> Host<T> {
    /// Connects to a controller and identifies it.
    ///
    /// # Errors
    /// The drive cannot be reached, refuses the host, or answers nonsense.
    pub fn connect(mut transport: T, identity: &Identity) -> Result<Self, Error> {
        let connected = transport.connect(identity)?;
        let mut host = Self {
            transport,
            admin: connected.admin,
            cntlid: connected.cntlid,
            cap: connected.cap,
            controller: IdentifyController::default(),
            nvm: None,
            queues_requested: false,
            keep_alive: Duration::from_millis(identity.kato_ms.into()),
            last_command: Instant::now(),
            event_requests: Vec::new(),
            events: VecDeque::new(),
        };
        host.controller = host.identify_controller()?;
        Ok(host)
    }

    /// The transport, for what it can do beyond the contract.
    #[must_use]
    pub fn transport(&self) -> &T {
        &self.transport
    }

    /// The controller's ID.
    #[must_use]
    pub fn cntlid(&self) -> u16 {
        self.cntlid
    }

    /// The controller as it identified itself when the host connected.
    #[must_use]
    pub fn controller(&self) -> &IdentifyController {
        &self.controller
    }

    /// Bytes of data that one command may move: MDTS, and no more than 1 GiB.
    #[must_use]
    pub fn max_transfer(&self) -> usize {
        match self.controller.mdts {
            0 => 1 << 30,
            mdts => self.size_limit(mdts),
        }
    }

    /// The bytes of a size limit, 2 to `power` in units of the smallest memory page (CAP.MPSMIN): no more than 1 GiB.
    pub(crate) fn size_limit(&self, power: u8) -> usize {
        1usize
            .checked_shl(12 + u32::from(self.cap.mpsmin()) + u32::from(power))
            .map_or(1 << 30, |bytes| bytes.min(1 << 30))
    }

    /// Any admin command. Returns its completion, also of one that failed.
    ///
    /// # Errors
    /// The transport is broken, or there was no completion within a minute.
    pub fn call(&mut self, command: Command, data: Data) -> Result<CompletedCommand, TransportError> {
        self.call_of(None, command, data)
    }

    /// An admin command for a namespace of this generation, as [`Queue::submit_of`] has it.
    pub(crate) fn call_of(
        &mut self,
        generation: Option<NonZeroU64>,
        command: Command,
        data: Data,
    ) -> Result<CompletedCommand, TransportError> {
        let tag = self.admin.submit_of(generation, command, data)?;
        self.end_of(tag, TIMEOUT)
    }

    /// Waits for the end of an admin command.
    fn end_of(&mut self, tag: Tag, timeout: Duration) -> Result<CompletedCommand, TransportError> {
        let deadline = Instant::now() + timeout;
        self.last_command = Instant::now();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let Some(done) = self.admin.next(Some(left))? else {
                return Err(TransportError::Timeout(timeout));
            };
            if done.tag == tag {
                return Ok(done);
            }
            self.stray(&done);
        }
    }

    /// A completion that is not the awaited one: an asynchronous event.
    fn stray(&mut self, done: &CompletedCommand) {
        if let Some(at) = self.event_requests.iter().position(|tag| *tag == done.tag) {
            self.event_requests.swap_remove(at);
            if done.completion.status().is_success() {
                self.events.push_back(AsyncEvent::from_dw0(done.completion.dw0.get()));
            }
        }
    }

    /// An admin command that must succeed.
    pub(crate) fn ask(
        &mut self,
        command: Command,
        data: Data,
        what: impl FnOnce() -> String,
    ) -> Result<CompletedCommand, Error> {
        self.ask_within(command, data, TIMEOUT, what)
    }

    fn ask_within(
        &mut self,
        command: Command,
        data: Data,
        timeout: Duration,
        what: impl FnOnce() -> String,
    ) -> Result<CompletedCommand, Error> {
        let tag = self.admin.submit(command, data)?;
        let done = self.end_of(tag, timeout)?;
        match done.completion.status().ok() {
            Ok(()) => Ok(done),
            Err(status) => Err(Error::Command { what: what(), status }),
        }
    }

    /// Identify with any CNS: the 4,096 bytes of the answer.
    ///
    /// # Errors
    /// The command failed, or the transport is broken.
    pub fn identify(&mut self, cns: Cns, nsid: Nsid) -> Result<Vec<u8>, Error> {
        let done = self.ask(Command::identify(cns, nsid), Data::room(IDENTIFY_SIZE), || match nsid {
            0 => format!("{cns}"),
            _ => format!("{cns}, namespace {nsid}"),
        })?;
        Ok(done.data.into_buffer())
    }

    fn identified<S: FromBytes>(&mut self, cns: Cns, nsid: Nsid) -> Result<S, Error> {
        let page = self.identify(cns, nsid)?;
        S::read_from_bytes(&page).map_err(|_| Error::Answer {
            what: cns.to_string(),
            problem: format!("{} bytes instead of {}", page.len(), size_of::<S>()),
        })
    }

    /// Identify Controller.
    ///
    /// # Errors
    /// The command failed, or the transport is broken; so with all that follow.
    pub fn identify_controller(&mut self) -> Result<IdentifyController, Error> {
        self.identified(Cns::CONTROLLER, 0)
    }

    /// What the controller says of the NVM Command Set (size limits of deallocation and others).
    ///
    /// # Errors
    /// The command failed, or the transport is broken.
    pub fn identify_nvm_controller(&mut self) -> Result<NvmController, Error> {
        self.identified(Cns::IOCS_CONTROLLER, 0)
    }

    /// Identify an attached namespace. One that is not attached has a size of 0.
    ///
    /// # Errors
    /// The command failed, or the transport is broken.
    pub fn identify_namespace(&mut self, nsid: Nsid) -> Result<IdentifyNamespace, Error> {
        self.identified(Cns::NAMESPACE, nsid)
    }

    /// Identify a namespace, attached or not. One that does not exist has a size of 0. A drive without namespace
    /// management only answers for attached ones.
    ///
    /// # Errors
    /// The command failed, or the transport is broken.
    pub fn identify_allocated(&mut self, nsid: Nsid) -> Result<IdentifyNamespace, Error> {
        let cns = if self.manages_namespaces() { Cns::ALLOCATED_NAMESPACE } else { Cns::NAMESPACE };
        self.identified(cns, nsid)
    }

    /// Whether the drive has Namespace Management, and with it what Identify says of allocated namespaces and controllers.
    pub(crate) fn manages_namespaces(&self) -> bool {
        self.controller.oacs.nms()
    }

    /// What the NVM Command Set says of a namespace, or with FFFFFFFFh of all alike: storage tags and guards of formats.
    ///
    /// # Errors
    /// The command failed, or the transport is broken.
    pub fn identify_nvm_namespace(&mut self, nsid: Nsid) -> Result<NvmNamespace, Error> {
        self.identified(Cns::IOCS_NAMESPACE, nsid)
    }

    /// Enables extensions that a host must ask for (feature 16h): LBA formats with storage tags or with guards of more than 16 bits, and
    /// Copy descriptors that name other namespaces.
    ///
    /// # Errors
    /// The command failed, or the transport is broken.
    pub fn enable_extensions(&mut self) -> Result<(), Error> {
        let behavior =
            HostBehaviorSupport { lbafee: 1, cdfe: U16::new(0xC), ..HostBehaviorSupport::default() };
        let command = Command::set_features(FeatureId::HOST_BEHAVIOR_SUPPORT, 0, 0);
        let data = Data::Out(behavior.as_bytes().to_vec());
        self.ask(command, data, || "telling what this host knows of formats".into()).map(|_| ())
    }

    /// What all command sets have in common of an attached namespace.
    ///
    /// # Errors
    /// The command failed, or the transport is broken.
    pub fn identify_independent(&mut self, nsid: Nsid) -> Result<IndependentNamespace, Error> {
        self.identified(Cns::INDEPENDENT_NAMESPACE, nsid)
    }

    /// The identifiers of an attached namespace.
    ///
    /// # Errors
    /// The command failed, or the transport is broken.
    pub fn namespace_descriptors(&mut self, nsid: Nsid) -> Result<Vec<NamespaceIdDescriptor>, Error> {
        let page = self.identify(Cns::NAMESPACE_DESCRIPTORS, nsid)?;
        Ok(NamespaceIdDescriptor::read_list(&page).collect())
    }

    /// Namespaces attached to this controller, ascending.
    ///
    /// # Errors
    /// A command failed, or the transport is broken.
    pub fn active_namespaces(&mut self) -> Result<Vec<Nsid>, Error> {
        self.namespace_list(Cns::ACTIVE_NAMESPACES)
    }

    /// All namespaces of the drive, ascending. For a drive without namespace management, those that are attached.
    ///
    /// # Errors
    /// A command failed, or the transport is broken.
    pub fn allocated_namespaces(&mut self) -> Result<Vec<Nsid>, Error> {
        let managed = self.manages_namespaces();
        self.namespace_list(if managed { Cns::ALLOCATED_NAMESPACES } else { Cns::ACTIVE_NAMESPACES })
    }

    fn namespace_list(&mut self, cns: Cns) -> Result<Vec<Nsid>, Error> {
        let mut all: Vec<Nsid> = Vec::new();
        loop {
            let after = all.last().copied().unwrap_or(0);
            let page: NamespaceList = self.identified(cns, after)?;
            let found = all.len();
            // Not ascending would mean without end.
            all.extend(page.iter().scan(after, |last, nsid| {
                let ascends = nsid > *last;
                *last = nsid;
                ascends.then_some(nsid)
            }));
            if all.len() - found < page.nsid.len() {
                return Ok(all);
            }
        }
    }

    /// The drive's controllers, ascending.
    ///
    /// # Errors
    /// The command failed, or the transport is broken.
    pub fn controllers(&mut self) -> Result<Vec<u16>, Error> {
        let list: ControllerList = self.identified(Cns::CONTROLLERS, 0)?;
        Ok(list.iter().collect())
    }

    /// Controllers that a namespace is attached to, ascending. A drive without namespace management names only this one.
    ///
    /// # Errors
    /// The command failed, or the transport is broken.
    pub fn namespace_controllers(&mut self, nsid: Nsid) -> Result<Vec<u16>, Error> {
        if !self.manages_namespaces() {
            let attached = self.active_namespaces()?.contains(&nsid);
            return Ok(if attached { vec![self.cntlid()] } else { Vec::new() });
        }
        let list: ControllerList = self.identified(Cns::NAMESPACE_CONTROLLERS, nsid)?;
        Ok(list.iter().collect())
    }

    /// The drive's NVM Sets: the first 31.
    ///
    /// # Errors
    /// The command failed, or the transport is broken.
    pub fn nvm_sets(&mut self) -> Result<Vec<NvmSetAttributes>, Error> {
        let list: NvmSetList = self.identified(Cns::NVM_SETS, 0)?;
        Ok(list.entries().to_vec())
    }

    /// The drive's Endurance Groups.
    ///
    /// # Errors
    /// The command failed, or the transport is broken.
    pub fn endurance_groups(&mut self) -> Result<Vec<u16>, Error> {
        let list: EnduranceGroupList = self.identified(Cns::ENDURANCE_GROUPS, 0)?;
        Ok(list.iter().collect())
    }

    /// Granularity of namespace sizes.
    ///
    /// # Errors
    /// The command failed, or the transport is broken.
    pub fn namespace_granularity(&mut self) -> Result<NamespaceGranularityList, Error> {
        self.identified(Cns::NAMESPACE_GRANULARITY, 0)
    }

    /// Current value of a feature without data.
    ///
    /// # Errors
    /// The command failed, or the transport is broken.
    pub fn feature(&mut self, fid: FeatureId, nsid: Nsid) -> Result<u32, Error> {
        let command = Command::get_features(fid, nsid, Select::CURRENT);
        let done = self.ask(command, Data::None, || format!("reading the feature {fid}"))?;
        Ok(done.completion.dw0.get())
    }

    /// Current value of a feature with data: so many bytes of it.
    ///
    /// # Errors
    /// The command failed, or the transport is broken.
    pub fn feature_data(&mut self, fid: FeatureId, nsid: Nsid, bytes: usize) -> Result<Vec<u8>, Error> {
        let command = Command::get_features(fid, nsid, Select::CURRENT);
        let done = self.ask(command, Data::room(bytes), || format!("reading the feature {fid}"))?;
        Ok(done.data.into_buffer())
    }

    /// Sets a feature; `save` keeps it through power cycles. The result is the completion's dword 0.
    ///
    /// # Errors
    /// The command failed, or the transport is broken.
    pub fn set_feature(
        &mut self,
        fid: FeatureId,
        nsid: Nsid,
        cdw11: u32,
        data: Data,
        save: bool,
    ) -> Result<u32, Error> {
        let set = SetFeatures { nsid, fid, sv: save, uidx: 0, cdw11, cdw12: 0, cdw13: 0, cdw15: 0 };
        let done = self.ask(set.into(), data, || format!("setting the feature {fid}"))?;
        Ok(done.completion.dw0.get())
    }

    /// What a namespace may use (vendor specific feature D8h).
    ///
    /// # Errors
    /// The command failed (Invalid Field in Command: the drive does not have it, or not this namespace), or the transport is
    /// broken.
    pub fn quota(&mut self, nsid: Nsid, sel: Select) -> Result<Quota, Error> {
        let what = || format!("reading the quota of namespace {nsid}");
        let command = Command::get_features(FeatureId::QUOTA, nsid, sel);
        let done = self.ask(command, Data::room(size_of::<Quota>()), what)?;
        Ok(Quota::read_from_bytes(&done.data.into_buffer()).unwrap_or_default())
    }

    /// Sets what a namespace may use; `save` keeps it through power cycles.
    ///
    /// # Errors
    /// The command failed (Invalid Field in Command if [`Quota::check`] does), or the transport is broken.
    pub fn set_quota(&mut self, nsid: Nsid, quota: &Quota, save: bool) -> Result<(), Error> {
        let data = Data::Out(quota.as_bytes().to_vec());
        let fid = FeatureId::QUOTA;
        let set = SetFeatures { nsid, fid, sv: save, uidx: 0, cdw11: 0, cdw12: 0, cdw13: 0, cdw15: 0 };
        self.ask(set.into(), data, || format!("setting the quota of namespace {nsid}"))?;
        Ok(())
    }

    /// Enables Predictable Latency Mode for an NVM Set, or ends it; `config` says which events are told. `save` keeps it through
    /// power cycles.
    ///
    /// # Errors
    /// The command failed (Invalid Field in Command: the set has no such mode), or the transport is broken.
    pub fn set_predictable_latency(
        &mut self,
        nvmsetid: u16,
        enabled: bool,
        config: &PredictableLatencyConfig,
        save: bool,
    ) -> Result<(), Error> {
        let data = Data::Out(config.as_bytes().to_vec());
        let set = SetFeatures {
            nsid: 0,
            fid: FeatureId::PREDICTABLE_LATENCY_CONFIG,
            sv: save,
            uidx: 0,
            cdw11: nvmsetid.into(),
            cdw12: enabled.into(),
            cdw13: 0,
            cdw15: 0,
        };
        self.ask(set.into(), data, || format!("setting Predictable Latency Mode of NVM Set {nvmsetid}"))?;
        Ok(())
    }

    /// Begins a window of an NVM Set in Predictable Latency Mode. It may end early: see
    /// [`predictable_latency`](Host::predictable_latency).
    ///
    /// # Errors
    /// The command failed (Invalid Field in Command: the mode is not enabled for the set), or the transport is broken.
    pub fn set_window(&mut self, nvmsetid: u16, window: WindowSelect) -> Result<(), Error> {
        let set = SetFeatures {
            nsid: 0,
            fid: FeatureId::PREDICTABLE_LATENCY_WINDOW,
            sv: false,
            uidx: 0,
            cdw11: nvmsetid.into(),
            cdw12: window.0.into(),
            cdw13: 0,
            cdw15: 0,
        };
        self.ask(set.into(), Data::None, || format!("beginning a {window} of NVM Set {nvmsetid}"))?;
        Ok(())
    }

    /// Creates a namespace; the result is its NSID. It is attached to nothing yet.
    ///
    /// # Errors
    /// The command failed (for instance Namespace Insufficient Capacity), or the transport is broken.
    pub fn create_namespace(&mut self, create: &NamespaceCreate) -> Result<Nsid, Error> {
        self.create_namespace_of(Csi::NVM, create)
    }

    /// Creates a namespace of this I/O command set; the result is its NSID. It is attached to nothing yet.
    ///
    /// # Errors
    /// As [`create_namespace`](Host::create_namespace), and I/O Command Set Not Supported.
    pub fn create_namespace_of(&mut self, csi: Csi, create: &NamespaceCreate) -> Result<Nsid, Error> {
        let command = NamespaceManagement { nsid: 0, sel: NamespaceManagementSelect::CREATE, csi };
        let data = Data::Out(create.as_bytes().to_vec());
        let done = self.ask(command.into(), data, || "creating a namespace".into())?;
        Ok(done.completion.dw0.get())
    }

    /// Deletes a namespace, or all with FFFFFFFFh.
    ///
    /// # Errors
    /// The command failed, or the transport is broken.
    pub fn delete_namespace(&mut self, nsid: Nsid) -> Result<(), Error> {
        let command = NamespaceManagement { nsid, sel: NamespaceManagementSelect::DELETE, csi: Csi::NVM };
        self.ask_within(command.into(), Data::None, LONG_TIMEOUT, || format!("deleting {}", name(nsid)))
            .map(|_| ())
    }

    /// Attaches a namespace to these controllers.
    ///
    /// # Errors
    /// The command failed, or the transport is broken.
    pub fn attach_namespace(&mut self, nsid: Nsid, controllers: &[u16]) -> Result<(), Error> {
        self.attachment(nsid, NamespaceAttachmentSelect::ATTACH, controllers)
    }

    /// Detaches a namespace from these controllers.
    ///
    /// # Errors
    /// The command failed, or the transport is broken.
    pub fn detach_namespace(&mut self, nsid: Nsid, controllers: &[u16]) -> Result<(), Error> {
        self.attachment(nsid, NamespaceAttachmentSelect::DETACH, controllers)
    }

    fn attachment(
        &mut self,
        nsid: Nsid,
        sel: NamespaceAttachmentSelect,
        controllers: &[u16],
    ) -> Result<(), Error> {
        let mut ids = controllers.to_vec();
        ids.sort_unstable();
        ids.dedup();
        let list = ControllerList::new(ids.iter().copied());
        let command = Command::from(NamespaceAttachment { nsid, sel });
        self.ask(command, Data::Out(list.as_bytes().to_vec()), || {
            let verb = if sel == NamespaceAttachmentSelect::ATTACH { "attaching" } else { "detaching" };
            format!("{verb} {}, controllers {ids:?}", name(nsid))
        })
        .map(|_| ())
    }

    /// Format NVM: everything on the namespace is lost.
    ///
    /// # Errors
    /// The command failed, or the transport is broken.
    pub fn format(&mut self, format: FormatNvm) -> Result<(), Error> {
        self.ask_within(format.into(), Data::None, LONG_TIMEOUT, || {
            format!("formatting {}", name(format.nsid))
        })
        .map(|_| ())
    }

    /// Starts a sanitize operation, or leaves the failure mode of one. [`sanitize_status`](Host::sanitize_status) tells how far it is.
    ///
    /// # Errors
    /// The command failed (for instance Sanitize In Progress), or the transport is broken.
    pub fn sanitize(&mut self, sanitize: Sanitize) -> Result<(), Error> {
        let what = || format!("sanitizing the drive ({})", sanitize.sanact);
        self.ask_within(sanitize.into(), Data::None, LONG_TIMEOUT, what).map(|_| ())
    }

    /// Cuts the drive's power (vendor specific). The completion may be lost with the power: a connection that the drive closes is no error.
    ///
    /// # Errors
    /// The command was refused, or there was no answer.
    pub fn power_cut(&mut self, cut: PowerCut) -> Result<(), Error> {
        match self.ask(cut.into(), Data::None, || "cutting the drive's power".into()) {
            Err(error) if error.is_hung_up() => Ok(()),
            asked => asked.map(|_| ()),
        }
    }

    /// Restarts the keep-alive timer.
    ///
    /// # Errors
    /// The command failed, or the transport is broken.
    pub fn keep_alive(&mut self) -> Result<(), Error> {
        self.ask(AdminCommand::KeepAlive.into(), Data::None, || "keeping the connection alive".into())
            .map(|_| ())
    }

    /// Restarts the keep-alive timer if a third of it has passed since the last admin command; nothing without a timer. To
    /// be called more often than twice within the keep-alive timeout.
    ///
    /// # Errors
    /// The command failed, or the transport is broken.
    pub fn tend(&mut self) -> Result<(), Error> {
        if self.keep_alive.is_zero() || self.last_command.elapsed() < self.keep_alive / 3 {
            return Ok(());
        }
        self.keep_alive()
    }

    /// The next asynchronous event: at once if there is one, else waits until `timeout` has passed. Keeps a
    /// request for events outstanding. Reading the event's log clears it.
    ///
    /// # Errors
    /// The transport is broken.
    pub fn next_event(&mut self, timeout: Duration) -> Result<Option<AsyncEvent>, Error> {
        let deadline = Instant::now() + timeout;
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(Some(event));
            }
            if self.event_requests.is_empty() {
                let tag = self.admin.submit(AdminCommand::AsyncEventRequest.into(), Data::None)?;
                self.event_requests.push(tag);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            match self.admin.next(Some(left))? {
                Some(done) => {
                    let status = done.completion.status();
                    if let (true, Err(status)) = (self.event_requests.contains(&done.tag), status.ok()) {
                        self.event_requests.retain(|tag| *tag != done.tag);
                        return Err(Error::Command { what: "asking for events".into(), status });
                    }
                    self.stray(&done);
                }
                None => return Ok(None),
            }
        }
    }

    /// Opens an I/O queue for `depth` outstanding commands; fewer may be granted.
    ///
    /// # Errors
    /// The drive refused the queue, or the transport is broken.
    pub fn io_queue(&mut self, depth: u16) -> Result<IoQueue<T::Queue>, Error> {
        if !self.queues_requested {
            let ask = NumberOfQueues::new().with_nsq_z(IO_QUEUES - 1).with_ncq_z(IO_QUEUES - 1);
            self.set_feature(FeatureId::NUMBER_OF_QUEUES, 0, ask.into_bits().get(), Data::None, false)?;
            self.queues_requested = true;
        }
        // CAP.MQES and MAXCMD both limit the queue.
        let entries = self.cap.mqes_z().saturating_add(1);
        let most = match self.controller.maxcmd.get() {
            0 => entries,
            maxcmd => entries.min(maxcmd),
        };
        let queue = self.transport.open_io(depth.min(most.max(2)))?;
        Ok(IoQueue::new(queue, self.max_transfer()))
    }

    /// What the controller says of the size of its commands.
    ///
    /// # Errors
    /// The transport is broken.
    pub fn limits(&mut self) -> Result<ControllerLimits, Error> {
        let page = 1 << (12 + u32::from(self.cap.mpsmin()));
        let mdts = self.controller.mdts;
        Ok(ControllerLimits::new(mdts, page, self.nvm_controller()?))
    }

    /// The Identify data of the NVM Command Set, which the host reads once.
    pub(crate) fn nvm_controller(&mut self) -> Result<&NvmController, Error> {
        if self.nvm.is_none() {
            let known = self.transport.nvm_controller();
            self.nvm = Some(match known.map_or_else(|| self.identify_nvm_controller(), Ok) {
                Ok(nvm) => nvm,
                // Older drives do not have this page, and report no limits. One that loses its power has said nothing of them.
                Err(error @ Error::Command { .. }) if !error.is_lost() => NvmController::default(),
                Err(error) => return Err(error),
            });
        }
        Ok(self.nvm.get_or_insert_default())
    }

    /// What an I/O queue must know of an attached namespace.
    ///
    /// # Errors
    /// The namespace is not attached, or its format is none that this host can use.
    pub fn namespace(&mut self, nsid: Nsid) -> Result<Namespace, Error> {
        let identified = self.identify_namespace(nsid)?;
        let limits = self.limits()?;
        let wrong = |problem: &str| Error::Answer {
            what: format!("looking at namespace {nsid}"),
            problem: problem.into(),
        };
        Namespace::new(nsid, &identified, &limits).map_err(|problem| match problem {
            Unusable::Absent => {
                let what = format!("namespace {nsid} is not attached to this host, or is not there");
                match self.active_namespaces() {
                    Ok(attached) => Error::Absent(format!("{what} (attached: {})", crate::nsid_list(&attached))),
                    Err(error) => error,
                }
            }
            Unusable::Metadata => wrong(
                "its logical blocks carry metadata, which this host only leaves to the controller where it is nothing \
                 but protection information of 8 bytes",
            ),
            Unusable::Format => wrong("its LBA format makes no sense"),
        })
    }

    /// Shuts the controller down in good order: what was written is safe when this returns.
    ///
    /// # Errors
    /// The transport is broken, or the drive did not finish in time.
    pub fn shutdown(mut self) -> Result<(), Error> {
        self.transport.shutdown(&mut self.admin)
    }
}

/// What a namespace-management structure needs: size, format and where.
#[must_use]
pub fn namespace_create(blocks: u64, format_index: u8, nvmsetid: u16) -> NamespaceCreate {
    let mut create = NamespaceCreate::default();
    create.nsze.set(blocks);
    create.ncap.set(blocks);
    create.flbas = nvme::identify::Flbas::from_format_index(format_index);
    // Every host of the drive may have it attached.
    create.nmic.set_shrns(true);
    create.nvmsetid.set(nvmsetid);
    create
}

fn name(nsid: Nsid) -> String {
    if nsid == NSID_ALL { "all namespaces".into() } else { format!("namespace {nsid}") }
}
