//! What a zone must look like after any crash.
//!
//! The blocks of a zone have histories like all blocks. A reset is an operation that gives each of them zeros. A zone is also
//! written in order. So its blocks are of one life and in the order of their writes. Nothing lies behind its write pointer.

use super::oracle::Value;
use nvme::zone::ZoneState;

/// Zones of a namespace.
pub(super) const ZONES: usize = 4;

/// A zone, as the drive reports it.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReportedZone {
    pub state: ZoneState,
    /// Blocks from its begin to its write pointer, if it has one.
    pub written: Option<usize>,
    pub capacity: usize,
    /// Whether it has a Zone Random Write Area.
    pub zrwa: bool,
}

/// The zones of a namespace, as its hosts know them.
#[derive(Clone, Debug)]
pub(super) struct Zones {
    /// Blocks from one zone to the next.
    pub size: usize,
    /// Blocks of a zone that can be written.
    pub capacity: usize,
    /// Blocks that can be written before the next write: `None` where the host has to ask the drive.
    pub next: Vec<Option<usize>>,
    /// Whether the host ever finished the zone.
    pub finished: Vec<bool>,
    /// Whether the host ever opened the zone with a Zone Random Write Area.
    pub with_area: Vec<bool>,
    /// Whether it has one now, as far as `next` is known.
    pub zrwa: Vec<bool>,
}

impl Zones {
    pub(super) fn new(size: usize, capacity: usize) -> Zones {
        let no = || vec![false; ZONES];
        Zones { size, capacity, next: vec![None; ZONES], finished: no(), with_area: no(), zrwa: no() }
    }

    /// The host must ask the drive for the write pointer of the zone of a block.
    pub(super) fn forget(&mut self, lba: usize) {
        self.next[lba / self.size] = None;
    }
}

/// Whether a zone that was opened with a Zone Random Write Area of so many blocks can be as the drive reports it: nothing lies behind its
/// area, or behind its write pointer if it has none any more.
pub(super) fn check_area(blocks: &[Option<Value>], zone: &ReportedZone, area: usize) -> Result<(), String> {
    let end = zone.written.unwrap_or(zone.capacity) + if zone.zrwa { area } else { 0 };
    let behind = blocks.iter().skip(end).position(|value| !matches!(value, Some(Value::Zeros(_))));
    behind.map_or(Ok(()), |block| Err(format!("block {} is written", end + block)))
}

/// Whether a zone with these blocks can be as the drive reports it.
pub(super) fn check_zone(
    blocks: &[Option<Value>],
    zone: &ReportedZone,
    finished: bool,
) -> Result<(), String> {
    let is_written = |value: &Option<Value>| !matches!(value, Some(Value::Zeros(_)));
    let prefix = blocks.iter().take_while(|value| is_written(value)).count();
    if let Some(hole) = blocks[prefix..].iter().position(is_written) {
        return Err(format!("block {prefix} holds nothing, and block {} does", prefix + hole));
    }
    let versions: Vec<u64> = blocks[..prefix]
        .iter()
        .filter_map(|value| match value {
            Some(Value::Stamp { version, .. }) => Some(*version),
            _ => None,
        })
        .collect();
    if !versions.is_sorted() {
        return Err(format!("it holds blocks of several lives: {versions:?}"));
    }
    match zone.state {
        ZoneState::FULL if prefix == zone.capacity || finished => Ok(()),
        ZoneState::FULL => Err(format!("it is full with {prefix} blocks, and nobody finished it")),
        _ if zone.written == Some(prefix) && prefix < zone.capacity => Ok(()),
        _ => Err(format!("it holds {prefix} blocks")),
    }
}

#[test]
fn a_zone_that_cannot_be_is_found() {
    let written = |version, lba| Some(Value::Stamp { version, space: 3, lba });
    let empty = Some(Value::Zeros(0));
    let reported = |state, written| ReportedZone { state, written, capacity: 3, zrwa: false };
    let open = |written| reported(ZoneState::IMPLICITLY_OPENED, Some(written));
    let two = [written(5, 0), written(7, 1), empty, empty];
    assert_eq!(check_zone(&two, &open(2), false), Ok(()));
    assert_eq!(check_zone(&two, &reported(ZoneState::FULL, None), true), Ok(()));
    // Behind the area, and behind the write pointer without one.
    let ahead = [empty, empty, written(5, 2), empty];
    let area = ReportedZone { zrwa: true, ..open(0) };
    assert_eq!(check_area(&ahead, &area, 3), Ok(()));
    assert!(check_area(&ahead, &area, 2).is_err() && check_area(&ahead, &open(0), 3).is_err());
    assert_eq!(check_area(&ahead, &reported(ZoneState::FULL, None), 0), Ok(()));
    // The write pointer, a hole, and two lives.
    assert!(check_zone(&two, &open(1), false).is_err() && check_zone(&two, &open(3), false).is_err());
    assert!(check_zone(&[written(5, 0), empty, written(7, 2), empty], &open(1), false).is_err());
    assert!(check_zone(&[written(9, 0), written(7, 1), empty, empty], &open(2), false).is_err());
    assert!(check_zone(&two, &reported(ZoneState::FULL, None), false).is_err());
}
