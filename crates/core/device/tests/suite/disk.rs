//! A namespace on a hard disk: what hosts see of it, and what a power cut leaves.

use crate::common::{Bench, ON_DISK, TIMING_EDIT, initial, pattern, small};
use device::{InitialNamespace, LbaFormat};
use media::Nanos;
use nvme::admin::{FaultInjection, FaultKind, PowerCut};
use nvme::identify::{Cns, IdentifyNamespace, IndependentNamespace};
use nvme::log::{LogId, RotationalMedia, SupportedLogPages};
use nvme::{Command, IoCommand, NSID_ALL, Status};

const BLOCK: usize = 4096;

fn log(b: &mut Bench, endgid: u16) -> (Status, Vec<u8>) {
    let command = Command::get_log_page(LogId::ROTATIONAL_MEDIA, NSID_ALL, endgid, 0, 512);
    let (completion, data) = b.admin(command, &[]);
    (completion.status(), data)
}

#[test]
fn hosts_see_that_the_medium_turns() {
    let mut b = Bench::with_namespaces(&[ON_DISK, TIMING_EDIT]);
    let nsfeat = |b: &mut Bench, nsid| {
        let ns: IndependentNamespace = b.ask(Command::identify(Cns::INDEPENDENT_NAMESPACE, nsid));
        ns.nsfeat
    };
    // Bit 4: rotational media; bit 5: no volatile write cache.
    assert_eq!((nsfeat(&mut b, 1) & 0x30, nsfeat(&mut b, 2) & 0x30), (0, 1 << 4));
    let (status, data) = log(&mut b, 2);
    assert_eq!(status, Status::SUCCESS);
    let log_page = <RotationalMedia as nvme::zerocopy::FromBytes>::read_from_bytes(&data).unwrap();
    // A speed that does not fit is not reported.
    assert_eq!((log_page.endgid.get(), log_page.numa.get(), log_page.nrs.get()), (2, 1, 0));
    assert_eq!((log_page.spinc.get(), log_page.fspinc.get()), (1, 0));
    for group in [0, 1, 3] {
        assert!(log(&mut b, group).0.is(Status::INVALID_FIELD), "group {group} does not turn");
    }
    let has = |b: &mut Bench| {
        let logs: SupportedLogPages = b.ask(Command::get_log_page(LogId::SUPPORTED, NSID_ALL, 0, 0, 1024));
        logs.lid[usize::from(LogId::ROTATIONAL_MEDIA.0)].lsupp()
    };
    assert!(has(&mut b));
    let mut without = Bench::with_namespaces(&[]);
    assert!(!has(&mut without));
    assert!(log(&mut without, 1).0.is(Status::INVALID_LOG_PAGE));
    b.cut(true);
    b.power_on();
    let (_, data) = log(&mut b, 2);
    assert_eq!(data[8], 2, "it began to turn twice");
}

#[test]
fn hosts_hear_the_speed_of_a_real_disk() {
    let mut b = Bench::with_namespaces(&[
        (ON_DISK.0, &ON_DISK.1.replace("rpm = 1000000", "rpm = 15000")),
        TIMING_EDIT,
    ]);
    let (status, data) = log(&mut b, 2);
    let log_page = <RotationalMedia as nvme::zerocopy::FromBytes>::read_from_bytes(&data).unwrap();
    assert_eq!((status, log_page.endgid.get(), log_page.nrs.get()), (Status::SUCCESS, 2, 15_000));
}

#[test]
fn a_power_cut_tears_a_block_on_a_drive_without_protection() {
    let slow = (ON_DISK.0, ON_DISK.1.replace("rpm = 1000000", "rpm = 6000"));
    let protect = |on: bool| format!("write_buffer = \"1MiB\"\npower_loss_protection = {on}");
    let (mut torn, mut lost) = (0, 0);
    for protected in [false, true] {
        // A sector takes 125 us; the cut comes at different places.
        for step in 0..24 {
            let changes =
                [TIMING_EDIT, (slow.0, slow.1.as_str()), ("write_buffer = \"1MiB\"", &protect(protected))];
            let mut b = Bench::with_namespaces(&changes);
            let (old, new) = (pattern(1, 4 * BLOCK), pattern(2, 4 * BLOCK));
            b.write(2, 0, 4, &old);
            let id = b.controller;
            b.submit(id, 1, &Command::write(2, 0, 4), &new);
            let cut = b.now + Nanos(3_000_000 + 500_000 * step);
            b.run_until(cut);
            b.now = cut;
            b.cut(true);
            b.power_on();
            for block in 0..4u32 {
                let (status, data) = b.io(IoCommand::Read(nvme::io::Blocks::new(2, block.into(), 1)), &[]);
                let at = block as usize * BLOCK..(block as usize + 1) * BLOCK;
                if !status.is(Status::SUCCESS) {
                    assert!(status.is(Status::UNRECOVERED_READ_ERROR), "{status:?}");
                    lost += 1;
                    assert!(!protected);
                } else if data != old[at.clone()] && data != new[at.clone()] {
                    torn += 1;
                    assert!(!protected, "a protected drive tears nothing");
                    // New sectors in front of old ones.
                    let new = data.chunks(512).zip(new[at].chunks(512)).take_while(|(a, b)| a == b).count();
                    assert!((1..8).contains(&new));
                }
            }
        }
    }
    assert!(torn + lost > 0, "{torn} blocks torn, {lost} lost");
}

