//! `tranche zone`: the zones of a zoned namespace.

use crate::options::Output;
use crate::table::table;
use crate::zone_change::{Action, ChangedZones, Open, Reset};
use crate::zone_read::ReadOf;
use crate::zone_target::{Of, about_zone, find, look, open, start};
use crate::{print_json, print_text, zone_change, zone_read};
use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand, ValueEnum};
use host::{IoQueue, Queue, Zoned, view};
use nvme::zone::{ZoneDescriptor, ZoneReportFilter, ZoneSendAction};
use schemars::JsonSchema;
use serde::Serialize;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Most bytes of one append.
const APPEND: usize = 1 << 20;

/// `tranche zone`.
#[derive(Subcommand, Debug)]
pub enum Zone {
    /// List zones: where they begin, their write pointers and their states
    Report(Report),
    /// Open zones explicitly: they stay open until they are closed, full or reset
    Open(Open),
    /// Close open zones: they stay active, and take no open resource
    Close(Action),
    /// Make zones full: they take no more data until they are reset
    Finish(Action),
    /// Make zones empty: everything in them is lost
    Reset(Reset),
    /// Take read-only zones offline: everything in them is lost for good
    Offline(Action),
    /// Append data to a zone, and print the logical block where they went
    ///
    /// Data come from FILE or from standard input. More than one command can take are appended in pieces. Where others append to the
    /// same zone, the pieces may be apart: each gets a line.
    Append(Append),
    /// Write data at the write pointer of a zone, or into its Zone Random Write Area
    Write(Write),
    /// Read the data of a zone, as raw bytes
    ///
    /// Logical blocks that nobody has written read as zeros.
    Read(ReadOf),
    /// Move the write pointer of a zone with a Zone Random Write Area: what it passes cannot be written again
    Flush(Flush),
    /// Wait until the drive changes zones by itself, and list them
    ///
    /// A drive tells each host what has changed since the host connected: worn zones become read only or go offline, and some drives finish zones
    /// that stay open for too long.
    Changed(Changed),
    /// Give an empty zone a descriptor extension: bytes of yours that its report shows. The zone is closed then
    SetExtension(SetExtension),
}

/// `tranche zone report`.
#[derive(Args, Debug)]
pub struct Report {
    /// Only zones in this state
    #[arg(long, value_name = "STATE")]
    state: Option<State>,
    /// Begin with this zone
    #[arg(long, value_name = "ZONE", default_value_t = 0)]
    from: u64,
    /// At most so many zones [default: all]
    #[arg(long, value_name = "N")]
    count: Option<u32>,
    #[command(flatten)]
    of: Of,
}

/// `tranche zone write`.
#[derive(Args, Debug)]
pub struct Write {
    /// Number of the zone; the first is 0
    zone: u64,
    /// The data: whole logical blocks [default: standard input]
    file: Option<PathBuf>,
    /// The first logical block, counted from the zone's begin [default: the write pointer]
    #[arg(long, value_name = "BLOCK")]
    at: Option<u64>,
    /// Fill the last logical block with zeros
    #[arg(long)]
    pad: bool,
    #[command(flatten)]
    of: Of,
}

/// `tranche zone flush`.
#[derive(Args, Debug)]
pub struct Flush {
    /// Number of the zone; the first is 0
    zone: u64,
    /// Where the write pointer is to be, in logical blocks from the zone's begin [default: the end of the area]
    #[arg(long, value_name = "BLOCK")]
    to: Option<u64>,
    #[command(flatten)]
    of: Of,
}

/// `tranche zone append`.
#[derive(Args, Debug)]
pub struct Append {
    /// Number of the zone; the first is 0
    zone: u64,
    /// The data: whole logical blocks [default: standard input]
    file: Option<PathBuf>,
    /// Fill the last logical block with zeros
    #[arg(long)]
    pad: bool,
    #[command(flatten)]
    of: Of,
}

/// `tranche zone set-extension`.
#[derive(Args, Debug)]
pub struct SetExtension {
    /// Number of the zone; the first is 0
    zone: u64,
    /// The extension, which is filled with zeros [default: standard input]
    file: Option<PathBuf>,
    #[command(flatten)]
    of: Of,
}

/// States that a report can be limited to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum State {
    /// Nothing is written.
    Empty,
    /// Opened by a write.
    ImplicitlyOpened,
    /// Opened by a command.
    ExplicitlyOpened,
    /// Written in part, not open.
    Closed,
    /// Written to its end, or finished.
    Full,
    /// It can be read, but neither written nor reset.
    ReadOnly,
    /// It can neither be read nor written.
    Offline,
}

