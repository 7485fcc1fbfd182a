//! All queues of a function: doorbells, shadow doorbells, fetching, posting.

use crate::arbitration::{Arbiter, QueueSet};
use crate::layout::{BarLayout, Doorbell};
use crate::memory::{GuestMemory, Unmapped};
use crate::queue::{CompletionQueue, InvalidDoorbellValue, SubmissionQueue};
use nvme::aer::ErrorInfo;
use nvme::feature::Arbitration;
use nvme::{Command, Completion};

/// Doorbells in guest memory (Base 5.2.5, "Doorbell Buffer Config").
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShadowDoorbells {
    /// Address of the Shadow Doorbell buffer.
    pub doorbells: u64,
    /// Address of the EventIdx buffer.
    pub events: u64,
}

/// A command that was fetched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fetched {
    pub qid: u16,
    pub command: Command,
    /// It is the first of a fused operation, and the second does not follow.
    pub is_alone: bool,
}

/// All queues of a function.
#[derive(Debug)]
pub(crate) struct Queues {
    layout: BarLayout,
    submission: Vec<Option<SubmissionQueue>>,
    completion: Vec<Option<CompletionQueue>>,
    arbiter: Arbiter,
    /// Queues from which a command can be fetched.
    ready: QueueSet,
    /// The queue that has the second command of the fused operation whose first was fetched last.
    fused: Option<u16>,
    shadow: Option<ShadowDoorbells>,
    /// The values that were seen last: of shadow doorbells, and of doorbells that the host maps. A value counts once.
    seen_shadow: Box<[u32]>,
    seen_mapped: Box<[u32]>,
    /// Whether the owner looks at doorbells in memory all the time, so that tails need no event.
    is_watched: bool,
    /// Errors of doorbells that were not reported, one bit for each kind.
    errors: u8,
}

impl Queues {
    /// No queues.
    pub(crate) fn new(layout: BarLayout, count: u16) -> Self {
        let doorbells = 2 * usize::from(count);
        Queues {
            layout,
            submission: (0..count).map(|_| None).collect(),
            completion: (0..count).map(|_| None).collect(),
            arbiter: Arbiter::default(),
            ready: 0,
            fused: None,
            shadow: None,
            seen_shadow: vec![0; doorbells].into(),
            seen_mapped: vec![0; doorbells].into(),
            is_watched: false,
            errors: 0,
        }
    }

    /// Deletes all queues, and makes the admin queues.
    pub(crate) fn start(&mut self, admin: (SubmissionQueue, CompletionQueue), arbiter: Arbiter) {
        self.clear();
        self.arbiter = arbiter;
        self.add_completion(0, admin.1);
        self.add_submission(0, admin.0, None);
    }

    /// Deletes all queues.
    pub(crate) fn clear(&mut self) {
        let is_watched = self.is_watched;
        *self = Queues { is_watched, ..Queues::new(self.layout, self.submission.len() as u16) };
    }

    pub(crate) fn submission(&self, qid: u16) -> Option<&SubmissionQueue> {
        self.submission.get(usize::from(qid))?.as_ref()
    }

    pub(crate) fn completion(&self, qid: u16) -> Option<&CompletionQueue> {
        self.completion.get(usize::from(qid))?.as_ref()
    }

    fn completion_mut(&mut self, qid: u16) -> Option<&mut CompletionQueue> {
        self.completion.get_mut(usize::from(qid))?.as_mut()
    }

    /// All completion queues, by identifier.
    pub(crate) fn completions(&self) -> impl Iterator<Item = (u16, &CompletionQueue)> {
        (0..).zip(&self.completion).filter_map(|(qid, queue)| Some((qid, queue.as_ref()?)))
    }

    /// Whether there are I/O queues.
    pub(crate) fn has_io_queues(&self) -> bool {
        self.completion.iter().skip(1).any(Option::is_some)
            || self.submission.iter().skip(1).any(Option::is_some)
    }

