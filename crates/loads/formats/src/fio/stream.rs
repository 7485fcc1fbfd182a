//! The I/Os of a job in order, as its seed has them: without regard to time.

use super::offsets::{Map, Permutation, Skew};
use super::options::{Direction, Distribution, Sizes};
use super::plan::Plan;
use workload::Rng;

/// One I/O.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Draw {
    /// What it does.
    pub direction: Direction,
    /// First byte, from the start of the namespace.
    pub offset: u64,
    /// How many bytes.
    pub bytes: u64,
}

#[derive(Clone, Debug)]
enum Order {
    /// Each direction has a place of its own, from the start of the region.
    Sequential([u64; 3]),
    /// Each block once; where the next one lies is known ahead.
    Permuted { order: Permutation, next: u64, coming: u64 },
    /// Each block once, in I/Os of several sizes.
    Mapped(Map),
    /// Drawn independently; the next one ahead.
    Drawn { skew: Skew, coming: u64 },
}

impl Order {
    fn permuted(len: u64, rng: &mut Rng) -> Self {
        let order = Permutation::new(len, rng);
        let coming = order.at(0);
        Self::Permuted { order, next: 0, coming }
    }

    fn drawn(skew: Skew, len: u64, rng: &mut Rng) -> Self {
        let coming = skew.draw(len, rng);
        Self::Drawn { skew, coming }
    }
}

/// Makes another seed of each round (a multiplier of SplitMix64).
const ROUND_FACTOR: u64 = 0xBF58_476D_1CE4_E5B9;

/// An endless stream of I/Os.
#[derive(Clone, Debug)]
pub struct Stream {
    plan: Plan,
    places: Rng,
    sizes: Rng,
    mix: Rng,
    order: Order,
    /// Bytes of the current pass over the region, and those that end it.
    passed: u64,
    pass: u64,
    /// Places to draw from: their size, that of the smallest block, and how many there are.
    unit: u64,
    count: u64,
    /// What is to be written after it was trimmed (`trimwrite`).
    trimmed: Option<Draw>,
    /// Passes that have ended.
    ended: u64,
}

impl Stream {
    /// The stream of a plan; equal plans give equal streams.
    #[must_use]
    pub fn new(plan: &Plan) -> Self {
        let options = &plan.options;
        let mut places = Rng::new(plan.seed);
        let unit = options.smallest_block();
        let places_len = (plan.size / unit).max(1);
        let skew = match options.distribution {
            Distribution::Random => Skew::Uniform,
            ref skewed => Skew::new(skewed, places_len, unit, &mut places),
        };
        let seed = plan.seed ^ plan.round.wrapping_mul(ROUND_FACTOR);
        if plan.round > 0 {
            places = Rng::new(seed);
        }
        let order = if !options.rw.random {
            Order::Sequential([0; 3])
        } else if Plan::needs_map(options) {
            Order::Mapped(Map::new(places_len))
        } else if Plan::covers(options) {
            Order::permuted(places_len, &mut places)
        } else {
            Order::drawn(skew, places_len, &mut places)
        };
        let trims = 1 + u64::from(options.rw.does == [false, true, true]);
        // A job that reads and writes in order goes on to io_size before it starts anew.
        let pass = match (options.rw.random, options.rw.does, options.io_size) {
            (false, [true, true, _], Some(_)) => plan.size.max(plan.total),
            _ => plan.size,
        };
        Self {
            places,
            sizes: Rng::new(seed ^ 0x5349_5a45),
            mix: Rng::new(seed ^ 0x004D_4958),
            order,
            passed: 0,
            pass: pass.saturating_mul(trims),
            unit,
            count: places_len,
            trimmed: None,
            ended: 0,
            plan: plan.clone(),
        }
    }

    /// Passes over the region that have ended.
    #[inline]
    pub(super) fn passes(&self) -> u64 {
        self.ended
    }

    /// Whether the next I/O in this direction begins another pass.
    pub(super) fn is_at_pass_end(&self, direction: Direction) -> bool {
        let index = direction as usize;
        let is_drawn = || match &self.order {
            Order::Sequential(at) => {
                self.plan.options.sizes[index].least() > self.plan.size.saturating_sub(at[index])
            }
            Order::Permuted { next, .. } => *next >= self.count,
            Order::Mapped(map) => map.free_from(0).is_none(),
            Order::Drawn { .. } => false,
        };
        self.trimmed.is_none() && (self.passed >= self.pass && !self.plan.options.time_based || is_drawn())
    }

    /// The direction of the next I/O.
    #[inline]
    pub(super) fn direction(&mut self) -> Direction {
        match self.plan.options.rw.does {
            [true, true, _] => match self.mix.below(100) < self.plan.options.rwmixread {
                true => Direction::Read,
                false => Direction::Write,
            },
            [_, true, true] if self.trimmed.is_none() => Direction::Trim,
            [_, true, _] => Direction::Write,
            [true, ..] => Direction::Read,
            _ => Direction::Trim,
        }
    }

