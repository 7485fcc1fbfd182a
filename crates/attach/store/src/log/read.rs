//! Finding and reading the log.

use std::collections::{BTreeMap, BTreeSet};

use crate::device::{Condition, Zone, ZoneDevice};
use crate::error::Error;

use super::frame::{self, FrameHeader, FrameKind, Layout, Part, VERSION};

/// Zones of the log, at most, where the maker of a store did not say how many.
pub(crate) const MAX_DEFAULT_LOG_ZONES: u32 = 16;

/// A log on a device.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) layout: Layout,
    pub(crate) id: [u8; 16],
    /// Its zones, in their order.
    pub(crate) chain: Vec<u32>,
    /// The stream of records.
    pub(crate) stream: Vec<u8>,
    /// How much of the stream is the snapshot.
    pub(crate) snapshot: usize,
}

/// A zone of a log.
#[derive(Clone, Debug)]
struct Start {
    zone: u32,
    layout: Layout,
    part: Part,
    id: [u8; 16],
    sequence: u64,
}

/// What lies in the zones of the log.
#[derive(Debug)]
pub(crate) struct Finding {
    /// The logs that have a whole snapshot, the newest first.
    pub(crate) logs: Vec<Found>,
    /// The newest epoch of which there is any trace.
    pub(crate) newest: u64,
    /// Zones that begin with a log: what was written last comes first. Emptied in this order, an epoch never misses what comes before something that is left.
    pub(crate) begun: Vec<u32>,
}

/// The logs on a device.
///
/// # Errors
/// The device failed; there is no store on it, or one of another version or for another device; the newest log is damaged.
pub(crate) fn find<D: ZoneDevice>(device: &D, zones: &[Zone]) -> Result<Finding, Error> {
    // Two programs can have begun epochs of one number at once. Their first zones tell them apart.
    let mut epochs: BTreeMap<(u64, Option<u32>), BTreeMap<u32, Start>> = BTreeMap::new();
    let mut id = None;
    // The first zone that begins with a log says how many there may be.
    let mut end = zones.len();
    let mut block = vec![0; device.shape().block];
    for (zone, state) in (0_u32..).zip(zones) {
        if zone as usize >= end {
            break;
        }
        if state.written == 0 {
            continue;
        }
        device.read(device.shape().start_of(zone), &mut block)?;
        let Some((header, payload)) = frame::decode(&block) else { continue };
        if header.kind != FrameKind::Start {
            continue;
        }
        let (layout, part) = match Layout::decode(payload) {
            Some(Ok(found)) => found,
            Some(Err(version)) => return Err(Error::Version { found: version, known: VERSION }),
            None => return Err(Error::Damaged("a zone of the log begins with nonsense".into())),
        };
        if !layout.fits(&device.shape()) {
            return Err(Error::OtherDevice);
        }
        if *id.get_or_insert(header.id) != header.id {
            return Err(Error::Damaged("there are logs of two stores".into()));
        }
        end = layout.log_zones as usize;
        let (key, index) = ((header.epoch, part.first), part.index);
        let start = Start { zone, layout, part, id: header.id, sequence: header.sequence };
        epochs.entry(key).or_default().insert(index, start);
    }
    let newest = epochs.keys().next_back().map(|(epoch, _)| *epoch).ok_or_else(|| no_log(zones))?;
    let newest_first = epochs.iter().rev().flat_map(|(_, starts)| starts.values().rev());
    let begun = newest_first.map(|start| start.zone).collect();
    let (mut logs, mut known) = (Vec::new(), BTreeSet::new());
    for ((epoch, _), starts) in epochs.into_iter().rev() {
        // An index is missing if the zone took no frame. What comes behind it then begins with the frame that failed.
        let starts: Vec<Start> = starts.into_values().collect();
        known.extend(starts.iter().flat_map(|start| &start.part.offline).copied());
        match read_epoch(device, zones, epoch, (&starts, &known)) {
            Ok(found) => logs.extend(found),
            // What came before a whole snapshot is not needed.
            Err(Error::Damaged(_)) if !logs.is_empty() => {}
            Err(error) => return Err(error),
        }
    }
    if logs.is_empty()
        && let Some(zone) = offline(u32::try_from(end).unwrap_or(u32::MAX), zones).next()
    {
        return Err(Error::Damaged(format!(
            "no snapshot of the log is whole, and zone {zone}, which is offline, may have had one"
        )));
    }
    Ok(Finding { logs, newest, begun })
}

/// Zones of the log that are offline.
pub(crate) fn offline(log_zones: u32, zones: &[Zone]) -> impl Iterator<Item = u32> {
    let zones = (0..log_zones).zip(zones);
    zones.filter(|(_, state)| state.condition == Condition::Offline).map(|(zone, _)| zone)
}

