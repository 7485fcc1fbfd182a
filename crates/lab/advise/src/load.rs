//! What is put on the drive.

use anyhow::Result;

/// What is put on the drive.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Connections, without time to think.
    pub connections: u32,
    /// Bytes of the database.
    pub dataset: u64,
    /// Processors that the server has.
    pub processors: u32,
    /// Seconds before the measurement.
    pub warmup: u64,
    /// Measured seconds.
    pub seconds: u64,
}

/// Warehouses of a database of so many pages, if one of so many warehouses has `of`.
///
/// # Errors
/// The model refuses it.
pub fn warehouses(pages: u64, of: impl Fn(u32) -> Result<u64>) -> Result<u32> {
    let each = ((of(200)? - of(100)?) / 100).max(1);
    let fixed = of(100)?.saturating_sub(each * 100);
    Ok(u32::try_from(pages.saturating_sub(fixed) / each).unwrap_or(u32::MAX).clamp(1, 100_000))
}