    /// Adds a completion queue.
    pub(crate) fn add_completion(&mut self, qid: u16, queue: CompletionQueue) {
        self.completion[usize::from(qid)] = Some(queue);
        self.forget(Doorbell::Head(qid));
    }

    /// A doorbell is that of a new queue.
    fn forget(&mut self, doorbell: Doorbell) {
        let index = self.layout.doorbell_index(doorbell);
        (self.seen_shadow[index], self.seen_mapped[index]) = (0, 0);
    }

    /// Adds a submission queue to its completion queue. An I/O queue has a priority.
    pub(crate) fn add_submission(&mut self, qid: u16, queue: SubmissionQueue, priority: Option<u8>) {
        if let Some(completion) = self.completion_mut(queue.cqid) {
            completion.users |= 1 << qid;
        }
        if let Some(priority) = priority {
            self.arbiter.add(qid, priority);
        }
        self.submission[usize::from(qid)] = Some(queue);
        self.forget(Doorbell::Tail(qid));
    }

    pub(crate) fn remove_completion(&mut self, qid: u16) {
        self.completion[usize::from(qid)] = None;
    }

    /// Deletes a submission queue that has no outstanding commands.
    pub(crate) fn remove_submission(&mut self, qid: u16) {
        let Some(queue) = self.submission[usize::from(qid)].take() else { return };
        if let Some(completion) = self.completion_mut(queue.cqid) {
            completion.users &= !(1 << qid);
        }
        self.arbiter.remove(qid);
        self.ready &= !(1 << qid);
    }

    /// A submission queue gives no more commands: it is being deleted by the admin command with this identifier. Whether commands of
    /// it are outstanding.
    pub(crate) fn stop_submission(&mut self, qid: u16, deleted_by: u16) -> bool {
        let Some(queue) = self.submission[usize::from(qid)].as_mut() else { return false };
        queue.deleted_by = Some(deleted_by);
        self.ready &= !(1 << qid);
        if self.fused == Some(qid) {
            self.fused = None;
        }
        self.submission(qid).is_some_and(|queue| queue.outstanding > 0)
    }

    /// Takes over the value of the Arbitration feature.
    pub(crate) fn set_arbitration(&mut self, settings: Arbitration) {
        self.arbiter.set(settings);
    }

    /// Bytes of a buffer of shadow doorbells for all queues.
    pub(crate) fn shadow_bytes(&self) -> u64 {
        u64::from(self.layout.doorbell_offset(Doorbell::Tail(self.submission.len() as u16)))
    }

    /// Doorbells of I/O queues are in guest memory from now on.
    pub(crate) fn set_shadow(&mut self, shadow: ShadowDoorbells) {
        self.shadow = Some(shadow);
        self.seen_shadow.fill(0);
    }

    /// All doorbells of existing queues.
    fn doorbells(&self) -> impl Iterator<Item = Doorbell> {
        let tails = (0..).zip(&self.submission).filter(|(_, queue)| queue.is_some());
        let heads = (0..).zip(&self.completion).filter(|(_, queue)| queue.is_some());
        tails.map(|(qid, _)| Doorbell::Tail(qid)).chain(heads.map(|(qid, _)| Doorbell::Head(qid)))
    }

    /// The next doorbell that the host has written in mapped memory since it was seen, with its value; from the one with this index on, which
    /// moves.
    ///
    /// # Errors
    /// The doorbells are not mapped.
    pub(crate) fn next_mapped<M: GuestMemory>(
        &mut self,
        from: &mut usize,
        mapped: &M,
    ) -> Result<Option<(Doorbell, u32)>, Unmapped> {
        while *from < self.seen_mapped.len() {
            let index = *from;
            *from += 1;
            let qid = index / 2;
            let (doorbell, is_there) = match index % 2 {
                0 => (Doorbell::Tail(qid as u16), self.submission[qid].is_some()),
                _ => (Doorbell::Head(qid as u16), self.completion[qid].is_some()),
            };
            if is_there {
                let value = mapped.load(self.layout.doorbell_offset(doorbell).into())?;
                if std::mem::replace(&mut self.seen_mapped[index], value) != value {
                    return Ok(Some((doorbell, value)));
                }
            }
        }
        Ok(None)
    }

