//! Arbitration: which command of an I/O queue may start now, and which are held until later.
//!
//! Each namespace has two held queues, one for commands that read and one for those that write. A held queue has the meters of the
//! namespace's quota, and the commands that are held back: first come, first served. Its first command waits for
//! the meters, and then for the namespace's turn on the NVM Set ([`FairQueueing`](super::fair_queueing::FairQueueing)). A held command is in
//! flight for its host. In the drive it has touched nothing yet, and everything is checked again when its turn comes.

use super::controller::{ControllerId, Controllers};
use super::fair_queueing::Direction;
use super::held_queue::{HeldCommand, HeldQueue, NO_COMMAND};
use super::in_flight::{CommandStage, InFlight, Token};
use super::namespace::Namespace;
use super::state::{Core, TimedEvent};
use media::Nanos;
use nvme::command_table::{self, MediaAccess};
use nvme::copy::{Copy, CopySource};
use nvme::quota::Quota;
use nvme::{IoCommand, IoOpcode, Status};

/// Whether a command may start now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StartDecision {
    Now,
    /// It is in its held queue.
    Held,
}

/// What a command asks of a quota, by the command table. A command that changes something without data counts as one that writes. A report
/// counts as one that reads: it takes the link and the drive's time. A Flush asks for nothing: its data was counted when it was written. Neither do
/// reservations: a preempting host must not wait for those that it preempts. A tenant's reservations take turns as steps.
#[inline]
fn demand(opcode: u8, command: &IoCommand, data: &[u8]) -> Option<Demand> {
    let info = command_table::of_io(IoOpcode(opcode))?;
    let direction = match info.media {
        MediaAccess::None if info.changes => return Demand::of_change(command),
        MediaAccess::None => return Demand::of_report(command),
        MediaAccess::Read => Direction::Read,
        MediaAccess::Write => Direction::Write,
    };
    match command {
        IoCommand::Copy(copy) => demand_of_copy(copy, data),
        IoCommand::WriteZeroes(b) if b.deac => Some(Demand::change(b.nsid)),
        _ => command.blocks().map(|b| Demand {
            nsid: b.nsid,
            direction,
            blocks: b.nlb.into(),
            end: b.end(),
            reads: false,
            report: 0,
        }),
    }
}

/// What a command asks of its namespace's quota.
#[derive(Clone, Copy, Debug)]
struct Demand {
    nsid: u32,
    direction: Direction,
    blocks: u64,
    /// The block after the last; `None` if there is no such block.
    end: Option<u64>,
    /// Whether it reads as much as it writes.
    reads: bool,
    /// Bytes that the host gets and that are on no media.
    report: u64,
}

impl Demand {
    /// A change that moves no data.
    fn change(nsid: u32) -> Demand {
        Demand { nsid, direction: Direction::Write, blocks: 0, end: Some(0), reads: false, report: 0 }
    }

    #[cold]
    fn of_report(command: &IoCommand) -> Option<Demand> {
        let (nsid, report) = match command {
            IoCommand::IoManagementReceive(c) => (c.nsid, c.dwords * 4),
            IoCommand::ZoneManagementReceive(c) => (c.nsid, c.bytes()),
            _ => return None,
        };
        Some(Demand { direction: Direction::Read, report, ..Demand::change(nsid) })
    }

    #[cold]
    fn of_change(command: &IoCommand) -> Option<Demand> {
        match command {
            IoCommand::DatasetManagement(c) if c.ad => Some(Demand::change(c.nsid)),
            IoCommand::IoManagementSend(c) => Some(Demand::change(c.nsid)),
            IoCommand::ZoneManagementSend(c) => Some(Demand::change(c.nsid)),
            _ => None,
        }
    }

    /// Whether a namespace's commands of this kind must ask at all.
    #[inline]
    fn is_watched(&self, ns: &Namespace) -> bool {
        let limited = || ns.arbitration.queues[self.direction as usize].is_limited();
        ns.arbitration.watched && (self.blocks > 0 || limited())
    }
}

