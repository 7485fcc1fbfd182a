//! Vendor specific log DAh: what an NVM Set is like, what its medium did, and its superblocks.

use super::set_at;
use crate::core::{Controller, Core, Failure, Origin};
use crate::zone_state::state_of;
use ftl::{MediaKind, PAGE, SetId, SuperblockInfo, SuperblockUse};
use media::Nanos;
use nvme::log::{self, SetMapEntry, SetMapFlags, SetMapHeader, SetMedium};
use nvme::zerocopy::IntoBytes;
use std::ops::Range;

/// Bytes of the header, and of an entry.
const HEADER: usize = size_of::<SetMapHeader>();
const ENTRY: usize = size_of::<SetMapEntry>();

/// The log of an NVM Set, for administrators. Of its bytes only those that are `wanted` need be right. The others are zeros: a large set has
/// thousands of superblocks, and its header looks at the wear of every block.
///
/// # Errors
/// Invalid Field if there is no such set.
pub(crate) fn log(
    core: &Core,
    reader: &Controller,
    nvmsetid: u16,
    wanted: Range<u64>,
    now: Nanos,
) -> Result<Vec<u8>, Failure> {
    let set = set_at(core, nvmsetid)?;
    let count = core.set_properties(set).superblocks;
    let mut bytes = vec![0; HEADER + count as usize * ENTRY];
    if wanted.start < HEADER as u64 {
        bytes[..HEADER].copy_from_slice(header(core, reader, set, now).as_bytes());
    }
    let place = |byte: u64| u32::try_from(byte / ENTRY as u64).unwrap_or(u32::MAX).min(count);
    let first = place(wanted.start.saturating_sub(HEADER as u64));
    let end = place(wanted.end.saturating_sub(HEADER as u64).saturating_add(ENTRY as u64 - 1));
    let entries = bytes[HEADER..].chunks_exact_mut(ENTRY).skip(first as usize);
    for (bytes, superblock) in entries.zip(core.ftl.superblocks(set, first..end)) {
        bytes.copy_from_slice(entry(core, &superblock).as_bytes());
    }
    Ok(bytes)
}

fn header(core: &Core, reader: &Controller, set: SetId, now: Nanos) -> SetMapHeader {
    let (info, stats, properties) =
        (core.ftl.set_info(set), core.ftl.set_stats(set), core.set_properties(set));
    let support = core.ftl.zone_support(set);
    let mut h = SetMapHeader {
        medium: match properties.media {
            MediaKind::Nand => SetMedium::NAND,
            MediaKind::Dram => SetMedium::DRAM,
            MediaKind::Pmem => SetMedium::PMEM,
            MediaKind::Disk => SetMedium::DISK,
        },
        flags: SetMapFlags::new()
            .with_faults_allowed(
                reader.origin != Origin::Network || core.config.allow_fault_commands_from_network,
            )
            .with_read_only(info.is_some_and(|info| info.read_only)),
        ..SetMapHeader::default()
    };
    for (field, value) in [
        (&mut h.version, SetMapHeader::VERSION),
        (&mut h.nvmsetid, u16::from(set.0) + 1),
        (&mut h.header_bytes, HEADER as u16),
        (&mut h.entry_bytes, ENTRY as u16),
    ] {
        field.set(value);
    }
    for (field, value) in [
        (&mut h.entries, properties.superblocks),
        (&mut h.units, properties.units),
        (&mut h.planes, properties.planes),
        (&mut h.superblock_pages, properties.superblock_pages),
        (&mut h.block_pages, properties.block_pages),
        (&mut h.page_bytes, PAGE),
        (&mut h.rated_cycles, info.map_or(u32::MAX, |info| info.rated_cycles)),
        (&mut h.bad_blocks, info.map_or(0, |info| info.bad_blocks)),
        (&mut h.free_superblocks, info.map_or(0, |info| info.free_superblocks)),
        (&mut h.zones_active_left, support.map_or(0, |support| support.active)),
    ] {
        field.set(value);
    }
    for (field, value) in [
        (&mut h.time_ns, now.since(core.power.since).0),
        (&mut h.zone_size, support.map_or(0, |support| support.size)),
        (&mut h.zone_capacity, support.map_or(0, |support| support.capacity)),
        (&mut h.erases, stats.erases),
        (&mut h.collections, stats.collections),
        (&mut h.collected_pages, stats.collected_pages),
        (&mut h.collecting_ns, stats.collecting_ns),
        (&mut h.media_written, stats.media_written_bytes),
        (&mut h.media_moved, stats.media_gc_bytes),
        (&mut h.media_read, stats.media_read_bytes),
        (&mut h.media_failures, stats.media_failures),
        (&mut h.uncorrectable, stats.uncorrectable),
    ] {
        field.set(value);
    }
    h
}

fn entry(core: &Core, superblock: &SuperblockInfo) -> SetMapEntry {
    let mut e = SetMapEntry {
        state: match superblock.usage {
            SuperblockUse::Free => log::SuperblockUse::FREE,
            SuperblockUse::Open => log::SuperblockUse::OPEN,
            SuperblockUse::Closed => log::SuperblockUse::CLOSED,
            SuperblockUse::Collecting => log::SuperblockUse::COLLECTING,
            SuperblockUse::Erasing => log::SuperblockUse::ERASING,
            SuperblockUse::Zones => log::SuperblockUse::ZONES,
            SuperblockUse::Bad => log::SuperblockUse::BAD,
        },
        ..SetMapEntry::default()
    };
    e.zones.set(u16::try_from(superblock.zones).unwrap_or(u16::MAX));
    for (field, value) in [
        (&mut e.usable_pages, superblock.usable),
        (&mut e.written_pages, superblock.written),
        (&mut e.valid_pages, superblock.valid),
        (&mut e.erases, superblock.erases),
    ] {
        field.set(value);
    }
    if let Some((volume, zone)) = superblock.zone {
        let owner = core.namespaces.iter().find(|(_, ns)| ns.volume == volume);
        e.nsid.set(owner.map_or(0, |(nsid, _)| nsid));
        e.zone.set(zone);
        if let Some(info) = core.ftl.zone(volume, zone) {
            e.zone_state = state_of(info.state);
        }
    }
    e
}
