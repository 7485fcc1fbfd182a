//! Where a server listens, and what it accepts: Unix sockets and TCP.

use crate::wake::Sleeper;
use image::trust;
use nix::sys::socket::sockopt::PeerCredentials;
use peers::Network;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use std::fs::Permissions;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A TCP connection without traffic is asked after this time whether its peer still lives: hosts may go without a keep-alive
/// timeout, and a half-open connection would stay for ever.
const KEEP_ALIVE_IDLE: Duration = Duration::from_secs(60);
/// Time between two further questions.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// Questions without an answer after which the connection is over.
const KEEP_ALIVE_PROBES: u32 = 6;

/// Connections to a Unix socket that wait to be accepted.
const BACKLOG: i32 = 128;

/// Where a server listens.
pub(crate) enum Listener {
    Unix(UnixListener, PathBuf),
    Tcp(TcpListener, SocketAddr),
}

/// Where a connection comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Source {
    Network(Network),
    /// The Unix socket, and the user at its other end.
    User(u32),
}

pub(super) enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
    Tls(Box<tls::Session<TcpStream>>),
    /// The helper goes on with the TLS handshake. Whose connection it is.
    Away(Option<SocketAddr>),
}

impl Stream {
    /// Has the sleeper watch it.
    pub(super) fn watch(&self, sleeper: &Sleeper, front_end: u8, number: u64) -> io::Result<()> {
        match self {
            Stream::Unix(s) => sleeper.watch(s, front_end, number),
            Stream::Tcp(s) => sleeper.watch(s, front_end, number),
            Stream::Tls(s) => sleeper.watch(s.get_ref(), front_end, number),
            // Its socket is watched since before it went.
            Stream::Away(_) => Ok(()),
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Unix(listener, _) => listener.as_fd(),
            Listener::Tcp(listener, _) => listener.as_fd(),
        }
    }
}

impl Stream {
    pub(super) fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(s) => s.read(bytes),
            Stream::Tcp(s) => s.read(bytes),
            Stream::Tls(s) => s.read(bytes),
            Stream::Away(_) => Err(ErrorKind::WouldBlock.into()),
        }
    }

    /// The TLS session, if its handshake is not over: its place is kept until it comes back.
    pub(super) fn take_handshake(&mut self) -> Option<Box<tls::Session<TcpStream>>> {
        if !matches!(self, Stream::Tls(session) if !session.is_established()) {
            return None;
        }
        match std::mem::replace(self, Stream::Away(self.address())) {
            Stream::Tls(session) => Some(session),
            _ => None,
        }
    }

    /// Whether a short read means that nothing more is there.
    pub(super) fn short_read_is_all(&self) -> bool {
        !matches!(self, Stream::Tls(_))
    }

    /// Whether bytes that were written have not gone yet.
    pub(super) fn is_holding(&self) -> bool {
        matches!(self, Stream::Tls(session) if session.is_holding())
    }

    pub(super) fn write(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Stream::Unix(s) => s.write_vectored(slices),
            Stream::Tcp(s) => s.write_vectored(slices),
            Stream::Tls(s) => s.write_vectored(slices),
            Stream::Away(_) => Err(ErrorKind::WouldBlock.into()),
        }
    }

    /// Sends what is held.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Tls(session) => session.flush(),
            Stream::Unix(_) | Stream::Tcp(_) | Stream::Away(_) => Ok(()),
        }
    }

    /// The TCP socket beneath, if there is one.
    pub(super) fn tcp(&self) -> Option<&TcpStream> {
        match self {
            Stream::Unix(_) | Stream::Away(_) => None,
            Stream::Tcp(s) => Some(s),
            Stream::Tls(session) => Some(session.get_ref()),
        }
    }

    /// The address at the other end; `None` on a Unix socket, and of a host that has gone.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        match self {
            Stream::Away(address) => *address,
            _ => self.tcp().and_then(|s| s.peer_addr().ok()),
        }
    }

    /// Whether the other end is on this machine.
    pub(super) fn is_near(&self) -> bool {
        matches!(self, Stream::Unix(_)) || self.address().is_some_and(|at| is_this_machine(at.ip()))
    }

    /// Who is at the other end, for people.
    pub(super) fn name(&self) -> String {
        match self {
            Stream::Tcp(_) | Stream::Tls(_) | Stream::Away(_) => {
                self.address().map_or_else(|| "a host that has gone".to_owned(), |at| at.to_string())
            }
            Stream::Unix(_) => "a host on the Unix socket".to_owned(),
        }
    }
}

