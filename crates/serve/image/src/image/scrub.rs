//! The scrub: while a drive serves an image, a thread reads every page that a namespace refers to, and compares checksums. So damage
//! is found while there may still be a copy elsewhere, and not when a host needs the page.
//!
//! The drive's thread only names pages, a [`Batch`] at a time. It counts a reference for each slot until the batch has been read, so nobody
//! writes there meanwhile. The scrub's own thread reads them, and then rests. It keeps to a rate, and reads an eighth of the time at most.
//! No command of the drive is involved, and nothing of what a host sees changes.

use super::disk::{Disk, DiskFile, Open, read_aside};
use super::error::ImageError;
use super::files::{CONTENTS, SPARES, open};
use super::helper::join;
use super::sums::{self, Damage};
use crate::memory::SLOT;
use device::{Drive, NamespaceLayout, SPARE_BYTES};
use ftl::{PAGE, PageState};
use media::Slot;
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Pages that are read before the thread rests.
pub(super) const BATCH: usize = 64;
/// Pages that are looked up before the drive's thread does something else; most of a large namespace may hold nothing.
const LOOKED_UP: u64 = 1024;
/// The rest after a batch of pages that hold nothing.
pub(super) const EMPTY_BATCH_PAUSE: Duration = Duration::from_millis(10);
/// The thread rests this many times as long as it has read.
const REST_FACTOR: u32 = 7;
/// Damaged pages that a pass names one by one.
const MOST_NAMED: u64 = 100;

/// How the contents of an image are checked while a drive serves it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScrubOptions {
    /// It reads so many bytes a second at most.
    pub bytes_per_second: u64,
    /// The next pass over all pages begins so long after the beginning of the one before, or when that has ended.
    pub period: Duration,
}

impl Default for ScrubOptions {
    fn default() -> Self {
        ScrubOptions { bytes_per_second: 4 << 20, period: Duration::from_secs(24 * 3600) }
    }
}

/// A page that is to be checked.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScrubPage {
    pub(super) slot: Slot,
    pub(super) sum: u32,
    /// Whether something lies beside it.
    pub(super) beside: bool,
    pub(super) nsid: u32,
    /// Its number in the namespace.
    pub(super) number: u64,
}

pub(super) type Batch = Vec<ScrubPage>;

pub(super) enum ScrubRequest {
    Check(Batch),
    Rest(Duration),
}

pub(super) enum ScrubReport {
    /// The thread wants something to do.
    Ready,
    /// A batch has been read; this is wrong with it.
    Checked(Vec<(ScrubPage, Damage)>),
}

/// The scrub as the drive's thread sees it.
pub(crate) struct Scrub {
    period: Duration,
    pub(super) asks: Option<Sender<ScrubRequest>>,
    pub(super) reports: Receiver<ScrubReport>,
    pub(super) thread: Option<JoinHandle<()>>,
    /// The thread wants something to do.
    pub(super) ready: bool,
    /// Slots of the batch that is being read, which are referred to until then.
    pub(super) under: Vec<Slot>,
    pub(super) pass: Option<Pass>,
    /// Passes that have ended, and pages that were found damaged in all of them.
    pub(super) tally: (u64, u64),
}

/// Once over all pages of all namespaces, which count as one row.
pub(super) struct Pass {
    begun: Instant,
    /// Where it began: elsewhere each time, so that drives that never run for long are read everywhere, too.
    first: u64,
    /// Pages that were passed.
    pub(super) done: u64,
    pub(super) checked: u64,
    damaged: u64,
}

/// Pages of a namespace.
pub(super) fn pages(layout: &NamespaceLayout) -> u64 {
    layout.blocks.div_ceil(u64::from(PAGE >> layout.transform.shift))
}

/// Its blocks that are in a page.
fn blocks(layout: &NamespaceLayout, number: u64) -> Range<u64> {
    let per_page = u64::from(PAGE >> layout.transform.shift);
    number * per_page..((number + 1) * per_page).min(layout.blocks)
}

