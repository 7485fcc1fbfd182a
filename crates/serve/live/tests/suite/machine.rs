//! A virtual machine with a driver of its device.

use nvme::property::PropertyOffset;
use nvme::{Command, Completion};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::{Duration, Instant};
use vfio::{Driver, MEMORY_BYTES};
use vfio_user::Client;

/// BAR0.
const BAR0_REGION: u32 = 0;
/// How long an answer may take on a busy machine.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

pub struct Machine(pub Driver<Client>);

/// Waits for something.
fn wait<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + ANSWER_TIMEOUT;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "{what} does not happen");
        std::thread::sleep(Duration::from_micros(200));
    }
}

impl Machine {
    /// A machine with the device of this socket. Its controller is not enabled.
    pub fn attach(path: &Path) -> Self {
        let mut client = Client::new(path).unwrap();
        let file = tempfile::tempfile().unwrap();
        file.set_len(MEMORY_BYTES).unwrap();
        client.dma_map(0, 0, MEMORY_BYTES, file.as_raw_fd()).unwrap();
        Machine(Driver::new(client, file).unwrap())
    }

    /// A machine whose controller has an I/O queue pair.
    pub fn enabled(path: &Path) -> Self {
        let mut machine = Machine::attach(path);
        machine.enable();
        machine
    }

    pub fn enable(&mut self) {
        self.0.enable().unwrap();
        self.wait_for(1);
        for command in vfio::create_queues() {
            let cid = self.0.submit(0, command, None).unwrap();
            assert!(self.end(0, cid).status().is_success());
        }
    }

    pub fn status(&mut self) -> u32 {
        let mut csts = [0; 4];
        self.0.access.region_read(BAR0_REGION, PropertyOffset::CSTS.0.into(), &mut csts).unwrap();
        u32::from_le_bytes(csts)
    }

    pub fn wait_for(&mut self, status: u32) {
        wait("a state of the controller", || (self.status() == status).then_some(()));
    }

    pub fn submit(&mut self, qid: u16, command: Command) -> u16 {
        self.0.submit(qid, command, None).unwrap()
    }

    /// The next completion of a queue.
    pub fn next(&mut self, qid: u16) -> Completion {
        wait("the end of a command", || self.0.take(qid).unwrap())
    }

    /// The completion of this command, which is the next.
    pub fn end(&mut self, qid: u16, cid: u16) -> Completion {
        let completion = self.next(qid);
        assert_eq!(completion.cid.get(), cid);
        completion
    }
}
