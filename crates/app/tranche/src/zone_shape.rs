//! What zoned namespaces are, as `tranche ns` and `tranche id` say it and ask for it.

use crate::connect::Connected;
use crate::refusal;
use anyhow::{Result, bail};
use clap::Args;
use device::LbaFormat;
use nvme::identify::{IdentifyNamespace, Znsco, ZonedCreate, ZonedNamespace};
use nvme::{NSID_ALL, Status, U32};
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt;
use units::format_size;

/// The zones of a namespace that is to be created.
#[derive(Args, Debug)]
pub struct NewZones {
    /// Make it a zoned namespace: each zone is written from its begin to its end, and erased as a whole (docs/howto/zones.md)
    #[arg(long)]
    pub zoned: bool,
    /// Zones that may be active at once, that is written in part [default: `zone.share` of the drive's TOML, which is 14, or what is left; never more than it has zones]
    #[arg(long, value_name = "N", requires = "zoned", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_active: Option<u32>,
    /// Zones that may be open at once [default: as --max-active]
    #[arg(long, value_name = "N", requires = "zoned", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_open: Option<u32>,
    /// Zones that may have a Zone Random Write Area at once: the blocks behind their write pointers can be written again (docs/howto/zones.md)
    #[arg(long = "zrwa-resources", alias = "zrwa", value_name = "N", requires = "zoned", value_parser = clap::value_parser!(u32).range(1..))]
    pub zrwa: Option<u32>,
}

/// What to say of a namespace without zones.
pub fn not_zoned(nsid: u32) -> String {
    format!("namespace {nsid} has no zones (`tranche ns create --zoned` makes one that has)")
}

/// The zones of a namespace in short.
#[derive(Serialize, JsonSchema, Clone, Copy, Debug)]
#[serde(rename_all = "PascalCase")]
pub struct Shape {
    /// How many.
    count: u64,
    /// From the begin of one to the begin of the next.
    #[schemars(extend("unit" = "bytes"))]
    size: u64,
    /// What can be written to each.
    #[schemars(extend("unit" = "bytes"))]
    capacity: u64,
    /// Most active zones.
    #[schemars(extend("null" = "there is no limit"))]
    max_active: Option<u32>,
    /// Most open zones.
    #[schemars(extend("null" = "there is no limit"))]
    max_open: Option<u32>,
}

impl Shape {
    /// Of a namespace, or `None` if what is said of it makes no sense.
    pub fn of(ns: &IdentifyNamespace, zoned: &ZonedNamespace) -> Option<Self> {
        let block = u64::from(ns.format().data_bytes()?);
        let zone = zoned.lbafe[usize::from(ns.flbas.format_index())].zsze.get();
        let count = ns.nsze.get().checked_div(zone).filter(|count| *count > 0)?;
        Some(Self {
            count,
            size: zone.saturating_mul(block),
            capacity: (ns.ncap.get() / count).saturating_mul(block),
            max_active: zoned.max_active(),
            max_open: zoned.max_open(),
        })
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.count, format_size(self.size))
    }
}

impl Shape {
    /// Bytes that can be written.
    pub fn usable_bytes(&self) -> u64 {
        self.capacity.saturating_mul(self.count)
    }

    /// What there is beside the size of the namespace: less of it can be written where a zone holds less than lies between two of them.
    pub fn usable(&self) -> String {
        let all = |each: u64| format_size(each.saturating_mul(self.count));
        let (size, usable) = (all(self.size), all(self.capacity));
        match self.size == self.capacity {
            true => format!("{self}, all of which can be written"),
            false => format!("{self}, {} of each writable: {usable} of {size}", format_size(self.capacity)),
        }
    }
}

/// What there is to say of Zone Random Write Areas.
fn areas(ns: &IdentifyNamespace, zoned: &ZonedNamespace) -> String {
    let (zones, block) = (zoned.zrwa_resources(), ns.format().data_bytes().unwrap_or(0));
    let size = format_size(u64::from(zoned.zrwas.get()) * u64::from(block));
    if zones == 0 { String::new() } else { format!("; {zones} may have a random write area of {size}") }
}

/// What `tranche id` says of a namespace's zones.
pub fn words(ns: &IdentifyNamespace, zoned: &ZonedNamespace) -> String {
    let limit = |limit: Option<u32>| limit.map_or_else(|| "all".to_owned(), |zones| zones.to_string());
    match Shape::of(ns, zoned) {
        Some(zones) => format!(
            "{zones}, {} of each writable; {} may be active, {} open{}",
            format_size(zones.capacity),
            limit(zones.max_active),
            limit(zones.max_open),
            areas(ns, zoned)
        ),
        None => "their size makes no sense".to_owned(),
    }
}

/// What the drive says of the zones of namespaces that are to be created.
pub fn of_new(host: &mut Connected) -> Result<ZonedNamespace> {
    if !host.has_zones()? {
        bail!("this drive has no zones (`zone` of a NAND set in its TOML gives them)");
    }
    Ok(host.identify_zoned_namespace(NSID_ALL)?)
}

/// The first LBA format that zones can have.
pub fn first_format(zoned: &ZonedNamespace) -> u8 {
    let first = zoned.lbafe.iter().position(|extension| extension.zsze.get() > 0);
    first.and_then(|first| u8::try_from(first).ok()).unwrap_or(0)
}

/// Bytes of a zone on the default NVM Set; 0 if the format has no zones there.
fn zone_bytes(zoned: &ZonedNamespace, index: u8, block: u64) -> u64 {
    zoned.lbafe[usize::from(index)].zsze.get().saturating_mul(block)
}

