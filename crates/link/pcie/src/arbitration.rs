//! Which submission queue is served next (Base 3.4.4, "Command Arbitration").
//!
//! With round robin all queues are equal. With weighted round robin, the admin queue comes first, then urgent queues, and then queues
//! of high, medium and low priority by their weights.

use nvme::feature::Arbitration;

/// A set of queues, one bit for each identifier.
pub(crate) type QueueSet = u128;

/// Priorities of I/O submission queues (QPRIO).
const PRIORITIES: usize = 4;
/// QPRIO of urgent queues.
const URGENT: usize = 0;

/// Round robin among queues that are equal.
#[derive(Clone, Copy, Debug, Default)]
struct RoundRobin {
    /// The queue that was served last.
    last: u32,
    /// Commands that it may still give in this turn.
    left: u32,
}

impl RoundRobin {
    /// The queue to serve: the last one while it has commands and its burst is not used up, otherwise the next one with commands.
    fn pick(&mut self, ready: QueueSet, burst: u32) -> u16 {
        if self.left == 0 || ready >> self.last & 1 == 0 {
            let behind = ready & u128::MAX.checked_shl(self.last + 1).unwrap_or(0);
            let queues = if behind == 0 { ready } else { behind };
            (self.last, self.left) = (queues.trailing_zeros(), burst);
        }
        self.left -= 1;
        self.last as u16
    }
}

/// The arbiter of a controller.
#[derive(Clone, Debug, Default)]
pub(crate) struct Arbiter {
    /// Whether weighted round robin with urgent priority class is selected (CC.AMS).
    weighted: bool,
    settings: Arbitration,
    /// Queues of each priority.
    queues: [QueueSet; PRIORITIES],
    turns: [RoundRobin; PRIORITIES],
    /// Commands that high, medium and low priority may still give in this round.
    credits: [u32; PRIORITIES - 1],
}

impl Arbiter {
    /// An arbiter without I/O queues.
    pub(crate) fn new(weighted: bool, settings: Arbitration) -> Self {
        Arbiter { weighted, settings, ..Arbiter::default() }
    }

    /// Takes over the value of the Arbitration feature.
    pub(crate) fn set(&mut self, settings: Arbitration) {
        self.settings = settings;
        self.credits = [0; PRIORITIES - 1];
    }

    /// An I/O queue was created.
    pub(crate) fn add(&mut self, qid: u16, priority: u8) {
        self.queues[usize::from(priority) % PRIORITIES] |= 1 << qid;
    }

    /// An I/O queue was deleted.
    pub(crate) fn remove(&mut self, qid: u16) {
        self.queues.iter_mut().for_each(|queues| *queues &= !(1 << qid));
    }

    /// Commands that a queue gives in one turn. 7 is no limit.
    fn burst(&self) -> u32 {
        match self.settings.ab() {
            7 => u32::MAX,
            ab => 1 << ab,
        }
    }

    /// The queue of these with commands whose command is fetched next.
    pub(crate) fn pick(&mut self, ready: QueueSet) -> Option<u16> {
        if ready == 0 {
            return None;
        }
        let burst = self.burst();
        if !self.weighted {
            return Some(self.turns[URGENT].pick(ready, burst));
        }
        if ready & 1 != 0 {
            return Some(0);
        }
        let urgent = ready & self.queues[URGENT];
        if urgent != 0 {
            return Some(self.turns[URGENT].pick(urgent, burst));
        }
        let waiting = |class: usize| ready & self.queues[class + 1];
        let has_turn =
            |credits: &[u32; PRIORITIES - 1], class: usize| credits[class] > 0 && waiting(class) != 0;
        if !(0..PRIORITIES - 1).any(|class| has_turn(&self.credits, class)) {
            let weights = [self.settings.hpw_z(), self.settings.mpw_z(), self.settings.lpw_z()];
            self.credits = weights.map(|weight| u32::from(weight) + 1);
        }
        let class = (0..PRIORITIES - 1).find(|class| has_turn(&self.credits, *class))?;
        self.credits[class] -= 1;
        Some(self.turns[class + 1].pick(waiting(class), burst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picks(arbiter: &mut Arbiter, ready: QueueSet, count: usize) -> Vec<u16> {
        (0..count).map(|_| arbiter.pick(ready).unwrap()).collect()
    }

    #[test]
    fn round_robin_serves_bursts_in_turn() {
        let mut arbiter = Arbiter::new(false, Arbitration::new());
        assert_eq!(picks(&mut arbiter, 0b1011, 7), [1, 3, 0, 1, 3, 0, 1]);
        arbiter.set(Arbitration::new().with_ab(1));
        assert_eq!(picks(&mut arbiter, 0b1011, 6), [3, 3, 0, 0, 1, 1]);
        arbiter.set(Arbitration::new().with_ab(7));
        let unlimited = picks(&mut arbiter, 0b1011, 100);
        assert!(unlimited.iter().all(|qid| *qid == unlimited[0]));
        assert_eq!(arbiter.pick(1 << 127), Some(127));
        assert_eq!(picks(&mut arbiter, 0b110, 1), [1]);
        assert_eq!(arbiter.pick(0), None);
    }

    #[test]
    fn weights_share_what_admin_and_urgent_queues_leave() {
        let settings = Arbitration::new().with_hpw_z(3).with_mpw_z(1).with_lpw_z(0);
        let mut arbiter = Arbiter::new(true, settings);
        for (qid, priority) in [(1, 0), (2, 1), (3, 2), (4, 3), (5, 1)] {
            arbiter.add(qid, priority);
        }
        assert_eq!(picks(&mut arbiter, 0b11_1111, 3), [0; 3]);
        assert_eq!(picks(&mut arbiter, 0b11_1110, 3), [1; 3]);
        assert_eq!(picks(&mut arbiter, 0b11_1100, 14), [2, 5, 2, 5, 3, 3, 4, 2, 5, 2, 5, 3, 3, 4]);
        arbiter.remove(3);
        assert_eq!(picks(&mut arbiter, 0b01_0000, 5), [4; 5], "alone it has everything");
        assert_eq!(arbiter.pick(0b1000), None, "no such queue");
    }
}