/// Copy waits as a write of its destination, which pays for the reads, too, wherever the sources are.
#[cold]
fn demand_of_copy(copy: &Copy, data: &[u8]) -> Option<Demand> {
    let each = CopySource::bytes(copy.desfmt)?;
    let sources = data.chunks_exact(each).take(copy.nr.into());
    let blocks =
        sources.filter_map(|bytes| CopySource::parse(copy.desfmt, bytes)).map(|s| u64::from(s.nlb)).sum();
    let end = copy.sdlba.checked_add(blocks);
    Some(Demand { nsid: copy.nsid, direction: Direction::Write, blocks, end, reads: true, report: 0 })
}

impl Core {
    /// Commands of a namespace that wait: those that read, and those that write.
    pub(crate) fn held_of(&self, ns: &Namespace) -> [u64; 2] {
        let count = |queue: &HeldQueue| {
            let next = |io: &u32| self.held.get(*io).map(|held| held.next);
            std::iter::successors(Some(queue.first), next).take_while(|io| *io != NO_COMMAND).count() as u64
        };
        [count(&ns.arbitration.queues[0]), count(&ns.arbitration.queues[1])]
    }

    /// Whether a command may start now; if not, it is kept until it may.
    #[inline]
    pub(crate) fn arbitrate(
        &mut self,
        token: &Token,
        id: ControllerId,
        command: &IoCommand,
        data: &[u8],
        now: Nanos,
    ) -> StartDecision {
        // A command asks of the namespace that it names. Most namespaces have no quota, and a set of their own.
        let nsid = self.commands.get_mut(token).nsid;
        match self.namespaces.get(nsid) {
            Some(ns) if ns.arbitration.watched => self.ask(token, id, command, data, now),
            _ => StartDecision::Now,
        }
    }

    /// Whether a command may start now whose namespace has a quota or shares its set.
    #[inline(never)]
    fn ask(
        &mut self,
        token: &Token,
        id: ControllerId,
        command: &IoCommand,
        data: &[u8],
        now: Nanos,
    ) -> StartDecision {
        let opcode = self.commands.get_mut(token).opcode;
        let Some(demand) = demand(opcode, command, data) else { return StartDecision::Now };
        if !self.namespaces.get(demand.nsid).is_some_and(|ns| demand.is_watched(ns)) {
            return StartDecision::Now;
        }
        let Demand { nsid, direction, .. } = demand;
        // A command that will be refused does not wait, and costs nothing.
        if self.attached(id, nsid).is_err() || self.check_reservation(id, opcode, nsid).is_err() {
            return StartDecision::Now;
        }
        let Some(ns) = self.namespaces.get_mut(nsid) else { return StartDecision::Now };
        if demand.end.is_none_or(|end| end > ns.blocks())
            || demand.report > u64::from(self.config.max_transfer)
        {
            return StartDecision::Now;
        }
        let mut turn = true;
        if ns.arbitration.shares
            && demand.blocks > 0
            && let Some(set) = self.fair.set(ns.set.0)
        {
            set.note(nsid, now);
            turn = set.may_start(nsid, &ns.arbitration.share, now);
        }
        let queue = &mut ns.arbitration.queues[direction as usize];
        let (first, due) = (queue.is_empty(), queue.due() <= now);
        if first && due && turn {
            self.charge(token, demand, now);
            return StartDecision::Now;
        }
        let io = token.io().0;
        // Those of Copy and of changes.
        let kept = if demand.reads || demand.blocks == 0 { data.into() } else { Box::default() };
        self.held.put(io, *command, kept);
        if first {
            queue.first = io;
        } else {
            self.held.link(queue.last, io);
        }
        queue.last = io;
        self.commands.get_mut(token).stage = CommandStage::Held;
        if first {
            self.wait(nsid, direction, now);
        }
        StartDecision::Held
    }

