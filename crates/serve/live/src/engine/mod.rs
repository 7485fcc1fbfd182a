//! A drive with its contents and the commands in flight. Its owner steps it.
//!
//! - Here: what the engine holds, and how a command goes to the drive ([`Engine::submit`]).
//! - `faults`: faults of the protocol, on the way of completions to front ends.
//! - [`front_end`]: what the engine asks of those who send commands.
//! - `struck`: what is known of commands that have met such faults.
//! - `step`: what is due is done, and what has ended is told ([`Engine::settle`]).
//! - `power`: power cuts, and the stop in order.

#[cfg(test)]
mod fault_model;
#[cfg(test)]
mod fault_tests;
mod faults;
pub mod front_end;
mod power;
mod step;
mod struck;
#[cfg(test)]
mod tests;

use crate::record::Recorder;
use device::{ControllerId, Drive, MAX_IO, MAX_QUEUE_ENTRIES, Output, Role, Submission};
use ftl::Io;
use image::DiskEvent;
use image::{DataBuffer, Store};
use media::Nanos;
use nvme::command_table::{self, DataSource};
use nvme::{Command, Completion, Status, Transfer};
use std::num::{NonZeroU8, NonZeroU64};
use struck::StruckCommands;

/// Which front end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrontEndId {
    number: NonZeroU8,
    /// Whether its hosts choose the identifiers of their commands. Otherwise the engine does.
    host_identifiers: bool,
}

impl FrontEndId {
    /// A front end whose hosts leave the identifiers of commands to the engine.
    ///
    /// # Panics
    /// `number` is 0.
    pub const fn new(number: u8) -> Self {
        FrontEndId {
            number: NonZeroU8::new(number).expect("front ends count from 1"),
            host_identifiers: false,
        }
    }

    /// The number, for what is not the engine's.
    pub(crate) const fn number(self) -> u8 {
        self.number.get()
    }

    /// The same, where hosts choose the identifiers of their commands.
    pub const fn with_host_identifiers(self) -> Self {
        FrontEndId { host_identifiers: true, ..self }
    }
}

/// What a front end calls a command. Both numbers mean something to that front end only.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Token {
    /// The queue or connection.
    pub queue: u64,
    /// The command there.
    pub command: u64,
}

/// Whose a command is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Owner {
    /// The front end.
    pub front_end: FrontEndId,
    /// What it calls the command.
    pub token: Token,
}

/// What the drive takes from a front end.
#[derive(Clone, Copy, Debug)]
pub struct CommandLimits {
    /// Bytes of data of one command.
    pub transfer: u32,
    /// Bytes of data that may come with a command in one capsule.
    pub in_capsule: u32,
    /// Entries of an I/O queue.
    pub entries: u32,
}

struct Entry {
    /// `None` if the number is free.
    owner: Option<Owner>,
    /// Whether the command changes nothing, so that it may succeed when nothing more can be kept.
    reads: bool,
    /// Bytes that go to the host if it succeeds.
    to_host: u32,
    /// Whether it has met a fault of the protocol.
    is_struck: bool,
}

/// How far a clean stop has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stop {
    No,
    /// The drive empties its buffer.
    Draining,
    /// Everything is on the media.
    Drained,
    Done,
}

/// The drive, its storage, and the commands in flight.
pub struct Engine {
    /// The drive.
    pub drive: Drive,
    /// Its contents, and the buffers of commands in flight.
    pub store: Store,
    /// Writes down what hosts do.
    recorder: Option<Recorder>,
    table: Vec<Entry>,
    free: Vec<u32>,
    /// What the drive has said, and nobody has carried out yet. Who calls the drive passes them to it.
    pub outputs: Vec<Output>,
    /// Commands that have ended and wait for the image or for the next step.
    ended: Vec<(Io, Completion)>,
    /// What the controller itself takes from the command that is being submitted.
    controller_data: Vec<u8>,
    syncs: Vec<Io>,
    forgets: Vec<(Io, bool)>,
    news: Vec<DiskEvent>,
    /// A power cut that takes effect after what came before it was delivered.
    cut: Option<Nanos>,
    /// Power cuts so far with which completed writes may have gone.
    losses: u64,
    /// When power comes back.
    power_back: Option<Nanos>,
    stop: Stop,
    /// The time of the last step.
    now: Nanos,
    /// Whether a command may meet a fault of the protocol.
    watches_faults: bool,
    struck: StruckCommands,
}

impl Engine {
    /// No command is in flight yet.
    pub fn new(drive: Drive, store: Store) -> Self {
        Engine {
            now: Nanos::ZERO,
            watches_faults: drive.has_protocol_faults(),
            struck: StruckCommands::default(),
            drive,
            store,
            recorder: None,
            table: Vec::new(),
            free: Vec::new(),
            outputs: Vec::with_capacity(1024),
            ended: Vec::with_capacity(1024),
            controller_data: Vec::new(),
            syncs: Vec::new(),
            forgets: Vec::new(),
            news: Vec::new(),
            cut: None,
            losses: 0,
            power_back: None,
            stop: Stop::No,
        }
    }

    /// Records what hosts do from now on.
    pub(crate) fn record(&mut self, recorder: Recorder) {
        self.recorder = Some(recorder);
    }

    /// What the drive takes from every front end.
    pub fn limits(&self) -> CommandLimits {
        let config = self.drive.config();
        CommandLimits {
            transfer: config.max_transfer,
            in_capsule: config.in_capsule_bytes,
            entries: MAX_QUEUE_ENTRIES,
        }
    }

    /// How many commands more can be in flight. A command beyond that ends with Internal Error.
    #[inline]
    pub fn room(&self) -> usize {
        (MAX_IO as usize + self.free.len()).saturating_sub(self.table.len())
    }

