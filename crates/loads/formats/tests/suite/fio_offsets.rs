//! Random job files beside fio itself, I/O by I/O: fio runs them on its null engine and logs what it does.
//!
//!     TRANCHE_OFFSET_ROUNDS=10000 cargo test -p load-formats --test suite fio_offsets::   (a campaign)
//!     TRANCHE_OFFSET_SEED=42 cargo test -p load-formats --test suite fio_offsets::        (one job)
//!
//! A job in order does the same I/Os in the same order. Of one with anything random what `docs/bench.md` promises is the same: how much, in
//! which directions, in which sizes, where, and how often each place. Shares of random choices may differ by chance: by five standard
//! deviations.

#![expect(clippy::disallowed_methods, reason = "fio reads and writes files")]

use crate::common::{SPACE, run};
use load_formats::fio::{Distribution, Job, JobFile, JobSpec, Plan, Sizes};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use testkit::skipped;
use workload::{Rng, Verb};

/// Jobs of one run of fio, each with a section of its own.
const BATCH: u64 = 50;

/// What was done: direction, offset, bytes.
type Io = (Verb, u64, u64);

/// A job of which every option is a choice. What `docs/bench.md` names as another in fio is left out.
fn random_job(seed: u64) -> String {
    let mut rng = Rng::new(seed);
    let mut lines = Vec::new();
    let mut pick = |from: &[&'static str]| from[rng.below(from.len() as u64) as usize];
    let rw = pick(&PATTERNS);
    let (random, pairs) = (rw.starts_with("rand"), rw.contains("trimwrite"));
    let (blocks, clones) = (pick(&BLOCKS), pick(&["1", "1", "1", "3"]));
    // Directions with sizes of their own, in one map.
    let map = random && (pairs || pick(&["map", "map", "none"]) == "map");
    let by_direction = blocks.contains(',');
    let blocks = if by_direction && (map || pairs) { "bs=4k" } else { blocks };
    lines.push(format!("rw={rw}\n{blocks}"));
    let size = pick(&["64k", "100k", "256k", "1000k", "333k", "1m", "2m"]);
    lines.push(format!("size={size}\nnumjobs={clones}"));
    let passes = if by_direction { "loops" } else { pick(&["loops", "io_size"]) };
    if random && !map {
        lines.push("norandommap".to_owned());
    }
    let mut maybe = |name: &str, one_in: u64, values: &[&'static str]| {
        if rng.below(one_in) == 0 {
            lines.push(format!("{name}={}", values[rng.below(values.len() as u64) as usize]));
        }
    };
    if !pairs {
        maybe("offset", 3, &["4k", "1m", "12k", "512", "700k"]);
        let numbers: &[&str] =
            if passes == "loops" { &["1", "2", "3"] } else { &["16k", "64k", "200k", "1m", "3m"] };
        maybe(passes, 2, numbers);
        if passes == "loops" {
            maybe("end_fsync", 6, &["1"]);
        }
        // A rest at the end of a pass.
        if !blocks.contains("12k") && !blocks.contains("1536") && size != "333k" {
            maybe("fsync", 4, &["1", "3", "8"]);
            maybe("fdatasync", 4, &["1", "5", "8"]);
        }
    }
    // The log of clones is one file, which small parts alone leave whole.
    maybe("number_ios", if clones == "1" { 3 } else { 1 }, &["1", "7", "20", "50"]);
    maybe("iodepth", 3, &["1", "2", "7", "32"]);
    maybe("rwmixread", 3, &["0", "10", "70", "100"]);
    maybe("randseed", 3, &["1", "7", "123456789"]);
    maybe("randrepeat", 4, &["0", "1"]);
    if random {
        // Neither a cycle nor what is skewed takes several sizes, or a rest.
        let whole = matches!(blocks, "bs=4k" | "bs=512") && size != "333k";
        match seed % 3 {
            0 if whole => maybe("random_distribution", 1, &DISTRIBUTIONS),
            1 if whole => maybe("random_generator", 1, &["lfsr"]),
            _ => maybe("random_generator", 3, &["tausworthe", "tausworthe64"]),
        }
    }
    if clones != "1" && !pairs {
        maybe("offset_increment", 2, &["4k", "64k", "1m"]);
    }
    lines.join("\n")
}

const PATTERNS: [&str; 10] = [
    "read",
    "write",
    "rw",
    "trim",
    "trimwrite",
    "randread",
    "randwrite",
    "randrw",
    "randtrim",
    "randtrimwrite",
];

const BLOCKS: [&str; 16] = [
    "bs=4k",
    "bs=4k",
    "bs=4k",
    "bs=512",
    "bs=12k",
    "bs=64k",
    "bs=1536",
    "bs=4k,8k",
    "bs=8k,4k,16k",
    "bs=,16k",
    "bsrange=4k-16k",
    "bsrange=512-4k",
    "bsrange=4k-8k,8k-16k",
    "bssplit=4k/60:16k/40",
    "bssplit=512/10:4k/:64k/20",
    "bssplit=4k/50:8k/50,16k/100",
];

const DISTRIBUTIONS: [&str; 8] = [
    "random",
    "zipf:0.8",
    "zipf:1.2",
    "pareto:0.2",
    "normal:20",
    "zoned:60/10:30/20:10/70",
    "zoned:100/50",
    "zoned_abs:60/16k:40/32k",
];

/// Runs fio once with a section for each seed; the I/Os by the name that fio gives a clone's file. `None` if fio refuses one of them.
fn fio(dir: &Path, jobs: &BTreeMap<u64, String>) -> Option<BTreeMap<String, Vec<Io>>> {
    let mut text = "[global]\nioengine=null\nthread=1\nfilename_format=$jobname.$jobnum\n".to_owned();
    for (seed, lines) in jobs {
        let log = dir.join(format!("{seed}.log"));
        let _ = std::fs::remove_file(&log);
        // The null engine is often busy at a depth, and what it is given again is logged again. No order depends on the depth.
        let alone: Vec<&str> = lines.lines().filter(|line| !line.starts_with("iodepth=")).collect();
        text += &format!("[s{seed}]\nwrite_iolog={}\n{}\n", log.display(), alone.join("\n"));
    }
    let file = dir.join("jobs.fio");
    std::fs::write(&file, text).unwrap();
    let output = Command::new("fio").args(["--output=said"]).arg(&file).current_dir(dir).output().unwrap();
    if !output.status.success() {
        return None;
    }
    let mut all = BTreeMap::<String, Vec<Io>>::new();
    for seed in jobs.keys() {
        let log = std::fs::read_to_string(dir.join(format!("{seed}.log"))).ok()?;
        for line in log.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let &[_, name, action, ref place @ ..] = &words[..] else { continue };
            let place: Vec<u64> = place.iter().filter_map(|word| word.parse().ok()).collect();
            let io = match (action, &place[..]) {
                ("read", &[offset, bytes]) => (Verb::Read, offset, bytes),
                ("write", &[offset, bytes]) => (Verb::Write, offset, bytes),
                ("trim", &[offset, bytes]) => (Verb::Trim, offset, bytes),
                ("sync" | "datasync", _) => (Verb::Flush, 0, 0),
                _ => continue,
            };
            all.entry(name.to_owned()).or_default().push(io);
        }
    }
    Some(all)
}

