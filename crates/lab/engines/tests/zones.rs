//! Jobs with `zonemode=zbd` on a whole drive in virtual time, which refuses what is against the rules of zones.
//!
//!     TRANCHE_ZONE_JOBS=2000 cargo test -p lab-engines --release --test zones      (a campaign)
//!     TRANCHE_ZONE_JOBS_SEED=42 cargo test -p lab-engines --test zones             (repeats one seed)

use lab_engines::sim::{Contents, LoadFile, Precondition, Settings, run};
use lab_report::control::Control;
use lab_report::results::Overwrite;
use rng::Rng;
use serde_json::Value;

/// Zones of 1.5 MiB, 2 MiB apart, of which six can be active.
fn drive() -> String {
    let flash = testkit::drives::flash("64MiB", "zone = { active = 6 }");
    format!(
        r#"
[drive]
write_buffer = "1MiB"
max_transfer = "128KiB"

[link]
command_overhead = "5us"
{flash}
[[namespace]]
zoned = true
size = "24MiB"
max_open = 4

[[namespace]]
size = "8MiB"
"#
    )
}

fn pick<'a>(rng: &mut Rng, of: &[&'a str]) -> &'a str {
    of[rng.below(of.len() as u64) as usize]
}

/// A job file with several phases, each on zones as the one before has left them.
fn job_file(rng: &mut Rng) -> String {
    let mut text = "[global]\nzonemode=zbd\n".to_owned();
    for phase in 0..2 + rng.below(3) {
        let rw = pick(rng, &["write", "randwrite", "rw", "randrw", "randtrim", "trim", "randwrite"]);
        let bs =
            pick(rng, &["bs=4k", "bs=16k", "bs=128k", "bs=20k", "bsrange=4k-64k", "bssplit=4k/50:64k/50"]);
        let much = pick(rng, &["", "loops=2", "io_size=6m", "number_ios=200", "time_based\nruntime=20ms"]);
        let more = pick(
            rng,
            &["", "verify=crc32c", "fsync=16", "zone_reset_threshold=0.4\nzone_reset_frequency=0.1"],
        );
        // Clones have zones of their own.
        let clones = 1 + rng.below(3);
        let size = 1 + rng.below(12 / clones);
        text += &format!(
            "[{phase}]\nstonewall\nrw={rw}\n{bs}\n{much}\n{more}\nzone_append={}\nmax_open_zones={}\niodepth={}\nnumjobs={clones}\n\
             size={size}z\noffset_increment={size}z\n",
            rng.below(2),
            rng.below(5),
            1 + rng.below(16),
        );
    }
    // What is there can be read.
    text + "[last]\nstonewall\nrw=randwrite\nbs=8k\nsize=3z\nverify=md5\nzone_append=1\n"
}

fn simulate(job: &str) -> Result<(Value, Option<String>), String> {
    let load = LoadFile::fio("in memory", job).map_err(|error| format!("{error:#}"))?;
    let settings = Settings {
        load,
        drive: "zoned".into(),
        toml: drive(),
        nsid: Some(1),
        precondition: Precondition::None,
        contents: Contents::Memory,
        seed: 1,
        set: Vec::new(),
        until_steady: false,
        interval: None,
        policies: Default::default(),
        out: None,
        overwrite: Overwrite::default(),
        resume: false,
        cache: None,
        parallel: Some(1),
    };
    let findings = run(&settings, &Control::default()).map_err(|error| format!("{error:#}"))?;
    Ok((findings.results, findings.failure))
}

#[test]
fn a_drive_takes_whatever_jobs_ask_of_its_zones() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seeds = match number("TRANCHE_ZONE_JOBS_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("TRANCHE_ZONE_JOBS").unwrap_or(20),
    };
    let (mut ran, mut resets) = (0, 0);
    for seed in seeds {
        let job = job_file(&mut Rng::new(seed));
        let (results, failure) = simulate(&job).unwrap_or_else(|error| panic!("seed {seed}: {error}\n{job}"));
        // The zones that jobs before have left open may be more than a job may have; it says so. Nothing else may go wrong.
        let told = |line: &str| {
            line.contains("zones of its region are written in part") || line.contains("zones open together")
        };
        let bad: Vec<&str> = failure.iter().flat_map(|all| all.lines()).filter(|line| !told(line)).collect();
        assert!(bad.is_empty(), "seed {seed}: {bad:?}\n{job}");
        for job in results["jobs"].as_array().unwrap() {
            resets += job["zone_resets"].as_u64().unwrap();
            ran += u64::from(job["write"]["total_ios"].as_u64().unwrap() > 0);
        }
    }
    assert!(ran > 0 && resets > 0, "{ran} jobs wrote, {resets} zones were reset");
}

#[test]
fn zones_that_others_have_open_are_taken_off() {
    // Two zones stay open behind the region of the second phase, so that it may have two fewer than six.
    let job = "[global]\nzonemode=zbd\nbs=4k\n[open]\nrw=randwrite\noffset=10z\nsize=2z\nnumber_ios=20\nmax_open_zones=2\n\
               [all]\nstonewall\nrw=randwrite\nsize=10z\niodepth=16\n";
    let (_, failure) = simulate(job).unwrap();
    assert_eq!(failure, None);
}
