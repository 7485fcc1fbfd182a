//! A running drive as the export uses it: an NVMe host in the same process.

use crate::drive::{Completions, Drive, DriveNotice, Limits, Namespace, Op, Reports, Zones};
use crate::errno::errno;
use blockdev::{ControllerLimits, Operation, Verb};
use fuser::Errno;
use nvme::admin::{AdminCommand, Identify};
use nvme::identify::{
    Cns, IdentifyController, IdentifyNamespace, NamespaceIdDescriptor, NamespaceList, NvmController,
    NvmNamespace, ZonedNamespace,
};
use nvme::zerocopy::FromBytes;
use nvme::zone::{
    ZoneDescriptor, ZoneManagementReceive, ZoneManagementSend, ZoneReceiveAction, ZoneReport,
    ZoneReportFilter, ZoneReportHeader,
};
use nvme::{Command, Completion, Csi, IDENTIFY_SIZE, Nsid};
use run::{BlockingQueue, Buffer, Controller, Events, Handle, HostIdentity, Queue, Sink};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak, mpsc};

/// NQN of this host: what is attached to it has a block file. The drive remembers it.
pub const HOST_NQN: &str = "nqn.2026-11.io.tranche:block";

/// Entries of the I/O queue. The kernel has up to 128 requests per loop device outstanding; more wait here.
const ENTRIES: u16 = 256;
/// Limit of one read or write where the drive has none: what the kernel sends at most.
const TRANSFER: u32 = 1 << 20;
/// Unit of the limits in Identify: CAP.MPSMIN is 0 in every drive of this program (Base 3.1.4.1).
const PAGE: u64 = 4096;

/// A connection to a drive.
pub struct Attached {
    controller: Controller,
    queue: Queue,
    /// For questions about namespaces that only I/O commands answer.
    questions: BlockingQueue,
    limits: Limits,
    completions: Weak<dyn Completions>,
    protected: Protected,
}

impl Attached {
    /// Connects to the drive.
    ///
    /// # Errors
    /// What the drive said.
    pub fn connect(handle: &Handle, reports: Reports) -> Result<Arc<Self>, String> {
        let Reports { completions, news } = reports;
        let tell = Arc::new(Tell(Mutex::new(news)));
        let host = HostIdentity::new(HOST_NQN).map_err(|error| error.to_string())?;
        let controller = handle.connect(host, tell).map_err(|error| error.to_string())?;
        let sink = Arc::new(Deliver(completions.clone()));
        let queue = controller.queue(ENTRIES, sink).map_err(|error| error.to_string())?;
        let questions = controller.blocking_queue(1).map_err(|error| error.to_string())?;
        let page = identify(&controller, Cns::CONTROLLER, 0, Csi::NVM)?;
        let mdts = read::<IdentifyController>(&page)?.mdts;
        // Drives without this page have no limit.
        let nvm = match identify(&controller, Cns::IOCS_CONTROLLER, 0, Csi::NVM) {
            Ok(page) => *read::<NvmController>(&page)?,
            Err(_) => NvmController::default(),
        };
        let reported = ControllerLimits::new(mdts, PAGE, &nvm);
        let bytes = |limit: u64| u32::try_from(limit).unwrap_or(u32::MAX);
        let limits = Limits {
            transfer: bytes(reported.transfer).min(TRANSFER),
            zero: bytes(reported.write_zeroes),
            commands: u32::from(queue.entries()),
        };
        Ok(Arc::new(Attached {
            controller,
            queue,
            questions,
            limits,
            completions,
            protected: Protected::default(),
        }))
    }

