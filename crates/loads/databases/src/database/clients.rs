//! What the connections run: TPC-C, or sysbench's OLTP test.

use super::sysbench::Sysbench;
use super::tables::{Schema, Tables};
use super::tpcc::{Mixture, Terminals, TransactionPlan};

/// Draws transactions.
pub(crate) enum Clients {
    Tpcc(Terminals),
    Sysbench(Sysbench),
}

impl Clients {
    /// Of a schema whose tables are `tables`.
    pub(crate) fn new(schema: Schema, mixture: &Mixture, tables: Tables) -> Clients {
        match schema {
            Schema::TpccMysql | Schema::Live => Clients::Tpcc(Terminals::new(mixture, tables)),
            Schema::Sysbench { rows } => Clients::Sysbench(Sysbench::new(mixture.seed, rows, tables)),
        }
    }

    /// The next transaction, in `work`, and its place in counts and latencies.
    pub(crate) fn draw(&mut self, work: &mut TransactionPlan) -> usize {
        match self {
            Clients::Tpcc(terminals) => terminals.draw(work) as usize,
            Clients::Sysbench(sysbench) => {
                sysbench.draw(work);
                0
            }
        }
    }

    /// The tablespace that a page is in.
    pub(crate) fn tablespace(&self, page: u64) -> usize {
        match self {
            Clients::Tpcc(terminals) => terminals.tablespace(page),
            // All is in the shared one (`innodb_file_per_table=0`).
            Clients::Sysbench(_) => 0,
        }
    }
}
