//! Logs of Flexible Data Placement.

use super::group::FdpGroup;
use super::{handle_uses, set_of};
use crate::core::{Core, Failure};
use ftl::{PAGE, SetId};
use nvme::fdp::*;
use nvme::log::LogId;
use nvme::zerocopy::IntoBytes;
use nvme::{Status, U16, U32, U64, U128};

/// The logs of Flexible Data Placement.
pub(crate) fn log(core: &Core, lid: LogId, endgid: u16, lsp: u8) -> Result<Vec<u8>, Failure> {
    let set = set_of(endgid).filter(|set| core.can_place(*set)).ok_or(Failure::field(46))?;
    if lid == LogId::FDP_CONFIGURATIONS {
        return Ok(configurations(core, set));
    }
    if !core.is_placing(set) {
        return Err(Status::FDP_DISABLED.into());
    }
    Ok(match lid {
        LogId::RUH_USAGE => {
            let uses = handle_uses(core, set);
            let nruh = U16::new(uses.len() as u16);
            let head = ReclaimUnitHandleUsageHeader { nruh, ..Default::default() };
            let mut log = head.as_bytes().to_vec();
            for ruha in uses {
                let usage = ReclaimUnitHandleUsage { ruha, ..Default::default() };
                log.extend_from_slice(usage.as_bytes());
            }
            log
        }
        LogId::FDP_STATISTICS => {
            let media = core.ftl.set_stats(set);
            let statistics = FdpStatistics {
                hbmw: U128::new(core.persistent.traffic(set).written_bytes.into()),
                mbmw: U128::new(media.media_written_bytes.into()),
                mbe: U128::new(u128::from(media.erases) * u128::from(block_bytes(core, set))),
                ..Default::default()
            };
            statistics.as_bytes().to_vec()
        }
        _ => super::group(core, set)
            .map_or_else(|| FdpGroup::default().events_log(true), |g| g.events_log(lsp & 1 != 0)),
    })
}

/// Bytes of one block of a die.
fn block_bytes(core: &Core, set: SetId) -> u64 {
    u64::from(core.set_properties(set).block_pages) * u64::from(PAGE)
}

fn configurations(core: &Core, set: SetId) -> Vec<u8> {
    let handles = core.ftl.handles(set);
    let ruht = match core.set_properties(set).isolates_handles {
        true => ReclaimUnitHandleType::PERSISTENTLY_ISOLATED,
        false => ReclaimUnitHandleType::INITIALLY_ISOLATED,
    };
    let size = size_of::<FdpConfiguration>() + handles * size_of::<ReclaimUnitHandleDescriptor>();
    // Descriptors are multiples of 8 bytes.
    let size = size.next_multiple_of(8);
    let head = FdpConfigurationsHeader {
        sze: U32::new((size_of::<FdpConfigurationsHeader>() + size) as u32),
        ..Default::default()
    };
    let configuration = FdpConfiguration {
        dsze: U16::new(size as u16),
        fdpa: 1 << 7 | u8::from(core.config.has_volatile_write_cache()) << 4,
        nrg: U32::new(1),
        nruh: U16::new(handles as u16),
        maxpids_z: U16::new(handles as u16 - 1),
        nns: U32::new(core.config.max_namespaces),
        runs: U64::new(core.ftl.reclaim_unit(set, 0).map_or(0, |(size, _)| size)),
        ..Default::default()
    };
    let mut log = head.as_bytes().to_vec();
    log.extend_from_slice(configuration.as_bytes());
    for _ in 0..handles {
        let handle = ReclaimUnitHandleDescriptor { ruht, ..Default::default() };
        log.extend_from_slice(handle.as_bytes());
    }
    log.resize(size_of::<FdpConfigurationsHeader>() + size, 0);
    log
}
