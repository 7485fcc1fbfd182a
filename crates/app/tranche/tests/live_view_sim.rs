//! `tranche sim --ui`: a run in virtual time that is shown while it goes.

#[path = "live_view/browser.rs"]
mod browser;
mod common;

use browser::View;
use common::{SMALL_DRIVE, TRANCHE, text};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};

/// Writes at random, for some seconds of virtual time; then reads.
const LOAD: &str = "[global]\nbs=4k\niodepth=16\n[write]\nrw=randrw\nrwmixread=30\nsize=192m\nio_size=512m\n[read]\nstonewall\nrw=randread\nsize=64m\n";

/// A directory with a load and a drive.
fn directory() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("job.fio"), LOAD).unwrap();
    std::fs::write(dir.path().join("drive.toml"), SMALL_DRIVE).unwrap();
    dir
}

fn sim(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(TRANCHE);
    command.current_dir(dir).env("XDG_CACHE_HOME", dir.join("cache"));
    command.args(["sim", "job.fio", "--drive", "drive.toml"]).args(args);
    command
}

/// A run that is shown.
struct Shown {
    child: Child,
    said: BufReader<ChildStderr>,
    url: String,
}

impl Shown {
    fn start(dir: &Path, args: &[&str]) -> Shown {
        let mut command = sim(dir, &[&["--ui", "127.0.0.1:0"], args].concat());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let said = BufReader::new(child.stderr.take().unwrap());
        let mut shown = Shown { child, said, url: String::new() };
        let line = shown.waits_for("ready ui=");
        line.trim_end().trim_start_matches("ready ui=").clone_into(&mut shown.url);
        shown
    }

    /// The line on standard error that begins so, when it comes.
    fn waits_for(&mut self, begin: &str) -> String {
        let mut all = String::new();
        loop {
            let mut line = String::new();
            let bytes = self.said.read_line(&mut line).unwrap();
            assert_ne!(bytes, 0, "{begin:?} is not said: {all}");
            if line.starts_with(begin) {
                return line;
            }
            all += &line;
        }
    }

