//! Two hosts send random commands to the zones of two namespaces, some with Zone Random Write Areas. A plain model says what must be there.
//! Controller resets, shutdowns, subsystem resets and power cuts interrupt commands, and blocks wear out. `TRANCHE_MODEL_ROUNDS` and `TRANCHE_MODEL_FIRST` make a campaign of it.

mod areas;
mod wear;

use crate::common::zones::*;
use crate::common::{Bench, TIMED_SMALL, bytes};
use device::{ControllerId, Origin};
use ftl::{ZonesConfig, ZrwaLayout};
use media::{Nanos, Rng};
use nvme::admin::{NamespaceAttachment, NamespaceAttachmentSelect};
use nvme::identify::{ControllerList, NamespaceCreate, Nmic, Znsco, ZonedCreate};
use nvme::io::{Blocks, appended_lba};
use nvme::property::{Cc, NSSR_NVME, PropertyOffset, Shn};
use nvme::zone::{ZoneManagementSend, ZoneReport, ZoneSendAction, ZoneState};
use nvme::{Command, IoCommand, Status, U16, U32, U64};
use std::collections::BTreeMap;
use wear::is_worn;

const BLOCK: usize = 4096;
/// Actions on zones, with how likely they are.
const ACTIONS: [(ZoneSendAction, u64); 6] = [
    (ZoneSendAction::OPEN, 3),
    (ZoneSendAction::CLOSE, 3),
    (ZoneSendAction::FINISH, 1),
    (ZoneSendAction::RESET, 3),
    (ZoneSendAction::SET_DESCRIPTOR_EXTENSION, 1),
    (ZoneSendAction::OFFLINE, 1),
];

/// A zone as its hosts know it.
#[derive(Clone, Debug)]
struct Zone {
    state: ZoneState,
    /// What was acknowledged, or was found after an interruption: a number for each block.
    blocks: Vec<u64>,
    /// How many of them a completed Flush or shutdown has made durable on a drive without power-loss protection.
    flushed: usize,
    extended: bool,
    /// Whether it has a Zone Random Write Area, or had one since its last reset.
    zrwa: bool,
    had_area: bool,
    /// What is in the area: blocks behind the write pointer.
    loose: BTreeMap<usize, u64>,
}

/// A zone as the drive reports it.
#[derive(Clone, Copy, Debug)]
struct Seen {
    state: ZoneState,
    pointer: Option<usize>,
    zrwa: bool,
}

impl Zone {
    const NEW: Zone = Zone {
        state: ZoneState::EMPTY,
        blocks: Vec::new(),
        flushed: 0,
        extended: false,
        zrwa: false,
        had_area: false,
        loose: BTreeMap::new(),
    };

    /// It was written, or its write pointer moved.
    fn is_written(&mut self) {
        self.state = match self.blocks.len() == CAPACITY as usize {
            true => ZoneState::FULL,
            false if self.state == ZoneState::EXPLICITLY_OPENED => ZoneState::EXPLICITLY_OPENED,
            false => ZoneState::IMPLICITLY_OPENED,
        };
        self.zrwa &= self.state != ZoneState::FULL;
    }

    fn is_open(&self) -> bool {
        self.state == ZoneState::IMPLICITLY_OPENED || self.state == ZoneState::EXPLICITLY_OPENED
    }

    fn is_active(&self) -> bool {
        self.is_open() || self.state == ZoneState::CLOSED
    }

    /// The state after the loss of power.
    fn without_power(&self) -> ZoneState {
        match self.is_active() {
            true if self.blocks.is_empty() && !self.extended => ZoneState::EMPTY,
            true => ZoneState::CLOSED,
            false => self.state,
        }
    }
}

struct Space {
    nsid: u32,
    zones: Vec<Zone>,
    /// Zones that may be active, and open, at the same time.
    active: usize,
    open: usize,
    /// Zones that can have an area.
    areas: usize,
}

