//! Whether a controller may reach a namespace: attachment, its path (ANA) and reservations.

use super::controller::{Controller, ControllerId};
use super::failure::Failure;
use super::namespace::{Admission, Namespace};
use super::state::Core;
use nvme::admin::AdminCommand;
use nvme::command::AdminOpcode;
use nvme::command_table::{self, ReservationGroup};
use nvme::log::AnaState;
use nvme::{NSID_ALL, Status};

/// The only ANA group.
pub(crate) const ANA_GROUP: u32 = 1;

impl Core {
    /// The namespace, if it is attached to this controller and open.
    #[inline]
    pub(crate) fn attached(&self, id: ControllerId, nsid: u32) -> Result<&Namespace, Failure> {
        let controller = self.controllers.get(id).ok_or_else(|| closed(None))?;
        is_open(controller.ana)?;
        let open = controller.is_open(nsid);
        match self.namespaces.get(nsid) {
            Some(ns) if open && ns.admission == Admission::Open && !ns.locked => Ok(ns),
            Some(ns) if open && ns.locked => Err(Status::ACCESS_DENIED.into()),
            Some(ns) if open => Err(Failure::transient(ns.admission.refusal())),
            _ => Err(self.not_open(id, nsid)),
        }
    }

    /// A host that has not identified the namespace that now has this identifier means another one, or another format.
    #[cold]
    fn not_open(&self, id: ControllerId, nsid: u32) -> Failure {
        match self.controllers.get(id) {
            Some(controller) if controller.is_attached(nsid) => {
                Failure { location: 4, ..Status::INVALID_NAMESPACE.into() }
            }
            _ => self.no_namespace(nsid),
        }
    }

    /// Base 3.2.1.4: an identifier that no namespace could have is invalid; one that is not
    /// attached is an invalid field.
    #[cold]
    pub(crate) fn no_namespace(&self, nsid: u32) -> Failure {
        if self.namespaces.is_valid(nsid) {
            Failure::field(4)
        } else {
            Failure { location: 4, ..Status::INVALID_NAMESPACE.into() }
        }
    }

    /// A set that can only be read keeps what it has.
    pub(crate) fn refuse_read_only(&self, nsid: u32) -> Result<(), Failure> {
        match self.namespaces.get(nsid) {
            Some(ns) if self.is_read_only(ns.set) => Err(Status::WRITE_TO_READ_ONLY_RANGE.into()),
            _ => Ok(()),
        }
    }

    /// Whether a controller's way to the namespaces is open (Base 8.1.1.4 to 8.1.1.8): otherwise commands that access
    /// one fail with a path related status, so that the host tries another controller.
    #[inline]
    pub(crate) fn check_access(&self, id: ControllerId) -> Result<(), Failure> {
        match self.controllers.get(id) {
            Some(controller) => is_open(controller.ana),
            None => Err(closed(None)),
        }
    }

    /// Whether reservations let a command of an I/O queue pass. A namespace that is not attached is refused later,
    /// for that reason.
    #[inline]
    pub(crate) fn check_reservation(&self, id: ControllerId, opcode: u8, nsid: u32) -> Result<(), Failure> {
        match self.namespaces.get(nsid) {
            Some(ns) if ns.reservations.is_none() => Ok(()),
            None if nsid != NSID_ALL => Ok(()),
            _ => self.check_reserved(id, group(opcode, false), nsid, |c, nsid| c.is_attached(nsid)),
        }
    }

    /// The same for a command of the admin queue. Sanitize is about all namespaces, and FFFFFFFFh means all; of a format, those that
    /// are attached to the controller.
    pub(crate) fn check_admin_reservation(
        &self,
        id: ControllerId,
        opcode: u8,
        nsid: u32,
    ) -> Result<(), Failure> {
        let all = AdminOpcode(opcode) == AdminOpcode::SANITIZE;
        let attached = AdminOpcode(opcode) == AdminOpcode::FORMAT_NVM && nsid == NSID_ALL;
        self.check_reserved(id, group(opcode, true), if all { NSID_ALL } else { nsid }, |c, nsid| {
            !attached || c.is_attached(nsid)
        })
    }