    /// Sets a mapped doorbell. The host has written it by other ways, or its queue is new.
    ///
    /// # Errors
    /// The doorbells are not mapped.
    pub(crate) fn set_mapped<M: GuestMemory>(
        &mut self,
        doorbell: Doorbell,
        value: u32,
        mapped: &M,
    ) -> Result<(), Unmapped> {
        self.seen_mapped[self.layout.doorbell_index(doorbell)] = value;
        mapped.store(self.layout.doorbell_offset(doorbell).into(), value)
    }

    /// Whether a doorbell in memory has a value that was not seen. A queue that is not mapped is news, too.
    pub(crate) fn has_news<M: GuestMemory>(&self, memory: &M, mapped: Option<&M>) -> bool {
        self.doorbells().any(|doorbell| {
            let index = self.layout.doorbell_index(doorbell);
            let is_new = |memory: &M, at: u64, seen: u32| memory.load(at) != Ok(seen);
            let offset = self.layout.doorbell_offset(doorbell).into();
            let is_tail = matches!(doorbell, Doorbell::Tail(_));
            mapped.is_some_and(|mapped| is_new(mapped, offset, self.seen_mapped[index]))
                || is_tail
                    && self
                        .shadow_of(doorbell)
                        .is_some_and(|(at, _)| is_new(memory, at, self.seen_shadow[index]))
        })
    }

    /// Whether tails are in memory.
    pub(crate) fn has_shadow(&self) -> bool {
        self.shadow.is_some()
    }

    /// The owner begins to look at doorbells in memory all the time, or ends it. Then hosts are to ring at the next change. Whether there are
    /// commands to fetch.
    ///
    /// # Errors
    /// A shadow doorbell is not mapped.
    pub(crate) fn watch<M: GuestMemory>(&mut self, is_watched: bool, memory: &M) -> Result<bool, Unmapped> {
        let was_watched = std::mem::replace(&mut self.is_watched, is_watched);
        if was_watched && !is_watched { self.follow_tails(memory) } else { Ok(self.ready != 0) }
    }

    /// Looks again at whether a command can be fetched from a queue.
    fn update(&mut self, qid: u16) {
        let is_ready = self.submission(qid).is_some_and(|queue| {
            let can_answer = self.completion(queue.cqid).is_some_and(|completion| !completion.has_waiting());
            queue.has_entries() && queue.has_room() && can_answer
        });
        self.ready = self.ready & !(1 << qid) | QueueSet::from(is_ready) << qid;
    }

    /// Looks again at the submission queues of a completion queue.
    fn update_users(&mut self, cqid: u16) {
        let mut users = self.completion(cqid).map_or(0, |queue| queue.users);
        while users != 0 {
            self.update(users.trailing_zeros() as u16);
            users &= users - 1;
        }
    }

    fn report(&mut self, error: ErrorInfo) {
        self.errors |= 1 << error.0;
    }

    /// Takes an error of a doorbell that was not reported.
    pub(crate) fn take_error(&mut self) -> Option<ErrorInfo> {
        let error = self.errors.trailing_zeros() as u8;
        (self.errors != 0).then(|| {
            self.errors &= self.errors - 1;
            ErrorInfo(error)
        })
    }

    /// The addresses of a shadow doorbell and of its EventIdx; `None` for queues that have none. Hosts keep none for
    /// the admin queue.
    fn shadow_of(&self, doorbell: Doorbell) -> Option<(u64, u64)> {
        let (Doorbell::Tail(qid) | Doorbell::Head(qid)) = doorbell;
        let shadow = self.shadow.filter(|_| qid > 0)?;
        let offset = u64::from(self.layout.doorbell_offset(doorbell));
        Some((shadow.doorbells + offset, shadow.events + offset))
    }

