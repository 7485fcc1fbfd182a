//! Reads that the translation layer answers later: a hard disk does not know their end when it is asked.

use crate::common::{Bench, ON_DISK, TIMING_EDIT, pattern};
use media::Nanos;
use nvme::admin::{AdminCommand, DeviceSelfTest, FaultInjection, FaultKind};
use nvme::copy::{Copy, CopySource};
use nvme::io::Blocks;
use nvme::log::{LogId, SelfTestLog, SelfTestOutcome};
use nvme::{Command, IoCommand, NSID_ALL, Status};

/// Namespace 2 is on a disk. The least that a request takes there.
const MIN_DISK_LATENCY: Nanos = Nanos(3_000_000);
const BLOCK: usize = 4096;

/// A drive whose namespace 2 is on a disk, with 16 blocks of data in it.
fn late() -> (Bench, Vec<u8>) {
    let mut b = Bench::with_namespaces(&[ON_DISK, TIMING_EDIT]);
    let data = pattern(1, 16 * BLOCK);
    b.write(2, 0, 16, &data);
    (b, data)
}

fn blocks(first: u64, count: u32) -> Blocks {
    Blocks::new(2, first, count)
}

/// Reads of namespace 2 cannot be corrected: so many, or all (0).
fn fail_reads(b: &mut Bench, count: u32) {
    let kind = FaultKind::UNCORRECTABLE;
    b.admin_ok(FaultInjection { nsid: 0, kind, nvmsetid: 2, count, one_in: 0, param: 0, lba: None }, &[]);
}

/// Submits a Copy, and gives its number.
fn begin_copy(b: &mut Bench, from: &[(u64, u32)], to: u64) -> u32 {
    let mut data = Vec::new();
    for &(slba, nlb) in from {
        let source = CopySource { slba, nlb, ..CopySource::default() };
        source.write(0, |bytes| data.extend_from_slice(bytes));
    }
    let copy = Copy { nsid: 2, sdlba: to, nr: from.len() as u16, ..Copy::default() };
    b.submit(b.controller, 1, &copy.into(), &data)
}

/// A Copy's status, and dword 0 of its completion.
fn copy(b: &mut Bench, from: &[(u64, u32)], to: u64) -> (Status, u32) {
    let io = begin_copy(b, from, to);
    let (completion, _) = b.wait(io);
    (completion.status(), completion.dw0.get())
}

#[test]
fn commands_that_read_complete_when_the_answer_comes() {
    let (mut b, data) = late();
    let fua = Blocks { fua: true, ..blocks(0, 16) };
    for command in [IoCommand::Read(blocks(0, 16)), IoCommand::Read(fua)] {
        let begun = b.now;
        assert_eq!(b.io(command, &[]), (Status::SUCCESS, data.clone()), "{command:?}");
        assert!(b.now >= begun + MIN_DISK_LATENCY, "{command:?} took {} ns", (b.now.since(begun)).0);
    }
    let begun = b.now;
    assert_eq!(b.io(IoCommand::Compare(blocks(0, 16)), &data).0, Status::SUCCESS);
    assert_eq!(b.io(IoCommand::Verify(blocks(0, 16)), &[]).0, Status::SUCCESS);
    assert!(b.now >= begun + MIN_DISK_LATENCY + MIN_DISK_LATENCY);
    // What differs is known at once.
    assert!(b.io(IoCommand::Compare(blocks(0, 16)), &pattern(2, 16 * BLOCK)).0.is(Status::COMPARE_FAILURE));
    // Namespace 1 is not in the way.
    b.write(1, 0, 1, &data[..BLOCK]);
    assert_eq!(b.read(1, 0, 1), data[..BLOCK]);
}

#[test]
fn many_reads_wait_at_a_time() {
    let (mut b, data) = late();
    let id = b.controller;
    let begun = b.now;
    let all: Vec<u32> = (0..16).map(|n| b.submit(id, 1, &Command::read(2, n, 1), &[])).collect();
    assert!(all.iter().all(|io| !b.done.contains_key(io)));
    for (n, io) in all.into_iter().enumerate() {
        let (completion, got) = b.wait(io);
        assert_eq!((completion.status(), got), (Status::SUCCESS, data[n * BLOCK..][..BLOCK].to_vec()));
    }
    assert!(b.now < begun + MIN_DISK_LATENCY + MIN_DISK_LATENCY, "one after the other");
}

