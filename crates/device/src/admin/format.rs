//! Format NVM (Base 5.1.10, NVM 4.1.4).

use crate::contents::Contents;
use crate::core::{CommandKind, ControllerId, Cx, Failure, Outcome, Reply, Token};
use crate::drive::Drive;
use crate::keys;
use crate::lba_format::LbaFormat;
use nvme::admin::{AdminCommand, FormatNvm, SecureErase};
use nvme::log::SelfTestOutcome;
use nvme::{NSID_ALL, Status};

impl Drive {
    /// Whether a controller's host may have a namespace of this format with these settings.
    pub(super) fn check_format(
        &self,
        id: ControllerId,
        index: u8,
        extended: bool,
        protection: u8,
    ) -> Result<LbaFormat, Failure> {
        let format =
            self.core.config.lba_formats.get(usize::from(index)).copied().ok_or(Status::INVALID_FORMAT)?;
        if format.extension() != 0 && !self.core.controller(id)?.behavior.extended_formats() {
            // NVM 4.1.4: the host has not said that it knows such formats (LBAFEE).
            return Err(Status::INVALID_NAMESPACE.into());
        }
        let impossible = protection > 3 || (protection != 0 && !format.can_protect());
        // Metadata travels with the data only (MC).
        if impossible || (format.metadata > 0 && !extended) {
            return Err(Status::INVALID_FORMAT.into());
        }
        Ok(format)
    }

    pub(super) fn format<S: Contents>(
        &mut self,
        token: &Token,
        id: ControllerId,
        c: FormatNvm,
        cx: &mut Cx<'_, S>,
    ) -> Outcome {
        let format = self.check_format(id, c.lbaf, c.mset, c.pi)?;
        let controller = self.core.controller(id)?;
        let targets: Vec<u32> = if c.nsid == NSID_ALL {
            self.core.namespaces.ids().into_iter().filter(|nsid| controller.is_attached(*nsid)).collect()
        } else if self.core.namespaces.get(c.nsid).is_some() {
            vec![c.nsid]
        } else {
            return Err(self.core.no_namespace(c.nsid));
        };
        keys::refuse_locked(&self.core, &targets)?;
        for nsid in &targets {
            self.refuse_read_only(*nsid)?;
        }
        let plain = |nsid: &u32| self.core.namespaces.get(*nsid).is_some_and(|ns| ns.key.is_none());
        if c.ses == SecureErase::CRYPTOGRAPHIC && targets.iter().any(plain) {
            // A new key does not erase what no key encrypts (FNA).
            return Err(Failure::field(41));
        }
        let idle = self.core.claim(&targets, cx.now);
        if !idle {
            return self.core.wait_for_idle(token, id, AdminCommand::FormatNvm(c));
        }
        self.remember_format_start(id, &c, cx.now);
        let outcome = self.format_all(targets, &c, format, cx);
        self.remember_format_end(id, &c, &outcome, cx.now);
        self.core.record(cx.storage);
        let entry = self.core.commands.get_mut(token);
        // What is erased for good must be so when the host is told.
        entry.forget = c.ses != SecureErase::NONE;
        entry.sync = entry.forget;
        outcome
    }

    fn format_all<S: Contents>(
        &mut self,
        targets: Vec<u32>,
        c: &FormatNvm,
        format: LbaFormat,
        cx: &mut Cx<'_, S>,
    ) -> Outcome {
        for nsid in targets {
            self.end_self_test_of(nsid, SelfTestOutcome::FORMAT, cx);
            let Some(namespace) = self.core.namespaces.get_mut(nsid) else { continue };
            namespace.closing = false;
            namespace.protection_type = c.pi;
            namespace.protection_first = c.pil && c.pi != 0;
            // The whole storage tag is checked, as Format has no mask.
            namespace.storage_mask = u64::MAX;
            namespace.stamp = 0;
            namespace.set_format(c.lbaf, format);
            let (volume, bytes) = (namespace.volume, namespace.volume_bytes());
            self.core
                .ftl
                .trim(cx.now, volume, 0, bytes, cx.storage)
                .map_err(|fault| Failure::of_fault(fault, CommandKind::Write))?;
            let keyed = self.core.namespaces.get(nsid).is_some_and(|ns| ns.key.is_some());
            if c.ses == SecureErase::USER_DATA && !keyed {
                self.core.ftl.scrub(volume, cx.storage);
            }
            // A new key erases what the old one encrypts, also for User Data Erase (Base 5.1.10).
            if (c.ses != SecureErase::NONE || !keyed) && !self.core.drive_key.locked {
                keys::renew(&mut self.core, nsid, cx.storage)?;
            }
            let affected = self.core.attached_controllers(nsid);
            self.core.namespace_changed(nsid, &affected, cx);
        }
        Ok(Reply::Done(0))
    }
}
