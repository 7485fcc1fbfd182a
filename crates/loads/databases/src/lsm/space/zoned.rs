//! Files on zones: lists of extents, as ZenFS has them. A zone takes data of one file at a time; files that are expected to die together share zones; a zone without
//! data of files is reset. Where zones become scarce, the one with the least data is emptied.

use super::{DeviceIo, Extent, FileId, FileSpace, Files, Hint, Move, Usage, push, reads, replace};
use crate::lsm::config::Lifetime;
use workload::{Verb, ZoneAction};

/// Which files share zones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Placement {
    /// Any.
    None,
    /// Files of one lifetime; a file may fill up a zone of longer-lived ones.
    Lifetime,
    /// Files of one level whose keys meet or are near each other: the compaction that takes one takes others.
    Overlap,
}

/// Zones of a namespace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ZonedConfig {
    /// How many zones there are.
    pub zones: u32,
    /// Logical blocks from one zone to the next, and that can be written to one.
    pub size: u64,
    /// See [`ZonedConfig::size`].
    pub capacity: u64,
    /// Bytes of a logical block.
    pub block_bytes: u32,
    /// Zones that may be active at a time: at least 3.
    pub active: u32,
    /// Which files share zones.
    pub placement: Placement,
    /// Zones that are kept for collection, at least 1.
    pub reserve: u32,
    /// Where a zone must be closed for another, one with less room than this share is finished, in percent (`finish_threshold`).
    pub finish: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Empty,
    /// It takes data; of this file, if there is one.
    Open(Option<FileId>),
    /// It takes no data.
    Full,
    Finishing,
    Resetting,
    /// It is being emptied.
    Victim,
}

#[derive(Clone, Copy, Debug)]
struct Zone {
    state: State,
    written: u64,
    /// Blocks of files.
    live: u64,
    lifetime: Lifetime,
    /// Level and keys of the last table; `None` for logs.
    table: Option<(u32, u64, u64)>,
}

const FRESH_ZONE: Zone =
    Zone { state: State::Empty, written: 0, live: 0, lifetime: Lifetime::Extreme, table: None };

#[derive(Clone, Debug)]
struct File {
    extents: Vec<Extent>,
    hint: Hint,
    /// The zone that it writes to.
    zone: Option<u32>,
}

/// See the [module](self).
#[derive(Clone, Debug)]
pub struct Zoned {
    config: ZonedConfig,
    zones: Vec<Zone>,
    files: Files<File>,
    /// The zone that takes what is moved, and the one that is emptied.
    target: Option<u32>,
    victim: Option<u32>,
    live: u64,
    moved: u64,
    resets: u64,
    finished: u64,
}

impl Zoned {
    /// Empty zones.
    pub fn new(config: ZonedConfig) -> Self {
        Zoned {
            config,
            zones: vec![FRESH_ZONE; config.zones as usize],
            files: Files::EMPTY,
            target: None,
            victim: None,
            live: 0,
            moved: 0,
            resets: 0,
            finished: 0,
        }
    }

    fn count(&self, is_one: impl Fn(&Zone) -> bool) -> u32 {
        self.zones.iter().filter(|zone| is_one(zone)).count() as u32
    }

    fn room(&self, zone: u32) -> u64 {
        self.config.capacity - self.zones[zone as usize].written
    }

    fn zone_of(&self, lba: u64) -> u32 {
        (lba / self.config.size) as u32
    }

    fn start(&self, zone: u32) -> u64 {
        u64::from(zone) * self.config.size
    }

    /// Open zones that no file writes to, and that are not for what is moved.
    fn idle(&self) -> impl Iterator<Item = (u32, &Zone)> {
        let idle =
            |&(number, zone): &(u32, &Zone)| zone.state == State::Open(None) && Some(number) != self.target;
        (0..).zip(&self.zones).filter(idle)
    }

    /// How badly an open zone suits a file, the least is the best; `None` if it does not.
    fn distance(&self, zone: &Zone, hint: &Hint) -> Option<u64> {
        match self.config.placement {
            Placement::None => Some(zone.written),
            Placement::Lifetime => {
                let far = (zone.lifetime as u64).checked_sub(hint.lifetime as u64)?;
                // A log shares no zone with tables.
                ((zone.lifetime == Lifetime::Short) == (hint.lifetime == Lifetime::Short)).then_some(far)
            }
            Placement::Overlap => match (zone.table, hint.table) {
                (None, None) => Some(0),
                (Some((level, from, to)), Some((own, first, end))) if level == own => {
                    Some(first.saturating_sub(to).max(from.saturating_sub(end)))
                }
                _ => None,
            },
        }
    }

