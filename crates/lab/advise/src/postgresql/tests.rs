//! Configurations like those that packages install.

use super::{
    database::{Database, SEGMENT},
    *,
};

fn read_files(files: &[(&str, &str)], server: Option<&str>) -> Result<(Database, Server, String)> {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let path = dir.path().join(files[0].0);
    let read_it = file::read(&path)?;
    let (server, told) = match server {
        Some(server) => (server.parse().unwrap(), String::new()),
        None => detect(&path, &read_it, None)?,
    };
    Ok((Database::read(&read_it, server)?, server, told))
}

fn database(text: &str) -> Result<Database> {
    read_files(&[("postgresql.conf", text)], Some("postgresql-17")).map(|read| read.0)
}

/// As Debian's package has it.
const DEBIAN: &str = "data_directory = '../../../../data'\t\t# use data in another directory\nhba_file = '/etc/postgresql/15/main/pg_hba.conf'\n\
     port = 5432\nmax_connections = 100\t\t\t# (change requires restart)\nshared_buffers = 128MB\t\t\t# min 128kB\n#fsync = on\n\
     dynamic_shared_memory_type = posix\nmax_wal_size = 1GB\nmin_wal_size = 80MB\nlog_line_prefix = '%m [%p] %q%u@%d '\ninclude_dir = 'conf.d'\n";

#[test]
fn a_package_s_server_has_its_defaults() {
    let files =
        [("etc/postgresql/15/main/postgresql.conf", DEBIAN), ("etc/postgresql/15/main/conf.d/README", "x")];
    let (found, server, told) = read_files(&files, None).unwrap();
    assert_eq!(server.to_string(), "PostgreSQL 15");
    assert!(told.starts_with("the name of "), "{told}");
    assert!(found.full_page_writes && found.fsync && found.flush_at_commit && !found.compressed);
    assert_eq!((found.shared_buffers, found.max_wal_size, found.wal_buffers), (128 << 20, 1 << 30, 4 << 20));
    assert_eq!((found.checkpoint_timeout, found.completion_target), (300_000_000_000, 900));
    assert_eq!(
        (found.bgwriter_delay, found.bgwriter_pages, found.bgwriter_multiplier),
        (200_000_000, 100, 2000)
    );
    assert_eq!(
        found.left_out,
        [
            "settings that the model does not have (6: dynamic_shared_memory_type, hba_file, log_line_prefix, max_connections, \
             min_wal_size, port)"
        ]
    );
    assert_eq!(found.new_segment, 0);
    let row = |name: &str| found.rows.iter().find(|row| row.name == name).unwrap();
    assert!(row("shared_buffers").from.ends_with("postgresql.conf:5") && !row("shared_buffers").default);
    let timeout = row("checkpoint_timeout");
    assert!(timeout.default && timeout.from == "default of PostgreSQL 15" && timeout.value == "5 min");
}

#[test]
fn series_have_their_defaults() {
    let of = |server: &str| read_files(&[("postgresql.conf", "")], Some(server)).unwrap().0;
    let ahead = |found: &Database| {
        found.rows.iter().find(|row| row.name.ends_with("io_concurrency")).unwrap().value.clone()
    };
    assert_eq!((of("postgresql-13").completion_target, of("postgresql-14").completion_target), (500, 900));
    assert_eq!((ahead(&of("postgresql-17")), ahead(&of("postgresql-18"))), ("1".into(), "16".into()));
    // Compression is a switch until 14, and a method from 15.
    let compressed =
        |server, text| read_files(&[("postgresql.conf", text)], Some(server)).map(|read| read.0.compressed);
    assert!(compressed("postgresql-14", "wal_compression = o").is_err());
    assert!(compressed("postgresql-14", "wal_compression = tr").unwrap());
    assert!(compressed("postgresql-14", "wal_compression = lz4").is_err());
    assert!(compressed("postgresql-15", "wal_compression = LZ4").unwrap());
    assert!(!compressed("postgresql-15", "wal_compression = no").unwrap());
}

