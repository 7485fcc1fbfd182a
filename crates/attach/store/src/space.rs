//! The zones of data: which are empty, which take data of which group, which can be emptied.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::device::{Condition, Shape, Zone};
use crate::keys::{KeyRange, Nearness, Ruler};
use crate::log::{Layout, Position};
use crate::placement::{Group, Newcomer};
use crate::record::Ino;
use crate::tree::Tree;

/// A zone is emptied so that groups stay apart if at least one of so many of its blocks is garbage.
const GARBAGE_DIVISOR: u64 = 4;
/// Steps of what emptying a zone is worth.
const SCALE: u128 = 1 << 20;
/// Zones of data that are open at once, at most.
const MOST_OPEN: usize = 8;
/// Places for zones that are left for other groups when a group opens its second zone.
const KEPT_PLACES: usize = 3;

/// What a zone of data is used for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Use {
    /// It is empty.
    Empty,
    /// It takes data of this group.
    Open(Group),
    /// It takes no data. Files have some of its blocks.
    Closed,
    /// No file has any of its blocks. A record says so, but that is not in the log yet.
    Dead,
    /// The same, and it may be reset when the log is durable up to here.
    Freed(Position),
    /// It is worn out.
    Broken,
}

/// A zone of data.
#[derive(Clone, Debug)]
pub(crate) struct DataZone {
    pub(crate) usage: Use,
    pub(crate) capacity: u64,
    pub(crate) written: u64,
    /// Counts resets, so that who read it can tell whether it was reset meanwhile.
    pub(crate) life: u32,
    /// Appends that are under way to it. What they bring belongs to files soon.
    under_way: u32,
    /// Its number in the order in which zones became full, from 1; 0 while it is not full.
    filled: u64,
    /// When the oldest data came to it, in blocks that programs had written before; 0 if that is not known any more.
    since: u64,
    /// When the youngest came.
    last: u64,
    /// Programs replaced some of its data, without deleting it.
    is_rewritten: bool,
    /// Files with keys that it has data of, while it is open. Some may be gone.
    tables: BTreeMap<Ino, KeyRange>,
}

impl DataZone {
    fn room(&self) -> u64 {
        self.capacity - self.written
    }
}

/// All zones of data. Their numbers are those of the device.
#[derive(Debug)]
pub(crate) struct Space {
    /// Zones before the first belong to the log.
    first: u32,
    zones: Vec<DataZone>,
    zone_blocks: u64,
    /// Zones that may be open at once.
    open: usize,
    /// Zones that may have room at once after a loss of power: those that are open, and full ones that have lost their ends.
    places: usize,
    /// Counts zones that became full: all, and those whose contents are durable.
    fills: u64,
    settled: u64,
    reserved: u64,
    /// Blocks of the largest zone, and of all that are not worn out.
    capacity: u64,
    all: u64,
    broken: usize,
}

/// Where data can go now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Choice {
    /// To this open zone.
    Open(u32),
    /// To this empty zone, which opens with that.
    Empty(u32),
    /// A zone can be emptied first.
    Reset(u32),
    /// Zones can be emptied when the log is written and durable.
    Commit,
    /// Garbage collection must empty a zone.
    Collect,
}

