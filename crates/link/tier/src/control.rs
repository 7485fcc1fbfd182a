//! What a user asks for, time, and completions of devices.

use crate::chunk::Cblock;
use crate::config::{Config, Mode, PolicyKind};
use crate::error::ControlError;
use crate::metadata::superblock::State;
use crate::metadata::table::Record;
use crate::policy::{Policy, Work, WorkKind};
use crate::shape::Device;
use crate::state::{Control, Core, Counters, Goal, Health, Owner, Phase, Step, Sub, Waiter};
use blockdev::{Geometry, Nanos, Status};

const SECOND: Nanos = 1_000_000_000;
/// Ticks that are made up for after a time without any: longer than every period of a policy.
const TICKS_AT_MOST: u64 = 130;

impl Core {
    /// The tier's blocks, and how many of them go into a part.
    #[inline]
    pub fn geometry(&self) -> Geometry {
        self.shape.geometry
    }

    /// What it was made with, as it is now.
    #[inline]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// What has failed.
    #[inline]
    pub fn health(&self) -> Health {
        self.health
    }

    /// What it has done.
    #[inline]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Chunks of the cache that are dirty.
    #[inline]
    pub fn dirty(&self) -> u32 {
        self.policy.dirty()
    }

    /// Whether it was shut down in order.
    #[inline]
    pub fn is_closed(&self) -> bool {
        matches!(self.phase, Phase::Closed)
    }

    /// Bytes of memory that grow with the number of chunks.
    pub fn memory(&self) -> usize {
        self.policy.memory()
    }

    /// What it wants of a device next.
    #[inline]
    pub fn next_sub(&mut self) -> Option<Sub> {
        self.out.pop_front()
    }

    /// A device has ended what was wanted. `data` is the buffer: of a successful read, filled.
    #[inline]
    pub fn complete(&mut self, now: Nanos, id: u32, status: Status, data: Vec<u8>, device: Device) {
        let Some(owner) = self.subs.remove(id) else { return };
        match owner {
            Owner::Piece(piece) => self.piece_done(now, piece, device, status, data),
            Owner::Discard(request) => self.end_piece_of(now, request, Status::SUCCESS),
            Owner::Copy { .. } => self.copy_done(now, owner, status, data),
            Owner::DataFlush(_) | Owner::Metadata => self.commit_done(now, device, status),
            Owner::NeedsCheck => {}
            Owner::Open(block) => self.open_done(now, block, status, &data),
        }
        self.look_at_control(now);
        self.work(now);
    }

    /// Time has passed.
    pub fn poll(&mut self, now: Nanos) {
        if now < self.next_tick {
            return;
        }
        let missed = (now - self.next_tick) / SECOND + 1;
        for tick in missed.saturating_sub(TICKS_AT_MOST)..missed {
            self.policy.tick(self.next_tick + tick * SECOND);
        }
        self.next_tick += missed * SECOND;
        (self.wake, self.paused) = (true, false);
        self.commit_by_time(now);
        self.look_at_control(now);
        self.work(now);
    }

    /// When something is to be done next that no device's answer brings: a commit, or write-backs. `Nanos::MAX` if there is none.
    #[inline]
    pub fn next_event(&self) -> Nanos {
        let wants_time = matches!(self.phase, Phase::Running | Phase::Quiescing(_))
            && (!self.commit.pending.is_empty() || self.policy.has_work() || self.writes_back());
        if wants_time { self.next_tick } else { Nanos::MAX }
    }

    /// Whether time brings write-backs.
    fn writes_back(&self) -> bool {
        let sectors = self.shape.sectors(self.shape.chunk);
        let threshold = self.config.migration_threshold;
        let fits = match self.config.policy {
            PolicyKind::Mq | PolicyKind::SmqBefore412 => sectors < threshold,
            PolicyKind::Smq => sectors <= threshold,
            PolicyKind::Cleaner => true,
        };
        self.policy.dirty() > 0 && !self.health.is_bad() && (fits || self.cleaning)
    }

    /// Asks for a change. Its [outcome](Core::take_outcome) comes later.
    ///
    /// # Errors
    /// Another one is under way, the tier is not open, or the change makes no sense.
    pub fn control(&mut self, now: Nanos, control: Control) -> Result<(), ControlError> {
        if !matches!(self.phase, Phase::Running) || self.cleaning || self.outcome.is_some() {
            return Err(ControlError::Busy);
        }
        if let Some(error) = self.refuses(control) {
            self.refuse(now, control);
            return Err(error);
        }
        if control == Control::WriteBack {
            (self.cleaning, self.cleaning_failed, self.wake, self.paused) = (true, false, true, false);
            self.work(now);
            self.look_at_control(now);
            return Ok(());
        }
        self.phase = Phase::Quiescing(control);
        self.look_at_control(now);
        Ok(())
    }

    /// Why a change cannot be made, as things are now.
    fn refuses(&self, control: Control) -> Option<ControlError> {
        let (dirty, chunks) = (self.policy.dirty(), self.shape.cache_chunks);
        // Where nothing is on the cache alone, the origin has everything.
        let on_origin = self.config.mode != Mode::Writeback && dirty == 0 && !self.health.origin_failed;
        if let Some(device) = self.health.failed()
            && !(control == Control::Close && on_origin)
        {
            return Some(ControlError::Degraded(device.name()));
        }
        match control {
            Control::Invalidate { .. } if self.config.mode != Mode::Passthrough => {
                Some(ControlError::NotPassthrough)
            }
            Control::Invalidate { begin, end } if begin >= end || end > chunks => {
                Some(ControlError::Range(chunks))
            }
            Control::Mode(Mode::Passthrough) if dirty > 0 => Some(ControlError::NotClean(dirty)),
            _ => None,
        }
    }

