//! Where features meet: what ends what, and who waits for whom.

use crate::common::table::Table;
use crate::common::{Bench, TIMED_SMALL, initial, small};
use device::{Origin, firmware_image};
use media::Nanos;
use nvme::admin::{
    AdminCommand, CommitAction, DeviceSelfTest, FirmwareCommit, FirmwareImageDownload, FormatNvm,
    NamespaceManagement, NamespaceManagementSelect, Sanitize, SanitizeAction, SecureErase,
};
use nvme::directive::{Directive, DirectiveType, EnableDirective, StreamsParameters, operation};
use nvme::identify::Cns;
use nvme::io::Blocks;
use nvme::log::{LogId, SanitizeOperationStatus, SanitizeStatus, SelfTestLog, SelfTestOutcome};
use nvme::{Command, Csi, IoCommand, NSID_ALL, Status};

fn sanitize() -> Command {
    let sanact = SanitizeAction::BLOCK_ERASE;
    Sanitize { sanact, owpass: 1, ..Sanitize::default() }.into()
}

fn format(nsid: u32) -> Command {
    FormatNvm { nsid, lbaf: 0, mset: false, pi: 0, pil: false, ses: SecureErase::NONE }.into()
}

fn self_test(stc: u8) -> Command {
    AdminCommand::DeviceSelfTest(DeviceSelfTest { nsid: NSID_ALL, stc }).into()
}

fn is_sanitized(b: &mut Bench) -> bool {
    let log: SanitizeStatus = b.ask(Command::get_log_page(LogId::SANITIZE_STATUS, NSID_ALL, 0, 0, 512));
    log.sstat.sos() == SanitizeOperationStatus::COMPLETED
}

/// Base 5.1.22: what a sanitize operation does to others when it starts.
#[test]
fn a_sanitize_operation_ends_tests_and_streams() {
    let mut config = small(&[
        ("[drive]", "[drive]\ntiming = true"),
        ("spare = \"28%\"\n", "spare = \"60%\"\nplacement = { handles = 4 }\n"),
    ]);
    config.namespaces.push(initial(1, 8 << 20));
    let mut b = Bench::new(config);
    let of = |dtype, doper| Directive { nsid: 1, dwords: 8, doper, dtype, dspec: 0, cdw12: 0 };
    let on = EnableDirective::new().with_endir(true).with_tdtype(DirectiveType::STREAMS).into_bits().get();
    let enable = Directive { cdw12: on, ..of(DirectiveType::IDENTIFY, operation::ENABLE) };
    b.admin_ok(AdminCommand::DirectiveSend(enable), &[]);
    let allocate = Directive { cdw12: 2, ..of(DirectiveType::STREAMS, operation::ALLOCATE_RESOURCES) };
    b.admin_ok(AdminCommand::DirectiveReceive(allocate), &[]);
    for stream in [7, 9] {
        let write = IoCommand::Write(Blocks { dtype: 1, dspec: stream, ..Blocks::new(1, 0, 8) });
        assert_eq!(b.io(write, &[5; 32768]).0, Status::SUCCESS);
    }
    let parameters = |b: &mut Bench| -> (u16, u16) {
        let command = of(DirectiveType::STREAMS, operation::RETURN_PARAMETERS);
        let p: StreamsParameters = b.ask(AdminCommand::DirectiveReceive(command));
        (p.nsa.get(), p.nso.get())
    };
    assert_eq!(parameters(&mut b), (2, 2));
    b.admin_ok(self_test(2), &[]);
    b.admin_ok(sanitize(), &[]);
    b.run_until(Nanos::MAX);
    assert!(is_sanitized(&mut b));
    let log: SelfTestLog = b.ask(Command::get_log_page(LogId::DEVICE_SELF_TEST, NSID_ALL, 0, 0, 564));
    assert_eq!((log.operation, log.result[0].status), (0, 2 << 4 | SelfTestOutcome::SANITIZE.0));
    assert_eq!(parameters(&mut b), (2, 0), "streams are closed, resources stay");
}

