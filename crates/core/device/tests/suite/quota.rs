//! Quotas: feature D8h, how exactly its limits are kept, and what becomes of commands that are held.

use crate::common::load::{OutstandingLoad, limit, quota, run, run_late, set, statistics};
use crate::common::table::Table;
use crate::common::{Bench, TIMED_SMALL, bytes};
use device::Origin;
use media::Nanos;
use nvme::admin::*;
use nvme::feature::{FeatureCapabilities, FeatureId, Select};
use nvme::log::{AnaState, ErrorInformation, LogId};
use nvme::property::{Cc, PropertyOffset, Shn};
use nvme::quota::{Quota, QuotaKind};
use nvme::{Command, NSID_ALL, Status, U16, U32, U64};

const SECOND: u64 = 1_000_000_000;

fn get(b: &mut Bench, nsid: u32, sel: Select) -> Quota {
    b.ask(Command::get_features(FeatureId::QUOTA, nsid, sel))
}

#[test]
fn commands_per_second_within_one_percent_over_a_second() {
    for timed in [false, true] {
        for rate in [1000, 10_000, 100_000, 1_000_000] {
            if timed && rate > 10_000 {
                // More than the small drive does.
                continue;
            }
            let mut b = Bench::with_namespaces(if timed { TIMED_SMALL } else { &[] });
            limit(&mut b, 2, &[(QuotaKind::ReadCommands, rate)]);
            let mut loads = [OutstandingLoad::new(64, Command::read(2, 3, 1), 0)];
            run(&mut b, SECOND, &mut loads);
            let off = loads[0].done.abs_diff(rate);
            assert!(off * 100 <= rate, "{} instead of {rate} (timed: {timed})", loads[0].done);
        }
    }
}

#[test]
fn a_drive_that_is_looked_at_late_makes_up_for_it() {
    for (rate, late) in [(1000, 10_000_000), (100_000, 200_000)] {
        let mut b = Bench::with_namespaces(&[]);
        limit(&mut b, 2, &[(QuotaKind::ReadCommands, rate)]);
        let mut loads = [OutstandingLoad::new(64, Command::read(2, 3, 1), 0)];
        run_late(&mut b, SECOND, late, &mut loads);
        // The last look may be late, too.
        let off = loads[0].done.abs_diff(rate);
        assert!(off * 50 <= rate, "{} instead of {rate}", loads[0].done);
    }
}

#[test]
fn a_shared_set_that_is_looked_at_late_makes_up_for_it() {
    for fair in [true, false] {
        let fair = format!("[drive]\ntiming = true\nfair_sharing = {fair}");
        let mut b = Bench::with_namespaces(&[("[drive]", &fair)]);
        let other = b.create_attached(1, 256);
        limit(&mut b, 1, &[(QuotaKind::ReadCommands, 1000)]);
        let mut loads = [
            OutstandingLoad::new(64, Command::read(1, 3, 1), 0),
            OutstandingLoad::new(4, Command::read(other, 3, 1), 0),
        ];
        run_late(&mut b, SECOND, 5_000_000, &mut loads);
        // The last look may be late, too.
        assert!(loads[0].done.abs_diff(1000) <= 10, "{} instead of 1000: {fair}", loads[0].done);
        assert!(loads[1].done > 500, "{}", loads[1].done);
    }
}

#[test]
fn bandwidth_within_one_percent_over_a_second_of_mixed_sizes() {
    for rate in [10_000_000, 391_000_000, 4_000_000_000] {
        let mut b = Bench::with_namespaces(&[]);
        limit(&mut b, 2, &[(QuotaKind::ReadBandwidth, rate), (QuotaKind::WriteBandwidth, rate / 2)]);
        let mut loads = [
            OutstandingLoad::new(8, Command::read(2, 0, 1), 0),
            OutstandingLoad::new(8, Command::read(2, 5, 13), 0),
            OutstandingLoad::new(8, Command::write(2, 70, 3), 3 * 4096),
        ];
        run(&mut b, SECOND, &mut loads);
        let read = (loads[0].done + 13 * loads[1].done) * 4096;
        let written = loads[2].done * 3 * 4096;
        assert!(read.abs_diff(rate) * 100 <= rate, "{read} bytes read instead of {rate}");
        assert!(written.abs_diff(rate / 2) * 200 <= rate, "{written} bytes written instead of {}", rate / 2);
    }
}

