//! Fused operations: Compare and Write.

use crate::common::load::limit;
use crate::common::reservations::{acquire, join, with_hosts};
use crate::common::table::Table;
use crate::common::{Bench, TIMED_SMALL, bytes, pattern};
use device::{ControllerId, Origin};
use media::{Nanos, Rng};
use nvme::admin::*;
use nvme::command::CommandFlags;
use nvme::identify::{Cns, IdentifyController, IdentifyNamespace};
use nvme::io::{Blocks, DsmRange};
use nvme::quota::QuotaKind;
use nvme::reservation::{AcquireAction, ReservationType};
use nvme::{Command, IoCommand, Status, U32};

const SUCCESS: Status = Status::SUCCESS;
const FIELD: Status = Status::INVALID_FIELD;
const PARTNER_FAILED: Status = Status::ABORTED_FAILED_FUSED;
const PARTNER_MISSING: Status = Status::ABORTED_MISSING_FUSED;
const BLOCK: usize = 4096;

fn fuse(fuse: u8, mut command: Command) -> Command {
    command.flags = CommandFlags::new().with_psdt(1).with_fuse(fuse);
    command
}

fn compare(nsid: u32, slba: u64, blocks: u32) -> Command {
    fuse(1, IoCommand::Compare(Blocks::new(nsid, slba, blocks)).into())
}

fn write(nsid: u32, slba: u64, blocks: u32) -> Command {
    fuse(2, Command::write(nsid, slba, blocks))
}

/// Submits a pair, and returns the numbers of its commands.
fn submit(b: &mut Bench, id: ControllerId, commands: [Command; 2], old: &[u8], new: &[u8]) -> [u32; 2] {
    [b.submit(id, 1, &commands[0], old), b.submit(id, 1, &commands[1], new)]
}

fn statuses(b: &mut Bench, ios: [u32; 2]) -> [Status; 2] {
    ios.map(|io| b.wait(io).0.status())
}

fn pair(b: &mut Bench, commands: [Command; 2], old: &[u8], new: &[u8]) -> [Status; 2] {
    let ios = submit(b, b.controller, commands, old, new);
    statuses(b, ios)
}

/// One block of a namespace.
fn swap(b: &mut Bench, nsid: u32, slba: u64, old: &[u8], new: &[u8]) -> [Status; 2] {
    pair(b, [compare(nsid, slba, 1), write(nsid, slba, 1)], old, new)
}

#[track_caller]
fn are(got: [Status; 2], expected: [Status; 2]) {
    assert!(got[0].is(expected[0]) && got[1].is(expected[1]), "{} and {}", got[0], got[1]);
}

#[test]
fn what_is_equal_is_written_and_nothing_else() {
    for changes in [&[][..], TIMED_SMALL] {
        let mut b = Bench::with_namespaces(changes);
        let id: IdentifyController = b.ask(Command::identify(Cns::CONTROLLER, 0));
        let ns: IdentifyNamespace = b.ask(Command::identify(Cns::NAMESPACE, 1));
        assert_eq!((id.fuses.get(), id.acwu_z, ns.nacwu_z), (1, id.awun_z, ns.nawun_z));
        let (zeros, one, two) = (vec![0; BLOCK], pattern(1, BLOCK), pattern(2, BLOCK));
        for nsid in [1, 2] {
            are(swap(&mut b, nsid, 5, &zeros, &one), [SUCCESS, SUCCESS]);
            assert_eq!(b.read(nsid, 5, 1), one);
            are(swap(&mut b, nsid, 5, &zeros, &two), [Status::COMPARE_FAILURE, PARTNER_FAILED]);
            assert_eq!(b.read(nsid, 5, 1), one);
            are(swap(&mut b, nsid, 5, &one, &two), [SUCCESS, SUCCESS]);
            assert_eq!(b.read(nsid, 5, 1), two);
        }
        assert_eq!(b.drive.in_flight(), 0);
    }
}

