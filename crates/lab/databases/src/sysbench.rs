//! sysbench: a program of its own that loads a database, as the published measurements used it.

use std::{path::Path, process::Command, time::Duration};

use anyhow::{Context, Result};

use crate::{mariadb, process::run_long};
use lab_report::{control::Cancel, percentiles::Percentiles};

/// Package that has it.
pub const PACKAGE: &str = "sysbench";
/// The database.
pub const DATABASE: &str = "sbtest";
/// Connections that fill the tables.
const LOADERS: u32 = 4;

/// A database for sysbench.
#[derive(Clone, Debug)]
pub struct Sysbench<'a> {
    /// The server's Unix socket.
    pub socket: &'a Path,
    /// Storage engine of the tables.
    pub engine: &'a str,
    /// Tables.
    pub tables: u32,
    /// Rows of a table.
    pub rows: u64,
    /// Seed of the rows that are drawn.
    pub seed: u64,
    /// How rows are drawn: sysbench's `--rand-type`.
    pub rows_drawn: &'static str,
    /// What ends it early.
    pub cancel: &'a Cancel,
}

/// What a run measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Transactions.
    pub transactions: u64,
    /// Seconds.
    pub seconds: f64,
    /// Latency of transactions in milliseconds.
    pub latency: Percentiles,
    /// Milliseconds that one transaction in 1,000 takes or more.
    pub p999: f64,
    /// Milliseconds that one in 10,000 takes or more.
    pub p9999: f64,
}

impl Sysbench<'_> {
    fn command(&self, script: &str, threads: u32) -> Command {
        let mut command = Command::new("sysbench");
        command.arg(script).args([
            "--db-driver=mysql".to_owned(),
            format!("--mysql-socket={}", self.socket.display()),
            "--mysql-user=root".into(),
            format!("--mysql-db={DATABASE}"),
            format!("--mysql-storage-engine={}", self.engine),
            format!("--tables={}", self.tables),
            format!("--table-size={}", self.rows),
            format!("--threads={threads}"),
            format!("--rand-seed={}", self.seed.max(1)),
            format!("--rand-type={}", self.rows_drawn),
            "--histogram=on".into(),
        ]);
        command
    }

    /// Makes the tables and fills them.
    pub fn prepare(&self) -> Result<()> {
        use mysql::prelude::Queryable;
        let mut connection = mariadb::connect(self.socket, "")?;
        connection.query_drop(format!("CREATE DATABASE {DATABASE}"))?;
        drop(connection);
        run_long(
            self.command("oltp_read_write", LOADERS.min(self.tables)).arg("prepare"),
            PACKAGE,
            self.cancel,
        )?;
        Ok(())
    }

    /// Runs a script for some time.
    pub fn run(&self, script: &str, threads: u32, time: Duration) -> Result<Measured> {
        let mut command = self.command(script, threads);
        command.args([format!("--time={}", time.as_secs().max(1)), "--events=0".into()]).arg("run");
        let said = run_long(&mut command, PACKAGE, self.cancel)?;
        parse(&said).with_context(|| format!("sysbench said something else than expected:\n{said}"))
    }
}

/// Reads what sysbench prints: its histogram, its number of transactions, and the time.
fn parse(said: &str) -> Option<Measured> {
    let after = |label: &str| {
        let line = said.lines().find_map(|line| line.trim().strip_prefix(label))?;
        line.split_whitespace().next()?.trim_end_matches('s').parse::<f64>().ok()
    };
    let mut histogram: Vec<(f64, u64)> = Vec::new();
    for line in said.lines() {
        // `       0.838 |**                                       12`
        let Some((value, rest)) = line.split_once('|') else { continue };
        let (Ok(value), Some(count)) = (value.trim().parse(), rest.split_whitespace().last()) else {
            continue;
        };
        histogram.push((value, count.trim_start_matches('*').parse().ok()?));
    }
    let transactions = after("transactions:")?;
    let count: u64 = histogram.iter().map(|(_, count)| count).sum();
    let at = |per_million: u64| {
        let wanted = (u128::from(count) * u128::from(per_million)).div_ceil(1_000_000);
        let mut seen = 0;
        let found = histogram.iter().find(|(_, count)| {
            seen += u128::from(*count);
            seen >= wanted
        });
        found.map_or(0.0, |(value, _)| *value)
    };
    Some(Measured {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
        transactions: transactions as u64,
        seconds: after("total time:")?,
        latency: Percentiles {
            count,
            mean: after("avg:")?,
            p50: at(500_000),
            p95: at(950_000),
            p99: at(990_000),
            max: after("max:")?,
        },
        p999: at(999_000),
        p9999: at(999_900),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From `sysbench oltp_read_only … run` of sysbench 1.0.20, with a shorter histogram.
    const SYSBENCH_OUTPUT: &str = "
Latency histogram (values are in milliseconds)
       value  ------------- distribution ------------- count
      10.651 |****************************************       97
      10.844 |*                                        2
     104.840 |                                         1

SQL statistics:
    queries performed:
        read:                            1400
        write:                           0
        other:                           200
        total:                           1600
    transactions:                        100    (9.87 per sec.)
    queries:                             1600   (157.93 per sec.)
    ignored errors:                      0      (0.00 per sec.)
    reconnects:                          0      (0.00 per sec.)

General statistics:
    total time:                          10.1297s
    total number of events:              100

Latency (ms):
         min:                                   10.60
         avg:                                   11.70
         max:                                  104.91
         95th percentile:                       10.65
         sum:                                 1170.00
";

    #[test]
    fn a_report_is_read() {
        let measured = parse(SYSBENCH_OUTPUT).unwrap();
        assert_eq!((measured.transactions, measured.seconds), (100, 10.1297));
        let latency = &measured.latency;
        assert_eq!((latency.count, latency.mean, latency.max), (100, 11.70, 104.91));
        assert_eq!((latency.p50, latency.p95, latency.p99), (10.651, 10.651, 10.844));
        assert_eq!((measured.p999, measured.p9999), (104.840, 104.840));
        assert_eq!(parse("no such program"), None);
    }
}