impl State {
    fn filter(self) -> ZoneReportFilter {
        match self {
            State::Empty => ZoneReportFilter::EMPTY,
            State::ImplicitlyOpened => ZoneReportFilter::IMPLICITLY_OPENED,
            State::ExplicitlyOpened => ZoneReportFilter::EXPLICITLY_OPENED,
            State::Closed => ZoneReportFilter::CLOSED,
            State::Full => ZoneReportFilter::FULL,
            State::ReadOnly => ZoneReportFilter::READ_ONLY,
            State::Offline => ZoneReportFilter::OFFLINE,
        }
    }
}

/// `tranche zone changed`.
#[derive(Args, Debug)]
pub struct Changed {
    /// Wait no longer than this; an empty list says that nothing has changed [default: without end]
    #[arg(long = "for", value_name = "TIME", value_parser = units::parse_time)]
    time: Option<u64>,
    #[command(flatten)]
    of: Of,
}

/// How often a drive is asked for zones that have changed.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// `tranche zone`.
pub fn zone(command: &Zone, output: Output) -> Result<()> {
    let (action, change, force) = match command {
        Zone::Report(options) => return report(options, output),
        Zone::Append(options) => return append(options, output),
        Zone::SetExtension(options) => return set_extension(options, output),
        Zone::Write(options) => return write(options, output),
        Zone::Flush(options) => return flush(options, output),
        Zone::Changed(options) => return changed(options, output),
        Zone::Read(options) => return zone_read::read(options, output),
        Zone::Open(Open { action, zrwa: true }) => return zone_change::open_with_areas(action, output),
        Zone::Open(Open { action, zrwa: false }) => (ZoneSendAction::OPEN, action, true),
        Zone::Close(change) => (ZoneSendAction::CLOSE, change, true),
        Zone::Finish(change) => (ZoneSendAction::FINISH, change, true),
        Zone::Reset(Reset { action, force }) => (ZoneSendAction::RESET, action, *force),
        Zone::Offline(change) => (ZoneSendAction::OFFLINE, change, true),
    };
    zone_change::manage(action, change, force, output)
}

/// The zone that was written, or whose write pointer was moved.
#[derive(Serialize, JsonSchema)]
pub struct Pointer {
    /// Namespace identifier.
    nsid: u32,
    /// State.
    #[schemars(extend("enum" = view::ZONE_STATES))]
    state: &'static str,
    /// Where its write pointer is, from its begin.
    #[schemars(extend("unit" = "logical blocks", "null" = "of a zone that takes no more"))]
    written: Option<u64>,
    /// Number of the zone.
    zone: u64,
}

/// Zones that the drive changed by itself while this waited.
#[derive(Serialize, JsonSchema)]
pub struct ChangedByDrive {
    /// Numbers of the zones.
    #[schemars(extend("null" = "they are too many to list"))]
    changed: Option<Vec<u64>>,
    /// Namespace identifier.
    nsid: u32,
}

/// Where the data are.
#[derive(Serialize, JsonSchema)]
pub struct Appended {
    /// Places of the data, in their order: one, unless others appended meanwhile.
    appended: Vec<DataPlace>,
    /// Namespace identifier.
    nsid: u32,
    /// Number of the zone.
    zone: u64,
}

/// A place.
#[derive(Serialize, JsonSchema)]
struct DataPlace {
    /// Its length.
    #[schemars(extend("unit" = "logical blocks"))]
    blocks: u64,
    /// Its first logical block.
    lba: u64,
}

/// A zone's number, state and write pointer, which is in blocks from its begin.
fn print_pointer<Q: Queue>(queue: &mut IoQueue<Q>, ns: &Zoned, zone: u64, output: Output) -> Result<()> {
    let now = look(queue, ns, start(ns, zone)?)?;
    let pointer = now.write_pointer().map(|lba| lba - now.zslba.get());
    match output {
        Output::Json => print_json(&Pointer {
            nsid: ns.namespace.nsid,
            state: view::zone_state(now.state()),
            written: pointer,
            zone,
        }),
        Output::Text => {
            let pointer =
                pointer.map_or_else(String::new, |blocks| format!(", write pointer at block {blocks}"));
            print_text(&format!("zone {zone}: {}{pointer}", now.state()))
        }
    }
}

