//! A private database instance under TPC-C, in a plain directory.

mod common;

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use lab_databases::{
    database::Instance,
    mariadb::{self, Files, Server, SystemTablespace, Tuning, check_pages, install},
    scratch::Scratch,
    tpcc::{self, Phase, TransactionKind},
};
use lab_report::control::Cancel;
use mysql::prelude::Queryable;

fn tuning() -> Tuning {
    Tuning { buffer_pool_mib: 48, redo_mib: 48, ..Tuning::default() }
}

fn start(scratch: &Scratch, server: &Server, files: &Files) -> anyhow::Result<Instance> {
    mariadb::start(scratch, server, files, &tuning(), "db", Duration::from_secs(120))
}

fn at(instance: &Instance) -> tpcc::Database {
    tpcc::Database::MariaDb(instance.socket().to_owned())
}

#[test]
fn tpcc_on_mariadb_is_consistent_also_after_the_server_was_killed() {
    tpcc_is_consistent_also_after_the_server_was_killed(&Server::find(None).unwrap());
}

#[test]
fn tpcc_on_mysql_is_consistent_also_after_the_server_was_killed() {
    let path = match testkit::mysql::server() {
        Ok(path) => path,
        Err(why) => {
            return testkit::skipped("tpcc_on_mysql_is_consistent_also_after_the_server_was_killed", &why);
        }
    };
    let server = Server::find(Some(&path)).unwrap();
    assert!(server.title.starts_with("MySQL ") && server.has_doublewrite_dir(), "{server:?}");
    tpcc_is_consistent_also_after_the_server_was_killed(&server);
}

/// Names of the doublewrite files in a directory.
fn doublewrite_files(directory: &Path) -> usize {
    let names = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.to_string_lossy().ends_with(".dblwr")).count()
}

fn tpcc_is_consistent_also_after_the_server_was_killed(server: &Server) {
    let parent = tempfile::tempdir_in("/tmp").unwrap();
    std::fs::set_permissions(parent.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let scratch = Scratch::new(parent.path(), &Cancel::default()).unwrap();
    let system = scratch.dir("system").unwrap();
    server.give(&system).unwrap();
    let data = scratch.dir("data").unwrap();
    server.give(&data).unwrap();
    let beside = Files { data, system: SystemTablespace::BesideData };
    // As the studies prepare it.
    let preparing = Tuning { doublewrite: server.prepares_doublewrite(), ..tuning() };
    install(server, &beside, &preparing, &Cancel::default()).unwrap();
    let instance =
        mariadb::start(&scratch, server, &beside, &preparing, "db", Duration::from_secs(120)).unwrap();
    let rows = Arc::new(AtomicU64::new(0));
    tpcc::load(&at(&instance), 1, 7, &rows, scratch.cancel()).unwrap();
    let loaded = rows.load(Ordering::Relaxed);
    assert!(loaded.abs_diff(tpcc::rows(1)) < loaded / 100, "{loaded} {}", tpcc::rows(1));
    tpcc::check(&at(&instance)).unwrap();
    instance.stop().unwrap();
    check_pages(server, &beside).unwrap();

    // The system tablespace moves to its own place, and the database still opens.
    let apart = Files { system: SystemTablespace::In(system.clone()), ..beside };
    apart.place_system_tablespace(server).unwrap();
    let moved = system.join("ibdata1").exists() && !apart.data.join("tables/ibdata1").exists();
    assert_eq!(moved, !server.has_doublewrite_dir());
    let instance = start(&scratch, server, &apart).unwrap();
    let load = common::tpcc_load(at(&instance), scratch.cancel());
    let mut phases = Vec::new();
    let outcome = tpcc::run(&load, |phase| {
        if matches!(phase, Phase::Start | Phase::End) {
            phases.push(matches!(phase, Phase::Start));
        }
        Ok(())
    })
    .unwrap();
    assert_eq!(phases, [true, false]);
    assert!(outcome.window.new_orders() > 0 && !outcome.window.commit.is_empty());
    for (kind, histogram) in TransactionKind::ALL.iter().zip(&outcome.window.latency) {
        assert!(histogram.is_empty() || histogram.max() > 0, "{kind:?}");
    }
    tpcc::check(&at(&instance)).unwrap();
    // Two for each instance of the buffer pool, and none left beside the data.
    let files = if server.has_doublewrite_dir() { 2 } else { 0 };
    assert_eq!((doublewrite_files(&system), doublewrite_files(&apart.data.join("tables"))), (files, 0));
    instance.kill();
    let instance = start(&scratch, server, &apart).unwrap();
    tpcc::check(&at(&instance)).unwrap();

    // A wrong row is found.
    let mut conn = mariadb::connect(instance.socket(), "tpcc").unwrap();
    conn.query_drop("UPDATE district SET d_ytd = d_ytd + 1 WHERE d_w_id = 1 AND d_id = 3").unwrap();
    let error = tpcc::check(&at(&instance)).unwrap_err().to_string();
    assert!(error.contains("condition 1"), "{error}");
    instance.stop().unwrap();
    check_pages(server, &apart).unwrap();
}

#[test]
fn a_server_that_cannot_start_is_quoted() {
    let parent = tempfile::tempdir_in("/tmp").unwrap();
    let scratch = Scratch::new(parent.path(), &Cancel::default()).unwrap();
    let server = Server::find(None).unwrap();
    let files = Files { data: Path::new("/nonexistent").into(), system: SystemTablespace::BesideData };
    let error = format!("{:#}", start(&scratch, &server, &files).unwrap_err());
    assert!(error.contains("end of its log") && error.contains("/nonexistent"), "{error}");
}
