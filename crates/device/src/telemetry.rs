//! Telemetry (Base 5.1.12.1.8, 5.1.12.1.9, 8.1.26): the drive's own state as it was at one moment, for whoever looks for
//! a fault. [docs/telemetry.md](../../../docs/telemetry.md) says what is in it.

use crate::contents::Contents;
use crate::core::{AsyncEvent, ControllerId, Cx};
use crate::drive::Drive;
use ftl::{MediaKind, SetId};
use media::Nanos;
use nvme::U16;
use nvme::log::{LogId, PersistentEventType, TELEMETRY_BLOCK, TelemetryHeader};
use nvme::zerocopy::IntoBytes;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Version of the documents in the data areas.
const VERSION: u32 = 1;

/// Namespaces that the second data area tells of, at most.
const NAMESPACES: usize = 256;

/// Characters of all sets' states in the second data area, at most: they name every superblock.
const STATE: usize = 64 << 10;

/// Controllers that the third data area tells of, and newest errors of each, at most.
const CONTROLLERS: usize = 64;
const ERRORS: usize = 8;

/// What outlives power: how often state was captured, and what the controller captured on its own account, until a host
/// has read it (Base 5.1.12.1.9).
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Kept {
    host: u8,
    controller: u8,
    own: Option<Capture>,
}

/// Data areas 1 to 3, and why they were captured.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub(crate) struct Capture {
    /// A line for each area; nothing at all if nothing was captured.
    areas: [String; 3],
    reason: String,
}

impl Capture {
    fn new(areas: [Value; 3], reason: String) -> Capture {
        Capture { areas: areas.map(|area| format!("{area}\n")), reason }
    }

    /// Last block of each area, as they follow each other; FFFFh is that one and all later.
    fn last(&self) -> [u16; 3] {
        let mut blocks = 0;
        self.areas.each_ref().map(|area| {
            blocks += area.len().div_ceil(TELEMETRY_BLOCK);
            u16::try_from(blocks).unwrap_or(u16::MAX)
        })
    }

    /// The areas, each of whole blocks.
    fn write(&self, log: &mut Vec<u8>) {
        for area in &self.areas {
            log.extend_from_slice(area.as_bytes());
            log.resize(log.len().next_multiple_of(TELEMETRY_BLOCK), 0);
        }
    }
}

impl Drive {
    fn capture(&self, now: Nanos, reason: String) -> Capture {
        Capture::new([self.summary(now), self.inventory(), self.failures()], reason)
    }

    /// Data area 1: what the drive is, and its counters.
    fn summary(&self, now: Nanos) -> Value {
        let (config, life, traffic) =
            (&self.core.config, &self.core.persistent, self.core.persistent.total());
        json!({
            "version": VERSION,
            "model": config.identity.model,
            "serial": config.identity.serial,
            "firmware": nvme::identify::ascii_text(&self.firmware_revision()),
            "program": env!("CARGO_PKG_VERSION"),
            "now_ns": now.0,
            "powered_ns": self.core.powered(now),
            "power_cycles": life.power_cycles,
            "unsafe_shutdowns": life.unsafe_shutdowns,
            "backups": life.backups,
            "backup_failed": self.health.backup_failed,
            "critical_warning": self.health.common_warning(&self.core).into_bits(),
            "busy_ns": self.core.busy_time(now),
            "traffic": traffic,
            "media_errors": life.media_errors,
            "error_entries": life.error_entries,
            "commands_in_flight": self.in_flight(),
            "controllers": self.core.controllers.iter().count(),
            "namespaces": self.core.namespaces.iter().count(),
        })
    }

