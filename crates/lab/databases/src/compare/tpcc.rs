//! TPC-C in place of a command.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::{
    database::{Running, SEED},
    metrics::{Ran, Reported},
};
use crate::{
    layout::Layout,
    mounted_drive::MountedDrive,
    tpcc::{self, LoadSettings, Phase},
};
use lab_report::{control::Cancel, cpu};

/// How TPC-C runs.
#[derive(Clone, Copy, Debug)]
pub struct TpccLoad {
    /// Connections that run transactions.
    pub connections: u32,
    /// Time before the measurement, in seconds.
    pub warmup: u64,
    /// Measured time, in seconds.
    pub seconds: u64,
}

impl TpccLoad {
    /// Checks that the layouts have what it needs.
    ///
    /// # Errors
    /// A layout has no warehouses, or another number of them than the first.
    pub(super) fn check(self, layouts: &[Layout]) -> Result<()> {
        ensure!(self.connections > 0 && self.seconds > 0, "TPC-C needs a connection and a second at least");
        let warehouses =
            |layout: &Layout| layout.database.as_ref().map_or(0, |database| database.tpcc_warehouses);
        let first = layouts.first().map_or(0, warehouses);
        for layout in layouts {
            match warehouses(layout) {
                0 => bail!(
                    "--tpcc: layout {} has no warehouses: give its [database] tpcc_warehouses = 4",
                    layout.name
                ),
                number if number != first => {
                    bail!("--tpcc: layout {} has {number} warehouses, and the first has {first}", layout.name)
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Runs it, and checks the database afterwards.
    pub(super) fn run(
        self,
        layout: &Layout,
        database: &mut Running<'_>,
        mounted: &mut MountedDrive,
        repetition: u32,
        cancel: &Cancel,
    ) -> Result<Ran> {
        let warehouses = layout.database.as_ref().map_or(0, |database| database.tpcc_warehouses);
        let load = LoadSettings {
            database: database.at(),
            warehouses,
            threads: self.connections,
            warmup: Duration::from_secs(self.warmup),
            window: Duration::from_secs(self.seconds),
            // Every layout gets the same transactions in a repetition.
            seed: SEED + u64::from(repetition),
            cancel: cancel.clone(),
        };
        let mut processes = vec![("database", database.id()), ("load", std::process::id())];
        processes.extend(mounted.drive()?.id().map(|id| ("drive", id)));
        let mut samples = Vec::new();
        let outcome = tpcc::run(&load, |phase| {
            match phase {
                Phase::Start => database.forget()?,
                Phase::Warmup { .. } | Phase::Measuring { .. } => return database.check(),
                Phase::End => {}
            }
            samples.push((mounted.counters()?, cpu::Sample::take(&processes)));
            Ok(())
        })?;
        let window = &outcome.window;
        let of_server = database.metrics()?;
        tpcc::check(&load.database)?;
        let mut samples = samples.into_iter();
        let (before, cpu_before) = samples.next().context("the measured window did not begin")?;
        let (after, cpu_after) = samples.next().context("the measured window did not end")?;
        let figure = |metric: &str, value, unit: &str| Reported {
            metric: metric.into(),
            value,
            unit: (!unit.is_empty()).then(|| unit.into()),
        };
        #[expect(clippy::cast_precision_loss, reason = "for reading")]
        let ms = |micros: u64| micros as f64 / 1e3;
        #[expect(clippy::cast_precision_loss, reason = "for reading")]
        let orders = window.new_orders() as f64;
        let mut reported = vec![
            figure("tpm_c", window.tpm_c(), "1/min"),
            figure("new_orders", orders, ""),
            figure("new_order_p99_ms", ms(window.latency[0].value_at_quantile(0.99)), "ms"),
            figure("commit_p99_ms", ms(window.commit.value_at_quantile(0.99)), "ms"),
        ];
        if let Some(bytes) = of_server.get("wal_bytes").filter(|_| orders > 0.0) {
            reported.push(figure("wal_bytes_per_new_order", bytes / orders, "bytes"));
        }
        Ok(Ran {
            seconds: window.length.as_secs_f64(),
            cpu: cpu_after.since(&cpu_before, self.connections),
            before,
            after,
            of_server,
            reported,
        })
    }
}
