//! Faults of the protocol (vendor specific command D1h, kinds 30h and above): those that are armed, and whom they strike.
//!
//! The drive executes every command as it should. What is told to hosts instead is its owner's: it asks at each command, if there are
//! faults at all ([`Drive::has_protocol_faults`](crate::Drive::has_protocol_faults)).

use crate::fault_injection::{CERTAINTY_PPB, entry};
use nvme::log::InjectedFault;
use nvme::protocol_fault::{CommandSource, MAX_FAULTS, ProtocolAction, ProtocolFault};
use nvme::{Command, U32, U64};
use rng::Rng;

/// A fault, and how far it is.
#[derive(Debug)]
struct Armed {
    fault: ProtocolFault,
    /// Matching commands so far.
    seen: u64,
    strikes: u64,
    rng: Rng,
}

impl Armed {
    /// One more matching command: whether it is this fault's turn.
    fn has_turn(&mut self) -> bool {
        let recurrence = self.fault.recurrence;
        let behind = self.seen.checked_sub(recurrence.after.into());
        self.seen += 1;
        behind.is_some_and(|behind| behind.is_multiple_of(recurrence.every.max(1).into()))
            && (recurrence.one_in < 2 || self.rng.below(recurrence.one_in.into()) == 0)
    }

    fn is_over(&self) -> bool {
        let count = u64::from(self.fault.recurrence.count);
        count != 0 && self.strikes >= count
    }

    fn entry(&self) -> InjectedFault {
        let ProtocolFault { commands, recurrence, action } = self.fault;
        let left = u64::from(recurrence.count).saturating_sub(self.strikes);
        let chance = CERTAINTY_PPB / recurrence.one_in.max(1);
        InjectedFault {
            param: U32::new(action.param()),
            nsid: U32::new(commands.nsid.unwrap_or(0)),
            remaining: U64::new(left),
            strikes: U64::new(self.strikes),
            selector: self.fault.selector(),
            ..entry(action.kind(), commands.port.unwrap_or(0), chance)
        }
    }
}

/// The armed faults, in the order in which they were armed.
#[derive(Debug, Default)]
pub(crate) struct ProtocolFaults {
    armed: Vec<Armed>,
    seed: u64,
    /// Faults that were ever armed: each draws a stream of its own from the seed.
    count: u64,
}

impl ProtocolFaults {
    /// Those of the drive's configuration.
    pub fn new(seed: u64, faults: &[ProtocolFault]) -> Self {
        let mut all = ProtocolFaults { seed, ..ProtocolFaults::default() };
        faults.iter().for_each(|fault| {
            all.arm(*fault);
        });
        all
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.armed.is_empty()
    }

    /// Arms a fault. False if there are too many.
    pub fn arm(&mut self, fault: ProtocolFault) -> bool {
        if self.armed.len() >= MAX_FAULTS {
            return false;
        }
        self.count += 1;
        let rng = Rng::stream(self.seed, self.count);
        self.armed.push(Armed { fault, seen: 0, strikes: 0, rng });
        true
    }

    pub fn clear(&mut self) {
        self.armed.clear();
    }

    /// What happens to a command, if anything. Each fault that means it counts it; the first that has its turn strikes.
    pub fn strike(&mut self, source: CommandSource, command: &Command) -> Option<ProtocolAction> {
        self.strike_where(|fault| {
            !matches!(fault.action, ProtocolAction::LateReady(_)) && fault.commands.matches(source, command)
        })
    }

    /// How late a controller that is being enabled becomes ready.
    pub fn strike_enabling(&mut self, source: CommandSource) -> Option<u32> {
        let action = self.strike_where(|fault| {
            matches!(fault.action, ProtocolAction::LateReady(_)) && fault.commands.is_of(source)
        });
        action.map(ProtocolAction::param)
    }

    fn strike_where(&mut self, meant: impl Fn(&ProtocolFault) -> bool) -> Option<ProtocolAction> {
        let mut action = None;
        for armed in self.armed.iter_mut().filter(|armed| meant(&armed.fault)) {
            if armed.has_turn() && action.is_none() {
                armed.strikes += 1;
                action = Some(armed.fault.action);
            }
        }
        if action.is_some() {
            self.armed.retain(|armed| !armed.is_over());
        }
        action
    }

