//! A load that knows what it was promised: each connection numbers its transactions, remembers what each wrote, and notes
//! which were acknowledged.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
};

use anyhow::{Result, bail};

use lab_databases::tpcc::Rng;

/// Rows of each connection. With their padding they are several times the buffer pool, so that pages are written all the time.
pub(super) const ROWS: u32 = 6_000;
/// Rows that a transaction updates: many, since every commit flushes the drive, and what was flushed cannot be torn.
const UPDATES: usize = 60;

/// What a connection did.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// Rows that each transaction updated; transaction n is at n - 1.
    updates: Vec<Vec<u32>>,
    /// The last transaction that was acknowledged.
    acknowledged: u64,
}

/// What recovery brought back, over all connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Transactions that were acknowledged to the client.
    pub acknowledged: u64,
    /// Of these, how many are missing, or not there as a whole.
    pub lost: u64,
    /// Rows whose value is not that of the last transaction that is there.
    pub wrong_rows: u64,
}

/// A connection to the ledger: the table `entries` with a row for each transaction, and the table `pages` with [`ROWS`] rows for each
/// connection, which its transactions update.
pub(super) trait Session {
    /// Runs transaction `seq` of a connection: notes it, and updates these of its rows.
    ///
    /// # Errors
    /// The server was killed, or met the drive without power.
    fn write(&mut self, connection: u32, seq: u64, rows: &[u32]) -> Result<()>;

    /// The last transaction of a connection that is there, 0 if there is none, and how many are.
    ///
    /// # Errors
    /// The server cannot read its tables.
    fn entries(&mut self, connection: u32) -> Result<(u64, u64)>;

    /// The rows of a connection, each with the last transaction that updated it.
    ///
    /// # Errors
    /// The server cannot read its tables.
    fn rows(&mut self, connection: u32) -> Result<Vec<(u32, u64)>>;
}

/// Connects to the ledger.
pub(super) type Connect<'a> = &'a (dyn Fn() -> Result<Box<dyn Session>> + Sync);

/// The letter that a transaction fills its rows with.
pub(super) fn letter(seq: u64) -> String {
    char::from(b'a' + u8::try_from(seq % 26).unwrap_or(0)).to_string()
}

/// Runs the load on several connections until `stop` is set or the server goes away; returns what each did.
///
/// # Errors
/// When a connection cannot be made, or the server reports an error of another kind than that it is going away.
pub(super) fn run(
    connect: Connect<'_>,
    connections: u32,
    seed: u64,
    stop: &AtomicBool,
    commits: &AtomicU64,
) -> Result<Vec<History>> {
    thread::scope(|scope| {
        let workers: Vec<_> = (0..connections)
            .map(|connection| {
                scope.spawn(move || {
                    let mut session = connect()?;
                    let mut rng = Rng::new(seed, u64::from(connection));
                    let mut history = History::default();
                    while !stop.load(Ordering::Relaxed) {
                        let rows: Vec<u32> = (0..UPDATES).map(|_| rng.uniform(0, ROWS - 1)).collect();
                        // Noted before it is tried: it may be committed without the client hearing of it.
                        history.updates.push(rows.clone());
                        match session.write(connection, history.updates.len() as u64, &rows) {
                            Ok(()) => {
                                history.acknowledged = history.updates.len() as u64;
                                commits.fetch_add(1, Ordering::Relaxed);
                            }
                            // The server was killed, or met the drive without power.
                            Err(_) => break,
                        }
                    }
                    Ok(history)
                })
            })
            .collect();
        workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or_else(|_| bail!("a connection's thread panicked")))
            .collect()
    })
}

/// Compares the recovered database with what the connections did.
///
/// # Errors
/// When the server cannot read its tables.
pub(super) fn verify(session: &mut dyn Session, histories: &[History]) -> Result<Verdict> {
    let mut verdict = Verdict::default();
    for (connection, history) in (0..).zip(histories) {
        let (last, count) = session.entries(connection)?;
        verdict = judge(verdict, history, last, count, &session.rows(connection)?);
    }
    Ok(verdict)
}

fn judge(mut verdict: Verdict, history: &History, last: u64, count: u64, rows: &[(u32, u64)]) -> Verdict {
    verdict.acknowledged += history.acknowledged;
    // Numbered without gaps from 1, so anything missing shows in the count.
    verdict.lost += history.acknowledged.saturating_sub(count.min(last));
    let mut expected: BTreeMap<u32, u64> = BTreeMap::new();
    for (seq, updates) in (1..=last).zip(&history.updates) {
        expected.extend(updates.iter().map(|row| (*row, seq)));
    }
    let wrong = rows.iter().filter(|(id, seq)| expected.get(id).copied().unwrap_or(0) != *seq).count();
    verdict.wrong_rows += wrong as u64 + u64::from(ROWS).saturating_sub(rows.len() as u64);
    verdict
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history() -> History {
        History { updates: vec![vec![0, 1], vec![1, 2], vec![2, 3]], acknowledged: 2 }
    }

    /// All rows as they are after this transaction.
    fn rows(seqs: [u64; 4]) -> Vec<(u32, u64)> {
        (0..ROWS).map(|id| (id, seqs.get(id as usize).copied().unwrap_or(0))).collect()
    }

    #[test]
    fn the_unacknowledged_one_may_be_there_or_not() {
        for (last, values) in [(2, [1, 2, 2, 0]), (3, [1, 2, 3, 3])] {
            let verdict = judge(Verdict::default(), &history(), last, last, &rows(values));
            assert_eq!(verdict, Verdict { acknowledged: 2, lost: 0, wrong_rows: 0 });
        }
    }

    #[test]
    fn a_lost_one_a_gap_and_a_stale_row_are_seen() {
        assert_eq!(judge(Verdict::default(), &history(), 1, 1, &rows([1, 1, 0, 0])).lost, 1);
        assert_eq!(judge(Verdict::default(), &history(), 2, 1, &rows([1, 2, 2, 0])).lost, 1);
        assert_eq!(judge(Verdict::default(), &history(), 2, 2, &rows([1, 1, 2, 0])).wrong_rows, 1);
    }
}
