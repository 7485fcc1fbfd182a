//! The namespace and the zones that a command means, and what to say of their refusals.

use crate::connect::{Connected, connect};
use crate::options::Target;
use crate::refusal::about;
use crate::zone_shape;
use anyhow::{Context, Result, bail};
use clap::Args;
use host::{IoQueue, Queue, Zoned};
use nvme::Status;
use nvme::zone::{ZoneDescriptor, ZoneReportFilter, ZoneState};

/// Commands under way at once.
pub const DEPTH: u16 = 4;
/// The namespace whose zones are meant.
#[derive(Args, Debug)]
pub struct Of {
    /// Namespace [default: the zoned one that is attached to this host, if there is just one]
    #[arg(long, value_name = "NSID")]
    nsid: Option<u32>,
    #[command(flatten)]
    target: Target,
}

impl Of {
    /// Where the drive listens.
    pub fn on(&self) -> &host::Addr {
        self.target.on()
    }
}

/// The namespace that is meant, and the way to its zones, which is there as long as the host is.
pub fn find(of: &Of) -> Result<(Connected, Zoned)> {
    let mut host = connect(&of.target)?;
    let nsid = match of.nsid {
        Some(nsid) => nsid,
        None => only_zoned(&mut host)?,
    };
    // Of one that is not zoned there is better to say than what the drive says of its own commands.
    let known = host.zoned_among(&[nsid])?;
    let zoned = host.zoned_namespace(nsid);
    let zoned = match (zoned, known.is_empty()) {
        (Err(host::Error::Usage(_)), true) => bail!(zone_shape::not_zoned(nsid)),
        (Err(error @ host::Error::Absent(_)), false) => {
            let what_next =
                format!("its zones are for hosts that have it attached (`tranche ns attach {nsid}`)");
            return Err(anyhow::Error::from(error).context(what_next));
        }
        (zoned, _) => about(&mut host, nsid, zoned)?,
    };
    Ok((host, zoned))
}

/// The same with a queue.
pub fn open(of: &Of) -> Result<(Connected, Zoned, IoQueue<impl Queue>)> {
    let (mut host, zoned) = find(of)?;
    let queue = host.io_queue(DEPTH)?;
    Ok((host, zoned, queue))
}

fn only_zoned(host: &mut Connected) -> Result<u32> {
    let attached = host.active_namespaces()?;
    let zoned = host.zoned_among(&attached)?;
    match zoned.as_slice() {
        [(nsid, _)] => Ok(*nsid),
        [] => bail!(
            "no zoned namespace is attached to this host (`tranche ns create --zoned --size SIZE --attach` makes one, `tranche ns \
             attach` attaches one)"
        ),
        several => {
            let nsids: Vec<u32> = several.iter().map(|(nsid, _)| *nsid).collect();
            lab_report::misuse!("--nsid must say which namespace: {} have zones", host::nsid_list(&nsids))
        }
    }
}

/// The first logical block of a zone.
pub fn start(ns: &Zoned, zone: u64) -> Result<u64> {
    let (zones, nsid) = (ns.zones(), ns.namespace.nsid);
    if zone >= zones {
        bail!("there is no zone {zone}: namespace {nsid} has {zones}, and the first is 0");
    }
    Ok(zone * ns.zone_blocks)
}

/// One zone as it is now.
pub fn look<Q: Queue>(queue: &mut IoQueue<Q>, ns: &Zoned, start: u64) -> Result<ZoneDescriptor> {
    let zones = queue.report_zones(ns, start, ZoneReportFilter::ALL, 1)?;
    zones.first().copied().context("the drive reports no zone there")
}

/// Adds to the error of a command for a zone what to do about it.
pub fn about_zone<Q: Queue, T>(
    queue: &mut IoQueue<Q>,
    ns: &Zoned,
    zone: u64,
    result: Result<T, host::Error>,
) -> Result<T> {
    result.map_err(|error| {
        let advice = advice(queue, ns, zone, &error);
        match advice {
            Some(advice) => anyhow::Error::from(error).context(advice),
            None => error.into(),
        }
    })
}

fn advice<Q: Queue>(queue: &mut IoQueue<Q>, ns: &Zoned, zone: u64, error: &host::Error) -> Option<String> {
    let status = error.status()?;
    if status.is(Status::TOO_MANY_ACTIVE_ZONES) {
        let most = ns.max_active.unwrap_or(u32::MAX);
        return Some(format!(
            "{most} zones are active, and namespace {} may have no more: `tranche zone finish` or `tranche zone reset` one of them",
            ns.namespace.nsid
        ));
    }
    if status.is(Status::TOO_MANY_OPEN_ZONES) {
        let most = ns.max_open.unwrap_or(u32::MAX);
        return Some(format!(
            "{most} zones are open, and namespace {} may have no more: `tranche zone close` one of them",
            ns.namespace.nsid
        ));
    }
    if status.is(Status::ZRWA_RESOURCES_UNAVAILABLE) {
        let most = ns.zrwa.map_or(0, |zrwa| zrwa.resources);
        return Some(format!(
            "{most} zones have a Zone Random Write Area, and namespace {} may have no more: `tranche zone finish` or `tranche zone reset` one \
             of them",
            ns.namespace.nsid
        ));
    }
    if status.is(Status::INVALID_ZONE_OPERATION_REQUEST) || status.is(Status::ZONE_INVALID_WRITE) {
        return about_its_area(queue, ns, zone);
    }
    let about_its_state = [
        Status::INVALID_ZONE_STATE_TRANSITION,
        Status::ZONE_IS_FULL,
        Status::ZONE_IS_READ_ONLY,
        Status::ZONE_IS_OFFLINE,
        Status::ZONE_BOUNDARY_ERROR,
    ];
    if !about_its_state.iter().any(|of_state| status.is(*of_state)) {
        return None;
    }
    let now = look(queue, ns, start(ns, zone).ok()?).ok()?;
    let what_next = match now.state() {
        ZoneState::FULL => format!(": `tranche zone reset {zone}` makes it empty"),
        ZoneState::OFFLINE => ", for good: take another".to_owned(),
        ZoneState::READ_ONLY => ": read what it has, and take another".to_owned(),
        _ if status.is(Status::ZONE_BOUNDARY_ERROR) => {
            let left = now.writable_end()?.checked_sub(now.write_pointer()?)?;
            format!(", with {left} logical blocks left, which are too few")
        }
        _ => ", from where this does not lead on".to_owned(),
    };
    Some(format!("zone {zone} is {}{what_next}", now.state()))
}

/// What to say of a zone that does not take a write or a command because of its Zone Random Write Area, or without one.
fn about_its_area<Q: Queue>(queue: &mut IoQueue<Q>, ns: &Zoned, zone: u64) -> Option<String> {
    let now = look(queue, ns, start(ns, zone).ok()?).ok()?;
    let pointer = now.write_pointer()?.checked_sub(now.zslba.get())?;
    Some(match ns.zrwa.filter(|_| now.za.zrwav()) {
        Some(area) => format!(
            "zone {zone} is {} and has a Zone Random Write Area: blocks {pointer} to {} can be written, and be flushed in steps of {}. It \
             takes no appends",
            now.state(),
            (pointer + 2 * u64::from(area.blocks)).min(now.zcap.get()).saturating_sub(1),
            area.flush_granularity
        ),
        None => format!(
            "zone {zone} is {}, has no Zone Random Write Area, and takes writes at block {pointer} only. An empty zone can be opened with \
             one (`tranche zone open --zrwa`)",
            now.state()
        ),
    })
}
