//! Reservations of several hosts: what each may do, who is told, what outlives power.

use crate::common::reservations::{
    acquire, connect_hosts, host, join, register, release, report, with_hosts,
};
use crate::common::table::Table;
use crate::common::{Bench, bytes, pattern};
use device::{ControllerId, Drive, Origin};
use media::{Nanos, Rng};
use nvme::admin::*;
use nvme::aer::AsyncEvent;
use nvme::feature::{FeatureId, Select};
use nvme::identify::{Cns, ControllerList, IdentifyController, IdentifyNamespace};
use nvme::io::{Blocks, DsmRange};
use nvme::log::LogId;
use nvme::quota::{Quota, QuotaKind};
use nvme::reservation::*;
use nvme::zerocopy::FromBytes;
use nvme::{AdminCommand, Command, IoCommand, NSID_ALL, Status, U64};
use std::collections::{BTreeMap, BTreeSet};

const SUCCESS: Status = Status::SUCCESS;
const CONFLICT: Status = Status::RESERVATION_CONFLICT;

/// The next notification of a controller, if there is one.
fn notification(b: &mut Bench, id: ControllerId) -> Option<ReservationNotification> {
    let mut command = Command::get_log_page(LogId::RESERVATION_NOTIFICATION, NSID_ALL, 0, 0, 64);
    // RAE off.
    command.cdw10.set(command.cdw10.get() & !(1 << 15));
    let (completion, data) = b.on(id, 0, &command, &[]);
    assert_eq!(completion.status(), SUCCESS);
    let page = ReservationNotification::read_from_bytes(&data).unwrap();
    (page.kind != NotificationType::EMPTY).then_some(page)
}

/// Which commands a host that is not registered, a registrant and the holder may use, with each type: as the figure
/// "Command Behavior in the Presence of a Reservation" of Base 8.1.22 has it, with the groups of NVM 5.
const FIGURE: &str = "
    type  group    other registrant holder
    1     read     A     A          A
    1     write    C     C          A
    1     acquire  C     C          A
    1     release  C     A          A
    1     preempt  C     A          A
    1     rest     A     A          A
    2     read     C     C          A
    2     write    C     C          A
    2     acquire  C     C          A
    2     release  C     A          A
    2     preempt  C     A          A
    2     rest     A     A          A
    3     read     A     A          A
    3     write    C     A          A
    3     acquire  C     C          A
    3     release  C     A          A
    3     preempt  C     A          A
    3     rest     A     A          A
    4     read     C     A          A
    4     write    C     A          A
    4     acquire  C     C          A
    4     release  C     A          A
    4     preempt  C     A          A
    4     rest     A     A          A
    5     read     A     A          A
    5     write    C     A          A
    5     acquire  C     A          A
    5     release  C     A          A
    5     preempt  C     A          A
    5     rest     A     A          A
    6     read     C     A          A
    6     write    C     A          A
    6     acquire  C     A          A
    6     release  C     A          A
    6     preempt  C     A          A
    6     rest     A     A          A
";

