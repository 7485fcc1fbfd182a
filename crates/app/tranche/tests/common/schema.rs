//! Checks documents that the program prints against the schemas of their types.
#![allow(dead_code, reason = "each test takes what it needs")]

use serde_json::{Value, json};

/// What is wrong with a document, by its schema.
pub fn problems(name: &str, document: &Value) -> Vec<String> {
    let schema = tranche::schemas::schema(name);
    let validator = jsonschema::validator_for(&schema).unwrap_or_else(|e| panic!("{name}: {e}"));
    validator.iter_errors(document).map(|error| format!("{}: {error}", error.instance_path())).collect()
}

/// Holds a document against its schema, which must let no field through that it does not describe.
pub fn check(name: &str, document: &Value) {
    let wrong = problems(name, document);
    assert!(wrong.is_empty(), "schema {name}: {wrong:#?}\n{document:#}");
    // A drive's TOML has its keys elsewhere.
    if document.is_object() && name != "profile-show" {
        let mut more = document.clone();
        more["not in any schema"] = json!(1);
        assert!(!problems(name, &more).is_empty(), "{name} lets fields through that it does not describe");
    }
}
