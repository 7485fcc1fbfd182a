//! Holds smq against what the kernel's smq said: a trace of the calls between dm-cache's core and its policy.

use super::kinds::{Ask, Found, Pace, Work, WorkKind};
use super::smq::{Rules, Smq};
use crate::chunk::{Cblock, Oblock};
use blockdev::Nanos;
use std::collections::{BTreeMap, BTreeSet};

/// A tick of the kernel's clock, which `jiffies` counts, where it ticks 250 times a second (Debian's kernels).
const JIFFY: Nanos = 4_000_000;
/// `-ENOENT`, `-ENODATA`.
const MISS: i64 = -2;
const NONE: i64 = -61;

/// What a trace had, all of it the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Agreement {
    /// Policies that were made.
    pub policies: u64,
    /// Lookups, and those that were hits.
    pub lookups: u64,
    /// Hits among them.
    pub hits: u64,
    /// Migrations that began.
    pub promotions: u64,
    /// Demotions that began.
    pub demotions: u64,
    /// Write-backs that began.
    pub writebacks: u64,
    /// Ticks.
    pub ticks: u64,
}

/// One policy of the trace.
struct Traced {
    smq: Smq,
    chunks: u32,
    under_way: BTreeMap<u32, Work>,
}

/// A line of the trace: what was called, and its numbers. A number that could not be read is `None`.
struct Line<'a> {
    call: &'a str,
    numbers: Vec<Option<i64>>,
}

impl<'a> Line<'a> {
    fn parse(line: &'a str) -> Self {
        let mut words = line.split(' ');
        let call = words.next().unwrap_or_default();
        let number = |word: &str| match word.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok().map(u64::cast_signed),
            None => word.parse().ok(),
        };
        Line { call, numbers: words.map(number).collect() }
    }

    fn at(&self, index: usize) -> Option<i64> {
        self.numbers.get(index).copied().flatten()
    }

    /// A number that must be there.
    fn number<T: TryFrom<i64>>(&self, index: usize) -> Result<T, String> {
        let number = self.at(index).and_then(|number| T::try_from(number).ok());
        number.ok_or_else(|| format!("the call {} has no number {index}", self.call))
    }

    fn cblock(&self, index: usize) -> Result<Cblock, String> {
        self.number(index).map(Cblock)
    }

    fn oblock(&self, index: usize) -> Result<Oblock, String> {
        self.number(index).map(Oblock)
    }
}

/// The first answer of a trace that differs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Difference {
    /// Its line, from 0.
    pub line: usize,
    /// What differs.
    pub why: String,
    /// Lines before it with ticks that come in the very jiffy at which something is due that is done in the next one. The trace says when a
    /// tick began, and the kernel may have looked at its clock a jiffy later.
    pub edges: Vec<usize>,
}

/// Makes the calls of a trace, in its order, and compares every answer: whether a lookup is a hit, which chunk migrates next, to which
/// place, and whether there is nothing to do. The lines are those that `crates/app/tranche/tests/guest/cache.py` prints. Ticks in the lines of
/// `later` come a jiffy later than they say.
///
/// # Errors
/// The first answer that differs.
pub fn replay_policy(trace: &[&str], later: &BTreeSet<usize>) -> Result<Agreement, Difference> {
    let mut policies: BTreeMap<i64, Traced> = BTreeMap::new();
    let mut agreed = Agreement::default();
    let mut edges = Vec::new();
    for (number, text) in trace.iter().enumerate() {
        let line = Line::parse(text);
        let mut one = || -> Result<(), String> {
            let which: i64 = line.number(0)?;
            if let "new" | "new_cleaner" = line.call {
                policies.insert(which, create(&line)?);
                agreed.policies += 1;
                return Ok(());
            }
            let policy = policies.get_mut(&which).ok_or("no such policy was made")?;
            if line.call != "tick" {
                return policy.call(&line, &mut agreed);
            }
            let now = line.number::<u64>(1)? * JIFFY;
            if policy.smq.is_due_after(now) {
                edges.push(number);
            }
            policy.smq.tick(if later.contains(&number) { now + JIFFY } else { now });
            agreed.ticks += 1;
            Ok(())
        };
        if let Err(why) = one() {
            return Err(Difference { line: number, why: format!("{text:?}: {why}"), edges });
        }
    }
    Ok(agreed)
}

fn create(line: &Line<'_>) -> Result<Traced, String> {
    let rules = if line.call == "new" { Rules::Background } else { Rules::Cleaner };
    let (chunks, origin, chunk): (u32, u64, u64) = (line.number(1)?, line.number(2)?, line.number(3)?);
    let now: u64 = line.number(4)?;
    let smq = Smq::new(rules, chunks, (origin / chunk.max(1)) as u32, now * JIFFY);
    Ok(Traced { smq, chunks, under_way: BTreeMap::new() })
}

