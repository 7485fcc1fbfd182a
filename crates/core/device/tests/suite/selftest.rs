//! Device Self-test.

use crate::common::{Bench, pattern};
use media::Nanos;
use nvme::admin::{
    AdminCommand, DeviceSelfTest, FaultInjection, FaultKind, FormatNvm, NamespaceManagement,
    NamespaceManagementSelect, SecureErase,
};
use nvme::identify::{Cns, IdentifyController};
use nvme::log::{LogId, SelfTestLog, SelfTestOutcome, SelfTestResult};
use nvme::property::PropertyOffset;
use nvme::{Command, Csi, NSID_ALL, Status};

const SHORT_TEST: u8 = 1;
const EXTENDED_TEST: u8 = 2;
const ABORT_TEST: u8 = 15;

fn test(nsid: u32, stc: u8) -> Command {
    AdminCommand::DeviceSelfTest(DeviceSelfTest { nsid, stc }).into()
}

fn log(b: &mut Bench) -> SelfTestLog {
    b.ask(Command::get_log_page(LogId::DEVICE_SELF_TEST, NSID_ALL, 0, 0, 564))
}

/// Code and result of the newest test, and how many there are.
fn newest(b: &mut Bench) -> (u8, SelfTestOutcome, usize) {
    let log = log(b);
    let used = |r: &&SelfTestResult| r.status & 0xF != SelfTestOutcome::UNUSED.0;
    let status = log.result[0].status;
    (status >> 4, SelfTestOutcome(status & 0xF), log.result.iter().filter(used).count())
}

fn filled() -> Bench {
    let mut b = Bench::with_namespaces(&[]);
    for block in 0..1024 {
        b.write(1, block, 1, &pattern(block as u32, 4096));
    }
    b.run_until(Nanos::MAX);
    b
}

fn uncorrectable(count: u32) -> FaultInjection {
    FaultInjection {
        nsid: 0,
        kind: FaultKind::UNCORRECTABLE,
        nvmsetid: 1,
        count,
        one_in: 0,
        param: 0,
        lba: None,
    }
}

#[test]
fn tests_run_and_pass() {
    let mut b = filled();
    let id: IdentifyController = b.ask(Command::identify(Cns::CONTROLLER, 0));
    assert!(id.oacs.dsts() && id.edstt.get() > 0 && id.dsto & 1 == 1);
    assert_eq!(newest(&mut b), (0, SelfTestOutcome::UNUSED, 0));
    for (i, (nsid, code)) in [(0, SHORT_TEST), (1, SHORT_TEST), (NSID_ALL, EXTENDED_TEST), (2, EXTENDED_TEST)]
        .into_iter()
        .enumerate()
    {
        b.admin_ok(test(nsid, code), &[]);
        assert_eq!(log(&mut b).operation, code);
        let (busy, _) = b.admin(test(0, SHORT_TEST), &[]);
        assert!(busy.status().is(Status::SELF_TEST_IN_PROGRESS));
        let mut last = 0;
        while log(&mut b).operation != 0 {
            let now = log(&mut b).completion;
            assert!((last..=100).contains(&now), "{last} {now}");
            last = now;
            let at = b.drive.next_event().expect("the test goes on");
            b.run_until(at);
        }
        assert_eq!(newest(&mut b), (code, SelfTestOutcome::PASSED, i + 1));
    }
    // What is written meanwhile is not disturbed.
    assert_eq!(b.read(1, 5, 1), pattern(5, 4096));
}

#[test]
fn what_cannot_be_read_is_found() {
    let mut b = filled();
    b.admin_ok(uncorrectable(0), &[]);
    b.admin_ok(test(1, EXTENDED_TEST), &[]);
    b.run_until(Nanos::MAX);
    let result = log(&mut b).result[0];
    assert_eq!(result.status, EXTENDED_TEST << 4 | SelfTestOutcome::FAILED_SEGMENT.0);
    assert_eq!((result.segment, result.valid, result.nsid.get(), result.flba.get()), (2, 0b1111, 1, 0));
    assert!(Status::new(nvme::status::Sct(result.sct), result.sc).is(Status::UNRECOVERED_READ_ERROR));
    // The other medium is well.
    b.admin_ok(test(2, EXTENDED_TEST), &[]);
    b.run_until(Nanos::MAX);
    assert_eq!(newest(&mut b), (EXTENDED_TEST, SelfTestOutcome::PASSED, 2));
}

