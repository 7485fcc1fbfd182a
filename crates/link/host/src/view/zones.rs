//! `nvme zns`.

use nvme::identify::ZonedNamespace;
use nvme::zone::{ZoneDescriptor, ZoneState, ZoneType};
use schemars::JsonSchema;
use serde::Serialize;

use super::hex;

/// The keys of `nvme zns id-ns` (nvme-cli 2).
#[derive(Serialize, JsonSchema, Clone, Debug)]
pub struct ZnsIdNs {
    /// Zone Operation Characteristics: bit 0 variable zone capacity, bit 1 zone active excursions.
    zoc: u16,
    /// Optional Zoned Command Support: bit 0 reads across zone boundaries, bit 1 Zone Random Write Areas.
    ozcs: u16,
    /// Maximum Active Resources in zones, zero-based; 4294967295 is no limit.
    #[schemars(extend("unit" = "zones"))]
    mar: u32,
    /// Maximum Open Resources in zones, zero-based; 4294967295 is no limit.
    #[schemars(extend("unit" = "zones"))]
    mor: u32,
    /// Reset Recommended Limit; 0 not reported.
    #[schemars(extend("unit" = "s"))]
    rrl: u32,
    /// Finish Recommended Limit; 0 not reported.
    #[schemars(extend("unit" = "s"))]
    frl: u32,
    /// Reset Recommended Limit 1; 0 not reported.
    #[schemars(extend("unit" = "s"))]
    rrl1: u32,
    /// Reset Recommended Limit 2; 0 not reported.
    #[schemars(extend("unit" = "s"))]
    rrl2: u32,
    /// Reset Recommended Limit 3; 0 not reported.
    #[schemars(extend("unit" = "s"))]
    rrl3: u32,
    /// Finish Recommended Limit 1; 0 not reported.
    #[schemars(extend("unit" = "s"))]
    frl1: u32,
    /// Finish Recommended Limit 2; 0 not reported.
    #[schemars(extend("unit" = "s"))]
    frl2: u32,
    /// Finish Recommended Limit 3; 0 not reported.
    #[schemars(extend("unit" = "s"))]
    frl3: u32,
    /// Number of ZRWA Resources, zero-based; meaningless without OZCS bit 1, as what follows.
    numzrwa: u32,
    /// ZRWA Flush Granularity.
    #[schemars(extend("unit" = "logical blocks"))]
    zrwafg: u16,
    /// ZRWA Size.
    #[schemars(extend("unit" = "logical blocks"))]
    zrwasz: u16,
    /// ZRWA Capability.
    zrwacap: u8,
    /// LBA format extensions, one for each LBA format.
    lbafe: Vec<ZnsLbafe>,
}

/// An LBA format extension.
#[derive(Serialize, JsonSchema, Clone, Debug)]
struct ZnsLbafe {
    /// Zone Size; 0: the format has no zones.
    #[schemars(extend("unit" = "logical blocks"))]
    zsze: u64,
    /// Zone Descriptor Extension Size in units of 64 bytes.
    zdes: u8,
}

impl ZnsIdNs {
    /// Of a namespace whose drive has so many LBA formats.
    #[must_use]
    pub fn new(n: &ZonedNamespace, formats: usize) -> Self {
        let extensions = n.lbafe.iter().take(formats);
        Self {
            zoc: n.zoc.into_bits().get(),
            ozcs: n.ozcs.into_bits().get(),
            mar: n.mar_z.get(),
            mor: n.mor_z.get(),
            rrl: n.rrl.get(),
            frl: n.frl.get(),
            rrl1: n.rrl1.get(),
            rrl2: n.rrl2.get(),
            rrl3: n.rrl3.get(),
            frl1: n.frl1.get(),
            frl2: n.frl2.get(),
            frl3: n.frl3.get(),
            numzrwa: n.numzrwa_z.get(),
            zrwafg: n.zrwafg.get(),
            zrwasz: n.zrwas.get(),
            zrwacap: n.zrwacap.into_bits(),
            lbafe: extensions.map(|e| ZnsLbafe { zsze: e.zsze.get(), zdes: e.zdes }).collect(),
        }
    }
}

/// The keys of `nvme zns report-zones` (nvme-cli 2).
#[derive(Serialize, JsonSchema, Clone, Debug)]
pub struct ZoneReport {
    /// Zones that --state and --from leave; --count does not count.
    nr_zones: u64,
    /// The zones.
    zone_list: Vec<Zone>,
}

/// A zone.
#[derive(Serialize, JsonSchema, Clone, Debug)]
struct Zone {
    /// Its first logical block.
    slba: u64,
    /// Write pointer; 18446744073709551615 in states without one.
    wp: u64,
    /// What can be written.
    #[schemars(extend("unit" = "logical blocks"))]
    cap: u64,
    /// State.
    #[schemars(extend("enum" = ZONE_STATES))]
    state: &'static str,
    /// Type.
    #[serde(rename = "type")]
    #[schemars(extend("enum" = ["SEQWRITE_REQ"]))]
    kind: &'static str,
    /// Zone Attributes.
    attrs: u8,
    /// Zone Descriptor Extension in hexadecimal digits.
    #[schemars(extend("null" = "it has none"))]
    ext_data: Option<String>,
}

impl ZoneReport {
    /// Of zones with their Zone Descriptor Extensions, and how many there are without a limit.
    #[must_use]
    pub fn new(nr_zones: u64, zones: &[(ZoneDescriptor, Vec<u8>)]) -> Self {
        let zone = |(zone, extension): &(ZoneDescriptor, Vec<u8>)| Zone {
            slba: zone.zslba.get(),
            wp: zone.wp.get(),
            cap: zone.zcap.get(),
            state: zone_state(zone.state()),
            kind: if zone.zt.zt() == ZoneType::SEQUENTIAL_WRITE_REQUIRED {
                "SEQWRITE_REQ"
            } else {
                "Unknown"
            },
            attrs: zone.za.into_bits(),
            ext_data: zone.za.zdev().then(|| hex(extension)),
        };
        Self { nr_zones, zone_list: zones.iter().map(zone).collect() }
    }
}

/// nvme-cli's words for states of zones.
pub const ZONE_STATES: [&str; 7] =
    ["EMPTY", "IMP_OPENED", "EXP_OPENED", "CLOSED", "READONLY", "FULL", "OFFLINE"];

/// nvme-cli's word for a state of zones.
#[must_use]
pub const fn zone_state(state: ZoneState) -> &'static str {
    match state {
        ZoneState::EMPTY => "EMPTY",
        ZoneState::IMPLICITLY_OPENED => "IMP_OPENED",
        ZoneState::EXPLICITLY_OPENED => "EXP_OPENED",
        ZoneState::CLOSED => "CLOSED",
        ZoneState::READ_ONLY => "READONLY",
        ZoneState::FULL => "FULL",
        ZoneState::OFFLINE => "OFFLINE",
        _ => "Unknown State",
    }
}
