//! A drive as the PCI device of a virtual machine: a client with a driver, over a real socket.

use crate::common::{shape, shape_with};
use crate::machine::Machine;
use host::{Data, DriveTransport, Error, Host, Identity, Queue, Session, TransportError};
use live::{Options, Running};
use nvme::admin::{FormatNvm, PowerCut, SecureErase};
use nvme::io::{Blocks, PrInfo};
use nvme::{AdminOpcode, Command, IoOpcode, Status};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The configuration space.
const CONFIG_REGION: u32 = 7;
/// Bytes of a block of the drive.
const BLOCK_BYTES: usize = 4096;
/// PRINFO: the controller inserts and strips protection information.
const PRACT: u8 = 8;
/// PRINFO: guard, application tag and reference tag are checked.
const CHECK_ALL: u8 = 7;
/// How long an answer may take on a busy machine.
const MAX_WAIT_SECONDS: u64 = 60;

fn serve(path: &Path) -> Running {
    serve_shape(path, shape())
}

fn serve_shape(path: &Path, shape: live::Shape) -> Running {
    let options = Options { pci: vec![path.to_owned()], ..Options::default() };
    live::start(Some(shape), &options, &mut |_| ()).unwrap()
}

/// The device for a typed host.
fn transport(path: &Path) -> DriveTransport {
    let addr = format!("pci://{}", path.display()).parse().unwrap();
    DriveTransport::new(addr, Duration::from_secs(MAX_WAIT_SECONDS))
}

fn identity() -> Identity {
    Identity::new("nqn.2026-11.test:host".parse().unwrap())
}

fn pattern(seed: u64, len: usize) -> Vec<u8> {
    (0..len as u64).map(|at| (at / 8 * (seed + 3) + at) as u8).collect()
}

impl Machine {
    fn connect(path: &Path) -> Self {
        let mut machine = Machine::attach(path);
        let mut header = [0; 12];
        machine.0.access.region_read(CONFIG_REGION, 0, &mut header).unwrap();
        assert_eq!(header[9..], [2, 8, 1], "an NVMe controller");
        machine.enable();
        machine
    }

    fn write(&mut self, lba: u64, bytes: &[u8]) {
        let blocks = bytes.len() / BLOCK_BYTES;
        let command = Command::write(1, lba, blocks as u32);
        let cid = self.0.submit(1, command, Some((bytes.len(), bytes))).unwrap();
        assert!(self.end(1, cid).status().is_success());
    }

    fn read(&mut self, lba: u64, blocks: usize) -> Vec<u8> {
        let len = blocks * BLOCK_BYTES;
        let cid = self.0.submit(1, Command::read(1, lba, blocks as u32), Some((len, &[]))).unwrap();
        assert!(self.end(1, cid).status().is_success());
        self.0.read(cid, len).unwrap()
    }
}

fn socket(dir: &tempfile::TempDir) -> PathBuf {
    dir.path().join("machine")
}

#[test]
fn a_machine_reads_what_it_wrote_and_the_next_one_does() {
    let dir = tempfile::tempdir().unwrap();
    let running = serve(&socket(&dir));
    let mut machine = Machine::connect(&socket(&dir));
    let bytes: Vec<u8> = (0..5 * BLOCK_BYTES).map(|at| (at / 7) as u8).collect();
    machine.write(3, &bytes);
    assert!(machine.read(3, 5) == bytes);
    let cid = machine.0.submit(1, Command::new(IoOpcode::FLUSH.0, 1), None).unwrap();
    assert!(machine.end(1, cid).status().is_success());
    let mut identify = Command::new(AdminOpcode::IDENTIFY.0, 0);
    identify.cdw10.set(1);
    let cid = machine.0.submit(0, identify, Some((BLOCK_BYTES, &[]))).unwrap();
    assert!(machine.end(0, cid).status().is_success());
    let identified = machine.0.read(cid, BLOCK_BYTES).unwrap();
    let nqn = running.handle().subsystem_nqn().to_owned();
    assert!(identified[768..].starts_with(nqn.as_bytes()));
    assert_eq!(identified[1792..1800], [0; 8], "nothing of fabrics");
    // A machine that dies, with a command in flight.
    machine.0.submit(0, Command::new(AdminOpcode::ASYNC_EVENT_REQUEST.0, 0), None).unwrap();
    drop(machine);
    let mut machine = Machine::connect(&socket(&dir));
    assert!(machine.read(3, 5) == bytes);
    // The client resets the device.
    machine.0.access.reset().unwrap();
    machine.wait_for(0);
    drop(machine);
    running.stop();
    assert!(!socket(&dir).exists(), "the socket goes with the drive");
}