/// Whether a peer with this address is on this machine: it came over loopback.
fn is_this_machine(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

/// Listens on a Unix socket that only its owner can open. It is so before the first connection can be made.
fn bind_private(path: &Path) -> io::Result<UnixListener> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    let private = std::fs::set_permissions(path, Permissions::from_mode(0o600));
    let listening = private.and_then(|()| Ok(rustix::net::listen(&socket, BACKLOG)?));
    if listening.is_err() {
        let _ = std::fs::remove_file(path);
    }
    listening.map(|()| socket.into())
}

/// Listens on a Unix socket that only its owner can open. A socket that a dead process left is replaced. Accepting never blocks.
///
/// # Errors
/// What the system says: somebody listens there, the path is no socket's, or this user may not make files there. Or other users
/// can exchange what is made there.
pub fn listen_privately(path: &Path) -> io::Result<UnixListener> {
    trust::check_directory_of(path)?;
    // What a process leaves behind that was killed a moment ago may still listen.
    const ATTEMPTS: u32 = 20;
    const PAUSE: Duration = Duration::from_millis(50);
    let mut attempt = 1;
    loop {
        // To connect to something that is no socket is refused, too.
        let socket = std::fs::symlink_metadata(path).is_ok_and(|m| m.file_type().is_socket());
        if let Err(e) = UnixStream::connect(path)
            && e.kind() == ErrorKind::ConnectionRefused
            && socket
        {
            std::fs::remove_file(path)?;
        }
        match bind_private(path) {
            Err(e) if e.kind() == ErrorKind::AddrInUse && socket && attempt < ATTEMPTS => {
                std::thread::sleep(PAUSE);
            }
            other => return other,
        }
        attempt += 1;
    }
}

impl Listener {
    /// Listens on a Unix socket; a socket that a dead process left is replaced.
    pub(crate) fn unix(path: &Path) -> io::Result<Self> {
        Ok(Listener::Unix(listen_privately(path)?, path.to_owned()))
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

    pub(super) fn accept(&self) -> io::Result<(Stream, Source)> {
        match self {
            Listener::Unix(listener, _) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(true)?;
                // In another PID namespace a process has the number 0, which rustix cannot tell.
                let user = nix::sys::socket::getsockopt(&stream, PeerCredentials)?.uid();
                Ok((Stream::Unix(stream), Source::User(user)))
            }
            Listener::Tcp(listener, _) => {
                let (stream, network) = accept_tcp(listener)?;
                Ok((Stream::Tcp(stream), Source::Network(network)))
            }
        }
    }
}

/// Accepts a TCP connection that never blocks, and whose peer is asked now and then whether it still lives; and the network
/// that it comes from.
///
/// # Errors
/// Nobody is there (`WouldBlock`), or what the system says.
pub fn accept_tcp(listener: &TcpListener) -> io::Result<(TcpStream, Network)> {
    let (stream, address) = listener.accept()?;
    stream.set_nonblocking(true)?;
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(&stream, true)?;
    sockopt::set_tcp_keepidle(&stream, KEEP_ALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(&stream, KEEP_ALIVE_INTERVAL)?;
    sockopt::set_tcp_keepcnt(&stream, KEEP_ALIVE_PROBES)?;
    Ok((stream, address.ip().into()))
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Listener::Unix(_, path) = self {
            let _ = std::fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_is_this_machine() {
        let near = ["127.0.0.1", "127.9.8.7", "::1", "::ffff:127.0.0.1"];
        let far = ["10.0.0.1", "0.0.0.0", "::", "fe80::1", "::ffff:10.0.0.1", "128.0.0.1"];
        assert!(near.iter().all(|address| is_this_machine(address.parse().unwrap())));
        assert!(!far.iter().any(|address| is_this_machine(address.parse().unwrap())));
    }

    #[test]
    fn only_its_owner_can_open_a_socket_that_nobody_can_exchange() {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().join("dir");
        std::fs::create_dir(&dir).unwrap();
        let path = dir.join("socket");
        let allow = |mode| std::fs::set_permissions(&dir, Permissions::from_mode(mode)).unwrap();
        allow(0o755);
        let listener = listen_privately(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        drop(listener);
        allow(0o777);
        let refused = listen_privately(&dir.join("other")).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::PermissionDenied);
        // Where anybody may make files, only owners exchange them.
        allow(0o1777);
        listen_privately(&dir.join("other")).unwrap();
    }
}
