//! One step of the way between a load and a device.

use crate::stack::event_queue::Due;
use crate::{BlockDevice, Completed, Geometry, Nanos, Operation};
use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU64;

/// What a step of the way takes.
///
/// - A **request queue with one lock** is busy with each submission and each completion ([`submission`](Self::submission),
///   [`completion`](Self::completion)), and holds so many [`requests`](Self::requests).
/// - A **controller** is busy with each submission, and gives the device so many requests ([`depth`](Self::depth)).
/// - A **link** has a [`latency`](Self::latency) and two rates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HopConfig {
    /// Nanoseconds that the hop's one server is busy with a submission. Others wait for it.
    pub submission: Nanos,
    /// Nanoseconds that the same server is busy with a completion.
    pub completion: Nanos,
    /// Nanoseconds that every request takes on its way to the device, and that hold up no other.
    pub latency: Nanos,
    /// Bytes per second towards the device; `None`: they take no time.
    pub down: Option<NonZeroU64>,
    /// Bytes per second from the device; `None`: they take no time.
    pub up: Option<NonZeroU64>,
    /// Requests that the device has at the same time, at most: 1 or more.
    pub depth: usize,
    /// Requests that the hop holds, those at the device among them: at least as many.
    pub requests: usize,
}

impl HopConfig {
    /// It takes no time and lets everything through.
    pub const NONE: Self = Self {
        submission: 0,
        completion: 0,
        latency: 0,
        down: None,
        up: None,
        depth: usize::MAX,
        requests: usize::MAX,
    };
}

/// A part on its way.
struct Part {
    tag: u32,
    operation: Operation,
    data: Vec<u8>,
}

/// One who serves one after the other: a lock, a processor, a link.
#[derive(Clone, Copy, Default, Debug)]
pub struct Server {
    free: Nanos,
}

impl Server {
    /// When a service ends that is asked for at `now` and takes so long.
    pub fn serve(&mut self, now: Nanos, takes: Nanos) -> Nanos {
        if takes == 0 {
            // Who needs nothing of it waits for nobody.
            return now;
        }
        self.free = self.free.max(now).saturating_add(takes);
        self.free
    }
}

/// Nanoseconds that so many bytes take at this rate.
fn transfer(rate: Option<NonZeroU64>, bytes: u64) -> Nanos {
    rate.map_or(0, |rate| {
        let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(rate.get());
        Nanos::try_from(nanos).unwrap_or(Nanos::MAX)
    })
}

/// A step of the way to a device.
pub struct Hop<D> {
    config: HopConfig,
    device: D,
    server: Server,
    down: Server,
    up: Server,
    /// They wait until the device may have one more.
    waiting: VecDeque<Part>,
    /// On the way to the device.
    entering: Due<Part>,
    /// On the way back.
    leaving: Due<Completed>,
    /// Nanoseconds that the data of reads under way take on the way back, by their tags, if they take any.
    returns: BTreeMap<u32, Nanos>,
    /// On the way to the device, or there.
    beyond: usize,
    /// What the hop holds.
    held: usize,
}

impl<D: BlockDevice> Hop<D> {
    /// A step before this device, on which nothing is outstanding. A depth of 0 counts as 1.
    pub fn new(config: HopConfig, device: D) -> Self {
        Self {
            config: HopConfig { depth: config.depth.max(1), requests: config.requests.max(1), ..config },
            device,
            server: Server::default(),
            down: Server::default(),
            up: Server::default(),
            waiting: VecDeque::new(),
            entering: Due::new(),
            leaving: Due::new(),
            returns: BTreeMap::new(),
            beyond: 0,
            held: 0,
        }
    }

    /// The device beyond.
    pub fn device(&self) -> &D {
        &self.device
    }

    /// The device beyond, to be changed.
    pub fn device_mut(&mut self) -> &mut D {
        &mut self.device
    }

