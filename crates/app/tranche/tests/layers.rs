//! The layers of every crate: its files import each other in no circle. In `device` neither the core nor a component imports the drive.
//!
//! A file imports what its paths name: those of `use`, and those in its code that begin with `crate`, `super`, `self` or one of its
//! own modules. A name that another file only passes on (`pub use`) is that of the file which has it. Unit tests do not
//! count, and neither does the root of a crate: it holds the crate together.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Files by their module's path (`core::state`, empty for the root), with their source.
type Sources = BTreeMap<String, String>;

/// What each module imports.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// `a` and `b` as `a::b`; either may be empty.
fn joined(a: &str, b: &str) -> String {
    if a.is_empty() || b.is_empty() { format!("{a}{b}") } else { format!("{a}::{b}") }
}

fn parent(module: &str) -> &str {
    module.rsplit_once("::").map_or("", |(parent, _)| parent)
}

fn read_sources(dir: &Path, path: &str, found: &mut Sources) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let file = entry.unwrap().path();
        let name = file.file_stem().unwrap().to_str().unwrap();
        if file.is_dir() {
            read_sources(&file, &joined(path, name), found);
        } else if file.extension().is_some_and(|e| e == "rs") {
            let module = match name {
                "mod" | "lib" | "main" => path.to_owned(),
                _ => joined(path, name),
            };
            let text = std::fs::read_to_string(&file).unwrap();
            // A crate may have both a library and a program.
            found.entry(module).or_default().push_str(&text);
        }
    }
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// Code without comments, items for tests, and `use super::` of modules within the file.
fn code(text: &str) -> String {
    let mut kept = String::new();
    let mut lines = text.lines().map(|line| line.split("//").next().unwrap().trim_end());
    while let Some(line) = lines.next() {
        if line.trim_start().starts_with("#[cfg(test)]") {
            // rustfmt ends an item at the indent where it began.
            let mut begun = false;
            for of_item in lines.by_ref() {
                let ends = of_item.ends_with([';', '}', ',']) && indent(of_item) == indent(line);
                begun |= !of_item.trim_start().starts_with('#');
                if begun && ends {
                    break;
                }
            }
        } else if indent(line) == 0 || !line.trim_start().starts_with("use super::") {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The paths of a tree of imports: `a::b` and `a::c::d` of `a::{b, c::{d as e}}`. Ends behind the tree.
fn expand(tree: &mut &str, start: &str, found: &mut Vec<String>) {
    let end = tree.find(|c: char| !(is_of_word(c) || c == ':' || c == '*')).unwrap_or(tree.len());
    let (name, rest) = tree.split_at(end);
    let path = joined(start, name.trim_end_matches([':', '*']));
    *tree = rest;
    let Some(mut list) = rest.strip_prefix('{').filter(|_| name.ends_with("::") || name.is_empty()) else {
        return found.push(path);
    };
    loop {
        list = list.trim_start_matches(|c: char| c.is_whitespace() || c == ',');
        if list.is_empty() || list.starts_with('}') {
            break;
        }
        expand(&mut list, &path, found);
        // Another name, as in `a as b`.
        list = list.trim_start_matches(|c: char| c.is_whitespace() || is_of_word(c));
    }
    *tree = list.strip_prefix('}').unwrap_or(list);
}

/// What follows each whole word, and what stands on the line before it.
fn after_word<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
    code.match_indices(word).filter_map(move |(at, _)| {
        let (before, rest) = (&code[..at], &code[at + word.len()..]);
        let is_whole = !before.ends_with(|c: char| is_of_word(c) || c == ':' || c == '.' || c == '$')
            && !rest.starts_with(is_of_word);
        is_whole.then(|| (before.rsplit('\n').next().unwrap(), rest))
    })
}

/// The modules of a file that are compiled for tests only.
fn test_modules(text: &str) -> impl Iterator<Item = &str> {
    let behind = text.split("#[cfg(test)]").skip(1).map(str::trim_start);
    behind.filter_map(|item| item.split(';').next()?.rsplit_once("mod ").map(|(_, name)| name.trim()))
}

/// The modules that a file declares.
fn children(code: &str) -> Vec<String> {
    let declared = after_word(code, "mod").map(|(_, rest)| {
        let rest = rest.trim_start();
        rest[..rest.find(|c| !is_of_word(c)).unwrap_or(rest.len())].to_owned()
    });
    declared.filter(|name| !name.is_empty()).collect()
}

/// The paths that a module's code names, from the root of the crate; and those that it passes on.
fn paths(module: &str, code: &str, is_module: &dyn Fn(&str) -> bool) -> (Vec<String>, Vec<String>) {
    let (mut imported, mut passed_on) = (Vec::new(), Vec::new());
    let mut begins = vec![
        ("crate".to_owned(), String::new()),
        ("super::super".to_owned(), parent(parent(module)).to_owned()),
        ("super".to_owned(), parent(module).to_owned()),
        ("self".to_owned(), module.to_owned()),
    ];
    let own = children(code);
    begins.extend(own.iter().map(|child| (child.clone(), joined(module, child))));
    for (word, base) in begins {
        for (before, rest) in after_word(code, &word) {
            let Some(mut tree) = rest.strip_prefix("::") else { continue };
            let of_use = before.trim_end().ends_with("use");
            if own.contains(&word) && !of_use {
                continue;
            }
            let passes_on = of_use && before.starts_with("pub");
            expand(&mut tree, &base, if passes_on { &mut passed_on } else { &mut imported });
        }
    }
    // What is named through a module that was imported, as in `use crate::a; a::b()`.
    let modules: BTreeSet<String> =
        imported.iter().map(|path| path.trim_end_matches("::self").to_owned()).collect();
    for path in modules.iter().filter(|path| is_module(path)) {
        let name = path.rsplit("::").next().unwrap();
        for (before, rest) in after_word(code, name) {
            if let Some(mut tree) = rest.strip_prefix("::").filter(|_| !before.trim_end().ends_with("use")) {
                expand(&mut tree, path, &mut imported);
            }
        }
    }
    (imported, passed_on)
}

/// Which modules each one imports.
fn graph(sources: &Sources) -> Graph {
    let of_tests = |module: &str| {
        sources.iter().any(|(parent, text)| {
            test_modules(text).any(|child| {
                let child = joined(parent, child);
                module == child || module.starts_with(&format!("{child}::"))
            })
        })
    };
    let counting = sources.iter().filter(|(module, _)| !of_tests(module));
    let code: Sources = counting.map(|(module, text)| (module.clone(), code(text))).collect();
    let paths: BTreeMap<&str, _> = code
        .iter()
        .map(|(module, text)| (&**module, paths(module, text, &|path| code.contains_key(path))))
        .collect();
    // The module that a path leads to. Names that a module passes on lead further.
    let home = |path: &str| {
        let mut path = path.to_owned();
        for _ in 0..8 {
            let mut module = &*path;
            while !code.contains_key(module) && !module.is_empty() {
                module = parent(module);
            }
            let rest = path[module.len()..].trim_start_matches("::");
            let name = rest.split("::").next().unwrap();
            let on = paths.get(module).map_or(&[][..], |(_, on)| on);
            match on.iter().find(|on| !name.is_empty() && on.rsplit("::").next() == Some(name)) {
                Some(on) if *on != path => path = joined(on, rest[name.len()..].trim_start_matches("::")),
                _ => return module.to_owned(),
            }
        }
        panic!("{path} is passed on without an end");
    };
    let imports = |module: &String| {
        let (imported, passed_on) = &paths[&**module];
        // What is passed on is imported, too, where the code says its name once more.
        let used = passed_on.iter().filter(|path| {
            let name = path.rsplit("::").next().unwrap();
            after_word(&code[module], name).filter(|(before, _)| !before.contains("use ")).count() > 0
                && !code[module].contains(&format!("mod {name}"))
        });
        let homes = imported.iter().chain(used).map(|path| home(path));
        homes.filter(|home| home != module && !home.is_empty()).collect()
    };
    code.keys().filter(|module| !module.is_empty()).map(|module| (module.clone(), imports(module))).collect()
}

/// The shortest circle that a module is part of, if there is one.
fn circle(from: &str, graph: &Graph) -> Option<Vec<String>> {
    let mut ways = std::collections::VecDeque::from([vec![from.to_owned()]]);
    let mut seen = BTreeSet::new();
    while let Some(way) = ways.pop_front() {
        for next in graph.get(way.last().unwrap()).into_iter().flatten() {
            let longer = [&way[..], std::slice::from_ref(next)].concat();
            if next == from {
                return Some(longer);
            }
            if seen.insert(next.clone()) {
                ways.push_back(longer);
            }
        }
    }
    None
}

fn circles(graph: &Graph) -> Vec<String> {
    graph.keys().filter_map(|module| circle(module, graph)).map(|circle| circle.join(" -> ")).collect()
}

/// A crate of the workspace.
struct Crate {
    /// The folder that it is in.
    floor: String,
    name: String,
    /// The crates that it depends on, without those of its tests.
    dependencies: Vec<String>,
    folder: PathBuf,
}

fn workspace() -> Vec<Crate> {
    let floors = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let within = |folder: PathBuf| std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let folders = within(floors).filter(|floor| floor.is_dir()).flat_map(within);
    let with_manifest = folders.filter(|folder| folder.join("Cargo.toml").exists());
    let read = |folder: PathBuf| {
        let manifest: toml::Table =
            std::fs::read_to_string(folder.join("Cargo.toml")).unwrap().parse().unwrap();
        let dependencies = manifest.get("dependencies").and_then(|all| all.as_table());
        Crate {
            floor: folder.parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned(),
            name: manifest["package"]["name"].as_str().unwrap().to_owned(),
            dependencies: dependencies.into_iter().flat_map(|all| all.keys().cloned()).collect(),
            folder,
        }
    };
    with_manifest.map(read).collect()
}

/// The sources of each crate of the workspace.
fn crates() -> BTreeMap<String, Sources> {
    let sources = |of: Crate| {
        let mut sources = Sources::new();
        read_sources(&of.folder.join("src"), "", &mut sources);
        (of.name, sources)
    };
    workspace().into_iter().map(sources).collect()
}

/// The folders of `crates`, from the top down. A crate knows those of its own folder, and of folders further down; not those of one beside it.
const FLOORS: [&[&str]; 6] = [&["app"], &["attach", "lab"], &["serve"], &["loads"], &["link"], &["core"]];

#[test]
fn floors_depend_on_those_below() {
    let workspace = workspace();
    let floor_of = |name: &str| workspace.iter().find(|of| of.name == name).map(|of| &*of.floor);
    let depth = |floor: &str| FLOORS.iter().position(|floors| floors.contains(&floor)).expect(floor);
    for of in &workspace {
        for floor in of.dependencies.iter().filter_map(|name| floor_of(name)) {
            let is_below = depth(floor) > depth(&of.floor);
            assert!(is_below || floor == of.floor, "{} of {} knows a crate of {floor}", of.name, of.floor);
        }
    }
}

/// The crates of the workspace that a crate links.
fn linked(name: &str, workspace: &[Crate]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut names = vec![name];
    while let Some(of) = names.pop().and_then(|name| workspace.iter().find(|of| of.name == name)) {
        for name in &of.dependencies {
            if workspace.iter().any(|of| of.name == *name) && found.insert(name.clone()) {
                names.push(name);
            }
        }
    }
    found
}

#[test]
fn a_live_drive_links_no_load() {
    let workspace = workspace();
    let live = linked("live", &workspace);
    assert!(live.contains("image") && live.contains("blockdev"), "{live:?}");
    assert!(!live.contains("sim") && !live.contains("workload"), "{live:?}");
    let image = linked("image", &workspace);
    assert!(image.contains("device"), "{image:?}");
    for above in ["live", "host", "fabric", "tls", "peers", "blockdev"] {
        assert!(!image.contains(above), "{image:?}");
    }
    for (module, text) in &crates()["live"] {
        let mut named = Vec::new();
        for (_, rest) in after_word(&code(text), "blockdev") {
            expand(&mut rest.trim_start_matches(':'), "", &mut named);
        }
        assert!(!named.iter().any(|path| path.starts_with("stack")), "{module} knows layers of devices");
    }
}

/// What stands between backticks in a text, without what follows `::`.
fn quoted(text: &str) -> BTreeSet<&str> {
    text.split('`').skip(1).step_by(2).map(|name| name.split("::").next().unwrap()).collect()
}

#[test]
fn the_table_of_crates_is_that_of_the_manifests() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let page = std::fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let table = page.split("| crate | is | knows |").nth(1).expect("a table of crates");
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let rows: BTreeMap<&str, &str> = rows
        .map(|row| {
            let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
            (cells[0].trim_matches('`'), cells[2])
        })
        .collect();
    let workspace = workspace();
    let names: BTreeSet<&str> = workspace.iter().map(|of| &*of.name).collect();
    assert_eq!(rows.keys().copied().collect::<BTreeSet<_>>(), names);
    for of in &workspace {
        let known = of.dependencies.iter().map(|name| &**name);
        let known: BTreeSet<&str> = known.filter(|name| names.contains(name)).collect();
        let told = rows[&*of.name];
        assert!(told == "everything" || quoted(told) == known, "{} knows {known:?}, not {told}", of.name);
    }
}

#[test]
fn no_files_import_each_other_in_a_circle() {
    let crates = crates();
    assert!(crates.len() > 12, "{:?}", crates.keys());
    let device = graph(&crates["device"]);
    assert!(device["drive"].contains("core::state") && device["core::completion"].contains("core::state"));
    for (name, sources) in &crates {
        let graph = graph(sources);
        assert!(circles(&graph).is_empty(), "{name}: {:#?}", circles(&graph));
    }
}

#[test]
fn only_the_drives_own_files_import_the_drive() {
    for (module, imports) in graph(&crates()["device"]) {
        let own = module.starts_with("drive") || ["persist", "fixture"].contains(&&*module);
        assert!(own || !imports.iter().any(|i| i == "drive" || i.starts_with("drive::")), "{module}");
    }
}

#[test]
fn policies_of_the_tier_know_no_devices() {
    let tier = graph(&crates()["tier"]);
    let policies = tier.iter().filter(|(module, _)| module.starts_with("policy"));
    let known: BTreeSet<&str> = policies.flat_map(|(_, imports)| imports).map(|import| &**import).collect();
    assert!(known.contains("policy::entries"), "{known:?}");
    let outside: Vec<&str> = known.into_iter().filter(|import| !import.starts_with("policy")).collect();
    assert_eq!(outside, ["chunk", "config"]);
}

/// A made-up crate.
fn made_up(files: &[(&str, &str)]) -> Graph {
    graph(&files.iter().map(|(module, text)| ((*module).to_owned(), (*text).to_owned())).collect())
}

#[test]
fn a_circle_is_found() {
    let a = ("a", "use std::{io, fmt};\nuse crate::{b::{B, self}, d};");
    let b = ("b", "fn f() -> super::c::C { todo!() }");
    let c = ("c", "use crate::a::A as Other;");
    let graph = made_up(&[a, b, c, ("d", "")]);
    assert_eq!(graph["a"], BTreeSet::from(["b".to_owned(), "d".to_owned()]));
    assert_eq!(circles(&graph), ["a -> b -> c -> a", "b -> c -> a -> b", "c -> a -> b -> c"]);
    assert!(circles(&made_up(&[a, b, ("c", "// use crate::a::A;"), ("d", "")])).is_empty());
}

#[test]
fn what_is_called_through_an_imported_module_leads_to_its_file() {
    let passed_on = [("m", "mod x;\npub use x::f;"), ("m::x", "pub fn f() {}")];
    for text in ["use crate::m;\nfn g() { m::f() }", "use crate::m::{self, T};\nfn g() { m::f() }"] {
        let graph = made_up(&[passed_on[0], passed_on[1], ("user", text)]);
        assert!(graph["user"].contains("m::x"), "{text}: {graph:?}");
    }
}

#[test]
fn names_that_are_passed_on_lead_to_the_file_that_has_them() {
    let root = ("", "mod a;\nmod m;\npub use m::X;");
    let parent = ("m", "mod x;\nmod y;\npub use x::X;");
    let user = ("m::y", "use super::X;\nuse crate::a;");
    let graph = made_up(&[root, parent, ("m::x", "pub struct X;"), user, ("a", "use crate::X;")]);
    assert_eq!(graph["m::y"], BTreeSet::from(["a".to_owned(), "m::x".to_owned()]));
    assert_eq!(graph["a"], BTreeSet::from(["m::x".to_owned()]));
    assert!(graph["m"].is_empty() && circles(&graph).is_empty());
    // The parent's own code uses it, and the child something of the parent.
    let parent = ("m", "mod x;\nmod y;\npub use x::X;\npub struct P(X);");
    let circle = made_up(&[root, parent, ("m::x", "use super::P;"), ("m::y", ""), ("a", "")]);
    assert_eq!(circles(&circle), ["m -> m::x -> m", "m::x -> m -> m::x"]);
}

#[test]
fn tests_do_not_count() {
    let a = ("a", "pub struct A;\n#[cfg(test)]\nmod tests {\n    use crate::b::B;\n}\n");
    let b = ("b", "use crate::a::A;\n#[cfg(test)]\nmod fixture;\n");
    assert!(circles(&made_up(&[a, b, ("b::fixture", "use crate::b::B;\nuse crate::a::A;")])).is_empty());
    let behind = ("a", "#[cfg(test)]\nmod tests {\n    use crate::b::B;\n}\nuse crate::b::B;\n");
    assert_eq!(circles(&made_up(&[behind, b])).len(), 2);
}
