//! Get LBA Status (NVM 4.2.1): which blocks are allocated, and which cannot be read. It is a scan in steps.

use crate::contents::Contents;
use crate::core::{AdminResult, ControllerId, Core, Cx, Direction, Failure, Reply, StepCost};
use ftl::{Extent, Io, PAGE, PageState, VolumeId};
use media::Nanos;
use nvme::admin::{GetLbaStatus, LbaStatusAction, LbaStatusDescriptor, LbaStatusHeader};
use nvme::zerocopy::IntoBytes;
use nvme::{Status, U32, U64};

/// Pages that one command looks at behind the last ones in which it found nothing. The host asks again for the rest, from behind the last range
/// that it was told.
const COMMAND_PAGES: u64 = 1 << 16;

/// Pages that one step looks at.
const STEP_PAGES: u64 = 256;

/// The controller's own time for a page: about three times what the look takes, so that others have the rest.
const PAGE_TIME: u64 = 200;

/// The number of its reads. Nothing waits for one that is answered later.
const SCAN: Io = Io(u32::MAX - 2);

/// A command on its way.
#[derive(Debug)]
pub(crate) struct Scan {
    command: GetLbaStatus,
    /// What the namespace was when it began.
    volume: VolumeId,
    shift: u8,
    /// Descriptors that the host has room for.
    room: usize,
    /// The next block, the last one to be looked at plus one, and the last one that was asked for plus one.
    lba: u64,
    end: u64,
    asked: u64,
    /// First blocks and counts.
    found: Vec<(u64, u64)>,
}

impl Scan {
    /// Begins Get LBA Status.
    ///
    /// # Errors
    /// What is wrong with the command.
    pub fn begin(core: &Core, id: ControllerId, c: GetLbaStatus) -> Result<Scan, Failure> {
        let ns = core.attached(id, c.nsid)?;
        let (shift, blocks) = (ns.shift, ns.blocks());
        if c.slba >= blocks {
            return Err(Failure { location: 40, ..Status::LBA_OUT_OF_RANGE.into() });
        }
        let bytes = usize::try_from(c.bytes()).unwrap_or(0);
        if c.bytes() > u64::from(core.config.max_transfer) || bytes < size_of::<LbaStatusHeader>() {
            return Err(Failure::field(48));
        }
        let room = (bytes - size_of::<LbaStatusHeader>()) / size_of::<LbaStatusDescriptor>();
        let asked = if c.range == 0 { blocks } else { c.slba.saturating_add(c.range.into()).min(blocks) };
        let per_page = u64::from(PAGE) >> shift;
        let end = asked.min((c.slba / per_page + COMMAND_PAGES) * per_page);
        Ok(Scan { command: c, volume: ns.volume, shift, room, lba: c.slba, end, asked, found: Vec::new() })
    }

    /// Looks at some pages. With an answer, it was the last step.
    pub fn step<S: Contents>(
        &mut self,
        core: &mut Core,
        id: ControllerId,
        cx: &mut Cx<'_, S>,
    ) -> (StepCost, Option<AdminResult>) {
        let none = StepCost::controller(Nanos(PAGE_TIME));
        let (stamp, metadata) = match core.attached(id, self.command.nsid) {
            Ok(ns) if (ns.volume, ns.shift) == (self.volume, self.shift) => (ns.stamp, ns.layout.metadata),
            // Another namespace has its identifier, or it has another format.
            Ok(_) => return (none, Some(Err(Failure::transient(Status::NAMESPACE_NOT_READY)))),
            Err(failure) => return (none, Some(Err(failure))),
        };
        let per_page = u64::from(PAGE) >> self.shift;
        let (mut looked, mut read) = (0, 0);
        while self.lba < self.end && looked < STEP_PAGES {
            let page = self.lba / per_page;
            let bits = self.blocks_of(core, page, (stamp, metadata > 0), &mut read, cx);
            looked += 1;
            if !self.add(page, bits) {
                break;
            }
        }
        let bytes = read * u64::from(PAGE);
        let cost = StepCost { time: Nanos(looked * PAGE_TIME), direction: Direction::Read, bytes };
        let full = self.lba < self.end && looked < STEP_PAGES;
        if self.lba >= self.end && self.found.is_empty() {
            // Without a range the host would not know where to go on.
            self.end = self.asked.min(self.end + COMMAND_PAGES * per_page);
        }
        let ended = self.lba >= self.end || full;
        (cost, ended.then(|| Ok(Reply::Data(self.answer(), 0))))
    }

    /// The blocks of a page that are to be told, one bit each. Counts in `read` whether the medium was asked.
    fn blocks_of<S: Contents>(
        &self,
        core: &mut Core,
        page: u64,
        (stamp, metadata): (u32, bool),
        read: &mut u64,
        cx: &mut Cx<'_, S>,
    ) -> u8 {
        let slot = match core.ftl.page_state(self.volume, page) {
            None => return 0,
            Some(_) if self.command.atype == LbaStatusAction::ALLOCATED => return u8::MAX,
            Some(PageState::Lost) => return u8::MAX,
            Some(PageState::Held(slot)) => slot,
        };
        let marks = if stamp == 0 { 0 } else { cx.storage.marks(slot, stamp, metadata) };
        if self.command.atype != LbaStatusAction::SCAN {
            return marks;
        }
        *read += 1;
        let extent = Extent { start: page * u64::from(PAGE), bytes: PAGE };
        // A medium that answers later reports what it lost when it knows.
        match core.ftl.read_medium(cx.now, SCAN, self.volume, extent, cx.storage).end() {
            Err(_) => u8::MAX,
            Ok(_) => marks,
        }
    }

    /// Notes blocks of a page; false if there is no room for another descriptor.
    fn add(&mut self, page: u64, bits: u8) -> bool {
        let per_page = u64::from(PAGE) >> self.shift;
        while self.lba < self.end && self.lba / per_page == page {
            let lba = self.lba;
            if bits >> (lba % per_page) & 1 != 0 {
                let full = self.found.len() == self.room;
                match self.found.last_mut() {
                    Some((start, count)) if *start + *count == lba => *count += 1,
                    _ if full => return false,
                    _ => self.found.push((lba, 1)),
                }
            }
            self.lba += 1;
        }
        true
    }

    /// The data for the host.
    fn answer(&self) -> Vec<u8> {
        let header = LbaStatusHeader {
            nlsd: U32::new(self.found.len() as u32),
            cmpc: if self.lba >= self.asked { 2 } else { 1 },
            ..LbaStatusHeader::default()
        };
        // It was checked to be no more than a transfer.
        let mut data = vec![0; usize::try_from(self.command.bytes()).unwrap_or(0)];
        data[..8].copy_from_slice(header.as_bytes());
        for (place, &(start, count)) in data[8..].chunks_exact_mut(16).zip(&self.found) {
            let descriptor = LbaStatusDescriptor {
                dslba: U64::new(start),
                // At most what one command looks at.
                nlb: U32::new(count as u32),
                ..LbaStatusDescriptor::default()
            };
            place.copy_from_slice(descriptor.as_bytes());
        }
        data
    }
}
