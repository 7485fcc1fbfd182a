//! What a live study has measured, beside the model with its parameters: how far the model itself can be trusted.

use std::{collections::BTreeMap, path::Path};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use lab_models::innodb::Variant;
use lab_report::{
    figure::show,
    input::read_bytes,
    report::Table,
    results::{Point, Results, median, points},
};

/// The longest results that are read, in bytes.
const LONGEST_RESULTS: u64 = 64 << 20;
/// What is read of a live study's `results.json`.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Measured {
    study: String,
    engine: String,
    variants: Vec<MeasuredVariant>,
}

#[derive(Clone, Debug, Deserialize)]
struct MeasuredVariant {
    name: String,
    runs: Vec<MeasuredRun>,
}

#[derive(Clone, Debug, Deserialize)]
struct MeasuredRun {
    at: Point,
    metrics: BTreeMap<String, f64>,
}

impl Measured {
    /// Reads the results of a live study.
    ///
    /// # Errors
    /// The file cannot be read, or is none of a live study of the doublewrite buffer with one of the variants.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let name = path.display();
        let text = read_bytes(path, LONGEST_RESULTS)?;
        let measured: Self =
            serde_json::from_slice(&text).with_context(|| format!("{name} is no results.json of a study"))?;
        if (&*measured.study, &*measured.engine) != ("doublewrite", "live") {
            bail!(
                "{name} is of the study {} ({}): that of doublewrite --live is wanted",
                measured.study,
                measured.engine
            );
        }
        if measured.variants().is_empty() || measured.threads().is_empty() {
            bail!("{name} has no runs of a variant of the doublewrite buffer");
        }
        Ok(measured)
    }

    /// The variants that were measured.
    pub(super) fn variants(&self) -> Vec<Variant> {
        self.variants.iter().filter_map(|v| Variant::named(&v.name)).collect()
    }

    /// The numbers of connections.
    pub(super) fn threads(&self) -> Vec<u32> {
        let runs = self.variants.iter().flat_map(|variant| &variant.runs);
        let mut threads: Vec<u32> =
            runs.filter_map(|run| (*run.at.get("threads")?).try_into().ok()).collect();
        threads.sort_unstable();
        threads.dedup();
        threads
    }

    fn value(&self, variant: &str, metric: &str, at: &Point) -> Option<f64> {
        let runs = &self.variants.iter().find(|v| v.name == variant)?.runs;
        let values: Vec<f64> = runs
            .iter()
            .filter(|run| run.at == *at)
            .filter_map(|run| run.metrics.get(metric).copied())
            .collect();
        median(&values)
    }

    /// The model's figures beside those that were measured, and the same of the ratios over the variant `nand`.
    pub(super) fn beside(&self, results: &Results) -> Table {
        let mut table = Table::new(["like live", "at", "figure", "model", "live", "off by"]);
        let percent = |model: f64, live: f64| format!("{:+.1}%", (model / live - 1.0) * 100.0);
        for at in points(&results.variants) {
            let text = format!("{} connections", at.get("threads").copied().unwrap_or(0));
            for variant in &results.variants {
                for (metric, what, per) in FIGURES {
                    let live = self.value(&variant.name, metric, &at).map(|value| value / per);
                    let model = variant.median(metric, &at).map(|value| value / per);
                    let (Some(model), Some(live)) = (model, live) else { continue };
                    let cells =
                        [&variant.name, &text, what, &show(model), &show(live), &percent(model, live)];
                    table.rows.push(cells.map(ToString::to_string).to_vec());
                }
            }
            for variant in results.variants.iter().filter(|v| v.name != "nand") {
                for (metric, what, _) in FIGURES {
                    let ratio = |of: Option<f64>, over: Option<f64>| Some((of? / over? - 1.0) * 100.0);
                    let nand = |metric| results.variant("nand").and_then(|nand| nand.median(metric, &at));
                    let model = ratio(variant.median(metric, &at), nand(metric));
                    let live = ratio(self.value(&variant.name, metric, &at), self.value("nand", metric, &at));
                    let (Some(model), Some(live)) = (model, live) else { continue };
                    let cells = [
                        format!("{} over nand", variant.name),
                        text.clone(),
                        what.split(',').next().unwrap_or(what).to_owned(),
                        format!("{model:+.1}%"),
                        format!("{live:+.1}%"),
                        format!("{:+.0} points", model - live),
                    ];
                    table.rows.push(cells.to_vec());
                }
            }
        }
        table
    }
}

/// Figures that are compared: metric, what it is, and its unit in that of the metric.
const FIGURES: [(&str, &str, f64); 4] = [
    ("tpmC", "tpmC", 1.0),
    ("nand_bytes_per_new_order", "NAND bytes each new order, KiB", 1024.0),
    ("host_bytes_per_new_order", "host bytes each new order, KiB", 1024.0),
    ("write_amplification_nand", "write amplification of the NAND namespace", 1.0),
];
