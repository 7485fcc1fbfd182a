//! Firmware: download, commit, activation.

use crate::common::Bench;
use device::{Origin, firmware_image};
use nvme::admin::{AdminCommand, CommitAction as Action, FirmwareCommit, FirmwareImageDownload};
use nvme::aer::{AsyncEvent, NoticeInfo};
use nvme::feature::{AsyncEventConfiguration, FeatureId};
use nvme::identify::{Cns, IdentifyController};
use nvme::log::{FirmwareSlots, LogId};
use nvme::property::PropertyOffset;
use nvme::{Command, Status};

fn piece(offset: usize, bytes: usize) -> Command {
    let piece = FirmwareImageDownload { dwords: bytes as u64 / 4, offset: offset as u32 / 4 };
    AdminCommand::FirmwareImageDownload(piece).into()
}

fn commit(fs: u8, ca: Action) -> Command {
    AdminCommand::FirmwareCommit(FirmwareCommit { fs, ca, bpid: false }).into()
}

fn download(b: &mut Bench, image: &[u8]) {
    for (i, data) in image.chunks(8192).enumerate() {
        b.admin_ok(piece(i * 8192, data.len()), data);
    }
}

fn revision(b: &mut Bench) -> String {
    let id: IdentifyController = b.ask(Command::identify(Cns::CONTROLLER, 0));
    nvme::identify::ascii_text(&id.fr).to_owned()
}

fn slots(b: &mut Bench) -> (u8, Vec<String>) {
    let log: FirmwareSlots = b.ask(Command::get_log_page(LogId::FIRMWARE_SLOT, 0, 0, 0, 512));
    (log.afi, log.frs.iter().map(|f| nvme::identify::ascii_text(f).to_owned()).collect())
}

fn fails(b: &mut Bench, name: &str, command: Command, status: Status) {
    let data = vec![0; 65536];
    let length = b.drive.transfer(b.controller, 0, &command).bytes() as usize;
    let (got, _) = b.admin(command, &data[..length.min(65536)]);
    assert!(got.status().is(status), "{name}: {}, not {status}", got.status());
}

#[test]
fn firmware_is_activated_with_and_without_a_reset_and_stays() {
    let mut b = Bench::with_namespaces(&[]);
    let me = b.controller;
    let built_in = revision(&mut b);
    let id: IdentifyController = b.ask(Command::identify(Cns::CONTROLLER, 0));
    assert!(id.oacs.fwds() && id.frmw.ffsro() && id.frmw.fawr());
    assert_eq!((id.frmw.nofs(), id.fwug), (4, 1));
    let big = firmware_image("2.0", &vec![7; 30_000]).unwrap();
    download(&mut b, &big);
    b.admin_ok(commit(0, Action::REPLACE), &[]);
    assert_eq!((revision(&mut b), slots(&mut b).0), (built_in.clone(), 0x01));
    assert_eq!(slots(&mut b).1[..3], [built_in.clone(), "2.0".into(), String::new()]);
    b.admin_ok(commit(2, Action::ACTIVATE), &[]);
    assert_eq!((revision(&mut b), slots(&mut b).0), (built_in.clone(), 0x21));
    b.set_property(me, PropertyOffset::CC, 0).unwrap();
    b.enable(me);
    assert_eq!((revision(&mut b), slots(&mut b).0), ("2.0".into(), 0x02));
    // Without a reset, in the slot that the drive chooses.
    download(&mut b, &firmware_image("3.1", b"").unwrap());
    b.admin_ok(commit(0, Action::ACTIVATE_IMMEDIATELY), &[]);
    assert_eq!((revision(&mut b), slots(&mut b).0), ("3.1".into(), 0x03));
    // By a power cycle.
    download(&mut b, &firmware_image("4", b"four").unwrap());
    b.admin_ok(commit(4, Action::REPLACE_AND_ACTIVATE), &[]);
    assert_eq!(revision(&mut b), "3.1");
    b.cut(true);
    b.power_on();
    assert_eq!(revision(&mut b), "4");
    assert_eq!(slots(&mut b).1[..4], [built_in.clone(), "2.0".into(), "3.1".into(), "4".into()]);
    // A restart of the program keeps all of it.
    let restorer = device::Drive::restore(b.drive.config().clone(), &b.drive.save()).unwrap();
    let drive = restorer.finish(b.now, &mut b.memory).unwrap();
    let mut again = Bench::around(drive, b.memory.clone());
    assert_eq!((revision(&mut again), slots(&mut again)), ("4".into(), slots(&mut b)));
    // Back to what it was made with.
    again.admin_ok(commit(1, Action::ACTIVATE_IMMEDIATELY), &[]);
    assert_eq!((revision(&mut again), slots(&mut again).0), (built_in, 0x01));
}

#[test]
fn hosts_hear_of_an_activation() {
    let mut b = Bench::with_namespaces(&[]);
    let other = b.connect("other", Origin::Network);
    let fan = AsyncEventConfiguration::new().with_fan(true).into_bits().get();
    let set = Command::set_features(FeatureId::ASYNC_EVENT_CONFIGURATION, 0, fan);
    let request = Command::new(nvme::AdminOpcode::ASYNC_EVENT_REQUEST.0, 0);
    b.on(other, 0, &set, &[]);
    let io = b.submit(other, 0, &request, &[]);
    download(&mut b, &firmware_image("2", b"").unwrap());
    b.admin_ok(commit(2, Action::REPLACE), &[]);
    assert!(!b.done.contains_key(&io));
    b.admin_ok(commit(2, Action::ACTIVATE_IMMEDIATELY), &[]);
    let event = AsyncEvent::from_dw0(b.wait(io).0.dw0.get());
    assert_eq!(
        (event.info(), event.lid()),
        (NoticeInfo::FIRMWARE_ACTIVATION_STARTING.0, LogId::FIRMWARE_SLOT)
    );
}

