//! An image under a real drive: crashes, wrong use, a full disk.

use crate::common::{shape, shape_with};
use live::{BlockingQueue, Buffer, Controller, HostIdentity, NoEvents, Options, Running, Shape, StartError};
use nvme::{Command, IoOpcode, Status};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use testkit::skipped;

fn options(dir: &Path) -> Options {
    Options { image: Some(dir.to_owned()), ..Options::default() }
}

fn open(shape: Option<Shape>, dir: &Path) -> Result<Running, StartError> {
    live::start(shape, &options(dir), &mut |_| ())
}

fn connect(running: &Running) -> (Controller, BlockingQueue) {
    let host = HostIdentity::new("nqn.2026-11.test:host").unwrap();
    let controller = running.handle().connect(host, Arc::new(NoEvents)).unwrap();
    let queue = controller.blocking_queue(32).unwrap();
    (controller, queue)
}

fn transfer(queue: &BlockingQueue, opcode: IoOpcode, lba: u32, data: Buffer) -> (Status, Buffer) {
    let mut command = Command::new(opcode.0, 1);
    command.cdw10.set(lba);
    command.cdw12.set((data.len() / 4096) as u32 - 1);
    let (completion, data) = queue.execute(&command, data).unwrap();
    (completion.status(), data)
}

fn write(queue: &BlockingQueue, lba: u32, byte: u8) -> Status {
    transfer(queue, IoOpcode::WRITE, lba, Buffer::from(vec![byte; 4096])).0
}

fn read(queue: &BlockingQueue, lba: u32) -> u8 {
    let (status, data) = transfer(queue, IoOpcode::READ, lba, Buffer::zeroed(4096));
    assert!(status.is_success(), "{status}");
    assert!(data.as_slice().windows(2).all(|w| w[0] == w[1]), "lba {lba} is torn");
    data.as_slice()[0]
}

fn names(dir: &Path) -> Vec<std::ffi::OsString> {
    let mut names: Vec<_> = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    names
}

/// Copies an image whose drive is idle; again while a checkpoint is being finished.
fn copy(from: &Path, to: &Path) {
    loop {
        let _ = std::fs::remove_dir_all(to);
        std::fs::create_dir_all(to).unwrap();
        let before = names(from);
        let copied = before.iter().all(|name| std::fs::copy(from.join(name), to.join(name)).is_ok());
        if copied && names(from) == before {
            return;
        }
    }
}

/// The files of an image as they are at any moment are what a killed process leaves behind.
#[test]
fn a_copy_of_a_live_image_has_everything_that_was_completed() {
    crash_again_and_again(options(Path::new("")));
}

/// The same with a checkpoint every few hundred writes.
#[test]
fn checkpoints_under_load_lose_nothing() {
    let mut options = options(Path::new(""));
    options.image_options.checkpoint_bytes = 4096;
    crash_again_and_again(options.clone());
    options.image_options.host_sync = false;
    crash_again_and_again(options);
}

fn crash_again_and_again(options: Options) {
    let temp = tempfile::tempdir().unwrap();
    let (live, dead) = (temp.path().join("live"), temp.path().join("dead"));
    let options = Options { image: Some(live.clone()), ..options };
    let running = live::start(Some(shape()), &options, &mut |_| ()).unwrap();
    let (_controller, queue) = connect(&running);
    let mut expected = vec![0u8; 600];
    let mut state = 12345u64;
    for round in 0..12u8 {
        for _ in 0..3000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let lba = (state >> 33) as u32 % 600;
            let byte = (state >> 20) as u8 | 1;
            assert!(write(&queue, lba, byte).is_success());
            expected[lba as usize] = byte;
        }
        if round % 3 == 1 {
            let (completion, _) =
                queue.execute(&Command::new(IoOpcode::FLUSH.0, 1), Buffer::empty()).unwrap();
            assert!(completion.status().is_success());
        }
        copy(&live, &dead);
        let crashed = open(None, &dead).unwrap();
        let (_controller, queue) = connect(&crashed);
        for (lba, &byte) in expected.iter().enumerate() {
            assert_eq!(read(&queue, lba as u32), byte, "round {round} lba {lba}");
        }
        crashed.stop();
        std::fs::remove_dir_all(&dead).unwrap();
    }
    println!("{:?}", names(&live));
}

