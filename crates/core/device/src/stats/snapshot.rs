//! Everything that a drive counts, at one moment, as plain data: what a monitor shows.
//!
//! A snapshot is taken without a command, and costs copies of counters. So it says more than logs do (latencies by opcode, commands that
//! wait), and a running drive can be asked often.

use super::counts::Latency;
use super::media_stats;
use crate::core::{Controller, ControllerId, Core, Namespace, Origin};
use crate::temperature::TEMPERATURE;
use drive_config::Limits;
use ftl::{SetId, SetInfo, SetStats, VolumeStats, ZoneState};
use media::Nanos;
use nvme::IoOpcode;
use serde::Serialize;

/// A drive at one moment.
#[derive(Clone, Debug, Serialize)]
pub struct DriveSnapshot {
    /// The drive's time: nanoseconds since it was first powered.
    pub now_ns: u64,
    /// Model number.
    pub model: String,
    /// Serial number.
    pub serial: String,
    /// Firmware revision that runs.
    pub firmware: String,
    /// NQN of the subsystem.
    pub nqn: String,
    /// Whether it has power.
    pub powered: bool,
    /// Nanoseconds since power came, or went.
    pub since_power_ns: u64,
    /// Nanoseconds with power over its life.
    pub powered_ns: u64,
    /// Nanoseconds over its life in which an I/O command was on its way.
    pub busy_ns: u64,
    /// Times that power came, over its life.
    pub power_cycles: u64,
    /// Losses of power without a shutdown, over its life.
    pub unsafe_shutdowns: u64,
    /// Times that the capacitors had to save what was in the write buffer, over its life.
    pub backups: u64,
    /// Whether they failed the last time.
    pub backup_failed: bool,
    /// Media and data integrity errors, over its life.
    pub media_errors: u64,
    /// Commands that failed and were logged, over its life.
    pub error_entries: u64,
    /// Critical warnings of SMART, as bits.
    pub critical_warning: u8,
    /// Composite temperature in kelvins.
    pub temperature_kelvins: u16,
    /// Below this percentage of spare the drive warns.
    pub spare_threshold_percent: u8,
    /// Hosts that are connected.
    pub controllers: Vec<ControllerSnapshot>,
    /// Namespaces that exist.
    pub namespaces: Vec<NamespaceSnapshot>,
    /// NVM Sets.
    pub sets: Vec<SetSnapshot>,
}

/// A host that is connected.
#[derive(Clone, Debug, Serialize)]
pub struct ControllerSnapshot {
    /// Controller Identifier.
    pub cntlid: u16,
    /// NQN of the host.
    pub host: String,
    /// Where it comes from: `process`, `unix` or `network`.
    pub origin: &'static str,
    /// Port that it comes through; 0 in this process.
    pub port: u16,
    /// I/O queues.
    pub io_queues: u32,
}

/// Commands that had to wait, and for how long together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Held {
    /// Commands.
    pub commands: u64,
    /// Nanoseconds.
    pub ns: u64,
}

/// Latencies of commands of one opcode that succeeded.
#[derive(Clone, Debug, Serialize)]
pub struct CommandLatency {
    /// Opcode of an I/O command.
    pub opcode: u8,
    /// Commands by the buckets of [`nvme::log::LatencyHistogram`].
    pub buckets: Vec<u64>,
    /// Sum of the latencies in nanoseconds.
    pub sum_ns: u64,
    /// The longest in nanoseconds.
    pub max_ns: u64,
}

impl CommandLatency {
    fn new(opcode: u8, latency: &Latency) -> Self {
        let (buckets, sum_ns, max_ns) = latency.values();
        CommandLatency { opcode, buckets: buckets.to_vec(), sum_ns, max_ns }
    }

    /// How many commands there were.
    pub fn commands(&self) -> u64 {
        self.buckets.iter().sum()
    }

    fn add(&mut self, latency: &Latency) {
        let (buckets, sum_ns, max_ns) = latency.values();
        self.buckets.iter_mut().zip(buckets).for_each(|(mine, theirs)| *mine += theirs);
        self.sum_ns = self.sum_ns.saturating_add(sum_ns);
        self.max_ns = self.max_ns.max(max_ns);
    }
}

