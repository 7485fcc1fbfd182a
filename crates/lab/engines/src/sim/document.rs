//! A run for programs.

use serde_json::{Map, Value, json};

use super::{
    case::{Case, RunResult},
    figures,
};
use lab_report::{memory, sheet::NamedCell as Column};

/// The document of the load's own tool, and beside it what only the simulated drive knows: the run's columns and warnings among it.
pub(super) fn document(case: &Case, ran: &RunResult, columns: &[Column], warnings: &[String]) -> Value {
    let mut document = match &ran.played.document {
        Value::Object(map) => map.clone(),
        _ => Map::new(),
    };
    let mut simulation = figures::object(columns);
    simulation.insert("parameters".into(), parameters(case));
    simulation.insert("namespaces".into(), json!(ran.namespaces));
    simulation.insert("warnings".into(), json!(warnings));
    simulation.insert("peak_memory_bytes".into(), json!(memory::peak()));
    document.insert("simulation".into(), simulation.into());
    document.into()
}

/// A run that failed, for programs.
pub(super) fn failed(case: &Case, columns: &[Column]) -> Value {
    let mut simulation = figures::object(columns);
    simulation.insert("parameters".into(), parameters(case));
    simulation.insert("warnings".into(), json!([]));
    json!({ "simulation": simulation })
}

/// Parameters of a run for programs.
pub(super) fn parameters(case: &Case) -> Value {
    let all = case.parameters.iter().map(|(key, value)| (key.clone(), json!(value)));
    all.collect::<Map<_, _>>().into()
}
