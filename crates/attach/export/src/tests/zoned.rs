//! Zones of a drive in memory.

use crate::drive::Zones;
use fuser::Errno;
use nvme::zerocopy::IntoBytes;
use nvme::zone::{ZoneDescriptor, ZoneSendAction, ZoneState};

pub struct ZoneModel {
    layout: Zones,
    /// State and written blocks of each zone.
    pub zones: Vec<(ZoneState, u64)>,
    /// Zones that may be open explicitly.
    pub max_open: usize,
}

impl ZoneModel {
    pub fn new(layout: Zones) -> Self {
        let zones = vec![(ZoneState::EMPTY, 0); layout.count as usize];
        ZoneModel { layout, zones, max_open: 2 }
    }

    pub fn write(&mut self, lba: u64, blocks: u32) -> Result<(), Errno> {
        let Zones { size, capacity, .. } = self.layout;
        let (state, written) = &mut self.zones[(lba / size) as usize];
        match *state {
            ZoneState::READ_ONLY | ZoneState::OFFLINE => return Err(Errno::EPERM),
            ZoneState::FULL => return Err(Errno::EINVAL),
            _ if *written != lba % size => return Err(Errno::EINVAL),
            _ => {}
        }
        *written += u64::from(blocks);
        match *state {
            _ if *written == capacity => *state = ZoneState::FULL,
            ZoneState::EXPLICITLY_OPENED => {}
            _ => *state = ZoneState::IMPLICITLY_OPENED,
        }
        Ok(())
    }

    pub fn manage(&mut self, lba: u64, action: ZoneSendAction) -> Result<(), Errno> {
        let open = self.zones.iter().filter(|(state, _)| *state == ZoneState::EXPLICITLY_OPENED).count();
        let (state, written) = &mut self.zones[(lba / self.layout.size) as usize];
        if matches!(*state, ZoneState::READ_ONLY | ZoneState::OFFLINE) {
            return Err(Errno::EPERM);
        }
        (*state, *written) = match (action, *state) {
            (ZoneSendAction::RESET, _) => (ZoneState::EMPTY, 0),
            (ZoneSendAction::FINISH, _) => (ZoneState::FULL, *written),
            (ZoneSendAction::OPEN, ZoneState::EXPLICITLY_OPENED) => (*state, *written),
            (ZoneSendAction::OPEN, ZoneState::FULL) => return Err(Errno::EPERM),
            (ZoneSendAction::OPEN, _) if open >= self.max_open => return Err(Errno::EBUSY),
            (ZoneSendAction::OPEN, _) => (ZoneState::EXPLICITLY_OPENED, *written),
            (ZoneSendAction::CLOSE, ZoneState::EXPLICITLY_OPENED) => (ZoneState::CLOSED, *written),
            _ => return Err(Errno::EPERM),
        };
        Ok(())
    }

    pub fn report(&self, lba: u64, data: &mut [u8]) {
        let Zones { size, capacity, .. } = self.layout;
        let first = (lba / size) as usize;
        let listed = self.zones.len().min(first + (data.len() - 64) / 64);
        data[..8].copy_from_slice(&((listed - first) as u64).to_le_bytes());
        for (entry, zone) in data[64..].chunks_exact_mut(64).zip(first..listed) {
            let (state, written) = self.zones[zone];
            let start = zone as u64 * size;
            entry.copy_from_slice(ZoneDescriptor::new(start, capacity, state, start + written).as_bytes());
        }
    }
}
