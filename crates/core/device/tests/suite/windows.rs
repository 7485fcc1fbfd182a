//! Predictable Latency Mode, and NVM Sets that do not disturb each other: exact in virtual time.

use crate::common::table::Table;
use crate::common::{Bench, bytes, initial, small};
use device::{Config, Origin};
use media::{Nanos, Rng};
use nvme::admin::*;
use nvme::aer::{AsyncEvent, NoticeInfo};
use nvme::feature::{AsyncEventConfiguration, FeatureId, Select};
use nvme::identify::{Cns, IdentifyController};
use nvme::log::LogId;
use nvme::plm::*;
use nvme::zerocopy::FromBytes;
use nvme::{Command, Csi, NSID_ALL, Status, U64};

const BLOCKS: u64 = 14_336;

/// The small drive with time, and a namespace of 56 MiB on set 1, which can have windows of twelve superblocks.
fn drive() -> Config {
    let mut config = small(&[
        ("[drive]", "[drive]\ntiming = true"),
        ("spare = \"28%\"\n", "spare = \"60%\"\nwindow = { superblocks = 12, time = \"2s\" }\n"),
    ]);
    config.namespaces.push(initial(1, BLOCKS * 4096));
    config
}

fn set(fid: FeatureId, nvmsetid: u32, cdw12: u32) -> SetFeatures {
    SetFeatures { nsid: 0, fid, sv: false, uidx: 0, cdw11: nvmsetid, cdw12, cdw13: 0, cdw15: 0 }
}

fn get(fid: FeatureId, nvmsetid: u32) -> GetFeatures {
    GetFeatures { nsid: 0, fid, sel: Select::CURRENT, uidx: 0, cdw11: nvmsetid }
}

fn log(lid: LogId, lsi: u16, bytes: u64) -> GetLogPage {
    GetLogPage {
        nsid: NSID_ALL,
        lid,
        lsp: 0,
        lsi,
        rae: false,
        dwords: bytes / 4,
        offset: 0,
        ot: false,
        csi: Csi::NVM,
        uidx: 0,
    }
}

fn window_log(b: &mut Bench) -> PredictableLatencyLog {
    b.ask(log(LogId::PREDICTABLE_LATENCY, 1, 512))
}

fn enable(b: &mut Bench, config: &PredictableLatencyConfig, save: bool) {
    let command = SetFeatures { sv: save, ..set(FeatureId::PREDICTABLE_LATENCY_CONFIG, 1, 1) };
    b.admin_ok(command, &bytes(config));
}

fn window(b: &mut Bench, select: WindowSelect) {
    b.admin_ok(set(FeatureId::PREDICTABLE_LATENCY_WINDOW, 1, select.0.into()), &[]);
}

/// Overwrites random blocks for a time, one each 100 us, and reads one each 100 us; returns the longest read in ns and
/// what collection moved.
fn load(b: &mut Bench, rng: &mut Rng, writes: u64) -> (u64, u64) {
    let moved = |b: &Bench| b.drive.ftl().set_stats(ftl::SetId(0)).media_gc_bytes;
    let before = moved(b);
    let mut longest = 0;
    for _ in 0..writes {
        let id = b.controller;
        let write = b.submit(id, 1, &Command::write(1, rng.below(BLOCKS), 1), &[3; 4096]);
        let read = b.submit(id, 1, &Command::read(1, rng.below(BLOCKS), 1), &[]);
        let begun = b.now;
        let next = Nanos(b.now.0 + 100_000);
        b.run_until(next);
        for io in [write, read] {
            b.wait(io);
        }
        // Completions that were waited for came later.
        longest = longest.max(b.now.since(begun).0);
        let idle = b.now.0.max(next.0);
        b.run_until(Nanos(idle));
    }
    (longest, moved(b) - before)
}

fn fill(b: &mut Bench, rng: &mut Rng) {
    for slba in (0..BLOCKS).step_by(16) {
        b.write(1, slba, 16, &[1; 65536]);
    }
    for _ in 0..2 * BLOCKS {
        b.write(1, rng.below(BLOCKS), 1, &[2; 4096]);
    }
}

