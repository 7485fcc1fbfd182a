//! Metrics of the drive as a whole, and of the hosts that are connected.

use super::BaseUnit::{Celsius, None, Ratio, Seconds};
use super::Kind::{Counter, Gauge, Info};
use super::{Family, Samples, Value};
use live::Snapshot;

/// Critical warnings of SMART, by their bits.
const WARNINGS: [&str; 6] =
    ["spare", "temperature", "reliability", "read_only", "volatile_memory_backup", "persistent_memory"];

/// Where hosts may come from.
const ORIGINS: [&str; 3] = ["process", "unix", "network"];

pub(super) const FAMILIES: &[Family] = &[
    Family::new("build", Info, None, &["version"], "The program", |_, out| {
        out.add(&[&env!("CARGO_PKG_VERSION")], Value::Info);
    }),
    Family::new("drive", Info, None, &["model", "serial", "firmware", "nqn"], "The drive", |s, out| {
        let drive = &s.drive;
        out.add(&[&drive.model, &drive.serial, &drive.firmware, &drive.nqn], Value::Info);
    }),
    Family::new(
        "uptime",
        Gauge,
        Seconds,
        &[],
        "Time since the program started the drive, by the wall's clock",
        |s, out| out.seconds(&[], s.uptime_ns),
    ),
    Family::new("drive_powered", Gauge, None, &[], "Whether the drive has power", |s, out| {
        out.flag(&[], s.drive.powered);
    }),
    Family::new(
        "drive_power_on",
        Counter,
        Seconds,
        &[],
        "Time with power over the drive's life, in its own time",
        |s, out| out.seconds(&[], s.drive.powered_ns),
    ),
    Family::new(
        "drive_busy",
        Counter,
        Seconds,
        &[],
        "Time over the drive's life in which an I/O command was on its way",
        |s, out| out.seconds(&[], s.drive.busy_ns),
    ),
    Family::new(
        "power_cycles",
        Counter,
        None,
        &[],
        "Times that power came, over the drive's life",
        |s, out| {
            out.count(&[], s.drive.power_cycles);
        },
    ),
    Family::new(
        "power_cuts",
        Counter,
        None,
        &[],
        "Losses of power without a shutdown, over the drive's life",
        |s, out| out.count(&[], s.drive.unsafe_shutdowns),
    ),
    Family::new(
        "lossy_power_cuts",
        Counter,
        None,
        &[],
        "Losses of power with which completed writes may have gone, since the program started the drive",
        |s, out| out.count(&[], s.lossy_power_cuts),
    ),
    Family::new(
        "capacitor_backups",
        Counter,
        None,
        &[],
        "Times that the capacitors had to save the write buffer, over the drive's life",
        |s, out| out.count(&[], s.drive.backups),
    ),
    Family::new(
        "capacitors_failed",
        Gauge,
        None,
        &[],
        "Whether the capacitors failed at the last loss of power",
        |s, out| out.flag(&[], s.drive.backup_failed),
    ),
    Family::new(
        "critical_warning",
        Gauge,
        None,
        &["warning"],
        "Whether SMART has this critical warning",
        |s, out| {
            for (bit, warning) in WARNINGS.iter().enumerate() {
                out.flag(&[warning], s.drive.critical_warning >> bit & 1 != 0);
            }
        },
    ),
    Family::new(
        "temperature",
        Gauge,
        Celsius,
        &[],
        "Composite temperature; heat is not modelled, so it is constant",
        |s, out| out.add(&[], Value::Number(f64::from(s.drive.temperature_kelvins) - 273.0)),
    ),
    Family::new("spare_threshold", Gauge, Ratio, &[], "The drive warns when less spare is left", |s, out| {
        out.percent(&[], s.drive.spare_threshold_percent);
    }),
    Family::new(
        "media_errors",
        Counter,
        None,
        &[],
        "Media and data integrity errors of commands, over the drive's life",
        |s, out| out.count(&[], s.drive.media_errors),
    ),
    Family::new(
        "error_log_entries",
        Counter,
        None,
        &[],
        "Commands that failed and were logged, those of administration among them, over the drive's life",
        |s, out| out.count(&[], s.drive.error_entries),
    ),
    Family::new(
        "controllers",
        Gauge,
        None,
        &["origin"],
        "Hosts that are connected: from this process (block files, cache tiers), Unix sockets, the network",
        |s, out| by_origin(s, out, |_| 1),
    ),
    Family::new("io_queues", Gauge, None, &["origin"], "I/O queues of these hosts", |s, out| {
        by_origin(s, out, |controller| controller.io_queues.into());
    }),
];

fn by_origin(s: &Snapshot, out: &mut Samples, count: fn(&live::ControllerSnapshot) -> u64) {
    for origin in ORIGINS {
        let those = s.drive.controllers.iter().filter(|controller| controller.origin == origin);
        out.gauge(&[&origin], those.map(count).sum());
    }
}
