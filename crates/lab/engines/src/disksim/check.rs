//! Puts a trace of a real disk to its model, and says how far the response times are apart.

use std::path::Path;

use anyhow::Result;
use media::Nanos;
use media::disk::service::State;
use schemars::JsonSchema;
use serde::Serialize;

use super::figures::Figures;
use super::spec::{self, Spec};
use super::trace::{self, Measured};
use lab_report::Findings;
use lab_report::terminal::{self, Look};

/// How the figures came about, for programs and people.
const METHOD: &str = "The model is as the parameter files state it. Each request is issued when the model has completed the one before \
                      and the pause of the trace is over.";

/// How far a model of a hard disk is from measured requests of the real one.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Checked {
    /// Name of the disk in its parameter file.
    pub disk: String,
    /// Requests of the trace. All count.
    pub requests: usize,
    /// The figures of the model as the parameter files have it.
    pub stated: Figures,
    /// How these figures came about.
    pub method: &'static str,
    /// What the parameter files say that the model leaves out.
    pub notes: Vec<String>,
    /// Parameters of the files that the model has nothing for, with their places.
    pub unknown: Vec<String>,
}

/// Reads a disk and a trace, and compares the model with it.
///
/// # Errors
/// A file cannot be read or is no such file.
pub fn check(disk: &Path, trace: &Path) -> Result<Findings<Checked>> {
    let mut spec = spec::read(disk)?;
    let mut requests = trace::read(trace, spec.blocks)?;
    let beyond = trace::move_back(&mut requests, spec.model.mechanism.geometry.blocks());
    if beyond > 0 {
        spec.notes.push(format!("{beyond} requests are behind the last zone, and are modelled at its end"));
    }
    let results = compare(&spec, &requests);
    let text = text(&results);
    Ok(Findings { results, written: None, text, failure: None })
}

/// Compares a disk with what was measured of it.
pub(super) fn compare(spec: &Spec, requests: &[Measured]) -> Checked {
    Checked {
        disk: spec.name.clone(),
        requests: requests.len(),
        stated: Figures::of(&response_times(spec, requests)),
        method: METHOD,
        notes: spec.notes.clone(),
        unknown: spec.unknown.clone(),
    }
}

/// Measured and modelled response times in nanoseconds. Each request is issued when the model has completed the one before, and the pause is over.
fn response_times(spec: &Spec, requests: &[Measured]) -> Vec<(u64, u64)> {
    let (model, mut state) = (&spec.model, State::new(spec.cache));
    let mut now = Nanos::ZERO;
    requests
        .iter()
        .map(|r| {
            let plan = model.plan(&state, now, r.op, r.block, r.count);
            model.commit(&mut state, &plan);
            let took = plan.complete.since(now);
            now = plan.complete + r.think;
            (r.response.0, took.0)
        })
        .collect()
}

fn text(c: &Checked) -> String {
    let head = ["mean", "measured", "off", "demerit", "error of a request"].map(str::to_owned);
    let f = &c.stated;
    let off = (f.model_mean_ms / f.measured_mean_ms - 1.0) * 100.0;
    let row = [
        ms(f.model_mean_ms),
        ms(f.measured_mean_ms),
        format!("{off:+.2} %"),
        ms(f.demerit_ms),
        ms(f.rms_request_error_ms),
    ];
    let mut lines = vec![
        format!("{}, {} requests one at a time", c.disk, c.requests),
        terminal::table(Look::default(), &head, &[row.to_vec()]).trim_end().to_owned(),
        METHOD.to_owned(),
    ];
    lines.extend(c.notes.iter().map(|note| format!("Note: {note}.")));
    if !c.unknown.is_empty() {
        lines.push(format!("Unknown to the model: {}.", c.unknown.join(", ")));
    }
    lines.join("\n")
}

fn ms(value: f64) -> String {
    format!("{value:.3} ms")
}
