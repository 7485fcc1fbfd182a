//! `tranche store`: files on the zones of a zoned namespace.

use crate::connect::Connected;
use crate::exit::FailedCheck;
use crate::options::Output;
use crate::progress;
use crate::table::table;
use crate::zone_target::{Of, find};
use crate::{print_json, print_json_line, print_text};
use anyhow::{Context, Result};
use clap::{Args, Subcommand, ValueEnum};
use export::MountedFileSystem;
use host::{Queue, Zoned};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use store::{
    APPEND_QUEUES, Claim, FileKind, FileSystem, FormatOptions, NamespaceZones, Placement, Stat, Usage,
    ZoneDevice, ZoneUse,
};
use units::format_size;

/// Commands under way at once, for each thread.
const DEPTH: u16 = 32;
/// Threads that answer the kernel. Each can wait for the drive.
const THREADS: usize = 4;
/// What was written becomes durable after this time, also if no program asks for it.
const SYNC_EVERY: Duration = Duration::from_secs(5);
/// How often a mounted store looks for signals.
const SIGNAL_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// `tranche store`.
#[derive(Subcommand, Debug)]
pub enum Store {
    /// Make an empty store on a zoned namespace
    Format(Format),
    /// Mount a store as a file system until SIGINT or SIGTERM, or until somebody unmounts it
    ///
    /// The mount follows POSIX: fsync makes a file durable on the drive. Data that dies together shares zones. The extended attribute
    /// user.tranche.lifetime (short, medium, long or extreme) says how long the data of a file is expected to live. The attribute
    /// user.tranche.keys (as in 2:61-7a: level, first and last key in hexadecimal) says which keys a file holds.
    Mount(Mount),
    /// List a directory of a store that is not mounted
    Ls(Ls),
    /// Say how full a store is that is not mounted, or what is known of a file in it
    Stat(StatOf),
    /// Look for contradictions in a store that is not mounted
    Check(Check),
}

/// `tranche store format`.
#[derive(Args, Debug)]
pub struct Format {
    /// Empty zones that hold something: everything in them is lost
    #[arg(long)]
    force: bool,
    /// Zones for the log of the metadata, at least 3 [default: 1 of 64, at least 3, at most 16]
    #[arg(long, value_name = "N")]
    log_zones: Option<u32>,
    /// Zones that no file can take, at least 2: garbage collection needs them [default: 1 of 20, at least 3, at most 64]
    #[arg(long, value_name = "N")]
    reserved_zones: Option<u32>,
    /// What decides which data shares zones, unless a mount says something else [default: overlap]
    #[arg(long, value_enum)]
    placement: Option<PlacementName>,
    #[command(flatten)]
    of: Of,
}

/// `tranche store mount`.
#[derive(Args, Debug)]
pub struct Mount {
    /// An empty directory
    dir: PathBuf,
    /// What decides which data shares zones, until the store is unmounted [default: what format was told]
    #[arg(long, value_enum)]
    placement: Option<PlacementName>,
    #[command(flatten)]
    of: Of,
}

/// What decides which data shares zones.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum PlacementName {
    /// Nothing
    None,
    /// The lifetime that its writer expects, else size and age
    Lifetime,
    /// As lifetime, and ranges of keys where the writer gives them
    Overlap,
}

impl From<PlacementName> for Placement {
    fn from(name: PlacementName) -> Self {
        match name {
            PlacementName::None => Self::None,
            PlacementName::Lifetime => Self::Lifetime,
            PlacementName::Overlap => Self::Overlap,
        }
    }
}

/// `tranche store ls`.
#[derive(Args, Debug)]
pub struct Ls {
    /// The directory
    #[arg(default_value = "/")]
    path: String,
    /// List the directories within it, too
    #[arg(long, short = 'R')]
    recursive: bool,
    #[command(flatten)]
    of: Of,
}

/// `tranche store stat`.
#[derive(Args, Debug)]
pub struct StatOf {
    /// A file or directory [default: the store as a whole]
    path: Option<String>,
    /// List what each zone of data holds
    #[arg(long, conflicts_with = "path")]
    zones: bool,
    #[command(flatten)]
    of: Of,
}

/// `tranche store check`.
#[derive(Args, Debug)]
pub struct Check {
    /// Read all blocks of all files, too
    #[arg(long)]
    data: bool,
    #[command(flatten)]
    of: Of,
}

/// A namespace as a device, with the host that its queues belong to.
struct Opened<D> {
    _host: Connected,
    ns: Zoned,
    device: D,
}

