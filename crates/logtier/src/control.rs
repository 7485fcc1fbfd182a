//! What drives the cache: completions, time and changes.

use crate::error::{ControlError, OpenError};
use crate::format::{RECORDS, Record};
use crate::shape::Device;
use crate::state::{Control, Core, Owner, Phase, Waiter};
use blockdev::{Nanos, Status};

impl Core {
    /// Tells how something ended that the cache [wanted](Core::next_sub).
    pub fn complete(&mut self, now: Nanos, id: u32, status: Status, data: Vec<u8>) {
        let Some(owner) = self.subs.remove(id) else { return };
        match owner {
            Owner::Hit { request, at, extent } => self.hit_done(now, (request, at), extent, status, &data),
            Owner::Miss { request, at, fill } => self.miss_done(now, (request, at), fill, status, &data),
            Owner::Put { request, at, extent } => self.put_done(now, request, at, extent, status),
            Owner::Past { request } => self.past_done(now, request, status, data),
            Owner::Fill { fill, extent } => self.fill_done(fill, extent, status),
            Owner::BackRead { back, at } => self.back_read(now, back, at, status, &data),
            Owner::BackWrite { back } => self.back_written(now, back, status),
            Owner::Data(device) => self.commit_done(now, device, status),
            Owner::Journal => self.commit_done(now, Device::Cache, status),
            Owner::Open(block) => self.open_read(now, block, status, &data),
        }
        self.work(now);
    }

    /// Does what is due at `now`.
    pub fn poll(&mut self, now: Nanos) {
        if self.next_commit() <= now {
            self.commit.wanted = true;
        }
        if self.next_event() <= now {
            self.work(now);
        }
    }

    /// When [`poll`](Core::poll) has something to do of itself: `Nanos::MAX` if it has nothing.
    #[must_use]
    pub fn next_event(&self) -> Nanos {
        self.next_commit().min(self.next_write_back())
    }

    /// Begins everything that may begin now.
    pub(crate) fn work(&mut self, now: Nanos) {
        if !matches!(self.phase, Phase::Opening(_)) {
            while !self.held.is_empty() && !self.is_behind() {
                let Some(request) = self.held.pop_front() else { break };
                match self.phase {
                    Phase::Running => self.begin(now, request),
                    _ => self.end_request(request, Status::NAMESPACE_NOT_READY),
                }
            }
        }
        self.make_room(now);
        self.write_back(now);
        self.quiesce(now);
        self.commit.wanted |= self.commit.pending.len() > RECORDS * 8;
        self.begin_commit(now);
    }

    /// Writes that wait for places fail.
    pub(crate) fn starve(&mut self, now: Nanos) {
        for request in std::mem::take(&mut self.starved) {
            self.unplaced(request);
            self.part_ended(now, request);
        }
    }

    /// Begins a change.
    ///
    /// # Errors
    /// Another one is under way, the cache is not open, or its device has failed.
    pub fn control(&mut self, now: Nanos, control: Control) -> Result<(), ControlError> {
        if !matches!(self.phase, Phase::Running) || self.cleaning || self.outcome.is_some() {
            return Err(ControlError::Busy);
        }
        if self.health.is_bad() {
            return Err(ControlError::Degraded);
        }
        match control {
            Control::Mode(mode) => {
                self.config.mode = mode;
                self.outcome = Some(Ok(()));
            }
            Control::WriteBack => (self.cleaning, self.pause) = (true, now),
            Control::Close => self.phase = Phase::Quiescing,
        }
        self.work(now);
        Ok(())
    }

    /// How the last change ended, once.
    pub fn take_outcome(&mut self) -> Option<Result<(), ControlError>> {
        self.outcome.take()
    }

    /// Everything is clean: that is to be durable.
    pub(crate) fn cleaned(&mut self, _now: Nanos) {
        self.cleaning = false;
        self.outcome = Some(Ok(()));
    }

    /// What was to be written back cannot be.
    pub(crate) fn cleaning_failed(&mut self) {
        if std::mem::take(&mut self.cleaning) {
            self.outcome = Some(Err(ControlError::Dirty(self.dirty.count())));
        }
    }

    /// Closes when nothing is under way.
    fn quiesce(&mut self, _now: Nanos) {
        let idle = self.requests.is_empty() && self.fills.is_empty() && self.backs.is_empty();
        if matches!(self.phase, Phase::Quiescing) && idle {
            self.phase = Phase::Closing;
            self.mark_session(true);
        }
    }

    /// The superblock of opening or of closing is durable, or is not.
    pub(crate) fn committed_control(&mut self, now: Nanos, result: Result<(), Status>) {
        let closing = matches!(self.phase, Phase::Closing);
        match (closing, result) {
            (true, Ok(())) => {
                self.phase = Phase::Closed;
                self.outcome = Some(Ok(()));
            }
            (true, Err(status)) => {
                self.phase = Phase::Running;
                self.outcome = Some(Err(ControlError::Device(status)));
            }
            (false, Ok(())) => {
                let drop_clean = match &mut self.phase {
                    Phase::Opening(opening) => std::mem::take(&mut opening.drop_clean),
                    _ => false,
                };
                match drop_clean {
                    true => {
                        // The session is known: blocks of the journal that an earlier one lost cannot be taken for its own.
                        self.commit.pending.push(Record::DropClean);
                        self.join_commit(Waiter::Control);
                    }
                    false => self.phase = Phase::Running,
                }
            }
            (false, Err(status)) => {
                let device = self.commit.failed.map_or(Device::Cache, |(device, _)| device).name();
                self.phase = Phase::Failed(OpenError::Device { device, status });
            }
        }
        self.work(now);
    }
}