#[test]
fn pieces_come_in_any_order_and_once() {
    let mut b = Bench::with_namespaces(&[]);
    let image = firmware_image("2", &[5; 12_000]).unwrap();
    for at in [8192, 0, 4096] {
        let data = &image[at..image.len().min(at + 4096)];
        b.admin_ok(piece(at, data.len()), data);
    }
    fails(&mut b, "a piece again", piece(4096, 4096), Status::OVERLAPPING_RANGE);
    // It took all of them with it.
    fails(&mut b, "nothing", commit(2, Action::REPLACE), Status::INVALID_FIRMWARE_IMAGE);
    for at in [4096, 8192] {
        let data = &image[at..image.len().min(at + 4096)];
        b.admin_ok(piece(at, data.len()), data);
    }
    fails(&mut b, "a gap", commit(2, Action::REPLACE), Status::INVALID_FIRMWARE_IMAGE);
    // A reset forgets pieces.
    b.admin_ok(piece(0, 4096), &image[..4096]);
    let me = b.controller;
    b.set_property(me, PropertyOffset::CC, 0).unwrap();
    b.enable(me);
    b.admin_ok(piece(0, 4096), &image[..4096]);
    let mut broken = image.clone();
    broken[9000] ^= 1;
    b.admin_ok(piece(4096, broken.len() - 4096), &broken[4096..]);
    fails(&mut b, "a changed image", commit(2, Action::REPLACE), Status::INVALID_FIRMWARE_IMAGE);
    assert_eq!(slots(&mut b).0, 1);
}

#[test]
fn illegal_commits() {
    let mut b = Bench::with_namespaces(&[("[drive]", "[drive]\nmax_transfer = \"64KiB\"")]);
    let boot = FirmwareCommit { fs: 2, ca: Action::REPLACE, bpid: true };
    let slot = Status::INVALID_FIRMWARE_SLOT;
    for (name, command, status) in [
        ("a piece between the granules", piece(2048, 4096), Status::INVALID_FIELD),
        ("a piece beyond the largest image", piece(1 << 20, 4096), Status::INVALID_FIELD),
        ("a piece larger than MDTS", piece(0, 128 << 10), Status::INVALID_FIELD),
        ("a reserved action", commit(2, Action(4)), Status::INVALID_FIELD),
        ("a boot partition", commit(2, Action(6)), Status::INVALID_FIELD),
        ("a boot partition's identifier", AdminCommand::FirmwareCommit(boot).into(), Status::INVALID_FIELD),
        ("slot 5", commit(5, Action::ACTIVATE), slot),
        ("the read-only slot", commit(1, Action::REPLACE), slot),
        ("no slot to activate", commit(0, Action::ACTIVATE), slot),
        ("an empty slot", commit(2, Action::ACTIVATE), Status::INVALID_FIRMWARE_IMAGE),
        ("an empty slot at once", commit(3, Action::ACTIVATE_IMMEDIATELY), Status::INVALID_FIRMWARE_IMAGE),
        ("no image", commit(2, Action::REPLACE), Status::INVALID_FIRMWARE_IMAGE),
    ] {
        fails(&mut b, name, command, status);
    }
    download(&mut b, &firmware_image("2", b"").unwrap());
    fails(&mut b, "an image for slot 1 at once", commit(1, Action::ACTIVATE_IMMEDIATELY), slot);
    assert_eq!(slots(&mut b).1[1..], vec![String::new(); 6]);
}

#[test]
fn what_runs_goes_on_running_until_another_is_activated() {
    let mut b = Bench::with_namespaces(&[]);
    let me = b.controller;
    download(&mut b, &firmware_image("2.0", b"").unwrap());
    b.admin_ok(commit(2, Action::ACTIVATE_IMMEDIATELY), &[]);
    for new in ["2.1", "2.2"] {
        download(&mut b, &firmware_image(new, b"").unwrap());
        b.admin_ok(commit(2, Action::REPLACE), &[]);
        assert_eq!((revision(&mut b), slots(&mut b).0, slots(&mut b).1[1].as_str()), ("2.0".into(), 2, new));
    }
    b.set_property(me, PropertyOffset::CC, 0).unwrap();
    b.enable(me);
    b.cut(true);
    b.power_on();
    let drive = device::Drive::restore(b.drive.config().clone(), &b.drive.save()).unwrap();
    let drive = drive.finish(b.now, &mut b.memory).unwrap();
    let mut b = Bench::around(drive, b.memory.clone());
    assert_eq!(revision(&mut b), "2.0");
    b.admin_ok(commit(2, Action::ACTIVATE), &[]);
    assert_eq!((revision(&mut b), slots(&mut b).0), ("2.0".into(), 0x22));
    let me = b.controller;
    b.set_property(me, PropertyOffset::CC, 0).unwrap();
    b.enable(me);
    assert_eq!((revision(&mut b), slots(&mut b).0), ("2.2".into(), 0x02));
}
