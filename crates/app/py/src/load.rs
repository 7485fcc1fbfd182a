//! What is put on a simulated drive.

use std::path::PathBuf;

use lab_engines::sim::{Format, LoadFile, TraceForm, TraceOptions};
use load_formats::trace::{self, Fold, Speed};
use nvme::Nsid;
use pyo3::{exceptions::PyValueError, prelude::*};

use crate::{error::failed, integer::Whole, quantity::Size};

/// A load that has been read.
#[pyclass(frozen, module = "tranche")]
pub struct Load(pub LoadFile);

fn format(name: &str) -> PyResult<Format> {
    Ok(match name {
        "fio" => Format::Fio,
        "act" => Format::Act,
        "act-index" => Format::ActIndex,
        "trace" => Format::Trace,
        _ => return Err(PyValueError::new_err(format!("no format {name:?}: fio, act, act-index or trace"))),
    })
}

/// A file. `-`, standard input of the command line, is none.
fn opened(path: PathBuf, format: Option<Format>, trace: &TraceOptions) -> PyResult<Load> {
    if path.as_os_str() == "-" {
        return Err(PyValueError::new_err("a load is a file, and - is none: Load.fio takes a text"));
    }
    LoadFile::open(&path, format, trace).map(Load).map_err(failed)
}

fn speed(factor: f64) -> PyResult<Speed> {
    let wrong = || PyValueError::new_err(format!("speed={factor} is no factor from 0.000001 to 1,000,000"));
    if !(1e-6..=1e6).contains(&factor) {
        return Err(wrong());
    }
    // From 1 to 10^12.
    Speed::from_millionths((factor * 1e6).round() as u64).ok_or_else(wrong)
}

fn trace_format(name: &str) -> PyResult<trace::Format> {
    let names = || trace::Format::ALL.map(trace::Format::name).join(", ");
    let unknown = || PyValueError::new_err(format!("no format {name:?} of traces: {}", names()));
    trace::Format::named(name).ok_or_else(unknown)
}

#[pymethods]
impl Load {
    #[staticmethod]
    #[pyo3(signature = (path, format = None))]
    fn open(path: PathBuf, format: Option<&str>) -> PyResult<Self> {
        opened(path, format.map(self::format).transpose()?, &TraceOptions::default())
    }

    #[staticmethod]
    #[pyo3(signature = (text, name = "job"))]
    fn fio(text: &str, name: &str) -> PyResult<Self> {
        LoadFile::parse(name, Format::Fio, text).map(Self).map_err(failed)
    }

    #[staticmethod]
    #[pyo3(signature = (text, name = "act", *, index = false))]
    fn act(text: &str, name: &str, index: bool) -> PyResult<Self> {
        let format = if index { Format::ActIndex } else { Format::Act };
        LoadFile::parse(name, format, text).map(Self).map_err(failed)
    }

    #[staticmethod]
    #[expect(clippy::too_many_arguments, reason = "options that Python names")]
    #[pyo3(signature = (path, *, speed = None, depth = None, fold = "wrap", devices = None, action = None, block = None, format = None))]
    fn trace(
        path: PathBuf,
        speed: Option<f64>,
        depth: Option<Whole<u32>>,
        fold: &str,
        devices: Option<Vec<(String, Whole<Nsid>)>>,
        action: Option<char>,
        block: Option<Size<u32>>,
        format: Option<&str>,
    ) -> PyResult<Self> {
        let depth = Whole::maybe(depth, "depth")?;
        let device = |(name, nsid): (String, Whole<Nsid>)| Ok((name, nsid.named("devices")?));
        let device = devices.unwrap_or_default().into_iter().map(device).collect::<PyResult<_>>()?;
        let fold = match fold {
            "wrap" => Fold::Wrap,
            "scatter" => Fold::Scatter,
            _ => return Err(PyValueError::new_err(format!("no fold {fold:?}: wrap or scatter"))),
        };
        if speed.is_some() && depth.is_some() {
            return Err(PyValueError::new_err("speed and depth exclude each other"));
        }
        if depth.is_some_and(|depth| !(1..=1 << 20).contains(&depth)) {
            return Err(PyValueError::new_err("depth is from 1 to 1,048,576"));
        }
        let speed = speed.map(self::speed).transpose()?;
        let format = format.map(trace_format).transpose()?;
        let no_action = |letter| PyValueError::new_err(format!("no action {letter:?}: Q, D or N"));
        let action =
            action.map(|letter| trace::Action::of(letter).ok_or_else(|| no_action(letter))).transpose()?;
        let block_bytes = Size::maybe(block, "block")?;
        opened(
            path,
            Some(Format::Trace),
            &TraceOptions { speed, depth, fold, device, form: TraceForm { action, block_bytes, format } },
        )
    }

    #[getter]
    fn source(&self) -> &str {
        self.0.source()
    }

    fn __repr__(&self) -> String {
        format!("<tranche.Load {}>", self.source())
    }
}
