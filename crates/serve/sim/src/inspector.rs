//! Looking at a drive in virtual time without sending it a command.
//!
//! A command takes time and a queue, and the drive counts it: a run that is watched would be another run. What an [`Inspector`] asks is
//! answered from the drive as it is ([`device::Drive::inspect`]).

use crate::world::World;
use device::ControllerId;
use host::{CompletedCommand, Connected, Data, Error, Identity, Queue, Tag, Transport, TransportError};
use nvme::property::{Cap, PropertyOffset};
use nvme::{Command, Completion, Status, U64};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

/// Looks at a drive with the eyes of a controller that some host has. It takes Identify, Get Features, and Get Log Page, and no I/O. It
/// may not be used while actors run; between two parts of their run it may.
pub struct Inspector {
    world: Rc<RefCell<World>>,
    /// The number of the drive.
    drive: usize,
    controller: ControllerId,
}

impl Inspector {
    pub(crate) fn new(world: Rc<RefCell<World>>, drive: usize, cntlid: u16) -> Self {
        Inspector { world, drive, controller: ControllerId(cntlid) }
    }

    fn queue(&self) -> InspectorQueue {
        let Inspector { world, drive, controller } = self;
        InspectorQueue {
            world: world.clone(),
            drive: *drive,
            controller: *controller,
            last: 0,
            done: VecDeque::new(),
        }
    }
}

impl Transport for Inspector {
    type Queue = InspectorQueue;

    fn connect(&mut self, _: &Identity) -> Result<Connected<InspectorQueue>, Error> {
        let cap = {
            let drive = &self.world.borrow().drives[self.drive].drive;
            let cap = drive.property_get(self.controller, PropertyOffset::CAP, true);
            cap.map_err(|status| Error::Command { what: "Property Get".to_owned(), status })?
        };
        let cap = Cap::from_bits(U64::new(cap));
        Ok(Connected { admin: self.queue(), cntlid: self.controller.0, cap })
    }

    fn open_io(&mut self, _: u16) -> Result<InspectorQueue, Error> {
        Err(Error::Usage("a drive that is only looked at takes no I/O".to_owned()))
    }

    fn shutdown(&mut self, _: &mut InspectorQueue) -> Result<(), Error> {
        // The controller is another host's.
        Ok(())
    }
}

/// The queue of an [`Inspector`]: what is asked is answered at once.
pub struct InspectorQueue {
    world: Rc<RefCell<World>>,
    drive: usize,
    controller: ControllerId,
    last: u16,
    done: VecDeque<CompletedCommand>,
}

impl Queue for InspectorQueue {
    fn capacity(&self) -> usize {
        1
    }

    fn outstanding(&self) -> usize {
        self.done.len()
    }

    fn submit(&mut self, command: Command, data: Data) -> Result<Tag, TransportError> {
        if self.outstanding() == self.capacity() {
            return Err(TransportError::Full);
        }
        let world = self.world.borrow();
        let drive = &world.drives[self.drive].drive;
        self.last = self.last.wrapping_add(1);
        let mut completion = Completion::new(self.last, Status::SUCCESS);
        let data = match (drive.inspect(world.clock.now(), self.controller, &command), data) {
            (Ok((dw0, answer)), Data::In(mut room)) => {
                completion.dw0.set(dw0);
                let bytes = answer.len().min(room.len());
                room[..bytes].copy_from_slice(&answer[..bytes]);
                Data::In(room)
            }
            (Ok((dw0, _)), data) => {
                completion.dw0.set(dw0);
                data
            }
            (Err(status), data) => {
                completion = Completion::new(self.last, status);
                data
            }
        };
        self.done.push_back(CompletedCommand { tag: Tag(self.last), completion, data });
        Ok(Tag(self.last))
    }

    fn next(&mut self, _: Option<Duration>) -> Result<Option<CompletedCommand>, TransportError> {
        Ok(self.done.pop_front())
    }
}
