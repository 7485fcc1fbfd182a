//! A private instance of PostgreSQL in a plain directory.

mod common;

use std::{fs, os::unix::fs::FileExt, path::Path, sync::Arc, time::Duration};

use lab_databases::{
    database::Instance,
    postgresql::{
        self, Files, SUPERUSER, Server, Tuning, amcheck, bad_pages, check_pages, connect, count_wal, install,
    },
    scratch::Scratch,
    tpcc::{self, TransactionKind},
};
use lab_report::control::Cancel;

fn tuning() -> Tuning {
    Tuning { shared_buffers_mib: 8, max_wal_mib: 64, ..Tuning::default() }
}

fn start(scratch: &Scratch, server: &Server, files: &Files) -> anyhow::Result<Instance> {
    postgresql::start(scratch, server, files, &tuning(), "db", Duration::from_secs(120))
}

fn scratch() -> (tempfile::TempDir, Scratch) {
    let parent = tempfile::tempdir_in("/tmp").unwrap();
    fs::set_permissions(parent.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let scratch = Scratch::new(parent.path(), &Cancel::default()).unwrap();
    (parent, scratch)
}

/// A fresh database in one directory.
fn installed(scratch: &Scratch, server: &Server) -> Files {
    let data = scratch.dir("data").unwrap();
    server.account.give(&data).unwrap();
    let files = Files { data: data.join("pgdata"), wal: None };
    install(server, &files, &tuning(), &Cancel::default()).unwrap();
    files
}

/// Rows of the table, and their sum.
fn rows(instance: &Instance) -> (i64, i64) {
    let mut client = connect(instance.socket(), SUPERUSER).unwrap();
    let row = client.query_one("SELECT count(*), sum(n)::bigint FROM rows", &[]).unwrap();
    (row.get(0), row.get(1))
}

#[test]
fn it_keeps_its_log_elsewhere_recovers_when_killed_and_torn_pages_are_found() {
    let server = Server::find(None).unwrap();
    let (_parent, scratch) = scratch();
    let place = |name: &str| {
        let directory = scratch.dir(name).unwrap();
        server.account.give(&directory).unwrap();
        directory
    };
    let files = Files { data: place("data").join("pgdata"), wal: Some(place("log").join("pg_wal")) };
    install(&server, &files, &tuning(), &Cancel::default()).unwrap();
    assert!(files.wal.as_ref().unwrap().join("archive_status").exists());

    // Both directories are elsewhere now, as on another mount.
    fs::rename(scratch.path().join("data"), scratch.path().join("data2")).unwrap();
    fs::rename(scratch.path().join("log"), scratch.path().join("log2")).unwrap();
    let files =
        Files { data: scratch.path().join("data2/pgdata"), wal: Some(scratch.path().join("log2/pg_wal")) };
    files.link_wal().unwrap();
    let mut instance = start(&scratch, &server, &files).unwrap();
    instance.check().unwrap();
    let before = count_wal(&server, instance.socket()).unwrap();
    let mut client = connect(instance.socket(), SUPERUSER).unwrap();
    client
        .batch_execute(
            "CREATE TABLE rows (n bigint PRIMARY KEY, pad text);
             INSERT INTO rows SELECT n, repeat('x', 100) FROM generate_series(1, 20000) n;
             CHECKPOINT;
             UPDATE rows SET pad = repeat('y', 100) WHERE n % 10 = 0;",
        )
        .unwrap();
    let path: String = client.query_one("SELECT pg_relation_filepath('rows')", &[]).unwrap().get(0);
    drop(client);
    let counts = count_wal(&server, instance.socket()).unwrap().since(before);
    assert!(counts.bytes > 20_000 * 100 && counts.checkpoints >= 1, "{counts:?}");
    let id = instance.id();
    instance.kill();
    assert!(!Path::new(&format!("/proc/{id}")).exists());

    let instance = start(&scratch, &server, &files).unwrap();
    assert_eq!(rows(&instance), (20_000, 20_000 * 20_001 / 2));
    amcheck(&server, instance.socket(), SUPERUSER).unwrap();
    instance.stop().unwrap();
    check_pages(&server, &files).unwrap();
    assert_eq!(bad_pages(&files.data).unwrap(), 0);

    // Half of a page is that of another time.
    let table = fs::File::options().write(true).open(files.data.join(path)).unwrap();
    table.write_all_at(&[7; 4096], 5 * 8192 + 4096).unwrap();
    assert_eq!(bad_pages(&files.data).unwrap(), 1);
    let error = format!("{:#}", check_pages(&server, &files).unwrap_err());
    assert!(error.contains("block 5"), "{error}");
    let instance = start(&scratch, &server, &files).unwrap();
    let error = format!("{:#}", amcheck(&server, instance.socket(), SUPERUSER).unwrap_err());
    assert!(error.contains("block"), "{error}");
}

#[test]
fn tpcc_is_consistent_also_after_the_server_was_killed() {
    let server = Server::find(None).unwrap();
    let (_parent, scratch) = scratch();
    let files = installed(&scratch, &server);
    let at = |instance: &Instance| tpcc::Database::PostgreSql(instance.socket().to_owned());
    let instance = start(&scratch, &server, &files).unwrap();
    let rows = Arc::default();
    tpcc::load(&at(&instance), 1, 7, &rows, scratch.cancel()).unwrap();
    let loaded = rows.load(std::sync::atomic::Ordering::Relaxed);
    assert!(loaded.abs_diff(tpcc::rows(1)) < loaded / 100, "{loaded} {}", tpcc::rows(1));
    tpcc::check(&at(&instance)).unwrap();
    let load = common::tpcc_load(at(&instance), scratch.cancel());
    let window = tpcc::run(&load, |_| Ok(())).unwrap().window;
    assert!(window.new_orders() > 0 && !window.commit.is_empty());
    let payments =
        TransactionKind::ALL.iter().zip(&window.latency).find(|(kind, _)| **kind == TransactionKind::Payment);
    assert!(!payments.unwrap().1.is_empty());
    tpcc::check(&at(&instance)).unwrap();
    instance.kill();
    let instance = start(&scratch, &server, &files).unwrap();
    tpcc::check(&at(&instance)).unwrap();

    // A wrong row is found.
    let mut client = connect(instance.socket(), "tpcc").unwrap();
    client.batch_execute("UPDATE district SET d_ytd = d_ytd + 1 WHERE d_w_id = 1 AND d_id = 3").unwrap();
    let error = tpcc::check(&at(&instance)).unwrap_err().to_string();
    assert!(error.contains("condition 1") && error.contains("warehouse 1"), "{error}");
    instance.stop().unwrap();
    check_pages(&server, &files).unwrap();
}

#[test]
fn a_server_that_cannot_start_is_quoted() {
    let server = Server::find(None).unwrap();
    let (_parent, scratch) = scratch();
    let files = Files { data: Path::new("/nonexistent").into(), wal: None };
    let error = format!("{:#}", start(&scratch, &server, &files).unwrap_err());
    assert!(error.contains("end of its log") && error.contains("/nonexistent"), "{error}");
    let error = format!("{:#}", connect(scratch.path(), SUPERUSER).err().unwrap());
    assert!(error.contains("connecting to PostgreSQL"), "{error}");
}

#[test]
fn a_setting_that_is_none_is_quoted() {
    let server = Server::find(None).unwrap();
    let (_parent, scratch) = scratch();
    let files = installed(&scratch, &server);
    let wrong = Tuning { extra: vec![("no_such_setting".into(), "1".into())], ..tuning() };
    let error = postgresql::start(&scratch, &server, &files, &wrong, "db", Duration::from_secs(120));
    let error = format!("{:#}", error.err().unwrap());
    assert!(error.contains("no_such_setting"), "{error}");
}
