//! The view of a run in virtual time.

use crate::support::http;

use http::Answer;
use live::Config;
use serde_json::{Value, json};
use sim::{Contents, Nanos, Sim};
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use ui::{Listener, Options, Pace, RunEnd, RunView, Speed, Token, Ui};
use workload::{Mix, MixConfig, Order};

const TOKEN: &str = "0123456789abcdef";
const BEARER: &str = "Authorization: Bearer 0123456789abcdef\r\n";

/// A view of a run that has not begun.
fn view() -> (RunView, Ui) {
    let options = Options { token: Some(Token::new(TOKEN).unwrap()), ..Options::default() };
    let run = RunView::new("job.fio".to_owned(), Speed::Times(0.5));
    let ui = Ui::of_run(Listener::bind("127.0.0.1:0").unwrap(), options, run.clone()).unwrap();
    (run, ui)
}

fn with(at: SocketAddr, method: &str, address: &str, headers: &str, body: &str) -> Answer {
    let length = body.len();
    http::send(
        at,
        format!(
            "{method} {address} HTTP/1.1\r\nHost: {at}\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
        )
        .as_bytes(),
    )
}

fn get(ui: &Ui, address: &str) -> (u16, Value) {
    let answer = with(ui.address(), "GET", address, BEARER, "");
    (answer.status, serde_json::from_str(&answer.body).unwrap())
}

fn change(ui: &Ui, method: &str, address: &str, body: &Value) -> (u16, Value) {
    let headers = format!("{BEARER}Content-Type: application/json\r\n");
    let answer = with(ui.address(), method, address, &headers, &body.to_string());
    (answer.status, serde_json::from_str(&answer.body).unwrap())
}

fn drive() -> Sim {
    let mut config = Config::default_drive();
    config.timing = true;
    Sim::new(config, Contents::None).unwrap()
}

fn writes(sim: &Sim, count: u64) {
    let config = MixConfig {
        range: 8192,
        blocks: 1,
        order: Order::Random,
        writes_per_mille: 1000,
        depth: 16,
        count: Some(count),
        seed: 1,
    };
    sim.run(1, &mut Mix::new(config), |_| false).unwrap();
}

/// Hands over what the drive is like.
fn show(run: &RunView, sim: &Sim, done: f64) {
    let host = sim.host("nqn.2026-11.org.example:load").unwrap();
    let mut looks = sim.inspect(host.cntlid()).unwrap();
    run.show(&mut looks, sim.now().0, Some(done)).unwrap();
}

#[test]
fn a_run_is_shown_as_it_was_handed_over() {
    let (run, ui) = view();
    let early = get(&ui, "/api/state");
    assert_eq!(early, (425, json!({ "error": "the run has not begun yet" })));
    assert_eq!(get(&ui, "/api/map?set=1").0, 425);
    run.waits("The drive is being preconditioned: 7 %.");
    assert_eq!(get(&ui, "/api/state").1["error"], "The drive is being preconditioned: 7 %.");

    let sim = drive();
    writes(&sim, 5000);
    show(&run, &sim, 0.25);
    let (status, state) = get(&ui, "/api/state");
    assert_eq!(status, 200, "{state}");
    assert_eq!(state["run"], json!({ "load": "job.fio", "speed": 0.5, "paused": false, "end": null }));
    assert_eq!((&state["sets"][0]["id"], &state["namespaces"][0]["nsid"]), (&json!(1), &json!(1)));
    assert_eq!(
        (&state["hosts"][0]["view"], state["hosts"].as_array().map(Vec::len)),
        (&json!(false), Some(1))
    );
    let (status, map) = get(&ui, "/api/map?set=1");
    assert_eq!((status, &map["medium"]), (200, &json!("nand")));
    let written = |map: &Value| {
        let all = map["superblocks"].as_array().unwrap();
        all.iter().map(|block| block["written_permille"].as_u64().unwrap()).sum::<u64>()
    };
    assert!(written(&map) > 0);
    assert!(get(&ui, "/api/map?set=9").1["error"].as_str().unwrap().contains("there is no NVM Set 9"));
    // It stays so until something else is handed over, whatever the drive does.
    writes(&sim, 5000);
    assert_eq!(get(&ui, "/api/map?set=1").1, map);
    show(&run, &sim, 0.5);
    assert!(written(&get(&ui, "/api/map?set=1").1) > written(&map));
    run.end(RunEnd::Complete);
    assert_eq!(get(&ui, "/api/state").1["run"]["end"], "complete");
    // The first end counts.
    run.end(RunEnd::Failed);
    assert_eq!(get(&ui, "/api/state").1["run"]["end"], "complete");
    assert!(written(&get(&ui, "/api/map?set=1").1) > written(&map), "the last state stays");
}

