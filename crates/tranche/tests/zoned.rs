//! A short run of `tranche study zoned --live`. Needs root, FUSE, loop devices, MariaDB with its RocksDB plug-in, and sysbench; says so where they are missing.

#[path = "common/schema.rs"]
mod schema;
#[path = "../../export/tests/support/mod.rs"]
#[allow(dead_code)]
mod support;

use std::process::Command;

#[test]
fn myrocks_on_zones_is_compared_with_xfs() {
    let needed = ["losetup", "mkfs.xfs", "mariadbd", "mariadb-install-db", "sysbench"];
    if !support::possible("myrocks_on_zones_is_compared_with_xfs", &needed) {
        return;
    }
    let out = std::env::temp_dir().join(format!("tranche-zoned-{}", std::process::id()));
    let run = Command::new(env!("CARGO_BIN_EXE_tranche"))
        .args(["--output", "json", "study", "zoned", "--live", "--variants", "myrocks-zones,myrocks-7"])
        .args(["--loads", "write-only", "--rows", "20000", "--connections", "4", "--seconds", "4s"])
        .args(["--warmup", "2s", "--repeat", "1", "--out"])
        .arg(&out)
        .output()
        .unwrap();
    let report = std::fs::read_to_string(out.join("report.html"));
    let _ = std::fs::remove_dir_all(&out);
    let (text, errors) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success(), "{text}\n{errors}");
    let results: serde_json::Value = serde_json::from_str(&text).unwrap();
    schema::check("study", &results);
    assert!(report.unwrap().contains("oltp_write_only"));
    let of = |variant: usize, metric: &str| {
        let metrics = &results["variants"][variant]["runs"][0]["metrics"];
        metrics[format!("write_only_{metric}")].as_f64().unwrap_or_else(|| panic!("{metric}: {metrics}"))
    };
    assert!(of(0, "tps") > 0.0 && of(1, "tps") > 0.0);
    // Zones move nothing; the conventional namespace was overwritten at random before.
    assert!(of(0, "drive_write_amplification") < 1.2, "{text}");
    assert!(of(1, "drive_write_amplification") > 1.2, "{text}");
    assert!(of(0, "engine_write_amplification") >= 1.0, "{text}");
}
