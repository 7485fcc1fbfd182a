//! What is under way on a machine.

use live::engine::Engine;
use live::{Clock, VirtualCompletion, VirtualQueues};
use media::Nanos;

/// A completion that its queue has not taken yet, and when it came.
pub(crate) struct Arrival {
    pub(crate) done: VirtualCompletion,
    pub(crate) at: Nanos,
}

/// The state of a machine: its drives, their clock, and what is under way between them and their hosts.
pub(crate) struct World {
    /// By their numbers: in the order in which they were added.
    pub(crate) drives: Vec<Engine>,
    pub(crate) clock: Clock,
    /// The queues of all drives.
    pub(crate) front_end: VirtualQueues,
    /// Queues so far, of all drives: each has a number of its own.
    pub(crate) queues: u32,
    pub(crate) arrived: Vec<Arrival>,
}

impl World {
    pub(crate) fn new() -> World {
        World {
            drives: Vec::new(),
            clock: Clock::Virtual(0.into()),
            front_end: VirtualQueues::default(),
            queues: 0,
            arrived: Vec::new(),
        }
    }

    /// Runs what is due now, drive after drive in the order of their numbers. Completions go where their queues find them.
    pub(crate) fn settle(&mut self) {
        let now = self.clock.now();
        for engine in &mut self.drives {
            engine.settle(now, &mut self.front_end);
            self.arrived.extend(self.front_end.completions.drain(..).map(|done| Arrival { done, at: now }));
        }
    }

    /// When the next drive wants to be stepped.
    pub(crate) fn deadline(&self) -> Nanos {
        self.drives.iter().map(Engine::deadline).min().unwrap_or(Nanos::MAX)
    }

    /// Lets the clock run to this time. Drives do what is due until then, in the order of their times.
    pub(crate) fn run_until(&mut self, until: Nanos) {
        loop {
            self.settle();
            match self.deadline() {
                next if next <= until && next != Nanos::MAX => self.clock.advance(next),
                _ => break,
            }
        }
        self.clock.advance(until);
    }
}
