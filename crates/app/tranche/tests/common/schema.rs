//! The schemas of `docs/schemas`, which say what commands print with `--output json`.
#![allow(dead_code, reason = "each test takes what it needs")]

use serde_json::{Value, json};

fn read(name: &str) -> Value {
    let path = format!("{}/../../../docs/schemas/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// References to the file of what documents have in common become references within the schema.
fn bundle(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            if let Some(Value::String(target)) = fields.get_mut("$ref") {
                *target = target.replace("common.json#", "#");
            }
            fields.values_mut().for_each(bundle);
        }
        Value::Array(all) => all.iter_mut().for_each(bundle),
        _ => {}
    }
}

/// The names of all schemas of documents.
pub fn names() -> Vec<String> {
    let directory = format!("{}/../../../docs/schemas", env!("CARGO_MANIFEST_DIR"));
    let files = std::fs::read_dir(directory).unwrap();
    let names = files.map(|file| file.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned());
    names.filter(|name| name != "common").collect()
}

/// What is wrong with a document, by its schema.
pub fn problems(name: &str, document: &Value) -> Vec<String> {
    let mut schema = read(name);
    schema["$defs"] = read("common")["$defs"].take();
    bundle(&mut schema);
    let validator = jsonschema::validator_for(&schema).unwrap_or_else(|e| panic!("{name}: {e}"));
    validator.iter_errors(document).map(|error| format!("{}: {error}", error.instance_path())).collect()
}

/// Holds a document against its schema, which must let no field through that it does not describe.
pub fn check(name: &str, document: &Value) {
    let wrong = problems(name, document);
    assert!(wrong.is_empty(), "docs/schemas/{name}.json: {wrong:#?}\n{document:#}");
    // A drive's TOML has its keys elsewhere.
    if document.is_object() && name != "profile-show" {
        let mut more = document.clone();
        more["not in any schema"] = json!(1);
        assert!(!problems(name, &more).is_empty(), "{name} lets fields through that it does not describe");
    }
}
