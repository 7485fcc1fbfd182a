//! Arbitration: which command of an I/O queue may start now, and which are held until later.
//!
//! Each namespace has two lanes, one for commands that read and one for those that write. A lane has the meters of the
//! namespace's quota, and a queue of commands that are held back: first come, first served. Its first command waits for
//! the meters, and then for the namespace's turn on the NVM Set ([`Fair`](crate::fair::Fair)). What is held is in flight for
//! its host, and nowhere yet for the drive: it has touched nothing, and everything is checked again when its turn comes.

use crate::contents::Contents;
use crate::controller::{ControllerId, Controllers};
use crate::drive::{Cx, Drive, Event};
use crate::fair::{Share, UNIT_FACTOR};
use crate::flight::{InFlight, Stage, Token};
use crate::quota::Meter;
use ftl::VolumeStats;
use media::Nanos;
use nvme::command_table::{self, MediaAccess};
use nvme::copy::{Copy, CopySource};
use nvme::quota::Quota;
use nvme::{IoCommand, IoOpcode, Status};

/// Whether a command may start now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Turn {
    Now,
    /// It is in the queue of its lane.
    Held,
}

/// What a command does, for its quota.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
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
    /// Since when only the turn on the set is lacking, and the lane waits there; [`Nanos::MAX`] if it does not.
    ready: Nanos,
}

impl Default for Lane {
    fn default() -> Self {
        Lane {
            bytes: Meter::default(),
            commands: Meter::default(),
            first: NOBODY,
            last: NOBODY,
            timer: Nanos::MAX,
            ready: Nanos::MAX,
        }
    }
}

impl Lane {
    fn due(&self) -> Nanos {
        self.bytes.due().max(self.commands.due())
    }