/// A command that is under way.
struct Pending {
    io: u32,
    host: usize,
    space: usize,
    zone: usize,
    append: bool,
    /// The place of a write in its zone.
    at: usize,
    values: Vec<u64>,
}

/// What interrupts commands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Interruption {
    None,
    ControllerReset,
    Shutdown,
    SubsystemReset,
    PowerCut { energy: bool },
}

struct Play {
    b: Bench,
    rng: Rng,
    hosts: Vec<ControllerId>,
    spaces: Vec<Space>,
    /// Whether capacitors save the write buffer.
    protected: bool,
    next: u64,
    what: String,
    /// Whether blocks fail, and how many zones that has cost.
    wears: bool,
    worn: u32,
}

/// Without the zeros at the end: what was never written reads as zeros.
fn trimmed(mut values: Vec<u64>) -> Vec<u64> {
    while values.last() == Some(&0) {
        values.pop();
    }
    values
}

fn data_of(values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes().repeat(BLOCK / 8)).collect()
}

impl Play {
    fn new(seed: u64) -> Play {
        let mut rng = Rng::new(seed);
        let protected = rng.below(2) == 0;
        let changes =
            ("[drive]", if protected { "[drive]" } else { "[drive]\npower_loss_protection = false" });
        // What is in an area must outlive power.
        let zrwa = Some(ZrwaLayout { pages: AREA as u32, granularity: GRANULARITY as u32, max: 2 });
        let zrwa = zrwa.filter(|_| protected);
        let mut b =
            with_changes(&[TIMED_SMALL, &[changes]].concat(), ZonesConfig { zrwa, ..ZonesConfig::default() });
        let other = b.connect_as("other", [8; 16], Origin::InProcess);
        let hosts = vec![b.controller, other];
        let active = 1 + rng.below(3);
        let spaces = [(6, active), (2, 4 - active)].map(|(zones, active)| {
            let (blocks, open) = (U64::new(zones * SIZE), 1 + rng.below(active));
            let mut new = NamespaceCreate {
                nsze: blocks,
                ncap: blocks,
                nvmsetid: U16::new(1),
                ..NamespaceCreate::default()
            };
            // Those of the first namespace.
            let areas = if protected && zones > 2 { active.min(2) } else { 0 };
            new.set_zoned(&ZonedCreate {
                rar: U32::new(active as u32),
                ror: U32::new(open as u32),
                znsco: Znsco::new().with_azr(areas > 0),
                rnumzrwa: U32::new(areas as u32),
            });
            new.nmic = Nmic::new().with_shrns(true);
            let (nsid, _) = b.admin_ok(create_command(), &bytes(&new));
            Space {
                nsid,
                zones: vec![Zone::NEW; zones as usize],
                active: active as usize,
                open: open as usize,
                areas: areas as usize,
            }
        });
        let wears = rng.below(3) == 0;
        let mut play = Play {
            b,
            rng,
            hosts,
            spaces: spaces.into(),
            protected,
            next: 1,
            what: String::new(),
            wears: false,
            worn: 0,
        };
        play.attach();
        if wears {
            play.wear();
        }
        play
    }

    /// Attaches both namespaces to all hosts, where they are not.
    fn attach(&mut self) {
        let list = ControllerList::new(self.hosts.iter().map(|id| id.0));
        for space in &self.spaces {
            let command = NamespaceAttachment { nsid: space.nsid, sel: NamespaceAttachmentSelect::ATTACH };
            let (completion, _) = self.b.admin(command, &bytes(&list));
            let status = completion.status();
            assert!(
                status.is_success() || status.is(Status::NAMESPACE_ALREADY_ATTACHED),
                "{}: {status}",
                self.what
            );
        }
    }

    fn values(&mut self, count: usize) -> Vec<u64> {
        let first = self.next;
        self.next += count as u64;
        (first..self.next).collect()
    }

    fn zone(&mut self, space: usize, zone: usize) -> &mut Zone {
        &mut self.spaces[space].zones[zone]
    }

