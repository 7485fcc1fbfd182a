//! A running drive as the export uses it: an NVMe host in the same process.

use crate::drive::{
    Abilities, Completions, Drive, DriveCommand, DriveNotice, Extent, ExtentQuery, Namespace, Reports, Then,
    Zones,
};
use crate::errno::errno;
use crate::extents::ExtentQueries;
use blockdev::Unusable;
use fuser::Errno;
use host::{Error, Host, Identity};
use live::{Buffer, Events, Handle, LocalTransport, Queue, Sink};
use nvme::identify::IdentifyNamespace;
use nvme::zone::{ZoneManagementReceive, ZoneManagementSend};
use nvme::{Completion, Csi, Nsid};
use std::cell::Cell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak, mpsc};

/// NQN of this host: what is attached to it has a block file. The drive remembers it.
pub const HOST_NQN: &str = "nqn.2026-11.io.tranche:block";

/// Entries of the I/O queue. The kernel has up to 128 requests per loop device outstanding; more wait here.
const ENTRIES: u16 = 256;

/// A connection to a drive.
pub struct Attached {
    handle: Handle,
    /// Identifies namespaces. All of its commands are admin commands, which no I/O delays.
    host: Mutex<Host<LocalTransport>>,
    queries: Arc<ExtentQueries>,
    queue: Queue,
    completions: Weak<dyn Completions>,
}

thread_local! {
    /// The connection whose commands this thread submits [together](Drive::together), by its address.
    static BATCHING_CONNECTION: Cell<usize> = const { Cell::new(0) };
}

impl Attached {
    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Connects to the drive.
    ///
    /// # Errors
    /// What the drive said.
    pub fn connect(handle: &Handle, reports: Reports) -> Result<Arc<Self>, String> {
        Self::associate(handle, reports).map_err(|error| error.to_string())
    }

    fn associate(handle: &Handle, Reports { completions, news }: Reports) -> Result<Arc<Self>, Error> {
        let name = HOST_NQN.parse().map_err(|error| Error::Usage(format!("{HOST_NQN}: {error}")))?;
        let transport = LocalTransport::managed(handle.clone(), Arc::new(Tell(Mutex::new(news))));
        let host = Host::connect(transport, &Identity::new(name))?;
        let queue = host.transport().shared_queue(ENTRIES, Arc::new(Deliver(completions.clone())))?;
        let queries = ExtentQueries::new(host.transport().admin_queue()?);
        Ok(Arc::new(Attached { handle: handle.clone(), host: Mutex::new(host), queries, queue, completions }))
    }

    fn host(&self) -> MutexGuard<'_, Host<LocalTransport>> {
        self.host.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Identifies a namespace that files can show.
    fn namespace(&self, nsid: Nsid) -> Result<Namespace, Error> {
        let mut host = self.host();
        let refused = |why: &str| Error::Usage(why.to_owned());
        let metadata = "its blocks have metadata, for which a file has no place; formats with 8 bytes of protection \
                        information and nothing else can be had";
        // First: what follows is of this generation, or refused below.
        let data = host.identify_namespace(nsid)?;
        let limits = host.limits()?;
        let device = blockdev::Namespace::new(nsid, &data, &limits).map_err(|unusable| match unusable {
            Unusable::Metadata => refused(metadata),
            Unusable::Absent | Unusable::Format => refused("it has no size or format"),
        })?;
        let command_set = host.command_set(nsid)?;
        if ![Csi::NVM, Csi::ZONED].contains(&command_set) {
            return Err(refused("it is not of the NVM or the Zoned Namespace Command Set"));
        }
        // Storage tags share the 8 bytes; such formats are not even enabled for this host.
        let format = usize::from(data.flbas.format_index());
        if device.protection != 0 && host.identify_nvm_namespace(nsid)?.elbaf[format].get() != 0 {
            return Err(refused(metadata));
        }
        let reads_zeroes = data.dlfeat.drb() == 1 && data.dlfeat.wzds();
        let namespace = Namespace {
            nguid: data.nguid,
            zones: if command_set == Csi::ZONED { Some(zones(&mut host, nsid, &data)?) } else { None },
            read_only: data.nsattr & 1 != 0,
            abilities: Abilities {
                fast_zeroes: reads_zeroes,
                extents: reads_zeroes && host.reports_allocation()?,
            },
            ..Namespace::new(device)
        };
        // The news of its successor comes next.
        match host.identify_namespace(nsid)?.generation() == data.generation() {
            true => Ok(namespace),
            false => Err(refused("it was replaced meanwhile")),
        }
    }
}

