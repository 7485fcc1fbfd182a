//! What the drive's capacity is made of.

use crate::core::Core;
use crate::health::smart::endurance;
use ftl::SetProperties;
use nvme::log::{
    CapacityConfiguration, CapacityConfigurationList, ChannelConfiguration, EnduranceGroupConfiguration,
    MediaUnitConfiguration, endurance_units,
};
use nvme::zerocopy::IntoBytes;
use nvme::{U16, U128};

/// Capacity Adjustment Factor, in hundredths: media hold what they hold.
const ADJUSTMENT_FACTOR: u16 = 100;

/// An identifier from an index: there are none of 0.
fn identifier(index: u32) -> U16 {
    U16::new(u16::try_from(index + 1).unwrap_or(u16::MAX))
}

/// Supported Capacity Configuration List: the one that the drive was made with, which no command changes. Dies, or
/// banks of memory, are its media units. Channels and media units are numbered through the drive.
pub(crate) fn configurations(core: &Core) -> Vec<u8> {
    let list = CapacityConfigurationList { sccn: 1, ..Default::default() };
    let groups = u16::try_from(core.ftl.set_count()).unwrap_or(u16::MAX);
    let configuration = CapacityConfiguration {
        ccid: U16::new(1),
        egcn: U16::new(groups),
        ..CapacityConfiguration::default()
    };
    let mut log = [list.as_bytes(), configuration.as_bytes()].concat();
    let (mut first_channel, mut first_unit) = (0, 0);
    for (id, info) in core.sets() {
        let endgid = identifier(id.0.into());
        let spare = info.raw_bytes.saturating_sub(info.capacity_bytes);
        let group = EnduranceGroupConfiguration {
            endgid,
            caf: U16::new(ADJUSTMENT_FACTOR),
            tegcap: U128::new(info.capacity_bytes.into()),
            segcap: U128::new(spare.into()),
            endurance_estimate: U128::new(endurance_units(endurance(&info))),
            egsets: U16::new(1),
            ..EnduranceGroupConfiguration::default()
        };
        log.extend_from_slice(group.as_bytes());
        // Each set is a group of its own, of the same identifier.
        log.extend_from_slice(endgid.as_bytes());
        let SetProperties { channels, units, .. } = core.set_properties(id);
        log.extend_from_slice(&u16::try_from(channels).unwrap_or(u16::MAX).to_le_bytes());
        for channel in 0..channels {
            let own = (channel..units).step_by(channels as usize);
            let header = ChannelConfiguration {
                chanid: identifier(first_channel + channel),
                chmus: U16::new(u16::try_from(own.clone().count()).unwrap_or(u16::MAX)),
            };
            log.extend_from_slice(header.as_bytes());
            for unit in own {
                let unit =
                    MediaUnitConfiguration { muid: identifier(first_unit + unit), ..Default::default() };
                log.extend_from_slice(unit.as_bytes());
            }
        }
        first_channel += channels;
        first_unit += units;
    }
    log.resize(log.len().next_multiple_of(4), 0);
    log
}
