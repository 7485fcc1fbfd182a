//! What a page can change.

use crate::support::{Drive, harmful};
use serde_json::{Value, json};

#[test]
fn a_namespace_from_its_creation_to_its_end() {
    let drive = Drive::start();
    let mut host = drive.host("other");
    let new = json!({ "set": 2, "size": 2 << 20, "lba_bytes": 4096, "attach": true });
    let made = drive.done("POST", "/api/namespaces", &new);
    let nsid = made["nsid"].as_u64().unwrap();
    let number = u32::try_from(nsid).unwrap();
    assert!(made["controllers"].as_array().unwrap().contains(&json!(host.cntlid())), "{made}");
    let ns = drive.namespace(nsid).unwrap();
    assert_eq!(
        (&ns["size"], &ns["lba_bytes"], &ns["attached"]),
        (&json!(2 << 20), &json!(4096), &json!(true))
    );
    assert!(host.active_namespaces().unwrap().contains(&number));

    let address = format!("/api/namespaces/{nsid}");
    assert!(drive.change("DELETE", &address, &json!({})).refused(409).contains("force=true"));
    let detached = drive.done("POST", &format!("{address}/detach"), &json!({}));
    assert!(detached["controllers"].as_array().unwrap().contains(&json!(host.cntlid())));
    assert!(!host.active_namespaces().unwrap().contains(&number));
    assert_eq!(drive.namespace(nsid).unwrap()["attached"], false);
    let attached = drive.done("POST", &format!("{address}/attach"), &json!({}));
    assert!(attached["controllers"].as_array().unwrap().contains(&json!(host.cntlid())));
    let again = drive.done("POST", &format!("{address}/attach"), &json!({}));
    assert_eq!(again["controllers"], json!([]));
    drive.done("DELETE", &format!("{address}?force=true"), &json!({}));
    assert!(drive.namespace(nsid).is_none() && !host.allocated_namespaces().unwrap().contains(&number));
    assert!(
        drive.change("POST", &format!("{address}/attach"), &json!({})).refused(404).contains("the drive has")
    );
    drive.change("DELETE", &address, &json!({})).refused(404);
}

#[test]
fn what_cannot_be_created_says_why() {
    let drive = Drive::start();
    let refused = |new: Value, status| drive.change("POST", "/api/namespaces", &new).refused(status);
    let large = refused(json!({ "set": 2, "size": 1u64 << 40, "lba_bytes": 512 }), 409);
    assert!(large.contains("unallocated"), "{large}");
    assert!(refused(json!({ "set": 9, "size": 1 << 20, "lba_bytes": 512 }), 400).contains("no NVM Set 9"));
    assert!(refused(json!({ "set": 1, "size": 1 << 20, "lba_bytes": 520 }), 400).contains("lba_formats"));
    refused(json!({ "set": 1, "size": 1000, "lba_bytes": 512 }), 400);
    refused(json!({ "set": 1, "size": 0, "lba_bytes": 512 }), 400);
    refused(json!({ "set": 0, "size": 1 << 20, "lba_bytes": 512 }), 400);
    let zoned = refused(json!({ "set": 1, "size": 1 << 20, "lba_bytes": 4096, "zoned": true }), 400);
    assert!(zoned.contains("multiple"), "{zoned}");
    assert_eq!(drive.json("/api/state")["namespaces"].as_array().unwrap().len(), 3);
}

