//! Zones with a Zone Random Write Area: what hosts do with them, and what must be in them after an interruption.

use super::{Interruption, Pending, Play, Seen, Zone, data_of, trimmed};
use crate::common::zones::*;
use nvme::io::Blocks;
use nvme::zone::{ZoneManagementSend, ZoneSendAction, ZoneState};
use nvme::{IoCommand, Status};

impl Zone {
    /// What it holds, as a read sees it.
    pub fn content(&self) -> Vec<u64> {
        let mut content = self.blocks.clone();
        for (&at, &value) in &self.loose {
            content.resize(content.len().max(at + 1), 0);
            content[at] = value;
        }
        trimmed(content)
    }

    /// The write pointer moves. What was never written reads as zeros from then on.
    pub fn commit(&mut self, end: usize) {
        while self.blocks.len() < end {
            let at = self.blocks.len();
            self.blocks.push(self.loose.remove(&at).unwrap_or(0));
        }
    }

    /// Everything in the area is committed, and the zone has none any more.
    pub fn end_area(&mut self) {
        if let Some((&last, _)) = self.loose.last_key_value() {
            self.commit(last + 1);
        }
        self.zrwa = false;
    }

    /// Where the write pointer is after a write to the area, if the write can be.
    pub fn pointer_after(&self, at: usize, count: usize) -> Option<usize> {
        let (pointer, area, end) = (self.blocks.len(), AREA as usize, at + count);
        if at < pointer || end > pointer + 2 * area {
            return None;
        }
        let behind = end.saturating_sub(pointer + area);
        Some(pointer + behind.next_multiple_of(GRANULARITY as usize))
    }

    /// Blocks are written to the area.
    pub fn put(&mut self, at: usize, values: &[u64]) {
        let pointer = self.pointer_after(at, values.len()).expect("the write is one that can be");
        self.loose.extend((at..).zip(values.iter().copied()));
        self.commit(pointer);
    }
}

impl Play {
    /// A place for a write to the area of a zone, and how many blocks. Most are possible.
    pub fn place_in_area(&mut self, zone: &Zone) -> (usize, usize) {
        let reach = if self.rng.below(12) == 0 { 3 * AREA } else { 2 * AREA - 8 };
        let at = zone.blocks.len() + self.rng.below(reach) as usize;
        let back = if self.rng.below(12) == 0 { self.rng.below(4) as usize } else { 0 };
        (at.saturating_sub(back), 1 + self.rng.below(8) as usize)
    }

    /// A host gives a zone an area, moves its write pointer, or writes in it.
    pub fn area_one(&mut self) {
        let (host, space, zone) = self.pick();
        let now = self.zone(space, zone).clone();
        match self.rng.below(8) {
            0..2 => self.open_with_area(host, space, zone, &now),
            2..4 => self.commit_one(host, space, zone, &now),
            _ if now.zrwa => self.write_in_area(host, space, zone, &now),
            _ => {}
        }
    }

    fn open_with_area(&mut self, host: usize, space: usize, zone: usize, now: &Zone) {
        let start = zone as u64 * SIZE;
        let send = ZoneManagementSend { zrwa: true, ..self.send_command(space, ZoneSendAction::OPEN, start) };
        let status = self.b.on(self.hosts[host], 1, &send.into(), &[]).0.status();
        let areas = self.spaces[space].areas;
        let taken = self.spaces[space].zones.iter().filter(|zone| zone.zrwa).count();
        let mut reasons: Vec<Status> = self.refuses(space, zone, ZoneSendAction::OPEN).into_iter().collect();
        if areas == 0 {
            reasons = vec![Status::INVALID_FIELD];
        } else if !now.zrwa && now.state != ZoneState::EMPTY {
            reasons.push(Status::INVALID_ZONE_OPERATION_REQUEST);
        } else if !now.zrwa && taken == areas {
            reasons.push(Status::ZRWA_RESOURCES_UNAVAILABLE);
        }
        self.settle(space, zone, status, &reasons, &[], |zone| {
            (zone.state, zone.zrwa, zone.had_area) = (ZoneState::EXPLICITLY_OPENED, true, true);
        });
    }

    fn commit_one(&mut self, host: usize, space: usize, zone: usize, now: &Zone) {
        let pointer = now.blocks.len();
        let end = match self.rng.below(6) {
            0 => 1 + self.rng.below(CAPACITY) as usize,
            _ => pointer + (GRANULARITY * (1 + self.rng.below(AREA / GRANULARITY))) as usize,
        };
        let lba = zone as u64 * SIZE + end as u64 - 1;
        let send = self.send_command(space, ZoneSendAction::FLUSH_ZRWA, lba);
        let status = self.b.on(self.hosts[host], 1, &send.into(), &[]).0.status();
        let mut reasons: Vec<Status> = self.cannot_open(space, zone).into_iter().collect();
        let possible = now.zrwa
            && (pointer + 1..=(pointer + AREA as usize).min(CAPACITY as usize)).contains(&end)
            && (end - pointer).is_multiple_of(GRANULARITY as usize);
        if self.spaces[space].areas == 0 {
            reasons = vec![Status::INVALID_FIELD];
        } else if !possible {
            reasons.push(Status::INVALID_ZONE_OPERATION_REQUEST);
        }
        self.settle(space, zone, status, &reasons, &[], |zone| {
            zone.commit(end);
            zone.is_written();
        });
    }