#[test]
fn without_a_limit_nothing_is_held() {
    let mut b = Bench::with_namespaces(TIMED_SMALL);
    limit(&mut b, 1, &[(QuotaKind::ReadCommands, 10)]);
    let mut loads = [
        OutstandingLoad::new(4, Command::read(1, 0, 1), 0),
        // Writes of the same namespace, and reads of another one.
        OutstandingLoad::new(4, Command::write(1, 0, 1), 4096),
        OutstandingLoad::new(4, Command::read(2, 0, 1), 0),
    ];
    run(&mut b, SECOND / 10, &mut loads);
    assert_eq!(loads[0].done, 2);
    assert!(loads[1].done > 100 && loads[2].done > 1000, "{} {}", loads[1].done, loads[2].done);
    let log = statistics(&mut b, 1);
    assert_eq!(log.throttled_write_commands.get(), 0);
    assert_eq!(log.throttled_read_commands.get(), 1);
    assert_eq!(statistics(&mut b, 2).throttled_read_commands.get(), 0);
    assert_eq!(statistics(&mut b, NSID_ALL).throttled_read_commands.get(), 1);
}

#[test]
fn latency_counts_from_arrival_and_the_log_tells_what_was_held() {
    let mut b = Bench::with_namespaces(&[]);
    limit(&mut b, 2, &[(QuotaKind::WriteCommands, 1000)]);
    let data = vec![7; 4096];
    let ios: Vec<u32> = (0..5).map(|i| b.submit(b.controller, 1, &Command::write(2, i, 1), &data)).collect();
    // Two at once (the burst of a millisecond, and the first), then one in each millisecond: 0, 0, 1, 2, 3.
    let when: Vec<u64> = ios
        .iter()
        .map(|io| {
            b.run_until(Nanos(SECOND));
            b.done[io].1.0 / 1_000_000
        })
        .collect();
    assert_eq!(when, [0, 0, 1, 2, 3]);
    let log = statistics(&mut b, 2);
    assert_eq!((log.throttled_write_commands.get(), log.throttled_write_ns.get()), (3, 6_000_000));
    assert_eq!(log.write_latency_sum.max_ns.get(), 3_000_000);
    assert_eq!(log.quota, quota(&[(QuotaKind::WriteCommands, 1000)]));
}

#[test]
fn commands_of_a_namespace_that_go_one_way_keep_their_order() {
    let mut b = Bench::with_namespaces(&[]);
    limit(&mut b, 2, &[(QuotaKind::WriteBandwidth, 40_960_000), (QuotaKind::ReadCommands, 100_000)]);
    let (mut writes, mut reads) = (Vec::new(), Vec::new());
    for i in 0..200 {
        let blocks = 1 + i % 7;
        let data = vec![0; blocks as usize * 4096];
        writes.push(b.submit(b.controller, 1, &Command::write(2, i.into(), blocks), &data));
        reads.push(b.submit(b.controller, 1, &Command::read(2, i.into(), 1), &[]));
    }
    b.run_until(Nanos(SECOND));
    for ios in [&writes, &reads] {
        let times: Vec<Nanos> = ios.iter().map(|io| b.done[io].1).collect();
        assert!(times.is_sorted() && times[0] < times[199]);
    }
    // Reads did not wait for writes.
    assert!(b.done[&reads[199]].1 < b.done[&writes[199]].1);
}

