//! Volumes: the logical space of one namespace, in granules of its NVM Set.

use crate::config::{GRANULE_PAGES, PAGE};
use crate::storage::Piece;
use crate::zone::ZoneLayout;
use serde::{Deserialize, Serialize};

/// An NVM Set, from 0 (the identifier in NVMe is one more).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct SetId(pub u8);

/// The logical space of one namespace. An identifier is used again after its deletion.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct VolumeId(pub u16);

/// A range of bytes of a volume, in multiples of 512.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// First byte.
    pub start: u64,
    /// How many.
    pub bytes: u32,
}

impl Extent {
    /// Its piece and the page of the volume, if it lies in one page; `None` of an empty one, too.
    #[inline]
    pub(crate) fn only_piece(self) -> Option<(u64, Piece)> {
        let page = (self.start % u64::from(PAGE)) as u32;
        let piece = Piece { host: 0, page, len: self.bytes };
        // An empty extent wraps around.
        (self.bytes.wrapping_sub(1) < PAGE - page).then_some((self.start / u64::from(PAGE), piece))
    }

    /// Its pieces, in order, each with the page of the volume that it is part of.
    #[inline]
    pub(crate) fn pieces(self) -> impl Iterator<Item = (u64, Piece)> {
        let mut host = 0;
        std::iter::from_fn(move || {
            let left = self.bytes - host;
            if left == 0 {
                return None;
            }
            let byte = self.start + u64::from(host);
            let offset = (byte % u64::from(PAGE)) as u32;
            let piece = Piece { host, page: offset, len: (PAGE - offset).min(left) };
            host += piece.len;
            Some((byte / u64::from(PAGE), piece))
        })
    }
}

/// Exact counts of one volume since its creation.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct VolumeStats {
    /// Bytes that the host read.
    pub host_read_bytes: u64,
    /// Bytes that the host wrote.
    pub host_written_bytes: u64,
    /// Bytes programmed because the host wrote them (pages; padding of partial units included).
    pub media_host_bytes: u64,
    /// Bytes that garbage collection programmed because of this volume's writes. Other volumes may own them.
    pub media_gc_bytes: u64,
    /// Bytes sensed for the host's reads.
    pub media_read_bytes: u64,
    /// Bytes that the host deallocated.
    pub trimmed_bytes: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Volume {
    pub set: SetId,
    pub bytes: u64,
    /// Granule of the set that holds each granule of the volume.
    pub granules: Vec<u32>,
    /// Its zones, if it has any: then each has granules for what can be written to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zones: Option<ZoneLayout>,
    /// The first of them, if the others follow it one by one, as they nearly always do: then the list, which is a miss of the cache, need
    /// not be asked.
    #[serde(skip)]
    pub run: Option<u32>,
    pub stats: VolumeStats,
    /// Pages that hold data; counted anew by recovery.
    #[serde(skip)]
    pub mapped: u64,
    /// Pages programmed lately because the host wrote them.
    #[serde(skip)]
    pub programmed: u64,
    /// Pages of it that were found to be lost since it is in memory; those that were written again since count, too.
    #[serde(skip)]
    pub losses: u64,
    /// Its unpaid share of the pages that collection programs. The unit is pages times the pages that were
    /// programmed lately for all hosts, so that no division is needed.
    #[serde(skip)]
    pub owed: i64,
}

impl Volume {
    /// Pages are programmed of this volume: because its host wrote them, or collection moved them.
    #[inline]
    pub fn charge(&mut self, pages: u32, collected: bool) {
        let bytes = u64::from(pages) * u64::from(PAGE);
        if collected {
            self.stats.media_gc_bytes += bytes;
        } else {
            self.stats.media_host_bytes += bytes;
            self.programmed += u64::from(pages);
        }
    }

    /// Pages more or fewer hold data. Zones count theirs by themselves.
    #[inline]
    pub fn count_mapped(&mut self, pages: i64) {
        if self.zones.is_none() {
            self.mapped = self.mapped.checked_add_signed(pages).expect("no more pages go than there are");
        }
    }

    /// The set's logical page that holds the volume's page.
    #[inline]
    pub fn page(&self, page: u64) -> u32 {
        let index = (page / u64::from(GRANULE_PAGES)) as u32;
        let granule = match self.run {
            Some(first) => first + index,
            None => self.granules[index as usize],
        };
        granule * GRANULE_PAGES + (page % u64::from(GRANULE_PAGES)) as u32
    }
}

/// The first of granules that follow each other one by one; `None` of others.
fn run(granules: &[u32]) -> Option<u32> {
    let first = *granules.first()?;
    (first..).zip(granules).all(|(next, &granule)| next == granule).then_some(first)
}

/// Granules that a volume of so many bytes, or of these zones, needs.
fn granules_of(bytes: u64, zones: Option<&ZoneLayout>) -> u64 {
    match zones {
        Some(zones) => u64::from(zones.zones) * u64::from(zones.granules_of_zone()),
        None => bytes.div_ceil(u64::from(GRANULE_PAGES) * u64::from(PAGE)),
    }
}

