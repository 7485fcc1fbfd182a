//! What all rooms of the laboratory share.
//!
//! - Results: [`results`] are variants with their runs, and [`tables`] makes tables of typed columns ([`sheet`]) of them. [`pieces`] runs
//!   the pieces of a study, [`agree`] compares two ways to the same figure, and [`counters`] and [`cpu`] are what drives and processors count.
//! - Reports: [`report`] writes the page with its charts, [`figure`] and [`terminal`] are numbers and tables for people.
//! - Work: [`control`] cancels it and shows its progress, [`parallel`] runs its pieces on all processors, [`memory`] says what may be planned with.
//! - Input: [`profile`] has the drives, [`scaled_drive`] makes smaller ones of them, [`input`] reads files, and [`misuse!`] is the error of what makes no sense.
//!
//! The rooms above stand on this one, each on those before it: `lab-engines` (loads on drives), `lab-models` (modelled databases), `lab-databases` (real ones, on
//! served drives), `lab-studies`, and `lab-advise`. No study imports another. All are libraries: they print nothing and handle no signal.

pub mod agree;
pub mod control;
pub mod counters;
pub mod cpu;
pub mod figure;
pub mod input;
pub mod limits;
pub mod memory;
mod misuse;
pub mod options;
pub mod parallel;
pub mod percentiles;
pub mod pieces;
mod processors;
pub mod profile;
pub mod report;
pub mod results;
pub mod scaled_drive;
pub mod sheet;
pub mod tables;
pub mod terminal;

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