#[test]
fn hosts_hear_what_a_power_cut_leaves_whole() {
    let unprotected = ("write_buffer", "power_loss_protection = false\nwrite_buffer");
    let sectors = |data: u32, changes: &[(&str, &str)]| {
        let mut config = small(changes);
        let format = LbaFormat::plain(data);
        config.namespaces = [1, 2].map(|set| InitialNamespace { format, ..initial(set, 4 << 20) }).into();
        let ns: IdentifyNamespace = Bench::new(config).ask(Command::identify(Cns::NAMESPACE, 2));
        (ns.nawupf_z.get(), ns.nabspf_z.get(), ns.nawun_z.get())
    };
    assert_eq!(sectors(512, &[ON_DISK]), (7, 7, 7), "capacitors save a page");
    assert_eq!(sectors(512, &[ON_DISK, unprotected]), (0, 0, 7), "a sector");
    assert_eq!(sectors(4096, &[ON_DISK, unprotected]), (0, 0, 0));
    assert_eq!(sectors(512, &[unprotected]), (7, 7, 7), "memory writes pages as a whole");
}

#[test]
fn a_planned_power_cut_comes_once_and_after_its_operations() {
    let mut b = Bench::with_namespaces(&[ON_DISK, TIMING_EDIT]);
    for round in 0..3 {
        b.admin_ok(PowerCut { after_media_ops: 10, ..PowerCut::default() }, &[]);
        let mut writes = 0;
        while b.drive.is_powered() {
            b.submit(b.controller, 1, &Command::write(2, writes, 1), &pattern(1, BLOCK));
            b.run_until(Nanos::MAX);
            writes += 1;
            assert!(writes < 100, "the cut comes");
        }
        assert_eq!(writes, 10, "round {round}");
        b.power_on();
        for block in 0..50 {
            b.write(2, block, 1, &pattern(2, BLOCK));
        }
        assert!(b.drive.is_powered());
    }
}

/// A fault of the disk, from now on for each operation.
fn fault(b: &mut Bench, kind: FaultKind, param: u32) {
    let fault = FaultInjection { nsid: 0, kind, nvmsetid: 2, count: 0, one_in: 1, param, lba: None };
    b.admin_ok(fault, &[]);
}

fn read(b: &mut Bench, block: u32) -> (Status, Vec<u8>) {
    b.io(IoCommand::Read(nvme::io::Blocks::new(2, block.into(), 1)), &[])
}

#[test]
fn slow_sectors_stay_slow() {
    let slow = (ON_DISK.0, &*ON_DISK.1.replace("rpm = 1000000", "rpm = 6000"));
    let mut b = Bench::with_namespaces(&[slow, TIMING_EDIT]);
    let data = pattern(3, BLOCK);
    b.write(2, 7, 1, &data);
    b.write(2, 20, 1, &data);
    let takes = |b: &mut Bench, block: u32| {
        let begin = b.now;
        assert_eq!(read(b, block), (Status::SUCCESS, data.clone()));
        b.now - begin
    };
    // 3 ms, a revolution of 10 ms at most, and less for the rest.
    let usual = Nanos(15_000_000);
    assert!(takes(&mut b, 7) < usual);
    fault(&mut b, FaultKind::SLOW, 4);
    let slower = Nanos(33_000_000);
    assert!(takes(&mut b, 7) >= slower, "three revolutions more");
    fault(&mut b, FaultKind::CLEAR, 0);
    assert!(takes(&mut b, 7) >= slower && takes(&mut b, 20) < usual, "its sectors and no others");
    b.cut(true);
    b.power_on();
    assert!(takes(&mut b, 7) >= slower && takes(&mut b, 20) < usual, "power mends nothing");
}

