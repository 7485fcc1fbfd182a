//! Requests in flight: file operations become commands, completions become answers.
//!
//! A request is a list of [`CommandStep`]s. Most have one; the others are started a few at a time, and the request
//! is answered when all have ended. The thread that delivers the completion sends the answer.

use crate::buffer_pool;
use crate::drive::{Completions, Drive, DriveCommand, Then};
use crate::file_table::File;
use crate::split::{CommandStep, Steps, split};
use blockdev::Verb;
use fuser::Errno;
use nvme::zone::{ZoneDescriptor, ZoneReportHeader, ZoneSendAction};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Commands of one request in flight at once: enough to keep a drive busy, few enough to leave room for
/// other requests.
const STEPS_IN_FLIGHT: u32 = 16;

/// A front end's side of a request: whoever asked is told how it ended, once.
pub trait Responder: Send + 'static {
    /// It is done. A read has this data; `len` bytes were read or written.
    fn succeed(self: Box<Self>, data: &[u8], len: u32);
    /// It failed.
    fn fail(self: Box<Self>, errno: Errno);
}

/// Where the result of a request goes.
pub struct Answer(Box<dyn Responder>);

/// What this program itself asks the drive.
struct Call<F>(F);

impl<F: FnOnce(Result<Vec<u8>, Errno>) + Send + 'static> Responder for Call<F> {
    fn succeed(self: Box<Self>, data: &[u8], _: u32) {
        (self.0)(Ok(data.to_vec()));
    }

    fn fail(self: Box<Self>, errno: Errno) {
        (self.0)(Err(errno));
    }
}

impl Answer {
    /// The result goes to a front end.
    pub fn to(responder: impl Responder) -> Self {
        Answer(Box::new(responder))
    }

    /// The result goes to a function.
    pub fn call(then: impl FnOnce(Result<Vec<u8>, Errno>) + Send + 'static) -> Self {
        Answer::to(Call(then))
    }

    /// Answers with an error.
    pub fn fail(self, errno: Errno) {
        self.0.fail(errno);
    }

    fn succeed(self, data: &[u8], len: u32) {
        self.0.succeed(data, len);
    }
}

/// What a request does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Work {
    Blocks(Verb),
    Report,
    Zone(ZoneSendAction),
}

impl Work {
    fn reads(self) -> bool {
        matches!(self, Work::Blocks(verb) if verb.reads())
    }

    fn writes(self) -> bool {
        matches!(self, Work::Blocks(verb) if verb.writes())
    }

    fn changes_blocks(self) -> bool {
        self.writes() || matches!(self, Work::Blocks(Verb::WriteZeroes { .. }))
    }
}

fn write(fua: bool) -> Work {
    Work::Blocks(if fua { Verb::WriteFua } else { Verb::Write })
}

/// The bytes that a request is about.
#[derive(Clone, Copy)]
struct Place {
    /// The zone from whose begin they count; of the whole namespace, none.
    zone: Option<u32>,
    offset: u64,
    len: u64,
}

impl Place {
    fn of(offset: u64, len: u64) -> Self {
        Place { zone: None, offset, len }
    }

    fn of_zone(zone: u32) -> Self {
        Place { zone: Some(zone), offset: 0, len: 0 }
    }
}

struct ActiveRequest {
    file: Arc<File>,
    /// The zone that it is about.
    zone: Option<u32>,
    answer: Answer,
    work: Work,
    /// Bytes of the request.
    len: u32,
    /// Data to write, or room for what several steps read.
    data: Vec<u8>,
    steps: Steps,
    /// Whether it has the file's write lock, or needs none. Only then it starts.
    admitted: bool,
    /// First step that has not been started.
    next: u32,
    /// Commands in flight.
    running: u32,
    failed: Option<Errno>,
}

/// A command on its way to the drive.
struct Issue {
    tag: u64,
    of: blockdev::Namespace,
    command: DriveCommand,
    data: Vec<u8>,
}

/// The second half of a partial write: the block has been read and is being written back.
const WRITE_BACK: u64 = 1 << 31;

fn tag(slot: u32, step: u32) -> u64 {
    u64::from(slot) << 32 | u64::from(step)
}