fn ours(spec: &JobSpec, clone: u32) -> Result<(Plan, Vec<Io>), String> {
    let job = Job::of(spec, SPACE, clone, clone, 0)?;
    let plan = job.plan().clone();
    let issued = run(job, 1000).issued;
    Ok((plan, issued.iter().map(|(_, r)| (r.verb, r.lba * 512, u64::from(r.blocks) * 512)).collect()))
}

/// The size of all I/Os of a job, where it is one.
fn one_size(plan: &Plan) -> Option<u64> {
    let options = &plan.options;
    let is_one = |sizes: &Sizes| sizes.least() == sizes.most();
    let used = || options.sizes.iter().zip(options.rw.does).filter(|(_, does)| *does).map(|(sizes, _)| sizes);
    (used().all(is_one) && options.smallest_block() == options.largest_block())
        .then(|| options.smallest_block())
}

/// What differs that must not.
fn difference(plan: &Plan, ours: &[Io], fios: &[Io]) -> Option<String> {
    let options = &plan.options;
    let mixed = options.rw.does[0] && options.rw.does[1];
    let fixed = options.sizes.iter().all(|sizes| sizes.least() == sizes.most());
    if !options.rw.random && !mixed && fixed {
        // Where a pass ends, fio may flush twice.
        let once = |all: &[Io]| -> Vec<Io> {
            let mut all = all.to_vec();
            all.dedup_by(|a, b| a.0 == Verb::Flush && b.0 == Verb::Flush);
            all
        };
        let (ours, fios) = (once(ours), once(fios));
        let first = (0..ours.len().max(fios.len())).find(|at| ours.get(*at) != fios.get(*at))?;
        return Some(format!(
            "{} and {} I/Os, the first that differ at {first}: {:?} {:?}",
            ours.len(),
            fios.len(),
            ours.get(first),
            fios.get(first)
        ));
    }
    let moves = |all: &[Io]| -> Vec<Io> { all.iter().filter(|io| io.0 != Verb::Flush).copied().collect() };
    let (ours, fios) = (moves(ours), moves(fios));
    amounts(plan, &ours, &fios).or_else(|| places(plan, &ours, &fios)).or_else(|| shares(plan, &ours, &fios))
}