    /// A command starts: its namespace pays for it.
    fn charge(&mut self, token: &Token, demand: Demand, now: Nanos) {
        let Demand { nsid, direction, blocks, reads, report, .. } = demand;
        let Some(ns) = self.namespaces.get_mut(nsid) else { return };
        let bytes = blocks << ns.shift;
        ns.arbitration.queues[direction as usize].charge(now, bytes.saturating_add(report));
        if reads {
            ns.arbitration.queues[Direction::Read as usize].charge(now, bytes);
        }
        if !ns.arbitration.shares {
            return;
        }
        let index = ns.set.0;
        let Some(set) = self.fair.set(index) else { return };
        let cost = set.cost(direction, bytes, ns.arbitration.write_factor);
        set.start(&mut ns.arbitration.share, cost);
        let entry = self.commands.get_mut(token);
        (entry.cost, entry.set) = (cost, index);
        self.rebase(index);
    }

    /// Makes the tags of a set smaller, when it is time.
    fn rebase(&mut self, index: u8) {
        let far = self.fair.rebase(index);
        if far > 0 {
            self.namespaces.iter_mut().filter(|(_, ns)| ns.set.0 == index).for_each(|(_, ns)| {
                ns.arbitration.share.tag = ns.arbitration.share.tag.saturating_sub(far);
            });
        }
    }

    /// A namespace pays for bytes of the media that no command of an I/O queue moves: its quota and its share of the set. Returns when it
    /// could have the next ones, so that it gets no more than its share while others are there.
    pub(crate) fn charge_media(&mut self, nsid: u32, direction: Direction, bytes: u64, now: Nanos) -> Nanos {
        let Some(ns) = self.namespaces.get_mut(nsid).filter(|_| bytes > 0) else { return now };
        let queue = &mut ns.arbitration.queues[direction as usize];
        queue.charge(now, bytes);
        let due = queue.due().max(now);
        let index = ns.set.0;
        let Some(set) = self.fair.set(index).filter(|_| ns.arbitration.shares) else { return due };
        let cost = set.cost(direction, bytes, ns.arbitration.write_factor);
        let share = &mut ns.arbitration.share;
        set.take(share, cost);
        let parts = if set.has_company(nsid, now) { set.weights / u64::from(share.weight.max(1)) } else { 1 };
        self.rebase(index);
        due.max(now + Nanos(u64::from(cost).saturating_mul(parts.max(1))))
    }

    /// Lets the first command of a held queue wait for its quota, and then for its turn on the set.
    pub(crate) fn wait(&mut self, nsid: u32, direction: Direction, now: Nanos) {
        let Some(ns) = self.namespaces.get_mut(nsid) else { return };
        let queue = &mut ns.arbitration.queues[direction as usize];
        if queue.is_empty() || queue.ready != Nanos::MAX {
            return;
        }
        let due = queue.due();
        if due <= now
            && ns.arbitration.shares
            && let Some(set) = self.fair.set(ns.set.0)
        {
            queue.ready = now;
            set.wait(ns.arbitration.share.tag, nsid, direction);
            self.fair.stirred = true;
        } else if due < queue.timer {
            queue.timer = due;
            self.events.push(due, TimedEvent::HeldQueue(nsid, direction));
        }
    }

    /// The time has come that a held queue waited for. Returns whether its first commands may start without a turn on the set. `None` if the
    /// time is of an earlier quota, or of an earlier namespace.
    pub(crate) fn take_held_queue_timer(
        &mut self,
        nsid: u32,
        direction: Direction,
        now: Nanos,
    ) -> Option<bool> {
        let ns = self.namespaces.get_mut(nsid)?;
        let shares = ns.arbitration.shares;
        let queue = &mut ns.arbitration.queues[direction as usize];
        if queue.timer > now {
            return None;
        }
        queue.timer = Nanos::MAX;
        Some(!shares && queue.ready == Nanos::MAX)
    }