#[test]
fn a_copy_ends_with_the_last_of_its_reads() {
    let (mut b, data) = late();
    let begun = b.now;
    assert_eq!(copy(&mut b, &[(8, 4), (0, 2)], 100), (Status::SUCCESS, 2));
    assert!(b.now >= begun + MIN_DISK_LATENCY);
    assert_eq!(b.read(2, 100, 6), [&data[8 * BLOCK..12 * BLOCK], &data[..2 * BLOCK]].concat());
}

#[test]
fn what_is_found_later_fails_the_command_later() {
    let (mut b, data) = late();
    for fua in [false, true] {
        fail_reads(&mut b, 1);
        let begun = b.now;
        let (status, _) = b.io(IoCommand::Read(Blocks { fua, ..blocks(3, 1) }), &[]);
        assert!(status.is(Status::UNRECOVERED_READ_ERROR), "{status:?}");
        assert!(b.now >= begun + MIN_DISK_LATENCY);
        assert_eq!(b.read(2, 3, 1), data[3 * BLOCK..4 * BLOCK]);
    }
}

#[test]
fn a_copy_writes_nothing_before_all_of_its_reads_have_ended_well() {
    let (mut b, data) = late();
    let old = pattern(3, 2 * BLOCK);
    b.write(2, 100, 2, &old);
    b.write(1, 0, 2, &old);
    // Some of the sources fail, or all.
    for (from, failing) in [([(8, 1), (0, 1)], 1), ([(0, 1), (8, 1)], 1), ([(8, 1), (0, 1)], 2)] {
        fail_reads(&mut b, failing);
        let (status, copied) = copy(&mut b, &from, 100);
        assert!(status.is(Status::UNRECOVERED_READ_ERROR), "{status}");
        assert_eq!((copied, b.read(2, 100, 2)), (0, old.clone()));
    }
    // What is written to the destination while the sources are read is overwritten.
    let io = begin_copy(&mut b, &[(8, 1), (0, 1)], 100);
    let between = pattern(4, 2 * BLOCK);
    let write = b.submit(b.controller, 1, &Command::write(2, 100, 2), &between);
    assert!(!b.done.contains_key(&io));
    assert_eq!([b.wait(write).0.status(), b.wait(io).0.status()], [Status::SUCCESS; 2]);
    let copied = [&data[8 * BLOCK..9 * BLOCK], &data[..BLOCK]].concat();
    assert_eq!(b.read(2, 100, 2), copied);
    // Power takes a Copy that reads.
    let io = begin_copy(&mut b, &[(4, 2)], 100);
    b.cut(true);
    b.power_on();
    assert!(!b.done.contains_key(&io));
    assert_eq!((b.read(2, 0, 16), b.read(2, 100, 2)), (data, copied));
}

#[test]
fn a_self_test_waits_for_its_reads() {
    let test = AdminCommand::DeviceSelfTest(DeviceSelfTest { nsid: 2, stc: 2 });
    let newest = |b: &mut Bench| {
        let log: SelfTestLog = b.ask(Command::get_log_page(LogId::DEVICE_SELF_TEST, NSID_ALL, 0, 0, 564));
        (SelfTestOutcome(log.result[0].status & 0xF), log.result[0].nsid.get())
    };
    let (mut b, _) = late();
    let begun = b.now;
    b.admin_ok(test, &[]);
    b.run_until(Nanos::MAX);
    assert_eq!(newest(&mut b).0, SelfTestOutcome::PASSED);
    // Four chunks of 1 MiB.
    assert!(b.now >= begun + Nanos(4 * MIN_DISK_LATENCY.0));
    fail_reads(&mut b, 0);
    b.admin_ok(test, &[]);
    b.run_until(Nanos::MAX);
    assert_eq!(newest(&mut b), (SelfTestOutcome::FAILED_SEGMENT, 2));
}

#[test]
fn power_takes_reads_that_wait() {
    let (mut b, data) = late();
    let id = b.controller;
    let io = b.submit(id, 1, &Command::read(2, 0, 1), &[]);
    b.cut(true);
    b.power_on();
    assert!(!b.done.contains_key(&io));
    assert_eq!(b.read(2, 0, 16), data);
}