/// Cuts the journal of a crashed image at many places: each state is one that was.
#[test]
fn every_cut_of_the_journal_opens_to_a_prefix_of_the_writes() {
    let temp = tempfile::tempdir().unwrap();
    let (live, dead) = (temp.path().join("live"), temp.path().join("dead"));
    let running = open(Some(shape()), &live).unwrap();
    let (_controller, queue) = connect(&running);
    // Write n goes to its own page, so that the state is the number of writes that are there.
    for n in 0..120 {
        assert!(write(&queue, n, 7).is_success());
    }
    copy(&live, &dead);
    drop(running);
    let journal = dead.join("journal.2");
    let mut whole = std::fs::read(&journal).unwrap();
    // Zeros are written ahead of it.
    whole.truncate(whole.iter().rposition(|&b| b != 0).unwrap() + 1);
    let mut last = 0;
    // Header and first frame are in one sector.
    for cut in (129..=whole.len()).step_by(97).chain([whole.len()]) {
        let image = temp.path().join(format!("cut{cut}"));
        copy(&dead, &image);
        std::fs::write(image.join("journal.2"), &whole[..cut]).unwrap();
        let crashed = open(None, &image).unwrap();
        let (_controller, queue) = connect(&crashed);
        let there = (0..120).take_while(|&n| read(&queue, n) == 7).count();
        assert!((there..120).all(|n| read(&queue, n as u32) == 0), "cut at {cut}: a hole");
        assert!(there >= last, "cut at {cut}: {there} writes after {last}");
        last = there;
        // It goes on as if nothing had been behind the cut.
        assert!(write(&queue, 119, 9).is_success());
        crashed.stop();
        let again = open(None, &image).unwrap();
        let (_controller, queue) = connect(&again);
        assert_eq!(read(&queue, 119), 9);
        drop(again);
        std::fs::remove_dir_all(&image).unwrap();
    }
    assert_eq!(last, 120);
}

/// The newest checkpoint is lost, and the journals from the one before it on have a hole: the image must not open to a
/// state that is older than what was completed.
#[test]
fn a_gap_in_the_journals_is_an_error() {
    let temp = tempfile::tempdir().unwrap();
    let (live, copied) = (temp.path().join("live"), temp.path().join("copy"));
    let mut options = options(&live);
    options.image_options.checkpoint_bytes = 4096;
    let running = live::start(Some(shape()), &options, &mut |_| ()).unwrap();
    let (_controller, queue) = connect(&running);
    let journals = |dir: &Path| -> Vec<String> {
        let names = names(dir).into_iter().map(|name| name.to_string_lossy().into_owned());
        names.filter(|name| name.starts_with("journal.")).collect()
    };
    for lba in 0.. {
        assert!(write(&queue, lba % 256, 1).is_success());
        if journals(&live).len() > 1 {
            break;
        }
    }
    copy(&live, &copied);
    running.stop();
    let all = names(&copied).into_iter().map(|name| name.to_string_lossy().into_owned());
    let checkpoints: Vec<String> = all.filter(|name| name.starts_with("checkpoint.")).collect();
    let number = |name: &String| name.rsplit('.').next().unwrap().parse::<u64>().unwrap();
    let newest = checkpoints.iter().max_by_key(|name| number(name)).unwrap();
    let oldest = journals(&copied).into_iter().min_by_key(|name| number(name)).unwrap();
    if checkpoints.len() > 1 {
        std::fs::remove_file(copied.join(newest)).unwrap();
    }
    let journal = std::fs::OpenOptions::new().write(true).open(copied.join(&oldest)).unwrap();
    let bytes = std::fs::read(copied.join(&oldest)).unwrap();
    journal.set_len(bytes.iter().rposition(|&b| b != 0).unwrap() as u64 - 20).unwrap();
    let error = open(None, &copied).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains(&oldest) && error.contains("is damaged"), "{error}");
}

