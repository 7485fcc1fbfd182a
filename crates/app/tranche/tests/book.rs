//! Pages of the book that tests make: the options of all commands, what commands print as JSON, and its schemas.

#[path = "book/json.rs"]
mod json;
#[path = "book/reference.rs"]
mod reference;

use std::path::Path;

/// Writes a generated file into the directory that `make book` names. Without one it is made and dropped.
fn write_generated(name: &str, text: &str) {
    if let Some(directory) = std::env::var_os("TRANCHE_REFERENCE") {
        let file = Path::new(&directory).join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }
}
