//! All layouts with all seeds, and what comes of them.

use anyhow::{Result, bail};
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    database_model::Database,
    disk_testbed::DiskTestbed,
    figures::Figure,
    layouts::Plan,
    load::Load,
    simulated_drive::SimulatedDrive,
    testbed::{Measured, Testbed},
};
use lab_engines::sim::Cache;
use lab_report::{
    control::{Control, Steps},
    counters::lifetime_years,
    figure::{show, show_size},
    parallel,
    results::Spread,
};

/// Such a figure with its value.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, JsonSchema)]
pub struct More {
    /// Which.
    pub figure: Figure,
    /// Its value.
    pub value: Spread,
}

/// What was found of a layout. Ranges are over the seeds.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct Found {
    /// Its name.
    #[schemars(extend("enum" = [
        "configured", "doublewrite", "dram", "atomic", "fpw", "wal", "zones", "disk", "cache", "neighbour", "quota"
    ]))]
    pub name: &'static str,
    /// What it is.
    pub description: String,
    /// Whether a power cut leaves no torn page that nothing mends.
    pub safe: bool,
    /// Whether it is something to choose. Else it is there to be compared with: a neighbour is on the drive, or the
    /// database on a disk.
    pub choice: bool,
    /// What it wants that this drive has not.
    #[schemars(extend("null" = "it can be done on this drive"))]
    pub needs: Option<String>,
    /// Transactions.
    #[schemars(extend("unit" = "1/s"))]
    pub transactions_per_second: Spread,
    /// The same over what is configured, of the same seeds.
    pub throughput_ratio: Spread,
    /// 99 in 100 commits are no longer.
    #[schemars(extend("unit" = "ms", "null" = "commits do not wait for the log"))]
    pub commit_p99_ms: Option<Spread>,
    /// Programmed on flash for each transaction.
    #[schemars(extend("unit" = "bytes"))]
    pub nand_bytes_per_transaction: Spread,
    /// The same over what is configured, of the same seeds.
    pub nand_bytes_ratio: Spread,
    /// Written to the flash by the server for each transaction.
    #[schemars(extend("unit" = "bytes"))]
    pub host_bytes_per_transaction: Spread,
    /// Bytes programmed on flash for each that the server wrote to it.
    pub write_amplification: Spread,
    /// Until the rated cycles are used up, all layouts at the same rate of transactions.
    #[schemars(extend("unit" = "years", "null" = "the drive says no rated cycles, or nothing is written to its flash"))]
    pub years: Option<Spread>,
    /// How far throughput still moved within the window, at most.
    #[schemars(extend("unit" = "%"))]
    pub drift_percent: f64,
    /// Figures that only some layouts have.
    pub more: Vec<More>,
    /// What must hold for it.
    pub warnings: Vec<String>,
    /// How one gets there.
    pub steps: Vec<String>,
}

/// What all simulations have in common.
pub struct Setting<'a> {
    /// The configuration.
    pub database: &'a dyn Database,
    /// The load.
    pub load: Load,
    /// The first seed.
    pub seed: u64,
    /// How many.
    pub seeds: u32,
    /// Where drives are kept.
    pub cache: &'a Cache,
}

