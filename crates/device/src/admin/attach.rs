//! Namespace Attachment (Base 5.1.20), and what new controllers find attached.

use crate::contents::Contents;
use crate::controller::ControllerId;
use crate::drive::{Cx, Drive, Failure, Outcome, Reply};
use nvme::Status;
use nvme::admin::{NamespaceAttachment, NamespaceAttachmentSelect};
use nvme::identify::ControllerList;
use nvme::log::AnaState;
use nvme::zerocopy::FromBytes;

/// Hosts whose attachments to one namespace are remembered, at most: what hosts can make the drive keep is
/// bounded.
const MAX_REMEMBERED: usize = 8192;

impl Drive {
    pub(super) fn namespace_attachment<S: Contents>(
        &mut self,
        c: NamespaceAttachment,
        data: &[u8],
        cx: &mut Cx<'_, S>,
    ) -> Outcome {
        let (list, _) = ControllerList::ref_from_prefix(data).map_err(|_| Status::DATA_SGL_LENGTH_INVALID)?;
        let Some(namespace) = self.namespaces.get(c.nsid) else { return Err(self.no_namespace(c.nsid)) };
        let ids = self.controller_list(list)?;
        let holders = self.attached_controllers(c.nsid);
        let attach = c.sel == NamespaceAttachmentSelect::ATTACH;
        if attach {
            if ids.iter().any(|id| holders.contains(id)) {
                return Err(Status::NAMESPACE_ALREADY_ATTACHED.into());
            }
            let lost = |id: &ControllerId| {
                self.controllers.get(*id).is_some_and(|c| c.ana == AnaState::PERSISTENT_LOSS)
            };
            if ids.iter().any(lost) {
                return Err(Status::ANA_ATTACH_FAILED.into());
            }
            if !namespace.shared && ids.len() + holders.len() > 1 {
                return Err(Status::NAMESPACE_IS_PRIVATE.into());
            }
        } else if ids.iter().any(|id| !holders.contains(id)) {
            return Err(Status::NAMESPACE_NOT_ATTACHED.into());
        }
        if namespace.policy.hosts.len() + ids.len() > MAX_REMEMBERED {
            return Err(Status::NAMESPACE_ATTACHMENT_LIMIT.into());
        }
        for id in &ids {
            self.controller_mut(*id)?.attach(c.nsid, attach);
        }
        self.return_unreachable(cx.now);
        self.remember_hosts(c.nsid, &ids, attach);
        self.record(cx.storage);
        self.namespace_changed(c.nsid, &ids, cx);
        Ok(Reply::Done(0))
    }

    /// A controller list as Base 4.4.1 wants it: ascending identifiers of controllers that exist.
    fn controller_list(&self, list: &ControllerList) -> Result<Vec<ControllerId>, Failure> {
        let invalid = Failure::from(Status::CONTROLLER_LIST_INVALID);
        let ids: Vec<ControllerId> = list.iter().map(ControllerId).collect();
        let ascending = ids.windows(2).all(|w| w[0] < w[1]);
        let exist = ids.iter().all(|id| self.controllers.get(*id).is_some());
        if ids.is_empty() || usize::from(list.num.get()) != ids.len() || !ascending || !exist {
            return Err(invalid);
        }
        Ok(ids)
    }

    /// A host keeps a namespace as long as one of its controllers does.
    fn remember_hosts(&mut self, nsid: u32, ids: &[ControllerId], attach: bool) {
        for id in ids {
            let Some(host) = self.controllers.get(*id).map(|c| c.host) else { continue };
            let still = attach || self.controllers.iter().any(|(_, c)| c.host == host && c.is_attached(nsid));
            if let Some(namespace) = self.namespaces.get_mut(nsid) {
                namespace.policy.set(host.as_str(), still);
            }
        }
    }

    /// Attaches to a new controller what its host is to see. A private namespace goes to the first.
    pub(crate) fn attach_for_host(&mut self, id: ControllerId) {
        let Some(host) = self.controllers.get(id).map(|c| c.host) else { return };
        let admitted: Vec<u32> = self
            .namespaces
            .iter()
            .filter(|(nsid, ns)| {
                ns.policy.admits(host.as_str()) && (ns.shared || self.attached_controllers(*nsid).is_empty())
            })
            .map(|(nsid, _)| nsid)
            .collect();
        if let Some(controller) = self.controllers.get_mut(id) {
            for nsid in admitted {
                controller.attach(nsid, true);
            }
        }
    }
}
