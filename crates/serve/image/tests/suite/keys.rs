//! Encrypted namespaces in an image, by looking at its files.

use crate::common::shape;
use live::{BlockingQueue, Buffer, Controller, DriveKey, HostIdentity, NoEvents, Options, Running, Shape};
use nvme::admin::{
    FormatNvm, NamespaceManagement, NamespaceManagementSelect, Sanitize, SanitizeAction, SecureErase,
};
use nvme::identify::{Cns, IdentifyController, IdentifyNamespace, NamespaceCreate};
use nvme::io::DsmRange;
use nvme::log::{LogId, SanitizeOperationStatus as Sos, SanitizeStatus};
use nvme::zerocopy::{FromBytes, IntoBytes};
use nvme::{Command, IoOpcode, NSID_ALL, Status};
use std::path::Path;
use std::sync::Arc;

fn key(byte: u8) -> Option<DriveKey> {
    Some(DriveKey::generate(&mut |bytes| bytes.fill(byte)))
}

fn start(shape: Option<Shape>, dir: Option<&Path>, drive_key: Option<DriveKey>) -> Running {
    let options = Options { image: dir.map(Path::to_owned), drive_key, ..Options::default() };
    live::start(shape, &options, &mut |_| ()).unwrap()
}

fn connect(running: &Running) -> (Controller, BlockingQueue) {
    let host = HostIdentity::new("nqn.2026-11.test:host").unwrap();
    let controller = running.handle().connect(host, Arc::new(NoEvents)).unwrap();
    let queue = controller.blocking_queue(32).unwrap();
    (controller, queue)
}

fn io(queue: &BlockingQueue, opcode: IoOpcode, lba: u32, blocks: u32, data: Vec<u8>) -> (Status, Vec<u8>) {
    let mut command = Command::new(opcode.0, 1);
    command.cdw10.set(lba);
    command.cdw12.set(blocks - 1);
    let (completion, data) = queue.execute(&command, Buffer::from(data)).unwrap();
    (completion.status(), data.as_slice().to_vec())
}

fn secret(lba: u32) -> Vec<u8> {
    format!("SECRET {lba:08}\n").into_bytes().repeat(256)
}

fn write(queue: &BlockingQueue, lba: u32) {
    assert_eq!(io(queue, IoOpcode::WRITE, lba, 1, secret(lba)).0, Status::SUCCESS);
}

fn read(queue: &BlockingQueue, lba: u32) -> (Status, Vec<u8>) {
    io(queue, IoOpcode::READ, lba, 1, vec![0; 4096])
}

fn admin(controller: &Controller, command: impl Into<Command>, data: Vec<u8>) -> (Status, Vec<u8>) {
    let (completion, data) = controller.admin(&command.into(), Buffer::from(data)).unwrap();
    (completion.status(), data.as_slice().to_vec())
}

fn ask<T: FromBytes>(controller: &Controller, command: Command, bytes: usize) -> T {
    let (status, data) = admin(controller, command, vec![0; bytes]);
    assert_eq!(status, Status::SUCCESS);
    T::read_from_prefix(&data).unwrap_or_else(|_| panic!("too short")).0
}

fn encryption(controller: &Controller) -> u8 {
    ask::<IdentifyNamespace>(controller, Command::identify(Cns::NAMESPACE, 1), 4096).vs[0]
}

fn format(ses: SecureErase, lbaf: u8) -> FormatNvm {
    FormatNvm { nsid: 1, lbaf, mset: false, pi: 0, pil: false, ses }
}

fn files(dir: &Path) -> Vec<u8> {
    let mut names: Vec<_> = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
    names.sort();
    names.into_iter().flat_map(|name| std::fs::read(name).unwrap_or_default()).collect()
}

fn holds(dir: &Path, needle: &[u8]) -> bool {
    files(dir).windows(needle.len()).any(|w| w == needle)
}

/// The wrapped keys that an image's files name.
fn wrapped_keys(dir: &Path) -> Vec<Vec<u8>> {
    let all = files(dir);
    let name = br#""key":""#;
    let mut keys: Vec<_> = (0..all.len() - name.len())
        .filter(|&at| all[at..].starts_with(name))
        .map(|at| all[at + name.len()..].split(|b| *b == b'"').next().unwrap().to_vec())
        .collect();
    keys.sort();
    keys.dedup();
    keys
}

fn sanitize(sanact: SanitizeAction) -> Sanitize {
    Sanitize { sanact, owpass: 1, ..Sanitize::default() }
}

