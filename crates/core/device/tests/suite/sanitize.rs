//! Sanitize: nothing that was written can be read any more, whatever happens meanwhile.

use crate::common::table::Table;
use crate::common::{Bench, TIMED_SMALL, pattern};
use media::Nanos;
use nvme::admin::{
    FormatNvm, NamespaceManagement, NamespaceManagementSelect, Sanitize, SanitizeAction, SecureErase,
};
use nvme::feature::FeatureId;
use nvme::identify::{Cns, IdentifyController};
use nvme::io::Blocks;
use nvme::log::{ErrorInformation, LogId, SanitizeOperationStatus as Sos, SanitizeSsi, SanitizeStatus};
use nvme::{Command, IoOpcode, NSID_ALL, Status, U32};

fn sanitize(sanact: SanitizeAction) -> Sanitize {
    Sanitize { sanact, owpass: 1, ..Sanitize::default() }
}

fn overwrite(owpass: u8) -> Sanitize {
    Sanitize { owpass, ovrpat: 0x5A5A_5A5A, ..sanitize(SanitizeAction::OVERWRITE) }
}

fn log(b: &mut Bench) -> SanitizeStatus {
    b.ask(Command::get_log_page(LogId::SANITIZE_STATUS, NSID_ALL, 0, 0, 512))
}

fn sos(b: &mut Bench) -> Sos {
    log(b).sstat.sos()
}

/// Namespaces 1 and 2 with old and new versions of their data, on flash and in the buffer.
fn filled(changes: &[(&str, &str)]) -> Bench {
    let mut b = Bench::with_namespaces(changes);
    for round in 0..3 {
        for nsid in [1, 2] {
            for lba in (0..1024).step_by(64) {
                b.write(nsid, lba, 64, &pattern(round * 5000 + nsid * 1000 + lba as u32, 64 * 4096));
            }
        }
    }
    b
}

fn all_zeros(b: &mut Bench) {
    for nsid in [1, 2] {
        for lba in (0..1024).step_by(64) {
            assert!(b.read(nsid, lba, 64).iter().all(|x| *x == 0), "namespace {nsid}, LBA {lba}");
        }
    }
}

#[test]
fn block_erase_and_overwrite_leave_nothing() {
    for command in [sanitize(SanitizeAction::BLOCK_ERASE), overwrite(3)] {
        for timed in [&[][..], TIMED_SMALL] {
            let mut b = filled(timed);
            let before = log(&mut b);
            assert_eq!(
                (before.sstat.sos(), before.sprog.get(), before.sstat.gde()),
                (Sos::NEVER, 0xFFFF, false)
            );
            b.admin_ok(command, &[]);
            if !timed.is_empty() {
                assert_eq!(sos(&mut b), Sos::IN_PROGRESS);
            }
            b.run_until(Nanos::MAX);
            let after = log(&mut b);
            assert_eq!(
                (after.sstat.sos(), after.sprog.get(), after.sstat.gde()),
                (Sos::COMPLETED, 0xFFFF, true)
            );
            assert_eq!(after.scdw10, Command::from(command).cdw10);
            let passes = if command.sanact == SanitizeAction::OVERWRITE { 3 } else { 0 };
            assert_eq!(after.sstat.opc(), passes);
            assert!(b.memory.bytes().all(|page| page.iter().all(|x| *x == 0)), "contents are left");
            all_zeros(&mut b);
            b.write(1, 0, 1, &pattern(1, 4096));
            assert!(!log(&mut b).sstat.gde(), "it was written to");
            assert_eq!(b.read(1, 0, 1), pattern(1, 4096));
        }
    }
}