    fn write_in_area(&mut self, host: usize, space: usize, zone: usize, now: &Zone) {
        let (at, count) = self.place_in_area(now);
        let values = self.values(count);
        let append = self.rng.below(12) == 0;
        let io = self.submit(host, space, zone, append, at, &values);
        let status = self.b.wait(io).0.status();
        let mut reasons: Vec<Status> = self.cannot_open(space, zone).into_iter().collect();
        if append {
            reasons.push(Status::INVALID_ZONE_OPERATION_REQUEST);
        }
        if now.pointer_after(at, count).is_none() {
            reasons.push(Status::ZONE_INVALID_WRITE);
        }
        if at + count > CAPACITY as usize {
            reasons.push(Status::ZONE_BOUNDARY_ERROR);
        }
        self.settle(space, zone, status, &reasons, &values, |zone| {
            zone.put(at, &values);
            zone.is_written();
        });
    }

    /// A write to the area of a zone that something interrupts.
    pub fn submit_to_area(&mut self, host: usize, space: usize, zone: usize) -> Pending {
        let now = self.zone(space, zone).clone();
        let (at, count) = self.place_in_area(&now);
        let values = self.values(count);
        let command = IoCommand::Write(Blocks::new(
            self.spaces[space].nsid,
            zone as u64 * SIZE + at as u64,
            count as u32,
        ));
        let io = self.b.submit(self.hosts[host], 1, &command.into(), &data_of(&values));
        Pending { io, host, space, zone, append: false, at, values }
    }

    /// What a zone holds that was opened with an area since its last reset: each block is as before, or as the write under way made it.
    pub fn reconcile_area(
        &mut self,
        interruption: Interruption,
        here: Option<&Pending>,
        (space, at): (usize, usize),
        seen: Seen,
    ) {
        let what = format!("{}, {interruption:?}, namespace {space}, zone {at} with an area", self.what);
        let cut = matches!(interruption, Interruption::PowerCut { .. });
        let lost = interruption == Interruption::PowerCut { energy: false };
        let old = self.zone(space, at).clone();
        let possible = |one: &&Pending| {
            old.zrwa
                && old.pointer_after(one.at, one.values.len()).is_some()
                && one.at + one.values.len() <= CAPACITY as usize
        };
        let mut new = old.clone();
        if let Some(one) = here.filter(possible) {
            new.put(one.at, &one.values);
        }
        let acknowledged = here.is_some_and(|one| {
            self.b.done.get(&one.io).is_some_and(|(completion, _)| completion.status().is_success())
        });
        let holds = self.read(space, at, CAPACITY as usize);
        let (before, after) = (old.content(), new.content());
        let pointer = seen.pointer.unwrap_or(holds.len());
        let value = |of: &[u64], i: usize| of.get(i).copied().unwrap_or(0);
        for i in 0..CAPACITY as usize {
            let is = value(&holds, i);
            let known = is == value(&after, i) || (!acknowledged && is == value(&before, i));
            // Without the capacitors the area is lost, and with it what was not on flash.
            let gone = lost && is == 0 && (seen.pointer.is_none() || i >= pointer);
            assert!(
                known || gone,
                "{what}: block {i} holds {is}, not {} or {}",
                value(&before, i),
                value(&after, i)
            );
        }
        if let (Some(pointer), false) = (seen.pointer, seen.state == ZoneState::FULL) {
            let is = pointer == new.blocks.len() || (!acknowledged && pointer == old.blocks.len());
            assert!(is || (lost && pointer <= new.blocks.len()), "{what}: write pointer {pointer}");
        }
        let worn = self.wears && seen.state == ZoneState::READ_ONLY;
        let zone = self.zone(space, at);
        zone.blocks = (0..pointer).map(|i| value(&holds, i)).collect();
        zone.loose = (pointer..holds.len()).map(|i| (i, holds[i])).filter(|(_, value)| *value != 0).collect();
        if cut {
            let expected = match old.is_active() {
                true if pointer == CAPACITY as usize => ZoneState::FULL,
                true if pointer == 0 && zone.loose.is_empty() && !zone.extended => ZoneState::EMPTY,
                true => ZoneState::CLOSED,
                false => old.state,
            };
            let fell = lost && old.state == ZoneState::FULL;
            assert!(
                seen.state == expected || fell || worn,
                "{what}: {:?} became {:?}",
                old.state,
                seen.state
            );
        } else if here.is_none() {
            let closed = old.state == ZoneState::IMPLICITLY_OPENED && seen.state == ZoneState::CLOSED;
            assert!(
                seen.state == old.state || closed || worn,
                "{what}: {:?} became {:?}",
                old.state,
                seen.state
            );
        }
        zone.state = seen.state;
        assert_eq!(seen.zrwa, old.zrwa && zone.is_active(), "{what}: has it an area?");
        zone.zrwa = seen.zrwa;
        zone.had_area = zone.state != ZoneState::EMPTY;
        zone.flushed = 0;
    }
}