/// How many zones of a namespace are in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ZoneCounts {
    /// Empty.
    pub empty: u32,
    /// Implicitly opened.
    pub implicitly_opened: u32,
    /// Explicitly opened.
    pub explicitly_opened: u32,
    /// Closed.
    pub closed: u32,
    /// Full.
    pub full: u32,
    /// Read only.
    pub read_only: u32,
    /// Offline.
    pub offline: u32,
}

/// A namespace at one moment. Counts are since it was created or the drive was powered on, whichever was later.
#[derive(Clone, Debug, Serialize)]
pub struct NamespaceSnapshot {
    /// Namespace Identifier.
    pub nsid: u32,
    /// NVM Set Identifier, from 1.
    pub set: u16,
    /// Size in bytes.
    pub bytes: u64,
    /// Bytes of a logical block.
    pub block_bytes: u32,
    /// Commands on their way; those that wait for their turn are not among them.
    pub in_flight: u32,
    /// Commands that wait for their turn: those that read, those that write.
    pub held: [u64; 2],
    /// Bytes that hosts read.
    pub read_bytes: u64,
    /// Bytes that hosts wrote.
    pub written_bytes: u64,
    /// Commands that failed.
    pub failed: u64,
    /// Media and data integrity errors.
    pub media_errors: u64,
    /// Writes that waited for room in the write buffer.
    pub stalled: Held,
    /// Commands that the quota held back: those that read, those that write.
    pub throttled: [Held; 2],
    /// Commands that were held back so that other namespaces get their share, likewise.
    pub shared: [Held; 2],
    /// What the media did for it.
    pub media: VolumeStats,
    /// The quota in force.
    pub quota: Limits,
    /// Commands that succeeded: Flush, Write and Read in any case, other opcodes if there were any.
    pub commands: Vec<CommandLatency>,
    /// Its zones, if it is zoned.
    pub zones: Option<ZoneCounts>,
}

/// An NVM Set at one moment.
#[derive(Clone, Debug, Serialize)]
pub struct SetSnapshot {
    /// NVM Set Identifier, from 1. Its Endurance Group has the same.
    pub set: u16,
    /// Its medium: `nand`, `dram`, `pmem` or `disk`.
    pub medium: &'static str,
    /// State.
    pub info: SetInfo,
    /// Counts of the medium over its life.
    pub counts: SetStats,
    /// Bytes that hosts read, over its life.
    pub read_bytes: u64,
    /// Bytes that hosts wrote, over its life.
    pub written_bytes: u64,
    /// Media and data integrity errors, over its life.
    pub media_errors: u64,
    /// Superblocks; 0 of a medium without.
    pub superblocks: u32,
}

/// A snapshot without what components know: the firmware and the warnings.
pub(crate) fn take(core: &Core, now: Nanos) -> DriveSnapshot {
    let (identity, persistent) = (&core.config.identity, &core.persistent);
    DriveSnapshot {
        now_ns: now.0,
        model: identity.model.clone(),
        serial: identity.serial.clone(),
        firmware: String::new(),
        nqn: identity.nqn.to_string(),
        powered: core.power.on,
        since_power_ns: now.since(core.power.since).0,
        powered_ns: if core.power.on { core.powered(now) } else { persistent.powered },
        busy_ns: core.busy_time(now),
        power_cycles: persistent.power_cycles,
        unsafe_shutdowns: persistent.unsafe_shutdowns,
        backups: persistent.backups,
        backup_failed: false,
        media_errors: persistent.media_errors,
        error_entries: persistent.error_entries,
        critical_warning: 0,
        temperature_kelvins: TEMPERATURE,
        spare_threshold_percent: core.config.spare_threshold,
        controllers: core.controllers.iter().map(|(id, c)| controller(id, c)).collect(),
        namespaces: core.namespaces.iter().map(|(nsid, ns)| namespace(core, nsid, ns)).collect(),
        sets: core.sets().map(|(id, info)| set(core, id, info)).collect(),
    }
}