    /// The held queue whose turn it is on a set. After [`first_of`](Core::first_of) its turn [ends](Core::end_turn).
    pub(crate) fn next_turn(&mut self, set: u8, now: Nanos) -> Option<(u32, Direction)> {
        loop {
            let share = |nsid| self.namespaces.get(nsid).map(|ns| &ns.arbitration.share);
            let (tag, nsid, direction) = self.fair.set(set)?.next(now, share)?;
            let Some(ns) = self.namespaces.get_mut(nsid).filter(|ns| ns.set.0 == set) else { continue };
            let queue = &mut ns.arbitration.queues[direction as usize];
            if queue.ready == Nanos::MAX {
                // Of an earlier namespace.
                continue;
            }
            if ns.arbitration.share.tag <= tag || queue.is_empty() {
                return Some((nsid, direction));
            }
            // Its other held queue had a turn meanwhile.
            let tag = ns.arbitration.share.tag;
            if let Some(set) = self.fair.set(set) {
                set.wait(tag, nsid, direction);
            }
        }
    }

    /// A held queue had its turn on its set: its next command waits for another one.
    pub(crate) fn end_turn(&mut self, nsid: u32, direction: Direction, now: Nanos) {
        if let Some(ns) = self.namespaces.get_mut(nsid) {
            ns.arbitration.queues[direction as usize].ready = Nanos::MAX;
        }
        self.wait(nsid, direction, now);
    }

    /// Takes the first command of a held queue, if its quota lets it go.
    pub(crate) fn first_of(
        &mut self,
        nsid: u32,
        direction: Direction,
        now: Nanos,
    ) -> Option<(Token, IoCommand, Box<[u8]>)> {
        let ns = self.namespaces.get_mut(nsid)?;
        let queue = &mut ns.arbitration.queues[direction as usize];
        if queue.is_empty() || queue.due() > now {
            return None;
        }
        let io = queue.first;
        let HeldCommand { command, data, next } = self.held.take(io)?;
        queue.first = next;
        let token = self.commands.unpark(io)?;
        let entry = self.commands.get_mut(&token);
        entry.stage = CommandStage::Running;
        let opcode = entry.opcode;
        let held = now.since(entry.submitted);
        let shared = if queue.is_limited() { now.since(queue.ready.max(entry.submitted)) } else { held };
        ns.stats.shared[direction as usize].add(shared);
        ns.stats.throttled[direction as usize].add(held - shared);
        // A command that waited for its quota pays from the time when it was due. So a drive that is polled late catches up, by no more
        // than the commands that waited. The wait for a turn on the set does not count.
        let turn = if queue.ready == Nanos::MAX { Nanos::ZERO } else { now.since(queue.ready) };
        let since = (queue.due().max(entry.submitted) + turn).min(now);
        if let Some(demand) = demand(opcode, &command, &data) {
            self.charge(&token, demand, since);
        }
        Some((token, command, data))
    }

    /// A namespace has another quota. It is in force from now on, also for commands that wait.
    pub(crate) fn apply_quota(&mut self, nsid: u32, now: Nanos) {
        let Some(ns) = self.namespaces.get_mut(nsid) else { return };
        let limits = ns.quota.current;
        let rates =
            [(limits.read_bandwidth, limits.read_commands), (limits.write_bandwidth, limits.write_commands)];
        for (queue, (bytes, commands)) in ns.arbitration.queues.iter_mut().zip(rates) {
            queue.bytes.set(now, bytes, limits.burst());
            queue.commands.set(now, commands, limits.burst());
        }
        let weight = Quota::from(&limits).effective_weight();
        let before = std::mem::replace(&mut ns.arbitration.share.weight, weight);
        if let Some(set) = self.fair.set(ns.set.0) {
            set.weights = set.weights.saturating_sub(before.into()) + u64::from(weight);
        }
        ns.arbitration.watch();
        for direction in [Direction::Read, Direction::Write] {
            self.wait(nsid, direction, now);
        }
    }

