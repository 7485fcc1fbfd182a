//! Where a logical block lies: zones, spare sectors, slips, remaps and skews.

use super::spindle::Angle;
use super::tree::{Spot, Tree, TreeConfig};
use super::types::{DiskError, MOST_CYLINDERS};

/// The place of a sector. The angle of its start belongs to it, so that nothing is looked up twice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// Zone, from 0.
    pub zone: u32,
    /// Cylinder of the disk.
    pub cylinder: u32,
    /// Surface, from 0.
    pub head: u32,
    /// Physical sector of the track, from 0.
    pub sector: u32,
    /// Angle at which the sector starts.
    pub angle: Angle,
    /// The part of that angle that is no skew of its zone.
    pub on_track: Angle,
    /// So many blocks, this one included, lie on consecutive sectors of the track, at least.
    pub straight: u32,
}

/// Consecutive logical blocks on one track.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// Place of the first block.
    pub place: Place,
    /// Number of blocks.
    pub count: u32,
    /// Place of the last block.
    pub last: Place,
    /// Angle from the start of the first to the end of the last block. Slipped sectors between count.
    pub turn: Angle,
}

/// In which order heads follow each other from cylinder to cylinder.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum HeadOrder {
    /// Each cylinder starts with head 0.
    #[default]
    Ascending,
    /// Every other cylinder of a zone starts with the last head, so that a cylinder switch keeps the head.
    SerpentineInZone,
    /// As before, but odd cylinders of the disk descend.
    Serpentine,
}

/// Where spare sectors lie, and what a slipped sector does.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum Sparing {
    /// No spares; slips push what follows to the end of the zone.
    #[default]
    None,
    /// Whole tracks at the end of each zone. Slips and remaps name tracks.
    Tracks,
    /// Sectors at the end of each track.
    Track,
    /// Sectors of each cylinder.
    Cylinder {
        /// They lie at the front of the cylinder, not at its end.
        front: bool,
        /// Slips use no spares of the cylinder: they push what follows to the end of the zone.
        slip_to_end: bool,
    },
    /// Sectors at the end of each range of so many cylinders.
    Range(u32),
    /// Sectors at the end of each zone.
    Zone,
}

/// How the angle of a zone's tracks follows from their number.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Skew {
    /// Angle of sector 0 on the first track.
    pub origin: Angle,
    /// From one track of a cylinder to the next.
    pub head: Angle,
    /// From one cylinder to the next one of its group.
    pub cylinder: Angle,
    /// From one group of cylinders to the next.
    pub group: Angle,
    /// Cylinders of a group: 1 where all cylinders follow each other in the same way.
    pub group_cylinders: u32,
}

impl Skew {
    /// The skew that follows from the angle of a track switch and that of a cylinder switch.
    pub fn of_switches(origin: Angle, track: Angle, cylinder: Angle, surfaces: u32, group: u32) -> Skew {
        let cylinder = track.times(u64::from(surfaces) - 1) + cylinder;
        Skew { origin, head: track, cylinder, group: cylinder.times(group.into()), group_cylinders: group }
    }

    /// The angle of a track of the zone.
    #[inline]
    fn angle(&self, cylinder: u32, step: u32) -> Angle {
        let (group, of_group) = match self.group_cylinders {
            1 => (cylinder, 0),
            cylinders => (cylinder / cylinders, cylinder % cylinders),
        };
        self.origin
            + self.head.times(step.into())
            + self.cylinder.times(of_group.into())
            + self.group.times(group.into())
    }
}

/// A zone: cylinders whose tracks have the same number of sectors.
#[derive(Clone, Default, Debug)]
pub struct ZoneConfig {
    /// First cylinder.
    pub first_cylinder: u32,
    /// Last cylinder.
    pub last_cylinder: u32,
    /// Sectors of a track.
    pub track_sectors: u32,
    /// Blocks at the front of the zone that no host sees.
    pub reserved: u64,
    /// Spares of each unit (see [`Sparing`]).
    pub spares: u32,
    /// Angles of tracks.
    pub skew: Skew,
    /// Slipped sectors (or tracks), counted from the start of the zone.
    pub slips: Vec<u64>,
    /// Remapped sectors (or tracks): from where, to where.
    pub remaps: Vec<(u64, u64)>,
}

