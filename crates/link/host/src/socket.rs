//! NVMe/TCP over sockets: TCP, and Unix sockets that carry the same PDUs.

use std::io::{self, ErrorKind, IoSlice, Read};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fabric::auth::{ChapKeys, IdentityVersion, Parties};
use fabric::host::{Config, Connection, Data as FabricData, Gap};
use nvme::fabrics::{Connect, ConnectAttributes, ConnectData, ConnectResult, FabricsCommand};
use nvme::identify::IdentifyController;
use nvme::log::{DiscoveryEntry, DiscoveryHeader, LogId, SubsystemType};
use nvme::property::{Cap, Cc, Csts, PropertyOffset, Shn, Shst};
use nvme::zerocopy::{FromBytes, FromZeros, IntoBytes};
use nvme::{CNTLID_DYNAMIC, Command, Nqn, U16, U64};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};

use crate::addr::{Addr, Endpoint};
use crate::auth::authenticate;
use crate::queue::{CompletedCommand, Connected, Data, Identity, Queue, Tag, Transport};
use crate::{Error, TransportError, call};

/// Entries of an admin queue.
const ADMIN_DEPTH: u16 = 32;
/// Slices of one vectored write.
const SLICES: usize = 64;
/// From this many bytes on, data is read straight into the command's buffer.
const DIRECT_READ_BYTES: usize = 8192;

/// A connected stream of either kind.
#[derive(Debug)]
enum Stream {
    Tcp(TcpStream),
    Tls(Box<tls::Session<TcpStream>>),
    Unix(UnixStream),
}

impl Stream {
    fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Tls(session) => session.get_ref().as_fd(),
            Self::Unix(stream) => stream.as_fd(),
        }
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            Self::Tls(session) => session.read(buffer),
            Self::Unix(stream) => stream.read(buffer),
        }
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        // A library must not let a connection that is closed kill its program by a signal, as `writev` does.
        let send = |stream: BorrowedFd<'_>| {
            let mut control = SendAncillaryBuffer::default();
            Ok(sendmsg(stream, slices, &mut control, SendFlags::NOSIGNAL)?)
        };
        match self {
            Self::Tcp(stream) => send(stream.as_fd()),
            Self::Tls(session) => session.write_vectored(slices),
            Self::Unix(stream) => send(stream.as_fd()),
        }
    }

    /// Whether there is nothing before what the connection itself sends.
    fn is_established(&self) -> bool {
        match self {
            Self::Tls(session) => session.is_established(),
            Self::Tcp(_) | Self::Unix(_) => true,
        }
    }

    /// Sends what was taken and has not gone yet.
    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Tls(session) if session.is_holding() => session.flush(),
            _ => Ok(()),
        }
    }
}

/// One queue over one socket.
#[derive(Debug)]
pub struct SocketQueue {
    stream: Stream,
    connection: Connection,
    received: Box<[u8]>,
    /// Something was sent, and nothing looked for since.
    just_sent: bool,
    /// The drive does not answer any more: shared by the queues of a controller.
    silent: Arc<AtomicBool>,
}

impl SocketQueue {
    fn new(stream: Stream, config: Config) -> Self {
        Self {
            stream,
            connection: Connection::new(config),
            received: vec![0; 64 * 1024].into(),
            just_sent: false,
            silent: Arc::default(),
        }
    }

    /// A queue over a Unix socket that is already connected. No Connect command is sent.
    ///
    /// # Errors
    /// The socket cannot be made non-blocking, or the peer does not answer within `timeout`.
    pub fn over_unix(stream: UnixStream, config: Config, timeout: Duration) -> Result<Self, TransportError> {
        stream.set_nonblocking(true).map_err(io("setting up the socket"))?;
        Self::new(Stream::Unix(stream), config).initialized(timeout)
    }

