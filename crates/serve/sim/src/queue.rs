//! Typed hosts of drives in virtual time: who waits for a completion lets the clock of all drives run.

use crate::world::World;
use device::{ControllerId, Drive, Host, Origin};
use host::{CompletedCommand, Connected, Data, Error, Identity, Queue, Tag, Transport, TransportError};
use image::Buffer;
use live::VirtualQueues;
use live::engine::Engine;
use media::Nanos;
use nvme::identify::NvmController;
use nvme::property::{Cap, Cc, Csts, PropertyOffset, Shn, Shst};
use nvme::{CNTLID_DYNAMIC, Command, Status, U32, U64};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

/// Commands of the admin queue that may be outstanding.
const ADMIN_DEPTH: u16 = 31;

/// A host's controller, until the last queue to it is gone.
pub(crate) struct Association {
    pub(crate) world: Rc<RefCell<World>>,
    /// The number of the drive.
    pub(crate) drive: usize,
    pub(crate) controller: ControllerId,
    /// Identifiers of I/O queues that are in use.
    queues: RefCell<BTreeSet<u16>>,
}

impl Drop for Association {
    fn drop(&mut self) {
        // Queues are dropped by their owners, never from within a run.
        if let Ok(mut world) = self.world.try_borrow_mut() {
            let now = world.clock.now();
            world.drives[self.drive].drive_disconnect(now, self.controller);
            world.settle();
        }
    }
}

/// Connects typed hosts to a drive in virtual time.
pub struct SimTransport {
    world: Rc<RefCell<World>>,
    /// The number of the drive.
    drive: usize,
    association: Option<Rc<Association>>,
}

fn refused(what: &str, status: Status) -> Error {
    Error::Command { what: what.to_owned(), status }
}

impl SimTransport {
    pub(crate) fn new(world: Rc<RefCell<World>>, drive: usize) -> Self {
        SimTransport { world, drive, association: None }
    }

    fn set_cc(&self, controller: ControllerId, cc: Cc) -> Result<(), Status> {
        let world = &mut *self.world.borrow_mut();
        let now = world.clock.now();
        let value = cc.with_iosqes(6).with_iocqes(4).into_bits().into();
        let Engine { drive, store, outputs, .. } = &mut world.drives[self.drive];
        drive.property_set(now, controller, PropertyOffset::CC, value, store, outputs)
    }

    fn property(&self, controller: ControllerId, offset: PropertyOffset, wide: bool) -> Result<u64, Error> {
        let world = self.world.borrow();
        let drive = &world.drives[self.drive].drive;
        drive.property_get(controller, offset, wide).map_err(|s| refused("Property Get", s))
    }
}

impl Transport for SimTransport {
    type Queue = SimQueue;

    fn connect(&mut self, identity: &Identity) -> Result<Connected<SimQueue>, Error> {
        let controller = {
            let world = &mut *self.world.borrow_mut();
            let host = Host::administrator(identity.hostnqn, identity.hostid, Origin::InProcess);
            let (now, drive) = (world.clock.now(), &mut world.drives[self.drive].drive);
            let made = drive.connect(now, host, CNTLID_DYNAMIC, identity.kato_ms);
            made.map_err(|status| refused("Connect", status))?
        };
        let (world, queues) = (self.world.clone(), RefCell::default());
        let association = Rc::new(Association { world, drive: self.drive, controller, queues });
        self.set_cc(controller, Cc::new().with_en(true).with_css(Cc::CSS_SETS))
            .map_err(|status| refused("Property Set", status))?;
        let cap = Cap::from_bits(U64::new(self.property(controller, PropertyOffset::CAP, true)?));
        let admin = SimQueue::new(association.clone(), 0, ADMIN_DEPTH);
        self.association = Some(association);
        Ok(Connected { admin, cntlid: controller.0, cap })
    }

    fn open_io(&mut self, depth: u16) -> Result<SimQueue, Error> {
        let Some(association) = &self.association else {
            return Err(Error::Usage("the host is not connected".to_owned()));
        };
        let used = association.queues.borrow();
        let qid = (1..=u16::MAX).find(|qid| !used.contains(qid)).unwrap_or(u16::MAX);
        drop(used);
        let entries = u32::from(depth).clamp(1, device::MAX_QUEUE_ENTRIES - 1) + 1;
        let controller = association.controller;
        let added = self.world.borrow_mut().drives[self.drive].drive.add_queue(controller, qid, entries);
        added.map_err(|status| refused("Connect of an I/O queue", status))?;
        association.queues.borrow_mut().insert(qid);
        Ok(SimQueue::new(association.clone(), qid, (entries - 1) as u16))
    }

