//! Attacks with names, identifiers and reservations that belong to others.

use crate::attack::Attack;
use crate::drive::{
    BYSTANDER_NSID, FORMATTED_NSID, FULL_NSID, OWN_NSIDS, PLACED_NSID, SHARED_NSID, World, ZONED_NSID, nqn,
};
use crate::wire::{Association, Stop, Tally, flood, persist, succeeds};
use host::{Data, Identity, SocketQueue};
use nvme::admin::{FormatNvm, SecureErase};
use nvme::reservation::{
    AcquireAction, AcquireKeys, ChangePtpl, RegisterAction, RegisterKeys, ReleaseAction, ReservationAcquire,
    ReservationRegister, ReservationRelease, ReservationType,
};
use nvme::zerocopy::IntoBytes;
use nvme::{Command, NSID_ALL, Nsid, U64};

pub const ATTACKS: &[Attack] = &[
    Attack::new("victims-identifier", victims_identifier),
    Attack::new("victims-identifier-in-other-forms", other_forms),
    Attack::new("identifier-before-its-host", identifier_before_its_host),
    Attack::new("reservation-churn", reservation_churn),
    Attack::new("registrants-without-end", registrants),
    Attack::new("reserved-format-all", reserved_format_all),
];

/// Any key but zero.
const KEY: u64 = 0x666;
/// The key that the victim uses: no secret, as a report of reservations shows it.
const VICTIMS_KEY: u64 = 0x1234_5678;

pub fn register(nsid: Nsid, action: RegisterAction, iekey: bool, keys: (u64, u64)) -> (Command, Data) {
    let command = ReservationRegister { nsid, action, iekey, cptpl: ChangePtpl::NO_CHANGE };
    let keys = RegisterKeys { crkey: U64::new(keys.0), nrkey: U64::new(keys.1) };
    (command.into(), Data::Out(keys.as_bytes().to_vec()))
}

fn acquire(nsid: Nsid, action: AcquireAction, rtype: ReservationType, keys: (u64, u64)) -> (Command, Data) {
    let command = ReservationAcquire { nsid, action, iekey: false, rtype };
    let keys = AcquireKeys { crkey: U64::new(keys.0), prkey: U64::new(keys.1) };
    (command.into(), Data::Out(keys.as_bytes().to_vec()))
}

fn release(nsid: Nsid, action: ReleaseAction, rtype: ReservationType, key: u64) -> (Command, Data) {
    let command = ReservationRelease { nsid, action, iekey: false, rtype };
    (command.into(), Data::Out(key.to_le_bytes().to_vec()))
}

/// Does with a reservation whatever its holder could do.
fn usurp(queue: &mut SocketQueue, stop: &Stop, world: &World, how: &str) -> Tally {
    let held = ReservationType::EXCLUSIVE_ACCESS;
    let attempts = [
        ("a write", (Command::write(SHARED_NSID, 0, 1), Data::Out(vec![0x66; 4096]))),
        ("a read", (Command::read(SHARED_NSID, 0, 1), Data::room(4096))),
        ("Release", release(SHARED_NSID, ReleaseAction::RELEASE, held, VICTIMS_KEY)),
        ("Clear", release(SHARED_NSID, ReleaseAction::CLEAR, held, VICTIMS_KEY)),
        ("Preempt", acquire(SHARED_NSID, AcquireAction::PREEMPT, held, (VICTIMS_KEY, VICTIMS_KEY))),
        ("Unregister", register(SHARED_NSID, RegisterAction::UNREGISTER, false, (VICTIMS_KEY, 0))),
    ];
    let mut tally = Tally::default();
    for (what, (command, data)) in attempts {
        let passed = succeeds(queue, command, data, stop);
        if passed {
            world.violation(format!("{how}: {what} passed the victim's reservation"));
        }
        tally.count(passed);
    }
    // A registrant of its own may do so: whether it is its own, the registrants say afterwards.
    for action in [RegisterAction::REPLACE, RegisterAction::UNREGISTER] {
        let (command, data) = register(SHARED_NSID, action, true, (0, KEY));
        tally.count(succeeds(queue, command, data, &Stop::default()));
    }
    tally
}