/// All volumes, and who owns each granule of each set.
#[derive(Clone, Debug)]
pub(crate) struct Volumes {
    table: Vec<Option<Volume>>,
    /// Per set and granule: owner, or `u16::MAX`.
    owners: Vec<Vec<u16>>,
    /// Losses of all volumes, also of those that are gone.
    losses: u64,
}

/// Owner of a granule that no volume has.
const FREE: u16 = u16::MAX;

/// Pages programmed for hosts that tell whose writes make garbage collection necessary.
const LATELY_PAGES: u64 = 1 << 14;

/// Most volumes of a drive.
pub const MAX_VOLUMES: usize = 1024;

impl Volumes {
    pub fn new(set_pages: &[u32]) -> Volumes {
        let owners = set_pages.iter().map(|&p| vec![FREE; (p / GRANULE_PAGES) as usize]).collect();
        Volumes { table: Vec::new(), owners, losses: 0 }
    }

    pub fn get(&self, id: VolumeId) -> Option<&Volume> {
        self.table.get(usize::from(id.0))?.as_ref()
    }

    pub fn get_mut(&mut self, id: VolumeId) -> Option<&mut Volume> {
        self.table.get_mut(usize::from(id.0))?.as_mut()
    }

    /// The volume that owns a logical page of a set; free pages belong to nobody.
    #[inline]
    pub fn owner_mut(&mut self, set: SetId, page: u32) -> Option<&mut Volume> {
        let owner = *self.owners[usize::from(set.0)].get((page / GRANULE_PAGES) as usize)?;
        self.table.get_mut(usize::from(owner))?.as_mut()
    }

    /// A page of a set that belongs to a volume cannot be read any more.
    pub fn lose(&mut self, set: SetId, page: u32) {
        if let Some(volume) = self.owner_mut(set, page) {
            volume.losses += 1;
            self.losses += 1;
        }
    }

    /// How many pages were lost, of all volumes.
    #[inline]
    pub fn losses(&self) -> u64 {
        self.losses
    }

    /// The volume that a logical page of a set belongs to, and which page of it that is. Looks through the volume.
    pub fn place_of(&self, set: SetId, page: u32) -> Option<(VolumeId, u64)> {
        let granule = page / GRANULE_PAGES;
        let owner = *self.owners[usize::from(set.0)].get(granule as usize)?;
        let volume = self.table.get(usize::from(owner))?.as_ref()?;
        let index = match volume.run {
            Some(first) => u64::from(granule - first),
            None => volume.granules.iter().position(|&g| g == granule)? as u64,
        };
        let within = u64::from(page % GRANULE_PAGES);
        let Some(zones) = &volume.zones else {
            return Some((VolumeId(owner), index * u64::from(GRANULE_PAGES) + within));
        };
        let (zone, granule) =
            (index / u64::from(zones.granules_of_zone()), index % u64::from(zones.granules_of_zone()));
        let first = zone * zones.size / u64::from(PAGE);
        Some((VolumeId(owner), first + granule * u64::from(GRANULE_PAGES) + within))
    }

    /// Whether a volume of a set without zones holds anything.
    pub fn hold_anything(&self, set: SetId) -> bool {
        self.table.iter().flatten().any(|volume| volume.set == set && volume.mapped > 0)
    }

    /// Whether a logical page of a set belongs to a volume with zones.
    pub fn is_zoned(&self, set: SetId, page: u32) -> bool {
        let owner = self.owners[usize::from(set.0)].get((page / GRANULE_PAGES) as usize);
        let volume = owner.and_then(|owner| self.table.get(usize::from(*owner))?.as_ref());
        volume.is_some_and(|volume| volume.zones.is_some())
    }

    /// Charges bytes that garbage collection programs to one of the volumes whose writes made it necessary. They take turns, in
    /// proportion to what was programmed for their hosts lately. Returns whether there is such a volume.
    pub fn charge_collected(&mut self, set: SetId, bytes: u64) -> bool {
        let pages = bytes.div_ceil(PAGE.into()).cast_signed();
        let mut all = 0i64;
        let mut payer: Option<&mut Volume> = None;
        for volume in self.table.iter_mut().flatten().filter(|v| v.set == set && v.programmed > 0) {
            let weight = volume.programmed.cast_signed();
            all = all.saturating_add(weight);
            volume.owed = volume.owed.saturating_add(pages.saturating_mul(weight));
            if payer.as_ref().is_none_or(|p| p.owed < volume.owed) {
                payer = Some(volume);
            }
        }
        let Some(payer) = payer else { return false };
        payer.owed = payer.owed.saturating_sub(pages.saturating_mul(all));
        payer.stats.media_gc_bytes += bytes;
        if all.cast_unsigned() >= LATELY_PAGES {
            // What lies further back counts half.
            for volume in self.table.iter_mut().flatten().filter(|v| v.set == set) {
                volume.programmed /= 2;
                volume.owed /= 2;
            }
        }
        true
    }