    #[cold]
    pub(crate) fn check_reserved(
        &self,
        id: ControllerId,
        group: ReservationGroup,
        nsid: u32,
        concerns: impl Fn(&Controller, u32) -> bool,
    ) -> Result<(), Failure> {
        let controller = self.controller(id)?;
        let permits = |nsid: u32, ns: &Namespace| {
            let reservations = ns.reservations.as_ref().filter(|_| concerns(controller, nsid));
            reservations.is_none_or(|r| r.permits(&controller.reservation_host(), group))
        };
        let permitted = match self.namespaces.get(nsid) {
            Some(ns) => permits(nsid, ns),
            None => nsid != NSID_ALL || self.namespaces.iter().all(|(nsid, ns)| permits(nsid, ns)),
        };
        if permitted { Ok(()) } else { Err(Status::RESERVATION_CONFLICT.into()) }
    }

    /// Whether a controller's host may have this command carried out.
    ///
    /// # Errors
    /// Operation Denied; for a namespace that the host may not know of, what it gets for one that does not exist.
    pub(crate) fn check_role(
        &self,
        id: ControllerId,
        opcode: AdminOpcode,
        command: &AdminCommand,
    ) -> Result<(), Failure> {
        let controller = self.controller(id)?;
        let role = &controller.role;
        if role.is_administrator() {
            return Ok(());
        }
        // A namespace that an administrator detached can be looked at, and not changed.
        let one_of_others = |nsid: u32| nsid != 0 && nsid != NSID_ALL && !controller.is_attached(nsid);
        let allowed = role.has_command(opcode)
            && match command {
                AdminCommand::GetLogPage(c) => role.reads(c.lid),
                AdminCommand::SetFeatures(c) => role.sets(c),
                _ => true,
            };
        match command {
            AdminCommand::FormatNvm(c) if one_of_others(c.nsid) => Err(self.no_namespace(c.nsid)),
            _ if !allowed => Err(Status::OPERATION_DENIED.into()),
            _ => Ok(()),
        }
    }

    /// A namespace, unless the host of a controller may not know of it.
    ///
    /// # Errors
    /// What names of namespaces that do not exist get.
    pub(crate) fn seen(&self, id: ControllerId, nsid: u32) -> Result<&Namespace, Failure> {
        let sees = self.controller(id)?.sees(nsid);
        self.namespaces.get(nsid).filter(|_| sees).ok_or_else(|| self.no_namespace(nsid))
    }

    /// Controllers that the host of a controller may know of, in order.
    pub(crate) fn seen_controllers(&self, id: ControllerId) -> impl Iterator<Item = ControllerId> {
        let viewer = self.controllers.get(id);
        let seen = move |other: &Controller| viewer.is_some_and(|viewer| viewer.sees_controller(other));
        self.controllers.iter().filter(move |(_, other)| seen(other)).map(|(other, _)| other)
    }
}

/// Whether a way in this state is open.
#[inline]
pub(super) fn is_open(state: AnaState) -> Result<(), Failure> {
    match state {
        AnaState::OPTIMIZED | AnaState::NON_OPTIMIZED => Ok(()),
        state => Err(closed(Some(state))),
    }
}

/// Why a command cannot reach its namespace; another controller, or a later time, may.
#[cold]
fn closed(state: Option<AnaState>) -> Failure {
    Failure::transient(match state {
        Some(AnaState::INACCESSIBLE) => Status::ANA_INACCESSIBLE,
        Some(AnaState::PERSISTENT_LOSS) => Status::ANA_PERSISTENT_LOSS,
        Some(_) => Status::ANA_TRANSITION,
        None => Status::COMMAND_SEQUENCE_ERROR,
    })
}

/// The group of a command.
fn group(opcode: u8, admin: bool) -> ReservationGroup {
    command_table::of(opcode, admin).map_or(ReservationGroup::Other, |info| info.reservation)
}