#[test]
fn a_deterministic_window_has_no_collection() {
    let mut b = Bench::new(drive());
    let mut rng = Rng::new(3);
    enable(&mut b, &PredictableLatencyConfig::default(), false);
    fill(&mut b, &mut rng);
    let idle = Nanos(b.now.0 + 2_000_000_000);
    b.run_until(idle);
    // Without a window, collection gets in the way of the same load.
    let (longest, moved) = load(&mut b, &mut rng, 6000);
    let idle = Nanos(b.now.0 + 2_000_000_000);
    b.run_until(idle);
    let l = window_log(&mut b);
    assert_eq!(l.status, WindowSelect::NON_DETERMINISTIC);
    assert!(l.dtwinwe.get() >= 3000, "{} blocks can be written", l.dtwinwe.get());
    window(&mut b, WindowSelect::DETERMINISTIC);
    let begun = b.now;
    let (quiet, held) = load(&mut b, &mut rng, 3000);
    let l = window_log(&mut b);
    println!("moved {moved}, longest read {longest} ns; in a window {held}, {quiet} ns");
    assert_eq!(l.status, WindowSelect::DETERMINISTIC);
    assert!(moved > 0 && held == 0, "collection moved {moved} without, {held} in the window");
    assert!(quiet < longest, "{quiet} ns in the window, {longest} without");
    assert_eq!(l.dtwinre.get(), l.dtwinrt.get() - 3000);
    assert!(l.dtwinwe.get() + 3000 <= l.dtwinwt.get() + 1024 && l.dtwinwe.get() > 0);
    assert_eq!(l.dtwinte.get(), 2000 - b.now.since(begun).0 / 1_000_000);
    // It is over when the host says so.
    window(&mut b, WindowSelect::NON_DETERMINISTIC);
    let (_, moved) = load(&mut b, &mut rng, 1000);
    assert!(moved > 0);
}

#[test]
fn a_window_ends_by_itself_and_says_so() {
    let mut b = Bench::new(drive());
    let mut rng = Rng::new(4);
    let events = WindowEvents::new().with_writes(true).with_time(true).with_exceeded(true);
    let config = PredictableLatencyConfig {
        ee: events,
        dtwinwt: U64::new(500),
        dtwintt: U64::new(1000),
        ..Default::default()
    };
    enable(&mut b, &config, true);
    fill(&mut b, &mut rng);
    let idle = Nanos(b.now.0 + 2_000_000_000);
    b.run_until(idle);
    let notices = AsyncEventConfiguration::new().with_pleln(true).into_bits().get();
    let events = SetFeatures { cdw11: notices, ..set(FeatureId::ASYNC_EVENT_CONFIGURATION, 0, 0) };
    b.admin_ok(events, &[]);
    let id = b.controller;
    let request = b.submit(id, 0, &AdminCommand::AsyncEventRequest.into(), &[]);

    // By time: first the warning, then the end.
    window(&mut b, WindowSelect::DETERMINISTIC);
    let begun = b.now;
    b.run_until(Nanos(begun.0 + 990_000_000));
    assert!(!b.done.contains_key(&request));
    b.run_until(Nanos(begun.0 + 1_010_000_000));
    let (completion, _) = b.wait(request);
    let event = AsyncEvent::from_dw0(completion.dw0.get());
    assert_eq!(
        (event.info(), event.lid()),
        (NoticeInfo::PREDICTABLE_LATENCY.0, LogId::PREDICTABLE_LATENCY_EVENTS)
    );
    let (_, aggregate) = b.admin_ok(log(LogId::PREDICTABLE_LATENCY_EVENTS, 0, 12), &[]);
    assert_eq!(aggregate, [1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]);
    let l = window_log(&mut b);
    assert!(l.event_type.time() && !l.event_type.exceeded() && !l.event_type.writes());
    assert_eq!(l.status, WindowSelect::DETERMINISTIC);
    let (_, aggregate) = b.admin_ok(log(LogId::PREDICTABLE_LATENCY_EVENTS, 0, 12), &[]);
    assert_eq!(aggregate[0], 0, "it was read");
    b.run_until(Nanos(begun.0 + 2_010_000_000));
    let l = window_log(&mut b);
    assert!(l.event_type.exceeded() && l.status == WindowSelect::NON_DETERMINISTIC);
    assert_eq!(b.admin_ok(get(FeatureId::PREDICTABLE_LATENCY_WINDOW, 1), &[]).0, 2);

    // By writes: more of them than was collected for.
    window(&mut b, WindowSelect::DETERMINISTIC);
    for _ in 0..10_000 {
        b.write(1, rng.below(BLOCKS), 1, &[9; 4096]);
    }
    let l = window_log(&mut b);
    assert!(l.event_type.writes() && l.event_type.exceeded());
    assert_eq!(l.status, WindowSelect::NON_DETERMINISTIC);

    // What is saved outlives power; the window does not.
    window(&mut b, WindowSelect::DETERMINISTIC);
    b.cut(true);
    b.power_on();
    let (enabled, data) = b.admin_ok(get(FeatureId::PREDICTABLE_LATENCY_CONFIG, 1), &[]);
    assert_eq!(enabled, 1);
    let kept = PredictableLatencyConfig::read_from_bytes(&data).unwrap_or_default();
    assert_eq!((kept.dtwinwt.get(), kept.dtwintt.get()), (500, 1000));
    assert_eq!(window_log(&mut b).status, WindowSelect::NON_DETERMINISTIC);
}

