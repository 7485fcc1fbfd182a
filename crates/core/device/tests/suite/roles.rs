//! What administrators, tenants and guests may do, and what they see of each other.

use crate::common::load::{quota, set};
use crate::common::plausible::plausible;
use crate::common::{Bench, bytes, initial, nqn, pattern, small};
use device::{ControllerId, Host, Origin, Role};
use nvme::admin::{
    FaultInjection, FaultKind, FormatNvm, NamespaceAttachment, NamespaceAttachmentSelect,
    NamespaceManagement, NamespaceManagementSelect, PowerCut, SecureErase, SetFeatures,
};
use nvme::feature::{FeatureId, Select};
use nvme::identify::{Cns, ControllerList, IdentifyController};
use nvme::log::{LogId, NamespaceStatistics, SupportedLogPages};
use nvme::property::{Cap, NSSR_NVME, PropertyOffset};
use nvme::quota::{Quota, QuotaKind};
use nvme::zerocopy::FromBytes;
use nvme::{Command, Csi, NSID_ALL, Status};
use proptest::prelude::*;

/// Namespaces 1 to 3: 1 and 2 for everybody, 3 for nobody yet.
fn drive() -> Bench {
    let mut config = small(&[]);
    for set in [1, 2, 1] {
        config.namespaces.push(initial(set, 4 << 20));
    }
    config.namespaces[2].attach = device::Attach::None;
    Bench::new(config)
}

fn host(name: &str, role: Role) -> Host {
    Host { role, ..Host::administrator(nqn(name), [9; 16], Origin::Network) }
}

impl Bench {
    fn status(&mut self, id: ControllerId, command: impl Into<Command>, data: &[u8]) -> Status {
        self.on(id, 0, &command.into(), data).0.status()
    }

    fn neighbours(&mut self, id: ControllerId, cns: Cns, nsid: u32) -> Vec<u16> {
        let (_, data) = self.on(id, 0, &Command::identify(cns, nsid), &[]);
        ControllerList::ref_from_bytes(&data).unwrap().iter().collect()
    }
}

fn format(nsid: u32) -> FormatNvm {
    FormatNvm { nsid, lbaf: 0, mset: false, pi: 0, pil: false, ses: SecureErase::NONE }
}

fn attach(nsid: u32, id: ControllerId, sel: NamespaceAttachmentSelect) -> (NamespaceAttachment, Vec<u8>) {
    (NamespaceAttachment { nsid, sel }, bytes(&ControllerList::new([id.0])))
}

/// What only an administrator does.
fn administration(other: ControllerId) -> Vec<(Command, Vec<u8>)> {
    let manage = |nsid, sel| NamespaceManagement { nsid, sel, csi: Csi::NVM };
    let (detach, list) = attach(1, other, NamespaceAttachmentSelect::DETACH);
    let fault = FaultInjection {
        nsid: 0,
        kind: FaultKind::PORT_DOWN,
        nvmsetid: 1,
        count: 0,
        one_in: 0,
        param: 1,
        lba: None,
    };
    let none = Vec::new();
    let admin =
        |opcode: nvme::AdminOpcode, cdw10: u32| Command { cdw10: cdw10.into(), ..Command::new(opcode.0, 0) };
    vec![
        (manage(0, NamespaceManagementSelect::CREATE).into(), vec![0; 4096]),
        (manage(1, NamespaceManagementSelect::DELETE).into(), none.clone()),
        (manage(NSID_ALL, NamespaceManagementSelect::DELETE).into(), none.clone()),
        (detach.into(), list),
        (admin(nvme::AdminOpcode::FIRMWARE_COMMIT, 1 | 1 << 3), none.clone()),
        (admin(nvme::AdminOpcode::DEVICE_SELF_TEST, 1), none.clone()),
        (admin(nvme::AdminOpcode::SANITIZE, 2), none.clone()),
        (PowerCut { after_media_ops: 0, seed: 0, off_ms: 1, no_plp: false }.into(), none.clone()),
        (fault.into(), none),
    ]
}

