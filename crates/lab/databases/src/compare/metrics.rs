//! The figures that are compared: the command's own, as it reports them, and those that every command has.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context, Result};
use serde::Deserialize;

use lab_report::{
    counters::{Counters, NamespaceCounts, total, total_on_flash, write_amplification},
    figure::show,
    report::Table,
    results::{Cpu, Point, Variant},
};

/// What a run of the load was.
pub(super) struct Ran {
    /// How long it was measured.
    pub seconds: f64,
    /// The machine meanwhile.
    pub cpu: Cpu,
    /// The drive's counters when that began.
    pub before: Vec<Counters>,
    /// And when it ended.
    pub after: Vec<Counters>,
    /// Figures of the database server.
    pub of_server: BTreeMap<String, f64>,
    /// Figures of the load itself.
    pub reported: Vec<Reported>,
}

/// A line of `$TRANCHE_METRICS`.
#[derive(Deserialize, Clone, PartialEq, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct Reported {
    /// Its name.
    pub metric: String,
    /// Its value.
    pub value: f64,
    /// Its unit, for people.
    #[serde(default)]
    pub unit: Option<String>,
}

/// The command's own figures, as it reported them.
pub(super) fn read(path: &Path) -> Result<Vec<Reported>> {
    let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(number, line)| {
            serde_json::from_str(line).with_context(|| {
                format!(
                    "line {} of the command's metrics, {}: write {{\"metric\": \"tps\", \"value\": 1.5, \"unit\": \"1/s\"}}",
                    number + 1,
                    path.display()
                )
            })
        })
        .collect()
}

/// Figures that every command has.
#[expect(clippy::cast_precision_loss, reason = "for reading")]
pub(super) fn of_drive(seconds: f64, namespaces: &[NamespaceCounts]) -> BTreeMap<String, f64> {
    let mut metrics = BTreeMap::from([("seconds".to_owned(), seconds)]);
    let (all, nand) = (total(namespaces), total_on_flash(namespaces).media_bytes_written);
    for (name, value) in [
        ("host_bytes_read", all.host_bytes_read),
        ("host_bytes_written", all.host_bytes_written),
        ("nand_bytes_written", nand),
        ("reads", all.reads),
        ("writes", all.writes),
        ("flushes", all.flushes),
    ] {
        metrics.insert(name.into(), value as f64);
    }
    let ratio = write_amplification(nand, all.host_bytes_written);
    metrics.extend(ratio.map(|ratio| ("write_amplification_all".into(), ratio)));
    for n in namespaces.iter().filter(|n| n.counted.writes > 0) {
        metrics.insert(format!("write_mean_ms_{}", n.name), n.counted.write_latency.percentiles().mean);
    }
    for n in namespaces.iter().filter(|n| n.counted.reads > 0) {
        metrics.insert(format!("read_mean_ms_{}", n.name), n.counted.read_latency.percentiles().mean);
    }
    metrics
}

/// The unit of a figure that every command has.
fn unit_of(name: &str) -> Option<&'static str> {
    if let Some((_, unit)) = super::database::METRICS.iter().find(|(metric, _)| *metric == name) {
        return Some(unit);
    }
    match name {
        "seconds" => Some("s"),
        "host_bytes_read" | "host_bytes_written" | "nand_bytes_written" => Some("bytes"),
        "reads" | "writes" | "flushes" => Some("commands"),
        _ if name.starts_with("write_mean_ms_") || name.starts_with("read_mean_ms_") => Some("ms"),
        _ => None,
    }
}

/// A figure's name and unit.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Metric {
    pub name: String,
    pub unit: Option<String>,
}

impl Metric {
    /// For people: "tps (1/s)".
    pub(super) fn label(&self) -> String {
        match &self.unit {
            Some(unit) => format!("{} ({unit})", self.name),
            None => self.name.clone(),
        }
    }
}

/// The figures of all runs: the command's own as it reported them first, then wall time, then the drive's.
#[derive(Default, Debug)]
pub(super) struct Metrics {
    own: Vec<Metric>,
}