#[test]
fn copies_count_as_writes_and_as_reads() {
    let mut b = Bench::with_namespaces(&[]);
    // 4 blocks in a millisecond, without a burst to speak of.
    let mut given =
        quota(&[(QuotaKind::WriteBandwidth, 4 * 4_096_000), (QuotaKind::ReadBandwidth, 4 * 4_096_000)]);
    given.burst_us = U32::new(1);
    b.admin_ok(set(2, false), &bytes(&given));
    b.now = Nanos(SECOND);
    let source = |slba: u64| {
        let entry =
            nvme::copy::CopySource16 { slba: U64::new(slba), nlb_z: U16::new(3), ..Default::default() };
        bytes(&entry)
    };
    let copy = |to| nvme::copy::Copy { nsid: 2, sdlba: to, nr: 1, ..Default::default() };
    b.write(1, 0, 1, &[7; 4096]);
    let ios: Vec<u32> =
        (0..3).map(|i| b.submit(b.controller, 1, &copy(100 + 8 * i).into(), &source(8 * i))).collect();
    let read = b.submit(b.controller, 1, &Command::read(2, 0, 1), &[]);
    b.run_until(Nanos(2 * SECOND));
    let when: Vec<u64> = ios.iter().map(|io| (b.done[io].1.0 - SECOND + 1000) / 1_000_000).collect();
    assert_eq!(when, [0, 1, 2]);
    assert!(ios.iter().all(|io| b.done[io].0.status() == Status::SUCCESS), "they have kept their data");
    assert!(b.done[&read].1.0 >= SECOND + 900_000, "the read waits for what was copied");
}

/// A drive with writes and reads that are held on namespace 2, and their numbers.
fn with_held() -> (Bench, Vec<u32>) {
    let mut b = Bench::with_namespaces(&[]);
    limit(&mut b, 2, &[(QuotaKind::WriteCommands, 1), (QuotaKind::ReadCommands, 1)]);
    for command in [Command::write(2, 0, 1), Command::read(2, 0, 1)] {
        b.io(command, &[1; 4096]);
    }
    let mut held = Vec::new();
    for i in 0..3 {
        held.push(b.submit(b.controller, 1, &Command::write(2, i, 1), &[2; 4096]));
        held.push(b.submit(b.controller, 1, &Command::read(2, i, 1), &[]));
    }
    assert_eq!(b.drive.in_flight(), 6);
    (b, held)
}

fn statuses(b: &Bench, ios: &[u32]) -> Vec<Option<Status>> {
    ios.iter().map(|io| b.done.get(io).map(|(completion, _)| completion.status())).collect()
}

fn all_ended_with(b: &mut Bench, held: &[u32], status: Status) {
    // At once, and nothing is left that would come later.
    let now = b.now;
    b.run_until(now);
    for got in statuses(b, held) {
        assert!(got.is_some_and(|got| got.is(status)), "{got:?}, not {status}");
    }
    b.run_until(Nanos(100 * SECOND));
    assert_eq!(b.drive.in_flight(), 0);
}

#[test]
fn other_limits_hold_at_once() {
    let (mut b, held) = with_held();
    limit(&mut b, 2, &[(QuotaKind::WriteCommands, 1000)]);
    let (start, done) = (b.now, statuses(&b, &held));
    // Reads have no limit any more; what was not paid for the first write is a millisecond now, as long as the burst.
    assert_eq!(done.iter().filter(|s| **s == Some(Status::SUCCESS)).count(), 4);
    b.run_until(Nanos(start.0 + 5_000_000));
    assert!(statuses(&b, &held).iter().all(|s| *s == Some(Status::SUCCESS)));
}

