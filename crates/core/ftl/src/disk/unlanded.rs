//! Writes that are accepted and not on the platters yet, page by page: what a power cut would leave of each page.
//!
//! The page table says what a page holds with all accepted writes. As long as one of them is not on the platters, the page has an entry
//! here. It has what the platters held before, and each write since with the bytes that it changed. The disk lands writes of different sectors
//! in any order, so a power cut may leave some of them. A page with all its writes on the platters has no entry.

use crate::config::PAGE;
use crate::storage::Storage;
use media::Slot;
use std::collections::BTreeMap;
use std::ops::Range;

/// A write of a part of a page.
#[derive(Clone, Debug)]
struct Layer {
    /// The disk's request. Later writes have higher numbers.
    request: u64,
    /// Bytes of the page that it changes.
    bytes: Range<u32>,
    /// The page with it and all earlier writes.
    slot: Slot,
    /// Bytes that are on the platters.
    landed: Option<Range<u32>>,
}

/// A page with writes that are not on the platters.
#[derive(Clone, Debug)]
struct Entry {
    /// What the platters held before all layers. It owns a reference.
    base: Option<Slot>,
    /// In the order in which they landed; those that have not in the order of requests. Each owns a reference.
    layers: Vec<Layer>,
    /// A write of it was lost, so that the page table is wrong.
    spoiled: bool,
}

/// What the platters hold of a page after a power cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Left {
    /// What the page table says.
    Current,
    /// Something else, with a reference that the caller owns; `None` is nothing.
    Older(Option<Slot>),
}

/// All pages with writes that are not on the platters.
#[derive(Clone, Default, Debug)]
pub(super) struct Unlanded(BTreeMap<u32, Entry>);

/// Landed layers of one page from which on those are dropped that later ones cover.
const LAYERS_BEFORE_PRUNING: usize = 16;

impl Unlanded {
    /// A write of a part of a page is accepted. The page table has `slot` from now on, and had `before`, whose reference moves here. `slot`
    /// has a reference for this.
    pub fn accept<S: Storage>(
        &mut self,
        page: u32,
        request: u64,
        bytes: Range<u32>,
        slot: Slot,
        before: Option<Slot>,
        storage: &mut S,
    ) {
        let layer = Layer { request, bytes, slot, landed: None };
        match self.0.get_mut(&page) {
            Some(entry) => {
                // The last layer has a reference of its own.
                if let Some(before) = before {
                    storage.release(before);
                }
                entry.layers.push(layer);
            }
            None => {
                self.0.insert(page, Entry { base: before, layers: vec![layer], spoiled: false });
            }
        }
    }

    /// A request is on the platters. Does nothing if the page was deallocated meanwhile. Returns whether the page must be
    /// [settled](Unlanded::settle), because a write of it was lost.
    pub fn land<S: Storage>(&mut self, page: u32, request: u64, storage: &mut S) -> bool {
        self.land_part(page, request, 0..PAGE, storage);
        let Some(entry) = self.0.get_mut(&page) else { return false };
        let all = entry.has_landed();
        if all && !entry.spoiled {
            if let Some(entry) = self.0.remove(&page) {
                entry.drop_all(storage);
            }
            return false;
        }
        if entry.layers.len() > LAYERS_BEFORE_PRUNING {
            entry.compact(storage);
        }
        all
    }

    /// So many bytes of a request are on the platters: those of its own that lie in `part`.
    pub fn land_part<S: Storage>(&mut self, page: u32, request: u64, part: Range<u32>, storage: &mut S) {
        let Some(entry) = self.0.get_mut(&page) else { return };
        let Some(i) = entry.layers.iter().position(|layer| layer.request == request) else { return };
        let mut layer = entry.layers.remove(i);
        let landed = layer.bytes.start.max(part.start)..layer.bytes.end.min(part.end);
        layer.landed = (!landed.is_empty()).then_some(landed);
        // Landed ones come first, in their order.
        let at = entry.layers.partition_point(|layer| layer.landed.is_some());
        let whole = layer.landed == Some(0..PAGE);
        entry.layers.insert(at, layer);
        if whole {
            // Nothing that landed before can be seen any more.
            entry.layers.drain(..at).for_each(|layer| storage.release(layer.slot));
            if let Some(base) = entry.base.take() {
                storage.release(base);
            }
        }
    }

