//! The targets of `fuzz/` compile and run. They are no part of the workspace, for coverage-guided fuzzing needs another compiler. Here each of
//! them is a function, which takes a few random inputs.

// What the targets know as the crate `libfuzzer_sys` is this test.
extern crate self as libfuzzer_sys;
pub use arbitrary;

use std::collections::BTreeSet;
use std::path::Path;

/// Makes a function of a target.
#[macro_export]
macro_rules! fuzz_target {
    (|$bytes:ident: &[u8]| $body:expr) => {
        pub fn target($bytes: &[u8]) {
            $body;
        }
    };
    (|$text:ident: &str| $body:expr) => {
        pub fn target(bytes: &[u8]) {
            let $text = &*String::from_utf8_lossy(bytes);
            $body;
        }
    };
    (init: $init:block, |$bytes:ident: &[u8]| $body:expr) => {
        pub fn target($bytes: &[u8]) {
            $init;
            $body;
        }
    };
}

/// The targets by their names, each as a module of its file.
macro_rules! targets {
    ($($name:ident $path:literal),* $(,)?) => {
        $(
            #[allow(unused_attributes, unused_qualifications, reason = "a target is the root of a program of its own")]
            #[path = $path]
            mod $name;
        )*
        const TARGETS: &[(&str, fn(&[u8]))] = &[$((stringify!($name), $name::target)),*];
    };
}

targets! {
    act "../../../../fuzz/fuzz_targets/act.rs",
    auth "../../../../fuzz/fuzz_targets/auth.rs",
    commands "../../../../fuzz/fuzz_targets/commands.rs",
    disk_state "../../../../fuzz/fuzz_targets/disk_state.rs",
    drive "../../../../fuzz/fuzz_targets/drive.rs",
    drive_toml "../../../../fuzz/fuzz_targets/drive_toml.rs",
    fabric "../../../../fuzz/fuzz_targets/fabric.rs",
    hosts "../../../../fuzz/fuzz_targets/hosts.rs",
    image "../../../../fuzz/fuzz_targets/image.rs",
    job_file "../../../../fuzz/fuzz_targets/job_file.rs",
    nbd "../../../../fuzz/fuzz_targets/nbd.rs",
    pcie "../../../../fuzz/fuzz_targets/pcie.rs",
    tier "../../../../fuzz/fuzz_targets/tier.rs",
    trace "../../../../fuzz/fuzz_targets/trace.rs",
}

#[test]
fn every_target_takes_any_input() {
    let mut rng = rng::Rng::new(1);
    for (name, target) in TARGETS {
        for round in 0..4u64 {
            let input: Vec<u8> = (0..round * 150).map(|_| rng.next_u64() as u8).collect();
            println!("{name}: {} bytes", input.len());
            target(&input);
        }
    }
}

#[test]
fn every_target_is_known_everywhere() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap();
    let files = std::fs::read_dir(root.join("fuzz/fuzz_targets")).unwrap();
    let files: BTreeSet<String> =
        files.map(|file| file.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    let here: BTreeSet<String> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(here, files);
    let manifest: toml::Table = toml::from_str(&read("fuzz/Cargo.toml")).unwrap();
    let programs = manifest["bin"].as_array().unwrap().iter();
    let programs: BTreeSet<String> = programs.map(|bin| bin["name"].as_str().unwrap().to_owned()).collect();
    assert_eq!(programs, files);
    let makefile = read("Makefile");
    let (_, list) = makefile.split_once("for target in ").unwrap();
    let list: BTreeSet<String> = list.split(';').next().unwrap().split(' ').map(str::to_owned).collect();
    assert_eq!(list, files);
}

#[test]
fn the_lock_file_of_the_targets_has_all_dependencies() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap().parse::<toml::Table>().unwrap();
    let lock = read("fuzz/Cargo.lock");
    let workspace = read("Cargo.toml");
    let folders = &workspace["workspace"]["dependencies"];
    let packages = lock["package"].as_array().unwrap().iter();
    // Those that are no registry's.
    let ours = packages
        .filter(|package| package.get("source").is_none() && package["name"].as_str() != Some("fuzz"));
    let mut count = 0;
    for package in ours {
        let name = package["name"].as_str().unwrap();
        let locked = package.get("dependencies").and_then(|all| all.as_array()).into_iter().flatten();
        let locked: BTreeSet<&str> =
            locked.map(|one| one.as_str().unwrap().split(' ').next().unwrap()).collect();
        let manifest = read(&format!("{}/Cargo.toml", folders[name]["path"].as_str().unwrap()));
        let all = manifest.get("dependencies").and_then(|all| all.as_table()).into_iter().flatten();
        // What no target asks for is not locked.
        let is_optional =
            |how: &toml::Value| how.get("optional").and_then(toml::Value::as_bool) == Some(true);
        for (wanted, _) in all.filter(|(_, how)| !is_optional(how)) {
            assert!(locked.contains(wanted.as_str()), "{name} needs {wanted}: run cargo metadata in fuzz/");
        }
        count += 1;
    }
    assert!(count > 8, "{count} crates of the workspace");
}