#[test]
fn held_commands_are_aborted() {
    let (mut b, held) = with_held();
    let cid = held[2] as u16;
    assert_eq!(b.admin_ok(Abort { sqid: 1, cid }, &[]).0, 0);
    assert!(b.done[&held[2]].0.status().is(Status::ABORT_REQUESTED));
    assert_eq!(b.admin_ok(Abort { sqid: 1, cid }, &[]).0, 1);
    // The others around it in the queue still come, in their order; the last can be aborted, too.
    assert_eq!(b.admin_ok(Abort { sqid: 1, cid: held[5] as u16 }, &[]).0, 0);
    let late = b.submit(b.controller, 1, &Command::read(2, 9, 1), &[]);
    b.run_until(Nanos(100 * SECOND));
    let times: Vec<u64> =
        [held[0], held[4], held[1], held[3], late].iter().map(|io| b.done[io].1.0 / SECOND).collect();
    assert_eq!(times, [0, 1, 0, 1, 2]);
    assert_eq!(b.drive.in_flight(), 0);
}

#[test]
fn held_commands_end_with_their_controller_or_queue() {
    let (mut b, held) = with_held();
    b.set_property(b.controller, PropertyOffset::CC, 0).unwrap();
    all_ended_with(&mut b, &held, Status::ABORTED_SQ_DELETION);

    let (mut b, held) = with_held();
    let shutdown = Cc::new().with_en(true).with_iosqes(6).with_iocqes(4).with_shn(Shn::NORMAL);
    b.set_property(b.controller, PropertyOffset::CC, shutdown.into_bits().get()).unwrap();
    all_ended_with(&mut b, &held, Status::ABORTED_SQ_DELETION);

    let (mut b, held) = with_held();
    b.drive.remove_queue(b.controller, 1);
    all_ended_with(&mut b, &held, Status::ABORTED_SQ_DELETION);

    let (mut b, held) = with_held();
    let mut out = Vec::new();
    b.drive.disconnect(b.now, b.controller, &mut b.memory, &mut out);
    let ended = |o: &&device::Output| matches!(o, device::Output::Complete { .. });
    assert_eq!(out.iter().filter(ended).count(), held.len());
    assert_eq!(b.drive.in_flight(), 0);

    let (mut b, held) = with_held();
    let mut out = Vec::new();
    b.drive.shut_down(b.now, &mut b.memory, &mut out);
    assert_eq!(out.iter().filter(ended).count(), held.len());
}

#[test]
fn held_commands_come_back_when_their_namespace_changes() {
    let delete = NamespaceManagement { nsid: 2, sel: NamespaceManagementSelect::DELETE, csi: nvme::Csi::NVM };
    let ses = SecureErase::NONE;
    // Blocks of another size would make other commands of them.
    let format = FormatNvm { nsid: 2, lbaf: 1, mset: false, pi: 0, pil: false, ses };
    for command in [Command::from(delete), Command::from(format)] {
        let (mut b, held) = with_held();
        b.admin_ok(command, &[]);
        all_ended_with(&mut b, &held, Status::NAMESPACE_NOT_READY);
    }
    // A namespace that comes after has no quota, and hears nothing of the old one's.
    let (mut b, held) = with_held();
    b.admin_ok(delete, &[]);
    all_ended_with(&mut b, &held, Status::NAMESPACE_NOT_READY);
    assert_eq!(b.create_attached(2, 512), 2);
    assert_eq!(get(&mut b, 2, Select::CURRENT), Quota::unlimited());
    // A formatted one keeps its own.
    let (mut b, _) = with_held();
    b.admin_ok(format, &[]);
    assert_eq!(get(&mut b, 2, Select::CURRENT).limit(QuotaKind::WriteCommands), Some(1));

    let (mut b, held) = with_held();
    let list = nvme::identify::ControllerList::new([b.controller.0]);
    let detach = NamespaceAttachment { nsid: 2, sel: NamespaceAttachmentSelect::DETACH };
    b.admin_ok(detach, &bytes(&list));
    all_ended_with(&mut b, &held, Status::INVALID_FIELD);
}

