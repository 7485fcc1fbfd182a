//! Whole runs on a drive that is made in a moment.

use std::path::Path;

use super::*;

/// Layouts that are simulated only if they are asked for.
const UNREQUESTED_LAYOUTS: usize = 3;

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
        ask: false,
        drive: write("drive.toml", DRIVE).display().to_string(),
        full: 90,
        dataset: Some(1 << 30),
        connections: Some(16),
        processors: 8,
        layouts: Vec::new(),
        neighbour: None,
        neighbour_quota: None,
        disk: "savvio-15k3-300g".into(),
        controller: Controller::H330,
        cache_size: None,
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
    assert_eq!(advice.excluded.len(), UNREQUESTED_LAYOUTS);
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
        let measure = Measure::Recording(trace(bytes), TraceForm::default());
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
    assert!(refused(Options { full: 0, ..usual.clone() }).contains("--used"));
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
    assert!(
        !advice.recommended.is_empty()
            && advice.excluded.len() == UNREQUESTED_LAYOUTS
            && !advice.drive.fitted
    );
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
    let options = postgresql(dir.path(), "max_wal_size = 256GB\ncheckpoint_timeout = 1d\n");
    let few = Options { connections: Some(1), seeds: 1, ..options };
    let (advice, _) = advise(&few);
    let told = advice.uncertainty.iter().find(|line| line.contains("checkpoint takes longer")).unwrap();
    assert!(told.contains("configured, ") && told.contains("atomic"), "{told}");
}

#[test]
fn a_neighbour_disturbs_and_a_quota_helps() {
    let dir = tempfile::tempdir().unwrap();
    // A database that leaves room for a neighbour.
    let small = |options| Options { layouts: vec![Layout::Quota], dataset: Some(512 << 20), ..options };
    for options in [small(options(dir.path(), CONFIGURATION)), small(postgresql(dir.path(), ""))] {
        let (advice, text) = advise(&options);
        let names: Vec<_> = advice.layouts.iter().map(|layout| (layout.name, layout.choice)).collect();
        assert_eq!(names, [("configured", true), ("neighbour", false), ("quota", false)]);
        let [_, neighbour, quota] = &advice.layouts[..] else { panic!() };
        assert!(neighbour.throughput_ratio.high < quota.throughput_ratio.low, "{text}");
        let p99 = |found: &Found| found.commit_p99_ms.unwrap().median;
        assert!(p99(quota) < p99(neighbour), "{text}");
        let moved = |found: &Found| match found.more[..] {
            [More { figure: Figure::Neighbour, value }] => value.median,
            _ => panic!("{found:?}"),
        };
        assert!(moved(quota) < moved(neighbour) && moved(quota) > 0.0, "{text}");
        // What there is to compare with is no advice.
        assert!(advice.recommended.is_empty(), "{text}");
        assert!(text.contains("For comparison:") && text.contains("tranche quota set"), "{text}");
        assert!(
            advice
                .excluded
                .iter()
                .all(|one| one.why.contains("--layouts") || one.why.contains("is configured"))
        );
    }
}

#[test]
fn logs_on_zones_spare_the_flash() {
    let dir = tempfile::tempdir().unwrap();
    let zones = |options| Options { layouts: vec![Layout::Zones], ..options };
    for options in [zones(options(dir.path(), CONFIGURATION)), zones(postgresql(dir.path(), ""))] {
        let (advice, text) = advise(&options);
        let names: Vec<_> = advice.layouts.iter().map(|layout| (layout.name, layout.choice)).collect();
        assert_eq!(names, [("configured", true), ("zones", true)], "{text}");
        let [configured, zones] = &advice.layouts[..] else { panic!() };
        // Zones are not collected, and so nothing of the logs is written twice by the drive.
        assert!(zones.write_amplification.high < configured.write_amplification.low, "{text}");
        assert!(zones.nand_bytes_ratio.high < 0.97, "{text}");
        // As much is written as before.
        let host = zones.host_bytes_per_transaction.median / configured.host_bytes_per_transaction.median;
        assert!((0.8..1.2).contains(&host), "{host}: {text}");
        assert!(zones.needs.as_ref().is_some_and(|needs| needs.contains("zones")), "{text}");
        assert!(zones.steps.join("\n").contains("/mnt/store/"), "{text}");
    }
}

