//! A turn of a command that is done in steps.

use super::Drive;
use super::steps::{CommandWork, QueuedWork};
use crate::contents::Contents;
use crate::core::{ControllerId, Cx, Output, StepCost, Token};
use media::Nanos;

/// The controller's own time to record its state.
const RECORD_TIME: Nanos = Nanos(500_000);

impl Drive {
    /// Does the next step.
    pub(super) fn step<S: Contents>(&mut self, cx: &mut Cx<'_, S>) {
        let Some(mut command) = self.steps.take(cx.now) else { return self.steps.schedule(&mut self.core) };
        let (cost, ended) = match &mut command.work {
            QueuedWork::Command(io, work) => match self.core.commands.unpark(*io) {
                Some(token) => self.step_of_command(token, work, cx),
                None => (StepCost::controller(Nanos::ZERO), true),
            },
            QueuedWork::Record => {
                self.core.record(cx.storage);
                (StepCost::controller(RECORD_TIME), true)
            }
            QueuedWork::Sanitize(clearing) => {
                let (cost, end) = clearing.step(&mut self.core, cx);
                (cost, end.map(|end| self.end_of_sanitize_clearing(end.is_ok(), cx)).is_some())
            }
        };
        let nsid = command.nsid;
        let rest = (!ended).then_some(command);
        self.steps.end(&mut self.core, nsid, rest, cost, cx.now);
    }

    /// Does the next step of a command, which ends with the last one. Returns whether it was.
    fn step_of_command<S: Contents>(
        &mut self,
        token: Token,
        work: &mut CommandWork,
        cx: &mut Cx<'_, S>,
    ) -> (StepCost, bool) {
        let id = ControllerId(self.core.commands.get_mut(&token).controller);
        match work {
            CommandWork::Scan(scan) => {
                let (cost, reply) = scan.step(&mut self.core, id, cx);
                (cost, reply.map(|reply| self.core.reply(token, reply, cx)).is_some())
            }
            CommandWork::Deallocation(rest) => {
                let (cost, end) = rest.step(&mut self.core, cx);
                (cost, end.map(|end| self.settle(token, end.map(Some), cx)).is_some())
            }
            CommandWork::ZoneSweep(sweep) => {
                let (cost, end) = sweep.step(&mut self.core, &token, cx);
                let ended = end.map(|end| {
                    self.core.commands.get_mut(&token).parts -= 1;
                    self.settle(token, end.map(Some), cx);
                });
                (cost, ended.is_some())
            }
            CommandWork::ZoneReport(report) => {
                let (cost, data) = report.step(&self.core);
                let ended = data.map(|bytes| {
                    cx.out.push(Output::Data { io: token.io(), bytes });
                    self.settle(token, Ok(Some(cx.now)), cx);
                });
                (cost, ended.is_some())
            }
            CommandWork::SetFeatures(c, data) => {
                let reply = self.set_features(id, *c, data, cx);
                self.core.reply(token, reply, cx);
                (StepCost::controller(RECORD_TIME), true)
            }
            CommandWork::Reservation(command, data) => {
                let changed = self.reservations.execute(&mut self.core, &token, id, *command, data, cx);
                self.settle(token, changed, cx);
                (StepCost::controller(RECORD_TIME), true)
            }
            CommandWork::Change(change) => {
                let (mut cost, end) = change.clearing.step(&mut self.core, cx);
                let Some(end) = end else { return (cost, false) };
                self.end_change(token, id, change, end, cx);
                cost.time = cost.time.max(RECORD_TIME);
                (cost, true)
            }
        }
    }
}