/// The hostile tenant, with the victim's Host Identifier and its own name. It is refused, or it is somebody else.
fn as_victim(world: &World, stop: &Stop, hostid: [u8; 16]) -> Tally {
    let identity = Identity { hostid, ..Identity::new(nqn("hostile")) };
    let mut tally = Tally::default();
    match Association::open(world, &identity, world.source(1), 0) {
        Ok(mut tenant) => match tenant.queue(world, 8) {
            Ok(mut queue) => tally += usurp(&mut queue, stop, world, "with the victim's Host Identifier"),
            Err(_) => tally.count(false),
        },
        Err(_) => tally.count(false),
    }
    tally
}

fn victims_identifier(world: &World, stop: &Stop) -> Tally {
    let mut tally = Tally::default();
    while !stop.is_set() {
        tally += as_victim(world, stop, World::victim_identity().hostid);
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    tally
}

/// A queue of the hostile tenant's controller that says another identifier, and the victim's name in other spellings.
fn other_forms(world: &World, stop: &Stop) -> Tally {
    let mut tally = Tally::default();
    let victim = World::victim_identity();
    while !stop.is_set() {
        // The admin queue has its own identifier, and the I/O queue the victim's.
        if let Ok(tenant) = Association::open(world, &Identity::new(nqn("hostile")), world.source(1), 0) {
            let mixed = Identity { hostid: victim.hostid, ..Identity::new(nqn("hostile")) };
            if let Ok(mut queue) = crate::wire::queue(world, world.source(1), 8)
                && crate::wire::connect_queue(&mut queue, &mixed, &world.subsystem, (1, tenant.cntlid), 0)
                    .is_ok()
            {
                tally += usurp(&mut queue, stop, world, "with the victim's Host Identifier on a queue");
            }
        }
        for name in ["Victim", "victim ", "VICTIM", "victim.", "victim:"] {
            let Ok(name) = nvme::Nqn::new(&format!("nqn.2026-11.test:{name}")) else { continue };
            let identity = Identity { hostid: victim.hostid, ..Identity::new(name) };
            let opened = Association::open(world, &identity, world.source(1), 0).is_ok();
            if opened {
                world.violation(format!("a host connects as {name}, which is not on the list"));
            }
            tally.count(opened);
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    tally
}

/// The hostile tenant uses an identifier before the host that it belongs to comes for the first time.
fn identifier_before_its_host(world: &World, stop: &Stop) -> Tally {
    let mut tally = Tally::default();
    let newcomer = Identity::new(nqn(&format!("newcomer{}", world.newcomer())));
    let squatter = Identity { hostid: newcomer.hostid, ..Identity::new(nqn("hostile")) };
    let held = Association::open(world, &squatter, world.source(1), 0);
    tally.count(held.is_ok());
    let arrived = || -> Result<bool, String> {
        let mut tenant = Association::open(world, &newcomer, world.source(2), 0)?;
        let mut queue = tenant.queue(world, 8)?;
        let (command, data) = register(BYSTANDER_NSID, RegisterAction::REGISTER, true, (0, 1));
        let registered = succeeds(&mut queue, command, data, &Stop::default());
        let (command, data) = register(BYSTANDER_NSID, RegisterAction::UNREGISTER, true, (0, 0));
        succeeds(&mut queue, command, data, &Stop::default());
        Ok(registered)
    };
    match arrived() {
        Ok(true) => {}
        Ok(false) => world.violation("a host whose identifier was taken before cannot register"),
        Err(error) => {
            world.violation(format!("a host whose identifier was taken before is locked out: {error}"))
        }
    }
    // An identifier is not taken for good either: it serves its tenant again.
    let own = Association::open(world, &Identity::new(nqn("hostile")), world.source(1), 0);
    if let Err(error) = &own {
        world.violation(format!("the tenant cannot come back with its own identifier: {error}"));
    }
    stop.wait();
    tally
}

/// Registers, acquires, preempts and clears, with persistence through power loss.
fn reservation_churn(world: &World, stop: &Stop) -> Tally {
    persist(world, stop, |tenant| {
        let mut queue = tenant.queue(world, 128)?;
        let commands = (0..).map(|n| {
            let (nsid, rtype) = (OWN_NSIDS[(n / 8 % 3) as usize], ReservationType::ALL[(n / 8 % 6) as usize]);
            match n % 8 {
                0 => {
                    let action = RegisterAction::REGISTER;
                    let command = ReservationRegister { nsid, action, iekey: true, cptpl: ChangePtpl::SET };
                    let keys = RegisterKeys { crkey: U64::new(0), nrkey: U64::new(KEY) };
                    (command.into(), Data::Out(keys.as_bytes().to_vec()))
                }
                1 => acquire(nsid, AcquireAction::ACQUIRE, rtype, (KEY, 0)),
                2 => acquire(nsid, AcquireAction::PREEMPT, rtype, (KEY, KEY)),
                3 => acquire(nsid, AcquireAction::PREEMPT_AND_ABORT, rtype, (KEY, KEY)),
                4 => release(nsid, ReleaseAction::RELEASE, rtype, KEY),
                5 => release(nsid, ReleaseAction::CLEAR, rtype, KEY),
                6 => register(nsid, RegisterAction::REPLACE, true, (0, KEY)),
                _ => register(nsid, RegisterAction::UNREGISTER, true, (0, 0)),
            }
        });
        Ok(flood(&mut queue, 32, commands, stop))
    })
}

/// Registers one identifier after another with the namespaces that it may use. The victim registers anew all the same.
fn registrants(world: &World, stop: &Stop) -> Tally {
    let mut tally = Tally::default();
    for number in 0u64.. {
        if stop.is_set() {
            break;
        }
        let mut hostid = Identity::new(nqn("hostile")).hostid;
        hostid[..8].copy_from_slice(&number.to_le_bytes());
        let identity = Identity { hostid, ..Identity::new(nqn("hostile")) };
        let opened = Association::open(world, &identity, world.source(1), 0);
        let registered = opened.and_then(|mut tenant| {
            let mut queue = tenant.queue(world, 8)?;
            let (command, data) = register(FULL_NSID, RegisterAction::REGISTER, true, (0, KEY));
            Ok(succeeds(&mut queue, command, data, stop))
        });
        tally.count(registered == Ok(true));
    }
    // Nothing of it stays.
    if let Ok(mut tenant) = Association::open(world, &Identity::new(nqn("hostile")), world.source(1), 0)
        && let Ok(mut queue) = tenant.queue(world, 8)
    {
        for (command, data) in [
            register(FULL_NSID, RegisterAction::REGISTER, true, (0, KEY)),
            release(FULL_NSID, ReleaseAction::CLEAR, ReservationType::WRITE_EXCLUSIVE, KEY),
        ] {
            succeeds(&mut queue, command, data, &Stop::default());
        }
    }
    tally
}

/// The hostile tenant reserves what it has, and a bystander formats all that is its own.
fn reserved_format_all(world: &World, stop: &Stop) -> Tally {
    let mut tally = Tally::default();
    let mut tenant = world.hostile();
    let mut queue = tenant.queue(world, 8).expect("a queue");
    for nsid in [FULL_NSID, FORMATTED_NSID, ZONED_NSID, PLACED_NSID] {
        let (command, data) = register(nsid, RegisterAction::REGISTER, true, (0, KEY));
        tally.count(succeeds(&mut queue, command, data, stop));
        let rtype = ReservationType::EXCLUSIVE_ACCESS;
        let (command, data) = acquire(nsid, AcquireAction::ACQUIRE, rtype, (KEY, 0));
        tally.count(succeeds(&mut queue, command, data, stop));
    }
    let format =
        FormatNvm { nsid: NSID_ALL, lbaf: 0, mset: false, pi: 0, pil: false, ses: SecureErase::NONE };
    match Association::open(world, &Identity::new(nqn("bystander")), world.source(2), 0) {
        Ok(mut bystander) => {
            if !succeeds(&mut bystander.admin, format, Data::None, &Stop::default()) {
                world.violation(
                    "a reservation of another tenant's namespaces keeps a host from formatting its own",
                );
            }
        }
        Err(error) => world.violation(format!("a bystander cannot connect: {error}")),
    }
    stop.wait();
    for nsid in [FULL_NSID, FORMATTED_NSID, ZONED_NSID, PLACED_NSID] {
        let (command, data) = release(nsid, ReleaseAction::CLEAR, ReservationType::EXCLUSIVE_ACCESS, KEY);
        succeeds(&mut queue, command, data, &Stop::default());
    }
    tally
}
