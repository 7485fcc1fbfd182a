//! The device's side of a vfio-user socket, on a thread of its own. It passes messages of the client on, and waits for answers.
//!
//! Source: *vfio-user Protocol Specification*, version 0.9.1 (libvfio-user, `docs/vfio-user.rst`); the crate `vfio_user` has the messages.

use crate::guest_map::MapAccess;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use std::fs::File;
use std::io::{Error, ErrorKind};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::panic::AssertUnwindSafe;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use vfio_bindings::bindings::vfio;
use vfio_user::{DmaMapFlags, DmaUnmapFlags, IrqInfo, Server, ServerBackend, ServerRegion, SparseArea};

/// Messages that wait for the drive. A client that sends more waits.
const MAX_WAITING: usize = 256;
/// Bytes of one access of a client, at most.
const MAX_ACCESS_BYTES: usize = 4096;

/// What a client accesses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Space {
    /// The configuration space.
    Config,
    /// BAR0.
    Bar0,
}

/// The interrupts of a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InterruptKind {
    /// The interrupt pin.
    Pin,
    /// MSI-X vectors.
    Msix,
}

/// What a client wants of its interrupts.
#[derive(Debug)]
pub enum InterruptChange {
    /// Events for vectors from this one on: `None` takes the event away.
    Connect(u32, Vec<Option<File>>),
    /// All events go.
    Disconnect,
    /// The pin sends nothing until it is unmasked.
    Mask,
    /// The pin sends again.
    Unmask,
}

/// A message of a client.
#[derive(Debug)]
pub enum ClientMessage {
    /// Read a space; the answer has the bytes.
    Read {
        /// Where.
        space: Space,
        /// The first byte.
        offset: u64,
        /// How many.
        len: usize,
    },
    /// Write a space. There is no answer.
    Write {
        /// Where.
        space: Space,
        /// The first byte.
        offset: u64,
        /// What.
        bytes: Vec<u8>,
    },
    /// Guest memory; without a file it cannot be used.
    Map {
        /// Guest address.
        addr: u64,
        /// Bytes.
        size: u64,
        /// What is mapped.
        file: Option<File>,
        /// The first byte of the file.
        offset: u64,
        /// What the device may do.
        access: MapAccess,
    },
    /// Guest memory goes; everything with `None`.
    Unmap(Option<(u64, u64)>),
    /// Interrupts change.
    Interrupts(InterruptKind, InterruptChange),
    /// The doorbells of the next client, if they are lent: it may write them there instead of BAR0. There is no answer.
    Doorbells(File),
    /// The device is to be reset.
    Reset,
    /// The client has gone. There is no answer.
    Gone,
}

/// The answer to a message: bytes that were read.
pub type Answer = Result<Vec<u8>, ErrorKind>;

/// The other end of a socket's thread.
#[derive(Debug)]
pub struct ClientLink {
    /// Messages in their order.
    pub messages: Receiver<ClientMessage>,
    /// Answers to those that have one, in their order.
    pub answers: SyncSender<Answer>,
}

/// What a client sees of a device.
#[derive(Clone, Copy, Debug)]
pub struct DeviceShape {
    /// Bytes of BAR0.
    pub bar_bytes: u32,
    /// MSI-X vectors.
    pub vectors: u16,
    /// Pages of BAR0 with doorbells that a client may map. It writes them without a message, so their owner must look at them all the time.
    pub lent_doorbells: Option<(u32, u32)>,
}

/// Passes messages on.
struct Forward<W> {
    messages: SyncSender<ClientMessage>,
    answers: Receiver<Answer>,
    wake: W,
    /// Whether the drive has gone.
    is_closed: bool,
}

impl<W: Fn()> Forward<W> {
    fn post(&mut self, message: ClientMessage) -> Result<(), Error> {
        let sent = self.messages.send(message);
        (self.wake)();
        self.is_closed |= sent.is_err();
        sent.map_err(|_| ErrorKind::BrokenPipe.into())
    }

    fn call(&mut self, message: ClientMessage) -> Result<Vec<u8>, Error> {
        self.post(message)?;
        let answer = self.answers.recv();
        self.is_closed |= answer.is_err();
        answer.map_err(|_| Error::from(ErrorKind::BrokenPipe))?.map_err(Error::from)
    }
}

