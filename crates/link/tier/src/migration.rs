//! Migrations: promotions, demotions and write-backs.
//!
//! A migration locks its chunks and waits until they are quiet. It copies, waits for the last readers of the old place, and changes the
//! mapping. What the metadata must say before a place is used again is committed before the locks are released.

use crate::chunk::{Cblock, Oblock};
use crate::config::Mode;
use crate::host::WRITE_FAULT;
use crate::metadata::table::Record;
use crate::policy::{Pace, Work, WorkKind};
use crate::shape::Device;
use crate::state::{Cell, Core, Lock, Migrating, Migration, NONE, Owner, Phase, Step, Waiter};
use blockdev::{Nanos, Operation, Status, Verb};

/// Copies of one migration that are under way together (`SPLIT_COUNT` of dm-kcopyd).
const COPIES: u32 = 8;
/// Migrations in the background that are under way together. The kernel has no such limit; here it bounds the buffers.
const MIGRATIONS: usize = 64;
const SECOND: Nanos = 1_000_000_000;

impl Core {
    /// Whether one migration more keeps to the threshold. The kernel of RHEL 7.1 asks for less than the threshold, so its default of 2048
    /// sectors never lets a chunk of 1 MiB migrate.
    pub(crate) fn spare_bandwidth(&self) -> bool {
        (self.migrating + 1) * self.shape.sectors(self.shape.chunk) < self.config.migration_threshold
    }

    /// The pace of write-backs. Since Linux 4.12 the threshold counts for them only, and may be reached.
    fn pace(&self, now: Nanos) -> Pace {
        let sectors = (self.migrating + 1) * self.shape.sectors(self.shape.chunk);
        let idle = self.origin_pieces == 0 && now > self.origin_idle + SECOND;
        match idle {
            _ if self.cleaning => Pace::All,
            true if self.config.policy.is_inline() => Pace::Idle,
            true if sectors <= self.config.migration_threshold => Pace::Idle,
            _ => Pace::Busy,
        }
    }

    /// Whether another migration may begin in the background.
    fn may_begin(&self) -> bool {
        match () {
            () if self.cleaning => {
                let sectors = (self.migrating + 1) * self.shape.sectors(self.shape.chunk);
                self.migrating == 0 || sectors <= self.config.migration_threshold
            }
            () if self.config.policy.is_inline() => self.spare_bandwidth(),
            () => self.migrations.len() < MIGRATIONS,
        }
    }

    /// Begins what is to be done in the background.
    #[inline]
    pub(crate) fn work(&mut self, now: Nanos) {
        let due = self.wake || self.config.policy.is_inline();
        if !due || self.policy.dirty() == 0 && !self.policy.has_work() {
            return;
        }
        self.begin_work(now);
    }

    fn begin_work(&mut self, now: Nanos) {
        self.wake = false;
        while matches!(self.phase, Phase::Running)
            && !self.health.is_bad()
            && !self.paused
            && self.may_begin()
        {
            let Some(work) = self.policy.next_work(self.pace(now)) else { break };
            if work.kind == WorkKind::Promote && self.config.mode == Mode::Passthrough {
                self.policy.finished(&work, false);
                continue;
            }
            let lock = if self.config.policy.is_inline() { Lock::All } else { Lock::Writes };
            self.start(now, work, lock, |_| {});
        }
    }

    /// Promotes a chunk now, for a piece that waits.
    pub(crate) fn promote(
        &mut self,
        now: Nanos,
        oblock: Oblock,
        cblock: Cblock,
        victim: Option<Oblock>,
        holder: u32,
        overwrites: bool,
    ) {
        if self.config.policy.is_inline() {
            self.counters.promotions += 1;
            self.counters.demotions += u64::from(victim.is_some());
        }
        let work = Work { kind: WorkKind::Promote, oblock, cblock };
        self.start(now, work, Lock::All, |migration| {
            migration.victim = victim;
            match overwrites {
                true => migration.overwrite = holder,
                false => migration.holder = holder,
            }
        });
    }

    /// Takes a clean chunk out of the cache for a piece that waits and then goes to the origin.
    pub(crate) fn invalidate(&mut self, now: Nanos, oblock: Oblock, cblock: Cblock, holder: u32) {
        if !self.policy.claim(cblock) {
            return self.wait_for(oblock, holder);
        }
        let work = Work { kind: WorkKind::Demote, oblock, cblock };
        self.start(now, work, Lock::All, |migration| {
            (migration.invalidate, migration.holder) = (true, holder);
        });
    }

