//! DRAM and persistent memory: written in place, and limited by bandwidth and banks.
//!
//! A page is interleaved to bank `page % banks`. An access occupies the bank for its latency and the bus for its
//! transfer. Both are queues. So a busy memory answers in milliseconds although its latency is far below one microsecond
//! (the published DRAM namespace took 1.8 ms for 124 KiB). A write crosses the bus first, a read last.
//!
//! A write that was accepted survives a power cut as a whole, even if it was still queued: the module's
//! residual energy drains its queue, as ADR (asynchronous DRAM refresh) does for the write pending queue of
//! persistent memory. So nothing is torn here. The owner decides whether the contents survive at all: it
//! knows whether capacitors save them ([`Memory::lose_contents`]).

use crate::Medium;
use crate::config::{ConfigError, addressable, positive};
use crate::divide::Divisor;
use crate::state::{self, Reader, StateError};
use crate::time::{Nanos, Timeline};
use crate::types::{BlockState, Geometry, LogicalPage, OpStatus, Page, Progress, Read, Slot, Spare, Unit};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// "TMEM", the first word of saved state.
const MAGIC: u32 = u32::from_le_bytes(*b"TMEM");
/// Bytes of a page.
const PAGE: u64 = 4096;
/// Transfers of up to this many pages are computed once.
const TABLE: u32 = 256;

/// What the modules are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MemoryKind {
    /// Volatile unless capacitors save it.
    Dram,
    /// Keeps its contents; may wear.
    Pmem,
}

/// Rate of the bus, in bytes per second; 0 is infinite.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(untagged, expecting = "give bytes_per_second as a number, or as { read = ..., write = ... }")]
pub enum Bandwidth {
    /// Reads and writes share it.
    Shared(u64),
    /// One for each direction.
    Separate {
        /// For reads.
        read: u64,
        /// For writes.
        write: u64,
    },
}

impl Default for Bandwidth {
    fn default() -> Self {
        Bandwidth::Shared(0)
    }
}

/// A memory that is written in place.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryConfig {
    /// What it is made of.
    pub kind: MemoryKind,
    /// Pages of 4 KiB: a multiple of `banks`.
    pub pages: u32,
    /// Banks that work in parallel.
    pub banks: u32,
    /// How long a page's bank is busy for a read.
    #[serde(default)]
    pub read_latency: Nanos,
    /// How long a page's bank is busy for a write.
    #[serde(default)]
    pub write_latency: Nanos,
    /// Rate of the bus.
    #[serde(default)]
    pub bytes_per_second: Bandwidth,
    /// Writes that a page stands; 4294967295 if it does not wear.
    #[serde(default = "unlimited")]
    pub rated_cycles: u32,
    /// Whether spare areas keep version and slot, so that power cuts and images are possible.
    #[serde(default)]
    pub durable: bool,
}

fn unlimited() -> u32 {
    u32::MAX
}

impl MemoryConfig {
    /// The shape that it has as a medium: a block is a page, a die is a bank.
    pub fn geometry(&self) -> Geometry {
        Geometry {
            dies: self.banks,
            channels: 1,
            planes: 1,
            superblocks: self.pages / self.banks.max(1),
            units_per_block: 1,
            unit_pages: 1,
            sense_pages: 1,
            in_place: true,
            rated_cycles: self.rated_cycles,
        }
    }

    /// Checks it.
    ///
    /// # Errors
    /// The first value that cannot be, with what is allowed.
    pub fn check(&self) -> Result<(), ConfigError> {
        positive("banks", self.banks, 1 << 16, "1 to 65,536")?;
        positive("pages", self.pages, 1 << 31, "1 to 2^31 pages of 4 KiB (8 TiB)")?;
        positive("rated_cycles", self.rated_cycles, u32::MAX, "at least 1 (4294967295 for no limit)")?;
        if !self.pages.is_multiple_of(self.banks) {
            return Err(ConfigError::Range {
                what: "pages",
                value: self.pages.into(),
                rule: "must be a multiple of `banks`",
            });
        }
        addressable(&self.geometry()).map(|_| ())
    }
}

