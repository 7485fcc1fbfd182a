//! What outlives power of a zone, beside its blocks: its state, where it lies, and how far it is written.

use super::Zones;
use super::striping::Plot;
use super::zone::{Zone, ZoneId};
use crate::context::SetContext;
use crate::storage::{Record, Storage};
use crate::volume::VolumeId;
use crate::zone::{MAX_ZONE_EXTENSION, ZoneState};

/// Bytes of a record without the descriptor extension.
const FIXED_BYTES: usize = 16;
/// Bit of a record's state: the zone has a Zone Random Write Area, and its write pointer in pages follows in 4 bytes.
const WITH_ZRWA: u32 = 1 << 31;
/// [`Plot::superblock`] of a zone that lies nowhere.
const NO_SUPERBLOCK: u32 = u32::MAX;

/// Bit of a record's state: the set finished the zone by itself.
const FINISHED_BY_SET: u32 = 1 << 30;

/// A state as a record names it: the codes of NVMe's zone descriptors.
const CODES: [(ZoneState, u8); 7] = [
    (ZoneState::Empty, 0x1),
    (ZoneState::ImplicitlyOpened, 0x2),
    (ZoneState::ExplicitlyOpened, 0x3),
    (ZoneState::Closed, 0x4),
    (ZoneState::ReadOnly, 0xD),
    (ZoneState::Full, 0xE),
    (ZoneState::Offline, 0xF),
];

/// Appends the record of a zone: state, plot, settled units, write pointer of a zone with a Zone Random Write Area, extension.
fn encode(zone: &Zone, state: ZoneState, settled: u32, out: &mut Vec<u8>) {
    let code = CODES.iter().find(|(listed, _)| *listed == state).map_or(0, |(_, code)| *code);
    let plot = zone.plot.unwrap_or(Plot { superblock: NO_SUPERBLOCK, index: 0 });
    let flag = if zone.zrwa { WITH_ZRWA } else { 0 };
    let flag = flag | if zone.finished_by_set { FINISHED_BY_SET } else { 0 };
    out.extend_from_slice(&(u32::from(code) | flag).to_le_bytes());
    out.extend_from_slice(&plot.superblock.to_le_bytes());
    out.extend_from_slice(&plot.index.to_le_bytes());
    out.extend_from_slice(&settled.to_le_bytes());
    if zone.zrwa {
        out.extend_from_slice(&zone.committed.to_le_bytes());
    }
    out.extend_from_slice(&zone.extension);
}

impl Zones {
    /// Tells the journal what a zone is now.
    pub(super) fn record<S: Storage>(&mut self, id: ZoneId, cx: &mut SetContext<'_, S>) {
        let settled = self.settled(id);
        let zone = self.zone_mut(id);
        (zone.floor, zone.committed) = (settled, zone.admitted);
        if !self.durable {
            return;
        }
        let Some(set) = cx.volumes.get(id.volume).map(|volume| volume.set.0) else { return };
        let mut bytes = Vec::with_capacity(FIXED_BYTES);
        encode(self.zone(id), self.lasting_state(id), settled, &mut bytes);
        cx.storage.record(Record::Zone { set, volume: id.volume.0, zone: id.zone, bytes: &bytes });
    }

    /// The state of a zone as it outlives power.
    pub(super) fn lasting_state(&self, id: ZoneId) -> ZoneState {
        self.table(id.volume).map_or(ZoneState::Empty, |table| table.lasting_state(id.zone))
    }

    /// Units from the begin of a zone that are on flash for sure. Those that are stored elsewhere may be in a buffer there.
    pub(super) fn settled(&self, id: ZoneId) -> u32 {
        if self.zone(id).strays {
            return 0;
        }
        match self.zone(id).window {
            Some(window) => self.windows[usize::from(window)].settled,
            None => self.zone(id).admitted.div_ceil(self.striping.unit_pages),
        }
    }

