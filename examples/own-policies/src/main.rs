//! Two policies that Tranche does not have, on a small drive in virtual time, beside those that it has: how many bytes of flash are programmed
//! for each byte that hosts write. Copy this crate, and put your policy in place of these.
//!
//!     cargo run --release -p own-policies

mod choices;
mod lifetime;

use std::sync::Arc;

use anyhow::{Context, Result};
use choices::Choices;
use lab_engines::sim::{Contents, Figure, LoadFile, Precondition, Settings, Sheet, simulate};
use lab_report::control::Control;
use lab_report::results::Overwrite;
use lifetime::ByLifetime;
use live::policies::Policies;
use rng::Rng;

/// Small superblocks, of 1 MiB, so that there are some 300 to choose from.
const DRIVE: &str = r#"
[drive]
write_buffer = "2MiB"
power_loss_protection = true

[[set]]
media = "nand"
cell = "slc"
capacity = "256MiB"
spare = "15%"
channels = 4
dies = 4
planes = 1
nand_page = "4KiB"
pages_per_block = 64
rated_cycles = 100000
timing = { read = "50us", program = "200us", erase = "2ms", channel = "800MB/s" }
gc = { policy = "POLICY" }

[[namespace]]
size = "256MiB"
"#;

/// Eight times the capacity is written, and the second half of it measured.
const LOADS: [(&str, &str); 2] = [
    ("uniform", "[load]\nrw=randwrite\nbs=4k\niodepth=32\nio_size=2g\nnorandommap\n"),
    (
        "zipf 1.1",
        "[load]\nrw=randwrite\nbs=4k\niodepth=32\nio_size=2g\nnorandommap\nrandom_distribution=zipf:1.1\n",
    ),
];

/// What a row of the table is called, the policy of the drive's TOML, and what takes its place.
type Variant = (&'static str, &'static str, Policies);

fn variants() -> [Variant; 6] {
    let choices = |count| {
        let victim = Arc::new(Choices { count, rng: Rng::new(7) });
        Policies { victim: Some(victim), ..Policies::default() }
    };
    let lifetime = Policies { placement: Some(Arc::new(ByLifetime::default())), ..Policies::default() };
    [
        ("greedy, built in", "greedy", Policies::default()),
        ("the best of 2", "greedy", choices(2)),
        ("the best of 10", "greedy", choices(10)),
        ("by lifetime, greedy", "greedy", lifetime.clone()),
        ("cost-benefit, built in", "cost-benefit", Policies::default()),
        ("by lifetime, cost-benefit", "cost-benefit", lifetime),
    ]
}

/// Bytes of flash programmed for each that hosts wrote, in the second half of the intervals.
fn amplification(load: &str, (_, policy, policies): Variant) -> Result<f64> {
    let settings = Settings {
        load: LoadFile::fio("load", load)?,
        drive: "small".into(),
        toml: DRIVE.replace("POLICY", policy),
        nsid: None,
        precondition: Precondition::Steady,
        contents: Contents::None,
        seed: 1,
        set: Vec::new(),
        out: None,
        overwrite: Overwrite::default(),
        resume: false,
        until_steady: false,
        cache: None,
        interval: Some(100_000_000),
        policies,
        parallel: Some(1),
    };
    let series = simulate(&settings, &Control::default())?.results.series;
    let (nand, host) = (late(&series, "nand_bytes_written")?, late(&series, "flash_host_bytes_written")?);
    Ok(nand / host)
}

/// The sum of the second half of a column.
fn late(series: &Sheet, name: &str) -> Result<f64> {
    let column = series.columns().iter().find(|column| column.name == name).context("no such column")?;
    let half = column.values.len() / 2;
    let whole = column.values[half..].iter().filter_map(|value| value.as_ref().and_then(Figure::whole));
    Ok(whole.sum::<i64>() as f64)
}

fn main() -> Result<()> {
    println!("write amplification         {}", LOADS.map(|(name, _)| format!("{name:>10}")).join(""));
    for variant in variants() {
        print!("{:28}", variant.0);
        for (_, load) in LOADS {
            print!("{:10.2}", amplification(load, variant.clone())?);
        }
        println!();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the papers say, in direction. Where all pages are alike, more choices are better, and all of them best. Where they are not, data that is kept
    /// apart by its lifetime gains, if collection waits for what is hot.
    #[test]
    fn the_policies_order_as_they_should() {
        let [uniform, zipf] =
            LOADS.map(|(_, load)| variants().map(|variant| amplification(load, variant).unwrap()));
        assert!(uniform[1] > uniform[2] && uniform[2] > uniform[0], "{uniform:?}");
        assert!(zipf[5] < zipf[4], "{zipf:?}");
    }

    #[test]
    fn a_policy_gives_the_same_each_time() {
        let once = || amplification(LOADS[1].1, variants()[1].clone()).unwrap();
        assert_eq!(once().to_bits(), once().to_bits());
    }
}
