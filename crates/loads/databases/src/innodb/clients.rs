//! What the connections run: TPC-C, or sysbench's OLTP test.

use super::config::Config;
use super::sysbench::Sysbench;
use crate::database::{Mixture, Schema, Tables, Terminals, TransactionPlan};

/// Draws transactions.
pub(super) enum Clients {
    Tpcc(Terminals),
    Sysbench(Sysbench),
}

impl Clients {
    pub(super) fn new(config: &Config, tables: Tables) -> Clients {
        match config.schema {
            Schema::TpccMysql | Schema::Live => {
                let mixture = Mixture {
                    warehouses: config.warehouses,
                    mix: config.mix,
                    stock_statements: config.stock_statements,
                    stray: config.stray,
                    seed: config.seed,
                };
                Clients::Tpcc(Terminals::new(&mixture, tables))
            }
            Schema::Sysbench { rows } => Clients::Sysbench(Sysbench::new(config, rows, tables)),
        }
    }

    /// The next transaction, in `work`, and its place in counts and latencies.
    pub(super) fn draw(&mut self, work: &mut TransactionPlan) -> usize {
        match self {
            Clients::Tpcc(terminals) => terminals.draw(work) as usize,
            Clients::Sysbench(sysbench) => {
                sysbench.draw(work);
                0
            }
        }
    }

    /// The tablespace that a page is in.
    pub(super) fn tablespace(&self, page: u64) -> usize {
        match self {
            Clients::Tpcc(terminals) => terminals.tablespace(page),
            // All is in the shared one (`innodb_file_per_table=0`).
            Clients::Sysbench(_) => 0,
        }
    }
}
