//! The non-volatile state as bytes, and how a journal brings it up to date.
//!
//! What is saved is what a power cut would leave if the capacitors saved everything: the chips with their spare
//! areas, the system area (deallocations, volumes) and the write buffer, of drives without capacitors too. The end of the
//! process takes nothing that was completed. Opening is recovery.

use super::{Ftl, HostBytes};
use crate::answer::SetStats;
use crate::config::{Config, ConfigError, SetConfig};
use crate::disk::DiskSet;
use crate::nand_set::NandSet;
use crate::set::NvmSet;
use crate::sets::Set;
use crate::storage::{NoContents, Record, Section, Storage};
use crate::volume::{SetId, VolumeId};
use media::{Faulty, LogicalPage, Medium, Nanos, Slot, Spare, StateError, Unit};
use std::collections::BTreeMap;

/// Version of the bytes that [`Ftl::save`] writes.
const VERSION: u32 = 1;
const MAGIC: u32 = u32::from_le_bytes(*b"TFTL");
/// The highest order of a write that is taken from saved state. No drive writes as much, and the order of later writes has room behind it.
const MAX_SAVED_VERSION: u64 = u64::MAX >> 1;

/// Why saved state cannot be used.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum LoadError {
    /// The configuration cannot be.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Not the state of a medium like the configured one.
    #[error("NVM Set {set}: {error}")]
    Media {
        /// From 1.
        set: u32,
        /// What is wrong.
        error: StateError,
    },
    /// The bytes end too early, or are not what they should be.
    #[error("saved state of the translation layer: {0}")]
    Malformed(String),
}

fn malformed(what: impl Into<String>) -> LoadError {
    LoadError::Malformed(what.into())
}

fn put(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
    out.extend_from_slice(bytes);
}

fn put_spares(out: &mut Vec<u8>, spares: &[Spare]) {
    out.extend_from_slice(&(spares.len() as u64 * 16).to_le_bytes());
    for s in spares {
        out.extend_from_slice(&s.page.0.to_le_bytes());
        out.extend_from_slice(&s.slot.0.to_le_bytes());
        out.extend_from_slice(&s.version.to_le_bytes());
    }
}

struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, n: usize) -> Result<&'a [u8], LoadError> {
        let (head, tail) = self.0.split_at_checked(n).ok_or_else(|| malformed("it ends too early"))?;
        self.0 = tail;
        Ok(head)
    }

    fn u32(&mut self) -> Result<u32, LoadError> {
        Ok(u32::from_le_bytes(self.take(4)?.try_into().map_err(|_| malformed("a number is cut off"))?))
    }

    fn u64(&mut self) -> Result<u64, LoadError> {
        Ok(u64::from_le_bytes(self.take(8)?.try_into().map_err(|_| malformed("a number is cut off"))?))
    }

    fn part(&mut self) -> Result<&'a [u8], LoadError> {
        let len = usize::try_from(self.u64()?).map_err(|_| malformed("a part is too long"))?;
        self.take(len)
    }
}

fn spares(bytes: &[u8]) -> Result<Vec<Spare>, LoadError> {
    if !bytes.len().is_multiple_of(16) {
        return Err(malformed("the write buffer is not a whole number of pages"));
    }
    let mut cursor = Cursor(bytes);
    (0..bytes.len() / 16)
        .map(|_| {
            let (page, slot) = (LogicalPage(cursor.u32()?), Slot(cursor.u32()?));
            Ok(Spare { page, slot, version: cursor.u64()? })
        })
        .collect()
}

impl Ftl {
    /// Appends the state that outlives the process, which includes the write buffer. While there is no power, that is what the
    /// capacitors saved of it. For the layout see the image format in the documentation.
    pub fn save(&self, out: &mut Vec<u8>) {
        self.save_with(out, |i, set| match &self.saved {
            Some(saved) => saved.get(i).cloned().unwrap_or_default(),
            None => set.saved(&self.volumes),
        });
    }

