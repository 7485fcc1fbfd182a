//! What a page is told of a drive that hosts use.

use crate::support::{Drive, harmful};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};

fn by_id<'a>(list: &'a Value, key: &str, id: u64) -> &'a Value {
    list.as_array()
        .unwrap()
        .iter()
        .find(|one| one[key] == id)
        .unwrap_or_else(|| panic!("no {key} {id} in {list}"))
}

#[test]
fn the_state_is_that_of_the_drive() {
    let drive = Drive::start();
    let mut host = drive.host("other");
    let state = drive.json("/api/state");
    assert_eq!(state["drive"]["nqn"], drive.running.handle().subsystem_nqn());
    assert_eq!(state["view"]["interval_ms"], 500);
    assert_eq!(
        state["allows"],
        json!({ "namespaces": true, "quotas": true, "power_cut": false, "faults": false })
    );
    let nand = by_id(&state["sets"], "id", 1);
    assert_eq!((&nand["medium"], &nand["dies"], &nand["zones"]), (&json!("nand"), &json!(4), &json!(true)));
    assert_eq!((&nand["rated_cycles"], &nand["spare_percent"]), (&json!(3000), &json!(100)));
    assert!(nand["superblocks"].as_u64() > Some(8) && nand["zone_size"].as_u64() > Some(1 << 20));
    let dram = by_id(&state["sets"], "id", 2);
    assert_eq!(
        (&dram["medium"], &dram["superblocks"], &dram["rated_cycles"]),
        (&json!("dram"), &json!(0), &Value::Null)
    );
    assert_eq!((dram["capacity"].as_u64(), dram["unallocated"].as_u64()), (Some(16 << 20), Some(8 << 20)));
    let first = by_id(&state["namespaces"], "nsid", 1);
    assert_eq!(
        (&first["set"], &first["medium"], &first["zoned"]),
        (&json!(1), &json!("nand"), &json!(false))
    );
    assert_eq!((first["size"].as_u64(), first["used"].as_u64()), (Some(176 << 20), Some(0)));
    assert_eq!((&first["attached"], &first["attached_here"]), (&json!(true), &json!(true)));
    assert_eq!(first["quota"]["weight"], 100);
    let zoned = by_id(&state["namespaces"], "nsid", 3);
    assert!(zoned["zoned"] == true && zoned["zone_count"].as_u64() > Some(1), "{zoned}");
    let names: Vec<&str> =
        state["hosts"].as_array().unwrap().iter().map(|host| host["nqn"].as_str().unwrap()).collect();
    assert!(names.contains(&"nqn.2026-11.test:other") && names.contains(&ui::HOST_NQN), "{names:?}");
    let views = state["hosts"].as_array().unwrap().iter().filter(|host| host["view"] == true);
    assert_eq!(
        views.map(|host| host["cntlid"].clone()).collect::<Vec<_>>(),
        [state["view"]["cntlid"].clone()]
    );
    // What the namespaces of a set take and what is left add up to its capacity.
    let bytes = |value: &Value| value.as_u64().unwrap();
    for set in state["sets"].as_array().unwrap() {
        let own = state["namespaces"].as_array().unwrap().iter().filter(|ns| ns["set"] == set["id"]);
        let taken: u64 = own.map(|ns| bytes(&ns["allocated"])).sum();
        assert_eq!(taken + bytes(&set["unallocated"]), bytes(&set["capacity"]), "{state}");
    }
    assert_eq!(state["lba_formats"], json!([512, 4096]));
    // What a host writes is used.
    let ns = host.namespace(1).unwrap();
    let mut queue = host.io_queue(4).unwrap();
    queue.write(&ns, 0, &[1; 65536], false).unwrap();
    assert_eq!(drive.namespace(1).unwrap()["used"], 65536);
    // Each kind of fault is known by one name.
    let kinds = state["fault_kinds"].as_array().unwrap();
    assert!(
        kinds.iter().any(|kind| *kind == json!({ "kind": "slow", "counted": false, "parameter": "factor" }))
    );
}

/// Ends a load, also when its test fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn samples_come_while_a_load_runs() {
    let drive = Drive::start();
    let mut events = drive.events();
    let (name, state) = events.next();
    assert_eq!((&*name, &state["namespaces"][0]["nsid"]), ("state", &json!(1)));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut host = drive.host("load");
            let ns = host.namespace(1).unwrap();
            let mut queue = host.io_queue(8).unwrap();
            while !stop.load(Ordering::Relaxed) {
                queue.write(&ns, 0, &[1; 8192], false).unwrap();
                queue.read(&ns, 0, &mut [0; 4096]).unwrap();
            }
        });
        let _stop = Stop(&stop);
        let written = |sample: &Value| by_id(&sample["namespaces"], "nsid", 1)["written"].as_u64().unwrap();
        let mut before = events.wait("sample");
        let mut percentiles = false;
        for _ in 0..8 {
            let now = events.wait("sample");
            assert!(now["at_ns"].as_u64() > before["at_ns"].as_u64());
            assert!(now["power_on_ns"].as_u64() > before["power_on_ns"].as_u64());
            assert!(written(&now) >= written(&before), "{now} {before}");
            let (ns, old) = (by_id(&now["namespaces"], "nsid", 1), by_id(&before["namespaces"], "nsid", 1));
            let count = |ns: &Value| ns["write_latency"]["count"].as_u64().unwrap();
            // A busy machine may miss a sample, and percentiles are of the last interval.
            let ended = count(ns) > count(old);
            assert!(ended || ns["write_latency"]["p99"].is_null(), "{ns} {old}");
            percentiles |= ns["write_latency"]["p999"].as_u64() > Some(0);
            before = now;
        }
        assert!(percentiles && written(&before) > 0, "{before}");
        let idle = by_id(&before["namespaces"], "nsid", 2);
        assert_eq!(
            (&idle["reads"], &idle["queued"], &idle["write_latency"]["p50"]),
            (&json!(0), &json!(0), &Value::Null)
        );
        assert!(before["drive"]["host_written"].as_u64() >= Some(written(&before)));
        assert!(before["drive"]["temperature_k"].as_u64() > Some(200));
    });
}