    /// Why a zone cannot be opened now, and which zone the drive closes for it, if any.
    fn cannot_open(&self, space: usize, zone: usize) -> Option<Status> {
        let (space, zone_now) = (&self.spaces[space], &self.spaces[space].zones[zone]);
        if zone_now.is_open() {
            return None;
        }
        let count = |is: fn(&Zone) -> bool| space.zones.iter().filter(|zone| is(zone)).count();
        if !zone_now.is_active() && count(Zone::is_active) == space.active {
            return Some(Status::TOO_MANY_ACTIVE_ZONES);
        }
        let closable = |zone: &Zone| zone.state == ZoneState::IMPLICITLY_OPENED;
        (count(Zone::is_open) == space.open && count(closable) == 0).then_some(Status::TOO_MANY_OPEN_ZONES)
    }

    /// Takes what the drive says of zones beside the one that was opened, or of all: some of those that writes opened may be closed for it.
    fn closed_for(&mut self, space: usize, zone: Option<usize>) {
        let found = self.report(space);
        let (space, what) = (&mut self.spaces[space], &self.what);
        let mut closed = 0;
        for (at, (old, Seen { state, .. })) in space.zones.iter_mut().zip(found).enumerate() {
            // One that has worn out meanwhile is noticed next time.
            let worn = self.wears && is_worn(state);
            if Some(at) != zone && old.state != state && !worn {
                assert_eq!(
                    (old.state, state),
                    (ZoneState::IMPLICITLY_OPENED, ZoneState::CLOSED),
                    "{what}, zone {at}"
                );
                old.state = state;
                closed += 1;
            }
        }
        assert!(closed < 2 || zone.is_none(), "{what}: {closed} zones are closed for one");
        assert!(space.zones.iter().filter(|zone| zone.is_open()).count() <= space.open, "{what}");
    }

    fn report(&mut self, space: usize) -> Vec<Seen> {
        let (nsid, zones) = (self.spaces[space].nsid, self.spaces[space].zones.len() as u64);
        let (status, data) = self.b.io(receive(nsid, 0, 16 + 16 * zones), &[]);
        assert!(status.is_success(), "{}: {status}", self.what);
        let report = ZoneReport::parse(&data, 0).unwrap();
        let one = |(at, (zone, _)): (u64, (&nvme::zone::ZoneDescriptor, _))| {
            let pointer = zone.write_pointer().map(|pointer| (pointer - at * SIZE) as usize);
            Seen { state: zone.state(), pointer, zrwa: zone.za.zrwav() }
        };
        (0..).zip(report.zones().map(|(zone, extension): (_, &[u8])| (zone, extension))).map(one).collect()
    }

    /// The drive's zones are those of the model, and hold what the model says.
    fn check(&mut self) {
        for space in 0..self.spaces.len() {
            for (at, seen) in self.report(space).into_iter().enumerate() {
                if self.wears && is_worn(seen.state) && !is_worn(self.zone(space, at).state) {
                    self.mark_worn(space, at, seen, &[]);
                }
                let zone = self.zone(space, at).clone();
                assert_eq!((seen.state, seen.zrwa), (zone.state, zone.zrwa), "{}, zone {at}", self.what);
                if seen.state == ZoneState::OFFLINE {
                    let (nsid, start) = (self.spaces[space].nsid, at as u64 * SIZE);
                    let (status, _) = self.b.io(Command::read(nsid, start, 1), &[]);
                    assert!(status.is(Status::ZONE_IS_OFFLINE), "{}, zone {at}: {status}", self.what);
                    continue;
                }
                if seen.state != ZoneState::FULL && seen.state != ZoneState::READ_ONLY {
                    assert_eq!(seen.pointer, Some(zone.blocks.len()), "{}, zone {at}", self.what);
                }
                let behind = if zone.zrwa { AREA as usize } else { 0 };
                let holds = self.read(space, at, zone.blocks.len() + behind);
                assert_eq!(holds, zone.content(), "{}, zone {at}", self.what);
            }
        }
    }

