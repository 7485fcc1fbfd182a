//! Making a store, and opening one.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Instant;

use crate::device::{Condition, DeviceError, Shape, Zone, ZoneDevice};
use crate::error::Error;
use crate::log::{Finding, Found, Layout, Log, MAX_DEFAULT_LOG_ZONES, Position, find, offline};
use crate::placement::{Group, Newcomer, Placement};
use crate::record::{Attributes, Ino, NewKind, Record};
use crate::space::{Space, open_data_zones};
use crate::state::{Counters, Limits, State};
use crate::totals::Totals;
use crate::tree::Tree;

/// How a store is made.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct FormatOptions {
    /// Zones of the log; `None`: as many as suit the device. At least 3.
    pub log_zones: Option<u32>,
    /// Zones of data that no file can take, for garbage collection; `None`: as many as suit the device. At least 2.
    pub reserved_zones: Option<u32>,
    /// Whether zones that hold something are emptied.
    pub force: bool,
    /// What decides which data shares zones, unless an opening says something else; `None`: the default.
    pub placement: Option<Placement>,
    /// Owner of the top directory.
    pub uid: u32,
    /// Group of the top directory.
    pub gid: u32,
}

/// Blocks that a zone must hold at least.
const SMALLEST_ZONE: u64 = 16;
/// Blocks that one command must append at least.
const SMALLEST_APPEND: u64 = 8;

/// Makes an empty store.
///
/// # Errors
/// The device cannot carry a store, holds something, or failed.
pub(crate) fn format<D: ZoneDevice>(
    device: &D,
    options: &FormatOptions,
    id: [u8; 16],
    now: u64,
) -> Result<(), Error> {
    let shape = device.shape();
    let layout = layout(device, options)?;
    let zones = device.zones()?;
    let used = zones.iter().filter(|zone| zone.written > 0).count();
    if used > 0 && !options.force {
        let all = zones.len();
        return Err(Error::Occupied(format!(
            "{used} of the {all} zones hold something; `--force` empties them"
        )));
    }
    for (number, zone) in (0..).zip(&zones) {
        let usable = matches!(zone.condition, Condition::Writable | Condition::Full);
        if usable && zone.written > 0 {
            device.reset(number)?;
        }
    }
    let mut tree = Tree::new(shape);
    let attributes = Attributes { mode: 0o755, uid: options.uid, gid: options.gid, mtime: now, ctime: now };
    tree.apply(&Record::Inode { ino: Ino::ROOT, kind: NewKind::Directory, attributes })?;
    if let Some(placement) = options.placement {
        let value = Some(placement.name().as_bytes().to_vec());
        tree.apply(&Record::Xattr { ino: Ino::ROOT, name: Placement::XATTR.to_vec(), value })?;
    }
    let mut log = Log::new(layout, id, 0, &device.zones()?);
    log.claim(device)?;
    log.write_snapshot(device, tree.snapshot())
}

fn usable_log_zones(zones: &[Zone], layout: &Layout) -> impl Iterator<Item = u32> {
    let zones = (0..layout.log_zones).zip(zones);
    zones
        .filter(|(_, zone)| matches!(zone.condition, Condition::Writable | Condition::Full))
        .map(|(number, _)| number)
}

fn layout<D: ZoneDevice>(device: &D, options: &FormatOptions) -> Result<Layout, Error> {
    let shape = device.shape();
    let unsuitable = |problem: String| Err(Error::Unsuitable(problem));
    let smallest = device.zones()?.iter().map(|zone| zone.capacity).min().unwrap_or(0);
    if smallest < SMALLEST_ZONE {
        return unsuitable(format!(
            "zones of {smallest} blocks are too small; a store needs {SMALLEST_ZONE}"
        ));
    }
    if shape.append_blocks < SMALLEST_APPEND {
        let most = shape.append_blocks;
        return unsuitable(format!(
            "one command appends {most} blocks at most; a store needs {SMALLEST_APPEND}"
        ));
    }
    if shape.open < 3 {
        let open = shape.open;
        return unsuitable(format!("{open} zones may be open at once; a store needs 3"));
    }
    let block = u32::try_from(shape.block).unwrap_or(u32::MAX);
    let log_zones = options.log_zones.unwrap_or((shape.zones / 64).clamp(3, MAX_DEFAULT_LOG_ZONES));
    let data = shape.zones.saturating_sub(log_zones);
    let reserved_zones = options.reserved_zones.unwrap_or((data / 20).clamp(3, 64));
    if log_zones < 3 || reserved_zones < 2 || data <= reserved_zones {
        let zones = shape.zones;
        return unsuitable(format!(
            "{zones} zones do not suffice for {log_zones} of the log (at least 3), {reserved_zones} that are reserved (at \
             least 2), and files"
        ));
    }
    Ok(Layout { block, zone_blocks: shape.zone_blocks, zones: shape.zones, log_zones, reserved_zones })
}

