//! What was published (`dell-rh15`): three plots without values, and two takeaways against a SAS hard disk.

/// "450 % (read/write)": 4.5 times, or 5.5.
pub(super) const READ_WRITE: (f64, f64) = (4.5, 5.5);
/// "4702 % (read)": 47 times, or 48.
pub(super) const READ: (f64, f64) = (47.02, 48.02);