    /// A queue over a TCP socket that is already connected. No Connect command is sent.
    ///
    /// # Errors
    /// As [`SocketQueue::over_unix`].
    pub fn over_tcp(stream: TcpStream, config: Config, timeout: Duration) -> Result<Self, TransportError> {
        stream.set_nonblocking(true).map_err(io("setting up the socket"))?;
        stream.set_nodelay(true).map_err(io("setting up the socket"))?;
        Self::new(Stream::Tcp(stream), config).initialized(timeout)
    }

    /// A queue over a TCP socket that is already connected, with TLS. No Connect command is sent.
    ///
    /// # Errors
    /// As [`SocketQueue::over_unix`], and when the two sides have different keys.
    pub fn over_tls(
        stream: TcpStream,
        connector: &tls::Connector,
        config: Config,
        timeout: Duration,
    ) -> Result<Self, TransportError> {
        stream.set_nonblocking(true).map_err(io("setting up the socket"))?;
        stream.set_nodelay(true).map_err(io("setting up the socket"))?;
        let session = connector.connect(stream).map_err(io::Error::other).map_err(io("setting up TLS"))?;
        Self::new(Stream::Tls(Box::new(session)), config).initialized(timeout)
    }

    fn initialized(mut self, timeout: Duration) -> Result<Self, TransportError> {
        let deadline = Instant::now() + timeout;
        while !self.connection.is_ready() {
            self.exchange(Some(deadline), &mut [])?;
            if !self.connection.is_ready() && Instant::now() >= deadline {
                return Err(TransportError::Timeout(timeout));
            }
        }
        Ok(self)
    }