#[test]
fn an_administrator_sees_and_does_everything() {
    let mut b = drive();
    let me = b.connect_host(host("admin", Role::Administrator));
    assert_eq!(b.numbers(me, Cns::ALLOCATED_NAMESPACES), [1, 2, 3]);
    let (command, list) = attach(3, me, NamespaceAttachmentSelect::ATTACH);
    assert_eq!(b.status(me, command, &list), Status::SUCCESS);
    assert_eq!(b.status(me, format(2), &[]), Status::SUCCESS);
}

#[test]
fn a_tenant_has_its_own_namespaces_and_no_others() {
    let mut b = drive();
    let me = b.connect_host(host("tenant", Role::Tenant(vec![2, 3, 7])));
    // Nobody attached them: the list of the tenant's namespaces does.
    assert_eq!(b.visible(me), [2, 3]);
    assert_eq!(b.numbers(me, Cns::ALLOCATED_NAMESPACES), [2, 3]);
    // What is not its own is as if it were not there.
    let none = b.status(me, format(9), &[]);
    for command in [
        Command::from(format(1)),
        set(1, false).into(),
        Command::get_features(FeatureId::QUOTA, 1, Select::CURRENT),
    ] {
        assert_eq!(b.status(me, command, &bytes(&Quota::unlimited())), none, "{command:?}");
    }
    for cns in [Cns::NAMESPACE, Cns::ALLOCATED_NAMESPACE, Cns::INDEPENDENT_ALLOCATED_NAMESPACE] {
        let (done, data) = b.on(me, 0, &Command::identify(cns, 1), &[]);
        assert!(done.status().is_success() && data.iter().all(|byte| *byte == 0), "{cns:?}");
    }
    for log in [LogId::SMART, LogId::NAMESPACE_STATISTICS] {
        assert_eq!(b.status(me, Command::get_log_page(log, 1, 0, 0, 512), &[]), none, "{log:?}");
        assert_eq!(b.status(me, Command::get_log_page(log, 2, 0, 0, 512), &[]), Status::SUCCESS);
    }
    assert_eq!(b.status(me, format(2), &[]), Status::SUCCESS);
    // All that it has attached.
    assert_eq!(b.status(me, format(NSID_ALL), &[]), Status::SUCCESS);
    let (io, _) = b.on(me, 1, &Command::read(1, 0, 1), &[]);
    assert!(io.status().is(Status::INVALID_FIELD), "{}", io.status());
}

#[test]
fn formats_of_a_tenant_leave_others_contents_alone() {
    let mut b = drive();
    let data = pattern(7, 4096);
    b.write(1, 0, 1, &data);
    b.write(2, 0, 1, &data);
    let me = b.connect_host(host("tenant", Role::Tenant(vec![2])));
    assert_eq!(b.status(me, format(NSID_ALL), &[]), Status::SUCCESS);
    b.admin_ok(Command::identify(Cns::NAMESPACE, 2), &[]);
    assert_eq!((b.read(1, 0, 1), b.read(2, 0, 1)), (data, vec![0; 4096]));
}

#[test]
fn administration_is_denied_to_tenants_and_guests() {
    for role in [Role::Tenant(vec![1, 2, 3]), Role::Guest] {
        let mut b = drive();
        let (admin, me) = (b.controller, b.connect_host(host("other", role.clone())));
        for (command, data) in administration(admin) {
            assert!(b.status(me, command, &data).is(Status::OPERATION_DENIED), "{role:?} {command:?}");
        }
        let nssr = b.set_property(me, PropertyOffset::NSSR, NSSR_NVME);
        assert!(nssr.is_err_and(|status| status.is(Status::OPERATION_DENIED)));
        let saved = Command::from(SetFeatures { fid: FeatureId::ARBITRATION, ..set(0, true) });
        assert!(b.status(me, saved, &[]).is(Status::OPERATION_DENIED));
        for fid in [FeatureId::TIMESTAMP, FeatureId::FDP, FeatureId::PREDICTABLE_LATENCY_CONFIG] {
            let command = SetFeatures { fid, ..set(0, false) };
            assert!(b.status(me, command, &[0; 512]).is(Status::OPERATION_DENIED), "{fid:?}");
        }
        let own = SetFeatures { fid: FeatureId::ARBITRATION, cdw11: 3, ..set(0, false) };
        assert_eq!(b.status(me, own, &[]), Status::SUCCESS);
        // The first host is still there, and sees the same.
        assert_eq!(b.visible(admin), [1, 2]);
    }
}