#[test]
fn the_data_directory_tells_the_series() {
    let told = |version| {
        let files = [("etc/postgresql.conf", "data_directory = '../data'"), ("data/PG_VERSION", version)];
        read_files(&files, None).map(|read| read.1.to_string()).map_err(|error| error.to_string())
    };
    assert_eq!(told("16\n"), Ok("PostgreSQL 16".into()));
    assert!(told("12\n").unwrap_err().contains("13 to 18"));
    let (_, server, told) = read_files(&[("postgresql.conf", "")], None).unwrap();
    assert!(server.to_string() == "PostgreSQL 18" && told.contains("nothing tells"));
}

#[test]
fn a_tuned_server_is_understood() {
    let text = "shared_buffers = '16 GB'\nmax_wal_size = 64GB\ncheckpoint_timeout = '.5h'\ncheckpoint_completion_target = 0.75\nfull_page_writes = off\n\
                synchronous_commit = off\ncommit_delay = 200\nwal_buffers = 64MB\nwal_compression = zstd\nwal_recycle = off\n\
                bgwriter_lru_maxpages = 0\nFSYNC = fal\n";
    let files = [("postgresql.conf", text), ("postgresql.auto.conf", "checkpoint_timeout = '20min'\n")];
    let (found, ..) = read_files(&files, Some("postgresql-17")).unwrap();
    assert_eq!((found.shared_buffers, found.max_wal_size, found.wal_buffers), (16 << 30, 64 << 30, 64 << 20));
    assert_eq!((found.checkpoint_timeout, found.completion_target), (1_200_000_000_000, 750));
    assert!(!found.full_page_writes && !found.fsync && !found.flush_at_commit && found.compressed);
    assert_eq!((found.commit_delay, found.commit_siblings, found.new_segment), (200_000, 5, SEGMENT));
    assert_eq!(found.bgwriter_pages, 0);
    let row = found.rows.iter().find(|row| row.name == "checkpoint_timeout").unwrap();
    assert!(row.from.ends_with("postgresql.auto.conf:1") && row.value == "20 min", "{row:?}");
    assert!(found.left_out.len() == 2 && found.left_out[0].contains("fsync"), "{:?}", found.left_out);
}

#[test]
fn values_that_matter_are_errors_where_they_cannot_be_read() {
    for (text, words) in [
        ("shared_buffers = lots", "kB, MB, GB"),
        ("shared_buffers = 128mb", "their case matters"),
        ("shared_buffers = 64kB", "128 KiB to"),
        ("full_page_writes = maybe", "on or off"),
        ("full_page_writes = o", "on or off"),
        ("checkpoint_timeout = 10s", "30 s to 1440 min"),
        ("checkpoint_timeout = 5m", "min, h or d"),
        ("checkpoint_completion_target = 1.5", "0 to 1"),
        ("max_wal_size = 20MB", "two segments"),
        ("synchronous_commit = sometimes", "remote_apply"),
        ("commit_delay = '1s'", "100 ms"),
        ("wal_buffers = -2", "-1 to"),
        ("bgwriter_lru_multiplier = '11'", "0 to 10"),
        ("block_size = 8192", "the server refuses it"),
        ("wal_segment_size = 64MB", "the server refuses it"),
    ] {
        let error = database(&format!("\n{text}\n")).unwrap_err().to_string();
        assert!(error.contains("postgresql.conf:2: ") && error.contains(words), "{text}: {error}");
    }
    // What does not matter is not looked at, and what is overridden neither.
    assert!(database("max_connections = many\nno_such_setting = 1").is_ok());
    assert!(database("shared_buffers = lots\nshared_buffers = 1GB").is_ok());
}

#[test]
fn any_text_is_a_database_or_an_error() {
    let words = [
        "shared_buffers",
        "max_wal_size",
        "checkpoint_timeout",
        "wal_buffers",
        "fsync",
        " = ",
        "16",
        "kB",
        "GB",
        "min",
        "off",
        "\n",
        " ",
        "-1",
        ".5",
        "'",
        "99999999999999999999",
        "0x",
        "e9",
        "commit_delay = ",
        "bgwriter_delay=",
    ];
    for seed in 0..3000u64 {
        let mut rng = rng::Rng::new(seed);
        let mut text = String::new();
        for _ in 0..rng.below(20) {
            text += words[rng.below(words.len() as u64) as usize];
        }
        if let Ok(found) = database(&text) {
            assert!(
                found.shared_buffers >= 128 << 10 && found.max_wal_size > 0 && found.wal_buffers > 0,
                "seed {seed}: {text:?}"
            );
        }
    }
}