/// The commands of a group: name, whether on the admin queue, command, data.
fn commands_of(
    group: &str,
    rtype: u8,
    key: u64,
    me: ControllerId,
) -> Vec<(&'static str, bool, Command, Vec<u8>)> {
    let io = |name, command: IoCommand| (name, false, command.into(), vec![0; 4096]);
    let admin = |name, command: AdminCommand, data: Vec<u8>| (name, true, command.into(), data);
    let blocks = Blocks::new(1, 3, 1);
    let acquire = |action, iekey| {
        let keys = AcquireKeys { crkey: U64::new(key), prkey: U64::new(3) };
        let c = ReservationAcquire { nsid: 1, action, iekey, rtype: ReservationType(rtype) };
        (false, Command::from(c), bytes(&keys))
    };
    match group {
        "read" => vec![
            io("Read", IoCommand::Read(blocks)),
            io("Compare", IoCommand::Compare(blocks)),
            io("Verify", IoCommand::Verify(blocks)),
        ],
        "write" => {
            let list = ControllerList::new([me.0]);
            vec![
                io("Write", IoCommand::Write(blocks)),
                io("Write Zeroes", IoCommand::WriteZeroes(blocks)),
                io("Flush", IoCommand::Flush { nsid: 1 }),
                io("Flush of all namespaces", IoCommand::Flush { nsid: NSID_ALL }),
                ("Dataset Management", false, Command::deallocate(1, 1), bytes(&DsmRange::new(0, 1))),
                admin(
                    "Format NVM",
                    AdminCommand::FormatNvm(FormatNvm {
                        nsid: 1,
                        lbaf: 0,
                        mset: false,
                        pi: 0,
                        pil: false,
                        ses: SecureErase::NONE,
                    }),
                    vec![],
                ),
                admin(
                    "Namespace Attachment",
                    AdminCommand::NamespaceAttachment(NamespaceAttachment {
                        nsid: 1,
                        sel: NamespaceAttachmentSelect::DETACH,
                    }),
                    bytes(&list),
                ),
                admin(
                    "Namespace Management",
                    AdminCommand::NamespaceManagement(NamespaceManagement {
                        nsid: 1,
                        sel: NamespaceManagementSelect::DELETE,
                        csi: nvme::Csi::NVM,
                    }),
                    vec![],
                ),
                admin(
                    "Namespace Management of all",
                    AdminCommand::NamespaceManagement(NamespaceManagement {
                        nsid: NSID_ALL,
                        sel: NamespaceManagementSelect::DELETE,
                        csi: nvme::Csi::NVM,
                    }),
                    vec![],
                ),
            ]
        }
        "acquire" => {
            let (admin, command, data) = acquire(AcquireAction::ACQUIRE, false);
            vec![("Reservation Acquire", admin, command, data)]
        }
        "preempt" => [AcquireAction::PREEMPT, AcquireAction::PREEMPT_AND_ABORT]
            .map(|action| {
                let (admin, command, data) = acquire(action, false);
                ("Preempt", admin, command, data)
            })
            .to_vec(),
        "release" => {
            let c = ReservationRelease {
                nsid: 1,
                action: ReleaseAction::RELEASE,
                iekey: false,
                rtype: ReservationType(rtype),
            };
            vec![("Reservation Release", false, c.into(), key.to_le_bytes().to_vec())]
        }
        "rest" => {
            let keys = RegisterKeys { crkey: U64::ZERO, nrkey: U64::new(key) };
            let c = register(RegisterAction::REGISTER, false, ChangePtpl::NO_CHANGE);
            vec![
                ("Reservation Register", false, c, bytes(&keys)),
                (
                    "Reservation Report",
                    false,
                    ReservationReport { nsid: 1, dwords: 16, eds: true }.into(),
                    vec![],
                ),
                ("Identify", true, Command::identify(Cns::NAMESPACE, 1), vec![]),
                ("Get Log Page", true, Command::get_log_page(LogId::SMART, NSID_ALL, 0, 0, 512), vec![]),
            ]
        }
        other => panic!("no group {other}"),
    }
}

#[test]
fn every_command_does_what_the_figure_says() {
    let rows =
        FIGURE.lines().map(|l| l.split_whitespace().collect::<Vec<_>>()).filter(|r| r.len() == 5).skip(1);
    let mut checked = 0;
    for row in rows {
        let (rtype, group): (u8, _) = (row[0].parse().unwrap(), row[1]);
        for (who, allowed) in row[2..].iter().enumerate() {
            // Hosts 1 to 3: not registered, registrant with key 2, holder with key 3. One more with key 3, so that there
            // is something to preempt whoever does it.
            let count = commands_of(group, rtype, 0, ControllerId(1)).len();
            for which in 0..count {
                let (mut b, hosts) = with_hosts(4, &[]);
                for (n, key) in [(1, 2), (2, 3), (3, 3)] {
                    join(&mut b, hosts[n], key);
                }
                let held = acquire(&mut b, hosts[2], AcquireAction::ACQUIRE, ReservationType(rtype), 3, 0);
                assert_eq!(held, SUCCESS);
                let key = who as u64 + 1;
                let (name, admin, command, data) =
                    commands_of(group, rtype, key, hosts[who]).swap_remove(which);
                let (got, _) = b.on(hosts[who], if admin { 0 } else { 1 }, &command, &data);
                let status = got.status();
                let expected = if *allowed == "A" { SUCCESS } else { CONFLICT };
                assert!(status.is(expected), "type {rtype}, {name}, host {who}: {status}, not {expected}");
                checked += 1;
            }
        }
    }
    assert_eq!(checked, 6 * 3 * 20);
}

