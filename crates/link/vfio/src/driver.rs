//! A small driver of an NVMe function for tests, with one I/O queue pair. A transport of its own choice carries its accesses.

use crate::guest_map::{GuestMap, MapAccess};
use crate::rings::QueuePair;
use crate::server::Space;
use nvme::admin::{CreateIoCq, CreateIoSq};
use nvme::property::{Cc, PropertyOffset};
use nvme::{Command, Completion, SglDescriptor};
use pcie::{GuestMemory, Unmapped};
use std::fs::File;
use std::io::Error;
use vfio_bindings::bindings::vfio;

/// Bytes of guest memory.
pub const MEMORY_BYTES: u64 = 4 << 20;
/// Entries of each queue.
const ENTRIES: u32 = 32;
/// Bytes of memory of a command: a page for a list, and data.
const COMMAND_BYTES: u64 = 32 << 10;
/// Address of the memory of commands.
const COMMANDS_BASE: u64 = 0x10_0000;
/// Bytes of a page.
const PAGE_BYTES: u64 = 4096;

/// How a driver reaches its device.
pub trait DeviceAccess {
    /// Writes a space of the device.
    ///
    /// # Errors
    /// The device cannot be reached.
    fn write(&mut self, space: Space, offset: u64, bytes: &[u8]) -> Result<(), Error>;
}

impl DeviceAccess for vfio_user::Client {
    fn write(&mut self, space: Space, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        let region = match space {
            Space::Config => vfio::VFIO_PCI_CONFIG_REGION_INDEX,
            Space::Bar0 => vfio::VFIO_PCI_BAR0_REGION_INDEX,
        };
        self.region_write(region, offset, bytes).map_err(Error::other)
    }
}

/// A guest's driver, with an admin queue and one I/O queue pair.
pub struct Driver<A> {
    /// The device.
    pub access: A,
    memory: GuestMap,
    file: File,
    pairs: [QueuePair; 2],
    next_cid: u16,
}

/// Addresses of a queue pair: submission, completion.
fn bases(qid: u16) -> [u64; 2] {
    [0x1000, 0x2000].map(|base| base + u64::from(qid) * 0x2000)
}

/// The commands that make the I/O queue pair.
#[must_use]
pub fn create_queues() -> [Command; 2] {
    let [submission, completion] = bases(1);
    let qsize_z = (ENTRIES - 1) as u16;
    let create = CreateIoCq { qid: 1, qsize_z, pc: true, ien: false, iv: 0 };
    let with_prp = |command: Command, base| command.with_dptr(SglDescriptor::of_prps([base, 0]));
    let add = CreateIoSq { qid: 1, qsize_z, pc: true, qprio: 0, cqid: 1, nvmsetid: 0 };
    [with_prp(create.into(), completion), with_prp(add.into(), submission)]
}

/// The admin queues and the I/O queues, empty.
fn pairs() -> [QueuePair; 2] {
    [0, 1].map(|qid| {
        let [submission, completion] = bases(qid);
        QueuePair::new(submission, completion, ENTRIES)
    })
}

fn lost(_: Unmapped) -> Error {
    Error::other("the memory of the driver is not mapped")
}

impl<A: DeviceAccess> Driver<A> {
    /// A driver of a device that has been given the memory of `file`: [`MEMORY_BYTES`] at address 0.
    ///
    /// # Errors
    /// The file cannot be mapped.
    pub fn new(access: A, file: File) -> Result<Self, Error> {
        let mut memory = GuestMap::default();
        let all = MapAccess { read: true, write: true };
        memory.map(0, MEMORY_BYTES, file.try_clone()?, 0, all)?;
        Ok(Driver { access, memory, file, pairs: pairs(), next_cid: 0 })
    }

    /// The memory that the device has, too.
    pub fn file(&self) -> &File {
        &self.file
    }

    fn register(&mut self, offset: PropertyOffset, value: u32) -> Result<(), Error> {
        self.access.write(Space::Bar0, offset.0.into(), &value.to_le_bytes())
    }

    /// Enables the controller.
    ///
    /// # Errors
    /// The device cannot be reached.
    pub fn enable(&mut self) -> Result<(), Error> {
        self.pairs = pairs();
        for base in [0, 1].into_iter().flat_map(bases) {
            self.memory.write(base, &[0; PAGE_BYTES as usize]).map_err(lost)?;
        }
        // Memory space and bus master.
        self.access.write(Space::Config, 4, &[6, 0])?;
        let [submission, completion] = bases(0);
        self.register(PropertyOffset::AQA, (ENTRIES - 1) << 16 | (ENTRIES - 1))?;
        self.register(PropertyOffset::ASQ, submission as u32)?;
        self.register(PropertyOffset::ACQ, completion as u32)?;
        let cc = Cc::new().with_en(true).with_css(Cc::CSS_SETS).with_iosqes(6).with_iocqes(4);
        self.register(PropertyOffset::CC, cc.into_bits().get())
    }

    /// Where the data of a command is.
    fn data(cid: u16) -> u64 {
        COMMANDS_BASE + u64::from(cid) * COMMAND_BYTES + PAGE_BYTES
    }

    /// Sends a command with room for this many bytes, and these bytes in it. `None` for a command that has its own data pointer.
    /// Returns its identifier.
    ///
    /// # Errors
    /// The device cannot be reached.
    pub fn submit(
        &mut self,
        qid: u16,
        mut command: Command,
        data: Option<(usize, &[u8])>,
    ) -> Result<u16, Error> {
        let cid = self.next_cid;
        self.next_cid = (cid + 1) % 64;
        command.cid.set(cid);
        command.flags.set_psdt(0);
        if let Some((len, bytes)) = data {
            let at = Self::data(cid);
            self.memory.write(at, bytes).map_err(lost)?;
            let list = at - PAGE_BYTES;
            let pages = (len as u64).div_ceil(PAGE_BYTES).max(1);
            for page in 1..pages {
                self.memory
                    .write(list + 8 * (page - 1), &(at + page * PAGE_BYTES).to_le_bytes())
                    .map_err(lost)?;
            }
            let second = if pages > 2 { list } else { at + PAGE_BYTES };
            command.dptr = SglDescriptor::of_prps([at, second]);
        }
        let pair = &mut self.pairs[usize::from(qid)];
        pair.push(&self.memory, &command).map_err(lost)?;
        let tail = pair.tail();
        self.access.write(Space::Bar0, 0x1000 + 8 * u64::from(qid), &tail.to_le_bytes())?;
        Ok(cid)
    }

    /// Takes the next completion of a queue; `None` if there is none.
    ///
    /// # Errors
    /// The device cannot be reached.
    pub fn take(&mut self, qid: u16) -> Result<Option<Completion>, Error> {
        let pair = &mut self.pairs[usize::from(qid)];
        let completion = pair.take(&self.memory).map_err(lost)?;
        if completion.is_some() {
            let head = pair.head();
            self.access.write(Space::Bar0, 0x1004 + 8 * u64::from(qid), &head.to_le_bytes())?;
        }
        Ok(completion)
    }

    /// The data of a command.
    ///
    /// # Errors
    /// The memory of the driver is gone.
    pub fn read(&self, cid: u16, len: usize) -> Result<Vec<u8>, Error> {
        let mut bytes = vec![0; len];
        self.memory.read(Self::data(cid), &mut bytes).map_err(lost)?;
        Ok(bytes)
    }
}
