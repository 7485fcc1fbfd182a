//! A log on a zone, with the power cut in the middle of it: what is lost of what the writer took for durable, with and without Flush, on drives with and without
//! power-loss protection. ZenFS sends no Flush.

use anyhow::{Context, Result};
use host::Host;
use live::Config;
use nvme::{admin::PowerCut, zone::ZoneReportFilter};
use rng::Rng;
use sim::{Contents, Nanos, Sim, SimTransport};
use toml::Value;
use tracing::subscriber::NoSubscriber;

use lab_models::rocksdb::chips::{Chips, Layout};
use lab_report::{
    control::Control,
    results::{Point, Run},
};

const NQN: &str = "nqn.2026-11.io.tranche:log";

/// Bytes of a record of the log, and records at most before the power is cut.
const RECORD: usize = 16 << 10;
const RECORDS: u64 = 1000;

/// What the writer does, and what the drive has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Case {
    /// Whether each record is followed by a Flush.
    pub flush: bool,
    /// Whether capacitors save what is in the drive's buffers.
    pub protection: bool,
}

/// The drive of a case: as small as it goes.
fn config(toml: &toml::Table, name: &str, case: Case) -> Result<Config> {
    let mut toml = Chips::new(toml, 1024, name)?.toml(Layout::Zones(0))?;
    let drive = toml.get_mut("drive").and_then(Value::as_table_mut).context("[drive] is no table")?;
    drive.insert("power_loss_protection".into(), case.protection.into());
    drive.insert("allow_network_faults".into(), true.into());
    Ok(Config::from_toml(&toml::to_string(&toml)?)?)
}

/// One cut: records that the writer took for durable, and those of them that are not there afterwards.
fn cut(config: &Config, case: Case, seed: u64) -> Result<(u64, u64)> {
    let mut rng = Rng::new(seed);
    let sim = Sim::new(config.clone(), Contents::Memory)?;
    let records = 1 + rng.below(RECORDS);
    let mut host: Host<SimTransport> = sim.host(NQN)?;
    let zoned = host.zoned_namespace(1)?;
    let mut queue = host.io_queue(4)?;
    let record = vec![0xA5; RECORD];
    for _ in 0..records {
        queue.append(&zoned, 0, &record)?;
        if case.flush {
            queue.flush(1)?;
        }
    }
    let off = 1 + rng.below(5) as u32;
    let command = PowerCut { after_media_ops: 0, off_ms: off, seed: rng.next_u64() as u32, no_plp: false };
    host.power_cut(command).context("cutting the power")?;
    drop((queue, host));
    sim.run_until(Nanos(sim.now().0 + u64::from(off) * 1_000_000 + 1_000_000_000));
    let mut host = sim.host(NQN).context("connecting after the power cut")?;
    let zoned = host.zoned_namespace(1)?;
    let mut queue = host.io_queue(4)?;
    let zones = queue.report_zones(&zoned, 0, ZoneReportFilter::ALL, 1)?;
    let zone = zones.first().context("there is no zone")?;
    let blocks = zone.wp.get().saturating_sub(zone.zslba.get());
    let there = blocks * u64::from(zoned.namespace.block_size) / RECORD as u64;
    Ok((records, records.saturating_sub(there)))
}

/// Many cuts.
///
/// # Errors
/// The drive does not come back.
#[expect(clippy::cast_precision_loss, reason = "small counts")]
pub(super) fn run(
    toml: &toml::Table,
    name: &str,
    case: Case,
    cuts: u64,
    seed: u64,
    repetition: u32,
    control: &Control,
) -> Result<Run> {
    let config = config(toml, name, case)?;
    tracing::info!("the power of simulated drives goes {cuts} times; what each says of it is left out");
    let (mut records, mut lost, mut with_loss, mut most) = (0, 0, 0u64, 0);
    for number in 0..cuts {
        control.check()?;
        let seed = seed.wrapping_add(number);
        // Each drive would say twice that its power is gone and back.
        let cut = tracing::subscriber::with_default(NoSubscriber::default(), || cut(&config, case, seed));
        let (synced, gone) = cut.with_context(|| format!("with seed {seed}"))?;
        records += synced;
        lost += gone;
        with_loss += u64::from(gone > 0);
        most = most.max(gone);
    }
    let mut run = Run { at: Point::from([("cuts".into(), cuts)]), repetition, ..Run::default() };
    run.metrics.extend(
        [
            ("synced_records", records as f64),
            ("lost_records", lost as f64),
            ("lost_bytes_per_cut", (lost * RECORD as u64) as f64 / cuts.max(1) as f64),
            ("lost_bytes_at_most", (most * RECORD as u64) as f64),
            ("cuts_with_loss_percent", with_loss as f64 * 100.0 / cuts.max(1) as f64),
        ]
        .map(|(name, value)| (name.to_owned(), value)),
    );
    Ok(run)
}
