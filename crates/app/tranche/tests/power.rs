//! Power cuts with what comes on top of them: a process that dies or is stopped while the power is off.

mod common;

use common::{Served, TRANCHE, at, repository, text};
use std::path::Path;
use std::process::{Command, Stdio};
use testkit::wait_for;

/// Standard output of a command on the drive at `on`.
fn tranche(on: &str, args: &[&str]) -> String {
    let output = Command::new(TRANCHE).env("TRANCHE_ON", on).args(args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

fn write_job(dir: &Path, size: &str) -> String {
    let job = at(dir, "write.fio");
    std::fs::write(&job, format!("[write]\nrw=write\nbs=4k\niodepth=8\nsize={size}\n")).unwrap();
    job
}

#[test]
fn what_a_power_cut_took_is_not_back_when_the_process_dies_before_power_is() {
    let temp = tempfile::tempdir().unwrap();
    let (socket, image) = (at(temp.path(), "s"), at(temp.path(), "image"));
    let on = format!("unix://{socket}");
    let used = || -> u64 {
        let list: serde_json::Value =
            serde_json::from_str(&tranche(&on, &["ns", "list", "--output", "json"])).unwrap();
        list["Devices"][1]["UsedBytes"].as_u64().unwrap()
    };
    let served = Served::start(&["--unix", &socket, "--image", &image]);
    tranche(&on, &["ns", "create", "--nvm-set", "2", "--size", "1MiB", "--attach"]);
    tranche(&on, &["bench", &write_job(temp.path(), "1m"), "--nsid", "2"]);
    assert_eq!(used(), 1 << 20);
    // It waits for the power, which never comes.
    let cut = ["power-cut", "--no-plp", "--off", "600000"];
    let mut waiting = Command::new(TRANCHE)
        .env("TRANCHE_ON", &on)
        .args(cut)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let is_off = || {
        let list = Command::new(TRANCHE).env("TRANCHE_ON", &on).args(["ns", "list"]).output().unwrap();
        !list.status.success()
    };
    wait_for("the loss of power", is_off);
    drop(served);
    waiting.kill().unwrap();
    waiting.wait().unwrap();
    let _served = Served::start(&["--unix", &socket, "--image", &image]);
    assert_eq!(used(), 0, "DRAM has lost its power");
    let smart: serde_json::Value =
        serde_json::from_str(&tranche(&on, &["smart", "--output", "json"])).unwrap();
    assert_eq!(smart["critical_warning"], 16, "the capacitors failed");
}

#[test]
fn a_drive_that_is_stopped_while_its_power_is_off_was_stopped_in_order() {
    let temp = tempfile::tempdir().unwrap();
    let (socket, image) = (at(temp.path(), "s"), at(temp.path(), "image"));
    let on = format!("unix://{socket}");
    let job = write_job(temp.path(), "64m");
    for energy in [&["--no-plp"][..], &[]] {
        let served = Served::start(&["--unix", &socket, "--image", &image, "--timing", "on"]);
        tranche(&on, &["bench", &job]);
        tranche(&on, &[&["power-cut", "--after", "100", "--off", "600000"], energy].concat());
        let cut = Command::new(TRANCHE).env("TRANCHE_ON", &on).args(["bench", &job]).output().unwrap();
        assert!(!cut.status.success(), "it meets the power cut");
        served.signal("TERM");
        assert_eq!(served.end(), Some(0));
        let check = text(&Command::new(TRANCHE).args(["image", "check", &image]).output().unwrap().stdout);
        assert!(check.contains("the drive was stopped in order"), "{energy:?}: {check}");
    }
}

/// The first script of a page: a block of `sh`.
fn script(page: &str) -> String {
    let text = std::fs::read_to_string(repository().join(page)).unwrap();
    let block = text.split("```sh\n").nth(1).and_then(|rest| rest.split("```").next());
    block.unwrap_or_else(|| panic!("{page} has no script")).to_owned()
}

/// The recipe of the page, pasted as it stands: with options, and with the profile that does the same.
#[test]
fn the_recipe_for_power_cuts_loses_what_was_not_flushed() {
    let recipe = script("docs/howto/power-cuts.md");
    for serve in ["--no-capacitors", "--drive no-capacitors", "--no-capacitors --image drive"] {
        let temp = tempfile::tempdir().unwrap();
        let programs = Path::new(TRANCHE).parent().unwrap().display().to_string();
        let path = std::env::var("PATH").unwrap();
        let ran = Command::new("sh")
            .args(["-c", &recipe.replace("--no-capacitors", serve)])
            .env("PATH", format!("{programs}:{path}"))
            .current_dir(temp.path())
            .output()
            .unwrap();
        let said = text(&ran.stdout);
        assert!(said.ends_with("flushed: there\nunflushed: lost\n"), "{serve}: {said}{}", text(&ran.stderr));
    }
}

#[test]
fn an_image_keeps_the_capacitors_that_it_was_made_with() {
    let temp = tempfile::tempdir().unwrap();
    let (socket, with, without) = (at(temp.path(), "s"), at(temp.path(), "with"), at(temp.path(), "without"));
    let on = format!("unix://{socket}");
    let has_cache = |image: &str, options: &[&str]| -> bool {
        let served = Served::start(&[&["--unix", &socket, "--image", image], options].concat());
        let id: serde_json::Value = serde_json::from_str(&tranche(&on, &["id", "--output", "json"])).unwrap();
        served.signal("TERM");
        assert_eq!(served.end(), Some(0));
        id["vwc"].as_u64().unwrap() & 1 == 1
    };
    assert!(!has_cache(&with, &[]));
    assert!(has_cache(&without, &["--no-capacitors"]));
    // The image knows; that it is said again changes nothing.
    assert!(has_cache(&without, &[]) && has_cache(&without, &["--no-capacitors"]));
    assert!(has_cache(&without, &["--no-capacitors", "--drive", "default"]));
    let refused = |options: &[&str]| {
        let serve = ["serve", "--unix", &socket, "--image", &with, "--no-capacitors"];
        let output = Command::new(TRANCHE).args(serve).args(options).output().unwrap();
        assert!(!output.status.success());
        text(&output.stderr)
    };
    for options in [&[][..], &["--drive", "default"]] {
        let said = refused(options);
        assert!(said.contains("was made with capacitors, and keeps them"), "{said}");
    }
}

/// A second drive on the same image and the same addresses: the image is what is wrong.
#[test]
fn an_image_in_use_is_told_before_an_address_that_is_taken() {
    let temp = tempfile::tempdir().unwrap();
    let (socket, image) = (at(temp.path(), "s"), at(temp.path(), "image"));
    let options = ["--unix", &socket, "--tcp", "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--image", &image];
    let served = Served::start(&options);
    let taken =
        served.tcp()[0].rsplit_once('/').map_or_else(|| served.tcp()[0].clone(), |(_, at)| at.to_owned());
    for place in ["--tcp", "--metrics", "--nbd", "--ui"] {
        let again = Command::new(TRANCHE).args(["serve", "--image", &image, place, &taken]).output().unwrap();
        let said = text(&again.stderr);
        assert!(!again.status.success() && said.contains("is in use by process"), "{place}: {said}");
    }
}