struct QueueState {
    requests: Vec<Option<ActiveRequest>>,
    free: Vec<u32>,
    /// Commands that the drive's queue still has room for.
    room: u32,
    /// Commands that found no room.
    waiting: VecDeque<Issue>,
}

/// The requests in flight on one drive, and the commands that they become.
pub struct RequestQueue {
    drive: OnceLock<Arc<dyn Drive>>,
    state: Mutex<QueueState>,
}

impl RequestQueue {
    /// A queue without a drive; [`connect`](RequestQueue::connect) follows.
    pub fn new() -> Self {
        let state = QueueState { requests: Vec::new(), free: Vec::new(), room: 0, waiting: VecDeque::new() };
        RequestQueue { drive: OnceLock::new(), state: Mutex::new(state) }
    }

    /// Gives it its drive; the first one stays.
    pub fn connect(&self, drive: Arc<dyn Drive>) {
        let entries = drive.queue_entries();
        if self.drive.set(drive).is_ok() {
            self.state().room = entries.max(1);
        }
    }

    /// Reads `len` bytes at `offset`, as many of them as lie within the file.
    pub fn read(&self, file: Arc<File>, offset: u64, len: u32, answer: Answer) {
        let len = clip(file.namespace.bytes(), offset, len);
        self.begin(file, Work::Blocks(Verb::Read), Place::of(offset, len.into()), Vec::new(), answer);
    }

    /// Writes `data` at `offset`, as much of it as lies within the file; nothing beyond its end.
    pub fn write(&self, file: Arc<File>, offset: u64, data: Vec<u8>, fua: bool, answer: Answer) {
        let Ok(len) = u32::try_from(data.len()) else { return answer.fail(Errno::EINVAL) };
        let within = clip(file.namespace.bytes(), offset, len);
        if within == 0 && len > 0 {
            return answer.fail(Errno::ENOSPC);
        }
        self.begin(file, write(fua), Place::of(offset, within.into()), data, answer);
    }

    /// Makes the part of the range that lies within the file read as zeroes.
    pub fn zero(&self, file: Arc<File>, offset: u64, len: u64, deallocate: bool, answer: Answer) {
        let len = len.min(file.namespace.bytes().saturating_sub(offset));
        let work = Work::Blocks(Verb::WriteZeroes { deallocate });
        self.begin(file, work, Place::of(offset, len), Vec::new(), answer);
    }

    /// As [`zero`](RequestQueue::zero), and makes that durable before the answer.
    pub fn zero_durably(
        self: &Arc<Self>,
        file: Arc<File>,
        offset: u64,
        len: u64,
        deallocate: bool,
        answer: Answer,
    ) {
        let (then, of) = (self.clone(), file.clone());
        let flush = move |result| match result {
            Ok(_) => then.flush(of, answer),
            Err(errno) => answer.fail(errno),
        };
        self.zero(file, offset, len, deallocate, Answer::call(flush));
    }

    /// Makes all writes that have been answered durable.
    pub fn flush(&self, file: Arc<File>, answer: Answer) {
        self.begin(file, Work::Blocks(Verb::Flush), Place::of(0, 0), Vec::new(), answer);
    }

    /// Reads `len` bytes at `offset` of a zone. The caller knows that they are written.
    pub fn read_zone(&self, file: Arc<File>, zone: u32, offset: u64, len: u32, answer: Answer) {
        let place = Place { zone: Some(zone), offset, len: len.into() };
        self.begin(file, Work::Blocks(Verb::Read), place, Vec::new(), answer);
    }

    /// Writes whole blocks at `offset` of a zone, as many of them as it has room for. The drive refuses them if that is not the
    /// write pointer. What the file knows of the zone follows.
    pub fn write_zone(
        &self,
        file: Arc<File>,
        zone: u32,
        offset: u64,
        data: Vec<u8>,
        fua: bool,
        answer: Answer,
    ) {
        let Ok(len) = u32::try_from(data.len()) else { return answer.fail(Errno::EINVAL) };
        let within = clip(file.namespace.zone_bytes(), offset, len);
        let place = Place { zone: Some(zone), offset, len: within.into() };
        self.begin(file, write(fua), place, data, answer);
    }

