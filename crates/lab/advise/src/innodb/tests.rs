//! Configurations like those that packages install.

use super::{database::Database, groups::read};
use crate::settings::Settings;
use anyhow::Result;

fn database(files: &[(&str, &str)]) -> Result<Database> {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let read = read(&dir.path().join(files[0].0), None, &[])?;
    Database::read(&read.settings, read.server)
}

fn mysql(text: &str) -> Result<Database> {
    database(&[("my.cnf", &format!("[mysqld]\n{text}"))])
}

/// A file that links to others, as Debian's MariaDB has it; what matters is commented out.
const DEBIAN: [(&str, &str); 4] = [
    (
        "mariadb.cnf",
        "# read last to first\n[client-server]\nsocket = /run/mysqld/mysqld.sock\n!includedir conf.d/\n!includedir mariadb.conf.d/\n",
    ),
    ("conf.d/mysql.cnf", "[mysql]\n"),
    (
        "mariadb.conf.d/50-server.cnf",
        "[server]\n[mysqld]\npid-file = /run/mysqld/mysqld.pid\nbasedir = /usr\nbind-address = 127.0.0.1\n#sync_binlog = 1\n\
         #innodb_buffer_pool_size = 8G\nexpire_logs_days = 10\ncharacter-set-server = utf8mb4\n[embedded]\n[mariadb]\n[mariadb-11.8]\n",
    ),
    ("mariadb.conf.d/60-galera.cnf", "[galera]\n#wsrep_on = ON\nbind-address = 0.0.0.0\n"),
];

#[test]
fn a_package_s_mariadb_has_its_defaults() {
    let found = database(&DEBIAN).unwrap();
    assert_eq!(found.server.to_string(), "MariaDB 11.8");
    assert!(found.doublewrite && found.flush_at_commit && !found.binlog && !found.journal_times);
    assert_eq!((found.pool, found.redo, found.shards, found.instances), (128 << 20, 96 << 20, 1, 1));
    assert_eq!(
        (found.io_capacity, found.io_capacity_max, found.scan_depth, found.dirty_low),
        (200, 2000, 1536, 90)
    );
    assert!(
        found.rows.iter().all(|row| row.default && row.from == "default of MariaDB 11.8"),
        "{:?}",
        found.rows
    );
}

#[test]
fn a_package_s_mysql_has_its_defaults() {
    let text = "[mysqld]\nuser = mysql\nbind-address = 127.0.0.1\nmysqlx-bind-address = 127.0.0.1\nkey_buffer_size = 16M\n\
                myisam-recover-options = BACKUP\nlog_error = /var/log/mysql/error.log\nmax_binlog_size = 100M\n";
    let files = [("my.cnf", "!includedir mysql.conf.d/\n"), ("mysql.conf.d/mysqld.cnf", text)];
    let found = database(&files).unwrap();
    assert_eq!(found.server.to_string(), "MySQL 8.4");
    assert!(found.doublewrite && found.binlog && !found.journal_times);
    assert_eq!((found.pool, found.redo, found.shards, found.instances), (128 << 20, 100 << 20, 2, 1));
    assert_eq!((found.io_capacity, found.io_capacity_max), (10_000, 20_000));
    // The series before it had others.
    let settings = Settings::default();
    let old = Database::read(&settings, "mysql-8.0".parse().unwrap()).unwrap();
    assert!(old.journal_times && old.left_out.iter().any(|line| line.contains("page cache")));
    assert_eq!((old.io_capacity, old.shards), (200, 2));
}

#[test]
fn the_published_server_is_understood() {
    let text = "innodb-buffer-pool-size = 16G\ninnodb_buffer_pool_instances=8\ninnodb_flush_log_at_trx_commit = 1\ninnodb_flush_method=O_DIRECT\n\
                innodb_io_capacity=10000\ninnodb_log_file_size=4G\ninnodb_log_files_in_group=2\ninnodb_doublewrite_files=16\n\
                innodb_max_dirty_pages_pct = 75.5\ndatadir=/data\n";
    let found = mysql(text).unwrap();
    assert_eq!((found.pool, found.redo, found.shards, found.instances), (16 << 30, 8 << 30, 16, 8));
    assert_eq!((found.dirty_low, found.dirty_high, found.page_cleaners), (10, 75, 8));
    let row = found.rows.iter().find(|row| row.name == "innodb_buffer_pool_size").unwrap();
    assert!(row.from.ends_with("my.cnf:2") && !row.default && row.value == "16.0 GiB", "{row:?}");
    assert!(found.left_out.is_empty(), "{:?}", found.left_out);
}

#[test]
fn doublewrite_has_many_words() {
    for (text, on) in [
        ("innodb_doublewrite=OFF", false),
        ("skip-innodb-doublewrite", false),
        ("loose-skip-innodb_doublewrite", false),
        ("innodb_doublewrite", true),
        ("innodb_doublewrite = detect_and_recover", true),
        ("innodb_doublewrite = DETECT_ONLY", false),
        ("innodb_doublewrite=0\ninnodb_doublewrite=1", true),
    ] {
        assert_eq!(mysql(text).unwrap().doublewrite, on, "{text}");
    }
    let fast = database(&[("my.cnf", "[mariadb]\ninnodb_doublewrite=fast\n")]).unwrap();
    assert!(fast.doublewrite && fast.left_out[0].contains("FAST"));
}

