//! Whole runs on a drive that is made in a moment.

use std::path::Path;

use super::*;

/// A small drive with short blocks.
const DRIVE: &str = r#"
[drive]
max_transfer = "128KiB"
write_buffer = "4MiB"
[[set]]
media = "nand"
cell = "tlc"
capacity = "2GiB"
spare = "14%"
channels = 4
dies = 8
planes = 2
nand_page = "16KiB"
pages_per_block = 48
rated_cycles = 3000
timing = { read = "75us", program = "3ms", erase = "5ms", channel = "533MB/s" }
[[namespace]]
set = 1
size = "2GiB"
"#;

fn options(dir: &Path, configuration: &str) -> Options {
    let write = |name: &str, text: &str| {
        let path = dir.join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    Options {
        configuration: write("my.cnf", configuration),
        server: None,
        drive: write("drive.toml", DRIVE).display().to_string(),
        full: 90,
        dataset: Some(1 << 30),
        connections: Some(16),
        processors: 8,
        seconds: 2,
        warmup: 1,
        seeds: 2,
        seed: 1,
        measure: Measure::None,
        cache: None,
    }
}

const CONFIGURATION: &str = "[mysqld]\ninnodb_buffer_pool_size = 32M\ninnodb_io_capacity = 10000\n";

fn advise(options: &Options) -> (Advice, String) {
    let found = run(options, &Control::default()).unwrap();
    (found.results, found.text)
}

#[test]
fn copies_in_memory_and_atomic_writes_are_simulated() {
    let dir = tempfile::tempdir().unwrap();
    let options = options(dir.path(), CONFIGURATION);
    let (advice, text) = advise(&options);
    let names: Vec<_> = advice.layouts.iter().map(|layout| layout.name).collect();
    assert_eq!(names, ["configured", "dram", "atomic"]);
    let [configured, dram, atomic] = &advice.layouts[..] else { panic!() };
    assert!(configured.transactions_per_second.low > 0.0 && configured.commit_p99_ms.is_some());
    for layout in [dram, atomic] {
        // Half of the pages' writes do not reach the flash; logs do.
        assert!(layout.nand_bytes_ratio.high < 0.9, "{layout:?}");
        assert!(layout.throughput_ratio.low > 1.0, "{layout:?}");
        let years = |found: &Found| found.years.unwrap().median;
        assert!(years(layout) > years(configured), "{layout:?}");
    }
    assert!(!advice.recommended.is_empty());
    assert_eq!(advice.excluded.len(), 3);
    for words in [
        "MySQL 8.4",
        "innodb_doublewrite_dir = /mnt/dwb",
        "my.cnf:2",
        "default of MySQL 8.4",
        "Confirm it",
        "power cut",
    ] {
        assert!(text.contains(words), "{words:?} is not in {text}");
    }
    assert_eq!(advise(&options).0, advice, "the same seed gives the same advice");
}

#[test]
fn a_configuration_without_copies_is_told_to_be_unsafe() {
    let dir = tempfile::tempdir().unwrap();
    let one = Options {
        seeds: 1,
        ..options(dir.path(), "[mariadb]\ninnodb_doublewrite=0\ninnodb_buffer_pool_size=32M\n")
    };
    let (advice, text) = advise(&one);
    let names: Vec<_> = advice.layouts.iter().map(|layout| (layout.name, layout.safe)).collect();
    assert_eq!(names, [("configured", false), ("doublewrite", true), ("dram", true), ("atomic", true)]);
    assert!(text.contains("Warning: A power cut may tear a page") && advice.recommended.len() == 3, "{text}");
    // Atomic writes cost nothing but a drive that has them.
    assert_eq!(advice.layouts[3].throughput_ratio.median.round(), 1.0);
}

#[test]
fn a_recording_sets_the_weight_of_the_load() {
    let dir = tempfile::tempdir().unwrap();
    let trace = |bytes: u64| {
        let line = |at: u64| format!("0,W,{},{bytes},{}\n", at * 16384, 1_000_000 + at * 1000);
        let path = dir.path().join("t.csv");
        std::fs::write(&path, (0..1000).map(line).collect::<String>()).unwrap();
        path
    };
    let with = |bytes| {
        let base = options(dir.path(), CONFIGURATION);
        let measure = Measure::Recording(trace(bytes));
        let (advice, _) = advise(&Options { connections: None, seeds: 1, measure, ..base });
        (advice.load.connections, advice.layouts[0].years.unwrap().median, advice)
    };
    // About 4 and 16 MB/s.
    let (few, long, advice) = with(4096);
    let (many, short, _) = with(16384);
    assert!(few <= many && long > short * 2.0, "{few} {many} {long} {short}");
    let measured = advice.load.measured.unwrap();
    assert!((measured.written_bytes_per_second / 4.1e6 - 1.0).abs() < 0.02, "{measured:?}");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let usual = options(dir.path(), CONFIGURATION);
    let refused = |options: Options| format!("{:#}", run(&options, &Control::default()).unwrap_err());
    assert!(refused(Options { full: 0, ..usual.clone() }).contains("--full"));
    assert!(refused(Options { seconds: 1, ..usual.clone() }).contains("--seconds"));
    assert!(refused(Options { dataset: Some(1 << 40), ..usual.clone() }).contains("does not fit"));
    assert!(refused(Options { drive: "cheetah-15k7-300g".into(), ..usual.clone() }).contains("no NAND"));
    assert!(refused(Options { connections: Some(0), ..usual }).contains("--connections"));
}

/// Options for a configuration of PostgreSQL. Its log fills within a second of the simulation, so that there are whole checkpoints.
fn postgresql(dir: &Path, lines: &str) -> Options {
    let usual = options(dir, CONFIGURATION);
    let configuration = dir.join("postgresql.conf");
    let text = format!("shared_buffers = 64MB\nmax_wal_size = 64MB\n{lines}");
    std::fs::write(&configuration, text).unwrap();
    Options { configuration, ..usual }
}

#[test]
fn the_log_in_memory_and_atomic_writes_are_simulated_for_postgresql() {
    let dir = tempfile::tempdir().unwrap();
    let options = postgresql(dir.path(), "");
    let (advice, text) = advise(&options);
    let names: Vec<_> = advice.layouts.iter().map(|layout| (layout.name, layout.safe)).collect();
    assert_eq!(names, [("configured", true), ("wal", true), ("atomic", true)]);
    let [configured, wal, atomic] = &advice.layouts[..] else { panic!() };
    assert!(configured.transactions_per_second.low > 0.0 && configured.commit_p99_ms.is_some());
    // Most of what is written is the log, and most of that are whole pages.
    for layout in [wal, atomic] {
        assert!(layout.nand_bytes_ratio.high < 0.8, "{layout:?}");
        assert!(layout.years.unwrap().median > configured.years.unwrap().median, "{layout:?}");
    }
    assert!(!advice.recommended.is_empty() && advice.excluded.len() == 3 && !advice.drive.fitted);
    for words in [
        "PostgreSQL 18",
        "postgresql.conf:1",
        "default of PostgreSQL 18",
        "ln -s /mnt/wal/pg_wal",
        "full_page_writes = off",
        "layouts/postgresql-atomic.toml",
    ] {
        assert!(text.contains(words), "{words:?} is not in {text}");
    }
    assert!(!text.contains("InnoDB") && !text.contains("doublewrite"), "{text}");
    assert_eq!(advise(&options).0, advice, "the same seed gives the same advice");
}

#[test]
fn full_page_writes_off_is_told_to_be_unsafe() {
    let dir = tempfile::tempdir().unwrap();
    let one = Options { seeds: 1, ..postgresql(dir.path(), "full_page_writes = off\n") };
    let (advice, text) = advise(&one);
    let names: Vec<_> = advice.layouts.iter().map(|layout| (layout.name, layout.safe)).collect();
    assert_eq!(names, [("configured", false), ("fpw", true), ("wal", true), ("atomic", true)]);
    assert!(text.contains("Warning: A power cut may tear a page") && advice.recommended.len() == 3, "{text}");
    let nand = |at: usize| advice.layouts[at].nand_bytes_ratio.median;
    assert!(nand(1) > 1.3 && (0.9..1.1).contains(&nand(3)), "{} {}", nand(1), nand(3));
}

#[test]
fn a_checkpoint_that_is_longer_than_the_simulation_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let options = postgresql(dir.path(), "max_wal_size = 1TB\ncheckpoint_timeout = 1d\n");
    let few = Options { connections: Some(1), seeds: 1, ..options };
    let (advice, _) = advise(&few);
    let told = advice.uncertainty.iter().find(|line| line.contains("checkpoint takes longer")).unwrap();
    assert!(told.contains("configured, ") && told.contains("atomic"), "{told}");
}