#[test]
fn hosts_are_told() {
    let (mut b, hosts) = with_hosts(3, &[]);
    // A second path of host 2, and one that does not have the namespace.
    let path = b.connect_as("host2", host(2), Origin::Network);
    let without = b.connect_as("host2", host(2), Origin::Network);
    let list = ControllerList::new([without.0]);
    b.admin_ok(NamespaceAttachment { nsid: 1, sel: NamespaceAttachmentSelect::DETACH }, &bytes(&list));
    let requests: Vec<u32> = hosts
        .iter()
        .chain([&path])
        .map(|id| b.submit(*id, 0, &AdminCommand::AsyncEventRequest.into(), &[]))
        .collect();
    for (id, key) in hosts.iter().zip(1..) {
        join(&mut b, *id, key);
    }
    let all = ReservationType::WRITE_EXCLUSIVE_REGISTRANTS_ONLY;
    assert_eq!(acquire(&mut b, hosts[0], AcquireAction::ACQUIRE, all, 1, 0), SUCCESS);
    assert_eq!(release(&mut b, hosts[0], ReleaseAction::RELEASE, all, 1), SUCCESS);
    for io in &requests[1..] {
        let event = AsyncEvent::from_dw0(b.wait(*io).0.dw0.get());
        assert_eq!(event, AsyncEvent::reservation());
    }
    assert_eq!(AsyncEvent::reservation().to_dw0(), 0x0080_0006);
    assert!(!b.done.contains_key(&requests[0]), "not the host that did it");
    // More happens before anybody looks: it waits, in order.
    assert_eq!(acquire(&mut b, hosts[0], AcquireAction::PREEMPT, all, 1, 3), SUCCESS);
    assert_eq!(release(&mut b, hosts[0], ReleaseAction::CLEAR, all, 1), SUCCESS);
    let told = |b: &mut Bench, id| {
        let mut all = Vec::new();
        while let Some(page) = notification(b, id) {
            all.push((page.count.get(), page.kind.0, page.available, page.nsid.get()));
        }
        all
    };
    assert_eq!(told(&mut b, hosts[0]), []);
    assert_eq!(told(&mut b, hosts[1]), [(1, 2, 1, 1), (2, 3, 0, 1)]);
    assert_eq!(told(&mut b, path), [(1, 2, 1, 1), (2, 3, 0, 1)]);
    assert_eq!(told(&mut b, hosts[2]), [(1, 2, 1, 1), (2, 1, 0, 1)]);
    assert_eq!(told(&mut b, without), []);
    // A page that was read makes room for the event of the next.
    for (id, key) in hosts.iter().zip(1..) {
        join(&mut b, *id, key);
    }
    for _ in 0..2 {
        assert_eq!(acquire(&mut b, hosts[0], AcquireAction::ACQUIRE, all, 1, 0), SUCCESS);
        assert_eq!(release(&mut b, hosts[0], ReleaseAction::RELEASE, all, 1), SUCCESS);
    }
    for left in [true, false] {
        let io = b.submit(hosts[1], 0, &AdminCommand::AsyncEventRequest.into(), &[]);
        assert_eq!(AsyncEvent::from_dw0(b.wait(io).0.dw0.get()), AsyncEvent::reservation());
        assert_eq!(notification(&mut b, hosts[1]).unwrap().available, u8::from(left));
    }
    // What is masked is not told, on no controller.
    let mask = ReservationMask::new().with_reservation_released(true).into_bits().get();
    let set = Command::set_features(FeatureId::RESERVATION_NOTIFICATION_MASK, 1, mask | 1 << 31);
    assert_eq!(b.on(hosts[0], 0, &set, &[]).0.status(), SUCCESS);
    let get = Command::get_features(FeatureId::RESERVATION_NOTIFICATION_MASK, 1, Select::CURRENT);
    assert_eq!(b.on(hosts[1], 0, &get, &[]).0.dw0.get(), mask);
    assert_eq!(acquire(&mut b, hosts[0], AcquireAction::ACQUIRE, all, 1, 0), SUCCESS);
    assert_eq!(release(&mut b, hosts[0], ReleaseAction::RELEASE, all, 1), SUCCESS);
    assert_eq!(acquire(&mut b, hosts[0], AcquireAction::PREEMPT, all, 1, 2), SUCCESS);
    assert_eq!(told(&mut b, hosts[1]).iter().map(|n| n.1).collect::<Vec<_>>(), [1]);
}