/// Shape of a disk.
#[derive(Clone, Default, Debug)]
pub struct GeometryConfig {
    /// Surfaces with data.
    pub surfaces: u32,
    /// Order of heads.
    pub heads: HeadOrder,
    /// Spares.
    pub sparing: Sparing,
    /// Zones in the order of their blocks.
    pub zones: Vec<ZoneConfig>,
}

#[derive(Clone, Debug)]
struct Zone {
    first_block: u64,
    blocks: u64,
    first_cylinder: u32,
    cylinders: u32,
    track_sectors: u32,
    reserved: u64,
    skew: Skew,
    /// 2^64 turns by the sectors of a track.
    width: u64,
    /// Usable and all sectors (or tracks) of a unit, and the spares at its front.
    unit: u64,
    unit_sectors: u64,
    front: u64,
    /// The unit is the zone: nothing to divide by.
    whole: bool,
    /// Usable sectors (or tracks) from which on one more is slipped.
    shifts: Vec<u64>,
    /// Sorted slips, if they push the skew forward too.
    pushes: Vec<u64>,
    /// Sorted: from where, to where.
    remaps: Vec<(u64, u64)>,
    /// A block may lie anywhere, even between two of a track.
    irregular: bool,
}

/// The arithmetic of a disk's blocks: block to place.
#[derive(Clone, Debug)]
pub struct Geometry {
    surfaces: u32,
    heads: HeadOrder,
    sparing: Sparing,
    zones: Vec<Zone>,
    /// The places of blocks, if a tree says them and not the zones.
    tree: Option<Tree>,
    blocks: u64,
}

/// The most sectors of a track, so that a zone's sectors fit into 64 bits.
const MOST_TRACK_SECTORS: u32 = 1 << 20;
/// The most zones of a tree. Heads of one cylinder may have tracks of different lengths, so that runs are short.
const MOST_ZONES: usize = 1 << 16;

impl Geometry {
    /// The arithmetic of a disk of this shape.
    ///
    /// # Errors
    /// If the shape is impossible: no surface, zones that overlap, slips or remaps outside of their zone, or
    /// spares that leave no room.
    pub fn new(config: &GeometryConfig) -> Result<Geometry, DiskError> {
        let GeometryConfig { surfaces, heads, sparing, .. } = *config;
        if !(1..=1024).contains(&surfaces) {
            return Err(DiskError::new(format!("{surfaces} surfaces are not in 1..=1024")));
        }
        if config.zones.is_empty() {
            return Err(DiskError::new("a disk needs a zone"));
        }
        if let Sparing::Range(0) = sparing {
            return Err(DiskError::new("a range of 0 cylinders cannot have spares"));
        }
        let mut zones: Vec<Zone> = Vec::with_capacity(config.zones.len());
        let mut blocks = 0;
        for (i, zone) in config.zones.iter().enumerate() {
            let before = i.checked_sub(1).map(|before| &config.zones[before]);
            let made = make_zone(surfaces, sparing, zone, before, blocks)
                .map_err(|e| DiskError::new(format!("zone {}: {e}", i + 1)))?;
            blocks += made.blocks;
            zones.push(made);
        }
        let geometry = Geometry { surfaces, heads, sparing, zones, tree: None, blocks };
        for (i, zone) in geometry.zones.iter().enumerate() {
            let last = geometry.place(zone.first_block + zone.blocks - 1);
            if last.cylinder >= zone.first_cylinder + zone.cylinders {
                return Err(DiskError::new(format!("zone {}: more slips than spares", i + 1)));
            }
        }
        Ok(geometry)
    }