fn open(of: &Of, queues: usize) -> Result<Opened<NamespaceZones<impl Queue + use<>>>> {
    let (mut host, ns) = find(of)?;
    let queues = (0..queues).map(|_| host.io_queue(DEPTH)).collect::<Result<_, _>>()?;
    Ok(Opened { _host: host, ns, device: NamespaceZones::new(ns, queues) })
}

/// `tranche store`.
pub fn store(command: &Store, output: Output) -> Result<()> {
    match command {
        Store::Format(options) => format(options, output),
        Store::Mount(options) => mount(options, output),
        Store::Ls(options) => ls(options, output),
        Store::Stat(options) => stat(options, output),
        Store::Check(options) => check(options, output),
    }
}

/// The store that was made.
#[derive(Serialize, JsonSchema)]
pub struct EmptyStore {
    /// What files may take.
    #[schemars(extend("unit" = "bytes"))]
    bytes: u64,
    /// Identifier of the store, 32 hexadecimal digits.
    id: String,
    /// Namespace identifier.
    nsid: u32,
}

/// The line that says that the store is mounted. It comes at the beginning; the command goes on.
#[derive(Serialize, JsonSchema)]
pub struct MountedStore {
    /// The directory.
    mounted: PathBuf,
    /// Namespace identifier.
    nsid: u32,
}