#[test]
fn a_guest_uses_what_is_attached_and_changes_nothing() {
    let mut b = drive();
    let me = b.connect_host(host("guest", Role::Guest));
    assert_eq!(b.visible(me), [1, 2]);
    assert_eq!(b.numbers(me, Cns::ALLOCATED_NAMESPACES), [1, 2]);
    assert_eq!(b.on(me, 1, &Command::write(1, 0, 1), &pattern(1, 4096)).0.status(), Status::SUCCESS);
    for nsid in [1, NSID_ALL] {
        assert!(b.status(me, format(nsid), &[]).is(Status::OPERATION_DENIED));
        assert!(b.status(me, set(nsid, false), &bytes(&Quota::unlimited())).is(Status::OPERATION_DENIED));
    }
    // An administrator may attach another to it.
    let (command, list) = attach(3, me, NamespaceAttachmentSelect::ATTACH);
    b.admin_ok(command, &list);
    assert_eq!(b.numbers(me, Cns::ALLOCATED_NAMESPACES), [1, 2, 3]);
}

#[test]
fn hosts_are_offered_what_they_may_do() {
    let mut b = drive();
    for (role, manages, formats) in
        [(Role::Administrator, true, true), (Role::Tenant(vec![1]), false, true), (Role::Guest, false, false)]
    {
        let me = b.connect_host(host("some", role.clone()));
        let (_, data) = b.on(me, 0, &Command::identify(Cns::CONTROLLER, 0), &[]);
        let identify = IdentifyController::ref_from_bytes(&data).unwrap();
        let (oacs, sanicap) = (identify.oacs, identify.sanicap);
        let offered =
            (oacs.nms(), oacs.fwds(), oacs.dsts(), sanicap.bes(), identify.oncs.tss(), oacs.fnvms());
        assert_eq!(offered, (manages, manages, manages, manages, manages, formats), "{role:?}");
        let cap = b.drive.property_get(me, PropertyOffset::CAP, true).unwrap();
        assert_eq!(Cap::from_bits(cap.into()).nssrs(), manages);
        let (_, data) = b.on(me, 0, &Command::get_log_page(LogId::SUPPORTED, 0, 0, 0, 1024), &[]);
        let logs = SupportedLogPages::ref_from_bytes(&data).unwrap();
        for private in [
            LogId::PERSISTENT_EVENT,
            LogId::CONTROLLERS,
            LogId::SET_MAP,
            LogId::DIE_TIMES,
            LogId::INJECTED_FAULTS,
            LogId::TELEMETRY_HOST,
            LogId::DEVICE_SELF_TEST,
        ] {
            assert_eq!(logs.lid[usize::from(private.0)].lsupp(), manages, "{private:?}");
            let by_set = private == LogId::SET_MAP || private == LogId::DIE_TIMES;
            let read = Command::get_log_page(private, 0, u16::from(by_set), 0, 512);
            assert_eq!(b.status(me, read, &[]).is(Status::OPERATION_DENIED), !manages, "{private:?}");
        }
    }
}

#[test]
fn hosts_that_do_not_administer_know_of_their_own_controllers_only() {
    let mut b = drive();
    let first = b.controller;
    let one = b.connect_host(host("tenant", Role::Tenant(vec![1])));
    let two = b.connect_host(host("tenant", Role::Tenant(vec![1])));
    assert_eq!(b.neighbours(one, Cns::CONTROLLERS, 0), [one.0, two.0]);
    assert_eq!(b.neighbours(one, Cns::NAMESPACE_CONTROLLERS, 1), [one.0, two.0]);
    assert_eq!(b.neighbours(first, Cns::CONTROLLERS, 0), [first.0, one.0, two.0]);
    // Totals are those of its namespaces.
    b.write(2, 0, 1, &pattern(1, 4096));
    let (_, data) =
        b.on(one, 0, &Command::get_log_page(LogId::NAMESPACE_STATISTICS, NSID_ALL, 0, 0, 8192), &[]);
    let (mine, _) = NamespaceStatistics::ref_from_prefix(&data).unwrap();
    assert_eq!(mine.host_bytes_written.get(), 0);
}