fn write(options: &Write, output: Output) -> Result<()> {
    let mut data = Vec::new();
    let (_host, ns, mut queue) = open(&options.of)?;
    let (zone, block) = (options.zone, ns.namespace.block_size as usize);
    let start = start(&ns, zone)?;
    input(options.file.as_deref())?.read_to_end(&mut data).context("reading the data")?;
    if options.pad {
        data.resize(data.len().next_multiple_of(block), 0);
    }
    if data.is_empty() || !data.len().is_multiple_of(block) {
        bail!(
            "{} bytes are no whole logical blocks of {block} bytes (--pad fills the last with zeros)",
            data.len()
        );
    }
    let at = match options.at {
        Some(at) if at < ns.zone_blocks => start + at,
        Some(at) => {
            lab_report::misuse!("--at {at} is not in the zone, which has {} blocks", ns.zone_blocks)
        }
        None => look(&mut queue, &ns, start)?.write_pointer().unwrap_or(start),
    };
    let written = queue.write(&ns.namespace, at, &data, false);
    about_zone(&mut queue, &ns, zone, written)?;
    print_pointer(&mut queue, &ns, zone, output)
}

fn flush(options: &Flush, output: Output) -> Result<()> {
    let (_host, ns, mut queue) = open(&options.of)?;
    let start = start(&ns, options.zone)?;
    let now = look(&mut queue, &ns, start)?;
    let Some(area) = ns.zrwa.filter(|_| now.za.zrwav()) else {
        bail!(
            "zone {} is {}, and has no Zone Random Write Area (`tranche zone open --zrwa`)",
            options.zone,
            now.state()
        );
    };
    let end = match (options.to, now.write_pointer()) {
        (Some(to), _) => start + to,
        (None, Some(pointer)) => (pointer + u64::from(area.blocks)).min(start + now.zcap.get()),
        (None, None) => start,
    };
    if end <= start {
        lab_report::misuse!("--to is at least 1 block");
    }
    let done = queue.flush_zrwa(ns.namespace.nsid, end - 1);
    about_zone(&mut queue, &ns, options.zone, done)?;
    print_pointer(&mut queue, &ns, options.zone, output)
}

fn changed(options: &Changed, output: Output) -> Result<()> {
    let (mut host, ns) = find(&options.of)?;
    let nsid = ns.namespace.nsid;
    let begun = Instant::now();
    let changed = loop {
        let changed = host.changed_zones(nsid)?;
        let is_over = options.time.is_some_and(|time| begun.elapsed() >= Duration::from_nanos(time));
        if is_over || changed.as_ref().is_none_or(|zones| !zones.is_empty()) {
            break changed;
        }
        std::thread::sleep(POLL_INTERVAL);
    };
    let zones: Option<Vec<u64>> =
        changed.map(|zones| zones.iter().map(|zslba| zslba / ns.zone_blocks).collect());
    match (output, zones) {
        (Output::Json, zones) => print_json(&ChangedByDrive { changed: zones, nsid }),
        (Output::Text, None) => {
            print_text("too many zones have changed to list them: `tranche zone report` shows all")
        }
        (Output::Text, Some(zones)) if zones.is_empty() => print_text("no zone has changed"),
        (Output::Text, Some(zones)) => {
            print_text(&zones.iter().map(|zone| format!("zone {zone}")).collect::<Vec<_>>().join("\n"))
        }
    }
}

fn report(options: &Report, output: Output) -> Result<()> {
    let (_host, ns, mut queue) = open(&options.of)?;
    let from = start(&ns, options.from)?;
    let filter = options.state.map_or(ZoneReportFilter::ALL, State::filter);
    let most = options.count.map_or(usize::MAX, |count| count as usize);
    let zones = if ns.extension_bytes > 0 {
        queue.report_zones_extended(&ns, from, filter, most)?
    } else {
        let zones = queue.report_zones(&ns, from, filter, most)?;
        zones.into_iter().map(|zone| (zone, Vec::new())).collect()
    };
    if output == Output::Json {
        let all = queue.count_zones(&ns, from, filter)?;
        return print_json(&view::ZoneReport::new(all, &zones));
    }
    let none = || "-".to_owned();
    let row = |(zone, extension): &(ZoneDescriptor, Vec<u8>)| {
        [
            (zone.zslba.get() / ns.zone_blocks).to_string(),
            zone.zslba.get().to_string(),
            zone.write_pointer().map_or_else(none, |wp| wp.to_string()),
            zone.zcap.get().to_string(),
            state(zone),
            if zone.za.zdev() { shown(extension) } else { none() },
        ]
    };
    let rows: Vec<_> = zones.iter().map(row).collect();
    print_text(&table(&["Zone", "Start", "Write pointer", "Capacity", "State", "Extension"], &rows))
}