    /// Sends what the socket takes now; true when everything has gone.
    fn send(&mut self) -> Result<bool, TransportError> {
        while self.connection.wants_to_send() {
            let mut slices = [IoSlice::new(&[]); SLICES];
            let mut count = 0;
            for (slot, slice) in slices.iter_mut().zip(self.connection.transmit()) {
                *slot = IoSlice::new(slice);
                count += 1;
            }
            match self.stream.write_vectored(&slices[..count]) {
                Ok(0) => return Err(TransportError::Closed),
                Ok(sent) => {
                    self.connection.sent(sent);
                    self.just_sent = true;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // What the drive said before it closed is worth more than the broken pipe.
                Err(error) if is_closed(&error) => return Ok(true),
                Err(error) => return Err(io("sending to the drive")(error)),
            }
        }
        match self.stream.flush() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) if !is_closed(&error) => Err(io("sending to the drive")(error)),
            _ => Ok(true),
        }
    }

    /// Reads what is there; false when nothing was. Data of commands that have places goes there.
    fn receive(&mut self, places: &mut [(Tag, &mut [u8])]) -> Result<bool, TransportError> {
        if let Some(gap) = self.connection.gap_elsewhere().filter(|gap| gap.len >= DIRECT_READ_BYTES)
            && let Some(place) = place_of(places, gap)
        {
            let Some(count) = arrived(self.stream.read(place))? else { return Ok(false) };
            let taken = self.connection.filled_elsewhere(&place[..count]);
            return self.taken(taken);
        }
        let direct = self.connection.gap().filter(|gap| gap.len() >= DIRECT_READ_BYTES);
        let (result, is_direct) = match direct {
            Some(gap) => (self.stream.read(gap), true),
            None => (self.stream.read(&mut self.received), false),
        };
        let Some(count) = arrived(result)? else { return Ok(false) };
        let taken = if is_direct {
            self.connection.filled(count)
        } else {
            self.connection.receive_to(&self.received[..count], &mut |gap, data| {
                if let Some(place) = place_of(places, gap) {
                    place.copy_from_slice(data);
                }
            })
        };
        self.taken(taken)
    }

    /// What was read was taken, or broke the protocol.
    fn taken(&mut self, taken: Result<(), fabric::Error>) -> Result<bool, TransportError> {
        if let Err(error) = taken {
            // The termination request, if there is one, goes as far as it goes.
            let _ = self.send();
            return Err(TransportError::Protocol(error.to_string()));
        }
        Ok(true)
    }

    /// The next completion that has arrived. It stays in the connection until it is asked for, because its
    /// tag may be given to another command from then on.
    fn take_done(&mut self, places: &mut [(Tag, &mut [u8])]) -> Option<CompletedCommand> {
        let completed = self.connection.next()?;
        let tag = tag(completed.tag);
        let data = match completed.data {
            FabricData::None => Data::None,
            FabricData::Out(buffer) => Data::Out(buffer),
            FabricData::In(buffer) => Data::In(buffer),
            FabricData::Elsewhere(_) => {
                let place = places.iter_mut().find(|(of, _)| *of == tag);
                if let Some(rest) = place.and_then(|(_, place)| place.get_mut(completed.received..)) {
                    rest.fill(0);
                }
                Data::None
            }
        };
        Some(CompletedCommand { tag, completion: completed.completion, data })
    }

    /// Sends and receives what can be without waiting.
    fn exchange_now(&mut self, places: &mut [(Tag, &mut [u8])]) -> Result<(), TransportError> {
        self.send()?;
        self.receive(places).map(|_| ())
    }

    fn submit_as(&mut self, command: Command, data: FabricData, len: usize) -> Result<Tag, TransportError> {
        if self.connection.outstanding() >= self.connection.depth() {
            return Err(TransportError::Full);
        }
        match self.connection.submit(command, data) {
            Ok(submitted) => Ok(tag(submitted)),
            Err(fabric::Misuse::Full) => Err(TransportError::Full),
            Err(fabric::Misuse::TooLarge) => Err(TransportError::TooLarge(len)),
            Err(_) => Err(TransportError::Closed),
        }
    }

    /// Sends what the socket takes and receives all that has arrived, without waiting; [`Queue::arrived`] has the completions then. For a
    /// caller that watches the [socket](AsFd::as_fd) itself, for several queues at once. False if something is left to be sent.
    ///
    /// # Errors
    /// The transport is broken.
    pub fn exchange_all(&mut self) -> Result<bool, TransportError> {
        let sent = self.send()?;
        while self.receive(&mut [])? {}
        // What arrived may have asked for data.
        if self.connection.wants_to_send() { self.send() } else { Ok(sent) }
    }

    /// The next completion; see [`Queue::next`] and [`Queue::next_to`].
    fn wait(
        &mut self,
        timeout: Option<Duration>,
        places: &mut [(Tag, &mut [u8])],
    ) -> Result<Option<CompletedCommand>, TransportError> {
        if timeout == Some(Duration::ZERO) {
            // Busy polling: no look at the clock.
            if let Some(done) = self.take_done(places) {
                return Ok(Some(done));
            }
            self.exchange_now(places)?;
            return Ok(self.take_done(places));
        }
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        loop {
            if let Some(done) = self.take_done(places) {
                return Ok(Some(done));
            }
            self.exchange(deadline, places)?;
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Ok(self.take_done(places));
            }
        }
    }

    /// Sends and receives what can be; waits for one of both until the deadline (`None`: for ever).
    fn exchange(
        &mut self,
        deadline: Option<Instant>,
        places: &mut [(Tag, &mut [u8])],
    ) -> Result<(), TransportError> {
        let sent_all = self.send()?;
        // The answer to the only command is not there the moment that it was sent: to look for it would cost as
        // much as to find it.
        let too_early = std::mem::take(&mut self.just_sent) && self.connection.outstanding() == 1;
        if !too_early && self.receive(places)? {
            return Ok(());
        }
        let mut flags = PollFlags::IN;
        // While the two sides of TLS shake hands, it is the other one that is waited for.
        if !sent_all && self.stream.is_established() {
            flags |= PollFlags::OUT;
        }
        let timeout = deadline.map(|deadline| {
            let left = deadline.saturating_duration_since(Instant::now());
            Timespec {
                tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: left.subsec_nanos().into(),
            }
        });
        let mut polled = [PollFd::from_borrowed_fd(self.stream.fd(), flags)];
        match poll(&mut polled, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(io("waiting for the drive")(error.into())),
        }
        // An end or an error of the connection is there to be received, too.
        if !(polled[0].revents() - PollFlags::OUT).is_empty() {
            self.receive(places)?;
        }
        Ok(())
    }
}