impl Space {
    /// The zones of data as a device reports them, with what files have in them.
    pub(crate) fn new(shape: &Shape, zones: &[Zone], layout: &Layout, tree: &Tree) -> Self {
        let first = layout.log_zones;
        let states = (first..).zip(zones.iter().skip(first as usize));
        let open = open_data_zones(shape);
        let reserved = layout.reserved_zones.into();
        let mut found = Self {
            first,
            zones: Vec::new(),
            zone_blocks: shape.zone_blocks,
            open,
            places: data_places(shape),
            fills: 0,
            settled: 0,
            reserved,
            capacity: 0,
            all: 0,
            broken: 0,
        };
        for (number, zone) in states {
            let usage = match (zone.condition, zone.written, tree.live(number)) {
                (Condition::ReadOnly | Condition::Offline, ..) => Use::Broken,
                (_, 0, _) => Use::Empty,
                // What the log does not know is of no use. Nothing in the log refers to it.
                (_, _, 0) => Use::Dead,
                (Condition::Writable, ..) if found.count(is_open) < open => Use::Open(Group::default()),
                _ => Use::Closed,
            };
            let (capacity, written) = (zone.capacity, zone.written);
            found.zones.push(DataZone {
                usage,
                capacity,
                written,
                life: 0,
                under_way: 0,
                filled: 0,
                since: u64::MAX,
                last: 0,
                is_rewritten: false,
                tables: BTreeMap::new(),
            });
        }
        found.recount();
        found
    }

    fn count(&self, is_one: impl Fn(&Use) -> bool) -> usize {
        self.zones.iter().filter(|zone| is_one(&zone.usage)).count()
    }

    /// All zones, with their numbers on the device.
    pub(crate) fn numbered(&self) -> impl Iterator<Item = (u32, &DataZone)> {
        (self.first..).zip(&self.zones)
    }

    pub(crate) fn zone(&self, number: u32) -> Option<&DataZone> {
        self.zones.get(number.checked_sub(self.first)? as usize)
    }

    fn zone_mut(&mut self, number: u32) -> Option<&mut DataZone> {
        self.zones.get_mut(number.checked_sub(self.first)? as usize)
    }

    /// Blocks that files may have.
    pub(crate) fn usable(&self) -> u64 {
        self.all.saturating_sub(self.reserved * self.capacity)
    }

    /// Blocks of files in zones that are worn out. They take nothing of what is usable.
    pub(crate) fn stranded(&self, tree: &Tree) -> u64 {
        if self.broken == 0 {
            return 0;
        }
        let broken = self.numbered().filter(|(_, zone)| zone.usage == Use::Broken);
        broken.map(|(number, _)| tree.live(number)).sum()
    }

    /// Counts what the methods above tell, after a zone was lost or changed its capacity.
    fn recount(&mut self) {
        let (broken, usable): (Vec<&DataZone>, Vec<&DataZone>) =
            self.zones.iter().partition(|zone| zone.usage == Use::Broken);
        self.broken = broken.len();
        self.all = usable.iter().map(|zone| zone.capacity).sum();
        self.capacity = self.zones.iter().map(|zone| zone.capacity).max().unwrap_or(0);
    }

    /// Empty zones that only garbage collection takes. One suffices; the other is for the case that the first wears out.
    fn spares(&self) -> usize {
        if self.reserved > 2 { 2 } else { 1 }
    }

    /// Where data goes.
    pub(crate) fn choose(
        &self,
        newcomer: &Newcomer,
        tree: &Tree,
        (collecting, may_collect): (bool, bool),
        durable: Position,
    ) -> Choice {
        let open = || self.numbered().filter(|(_, zone)| is_open(&zone.usage) && zone.room() > 0);
        let group = newcomer.group;
        let same: Vec<_> = open().filter(|(_, zone)| zone.usage == Use::Open(group)).collect();
        let best = best_for(newcomer, &same, tree);
        if let Some((number, Nearness::Near(_))) = best {
            return Choice::Open(number);
        }
        let places = self.open.saturating_sub(self.count(is_open));
        // A group's second zone leaves places for other groups.
        let may_open = places > if same.is_empty() { 0 } else { KEPT_PLACES };
        let is_empty = |usage: &Use| *usage == Use::Empty;
        let resettable =
            self.numbered().find(|(_, zone)| matches!(zone.usage, Use::Freed(at) if at <= durable));
        let kept = if collecting { 0 } else { self.spares() };
        if may_open && self.count(is_empty) > kept {
            let empty = self.numbered().filter(|(_, zone)| is_empty(&zone.usage));
            // The one that was used least.
            if let Some((number, _)) = empty.min_by_key(|(_, zone)| zone.life) {
                return Choice::Empty(number);
            }
        }
        if let (Some((number, _)), true) = (resettable, may_open) {
            return Choice::Reset(number);
        }
        if let Some((number, _)) = best {
            return Choice::Open(number);
        }
        // Rather than into a zone of another group it goes into one that is emptied for it, if that is worth the work.
        let has_dead = self.count(|usage| matches!(usage, Use::Dead | Use::Freed(_))) > 0;
        if may_open && !collecting && has_dead {
            return Choice::Commit;
        }
        if may_open && may_collect && self.has_cheap_victim(tree) {
            return Choice::Collect;
        }
        let nearest = open().min_by_key(|(_, zone)| match zone.usage {
            Use::Open(other) => Some(other.distance(group)),
            _ => None,
        });
        if let Some((number, _)) = nearest {
            return Choice::Open(number);
        }
        if has_dead { Choice::Commit } else { Choice::Collect }
    }

