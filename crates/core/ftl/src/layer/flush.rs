//! Commands that go to every set: Flush, Shutdown, and erasing everything.

use super::Ftl;
use crate::answer::Answer;
use crate::broadcast::BroadcastCommand;
use crate::set::NvmSet;
use crate::storage::{Io, Storage};
use crate::zoned_set::ZonedSet;
use media::Nanos;

impl Ftl {
    /// Makes everything that was accepted before durable: at once if the buffer is protected.
    pub fn flush(&mut self, now: Nanos, io: Io, storage: &mut impl Storage) -> Answer {
        self.settle_buffers(now, io, storage, false)
    }

    /// Brings everything that was accepted before to the media, also what capacitors would save.
    pub fn shutdown(&mut self, now: Nanos, io: Io, storage: &mut impl Storage) -> Answer {
        self.settle_buffers(now, io, storage, true)
    }

    fn settle_buffers(&mut self, now: Nanos, io: Io, storage: &mut impl Storage, drain: bool) -> Answer {
        self.advance(now, storage);
        if self.config.protected && !drain {
            return Answer::At(now);
        }
        let mut command = BroadcastCommand::new(io, now);
        let seen = self.done.len();
        // Every set is asked, also after one that fails: what the others hold is to be brought to flash all the same.
        for set in &mut self.sets {
            command.take(set.drain(now, io, context!(self, storage)));
        }
        self.broadcasts.answer(command, seen, &mut self.done)
    }

    /// Gives up everything that any volume holds, out of date or not, and erases all flash that was written: afterwards no
    /// medium refers to contents. Volumes stay. No request may be under way, and none may
    /// come before the answer. Work that grows with the pages of the sets is left only where [`clear_step`](Ftl::clear_step) did not go
    /// through all volumes before.
    pub fn purge(&mut self, now: Nanos, io: Io, storage: &mut impl Storage) -> Answer {
        self.advance(now, storage);
        let mut command = BroadcastCommand::new(io, now);
        let seen = self.done.len();
        for set in &mut self.sets {
            if let Some(zones) = set.zoned_mut() {
                command.take(zones.purge_zones(now, io, context!(self, storage)));
            }
            command.take(set.purge(now, io, context!(self, storage)));
        }
        self.broadcasts.answer(command, seen, &mut self.done)
    }
}
