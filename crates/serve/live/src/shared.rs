//! The running drive as every thread sees it, and which of them steps it.
//!
//! Submissions go into a bounded queue; `pending` counts them. A thread that has put one there tries to take the
//! drive. A thread that gives the drive back looks at `pending` once more, and takes it again if something came
//! meanwhile. So a submission is never left lying: either its own thread finds the drive free, or the
//! thread that held it finds the submission. The two sequentially consistent fences make sure that one of
//! the two sees what the other did.

use crate::clock::Clock;
use crate::endpoint::{Gone, QueueEndpoint, Refused, RefusedReason};
use crate::hosts::{Notice, Request};
use crate::live_drive::LiveDrive;
use crate::snapshot::Snapshot;
use crate::wake::{Ready, Sleeper};
use image::Buffer;
use media::Nanos;
use nvme::Command;
use std::cell::{Cell, RefCell};
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicU64, Ordering, fence};
use std::sync::mpsc::{SyncSender, TrySendError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Instant;

/// Submissions that can wait for the engine; beyond this, submitters wait their turn.
pub(crate) const INBOX: usize = 4096;

/// Whether the drive still runs.
#[derive(Default)]
struct Stopped(AtomicBool);

impl Stopped {
    fn is(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
    fn set(&self) {
        self.0.store(true, Ordering::Release);
    }
}

/// The running drive, for all threads.
pub(crate) struct Shared {
    pub(crate) nqn: String,
    pub(crate) clock: Clock,
    pub(crate) sleeper: Arc<Sleeper>,
    drive: Mutex<LiveDrive>,
    inbox: SyncSender<Request>,
    pending: AtomicIsize,
    /// When the drive or a front end wants to be stepped next.
    deadline: AtomicU64,
    /// Power cuts so far with which completed writes may have gone.
    losses: AtomicU64,
    /// Whether a host stays awake for the deadline.
    attended: AtomicBool,
    /// The drive's thread never sleeps.
    busy: AtomicBool,
    /// Hosts of virtual machines can ring doorbells in memory.
    watching: AtomicBool,
    stopped: Stopped,
    /// When the drive was started.
    started: Instant,
}

thread_local! {
    /// The drive whose deliveries this thread is making: commands that a sink submits to it are taken
    /// along by the loop that is already running, instead of one within the other.
    static DELIVERING_DRIVE: Cell<usize> = const { Cell::new(0) };
    static NOTICES: RefCell<Vec<Notice>> = const { RefCell::new(Vec::new()) };
}

/// Longest time that the drive's thread spins before a completion is due; how long it really does is
/// what sleeping was too late by lately.
const LONGEST_SPIN: u64 = 60_000;
const SHORTEST_SPIN: u64 = 3_000;
/// How long the drive's thread stays awake after the last news from a socket, if such news came that soon before. To
/// fall asleep and be woken takes about a third of it.
const LINGER_NANOS: u64 = 50_000;
/// How long a thread that never sleeps looks at the sockets alone.
const ROUND_NANOS: u64 = 1_000_000;
/// How soon something must be due for a waiting host to stay awake for it.
const AWAKE_HORIZON_NANOS: u64 = 200_000;

impl Shared {
    pub(crate) fn new(
        nqn: String,
        clock: Clock,
        sleeper: Arc<Sleeper>,
        drive: LiveDrive,
        inbox: SyncSender<Request>,
    ) -> Self {
        Shared {
            nqn,
            clock,
            sleeper,
            drive: Mutex::new(drive),
            inbox,
            pending: AtomicIsize::new(0),
            deadline: AtomicU64::new(0),
            losses: AtomicU64::new(0),
            attended: AtomicBool::new(false),
            busy: AtomicBool::new(false),
            watching: AtomicBool::new(false),
            stopped: Stopped::default(),
            started: Instant::now(),
        }
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.is()
    }

    /// Leaves a command of a queue that has an entry for it. A [step](Shared::step) begins it.
    #[inline]
    pub(crate) fn submit(
        &self,
        endpoint: &Arc<QueueEndpoint>,
        tag: u64,
        command: &Command,
        generation: Option<NonZeroU64>,
        buffer: Buffer,
    ) -> Result<(), Refused> {
        let request =
            Request::Command { endpoint: endpoint.clone(), tag, command: *command, generation, buffer };
        self.put(request).map_err(|request| {
            endpoint.leave();
            let buffer = match request {
                Request::Command { buffer, .. } => buffer,
                _ => Buffer::empty(),
            };
            Refused { reason: RefusedReason::Gone(Gone), buffer }
        })
    }

    /// Asks something of the engine.
    pub(crate) fn post(&self, request: Request) -> Result<(), Gone> {
        self.put(request).map_err(|_| Gone)?;
        self.step();
        Ok(())
    }

    #[inline]
    fn put(&self, mut request: Request) -> Result<(), Request> {
        loop {
            if self.is_stopped() {
                return Err(request);
            }
            match self.inbox.try_send(request) {
                Ok(()) => break,
                Err(TrySendError::Disconnected(back)) => return Err(back),
                Err(TrySendError::Full(back)) => {
                    request = back;
                    self.step();
                    std::thread::yield_now();
                }
            }
        }
        self.pending.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    /// Steps the engine, unless another thread is at it, until nothing is pending. Whether this thread stepped it.
    #[inline]
    pub(crate) fn step(&self) -> bool {
        let me = std::ptr::from_ref(self).addr();
        let outer = DELIVERING_DRIVE.get();
        if outer == me {
            return false;
        }
        if outer != 0 {
            // A sink of another drive submits to this one. The thread of this one does it.
            self.sleeper.ring();
            return false;
        }
        let mut stepped = false;
        loop {
            fence(Ordering::SeqCst);
            let Some(drive) = self.try_drive() else { return stepped };
            self.turn(drive, None, me);
            stepped = true;
            fence(Ordering::SeqCst);
            // A drive that has stopped takes nothing more.
            if self.pending.load(Ordering::SeqCst) <= 0 || self.is_stopped() {
                return true;
            }
        }
    }

    /// Power cuts so far with which completed writes may have gone.
    pub(crate) fn losses(&self) -> u64 {
        self.losses.load(Ordering::Acquire)
    }

    /// Something has ended that the engine waits for. This thread goes on with it, unless another one is stepping the engine.
    pub(crate) fn heed(&self) {
        if !self.step() {
            self.sleeper.ring();
        }
    }

    /// A host that waits for a completion stays awake while something is due soon, and sees to it itself: to wake
    /// a thread up takes as long as a read where processors sleep when they are idle. One host at a time;
    /// whether this one did, and should look again.
    pub(crate) fn attend(&self) -> bool {
        let deadline = self.deadline.load(Ordering::Relaxed);
        let far = |now: Nanos| deadline.saturating_sub(now.0) > AWAKE_HORIZON_NANOS;
        if far(self.clock.now()) || self.attended.swap(true, Ordering::Acquire) {
            return false;
        }
        let same = || self.deadline.load(Ordering::Relaxed) == deadline;
        // Where the drive's thread is awake anyway, the two would only take the engine away from each other.
        let busy = self.busy.load(Ordering::Relaxed);
        let mine = if busy { deadline.saturating_add(AWAKE_HORIZON_NANOS) } else { deadline };
        while same() && (busy || self.pending.load(Ordering::Relaxed) <= 0) {
            if self.clock.now().0 >= mine {
                self.step();
                if same() {
                    // Another thread is at it.
                    std::thread::yield_now();
                }
                break;
            }
            for _ in 0..16 {
                std::hint::spin_loop();
            }
        }
        self.attended.store(false, Ordering::Release);
        true
    }

    fn try_drive(&self) -> Option<MutexGuard<'_, LiveDrive>> {
        match self.drive.try_lock() {
            Ok(drive) => Some(drive),
            Err(TryLockError::WouldBlock) => None,
            Err(TryLockError::Poisoned(_)) => {
                // A bug in the drive: nothing can be said about its state any more.
                self.stopped.set();
                None
            }
        }
    }

    /// Changes something about the live drive, at its present time. What comes of it is delivered.
    pub(crate) fn change(&self, change: impl FnOnce(&mut LiveDrive, Nanos)) {
        if let Ok(mut drive) = self.drive.lock() {
            change(&mut drive, self.clock.now());
        }
        self.heed();
    }

    /// What the drive counts. Nothing is stepped for it, and the engine is held only while counters are copied.
    pub(crate) fn snapshot(&self) -> Result<Snapshot, Gone> {
        if self.is_stopped() {
            return Err(Gone);
        }
        let snapshot = {
            let Ok(live) = self.drive.lock() else { return Err(Gone) };
            live.snapshot(self.clock.now(), self.started.elapsed())
        };
        // A thread that found the engine taken has left its submission to this one.
        self.heed();
        Ok(snapshot)
    }

    /// One turn of the engine, and what is to be told afterwards. `ready` is known to the thread that watches sockets.
    fn turn(&self, mut drive: MutexGuard<'_, LiveDrive>, ready: Option<&Ready>, me: usize) {
        let mut notices = NOTICES.take();
        let taken = drive.turn(&self.clock, ready, &mut notices);
        self.pending.fetch_sub(taken, Ordering::SeqCst);
        let deadline = drive.deadline();
        self.deadline.store(deadline.0, Ordering::Relaxed);
        self.losses.store(drive.engine.losses(), Ordering::Release);
        self.watching.store(drive.has_doorbells_in_memory(), Ordering::Relaxed);
        drive.wake_for(deadline, &self.clock);
        if drive.engine.has_stopped() {
            self.stopped.set();
        }
        drop(drive);
        DELIVERING_DRIVE.set(me);
        for notice in notices.drain(..) {
            notice.deliver();
        }
        DELIVERING_DRIVE.set(0);
        NOTICES.set(notices);
    }

    /// The drive's own thread: timers, sockets, and everything that no other thread does. Ends when the drive
    /// was stopped.
    pub(crate) fn run(&self, busy: bool) {
        let me = std::ptr::from_ref(self).addr();
        let mut ready = Ready::new();
        let mut lead = SHORTEST_SPIN;
        let mut brisk = false;
        self.busy.store(busy, Ordering::Relaxed);
        loop {
            match self.drive.lock() {
                Ok(mut drive) => {
                    drive.sleep_until = None;
                    drive.watch_doorbells(true);
                    self.turn(drive, Some(&ready), me);
                }
                Err(poisoned) => {
                    drop(poisoned);
                    self.stopped.set();
                }
            }
            if self.is_stopped() {
                self.drive.lock().unwrap_or_else(PoisonError::into_inner).hang_up();
                return;
            }
            if busy {
                self.look(&mut ready, 0, ROUND_NANOS);
                continue;
            }
            if self.spin(lead) {
                self.sleeper.sleep(&mut ready, false);
                continue;
            }
            if brisk && self.look(&mut ready, lead, LINGER_NANOS) {
                continue;
            }
            let Some(until) = self.prepare_sleep(lead) else {
                self.sleeper.sleep(&mut ready, false);
                continue;
            };
            let asleep = self.clock.now();
            self.sleeper.sleep(&mut ready, true);
            // A host that sends its next command soon after an answer will go on doing so.
            let may_go_on = ready.has_sockets() || self.watching.load(Ordering::Relaxed);
            brisk = may_go_on && self.clock.now().since(asleep).0 < LINGER_NANOS;
            lead = self.learn(lead, until);
        }
    }

    /// Looks out for sockets with news without sleeping; false if nothing happened for `most` nanoseconds. Ends, too, when
    /// something is asked for or due.
    fn look(&self, ready: &mut Ready, lead: u64, most: u64) -> bool {
        let start = self.clock.now().0;
        loop {
            self.sleeper.sleep(ready, false);
            let now = self.clock.now().0;
            let due = self.deadline.load(Ordering::Relaxed) <= now.saturating_add(lead);
            if due
                || ready.has_news()
                || self.pending.load(Ordering::Relaxed) > 0
                || self.has_rung_doorbells()
            {
                return true;
            }
            if now.saturating_sub(start) >= most {
                return false;
            }
            if !self.busy.load(Ordering::Relaxed) {
                // A host that is about to send may want this processor.
                std::thread::yield_now();
            }
        }
    }

    /// Whether a host of a virtual machine has rung a doorbell in memory. A thread that steps the engine looks at them itself.
    fn has_rung_doorbells(&self) -> bool {
        self.watching.load(Ordering::Relaxed)
            && self.try_drive().is_some_and(|drive| drive.has_rung_doorbells())
    }

    /// Waits for a deadline that is near without sleeping; whether there was one.
    fn spin(&self, lead: u64) -> bool {
        let mut near = false;
        loop {
            let deadline = self.deadline.load(Ordering::Relaxed);
            let now = self.clock.now().0;
            if deadline <= now {
                return true;
            }
            if deadline - now > lead {
                return near;
            }
            near = true;
            for _ in 0..16 {
                std::hint::spin_loop();
            }
            if self.pending.load(Ordering::Relaxed) > 0 {
                return true;
            }
        }
    }

    /// Sets the timer for the sleep; `None` if there is something to do instead.
    fn prepare_sleep(&self, lead: u64) -> Option<Nanos> {
        let mut drive = self.drive.lock().ok()?;
        let deadline = drive.deadline();
        let until = Nanos(deadline.0.saturating_sub(lead));
        if deadline != Nanos::MAX && until <= self.clock.now() {
            return None;
        }
        if drive.watch_doorbells(false) {
            return None;
        }
        drive.lead = lead;
        drive.sleep_until = Some(Nanos::MAX);
        drive.wake_for(deadline, &self.clock);
        drop(drive);
        fence(Ordering::SeqCst);
        (self.pending.load(Ordering::SeqCst) <= 0).then_some(until)
    }

    /// How long before a deadline to wake up, from how late the last waking was: quickly longer, slowly
    /// shorter.
    fn learn(&self, lead: u64, until: Nanos) -> u64 {
        let now = self.clock.now();
        if until == Nanos::MAX || now < until {
            return lead;
        }
        let late = now.since(until).0.saturating_mul(5) / 4;
        let next = if late > lead { late } else { lead - (lead - late) / 16 };
        next.clamp(SHORTEST_SPIN, LONGEST_SPIN)
    }
}