    /// The numbers in the first blocks of a zone. What was never written reads as zeros.
    fn read(&mut self, space: usize, zone: usize, count: usize) -> Vec<u64> {
        let nsid = self.spaces[space].nsid;
        let count = (count + 2).min(CAPACITY as usize);
        let mut data = Vec::new();
        for at in (0..count).step_by(64) {
            let command = Command::read(nsid, (zone as u64) * SIZE + at as u64, 64.min(count - at) as u32);
            let (status, part) = self.b.io(command, &[]);
            if self.wears && status.is(Status::ZONE_IS_OFFLINE) {
                // It has just worn out, and so it held nothing.
                return Vec::new();
            }
            assert!(status.is_success(), "{}, namespace {space}, zone {zone}: {status}", self.what);
            data.extend(part);
        }
        let number = |block: &[u8]| {
            let value = u64::from_le_bytes(block[..8].try_into().unwrap());
            assert!(block.chunks(8).all(|word| word == value.to_le_bytes()), "{}: a torn block", self.what);
            value
        };
        trimmed(data.chunks(BLOCK).map(number).collect())
    }

    fn pick(&mut self) -> (usize, usize, usize) {
        let space = usize::from(self.rng.below(4) == 0);
        let zones = self.spaces[space].zones.len() as u64;
        (self.rng.below(2) as usize, space, self.rng.below(zones) as usize)
    }

    /// One write or append, whose answer is known.
    fn write_one(&mut self) {
        let (host, space, zone) = self.pick();
        let append = self.rng.below(3) == 0;
        let most = if self.rng.below(8) == 0 { 128 } else { 24 };
        let count = 1 + self.rng.below(most) as usize;
        let now = self.zone(space, zone).clone();
        if now.zrwa {
            return;
        }
        let wrong = !append && self.rng.below(10) == 0;
        let at = now.blocks.len() + if wrong { 1 + self.rng.below(9) as usize } else { 0 };
        let values = self.values(count);
        let (status, place) = {
            let io = self.submit(host, space, zone, append, at, &values);
            let (completion, _) = self.b.wait(io);
            (completion.status(), appended_lba(&completion))
        };
        let mut reasons: Vec<Status> = self.cannot_open(space, zone).into_iter().collect();
        reasons = match now.state {
            ZoneState::FULL => vec![Status::ZONE_IS_FULL],
            ZoneState::READ_ONLY => vec![Status::ZONE_IS_READ_ONLY],
            ZoneState::OFFLINE => vec![Status::ZONE_IS_OFFLINE],
            _ => reasons,
        };
        if wrong {
            reasons.push(Status::ZONE_INVALID_WRITE);
        }
        if at + count > CAPACITY as usize {
            reasons.push(Status::ZONE_BOUNDARY_ERROR);
        }
        if append && status.is_success() {
            assert_eq!(place, zone as u64 * SIZE + at as u64, "{}", self.what);
        }
        self.settle(space, zone, status, &reasons, &values, |zone| {
            zone.blocks.extend(&values);
            zone.is_written();
        });
    }

    fn submit(
        &mut self,
        host: usize,
        space: usize,
        zone: usize,
        append: bool,
        at: usize,
        values: &[u64],
    ) -> u32 {
        let (nsid, start) = (self.spaces[space].nsid, zone as u64 * SIZE);
        let count = values.len() as u32;
        let command: Command = match append {
            true => Command::zone_append(nsid, start, count),
            false => IoCommand::Write(Blocks::new(nsid, start + at as u64, count)).into(),
        };
        self.b.submit(self.hosts[host], 1, &command, &data_of(values))
    }

    fn send_command(&self, space: usize, action: ZoneSendAction, lba: u64) -> ZoneManagementSend {
        ZoneManagementSend::new(self.spaces[space].nsid, action, lba)
    }

