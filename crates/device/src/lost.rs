//! Blocks that are lost, told to hosts before they read them: the LBA Status Information log (LID 0Eh), its attributes (FID 15h) and its
//! alert (NVM 4.1.3.5, 4.1.4.5).
//!
//! A block is in the log from when the drive finds its contents lost until it is written or deallocated. What a host has marked itself
//! (Write Uncorrectable) is no news to it and not in the log; Get LBA Status tells both. A controller is alerted of losses in its attached
//! namespaces that its host has not read of: at once, but no sooner after the last alert or reading than the report interval.

use crate::contents::Contents;
use crate::core::{AsyncEvent, Controller, ControllerId, Cx, TimedEvent};
use crate::drive::Drive;
use media::Nanos;
use nvme::admin::LbaStatusAction;
use nvme::log::{LbaRangeDescriptor, LbaStatusLogElement, LbaStatusLogHeader};
use nvme::zerocopy::IntoBytes;
use nvme::{Nsid, U16, U32, U64};
use std::collections::BTreeMap;

/// LBA Status Information Poll Interval in units of 100 ms: a second. Each reading looks at all pages that are lost.
pub(crate) const POLL_INTERVAL: u16 = 10;

/// Ranges of one namespace that the log tells apart; of one with more of them it recommends to look at the whole.
const MOST_RANGES: usize = 1024;

/// What one controller's host has not read of.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Unread {
    /// Whether the log has news for it.
    pub unread: bool,
    /// When it was alerted, or read the log, most recently.
    last: Option<Nanos>,
}

impl Unread {
    /// The controller is reset: what was not read is still to be told.
    pub fn restart(&mut self) {
        self.last = None;
    }

    /// Its host reads the log without retaining the event.
    pub fn read(&mut self, now: Nanos) {
        *self = Unread { unread: false, last: Some(now) };
    }
}

/// What the log tells.
#[derive(Default)]
pub(crate) struct Lost {
    /// Losses of the translation layer that controllers know of.
    pub known: u64,
    /// LBA Status Generation Counter.
    generation: u16,
    /// Ranges of blocks by namespace: first, and how many.
    ranges: BTreeMap<Nsid, Vec<(u64, u64)>>,
}

impl Drive {
    /// The translation layer has lost pages: controllers whose namespaces they belong to are alerted.
    #[cold]
    pub(crate) fn note_losses<S: Contents>(&mut self, cx: &mut Cx<'_, S>) {
        self.lost.known = self.core.ftl.losses();
        let mut affected = Vec::new();
        for (nsid, ns) in self.core.namespaces.iter_mut() {
            let losses = self.core.ftl.volume_losses(ns.volume);
            if std::mem::replace(&mut ns.losses, losses) != losses {
                affected.push(nsid);
            }
        }
        for nsid in affected {
            for id in self.core.attached_controllers(nsid) {
                self.show_losses(id, nsid, cx);
            }
        }
    }

    /// Whether pages of a namespace were lost.
    pub(crate) fn has_losses(&self, nsid: Nsid) -> bool {
        self.core.namespaces.get(nsid).is_some_and(|ns| self.core.ftl.volume_losses(ns.volume) > 0)
    }

    /// A controller has a namespace attached that may have losses.
    pub(crate) fn show_losses<S: Contents>(&mut self, id: ControllerId, nsid: Nsid, cx: &mut Cx<'_, S>) {
        if self.has_losses(nsid)
            && let Some(controller) = self.core.controllers.get_mut(id)
        {
            controller.lost.unread = true;
            self.alert(id, cx);
        }
    }

    /// Alerts a controller of what its host has not read, now or when the report interval has passed.
    pub(crate) fn alert<S: Contents>(&mut self, id: ControllerId, cx: &mut Cx<'_, S>) {
        let Some(controller) = self.core.controllers.get_mut(id) else { return };
        if !controller.lost.unread || !controller.values.events().lsin() {
            return;
        }
        let interval = Nanos(u64::from(controller.values.lba_report_interval) * 100_000_000);
        let due = controller.lost.last.map_or(cx.now, |last| last + interval);
        if due > cx.now {
            // One that comes too soon, as the interval is longer by then, asks again.
            self.core.events.push(due, TimedEvent::LbaAlert(id));
            return;
        }
        controller.lost.last = Some(cx.now);
        if let Some(answered) = controller.raise(AsyncEvent::LbaStatus) {
            self.core.answer_event(answered, cx);
        }
    }

    /// Finds out what the log is to tell.
    pub(crate) fn gather_lost(&mut self) {
        let pages = self.core.ftl.lost_pages();
        let mut ranges: BTreeMap<Nsid, Vec<(u64, u64)>> = BTreeMap::new();
        for (nsid, ns) in self.core.namespaces.iter() {
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
        if self.lost.ranges != ranges {
            self.lost.ranges = ranges;
            self.lost.generation = self.lost.generation.wrapping_add(1);
        }
    }

    /// The LBA Status Information log page: namespaces that are attached to the controller.
    pub(crate) fn lba_status_log(&self, controller: &Controller) -> Vec<u8> {
        let mut log = vec![0; size_of::<LbaStatusLogHeader>()];
        let (mut elements, mut blocks) = (0, 0u64);
        for (&nsid, ranges) in self.lost.ranges.iter().filter(|(nsid, _)| controller.is_attached(**nsid)) {
            elements += 1;
            blocks += ranges.iter().map(|(_, count)| count).sum::<u64>();
            let told = if ranges.len() > MOST_RANGES { &[][..] } else { ranges };
            let count = if told.is_empty() { LbaStatusLogElement::WHOLE } else { told.len() as u32 };
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
            lsgc: U16::new(self.lost.generation),
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