    /// The arithmetic of a disk whose layout is a tree. The disk has `blocks` blocks, or as many as the tree covers if that is 0. Its zones
    /// are the runs of tracks with as many sectors, and their skews are corrections of the tree's angles.
    ///
    /// # Errors
    /// If the tree is none, or has less blocks.
    pub fn of_tree(surfaces: u32, config: TreeConfig, blocks: u64) -> Result<Geometry, DiskError> {
        let tree = Tree::new(config)?;
        let covered = tree.blocks();
        if covered == 0 || blocks > covered || !(1..=1024).contains(&surfaces) {
            let text = format!(
                "{surfaces} surfaces, {blocks} blocks, of which the layout covers {covered}: no block of that size"
            );
            return Err(DiskError::new(text));
        }
        let blocks = if blocks == 0 { covered } else { blocks };
        let mut zones: Vec<Zone> = Vec::new();
        let mut block = 0;
        while block < blocks {
            let mut spot = tree.spot(block);
            // Slips may let the step over a track go too far: the zone begins with the first block that is different.
            if let Some(zone) = zones.last()
                && zone.track_sectors != spot.sectors
            {
                let (mut low, mut high) = (zone.first_block, block);
                while low < high {
                    let middle = low + (high - low) / 2;
                    if tree.spot(middle).sectors == zone.track_sectors {
                        low = middle + 1
                    } else {
                        high = middle
                    }
                }
                (block, spot) = (high, tree.spot(high));
            }
            match zones.last_mut() {
                Some(zone) if zone.track_sectors == spot.sectors => {
                    zone.blocks = block + 1 - zone.first_block;
                    let end = (zone.first_cylinder + zone.cylinders).max(spot.cylinder + 1);
                    zone.first_cylinder = zone.first_cylinder.min(spot.cylinder);
                    zone.cylinders = end - zone.first_cylinder;
                }
                _ => zones.push(Zone::of_tree(block, spot.cylinder, spot.sectors, tree.has_remaps())),
            }
            if zones.len() > MOST_ZONES {
                return Err(DiskError::new(format!(
                    "more than {MOST_ZONES} runs of tracks with as many sectors"
                )));
            }
            block += spot.left;
        }
        let ends: Vec<u64> = zones.iter().skip(1).map(|z| z.first_block).chain([blocks]).collect();
        for (zone, end) in zones.iter_mut().zip(ends) {
            zone.blocks = end - zone.first_block;
        }
        let heads = HeadOrder::Ascending;
        Ok(Geometry { surfaces, heads, sparing: Sparing::None, zones, tree: Some(tree), blocks })
    }

    /// Logical blocks of the disk.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Surfaces.
    pub fn surfaces(&self) -> u32 {
        self.surfaces
    }

    /// Cylinders, with those of gaps.
    pub fn cylinders(&self) -> u32 {
        self.zones.iter().map(|z| z.first_cylinder + z.cylinders).max().unwrap_or(0)
    }

    /// Number of zones.
    pub fn zones(&self) -> usize {
        self.zones.len()
    }

    /// First cylinder of a zone and their number.
    pub fn zone_cylinders(&self, zone: usize) -> (u32, u32) {
        (self.zones[zone].first_cylinder, self.zones[zone].cylinders)
    }

    /// Sectors of a track of a zone.
    pub fn track_sectors(&self, zone: usize) -> u32 {
        self.zones[zone].track_sectors
    }

    /// Angles of the tracks of a zone.
    pub fn skew(&self, zone: usize) -> Skew {
        self.zones[zone].skew
    }