    /// What is left when the power is switched off now, with capacitors that work: to be kept, copied, and opened again.
    pub fn park(mut self, now: Nanos) -> Restorer {
        self.power_cut(now, true, &mut NoContents);
        Restorer::parked(self)
    }

    /// With what the write buffer of each NAND set shall have held.
    fn save_with(&self, out: &mut Vec<u8>, saved: impl Fn(usize, &NandSet) -> Vec<Spare>) {
        out.extend_from_slice(&MAGIC.to_le_bytes());
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&self.version.to_le_bytes());
        out.extend_from_slice(&(self.sets.len() as u32).to_le_bytes());
        put(out, &self.volumes.encode());
        let stats: Vec<SetStats> = (0..self.sets.len()).map(|i| self.set_stats(SetId(i as u8))).collect();
        put(out, &serde_json::to_vec(&stats).unwrap_or_default());
        for (i, set) in self.sets.iter().enumerate() {
            // The medium writes in place; its length is filled in afterwards.
            let at = out.len();
            out.extend_from_slice(&[0; 8]);
            match set {
                Set::Nand(set) => set.mapped.nand().save(out),
                Set::Memory(set) => set.memory.save(out),
                Set::Disk(set) => set.save(out),
            }
            let len = (out.len() - at - 8) as u64;
            out[at..at + 8].copy_from_slice(&len.to_le_bytes());
            match set {
                Set::Nand(set) => {
                    out.extend_from_slice(&(set.mapped.trimmed().len() as u64 * 8).to_le_bytes());
                    out.extend(set.mapped.trimmed().iter().flat_map(|w| w.to_le_bytes()));
                    put_spares(out, &saved(i, set));
                }
                Set::Memory(_) | Set::Disk(_) => {
                    put(out, &[]);
                    put(out, &[]);
                }
            }
        }
        let writers = |set: &Set| match set {
            Set::Nand(set) => set.mapped.writers(),
            Set::Memory(_) | Set::Disk(_) => Vec::new(),
        };
        let writers: Vec<Vec<u8>> = self.sets.iter().map(writers).collect();
        let zoned = self.volumes.iter().any(|(_, volume)| volume.zones.is_some());
        if zoned || writers.iter().any(|w| !w.is_empty()) {
            writers.iter().for_each(|w| put(out, w));
        }
        if zoned {
            for set in &self.sets {
                let mut zones = Vec::new();
                if let Set::Nand(set) = set {
                    set.zones.save(&mut zones);
                }
                put(out, &zones);
            }
        }
    }

    /// Begins to open a drive from what [`save`](Ftl::save) wrote.
    ///
    /// # Errors
    /// If the bytes are not the state of a drive of this configuration.
    pub fn restore(config: Config, bytes: &[u8]) -> Result<Restorer, LoadError> {
        let mut cursor = Cursor(bytes);
        if cursor.u32()? != MAGIC {
            return Err(malformed("it does not begin with TFTL"));
        }
        let version = cursor.u32()?;
        if version != VERSION {
            return Err(malformed(format!("version {version}; this program knows version {VERSION}")));
        }
        let newest = cursor.u64()?;
        let sets = cursor.u32()? as usize;
        if sets != config.sets.len() {
            return Err(malformed(format!("{sets} NVM Sets; the configuration has {}", config.sets.len())));
        }
        let volumes = cursor.part()?;
        let stats: Vec<SetStats> =
            serde_json::from_slice(cursor.part()?).map_err(|e| malformed(format!("counters: {e}")))?;
        let parts = (0..sets).map(|_| Ok([cursor.part()?, cursor.part()?, cursor.part()?]));
        let parts: Vec<[&[u8]; 3]> = parts.collect::<Result<_, LoadError>>()?;
        let media = |set: usize| move |error| LoadError::Media { set: set as u32 + 1, error };
        let mut ftl = Ftl::assemble(
            config,
            |i, nand, plan| {
                Faulty::restore(plan, parts[i][0], |s| media::Nand::restore(nand, s)).map_err(media(i))
            },
            |i, memory, plan| {
                Faulty::restore(plan, parts[i][0], |s| media::Memory::restore(memory, s)).map_err(media(i))
            },
        )?;
        ftl.version = newest;
        ftl.volumes.decode(volumes).map_err(malformed)?;
        ftl.match_zones()?;
        let mut buffers = Vec::new();
        for (i, &[_, trimmed, saved]) in parts.iter().enumerate() {
            match &mut ftl.sets[i] {
                Set::Nand(NandSet { mapped: set, .. }) => {
                    if trimmed.len() != set.trimmed().len() * 8 {
                        return Err(malformed(format!(
                            "deallocations of NVM Set {} have a wrong length",
                            i + 1
                        )));
                    }
                    let words: Vec<u64> =
                        trimmed.as_chunks::<8>().0.iter().map(|w| u64::from_le_bytes(*w)).collect();
                    set.set_trimmed(&words);
                }
                Set::Memory(_) => {}
                Set::Disk(set) => {
                    set.load(parts[i][0]).map_err(|error| malformed(format!("NVM Set {}: {error}", i + 1)))?
                }
            }
            let stats = stats.get(i).copied().unwrap_or_default();
            ftl.sets[i].restore_stats(stats);
            ftl.host_bytes[i] = HostBytes { read: stats.host_read_bytes, written: stats.host_written_bytes };
            buffers.push(spares(saved)?.into_iter().map(|s| (s.page.0, s)).collect());
        }
        // Only drives with placement handles or zones have this.
        for i in (0..sets).take_while(|_| !cursor.0.is_empty()).collect::<Vec<_>>() {
            let Set::Nand(NandSet { mapped: set, .. }) = &mut ftl.sets[i] else {
                cursor.part()?;
                continue;
            };
            for (superblock, &writer) in (0..).zip(cursor.part()?) {
                if !set.apply_open(superblock, writer) {
                    return Err(malformed(format!("superblock {superblock} cannot have stream {writer}")));
                }
            }
        }
        // Only drives with zones have this.
        for i in (0..sets).take_while(|_| !cursor.0.is_empty()).collect::<Vec<_>>() {
            let zones = cursor.part()?;
            match &mut ftl.sets[i] {
                Set::Nand(set) => set.zones.load(zones).map_err(malformed)?,
                Set::Memory(_) | Set::Disk(_) => {}
            }
        }
        Ok(Restorer { ftl, buffers })
    }

    /// Whether writes can still be put in order behind those that were found.
    fn check_version(&self) -> Result<(), LoadError> {
        match self.version {
            0..=MAX_SAVED_VERSION => Ok(()),
            version => Err(malformed(format!("a page is the write of number {version}"))),
        }
    }

    /// Makes the zones of volumes that have come, and forgets those of volumes that are gone.
    fn match_zones(&mut self) -> Result<(), LoadError> {
        let has_zones = |set: SetId| self.set(set).is_some_and(|set| set.zoned().is_some());
        if let Some((id, _)) = self.volumes.iter().find(|(_, v)| v.zones.is_some() && !has_zones(v.set)) {
            return Err(malformed(format!("volume {} has zones on a set without zones", id.0)));
        }
        for (i, set) in self.sets.iter_mut().enumerate() {
            let Set::Nand(NandSet { zones, .. }) = set else { continue };
            let of_set = |id: VolumeId| {
                self.volumes.get(id).filter(|v| usize::from(v.set.0) == i).and_then(|v| v.zones)
            };
            for (id, layout) in zones.volumes().collect::<Vec<_>>() {
                if of_set(id) != Some(layout) {
                    zones.drop_table(id);
                }
            }
            let known: Vec<VolumeId> = zones.volumes().map(|(id, _)| id).collect();
            for (id, volume) in self.volumes.iter().filter(|(_, v)| usize::from(v.set.0) == i) {
                let Some(layout) = volume.zones else { continue };
                let is_known = known.contains(&id);
                let fits = || zones.support().is_some_and(|support| layout.fits(&support));
                if !(is_known || fits()) || volume.bytes != layout.bytes() {
                    return Err(malformed(format!(
                        "volume {} has zones that NVM Set {} cannot have",
                        id.0,
                        i + 1
                    )));
                }
                if !is_known {
                    zones.create(id, layout);
                }
            }
        }
        Ok(())
    }
}

