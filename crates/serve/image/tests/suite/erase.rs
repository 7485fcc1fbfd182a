//! What is to be erased for good is nowhere in an image's files.

use crate::common::shape;
use live::{BlockingQueue, Buffer, Controller, HostIdentity, NoEvents, Options, Running};
use nvme::admin::{FormatNvm, Sanitize, SanitizeAction, SecureErase};
use nvme::log::{LogId, SanitizeOperationStatus as Sos, SanitizeStatus};
use nvme::zerocopy::FromBytes;
use nvme::{Command, IoOpcode, NSID_ALL, Status};
use std::path::Path;
use std::sync::Arc;

fn start(dir: &Path, fresh: bool, checkpoint_bytes: u64) -> Running {
    let mut options = Options { image: Some(dir.to_owned()), ..Options::default() };
    options.image_options.checkpoint_bytes = checkpoint_bytes;
    live::start(fresh.then(shape), &options, &mut |_| ()).unwrap()
}

fn connect(running: &Running) -> (Controller, BlockingQueue) {
    let host = HostIdentity::new("nqn.2026-11.test:host").unwrap();
    let controller = running.handle().connect(host, Arc::new(NoEvents)).unwrap();
    let queue = controller.blocking_queue(32).unwrap();
    (controller, queue)
}

/// A page that says what it is, every 16 bytes.
fn secret(lba: u32) -> Vec<u8> {
    format!("SECRET {lba:08}\n").into_bytes().repeat(256)
}

fn write(queue: &BlockingQueue, lba: u32) {
    let mut command = Command::new(IoOpcode::WRITE.0, 1);
    command.cdw10.set(lba);
    let (completion, _) = queue.execute(&command, Buffer::from(secret(lba))).unwrap();
    assert!(completion.status().is_success());
}

fn read(queue: &BlockingQueue, lba: u32) -> (Status, Vec<u8>) {
    let mut command = Command::new(IoOpcode::READ.0, 1);
    command.cdw10.set(lba);
    let (completion, data) = queue.execute(&command, Buffer::zeroed(4096)).unwrap();
    (completion.status(), data.as_slice().to_vec())
}

/// Whether `needle` is in any file of a directory.
fn holds(dir: &Path, needle: &[u8]) -> bool {
    let find = |file: &Path| {
        let bytes = std::fs::read(file).unwrap_or_default();
        bytes.windows(needle.len()).any(|w| w == needle)
    };
    std::fs::read_dir(dir).unwrap().any(|entry| find(&entry.unwrap().path()))
}

fn log(controller: &Controller) -> SanitizeStatus {
    let command = Command::get_log_page(LogId::SANITIZE_STATUS, NSID_ALL, 0, 0, 512);
    let (completion, data) = controller.admin(&command, Buffer::zeroed(512)).unwrap();
    assert!(completion.status().is_success());
    SanitizeStatus::read_from_bytes(data.as_slice()).unwrap()
}

fn wait(controller: &Controller) -> SanitizeStatus {
    loop {
        let log = log(controller);
        if log.sstat.sos() != Sos::IN_PROGRESS {
            return log;
        }
        std::thread::yield_now();
    }
}

fn fill(queue: &BlockingQueue) {
    // Several versions: what is out of date is to go as well.
    for round in 0..3 {
        (0..2000).for_each(|lba| write(queue, lba + round));
    }
}

#[test]
fn sanitizing_leaves_nothing_in_the_files() {
    for action in [SanitizeAction::BLOCK_ERASE, SanitizeAction::OVERWRITE] {
        let temp = tempfile::tempdir().unwrap();
        let running = start(temp.path(), true, 1 << 20);
        let (controller, queue) = connect(&running);
        fill(&queue);
        assert!(holds(temp.path(), b"SECRET"));
        let command = Sanitize { sanact: action, owpass: 2, oipbp: true, ovrpat: 1, ..Sanitize::default() };
        let (completion, _) = controller.admin(&command.into(), Buffer::empty()).unwrap();
        assert!(completion.status().is_success(), "{:?}", completion.status());
        let log = wait(&controller);
        assert_eq!((log.sstat.sos(), log.sstat.gde()), (Sos::COMPLETED, true));
        assert!(!holds(temp.path(), b"SECRET"), "{action:?}");
        assert_eq!(read(&queue, 5), (Status::SUCCESS, vec![0; 4096]));
        // It is a drive like any other afterwards.
        fill(&queue);
        drop((controller, queue));
        running.stop();
        let again = start(temp.path(), false, 1 << 20);
        let (_controller, queue) = connect(&again);
        assert_eq!(read(&queue, 1500), (Status::SUCCESS, secret(1500)));
    }
}