    /// Appends the records of all zones that are not as new.
    pub fn save(&self, out: &mut Vec<u8>) {
        for id in self.ids() {
            let zone = self.zone(id);
            if zone.state == ZoneState::Empty && zone.plot.is_none() {
                continue;
            }
            out.extend_from_slice(&u32::from(id.volume.0).to_le_bytes());
            out.extend_from_slice(&id.zone.to_le_bytes());
            let pointer = if zone.zrwa { size_of::<u32>() } else { 0 };
            out.extend_from_slice(&((zone.extension.len() + pointer) as u32).to_le_bytes());
            encode(zone, self.lasting_state(id), self.settled(id), out);
        }
    }

    /// Takes what [`save`](Zones::save) wrote.
    ///
    /// # Errors
    /// What cannot be, in words.
    pub fn load(&mut self, mut bytes: &[u8]) -> Result<(), String> {
        while let Some((head, rest)) = bytes.split_at_checked(12) {
            let word = |i: usize| u32::from_le_bytes([head[i], head[i + 1], head[i + 2], head[i + 3]]);
            let len = FIXED_BYTES + word(8) as usize;
            let (record, rest) = rest.split_at_checked(len).ok_or("the record of a zone is cut off")?;
            let volume = u16::try_from(word(0)).map_err(|_| format!("there is no volume {}", word(0)))?;
            self.apply(VolumeId(volume), word(4), record)?;
            bytes = rest;
        }
        if bytes.is_empty() { Ok(()) } else { Err("the record of a zone is cut off".into()) }
    }

    /// Takes the record of a zone.
    ///
    /// # Errors
    /// What cannot be, in words.
    pub fn apply(&mut self, volume: VolumeId, number: u32, bytes: &[u8]) -> Result<(), String> {
        let (striping, superblocks) = (self.striping, self.plots.all_superblocks());
        let table = self.table_mut(volume).ok_or_else(|| format!("volume {} has no zones", volume.0))?;
        let layout = table.layout;
        let missing = || format!("volume {} has no zone {number}", volume.0);
        let zone = table.zones.get_mut(number as usize).ok_or_else(missing)?;
        let (fixed, extension) =
            bytes.split_at_checked(FIXED_BYTES).ok_or("the record of a zone is cut off")?;
        let word = |i: usize| u32::from_le_bytes([fixed[i], fixed[i + 1], fixed[i + 2], fixed[i + 3]]);
        let code = word(0) & !(WITH_ZRWA | FINISHED_BY_SET);
        let state = CODES.iter().find(|(_, known)| u32::from(*known) == code);
        let (state, _) = *state.ok_or_else(|| format!("zone {number} has the unknown state {code}"))?;
        let zrwa = word(0) & WITH_ZRWA != 0;
        let (pointer, extension) = extension
            .split_at_checked(if zrwa { size_of::<u32>() } else { 0 })
            .ok_or("the record of a zone is cut off")?;
        let pointer = pointer.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
        if zrwa && (layout.zrwa.is_none() || pointer > layout.pages_of_zone()) {
            return Err(format!("zone {number} has a Zone Random Write Area at page {pointer}"));
        }
        let plot = Plot { superblock: word(4), index: word(8) };
        zone.plot = match plot.superblock {
            NO_SUPERBLOCK => None,
            superblock if superblock < superblocks && plot.index < striping.plots => Some(plot),
            superblock => {
                return Err(format!("zone {number} lies in superblock {superblock}, plot {}", plot.index));
            }
        };
        if extension.len() > MAX_ZONE_EXTENSION {
            return Err(format!("zone {number} has a descriptor extension of {} bytes", extension.len()));
        }
        zone.floor = word(12).min(striping.units);
        zone.extension = extension.into();
        zone.committed = pointer;
        table.set_zrwa(number, zrwa);
        table.set_state(number, state);
        // One that was filled is recorded as closed, and is full again if its end is there.
        table.zones[number as usize].finished_by_set = word(0) & FINISHED_BY_SET != 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, ZonesConfig};
    use crate::zone::{ZoneLayout, ZrwaLayout};
    use media::Geometry;

