//! A drive as the PCI device of a virtual machine: a client with a driver, over a real socket.

use crate::common::{shape, shape_with};
use crate::machine::Machine;
use host::{Data, DriveTransport, Error, Host, Identity, Queue, Session, TransportError};
use live::{Options, Running};
use nvme::admin::PowerCut;
use nvme::{AdminOpcode, Command, IoOpcode, Status};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The configuration space.
const CONFIG_REGION: u32 = 7;
/// Bytes of a block of the drive.
const BLOCK_BYTES: usize = 4096;
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
