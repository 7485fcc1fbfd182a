//! Which compaction comes next, and whether writes must wait: as RocksDB decides it (db/compaction, db/version_set.cc, db/column_family.cc).

use super::config::Config;
use super::keys::scale;
use super::table::{Levels, TableId};

/// Tables that become others.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Pick {
    pub from: usize,
    pub to: usize,
    /// Inputs with their levels.
    pub inputs: Vec<(usize, TableId)>,
    /// They only go to another level.
    pub moves: bool,
}

/// The first level below 0 that is used, and the bytes that each level should have; level 0 has none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Targets {
    pub base: usize,
    pub bytes: Vec<u64>,
}

impl Targets {
    pub fn new(config: &Config, levels: &Levels) -> Self {
        let last = levels.last();
        let multiplier = u64::from(config.multiplier.max(2));
        let mut bytes = vec![u64::MAX; last + 1];
        if !config.dynamic_levels {
            let mut target = config.level_base;
            for of in &mut bytes[1..] {
                *of = target;
                target = target.saturating_mul(multiplier);
            }
            return Targets { base: 1, bytes };
        }
        // VersionStorageInfo::CalculateBaseBytes.
        let Some(first) = (1..=last).find(|level| levels.count(*level) > 0) else {
            return Targets { base: last, bytes };
        };
        let largest = (first..=last).map(|level| levels.bytes(level)).max().unwrap_or(0);
        let least = config.level_base / multiplier;
        let mut size = largest;
        for _ in first..last {
            size /= multiplier;
        }
        let mut base = first;
        if size <= least {
            size = least + 1;
        } else {
            while base > 1 && size > config.level_base {
                base -= 1;
                size /= multiplier;
            }
            size = size.min(config.level_base);
        }
        for of in &mut bytes[base..] {
            *of = size;
            size = size.saturating_mul(multiplier);
        }
        Targets { base, bytes }
    }

    /// Bytes that compactions will have to move until every level is as it should be (`EstimateCompactionBytesNeeded`).
    pub fn pending(&self, config: &Config, levels: &Levels) -> u64 {
        let zero = levels.bytes(0);
        let much = levels.count(0) >= config.trigger as usize || zero > config.level_base;
        let mut down = if much { zero } else { 0 };
        let mut pending = down;
        if much {
            pending += levels.bytes(self.base);
        }
        for level in self.base..levels.last() {
            let size = levels.bytes(level) + down;
            down = 0;
            let target = self.bytes[level];
            if size > target {
                down = size - target;
                // What is moved meets as much more in the next level as that is larger.
                pending += down + scale(down, levels.bytes(level + 1), size);
            }
        }
        pending
    }
}

/// Compactions under way, as far as they matter for the next.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Running {
    /// From level 0 to the next.
    pub zero: bool,
    /// Within level 0.
    pub within_zero: bool,
}

/// The next compaction, if any level wants one that meets no other.
pub(super) fn pick(config: &Config, levels: &Levels, targets: &Targets, running: Running) -> Option<Pick> {
    let score = |level: usize| -> u64 {
        if level == 0 {
            let idle = levels.zero.iter().filter(|id| !levels.table(**id).busy).count() as u64;
            let by_count = scale(1000, idle, config.trigger.into());
            return by_count.max(scale(1000, levels.idle_bytes(0), config.level_base));
        }
        if level < targets.base { 0 } else { scale(1000, levels.idle_bytes(level), targets.bytes[level]) }
    };
    let mut order: Vec<(u64, usize)> = (0..levels.last()).map(|level| (score(level), level)).collect();
    order.sort_by_key(|(score, level)| (std::cmp::Reverse(*score), *level));
    for (score, level) in order {
        if score < 1000 {
            break;
        }
        let found = if level == 0 {
            of_zero(config, levels, targets, running)
        } else {
            of_level(config, levels, level)
        };
        if found.is_some() {
            return found;
        }
    }
    None
}

/// Bytes of a compaction that is not made larger.
fn most(config: &Config) -> u64 {
    config.table * u64::from(config.compaction_tables)
}

fn of_zero(config: &Config, levels: &Levels, targets: &Targets, running: Running) -> Option<Pick> {
    let below = levels.sorted(targets.base);
    let free = !running.zero && !running.within_zero && below.iter().all(|id| !levels.table(*id).busy);
    if free {
        let zero = levels.zero.iter().map(|id| (0, *id));
        let inputs = zero.chain(below.iter().map(|id| (targets.base, *id))).collect();
        return Some(Pick { from: 0, to: targets.base, inputs, moves: false });
    }
    within_zero(config, levels, running)
}