#[test]
fn what_does_not_belong_together_is_refused() {
    let mut b = Bench::with_namespaces(&[("[drive]", "[drive]\natomic_write = \"16KiB\"")]);
    let data = vec![0; 16 * BLOCK];
    let mut table = Table::new("Fused operations", "fused.rs", "what_does_not_belong_together_is_refused");
    let range = Status::LBA_OUT_OF_RANGE;
    let read = |fused| fuse(fused, Command::read(1, 0, 1));
    let unit = Status::ATOMIC_WRITE_UNIT_EXCEEDED;
    let rows: &[(&str, [Command; 2], [Status; 2])] = &[
        ("equal", [compare(1, 0, 1), write(1, 0, 1)], [SUCCESS, SUCCESS]),
        ("a whole unit", [compare(1, 4, 4), write(1, 4, 4)], [SUCCESS, SUCCESS]),
        ("more than the unit", [compare(1, 0, 8), write(1, 0, 8)], [unit, PARTNER_FAILED]),
        ("over a unit's end", [compare(1, 3, 2), write(1, 3, 2)], [unit, PARTNER_FAILED]),
        ("another start", [compare(1, 0, 1), write(1, 1, 1)], [FIELD, FIELD]),
        ("another length", [compare(1, 0, 1), write(1, 0, 2)], [FIELD, FIELD]),
        ("another namespace", [compare(1, 0, 1), write(2, 0, 1)], [FIELD, FIELD]),
        ("too far", [compare(1, 1024, 1), write(1, 1024, 1)], [range, PARTNER_FAILED]),
        (
            "no such namespace",
            [compare(33, 0, 1), write(33, 0, 1)],
            [Status::INVALID_NAMESPACE, PARTNER_FAILED],
        ),
        ("another first command", [read(1), write(1, 0, 1)], [FIELD, PARTNER_FAILED]),
        ("another second command", [compare(1, 0, 1), read(2)], [PARTNER_FAILED, FIELD]),
        ("a Compare as the second", [compare(1, 0, 1), fuse(2, compare(1, 0, 1))], [PARTNER_FAILED, FIELD]),
        ("reserved FUSE", [compare(1, 0, 1), fuse(3, write(1, 0, 1))], [PARTNER_MISSING, FIELD]),
        ("no second command", [compare(1, 0, 1), Command::write(1, 0, 1)], [PARTNER_MISSING, SUCCESS]),
        ("no first command", [Command::flush(1), write(1, 0, 1)], [SUCCESS, PARTNER_MISSING]),
        (
            "an opcode that is not there",
            [compare(1, 0, 1), fuse(2, Command::new(0xC0, 1))],
            [PARTNER_FAILED, Status::INVALID_OPCODE],
        ),
    ];
    for (name, commands, expected) in rows {
        // As much data as the command moves.
        let ios = commands.map(|c| {
            let bytes = b.drive.transfer(b.controller, 1, &c).bytes() as usize;
            b.submit(b.controller, 1, &c, &data[..bytes])
        });
        let got = statuses(&mut b, ios);
        for ((command, got), expected) in commands.iter().zip(got).zip(expected) {
            table.check(name, false, command, got, *expected);
        }
    }
    // Of two first commands the second one may still have its own.
    let first = b.submit(b.controller, 1, &compare(1, 0, 1), &data[..BLOCK]);
    are(pair(&mut b, [compare(1, 0, 1), write(1, 0, 1)], &data[..BLOCK], &data[..BLOCK]), [SUCCESS; 2]);
    table.check("two first commands", false, &compare(1, 0, 1), b.wait(first).0.status(), PARTNER_MISSING);
    table.finish();
    let (completion, _) = b.admin(fuse(1, Command::identify(Cns::CONTROLLER, 0)), &[]);
    assert!(completion.status().is(FIELD));
    assert_eq!(b.drive.in_flight(), 0);
}

#[test]
fn the_error_log_tells_of_both() {
    let mut b = Bench::with_namespaces(&[]);
    let one = pattern(1, BLOCK);
    are(swap(&mut b, 1, 9, &one, &one), [Status::COMPARE_FAILURE, PARTNER_FAILED]);
    let log = GetLogPage {
        nsid: nvme::NSID_ALL,
        lid: nvme::log::LogId::ERROR,
        lsp: 0,
        lsi: 0,
        rae: false,
        dwords: 32,
        offset: 0,
        ot: false,
        csi: nvme::Csi::NVM,
        uidx: 0,
    };
    let (_, data) = b.admin_ok(log, &[]);
    let status = |at: usize| Status(u16::from_le_bytes([data[at + 12], data[at + 13]]) >> 1);
    assert!(status(0).is(PARTNER_FAILED) && status(64).is(Status::COMPARE_FAILURE));
}

