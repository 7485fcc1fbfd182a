//! Where clients connect.

use super::connection::{Connection, Ending, Stage};
use super::exports::Namespaces;
use super::outbox::{Socket, bell, ring};
use crate::backend::Backend;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use std::fmt;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Connections at a time, at each place. One more takes the place of the oldest client that has not chosen an export. Where all
/// have, it is closed at once.
pub const CONNECTIONS: usize = 64;
/// After a connection could not be accepted, as when there are no descriptors.
const PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// A place to listen at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    /// A TCP address.
    Tcp(SocketAddr),
    /// The path of a Unix socket.
    Unix(PathBuf),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Tcp(address) => address.fmt(f),
            Place::Unix(path) => path.display().fmt(f),
        }
    }
}

/// A place that is listened at, before there is anything to serve.
#[derive(Debug)]
pub struct Listener {
    socket: Listening,
    place: Place,
}

#[derive(Debug)]
enum Listening {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    /// Listens. Port 0 is any that is free. Only its owner can connect to a Unix socket; one that a dead process left is replaced.
    ///
    /// # Errors
    /// What the system says: no address of this machine, taken, or not allowed.
    pub fn bind(place: Place) -> io::Result<Listener> {
        match place {
            Place::Tcp(address) => {
                let socket = TcpListener::bind(address)?;
                socket.set_nonblocking(true)?;
                let place = Place::Tcp(socket.local_addr()?);
                Ok(Listener { socket: Listening::Tcp(socket), place })
            }
            Place::Unix(path) => {
                let socket = Listening::Unix(live::listen_privately(&path)?);
                Ok(Listener { socket, place: Place::Unix(path) })
            }
        }
    }

    /// Where, with the port that it really has.
    pub fn place(&self) -> &Place {
        &self.place
    }

    fn accept(&self) -> io::Result<Socket> {
        match &self.socket {
            Listening::Tcp(listener) => Ok(Socket::Tcp(live::accept_tcp(listener)?.0)),
            Listening::Unix(listener) => {
                let (socket, _) = listener.accept()?;
                socket.set_nonblocking(true)?;
                Ok(Socket::Unix(socket))
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Place::Unix(path) = &self.place {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// A server of NBD. Dropping it ends its connections: requests under way are answered, if the drive and the client do not take long.
pub struct Server {
    places: Vec<Place>,
    ending: Arc<Ending>,
    bell: OwnedFd,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Serves the conventional namespaces of a drive to all who connect.
    ///
    /// # Errors
    /// There are no more descriptors or threads.
    pub fn start(listeners: Vec<Listener>, backend: &Arc<Backend>) -> io::Result<Server> {
        let places = listeners.iter().map(|listener| listener.place.clone()).collect();
        let ending = Arc::new(Ending { now: AtomicBool::new(false) });
        let bell = bell()?;
        let accepting = Accepting {
            listeners,
            namespaces: Arc::new(Namespaces(backend.clone())),
            ending: ending.clone(),
            bell: bell.try_clone()?,
            clients: Vec::new(),
        };
        let thread = std::thread::Builder::new().name("nbd".into()).spawn(move || accepting.run())?;
        Ok(Server { places, ending, bell, thread: Some(thread) })
    }

    /// Where it listens.
    pub fn places(&self) -> &[Place] {
        &self.places
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.ending.now.store(true, Ordering::Release);
        ring(&self.bell);
        if let Some(thread) = self.thread.take() {
            // A panic of it is told by the panic itself.
            let _ = thread.join();
        }
    }
}

/// A client, and its thread.
struct Client {
    thread: JoinHandle<()>,
    bell: Arc<OwnedFd>,
    stage: Arc<Stage>,
    /// The listener that it came through.
    at: usize,
}

/// The thread that takes connections, and those of connections.
struct Accepting {
    listeners: Vec<Listener>,
    namespaces: Arc<Namespaces>,
    ending: Arc<Ending>,
    bell: OwnedFd,
    /// The oldest first.
    clients: Vec<Client>,
}

impl Accepting {
    fn run(mut self) {
        let mut pause = None;
        while !self.ending.now.load(Ordering::Acquire) {
            let mut descriptors = vec![PollFd::new(&self.bell, PollFlags::IN)];
            if pause.is_none() {
                for listener in &self.listeners {
                    descriptors.push(match &listener.socket {
                        Listening::Tcp(socket) => PollFd::new(socket, PollFlags::IN),
                        Listening::Unix(socket) => PollFd::new(socket, PollFlags::IN),
                    });
                }
            }
            // An error comes again at once: it is as good as a pause.
            let _ = poll(&mut descriptors, pause.take().as_ref());
            drop(descriptors);
            for at in 0..self.listeners.len() {
                if self.accept_all(at).is_err() {
                    pause = Some(PAUSE);
                }
            }
        }
        self.listeners.clear();
        for client in &self.clients {
            ring(&client.bell);
        }
        for client in self.clients {
            let _ = client.thread.join();
        }
    }

    fn accept_all(&mut self, at: usize) -> io::Result<()> {
        loop {
            let socket = match self.listeners[at].accept() {
                Ok(socket) => socket,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                // The client has gone while it waited.
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => continue,
                Err(error) => {
                    tracing::warn!("NBD: a connection cannot be accepted: {error}");
                    return Err(error);
                }
            };
            // A connection is over when its thread is, and all replies that it owes: these hold the requests' data.
            self.clients.retain(|client| !client.thread.is_finished() || Arc::strong_count(&client.bell) > 1);
            if !self.has_room(at) {
                tracing::warn!("NBD: a client was turned away, {CONNECTIONS} are connected");
                continue;
            }
            let stage = Arc::new(Stage::default());
            let (connection, bell) =
                Connection::new(self.namespaces.clone(), socket, self.ending.clone(), stage.clone())?;
            let thread = std::thread::Builder::new().name("nbd-client".into());
            let thread = thread.spawn(move || connection.serve())?;
            self.clients.push(Client { thread, bell, stage, at });
        }
    }

    /// Whether there is room for one more client of a listener. One that says nothing makes room.
    fn has_room(&self, at: usize) -> bool {
        let mut clients = self.clients.iter().filter(|client| client.at == at);
        if clients.clone().filter(|client| !client.stage.makes_room()).count() < CONNECTIONS {
            return true;
        }
        let Some(oldest) = clients.find(|client| client.stage.make_room()) else { return false };
        ring(&oldest.bell);
        true
    }
}