impl AsFd for SocketQueue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.fd()
    }
}

/// Bytes that a read from the socket brought; none if there were none yet.
fn arrived(result: io::Result<usize>) -> Result<Option<usize>, TransportError> {
    match result {
        Ok(0) => Err(TransportError::Closed),
        Ok(count) => Ok(Some(count)),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(None),
        Err(error) if is_closed(&error) => Err(TransportError::Closed),
        Err(error) => Err(io("receiving from the drive")(error)),
    }
}

/// The memory that a gap means, if its command has a place.
fn place_of<'a>(places: &'a mut [(Tag, &mut [u8])], gap: Gap) -> Option<&'a mut [u8]> {
    let (_, place) = places.iter_mut().find(|(of, _)| *of == tag(gap.tag))?;
    place.get_mut(gap.at..gap.at + gap.len)
}

impl Queue for SocketQueue {
    fn capacity(&self) -> usize {
        self.connection.depth()
    }

    fn outstanding(&self) -> usize {
        self.connection.outstanding()
    }

    fn submit(&mut self, command: Command, data: Data) -> Result<Tag, TransportError> {
        let len = data.len();
        let data = match data {
            Data::None => FabricData::None,
            Data::Out(buffer) => FabricData::Out(buffer),
            Data::In(buffer) => FabricData::In(buffer),
        };
        self.submit_as(command, data, len)
    }

    fn flush(&mut self) -> Result<(), TransportError> {
        self.send().map(|_| ())
    }

    fn next(&mut self, timeout: Option<Duration>) -> Result<Option<CompletedCommand>, TransportError> {
        self.wait(timeout, &mut [])
    }

    fn submit_read(&mut self, command: Command, bytes: usize) -> Result<Tag, TransportError> {
        let length = u32::try_from(bytes).map_err(|_| TransportError::TooLarge(bytes))?;
        self.submit_as(command, FabricData::Elsewhere(length), bytes)
    }

    fn next_to(
        &mut self,
        timeout: Option<Duration>,
        places: &mut [(Tag, &mut [u8])],
    ) -> Result<Option<CompletedCommand>, TransportError> {
        self.wait(timeout, places)
    }

    fn abandon(&mut self) {
        self.silent.store(true, Ordering::Relaxed);
    }

    fn arrived(&mut self) -> Option<CompletedCommand> {
        self.take_done(&mut [])
    }
}

/// The place in the queue names an outstanding command well enough.
fn tag(tag: fabric::Tag) -> Tag {
    Tag(u16::try_from(tag.index()).unwrap_or(u16::MAX))
}

fn io(what: &str) -> impl FnOnce(io::Error) -> TransportError + '_ {
    move |source| TransportError::Io { what: what.into(), source }
}

fn is_closed(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted)
}

/// A drive at an address.
#[derive(Debug)]
pub struct SocketTransport {
    addr: Addr,
    config: Config,
    timeout: Duration,
    association: Option<Association>,
    silent: Arc<AtomicBool>,
}

#[derive(Debug)]
struct Association {
    identity: Identity,
    subnqn: Nqn,
    cntlid: u16,
    next_qid: u16,
    in_capsule: u32,
    shutdown: Duration,
    /// How the controller was enabled.
    cc: Cc,
}

impl SocketTransport {
    /// The drive at this address; nothing is sent yet. `timeout` limits each step of connecting.
    #[must_use]
    pub fn new(addr: Addr, timeout: Duration) -> Self {
        Self { addr, config: Config::default(), timeout, association: None, silent: Arc::default() }
    }

    /// Asks for header and data digests on every connection.
    #[must_use]
    pub fn with_digests(mut self, header: bool, data: bool) -> Self {
        (self.config.header_digest, self.config.data_digest) = (header, data);
        self
    }

