//! `nvme zns`.

use nvme::identify::ZonedNamespace;
use nvme::zone::{ZoneDescriptor, ZoneState, ZoneType};
use serde::Serialize;

use super::hex;

/// `nvme zns id-ns`: numbers of resources are zero-based.
#[derive(Serialize, Clone, Debug)]
pub struct ZnsIdNs {
    zoc: u16,
    ozcs: u16,
    mar: u32,
    mor: u32,
    rrl: u32,
    frl: u32,
    rrl1: u32,
    rrl2: u32,
    rrl3: u32,
    frl1: u32,
    frl2: u32,
    frl3: u32,
    numzrwa: u32,
    zrwafg: u16,
    zrwasz: u16,
    zrwacap: u8,
    lbafe: Vec<ZnsLbafe>,
}

/// One LBA format extension of `nvme zns id-ns`.
#[derive(Serialize, Clone, Debug)]
struct ZnsLbafe {
    zsze: u64,
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

/// `nvme zns report-zones`.
#[derive(Serialize, Clone, Debug)]
pub struct ZoneReport {
    nr_zones: u64,
    zone_list: Vec<Zone>,
}

/// One zone of `nvme zns report-zones`.
#[derive(Serialize, Clone, Debug)]
struct Zone {
    slba: u64,
    wp: u64,
    cap: u64,
    state: &'static str,
    #[serde(rename = "type")]
    kind: &'static str,
    attrs: u8,
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
