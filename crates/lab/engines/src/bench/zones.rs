//! Jobs on zoned namespaces: what the drive says of zones, as jobs see it.

use anyhow::{Result, anyhow};
use host::{Host, IoQueue, Namespace, Queue, Transport, Zoned};
use load_formats::fio::{Job, Jobs, Plan, Space, Zone, ZoneAccess, ZoneGeometry, begin_zones, check_zones};
use nvme::{
    Csi,
    zone::{ZoneDescriptor, ZoneReportFilter, ZoneState},
};

/// The namespace of a job.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub namespace: Namespace,
    /// Its zones, if it has some.
    pub zoned: Option<Zoned>,
}

impl Place {
    /// What the drive says of the namespaces of jobs. A drive that does not tell has no zones.
    ///
    /// # Errors
    /// A command failed, or the connection is broken.
    pub fn of<T: Transport>(host: &mut Host<T>, namespaces: &[Namespace]) -> Result<Vec<Self>> {
        let has_zones = host.has_zones()?;
        let mut places: Vec<Self> = Vec::new();
        for namespace in namespaces {
            let known = places.iter().find(|place| place.namespace.nsid == namespace.nsid).copied();
            places.push(match known {
                Some(place) => place,
                None if has_zones && host.command_set(namespace.nsid)? == Csi::ZONED => {
                    let zoned = host.zoned_namespace(namespace.nsid)?;
                    Self { namespace: zoned.namespace, zoned: Some(zoned) }
                }
                None => Self { namespace: *namespace, zoned: None },
            });
        }
        Ok(places)
    }

    /// As jobs see it.
    pub fn space(&self) -> Space {
        let Namespace { blocks, block_size, limits, .. } = self.namespace;
        let zones = self.zoned.map(|zoned| ZoneGeometry {
            zone_blocks: zoned.zone_blocks,
            max_open: zoned.max_open,
            max_active: zoned.max_active,
            write_blocks: limits.transfer,
            append_blocks: limits.append,
        });
        Space { zones, ..Space::new(blocks, block_size) }
    }
}

/// Whether jobs that run at the same time leave each other's zones alone. `name` is that of the job file.
///
/// # Errors
/// They do not.
pub(crate) fn check(name: &str, jobs: &Jobs, plans: &[(usize, Plan)], places: &[Place]) -> Result<()> {
    let group = |index: usize| (jobs.jobs[index].phase, places[index].namespace.nsid);
    let mut done = Vec::new();
    for &(index, _) in plans {
        if done.contains(&group(index)) {
            continue;
        }
        done.push(group(index));
        let members: Vec<_> = plans.iter().filter(|(other, _)| group(*other) == group(index)).collect();
        let together: Vec<&Plan> = members.iter().map(|(_, plan)| plan).collect();
        check_zones(&together).map_err(|(wrong, problem)| {
            let spec = &jobs.jobs[members[wrong].0];
            anyhow!("{name}:{}: job {}: {problem}", spec.line, spec.name)
        })?;
    }
    Ok(())
}

/// Tells the jobs of a phase, each with the index of its place, what their zones hold. `queue` asks the drive.
///
/// # Errors
/// The drive does not report its zones, or the connection is broken.
pub(crate) fn begin<Q: Queue>(
    queue: &mut IoQueue<Q>,
    places: &[Place],
    clones: &mut [(usize, Job)],
) -> Result<()> {
    let mut done = Vec::new();
    for at in 0..clones.len() {
        let (index, job) = &clones[at];
        let Some(zoned) = places[*index].zoned.filter(|_| job.plan().zones.is_some()) else { continue };
        let nsid = zoned.namespace.nsid;
        if done.contains(&nsid) {
            continue;
        }
        done.push(nsid);
        let zones = queue.report_zones(&zoned, 0, ZoneReportFilter::ALL, usize::MAX)?;
        let zones: Vec<Zone> = zones.iter().map(zone).collect();
        let on_it = clones.iter_mut().filter(|(index, _)| places[*index].namespace.nsid == nsid);
        let mut on_it: Vec<&mut Job> = on_it.map(|(_, job)| job).collect();
        begin_zones(&mut on_it, &zones);
    }
    Ok(())
}

fn zone(descriptor: &ZoneDescriptor) -> Zone {
    let state = descriptor.state();
    let (start, capacity) = (descriptor.zslba.get(), descriptor.zcap.get());
    let access = match state {
        ZoneState::READ_ONLY => ZoneAccess::Read,
        ZoneState::OFFLINE => ZoneAccess::None,
        _ => ZoneAccess::All,
    };
    let written = match (access, descriptor.write_pointer()) {
        (ZoneAccess::None, _) => 0,
        (_, Some(pointer)) => pointer.saturating_sub(start),
        (_, None) => capacity,
    };
    Zone { start, capacity, written, active: state.is_active(), access }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_of_zones() {
        for (state, written, active, access) in [
            (ZoneState::EMPTY, 0, false, ZoneAccess::All),
            (ZoneState::IMPLICITLY_OPENED, 40, true, ZoneAccess::All),
            (ZoneState::EXPLICITLY_OPENED, 40, true, ZoneAccess::All),
            (ZoneState::CLOSED, 40, true, ZoneAccess::All),
            (ZoneState::FULL, 96, false, ZoneAccess::All),
            (ZoneState::READ_ONLY, 96, false, ZoneAccess::Read),
            (ZoneState::OFFLINE, 0, false, ZoneAccess::None),
        ] {
            let wp = if state == ZoneState::EMPTY { 256 } else { 296 };
            let wanted = Zone { start: 256, capacity: 96, written, active, access };
            assert_eq!(zone(&ZoneDescriptor::new(256, 96, state, wp)), wanted);
        }
    }
}
