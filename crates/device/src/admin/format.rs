//! Format NVM (Base 5.1.10, NVM 4.1.4).

use crate::contents::Contents;
use crate::controller::ControllerId;
use crate::drive::{Cx, Drive, Failure, Outcome, Reply};
use crate::flight::{Kind, Token};
use nvme::admin::{AdminCommand, FormatNvm, SecureErase};
use nvme::{NSID_ALL, Status};

impl Drive {
    pub(super) fn format<S: Contents>(
        &mut self,
        token: &Token,
        id: ControllerId,
        c: FormatNvm,
        cx: &mut Cx<'_, S>,
    ) -> Outcome {
        let size = self.config.lba_sizes.get(usize::from(c.lbaf)).copied();
        // No metadata and no protection information: their settings must be off.
        let size = size.filter(|_| c.pi == 0 && !c.mset).ok_or(Status::INVALID_FORMAT)?;
        if c.ses == SecureErase::CRYPTOGRAPHIC {
            // Needs keys, which this drive does not have (FNA).
            return Err(Failure::field(41));
        }
        let controller = self.controller(id)?;
        let targets: Vec<u32> = if c.nsid == NSID_ALL {
            self.namespaces.ids().into_iter().filter(|nsid| controller.is_attached(*nsid)).collect()
        } else if self.namespaces.get(c.nsid).is_some() {
            vec![c.nsid]
        } else {
            return Err(self.no_namespace(c.nsid));
        };
        for nsid in &targets {
            self.refuse_read_only(*nsid)?;
        }
        let idle = self.claim(&targets, cx.now);
        if !idle {
            return self.wait_for_idle(token, id, AdminCommand::FormatNvm(c));
        }
        for nsid in targets {
            let Some(namespace) = self.namespaces.get_mut(nsid) else { continue };
            namespace.closing = false;
            namespace.format = c.lbaf;
            namespace.shift = size.trailing_zeros() as u8;
            let (volume, bytes) = (namespace.volume, namespace.volume_bytes());
            self.ftl
                .trim(cx.now, volume, 0, bytes, cx.storage)
                .map_err(|fault| Failure::of_fault(fault, Kind::Write))?;
            let affected = self.attached_controllers(nsid);
            self.namespace_changed(nsid, &affected, cx);
        }
        self.record(cx.storage);
        Ok(Reply::Done(0))
    }
}
