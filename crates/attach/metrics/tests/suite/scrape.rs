//! What a scrape says of a drive that hosts use.

use crate::support::{Drive, Page};
use metrics::exposition::{Format, write};
use metrics::families::{self, Kind};
use nvme::zone::{ZoneManagementSend, ZoneSendAction};
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use testkit::skipped;

const READ: &str = "tranche_namespace_read_bytes_total";
const WRITTEN_METRIC: &str = "tranche_namespace_written_bytes_total";
const COMMANDS: &str = "tranche_namespace_commands_total";

#[test]
fn exactly_what_hosts_do_is_counted() {
    let drive = Drive::start();
    let mut host = drive.host("counted");
    let mut queue = host.io_queue(16).unwrap();
    let before = drive.page();
    assert_eq!(before.get(WRITTEN_METRIC, &[("nsid", "1")]), 0.0);
    let ns = host.namespace(1).unwrap();
    for _ in 0..5 {
        queue.write(&ns, 0, &[1; 8192], false).unwrap();
    }
    queue.read(&ns, 0, &mut [0; 4096]).unwrap();
    queue.flush(1).unwrap();
    queue.compare(&ns, 0, &[1; 4096]).unwrap();
    queue.deallocate(&ns, 0, 8192 / u64::from(ns.block_size)).unwrap();
    assert!(queue.compare(&ns, 0, &[1; 4096]).is_err());
    let page = drive.page();
    let of = |opcode| page.value(COMMANDS, &[("nsid", "1"), ("opcode", opcode)]);
    assert_eq!(page.get(WRITTEN_METRIC, &[("nsid", "1")]), 5.0 * 8192.0);
    assert_eq!(page.get(READ, &[("nsid", "1")]), 4096.0);
    assert_eq!((of("write"), of("read"), of("flush")), (Some(5.0), Some(1.0), Some(1.0)));
    assert_eq!((of("compare"), of("dataset_management"), of("copy")), (Some(1.0), Some(1.0), None));
    let write = [("nsid", "1"), ("opcode", "write")];
    assert_eq!(page.get("tranche_namespace_command_latency_seconds_count", &write), 5.0);
    assert_eq!(page.get("tranche_namespace_failed_commands_total", &[("nsid", "1")]), 1.0);
    assert_eq!(page.get("tranche_namespace_deallocated_bytes_total", &[("nsid", "1")]), 8192.0);
    assert_eq!(page.get(WRITTEN_METRIC, &[("nsid", "2")]), 0.0, "others are left alone");
    assert_eq!(page.get("tranche_set_host_written_bytes_total", &[("set", "1")]), 5.0 * 8192.0);
    let process = [("origin", "process")];
    assert_eq!(
        (page.get("tranche_controllers", &process), page.get("tranche_io_queues", &process)),
        (1.0, 1.0)
    );
}

#[test]
fn a_set_tells_what_its_medium_does() {
    let drive = Drive::start();
    let mut host = drive.host("set");
    let mut queue = host.io_queue(16).unwrap();
    let ns = host.namespace(1).unwrap();
    let blocks = 65536 / u64::from(ns.block_size);
    // Pages here and there, again and again, so that superblocks with valid pages are collected.
    let span = ns.blocks / blocks;
    let (mut rng, mut written) = (rng::Rng::new(1), 0.0);
    let gone = |page: &Page| page.get("tranche_set_collected_pages_total", &[("set", "1")]);
    while gone(&drive.page()) == 0.0 {
        for _ in 0..1000 {
            queue.write(&ns, rng.below(span) * blocks, &[3; 65536], false).unwrap();
            written += 65536.0;
        }
        assert!(written < 4e9, "nothing is collected");
    }
    let page = drive.page();
    let set = |name: &str| page.get(&format!("tranche_set_{name}"), &[("set", "1")]);
    assert_eq!(set("host_written_bytes_total"), written);
    assert!(set("media_written_bytes_total") > 0.9 * written);
    assert!(set("collections_total") > 0.0 && set("erased_blocks_total") > 0.0);
    // What pads its units counts as moved, too.
    assert!(set("media_collected_bytes_total") > 0.0);
    let amplification = set("media_written_bytes_total") / written;
    assert!((set("write_amplification_ratio") - amplification).abs() < 1e-9);
    assert!(set("free_superblocks") <= set("superblocks"));
    assert_eq!(page.value("tranche_set_superblocks", &[("set", "2")]), None, "DRAM has none");
    let mean = page.get("tranche_set_erase_cycles", &[("set", "1"), ("statistic", "max")]);
    assert!(mean >= 1.0 && set("spare_ratio") == 1.0);
}

