//! Devices that are open and claimed, and what the metadata among them says.

use crate::bell::Bell;
use crate::claim::{Claim, addresses};
use crate::device::{Backing, DeviceError, Kind, execute};
use crate::error::Error;
use crate::local_device::{OwnDevice, identity};
use crate::place::{Place, Role};
use crate::socket::SocketDevice;
use blockdev::{BlockDevice, Operation, Verb};
use host::{Addr, BlockFile, DriveTransport, Host};
use live::Handle;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use tier::{DeviceId, OpenError, Recorded};

/// Requests that a file takes at once. Each has a thread.
const FILE_DEPTH: usize = 16;
/// Commands that a namespace elsewhere takes at once.
const SOCKET_DEPTH: u16 = 128;

/// A device that is open, and claimed for this process.
pub struct Source {
    /// The device.
    pub device: Backing,
    /// Which one it is, everywhere and always. Zeroes where that cannot be known: of a block device.
    pub id: DeviceId,
    pub(crate) bell: Bell,
    pub(crate) claim: Claim,
}

impl Source {
    /// Opens a regular file or a block device.
    ///
    /// # Errors
    /// It cannot be opened, or is in use.
    pub fn file(role: Role, path: &Path) -> Result<Self, Error> {
        let place = Place::Path(path.to_owned());
        let open = || -> Result<Option<Source>, DeviceError> {
            let Some(claim) = Claim::file(path)? else { return Ok(None) };
            let bell = Bell::default();
            let told = bell.clone();
            let device = BlockFile::open(path)?.telling_device(FILE_DEPTH, move || told.ring())?;
            let id = DeviceId(file_identity(path)?);
            let device = Backing::new(Kind::File(device), format!("{role} {place}"));
            Ok(Some(Source { device, id, bell, claim }))
        };
        opened(role, &place, open())
    }

    /// Opens a namespace of a drive elsewhere that this host is connected to.
    ///
    /// # Errors
    /// There is no such namespace, or it is in use.
    pub fn namespace(
        role: Role,
        addr: &Addr,
        nsid: u32,
        mut host: Host<DriveTransport>,
    ) -> Result<Self, Error> {
        let place = Place::Namespace { addr: Box::new(addr.clone()), nsid };
        let mut open = || -> Result<Option<_>, DeviceError> {
            let namespace = host.namespace(nsid)?;
            let id = identity(&host.namespace_descriptors(nsid)?);
            let Some(claim) = Claim::namespace(&id, nsid, &addresses(&place, &[]))? else { return Ok(None) };
            Ok(Some((host.io_queue(SOCKET_DEPTH)?.into_raw(), namespace, id, claim)))
        };
        let (queue, namespace, id, claim) = opened(role, &place, open())?;
        let kind = Kind::Socket(Box::new(SocketDevice::new(host, queue, namespace)));
        let device = Backing::new(kind, format!("{role} {place}"));
        Ok(Source { device, id: DeviceId(id), bell: Bell::default(), claim })
    }

    /// Opens a namespace of the drive in this process, as the host that has its block files. Others know the drive by these addresses.
    ///
    /// # Errors
    /// There is no such namespace, or it is in use.
    pub fn own(role: Role, handle: &Handle, nsid: u32, known_as: &[Addr]) -> Result<Self, Error> {
        let place = Place::Own(nsid);
        let open = || -> Result<Option<Source>, DeviceError> {
            let bell = Bell::default();
            let (device, id) = OwnDevice::open(handle, export::HOST_NQN, nsid, bell.clone())?;
            let Some(claim) = Claim::namespace(&id, nsid, &addresses(&place, known_as))? else {
                return Ok(None);
            };
            let device = Backing::new(Kind::Own(Box::new(device)), format!("{role} {place}"));
            Ok(Some(Source { device, id: DeviceId(id), bell, claim }))
        };
        opened(role, &place, open())
    }
}

fn opened<T>(role: Role, place: &Place, result: Result<Option<T>, DeviceError>) -> Result<T, Error> {
    match result {
        Ok(Some(opened)) => Ok(opened),
        Ok(None) => Err(Error::InUse { role, place: place.to_string() }),
        Err(reason) => Err(Error::Device { role, place: place.to_string(), reason }),
    }
}

/// What tells a regular file from its copies. A block device has no identity that lives on.
fn file_identity(path: &Path) -> std::io::Result<[u8; 16]> {
    let found = std::fs::metadata(path)?;
    let mut id = [0; 16];
    if !found.file_type().is_block_device() {
        let [inode, born] = image::machine::file_identity(&found);
        id[..8].copy_from_slice(&inode.to_le_bytes());
        id[8..].copy_from_slice(&born.to_le_bytes());
    }
    Ok(id)
}

/// Refuses a device that is named twice. Two names of one device are refused when it is claimed.
///
/// # Errors
/// Which two are the same.
pub fn check_apart(places: [(Role, &Place); 3]) -> Result<(), Error> {
    for (at, (role, place)) in places.iter().enumerate() {
        if let Some((first, _)) = places[..at].iter().find(|(_, other)| other == place) {
            let reason = DeviceError::Other(format!("it is the {first}, too; a tier has three devices"));
            return Err(Error::Device { role: *role, place: place.to_string(), reason });
        }
    }
    Ok(())
}

/// The operation on the first blocks of the metadata device.
fn first_blocks(device: &Backing, verb: Verb) -> Operation {
    let blocks = Recorded::BYTES as u64 / u64::from(device.block_size());
    Operation { verb, lba: 0, blocks: blocks as u32 }
}

/// What a metadata device that no tier has open says in its first blocks.
fn read_first(metadata: &mut Backing) -> Result<Vec<u8>, Error> {
    let mut first = Vec::new();
    let whole = first_blocks(metadata, Verb::Read);
    if u64::from(whole.blocks) > metadata.blocks() {
        return Ok(first);
    }
    for part in whole.parts(&metadata.limits()) {
        let room = vec![0; part.blocks as usize * metadata.block_size() as usize];
        first.extend(execute(metadata, &part, room).map_err(of_metadata)?);
    }
    Ok(first)
}

/// The tier that a metadata device holds, which nobody has open.
///
/// # Errors
/// It cannot be read, or holds no tier.
pub fn recorded(metadata: &mut Backing) -> Result<Recorded, Error> {
    Ok(Recorded::read(&read_first(metadata)?)?)
}

/// The tier that a metadata device holds, which nobody has open; none if a tier can be made there and nothing is lost by it.
///
/// # Errors
/// It cannot be read, or holds something else than a tier in its first 8 KiB.
pub fn recorded_or_blank(metadata: &mut Backing) -> Result<Option<Recorded>, Error> {
    let first = read_first(metadata)?;
    match Recorded::read(&first) {
        Ok(recorded) => Ok(Some(recorded)),
        Err(OpenError::Foreign) if first.iter().all(|byte| *byte == 0) => Ok(None),
        Err(OpenError::Foreign) => Err(Error::NotBlank),
        Err(error) => Err(error.into()),
    }
}

/// Takes away what says that there is a tier. Nobody has it open.
///
/// # Errors
/// It cannot be written.
pub fn remove(metadata: &mut Backing) -> Result<(), Error> {
    let whole = first_blocks(metadata, Verb::WriteFua);
    for part in whole.parts(&metadata.limits()) {
        let zeroes = vec![0; part.blocks as usize * metadata.block_size() as usize];
        execute(metadata, &part, zeroes).map_err(of_metadata)?;
    }
    Ok(())
}

fn of_metadata(reason: DeviceError) -> Error {
    Error::Device { role: Role::Metadata, place: "of the tier".to_owned(), reason }
}