#[test]
fn a_new_image_was_never_shut_down_uncleanly() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("image");
    for cycle in 1..4u8 {
        let running = open(Some(shape()), &dir).unwrap();
        let (controller, _queue) = connect(&running);
        let mut log = Command::new(nvme::AdminOpcode::GET_LOG_PAGE.0, nvme::NSID_ALL);
        log.cdw10.set(127 << 16 | 2);
        let (_, data) = controller.admin(&log, Buffer::zeroed(512)).unwrap();
        // Power Cycles, Unexpected Power Losses.
        assert_eq!((data.as_slice()[112], data.as_slice()[144]), (cycle, 0));
        running.stop();
    }
}

#[test]
fn wrong_use_is_explained() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("image");
    let message = |result: Result<Running, StartError>| result.map(|_| ()).unwrap_err().to_string();
    assert!(message(open(None, &dir)).contains("no image"));
    let running = open(Some(shape()), &dir).unwrap();
    let locked = message(open(Some(shape()), &dir));
    assert!(locked.contains(&format!("process {}", std::process::id())), "{locked}");
    running.stop();
    let other = message(open(Some(shape_with("atomic_write = \"8KiB\"")), &dir));
    assert!(other.contains("another drive") && other.contains("atomic_pages"), "{other}");
    // Timing may change from one time to the next.
    open(Some(shape_with("timing = true")), &dir).unwrap().stop();
    let precondition = Options { preparation: sim::Precondition::Fill.preparation(0), ..options(&dir) };
    let not_new = message(live::start(Some(shape()), &precondition, &mut |_| ()));
    assert!(not_new.contains("exists already"), "{not_new}");
    std::fs::write(dir.join("drive.toml"), "nonsense").unwrap();
    assert!(message(open(None, &dir)).contains("drive.toml"));
    std::fs::write(dir.join("drive.toml"), shape().toml).unwrap();
    for name in std::fs::read_dir(&dir).unwrap().map(|e| e.unwrap().path()) {
        if name.file_name().unwrap().to_str().unwrap().starts_with("checkpoint") {
            std::fs::write(name, b"nonsense").unwrap();
        }
    }
    assert!(message(open(None, &dir)).contains("checkpoint"));
}

/// Needs root and a tmpfs of its own: skipped where that cannot be had.
#[test]
fn a_full_disk_fails_writes_and_loses_nothing() {
    let temp = tempfile::tempdir().unwrap();
    let mount = temp.path().join("small");
    std::fs::create_dir(&mount).unwrap();
    let mounted = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=12m", "tranche-test"])
        .arg(&mount)
        .status()
        .is_ok_and(|s| s.success());
    if !mounted {
        return skipped("a_full_disk_fails_writes_and_loses_nothing", "a tmpfs cannot be mounted");
    }
    let result = std::panic::catch_unwind(|| {
        let dir = mount.join("image");
        let running = open(Some(shape()), &dir).unwrap();
        let (_controller, queue) = connect(&running);
        let mut kept = 0;
        let mut refused = 0;
        for lba in 0..4000 {
            match write(&queue, lba, 5) {
                status if status.is_success() && refused == 0 => kept += 1,
                status if status.is_success() => {}
                status => {
                    assert!(status.is(Status::CAPACITY_EXCEEDED) && !status.dnr(), "{status}");
                    refused += 1;
                }
            }
            if refused > 20 {
                break;
            }
        }
        assert!(refused > 20 && kept > 500, "kept {kept}, refused {refused}");
        for lba in 0..kept {
            assert_eq!(read(&queue, lba), 5);
        }
        running.stop();
        let again = open(None, &dir).unwrap();
        let (_controller, queue) = connect(&again);
        for lba in 0..kept {
            assert_eq!(read(&queue, lba), 5, "after opening again");
        }
    });
    let unmounted = std::process::Command::new("umount").arg("-l").arg(&mount).status();
    assert!(unmounted.unwrap().success());
    result.unwrap();
}