/// `PickIntraL0Compaction`: the newest tables, as long as each makes the work for a table that goes away less.
fn within_zero(config: &Config, levels: &Levels, running: Running) -> Option<Pick> {
    const MIN_TABLES: usize = 4;
    if running.within_zero || levels.count(0) < config.trigger as usize + 2 {
        return None;
    }
    let (mut bytes, mut each, mut count) = (0, u64::MAX, 0usize);
    for id in &levels.zero {
        let table = levels.table(*id);
        if table.busy {
            break;
        }
        let more = bytes + table.bytes;
        let per_gone = more / (count as u64).max(1);
        if per_gone > each || more > most(config) {
            break;
        }
        (bytes, count) = (more, count + 1);
        if count > 1 {
            each = per_gone;
        }
    }
    (count >= MIN_TABLES).then(|| Pick {
        from: 0,
        to: 0,
        inputs: levels.zero.iter().take(count).map(|id| (0, *id)).collect(),
        moves: false,
    })
}

fn of_level(config: &Config, levels: &Levels, level: usize) -> Option<Pick> {
    // kMinOverlappingRatio: the table that meets least in the next level.
    let (first, _) = levels.overlap_ratios(level).min_by_key(|(_, ratio)| *ratio)?;
    let segment = levels.table(first).segment;
    let next = level + 1;
    let below = levels.overlap(next, segment.from, segment.to).to_vec();
    let mut above = vec![first];
    // More tables of this level, as long as no more of the next come with them.
    let mut all = below.clone();
    all.push(first);
    let (from, to) = levels.range(&all);
    let wider = levels.overlap(level, from, to);
    let fits = levels.sum(wider) + levels.sum(&below) < most(config);
    if !below.is_empty() && wider.len() > 1 && fits && wider.iter().all(|id| !levels.table(*id).busy) {
        let (from, to) = levels.range(wider);
        if levels.overlap(next, from, to).len() == below.len() {
            above = wider.to_vec();
        } else {
            // Those that reach no further.
            let (from, to) = levels.range(&below);
            let inside = |id: &&TableId| {
                let segment = levels.table(**id).segment;
                **id == first || (segment.from >= from && segment.to <= to)
            };
            above = wider.iter().filter(inside).copied().collect();
        }
    }
    let grandparents =
        if next < levels.last() { levels.sum(levels.overlap(next + 1, segment.from, segment.to)) } else { 0 };
    let moves = below.is_empty() && grandparents <= most(config);
    let inputs = above.into_iter().map(|id| (level, id)).chain(below.into_iter().map(|id| (next, id)));
    Some(Pick { from: level, to: next, inputs: inputs.collect(), moves })
}

/// Whether writes go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stall {
    None,
    Slowed {
        /// It is nearly stopped.
        near: bool,
    },
    /// By memtables, level 0, or what compaction is behind.
    Stopped(usize),
}

/// `GetWriteStallConditionAndCause`.
pub(super) fn stall(config: &Config, levels: &Levels, pending: u64, full: usize) -> Stall {
    let zero = levels.count(0);
    if full >= config.write_buffers as usize {
        return Stall::Stopped(0);
    }
    if zero >= config.stop as usize {
        return Stall::Stopped(1);
    }
    if pending >= config.hard_pending {
        return Stall::Stopped(2);
    }
    if zero >= config.slowdown as usize {
        return Stall::Slowed { near: zero + 2 >= config.stop as usize };
    }
    if pending >= config.soft_pending {
        let near = config.hard_pending - (config.hard_pending - config.soft_pending) / 4;
        return Stall::Slowed { near: pending > near };
    }
    Stall::None
}

/// Whether there may be more than one compaction at a time (`WriteController::NeedSpeedupCompaction`).
pub(super) fn hurry(config: &Config, levels: &Levels, pending: u64, stall: Stall) -> bool {
    let (trigger, slowdown) = (u64::from(config.trigger), u64::from(config.slowdown));
    let threshold = (2 * trigger).min(trigger + slowdown.saturating_sub(trigger) / 4);
    stall != Stall::None || levels.count(0) as u64 >= threshold || pending >= config.soft_pending / 4
}
