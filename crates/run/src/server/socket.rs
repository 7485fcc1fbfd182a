//! Where a server listens, and what it accepts: Unix sockets and TCP.

use device::Origin;
use fabric::discovery;
use nvme::Nqn;
use nvme::log::{DiscoveryEntry, TransportType};
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Where a server listens.
pub(crate) enum Listener {
    Unix(UnixListener, PathBuf),
    Tcp(TcpListener, SocketAddr),
}

pub(super) enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Stream {
    pub(super) fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(s) => s.read(bytes),
            Stream::Tcp(s) => s.read(bytes),
        }
    }

    pub(super) fn write(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Stream::Unix(s) => s.write_vectored(slices),
            Stream::Tcp(s) => s.write_vectored(slices),
        }
    }

    /// What the discovery log says of the listener that this connection came to, as the host knows it.
    pub(super) fn discovery_entry(&self, subsystem: &Nqn) -> DiscoveryEntry {
        match self {
            Stream::Tcp(s) => {
                let (address, port) = s.local_addr().map_or_else(
                    |_| (String::new(), String::new()),
                    |at| (at.ip().to_string(), at.port().to_string()),
                );
                discovery::entry(subsystem, &address, &port, 1)
            }
            Stream::Unix(s) => {
                let address = s.local_addr().ok();
                let path = address.as_ref().and_then(|at| at.as_pathname()).map(|p| p.display().to_string());
                let entry = discovery::entry(subsystem, path.as_deref().unwrap_or_default(), "", 1);
                // The transport is this project's own; "loop" and "intra-host" come nearest.
                DiscoveryEntry { trtype: TransportType::LOOP, adrfam: 254, ..entry }
            }
        }
    }
}

impl Listener {
    /// Listens on a Unix socket; a socket that a dead process left is replaced.
    pub(crate) fn unix(path: &Path) -> io::Result<Self> {
        // To connect to something that is no socket is refused, too.
        let socket = std::fs::symlink_metadata(path).is_ok_and(|m| m.file_type().is_socket());
        if let Err(e) = UnixStream::connect(path)
            && e.kind() == ErrorKind::ConnectionRefused
            && socket
        {
            std::fs::remove_file(path)?;
        }
        let listener = UnixListener::bind(path)?;
        listener.set_nonblocking(true)?;
        Ok(Listener::Unix(listener, path.to_owned()))
    }

    /// Listens on a TCP address.
    pub(crate) fn tcp(address: &str) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        Ok(Listener::Tcp(listener, address))
    }

    /// The address that a TCP listener really has.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        match self {
            Listener::Tcp(_, address) => Some(*address),
            Listener::Unix(..) => None,
        }
    }

    pub(super) fn accept(&self) -> io::Result<(Stream, Origin)> {
        match self {
            Listener::Unix(listener, _) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(true)?;
                Ok((Stream::Unix(stream), Origin::Unix))
            }
            Listener::Tcp(listener, _) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(true)?;
                stream.set_nodelay(true)?;
                Ok((Stream::Tcp(stream), Origin::Network))
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Listener::Unix(_, path) = self {
            let _ = std::fs::remove_file(path);
        }
    }
}