    /// Whether something waits to be delivered that did not come of what was due.
    #[inline]
    pub fn has_news(&self) -> bool {
        !(self.outputs.is_empty() && self.ended.is_empty())
    }

    /// When the drive wants to be stepped next. Front ends have deadlines of their own.
    #[inline]
    pub fn deadline(&self) -> Nanos {
        if self.has_stopped() {
            return Nanos::MAX;
        }
        let next = self.drive.due().min(self.struck.due);
        self.power_back.map_or(next, |back| back.min(next))
    }

    /// Power cuts so far with which completed writes may have gone.
    pub fn losses(&self) -> u64 {
        self.losses
    }

    pub(crate) fn has_stopped(&self) -> bool {
        self.stop == Stop::Done
    }

    /// Does what is due before a command of this time, however late this thread is.
    #[inline]
    fn catch_up(&mut self, now: Nanos) {
        if self.drive.due() <= now {
            self.drive.poll(now, &mut self.store, &mut self.outputs);
        }
    }

    /// Whether a namespace is of this generation for a command that is submitted next, at this time ([`Drive::confirm`]). A command that the drive
    /// has accepted meets no other: a namespace is replaced when none of its commands is in flight, and held ones are given back.
    #[inline]
    pub(crate) fn confirm(
        &mut self,
        now: Nanos,
        controller: ControllerId,
        nsid: u32,
        generation: NonZeroU64,
    ) -> bool {
        self.catch_up(now);
        self.drive.confirm(controller, nsid, generation.get())
    }

    /// Hands a command to the drive. Its buffer is lent to the store until the command ends. Returns how many bytes it moves.
    #[inline]
    pub fn submit(
        &mut self,
        now: Nanos,
        owner: Owner,
        controller: ControllerId,
        qid: u16,
        mut command: Command,
        data: DataBuffer,
    ) -> u64 {
        if let Some(recorder) = self.recorder.as_mut().filter(|_| qid != 0) {
            recorder.note(now, controller, qid, &command, data.as_slice(), &self.drive);
        }
        self.catch_up(now);
        let info = command_table::of(command.opc, qid == 0);
        let reads = info.is_some_and(|info| !info.changes);
        // Room without bytes is always large enough.
        let transfer = match data {
            DataBuffer::Void => Transfer::None,
            _ => self.drive.transfer(controller, qid, &command),
        };
        let to_host = match transfer {
            Transfer::ToHost(bytes) => u32::try_from(bytes).unwrap_or(u32::MAX),
            _ => 0,
        };
        let io = self.number(Entry { owner: Some(owner), reads, to_host, is_struck: false });
        if let Some(recorder) = &mut self.recorder {
            recorder.begun(now, io, qid, &command);
        }
        if !owner.front_end.host_identifiers {
            command.cid.set(io.0 as u16);
        }
        // The controller's own data are copied before the buffer is lent. So the buffer is lent at one moment for all commands, and
        // a host whose memory is shared with the drive cannot change what is being parsed.
        self.controller_data.clear();
        let holds = data.holds(transfer.bytes());
        if let Transfer::ToController(bytes) = transfer
            && holds
            && info.is_none_or(|info| info.data != DataSource::Contents)
        {
            self.controller_data.extend_from_slice(&data.as_slice()[..bytes as usize]);
        }
        self.store.lend(io, data);
        if io.0 >= MAX_IO {
            self.ended.push((io, Completion::new(command.cid.get(), Status::INTERNAL_ERROR)));
            return 0;
        }
        if !holds {
            let status = Status::DATA_SGL_LENGTH_INVALID.with_dnr();
            self.ended.push((io, Completion::new(command.cid.get(), status)));
            return 0;
        }
        if self.watches_faults
            && let Some(completion) = self.meet_faults(now, io, (controller, qid), &command)
        {
            self.ended.push((io, completion));
            return transfer.bytes();
        }
        let submission = Submission { controller, qid, io, command: &command, data: &self.controller_data };
        self.drive.submit(now, submission, &mut self.store, &mut self.outputs);
        transfer.bytes()
    }

    /// What was submitted last is the first command of a fused operation whose second does not follow.
    pub(crate) fn end_fused(&mut self, now: Nanos, controller: ControllerId, qid: u16) {
        self.drive.end_fused(now, controller, qid, &mut self.store, &mut self.outputs);
    }

    fn number(&mut self, entry: Entry) -> Io {
        match self.free.pop() {
            Some(index) => {
                self.table[index as usize] = entry;
                Io(index)
            }
            None => {
                self.table.push(entry);
                Io(self.table.len() as u32 - 1)
            }
        }
    }

    /// Whether the drive has ended controllers whose connections are not closed yet. Their identifiers may be free already.
    pub(crate) fn is_expelling(&self) -> bool {
        self.outputs.iter().any(|output| matches!(output, Output::Disconnect { .. }))
    }

    /// A host is gone, with its controller.
    pub fn drive_disconnect(&mut self, now: Nanos, controller: ControllerId) {
        self.forget_controller(controller);
        self.drive.disconnect(now, controller, &mut self.store, &mut self.outputs);
    }

    /// A host has ended a queue.
    pub fn remove_queue(&mut self, controller: ControllerId, qid: u16) {
        self.release_queue(controller, Some(qid));
        self.drive.remove_queue(controller, qid);
    }

    /// A host has another role.
    pub(crate) fn set_role(&mut self, now: Nanos, controller: ControllerId, role: Role) {
        self.drive.set_role(now, controller, role, &mut self.store, &mut self.outputs);
    }

    /// Lets go of everything that other threads might wait for.
    pub(crate) fn hang_up(&mut self) {
        self.store.close();
    }
}