/// Simulates all layouts, each on its ground, with all seeds; in the order of the layouts, by seed.
///
/// # Errors
/// A drive or database that cannot be, or an interruption.
pub fn all(
    setting: &Setting<'_>,
    plans: &[(Plan, SimulatedDrive)],
    control: &Control,
) -> Result<Vec<Vec<Measured>>> {
    let pieces: Vec<(usize, u32)> =
        (0..setting.seeds).flat_map(|seed| (0..plans.len()).map(move |plan| (plan, seed))).collect();
    let progress = Steps::new(control, pieces.len() as u64);
    let done = parallel::map(control, &pieces, |&(plan, number)| -> Result<Measured> {
        control.check()?;
        let (plan, ground) = &plans[plan];
        let seed = setting.seed.wrapping_add(u64::from(number));
        let Setting { database, load, cache, .. } = setting;
        let (arrangement, cancel) = (plan.arrangement, control.cancel());
        let measured = match &ground.behind {
            Some(behind) => {
                let bed = DiskTestbed::new(behind, ground, cache, seed, cancel)?;
                bed.run(*database, load, arrangement, seed, cancel)?
            }
            None => {
                let mut bed = Testbed::new(ground.clone(), cache, cancel)?;
                bed.run(*database, load, arrangement, seed, cancel)?
            }
        };
        let step = format!("{}, seed {seed}", plan.name);
        let said = format!(
            "{} transactions/s, {} of NAND writes each",
            show(measured.tps),
            show_size(whole(measured.nand_bytes))
        );
        progress.done(&step, &said);
        Ok(measured)
    });
    drop(progress);
    let mut found = vec![Vec::new(); plans.len()];
    for (&(plan, _), done) in pieces.iter().zip(done) {
        found[plan].push(done?);
    }
    Ok(found)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a positive number, for reading")]
fn whole(value: f64) -> u64 {
    value.max(0.0) as u64
}

/// The figures of a layout, beside those of the first. `work` is the rate of transactions for which endurance is said.
///
/// # Errors
/// There are no runs.
pub fn found(
    plan: &Plan,
    runs: &[Measured],
    first: &[Measured],
    endurance: Option<u128>,
    work: f64,
) -> Result<Found> {
    let of = |figure: &dyn Fn(&Measured) -> f64| {
        let values: Vec<f64> = runs.iter().map(figure).collect();
        Spread::of(&values)
    };
    let over = |figure: &dyn Fn(&Measured) -> f64| {
        let values: Vec<f64> =
            runs.iter().zip(first).map(|(run, first)| figure(run) / figure(first).max(1e-9)).collect();
        Spread::of(&values)
    };
    let commits: Option<Vec<f64>> = runs.iter().map(|run| Some(run.commit?.p99)).collect();
    let years: Option<Vec<f64>> = runs.iter().map(|run| years(endurance?, run.nand_bytes * work)).collect();
    let more = runs.first().into_iter().flat_map(|run| &run.more).enumerate();
    let more = more.filter_map(|(at, &(figure, _))| {
        let values: Vec<f64> = runs.iter().filter_map(|run| Some(run.more.get(at)?.1)).collect();
        Some(More { figure, value: Spread::of(&values)? })
    });
    let more: Vec<More> = more.collect();
    let figures = (|| {
        Some(Found {
            name: plan.name,
            description: plan.description.clone(),
            safe: plan.safe,
            choice: plan.place.is_choice(),
            needs: plan.needs.clone(),
            transactions_per_second: of(&|run| run.tps)?,
            throughput_ratio: over(&|run| run.tps)?,
            commit_p99_ms: commits.and_then(|values| Spread::of(&values)),
            nand_bytes_per_transaction: of(&|run| run.nand_bytes)?,
            nand_bytes_ratio: over(&|run| run.nand_bytes)?,
            host_bytes_per_transaction: of(&|run| run.host_bytes)?,
            write_amplification: of(&|run| run.write_amplification)?,
            years: years.and_then(|values| Spread::of(&values)),
            drift_percent: runs.iter().map(|run| run.drift).max_by(|a, b| a.abs().total_cmp(&b.abs()))?,
            more,
            warnings: plan.warnings.clone(),
            steps: plan.steps.clone(),
        })
    })();
    let Some(found) = figures else { bail!("nothing was simulated of {}", plan.name) };
    Ok(found)
}

/// Years at so many bytes on flash in a second.
fn years(endurance: u128, bytes_per_second: f64) -> Option<f64> {
    lifetime_years(endurance, whole(bytes_per_second), 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn years_are_those_of_the_rated_cycles() {
        // 1 TB with 3,000 cycles, 1 GB in each second.
        let years = years(3_000_000_000_000_000, 1e9).unwrap();
        assert!((years - 3e6 / 86_400.0 / 365.25).abs() < 1e-6, "{years}");
    }
}
