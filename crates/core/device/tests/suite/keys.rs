//! Keys of namespaces as the drive sees them: wrapped bytes that come, go, and stay away.

use crate::common::table::Table;
use crate::common::{Bench, Memory, TIMED_SMALL, bytes, pattern};
use device::{Drive, DriveKeyId};
use media::Nanos;
use nvme::admin::{
    FormatNvm, NamespaceManagement, NamespaceManagementSelect, Sanitize, SanitizeAction, SecureErase,
};
use nvme::identify::{Cns, IdentifyController, IdentifyNamespace, NamespaceCreate};
use nvme::io::{Blocks, DsmRange};
use nvme::log::{LogId, SanitizeOperationStatus as Sos, SanitizeStatus};
use nvme::{Command, IoCommand, IoOpcode, NSID_ALL, Status};

const KEY: Option<DriveKeyId> = Some([1; 16]);

/// A drive whose namespaces have keys.
fn encrypted(changes: &[(&str, &str)]) -> Bench {
    let mut memory = Memory::default();
    memory.drive_key = KEY;
    let mut drive = Drive::new(Bench::with_namespaces(changes).drive.config().clone()).unwrap();
    drive.encrypt(&mut memory).unwrap();
    Bench::around(drive, memory)
}

/// The drive as it is opened with another drive key.
fn reopen(b: &Bench, drive_key: Option<DriveKeyId>) -> Bench {
    let mut memory = b.memory.clone();
    memory.drive_key = drive_key;
    let config = b.drive.config().clone();
    let drive = Drive::restore(config, &b.drive.save()).unwrap().finish(b.now, &mut memory).unwrap();
    Bench::around(drive, memory)
}

fn format(nsid: u32, ses: SecureErase) -> FormatNvm {
    FormatNvm { nsid, lbaf: 0, mset: false, pi: 0, pil: false, ses }
}

fn sanitize(sanact: SanitizeAction) -> Sanitize {
    Sanitize { sanact, owpass: 1, ..Sanitize::default() }
}

fn key_of(b: &Bench, nsid: u32) -> Vec<u8> {
    let saved = b.drive.save();
    let text = String::from_utf8_lossy(&saved);
    let section = &text[text.find(&format!("[{nsid},{{")).unwrap()..];
    let at = section.find("\"key\":\"").unwrap() + 7;
    section[at..].split('"').next().unwrap().as_bytes().to_vec()
}

fn encryption(b: &mut Bench, nsid: u32) -> u8 {
    b.ask::<IdentifyNamespace>(Command::identify(Cns::NAMESPACE, nsid)).vs[0]
}

#[test]
fn a_locked_drive_refuses_and_loses_nothing() {
    let mut b = encrypted(&[]);
    b.write(1, 5, 1, &pattern(1, 4096));
    let keys = [key_of(&b, 1), key_of(&b, 2)];
    for wrong in [None, Some([2; 16])] {
        let mut locked = reopen(&b, wrong);
        assert!(locked.drive.is_locked());
        assert_eq!(encryption(&mut locked, 1), 2);
        let mut table = Table::new("A locked drive", "keys.rs", "a_locked_drive_refuses_and_loses_nothing");
        let blocks = Blocks::new(1, 5, 1);
        let denied = Status::ACCESS_DENIED;
        for (name, command, data) in [
            ("its namespace is read", Command::read(1, 5, 1), vec![]),
            ("its namespace is written", Command::write(1, 5, 1), pattern(2, 4096)),
            ("its namespace is compared", blocks.encode(IoOpcode::COMPARE), pattern(1, 4096)),
            ("its namespace is verified", IoCommand::Verify(blocks).into(), vec![]),
            ("its namespace is zeroed", Command::write_zeroes(1, 5, 1, true), vec![]),
            ("its namespace is deallocated", Command::deallocate(1, 1), bytes(&DsmRange::new(0, 8))),
        ] {
            let (got, _) = locked.io(command, &data);
            table.check(name, false, &command, got, denied);
        }
        let delete =
            NamespaceManagement { nsid: 1, sel: NamespaceManagementSelect::DELETE, csi: nvme::Csi::NVM };
        let create = NamespaceManagement { nsid: 0, sel: NamespaceManagementSelect::CREATE, ..delete };
        let new = NamespaceCreate { nsze: 8.into(), ncap: 8.into(), ..NamespaceCreate::default() };
        for (name, command, data) in [
            ("its namespace is formatted", Command::from(format(1, SecureErase::NONE)), vec![]),
            ("all are formatted", format(NSID_ALL, SecureErase::CRYPTOGRAPHIC).into(), vec![]),
            ("its namespace is deleted", delete.into(), vec![]),
            ("a namespace is created", create.into(), bytes(&new)),
            ("block erase", sanitize(SanitizeAction::BLOCK_ERASE).into(), vec![]),
        ] {
            let (got, _) = locked.admin(command, &data);
            table.check(name, true, &command, got.status(), denied);
        }
        table.finish();
        assert_eq!([key_of(&locked, 1), key_of(&locked, 2)], keys);
        let mut again = reopen(&locked, KEY);
        assert_eq!(again.read(1, 5, 1), pattern(1, 4096));
        assert_eq!(encryption(&mut again, 1), 1);
    }
}

