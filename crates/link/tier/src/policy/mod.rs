//! Policies: which chunks the cache has.

mod entries;
mod kinds;
mod mq;
mod queue;
mod replay;
mod smq;
#[cfg(test)]
mod tests;

pub use replay::{Agreement, Difference, replay_policy};

pub(crate) use kinds::{Ask, Found, Pace, Work, WorkKind};

use crate::chunk::{Cblock, Oblock};
use crate::config::{MqTunables, PolicyKind};
use blockdev::Nanos;
use mq::Mq;
use smq::{Rules, Smq};

/// Any of the policies.
pub(crate) enum Policy {
    Mq(Box<Mq>),
    Smq(Box<Smq>),
}

/// The same call on whichever policy it is.
macro_rules! each {
    ($self:expr, $policy:ident => $call:expr) => {
        match $self {
            Policy::Mq($policy) => $call,
            Policy::Smq($policy) => $call,
        }
    };
}

impl Policy {
    /// A policy of an empty cache of so many chunks before an origin of so many.
    pub(crate) fn new(kind: PolicyKind, tunables: MqTunables, chunks: u32, origin: u32, now: Nanos) -> Self {
        let smq = |rules| Policy::Smq(Box::new(Smq::new(rules, chunks, origin, now)));
        match kind {
            PolicyKind::Mq => Policy::Mq(Box::new(Mq::new(tunables, chunks))),
            PolicyKind::Smq => smq(Rules::Background),
            PolicyKind::SmqBefore412 => smq(Rules::Inline),
            PolicyKind::Cleaner => smq(Rules::Cleaner),
        }
    }

    /// Looks a chunk up for a request, and takes note of it.
    #[inline]
    pub(crate) fn lookup(&mut self, ask: &Ask) -> Found {
        each!(self, policy => policy.lookup(ask))
    }

    /// Looks a chunk up, and takes no note.
    #[inline]
    pub(crate) fn find(&self, oblock: Oblock) -> Option<Cblock> {
        each!(self, policy => policy.find(oblock))
    }

    /// Which chunk lies at a place.
    pub(crate) fn oblock(&self, cblock: Cblock) -> Option<Oblock> {
        each!(self, policy => policy.oblock(cblock))
    }

    #[inline]
    pub(crate) fn is_dirty(&self, cblock: Cblock) -> bool {
        each!(self, policy => policy.is_dirty(cblock))
    }

    /// Places that are taken.
    pub(crate) fn resident(&self) -> u32 {
        each!(self, policy => policy.resident())
    }

    /// Chunks that are dirty.
    #[inline]
    pub(crate) fn dirty(&self) -> u32 {
        each!(self, policy => policy.dirty())
    }

    /// Whether work is queued that does not wait for the origin to be idle.
    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        match self {
            Policy::Mq(_) => false,
            Policy::Smq(smq) => smq.has_work(),
        }
    }

    /// The next migration that is to begin.
    pub(crate) fn next_work(&mut self, pace: Pace) -> Option<Work> {
        match self {
            Policy::Mq(mq) => mq.next_work(),
            Policy::Smq(smq) => smq.next_work(pace),
        }
    }

    /// Takes a chunk out of the queues for a demotion. False if a migration of it is under way.
    pub(crate) fn claim(&mut self, cblock: Cblock) -> bool {
        each!(self, policy => policy.claim(cblock))
    }

    /// The victim of a promotion leaves its place.
    pub(crate) fn evict(&mut self, cblock: Cblock) {
        each!(self, policy => policy.evict(cblock));
    }

    /// A migration has ended.
    pub(crate) fn finished(&mut self, work: &Work, ok: bool) {
        each!(self, policy => policy.finished(work, ok));
    }

    /// A chunk is written.
    #[inline]
    pub(crate) fn set_dirty(&mut self, cblock: Cblock) {
        each!(self, policy => policy.set_dirty(cblock));
    }

    /// A mapping that the metadata has.
    pub(crate) fn load(&mut self, cblock: Cblock, oblock: Oblock, dirty: bool, hint: Option<u16>) {
        each!(self, policy => policy.load(cblock, oblock, dirty, hint));
    }

    /// What the policy wants to know of a chunk after a restart.
    pub(crate) fn hint(&self, cblock: Cblock) -> u16 {
        each!(self, policy => policy.hint(cblock))
    }

    /// Time has passed, and requests have ended.
    pub(crate) fn tick(&mut self, now: Nanos) {
        match self {
            Policy::Mq(mq) => mq.tick(),
            Policy::Smq(smq) => smq.tick(now),
        }
    }

    /// Whether promotions are wanted at all, for policies whose promotions are work in the background.
    pub(crate) fn allow_promotions(&mut self, allow: bool) {
        if let Policy::Smq(smq) = self {
            smq.allow_promotions(allow);
        }
    }

    pub(crate) fn mq_tunables(&mut self) -> Option<&mut MqTunables> {
        match self {
            Policy::Mq(mq) => Some(&mut mq.tunables),
            Policy::Smq(_) => None,
        }
    }

    /// Bytes of memory.
    pub(crate) fn memory(&self) -> usize {
        each!(self, policy => policy.memory())
    }
}