    /// A zone for more of a file.
    fn zone_for(&mut self, file: FileId, out: &mut Vec<DeviceIo>) -> Option<u32> {
        let hint = self.files.get(file).hint;
        let suits = self.idle().filter_map(|(number, zone)| Some((self.distance(zone, &hint)?, number)));
        let best = suits.min();
        let empty = self.count(|zone| zone.state == State::Empty);
        let active = self.count(|zone| matches!(zone.state, State::Open(_) | State::Finishing));
        // One is for what is moved.
        let places = self.config.active.saturating_sub(active + u32::from(self.target.is_none()));
        let can_open = empty > self.config.reserve && places > 0;
        // Tables far from each other share a zone only where no other can be opened.
        let near = match self.config.placement {
            Placement::Overlap => best.filter(|(far, _)| *far == 0),
            _ => best,
        };
        let number = match near.or(if can_open { None } else { best }) {
            Some((_, number)) => number,
            None if can_open => self.open()?,
            None if empty > self.config.reserve => self.make_place(&hint, out)?,
            // There is no other: any that takes data.
            None => self.idle().map(|(number, _)| number).next()?,
        };
        let zone = &mut self.zones[number as usize];
        zone.state = State::Open(Some(file));
        if zone.written == 0 {
            zone.lifetime = hint.lifetime;
        }
        zone.table = hint.table;
        self.files.get_mut(file).zone = Some(number);
        Some(number)
    }

    /// All places are taken: one with little room is finished, so that there is a place for another; or, if each has much room, is shared.
    fn make_place(&mut self, hint: &Hint, out: &mut Vec<DeviceIo>) -> Option<u32> {
        let least = self.idle().map(|(number, _)| (self.room(number), number)).min();
        let (room, number) = least?;
        if room * 100 <= self.config.capacity * u64::from(self.config.finish) {
            self.zones[number as usize].state = State::Finishing;
            self.finished += 1;
            out.push(DeviceIo { verb: Verb::Zone(ZoneAction::Finish), lba: self.start(number), blocks: 0 });
            return None;
        }
        let nearest =
            |(number, zone): (u32, &Zone)| ((zone.lifetime as u64).abs_diff(hint.lifetime as u64), number);
        self.idle().map(nearest).min().map(|(_, number)| number)
    }

    /// The empty zone with the lowest number.
    fn open(&mut self) -> Option<u32> {
        let number = self.zones.iter().position(|zone| zone.state == State::Empty)?;
        self.zones[number].state = State::Open(None);
        Some(number as u32)
    }

    /// Writes to a zone, as far as there is room.
    fn write(&mut self, number: u32, blocks: u64, out: &mut Vec<DeviceIo>) -> Extent {
        let some = self.room(number).min(blocks);
        let lba = self.start(number) + self.zones[number as usize].written;
        let zone = &mut self.zones[number as usize];
        zone.written += some;
        zone.live += some;
        if zone.written == self.config.capacity {
            zone.state = State::Full;
        }
        self.live += some;
        out.push(DeviceIo { verb: Verb::Write, lba, blocks: some as u32 });
        Extent { lba, blocks: some }
    }

    /// Resets a zone that holds nothing any more.
    fn sweep(&mut self, number: u32, out: &mut Vec<DeviceIo>) {
        let target = self.target;
        let start = self.start(number);
        let zone = &mut self.zones[number as usize];
        let rests = match zone.state {
            State::Full => true,
            State::Open(None) => target != Some(number),
            _ => false,
        };
        if rests && zone.live == 0 && zone.written > 0 {
            zone.state = State::Resetting;
            self.resets += 1;
            out.push(DeviceIo { verb: Verb::Zone(ZoneAction::Reset), lba: start, blocks: 0 });
        }
    }

    fn forget(&mut self, extent: Extent, out: &mut Vec<DeviceIo>) {
        let number = self.zone_of(extent.lba);
        self.zones[number as usize].live -= extent.blocks;
        self.live -= extent.blocks;
        self.sweep(number, out);
    }

    /// The zone that what is moved goes to.
    fn target(&mut self) -> Option<u32> {
        if self.target.is_none() {
            let active = self.count(|zone| matches!(zone.state, State::Open(_) | State::Finishing));
            if active < self.config.active {
                self.target = self.open();
            }
        }
        self.target
    }
}

impl FileSpace for Zoned {
    fn create(&mut self, hint: Hint) -> FileId {
        self.files.add(File { extents: Vec::new(), hint, zone: None })
    }