#[test]
fn paths_of_a_host_share_its_registration_and_outlive_it() {
    let (mut b, hosts) = with_hosts(2, &[]);
    let path = b.connect_as("host1", host(1), Origin::Unix);
    join(&mut b, hosts[0], 1);
    assert_eq!(
        acquire(&mut b, path, AcquireAction::ACQUIRE, ReservationType::EXCLUSIVE_ACCESS, 1, 0),
        SUCCESS
    );
    let read = |b: &mut Bench, id| b.on(id, 1, &Command::read(1, 0, 1), &[]).0.status();
    assert_eq!(read(&mut b, hosts[0]), SUCCESS);
    assert_eq!(read(&mut b, path), SUCCESS);
    assert!(read(&mut b, hosts[1]).is(CONFLICT));
    assert!(read(&mut b, hosts[1]).dnr());
    assert_eq!(
        b.on(hosts[1], 1, &Command::read(2, 0, 1), &[]).0.status(),
        SUCCESS,
        "the other namespace is free"
    );
    // The host comes back on new controllers, and after a format.
    for id in [hosts[0], path] {
        let mut out = Vec::new();
        b.drive.disconnect(b.now, id, &mut b.memory, &mut out);
    }
    let again = b.connect_as("host1", host(1), Origin::Network);
    let format = FormatNvm { nsid: 1, lbaf: 0, mset: false, pi: 0, pil: false, ses: SecureErase::NONE };
    assert_eq!(b.on(again, 0, &format.into(), &[]).0.status(), SUCCESS);
    assert_eq!(read(&mut b, again), SUCCESS);
    assert!(read(&mut b, hosts[1]).is(CONFLICT));
    // The others look at what has become of the namespace.
    b.on(hosts[1], 0, &Command::identify(Cns::NAMESPACE, 1), &[]);
    let (header, entries) = report(&mut b, hosts[1]);
    assert_eq!((header.rtype.0, header.registrants.get(), header.generation.get()), (2, 1, 1));
    assert_eq!(
        (entries[0].hostid, entries[0].rkey.get(), entries[0].rcsts, entries[0].cntlid.get()),
        (host(1), 1, 1, 0xFFFF)
    );
    // Deleted with its namespace; what gets the same identifier is free.
    let delete = NamespaceManagement { nsid: 1, sel: NamespaceManagementSelect::DELETE, csi: nvme::Csi::NVM };
    assert_eq!(b.on(again, 0, &delete.into(), &[]).0.status(), SUCCESS);
    assert_eq!(b.create_attached(1, 64), 1);
    let owner = b.controller;
    b.on(owner, 0, &Command::identify(Cns::NAMESPACE, 1), &[]);
    assert_eq!(report(&mut b, owner).0.registrants.get(), 0);
    assert_eq!(read(&mut b, owner), SUCCESS);
}

/// Two machines that were copied from one image: they have one NQN, and perhaps one Host Identifier.
#[test]
fn one_name_with_two_host_identifiers_is_two_hosts_and_with_one_is_one() {
    let (mut b, hosts) = with_hosts(1, &[]);
    let [other, same] = [9, 1].map(|id| b.connect_as("host1", host(id), Origin::Network));
    join(&mut b, hosts[0], 1);
    let exclusive = ReservationType::EXCLUSIVE_ACCESS;
    assert_eq!(acquire(&mut b, hosts[0], AcquireAction::ACQUIRE, exclusive, 1, 0), SUCCESS);
    let read = |b: &mut Bench, id| b.on(id, 1, &Command::read(1, 0, 1), &[]).0.status();
    assert_eq!(read(&mut b, same), SUCCESS);
    assert!(read(&mut b, other).is(CONFLICT));
    join(&mut b, other, 2);
    let (header, entries) = report(&mut b, hosts[0]);
    assert_eq!(header.registrants.get(), 2);
    let mut ids: Vec<_> = entries.iter().map(|entry| entry.hostid).collect();
    ids.sort_unstable();
    assert_eq!(ids, [host(1), host(9)]);
    assert!(read(&mut b, other).is(CONFLICT), "a registrant that does not hold it");
}

#[test]
fn what_persists_through_power_losses() {
    for (persistent, by_feature, energy) in [
        (false, false, true),
        (true, false, true),
        (true, false, false),
        (true, true, true),
        (false, true, true),
    ] {
        let (mut b, hosts) = with_hosts(2, &[]);
        let keys = |key| bytes(&RegisterKeys { crkey: U64::ZERO, nrkey: U64::new(key) });
        let cptpl = if persistent != by_feature { ChangePtpl::SET } else { ChangePtpl::NO_CHANGE };
        let command = register(RegisterAction::REGISTER, false, cptpl);
        assert_eq!(b.on(hosts[0], 1, &command, &keys(1)).0.status(), SUCCESS);
        join(&mut b, hosts[1], 2);
        if by_feature {
            let set = Command::set_features(FeatureId::RESERVATION_PERSISTENCE, 1, persistent.into());
            assert_eq!(b.on(hosts[1], 0, &set, &[]).0.status(), SUCCESS);
        }
        let get = Command::get_features(FeatureId::RESERVATION_PERSISTENCE, 1, Select::CURRENT);
        assert_eq!(b.admin_ok(get, &[]).0, u32::from(persistent));
        let rtype = ReservationType::WRITE_EXCLUSIVE;
        assert_eq!(acquire(&mut b, hosts[0], AcquireAction::ACQUIRE, rtype, 1, 0), SUCCESS);
        let before = report(&mut b, hosts[0]);
        // A power cut, and the same state opened by a new process.
        b.cut(energy);
        b.power_on();
        let saved = b.drive.save();
        let config = b.drive.config().clone();
        let mut memory = std::mem::take(&mut b.memory);
        let restored = Drive::restore(config, &saved).unwrap().finish(Nanos(5), &mut memory).unwrap();
        for mut b in [b, Bench::around(restored, memory)] {
            let hosts = connect_hosts(&mut b, 2);
            let after = report(&mut b, hosts[0]);
            assert_eq!(b.admin_ok(get, &[]).0, u32::from(persistent));
            let write = b.on(hosts[1], 1, &Command::write(1, 0, 1), &pattern(1, 4096)).0.status();
            if persistent {
                assert_eq!(after, before);
                assert!(write.is(CONFLICT));
            } else {
                assert_eq!((after.0, after.1.len()), (ReservationStatusExtended::default(), 0));
                assert_eq!(write, SUCCESS);
            }
        }
    }
}