#[test]
fn user_data_erase_leaves_nothing_of_a_namespace_in_the_files() {
    for checkpoint_bytes in [4096, 64 << 20] {
        let temp = tempfile::tempdir().unwrap();
        let running = start(temp.path(), true, checkpoint_bytes);
        let (controller, queue) = connect(&running);
        fill(&queue);
        let format =
            FormatNvm { nsid: 1, lbaf: 0, mset: false, pi: 0, pil: false, ses: SecureErase::USER_DATA };
        let (completion, _) = controller.admin(&format.into(), Buffer::empty()).unwrap();
        assert!(completion.status().is_success(), "{:?}", completion.status());
        assert!(!holds(temp.path(), b"SECRET"));
        fill(&queue);
        assert_eq!(read(&queue, 7), (Status::SUCCESS, secret(7)));
        assert!(holds(temp.path(), b"SECRET"));
    }
}

/// As a killed process leaves the files while an operation is in progress.
#[test]
fn an_operation_goes_on_when_the_image_is_opened_again() {
    let temp = tempfile::tempdir().unwrap();
    let (live, dead) = (temp.path().join("live"), temp.path().join("dead"));
    let running = start(&live, true, 1 << 30);
    let (controller, queue) = connect(&running);
    (0..500).for_each(|lba| write(&queue, lba));
    std::fs::copy(live.join("checkpoint.1"), temp.path().join("checkpoint.1")).unwrap();
    // Contents and journal before, and the journal after: every cut in between is a crash at that time.
    let contents = std::fs::read(live.join("contents")).unwrap();
    let before = frames_end(&std::fs::read(live.join("journal.2")).unwrap());
    let journal = std::fs::File::open(live.join("journal.2")).unwrap();
    let command = Sanitize { sanact: SanitizeAction::BLOCK_ERASE, ..Sanitize::default() };
    assert!(controller.admin(&command.into(), Buffer::empty()).unwrap().0.status().is_success());
    wait(&controller);
    assert!(!live.join("journal.2").exists(), "older files are gone");
    // It was removed, but is open here.
    let mut whole = Vec::new();
    std::io::Read::read_to_end(&mut &journal, &mut whole).unwrap();
    let after = frames_end(&whole);
    assert!(after > before);
    let mut in_progress = 0;
    for cut in (before..=after).step_by(((after - before) / 40).max(1)) {
        let _ = std::fs::remove_dir_all(&dead);
        std::fs::create_dir_all(&dead).unwrap();
        for (name, bytes) in [("contents", &contents[..]), ("journal.2", &whole[..cut]), ("lock", &[])] {
            std::fs::write(dead.join(name), bytes).unwrap();
        }
        std::fs::copy(live.join("drive.toml"), dead.join("drive.toml")).unwrap();
        std::fs::copy(temp.path().join("checkpoint.1"), dead.join("checkpoint.1")).unwrap();
        let crashed = start(&dead, false, 1 << 30);
        let (controller, queue) = connect(&crashed);
        match wait(&controller).sstat.sos() {
            Sos::NEVER => assert_eq!(read(&queue, 1), (Status::SUCCESS, secret(1))),
            state => {
                assert_eq!(state, Sos::COMPLETED);
                in_progress += 1;
                assert_eq!(read(&queue, 1), (Status::SUCCESS, vec![0; 4096]));
                assert!(!holds(&dead, b"SECRET"), "cut at {cut}");
            }
        }
    }
    assert!(in_progress > 0);
}

/// Where the frames of a journal end (docs/image-format.md).
fn frames_end(journal: &[u8]) -> usize {
    let mut at = 80;
    // Zeros are written ahead of it.
    while let Some(head) = journal.get(at..at + 8).filter(|head| head[5..8] != [0; 3]) {
        at += 32 + u32::from_le_bytes(head[..4].try_into().unwrap()) as usize;
    }
    at.min(journal.len())
}