fn wait(controller: &Controller) -> Sos {
    loop {
        let log = Command::get_log_page(LogId::SANITIZE_STATUS, NSID_ALL, 0, 0, 512);
        let sos = ask::<SanitizeStatus>(controller, log, 512).sstat.sos();
        if sos != Sos::IN_PROGRESS {
            return sos;
        }
        std::thread::yield_now();
    }
}

#[test]
fn what_is_in_the_files_is_ciphertext_and_only_the_right_key_opens_it() {
    let temp = tempfile::tempdir().unwrap();
    let running = start(Some(shape()), Some(temp.path()), key(1));
    assert!(running.plain_namespaces().is_empty() && running.notes().is_empty());
    let (controller, queue) = connect(&running);
    assert_eq!(encryption(&controller), 1);
    (0..1000).for_each(|lba| write(&queue, lba));
    assert_eq!(read(&queue, 7), (Status::SUCCESS, secret(7)));
    assert!(!holds(temp.path(), b"SECRET"));
    assert!(!holds(temp.path(), &[1; 32]), "the drive key is nowhere");
    drop((controller, queue));
    running.stop();
    for wrong in [None, key(2)] {
        let running = start(None, Some(temp.path()), wrong);
        assert!(running.notes().iter().any(|note| note.contains("LOCKED")), "{:?}", running.notes());
        let (controller, queue) = connect(&running);
        assert_eq!(encryption(&controller), 2);
        assert!(read(&queue, 7).0.is(Status::ACCESS_DENIED));
        assert!(io(&queue, IoOpcode::WRITE, 7, 1, vec![7; 4096]).0.is(Status::ACCESS_DENIED));
        assert!(io(&queue, IoOpcode::WRITE_ZEROES, 7, 1, vec![]).0.is(Status::ACCESS_DENIED));
        let range = DsmRange::new(0, 100).as_bytes().to_vec();
        let deallocate = queue.execute(&Command::deallocate(1, 1), Buffer::from(range)).unwrap().0;
        assert!(deallocate.status().is(Status::ACCESS_DENIED));
        for ses in [SecureErase::NONE, SecureErase::USER_DATA, SecureErase::CRYPTOGRAPHIC] {
            assert!(admin(&controller, format(ses, 0), vec![]).0.is(Status::ACCESS_DENIED));
        }
        let delete =
            NamespaceManagement { nsid: 1, sel: NamespaceManagementSelect::DELETE, csi: nvme::Csi::NVM };
        assert!(admin(&controller, delete, vec![]).0.is(Status::ACCESS_DENIED));
        let create = NamespaceManagement { nsid: 0, sel: NamespaceManagementSelect::CREATE, ..delete };
        let new = NamespaceCreate { nsze: 256.into(), ncap: 256.into(), ..NamespaceCreate::default() };
        assert!(admin(&controller, create, new.as_bytes().to_vec()).0.is(Status::ACCESS_DENIED));
        let erase = sanitize(SanitizeAction::BLOCK_ERASE);
        assert!(admin(&controller, erase, vec![]).0.is(Status::ACCESS_DENIED));
        let id: IdentifyController = ask(&controller, Command::identify(Cns::CONTROLLER, 0), 4096);
        assert!(!id.fna.cryes() && !id.sanicap.ces());
        drop((controller, queue));
        running.stop();
    }
    let running = start(None, Some(temp.path()), key(1));
    assert!(running.notes().is_empty(), "{:?}", running.notes());
    let (_controller, queue) = connect(&running);
    (0..1000).for_each(|lba| assert_eq!(read(&queue, lba), (Status::SUCCESS, secret(lba))));
}

#[test]
fn a_crypto_erase_leaves_neither_data_nor_the_old_key() {
    for erase in [Some(SecureErase::CRYPTOGRAPHIC), Some(SecureErase::USER_DATA), None] {
        let temp = tempfile::tempdir().unwrap();
        let running = start(Some(shape()), Some(temp.path()), key(1));
        let (controller, queue) = connect(&running);
        (0..1000).for_each(|lba| write(&queue, lba));
        let id: IdentifyController = ask(&controller, Command::identify(Cns::CONTROLLER, 0), 4096);
        assert!(id.fna.cryes() && id.sanicap.ces());
        let before = wrapped_keys(temp.path());
        assert_eq!(before.len(), 1);
        match erase {
            Some(ses) => assert_eq!(admin(&controller, format(ses, 0), vec![]).0, Status::SUCCESS),
            None => {
                let erase = sanitize(SanitizeAction::CRYPTO_ERASE);
                assert_eq!(admin(&controller, erase, vec![]).0, Status::SUCCESS);
                assert_eq!(wait(&controller), Sos::COMPLETED);
            }
        }
        let after = wrapped_keys(temp.path());
        assert!(after.len() == 1 && after != before, "{} keys are left", after.len());
        assert_eq!(read(&queue, 7), (Status::SUCCESS, vec![0; 4096]));
        write(&queue, 3);
        drop((controller, queue));
        running.stop();
        let running = start(None, Some(temp.path()), key(1));
        let (_controller, queue) = connect(&running);
        assert_eq!(read(&queue, 3), (Status::SUCCESS, secret(3)));
        assert_eq!(read(&queue, 7), (Status::SUCCESS, vec![0; 4096]));
    }
}

