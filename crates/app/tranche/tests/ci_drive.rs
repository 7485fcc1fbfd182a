//! Drives for jobs of CI systems: `scripts/ci-drive.sh`, and the steps of the GitHub Action, which run it.

mod common;

use common::{SMALL_DRIVE, TRANCHE, at, repository, text};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};

fn script(name: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(repository().join("scripts").join(name));
    command.args(arguments).env("TRANCHE", TRANCHE).env_remove("TRANCHE_ON");
    command
}

/// A drive in a directory, which is stopped when a test fails, too.
struct Drive {
    dir: String,
    variables: BTreeMap<String, String>,
}

impl Drive {
    fn start(dir: String, attach: &str, options: &[&str]) -> Self {
        let arguments = [&["start", "-d", &dir, "-a", attach], options].concat();
        // Options may name files beside the directory.
        let beside = Path::new(&dir).parent().unwrap();
        let started = script("ci-drive.sh", &arguments).current_dir(beside).output().unwrap();
        assert!(started.status.success(), "{}", text(&started.stderr));
        let variables = variables(&text(&started.stdout));
        assert_eq!(variables.keys().collect::<Vec<_>>(), ["ATTACHED", "DEVICE", "TRANCHE_DIR", "TRANCHE_ON"]);
        assert_eq!(variables["ATTACHED"], attach);
        Drive { dir, variables }
    }

    fn stop(&self) -> Output {
        script("ci-drive.sh", &["stop", "-d", &self.dir]).output().unwrap()
    }
}

impl Drop for Drive {
    fn drop(&mut self) {
        let _ = self.stop();
    }
}

/// Lines `NAME=VALUE`.
fn variables(lines: &str) -> BTreeMap<String, String> {
    let pair = |line: &str| line.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    lines.lines().map(|line| pair(line).unwrap_or_else(|| panic!("{line}"))).collect()
}

/// Writes through the device, and reads it again.
fn use_device(device: &str) {
    let written: Vec<u8> = (0..8192u32).map(|n| (n % 251) as u8).collect();
    let file = std::fs::File::options().read(true).write(true).open(device).unwrap();
    let mut read = vec![0; written.len()];
    std::os::unix::fs::FileExt::write_all_at(&file, &written, 4096).unwrap();
    file.sync_all().unwrap();
    std::os::unix::fs::FileExt::read_exact_at(&file, &mut read, 4096).unwrap();
    assert!(read == written, "{device} gives other bytes than it took");
}

#[test]
fn a_job_without_root_has_a_drive() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("small.toml"), SMALL_DRIVE).unwrap();
    let drive = Drive::start(at(dir.path(), "d"), "none", &["--timing", "off", "--drive", "small.toml"]);
    assert_eq!(drive.variables["DEVICE"], "");
    let on = &drive.variables["TRANCHE_ON"];
    let list = testkit::run(TRANCHE, &["ns", "list", "--on", on]);
    assert!(list.lines().count() > 1, "{list}");

    let again = script("ci-drive.sh", &["start", "-d", &drive.dir, "-a", "none"]).output().unwrap();
    assert!(!again.status.success() && text(&again.stderr).contains("is not empty"), "{again:?}");

    let stopped = drive.stop();
    assert!(stopped.status.success(), "{}", text(&stopped.stderr));
    assert!(!Command::new(TRANCHE).args(["ns", "list", "--on", on]).output().unwrap().status.success());
    testkit::run(TRANCHE, &["image", "check", &at(Path::new(&drive.dir), "image")]);
    let twice = drive.stop();
    assert!(text(&twice.stderr).contains("no drive was started"), "{twice:?}");
}

