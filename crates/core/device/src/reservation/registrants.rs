//! The reservations of one namespace (Base 8.1.22): who registered, who holds, and what others may do.
//!
//! A host is its Host Identifier and its NQN ([`ReservationHost`]). All controllers that gave the same ones in Connect share a
//! registration, which stays when they are gone. A namespace without registrants has no [`Reservations`] at all: its commands only look at a pointer.

use super::hosts::ReservationHost;
use nvme::Status;
use nvme::command_table::ReservationGroup;
use nvme::reservation::{
    AcquireAction, NotificationType, RegisterAction, RegistrantExtended, ReleaseAction, ReservationMask,
    ReservationStatusExtended, ReservationType,
};
use nvme::zerocopy::IntoBytes;
use nvme::{CNTLID_DYNAMIC, U16, U32, U64};
use serde::{Deserialize, Serialize};

/// Registrants of one namespace, at most. Hosts cannot make the drive keep more.
const MAX_REGISTRANTS: usize = 256;

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Registrant {
    host: ReservationHost,
    key: u64,
}

/// Who holds a namespace, and how.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct HeldReservation {
    /// A [`ReservationType`].
    rtype: u8,
    /// The host that acquired it. With the types for all registrants, every registrant holds it as well.
    by: ReservationHost,
}

impl HeldReservation {
    fn rtype(&self) -> ReservationType {
        ReservationType(self.rtype)
    }
}

/// Registrations and reservation of one namespace.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Reservations {
    /// In the order in which they came.
    registrants: Vec<Registrant>,
    held: Option<HeldReservation>,
    generation: u32,
    /// Persist Through Power Loss State (FID 83h).
    pub persistent: bool,
    /// Reservation Notification Mask (FID 82h).
    #[serde(skip)]
    pub mask: u8,
}

/// A notification for hosts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ReservationNotice {
    pub kind: NotificationType,
    pub hosts: Vec<ReservationHost>,
}

/// What a command changed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct ReservationChange {
    pub notices: Vec<ReservationNotice>,
    /// Hosts whose registrations were preempted: Preempt and Abort aborts their commands.
    pub preempted: Vec<ReservationHost>,
}

impl ReservationChange {
    fn tell(&mut self, kind: NotificationType, hosts: Vec<ReservationHost>) {
        if !hosts.is_empty() {
            self.notices.push(ReservationNotice { kind, hosts });
        }
    }
}

const CONFLICT: Status = Status::RESERVATION_CONFLICT;

impl Reservations {
    fn find(&self, host: &ReservationHost) -> Option<&Registrant> {
        self.registrants.iter().find(|r| r.host.is(host))
    }

    fn holds(&self, host: &ReservationHost) -> bool {
        let by = |held: &HeldReservation| held.by.is(host) || held.rtype().is_all_registrants();
        self.held.as_ref().is_some_and(by) && self.find(host).is_some()
    }

    fn others(&self, host: &ReservationHost) -> Vec<ReservationHost> {
        self.registrants.iter().map(|r| r.host).filter(|h| !h.is(host)).collect()
    }

    /// Whether this host is registered with this key.
    fn authenticate(&self, host: &ReservationHost, key: u64) -> Result<(), Status> {
        if self.find(host).is_some_and(|r| r.key == key) { Ok(()) } else { Err(CONFLICT) }
    }

    /// A registration that an older image knows by its Host Identifier alone is from now on this host's.
    fn bind(&mut self, host: &ReservationHost) {
        let held = self.held.iter_mut().map(|held| &mut held.by);
        for known in
            self.registrants.iter_mut().map(|r| &mut r.host).chain(held).filter(|known| known.is(host))
        {
            *known = *host;
        }
    }

    fn changed(&mut self) {
        self.generation = self.generation.wrapping_add(1);
    }

    /// Whether it says nothing that a namespace without it would not say.
    pub fn is_blank(&self) -> bool {
        *self == Reservations::default()
    }