    /// Serves so many R2Ts at a time for one command (1 unless told): large writes are then asked for in parts that
    /// overlap, instead of at once.
    #[must_use]
    pub fn with_r2ts(mut self, count: u16) -> Self {
        self.config.max_r2t_z = count.saturating_sub(1);
        self
    }

    /// Opens a socket and initializes the connection.
    fn open(
        &self,
        depth: u16,
        in_capsule: u32,
        identity: &Identity,
        subnqn: &Nqn,
    ) -> Result<SocketQueue, Error> {
        let connector = self.connector(identity, subnqn)?;
        let config = Config { depth, in_capsule, ..self.config.clone() };
        let what = format!("connecting to {}", self.addr);
        match &self.addr.endpoint {
            Endpoint::Unix(path) => {
                let stream = UnixStream::connect(path).map_err(io(&what))?;
                Ok(SocketQueue::over_unix(stream, config, self.timeout)?)
            }
            Endpoint::Pci(_) => Err(Error::Usage(format!(
                "{} is a PCI device, and this host speaks NVMe/TCP only",
                self.addr
            ))),
            Endpoint::Tcp { host, port } => {
                let addrs = (host.as_str(), *port).to_socket_addrs().map_err(io(&what))?;
                let mut last = io::Error::new(ErrorKind::NotFound, "the name has no address");
                for addr in addrs {
                    match TcpStream::connect_timeout(&addr, self.timeout) {
                        Ok(stream) => {
                            return Ok(match &connector {
                                Some(tls) => SocketQueue::over_tls(stream, tls, config, self.timeout)?,
                                None => SocketQueue::over_tcp(stream, config, self.timeout)?,
                            });
                        }
                        Err(error) => last = error,
                    }
                }
                Err(io(&what)(last).into())
            }
        }
    }

    /// TLS, if this host has a key for it.
    fn connector(&self, identity: &Identity, subnqn: &Nqn) -> Result<Option<tls::Connector>, Error> {
        let (Some(psk), Endpoint::Tcp { .. }) = (&identity.tls, &self.addr.endpoint) else { return Ok(None) };
        let parties = Parties { host: identity.hostnqn, subsystem: *subnqn };
        let failed = |problem: String| Error::Answer { what: "setting up TLS".into(), problem };
        let key = psk.tls_key(&parties, IdentityVersion::V1).map_err(|error| failed(error.to_string()))?;
        let key = key.ok_or_else(|| failed("the NQNs are too long".into()))?;
        tls::Connector::new(key).map(Some).map_err(|error| failed(error.to_string()))
    }

    /// Sends Connect; the result is the controller's ID.
    fn connect_queue(
        &self,
        queue: &mut SocketQueue,
        identity: &Identity,
        subnqn: &Nqn,
        qid: u16,
        cntlid: u16,
    ) -> Result<u16, Error> {
        let connect = Connect {
            recfmt: 0,
            qid,
            sqsize_z: u16::try_from(queue.capacity() - 1).unwrap_or(u16::MAX),
            cattr: ConnectAttributes::new().with_dis_sqflow(true),
            kato: if qid == 0 { identity.kato_ms } else { 0 },
        };
        let data = ConnectData {
            hostid: identity.hostid,
            cntlid: U16::new(cntlid),
            subnqn: subnqn.to_field(),
            hostnqn: identity.hostnqn.to_field(),
            ..ConnectData::new_zeroed()
        };
        let done = call(
            queue,
            Command::from(FabricsCommand::Connect(connect)),
            Data::Out(data.as_bytes().to_vec()),
            self.timeout,
            || format!("connecting as {} to {subnqn}", identity.hostnqn),
        )?;
        let result = ConnectResult::from_dw0(done.completion.dw0.get());
        let wrong = |why: &str| Error::Connect {
            what: format!("connecting to {subnqn}"),
            why: why.into(),
            status: None,
        };
        if result.ascr {
            return Err(wrong(
                "the drive wants a secure channel by authentication, which this host does not offer",
            ));
        }
        match &identity.chap {
            Some(keys) if result.atr => {
                let parties = Parties { host: identity.hostnqn, subsystem: *subnqn };
                authenticate(queue, parties, keys, self.timeout)?;
            }
            None if result.atr => {
                return Err(wrong(
                    "the drive wants this host to authenticate itself: give its DH-HMAC-CHAP key",
                ));
            }
            Some(ChapKeys { controller: Some(_), .. }) => {
                return Err(wrong("the drive asks for no authentication, so it cannot prove who it is"));
            }
            _ => {}
        }
        Ok(result.cntlid)
    }