#[test]
fn what_is_not_synced_at_a_commit_is_left_out() {
    let found = mysql("innodb_flush_log_at_trx_commit=2").unwrap();
    assert!(!found.flush_at_commit && !found.binlog && found.left_out[0].contains("binary log"));
    assert!(!mysql("skip-log-bin").unwrap().binlog);
    assert!(!mysql("sync_binlog=100").unwrap().binlog);
    // A value is the name of the log. Only a prefix turns it off.
    for (text, on) in
        [("log_bin=OFF", true), ("LOG-BIN=0", true), ("skip_log_bin=0", true), ("skip_log_bin=OFF", false)]
    {
        assert_eq!(mysql(text).unwrap().binlog, on, "{text}");
    }
    let synced = database(&[("my.cnf", "[mariadb]\nlog-bin=mysql-bin\nsync-binlog=1\n")]).unwrap();
    assert!(synced.binlog && synced.rows.iter().any(|row| row.name == "log_bin" && row.value == "ON"));
}

#[test]
fn a_commit_value_that_is_too_large_is_taken_as_the_server_does() {
    let of = |text: &str| {
        let found = database(&[("my.cnf", text)]).unwrap();
        let row = found.rows.iter().find(|row| row.name == "innodb_flush_log_at_trx_commit").unwrap().clone();
        (found.flush_at_commit, row.value, row.meaning)
    };
    let (waits, value, meaning) = of("[mariadb]\ninnodb_flush_log_at_trx_commit=5\n");
    assert!(waits && value == "3" && meaning.contains("MariaDB takes 3 for 5"), "{meaning}");
    let (waits, value, meaning) = of("[mysqld]\ninnodb_flush_log_at_trx_commit=5\n");
    assert!(!waits && value == "2" && meaning.contains("MySQL takes 2 for 5"), "{meaning}");
    assert!(!of("[mysqld]\ninnodb_flush_log_at_trx_commit=2\n").2.contains("takes"));
}

#[test]
fn a_misspelt_setting_is_told() {
    let found = mysql("innodb_bufer_pool_size=1G\ninnodb_bufer_pool_size=2G\nmax_conections=5").unwrap();
    let told: Vec<_> = found.rows.iter().filter(|row| row.meaning.contains("did you mean")).collect();
    let [row] = &told[..] else { panic!("{told:?}") };
    assert!(row.value == "2G" && row.from.ends_with("my.cnf:3"), "{row:?}");
    assert!(row.meaning.contains("innodb_buffer_pool_size") && found.pool == 128 << 20);
}

/// A number is the place in the server's list of words.
#[test]
fn a_flush_method_may_be_a_number() {
    let direct = |text: &str| {
        let found = mysql(text).unwrap();
        !found.left_out.iter().any(|line| line.contains("page cache"))
    };
    for (method, is_direct) in [("4", true), ("5", true), ("O_DIRECT", true), ("0", false), ("fsync", false)]
    {
        assert_eq!(direct(&format!("innodb_flush_method={method}")), is_direct, "{method}");
    }
    assert!(mysql("innodb_flush_method=6").is_err());
}

#[test]
fn values_that_matter_are_errors_where_they_cannot_be_read() {
    for (text, words) in [
        ("innodb_page_size=4k", "pages of 16 KiB only"),
        ("innodb_doublewrite=FAST", "ON, OFF, DETECT_AND_RECOVER"),
        ("innodb_buffer_pool_size=lots", "whole number"),
        ("innodb_buffer_pool_size", "whole number"),
        ("innodb_buffer_pool_size=1M", "5M at least"),
        ("innodb_flush_method=quickly", "it is fsync"),
        ("innodb_max_dirty_pages_pct=101", "percentage"),
        ("innodb_dedicated_server=ON", "say innodb_buffer_pool_size"),
    ] {
        let error = mysql(text).unwrap_err().to_string();
        assert!(error.contains("my.cnf:2: ") && error.contains(words), "{text}: {error}");
    }
    // What does not matter is not looked at.
    assert!(mysql("max_connections=many\nno_such_setting=1").is_ok());
    assert!(mysql("innodb_dedicated_server=ON\ninnodb_buffer_pool_size=1G").is_ok());
}

#[test]
fn any_text_is_a_database_or_an_error() {
    let words = [
        "innodb_",
        "doublewrite",
        "page_size",
        "buffer_pool_size",
        "log_bin",
        "=",
        "16",
        "K",
        "G",
        "OFF",
        "\n",
        " ",
        "-",
        "skip-",
        "loose-",
        "99999999999999999999",
        "innodb_log_file_size",
        "innodb_max_dirty_pages_pct_lwm",
        ".5",
        "innodb_io_capacity=",
        "innodb_redo_log_capacity=",
    ];
    for seed in 0..3000u64 {
        let mut rng = rng::Rng::new(seed);
        let mut text = String::new();
        for _ in 0..rng.below(20) {
            text += words[rng.below(words.len() as u64) as usize];
        }
        if let Ok(found) = mysql(&text) {
            assert!(
                found.pool >= 5 << 20 && found.redo > 0 && found.io_capacity > 0,
                "seed {seed}: {text:?}"
            );
        }
    }
}