    /// Base 7.6, and 8.1.22 "Registering" and "Unregistering".
    pub fn register(
        &mut self,
        host: &ReservationHost,
        action: RegisterAction,
        ignore_key: bool,
        current: u64,
        new: u64,
    ) -> Result<ReservationChange, Status> {
        self.bind(host);
        let mut change = ReservationChange::default();
        let registered = self.registrants.iter().position(|r| r.host.is(host));
        match (action, registered) {
            (RegisterAction::REGISTER, Some(i)) if self.registrants[i].key != new => return Err(CONFLICT),
            (RegisterAction::REGISTER, Some(_)) => {}
            (RegisterAction::UNREGISTER, Some(i)) => {
                if !ignore_key && self.registrants[i].key != current {
                    return Err(CONFLICT);
                }
                self.unregister(host, &mut change);
            }
            (RegisterAction::REPLACE, Some(i)) => {
                let registrant = &mut self.registrants[i];
                if !ignore_key && registrant.key != current {
                    return Err(CONFLICT);
                }
                registrant.key = new;
            }
            // With IEKEY the status of the registration does not matter either.
            (RegisterAction::REPLACE, None) if !ignore_key => return Err(CONFLICT),
            (RegisterAction::REGISTER | RegisterAction::REPLACE, None) => {
                if self.registrants.len() >= MAX_REGISTRANTS {
                    return Err(Status::INTERNAL_ERROR);
                }
                self.registrants.push(Registrant { host: *host, key: new });
            }
            _ => return Err(CONFLICT),
        }
        self.changed();
        Ok(change)
    }

    /// Takes a registration away, and the reservation with it if this was its (last) holder.
    fn unregister(&mut self, host: &ReservationHost, change: &mut ReservationChange) {
        self.registrants.retain(|r| !r.host.is(host));
        let Some(held) = &self.held else { return };
        let rtype = held.rtype();
        let ends = if rtype.is_all_registrants() { self.registrants.is_empty() } else { held.by.is(host) };
        if ends {
            self.held = None;
            if !rtype.is_exclusive_to_holder() {
                change.tell(NotificationType::RESERVATION_RELEASED, self.others(host));
            }
        }
    }

    /// Base 7.5, and 8.1.22 "Acquiring a Reservation" and "Preempting a Reservation or Registration".
    pub fn acquire(
        &mut self,
        host: &ReservationHost,
        action: AcquireAction,
        rtype: ReservationType,
        current: u64,
        preempt: u64,
    ) -> Result<ReservationChange, Status> {
        self.authenticate(host, current)?;
        self.bind(host);
        if action != AcquireAction::ACQUIRE {
            return self.preempt(host, rtype, preempt);
        }
        match &self.held {
            // A holder that asks for what it has is no conflict.
            Some(held) if held.rtype() == rtype && self.holds(host) => {}
            Some(_) => return Err(CONFLICT),
            None => self.held = Some(HeldReservation { rtype: rtype.0, by: *host }),
        }
        Ok(ReservationChange::default())
    }

    fn preempt(
        &mut self,
        host: &ReservationHost,
        rtype: ReservationType,
        key: u64,
    ) -> Result<ReservationChange, Status> {
        let matching = |r: &&Registrant| r.key == key;
        let matches: Vec<ReservationHost> =
            self.registrants.iter().filter(matching).map(|r| r.host).collect();
        let held = self.held.as_ref().map(HeldReservation::rtype);
        let of_holder = self.held.as_ref().is_some_and(|h| matches.contains(&h.by));
        let all = held.is_some_and(ReservationType::is_all_registrants);
        let (gone, takes): (Vec<ReservationHost>, bool) = match held {
            Some(_) if all && key == 0 => (self.others(host), true),
            Some(_) if !all && of_holder => (matches.into_iter().filter(|h| !h.is(host)).collect(), true),
            Some(_) if !all && key == 0 => return Err(Status::INVALID_FIELD),
            _ if matches.is_empty() => return Err(CONFLICT),
            _ => (matches, false),
        };
        let mut change = ReservationChange::default();
        if takes {
            self.held = Some(HeldReservation { rtype: rtype.0, by: *host });
        }
        for each in &gone {
            self.unregister(each, &mut change);
        }
        if takes && held != Some(rtype) {
            change.tell(NotificationType::RESERVATION_RELEASED, self.others(host));
        }
        let told = gone.iter().copied().filter(|h| !h.is(host)).collect();
        change.tell(NotificationType::REGISTRATION_PREEMPTED, told);
        change.preempted = gone;
        self.changed();
        Ok(change)
    }