#[test]
fn preempt_and_abort_waits_for_what_it_aborts() {
    let (mut b, hosts) = with_hosts(3, crate::common::TIMED_SMALL);
    join(&mut b, hosts[0], 1);
    join(&mut b, hosts[1], 2);
    let rtype = ReservationType::WRITE_EXCLUSIVE_REGISTRANTS_ONLY;
    assert_eq!(acquire(&mut b, hosts[1], AcquireAction::ACQUIRE, rtype, 2, 0), SUCCESS);
    let theirs: Vec<u32> =
        (0..20).map(|n| b.submit(hosts[1], 1, &Command::write(1, n, 1), &pattern(n as u32, 4096))).collect();
    let elsewhere = b.submit(hosts[1], 1, &Command::write(2, 0, 1), &pattern(1, 4096));
    let third = b.submit(hosts[2], 1, &Command::read(1, 0, 1), &[]);
    let own = b.submit(hosts[0], 1, &Command::write(1, 30, 1), &pattern(1, 4096));
    let command =
        ReservationAcquire { nsid: 1, action: AcquireAction::PREEMPT_AND_ABORT, iekey: false, rtype };
    let keys = AcquireKeys { crkey: U64::new(1), prkey: U64::new(2) };
    let preempt = b.submit(hosts[0], 1, &command.into(), &bytes(&keys));
    b.run_until(Nanos::MAX);
    let ended = b.done[&preempt];
    assert_eq!(ended.0.status(), SUCCESS);
    for io in theirs {
        assert!(b.done[&io].0.status().is(Status::ABORTED_PREEMPT));
        assert!(b.done[&io].1 <= ended.1, "it ends before the command that aborts it");
    }
    for io in [elsewhere, third, own] {
        assert_eq!(b.done[&io].0.status(), SUCCESS);
    }
    let (header, entries) = report(&mut b, hosts[0]);
    assert_eq!((header.rtype, entries.len(), entries[0].hostid), (rtype, 1, host(1)));
    let write = b.on(hosts[1], 1, &Command::write(1, 0, 1), &pattern(1, 4096)).0.status();
    assert!(write.is(CONFLICT));
}

#[test]
fn preempt_and_abort_ends_what_a_quota_holds() {
    let (mut b, hosts) = with_hosts(2, &[]);
    join(&mut b, hosts[0], 1);
    join(&mut b, hosts[1], 2);
    let mut quota = Quota::unlimited();
    quota.set_limit(QuotaKind::WriteCommands, Some(1));
    let set = SetFeatures {
        nsid: 1,
        fid: FeatureId::QUOTA,
        sv: false,
        uidx: 0,
        cdw11: 0,
        cdw12: 0,
        cdw13: 0,
        cdw15: 0,
    };
    b.admin_ok(set, &bytes(&quota));
    let theirs: Vec<u32> =
        (0..20).map(|n| b.submit(hosts[1], 1, &Command::write(1, n, 1), &pattern(9, 4096))).collect();
    let held: Vec<u32> = theirs.iter().copied().filter(|io| !b.done.contains_key(io)).collect();
    assert!(!held.is_empty());
    let one = ReservationType::WRITE_EXCLUSIVE;
    assert_eq!(acquire(&mut b, hosts[0], AcquireAction::PREEMPT_AND_ABORT, one, 1, 2), SUCCESS);
    for io in held {
        assert!(b.done[&io].0.status().is(Status::ABORTED_PREEMPT));
        assert_eq!(b.done[&io].1, Nanos::ZERO, "without waiting for the quota");
    }
    assert_eq!(b.read(1, 19, 1), vec![0; 4096]);
}

