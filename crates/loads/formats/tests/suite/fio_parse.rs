//! Beside fio itself: a value that it refuses is refused here, too. It takes more than we do: `64q`, `7x` or `0,,4k` as a size.
//!
//!     TRANCHE_PARSE_ROUNDS=10000 cargo test -p load-formats --test suite fio_parse::   (a campaign)

#![expect(clippy::disallowed_methods, reason = "fio reads files")]

use load_formats::fio::JobFile;
use std::path::Path;
use std::process::Command;
use testkit::skipped;
use workload::Rng;

/// Options that are used, by the kind of value that they have.
const SIZES: [&str; 7] = ["bs", "size", "io_size", "offset", "offset_increment", "rate", "zonesize"];
const NUMBERS: [&str; 16] = [
    "iodepth",
    "numjobs",
    "number_ios",
    "loops",
    "randseed",
    "thinktime_blocks",
    "rate_iops",
    "fsync",
    "fdatasync",
    "rwmixread",
    "rwmixwrite",
    "max_open_zones",
    "job_max_open_zones",
    "kb_base",
    "zone_reset_threshold",
    "zone_reset_frequency",
];
const TIMES: [&str; 4] = ["runtime", "ramp_time", "startdelay", "thinktime"];
const FLAGS: [&str; 10] = [
    "norandommap",
    "randrepeat",
    "time_based",
    "end_fsync",
    "do_verify",
    "verify_fatal",
    "group_reporting",
    "stonewall",
    "read_beyond_wp",
    "zero_buffers",
];
const WORDS: [(&str, &[&str]); 6] = [
    ("rw", &["read", "randrw", "trimwrite", "readwrite", "randtrim", "READ", "reed", "", "read:8"]),
    ("rate_process", &["linear", "poisson", "Linear", "x"]),
    ("verify", &["crc32c", "md5", "meta", "pattern", "null", "0", "1", "CRC32C", "x", "sha3-256"]),
    ("zonemode", &["none", "zbd", "strided", "x"]),
    (
        "random_distribution",
        &[
            "random",
            "zipf",
            "zipf:1.2",
            "zipf:0",
            "pareto:0.9",
            "pareto:1.5",
            "normal:20",
            "gauss:5",
            "zoned:60/10:40/90",
            "zoned:50/10",
            "x",
        ],
    ),
    (
        "bssplit",
        &[
            "4k/50:8k/50",
            "4k/100:64k/0",
            "4k/49:8k/50",
            "4k:8k",
            "4k/60:8k/50",
            "4k/10:8k/:16k",
            "4k/50,8k/100",
            "x",
        ],
    ),
];

fn number(rng: &mut Rng) -> String {
    let numbers = [
        "0", "1", "4", "7", "64", "100", "512", "1000", "4096", "65536", "0x10", "-1", "1.5", "", "x", "4 k",
        " 8",
    ];
    numbers[rng.below(numbers.len() as u64) as usize].to_owned()
}

fn with_unit(rng: &mut Rng, units: &[&str]) -> String {
    number(rng) + units[rng.below(units.len() as u64) as usize]
}

fn random_setting(rng: &mut Rng) -> (String, String) {
    let mut pick = |from: &[&str]| from[rng.below(from.len() as u64) as usize].to_owned();
    let (sizes, numbers, times, flags) = (pick(&SIZES), pick(&NUMBERS), pick(&TIMES), pick(&FLAGS));
    match rng.below(6) {
        0 | 1 => (
            sizes,
            with_unit(
                rng,
                &["", "k", "K", "kb", "KiB", "ki", "m", "MB", "g", "b", "kk", "q", "%", ",8k", ",,4k"],
            ),
        ),
        2 => (numbers, with_unit(rng, &["", "", "", "k", "%", ",1"])),
        3 => (
            times,
            with_unit(rng, &["", "s", "ms", "us", "usec", "sec", "m", "h", "d", "ns", "min", "S", "x"]),
        ),
        4 => (flags, with_unit(rng, &["", "", ""])),
        _ => {
            let (name, values) = WORDS[rng.below(WORDS.len() as u64) as usize];
            (name.to_owned(), values[rng.below(values.len() as u64) as usize].to_owned())
        }
    }
}

fn fio_takes(dir: &Path, file: &str) -> bool {
    let job = dir.join("job.fio");
    std::fs::write(&job, file).unwrap();
    Command::new("fio").arg("--parse-only").arg(&job).current_dir(dir).output().unwrap().status.success()
}

#[test]
fn what_fio_refuses_is_refused() {
    if Command::new("fio").arg("--version").output().is_err() {
        return skipped("what_fio_refuses_is_refused", "fio is not installed");
    }
    let dir = tempfile::tempdir().unwrap();
    let rounds =
        std::env::var("TRANCHE_PARSE_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(150);
    for seed in 0..rounds {
        let (name, value) = random_setting(&mut Rng::new(seed));
        let file = format!("[a]\nioengine=null\nsize=1m\n{name}={value}\n");
        let ours = JobFile::parse(&file, &|_| None).and_then(|file| file.jobs());
        assert!(
            ours.is_err() || fio_takes(dir.path(), &file),
            "seed {seed}: fio does not take {name}={value}"
        );
    }
}