    /// Requests a report of `zones` zones from this one on: 1 to [`Namespace::zones_of_report`](crate::drive::Namespace::zones_of_report).
    pub fn report(&self, file: Arc<File>, zone: u32, zones: u32, then: Then<Vec<u8>>) {
        let bytes = size_of::<ZoneReportHeader>() + zones as usize * size_of::<ZoneDescriptor>();
        self.begin(file, Work::Report, Place::of_zone(zone), vec![0; bytes], Answer::call(then));
    }

    /// Changes the state of a zone.
    pub fn manage(&self, file: Arc<File>, zone: u32, action: ZoneSendAction, then: Then<Vec<u8>>) {
        self.begin(file, Work::Zone(action), Place::of_zone(zone), Vec::new(), Answer::call(then));
    }

    fn begin(&self, file: Arc<File>, work: Work, place: Place, mut data: Vec<u8>, answer: Answer) {
        let Place { zone, offset, len } = place;
        if self.drive.get().is_none() || self.is_void(&file) {
            return answer.fail(Errno::ENODEV);
        }
        if work.changes_blocks() && file.namespace.read_only {
            return answer.fail(Errno::EROFS);
        }
        let block_size = file.namespace.block_size();
        let steps = match work {
            Work::Blocks(Verb::Flush) | Work::Report | Work::Zone(_) => Steps::One(CommandStep::default()),
            Work::Blocks(verb) => {
                let most = file.namespace.device.limits.most(verb);
                split(verb, offset, len, block_size, most)
            }
        };
        if steps == Steps::None {
            return answer.succeed(&[], 0);
        }
        if work.reads() && matches!(steps, Steps::Many(_)) {
            data = buffer_pool::take(len);
        }
        let alone = work.changes_blocks() && steps.as_slice().iter().any(|step| step.is_partial(block_size));
        // Requests that move data fit 32 bits; zeroing answers without a length.
        let len = u32::try_from(len).unwrap_or(u32::MAX);
        let locked = work.changes_blocks().then(|| file.clone());
        let admitted = locked.is_none();
        let request = ActiveRequest {
            file,
            zone,
            answer,
            work,
            len,
            data,
            steps,
            admitted,
            next: 0,
            running: 0,
            failed: None,
        };
        let slot = self.state().insert(request);
        match locked {
            None => self.advance(slot),
            // If it must wait, the write that leaves the lock starts it.
            Some(file) => {
                let through = file.write_lock().enter(slot, alone);
                through.into_iter().for_each(|slot| self.start(slot));
            }
        }
    }

    /// Whether a file stands for nothing any more: its namespace is gone, or is another one, or lost completed writes.
    pub fn is_void(&self, file: &File) -> bool {
        file.is_gone() || self.has_lost(file)
    }

    /// Whether the drive has lost completed writes since the file appeared.
    fn has_lost(&self, file: &File) -> bool {
        self.drive.get().is_some_and(|drive| drive.losses() != file.namespace.losses)
    }

    /// Starts a request that has the write lock.
    fn start(&self, slot: u32) {
        if let Some(request) = self.state().request(slot) {
            request.admitted = true;
        }
        self.advance(slot);
    }

    /// Starts what can be started of a request. Harmless if the request has ended and its slot has become
    /// another's.
    fn advance(&self, slot: u32) {
        let mut more = true;
        while more {
            let mut state = self.state();
            let Some(request) = state.request(slot) else { return };
            let Some(issue) = request.next_step(slot) else { return };
            more = request.has_next();
            let issue = state.admit(issue);
            drop(state);
            issue.into_iter().for_each(|issue| self.submit(issue));
        }
    }

    /// Begins several requests. The drive may begin their commands together when `begin` returns, which must not wait for one of them.
    pub fn together(&self, mut begin: impl FnMut()) {
        match self.drive.get() {
            Some(drive) => drive.together(&mut begin),
            None => begin(),
        }
    }