    /// Whether the next I/O writes what the last one trimmed (`trimwrite`).
    #[inline]
    pub(super) fn owes_write(&self) -> bool {
        self.trimmed.is_some()
    }

    /// Where the next I/O will begin, in bytes, as far as it is known ahead: it need not be kept.
    #[inline]
    pub(super) fn coming(&self) -> Option<u64> {
        match self.order {
            Order::Permuted { coming, .. } | Order::Drawn { coming, .. } => {
                Some(self.plan.start + coming * self.unit)
            }
            // What comes in order is at hand anyway.
            Order::Sequential(_) | Order::Mapped(_) => None,
        }
    }

    /// A block size of this direction that has room; `None` if none has.
    #[inline]
    pub(super) fn size(&mut self, direction: Direction, room: u64) -> Option<u64> {
        fitting(&self.plan.options.sizes[direction as usize], room, &mut self.sizes)
    }

    /// The place of the next I/O in this direction.
    #[inline]
    pub(super) fn place(&mut self, direction: Direction) -> Draw {
        if let (Direction::Write, Some(trimmed)) = (direction, self.trimmed.take()) {
            self.passed += trimmed.bytes;
            return Draw { direction, ..trimmed };
        }
        if self.passed >= self.pass && !self.plan.options.time_based {
            self.restart();
        }
        let (offset, bytes) = match self.draw(direction) {
            Some(place) => place,
            None => self.draw_anew(direction),
        };
        let draw = Draw { direction, offset, bytes };
        self.passed += draw.bytes;
        if direction == Direction::Trim && self.plan.options.rw.does[Direction::Write as usize] {
            self.trimmed = Some(draw);
        }
        draw
    }

    #[cold]
    fn restart(&mut self) {
        self.ended += 1;
        self.passed = 0;
        match &mut self.order {
            Order::Sequential(at) => *at = [0; 3],
            order @ Order::Permuted { .. } => {
                *order = Order::permuted(self.count, &mut self.places);
            }
            Order::Mapped(map) => map.clear(),
            Order::Drawn { .. } => {}
        }
    }

    /// The first place of the next pass.
    #[cold]
    fn draw_anew(&mut self, direction: Direction) -> (u64, u64) {
        self.restart();
        // A plan holds at least one block of any size, so that a fresh pass always has a place.
        self.draw(direction).unwrap_or((self.plan.start, self.unit))
    }

    /// First byte and number of bytes; `None` at the end of a pass.
    #[inline]
    fn draw(&mut self, direction: Direction) -> Option<(u64, u64)> {
        let size = self.plan.size;
        let sizes = &self.plan.options.sizes[direction as usize];
        let places = self.count;
        let (offset, bytes) = match &mut self.order {
            Order::Sequential(at) => {
                let at = &mut at[direction as usize];
                let bytes = fitting(sizes, size.saturating_sub(*at), &mut self.sizes)?;
                *at += bytes;
                (*at - bytes, bytes)
            }
            Order::Permuted { order, next, coming } => {
                if *next >= places {
                    return None;
                }
                *next += 1;
                let after = if *next < places { order.at(*next) } else { 0 };
                (std::mem::replace(coming, after) * self.unit, self.unit)
            }
            Order::Mapped(map) => {
                let block = map.free_from(self.places.below(places))?;
                let room = (places - block) * self.unit;
                // The last blocks may have room for no size but what is left.
                let bytes = fitting(sizes, room, &mut self.sizes).unwrap_or(room);
                (block * self.unit, map.take(block, bytes / self.unit) * self.unit)
            }
            Order::Drawn { skew, coming } => {
                let mut tries = 0;
                loop {
                    let after = skew.draw(places, &mut self.places);
                    let offset = std::mem::replace(coming, after) * self.unit;
                    match fitting(sizes, size - offset, &mut self.sizes) {
                        Some(bytes) => break (offset, bytes),
                        None if tries == 100 => break (0, sizes.least()),
                        None => tries += 1,
                    }
                }
            }
        };
        Some((self.plan.start + offset, bytes))
    }
}

/// A block size that has room; `None` if none has.
#[inline]
fn fitting(sizes: &Sizes, room: u64, rng: &mut Rng) -> Option<u64> {
    if sizes.least() > room {
        return None;
    }
    match sizes {
        Sizes::Range(least, most) if least == most => Some(*least),
        Sizes::Range(least, most) => {
            let multiples = (most / least).min(room / least);
            Some(least * (1 + rng.below(multiples)))
        }
        Sizes::Split(parts) => {
            for _ in 0..1000 {
                let mut percent = rng.below(100) as u32;
                for (size, share) in parts {
                    if percent < *share {
                        if *size <= room {
                            return Some(*size);
                        }
                        break;
                    }
                    percent -= share;
                }
            }
            Some(sizes.least())
        }
    }
}