fn differs(theirs: impl std::fmt::Debug, ours: impl std::fmt::Debug) -> String {
    format!("the kernel says {theirs:?}, and the tier {ours:?}")
}

impl Traced {
    fn place(&self, cblock: Cblock) -> Result<Cblock, String> {
        if cblock.0 < self.chunks { Ok(cblock) } else { Err(format!("there is no place {}", cblock.0)) }
    }

    /// A place with a chunk.
    fn taken(&self, cblock: Cblock) -> Result<Cblock, String> {
        let cblock = self.place(cblock)?;
        if self.smq.oblock(cblock).is_some() { Ok(cblock) } else { Err("nothing is there".into()) }
    }

    fn call(&mut self, line: &Line<'_>, agreed: &mut Agreement) -> Result<(), String> {
        match line.call {
            "load" => {
                let hint = (line.number::<u8>(5)? != 0).then(|| line.number::<u16>(4)).transpose()?;
                let (oblock, cblock, dirty) = (line.oblock(1)?, line.cblock(2)?, line.number::<u8>(3)? != 0);
                if self.taken(cblock).is_ok() {
                    return Err("something is there already".into());
                }
                self.smq.load(self.place(cblock)?, oblock, dirty, hint);
            }
            "look" | "look_fast" => self.lookup(line, agreed)?,
            "work" => self.work(line, agreed)?,
            "done" => {
                let at = line.number(1)?;
                let work = self.under_way.remove(&at).ok_or("nothing is under way there")?;
                self.smq.finished(&work, line.number::<u8>(2)? != 0);
            }
            "set_dirty" => {
                let cblock = self.taken(line.cblock(1)?)?;
                self.smq.set_dirty(cblock);
            }
            "clear_dirty" => {
                // Part of a migration that ends here, or of a promotion that has ended.
                let cblock = self.place(line.cblock(1)?)?;
                if self.smq.is_dirty(cblock) && !self.under_way.contains_key(&cblock.0) {
                    return Err("it is dirty, and nothing writes it back".into());
                }
            }
            "invalidate" => {
                let cblock = self.place(line.cblock(1)?)?;
                if let Some(oblock) = self.smq.oblock(cblock)
                    && self.smq.claim(cblock)
                {
                    self.smq.finished(&Work { kind: WorkKind::Demote, oblock, cblock }, true);
                }
            }
            "allow" => self.smq.allow_promotions(line.number::<u8>(1)? != 0),
            call => return Err(format!("{call} is no call")),
        }
        Ok(())
    }

    fn lookup(&mut self, line: &Line<'_>, agreed: &mut Agreement) -> Result<(), String> {
        let (oblock, write, fast) = (line.oblock(1)?, line.number::<u8>(2)? != 0, line.call == "look_fast");
        let ask = Ask { oblock, write, fast, discarded: false, may_migrate: false, sector: 0, sectors: 0 };
        let found = self.smq.lookup(&ask);
        let theirs: i64 = line.number(3)?;
        agreed.lookups += 1;
        agreed.hits += u64::from(theirs == 0);
        // A pointer to the promotion, which is none where nothing is promoted.
        let has_work = fast && theirs == MISS && line.at(4).is_none_or(|pointer| pointer != 0);
        let promotes = if has_work { Some(line.cblock(5)?) } else { None };
        match (theirs, promotes, found) {
            (0, None, Found::Hit(_)) | (MISS, None, Found::Miss) => Ok(()),
            (MISS, Some(place), Found::Promote { cblock, victim: None }) if place == cblock => {
                self.under_way.insert(cblock.0, Work { kind: WorkKind::Promote, oblock, cblock });
                agreed.promotions += 1;
                Ok(())
            }
            _ => Err(differs((theirs, promotes), found)),
        }
    }

    fn work(&mut self, line: &Line<'_>, agreed: &mut Agreement) -> Result<(), String> {
        let pace = if line.number::<u8>(1)? != 0 { Pace::Idle } else { Pace::Busy };
        let ours = self.smq.next_work(pace);
        let theirs = match line.number::<i64>(2)? {
            NONE => None,
            _ => {
                let kind = match line.number::<u8>(3)? {
                    0 => WorkKind::Promote,
                    1 => WorkKind::Demote,
                    _ => WorkKind::WriteBack,
                };
                Some(Work { kind, oblock: line.oblock(4)?, cblock: line.cblock(5)? })
            }
        };
        if ours != theirs {
            return Err(differs(theirs, ours));
        }
        if let Some(work) = ours {
            self.under_way.insert(work.cblock.0, work);
            match work.kind {
                WorkKind::Promote => agreed.promotions += 1,
                WorkKind::Demote => agreed.demotions += 1,
                WorkKind::WriteBack => agreed.writebacks += 1,
            }
        }
        Ok(())
    }
}
