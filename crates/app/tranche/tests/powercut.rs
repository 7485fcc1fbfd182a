//! A short slice of `tranche study powercut`: power cuts under MariaDB and PostgreSQL. Needs root, FUSE, loop devices and
//! the servers; says so where they are missing. The campaign is `make campaign`.

#[path = "common/evidence.rs"]
mod evidence;
#[path = "common/schema.rs"]
mod schema;
use std::process::Command;

use evidence::Evidence;

/// The campaign with these variants, as JSON.
fn campaign(variants: &str, rounds: &str) -> serde_json::Value {
    campaign_of(1, variants, rounds)
}

/// The campaign of a seed.
fn campaign_of(seed: u64, variants: &str, rounds: &str) -> serde_json::Value {
    let out = Evidence::new();
    let run = Command::new(env!("CARGO_BIN_EXE_tranche"))
        .args(["--output", "json", "study", "powercut", "--seed", &seed.to_string()])
        .args(["--rounds", rounds, "--variants", variants, "--out"])
        .arg(out.path())
        .output()
        .unwrap();
    let (text, errors) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success(), "seed {seed}\n{text}\n{errors}");
    // Nothing but the result goes to standard output.
    let campaign: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(campaign["results"], out.path().display().to_string());
    schema::check("study-powercut", &campaign);
    campaign
}

#[test]
fn nothing_that_mariadb_acknowledged_is_lost() {
    let needed = ["losetup", "mkfs.xfs", "mkfs.ext4", "mariadbd", "mariadb-install-db", "innochecksum"];
    if !testkit::possible("nothing_that_mariadb_acknowledged_is_lost", &needed) {
        return;
    }
    let campaign = campaign("nand,dram,atomic", "1");
    let rounds: Vec<_> = campaign["variants"].as_array().unwrap().iter().map(|v| &v["rounds"]).collect();
    assert_eq!(rounds, [1, 1, 1]);
}

#[test]
fn nothing_that_myrocks_acknowledged_is_lost_on_zones() {
    let needed = ["losetup", "mariadbd", "mariadb-install-db", "innochecksum"];
    if !testkit::possible("nothing_that_myrocks_acknowledged_is_lost_on_zones", &needed) {
        return;
    }
    let campaign = campaign("myrocks-zones", "2");
    let zones = &campaign["variants"][0];
    assert_eq!((&zones["variant"], &zones["rounds"]), (&"myrocks-zones".into(), &2.into()));
    assert!(zones["acknowledged"].as_u64().unwrap() > 0, "{campaign}");
}

/// Whether PostgreSQL is here, and what else its tests need.
fn has_postgresql(test: &str) -> bool {
    if !testkit::possible(test, &["losetup", "mkfs.xfs"]) {
        return false;
    }
    let found = lab_databases::postgresql::Server::find(None);
    if let Err(why) = &found {
        testkit::skipped(test, &format!("{why:#}"));
    }
    found.is_ok()
}

#[test]
fn nothing_that_postgresql_acknowledged_is_lost() {
    let test = "nothing_that_postgresql_acknowledged_is_lost";
    if !has_postgresql(test) {
        return;
    }
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let version: Vec<u32> = release.split(['.', '-']).map_while(|number| number.parse().ok()).collect();
    // Its XFS has blocks of 8 KiB.
    let variants = if version >= vec![6, 12] {
        "postgres-fpw,postgres-atomic"
    } else {
        testkit::skipped(test, &format!("postgres-atomic needs Linux 6.12; this is {}", release.trim()));
        "postgres-fpw"
    };
    let campaign = campaign(variants, "1");
    assert!(campaign["server"].as_str().unwrap().starts_with("PostgreSQL "), "{campaign}");
    for counts in campaign["variants"].as_array().unwrap() {
        assert!(counts["rounds"] == 1 && counts["acknowledged"].as_u64().unwrap() > 0, "{counts}");
    }
}

/// Without `full_page_writes` on a drive that tears, power cuts leave pages that are neither old nor new.
#[test]
fn torn_pages_of_postgresql_are_found() {
    if !has_postgresql("torn_pages_of_postgresql_are_found") {
        return;
    }
    // About every second cut tears a page, so that 16 cuts without one mean that something else prevents it.
    let torn = (1..=8).any(|seed| {
        let campaign = campaign_of(seed, "postgres-torn", "2");
        let counts = &campaign["variants"][0];
        assert!(counts["rounds"] == 2 && counts["acknowledged"].as_u64().unwrap() >= 100, "{counts}");
        counts["torn_pages"].as_u64().unwrap() > 0
    });
    assert!(torn, "no page was torn in 16 power cuts");
}
