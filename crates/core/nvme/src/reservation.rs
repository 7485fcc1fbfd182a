//! Reservations (Base 8.1.22): the commands, their data, and what a report and a notification say.

use crate::{Command, IoOpcode, Nsid, Status, U16, U32, U64};

open_enum! {
    /// Reservation Type (RTYPE; Base 7.5, "Reservation Type Encoding"). 0 is no reservation.
    pub struct ReservationType: u8 {
        /// Write Exclusive: only the holder writes.
        WRITE_EXCLUSIVE = 1 => "Write Exclusive",
        /// Exclusive Access: only the holder reads and writes.
        EXCLUSIVE_ACCESS = 2 => "Exclusive Access",
        /// Write Exclusive - Registrants Only: every registrant writes.
        WRITE_EXCLUSIVE_REGISTRANTS_ONLY = 3 => "Write Exclusive - Registrants Only",
        /// Exclusive Access - Registrants Only: every registrant reads and writes.
        EXCLUSIVE_ACCESS_REGISTRANTS_ONLY = 4 => "Exclusive Access - Registrants Only",
        /// Write Exclusive - All Registrants: every registrant is a holder.
        WRITE_EXCLUSIVE_ALL_REGISTRANTS = 5 => "Write Exclusive - All Registrants",
        /// Exclusive Access - All Registrants: every registrant is a holder.
        EXCLUSIVE_ACCESS_ALL_REGISTRANTS = 6 => "Exclusive Access - All Registrants",
    }
}

impl ReservationType {
    /// All types, by number.
    pub const ALL: [Self; 6] = [
        Self::WRITE_EXCLUSIVE,
        Self::EXCLUSIVE_ACCESS,
        Self::WRITE_EXCLUSIVE_REGISTRANTS_ONLY,
        Self::EXCLUSIVE_ACCESS_REGISTRANTS_ONLY,
        Self::WRITE_EXCLUSIVE_ALL_REGISTRANTS,
        Self::EXCLUSIVE_ACCESS_ALL_REGISTRANTS,
    ];

    /// Whether every registrant is a holder.
    #[must_use]
    pub const fn is_all_registrants(self) -> bool {
        self.0 == Self::WRITE_EXCLUSIVE_ALL_REGISTRANTS.0
            || self.0 == Self::EXCLUSIVE_ACCESS_ALL_REGISTRANTS.0
    }

    /// Whether it belongs to one holder and lets nobody else in because of a registration.
    #[must_use]
    pub const fn is_exclusive_to_holder(self) -> bool {
        self.0 == Self::WRITE_EXCLUSIVE.0 || self.0 == Self::EXCLUSIVE_ACCESS.0
    }
}

open_enum! {
    /// Reservation Register Action (RREGA; Base 7.6).
    pub struct RegisterAction: u8 {
        /// Register Reservation Key.
        REGISTER = 0 => "Register Reservation Key",
        /// Unregister Reservation Key.
        UNREGISTER = 1 => "Unregister Reservation Key",
        /// Replace Reservation Key.
        REPLACE = 2 => "Replace Reservation Key",
    }
}

open_enum! {
    /// Change Persist Through Power Loss State (CPTPL; Base 7.6).
    pub struct ChangePtpl: u8 {
        /// No change.
        NO_CHANGE = 0 => "No change to PTPL state",
        /// Reservations are released and registrants cleared at power on.
        CLEAR = 2 => "Clear PTPL state to 0",
        /// Reservations and registrants persist across a power loss.
        SET = 3 => "Set PTPL state to 1",
    }
}

open_enum! {
    /// Reservation Acquire Action (RACQA; Base 7.5).
    pub struct AcquireAction: u8 {
        /// Acquire.
        ACQUIRE = 0 => "Acquire",
        /// Preempt.
        PREEMPT = 1 => "Preempt",
        /// Preempt and Abort.
        PREEMPT_AND_ABORT = 2 => "Preempt and Abort",
    }
}

open_enum! {
    /// Reservation Release Action (RRELA; Base 7.7).
    pub struct ReleaseAction: u8 {
        /// Release.
        RELEASE = 0 => "Release",
        /// Clear.
        CLEAR = 1 => "Clear",
    }
}

open_enum! {
    /// Reservation Notification Log Page Type (Base 5.1.12.1.32).
    pub struct NotificationType: u8 {
        /// Nothing to tell.
        EMPTY = 0 => "Empty Log Page",
        /// The host's registration was preempted.
        REGISTRATION_PREEMPTED = 1 => "Registration Preempted",
        /// The reservation was released, or its type changed.
        RESERVATION_RELEASED = 2 => "Reservation Released",
        /// Reservation and registrations were cleared.
        RESERVATION_PREEMPTED = 3 => "Reservation Preempted",
    }
}