/// A program that has not ended.
#[derive(Clone, Copy, Debug)]
struct Pending {
    end: Nanos,
    first: u32,
}

/// How long pages take on the bus, in one direction or in both.
#[derive(Clone, Debug)]
struct TransferTimes {
    /// Time by number of pages.
    transfer: Vec<Nanos>,
    rate: u64,
}

impl TransferTimes {
    fn new(rate: u64) -> Self {
        let transfer = (0..=TABLE).map(|n| Nanos::of_transfer(u64::from(n) * PAGE, rate)).collect();
        TransferTimes { transfer, rate }
    }

    #[inline]
    fn span(&self, pages: u32) -> Nanos {
        match self.transfer.get(pages as usize) {
            Some(span) => *span,
            None => Nanos::of_transfer(u64::from(pages) * PAGE, self.rate),
        }
    }
}

/// Memory as a medium; see [`MemoryConfig`].
///
/// A read may ask for any number of consecutive pages, and a program may write as many.
#[derive(Clone, Debug)]
pub struct Memory {
    geometry: Geometry,
    banks: Divisor,
    pages: u32,
    kind: MemoryKind,
    timed: bool,
    durable: bool,
    read_latency: Nanos,
    write_latency: Nanos,
    read_transfer: TransferTimes,
    write_transfer: TransferTimes,
    /// One, or one for reads and one for writes.
    buses: [Timeline; 2],
    write_bus: usize,
    /// When each bank is free.
    bank_free: Vec<Nanos>,
    pending: VecDeque<Pending>,
    logical: Vec<LogicalPage>,
    versions: Vec<u64>,
    slots: Vec<Slot>,
    /// Writes of each page, if it wears.
    cycles: Vec<u32>,
    /// A bit per page that cannot be read, and one per page that must no longer be used.
    spoiled: Vec<u64>,
    bad: Vec<u64>,
    /// Whether any bit is set in `spoiled` or `bad`.
    marked: bool,
}

fn bit(bits: &[u64], i: u32) -> bool {
    bits[(i / 64) as usize] >> (i % 64) & 1 == 1
}

impl Memory {
    /// New modules, empty, without wear.
    ///
    /// # Errors
    /// If `config` cannot be.
    pub fn new(config: MemoryConfig) -> Result<Self, ConfigError> {
        config.check()?;
        let (pages, durable) = (config.pages as usize, config.durable);
        let (read, write, write_bus) = match config.bytes_per_second {
            Bandwidth::Shared(rate) => (rate, rate, 0),
            Bandwidth::Separate { read, write } => (read, write, 1),
        };
        let wears = config.rated_cycles != u32::MAX;
        Ok(Memory {
            geometry: config.geometry(),
            banks: Divisor::new(config.banks),
            pages: config.pages,
            kind: config.kind,
            timed: read | write | config.read_latency.0 | config.write_latency.0 != 0,
            durable,
            read_latency: config.read_latency,
            write_latency: config.write_latency,
            read_transfer: TransferTimes::new(read),
            write_transfer: TransferTimes::new(write),
            buses: [Timeline::default(), Timeline::default()],
            write_bus,
            bank_free: vec![Nanos::ZERO; config.banks as usize],
            pending: VecDeque::with_capacity(64),
            logical: vec![LogicalPage::NONE; pages],
            versions: vec![0; if durable { pages } else { 0 }],
            slots: vec![Slot::NONE; if durable { pages } else { 0 }],
            cycles: vec![0; if wears { pages } else { 0 }],
            spoiled: vec![0; pages.div_ceil(64)],
            bad: vec![0; pages.div_ceil(64)],
            marked: false,
        })
    }

    /// What it is made of.
    pub fn kind(&self) -> MemoryKind {
        self.kind
    }

    /// The logical page of a page; [`LogicalPage::NONE`] if it holds nothing.
    #[inline]
    pub fn logical(&self, page: Page) -> LogicalPage {
        self.logical[page.0 as usize]
    }

