//! The Streams directive (Base 8.1.8.3).
//!
//! A host's streams are placement handles of the namespace's NVM Set. Writes without a stream have handle 0. Open streams are in
//! [`open`]: each controller keeps its own.

pub(crate) mod open;

use crate::core::{AdminResult, Controller, ControllerId, Core, Failure, Namespace, Reply};
use ftl::{PAGE, SetId};
use nvme::directive::{
    Directive, DirectiveParameters, DirectiveType, EnableDirective, StreamsParameters, operation,
};
use nvme::zerocopy::IntoBytes;
use nvme::{NSID_ALL, Status, U16, U32};
use open::Streams;

/// Whether a namespace can have streams: Flexible Data Placement gives its handles to others.
fn can_stream(core: &Core, ns: &Namespace) -> bool {
    core.ftl.handles(ns.set) > 1 && !core.is_placing(ns.set)
}

/// Streams on a set, by controller and namespace.
fn streams_of(core: &Core, set: SetId) -> impl Iterator<Item = &Streams> {
    streams_where(core, set, |_| true)
}

/// The same of some controllers.
fn streams_where<'a>(
    core: &'a Core,
    set: SetId,
    wanted: impl Fn(&Controller) -> bool + 'a,
) -> impl Iterator<Item = &'a Streams> {
    let on = move |nsid: &u32| core.namespaces.get(*nsid).is_some_and(|ns| ns.set == set);
    let controllers = core.controllers.iter().filter(move |(_, c)| wanted(c));
    controllers.flat_map(move |(_, c)| c.streams.iter().filter(move |(n, _)| on(n)).map(|(_, s)| s))
}

/// Streams that a set has beyond those that are taken.
fn available(core: &Core, set: SetId) -> usize {
    let taken: usize = streams_of(core, set).map(Streams::taken).sum();
    (core.ftl.handles(set) - 1).saturating_sub(taken)
}

/// Streams that the host of a controller may still take on a set, over all its controllers. One that does not administer the drive has a
/// part of them: that of its namespaces among the set's, and one at least.
fn left_for_host(core: &Core, id: ControllerId, set: SetId) -> usize {
    let free = available(core, set);
    let Some(controller) = core.controllers.get(id).filter(|c| !c.role.is_administrator()) else {
        return free;
    };
    let of_set = |all: &(u32, &Namespace)| all.1.set == set;
    let all = core.namespaces.iter().filter(of_set).count().max(1);
    let own = core.namespaces.iter().filter(of_set).filter(|(nsid, _)| controller.is_attached(*nsid)).count();
    let part = ((core.ftl.handles(set) - 1) * own / all).max(1);
    let mine = |c: &Controller| c.host == controller.host;
    let taken: usize = streams_where(core, set, mine).map(Streams::taken).sum();
    free.min(part.saturating_sub(taken))
}

/// The placement handle of a write with a stream identifier.
#[cold]
pub(crate) fn place_by_stream(
    core: &mut Core,
    id: ControllerId,
    nsid: u32,
    stream: u16,
) -> Result<u8, Failure> {
    let ns = core.namespaces.get(nsid).ok_or(Status::INVALID_NAMESPACE)?;
    let set = ns.set;
    let streams = core.controller(id)?.streams.get(&nsid).ok_or(Failure::field(50))?;
    if stream == 0 {
        return Ok(0);
    }
    if let Some(handle) = streams.handle(stream) {
        return Ok(handle);
    }
    let full = streams.is_full();
    if streams.allocated() == 0 && left_for_host(core, id, set) == 0 {
        // As if it had no stream (Base 8.1.8.3).
        return Ok(0);
    }
    if full {
        core.controller_mut(id)?.streams.entry(nsid).or_default().close_oldest();
    }
    let taken: Vec<u8> = streams_of(core, set).flat_map(|s| s.open().iter().map(|(_, h)| *h)).collect();
    let free = (1..core.ftl.handles(set) as u8).find(|h| !taken.contains(h));
    let Some(handle) = free else { return Ok(0) };
    core.controller_mut(id)?.streams.entry(nsid).or_default().push(stream, handle);
    Ok(handle)
}