    /// A write of a request was lost. Returns whether the page must be [settled](Unlanded::settle) now.
    pub fn lose<S: Storage>(&mut self, page: u32, request: u64, storage: &mut S) -> bool {
        let Some(entry) = self.0.get_mut(&page) else { return false };
        let Some(i) = entry.layers.iter().position(|layer| layer.request == request) else { return false };
        storage.release(entry.layers.remove(i).slot);
        entry.spoiled = true;
        entry.has_landed()
    }

    /// Pages with an entry, in their order.
    pub fn pages(&self) -> Vec<u32> {
        self.0.keys().copied().collect()
    }

    /// Forgets a page: it was deallocated.
    pub fn forget<S: Storage>(&mut self, page: u32, storage: &mut S) {
        if let Some(entry) = self.0.remove(&page) {
            entry.drop_all(storage);
        }
    }

    /// What is on the platters of a page, and forgets how it came there. `current` is what the page table says.
    pub fn settle<S: Storage>(&mut self, page: u32, current: Option<Slot>, storage: &mut S) -> Left {
        let Some(mut entry) = self.0.remove(&page) else { return Left::Current };
        let newest = entry.layers.last().map(|layer| layer.slot);
        if newest == current && entry.has_landed() && !entry.spoiled {
            entry.drop_all(storage);
            return Left::Current;
        }
        entry.layers.retain(|layer| {
            if layer.landed.is_none() {
                storage.release(layer.slot);
            }
            layer.landed.is_some()
        });
        let mut platters = entry.base.take();
        for layer in &entry.layers {
            let made = match layer.landed.as_ref() {
                Some(landed) if *landed != (0..PAGE) => merge(layer.slot, landed.clone(), platters, storage),
                _ => {
                    storage.retain(layer.slot);
                    Some(layer.slot)
                }
            };
            // Without room to put the parts together, the page of the newest landed write stands for all: a power cut
            // may also leave what was accepted before it.
            let next = made.or_else(|| {
                let newest = entry.layers.iter().max_by_key(|layer| layer.request);
                newest.map(|layer| layer.slot).inspect(|&slot| storage.retain(slot))
            });
            if let Some(below) = std::mem::replace(&mut platters, next) {
                storage.release(below);
            }
            if made.is_none() {
                break;
            }
        }
        entry.layers.iter().for_each(|layer| storage.release(layer.slot));
        Left::Older(platters)
    }

    /// The contents that it refers to, each as often as it does.
    pub fn references(&self) -> impl Iterator<Item = Slot> {
        self.0.values().flat_map(|entry| {
            entry
                .base
                .into_iter()
                .chain(entry.layers.iter().map(|layer| layer.slot))
                .filter(|&s| s != Slot::NONE)
        })
    }
}

impl Entry {
    fn has_landed(&self) -> bool {
        self.layers.iter().all(|layer| layer.landed.as_ref() == Some(&layer.bytes))
    }

    fn drop_all<S: Storage>(self, storage: &mut S) {
        let layers = self.layers.into_iter().map(|layer| layer.slot);
        self.base.into_iter().chain(layers).for_each(|slot| storage.release(slot));
    }

    /// Drops landed layers that one landed layer above covers.
    fn compact<S: Storage>(&mut self, storage: &mut S) {
        let mut i = 0;
        while i < self.layers.len() {
            let covers =
                |below: &Range<u32>, above: &Range<u32>| above.start <= below.start && below.end <= above.end;
            let below = self.layers[i].landed.clone();
            let hidden = below.is_some_and(|below| {
                self.layers[i + 1..]
                    .iter()
                    .filter_map(|layer| layer.landed.as_ref())
                    .any(|above| covers(&below, above))
            });
            if hidden {
                storage.release(self.layers.remove(i).slot);
            } else {
                i += 1;
            }
        }
    }
}

/// The bytes of `slot` over what was there, as a new page; `None` if there is no room for it.
fn merge<S: Storage>(slot: Slot, bytes: Range<u32>, below: Option<Slot>, storage: &mut S) -> Option<Slot> {
    let made = storage.allocate()?;
    if storage.splice(made, slot, bytes, below).is_err() {
        storage.release(made);
        return None;
    }
    Some(made)
}