    /// The place of a block.
    ///
    /// # Panics
    /// If the disk has no such block.
    #[inline]
    pub fn place(&self, block: u64) -> Place {
        assert!(block < self.blocks, "block {block} of {}", self.blocks);
        let at = self.zone_of(block);
        let zone = &self.zones[at];
        if let Some(tree) = &self.tree {
            let Spot { cylinder, head, sector, angle, .. } = tree.spot(block);
            // A remapped block may lie on a track of any zone.
            let sector = sector.min(zone.track_sectors - 1);
            let skew = zone.skew.angle(cylinder.saturating_sub(zone.first_cylinder), head);
            let angles = (angle + skew, angle);
            return Place {
                zone: at as u32,
                cylinder,
                head,
                sector,
                angle: angles.0,
                on_track: angles.1,
                straight: 1,
            };
        }
        let usable = block - zone.first_block + zone.reserved;
        let sectors = u64::from(zone.track_sectors);
        let (track, sector, straight) = match self.sparing {
            Sparing::Tracks => {
                let (position, _) = zone.position(usable / sectors, self.sparing);
                (zone.remapped(position), usable % sectors, u64::MAX)
            }
            _ => {
                let (position, straight) = zone.position(usable, self.sparing);
                let position = zone.remapped(position);
                (position / sectors, position % sectors, straight)
            }
        };
        let straight = if zone.irregular { 1 } else { straight.min(sectors - sector) as u32 };
        let surfaces = u64::from(self.surfaces);
        let (cylinder, step) = ((track / surfaces) as u32, (track % surfaces) as u32);
        let descends = match self.heads {
            HeadOrder::Ascending => false,
            HeadOrder::SerpentineInZone => cylinder % 2 == 1,
            HeadOrder::Serpentine => (zone.first_cylinder + cylinder) % 2 == 1,
        };
        let on_track = zone.on_track(cylinder, step, sector, self.surfaces, self.sparing);
        Place {
            zone: at as u32,
            cylinder: zone.first_cylinder + cylinder,
            head: if descends { self.surfaces - 1 - step } else { step },
            sector: sector as u32,
            angle: zone.skew.angle(cylinder, step) + on_track,
            on_track,
            straight,
        }
    }

    /// How often a track of the zone was switched within the cylinder to reach the head of `place`.
    pub fn step(&self, place: Place) -> u32 {
        let first = self.zones[place.zone as usize].first_cylinder;
        let descends = match self.heads {
            HeadOrder::Ascending => false,
            HeadOrder::SerpentineInZone => (place.cylinder - first) % 2 == 1,
            HeadOrder::Serpentine => place.cylinder % 2 == 1,
        };
        if descends { self.surfaces - 1 - place.head } else { place.head }
    }

    /// The blocks from `block` on that lie on its track one after the other, `most` at most.
    ///
    /// # Panics
    /// If the disk has no such block, or `most` is 0.
    #[inline]
    pub fn run(&self, block: u64, most: u32) -> Run {
        self.run_from(block, self.place(block), most)
    }

    /// The same where the place of `block` is known.
    #[inline]
    pub fn run_from(&self, block: u64, place: Place, most: u32) -> Run {
        assert!(most > 0, "a run has a block at least");
        let zone = &self.zones[place.zone as usize];
        let room = u64::from(zone.track_sectors - place.sector).min(u64::from(most));
        let mut count = room.min(zone.first_block + zone.blocks - block) as u32;
        let last = if count <= place.straight {
            zone.further(place, count - 1)
        } else {
            let mut last = self.place(block + u64::from(count) - 1);
            if !follows(&place, &last, count) || zone.irregular {
                (count, last) = self.shorter(block, place, count);
            }
            last
        };
        let turn = zone.sectors(u64::from(last.sector - place.sector) + 1);
        Run { place, count, last, turn }
    }

