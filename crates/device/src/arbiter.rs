//! Arbitration: which command of an I/O queue may start now, and which are held until later.
//!
//! Each namespace has two lanes, one for commands that read and one for those that write. A lane has the meters of the
//! namespace's quota, and a queue of commands that these hold back: first come, first served. What is held is in flight for
//! its host, and nowhere yet for the drive: it has touched nothing, and everything is checked again when its turn comes.

use crate::contents::Contents;
use crate::controller::{ControllerId, Controllers};
use crate::drive::{Cx, Drive, Event};
use crate::flight::{InFlight, Stage, Token};
use crate::quota::Meter;
use media::Nanos;
use nvme::io::Blocks;
use nvme::{IoCommand, Status};

/// Whether a command may start now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Turn {
    Now,
    /// It is in the queue of its lane.
    Held,
}

/// What a command does, for its quota.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    Read,
    Write,
}

const WAYS: [Way; 2] = [Way::Read, Way::Write];
const NOBODY: u32 = u32::MAX;

/// Commands of one namespace that go one way.
#[derive(Clone, Debug)]
pub(crate) struct Lane {
    bytes: Meter,
    commands: Meter,
    /// First and last command that is held.
    first: u32,
    last: u32,
    /// The event that is to let the first one go; [`Nanos::MAX`] if there is none.
    timer: Nanos,
}

impl Default for Lane {
    fn default() -> Self {
        Lane {
            bytes: Meter::default(),
            commands: Meter::default(),
            first: NOBODY,
            last: NOBODY,
            timer: Nanos::MAX,
        }
    }
}

impl Lane {
    fn due(&self) -> Nanos {
        self.bytes.due().max(self.commands.due())
    }

    fn is_empty(&self) -> bool {
        self.first == NOBODY
    }

    fn charge(&mut self, now: Nanos, bytes: u64) {
        self.bytes.charge(now, bytes);
        self.commands.charge(now, 1);
    }
}

/// A namespace's part in arbitration.
#[derive(Clone, Default, Debug)]
pub(crate) struct Lanes {
    /// Whether commands must ask at all.
    pub watched: bool,
    lanes: [Lane; 2],
}

/// Commands that are held, by their number.
#[derive(Debug, Default)]
pub(crate) struct Held {
    table: Vec<Option<Waiting>>,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    command: IoCommand,
    /// The next of its lane.
    next: u32,
}

impl Held {
    fn put(&mut self, io: u32, command: IoCommand) {
        let index = io as usize;
        if index >= self.table.len() {
            self.table.resize((index + 1).next_power_of_two().max(64), None);
        }
        self.table[index] = Some(Waiting { command, next: NOBODY });
    }

    fn get(&self, io: u32) -> Option<&Waiting> {
        self.table.get(io as usize)?.as_ref()
    }

    fn link(&mut self, io: u32, next: u32) {
        if let Some(Some(waiting)) = self.table.get_mut(io as usize) {
            waiting.next = next;
        }
    }

    /// Power was lost.
    pub fn clear(&mut self) {
        self.table.fill(None);
    }

    fn take(&mut self, io: u32) -> Option<Waiting> {
        self.table.get_mut(io as usize)?.take()
    }
}

/// What a command is to a quota. Flush and what deallocates move no data and are never held.
#[inline]
fn demand(command: &IoCommand) -> Option<(&Blocks, Way)> {
    match command {
        IoCommand::Read(b) | IoCommand::Compare(b) | IoCommand::Verify(b) => Some((b, Way::Read)),
        IoCommand::Write(b) | IoCommand::WriteUncorrectable(b) => Some((b, Way::Write)),
        IoCommand::WriteZeroes(b) if !b.deac => Some((b, Way::Write)),
        _ => None,
    }
}

impl Drive {
    /// Whether a command may start now; if not, it is kept until it may.
    #[inline]
    pub(crate) fn arbitrate(
        &mut self,
        token: &Token,
        id: ControllerId,
        command: &IoCommand,
        now: Nanos,
    ) -> Turn {
        let Some((blocks, way)) = demand(command) else { return Turn::Now };
        match self.namespaces.get(blocks.nsid) {
            Some(ns) if ns.lanes.watched => self.ask(token, id, command, blocks, way, now),
            _ => Turn::Now,
        }
    }

    fn ask(
        &mut self,
        token: &Token,
        id: ControllerId,
        command: &IoCommand,
        blocks: &Blocks,
        way: Way,
        now: Nanos,
    ) -> Turn {
        // What will be refused is not to wait for it, and costs nothing.
        let opcode = self.flight.get_mut(token).opcode;
        if self.attached(id, blocks.nsid).is_err() || self.check_reservation(id, opcode, blocks.nsid).is_err()
        {
            return Turn::Now;
        }
        let Some(ns) = self.namespaces.get_mut(blocks.nsid) else { return Turn::Now };
        if blocks.end().is_none_or(|end| end > ns.blocks()) {
            return Turn::Now;
        }
        let lane = &mut ns.lanes.lanes[way as usize];
        if lane.is_empty() && lane.due() <= now {
            lane.charge(now, u64::from(blocks.nlb) << ns.shift);
            return Turn::Now;
        }
        let io = token.io().0;
        self.held.put(io, *command);
        if lane.is_empty() {
            lane.first = io;
        } else {
            self.held.link(lane.last, io);
        }
        lane.last = io;
        self.flight.get_mut(token).stage = Stage::Held;
        self.set_timer(blocks.nsid, way);
        Turn::Held
    }

