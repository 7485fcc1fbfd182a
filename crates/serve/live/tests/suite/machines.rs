//! A drive as the PCI device of a virtual machine: a client with a driver, over a real socket.

use crate::common::shape;
use live::{Options, Running};
use nvme::property::PropertyOffset;
use nvme::{AdminOpcode, Command, Completion, IoOpcode};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use vfio::{Driver, MEMORY_BYTES};
use vfio_user::Client;

/// BAR0.
const BAR0_REGION: u32 = 0;
/// The configuration space.
const CONFIG_REGION: u32 = 7;
/// Bytes of a block of the drive.
const BLOCK_BYTES: usize = 4096;
/// How long an answer may take on a busy machine.
const MAX_WAIT_SECONDS: u64 = 60;

fn serve(path: &Path) -> Running {
    let options = Options { pci: vec![path.to_owned()], ..Options::default() };
    live::start(Some(shape()), &options, &mut |_| ()).unwrap()
}

/// Waits for something.
fn wait<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(MAX_WAIT_SECONDS);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "{what} does not happen");
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// A virtual machine.
struct Machine(Driver<Client>);

impl Machine {
    fn connect(path: &Path) -> Self {
        let mut client = Client::new(path).unwrap();
        let mut header = [0; 12];
        client.region_read(CONFIG_REGION, 0, &mut header).unwrap();
        assert_eq!(header[9..], [2, 8, 1], "an NVMe controller");
        let file = tempfile::tempfile().unwrap();
        file.set_len(MEMORY_BYTES).unwrap();
        client.dma_map(0, 0, MEMORY_BYTES, file.as_raw_fd()).unwrap();
        let mut machine = Machine(Driver::new(client, file).unwrap());
        machine.0.enable().unwrap();
        machine.wait_for_status(1);
        for command in vfio::create_queues() {
            let cid = machine.0.submit(0, command, None).unwrap();
            assert!(machine.end(0, cid).status().is_success());
        }
        machine
    }

    /// Waits for RDY and CFS.
    fn wait_for_status(&mut self, expected: u8) {
        wait("a state of the controller", || {
            let mut csts = [0; 4];
            self.0.access.region_read(BAR0_REGION, PropertyOffset::CSTS.0.into(), &mut csts).unwrap();
            (csts[0] & 3 == expected).then_some(())
        });
    }

    fn end(&mut self, qid: u16, cid: u16) -> Completion {
        let completion = wait("the end of a command", || self.0.take(qid).unwrap());
        assert_eq!(completion.cid.get(), cid);
        completion
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
    machine.wait_for_status(0);
    drop(machine);
    running.stop();
    assert!(!socket(&dir).exists(), "the socket goes with the drive");
}
