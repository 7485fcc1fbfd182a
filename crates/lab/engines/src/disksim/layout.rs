//! Layouts of DiskSim's parameter files as a [`Geometry`].

use anyhow::{Result, bail};
use media::disk::MOST_CYLINDERS;
use media::disk::geometry::{Geometry, GeometryConfig, HeadOrder, Skew, Sparing, ZoneConfig};
use media::disk::spindle::Angle;
use media::disk::tree::{Child, Elsewhere, Entry, Track, TreeConfig};

use super::params::{At, Block, Value};

/// The geometry of a block `Layout Model`.
///
/// # Errors
/// The layout is of another kind, a parameter is missing, or the shape is impossible.
pub fn geometry(layout: &Block, surfaces: u32, blocks: u64, notes: &mut Vec<String>) -> Result<Geometry> {
    match layout.kind.as_str() {
        "dm_layout_g1" => zoned(layout, surfaces, notes),
        "dm_layout_g4" => tree(layout, surfaces, blocks, notes),
        other => bail!(
            "{}: layouts of the kind {other} cannot be read: expected dm_layout_g1 or dm_layout_g4",
            layout.at
        ),
    }
}

fn zoned(layout: &Block, surfaces: u32, notes: &mut Vec<String>) -> Result<Geometry> {
    let heads = match layout.required_whole("LBN-to-PBN mapping scheme", 0..=2)? {
        0 => HeadOrder::Ascending,
        1 => HeadOrder::SerpentineInZone,
        _ => HeadOrder::Serpentine,
    };
    let scheme = layout.required_whole("Sparing scheme used", 0..=10)?;
    // Only one scheme has ranges, and files of others may say 0.
    let least = i64::from(scheme == 8);
    let range = layout.whole("Rangesize for sparing", least..=i64::from(MOST_CYLINDERS))?.unwrap_or(1);
    let sparing = match scheme {
        0 | 7 => Sparing::None,
        1 => Sparing::Tracks,
        2 => Sparing::Cylinder { front: false, slip_to_end: false },
        3 => Sparing::Track,
        4 => Sparing::Cylinder { front: false, slip_to_end: true },
        5 => Sparing::Cylinder { front: true, slip_to_end: false },
        6 => Sparing::Cylinder { front: true, slip_to_end: true },
        8 => Sparing::Range(u32::try_from(range).unwrap_or(u32::MAX)),
        _ => Sparing::Zone,
    };
    let turns = |block: &Block, default: bool| -> Result<bool> {
        match block.has("Skew units").then(|| block.word("Skew units")).transpose()? {
            None => Ok(default),
            Some("revolutions") => Ok(true),
            Some("sectors") => Ok(false),
            Some(other) => bail!(
                "{}: skew units '{other}' are not known: expected sectors or revolutions",
                block.place("Skew units")
            ),
        }
    };
    let in_turns = turns(layout, false)?;
    let list = layout.list("Zones")?;
    let mut zones: Vec<ZoneConfig> = Vec::with_capacity(list.len());
    for (at, value) in list {
        let Value::Block(block) = value else { bail!("{at}: a zone is a block dm_layout_g1_zone") };
        if block.kind != "dm_layout_g1_zone" {
            bail!("{at}: a zone is a block dm_layout_g1_zone, not {}", block.kind);
        }
        let group = match sparing {
            Sparing::Range(cylinders) => cylinders,
            _ => 1,
        };
        let mut zone = zone(block, surfaces, turns(block, in_turns)?, group)?;
        leave_out(&mut zone, surfaces, sparing, at, notes);
        // Slips of this scheme use no spares of the zone: they push blocks to the end of the disk.
        if scheme == 10 {
            zone.spares = zone.spares.saturating_add(u32::try_from(zone.slips.len()).unwrap_or(u32::MAX));
        }
        if matches!(scheme, 0 | 7) {
            zone.spares = 0;
        }
        // Some files let a zone end on the cylinder on which the next one begins.
        if let Some(before) = zones.last_mut()
            && before.last_cylinder == zone.first_cylinder
            && before.first_cylinder < before.last_cylinder
        {
            notes.push(format!("{at}: the zone begins on the last cylinder of the one before"));
            before.last_cylinder -= 1;
        }
        zones.push(zone);
    }
    let config = GeometryConfig { surfaces, heads, sparing, zones };
    Geometry::new(&config).map_err(|e| anyhow::anyhow!("{}: {e}", layout.at))
}

