//! The page of the live view on a drive that `tranche serve --ui` serves.

#[path = "live_view/browser.rs"]
mod browser;
mod common;

use browser::View;
use common::{SMALL_DRIVE, Served, TRANCHE, at, text};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

/// The small drive without timing, with room in a DRAM set, whose power the view may cut.
fn serve(dir: &Path) -> Served {
    let drive = SMALL_DRIVE.replace("timing = true", "timing = false\nallow_network_faults = true");
    assert_ne!(drive, SMALL_DRIVE);
    std::fs::write(dir.join("drive.toml"), drive + "\n[[set]]\nmedia = \"dram\"\ncapacity = \"32MiB\"\n")
        .unwrap();
    let (drive, socket) = (at(dir, "drive.toml"), at(dir, "socket"));
    Served::start(&["--drive", &drive, "--unix", &socket, "--ui", "127.0.0.1:0"])
}

fn state(url: &str) -> Value {
    let (host, token) = url.strip_prefix("http://").unwrap().split_once("/?token=").unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    write!(
        stream,
        "GET /api/state HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"))
}

fn write(dir: &Path, mib: u32) {
    std::fs::write(dir.join("job.fio"), format!("[write]\nrw=write\nbs=64k\nsize={mib}m\n")).unwrap();
    let on = format!("unix://{}", at(dir, "socket"));
    let done = Command::new(TRANCHE).args(["bench", "--on", &on, &at(dir, "job.fio")]).output().unwrap();
    assert!(done.status.success(), "{}", text(&done.stderr));
}

#[test]
fn the_page_shows_what_a_drive_does_and_changes_it() {
    let test = "the_page_shows_what_a_drive_does_and_changes_it";
    if browser::chromium().is_none() {
        return testkit::skipped(test, "Chromium is not installed (scripts/setup-debian.sh)");
    }
    let dir = tempfile::tempdir().unwrap();
    let served = serve(dir.path());
    let url = served
        .ready
        .split_whitespace()
        .find_map(|word| word.strip_prefix("ui="))
        .expect("where the view is")
        .to_owned();
    let view = View::open(&url, (1280, 820), false);
    view.wait_words(".pill", "live");
    view.wait("document.querySelectorAll('.namespace').length === 1");
    shows_writes(&view, dir.path(), &state(&url));
    changes_namespaces(&view, &url);
    view.assert_well();

    // A loss of power is seen, and its end.
    view.click("#faults button", "Cut the power…");
    view.click("dialog button", "Cut the power");
    view.wait("document.querySelector('.banner.good')");
    view.wait_words(".figures", "24 MiB in all");
    view.wait("document.querySelector('.pill').textContent.trim() === 'live'");
    // Without the drive nothing answers.
    drop(served);
    view.wait_words(".banner.bad", "The connection to the live view is lost.");
}

/// What a host writes is in the figures, in the charts and on the map.
fn shows_writes(view: &View, dir: &Path, state: &Value) {
    view.wait_words(".figures", "0 B in all");
    write(dir, 24);
    view.wait_words(".figures", "24 MiB in all");
    view.wait_words("#namespace-1 .detail", "24 MiB");
    let superblocks = &state["sets"][0]["superblocks"];
    let counted = "[...document.querySelectorAll('.set .flash:not(.dies) .legend .num')].reduce((sum, each) => sum + Number(each.textContent), 0)";
    view.wait(&format!("{counted} === {superblocks} && {superblocks} > 0"));
    // Without timing no die is ever busy.
    let dies = state["sets"][0]["dies"].as_u64().unwrap();
    view.wait(&format!(
        "document.querySelector('.dies canvas[role=slider]')?.getAttribute('aria-valuemax') === '{}'",
        dies - 1
    ));
    view.wait_words(".dies .legend", "Idle 100\u{a0}%");
    let free = "Number(document.querySelector('.set .flash:not(.dies) .legend .num').textContent)";
    view.wait(&format!("{free} < {superblocks}"));
    view.wait("document.querySelector('.plot').getAttribute('aria-valuetext').includes('Namespace 1: ')");
}

/// Quotas, and a namespace that is created and deleted.
fn changes_namespaces(view: &View, url: &str) {
    view.eval("document.querySelector('#namespace-1 .quota summary').click()");
    let exact = "#namespace-1 .limit:nth-of-type(2) input[type=text]";
    view.type_into(exact, "50 MB/s");
    view.keys(&["Enter"]);
    view.wait_words(".notice.done", "Namespace 1: write bandwidth is limited to 50 MB/s.");
    assert_eq!(state(url)["namespaces"][0]["quota"]["write_bandwidth"], 50_000_000);
    view.click("#namespaces button", "Create a namespace");
    view.wait("document.querySelector('dialog.create[open]')");
    // The example fits into what is left.
    assert_eq!(view.attribute("dialog.create input[type=text]", "placeholder"), "32 MiB");
    view.type_into("dialog.create input[type=text]", "8 MiB");
    view.keys(&["Enter"]);
    view.wait("document.querySelectorAll('.namespace').length === 2");
    let made = state(url)["namespaces"][1].clone();
    assert_eq!((&made["medium"], &made["size"]), (&"dram".into(), &(8 << 20).into()), "{made}");
    view.click("#namespace-2 button", "Delete…");
    view.click("dialog button", "Delete namespace 2");
    view.wait("document.querySelectorAll('.namespace').length === 1");
    assert_eq!(state(url)["namespaces"].as_array().unwrap().len(), 1);
}