    /// Takes a clean chunk out of the cache, whose copies may differ.
    pub(crate) fn invalidate_after(&mut self, now: Nanos, oblock: Oblock, cblock: Cblock) {
        // Where a demotion of it is under way already, that does it.
        if self.policy.claim(cblock) {
            let work = Work { kind: WorkKind::Demote, oblock, cblock };
            self.start(now, work, Lock::All, |migration| migration.invalidate = true);
        }
    }

    /// What is known of the use of a chunk.
    fn cell(&mut self, oblock: Oblock) -> &mut Cell {
        self.cells.entry(oblock).or_insert_with(|| {
            let here = self.pieces.iter().filter(|piece| piece.uses_chunk && piece.oblock == Some(oblock));
            here.fold(Cell::default(), |cell, piece| Cell {
                pieces: cell.pieces + 1,
                writing: cell.writing + u32::from(piece.act.writes()),
                ..cell
            })
        })
    }

    fn wait_for(&mut self, oblock: Oblock, piece: u32) {
        self.cell(oblock).waiting.push_back(piece);
    }

    fn start(&mut self, now: Nanos, work: Work, lock: Lock, more: impl FnOnce(&mut Migration)) {
        let mut migration = Migration {
            work,
            stage: Migrating::Quiesce,
            victim: None,
            overwrite: NONE,
            invalidate: false,
            zeroes: false,
            holder: NONE,
            copied: 0,
            copying: 0,
            status: Status::SUCCESS,
        };
        more(&mut migration);
        let (victim, holder, overwrite) = (migration.victim, migration.holder, migration.overwrite);
        // One whose data is a piece of the host counts against no threshold.
        self.migrating += u64::from(overwrite == NONE || self.config.policy.is_inline());
        let number = self.migrations.insert(migration);
        let cell = self.cell(work.oblock);
        assert_eq!(cell.migration, None, "{work:?} of a chunk that migrates already");
        (cell.lock, cell.migration) = (lock, Some(number));
        if holder != NONE {
            cell.waiting.push_front(holder);
        }
        if let Some(victim) = victim {
            let cell = self.cell(victim);
            assert_eq!(cell.migration, None, "{work:?} takes the place of a chunk that migrates already");
            (cell.lock, cell.migration) = (Lock::All, Some(number));
        }
        self.advance(now, number);
    }

    /// Whether nobody uses a chunk whom the lock excludes.
    fn is_quiet(&self, oblock: Oblock) -> bool {
        self.cells.get(&oblock).is_none_or(|cell| match cell.lock {
            Lock::All => cell.pieces == 0,
            Lock::Writes | Lock::Free => cell.writing == 0,
        })
    }

    /// A migration goes on, if what it waits for has come.
    pub(crate) fn advance(&mut self, now: Nanos, number: u32) {
        let Some(migration) = self.migrations.get(number) else { return };
        let (stage, oblock, victim) = (migration.stage, migration.work.oblock, migration.victim);
        match stage {
            Migrating::Quiesce => {
                if self.is_quiet(oblock) && victim.is_none_or(|victim| self.is_quiet(victim)) {
                    match victim {
                        Some(_) => self.evict(now, number),
                        None => self.copy(now, number),
                    }
                }
            }
            Migrating::Upgrade => {
                if self.is_quiet(oblock) {
                    self.apply(now, number);
                }
            }
            Migrating::Evict | Migrating::Copy | Migrating::Commit => {}
        }
    }

    /// Whether the mapping must not change now, because the whole table is being written.
    fn is_frozen(&mut self, number: u32) -> bool {
        let frozen = self.commit.goal.is_some() && self.commit.step != Step::Idle;
        if frozen {
            self.commit.parked.push(number);
        }
        frozen
    }

    fn evict(&mut self, now: Nanos, number: u32) {
        if self.is_frozen(number) {
            return;
        }
        let Some(migration) = self.migrations.get_mut(number) else { return };
        migration.stage = Migrating::Evict;
        let cblock = migration.work.cblock;
        self.commit.pending.push(Record::Remove(cblock));
        self.join_commit(now, Waiter::Migration(number), false);
    }

    /// Copies what needs to be copied.
    fn copy(&mut self, now: Nanos, number: u32) {
        let Some(migration) = self.migrations.get_mut(number) else { return };
        migration.stage = Migrating::Copy;
        let Work { kind, oblock, cblock } = migration.work;
        let (overwrite, invalidate, holder) = (migration.overwrite, migration.invalidate, migration.holder);
        if overwrite != NONE {
            if let Some(piece) = self.pieces.get_mut(overwrite) {
                piece.overwrites = number;
            }
            migration.copying = 1;
            self.discards.clear(self.shape.discard_of(oblock));
            return self.send_overwrite(overwrite, oblock, cblock);
        }
        let needed = match kind {
            WorkKind::Promote => true,
            WorkKind::Demote => !invalidate && self.policy.is_dirty(cblock),
            WorkKind::WriteBack => self.policy.is_dirty(cblock),
        };
        if !needed {
            self.counters.copies_avoided += 1;
            return self.upgrade(now, number);
        }
        // The rest of a discarded chunk is zeroes, and never what the place held before. The write that waits makes the chunk dirty, so that
        // the origin gets the same zeroes.
        let writes = self.pieces.get(holder).is_some_and(|piece| piece.act.writes());
        let writeback = self.config.mode == Mode::Writeback;
        if kind == WorkKind::Promote
            && writes
            && writeback
            && self.discards.get(self.shape.discard_of(oblock))
        {
            self.counters.copies_avoided += 1;
            if let Some(migration) = self.migrations.get_mut(number) {
                migration.zeroes = true;
            }
        }
        for _ in 0..COPIES {
            self.copy_more(number);
        }
    }

