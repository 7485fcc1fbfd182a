//! Garbage collection, wear levelling and erases.
//!
//! Collection starts when fewer superblocks than [`GcConfig::low`](crate::config::GcConfig) are free, and paces
//! itself: with `valid` pages to move out of a victim of `usable` pages, every page that the host
//! programs is matched by `valid / (usable - valid)` moved pages, so that a victim is empty when the
//! host has used up what the one before gave. Neither waits for the other as a whole: no cliff. While the host
//! has nothing to write collection goes on with a few dies at a time, so that reads find the others free.

use super::superblock::State;
use super::{NandSet, PageMove, ProgramOp, UNREADABLE, bit};
use crate::context::{Event, SetContext};
use crate::storage::{Record, Storage};
use crate::victim::Candidate;
use media::tables::prefetch;
use media::{Geometry, Medium, Nanos, Outcome, Page, Progress, Unit};
use std::collections::VecDeque;

const NO_BLOCK: u32 = u32::MAX;

/// How much faster than the host collection is paced, as a fraction: so that the victim is empty, and
/// erased, before the host needs it.
const HASTE: (i64, i64) = (5, 4);

/// Pages that collection gathers at a time, so that a small unit does not cost an event of its own.
const BATCH_PAGES: u32 = 16;

/// Most units that are gathered and not sent to their die yet.
const MOST_GATHERED: u32 = 64;

/// Most pages that the host may be ahead.
const MOST_LEAD: u32 = 128;

/// End of a chain of programs.
pub(super) const NO_OP: u32 = u32::MAX;

#[derive(Clone, Debug)]
pub(super) struct Collector {
    victim: u32,
    /// Next page of the victim to look at, from 0.
    cursor: u32,
    /// Units on their way: gathered, being gathered or being programmed.
    pub ops: u32,
    /// Of those, units that were not sent to their die yet.
    pub gathered: u32,
    most_gathered: u32,
    /// Most units on their way while the host has nothing to write and no space is lacking.
    most_idle: u32,
    /// The host has nothing to write: collection goes on all the same, a little at a time.
    idle: bool,
    /// Pages that the host may be ahead of the collector.
    lead: i64,
    /// [`BATCH_PAGES`] in units.
    batch: u32,
    /// Programs whose pages are in the controller.
    pub ready: VecDeque<u32>,
    /// What the host is ahead of the collector, in pages x pages: the host adds `valid` for each page
    /// that it programs, a moved page takes `gain` away.
    balance: i64,
    valid: i64,
    gain: i64,
    /// Nothing of the victim is left but what is being programmed.
    ending: bool,
    /// The last victim was chosen for its wear.
    levelled: bool,
}

impl Collector {
    pub fn new(geo: &Geometry, idle_share: u32) -> Collector {
        let batch = (BATCH_PAGES / geo.unit_pages).clamp(1, 2 * geo.dies);
        // One batch that is programmed, and one that is gathered meanwhile.
        let most_gathered = (geo.dies / 2).clamp(2 * batch, MOST_GATHERED);
        let lead = (2 * geo.dies).clamp(2 * BATCH_PAGES, MOST_LEAD);
        Collector {
            victim: NO_BLOCK,
            cursor: 0,
            ops: 0,
            gathered: 0,
            most_gathered,
            most_idle: few(geo.dies, idle_share).max(batch),
            idle: false,
            lead: lead.into(),
            batch,
            ready: VecDeque::with_capacity(most_gathered as usize),
            balance: 0,
            valid: 0,
            gain: 0,
            ending: false,
            levelled: false,
        }
    }

    /// Whether the host may program now, or has to let collection catch up.
    #[inline]
    pub fn lets_host(&self) -> bool {
        self.victim == NO_BLOCK || self.balance <= self.lead * self.gain.max(1)
    }

    #[inline]
    pub fn host_wrote(&mut self, pages: u32) {
        if self.victim != NO_BLOCK {
            self.balance += i64::from(pages) * self.valid * HASTE.0 / HASTE.1;
        }
    }