#[test]
fn it_tells_its_progress_and_refuses_what_touches_data() {
    let mut b = filled(TIMED_SMALL);
    let events = b.submit(b.controller, 0, &Command::new(0x0C, 0), &[]);
    let began = b.now;
    b.admin_ok(overwrite(2), &[]);
    let estimate = log(&mut b);
    assert!(estimate.etbe.get() > 0 && estimate.eto.get() > estimate.etbe.get());
    assert_eq!(estimate.ssi, SanitizeSsi::new(), "no media verification");
    let mut last = 0;
    let mut passes = 0;
    let get_log = |lid| Command::get_log_page(lid, if lid == LogId::SMART { NSID_ALL } else { 0 }, 0, 0, 512);
    let table: Vec<(&str, Command, u16, Status)> = vec![
        ("read", Command::read(1, 0, 1), 1, Status::SANITIZE_IN_PROGRESS),
        ("write", Command::write(1, 0, 1), 1, Status::SANITIZE_IN_PROGRESS),
        ("flush", Command::flush(1), 1, Status::SANITIZE_IN_PROGRESS),
        ("compare", Blocks::new(1, 0, 1).encode(IoOpcode::COMPARE), 1, Status::SANITIZE_IN_PROGRESS),
        ("format", format(1, SecureErase::NONE).into(), 0, Status::SANITIZE_IN_PROGRESS),
        ("delete", delete(1).into(), 0, Status::SANITIZE_IN_PROGRESS),
        ("sanitize", overwrite(1).into(), 0, Status::SANITIZE_IN_PROGRESS),
        (
            "self-test",
            Command { cdw10: U32::new(1), ..Command::new(0x14, 0) },
            0,
            Status::SANITIZE_IN_PROGRESS,
        ),
        ("firmware", Command::new(0x10, 0), 0, Status::SANITIZE_IN_PROGRESS),
        ("attachment", Command::new(0x15, 1), 0, Status::SANITIZE_IN_PROGRESS),
        ("a directive", Command::new(0x19, 1), 0, Status::SANITIZE_IN_PROGRESS),
        ("LBA status", Command::new(0x86, 1), 0, Status::SANITIZE_IN_PROGRESS),
        ("endurance log", get_log(LogId::ENDURANCE_GROUP), 0, Status::SANITIZE_IN_PROGRESS),
        ("persistent events", get_log(LogId::PERSISTENT_EVENT), 0, Status::SANITIZE_IN_PROGRESS),
        ("telemetry", get_log(LogId::TELEMETRY_HOST), 0, Status::SANITIZE_IN_PROGRESS),
        ("effects of commands", get_log(LogId::COMMAND_EFFECTS), 0, Status::SANITIZE_IN_PROGRESS),
        ("a vendor's log", get_log(LogId::OCP_SMART), 0, Status::SANITIZE_IN_PROGRESS),
        ("errors", get_log(LogId::ERROR), 0, Status::SUCCESS),
        ("health log", get_log(LogId::SMART), 0, Status::SUCCESS),
        ("changed namespaces", get_log(LogId::CHANGED_NAMESPACES), 0, Status::SUCCESS),
        ("ANA log", get_log(LogId::ANA), 0, Status::SUCCESS),
        ("reservation notifications", get_log(LogId::RESERVATION_NOTIFICATION), 0, Status::SUCCESS),
        ("set features", Command::set_features(FeatureId::ARBITRATION, 0, 7), 0, Status::SUCCESS),
        ("identify", Command::identify(Cns::CONTROLLER, 0), 0, Status::SUCCESS),
        ("keep alive", Command::new(0x18, 0), 0, Status::SUCCESS),
        ("no such command", Command::new(0x3F, 0), 0, Status::INVALID_OPCODE),
    ];
    let mut refused = Table::new(
        "While a sanitize operation is in progress",
        "sanitize.rs",
        "it_tells_its_progress_and_refuses_what_touches_data",
    );
    while sos(&mut b) == Sos::IN_PROGRESS {
        for (name, command, qid, expected) in &table {
            let (completion, _) = b.on(b.controller, *qid, command, &[0; 4096]);
            refused.check(name, *qid == 0, command, completion.status(), *expected);
        }
        let status = log(&mut b);
        assert!(status.sprog.get() >= last && status.sstat.opc() >= passes, "it only grows");
        (last, passes) = (status.sprog.get(), status.sstat.opc());
        let now = b.now;
        b.run_until(now + Nanos(5_000_000));
        assert!(b.now.0 < began.0 + 3_600_000_000_000, "it ends");
    }
    refused.finish();
    assert!(last > 0x8000 && passes >= 1, "progress {last:#x}, {passes} passes");
    let (completion, _) = b.wait(events);
    assert_eq!(completion.dw0.get(), 0x0081_0106, "Sanitize Operation Completed");
    all_zeros(&mut b);
    // Nothing tells where data was.
    let errors: [ErrorInformation; 8] = b.ask(get_log(LogId::ERROR));
    assert!(errors.iter().all(|e| e.lba.get() == 0 && e.error_count.get() > 0));
}