#[test]
fn a_typed_host_has_the_device() {
    let dir = tempfile::tempdir().unwrap();
    // Data of 4 MiB has a list of PRPs of three pages.
    let running = serve_shape(&socket(&dir), shape_with("max_transfer = \"4MiB\""));
    let mut host = Host::connect(transport(&socket(&dir)), &identity()).unwrap();
    assert_eq!((host.max_transfer(), host.controller().oacs.dbcs()), (4 << 20, true));
    let namespace = host.namespace(1).unwrap();
    let mut queues = [1, 2, 3, 700].map(|depth| host.io_queue(depth).unwrap());
    assert_eq!(queues.each_mut().map(|queue| queue.raw().capacity()), [1, 2, 3, 700]);
    for (queue, seed) in queues.iter_mut().zip(0..) {
        for blocks in [1, 2, 3, 511, 512, 513, 514, 1023, 1024] {
            let bytes = pattern(seed + blocks, blocks as usize * BLOCK_BYTES);
            queue.write(&namespace, seed, &bytes, false).unwrap();
            let mut read = vec![0; bytes.len()];
            queue.read(&namespace, seed, &mut read).unwrap();
            assert!(read == bytes, "{blocks} blocks, queue {seed}");
        }
        // More commands than entries, several times around the queue.
        let written = pattern(seed, 64 * BLOCK_BYTES);
        for _ in 0..8 {
            let mut pages: Vec<Vec<u8>> = vec![vec![0; BLOCK_BYTES]; 64];
            queue.write(&namespace, 2048, &written, false).unwrap();
            let mut places: Vec<(u64, &mut [u8])> =
                (2048..).zip(pages.iter_mut().map(Vec::as_mut_slice)).collect();
            queue.read_many(&namespace, &mut places).unwrap();
            assert!(pages.concat() == written);
        }
        queue.flush(1).unwrap();
    }
    let [first, .., deep] = &mut queues;
    let queue = deep.raw();
    let tags: Vec<_> = (0..700)
        .map(|lba| queue.submit(Command::read(1, lba, 1), Data::room(BLOCK_BYTES)).unwrap())
        .collect();
    assert!(matches!(queue.submit(Command::read(1, 0, 1), Data::None), Err(TransportError::Full)));
    let mut ended: Vec<_> = (0..700).map(|_| queue.next(None).unwrap().unwrap().tag).collect();
    ended.sort();
    assert!(tags.iter().all(|tag| ended.binary_search(tag).is_ok()) && queue.outstanding() == 0);
    let status = first.read(&namespace, 1 << 40, &mut [0; BLOCK_BYTES]).unwrap_err();
    assert!(matches!(status, Error::Usage(_) | Error::Command { .. }), "{status}");
    let command = Command::read(1, 1 << 40, 1);
    first.raw().submit(command, Data::In(vec![7; BLOCK_BYTES])).unwrap();
    let done = first.raw().next(None).unwrap().unwrap();
    assert!(done.completion.status().is(Status::LBA_OUT_OF_RANGE));
    assert!(done.data == Data::In(vec![7; BLOCK_BYTES]), "bytes that were not sent stay");
    assert!(matches!(first.raw().submit(command, Data::room(5 << 20)), Err(TransportError::TooLarge(_))));

    host.shutdown().unwrap();
    let mut other = identity();
    other.subnqn = Some("nqn.2026-11.test:other".parse().unwrap());
    let refused = Host::connect(transport(&socket(&dir)), &other).unwrap_err();
    assert!(refused.to_string().contains("is not nqn.2026-11.test:other"), "{refused}");
    let mut host = Host::connect(transport(&socket(&dir)), &identity()).unwrap();
    let mut queue = host.io_queue(4).unwrap();
    let mut read = vec![0; BLOCK_BYTES];
    queue.read(&namespace, 0, &mut read).unwrap();
    running.stop();
    let lost = queue.read(&namespace, 0, &mut read).unwrap_err();
    assert!(matches!(lost, Error::Transport(TransportError::Closed)), "{lost}");
}

