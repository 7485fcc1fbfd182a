//! `tranche serve`: a drive from its first line to the clean end.

use crate::args::{Precondition, Serve, Switch};
use crate::live_view::LiveView;
use crate::options::Output;
use crate::secret::Secret;
use crate::served_tiers::ServedTiers;
use crate::signals::asked_by;
use crate::tell::{tell, tell_part};
use crate::{default_address, progress, say_results, served_nbd};
use anyhow::{Context, Result, bail};
use cache::table::Entry;
use export::nbd::{Listener as NbdListener, Place, Server as NbdServer};
use export::ublk::{Devices, Exported};
use export::{Backend, DEFAULT_MODE, Export};
use host::{Addr, Endpoint};
use image::{Presence, check_unused, presence};
use live::access::Rule;
use live::{Access, DriveKey, ImageOptions, Limits, Options, Running, ScrubOptions, Shape, TcpPort};
use metrics::{Endpoint as MetricsEndpoint, Listener as MetricsListener};
use schemars::JsonSchema;
use sd_notify::NotifyState;
use serde::Serialize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, SystemTime};

/// Serves until a signal.
pub fn serve(options: &Serve, output: Output) -> Result<()> {
    // A file may be a pipe that nobody writes to: until all are read, the first signal ends the process.
    let shape = shape(options)?;
    let timing = shape.as_ref().is_some_and(|shape| shape.config.timing);
    let entries = tiers(options, shape.as_ref())?;
    let run_options = run_options(options)?;
    let metrics = options.metrics.as_deref().map(listen_for_scrapes).transpose()?;
    let nbd = served_nbd::listen(&options.nbd, options.hosts.is_some())?;
    let live_view = live_view(options)?;
    if let Some(dir) = &options.fuse {
        // Before an image is made for it.
        export::prepare(dir)?;
    }
    // From here on the first signal is waited for, the second ends the process at once.
    // With a list of hosts SIGHUP says that it has changed, else that the terminal has gone.
    let ends = if options.hosts.is_some() { &[SIGINT, SIGTERM][..] } else { &[SIGINT, SIGTERM, SIGHUP] };
    let asked = asked_by(ends)?;
    let signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context("cannot watch for signals")?;
    let running = live::start(shape, &run_options, &mut show_progress(&asked))?;
    for note in running.notes() {
        tracing::warn!("{note}");
    }
    say_plain(options, &running);
    warn_if_exposed(&running, run_options.access.as_deref(), run_options.tls);
    let mut tiers = match ServedTiers::start(&entries, &running.handle(), &known_as(&run_options, &running)) {
        Ok(tiers) => tiers,
        Err(error) => {
            running.stop();
            return Err(error);
        }
    };
    let attached = block_devices(options, &running, &tiers, nbd).and_then(|fronts| {
        let endpoint = metrics.map(|listener| MetricsEndpoint::start(listener, running.handle())).transpose();
        let endpoint = endpoint.context("cannot serve metrics")?;
        let at = known_as(&run_options, &running).first().map(Addr::to_string).unwrap_or_default();
        let ui = live_view.map(|view| view.start(running.handle(), at)).transpose()?;
        Ok((fronts, endpoint, ui))
    });
    let (Fronts { mut export, nbd, mut ublk }, endpoint, ui) = match attached {
        Ok(attached) => attached,
        Err(error) => {
            tiers.stop();
            running.stop();
            return Err(error);
        }
    };
    if !timing {
        tracing::info!(
            "timing is off: operations take no time but this machine's (--timing on gives them the drive's)"
        );
    }
    let devices = ublk.as_ref().map(Devices::exported).unwrap_or_default();
    let places = Places {
        ublk: &devices,
        nbd: nbd.as_ref().map_or(&[], NbdServer::places),
        metrics: endpoint.as_ref(),
        ui: ui.as_ref(),
    };
    if let Err(error) = say_ready(&run_options, output, &running, places) {
        tracing::warn!("cannot say on standard output that the drive is ready: {error}");
    }
    tell_service_manager(NotifyState::Ready);
    let trouble = wait(signals, options, &running, export.as_ref(), &mut tiers);
    tell_service_manager(NotifyState::Stopping);
    drop(nbd);
    let obstacles = ublk.as_mut().map(Devices::stop).into_iter().chain(export.as_mut().map(Export::stop));
    obstacles.flatten().for_each(|obstacle| tracing::warn!("{obstacle}"));
    drop((ublk, export, endpoint, ui));
    tiers.stop();
    running.stop();
    if let Some(recording) = &options.record {
        say_results(recording);
    }
    match trouble {
        Some(trouble) => bail!(trouble),
        None => Ok(()),
    }
}