    /// A run with a slip or a remapped block in it, or behind which spares lie.
    fn shorter(&self, block: u64, place: Place, most: u32) -> (u32, Place) {
        let (mut count, mut last) = (1, place);
        let zone = &self.zones[place.zone as usize];
        if !zone.irregular {
            // Most often spares end the run.
            let next = self.place(block + u64::from(place.straight));
            if next.cylinder != place.cylinder || next.head != place.head {
                return (place.straight, zone.further(place, place.straight - 1));
            }
            // Blocks of a track follow each other: a search by halves finds the last.
            let mut above = most;
            while count < above {
                let middle = count + (above - count).div_ceil(2);
                let at = self.place(block + u64::from(middle) - 1);
                let on_track = at.cylinder == place.cylinder && at.head == place.head;
                if on_track && at.sector > place.sector {
                    (count, last) = (middle, at);
                } else {
                    above = middle - 1;
                }
            }
            return (count, last);
        }
        // A remapped block lies anywhere, so each block is looked at.
        while count < most {
            let next = self.place(block + u64::from(count));
            let on_track = next.cylinder == place.cylinder && next.head == place.head;
            if !on_track || next.sector <= last.sector {
                break;
            }
            (count, last) = (count + 1, next);
        }
        (count, last)
    }

    /// The first block behind the track of `block`.
    pub fn track_end(&self, block: u64) -> u64 {
        self.track_end_from(block, self.place(block))
    }

    /// The same where the place of `block` is known.
    #[inline]
    pub fn track_end_from(&self, block: u64, place: Place) -> u64 {
        let run = self.run_from(block, place, self.zones[place.zone as usize].track_sectors);
        block + u64::from(run.count)
    }

    /// The first block of the track of `block`.
    pub fn track_start(&self, block: u64) -> u64 {
        let place = self.place(block);
        let first = self.zones[place.zone as usize].first_block;
        let same = |b: u64| {
            let p = self.place(b);
            p.cylinder == place.cylinder && p.head == place.head
        };
        let (mut low, mut high) = (block.saturating_sub(place.sector.into()).max(first), block);
        while low < high {
            let middle = low + (high - low) / 2;
            if same(middle) { high = middle } else { low = middle + 1 }
        }
        high
    }

    /// The first block behind the cylinder of `block`.
    pub fn cylinder_end(&self, block: u64) -> u64 {
        let cylinder = self.place(block).cylinder;
        let zone = &self.zones[self.zone_of(block)];
        let end = zone.first_block + zone.blocks;
        let (mut low, mut high) =
            (block + 1, end.min(block + u64::from(zone.track_sectors) * u64::from(self.surfaces)));
        while low < high {
            let middle = low + (high - low) / 2;
            if self.place(middle).cylinder == cylinder { low = middle + 1 } else { high = middle }
        }
        low
    }

    #[inline]
    fn zone_of(&self, block: u64) -> usize {
        self.zones.partition_point(|z| z.first_block <= block) - 1
    }
}

/// Whether `last` is the block `count - 1` behind `first` on the same track, or a little further.
#[inline]
fn follows(first: &Place, last: &Place, count: u32) -> bool {
    last.cylinder == first.cylinder && last.head == first.head && last.sector + 1 >= first.sector + count
}

impl Zone {
    /// The position of a usable sector (or track) among all of the zone, and how many from there on have consecutive positions.
    #[inline]
    fn position(&self, usable: u64, sparing: Sparing) -> (u64, u64) {
        if self.shifts.is_empty() && self.whole {
            return (usable, u64::MAX);
        }
        let at = self.shifts.partition_point(|&s| s <= usable);
        let before = at as u64;
        let to_slip = self.shifts.get(at).map_or(u64::MAX, |next| next - usable);
        if self.whole {
            return (usable + before, to_slip);
        }
        if to_end(sparing) {
            let usable = usable + before;
            let (unit, within) = (usable / self.unit, usable % self.unit);
            return (unit * self.unit_sectors + self.front + within, to_slip.min(self.unit - within));
        }
        let (unit, within) = (usable / self.unit, usable % self.unit);
        let first = usable - within;
        let of_others = self.shifts.partition_point(|&s| s < first) as u64;
        let mut start = unit * self.unit_sectors;
        if self.front > 0 {
            // Slips use the spares at the front: the unit starts so much earlier.
            let slipped = self.shifts.partition_point(|&s| s < first + self.unit) as u64 - of_others;
            start += self.front.saturating_sub(slipped);
        }
        (start + within + before - of_others, to_slip.min(self.unit - within))
    }

