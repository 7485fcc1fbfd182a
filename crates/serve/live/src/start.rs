//! Bringing a drive up: new or from an image, preconditioned or not, with its thread and its sockets.

use crate::access::Access;
use crate::clock::Clock;
use crate::endpoint::HostIdentity;
use crate::engine::Engine;
use crate::handle::Handle;
use crate::hosts::{Hosts, Request};
use crate::live_drive::{FrontEnds, LiveDrive};
use crate::pci::{self, PciHosts};
use crate::preparation::{Preparation, Progress};
use crate::record::Recorder;
use crate::server::{Guard, Limits, Listener, MAX_PORTS, Port, Ports, Server, TcpPort, listen_privately};
use crate::shared::{INBOX, Shared};
use crate::wake::Sleeper;
use device::{Config, ConfigError, Drive, PortId};
use image::{
    BackgroundWork, DriveKey, ImageError, ImageOptions, Keyring, Locked, Opened, Presence, ScrubOptions,
    Shape, Store, check_unused, machine, pages, presence,
};
use media::Nanos;
use nvme::log::AnaState;
use nvme::{Nqn, Status};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io;
use std::net::SocketAddr;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, OnceLock, Weak};
use std::thread::JoinHandle;

/// How a drive is run.
#[derive(Clone, Default, Debug)]
pub struct Options {
    /// Where the drive outlives the process; in memory without.
    pub image: Option<PathBuf>,
    /// How the image is kept.
    pub image_options: ImageOptions,
    /// How its contents are checked meanwhile; not at all without.
    pub scrub: Option<ScrubOptions>,
    /// What the keys of namespaces are wrapped with. Without, those of a new drive are stored in the clear, and an image that has
    /// wrapped keys opens locked.
    pub drive_key: Option<DriveKey>,
    /// What a new drive goes through before a host may use it; nothing without.
    pub preparation: Option<Arc<dyn Preparation>>,
    /// Listen on this Unix socket.
    pub unix: Option<PathBuf>,
    /// Listen on these TCP addresses, each a port of the subsystem, with identifiers from 1; the Unix socket is the
    /// port after them. [`MAX_PORTS`] together.
    pub tcp: Vec<TcpPort>,
    /// Serve a PCI device for a virtual machine on each of these Unix sockets (vfio-user). Each has a controller of its own.
    pub pci: Vec<PathBuf>,
    /// Which hosts may connect over the network; all of them without.
    pub access: Option<Arc<Access>>,
    /// Whether TCP connections are taken over TLS 1.3, and no others: with the keys of the hosts.
    pub tls: bool,
    /// How long hosts may take.
    pub limits: Limits,
    /// Write down what hosts do in this file, which is made ([`blockdev::recording`]).
    pub record: Option<PathBuf>,
    /// Whether the drive's thread never sleeps: shortest latency, one processor busy.
    pub poll: bool,
    /// Bytes of memory that are faulted in after the start, of a drive in memory; an eighth of [what is
    /// available](image::machine::available_memory) at most.
    pub prefault: u64,
}

/// Why a drive could not be brought up.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// It cannot be as configured.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Something about the image.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// A socket cannot be listened on.
    #[error("cannot listen on {at}: {source}")]
    Listen {
        /// Where.
        at: String,
        /// What the host said.
        source: io::Error,
    },
    /// There are more places to listen on than a drive can have ports.
    #[error("{0} places to listen on are too many: a drive has {MAX_PORTS} ports at most")]
    Ports(usize),
    /// The drive has no controller for a PCI device.
    #[error("the drive has no controller for the PCI device {}: {status}", path.display())]
    Pci {
        /// Its socket.
        path: PathBuf,
        /// What the drive said.
        status: Status,
    },
    /// The operating system refused something that every drive needs.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the host said.
        source: io::Error,
    },
    /// A recording cannot begin.
    #[error("cannot record to {}: {source}", path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// What the host said.
        source: io::Error,
    },
    /// TLS cannot be offered.
    #[error("{0}")]
    Tls(String),
    /// The system gives no random numbers, or no ciphers.
    #[error("no keys can be made for the namespaces of the drive")]
    Keys,
    /// A [`Preparation`] needs a new drive.
    #[error("the image {} exists already: a drive is preconditioned when it is created", .0.display())]
    NotNew(PathBuf),
    /// A command of the [`Preparation`] failed.
    #[error("preconditioning failed: {0}")]
    Preparation(Status),
    /// There is neither an image nor a configuration.
    #[error("there is no image at {} yet: name the DRIVE.toml to create it from", .0.display())]
    NoShape(PathBuf),
}