/// The state of a zone, and what the controller says beside it.
fn state(zone: &ZoneDescriptor) -> String {
    let mut words = zone.state().to_string();
    for (is, word) in [
        (zone.za.zfc(), "finished by the controller"),
        (zone.za.fzr(), "finish recommended"),
        (zone.za.rzr(), "reset recommended"),
        (zone.za.zrwav(), "ZRWA"),
    ] {
        if is {
            words = format!("{words}, {word}");
        }
    }
    words
}

/// An extension without the zeros at its end: as text if it is printable, else in hexadecimal digits.
fn shown(extension: &[u8]) -> String {
    let end = extension.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let bytes = &extension[..end];
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.trim_end().chars().any(char::is_control) => format!("\"{}\"", text.trim_end()),
        _ => bytes.iter().fold("0x".to_owned(), |hex, byte| format!("{hex}{byte:02x}")),
    }
}

/// The file, or standard input.
fn input(file: Option<&Path>) -> Result<Box<dyn Read>> {
    Ok(match file {
        Some(path) => {
            Box::new(File::open(path).with_context(|| format!("cannot read the file {}", path.display()))?)
        }
        None => Box::new(std::io::stdin()),
    })
}

fn append(options: &Append, output: Output) -> Result<()> {
    let mut data = input(options.file.as_deref())?;
    let (_host, ns, mut queue) = open(&options.of)?;
    let (zone, block) = (options.zone, ns.namespace.block_size as usize);
    let start = start(&ns, zone)?;
    let most = (APPEND / block).clamp(1, ns.namespace.limits.append as usize) * block;
    // Where the data are: first logical blocks, and how many.
    let mut places: Vec<(u64, u64)> = Vec::new();
    loop {
        let mut piece = Vec::new();
        data.by_ref().take(most as u64).read_to_end(&mut piece).context("reading the data")?;
        if piece.is_empty() {
            break;
        }
        let whole = piece.len() / block * block;
        if options.pad {
            piece.resize(piece.len().next_multiple_of(block), 0);
        } else if whole < piece.len() {
            bail!(
                "{}the last {} bytes are no whole logical block of {block} bytes (--pad fills it with zeros)",
                before(&places),
                piece.len() - whole
            );
        }
        let appended = queue.append(&ns, start, &piece);
        let appended = about_zone(&mut queue, &ns, zone, appended);
        let lba = match before(&places) {
            said if said.is_empty() => appended?,
            said => appended.with_context(|| format!("{said}then no more"))?,
        };
        let blocks = (piece.len() / block) as u64;
        match places.last_mut() {
            Some((first, count)) if *first + *count == lba => *count += blocks,
            _ => places.push((lba, blocks)),
        }
    }
    if places.is_empty() {
        bail!("there are no data to append");
    }
    match output {
        Output::Json => {
            let appended = places.iter().map(|&(lba, blocks)| DataPlace { blocks, lba }).collect();
            print_json(&Appended { appended, nsid: ns.namespace.nsid, zone })
        }
        Output::Text => {
            print_text(&places.iter().map(|(lba, _)| lba.to_string()).collect::<Vec<_>>().join("\n"))
        }
    }
}

/// What was appended before something failed.
fn before(places: &[(u64, u64)]) -> String {
    match places {
        [] => String::new(),
        [(lba, blocks)] => format!("{blocks} logical blocks were appended at {lba}, but "),
        [(lba, _), ..] => {
            let blocks: u64 = places.iter().map(|(_, blocks)| blocks).sum();
            format!("{blocks} logical blocks were appended from {lba} on, but ")
        }
    }
}

fn set_extension(options: &SetExtension, output: Output) -> Result<()> {
    let mut extension = Vec::new();
    let (_host, ns, mut queue) = open(&options.of)?;
    let start = start(&ns, options.zone)?;
    let room = u64::from(ns.extension_bytes);
    input(options.file.as_deref())?
        .take(room + 1)
        .read_to_end(&mut extension)
        .context("reading the extension")?;
    if extension.len() as u64 > room {
        bail!("the extension is too long: a zone has room for {room} bytes");
    }
    let done = queue.set_zone_extension(&ns, start, &extension);
    about_zone(&mut queue, &ns, options.zone, done)?;
    let (nsid, state) = (ns.namespace.nsid, look(&mut queue, &ns, start)?.state());
    match output {
        Output::Json => print_json(&ChangedZones::named(nsid, &[(options.zone, state)])),
        Output::Text => print_text(&format!("zone {}: {state}", options.zone)),
    }
}