fn space(region: u32) -> Result<Space, Error> {
    match region {
        vfio::VFIO_PCI_CONFIG_REGION_INDEX => Ok(Space::Config),
        vfio::VFIO_PCI_BAR0_REGION_INDEX => Ok(Space::Bar0),
        _ => Err(ErrorKind::InvalidInput.into()),
    }
}

impl<W: Fn()> ServerBackend for Forward<W> {
    fn region_read(&mut self, region: u32, offset: u64, data: &mut [u8]) -> Result<(), Error> {
        if data.len() > MAX_ACCESS_BYTES {
            return Err(ErrorKind::InvalidInput.into());
        }
        let bytes = self.call(ClientMessage::Read { space: space(region)?, offset, len: data.len() })?;
        data.copy_from_slice(&bytes);
        Ok(())
    }

    fn region_write(&mut self, region: u32, offset: u64, data: &[u8]) -> Result<(), Error> {
        if data.len() > MAX_ACCESS_BYTES {
            return Err(ErrorKind::InvalidInput.into());
        }
        self.post(ClientMessage::Write { space: space(region)?, offset, bytes: data.to_vec() })
    }

    fn dma_map(
        &mut self,
        flags: DmaMapFlags,
        offset: u64,
        addr: u64,
        size: u64,
        file: Option<File>,
    ) -> Result<(), Error> {
        let access =
            MapAccess { read: flags.contains(DmaMapFlags::READ), write: flags.contains(DmaMapFlags::WRITE) };
        self.call(ClientMessage::Map { addr, size, file, offset, access }).map(drop)
    }

    fn dma_unmap(&mut self, flags: DmaUnmapFlags, addr: u64, size: u64) -> Result<(), Error> {
        let is_all = flags.contains(DmaUnmapFlags::UNMAP_ALL);
        self.call(ClientMessage::Unmap((!is_all).then_some((addr, size)))).map(drop)
    }

    fn reset(&mut self) -> Result<(), Error> {
        self.call(ClientMessage::Reset).map(drop)
    }

    fn set_irqs(
        &mut self,
        index: u32,
        flags: u32,
        start: u32,
        count: u32,
        files: Vec<File>,
    ) -> Result<(), Error> {
        let kind = match index {
            vfio::VFIO_PCI_INTX_IRQ_INDEX => InterruptKind::Pin,
            vfio::VFIO_PCI_MSIX_IRQ_INDEX => InterruptKind::Msix,
            // Errors and requests of the device never come.
            _ => return Ok(()),
        };
        let has = |flag: u32| flags & flag != 0;
        let change = if has(vfio::VFIO_IRQ_SET_ACTION_MASK) {
            InterruptChange::Mask
        } else if has(vfio::VFIO_IRQ_SET_ACTION_UNMASK) {
            InterruptChange::Unmask
        } else if has(vfio::VFIO_IRQ_SET_DATA_EVENTFD) {
            // Vectors without a file have no event.
            let mut events: Vec<Option<File>> = files.into_iter().map(Some).collect();
            events.resize_with(
                usize::try_from(count).unwrap_or(0).clamp(events.len(), MAX_ACCESS_BYTES),
                || None,
            );
            InterruptChange::Connect(start, events)
        } else if count == 0 {
            InterruptChange::Disconnect
        } else {
            // A client that triggers an interrupt itself wants to know whether it works. There is nothing to be sent.
            return Ok(());
        };
        self.call(ClientMessage::Interrupts(kind, change)).map(drop)
    }
}