#[test]
fn what_was_stored_in_the_clear_stays_so_until_it_is_formatted() {
    let temp = tempfile::tempdir().unwrap();
    let running = start(Some(shape()), Some(temp.path()), None);
    assert_eq!(running.plain_namespaces(), [1]);
    let (controller, queue) = connect(&running);
    write(&queue, 1);
    drop((controller, queue));
    running.stop();
    let running = start(None, Some(temp.path()), key(5));
    assert_eq!((running.plain_namespaces(), running.notes().len()), (&[1][..], 0));
    let (controller, queue) = connect(&running);
    assert_eq!(encryption(&controller), 0);
    assert_eq!(read(&queue, 1), (Status::SUCCESS, secret(1)));
    let id: IdentifyController = ask(&controller, Command::identify(Cns::CONTROLLER, 0), 4096);
    assert!(id.fna.cryes() && !id.sanicap.ces(), "no key erases what is in the clear");
    let crypto = format(SecureErase::CRYPTOGRAPHIC, 0);
    assert!(admin(&controller, crypto, vec![]).0.is(Status::INVALID_FIELD));
    let crypto = sanitize(SanitizeAction::CRYPTO_ERASE);
    assert!(admin(&controller, crypto, vec![]).0.is(Status::INVALID_FIELD));
    assert_eq!(admin(&controller, format(SecureErase::USER_DATA, 0), vec![]).0, Status::SUCCESS);
    assert_eq!(encryption(&controller), 1);
    assert!(!holds(temp.path(), b"SECRET"));
    write(&queue, 2);
    assert!(!holds(temp.path(), b"SECRET"));
    // Once everything that was in the clear is erased for sure, keys are enough.
    assert_eq!(admin(&controller, sanitize(SanitizeAction::BLOCK_ERASE), vec![]).0, Status::SUCCESS);
    assert_eq!(wait(&controller), Sos::COMPLETED);
    let id: IdentifyController = ask(&controller, Command::identify(Cns::CONTROLLER, 0), 4096);
    assert!(id.sanicap.ces());
    assert_eq!(admin(&controller, crypto, vec![]).0, Status::SUCCESS);
    assert_eq!(wait(&controller), Sos::COMPLETED);
}

