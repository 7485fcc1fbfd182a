//! Garbage collection, wear levelling and erases.
//!
//! Collection starts when fewer superblocks than [`GcConfig::low`](crate::config::GcConfig) are free, and paces itself. A victim of
//! `usable` pages has `valid` pages to move out. Every page that the host programs is matched by `valid / (usable - valid)` moved
//! pages. So a victim is empty when the host has used up what the one before gave. Neither waits for the other as a whole: no cliff. While
//! the host has nothing to write, collection goes on with a few dies at a time, so that reads find the others free.

use super::PageMappedSet;
use super::collector::Chain;
use super::ops::{NO_OP, PageMove, ProgramOp, UNREADABLE};
use crate::config::PAGE;
use crate::context::{Event, SetContext};
use crate::flash::{EraseStep, Superblock, SuperblockState};
use crate::policy_input::Candidate;
use crate::storage::Storage;
use crate::victim::GcPolicy;
use media::{Nanos, OpStatus};
use std::cmp::Reverse;

/// Usual victims between two that are chosen for their wear, so that host writes proceed.
const VICTIMS_PER_LEVELLING: u32 = 3;

/// While a victim is chosen for its wear, the host may write the pages that a usual victim frees, divided by this. Collection is
/// paced a quarter faster than the host, which pays for it.
const LEVELLING_PACE: u32 = 4;

/// Pages that collection of a superblock frees.
fn gain(victim: &Candidate) -> u32 {
    victim.usable.saturating_sub(victim.valid)
}

/// The age of the youngest among the oldest superblocks that are this percentage of all, and one at least; 0 of none.
fn youngest_of_oldest(ages: &mut [u64], percent: u32) -> u64 {
    let Some(last) = ages.len().checked_sub(1) else { return 0 };
    let window = (ages.len() * percent as usize).div_ceil(100);
    let younger = last + 1 - window.clamp(1, last + 1);
    *ages.select_nth_unstable(younger).1
}

impl PageMappedSet {
    /// Takes collection one step on; whether anything was done.
    pub(super) fn collect<S: Storage>(&mut self, now: Nanos, cx: &mut SetContext<'_, S>) -> bool {
        if self.gc.paused && self.stays_paused() {
            return false;
        }
        let mut done = self.erase_some(now, cx);
        if self.purge.is_some() {
            done |= self.purge_step(now, cx);
        }
        if !self.gc.is_active() {
            let superblocks = self.flash.superblocks();
            let low = self.gc.config.low + self.gc.reserve + self.streams.kept_for_hosts() + self.wanted;
            let enough = superblocks.free() + superblocks.erasing() >= low as usize;
            if enough || !self.choose_victim() {
                return done;
            }
            self.gc.begun = now;
            if self.notes.are_wanted() {
                self.note_moved(now, self.gc.victim(), cx);
            }
            done = true;
        }
        // A zone that waits for a superblock waits for collection alone: nobody's programs pace that.
        let demand = self.gc.demand(|| {
            self.wanted > 0
                || (self.flash.superblocks().free() < 2 && self.host_lacks_superblock())
                || self.room_is_for_collection()
        });
        let idle = !demand.due && !self.host_is_ready();
        if self.gc.set_idle(idle) {
            done |= self.await_all(now, cx);
        }
        if self.gc.begins_batch(demand) {
            let (mut chain, mut end) = (Chain::EMPTY, now);
            while self.gc.goes_on(demand) {
                let Some((op, gathered)) = self.gather(now) else { break };
                match chain.first {
                    NO_OP => chain.first = op,
                    _ => self.ops.get_mut(chain.last).next = op,
                }
                (chain.last, end) = (op, end.max(gathered));
                chain.units += 1;
                done = true;
            }
            if chain.units > 0 {
                self.charge(chain, cx);
                match end > now {
                    true => cx.events.push(end, (self.flash.id(), Event::Gathered(chain.first))),
                    false => self.gathered(chain.first),
                }
            }
        }
        if self.gc.is_through() {
            return self.end_victim(now, cx) | done;
        }
        done
    }

    /// All of the victim was looked through: it is given up once nothing of it is valid. Whether anything was done.
    fn end_victim<S: Storage>(&mut self, now: Nanos, cx: &mut SetContext<'_, S>) -> bool {
        if self.gc.has_ops() {
            return self.gc.set_ending() && self.await_all(now, cx);
        }
        let victim = self.gc.victim();
        self.gc.all_landed();
        if self.valid.of(victim) > 0 {
            self.gc.rewind();
        } else {
            self.gc.end();
            self.flash.give_up(victim);
            let stats = &mut self.flash.stats;
            stats.collections += 1;
            stats.collecting_ns += now.since(self.gc.begun).0;
        }
        true
    }