#[test]
fn a_change_is_told_to_those_who_watch() {
    let drive = Drive::start();
    let mut events = drive.events();
    assert_eq!(events.next().0, "state");
    events.wait("sample");
    let made = drive.done("POST", "/api/namespaces", &json!({ "set": 2, "size": 1 << 20, "lba_bytes": 512 }));
    let nsid = made["nsid"].as_u64().unwrap();
    for _ in 0..100 {
        let state = events.wait("state");
        if state["namespaces"].as_array().unwrap().iter().any(|ns| ns["nsid"] == nsid) {
            return;
        }
    }
    panic!("namespace {nsid} is not told of");
}

#[test]
fn the_map_shows_collection() {
    // With the times of its medium, so that collection takes a while; and nearly full.
    let small =
        [("timing = false", "timing = true"), ("256MiB", "64MiB"), ("60%", "28%"), ("176MiB", "60MiB")];
    let mut toml = small.iter().fold(crate::support::drive(), |toml, (from, to)| toml.replace(from, to));
    toml.truncate(toml.rfind("[[namespace]]").unwrap());
    let drive = Drive::of(&toml, ui::Options::default());
    let blank = drive.json("/api/map?set=1");
    let superblocks = blank["superblocks"].as_array().unwrap();
    assert!(superblocks.iter().all(|one| one["state"] == "free" && one["written_permille"] == 0), "{blank}");
    assert_eq!(
        (&blank["medium"], &blank["dies"], &blank["erase_limit"]),
        (&json!("nand"), &json!(4), &json!(3000))
    );
    let mut host = drive.host("load");
    let ns = host.namespace(1).unwrap();
    let mut queue = host.io_queue(8).unwrap();
    let blocks = 65536 / u64::from(ns.block_size);
    let mut rng = rng::Rng::new(1);
    let mut seen = std::collections::BTreeSet::new();
    for round in 0..1000 {
        for _ in 0..20 {
            let at = rng.below(ns.blocks / blocks) * blocks;
            queue.write(&ns, at, &[3; 65536], false).unwrap();
        }
        let map = drive.json("/api/map?set=1");
        for one in map["superblocks"].as_array().unwrap() {
            let valid = one["valid_permille"].as_u64().unwrap();
            assert!(valid <= 1000 && valid <= one["written_permille"].as_u64().unwrap(), "{one}");
            seen.insert(one["state"].as_str().unwrap().to_owned());
        }
        let worn = map["superblocks"].as_array().unwrap().iter().any(|one| one["erases"].as_u64() > Some(0));
        if worn && seen.contains("collecting") {
            assert!(seen.contains("open") && seen.contains("closed"), "{seen:?}");
            return;
        }
        assert!(round < 999, "nothing is collected: {seen:?}");
    }
}

#[test]
fn a_set_without_superblocks_says_how_full_it_is() {
    let drive = Drive::start();
    let mut host = drive.host("writer");
    let ns = host.namespace(2).unwrap();
    host.io_queue(4).unwrap().write(&ns, 0, &[1; 131_072], false).unwrap();
    let map = drive.json("/api/map?set=2");
    assert_eq!(map, json!({ "set": 2, "medium": "dram", "capacity": 16 << 20, "used": 131_072 }));
    assert!(drive.get("/api/map?set=3").refused(404).contains("there is no NVM Set 3"));
    drive.get("/api/map").refused(400);
}

#[test]
fn a_view_that_began_before_a_power_cut_goes_on_after_it() {
    let drive = Drive::of(&harmful(), ui::Options::default());
    assert_eq!(drive.json("/api/state")["allows"]["power_cut"], true);
    let mut events = drive.events();
    let mut host = drive.host("writer");
    let ns = host.namespace(1).unwrap();
    host.io_queue(4).unwrap().write(&ns, 0, &[1; 65536], false).unwrap();
    let written = |sample: &Value, count: &str| sample["drive"][count].as_u64();
    let before = loop {
        let sample = events.wait("sample");
        if written(&sample, "host_written") == Some(65536) {
            assert_eq!(written(&sample, "lifetime_written"), Some(65536));
            break sample["power_on_ns"].as_u64();
        }
    };
    drive.done("POST", "/api/power-cut", &json!({ "off_ms": 2000 }));
    let gone = events.wait("gone");
    assert!(gone["reason"].as_str().unwrap().starts_with("The drive has "), "{gone}");
    let mut state = false;
    let after = loop {
        let (name, data) = events.next();
        match &*name {
            "sample" => break data,
            "state" => state = true,
            _ => {}
        }
    };
    assert!(state, "a state comes before the first sample");
    assert!(after["power_on_ns"].as_u64() > Some(0) && before > Some(0));
    assert_eq!(written(&after, "host_written"), Some(0));
    assert_eq!(written(&after, "lifetime_written"), Some(65536));
    assert!(drive.running.handle().snapshot().unwrap().drive.unsafe_shutdowns > 0);
}
