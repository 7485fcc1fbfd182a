//! The page of the live view in a browser, on a server with a drive that a seed makes up (`crates/attach/ui/page/test/mock.mjs`).
//!
//! `TRANCHE_PICTURES=DIR` puts the pictures of each state there; else they are in cargo's directory for tests.

#[path = "live_view/browser.rs"]
mod browser;

use browser::View;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

/// What the mock's load looks like.
const SEED: &str = "7";
/// A desk's window, and a phone's.
const DESK: (u32, u32) = (1280, 820);
const PHONE: (u32, u32) = (360, 740);

/// One browser at a time: they are large.
static ONE: Mutex<()> = Mutex::new(());

struct Mock {
    child: Child,
    url: String,
}

impl Mock {
    fn start(args: &[&str]) -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../attach/ui/page/test/mock.mjs");
        let mut child = Command::new("node")
            .arg(script)
            .args(["--seed", SEED, "--every", "50"])
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
        Mock { child, url: url.trim().to_owned() }
    }

    fn ask(&self, method: &str, path: &str) -> Value {
        let host = self.url.trim_start_matches("http://").trim_end_matches('/');
        let mut stream = TcpStream::connect(host).unwrap();
        write!(stream, "{method} {path} HTTP/1.0\r\nHost: {host}\r\nContent-Length: 0\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        serde_json::from_str(body).unwrap()
    }

    /// Changes that the page asked for so far.
    fn log(&self) -> Vec<Value> {
        self.ask("GET", "/mock/log").as_array().unwrap().clone()
    }

    /// Waits until the page has asked for so many changes, and gives the last one.
    fn change(&self, view: &View, number: usize) -> Value {
        for _ in 0..3000 {
            let log = self.log();
            assert!(log.len() <= number, "the page asked for more than it should: {log:?}");
            if log.len() == number {
                return log[number - 1].clone();
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        view.assert_well();
        panic!("the page asked for {:?}", self.log());
    }
}

impl Drop for Mock {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a test with a mock and a page on it, if there are a browser and Node.
fn with(test: &str, args: &[&str], size: (u32, u32), act: impl FnOnce(&Mock, &View)) {
    if browser::chromium().is_none() {
        return testkit::skipped(test, "Chromium is not installed (scripts/setup-debian.sh)");
    }
    if Command::new("node").arg("--version").output().is_err() {
        return testkit::skipped(test, "Node is not installed (scripts/setup-debian.sh)");
    }
    let _one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mock = Mock::start(args);
    let view = View::open(&mock.url, size, false);
    view.wait_words(".pill", "live");
    view.wait("document.querySelector('.figures')");
    act(&mock, &view);
    view.assert_well();
}

/// Shows the explanations of all terms, and hides them again.
fn explains(view: &View) {
    assert_eq!(view.count(".explain"), 0);
    view.click("header button", "Explain terms");
    view.wait("document.querySelectorAll('.explain').length > 3");
    view.click("header button", "Explain terms");
    view.wait("!document.querySelector('.explain')");
}

/// Opens the quota of a namespace.
fn opens_quota(view: &View, nsid: u32) {
    view.eval(&format!("document.querySelector('#namespace-{nsid} .quota summary').click()"));
    view.wait(&format!("document.querySelector('#namespace-{nsid} .quota').open"));
}

/// Waits for a minute of the drive, and for the maps.
fn filled(view: &View) {
    view.wait("document.querySelectorAll('.set .cellmap').length === 2");
    view.wait("document.querySelectorAll('.chart .plot canvas').length === 4");
}

#[test]
fn a_drive_under_load_is_shown_with_its_map() {
    with("a_drive_under_load_is_shown_with_its_map", &["--before", "20"], DESK, |_, view| {
        filled(view);
        assert!(view.words(".figures").contains("GB/s"), "{}", view.words(".figures"));
        assert_eq!(view.count(".namespace"), 5);
        assert_eq!(view.words("h1"), "Tranche exampleTR0001");
        // The legend counts every superblock once.
        let total = view.eval("[...document.querySelectorAll('.set .legend')[0].querySelectorAll('.num')].reduce((sum, each) => sum + Number(each.textContent), 0)");
        assert_eq!(total, json!(1024));
        // The map by keyboard: a cell is chosen, said, and shown below.
        let map = ".set .cellmap canvas[role=slider]";
        view.focus(map);
        view.keys(&["ArrowRight", "ArrowRight", "ArrowLeft"]);
        assert_eq!(view.attribute(map, "aria-valuenow"), "1");
        assert!(view.attribute(map, "aria-valuetext").starts_with("Superblock 1: "));
        view.wait("document.querySelector('.flash .detail dd').textContent === '1'");
        view.keys(&["End"]);
        assert_eq!(view.attribute(map, "aria-valuenow"), "1023");
        // By mouse: superblock 0 is in the upper left corner.
        view.hover(map, 0.002, 0.01);
        view.wait_words(".set .tip", "Superblock 0: ");
        view.click(".set .choice label", "Wear");
        view.wait_words(".set .ramp", "erases");
        assert!(view.words(".set .ramp").contains("rated for 3,000"));
        view.picture("wear");
        view.click(".set .choice label", "Contents");
        // A namespace leaves the charts and comes back.
        let lines = "document.querySelectorAll('.chart')[0].querySelectorAll('.values li').length";
        view.wait(&format!("{lines} === 5"));
        view.click(".chip", "Namespace 2");
        view.wait(&format!("{lines} === 4"));
        view.click(".chip", "Namespace 2");
        // A chart by keyboard says what was then.
        view.focus(".plot");
        view.keys(&["ArrowLeft", "ArrowLeft"]);
        view.wait(
            "document.querySelector('.plot').getAttribute('aria-valuetext').includes(' ago. Namespace 1: ')",
        );
        view.keys(&["Escape"]);
        view.wait("document.querySelector('.plot').getAttribute('aria-valuetext').startsWith('now. ')");
        // Terms say what they mean.
        view.click(".chart .term", "Write amplification");
        view.wait("document.querySelector('.popover:popover-open')?.textContent.includes('1 is ideal')");
        view.keys(&["Escape"]);
        explains(view);
        view.eval("document.activeElement.blur()");
        view.wait("Number(document.querySelector('.plot').getAttribute('aria-valuemax')) >= 119");
        view.scroll_to("body");
        view.picture("load");
        view.scheme(true);
        view.wait("getComputedStyle(document.body).backgroundColor === 'rgb(20, 23, 28)'");
        view.picture("dark");
    });
}

#[test]
fn quotas_are_set_by_slider_and_exactly() {
    with("quotas_are_set_by_slider_and_exactly", &[], DESK, |mock, view| {
        view.wait_words("#namespace-2 .quota summary", "no limits");
        opens_quota(view, 2);
        let slider = "#namespace-2 .limit:nth-of-type(2) input[type=range]";
        let exact = "#namespace-2 .limit:nth-of-type(2) input[type=text]";
        assert_eq!(view.attribute(slider, "aria-valuetext"), "no limit");
        view.focus(slider);
        view.keys(&["ArrowLeft"]);
        let change = mock.change(view, 1);
        assert_eq!(change["method"], "PUT");
        assert_eq!(change["path"], "/api/namespaces/2/quota");
        assert_eq!(change["body"], json!({ "write_bandwidth": 10_000_000_000_u64, "save": false }));
        view.wait_words(".notice.done", "Namespace 2: write bandwidth is limited to 10 GB/s.");
        view.type_into(exact, "120 MB/s");
        view.keys(&["Enter"]);
        assert_eq!(mock.change(view, 2)["body"]["write_bandwidth"], 120_000_000);
        view.wait(&format!(
            "document.querySelector({slider:?}).getAttribute('aria-valuetext') === '120 MB/s'"
        ));
        view.wait_words("#namespace-2 .quota summary", "write bandwidth 120 MB/s");
        // What cannot be is said, and not sent.
        for wrong in ["fast", "17"] {
            view.type_into(exact, wrong);
            view.keys(&["Enter"]);
            view.wait_words("#namespace-2 .inline-error", "or 0 for no limit");
            view.keys(&["Escape"]);
        }
        view.wait("document.querySelectorAll('.notice').length === 0 || document.querySelector('.held')");
        view.wait_words("#namespace-2 .now", "held back");
        view.scroll_to("#namespaces");
        view.picture("quota");
        assert_eq!(mock.log().len(), 2);
        // An error of the drive is shown in its words, and the old limit stays.
        mock.ask("POST", "/mock/fail");
        view.type_into(exact, "0");
        view.keys(&["Enter"]);
        assert_eq!(mock.change(view, 3)["body"]["write_bandwidth"], 0);
        view.wait_words(
            ".notice.failed",
            "The quota of namespace 2 was not changed: Namespace Insufficient Capacity",
        );
        view.wait(&format!("document.querySelector({exact:?}).value === '120 MB/s'"));
        view.click(".notice.failed button", "Close this message");
        view.wait("!document.querySelector('.notice.failed')");
    });
}

/// Asks whether to delete a namespace, cancels, and asks again. The end of the first dialog is a task of the browser, and nothing here
/// lets it run tasks in between, only microtasks. `window.stays` says whether the second question is still open after a while.
const ASKED_AGAIN_AT_ONCE: &str = "(window.stays = undefined, (async () => {
    const button = (words) => [...document.querySelectorAll('button')].find((each) => each.textContent === words);
    const open = () => document.querySelector('dialog.confirm[open]') !== null;
    const until = async (wanted) => { for (let turn = 0; turn < 1000 && open() !== wanted; turn++) await null; };
    button('Delete…').click();
    await until(true);
    button('Cancel').click();
    await until(false);
    button('Delete…').click();
    await until(true);
    setTimeout(() => { window.stays = open(); }, 200);
})(), true)";