/// Reservation Register (Base 7.6); its data is a [`RegisterKeys`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReservationRegister {
    /// Namespace Identifier.
    pub nsid: Nsid,
    /// Reservation Register Action.
    pub action: RegisterAction,
    /// Ignore Existing Key (IEKEY).
    pub iekey: bool,
    /// Change Persist Through Power Loss State.
    pub cptpl: ChangePtpl,
}

/// Reservation Report (Base 7.8); with EDS the answer is a [`ReservationStatusExtended`] with its registrants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReservationReport {
    /// Namespace Identifier.
    pub nsid: Nsid,
    /// Number of dwords to return, counted from one (the wire's NUMD counts from zero): 1 to 2^32.
    pub dwords: u64,
    /// Extended Data Structure (EDS): host identifiers of 128 bits.
    pub eds: bool,
}

impl ReservationReport {
    /// Bytes to return.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.dwords * 4
    }
}

/// Reservation Acquire (Base 7.5); its data is an [`AcquireKeys`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReservationAcquire {
    /// Namespace Identifier.
    pub nsid: Nsid,
    /// Reservation Acquire Action.
    pub action: AcquireAction,
    /// Ignore Existing Key (IEKEY): must not be set.
    pub iekey: bool,
    /// Reservation Type.
    pub rtype: ReservationType,
}

/// Reservation Release (Base 7.7); its data is the Current Reservation Key (CRKEY).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReservationRelease {
    /// Namespace Identifier.
    pub nsid: Nsid,
    /// Reservation Release Action.
    pub action: ReleaseAction,
    /// Ignore Existing Key (IEKEY): must not be set.
    pub iekey: bool,
    /// Reservation Type.
    pub rtype: ReservationType,
}

wire! {
    /// Data of Reservation Register (Base 7.6).
    pub struct RegisterKeys[16] {
        /// Current Reservation Key.
        pub crkey: U64,
        /// New Reservation Key.
        pub nrkey: U64,
    }

    /// Data of Reservation Acquire (Base 7.5).
    pub struct AcquireKeys[16] {
        /// Current Reservation Key.
        pub crkey: U64,
        /// Preempt Reservation Key.
        pub prkey: U64,
    }

    /// Reservation Status Extended (Base 7.8): a header; [`RegistrantExtended`] entries follow.
    pub struct ReservationStatusExtended[64] {
        /// Generation.
        pub generation: U32,
        /// Reservation Type; 0 without a reservation.
        pub rtype: ReservationType,
        /// Number of Registrants.
        pub registrants: U16,
        /// Reserved.
        pub rsvd7: [u8; 2],
        /// Persist Through Power Loss State.
        pub ptpls: u8,
        /// Reserved.
        pub rsvd10: [u8; 54],
    }

    /// Registrant Extended (Base 7.8).
    pub struct RegistrantExtended[64] {
        /// Controller ID; FFFFh where controllers are dynamic.
        pub cntlid: U16,
        /// Reservation Status: bit 0 the host holds the reservation.
        pub rcsts: u8,
        /// Reserved.
        pub rsvd3: [u8; 5],
        /// Reservation Key.
        pub rkey: U64,
        /// Host Identifier of 128 bits.
        pub hostid: [u8; 16],
        /// Reserved.
        pub rsvd32: [u8; 32],
    }

    /// Reservation Notification (Base 5.1.12.1.32, LID 80h).
    pub struct ReservationNotification[64] {
        /// Log Page Count: grows with every notification; 0 for an empty page.
        pub count: U64,
        /// Reservation Notification Log Page Type.
        pub kind: NotificationType,
        /// Number of Available Log Pages that were not read yet, without this one; 255 for more.
        pub available: u8,
        /// Reserved.
        pub rsvd10: [u8; 2],
        /// Namespace ID.
        pub nsid: U32,
        /// Reserved.
        pub rsvd16: [u8; 48],
    }
}
layout!(ReservationStatusExtended, 64, rtype @ 4, registrants @ 5, ptpls @ 9);
layout!(RegistrantExtended, 64, rcsts @ 2, rkey @ 8, hostid @ 16);
layout!(ReservationNotification, 64, kind @ 8, available @ 9, nsid @ 12);

