//! Namespace Attachment (Base 5.1.20), and what new controllers find attached.

use crate::contents::Contents;
use crate::core::{AdminResult, Controller, ControllerId, Core, Cx, Failure, Namespace, Reply, Role};
use nvme::Status;
use nvme::admin::{NamespaceAttachment, NamespaceAttachmentSelect};
use nvme::identify::ControllerList;
use nvme::log::AnaState;
use nvme::property::Cc;
use nvme::zerocopy::FromBytes;

/// Hosts whose attachments to one namespace are remembered, at most: what hosts can make the drive keep is
/// bounded.
const MAX_REMEMBERED: usize = 8192;

/// Namespace Attachment.
pub(crate) fn execute<S: Contents>(
    core: &mut Core,
    id: ControllerId,
    c: NamespaceAttachment,
    data: &[u8],
    cx: &mut Cx<'_, S>,
) -> AdminResult {
    let (list, _) = ControllerList::ref_from_prefix(data).map_err(|_| Status::DATA_SGL_LENGTH_INVALID)?;
    let Some(namespace) = core.namespaces.get(c.nsid) else {
        return Err(core.no_namespace(c.nsid));
    };
    let ids = controller_list(core, list)?;
    let holders = core.attached_controllers(c.nsid);
    let attach = c.sel == NamespaceAttachmentSelect::ATTACH;
    if attach {
        if ids.iter().any(|id| holders.contains(id)) {
            return Err(Status::NAMESPACE_ALREADY_ATTACHED.into());
        }
        let foreign = |id: &ControllerId| {
            core.controllers.get(*id).is_some_and(|controller| !controller.role.may_attach(c.nsid))
        };
        if ids.iter().any(foreign) {
            // The administrator did not give this namespace to that tenant.
            return Err(Status::OPERATION_DENIED.into());
        }
        let lost =
            |id: &ControllerId| core.controllers.get(*id).is_some_and(|c| c.ana == AnaState::PERSISTENT_LOSS);
        if ids.iter().any(lost) {
            return Err(Status::ANA_ATTACH_FAILED.into());
        }
        let lacks =
            |id: &ControllerId| core.controllers.get(*id).is_some_and(|c| !has_command_set(c, namespace));
        if ids.iter().any(lacks) {
            return Err(Status::IOCS_NOT_ENABLED.into());
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
        let controller = core.controller_mut(*id)?;
        if attach {
            controller.attach(c.nsid, true);
        } else {
            controller.lose(c.nsid);
        }
    }
    if !attach {
        core.controllers.known(id, c.nsid);
    }
    core.return_unreachable(cx.now);
    remember_hosts(core, c.nsid, &ids, attach);
    core.record(cx.storage);
    core.namespace_changed(c.nsid, &ids, cx);
    if attach {
        for id in ids {
            core.show_losses(id, c.nsid, cx);
        }
    }
    Ok(Reply::Done(0))
}

/// A controller list as Base 4.4.1 wants it: ascending identifiers of controllers that exist.
fn controller_list(core: &Core, list: &ControllerList) -> Result<Vec<ControllerId>, Failure> {
    let invalid = Failure::from(Status::CONTROLLER_LIST_INVALID);
    let ids: Vec<ControllerId> = list.iter().map(ControllerId).collect();
    let ascending = ids.windows(2).all(|w| w[0] < w[1]);
    let exist = ids.iter().all(|id| core.controllers.get(*id).is_some_and(|c| c.proven));
    if ids.is_empty() || usize::from(list.num.get()) != ids.len() || !ascending || !exist {
        return Err(invalid);
    }
    Ok(ids)
}

/// A host keeps a namespace as long as one of its controllers does.
fn remember_hosts(core: &mut Core, nsid: u32, ids: &[ControllerId], attach: bool) {
    for id in ids {
        let Some(controller) = core.controllers.get(*id) else { continue };
        let host = controller.host;
        let usual = |all| controller.role.attaches(nsid, all);
        let usual = core.namespaces.get(nsid).is_some_and(|ns| usual(ns.policy.all));
        let still = attach || core.controllers.iter().any(|(_, c)| c.host == host && c.is_attached(nsid));
        if let Some(namespace) = core.namespaces.get_mut(nsid) {
            namespace.policy.set(host.as_str(), still, usual);
        }
    }
}

/// Attaches to a new controller what its host is to see. A private namespace goes to the first.
pub(crate) fn attach_for_host(core: &mut Core, id: ControllerId) {
    let attached = attach_admitted(core, id);
    let unread = attached.into_iter().any(|nsid| core.has_losses(nsid));
    if let Some(controller) = core.controllers.get_mut(id) {
        controller.lost.unread |= unread;
        controller.ana_changes = 0;
    }
}

/// Whether the host of a controller selected a namespace's I/O command set when it enabled the controller (Base 3.1.4.5, CC.CSS). One that
/// is not enabled may still select all.
fn has_command_set(controller: &Controller, ns: &Namespace) -> bool {
    ns.zones.is_none() || !controller.cc.en() || controller.cc.css() == Cc::CSS_SETS
}

/// A host has enabled a controller: it has no namespaces of I/O command sets that the host did not select. It gets those back that it did
/// not select when it enabled the controller before.
pub(crate) fn select_command_sets(core: &mut Core, id: ControllerId) {
    let Some(controller) = core.controllers.get(id).filter(|controller| controller.proven) else { return };
    let hidden = |nsid: &u32| {
        let ns = core.namespaces.get(*nsid);
        controller.is_attached(*nsid) && ns.is_some_and(|ns| !has_command_set(controller, ns))
    };
    let hidden: Vec<u32> = core.namespaces.ids().into_iter().filter(hidden).collect();
    if let Some(controller) = core.controllers.get_mut(id) {
        hidden.iter().for_each(|nsid| controller.attach(*nsid, false));
    }
    attach_admitted(core, id);
}

/// Attaches to a controller what its host is to see and the controller does not have attached.
fn attach_admitted(core: &mut Core, id: ControllerId) -> Vec<u32> {
    let Some(controller) = core.controllers.get(id) else { return Vec::new() };
    let (host, role) = (controller.host.as_str(), &controller.role);
    let is_admitted = |nsid: u32, ns: &Namespace| {
        role.may_attach(nsid)
            && ns.policy.chosen(host).unwrap_or(role.attaches(nsid, ns.policy.all))
            && !controller.is_attached(nsid)
            && has_command_set(controller, ns)
            && (ns.shared || core.attached_controllers(nsid).is_empty())
    };
    let admitted = core.namespaces.iter().filter(|(nsid, ns)| is_admitted(*nsid, ns));
    let admitted: Vec<u32> = admitted.map(|(nsid, _)| nsid).collect();
    if let Some(controller) = core.controllers.get_mut(id) {
        admitted.iter().for_each(|nsid| controller.attach(*nsid, true));
    }
    admitted
}

/// A controller's host has another role.
pub(crate) fn change_role<S: Contents>(core: &mut Core, id: ControllerId, role: Role, cx: &mut Cx<'_, S>) {
    let Some(controller) = core.controllers.get_mut(id) else { return };
    if controller.role == role {
        return;
    }
    controller.role = role;
    if !controller.proven {
        return;
    }
    let lost = |nsid: &u32| controller.is_attached(*nsid) && !controller.role.may_attach(*nsid);
    let mut changed: Vec<u32> = core.namespaces.ids().into_iter().filter(lost).collect();
    changed.iter().for_each(|nsid| controller.lose(*nsid));
    let admitted = attach_admitted(core, id);
    admitted.iter().for_each(|nsid| core.show_losses(id, *nsid, cx));
    changed.extend(admitted);
    core.return_unreachable(cx.now);
    for nsid in changed {
        core.namespace_changed(nsid, &[id], cx);
    }
}