/// A drive that runs. Dropping it stops it as [`stop`](Running::stop) does.
pub struct Running {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    notes: Vec<String>,
    plain: Vec<u32>,
    config: Config,
    ports: Vec<PortInfo>,
    tls: bool,
}

/// A TCP port that a drive listens on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PortInfo {
    /// Its identifier.
    pub id: PortId,
    /// Its address, with the port that it really has.
    pub address: SocketAddr,
    /// Its ANA state at first.
    pub ana: AnaState,
}

impl Running {
    /// The first TCP address that the drive listens on, with its port.
    pub fn tcp(&self) -> Option<SocketAddr> {
        self.ports.first().map(|port| port.address)
    }

    /// The TCP addresses that the drive listens on.
    pub fn ports(&self) -> &[PortInfo] {
        &self.ports
    }

    /// How this process reaches the drive.
    pub fn handle(&self) -> Handle {
        Handle { shared: self.shared.clone() }
    }

    /// What it was built from.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// What the user should know about how an image was opened.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The namespaces that were stored in the clear when the drive was started.
    pub fn plain_namespaces(&self) -> &[u32] {
        &self.plain
    }

    /// Whether the drive has stopped by itself, because of a bug.
    pub fn has_stopped(&self) -> bool {
        self.shared.is_stopped()
    }

    /// Lets these hosts connect over the network from now on, and no others. A host that is connected stays so if the new list lets it
    /// in by the proof that it gave; what it may do follows the new list. Others are disconnected.
    ///
    /// # Errors
    /// The drive is served over TLS, and the new list has no keys for it: the old list stays.
    pub fn set_access(&self, access: Access) -> Result<(), StartError> {
        let guard = guard(Some(Arc::new(access)), self.tls, self.config.identity.nqn)?;
        self.shared.change(|live, now| live.set_guard(guard, now));
        Ok(())
    }

    /// Stops in order: what the drive has accepted goes to its media, and an image is closed so that it opens
    /// without recovery. Commands in flight complete first as far as they can; later ones are refused.
    pub fn stop(mut self) {
        self.end();
    }

    /// As [`stop`](Running::stop); false if the drive's thread had ended by a panic.
    pub fn stop_and_tell(mut self) -> bool {
        self.end()
    }

