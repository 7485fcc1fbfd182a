//! `tranche doctor`: what this machine can do, and what mends the rest.

use crate::args::Doctor;
use crate::exit::FailedCheck;
use crate::options::Output;
use crate::{print_json, print_text};
use anyhow::Result;
use lab_databases::doctor::{Ability, Finding, Machine, abilities, examine};
use lab_report::terminal::{self, Look};
use schemars::JsonSchema;
use serde::Serialize;

/// What this machine can do.
#[derive(Serialize, JsonSchema)]
pub struct Examined {
    /// What commands need, one thing after the other.
    findings: Vec<Finding>,
    /// What that is enough for.
    abilities: Vec<Ability>,
}

/// `tranche doctor`.
pub fn doctor(options: &Doctor, output: Output) -> Result<()> {
    let findings = examine(&Machine::default());
    let missing =
        findings.iter().filter(|finding| !finding.ready && options.require.iter().any(|n| n == finding.name));
    let missing: Vec<String> = missing
        .map(|finding| match &finding.mend {
            Some(mend) => format!("{} ({}): {mend}", finding.name, finding.detail),
            None => format!("{} ({})", finding.name, finding.detail),
        })
        .collect();
    let examined = Examined { abilities: abilities(&findings), findings };
    match output {
        Output::Json => print_json(&examined)?,
        Output::Text => print_text(text(&examined).trim_end())?,
    }
    match missing.is_empty() {
        true => Ok(()),
        false => Err(FailedCheck(format!("missing: {}", missing.join("; "))).into()),
    }
}

fn mark(ready: bool) -> String {
    if ready { "yes" } else { "no" }.to_owned()
}

/// What is here, what runs with it, and what mends the rest.
fn text(examined: &Examined) -> String {
    let look = Look { text: 4, ..Look::default() };
    let rows: Vec<_> = examined
        .findings
        .iter()
        .map(|f| vec![f.name.to_owned(), mark(f.ready), f.purpose.to_owned(), f.detail.clone()])
        .collect();
    let mut text = terminal::table(look, &[], &rows);
    let rows: Vec<_> = examined
        .abilities
        .iter()
        .map(|ability| {
            let mut why = match ability.missing.is_empty() {
                true => String::new(),
                false => format!("needs {}", ability.missing.join(", ")),
            };
            if let Some(otherwise) = ability.otherwise {
                why += &format!("; {otherwise}");
            }
            vec![ability.command.to_owned(), mark(ability.ready), why]
        })
        .collect();
    text += "\nWhat runs here:\n";
    text += &terminal::table(Look { text: 3, ..Look::default() }, &[], &rows);
    let mend = |finding: &Finding| Some(vec![finding.name.to_owned(), finding.mend.clone()?]);
    let rows: Vec<_> = examined.findings.iter().filter_map(mend).collect();
    if !rows.is_empty() {
        text += "\nWhat mends the rest:\n";
        text += &terminal::table(Look { text: 2, ..Look::default() }, &[], &rows);
    }
    text
}