    /// Granules of a set; `None` if there is no such set.
    pub fn granules(&self, set: SetId) -> Option<usize> {
        self.owners.get(usize::from(set.0)).map(Vec::len)
    }

    /// Sets how many pages of each volume hold data.
    pub fn recount(&mut self, mapped: impl Fn(&Volume) -> u64) {
        for volume in self.table.iter_mut().flatten() {
            volume.mapped = mapped(volume);
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = (VolumeId, &Volume)> {
        self.table.iter().enumerate().filter_map(|(i, v)| Some((VolumeId(i as u16), v.as_ref()?)))
    }

    /// The granules of a set that no volume has.
    pub fn free_granules(&self, set: SetId) -> Vec<u32> {
        let owners = self.owners.get(usize::from(set.0)).map_or(&[][..], Vec::as_slice);
        (0..).zip(owners).filter(|(_, owner)| **owner == FREE).map(|(granule, _)| granule).collect()
    }

    pub fn unallocated_granules(&self, set: SetId) -> u32 {
        self.owners.get(usize::from(set.0)).map_or(0, |o| o.iter().filter(|&&o| o == FREE).count() as u32)
    }

    /// Makes a volume of so many bytes, or of these zones; `None` if there is too little capacity for it.
    pub fn create(&mut self, set: SetId, bytes: u64, zones: Option<ZoneLayout>) -> Option<VolumeId> {
        let need = usize::try_from(granules_of(bytes, zones.as_ref())).ok()?;
        let owners = self.owners.get_mut(usize::from(set.0))?;
        let id = match self.table.iter().position(Option::is_none) {
            Some(free) => free,
            None if self.table.len() < MAX_VOLUMES => self.table.len(),
            None => return None,
        };
        let granules: Vec<u32> =
            (0..owners.len() as u32).filter(|&g| owners[g as usize] == FREE).take(need).collect();
        if granules.len() < need {
            return None;
        }
        for &g in &granules {
            owners[g as usize] = id as u16;
        }
        let (run, stats) = (run(&granules), VolumeStats::default());
        let volume =
            Volume { set, bytes, granules, zones, run, stats, mapped: 0, programmed: 0, losses: 0, owed: 0 };
        if id == self.table.len() {
            self.table.push(Some(volume));
        } else {
            self.table[id] = Some(volume);
        }
        Some(VolumeId(id as u16))
    }

    pub fn remove(&mut self, id: VolumeId) {
        if let Some(volume) = self.table.get_mut(usize::from(id.0)).and_then(Option::take) {
            for g in volume.granules {
                self.owners[usize::from(volume.set.0)][g as usize] = FREE;
            }
        }
    }

    pub fn encode(&self) -> Vec<u8> {
        // JSON: small, rare, readable in an image, and tolerant of new fields.
        serde_json::to_vec(&self.table).unwrap_or_default()
    }

    pub fn decode(&mut self, bytes: &[u8]) -> Result<(), String> {
        let mut table: Vec<Option<Volume>> = serde_json::from_slice(bytes).map_err(|e| e.to_string())?;
        if table.len() > MAX_VOLUMES {
            return Err(format!("{} volumes; at most {MAX_VOLUMES} are possible", table.len()));
        }
        for owners in &mut self.owners {
            owners.fill(FREE);
        }
        for (id, volume) in table.iter_mut().enumerate() {
            let Some(volume) = volume else { continue };
            if granules_of(volume.bytes, volume.zones.as_ref()) != volume.granules.len() as u64 {
                return Err(format!(
                    "volume {id} has {} granules for {} bytes",
                    volume.granules.len(),
                    volume.bytes
                ));
            }
            let owners = self.owners.get_mut(usize::from(volume.set.0)).ok_or_else(|| {
                format!("volume {id} is on NVM Set {}, which the drive lacks", volume.set.0 + 1)
            })?;
            for &g in &volume.granules {
                match owners.get_mut(g as usize) {
                    Some(owner) if *owner == FREE => *owner = id as u16,
                    _ => return Err(format!("granule {g} of volume {id} is taken or outside the set")),
                }
            }
            volume.run = run(&volume.granules);
        }
        self.table = table;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_extent_is_cut_at_pages() {
        let pieces = |start, bytes| Extent { start, bytes }.pieces().collect::<Vec<_>>();
        let piece = |host, page, len| Piece { host, page, len };
        assert_eq!(pieces(512, 0), []);
        assert_eq!(pieces(4096, 4096), [(1, piece(0, 0, 4096))]);
        assert_eq!(pieces(1024, 512), [(0, piece(0, 1024, 512))]);
        let three = [(0, piece(0, 3584, 512)), (1, piece(512, 0, 4096)), (2, piece(4608, 0, 512))];
        assert_eq!(pieces(3584, 5120), three);
    }
}