#[test]
fn held_commands_learn_that_their_way_is_closed() {
    let mut b = Bench::with_namespaces(&[]);
    b.drive.add_port(device::PortId(1), AnaState::OPTIMIZED);
    let other = b.connect("other", Origin::Network);
    b.drive.arrive(other, device::PortId(1));
    limit(&mut b, 2, &[(QuotaKind::ReadCommands, 1)]);
    b.io(Command::read(2, 0, 1), &[]);
    b.io(Command::read(2, 0, 1), &[]);
    let theirs = b.submit(other, 1, &Command::read(2, 0, 1), &[]);
    let mine = b.submit(b.controller, 1, &Command::read(2, 0, 1), &[]);
    let close = FaultInjection {
        nsid: 0,
        kind: FaultKind::PORT_ANA,
        nvmsetid: 1,
        count: 0,
        one_in: 0,
        param: u32::from(AnaState::INACCESSIBLE.0),
        lba: None,
    };
    b.admin_ok(close, &[]);
    assert_eq!(statuses(&b, &[theirs, mine]), [Some(Status::ANA_INACCESSIBLE), None]);
    b.run_until(Nanos(10 * SECOND));
    assert_eq!(statuses(&b, &[mine]), [Some(Status::SUCCESS)]);
}

#[test]
fn a_power_cut_forgets_what_is_held_and_keeps_what_is_saved() {
    let (mut b, _) = with_held();
    let saved = quota(&[(QuotaKind::ReadBandwidth, 391_000_000), (QuotaKind::WriteCommands, 5000)]);
    b.admin_ok(set(2, true), &bytes(&saved));
    limit(&mut b, 2, &[(QuotaKind::ReadCommands, 1)]);
    for _ in 0..4 {
        b.submit(b.controller, 1, &Command::read(2, 0, 1), &[]);
    }
    b.cut(true);
    b.power_on();
    assert_eq!(b.drive.in_flight(), 0);
    for sel in [Select::CURRENT, Select::SAVED] {
        assert_eq!(get(&mut b, 2, sel), saved);
    }
    assert_eq!(get(&mut b, 1, Select::CURRENT), Quota::unlimited());
    // It is in force, too: 5,000 per second.
    let mut loads = [OutstandingLoad::new(8, Command::write(2, 0, 1), 4096)];
    run(&mut b, SECOND / 10, &mut loads);
    assert!((500..=510).contains(&loads[0].done), "{}", loads[0].done);

    // The same from what a process leaves that was killed.
    let saved_bytes = b.drive.save();
    let config = b.drive.config().clone();
    let mut memory = b.memory.clone();
    let restorer = device::Drive::restore(config, &saved_bytes).unwrap();
    let drive = restorer.finish(b.now, &mut memory).unwrap();
    let mut b = Bench::around(drive, memory);
    assert_eq!(get(&mut b, 2, Select::CURRENT), saved);
}

#[test]
fn values_that_are_not_saved_end_with_power() {
    let mut b = Bench::with_namespaces(&[]);
    let given = quota(&[(QuotaKind::ReadCommands, 77)]);
    b.admin_ok(set(2, false), &bytes(&given));
    assert_eq!(get(&mut b, 2, Select::CURRENT), given);
    assert_eq!(get(&mut b, 2, Select::SAVED), Quota::unlimited());
    assert_eq!(get(&mut b, 2, Select::DEFAULT), Quota::unlimited());
    // A controller's reset is not the namespace's.
    b.set_property(b.controller, PropertyOffset::CC, 0).unwrap();
    b.enable(b.controller);
    assert_eq!(get(&mut b, 2, Select::CURRENT), given);
    b.cut(true);
    b.power_on();
    assert_eq!(get(&mut b, 2, Select::CURRENT), Quota::unlimited());
}

#[test]
fn the_feature_says_what_it_is() {
    let mut b = Bench::with_namespaces(&[]);
    let (capabilities, _) =
        b.admin_ok(Command::get_features(FeatureId::QUOTA, 1, Select::SUPPORTED_CAPABILITIES), &[]);
    let all = FeatureCapabilities::new().with_saveable(true).with_changeable(true);
    assert_eq!(capabilities, all.with_namespace_specific(true).into_bits().get());
    // All that are attached.
    b.create_attached(1, 64);
    let given = quota(&[(QuotaKind::ReadCommands, 5)]);
    b.admin_ok(set(NSID_ALL, false), &bytes(&given));
    for nsid in [1, 2, 3] {
        assert_eq!(get(&mut b, nsid, Select::CURRENT), given);
    }
}