/// What lies on a device.
struct Reading {
    zones: Vec<Zone>,
    log: Replayed,
    newest: u64,
    /// Zones of the log that its newest whole epoch does not need, those that were written last first.
    others: Vec<u32>,
}

/// Reads what lies on a device. Its owner can begin an epoch meanwhile and empty zones before they are read. Then all is read again.
fn read<D: ZoneDevice>(device: &D) -> Result<Reading, Error> {
    /// How often that can happen. An owner does not begin epochs all the time.
    const TRIES: u32 = 5;
    let mut tries = 0;
    loop {
        tries += 1;
        let zones = device.zones()?;
        match read_once(device, zones.clone()) {
            Err(_) if tries < TRIES && device.zones()? != zones => {}
            read => return read,
        }
    }
}

fn read_once<D: ZoneDevice>(device: &D, zones: Vec<Zone>) -> Result<Reading, Error> {
    let Finding { logs, newest, begun } = find(device, &zones)?;
    let log = replay(device, &zones, logs)?;
    let written =
        usable_log_zones(&zones, &log.found.layout).filter(|zone| zones[*zone as usize].written > 0);
    let mut others: Vec<u32> = written.filter(|zone| !log.found.chain.contains(zone)).collect();
    others.sort_by_key(|zone| begun.iter().position(|begun| begun == zone));
    Ok(Reading { zones, log, newest, others })
}