    /// Power was lost and nothing saved the contents: every page holds nothing. Wear and bad pages stay.
    pub fn lose_contents(&mut self) {
        self.logical.fill(LogicalPage::NONE);
        self.versions.fill(0);
        self.slots.fill(Slot::NONE);
        self.spoiled.fill(0);
        self.idle();
    }

    fn idle(&mut self) {
        self.pending.clear();
        self.buses.iter_mut().for_each(Timeline::clear);
        self.bank_free.fill(Nanos::ZERO);
    }

    fn store(&mut self, first: u32, spares: &[Spare]) {
        let range = first as usize..first as usize + spares.len();
        for (to, from) in self.logical[range.clone()].iter_mut().zip(spares) {
            *to = from.page;
        }
        if self.durable {
            for ((i, version), from) in range.clone().zip(&mut self.versions[range.clone()]).zip(spares) {
                *version = from.version;
                self.slots[i] = from.slot;
            }
        }
        if !self.cycles.is_empty() {
            self.cycles[range.clone()].iter_mut().for_each(|c| *c = c.saturating_add(1));
        }
        if self.marked {
            for page in range {
                self.spoiled[page / 64] &= !(1 << (page % 64));
            }
        }
    }

    fn spoil(&mut self, page: u32) {
        let i = page as usize;
        self.logical[i] = LogicalPage::NONE;
        if self.durable {
            (self.versions[i], self.slots[i]) = (0, Slot::NONE);
        }
        self.spoiled[i / 64] |= 1 << (i % 64);
        self.marked = true;
    }

    #[inline]
    fn forget_ended(&mut self, now: Nanos) {
        while self.pending.front().is_some_and(|p| p.end <= now) {
            self.pending.pop_front();
        }
    }

    /// Pages that replayed state names.
    fn known(&self, unit: Unit, count: usize) -> Result<u32, StateError> {
        let end = u64::from(unit.0) + count as u64;
        if end <= u64::from(self.pages) {
            return Ok(unit.0);
        }
        Err(StateError::Range { what: "page", value: end - 1, limit: self.pages.into() })
    }

    fn shape(&self) -> [(&'static str, u64); 3] {
        let wears = !self.cycles.is_empty();
        [("pages", self.pages.into()), ("durable", self.durable.into()), ("wears", wears.into())]
    }

    /// Modules with the state that [`Medium::save`] wrote.
    ///
    /// # Errors
    /// If `config` cannot be, or `bytes` are not the state of such modules.
    pub fn restore(config: MemoryConfig, bytes: &[u8]) -> Result<Self, StateError> {
        let mut memory = Memory::new(config)?;
        let mut from = Reader::new(bytes, MAGIC, "a memory", &memory.shape())?;
        from.fill(&mut memory.logical)?;
        from.fill(&mut memory.versions)?;
        from.fill(&mut memory.slots)?;
        from.fill(&mut memory.cycles)?;
        from.fill(&mut memory.spoiled)?;
        from.fill(&mut memory.bad)?;
        memory.marked = true;
        from.end()?;
        Ok(memory)
    }
}

impl Medium for Memory {
    #[inline]
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Any number of consecutive pages. A page that holds nothing reads well.
    ///
    /// # Panics
    /// If a page is not on the medium, or none is asked for.
    fn read(&mut self, now: Nanos, first: Page, count: u32) -> Read {
        let in_range = u64::from(first.0) + u64::from(count) <= u64::from(self.pages);
        assert!(count > 0 && in_range, "read of {count} pages from {} of {}", first.0, self.pages);
        let spoiled = self.marked && (first.0..first.0 + count).any(|page| bit(&self.spoiled, page));
        let status = if spoiled { OpStatus::Failed } else { OpStatus::Good };
        if !self.timed {
            return Read { done: now, status };
        }
        let (mut from, mut last) = (Nanos::MAX, now);
        let mut bank = self.banks.remainder(first.0);
        for _ in 0..count {
            let free = &mut self.bank_free[bank as usize];
            *free = now.max(*free) + self.read_latency;
            from = from.min(*free);
            last = last.max(*free);
            bank = if bank + 1 == self.banks.by() { 0 } else { bank + 1 };
        }
        // Pages leave in the order in which they are ready, the last not before it is.
        let span = self.read_transfer.span(count);
        let start = self.buses[0].reserve(now, from, span);
        Read { done: (start + span).max(last + self.read_transfer.span(1)), status }
    }

