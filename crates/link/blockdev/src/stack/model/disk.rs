//! A device in memory whose cache is lost with the power, whose requests and flushes fail, and which can vanish.

use crate::{BlockDevice, Completed, Geometry, Limits, Nanos, Operation, Status, Verb};
use rng::Rng;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

/// The power of all devices. It fails after a number of calls.
#[derive(Clone, Default)]
pub struct Power(Rc<Cell<Option<u64>>>);

impl Power {
    /// It fails after so many requests from now on.
    pub fn fails_after(&self, calls: u64) {
        self.0.set(Some(calls));
    }

    /// It is back, and stays.
    pub fn restore(&self) {
        self.0.set(None);
    }

    /// Whether it is off: devices refuse everything.
    pub fn is_off(&self) -> bool {
        self.0.get() == Some(0)
    }

    fn call(&self) {
        if let Some(calls) = self.0.get() {
            self.0.set(Some(calls.saturating_sub(1)));
        }
    }
}

/// A write that may be lost: where, and what.
struct Unflushed {
    at: usize,
    bytes: Vec<u8>,
}

struct UnderWay {
    tag: u32,
    ends: Nanos,
    operation: Operation,
    data: Vec<u8>,
    /// Of a flush: writes that it makes durable.
    covers: usize,
}

struct State {
    geometry: Geometry,
    /// What reads find.
    now: Vec<u8>,
    durable: Vec<u8>,
    unflushed: Vec<Unflushed>,
    under_way: Vec<UnderWay>,
    rng: Rng,
    gone: bool,
    /// Per billion.
    failing: u32,
    /// After so many flushes one fails. Like a host's file, the device reports that once.
    flush_fails: Option<u64>,
    /// Blocks that reads find until the restart, and that no flush makes durable.
    doubtful: BTreeSet<usize>,
    lost: u64,
}

/// A device. Clones are the same one.
#[derive(Clone)]
pub struct Disk {
    state: Rc<RefCell<State>>,
    power: Power,
}

/// It is of no more use.
#[derive(Debug)]
pub struct Gone;

/// Random limits of a device.
pub fn limits(rng: &mut Rng) -> Limits {
    let transfer = [8, 16, 24, 64, 256][rng.below(5) as usize];
    let write_zeroes = [8, 40, 4096][rng.below(3) as usize];
    Limits { transfer, write_zeroes, deallocate: [64, 4096][rng.below(2) as usize], ..Limits::NONE }
}

impl Disk {
    /// A device of zeroes.
    pub fn new(block_size: u32, blocks: u64, limits: Limits, seed: u64, power: &Power) -> Self {
        let bytes = block_size as usize * blocks as usize;
        let state = State {
            geometry: Geometry { block_size, blocks, limits },
            now: vec![0; bytes],
            durable: vec![0; bytes],
            unflushed: Vec::new(),
            under_way: Vec::new(),
            rng: Rng::new(seed),
            gone: false,
            failing: 0,
            flush_fails: None,
            doubtful: BTreeSet::new(),
            lost: 0,
        };
        Self { state: Rc::new(RefCell::new(state)), power: power.clone() }
    }

    /// Requests fail with this probability per billion.
    pub fn fail(&self, failing: u32) {
        self.state.borrow_mut().failing = failing;
    }

    /// After so many flushes one fails. It is reported once, and loses some of what it should make durable.
    pub fn fail_flush(&self, after: Option<u64>) {
        self.state.borrow_mut().flush_fails = after;
    }

    /// Blocks that failed flushes have lost.
    pub fn lost(&self) -> u64 {
        self.state.borrow().lost
    }

    /// It is gone, until [`Disk::restart`].
    pub fn vanish(&self) {
        self.state.borrow_mut().gone = true;
    }

    /// Whether it is gone.
    pub fn is_gone(&self) -> bool {
        self.state.borrow().gone
    }

    /// What was under way is done or not. With a loss of power, what was not flushed is lost in parts.
    pub fn restart(&self, power_lost: bool) {
        let state = &mut *self.state.borrow_mut();
        let block = state.geometry.block_size as usize;
        state.gone = false;
        for UnderWay { operation, data, .. } in std::mem::take(&mut state.under_way) {
            let done = state.rng.below(2) == 0;
            if done && operation.verb == Verb::Write {
                let at = operation.lba as usize * block;
                state.write(at, &data);
            }
        }
        state.forget_doubtful();
        let unflushed = std::mem::take(&mut state.unflushed);
        if !power_lost {
            // It is still in the device's cache, and may be lost later.
            state.unflushed = unflushed;
            return;
        }
        for Unflushed { at, bytes } in unflushed {
            for (n, part) in bytes.chunks(block).enumerate() {
                if state.rng.below(2) == 0 {
                    let at = at + n * block;
                    state.durable[at..at + part.len()].copy_from_slice(part);
                }
            }
        }
        state.now.clone_from(&state.durable);
    }

    /// A device of another size with the same contents.
    pub fn resized(&self, blocks: u64) -> Self {
        {
            let state = &mut *self.state.borrow_mut();
            let bytes = state.geometry.block_size as usize * blocks as usize;
            state.geometry.blocks = blocks;
            state.now.resize(bytes, 0);
            state.durable.resize(bytes, 0);
            state.unflushed.retain(|write| write.at + write.bytes.len() <= bytes);
            state.doubtful.retain(|at| *at < bytes);
        }
        self.clone()
    }
}