    /// Base 7.7, and 8.1.22 "Releasing a Reservation" and "Clearing a Reservation".
    pub fn release(
        &mut self,
        host: &ReservationHost,
        action: ReleaseAction,
        rtype: ReservationType,
        current: u64,
    ) -> Result<ReservationChange, Status> {
        self.authenticate(host, current)?;
        self.bind(host);
        let mut change = ReservationChange::default();
        if action == ReleaseAction::CLEAR {
            change.tell(NotificationType::RESERVATION_PREEMPTED, self.others(host));
            self.registrants.clear();
            self.held = None;
            self.changed();
            return Ok(change);
        }
        // Nothing to release is no mistake.
        let Some(held) = self.held.as_ref().filter(|_| self.holds(host)) else { return Ok(change) };
        if held.rtype() != rtype {
            return Err(Status::INVALID_FIELD);
        }
        self.held = None;
        if !rtype.is_exclusive_to_holder() {
            change.tell(NotificationType::RESERVATION_RELEASED, self.others(host));
        }
        Ok(change)
    }

    /// The extended report. (Hosts have identifiers of 128 bits, so there is no other; Base 7.8.)
    pub fn report(&self) -> Vec<u8> {
        let header = ReservationStatusExtended {
            generation: U32::new(self.generation),
            rtype: self.held.as_ref().map(HeldReservation::rtype).unwrap_or_default(),
            registrants: U16::new(self.registrants.len() as u16),
            ptpls: self.persistent.into(),
            ..ReservationStatusExtended::default()
        };
        let mut report = header.as_bytes().to_vec();
        for registrant in &self.registrants {
            let entry = RegistrantExtended {
                cntlid: U16::new(CNTLID_DYNAMIC),
                rcsts: self.holds(&registrant.host).into(),
                rkey: U64::new(registrant.key),
                hostid: registrant.host.id,
                ..RegistrantExtended::default()
            };
            report.extend_from_slice(entry.as_bytes());
        }
        report
    }

    /// Power was lost. What does not persist is gone; notifications are no longer masked.
    pub fn power_lost(&mut self) {
        if !self.persistent {
            *self = Reservations::default();
        }
        self.mask = 0;
    }

    /// Whether the host may use a command of this group.
    pub fn permits(&self, host: &ReservationHost, group: ReservationGroup) -> bool {
        let Some(held) = &self.held else { return true };
        if group == ReservationGroup::Other || self.holds(host) {
            return true;
        }
        let [other, registrant] = ACCESS[usize::from(held.rtype - 1)];
        let access = if self.find(host).is_some() { registrant } else { other };
        match group {
            ReservationGroup::Read => access != Access::Nothing,
            _ => access == Access::Everything,
        }
    }

    /// Whether a notification of this kind is kept back.
    pub fn masks(&self, kind: NotificationType) -> bool {
        self.mask >> kind.0 & 1 != 0
    }

    /// Whether what was read from an image could be.
    pub fn check(&self) -> Result<(), &'static str> {
        let known = |h: &HeldReservation| h.rtype().name().is_some() && self.find(&h.by).is_some();
        let all = |h: &HeldReservation| h.rtype().is_all_registrants() && !self.registrants.is_empty();
        let mut hosts: Vec<_> = self.registrants.iter().map(|r| r.host).collect();
        hosts.sort_unstable();
        hosts.dedup();
        if self.registrants.len() > MAX_REGISTRANTS || hosts.len() != self.registrants.len() {
            return Err("has too many registrants, or one of them twice");
        }
        if !self.held.as_ref().is_none_or(|h| known(h) || all(h)) {
            return Err("is reserved for nobody who is registered");
        }
        Ok(())
    }
}

/// What a host that is not the holder may do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Access {
    Nothing,
    Reads,
    Everything,
}