#[test]
fn formats_change_keys_when_they_erase() {
    let mut b = encrypted(&[]);
    let id: IdentifyController = b.ask(Command::identify(Cns::CONTROLLER, 0));
    assert!(id.fna.cryes() && id.sanicap.ces());
    let (first, other) = (key_of(&b, 1), key_of(&b, 2));
    b.admin_ok(format(1, SecureErase::NONE), &[]);
    assert_eq!(key_of(&b, 1), first);
    assert_eq!(b.forgets, 0);
    let mut seen = vec![first];
    for ses in [SecureErase::CRYPTOGRAPHIC, SecureErase::USER_DATA] {
        b.write(1, 0, 1, &pattern(1, 4096));
        b.admin_ok(format(1, ses), &[]);
        assert_eq!(b.read(1, 0, 1), vec![0; 4096]);
        assert!(!seen.contains(&key_of(&b, 1)));
        seen.push(key_of(&b, 1));
    }
    assert_eq!((b.forgets, key_of(&b, 2)), (2, other));
    // If no key can be made, the command fails, and a later one may do.
    b.memory.fail = true;
    assert!(b.admin(format(1, SecureErase::CRYPTOGRAPHIC), &[]).0.status().is(Status::INTERNAL_ERROR));
    b.memory.fail = false;
    b.admin_ok(format(1, SecureErase::CRYPTOGRAPHIC), &[]);
    b.write(1, 0, 1, &pattern(2, 4096));
    assert_eq!(b.read(1, 0, 1), pattern(2, 4096));
}

#[test]
fn a_crypto_erase_survives_power_cuts() {
    for delay in [0, 1, 5_000, 1_000_000] {
        let mut b = encrypted(TIMED_SMALL);
        for nsid in [1, 2] {
            b.write(nsid, 5, 1, &pattern(nsid, 4096));
        }
        let keys = [key_of(&b, 1), key_of(&b, 2)];
        b.admin_ok(sanitize(SanitizeAction::CRYPTO_ERASE), &[]);
        let now = b.now;
        b.run_until(now + Nanos(delay));
        b.cut(true);
        b.power_on();
        b.run_until(Nanos::MAX);
        let log: SanitizeStatus = b.ask(Command::get_log_page(LogId::SANITIZE_STATUS, NSID_ALL, 0, 0, 512));
        assert_eq!(log.sstat.sos(), Sos::COMPLETED);
        for nsid in [1, 2] {
            assert_eq!(b.read(nsid, 5, 1), vec![0; 4096]);
            assert!(!keys.contains(&key_of(&b, nsid)));
        }
    }
}

/// An operation that was in progress waits for the right key, as it would need new keys.
#[test]
fn a_locked_drive_goes_on_sanitizing_with_its_key() {
    let mut b = encrypted(TIMED_SMALL);
    // On flash, so that there is something to erase.
    for lba in (0..1024).step_by(64) {
        b.write(1, lba, 64, &pattern(1, 64 * 4096));
    }
    b.admin_ok(sanitize(SanitizeAction::BLOCK_ERASE), &[]);
    let mut locked = reopen(&b, None);
    locked.run_until(Nanos(1_000_000_000));
    assert!(locked.io(Command::read(1, 5, 1), &[]).0.is(Status::SANITIZE_IN_PROGRESS));
    let mut again = reopen(&locked, KEY);
    again.run_until(Nanos::MAX);
    assert_eq!(again.read(1, 5, 1), vec![0; 4096]);
}

/// Whoever deletes an encrypted namespace erases it.
#[test]
fn deletion_forgets_the_key() {
    let delete =
        |nsid| NamespaceManagement { nsid, sel: NamespaceManagementSelect::DELETE, csi: nvme::Csi::NVM };
    let mut b = encrypted(&[]);
    b.admin_ok(delete(1), &[]);
    assert_eq!(b.forgets, 1);
    // A failure is told.
    b.disk = false;
    assert!(b.admin(delete(2), &[]).0.status().is(Status::INTERNAL_ERROR));
    b.disk = true;
    // What is in the clear is another matter.
    let mut b = Bench::with_namespaces(&[]);
    b.admin_ok(delete(1), &[]);
    assert_eq!(b.forgets, 0);
}
