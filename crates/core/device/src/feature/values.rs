//! Values of features that each controller keeps, with the checks of Set Features.

use crate::temperature::WARNING_TEMPERATURE;
use nvme::U16;
use nvme::feature::{
    AsyncEventConfiguration, EnduranceGroupEvents, FeatureId, HostBehaviorSupport, LbaStatusAttributes,
    PowerManagement, TemperatureThreshold, VolatileWriteCache,
};
use nvme::zerocopy::IntoBytes;
use serde::{Deserialize, Serialize};

/// LBA Status Information Poll Interval in units of 100 ms: a second. Each reading looks at all pages that are lost.
const POLL_INTERVAL: u16 = 10;

/// Optional asynchronous events that the drive sends (OAES).
pub(crate) const OPTIONAL_EVENTS: AsyncEventConfiguration = AsyncEventConfiguration::new()
    .with_nan(true)
    .with_fan(true)
    .with_tln(true)
    .with_anacn(true)
    .with_pleln(true)
    .with_lsin(true)
    .with_zdcn(true)
    .with_egealcn(true);

/// All critical warnings of SMART.
const SMART_EVENTS: u8 = 0x1F;

/// Values of features that a controller keeps. The drive saves one set of values, and every controller starts with it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct FeatureValues {
    pub arbitration: u32,
    pub power: u32,
    /// Kelvins; at or above it is too warm.
    pub over_temperature: u16,
    /// Kelvins; at or below it is too cold.
    pub under_temperature: u16,
    pub error_recovery: u32,
    pub write_cache: bool,
    pub write_atomicity: u32,
    pub async_events: u32,
    /// LBA Status Information Report Interval, in units of 100 ms.
    pub lba_report_interval: u16,
    /// Critical warnings that raise an event, by Endurance Group.
    group_events: Vec<u8>,
}

impl Default for FeatureValues {
    fn default() -> Self {
        FeatureValues {
            // No limit of the burst, equal weights.
            arbitration: 7,
            power: 0,
            over_temperature: WARNING_TEMPERATURE,
            under_temperature: 0,
            error_recovery: 0,
            write_cache: true,
            write_atomicity: 0,
            async_events: 0,
            lba_report_interval: 0,
            group_events: Vec::new(),
        }
    }
}

impl FeatureValues {
    /// What Asynchronous Event Configuration says.
    pub fn events(&self) -> AsyncEventConfiguration {
        AsyncEventConfiguration::from_bits(self.async_events.into())
    }

    /// Critical warnings of an Endurance Group that raise an event.
    pub fn group_events(&self, endgid: u16) -> u8 {
        self.group_events.get(usize::from(endgid).wrapping_sub(1)).copied().unwrap_or(0)
    }

    fn set_group_events(&mut self, endgid: u16, warnings: u8) {
        let index = usize::from(endgid).saturating_sub(1);
        if self.group_events.len() <= index {
            self.group_events.resize(index + 1, 0);
        }
        self.group_events[index] = warnings;
    }

    /// The value of a feature as Get Features returns it. Dword 11 of the command may choose a part of it.
    ///
    /// # Errors
    /// The byte of the command that is invalid.
    pub fn get(&self, fid: FeatureId, cdw11: u32, groups: usize) -> Result<u32, u16> {
        Ok(match fid {
            FeatureId::ARBITRATION => self.arbitration,
            FeatureId::POWER_MANAGEMENT => self.power,
            FeatureId::TEMPERATURE_THRESHOLD => {
                let asked = TemperatureThreshold::from_bits(cdw11.into());
                if asked.tmpsel() != 0 || asked.thsel() > 1 {
                    return Err(46);
                }
                let kelvins = [self.over_temperature, self.under_temperature][usize::from(asked.thsel())];
                asked.with_tmpth(kelvins).into_bits().get() & 0x003F_FFFF
            }
            FeatureId::ERROR_RECOVERY => self.error_recovery,
            FeatureId::VOLATILE_WRITE_CACHE => self.write_cache.into(),
            FeatureId::WRITE_ATOMICITY => self.write_atomicity,
            FeatureId::ASYNC_EVENT_CONFIGURATION => self.async_events,
            FeatureId::LBA_STATUS_ATTRIBUTES => {
                let attributes = LbaStatusAttributes::new().with_lsiri(self.lba_report_interval);
                attributes.with_lsipi(POLL_INTERVAL).into_bits().get()
            }
            FeatureId::ENDURANCE_GROUP_EVENT_CONFIGURATION => {
                let endgid = EnduranceGroupEvents::from_bits(cdw11.into()).endgid();
                if endgid == 0 || usize::from(endgid) > groups {
                    return Err(44);
                }
                let warnings = self.group_events(endgid);
                EnduranceGroupEvents::new().with_endgid(endgid).with_egcw(warnings).into_bits().get()
            }
            _ => return Err(40),
        })
    }