    /// Charges what a chain of units will program to those whose writes make it necessary.
    #[inline]
    fn charge<S: Storage>(&mut self, chain: Chain, cx: &mut SetContext<'_, S>) {
        let bytes = chain.units * u64::from(self.flash.geo().unit_pages * PAGE);
        if cx.volumes.charge_collected(self.flash.id(), bytes) {
            return;
        }
        // Without anybody's writes (for its wear, or after a restart) collection is at the expense of what it moves.
        let mut next = chain.first;
        while next != NO_OP {
            let op = self.ops.get_mut(next);
            op.paid = false;
            next = op.next;
        }
    }

    /// Whether a host stream that has something to write has no superblock to write to.
    pub(super) fn host_lacks_superblock(&self) -> bool {
        match self.streams.hosts() {
            1 => !self.streams.get(0).is_open(),
            hosts => (0..hosts).any(|h| !self.streams.get(h).is_open() && self.stream_is_ready(h)),
        }
    }

    /// Whether the host must leave the room of the superblock that it shares with collection. No other superblock is free, and the rest of
    /// the victim fills this one.
    pub(super) fn room_is_for_collection(&self) -> bool {
        if !self.gc.is_active() || self.streams.is_relocation(self.gc.stream()) {
            return false;
        }
        let host = self.streams.get(self.gc.stream());
        if !host.is_open() || self.flash.superblocks().free() > 0 {
            return false;
        }
        // Collection programs gathered pages even if the host overwrites them meanwhile.
        let unit_pages = self.flash.geo().unit_pages;
        let left = self.valid.of(self.gc.victim()).div_ceil(unit_pages) + self.gc.gathered_units();
        self.flash.room_of(host) <= left * unit_pages
    }

    /// The pages of a chain of programs are in the controller.
    pub fn gathered(&mut self, mut chain: u32) {
        while chain != NO_OP {
            self.gc.ready.push_back(chain);
            chain = self.ops.get(chain).next;
        }
    }

    /// Gathers one unit of valid pages from the victim, if there is any; says when it is in the controller.
    fn gather(&mut self, now: Nanos) -> Option<(u32, Nanos)> {
        if self.ops.are_all_taken() {
            return None;
        }
        let mut page = self.gc.next_valid(&self.valid)?;
        let op = self.ops.take()?;
        let (unit_pages, sense_pages) = (self.flash.geo().unit_pages, self.flash.geo().sense_pages);
        let (mut moves, mut end) = (0, now);
        loop {
            // The pages that one sense brings.
            let (first, mut count) = (page, 1);
            let next = loop {
                if moves + count == unit_pages {
                    break None;
                }
                match self.gc.next_valid(&self.valid) {
                    Some(next) if next == first + count && !next.is_multiple_of(sense_pages) => {
                        count += 1;
                    }
                    next => break next,
                }
            };
            let read = self.flash.read(now, first, count);
            end = end.max(read.done);
            let lost = read.status == OpStatus::Failed;
            let gathered = &mut self.ops.pages_mut(op, moves)[..count as usize];
            for (page, page_move) in (first..).zip(gathered) {
                let source = if lost { page | UNREADABLE } else { page };
                let logical = self.flash.logical(page);
                // What its landing will want.
                self.map.prefetch(logical);
                *page_move = PageMove { page: logical, source };
            }
            moves += count;
            let Some(next) = next else { break };
            page = next;
        }
        *self.ops.get_mut(op) =
            ProgramOp { moves, relocated: true, paid: true, programming: false, next: NO_OP };
        self.gc.gathers(moves);
        self.flash.stats.collected_pages += u64::from(moves);
        Some((op, end))
    }