    fn action(&mut self) -> ZoneSendAction {
        let mut left = self.rng.below(ACTIONS.iter().map(|(_, weight)| weight).sum());
        for (action, weight) in ACTIONS {
            match left.checked_sub(weight) {
                Some(rest) => left = rest,
                None => return action,
            }
        }
        unreachable!("the weights are all")
    }

    /// One command of zone management.
    fn manage_one(&mut self) {
        let (host, space, zone) = self.pick();
        let action = self.action();
        let all = action != ZoneSendAction::SET_DESCRIPTOR_EXTENSION && self.rng.below(6) == 0;
        let send = ZoneManagementSend {
            select_all: all,
            ..self.send_command(space, action, if all { 0 } else { zone as u64 * SIZE })
        };
        let extension =
            if action == ZoneSendAction::SET_DESCRIPTOR_EXTENSION { vec![7; 64] } else { Vec::new() };
        let status = self.b.on(self.hosts[host], 1, &send.into(), &extension).0.status();
        let refused = if all { self.refuses_all(space, action) } else { self.refuses(space, zone, action) };
        if !all {
            let reasons: Vec<Status> = refused.into_iter().collect();
            return self.settle(space, zone, status, &reasons, &[], |zone| act(zone, action));
        }
        let worn = self.newly_worn();
        let expected = refused.map_or(status.is_success(), |reason| status.is(reason));
        assert!(expected || !worn.is_empty(), "{}: {action:?} all: {status}, not {refused:?}", self.what);
        if status.is_success() {
            let zones = self.spaces[space].zones.iter_mut();
            zones.filter(|zone| chosen(zone, action)).for_each(|zone| act(zone, action));
        }
        for (space, at, seen) in worn {
            self.mark_worn(space, at, seen, &[]);
        }
        if status.is_success() {
            self.closed_for(space, None);
        }
    }

    fn refuses(&self, space: usize, zone: usize, action: ZoneSendAction) -> Option<Status> {
        let state = self.spaces[space].zones[zone].state;
        let invalid = Some(Status::INVALID_ZONE_STATE_TRANSITION);
        match action {
            ZoneSendAction::OFFLINE if is_worn(state) => None,
            ZoneSendAction::OFFLINE => invalid,
            _ if is_worn(state) => invalid,
            ZoneSendAction::OPEN if state == ZoneState::FULL => invalid,
            ZoneSendAction::OPEN => self.cannot_open(space, zone),
            ZoneSendAction::CLOSE if state == ZoneState::FULL || state == ZoneState::EMPTY => invalid,
            ZoneSendAction::SET_DESCRIPTOR_EXTENSION if state != ZoneState::EMPTY => invalid,
            ZoneSendAction::SET_DESCRIPTOR_EXTENSION => {
                let space = &self.spaces[space];
                let active = space.zones.iter().filter(|zone| zone.is_active()).count();
                (active == space.active).then_some(Status::TOO_MANY_ACTIVE_ZONES)
            }
            _ => None,
        }
    }

    fn refuses_all(&self, space: usize, action: ZoneSendAction) -> Option<Status> {
        let space = &self.spaces[space];
        let explicit = space
            .zones
            .iter()
            .filter(|zone| zone.state == ZoneState::EXPLICITLY_OPENED || zone.state == ZoneState::CLOSED);
        (action == ZoneSendAction::OPEN && explicit.count() > space.open)
            .then_some(Status::TOO_MANY_OPEN_ZONES)
    }

    fn flush(&mut self) {
        for space in &mut self.spaces {
            let (status, _) = self.b.io(Command::flush(space.nsid), &[]);
            if self.wears && status.is(Status::WRITE_TO_READ_ONLY_RANGE) {
                // What cannot reach the flash any more stays in the buffer.
                continue;
            }
            assert!(status.is_success(), "{}: {status}", self.what);
            space.zones.iter_mut().for_each(|zone| zone.flushed = zone.blocks.len());
        }
    }
}

