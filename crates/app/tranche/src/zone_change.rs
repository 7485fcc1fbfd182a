//! `tranche zone open|close|finish|reset|offline`: zones change their states.

use crate::connect::Connected;
use crate::options::Output;
use crate::zone_target::{DEPTH, Of, about_zone, find, look, open, start};
use crate::{print_json, print_text};
use anyhow::{Result, bail};
use clap::Args;
use host::{IoQueue, Queue, Zoned, Zones, view};
use nvme::zone::{ZoneReportFilter, ZoneSendAction, ZoneState};
use schemars::JsonSchema;
use serde::Serialize;
use store::{Claim, NamespaceZones};

/// A command that changes states.
#[derive(Args, Debug)]
pub struct Action {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    of: Of,
}

/// `tranche zone reset`.
#[derive(Args, Debug)]
pub struct Reset {
    #[command(flatten)]
    pub action: Action,
    /// Reset them even if a program of this machine has the store on the namespace open
    #[arg(long)]
    pub force: bool,
}

/// `tranche zone open`.
#[derive(Args, Debug)]
pub struct Open {
    #[command(flatten)]
    pub action: Action,
    /// Give them Zone Random Write Areas. They must be empty
    #[arg(long)]
    pub zrwa: bool,
}

/// Zones that are to change.
#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
pub struct Which {
    /// Numbers of zones; the first is 0
    #[arg(value_name = "ZONE")]
    zones: Vec<u64>,
    /// All zones that are in a state for it: `open` takes closed ones, `close` open ones, `finish` both, `reset` also full ones, and `offline` those
    /// that are read only. Empty zones are opened by their numbers
    #[arg(long)]
    all: bool,
}

/// What all zones are called that an action for all of them changes, what becomes of them, and their states.
fn of_all(action: ZoneSendAction) -> (&'static str, &'static str, &'static [ZoneReportFilter]) {
    use ZoneReportFilter as In;
    match action {
        ZoneSendAction::OPEN => ("closed", "opened", &[In::CLOSED]),
        ZoneSendAction::CLOSE => ("open", "closed", &[In::IMPLICITLY_OPENED, In::EXPLICITLY_OPENED]),
        ZoneSendAction::FINISH => {
            ("open or closed", "finished", &[In::IMPLICITLY_OPENED, In::EXPLICITLY_OPENED, In::CLOSED])
        }
        ZoneSendAction::RESET => (
            "open, closed or full",
            "reset",
            &[In::IMPLICITLY_OPENED, In::EXPLICITLY_OPENED, In::CLOSED, In::FULL],
        ),
        _ => ("read only", "taken offline", &[In::READ_ONLY]),
    }
}

/// A program of this machine that has the store on a namespace open would lose its files. What cannot be known is not asked for.
///
/// # Errors
/// There is such a program.
pub fn refuse_store_in_use(host: &mut Connected, ns: Zoned, of: &host::Addr) -> Result<()> {
    let queue = host.io_queue(DEPTH)?;
    let Ok(id) = store::identify(&NamespaceZones::new(ns, vec![queue])) else { return Ok(()) };
    if let Err(store::Error::InUse) = Claim::take(&id, of) {
        bail!(
            "a program of this machine has the store on namespace {} open, and would lose its files. Unmount the store first, or give --force",
            ns.namespace.nsid
        );
    }
    Ok(())
}

/// The zones that have changed.
#[derive(Serialize, JsonSchema)]
pub struct ChangedZones {
    /// How many zones have changed. With --all these are the zones that were in a state for it.
    count: u64,
    /// Namespace identifier.
    nsid: u32,
    /// The zones.
    #[schemars(extend("null" = "of --all"))]
    zones: Option<Vec<ChangedZone>>,
}

/// A zone.
#[derive(Serialize, JsonSchema)]
struct ChangedZone {
    /// State.
    #[schemars(extend("enum" = view::ZONE_STATES))]
    state: &'static str,
    /// Number of the zone.
    zone: u64,
}