    /// # Panics
    /// If a page is bad or not on the medium, or none is written.
    fn program(&mut self, now: Nanos, unit: Unit, spares: &[Spare]) -> Nanos {
        let (first, count) = (unit.0, spares.len() as u32);
        let in_range = u64::from(first) + spares.len() as u64 <= u64::from(self.pages);
        assert!(count > 0 && in_range, "program of {} pages from {first} of {}", spares.len(), self.pages);
        if self.marked && (first..first + count).any(|page| bit(&self.bad, page)) {
            panic!("program of a bad page among {count} from {first}");
        }
        self.store(first, spares);
        self.forget_ended(now);
        if !self.timed {
            return now;
        }
        let span = self.write_transfer.span(count);
        let start = self.buses[self.write_bus].reserve(now, now, span);
        let mut end = start;
        let mut bank = self.banks.remainder(first);
        for arrived in 1..=count {
            let free = &mut self.bank_free[bank as usize];
            *free = (start + self.write_transfer.span(arrived)).max(*free) + self.write_latency;
            end = end.max(*free);
            bank = if bank + 1 == self.banks.by() { 0 } else { bank + 1 };
        }
        self.pending.push_back(Pending { end, first });
        end
    }

    fn poll_program(&mut self, now: Nanos, unit: Unit) -> Progress {
        self.forget_ended(now);
        match self.pending.iter().find(|p| p.first == unit.0 && p.end > now) {
            Some(p) => Progress::Until(p.end),
            None => Progress::Ended(OpStatus::Good),
        }
    }

    /// Drops the spare area of one page; takes no time and is no cycle.
    fn erase(&mut self, now: Nanos, unit: Unit) -> Nanos {
        if !bit(&self.bad, unit.0) {
            let i = unit.0 as usize;
            self.logical[i] = LogicalPage::NONE;
            if self.durable {
                (self.versions[i], self.slots[i]) = (0, Slot::NONE);
            }
            self.spoiled[i / 64] &= !(1 << (i % 64));
        }
        now
    }

    fn poll_erase(&mut self, _: Nanos, unit: Unit) -> Progress {
        Progress::Ended(if bit(&self.bad, unit.0) { OpStatus::Failed } else { OpStatus::Good })
    }

    #[inline]
    fn spare(&self, page: Page) -> Spare {
        let i = page.0 as usize;
        match self.durable {
            false => Spare { page: self.logical[i], ..Spare::EMPTY },
            true => Spare { page: self.logical[i], version: self.versions[i], slot: self.slots[i] },
        }
    }

    #[inline]
    fn slot(&self, page: Page) -> Slot {
        if self.durable { self.slots[page.0 as usize] } else { Spare::EMPTY.slot }
    }

    fn wear(&self, unit: Unit) -> u32 {
        self.cycles.get(unit.0 as usize).copied().unwrap_or(0)
    }

    fn is_bad(&self, unit: Unit) -> bool {
        bit(&self.bad, unit.0)
    }

    fn block(&self, unit: Unit) -> BlockState {
        if self.is_bad(unit) { BlockState::Bad } else { BlockState::Writable { next: 0 } }
    }

    /// Tears nothing (see the module); queues are empty afterwards.
    fn power_cut(&mut self, _: Nanos) {
        self.idle();
    }

    fn apply_program(&mut self, unit: Unit, spares: &[Spare]) -> Result<(), StateError> {
        let first = self.known(unit, spares.len())?;
        self.store(first, spares);
        Ok(())
    }

