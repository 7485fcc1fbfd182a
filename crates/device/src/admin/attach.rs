//! Namespace Attachment (Base 5.1.20), and what new controllers find attached.

use crate::contents::Contents;
use crate::core::{ControllerId, Cx, Failure, Namespace, Outcome, Reply, Role};
use crate::drive::Drive;
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
        let Some(namespace) = self.core.namespaces.get(c.nsid) else {
            return Err(self.core.no_namespace(c.nsid));
        };
        let ids = self.controller_list(list)?;
        let holders = self.core.attached_controllers(c.nsid);
        let attach = c.sel == NamespaceAttachmentSelect::ATTACH;
        if attach {
            if ids.iter().any(|id| holders.contains(id)) {
                return Err(Status::NAMESPACE_ALREADY_ATTACHED.into());
            }
            let foreign = |id: &ControllerId| {
                self.core.controllers.get(*id).is_some_and(|controller| !controller.role.may_attach(c.nsid))
            };
            if ids.iter().any(foreign) {
                // It is none of the namespaces that the host's administrator gave to that tenant.
                return Err(Status::OPERATION_DENIED.into());
            }
            let lost = |id: &ControllerId| {
                self.core.controllers.get(*id).is_some_and(|c| c.ana == AnaState::PERSISTENT_LOSS)
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
            self.core.controller_mut(*id)?.attach(c.nsid, attach);
        }
        self.core.return_unreachable(cx.now);
        self.remember_hosts(c.nsid, &ids, attach);
        self.core.record(cx.storage);
        self.core.namespace_changed(c.nsid, &ids, cx);
        if attach {
            for id in ids {
                self.show_losses(id, c.nsid, cx);
            }
        }
        Ok(Reply::Done(0))
    }

    /// A controller list as Base 4.4.1 wants it: ascending identifiers of controllers that exist.
    fn controller_list(&self, list: &ControllerList) -> Result<Vec<ControllerId>, Failure> {
        let invalid = Failure::from(Status::CONTROLLER_LIST_INVALID);
        let ids: Vec<ControllerId> = list.iter().map(ControllerId).collect();
        let ascending = ids.windows(2).all(|w| w[0] < w[1]);
        let exist = ids.iter().all(|id| self.core.controllers.get(*id).is_some_and(|c| c.proven));
        if ids.is_empty() || usize::from(list.num.get()) != ids.len() || !ascending || !exist {
            return Err(invalid);
        }
        Ok(ids)
    }

    /// A host keeps a namespace as long as one of its controllers does.
    fn remember_hosts(&mut self, nsid: u32, ids: &[ControllerId], attach: bool) {
        for id in ids {
            let Some(controller) = self.core.controllers.get(*id) else { continue };
            let host = controller.host;
            let usual = |all| controller.role.attaches(nsid, all);
            let usual = self.core.namespaces.get(nsid).is_some_and(|ns| usual(ns.policy.all));
            let still =
                attach || self.core.controllers.iter().any(|(_, c)| c.host == host && c.is_attached(nsid));
            if let Some(namespace) = self.core.namespaces.get_mut(nsid) {
                namespace.policy.set(host.as_str(), still, usual);
            }
        }
    }

    /// Attaches to a new controller what its host is to see. A private namespace goes to the first.
    pub(crate) fn attach_for_host(&mut self, id: ControllerId) {
        let attached = self.attach_admitted(id);
        let unread = attached.into_iter().any(|nsid| self.has_losses(nsid));
        if let Some(controller) = self.core.controllers.get_mut(id) {
            controller.lost.unread |= unread;
            controller.ana_changes = 0;
        }
    }

    /// Attaches to a controller what its host is to see and the controller does not have attached.
    fn attach_admitted(&mut self, id: ControllerId) -> Vec<u32> {
        let Some(controller) = self.core.controllers.get(id) else { return Vec::new() };
        let (host, role) = (controller.host.as_str(), &controller.role);
        let is_admitted = |nsid: u32, ns: &Namespace| {
            role.may_attach(nsid)
                && ns.policy.chosen(host).unwrap_or(role.attaches(nsid, ns.policy.all))
                && !controller.is_attached(nsid)
                && (ns.shared || self.core.attached_controllers(nsid).is_empty())
        };
        let admitted = self.core.namespaces.iter().filter(|(nsid, ns)| is_admitted(*nsid, ns));
        let admitted: Vec<u32> = admitted.map(|(nsid, _)| nsid).collect();
        if let Some(controller) = self.core.controllers.get_mut(id) {
            admitted.iter().for_each(|nsid| controller.attach(*nsid, true));
        }
        admitted
    }

    /// A controller's host has another role.
    pub(crate) fn change_role<S: Contents>(&mut self, id: ControllerId, role: Role, cx: &mut Cx<'_, S>) {
        let Some(controller) = self.core.controllers.get_mut(id) else { return };
        if controller.role == role {
            return;
        }
        controller.role = role;
        if !controller.proven {
            return;
        }
        let lost = |nsid: &u32| controller.is_attached(*nsid) && !controller.role.may_attach(*nsid);
        let mut changed: Vec<u32> = self.core.namespaces.ids().into_iter().filter(lost).collect();
        changed.iter().for_each(|nsid| controller.attach(*nsid, false));
        let admitted = self.attach_admitted(id);
        admitted.iter().for_each(|nsid| self.show_losses(id, *nsid, cx));
        changed.extend(admitted);
        self.core.return_unreachable(cx.now);
        for nsid in changed {
            self.core.namespace_changed(nsid, &[id], cx);
        }
    }
}