/// Makes the store on a device this program's own. Returns what lies there, and the log with a new epoch that has no snapshot yet.
///
/// A program that had the store can have gone on until the new epoch began. So the log is read again then.
fn take_over<D: ZoneDevice>(device: &D) -> Result<(Reading, Log), Error> {
    // What can be read now is not durable yet, if another process wrote it that has gone.
    device.flush()?;
    let mut reading = read(device)?;
    let log_zones = reading.log.found.layout.log_zones;
    let is_empty = |zone: &Zone| zone.condition == Condition::Writable && zone.written == 0;
    let mut has_waited = false;
    loop {
        let has_room = |zone: &&u32| reading.zones[**zone as usize].condition == Condition::Writable;
        let unfinished: Vec<u32> = reading.others.iter().filter(has_room).copied().collect();
        if unfinished.is_empty() {
            if has_waited || reading.zones.iter().take(log_zones as usize).any(is_empty) {
                break;
            }
            // A program that has just begun an epoch empties the zones of the one before now.
            device.pause(device.lease() * 2)?;
            has_waited = true;
        }
        // An epoch without the end of its snapshot. The end cannot come any more, unless it is there by now.
        for zone in unfinished {
            device.finish(zone)?;
        }
        reading = read(device)?;
    }
    if !reading.zones.iter().take(log_zones as usize).any(is_empty) {
        for zone in &reading.others {
            match device.reset(*zone) {
                Ok(()) | Err(DeviceError::Zone { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        reading.zones = device.zones()?;
    }
    let Replayed { found, tree, lost, .. } = &reading.log;
    finish_surplus(device, &mut reading.zones, &found.layout, tree, *lost)?;
    let mut log = Log::new(found.layout, found.id, reading.newest, &reading.zones);
    log.claim(device)?;
    device.flush()?;
    let reading = read(device)?;
    let own = log.chain().to_vec();
    for zone in reading.others.iter().filter(|zone| !own.contains(zone)) {
        log.take_from_before(device, *zone)?;
    }
    log.replace(reading.log.found.chain.clone());
    Ok((reading, log))
}

/// Opens the store that lies on a device. Without `read_only` a new epoch of the log begins.
///
/// # Errors
/// There is no store, it is damaged or for another device, another program opens it at the same time, or the device failed.
pub(crate) fn open<D: ZoneDevice>(
    device: &D,
    read_only: bool,
    placement: Option<Placement>,
) -> Result<State, Error> {
    let (Reading { zones, log: replayed, .. }, log) = if read_only {
        let reading = read(device)?;
        let log = Log::new(reading.log.found.layout, reading.log.found.id, reading.newest, &reading.zones);
        (reading, log)
    } else {
        take_over(device)?
    };
    let Replayed { found, mut tree, totals, .. } = replayed;
    let shape = device.shape();
    if !read_only {
        for ino in tree.nameless() {
            tree.apply(&Record::Forget { ino })?;
        }
    }
    let space = Space::new(&shape, &zones, &found.layout, &tree);
    let placement = placement.unwrap_or_else(|| kept_placement(&tree));
    let mut state = State {
        tree,
        space,
        log,
        active: BTreeMap::new(),
        dirty_blocks: 0,
        fresh_blocks: 0,
        reserved_blocks: 0,
        pending: Vec::new(),
        durable: Position::default(),
        under_way: VecDeque::new(),
        writing: None,
        recorded: 0,
        logged: 0,
        durable_records: 0,
        appends: 0,
        durable_appends: 0,
        read_only,
        log_zones: zones[..found.layout.log_zones as usize].to_vec(),
        claimed: Instant::now(),
        looked: None,
        stopped: None,
        lost: BTreeSet::new(),
        placement,
        limits: Limits::new(shape.block),
        counters: Counters::default(),
        totals,
    };
    resume_groups(&mut state, &shape);
    if !read_only {
        state.space.bury(&state.tree);
        state.write_snapshot(device)?;
        state.finish_others(device)?;
    }
    Ok(state)
}

/// What decides which data shares zones, as the store keeps it.
fn kept_placement(tree: &Tree) -> Placement {
    let kept = tree.get(Ino::ROOT).and_then(|root| root.xattrs.get(Placement::XATTR));
    kept.and_then(|name| Placement::parse(name)).unwrap_or_default()
}

/// Zones that take data go on with the group that most of it belongs to. Size and age of data without a hint are not known any more.
fn resume_groups(state: &mut State, shape: &Shape) {
    let mut found: BTreeMap<u32, BTreeMap<Group, u64>> = BTreeMap::new();
    for (ino, inode) in state.tree.inodes() {
        let (group, keys) = state.group(ino);
        for (_, run) in inode.contents().into_iter().flat_map(|contents| contents.extents.iter()) {
            let zone = shape.zone_of(run.lba);
            let table = keys.as_ref().map(|keys| (ino, keys.clone()));
            state.space.welcome(zone, &Newcomer { group, is_rewritten: false, table, since: 0 });
            *found.entry(zone).or_default().entry(group).or_default() += run.blocks;
        }
    }
    for (zone, groups) in found {
        if let Some((group, _)) = groups.into_iter().max_by_key(|(_, blocks)| *blocks) {
            state.space.resume(zone, group);
        }
    }
}

/// After a loss of power, zones that were full can have room again, and be more than may be open. Finishes those that are too many.
///
/// A zone that is full does not tell any more that it has lost something. So the zone `lost`, at which the log ended, stays as it is until the
/// next epoch is durable: another opening must find the same end of the log.
fn finish_surplus<D: ZoneDevice>(
    device: &D,
    zones: &mut [Zone],
    layout: &Layout,
    tree: &Tree,
    lost: Option<u32>,
) -> Result<(), Error> {
    let is_active =
        |zone: &Zone| zone.condition == Condition::Writable && (1..zone.capacity).contains(&zone.written);
    let data = (0..).zip(zones.iter()).skip(layout.log_zones as usize);
    let mut active: Vec<u32> = data.filter(|(_, zone)| is_active(zone)).map(|(number, _)| number).collect();
    // The first are finished first: what nobody needs, then what has the least room.
    active.sort_by_key(|number| {
        let zone = &zones[*number as usize];
        (Some(*number) == lost, tree.live(*number) > 0, zone.capacity - zone.written)
    });
    let surplus = active.len().saturating_sub(open_data_zones(&device.shape()));
    for number in active.into_iter().take(surplus).filter(|number| Some(*number) != lost) {
        let _ = device.finish(number);
        zones[number as usize] = device.zone(number)?;
    }
    Ok(())
}

/// What a log makes.
struct Replayed {
    found: Found,
    tree: Tree,
    totals: Totals,
    /// The zone that lost the data of the record at which the log ended.
    lost: Option<u32>,
}

/// The newest log whose snapshot is durable, with the tree that it makes.
fn replay<D: ZoneDevice>(device: &D, zones: &[Zone], candidates: Vec<Found>) -> Result<Replayed, Error> {
    let log_zones = candidates.first().map(|found| found.layout.log_zones);
    for found in candidates {
        if let Some((tree, totals, lost)) = replay_one(device, zones, &found)? {
            return Ok(Replayed { found, tree, totals, lost });
        }
    }
    let no_log = "no log has a whole snapshot whose files are there";
    Err(Error::Damaged(match log_zones.and_then(|log_zones| offline(log_zones, zones).next()) {
        Some(zone) => format!("{no_log}, and zone {zone}, which is offline, may have had one"),
        None => no_log.into(),
    }))
}

/// The tree that a log makes, what was written, and the zone of the data at which it ended too early. `None` if files of its snapshot are not there.
fn replay_one<D: ZoneDevice>(
    device: &D,
    zones: &[Zone],
    found: &Found,
) -> Result<Option<(Tree, Totals, Option<u32>)>, Error> {
    let mut records = Vec::new();
    let mut rest = found.stream.as_slice();
    let mut in_snapshot = 0;
    while let Some((record, behind)) = Record::decode(rest) {
        records.push(record);
        rest = behind;
        if found.stream.len() - rest.len() <= found.snapshot {
            in_snapshot = records.len();
        }
    }
    let (end, lost) = durable_end(&device.shape(), zones, &records)?;
    if end < in_snapshot {
        return Ok(None);
    }
    let mut tree = Tree::new(device.shape());
    let (snapshot, changes) = records[..end].split_at(in_snapshot);
    for record in snapshot {
        tree.apply(record)?;
    }
    let mut totals = Totals::of(&tree);
    for record in changes {
        tree.apply(record)?;
        totals.count(record);
    }
    if tree.get(Ino::ROOT).is_none_or(|root| root.directory().is_none()) {
        return Err(Error::Damaged("there is no top directory".into()));
    }
    Ok(Some((tree, totals, lost)))
}

/// How many of the records count.
///
/// A record of an extent can survive a loss of power that its data did not survive. Then it was never durable, and neither was anything
/// behind it. So the log ends before the first record whose data is not there, unless its zone is freed by a later record that counts.
///
/// A zone that is offline has lost what was durable. So it does not end the log: reads of such data fail, and [`check`](crate::Store::check) names the files.
fn durable_end(shape: &Shape, zones: &[Zone], records: &[Record]) -> Result<(usize, Option<u32>), Error> {
    // From the last record to the first: where each zone is freed next.
    let mut freed: BTreeMap<u32, usize> = BTreeMap::new();
    // Records whose data is not there, with their zones, and where these are freed.
    let mut missing: Vec<(usize, u32, usize)> = Vec::new();
    for (index, record) in records.iter().enumerate().rev() {
        match record {
            Record::Freed { zone } => drop(freed.insert(*zone, index)),
            Record::Extent { run, .. } | Record::Moved { run, .. } => {
                let zone = shape.zone_of(run.lba);
                let Some(state) = zones.get(zone as usize) else {
                    return Err(Error::Damaged("an extent lies where no zone is".into()));
                };
                let end = run.lba.saturating_add(run.blocks).saturating_sub(shape.start_of(zone));
                if end > state.written && state.condition != Condition::Offline {
                    missing.push((index, zone, freed.get(&zone).copied().unwrap_or(usize::MAX)));
                }
            }
            _ => {}
        }
    }
    let (mut end, mut lost) = (records.len(), None);
    // Where the log ends sooner, fewer zones are freed.
    while let Some((index, zone, _)) =
        missing.iter().rev().find(|(index, _, freed)| *index < end && *freed >= end)
    {
        (end, lost) = (*index, Some(*zone));
    }
    Ok((end, lost))
}
