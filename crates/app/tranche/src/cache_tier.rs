//! `tranche cache`: a fast device in front of a slow one.

use crate::connect::connect_to;
use crate::default_address::runtime_directory;
use crate::options::{Credentials, FuseIo, Output};
use crate::signals::asked_by;
use crate::table::table;
use crate::{print_json, print_text};
use anyhow::{Context, Result, bail};
use cache::control::{Answer, Request, Server, Status, ask};
use cache::{BlockFiles, Devices, LiveTier, Place, Role, Source};
use clap::{Args, Subcommand};
use export::drive::Drive;
use export::{Export, FuseTransport};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::collections::BTreeSet;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tier::{Config, Control, Mode, PolicyKind, Start};

/// How often a tier that is served looks whether it is to end, or must.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// `tranche cache`.
#[derive(Subcommand, Debug)]
pub enum Cache {
    /// Make a cache tier of three devices; what the cache device holds is lost
    ///
    /// The origin keeps its contents. See docs/cache.md for modes and policies.
    Create(Create),
    /// Serve a cache tier as a block file until SIGINT or SIGTERM
    Serve(Box<ServeTier>),
    /// Show how a cache tier is: what it holds, hits and misses
    Status(StatusOf),
    /// Change what a write does
    Mode {
        /// writeback, writethrough or passthrough
        mode: Mode,
        #[command(flatten)]
        reach: Reach,
    },
    /// Change which chunks are cached
    Policy {
        /// smq, mq, smq-4.11 or cleaner
        policy: PolicyKind,
        #[command(flatten)]
        reach: Reach,
    },
    /// Set a tunable, until the tier is served anew
    Set {
        /// Its name in dm-cache: migration_threshold, or one of the policy mq
        key: String,
        /// A number
        value: String,
        #[command(flatten)]
        reach: Reach,
    },
    /// Write everything dirty back to the origin; it stays in the cache
    Flush(Reach),
    /// Take chunks out of the cache, in passthrough mode only: what somebody wrote to the origin is read from then on
    Invalidate {
        /// Places in the cache, as BEGIN-END, the end not included [default: all]
        #[arg(value_name = "BEGIN-END", value_parser = places)]
        places: Option<(u32, u32)>,
        #[command(flatten)]
        reach: Reach,
    },
    /// Write everything dirty back and remove the tier, so that the origin alone is complete. Nobody serves it meanwhile
    Remove(Remove),
}

/// The three devices.
#[derive(Args, Debug)]
pub struct Three {
    /// The large and slow device: ADDR/NSID (as unix:///run/tranche.sock/1), or the path of a file or block device
    #[arg(long, value_name = "DEVICE")]
    origin: Place,
    /// The small and fast device
    #[arg(long, value_name = "DEVICE")]
    cache: Place,
    /// The device for what lies on the cache
    #[arg(long, value_name = "DEVICE")]
    metadata: Place,
    #[command(flatten)]
    credentials: Credentials,
}

/// `tranche cache create`.
#[derive(Args, Debug)]
pub struct Create {
    #[command(flatten)]
    three: Three,
    /// Size of a chunk: 32KiB to 1GiB, a multiple of 32KiB
    #[arg(long, value_name = "SIZE", default_value = "256KiB", value_parser = units::parse_size)]
    chunk: u64,
    /// What a write does: writeback, writethrough or passthrough
    #[arg(long, default_value_t)]
    mode: Mode,
    /// Which chunks are cached: smq, mq, smq-4.11 or cleaner
    #[arg(long, default_value_t)]
    policy: PolicyKind,
    /// Take the place of what the metadata device holds: of another tier, whose chunks that are not written back are lost, or of anything else
    #[arg(long)]
    replace: bool,
}

