//! A running drive as the export uses it: an NVMe host in the same process.

use crate::drive::{
    Abilities, Completions, Drive, DriveNotice, Extent, Limits, Namespace, NamespaceKey, Op, Reports, Zones,
};
use crate::errno::errno;
use blockdev::{ControllerLimits, Operation, Verb};
use fuser::Errno;
use live::{BlockingQueue, Buffer, Controller, Events, Handle, HostIdentity, Queue, Sink};
use nvme::admin::{
    AdminCommand, GetLbaStatus, Identify, LbaStatusAction, LbaStatusDescriptor, LbaStatusHeader,
};
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
use std::cell::Cell;
use std::collections::BTreeSet;
use std::num::NonZeroU64;
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

/// Logical blocks that one Get LBA Status asks about: the range has 16 bits, and ends with a page of any block size.
const STATUS_BLOCKS: u16 = u16::MAX / 8 * 8;
/// Bytes of its answer at most: 4,095 ranges.
const STATUS_BYTES: u32 = 64 << 10;
/// Commands for one question about allocated blocks at most.
const STATUS_COMMANDS: u32 = 64;

/// A connection to a drive.
pub struct Attached {
    controller: Controller,
    queue: Queue,
    /// For questions about namespaces that only I/O commands answer.
    questions: BlockingQueue,
    limits: Limits,
    /// Whether Get LBA Status tells what is allocated.
    tells_allocated: bool,
    completions: Weak<dyn Completions>,
    protected: Protected,
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
        let Reports { completions, news } = reports;
        let tell = Arc::new(Tell(Mutex::new(news)));
        let host = HostIdentity::new(HOST_NQN).map_err(|error| error.to_string())?;
        let controller = handle.connect(host, tell).map_err(|error| error.to_string())?;
        let sink = Arc::new(Deliver(completions.clone()));
        let queue = controller.queue(ENTRIES, sink).map_err(|error| error.to_string())?;
        let questions = controller.blocking_queue(1).map_err(|error| error.to_string())?;
        let page = identify(&controller, Cns::CONTROLLER, 0, Csi::NVM)?;
        let identified = read::<IdentifyController>(&page)?;
        let (mdts, tells_status) = (identified.mdts, identified.oacs.glss());
        // Drives without this page have no limit.
        let nvm = match identify(&controller, Cns::IOCS_CONTROLLER, 0, Csi::NVM) {
            Ok(page) => *read::<NvmController>(&page)?,
            Err(_) => NvmController::default(),
        };
        let tells_allocated = tells_status && nvm.aocs.get() & 1 != 0;
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
            tells_allocated,
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
                let reads_zeroes = data.dlfeat.drb() == 1 && data.dlfeat.wzds();
                let zones = match command_set {
                    Csi::ZONED => Some(self.zones(nsid, data)?),
                    _ => None,
                };
                // The answers are about one namespace, or the news of its successor comes next.
                let page = identify(&self.controller, Cns::NAMESPACE, nsid, Csi::NVM)?;
                if read::<IdentifyNamespace>(&page)?.generation() != data.generation() {
                    return skip("it was replaced meanwhile");
                }
                Ok(Some(Namespace {
                    key: NamespaceKey { nsid, generation: NonZeroU64::new(data.generation()) },
                    nguid: data.nguid,
                    block_size,
                    blocks: data.nsze.get(),
                    zones,
                    read_only: data.nsattr & 1 != 0,
                    losses,
                    abilities: Abilities {
                        fast_zeroes: reads_zeroes,
                        extents: reads_zeroes && self.tells_allocated,
                    },
                }))
            }
            _ => skip("it has no size or format"),
        }
    }

    /// Which of these blocks are allocated, by one command: up to [`STATUS_BLOCKS`].
    fn status(&self, of: NamespaceKey, lba: u64, blocks: u16, found: &mut Vec<Extent>) -> Result<(), Errno> {
        let bytes = STATUS_BYTES.min(self.limits.transfer);
        let atype = LbaStatusAction::ALLOCATED;
        let command =
            GetLbaStatus { nsid: of.nsid, slba: lba, dwords: u64::from(bytes) / 4, range: blocks, atype };
        let command = Command::from(AdminCommand::GetLbaStatus(command));
        let room = Buffer::from(vec![0; bytes as usize]);
        let answered = self.controller.admin_of(&command, of.generation, room);
        let (completion, buffer) = answered.map_err(|_| Errno::ENODEV)?;
        completion.status().ok().map_err(errno)?;
        let page = buffer.into_vec();
        let (header, rest) = LbaStatusHeader::ref_from_prefix(&page).map_err(|_| Errno::EIO)?;
        let end = lba + u64::from(blocks);
        let mut at = lba;
        for descriptor in rest.chunks_exact(size_of::<LbaStatusDescriptor>()).take(header.nlsd.get() as usize)
        {
            let descriptor = LbaStatusDescriptor::ref_from_bytes(descriptor).map_err(|_| Errno::EIO)?;
            let start = descriptor.dslba.get().clamp(at, end);
            let next = start.saturating_add(descriptor.nlb.get().into()).min(end);
            note(found, start - at, false);
            note(found, next - start, true);
            at = next;
        }
        // Else there was no room for the ranges that follow.
        if header.cmpc == 2 {
            note(found, end - at, false);
        }
        Ok(())
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

    fn extents(&self, of: NamespaceKey, lba: u64, blocks: u64, most: usize) -> Result<Vec<Extent>, Errno> {
        let mut found = Vec::new();
        let mut told = 0;
        for _ in 0..STATUS_COMMANDS {
            // The last one may go on in the next answer.
            if told >= blocks || found.len() > most {
                break;
            }
            let asked = u16::try_from(blocks - told).unwrap_or(STATUS_BLOCKS).min(STATUS_BLOCKS);
            self.status(of, lba + told, asked, &mut found)?;
            let before = told;
            told = found.iter().map(|extent| extent.blocks).sum();
            if told == before {
                break;
            }
        }
        found.truncate(most);
        if found.is_empty() { Err(Errno::EIO) } else { Ok(found) }
    }

    fn submit(&self, tag: u64, of: NamespaceKey, op: Op, data: Vec<u8>) {
        let NamespaceKey { nsid, generation } = of;
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
        let data = Buffer::from(data);
        let begun = self.queue.post(tag, &command, generation, data);
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

/// Adds blocks to what was found, as a part of its last extent if the same is true of them.
fn note(found: &mut Vec<Extent>, blocks: u64, allocated: bool) {
    match found.last_mut() {
        _ if blocks == 0 => {}
        Some(last) if last.allocated == allocated => last.blocks += blocks,
        _ => found.push(Extent { blocks, allocated }),
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
