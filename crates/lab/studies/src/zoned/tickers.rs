//! What RocksDB's programs print of its counters.

/// A counter by its name, as it was printed last: `rocksdb.bytes.written COUNT : 2620000`.
pub(super) fn ticker(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().rev().find(|line| {
        let mut words = line.split_whitespace();
        words.next() == Some(name) && words.next() == Some("COUNT")
    })?;
    line.rsplit(' ').next()?.parse().ok()
}