#[test]
fn tests_are_aborted() {
    let mut b = filled();
    let me = b.controller;
    b.admin_ok(test(0, ABORT_TEST), &[]);
    assert_eq!(newest(&mut b).2, 0);
    b.admin_ok(test(1, EXTENDED_TEST), &[]);
    b.admin_ok(test(0, ABORT_TEST), &[]);
    assert_eq!(newest(&mut b), (EXTENDED_TEST, SelfTestOutcome::ABORTED, 1));
    b.admin_ok(test(1, SHORT_TEST), &[]);
    let format = FormatNvm { nsid: 1, lbaf: 0, mset: false, pi: 0, pil: false, ses: SecureErase::NONE };
    b.admin_ok(format, &[]);
    assert_eq!(newest(&mut b), (SHORT_TEST, SelfTestOutcome::FORMAT, 2));
    b.admin_ok(test(1, EXTENDED_TEST), &[]);
    let delete = NamespaceManagement { nsid: 2, sel: NamespaceManagementSelect::DELETE, csi: Csi::NVM };
    b.admin_ok(delete, &[]);
    assert_eq!(newest(&mut b).2, 2, "another namespace");
    b.admin_ok(NamespaceManagement { nsid: 1, ..delete }, &[]);
    assert_eq!(newest(&mut b), (EXTENDED_TEST, SelfTestOutcome::NAMESPACE_REMOVED, 3));
    b.admin_ok(test(0, SHORT_TEST), &[]);
    b.set_property(me, PropertyOffset::CC, 0).unwrap();
    b.enable(me);
    assert_eq!(newest(&mut b), (SHORT_TEST, SelfTestOutcome::RESET, 4));
    // Nothing goes on.
    b.run_until(Nanos::MAX);
    assert_eq!(newest(&mut b).2, 4);
}

#[test]
fn an_extended_test_goes_on_over_resets_and_power_cuts() {
    let mut b = filled();
    b.admin_ok(test(NSID_ALL, EXTENDED_TEST), &[]);
    for _ in 0..3 {
        let at = b.drive.next_event().unwrap();
        b.run_until(at);
    }
    let before = log(&mut b).completion;
    assert!(before > 0);
    let me = b.controller;
    b.set_property(me, PropertyOffset::CC, 0).unwrap();
    b.enable(me);
    assert_eq!((log(&mut b).operation, log(&mut b).completion), (EXTENDED_TEST, before));
    b.cut(true);
    b.power_on();
    assert_eq!(log(&mut b).operation, EXTENDED_TEST);
    let restorer = device::Drive::restore(b.drive.config().clone(), &b.drive.save()).unwrap();
    let drive = restorer.finish(b.now, &mut b.memory).unwrap();
    let mut again = Bench::around(drive, b.memory.clone());
    assert_eq!((log(&mut again).operation, log(&mut again).completion), (EXTENDED_TEST, before));
    again.run_until(Nanos::MAX);
    assert_eq!(newest(&mut again), (EXTENDED_TEST, SelfTestOutcome::PASSED, 1));
    // A short one does not.
    again.admin_ok(test(1, SHORT_TEST), &[]);
    again.cut(true);
    again.power_on();
    assert_eq!(newest(&mut again), (SHORT_TEST, SelfTestOutcome::RESET, 2));
}

#[test]
fn twenty_results_are_kept() {
    let mut b = Bench::with_namespaces(&[]);
    for _ in 0..25 {
        b.admin_ok(test(0, SHORT_TEST), &[]);
        b.run_until(Nanos::MAX);
    }
    assert_eq!(newest(&mut b), (SHORT_TEST, SelfTestOutcome::PASSED, 20));
}

#[test]
fn illegal_tests() {
    let mut b = Bench::with_namespaces(&[]);
    let rows: &[(&str, Command, Status)] = &[
        ("a reserved code", test(0, 0), Status::INVALID_FIELD),
        ("a refresh", test(0, 3), Status::INVALID_FIELD),
        ("a vendor's test", test(0, 14), Status::INVALID_FIELD),
        ("a namespace that is not there", test(9, SHORT_TEST), Status::INVALID_FIELD),
        ("a namespace that cannot be", test(99, SHORT_TEST), Status::INVALID_NAMESPACE),
    ];
    for (name, command, status) in rows {
        let (got, _) = b.admin(*command, &[]);
        assert!(got.status().is(*status), "{name}: {}, not {status}", got.status());
    }
}
