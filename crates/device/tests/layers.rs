//! The layers of this crate: its files import each other in no circle, and neither the core nor a component imports the drive.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The source of each module, by its path: `core::state`.
fn modules(dir: &Path, path: &str, found: &mut BTreeMap<String, String>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let file = entry.unwrap().path();
        let name = file.file_stem().unwrap().to_str().unwrap();
        let inner = if path.is_empty() { name.to_owned() } else { format!("{path}::{name}") };
        if file.is_dir() {
            modules(&file, &inner, found);
        } else if file.extension().is_some_and(|e| e == "rs") && name != "lib" {
            let module = if name == "mod" { path.to_owned() } else { inner };
            found.insert(module, std::fs::read_to_string(&file).unwrap());
        }
    }
}

/// What a module's code says, without comments, unit tests, and modules within the file.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests").next().unwrap();
    let lines = text.lines().map(|line| line.split("//").next().unwrap());
    lines.filter(|line| !line.trim_start().starts_with("use super::") || line.starts_with("use")).collect()
}

/// The names behind a path's beginning: `a::b` and `a::c` of `a::{b, c}`.
fn names(rest: &str) -> Vec<String> {
    let end = rest.find(|c: char| !(c.is_alphanumeric() || "_:".contains(c))).unwrap_or(rest.len());
    let (start, after) = rest.split_at(end);
    let Some(list) = after.strip_prefix('{').and_then(|list| list.split('}').next()) else {
        return vec![start.to_owned()];
    };
    list.split(',').map(|name| format!("{start}{}", name.trim())).collect()
}

/// The modules that a module imports.
fn imports(module: &str, text: &str, all: &BTreeMap<String, String>) -> BTreeSet<String> {
    let code = code(text);
    let parent = module.rsplit_once("::").map_or("", |(parent, _)| parent);
    let mut paths = Vec::new();
    for (word, base) in [("crate::", ""), ("super::", parent), ("use ", module)] {
        for (at, _) in code.match_indices(word) {
            // Not part of a longer word.
            if !code[..at].ends_with(|c: char| c.is_alphanumeric() || "_:".contains(c)) {
                let names = names(&code[at + word.len()..]).into_iter();
                paths
                    .extend(names.map(|name| if base.is_empty() { name } else { format!("{base}::{name}") }));
            }
        }
    }
    let known = |path: String| {
        let mut path = path.as_str();
        while !all.contains_key(path) {
            path = path.rsplit_once("::")?.0;
        }
        Some(path.to_owned())
    };
    paths.into_iter().filter_map(known).filter(|found| found != module).collect()
}

/// A circle that a module is part of, if there is one.
fn circle(from: &str, graph: &BTreeMap<String, BTreeSet<String>>) -> Option<Vec<String>> {
    let mut ways = vec![vec![from.to_owned()]];
    let mut seen = BTreeSet::new();
    while let Some(way) = ways.pop() {
        for next in &graph[way.last().unwrap()] {
            let longer = [&way[..], std::slice::from_ref(next)].concat();
            if next == from {
                return Some(longer);
            }
            if seen.insert(next.clone()) {
                ways.push(longer);
            }
        }
    }
    None
}

fn graph() -> BTreeMap<String, BTreeSet<String>> {
    let mut all = BTreeMap::new();
    modules(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), "", &mut all);
    all.iter().map(|(module, text)| (module.clone(), imports(module, text, &all))).collect()
}

#[test]
fn no_files_import_each_other_in_a_circle() {
    let graph = graph();
    assert!(graph["drive"].contains("core") && graph["core::completion"].contains("core::state"));
    let circles: Vec<_> = graph.keys().filter_map(|module| circle(module, &graph)).collect();
    assert!(circles.is_empty(), "{circles:#?}");
}

#[test]
fn only_the_drives_own_files_import_the_drive() {
    for (module, imports) in graph() {
        let own = module.starts_with("drive") || ["persist", "fixture"].contains(&&*module);
        assert!(own || !imports.iter().any(|i| i == "drive" || i.starts_with("drive::")), "{module}");
    }
}