    /// Connects an admin queue and enables its controller.
    fn connect_admin(&self, identity: &Identity, subnqn: &Nqn) -> Result<Connected<SocketQueue>, Error> {
        let mut admin = self.open(ADMIN_DEPTH, fabric::pdu::ADMIN_IN_CAPSULE, identity, subnqn)?;
        let cntlid = self.connect_queue(&mut admin, identity, subnqn, 0, CNTLID_DYNAMIC)?;
        let cap =
            Cap::from_bits(U64::new(get_property(&mut admin, PropertyOffset::CAP, true, self.timeout)?));
        let cc = Cc::enabled(cap);
        set_property(&mut admin, PropertyOffset::CC, cc.into_bits().get(), self.timeout)?;
        // At least what the controller says it may take, in units of 500 ms.
        let limit = (Duration::from_millis(500) * u32::from(cap.to())).max(self.timeout);
        wait_for(&mut admin, limit, self.timeout, "enabling the controller", |csts| csts.rdy())?;
        Ok(Connected { admin, cntlid, cap })
    }

    /// Asks the discovery service for the only subsystem that it knows.
    fn discover(&self, identity: &Identity) -> Result<Nqn, Error> {
        let what = || format!("asking the discovery service at {} for its subsystems", self.addr);
        let wrong = |problem: String| Error::Answer { what: what(), problem };
        let none = |why: String| Error::Connect { what: what(), why, status: None };
        let name = Nqn::new(Nqn::DISCOVERY).map_err(|error| wrong(error.to_string()))?;
        let mut admin = self.connect_admin(&Identity { kato_ms: 0, ..identity.clone() }, &name)?.admin;
        let bytes = (size_of::<DiscoveryHeader>() + 16 * size_of::<DiscoveryEntry>()) as u32;
        let command = Command::get_log_page(LogId::DISCOVERY, 0, 0, 0, bytes);
        let done = call(&mut admin, command, Data::room(bytes as usize), self.timeout, what)?;
        let log = done.data.into_buffer();
        let (header, entries) =
            DiscoveryHeader::read_from_prefix(&log).map_err(|_| wrong("the log is too short".into()))?;
        let count = usize::try_from(header.numrec.get()).unwrap_or(usize::MAX);
        let mut found = None;
        for entry in entries.chunks_exact(size_of::<DiscoveryEntry>()).take(count) {
            let Ok(entry) = DiscoveryEntry::read_from_bytes(entry) else { continue };
            if entry.subtype != SubsystemType::NVM {
                continue;
            }
            let nqn = Nqn::from_field(&entry.subnqn).map_err(|error| wrong(error.to_string()))?;
            if found.is_some_and(|other| other != nqn) {
                return Err(none("it knows several: name one with ?nqn=… at the address's end".into()));
            }
            found = Some(nqn);
        }
        found.ok_or_else(|| {
            none(format!(
                "it tells {} of none: either there is none, or the drive's list of hosts does not admit this host now; \
                 ?nqn=… at the address's end names one, and tells why",
                identity.hostnqn
            ))
        })
    }
}

impl Transport for SocketTransport {
    type Queue = SocketQueue;