#[test]
fn it_is_advertised() {
    let mut b = Bench::with_namespaces(&[]);
    let controller: IdentifyController = b.ask(Command::identify(Cns::CONTROLLER, 0));
    assert!(controller.oncs.reservs() && controller.ctratt.hids());
    let namespace: IdentifyNamespace = b.ask(Command::identify(Cns::NAMESPACE, 1));
    assert_eq!(namespace.rescap.into_bits(), 0xFF);
}

/// What the specification says of registrations, reservations and keys, in sets.
#[derive(Default)]
struct Model {
    keys: BTreeMap<u8, u64>,
    held: Option<(ReservationType, BTreeSet<u8>)>,
    generation: u32,
}

impl Model {
    fn all(rtype: ReservationType) -> bool {
        rtype.0 >= 5
    }

    fn holders(&self) -> BTreeSet<u8> {
        match &self.held {
            Some((rtype, _)) if Self::all(*rtype) => self.keys.keys().copied().collect(),
            Some((_, holders)) => holders.clone(),
            None => BTreeSet::new(),
        }
    }

    fn drop_host(&mut self, host: u8) {
        self.keys.remove(&host);
        if let Some((rtype, holders)) = &mut self.held {
            holders.remove(&host);
            let gone = if Self::all(*rtype) { self.keys.is_empty() } else { holders.is_empty() };
            if gone {
                self.held = None;
            }
        }
    }

    fn register(&mut self, host: u8, action: u8, iekey: bool, current: u64, new: u64) -> bool {
        let mine = self.keys.get(&host).copied();
        let known = mine.is_some_and(|key| iekey || key == current);
        let ok = match action {
            0 => mine.is_none_or(|key| key == new),
            1 => known,
            _ => known || (iekey && mine.is_none()),
        };
        if ok {
            if action == 1 {
                self.drop_host(host);
            } else {
                self.keys.insert(host, new);
            }
            self.generation += 1;
        }
        ok
    }

    fn acquire(&mut self, host: u8, action: u8, rtype: ReservationType, current: u64, other: u64) -> Status {
        if self.keys.get(&host) != Some(&current) {
            return CONFLICT;
        }
        let holders = self.holders();
        if action == 0 {
            return match &self.held {
                None => {
                    self.held = Some((rtype, [host].into()));
                    SUCCESS
                }
                Some((held, _)) if *held == rtype && holders.contains(&host) => SUCCESS,
                Some(_) => CONFLICT,
            };
        }
        let matching: Vec<u8> =
            self.keys.iter().filter(|(_, key)| **key == other).map(|(host, _)| *host).collect();
        let held = self.held.as_ref().map(|(held, _)| *held);
        let all = held.is_some_and(Self::all);
        let replace = |model: &mut Self, gone: Vec<u8>| {
            model.held = Some((rtype, [host].into()));
            for h in gone.into_iter().filter(|h| *h != host) {
                model.drop_host(h);
            }
        };
        if all && other == 0 {
            let everyone = self.keys.keys().copied().collect();
            replace(self, everyone);
        } else if held.is_some() && !all && matching.iter().any(|h| holders.contains(h)) {
            replace(self, matching);
        } else if held.is_some() && !all && other == 0 {
            return Status::INVALID_FIELD;
        } else if matching.is_empty() {
            return CONFLICT;
        } else {
            for h in matching {
                self.drop_host(h);
            }
        }
        self.generation += 1;
        SUCCESS
    }

    fn release(&mut self, host: u8, action: u8, rtype: ReservationType, current: u64) -> Status {
        if self.keys.get(&host) != Some(&current) {
            return CONFLICT;
        }
        if action == 1 {
            self.keys.clear();
            self.held = None;
            self.generation += 1;
        } else if self.holders().contains(&host) {
            if self.held.as_ref().is_some_and(|(held, _)| *held != rtype) {
                return Status::INVALID_FIELD;
            }
            self.held = None;
        }
        SUCCESS
    }

    fn may(&self, host: u8, write: bool) -> bool {
        let Some((rtype, _)) = &self.held else { return true };
        self.holders().contains(&host)
            || match rtype.0 {
                1 => !write,
                3 => !write || self.keys.contains_key(&host),
                4 => self.keys.contains_key(&host),
                5 => !write,
                _ => false,
            }
    }
}

