//! Blocks that are lost, told to hosts before they read them: the LBA Status Information log (LID 0Eh), its attributes (FID 15h) and its
//! alert (NVM 4.1.3.5, 4.1.4.5).
//!
//! A block is in the log from when the drive finds its contents lost until it is written or deallocated. What a host has marked itself
//! (Write Uncorrectable) is no news to it and not in the log; Get LBA Status tells both. A controller is alerted of losses in its attached
//! namespaces that its host has not read of: at once, but no sooner after the last alert or reading than the report interval.

use crate::contents::Contents;
use crate::core::{Controller, Core, Cx};
use nvme::admin::LbaStatusAction;
use nvme::log::{LbaRangeDescriptor, LbaStatusLogElement, LbaStatusLogHeader};
use nvme::zerocopy::IntoBytes;
use nvme::{Nsid, U16, U32, U64};
use std::collections::BTreeMap;

/// Ranges of one namespace that the log tells apart; of one with more of them it recommends to look at the whole.
const MOST_RANGES: usize = 1024;

/// What the log tells.
#[derive(Default)]
pub(crate) struct LostBlocks {
    /// Losses of the translation layer that controllers know of.
    known: u64,
    /// LBA Status Generation Counter.
    generation: u16,
    /// Ranges of blocks by namespace: first, and how many.
    ranges: BTreeMap<Nsid, Vec<(u64, u64)>>,
}

impl LostBlocks {
    /// Whether the translation layer has lost pages that controllers do not know of.
    #[inline]
    pub fn has_news(&self, core: &Core) -> bool {
        core.ftl.losses() != self.known
    }

    /// The translation layer has lost pages: controllers whose namespaces they belong to are alerted.
    #[cold]
    pub fn note<S: Contents>(&mut self, core: &mut Core, cx: &mut Cx<'_, S>) {
        self.known = core.ftl.losses();
        let mut affected = Vec::new();
        for (nsid, ns) in core.namespaces.iter_mut() {
            let losses = core.ftl.volume_losses(ns.volume);
            if std::mem::replace(&mut ns.losses, losses) != losses {
                affected.push(nsid);
            }
        }
        for nsid in affected {
            for id in core.attached_controllers(nsid) {
                core.show_losses(id, nsid, cx);
            }
        }
    }

    /// Finds out what the log is to tell.
    pub fn gather(&mut self, core: &mut Core) {
        let pages = core.ftl.lost_pages();
        let mut ranges: BTreeMap<Nsid, Vec<(u64, u64)>> = BTreeMap::new();
        for (nsid, ns) in core.namespaces.iter() {
            let of = |volume| pages.partition_point(|&(v, _)| v < volume);
            let per_page = u64::from(ftl::PAGE) >> ns.shift;
            for &(_, page) in pages[of(ns.volume)..].iter().take_while(|(volume, _)| *volume == ns.volume) {
                let first = page * per_page;
                let count = per_page.min(ns.blocks().saturating_sub(first));
                let found = ranges.entry(nsid).or_default();
                match found.last_mut() {
                    _ if count == 0 => {}
                    Some((start, blocks)) if *start + *blocks == first && fits(*blocks + count) => {
                        *blocks += count
                    }
                    _ => found.push((first, count)),
                }
            }
        }
        if self.ranges != ranges {
            self.ranges = ranges;
            self.generation = self.generation.wrapping_add(1);
        }
    }

    /// The LBA Status Information log page: namespaces that are attached to the controller.
    pub fn log(&self, controller: &Controller) -> Vec<u8> {
        let mut log = vec![0; size_of::<LbaStatusLogHeader>()];
        let (mut elements, mut blocks) = (0, 0u64);
        for (&nsid, ranges) in self.ranges.iter().filter(|(nsid, _)| controller.is_attached(**nsid)) {
            elements += 1;
            blocks += ranges.iter().map(|(_, count)| count).sum::<u64>();
            let told = if ranges.len() > MOST_RANGES { &[][..] } else { ranges };
            let count =
                if told.is_empty() { LbaStatusLogElement::WHOLE_NAMESPACE } else { told.len() as u32 };
            let element = LbaStatusLogElement {
                neid: U32::new(nsid),
                nlrd: U32::new(count),
                ratype: LbaStatusAction::TRACKED.0,
                ..LbaStatusLogElement::default()
            };
            log.extend_from_slice(element.as_bytes());
            for &(first, count) in told {
                let range = LbaRangeDescriptor {
                    rslba: U64::new(first),
                    rnlb: U32::new(count as u32),
                    ..LbaRangeDescriptor::default()
                };
                log.extend_from_slice(range.as_bytes());
            }
        }
        let header = LbaStatusLogHeader {
            lslplen: U32::new(log.len() as u32),
            nlslne: U32::new(elements),
            estulb: U32::new(u32::try_from(blocks).unwrap_or(u32::MAX)),
            lsgc: U16::new(self.generation),
            ..LbaStatusLogHeader::default()
        };
        log[..size_of::<LbaStatusLogHeader>()].copy_from_slice(header.as_bytes());
        log
    }
}

/// Whether a range descriptor can name so many blocks.
fn fits(blocks: u64) -> bool {
    u32::try_from(blocks).is_ok()
}