#[test]
fn refused_quotas() {
    let mut b = Bench::with_namespaces(&[]);
    let given = quota(&[(QuotaKind::WriteBandwidth, 1_000_000), (QuotaKind::ReadCommands, 10)]);
    let with = |change: fn(&mut Quota)| {
        let mut changed = given;
        change(&mut changed);
        bytes(&changed)
    };
    // Name, data, and the offset that the error log names.
    let rows: Vec<(&str, Vec<u8>, u64)> = vec![
        ("all zeros", vec![0; 64], 0),
        ("a later version", with(|q| q.version = 2), 0),
        ("reserved limits", with(|q| q.limits = nvme::quota::QuotaLimits::from_bits(0x16)), 1),
        ("a weight beyond all", with(|q| q.weight = U16::new(1001)), 2),
        ("a burst that is too long", with(|q| q.burst_us = U32::new(10_000_001)), 4),
        ("a bandwidth that is not in force", with(|q| q.read_bandwidth = U64::new(5000)), 8),
        ("a bandwidth of 0", with(|q| q.write_bandwidth = U64::new(0)), 16),
        ("a bandwidth of less than a block", with(|q| q.write_bandwidth = U64::new(4095)), 16),
        ("a bandwidth beyond all", with(|q| q.write_bandwidth = U64::new(1_000_000_000_001)), 16),
        ("0 commands", with(|q| q.read_commands = U64::new(0)), 24),
        ("commands beyond all", with(|q| q.read_commands = U64::new(u64::MAX)), 24),
        ("commands that are not in force", with(|q| q.write_commands = U64::new(1)), 32),
        ("reserved bytes at the end", with(|q| q.rsvd40[23] = 1), 40),
    ];
    b.admin_ok(set(2, false), &bytes(&given));
    let mut table = Table::new("Quotas", "quota.rs", "refused_quotas");
    for (name, data, offset) in rows {
        let (completion, _) = b.admin(set(2, true), &data);
        table.check(name, true, &set(2, true).into(), completion.status(), Status::INVALID_FIELD);
        assert!(completion.status().dnr(), "{name}");
        let error: ErrorInformation = b.ask(Command::get_log_page(LogId::ERROR, 0, 0, 0, 64));
        assert_eq!((error.pel.get(), error.cs.get()), (24, offset), "{name}");
        assert_eq!(get(&mut b, 2, Select::CURRENT), given, "{name} changed something");
        assert_eq!(get(&mut b, 2, Select::SAVED), Quota::unlimited(), "{name} saved something");
    }
    for (name, nsid, status) in [
        ("no namespace", 0, Status::INVALID_NAMESPACE),
        ("more than NN", 33, Status::INVALID_NAMESPACE),
        ("not allocated", 4, Status::INVALID_FIELD),
    ] {
        for sel in [Select::CURRENT, Select::DEFAULT, Select::SAVED] {
            let command = Command::get_features(FeatureId::QUOTA, nsid, sel);
            let (completion, _) = b.admin(command, &[]);
            table.check(name, true, &command, completion.status(), status);
        }
        let (completion, _) = b.admin(set(nsid, false), &bytes(&given));
        table.check(name, true, &set(nsid, false).into(), completion.status(), status);
    }
    // There is no one value of all.
    let command = Command::get_features(FeatureId::QUOTA, NSID_ALL, Select::CURRENT);
    let (completion, _) = b.admin(command, &[]);
    table.check("one value of all", true, &command, completion.status(), Status::INVALID_NAMESPACE);
    let (completion, _) = b.admin(set(2, false), &[0; 63]);
    table.check(
        "too little data",
        true,
        &set(2, false).into(),
        completion.status(),
        Status::DATA_SGL_LENGTH_INVALID,
    );
    table.finish();
}