/// A drive in a deterministic window, and the Asynchronous Event Request that waits for an event of [`WindowEvents`].
fn in_a_window(events: WindowEvents, rng: &mut Rng) -> (Bench, u32) {
    let mut b = Bench::new(drive());
    enable(&mut b, &PredictableLatencyConfig { ee: events, ..Default::default() }, false);
    fill(&mut b, rng);
    let idle = Nanos(b.now.0 + 2_000_000_000);
    b.run_until(idle);
    let notices = AsyncEventConfiguration::new().with_pleln(true).into_bits().get();
    b.admin_ok(SetFeatures { cdw11: notices, ..set(FeatureId::ASYNC_EVENT_CONFIGURATION, 0, 0) }, &[]);
    let id = b.controller;
    let request = b.submit(id, 0, &AdminCommand::AsyncEventRequest.into(), &[]);
    window(&mut b, WindowSelect::DETERMINISTIC);
    (b, request)
}

#[test]
fn a_sanitize_operation_is_an_excursion() {
    for events in [WindowEvents::new().with_excursion(true), WindowEvents::new().with_exceeded(true)] {
        let (mut b, request) = in_a_window(events, &mut Rng::new(5));
        let block_erase = Sanitize {
            sanact: SanitizeAction::BLOCK_ERASE,
            ause: false,
            owpass: 0,
            oipbp: false,
            ndas: false,
            emvs: false,
            ovrpat: 0,
        };
        b.admin_ok(block_erase, &[]);
        assert_eq!(b.admin_ok(get(FeatureId::PREDICTABLE_LATENCY_WINDOW, 1), &[]).0, 2);
        // A window that begins while everything is erased ends likewise.
        window(&mut b, WindowSelect::DETERMINISTIC);
        let erased = Nanos(b.now.0 + 1_000_000_000);
        b.run_until(erased);
        // Who has not asked for it hears of the end of the sanitize operation first.
        let (completion, _) = b.wait(request);
        let about = AsyncEvent::from_dw0(completion.dw0.get()).lid();
        assert_eq!(about == LogId::PREDICTABLE_LATENCY_EVENTS, events.excursion(), "{about}");
        let log = window_log(&mut b);
        assert!(log.event_type.excursion() && !log.event_type.exceeded(), "{:?}", log.event_type);
        assert_eq!(log.status, WindowSelect::NON_DETERMINISTIC);
        assert_eq!(window_log(&mut b).event_type, WindowEvents::new(), "it was read");
    }
}