    /// Starts what waits, as far as the device has room for it.
    fn start(&mut self, now: Nanos) {
        while self.beyond < self.config.depth && self.device.room() > self.entering.len() {
            let Some(part) = self.waiting.pop_front() else { return };
            let bytes = part.operation.bytes(self.device.block_size());
            let (down, up) = match part.operation.verb.reads() {
                true => (0, transfer(self.config.up, bytes)),
                false => (transfer(self.config.down, bytes), 0),
            };
            if up > 0 {
                self.returns.insert(part.tag, up);
            }
            let served = self.server.serve(now, self.config.submission);
            let moved = self.down.serve(served, down);
            self.beyond += 1;
            self.entering.add(moved.saturating_add(self.config.latency), part);
        }
    }

    /// Moves everything on that can move on at `now`.
    fn settle(&mut self, now: Nanos) -> Result<(), D::Error> {
        loop {
            self.start(now);
            let mut news = false;
            while self.device.room() > 0
                && let Some((_, part)) = self.entering.take(now)
            {
                news = true;
                self.device.submit(now, part.tag, &part.operation, part.data)?;
            }
            // Each layer asks the one below only when it has something: else a poll would double with each layer.
            while self.device.next_work() <= now {
                let Some(done) = self.device.poll(now)? else { break };
                news = true;
                self.beyond -= 1;
                let served = self.server.serve(now, self.config.completion);
                let moved = self.up.serve(served, self.returns.remove(&done.tag).unwrap_or(0));
                self.leaving.add(moved, done);
            }
            if !news {
                return Ok(());
            }
        }
    }
}

impl<D: BlockDevice> BlockDevice for Hop<D> {
    type Error = D::Error;

    fn geometry(&self) -> Geometry {
        self.device.geometry()
    }

    fn room(&self) -> usize {
        self.config.requests - self.held.min(self.config.requests)
    }

    fn submit(&mut self, now: Nanos, tag: u32, part: &Operation, data: Vec<u8>) -> Result<(), D::Error> {
        self.held += 1;
        self.waiting.push_back(Part { tag, operation: *part, data });
        self.settle(now)
    }

    fn poll(&mut self, now: Nanos) -> Result<Option<Completed>, D::Error> {
        self.settle(now)?;
        let done = self.leaving.take(now).map(|(_, done)| done);
        self.held -= usize::from(done.is_some());
        Ok(done)
    }

    fn next_event(&self) -> Nanos {
        match self.held {
            0 => Nanos::MAX,
            _ => {
                let entering = if self.device.room() > 0 { self.entering.next() } else { Nanos::MAX };
                entering.min(self.leaving.next()).min(self.device.next_event())
            }
        }
    }