    /// The zone that garbage collection empties, if that frees anything. `clock` counts blocks that programs wrote.
    ///
    /// What counts is the space that it frees for the work. An old zone whose data programs replace counts more, as in LFS (SOSP 1991): what is left there was not replaced for
    /// long, and will not be soon. Files that are deleted as a whole do not do that. Their zones count as if all had the mean age at which data dies, which is the number of
    /// blocks that files have.
    pub(crate) fn victim(&self, tree: &Tree, clock: u64) -> Option<u32> {
        let worth = |number: u32, zone: &DataZone| {
            let live = tree.live(number);
            let age = if zone.is_rewritten { clock.saturating_sub(zone.last) } else { tree.live_total() };
            let garbage = zone.capacity.saturating_sub(live);
            u128::from(garbage) * u128::from(age.max(1)) * SCALE / u128::from(zone.capacity + live).max(1)
        };
        let closed = self.numbered().filter(|(_, zone)| zone.usage == Use::Closed && zone.under_way == 0);
        let victim = closed.min_by_key(|(number, zone)| Reverse(worth(*number, zone)));
        victim.filter(|(number, zone)| tree.live(*number) < zone.capacity).map(|(number, _)| number)
    }

    /// Whether garbage collection gains enough to keep groups apart.
    fn has_cheap_victim(&self, tree: &Tree) -> bool {
        let gain = |(number, zone): &(u32, &DataZone)| zone.capacity - tree.live(*number).min(zone.capacity);
        let closed = self.numbered().filter(|(_, zone)| zone.usage == Use::Closed && zone.under_way == 0);
        closed.map(|zone| gain(&zone)).max().is_some_and(|gain| gain >= self.capacity / GARBAGE_DIVISOR)
    }

    /// Zones that are dead, which the log does not say yet.
    pub(crate) fn dead(&self) -> Vec<u32> {
        self.numbered().filter(|(_, zone)| zone.usage == Use::Dead).map(|(number, _)| number).collect()
    }

    /// Blocks of the largest zone.
    pub(crate) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// How often the zone of a logical block was reset.
    pub(crate) fn life_at(&self, lba: u64) -> u32 {
        self.zone(self.zone_of(lba)).map_or(0, |zone| zone.life)
    }

    fn zone_of(&self, lba: u64) -> u32 {
        u32::try_from(lba / self.zone_blocks).unwrap_or(u32::MAX)
    }

    /// When the oldest data came to the zone of a logical block, in blocks that programs had written before; and whether programs replaced some of its data.
    pub(crate) fn habits(&self, lba: u64) -> (u64, bool) {
        self.zone(self.zone_of(lba)).map_or((0, false), |zone| (zone.since, zone.is_rewritten))
    }

    /// Programs replace data in the zone of a logical block.
    pub(crate) fn rewritten(&mut self, lba: u64) {
        if let Some(zone) = self.zone_mut(self.zone_of(lba)) {
            zone.is_rewritten = true;
        }
    }

