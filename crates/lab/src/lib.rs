//! Studies and comparisons with real databases, and loads: on any drive ([`mod@bench`]), or on one in virtual time ([`sim`]).

pub mod advise;
mod agree;
pub mod bench;
pub mod cache;
pub mod compare;
pub mod control;
pub mod counters;
pub mod cpu;
pub mod database;
pub mod datasheet;
mod descendants;
pub mod disksim;
pub mod doctor;
pub mod doublewrite;
pub mod drive;
pub mod figure;
pub mod filesystem;
pub mod fit;
mod gather;
pub mod input;
pub mod layout;
mod layouts;
mod limits;
pub mod machine;
pub mod mariadb;
mod memory;
mod misuse;
pub mod models;
pub mod mounted_drive;
pub mod namespaces;
pub mod oltp;
mod parallel;
mod percentiles;
pub mod postgresql;
pub mod powercut;
pub mod process;
mod processors;
pub mod profile;
pub mod quota;
pub mod report;
pub mod results;
mod scaled_drive;
pub mod scratch;
mod sheet;
pub mod sim;
#[cfg(test)]
#[path = "../../../tests/skipped.rs"]
mod skip;
pub mod stage;
pub mod sweep;
mod sysbench;
pub mod tables;
pub mod terminal;
pub mod tpcc;
pub mod zoned;

pub use misuse::Misuse;

/// What a study or comparison has found, and written into its directory.
#[derive(Clone, Debug)]
pub struct Findings<R> {
    /// For programs; the same as in its JSON file.
    pub results: R,
    /// The directory that the files of the results are in; none if it wrote no files.
    pub written: Option<std::path::PathBuf>,
    /// For people: tables, the answer in a sentence, and where to read more.
    pub text: String,
    /// Why the command that ran it must fail, although it came to its end.
    pub failure: Option<String>,
}