    /// Namespaces came or went: those that have their NVM Set for themselves need not ask for a turn.
    pub(crate) fn count_sharers(&mut self) {
        for index in 0..self.fair.count() {
            let all = self.namespaces.iter().filter(|(_, ns)| ns.set.0 == index);
            let (count, weights) =
                all.fold((0, 0), |(n, sum), (_, ns)| (n + 1, sum + u64::from(ns.arbitration.share.weight)));
            let shares = self.fair.is_shared(index) && count > 1;
            if let Some(set) = self.fair.set(index) {
                set.weights = weights;
            }
            for (_, ns) in self.namespaces.iter_mut().filter(|(_, ns)| ns.set.0 == index) {
                ns.arbitration.shares = shares;
                ns.arbitration.watch();
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
            for queue in &mut ns.arbitration.queues {
                let (mut io, mut last) = (queue.first, NO_COMMAND);
                while let Some(&HeldCommand { next, .. }) = self.held.get(io) {
                    let token = self.commands.unpark(io);
                    let status = token.as_ref().and_then(|token| {
                        let entry = self.commands.get_mut(token);
                        status(&self.controllers, io, entry)
                    });
                    if let (Some(token), Some(status)) = (token, status) {
                        let entry = self.commands.get_mut(&token);
                        (entry.stage, entry.status, entry.at) = (CommandStage::Running, status, now);
                        self.events.push(now, TimedEvent::End(token.park()));
                        self.held.take(io);
                        match last {
                            NO_COMMAND => queue.first = next,
                            last => self.held.link(last, next),
                        }
                        any = true;
                    } else {
                        last = io;
                    }
                    io = next;
                }
                queue.last = last;
            }
        }
        any
    }

    /// Gives back what a controller has no way to any more: a namespace was detached, or is not accessible.
    pub(crate) fn return_unreachable(&mut self, now: Nanos) {
        self.return_held(now, |controllers, _, entry| {
            let controller = controllers.get(ControllerId(entry.controller))?;
            match super::access::is_open(controller.ana) {
                Err(failure) => Some(failure.status),
                Ok(()) if !controller.is_attached(entry.nsid) => Some(Status::INVALID_FIELD.with_dnr()),
                Ok(()) => None,
            }
        });
    }

    /// Gives back commands that wait for namespaces that are about to change.
    pub(crate) fn return_held_of(&mut self, now: Nanos, nsids: &[u32]) {
        self.return_held(now, |_, _, entry| {
            nsids.contains(&entry.nsid).then_some(Status::NAMESPACE_NOT_READY.code())
        });
    }

    /// Gives back first commands of fused operations that wait for their second, as [`return_held`](Core::return_held) does.
    pub(crate) fn return_firsts(
        &mut self,
        now: Nanos,
        status: impl Fn(&Controllers, u32, &InFlight) -> Option<Status>,
    ) -> bool {
        let mut any = false;
        for first in self.fused.firsts.values_mut() {
            let Some(token) = first.and_then(|(io, _)| self.commands.unpark(io)) else { continue };
            let entry = self.commands.get_mut(&token);
            let Some(status) = status(&self.controllers, token.io().0, entry) else {
                token.park();
                continue;
            };
            (entry.status, entry.at) = (status, now);
            self.events.push(now, TimedEvent::End(token.park()));
            *first = None;
            any = true;
        }
        any
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nvme::Command;

    /// A command that moves or changes something asks its namespace's quota. A new one needs an answer here.
    #[test]
    fn every_command_with_work_asks_its_quota() {
        let reservations = [
            IoOpcode::RESERVATION_REGISTER,
            IoOpcode::RESERVATION_ACQUIRE,
            IoOpcode::RESERVATION_RELEASE,
            IoOpcode::RESERVATION_REPORT,
        ];
        let others = [IoOpcode::FLUSH, IoOpcode::FABRICS];
        let free: Vec<u8> = reservations.iter().chain(&others).map(|opcode| opcode.0).collect();
        for info in command_table::io_commands().filter(|info| !free.contains(&info.opcode)) {
            let mut command = Command::new(info.opcode, 1);
            // AD of Dataset Management, an action of zone management.
            (command.cdw11, command.cdw13) = (4.into(), 1.into());
            let parsed = IoCommand::parse(&command).unwrap();
            assert!(demand(info.opcode, &parsed, &[]).is_some(), "{:02x}h", info.opcode);
        }
    }
}