/// Tells a service manager, if one has started this process (`NOTIFY_SOCKET`, sd_notify(3)).
fn tell_service_manager(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::warn!("cannot tell the service manager how the drive is: {error}");
    }
}

/// The drive's TOML, from a file, a profile, or neither when the image knows.
fn shape(options: &Serve) -> Result<Option<Shape>> {
    let exists = match &options.image {
        Some(dir) => {
            // Before all else: whoever starts a drive twice learns that, and not which of its addresses is taken.
            check_unused(dir)?;
            presence(dir)? == Presence::Image
        }
        None => false,
    };
    if let Some(dir) = options.image.as_deref().filter(|_| exists && options.no_capacitors) {
        refuse_capacitors(dir)?;
    }
    let mut toml = match options.drive() {
        Some(drive) => lab_report::profile::read(drive)?,
        None if exists => {
            // Only `--timing` may say something else than what the image was created with.
            image::config(options.image.as_deref().unwrap_or(Path::new("")))?
        }
        None => lab_report::profile::Profile::default_drive().toml.to_owned(),
    };
    let name = options.drive().unwrap_or("the drive's TOML");
    let mut config = device::Config::from_toml(&toml).with_context(|| name.to_owned())?;
    if options.no_capacitors && !config.has_volatile_write_cache() {
        toml = lab_report::profile::without_capacitors(&toml).with_context(|| name.to_owned())?;
        config = device::Config::from_toml(&toml).with_context(|| name.to_owned())?;
    }
    if let Some(timing) = options.timing {
        config.timing = timing == Switch::On;
    }
    Ok(Some(Shape { config, toml }))
}

/// An image keeps what it was made with.
///
/// # Errors
/// That is a drive with capacitors.
fn refuse_capacitors(image: &Path) -> Result<()> {
    if device::Config::from_toml(&image::config(image)?)?.has_volatile_write_cache() {
        return Ok(());
    }
    bail!(
        "the drive of {} was made with capacitors, and keeps them: make another image with --no-capacitors, or let the capacitors of this one fail \
         (tranche power-cut --no-plp), which also takes what was flushed",
        image.display()
    )
}

/// The cache tiers of the drive's TOML. They are block devices, and there are none without `--fuse`, `--nbd` and `--ublk`.
fn tiers(options: &Serve, shape: Option<&Shape>) -> Result<Vec<Entry>> {
    let entries = shape.map(|shape| cache::table::read(&shape.toml)).transpose();
    let mut entries =
        entries.map_err(|error| anyhow::anyhow!("the drive's TOML: {error}"))?.unwrap_or_default();
    if options.fuse.is_none() && options.nbd.is_empty() && !options.ublk && !entries.is_empty() {
        tracing::warn!(
            "the cache tiers of the drive's TOML ([[cache]]) are not served: they are block devices, which need --fuse, --nbd or --ublk"
        );
        entries.clear();
    }
    Ok(entries)
}

/// Listens for scrapes before an image is made: an address that is taken is the most likely reason to end here.
fn listen_for_scrapes(address: &str) -> Result<MetricsListener> {
    let listener =
        MetricsListener::bind(address).with_context(|| format!("cannot serve metrics on {address}"))?;
    let at = listener.address();
    if !at.ip().to_canonical().is_loopback() {
        tracing::warn!(
            "{at} can be reached from other machines: anyone who can connect can read the metrics, which name the drive, its namespaces \
             and how much is done with them, but no host and no data. Nobody can change anything there"
        );
    }
    Ok(listener)
}

/// Listens for those who want to see the drive work.
fn live_view(options: &Serve) -> Result<Option<LiveView>> {
    let listen =
        |at: &String| LiveView::listen(at, options.ui_token.as_deref(), options.ui_studies.as_deref());
    options.ui.as_ref().map(listen).transpose()
}

/// The addresses by which programs of this machine know the drive.
fn known_as(options: &Options, running: &Running) -> Vec<Addr> {
    let unix = options.unix.iter().map(|path| Endpoint::Unix(path.clone()));
    let tcp = running
        .ports()
        .iter()
        .map(|port| Endpoint::Tcp { host: port.address.ip().to_string(), port: port.address.port() });
    let pci = options.pci.iter().map(|path| Endpoint::Pci(path.clone()));
    unix.chain(tcp).chain(pci).map(|endpoint| Addr { endpoint, subnqn: None }).collect()
}

/// Where hosts find the drive: TCP ports and a Unix socket.
fn places(options: &Serve) -> (Vec<TcpPort>, Option<PathBuf>) {
    match (&options.tcp[..], &options.unix) {
        ([], None) => (vec![default_address::DEFAULT_TCP.into()], default_address::default_socket()),
        (tcp, unix) => (tcp.to_vec(), unix.clone()),
    }
}