/// The host's memory forgets the contents again and again: reads get what was written all the same, while writes go on
/// and collect garbage around them.
#[test]
fn reads_that_wait_for_the_disk_get_what_was_written() {
    const UNCHANGED_BLOCKS: u32 = 300;
    let temp = tempfile::tempdir().unwrap();
    let image = temp.path().join("image");
    let running = open(Some(shape()), &image).unwrap();
    let (controller, queue) = connect(&running);
    let byte = |lba: u32| (lba % 251 + 1) as u8;
    for lba in 0..UNCHANGED_BLOCKS {
        assert!(write(&queue, lba, byte(lba)).is_success());
    }
    let contents = std::fs::File::open(image.join("contents")).unwrap();
    let forget = || {
        contents.sync_data().unwrap();
        rustix::fs::fadvise(&contents, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    };
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for reader in 0..3u32 {
            let queue = controller.blocking_queue(32).unwrap();
            let ended = &ended;
            scope.spawn(move || {
                let mut lba = reader * 97;
                while !ended.load(Ordering::Relaxed) {
                    lba = (lba + 41) % (UNCHANGED_BLOCKS - 8);
                    let (status, data) = transfer(&queue, IoOpcode::READ, lba, Buffer::zeroed(8 * 4096));
                    assert!(status.is_success(), "{status}");
                    for (at, page) in (lba..).zip(data.as_slice().chunks(4096)) {
                        assert!(page.iter().all(|&b| b == byte(at)), "lba {at}");
                    }
                }
            });
        }
        for round in 0..40u32 {
            forget();
            for n in 0..100 {
                assert!(write(&queue, UNCHANGED_BLOCKS + (round * 7 + n * 13) % 300, n as u8).is_success());
            }
        }
        ended.store(true, Ordering::Relaxed);
    });
    drop(running);
    let again = open(None, &image).unwrap();
    forget();
    let (_controller, queue) = connect(&again);
    assert!((0..UNCHANGED_BLOCKS).all(|lba| read(&queue, lba) == byte(lba)));
    again.stop();
}

/// Verify fails for contents that have changed, as a read does, whether the host has them in memory or not.
#[test]
fn verify_looks_at_the_contents() {
    let temp = tempfile::tempdir().unwrap();
    let running = open(Some(shape()), temp.path()).unwrap();
    let (_controller, queue) = connect(&running);
    for lba in 0..20 {
        assert!(write(&queue, lba, lba as u8 + 1).is_success());
    }
    let verify = |lba: u32, blocks: u32| {
        let mut command = Command::new(IoOpcode::VERIFY.0, 1);
        command.cdw10.set(lba);
        command.cdw12.set(blocks - 1);
        queue.execute(&command, Buffer::empty()).unwrap().0.status()
    };
    let refused = |lba: u32| {
        let read = transfer(&queue, IoOpcode::READ, lba, Buffer::zeroed(4096)).0;
        assert!(!read.is_success() && verify(lba, 1).is(read), "{read}, {}", verify(lba, 1));
    };
    assert!(verify(0, 20).is_success());
    assert!(verify(100, 64).is_success(), "nothing was written there");
    let path = temp.path().join("contents");
    let bytes = std::fs::read(&path).unwrap();
    let place = |lba: u8| bytes.chunks(4096).position(|page| page == [lba + 1; 4096]).unwrap() * 4096;
    let contents = std::fs::File::options().write(true).open(&path).unwrap();
    contents.write_all_at(&[0], place(7) as u64 + 4095).unwrap();
    refused(7);
    assert!(!verify(0, 20).is_success());
    assert!(verify(0, 7).is_success() && verify(8, 12).is_success());
    assert!(write(&queue, 7, 8).is_success() && verify(0, 20).is_success());
    // Behind the end of the file a read is another thread's.
    let last = (0..20).filter(|&lba| lba != 7).max_by_key(|&lba| place(lba)).unwrap();
    contents.set_len(place(last) as u64 + 100).unwrap();
    refused(last.into());
    drop(queue);
    running.stop();
}