    fn zones() -> Zones {
        let geo = Geometry {
            dies: 4,
            channels: 1,
            planes: 1,
            superblocks: 8,
            units_per_block: 4,
            unit_pages: 4,
            sense_pages: 1,
            in_place: false,
            rated_cycles: 100,
        };
        let area = ZrwaLayout { pages: 8, granularity: 2, max: 3 };
        let config =
            ZonesConfig { dies: 2, active: 4, buffer_pages: 64, zrwa: Some(area), ..ZonesConfig::default() };
        let drive = Config {
            sets: Vec::new(),
            buffer_pages: 64,
            protected: true,
            energy_bytes: 0,
            atomic_pages: 1,
            durable: true,
            faults: media::FaultPlan::default(),
        };
        let mut zones = Zones::new(&geo, &config, &drive);
        let (size, zrwa) = (1 << 17, Some(area));
        let layout = ZoneLayout { zones: 6, size, capacity: size, max_active: 4, max_open: 2, zrwa };
        zones.create(VolumeId(1), layout);
        zones
    }

    #[test]
    fn what_is_saved_is_loaded() {
        let mut zones = zones();
        let table = zones.table_mut(VolumeId(1)).unwrap();
        table.set_state(2, ZoneState::Closed);
        table.zones[2].plot = Some(Plot { superblock: 7, index: 1 });
        table.zones[2].extension = Box::from([1, 2, 3]);
        table.set_state(5, ZoneState::Offline);
        table.set_state(3, ZoneState::Closed);
        table.set_zrwa(3, true);
        table.zones[3].committed = 6;
        table.zones[3].extension = Box::from([4, 5]);
        let mut saved = Vec::new();
        zones.save(&mut saved);
        let mut loaded = self::zones();
        loaded.load(&saved).unwrap();
        let mut again = Vec::new();
        loaded.save(&mut again);
        assert_eq!(saved, again);
        assert_eq!(*loaded.info(VolumeId(1), 2).unwrap().extension, [1, 2, 3]);
        let info = loaded.info(VolumeId(1), 3).unwrap();
        assert_eq!(
            (&*info.extension, info.zrwa, loaded.info(VolumeId(1), 2).unwrap().zrwa),
            (&[4, 5][..], true, false)
        );
        for len in 0..saved.len() {
            // A cut at the border of two records is a shorter list.
            let _ = self::zones().load(&saved[..len]);
        }
    }

    #[test]
    fn records_that_cannot_be_are_told() {
        let mut zones = zones();
        let record = |state: u32, superblock: u32, plot: u32| -> Vec<u8> {
            [state, superblock, plot, 0].iter().flat_map(|w| w.to_le_bytes()).collect()
        };
        zones.apply(VolumeId(1), 0, &record(4, 3, 1)).unwrap();
        for (volume, zone, bytes) in [
            (0, 0, record(4, 3, 1)),
            (1, 6, record(4, 3, 1)),
            (1, 0, record(5, 3, 1)),
            (1, 0, record(4, 8, 1)),
            (1, 0, record(4, 3, 2)),
            (1, 0, record(4, 3, 1)[..15].to_vec()),
            (1, 0, record(4 | 1 << 31, 3, 1)),
            (1, 0, [record(4 | 1 << 31, 3, 1), vec![33, 0, 0, 0]].concat()),
            (1, 0, [record(4, 3, 1), vec![0; MAX_ZONE_EXTENSION + 1]].concat()),
        ] {
            assert!(
                zones.apply(VolumeId(volume), zone, &bytes).is_err(),
                "volume {volume} zone {zone} {bytes:?}"
            );
        }
    }
    #[test]
    fn wild_bytes_are_survived() {
        let mut random = rng::Rng::new(8);
        for _ in 0..20_000 {
            let mut bytes: Vec<u8> = (0..random.below(80)).map(|_| random.below(256) as u8).collect();
            // Small words get further than others.
            for word in bytes.as_chunks_mut::<4>().0.iter_mut().filter(|word| word[0] < 240) {
                word[1..].fill(0);
                word[0] %= 18;
            }
            let mut zones = zones();
            let _ = zones.apply(VolumeId(1), 0, &bytes);
            let _ = zones.load(&bytes);
            let mut saved = Vec::new();
            zones.save(&mut saved);
            self::zones().load(&saved).unwrap();
        }
    }
}