fn format(options: &Format, output: Output) -> Result<()> {
    let opened = open(&options.of, 1)?;
    // The store that is emptied must not be in use.
    let before = store::identify(&opened.device).ok();
    let _claim = before.map(|id| Claim::take(&id, options.of.on())).transpose()?;
    let mut id = [0; 16];
    host::fill_random(&mut id);
    let format = FormatOptions {
        log_zones: options.log_zones,
        reserved_zones: options.reserved_zones,
        placement: options.placement.map(Placement::from),
        force: options.force,
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
    store::Store::format(&opened.device, &format, id, now)?;
    let usage = store::Store::open_read_only(&opened.device)?.usage();
    let nsid = opened.ns.namespace.nsid;
    let bytes = usage.blocks * usage.block;
    match output {
        Output::Json => print_json(&EmptyStore { bytes, id: hex(&id), nsid }),
        Output::Text => {
            print_text(&format!("namespace {nsid} has an empty store with {} for files", format_size(bytes)))
        }
    }
}

fn hex(id: &[u8]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn mount(options: &Mount, output: Output) -> Result<()> {
    let control = progress::control()?;
    let opened = open(&options.of, THREADS + APPEND_QUEUES)?;
    let nsid = opened.ns.namespace.nsid;
    let _claim = Claim::take(&store::identify(&opened.device)?, options.of.on())?;
    let placement = options.placement.map(Placement::from);
    let store = Arc::new(store::Store::open(opened.device, placement)?);
    let mounted = MountedFileSystem::start(FileSystem::new(Arc::clone(&store)), &options.dir, THREADS)?;
    let dir = options.dir.display();
    match output {
        // One line: who waits for it reads no further.
        Output::Json => print_json_line(&MountedStore { mounted: options.dir.clone(), nsid })?,
        Output::Text => print_text(&format!("ready: the store of namespace {nsid} is mounted at {dir}"))?,
    }
    let mut synced = Instant::now();
    let (mut told, mut gone) = (false, false);
    while !control.is_cancelled() && !mounted.has_ended() {
        std::thread::sleep(SIGNAL_POLL_INTERVAL);
        if synced.elapsed() >= SYNC_EVERY {
            if store.has_unsynced() {
                // If it fails, the store says why below.
                let _ = store.sync_all();
            }
            // A store that only reads finds out here that it was taken over, or its drive was cut off, and says what to do.
            if let Err(error) = store.ask_device()
                && !gone
                && !matches!(error, store::Error::Taken | store::Error::Changed)
            {
                tracing::error!(
                    "the drive has left the store, so reads and writes of {dir} fail: {error}. When it is back, unmount the store and mount it \
                     again (umount {dir}; tranche store mount {dir}); what was synced is there"
                );
                gone = true;
            }
            synced = Instant::now();
        }
        if let Some(why) = store.failure().filter(|_| !told) {
            tracing::error!("the store takes no changes any more: {why}");
            told = true;
        }
    }
    mounted.stop()?;
    if let Some(why) = store.failure() {
        let goes_on = "a new mount goes on from what was synced and is on the zones; this one stopped";
        return Err(anyhow::Error::from(why).context(goes_on));
    }
    store.sync_all().context("what was written last may be lost")
}

fn kind(kind: FileKind) -> &'static str {
    match kind {
        FileKind::File => "file",
        FileKind::Directory => "directory",
        FileKind::Symlink => "symlink",
    }
}

/// A file of a store.
#[derive(Serialize, JsonSchema)]
pub struct StoredFile {
    /// Blocks that it has in zones.
    #[schemars(extend("unit" = "bytes"))]
    bytes_on_zones: u64,
    /// Last change of the inode, since 1970.
    #[schemars(extend("unit" = "ns"))]
    ctime_ns: u64,
    /// Group.
    gid: u32,
    /// Number of the inode.
    inode: u64,
    /// What it is.
    #[schemars(extend("enum" = ["file", "directory", "symlink"]))]
    kind: &'static str,
    /// Names that it has; of a directory also those within it.
    links: u32,
    /// Permission bits.
    mode: u32,
    /// Last change of the contents, since 1970.
    #[schemars(extend("unit" = "ns"))]
    mtime_ns: u64,
    /// Path within the store.
    path: String,
    /// Length of a file in bytes, of a directory in names, of a symbolic link's target in bytes.
    size: u64,
    /// Owner.
    uid: u32,
}

impl StoredFile {
    fn new(path: &str, stat: &Stat, block: u64) -> Self {
        Self {
            bytes_on_zones: stat.blocks * block,
            ctime_ns: stat.attributes.ctime,
            gid: stat.attributes.gid,
            inode: stat.ino.0,
            kind: kind(stat.kind),
            links: stat.links,
            mode: stat.attributes.mode,
            mtime_ns: stat.attributes.mtime,
            path: path.to_owned(),
            size: stat.size,
            uid: stat.attributes.uid,
        }
    }
}

/// Files of a directory.
#[derive(Serialize, JsonSchema)]
pub struct Listed {
    /// They, by their paths.
    files: Vec<StoredFile>,
}

fn about_path<T>(path: &str, result: Result<T, store::Error>) -> Result<T> {
    result.with_context(|| path.to_owned())
}

/// All names below a directory, with their paths.
fn walk<D: ZoneDevice>(store: &store::Store<D>, path: &str, recursive: bool) -> Result<Vec<(String, Stat)>> {
    let top = about_path(path, store.find(path.as_bytes()))?;
    let mut found = Vec::new();
    if top.kind != FileKind::Directory {
        return Ok(vec![(path.to_owned(), top)]);
    }
    let mut directories = vec![(path.trim_end_matches('/').to_owned(), top)];
    while let Some((path, directory)) = directories.pop() {
        for (name, stat) in store.list(directory.ino, None, usize::MAX)? {
            let path = format!("{path}/{}", String::from_utf8_lossy(&name));
            if recursive && stat.kind == FileKind::Directory {
                directories.push((path.clone(), stat.clone()));
            }
            found.push((path, stat));
        }
    }
    found.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(found)
}

fn ls(options: &Ls, output: Output) -> Result<()> {
    let opened = open(&options.of, 1)?;
    let store = store::Store::open_read_only(opened.device)?;
    let found = walk(&store, &options.path, options.recursive)?;
    let block = store.usage().block;
    match output {
        Output::Json => {
            let files = found.iter().map(|(path, stat)| StoredFile::new(path, stat, block)).collect();
            print_json(&Listed { files })
        }
        Output::Text => {
            let row = |(path, stat): &(String, Stat)| {
                let size =
                    if stat.kind == FileKind::Directory { "-".to_owned() } else { stat.size.to_string() };
                [kind(stat.kind).to_owned(), format!("{:04o}", stat.attributes.mode), size, path.clone()]
            };
            let rows: Vec<[String; 4]> = found.iter().map(row).collect();
            print_text(&table(&["Kind", "Mode", "Size", "Path"], &rows))
        }
    }
}

/// How full a store is.
#[derive(Serialize, JsonSchema)]
pub struct Filled {
    /// What files may take.
    #[schemars(extend("unit" = "bytes"))]
    bytes: u64,
    /// Zones of data by what they are used for.
    data_zones: DataZones,
    /// Of these, what no file takes.
    #[schemars(extend("unit" = "bytes"))]
    free_bytes: u64,
    /// Identifier of the store, 32 hexadecimal digits.
    id: String,
    /// Files, directories and symbolic links.
    inodes: u64,
    /// Zones of the log.
    #[schemars(extend("unit" = "zones"))]
    log_zones: u32,
    /// Metadata, about.
    #[schemars(extend("unit" = "bytes"))]
    metadata_bytes: u64,
    /// Most metadata.
    #[schemars(extend("unit" = "bytes"))]
    metadata_limit_bytes: u64,
    /// What garbage collection wrote to them since then.
    #[schemars(extend("unit" = "bytes"))]
    moved_bytes: u64,
    /// Namespace identifier.
    nsid: u32,
    /// What decides which data shares zones, unless a mount says something else.
    #[schemars(extend("enum" = ["none", "lifetime", "overlap"]))]
    placement: &'static str,
    /// Zones of data that no file can take.
    #[schemars(extend("unit" = "zones"))]
    reserved_zones: u32,
    /// Both together for each byte that programs wrote; 1 if there is none.
    write_amplification: f64,
    /// What programs wrote to zones of data since the store was made.
    #[schemars(extend("unit" = "bytes"))]
    written_bytes: u64,
}

/// Zones of data by what they are used for.
#[derive(Serialize, JsonSchema)]
struct DataZones {
    /// They are worn out.
    #[schemars(extend("unit" = "zones"))]
    broken: usize,
    /// They hold data of files, and take none.
    #[schemars(extend("unit" = "zones"))]
    closed: usize,
    /// No file has blocks in them; they are reset when they are needed.
    #[schemars(extend("unit" = "zones"))]
    dead: usize,
    /// Nothing is in them.
    #[schemars(extend("unit" = "zones"))]
    empty: usize,
    /// They take data.
    #[schemars(extend("unit" = "zones"))]
    open: usize,
}

impl Filled {
    fn new(nsid: u32, id: &[u8], placement: Placement, usage: &Usage) -> Self {
        let [empty, open, closed, dead, broken] = usage.zones;
        Self {
            bytes: usage.blocks * usage.block,
            data_zones: DataZones { broken, closed, dead, empty, open },
            free_bytes: usage.free_blocks * usage.block,
            id: hex(id),
            inodes: usage.inodes,
            log_zones: usage.log_zones,
            metadata_bytes: usage.metadata,
            metadata_limit_bytes: usage.metadata_limit,
            moved_bytes: usage.moved_blocks * usage.block,
            nsid,
            placement: placement.name(),
            reserved_zones: usage.reserved_zones,
            write_amplification: (usage.write_amplification() * 1000.0).round() / 1000.0,
            written_bytes: usage.written_blocks * usage.block,
        }
    }
}

fn stat(options: &StatOf, output: Output) -> Result<()> {
    let opened = open(&options.of, 1)?;
    let store = store::Store::open_read_only(opened.device)?;
    let usage = store.usage();
    if options.zones {
        return zones(&store.zones(), usage.block, output);
    }
    let value = match &options.path {
        Some(path) => {
            let stat = about_path(path, store.find(path.as_bytes()))?;
            serde_json::to_value(StoredFile::new(path, &stat, usage.block))?
        }
        None => {
            let nsid = opened.ns.namespace.nsid;
            serde_json::to_value(Filled::new(nsid, &store.id(), store.placement(), &usage))?
        }
    };
    match output {
        Output::Json => print_json(&value),
        Output::Text => {
            let mut rows = Vec::new();
            flatten("", &value, &mut rows);
            print_text(&table(&["", ""], &rows))
        }
    }
}

/// What the zones of data hold.
#[derive(Serialize, JsonSchema)]
pub struct UsedZones {
    /// The zones that hold data.
    zones: Vec<UsedZone>,
}

/// A zone.
#[derive(Serialize, JsonSchema)]
struct UsedZone {
    /// What it can hold.
    #[schemars(extend("unit" = "bytes"))]
    capacity_bytes: u64,
    /// Files that have it.
    files: u64,
    /// Levels of the files whose keys are known.
    levels: Vec<u8>,
    /// The lifetimes that these files have by their attributes.
    lifetimes: Vec<&'static str>,
    /// Of these, what files have.
    #[schemars(extend("unit" = "bytes"))]
    live_bytes: u64,
    /// What it is used for.
    #[schemars(extend("enum" = ["empty", "open", "closed", "dead", "broken"]))]
    state: &'static str,
    /// What was written since its last reset.
    #[schemars(extend("unit" = "bytes"))]
    written_bytes: u64,
    /// Its number.
    zone: u32,
}

/// What zones of data hold, those without data left out.
fn zones(zones: &[ZoneUse], block: u64, output: Output) -> Result<()> {
    let used = zones.iter().filter(|zone| zone.written > 0 || zone.live > 0);
    let lifetimes =
        |zone: &ZoneUse| zone.lifetimes.iter().map(|lifetime| lifetime.name()).collect::<Vec<_>>();
    match output {
        Output::Json => {
            let zone = |zone: &ZoneUse| UsedZone {
                capacity_bytes: zone.capacity * block,
                files: zone.files,
                levels: zone.levels.iter().copied().collect(),
                lifetimes: lifetimes(zone),
                live_bytes: zone.live * block,
                state: zone.state.name(),
                written_bytes: zone.written * block,
                zone: zone.zone,
            };
            print_json(&UsedZones { zones: used.map(zone).collect() })
        }
        Output::Text => {
            let row = |zone: &ZoneUse| {
                let levels: Vec<String> = zone.levels.iter().map(u8::to_string).collect();
                [
                    zone.zone.to_string(),
                    zone.state.name().to_owned(),
                    format_size(zone.written * block),
                    format_size(zone.live * block),
                    zone.files.to_string(),
                    lifetimes(zone).join(", "),
                    levels.join(", "),
                ]
            };
            let rows: Vec<[String; 7]> = used.map(row).collect();
            let columns = ["Zone", "State", "Written", "Of files", "Files", "Lifetimes", "Levels"];
            print_text(&table(&columns, &rows))
        }
    }
}

/// The values of an object, with names as people write them, and bytes in the units of other commands.
fn flatten(before: &str, value: &Value, rows: &mut Vec<[String; 2]>) {
    for (key, value) in value.as_object().into_iter().flatten() {
        let words: Vec<&str> = key.split('_').filter(|word| *word != "bytes").collect();
        let name = if words.is_empty() { "size".to_owned() } else { words.join(" ") };
        let name = format!("{before}{name}");
        let is_size = key == "size" || key.split('_').any(|word| word == "bytes");
        match value {
            Value::Object(_) => flatten(&format!("{name}, "), value, rows),
            Value::String(text) => rows.push([name, text.clone()]),
            Value::Number(bytes) if is_size => rows.push([name, format_size(bytes.as_u64().unwrap_or(0))]),
            other => rows.push([name, other.to_string()]),
        }
    }
}

/// What a check found.
#[derive(Serialize, JsonSchema)]
pub struct Checked {
    /// Blocks of files.
    #[schemars(extend("unit" = "bytes"))]
    bytes: u64,
    /// Directories.
    directories: u64,
    /// Runs that they lie in.
    extents: u64,
    /// Regular files.
    files: u64,
    /// Contradictions, one sentence each.
    problems: Vec<String>,
    /// Symbolic links.
    symlinks: u64,
}

fn check(options: &Check, output: Output) -> Result<()> {
    let opened = open(&options.of, 1)?;
    let block = u64::from(opened.ns.namespace.block_size);
    let report = match store::Store::open_read_only(opened.device) {
        Ok(store) => store.check(options.data)?,
        Err(store::Error::Damaged(why)) => {
            let mut report = store::Report::default();
            report.problems.push(format!("the store does not open: {why}"));
            report
        }
        Err(error) => return Err(error.into()),
    };
    let problems = report.problems.len();
    match output {
        Output::Json => print_json(&Checked {
            bytes: report.blocks * block,
            directories: report.directories,
            extents: report.extents,
            files: report.files,
            problems: report.problems,
            symlinks: report.symlinks,
        })?,
        Output::Text => {
            let (files, directories, symlinks) = (report.files, report.directories, report.symlinks);
            let size = format_size(report.blocks * block);
            let mut lines = report.problems.clone();
            lines.push(format!(
                "{files} files, {directories} directories, {symlinks} symbolic links; {size} in {} extents; {problems} problems",
                report.extents
            ));
            print_text(&lines.join("\n"))?;
        }
    }
    match problems {
        0 => Ok(()),
        _ => Err(FailedCheck(format!("the store has {problems} problems")).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn people_read_sizes_and_programs_bytes() {
        let value = json!({ "bytes": 1 << 30, "free_bytes": 3 << 20, "inodes": 7, "data_zones": { "open": 2 }, "size": 5000 });
        let mut rows = Vec::new();
        flatten("", &value, &mut rows);
        let row = |name: &str, text: &str| [name.to_owned(), text.to_owned()];
        rows.sort();
        assert_eq!(
            rows,
            [
                row("data zones, open", "2"),
                row("free", "3MiB"),
                row("inodes", "7"),
                row("size", "1GiB"),
                row("size", "5000B"),
            ]
        );
    }
}