    /// The armed faults, for their log.
    pub fn entries(&self) -> impl Iterator<Item = InjectedFault> {
        self.armed.iter().map(Armed::entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nvme::protocol_fault::{CommandMatch, QueueKind, Recurrence};

    const SOURCE: CommandSource = CommandSource { queue: QueueKind::Io, controller: 1, port: 1 };

    fn drop_of(recurrence: Recurrence) -> ProtocolFault {
        let action = ProtocolAction::Drop { unexecuted: false };
        ProtocolFault { commands: CommandMatch::default(), recurrence, action }
    }

    /// The numbers of those of the first 20 commands that are struck.
    fn struck(faults: &mut ProtocolFaults) -> Vec<usize> {
        let read = Command::read(1, 0, 1);
        (0..20).filter(|_| faults.strike(SOURCE, &read).is_some()).collect()
    }

    #[test]
    fn recurrences_strike_what_they_say() {
        for (after, every, count, expected) in [
            (0, 0, 2, vec![0, 1]),
            (3, 1, 1, vec![3]),
            (2, 5, 0, vec![2, 7, 12, 17]),
            (2, 5, 3, vec![2, 7, 12]),
        ] {
            let recurrence = Recurrence { after, every, one_in: 0, count };
            let mut faults = ProtocolFaults::new(1, &[drop_of(recurrence)]);
            assert_eq!(struck(&mut faults), expected);
            assert_eq!(faults.is_empty(), count != 0, "a fault that has struck its number is over");
        }
    }

    #[test]
    fn chance_comes_from_the_seed() {
        let recurrence = Recurrence { one_in: 3, ..Recurrence::default() };
        let of = |seed| struck(&mut ProtocolFaults::new(seed, &[drop_of(recurrence)]));
        assert_eq!(of(5), of(5));
        assert!((1..20).contains(&of(5).len()) && (0..20).any(|seed| of(seed) != of(5)));
    }

    #[test]
    fn the_first_fault_that_has_its_turn_strikes() {
        let first = drop_of(Recurrence { every: 2, count: 2, ..Recurrence::default() });
        let second = ProtocolFault { action: ProtocolAction::Duplicate, ..drop_of(Recurrence::default()) };
        let mut faults = ProtocolFaults::new(1, &[first, second]);
        let read = Command::read(1, 0, 1);
        let actions: Vec<_> = (0..4).map(|_| faults.strike(SOURCE, &read).unwrap()).collect();
        let (drop, duplicate) = (first.action, second.action);
        assert_eq!(actions, [drop, duplicate, drop, duplicate]);
        let [left] = faults.entries().collect::<Vec<_>>()[..] else { panic!() };
        assert_eq!((left.kind, left.strikes.get(), left.remaining.get()), (duplicate.kind(), 2, 0));
    }

    #[test]
    fn enabling_is_struck_by_its_own_fault_only() {
        let commands =
            CommandMatch { queue: QueueKind::Admin, opcode: Some(0x7F), ..CommandMatch::default() };
        let recurrence = Recurrence { count: 1, ..Recurrence::default() };
        let fault = ProtocolFault { commands, recurrence, action: ProtocolAction::LateReady(7) };
        let mut faults = ProtocolFaults::new(1, &[fault]);
        let admin = CommandSource { queue: QueueKind::Admin, ..SOURCE };
        assert_eq!(faults.strike(admin, &Command::new(0x7F, 0)), None);
        assert_eq!(faults.strike_enabling(admin), Some(7));
        assert_eq!(faults.strike_enabling(admin), None);
    }

    #[test]
    fn there_is_a_bound() {
        let mut faults = ProtocolFaults::default();
        let armed = (0..100).filter(|_| faults.arm(drop_of(Recurrence::default()))).count();
        assert_eq!((armed, faults.entries().count()), (MAX_FAULTS, MAX_FAULTS));
        faults.clear();
        assert!(faults.is_empty());
    }
}
