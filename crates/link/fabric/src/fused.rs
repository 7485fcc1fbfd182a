//! Fused operations (Base 3.4.2) on the controller's side. Two commands that follow each other in the queue are passed on one right
//! behind the other, when the data of both is there.
//!
//! Only this module knows the order in which commands came. A first command waits for the next capsule. If that is its second
//! command, each waits for the other's data. If not, the first is passed on as [`alone`](crate::target::Incoming::alone). If the data of
//! one of the two is damaged, that one fails and the other is aborted.

use crate::slot::{FusedHalf, Slot};

/// Whether the command that came last is the first of a fused operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum LastFirst {
    #[default]
    None,
    /// In this place.
    At(u16),
    /// And it has failed already.
    Failed,
}

/// What is to be done when the data of a command is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Next {
    /// Nothing: it waits for the other one.
    Wait,
    /// It is passed on.
    Deliver,
    /// Both are passed on, the first one first.
    DeliverPair { first: u16, second: u16 },
    /// It fails, as the other one did.
    Refuse,
}

fn part(slots: &mut [Slot], index: u16) -> &mut FusedHalf {
    &mut slots[usize::from(index)].fused
}

/// A command with this FUSE field has come: it may belong to the one before. Returns a first command whose data was there, and which
/// is now passed on alone.
pub(crate) fn join(slots: &mut [Slot], last: &mut LastFirst, index: u16, fuse: u8) -> Option<u16> {
    let mut alone = None;
    match (std::mem::take(last), fuse) {
        (LastFirst::None, _) => {}
        (LastFirst::At(first), 2) => {
            let complete = *part(slots, first) == FusedHalf::First { complete: true };
            *part(slots, first) = FusedHalf::Paired { second: index, complete };
            *part(slots, index) = FusedHalf::Second { first, complete: false };
        }
        (LastFirst::At(first), _) => {
            let complete = *part(slots, first) == FusedHalf::First { complete: true };
            *part(slots, first) = FusedHalf::Alone;
            alone = complete.then_some(first);
        }
        (LastFirst::Failed, 2) => *part(slots, index) = FusedHalf::Broken,
        (LastFirst::Failed, _) => {}
    }
    if fuse == 1 {
        *part(slots, index) = FusedHalf::First { complete: false };
        *last = LastFirst::At(index);
    }
    alone
}

/// The data of a command is there.
pub(crate) fn complete(slots: &mut [Slot], index: u16) -> Next {
    let (first, second) = match part(slots, index) {
        FusedHalf::First { complete } => {
            *complete = true;
            return Next::Wait;
        }
        FusedHalf::Paired { second, complete } => {
            *complete = true;
            (index, *second)
        }
        FusedHalf::Second { first, complete } => {
            *complete = true;
            (*first, index)
        }
        FusedHalf::Broken => return Next::Refuse,
        FusedHalf::None | FusedHalf::Alone => return Next::Deliver,
    };
    if [first, second].iter().any(|&one| part(slots, one).pair_is_complete() != Some(true)) {
        return Next::Wait;
    }
    *part(slots, first) = FusedHalf::None;
    *part(slots, second) = FusedHalf::None;
    Next::DeliverPair { first, second }
}

/// A command fails before the controller sees it. Returns the other one of its pair, if its data was there and it fails now, too.
pub(crate) fn fail(slots: &mut [Slot], last: &mut LastFirst, index: u16) -> Option<u16> {
    let half = std::mem::take(part(slots, index));
    if *last == LastFirst::At(index) {
        *last = LastFirst::Failed;
    }
    let other = match half {
        FusedHalf::Paired { second, .. } => second,
        FusedHalf::Second { first, .. } => first,
        _ => return None,
    };
    let complete = part(slots, other).pair_is_complete()?;
    *part(slots, other) = FusedHalf::Broken;
    complete.then_some(other)
}
