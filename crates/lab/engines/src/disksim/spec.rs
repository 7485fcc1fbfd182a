//! A disk of DiskSim's parameter files as a model of [`media::disk`].

use std::path::Path;

use anyhow::{Context, Result, bail};
use media::Nanos;
use media::disk::cache::{CacheConfig, Extent, ReadAhead};
use media::disk::geometry::Geometry;
use media::disk::mechanism::{Mechanism, OnCylinder, Positioning, SeekTable};
use media::disk::service::{Model, Overheads};
use media::disk::spindle::Spindle;

use super::params::{self, Block};
use super::{layout, seeks};

/// A disk as its parameter files describe it.
#[derive(Clone, Debug)]
pub struct Spec {
    /// Its name in the file.
    pub name: String,
    /// The model.
    pub model: Model,
    /// Blocks that a trace may name: as many as the files state, or as many as the zones have, if that is more.
    pub blocks: u64,
    /// The firmware of its buffer.
    pub cache: CacheConfig,
    /// What the files say that the model leaves out.
    pub notes: Vec<String>,
    /// Names of parameters that the model has nothing for, each with its first place.
    pub unknown: Vec<String>,
}

/// Reads a parameter file with a block `disksim_disk`, and the files that it sources.
///
/// # Errors
/// A file cannot be read, breaks the grammar, or describes an impossible disk: the message has the file and the line.
pub fn read(path: &Path) -> Result<Spec> {
    let blocks = params::read(path)?;
    let Some((name, disk)) = blocks.iter().find(|b| b.1.kind == "disksim_disk") else {
        bail!("{}: no block 'disksim_disk' in it: expected the .diskspecs file of a disk", path.display());
    };
    of_block(name, disk)
}

/// A disk of a block `disksim_disk`.
///
/// # Errors
/// As for [`read`].
pub fn of_block(name: &str, disk: &Block) -> Result<Spec> {
    let model = disk.block("Model")?;
    if model.kind != "dm_disk" {
        bail!("{}: 'Model' is a block dm_disk, not {}", model.at, model.kind);
    }
    let surfaces = model.required_whole("Number of data surfaces", 1..=1024)?;
    let surfaces = u32::try_from(surfaces).unwrap_or(u32::MAX);
    let mut notes = Vec::new();
    for (at, name) in disk.replaced() {
        notes.push(format!("{at}: '{name}' is given again in the same block, and the last one counts"));
    }
    for name in ["Immediate buffer read", "Immediate buffer write"] {
        if disk.number(name)?.is_some_and(|value| value != 0.0) {
            let at = disk.place(name);
            notes.push(format!("{at}: '{name}' is not modelled: blocks are read and written in their order"));
        }
    }
    let stated = model.whole("Block count", 0..=i64::MAX)?.unwrap_or(0);
    let geometry = layout::geometry(model.block("Layout Model")?, surfaces, stated, &mut notes)?;
    if ![0, geometry.blocks()].contains(&stated) {
        notes.push(format!("the files state {stated} blocks, and the zones have {}", geometry.blocks()));
    }
    let cylinders = model.whole("Number of cylinders", 0..=i64::MAX)?.unwrap_or(0);
    if ![0, geometry.cylinders().into()].contains(&cylinders) {
        notes.push(format!(
            "the files state {cylinders} cylinders, and the zones have {}",
            geometry.cylinders()
        ));
    }
    let mech = model.block("Mechanical Model")?;
    let mechanism = mechanism(mech, geometry, &mut notes)?;
    let block_time = time(disk, "Bulk sector transfer time")?;
    if block_time == Nanos::ZERO {
        notes.push("the files state no time of a block on the bus: it takes none".into());
    }
    let overheads = overheads(disk, block_time, &mut notes)?;
    let model = Model { mechanism, overheads, write_cache: fast_writes(disk)? };
    let cache = cache(disk)?;
    let name = if name.is_empty() { "without a name" } else { name }.to_owned();
    let blocks = stated.max(model.mechanism.geometry.blocks());
    Ok(Spec { name, model, blocks, cache, notes, unknown: unknown(disk) })
}

/// Names of parameters that were not read, each with its first place.
fn unknown(disk: &Block) -> Vec<String> {
    let mut names = Vec::new();
    let mut all = Vec::new();
    for (at, name) in disk.unknown() {
        if !names.contains(&name) {
            names.push(name);
            all.push(format!("'{name}' ({at})"));
        }
    }
    all
}