impl State {
    fn write(&mut self, at: usize, bytes: &[u8]) {
        self.now[at..at + bytes.len()].copy_from_slice(bytes);
        if !self.doubtful.is_empty() {
            let block = self.geometry.block_size as usize;
            (at..at + bytes.len()).step_by(block).for_each(|at| {
                self.doubtful.remove(&at);
            });
        }
        self.unflushed.push(Unflushed { at, bytes: bytes.to_vec() });
    }

    /// A flush fails: each block that it covers is durable, lost at once, or lost at the restart.
    fn lose(&mut self) {
        let block = self.geometry.block_size as usize;
        let blocks = |it: &Unflushed| (it.at..it.at + it.bytes.len()).step_by(block);
        let touched: BTreeSet<usize> = self.unflushed.iter().flat_map(blocks).collect();
        self.unflushed.clear();
        self.under_way.iter_mut().for_each(|other| other.covers = 0);
        for at in touched {
            let range = at..at + block;
            match self.rng.below(3) {
                0 => self.durable[range.clone()].copy_from_slice(&self.now[range]),
                1 => {
                    self.lost += 1;
                    self.now[range.clone()].copy_from_slice(&self.durable[range]);
                }
                _ => {
                    self.lost += 1;
                    self.doubtful.insert(at);
                }
            }
        }
    }

    fn forget_doubtful(&mut self) {
        let block = self.geometry.block_size as usize;
        for at in std::mem::take(&mut self.doubtful) {
            self.now[at..at + block].copy_from_slice(&self.durable[at..at + block]);
        }
    }

    fn execute(&mut self, operation: &Operation, data: &mut [u8], covers: usize) {
        let block = self.geometry.block_size as usize;
        let at = operation.lba as usize * block;
        let length = operation.blocks as usize * block;
        match operation.verb {
            Verb::Read => data.copy_from_slice(&self.now[at..at + length]),
            Verb::Write => self.write(at, data),
            Verb::WriteZeroes { .. } => self.write(at, &vec![0; length]),
            Verb::Trim => {
                if self.rng.below(2) == 0 {
                    self.write(at, &vec![0; length]);
                }
            }
            Verb::Flush => {
                let covers = covers.min(self.unflushed.len());
                for Unflushed { at, bytes } in self.unflushed.drain(..covers) {
                    self.durable[at..at + bytes.len()].copy_from_slice(&bytes);
                }
                // Flushes that were begun meanwhile cover fewer of those that are left.
                for other in &mut self.under_way {
                    other.covers = other.covers.saturating_sub(covers);
                }
            }
            other => panic!("a cache asks for {other:?}"),
        }
    }
}

impl BlockDevice for Disk {
    type Error = Gone;

    fn geometry(&self) -> Geometry {
        self.state.borrow().geometry
    }

    fn room(&self) -> usize {
        12 - self.state.borrow().under_way.len()
    }

    fn submit(&mut self, now: Nanos, tag: u32, part: &Operation, data: Vec<u8>) -> Result<(), Gone> {
        self.power.call();
        let state = &mut *self.state.borrow_mut();
        if self.power.is_off() || state.gone {
            return Err(Gone);
        }
        let Geometry { block_size, blocks, limits } = state.geometry;
        assert!(part.lba + u64::from(part.blocks) <= blocks, "{part:?} is beyond {blocks}");
        assert!(part.blocks <= limits.most(part.verb), "{part:?} is beyond the limits");
        assert_eq!(data.len() as u64, part.bytes(block_size), "the data of {part:?}");
        assert!(state.under_way.iter().all(|other| other.tag != tag));
        let ends = now + 1 + state.rng.below(50_000);
        let covers = state.unflushed.len();
        state.under_way.push(UnderWay { tag, ends, operation: *part, data, covers });
        Ok(())
    }

    fn poll(&mut self, now: Nanos) -> Result<Option<Completed>, Gone> {
        let state = &mut *self.state.borrow_mut();
        if self.power.is_off() || state.gone {
            return Err(Gone);
        }
        let first = state.under_way.iter().enumerate().min_by_key(|(_, it)| it.ends);
        let Some((at, _)) = first.filter(|(_, it)| it.ends <= now) else { return Ok(None) };
        let UnderWay { tag, operation, mut data, covers, .. } = state.under_way.swap_remove(at);
        if operation.verb == Verb::Flush
            && let Some(after) = state.flush_fails
        {
            state.flush_fails = after.checked_sub(1);
            if after == 0 {
                state.lose();
                return Ok(Some(Completed { tag, status: Status::INTERNAL_ERROR, data }));
            }
        }
        if state.rng.chance(state.failing) {
            // Some of it may be there.
            let some = state.rng.below(u64::from(operation.blocks) + 1) as u32;
            if operation.verb == Verb::Write && some > 0 {
                let length = some as usize * state.geometry.block_size as usize;
                let part = Operation { blocks: some, ..operation };
                state.execute(&part, &mut data[..length], 0);
            }
            return Ok(Some(Completed { tag, status: Status::INTERNAL_ERROR, data }));
        }
        state.execute(&operation, &mut data, covers);
        Ok(Some(Completed { tag, status: Status::SUCCESS, data }))
    }

    fn next_event(&self) -> Nanos {
        if self.power.is_off() {
            return 0;
        }
        self.state.borrow().under_way.iter().map(|it| it.ends).min().unwrap_or(Nanos::MAX)
    }
}
