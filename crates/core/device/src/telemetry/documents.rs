//! The documents in the data areas of a capture.

use super::TelemetryInputs;
use crate::core::{Admission, Core};
use ftl::{MediaKind, SetId};
use media::Nanos;
use serde_json::{Value, json};

/// Version of the documents.
const VERSION: u32 = 1;

/// Namespaces in the second data area, at most.
const NAMESPACES: usize = 256;

/// Characters of all sets' states in the second data area, at most: they name every superblock.
const STATE: usize = 64 << 10;

/// Controllers in the third data area, and newest errors of each, at most.
const CONTROLLERS: usize = 64;
const ERRORS: usize = 8;

/// The documents of data areas 1 to 3.
pub(super) fn areas(core: &Core, inputs: &TelemetryInputs, now: Nanos) -> [Value; 3] {
    [summary(core, inputs, now), inventory(core), failures(core)]
}

/// Data area 1: what the drive is, and its counters.
fn summary(core: &Core, inputs: &TelemetryInputs, now: Nanos) -> Value {
    let (config, persistent, traffic) = (&core.config, &core.persistent, core.persistent.total());
    json!({
        "version": VERSION,
        "model": config.identity.model,
        "serial": config.identity.serial,
        "firmware": nvme::identify::ascii_text(&inputs.firmware_revision),
        "program": env!("CARGO_PKG_VERSION"),
        "now_ns": now.0,
        "powered_ns": core.powered(now),
        "power_cycles": persistent.power_cycles,
        "unsafe_shutdowns": persistent.unsafe_shutdowns,
        "backups": persistent.backups,
        "backup_failed": inputs.backup_failed,
        "critical_warning": inputs.critical_warning,
        "busy_ns": core.busy_time(now),
        "traffic": traffic,
        "media_errors": persistent.media_errors,
        "error_entries": persistent.error_entries,
        "commands_in_flight": core.commands.len(),
        "controllers": core.controllers.iter().count(),
        "namespaces": core.namespaces.iter().count(),
    })
}

/// Data area 2: NVM Sets and namespaces.
fn inventory(core: &Core) -> Value {
    let state = STATE / core.ftl.set_count().max(1);
    let sets: Vec<Value> = core
        .sets()
        .map(|(id, info)| {
            json!({
                "nvmsetid": u16::from(id.0) + 1,
                "media": match info.media {
                    MediaKind::Nand => "nand",
                    MediaKind::Dram | MediaKind::Pmem => "memory",
                    MediaKind::Disk => "disk",
                },
                "capacity_bytes": info.capacity_bytes,
                "unallocated_bytes": info.unallocated_bytes,
                "raw_bytes": info.raw_bytes,
                "spare_percent": info.spare_percent,
                "used_percent": info.used_percent,
                "cycles": [info.min_cycles, info.mean_cycles, info.max_cycles],
                "bad_blocks": info.bad_blocks,
                "free_superblocks": info.free_superblocks,
                "read_only": info.read_only,
                "counts": core.ftl.set_stats(id),
                "traffic": core.persistent.traffic(SetId(id.0)),
                "state": core.ftl.describe(id).chars().take(state).collect::<String>(),
            })
        })
        .collect();
    let namespaces: Vec<Value> = core
        .namespaces
        .iter()
        .take(NAMESPACES)
        .map(|(nsid, ns)| {
            json!({
                "nsid": nsid,
                "nvmsetid": u16::from(ns.set.0) + 1,
                "bytes": ns.bytes,
                "format": ns.format,
                "in_flight": ns.in_flight,
                "closing": ns.admission != Admission::Open,
                "traffic": ns.traffic(),
                "media": core.ftl.volume_stats(ns.volume),
            })
        })
        .collect();
    json!({ "sets": sets, "namespaces": namespaces })
}

/// Data area 3: controllers with their newest errors.
fn failures(core: &Core) -> Value {
    let controllers: Vec<Value> = core
        .controllers
        .iter()
        .take(CONTROLLERS)
        .map(|(id, controller)| {
            let errors: Vec<Value> = controller
                .errors
                .iter()
                .take(ERRORS)
                .map(|e| {
                    json!({
                        "count": e.error_count.get(),
                        "sqid": e.sqid.get(),
                        "opcode": e.opc,
                        "status": e.status().code().0,
                        "nsid": e.nsid.get(),
                        "lba": e.lba.get(),
                    })
                })
                .collect();
            json!({
                "cntlid": id.0,
                "port": controller.port.0,
                "ready": controller.is_ready(),
                "errors": controller.error_count,
                "newest": errors,
            })
        })
        .collect();
    json!({ "controllers": controllers })
}
