//! Attacks on what hosts are told: logs, events and counters.

use crate::admin::{answer, flood_admin};
use crate::attack::Attack;
use crate::drive::{FORMATTED_NSID, FULL_NSID, PLACED_NSID, VICTIM_NSID, VICTIM_PLACED_NSID, World, nqn};
use crate::victim::Victim;
use crate::wire::{Association, Stop, Tally, flood, persist, persist_on_queues};
use host::{Data, Host, Identity, SocketTransport};
use nvme::admin::{FormatNvm, GetLogPage, SecureErase, SetFeatures};
use nvme::fdp::{FdpEvent, FdpEventType, FdpEventsHeader, RUH_UPDATE};
use nvme::feature::FeatureId;
use nvme::io::IoManagementSend;
use nvme::log::{
    ChangeNamespaceEvent, LogId, PersistentEvent, PersistentEventAction, PersistentEventHeader,
    PersistentEventType,
};
use nvme::plm::{PredictableLatencyConfig, WindowEvents, WindowSelect};
use nvme::property::PropertyOffset;
use nvme::zerocopy::FromBytes;
use nvme::{Command, Csi, NSID_ALL, Nsid};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

pub const ATTACKS: &[Attack] = &[
    Attack::new("logs-large", logs),
    Attack::new("logs-telemetry", telemetry),
    Attack::new("logs-without-rae", without_rae).prepared_by(window_event).checked_by(window_event_is_there),
    Attack::new("persistent-events-formats", formats).lasting_ms(500).checked_by(first_events_are_there),
    Attack::new("persistent-events-resets", event_resets).lasting_ms(500).checked_by(first_events_are_there),
    Attack::new("placement-events", placement_events)
        .prepared_by(placement_event)
        .checked_by(placement_event_is_there),
    Attack::new("counters", counters).checked_by(counters_are_private),
];

/// The NVM Set whose windows tell of events, and the Endurance Group with Flexible Data Placement.
const WINDOW_SET: u16 = 1;
const PLACEMENT_GROUP: u16 = 2;
/// More events of resets than the Persistent Event log has room for.
const LOG_EVENTS: u64 = 500;
/// How long an event of the preparation may take.
const PREPARE_TIMEOUT: Duration = Duration::from_secs(5);

fn page(lid: u8, nsid: Nsid, lsi: u16, bytes: u64) -> GetLogPage {
    let (lid, csi) = (LogId(lid), Csi::NVM);
    GetLogPage { nsid, lid, lsp: 0, lsi, rae: true, dwords: bytes / 4, offset: 0, ot: false, csi, uidx: 0 }
}

/// All logs, in large pieces, from many places.
fn logs(world: &World, stop: &Stop) -> Tally {
    const BYTES: u64 = 131_072;
    flood_admin(world, stop, 31, |n| {
        let nsid = [0, NSID_ALL, FULL_NSID][(n / 256 % 3) as usize];
        let offset = (n / 768 % 64) * 4096;
        let get = GetLogPage { offset, ..page((n % 256) as u8, nsid, (n / 256 % 4) as u16, BYTES) };
        (get.into(), Data::room(BYTES as usize))
    })
}

/// Telemetry is for administrators, and expensive to make.
fn telemetry(world: &World, stop: &Stop) -> Tally {
    const BYTES: u64 = 65_536;
    let tally = flood_admin(world, stop, 31, |n| {
        let lid =
            [LogId::TELEMETRY_HOST, LogId::TELEMETRY_CONTROLLER, LogId::PERSISTENT_EVENT, LogId::SET_MAP];
        let get = GetLogPage { lsp: 1, rae: n % 2 == 0, ..page(lid[(n % 4) as usize].0, 0, 1, BYTES) };
        (get.into(), Data::room(BYTES as usize))
    });
    if tally.done > 0 {
        world.violation("a tenant reads logs that tell of other hosts");
    }
    tally
}

