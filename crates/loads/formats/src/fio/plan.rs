//! A job made concrete: its options on a namespace of a certain size.

use super::offsets::Map;
use super::options::{Direction, Distribution, Options};

/// The namespace that a job works on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Space {
    /// Its size in logical blocks.
    pub blocks: u64,
    /// Bytes of a logical block.
    pub block_bytes: u32,
    /// Its zones, if it has some.
    pub zones: Option<ZoneGeometry>,
}

impl Space {
    /// A namespace without zones.
    #[must_use]
    pub const fn new(blocks: u64, block_bytes: u32) -> Self {
        Self { blocks, block_bytes, zones: None }
    }
}

/// What is the same for all zones of a namespace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ZoneGeometry {
    /// Logical blocks from the start of a zone to that of the next.
    pub zone_blocks: u64,
    /// Zones that may be open at once; `None` without limit.
    pub max_open: Option<u32>,
    /// Zones that may be active at once; `None` without limit.
    pub max_active: Option<u32>,
    /// Logical blocks that one command writes at most.
    pub write_blocks: u32,
    /// Logical blocks that one command appends at most.
    pub append_blocks: u32,
}

/// Where a job works and how much it does, in bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Its options.
    pub options: Options,
    /// Where its region starts.
    pub start: u64,
    /// Size of its region.
    pub size: u64,
    /// Bytes to move in all, as `size`, `io_size` and `loops` say; trims of a `trimwrite` count, too.
    pub total: u64,
    /// Bytes of a logical block.
    pub block_bytes: u64,
    /// The zones of its namespace, with `zonemode=zbd`.
    pub zones: Option<ZoneGeometry>,
    /// Seed of everything that is random.
    pub seed: u64,
    /// Which repetition of the load this is, from 0: the same places are hot in each, and the draws are others.
    pub round: u64,
}

/// The seed when the job names none.
const SEED: u64 = 0x7472_616e_6368_6521;

/// Bytes that are remembered of a zone.
const ZONE_MEMORY: u64 = 64;

/// Bytes that are remembered of an outstanding I/O, here and by who executes it.
const IO_MEMORY: u64 = 256;

impl Plan {
    /// The plan of one clone of a job. `clone` counts those of the job from 0, `thread` those of the whole
    /// file; `entropy` is the seed where the job wants one that differs from run to run.
    ///
    /// # Errors
    /// The job does not fit the namespace.
    pub fn new(
        options: &Options,
        space: Space,
        clone: u32,
        thread: u32,
        entropy: u64,
    ) -> Result<Self, String> {
        let block_bytes = u64::from(space.block_bytes.max(1));
        let device = space.blocks.saturating_mul(block_bytes);
        let least = options.smallest_block();
        if least == 0 || options.iodepth == 0 {
            return Err("a block size or an iodepth of 0".to_owned());
        }
        for direction in [Direction::Read, Direction::Write, Direction::Trim] {
            if !options.rw.does[direction as usize] {
                continue;
            }
            let sizes = &options.sizes[direction as usize];
            let wrong = match sizes {
                super::Sizes::Range(least, most) => {
                    [*least, *most].into_iter().find(|size| size % block_bytes != 0)
                }
                super::Sizes::Split(parts) => {
                    parts.iter().map(|(size, _)| *size).find(|size| size % block_bytes != 0)
                }
            };
            if let Some(size) = wrong {
                return Err(format!(
                    "a block size of {size} bytes is no multiple of the namespace's logical block of {block_bytes}: \
                     change bs, or format the namespace"
                ));
            }
        }
        let zones = zones(options, &space)?;
        let zone = zones.map_or(0, |zones| zones.zone_blocks.saturating_mul(block_bytes));
        let aligned = |amount: super::Amount| match amount {
            super::Amount::Bytes(bytes) => bytes,
            zones @ super::Amount::Zones(_) => zones.of(device, zone),
            percent @ super::Amount::Percent(_) => percent.of(device, zone).next_multiple_of(least),
        };
        let start = u64::from(clone)
            .checked_mul(aligned(options.offset_increment))
            .and_then(|increment| increment.checked_add(aligned(options.offset)))
            .filter(|start| *start < device)
            .ok_or_else(|| format!("the job starts beyond the end of the namespace of {device} bytes"))?;
        if start % block_bytes != 0 {
            return Err(format!(
                "an offset of {start} bytes is no multiple of the logical block of {block_bytes}"
            ));
        }
        let size = match options.size {
            None => device - start,
            Some(percent @ super::Amount::Percent(_)) => percent.of(device, zone).min(device - start),
            Some(size) => size.of(device, zone),
        };
        if size > device - start {
            return Err(format!(
                "{size} bytes from {start} on are beyond the end of the namespace of {device} bytes: reduce size or \
                 offset"
            ));
        }
        let (start, size) = if zone > 0 { whole_zones(start, size, zone)? } else { (start, size) };
        // A last part that holds no block is not used.
        let most = options.largest_block();
        if size < most {
            return Err(format!("a size of {size} bytes holds no block of {most}"));
        }
        if Self::needs_map(options) && size / least > Map::MAX_BLOCKS {
            return Err(
                "the random map of so many blocks of several sizes is too large: use norandommap".to_owned()
            );
        }
        // What fio 3.33 does: loops are whole passes, and io_size goes on to further ones.
        let passes = size.saturating_mul(options.loops.max(1));
        let total = match options.io_size.map(|io_size| io_size.of(device, zone)) {
            None => passes,
            Some(io_size) if io_size < size => io_size.saturating_mul(options.loops),
            Some(io_size) => io_size.max(passes),
        };
        let trimwrite = u64::from(options.rw.does == [false, true, true]);
        let seed = match (options.randseed, options.randrepeat) {
            (Some(seed), _) => seed,
            (None, true) => SEED,
            (None, false) => entropy,
        };
        Ok(Self {
            options: options.clone(),
            start,
            size,
            total: total.saturating_mul(1 + trimwrite),
            block_bytes,
            zones,
            seed: seed.wrapping_add(u64::from(thread).wrapping_mul(0x9E37_79B9_7F4A_7C15)),
            round: 0,
        })
    }