bits8! {
    /// Reservation Capabilities (RESCAP; NVM 4.1.5.1).
    pub struct Rescap {
        /// Persist Through Power Loss.
        pub ptpl: bool,
        /// Write Exclusive.
        pub write_exclusive: bool,
        /// Exclusive Access.
        pub exclusive_access: bool,
        /// Write Exclusive - Registrants Only.
        pub write_exclusive_registrants_only: bool,
        /// Exclusive Access - Registrants Only.
        pub exclusive_access_registrants_only: bool,
        /// Write Exclusive - All Registrants.
        pub write_exclusive_all_registrants: bool,
        /// Exclusive Access - All Registrants.
        pub exclusive_access_all_registrants: bool,
        /// Ignore Existing Key is used as since revision 1.3.
        pub iekey: bool,
    }
}

bits32! {
    /// Reservation Notification Mask (FID 82h): a bit that is set keeps its notification back.
    pub struct ReservationMask {
        #[bits(1)]
        _r0: u8,
        /// Registration Preempted.
        pub registration_preempted: bool,
        /// Reservation Released.
        pub reservation_released: bool,
        /// Reservation Preempted.
        pub reservation_preempted: bool,
        #[bits(28)]
        _r4: u32,
    }

    struct Cdw10 {
        #[bits(3)] action: u8,
        iekey: bool,
        #[bits(4)] _r4: u8,
        #[bits(8)] rtype: u8,
        #[bits(14)] _r16: u16,
        #[bits(2)] cptpl: u8,
    }
}

/// Invalid Field in Command unless the value is one that the figures define.
fn known(name: Option<&str>) -> Result<(), Status> {
    if name.is_some() { Ok(()) } else { Err(Status::INVALID_FIELD.with_dnr()) }
}

impl ReservationRegister {
    pub(crate) fn parse(cmd: &Command) -> Result<Self, Status> {
        let d = Cdw10(cmd.cdw10);
        let (action, cptpl) = (RegisterAction(d.action()), ChangePtpl(d.cptpl()));
        known(action.name().and(cptpl.name()))?;
        Ok(Self { nsid: cmd.nsid.get(), action, iekey: d.iekey(), cptpl })
    }
}

impl ReservationReport {
    pub(crate) fn parse(cmd: &Command) -> Self {
        let dwords = u64::from(cmd.cdw10.get()) + 1;
        Self { nsid: cmd.nsid.get(), dwords, eds: cmd.cdw11.get() & 1 != 0 }
    }
}

impl ReservationAcquire {
    pub(crate) fn parse(cmd: &Command) -> Result<Self, Status> {
        let d = Cdw10(cmd.cdw10);
        let (action, rtype) = (AcquireAction(d.action()), ReservationType(d.rtype()));
        known(action.name().and(rtype.name()))?;
        Ok(Self { nsid: cmd.nsid.get(), action, iekey: d.iekey(), rtype })
    }
}

impl ReservationRelease {
    pub(crate) fn parse(cmd: &Command) -> Result<Self, Status> {
        let d = Cdw10(cmd.cdw10);
        let (action, rtype) = (ReleaseAction(d.action()), ReservationType(d.rtype()));
        known(action.name())?;
        Ok(Self { nsid: cmd.nsid.get(), action, iekey: d.iekey(), rtype })
    }
}

impl From<ReservationRegister> for Command {
    fn from(c: ReservationRegister) -> Self {
        let cdw10 = Cdw10::new().with_action(c.action.0 & 7).with_iekey(c.iekey).with_cptpl(c.cptpl.0 & 3);
        Self { cdw10: cdw10.0, ..Self::new(IoOpcode::RESERVATION_REGISTER.0, c.nsid) }
    }
}

impl From<ReservationReport> for Command {
    fn from(c: ReservationReport) -> Self {
        let numd_z = u32::try_from(c.dwords.saturating_sub(1)).unwrap_or(u32::MAX);
        Self {
            cdw10: U32::new(numd_z),
            cdw11: U32::new(c.eds.into()),
            ..Self::new(IoOpcode::RESERVATION_REPORT.0, c.nsid)
        }
    }
}

impl From<ReservationAcquire> for Command {
    fn from(c: ReservationAcquire) -> Self {
        let cdw10 = Cdw10::new().with_action(c.action.0 & 7).with_iekey(c.iekey).with_rtype(c.rtype.0);
        Self { cdw10: cdw10.0, ..Self::new(IoOpcode::RESERVATION_ACQUIRE.0, c.nsid) }
    }
}

impl From<ReservationRelease> for Command {
    fn from(c: ReservationRelease) -> Self {
        let cdw10 = Cdw10::new().with_action(c.action.0 & 7).with_iekey(c.iekey).with_rtype(c.rtype.0);
        Self { cdw10: cdw10.0, ..Self::new(IoOpcode::RESERVATION_RELEASE.0, c.nsid) }
    }
}
