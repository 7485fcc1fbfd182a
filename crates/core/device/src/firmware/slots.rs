//! Firmware slots: what outlives power.

use super::image::is_revision;
use nvme::log::FirmwareSlots;
use serde::{Deserialize, Serialize};

/// Slots. The first is read-only and holds the built-in firmware.
pub(crate) const SLOTS: u8 = 4;

/// Slots and what is in them, over power cycles.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct SlotTable {
    /// Revisions in slots 2 and up; `None` for an empty one.
    images: [Option<String>; SLOTS as usize - 1],
    /// The slot whose firmware runs.
    active: u8,
    /// The slot that is activated at the next reset; 0 for none.
    pub(super) next: u8,
    /// The revision that runs, if its slot got another image since. The new image runs once it is activated.
    replaced: Option<String>,
}

impl Default for SlotTable {
    fn default() -> Self {
        SlotTable { images: Default::default(), active: 1, next: 0, replaced: None }
    }
}

impl SlotTable {
    /// The revision in a slot from 2 up.
    fn image(&self, slot: u8) -> Option<&str> {
        self.images.get(usize::from(slot).checked_sub(2)?)?.as_deref()
    }

    /// Whether a slot has something to activate.
    pub(super) fn is_there(&self, slot: u8) -> bool {
        slot == 1 || self.image(slot).is_some()
    }

    /// Puts an image into a slot from 2 up. The running firmware goes on running.
    pub(super) fn replace(&mut self, slot: u8, revision: String) {
        let Some(image) = usize::from(slot).checked_sub(2).and_then(|i| self.images.get_mut(i)) else {
            return;
        };
        let before = image.replace(revision);
        if slot == self.active && self.replaced.is_none() {
            self.replaced = before;
        }
    }

    /// Runs the image of a slot.
    pub(super) fn activate(&mut self, slot: u8) {
        (self.active, self.next, self.replaced) = (slot, 0, None);
    }

    /// Whether something is activated at the next reset.
    pub fn is_pending(&self) -> bool {
        self.next != 0
    }

    /// The slot for an image whose host lets the drive choose: an empty one, or else the one after the active.
    pub(super) fn choose(&self) -> u8 {
        let empty = (2..=SLOTS).find(|slot| self.image(*slot).is_none());
        empty.unwrap_or(if self.active == SLOTS { 2 } else { self.active.max(1) + 1 })
    }

    /// Whether saved slots are consistent.
    pub fn check(&self) -> bool {
        let possible = |slot: u8| slot <= SLOTS && self.is_there(slot);
        let texts = self.images.iter().chain([&self.replaced]).flatten();
        let texts = texts.into_iter().all(|text| is_revision(text.as_bytes()));
        texts && possible(self.active) && (self.next == 0 || possible(self.next))
    }

    /// Revision of the running firmware, as Identify has it.
    pub(super) fn running(&self, built_in: &str) -> [u8; 8] {
        match &self.replaced {
            Some(running) => nvme::identify::ascii(running),
            None => self.revision_in(self.active, built_in),
        }
    }

    /// Revision in a slot.
    pub(super) fn revision_in(&self, slot: u8, built_in: &str) -> [u8; 8] {
        nvme::identify::ascii(self.image(slot).unwrap_or(built_in))
    }

    /// The Firmware Slot Information log.
    pub(super) fn log(&self, built_in: &str) -> FirmwareSlots {
        let mut log = FirmwareSlots { afi: self.active | self.next << 4, ..FirmwareSlots::default() };
        for (slot, field) in (1..=SLOTS).zip(&mut log.frs) {
            if self.is_there(slot) {
                *field = self.revision_in(slot, built_in);
            }
        }
        log
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replaced_image_runs_until_the_new_one_is_activated() {
        let mut slots = SlotTable::default();
        assert_eq!(slots.choose(), 2);
        slots.replace(2, "two".into());
        slots.activate(2);
        slots.replace(2, "new".into());
        slots.replace(2, "newer".into());
        assert_eq!(&slots.running("built-in"), b"two     ");
        assert_eq!(&slots.log("built-in").frs[1], b"newer   ");
        slots.activate(2);
        assert_eq!(&slots.running("built-in"), b"newer   ");
        assert!(slots.check());
    }

    #[test]
    fn an_image_goes_to_an_empty_slot_or_after_the_active_one() {
        let mut slots = SlotTable::default();
        for slot in 2..=SLOTS {
            assert_eq!(slots.choose(), slot);
            slots.replace(slot, "1".into());
        }
        assert_eq!(slots.choose(), 2);
        slots.activate(2);
        assert_eq!(slots.choose(), 3);
        slots.activate(SLOTS);
        assert_eq!(slots.choose(), 2);
    }

    #[test]
    fn slots_that_contradict_each_other_are_refused() {
        assert!(SlotTable::default().check());
        assert!(!SlotTable { active: 2, ..SlotTable::default() }.check());
        assert!(!SlotTable { active: 0, ..SlotTable::default() }.check());
        assert!(!SlotTable { next: 5, ..SlotTable::default() }.check());
        assert!(!SlotTable { replaced: Some(" no".into()), ..SlotTable::default() }.check());
    }
}
