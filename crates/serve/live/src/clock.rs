//! The drive's clock: the wall's, or one that is set.

use media::Nanos;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Nanoseconds since the drive was first powered. It never goes backwards and, for an image, goes on
/// where it stopped.
pub enum Clock {
    /// Runs with the wall's.
    Wall {
        /// When this process took the drive over.
        start: Instant,
        /// The drive's time at that moment.
        base: Nanos,
        /// In slow motion: nanoseconds of the wall for one of the drive.
        pace: u32,
    },
    /// Stands until it is moved on.
    Virtual(AtomicU64),
}

impl Clock {
    pub(crate) fn wall(base: Nanos, slow_motion: u32) -> Self {
        Clock::Wall { start: Instant::now(), base, pace: slow_motion.max(1) }
    }

    /// How long a span of the drive's time takes on the wall's clock.
    pub(crate) fn on_the_wall(&self, span: Nanos) -> Nanos {
        match self {
            Clock::Wall { pace, .. } => Nanos(span.0.saturating_mul(u64::from(*pace))),
            Clock::Virtual(_) => span,
        }
    }

    /// What it shows.
    #[inline]
    pub fn now(&self) -> Nanos {
        match self {
            Clock::Wall { start, base, pace } => {
                let elapsed = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
                *base + Nanos(if *pace == 1 { elapsed } else { elapsed / u64::from(*pace) })
            }
            Clock::Virtual(now) => Nanos(now.load(Ordering::Relaxed)),
        }
    }

    /// Moves a virtual clock on; the wall's goes its own way.
    pub fn advance(&self, to: Nanos) {
        if let Clock::Virtual(now) = self
            // Only the thread that steps the drive moves its clock.
            && now.load(Ordering::Relaxed) < to.0
        {
            now.store(to.0, Ordering::Relaxed);
        }
    }
}
