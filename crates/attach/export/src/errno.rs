//! NVMe status codes as `errno`. The table is in docs/block-export.md, too.

use blockdev::is_absent;
use fuser::Errno;
use nvme::Status;

/// What a program sees of a command that ended with this status.
pub fn errno(status: Status) -> Errno {
    match status.code() {
        // Detached or deleted, perhaps while the command was on its way.
        status if is_absent(status) => Errno::ENODEV,
        // The drive cannot take more.
        Status::CAPACITY_EXCEEDED | Status::NAMESPACE_INSUFFICIENT_CAPACITY => Errno::ENOSPC,
        // Write protection, and a drive at the end of its life.
        Status::NAMESPACE_WRITE_PROTECTED | Status::WRITE_TO_READ_ONLY_RANGE => Errno::EROFS,
        Status::LBA_OUT_OF_RANGE => Errno::ENXIO,
        Status::NAMESPACE_NOT_READY
        | Status::FORMAT_IN_PROGRESS
        | Status::SANITIZE_IN_PROGRESS
        | Status::COMMAND_INTERRUPTED
        | Status::RESERVATION_CONFLICT => Errno::EBUSY,
        Status::ACCESS_DENIED | Status::OPERATION_DENIED | Status::INVALID_KEY_TAG => Errno::EACCES,
        Status::GUARD_CHECK_ERROR
        | Status::APPLICATION_TAG_CHECK_ERROR
        | Status::REFERENCE_TAG_CHECK_ERROR
        | Status::STORAGE_TAG_CHECK_ERROR => Errno::EILSEQ,
        Status::INVALID_OPCODE => Errno::EOPNOTSUPP,
        // Zones: as Linux's zonefs has it where it looks by itself.
        Status::ZONE_INVALID_WRITE | Status::ZONE_IS_FULL => Errno::EINVAL,
        Status::ZONE_BOUNDARY_ERROR => Errno::EFBIG,
        Status::ZONE_IS_READ_ONLY | Status::ZONE_IS_OFFLINE | Status::INVALID_ZONE_STATE_TRANSITION => {
            Errno::EPERM
        }
        Status::TOO_MANY_ACTIVE_ZONES | Status::TOO_MANY_OPEN_ZONES => Errno::EBUSY,
        // Among them Unrecovered Read Error, Write Fault and the loss of power.
        _ => Errno::EIO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_ones() {
        let table = [
            (Status::UNRECOVERED_READ_ERROR, Errno::EIO),
            (Status::WRITE_FAULT.with_dnr(), Errno::EIO),
            (Status::POWER_LOSS, Errno::EIO),
            (Status::CAPACITY_EXCEEDED.with_dnr(), Errno::ENOSPC),
            (Status::WRITE_TO_READ_ONLY_RANGE, Errno::EROFS),
            (Status::INVALID_NAMESPACE.with_dnr().with_more(), Errno::ENODEV),
            (Status::INVALID_FIELD.with_dnr(), Errno::ENODEV),
            (Status::ZONE_INVALID_WRITE.with_dnr(), Errno::EINVAL),
            (Status::TOO_MANY_OPEN_ZONES, Errno::EBUSY),
            (Status::ZONE_IS_OFFLINE, Errno::EPERM),
        ];
        for (status, expected) in table {
            assert_eq!(i32::from(errno(status)), i32::from(expected), "{status}");
        }
    }
}