impl Scrub {
    pub(super) fn new(disk: &dyn Disk, options: ScrubOptions) -> Result<(Self, Worker), ImageError> {
        // Files of its own: what the host expects of their readers is not what it is to expect of this one.
        let (contents, spares) = (open(disk, CONTENTS, Open::Existing)?, open(disk, SPARES, Open::Existing)?);
        contents.expect_no_order();
        let (asks, todo) = channel();
        let (done, reports) = channel();
        let scrub = Scrub {
            period: options.period,
            asks: Some(asks),
            reports,
            thread: None,
            ready: false,
            under: Vec::new(),
            pass: None,
            tally: (0, 0),
        };
        let rate = options.bytes_per_second.max(1);
        let worker =
            Worker { asks: todo, reports: done, contents, spares, rate, room: vec![0; BATCH * SLOT] };
        Ok((scrub, worker))
    }

    /// The slots of the batch that is being read.
    pub(super) fn slots(&self) -> impl Iterator<Item = Slot> {
        self.under.iter().copied()
    }

    /// Logs damage, unless the namespace has let go of the page.
    pub(super) fn hear(&mut self, damaged: &[(ScrubPage, Damage)], drive: &Drive) {
        let Some(pass) = &mut self.pass else { return };
        for (page, damage) in damaged {
            let Some(layout) = drive.namespace_layouts().find(|layout| layout.nsid == page.nsid) else {
                continue;
            };
            if drive.ftl().page_state(layout.volume, page.number) != Some(PageState::Held(page.slot)) {
                continue;
            }
            pass.damaged += 1;
            self.tally.1 += 1;
            if pass.damaged <= MOST_NAMED {
                let blocks = blocks(&layout, page.number);
                tracing::error!(
                    "the scrub has found damage at LBA {} to {} of namespace {}: {damage}",
                    blocks.start,
                    blocks.end - 1,
                    page.nsid
                );
            }
        }
    }

    /// A pass has ended; how long to rest.
    pub(super) fn end_pass(&mut self) -> Duration {
        self.tally.0 += 1;
        let Some(pass) = self.pass.take() else { return self.period };
        match pass.damaged {
            0 => tracing::debug!("the scrub has checked {} pages, none is damaged", pass.checked),
            damaged => tracing::error!(
                "the scrub has checked {} pages, {damaged} of them are damaged: reads of them fail until they are written again",
                pass.checked
            ),
        }
        self.period.saturating_sub(pass.begun.elapsed()).max(EMPTY_BATCH_PAUSE)
    }

    /// All references are counted anew, without those for the batch that is being read: what it finds counts no more.
    pub(super) fn forget(&mut self) {
        self.under.clear();
        self.pass = None;
    }
}

impl Drop for Scrub {
    fn drop(&mut self) {
        self.asks = None;
        self.thread.take().into_iter().for_each(join);
    }
}

impl Pass {
    pub(super) fn begin(total: u64, random: [u8; 16]) -> Self {
        let random = u128::from_le_bytes(random) % u128::from(total.max(1));
        Pass { begun: Instant::now(), first: random as u64, done: 0, checked: 0, damaged: 0 }
    }

    /// The pages that come next: namespace and number.
    pub(super) fn next<'a>(
        &self,
        layouts: &'a [NamespaceLayout],
        total: u64,
    ) -> impl Iterator<Item = (&'a NamespaceLayout, u64)> + use<'a> {
        let mut at = self.first.saturating_add(self.done) % total;
        let mut index = 0;
        while layouts.get(index).is_some_and(|layout| at >= pages(layout)) {
            at -= pages(&layouts[index]);
            index += 1;
        }
        let left = (total - self.done).min(LOOKED_UP);
        (0..left).map_while(move |_| {
            // Behind the last page comes the first; a namespace may have none.
            while layouts.get(index).is_some_and(|layout| at == pages(layout)) {
                (index, at) = ((index + 1) % layouts.len(), 0);
            }
            at += 1;
            layouts.get(index).map(|layout| (layout, at - 1))
        })
    }
}

