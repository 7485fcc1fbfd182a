//! `tranche zone`: the zones of a zoned namespace.

use crate::connect::{Connected, connect};
use crate::options::{Output, Target};
use crate::refusal::about;
use crate::table::table;
use crate::{print_json, print_text, zone_shape};
use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand, ValueEnum};
use host::{IoQueue, Queue, Zoned, Zones, view};
use nvme::Status;
use nvme::zone::{ZoneDescriptor, ZoneReportFilter, ZoneSendAction, ZoneState};
use serde_json::json;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Commands under way at once.
const DEPTH: u16 = 4;
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
    Reset(Action),
    /// Take read-only zones offline: everything in them is lost for good
    Offline(Action),
    /// Append data to a zone, and print the logical block where they went
    ///
    /// Data come from FILE or from standard input. More than one command can take are appended in pieces. Where others append to the
    /// same zone, the pieces may be apart: each gets a line.
    Append(Append),
    /// Write data at the write pointer of a zone, or into its Zone Random Write Area
    Write(Write),
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

/// The namespace whose zones are meant.
#[derive(Args, Debug)]
pub struct Of {
    /// Namespace [default: the zoned one that is attached to this host, if there is just one]
    #[arg(long, value_name = "NSID")]
    nsid: Option<u32>,
    #[command(flatten)]
    target: Target,
}

