//! Commands that have met faults of the protocol, and completions that are held back.

use device::ControllerId;
use ftl::Io;
use media::Nanos;
use nvme::protocol_fault::{CompletionFault, ProtocolAction};
use nvme::{Command, Completion, Nsid, Status, U32};
use std::collections::BTreeMap;

/// Identify data structures that are kept for a fault: 16 MiB.
pub(super) const MAX_STALE: usize = 4096;

/// A span of the drive's time.
pub(super) fn micros(time: u32) -> Nanos {
    Nanos(u64::from(time) * 1000)
}

/// What is to become of a command's completion.
#[derive(Clone, Copy, Debug)]
pub(super) enum Effect {
    /// An injected fault.
    Fault(ProtocolAction),
    /// It comes no earlier than this.
    NotBefore(Nanos),
    /// It is an Abort of a command that was held back here.
    HasAborted,
    /// It reads the status of a controller that is not ready for its host.
    NotReady,
}

/// A command in flight that has met a fault.
#[derive(Clone, Copy, Debug)]
pub(super) struct StruckCommand {
    pub io: Io,
    pub controller: ControllerId,
    pub qid: u16,
    pub effect: Effect,
}

/// A completion that is held back.
#[derive(Clone, Copy, Debug)]
pub(super) struct WithheldCompletion {
    pub io: Io,
    pub controller: ControllerId,
    pub qid: u16,
    pub completion: Completion,
    pub fault: CompletionFault,
    /// When it is delivered; [`Nanos::MAX`] for one that was dropped.
    pub due: Nanos,
}

/// Names an Identify data structure: controller, namespace, dwords 10, 11 and 14.
pub(super) type IdentifyKey = (ControllerId, Nsid, [u32; 3]);

pub(super) fn identify_key(controller: ControllerId, command: &Command) -> IdentifyKey {
    let dwords = [command.cdw10, command.cdw11, command.cdw14].map(U32::get);
    (controller, command.nsid.get(), dwords)
}

/// What the engine knows of commands that have met faults.
#[derive(Debug)]
pub(super) struct StruckCommands {
    pub struck: Vec<StruckCommand>,
    pub withheld: Vec<WithheldCompletion>,
    /// Commands for whose queues an interrupt comes.
    pub interrupts: Vec<Io>,
    /// Controllers that vanish, and until when.
    pub vanishing: Vec<(ControllerId, Nanos)>,
    /// Controllers that are not ready for their hosts yet, and until when.
    pub late: Vec<(ControllerId, Nanos)>,
    /// Identify data as it was when the fault was armed, or when a controller asked first.
    pub stale: BTreeMap<IdentifyKey, Vec<u8>>,
    /// When something is to be done here; [`Nanos::MAX`] if nothing is.
    pub due: Nanos,
}

impl Default for StruckCommands {
    fn default() -> Self {
        StruckCommands {
            struck: Vec::new(),
            withheld: Vec::new(),
            interrupts: Vec::new(),
            vanishing: Vec::new(),
            late: Vec::new(),
            stale: BTreeMap::new(),
            due: Nanos::MAX,
        }
    }
}

impl StruckCommands {
    /// Whether a command that comes could concern one of these.
    pub fn is_concerned(&self) -> bool {
        !(self.struck.is_empty() && self.withheld.is_empty() && self.late.is_empty())
    }

    /// Whether nothing is remembered of any command.
    #[cfg(test)]
    pub fn struck_is_empty(&self) -> bool {
        !self.is_concerned() && self.interrupts.is_empty() && self.vanishing.is_empty()
    }

    pub fn look_again(&mut self) {
        let first = self.withheld.iter().map(|withheld| withheld.due).min().unwrap_or(Nanos::MAX);
        let at_once = !(self.interrupts.is_empty() && self.vanishing.is_empty());
        self.due = if at_once { Nanos::ZERO } else { first };
    }

    /// The effects on a command, which has ended.
    pub fn take(&mut self, io: Io) -> Vec<StruckCommand> {
        let (mine, others) = std::mem::take(&mut self.struck).into_iter().partition(|struck| struck.io == io);
        self.struck = others;
        mine
    }

    /// Commands come back at once with this status. Whether there was one.
    pub fn release(
        &mut self,
        status: Status,
        which: impl Fn(ControllerId, u16, Option<u16>) -> bool,
    ) -> bool {
        let mut any = false;
        for withheld in &mut self.withheld {
            let cid = withheld.completion.cid.get();
            if which(withheld.controller, withheld.qid, Some(cid)) {
                (withheld.due, withheld.fault) = (Nanos::ZERO, CompletionFault::None);
                withheld.completion = Completion::new(cid, status);
                any = true;
            }
        }
        if any {
            self.due = Nanos::ZERO;
        }
        // What is still being executed comes back when it has ended.
        self.struck.retain(|struck| !which(struck.controller, struck.qid, None));
        any
    }

    /// A controller is gone.
    pub fn forget_controller(&mut self, controller: ControllerId) {
        self.end_queues(controller, None);
        self.stale.retain(|key, _| key.0 != controller);
        self.vanishing.retain(|(vanishing, _)| *vanishing != controller);
    }

    /// A queue of a controller is gone, or all are.
    pub fn end_queues(&mut self, controller: ControllerId, qid: Option<u16>) {
        self.release(Status::ABORTED_SQ_DELETION, |of, on, _| {
            of == controller && qid.is_none_or(|qid| qid == on)
        });
        if qid.is_none() {
            self.late.retain(|(late, _)| *late != controller);
        }
    }
}
