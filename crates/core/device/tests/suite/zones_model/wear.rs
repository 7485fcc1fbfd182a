//! Zones that wear out while hosts work: a failed program makes one Read Only, and a set without spare blocks all, or takes them offline.

use super::{Interruption, Pending, Play, Seen, Zone, trimmed};
use crate::common::zones::*;
use nvme::Status;
use nvme::admin::{FaultInjection, FaultKind};
use nvme::zone::ZoneState;

/// Whether a zone can never be written again.
pub fn is_worn(state: ZoneState) -> bool {
    state == ZoneState::READ_ONLY || state == ZoneState::OFFLINE
}

impl Play {
    /// Programs and erases fail from now on.
    pub fn wear(&mut self) {
        self.wears = true;
        for (kind, one_in) in [(FaultKind::ERASE_FAILURE, 1), (FaultKind::PROGRAM_FAILURE, 60)] {
            let fault = FaultInjection { nsid: 0, kind, nvmsetid: 1, count: 0, one_in, param: 0, lba: None };
            self.b.admin_ok(fault, &[]);
        }
    }

    /// Zones that wore out since this was asked last.
    pub fn newly_worn(&mut self) -> Vec<(usize, usize, Seen)> {
        let mut worn = Vec::new();
        for space in 0..if self.wears { self.spaces.len() } else { 0 } {
            for (at, seen) in self.report(space).into_iter().enumerate() {
                if is_worn(seen.state) && !is_worn(self.zone(space, at).state) {
                    worn.push((space, at, seen));
                }
            }
        }
        worn
    }

    /// A zone wore out. It holds what it held, and the beginning of what was being written, also if that failed.
    pub fn mark_worn(&mut self, space: usize, at: usize, seen: Seen, under_way: &[u64]) {
        let what = format!("{}, namespace {space}, zone {at} is {:?}", self.what, seen.state);
        assert!(self.wears, "{what}");
        let old = self.zone(space, at).clone();
        self.worn += 1;
        if seen.state == ZoneState::OFFLINE {
            assert!(old.content().is_empty(), "{what}: it held something: {old:?}");
            *self.zone(space, at) = Zone { state: ZoneState::OFFLINE, ..Zone::NEW };
            return;
        }
        let holds = self.read(space, at, CAPACITY as usize);
        let content = old.content();
        match old.had_area {
            true => {
                let known = |(i, value): (usize, &u64)| {
                    content.get(i).copied().unwrap_or(0) == *value || under_way.contains(value)
                };
                assert!(holds.iter().enumerate().all(known), "{what}: {holds:?}, not {content:?}");
                assert!(holds.len() >= content.len(), "{what}: {} blocks of {}", holds.len(), content.len());
            }
            false => {
                assert_eq!(holds.get(..content.len()), Some(&content[..]), "{what}");
                assert!(under_way.starts_with(&holds[content.len()..]), "{what}: {holds:?}");
            }
        }
        let zone = self.zone(space, at);
        (zone.blocks, zone.state, zone.zrwa) = (trimmed(holds), ZoneState::READ_ONLY, false);
        zone.loose.clear();
    }

    /// A zone is offline after an interruption. It held nothing that had to be there.
    pub fn reconcile_offline(
        &mut self,
        interruption: Interruption,
        here: &[&Pending],
        (space, at): (usize, usize),
        seen: Seen,
    ) {
        let what = format!("{}, {interruption:?}, namespace {space}, zone {at}", self.what);
        for one in here {
            let done = self.b.done.get(&one.io).map(|(completion, _)| completion.status());
            let lost = matches!(interruption, Interruption::PowerCut { .. });
            assert!(
                lost || !done.is_some_and(|status| status.is_success()),
                "{what}: an acknowledged write is gone"
            );
        }
        if is_worn(self.zone(space, at).state) {
            assert_eq!(self.zone(space, at).state, ZoneState::OFFLINE, "{what}");
            return;
        }
        if let Interruption::PowerCut { energy } = interruption
            && !(energy && self.protected)
        {
            let zone = self.zone(space, at);
            zone.blocks.truncate(zone.flushed);
            zone.loose.clear();
        }
        self.mark_worn(space, at, seen, &[]);
    }

    /// A command for a zone has ended, which `reasons` may refuse, any of them, and else `does` something. Zones may have worn out
    /// meanwhile, and `under_way` may be in this one then.
    pub fn settle(
        &mut self,
        space: usize,
        zone: usize,
        status: Status,
        reasons: &[Status],
        under_way: &[u64],
        does: impl FnOnce(&mut Zone),
    ) {
        let worn = self.newly_worn();
        let it_is = worn.iter().any(|(s, z, _)| (*s, *z) == (space, zone));
        let refused = reasons.iter().any(|reason| status.is(*reason));
        let expected = if reasons.is_empty() { status.is_success() } else { refused };
        // One that wore out takes no resources any more.
        let relieved = !worn.is_empty() && status.is_success();
        let of_wear = [
            Status::ZONE_IS_READ_ONLY,
            Status::ZONE_IS_OFFLINE,
            Status::INVALID_ZONE_STATE_TRANSITION,
            Status::INVALID_ZONE_OPERATION_REQUEST,
            Status::WRITE_TO_READ_ONLY_RANGE,
        ];
        let of_wear = it_is && of_wear.iter().any(|reason| status.is(*reason));
        assert!(
            expected || relieved || of_wear,
            "{}: zone {zone}: {status}, not {reasons:?}; {:?}, worn {worn:?}",
            self.what,
            self.spaces[space].zones[zone]
        );
        if status.is_success() {
            does(self.zone(space, zone));
        }
        let failed = if status.is_success() { &[][..] } else { under_way };
        for (s, z, seen) in worn {
            self.mark_worn(s, z, seen, if (s, z) == (space, zone) { failed } else { &[] });
        }
        if status.is_success() {
            self.closed_for(space, Some(zone));
        }
    }
}