/// A drive without power: the saved state, brought up to date by the records of a journal.
#[derive(Clone)]
pub struct Restorer {
    ftl: Ftl,
    /// Per set, what the write buffer held.
    buffers: Vec<BTreeMap<u32, Spare>>,
}

impl Restorer {
    /// A new drive, as if saved when it was made: for a journal without a checkpoint.
    pub fn blank(ftl: Ftl) -> Restorer {
        let buffers = ftl.sets.iter().map(|_| BTreeMap::new()).collect();
        Restorer { ftl, buffers }
    }

    /// What a drive that has just lost its power left.
    pub(crate) fn parked(mut ftl: Ftl) -> Restorer {
        let saved = ftl.saved.take().unwrap_or_default();
        // Nothing that is not saved either.
        let volumes = ftl.volumes.encode();
        let decoded = ftl.volumes.decode(&volumes);
        debug_assert_eq!(decoded, Ok(()));
        for (i, set) in ftl.sets.iter_mut().enumerate() {
            let plan = ftl.config.faults_of(i);
            match set {
                Set::Nand(NandSet { mapped: set, .. }) => {
                    set.nand_mut().reset(plan);
                    set.drop_map();
                }
                Set::Memory(set) => set.memory.reset(plan),
                Set::Disk(set) => {
                    if let SetConfig::Disk { shape, .. } = &ftl.config.sets[i] {
                        set.park(shape, plan);
                    }
                }
            }
        }
        let by_page = |saved: Vec<Spare>| saved.into_iter().map(|s| (s.page.0, s)).collect();
        Restorer { ftl, buffers: saved.into_iter().map(by_page).collect() }
    }

