//! Puts a trace of a real disk to its model, and says how far the response times are apart.

use std::path::Path;

use anyhow::Result;
use media::Nanos;
use media::disk::service::State;
use serde::Serialize;

use super::calibrate::{Calibrated, Learned, Pause};
use super::figures::Figures;
use super::spec::{self, Spec};
use super::trace::{self, Measured};
use crate::Findings;
use crate::terminal::{self, Look};

/// How the figures came about, for programs and people.
const METHOD: &str = "Each request is issued at the time at which it was issued to the real disk, and predicted from the parameter \
                      files and the requests before it. Then the model hears how long it took.";

/// What a check found.
#[derive(Clone, Debug, Serialize)]
pub struct Checked {
    /// Name of the disk in its parameter file.
    pub disk: String,
    /// Requests of the trace. All count, the first ones too.
    pub requests: usize,
    /// The figures of the model that learns from the requests before.
    #[serde(flatten)]
    pub figures: Figures,
    /// How these figures came about.
    pub method: &'static str,
    /// What the model had learned at the end.
    pub learned: Learned,
    /// The figures of the model as the parameter files have it. It learns nothing, and issues each request when it has completed the one before
    /// and the pause is over.
    pub stated: Figures,
    /// What the parameter files say that the model leaves out.
    pub notes: Vec<String>,
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
    let mut model = Calibrated::new(spec);
    let pairs: Vec<(u64, u64)> = requests
        .iter()
        .map(|request| {
            let predicted = model.predict(request);
            model.learn(request);
            (request.response.0, predicted.0)
        })
        .collect();
    Checked {
        disk: spec.name.clone(),
        requests: requests.len(),
        figures: Figures::of(&pairs),
        method: METHOD,
        learned: model.learned(),
        stated: Figures::of(&as_stated(spec, requests)),
        notes: spec.notes.clone(),
    }
}

/// Response times of the model as stated. Each request is issued when the model has completed the one before, and the pause is over.
fn as_stated(spec: &Spec, requests: &[Measured]) -> Vec<(u64, u64)> {
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
    let head = ["model", "mean", "measured", "off", "demerit", "error of a request"].map(str::to_owned);
    let row = |name: &str, f: &Figures| {
        let off = (f.model_mean_ms / f.measured_mean_ms - 1.0) * 100.0;
        let mut row =
            vec![name.to_owned(), ms(f.model_mean_ms), ms(f.measured_mean_ms), format!("{off:+.2} %")];
        row.extend([ms(f.demerit_ms), ms(f.rms_request_error_ms)]);
        row
    };
    let rows = [row("learns from the requests before", &c.figures), row("as the files state it", &c.stated)];
    let l = &c.learned;
    let phase = match (l.phase_after, l.pause) {
        (Some(after), Some(pause)) => {
            let pause = if pause == Pause::After { "behind" } else { "before" };
            format!(
                "phase of the platters known after {after} requests, angles of {} of {} zones; pauses lie {pause} the request \
                 of their line",
                l.zones, l.of_zones
            )
        }
        _ => "phase of the platters not found".to_owned(),
    };
    let mut lines = vec![
        format!("{}, {} requests one at a time", c.disk, c.requests),
        terminal::table(Look { text: 1, ..Look::default() }, &head, &rows).trim_end().to_owned(),
        format!(
            "Learned: {:.2} rpm; {phase}; {:.1} us of a block on the bus; {}.",
            l.rpm, l.bus_us, l.firmware
        ),
        METHOD.to_owned(),
    ];
    lines.extend(c.notes.iter().map(|note| format!("Note: {note}.")));
    lines.join("\n")
}

fn ms(value: f64) -> String {
    format!("{value:.3} ms")
}
