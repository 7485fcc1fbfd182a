//! One process at a time uses a device of a tier.
//!
//! A regular file is locked (`flock`), and a block device is open exclusively, which `host` sees to. For a namespace, its identifier and the
//! address of its drive become a name in the abstract namespace of Unix sockets. The kernel gives that name to one process of this machine (of
//! this network namespace). What this does not see: programs on other machines, and one that reaches the same drive by another address.

use crate::place::Place;
use crc_fast::{CrcAlgorithm, checksum};
use host::{Addr, Endpoint};
use std::fs::{File, TryLockError};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// Keeps other tiers from a device, until it is dropped. The kernel drops it when the process ends, however it ends.
#[derive(Debug)]
pub enum Claim {
    /// A locked file.
    Lock { _file: File },
    /// Names of a namespace, one for each address of its drive.
    Names { _names: Vec<UnixDatagram> },
}

/// How long a claim waits for one that is about to end: of a tier whose threads let go of it, or of a child of its process that has not begun
/// its own program yet.
const CLAIM_TIMEOUT: Duration = Duration::from_millis(500);

/// Claims something, if need be after a while.
fn patiently(claim: impl Fn() -> io::Result<Option<Claim>>) -> io::Result<Option<Claim>> {
    let end = Instant::now() + CLAIM_TIMEOUT;
    loop {
        match claim()? {
            None if Instant::now() < end => thread::sleep(CLAIM_TIMEOUT / 50),
            claimed => return Ok(claimed),
        }
    }
}

impl Claim {
    /// Claims a file; none if somebody else has it and keeps it.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn file(path: &Path) -> io::Result<Option<Self>> {
        patiently(|| Self::file_now(path))
    }

    fn file_now(path: &Path) -> io::Result<Option<Self>> {
        let file = File::open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Claim::Lock { _file: file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Claims a namespace of this identity at all these addresses of its drive; none if somebody else has one of them and keeps it.
    ///
    /// # Errors
    /// There can be no such names.
    pub fn namespace(id: &[u8; 16], nsid: u32, addresses: &[Addr]) -> io::Result<Option<Self>> {
        patiently(|| Self::namespace_now(id, nsid, addresses))
    }

    fn namespace_now(id: &[u8; 16], nsid: u32, addresses: &[Addr]) -> io::Result<Option<Self>> {
        let id: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut names = Vec::new();
        for at in addresses {
            let at = checksum(CrcAlgorithm::Crc64Nvme, address(at).as_bytes());
            let name = SocketAddr::from_abstract_name(format!("tranche-cache-{id}-{nsid}-{at:016x}"))?;
            match UnixDatagram::bind_addr(&name) {
                Ok(bound) => names.push(bound),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        Ok(Some(Claim::Names { _names: names }))
    }
}

/// An address without what may be said in several ways.
fn address(addr: &Addr) -> String {
    match &addr.endpoint {
        Endpoint::Unix(path) | Endpoint::Pci(path) => {
            path.canonicalize().unwrap_or_else(|_| path.clone()).display().to_string()
        }
        Endpoint::Tcp { host, port } if host == "localhost" => format!("127.0.0.1:{port}"),
        Endpoint::Tcp { host, port } => format!("{host}:{port}"),
    }
}

/// The addresses at which others may know the drive of a place.
pub fn addresses(place: &Place, own: &[Addr]) -> Vec<Addr> {
    match place {
        Place::Namespace { addr, .. } => vec![(**addr).clone()],
        Place::Own(_) => own.to_vec(),
        Place::Path(_) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time() {
        let mut id = [0; 16];
        host::fill_random(&mut id);
        let at = |text: &str| vec![text.parse::<Addr>().unwrap()];
        let claim = Claim::namespace(&id, 1, &at("tcp://localhost")).unwrap();
        assert!(claim.is_some());
        assert!(Claim::namespace(&id, 1, &at("tcp://127.0.0.1:4420")).unwrap().is_none());
        assert!(Claim::namespace(&id, 1, &at("tcp://127.0.0.1:4421")).unwrap().is_some());
        assert!(Claim::namespace(&id, 2, &at("tcp://127.0.0.1:4420")).unwrap().is_some());
        drop(claim);
        assert!(Claim::namespace(&id, 1, &at("tcp://127.0.0.1:4420")).unwrap().is_some());

        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        assert!(Claim::file(&path).is_err());
        File::create(&path).unwrap();
        let claim = Claim::file(&path).unwrap();
        assert!(claim.is_some() && Claim::file(&path).unwrap().is_none());
        drop(claim);
        assert!(Claim::file(&path).unwrap().is_some());
    }
}