    fn submit(&self, issue: Issue) {
        if let Some(drive) = self.drive.get() {
            drive.submit(issue.tag, &issue.of, issue.command, issue.data);
        }
    }

    fn state(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn finish(&self, mut request: ActiveRequest, data: Vec<u8>) {
        if request.work.changes_blocks() {
            let mut start = Vec::new();
            request.file.write_lock().leave(&mut start);
            for slot in start {
                self.start(slot);
            }
        }
        if request.work == Work::Blocks(Verb::Flush) && self.has_lost(&request.file) {
            // It may have begun before the cut and have reached the drive after it: what it should cover may be lost.
            request.failed.get_or_insert(Errno::ENODEV);
        }
        request.note_end_of_zone();
        match request.failed {
            Some(errno) => request.answer.fail(errno),
            None => {
                let answer = match (request.work, &request.steps) {
                    // What was asked for may be a part of the blocks that were read.
                    (work, Steps::One(step)) if work.reads() => part(&data, step.skip, request.len),
                    (work, _) if work.reads() => &request.data,
                    (Work::Report, _) => &data,
                    _ => &[],
                };
                request.answer.succeed(answer, request.len);
            }
        }
        buffer_pool::give(data);
        buffer_pool::give(request.data);
    }
}

impl Completions for RequestQueue {
    fn complete(&self, tag: u64, result: Result<(), Errno>, data: Vec<u8>) {
        // Upper and lower half.
        let (slot, step) = ((tag >> 32) as u32, tag & 0xFFFF_FFFF);
        let mut state = self.state();
        let waiting = state.waiting.pop_front();
        if waiting.is_none() {
            state.room += 1;
        }
        let Some(request) = state.request(slot) else {
            drop(state);
            return waiting.into_iter().for_each(|issue| self.submit(issue));
        };
        let (follow, data) = request.step_ended(slot, step, result, data);
        // A block that has been read and must be written back keeps its request running.
        request.running -= u32::from(follow.is_none());
        let more = request.has_next();
        let ended = request.running == 0 && !more;
        let follow = follow.and_then(|issue| state.admit(issue));
        let ended = if ended { state.remove(slot) } else { None };
        drop(state);
        for issue in waiting.into_iter().chain(follow) {
            self.submit(issue);
        }
        match ended {
            Some(request) => self.finish(request, data),
            None => {
                buffer_pool::give(data);
                if more {
                    self.advance(slot);
                }
            }
        }
    }
}

impl QueueState {
    fn insert(&mut self, request: ActiveRequest) -> u32 {
        if let Some(slot) = self.free.pop() {
            self.requests[slot as usize] = Some(request);
            return slot;
        }
        self.requests.push(Some(request));
        // The kernel has far fewer requests in flight.
        u32::try_from(self.requests.len() - 1).unwrap_or(u32::MAX)
    }

    fn request(&mut self, slot: u32) -> Option<&mut ActiveRequest> {
        self.requests.get_mut(slot as usize)?.as_mut()
    }

    fn remove(&mut self, slot: u32) -> Option<ActiveRequest> {
        let request = self.requests.get_mut(slot as usize)?.take()?;
        self.free.push(slot);
        Some(request)
    }

    /// Gives the command back if the drive has room for it now, else keeps it for later.
    fn admit(&mut self, issue: Issue) -> Option<Issue> {
        if self.room == 0 {
            self.waiting.push_back(issue);
            return None;
        }
        self.room -= 1;
        Some(issue)
    }
}

impl ActiveRequest {
    fn has_next(&self) -> bool {
        self.failed.is_none() && (self.next as usize) < self.steps.as_slice().len()
    }

    /// Commands that may be in flight at once. Those that write a zone follow each other.
    fn most_running(&self) -> u32 {
        let in_turn = self.zone.is_some() && self.work.changes_blocks();
        if in_turn { 1 } else { STEPS_IN_FLIGHT }
    }

    /// After a write to a zone, the file knows where the zone ends now, or that it does not know.
    fn note_end_of_zone(&self) {
        let last = self.steps.as_slice().last();
        if let (true, Some(zone), Some(last)) = (self.work.writes(), self.zone, last) {
            let end = last.lba + u64::from(last.blocks);
            self.file.zones().note_written(zone, self.failed.is_none().then_some(end));
        }
    }

