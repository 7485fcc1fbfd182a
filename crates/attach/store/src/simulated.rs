//! A device with zones in memory that loses its power, for tests.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rng::Rng;

use crate::device::{Append, Condition, DeviceError, Run, Shape, Zone, ZoneDevice};

/// A device with zones in memory. It can stop at any call, and fail calls. Appends are carried out at any time between their begin and their
/// end, in any order. When its power comes back, each zone has lost some of what was not flushed.
#[derive(Debug)]
pub struct Simulated {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    shape: Shape,
    capacity: u64,
    state: Mutex<State>,
}

/// An append that was begun.
#[derive(Debug)]
struct Begun {
    zone: u32,
    data: Vec<u8>,
    durable: bool,
    ended: Mutex<Option<Result<Vec<Run>, DeviceError>>>,
}

#[derive(Debug)]
struct SimulatedAppend {
    begun: Arc<Begun>,
    inner: Arc<Inner>,
}

impl Append for SimulatedAppend {
    fn wait(&self) -> Result<Vec<Run>, DeviceError> {
        let state = &mut *self.inner.state();
        state.begun.retain(|other| !Arc::ptr_eq(other, &self.begun));
        self.inner.carry_out(state, &self.begun);
        self.begun.result().clone().unwrap_or_else(|| Err(no_power()))
    }

    fn take_back(&self) -> Vec<u8> {
        self.begun.data.clone()
    }
}

impl Begun {
    fn result(&self) -> MutexGuard<'_, Option<Result<Vec<Run>, DeviceError>>> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
struct State {
    zones: Vec<SimulatedZone>,
    /// Appends that were not carried out yet.
    begun: Vec<Arc<Begun>>,
    rng: Rng,
    /// Calls that change something until the power fails; `None`: it does not.
    calls_left: Option<u64>,
    without_power: bool,
    /// Of a billion appends, how many fail, after a part of them.
    append_faults: u32,
    /// Of a billion flushes, how many fail.
    flush_faults: u32,
    /// Zones that were finished while something in them was not durable.
    in_doubt: Vec<u32>,
    /// What happens before a call, after this many others.
    interrupt: Option<(u64, Interrupt)>,
    /// It happens now.
    is_interrupted: bool,
    /// Who is interrupted is so slow that others can wait meanwhile.
    is_slow: bool,
    /// How long a program believes that it still has the store.
    lease: Duration,
}

/// What happens between two calls.
struct Interrupt(Box<dyn FnOnce() + Send>);

impl std::fmt::Debug for Interrupt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Interrupt").finish_non_exhaustive()
    }
}

#[derive(Clone, Debug)]
struct SimulatedZone {
    data: Vec<u8>,
    written: u64,
    durable: u64,
    condition: Condition,
}