/// A time in milliseconds, not negative; 0 if it is not there.
fn time(block: &Block, name: &str) -> Result<Nanos> {
    nanos(block, name, block.number(name)?.unwrap_or(0.0))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked")]
fn nanos(block: &Block, name: &str, ms: f64) -> Result<Nanos> {
    if !(0.0..=1000.0).contains(&ms) {
        bail!("{}: '{name}' is {ms} ms: expected 0 to 1000", block.place(name));
    }
    Ok(Nanos((ms * 1e6).round() as u64))
}

fn fast_writes(disk: &Block) -> Result<bool> {
    Ok(disk.whole("Fast write level", 0..=2)?.unwrap_or(0) > 0)
}

fn overheads(disk: &Block, block: Nanos, notes: &mut Vec<String>) -> Result<Overheads> {
    let scale = disk.number("Time scale for overheads")?.unwrap_or(1.0);
    let each = disk.number("Per-request overhead time")?.unwrap_or(0.0);
    let mut of = |name: &str, each: f64| -> Result<Nanos> {
        let stated = (disk.number(name)?.unwrap_or(0.0) + each) * scale;
        if (-1000.0..0.0).contains(&stated) {
            notes.push(format!("{}: '{name}' makes {stated} ms, and 0 is taken", disk.place(name)));
        }
        nanos(disk, name, if stated < -1000.0 { stated } else { stated.max(0.0) })
    };
    let mut command = |op: &str, found: &str| -> Result<[Nanos; 2]> {
        Ok([
            of(&format!("{op} {found} over. after read"), each)?,
            of(&format!("{op} {found} over. after write"), each)?,
        ])
    };
    Ok(Overheads {
        command: [
            [command("Read", "miss")?, command("Read", "hit")?],
            [command("Write", "miss")?, command("Write", "hit")?],
        ],
        completion: [of("Read completion overhead", 0.0)?, of("Write completion overhead", 0.0)?],
        block,
    })
}

fn cache(disk: &Block) -> Result<CacheConfig> {
    let most = i64::from(u32::MAX);
    let small = |name: &str, default: u64| -> Result<u32> {
        Ok(u32::try_from(disk.whole(name, -1..=most)?.unwrap_or(default)).unwrap_or(u32::MAX))
    };
    let segment = small("Segment size (in blks)", 0)?;
    let limit = small("Maximum read-ahead (blks)", u64::from(segment))?.min(segment);
    let (read_ahead, extent) = match disk.whole("Buffer continuous read", 0..=4)?.unwrap_or(0) {
        0 => (ReadAhead::Off, Extent::Track),
        1 => (ReadAhead::Always, Extent::Track),
        2 => (ReadAhead::Always, Extent::Cylinder),
        3 => (ReadAhead::Always, Extent::Blocks(limit)),
        _ => (ReadAhead::Sequential, Extent::NextTrack),
    };
    let enabled = disk.whole("Enable caching in buffer", 0..=2)?.unwrap_or(1) > 0;
    let written = match disk.whole("Allow read hits on write data", 0..=1)?.unwrap_or(0) {
        0 => 0,
        _ => small("Maximum number of write segments", 1)?.clamp(1, 64),
    };
    Ok(CacheConfig {
        segments: if enabled { small("Number of buffer segments", 1)?.min(1024) } else { 0 },
        read_ahead,
        extent,
        keeps_read: disk.whole("Read-ahead over requested", -1..=1)?.unwrap_or(0) == 0,
        whole_track: false,
        written,
        write_clears: false,
    })
}

fn mechanism(mech: &Block, geometry: Geometry, notes: &mut Vec<String>) -> Result<Mechanism> {
    if mech.kind != "dm_mech_g1" {
        bail!("{}: the mechanical model is dm_mech_g1, not {}", mech.at, mech.kind);
    }
    let cylinders = geometry.cylinders();
    let rpm = mech.required_number("Rotation speed (in rpms)")?;
    if !(60.0..=1e6).contains(&rpm) {
        bail!(
            "{}: a rotation speed of {rpm} rpm is not in 60..=1000000",
            mech.place("Rotation speed (in rpms)")
        );
    }
    let spindle = Spindle::new(to_nanos(rpm).0);
    let mut reads = match mech.word("Access time type")? {
        "constant" => {
            let half = spindle.revolution().0 as f64 / 2e6;
            let seek = (mech.required_number("Constant access time")? - half).max(0.0);
            notes.push(
                "constant access times: the model turns, and seeks take that time less half a turn".into(),
            );
            vec![seek; cylinders as usize]
        }
        kind @ ("averageRotation" | "trackSwitchPlusRotation") => {
            if kind == "averageRotation" {
                notes.push("averageRotation: the model keeps the phase of the platters all the same".into());
            }
            seeks::times(mech, cylinders, notes)?
        }
        other => bail!(
            "{}: access time type '{other}' is not known: expected constant, averageRotation or \
             trackSwitchPlusRotation",
            mech.place("Access time type")
        ),
    };
    reads[0] = 0.0;
    let settle = mech.number("Add. write settling delay")?.unwrap_or(0.0);
    if !(-1000.0..=1000.0).contains(&settle) {
        bail!("{}: a settling delay of {settle} ms", mech.place("Add. write settling delay"));
    }
    let switch = mech.number("Head switch time")?.unwrap_or(0.0);
    let switches = [nanos(mech, "Head switch time", switch)?, to_nanos((switch + settle).max(0.0))];
    // The settle belongs to writes after a movement. It is negative where seeks were measured up to a read.
    let writes = reads.iter().map(|&t| if t > 0.0 { (t + settle).max(0.0) } else { 0.0 });
    let table = |times: &mut dyn Iterator<Item = f64>| {
        SeekTable::new(times.map(to_nanos)).with_context(|| mech.at.to_string())
    };
    let (read, write) = (table(&mut reads.iter().copied())?, table(&mut writes.into_iter())?);
    let cylinder_switch = [read.time(1), write.time(1)];
    let seek = [[read.clone(), read], [write.clone(), write]];
    let on = |op: usize| [OnCylinder { head_switch: switches[op], ..OnCylinder::default() }; 2];
    let positioning =
        Positioning { seek, on_cylinder: [on(0), on(1)], track_switch: switches, cylinder_switch };
    Ok(Mechanism { geometry, spindle, positioning, slow: Vec::new() })
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "times are small and not negative"
)]
fn to_nanos(ms: f64) -> Nanos {
    Nanos((ms * 1e6).round() as u64)
}