/// `tranche cache serve`.
#[derive(Args, Debug)]
pub struct ServeTier {
    #[command(flatten)]
    three: Three,
    #[command(flatten)]
    reach: Reach,
    /// Mount this empty directory with the block file cache-NAME
    #[arg(long, value_name = "DIR")]
    fuse: PathBuf,
    /// Attach a loop device to the block file
    #[arg(long = "loop")]
    loops: bool,
    /// Threads that take requests from the kernel [default: 2 through /dev/fuse, one for each processor through io_uring]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    fuse_threads: Option<u16>,
    /// How requests come from the kernel: through io_uring, which is faster for small requests, or through /dev/fuse, which is faster for large ones
    #[arg(long, value_name = "auto|uring|device", default_value = "auto")]
    fuse_io: FuseIo,
    /// What a write does [default: as in the last session]
    #[arg(long)]
    mode: Option<Mode>,
    /// Which chunks are cached [default: as in the last session]
    #[arg(long)]
    policy: Option<PolicyKind>,
    /// Set a tunable; several times for several
    #[arg(long = "tunable", alias = "set", value_name = "KEY=VALUE", value_parser = key_value)]
    tunables: Vec<(String, String)>,
    /// Open metadata of which an operation failed before. What is there is checked as always
    #[arg(long)]
    repair: bool,
}

/// Which tier that runs.
#[derive(Args, Debug)]
pub struct Reach {
    /// Name of the tier: that of a [[cache]] in a drive's TOML, or as `tranche cache serve` was told
    #[arg(long, value_name = "NAME", default_value = "0", value_parser = name)]
    name: String,
    /// The Unix socket through which the tier is controlled [default: /run/tranche/cache/NAME.sock for root,
    /// tranche/cache/NAME.sock in $XDG_RUNTIME_DIR for others]
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
}

/// `tranche cache status`.
#[derive(Args, Debug)]
pub struct StatusOf {
    #[command(flatten)]
    reach: Reach,
    /// The metadata device of a tier that does not run: says what is recorded there
    #[arg(long, value_name = "DEVICE", conflicts_with = "control")]
    metadata: Option<Place>,
    #[command(flatten)]
    credentials: Credentials,
}

/// `tranche cache remove`.
#[derive(Args, Debug)]
pub struct Remove {
    #[command(flatten)]
    three: Three,
    /// Open metadata of which an operation failed before
    #[arg(long)]
    repair: bool,
}

fn name(text: &str) -> Result<String, String> {
    match cache::table::is_name(text) {
        true => Ok(text.to_owned()),
        false => {
            Err("a name has 1 to 32 letters, digits, '-', '_' and '.', and begins with no '.'".to_owned())
        }
    }
}

