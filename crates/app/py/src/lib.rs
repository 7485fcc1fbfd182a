//! The compiled part of the Python package `tranche`: profiles, loads, simulations and live drives. What Python programs see is in `python/tranche`.

mod drives;
mod error;
mod fault;
mod fleet;
mod given;
mod integer;
mod interrupt;
mod live;
mod load;
mod model;
mod policies;
mod profile;
mod quantity;
mod simulate;
mod study;
mod study_options;
mod table;
mod zones;

use pyo3::prelude::*;

#[pymodule]
mod _tranche {
    #[pymodule_export]
    use super::error::Error;
    #[pymodule_export]
    use super::fleet::{planned, prepare, typed};
    #[pymodule_export]
    use super::live::LiveDrive;
    #[pymodule_export]
    use super::load::Load;
    #[pymodule_export]
    use super::model::{ModelOutcome, innodb, store};
    #[pymodule_export]
    use super::policies::{Candidate, Candidates};
    #[pymodule_export]
    use super::profile::Profile;
    #[pymodule_export]
    use super::quantity::{parse_rate, parse_seconds, parse_size, parse_time};
    #[pymodule_export]
    use super::simulate::{Outcome, simulate};
    #[pymodule_export]
    use super::study::{StudyOutcome, study};
    #[pymodule_export]
    use super::table::Table;
    #[pymodule_export]
    use super::zones::LiveZones;
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
