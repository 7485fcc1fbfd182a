//! Short runs of `tranche study zoned --live`. Need root, FUSE, loop devices, MariaDB with its RocksDB plug-in, sysbench, db_bench, and what the plug-in
//! for RocksDB is built with; say so where they are missing.

mod common;
#[path = "common/evidence.rs"]
mod evidence;
#[path = "common/plugins.rs"]
mod plugins;
#[path = "common/schema.rs"]
mod schema;
use std::process::Command;

/// A run of the study with these arguments: its results, and its report.
fn study(args: &[&str]) -> (serde_json::Value, String) {
    let out = evidence::Evidence::new();
    let run = command(args).arg("--out").arg(out.path()).output().unwrap();
    let report = std::fs::read_to_string(out.path().join("report.html"));
    let (text, errors) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success(), "{text}\n{errors}");
    let results: serde_json::Value = serde_json::from_str(&text).unwrap();
    schema::check("study", &results);
    (results, report.unwrap())
}

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tranche"));
    command.args(["--output", "json", "study", "zoned", "--live", "--repeat", "1"]).args(args);
    command
}

/// A metric of the only run of a variant that has it.
fn metric(results: &serde_json::Value, variant: usize, name: &str) -> f64 {
    let runs = results["variants"][variant]["runs"].as_array().unwrap();
    let found = runs.iter().find_map(|run| run["metrics"][name].as_f64());
    found.unwrap_or_else(|| panic!("{name}: {runs:#?}"))
}

#[test]
fn myrocks_on_zones_is_compared_with_xfs() {
    let needed = ["losetup", "mkfs.xfs", "mariadbd", "mariadb-install-db", "sysbench"];
    if !testkit::possible("myrocks_on_zones_is_compared_with_xfs", &needed) {
        return;
    }
    let loads = ["--loads", "write-only", "--rows", "20000", "--connections", "4"];
    let short = ["--variants", "myrocks-zones,myrocks-7", "--seconds", "4s", "--warmup", "2s"];
    let (results, report) = study(&[&short[..], &loads].concat());
    assert!(report.contains("oltp_write_only"));
    let of = |variant, name: &str| metric(&results, variant, &format!("write_only_{name}"));
    assert!(of(0, "tps") > 0.0 && of(1, "tps") > 0.0);
    // Zones move nothing; the conventional namespace was overwritten at random before.
    assert!(of(0, "drive_write_amplification") < 1.2, "{results:#}");
    assert!(of(1, "drive_write_amplification") > 1.2, "{results:#}");
    assert!(of(0, "engine_write_amplification") >= 1.0, "{results:#}");
}

#[test]
fn rocksdb_with_its_plugin_is_compared_with_xfs() {
    let test = "rocksdb_with_its_plugin_is_compared_with_xfs";
    if !testkit::possible(test, &["losetup", "mkfs.xfs"]) || !plugins::can_build(test) {
        return;
    }
    let variants = ["--variants", "rocksdb-zones,rocksdb-7"];
    let refused = command(&variants).args(["--plugin", "/no/such/library.so"]).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("`make plugin` builds it"), "{said}");

    let plugin = plugins::plugins().join("libtranche_rocksdb.so");
    let short = ["--keys", "100000", "--connections", "2", "--seconds", "3s", "--warmup", "1s"];
    let (results, report) = study(&[&variants[..], &short, &["--plugin", plugin.to_str().unwrap()]].concat());
    assert!(report.contains("fillrandom, 1 threads") && report.contains("Usable capacity"));
    for variant in 0..2 {
        for load in ["fill", "overwrite", "read_while_writing", "read_while_limited"] {
            let of = |name: &str| metric(&results, variant, &format!("{load}_{name}"));
            assert!(of("ops_per_second") > 0.0 && of("writes_per_second") > 0.0);
            assert!(of("p50_ms") <= of("p99_ms") && of("p99_ms") <= of("p9999_ms"));
            assert!(of("flash_bytes_per_write") > 0.0);
        }
        // The log and one copy in a table at least.
        assert!(metric(&results, variant, "fill_engine_write_amplification") >= 1.5, "{results:#}");
        assert_eq!(
            metric(&results, variant, "fill_writes_per_second"),
            metric(&results, variant, "fill_ops_per_second")
        );
    }
    // Zones move nothing; the conventional namespace was overwritten at random before.
    assert!(metric(&results, 0, "overwrite_drive_write_amplification") < 1.2, "{results:#}");
    assert!(metric(&results, 1, "overwrite_drive_write_amplification") > 1.2, "{results:#}");
    assert!(metric(&results, 0, "fill_usable_MiB") > metric(&results, 1, "fill_usable_MiB"));
}

/// The model takes the machine's speed from db_bench. How far compactions are behind depends on it, and varies from run to run: so the bounds of what they
/// read and write are wide.
#[test]
fn the_model_of_rocksdb_does_what_rocksdb_does() {
    if !testkit::possible("the_model_of_rocksdb_does_what_rocksdb_does", &["db_bench"]) {
        return;
    }
    let out = tempfile::tempdir().unwrap();
    let run = Command::new(env!("CARGO_BIN_EXE_tranche"))
        .args(["--output", "json", "study", "zoned", "--quick", "--db-bench", "db_bench", "--out"])
        .arg(out.path())
        .output()
        .unwrap();
    let (text, errors) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success(), "{text}\n{errors}");
    let results: serde_json::Value = serde_json::from_str(&text).unwrap();
    schema::check("study", &results);
    for (name, within) in [
        ("flush_bytes", 0.05),
        ("log_bytes", 0.05),
        ("compaction_read_bytes", 0.25),
        ("compaction_written_bytes", 0.25),
        ("engine_write_amplification", 0.2),
        ("tables", 0.3),
    ] {
        let ratio = metric(&results, 1, name) / metric(&results, 0, name);
        println!("{name}: model over db_bench {ratio:.3}");
        assert!((ratio - 1.0).abs() <= within, "{name}: model over db_bench {ratio:.3}\n{results:#}");
    }
    // Something was compacted, and more than once.
    assert!(metric(&results, 0, "engine_write_amplification") > 2.0, "{results:#}");
}