#[test]
fn a_typed_host_returns_after_power_cuts() {
    let dir = tempfile::tempdir().unwrap();
    let path = socket(&dir);
    let running = serve(&path);
    let make = move || transport(&path);
    let mut session =
        Session::connect(make, identity(), &[8], Duration::from_secs(MAX_WAIT_SECONDS)).unwrap();
    for round in 0..3 {
        let bytes = pattern(round, BLOCK_BYTES);
        let call = |session: &mut Session<DriveTransport>, command, data| {
            let queue = &mut session.queues()[0];
            queue.submit(command, data)?;
            queue.next(None).map(Option::unwrap)
        };
        let done = call(&mut session, Command::write(1, round, 1), Data::Out(bytes.clone())).unwrap();
        assert!(done.completion.status().is_success());
        let cut = PowerCut { after_media_ops: 0, off_ms: 300, seed: 1, no_plp: false };
        session.host().power_cut(cut).unwrap();
        // It has no answer, or one of the controller that is gone.
        let lost = call(&mut session, Command::read(1, round, 1), Data::room(BLOCK_BYTES)).unwrap_err();
        assert!(Error::from(lost).is_lost());
        assert_eq!(session.recover().unwrap().len(), 1, "the read that was in flight");
        let done = call(&mut session, Command::read(1, round, 1), Data::room(BLOCK_BYTES)).unwrap();
        assert!(done.data.into_buffer() == bytes, "round {round}");
    }
    running.stop();
}

/// Address of metadata in a machine's memory, behind all else.
const METADATA_BASE: u64 = 0x38_0000;
/// Metadata of the blocks of a command: four blocks of 8 bytes.
const METADATA: [u8; 32] = *b"metadata of four logical blocks.";

/// A command on four blocks from LBA 5 on, with a metadata pointer.
fn with_metadata(opcode: IoOpcode) -> Command {
    Command { mptr: METADATA_BASE.into(), ..Blocks::new(1, 5, 4).encode(opcode) }
}

impl Machine {
    fn put_metadata(&self, bytes: &[u8]) {
        self.0.file().write_all_at(bytes, METADATA_BASE).unwrap();
    }

    fn metadata(&self) -> [u8; METADATA.len()] {
        let mut bytes = [0; METADATA.len()];
        self.0.file().read_exact_at(&mut bytes, METADATA_BASE).unwrap();
        bytes
    }

    /// Executes a command with these bytes of data, or room for as many. Returns its status and the bytes there are.
    fn with_data(&mut self, command: Command, bytes: &[u8]) -> (Status, Vec<u8>) {
        let cid = self.0.submit(1, command, Some((bytes.len(), bytes))).unwrap();
        (self.end(1, cid).status(), self.0.read(cid, bytes.len()).unwrap())
    }

    fn format(&mut self, pi: u8) {
        let separate = FormatNvm { nsid: 1, lbaf: 3, mset: false, pi, pil: false, ses: SecureErase::NONE };
        let cid = self.submit(0, separate.into());
        assert_eq!(self.end(0, cid).status(), Status::SUCCESS);
    }
}