    fn end(&mut self) -> bool {
        let _ = self.shared.post(Request::Stop);
        self.shared.sleeper.ring();
        self.thread.take().is_none_or(|thread| thread.join().is_ok())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

/// Brings a drive up. `shape` may be left out if the image exists; `progress` is told how far
/// preconditioning is.
///
/// # Errors
/// What is wrong, where, and what to do.
pub fn start(
    shape: Option<Shape>,
    options: &Options,
    progress: &mut Progress<'_>,
) -> Result<Running, StartError> {
    let sleeper =
        Sleeper::new().map_err(|source| StartError::System { what: "make an event queue", source })?;
    let sleeper = Arc::new(sleeper);
    if let Some(dir) = &options.image {
        // Whoever starts a drive twice learns that, and not which of its addresses is taken.
        check_unused(dir)?;
    }
    // Before an image is made or changed: an address that is taken is the most likely reason to end here.
    let listening = Ports::new(listen(options)?);
    let machines = listen_for_machines(options)?;
    // What the threads of the image step, once it is there.
    let drive = Arc::new(OnceLock::new());
    let opened = match &options.image {
        None => {
            let shape = shape.ok_or_else(|| StartError::NoShape(PathBuf::from("(none)")))?;
            new_in_memory(shape.config, options, progress)?
        }
        Some(dir) => in_image(shape, dir, options, progress, &drive)?,
    };
    let running = bring_up(opened, options, 1, sleeper, (listening, machines))?;
    let _ = drive.set(Arc::downgrade(&running.shared));
    // They may have had something to say before.
    running.shared.heed();
    Ok(running)
}

/// Brings a drive up that was prepared elsewhere, until `time`, with contents in memory from now on, for hosts of this process. It should
/// have places for contents (`ftl.durable` of its configuration).
///
/// In slow motion a second of the drive takes `slow_motion` of them on the wall's clock (1, or 0: none). It is the same drive
/// by its own clock, and what the machine adds to a command weighs as much less.
///
/// # Errors
/// The operating system refuses a thread.
pub fn start_prepared(drive: Drive, time: Nanos, slow_motion: u32) -> Result<Running, StartError> {
    let sleeper =
        Sleeper::new().map_err(|source| StartError::System { what: "make an event queue", source })?;
    let store = Store::in_memory(pages(drive.config()));
    let opened = Opened { drive, store, time, notes: Vec::new() };
    let listening = (Ports::new(Vec::new()), Vec::new());
    bring_up(opened, &Options::default(), slow_motion, Arc::new(sleeper), listening)
}

fn bring_up(
    opened: Opened,
    options: &Options,
    slow_motion: u32,
    sleeper: Arc<Sleeper>,
    (listening, machines): (Ports, Vec<(UnixListener, PathBuf)>),
) -> Result<Running, StartError> {
    let Opened { drive, store, time, mut notes } = opened;
    notes.extend(locked_note(&drive, options));
    let plain = drive.plain_namespaces();
    let config = drive.config().clone();
    let (inbox, requests) = sync_channel(INBOX);
    let mut engine = Engine::new(drive, store);
    let mut front_ends = FrontEnds { hosts: Hosts::new(requests), server: None, pci: None };
    let guard = guard(options.access.clone(), options.tls, config.identity.nqn)?;
    let info = |p: &Port| Some(PortInfo { id: p.id, address: p.listener.address()?, ana: p.ana });
    let ports = listening.iter().filter_map(info).collect();
    for port in listening.iter() {
        engine.drive.add_port(port.id, port.ana);
    }
    if listening.iter().next().is_some() {
        more_descriptors();
        let server = Server::new(sleeper.clone(), listening, guard, options.limits, engine.limits())
            .map_err(|source| StartError::System { what: "watch the listening sockets", source })?;
        front_ends.server = Some(server);
    }
    front_ends.pci = serve_machines(&mut engine, machines, &sleeper, time, options.poll)?;
    if let Some(path) = &options.record {
        let recorder = Recorder::begin(path, time, &engine.drive)
            .map_err(|source| StartError::Record { path: path.clone(), source })?;
        engine.record(recorder);
        if !config.timing {
            notes.push(format!(
                "this drive runs without timing: the recording to {} will tell when commands came, but latencies of 0; \
                 with --timing on it tells the drive's own, which a replay can be held against",
                path.display()
            ));
        }
    }
    let nqn = config.identity.nqn.to_string();
    let live = LiveDrive::new(engine, front_ends, sleeper.clone());
    let shared = Arc::new(Shared::new(nqn, Clock::wall(time, slow_motion), sleeper, live, inbox));
    let runner = shared.clone();
    let poll = options.poll;
    let thread = std::thread::Builder::new()
        .name("tranche-drive".to_owned())
        .spawn(move || runner.run(poll))
        .map_err(|source| StartError::System { what: "start the drive's thread", source })?;
    Ok(Running { shared, thread: Some(thread), notes, plain, config, ports, tls: options.tls })
}

/// Who may connect over the network, and how.
fn guard(access: Option<Arc<Access>>, tls: bool, subsystem: Nqn) -> Result<Guard, StartError> {
    let tls = match (&access, tls) {
        (Some(access), true) => Some(access.acceptor(subsystem).map_err(StartError::Tls)?),
        (None, true) => {
            return Err(StartError::Tls("TLS needs the keys of a list of hosts (--hosts)".to_owned()));
        }
        (_, false) => None,
    };
    Ok(Guard { access, tls })
}

/// What is to be said of an image that was opened without its drive key.
fn locked_note(drive: &Drive, options: &Options) -> Option<String> {
    let why = match &options.drive_key {
        None => "no drive key was given",
        Some(_) => "the drive key that was given is not that of this drive",
    };
    drive.is_locked().then(|| {
        format!(
            "the drive is LOCKED: {why}. Its encrypted namespaces refuse to be read, written, formatted and deleted; \
             nothing is lost, start it with the right key"
        )
    })
}

fn listen(options: &Options) -> Result<Vec<(Listener, AnaState)>, StartError> {
    let count = options.tcp.len() + usize::from(options.unix.is_some());
    if count > MAX_PORTS {
        return Err(StartError::Ports(count));
    }
    let mut listeners = Vec::new();
    for TcpPort { address, ana } in &options.tcp {
        let at = || format!("TCP address {address}");
        let listener = Listener::tcp(address).map_err(|source| StartError::Listen { at: at(), source })?;
        listeners.push((listener, *ana));
    }
    if let Some(path) = &options.unix {
        let at = || format!("the Unix socket {}", path.display());
        let listener = Listener::unix(path).map_err(|source| StartError::Listen { at: at(), source })?;
        listeners.push((listener, AnaState::OPTIMIZED));
    }
    Ok(listeners)
}

/// The sockets of virtual machines.
fn listen_for_machines(options: &Options) -> Result<Vec<(UnixListener, PathBuf)>, StartError> {
    let listen = |path: &PathBuf| {
        let at = || format!("the Unix socket {}", path.display());
        let listener = listen_privately(path).map_err(|source| StartError::Listen { at: at(), source })?;
        Ok((listener, path.clone()))
    };
    options.pci.iter().map(listen).collect()
}

/// A function and a controller for each virtual machine.
fn serve_machines(
    engine: &mut Engine,
    machines: Vec<(UnixListener, PathBuf)>,
    sleeper: &Arc<Sleeper>,
    time: Nanos,
    never_sleeps: bool,
) -> Result<Option<PciHosts>, StartError> {
    let mut ports = Vec::new();
    for ((listener, path), number) in machines.into_iter().zip(1..) {
        let bell = sleeper.clone();
        let link = vfio::serve(listener, pci::shape(never_sleeps), move || bell.ring())
            .map_err(|source| StartError::System { what: "serve a PCI device", source })?;
        let nqn = format!("nqn.2026-11.io.tranche:pci-{number}");
        let refused = |status| StartError::Pci { path: path.clone(), status };
        let host = HostIdentity::new(&nqn).map_err(|_| refused(Status::CONNECT_INVALID_HOST))?;
        ports.push(pci::Port::new(engine, link, host, Some(path.clone()), time).map_err(refused)?);
    }
    Ok((!ports.is_empty()).then(|| PciHosts::new(ports, sleeper.clone())))
}

/// Connections take a descriptor each: as many as the system lets this process have.
fn more_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    if let Err(e) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }) {
        tracing::warn!("cannot raise the limit of descriptors, which limits connections: {e}");
    }
}