fn run_options(options: &Serve) -> Result<Options> {
    let (tcp, unix) = places(options);
    let access = match &options.hosts {
        Some(path) => {
            let (access, warnings) = Access::load(path)?;
            for warning in warnings {
                tracing::warn!("{warning}");
            }
            Some(Arc::new(access))
        }
        None => None,
    };
    Ok(Options {
        image: options.image.clone(),
        image_options: ImageOptions { host_sync: !options.no_host_sync, ..ImageOptions::default() },
        scrub: (!options.no_scrub).then(|| ScrubOptions {
            bytes_per_second: options.scrub_rate,
            period: Duration::from_secs(u64::from(options.scrub_period) * 3600),
        }),
        drive_key: drive_key(options.drive_key.as_ref())?,
        preparation: match options.precondition {
            Precondition::None => sim::Precondition::None,
            Precondition::Fill => sim::Precondition::Fill,
            Precondition::Steady => sim::Precondition::Steady,
        }
        .preparation(options.seed),
        unix,
        tcp,
        pci: options.pci.clone(),
        access,
        tls: options.tls,
        limits: Limits::default(),
        record: options.record.clone(),
        poll: options.poll,
        prefault: options.prefault,
    })
}

/// The drive key. A variable that is set to nothing is none.
pub fn drive_key(secret: Option<&Secret>) -> Result<Option<DriveKey>> {
    let Some(secret) = secret.filter(|secret| !secret.is_empty()) else {
        return Ok(None);
    };
    if let Some(file) = secret.exposed_file() {
        tracing::warn!("{file} has the drive key in it, and not only its owner can read it: chmod 600 it");
    }
    secret.read("--drive-key").map(Some)
}

/// What is stored in the clear where it could have been otherwise.
fn say_plain(options: &Serve, running: &Running) {
    let plain = running.plain_namespaces();
    let list = plain.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    match (plain, &options.drive_key) {
        ([], _) => {}
        (_, Some(key)) if !key.is_empty() => tracing::warn!(
            "stored in the clear, as they were made without a drive key: namespaces {list}; formatting encrypts them"
        ),
        _ if options.image.is_some() => {
            tracing::info!("without a drive key data is stored in the clear (docs/keys.md)");
        }
        _ => {}
    }
}

/// A line that is rewritten, if there is a terminal. Preparing a large drive takes a while: who asks for the end gets it,
/// and an image that was not completed says so when it is opened.
fn show_progress(asked: &AtomicBool) -> impl FnMut(u32) {
    let terminal = progress::has_terminal();
    let mut last = 0;
    move |per_mille| {
        if asked.load(Ordering::Relaxed) {
            tell!("tranche: interrupted while the drive was being prepared");
            std::process::exit(130);
        }
        if terminal && per_mille / 10 != last {
            last = per_mille / 10;
            tell_part!("\rpreconditioning: {last} %  ");
            if last >= 100 {
                tell!("");
            }
        }
    }
}

fn warn_if_exposed(running: &Running, access: Option<&Access>, tls: bool) {
    if tls {
        return;
    }
    for rule in access.iter().flat_map(|access| access.hosts()).filter(|rule| rule.tls.is_some()) {
        tracing::warn!("{}: its tls_psk is of no use without --tls", rule.nqn);
    }
    let listed = access.map(|access| {
        let now = SystemTime::now();
        let valid = access.hosts().iter().filter(|rule| rule.expires.is_none_or(|expires| expires > now));
        let (with_key, by_name): (Vec<_>, Vec<_>) = valid.partition(|rule| rule.chap.is_some());
        let names =
            |rules: Vec<&Rule>| rules.iter().map(|rule| rule.nqn.to_string()).collect::<Vec<_>>().join(", ");
        (names(by_name), names(with_key))
    });
    for address in
        running.ports().iter().map(|port| port.address).filter(|at| !at.ip().to_canonical().is_loopback())
    {
        let Some((by_name, with_key)) = &listed else {
            tracing::warn!(
                "WARNING: {address} can be reached from other machines, and there is no authentication: anyone \
                 who can connect can read and overwrite every namespace that is attached for all hosts. Give the hosts keys \
                 with --hosts, or listen on 127.0.0.1 instead."
            );
            continue;
        };
        if !by_name.is_empty() {
            tracing::warn!(
                "WARNING: {address} can be reached from other machines, and these hosts are let in without a key: \
                 anyone who claims to be one of them may do what that host's role allows: {by_name}"
            );
        }
        if !with_key.is_empty() {
            tracing::warn!(
                "WARNING: {address} can be reached from other machines, and after these hosts have authenticated themselves \
                 (DH-HMAC-CHAP) nothing protects their connections: anyone on the way can read and change their data. \
                 --tls protects them: {with_key}"
            );
        }
    }
}