    fn apply_spoil(&mut self, unit: Unit) -> Result<(), StateError> {
        let page = self.known(unit, 1)?;
        self.spoil(page);
        Ok(())
    }

    fn apply_erase(&mut self, unit: Unit) -> Result<(), StateError> {
        self.known(unit, 1)?;
        self.erase(Nanos::ZERO, unit);
        Ok(())
    }

    fn apply_bad(&mut self, unit: Unit) -> Result<(), StateError> {
        let page = self.known(unit, 1)?;
        self.bad[(page / 64) as usize] |= 1 << (page % 64);
        self.marked = true;
        Ok(())
    }

    fn save(&self, out: &mut Vec<u8>) {
        out.reserve(self.pages as usize * if self.durable { 16 } else { 4 } + self.cycles.len() * 4 + 1024);
        state::header(out, MAGIC, &self.shape());
        state::put(out, &self.logical);
        state::put(out, &self.versions);
        state::put(out, &self.slots);
        state::put(out, &self.cycles);
        state::put(out, &self.spoiled);
        state::put(out, &self.bad);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 4 banks; reads 300 ns, writes 500 ns; 4.096 GB/s: a page takes 1 µs of the bus.
    fn config() -> MemoryConfig {
        MemoryConfig {
            kind: MemoryKind::Dram,
            pages: 64,
            banks: 4,
            read_latency: Nanos(300),
            write_latency: Nanos(500),
            bytes_per_second: Bandwidth::Shared(4_096_000_000),
            rated_cycles: u32::MAX,
            durable: true,
        }
    }

    fn memory(change: impl FnOnce(&mut MemoryConfig)) -> Memory {
        let mut config = config();
        change(&mut config);
        Memory::new(config).unwrap()
    }

    fn spares(count: u32) -> Vec<Spare> {
        (0..count).map(|i| Spare { page: LogicalPage(i), version: 7, slot: Slot(i) }).collect()
    }

    #[test]
    fn a_write_crosses_the_bus_and_then_takes_its_bank() {
        let mut m = memory(|_| ());
        assert_eq!(m.program(Nanos(0), Unit(0), &spares(1)), Nanos(1_500));
        // Behind it on the bus; the bank of the last of three is free.
        assert_eq!(m.program(Nanos(0), Unit(1), &spares(3)), Nanos(4_500));
        assert_eq!(m.poll_program(Nanos(4_499), Unit(1)), Progress::Until(Nanos(4_500)));
        assert_eq!(m.poll_program(Nanos(4_500), Unit(1)), Progress::Ended(OpStatus::Good));
    }

    #[test]
    fn a_read_takes_its_bank_and_then_crosses_the_bus() {
        let mut m = memory(|_| ());
        assert_eq!(m.read(Nanos(0), Page(0), 1).done, Nanos(1_300));
        // Sensed at the same time in another bank; the bus is busy until 1,300.
        assert_eq!(m.read(Nanos(0), Page(1), 1).done, Nanos(2_300));
        assert_eq!(m.read(Nanos(0), Page(2), 8).done, Nanos(10_300));
    }

    #[test]
    fn slow_banks_limit_what_a_fast_bus_does_not() {
        let mut m = memory(|c| {
            c.write_latency = Nanos(10_000);
            c.read_latency = Nanos(10_000);
        });
        // Pages 0 and 4 are on one bank: the second waits for the first.
        assert_eq!(m.program(Nanos(0), Unit(0), &spares(5)), Nanos(1_000 + 20_000));
        assert_eq!(m.read(Nanos(50_000), Page(0), 4).done, Nanos(64_000));
        // Two rounds over the banks; the last page leaves when it is ready.
        assert_eq!(m.read(Nanos(100_000), Page(0), 8).done, Nanos(100_000 + 20_000 + 1_000));
    }

    #[test]
    fn a_busy_memory_answers_late_whatever_its_latency() {
        // 64 writers of 124 KiB at 4.096 GB/s: each waits for all others.
        let mut m = memory(|_| ());
        let spares = spares(31);
        let ends: Vec<u64> = (0..64).map(|_| m.program(Nanos(0), Unit(0), &spares).0).collect();
        assert_eq!((ends[0], ends[63]), (31_500, 31_000 * 64 + 500));
    }

    #[test]
    fn separate_directions_do_not_wait_for_each_other() {
        let both = Bandwidth::Separate { read: 4_096_000_000, write: 2_048_000_000 };
        let mut m = memory(|c| c.bytes_per_second = both);
        assert_eq!(m.program(Nanos(0), Unit(0), &spares(1)), Nanos(2_500));
        assert_eq!(m.read(Nanos(0), Page(1), 1).done, Nanos(1_300));
        assert_eq!(m.program(Nanos(0), Unit(2), &spares(1)), Nanos(4_500));
    }

    #[test]
    fn without_timing_everything_ends_at_once() {
        let off = |c: &mut MemoryConfig| {
            (c.read_latency, c.write_latency) = (Nanos::ZERO, Nanos::ZERO);
            c.bytes_per_second = Bandwidth::default();
        };
        let mut m = memory(off);
        assert_eq!(m.program(Nanos(5), Unit(0), &spares(3)), Nanos(5));
        assert_eq!(m.poll_program(Nanos(5), Unit(0)), Progress::Ended(OpStatus::Good));
        assert_eq!(m.read(Nanos(6), Page(0), 3).done, Nanos(6));
    }

    #[test]
    fn contents_survive_a_power_cut_unless_they_are_lost() {
        let mut m = memory(|c| c.rated_cycles = 9);
        m.program(Nanos(0), Unit(3), &spares(2));
        m.program(Nanos(0), Unit(3), &spares(2));
        m.power_cut(Nanos(1));
        assert_eq!(m.spare(Page(4)), spares(2)[1]);
        assert_eq!(m.read(Nanos(1), Page(3), 1).done, Nanos(1_301));
        m.apply_bad(Unit(9)).unwrap();
        m.lose_contents();
        assert_eq!(m.spare(Page(4)), Spare::EMPTY);
        assert_eq!((m.wear(Unit(4)), m.wear(Unit(5))), (2, 0));
        assert!(m.is_bad(Unit(9)));
    }

    #[test]
    fn errors_say_what_is_wrong() {
        let broken = |change: fn(&mut MemoryConfig)| {
            let mut c = config();
            change(&mut c);
            c.check().unwrap_err().to_string()
        };
        assert_eq!(broken(|c| c.banks = 5), "pages is 64: must be a multiple of `banks`");
        assert_eq!(broken(|c| c.banks = 0), "banks is 0: 1 to 65,536");
        assert_eq!(broken(|c| c.pages = 0), "pages is 0: 1 to 2^31 pages of 4 KiB (8 TiB)");
        let m = memory(|_| ());
        let mut bytes = Vec::new();
        m.save(&mut bytes);
        assert!(Memory::restore(config(), &bytes).is_ok());
        let other = MemoryConfig { pages: 128, ..config() };
        let error = Memory::restore(other, &bytes).unwrap_err().to_string();
        assert!(error.contains("pages = 64, the configuration says 128"), "{error}");
        let error = memory(|_| ()).apply_program(Unit(63), &spares(2)).unwrap_err().to_string();
        assert!(error.contains("page is 64, the medium has 64"), "{error}");
    }

    #[test]
    fn a_configuration_says_either_one_rate_or_two() {
        let parse = |rate: &str| -> MemoryConfig {
            let text = r#"{"kind": "pmem", "pages": 8, "banks": 2, "bytes_per_second": RATE}"#;
            serde_json::from_str(&text.replace("RATE", rate)).unwrap()
        };
        assert_eq!(parse("5").bytes_per_second, Bandwidth::Shared(5));
        let two = Bandwidth::Separate { read: 6, write: 2 };
        assert_eq!(parse(r#"{"read": 6, "write": 2}"#).bytes_per_second, two);
        assert_eq!(parse("5").rated_cycles, u32::MAX);
    }
}
