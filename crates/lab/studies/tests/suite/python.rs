//! `_study_options.py` of the Python package: the options of the studies as typed dictionaries, made from the definition of the command line.

use clap::{Arg, Command, builder::ValueParser};
use lab_studies::sim_option::{Kind, SimOption, options, simulated};
use std::{error::Error, fmt::Write};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../app/py/python/tranche/_study_options.py");

const HEAD: &str = r#""""Options of the studies, as the command line has them. `UPDATE=1 cargo test -p lab-studies --test suite python_options` writes this file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias, TypedDict

from ._arguments import Duration, Path, Rate, Size, WholeSeconds
from ._tranche import Profile

StudyDrive: TypeAlias = Profile | Path
"""A drive: a :class:`Profile`, the name of a built-in one, or the path of a TOML file."""
"#;

fn class(study: &Command) -> String {
    let name = study.get_name();
    format!("{}{}Options", name[..1].to_uppercase(), &name[1..])
}

/// The annotation of an option.
fn annotation(option: &SimOption<'_>) -> String {
    let each = match option.kind {
        Kind::Flag => "bool".to_owned(),
        Kind::Number => "int".to_owned(),
        Kind::Size => "Size".to_owned(),
        Kind::Rate => "Rate".to_owned(),
        Kind::Time => "Duration".to_owned(),
        Kind::Seconds => "WholeSeconds".to_owned(),
        Kind::Drive => "StudyDrive".to_owned(),
        Kind::Name => {
            let names = option.arg.get_possible_values();
            let names: Vec<String> = names.iter().map(|name| format!("\"{}\"", name.get_name())).collect();
            format!("Literal[{}]", names.join(", "))
        }
    };
    if option.is_list { format!("list[{each}]") } else { each }
}

/// The range of a number, in clap's words for one that is out of it; none if the number only has to fit 32 or 64 bits.
fn range(parser: &ValueParser) -> Option<String> {
    let number = Arg::new("number").value_parser(parser.clone());
    let probe = Command::new("probe").no_binary_name(true).arg(number);
    let refused = probe.try_get_matches_from([i64::MAX.to_string()]).err()?;
    let range = refused.source()?.to_string().split_once(" is not in ")?.1.replace("..=", " to ");
    (!range.ends_with(&u32::MAX.to_string())).then_some(range)
}

/// What `--help` says of an option.
fn about(option: &SimOption<'_>) -> String {
    let mut text = option.arg.get_help().map(ToString::to_string).unwrap_or_default();
    if let Some(range) = range(option.arg.get_value_parser()).filter(|_| option.kind == Kind::Number) {
        let _ = write!(text, ": {range}");
    }
    let defaults = option.arg.get_default_values().iter().map(|value| value.to_string_lossy());
    let default = defaults.collect::<Vec<_>>().join(",");
    if !default.is_empty() && option.kind != Kind::Flag {
        let _ = write!(text, " [default: {default}]");
    }
    text
}

fn module() -> String {
    let studies: Vec<Command> = simulated().collect();
    let mut out = HEAD.to_owned();
    for study in &studies {
        let (class, name) = (class(study), study.get_name());
        let _ = write!(
            out,
            "\n\nclass {class}(TypedDict, total=False):\n    \"\"\"Options of the study ``{name}``.\"\"\"\n\n"
        );
        for option in options(study) {
            let (name, kind) = (&option.name, annotation(&option));
            let _ = write!(out, "    {name}: {kind}\n    \"\"\"{}.\"\"\"\n", about(&option));
            for alias in &option.aliases {
                let _ = write!(out, "    {alias}: {kind}\n    \"\"\"Another name of ``{name}``.\"\"\"\n");
            }
        }
    }
    out.push_str("\n\nOPTIONS: Mapping[str, type] = {\n");
    for study in &studies {
        let _ = writeln!(out, "    \"{}\": {},", study.get_name(), class(study));
    }
    out + "}\n"
}

#[test]
fn python_options_are_those_of_the_studies() {
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(FILE, module()).unwrap();
    }
    let found = std::fs::read_to_string(FILE).unwrap_or_default();
    assert!(
        found == module(),
        "{FILE} is old: `UPDATE=1 cargo test -p lab-studies --test suite python_options` writes it"
    );
}
