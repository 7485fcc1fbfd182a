//! The load of the tests of databases.

use std::time::Duration;

use lab_databases::tpcc::{Database, LoadSettings};
use lab_report::control::Cancel;

/// A few seconds of TPC-C on one warehouse.
pub fn tpcc_load(database: Database, cancel: &Cancel) -> LoadSettings {
    LoadSettings {
        database,
        warehouses: 1,
        threads: 4,
        warmup: Duration::from_millis(500),
        window: Duration::from_secs(4),
        seed: 7,
        cancel: cancel.clone(),
    }
}