/// Blocks of 512 bytes, with and without metadata, in pages that were never written, written and deallocated, against a model.
#[test]
fn parts_of_pages_keep_their_neighbours() {
    let temp = tempfile::tempdir().unwrap();
    let mut seed = 20_261_121_u64;
    println!("seed {seed}");
    let mut random = move |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) % below
    };
    for dir in [None, Some(temp.path())] {
        let mut shape = shape();
        shape.toml = shape.toml.replace("[drive]", "[drive]\nlba_formats = [\"4096\", \"512\", \"512+8\"]");
        shape.config = device::Config::from_toml(&shape.toml).unwrap();
        let running = start(Some(shape), dir, key(3));
        let (controller, queue) = connect(&running);
        for (lbaf, size) in [(1u8, 512usize), (2, 520)] {
            let format = FormatNvm { mset: size > 512, ..format(SecureErase::NONE, lbaf) };
            assert_eq!(admin(&controller, format, vec![]).0, Status::SUCCESS);
            let mut model = vec![vec![0; size]; 200];
            for _ in 0..600 {
                let lba = random(190);
                let blocks = 1 + random(10);
                let range = lba as usize..(lba + blocks) as usize;
                match random(6) {
                    0 | 1 => {
                        let data: Vec<u8> = (0..blocks as usize * size).map(|_| random(256) as u8).collect();
                        let status = io(&queue, IoOpcode::WRITE, lba as u32, blocks as u32, data.clone()).0;
                        assert_eq!(status, Status::SUCCESS);
                        for (block, bytes) in model[range].iter_mut().zip(data.chunks(size)) {
                            block.copy_from_slice(bytes);
                        }
                    }
                    2 => {
                        let (status, _) =
                            io(&queue, IoOpcode::WRITE_ZEROES, lba as u32, blocks as u32, vec![]);
                        assert_eq!(status, Status::SUCCESS);
                        model[range].iter_mut().for_each(|block| block.fill(0));
                    }
                    // Pages that lie wholly in the range are deallocated, parts of others written.
                    3 => {
                        let (lba, blocks) = (random(150), 8 + random(40));
                        let deac = 1 << 25;
                        let (status, _) =
                            io(&queue, IoOpcode::WRITE_ZEROES, lba as u32, deac | blocks as u32, vec![]);
                        assert_eq!(status, Status::SUCCESS);
                        model[lba as usize..(lba + blocks) as usize]
                            .iter_mut()
                            .for_each(|block| block.fill(0));
                    }
                    4 => {
                        let data = model[range].concat();
                        let status = io(&queue, IoOpcode::COMPARE, lba as u32, blocks as u32, data).0;
                        assert_eq!(status, Status::SUCCESS);
                    }
                    _ => {
                        let room = vec![0xEE; blocks as usize * size];
                        let (status, data) = io(&queue, IoOpcode::READ, lba as u32, blocks as u32, room);
                        assert_eq!((status, data), (Status::SUCCESS, model[range].concat()), "LBA {lba}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_deleted_namespace_leaves_no_key() {
    let temp = tempfile::tempdir().unwrap();
    let running = start(Some(shape()), Some(temp.path()), key(1));
    let (controller, queue) = connect(&running);
    (0..100).for_each(|lba| write(&queue, lba));
    assert_eq!(wrapped_keys(temp.path()).len(), 1);
    let delete = NamespaceManagement { nsid: 1, sel: NamespaceManagementSelect::DELETE, csi: nvme::Csi::NVM };
    assert_eq!(admin(&controller, delete, vec![]).0, Status::SUCCESS);
    assert_eq!(wrapped_keys(temp.path()).len(), 0);
}

/// Hosts write, read and erase the same pages of a drive in memory at once. Each page that is read is as one write left it, or zeros.
#[test]
fn reads_beside_overwrites_and_crypto_erases_give_whole_pages() {
    const PAGES: u32 = 8;
    let running = start(Some(shape()), None, key(1));
    let (controller, queue) = connect(&running);
    let queues: Vec<_> = (0..4).map(|_| controller.blocking_queue(32).unwrap()).collect();
    let passes = |status: Status| status == Status::SUCCESS || status.is(Status::FORMAT_IN_PROGRESS);
    std::thread::scope(|scope| {
        for (number, queue) in (1..).zip(&queues) {
            scope.spawn(move || {
                let mut rng = media::Rng::new(number);
                for _ in 0..300 {
                    let (lba, blocks) = (rng.below(PAGES.into()) as u32, 1 + rng.below(16) as u32);
                    let data = vec![number as u8; blocks as usize * 4096];
                    let (status, _) = io(queue, IoOpcode::WRITE, lba, blocks, data);
                    assert!(passes(status), "host {number}, a write of {blocks} at {lba}: {status}");
                    let (status, data) = io(queue, IoOpcode::READ, 0, 16, vec![0xEE; 16 * 4096]);
                    assert!(passes(status), "host {number}, a read: {status}");
                    if status == Status::SUCCESS {
                        for (lba, page) in data.chunks(4096).enumerate() {
                            let whole = page[0] <= 4 && page.iter().all(|&byte| byte == page[0]);
                            assert!(whole, "host {number}, seed {number}: page {lba} is {:?}", &page[..8]);
                        }
                    }
                }
            });
        }
        for _ in 0..20 {
            assert_eq!(admin(&controller, format(SecureErase::CRYPTOGRAPHIC, 0), vec![]).0, Status::SUCCESS);
        }
    });
    assert_eq!(admin(&controller, format(SecureErase::CRYPTOGRAPHIC, 0), vec![]).0, Status::SUCCESS);
    assert_eq!(io(&queue, IoOpcode::READ, 0, 24, vec![7; 24 * 4096]), (Status::SUCCESS, vec![0; 24 * 4096]));
    write(&queue, 5);
    assert_eq!(read(&queue, 5), (Status::SUCCESS, secret(5)));
    drop((controller, queue, queues));
    running.stop();
}
