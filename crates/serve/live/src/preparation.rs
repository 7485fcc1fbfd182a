//! What a new drive goes through before a host may use it.

use device::Drive;
use media::Nanos;
use nvme::Status;
use std::fmt::Debug;

/// Receives progress: the finished share of a preparation in per mille, several times.
pub type Progress<'a> = dyn FnMut(u32) + 'a;

/// Prepares a new drive, in a time of its own. [`start`](crate::start()) calls it before a host may use the drive.
pub trait Preparation: Debug + Send + Sync {
    /// Takes a new drive, and gives it back with its time. It has no contents yet: what is written meanwhile reads as zeros.
    ///
    /// # Errors
    /// How the drive has refused something.
    fn prepare(&self, drive: Drive, progress: &mut Progress<'_>) -> Result<(Drive, Nanos), Status>;
}