fn new_drive(
    config: Config,
    options: &Options,
    progress: &mut Progress<'_>,
) -> Result<(Drive, Nanos, Keyring), StartError> {
    let mut config = config;
    // Contents need places for their slots: after a power cut they are looked for there.
    config.ftl.durable = true;
    let drive = Drive::made(config, u64::from_le_bytes(image::random()))?;
    let (mut drive, time) = match &options.preparation {
        Some(preparation) => preparation.prepare(drive, progress).map_err(StartError::Preparation)?,
        None => (drive, Nanos::ZERO),
    };
    let mut store = Store::without_contents().with_keys(Keyring::new(options.drive_key.clone()));
    drive.encrypt(&mut store).map_err(|_| StartError::Keys)?;
    Ok((drive, time, store.into_keys()))
}

fn new_in_memory(
    config: Config,
    options: &Options,
    progress: &mut Progress<'_>,
) -> Result<Opened, StartError> {
    let (drive, time, keys) = new_drive(config, options, progress)?;
    let available = machine::available_memory().unwrap_or(u64::MAX);
    let bytes = options.prefault.min(available / 8);
    let store = Store::prefaulted(pages(drive.config()), bytes).with_keys(keys);
    Ok(Opened { drive, store, time, notes: Vec::new() })
}

fn in_image(
    shape: Option<Shape>,
    dir: &Path,
    options: &Options,
    progress: &mut Progress<'_>,
    drive: &Arc<OnceLock<Weak<Shared>>>,
) -> Result<Opened, StartError> {
    let drive = drive.clone();
    let notify: Arc<dyn Fn() + Send + Sync> = Arc::new(move || {
        if let Some(shared) = drive.get().and_then(Weak::upgrade) {
            shared.heed();
        }
    });
    let background = BackgroundWork::Threads(notify.clone());
    let mut opened = match presence(dir)? {
        Presence::Nothing => {
            let shape = shape.ok_or_else(|| StartError::NoShape(dir.to_owned()))?;
            new_in_image(shape, dir, options, progress, background)?
        }
        Presence::Image if options.preparation.is_some() => {
            return Err(StartError::NotNew(dir.to_owned()));
        }
        Presence::Image => {
            let key = options.drive_key.clone();
            Locked::existing(dir)?.open(shape, key, options.image_options, background)?
        }
    };
    if let (Some(image), Some(scrub)) = (opened.store.image(), options.scrub) {
        image.begin_scrub(scrub, notify)?;
    }
    Ok(opened)
}

fn new_in_image(
    shape: Shape,
    dir: &Path,
    options: &Options,
    progress: &mut Progress<'_>,
    background: BackgroundWork,
) -> Result<Opened, StartError> {
    let locked = Locked::fresh(dir)?;
    let (drive, time, keys) = new_drive(shape.config, options, progress)?;
    Ok(locked.make(&shape.toml, drive, time, keys, options.image_options, background)?)
}
