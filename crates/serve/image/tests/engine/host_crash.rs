//! The host goes down under an image: of what was written since the last sync, any part may have reached the
//! disk. What was flushed must be there, exactly.

use image::testing::{self, CONTENTS, HEADER, Header, HostDisk, ImageFileKind, generations, journal_name};
use live::{BlockingQueue, Buffer, Controller, HostIdentity, NoEvents, Options, Running};
use nvme::{Command, IoOpcode};
use std::fs;
use std::path::Path;
use std::sync::Arc;

const PAGES: usize = 400;

fn open(dir: &Path) -> Running {
    let options = Options { image: Some(dir.to_owned()), ..Options::default() };
    // Small enough that slots are reused many times over.
    let shape = testing::shape("", "2MiB", &[("1600KiB", "4096")]);
    live::start(Some(shape), &options, &mut |_| ()).unwrap()
}

fn connect(running: &Running) -> (Controller, BlockingQueue) {
    let host = HostIdentity::new("nqn.2026-11.test:host").unwrap();
    let controller = running.handle().connect(host, Arc::new(NoEvents)).unwrap();
    let queue = controller.blocking_queue(4).unwrap();
    (controller, queue)
}

fn command(opcode: IoOpcode, page: usize) -> Command {
    let mut command = Command::new(opcode.0, 1);
    command.cdw10.set(page as u32);
    command
}

/// Makes the files look as if they came from before the host was booted.
fn age(dir: &Path) {
    for generation in generations(&HostDisk::open_dir(dir).unwrap()).unwrap().1 {
        let path = dir.join(journal_name(generation));
        let mut bytes = fs::read(&path).unwrap();
        let header = Header { boot: 1, ..Header::decode(ImageFileKind::Journal, &bytes).unwrap() };
        bytes[..HEADER].copy_from_slice(&header.encode());
        fs::write(&path, bytes).unwrap();
    }
}

#[test]
fn what_was_flushed_survives_whatever_else_reached_the_disk() {
    let seed = u64::from_le_bytes(image::random());
    println!("seed {seed}");
    let mut random = rng::Rng::new(seed);
    let mut next = move || random.next_u64();
    let temp = tempfile::tempdir().unwrap();
    let (live, dead) = (temp.path().join("live"), temp.path().join("dead"));
    let mut flushed = vec![0u64; PAGES];
    let mut stamp = 0u64;
    let mut running = open(&live);
    for round in 0..12 {
        let (_controller, queue) = connect(&running);
        let mut written = flushed.clone();
        let mut synced = Vec::new();
        let mut rest = 400 + next() % 1500;
        let flush_at = rest / 2 + next() % (rest / 2);
        while rest > 0 {
            rest -= 1;
            stamp += 1;
            let page = next() as usize % PAGES;
            let data = Buffer::from(stamp.to_le_bytes().repeat(512));
            let (completion, _) = queue.execute(&command(IoOpcode::WRITE, page), data).unwrap();
            assert!(completion.status().is_success(), "{}", completion.status());
            written[page] = stamp;
            if rest == flush_at || (rest > flush_at && next() % 100 == 0) {
                let (completion, _) =
                    queue.execute(&Command::new(IoOpcode::FLUSH.0, 1), Buffer::empty()).unwrap();
                assert!(completion.status().is_success());
                flushed.clone_from(&written);
                synced = fs::read(live.join(CONTENTS)).unwrap();
            }
        }
        // The host goes down: each page of contents is as it was at the sync, or as it is now.
        let mut contents = fs::read(live.join(CONTENTS)).unwrap();
        for (slot, now) in contents.chunks_mut(4096).enumerate() {
            if next() % 2 == 0 {
                let then = synced.get(slot * 4096..).unwrap_or_default();
                let len = then.len().min(now.len());
                now.fill(0);
                now[..len].copy_from_slice(&then[..len]);
            }
        }
        fs::create_dir(&dead).unwrap();
        for entry in fs::read_dir(&live).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), dead.join(entry.file_name())).unwrap();
        }
        fs::write(dead.join(CONTENTS), contents).unwrap();
        age(&dead);
        drop(queue);
        running.stop();
        fs::remove_dir_all(&live).unwrap();
        fs::rename(&dead, &live).unwrap();
        running = open(&live);
        let (_controller, queue) = connect(&running);
        for (page, &expected) in flushed.iter().enumerate() {
            let (completion, data) =
                queue.execute(&command(IoOpcode::READ, page), Buffer::zeroed(4096)).unwrap();
            assert!(completion.status().is_success());
            let found = u64::from_le_bytes(data.as_slice()[..8].try_into().unwrap());
            assert_eq!(found, expected, "round {round} page {page}");
            assert!(
                data.as_slice().chunks_exact(8).all(|c| c == &data.as_slice()[..8]),
                "page {page} is torn"
            );
        }
    }
    running.stop();
}
