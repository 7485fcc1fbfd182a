//! The studies with MySQL, whose doublewrite buffer is in files, and beside MariaDB. Needs root, FUSE, loop devices and what
//! `scripts/mysql.sh` fetches; says so where they are missing.

#[path = "common/evidence.rs"]
mod evidence;
#[path = "common/schema.rs"]
mod schema;

use std::path::Path;
use std::process::Command;

use evidence::Evidence;
use serde_json::Value;

/// The server's path; none where the test cannot run.
fn possible(test: &str, more: &[&str]) -> Option<String> {
    let needed = [&["losetup", "mkfs.xfs", "mkfs.ext4"], more].concat();
    if !testkit::possible(test, &needed) {
        return None;
    }
    match testkit::mysql::server() {
        Ok(path) => Some(path.to_str().unwrap().to_owned()),
        Err(why) => {
            testkit::skipped(test, &why);
            None
        }
    }
}

fn study(arguments: &[&str], out: &Path) -> Value {
    let run = Command::new(env!("CARGO_BIN_EXE_tranche"))
        .args(["--output", "json", "study"])
        .args(arguments)
        .args(["--seed", "1", "--out"])
        .arg(out)
        .output()
        .unwrap();
    let (text, errors) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success(), "{arguments:?}\n{text}\n{errors}");
    serde_json::from_str(&text).unwrap()
}

const SHORT_RUN: [&str; 10] =
    ["--warehouses", "1", "--buffer-pool", "16MiB", "--repeat", "1", "--seconds", "2", "--warmup", "1"];

/// Bytes that a variant wrote to a medium.
fn written(results: &Value, variant: &str, medium: &str) -> u64 {
    let variants = results["variants"].as_array().unwrap();
    let variant = variants.iter().find(|v| v["name"] == variant).unwrap();
    let namespaces = variant["runs"][0]["namespaces"].as_array().unwrap();
    namespaces
        .iter()
        .filter(|n| n["medium"] == medium)
        .map(|n| n["host_bytes_written"].as_u64().unwrap())
        .sum()
}

#[test]
fn the_doublewrite_files_of_mysql_are_on_the_dram_namespace_and_mariadb_is_beside_it() {
    let test = "the_doublewrite_files_of_mysql_are_on_the_dram_namespace_and_mariadb_is_beside_it";
    let Some(server) = possible(test, &["mariadbd", "mariadb-install-db"]) else { return };
    let out = Evidence::new();
    let mariadb = testkit::run("sh", &["-c", "PATH=$PATH:/usr/sbin; command -v mariadbd"]);
    let both = ["doublewrite", "--mysqld", &server, "--mysqld", mariadb.trim(), "--variants", "nand,dram"];
    let found = study(&[&both[..], &SHORT_RUN].concat(), out.path());
    schema::check("study", &found);
    let servers = found["servers"].as_array().unwrap();
    for (server, name) in servers.iter().zip(["MySQL ", "MariaDB "]) {
        assert!(server["server"].as_str().unwrap().starts_with(name), "{server}");
        let results = &server["results"];
        assert_eq!(written(results, "nand", "dram"), 0);
        // About half of the bytes; the server's own journal and logs stay on NAND.
        let (nand, dram) = (written(results, "dram", "nand"), written(results, "dram", "dram"));
        assert!(dram > nand / 4, "{name}: {dram} bytes on DRAM, {nand} on NAND");
        let directory = out.path().join(server["directory"].as_str().unwrap());
        assert!(directory.join("report.html").exists() && directory.join("results.json").exists());
    }
    let rows = found["side_by_side"].as_array().unwrap();
    let bytes = rows.iter().find(|row| row["figure"] == "nand_bytes_per_new_order, dram over nand").unwrap();
    assert!(bytes["published"].as_f64().unwrap() < -40.0, "{bytes}");
    for server in 0..2 {
        assert!(bytes["values"][server]["median"].as_f64().unwrap() < 0.0, "{bytes}");
    }
    assert!(std::fs::read_to_string(out.path().join("report.html")).unwrap().contains("MySQL"));
}

#[test]
fn nothing_that_mysql_acknowledged_is_lost() {
    let Some(server) = possible("nothing_that_mysql_acknowledged_is_lost", &[]) else { return };
    let out = Evidence::new();
    let cuts = ["powercut", "--mysqld", &server, "--rounds", "1", "--variants", "nand,dram"];
    let campaign = study(&cuts, out.path());
    assert!(campaign["server"].as_str().unwrap().starts_with("MySQL "), "{campaign}");
    for counts in campaign["variants"].as_array().unwrap() {
        assert!(counts["rounds"] == 1 && counts["acknowledged"].as_u64().unwrap() > 0, "{counts}");
    }
}