    fn append(&mut self, file: FileId, blocks: u32, out: &mut Vec<DeviceIo>) -> u32 {
        let mut left = u64::from(blocks);
        while left > 0 {
            let zone = self.files.get(file).zone.or_else(|| self.zone_for(file, out));
            let Some(number) = zone else { break };
            let extent = self.write(number, left, out);
            let full = self.room(number) == 0;
            let own = self.files.get_mut(file);
            push(&mut own.extents, extent.lba, extent.blocks);
            if full {
                own.zone = None;
            }
            left -= extent.blocks;
        }
        blocks - left as u32
    }

    fn read(&self, file: FileId, at: u64, blocks: u32, out: &mut Vec<DeviceIo>) {
        reads(&self.files.get(file).extents, at, blocks, out);
    }

    fn close(&mut self, file: FileId, out: &mut Vec<DeviceIo>) {
        if let Some(number) = self.files.get_mut(file).zone.take() {
            self.zones[number as usize].state = State::Open(None);
            self.sweep(number, out);
        }
    }

    fn delete(&mut self, file: FileId, out: &mut Vec<DeviceIo>) {
        self.close(file, out);
        for extent in self.files.remove(file).extents {
            self.forget(extent, out);
        }
    }

    fn ended(&mut self, io: &DeviceIo) -> bool {
        let number = self.zone_of(io.lba) as usize;
        match (io.verb, self.zones[number].state) {
            (Verb::Zone(ZoneAction::Reset), _) => self.zones[number] = FRESH_ZONE,
            (Verb::Zone(ZoneAction::Finish), State::Finishing) => {
                let zone = &mut self.zones[number];
                zone.written = self.config.capacity;
                zone.state = State::Full;
            }
            _ => return false,
        }
        true
    }

    fn collect(&mut self, most: u32) -> Option<Vec<Move>> {
        let empty = self.count(|zone| matches!(zone.state, State::Empty | State::Resetting));
        if self.victim.is_some() || empty > self.config.reserve + 1 {
            return None;
        }
        let full = (0..).zip(&self.zones).filter(|(_, zone)| zone.state == State::Full);
        let (number, live) = full.map(|(number, zone)| (number, zone.live)).min_by_key(|(_, live)| *live)?;
        // What is all but full of data gives nothing.
        if live * 100 >= self.config.capacity * 98 {
            return None;
        }
        self.victim = Some(number);
        self.zones[number as usize].state = State::Victim;
        let mut moves = Vec::new();
        for (index, file) in (0..).zip(&self.files.files) {
            for extent in file.iter().flat_map(|file| &file.extents) {
                if self.zone_of(extent.lba) != number {
                    continue;
                }
                let (mut lba, mut left) = (extent.lba, extent.blocks);
                while left > 0 {
                    let blocks = left.min(most.into());
                    moves.push(Move { file: FileId(index), lba, blocks: blocks as u32 });
                    (lba, left) = (lba + blocks, left - blocks);
                }
            }
        }
        Some(moves)
    }

    fn relocate(&mut self, of: &Move, out: &mut Vec<DeviceIo>) -> u32 {
        let has = |extent: &Extent| (extent.lba..extent.lba + extent.blocks).contains(&of.lba);
        // The file may be gone.
        if !self.files.find_mut(of.file).is_some_and(|file| file.extents.iter().any(has)) {
            return of.blocks;
        }
        let mut left = u64::from(of.blocks);
        let mut places = Vec::new();
        while left > 0 {
            let Some(number) = self.target() else { break };
            let place = self.write(number, left, out);
            if self.room(number) == 0 {
                self.target = None;
            }
            left -= place.blocks;
            places.push(place);
        }
        let moved = u64::from(of.blocks) - left;
        if moved == 0 {
            return 0;
        }
        self.moved += moved;
        replace(&mut self.files.get_mut(of.file).extents, of.lba, moved, &places);
        self.forget(Extent { lba: of.lba, blocks: moved }, out);
        moved as u32
    }

    fn collected(&mut self, out: &mut Vec<DeviceIo>) {
        if let Some(number) = self.victim.take() {
            self.zones[number as usize].state = State::Full;
            self.sweep(number, out);
        }
    }

    #[cfg(test)]
    fn describe(&self) -> String {
        let zones: Vec<_> = self.zones.iter().map(|zone| (zone.state, zone.written, zone.live)).collect();
        format!("target {:?}, victim {:?}, {zones:?}", self.target, self.victim)
    }

    fn usage(&self) -> Usage {
        let taken = self.zones.iter().map(|zone| match zone.state {
            State::Empty => 0,
            State::Open(_) => zone.written,
            _ => self.config.capacity,
        });
        Usage {
            capacity: u64::from(self.config.zones.saturating_sub(self.config.reserve)) * self.config.capacity,
            live: self.live,
            taken: taken.sum(),
            moved: self.moved,
            resets: self.resets,
            finished: self.finished,
        }
    }
}