#[test]
fn quotas_hold_at_once_and_what_is_not_said_stays() {
    let drive = Drive::start();
    let set = |values: Value| drive.done("PUT", "/api/namespaces/1/quota", &values);
    let quota = set(json!({ "read_bandwidth": 1_000_000, "write_iops": 50, "weight": 300 }));
    let expected = json!({
        "read_bandwidth": 1_000_000, "write_bandwidth": 0, "read_iops": 0, "write_iops": 50, "burst_us": 1000, "weight": 300
    });
    assert_eq!(quota, expected);
    let quota = set(json!({ "read_bandwidth": 0, "burst_us": 5000 }));
    assert_eq!(
        (&quota["read_bandwidth"], &quota["write_iops"], &quota["burst_us"]),
        (&json!(0), &json!(50), &json!(5000))
    );
    assert_eq!(drive.namespace(1).unwrap()["quota"], quota);
    let mut host = drive.host("other");
    let seen = host.quota(1, nvme::feature::Select::CURRENT).unwrap();
    assert_eq!(seen.limit(nvme::quota::QuotaKind::WriteCommands), Some(50));
    let saved = host.quota(1, nvme::feature::Select::SAVED).unwrap();
    assert_eq!(saved.limit(nvme::quota::QuotaKind::WriteCommands), None);
    set(json!({ "save": true }));
    let saved = host.quota(1, nvme::feature::Select::SAVED).unwrap();
    assert_eq!(saved.limit(nvme::quota::QuotaKind::WriteCommands), Some(50));
    for wrong in
        [json!({ "read_bandwidth": 1 }), json!({ "weight": 1001 }), json!({ "burst_us": 10_000_001 })]
    {
        drive.change("PUT", "/api/namespaces/1/quota", &wrong).refused(400);
    }
    drive.change("PUT", "/api/namespaces/77/quota", &json!({ "weight": 5 })).refused(404);
}

#[test]
fn zones_are_shown_and_changed() {
    let drive = Drive::start();
    let zones = || drive.json("/api/zones?nsid=3");
    let all = zones();
    let size = all["zone_bytes"].as_u64().unwrap();
    let list = all["zones"].as_array().unwrap();
    let state = drive.json("/api/state");
    let ns = &state["namespaces"][2];
    assert_eq!((json!(list.len()), &json!(size)), (ns["zone_count"].clone(), &state["sets"][0]["zone_size"]));
    assert!(
        list.iter().all(|zone| zone["state"] == "empty" && zone["write_pointer"] == zone["start"]),
        "{all}"
    );
    let act = |start: u64, action: &str| {
        drive.change("POST", "/api/zones/3", &json!({ "start": start, "action": action }))
    };
    assert_eq!(act(0, "open").status, 200);
    let mut host = drive.host("writer");
    let ns = host.namespace(3).unwrap();
    host.io_queue(4).unwrap().write(&ns, size / u64::from(ns.block_size), &[1; 8192], false).unwrap();
    let all = zones();
    let (first, second) = (&all["zones"][0], &all["zones"][1]);
    assert_eq!(first["state"], "explicitly opened");
    assert_eq!(
        (&second["state"], &second["write_pointer"]),
        (&json!("implicitly opened"), &json!(size + 8192))
    );
    for (action, state) in [("close", "closed"), ("finish", "full"), ("reset", "empty")] {
        assert_eq!(act(size, action).status, 200, "{action}");
        assert_eq!(zones()["zones"][1]["state"], state);
    }
    assert!(act(1, "open").refused(400).contains("begin at multiples"));
    act(1 << 50, "open").refused(400);
    assert!(act(size, "close").refused(409).contains("Zone"), "an empty zone cannot be closed");
    act(0, "explode").refused(400);
    // One without zones, one that is not there, and one that is not attached to the view.
    drive.get("/api/zones?nsid=1").refused(400);
    drive.get("/api/zones?nsid=99").refused(404);
    drive.done("POST", "/api/namespaces/3/detach", &json!({}));
    assert!(drive.get("/api/zones?nsid=3").refused(409).contains("attach it first"));
    assert!(act(0, "reset").refused(409).contains("attach"));
    drive.done("POST", "/api/namespaces/3/attach", &json!({}));
    assert_eq!(zones()["zones"][0]["state"], "explicitly opened");
}