    /// A move failed: the victim is looked through again once nothing of it is under way.
    pub fn start_over(&mut self) {
        self.cursor = u32::MAX;
    }

    pub fn most_gathered(&self) -> u32 {
        self.most_gathered
    }

    /// Whether another unit may be gathered although nothing asks for it.
    #[inline]
    fn has_idle_room(&self) -> bool {
        self.idle && self.ops < self.most_idle
    }

    /// Whether another batch may be gathered.
    #[inline]
    pub fn has_room(&self) -> bool {
        self.gathered + self.batch <= self.most_gathered
    }

    /// Whether the end of each of its programs is waited for.
    #[inline]
    pub fn awaits_ends(&self) -> bool {
        self.ending || self.idle
    }

    /// What is being collected; meaningless if nothing is.
    pub fn victim(&self) -> u32 {
        self.victim
    }

    pub fn is_active(&self) -> bool {
        self.victim != NO_BLOCK
    }
}

/// So many dies that the others can go on.
fn few(dies: u32, share: u32) -> u32 {
    (dies / share.max(1)).max(1)
}

impl NandSet {
    /// Takes collection one step on; whether anything was done.
    pub(super) fn collect<S: Storage>(&mut self, now: Nanos, cx: &mut SetContext<'_, S>) -> bool {
        if self.gc_paused && self.stays_paused() {
            return false;
        }
        let mut done = self.erase_some(now, cx);
        if self.purge.is_some() {
            done |= self.purge_step(now, cx);
        }
        if !self.gc.is_active() {
            let low = (self.gc_config.low + self.reserve + self.open_handles.saturating_sub(1)) as usize;
            let enough = self.superblocks.free.len() + self.superblocks.erasing.len() >= low;
            if enough || !self.choose_victim() {
                return done;
            }
            if self.notes_wanted {
                self.note_moved(now, self.gc.victim, cx);
            }
            done = true;
        }
        let batch = i64::from(BATCH_PAGES) * self.gc.gain;
        let room = self.gc.has_room();
        let urgent = room && self.is_urgent();
        let due = self.gc.balance > batch || urgent;
        let idle = !due && !self.host_is_ready();
        if !std::mem::replace(&mut self.gc.idle, idle) && idle {
            done |= self.await_all(now, cx);
        }
        if room && (due || self.gc.has_idle_room()) {
            let (mut chain, mut last, mut end, mut units) = (NO_OP, NO_OP, now, 0);
            while self.gc.gathered < self.gc.most_gathered
                && (self.gc.balance > 0 || urgent || self.gc.has_idle_room())
            {
                let Some((op, gathered)) = self.gather(now) else { break };
                match chain {
                    NO_OP => chain = op,
                    _ => self.ops[last as usize].next = op,
                }
                (last, end, units) = (op, end.max(gathered), units + 1);
                done = true;
            }
            if chain != NO_OP {
                self.charge(chain, units, cx);
                match end > now {
                    true => cx.events.push(end, (self.id, Event::Gathered(chain))),
                    false => self.gathered(chain),
                }
            }
        }
        let pages = self.geo.pages_per_superblock();
        if self.gc.cursor >= pages && self.gc.gathered == 0 {
            if self.gc.ops > 0 {
                if !self.gc.ending {
                    self.gc.ending = true;
                    done |= self.await_all(now, cx);
                }
                return done;
            }
            let victim = self.gc.victim;
            self.gc.ending = false;
            if self.superblocks.all[victim as usize].valid > 0 {
                self.gc.cursor = 0;
            } else {
                self.gc.victim = NO_BLOCK;
                self.gc.balance = self.gc.balance.min(0);
                self.superblocks.all[victim as usize].state = State::Erasing;
                self.superblocks.erasing.push_back(victim);
            }
            done = true;
        }
        done
    }

    /// Whether nothing else can be done, or space is to be made ahead.
    #[inline]
    fn is_urgent(&self) -> bool {
        self.reserve > 0 || (self.superblocks.free.len() < 2 && self.host_lacks_superblock())
    }