    /// Appends what [`Ftl::restore`] reads.
    pub fn save(&self, out: &mut Vec<u8>) {
        self.ftl.save_with(out, |set, _| self.buffers[set].values().copied().collect());
    }

    /// Applies the next record.
    ///
    /// # Errors
    /// If it does not fit this drive.
    pub fn apply(&mut self, record: &Record<'_>) -> Result<(), LoadError> {
        let number = match *record {
            Record::Section { kind: Section::Volumes, bytes } => {
                self.ftl.volumes.decode(bytes).map_err(malformed)?;
                return self.ftl.match_zones();
            }
            Record::Section { .. } => return Ok(()),
            Record::Program { set, .. }
            | Record::Spoil { set, .. }
            | Record::Erase { set, .. }
            | Record::Retire { set, .. }
            | Record::Open { set, .. }
            | Record::Buffer { set, .. }
            | Record::Lose { set }
            | Record::Place { set, .. }
            | Record::Clear { set, .. }
            | Record::Zone { set, .. }
            | Record::Sectors { set, .. }
            | Record::Trim { set, .. } => set,
        };
        let media = |error| LoadError::Media { set: u32::from(number) + 1, error };
        let missing = || malformed(format!("a record names NVM Set {}", u32::from(number) + 1));
        let set = self.ftl.sets.get_mut(usize::from(number)).ok_or_else(missing)?;
        let buffer = &mut self.buffers[usize::from(number)];
        match (set, record) {
            (Set::Nand(NandSet { mapped: set, .. }), Record::Program { unit, spares, .. }) => {
                set.nand_mut().apply_program(*unit, spares).map_err(media)?;
                for spare in spares.iter() {
                    self.ftl.version = self.ftl.version.max(spare.version);
                    if buffer.get(&spare.page.0).is_some_and(|b| b.version <= spare.version) {
                        buffer.remove(&spare.page.0);
                    }
                }
            }
            (Set::Nand(NandSet { mapped: set, .. }), Record::Spoil { unit, .. }) => {
                set.nand_mut().apply_spoil(*unit).map_err(media)?
            }
            (Set::Nand(NandSet { mapped: set, .. }), Record::Erase { unit, .. }) => {
                set.nand_mut().apply_erase(*unit).map_err(media)?
            }
            (Set::Nand(NandSet { mapped: set, .. }), Record::Retire { unit, .. }) => {
                set.nand_mut().apply_bad(*unit).map_err(media)?
            }
            (Set::Nand(NandSet { mapped: set, .. }), Record::Open { superblock, writer, .. }) => {
                if !set.apply_open(*superblock, *writer) {
                    return Err(malformed(format!("superblock {superblock} cannot have stream {writer}")));
                }
            }
            (Set::Nand(set), Record::Zone { volume, zone, bytes, .. }) => {
                set.zones.apply(VolumeId(*volume), *zone, bytes).map_err(malformed)?;
            }
            (Set::Nand(_), Record::Buffer { spare, .. }) => {
                self.ftl.version = self.ftl.version.max(spare.version);
                buffer.insert(spare.page.0, *spare);
            }
            (Set::Nand(_), Record::Lose { .. }) => buffer.clear(),
            (Set::Nand(NandSet { mapped: set, .. }), Record::Trim { first, count, version, gone, .. }) => {
                self.ftl.version = self.ftl.version.max(*version);
                set.apply_trim(*first, *count, *gone);
                if *gone {
                    let end = first.saturating_add(*count);
                    let dropped: Vec<u32> = buffer.range(*first..end).map(|(&p, _)| p).collect();
                    for page in dropped {
                        buffer.remove(&page);
                    }
                }
            }
            (Set::Memory(set), Record::Place { page, spare, .. }) => {
                self.ftl.version = self.ftl.version.max(spare.version);
                set.memory.apply_program(Unit(page.0), &[*spare]).map_err(media)?;
            }
            (Set::Memory(set), Record::Clear { first, count, .. }) => {
                if !set.apply_clear(*first, *count) {
                    return Err(malformed(format!("there are no {count} pages from page {first} on")));
                }
            }
            (Set::Disk(set), Record::Place { page, spare, .. }) => {
                self.ftl.version = self.ftl.version.max(spare.version);
                if !set.apply_page(page.0, DiskSet::slot_of_record(spare)) {
                    return Err(malformed(format!("there is no page {}", page.0)));
                }
            }
            (Set::Disk(set), Record::Clear { first, count, .. }) => {
                if !set.apply_clear(*first, *count) {
                    return Err(malformed(format!("there are no {count} pages from page {first} on")));
                }
            }
            (Set::Disk(set), Record::Sectors { first, count, state, .. }) => {
                if !set.apply_sectors((*first, *count), *state) {
                    return Err(malformed(format!("there are no {count} sectors from sector {first} on")));
                }
            }
            _ => {
                return Err(malformed(format!("a record does not fit the medium of NVM Set {}", number + 1)));
            }
        }
        Ok(())
    }

    /// Opens the drive: recovers from the state that was reached.
    ///
    /// # Errors
    /// If that state contradicts itself (more in the write buffer than fits).
    pub fn finish(self, now: Nanos, storage: &mut impl Storage) -> Result<Ftl, LoadError> {
        let Restorer { mut ftl, buffers } = self;
        let saved: Vec<Vec<Spare>> = buffers.into_iter().map(|b| b.into_values().collect()).collect();
        for ((i, set), saved) in (0..).zip(&ftl.sets).zip(&saved) {
            let Set::Nand(set) = set else { continue };
            // Pages of zones that were never written take no room.
            let is_hole =
                |spare: &&Spare| spare.slot == Slot::NONE && ftl.volumes.is_zoned(SetId(i), spare.page.0);
            let pages = saved.len() - saved.iter().filter(is_hole).count();
            if pages > set.buffer_pages() {
                let most = set.buffer_pages();
                return Err(malformed(format!("{pages} pages in a write buffer of {most}")));
            }
        }
        ftl.saved = Some(saved);
        ftl.check_version()?;
        ftl.rebuild(storage);
        ftl.check_version()?;
        ftl.resume(now, storage);
        Ok(ftl)
    }
}