#[test]
fn failed_programs_that_take_the_room_of_a_window_are_an_excursion() {
    let asked = WindowEvents::new().with_exceeded(true).with_excursion(true);
    let mut written = Vec::new();
    for failures in [0, 60] {
        let mut rng = Rng::new(6);
        let (mut b, _) = in_a_window(asked, &mut rng);
        let fault = FaultInjection {
            nsid: 0,
            kind: FaultKind::PROGRAM_FAILURE,
            nvmsetid: 1,
            count: failures,
            one_in: 0,
            param: 0,
            lba: None,
        };
        if failures > 0 {
            b.admin_ok(fault, &[]);
        }
        let mut blocks = 0u64;
        // Looking at the feature does not take the events away.
        while b.admin_ok(get(FeatureId::PREDICTABLE_LATENCY_WINDOW, 1), &[]).0 == 1 {
            b.write(1, rng.below(BLOCKS), 1, &[9; 4096]);
            blocks += 1;
        }
        let soon = Nanos(b.now.0 + 10_000_000);
        b.run_until(soon);
        let log = window_log(&mut b);
        assert_eq!(log.status, WindowSelect::NON_DETERMINISTIC);
        let failed = failures > 0;
        assert_eq!((log.event_type.exceeded(), log.event_type.excursion()), (!failed, failed), "{blocks}");
        written.push(blocks);
    }
    assert!(written[1] < written[0], "{written:?}");
}

#[test]
fn refused_windows() {
    let mut b = Bench::new(drive());
    let identify = Identify { nsid: 0, cns: Cns::CONTROLLER, cntid: 0, cnssid: 0, csi: Csi::NVM, uidx: 0 };
    let c: IdentifyController = b.ask(identify);
    assert!(c.ctratt.plm() && c.oaes.pleln());
    let config = FeatureId::PREDICTABLE_LATENCY_CONFIG;
    let select = FeatureId::PREDICTABLE_LATENCY_WINDOW;
    let good = bytes(&PredictableLatencyConfig::default());
    let reserved =
        bytes(&PredictableLatencyConfig { ee: WindowEvents::from_bits(8.into()), ..Default::default() });
    let field = Status::INVALID_FIELD;
    let rows: [(&str, AdminCommand, &[u8], Status); 8] = [
        ("no set", AdminCommand::SetFeatures(set(config, 0, 1)), &good, field),
        ("a set without flash", AdminCommand::SetFeatures(set(config, 2, 1)), &good, field),
        ("a reserved event", AdminCommand::SetFeatures(set(config, 1, 1)), &reserved, field),
        (
            "too little data",
            AdminCommand::SetFeatures(set(config, 1, 1)),
            &good[..40],
            Status::DATA_SGL_LENGTH_INVALID,
        ),
        ("a window while it is not enabled", AdminCommand::SetFeatures(set(select, 1, 1)), &[], field),
        (
            "to save a window",
            AdminCommand::SetFeatures(SetFeatures { sv: true, ..set(select, 1, 1) }),
            &[],
            Status::FEATURE_NOT_SAVEABLE,
        ),
        ("the log of no set", AdminCommand::GetLogPage(log(LogId::PREDICTABLE_LATENCY, 3, 512)), &[], field),
        ("the window of no set", AdminCommand::GetFeatures(get(select, 9)), &[], field),
    ];
    let mut table = Table::new("Predictable latency", "windows.rs", "refused_windows");
    for (name, command, data, status) in rows {
        let (got, _) = b.admin(command, data);
        table.check(name, true, &command.into(), got.status(), status);
    }
    assert_eq!(window_log(&mut b).status, WindowSelect::NOT_ENABLED);
    assert_eq!(b.admin_ok(get(select, 1), &[]).0, 0);
    enable(&mut b, &PredictableLatencyConfig::default(), false);
    for reserved in [0, 3, 7] {
        let command = set(select, 1, reserved);
        let (got, _) = b.admin(command, &[]);
        table.check("a reserved window", true, &command.into(), got.status(), field);
    }
    table.finish();
    // A drive without windows has neither the features nor the logs.
    let mut b = Bench::with_namespaces(&[]);
    let c: IdentifyController = b.ask(identify);
    assert!(!c.ctratt.plm() && !c.oaes.pleln());
    let (got, _) = b.admin(log(LogId::PREDICTABLE_LATENCY, 1, 512), &[]);
    assert!(got.status().is(Status::INVALID_LOG_PAGE));
    let (got, _) = b.admin(get(config, 1), &[]);
    assert!(got.status().is(field));
}