fn zone(block: &Block, surfaces: u32, in_turns: bool, group_cylinders: u32) -> Result<ZoneConfig> {
    let small = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
    let whole = |name: &str, range: std::ops::RangeInclusive<i64>| -> Result<u32> {
        Ok(small(block.required_whole(name, range)?))
    };
    let most = i64::from(MOST_CYLINDERS) - 1;
    let track_sectors = whole("Blocks per track", 1..=1 << 20)?;
    let angle = |name: &str| -> Result<Angle> {
        let value = block.number(name)?.unwrap_or(0.0);
        if !(-1e6..=1e9).contains(&value) {
            bail!("{}: '{name}' is {value}", block.place(name));
        }
        Ok(turn(if in_turns { value } else { value / f64::from(track_sectors) }))
    };
    let origin = angle("Offset of first block")?;
    let (track, cylinder) = (angle("Skew for track switch")?, angle("Skew for cylinder switch")?);
    let defects = block.naturals("defects")?;
    if defects.len() % 2 == 1 {
        bail!("{}: 'defects' are pairs of a sector and the one that stands for it", block.place("defects"));
    }
    Ok(ZoneConfig {
        first_cylinder: whole("First cylinder number", 0..=most)?,
        last_cylinder: whole("Last cylinder number", 0..=most)?,
        track_sectors,
        reserved: block.whole("Empty space at zone front", 0..=i64::MAX)?.unwrap_or(0),
        spares: block.whole("Number of spares", 0..=i64::from(u32::MAX))?.map_or(0, small),
        skew: Skew::of_switches(origin, track, cylinder, surfaces, group_cylinders),
        slips: block.naturals("slips")?,
        remaps: defects.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect(),
    })
}

/// Leaves out slips and remaps that lie outside of their zone, which DiskSim takes as well. They concern no block.
fn leave_out(zone: &mut ZoneConfig, surfaces: u32, sparing: Sparing, at: &At, notes: &mut Vec<String>) {
    let cylinders = u64::from(zone.last_cylinder.saturating_sub(zone.first_cylinder)) + 1;
    let tracks = cylinders * u64::from(surfaces);
    let (end, what) = match sparing {
        Sparing::Tracks => (tracks, "tracks"),
        _ => (tracks * u64::from(zone.track_sectors), "sectors"),
    };
    let before = zone.slips.len() + zone.remaps.len();
    zone.slips.retain(|&slip| slip < end);
    zone.remaps.retain(|&(from, to)| from < end && to < end);
    let outside = before - zone.slips.len() - zone.remaps.len();
    if outside > 0 {
        notes.push(format!(
            "{at}: {outside} slips or defects are outside of the zone, which has {end} {what}: left out"
        ));
    }
}

/// The angle of a number of turns, whose whole part counts as nothing.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the fraction of a turn is in 0..1"
)]
pub fn turn(turns: f64) -> Angle {
    let fraction = turns - turns.floor();
    Angle((fraction * 2f64.powi(64)) as u64)
}