    fn next_step(&mut self, slot: u32) -> Option<Issue> {
        if !self.admitted || !self.has_next() || self.running >= self.most_running() {
            return None;
        }
        let index = self.next;
        let step = self.steps.as_slice()[index as usize];
        self.next += 1;
        self.running += 1;
        let CommandStep { lba, blocks, .. } = step;
        let lba = self.zone.map_or(0, |zone| self.file.namespace.zone_start(zone)) + lba;
        let block_size = self.file.namespace.block_size();
        let of_blocks = |verb| DriveCommand::blocks(verb, lba, blocks);
        let partial = self.work.changes_blocks() && step.is_partial(block_size);
        let (command, data) = match self.work {
            work if work.reads() || partial => {
                (of_blocks(Verb::Read), buffer_pool::take(u64::from(blocks) * u64::from(block_size)))
            }
            Work::Blocks(verb) if verb.writes() => {
                let data = match self.steps {
                    // The request's own buffer goes down as it came.
                    Steps::One(_) => {
                        let mut data = std::mem::take(&mut self.data);
                        data.truncate(self.len as usize);
                        data
                    }
                    _ => buffer_pool::copy(part(&self.data, step.at as usize, step.len as usize)),
                };
                (of_blocks(verb), data)
            }
            Work::Blocks(verb) => (of_blocks(verb), Vec::new()),
            Work::Report => (DriveCommand::Report { lba }, std::mem::take(&mut self.data)),
            Work::Zone(action) => (DriveCommand::Zone { lba, action }, Vec::new()),
        };
        Some(Issue { tag: tag(slot, index), of: self.file.namespace.device, command, data })
    }

    /// Takes in the end of a command: what must follow it at once, and its buffer if that is not needed.
    fn step_ended(
        &mut self,
        slot: u32,
        step: u64,
        result: Result<(), Errno>,
        mut data: Vec<u8>,
    ) -> (Option<Issue>, Vec<u8>) {
        if let Err(errno) = result {
            self.failed.get_or_insert(errno);
            return (None, data);
        }
        if step & WRITE_BACK != 0 {
            return (None, data);
        }
        let Some(&done) = self.steps.as_slice().get(step as usize) else { return (None, data) };
        let CommandStep { lba, blocks, skip, len, at } = done;
        let partial = self.work.changes_blocks() && done.is_partial(self.file.namespace.block_size());
        if partial {
            let target = part_mut(&mut data, skip as usize, len as usize);
            let verb = match self.work {
                Work::Blocks(verb) if verb.writes() => {
                    target.copy_from_slice(part(&self.data, at as usize, target.len()));
                    verb
                }
                _ => {
                    target.fill(0);
                    Verb::Write
                }
            };
            let command = DriveCommand::blocks(verb, lba, blocks);
            let tag = tag(slot, 0) | step | WRITE_BACK;
            return (Some(Issue { tag, of: self.file.namespace.device, command, data }), Vec::new());
        }
        if self.work.reads() && matches!(self.steps, Steps::Many(_)) {
            let source = part(&data, skip as usize, len as usize);
            part_mut(&mut self.data, at as usize, source.len()).copy_from_slice(source);
        }
        (None, data)
    }
}

/// How many of `len` bytes at `offset` lie within `size` bytes.
fn clip(size: u64, offset: u64, len: u32) -> u32 {
    let rest = size.saturating_sub(offset);
    // Not larger than `len`.
    u32::try_from(rest.min(u64::from(len))).unwrap_or(len)
}

fn part(data: &[u8], at: impl TryInto<usize>, len: impl TryInto<usize>) -> &[u8] {
    let (at, len) = (at.try_into().unwrap_or(usize::MAX), len.try_into().unwrap_or(0));
    data.get(at..at.saturating_add(len)).unwrap_or_default()
}

fn part_mut(data: &mut [u8], at: usize, len: usize) -> &mut [u8] {
    data.get_mut(at..at.saturating_add(len)).unwrap_or_default()
}