/// Who reads.
pub(super) struct Worker {
    pub(super) asks: Receiver<ScrubRequest>,
    pub(super) reports: Sender<ScrubReport>,
    contents: Arc<dyn DiskFile>,
    spares: Arc<dyn DiskFile>,
    /// Bytes per second.
    pub(super) rate: u64,
    room: Vec<u8>,
}

impl Worker {
    pub(super) fn run(&mut self, notify: &dyn Fn()) {
        while self.reports.send(ScrubReport::Ready).is_ok() {
            notify();
            let Ok(ask) = self.asks.recv() else { return };
            let rest = self.carry_out(ask);
            notify();
            // Nothing is asked for meanwhile: this ends early only when the image is closed.
            if !matches!(self.asks.recv_timeout(rest), Err(RecvTimeoutError::Timeout)) {
                return;
            }
        }
    }

    /// Does what was asked for; how long to rest afterwards.
    pub(super) fn carry_out(&mut self, ask: ScrubRequest) -> Duration {
        let batch = match ask {
            ScrubRequest::Rest(span) => return span,
            ScrubRequest::Check(batch) => batch,
        };
        let begun = Instant::now();
        let bytes = (batch.len() * SLOT) as u64;
        let damaged = self.check(batch);
        let took = begun.elapsed();
        // When nobody listens any more there is nothing to be told.
        let _ = self.reports.send(ScrubReport::Checked(damaged));
        let paced = Duration::from_nanos(bytes.saturating_mul(1_000_000_000) / self.rate);
        paced.saturating_sub(took).max(took.saturating_mul(REST_FACTOR))
    }

    pub(super) fn check(&mut self, mut batch: Batch) -> Vec<(ScrubPage, Damage)> {
        batch.sort_unstable_by_key(|page| page.slot);
        let mut damaged = Vec::new();
        for run in batch.chunk_by(|a, b| b.slot.0 == a.slot.0 + 1) {
            let room = &mut self.room[..run.len() * SLOT];
            // Which page it was that could not be read is not known yet.
            let together = read_aside(&*self.contents, sums::place(run[0].slot), room).is_ok();
            for (&page, bytes) in run.iter().zip(room.chunks_exact_mut(SLOT)) {
                let found = match together {
                    true => sums::check(page.slot, page.sum, bytes),
                    false => sums::read(&*self.contents, page.slot, page.sum, 0, bytes),
                };
                let found = found.and_then(|()| check_beside(&*self.spares, page));
                damaged.extend(found.err().map(|damage| (page, damage)));
            }
        }
        damaged
    }
}

fn check_beside(spares: &dyn DiskFile, page: ScrubPage) -> Result<(), Damage> {
    if !page.beside {
        return Ok(());
    }
    let mut beside = [0; SPARE_BYTES];
    match read_aside(spares, u64::from(page.slot.0) * SPARE_BYTES as u64, &mut beside) {
        Ok(_) if sums::belongs(page.sum, &beside) => Ok(()),
        read => Err(Damage::beside(page.slot, read.err())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn a_pass_takes_in_every_page_once() {
        // Namespace 1 has a block in a page, 2 metadata, 3 eight blocks in a page.
        let formats = r#"lba_formats = ["4096", "4096+8", "512"]"#;
        let namespaces = [("1MiB", "4096"), ("1MiB", "4096+8"), ("1MiB", "512")];
        let drive = Drive::new(testing::shape(formats, "4MiB", &namespaces).config).unwrap();
        let layouts: Vec<NamespaceLayout> = drive.namespace_layouts().collect();
        let total = layouts.iter().map(pages).sum();
        for random in [0, 1, 255, 256, 700, 767, u128::MAX] {
            let mut pass = Pass::begin(total, random.to_le_bytes());
            let mut seen = std::collections::BTreeSet::new();
            while pass.done < total {
                for (layout, number) in pass.next(&layouts, total).take(100) {
                    assert!(seen.insert((layout.nsid, number)));
                    pass.done += 1;
                }
            }
            assert_eq!(seen.len(), 3 * 256);
            assert!(seen.contains(&(1, 0)) && seen.contains(&(3, 255)));
        }
        assert_eq!(blocks(&layouts[2], 3), 24..32);
    }
}