/// Hosts that do anything, against sets.
#[test]
fn random_histories_agree_with_the_model() {
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let (mut b, hosts) = with_hosts(4, &[]);
        let mut model = Model::default();
        for step in 0..400 {
            let n = 1 + rng.below(4) as u8;
            let id = hosts[usize::from(n) - 1];
            let rtype = ReservationType(1 + rng.below(6) as u8);
            // Mostly the right key.
            let mut key = || rng.below(4);
            let (current, other) = (key(), key());
            let current =
                if rng.below(4) > 0 { model.keys.get(&n).copied().unwrap_or(current) } else { current };
            let at = format!("seed {seed}, step {step}, host {n}, {rtype}, keys {current} {other}");
            match rng.below(8) {
                0..3 => {
                    let (action, iekey) = (rng.below(3) as u8, rng.below(3) == 0);
                    let command = register(RegisterAction(action), iekey, ChangePtpl::NO_CHANGE);
                    let keys = RegisterKeys { crkey: U64::new(current), nrkey: U64::new(other) };
                    let got = b.on(id, 1, &command, &bytes(&keys)).0.status();
                    let ok = model.register(n, action, iekey, current, other);
                    assert!(
                        got.is(if ok { SUCCESS } else { CONFLICT }),
                        "{at}: register {action} {iekey}: {got}"
                    );
                }
                3..6 => {
                    let action = rng.below(3) as u8;
                    let got = acquire(&mut b, id, AcquireAction(action), rtype, current, other);
                    let expected = model.acquire(n, action, rtype, current, other);
                    assert!(got.is(expected), "{at}: acquire {action}: {got}, not {expected}");
                }
                _ => {
                    let action = u8::from(rng.below(8) == 0);
                    // Mostly the right type.
                    let held = model.held.as_ref().map(|(held, _)| *held).filter(|_| rng.below(4) > 0);
                    let rtype = held.unwrap_or(rtype);
                    let got = release(&mut b, id, ReleaseAction(action), rtype, current);
                    let expected = model.release(n, action, rtype, current);
                    assert!(got.is(expected), "{at}: release {action}: {got}, not {expected}");
                }
            }
            let (header, entries) = report(&mut b, id);
            assert_eq!(header.generation.get(), model.generation, "{at}");
            assert_eq!(header.rtype, model.held.as_ref().map(|h| h.0).unwrap_or_default(), "{at}");
            let found: BTreeMap<_, _> =
                entries.iter().map(|e| (e.hostid[0], (e.rkey.get(), e.rcsts != 0))).collect();
            let holders = model.holders();
            let expected: BTreeMap<_, _> =
                model.keys.iter().map(|(host, key)| (*host, (*key, holders.contains(host)))).collect();
            assert_eq!(found, expected, "{at}");
            for (n, id) in (1..).zip(&hosts) {
                for (write, command) in [(false, Command::read(1, 0, 1)), (true, Command::write(1, 0, 1))] {
                    let got = b.on(*id, 1, &command, &[7; 4096]).0.status();
                    let expected = if model.may(n, write) { SUCCESS } else { CONFLICT };
                    assert!(got.is(expected), "{at}: host {n}, write {write}: {got}");
                }
            }
        }
    }
}