#[test]
fn metadata_has_a_buffer_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let running = serve(&socket(&dir));
    let mut machine = Machine::connect(&socket(&dir));
    machine.format(0);
    let bytes = pattern(9, 4 * BLOCK_BYTES);
    let room = vec![0; bytes.len()];
    let [read, write, compare] = [IoOpcode::READ, IoOpcode::WRITE, IoOpcode::COMPARE].map(with_metadata);
    machine.put_metadata(&METADATA);
    assert_eq!(machine.with_data(write, &bytes).0, Status::SUCCESS);
    machine.put_metadata(&[0; METADATA.len()]);
    assert!(machine.with_data(read, &room) == (Status::SUCCESS, bytes.clone()));
    assert_eq!(machine.metadata(), METADATA);
    assert_eq!(machine.with_data(compare, &bytes).0, Status::SUCCESS);
    machine.put_metadata(&METADATA.map(|byte| byte ^ 1));
    assert_eq!(machine.with_data(compare, &bytes).0.code(), Status::COMPARE_FAILURE);

    // Pointers outside of memory, between dwords, and around the end of addresses.
    for (mptr, status) in [
        (vfio::MEMORY_BYTES, Status::DATA_TRANSFER_ERROR),
        (vfio::MEMORY_BYTES - 28, Status::DATA_TRANSFER_ERROR),
        (u64::MAX - 3, Status::DATA_TRANSFER_ERROR),
        (METADATA_BASE + 2, Status::INVALID_FIELD),
    ] {
        for mut command in [read, write] {
            command.mptr.set(mptr);
            let (found, _) = machine.with_data(command, &pattern(1, bytes.len()));
            assert_eq!(found, status.with_dnr(), "{mptr:#x}");
        }
    }
    assert!(machine.with_data(read, &room) == (Status::SUCCESS, bytes.clone()), "no write has written");

    // What the controller inserts and strips is in no buffer.
    machine.format(1);
    let inserted = |opcode, prinfo| {
        let blocks = Blocks { prinfo: PrInfo::from_nibble(prinfo), lbtl: 5, ..Blocks::new(1, 5, 4) };
        Command { mptr: u64::MAX.into(), ..blocks.encode(opcode) }
    };
    assert_eq!(machine.with_data(inserted(IoOpcode::WRITE, PRACT), &bytes).0, Status::SUCCESS);
    let found = machine.with_data(inserted(IoOpcode::READ, PRACT | CHECK_ALL), &room);
    assert!(found == (Status::SUCCESS, bytes.clone()));
    let checked = Command { mptr: METADATA_BASE.into(), ..inserted(IoOpcode::READ, CHECK_ALL) };
    assert!(machine.with_data(checked, &room) == (Status::SUCCESS, bytes.clone()));
    // Reference tags of the four blocks.
    assert!(machine.metadata().chunks(8).zip(5..).all(|(tuple, tag)| tuple[4..] == u32::to_be_bytes(tag)));
    let rewritten = Command { mptr: METADATA_BASE.into(), ..inserted(IoOpcode::WRITE, CHECK_ALL) };
    assert_eq!(machine.with_data(rewritten, &bytes).0, Status::SUCCESS);
    let mut wrong = machine.metadata();
    wrong[8] ^= 1;
    machine.put_metadata(&wrong);
    assert_eq!(machine.with_data(rewritten, &bytes).0.code(), Status::GUARD_CHECK_ERROR);

    // Typed hosts have no buffer for metadata.
    drop(machine);
    let mut host = Host::connect(transport(&socket(&dir)), &identity()).unwrap();
    let namespace = host.namespace(1).unwrap();
    let mut queue = host.io_queue(4).unwrap();
    let mut found = room.clone();
    queue.read(&namespace, 5, &mut found).unwrap();
    assert!(found == bytes);
    host.shutdown().unwrap();
    drop(queue);
    let mut machine = Machine::connect(&socket(&dir));
    machine.format(0);
    drop(machine);
    let mut host = Host::connect(transport(&socket(&dir)), &identity()).unwrap();
    let refused = host.namespace(1).unwrap_err();
    assert!(refused.to_string().contains("metadata"), "{refused}");
    running.stop();
}