/// A log that goes on to its next zone waits for collection to free a superblock. Nothing paces collection for it, so it must hurry.
#[test]
fn logs_on_zones_of_a_full_drive_wait_for_no_ordinary_collection() {
    let dir = tempfile::tempdir().unwrap();
    let usual = options(dir.path(), "[mysqld]\ninnodb_buffer_pool_size=256M\nlog_bin\nsync_binlog=1\n");
    let (layouts, drive) = (vec![Layout::Zones], "zn540-2t".into());
    let (advice, text) = advise(&Options {
        layouts,
        drive,
        seeds: 1,
        dataset: None,
        connections: None,
        processors: 16,
        seconds: 10,
        warmup: 40,
        ..usual
    });
    let [configured, zones] = &advice.layouts[..] else { panic!("{text}") };
    assert!(zones.throughput_ratio.low > 0.95, "{text}");
    let p99 = |found: &Found| found.commit_p99_ms.unwrap().median;
    assert!(p99(zones) < 6.0 * p99(configured), "{text}");
}

#[test]
fn a_drive_with_zones_wants_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let usual = options(dir.path(), CONFIGURATION);
    let with = |zone: &str| {
        std::fs::write(&usual.drive, DRIVE.replace("rated_cycles", &format!("zone = {zone}\nrated_cycles")))
            .unwrap();
        advise(&Options { layouts: vec![Layout::Zones], seeds: 1, ..usual.clone() }).0
    };
    let found = with("{ dies = 2 }");
    assert_eq!(found.layouts[1].needs, None);
    // Those that have too few active zones, or none, are told; what is configured is there.
    for (zone, words) in [("{ active = 2, share = 0 }", "and it has 2"), ("{ active = 0 }", "turned off")] {
        let refused = with(zone);
        let why = &refused.excluded.iter().find(|one| one.name == "zones").unwrap().why;
        assert!(refused.layouts.len() == 1 && why.contains(words), "{why}");
    }
}

#[test]
fn a_neighbour_does_what_its_jobs_say() {
    let dir = tempfile::tempdir().unwrap();
    let job = dir.path().join("job.fio");
    let with = |text: &str| {
        std::fs::write(&job, text).unwrap();
        let usual = options(dir.path(), CONFIGURATION);
        let (layouts, dataset) = (vec![Layout::Quota], Some(512 << 20));
        let quota = Options { layouts, dataset, seeds: 1, neighbour: Some(job.clone()), ..usual };
        run(&Options { neighbour_quota: Some(1_000_000), ..quota }, &Control::default())
    };
    // It ends long before the measurement does, and begins again.
    let found = with("[a]\nrw=randread\nbs=4k\niodepth=4\nsize=1m\n").unwrap();
    let moved = |at: usize| found.results.layouts[at].more[0].value.median;
    assert!(moved(1) > 2e6 && (5e5..1.1e6).contains(&moved(2)), "{} {}", moved(1), moved(2));
    assert!(found.text.contains("1.00 MB/s") && found.text.contains("job.fio"), "{}", found.text);
    let wrong = |text: &str| format!("{:#}", with(text).err().unwrap());
    assert!(wrong("[a]\nrw=what\n").contains("job.fio:2: "));
    assert!(wrong("[a]\nrw=read\n[b]\nstonewall\nrw=read\n").contains("take stonewall out"));
}

#[test]
fn a_layout_that_cannot_be_is_told_and_the_others_are_there() {
    let dir = tempfile::tempdir().unwrap();
    let usual = options(dir.path(), CONFIGURATION);
    // The database takes more than half of the drive, but no more than three quarters are let to it.
    let full = Options { layouts: vec![Layout::Quota], dataset: Some(3 << 29), seeds: 1, ..usual.clone() };
    let (advice, text) = advise(&full);
    assert_eq!(advice.layouts.len(), 1);
    let why = &advice.excluded.iter().find(|one| one.name == "quota").unwrap().why;
    assert!(why.contains("no room for a neighbour") && why.contains("--dataset"), "{text}");
    let other = Options { layouts: vec![Layout::Wal], ..usual };
    let refused = format!("{:#}", run(&other, &Control::default()).unwrap_err());
    assert!(refused.contains("wal is no layout of MySQL 8.4") && refused.contains("dram"), "{refused}");
}

