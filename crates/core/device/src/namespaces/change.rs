//! What a format, a delete and a sanitize operation do first, in steps: they give up everything that their namespaces hold.

use crate::contents::Contents;
use crate::core::{CommandKind, Core, Cx, Failure, StepCost, WORK_TIME};
use drive_config::LbaFormat;
use media::Nanos;
use nvme::admin::FormatNvm;

/// The command, for when everything is given up.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ChangeCommand {
    Format(FormatNvm, LbaFormat),
    Delete,
}

/// A format or a delete on its way. Its namespaces take no commands.
#[derive(Debug)]
pub(crate) struct NamespaceChange {
    pub command: ChangeCommand,
    pub clearing: Clearing,
}

impl NamespaceChange {
    pub fn new(command: ChangeCommand, targets: Vec<u32>) -> NamespaceChange {
        NamespaceChange { command, clearing: Clearing::new(targets) }
    }
}

/// Namespaces that give up everything they hold.
#[derive(Debug)]
pub(crate) struct Clearing {
    pub targets: Vec<u32>,
    /// The first of them that holds something, and where in it.
    at: usize,
    byte: u64,
}

impl Clearing {
    pub fn new(targets: Vec<u32>) -> Clearing {
        Clearing { targets, at: 0, byte: 0 }
    }

    /// Gives up some of it. With a result, it was the last step.
    pub fn step<S: Contents>(
        &mut self,
        core: &mut Core,
        cx: &mut Cx<'_, S>,
    ) -> (StepCost, Option<Result<(), Failure>>) {
        let target = self.targets.get(self.at).and_then(|nsid| core.namespaces.get(*nsid));
        let Some((volume, bytes)) = target.map(|ns| (ns.volume, ns.volume_bytes())) else {
            return (StepCost::controller(Nanos(WORK_TIME)), Some(Ok(())));
        };
        let done = match core.ftl.clear_step(cx.now, volume, self.byte, bytes, cx.storage) {
            Ok(done) => done,
            Err(fault) => {
                let failure = Failure::of_fault(fault, CommandKind::Write);
                return (StepCost::controller(Nanos(WORK_TIME)), Some(Err(failure)));
            }
        };
        self.byte += done.bytes;
        if self.byte >= bytes {
            (self.at, self.byte) = (self.at + 1, 0);
        }
        let ended = self.at >= self.targets.len();
        (StepCost::controller(Nanos(done.work * WORK_TIME)), ended.then_some(Ok(())))
    }
}