    fn is_limited(&self) -> bool {
        self.bytes.is_on() || self.commands.is_on()
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
#[derive(Clone, Debug)]
pub(crate) struct Lanes {
    /// Whether commands must ask at all.
    watched: bool,
    /// Whether the NVM Set is shared with others.
    shares: bool,
    share: Share,
    /// Media bytes written for each byte of the host, times [`UNIT_FACTOR`].
    write_factor: u32,
    /// What was written for the host, and by garbage collection, when the write factor was found.
    written: (u64, u64),
    lanes: [Lane; 2],
}

impl Default for Lanes {
    fn default() -> Self {
        Lanes {
            watched: false,
            shares: false,
            share: Share::default(),
            write_factor: UNIT_FACTOR,
            written: (0, 0),
            lanes: Default::default(),
        }
    }
}

impl Lanes {
    fn watch(&mut self) {
        self.watched = self.shares || self.lanes.iter().any(Lane::is_limited);
    }

    /// A command of this cost has ended.
    #[inline]
    pub fn end(&mut self, cost: u32) {
        self.share.under_way = self.share.under_way.saturating_sub(cost.into());
    }

    /// Finds out what writes cost lately.
    pub fn weigh_writes(&mut self, media: &VolumeStats) {
        let host = media.media_host_bytes.saturating_sub(self.written.0);
        if host < LATELY {
            return;
        }
        let collected = media.media_gc_bytes.saturating_sub(self.written.1);
        self.written = (media.media_host_bytes, media.media_gc_bytes);
        let factor = (host.saturating_add(collected)).saturating_mul(UNIT_FACTOR.into()) / host;
        let factor = u32::try_from(factor).unwrap_or(u32::MAX).min(MAX_FACTOR);
        self.write_factor = (3 * self.write_factor + factor) / 4;
    }
}

/// Bytes written for the host that tell what writes cost.
const LATELY: u64 = 1 << 20;

/// The highest write amplification that counts.
const MAX_FACTOR: u32 = 64 * UNIT_FACTOR;

/// Commands that are held, by their number.
#[derive(Debug, Default)]
pub(crate) struct Held {
    table: Vec<Option<Waiting>>,
}

#[derive(Clone, Debug)]
struct Waiting {
    command: IoCommand,
    /// Its data, if the controller itself reads them.
    data: Box<[u8]>,
    /// The next of its lane.
    next: u32,
}

impl Held {
    fn put(&mut self, io: u32, command: IoCommand, data: Box<[u8]>) {
        let index = io as usize;
        if index >= self.table.len() {
            self.table.resize((index + 1).next_power_of_two().max(64), None);
        }
        self.table[index] = Some(Waiting { command, data, next: NOBODY });
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

/// What a command is to a quota, by the command table. What deallocates moves no data and is never held.
#[inline]
fn demand(opcode: u8, command: &IoCommand, data: &[u8]) -> Option<Demand> {
    let way = match command_table::of_io(IoOpcode(opcode))?.media {
        MediaAccess::None => return None,
        MediaAccess::Read => Way::Read,
        MediaAccess::Write => Way::Write,
    };
    match command {
        IoCommand::Copy(copy) => demand_of_copy(copy, data),
        IoCommand::WriteZeroes(b) if b.deac => None,
        _ => command.blocks().map(|b| Demand {
            nsid: b.nsid,
            way,
            blocks: b.nlb.into(),
            end: b.end(),
            reads: false,
        }),
    }
}

/// What a command asks of its namespace's quota.
#[derive(Clone, Copy, Debug)]
struct Demand {
    nsid: u32,
    way: Way,
    blocks: u64,
    /// The block after the last; `None` if there is no such block.
    end: Option<u64>,
    /// Whether it reads as much as it writes.
    reads: bool,
}

/// Copy waits as a write of its destination, which pays for the reads, too, wherever the sources are.
#[cold]
fn demand_of_copy(copy: &Copy, data: &[u8]) -> Option<Demand> {
    let each = CopySource::bytes(copy.desfmt)?;
    let sources = data.chunks_exact(each).take(copy.nr.into());
    let blocks =
        sources.filter_map(|bytes| CopySource::parse(copy.desfmt, bytes)).map(|s| u64::from(s.nlb)).sum();
    let end = copy.sdlba.checked_add(blocks);
    Some(Demand { nsid: copy.nsid, way: Way::Write, blocks, end, reads: true })
}

impl Drive {
    /// Whether a command may start now; if not, it is kept until it may.
    #[inline]
    pub(crate) fn arbitrate(
        &mut self,
        token: &Token,
        id: ControllerId,
        command: &IoCommand,
        data: &[u8],
        now: Nanos,
    ) -> Turn {
        let opcode = self.flight.get_mut(token).opcode;
        let Some(demand) = demand(opcode, command, data) else { return Turn::Now };
        match self.namespaces.get(demand.nsid) {
            Some(ns) if ns.lanes.watched => self.ask(token, id, command, data, demand, now),
            _ => Turn::Now,
        }
    }

    fn ask(
        &mut self,
        token: &Token,
        id: ControllerId,
        command: &IoCommand,
        data: &[u8],
        demand: Demand,
        now: Nanos,
    ) -> Turn {
        let Demand { nsid, way, .. } = demand;
        // What will be refused is not to wait for it, and costs nothing.
        let opcode = self.flight.get_mut(token).opcode;
        if self.attached(id, nsid).is_err() || self.check_reservation(id, opcode, nsid).is_err() {
            return Turn::Now;
        }
        let Some(ns) = self.namespaces.get_mut(nsid) else { return Turn::Now };
        if demand.end.is_none_or(|end| end > ns.blocks()) {
            return Turn::Now;
        }
        let mut turn = true;
        if ns.lanes.shares
            && let Some(set) = self.fair.set(ns.set.0)
        {
            set.note(nsid, now);
            turn = set.may_start(nsid, &ns.lanes.share, now);
        }
        let lane = &mut ns.lanes.lanes[way as usize];
        let (first, due) = (lane.is_empty(), lane.due() <= now);
        if first && due && turn {
            self.charge(token, demand, now);
            return Turn::Now;
        }
        let io = token.io().0;
        // Of all that wait only Copy has data here.
        let kept = if demand.reads { data.into() } else { Box::default() };
        self.held.put(io, *command, kept);
        if first {
            lane.first = io;
        } else {
            self.held.link(lane.last, io);
        }
        lane.last = io;
        self.flight.get_mut(token).stage = Stage::Held;
        if first {
            self.wait(nsid, way, now);
        }
        Turn::Held
    }

    /// A command starts: its namespace pays for it.
    fn charge(&mut self, token: &Token, demand: Demand, now: Nanos) {
        let Demand { nsid, way, blocks, reads, .. } = demand;
        let Some(ns) = self.namespaces.get_mut(nsid) else { return };
        let bytes = blocks << ns.shift;
        ns.lanes.lanes[way as usize].charge(now, bytes);
        if reads {
            ns.lanes.lanes[Way::Read as usize].charge(now, bytes);
        }
        if !ns.lanes.shares {
            return;
        }
        let index = ns.set.0;
        let Some(set) = self.fair.set(index) else { return };
        let cost = set.cost(way, bytes, ns.lanes.write_factor);
        set.start(&mut ns.lanes.share, cost);
        let entry = self.flight.get_mut(token);
        (entry.cost, entry.set) = (cost, index);
        let far = self.fair.rebase(index);
        if far > 0 {
            self.namespaces.iter_mut().filter(|(_, ns)| ns.set.0 == index).for_each(|(_, ns)| {
                ns.lanes.share.tag = ns.lanes.share.tag.saturating_sub(far);
            });
        }
    }

    /// Sees to it that the first command of a lane gets its turn: when its quota lets it, and then on its set.
    fn wait(&mut self, nsid: u32, way: Way, now: Nanos) {
        let Some(ns) = self.namespaces.get_mut(nsid) else { return };
        let lane = &mut ns.lanes.lanes[way as usize];
        if lane.is_empty() || lane.ready != Nanos::MAX {
            return;
        }
        let due = lane.due();
        if due <= now
            && ns.lanes.shares
            && let Some(set) = self.fair.set(ns.set.0)
        {
            lane.ready = now;
            set.wait(ns.lanes.share.tag, nsid, way);
            self.fair.stirred = true;
        } else if due < lane.timer {
            lane.timer = due;
            self.events.push(due, Event::Lane(nsid, way));
        }
    }

    /// The time has come that a lane waited for: lets go what may go.
    pub(crate) fn lane_due<S: Contents>(&mut self, nsid: u32, way: Way, cx: &mut Cx<'_, S>) {
        let Some(ns) = self.namespaces.get_mut(nsid) else { return };
        let shares = ns.lanes.shares;
        let lane = &mut ns.lanes.lanes[way as usize];
        if lane.timer > cx.now {
            // Of an earlier quota, or an earlier namespace.
            return;
        }
        lane.timer = Nanos::MAX;
        if !shares && lane.ready == Nanos::MAX {
            while let Some((token, command, data)) = self.first_of(nsid, way, cx.now) {
                self.execute_io(token, &command, &data, cx);
            }
        }
        self.wait(nsid, way, cx.now);
    }

    /// Something ended on a shared set, or came to wait for it: lets go what may go.
    pub(crate) fn share<S: Contents>(&mut self, cx: &mut Cx<'_, S>) {
        for index in 0..self.fair.count() {
            while let Some((tag, nsid, way)) = self
                .fair
                .set(index)
                .and_then(|set| set.next(cx.now, |nsid| self.namespaces.get(nsid).map(|ns| &ns.lanes.share)))
            {
                let Some(ns) = self.namespaces.get_mut(nsid).filter(|ns| ns.set.0 == index) else { continue };
                let lane = &mut ns.lanes.lanes[way as usize];
                if lane.ready == Nanos::MAX {
                    // Of an earlier namespace.
                    continue;
                }
                if ns.lanes.share.tag > tag && !lane.is_empty() {
                    // Its other lane had a turn meanwhile.
                    let tag = ns.lanes.share.tag;
                    if let Some(set) = self.fair.set(index) {
                        set.wait(tag, nsid, way);
                    }
                    continue;
                }
                if let Some((token, command, data)) = self.first_of(nsid, way, cx.now) {
                    self.execute_io(token, &command, &data, cx);
                }
                if let Some(ns) = self.namespaces.get_mut(nsid) {
                    ns.lanes.lanes[way as usize].ready = Nanos::MAX;
                }
                self.wait(nsid, way, cx.now);
            }
        }
        // What came to wait meanwhile was looked at.
        self.fair.stirred = false;
    }

    /// Takes the first command of a lane, if its quota lets it go.
    fn first_of(&mut self, nsid: u32, way: Way, now: Nanos) -> Option<(Token, IoCommand, Box<[u8]>)> {
        let ns = self.namespaces.get_mut(nsid)?;
        let lane = &mut ns.lanes.lanes[way as usize];
        if lane.is_empty() || lane.due() > now {
            return None;
        }
        let io = lane.first;
        let Waiting { command, data, next } = self.held.take(io)?;
        lane.first = next;
        let token = self.flight.unpark(io)?;
        let entry = self.flight.get_mut(&token);
        entry.stage = Stage::Running;
        let opcode = entry.opcode;
        let held = now.since(entry.submitted);
        let shared = if lane.is_limited() { now.since(lane.ready.max(entry.submitted)) } else { held };
        ns.stats.shared[way as usize].add(shared);
        ns.stats.throttled[way as usize].add(held - shared);
        // What waited for its quota pays from when it was due, so that a drive that is looked at late makes up for it, by no more
        // than what was waiting; not for the time that it waited for its turn on the set.
        let turn = if lane.ready == Nanos::MAX { Nanos::ZERO } else { now.since(lane.ready) };
        let since = (lane.due().max(entry.submitted) + turn).min(now);
        if let Some(demand) = demand(opcode, &command, &data) {
            self.charge(&token, demand, since);
        }
        Some((token, command, data))
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
        let weight = Quota::from(&limits).effective_weight();
        let before = std::mem::replace(&mut ns.lanes.share.weight, weight);
        if let Some(set) = self.fair.set(ns.set.0) {
            set.weights = set.weights.saturating_sub(before.into()) + u64::from(weight);
        }
        ns.lanes.watch();
        for way in WAYS {
            self.wait(nsid, way, now);
        }
    }

    /// Namespaces came or went: those that have their NVM Set for themselves need not ask for a turn.
    pub(crate) fn count_sharers(&mut self) {
        for index in 0..self.fair.count() {
            let all = self.namespaces.iter().filter(|(_, ns)| ns.set.0 == index);
            let (count, weights) =
                all.fold((0, 0), |(n, sum), (_, ns)| (n + 1, sum + u64::from(ns.lanes.share.weight)));
            let shares = self.fair.is_shared(index) && count > 1;
            if let Some(set) = self.fair.set(index) {
                set.weights = weights;
            }
            for (_, ns) in self.namespaces.iter_mut().filter(|(_, ns)| ns.set.0 == index) {
                ns.lanes.shares = shares;
                ns.lanes.watch();
            }
        }
    }

    /// Gives held commands back with a status, without having executed them: all for which `status` has one.
    pub(crate) fn return_held(
        &mut self,
        now: Nanos,
        status: impl Fn(&Controllers, u32, &InFlight) -> Option<Status>,
    ) -> bool {
        let mut any = self.fused.waits() && self.return_firsts(now, &status);
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
