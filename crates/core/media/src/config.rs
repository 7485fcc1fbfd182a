//! What is wrong with a configuration.

use crate::types::Geometry;

/// Why a medium cannot be as it was configured.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConfigError {
    /// A value is out of range.
    #[error("{what} is {value}: {rule}")]
    Range {
        /// Which value.
        what: &'static str,
        /// What it was.
        value: u64,
        /// What is allowed.
        rule: &'static str,
    },
    /// The program unit fits neither way of programming.
    #[error(
        "geometry.unit_pages is {unit_pages}: a {cell} block with {planes} planes and {sense_pages} pages per sense is \
         programmed {one_shot} pages (a wordline at once) or {by_page} pages (one NAND page of every plane) at a time"
    )]
    Unit {
        /// Configured pages of a unit.
        unit_pages: u32,
        /// Kind of cell.
        cell: &'static str,
        /// Planes.
        planes: u32,
        /// Pages of a sense.
        sense_pages: u32,
        /// `planes * sense_pages * bits`.
        one_shot: u64,
        /// `planes * sense_pages`.
        by_page: u64,
    },
    /// A sense time for each page type, but not as many as the cell has bits.
    #[error("timing.sense has {given} values: give one, or one for each of the {bits} page types of {cell}")]
    Sense {
        /// Values given.
        given: usize,
        /// Page types.
        bits: u32,
        /// Kind of cell.
        cell: &'static str,
    },
    /// The figures of a disk contradict each other.
    #[error(transparent)]
    Disk(#[from] crate::disk::DiskError),
}

/// `value` within `1..=max`.
pub(crate) fn positive(
    what: &'static str,
    value: u32,
    max: u32,
    rule: &'static str,
) -> Result<(), ConfigError> {
    if value == 0 || value > max {
        return Err(ConfigError::Range { what, value: value.into(), rule });
    }
    Ok(())
}

/// The pages of `geometry`, which must be addressable by `u32` with room for a mark and a flag bit.
pub(crate) fn addressable(geometry: &Geometry) -> Result<u32, ConfigError> {
    let factors =
        [geometry.dies, geometry.superblocks, geometry.units_per_block, geometry.unit_pages].map(u64::from);
    let pages = factors.into_iter().try_fold(1u64, u64::checked_mul).unwrap_or(u64::MAX);
    match u32::try_from(pages) {
        Ok(pages) if pages <= 1 << 31 => Ok(pages),
        _ => Err(ConfigError::Range {
            what: "pages of the medium (dies x superblocks x units_per_block x unit_pages)",
            value: pages,
            rule: "at most 2^31 pages of 4 KiB (8 TiB) can be addressed",
        }),
    }
}