/// A layout as a tree of patterns. If it covers less than `blocks`, the disk has what it covers.
fn tree(layout: &Block, surfaces: u32, blocks: u64, notes: &mut Vec<String>) -> Result<Geometry> {
    let whole = |name: &str, fields: usize| -> Result<Vec<Vec<i64>>> {
        let list = layout.optional_list(name)?;
        if !list.len().is_multiple_of(fields) {
            bail!("{}: '{name}' has {} values, and each entry {fields}", layout.place(name), list.len());
        }
        list.chunks(fields).map(|entry| entry.iter().map(|v| int(v, 0)).collect()).collect()
    };
    let small = |value: i64| u32::try_from(value).unwrap_or(u32::MAX);
    let tracks = whole("TP", 3)?
        .iter()
        .map(|t| Track { low: small(t[0]), high: small(t[1]), sectors: small(t[2]) })
        .collect();
    let slips = layout.optional_list("Slips")?;
    if slips.len() % 2 == 1 {
        bail!("{}: 'Slips' are pairs of a position and a number of blocks", layout.place("Slips"));
    }
    let slips: Result<Vec<(u64, i64)>> = slips
        .chunks(2)
        .map(|pair| Ok((int(&pair[0], 0)?.unsigned_abs(), int(&pair[1], -(1 << 40))?)))
        .collect();
    let remaps = whole("Remaps", 6)?
        .iter()
        .map(|r| Elsewhere {
            block: r[0].unsigned_abs(),
            count: r[1].unsigned_abs(),
            place: (small(r[2]).min(MOST_CYLINDERS - 1), small(r[3]), small(r[4]), small(r[5])),
        })
        .collect();
    let nodes: Result<Vec<Vec<Entry>>> = layout.list("IDX")?.iter().map(node).collect();
    let config = TreeConfig { tracks, nodes: nodes?, slips: slips?, remaps };
    let of = |config: TreeConfig, blocks: u64| {
        Geometry::of_tree(surfaces, config, blocks).map_err(|e| anyhow::anyhow!("{}: {e}", layout.at))
    };
    let covered = of(config.clone(), 0)?;
    if blocks > covered.blocks() {
        notes.push(format!("{}: the layout covers {} blocks", layout.at, covered.blocks()));
        return Ok(covered);
    }
    of(config, blocks)
}

/// A whole number of at least `least`, and small enough to add a few of them.
fn int((at, value): &(At, Value), least: i64) -> Result<i64> {
    match value.integral() {
        Some(i) if (least..=1 << 52).contains(&i) => Ok(i),
        Some(i) => bail!("{at}: {i} is not in {least}..={}", 1u64 << 52),
        None => bail!("{at}: expected a whole number"),
    }
}

/// A node of the tree: entries of ten values, or of eleven if they repeat a track.
fn node((at, value): &(At, Value)) -> Result<Vec<Entry>> {
    let Value::List(mut list) = value.clone() else { bail!("{at}: a node is a list") };
    let mut entries = Vec::new();
    while !list.is_empty() {
        let length = match list.get(7 + 1) {
            Some((_, Value::Word(kind))) if kind == "IDX" => 10,
            Some((_, Value::Word(kind))) if kind == "TRACK" => 11,
            _ => bail!("{at}: the ninth value of an entry is IDX or TRACK"),
        };
        if list.len() < length {
            bail!("{at}: the last entry has {} values: expected {length}", list.len());
        }
        let fields: Vec<(At, Value)> = list.drain(..length).collect();
        let natural = |i: usize| int(&fields[i], 0).map(i64::unsigned_abs);
        let index = |i: usize| natural(i).map(|n| usize::try_from(n).unwrap_or(usize::MAX));
        let any = |i: usize| int(&fields[i], -(1 << 40));
        let child = match length {
            10 => Child::Node(index(9)?),
            _ => Child::Track(index(9)?, u32::try_from(natural(10)?).unwrap_or(u32::MAX)),
        };
        entries.push(Entry {
            block: natural(0)?,
            cylinder: any(1)?,
            angle: turns(&fields[2])?,
            blocks: natural(3)?,
            cylinders: any(4)?,
            turn: turns(&fields[5])?,
            all_blocks: natural(6)?,
            descends: any(7)? < 0,
            child,
        });
    }
    Ok(entries)
}

/// An angle in turns.
fn turns((at, value): &(At, Value)) -> Result<Angle> {
    match value {
        Value::Float(f) if f.abs() < 1e9 => Ok(turn(*f)),
        Value::Int(i) if i.abs() < 1 << 30 => Ok(Angle::ZERO),
        _ => bail!("{at}: expected an angle in turns"),
    }
}
