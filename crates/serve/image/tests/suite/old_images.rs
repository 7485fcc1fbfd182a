//! Images that earlier versions of the program wrote, as a crash left them: they must open with everything that was completed.
//!
//! `data/image-2026-11-21` is of format version 1 as it was then: namespaces 1 (2 MiB of 4 KiB blocks, NAND), 2 (1 MiB of 512-byte
//! blocks, DRAM), and 3, which a host had created (1 MiB of 4 KiB blocks). Blocks 0 to 15 of namespace 1 were written, then the odd
//! ones once more, then 4 and 5 deallocated; blocks 0 to 19 of namespace 2 were written. Then the process was killed.
//!
//! No Flush had asked for any of this. So all of it counts as long as the host runs that wrote it, and none of it on a host
//! that was booted since. The tests play both hosts: they write the mark of this boot into the copied journals, or leave
//! that of a host that is long gone.
//!
//! `data/image-2026-11-27-zones` has namespace 1 with four zones of 24 blocks, 32 blocks apart. Zone 0 has five blocks and was finished. Zone
//! 1 has a descriptor extension and seven blocks. Zone 2 has a Zone Random Write Area: blocks 0 to 2 were written, two of them committed,
//! and then block 5. Zone 3 is empty. Then the drive was stopped.

use image::examine::{Examination, LastShutdown, PageCondition};
use live::{BlockingQueue, Buffer, HostIdentity, NoEvents, Options};
use nvme::identify::{Cns, NamespaceList};
use nvme::io::Blocks;
use nvme::zerocopy::FromBytes;
use nvme::zone::{
    ZoneManagementReceive, ZoneReceiveAction, ZoneReport, ZoneReportFilter, ZoneSendAction, ZoneState,
};
use nvme::{Command, IoCommand, Status};
use std::path::Path;
use std::sync::Arc;

/// What was written to a block.
fn block(nsid: u32, lba: u64, round: u32, bytes: usize) -> Vec<u8> {
    let line = format!("namespace {nsid}, block {lba}, round {round}\n");
    line.into_bytes().into_iter().cycle().take(bytes).collect()
}

fn read(queue: &BlockingQueue, nsid: u32, lba: u64, bytes: u32) -> Vec<u8> {
    let (completion, data) = queue.execute(&Command::read(nsid, lba, 1), Buffer::zeroed(bytes)).unwrap();
    assert_eq!(completion.status(), Status::SUCCESS, "block {lba} of namespace {nsid}");
    data.as_slice().to_vec()
}

/// Where the checksum of a header begins, which covers all before it (docs/image-format.md).
const HEADER_CRC: usize = 72;
const BOOT: usize = 64;

fn crc(bytes: &[u8]) -> u64 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, bytes)
}

/// A copy of the image without zones.
fn copy(to: &Path) {
    copy_of("image-2026-11-21", to);
}

fn copy_of(image: &str, to: &Path) {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(image);
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// Makes the journals look as if this host had written them since it was booted.
fn stamp(dir: &Path) {
    let id = std::fs::read("/proc/sys/kernel/random/boot_id").expect("Linux tells which boot this is");
    for name in ["journal.1", "journal.2"] {
        let mut bytes = std::fs::read(dir.join(name)).unwrap();
        bytes[BOOT..HEADER_CRC].copy_from_slice(&crc(&id).to_le_bytes());
        let sum = crc(&bytes[..HEADER_CRC]);
        bytes[HEADER_CRC..HEADER_CRC + 8].copy_from_slice(&sum.to_le_bytes());
        std::fs::write(dir.join(name), bytes).unwrap();
    }
}

/// Opens the image; its namespaces, and a queue to read them.
fn open(dir: &Path) -> (live::Running, live::Controller, Vec<u32>) {
    let options = Options { image: Some(dir.to_owned()), ..Options::default() };
    let running = live::start(None, &options, &mut |_| ()).unwrap();
    let host = HostIdentity::new("nqn.2026-11.test:host").unwrap();
    let controller = running.handle().connect(host, Arc::new(NoEvents)).unwrap();
    let allocated = Command::identify(Cns::ALLOCATED_NAMESPACES, 0);
    let (completion, list) = controller.admin(&allocated, Buffer::zeroed(4096)).unwrap();
    assert_eq!(completion.status(), Status::SUCCESS);
    let list = NamespaceList::read_from_bytes(list.as_slice()).unwrap();
    let list = list.iter().collect();
    (running, controller, list)
}

#[test]
fn an_image_of_november_2026_opens_after_a_kill() {
    let temp = tempfile::tempdir().unwrap();
    copy(temp.path());
    stamp(temp.path());
    // The second time it is what this version wrote.
    for round in 0..2 {
        let (running, controller, list) = open(temp.path());
        assert_eq!(list, [1, 2, 3]);
        let queue = controller.blocking_queue(32).unwrap();
        for lba in 0..16 {
            let expected = match lba {
                4 | 5 => vec![0; 4096],
                _ => block(1, lba, 1 + lba as u32 % 2, 4096),
            };
            assert!(read(&queue, 1, lba, 4096) == expected, "block {lba} of namespace 1, round {round}");
        }
        for lba in 0..20 {
            assert!(
                read(&queue, 2, lba, 512) == block(2, lba, 1, 512),
                "block {lba} of namespace 2, round {round}"
            );
        }
        drop((queue, controller));
        running.stop();
    }
}

#[test]
fn an_image_of_november_2026_opens_after_the_host_went_down() {
    let temp = tempfile::tempdir().unwrap();
    copy(temp.path());
    for round in 0..2 {
        let (running, controller, list) = open(temp.path());
        assert_eq!(list, [1, 2], "round {round}");
        let queue = controller.blocking_queue(32).unwrap();
        for (nsid, blocks, bytes) in [(1, 16, 4096), (2, 20, 512)] {
            for lba in 0..blocks {
                let data = read(&queue, nsid, lba, bytes);
                assert!(data.iter().all(|b| *b == 0), "block {lba} of namespace {nsid}, round {round}");
            }
        }
        drop((queue, controller));
        running.stop();
    }
}

/// `tranche image check` sees the same. It says that nothing vouches for the pages.
#[test]
fn an_image_of_november_2026_is_looked_at() {
    for (stamped, left, nsids) in
        [(true, LastShutdown::Killed, &[1, 2, 3][..]), (false, LastShutdown::HostDown, &[1, 2])]
    {
        let temp = tempfile::tempdir().unwrap();
        copy(temp.path());
        if stamped {
            stamp(temp.path());
        }
        let mut examination = Examination::open(temp.path(), None).unwrap();
        let findings = examination.findings();
        assert_eq!((findings.version, findings.last_shutdown), (1, left));
        assert!(findings.damaged.is_empty() && findings.missing.is_none());
        let namespaces = examination.namespaces();
        assert!(namespaces.iter().map(|namespace| &namespace.nsid).eq(nsids));
        let mut there = Vec::new();
        let look = &mut |page: &image::examine::Page<'_>| {
            if page.is != PageCondition::Nothing {
                assert_eq!(page.is, PageCondition::Unchecked);
                assert!(page.data == block(1, page.lba, 1 + page.lba as u32 % 2, 4096));
                there.push(page.lba);
            }
            Ok(())
        };
        examination.pages(1, look).unwrap();
        let wanted: Vec<u64> = (0..16).filter(|lba| stamped && ![4, 5].contains(lba)).collect();
        assert_eq!(there, wanted);
    }
}

