//! Options of MyRocks, and its logs.

use std::{fs, path::PathBuf};

use super::Files;

/// Options of a server that has RocksDB's storage engine. `cache` is its block cache in MiB. Its sizes are those of the published people's scripts (zbdbench),
/// scaled as the drives of the laboratory are: a file is about as large as a zone.
pub fn rocksdb_options(cache: u64) -> Vec<String> {
    vec![
        "--plugin-maturity=gamma".to_owned(),
        "--plugin-load-add=ha_rocksdb.so".into(),
        format!("--rocksdb-block-cache-size={}M", cache.max(8)),
        "--rocksdb-flush-log-at-trx-commit=1".into(),
        "--rocksdb-use-direct-reads=ON".into(),
        "--rocksdb-use-direct-io-for-flush-and-compaction=ON".into(),
        "--rocksdb-max-background-jobs=2".into(),
        "--rocksdb-max-total-wal-size=33554432".into(),
        concat!(
            "--rocksdb-default-cf-options=write_buffer_size=8m;target_file_size_base=8m;max_bytes_for_level_base=32m;",
            "level_compaction_dynamic_level_bytes=true;compression=kNoCompression;bottommost_compression=kNoCompression;",
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