    fn namespace(&self, nsid: Nsid) -> Result<Option<Namespace>, String> {
        // Before it is identified: a cut in between makes it another one once more.
        let losses = self.controller.losses();
        let skip = |why: &str| {
            tracing::warn!(nsid, "no file for this namespace: {why}");
            Ok(None)
        };
        let command_set = self.command_set(nsid);
        if ![Csi::NVM, Csi::ZONED].contains(&command_set) {
            return skip("it is not of the NVM or the Zoned Namespace Command Set");
        }
        let page = match identify(&self.controller, Cns::NAMESPACE, nsid, Csi::NVM) {
            Ok(page) => page,
            // Detached since it was listed: the next news will say so.
            Err(error) => return skip(&error),
        };
        let data = read::<IdentifyNamespace>(&page)?;
        let format = data.format();
        // Guards of 16 bits alone; other formats are not even enabled for this host.
        let protected = data.dps.pit() != 0 && format.ms.get() == 8 && {
            let page = identify(&self.controller, Cns::IOCS_NAMESPACE, nsid, Csi::NVM)?;
            let extended = read::<NvmNamespace>(&page)?.elbaf.get(usize::from(data.flbas.format_index()));
            extended.is_some_and(|elbaf| elbaf.get() == 0)
        };
        self.protected.set(nsid, protected);
        match format.data_bytes() {
            _ if format.ms.get() != 0 && !protected => skip(
                "its blocks have metadata, for which a file has no place; formats with 8 bytes of protection information \
                 and nothing else can be had",
            ),
            Some(block_size) if data.nsze.get() > 0 => {
                let zones = match command_set {
                    Csi::ZONED => Some(self.zones(nsid, data)?),
                    _ => None,
                };
                Ok(Some(Namespace {
                    nsid,
                    nguid: data.nguid,
                    block_size,
                    blocks: data.nsze.get(),
                    zones,
                    read_only: data.nsattr & 1 != 0,
                    losses,
                }))
            }
            _ => skip("it has no size or format"),
        }
    }

    /// The NVM Command Set, if the drive does not say.
    fn command_set(&self, nsid: Nsid) -> Csi {
        let page = identify(&self.controller, Cns::NAMESPACE_DESCRIPTORS, nsid, Csi::NVM);
        let page = page.unwrap_or_default();
        let found = NamespaceIdDescriptor::read_list(&page).find_map(|descriptor| match descriptor {
            NamespaceIdDescriptor::Csi(csi) => Some(csi),
            _ => None,
        });
        found.unwrap_or(Csi::NVM)
    }

    /// How the zones of a zoned namespace lie. All have the capacity of the first, because the drive does not change any
    /// (ZOC.VZCAP is 0).
    fn zones(&self, nsid: Nsid, data: &IdentifyNamespace) -> Result<Zones, String> {
        let page = identify(&self.controller, Cns::IOCS_NAMESPACE, nsid, Csi::ZONED)?;
        let format = usize::from(data.flbas.format_index());
        let size = read::<ZonedNamespace>(&page)?.lbafe.get(format).map_or(0, |lbafe| lbafe.zsze.get());
        let count = data.nsze.get().checked_div(size).and_then(|count| u32::try_from(count).ok());
        let count = count.filter(|count| *count > 0);
        let count = count.ok_or_else(|| format!("namespace {nsid}: {size} blocks are no zone size"))?;
        let bytes = size_of::<ZoneReportHeader>() + size_of::<ZoneDescriptor>();
        let command = Command::from(report(nsid, 0, bytes));
        let (completion, buffer) = self
            .questions
            .execute(&command, Buffer::from(vec![0; bytes]))
            .map_err(|gone| gone.to_string())?;
        completion
            .status()
            .ok()
            .map_err(|status| format!("a report of zones of namespace {nsid}: {status}"))?;
        let page = buffer.into_vec();
        let first = ZoneReport::parse(&page, 0).and_then(|report| report.zones().next());
        let capacity = first.map_or(0, |(zone, _)| zone.zcap.get());
        match (1..=size).contains(&capacity) {
            true => Ok(Zones { count, size, capacity }),
            false => Err(format!("namespace {nsid}: {capacity} blocks are no zone capacity")),
        }
    }
}

/// The command that fills `bytes` with a report of zones.
fn report(nsid: Nsid, lba: u64, bytes: usize) -> ZoneManagementReceive {
    ZoneManagementReceive {
        nsid,
        slba: lba,
        dwords: bytes as u64 / 4,
        action: ZoneReceiveAction::REPORT,
        filter: ZoneReportFilter::ALL,
        partial: true,
    }
}