#[test]
fn namespaces_come_and_go_and_what_loses_data_asks_first() {
    with(
        "namespaces_come_and_go_and_what_loses_data_asks_first",
        &["--scenario", "empty"],
        DESK,
        |mock, view| {
            view.wait_words("#namespaces .empty", "no namespaces yet");
            view.wait("document.querySelectorAll('.set .cellmap').length === 2");
            view.scroll_to("body");
            view.picture("empty");
            view.click("#namespaces button", "Create a namespace");
            view.wait("document.querySelector('dialog.create[open]')");
            let size = "dialog.create input[type=text]";
            assert_eq!(view.attribute(size, "placeholder"), "4 GiB");
            view.type_into(size, "100 GiB");
            view.wait_words("dialog.create .inline-error", "Set 1 has 80 GiB left");
            view.type_into(size, "4097 B");
            view.wait_words("dialog.create .inline-error", "a multiple of 4 KiB");
            view.type_into(size, "4 GiB");
            view.wait("!document.querySelector('dialog.create .inline-error')");
            view.picture("create");
            view.keys(&["Enter"]);
            let change = mock.change(view, 1);
            assert_eq!(
                change["body"],
                json!({ "set": 1, "size": 4_u64 << 30, "lba_bytes": 4096, "zoned": false, "attach": true })
            );
            view.wait("document.querySelectorAll('.namespace').length === 1 && !document.querySelector('dialog[open]')");
            view.wait_words(".notice.done", "Namespace 1 was created: 4 GiB in set 1.");
            view.eval(ASKED_AGAIN_AT_ONCE);
            view.wait("window.stays !== undefined");
            assert!(view.eval("window.stays") == true, "the end of a question answers the next one");
            view.keys(&["Escape"]);
            view.wait("!document.querySelector('dialog[open]')");
            // Cancel has the keyboard: neither Enter nor Escape loses anything.
            for key in ["Enter", "Escape"] {
                view.click("#namespace-1 button", "Delete…");
                view.wait("document.querySelector('dialog.confirm[open]') && document.activeElement.textContent === 'Cancel'");
                view.keys(&[key]);
                view.wait("!document.querySelector('dialog[open]')");
            }
            view.click("#namespace-1 button", "Detach…");
            view.wait_words("dialog.confirm", "Its data stays");
            view.click("dialog button", "Detach namespace 1");
            assert_eq!(mock.change(view, 2)["path"], "/api/namespaces/1/detach");
            view.wait_words("#namespace-1 .tag", "not attached");
            view.click("#namespace-1 button", "Attach");
            assert_eq!(mock.change(view, 3)["path"], "/api/namespaces/1/attach");
            view.wait("document.querySelector('#namespace-1 .tag').textContent === 'attached'");
            view.click("#namespace-1 button", "Delete…");
            view.wait_words("dialog.confirm", "is lost for good");
            view.click("dialog button", "Delete namespace 1");
            let change = mock.change(view, 4);
            assert_eq!(
                (&change["method"], &change["path"]),
                (&json!("DELETE"), &json!("/api/namespaces/1?force=true"))
            );
            view.wait("document.querySelectorAll('.namespace').length === 0");
        },
    );
}

