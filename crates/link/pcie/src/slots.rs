//! Commands in flight.

use crate::segment::DataSegment;
use nvme::SeparateBlock;
use nvme::feature::FeatureId;

/// Names a command in flight. A tag whose command was answered names no later command, until its place has been used 65,536 times more.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CommandTag {
    place: u16,
    generation: u16,
}

impl CommandTag {
    /// The command's place: below [`FunctionConfig::max_commands`](crate::FunctionConfig::max_commands), for tables of the caller's own.
    #[must_use]
    pub fn index(self) -> usize {
        self.place.into()
    }

    /// The tag as a number, for tables of the caller's own.
    #[must_use]
    pub const fn to_bits(self) -> u32 {
        (self.generation as u32) << 16 | self.place as u32
    }

    /// The tag that [`to_bits`](CommandTag::to_bits) made a number of. Any other number gives a tag that names no command, or another
    /// one.
    #[must_use]
    pub const fn from_bits(bits: u32) -> Self {
        CommandTag { place: bits as u16, generation: (bits >> 16) as u16 }
    }
}

/// A tag names no command in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the tag names no command in flight")]
pub struct StaleTag;

/// What the transport learns from a command that succeeds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Lesson {
    #[default]
    Nothing,
    /// A feature has this value: Set Features.
    Feature(FeatureId, u32),
    /// The data is Identify Controller, which describes the transport in part.
    IdentifyController,
}

/// What a command moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DataPart {
    /// Its data, at the data pointer; with the metadata of extended logical blocks.
    Data,
    /// Its separate metadata, at the metadata pointer.
    Metadata,
}

/// A command in flight.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    generation: u16,
    is_used: bool,
    /// Its submission queue.
    pub qid: u16,
    /// Its identifier.
    pub cid: u16,
    pub lesson: Lesson,
    /// The data pointer as it came. It is not read from the queue again.
    pub command: nvme::Command,
    /// Where its data and its separate metadata are, by [`DataPart`]. Empty until they are mapped.
    pub segments: [Vec<DataSegment>; 2],
    /// Its blocks, if their metadata is separate.
    pub separate: Option<SeparateBlock>,
    /// Data did not reach the guest.
    pub is_damaged: bool,
}

/// All places for commands.
#[derive(Debug)]
pub(crate) struct Slots {
    slots: Vec<Slot>,
    free: Vec<u16>,
    limit: u16,
}

impl Slots {
    /// Places for this many commands. They are made when they are first needed.
    pub(crate) fn new(limit: u16) -> Self {
        Slots { slots: Vec::new(), free: Vec::new(), limit }
    }

    /// How many commands are in flight.
    pub(crate) fn used(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// How many more there may be.
    pub(crate) fn room(&self) -> usize {
        usize::from(self.limit) - self.used()
    }

    /// Takes a place; `None` without room.
    pub(crate) fn take(&mut self) -> Option<(CommandTag, &mut Slot)> {
        let place = match self.free.pop() {
            Some(place) => place,
            None => {
                let place = u16::try_from(self.slots.len()).ok().filter(|place| *place < self.limit)?;
                self.slots.push(Slot::default());
                place
            }
        };
        let slot = &mut self.slots[usize::from(place)];
        slot.is_used = true;
        Some((CommandTag { place, generation: slot.generation }, slot))
    }

    /// The submission queue of each command in flight.
    #[cfg(test)]
    pub(crate) fn queues(&self) -> impl Iterator<Item = u16> {
        self.slots.iter().filter(|slot| slot.is_used).map(|slot| slot.qid)
    }

    /// The command of a tag.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn get(&mut self, tag: CommandTag) -> Result<&mut Slot, StaleTag> {
        let slot = self.slots.get_mut(tag.index());
        slot.filter(|slot| slot.is_used && slot.generation == tag.generation).ok_or(StaleTag)
    }

    /// Gives the place of a command back.
    pub(crate) fn end(&mut self, tag: CommandTag) {
        let Ok(slot) = self.get(tag) else { return };
        // The memory of its segments is kept.
        slot.segments.iter_mut().for_each(Vec::clear);
        (slot.is_used, slot.is_damaged, slot.lesson) = (false, false, Lesson::Nothing);
        slot.separate = None;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(tag.place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_names_one_command() {
        let mut slots = Slots::new(2);
        let first = slots.take().unwrap().0;
        let second = slots.take().unwrap().0;
        assert!(slots.take().is_none() && slots.room() == 0);
        assert_eq!(CommandTag::from_bits(second.to_bits()), second);
        slots.end(first);
        slots.end(first);
        assert_eq!((slots.get(first).err(), slots.used()), (Some(StaleTag), 1));
        let third = slots.take().unwrap().0;
        assert!(third.index() == first.index() && third != first && slots.get(third).is_ok());
        assert!(slots.get(CommandTag::from_bits(9)).is_err());
    }
}
