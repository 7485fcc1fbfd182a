//! `tranche advise` as a database engineer runs it.

mod common;
use common::{SMALL_DRIVE, TRANCHE, text};
use std::path::Path;
use std::process::{Command, Output};

/// A drive on which a simulation takes a moment, and a configuration in two files.
fn directory() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    file("drive.toml", &SMALL_DRIVE.replace("256MiB", "1GiB"));
    file("my.cnf", "[client]\nport = 3306\n!includedir conf.d\n");
    file(
        "conf.d/server.cnf",
        "# of the server\n[mysqld]\ninnodb-buffer-pool-size = 32M   # small\nloose-innodb-io-capacity=5000\nskip-log-bin\n",
    );
    file("bad.cnf", "[mysqld]\n\ninnodb_buffer_pool_size = a lot\n");
    dir
}

fn advise(dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(TRANCHE);
    command
        .current_dir(dir)
        .args(["advise", "--no-cache", "--no-ask", "--drive", "drive.toml"])
        .args(args)
        .output()
        .unwrap()
}

const SHORT_RUN: [&str; 6] = ["--seconds", "2s", "--warmup", "1s", "--seeds", "2"];

#[test]
fn a_configuration_is_read_and_layouts_are_simulated() {
    let dir = directory();
    let output = advise(dir.path(), &[&["my.cnf"], &SHORT_RUN[..]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    // What was read, from where, and which values are defaults.
    let row = |name: &str| {
        said.lines()
            .find(|line| line.starts_with(name))
            .unwrap_or_else(|| panic!("{name}: {said}"))
            .to_owned()
    };
    assert!(row("innodb_buffer_pool_size").contains("conf.d/server.cnf:3"), "{said}");
    assert!(row("innodb_io_capacity ").contains("5000"), "{said}");
    assert!(row("log_bin").contains("OFF"), "{said}");
    assert!(row("innodb_doublewrite ").contains("default of MySQL 8.4"), "{said}");
    // Layouts with their figures, and their steps.
    for name in ["configured  ", "dram  ", "atomic  "] {
        assert!(row(name).contains(" to "), "{said}");
    }
    for words in [
        "innodb_doublewrite_dir",
        "Not simulated:",
        "- zones: it was not asked for",
        "- cache: it was not asked for",
        "- quota: it was not asked for",
        "tranche study doublewrite --live",
        "capacitors",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
}

#[test]
fn a_configuration_of_postgresql_is_read_and_layouts_are_simulated() {
    let dir = directory();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    file(
        "pg/postgresql.conf",
        "shared_buffers = 32MB\t# small\ninclude_dir = 'conf.d'\nmax_wal_size = 1GB\n",
    );
    file("pg/conf.d/10.conf", "Checkpoint_Timeout '90s'\nfull_page_writes = true\n");
    file("pg/postgresql.auto.conf", "# by ALTER SYSTEM\nmax_wal_size = '64MB'\n");
    file("pg/PG_VERSION", "15\n");
    let output = advise(dir.path(), &[&["pg/postgresql.conf"], &SHORT_RUN[..]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    let row = |name: &str| {
        let row = said.lines().find(|line| line.starts_with(name));
        row.unwrap_or_else(|| panic!("{name}: {said}")).to_owned()
    };
    assert!(
        row("PostgreSQL 15").contains("PG_VERSION") && row("shared_buffers").contains("postgresql.conf:1")
    );
    assert!(row("checkpoint_timeout").contains("90 s") && row("checkpoint_timeout").contains("10.conf:1"));
    assert!(
        row("max_wal_size").contains("64.0 MiB") && row("max_wal_size").contains("auto.conf:2"),
        "{said}"
    );
    assert!(row("wal_compression").contains("default of PostgreSQL 15"), "{said}");
    for name in ["configured  ", "wal  ", "atomic  "] {
        assert!(row(name).contains(" to "), "{said}");
    }
    for words in ["full_page_writes = off", "ln -s /mnt/wal/pg_wal", "Not simulated:", "tranche compare"] {
        assert!(said.contains(words), "{words}: {said}");
    }
}

#[test]
fn layouts_are_named_and_zones_and_a_neighbour_are_simulated() {
    let dir = directory();
    let args = ["my.cnf", "--layouts", "zones,quota", "--dataset", "256MiB", "--neighbour-quota", "5MB/s"];
    let output = advise(dir.path(), &[&args[..], &SHORT_RUN[..]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    for name in ["configured  ", "zones  ", "neighbour  ", "quota  "] {
        assert!(said.lines().any(|line| line.starts_with(name)), "{name}: {said}");
    }
    assert!(!said.lines().any(|line| line.starts_with("dram  ")), "{said}");
    for words in
        ["For comparison:", "with a quota of 5.00 MB/s", "- dram: it was not asked for: --layouts dram"]
    {
        assert!(said.contains(words), "{words}: {said}");
    }
}

#[test]
fn a_disk_with_a_cache_is_simulated() {
    let dir = directory();
    let args = ["my.cnf", "--layouts", "cache", "--dataset", "256MiB", "--cache-size", "128MiB"];
    let more = ["--disk", "savvio-10k4-600g", "--controller", "h730p"];
    let output = advise(dir.path(), &[&args[..], &more, &SHORT_RUN[..]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    for name in ["configured  ", "disk  ", "cache  "] {
        assert!(said.lines().any(|line| line.starts_with(name)), "{name}: {said}");
    }
    for words in [
        "savvio-10k4-600g on a PERC H730P",
        "128 MiB of the drive as a cache before it (50.0 % of the database)",
        "reads that hit the cache, %: ",
        "Cache or main store: the cache has ",
        "--cachemode writeback",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
}

#[test]
fn mistakes_are_told_with_their_place() {
    let dir = directory();
    let refused = |args: &[&str], code: i32| {
        let output = advise(dir.path(), args);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", text(&output.stderr));
        assert!(output.stdout.is_empty());
        text(&output.stderr)
    };
    assert!(refused(&["bad.cnf"], 1).contains("bad.cnf:3: innodb_buffer_pool_size = \"a lot\""));
    assert!(refused(&["none.cnf"], 1).contains("cannot read none.cnf"));
    assert!(refused(&["my.cnf", "--sample", "1s"], 2).contains("needs the block device"));
    assert!(refused(&["my.cnf", "/dev/none", "--sample", "1s"], 1).contains("cannot read /dev/none"));
    assert!(refused(&["my.cnf", "bad.cnf"], 2).contains("bad.cnf is no block device"));
    assert!(refused(&["my.cnf", "--recording", "none"], 1).contains("none"));
    assert!(refused(&["my.cnf", "--sample", "1s", "--recording", "x"], 2).contains("cannot be used with"));
    assert!(refused(&["my.cnf", "--server", "mysql-5.6"], 2).contains("8.0 and later"));
    assert!(refused(&["my.cnf", "--layouts", "quta"], 2).contains("did you mean quota?"));
    assert!(refused(&["my.cnf", "--layouts", "wal"], 2).contains("wal is no layout of MySQL"));
    assert!(refused(&["my.cnf", "--neighbour", "none.fio"], 1).contains("cannot read none.fio"));
    assert!(refused(&["my.cnf", "--disk", "none"], 2).contains("--disk"));
    assert!(refused(&["my.cnf", "--cache-size", "1KiB"], 1).contains("--cache-size is too small"));
    assert!(refused(&["my.cnf", "--dataset", "1TiB"], 1).contains("does not fit"));
    std::fs::write(dir.path().join("postgresql.conf"), "port = 5432\nshared_buffers = 1G\n").unwrap();
    let wrong = refused(&["postgresql.conf"], 1);
    assert!(wrong.contains("postgresql.conf:2: shared_buffers = \"1G\"") && wrong.contains("GB"), "{wrong}");
    assert!(refused(&["postgresql.conf", "--server", "mysql"], 1).contains("--server says MySQL"));
    assert!(refused(&["postgresql.conf", "--server", "postgresql-12"], 2).contains("13 to 18"));
}

#[test]
fn an_installed_server_is_asked() {
    if !Path::new("/usr/sbin/mariadbd").exists() {
        testkit::skipped("advise asks a server", "there is no MariaDB (scripts/setup-debian.sh installs it)");
        return;
    }
    let dir = directory();
    let ask = |settings: &str, more: &[&str]| {
        std::fs::write(dir.path().join("asked.cnf"), format!("[mariadb]\nskip-log-bin\n{settings}\n"))
            .unwrap();
        let mut command = Command::new(TRANCHE);
        command.current_dir(dir.path()).args(["advise", "asked.cnf", "--no-cache", "--drive", "drive.toml"]);
        command
            .args(["--seconds", "2s", "--warmup", "1s", "--seeds", "1", "--layouts", "atomic"])
            .args(more)
            .output()
            .unwrap()
    };
    let refused = ask("innodb_nonsense=1", &[]);
    let said = text(&refused.stderr);
    assert!(said.contains("asked.cnf:3: MariaDB ") && said.contains("does not start with it"), "{said}");
    assert!(refused.status.code() == Some(1) && refused.stdout.is_empty());
    // What the server adjusts is told, and the value is the server's.
    let adjusted = ask("innodb_buffer_pool_size=32M\ninnodb_flush_log_at_trx_commit=7", &[]);
    let said = text(&adjusted.stdout);
    assert!(adjusted.status.success(), "{}", text(&adjusted.stderr));
    assert!(said.contains("Values as told by MariaDB ") && said.contains(" of this machine"), "{said}");
    assert!(said.contains("unsigned value 7 adjusted to 3"), "{said}");
    // Nobody is asked where that is wished.
    let alone = ask("innodb_nonsense=1\ninnodb_buffer_pool_size=32M", &["--no-ask"]);
    assert!(
        alone.status.success() && text(&alone.stdout).contains("the files alone"),
        "{}",
        text(&alone.stderr)
    );
}
