//! Reservation commands of several hosts, as tests send them.

use super::{Bench, bytes};
use device::{ControllerId, Origin};
use nvme::reservation::*;
use nvme::zerocopy::FromBytes;
use nvme::{Command, Status, U64};

const SUCCESS: Status = Status::SUCCESS;

/// Hosts of the tests, by their Host Identifier's bytes.
pub fn host(n: u8) -> [u8; 16] {
    [n; 16]
}

/// A drive with two shared namespaces, and the controllers of hosts 1 to `count`, of which the first is the bench's own.
pub fn with_hosts(count: u8, changes: &[(&str, &str)]) -> (Bench, Vec<ControllerId>) {
    let mut b = Bench::with_namespaces(changes);
    let hosts = connect_hosts(&mut b, count);
    (b, hosts)
}

pub fn connect_hosts(b: &mut Bench, count: u8) -> Vec<ControllerId> {
    (1..=count).map(|n| b.connect_as(&format!("host{n}"), host(n), Origin::Network)).collect()
}

pub fn register(action: RegisterAction, iekey: bool, cptpl: ChangePtpl) -> Command {
    ReservationRegister { nsid: 1, action, iekey, cptpl }.into()
}

/// Registers with a key.
pub fn join(b: &mut Bench, id: ControllerId, key: u64) {
    let command = register(RegisterAction::REGISTER, false, ChangePtpl::NO_CHANGE);
    let keys = RegisterKeys { crkey: U64::ZERO, nrkey: U64::new(key) };
    assert_eq!(b.on(id, 1, &command, &bytes(&keys)).0.status(), SUCCESS);
}

pub fn acquire(
    b: &mut Bench,
    id: ControllerId,
    action: AcquireAction,
    rtype: ReservationType,
    crkey: u64,
    prkey: u64,
) -> Status {
    let command = ReservationAcquire { nsid: 1, action, iekey: false, rtype };
    let keys = AcquireKeys { crkey: U64::new(crkey), prkey: U64::new(prkey) };
    b.on(id, 1, &command.into(), &bytes(&keys)).0.status()
}

pub fn release(
    b: &mut Bench,
    id: ControllerId,
    action: ReleaseAction,
    rtype: ReservationType,
    crkey: u64,
) -> Status {
    let command = ReservationRelease { nsid: 1, action, iekey: false, rtype };
    b.on(id, 1, &command.into(), &crkey.to_le_bytes()).0.status()
}

pub fn report(b: &mut Bench, id: ControllerId) -> (ReservationStatusExtended, Vec<RegistrantExtended>) {
    let command = ReservationReport { nsid: 1, dwords: 1024, eds: true };
    let (completion, data) = b.on(id, 1, &command.into(), &[]);
    assert_eq!(completion.status(), SUCCESS);
    let (header, rest) = ReservationStatusExtended::read_from_prefix(&data).unwrap();
    let count = usize::from(header.registrants.get());
    let entries = rest.chunks(64).take(count).map(|e| RegistrantExtended::read_from_bytes(e).unwrap());
    let entries = entries.collect();
    assert!(rest[count * 64..].iter().all(|b| *b == 0));
    (header, entries)
}