/// Two sets of flash, without a link between host and controller that they would share.
fn two_sets() -> Config {
    let flash = |set: &str| format!("[[set]]\n{set}");
    let set = "media = \"nand\"\ncell = \"tlc\"\ncapacity = \"32MiB\"\nspare = \"40%\"\nchannels = 2\ndies = 4\nplanes = 2\n\
               nand_page = \"4KiB\"\npages_per_block = 24\nrated_cycles = 3000\n\
               timing = { read = \"60us\", program = \"700us\", erase = \"4ms\", channel = \"800MB/s\" }\n";
    let text = format!("[drive]\ntiming = true\nwrite_buffer = \"2MiB\"\n{}{}", flash(set), flash(set));
    let mut config = Config::from_toml(&text).unwrap();
    for set in [1, 2] {
        config.namespaces.push(initial(set, 24 << 20));
    }
    config
}

/// Latencies of random reads and writes of namespace 1, while a neighbour on set 2 writes as much as it can, or not.
fn latencies(noisy: bool) -> Vec<u64> {
    let mut b = Bench::new(two_sets());
    let neighbour = b.connect("neighbour", Origin::InProcess);
    let mut rng = Rng::new(8);
    let mut other = Rng::new(9);
    let mut seen = Vec::new();
    let mut outstanding: Vec<u32> = Vec::new();
    for i in 0..20_000u64 {
        let at = Nanos(i * 50_000);
        b.run_until(at);
        if noisy {
            outstanding.retain(|io| match b.done.remove(io) {
                Some(_) => {
                    b.memory.buffers.remove(io);
                    false
                }
                None => true,
            });
            while outstanding.len() < 16 {
                let slba = other.below(6144 - 16);
                outstanding.push(b.submit(neighbour, 1, &Command::write(2, slba, 16), &[7; 65536]));
            }
        }
        let command = match i % 3 {
            0 => Command::write(1, rng.below(6144), 1),
            _ => Command::read(1, rng.below(6144), 1),
        };
        let id = b.controller;
        let io = b.submit(id, 1, &command, &[1; 4096]);
        while !b.done.contains_key(&io) {
            let next = b.drive.next_event().expect("the command is under way");
            b.run_until(next);
        }
        let (_, ended) = b.done.remove(&io).unwrap();
        b.memory.buffers.remove(&io);
        seen.push(ended.since(at).0);
    }
    let erased = b.drive.ftl().set_stats(ftl::SetId(1)).erases;
    assert_eq!(erased > 0, noisy, "the neighbour's set collects if it is noisy");
    seen
}

#[test]
fn a_neighbour_on_another_set_changes_no_latency() {
    let (alone, beside) = (latencies(false), latencies(true));
    let different = alone.iter().zip(&beside).filter(|(a, b)| a != b).count();
    assert_eq!(different, 0, "of {} commands", alone.len());
}

#[test]
fn what_one_host_has_read_is_news_to_another() {
    let mut b = Bench::new(drive());
    let mut rng = Rng::new(5);
    fill(&mut b, &mut rng);
    let (first, second) = (b.controller, b.connect("second", Origin::InProcess));
    enable(&mut b, &PredictableLatencyConfig::default(), false);
    window(&mut b, WindowSelect::DETERMINISTIC);
    b.run_until(b.now + Nanos(3_000_000_000));
    for (id, events) in [(first, true), (first, false), (second, true), (second, false)] {
        b.controller = id;
        assert_eq!(window_log(&mut b).event_type.into_bits().get() != 0, events, "{id:?}");
    }
}
