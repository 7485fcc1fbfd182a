//! `json.md` of the book, and the schemas that it links to: what commands print with `--output json`.
//!
//! The test program `json` checks what the program prints against the schemas.

use crate::write_generated;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write;
use tranche::schemas::{names, schema, shared, target};

const INTRODUCTION: &str = r#"# JSON that commands print

What every command prints with `--output json`: each field with its type, its unit, and when it is absent or null. Generated from the
[schemas](#schemas).

- A command prints one document on standard output. `tranche serve` prints its own when it is ready, and goes on. So do `tranche ui`, and `tranche demo`, which prints a second one at its end.
- An error is [one object](#an-error) in the last line of standard error. A command whose check fails prints its document as well.
- `tranche completions` prints a script. `--output` does not change that.
- `results` is the file or the directory that the command has written. For people the same stands in the last line of standard error:
  `results: PATH`.
- Where nvme-cli has the same command, keys and units are those of nvme-cli 2, and flags are numbers with the bits of the NVMe
  specification. Numbers of 128 bits are plain numbers.
- In the tables `a.b` is the field `b` of the object `a`, and `a[]` is an item of the array `a`. `a.*` is any field of the object `a`. The
  names of such fields differ from case to case. A field without remark is always there, and never null.

## Schemas

Each part links to its JSON Schema (draft 2020-12). `additionalProperties` is false wherever the fields are known, so a field that is not
described here fails a test of this project. The words `unit`, `absent` and `null` in them say the same as the tables here.
"#;

fn words<'a>(schema: &'a Value, key: &str) -> &'a str {
    schema[key].as_str().unwrap_or_default()
}

/// The choices of a schema, without null.
fn choices(schema: &Value) -> Vec<&Value> {
    let all = schema["anyOf"].as_array().into_iter().flatten();
    all.filter(|choice| choice["type"] != "null").collect()
}

/// The schema of what is inside: of the items of an array, or of one of the fields of any name; and how its path goes on.
fn inside(schema: &Value) -> Option<(&'static str, &Value)> {
    if schema["items"].is_object() {
        return Some(("[]", &schema["items"]));
    }
    let any = &schema["additionalProperties"];
    any.is_object().then_some((".*", any))
}

/// Whether a value of the schema may be null.
fn may_be_null(schema: &Value) -> bool {
    let any = schema["anyOf"].as_array().is_some_and(|all| all.iter().any(|one| one["type"] == "null"));
    any || schema["type"].as_array().is_some_and(|all| all.iter().any(|name| name == "null"))
}

fn type_of(schema: &Value) -> String {
    if let Some(name) = target(schema) {
        return format!("[{name}](#{})", name.to_ascii_lowercase());
    }
    let mut names: Vec<String> = choices(schema).into_iter().map(type_of).collect();
    if schema["anyOf"].as_array().is_some_and(|all| all.iter().any(|one| one["type"] == "null")) {
        names.push("null".to_owned());
    }
    match &schema["type"] {
        Value::String(name) => names.push(name.clone()),
        Value::Array(all) => names.extend(all.iter().filter_map(Value::as_str).map(str::to_owned)),
        // Choices, each with its meaning.
        _ if schema["oneOf"].is_array() => names.push("string".to_owned()),
        _ => {}
    }
    let of = inside(schema).map(|(_, inner)| format!(" of {}", type_of(inner))).unwrap_or_default();
    if let Some(first) = names.first_mut() {
        first.push_str(&of);
    }
    names.join(" or ")
}

fn row(path: &str, schema: &Value, out: &mut String) {
    let mut meaning = words(schema, "description").to_owned();
    if let Some(values) = schema["enum"].as_array() {
        let values: Vec<String> =
            values.iter().map(|value| format!("`{}`", value.as_str().unwrap())).collect();
        let _ = write!(meaning, " One of {}.", values.join(", "));
    }
    for value in schema["oneOf"].as_array().into_iter().flatten() {
        let _ = write!(meaning, " `{}`: {}", words(value, "const"), words(value, "description"));
    }
    for (key, what) in [("null", "Null"), ("absent", "Absent")] {
        if !words(schema, key).is_empty() {
            let _ = write!(meaning, " {what}: {}.", words(schema, key));
        }
    }
    let cells = [format!("`{path}`"), type_of(schema), words(schema, "unit").to_owned(), meaning];
    let _ = writeln!(out, "| {} |", cells.map(|cell| cell.replace('|', "\\|")).join(" | "));
}

/// The rows of an object's fields, and of what is inside them.
fn fields(prefix: &str, schema: &Value, out: &mut String) {
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let path = match prefix {
            "" => name.clone(),
            prefix => format!("{prefix}.{name}"),
        };
        row(&path, field, out);
        deeper(&path, field, out);
    }
    if let Some((way, inner)) = inside(schema).filter(|_| prefix.is_empty()) {
        let path = way.trim_start_matches('.');
        row(path, inner, out);
        deeper(path, inner, out);
    }
}