#[test]
fn a_sanitize_operation_takes_back_the_event_of_the_one_before() {
    let mut b = Bench::with_namespaces(TIMED_SMALL);
    b.admin_ok(sanitize(), &[]);
    b.run_until(Nanos::MAX);
    b.write(1, 0, 64, &[7; 64 * 4096]);
    // Nobody was told of the first yet: what a request gets now is not about it.
    b.admin_ok(sanitize(), &[]);
    let request = b.submit(b.controller, 0, &Command::new(0x0C, 0), &[]);
    let now = b.now;
    b.run_until(now + Nanos(1_000_000));
    assert!(!b.done.contains_key(&request) && !is_sanitized(&mut b));
    b.run_until(Nanos::MAX);
    assert!(b.done.contains_key(&request));
}

#[test]
fn sanitize_is_refused_while_firmware_waits_for_a_reset() {
    let mut b = Bench::with_namespaces(&[]);
    let mut image = firmware_image("2.0", &[7; 100]).unwrap();
    image.resize(4096, 0);
    b.admin_ok(
        AdminCommand::FirmwareImageDownload(FirmwareImageDownload { dwords: 1024, offset: 0 }),
        &image,
    );
    let ca = CommitAction::REPLACE_AND_ACTIVATE;
    b.admin_ok(AdminCommand::FirmwareCommit(FirmwareCommit { fs: 2, ca, bpid: false }), &[]);
    let mut table = Table::new(
        "Sanitize beside others",
        "interplay.rs",
        "sanitize_is_refused_while_firmware_waits_for_a_reset",
    );
    let (got, _) = b.admin(sanitize(), &[]);
    let expected = Status::FIRMWARE_NEEDS_CONTROLLER_RESET;
    table.check("firmware that a reset will activate", true, &sanitize(), got.status(), expected);
    table.finish();
    b.set_property(b.controller, nvme::property::PropertyOffset::CC, 0x0046_0000).unwrap();
    b.enable(b.controller);
    b.admin_ok(sanitize(), &[]);
    b.run_until(Nanos::MAX);
    assert!(is_sanitized(&mut b));
}

/// What waits until a namespace is idle keeps others away from it, but not for longer than there is somebody who waits.
#[test]
fn a_host_that_goes_while_its_command_waits_leaves_no_namespace_shut() {
    let delete =
        |nsid| NamespaceManagement { nsid, sel: NamespaceManagementSelect::DELETE, csi: Csi::NVM }.into();
    for (what, command, gone) in [
        ("Format", format(1), false),
        ("Format of all", format(NSID_ALL), false),
        ("Delete", delete(1), true),
    ] {
        let mut b = Bench::with_namespaces(TIMED_SMALL);
        b.write(1, 0, 64, &[7; 64 * 4096]);
        b.run_until(Nanos::MAX);
        let other = b.connect("other", Origin::InProcess);
        let read = b.submit(other, 1, &Command::read(1, 0, 64), &[]);
        let waiting = b.submit(b.controller, 0, &command, &[]);
        let (refused, _) = b.on(other, 1, &Command::read(1, 0, 1), &[]);
        assert!(refused.status().is(Status::NAMESPACE_NOT_READY), "{what} does not wait");
        let mut out = Vec::new();
        b.drive.disconnect(b.now, b.controller, &mut b.memory, &mut out);
        assert!(out.is_empty(), "{what}: {out:?}");
        assert_eq!(b.wait(read).0.status(), Status::SUCCESS);
        b.wait(waiting);
        // What was formatted is closed until then.
        b.on(other, 0, &Command::identify(Cns::NAMESPACE, 1), &[]);
        let (again, _) = b.on(other, 1, &Command::read(1, 0, 1), &[]);
        let expected = if gone { Status::INVALID_FIELD } else { Status::SUCCESS };
        assert!(again.status().is(expected), "{what}: {}", again.status());
    }
}