#[test]
fn writes_that_get_lost_or_astray_are_reported_good() {
    let mut b = Bench::with_namespaces(&[ON_DISK, TIMING_EDIT]);
    let (old, new) = (pattern(1, BLOCK), pattern(2, BLOCK));
    for block in 0..1024 {
        b.write(2, block, 1, &old);
    }
    let unreadable = |b: &mut Bench| {
        let is_bad = |block: u32| match read(b, block) {
            (Status::SUCCESS, data) => {
                assert_eq!(data, old, "block {block}");
                false
            }
            (status, _) => {
                assert!(status.is(Status::UNRECOVERED_READ_ERROR), "{status:?}");
                true
            }
        };
        (0..1024).map(is_bad).filter(|bad| *bad).count()
    };
    fault(&mut b, FaultKind::LOST_WRITE, 0);
    b.write(2, 7, 1, &new);
    fault(&mut b, FaultKind::CLEAR, 0);
    assert_eq!(unreadable(&mut b), 0, "the old block is there, and nobody else is hurt");
    // A write goes to any page of the disk, and the namespace is a part of it.
    fault(&mut b, FaultKind::MISDIRECTED_WRITE, 0);
    for block in 0..100 {
        b.write(2, block, 1, &new);
    }
    fault(&mut b, FaultKind::CLEAR, 0);
    let astray = unreadable(&mut b);
    assert!((5..=100).contains(&astray), "{astray} blocks are others");
}

#[test]
fn a_disk_fails_as_a_whole_and_operations_fail_once() {
    let mut b = Bench::with_namespaces(&[ON_DISK, TIMING_EDIT]);
    let (old, new) = (pattern(1, BLOCK), pattern(2, BLOCK));
    b.write(2, 7, 1, &old);
    let once = |kind| FaultInjection { nsid: 0, kind, nvmsetid: 2, count: 1, one_in: 1, param: 0, lba: None };
    b.admin_ok(once(FaultKind::UNCORRECTABLE), &[]);
    assert!(read(&mut b, 7).0.is(Status::UNRECOVERED_READ_ERROR));
    assert_eq!(read(&mut b, 7), (Status::SUCCESS, old.clone()));
    let write = |b: &mut Bench| b.io(Command::write(2, 7, 1), &new).0;
    b.admin_ok(once(FaultKind::PROGRAM_FAILURE), &[]);
    assert!(!write(&mut b).is(Status::SUCCESS));
    assert_eq!(read(&mut b, 7), (Status::SUCCESS, old.clone()), "it changed nothing");
    fault(&mut b, FaultKind::STUCK_DIE, 0);
    assert!(!write(&mut b).is(Status::SUCCESS) && !read(&mut b, 7).0.is(Status::SUCCESS));
    fault(&mut b, FaultKind::CLEAR, 0);
    assert_eq!(read(&mut b, 7), (Status::SUCCESS, old));
    assert!(write(&mut b).is(Status::SUCCESS));
    assert_eq!(read(&mut b, 7).1, new);
}

#[test]
fn a_grown_defect_is_told_and_mended_by_a_write() {
    let mut b = Bench::with_namespaces(&[ON_DISK, TIMING_EDIT]);
    let data = pattern(5, BLOCK);
    let weak = FaultInjection {
        nsid: 0,
        kind: FaultKind::WEAK_PAGE,
        nvmsetid: 2,
        count: 0,
        one_in: 1,
        param: 0,
        lba: None,
    };
    b.admin_ok(weak, &[]);
    b.write(2, 7, 1, &data);
    let clear = FaultInjection { kind: FaultKind::CLEAR, ..weak };
    b.admin_ok(clear, &[]);
    for _ in 0..3 {
        let (status, _) = b.io(IoCommand::Read(nvme::io::Blocks::new(2, 7, 1)), &[]);
        assert!(status.is(Status::UNRECOVERED_READ_ERROR), "{status:?}");
    }
    b.cut(true);
    b.power_on();
    let (status, _) = b.io(IoCommand::Read(nvme::io::Blocks::new(2, 7, 1)), &[]);
    assert!(status.is(Status::UNRECOVERED_READ_ERROR), "power mends nothing: {status:?}");
    b.write(2, 7, 1, &data);
    assert_eq!(b.read(2, 7, 1), data);
}
