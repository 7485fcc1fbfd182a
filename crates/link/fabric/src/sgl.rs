//! The data pointer of a command.

use nvme::command::{SglSubtype, SglType};
use nvme::{Command, Status, Transfer};

/// Where a command's data is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DataLocation {
    None,
    Capsule { offset: u32 },
    Transport,
}

/// Checks the data pointer (TCP 3.3.2.1, Base 4.3.2).
pub(crate) fn check_sgl(
    sqe: &Command,
    transfer: Transfer,
    in_capsule: u32,
    max: u32,
) -> Result<DataLocation, Status> {
    if !matches!(sqe.flags.psdt(), 1 | 2) {
        return Err(Status::INVALID_FIELD.with_dnr());
    }
    let (length, sgl) = (sqe.dptr.length.get(), sqe.dptr);
    match transfer {
        Transfer::None => Ok(DataLocation::None),
        _ if length > max => Err(Status::INVALID_FIELD.with_dnr()),
        _ => match (sgl.id.kind(), sgl.id.subtype()) {
            (SglType::DATA_BLOCK, SglSubtype::OFFSET) => match transfer {
                Transfer::ToHost(_) => Err(Status::SGL_TYPE_INVALID.with_dnr()),
                _ => match u32::try_from(sgl.addr.get()).ok().filter(|offset| *offset <= in_capsule) {
                    None => Err(Status::SGL_OFFSET_INVALID.with_dnr()),
                    Some(offset) if length > in_capsule - offset => {
                        Err(Status::DATA_SGL_LENGTH_INVALID.with_dnr())
                    }
                    Some(offset) => Ok(DataLocation::Capsule { offset }),
                },
            },
            (SglType::TRANSPORT_DATA_BLOCK, SglSubtype::TRANSPORT) if in_capsule == 0 => {
                Ok(DataLocation::Transport)
            }
            _ => Err(Status::SGL_TYPE_INVALID.with_dnr()),
        },
    }
}