    /// Charges what a chain of so many units will program to those whose writes make it necessary.
    #[inline]
    fn charge<S: Storage>(&mut self, mut chain: u32, units: u64, cx: &mut SetContext<'_, S>) {
        let bytes = units * u64::from(self.geo.unit_pages * crate::config::PAGE);
        if cx.volumes.charge_collected(self.id, bytes) {
            return;
        }
        // Without anybody's writes (for its wear, or after a restart) collection is at the expense of what it moves.
        while chain != NO_OP {
            let op = &mut self.ops[chain as usize];
            op.paid = false;
            chain = op.next;
        }
    }

    /// Whether a placement handle that has something to write has no superblock to write to.
    pub(super) fn host_lacks_superblock(&self) -> bool {
        match self.handles {
            1 => !self.streams[0].is_open(),
            _ => (0..self.handles).any(|h| !self.streams[h].is_open() && self.handle_is_ready(h)),
        }
    }

    /// The pages of a chain of programs are in the controller.
    pub(super) fn gathered(&mut self, mut chain: u32) {
        while chain != NO_OP {
            self.gc.ready.push_back(chain);
            chain = self.ops[chain as usize].next;
        }
    }

    /// The next valid page of the victim.
    #[inline]
    fn next_valid(&mut self) -> Option<u32> {
        let pages = self.geo.pages_per_superblock();
        let base = self.gc.victim * pages;
        while self.gc.cursor < pages {
            let page = base + self.gc.cursor;
            // Whole words without valid pages are skipped.
            let rest = self.valid[(page / 64) as usize] >> (page % 64);
            let skip = rest.trailing_zeros().min(64 - page % 64);
            self.gc.cursor += skip;
            if rest != 0 {
                self.gc.cursor += 1;
                // The word may be another superblock's, too.
                return (self.gc.cursor <= pages).then_some(page + skip);
            }
        }
        None
    }

    /// Gathers one unit of valid pages from the victim, if there is any; says when it is in the controller.
    fn gather(&mut self, now: Nanos) -> Option<(u32, Nanos)> {
        let op = *self.free_ops.last()?;
        let mut page = self.next_valid()?;
        self.free_ops.pop();
        let start = (op * self.geo.unit_pages) as usize;
        let (mut moves, mut end) = (0, now);
        loop {
            // The pages that one sense brings.
            let (first, mut count) = (page, 1);
            let next = loop {
                if moves + count == self.geo.unit_pages {
                    break None;
                }
                match self.next_valid() {
                    Some(next) if next == first + count && !next.is_multiple_of(self.geo.sense_pages) => {
                        count += 1;
                    }
                    next => break next,
                }
            };
            let read = self.nand.read(now, Page(first), count);
            end = end.max(read.done);
            let lost = read.outcome == Outcome::Failed;
            self.stats.uncorrectable += u64::from(lost);
            let gathered = &mut self.moves[start + moves as usize..][..count as usize];
            for (page, page_move) in (first..).zip(gathered) {
                let source = if lost { page | UNREADABLE } else { page };
                let logical = self.nand.inner().logical(Page(page)).0;
                // What its landing will want.
                prefetch(&self.map, logical);
                *page_move = PageMove { page: logical, source };
            }
            moves += count;
            let Some(next) = next else { break };
            page = next;
        }
        self.stats.media_read_bytes += u64::from(moves * crate::config::PAGE);
        self.ops[op as usize] = ProgramOp {
            unit: Unit(0),
            die: 0,
            superblock: 0,
            moves,
            relocated: true,
            paid: true,
            programming: false,
            next: NO_OP,
        };
        self.gc.ops += 1;
        self.gc.gathered += 1;
        self.gc.balance -= i64::from(moves) * self.gc.gain;
        Some((op, end))
    }