fn format(nsid: u32, ses: SecureErase) -> FormatNvm {
    FormatNvm { nsid, lbaf: 0, mset: false, pi: 0, pil: false, ses }
}

fn delete(nsid: u32) -> NamespaceManagement {
    NamespaceManagement { nsid, sel: NamespaceManagementSelect::DELETE, csi: nvme::Csi::NVM }
}

#[test]
fn io_under_way_ends_first_and_what_waits_is_refused() {
    let mut b = filled(TIMED_SMALL);
    let read = b.submit(b.controller, 1, &Command::read(1, 0, 64), &[]);
    let waiting = b.submit(b.controller, 0, &format(1, SecureErase::NONE).into(), &[]);
    b.admin_ok(sanitize(SanitizeAction::BLOCK_ERASE), &[]);
    let (completion, data) = b.wait(read);
    assert_eq!(completion.status(), Status::SUCCESS);
    assert!(data.iter().any(|x| *x != 0), "it was there before");
    assert!(b.wait(waiting).0.status().is(Status::SANITIZE_IN_PROGRESS));
    b.run_until(Nanos::MAX);
    assert_eq!(sos(&mut b), Sos::COMPLETED);
    all_zeros(&mut b);
}

#[test]
fn a_power_cut_at_any_time_does_not_end_it() {
    for command in [sanitize(SanitizeAction::BLOCK_ERASE), overwrite(1)] {
        for delay in [0, 1, 1_000_000, 4_100_000, 20_000_000, 300_000_000] {
            for energy in [true, false] {
                let mut b = filled(TIMED_SMALL);
                b.admin_ok(command, &[]);
                let now = b.now;
                b.run_until(now + Nanos(delay));
                b.cut(energy);
                b.power_on();
                if delay < 10_000_000 {
                    let (status, _) = b.io(Command::read(1, 0, 1), &[]);
                    assert!(status.is(Status::SANITIZE_IN_PROGRESS), "after {delay} ns: {status:?}");
                }
                b.run_until(Nanos::MAX);
                assert_eq!(sos(&mut b), Sos::COMPLETED, "cut after {delay} ns");
                assert!(b.memory.bytes().all(|page| page.iter().all(|x| *x == 0)));
                all_zeros(&mut b);
            }
        }
    }
}

#[test]
fn the_process_may_end_at_any_time() {
    let mut b = filled(TIMED_SMALL);
    let config = b.drive.config().clone();
    b.admin_ok(sanitize(SanitizeAction::BLOCK_ERASE), &[]);
    let saved = b.drive.save();
    let mut memory = b.memory.clone();
    let drive = device::Drive::restore(config, &saved).unwrap().finish(b.now, &mut memory).unwrap();
    let mut again = Bench::around(drive, memory);
    assert!(again.io(Command::read(1, 0, 1), &[]).0.is(Status::SANITIZE_IN_PROGRESS));
    again.run_until(Nanos::MAX);
    assert_eq!(sos(&mut again), Sos::COMPLETED);
    all_zeros(&mut again);
}

