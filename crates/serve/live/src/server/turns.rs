//! Turns of parties: how much of the drive's thread a party takes before others have it.
//!
//! One thread reads commands, executes them and sends answers. It goes round: in each round a party's commands may cost so much. What a party
//! has beyond that waits for the next round. So a host waits for one turn of each other party, however many queues and commands that has.
//!
//! The cost of a command is what it makes the thread do: the bytes that it moves, and [`COMMAND_COST`] or [`ADMIN_COST`]. Time on the media does
//! not count here: quotas and shares of the NVM Set limit that. A party that is alone has no turns.

use super::places::{Party, Place};

/// What a turn may cost, in bytes. A party that has less spent begins one more command, however long.
const TURN: usize = 128 << 10;
/// The cost of a command of an I/O queue, beside the bytes that it moves.
const COMMAND_COST: usize = 512;
/// The cost of an admin command, which takes microseconds.
const ADMIN_COST: usize = 8 << 10;

/// A party's turn of this round, until the next round begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn(Option<usize>);

/// One round.
#[derive(Default, Debug)]
pub(super) struct Turns {
    /// What each party has spent.
    spent: Vec<(Party, usize)>,
    /// Whether there are several parties.
    shared: bool,
}

impl Turns {
    /// Another round begins.
    pub(super) fn begin_round(&mut self, shared: bool) {
        self.spent.clear();
        self.shared = shared;
    }

    /// The turn of whoever has this place.
    pub(super) fn of(&mut self, place: &Place) -> Turn {
        if !self.shared {
            return Turn(None);
        }
        let who = place.party();
        let at = self.spent.iter().position(|(other, _)| *other == who).unwrap_or_else(|| {
            self.spent.push((who, 0));
            self.spent.len() - 1
        });
        Turn(Some(at))
    }

    /// Whether a turn is over.
    #[inline]
    pub(super) fn is_over(&self, turn: Turn) -> bool {
        self.left(turn) == 0
    }

    /// What is left of a turn.
    #[inline]
    pub(super) fn left(&self, turn: Turn) -> usize {
        let spent = turn.0.and_then(|at| self.spent.get(at));
        spent.map_or(usize::MAX, |(_, spent)| TURN.saturating_sub(*spent))
    }

    /// A command was executed that moves so many bytes.
    #[inline]
    pub(super) fn executed(&mut self, turn: Turn, qid: u16, bytes: u64) {
        let own = if qid == 0 { ADMIN_COST } else { COMMAND_COST };
        self.spend(turn, usize::try_from(bytes).unwrap_or(usize::MAX).saturating_add(own));
    }

    /// Work that costs so much was done: bytes were received, or memory was made for them.
    #[inline]
    pub(super) fn spend(&mut self, turn: Turn, cost: usize) {
        if let Some((_, spent)) = turn.0.and_then(|at| self.spent.get_mut(at)) {
            *spent = spent.saturating_add(cost);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use peers::Network;

    #[test]
    fn a_party_has_one_turn_in_a_round_whatever_its_connections() {
        let (one, other) = (Place::Unproven(Network::Loopback, 1), Place::Unproven(Network::Loopback, 2));
        let near = Place::Local(0);
        let mut turns = Turns::default();
        turns.begin_round(true);
        let [one, other, near] = [one, other, near].map(|place| turns.of(&place));
        let mut commands = 0;
        while !turns.is_over(one) {
            turns.executed([one, other][commands % 2], 0, 4096);
            commands += 1;
        }
        assert_eq!(commands, TURN.div_ceil(ADMIN_COST + 4096));
        assert!(turns.is_over(other) && !turns.is_over(near));
        // However long one command is, it is begun.
        turns.executed(near, 1, u64::MAX);
        assert!(turns.is_over(near));
        turns.begin_round(true);
        let one = turns.of(&Place::Unproven(Network::Loopback, 3));
        assert!(!turns.is_over(one));
    }

    #[test]
    fn a_party_that_is_alone_has_no_turns() {
        let place = Place::Local(7);
        let mut turns = Turns::default();
        turns.begin_round(false);
        let turn = turns.of(&place);
        turns.spend(turn, usize::MAX);
        assert!(!turns.is_over(turn));
    }
}
