//! Log D8h: what hosts and media did with a namespace, or with all of them.
//!
//! The core counts ([`counts`]). This component makes the log pages, and keeps the counts of namespaces that were deleted.

pub(crate) mod counts;
pub(crate) mod snapshot;

use crate::core::{Controller, Core, Failure, Namespace};
use counts::{NamespaceStats, fill_media, since, sum};
use ftl::VolumeStats;
use media::Nanos;
use nvme::NSID_ALL;
use nvme::log::NamespaceStatistics;
use nvme::quota::Quota;

/// Counts of namespaces that were deleted since power on.
#[derive(Default)]
pub(crate) struct DeletedNamespaces {
    counts: Box<NamespaceStats>,
    media: VolumeStats,
}

impl DeletedNamespaces {
    /// Adds what was counted of a namespace that is deleted now.
    pub fn add(&mut self, counts: &NamespaceStats, media: &VolumeStats) {
        self.counts.add(counts);
        self.media = sum(&self.media, media);
    }

    /// Log D8h of all namespaces that a host sees. An administrator's has the deleted ones, too.
    pub fn all_statistics(&self, core: &Core, viewer: &Controller, now: Nanos) -> NamespaceStatistics {
        let mut page = NamespaceStatistics::new(NSID_ALL, 0, 0);
        let (mut counts, mut media) = (NamespaceStats::default(), VolumeStats::default());
        if viewer.role.is_administrator() {
            (counts, media) = (NamespaceStats::clone(&self.counts), self.media);
        }
        for (_, ns) in core.namespaces.iter().filter(|(nsid, _)| viewer.sees(*nsid)) {
            counts.add(&ns.stats);
            media = sum(&media, &media_stats(core, ns));
            fill_now(core, ns, &mut page);
        }
        counts.fill(&mut page);
        fill_media(&media, &mut page);
        page.time_ns.set(now.since(core.power.since).0);
        page
    }
}

/// Adds a namespace's commands of this moment.
fn fill_now(core: &Core, ns: &Namespace, page: &mut NamespaceStatistics) {
    let [reads, writes] = core.held_of(ns);
    for (field, commands) in [
        (&mut page.in_flight, u64::from(ns.in_flight)),
        (&mut page.held_reads, reads),
        (&mut page.held_writes, writes),
    ] {
        field.set(field.get() + commands);
    }
}

/// What the media did for a namespace since its counts began.
pub(crate) fn media_stats(core: &Core, ns: &Namespace) -> VolumeStats {
    since(&core.ftl.volume_stats(ns.volume), &ns.stats.base)
}

/// Log D8h of a namespace.
///
/// # Errors
/// If there is no such namespace.
pub(crate) fn statistics(core: &Core, nsid: u32, now: Nanos) -> Result<NamespaceStatistics, Failure> {
    let ns = core.namespaces.get(nsid).ok_or_else(|| core.no_namespace(nsid))?;
    let set = u16::from(ns.set.0) + 1;
    let mut page = NamespaceStatistics::new(nsid, set, set);
    ns.stats.fill(&mut page);
    page.quota = Quota::from(&ns.quota.current);
    fill_now(core, ns, &mut page);
    fill_media(&media_stats(core, ns), &mut page);
    page.time_ns.set(now.since(core.power.since).0);
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::Role;
    use crate::fixture;

    #[test]
    fn a_tenant_sees_neither_other_namespaces_nor_deleted_ones() {
        let mut core = fixture::core();
        let id = fixture::connect(&mut core, 1);
        for (nsid, reads) in [(1, 10), (2, 200)] {
            core.namespaces.get_mut(nsid).unwrap().stats.reads = reads;
        }
        let mut deleted = DeletedNamespaces::default();
        deleted.add(&NamespaceStats { reads: 3000, ..NamespaceStats::default() }, &VolumeStats::default());
        let reads = |core: &Core| {
            let viewer = core.controllers.get(id).unwrap();
            deleted.all_statistics(core, viewer, Nanos::ZERO).host_read_commands.get()
        };
        assert_eq!(reads(&core), 3210);
        core.controllers.get_mut(id).unwrap().role = Role::Tenant(vec![2]);
        assert_eq!(reads(&core), 200);
        assert_eq!(statistics(&core, 1, Nanos(5)).unwrap().time_ns.get(), 5);
        assert!(statistics(&core, 3, Nanos(5)).is_err());
    }
}
