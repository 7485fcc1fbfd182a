//! Ranges of a device that several share.

use crate::{BlockDevice, Completed, Geometry, Nanos, Operation, Verb};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// A device that [partitions](Partition) share.
pub struct Shared<D> {
    common: Rc<RefCell<Common<D>>>,
}

struct Common<D> {
    device: D,
    /// The partition and the tag of each part under way, by its tag on the device.
    under_way: Vec<Option<(usize, u32)>>,
    free: Vec<u32>,
    /// What has ended and was not taken yet, of each partition.
    ended: Vec<VecDeque<Completed>>,
    /// Parts under way of each partition, those that were not taken among them.
    outstanding: Vec<usize>,
}

impl<D: BlockDevice> Shared<D> {
    /// A device on which nothing is outstanding.
    pub fn new(device: D) -> Self {
        let common = Common {
            device,
            under_way: Vec::new(),
            free: Vec::new(),
            ended: Vec::new(),
            outstanding: Vec::new(),
        };
        Self { common: Rc::new(RefCell::new(common)) }
    }

    /// A partition of `blocks` blocks from the block `first` on; `None` if the device ends before. Partitions may overlap.
    pub fn partition(&self, first: u64, blocks: u64) -> Option<Partition<D>> {
        let common = &mut *self.common.borrow_mut();
        let geometry = common.device.geometry();
        (blocks > 0 && first.checked_add(blocks)? <= geometry.blocks).then_some(())?;
        common.ended.push(VecDeque::new());
        common.outstanding.push(0);
        let number = common.ended.len() - 1;
        Some(Partition {
            common: self.common.clone(),
            number,
            first,
            geometry: Geometry { blocks, ..geometry },
        })
    }

    /// Looks at the device.
    pub fn with<T>(&self, look: impl FnOnce(&mut D) -> T) -> T {
        look(&mut self.common.borrow_mut().device)
    }
}

impl<D> Clone for Shared<D> {
    fn clone(&self) -> Self {
        Self { common: self.common.clone() }
    }
}

/// A range of a device that others use, too. What one of them is told of the device may be due to another: its
/// [`next_event`](BlockDevice::next_event) may come without news of its own.
pub struct Partition<D> {
    common: Rc<RefCell<Common<D>>>,
    number: usize,
    first: u64,
    geometry: Geometry,
}

impl<D: BlockDevice> Common<D> {
    fn poll(&mut self, now: Nanos) -> Result<(), D::Error> {
        while let Some(done) = self.device.poll(now)? {
            let Some((partition, tag)) = self.under_way[done.tag as usize].take() else { continue };
            self.free.push(done.tag);
            self.ended[partition].push_back(Completed { tag, ..done });
        }
        Ok(())
    }
}

impl<D: BlockDevice> BlockDevice for Partition<D> {
    type Error = D::Error;

    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn room(&self) -> usize {
        self.common.borrow().device.room()
    }

    fn submit(&mut self, now: Nanos, tag: u32, part: &Operation, data: Vec<u8>) -> Result<(), D::Error> {
        let common = &mut *self.common.borrow_mut();
        let place = common.free.pop().unwrap_or_else(|| {
            common.under_way.push(None);
            common.under_way.len() as u32 - 1
        });
        common.under_way[place as usize] = Some((self.number, tag));
        common.outstanding[self.number] += 1;
        let verb = match part.verb {
            Verb::Copy { from, fua } => Verb::Copy { from: from + self.first, fua },
            verb => verb,
        };
        common.device.submit(now, place, &Operation { verb, lba: part.lba + self.first, ..*part }, data)
    }

    fn poll(&mut self, now: Nanos) -> Result<Option<Completed>, D::Error> {
        let common = &mut *self.common.borrow_mut();
        if common.ended[self.number].is_empty() {
            common.poll(now)?;
        }
        let done = common.ended[self.number].pop_front();
        common.outstanding[self.number] -= usize::from(done.is_some());
        Ok(done)
    }

    fn next_event(&self) -> Nanos {
        let common = self.common.borrow();
        match (common.outstanding[self.number], common.ended[self.number].is_empty()) {
            (0, _) => Nanos::MAX,
            (_, false) => 0,
            (_, true) => common.device.next_event(),
        }
    }

    fn next_work(&self) -> Nanos {
        self.next_event().min(self.common.borrow().device.next_work())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Namespace;
    use crate::conformance::{self, Memory};

    #[test]
    fn partitions_conform_and_stay_apart() {
        let shared = Shared::new(Memory::new(Namespace::plain(1, 1000, 512), 8, 5));
        assert!(shared.partition(0, 1001).is_none() && shared.partition(1000, 1).is_none());
        assert!(shared.partition(u64::MAX, 2).is_none() && shared.partition(0, 0).is_none());
        let mut middle = shared.partition(300, 400).unwrap();
        let mut now = 0;
        conformance::check(&mut middle, 9, 200, |device| {
            if device.next_event() < Nanos::MAX {
                now = now.max(device.next_event());
            }
            now
        });
        let untouched = shared.with(|device| {
            let (before, after) = (&device.contents()[..300 * 512], &device.contents()[700 * 512..]);
            before.iter().chain(after).all(|byte| *byte == 0)
        });
        assert!(untouched);
    }

    #[test]
    fn each_takes_its_own() {
        let shared = Shared::new(Memory::new(Namespace::plain(1, 100, 512), 8, 5));
        let mut parts = [shared.partition(0, 50).unwrap(), shared.partition(50, 50).unwrap()];
        for (fill, part) in (1..).zip(&mut parts) {
            let write = Operation { verb: Verb::Write, lba: 10, blocks: 1 };
            let Ok(()) = part.submit(0, 7, &write, vec![fill; 512]);
        }
        // The first is asked until both have ended.
        let mut now = 0;
        while parts[1].next_event() > 0 || parts[0].next_event() > 0 {
            now += 1000;
            let Ok(done) = parts[0].poll(now);
            assert!(done.is_none_or(|done| done.tag == 7));
            if parts[0].next_event() == Nanos::MAX && parts[1].next_event() == 0 {
                break;
            }
        }
        let Ok(done) = parts[1].poll(now);
        assert_eq!(done.map(|done| done.tag), Some(7));
        shared.with(|device| {
            assert_eq!((device.contents()[10 * 512], device.contents()[60 * 512]), (1, 2));
        });
    }

    #[test]
    fn a_failed_flush_of_one_fails_those_of_all() {
        let shared = Shared::new(Memory::new(Namespace::plain(1, 100, 512), 8, 5));
        let mut parts = [shared.partition(0, 50).unwrap(), shared.partition(50, 50).unwrap()];
        let mut now = 0;
        let mut wait = |part: &mut Partition<Memory>| {
            now = if part.next_event() < Nanos::MAX { now.max(part.next_event()) } else { now };
            now
        };
        conformance::check_failed_flush(&mut parts[0], |_| shared.with(|device| device.fail(0)), &mut wait);
        let flush = Operation { verb: Verb::Flush, lba: 0, blocks: 0 };
        let now = wait(&mut parts[1]);
        let Ok(()) = parts[1].submit(now, 7, &flush, Vec::new());
        let now = wait(&mut parts[1]);
        let Ok(done) = parts[1].poll(now);
        assert!(done.is_some_and(|done| !done.status.is_success()));
    }
}