    fn send_overwrite(&mut self, piece: u32, oblock: Oblock, cblock: Cblock) {
        debug_assert!(self.pieces.get(piece).is_some_and(|piece| piece.oblock == Some(oblock)));
        self.send(piece, Device::Cache, Some(cblock), true);
    }

    /// Begins to copy the next part of a chunk.
    fn copy_more(&mut self, number: u32) {
        let (chunk, part) = (self.shape.chunk, self.shape.copy);
        let Some(migration) = self.migrations.get_mut(number) else { return };
        let (at, failed) = (migration.copied, !migration.status.is_success());
        if at == chunk || failed {
            return;
        }
        let blocks = part.min(chunk - at) as u32;
        migration.copied += u64::from(blocks);
        migration.copying += 1;
        let Work { kind, oblock, cblock } = migration.work;
        let (on_origin, on_cache) = (self.shape.on_origin(oblock) + at, self.shape.on_cache(cblock) + at);
        let owner = |writes| Owner::Copy { migration: number, at, blocks, writes };
        if migration.zeroes {
            let verb = Verb::WriteZeroes { deallocate: true };
            let operation = Operation { verb, lba: on_cache, blocks };
            return self.emit(owner(true), Device::Cache, operation, Vec::new());
        }
        let (device, lba) = match kind {
            WorkKind::Promote => (Device::Origin, on_origin),
            WorkKind::Demote | WorkKind::WriteBack => (Device::Cache, on_cache),
        };
        let length = match self.config.contents {
            true => blocks as usize * self.shape.geometry.block_size as usize,
            false => 0,
        };
        let operation = Operation { verb: Verb::Read, lba, blocks };
        self.emit(owner(false), device, operation, vec![0; length]);
    }

    /// A part of a chunk was read or written.
    pub(crate) fn copy_done(&mut self, now: Nanos, owner: Owner, status: Status, data: Vec<u8>) {
        let Owner::Copy { migration: number, at, blocks, writes } = owner else { return };
        let Some(migration) = self.migrations.get_mut(number) else { return };
        let Work { kind, oblock, cblock } = migration.work;
        if status.is_success() && !writes {
            let (device, lba) = match kind {
                WorkKind::Promote => (Device::Cache, self.shape.on_cache(cblock) + at),
                WorkKind::Demote | WorkKind::WriteBack => (Device::Origin, self.shape.on_origin(oblock) + at),
            };
            let operation = Operation { verb: Verb::Write, lba, blocks };
            let owner = Owner::Copy { migration: number, at, blocks, writes: true };
            return self.emit(owner, device, operation, data);
        }
        match kind {
            WorkKind::Promote => self.commit.cache_unflushed = true,
            WorkKind::Demote | WorkKind::WriteBack => {
                (self.commit.origin_unflushed, self.commit.written_back) = (true, true);
            }
        }
        self.copied(now, number, status);
    }

    /// A part of a chunk, or a piece that is all of it, was copied.
    pub(crate) fn copied(&mut self, now: Nanos, number: u32, status: Status) {
        let Some(migration) = self.migrations.get_mut(number) else { return };
        migration.copying -= 1;
        if migration.status.is_success() {
            migration.status = status;
        }
        let is_piece = migration.overwrite != NONE;
        if !is_piece {
            self.copy_more(number);
        }
        let Some(migration) = self.migrations.get(number) else { return };
        if migration.copying > 0 {
            return;
        }
        match migration.status.is_success() {
            true => self.upgrade(now, number),
            false => self.end(now, number, false),
        }
    }

    fn upgrade(&mut self, now: Nanos, number: u32) {
        let Some(migration) = self.migrations.get_mut(number) else { return };
        migration.stage = Migrating::Upgrade;
        let oblock = migration.work.oblock;
        if let Some(cell) = self.cells.get_mut(&oblock) {
            cell.lock = Lock::All;
        }
        self.advance(now, number);
    }