impl Metrics {
    /// Notes what a run reported; of several units the last counts.
    pub(super) fn note(&mut self, reported: &[Reported]) {
        for Reported { metric: name, unit, .. } in reported {
            match self.own.iter_mut().find(|known| known.name == *name) {
                Some(known) if unit.is_some() => known.unit.clone_from(unit),
                Some(_) => {}
                None => self.own.push(Metric { name: name.clone(), unit: unit.clone() }),
            }
        }
    }

    /// All figures of these variants.
    pub(super) fn of(&self, variants: &[Variant]) -> Vec<Metric> {
        let all = variants.iter().flat_map(|v| &v.runs).flat_map(|run| run.metrics.keys());
        let mut others: Vec<&String> =
            all.filter(|name| !self.own.iter().any(|own| own.name == **name)).collect();
        others.sort_by_key(|name| (*name != "seconds", *name));
        others.dedup();
        let others = others
            .into_iter()
            .map(|name| Metric { name: name.clone(), unit: unit_of(name).map(str::to_owned) });
        self.own.iter().cloned().chain(others).collect()
    }
}

/// A line for each figure, a column for each layout.
pub(super) fn medians(metrics: &[Metric], variants: &[Variant]) -> Table {
    let mut table = Table::new(["median"]);
    table.columns.extend(variants.iter().map(|variant| variant.name.clone()));
    for metric in metrics {
        let values = variants
            .iter()
            .map(|variant| variant.median(&metric.name, &Point::new()).map_or("-".into(), show));
        table.rows.push(std::iter::once(metric.label()).chain(values).collect());
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab_report::results::Run;

    fn metric(name: &str, unit: Option<&str>) -> Metric {
        Metric { name: name.into(), unit: unit.map(str::to_owned) }
    }

    #[test]
    fn metrics_of_the_command_are_read_and_mistakes_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("m");
        let text =
            "{\"metric\": \"tps\", \"value\": 12.5}\n\n{\"value\": 1, \"metric\": \"x\", \"unit\": \"ms\"}\n";
        fs::write(&path, text).unwrap();
        let x = Reported { metric: "x".into(), value: 1.0, unit: Some("ms".into()) };
        assert_eq!(read(&path).unwrap(), [Reported { metric: "tps".into(), value: 12.5, unit: None }, x]);
        fs::write(&path, "{\"metric\": \"tps\", \"value\": 12.5}\ntps 3\n").unwrap();
        assert!(format!("{:#}", read(&path).unwrap_err()).contains("line 2"));
    }

    #[test]
    fn the_commands_own_figures_come_first_with_their_units() {
        let run = |tps: f64| Run {
            metrics: BTreeMap::from([
                ("zeta".into(), 1.0),
                ("tps".into(), tps),
                ("seconds".into(), 3.0),
                ("flushes".into(), 7.0),
                ("read_mean_ms_data".into(), 0.25),
            ]),
            ..Run::default()
        };
        let variant = |name: &str, runs| Variant { name: name.into(), description: String::new(), runs };
        let variants = [variant("a", vec![run(10.0), run(30.0), run(20.0)]), variant("b", vec![])];
        let mut metrics = Metrics::default();
        let said = |metric: &str, unit: Option<&str>| Reported {
            metric: metric.into(),
            value: 0.0,
            unit: unit.map(str::to_owned),
        };
        metrics.note(&[said("zeta", None), said("tps", Some("1/s"))]);
        metrics.note(&[said("tps", None), said("zeta", Some("x"))]);
        let all = metrics.of(&variants);
        let expected = [
            metric("zeta", Some("x")),
            metric("tps", Some("1/s")),
            metric("seconds", Some("s")),
            metric("flushes", Some("commands")),
            metric("read_mean_ms_data", Some("ms")),
        ];
        assert_eq!(all, expected);
        let table = medians(&all, &variants);
        assert_eq!(table.columns, ["median", "a", "b"]);
        assert_eq!(table.rows[1], ["tps (1/s)", "20.0", "-"]);
        assert_eq!(table.rows[4], ["read_mean_ms_data (ms)", "0.250", "-"]);
    }
}