/// How the zones of a zoned namespace lie. All have the same capacity, because the drive does not change any (ZOC.VZCAP is 0): the
/// capacity of the namespace is theirs together. A report of zones would be an I/O command, which a quota or a reservation holds up.
fn zones(host: &mut Host<LocalTransport>, nsid: Nsid, data: &IdentifyNamespace) -> Result<Zones, Error> {
    let zoned = host.zoned_namespace(nsid)?;
    let (count, size) = (zoned.zones(), zoned.zone_blocks);
    let capacity = data.ncap.get().checked_div(count).unwrap_or_default();
    match u32::try_from(count) {
        Ok(count) if (1..=size).contains(&capacity) => Ok(Zones { count, size, capacity }),
        _ => Err(Error::Usage(format!("{size} blocks are no zone size, or {capacity} no zone capacity"))),
    }
}

/// Whether an error says that a namespace is not there for this host, or is none that files can show. Any other error may pass.
fn is_no_file(error: &Error) -> bool {
    match error {
        Error::Usage(_) | Error::Absent(_) | Error::Answer { .. } => true,
        error => error.status().is_some_and(blockdev::is_absent),
    }
}

impl Drive for Attached {
    fn queue_entries(&self) -> u32 {
        self.queue.entries().into()
    }

    fn namespaces(&self) -> Result<Vec<Namespace>, String> {
        let mut found = Vec::new();
        let attached = self.host().active_namespaces().map_err(|error| error.to_string())?;
        for nsid in attached {
            // Before it is identified: a cut in between makes it another one once more.
            let losses = self.handle.losses();
            match self.namespace(nsid) {
                Ok(namespace) => found.push(Namespace { losses, ..namespace }),
                // Perhaps detached since it was listed: the next news will say so.
                Err(why) if is_no_file(&why) => tracing::warn!(nsid, "no file for this namespace: {why}"),
                Err(error) => return Err(format!("namespace {nsid}: {error}")),
            }
        }
        Ok(found)
    }

    fn losses(&self) -> u64 {
        self.handle.losses()
    }

    fn extents(&self, query: ExtentQuery, then: Then<Vec<Extent>>) {
        self.queries.begin(query, then);
    }

    fn submit(&self, tag: u64, of: &blockdev::Namespace, command: DriveCommand, data: Vec<u8>) {
        let command = match command {
            DriveCommand::Blocks(operation) => of.encode(&operation).0,
            DriveCommand::Report { lba } => ZoneManagementReceive::report(of.nsid, lba, data.len()).into(),
            DriveCommand::Zone { lba, action } => ZoneManagementSend::new(of.nsid, action, lba).into(),
        };
        let begun = self.queue.post(tag, &command, of.generation, Buffer::from(data));
        if begun.is_ok() && BATCHING_CONNECTION.get() != self.address() {
            self.queue.ring();
        }
        if let Err(refused) = begun {
            // Stopped: the queue is never full, because the caller keeps to the limit.
            tracing::debug!(reason = %refused.reason, "command refused");
            if let Some(completions) = self.completions.upgrade() {
                completions.complete(tag, Err(Errno::ENODEV), refused.buffer.into_vec());
            }
        }
    }

    fn together(&self, submits: &mut dyn FnMut()) {
        let outer = BATCHING_CONNECTION.replace(self.address());
        submits();
        BATCHING_CONNECTION.set(outer);
        self.queue.ring();
    }
}

/// Where the queue's completions go.
struct Deliver(Weak<dyn Completions>);

impl Sink for Deliver {
    fn complete(&self, tag: u64, completion: Completion, buffer: Buffer) {
        if let Some(completions) = self.0.upgrade() {
            completions.complete(tag, completion.status().ok().map_err(errno), buffer.into_vec());
        }
    }
}

/// Where the controller's news go.
struct Tell(Mutex<mpsc::Sender<DriveNotice>>);

impl Events for Tell {
    // Also after a power cut and a reset.
    fn namespaces_changed(&self) {
        let news = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // The receiver is gone when the export ends.
        let _ = news.send(DriveNotice::Namespaces);
    }
}