/// State, write pointer and area of each zone, and its extension without the zeros at its end.
fn zones(queue: &BlockingQueue) -> Vec<(ZoneState, Option<u64>, bool, Vec<u8>)> {
    let (action, filter) = (ZoneReceiveAction::EXTENDED_REPORT, ZoneReportFilter::ALL);
    let report = ZoneManagementReceive { nsid: 1, slba: 0, dwords: 1024, action, filter, partial: false };
    let (completion, data) = queue.execute(&report.into(), Buffer::zeroed(4096)).unwrap();
    assert_eq!(completion.status(), Status::SUCCESS);
    let report = ZoneReport::parse(data.as_slice(), 64).unwrap();
    let zones = report.zones().map(|(zone, extension)| {
        let len = extension.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        (zone.state(), zone.write_pointer(), zone.za.zrwav(), extension[..len].to_vec())
    });
    zones.collect()
}

#[test]
fn zones_of_an_image_of_november_2026_are_as_they_were() {
    let temp = tempfile::tempdir().unwrap();
    copy_of("image-2026-11-27-zones", temp.path());
    let extension = b"an extension of a zone..........................................".to_vec();
    // The second time it is what this version wrote.
    for round in 0..2 {
        let (running, controller, list) = open(temp.path());
        assert_eq!(list, [1]);
        let queue = controller.blocking_queue(32).unwrap();
        let expected = [
            (ZoneState::FULL, None, false, vec![]),
            (ZoneState::CLOSED, Some(39), false, extension.clone()),
            (ZoneState::CLOSED, Some(66), true, vec![]),
            (ZoneState::EMPTY, Some(96), false, vec![]),
        ];
        assert_eq!(zones(&queue), expected, "round {round}");
        let written = |lba: u64| matches!(lba, 0..5 | 32..39 | 64..67 | 69);
        for lba in (0..4).flat_map(|zone| zone * 32..zone * 32 + 24) {
            let expected = if written(lba) { block(1, lba, 1, 4096) } else { vec![0; 4096] };
            assert!(read(&queue, 1, lba, 4096) == expected, "block {lba}, round {round}");
        }
        drop((queue, controller));
        running.stop();
    }
    // They go on as zones do.
    let (running, controller, _) = open(temp.path());
    let queue = controller.blocking_queue(32).unwrap();
    let write = |lba: u64| {
        let data = Buffer::from(block(1, lba, 2, 4096));
        let write = IoCommand::Write(Blocks::new(1, lba, 1)).into();
        queue.execute(&write, data).unwrap().0.status()
    };
    assert_eq!([39, 64 + 4, 96].map(write), [Status::SUCCESS; 3]);
    assert!(write(5).is(Status::ZONE_IS_FULL));
    let reset = nvme::zone::ZoneManagementSend::new(1, ZoneSendAction::RESET, 0).into();
    assert_eq!(queue.execute(&reset, Buffer::zeroed(0)).unwrap().0.status(), Status::SUCCESS);
    assert_eq!(write(0), Status::SUCCESS);
    drop((queue, controller));
    running.stop();
}
