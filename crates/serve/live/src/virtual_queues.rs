//! The front end of queues under a virtual clock. The owner of the engine submits their commands itself, moves the clock, and takes
//! what has ended.

use crate::engine::front_end::{EndedCommand, EngineTurn, FrontEnd};
use crate::engine::{Engine, FrontEndId, Owner, Token};
use image::{DataBuffer, Store};
use nvme::Completion;

/// A command of a queue under the virtual clock has completed.
pub struct VirtualCompletion {
    /// The queue.
    pub queue: u32,
    /// The command there.
    pub tag: u32,
    /// How it ended.
    pub completion: Completion,
    /// The buffer that came with it.
    pub data: DataBuffer,
}

/// Queues under a virtual clock.
#[derive(Default)]
pub struct VirtualQueues {
    /// What has ended and was not taken yet.
    pub completions: Vec<VirtualCompletion>,
}

impl VirtualQueues {
    const ID: FrontEndId = FrontEndId::new(3);

    /// The owner of a queue's command.
    #[inline]
    pub fn owner(queue: u32, tag: u32) -> Owner {
        Owner { front_end: VirtualQueues::ID, token: Token { queue: queue.into(), command: tag.into() } }
    }
}

impl FrontEnd for VirtualQueues {
    fn poll(&mut self, _: &mut Engine, _: &mut EngineTurn<'_>) {}

    #[inline]
    fn complete(&mut self, ended: EndedCommand, _: &mut Store) {
        let EndedCommand { owner, completion, data, .. } = ended;
        let (queue, tag) = (owner.token.queue as u32, owner.token.command as u32);
        self.completions.push(VirtualCompletion { queue, tag, completion, data });
    }
}
