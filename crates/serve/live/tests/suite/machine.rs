//! A virtual machine with a driver of its device.

use nvme::property::PropertyOffset;
use nvme::{Command, Completion};
use std::os::fd::AsRawFd;
use std::path::Path;
use vfio::{Driver, MEMORY_BYTES};
use vfio_user::Client;

/// BAR0.
const BAR0_REGION: u32 = 0;

pub struct Machine(pub Driver<Client>);

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
        testkit::wait_for("a state of the controller", || self.status() == status);
    }

    pub fn submit(&mut self, qid: u16, command: Command) -> u16 {
        self.0.submit(qid, command, None).unwrap()
    }

    /// The next completion of a queue.
    pub fn next(&mut self, qid: u16) -> Completion {
        let mut completion = None;
        testkit::wait_for("the end of a command", || {
            completion = self.0.take(qid).unwrap();
            completion.is_some()
        });
        completion.unwrap()
    }

    /// The completion of this command, which is the next.
    pub fn end(&mut self, qid: u16, cid: u16) -> Completion {
        let completion = self.next(qid);
        assert_eq!(completion.cid.get(), cid);
        completion
    }
}
