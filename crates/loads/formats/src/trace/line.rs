//! What a line of a trace says, and what several formats have in common.

use super::event::Event;
use workload::Nanos;

/// Bytes of the sectors in which the block layer counts.
const SECTOR: u64 = 512;

/// A line that was understood.
pub(super) enum Line<'a> {
    /// An event, so many times; its device is still a name. If it `flushes`, what was written before is to be durable first.
    Event { event: Event, device: &'a str, flushes: bool, count: u64 },
    /// So much time passes (iolog version 2).
    Wait(Nanos),
    /// Not an I/O, or not one that counts.
    Ignored,
    /// An I/O that counts with another action.
    OtherAction,
    /// Nothing that a host did: a summary, or what a program says of itself.
    Remark,
}

/// One event that needs no flush before.
pub(super) fn plain(event: Event, device: &str) -> Line<'_> {
    Line::Event { event, device, flushes: false, count: 1 }
}

/// Of the events that one I/O makes, the one that counts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Action {
    /// As it came to the block layer.
    Queued,
    /// As it went to the device.
    Issued,
    /// As an NVMe command.
    Command,
}

impl Action {
    /// All of them.
    pub const ALL: [Action; 3] = [Action::Queued, Action::Issued, Action::Command];

    /// Its letter.
    #[must_use]
    pub fn letter(self) -> char {
        match self {
            Action::Queued => 'Q',
            Action::Issued => 'D',
            Action::Command => 'N',
        }
    }

    /// The one of this letter.
    #[must_use]
    pub fn of(letter: char) -> Option<Action> {
        Action::ALL.into_iter().find(|action| action.letter() == letter)
    }
}

pub(super) fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

/// Exactly so many fields.
pub(super) fn fields<'a, const N: usize>(line: &'a str, names: &str) -> Result<[&'a str; N], String> {
    let mut all = [""; N];
    let mut count = 0;
    for field in line.split(',') {
        if let Some(place) = all.get_mut(count) {
            *place = field.trim();
        }
        count += 1;
    }
    if count == N { Ok(all) } else { Err(format!("there are {count} fields: there must be {N}, {names}")) }
}

/// Seconds with up to nine digits behind the point.
pub(super) fn seconds(text: &str) -> Result<Nanos, String> {
    let wrong = || format!("the time is {text:?}: it is seconds, with up to nine digits behind the point");
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    if part.len() > 9 || !part.bytes().all(|b| b.is_ascii_digit()) {
        return Err(wrong());
    }
    let whole: u64 = whole.parse().map_err(|_| wrong())?;
    let part = part.bytes().chain(std::iter::repeat(b'0')).take(9);
    let nanos = part.fold(0, |nanos, digit| nanos * 10 + u64::from(digit - b'0'));
    whole.checked_mul(1_000_000_000).and_then(|whole| whole.checked_add(nanos)).ok_or_else(wrong)
}

/// So many sectors, in bytes.
pub(super) fn sectors(count: u64) -> Result<u64, String> {
    count.checked_mul(SECTOR).ok_or_else(|| format!("{count} sectors are more than there can be"))
}