/// Directive Send (Base 5.1.7).
pub(crate) fn directive_send(core: &mut Core, id: ControllerId, c: Directive) -> AdminResult {
    if !core.has_placement() {
        return Err(Failure { location: 0, ..Status::INVALID_OPCODE.into() });
    }
    match (c.dtype, c.doper) {
        (DirectiveType::IDENTIFY, operation::ENABLE) => enable_directive(core, id, c),
        (DirectiveType::STREAMS, operation::RELEASE_IDENTIFIER) => {
            enabled_streams(core, id, c.nsid)?.close(c.dspec);
            Ok(Reply::Done(0))
        }
        (DirectiveType::STREAMS, operation::RELEASE_RESOURCES) => {
            *enabled_streams(core, id, c.nsid)? = Streams::default();
            Ok(Reply::Done(0))
        }
        _ => Err(Failure::field(44)),
    }
}

/// Streams of a namespace for which the directive is enabled.
fn enabled_streams(core: &mut Core, id: ControllerId, nsid: u32) -> Result<&mut Streams, Failure> {
    core.attached(id, nsid)?;
    core.controller_mut(id)?.streams.get_mut(&nsid).ok_or(Failure::field(44))
}

fn enable_directive(core: &mut Core, id: ControllerId, c: Directive) -> AdminResult {
    let asked = EnableDirective::from_bits(c.cdw12.into());
    if asked.tdtype() != DirectiveType::STREAMS {
        // Identify is always enabled, and Data Placement where Flexible Data Placement is.
        return Err(Failure::field(49));
    }
    let mut nsids = vec![c.nsid];
    if c.nsid == NSID_ALL {
        let attached = core.controller(id)?;
        nsids = core.namespaces.ids().into_iter().filter(|n| attached.is_attached(*n)).collect();
        nsids.retain(|n| core.namespaces.get(*n).is_some_and(|ns| can_stream(core, ns)));
    } else if !can_stream(core, core.attached(id, c.nsid)?) {
        return Err(Failure::field(49));
    }
    let controller = core.controller_mut(id)?;
    for nsid in nsids {
        if asked.endir() {
            controller.streams.entry(nsid).or_default();
        } else {
            controller.streams.remove(&nsid);
        }
    }
    Ok(Reply::Done(0))
}

/// Directive Receive (Base 5.1.6).
pub(crate) fn directive_receive(core: &mut Core, id: ControllerId, c: Directive) -> AdminResult {
    if !core.has_placement() {
        return Err(Failure { location: 0, ..Status::INVALID_OPCODE.into() });
    }
    if c.dwords * 4 > u64::from(core.config.max_transfer) {
        return Err(Failure::field(40));
    }
    let mut data = match (c.dtype, c.doper) {
        (DirectiveType::IDENTIFY, operation::RETURN_PARAMETERS) => directive_parameters(core, id, c.nsid)?,
        (DirectiveType::STREAMS, operation::RETURN_PARAMETERS) => streams_parameters(core, id, c.nsid)?,
        (DirectiveType::STREAMS, operation::GET_STATUS) => {
            let open = enabled_streams(core, id, c.nsid)?.open();
            let mut status = (open.len() as u16).to_le_bytes().to_vec();
            status.extend(open.iter().flat_map(|(s, _)| s.to_le_bytes()));
            status
        }
        (DirectiveType::STREAMS, operation::ALLOCATE_RESOURCES) => {
            return allocate_streams(core, id, c);
        }
        _ => return Err(Failure::field(44)),
    };
    data.resize((c.dwords * 4) as usize, 0);
    Ok(Reply::Data(data, 0))
}

fn directive_parameters(core: &Core, id: ControllerId, nsid: u32) -> Result<Vec<u8>, Failure> {
    let ns = core.attached(id, nsid)?;
    let (streams, placement) = (can_stream(core, ns), core.is_placing(ns.set));
    let enabled = core.controller(id)?.streams.contains_key(&nsid);
    let mut parameters = DirectiveParameters::default();
    parameters.supported[0] = 1 | u8::from(streams) << 1 | u8::from(placement) << 2;
    parameters.enabled[0] = 1 | u8::from(enabled) << 1 | u8::from(placement) << 2;
    parameters.persistent[0] = u8::from(placement) << 2;
    Ok(parameters.as_bytes().to_vec())
}

