//! Get LBA Status (NVM 4.2.1): which blocks are allocated, and which cannot be read.

use crate::contents::Contents;
use crate::core::{AdminResult, ControllerId, Core, Cx, Failure, Reply};
use ftl::{Extent, Io, PAGE, PageState};
use nvme::admin::{GetLbaStatus, LbaStatusAction, LbaStatusDescriptor, LbaStatusHeader};
use nvme::zerocopy::IntoBytes;
use nvme::{U32, U64};

/// Pages that one command looks at: the drive does nothing else meanwhile. The host asks again for the rest.
const MOST_PAGES: u64 = 1 << 16;

/// The number of its reads. Nothing waits for one that is answered later.
const SCAN: Io = Io(u32::MAX - 2);

/// Get LBA Status.
pub(crate) fn get<S: Contents>(
    core: &mut Core,
    id: ControllerId,
    c: GetLbaStatus,
    cx: &mut Cx<'_, S>,
) -> AdminResult {
    let ns = core.attached(id, c.nsid)?;
    let (shift, blocks, volume, stamp, metadata) =
        (ns.shift, ns.blocks(), ns.volume, ns.stamp, ns.layout.metadata);
    if c.slba >= blocks {
        return Err(Failure { location: 40, ..nvme::Status::LBA_OUT_OF_RANGE.into() });
    }
    let room = usize::try_from(c.bytes()).unwrap_or(0);
    if c.bytes() > u64::from(core.config.max_transfer) || room < size_of::<LbaStatusHeader>() {
        return Err(Failure::field(48));
    }
    let most = (room - size_of::<LbaStatusHeader>()) / size_of::<LbaStatusDescriptor>();
    let asked = if c.range == 0 { blocks } else { c.slba.saturating_add(c.range.into()).min(blocks) };
    let per_page = u64::from(PAGE) >> shift;
    let end = asked.min((c.slba / per_page + MOST_PAGES) * per_page);
    let mut found: Vec<(u64, u64)> = Vec::new();
    let mut complete = end == asked;
    let mut lba = c.slba;
    'pages: while lba < end {
        let page = lba / per_page;
        let bits = match core.ftl.page_state(volume, page) {
            None => 0u8,
            Some(_) if c.atype == LbaStatusAction::ALLOCATED => u8::MAX,
            Some(PageState::Lost) => u8::MAX,
            Some(PageState::Held(slot)) => {
                let marks = match stamp {
                    0 => 0,
                    _ => cx.storage.marks(slot, stamp, metadata > 0),
                };
                let extent = Extent { start: page * u64::from(PAGE), bytes: PAGE };
                let scan = c.atype == LbaStatusAction::SCAN;
                let mut read = || core.ftl.read_medium(cx.now, SCAN, volume, extent, cx.storage);
                // A medium that answers later reports what it lost when it knows.
                match scan && read().end().is_err() {
                    true => u8::MAX,
                    false => marks,
                }
            }
        };
        while lba < end && lba / per_page == page {
            if bits >> (lba % per_page) & 1 != 0 {
                let full = found.len() == most;
                match found.last_mut() {
                    Some((start, count)) if *start + *count == lba => *count += 1,
                    _ if full => {
                        complete = false;
                        break 'pages;
                    }
                    _ => found.push((lba, 1)),
                }
            }
            lba += 1;
        }
    }
    let header = LbaStatusHeader {
        nlsd: U32::new(found.len() as u32),
        cmpc: if complete { 2 } else { 1 },
        ..LbaStatusHeader::default()
    };
    let mut data = vec![0; room];
    data[..8].copy_from_slice(header.as_bytes());
    for (place, (start, count)) in data[8..].chunks_exact_mut(16).zip(found) {
        let descriptor = LbaStatusDescriptor {
            dslba: U64::new(start),
            // At most what one command looks at.
            nlb: U32::new(count as u32),
            ..LbaStatusDescriptor::default()
        };
        place.copy_from_slice(descriptor.as_bytes());
    }
    Ok(Reply::Data(data, 0))
}