#[test]
fn an_administrator_cannot_give_a_tenant_what_its_list_does_not_have() {
    let mut b = drive();
    let tenant = b.connect_host(host("tenant", Role::Tenant(vec![2])));
    let (command, list) = attach(1, tenant, NamespaceAttachmentSelect::ATTACH);
    assert!(b.admin(command, &list).0.status().is(Status::OPERATION_DENIED));
    // To take away goes, and is remembered for the host.
    let (command, list) = attach(2, tenant, NamespaceAttachmentSelect::DETACH);
    b.admin_ok(command, &list);
    let again = b.connect_host(host("tenant", Role::Tenant(vec![2])));
    assert!(b.visible(tenant).is_empty() && b.visible(again).is_empty());
}

#[test]
fn a_tenant_limits_itself_within_what_an_administrator_grants() {
    let mut b = drive();
    let (admin, tenant) = (b.controller, b.connect_host(host("tenant", Role::Tenant(vec![1]))));
    let reads = |limit| bytes(&quota(&[(QuotaKind::ReadCommands, limit)]));
    // Without limits it may set any.
    assert_eq!(b.status(tenant, set(1, false), &reads(10)), Status::SUCCESS);
    assert_eq!(b.status(tenant, set(1, false), &bytes(&Quota::unlimited())), Status::SUCCESS);
    assert_eq!(b.status(admin, set(1, true), &reads(1000)), Status::SUCCESS);
    for (limit, save) in [(1001, false), (1001, true)] {
        assert!(b.status(tenant, set(1, save), &reads(limit)).is(Status::OPERATION_DENIED));
    }
    assert!(b.status(tenant, set(1, false), &bytes(&Quota::unlimited())).is(Status::OPERATION_DENIED));
    let heavy = Quota { weight: 1000.into(), ..quota(&[(QuotaKind::ReadCommands, 10)]) };
    assert!(b.status(tenant, set(1, false), &bytes(&heavy)).is(Status::OPERATION_DENIED));
    assert_eq!(b.status(tenant, set(1, true), &reads(10)), Status::SUCCESS);
    // What was granted stays so, also after a loss of power.
    b.cut(true);
    b.power_on();
    let tenant = b.connect_host(host("tenant", Role::Tenant(vec![1])));
    let now: Quota = b.ask(Command::get_features(FeatureId::QUOTA, 1, Select::CURRENT));
    assert_eq!(now.limit(QuotaKind::ReadCommands), Some(10));
    assert!(b.status(tenant, set(1, true), &reads(1001)).is(Status::OPERATION_DENIED));
    assert_eq!(b.status(tenant, set(1, true), &reads(1000)), Status::SUCCESS);
}

#[test]
fn another_role_is_another_view_at_once() {
    let mut b = drive();
    let me = b.connect_host(host("some", Role::Tenant(vec![1])));
    for (role, sees) in [
        (Role::Tenant(vec![1, 3]), vec![1, 3]),
        (Role::Tenant(vec![2]), vec![2]),
        (Role::Tenant(vec![]), vec![]),
        (Role::Administrator, vec![1, 2]),
        (Role::Guest, vec![1, 2]),
    ] {
        let mut out = Vec::new();
        b.drive.set_role(b.now, me, role.clone(), &mut b.memory, &mut out);
        b.deliver(out);
        assert_eq!(b.visible(me), sees, "{role:?}");
        assert_eq!(
            b.status(me, format(3), &[]).is_success(),
            role == Role::Administrator || sees.contains(&3)
        );
    }
}