/// Checks what a zoned namespace is to be, as far as the drive has said what can be.
pub fn check(zoned: &ZonedNamespace, formats: &[LbaFormat], index: u8, size: u64, set: u16) -> Result<()> {
    let possible = formats.iter().zip(&zoned.lbafe).filter(|(_, extension)| extension.zsze.get() > 0);
    let possible: Vec<String> = possible.map(|(format, _)| format.to_string()).collect();
    let format = formats[usize::from(index)];
    match zone_bytes(zoned, index, format.data.into()) {
        // Of another set the drive says nothing in advance.
        0 if possible.is_empty() && set == 0 => {
            bail!("the default NVM Set has no zones (--nvm-set names another)")
        }
        0 if possible.is_empty() => Ok(()),
        0 => bail!("the LBA format {format} has no zones (--lba takes {})", possible.join(", ")),
        zone if set == 0 && !size.is_multiple_of(zone) => {
            let (less, more) = (size / zone * zone, size.next_multiple_of(zone));
            let choices = [less, more].into_iter().filter(|size| *size > 0).map(format_size);
            lab_report::misuse!(
                "--size {} is no whole number of zones, which have {} each; {} is",
                format_size(size),
                format_size(zone),
                choices.collect::<Vec<_>>().join(" or ")
            )
        }
        _ => Ok(()),
    }
}

/// What Namespace Management asks for.
pub fn asked(zones: &NewZones) -> Result<ZonedCreate> {
    let (active, open) = (zones.max_active.unwrap_or(0), zones.max_open.unwrap_or(0));
    if active > 0 && open > active {
        lab_report::misuse!(
            "--max-open {open} is more than --max-active {active}: open zones are active, too"
        );
    }
    let areas = zones.zrwa.unwrap_or(0);
    if active > 0 && areas > active {
        lab_report::misuse!(
            "--zrwa-resources {areas} is more than --max-active {active}: zones with an area are active"
        );
    }
    Ok(ZonedCreate {
        znsco: Znsco::new().with_azr(areas > 0),
        rar: U32::new(active),
        ror: U32::new(open),
        rnumzrwa: U32::new(areas),
    })
}

/// What to say when a zoned namespace could not be created.
pub fn not_created(
    host: &mut Connected,
    zoned: &ZonedNamespace,
    asked: &NewZones,
    set: u16,
    error: &host::Error,
) -> String {
    let is = |status| error.status().is_some_and(|s| s.is(status));
    let common = refusal::not_created(host, set, error);
    let sets = host.nvm_sets().unwrap_or_default();
    if set > 0 && sets.iter().all(|s| s.nvmsetid.get() != set) {
        return common;
    }
    if is(Status::NAMESPACE_INSUFFICIENT_CAPACITY) {
        // Command Specific Information is the capacity that is needed. If it is none, other resources are missing.
        let log = host.errors().unwrap_or_default();
        return match log.first().map(|entry| entry.cs.get()) {
            Some(0) => too_few_active(host, asked, set),
            Some(needed) if needed < u64::MAX => {
                format!("the zones need {}, and {common}", format_size(needed))
            }
            _ => common,
        };
    }
    if is(Status::ZRWA_RESOURCES_UNAVAILABLE) {
        let wanted = asked.zrwa.unwrap_or(0);
        return match set {
            0 => format!(
                "--zrwa-resources asks for {wanted} Zone Random Write Areas, and the default NVM Set has {} left (`zone.zrwa` in the drive's TOML gives more)",
                zoned.zrwa_resources()
            ),
            _ => format!(
                "NVM Set {set} has fewer than {wanted} Zone Random Write Areas left (`zone.zrwa` in the drive's TOML gives more)"
            ),
        };
    }
    if !is(Status::INVALID_FIELD) {
        return common;
    }
    match (set, asked.zrwa, asked.max_open) {
        (0, Some(_), _) if zoned.zrwas.get() == 0 => {
            "the default NVM Set has no Zone Random Write Areas (`zone.zrwa` in the drive's TOML gives some)"
                .to_owned()
        }
        (0, areas, open) => {
            let more = |(name, number): (&str, Option<u32>)| number.map(|number| format!("{name} {number}"));
            let asked: Vec<String> =
                [("--zrwa-resources", areas), ("--max-open", open)].into_iter().filter_map(more).collect();
            format!("{} is more than the zones that may be active (--max-active)", asked.join(" or "))
        }
        (set, None, _) => format!("NVM Set {set} has no zones, or --size is no whole number of them"),
        (set, Some(_), _) => format!(
            "NVM Set {set} has no zones, or none with Zone Random Write Areas, or --size is no whole number of them"
        ),
    }
}

/// What to say when too few zones may still be active.
fn too_few_active(host: &mut Connected, asked: &NewZones, set: u16) -> String {
    let nsids = host.allocated_namespaces().unwrap_or_default();
    let mut promised = Vec::new();
    let mut active = 0_u64;
    for (nsid, zoned) in host.zoned_among(&nsids).unwrap_or_default() {
        let Ok(ns) = host.identify_allocated(nsid) else { continue };
        if set == 0 || ns.nvmsetid.get() == set {
            promised.push(nsid);
            active += zoned.max_active().map_or(0, u64::from);
        }
    }
    let wanted = match asked.max_active {
        Some(wanted) => format!("fewer than {wanted} zones (--max-active) may still be active"),
        None => "no more zones may be active".to_owned(),
    };
    let more = "`zone.active` in the drive's TOML gives more";
    match promised.is_empty() {
        true => format!("{wanted} ({more})"),
        false => format!(
            "{wanted}: {active} are promised to the zoned namespaces {} (made with fewer --max-active they leave some; {more})",
            host::nsid_list(&promised)
        ),
    }
}