    /// Changes the mapping.
    fn apply(&mut self, now: Nanos, number: u32) {
        if self.is_frozen(number) {
            return;
        }
        let Some(migration) = self.migrations.get_mut(number) else { return };
        migration.stage = Migrating::Commit;
        let work = migration.work;
        let invalidate = migration.invalidate;
        let cblock = work.cblock;
        let writeback = self.config.mode == Mode::Writeback;
        let commits = match work.kind {
            WorkKind::Promote if self.health.is_bad() => return self.end(now, number, false),
            WorkKind::Promote => {
                self.commit.pending.push(Record::Insert(cblock, work.oblock));
                self.config.policy.is_inline()
            }
            WorkKind::WriteBack if writeback => false,
            WorkKind::WriteBack => {
                self.commit.pending.push(Record::Clean(cblock));
                true
            }
            WorkKind::Demote => {
                if !self.health.metadata_failed {
                    self.commit.pending.push(Record::Remove(cblock));
                }
                // Other sessions than those in writeback mode leave no clean mapping behind.
                !invalidate || writeback
            }
        };
        match commits {
            true => self.join_commit(now, Waiter::Migration(number), false),
            false => self.end(now, number, true),
        }
    }

    /// What a migration waited for is durable, or is not.
    pub(crate) fn committed_migration(&mut self, now: Nanos, number: u32, ok: bool) {
        let Some(migration) = self.migrations.get(number) else { return };
        let (stage, work, victim) = (migration.stage, migration.work, migration.victim);
        if !ok && (work.kind != WorkKind::Promote || stage == Migrating::Evict) {
            self.commit
                .pending
                .retain(|record| record.cblock() != work.cblock || matches!(record, Record::Insert(..)));
            return self.end(now, number, false);
        }
        match (stage, victim) {
            (Migrating::Evict, Some(victim)) => {
                self.policy.evict(work.cblock);
                if let Some(migration) = self.migrations.get_mut(number) {
                    migration.victim = None;
                }
                self.unlock(now, victim);
                self.copy(now, number);
            }
            _ => self.end(now, number, true),
        }
    }

    /// A migration has ended. What waited for its chunk goes on.
    fn end(&mut self, now: Nanos, number: u32, ok: bool) {
        let Some(migration) = self.migrations.remove(number) else { return };
        let Migration { work, victim, overwrite, holder, status, invalidate, .. } = migration;
        self.migrating -= u64::from(overwrite == NONE || self.config.policy.is_inline());
        self.policy.finished(&work, ok);
        if ok && overwrite != NONE {
            self.policy.set_dirty(work.cblock);
        }
        if work.kind == WorkKind::Promote && (overwrite != NONE || holder != NONE) {
            // The write that it was made for is load on the origin.
            self.origin_idle = now;
        }
        if ok {
            self.count_migration(&work);
        } else {
            self.counters.failed_migrations += 1;
            self.paused = true;
            self.cleaning_failed |= work.kind == WorkKind::WriteBack;
            match invalidate {
                true => self.fail_holder(now, work.oblock, holder),
                false => {
                    if let Some(piece) = self.pieces.get_mut(holder) {
                        piece.unpromoted = true;
                    }
                }
            }
        }
        if let Some(piece) = self.pieces.remove(overwrite) {
            let failure = if status.is_success() { Status::INTERNAL_ERROR } else { status };
            self.end_piece_of(now, piece.request, if ok { Status::SUCCESS } else { failure });
        }
        if let Some(victim) = victim {
            self.unlock(now, victim);
        }
        self.unlock(now, work.oblock);
        self.wake = true;
        self.look_at_control(now);
    }

    /// The write that a chunk should have left the cache for cannot be done.
    fn fail_holder(&mut self, now: Nanos, oblock: Oblock, holder: u32) {
        if let Some(cell) = self.cells.get_mut(&oblock) {
            cell.waiting.retain(|piece| *piece != holder);
        }
        if let Some(piece) = self.pieces.remove(holder) {
            self.end_piece_of(now, piece.request, WRITE_FAULT);
        }
    }

    fn count_migration(&mut self, work: &Work) {
        let inline = self.config.policy.is_inline();
        match work.kind {
            WorkKind::Promote if !inline => self.counters.promotions += 1,
            WorkKind::Demote if !inline && self.config.mode != Mode::Passthrough => {
                self.counters.demotions += 1;
            }
            WorkKind::WriteBack => self.counters.writebacks += 1,
            WorkKind::Promote | WorkKind::Demote => {}
        }
    }

    fn unlock(&mut self, now: Nanos, oblock: Oblock) {
        let Some(cell) = self.cells.remove(&oblock) else { return };
        for piece in cell.waiting {
            self.map(now, piece);
        }
    }
}
