//! A sanitize operation, with the components that have a part in it: keys, windows, self-test and the Persistent Event log.

use super::Drive;
use crate::contents::Contents;
use crate::core::{AdminResult, ControllerId, Cx, Failure, Reply, Token};
use crate::identify;
use crate::namespaces::change::Clearing;
use crate::{keys, persistent_event_log, sanitize, self_test};
use nvme::Status;
use nvme::admin::Sanitize;
use nvme::log::SelfTestOutcome;

impl Drive {
    /// The command Sanitize.
    pub(super) fn sanitize<S: Contents>(
        &mut self,
        token: &Token,
        id: ControllerId,
        c: Sanitize,
        cx: &mut Cx<'_, S>,
    ) -> AdminResult {
        if self.steps.changes_namespaces() {
            return Err(Failure::transient(Status::FORMAT_IN_PROGRESS));
        }
        let crypto_erase = keys::can_crypto_erase(&self.core);
        if !self.sanitize.admit(&mut self.core, id, &c, crypto_erase, cx)? {
            return Ok(Reply::Done(0));
        }
        self.sanitize.announce(&mut self.core, token, &c);
        self_test::end(&mut self.core, SelfTestOutcome::SANITIZE, cx);
        let sanicap = identify::controller(&self.core, &self.identify_inputs(), id).sanicap;
        persistent_event_log::sanitize_start(&mut self.core, cx.now, id, c, sanicap);
        self.sanitize.make_durable(&self.core, cx)
    }

    /// An operation that waits begins to erase if nothing is in the way.
    #[cold]
    pub(super) fn erase_if_idle<S: Contents>(&mut self, cx: &mut Cx<'_, S>) {
        let shutting_down = !self.shutdowns.is_empty();
        if !self.steps.is_empty() || !self.sanitize.begin_erase(&mut self.core, shutting_down, cx.now) {
            return;
        }
        let mut nsids = self.core.namespaces.ids().into_iter();
        let keys_are_new = nsids.all(|nsid| keys::renew(&mut self.core, nsid, cx.storage).is_ok());
        if keys_are_new && !self.core.persistent.sanitize.is_crypto() {
            self.windows.leave_all(&mut self.core, cx);
        }
        if !keys_are_new {
            return self.sanitize_ended(false, cx);
        }
        let all = Clearing::new(self.core.namespaces.ids());
        self.steps.sanitize(&mut self.core, all);
    }

    /// All namespaces are deallocated, or one of them cannot be.
    pub(super) fn end_of_sanitize_clearing<S: Contents>(&mut self, ok: bool, cx: &mut Cx<'_, S>) {
        if !ok || !self.sanitize.erase(&mut self.core, cx) {
            self.sanitize_ended(false, cx);
        }
    }

    /// An operation has ended, well or not.
    pub(super) fn sanitize_ended<S: Contents>(&mut self, ok: bool, cx: &mut Cx<'_, S>) {
        self.sanitize.end(&mut self.core, ok);
        let status = self.sanitize.status(&self.core, keys::can_crypto_erase(&self.core), cx.now);
        persistent_event_log::sanitize_end(&mut self.core, cx.now, &status);
        sanitize::tell_end(&mut self.core, cx);
    }
}