    /// Bytes from the start of a zone to that of the next; 0 without zones.
    #[must_use]
    pub fn zone_bytes(&self) -> u64 {
        self.zones.map_or(0, |zones| zones.zone_blocks.saturating_mul(self.block_bytes))
    }

    /// How many logical blocks so many bytes are, of which these are a multiple.
    #[inline]
    pub(super) fn blocks(&self, bytes: u64) -> u64 {
        // Nearly always; a shift costs a tenth of a division.
        match self.block_bytes.is_power_of_two() {
            true => bytes >> self.block_bytes.trailing_zeros(),
            false => bytes / self.block_bytes,
        }
    }

    /// Bytes of memory that a job with this plan takes beside the data of its I/Os, roughly: what it remembers of
    /// those outstanding, and the map of random places.
    #[must_use]
    pub fn memory(&self) -> u64 {
        let map = match Self::needs_map(&self.options) {
            // What is verified is drawn again, from a map of its own.
            true => {
                self.size / self.options.smallest_block() / 8
                    * if self.options.verify.is_some() { 2 } else { 1 }
            }
            false => 0,
        };
        let zones = self.size.checked_div(self.zone_bytes()).unwrap_or(0).saturating_mul(ZONE_MEMORY);
        map.saturating_add(u64::from(self.options.iodepth) * IO_MEMORY).saturating_add(zones)
    }

    /// Whether random places are covered once each.
    pub(super) fn covers(options: &Options) -> bool {
        options.rw.random
            && !options.norandommap
            && !options.zones.zoned
            && options.distribution == Distribution::Random
    }

    /// Whether that takes a map: with one block size a permutation is enough.
    pub(super) fn needs_map(options: &Options) -> bool {
        Self::covers(options) && options.smallest_block() != options.largest_block()
    }

