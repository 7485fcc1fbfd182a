//! Options of MyRocks, and its logs.

use std::{fs, path::PathBuf};

use super::Files;

/// Options of a server that has RocksDB's storage engine. `cache` is its block cache in MiB. The published scripts (zbdbench) give
/// the sizes, scaled with the drives of the laboratory: a file is about as large as a zone. The option files for SDC 2021 give subcompactions, jobs,
/// memtables, the files of level 0 that slow writes down, direct reads and dynamic levels.
pub fn rocksdb_options(cache: u64) -> Vec<String> {
    vec![
        "--plugin-maturity=gamma".to_owned(),
        "--plugin-load-add=ha_rocksdb.so".into(),
        format!("--rocksdb-block-cache-size={}M", cache.max(8)),
        "--rocksdb-flush-log-at-trx-commit=1".into(),
        "--rocksdb-use-direct-reads=ON".into(),
        "--rocksdb-use-direct-io-for-flush-and-compaction=ON".into(),
        "--rocksdb-max-background-jobs=8".into(),
        "--rocksdb-max-subcompactions=4".into(),
        "--rocksdb-max-total-wal-size=33554432".into(),
        concat!(
            "--rocksdb-default-cf-options=write_buffer_size=8m;max_write_buffer_number=8;target_file_size_base=8m;max_bytes_for_level_base=32m;",
            "level0_slowdown_writes_trigger=10;level_compaction_dynamic_level_bytes=true;compression=kNoCompression;bottommost_compression=kNoCompression;",
            "block_based_table_factory={block_size=16384;filter_policy=bloomfilter:10:false;cache_index_and_filter_blocks=1}"
        )
        .into(),
    ]
}

/// What RocksDB logged in the data directory: `LOG`, and those of earlier starts.
pub fn rocksdb_logs(files: &Files) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(files.tables().join("#rocksdb")) else { return Vec::new() };
    let is_log =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("LOG"));
    entries.flatten().map(|entry| entry.path()).filter(is_log).collect()
}
