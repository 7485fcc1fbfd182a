//! One program at a time has a store open.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use crc_fast::{CrcAlgorithm, checksum};
use host::{Addr, Endpoint};

use crate::device::ZoneDevice;
use crate::error::Error;
use crate::log;

/// Which store lies on a device: what [`Store::id`](crate::Store::id) tells of it when it is open. Reads little.
///
/// # Errors
/// There is no store, or the device failed.
pub fn identify<D: ZoneDevice>(device: &D) -> Result<[u8; 16], Error> {
    log::identify(device, &device.zones()?)
}

/// Keeps other programs of this machine from opening a store, until it is dropped. The kernel drops it when the program ends, however it ends.
///
/// It is a name in the abstract namespace of Unix sockets, so it holds within one network namespace. A copy of a store on another drive has a claim of
/// its own, and so has the same drive by another address. Programs elsewhere find out by the log: the one that opened the store first gets
/// [`Error::Taken`].
#[derive(Debug)]
pub struct Claim {
    _name: UnixDatagram,
}

impl Claim {
    /// Claims the store of this identifier on the drive at this address.
    ///
    /// # Errors
    /// Another program has the claim ([`Error::InUse`]).
    pub fn take(id: &[u8; 16], at: &Addr) -> Result<Self, Error> {
        let address = match &at.endpoint {
            Endpoint::Unix(path) | Endpoint::Pci(path) => {
                path.canonicalize().unwrap_or_else(|_| path.clone()).display().to_string()
            }
            Endpoint::Tcp { host, port } => format!("{host}:{port}"),
        };
        let id: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
        let address = checksum(CrcAlgorithm::Crc64Nvme, address.as_bytes());
        let name = SocketAddr::from_abstract_name(format!("tranche-store-{id}-{address:016x}"));
        let name = name.and_then(|name| UnixDatagram::bind_addr(&name)).map_err(|_| Error::InUse)?;
        Ok(Self { _name: name })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Shape;
    use crate::simulated::Simulated;
    use crate::{FormatOptions, Placement, Store};

    #[test]
    fn one_at_a_time() {
        let mut id = [0; 16];
        host::fill_random(&mut id);
        let at = |text: &str| text.parse::<Addr>().unwrap();
        let claim = Claim::take(&id, &at("tcp://drive")).unwrap();
        assert_eq!(
            Claim::take(&id, &at("tcp://drive:4420?nqn=nqn.2026-11.org.example:d")).map(drop),
            Err(Error::InUse)
        );
        Claim::take(&id, &at("tcp://other")).unwrap();
        drop(claim);
        Claim::take(&id, &at("tcp://drive")).unwrap();
    }

    #[test]
    fn a_store_is_known_without_opening_it() {
        let shape = Shape { block: 512, zone_blocks: 64, zones: 32, open: 6, append_blocks: 16 };
        let device = Simulated::new(shape, 48, 1);
        assert_eq!(identify(&device), Err(Error::NoStore));
        Store::format(&device, &FormatOptions::default(), [7; 16], 0).unwrap();
        assert_eq!(identify(&device), Ok([7; 16]));
        // Other zones of the log have it after a while.
        for _ in 0..5 {
            Store::open(&device, Placement::default()).unwrap().sync_all().unwrap();
            assert_eq!(identify(&device), Ok([7; 16]));
        }
    }
}