/// No zone begins with a log. One of the first can have lost it.
fn no_log(zones: &[Zone]) -> Error {
    match offline(MAX_DEFAULT_LOG_ZONES, zones).next() {
        Some(zone) => {
            Error::Damaged(format!("there is no log, and zone {zone}, which is offline, may have had it"))
        }
        None => Error::NoStore,
    }
}

/// The identifier of the store on a device: the first zone that begins with a log has it.
///
/// # Errors
/// There is no store, or the device failed.
pub(crate) fn identify<D: ZoneDevice>(device: &D, zones: &[Zone]) -> Result<[u8; 16], Error> {
    let mut block = vec![0; device.shape().block];
    let written = (0_u32..).zip(zones).filter(|(_, state)| state.written > 0);
    let mut failed = None;
    for (zone, _) in written {
        // Who has the store open may reset the zone.
        if let Err(error) = device.read(device.shape().start_of(zone), &mut block) {
            failed.get_or_insert(error);
            continue;
        }
        if let Some((header, _)) = frame::decode(&block).filter(|(header, _)| header.kind == FrameKind::Start)
        {
            return Ok(header.id);
        }
    }
    Err(failed.map_or_else(|| no_log(zones), Error::from))
}

/// How the zones of a store's log begin.
#[derive(Debug)]
pub(super) struct Starts {
    /// Their states.
    pub(super) zones: Vec<Zone>,
    /// Those that begin with an epoch, and its number.
    pub(super) found: Vec<(u32, u64)>,
}

/// How the zones of a store's log begin.
///
/// # Errors
/// The device failed.
pub(super) fn starts<D: ZoneDevice>(device: &D, id: [u8; 16], log_zones: u32) -> Result<Starts, Error> {
    let mut found = Vec::new();
    let mut block = vec![0; device.shape().block];
    let zones = device.first_zones(log_zones)?;
    // Zones that are offline hold nothing.
    let written = (0..).zip(&zones).filter(|(_, state)| state.written > 0);
    for (zone, _) in written {
        if let Err(error) = device.read(device.shape().start_of(zone), &mut block) {
            // It may have been reset, or gone offline, just now.
            if device.zone(zone)?.written == 0 {
                continue;
            }
            return Err(error.into());
        }
        match frame::decode(&block) {
            Some((header, _)) if header.id == id => found.push((zone, header.epoch)),
            _ => {}
        }
    }
    Ok(Starts { zones, found })
}

/// Reads the zones of an epoch. `None` if its snapshot is not whole. The zones `known` went offline before it ended.
fn read_epoch<D: ZoneDevice>(
    device: &D,
    zones: &[Zone],
    epoch: u64,
    (starts, known): (&[Start], &BTreeSet<u32>),
) -> Result<Option<Found>, Error> {
    let Some(first) = starts.first() else { return Ok(None) };
    let mut found = Found {
        layout: first.layout,
        id: first.id,
        chain: starts.iter().map(|start| start.zone).collect(),
        stream: Vec::new(),
        snapshot: 0,
    };
    let (mut next, mut snapshot) = (0, None);
    let missing = |next: u64, zone: u32| {
        Error::Damaged(format!(
            "frame {next} of the log is missing, and zone {zone}, which is offline, may have had it"
        ))
    };
    let unreadable = |next: u64, zone: u32| {
        Error::Damaged(format!("frame {next} of the log, in zone {zone}, is not readable"))
    };
    for (index, start) in starts.iter().enumerate() {
        if start.sequence != next {
            // A zone is empty before the log goes on in the next one only where it took no frame. One that is offline may have had some.
            if let (Some(zone), true) = (offline(first.layout.log_zones, zones).next(), start.sequence > next)
            {
                return Err(missing(next, zone));
            }
            break;
        }
        // A frame that failed may lie in this zone, and once more in the next.
        let end = starts.get(index + 1).map_or(u64::MAX, |start| start.sequence);
        let bytes = read_zone(device, start.zone, &zones[start.zone as usize])?;
        let mut rest = bytes.as_slice();
        while next < end {
            let expected = |header: &FrameHeader| header.id == first.id && header.epoch == epoch;
            let Some((header, payload)) = frame::decode(rest) else {
                if lies_behind(rest, device.shape().block, |header| {
                    expected(header) && header.sequence > next
                }) {
                    return Err(unreadable(next, start.zone));
                }
                break;
            };
            rest = rest.get(frame::length(payload, device.shape().block)..).unwrap_or_default();
            if !expected(&header) || header.sequence < next {
                // A program that had lost the store wrote it before it found that out.
                continue;
            }
            if header.sequence > next {
                return Err(unreadable(next, start.zone));
            }
            match header.kind {
                FrameKind::Start => {}
                FrameKind::Records => found.stream.extend_from_slice(payload),
                FrameKind::SnapshotEnd => snapshot = snapshot.or(Some(found.stream.len())),
            }
            next += 1;
        }
    }
    // Only a full zone was left: the log, or the next epoch, may go on in a zone that went offline since. A worn device makes zones with
    // contents read-only, and empty ones offline.
    if let Some(Start { zone, part, layout, .. }) = starts.last()
        && part.first.is_some()
        && zones[*zone as usize].condition == Condition::Full
        && let Some(zone) = offline(layout.log_zones, zones).find(|zone| !known.contains(zone))
    {
        return Err(missing(next, zone));
    }
    Ok(snapshot.map(|snapshot| Found { snapshot, ..found }))
}