impl ChangedZones {
    /// Zones that were named, with their new states.
    pub fn named(nsid: u32, changed: &[(u64, ZoneState)]) -> Self {
        let one = |&(zone, state): &(u64, ZoneState)| ChangedZone { state: view::zone_state(state), zone };
        Self { count: changed.len() as u64, nsid, zones: Some(changed.iter().map(one).collect()) }
    }
}

/// Changes the states of zones. Without `force`, not those of a store that is in use.
pub fn manage(action: ZoneSendAction, change: &Action, force: bool, output: Output) -> Result<()> {
    let (mut host, ns) = find(&change.of)?;
    if !force {
        refuse_store_in_use(&mut host, ns, change.of.on())?;
    }
    let mut queue = host.io_queue(DEPTH)?;
    let nsid = ns.namespace.nsid;
    if change.which.all {
        let (states, what, filters) = of_all(action);
        let counts = filters.iter().map(|filter| queue.count_zones(&ns, 0, *filter));
        let count = counts.sum::<Result<u64, _>>()?;
        let done = queue.manage_zones(nsid, action, Zones::All);
        about_zone(&mut queue, &ns, 0, done)?;
        return match output {
            Output::Json => print_json(&ChangedZones { count, nsid, zones: None }),
            Output::Text => print_text(&match count {
                0 => format!("namespace {nsid}: no zone is {states}, so none was {what}"),
                1 => format!("namespace {nsid}: 1 zone was {what}"),
                _ => format!("namespace {nsid}: {count} zones were {what}"),
            }),
        };
    }
    let change_one = |queue: &mut IoQueue<_>, start| queue.manage_zones(nsid, action, Zones::One(start));
    change_each(&mut queue, &ns, &change.which.zones, change_one, output)
}

/// `tranche zone open --zrwa`.
pub fn open_with_areas(change: &Action, output: Output) -> Result<()> {
    let (_host, ns, mut queue) = open(&change.of)?;
    let nsid = ns.namespace.nsid;
    if ns.zrwa.is_none() {
        bail!(
            "zones of namespace {nsid} can have no Zone Random Write Areas (`tranche ns create --zoned --zrwa-resources N` makes one whose zones can)"
        );
    }
    if change.which.all {
        lab_report::misuse!(
            "--zrwa is for zones that are named: all zones are those that are closed, and an area is for one that is empty"
        );
    }
    let open_one = |queue: &mut IoQueue<_>, start| queue.open_zone_with_zrwa(nsid, start);
    change_each(&mut queue, &ns, &change.which.zones, open_one, output)
}

/// Changes zones one after the other, and prints their new states. All of them must be there before the first one changes.
fn change_each<Q: Queue>(
    queue: &mut IoQueue<Q>,
    ns: &Zoned,
    zones: &[u64],
    change: impl Fn(&mut IoQueue<Q>, u64) -> Result<(), host::Error>,
    output: Output,
) -> Result<()> {
    let starts: Vec<u64> = zones.iter().map(|zone| start(ns, *zone)).collect::<Result<_>>()?;
    let mut changed = Vec::new();
    for (zone, start) in zones.iter().zip(starts) {
        let done = change(queue, start);
        about_zone(queue, ns, *zone, done).map_err(|error| after(&changed, *zone, error))?;
        changed.push((*zone, look(queue, ns, start)?.state()));
    }
    print_changed(ns.namespace.nsid, &changed, output)
}

/// Adds to the error of a zone which ones had changed before.
fn after(changed: &[(u64, ZoneState)], zone: u64, error: anyhow::Error) -> anyhow::Error {
    if changed.is_empty() {
        return error;
    }
    let done: Vec<String> =
        changed.iter().map(|(zone, state)| format!("zone {zone} is {state} now")).collect();
    error.context(format!("{}, but zone {zone} did not change", done.join(", ")))
}

/// Zones with their new states.
fn print_changed(nsid: u32, changed: &[(u64, ZoneState)], output: Output) -> Result<()> {
    match output {
        Output::Json => print_json(&ChangedZones::named(nsid, changed)),
        Output::Text => {
            let line = |(zone, state): &(u64, ZoneState)| format!("zone {zone}: {state}");
            print_text(&changed.iter().map(line).collect::<Vec<_>>().join("\n"))
        }
    }
}
