//! Makes a table of the page's files (`page/dist`), which the library has in itself.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn files(dir: &Path, found: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    for entry in entries {
        let path = entry.expect("an entry of the directory").path();
        if path.is_dir() { files(&path, found) } else { found.push(path) }
    }
}

fn content_type(path: &Path) -> &'static str {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("html") => "text/html; charset=utf-8",
        Some("js" | "mjs") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("ico") => "image/x-icon",
        Some("woff2") => "font/woff2",
        Some("json" | "map") => "application/json",
        Some("webmanifest") => "application/manifest+json",
        Some("txt") => "text/plain; charset=utf-8",
        _ => panic!("{}: build.rs does not know what type it has", path.display()),
    }
}

fn main() {
    let root = Path::new(&env::var("CARGO_MANIFEST_DIR").expect("cargo says where")).join("page/dist");
    println!("cargo:rerun-if-changed={}", root.display());
    let mut found = Vec::new();
    files(&root, &mut found);
    found.sort();
    let mut table = String::from("&[\n");
    for path in found {
        let name = path.strip_prefix(&root).expect("below it").to_str().expect("a name in UTF-8");
        let (file, kind) = (path.to_str().expect("a path in UTF-8"), content_type(&path));
        println!("cargo:rerun-if-changed={file}");
        writeln!(
            table,
            "    Asset {{ path: {:?}, content_type: {kind:?}, bytes: include_bytes!({file:?}) }},",
            format!("/{name}")
        )
        .expect("memory");
    }
    table.push_str("]\n");
    let out = Path::new(&env::var("OUT_DIR").expect("cargo says where")).join("assets.rs");
    fs::write(out, table).expect("the table is written");
}
