//! Quotas of namespaces: feature D8h.
//!
//! The values are [`quotas`]. The core's held queues enforce what is in force.

pub(crate) mod quotas;

use crate::core::{AdminResult, ControllerId, Core, Failure, Reply};
use drive_config::Limits;
use media::Nanos;
use nvme::admin::{GetFeatures, SetFeatures};
use nvme::feature::Select;
use nvme::quota::Quota;
use nvme::zerocopy::{FromBytes, IntoBytes};
use nvme::{NSID_ALL, Status};

/// The namespaces that Set Features means: any that is allocated, as for Namespace Management. FFFFFFFFh means all that
/// are attached to the controller (Base 4.4).
fn targets(core: &Core, id: ControllerId, nsid: u32) -> Result<Vec<u32>, Failure> {
    if nsid == NSID_ALL {
        let controller = core.controller(id)?;
        return Ok(core.namespaces.ids().into_iter().filter(|nsid| controller.is_attached(*nsid)).collect());
    }
    let controller = core.controller(id)?;
    if !controller.role.is_administrator() && !controller.is_attached(nsid) {
        // It may see one that was detached from it, and changes nothing of it.
        return Err(core.no_namespace(nsid));
    }
    core.seen(id, nsid).map(|_| vec![nsid])
}

/// Set Features D8h. Nothing changes unless all of it is allowed. What is saved is not recorded yet.
///
/// # Errors
/// Invalid Field with the offset in the data, Operation Denied for more than an administrator granted, or what the namespace identifier is
/// refused for.
pub(crate) fn set(
    core: &mut Core,
    id: ControllerId,
    c: &SetFeatures,
    data: &[u8],
    now: Nanos,
) -> AdminResult {
    let (quota, _) = Quota::ref_from_prefix(data).map_err(|_| Status::DATA_SGL_LENGTH_INVALID)?;
    // The error log points to the data (bytes 24 to 39 of the command), and tells the offset there.
    quota.check().map_err(|offset| Failure::field(24).with_information(offset as u64))?;
    let limits = Limits::from(quota);
    let targets = targets(core, id, c.nsid)?;
    let administers = core.controller(id)?.role.is_administrator();
    let quota_of = |nsid: &u32| core.namespaces.get(*nsid).map(|ns| ns.quota);
    if !administers && !targets.iter().filter_map(quota_of).all(|quota| quota.grants(&limits, c.sv)) {
        return Err(Status::OPERATION_DENIED.into());
    }
    for nsid in targets {
        let Some(ns) = core.namespaces.get_mut(nsid) else { continue };
        ns.quota.set(limits, c.sv, administers);
        core.apply_quota(nsid, now);
    }
    Ok(Reply::Done(0))
}

/// Get Features D8h.
///
/// # Errors
/// What the namespace identifier is refused for.
pub(crate) fn get(core: &Core, id: ControllerId, c: &GetFeatures) -> AdminResult {
    let ns = core.seen(id, c.nsid)?;
    let limits = match c.sel {
        Select::DEFAULT => Limits::default(),
        Select::SAVED => ns.quota.saved,
        _ => ns.quota.current,
    };
    Ok(Reply::Data(Quota::from(&limits).as_bytes().to_vec(), 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::Role;
    use crate::fixture;
    use nvme::feature::FeatureId;

    fn command(nsid: u32) -> SetFeatures {
        SetFeatures {
            nsid,
            fid: FeatureId::QUOTA,
            sv: false,
            uidx: 0,
            cdw11: 0,
            cdw12: 0,
            cdw13: 0,
            cdw15: 0,
        }
    }

    #[test]
    fn a_tenant_changes_nothing_unless_all_of_it_is_granted() {
        let mut core = fixture::core();
        let id = fixture::connect(&mut core, 1);
        core.controller_mut(id).unwrap().role = Role::Tenant(vec![1, 2]);
        let slow = Limits { read_bandwidth: Some(1 << 20), ..Limits::default() };
        core.namespaces.get_mut(2).unwrap().quota = quotas::Quotas::new(slow);
        let set = |core: &mut Core, nsid, limits: &Limits| {
            set(core, id, &command(nsid), Quota::from(limits).as_bytes(), Nanos::ZERO)
        };
        let faster = Limits { read_bandwidth: Some(1 << 21), ..Limits::default() };
        assert!(set(&mut core, NSID_ALL, &faster).is_err());
        assert_eq!(core.namespaces.get(1).unwrap().quota.current, Limits::default());
        assert!(set(&mut core, 1, &faster).is_ok() && set(&mut core, 2, &slow).is_ok());
        assert_eq!(core.namespaces.get(1).unwrap().quota.current, faster);
    }
}