#[test]
fn a_cache_before_a_disk_is_between_the_disk_and_the_drive() {
    let dir = tempfile::tempdir().unwrap();
    let cache = |options| Options {
        layouts: vec![Layout::Cache],
        dataset: Some(512 << 20),
        cache_size: Some(384 << 20),
        ..options
    };
    for options in [cache(options(dir.path(), CONFIGURATION)), cache(postgresql(dir.path(), ""))] {
        let (advice, text) = advise(&options);
        let names: Vec<_> = advice.layouts.iter().map(|layout| (layout.name, layout.choice)).collect();
        assert_eq!(names, [("configured", true), ("disk", false), ("cache", false)], "{text}");
        let [configured, disk, cache] = &advice.layouts[..] else { panic!() };
        let tps = |found: &Found| found.transactions_per_second;
        assert!(tps(disk).high < tps(cache).low && tps(disk).high < tps(configured).low / 4.0, "{text}");
        // The disk leaves the flash alone.
        assert!(disk.nand_bytes_per_transaction.high == 0.0 && disk.years.is_none(), "{text}");
        assert!(cache.nand_bytes_per_transaction.low > 0.0 && cache.years.is_some(), "{text}");
        assert!(disk.more.is_empty());
        let of = |figure| cache.more.iter().find(|more| more.figure == figure).unwrap().value;
        assert!((1.0..=100.0).contains(&of(Figure::ReadHits).low), "{text}");
        assert!((1.0..=100.0).contains(&of(Figure::CacheFilled).low), "{text}");
        assert!(of(Figure::CacheWarmUp).low >= 20.0, "{text}");
        assert!(advice.recommended.is_empty(), "{text}");
        for words in
            ["savvio-15k3-300g on a PERC H330", "384 MiB of the drive", "75.0 %", "Cache or main store: "]
        {
            assert!(text.contains(words), "{words:?} is not in {text}");
        }
        assert!(advice.excluded.iter().all(|one| one.name != "cache"));
    }
}

#[test]
fn a_cache_that_cannot_be_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let usual = options(dir.path(), CONFIGURATION);
    let usual = Options { layouts: vec![Layout::Cache], seeds: 1, ..usual };
    let (advice, text) = advise(&Options { cache_size: Some(4 << 30), ..usual.clone() });
    let names: Vec<_> = advice.layouts.iter().map(|layout| layout.name).collect();
    let why = &advice.excluded.iter().find(|one| one.name == "cache").unwrap().why;
    assert!(names == ["configured", "disk"] && why.contains("--cache-size"), "{text}");
    // A disk that is smaller than the database.
    let small = dir.path().join("small.toml");
    let text = profile::read("savvio-15k3-300g").unwrap();
    let fewer = |line: &str| match line.split('=').next().unwrap().trim() {
        "cylinders" => "cylinders = 200".to_owned(),
        "capacity" => "capacity = \"100MB\"".to_owned(),
        _ => line.to_owned(),
    };
    std::fs::write(&small, text.lines().map(fewer).collect::<Vec<_>>().join("\n")).unwrap();
    let (advice, text) = advise(&Options { disk: small.display().to_string(), ..usual.clone() });
    let why = &advice.excluded.iter().find(|one| one.name == "disk").unwrap().why;
    assert!(advice.layouts.len() == 1 && why.contains("name a larger --disk"), "{text}");
    let refused = |options: Options| format!("{:#}", run(&options, &Control::default()).unwrap_err());
    assert!(refused(Options { disk: "none".into(), ..usual.clone() }).contains("--disk"));
    assert!(refused(Options { cache_size: Some(1), ..usual }).contains("--cache-size is too small"));
}

#[test]
fn the_disk_is_as_much_smaller_as_the_database() {
    let dir = tempfile::tempdir().unwrap();
    let large = Options {
        layouts: vec![Layout::Cache],
        seeds: 1,
        drive: "pblaze5-910-3.84t".into(),
        dataset: Some(250 << 30),
        ..options(dir.path(), "[mysqld]\ninnodb_buffer_pool_size = 8G\n")
    };
    // 250 GiB and a quarter more are above 300 GB, and 250 GiB are not.
    let (advice, text) = advise(&large);
    assert!(advice.load.scale == 4 && advice.layouts.len() == 3, "{text}");
    let (advice, text) = advise(&Options { dataset: Some(280 << 30), ..large });
    assert!(advice.layouts.len() == 1 && text.contains("on the disk \"savvio-15k3-300g\" of"), "{text}");
}