impl Of {
    /// Where the drive listens.
    pub fn on(&self) -> &host::Addr {
        self.target.on()
    }
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

/// A command that changes states.
#[derive(Args, Debug)]
pub struct Action {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    of: Of,
}

/// `tranche zone open`.
#[derive(Args, Debug)]
pub struct Open {
    #[command(flatten)]
    action: Action,
    /// Give them Zone Random Write Areas. They must be empty
    #[arg(long)]
    zrwa: bool,
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

/// Zones that are to change.
#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
pub struct Which {
    /// Numbers of zones; the first is 0
    #[arg(value_name = "ZONE")]
    zones: Vec<u64>,
    /// All zones of the namespace that are in a state from which this leads somewhere
    #[arg(long)]
    all: bool,
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
const LOOK: Duration = Duration::from_millis(100);

/// `tranche zone`.
pub fn zone(command: &Zone, output: Output) -> Result<()> {
    let (action, change) = match command {
        Zone::Report(options) => return report(options, output),
        Zone::Append(options) => return append(options, output),
        Zone::SetExtension(options) => return set_extension(options, output),
        Zone::Write(options) => return write(options, output),
        Zone::Flush(options) => return flush(options, output),
        Zone::Changed(options) => return changed(options, output),
        Zone::Open(Open { action, zrwa: true }) => return open_with_areas(action, output),
        Zone::Open(Open { action, zrwa: false }) => (ZoneSendAction::OPEN, action),
        Zone::Close(change) => (ZoneSendAction::CLOSE, change),
        Zone::Finish(change) => (ZoneSendAction::FINISH, change),
        Zone::Reset(change) => (ZoneSendAction::RESET, change),
        Zone::Offline(change) => (ZoneSendAction::OFFLINE, change),
    };
    manage(action, change, output)
}

/// The namespace that is meant, and the way to its zones, which is there as long as the host is.
pub fn find(of: &Of) -> Result<(Connected, Zoned)> {
    let mut host = connect(&of.target)?;
    let nsid = match of.nsid {
        Some(nsid) => nsid,
        None => only_zoned(&mut host)?,
    };
    // Of one that is not zoned there is better to say than what the drive says of its own commands.
    let known = host.zoned_among(&[nsid])?;
    let zoned = host.zoned_namespace(nsid);
    let zoned = match (zoned, known.is_empty()) {
        (Err(host::Error::Usage(_)), true) => bail!(zone_shape::not_zoned(nsid)),
        (Err(error @ host::Error::Absent(_)), false) => {
            let what_next =
                format!("its zones are for hosts that have it attached (`tranche ns attach {nsid}`)");
            return Err(anyhow::Error::from(error).context(what_next));
        }
        (zoned, _) => about(&mut host, nsid, zoned)?,
    };
    Ok((host, zoned))
}

/// The same with a queue.
fn open(of: &Of) -> Result<(Connected, Zoned, IoQueue<impl Queue>)> {
    let (mut host, zoned) = find(of)?;
    let queue = host.io_queue(DEPTH)?;
    Ok((host, zoned, queue))
}

fn only_zoned(host: &mut Connected) -> Result<u32> {
    let attached = host.active_namespaces()?;
    let zoned = host.zoned_among(&attached)?;
    match zoned.as_slice() {
        [(nsid, _)] => Ok(*nsid),
        [] => bail!(
            "no zoned namespace is attached to this host (`tranche ns create --zoned --size SIZE --attach` makes one, `tranche ns \
             attach` attaches one)"
        ),
        several => {
            let nsids: Vec<u32> = several.iter().map(|(nsid, _)| *nsid).collect();
            bail!("--nsid must say which namespace: {} have zones", host::nsid_list(&nsids))
        }
    }
}

/// The first logical block of a zone.
fn start(ns: &Zoned, zone: u64) -> Result<u64> {
    let (zones, nsid) = (ns.zones(), ns.namespace.nsid);
    if zone >= zones {
        bail!("there is no zone {zone}: namespace {nsid} has {zones}, and the first is 0");
    }
    Ok(zone * ns.zone_blocks)
}

/// One zone as it is now.
fn look<Q: Queue>(queue: &mut IoQueue<Q>, ns: &Zoned, start: u64) -> Result<ZoneDescriptor> {
    let zones = queue.report_zones(ns, start, ZoneReportFilter::ALL, 1)?;
    zones.first().copied().context("the drive reports no zone there")
}

/// Adds to the error of a command for a zone what to do about it.
fn about_zone<Q: Queue, T>(
    queue: &mut IoQueue<Q>,
    ns: &Zoned,
    zone: u64,
    result: Result<T, host::Error>,
) -> Result<T> {
    result.map_err(|error| {
        let advice = advice(queue, ns, zone, &error);
        match advice {
            Some(advice) => anyhow::Error::from(error).context(advice),
            None => error.into(),
        }
    })
}

fn advice<Q: Queue>(queue: &mut IoQueue<Q>, ns: &Zoned, zone: u64, error: &host::Error) -> Option<String> {
    let status = error.status()?;
    if status.is(Status::TOO_MANY_ACTIVE_ZONES) {
        let most = ns.max_active.unwrap_or(u32::MAX);
        return Some(format!(
            "{most} zones are active, and namespace {} may have no more: `tranche zone finish` or `tranche zone reset` one of them",
            ns.namespace.nsid
        ));
    }
    if status.is(Status::TOO_MANY_OPEN_ZONES) {
        let most = ns.max_open.unwrap_or(u32::MAX);
        return Some(format!(
            "{most} zones are open, and namespace {} may have no more: `tranche zone close` one of them",
            ns.namespace.nsid
        ));
    }
    if status.is(Status::ZRWA_RESOURCES_UNAVAILABLE) {
        let most = ns.zrwa.map_or(0, |zrwa| zrwa.resources);
        return Some(format!(
            "{most} zones have a Zone Random Write Area, and namespace {} may have no more: `tranche zone finish` or `tranche zone reset` one \
             of them",
            ns.namespace.nsid
        ));
    }
    if status.is(Status::INVALID_ZONE_OPERATION_REQUEST) || status.is(Status::ZONE_INVALID_WRITE) {
        return about_its_area(queue, ns, zone);
    }
    let about_its_state = [
        Status::INVALID_ZONE_STATE_TRANSITION,
        Status::ZONE_IS_FULL,
        Status::ZONE_IS_READ_ONLY,
        Status::ZONE_IS_OFFLINE,
        Status::ZONE_BOUNDARY_ERROR,
    ];
    if !about_its_state.iter().any(|of_state| status.is(*of_state)) {
        return None;
    }
    let now = look(queue, ns, start(ns, zone).ok()?).ok()?;
    let what_next = match now.state() {
        ZoneState::FULL => format!(": `tranche zone reset {zone}` makes it empty"),
        ZoneState::OFFLINE => ", for good: take another".to_owned(),
        ZoneState::READ_ONLY => ": read what it has, and take another".to_owned(),
        _ if status.is(Status::ZONE_BOUNDARY_ERROR) => {
            let left = now.writable_end()?.checked_sub(now.write_pointer()?)?;
            format!(", with {left} logical blocks left, which are too few")
        }
        _ => ", from where this does not lead on".to_owned(),
    };
    Some(format!("zone {zone} is {}{what_next}", now.state()))
}

/// What to say of a zone that does not take a write or a command because of its Zone Random Write Area, or without one.
fn about_its_area<Q: Queue>(queue: &mut IoQueue<Q>, ns: &Zoned, zone: u64) -> Option<String> {
    let now = look(queue, ns, start(ns, zone).ok()?).ok()?;
    let pointer = now.write_pointer()?.checked_sub(now.zslba.get())?;
    Some(match ns.zrwa.filter(|_| now.za.zrwav()) {
        Some(area) => format!(
            "zone {zone} is {} and has a Zone Random Write Area: blocks {pointer} to {} can be written, and be flushed in steps of {}. It \
             takes no appends",
            now.state(),
            (pointer + 2 * u64::from(area.blocks)).min(now.zcap.get()).saturating_sub(1),
            area.flush_granularity
        ),
        None => format!(
            "zone {zone} is {}, has no Zone Random Write Area, and takes writes at block {pointer} only. An empty zone can be opened with \
             one (`tranche zone open --zrwa`)",
            now.state()
        ),
    })
}

fn open_with_areas(change: &Action, output: Output) -> Result<()> {
    let (_host, ns, mut queue) = open(&change.of)?;
    let nsid = ns.namespace.nsid;
    if ns.zrwa.is_none() {
        bail!(
            "zones of namespace {nsid} can have no Zone Random Write Areas (`tranche ns create --zoned --zrwa-resources N` makes one whose zones can)"
        );
    }
    if change.which.all {
        bail!(
            "--zrwa is for zones that are named: all zones are those that are closed, and an area is for one that is empty"
        );
    }
    let zones = &change.which.zones;
    let starts: Vec<u64> = zones.iter().map(|zone| start(&ns, *zone)).collect::<Result<_>>()?;
    let mut changed = Vec::new();
    for (zone, start) in zones.iter().zip(starts) {
        let done = queue.open_zone_with_zrwa(nsid, start);
        about_zone(&mut queue, &ns, *zone, done)?;
        changed.push((*zone, look(&mut queue, &ns, start)?.state()));
    }
    print_changed(nsid, &changed, output)
}

/// Zones with their new states.
fn print_changed(nsid: u32, changed: &[(u64, ZoneState)], output: Output) -> Result<()> {
    match output {
        Output::Json => {
            let one =
                |(zone, state): &(u64, ZoneState)| json!({ "zone": zone, "state": view::zone_state(*state) });
            print_json(&json!({ "nsid": nsid, "zones": changed.iter().map(one).collect::<Vec<_>>() }))
        }
        Output::Text => {
            let line = |(zone, state): &(u64, ZoneState)| format!("zone {zone}: {state}");
            print_text(&changed.iter().map(line).collect::<Vec<_>>().join("\n"))
        }
    }
}

/// A zone's number, state and write pointer, which is in blocks from its begin.
fn print_pointer<Q: Queue>(queue: &mut IoQueue<Q>, ns: &Zoned, zone: u64, output: Output) -> Result<()> {
    let now = look(queue, ns, start(ns, zone)?)?;
    let pointer = now.write_pointer().map(|lba| lba - now.zslba.get());
    match output {
        Output::Json => print_json(&json!({
            "nsid": ns.namespace.nsid,
            "zone": zone,
            "state": view::zone_state(now.state()),
            "written": pointer,
        })),
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
        Some(at) => bail!("--at {at} is not in the zone, which has {} blocks", ns.zone_blocks),
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
        bail!("--to is at least 1 block");
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
        std::thread::sleep(LOOK);
    };
    let zones: Option<Vec<u64>> =
        changed.map(|zones| zones.iter().map(|zslba| zslba / ns.zone_blocks).collect());
    match (output, zones) {
        (Output::Json, zones) => print_json(&json!({ "nsid": nsid, "changed": zones })),
        (Output::Text, None) => {
            print_text("too many zones have changed to list them: `tranche zone report` shows all")
        }
        (Output::Text, Some(zones)) if zones.is_empty() => print_text("no zone has changed"),
        (Output::Text, Some(zones)) => {
            print_text(&zones.iter().map(|zone| format!("zone {zone}")).collect::<Vec<_>>().join("\n"))
        }
    }
}

fn manage(action: ZoneSendAction, change: &Action, output: Output) -> Result<()> {
    let (_host, ns, mut queue) = open(&change.of)?;
    let nsid = ns.namespace.nsid;
    if change.which.all {
        let done = queue.manage_zones(nsid, action, Zones::All);
        about_zone(&mut queue, &ns, 0, done)?;
        return match output {
            Output::Json => print_json(&json!({ "nsid": nsid, "zones": null })),
            Output::Text => print_text(&format!("namespace {nsid}, all zones: done")),
        };
    }
    let zones = &change.which.zones;
    let starts: Vec<u64> = zones.iter().map(|zone| start(&ns, *zone)).collect::<Result<_>>()?;
    let mut changed = Vec::new();
    for (zone, start) in zones.iter().zip(starts) {
        let done = queue.manage_zones(nsid, action, Zones::One(start));
        about_zone(&mut queue, &ns, *zone, done)?;
        changed.push((*zone, look(&mut queue, &ns, start)?.state()));
    }
    print_changed(nsid, &changed, output)
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
        let lba = appended.with_context(|| format!("{}appending to zone {zone}", before(&places)))?;
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
            let place = |(lba, blocks): &(u64, u64)| json!({ "lba": lba, "blocks": blocks });
            let places: Vec<_> = places.iter().map(place).collect();
            print_json(&json!({ "nsid": ns.namespace.nsid, "zone": zone, "appended": places }))
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
        Output::Json => {
            let zone = json!({ "zone": options.zone, "state": view::zone_state(state) });
            print_json(&json!({ "nsid": nsid, "zones": [zone] }))
        }
        Output::Text => print_text(&format!("zone {}: {state}", options.zone)),
    }
}