    /// Chooses the next superblock to collect; whether there is one that gives something.
    fn choose_victim(&mut self) -> bool {
        let superblocks = self.flash.superblocks();
        let is_sealed = |b: &Superblock| b.state == SuperblockState::Sealed && b.programs == 0;
        let sealed = || superblocks.iter().filter(|(_, b)| is_sealed(b));
        let now = superblocks.sealed_count();
        // Superblocks lose usable pages with their bad blocks, and may hold more than they would take again.
        // What is moved fills whole units.
        let unit = self.flash.geo().unit_pages;
        let candidate = |(superblock, b): (u32, &Superblock)| Candidate {
            superblock,
            valid: self.valid.of(superblock),
            usable: b.usable,
            age: now - b.sealed + 1,
            erases: b.erases,
            writer: self.streams.writer(b.writer.into()),
        };
        let gives = |c: &Candidate| c.valid.next_multiple_of(unit) < c.usable || c.valid == 0;
        let giving = || sealed().map(candidate).filter(gives);
        let is_candidate = |superblock: &u32| {
            *superblock < self.flash.geo().superblocks && {
                let chosen = superblocks.get(*superblock);
                is_sealed(chosen) && gives(&candidate((*superblock, chosen)))
            }
        };
        let youngest = match self.gc.config.window {
            100.. => 0,
            window => {
                self.scratch.ages.clear();
                self.scratch.ages.extend(giving().map(|c| c.age));
                youngest_of_oldest(&mut self.scratch.ages, window)
            }
        };
        let mut victim =
            self.victims.choose(&mut giving().filter(|c| c.age >= youngest)).filter(is_candidate);
        // Hosts and collection must be able to go on.
        if victim.is_none() && superblocks.free() < 2 {
            victim = GcPolicy::Greedy.policy().choose(&mut giving());
        }
        let victim = victim.map(|victim| candidate((victim, superblocks.get(victim))));
        let least = sealed().map(|(_, b)| b.erases).min().unwrap_or(0);
        let most = superblocks.iter().map(|(_, b)| b.erases).max().unwrap_or(least);
        let cold = self.gc.levels_wear(most - least).filter(|_| self.may_level_wear()).and_then(|stop| {
            // Younger ones than the usual victim will be collected anyway.
            let youngest = victim.as_ref().map_or(0, |victim| victim.age);
            let uneven = sealed().map(candidate).filter(|c| most - c.erases > stop && c.age >= youngest);
            uneven.max_by_key(|c| (c.age, Reverse((c.erases, c.superblock))))
        });
        if let Some(cold) = cold
            && let Some(stream) = self.stream_for_cold(&cold, most)
        {
            self.gc.victims_until_levelling = VICTIMS_PER_LEVELLING;
            // Where the host shares a superblock with collection, it must not take room meanwhile.
            let usual = victim.as_ref().filter(|_| !self.shares_superblock()).map_or(0, gain);
            self.gc.begin(cold.superblock, cold.valid, gain(&cold).max(usual / LEVELLING_PACE), stream);
            return true;
        }
        let Some(victim) = victim else { return false };
        self.gc.victims_until_levelling = self.gc.victims_until_levelling.saturating_sub(1);
        let stream = self.streams.of_relocated(&victim);
        self.gc.begin(victim.superblock, victim.valid, gain(&victim), stream);
        true
    }

    /// Whether a victim may be chosen for its wear now. It frees no more than it takes, so a superblock must be free or erased beyond the
    /// one that it takes.
    fn may_level_wear(&self) -> bool {
        let superblocks = self.flash.superblocks();
        // Where the host shares a superblock with collection, an erased one may be taken.
        let erasing = if self.shares_superblock() { 0 } else { superblocks.erasing() };
        self.gc.victims_until_levelling == 0 && superblocks.free() + erasing >= 2
    }

    /// Whether collection may write to the host's superblock.
    fn shares_superblock(&self) -> bool {
        self.streams.hosts() == 1 && (self.gc.config.together > 0 || self.policies.placement.is_some())
    }

    /// The stream that takes cold data from a superblock for its wear. `None` if the stream lacks room. `None` also if its superblocks are
    /// hardly more worn than the victim: then cold data would only change places. `most` is the highest wear of all.
    fn stream_for_cold(&mut self, cold: &Candidate, most: u32) -> Option<usize> {
        let stream = self.streams.of_cold(cold);
        let (to, superblocks) = (self.streams.get(stream), self.flash.superblocks());
        let pages = cold.valid.next_multiple_of(self.flash.geo().unit_pages);
        // Program/erase cycles, summed over the pages that are moved.
        let (mut wear, mut left) = (0, pages);
        if let Some(open) = to.superblock() {
            let here = left.min(self.flash.room_of(to));
            wear += u64::from(superblocks.get(open).erases) * u64::from(here);
            left -= here;
        }
        if left > 0 {
            let next = superblocks.most_worn_free().filter(|next| next.usable >= left)?;
            wear += u64::from(next.erases) * u64::from(left);
        }
        let middle = (u64::from(cold.erases) + u64::from(most)) * u64::from(pages);
        (2 * wear >= middle).then_some(stream)
    }

    /// Erases blocks of collected superblocks, a few dies at a time so that the others can work; all at a time if there is
    /// no other work. Whether anything was done.
    fn erase_some<S: Storage>(&mut self, now: Nanos, cx: &mut SetContext<'_, S>) -> bool {
        let most = match self.purge {
            Some(_) => self.flash.geo().dies,
            None => self.gc.background_dies(),
        };
        let mut done = false;
        loop {
            match self.flash.erase_step(now, most, cx.events) {
                EraseStep::Nothing => return done,
                EraseStep::Begun => {}
                EraseStep::Ended(superblock) => {
                    debug_assert!(!self.holds_valid_pages(superblock));
                    self.check_spare(now, cx);
                }
            }
            done = true;
        }
    }

    /// Whether a page of a superblock is valid. Looks at each.
    fn holds_valid_pages(&self, superblock: u32) -> bool {
        let pages = self.flash.geo().pages_per_superblock();
        self.valid.next(superblock * pages, (superblock + 1) * pages).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_has_its_share_of_the_oldest() {
        let of = |count: u64, percent| {
            let mut ages: Vec<u64> = (1..=count).rev().collect();
            youngest_of_oldest(&mut ages, percent)
        };
        assert_eq!([of(200, 25), of(200, 50), of(200, 99), of(200, 1)], [151, 101, 3, 199]);
        assert_eq!([of(3, 25), of(3, 34), of(1, 1), of(0, 25)], [3, 2, 1, 0]);
    }
}