    /// A change is not made. A shutdown leaves the tier as after a crash.
    fn refuse(&mut self, now: Nanos, control: Control) {
        self.phase = if control == Control::Close { Phase::Closed } else { Phase::Running };
        self.resume(now);
    }

    /// How the last change ended, once.
    #[inline]
    pub fn take_outcome(&mut self) -> Option<Result<(), ControlError>> {
        self.outcome.take()
    }

    /// Whether a change is under way.
    pub fn is_changing(&self) -> bool {
        self.cleaning || matches!(self.phase, Phase::Quiescing(_) | Phase::Changing(_))
    }

    /// A change goes on, if what it waits for has come.
    #[inline]
    pub(crate) fn look_at_control(&mut self, now: Nanos) {
        if self.cleaning {
            self.look_at_cleaning(now);
        }
        if let Phase::Quiescing(control) = self.phase
            && self.requests.len() == self.held.len()
            && self.migrations.is_empty()
            && self.commit.step == Step::Idle
        {
            self.change(now, control);
        }
    }

    fn look_at_cleaning(&mut self, now: Nanos) {
        let dirty = self.policy.dirty();
        let stuck = self.cleaning_failed || self.health.is_bad();
        if !stuck && (dirty > 0 || !self.migrations.is_empty()) {
            return;
        }
        self.cleaning = false;
        match self.health.failed() {
            Some(device) => self.outcome = Some(Err(ControlError::Degraded(device.name()))),
            None if dirty > 0 => self.outcome = Some(Err(ControlError::Dirty(dirty))),
            None => self.change(now, Control::WriteBack),
        }
    }

    /// Makes a change, for which nothing is under way any more that it must wait for.
    fn change(&mut self, now: Nanos, control: Control) {
        if let Some(error) = self.refuses(control) {
            // Since it was asked for, a device failed or a chunk became dirty.
            self.outcome = Some(Err(error));
            return self.refuse(now, control);
        }
        self.phase = Phase::Changing(control);
        let goal = self.open_goal();
        match control {
            Control::Close => self.checkpoint(now, Goal { state: State::Clean, ..goal }),
            Control::Mode(mode) => self.checkpoint(now, Goal { mode, ..goal }),
            Control::Policy(policy) => {
                self.change_policy(now, policy);
                self.checkpoint(now, Goal { policy, ..goal });
            }
            Control::Invalidate { begin, end } => {
                for cblock in (begin..end).map(Cblock) {
                    if let Some(oblock) = self.policy.oblock(cblock)
                        && self.policy.claim(cblock)
                    {
                        let work = Work { kind: WorkKind::Demote, oblock, cblock };
                        self.policy.finished(&work, true);
                        self.commit.pending.push(Record::Remove(cblock));
                    }
                }
                self.join_commit(now, Waiter::Control, false);
            }
            // What was written back is durable before that is said.
            Control::WriteBack => self.join_commit(now, Waiter::Control, true),
        }
    }

    /// A policy of this kind gets what the present one has. Hints mean something else to it.
    fn change_policy(&mut self, now: Nanos, kind: PolicyKind) {
        let (cache, origin) = (self.shape.cache_chunks, self.shape.origin_chunks);
        let mut policy = Policy::new(kind, self.config.mq, cache, origin, now);
        for cblock in (0..cache).map(Cblock) {
            if let Some(oblock) = self.policy.oblock(cblock) {
                policy.load(cblock, oblock, self.policy.is_dirty(cblock), None);
            }
        }
        policy.allow_promotions(self.config.mode != Mode::Passthrough && !self.health.is_bad());
        self.policy = policy;
        self.config.policy = kind;
    }

    /// The commit that a change waited for has ended.
    pub(crate) fn committed_control(&mut self, now: Nanos, result: Result<(), Status>) {
        let control = match &self.phase {
            Phase::Opening(_) => return self.session_begun(now, result),
            Phase::Changing(control) => *control,
            Phase::Running | Phase::Quiescing(_) | Phase::Closed | Phase::Failed(_) => return,
        };
        self.phase = match control {
            Control::Close => Phase::Closed,
            _ => Phase::Running,
        };
        if let (Control::Mode(mode), Ok(())) = (control, result) {
            self.config.mode = mode;
            self.policy.allow_promotions(mode != Mode::Passthrough && !self.health.is_bad());
        }
        self.outcome = Some(result.map_err(|status| match self.commit.failed {
            Some((device @ (Device::Origin | Device::Cache), _)) => ControlError::Degraded(device.name()),
            Some((Device::Metadata, _)) | None => ControlError::Metadata(status),
        }));
        self.resume(now);
    }

    /// What was held goes on.
    pub(crate) fn resume(&mut self, now: Nanos) {
        self.wake = true;
        for request in std::mem::take(&mut self.held) {
            match self.phase {
                Phase::Running => self.begin(now, request),
                Phase::Opening(_) | Phase::Quiescing(_) | Phase::Changing(_) => {
                    self.held.push_back(request);
                }
                Phase::Closed | Phase::Failed(_) => {
                    self.end_request(request, Status::NAMESPACE_NOT_READY);
                }
            }
        }
    }

    /// Sets a tunable by dm-cache's name.
    ///
    /// # Errors
    /// There is none of this name with this policy, or the value is none.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), ControlError> {
        self.config.set(key, value).map_err(ControlError::Setting)?;
        if let Some(tunables) = self.policy.mq_tunables() {
            *tunables = self.config.mq;
        }
        self.wake = true;
        Ok(())
    }
}