/// Whether Select All means a zone in this state (ZNS 3.4.3).
fn chosen(zone: &Zone, action: ZoneSendAction) -> bool {
    match action {
        ZoneSendAction::OPEN => zone.state == ZoneState::CLOSED,
        ZoneSendAction::CLOSE => zone.is_open(),
        ZoneSendAction::FINISH => zone.is_active(),
        ZoneSendAction::OFFLINE => zone.state == ZoneState::READ_ONLY,
        _ => zone.is_active() || zone.state == ZoneState::FULL,
    }
}

fn act(zone: &mut Zone, action: ZoneSendAction) {
    match action {
        ZoneSendAction::OPEN => zone.state = ZoneState::EXPLICITLY_OPENED,
        ZoneSendAction::CLOSE => zone.state = ZoneState::CLOSED,
        ZoneSendAction::FINISH => {
            zone.end_area();
            zone.state = ZoneState::FULL;
        }
        ZoneSendAction::OFFLINE => *zone = Zone { state: ZoneState::OFFLINE, ..Zone::NEW },
        ZoneSendAction::SET_DESCRIPTOR_EXTENSION => (zone.state, zone.extended) = (ZoneState::CLOSED, true),
        _ => *zone = Zone::NEW,
    }
}

impl Play {
    /// Several writes at the same time, which something interrupts.
    fn interrupted(&mut self, interruption: Interruption) {
        let mut pending: Vec<Pending> = Vec::new();
        let mut ends: Vec<Vec<usize>> = self
            .spaces
            .iter()
            .map(|space| space.zones.iter().map(|zone| zone.blocks.len()).collect())
            .collect();
        for _ in 0..1 + self.rng.below(8) {
            let (host, space, zone) = self.pick();
            if self.zone(space, zone).had_area {
                let first = !pending.iter().any(|one: &Pending| (one.space, one.zone) == (space, zone));
                if first && self.zone(space, zone).zrwa {
                    pending.push(self.submit_to_area(host, space, zone));
                }
                continue;
            }
            let append = self.rng.below(2) == 0;
            let count = 1 + self.rng.below(40) as usize;
            let (at, values) = (ends[space][zone], self.values(count));
            ends[space][zone] += count;
            let io = self.submit(host, space, zone, append, at, &values);
            pending.push(Pending { io, host, space, zone, append, at, values });
        }
        let until = self.b.now.0 + self.rng.below(4_000_000);
        self.b.run_until(Nanos(until));
        let victim = self.rng.below(2) as usize;
        self.interrupt(interruption, victim);
        self.b.run_until(Nanos(self.b.now.0 + 100_000_000));
        let ended = |host| match interruption {
            Interruption::None => false,
            Interruption::ControllerReset | Interruption::Shutdown => host == victim,
            Interruption::SubsystemReset | Interruption::PowerCut { .. } => true,
        };
        self.reconcile(interruption, &ended, &pending);
        // Nothing may come later, nor may an old answer stand for a new command.
        for Pending { io, .. } in &pending {
            self.b.done.remove(io);
            self.b.memory.buffers.remove(io);
        }
    }

    fn interrupt(&mut self, interruption: Interruption, victim: usize) {
        let id = self.hosts[victim];
        match interruption {
            Interruption::None => {}
            Interruption::ControllerReset => {
                self.b.set_property(id, PropertyOffset::CC, 0).unwrap();
                self.enable(id);
            }
            Interruption::Shutdown => {
                let cc = Cc::new().with_en(true).with_css(Cc::CSS_SETS).with_iosqes(6).with_iocqes(4);
                self.b
                    .set_property(id, PropertyOffset::CC, cc.with_shn(Shn::NORMAL).into_bits().get())
                    .unwrap();
                self.b.run_until(Nanos(self.b.now.0 + 1_000_000_000));
                self.b.set_property(id, PropertyOffset::CC, 0).unwrap();
                self.enable(id);
            }
            Interruption::SubsystemReset => {
                self.b.set_property(id, PropertyOffset::NSSR, NSSR_NVME).unwrap();
                self.b.controller = self.b.connect("host", Origin::InProcess);
                self.connect_other();
            }
            Interruption::PowerCut { energy } => {
                self.b.cut(energy);
                self.b.run_until(Nanos(self.b.now.0 + 1_000_000));
                self.b.power_on();
                self.connect_other();
            }
        }
    }

