//! Zone Management Receive, in steps: descriptors of zones, from one on.

use super::describe::{EXTENSION_BYTES, zones_of};
use crate::core::{ControllerId, Core, Failure, StepCost};
use crate::zone_state::state_of;
use ftl::{VolumeId, ZoneInfo, ZoneLayout};
use media::Nanos;
use nvme::Status;
use nvme::zerocopy::IntoBytes;
use nvme::zone::{
    ZoneAttributes, ZoneDescriptor, ZoneManagementReceive, ZoneReceiveAction, ZoneReportHeader,
};

/// Zones that one step looks at.
pub(super) const STEP_ZONES: u32 = 256;

/// The controller's own time for a zone, in nanoseconds: about twice what the look takes, so that others have the rest.
pub(super) const ZONE_TIME: u64 = 100;

/// A report on its way.
#[derive(Debug)]
pub(crate) struct ZoneReportWork {
    command: ZoneManagementReceive,
    volume: VolumeId,
    shift: u8,
    layout: ZoneLayout,
    /// The next zone.
    zone: u32,
    /// Zones that the report counts.
    listed: u64,
    data: Vec<u8>,
}

impl ZoneReportWork {
    /// Begins Zone Management Receive.
    ///
    /// # Errors
    /// What is wrong with the command.
    pub fn begin(
        core: &Core,
        id: ControllerId,
        c: &ZoneManagementReceive,
    ) -> Result<ZoneReportWork, Failure> {
        let (volume, shift, layout) = zones_of(core, id, c.nsid)?;
        let first = c.slba / (layout.size >> shift);
        if first >= layout.zones.into() {
            return Err(Failure { location: 40, ..Status::LBA_OUT_OF_RANGE.into() });
        }
        if c.bytes() > u64::from(core.config.max_transfer) {
            return Err(Failure::field(48));
        }
        let data = vec![0; size_of::<ZoneReportHeader>()];
        Ok(ZoneReportWork { command: *c, volume, shift, layout, zone: first as u32, listed: 0, data })
    }

    /// Looks at some zones. With data for the host, it was the last step.
    pub fn step(&mut self, core: &Core) -> (StepCost, Option<Vec<u8>>) {
        let length = self.command.bytes() as usize;
        let extended = self.command.action == ZoneReceiveAction::EXTENDED_REPORT;
        let each = size_of::<ZoneDescriptor>() + if extended { EXTENSION_BYTES as usize } else { 0 };
        let first = self.zone;
        let mut full = false;
        while self.zone < self.layout.zones && self.zone - first < STEP_ZONES && !full {
            let Some(info) = core.ftl.zone(self.volume, self.zone) else { break };
            if self.command.filter.lists(state_of(info.state)) {
                let fits = self.data.len() + each <= length;
                full = !fits && self.command.partial;
                self.listed += u64::from(!full);
                if fits {
                    self.add(&info, extended);
                }
            }
            self.zone += 1;
        }
        let looked = self.zone - first;
        let ended = full || looked < STEP_ZONES || self.zone == self.layout.zones;
        let cost = StepCost::controller(Nanos(u64::from(looked) * ZONE_TIME));
        (cost, ended.then(|| self.data(length)))
    }

    /// Adds the descriptor of the present zone.
    fn add(&mut self, info: &ZoneInfo, extended: bool) {
        let descriptor = descriptor(self.zone, self.shift, &self.layout, info);
        self.data.extend_from_slice(descriptor.as_bytes());
        if extended {
            let end = self.data.len() + EXTENSION_BYTES as usize;
            self.data.extend_from_slice(&info.extension);
            self.data.resize(end, 0);
        }
    }

    /// The data for the host.
    fn data(&mut self, length: usize) -> Vec<u8> {
        let mut data = std::mem::take(&mut self.data);
        data[..8].copy_from_slice(&self.listed.to_le_bytes());
        data.resize(length, 0);
        data
    }
}

fn descriptor(zone: u32, shift: u8, zones: &ZoneLayout, info: &ZoneInfo) -> ZoneDescriptor {
    let start = u64::from(zone) * zones.size;
    ZoneDescriptor {
        za: ZoneAttributes::new()
            .with_zdev(!info.extension.is_empty())
            .with_zrwav(info.zrwa)
            .with_fzr(info.finish_recommended)
            .with_rzr(info.reset_recommended)
            .with_zfc(info.finished_by_set),
        ..ZoneDescriptor::new(
            start >> shift,
            zones.capacity >> shift,
            state_of(info.state),
            (start + info.written) >> shift,
        )
    }
}