    /// Sees to it that the first command of a lane gets its turn.
    fn set_timer(&mut self, nsid: u32, way: Way) {
        let Some(ns) = self.namespaces.get_mut(nsid) else { return };
        let lane = &mut ns.lanes.lanes[way as usize];
        let due = lane.due();
        if !lane.is_empty() && due < lane.timer {
            lane.timer = due;
            self.events.push(due, Event::Lane(nsid, way));
        }
    }

    /// The time has come that a lane waited for: lets go what may go.
    pub(crate) fn lane_due<S: Contents>(&mut self, nsid: u32, way: Way, cx: &mut Cx<'_, S>) {
        match self.namespaces.get_mut(nsid).map(|ns| &mut ns.lanes.lanes[way as usize].timer) {
            Some(timer) if *timer <= cx.now => *timer = Nanos::MAX,
            // Of an earlier quota, or an earlier namespace.
            _ => return,
        }
        while let Some((token, command)) = self.next_of(nsid, way, cx.now) {
            self.execute_io(token, command, &[], cx);
        }
        self.set_timer(nsid, way);
    }

    /// Takes the first command of a lane, if it may go.
    fn next_of(&mut self, nsid: u32, way: Way, now: Nanos) -> Option<(Token, IoCommand)> {
        let ns = self.namespaces.get_mut(nsid)?;
        let lane = &mut ns.lanes.lanes[way as usize];
        if lane.is_empty() || lane.due() > now {
            return None;
        }
        let io = lane.first;
        let Waiting { command, next } = self.held.take(io)?;
        lane.first = next;
        let token = self.flight.unpark(io)?;
        let entry = self.flight.get_mut(&token);
        entry.stage = Stage::Running;
        ns.stats.throttled[way as usize].add(now.since(entry.submitted));
        if let Some((blocks, _)) = demand(&command) {
            lane.charge(now, u64::from(blocks.nlb) << ns.shift);
        }
        Some((token, command))
    }

    /// A namespace has another quota: it holds from now on, for what waits, too.
    pub(crate) fn apply_quota(&mut self, nsid: u32, now: Nanos) {
        let Some(ns) = self.namespaces.get_mut(nsid) else { return };
        let limits = ns.quota.current;
        let rates =
            [(limits.read_bandwidth, limits.read_commands), (limits.write_bandwidth, limits.write_commands)];
        for (lane, (bytes, commands)) in ns.lanes.lanes.iter_mut().zip(rates) {
            lane.bytes.set(now, bytes, limits.burst());
            lane.commands.set(now, commands, limits.burst());
        }
        ns.lanes.watched = rates.iter().any(|(bytes, commands)| bytes.is_some() || commands.is_some());
        for way in WAYS {
            self.set_timer(nsid, way);
        }
    }

    /// Gives held commands back with a status, without having executed them: all for which `status` has one.
    pub(crate) fn return_held(
        &mut self,
        now: Nanos,
        status: impl Fn(&Controllers, u32, &InFlight) -> Option<Status>,
    ) -> bool {
        let mut any = false;
        for nsid in 1..=self.namespaces.count() {
            let Some(ns) = self.namespaces.get_mut(nsid) else { continue };
            for lane in &mut ns.lanes.lanes {
                let (mut io, mut last) = (lane.first, NOBODY);
                while let Some(&Waiting { next, .. }) = self.held.get(io) {
                    let token = self.flight.unpark(io);
                    let status = token.as_ref().and_then(|token| {
                        let entry = self.flight.get_mut(token);
                        status(&self.controllers, io, entry)
                    });
                    if let (Some(token), Some(status)) = (token, status) {
                        let entry = self.flight.get_mut(&token);
                        (entry.stage, entry.status, entry.at) = (Stage::Running, status, now);
                        self.events.push(now, Event::End(token.park()));
                        self.held.take(io);
                        match last {
                            NOBODY => lane.first = next,
                            last => self.held.link(last, next),
                        }
                        any = true;
                    } else {
                        last = io;
                    }
                    io = next;
                }
                lane.last = last;
            }
        }
        any
    }

    /// Gives back what a controller has no way to any more: a namespace was detached, or is not accessible.
    pub(crate) fn return_unreachable(&mut self, now: Nanos) {
        self.return_held(now, |controllers, _, entry| {
            let controller = controllers.get(ControllerId(entry.controller))?;
            match crate::ports::access(controller.ana) {
                Err(failure) => Some(failure.status),
                Ok(()) if !controller.is_attached(entry.nsid) => Some(Status::INVALID_FIELD.with_dnr()),
                Ok(()) => None,
            }
        });
    }

    /// Gives back what waits for namespaces that are about to change.
    pub(crate) fn return_held_of(&mut self, now: Nanos, nsids: &[u32]) {
        self.return_held(now, |_, _, entry| {
            nsids.contains(&entry.nsid).then_some(Status::NAMESPACE_NOT_READY.code())
        });
    }
}