#[test]
fn an_operation_that_fails_is_left_as_the_host_was_allowed() {
    let start = |ause| {
        let mut b = filled(&[]);
        let command = Sanitize { ause, ..sanitize(SanitizeAction::BLOCK_ERASE) };
        // The state is durable, what comes after it fails.
        b.fail_forget = true;
        b.admin_ok(command, &[]);
        b.run_until(Nanos::MAX);
        b.fail_forget = false;
        assert_eq!(sos(&mut b), Sos::FAILED);
        assert!(b.io(Command::read(1, 0, 1), &[]).0.is(Status::SANITIZE_FAILED));
        assert!(b.admin(format(1, SecureErase::NONE), &[]).0.status().is(Status::SANITIZE_FAILED));
        b
    };
    // Restricted: only another operation of the same kind of exit leads out, also after a power cycle.
    let mut b = start(false);
    assert_eq!(log(&mut b).ssi, SanitizeSsi::new());
    let exit = sanitize(SanitizeAction::EXIT_FAILURE_MODE);
    assert!(b.admin(exit, &[]).0.status().is(Status::SANITIZE_FAILED));
    let unrestricted = Sanitize { ause: true, ..sanitize(SanitizeAction::BLOCK_ERASE) };
    assert!(b.admin(unrestricted, &[]).0.status().is(Status::SANITIZE_FAILED));
    b.cut(true);
    b.power_on();
    assert!(b.io(Command::read(1, 0, 1), &[]).0.is(Status::SANITIZE_FAILED));
    b.admin_ok(sanitize(SanitizeAction::BLOCK_ERASE), &[]);
    b.run_until(Nanos::MAX);
    assert_eq!(sos(&mut b), Sos::COMPLETED);
    all_zeros(&mut b);
    // Unrestricted.
    let mut b = start(true);
    assert_eq!(log(&mut b).ssi, SanitizeSsi::new());
    b.admin_ok(exit, &[]);
    assert_eq!(sos(&mut b), Sos::FAILED);
    all_zeros(&mut b);
    // Without a failure there is nothing to leave.
    b.admin_ok(exit, &[]);
}

#[test]
fn what_cannot_be_made_durable_is_not_begun() {
    let mut b = filled(&[]);
    b.disk = false;
    let (completion, _) = b.admin(sanitize(SanitizeAction::BLOCK_ERASE), &[]);
    assert!(completion.status().is(Status::INTERNAL_ERROR));
    b.disk = true;
    assert_eq!(sos(&mut b), Sos::NEVER);
    assert_eq!(b.read(1, 0, 64), pattern(2 * 5000 + 1000, 64 * 4096));
}

#[test]
fn refused_sanitize_commands() {
    let mut b = filled(&[]);
    let base = sanitize(SanitizeAction::BLOCK_ERASE);
    let rows: [(&str, Sanitize, Status); 6] = [
        ("crypto erase without keys", sanitize(SanitizeAction::CRYPTO_ERASE), Status::INVALID_FIELD),
        (
            "exit of a state that does not exist",
            sanitize(SanitizeAction::EXIT_MEDIA_VERIFICATION),
            Status::INVALID_FIELD,
        ),
        ("no deallocation", Sanitize { ndas: true, ..base }, Status::INVALID_FIELD),
        ("media verification", Sanitize { emvs: true, ..base }, Status::INVALID_FIELD),
        ("no action", sanitize(SanitizeAction(0)), Status::INVALID_FIELD),
        ("a reserved action", sanitize(SanitizeAction(7)), Status::INVALID_FIELD),
    ];
    let mut table = Table::new("Sanitize", "sanitize.rs", "refused_sanitize_commands");
    for (name, command, expected) in rows {
        let (completion, _) = b.admin(command, &[]);
        table.check(name, true, &command.into(), completion.status(), expected);
        assert!(completion.status().dnr(), "{name}");
    }
    table.finish();
    assert_eq!(sos(&mut b), Sos::NEVER);
    let id: IdentifyController = b.ask(Command::identify(Cns::CONTROLLER, 0));
    assert!(id.sanicap.bes() && id.sanicap.ows() && id.sanicap.ndi() && !id.sanicap.ces());
}

#[test]
fn a_format_with_user_data_erase_leaves_nothing_of_its_namespace() {
    let mut b = filled(&[]);
    let kept = b.read(2, 0, 64);
    b.admin_ok(format(1, SecureErase::USER_DATA), &[]);
    assert_eq!(b.forgets, 1);
    let of = |lba: u32, round: u32| pattern(round * 5000 + 1000 + lba, 4096);
    for page in b.memory.bytes() {
        for round in 0..3 {
            assert!(page != of(0, round) && page != of(64, round), "a version of round {round} is left");
        }
    }
    assert_eq!(b.read(2, 0, 64), kept);
    assert!(b.read(1, 0, 64).iter().all(|x| *x == 0));
    // A failure is told.
    b.disk = false;
    let (completion, _) = b.admin(format(1, SecureErase::USER_DATA), &[]);
    assert!(completion.status().is(Status::INTERNAL_ERROR));
}
