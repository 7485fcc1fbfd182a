//! What can go wrong.

use crate::device::DeviceError;
use crate::reason::Reason;
use crate::tree::Misfit;

/// Why the store did not do something.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no such file or directory.
    #[error("there is no such file or directory")]
    NotFound,
    /// The name is taken.
    #[error("the name is taken")]
    Exists,
    /// A directory is needed, and this is none.
    #[error("this is no directory")]
    NotDirectory,
    /// This cannot be done with a directory.
    #[error("this is a directory")]
    IsDirectory,
    /// The directory has contents.
    #[error("the directory is not empty")]
    NotEmpty,
    /// The name is longer than 255 bytes.
    #[error("the name is too long")]
    NameTooLong,
    /// The request makes no sense.
    #[error("{0}")]
    Invalid(&'static str),
    /// The file would be too long.
    #[error("the file would be too long")]
    FileTooLong,
    /// There is no space.
    #[error("there is no space left in the store")]
    NoSpace,
    /// There is no such extended attribute.
    #[error("there is no such extended attribute")]
    NoAttribute,
    /// The store was opened for reading only.
    #[error("the store was opened for reading only")]
    ReadOnly,
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The log has not enough zones. Zones of the log may be worn out.
    #[error("the log of the metadata has no zone left that takes it")]
    LogFull,
    /// The store stopped, because it could not write what it had to.
    #[error("the store takes no changes since it failed: {0}")]
    Stopped(#[source] Reason),
    /// Another program opened the store for writing.
    #[error("another program has opened the store for writing; only one may at a time")]
    Taken,
    /// The store was opened for reading only, and another program has changed it since.
    #[error("another program has changed the store since it was opened for reading only; open it again")]
    Moved,
    /// The zones of the log are not as the store left them, and no other program opened the store.
    #[error(
        "its zones no longer hold what it wrote: somebody has reset them, finished them or written to them (`tranche zone report` shows them)"
    )]
    Changed,
    /// Another program of this machine has the store open.
    #[error("another program of this machine has the store open; only one may at a time")]
    InUse,
    /// The device has no store.
    #[error("there is no store on this namespace; `tranche store format` makes one")]
    NoStore,
    /// The device has something else.
    #[error("{0}")]
    Occupied(String),
    /// The store has another version.
    #[error("the store has version {found}; this program knows version {known}")]
    Version {
        /// Its version.
        found: u32,
        /// The version that this program knows.
        known: u32,
    },
    /// The store was made for another device.
    #[error("the store was made for a namespace with other blocks or zones")]
    OtherDevice,
    /// The device cannot carry a store.
    #[error("{0}")]
    Unsuitable(String),
    /// What lies on the device contradicts itself.
    #[error("the store is damaged: {0}")]
    Damaged(String),
}

impl From<Misfit> for Error {
    fn from(misfit: Misfit) -> Self {
        Self::Damaged(format!("a record of the log does not fit: {misfit}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nvme::Status;
    use std::error::Error as _;

    /// Below an error of the store a caller finds what the drive said, however the store stopped.
    #[test]
    fn the_error_of_a_drive_is_found_below_that_of_the_store() {
        let refused =
            host::Error::Command { what: "Append".into(), status: Status::NAMESPACE_WRITE_PROTECTED };
        let words = refused.to_string();
        let reason = Reason::new(refused);
        let device = Error::from(DeviceError::Failed(reason.clone()));
        let zone = Error::from(DeviceError::Zone { zone: 3, problem: reason });
        let stopped = Error::Stopped(Reason::new(device.clone()));
        for (error, says) in [
            (device, words.clone()),
            (zone, format!("zone 3: {words}")),
            (stopped, format!("the store takes no changes since it failed: {words}")),
        ] {
            assert_eq!(error.to_string(), says);
            let mut causes = std::iter::successors(error.source(), |cause| (*cause).source());
            let status = causes.find_map(|cause| cause.downcast_ref::<host::Error>()?.status());
            assert_eq!(status, Some(Status::NAMESPACE_WRITE_PROTECTED), "{says}");
        }
        assert_eq!(Reason::from("it is full"), Reason::from("it is full".to_owned()));
        assert_ne!(Reason::from("it is full"), Reason::from("it is offline"));
    }
}