fn streams_parameters(core: &Core, id: ControllerId, nsid: u32) -> Result<Vec<u8>, Failure> {
    let ns = core.attached(id, nsid)?;
    let mine = core.controller(id)?.streams.get(&nsid).ok_or(Failure::field(44))?;
    let properties = core.set_properties(ns.set);
    if properties.program_pages == 0 {
        return Err(Failure::field(44));
    }
    let (mut limit, mut left, mut open) = (0, 0, 0);
    for set in (0..core.ftl.set_count()).map(|i| SetId(i as u8)).filter(|s| !core.is_placing(*s)) {
        limit += core.ftl.handles(set) - 1;
        left += available(core, set);
        open += streams_of(core, set).filter(|s| s.allocated() == 0).map(|s| s.open().len()).sum::<usize>();
    }
    let unit = properties.program_pages * PAGE;
    let units = properties.superblock_pages / properties.program_pages;
    let parameters = StreamsParameters {
        msl: U16::new(limit as u16),
        nssa: U16::new(left as u16),
        nsso: U16::new(open as u16),
        sws: U32::new(unit >> ns.shift),
        sgs: U16::new(u16::try_from(units).unwrap_or(u16::MAX)),
        nsa: U16::new(mine.allocated()),
        nso: U16::new(mine.open().len() as u16),
        ..Default::default()
    };
    Ok(parameters.as_bytes().to_vec())
}

/// Allocate Resources: as many as asked for, or as there are. Streams that are open count among them.
fn allocate_streams(core: &mut Core, id: ControllerId, c: Directive) -> AdminResult {
    let set = core.attached(id, c.nsid)?.set;
    let free = left_for_host(core, id, set);
    let mine = enabled_streams(core, id, c.nsid)?;
    let asked = c.cdw12 as u16;
    if asked == 0 || mine.allocated() > 0 {
        return Err(Failure::field(48));
    }
    let given = usize::from(asked).min(free + mine.open().len());
    if given == 0 {
        return Err(Failure::transient(Status::STREAM_ALLOCATION_FAILED));
    }
    mine.allocate(given as u16);
    Ok(Reply::Done(given as u32))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::Role;
    use crate::fixture;

    fn enable(core: &mut Core, id: ControllerId, nsid: u32) {
        core.controller_mut(id).unwrap().streams.insert(nsid, Streams::default());
    }

    #[test]
    fn streams_of_all_hosts_share_the_handles_of_a_set() {
        let mut core = fixture::core();
        let (a, b) = (fixture::connect(&mut core, 1), fixture::connect(&mut core, 2));
        assert!(place_by_stream(&mut core, a, 1, 5).is_err(), "the directive is not enabled");
        [(a, 1), (b, 2)].into_iter().for_each(|(id, nsid)| enable(&mut core, id, nsid));
        let mut place = |id, nsid, stream| place_by_stream(&mut core, id, nsid, stream).unwrap();
        assert_eq!((place(a, 1, 0), place(a, 1, 5), place(b, 2, 5)), (0, 1, 2));
        assert_eq!((place(a, 1, 9), place(a, 1, 5)), (3, 1));
        // Three streams beside handle 0 are all there are: a fourth has none.
        assert_eq!(place(b, 2, 9), 0);
    }

    #[test]
    fn a_tenant_opens_no_more_streams_than_its_part() {
        let mut core = fixture::core();
        let (tenant, other) = (fixture::connect(&mut core, 1), fixture::connect(&mut core, 2));
        let controller = core.controller_mut(tenant).unwrap();
        controller.role = Role::Tenant(vec![1]);
        controller.attach(2, false);
        [(tenant, 1), (other, 2)].into_iter().for_each(|(id, nsid)| enable(&mut core, id, nsid));
        let mut place = |id, nsid, stream| place_by_stream(&mut core, id, nsid, stream).unwrap();
        // Three streams: one of them for one of two namespaces.
        assert_eq!([5, 6, 7].map(|stream| place(tenant, 1, stream)), [1, 0, 0]);
        assert_eq!([5, 6, 7].map(|stream| place(other, 2, stream)), [2, 3, 0]);
    }

    #[test]
    fn flexible_data_placement_leaves_no_handles_for_streams() {
        let mut core = fixture::core();
        let set = core.namespaces.get(1).unwrap().set;
        assert!(can_stream(&core, core.namespaces.get(1).unwrap()));
        core.persistent.fdp.resize_with(usize::from(set.0) + 1, Default::default);
        core.persistent.fdp[usize::from(set.0)].enabled = true;
        assert!(!can_stream(&core, core.namespaces.get(1).unwrap()));
    }
}