#[test]
fn a_zoned_namespace_is_created_by_whole_zones() {
    let drive = Drive::start();
    let size = drive.json("/api/state")["sets"][0]["zone_size"].as_u64().unwrap();
    // The zones that may be active are those of the first one until it goes.
    drive.done("DELETE", "/api/namespaces/3?force=true", &json!({}));
    let new = json!({ "set": 1, "size": 2 * size, "lba_bytes": 4096, "zoned": true, "attach": true });
    let nsid = drive.done("POST", "/api/namespaces", &new)["nsid"].as_u64().unwrap();
    let ns = drive.namespace(nsid).unwrap();
    assert_eq!((&ns["zoned"], &ns["zone_count"]), (&json!(true), &json!(2)));
    assert_eq!(drive.json(&format!("/api/zones?nsid={nsid}"))["zones"].as_array().unwrap().len(), 2);
}

#[test]
fn power_cuts_and_faults_are_refused_where_the_drive_does_not_allow_them() {
    let drive = Drive::start();
    let why = drive.change("POST", "/api/power-cut", &json!({})).refused(403);
    assert!(why.contains("allow_network_faults"), "{why}");
    let why = drive.change("POST", "/api/faults", &json!({ "set": 1, "kind": "clear" })).refused(403);
    assert!(why.contains("allow_network_faults"), "{why}");
    assert_eq!(drive.running.handle().snapshot().unwrap().drive.unsafe_shutdowns, 0);
    // Hosts of this process may, all the same.
    let clear = nvme::admin::FaultInjection {
        nsid: 0,
        kind: nvme::admin::FaultKind::CLEAR,
        nvmsetid: 0,
        count: 0,
        one_in: 0,
        param: 0,
        lba: None,
    };
    drive.host("near").inject_fault(clear).unwrap();
}

#[test]
fn faults_happen_where_they_are_allowed() {
    let drive = Drive::of(&harmful(), ui::Options::default());
    let mut host = drive.host("reader");
    let ns = host.namespace(1).unwrap();
    let mut queue = host.io_queue(4).unwrap();
    queue.write(&ns, 0, &[1; 4096], false).unwrap();
    queue.flush(1).unwrap();
    // More than the write buffer holds, so that the first block is on flash.
    for block in 1..600 {
        queue.write(&ns, block * 4096 / u64::from(ns.block_size), &[2; 4096], false).unwrap();
    }
    queue.read(&ns, 0, &mut [0; 4096]).unwrap();
    drive.done("POST", "/api/faults", &json!({ "set": 1, "kind": "uncorrectable", "count": 1 }));
    drive.done("POST", "/api/faults", &json!({ "set": 2, "kind": "slow", "parameter": 3, "one_in": 4 }));
    let listed = json!([
        { "kind": "uncorrectable", "id": 1, "one_in": 1, "parameter": 0, "remaining": 1 },
        { "kind": "slow", "id": 2, "one_in": 4, "parameter": 3, "remaining": 0 },
    ]);
    let mut events = drive.events();
    assert!((0..20).any(|_| events.wait("sample")["faults"] == listed), "the samples do not list the faults");
    assert!(queue.read(&ns, 0, &mut [0; 4096]).is_err());
    drive.done("POST", "/api/faults", &json!({ "kind": "clear" }));
    let refused = |fault: Value| drive.change("POST", "/api/faults", &fault).refused(400);
    assert!(refused(json!({ "kind": "meteor" })).contains("stuck-die"));
    for (fault, range) in [
        (json!({ "kind": "slow", "parameter": 1 }), "the factor is 1, and must be 2 or more"),
        (json!({ "set": 9, "kind": "lost-write" }), "there is no NVM Set 9 (the drive has 1 to "),
        (
            json!({ "set": 1, "kind": "stuck-die", "parameter": 99 }),
            "there is no die 99 in NVM Set 1 (it has 0 to ",
        ),
        (json!({ "kind": "slow", "parameter": 2, "count": 1 }), "the count is 1"),
        (json!({ "kind": "lost-write", "one_in": 2_000_000_000 }), "1 to 1000000000"),
    ] {
        let why = refused(fault);
        assert!(why.contains(range), "{why}");
    }
    for off in [0, 60_001] {
        let cut = drive.change("POST", "/api/power-cut", &json!({ "off_ms": off }));
        assert!(cut.refused(400).contains("off_ms"));
    }
}