#[test]
fn zones_are_shown_and_managed() {
    with("zones_are_shown_and_managed", &["--before", "40"], DESK, |mock, view| {
        view.scroll_to("#zones");
        let map = "#zones canvas[role=slider]";
        view.focus(map);
        view.keys(&["Home", "ArrowDown"]);
        view.wait("document.querySelector('#zones .detail dd').textContent !== '0'");
        assert!(
            view.attribute(map, "aria-valuetext").contains("full, 100 % written"),
            "{}",
            view.attribute(map, "aria-valuetext")
        );
        let zone: u64 = view.attribute(map, "aria-valuenow").parse().unwrap();
        view.picture("zones");
        assert!(view.eval("[...document.querySelectorAll('#zones [role=group] button')].find((each) => each.textContent === 'Open').disabled") == true);
        view.click("#zones button", "Reset…");
        view.wait_words("dialog.confirm", "is lost for good");
        view.click("dialog button", &format!("Reset zone {zone}"));
        let change = mock.change(view, 1);
        assert_eq!(change["path"], "/api/zones/4");
        assert_eq!(change["body"], json!({ "start": zone * (256 << 20), "action": "reset" }));
        view.wait("document.querySelectorAll('#zones .detail dd')[1].textContent === 'empty'");
    });
}

#[test]
fn a_drive_that_goes_is_missed_and_one_that_comes_back_is_welcomed() {
    with(
        "a_drive_that_goes_is_missed_and_one_that_comes_back_is_welcomed",
        &["--before", "20"],
        DESK,
        |mock, view| {
            filled(view);
            mock.ask("POST", "/mock/gone");
            view.wait_words(".banner.bad", "The drive has no power. ");
            assert_eq!(view.words(".banner.bad").matches("The drive").count(), 1);
            assert_eq!(view.words(".pill").trim(), "drive gone");
            view.wait("document.title.startsWith('⚠')");
            view.picture("gone");
            mock.ask("POST", "/mock/back");
            view.wait_words(".banner.good", "The drive is back.");
            view.wait("!document.querySelector('.banner.bad')");
            // Faults and power cuts.
            view.click("#faults button", "Inject");
            assert_eq!(
                mock.change(view, 1)["body"],
                json!({ "set": 0, "kind": "bit-errors", "one_in": 1000 })
            );
            view.click("#faults button", "Cut the power…");
            view.wait_words("dialog.confirm", "loses power for 1 s");
            view.click("dialog button", "Cut the power");
            assert_eq!(mock.change(view, 2)["body"], json!({ "off_ms": 1000, "no_plp": false }));
            view.wait_words(".banner.bad", "The power was cut.");
            mock.ask("POST", "/mock/back");
            view.wait_words(".banner.good", "The drive is back.");
        },
    );
}