    /// Data area 2: NVM Sets and namespaces.
    fn inventory(&self) -> Value {
        let state = STATE / self.core.ftl.set_count().max(1);
        let sets: Vec<Value> = self
            .core
            .sets()
            .map(|(id, info)| {
                json!({
                    "nvmsetid": u16::from(id.0) + 1,
                    "media": if info.media == MediaKind::Nand { "nand" } else { "memory" },
                    "capacity_bytes": info.capacity_bytes,
                    "unallocated_bytes": info.unallocated_bytes,
                    "raw_bytes": info.raw_bytes,
                    "spare_percent": info.spare_percent,
                    "used_percent": info.used_percent,
                    "cycles": [info.min_cycles, info.mean_cycles, info.max_cycles],
                    "bad_blocks": info.bad_blocks,
                    "free_superblocks": info.free_superblocks,
                    "read_only": info.read_only,
                    "counts": self.core.ftl.set_stats(id),
                    "traffic": self.core.persistent.traffic(SetId(id.0)),
                    "state": self.core.ftl.describe(id).chars().take(state).collect::<String>(),
                })
            })
            .collect();
        let namespaces: Vec<Value> = self
            .core
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
                    "closing": ns.closing,
                    "traffic": ns.traffic(),
                    "media": self.core.ftl.volume_stats(ns.volume),
                })
            })
            .collect();
        json!({ "sets": sets, "namespaces": namespaces })
    }

    /// Data area 3: controllers with their newest errors.
    fn failures(&self) -> Value {
        let controllers: Vec<Value> = self
            .core
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

    /// The host asks for a capture (Create Telemetry Host-Initiated Data).
    pub(crate) fn create_telemetry<S: Contents>(&mut self, id: ControllerId, cx: &mut Cx<'_, S>) {
        self.telemetry = self.capture(cx.now, String::from("host"));
        let kept = &mut self.core.persistent.telemetry;
        kept.host = kept.host.wrapping_add(1);
        let header = self.telemetry_header(LogId::TELEMETRY_HOST);
        self.core.remember(cx.now, Some(id), PersistentEventType::TELEMETRY_CREATED, header.as_bytes());
        self.core.record(cx.storage);
    }

    /// The drive itself has a reason for a capture. One that no host has read yet stays: the first is what is wanted.
    pub(crate) fn capture_telemetry<S: Contents>(&mut self, reason: String, cx: &mut Cx<'_, S>) {
        if self.core.persistent.telemetry.own.is_some() {
            return;
        }
        let capture = self.capture(cx.now, reason);
        let kept = &mut self.core.persistent.telemetry;
        kept.own = Some(capture);
        kept.controller = kept.controller.wrapping_add(1);
        let mut answers = Vec::new();
        for (_, controller) in self.core.controllers.iter_mut() {
            let configuration = controller.values.events();
            answers.extend(controller.events.raise(AsyncEvent::Telemetry, configuration));
        }
        for answer in answers {
            self.core.answer_event(answer, cx);
        }
    }

    fn telemetry_header(&self, lid: LogId) -> TelemetryHeader {
        let empty = Capture::default();
        let host = lid == LogId::TELEMETRY_HOST;
        let own = self.core.persistent.telemetry.own.as_ref();
        let capture = if host { &self.telemetry } else { own.unwrap_or(&empty) };
        let [first, second, third] = capture.last();
        // Scope 2: the NVM subsystem.
        let mut header = TelemetryHeader {
            lid,
            dalb1: U16::new(first),
            dalb2: U16::new(second),
            dalb3: U16::new(third),
            host_scope: u8::from(host) * 2,
            host_generation: if host { self.core.persistent.telemetry.host } else { 2 },
            controller_available: own.is_some().into(),
            controller_generation: self.core.persistent.telemetry.controller,
            ..TelemetryHeader::default()
        };
        for (byte, c) in header.reason.iter_mut().zip(capture.reason.bytes()) {
            *byte = c;
        }
        header
    }

    /// A Telemetry log as a whole.
    pub(crate) fn telemetry_log(&self, lid: LogId) -> Vec<u8> {
        let mut log = self.telemetry_header(lid).as_bytes().to_vec();
        let capture = match lid {
            LogId::TELEMETRY_HOST => Some(&self.telemetry),
            _ => self.core.persistent.telemetry.own.as_ref(),
        };
        if let Some(capture) = capture {
            capture.write(&mut log);
        }
        log
    }

    /// A host has read the controller-initiated log and does not retain it.
    pub(crate) fn release_telemetry<S: Contents>(&mut self, cx: &mut Cx<'_, S>) {
        if self.core.persistent.telemetry.own.take().is_some() {
            self.core.record(cx.storage);
        }
    }

    /// Power was lost: what a host asked for was in memory.
    pub(crate) fn forget_telemetry(&mut self) {
        self.telemetry = Capture::default();
    }
}