/// How much is done: as many I/Os of one size. Of several sizes, both end at the number of I/Os or of bytes.
fn amounts(plan: &Plan, ours: &[Io], fios: &[Io]) -> Option<String> {
    let options = &plan.options;
    // By chance a direction may end a pass before the other one has begun it.
    let by_chance = !options.rw.random
        && options.rw.does == [true, true, false]
        && !plan.size.is_multiple_of(options.largest_block());
    if one_size(plan).is_some() && !by_chance {
        return (ours.len() != fios.len()).then(|| format!("{} and {} I/Os", ours.len(), fios.len()));
    }
    let ends = |all: &[Io]| {
        let bytes = all.iter().map(|io| io.2).sum::<u64>();
        let slack = options.largest_block() * options.loops;
        // Pairs of a trim and a write.
        let pairs = 1 + u64::from(options.rw.does == [false, true, true]);
        all.len() as u64 == options.number_ios.saturating_mul(options.loops * pairs)
            || plan.total.abs_diff(bytes) <= slack
    };
    let bytes = |all: &[Io]| all.iter().map(|io| io.2).sum::<u64>();
    (!ends(ours) || !ends(fios)).then(|| {
        let (ours_bytes, fios_bytes) = (bytes(ours), bytes(fios));
        format!(
            "{} and {} I/Os, {ours_bytes} and {fios_bytes} bytes of {}",
            ours.len(),
            fios.len(),
            plan.total
        )
    })
}

/// Where: within the region, at multiples of the smallest block, and each place once before any is visited again.
fn places(plan: &Plan, ours: &[Io], fios: &[Io]) -> Option<String> {
    let unit = plan.options.smallest_block();
    for (_, offset, bytes) in ours {
        let inside = *offset >= plan.start && offset + bytes <= plan.start + plan.size;
        if !inside || !(offset - plan.start).is_multiple_of(unit) {
            return Some(format!("{bytes} bytes at {offset} are not in the region"));
        }
    }
    if !maps(plan) {
        return None;
    }
    let visits = |all: &[Io]| {
        let mut visits = vec![0u64; usize::try_from(plan.size / unit).unwrap()];
        for (_, offset, bytes) in all {
            let first = (offset - plan.start) / unit;
            (first..first + bytes / unit).for_each(|at| visits[usize::try_from(at).unwrap()] += 1);
        }
        visits.sort_unstable();
        visits
    };
    let visited = visits(ours);
    let (least, most) = (visited[0], visited[visited.len() - 1]);
    let pairs = 1 + u64::from(plan.options.rw.does == [false, true, true]);
    if most - least > pairs {
        return Some(format!("a place was visited {least} times, and another {most}"));
    }
    let same = one_size(plan).is_none() || visited == visits(fios);
    (!same).then(|| format!("visits of places: {visited:?} {:?}", visits(fios)))
}

/// Whether each place is visited before any is again.
fn maps(plan: &Plan) -> bool {
    let options = &plan.options;
    options.rw.random && !options.norandommap && options.distribution == Distribution::Random
}