    fn next_work(&self) -> Nanos {
        self.next_event().min(self.device.next_work())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::{self, Memory};
    use crate::{Namespace, Status, Verb};
    use std::convert::Infallible;

    fn memory(capacity: usize) -> Memory {
        Memory::new(Namespace::plain(1, 600, 4096), capacity, 3)
    }

    const SAS: HopConfig = HopConfig {
        submission: 1_500,
        completion: 700,
        latency: 5_000,
        down: NonZeroU64::new(600_000_000),
        up: NonZeroU64::new(600_000_000),
        depth: 3,
        requests: 5,
    };

    #[test]
    fn hops_conform() {
        for (seed, config) in
            [(1, HopConfig::NONE), (2, SAS), (3, HopConfig { depth: 1, requests: 1, ..SAS })]
        {
            let mut device = Hop::new(config, Hop::new(HopConfig { depth: 7, ..SAS }, memory(4)));
            let mut now = 0;
            conformance::check(&mut device, seed, 150, |device| {
                if device.next_event() < Nanos::MAX {
                    now = now.max(device.next_event());
                }
                now
            });
            assert!(device.device().device().deepest() <= config.depth.min(4));
        }
    }

    #[test]
    fn a_failed_flush_passes() {
        let mut now = 0;
        conformance::check_failed_flush(
            &mut Hop::new(SAS, memory(4)),
            |hop| hop.device_mut().fail(0),
            |hop| {
                now = if hop.next_event() < Nanos::MAX { now.max(hop.next_event()) } else { now };
                now
            },
        );
    }

    /// Ends at once.
    struct Instant {
        done: VecDeque<Completed>,
        deepest: usize,
    }

    impl BlockDevice for Instant {
        type Error = Infallible;

        fn geometry(&self) -> Geometry {
            Namespace::plain(1, 1 << 20, 4096).geometry()
        }

        fn room(&self) -> usize {
            usize::MAX
        }

        fn submit(&mut self, _: Nanos, tag: u32, _: &Operation, data: Vec<u8>) -> Result<(), Infallible> {
            self.done.push_back(Completed { tag, status: Status::SUCCESS, data });
            self.deepest = self.deepest.max(self.done.len());
            Ok(())
        }

        fn poll(&mut self, _: Nanos) -> Result<Option<Completed>, Infallible> {
            Ok(self.done.pop_front())
        }

        fn next_event(&self) -> Nanos {
            if self.done.is_empty() { Nanos::MAX } else { 0 }
        }
    }

    /// When requests end that come at the same time, without contents.
    fn ends(config: HopConfig, requests: &[(Verb, u32)]) -> Vec<(u32, Nanos)> {
        let mut hop = Hop::new(config, Instant { done: VecDeque::new(), deepest: 0 });
        for (tag, &(verb, blocks)) in (0..).zip(requests) {
            let Ok(()) = hop.submit(1000, tag, &Operation { verb, lba: 0, blocks }, Vec::new());
        }
        let (mut ends, mut now) = (Vec::new(), 1000);
        while hop.next_event() < Nanos::MAX {
            now = now.max(hop.next_event());
            while let Ok(Some(done)) = hop.poll(now) {
                ends.push((done.tag, now));
            }
        }
        ends
    }

    #[test]
    fn a_lock_is_held_by_one_at_a_time() {
        let config = HopConfig { submission: 2000, completion: 500, ..HopConfig::NONE };
        let three = [(Verb::Read, 1); 3];
        // Submissions come first, because all were there at the start: 3000, 5000, 7000. Then each completion.
        assert_eq!(ends(config, &three), [(0, 7500), (1, 8000), (2, 8500)]);
        assert_eq!(ends(HopConfig::NONE, &three), [(0, 1000), (1, 1000), (2, 1000)]);
    }

    #[test]
    fn latencies_pass_and_data_queues() {
        let config = HopConfig { latency: 7000, ..HopConfig::NONE };
        assert_eq!(ends(config, &[(Verb::Read, 1); 2]), [(0, 8000), (1, 8000)]);
        let rate = NonZeroU64::new(4_096_000_000);
        let config = HopConfig { down: rate, up: rate, ..HopConfig::NONE };
        // A block takes a microsecond, in both directions at the same time.
        let mixed = [(Verb::Write, 4), (Verb::Read, 2), (Verb::Write, 4), (Verb::Flush, 0)];
        assert_eq!(ends(config, &mixed), [(3, 1000), (1, 3000), (0, 5000), (2, 9000)]);
    }

    #[test]
    fn a_device_has_no_more_than_the_depth() {
        let config = HopConfig { latency: 1000, depth: 2, requests: 4, ..HopConfig::NONE };
        assert_eq!(ends(config, &[(Verb::Read, 1); 4]), [(0, 2000), (1, 2000), (2, 3000), (3, 3000)]);
        let mut hop = Hop::new(config, memory(16));
        for tag in 0..4 {
            assert_eq!(hop.room(), 4 - tag as usize);
            let Ok(()) =
                hop.submit(0, tag, &Operation { verb: Verb::Read, lba: 0, blocks: 1 }, vec![0; 4096]);
        }
        assert_eq!(hop.room(), 0);
    }
}
