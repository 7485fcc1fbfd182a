//! Commands that would hold up the drive: they are done in steps of bounded work, which take turns.
//!
//! One command of each namespace has turns; the others of this namespace come after it. A step takes the controller's own time, and
//! the next one, of whichever namespace, begins when that is over. What a step moves on the media is charged to the namespace as I/O
//! is ([`Core::charge_media`]), and the command's next turn comes no sooner than that allows.

use crate::core::{Core, StepCost, TimedEvent};
use crate::io::commands::Deallocation;
use crate::lba_status::Scan;
use crate::namespaces::change::{Clearing, NamespaceChange};
use crate::zones::report::ZoneReportWork;
use crate::zones::sweep::ZoneSweep;
use media::Nanos;
use nvme::admin::SetFeatures;
use nvme::{IoCommand, NSID_ALL};
use std::collections::{BTreeMap, VecDeque};

/// What a command does in steps.
#[derive(Debug)]
pub(super) enum CommandWork {
    /// Get LBA Status.
    Scan(Scan),
    /// Dataset Management with many blocks.
    Deallocation(Deallocation),
    /// A format, or a delete.
    Change(NamespaceChange),
    /// Set Features that a tenant saves, with its data. It is one step, in which the state is recorded.
    SetFeatures(SetFeatures, Box<[u8]>),
    /// Zone Management Send for all zones.
    ZoneSweep(ZoneSweep),
    /// Zone Management Receive.
    ZoneReport(ZoneReportWork),
    /// A tenant's change of a reservation, which is one step, too.
    Reservation(IoCommand, Box<[u8]>),
}

/// What is done in steps.
#[derive(Debug)]
pub(super) enum QueuedWork {
    /// For the command with this number.
    Command(u32, CommandWork),
    /// The drive records its state.
    Record,
    /// A sanitize operation deallocates all namespaces.
    Sanitize(Clearing),
}

/// Something that is done in steps.
#[derive(Debug)]
pub(super) struct SteppedWork {
    /// The namespace that pays, the first one of several. For the drive's own work, [`NO_NAMESPACE`] or all.
    pub(super) nsid: u32,
    /// When its next step may begin.
    due: Nanos,
    pub(super) work: QueuedWork,
}

/// Everything that is done in steps.
#[derive(Default, Debug)]
pub(crate) struct Steps {
    /// Those that have turns, one of each namespace, the next one first.
    turns: VecDeque<SteppedWork>,
    /// Those that come after them, by namespace.
    behind: BTreeMap<u32, VecDeque<SteppedWork>>,
    /// When the controller has time for the next step.
    free: Nanos,
    /// The time of whoever polls the drive: what is due by then is caught up with.
    present: Nanos,
    /// The time of the event that begins it; `None` without one.
    event: Option<Nanos>,
    /// Whether [`QueuedWork::Record`] waits for its turn.
    records: bool,
}

/// Namespace of work that none pays for.
const NO_NAMESPACE: u32 = 0;

impl Steps {
    /// Whether nothing is done in steps.
    pub fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// Whether a format or a delete is under way.
    pub fn changes_namespaces(&self) -> bool {
        self.turns
            .iter()
            .any(|command| matches!(command.work, QueuedWork::Command(_, CommandWork::Change(_))))
    }

    /// Power was lost.
    pub fn clear(&mut self) {
        *self = Steps::default();
    }

    /// A command, which its caller parks, begins as soon as its turn comes.
    pub(super) fn add(&mut self, core: &mut Core, io: u32, nsid: u32, work: CommandWork) {
        self.push(core, nsid, QueuedWork::Command(io, work));
    }

    /// The drive records its state in a step. Hosts may change it many times before: it is recorded once.
    pub(super) fn record(&mut self, core: &mut Core) {
        if !std::mem::replace(&mut self.records, true) {
            self.push(core, NO_NAMESPACE, QueuedWork::Record);
        }
    }

    /// A sanitize operation deallocates all namespaces.
    pub(super) fn sanitize(&mut self, core: &mut Core, clearing: Clearing) {
        self.push(core, NSID_ALL, QueuedWork::Sanitize(clearing));
    }

    fn push(&mut self, core: &mut Core, nsid: u32, work: QueuedWork) {
        let command = SteppedWork { nsid, due: core.now(), work };
        if self.turns.iter().any(|other| other.nsid == nsid) {
            self.behind.entry(nsid).or_default().push_back(command);
        } else {
            self.turns.push_back(command);
            self.schedule(core);
        }
    }

    /// The drive catches up with what was due until this time. A step that took longer than it should does not have to be caught up with by
    /// several: the thread that polls does something else before the next one.
    pub(super) fn reach(&mut self, present: Nanos) {
        self.present = present;
    }

    /// Sets the event of the next step.
    pub(super) fn schedule(&mut self, core: &mut Core) {
        let Some(due) = self.turns.iter().map(|command| command.due).min() else { return };
        let at = due.max(self.free);
        if self.event.is_none_or(|event| at < event) {
            self.event = Some(at);
            core.events.push(at, TimedEvent::Step);
        }
    }

    /// The command whose turn it is; `None` if the event is of earlier.
    pub(super) fn take(&mut self, now: Nanos) -> Option<SteppedWork> {
        self.event.take_if(|event| *event <= now)?;
        let at = self.turns.iter().position(|command| command.due <= now)?;
        let command = self.turns.remove(at)?;
        self.records &= !matches!(command.work, QueuedWork::Record);
        Some(command)
    }

    /// A step was done. `rest` is the command if it has more; `nsid` is its namespace.
    pub(super) fn end(
        &mut self,
        core: &mut Core,
        nsid: u32,
        rest: Option<SteppedWork>,
        cost: StepCost,
        now: Nanos,
    ) {
        self.free = now.max(self.present) + cost.time;
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
            self.turns.push_back(SteppedWork { due: paid, ..next });
        }
        self.schedule(core);
    }
}