#[test]
fn what_the_drive_does_not_allow_says_why() {
    with("what_the_drive_does_not_allow_says_why", &["--scenario", "locked"], DESK, |_, view| {
        view.wait_words("#faults .why", "allow_network_faults = true");
        assert_eq!(view.count("#faults .why"), 1);
        assert_eq!(view.eval("[...document.querySelectorAll('#faults button:not(.term)')].every((each) => each.matches(':disabled'))"), true);
    });
}

#[test]
fn the_page_fits_a_phone_and_has_names_and_contrast() {
    with("the_page_fits_a_phone_and_has_names_and_contrast", &["--before", "20"], PHONE, |_, view| {
        filled(view);
        let wide = "[...document.querySelectorAll('body *')].filter((each) => each.getBoundingClientRect().right > 361 && !each.closest('.hidden-words, .popover')).map((each) => each.className || each.tagName)";
        view.wait(&format!("({wide}).length === 0"));
        view.wait("document.documentElement.scrollWidth === 360");
        view.wait("Number(document.querySelector('.plot').getAttribute('aria-valuemax')) >= 119");
        view.picture("phone");
        view.scroll_to("#media");
        view.picture("phone-map");
        // Everything that can be used has a name.
        let nameless = "[...document.querySelectorAll('button, a, input, select, [tabindex=\"0\"]')].filter((each) => !(each.textContent.trim() || each.getAttribute('aria-label') || each.labels?.length)).map((each) => each.outerHTML)";
        assert_eq!(view.eval(nameless), json!([]));
        // Nothing jumps the queue of the keyboard.
        assert_eq!(view.count("[tabindex]:not([tabindex='0']):not([tabindex='-1'])"), 0);
        let first =
            "[...document.querySelectorAll('a, button, input, select, [tabindex=\"0\"]')][0].textContent";
        assert_eq!(view.eval(first), "Skip to the drive");
        view.focus(".skip");
        view.keys(&["Tab"]);
        assert_eq!(view.words(":focus"), "Performance");
        for dark in [false, true] {
            view.scheme(dark);
            let paper = if dark { "rgb(20, 23, 28)" } else { "rgb(245, 246, 248)" };
            view.wait(&format!("getComputedStyle(document.body).backgroundColor === '{paper}'"));
            let poor = view.eval(CONTRAST);
            assert_eq!(poor, json!([]), "too little contrast, dark: {dark}");
        }
    });
}