impl Simulated {
    /// An empty device: each zone holds `capacity` of the blocks of its shape. The seed decides what power losses leave.
    ///
    /// # Panics
    /// The capacity is larger than a zone.
    #[must_use]
    pub fn new(shape: Shape, capacity: u64, seed: u64) -> Self {
        assert!(capacity <= shape.zone_blocks, "a zone holds at most its size");
        let zone = SimulatedZone { data: Vec::new(), written: 0, durable: 0, condition: Condition::Writable };
        let zones = vec![zone; shape.zones as usize];
        let rng = Rng::new(seed);
        let state = State {
            zones,
            begun: Vec::new(),
            rng,
            calls_left: None,
            without_power: false,
            append_faults: 0,
            flush_faults: 0,
            in_doubt: Vec::new(),
            interrupt: None,
            is_interrupted: false,
            is_slow: false,
            lease: Duration::ZERO,
        };
        Self { inner: Arc::new(Inner { shape, capacity, state: Mutex::new(state) }) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.inner.state()
    }

    /// A small one, with 32 zones of 48 blocks, that has an empty store.
    #[cfg(test)]
    pub(crate) fn formatted() -> Self {
        let shape = Shape { block: 512, zone_blocks: 64, zones: 32, open: 6, append_blocks: 16 };
        let device = Self::new(shape, 48, 1);
        crate::Store::format(&device, &crate::FormatOptions::default(), [1; 16], 0).unwrap();
        device
    }

    /// The power fails within the call after so many more that change something.
    pub fn lose_power_after(&self, calls: u64) {
        self.state().calls_left = Some(calls);
    }

    /// Zones from the `first` on that were finished while something in them was not durable. After a loss of power they do not tell what they lost.
    #[must_use]
    pub fn finished_in_doubt(&self, first: u32) -> Vec<u32> {
        self.state().in_doubt.iter().copied().filter(|zone| *zone >= first).collect()
    }

    /// Zones that were finished until now are not in doubt: the rest of their data is of a program that has lost its store.
    #[cfg(test)]
    pub(crate) fn forget_doubts(&self) {
        self.state().in_doubt.clear();
    }

    /// The same device, for another program.
    #[must_use]
    pub fn share(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }

    /// Something happens before a call, after this many others.
    pub fn interrupt_after(&self, calls: u64, act: impl FnOnce() + Send + 'static) {
        self.state().interrupt = Some((calls, Interrupt(Box::new(act))));
    }

    /// Who is interrupted from now on is so slow that others can wait meanwhile.
    #[cfg(test)]
    pub(crate) fn slow_down(&self) {
        self.state().is_slow = true;
    }

    /// Programs believe for so long that they still have the store. Time passes as it does, and waiting takes none.
    #[cfg(test)]
    pub(crate) fn set_lease(&self, lease: Duration) {
        self.state().lease = lease;
    }

    /// Nothing happens between calls.
    pub fn do_not_interrupt(&self) {
        self.state().interrupt = None;
    }

    /// Whether the power has failed.
    pub fn is_without_power(&self) -> bool {
        self.state().without_power
    }

    /// Of a billion appends and flushes, so many fail.
    pub fn fail(&self, appends: u32, flushes: u32) {
        let mut state = self.state();
        (state.append_faults, state.flush_faults) = (appends, flushes);
    }

    /// A zone becomes read only, or goes offline.
    pub fn wear_out(&self, zone: u32, condition: Condition) {
        self.state().zones[zone as usize].condition = condition;
    }

    /// The power comes back, or fails and comes back at once. Zones have lost what the seed decides.
    pub fn restore_power(&self) {
        let state = &mut *self.state();
        // Appends that were not carried out never are.
        state.begun.clear();
        for zone in &mut state.zones {
            let kept = zone.durable + state.rng.below(zone.written - zone.durable + 1);
            if kept < zone.written && zone.condition == Condition::Full {
                zone.condition = Condition::Writable;
            }
            zone.written = kept;
            zone.durable = kept;
            zone.data.truncate(usize::try_from(kept).unwrap_or(usize::MAX) * self.inner.shape.block);
        }
        // Full zones that lost their ends have room again. Where that opens too many, those with most in them are full as they are.
        let surplus = state.zones.iter().filter(|zone| is_active(zone)).count();
        let surplus = surplus.saturating_sub(self.inner.shape.open as usize);
        let mut active: Vec<_> = state.zones.iter_mut().filter(|zone| is_active(zone)).collect();
        active.sort_by_key(|zone| std::cmp::Reverse(zone.written));
        active.into_iter().take(surplus).for_each(|zone| zone.condition = Condition::Full);
        (state.without_power, state.calls_left) = (false, None);
    }

    /// Who uses the device has stopped. Of the appends that were begun, the device carries out some.
    pub fn disconnect(&self) {
        self.inner.carry_out_some();
        self.state().begun.clear();
    }

    /// The power is there and stays. Nothing is lost.
    pub fn keep_power(&self) {
        let mut state = self.state();
        (state.without_power, state.calls_left) = (false, None);
    }

    /// Changes what lies at a byte of a zone, as decayed flash would.
    pub fn damage(&self, zone: u32, byte: usize) {
        if let Some(byte) = self.state().zones[zone as usize].data.get_mut(byte) {
            *byte ^= 0x55;
        }
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets happen what is to happen before this call.
    fn interrupt(&self) {
        let due = {
            let interrupt = &mut self.state().interrupt;
            match interrupt {
                Some((0, _)) => interrupt.take(),
                Some((left, _)) => {
                    *left -= 1;
                    None
                }
                None => None,
            }
        };
        if let Some((_, Interrupt(act))) = due {
            self.state().is_interrupted = true;
            act();
            self.state().is_interrupted = false;
        }
    }

    /// Carries out some of the appends that were begun, in any order.
    fn carry_out_some(&self) {
        self.interrupt();
        let state = &mut *self.state();
        let mut index = 0;
        while index < state.begun.len() {
            if state.rng.below(3) == 0 {
                let at = state.rng.below(state.begun.len() as u64) as usize;
                let begun = state.begun.remove(at);
                self.carry_out(state, &begun);
            }
            index += 1;
        }
    }

    /// Carries out an append, if that was not done yet.
    fn carry_out(&self, state: &mut State, begun: &Begun) {
        let mut ended = begun.result();
        if ended.is_none() {
            *ended = Some(self.append(state, begun.zone, &begun.data, begun.durable));
        }
    }

    /// Whether the power holds through one more call; if not, it fails now.
    fn power(state: &mut State) -> bool {
        match &mut state.calls_left {
            Some(0) => state.without_power = true,
            Some(left) => *left -= 1,
            None => {}
        }
        !state.without_power
    }

    fn usable(state: &State, zone: u32) -> Result<(), DeviceError> {
        if state.without_power {
            return Err(no_power());
        }
        if zone as usize >= state.zones.len() {
            return Err(DeviceError::Failed(format!("there is no zone {zone}").into()));
        }
        Ok(())
    }

    fn append(
        &self,
        state: &mut State,
        number: u32,
        data: &[u8],
        durable: bool,
    ) -> Result<Vec<Run>, DeviceError> {
        Self::usable(state, number)?;
        let (shape, capacity) = (self.shape, self.capacity);
        let open = state.zones.iter().filter(|zone| is_active(zone)).count();
        let zone = &mut state.zones[number as usize];
        let blocks = (data.len() / shape.block) as u64;
        let problem = |problem: &str| DeviceError::Zone { zone: number, problem: problem.into() };
        if zone.condition != Condition::Writable {
            return Err(problem("it is not writable"));
        }
        if zone.written + blocks > capacity {
            return Err(problem("it has not enough room"));
        }
        if !is_active(zone) && open >= shape.open as usize {
            return Err(problem("too many zones are open"));
        }
        // The commands are carried out in an order that the seed decides.
        let piece = usize::try_from(shape.append_blocks).unwrap_or(usize::MAX).saturating_mul(shape.block);
        let mut pieces: Vec<(usize, &[u8])> = data.chunks(piece).enumerate().collect();
        for left in (1..pieces.len()).rev() {
            pieces.swap(left, state.rng.below(left as u64 + 1) as usize);
        }
        let whole = Self::power(state);
        let fault = state.rng.chance(state.append_faults);
        let zone = &mut state.zones[number as usize];
        if !whole || fault {
            let kept = state.rng.below(pieces.len() as u64 + 1) as usize;
            for (_, piece) in &pieces[..kept] {
                Self::put(zone, piece, shape.block, capacity);
            }
            return Err(if whole { problem("the write failed") } else { no_power() });
        }
        let mut runs = vec![Run { lba: 0, blocks: 0 }; pieces.len()];
        for (index, piece) in pieces {
            let lba = shape.start_of(number) + zone.written;
            runs[index] = Run { lba, blocks: (piece.len() / shape.block) as u64 };
            Self::put(zone, piece, shape.block, capacity);
        }
        if durable {
            zone.durable = zone.written;
        }
        Ok(runs)
    }

    fn view(&self, zone: &SimulatedZone) -> Zone {
        let written = match zone.condition {
            Condition::Full => self.capacity,
            Condition::Offline => 0,
            Condition::Writable | Condition::ReadOnly => zone.written,
        };
        Zone { capacity: self.capacity, written, condition: zone.condition }
    }

    fn put(zone: &mut SimulatedZone, data: &[u8], block: usize, capacity: u64) {
        zone.data.extend_from_slice(data);
        zone.written += (data.len() / block) as u64;
        if zone.written == capacity {
            zone.condition = Condition::Full;
        }
    }
}

fn no_power() -> DeviceError {
    DeviceError::Failed("the device has no power".into())
}

impl ZoneDevice for Simulated {
    fn lease(&self) -> Duration {
        self.state().lease
    }

    fn pause(&self, _: Duration) -> Result<(), DeviceError> {
        let cannot_wait = {
            let state = self.state();
            state.is_interrupted && !state.is_slow
        };
        if cannot_wait { Err(DeviceError::Failed("the other program does not go on".into())) } else { Ok(()) }
    }

    fn shape(&self) -> Shape {
        self.inner.shape
    }

    fn zones(&self) -> Result<Vec<Zone>, DeviceError> {
        self.inner.carry_out_some();
        let state = self.state();
        Inner::usable(&state, 0)?;
        Ok(state.zones.iter().map(|zone| self.inner.view(zone)).collect())
    }

    fn zone(&self, zone: u32) -> Result<Zone, DeviceError> {
        self.inner.carry_out_some();
        let state = self.state();
        Inner::usable(&state, zone)?;
        Ok(self.inner.view(&state.zones[zone as usize]))
    }

    fn read(&self, lba: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
        self.inner.interrupt();
        let state = self.state();
        let number = self.inner.shape.zone_of(lba);
        Inner::usable(&state, number)?;
        let zone = &state.zones[number as usize];
        if zone.condition == Condition::Offline {
            return Err(DeviceError::Zone { zone: number, problem: "it is offline".into() });
        }
        let from = usize::try_from(lba - self.inner.shape.start_of(number)).unwrap_or(usize::MAX);
        let from = from.saturating_mul(self.inner.shape.block).min(zone.data.len());
        let there = buffer.len().min(zone.data.len() - from);
        buffer[..there].copy_from_slice(&zone.data[from..from + there]);
        buffer[there..].fill(0);
        Ok(())
    }

    fn begin_append(&self, zone: u32, data: &[u8], durable: bool) -> Arc<dyn Append> {
        self.inner.carry_out_some();
        let begun = Arc::new(Begun { zone, data: data.to_vec(), durable, ended: Mutex::new(None) });
        self.state().begun.push(Arc::clone(&begun));
        Arc::new(SimulatedAppend { begun, inner: Arc::clone(&self.inner) })
    }

    fn reset(&self, zone: u32) -> Result<(), DeviceError> {
        self.inner.carry_out_some();
        let mut state = self.state();
        Inner::usable(&state, zone)?;
        let powered = Inner::power(&mut state);
        if !powered && state.rng.below(2) == 0 {
            return Err(no_power());
        }
        let zone_state = &mut state.zones[zone as usize];
        if matches!(zone_state.condition, Condition::ReadOnly | Condition::Offline) {
            return Err(DeviceError::Zone { zone, problem: "it cannot be reset".into() });
        }
        *zone_state =
            SimulatedZone { data: Vec::new(), written: 0, durable: 0, condition: Condition::Writable };
        if powered { Ok(()) } else { Err(no_power()) }
    }

    fn finish(&self, zone: u32) -> Result<(), DeviceError> {
        self.inner.carry_out_some();
        let mut state = self.state();
        Inner::usable(&state, zone)?;
        if !Inner::power(&mut state) {
            return Err(no_power());
        }
        let zone_state = &mut state.zones[zone as usize];
        if matches!(zone_state.condition, Condition::ReadOnly | Condition::Offline) {
            return Err(DeviceError::Zone { zone, problem: "it cannot be finished".into() });
        }
        zone_state.condition = Condition::Full;
        if zone_state.durable < zone_state.written {
            state.in_doubt.push(zone);
        }
        Ok(())
    }

    fn flush(&self) -> Result<(), DeviceError> {
        self.inner.carry_out_some();
        let state = &mut *self.state();
        Inner::usable(state, 0)?;
        let powered = Inner::power(state);
        if !powered || state.rng.chance(state.flush_faults) {
            return Err(if powered { DeviceError::Failed("the flush failed".into()) } else { no_power() });
        }
        for zone in &mut state.zones {
            zone.durable = zone.written;
        }
        Ok(())
    }
}

/// Whether a zone takes one of the places of those that may be written to at once.
fn is_active(zone: &SimulatedZone) -> bool {
    zone.condition == Condition::Writable && zone.written > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device() -> Simulated {
        Simulated::new(Shape { block: 16, zone_blocks: 8, zones: 3, open: 2, append_blocks: 2 }, 6, 1)
    }

    #[test]
    fn what_was_flushed_survives_and_the_rest_is_a_prefix() {
        for calls in 0..4 {
            let device = device();
            device.append(0, &[1; 32], false).unwrap();
            device.flush().unwrap();
            device.lose_power_after(calls);
            let _ = device.append(0, &[2; 16], false).and_then(|_| device.append(0, &[3; 16], false));
            device.restore_power();
            let written = device.zone(0).unwrap().written;
            let mut blocks = [0; 64];
            device.read(0, &mut blocks).unwrap();
            let expected: Vec<u8> = [1, 1, 2, 3].iter().flat_map(|value| [*value; 16]).collect();
            let bytes = written as usize * 16;
            assert!(written >= 2 && blocks[..bytes] == expected[..bytes], "{written}");
        }
    }

    #[test]
    fn it_keeps_to_the_rules_of_zones() {
        let device = device();
        let runs = device.append(1, &[7; 80], false).unwrap();
        assert_eq!(runs.iter().map(|run| run.blocks).sum::<u64>(), 5);
        assert!(device.append(1, &[7; 32], false).is_err(), "no room");
        device.append(0, &[7; 16], false).unwrap();
        assert!(device.append(2, &[7; 16], false).is_err(), "a third zone");
        device.finish(0).unwrap();
        device.append(2, &[7; 16], false).unwrap();
        assert!(device.append(0, &[7; 16], false).is_err(), "finished");
        device.reset(0).unwrap();
        assert_eq!(device.zone(0).unwrap().written, 0);
    }
}