    /// The place of a block that lies so many sectors further on the track.
    #[inline]
    fn further(&self, place: Place, sectors: u32) -> Place {
        let turn = self.sectors(sectors.into());
        Place {
            sector: place.sector + sectors,
            angle: place.angle + turn,
            on_track: place.on_track + turn,
            straight: place.straight - sectors,
            ..place
        }
    }

    #[inline]
    fn remapped(&self, position: u64) -> u64 {
        if self.remaps.is_empty() {
            return position;
        }
        match self.remaps.binary_search_by_key(&position, |r| r.0) {
            Ok(at) => self.remaps[at].1,
            Err(_) => position,
        }
    }

    #[inline]
    fn sectors(&self, count: u64) -> Angle {
        Angle(self.width).times(count)
    }

    /// The angle of a sector but for the skew: slips of some schemes push all that follows.
    #[inline]
    fn on_track(&self, cylinder: u32, step: u32, sector: u64, surfaces: u32, sparing: Sparing) -> Angle {
        let mut angle = self.sectors(sector);
        if !self.pushes.is_empty() {
            let step = if sparing == Sparing::Track { u64::from(step) } else { 0 };
            let tracks = u64::from(cylinder) * u64::from(surfaces) + step;
            let start = tracks * u64::from(self.track_sectors);
            angle += self.sectors(self.pushes.partition_point(|&s| s < start) as u64);
        }
        angle
    }

    /// The first block of a zone of a tree, to which others are added.
    fn of_tree(first_block: u64, cylinder: u32, track_sectors: u32, irregular: bool) -> Zone {
        Zone {
            first_block,
            blocks: 1,
            first_cylinder: cylinder,
            cylinders: 1,
            track_sectors,
            reserved: 0,
            skew: Skew { group_cylinders: 1, ..Skew::default() },
            width: width(track_sectors),
            unit: 1,
            unit_sectors: 1,
            front: 0,
            whole: true,
            shifts: Vec::new(),
            pushes: Vec::new(),
            remaps: Vec::new(),
            irregular,
        }
    }
}

/// The angle of a sector.
fn width(track_sectors: u32) -> u64 {
    ((1u128 << 64) / u128::from(track_sectors)).min(u128::from(u64::MAX)) as u64
}

/// Whether slips push what follows to the end of the zone.
fn to_end(sparing: Sparing) -> bool {
    matches!(sparing, Sparing::Cylinder { slip_to_end: true, .. })
}

