//! An NVMe function as a driver in this process sees it: registers, doorbells, memory that the device may use, interrupts.

use crate::client::Client;
use crate::guest_map::{GuestMap, MapAccess};
use nvme::property::PropertyOffset;
use pcie::GuestMemory;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;
use std::io::{Error, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use vfio_bindings::bindings::vfio;

/// Bytes of a page, of the device and of this machine.
pub const PAGE_BYTES: u64 = 4096;
/// Offset of the first doorbell in BAR0 (PCIe transport 1.1, section 3.1.2).
const DOORBELLS_OFFSET: u64 = 0x1000;
/// Index of the region of the configuration space.
const CONFIG_REGION: u32 = vfio::VFIO_PCI_CONFIG_REGION_INDEX;
/// The first address of memory that is lent. Address 0 is nobody's.
const FIRST_ADDRESS: u64 = 1 << 20;
/// Offsets in the configuration space: Command, Class Code, Capabilities Pointer.
const COMMAND_OFFSET: u64 = 4;
const CLASS_OFFSET: u64 = 9;
const CAPABILITIES_OFFSET: u64 = 0x34;
/// Command: memory space and bus master.
const ENABLED_COMMAND: [u8; 2] = [6, 0];
/// Class Code of NVM Express: programming interface, sub-class, base class.
const NVME_CLASS: [u8; 3] = [2, 8, 1];
/// Identifier of the MSI-X capability, and the upper byte of its Message Control with Enable.
const MSIX_CAPABILITY: u8 = 0x11;
const MSIX_ENABLED: u8 = 0x80;
/// Capabilities of a device, at most.
const MAX_CAPABILITIES: usize = 48;

/// Memory that the device may use.
#[derive(Debug)]
pub struct LentMemory {
    /// The memory, at the addresses that the device knows.
    pub map: GuestMap,
    /// Its first address.
    pub base: u64,
    /// Bytes.
    pub bytes: u64,
}

/// A doorbell, and the value that it had last.
#[derive(Debug)]
pub struct Doorbell {
    /// From the first one, in bytes.
    offset: u64,
    value: u32,
    has_shadow: bool,
}

/// A function that this process drives. Its queues share it.
#[derive(Debug)]
pub struct PciDevice {
    client: Mutex<Client>,
    /// The pages of doorbells, if the device lends them: the first doorbell is at address 0.
    doorbells: Option<GuestMap>,
    /// Shadow doorbells (Base 5.2.5, "Doorbell Buffer Config"): a page of values and one of events.
    shadow: OnceLock<LentMemory>,
    next_address: AtomicU64,
    /// MSI-X vectors.
    vectors: u32,
}

fn unmapped(_: pcie::Unmapped) -> Error {
    Error::other("the memory of the driver is not mapped")
}

impl PciDevice {
    /// Connects to the device of a socket, and lets it use memory and interrupts.
    ///
    /// # Errors
    /// It cannot be reached, does not answer in time, or is no NVMe function.
    pub fn open(path: &Path, timeout: Duration) -> Result<Self, Error> {
        let mut client = Client::connect(path, timeout)?;
        let mut class = [0; 3];
        client.region_read(CONFIG_REGION, CLASS_OFFSET, &mut class)?;
        if class != NVME_CLASS {
            return Err(Error::new(ErrorKind::InvalidData, "the PCI device is no NVMe controller"));
        }
        client.region_write(CONFIG_REGION, COMMAND_OFFSET, &ENABLED_COMMAND)?;
        let doorbells = Self::map_doorbells(&mut client);
        let vectors = client.interrupts(vfio::VFIO_PCI_MSIX_IRQ_INDEX)?;
        let vectors = if vectors > 0 && Self::enable_msix(&mut client)? { vectors } else { 0 };
        Ok(PciDevice {
            client: Mutex::new(client),
            doorbells,
            shadow: OnceLock::new(),
            next_address: AtomicU64::new(FIRST_ADDRESS),
            vectors,
        })
    }

    /// Maps the doorbells, if the device lends their page. Without, each is a message.
    fn map_doorbells(client: &mut Client) -> Option<GuestMap> {
        let region = client.region_info(vfio::VFIO_PCI_BAR0_REGION_INDEX).ok()?;
        let area = region.mappable.into_iter().find(|area| area.start == DOORBELLS_OFFSET)?;
        let mut map = GuestMap::default();
        let access = MapAccess { read: true, write: true };
        map.map(0, area.bytes, area.file, area.offset, access).ok()?;
        Some(map)
    }

    /// Enables MSI-X. False if the function has none.
    fn enable_msix(client: &mut Client) -> Result<bool, Error> {
        let mut at = [0; 1];
        client.region_read(CONFIG_REGION, CAPABILITIES_OFFSET, &mut at)?;
        for _ in 0..MAX_CAPABILITIES {
            if at[0] == 0 {
                break;
            }
            let mut header = [0; 4];
            client.region_read(CONFIG_REGION, u64::from(at[0] & !3), &mut header)?;
            if header[0] == MSIX_CAPABILITY {
                let control = [header[2], header[3] | MSIX_ENABLED];
                client.region_write(CONFIG_REGION, u64::from(at[0] & !3) + 2, &control)?;
                return Ok(true);
            }
            at = [header[1]];
        }
        Ok(false)
    }

    fn client(&self) -> MutexGuard<'_, Client> {
        self.client.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads a register of 4 or 8 bytes.
    ///
    /// # Errors
    /// The device has gone, or does not answer in time; so with all that follow.
    pub fn read_register(&self, offset: PropertyOffset, is_wide: bool) -> Result<u64, Error> {
        let mut bytes = [0; 8];
        let len = if is_wide { 8 } else { 4 };
        self.client().region_read(vfio::VFIO_PCI_BAR0_REGION_INDEX, offset.0.into(), &mut bytes[..len])?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Reads a register of 4 bytes, if the device answers within this time.
    ///
    /// # Errors
    /// [`ErrorKind::TimedOut`], or the device has gone.
    pub fn read_register_within(&self, timeout: Duration, offset: PropertyOffset) -> Result<u32, Error> {
        let mut bytes = [0; 4];
        let region = vfio::VFIO_PCI_BAR0_REGION_INDEX;
        self.client().region_read_within(timeout, region, offset.0.into(), &mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    /// Writes a register of 4 bytes.
    ///
    /// # Errors
    /// The device has gone.
    pub fn write_register(&self, offset: PropertyOffset, value: u32) -> Result<(), Error> {
        let bytes = value.to_le_bytes();
        self.client().region_write(vfio::VFIO_PCI_BAR0_REGION_INDEX, offset.0.into(), &bytes)
    }

    /// New memory that the device may use, zeroed: whole pages. Only pages that are written take memory of the machine.
    ///
    /// # Errors
    /// The system refuses it, or the device does.
    pub fn lend(&self, bytes: u64) -> Result<LentMemory, Error> {
        let bytes = bytes.next_multiple_of(PAGE_BYTES);
        let file = File::from(memfd_create("tranche-dma", MemfdFlags::CLOEXEC)?);
        file.set_len(bytes)?;
        let base = self.next_address.fetch_add(bytes, Ordering::Relaxed);
        let mut map = GuestMap::default();
        map.map(base, bytes, file.try_clone()?, 0, MapAccess { read: true, write: true })?;
        self.client().map_memory(base, bytes, &file)?;
        Ok(LentMemory { map, base, bytes })
    }

    /// An event for an MSI-X vector; `None` if the device has no such vector.
    ///
    /// # Errors
    /// The system refuses it, or the device does.
    pub fn interrupt(&self, vector: u32) -> Result<Option<OwnedFd>, Error> {
        if vector >= self.vectors {
            return Ok(None);
        }
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        self.client().connect_interrupt(vfio::VFIO_PCI_MSIX_IRQ_INDEX, vector, event.as_fd())?;
        Ok(Some(event))
    }

    /// Its connection, as a file that can be polled: it becomes readable when the device goes.
    ///
    /// # Errors
    /// The system refuses another descriptor.
    pub fn socket(&self) -> Result<OwnedFd, Error> {
        self.client().socket().try_clone_to_owned()
    }

    /// Ends the connection. The device is reset, and may have another client.
    pub fn close(&self) {
        self.client().close();
    }

    /// A doorbell of a queue: its tail (false) or head (true). `stride` is the number of bytes between two doorbells.
    #[must_use]
    pub fn doorbell(&self, qid: u16, is_head: bool, stride: u64) -> Doorbell {
        let offset = (2 * u64::from(qid) + u64::from(is_head)) * stride;
        Doorbell { offset, value: 0, has_shadow: qid > 0 }
    }

    /// Pages for shadow doorbells: values, events.
    ///
    /// # Errors
    /// The system refuses them, or the device does.
    pub fn lend_shadow_doorbells(&self) -> Result<(LentMemory, [u64; 2]), Error> {
        let memory = self.lend(2 * PAGE_BYTES)?;
        let pages = [memory.base, memory.base + PAGE_BYTES];
        Ok((memory, pages))
    }

    /// The device has taken shadow doorbells: I/O queues use them from now on.
    pub fn use_shadow_doorbells(&self, memory: LentMemory) {
        let _ = self.shadow.set(memory);
    }

    /// Rings a doorbell: in the page that the device lends, else in shadow memory, and by a message if the device asks for one.
    ///
    /// # Errors
    /// The device has gone.
    pub fn ring(&self, doorbell: &mut Doorbell, value: u32) -> Result<(), Error> {
        let before = std::mem::replace(&mut doorbell.value, value);
        if let Some(LentMemory { map, base, .. }) = self.shadow.get().filter(|_| doorbell.has_shadow) {
            map.store(base + doorbell.offset, value).map_err(unmapped)?;
            let event = map.load(base + PAGE_BYTES + doorbell.offset).map_err(unmapped)?;
            if !is_passed(event, before, value) {
                return Ok(());
            }
        }
        if let Some(doorbells) = &self.doorbells {
            return doorbells.store(doorbell.offset, value).map_err(unmapped);
        }
        let offset = DOORBELLS_OFFSET + doorbell.offset;
        self.client().region_write(vfio::VFIO_PCI_BAR0_REGION_INDEX, offset, &value.to_le_bytes())
    }
}

impl Drop for PciDevice {
    fn drop(&mut self) {
        self.close();
    }
}

/// Whether a doorbell that moves from one value to another passes the event that its device waits for.
fn is_passed(event: u32, before: u32, after: u32) -> bool {
    let (event, before, after) = (event as u16, before as u16, after as u16);
    after.wrapping_sub(event).wrapping_sub(1) < after.wrapping_sub(before)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::{ClientMessage, DeviceShape, Space, serve};
    use std::sync::mpsc::{Receiver, channel};

    #[test]
    fn a_doorbell_is_rung_when_it_passes_the_event() {
        for (event, before, after, expected) in [
            (0, 0, 1, true),
            (1, 0, 1, false),
            (1, 1, 2, true),
            (3, 1, 5, true),
            (5, 1, 5, false),
            (31, 31, 0, true),
            (5, 31, 0, false),
            (31, 30, 31, false),
        ] {
            assert_eq!(is_passed(event, before, after), expected, "{event} {before} {after}");
        }
    }

    const SHAPE: DeviceShape =
        DeviceShape { bar_bytes: 0x4000, vectors: 3, lent_doorbells: Some((0x1000, 0x1000)) };

    /// Serves a device that is memory. Doorbells that it lends, and writes to BAR0, come out.
    fn memory_device(path: &Path, shape: DeviceShape) -> (Receiver<File>, Receiver<(u64, Vec<u8>)>) {
        let listener = std::os::unix::net::UnixListener::bind(path).unwrap();
        let link = serve(listener, shape, || ()).unwrap();
        let (lent, doorbells) = channel();
        let (wrote, written) = channel();
        std::thread::spawn(move || {
            while let Ok(message) = link.messages.recv() {
                let answer = match message {
                    ClientMessage::Read { offset, len, space } => {
                        let mut bytes = vec![0; len];
                        if space == Space::Config && offset == CLASS_OFFSET {
                            bytes.copy_from_slice(&NVME_CLASS);
                        }
                        bytes
                    }
                    ClientMessage::Write { space, offset, bytes } => {
                        if space == Space::Bar0 {
                            let _ = wrote.send((offset, bytes));
                        }
                        continue;
                    }
                    ClientMessage::Doorbells(file) => {
                        let _ = lent.send(file);
                        continue;
                    }
                    ClientMessage::Gone => continue,
                    _ => Vec::new(),
                };
                link.answers.send(Ok(answer)).unwrap();
            }
        });
        (doorbells, written)
    }

    const TIMEOUT: Duration = Duration::from_secs(60);

    #[test]
    fn each_client_maps_doorbells_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("device");
        let (doorbells, written) = memory_device(&path, SHAPE);
        let mut pages = Vec::new();
        for value in [5, 6] {
            let device = PciDevice::open(&path, TIMEOUT).unwrap();
            let file = doorbells.recv().unwrap();
            assert!(file.set_len(0).is_err() && file.set_len(0x8000).is_err(), "it stays as long as it is");
            let mut page = GuestMap::default();
            page.map(0, 0x1000, file, 0x1000, MapAccess { read: true, write: true }).unwrap();
            device.ring(&mut device.doorbell(3, true, 4), value).unwrap();
            assert_eq!((page.load(28), page.load(24)), (Ok(value), Ok(0)));
            pages.push(page);
        }
        assert_eq!((pages[0].load(28), written.try_recv().is_err()), (Ok(5), true), "none is a message");
    }

    #[test]
    fn doorbells_in_shared_memory_are_messages_only_when_they_are_asked_for() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("device");
        let (_, written) = memory_device(&path, DeviceShape { lent_doorbells: None, ..SHAPE });
        let device = PciDevice::open(&path, TIMEOUT).unwrap();
        let (memory, [values, events]) = device.lend_shadow_doorbells().unwrap();
        let (mut admin, mut tail) = (device.doorbell(0, false, 4), device.doorbell(1, false, 4));
        device.ring(&mut tail, 1).unwrap();
        assert_eq!(written.recv().unwrap(), (0x1008, vec![1, 0, 0, 0]));
        memory.map.store(events + 8, 3).unwrap();
        device.use_shadow_doorbells(memory);
        for value in 2..=4 {
            device.ring(&mut tail, value).unwrap();
        }
        device.ring(&mut admin, 9).unwrap();
        assert_eq!(written.recv().unwrap(), (0x1008, vec![4, 0, 0, 0]), "it passes 3");
        assert_eq!(written.recv().unwrap(), (0x1000, vec![9, 0, 0, 0]), "the admin queue has none");
        let memory = device.shadow.get().unwrap();
        assert_eq!(memory.map.load(values + 8), Ok(4));
    }
}
