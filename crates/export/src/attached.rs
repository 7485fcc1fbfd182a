//! A running drive as the export uses it: an NVMe host in the same process.

use crate::drive::{Completions, Drive, DriveNotice, Limits, Namespace, Op, Reports};
use crate::errno::errno;
use blockdev::{ControllerLimits, Operation, Verb};
use fuser::Errno;
use nvme::admin::{AdminCommand, Identify};
use nvme::identify::{
    Cns, IdentifyController, IdentifyNamespace, NamespaceIdDescriptor, NamespaceList, NvmController,
    NvmNamespace,
};
use nvme::zerocopy::FromBytes;
use nvme::{Command, Completion, Csi, IDENTIFY_SIZE, Nsid};
use run::{Buffer, Controller, Events, Handle, HostIdentity, Queue, Sink};
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
        let page = identify(&controller, Cns::CONTROLLER, 0)?;
        let mdts = read::<IdentifyController>(&page)?.mdts;
        // Drives without this page have no limit.
        let nvm = match identify(&controller, Cns::IOCS_CONTROLLER, 0) {
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
        Ok(Arc::new(Attached { controller, queue, limits, completions, protected: Protected::default() }))
    }

    fn namespace(&self, nsid: Nsid) -> Result<Option<Namespace>, String> {
        // Before it is identified: a cut in between makes it another one once more.
        let losses = self.controller.losses();
        let skip = |why: &str| {
            tracing::warn!(nsid, "no block file for this namespace: {why}");
            Ok(None)
        };
        if let Ok(page) = identify(&self.controller, Cns::NAMESPACE_DESCRIPTORS, nsid) {
            let mut descriptors = NamespaceIdDescriptor::read_list(&page);
            if descriptors.any(|it| matches!(it, NamespaceIdDescriptor::Csi(csi) if csi != Csi::NVM)) {
                return skip("it is not of the NVM Command Set");
            }
        }
        let page = match identify(&self.controller, Cns::NAMESPACE, nsid) {
            Ok(page) => page,
            // Detached since it was listed: the next news will say so.
            Err(error) => return skip(&error),
        };
        let data = read::<IdentifyNamespace>(&page)?;
        let format = data.format();
        // Guards of 16 bits alone; other formats are not even enabled for this host.
        let protected = data.dps.pit() != 0 && format.ms.get() == 8 && {
            let page = identify(&self.controller, Cns::IOCS_NAMESPACE, nsid)?;
            let extended = read::<NvmNamespace>(&page)?.elbaf.get(usize::from(data.flbas.format_index()));
            extended.is_some_and(|elbaf| elbaf.get() == 0)
        };
        self.protected.set(nsid, protected);
        match format.data_bytes() {
            _ if format.ms.get() != 0 && !protected => skip(
                "its blocks have metadata, for which a file has no place; formats with 8 bytes of protection information \
                 and nothing else can be had",
            ),
            Some(block_size) if data.nsze.get() > 0 => Ok(Some(Namespace {
                nsid,
                nguid: data.nguid,
                block_size,
                blocks: data.nsze.get(),
                read_only: data.nsattr & 1 != 0,
                losses,
            })),
            _ => skip("it has no size or format"),
        }
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
            let page = identify(&self.controller, Cns::ACTIVE_NAMESPACES, after)?;
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
        let (verb, lba, blocks) = match op {
            Op::Read { lba, blocks } => (Verb::Read, lba, blocks),
            Op::Write { lba, blocks, fua: false } => (Verb::Write, lba, blocks),
            Op::Write { lba, blocks, fua: true } => (Verb::WriteFua, lba, blocks),
            Op::Zero { lba, blocks, deallocate } => (Verb::WriteZeroes { deallocate }, lba, blocks),
            Op::Flush => (Verb::Flush, 0, 0),
        };
        let (command, _) = namespace.encode(&Operation { verb, lba, blocks });
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

fn identify(controller: &Controller, cns: Cns, nsid: Nsid) -> Result<Vec<u8>, String> {
    let command = Identify { nsid, cns, cntid: 0, cnssid: 0, csi: Csi::NVM, uidx: 0 };
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
