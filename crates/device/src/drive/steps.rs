//! Commands that would hold up the drive: they are done in steps of bounded work, which take turns.
//!
//! One command of each namespace has turns; the others of this namespace come after it. A step takes the controller's own time, and
//! the next one, of whichever namespace, begins when that is over. What a step moves on the media is charged to the namespace as I/O
//! is ([`Core::charge_media`]), and the command's next turn comes no sooner than that allows.

use super::Drive;
use crate::contents::Contents;
use crate::core::{ControllerId, Core, Cx, StepCost, TimedEvent};
use crate::io::commands::Deallocation;
use crate::lba_status::Scan;
use crate::namespaces::change::NamespaceChange;
use media::Nanos;
use nvme::IoCommand;
use nvme::admin::SetFeatures;
use std::collections::{BTreeMap, VecDeque};

/// The controller's own time to record its state.
const RECORD_TIME: Nanos = Nanos(500_000);

/// What is done in steps.
#[derive(Debug)]
pub(super) enum SteppedWork {
    /// Get LBA Status.
    Scan(Scan),
    /// Dataset Management with many blocks.
    Deallocation(Deallocation),
    /// A format, or a delete.
    Change(NamespaceChange),
    /// Set Features that a tenant saves, with its data. It is one step, in which the state is recorded.
    SetFeatures(SetFeatures, Box<[u8]>),
    /// A tenant's change of a reservation, likewise.
    Reservation(IoCommand, Box<[u8]>),
}

/// A command that is done in steps.
#[derive(Debug)]
struct SteppedCommand {
    io: u32,
    /// The namespace that pays; the first one of several.
    nsid: u32,
    /// When its next step may begin.
    due: Nanos,
    work: SteppedWork,
}

/// All commands that are done in steps.
#[derive(Default, Debug)]
pub(crate) struct Steps {
    /// Those that have turns, one of each namespace, the next one first.
    turns: VecDeque<SteppedCommand>,
    /// Those that come after them, by namespace.
    behind: BTreeMap<u32, VecDeque<SteppedCommand>>,
    /// When the controller has time for the next step.
    free: Nanos,
    /// The time of the event that begins it; `None` without one.
    event: Option<Nanos>,
}

impl Steps {
    /// Whether nothing is done in steps.
    pub fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// Whether a format or a delete is under way.
    pub fn changes_namespaces(&self) -> bool {
        self.turns.iter().any(|command| matches!(command.work, SteppedWork::Change(_)))
    }

    /// Power was lost.
    pub fn clear(&mut self) {
        *self = Steps::default();
    }

    /// A command, which its caller parks, begins as soon as its turn comes.
    pub(super) fn add(&mut self, core: &mut Core, io: u32, nsid: u32, work: SteppedWork) {
        let command = SteppedCommand { io, nsid, due: core.now(), work };
        if self.turns.iter().any(|other| other.nsid == nsid) {
            self.behind.entry(nsid).or_default().push_back(command);
        } else {
            self.turns.push_back(command);
            self.schedule(core);
        }
    }

    /// Sets the event of the next step.
    fn schedule(&mut self, core: &mut Core) {
        let Some(due) = self.turns.iter().map(|command| command.due).min() else { return };
        let at = due.max(self.free);
        if self.event.is_none_or(|event| at < event) {
            self.event = Some(at);
            core.events.push(at, TimedEvent::Step);
        }
    }

    /// The command whose turn it is; `None` if the event is of earlier.
    fn take(&mut self, now: Nanos) -> Option<SteppedCommand> {
        self.event.take_if(|event| *event <= now)?;
        let at = self.turns.iter().position(|command| command.due <= now)?;
        self.turns.remove(at)
    }

    /// A step was done. `rest` is the command if it has more; `nsid` is its namespace.
    fn end(&mut self, core: &mut Core, nsid: u32, rest: Option<SteppedCommand>, cost: StepCost, now: Nanos) {
        self.free = now + cost.time;
        let next = rest.or_else(|| {
            let behind = self.behind.get_mut(&nsid)?;
            let next = behind.pop_front();
            if behind.is_empty() {
                self.behind.remove(&nsid);
            }
            next
        });
        let paid = core.charge_media(nsid, cost.direction, cost.bytes, now);
        if let Some(next) = next {
            self.turns.push_back(SteppedCommand { due: paid, ..next });
        }
        self.schedule(core);
    }
}

impl Drive {
    /// Does the next step.
    pub(super) fn step<S: Contents>(&mut self, cx: &mut Cx<'_, S>) {
        let Some(mut command) = self.steps.take(cx.now) else { return self.steps.schedule(&mut self.core) };
        let (io, nsid) = (command.io, command.nsid);
        let Some(token) = self.core.commands.unpark(io) else {
            return self.steps.end(&mut self.core, nsid, None, StepCost::controller(Nanos::ZERO), cx.now);
        };
        let id = ControllerId(self.core.commands.get_mut(&token).controller);
        let (cost, ended) = match &mut command.work {
            SteppedWork::Scan(scan) => {
                let (cost, reply) = scan.step(&mut self.core, id, cx);
                (cost, reply.map(|reply| self.core.reply(token, reply, cx)).is_some())
            }
            SteppedWork::Deallocation(rest) => {
                let (cost, end) = rest.step(&mut self.core, cx);
                (cost, end.map(|end| self.settle(token, end.map(Some), cx)).is_some())
            }
            SteppedWork::SetFeatures(c, data) => {
                let reply = self.set_features(id, *c, data, cx);
                self.core.reply(token, reply, cx);
                (StepCost::controller(RECORD_TIME), true)
            }
            SteppedWork::Reservation(command, data) => {
                let changed = self.reservations.execute(&mut self.core, &token, id, *command, data, cx);
                self.settle(token, changed, cx);
                (StepCost::controller(RECORD_TIME), true)
            }
            SteppedWork::Change(change) => {
                let (cost, end) = change.step(&mut self.core, cx);
                (cost, end.map(|end| self.end_change(token, id, change, end, cx)).is_some())
            }
        };
        let rest = (!ended).then_some(command);
        self.steps.end(&mut self.core, nsid, rest, cost, cx.now);
    }
}