    fn nvm_controller(&self) -> Option<NvmController> {
        Some(Drive::nvm_controller())
    }

    fn has_zones(&self) -> Option<bool> {
        Some(self.world.borrow().drives[self.drive].drive.has_zones())
    }

    fn shutdown(&mut self, _admin: &mut SimQueue) -> Result<(), Error> {
        let Some(association) = &self.association else { return Ok(()) };
        let controller = association.controller;
        let cc = Cc::new().with_en(true).with_css(Cc::CSS_SETS).with_shn(Shn::NORMAL);
        self.set_cc(controller, cc).map_err(|status| refused("Property Set", status))?;
        loop {
            let bits = self.property(controller, PropertyOffset::CSTS, false)? as u32;
            if Csts::from_bits(U32::new(bits)).shst() == Shst::COMPLETE {
                return Ok(());
            }
            let world = &mut *self.world.borrow_mut();
            world.settle();
            match world.deadline() {
                Nanos::MAX => return Err(nothing_more().into()),
                next => world.clock.advance(next),
            }
        }
    }
}

fn nothing_more() -> TransportError {
    TransportError::Protocol("it owes an answer, and nothing more will happen in it".to_owned())
}

/// A queue of a drive in virtual time. Waiting for a completion lets the clock run.
pub struct SimQueue {
    pub(crate) association: Rc<Association>,
    /// Tells its completions from those of other queues.
    pub(crate) number: u32,
    pub(crate) qid: u16,
    /// Whether the data of each outstanding command goes to the host; `None` without data.
    slots: Vec<Option<bool>>,
    free: Vec<u16>,
}

impl SimQueue {
    fn new(association: Rc<Association>, qid: u16, depth: u16) -> Self {
        let number = {
            let mut world = association.world.borrow_mut();
            world.queues += 1;
            world.queues
        };
        let slots = vec![None; usize::from(depth)];
        SimQueue { association, number, qid, slots, free: (0..depth).rev().collect() }
    }
}

impl Drop for SimQueue {
    fn drop(&mut self) {
        if self.qid != 0
            && let Ok(mut world) = self.association.world.try_borrow_mut()
        {
            world.drives[self.association.drive].remove_queue(self.association.controller, self.qid);
            self.association.queues.borrow_mut().remove(&self.qid);
            world.arrived.retain(|arrival| arrival.done.queue != self.number);
        }
    }
}

impl Queue for SimQueue {
    fn capacity(&self) -> usize {
        self.slots.len()
    }

    fn outstanding(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    fn submit(&mut self, command: Command, data: Data) -> Result<Tag, TransportError> {
        let (direction, bytes) = match data {
            Data::None => (None, Vec::new()),
            Data::Out(bytes) => (Some(false), bytes),
            Data::In(bytes) => (Some(true), bytes),
        };
        if u32::try_from(bytes.len()).is_err() {
            return Err(TransportError::TooLarge(bytes.len()));
        }
        let Some(tag) = self.free.pop() else { return Err(TransportError::Full) };
        self.slots[usize::from(tag)] = direction;
        let world = &mut *self.association.world.borrow_mut();
        let owner = VirtualQueues::owner(self.number, tag.into());
        let (now, controller) = (world.clock.now(), self.association.controller);
        let engine = &mut world.drives[self.association.drive];
        engine.submit(now, owner, controller, self.qid, command, Buffer::from(bytes).into());
        Ok(Tag(tag))
    }

    /// `timeout` is of the drive's time.
    fn next(&mut self, timeout: Option<Duration>) -> Result<Option<CompletedCommand>, TransportError> {
        let world = &mut *self.association.world.borrow_mut();
        let limit = timeout.map_or(Nanos::MAX, |timeout| {
            let nanos = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
            Nanos(world.clock.now().0.saturating_add(nanos))
        });
        loop {
            world.settle();
            if let Some(at) = world.arrived.iter().position(|arrival| arrival.done.queue == self.number) {
                let done = world.arrived.remove(at).done;
                // Tags of this queue are all its own.
                let tag = done.tag as u16;
                self.free.push(tag);
                let bytes = done.data.into_owned().into_vec();
                let data = match self.slots[usize::from(tag)] {
                    None => Data::None,
                    Some(false) => Data::Out(bytes),
                    Some(true) => Data::In(bytes),
                };
                return Ok(Some(CompletedCommand { tag: Tag(tag), completion: done.completion, data }));
            }
            match world.deadline() {
                next if next <= limit && next != Nanos::MAX => world.clock.advance(next),
                _ if timeout.is_none() => return Err(nothing_more()),
                _ => {
                    world.clock.advance(limit);
                    return Ok(None);
                }
            }
        }
    }
}