    /// The host writes a doorbell. Returns the completion queue in which entries may have room now. A queue with a shadow doorbell is
    /// only woken: its value is in guest memory, and may be newer.
    ///
    /// # Errors
    /// A shadow doorbell is not mapped.
    pub(crate) fn ring<M: GuestMemory>(
        &mut self,
        doorbell: Option<Doorbell>,
        value: u32,
        memory: &M,
    ) -> Result<Option<u16>, Unmapped> {
        let Some(doorbell) = doorbell else {
            self.report(ErrorInfo::INVALID_DOORBELL);
            return Ok(None);
        };
        let is_there = match doorbell {
            Doorbell::Tail(qid) => self.submission(qid).is_some(),
            Doorbell::Head(qid) => self.completion(qid).is_some(),
        };
        if !is_there {
            self.report(ErrorInfo::INVALID_DOORBELL);
        } else if self.shadow_of(doorbell).is_some() {
            self.follow_shadow(doorbell, memory)?;
        } else {
            self.move_to(doorbell, value);
        }
        Ok(match doorbell {
            Doorbell::Head(qid) if is_there => Some(qid),
            _ => None,
        })
    }

    /// Moves the tail or head of an existing queue.
    fn move_to(&mut self, doorbell: Doorbell, value: u32) {
        let moved = match doorbell {
            Doorbell::Tail(qid) => self.submission[usize::from(qid)].as_mut().map(|queue| queue.ring(value)),
            Doorbell::Head(qid) => self.completion[usize::from(qid)].as_mut().map(|queue| queue.ring(value)),
        };
        if moved == Some(Err(InvalidDoorbellValue)) {
            self.report(ErrorInfo::INVALID_DOORBELL_VALUE);
        }
        if let Doorbell::Tail(qid) = doorbell {
            self.update(qid);
        }
    }

    /// Takes over a shadow doorbell, and asks for a write of the real one at the next change. Whether it has changed.
    fn follow_shadow<M: GuestMemory>(&mut self, doorbell: Doorbell, memory: &M) -> Result<bool, Unmapped> {
        let Some((at, event)) = self.shadow_of(doorbell) else { return Ok(false) };
        let known = |queues: &Queues| match doorbell {
            Doorbell::Tail(qid) => queues.submission(qid).map(SubmissionQueue::tail),
            Doorbell::Head(qid) => queues.completion(qid).map(CompletionQueue::head),
        };
        let before = known(self);
        self.see_shadow(doorbell, memory.load(at)?);
        // Heads are looked at when there is no room, and not all the time.
        if self.is_watched && matches!(doorbell, Doorbell::Tail(_)) {
            return Ok(known(self) != before);
        }
        memory.store(event, known(self).unwrap_or(0))?;
        // The host may have changed it before it saw the index.
        self.see_shadow(doorbell, memory.load(at)?);
        Ok(known(self) != before)
    }

    /// A shadow doorbell has this value. It counts if it is a new one.
    fn see_shadow(&mut self, doorbell: Doorbell, value: u32) {
        let index = self.layout.doorbell_index(doorbell);
        if std::mem::replace(&mut self.seen_shadow[index], value) != value {
            self.move_to(doorbell, value);
        }
    }

    /// Looks at the shadow doorbells of all submission queues. Whether commands can be fetched.
    fn follow_tails<M: GuestMemory>(&mut self, memory: &M) -> Result<bool, Unmapped> {
        for qid in 1..self.submission.len() as u16 {
            if self.shadow.is_some() && self.submission(qid).is_some() {
                self.follow_shadow(Doorbell::Tail(qid), memory)?;
            }
        }
        Ok(self.ready != 0)
    }