/// Whether a frame like this begins at one of the blocks behind the first.
fn lies_behind(bytes: &[u8], block: usize, is_one: impl Fn(&FrameHeader) -> bool) -> bool {
    let blocks = (block..bytes.len()).step_by(block);
    blocks.filter_map(|at| frame::decode(&bytes[at..])).any(|(header, _)| is_one(&header))
}

/// What a zone holds. Memory is taken for what the device delivers, not for what it claims.
fn read_zone<D: ZoneDevice>(device: &D, zone: u32, state: &Zone) -> Result<Vec<u8>, Error> {
    /// Bytes of one read.
    const PIECE_BYTES: usize = 1 << 20;
    let shape = device.shape();
    let most = (PIECE_BYTES / shape.block).max(1) as u64;
    let mut contents = Vec::new();
    let (mut lba, end) = (shape.start_of(zone), shape.start_of(zone) + state.written.min(shape.zone_blocks));
    while lba < end {
        let blocks = most.min(end - lba);
        let start = contents.len();
        contents.resize(start + usize::try_from(blocks).unwrap_or(0) * shape.block, 0);
        device.read(lba, &mut contents[start..])?;
        lba += blocks;
    }
    Ok(contents)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Shape;
    use crate::simulated::Simulated;
    use crate::{Attributes, Change, FormatOptions, Ino, NewKind, Placement, Store};

    /// Zones of the log that are offline: an empty one is not needed. One that held a part of the log is missed.
    #[test]
    fn a_log_that_lost_a_zone_is_told_from_one_that_lost_an_empty_zone() {
        let shape = Shape { block: 512, zone_blocks: 64, zones: 40, open: 6, append_blocks: 16 };
        let device = Simulated::new(shape, 48, 1);
        let options = FormatOptions { log_zones: Some(12), ..FormatOptions::default() };
        Store::format(&device, &options, [1; 16], 0).unwrap();
        let store = Store::open(&device, Placement::default()).unwrap();
        // A snapshot of some zones, so that as much may come behind it.
        let name = |number: u32| format!("{number:0200}").into_bytes();
        for number in 0..180 {
            store.create(Ino::ROOT, &name(number), NewKind::File, Attributes::default()).unwrap();
        }
        store.sync_all().unwrap();
        drop(store);
        let store = Store::open(&device, Placement::default()).unwrap();
        let snapshot = store.lock().log.chain.len();
        let file = store.find(&name(7)).unwrap().ino;
        for mode in 0..110 {
            let change = Change { mode: Some(mode), ..Change::default() };
            store.change(file, &change, 1).unwrap();
            store.sync_all().unwrap();
        }
        let chain = store.lock().log.chain.clone();
        assert!(chain.len() >= snapshot + 2, "{snapshot} and {}", chain.len());
        drop(store);

        let empty = (0..12).find(|zone| device.zone(*zone).unwrap().written == 0).unwrap();
        device.wear_out(empty, Condition::Offline);
        let store = Store::open_read_only(&device).unwrap();
        assert_eq!(store.stat(file).unwrap().attributes.mode, 109);
        assert_eq!(store.check(true).unwrap().problems, Vec::<String>::new());

        // The last zone but one has what came between the snapshot and the last changes.
        let middle = chain[chain.len() - 2];
        device.wear_out(middle, Condition::Offline);
        match Store::open_read_only(&device) {
            Err(Error::Damaged(why)) => assert!(why.contains("is offline"), "{why}"),
            other => panic!("{:?}", other.map(|_| "it opens")),
        }
        device.wear_out(middle, Condition::Full);
        let store = Store::open(&device, Placement::default()).unwrap();
        assert_eq!(store.stat(file).unwrap().attributes.mode, 109);
    }
}