    /// Which of the I/Os have to be written before they can be verified, and the unit that is.
    ///
    /// # Errors
    /// The unit does not fit the block sizes.
    pub fn verify_interval(&self) -> Result<u64, String> {
        let least = self.options.smallest_block();
        if self.options.verify == Some(super::Verify::Pattern) && self.options.verify_pattern.is_empty() {
            return Err("verify=pattern needs a verify_pattern".to_owned());
        }
        let unit = match self.options.verify_interval {
            0 => least,
            unit => unit,
        };
        let sizes = self.options.sizes.iter().zip(self.options.rw.does).filter(|(_, does)| *does);
        let fits = |size: u64| size.is_multiple_of(unit);
        for (sizes, _) in sizes {
            let all = match sizes {
                // Those between are multiples of the first.
                super::Sizes::Range(least, _) => fits(*least),
                super::Sizes::Split(parts) => parts.iter().all(|(size, _)| fits(*size)),
            };
            if !all {
                return Err(format!(
                    "verify: block sizes must be multiples of {unit} bytes: set verify_interval"
                ));
            }
        }
        if unit % self.block_bytes != 0 || !self.start.is_multiple_of(unit) {
            return Err(format!(
                "verify: the interval of {unit} bytes must be a multiple of the logical block of {}, and the offset a \
                 multiple of the interval",
                self.block_bytes
            ));
        }
        if unit < super::verify::HEADER as u64 && self.options.verify != Some(super::Verify::Pattern) {
            return Err(format!("verify: an interval has at least {} bytes", super::verify::HEADER));
        }
        Ok(unit)
    }
}

/// The zones that a job keeps to, if it does.
///
/// # Errors
/// The job and the namespace do not agree on whether there are zones, or an option does not go together with zones.
fn zones(options: &Options, space: &Space) -> Result<Option<ZoneGeometry>, String> {
    let wanted = &options.zones;
    let [_, writes, trims] = options.rw.does;
    let Some(zones) = space.zones.filter(|_| wanted.zoned) else {
        let amounts = [Some(options.offset), Some(options.offset_increment), options.size, options.io_size];
        return match (wanted.zoned, space.zones) {
            (true, _) => {
                Err("zonemode=zbd, but the namespace has no zones: leave zonemode out, or run the job on a \
                              zoned namespace (docs/howto/zones.md)"
                    .to_owned())
            }
            (false, Some(_)) if writes || trims => {
                Err("the namespace has zones, which are written in order: add zonemode=zbd".to_owned())
            }
            _ if amounts.iter().flatten().any(|amount| matches!(amount, super::Amount::Zones(_))) => {
                Err("a size in zones needs zonemode=zbd".to_owned())
            }
            _ => Ok(None),
        };
    };
    let block = u64::from(space.block_bytes.max(1));
    let size = zones.zone_blocks.saturating_mul(block);
    if wanted.size != 0 && wanted.size != size {
        return Err(format!(
            "zonesize is {} bytes, but the zones of the namespace have {size}: leave it out",
            wanted.size
        ));
    }
    if writes && trims {
        return Err(format!(
            "rw={} does not go with zonemode=zbd: a zone is reset anyway when it is written again",
            options.rw.name()
        ));
    }
    if options.distribution != Distribution::Random {
        return Err("with zonemode=zbd random_distribution is random".to_owned());
    }
    if wanted.read_beyond_wp && options.verify.is_some() {
        return Err("read_beyond_wp does not go with verify: nothing was written there".to_owned());
    }
    let (what, most) = match wanted.append {
        true => ("appends", u64::from(zones.append_blocks) * block),
        false => ("writes", u64::from(zones.write_blocks) * block),
    };
    let largest = options.sizes[Direction::Write as usize].most();
    if writes && largest > most {
        return Err(format!(
            "a block size of {largest} bytes is more than the drive {what} in one command, {most} bytes: reduce bs"
        ));
    }
    let limit = zones.max_open.into_iter().chain(zones.max_active).min();
    if let Some(limit) = limit.filter(|limit| wanted.max_open > *limit && !wanted.ignore_limits) {
        return Err(format!(
            "max_open_zones is {}, but the namespace allows {limit} open zones: reduce it, or add ignore_zone_limits=1",
            wanted.max_open
        ));
    }
    Ok(Some(zones))
}

/// The zones that lie wholly within a region: first byte and number of bytes.
fn whole_zones(start: u64, size: u64, zone: u64) -> Result<(u64, u64), String> {
    let first = start.div_ceil(zone).saturating_mul(zone);
    let end = (start + size) / zone * zone;
    match end > first {
        true => Ok((first, end - first)),
        false => {
            Err(format!("{size} bytes from {start} on hold no whole zone of {zone} bytes: size=1z is one"))
        }
    }
}