#[test]
fn nothing_is_attached_and_nobody_knows_of_a_host_before_it_has_proved_itself() {
    let mut b = drive();
    let first = b.controller;
    let unproven = Host { proven: false, ..host("late", Role::Tenant(vec![3])) };
    let late = b.drive.connect(b.now, unproven, 0xFFFF, 0).unwrap();
    assert_eq!(b.neighbours(first, Cns::CONTROLLERS, 0), [first.0]);
    let (command, list) = attach(3, late, NamespaceAttachmentSelect::ATTACH);
    assert!(b.admin(command, &list).0.status().is(Status::CONTROLLER_LIST_INVALID));
    b.drive.prove(late);
    b.enable(late);
    assert_eq!(b.visible(late), [3]);
    assert_eq!(b.neighbours(first, Cns::CONTROLLERS, 0), [first.0, late.0]);
    // To prove itself once more changes nothing.
    let (command, list) = attach(3, late, NamespaceAttachmentSelect::DETACH);
    b.admin_ok(command, &list);
    b.drive.prove(late);
    assert!(b.visible(late).is_empty());
}

/// All that an administrator sees of the drive beside what a tenant of namespace 2 may change.
fn view(b: &mut Bench) -> Vec<(Status, u32, Vec<u8>)> {
    let mut commands = vec![
        Command::identify(Cns::ALLOCATED_NAMESPACES, 0),
        Command::identify(Cns::ACTIVE_NAMESPACES, 0),
        Command::identify(Cns::NAMESPACE_CONTROLLERS, 1),
        Command::get_log_page(LogId::FIRMWARE_SLOT, 0, 0, 0, 512),
        Command::get_log_page(LogId::DEVICE_SELF_TEST, 0, 0, 0, 512),
        Command::get_log_page(LogId::SANITIZE_STATUS, 0, 0, 0, 512),
        Command::get_log_page(LogId::NAMESPACE_STATISTICS, 1, 0, 0, 512),
    ];
    for nsid in [1, 3] {
        commands.extend(
            [Cns::ALLOCATED_NAMESPACE, Cns::IOCS_ALLOCATED_NAMESPACE].map(|cns| Command::identify(cns, nsid)),
        );
        commands.push(Command::get_features(FeatureId::QUOTA, nsid, Select::CURRENT));
        commands.push(Command::get_features(FeatureId::QUOTA, nsid, Select::SAVED));
    }
    for fid in 1..=0xFF {
        commands.push(Command::get_features(FeatureId(fid), 0, Select::SAVED));
    }
    let time = |lid: u32| lid == u32::from(LogId::NAMESPACE_STATISTICS.0);
    let mut seen = Vec::new();
    for command in commands {
        let (done, mut data) = b.admin(command, &[]);
        if command.opc == nvme::AdminOpcode::GET_LOG_PAGE.0 && time(command.cdw10.get() & 0xFF) {
            // How long the drive has power, and the like: what was written and read is below.
            data.clear();
        }
        seen.push((done.status(), done.dw0.get(), data));
    }
    seen.push((Status::SUCCESS, 0, b.read(1, 0, 64)));
    seen
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]
    /// Whatever a tenant or a guest sends, what is not its own stays as it was, and other hosts stay connected.
    #[test]
    fn nothing_that_a_tenant_sends_changes_what_is_not_its_own(
        commands in prop::collection::vec((any::<bool>(), any::<[u32; 12]>()), 1..120),
        guest in any::<bool>(),
    ) {
        let mut b = drive();
        b.write(1, 0, 64, &pattern(1, 64 * 4096));
        let admin = b.controller;
        if guest {
            // It has namespace 2 alone.
            let probe = b.connect_host(host("other", Role::Guest));
            let (command, list) = attach(1, probe, NamespaceAttachmentSelect::DETACH);
            b.admin_ok(command, &list);
            let mut out = Vec::new();
            b.drive.disconnect(b.now, probe, &mut b.memory, &mut out);
            b.deliver(out);
        }
        let role = if guest { Role::Guest } else { Role::Tenant(vec![2]) };
        let me = b.connect_host(host("other", role));
        let before = view(&mut b);
        for (is_admin, numbers) in commands {
            let (command, mut data) = plausible(is_admin, numbers);
            if let nvme::Transfer::ToController(bytes) = b.drive.transfer(me, u16::from(!is_admin), &command) {
                data.resize(bytes as usize, 0x5A);
            }
            b.submit(me, u16::from(!is_admin), &command, &data);
            let until = b.now + media::Nanos(5_000_000);
            b.run_until(until);
        }
        prop_assert!(b.drive.controllers().any(|(id, ..)| id == admin));
        prop_assert_eq!(view(&mut b), before);
    }
}
