//! A fault of MariaDB's own: recovery takes old bytes behind the end of its log for a part of it.
//!
//! MariaDB 10.11 writes its log in blocks of 4 KiB. What it leaves behind the end of the log in the last block are bytes that were in
//! the same buffer before: those of an earlier block, at the same place within it. There is no mark between the two. If the log
//! ends where an earlier mini-transaction began, that one is complete, its checksum is right, and recovery carries it out
//! again. So a transaction that was committed appears as one that has just begun, and is rolled back.
//!
//! The trace of it is certain: what recovery found last is equal, byte for byte, to what lies some blocks before. Records name the
//! transaction and the page, so no log repeats them.

use std::path::Path;

/// The bytes of a log before its first record.
const HEAD: u64 = 12288;
const BLOCK: usize = 4096;
/// Shorter than the records of any change, longer than what may be equal by chance.
const TRACE: usize = 24;

/// Whether the last recovery did so, by what the server said of it and its log.
pub fn goes_on_behind_its_end(said: &str, log: &Path) -> bool {
    let mut end =
        said.lines().filter_map(|line| line.split_once("End of log at LSN=")?.1.trim().parse::<u64>().ok());
    let (Some(end), Ok(log)) = (end.next_back(), std::fs::read(log)) else { return false };
    let Some(first) = log.get(8..16).map(|bytes| u64::from_be_bytes(bytes.try_into().unwrap())) else {
        return false;
    };
    let room = (log.len() as u64).saturating_sub(HEAD);
    if end < first || room == 0 {
        return false;
    }
    let end = (HEAD + (end - first) % room) as usize;
    let Some(last) = end.checked_sub(TRACE).and_then(|start| log.get(start..end)) else { return false };
    let earlier =
        |blocks: usize| end.checked_sub(blocks * BLOCK + TRACE).filter(|start| *start >= HEAD as usize);
    (1..).map_while(earlier).any(|start| &log[start..start + TRACE] == last)
}