    /// Sets the value of a feature, on a drive with so many Endurance Groups.
    ///
    /// # Errors
    /// The byte of the command that is invalid.
    pub fn set(&mut self, fid: FeatureId, cdw11: u32, groups: usize) -> Result<(), u16> {
        match fid {
            FeatureId::ARBITRATION => self.arbitration = cdw11 & 0xFFFF_FF07,
            FeatureId::POWER_MANAGEMENT => {
                // One power state (NPSS).
                let asked = PowerManagement::from_bits(cdw11.into());
                if asked.ps() != 0 {
                    return Err(44);
                }
                self.power = cdw11 & 0xFF;
            }
            FeatureId::TEMPERATURE_THRESHOLD => {
                let asked = TemperatureThreshold::from_bits(cdw11.into());
                // The composite temperature, or all sensors: there is only that one. There is no hysteresis.
                if ![0, 0xF].contains(&asked.tmpsel()) || asked.thsel() > 1 || asked.tmpthh() != 0 {
                    return Err(46);
                }
                if asked.thsel() == 0 {
                    self.over_temperature = asked.tmpth();
                } else {
                    self.under_temperature = asked.tmpth();
                }
            }
            FeatureId::ERROR_RECOVERY => {
                let dulbe = cdw11 & 0x1_0000 != 0;
                if dulbe {
                    // Deallocated blocks read as zeros, never as errors (NSFEAT.DAE).
                    return Err(46);
                }
                self.error_recovery = cdw11 & 0xFFFF;
            }
            FeatureId::VOLATILE_WRITE_CACHE => {
                self.write_cache = VolatileWriteCache::from_bits(cdw11.into()).wce()
            }
            FeatureId::WRITE_ATOMICITY => self.write_atomicity = cdw11 & 1,
            FeatureId::ASYNC_EVENT_CONFIGURATION => {
                // Events that the drive never has are never sent; asking for them is no mistake.
                let asked = AsyncEventConfiguration::from_bits(cdw11.into());
                let kept = OPTIONAL_EVENTS.with_smart(SMART_EVENTS).into_bits().get();
                self.async_events = asked.into_bits().get() & kept;
            }
            FeatureId::LBA_STATUS_ATTRIBUTES => {
                // The poll interval is not the host's to set.
                self.lba_report_interval = LbaStatusAttributes::from_bits(cdw11.into()).lsiri();
            }
            FeatureId::ENDURANCE_GROUP_EVENT_CONFIGURATION => {
                let asked = EnduranceGroupEvents::from_bits(cdw11.into());
                if asked.endgid() == 0 || usize::from(asked.endgid()) > groups {
                    return Err(44);
                }
                self.set_group_events(asked.endgid(), asked.egcw());
            }
            _ => return Err(40),
        }
        Ok(())
    }
}

/// What a host says of itself (Host Behavior Support, Base 5.1.25.1.14). A new controller's host has said nothing.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Behavior(HostBehaviorSupport);

impl Behavior {
    /// The behavior that the drive supports out of what a host asks for, with these Copy Descriptor Formats. What the drive does not have
    /// cannot be enabled, and reads as not enabled. `None` if a value is not allowed.
    pub fn new(asked: &HostBehaviorSupport, copy_formats: u16) -> Option<Behavior> {
        if asked.acre > 1 || asked.etdas > 1 || asked.lbafee > 1 || asked.hdisns > 1 {
            return None;
        }
        Some(Behavior(HostBehaviorSupport {
            lbafee: asked.lbafee,
            // Of formats 0h and 1h there is nothing to enable.
            cdfe: U16::new(asked.cdfe.get() & copy_formats & !3),
            ..HostBehaviorSupport::default()
        }))
    }

    /// As Get Features returns it.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// LBA Format Extension Enable.
    #[inline]
    pub fn extended_formats(&self) -> bool {
        self.0.lbafee != 0
    }

    /// Whether a Copy Descriptor Format may be used: 2h and 3h must be enabled (CDFE).
    pub fn copy_format(&self, format: u8) -> bool {
        format < 2 || self.0.cdfe.get().checked_shr(format.into()).unwrap_or(0) & 1 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_is_got() {
        let mut values = FeatureValues::default();
        for (fid, cdw11, value) in [
            (FeatureId::ARBITRATION, 0x0102_03FF, 0x0102_0307),
            (FeatureId::ERROR_RECOVERY, 0x1234, 0x1234),
            (FeatureId::VOLATILE_WRITE_CACHE, 0, 0),
            (FeatureId::ENDURANCE_GROUP_EVENT_CONFIGURATION, 0x0004_0002, 0x0004_0002),
            (FeatureId::LBA_STATUS_ATTRIBUTES, 50, 10 << 16 | 50),
        ] {
            values.set(fid, cdw11, 2).unwrap();
            assert_eq!(values.get(fid, cdw11, 2), Ok(value), "{fid:?}");
        }
        let over = TemperatureThreshold::new().with_tmpth(300);
        let under = TemperatureThreshold::new().with_tmpth(200).with_thsel(1);
        for asked in [over, under] {
            let cdw11 = asked.into_bits().get();
            values.set(FeatureId::TEMPERATURE_THRESHOLD, cdw11, 2).unwrap();
            assert_eq!(values.get(FeatureId::TEMPERATURE_THRESHOLD, cdw11, 2), Ok(cdw11));
        }
    }

    #[test]
    fn an_error_names_the_byte() {
        let mut values = FeatureValues::default();
        for (fid, cdw11, byte) in [
            (FeatureId::POWER_MANAGEMENT, 1, 44),
            (FeatureId::ERROR_RECOVERY, 0x1_0000, 46),
            (FeatureId::ENDURANCE_GROUP_EVENT_CONFIGURATION, 3, 44),
            (FeatureId::QUOTA, 0, 40),
        ] {
            assert_eq!(values.set(fid, cdw11, 2), Err(byte), "{fid:?}");
        }
        assert_eq!(values, FeatureValues::default());
    }

    #[test]
    fn a_host_enables_only_what_there_is() {
        let asked = HostBehaviorSupport { lbafee: 1, cdfe: U16::new(0xFFFF), ..Default::default() };
        let behavior = Behavior::new(&asked, 0b0111).unwrap();
        assert!(behavior.extended_formats() && behavior.copy_format(2) && !behavior.copy_format(3));
        assert!(behavior.copy_format(0), "without being enabled");
        assert!(Behavior::new(&HostBehaviorSupport { acre: 2, ..Default::default() }, 0xF).is_none());
    }
}