/// By type from 1: a host that is not registered, one that is.
const ACCESS: [[Access; 2]; 6] = {
    use Access::{Everything, Nothing, Reads};
    [
        [Reads, Reads],
        [Nothing, Nothing],
        [Reads, Everything],
        [Nothing, Everything],
        [Reads, Everything],
        [Nothing, Everything],
    ]
};

/// Bits of a mask that mean something (FID 82h).
pub(crate) const MASK_BITS: u32 = ReservationMask::new()
    .with_registration_preempted(true)
    .with_reservation_released(true)
    .with_reservation_preempted(true)
    .into_bits()
    .get();

#[cfg(test)]
mod tests {
    use super::*;

    const A: ReservationHost = ReservationHost { id: [1; 16], nqn: None };
    const B: ReservationHost = ReservationHost { id: [2; 16], nqn: None };

    fn named(id: u8, name: &str) -> ReservationHost {
        ReservationHost { id: [id; 16], nqn: Some(nvme::Nqn::new(name).unwrap()) }
    }

    #[test]
    fn a_registration_of_an_older_image_belongs_to_the_first_host_that_uses_it() {
        let text = format!(
            r#"{{"registrants":[{{"host":{0},"key":10}}],"held":{{"rtype":1,"by":{0}}},"generation":1,"persistent":true}}"#,
            serde_json::to_string(&A.id).unwrap()
        );
        let mut r: Reservations = serde_json::from_str(&text).unwrap();
        assert_eq!(r.check(), Ok(()));
        let (first, second) = (named(1, "nqn.2026-11.test:a"), named(1, "nqn.2026-11.test:b"));
        assert!(r.permits(&first, ReservationGroup::Write));
        r.register(&first, RegisterAction::REPLACE, false, 10, 11).unwrap();
        assert!(r.permits(&first, ReservationGroup::Write) && !r.permits(&second, ReservationGroup::Write));
        let saved: Reservations = serde_json::from_str(&serde_json::to_string(&r).unwrap()).unwrap();
        assert_eq!((saved.check(), &saved), (Ok(()), &r));
    }

    fn registered() -> Reservations {
        let mut r = Reservations::default();
        r.register(&A, RegisterAction::REGISTER, false, 0, 10).unwrap();
        r.register(&B, RegisterAction::REGISTER, false, 0, 20).unwrap();
        r
    }

    #[test]
    fn a_holder_keeps_others_out_until_it_releases() {
        let mut r = registered();
        let exclusive = ReservationType::EXCLUSIVE_ACCESS;
        r.acquire(&A, AcquireAction::ACQUIRE, exclusive, 10, 0).unwrap();
        assert!(r.permits(&A, ReservationGroup::Read) && !r.permits(&B, ReservationGroup::Read));
        assert!(r.acquire(&B, AcquireAction::ACQUIRE, exclusive, 20, 0).is_err());
        assert!(r.release(&A, ReleaseAction::RELEASE, exclusive, 99).is_err(), "the wrong key");
        r.release(&A, ReleaseAction::RELEASE, exclusive, 10).unwrap();
        assert!(r.permits(&B, ReservationGroup::Read));
    }

    #[test]
    fn a_preempted_host_is_told_and_loses_its_registration() {
        let mut r = registered();
        let rtype = ReservationType::WRITE_EXCLUSIVE;
        r.acquire(&A, AcquireAction::ACQUIRE, rtype, 10, 0).unwrap();
        let change = r.acquire(&B, AcquireAction::PREEMPT, rtype, 20, 10).unwrap();
        assert_eq!(change.preempted, [A]);
        let told = ReservationNotice { kind: NotificationType::REGISTRATION_PREEMPTED, hosts: vec![A] };
        assert_eq!(change.notices, [told]);
        assert!(!r.permits(&A, ReservationGroup::Write) && r.permits(&B, ReservationGroup::Write));
        assert_eq!(r.check(), Ok(()));
    }

    #[test]
    fn power_takes_what_does_not_persist() {
        let mut r = registered();
        (r.persistent, r.mask) = (true, 2);
        r.power_lost();
        assert!(!r.is_blank() && r.mask == 0);
        r.persistent = false;
        r.power_lost();
        assert!(r.is_blank());
    }
}