/// Namespaces with protection information. Few drives have any, so that most commands look at a flag.
#[derive(Default)]
struct Protected {
    any: AtomicBool,
    nsids: Mutex<BTreeSet<Nsid>>,
}

impl Protected {
    fn set(&self, nsid: Nsid, protected: bool) {
        let mut nsids = self.nsids.lock().unwrap_or_else(PoisonError::into_inner);
        match protected {
            true => nsids.insert(nsid),
            false => nsids.remove(&nsid),
        };
        self.any.store(!nsids.is_empty(), Ordering::Release);
    }

    fn has(&self, nsid: Nsid) -> bool {
        self.any.load(Ordering::Acquire)
            && self.nsids.lock().unwrap_or_else(PoisonError::into_inner).contains(&nsid)
    }
}

impl Drive for Attached {
    fn limits(&self) -> Limits {
        self.limits
    }

    fn namespaces(&self) -> Result<Vec<Namespace>, String> {
        let mut found = Vec::new();
        let mut after = 0;
        // A page lists 1,024, in ascending order.
        loop {
            let page = identify(&self.controller, Cns::ACTIVE_NAMESPACES, after, Csi::NVM)?;
            let list = read::<NamespaceList>(&page)?;
            let before = after;
            for nsid in list.iter().filter(|nsid| *nsid > before) {
                found.extend(self.namespace(nsid)?);
                after = nsid;
            }
            if after == before {
                return Ok(found);
            }
        }
    }

    fn losses(&self) -> u64 {
        self.controller.losses()
    }

    fn submit(&self, tag: u64, nsid: u32, op: Op, data: Vec<u8>) {
        let protection = u8::from(self.protected.has(nsid));
        let namespace =
            blockdev::Namespace { protection, ..blockdev::Namespace::plain(nsid, 0, PAGE as u32) };
        let encode = |verb, lba, blocks| namespace.encode(&Operation { verb, lba, blocks }).0;
        let command = match op {
            Op::Read { lba, blocks } => encode(Verb::Read, lba, blocks),
            Op::Write { lba, blocks, fua: false } => encode(Verb::Write, lba, blocks),
            Op::Write { lba, blocks, fua: true } => encode(Verb::WriteFua, lba, blocks),
            Op::Zero { lba, blocks, deallocate } => encode(Verb::WriteZeroes { deallocate }, lba, blocks),
            Op::Flush => encode(Verb::Flush, 0, 0),
            Op::Report { lba } => report(nsid, lba, data.len()).into(),
            Op::Zone { lba, action } => ZoneManagementSend::new(nsid, action, lba).into(),
        };
        if let Err(refused) = self.queue.submit(tag, &command, Buffer::from(data)) {
            // Stopped: the queue is never full, because the caller keeps to the limit.
            tracing::debug!(reason = %refused.reason, "command refused");
            if let Some(completions) = self.completions.upgrade() {
                completions.complete(tag, Err(Errno::ENODEV), refused.buffer.into_vec());
            }
        }
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

impl Tell {
    fn again(&self) {
        let news = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // The receiver is gone when the export ends.
        let _ = news.send(DriveNotice::Namespaces);
    }
}

impl Events for Tell {
    fn namespaces_changed(&self) {
        self.again();
    }

    fn power(&self, up: bool) {
        if up {
            self.again();
        }
    }
}

fn identify(controller: &Controller, cns: Cns, nsid: Nsid, csi: Csi) -> Result<Vec<u8>, String> {
    let command = Identify { nsid, cns, cntid: 0, cnssid: 0, csi, uidx: 0 };
    let command = Command::from(AdminCommand::Identify(command));
    let room = Buffer::from(vec![0; IDENTIFY_SIZE]);
    let (completion, buffer) = controller.admin(&command, room).map_err(|gone| gone.to_string())?;
    completion.status().ok().map_err(|status| format!("Identify ({cns}) of namespace {nsid}: {status}"))?;
    Ok(buffer.into_vec())
}

fn read<T: FromBytes + nvme::zerocopy::KnownLayout + nvme::zerocopy::Immutable>(
    page: &[u8],
) -> Result<&T, String> {
    T::ref_from_bytes(page).map_err(|_| "Identify returned a page of the wrong size".to_owned())
}