#[test]
fn zones_are_counted_by_their_state() {
    let drive = Drive::start();
    let mut host = drive.host("zones");
    let ns = host.namespace(4).unwrap();
    let mut queue = host.io_queue(16).unwrap();
    let zones = |state| drive.page().get("tranche_namespace_zones", &[("nsid", "4"), ("state", state)]);
    let all = zones("empty");
    assert!(all > 1.0);
    queue.write(&ns, 0, &[1; 4096], false).unwrap();
    assert_eq!((zones("implicitly_opened"), zones("empty")), (1.0, all - 1.0));
    let finish = ZoneManagementSend {
        nsid: 4,
        slba: 0,
        action: ZoneSendAction::FINISH,
        select_all: false,
        zrwa: false,
    };
    let done = queue.call(finish.into(), host::Data::None).unwrap();
    assert!(done.completion.status().is_success());
    assert_eq!((zones("full"), zones("implicitly_opened")), (1.0, 0.0));
    let opcode = [("nsid", "4"), ("opcode", "zone_management_send")];
    assert_eq!(drive.page().get(COMMANDS, &opcode), 1.0);
    assert_eq!(drive.page().value("tranche_namespace_zones", &[("nsid", "1"), ("state", "empty")]), None);
}

#[test]
fn namespaces_come_and_go_between_scrapes() {
    let drive = Drive::start();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let scraper = scope.spawn(|| {
            let mut scrapes = 0;
            while !done.load(Ordering::Relaxed) || scrapes == 0 {
                drive.page();
                scrapes += 1;
            }
        });
        let mut host = drive.host("changes");
        for _ in 0..50 {
            let nsid = host.create_namespace(&host::namespace_create(256, 0, 1)).unwrap();
            let id = nsid.to_string();
            assert_eq!(drive.page().get(WRITTEN_METRIC, &[("nsid", &id)]), 0.0);
            host.delete_namespace(nsid).unwrap();
            assert_eq!(drive.page().value(WRITTEN_METRIC, &[("nsid", &id)]), None);
        }
        done.store(true, Ordering::Relaxed);
        scraper.join().unwrap();
    });
}

#[test]
fn a_power_cut_begins_the_counts_of_namespaces_anew_and_no_others() {
    let drive = Drive::start();
    let written = |page: &Page| {
        let ns = page.get(WRITTEN_METRIC, &[("nsid", "1")]);
        (ns, page.get("tranche_set_host_written_bytes_total", &[("set", "1")]))
    };
    let mut host = drive.host("cut");
    let ns = host.namespace(1).unwrap();
    host.io_queue(16).unwrap().write(&ns, 0, &[1; 8192], false).unwrap();
    assert_eq!(written(&drive.page()), (8192.0, 8192.0));
    host.power_cut(nvme::admin::PowerCut { after_media_ops: 0, off_ms: 1, seed: 0, no_plp: false }).unwrap();
    while drive.page().get("tranche_power_cycles_total", &[]) < 2.0 {
        std::thread::yield_now();
    }
    let page = drive.page();
    assert_eq!(page.get("tranche_drive_powered", &[]), 1.0);
    assert_eq!(page.get("tranche_power_cuts_total", &[]), 1.0);
    assert_eq!(written(&page), (0.0, 8192.0));
}

#[test]
fn both_formats_have_every_metric_of_the_table() {
    let (drive, _dir) = Drive::with_socket();
    let mut host = drive.host("formats");
    let ns = host.namespace(1).unwrap();
    host.io_queue(16).unwrap().write(&ns, 0, &[1; 8192], false).unwrap();
    let accept = "Accept: application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5\r\n";
    let open = drive.get("/metrics", accept);
    assert_eq!(open.headers["content-type"], Format::OpenMetrics.content_type());
    let (open, text) = (Page::parse(&open.body, true), drive.page());
    for family in families::all() {
        let name = family.name();
        let stem = match family.kind {
            Kind::Counter => name.strip_suffix("_total").unwrap(),
            Kind::Info => name.strip_suffix("_info").unwrap(),
            Kind::Gauge | Kind::Histogram => &name,
        };
        let (open, text) = (&open.metrics[stem], &text.metrics[&name]);
        assert_eq!((&*open.kind, &*open.help, &*text.help), (family.kind.name(), family.help, family.help));
        assert!(!open.lines.is_empty(), "{name} has no line");
        assert_eq!(open.lines.len(), text.lines.len(), "{name}");
        let names = family.labels.iter().copied().chain(["le"]).collect::<Vec<_>>();
        assert!(
            text.lines.iter().all(|(_, labels, _)| labels.keys().all(|l| names.contains(&&**l))),
            "{name}"
        );
        assert!(text.lines.iter().all(|(_, labels, _)| labels.len() >= family.labels.len()), "{name}");
    }
    assert_eq!(open.metrics.len(), families::all().count());
}

#[test]
fn prometheus_finds_nothing_wrong() {
    let checker = Command::new("promtool").args(["check", "metrics"]).stdin(Stdio::piped()).spawn();
    let Ok(mut checker) = checker else {
        return skipped(
            "prometheus_finds_nothing_wrong",
            "promtool is not installed (scripts/setup-debian.sh)",
        );
    };
    let drive = Drive::start();
    let page = write(drive.running.handle().snapshot().unwrap(), Format::Text).unwrap();
    checker.stdin.take().unwrap().write_all(page.as_bytes()).unwrap();
    assert!(checker.wait().unwrap().success());
}