fn controller(id: ControllerId, controller: &Controller) -> ControllerSnapshot {
    ControllerSnapshot {
        cntlid: id.0,
        host: controller.host.to_string(),
        origin: match controller.origin {
            Origin::InProcess => "process",
            Origin::Unix => "unix",
            Origin::Network => "network",
        },
        port: controller.port.0,
        io_queues: controller.io_queues(),
    }
}

fn namespace(core: &Core, nsid: u32, ns: &Namespace) -> NamespaceSnapshot {
    let stats = &ns.stats;
    let mut commands = vec![
        CommandLatency::new(IoOpcode::FLUSH.0, &stats.flush_latency),
        CommandLatency::new(IoOpcode::WRITE.0, &stats.write_latency),
        CommandLatency::new(IoOpcode::READ.0, &stats.read_latency),
    ];
    for of in &stats.opcodes {
        match commands.iter_mut().find(|known| known.opcode == of.opcode) {
            Some(known) => known.add(&of.latency),
            None => commands.push(CommandLatency::new(of.opcode, &of.latency)),
        }
    }
    NamespaceSnapshot {
        nsid,
        set: u16::from(ns.set.0) + 1,
        bytes: ns.bytes,
        block_bytes: 1 << ns.shift,
        in_flight: ns.in_flight,
        held: core.held_of(ns),
        read_bytes: stats.read_bytes,
        written_bytes: stats.written_bytes,
        failed: stats.failed,
        media_errors: stats.media_errors,
        stalled: Held { commands: stats.stalled_writes, ns: stats.stalled_ns },
        throttled: stats.throttled.map(|held| Held { commands: held.commands, ns: held.ns }),
        shared: stats.shared.map(|held| Held { commands: held.commands, ns: held.ns }),
        media: media_stats(core, ns),
        quota: ns.quota.current,
        commands,
        zones: ns.zones.map(|layout| zones(core, ns, layout.zones)),
    }
}

fn zones(core: &Core, ns: &Namespace, count: u32) -> ZoneCounts {
    let mut counts = ZoneCounts::default();
    for zone in (0..count).filter_map(|zone| core.ftl.zone(ns.volume, zone)) {
        let of_state = match zone.state {
            ZoneState::Empty => &mut counts.empty,
            ZoneState::ImplicitlyOpened => &mut counts.implicitly_opened,
            ZoneState::ExplicitlyOpened => &mut counts.explicitly_opened,
            ZoneState::Closed => &mut counts.closed,
            ZoneState::Full => &mut counts.full,
            ZoneState::ReadOnly => &mut counts.read_only,
            ZoneState::Offline => &mut counts.offline,
        };
        *of_state += 1;
    }
    counts
}

fn set(core: &Core, id: SetId, info: SetInfo) -> SetSnapshot {
    let traffic = core.persistent.traffic(id);
    SetSnapshot {
        set: u16::from(id.0) + 1,
        medium: info.media.name(),
        info,
        counts: core.ftl.set_stats(id),
        read_bytes: traffic.read_bytes,
        written_bytes: traffic.written_bytes,
        media_errors: traffic.media_errors,
        superblocks: core.set_properties(id).superblocks,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn opcodes_are_apart_and_each_is_there_once() {
        let mut core = fixture::core();
        let stats = &mut core.namespaces.get_mut(1).unwrap().stats;
        stats.read_latency.record(Nanos(2048));
        // Dataset Management, with and without deallocation.
        stats.record(0x09, None, Nanos(10));
        stats.record(0x09, Some(nvme::command_table::LatencyClass::Deallocate), Nanos(5000));
        fixture::connect(&mut core, 1);
        let snapshot = take(&core, Nanos(7));
        let commands = &snapshot.namespaces[0].commands;
        let counted: Vec<_> =
            commands.iter().map(|of| (of.opcode, of.commands(), of.sum_ns, of.max_ns)).collect();
        assert_eq!(counted, [(0, 0, 0, 0), (1, 0, 0, 0), (2, 1, 2048, 2048), (9, 2, 5010, 5000)]);
        assert_eq!((snapshot.now_ns, snapshot.controllers.len(), snapshot.sets[0].set), (7, 1, 1));
        let json = serde_json::to_value(&snapshot).unwrap();
        assert_eq!(json["namespaces"][0]["nsid"], 1);
    }
}
