//! Images that earlier versions of the program wrote, as a crash left them: they must open with everything that was completed.
//!
//! `data/image-2026-11-21` is of format version 1 as it was then: namespaces 1 (2 MiB of 4 KiB blocks, NAND), 2 (1 MiB of 512-byte
//! blocks, DRAM), and 3, which a host had created (1 MiB of 4 KiB blocks). Blocks 0 to 15 of namespace 1 were written, then the odd
//! ones once more, then 4 and 5 deallocated; blocks 0 to 19 of namespace 2 were written. Then the process was killed.

mod common;

use nvme::identify::{Cns, NamespaceList};
use nvme::zerocopy::FromBytes;
use nvme::{Command, Status};
use run::{BlockingQueue, Buffer, HostIdentity, NoEvents, Options};
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

#[test]
fn an_image_of_november_2026_opens() {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/image-2026-11-21");
    let temp = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), temp.path().join(entry.file_name())).unwrap();
    }
    // The second time it is what this version wrote.
    for round in 0..2 {
        let options = Options { image: Some(temp.path().to_owned()), ..Options::default() };
        let running = run::start(None, &options, &mut |_| ()).unwrap();
        let host = HostIdentity::new("nqn.2026-11.test:host").unwrap();
        let controller = running.handle().connect(host, Arc::new(NoEvents)).unwrap();
        let allocated = Command::identify(Cns::ALLOCATED_NAMESPACES, 0);
        let (completion, list) = controller.admin(&allocated, Buffer::zeroed(4096)).unwrap();
        assert_eq!(completion.status(), Status::SUCCESS);
        let list = NamespaceList::read_from_bytes(list.as_slice()).unwrap();
        assert_eq!(list.iter().collect::<Vec<_>>(), [1, 2, 3]);
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
