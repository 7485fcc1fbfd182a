//! UUIDs that tell apart whose vendor specific identifiers a command means (Base 8.1.28, "Universally Unique Identifiers
//! (UUIDs) for Vendor Specific Information").

use crate::core::failure::Failure;
use nvme::identify::UuidList;
use nvme::log::LogId;

/// Who gives a vendor specific identifier its meaning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Vendor {
    /// The Open Compute Project's Datacenter NVMe SSD specification.
    Ocp,
    /// This drive's own.
    Tranche,
    /// Memblaze, which publishes no UUID of its own: this one stands for its log here.
    Memblaze,
}

impl Vendor {
    /// In the order of the UUID List: the first has UUID Index 1.
    const ALL: [Vendor; 3] = [Vendor::Ocp, Vendor::Tranche, Vendor::Memblaze];

    /// Its UUID, big endian.
    const fn uuid(self) -> [u8; 16] {
        match self {
            Vendor::Ocp => 0xC194_D55B_E094_4794_A21D_2999_8F56_BE6F_u128,
            Vendor::Tranche => 0x2F0E_9F5C_7B46_4E0B_9D1F_5D0A_7472_6E63_u128,
            Vendor::Memblaze => 0x8C0B_2B1E_5A53_4F38_8E5D_6D65_6D62_6C7A_u128,
        }
        .to_be_bytes()
    }

    /// Whose log this is; `None` for those of the base specification.
    pub fn of_log(lid: LogId) -> Option<Vendor> {
        match lid {
            LogId::OCP_SMART => Some(Vendor::Ocp),
            LogId::MEMBLAZE_SMART => Some(Vendor::Memblaze),
            _ if lid.0 >= VENDOR_SPECIFIC => Some(Vendor::Tranche),
            _ => None,
        }
    }
}

/// UUID Index of this drive's own identifiers.
pub(crate) fn own_index() -> u8 {
    Vendor::ALL.iter().position(|vendor| *vendor == Vendor::Tranche).map_or(0, |at| at as u8 + 1)
}

/// Log and feature identifiers from here on are vendor specific.
pub(crate) const VENDOR_SPECIFIC: u8 = 0xC0;

/// The UUID List (Identify, CNS 17h).
pub(crate) fn uuid_list() -> UuidList {
    UuidList::new(Vendor::ALL.map(Vendor::uuid))
}

/// The vendor that a UUID Index chooses. Index 0 chooses none: `None`. Only commands with a vendor specific identifier have an
/// index; others ignore it.
///
/// # Errors
/// Invalid Field in Command for an index beyond the list.
pub(crate) fn chosen(uidx: u8) -> Result<Option<Vendor>, Failure> {
    match usize::from(uidx).checked_sub(1) {
        None => Ok(None),
        Some(i) => Vendor::ALL.get(i).copied().map(Some).ok_or(Failure::field(56)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_is_a_place_in_the_list() {
        assert_eq!(chosen(0).unwrap(), None);
        assert_eq!(chosen(1).unwrap(), Some(Vendor::Ocp));
        assert_eq!(chosen(3).unwrap(), Some(Vendor::Memblaze));
        assert_eq!(chosen(4).unwrap_err(), Failure::field(56));
    }

    #[test]
    fn only_vendor_specific_logs_have_a_vendor() {
        assert_eq!(Vendor::of_log(LogId::SMART), None);
        assert_eq!(Vendor::of_log(LogId::NAMESPACE_STATISTICS), Some(Vendor::Tranche));
        assert_eq!(Vendor::of_log(LogId::OCP_SMART), Some(Vendor::Ocp));
    }
}