    /// Fetches the next command, by arbitration. The second command of a fused operation comes right behind the first.
    ///
    /// # Errors
    /// A queue or a shadow doorbell is not mapped.
    pub(crate) fn fetch<M: GuestMemory>(&mut self, memory: &M) -> Result<Option<Fetched>, Unmapped> {
        if self.fused.is_none() && self.ready == 0 && !self.follow_tails(memory)? {
            return Ok(None);
        }
        let Some(qid) = self.fused.take().or_else(|| self.arbiter.pick(self.ready)) else { return Ok(None) };
        let Some(queue) = self.submission[usize::from(qid)].as_mut() else { return Ok(None) };
        let command = queue.fetch(memory)?;
        let mut is_alone = false;
        if qid > 0 && command.flags.fuse() == 1 {
            if !queue.has_entries() {
                self.follow_shadow(Doorbell::Tail(qid), memory)?;
            }
            let next = self.submission[usize::from(qid)].as_mut().map(|queue| queue.peek(memory));
            let is_second = next.transpose()?.flatten().is_some_and(|next| next.flags.fuse() == 2);
            is_alone = !is_second;
            self.fused = is_second.then_some(qid);
        }
        self.update(qid);
        Ok(Some(Fetched { qid, command, is_alone }))
    }

    /// A command of a queue goes to the controller.
    pub(crate) fn begin(&mut self, qid: u16) {
        if let Some(queue) = self.submission[usize::from(qid)].as_mut() {
            queue.outstanding += 1;
        }
        self.update(qid);
    }

    /// A command of a queue has come back from the controller. Returns the admin command that deletes the queue, if it has waited
    /// for this one.
    pub(crate) fn end(&mut self, qid: u16) -> Option<u16> {
        let queue = self.submission.get_mut(usize::from(qid))?.as_mut()?;
        queue.outstanding -= 1;
        let is_last = queue.outstanding == 0;
        let deleted_by = queue.deleted_by.filter(|_| is_last);
        self.update(qid);
        deleted_by
    }

    /// Answers a command of a queue. The entry waits for [`post`](Queues::post). Returns its completion queue.
    pub(crate) fn answer(&mut self, qid: u16, mut completion: Completion) -> Option<u16> {
        let queue = self.submission(qid)?;
        let cqid = queue.cqid;
        completion.sqhd.set(queue.head());
        completion.sqid.set(qid);
        self.completion_mut(cqid)?.push(completion);
        self.update_users(cqid);
        Some(cqid)
    }

    /// Writes the entries of a completion queue for which there is room. Returns how many.
    ///
    /// # Errors
    /// The queue or its shadow doorbell is not mapped.
    pub(crate) fn post<M: GuestMemory>(&mut self, cqid: u16, memory: &M) -> Result<u32, Unmapped> {
        let mut count = 0;
        while let Some(queue) = self.completion_mut(cqid) {
            let written = queue.post(memory)?;
            count += written;
            // Each turn frees entries, and the waiting ones are bounded.
            if !queue.has_waiting() || !self.follow_shadow(Doorbell::Head(cqid), memory)? {
                break;
            }
        }
        self.update_users(cqid);
        Ok(count)
    }

    /// Whether the host has taken all entries of a vector, as far as its doorbells tell.
    pub(crate) fn is_vector_empty(&self, vector: u16) -> bool {
        self.completions().all(|(_, queue)| queue.vector != Some(vector) || queue.is_empty())
    }

    /// What holds at any time.
    #[cfg(test)]
    pub(crate) fn check(&self, in_flight: impl Fn(u16) -> u32) {
        for (qid, queue) in (0..).zip(&self.submission) {
            let is_ready = self.ready >> qid & 1 != 0;
            let Some(queue) = queue else {
                assert!(!is_ready, "a queue that does not exist is ready");
                continue;
            };
            assert_eq!(queue.outstanding, in_flight(qid), "outstanding commands of queue {qid}");
            let completion = self.completion(queue.cqid).expect("a submission queue has a completion queue");
            let expected = queue.has_entries() && queue.has_room() && !completion.has_waiting();
            assert_eq!(is_ready, expected, "queue {qid} is ready");
        }
        for (cqid, completion) in self.completions() {
            let is_user = |queue: &SubmissionQueue| queue.cqid == cqid;
            let users =
                (0..self.submission.len() as u16).filter(|qid| self.submission(*qid).is_some_and(is_user));
            let users = users.fold(0, |users: QueueSet, qid| users | 1 << qid);
            assert_eq!(users, completion.users, "users of completion queue {cqid}");
        }
    }
}