    fn enable(&mut self, id: ControllerId) {
        self.b.enable(id);
        self.b.drive.add_queue(id, 1, 128).unwrap();
    }

    /// The second host comes back, where the first one is.
    fn connect_other(&mut self) {
        self.hosts = vec![self.b.controller, self.b.connect_as("other", [8; 16], Origin::InProcess)];
        self.attach();
    }

    /// What the zones hold now is what was acknowledged, and of what was under way whole commands, or the beginning of one.
    fn reconcile(&mut self, interruption: Interruption, ended: &dyn Fn(usize) -> bool, pending: &[Pending]) {
        for space in 0..self.spaces.len() {
            let found = self.report(space);
            for (at, seen) in found.into_iter().enumerate() {
                let here =
                    pending.iter().filter(|one| (one.space, one.zone) == (space, at)).collect::<Vec<_>>();
                if seen.state == ZoneState::OFFLINE {
                    self.reconcile_offline(interruption, &here, (space, at), seen);
                } else if self.zone(space, at).had_area {
                    self.reconcile_area(interruption, here.first().copied(), (space, at), seen);
                } else {
                    self.reconcile_zone(interruption, ended, &here, (space, at), seen);
                }
            }
            let space = &self.spaces[space];
            assert!(space.zones.iter().filter(|zone| zone.is_open()).count() <= space.open, "{}", self.what);
            assert!(
                space.zones.iter().filter(|zone| zone.is_active()).count() <= space.active,
                "{}",
                self.what
            );
        }
    }

