//! How much a device takes in one part.

use crate::Verb;
use nvme::identify::NvmController;

/// Logical blocks of any command: NVMe counts them with 16 bits.
const COMMAND_BLOCKS: u32 = 1 << 16;

/// Logical blocks of one part, by what it does. Each limit is 1 or more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Of a read or a write.
    pub transfer: u32,
    /// Of Write Zeroes.
    pub write_zeroes: u32,
    /// Of a deallocation.
    pub deallocate: u32,
    /// Of a Copy.
    pub copy: u32,
    /// Of a Zone Append; no more than of a write.
    pub append: u32,
}

impl Limits {
    /// No limits.
    pub const NONE: Self = Self {
        transfer: u32::MAX,
        write_zeroes: u32::MAX,
        deallocate: u32::MAX,
        copy: u32::MAX,
        append: u32::MAX,
    };

    /// Logical blocks of a part that does this.
    #[inline]
    #[must_use]
    pub fn most(&self, verb: Verb) -> u32 {
        match verb {
            Verb::Read | Verb::Write | Verb::ReadFua | Verb::WriteFua => self.transfer,
            Verb::Trim => self.deallocate,
            Verb::Copy { .. } => self.copy,
            Verb::WriteZeroes { .. } => self.write_zeroes,
            Verb::Append => self.append,
            Verb::Flush | Verb::Zone(_) => u32::MAX,
        }
    }

    /// The same limits, with reads and writes, but not appends, cut at multiples of `unit` bytes (1 or more) only. `None` if the device takes
    /// less than that. Blocks have `block_size` bytes.
    #[must_use]
    pub fn in_units(self, unit: u64, block_size: u32) -> Option<Self> {
        let blocks = u32::try_from(unit / common_divisor(unit, block_size.into())).ok()?;
        let transfer = self.transfer - self.transfer % blocks;
        (transfer > 0).then_some(Self { transfer, ..self })
    }
}

/// What a controller says of the size of its commands, for all of its namespaces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ControllerLimits {
    /// Bytes that a command moves (MDTS).
    pub transfer: u64,
    /// Bytes of a Write Zeroes (WZSL).
    pub write_zeroes: u64,
    /// Ranges of a Dataset Management (DMRL): 1 to 256.
    pub ranges: u32,
    /// Logical blocks of one of its ranges (DMRSL).
    pub range_blocks: u32,
    /// Logical blocks of all of its ranges (DMSL).
    pub all_blocks: u64,
}

impl ControllerLimits {
    /// No limits but those of the commands' fields.
    pub const NONE: Self = Self {
        transfer: u64::MAX,
        write_zeroes: u64::MAX,
        ranges: nvme::io::DSM_RANGES_MAX as u32,
        range_blocks: u32::MAX,
        all_blocks: u64::MAX,
    };

    /// From MDTS and the Identify data of the NVM Command Set. `page` is the unit of both in bytes (CAP.MPSMIN). A controller
    /// without that data has `NvmController::default()`: zeroes are no limits.
    #[must_use]
    pub fn new(mdts: u8, page: u64, nvm: &NvmController) -> Self {
        let some = |limit: u64, none: u64| if limit == 0 { none } else { limit.min(none) };
        Self {
            transfer: size(mdts, page),
            write_zeroes: size(nvm.wzsl, page),
            ranges: some(nvm.dmrl.into(), Self::NONE.ranges.into()) as u32,
            range_blocks: some(nvm.dmrsl.get().into(), u32::MAX.into()) as u32,
            all_blocks: some(nvm.dmsl.get(), u64::MAX),
        }
    }

    /// The limits of a namespace with blocks of `block_size` bytes; those of Copy are the namespace's own. An append is as long as a
    /// write: a controller that wants it shorter says so for zoned namespaces only (ZASL).
    pub(crate) fn of_blocks(&self, block_size: u32, copy: u32) -> Limits {
        let command = |bytes: u64| (bytes / u64::from(block_size)).clamp(1, COMMAND_BLOCKS.into()) as u32;
        let deallocate = u64::from(self.ranges) * u64::from(self.range_blocks);
        Limits {
            transfer: command(self.transfer),
            write_zeroes: command(self.write_zeroes),
            deallocate: deallocate.min(self.all_blocks).clamp(1, u32::MAX.into()) as u32,
            copy,
            append: command(self.transfer),
        }
    }
}

fn common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a.max(1)
}

/// A limit in bytes, from a power of two of pages; 0 is none.
fn size(exponent: u8, page: u64) -> u64 {
    match exponent {
        0 => u64::MAX,
        exponent => {
            1u64.checked_shl(exponent.into()).and_then(|pages| pages.checked_mul(page)).unwrap_or(u64::MAX)
        }
    }
}

/// Blocks of one source range of a Copy, and of all of its ranges: MSSRL, MCL and MSRC, where 0 is not reported.
pub(crate) fn copy(mssrl: u16, mcl: u32, msrc_z: u8) -> (u32, u32) {
    let range = if mssrl == 0 { COMMAND_BLOCKS } else { mssrl.into() };
    let all = if mcl == 0 { range } else { mcl };
    let range = range.min(all);
    (range, all.min(range.saturating_mul(u32::from(msrc_z) + 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_powers_of_two_of_pages() {
        assert_eq!([size(0, 4096), size(1, 4096), size(8, 4096)], [u64::MAX, 8192, 1 << 20]);
        assert_eq!([size(51, 4096), size(52, 4096), size(255, 4096)], [1 << 63, u64::MAX, u64::MAX]);
    }

    #[test]
    fn what_is_not_reported_is_no_limit() {
        let none = ControllerLimits::new(0, 4096, &NvmController::default());
        assert_eq!(none, ControllerLimits::NONE);
        let limits = none.of_blocks(4096, 7);
        let command = 65536;
        let wanted = Limits {
            transfer: command,
            write_zeroes: command,
            deallocate: u32::MAX,
            copy: 7,
            append: command,
        };
        assert_eq!(limits, wanted);
        assert_eq!(copy(0, 0, 0), (65536, 65536));
    }

    #[test]
    fn what_is_reported_is_kept_to() {
        let mut nvm = NvmController { wzsl: 3, dmrl: 4, ..NvmController::default() };
        nvm.dmrsl.set(10);
        nvm.dmsl.set(100);
        let limits = ControllerLimits::new(2, 4096, &nvm).of_blocks(512, 1);
        assert_eq!((limits.transfer, limits.write_zeroes, limits.deallocate), (32, 64, 40));
        nvm.dmsl.set(25);
        assert_eq!(ControllerLimits::new(2, 4096, &nvm).of_blocks(512, 1).deallocate, 25);
        // A block larger than a command's data: the device will refuse it.
        assert_eq!(ControllerLimits::new(1, 4096, &nvm).of_blocks(16384, 1).transfer, 1);
        assert_eq!(copy(8, 100, 3), (8, 32));
        assert_eq!(copy(8, 20, 3), (8, 20));
        assert_eq!(copy(8, 4, 3), (4, 4));
    }

    #[test]
    fn reads_and_writes_are_cut_at_units() {
        let limits = Limits { transfer: 20, ..Limits::NONE };
        assert_eq!(limits.in_units(1, 4096), Some(limits));
        assert_eq!(limits.in_units(6 * 4096, 4096), Some(Limits { transfer: 18, ..limits }));
        assert_eq!(limits.in_units(21 * 4096, 4096), None);
        assert_eq!(limits.in_units(512, 4096), Some(limits));
        // Whole units are whole blocks every three of them.
        assert_eq!(limits.in_units(6144, 4096), Some(Limits { transfer: 18, ..limits }));
    }
}
