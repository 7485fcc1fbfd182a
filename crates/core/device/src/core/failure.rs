//! How a command ends: replies and failures.

use super::fair_queueing::Direction;
use super::in_flight::CommandKind;
use ftl::{Fault, ZoneFault};
use media::Nanos;
use nvme::Status;

/// How a command goes on.
pub(crate) enum Reply {
    /// It is done, with this dword 0.
    Done(u32),
    /// It is done, with data for the host.
    Data(Vec<u8>, u32),
    /// It is done, with a result of 64 bits.
    Wide(u64),
    /// It was left somewhere that brings it back.
    Parked,
}

/// Why a command fails, for its completion and the Error Information log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Failure {
    pub status: Status,
    /// Parameter Error Location: byte, and bit times 256; FFFFh for none.
    pub location: u16,
    /// Command Specific Information.
    pub information: u64,
}

impl From<Status> for Failure {
    /// The host's mistake: the same command would fail again.
    fn from(status: Status) -> Self {
        Failure { status: status.with_dnr(), location: 0xFFFF, information: 0 }
    }
}

impl Failure {
    /// Something that another try may not meet.
    pub fn transient(status: Status) -> Self {
        Failure { status: status.code(), location: 0xFFFF, information: 0 }
    }

    /// Invalid Field in Command, with the byte of the command that is invalid.
    pub fn field(byte: u16) -> Self {
        Failure { location: byte, ..Status::INVALID_FIELD.into() }
    }

    /// The same, with Command Specific Information.
    pub fn with_information(self, information: u64) -> Self {
        Failure { information, ..self }
    }

    /// What a fault of the medium is to the host.
    pub fn of_fault(fault: Fault, kind: CommandKind) -> Self {
        match fault {
            Fault::OutOfRange => Status::LBA_OUT_OF_RANGE.into(),
            Fault::Write => Self::transient(Status::WRITE_FAULT),
            // A write of less than a page that cannot read the rest of it.
            Fault::Unrecovered if matches!(kind, CommandKind::Write | CommandKind::Deallocate) => {
                Self::transient(Status::WRITE_FAULT)
            }
            Fault::Unrecovered => Status::UNRECOVERED_READ_ERROR.into(),
            Fault::ReadOnly => Status::WRITE_TO_READ_ONLY_RANGE.into(),
            Fault::Storage => Self::transient(Status::INTERNAL_ERROR),
            Fault::NoSpace | Fault::Full => Self::transient(Status::CAPACITY_EXCEEDED),
            Fault::Mismatch => Status::COMPARE_FAILURE.into(),
            Fault::Zone(fault) => of_zone(fault).into(),
        }
    }
}

/// What a zone's refusal is to the host.
fn of_zone(fault: ZoneFault) -> Status {
    match fault {
        ZoneFault::Boundary => Status::ZONE_BOUNDARY_ERROR,
        ZoneFault::Full => Status::ZONE_IS_FULL,
        ZoneFault::ReadOnly => Status::ZONE_IS_READ_ONLY,
        ZoneFault::Offline => Status::ZONE_IS_OFFLINE,
        ZoneFault::InvalidWrite => Status::ZONE_INVALID_WRITE,
        ZoneFault::TooManyActive => Status::TOO_MANY_ACTIVE_ZONES,
        ZoneFault::TooManyOpen => Status::TOO_MANY_OPEN_ZONES,
        ZoneFault::InvalidTransition => Status::INVALID_ZONE_STATE_TRANSITION,
        ZoneFault::InvalidOperation => Status::INVALID_ZONE_OPERATION_REQUEST,
        ZoneFault::NoZrwa => Status::ZRWA_RESOURCES_UNAVAILABLE,
    }
}

/// Nanoseconds of the controller for a unit of [`ftl::StepDone::work`]: about twice what it takes, so that others have the rest.
pub(crate) const WORK_TIME: u64 = 5;

/// What a step of a command takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct StepCost {
    /// The controller's own time.
    pub time: Nanos,
    /// What its namespace pays for.
    pub direction: Direction,
    pub bytes: u64,
}

impl StepCost {
    /// A step that moves nothing on the media.
    pub fn controller(time: Nanos) -> StepCost {
        StepCost { time, direction: Direction::Read, bytes: 0 }
    }
}

/// Result of executing an admin command.
pub(crate) type AdminResult = Result<Reply, Failure>;