#[test]
fn refused_reservations() {
    let (mut b, hosts) = with_hosts(1, &[("[drive]", "[drive]\nmax_transfer = \"64KiB\"")]);
    let nobody = b.connect_as("nobody", host(0), Origin::Network);
    let me = hosts[0];
    let id: IdentifyController = b.ask(Command::identify(Cns::CONTROLLER, 0));
    assert!(id.ctratt.rhii(), "hosts are told that they need an identifier");
    join(&mut b, me, 1);
    const FIELD: Status = Status::INVALID_FIELD;
    let keys = |a: u64, b: u64| [a.to_le_bytes(), b.to_le_bytes()].concat();
    let cdw10 = |command: Command, cdw10| Command { cdw10: nvme::U32::new(cdw10), ..command };
    let registers = register(RegisterAction::REGISTER, false, ChangePtpl::NO_CHANGE);
    let one = ReservationType::WRITE_EXCLUSIVE;
    let acquires = |iekey, rtype| {
        Command::from(ReservationAcquire { nsid: 1, action: AcquireAction::ACQUIRE, iekey, rtype })
    };
    let releases = |iekey, rtype| {
        Command::from(ReservationRelease { nsid: 1, action: ReleaseAction::RELEASE, iekey, rtype })
    };
    let reports = |nsid, dwords, eds| Command::from(ReservationReport { nsid, dwords, eds });
    let set = |fid, nsid| Command::set_features(fid, nsid, 1);
    let save = |fid| {
        let c = SetFeatures { nsid: 1, fid, sv: true, uidx: 0, cdw11: 1, cdw12: 0, cdw13: 0, cdw15: 0 };
        Command::from(c)
    };
    let get = |fid, nsid| Command::get_features(fid, nsid, Select::CURRENT);
    let mut table = Table::new("Reservations", "reservations.rs", "refused_reservations");
    let (mask, persistence) = (FeatureId::RESERVATION_NOTIFICATION_MASK, FeatureId::RESERVATION_PERSISTENCE);
    for (name, id, qid, command, data, status) in [
        ("reserved RREGA", me, 1, cdw10(registers, 3), keys(1, 1), FIELD),
        ("reserved CPTPL", me, 1, cdw10(registers, 1 << 30), keys(1, 1), FIELD),
        (
            "register with half of its data",
            me,
            1,
            registers,
            keys(1, 1)[..8].to_vec(),
            Status::DATA_SGL_LENGTH_INVALID,
        ),
        ("another key", me, 1, registers, keys(0, 2), CONFLICT),
        (
            "register without a host identifier",
            nobody,
            1,
            registers,
            keys(0, 1),
            Status::HOST_ID_NOT_INITIALIZED,
        ),
        ("reserved RACQA", me, 1, cdw10(acquires(false, one), 1 << 8 | 3), keys(1, 0), FIELD),
        ("type 0", me, 1, acquires(false, ReservationType(0)), keys(1, 0), FIELD),
        ("type 7", me, 1, acquires(false, ReservationType(7)), keys(1, 0), FIELD),
        ("acquire with IEKEY", me, 1, acquires(true, one), keys(1, 0), FIELD),
        ("acquire with another key", me, 1, acquires(false, one), keys(2, 0), CONFLICT),
        (
            "acquire without a host identifier",
            nobody,
            1,
            acquires(false, one),
            keys(1, 0),
            Status::HOST_ID_NOT_INITIALIZED,
        ),
        ("reserved RRELA", me, 1, cdw10(releases(false, one), 1 << 8 | 2), keys(1, 0), FIELD),
        ("release with IEKEY", me, 1, releases(true, one), keys(1, 0), FIELD),
        ("release with another key", me, 1, releases(false, one), keys(2, 0), CONFLICT),
        ("release what is not held", me, 1, releases(false, one), keys(1, 0), SUCCESS),
        ("acquire", me, 1, acquires(false, one), keys(1, 0), SUCCESS),
        ("acquire another type", me, 1, acquires(false, ReservationType(2)), keys(1, 0), CONFLICT),
        ("release another type", me, 1, releases(false, ReservationType(2)), keys(1, 0), FIELD),
        (
            "a short host identifier in a report",
            me,
            1,
            reports(1, 16, false),
            vec![],
            Status::HOST_ID_INCONSISTENT,
        ),
        ("a report larger than MDTS", me, 1, reports(1, 16385, true), vec![], FIELD),
        ("a report larger than 32 bits", me, 1, reports(1, 1 << 32, true), vec![], FIELD),
        ("a report without a host identifier", nobody, 1, reports(1, 1, true), vec![], SUCCESS),
        ("a report of all", me, 1, reports(NSID_ALL, 16, true), vec![], Status::INVALID_NAMESPACE),
        ("a report of what is not there", me, 1, reports(9, 16, true), vec![], FIELD),
        ("the mask of all", me, 0, set(mask, NSID_ALL), vec![], SUCCESS),
        ("the mask of none", me, 0, set(mask, 0), vec![], Status::INVALID_NAMESPACE),
        ("the mask of what is not there", me, 0, set(mask, 9), vec![], FIELD),
        ("save the mask", me, 0, save(mask), vec![], Status::FEATURE_NOT_SAVEABLE),
        ("ask for the mask of all", me, 0, get(mask, NSID_ALL), vec![], FIELD),
        ("save persistence", me, 0, save(persistence), vec![], Status::FEATURE_NOT_SAVEABLE),
        ("ask for the persistence of all", me, 0, get(persistence, NSID_ALL), vec![], FIELD),
    ] {
        let got = b.on(id, qid, &command, &data).0.status();
        table.check(name, qid == 0, &command, got, status);
    }
    table.finish();
}

/// What hosts can make the drive keep is bounded.
#[test]
fn registrants_are_limited() {
    let mut b = Bench::with_namespaces(&[]);
    let mut statuses = Vec::new();
    for n in 0..300u32 {
        let mut id = [1; 16];
        id[..4].copy_from_slice(&n.to_le_bytes());
        let controller = b.connect_as("many", id, Origin::Network);
        let command = register(RegisterAction::REGISTER, false, ChangePtpl::NO_CHANGE);
        let keys = RegisterKeys { crkey: U64::ZERO, nrkey: U64::new(1) };
        statuses.push(b.on(controller, 1, &command, &bytes(&keys)).0.status());
    }
    assert!(statuses[..256].iter().all(|s| s.is_success()));
    assert!(statuses[256..].iter().all(|s| s.is(Status::INTERNAL_ERROR)));
}