/// What shows namespaces to programs that speak no NVMe.
#[derive(Default)]
struct Fronts {
    export: Option<Export>,
    nbd: Option<NbdServer>,
    ublk: Option<Devices>,
}

/// Block files, NBD and ublk, which share one host of the drive.
fn block_devices(
    options: &Serve,
    running: &Running,
    tiers: &ServedTiers,
    nbd: Vec<NbdListener>,
) -> Result<Fronts> {
    if options.fuse.is_none() && nbd.is_empty() && !options.ublk {
        return Ok(Fronts::default());
    }
    let handle = running.handle();
    let backend = match tiers.is_empty() {
        true => Backend::start(&handle)?,
        false => Backend::over(|reports| tiers.beside(&handle, reports), DEFAULT_MODE)?,
    };
    let export = options.fuse.as_deref().map(|dir| export(options, dir, &backend)).transpose()?;
    let nbd = (!nbd.is_empty()).then(|| NbdServer::start(nbd, &backend)).transpose();
    let nbd = nbd.context("cannot serve NBD")?;
    let ublk = options.ublk.then(|| ublk(&backend)).transpose()?;
    Ok(Fronts { export, nbd, ublk })
}

fn ublk(backend: &Arc<Backend>) -> Result<Devices> {
    let devices = Devices::start(backend)?;
    for Exported { name, node, bytes, block_size } in
        devices.exported().into_iter().filter(|_| !progress::is_silent())
    {
        tell!("{name}: {}, {}, blocks of {block_size}", node.display(), units::format_size(bytes));
    }
    Ok(devices)
}

fn export(options: &Serve, dir: &Path, backend: &Arc<Backend>) -> Result<Export> {
    let wanted = export::Options {
        loops: options.loops,
        threads: options.fuse_threads.map(usize::from),
        transport: options.fuse_io.into(),
    };
    let export = Export::of(backend, dir, wanted)?;
    for device in export.devices().into_iter().filter(|_| !progress::is_silent()) {
        let node = device.node.as_ref().map(|n| format!(", {}", n.display())).unwrap_or_default();
        let size = units::format_size(device.bytes);
        let block = u64::from(device.block_size);
        let zones = device.zones.map(|zones| {
            let whole = u64::from(zones.count).saturating_mul(zones.size).saturating_mul(block);
            format!(" usable of {} in {} zones", units::format_size(whole), zones.count)
        });
        tell!("{}{node}: {size}{}, blocks of {block}", device.file.display(), zones.unwrap_or_default());
    }
    Ok(export)
}

/// Where else than over NVMe/TCP there is something of the drive.
#[derive(Clone, Copy)]
struct Places<'a> {
    ublk: &'a [Exported],
    nbd: &'a [Place],
    metrics: Option<&'a MetricsEndpoint>,
    ui: Option<&'a ui::Ui>,
}

/// The line that says that the drive takes hosts. It comes at the beginning; the command goes on.
#[derive(Serialize, JsonSchema)]
pub struct ServedDrive {
    /// Address of the metrics (--metrics), with the port that it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("absent" = "without --metrics"))]
    metrics: Option<String>,
    /// Places where NBD is served (--nbd): addresses, with the ports that they have, and paths of Unix sockets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("absent" = "without --nbd"))]
    nbd: Vec<String>,
    /// NQN of the subsystem.
    nqn: String,
    /// Sockets of PCI devices for virtual machines (--pci).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("absent" = "without --pci"))]
    pci: Vec<String>,
    /// The TCP ports.
    ports: Vec<ServedPort>,
    /// Always true.
    #[schemars(extend("const" = true))]
    ready: bool,
    /// The recording (--record), which is complete when the command ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("absent" = "without --record"))]
    results: Option<String>,
    /// Address of the first TCP port.
    #[schemars(extend("null" = "it listens on none"))]
    tcp: Option<String>,
    /// Block devices that ublk makes (--ublk).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("absent" = "without --ublk, or if there is no conventional namespace"))]
    ublk: Vec<ServedDevice>,
    /// Where the live view is (--ui): the address of its page.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("absent" = "without --ui"))]
    ui: Option<String>,
    /// Path of the Unix socket.
    #[schemars(extend("null" = "it listens on none"))]
    unix: Option<String>,
}