fn make_zone(
    surfaces: u32,
    sparing: Sparing,
    config: &ZoneConfig,
    before: Option<&ZoneConfig>,
    first_block: u64,
) -> Result<Zone, DiskError> {
    let &ZoneConfig { first_cylinder, last_cylinder, track_sectors, reserved, spares, skew, .. } = config;
    if last_cylinder < first_cylinder || last_cylinder >= MOST_CYLINDERS {
        let text = format!("cylinders {first_cylinder} to {last_cylinder} (at most {MOST_CYLINDERS})");
        return Err(DiskError::new(text));
    }
    if before.is_some_and(|z| z.last_cylinder >= first_cylinder) {
        return Err(DiskError::new(format!("cylinder {first_cylinder} belongs to the zone before")));
    }
    if !(1..=MOST_TRACK_SECTORS).contains(&track_sectors) {
        return Err(DiskError::new(format!("{track_sectors} sectors a track")));
    }
    let cylinders = last_cylinder - first_cylinder + 1;
    let tracks = u64::from(cylinders) * u64::from(surfaces);
    let track = u64::from(track_sectors);
    let all = tracks * track;
    let cylinder = track * u64::from(surfaces);
    // What a unit has: sectors, or tracks where whole tracks are spare.
    let (count, unit_sectors) = match sparing {
        Sparing::None | Sparing::Zone => (1, all),
        Sparing::Tracks => (1, tracks),
        Sparing::Track => (tracks, track),
        Sparing::Cylinder { .. } => (u64::from(cylinders), cylinder),
        Sparing::Range(n) => (u64::from(cylinders / n), cylinder * u64::from(n)),
    };
    let whole = matches!(sparing, Sparing::None | Sparing::Zone | Sparing::Tracks);
    let spares = u64::from(spares);
    let Some(unit) = unit_sectors.checked_sub(spares).filter(|&u| u > 0) else {
        return Err(DiskError::new(format!("{spares} spares in a unit of {unit_sectors} sectors or tracks")));
    };
    let mut slips = config.slips.clone();
    slips.sort_unstable();
    slips.dedup();
    let mut remaps: Vec<(u64, u64)> = config.remaps.iter().copied().filter(|r| r.0 != r.1).collect();
    remaps.sort_unstable();
    remaps.dedup_by_key(|r| r.0);
    let limit = if sparing == Sparing::Tracks { tracks } else { all };
    if let Some(&far) = slips.iter().chain(remaps.iter().flat_map(|(a, b)| [a, b])).find(|&&s| s >= limit) {
        return Err(DiskError::new(format!("slip or remap {far} is not in the zone, which has {limit}")));
    }
    let front = if matches!(sparing, Sparing::Cylinder { front: true, .. }) { spares } else { 0 };
    let shifts = shifts(&slips, unit, unit_sectors, front, whole, to_end(sparing));
    let lost = match sparing {
        Sparing::Tracks => spares * track,
        Sparing::None => slips.len() as u64,
        _ if to_end(sparing) => spares * count + slips.len() as u64,
        _ => spares * count,
    };
    let blocks = all.checked_sub(lost + reserved).filter(|&b| b > 0);
    let Some(blocks) = blocks else {
        return Err(DiskError::new("spares, slips and reserved blocks leave no room"));
    };
    if skew.group_cylinders == 0 {
        return Err(DiskError::new("a group of cylinders has a cylinder at least"));
    }
    let pushing = matches!(sparing, Sparing::Cylinder { .. } | Sparing::Track);
    Ok(Zone {
        first_block,
        blocks,
        first_cylinder,
        cylinders,
        track_sectors,
        reserved,
        skew,
        width: width(track_sectors),
        unit,
        unit_sectors,
        front,
        whole,
        shifts,
        pushes: if pushing { slips } else { Vec::new() },
        irregular: !remaps.is_empty(),
        remaps,
    })
}

/// For each slip, the usable sector from which on it pushes the others one further.
fn shifts(slips: &[u64], unit: u64, unit_sectors: u64, front: u64, whole: bool, to_end: bool) -> Vec<u64> {
    if whole {
        return slips.iter().enumerate().map(|(rank, &slip)| slip.saturating_sub(rank as u64)).collect();
    }
    let mut shifts = Vec::with_capacity(slips.len());
    let mut before = 0;
    for of_unit in slips.chunk_by(|a, b| a / unit_sectors == b / unit_sectors) {
        let at = of_unit[0] / unit_sectors;
        // A slip among the spares pushes nothing.
        let pushing = of_unit.iter().filter(|&&s| s % unit_sectors >= front).count() as u64;
        let start = if to_end { front } else { front.saturating_sub(pushing) };
        let mut rank = if to_end { before } else { 0 };
        for slip in of_unit.iter().filter(|&&s| s % unit_sectors >= front) {
            let offset = slip % unit_sectors - start;
            let first = at * unit;
            if to_end {
                if offset < unit {
                    shifts.push((first + offset).saturating_sub(rank));
                    rank += 1;
                }
            } else if offset.saturating_sub(rank) < unit {
                shifts.push(first + offset.saturating_sub(rank));
                rank += 1;
            }
        }
        before = rank;
    }
    shifts
}

#[cfg(test)]
#[path = "geometry_tests.rs"]
mod tests;