/// What ends a first command that waits for its second.
type Ending = (&'static str, fn(&mut Bench, u32), Status);

#[test]
fn a_first_command_without_a_second_comes_back() {
    let endings: &[Ending] = &[
        (
            "abort",
            |b, io| {
                let (done, _) = b.admin_ok(Abort { sqid: 1, cid: io as u16 }, &[]);
                assert_eq!(done, 0);
            },
            Status::ABORT_REQUESTED,
        ),
        ("queue", |b, _| b.drive.remove_queue(b.controller, 1), Status::ABORTED_SQ_DELETION),
        (
            "disconnect",
            |b, _| {
                let mut out = Vec::new();
                b.drive.disconnect(b.now, b.controller, &mut b.memory, &mut out);
                b.deliver(out);
            },
            Status::ABORTED_SQ_DELETION,
        ),
        (
            "sanitize",
            |b, _| {
                let sanitize = Sanitize {
                    sanact: SanitizeAction::BLOCK_ERASE,
                    ause: true,
                    owpass: 0,
                    oipbp: false,
                    ndas: false,
                    emvs: false,
                    ovrpat: 0,
                };
                b.admin_ok(sanitize, &[]);
            },
            Status::SANITIZE_IN_PROGRESS,
        ),
        (
            "transport",
            |b, _| {
                let mut out = Vec::new();
                b.drive.end_fused(b.now, b.controller, 1, &mut b.memory, &mut out);
                b.deliver(out);
            },
            PARTNER_MISSING,
        ),
    ];
    for (name, end, status) in endings {
        let mut b = Bench::with_namespaces(&[]);
        let first = b.submit(b.controller, 1, &compare(1, 0, 1), &vec![0; BLOCK]);
        assert!(!b.done.contains_key(&first));
        end(&mut b, first);
        b.run_until(Nanos(b.now.0 + 60_000_000_000));
        let got = b.done.remove(&first).unwrap_or_else(|| panic!("{name}: it hangs")).0.status();
        assert!(got.is(*status), "{name}: {got}");
        assert_eq!(b.drive.in_flight(), 0, "{name}");
    }
    // The second of one that was aborted is told that it failed.
    let mut b = Bench::with_namespaces(&[]);
    let first = b.submit(b.controller, 1, &compare(1, 0, 1), &vec![0; BLOCK]);
    b.admin_ok(Abort { sqid: 1, cid: first as u16 }, &[]);
    let (status, _) = b.io(write(1, 0, 1), &pattern(1, BLOCK));
    assert!(status.is(PARTNER_FAILED));
    assert_eq!(b.read(1, 0, 1), vec![0; BLOCK]);
    // A power cut takes it away.
    b.submit(b.controller, 1, &compare(1, 0, 1), &vec![0; BLOCK]);
    b.cut(true);
    b.power_on();
    assert_eq!(b.drive.in_flight(), 0);
    let (status, _) = b.io(write(1, 0, 1), &pattern(1, BLOCK));
    assert!(status.is(PARTNER_MISSING));
}

#[test]
fn queues_do_not_mix() {
    let mut b = Bench::with_namespaces(&[]);
    let other = b.connect("other", Origin::InProcess);
    b.drive.add_queue(b.controller, 2, 16).unwrap();
    let zeros = vec![0; BLOCK];
    let first = b.submit(b.controller, 1, &compare(1, 0, 1), &zeros);
    // Commands of other queues and controllers come between.
    let on = |b: &mut Bench, id, qid, c: Command| b.on(id, qid, &c, &pattern(3, BLOCK)).0.status();
    let id = b.controller;
    assert!(on(&mut b, id, 2, write(1, 0, 1)).is(PARTNER_MISSING));
    assert!(on(&mut b, other, 1, write(1, 0, 1)).is(PARTNER_MISSING));
    assert_eq!(on(&mut b, other, 1, Command::write(1, 7, 1)), SUCCESS);
    b.admin_ok(Command::identify(Cns::CONTROLLER, 0), &[]);
    let second = b.submit(b.controller, 1, &write(1, 0, 1), &pattern(1, BLOCK));
    are(statuses(&mut b, [first, second]), [SUCCESS; 2]);
    assert_eq!(b.read(1, 0, 1), pattern(1, BLOCK));
}

#[test]
fn reservations_are_asked_for_both() {
    let (mut b, hosts) = with_hosts(2, &[]);
    join(&mut b, hosts[0], 1);
    let zeros = vec![0; BLOCK];
    for (rtype, expected) in [
        // Others may read, and may not write: nothing is compared in vain.
        (ReservationType::WRITE_EXCLUSIVE, [PARTNER_FAILED, Status::RESERVATION_CONFLICT]),
        (ReservationType::EXCLUSIVE_ACCESS, [Status::RESERVATION_CONFLICT, PARTNER_FAILED]),
    ] {
        assert_eq!(acquire(&mut b, hosts[0], AcquireAction::ACQUIRE, rtype, 1, 0), SUCCESS);
        let commands = [compare(1, 0, 1), write(1, 0, 1)];
        let ios = submit(&mut b, hosts[1], commands, &zeros, &zeros);
        are(statuses(&mut b, ios), expected);
        let ios = submit(&mut b, hosts[0], commands, &zeros, &zeros);
        are(statuses(&mut b, ios), [SUCCESS; 2]);
        let status = crate::common::reservations::release(
            &mut b,
            hosts[0],
            nvme::reservation::ReleaseAction::RELEASE,
            rtype,
            1,
        );
        assert_eq!(status, SUCCESS);
    }
}

/// Fills the write buffer, so that what comes next waits: the numbers of the commands.
fn congest(b: &mut Bench) -> Vec<u32> {
    let data = pattern(8, 16 * BLOCK);
    let id = b.controller;
    (0..24u64).map(|i| b.submit(id, 1, &Command::write(1, 256 + i * 16, 16), &data)).collect()
}

#[test]
fn nothing_comes_between_the_two_however_long_they_wait() {
    let mut b = Bench::with_namespaces(TIMED_SMALL);
    let (zeros, one, two) = (vec![0; BLOCK], pattern(1, BLOCK), pattern(2, BLOCK));
    for step in 0..4 {
        let slba = step;
        b.write(1, slba, 1, &one);
        b.run_until(Nanos(b.now.0 + 1_000_000_000));
        let busy = congest(&mut b);
        assert!(!b.done.contains_key(busy.last().unwrap()), "the buffer is full");
        // A write that was there before is one that the comparison sees; a deallocation that comes while the pair waits, too.
        let before = (step == 1).then(|| b.submit(b.controller, 1, &Command::write(1, slba, 1), &two));
        let id = b.controller;
        let ios = submit(&mut b, id, [compare(1, slba, 1), write(1, slba, 1)], &one, &zeros);
        assert!(!b.done.contains_key(&ios[0]) && !b.done.contains_key(&ios[1]));
        match step {
            2 => assert_eq!(b.io(Command::deallocate(1, 1), &bytes(&DsmRange::new(slba, 1))).0, SUCCESS),
            3 => {
                // It is already waiting, and goes first: the comparison is good, and the write that follows wins.
                let after = b.submit(b.controller, 1, &Command::write(1, slba, 1), &two);
                are(statuses(&mut b, ios), [SUCCESS; 2]);
                assert_eq!(b.wait(after).0.status(), SUCCESS);
                assert_eq!(b.read(1, slba, 1), two);
                continue;
            }
            _ => {}
        }
        let expected = if step == 0 { [SUCCESS; 2] } else { [Status::COMPARE_FAILURE, PARTNER_FAILED] };
        are(statuses(&mut b, ios), expected);
        if let Some(before) = before {
            assert_eq!(b.wait(before).0.status(), SUCCESS);
            assert_eq!(b.read(1, slba, 1), two);
        }
        for io in busy {
            assert_eq!(b.wait(io).0.status(), SUCCESS);
        }
    }
}

#[test]
fn a_pair_waits_for_its_quota_as_one() {
    let mut b = Bench::with_namespaces(&[]);
    limit(&mut b, 1, &[(QuotaKind::WriteCommands, 10)]);
    let zeros = vec![0; BLOCK];
    let id = b.controller;
    let ios: Vec<_> = (0..30u64)
        .map(|i| submit(&mut b, id, [compare(1, i, 1), write(1, i, 1)], &zeros, &pattern(1, BLOCK)))
        .collect();
    let start = b.now;
    // One that is aborted takes its first command along.
    let last = *ios.last().unwrap();
    b.admin_ok(Abort { sqid: 1, cid: last[1] as u16 }, &[]);
    are(statuses(&mut b, last), [PARTNER_FAILED, Status::ABORT_REQUESTED]);
    for ios in &ios[..29] {
        are(statuses(&mut b, *ios), [SUCCESS; 2]);
    }
    assert!(b.now.0 - start.0 > 1_500_000_000, "10 a second");
}

#[test]
fn increments_are_never_lost() {
    for seed in 0..20 {
        let mut rng = Rng::new(seed);
        let mut b = Bench::with_namespaces(if seed % 2 == 0 { TIMED_SMALL } else { &[] });
        let hosts = [b.controller, b.connect("b", Origin::InProcess), b.connect("c", Origin::InProcess)];
        let nsid = 1 + (seed % 3 == 2) as u32;
        let block = |value: u64| value.to_le_bytes().repeat(BLOCK / 8);
        let (mut value, mut running) = (0u64, Vec::new());
        let (mut good, mut bad) = (0, 0);
        for _ in 0..400 {
            match rng.below(6) {
                0 | 1 => {
                    let host = hosts[rng.below(3) as usize];
                    let commands = [compare(nsid, 3, 1), write(nsid, 3, 1)];
                    running.push(submit(&mut b, host, commands, &block(value), &block(value + 1)));
                }
                2 => {
                    let data = pattern(1, 16 * BLOCK);
                    b.submit(hosts[0], 1, &Command::write(nsid, 64 + rng.below(50) * 16, 16), &data);
                }
                3 => b.run_until(Nanos(b.now.0 + rng.below(1_000_000))),
                _ => {
                    // Of those that expect the same value, one increments it.
                    let mut successes = 0;
                    for ios in running.drain(..) {
                        let got = statuses(&mut b, ios);
                        if got[0].is_success() {
                            assert_eq!(got[1], SUCCESS);
                            successes += 1;
                            good += 1;
                        } else {
                            are(got, [Status::COMPARE_FAILURE, PARTNER_FAILED]);
                            bad += 1;
                        }
                    }
                    assert!(successes <= 1, "seed {seed}");
                    value += successes;
                    assert_eq!(b.read(nsid, 3, 1), block(value), "seed {seed}");
                }
            }
        }
        assert!(good > 10 && bad > 10, "seed {seed}: {good} {bad}");
    }
}

#[test]
fn what_cannot_be_read_fails_the_comparison() {
    let mut b = Bench::with_namespaces(&[]);
    let zeros = vec![0; BLOCK];
    b.write(2, 0, 1, &zeros);
    let unreadable = FaultInjection {
        nsid: 0,
        kind: FaultKind::UNCORRECTABLE,
        nvmsetid: 2,
        count: 1,
        one_in: 0,
        param: 0,
        lba: None,
    };
    b.admin_ok(unreadable, &[]);
    are(swap(&mut b, 2, 0, &zeros, &pattern(1, BLOCK)), [Status::UNRECOVERED_READ_ERROR, PARTNER_FAILED]);
    b.admin_ok(FaultInjection { kind: FaultKind::PROGRAM_FAILURE, ..unreadable }, &[]);
    are(swap(&mut b, 2, 0, &zeros, &pattern(1, BLOCK)), [PARTNER_FAILED, Status::WRITE_FAULT]);
    // What is marked cannot be compared either.
    let mark = IoCommand::WriteUncorrectable(Blocks::new(1, 4, 1));
    assert_eq!(b.io(mark, &[]).0, SUCCESS);
    are(swap(&mut b, 1, 4, &zeros, &zeros), [Status::UNRECOVERED_READ_ERROR, PARTNER_FAILED]);
}

#[test]
fn blocks_with_protection_information_are_compared_and_written() {
    let mut b = Bench::with_namespaces(&[]);
    // 4096+8 with type 1; the drive inserts and strips (PRACT).
    let format = FormatNvm { nsid: 1, lbaf: 3, mset: true, pi: 1, pil: false, ses: SecureErase::NONE };
    b.admin_ok(format, &[]);
    let act = |mut c: Command| {
        c.cdw12 = U32::new(c.cdw12.get() | 1 << 29);
        c
    };
    assert_eq!(b.io(act(Command::write(1, 2, 1)), &pattern(1, BLOCK)).0, SUCCESS);
    let commands = [act(compare(1, 2, 1)), act(write(1, 2, 1))];
    are(pair(&mut b, commands, &pattern(1, BLOCK), &pattern(2, BLOCK)), [SUCCESS; 2]);
    are(
        pair(&mut b, commands, &pattern(1, BLOCK), &pattern(3, BLOCK)),
        [Status::COMPARE_FAILURE, PARTNER_FAILED],
    );
    let (status, data) = b.io(act(Command::read(1, 2, 1)), &[]);
    assert_eq!((status, data), (SUCCESS, pattern(2, BLOCK)));
    // A guard of the host's that is wrong fails its own command.
    let check = |mut c: Command| {
        c.cdw12 = U32::new(c.cdw12.get() | 1 << 28);
        c
    };
    let wrong = vec![0x11; BLOCK + 8];
    let guard = Status::GUARD_CHECK_ERROR;
    are(
        pair(&mut b, [act(compare(1, 2, 1)), check(write(1, 2, 1))], &pattern(2, BLOCK), &wrong),
        [PARTNER_FAILED, guard],
    );
    assert_eq!(b.io(act(Command::read(1, 2, 1)), &[]).1, pattern(2, BLOCK));
}