fn deeper(path: &str, schema: &Value, out: &mut String) {
    fields(path, schema, out);
    choices(schema).into_iter().for_each(|choice| fields(path, choice, out));
    if let Some((way, inner)) = inside(schema) {
        deeper(&format!("{path}{way}"), inner, out);
    }
}

fn table(schema: &Value, out: &mut String) {
    let mut rows = String::new();
    fields("", schema, &mut rows);
    if !rows.is_empty() {
        let _ = write!(out, "\n| field | type | unit | meaning |\n|---|---|---|---|\n{rows}");
    }
}

fn page() -> String {
    let mut out = INTRODUCTION.to_owned();
    for name in names() {
        let schema = schema(name);
        let commands: Vec<&str> =
            schema["commands"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        let first = words(&schema, "title");
        let title = first[..1].to_uppercase() + &first[1..];
        let title = if name == "error" { title } else { first.to_owned() };
        let _ = write!(out, "\n## {title}\n\n");
        if commands.len() > 1 {
            let others: Vec<String> = commands.iter().map(|command| format!("`{command}`")).collect();
            let _ = write!(out, "The same for {}.\n\n", others.join(", "));
        }
        let _ =
            writeln!(out, "{} Schema: [{name}.json](schemas/{name}.json).", words(&schema, "description"));
        table(&schema, &mut out);
        let choices = choices(&schema);
        for choice in &choices {
            let _ = write!(out, "\n{}\n", words(choice, "description"));
            table(choice, &mut out);
        }
    }
    out.push_str("\n## What several documents have in common\n");
    for (name, schema) in shared() {
        let _ = write!(out, "\n### {name}\n\n{}\n", words(schema, "description"));
        table(schema, &mut out);
    }
    out
}

#[test]
fn the_page_has_every_schema() {
    let page = page();
    assert!(names().all(|name| page.contains(&format!("(schemas/{name}.json)"))));
    write_generated("json.md", &page);
    for name in names() {
        let text = serde_json::to_string_pretty(&schema(name)).unwrap();
        write_generated(&format!("schemas/{name}.json"), &text);
    }
}

/// Every schema of the tree, with its place.
fn walk(place: &str, schema: &Value, visit: &mut dyn FnMut(&str, &Value)) {
    visit(place, schema);
    for (key, inner) in schema.as_object().into_iter().flatten() {
        let place = format!("{place}/{key}");
        match (key.as_str(), inner) {
            ("properties" | "patternProperties" | "$defs", Value::Object(all)) => {
                all.iter().for_each(|(name, inner)| walk(&format!("{place}/{name}"), inner, visit));
            }
            ("anyOf" | "prefixItems", Value::Array(all)) => {
                all.iter().for_each(|inner| walk(&place, inner, visit))
            }
            ("items" | "additionalProperties", Value::Object(_)) => walk(&place, inner, visit),
            _ => {}
        }
    }
}

#[test]
fn schemas_describe_every_field_and_let_no_other_through() {
    for name in names() {
        walk(name, &schema(name), &mut |place, schema| {
            let Some(properties) = schema["properties"].as_object() else { return };
            assert_eq!(schema["additionalProperties"], false, "{place}");
            let required: BTreeSet<&str> =
                schema["required"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
            for (field, of) in properties {
                let place = format!("{place}: {field}");
                assert!(!words(of, "description").is_empty(), "{place} has no description");
                assert_eq!(
                    required.contains(field.as_str()),
                    of["absent"].is_null(),
                    "{place}: absent when?"
                );
                assert_eq!(may_be_null(of), !of["null"].is_null(), "{place}: null when?");
            }
        });
    }
}

#[test]
fn every_command_has_a_schema() {
    let described: BTreeSet<String> = names()
        .flat_map(|name| schema(name)["commands"].as_array().unwrap().clone())
        .map(|command| command.as_str().unwrap().to_owned())
        .collect();
    // Parts of a command that print the same are described once.
    let has = |path: &str| described.iter().any(|one| one == path || path.starts_with(&format!("{one} ")));
    fn leaves(path: &str, command: &clap::Command, found: &mut Vec<String>) {
        let mut below = command.get_subcommands().filter(|sub| sub.get_name() != "help").peekable();
        if below.peek().is_none() {
            found.push(path.to_owned());
        }
        below.for_each(|sub| leaves(&format!("{path} {}", sub.get_name()), sub, found));
    }
    let mut found = Vec::new();
    leaves("tranche", &tranche::command(), &mut found);
    let without: Vec<_> = found.into_iter().filter(|path| !has(path)).collect();
    assert_eq!(without, ["tranche completions"]);
}
