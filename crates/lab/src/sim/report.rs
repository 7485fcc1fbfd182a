//! What is told of runs.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{
    case::{Case, Ran},
    figures,
};
use crate::{results::NamespaceCounts, units};

/// A run for programs: the document of the load's own tool, and beside it what only the simulated drive knows.
pub(super) fn document(case: &Case, ran: &Ran) -> Value {
    let mut document = match &ran.played.document {
        Value::Object(map) => map.clone(),
        _ => serde_json::Map::new(),
    };
    let mut simulation = figures::object(&figures::columns(case, ran));
    simulation.insert("precondition".into(), json!(case.precondition.name()));
    simulation.insert(
        "parameters".into(),
        case.parameters
            .iter()
            .cloned()
            .collect::<std::collections::BTreeMap<_, _>>()
            .into_iter()
            .map(|(name, value)| (name, json!(value)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
    );
    simulation.insert("namespaces".into(), json!(ran.namespaces));
    simulation.insert("peak_memory_bytes".into(), json!(peak_memory()));
    document.insert("simulation".into(), simulation.into());
    document.into()
}

/// A run for people.
pub(super) fn text(case: &Case, ran: &Ran) -> String {
    let mut out = ran.played.text.clone();
    // Writing to a string does not fail.
    let _ = drive(&mut out, case, ran);
    out.truncate(out.trim_end().len());
    out
}

fn drive(out: &mut String, case: &Case, ran: &Ran) -> std::fmt::Result {
    let sum = |of: &dyn Fn(&NamespaceCounts) -> u64| ran.namespaces.iter().map(of).sum::<u64>();
    writeln!(out, "\n\nDrive in virtual time:")?;
    write!(
        out,
        "  time         : {} s simulated in {} s, {} s of a processor",
        units::show(ran.simulated.as_secs_f64()),
        units::show(ran.wall.as_secs_f64()),
        units::show(ran.cpu.as_secs_f64())
    )?;
    match ran.requests_per_cpu_second() {
        Some(rate) => writeln!(out, ": {} requests per processor-second", units::show(rate))?,
        None => writeln!(out)?,
    }
    if case.precondition != super::Precondition::None {
        writeln!(
            out,
            "  before       : preconditioned ({}) in {} s",
            case.precondition.name(),
            units::show(ran.preparation.as_secs_f64())
        )?;
    }
    write!(
        out,
        "  bytes        : host read {}, host wrote {}, NAND programmed {}",
        units::show_size(sum(&|n| n.host_bytes_read)),
        units::show_size(sum(&|n| n.host_bytes_written)),
        units::show_size(ran.nand_bytes_written)
    )?;
    match ran.write_amplification() {
        Some(ratio) => writeln!(out, ", write amplification {ratio:.3}")?,
        None => writeln!(out)?,
    }
    for namespace in ran.namespaces.iter().filter(|n| n.reads + n.writes > 0) {
        for (name, latency) in [("read", &namespace.read_latency_ms), ("write", &namespace.write_latency_ms)]
        {
            if latency.count > 0 {
                writeln!(
                    out,
                    "  {:<5} {name:<6} : {} commands on {}, in the drive mean {} ms, p50 {}, p95 {}, p99 {}, max {}",
                    namespace.name,
                    units::show(latency.count as f64),
                    namespace.medium,
                    units::show(latency.mean),
                    units::show(latency.p50),
                    units::show(latency.p95),
                    units::show(latency.p99),
                    units::show(latency.max)
                )?;
            }
        }
    }
    let memory =
        peak_memory().map_or(String::new(), |bytes| format!(", {} of memory", units::show_size(bytes)));
    writeln!(out, "  run          : seed {}, digest {:016x}{memory}", case.seed, ran.played.digest)
}

/// The most memory that this process has had, in bytes.
pub(super) fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib.saturating_mul(1024))
}