    fn connect(&mut self, identity: &Identity) -> Result<Connected<SocketQueue>, Error> {
        self.silent = Arc::default();
        let subnqn = match identity.subnqn.or(self.addr.subnqn) {
            Some(nqn) => nqn,
            None => self.discover(identity)?,
        };
        let mut connected = self.connect_admin(identity, &subnqn)?;
        let done = call(
            &mut connected.admin,
            Command::identify(nvme::identify::Cns::CONTROLLER, 0),
            Data::room(nvme::IDENTIFY_SIZE),
            self.timeout,
            || "identifying the controller".into(),
        )?;
        let ctrl = IdentifyController::read_from_bytes(&done.data.into_buffer()).unwrap_or_default();
        self.association = Some(Association {
            identity: identity.clone(),
            subnqn,
            cntlid: connected.cntlid,
            next_qid: 1,
            in_capsule: ctrl.ioccsz.get().saturating_mul(16).saturating_sub(64),
            shutdown: Duration::from_micros(ctrl.rtd3e.get().into()).max(self.timeout),
            cc: Cc::enabled(connected.cap),
        });
        Ok(connected)
    }

    fn open_io(&mut self, depth: u16) -> Result<SocketQueue, Error> {
        let not_connected = || Error::Usage("an I/O queue needs a connected controller".into());
        let association = self.association.as_ref().ok_or_else(not_connected)?;
        let Association { identity, subnqn, cntlid, next_qid, .. } = association;
        let mut queue = self.open(depth.max(2), association.in_capsule, identity, subnqn)?;
        self.connect_queue(&mut queue, identity, subnqn, *next_qid, *cntlid)?;
        queue.silent = Arc::clone(&self.silent);
        self.association.as_mut().ok_or_else(not_connected)?.next_qid += 1;
        Ok(queue)
    }

    fn shutdown(&mut self, admin: &mut SocketQueue) -> Result<(), Error> {
        if self.silent.load(Ordering::Relaxed) {
            return Err(Error::Answer {
                what: "shutting the controller down".into(),
                problem: "the drive has stopped answering".into(),
            });
        }
        let (limit, cc) = match &self.association {
            Some(association) => (association.shutdown, association.cc),
            None => (self.timeout, Cc::enabled(Cap::new())),
        };
        let cc = cc.with_shn(Shn::NORMAL).into_bits().get();
        set_property(admin, PropertyOffset::CC, cc, self.timeout)?;
        wait_for(admin, limit, self.timeout, "shutting the controller down", |csts| {
            csts.shst() == Shst::COMPLETE
        })?;
        self.association = None;
        Ok(())
    }
}

fn get_property(
    admin: &mut SocketQueue,
    offset: PropertyOffset,
    wide: bool,
    timeout: Duration,
) -> Result<u64, Error> {
    let command = Command::from(FabricsCommand::PropertyGet { offset, wide });
    let done = call(admin, command, Data::None, timeout, || format!("reading the property {offset}"))?;
    Ok(if wide { done.completion.result64() } else { done.completion.dw0.get().into() })
}

fn set_property(
    admin: &mut SocketQueue,
    offset: PropertyOffset,
    value: u32,
    timeout: Duration,
) -> Result<(), Error> {
    let command = Command::from(FabricsCommand::PropertySet { offset, wide: false, value: value.into() });
    call(admin, command, Data::None, timeout, || format!("setting the property {offset}")).map(|_| ())
}

/// Reads CSTS until it is as wanted, for no longer than `limit`.
fn wait_for(
    admin: &mut SocketQueue,
    limit: Duration,
    timeout: Duration,
    what: &str,
    wanted: impl Fn(Csts) -> bool,
) -> Result<(), Error> {
    let deadline = Instant::now() + limit;
    loop {
        let value = get_property(admin, PropertyOffset::CSTS, false, timeout)?;
        let csts = Csts::from_bits(nvme::U32::new(u32::try_from(value).unwrap_or(0)));
        if wanted(csts) {
            return Ok(());
        }
        let wrong = |problem: &str| Error::Answer { what: what.into(), problem: problem.into() };
        if csts.cfs() {
            return Err(wrong("the controller reports a fatal error (CSTS.CFS)"));
        }
        if Instant::now() >= deadline {
            return Err(wrong("the controller did not do so in time"));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
