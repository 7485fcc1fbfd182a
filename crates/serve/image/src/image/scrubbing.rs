//! The scrub and its image: which pages are named to the scrub's thread, and what becomes of what it finds.

use super::Image;
use super::error::ImageError;
#[cfg(any(test, feature = "testing"))]
use super::scrub::Worker;
use super::scrub::{
    BATCH, Batch, EMPTY_BATCH_PAUSE, Pass, Scrub, ScrubOptions, ScrubPage, ScrubReport, ScrubRequest, pages,
};
use device::{Drive, NamespaceLayout};
use ftl::PageState;
use std::sync::Arc;
#[cfg(any(test, feature = "testing"))]
use std::time::Duration;

impl Image {
    /// Checks the contents from now on.
    pub fn begin_scrub(
        &mut self,
        options: ScrubOptions,
        notify: Arc<dyn Fn() + Send + Sync>,
    ) -> Result<(), ImageError> {
        let (mut scrub, mut worker) = Scrub::new(&*self.disk, options)?;
        let work = move || worker.run(&*notify);
        let thread = std::thread::Builder::new().name("tranche-scrub".to_owned()).spawn(work);
        scrub.thread = Some(thread.map_err(ImageError::io("start a thread for", self.disk.path()))?);
        self.scrub = Some(Box::new(scrub));
        Ok(())
    }

    /// Hears what the scrub has found, and gives it something to do.
    pub fn tend_scrub(&mut self, drive: &Drive) {
        let Some(mut scrub) = self.scrub.take() else { return };
        while let Ok(report) = scrub.reports.try_recv() {
            match report {
                ScrubReport::Ready => scrub.ready = true,
                ScrubReport::Checked(damaged) => {
                    for slot in scrub.under.drain(..) {
                        self.slots.release(slot);
                    }
                    scrub.hear(&damaged, drive);
                }
            }
        }
        // Without power the drive does not know where its pages are.
        if scrub.ready && drive.is_powered() {
            scrub.ready = false;
            let ask = self.next_ask(&mut scrub, drive);
            if let Some(asks) = &scrub.asks {
                // The thread lives as long as this does.
                let _ = asks.send(ask);
            }
        }
        self.scrub = Some(scrub);
    }

    fn next_ask(&mut self, scrub: &mut Scrub, drive: &Drive) -> ScrubRequest {
        let layouts: Vec<NamespaceLayout> = drive.namespace_layouts().collect();
        let total = layouts.iter().map(pages).sum();
        let pass = scrub.pass.get_or_insert_with(|| Pass::begin(total, self.disk.random()));
        if pass.done >= total {
            return ScrubRequest::Rest(scrub.end_pass());
        }
        let mut batch = Batch::new();
        for (layout, number) in pass.next(&layouts, total) {
            pass.done += 1;
            if let Some(PageState::Held(slot)) = drive.ftl().page_state(layout.volume, number)
                && !self.slots.is_unreferenced(slot.0)
            {
                self.slots.retain(slot);
                let (sum, beside) = (self.sums.get(slot), layout.transform.metadata > 0);
                batch.push(ScrubPage { slot, sum, beside, nsid: layout.nsid, number });
                if batch.len() == BATCH {
                    break;
                }
            }
        }
        if batch.is_empty() {
            return ScrubRequest::Rest(EMPTY_BATCH_PAUSE);
        }
        pass.checked += batch.len() as u64;
        scrub.under.extend(batch.iter().map(|page| page.slot));
        ScrubRequest::Check(batch)
    }
}

/// A scrub that goes on when a test tells it to.
#[cfg(any(test, feature = "testing"))]
pub struct SteppedScrub {
    worker: Worker,
}

#[cfg(any(test, feature = "testing"))]
impl SteppedScrub {
    /// Reads the batch that was asked for, before the drive hears of it. Returns how many of its pages are damaged.
    ///
    /// # Panics
    /// The image has no scrub any more.
    pub fn read(&mut self, image: &Image) -> usize {
        let worker = &mut self.worker;
        let Ok(ask) = worker.asks.try_recv() else { return 0 };
        let mut found = 0;
        if let ScrubRequest::Check(batch) = ask {
            let damaged = worker.check(batch);
            // After a power cut nobody refers to these slots, and what was found does not count.
            found = if image.is_reading_batch() { damaged.len() } else { 0 };
            worker.reports.send(ScrubReport::Checked(damaged)).unwrap();
        }
        worker.reports.send(ScrubReport::Ready).unwrap();
        found
    }

    /// How long the thread would wait after the batch that was asked for, at this rate.
    ///
    /// # Panics
    /// Nothing is asked for.
    pub fn rest_after_batch(&mut self, bytes_per_second: u64) -> Duration {
        self.worker.rate = bytes_per_second;
        let ask = self.worker.asks.try_recv().expect("something is asked for");
        self.worker.carry_out(ask)
    }
}

#[cfg(any(test, feature = "testing"))]
impl Image {
    /// Checks the contents from now on, when the test says so.
    ///
    /// # Errors
    /// The files cannot be opened.
    ///
    /// # Panics
    /// Never.
    pub fn begin_stepped_scrub(&mut self) -> Result<SteppedScrub, ImageError> {
        let (scrub, worker) = Scrub::new(&*self.disk, ScrubOptions::default())?;
        worker.reports.send(ScrubReport::Ready).expect("the other end is here");
        self.scrub = Some(Box::new(scrub));
        Ok(SteppedScrub { worker })
    }

    /// Whether a batch with pages is being read.
    ///
    /// # Panics
    /// There is no scrub.
    pub fn is_reading_batch(&self) -> bool {
        !self.scrub.as_ref().expect("there is a scrub").under.is_empty()
    }

    /// Passes that have ended, and pages that were found damaged.
    ///
    /// # Panics
    /// There is no scrub.
    pub fn scrub_tally(&self) -> (u64, u64) {
        self.scrub.as_ref().expect("there is a scrub").tally
    }
}