/// A port.
#[derive(Serialize, JsonSchema)]
struct ServedPort {
    /// Its Asymmetric Namespace Access state.
    ana: &'static str,
    /// Port identifier, from 1.
    portid: u16,
    /// Its address.
    tcp: String,
}

/// A namespace.
#[derive(Serialize, JsonSchema)]
struct ServedDevice {
    /// Path of the block device.
    device: String,
    /// Name of its block file.
    name: String,
}

/// The one line on standard output that scripts wait for. `tcp=` has every TCP port, in their order, separated by commas; `nbd=` every place of
/// NBD likewise; `pci=` the sockets of PCI devices; `ublk=` every block device; `metrics=` the address of the metrics; `ui=` where the live view is.
fn say_ready(
    options: &Options,
    output: Output,
    running: &Running,
    places: Places<'_>,
) -> std::io::Result<()> {
    let ports = running.ports();
    let tcp: Vec<String> = ports.iter().map(|port| port.address.to_string()).collect();
    let tcp = (!tcp.is_empty()).then(|| tcp.join(","));
    let unix = options.unix.as_ref().map(|path| path.display().to_string());
    let metrics = places.metrics.map(|endpoint| endpoint.address().to_string());
    let nbd: Vec<String> = places.nbd.iter().map(Place::to_string).collect();
    let pci: Vec<String> = options.pci.iter().map(|path| path.display().to_string()).collect();
    let ublk: Vec<String> = places.ublk.iter().map(|device| device.node.display().to_string()).collect();
    let ui = places.ui.map(ui::Ui::url);
    let nqn = running.handle().subsystem_nqn().to_owned();
    let line = match output {
        Output::Json => {
            let ports = ports.iter().map(|port| ServedPort {
                ana: port.ana.name().unwrap_or("unknown"),
                portid: port.id.0,
                tcp: port.address.to_string(),
            });
            let devices = places.ublk.iter().map(|device| ServedDevice {
                device: device.node.display().to_string(),
                name: device.name.clone(),
            });
            serde_json::to_string(&ServedDrive {
                metrics,
                nbd,
                nqn,
                pci,
                ports: ports.collect(),
                ready: true,
                results: options.record.as_ref().map(|recording| recording.display().to_string()),
                tcp: running.tcp().map(|address| address.to_string()),
                ublk: devices.collect(),
                ui,
                unix,
            })?
        }
        Output::Text => {
            let at = |name: &str, place: Option<String>| {
                place.map_or_else(String::new, |p| format!(" {name}={p}"))
            };
            let joined = |all: &[String]| (!all.is_empty()).then(|| all.join(","));
            let hosts = at("tcp", tcp) + &at("unix", unix);
            let others = at("nbd", joined(&nbd))
                + &at("pci", joined(&pci))
                + &at("ublk", joined(&ublk))
                + &at("metrics", metrics)
                + &at("ui", ui);
            format!("ready{hosts} nqn={nqn}{others}")
        }
    };
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

/// Reads the list of hosts again. The drive keeps the list that it has if something is wrong with the new one.
fn reload_hosts(path: &Path, options: &Serve, running: &Running) {
    let warn = |warnings: &[String]| warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
    let reloaded = Access::load(path).map_err(anyhow::Error::from).and_then(|(access, warnings)| {
        warn(&warnings);
        warn_if_exposed(running, Some(&access), options.tls);
        let hosts = access.hosts().len();
        running.set_access(access)?;
        Ok(hosts)
    });
    match reloaded {
        Ok(hosts) => tracing::info!("{} was read again: hosts listed: {hosts}", path.display()),
        Err(error) => tracing::error!("the list of hosts stays as it was: {error:#}"),
    }
}

/// Waits for a signal that ends the drive; says why if something else came first.
fn wait(
    mut signals: Signals,
    options: &Serve,
    running: &Running,
    export: Option<&Export>,
    tiers: &mut ServedTiers,
) -> Option<String> {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        for signal in signals.forever() {
            if tell.send(signal).is_err() {
                break;
            }
        }
    });
    loop {
        match told.recv_timeout(Duration::from_secs(1)) {
            Err(RecvTimeoutError::Timeout) if running.has_stopped() => {
                let words =
                    "the drive stopped because of a bug in it; please report what standard error says above";
                return Some(words.to_owned());
            }
            Err(RecvTimeoutError::Timeout) => {
                tiers.look();
                if let Some(lost) = export.and_then(Export::lost) {
                    return Some(lost);
                }
            }
            Ok(SIGHUP) => match &options.hosts {
                Some(hosts) => reload_hosts(hosts, options, running),
                None => return None,
            },
            _ => return None,
        }
    }
}