    /// Chooses the next superblock to collect; whether there is one that gives something.
    fn choose_victim(&mut self) -> bool {
        let sealed = || {
            self.superblocks.all.iter().enumerate().filter(|(_, b)| b.state == State::Sealed && b.ops == 0)
        };
        let now = self.superblocks.sealed_count;
        // Superblocks lose usable pages with their bad blocks, and may hold more than they would take again.
        // What is moved fills whole units.
        let unit = self.geo.unit_pages;
        let mut giving = sealed()
            .filter(|(_, b)| b.valid.next_multiple_of(unit) < b.usable || b.valid == 0)
            .map(|(superblock, b)| Candidate {
                superblock: superblock as u32,
                valid: b.valid,
                usable: b.usable,
                age: now - b.sealed + 1,
            });
        let mut victim = self.gc_config.policy.chooses().choose(&mut giving).map(|c| c.superblock as usize);
        if !self.gc.levelled && self.superblocks.free.len() >= 2 {
            let most = self.superblocks.all.iter().map(|b| b.erases).max().unwrap_or(0);
            let least = sealed().min_by_key(|(i, b)| (b.erases, *i));
            if let Some((_, b)) = least
                && most - b.erases > self.gc_config.wear_gap
            {
                victim = least.map(|(superblock, _)| superblock);
                self.gc.levelled = true;
            }
        } else {
            self.gc.levelled = false;
        }
        let Some(index) = victim else { return false };
        let block = &self.superblocks.all[index];
        self.gc.victim = index as u32;
        self.gc.cursor = 0;
        self.gc.valid = i64::from(block.valid);
        self.gc.gain = i64::from(block.usable.saturating_sub(block.valid));
        self.gc.balance = 0;
        true
    }

    /// Erases blocks of collected superblocks, a few dies at a time so that the others can work; all at a time if there is
    /// no other work.
    fn erase_some<S: Storage>(&mut self, now: Nanos, cx: &mut SetContext<'_, S>) -> bool {
        let most = match self.purge {
            Some(_) => self.geo.dies,
            None => few(self.geo.dies, self.gc_config.idle_share),
        };
        let mut done = false;
        while let Some(&block) = self.superblocks.erasing.front() {
            if self.superblocks.erase_die == self.geo.dies {
                if self.superblocks.erases_under_way == 0 {
                    self.erase_ended(block);
                    self.check_spare(now, cx);
                    done = true;
                    continue;
                }
                break;
            }
            if self.superblocks.erases_under_way >= most {
                break;
            }
            let unit = Unit(block * self.geo.units_per_superblock() + self.superblocks.erase_die);
            self.superblocks.erase_die += 1;
            if self.nand.is_bad(unit) {
                // What it holds is out of date and stays there.
                continue;
            }
            self.superblocks.erases_under_way += 1;
            let end = self.nand.erase(now, unit);
            cx.events.push(end, (self.id, Event::Erased(unit)));
            done = true;
        }
        done
    }

    /// An erase should have ended; whether it has.
    pub(super) fn erased<S: Storage>(&mut self, now: Nanos, unit: Unit, cx: &mut SetContext<'_, S>) -> bool {
        let outcome = match self.nand.poll_erase(now, unit) {
            Progress::Until(later) => {
                cx.events.push(later, (self.id, Event::Erased(unit)));
                return false;
            }
            Progress::Ended(outcome) => outcome,
        };
        self.stats.erases += 1;
        self.superblocks.erases_under_way -= 1;
        cx.storage.record(Record::Erase { set: self.id.0, unit });
        if outcome == Outcome::Failed {
            self.stats.media_failures += 1;
            self.stats.erase_failures += 1;
            cx.storage.record(Record::Retire { set: self.id.0, unit });
        }
        true
    }

    fn erase_ended(&mut self, block: u32) {
        self.superblocks.erasing.pop_front();
        self.superblocks.erase_die = 0;
        self.count_usable(block);
        let b = &mut self.superblocks.all[block as usize];
        b.erases += 1;
        if b.usable == 0 {
            b.state = State::Dead;
        } else {
            b.state = State::Free;
            self.superblocks.free.push(block);
        }
        debug_assert!(
            !(0..self.geo.pages_per_superblock())
                .any(|p| bit(&self.valid, block * self.geo.pages_per_superblock() + p))
        );
    }
}
