//! Commands that only look: `id`, `smart`.

use crate::args::{Output, Smart, Target};
use crate::manage::connect;
use crate::{print_json, print_text};
use anyhow::Result;
use host::view;
use serde_json::{Map, Value};

/// Columns, the first one to the left and the others to the right.
pub fn table(heads: &[&str], rows: &[impl AsRef<[String]>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row.as_ref().get(column).map_or(0, String::len));
        cells.chain([heads[column].len()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    let line = |cells: &[String]| {
        let padded = cells.iter().zip(&widths).map(|(cell, &width)| format!("{cell:>width$}"));
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let head: Vec<String> = heads.iter().map(|h| (*h).to_owned()).collect();
    let lines: Vec<String> =
        std::iter::once(line(&head)).chain(rows.iter().map(|r| line(r.as_ref()))).collect();
    lines.join("\n")
}

/// Prints an object: as JSON, or a line for each of its plain values.
fn print(value: &Value, output: Output) -> Result<()> {
    if output == Output::Json {
        return print_json(value);
    }
    let empty = Map::new();
    let plain = value.as_object().unwrap_or(&empty).iter().filter_map(|(key, value)| match value {
        Value::String(text) => Some((key, text.clone())),
        Value::Number(number) => Some((key, number.to_string())),
        Value::Bool(flag) => Some((key, flag.to_string())),
        _ => None,
    });
    let lines: Vec<String> = plain.map(|(key, value)| format!("{key:<36} {value}")).collect();
    print_text(&lines.join("\n"))
}

/// `tranche id`.
pub fn id(target: &Target, output: Output) -> Result<()> {
    let mut host = connect(target)?;
    let identified = host.identify_controller()?;
    print(&serde_json::to_value(view::IdCtrl::from(&identified))?, output)
}

/// `tranche smart`.
pub fn smart(smart: &Smart, output: Output) -> Result<()> {
    let mut host = connect(&smart.target)?;
    let value = match (smart.namespace, smart.set) {
        (Some(nsid), _) => {
            let statistics = host.namespace_statistics(nsid)?;
            let value = serde_json::to_value(view::Statistics::from(&statistics))?;
            if output == Output::Text {
                return print(&flat(&value), output);
            }
            value
        }
        // Every NVM Set is an Endurance Group of its own, with the same number.
        (None, Some(set)) => serde_json::to_value(view::EnduranceLog::from(&host.endurance_group(set)?))?,
        (None, None) => serde_json::to_value(view::SmartLog::from(&host.smart()?))?,
    };
    print(&value, output)
}

/// The plain values of objects inside, under joined names.
fn flat(value: &Value) -> Value {
    let mut all = Map::new();
    for (key, value) in value.as_object().into_iter().flatten() {
        match value {
            Value::Object(inner) => {
                for (name, value) in inner {
                    all.insert(format!("{key}.{name}"), value.clone());
                }
            }
            other => {
                all.insert(key.clone(), other.clone());
            }
        }
    }
    Value::Object(all)
}