    fn reconcile_zone(
        &mut self,
        interruption: Interruption,
        ended: &dyn Fn(usize) -> bool,
        here: &[&Pending],
        (space, at): (usize, usize),
        Seen { state, pointer, .. }: Seen,
    ) {
        let cut = matches!(interruption, Interruption::PowerCut { .. });
        let lost = cut && !(self.protected && interruption == Interruption::PowerCut { energy: true });
        let old = self.zone(space, at).clone();
        let what = format!("{}, {interruption:?}, namespace {space}, zone {at}", self.what);
        let worn = self.wears && state == ZoneState::READ_ONLY;
        self.worn += u32::from(worn && old.state != state);
        let holds = self.read(space, at, CAPACITY as usize);
        if let (Some(pointer), false) = (pointer, state == ZoneState::FULL) {
            assert_eq!(pointer, holds.len(), "{what}: the write pointer");
        }
        // What is there is the beginning of what was there.
        let kept = match (lost, self.protected) {
            (false, _) => old.blocks.len(),
            (true, false) => old.flushed,
            // A Flush of a protected drive does nothing, and its capacitors have failed.
            (true, true) => 0,
        };
        assert!(holds.len() >= kept, "{what}: {} blocks of {kept}", holds.len());
        let common = holds.len().min(old.blocks.len());
        assert_eq!(holds[..common], old.blocks[..common], "{what}");
        let added = &holds[common..];
        let mut acknowledged = 0;
        for one in here {
            let status = self
                .b
                .done
                .get(&one.io)
                .map(|(completion, _)| (completion.status(), appended_lba(completion)));
            let first = holds.iter().position(|value| *value == one.values[0]);
            if let Some(first) = first {
                let there = &holds[first..holds.len().min(first + one.values.len())];
                assert_eq!(there, &one.values[..there.len()], "{what}: a command in pieces");
                assert!(one.append || first == one.at, "{what}: a write at {first}, not at {}", one.at);
                assert!(
                    there.len() == one.values.len() || first + there.len() == holds.len(),
                    "{what}: a hole"
                );
            }
            match status {
                Some((status, place)) if status.is_success() => {
                    let all = first.is_some_and(|first| first + one.values.len() <= holds.len());
                    assert!(all || lost, "{what}: what was acknowledged is not there");
                    if let (true, Some(first)) = (one.append, first) {
                        assert_eq!(place, at as u64 * SIZE + first as u64, "{what}");
                    }
                    acknowledged += one.values.len();
                }
                Some((status, _)) => {
                    let aborted = status.is(Status::ABORTED_SQ_DELETION) || status.is(Status::POWER_LOSS);
                    assert!(first.is_none() || aborted || worn, "{what}: a failed write is there: {status}");
                }
                // Only what ends the host's association leaves it without an answer.
                None => assert!(ended(one.host), "{what}: no answer"),
            }
        }
        let known = |value: &u64| here.iter().any(|one| one.values.contains(value));
        assert!(added.iter().all(known), "{what}: foreign blocks");
        assert!(lost || added.len() >= acknowledged, "{what}");
        let zone = self.zone(space, at);
        zone.blocks = holds;
        if cut {
            let expected = match zone.blocks.len() == CAPACITY as usize {
                true if zone.state != ZoneState::READ_ONLY => ZoneState::FULL,
                true => ZoneState::READ_ONLY,
                false => zone.without_power(),
            };
            // What writes opened, or would have, is closed.
            let written = if zone.state == ZoneState::EMPTY && !zone.blocks.is_empty() {
                ZoneState::CLOSED
            } else {
                expected
            };
            // One that was written to its end, and has lost that, may be active again.
            let reopened = lost && old.state == ZoneState::FULL && old.blocks.len() == CAPACITY as usize;
            let may_be = reopened && (state == ZoneState::CLOSED || state == ZoneState::EMPTY);
            assert!(state == written || worn || may_be, "{what}: {state:?}, not {written:?}");
        } else if here.is_empty() {
            let closed = old.state == ZoneState::IMPLICITLY_OPENED && state == ZoneState::CLOSED;
            assert!(state == old.state || closed || worn, "{what}: {:?} became {state:?}", old.state);
        }
        zone.state = state;
        zone.flushed = match interruption {
            // What a worn set cannot write any more stays in the buffer.
            Interruption::Shutdown if worn => zone.flushed,
            // Commands under way may complete after the cache was written.
            Interruption::Shutdown => old.blocks.len(),
            // What is there after a cut is on flash.
            Interruption::PowerCut { .. } => zone.blocks.len(),
            _ => zone.flushed,
        };
    }
}

/// Returns how many zones wore out.
fn play(seed: u64, steps: u32) -> u32 {
    let mut play = Play::new(seed);
    for step in 0..steps {
        play.what = format!("seed {seed}, step {step}");
        match play.rng.below(20) {
            0..4 if play.spaces[0].areas > 0 => play.area_one(),
            0..10 => play.write_one(),
            10..16 => play.manage_one(),
            16 => play.flush(),
            17 => play.b.run_until(Nanos(play.b.now.0 + 5_000_000)),
            _ => {
                let interruption = match play.rng.below(7) {
                    0 => Interruption::None,
                    1 | 2 => Interruption::ControllerReset,
                    3 => Interruption::Shutdown,
                    4 => Interruption::SubsystemReset,
                    5 => Interruption::PowerCut { energy: true },
                    _ => Interruption::PowerCut { energy: false },
                };
                play.interrupted(interruption);
            }
        }
        if step % 8 == 0 {
            play.check();
        }
    }
    play.what = format!("seed {seed}, the end");
    play.check();
    play.worn
}

#[test]
fn random_commands_resets_and_power_cuts() {
    let number =
        |name: &str, usual| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual);
    let (first, rounds) = (number("TRANCHE_MODEL_FIRST", 1), number("TRANCHE_MODEL_ROUNDS", 12));
    let worn: u32 = (first..first + rounds).map(|seed| play(seed, 300)).sum();
    println!("{rounds} drives, {worn} zones worn out");
    assert!(worn > 0 || rounds < 12, "no zone wears out");
}