#[test]
fn nothing_of_the_drive_is_changed_and_the_reason_is_said() {
    let (run, ui) = view();
    show(&run, &drive(), 0.0);
    let (_, state) = get(&ui, "/api/state");
    for what in ["namespaces", "quotas", "power_cut", "faults"] {
        let why = state["allows"][what].as_str().unwrap();
        assert!(why.starts_with("this drive is simulated"), "{what}: {why}");
    }
    let new = json!({ "set": 1, "size": 4096, "lba_bytes": 4096 });
    for (method, address, body) in [
        ("POST", "/api/namespaces", new),
        ("DELETE", "/api/namespaces/1", json!({})),
        ("POST", "/api/namespaces/1/attach", json!({})),
        ("POST", "/api/namespaces/1/detach", json!({})),
        ("PUT", "/api/namespaces/1/quota", json!({ "weight": 7 })),
        ("POST", "/api/zones/1", json!({ "start": 0, "action": "open" })),
        ("POST", "/api/power-cut", json!({})),
        ("POST", "/api/faults", json!({ "kind": "clear" })),
    ] {
        let (status, answer) = change(&ui, method, address, &body);
        let why = answer["error"].as_str().unwrap();
        assert!(status == 403 && why.starts_with("this drive is simulated"), "{address}: {status} {why}");
    }
    let (status, answer) = get(&ui, "/api/zones?nsid=1");
    assert!(status == 403 && answer["error"].as_str().unwrap().contains("the map of the set"), "{answer}");
}

#[test]
fn the_page_says_how_fast_the_run_goes_until_it_is_over() {
    let (run, ui) = view();
    assert_eq!(run.pace(), Pace { speed: Speed::Times(0.5), paused: false });
    // Also before there is something to see.
    assert_eq!(change(&ui, "POST", "/api/run", &json!({ "speed": "max" })), (200, json!({})));
    assert_eq!(run.pace(), Pace { speed: Speed::Max, paused: false });
    show(&run, &drive(), 0.0);
    assert_eq!(change(&ui, "POST", "/api/run", &json!({ "paused": true })).0, 200);
    assert_eq!(run.pace(), Pace { speed: Speed::Max, paused: true });
    let (_, state) = get(&ui, "/api/state");
    assert_eq!((&state["run"]["speed"], &state["run"]["paused"]), (&json!("max"), &json!(true)));
    let (status, answer) = change(&ui, "POST", "/api/run", &json!({ "speed": 0, "paused": false }));
    assert_eq!(status, 400, "{answer}");
    assert!(run.pace().paused, "all of it or nothing");
    run.end(RunEnd::Interrupted);
    assert_eq!(
        change(&ui, "POST", "/api/run", &json!({ "speed": 1 })),
        (409, json!({ "error": "the run is over" }))
    );
}

#[test]
fn who_comes_late_is_told_what_was_shown_last() {
    let (run, ui) = view();
    let sim = drive();
    writes(&sim, 100);
    show(&run, &sim, 1.0);
    run.end(RunEnd::Complete);
    let mut stream = http::connect(ui.address());
    write!(stream, "GET /api/samples HTTP/1.1\r\nHost: {}\r\n{BEARER}\r\n", ui.address()).unwrap();
    let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
    let data = lines.by_ref().skip_while(|line| line != "event: sample").nth(1).unwrap();
    let sample: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
    assert_eq!((&sample["at_ns"], &sample["done"]), (&json!(sim.now().0), &json!(1.0)));
    assert_eq!(sample["namespaces"][0]["writes"], 100);
    assert!(sim.now() > Nanos::ZERO);
    let dies = sample["dies"]["1"].as_array().unwrap();
    let programs: u64 = dies.iter().map(|die| die[1].as_u64().unwrap()).sum();
    let host = sim.host("nqn.2026-11.org.example:load").unwrap();
    let told = sim.inspect(host.cntlid()).unwrap().die_times(1).unwrap();
    assert!(programs > 0 && programs == told.iter().map(|die| die.program_ns.get()).sum::<u64>());
}

#[test]
fn a_token_and_the_rules_of_sites_hold_for_runs() {
    let (run, ui) = view();
    show(&run, &drive(), 0.0);
    let ask = |headers: &str| with(ui.address(), "GET", "/api/state", headers, "").status;
    assert_eq!(ask(""), 401);
    assert_eq!(ask(BEARER), 200);
    assert_eq!(ask(&format!("{BEARER}Origin: http://elsewhere.example\r\n")), 403);
    let pace = |headers: &str| with(ui.address(), "POST", "/api/run", headers, r#"{"paused":true}"#).status;
    assert_eq!(pace(BEARER), 403, "no JSON");
    assert!(!run.pace().paused);
}
