//! Modelled databases on drives in virtual time.

use database_models::lsm::Placement;
use lab_models::{
    innodb::{Server, ServerTuning, Variant, run as run_server},
    rocksdb::{Overwrites, Reads, Space, Store, StoreTuning, run as run_store},
};
use lab_report::{control::Control, results::Variant as Runs, tables};
use pyo3::{exceptions::PyValueError, prelude::*, types::PyDict};

use crate::{error::failed, given::Given, integer::Whole, interrupt::interruptible, table::Table};

/// What came of a model.
#[pyclass(frozen, module = "tranche")]
pub struct ModelOutcome {
    /// Its runs, as `results.json` of a study has those of a variant.
    #[pyo3(get)]
    document: String,
    /// A row for each run.
    #[pyo3(get)]
    runs: Py<Table>,
    /// A row for each namespace of each run.
    #[pyo3(get)]
    namespaces: Py<Table>,
}

fn outcome(
    py: Python<'_>,
    given: Given<'_>,
    work: impl FnOnce(&lab_engines::sweep::Profiles<'_>, &Control) -> anyhow::Result<Runs> + Send,
) -> PyResult<ModelOutcome> {
    let drives = given.end()?;
    let found = interruptible(py, |control| work(&|name| drives.profile(name), control))?;
    let found = [found.map_err(failed)?];
    Ok(ModelOutcome {
        document: serde_json::to_string(&found[0]).map_err(failed)?,
        runs: Py::new(py, Table::new(&tables::runs(&found))?)?,
        namespaces: Py::new(py, Table::new(&tables::namespaces(&found))?)?,
    })
}

/// The model of an InnoDB server.
#[pyfunction]
#[pyo3(signature = (options, *, seed))]
pub fn innodb(py: Python<'_>, options: &Bound<'_, PyDict>, seed: Whole<u64>) -> PyResult<ModelOutcome> {
    let seed = seed.named("seed")?;
    let mut given = Given::new("the model of InnoDB", options)?;
    let variants = Variant::ALL.map(|variant| (variant.name(), variant));
    let mut model = Server { seed, ..Server::default() };
    given.one("doublewrite", &variants, &mut model.variant)?;
    given.take("connections", &mut model.connections)?;
    given.take("warehouses", &mut model.warehouses)?;
    given.take("buffer_pool", &mut model.buffer_pool)?;
    given.take("aging", &mut model.aging)?;
    given.take("warmup", &mut model.warmup)?;
    given.take("seconds", &mut model.seconds)?;
    given.drive_into("drive", &mut model.drive)?;
    let ServerTuning {
        instances,
        page_cleaners,
        scan_depth,
        io_capacity,
        io_capacity_max,
        dirty_low,
        dirty_high,
        redo_capacity,
        flush_at_commit,
        binlog,
        doublewrite_shards,
        processors,
    } = &mut model.tuning;
    given.maybe("instances", instances)?;
    given.maybe("page_cleaners", page_cleaners)?;
    given.maybe("scan_depth", scan_depth)?;
    given.maybe("io_capacity", io_capacity)?;
    given.maybe("io_capacity_max", io_capacity_max)?;
    given.maybe("dirty_low", dirty_low)?;
    given.maybe("dirty_high", dirty_high)?;
    given.maybe("redo_capacity", redo_capacity)?;
    given.maybe("flush_at_commit", flush_at_commit)?;
    given.maybe("binlog", binlog)?;
    given.maybe("doublewrite_shards", doublewrite_shards)?;
    given.maybe("processors", processors)?;
    outcome(py, given, move |profiles, control| run_server(&model, profiles, control))
}

/// Where a store is.
#[derive(Clone, Copy)]
enum Where {
    Conventional(Space),
    Zones,
}

/// The model of a log-structured store. What is read beside writes comes as threads, limit and seconds.
#[pyfunction]
#[pyo3(signature = (options, *, reads, seed))]
pub fn store(
    py: Python<'_>,
    options: &Bound<'_, PyDict>,
    reads: Vec<(Whole<u32>, Whole<u64>, f64)>,
    seed: Whole<u64>,
) -> PyResult<ModelOutcome> {
    let seed = seed.named("seed")?;
    let mut given = Given::new("the model of a store", options)?;
    let mut model = Store { seed, ..Store::default() };
    let spaces = [
        ("zones", Where::Zones),
        ("conventional-7", Where::Conventional(Space::Spare7)),
        ("conventional-28", Where::Conventional(Space::Spare28)),
    ];
    let placements =
        [("any", Placement::None), ("lifetime", Placement::Lifetime), ("overlap", Placement::Overlap)];
    let (mut space, mut placement, mut dies) = (Where::Zones, Placement::Lifetime, 0);
    given.one("space", &spaces, &mut space)?;
    given.one("placement", &placements, &mut placement)?;
    given.take("zone_dies", &mut dies)?;
    model.space = match space {
        Where::Conventional(space) => space,
        Where::Zones => Space::Zones(dies, placement),
    };
    given.take("keys", &mut model.keys)?;
    given.take("scale", &mut model.scale)?;
    given.nanos("compaction_time", &mut model.compaction_ns)?;
    let (mut overwrites, mut seconds) = (None::<f64>, None::<f64>);
    given.maybe("overwrites", &mut overwrites)?;
    given.maybe("seconds", &mut seconds)?;
    match (overwrites, seconds) {
        (None, None) => {}
        (Some(times), None) if (0.001..=1000.0).contains(&times) => {
            model.overwrites = Overwrites::Keys((times * 1000.0).round() as u64);
        }
        (Some(times), None) => {
            return Err(PyValueError::new_err(format!("overwrites is {times}: 0.001 to 1000 are possible")));
        }
        (None, Some(seconds)) => model.overwrites = Overwrites::Seconds(seconds),
        (Some(_), Some(_)) => {
            return Err(PyValueError::new_err("overwrites and seconds exclude each other"));
        }
    }
    given.drive_into("drive", &mut model.drive)?;
    let StoreTuning {
        write_buffer,
        write_buffers,
        levels,
        level_base,
        multiplier,
        dynamic_levels,
        table,
        trigger,
        compactions,
        rate_limit,
        cache,
        log,
        filters,
        record,
    } = &mut model.tuning;
    given.maybe("write_buffer", write_buffer)?;
    given.maybe("write_buffers", write_buffers)?;
    given.maybe("levels", levels)?;
    given.maybe("level_base", level_base)?;
    given.maybe("multiplier", multiplier)?;
    given.maybe("dynamic_levels", dynamic_levels)?;
    given.maybe("table", table)?;
    given.maybe("trigger", trigger)?;
    given.maybe("compactions", compactions)?;
    given.maybe("rate_limit", rate_limit)?;
    given.maybe("cache", cache)?;
    given.maybe("log", log)?;
    given.maybe("filters", filters)?;
    given.maybe("record", record)?;
    for (threads, limit, seconds) in reads {
        let (readers, write_limit) = (threads.named("threads")?, limit.named("limit")?);
        model.reads.push(Reads { readers, write_limit, seconds });
    }
    outcome(py, given, move |profiles, control| run_store(&model, profiles, control))
}