    /// An empty zone takes data of a group from now on.
    pub(crate) fn open(&mut self, number: u32, group: Group) {
        if let Some(zone) = self.zone_mut(number) {
            assert_eq!((zone.usage, zone.written), (Use::Empty, 0), "zone {number} is opened");
            zone.usage = Use::Open(group);
            (zone.since, zone.last, zone.is_rewritten) = (u64::MAX, 0, false);
        }
    }

    /// A zone has, or gets, data.
    pub(crate) fn welcome(&mut self, number: u32, newcomer: &Newcomer) {
        if let Some(zone) = self.zone_mut(number) {
            (zone.since, zone.last) = (zone.since.min(newcomer.since), zone.last.max(newcomer.since));
            zone.is_rewritten |= newcomer.is_rewritten;
            if let (Some((ino, keys)), true) = (&newcomer.table, is_open(&zone.usage)) {
                zone.tables.insert(*ino, keys.clone());
            }
        }
    }

    /// A zone that was open before the store was opened goes on with data of a group.
    pub(crate) fn resume(&mut self, number: u32, group: Group) {
        if let Some(zone) = self.zone_mut(number)
            && is_open(&zone.usage)
        {
            zone.usage = Use::Open(group);
        }
    }

    /// Blocks were appended to a zone.
    pub(crate) fn wrote(&mut self, number: u32, blocks: u64) {
        let fill = self.fills + 1;
        let Some(zone) = self.zone_mut(number) else { return };
        zone.written = (zone.written + blocks).min(zone.capacity);
        if zone.room() == 0 {
            (zone.usage, zone.filled) = (Use::Closed, fill);
            zone.tables.clear();
            self.fills = fill;
        }
    }

    /// Whether one more open zone could be one too many after a loss of power. Full zones that have lost their ends have room again, and take a
    /// place then. Where there are not enough places, the device leaves some of them full, and these do not tell that they have lost something.
    pub(crate) fn is_crowded(&self) -> bool {
        let may_lose = self.zones.iter().filter(|zone| zone.filled > self.settled).count();
        self.count(is_open) + may_lose >= self.places
    }

    /// How many of the zones that became full have no append under way, nor has any that became full before them. Appends are under way to the zones
    /// `under_way`. A Flush that begins now makes these zones durable.
    pub(crate) fn ended_fills(&self, under_way: impl Iterator<Item = u32>) -> u64 {
        let filled = under_way.filter_map(|zone| self.zone(zone)).map(|zone| zone.filled);
        filled.filter(|number| *number > 0).min().map_or(self.fills, |number| number - 1)
    }

    /// So many zones that became full are durable.
    pub(crate) fn settle(&mut self, fills: u64) {
        self.settled = self.settled.max(fills);
    }

    /// All zones that became full are durable.
    pub(crate) fn settle_all(&mut self) {
        self.settled = self.fills;
    }

    /// Blocks are on their way to a zone.
    pub(crate) fn began(&mut self, number: u32, blocks: u64) {
        self.wrote(number, blocks);
        if let Some(zone) = self.zone_mut(number) {
            zone.under_way += 1;
        }
    }

    /// Blocks on their way to a zone have arrived, or will not.
    pub(crate) fn ended(&mut self, number: u32) {
        if let Some(zone) = self.zone_mut(number) {
            assert!(zone.under_way > 0, "an append to zone {number} ends twice");
            zone.under_way -= 1;
        }
    }

    /// A zone takes no data any more.
    pub(crate) fn close(&mut self, number: u32, state: Zone) {
        if let Some(zone) = self.zone_mut(number) {
            (zone.written, zone.capacity) = (state.written.min(state.capacity), state.capacity);
            zone.usage = match state.condition {
                Condition::Writable | Condition::Full => Use::Closed,
                Condition::ReadOnly | Condition::Offline => Use::Broken,
            };
        }
        self.recount();
    }