#[test]
fn a_drive_that_does_not_start_or_end_in_order_fails_the_job() {
    let dir = tempfile::tempdir().unwrap();
    let here = at(dir.path(), "wrong");
    let started =
        script("ci-drive.sh", &["start", "-d", &here, "-a", "none", "--drive", "nonesuch"]).output().unwrap();
    let said = text(&started.stderr);
    assert!(
        !started.status.success() && said.contains("the drive does not start: ") && said.contains("nonesuch"),
        "{said}"
    );

    let drive = Drive::start(at(dir.path(), "killed"), "none", &[]);
    let process = std::fs::read_to_string(Path::new(&drive.dir).join("pid")).unwrap();
    testkit::run("kill", &["-KILL", process.trim()]);
    let stopped = drive.stop();
    assert!(text(&stopped.stderr).contains("the drive ended with status 137"), "{stopped:?}");

    let unknown = script("ci-drive.sh", &["start", "-a", "glue"]).output().unwrap();
    assert_eq!(unknown.status.code(), Some(2));
}

#[test]
fn a_job_has_a_block_file_or_a_loop_device() {
    let test = "a_job_has_a_block_file_or_a_loop_device";
    if !testkit::possible(test, &["losetup"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for attach in ["file", "loop"] {
        let drive = Drive::start(at(dir.path(), attach), attach, &["--timing", "off"]);
        let device = &drive.variables["DEVICE"];
        use_device(device);
        let stopped = drive.stop();
        assert!(stopped.status.success(), "{}", text(&stopped.stderr));
        let blocks = Path::new(&drive.dir).join("blocks");
        assert!(!testkit::is_mounted(&blocks), "{} is still mounted", blocks.display());
    }
}

/// Runs a step of `action.yml`, and returns what it left in the files for later steps.
fn step(dir: &Path, verb: &str, inputs: &[(&str, &str)]) -> (Output, [BTreeMap<String, String>; 2], String) {
    let files = ["output", "env", "path"].map(|name| at(dir, name));
    let mut command = script("ci-action.sh", &[verb]);
    command.env_remove("TRANCHE").env("RUNNER_TEMP", dir);
    for (variable, file) in ["GITHUB_OUTPUT", "GITHUB_ENV", "GITHUB_PATH"].iter().zip(&files) {
        std::fs::write(file, "").unwrap();
        command.env(variable, file);
    }
    command.envs(inputs.iter().map(|(name, value)| (format!("INPUT_{name}"), value)));
    let output = command.output().unwrap();
    let [out, env, path] = files.map(|file| std::fs::read_to_string(file).unwrap());
    (output, [variables(&out), variables(&env)], path)
}

/// The steps of the action, and that `action.yml` hands over each input that the script reads.
#[test]
fn the_action_starts_and_stops_a_drive() {
    let dir = tempfile::tempdir().unwrap();
    let (named, [out, _], _) = step(dir.path(), "source", &[]);
    assert!(named.status.success(), "{named:?}");
    assert_eq!(out["source"].len(), 64);

    let inputs = [
        ("PROGRAM", TRANCHE),
        ("ATTACH", "none"),
        ("OPTIONS", "--timing off --drive default"),
        ("DIRECTORY", ""),
    ];
    let (started, [out, env], path) = step(dir.path(), "start", &inputs);
    assert!(started.status.success(), "{}", text(&started.stderr));
    assert_eq!(Path::new(path.trim()), Path::new(TRANCHE).parent().unwrap());
    assert_eq!((out["device"].as_str(), &out["on"]), ("", &env["TRANCHE_ON"]));
    assert_eq!(env["TRANCHE_DIR"], at(&dir.path().canonicalize().unwrap(), "tranche-drive"));
    testkit::run(TRANCHE, &["id", "--on", &env["TRANCHE_ON"]]);
    let (stopped, ..) = step(dir.path(), "stop", &[]);
    assert!(stopped.status.success(), "{}", text(&stopped.stderr));

    let action = std::fs::read_to_string(repository().join("action.yml")).unwrap();
    let script = std::fs::read_to_string(repository().join("scripts/ci-action.sh")).unwrap();
    for name in ["ATTACH", "OPTIONS", "DIRECTORY", "PROGRAM"] {
        let input = name.to_lowercase();
        assert!(action.contains(&format!("INPUT_{name}: ${{{{ inputs.{input} }}}}")), "{name}");
        assert!(script.contains(&format!("INPUT_{name}")), "{name}");
    }
    for verb in ["source", "start", "stop"] {
        assert!(action.contains(&format!("scripts/ci-action.sh\" {verb}'")), "{verb}");
    }
}