/// All logs without Retain Asynchronous Event.
fn without_rae(world: &World, stop: &Stop) -> Tally {
    flood_admin(world, stop, 8, |n| {
        let lsi = (n / 256 % 3) as u16;
        let nsid = [0, NSID_ALL, VICTIM_NSID, FULL_NSID][(n / 768 % 4) as usize];
        let get = GetLogPage { rae: false, ..page((n % 256) as u8, nsid, lsi, 512) };
        (get.into(), Data::room(512))
    })
}

/// A deterministic window ends, and there is an event until its log is read.
fn window_event(world: &World, _: &mut Victim) {
    let mut admin = world.admin();
    let config =
        PredictableLatencyConfig { ee: WindowEvents::new().with_exceeded(true), ..Default::default() };
    admin.set_predictable_latency(WINDOW_SET, true, &config, false).unwrap();
    admin.set_window(WINDOW_SET, WindowSelect::DETERMINISTIC).unwrap();
    let start = Instant::now();
    while !admin.predictable_latency(WINDOW_SET).unwrap().event_type.exceeded() {
        assert!(start.elapsed() < PREPARE_TIMEOUT, "a deterministic window does not end");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn window_event_is_there(world: &World, _: &mut Victim) {
    let mut admin = world.admin();
    if !admin.predictable_latency(WINDOW_SET).unwrap().event_type.exceeded() {
        world.violation("the event of a deterministic window is gone, and no administrator has read it");
    }
    let config = PredictableLatencyConfig::default();
    admin.set_predictable_latency(WINDOW_SET, false, &config, false).unwrap();
    let read = GetLogPage { rae: false, ..page(LogId::PREDICTABLE_LATENCY.0, 0, WINDOW_SET, 512) };
    admin.call(read.into(), Data::room(512)).unwrap();
}

/// Formats push events of others out of the Persistent Event log.
fn formats(world: &World, stop: &Stop) -> Tally {
    flood_admin(world, stop, 8, |_| {
        let format = FormatNvm {
            nsid: FORMATTED_NSID,
            lbaf: 0,
            mset: false,
            pi: 0,
            pil: false,
            ses: SecureErase::NONE,
        };
        (format.into(), Data::None)
    })
}

/// Resets and new controllers do so, too.
fn event_resets(world: &World, stop: &Stop) -> Tally {
    let mut tally = Tally::default();
    // Until the log could be full of them, on a slow machine, too.
    while !(stop.is_set() && tally.done + tally.failed >= LOG_EVENTS) {
        match Association::open(world, &Identity::new(nqn("hostile")), world.source(1), 0) {
            Ok(mut tenant) => {
                let reset = |tenant: &mut Association| {
                    tenant.set_property(PropertyOffset::CC, 0).is_ok() && tenant.enable().is_ok()
                };
                (0..64).for_each(|_| tally.count(reset(&mut tenant)));
            }
            Err(_) => tally.count(false),
        }
    }
    tally
}

/// The Persistent Event log says that the administrator made the victim's namespace.
fn first_events_are_there(world: &World, _: &mut Victim) {
    let log = persistent_events(&mut world.admin());
    let (header, mut rest) = PersistentEventHeader::read_from_prefix(&log).unwrap();
    let mut kinds = std::collections::BTreeMap::new();
    for _ in 0..header.tnev.get() {
        let Ok((event, after)) = PersistentEvent::read_from_prefix(rest) else { break };
        let Some((data, after)) = after.split_at_checked(event.el.get().into()) else { break };
        if event.etype == PersistentEventType::CHANGE_NAMESPACE
            && ChangeNamespaceEvent::read_from_prefix(data)
                .is_ok_and(|(e, _)| e.nsid.get() == VICTIM_PLACED_NSID)
        {
            return;
        }
        *kinds.entry(event.etype.to_string()).or_insert(0u64) += 1;
        rest = after;
    }
    world.violation(format!(
        "the event of the victim's namespace was pushed out of the Persistent Event log: {kinds:?}"
    ));
}

fn persistent_events(admin: &mut Host<SocketTransport>) -> Vec<u8> {
    const PIECE: u64 = 4096;
    let mut log = Vec::new();
    let mut length = PIECE;
    while (log.len() as u64) < length {
        let action = match log.is_empty() {
            true => PersistentEventAction::ESTABLISH,
            false => PersistentEventAction::READ,
        };
        let offset = log.len() as u64;
        let get = GetLogPage { lsp: action.0, offset, ..page(LogId::PERSISTENT_EVENT.0, 0, 0, PIECE) };
        let done = admin.call(get.into(), Data::room(PIECE as usize)).unwrap();
        assert!(done.completion.status().is_success(), "{}", done.completion.status());
        log.extend(done.data.into_buffer());
        length = PersistentEventHeader::read_from_prefix(&log).unwrap().0.tll.get();
    }
    let release =
        GetLogPage { lsp: PersistentEventAction::RELEASE.0, ..page(LogId::PERSISTENT_EVENT.0, 0, 0, 512) };
    admin.call(release.into(), Data::room(512)).unwrap();
    log
}

/// Reclaim Unit Handle Update of these placement identifiers.
pub fn update_handles(nsid: Nsid, pids: &[u16]) -> (Command, Data) {
    let send = IoManagementSend { nsid, mo: RUH_UPDATE, mos: pids.len() as u16 - 1 };
    (send.into(), Data::Out(pids.iter().flat_map(|pid| pid.to_le_bytes()).collect()))
}

/// An update of the victim's that leaves a reclaim unit in part is an event.
fn placement_event(world: &World, victim: &mut Victim) {
    let mut admin = world.admin();
    let cntlid = admin.cntlid();
    for nsid in [VICTIM_PLACED_NSID, PLACED_NSID] {
        // It may be attached already.
        let _ = admin.attach_namespace(nsid, &[cntlid]);
        for handle in 0..4 {
            let types = vec![FdpEventType::NOT_FULLY_WRITTEN.0, FdpEventType::INVALID_PLACEMENT_IDENTIFIER.0];
            let cdw11 = handle | (types.len() as u32) << 16;
            let fid = FeatureId::FDP_EVENTS;
            let set = SetFeatures { nsid, fid, sv: false, uidx: 0, cdw11, cdw12: 1, cdw13: 0, cdw15: 0 };
            let status = admin.call(set.into(), Data::Out(types)).unwrap().completion.status();
            assert!(status.is_success(), "enabling events of placement: {status}");
        }
    }
    drop(admin);
    // Beyond what the victim reads.
    let write = Command::write(VICTIM_PLACED_NSID, 8000, 1);
    let status = victim.queue().call(write, Data::Out(vec![1; 4096])).unwrap().completion.status();
    assert!(status.is_success(), "{status}");
    let (command, data) = update_handles(VICTIM_PLACED_NSID, &[0]);
    let status = victim.queue().call(command, data).unwrap().completion.status();
    assert!(status.is_success(), "{status}");
    assert!(events_of(world, VICTIM_PLACED_NSID) > 0, "an update is no event");
}

/// Events of hosts that are kept of a namespace.
fn events_of(world: &World, nsid: Nsid) -> usize {
    const BYTES: u64 = 8192;
    let get = GetLogPage { lsp: 1, ..page(LogId::FDP_EVENTS.0, 0, PLACEMENT_GROUP, BYTES) };
    let done = world.admin().call(get.into(), Data::room(BYTES as usize)).unwrap();
    assert!(done.completion.status().is_success(), "{}", done.completion.status());
    let log = done.data.into_buffer();
    let (header, rest) = FdpEventsHeader::read_from_prefix(&log).unwrap();
    let events = rest.chunks_exact(size_of::<FdpEvent>()).take(header.n.get() as usize);
    events
        .filter(|bytes| FdpEvent::read_from_bytes(bytes).is_ok_and(|event| event.nsid.get() == nsid))
        .count()
}

/// Writes with placement identifiers that there are not, and updates: each is an event.
fn placement_events(world: &World, stop: &Stop) -> Tally {
    persist_on_queues(world, stop, 2, |queue, _| {
        let commands = (0..).map(|n| match n % 4 {
            0 => update_handles(PLACED_NSID, &[0, 1, 2, 3]),
            _ => {
                let mut write = Command::write(PLACED_NSID, n % 4096, 1);
                write.cdw12.set(write.cdw12.get() | u32::from(nvme::fdp::DATA_PLACEMENT) << 20);
                write.cdw13.set(99 << 16);
                (write, Data::Out(vec![9; 4096]))
            }
        });
        flood(queue, 16, commands, stop)
    })
}

fn placement_event_is_there(world: &World, _: &mut Victim) {
    if events_of(world, VICTIM_PLACED_NSID) == 0 {
        let own = events_of(world, PLACED_NSID);
        world
            .violation(format!("the victim's placement event was pushed out by {own} of the hostile tenant"));
    }
}

/// Logs with counters, as 64-bit words.
fn counts(tenant: &mut Association) -> Vec<(String, u64)> {
    let mut all = Vec::new();
    for (lid, nsid, lsi, bytes) in [
        (LogId::SMART, NSID_ALL, 0, 512),
        (LogId::SMART, 0, 0, 512),
        (LogId::ENDURANCE_GROUP, 0, 1, 512),
        (LogId::ENDURANCE_GROUP, 0, 2, 512),
        (LogId::FDP_STATISTICS, 0, PLACEMENT_GROUP, 64),
        (LogId::RUH_USAGE, 0, PLACEMENT_GROUP, 64),
        (LogId::PREDICTABLE_LATENCY, 0, WINDOW_SET, 512),
        (LogId::OCP_SMART, NSID_ALL, 0, 512),
        (LogId::MEMBLAZE_SMART, NSID_ALL, 0, 512),
        (LogId::NAMESPACE_STATISTICS, NSID_ALL, 0, 8192),
        (LogId::NAMESPACE_STATISTICS, 0, 0, 8192),
        (LogId::NAMESPACE_STATISTICS, VICTIM_NSID, 0, 8192),
    ] {
        let data = answer(tenant, page(lid.0, nsid, lsi, bytes as u64).into(), bytes).unwrap_or_default();
        for (place, word) in data.as_chunks::<8>().0.iter().enumerate() {
            all.push((
                format!("{lid} (namespace {nsid:#x}, {lsi}) byte {}", place * 8),
                u64::from_le_bytes(*word),
            ));
        }
    }
    all
}

fn counters(world: &World, stop: &Stop) -> Tally {
    persist(world, stop, |tenant| {
        let mut tally = Tally::default();
        while !stop.is_set() {
            tally.count(!counts(tenant).is_empty());
        }
        Ok(tally)
    })
}

/// What changes for the hostile tenant when the victim does something, and only then.
fn counters_are_private(world: &World, victim: &mut Victim) {
    let mut tenant = world.hostile();
    let mut changed = |act: &mut dyn FnMut()| -> BTreeSet<String> {
        let before = counts(&mut tenant);
        act();
        std::thread::sleep(Duration::from_millis(50));
        let after = counts(&mut tenant);
        let pairs = before.into_iter().zip(after).filter(|((_, a), (_, b))| a != b);
        pairs.map(|((name, _), _)| name).collect()
    };
    let mut told: Option<BTreeSet<String>> = None;
    for _ in 0..2 {
        let idle: BTreeSet<_> = (0..3).flat_map(|_| changed(&mut || {})).collect();
        let active = changed(&mut || victim.be_active());
        let new: BTreeSet<_> = active.difference(&idle).cloned().collect();
        // Twice: what the drive does by itself is no counter of the victim's.
        told = Some(told.map_or(new.clone(), |told| told.intersection(&new).cloned().collect()));
    }
    let logs: BTreeSet<_> = told
        .unwrap_or_default()
        .iter()
        .map(|name| name.split(" byte").next().unwrap_or(name).to_owned())
        .collect();
    if !logs.is_empty() {
        world.violation(format!(
            "what the victim does is seen in {}",
            logs.into_iter().collect::<Vec<_>>().join(", ")
        ));
    }
}