    fn interrupts(&self) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", "INT", &id]).status().unwrap().success());
    }

    /// Waits for its end: exit code, standard output, and what else was said.
    fn end(mut self) -> (Option<i32>, String, String) {
        let (mut out, mut said) = (String::new(), String::new());
        self.child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        self.said.read_to_string(&mut said).unwrap();
        (self.child.wait().unwrap().code(), out, said)
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A document without what depends on the machine and on the time of day. It says which figures those were.
fn lasting(value: &Value, left_out: &mut Vec<String>) -> Value {
    const MACHINE_FIGURES: [&str; 14] = [
        "time",
        "timestamp",
        "timestamp_ms",
        "job_start",
        "wall_seconds",
        "busy_seconds",
        "cpu_seconds",
        "preparation_seconds",
        "precondition_seconds",
        "kept",
        "requests_per_cpu_second",
        "requests_per_second",
        "peak_memory_bytes",
        "host",
    ];
    match value {
        Value::Object(map) => {
            let mut kept = serde_json::Map::new();
            for (key, value) in map {
                match MACHINE_FIGURES.contains(&key.as_str()) {
                    true => left_out.push(key.clone()),
                    false => _ = kept.insert(key.clone(), lasting(value, left_out)),
                }
            }
            kept.into()
        }
        Value::Array(all) => all.iter().map(|one| lasting(one, left_out)).collect(),
        other => other.clone(),
    }
}

fn read(dir: &Path, name: &str) -> Vec<u8> {
    std::fs::read(dir.join(name)).unwrap()
}

#[test]
fn the_results_are_those_of_the_run_without_a_view() {
    let dir = directory();
    let args = ["--interval", "10ms", "--precondition", "fill", "--output", "json"];
    let alone = sim(dir.path(), &[&args[..], &["--out", "alone"]].concat()).output().unwrap();
    assert!(alone.status.success(), "{}", text(&alone.stderr));
    let mut shown = Shown::start(dir.path(), &[&args[..], &["--out", "shown", "--ui-speed", "max"]].concat());
    let over = shown.waits_for("the run is over");
    assert!(over.contains(&shown.url), "{over}");
    // Results are there already; the page stays until somebody ends it.
    assert_eq!(read(dir.path(), "shown/series.parquet"), read(dir.path(), "alone/series.parquet"));
    shown.interrupts();
    let (code, out, said) = shown.end();
    assert_eq!(code, Some(0), "{said}");
    let mut left_out = Vec::new();
    let mut of = |text: &str| {
        let mut document: Value = serde_json::from_str(text).unwrap();
        document["results"] = Value::Null;
        lasting(&document, &mut left_out)
    };
    let (with, without) = (of(&out), of(&text(&alone.stdout)));
    assert_eq!(with, without);
    assert!(with["simulation"]["digest"].is_string() && with["jobs"][0]["write"]["iops"].is_number());
    left_out.sort();
    left_out.dedup();
    assert!(left_out.len() < 14, "{left_out:?}");
}

#[test]
fn a_view_needs_one_run_and_an_address_that_is_free() {
    let dir = directory();
    let fails = |code: i32, args: &[&str]| {
        let output = sim(dir.path(), args).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", text(&output.stderr));
        assert!(output.stdout.is_empty(), "{}", text(&output.stdout));
        text(&output.stderr)
    };
    let why = fails(2, &["--ui", "127.0.0.1:0", "--set", "seed=1..4"]);
    assert!(why.contains("--ui shows one run, and --set asks for 4"), "{why}");
    let why = fails(2, &["--ui", "127.0.0.1:0", "--set", "gc.policy=greedy,cost-benefit"]);
    assert!(why.contains("give each key one value"), "{why}");
    assert!(!dir.path().join("out").exists(), "nothing is begun");
    for wrong in ["0", "-1", "fast", "1e9"] {
        let speed = format!("--ui-speed={wrong}");
        let why = fails(2, &["--ui", "127.0.0.1:0", &speed]);
        assert!(why.contains("virtual seconds for each real one, or max"), "{why}");
    }
    assert!(fails(2, &["--ui-speed", "max"]).contains("--ui <ADDRESS:PORT>"));
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let why = fails(1, &["--ui", &taken.local_addr().unwrap().to_string()]);
    assert!(why.contains("cannot serve the live view on"), "{why}");
}

#[test]
fn an_interruption_ends_a_run_that_is_slow_or_not_begun() {
    let dir = directory();
    // A second of virtual time would take eleven days. Preconditioning takes no virtual time.
    for args in [["--ui-speed", "0.000001"], ["--precondition", "steady"]] {
        let shown = Shown::start(dir.path(), &args);
        shown.interrupts();
        let (code, _, said) = shown.end();
        assert!(matches!(code, Some(1 | 5)) && said.contains("interrupted"), "{code:?}: {said}");
    }
}

#[test]
fn the_page_shows_a_run_from_its_begin_to_its_end() {
    let test = "the_page_shows_a_run_from_its_begin_to_its_end";
    if browser::chromium().is_none() {
        return testkit::skipped(test, "Chromium is not installed (scripts/setup-debian.sh)");
    }
    let dir = directory();
    let mut shown = Shown::start(dir.path(), &["--ui-speed", "0.01"]);
    let view = View::open(&shown.url, (1280, 820), false);
    view.wait_words(".pill", "live");
    view.wait_words("#run h2", "Simulated run of job.fio");
    // In slow motion figures move, and virtual time with them.
    view.wait("document.querySelector('.plot').getAttribute('aria-valuetext').includes('B/s')");
    view.wait_words(".figures", "MiB in all");
    view.wait("document.querySelectorAll('.dies canvas[role=slider]').length === 1");
    view.wait_words(".dies .chosen", "Die 0: busy ");
    assert_eq!(view.attribute(".dies canvas[role=slider]", "aria-valuemax"), "7");
    // The time of the dies is all of it.
    let total = "[...document.querySelectorAll('.dies .legend .num')].reduce((sum, each) => sum + parseFloat(each.textContent), 0)";
    assert_eq!(view.eval(&format!("Math.round(10 * {total})")), 1000);
    // A pause holds: no sample comes, and that is no loss.
    view.click("#run button", "Pause");
    view.wait_words("#run [role=status]", "The run is paused.");
    view.wait_words(".pill", "paused");
    view.click("#run button", "Continue");
    view.wait_words(".pill", "live");
    // What cannot be done says why.
    view.wait_words("#namespaces", "this drive is simulated");
    view.wait_words("#faults .why", "this drive is simulated");
    view.wait("[...document.querySelectorAll('#namespaces .section-head button, .namespace footer button')].every((each) => each.disabled)");
    view.scroll_to("body");
    // Some samples more for the picture.
    view.click("#run .choice label", "× 0.1");
    view.wait("Number(document.querySelector('.plot').getAttribute('aria-valuemax')) >= 12");
    view.click("#run button", "Pause");
    view.wait_words(".pill", "paused");
    view.wait("!document.querySelector('.notice.done')");
    view.eval("document.activeElement.blur()");
    view.picture("run");
    view.click("#run button", "Continue");
    // As fast as it can, to the end.
    view.click("#run .choice label", "Max");
    view.wait("document.querySelector('#run .ended.complete')");
    view.wait_words(".pill", "run ended");
    assert!(view.words("#run .progress").contains("100 % of the load"), "{}", view.words("#run .progress"));
    assert_eq!(view.count("#run button:not(.term), #run input"), 0);
    let over = shown.waits_for("the run is over");
    assert!(over.contains("until Ctrl-C"), "{over}");
    // The last state stays, also for a page that is opened now.
    let written = "document.querySelectorAll('.figure')[1].textContent";
    let last = view.eval(written);
    view.eval("location.reload()");
    view.wait("document.querySelector('#run .ended.complete')");
    view.wait_words(".figures", "MiB in all");
    let total = |text: &Value| text.as_str().unwrap().rsplit_once("/s").map(|(_, all)| all.to_owned());
    view.wait(&format!("{written}.includes('in all')"));
    assert!(total(&last).is_some_and(|all| view.eval(written).as_str().unwrap().ends_with(&all)), "{last}");
    view.assert_well();
    shown.interrupts();
    let (code, out, said) = shown.end();
    assert_eq!(code, Some(0), "{said}");
    assert!(out.contains("Drive in virtual time:"), "{out}");
    view.wait_words(".banner.bad", "The connection to the live view is lost.");
}