fn key_value(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("write KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}

fn places(text: &str) -> Result<(u32, u32), String> {
    let (begin, end) = text.split_once('-').ok_or("write BEGIN-END")?;
    let number = |text: &str| text.parse().map_err(|_| format!("'{text}' is no place: write BEGIN-END"));
    Ok((number(begin)?, number(end)?))
}

/// Carries out the command.
pub fn cache(command: &Cache, output: Output) -> Result<()> {
    match command {
        Cache::Create(options) => create(options, output),
        Cache::Serve(options) => serve(options, output),
        Cache::Status(options) => status(options, output),
        Cache::Mode { mode, reach } => change(reach, &Request::Mode { mode: mode.to_string() }, output),
        Cache::Policy { policy, reach } => {
            change(reach, &Request::Policy { policy: policy.to_string() }, output)
        }
        Cache::Set { key, value, reach } => {
            change(reach, &Request::Set { key: key.clone(), value: value.clone() }, output)
        }
        Cache::Flush(reach) => change(reach, &Request::Flush, output),
        Cache::Invalidate { places, reach } => {
            let (begin, end) = places.unzip();
            change(reach, &Request::Invalidate { begin, end }, output)
        }
        Cache::Remove(options) => remove(options, output),
    }
}

impl Reach {
    /// The socket of the tier.
    fn socket(&self) -> Result<PathBuf> {
        match &self.control {
            Some(path) => Ok(path.clone()),
            None => socket_of(&self.name),
        }
    }
}

/// Where the tier of this name is controlled, unless somebody says otherwise.
pub fn socket_of(name: &str) -> Result<PathBuf> {
    let directory = runtime_directory().context(
        "there is no directory for the control socket: set XDG_RUNTIME_DIR, or name a socket with --control",
    )?;
    Ok(directory.join("tranche/cache").join(format!("{name}.sock")))
}

/// Opens a device anywhere.
pub fn open(role: Role, place: &Place, credentials: &Credentials) -> Result<Source> {
    Ok(match place {
        Place::Path(path) => Source::file(role, path)?,
        Place::Namespace { addr, nsid } => {
            let host = connect_to(addr, credentials).with_context(|| format!("{role} {place}"))?;
            Source::namespace(role, addr, *nsid, host)?
        }
        Place::Own(_) => bail!("{role}: a namespace has a drive: write ADDR/NSID"),
    })
}

fn open_three(three: &Three) -> Result<Devices> {
    let Three { origin, cache, metadata, credentials } = three;
    cache::check_apart([(Role::Origin, origin), (Role::Cache, cache), (Role::Metadata, metadata)])?;
    Ok(Devices {
        origin: open(Role::Origin, origin, credentials)?,
        cache: open(Role::Cache, cache, credentials)?,
        metadata: open(Role::Metadata, metadata, credentials)?,
    })
}

/// A number that no tier before had.
pub fn new_start(replace: bool) -> Start {
    let mut seed = [0; 8];
    host::fill_random(&mut seed);
    Start::Create { seed: u64::from_le_bytes(seed), replace }
}

/// The tier that was made.
#[derive(Serialize, JsonSchema)]
pub struct NewTier {
    /// Size of the origin, which is that of the tier.
    #[schemars(extend("unit" = "bytes"))]
    bytes: u64,
    /// Size of a chunk.
    #[schemars(extend("unit" = "bytes"))]
    chunk: u64,
    /// Places for chunks in the cache.
    chunks: u32,
    /// What a write does: `writeback`, `writethrough` or `passthrough`.
    mode: String,
    /// Which chunks are cached: `smq`, `mq`, `smq-4.11` or `cleaner`.
    policy: String,
}

/// The line that says that the tier is served. It comes at the beginning; the command goes on.
#[derive(Serialize, JsonSchema)]
pub struct ServedTier<'a> {
    /// The socket through which it is controlled.
    control: String,
    /// Its block file.
    file: String,
    /// Its loop device.
    #[schemars(extend("null" = "without --loop"))]
    r#loop: Option<String>,
    /// Name of the tier.
    name: &'a str,
    /// Always true.
    ready: bool,
}

/// A tier that does not run, as its metadata has it.
#[derive(Serialize, JsonSchema)]
pub struct RecordedTier {
    /// Size of the origin, which is that of the tier.
    #[schemars(extend("unit" = "bytes"))]
    bytes: u64,
    /// Size of a chunk.
    #[schemars(extend("unit" = "bytes"))]
    chunk: u64,
    /// Places for chunks in the cache.
    chunks: u32,
    /// What a write does: `writeback`, `writethrough` or `passthrough`.
    mode: String,
    /// An operation of metadata failed: opening it needs --repair.
    needs_check: bool,
    /// Which chunks are cached: `smq`, `mq`, `smq-4.11` or `cleaner`.
    policy: String,
    /// Reads that the cache answered, until the last checkpoint.
    read_hits: u64,
    /// Reads that the origin answered.
    read_misses: u64,
    /// Always false.
    running: bool,
    /// Whether the last session ended in order.
    shut_down_in_order: bool,
    /// Writes that went to the cache.
    write_hits: u64,
    /// Writes that went to the origin alone.
    write_misses: u64,
}

/// What was done before the tier was removed.
#[derive(Serialize, JsonSchema)]
pub struct RemovedTier {
    /// Size of the origin, which is complete now.
    #[schemars(extend("unit" = "bytes"))]
    bytes: u64,
    /// Chunks that were written back.
    written_back: u64,
}

fn create(options: &Create, output: Output) -> Result<()> {
    let Create { three, chunk, mode, policy, replace } = options;
    let config = Config { chunk: *chunk, mode: *mode, policy: *policy, ..Config::default() };
    config.check_chunk()?;
    let mut devices = open_three(three)?;
    if !replace {
        // The tier itself says that there is another one.
        cache::recorded_or_blank(&mut devices.metadata.device)?;
    }
    let tier = LiveTier::open("new", config, new_start(*replace), devices)?;
    let found = Status::of(&tier);
    tier.close().context("the new tier could not be closed")?;
    let Status { bytes, chunk, chunks, mode, policy, .. } = found;
    match output {
        Output::Json => print_json(&NewTier { bytes, chunk, chunks, mode, policy }),
        Output::Text => print_text(&format!(
            "a cache tier of {} with room for {chunks} chunks of {} in the cache; {mode}, {policy}",
            units::format_size(bytes),
            units::format_size(chunk),
        )),
    }
}

/// What a served tier is opened with: what was recorded, unless something else is asked for.
fn config_of(devices: &mut Devices, options: &ServeTier) -> Result<Config> {
    let recorded = cache::recorded(&mut devices.metadata.device)?;
    Ok(Config {
        chunk: recorded.chunk,
        mode: options.mode.unwrap_or(recorded.mode),
        policy: options.policy.unwrap_or(recorded.policy),
        repair: options.repair,
        ..Config::default()
    })
}

fn serve(options: &ServeTier, output: Output) -> Result<()> {
    export::prepare(&options.fuse)?;
    let asked = asked_by(&[SIGINT, SIGTERM, SIGHUP])?;
    let socket = options.reach.socket()?;
    let mut devices = open_three(&options.three)?;
    let config = config_of(&mut devices, options)?;
    let tier = LiveTier::open(&options.reach.name, config, Start::Open, devices)?;
    let served = serve_tier(&tier, options, &socket, &asked, output);
    let closed = tier.close().with_context(|| {
        format!(
            "the cache tier {} was not shut down in order; the next start is as after a crash",
            tier.name()
        )
    });
    served.and(closed)
}

/// Serves a tier that is open until a signal comes, or it can take no more writes.
fn serve_tier(
    tier: &Arc<LiveTier>,
    options: &ServeTier,
    socket: &Path,
    asked: &AtomicBool,
    output: Output,
) -> Result<()> {
    for (key, value) in &options.tunables {
        tier.set(key, value)?;
    }
    let server = Server::start(tier, socket)?;
    let wanted = export::Options {
        loops: options.loops,
        threads: options.fuse_threads.map(usize::from),
        transport: FuseTransport::from(options.fuse_io),
    };
    let connect = |reports| {
        let files = BlockFiles::new(None, BTreeSet::new(), vec![tier.clone()], reports);
        Ok(files as Arc<dyn Drive>)
    };
    let mut export = Export::over(connect, &options.fuse, wanted)?;
    if let Err(error) = say_ready(tier, &export, &server, output) {
        tracing::warn!("cannot say on standard output that the tier is ready: {error}");
    }
    let mut warned = false;
    let trouble = loop {
        if asked.load(Ordering::Relaxed) {
            break None;
        }
        if let Some(trouble) = tier.failure().or_else(|| export.lost()) {
            break Some(trouble);
        }
        if !warned && let Some(warning) = tier.warning() {
            tracing::warn!("{warning}");
            warned = true;
        }
        std::thread::sleep(POLL_INTERVAL);
    };
    for obstacle in export.stop() {
        tracing::warn!("{obstacle}");
    }
    match trouble {
        Some(trouble) => bail!(trouble),
        None => Ok(()),
    }
}

/// The one line on standard output that scripts wait for.
fn say_ready(tier: &LiveTier, export: &Export, server: &Server, output: Output) -> std::io::Result<()> {
    let devices = export.devices();
    let file = devices.first().map(|device| device.file.display().to_string()).unwrap_or_default();
    let node = devices.first().and_then(|device| device.node.as_ref()).map(|node| node.display().to_string());
    let control = server.path().display().to_string();
    let line = match output {
        Output::Json => serde_json::to_string(&ServedTier {
            control,
            file,
            r#loop: node,
            name: tier.name(),
            ready: true,
        })?,
        Output::Text => {
            let node = node.map(|node| format!(" loop={node}")).unwrap_or_default();
            format!("ready name={} file={file}{node} control={control}", tier.name())
        }
    };
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

/// What a change has changed, in words; `None` for a look.
fn changed(request: &Request, status: &Status) -> Option<String> {
    Some(match request {
        Request::Status => return None,
        Request::Mode { .. } => format!("mode: {}", status.mode),
        Request::Policy { .. } => format!("policy: {}", status.policy),
        Request::Set { key, value } => {
            let value = status.tunables.get(key).map_or_else(|| value.clone(), u64::to_string);
            format!("{key}: {value}")
        }
        Request::Flush => format!("flushed: {} chunks are dirty", status.dirty),
        Request::Invalidate { .. } => {
            format!("invalidated: {} of {} chunks are in the cache", status.cached, status.chunks)
        }
    })
}

fn change(reach: &Reach, request: &Request, output: Output) -> Result<()> {
    let socket = reach.socket()?;
    match ask(&socket, request) {
        Ok(Answer::Status(status)) => match (changed(request, &status), output) {
            (Some(line), Output::Text) => print_text(&line),
            _ => show(&serde_json::to_value(*status)?, output),
        },
        Ok(Answer::Error(error)) => bail!("the cache tier at {}: {error}", socket.display()),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => bail!(
            "no cache tier runs at {}: serve one with `tranche cache serve`, or name another with --name or --control",
            socket.display()
        ),
        Err(error) => Err(error).with_context(|| format!("asking the cache tier at {}", socket.display())),
    }
}

fn status(options: &StatusOf, output: Output) -> Result<()> {
    let Some(place) = &options.metadata else { return change(&options.reach, &Request::Status, output) };
    let mut source = open(Role::Metadata, place, &options.credentials)
        .context("only a tier that does not run is looked at by its metadata")?;
    let recorded = cache::recorded(&mut source.device)?;
    let [read_hits, read_misses, write_hits, write_misses] = recorded.hits_and_misses;
    let found = RecordedTier {
        bytes: recorded.origin_bytes,
        chunk: recorded.chunk,
        chunks: recorded.chunks,
        mode: recorded.mode.to_string(),
        needs_check: recorded.needs_check,
        policy: recorded.policy.to_string(),
        read_hits,
        read_misses,
        running: false,
        shut_down_in_order: recorded.in_order,
        write_hits,
        write_misses,
    };
    show(&serde_json::to_value(found)?, output)
}

/// Prints what is known of a tier: for people its fields, the line of dm-cache first.
fn show(status: &Value, output: Output) -> Result<()> {
    if output == Output::Json {
        return print_json(status);
    }
    let mut rows = Vec::new();
    for (key, value) in status.as_object().into_iter().flatten() {
        let shown = match value {
            Value::Object(all) => {
                rows.extend(all.iter().map(|(key, value)| [key.clone(), value.to_string()]));
                continue;
            }
            Value::Array(all) if all.is_empty() => continue,
            Value::Array(all) => {
                all.iter().filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>().join("; ")
            }
            Value::String(text) => text.clone(),
            Value::Number(number) if matches!(&**key, "chunk" | "bytes") => {
                units::format_size(number.as_u64().unwrap_or_default())
            }
            other => other.to_string(),
        };
        if key != "line" {
            rows.push([key.replace('_', " "), shown]);
        }
    }
    let line = status["line"].as_str().map(|line| format!("{line}\n")).unwrap_or_default();
    print_text(&format!("{line}{}", table(&["", ""], &rows)))
}

fn remove(options: &Remove, output: Output) -> Result<()> {
    let mut devices = open_three(&options.three)?;
    let recorded = cache::recorded(&mut devices.metadata.device)?;
    // The mode of writes to come does not matter. What is dirty is written back in each of them.
    let config = Config {
        chunk: recorded.chunk,
        mode: recorded.mode,
        policy: PolicyKind::Cleaner,
        repair: options.repair,
        ..Config::default()
    };
    let tier = LiveTier::open("removed", config, Start::Open, devices)?;
    tier.change(Control::WriteBack).context("the tier stays: not everything could be written back")?;
    let writebacks = tier.report().counters.writebacks;
    tier.close().context("the tier stays: it could not be closed in order")?;
    let mut metadata = LiveTier::into_metadata(tier).context("the tier stays: it is in use still")?;
    cache::remove(&mut metadata)?;
    match output {
        Output::Json => print_json(&RemovedTier { bytes: recorded.origin_bytes, written_back: writebacks }),
        Output::Text => print_text(&format!(
            "the cache tier is removed; the origin is complete (chunks written back: {writebacks})"
        )),
    }
}