    /// Zones that are neither empty nor open nor full.
    pub(crate) fn unfinished(&self) -> Vec<u32> {
        let others = self.numbered().filter(|(_, zone)| zone.written > 0 && zone.room() > 0);
        others.filter(|(_, zone)| !is_open(&zone.usage)).map(|(number, _)| number).collect()
    }

    /// A zone was finished, or could not be.
    pub(crate) fn finished(&mut self, number: u32, state: Zone) {
        if let Some(zone) = self.zone_mut(number) {
            zone.written = state.written.min(state.capacity);
            if matches!(state.condition, Condition::ReadOnly | Condition::Offline) {
                zone.usage = Use::Broken;
            }
        }
        self.recount();
    }

    /// A zone was reset.
    pub(crate) fn emptied(&mut self, number: u32) {
        if let Some(zone) = self.zone_mut(number) {
            (zone.usage, zone.written, zone.filled) = (Use::Empty, 0, 0);
            zone.life = zone.life.wrapping_add(1);
            zone.tables.clear();
        }
    }

    /// A zone is worn out.
    pub(crate) fn broke(&mut self, number: u32) {
        if let Some(zone) = self.zone_mut(number) {
            zone.usage = Use::Broken;
        }
        self.recount();
    }

    /// Zones that no file has blocks of any more are dead from now on. Returns whether there were any.
    pub(crate) fn bury(&mut self, tree: &Tree) -> bool {
        let mut found = false;
        for (number, zone) in (self.first..).zip(&mut self.zones) {
            if zone.usage == Use::Closed && zone.under_way == 0 && tree.live(number) == 0 {
                zone.usage = Use::Dead;
                found = true;
            }
        }
        found
    }

    /// The log up to this position says that these zones are dead.
    pub(crate) fn freed(&mut self, zones: &[u32], position: Position) {
        for number in zones {
            if let Some(zone) = self.zone_mut(*number)
                && zone.usage == Use::Dead
            {
                zone.usage = Use::Freed(position);
            }
        }
    }

    /// Numbers of zones that are empty, open, closed, dead, and broken.
    pub(crate) fn counts(&self) -> [usize; 5] {
        [
            self.count(|usage| *usage == Use::Empty),
            self.count(is_open),
            self.count(|usage| *usage == Use::Closed),
            self.count(|usage| matches!(usage, Use::Dead | Use::Freed(_))),
            self.count(|usage| *usage == Use::Broken),
        ]
    }
}

/// Of open zones that suit data, the best, and how near it is. Without keys the first one is as good as any.
fn best_for(newcomer: &Newcomer, zones: &[(u32, &DataZone)], tree: &Tree) -> Option<(u32, Nearness)> {
    let Some((_, own)) = &newcomer.table else {
        return zones.first().map(|(number, _)| (*number, Nearness::Near(0)));
    };
    let all = zones.iter().flat_map(|(_, zone)| zone.tables.values()).chain([own]);
    let ruler = Ruler::new(all);
    let nearness = |zone: &DataZone| {
        let live = zone.tables.iter().filter(|(ino, _)| tree.get(**ino).is_some());
        // A zone of which no file has anything suits all of them.
        live.map(|(_, keys)| ruler.measure(own, keys)).min().unwrap_or(Nearness::Near(0))
    };
    zones.iter().map(|(number, zone)| (*number, nearness(zone))).min_by_key(|(_, near)| *near)
}

fn is_open(usage: &Use) -> bool {
    matches!(usage, Use::Open(_))
}

/// How many zones of data may be open at once on such a device: two of its places are for the log.
pub(crate) fn open_data_zones(shape: &Shape) -> usize {
    data_places(shape).min(MOST_OPEN)
}

/// Zones of data that may have room at once on such a device.
fn data_places(shape: &Shape) -> usize {
    shape.open.saturating_sub(2).max(1) as usize
}