/// Colours that are hard to read on what they stand on: text below 4.5 to 1, lines below 3 to 1 (WCAG 2.2, 1.4.3 and 1.4.11).
const CONTRAST: &str = "(() => {
    const probe = document.body.appendChild(document.createElement('i'));
    const light = (name) => {
        probe.style.color = `var(--${name})`;
        const part = getComputedStyle(probe).color.match(/[\\d.]+/g).slice(0, 3).map((each) => each / 255).map((each) => each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4);
        return 0.2126 * part[0] + 0.7152 * part[1] + 0.0722 * part[2];
    };
    const ratio = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
    const poor = [];
    const want = (a, b, least) => ratio(a, b) < least && poor.push(`${a} on ${b}: ${ratio(a, b).toFixed(2)}`);
    for (const paper of ['ground', 'surface', 'raised']) for (const text of ['ink', 'muted', 'accent', 'bad', 'good']) want(text, paper, 4.5);
    want('bad', 'bad-ground', 4.5);
    want('good', 'good-ground', 4.5);
    want('accent-ink', 'accent', 4.5);
    for (let line = 1; line <= 6; line += 1) want(`series-${line}`, 'surface', 3);
    for (const cell of ['valid', 'open', 'collecting', 'zone', 'bad']) want(`cell-${cell}`, 'cell-free', 2.5);
    probe.remove();
    return poor;
})()";