/// The regions of a PCI device: BAR0 and the configuration space.
fn regions(shape: DeviceShape, doorbells: Option<&File>) -> Vec<ServerRegion> {
    let region = |index: u32| {
        let size = match index {
            vfio::VFIO_PCI_BAR0_REGION_INDEX => shape.bar_bytes.into(),
            vfio::VFIO_PCI_CONFIG_REGION_INDEX => pcie::CONFIG_SPACE_BYTES as u64,
            _ => 0,
        };
        let access = vfio::VFIO_REGION_INFO_FLAG_READ | vfio::VFIO_REGION_INFO_FLAG_WRITE;
        let region_info = vfio::vfio_region_info {
            argsz: size_of::<vfio::vfio_region_info>() as u32,
            flags: if size > 0 { access } else { 0 },
            index,
            size,
            ..Default::default()
        };
        let lent = shape.lent_doorbells.zip(doorbells).filter(|_| index == vfio::VFIO_PCI_BAR0_REGION_INDEX);
        let Some(((start, bytes), file)) = lent else {
            return ServerRegion { region_info, sparse_areas: Vec::new(), mmap_fd: None };
        };
        let flags = region_info.flags | vfio::VFIO_REGION_INFO_FLAG_MMAP;
        let area = vfio::vfio_region_sparse_mmap_area { offset: start.into(), size: bytes.into() };
        ServerRegion {
            region_info: vfio::vfio_region_info { flags, ..region_info },
            sparse_areas: vec![SparseArea { area }],
            mmap_fd: Some(file.as_raw_fd()),
        }
    };
    (0..vfio::VFIO_PCI_NUM_REGIONS).map(region).collect()
}

/// The interrupts of a PCI device: the pin and MSI-X.
fn interrupts(shape: DeviceShape) -> Vec<IrqInfo> {
    let interrupt = |index: u32| {
        let (count, flags) = match index {
            vfio::VFIO_PCI_INTX_IRQ_INDEX => {
                (1, vfio::VFIO_IRQ_INFO_MASKABLE | vfio::VFIO_IRQ_INFO_AUTOMASKED)
            }
            vfio::VFIO_PCI_MSIX_IRQ_INDEX => (shape.vectors.into(), vfio::VFIO_IRQ_INFO_NORESIZE),
            _ => (0, 0),
        };
        IrqInfo { index, flags: flags | vfio::VFIO_IRQ_INFO_EVENTFD, count }
    };
    (0..vfio::VFIO_PCI_NUM_IRQS).map(interrupt).collect()
}

/// A file of the size of BAR0 for its doorbells. A client cannot make it shorter.
fn doorbell_file(shape: DeviceShape) -> Result<Option<File>, Error> {
    if shape.lent_doorbells.is_none() {
        return Ok(None);
    }
    let file =
        File::from(memfd_create("tranche-doorbells", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?);
    file.set_len(shape.bar_bytes.into())?;
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok(Some(file))
}

/// Serves clients of a socket, one after the other, on a thread of its own. `wake` is called after each message. The thread ends after the link
/// is dropped, with the next message of a client.
///
/// # Errors
/// The system refuses a thread, or the socket.
pub fn serve(
    listener: UnixListener,
    shape: DeviceShape,
    wake: impl Fn() + Send + 'static,
) -> Result<ClientLink, Error> {
    listener.set_nonblocking(false)?;
    let (send, messages) = sync_channel(MAX_WAITING);
    let (answers, answered) = sync_channel(1);
    let run = move || {
        let mut forward = Forward { messages: send, answers: answered, wake, is_closed: false };
        while !forward.is_closed {
            // Each client has doorbells of its own: an earlier one may still have its own mapped. Without, they are messages.
            let doorbells = doorbell_file(shape).ok().flatten();
            if let Some(Ok(file)) = doorbells.as_ref().map(File::try_clone) {
                let _ = forward.post(ClientMessage::Doorbells(file));
            }
            let Ok(socket) = listener.try_clone() else { return };
            let regions = regions(shape, doorbells.as_ref());
            let server = Server::from_owned_fd(OwnedFd::from(socket), true, interrupts(shape), regions);
            // A client that breaks the protocol may end a call of the server by a panic. It ends its connection and nothing else.
            let served = std::panic::catch_unwind(AssertUnwindSafe(|| server.run(&mut forward)));
            if matches!(served, Ok(Err(vfio_user::Error::SocketAccept(_)))) {
                return;
            }
            let _ = forward.post(ClientMessage::Gone);
        }
    };
    std::thread::Builder::new().name("tranche-vfio".to_owned()).spawn(run)?;
    Ok(ClientLink { messages, answers })
}