/// Shares of directions, of sizes, and of tenths of the region.
fn shares(plan: &Plan, ours: &[Io], fios: &[Io]) -> Option<String> {
    let uniform = matches!(plan.options.distribution, Distribution::Random | Distribution::Zoned(_));
    // What is left of a map shortens the last I/Os of a pass.
    let shortened = maps(plan) && one_size(plan).is_none();
    let kinds = |all: &[Io]| {
        let mut kinds: BTreeMap<(u8, u64), u64> = BTreeMap::new();
        for (verb, offset, bytes) in all {
            *kinds.entry((0, u64::from(*verb == Verb::Read))).or_default() += 1;
            if shortened {
                continue;
            }
            *kinds.entry((1, *bytes)).or_default() += 1;
            if uniform && plan.options.rw.random {
                *kinds.entry((2, (offset - plan.start) * 10 / plan.size)).or_default() += 1;
            }
        }
        kinds
    };
    let (ours_in, fios_in) = (kinds(ours), kinds(fios));
    let share = |count: u64, all: &[Io]| count as f64 / all.len().max(1) as f64;
    for kind in ours_in.keys().chain(fios_in.keys()) {
        let count = |kinds: &BTreeMap<(u8, u64), u64>| kinds.get(kind).copied().unwrap_or(0);
        let (a, b) = (share(count(&ours_in), ours), share(count(&fios_in), fios));
        // fio draws the same sizes again in each pass.
        let passes = plan.total.div_ceil(plan.size).max(1) as usize;
        let n = (ours.len().min(fios.len()) / passes).max(1) as f64;
        let p = (a + b) / 2.0;
        if (a - b).abs() > 5.0 * (2.0 * p * (1.0 - p) / n).sqrt() + 2.0 / n {
            return Some(format!("{kind:?}: shares {a:.3} and {b:.3} of {n}"));
        }
    }
    None
}

/// What became of the jobs of some seeds.
#[derive(Default, Debug)]
struct Outcome {
    compared: u64,
    exact: u64,
    refused_here: u64,
    refused_by_fio: u64,
    differences: Vec<String>,
}

fn compare(dir: &Path, seeds: std::ops::Range<u64>, outcome: &mut Outcome) {
    let mut jobs: BTreeMap<u64, String> = seeds.map(|seed| (seed, random_job(seed))).collect();
    let mut specs = BTreeMap::new();
    jobs.retain(|seed, lines| {
        let file = JobFile::parse(&format!("[x]\n{lines}\n"), &|_| None).unwrap();
        let spec = file.jobs().unwrap().jobs.remove(0);
        let done = (0..spec.options.numjobs).map(|clone| ours(&spec, clone)).collect::<Result<Vec<_>, _>>();
        outcome.refused_here += u64::from(done.is_err());
        done.map(|done| specs.insert(*seed, done)).is_ok()
    });
    let mut fios = fio(dir, &jobs);
    // One that fio refuses takes all others with it.
    if fios.is_none() {
        let mut some = BTreeMap::new();
        for (seed, lines) in &jobs {
            match fio(dir, &BTreeMap::from([(*seed, lines.clone())])) {
                Some(found) => some.extend(found),
                None => outcome.refused_by_fio += u64::from(specs.remove(seed).is_some()),
            }
        }
        fios = Some(some);
    }
    let fios = fios.unwrap();
    for (seed, clones) in specs {
        for (clone, (plan, ours)) in clones.iter().enumerate() {
            let fios = fios.get(&format!("s{seed}.{clone}")).map_or(&[][..], |done| done);
            // fio 3.33 finds no place at all in some of its cycles.
            if fios.is_empty() && jobs[&seed].contains("lfsr") {
                outcome.refused_by_fio += 1;
                continue;
            }
            outcome.compared += 1;
            outcome.exact += u64::from(ours == fios);
            if let Some(difference) = difference(plan, ours, fios) {
                outcome.differences.push(format!(
                    "seed {seed}, clone {clone}: {difference}\n{}",
                    jobs[&seed].replace('\n', " ")
                ));
            }
        }
    }
}

#[test]
fn random_jobs_are_fios() {
    if Command::new("fio").arg("--version").output().is_err() {
        return skipped("random_jobs_are_fios", "fio is not installed");
    }
    let dir = tempfile::tempdir().unwrap();
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let mut outcome = Outcome::default();
    match number("TRANCHE_OFFSET_SEED") {
        Some(seed) => compare(dir.path(), seed..seed + 1, &mut outcome),
        None => {
            let rounds = number("TRANCHE_OFFSET_ROUNDS").unwrap_or(200);
            for first in (0..rounds).step_by(BATCH as usize) {
                compare(dir.path(), first..rounds.min(first + BATCH), &mut outcome);
            }
        }
    }
    let Outcome { compared, exact, refused_here, refused_by_fio, differences } = outcome;
    println!(
        "{compared} compared, {exact} the same I/O for I/O; refused: {refused_here} here, {refused_by_fio} by fio"
    );
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n"));
    assert!(compared > 0);
}
