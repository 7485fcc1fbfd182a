//! Requests of the host: their pieces, one for each chunk, and where these go.

use crate::chunk::{Cblock, Oblock};
use crate::config::Mode;
use crate::policy::{Ask, Found, Work, WorkKind};
use crate::shape::Device;
use crate::state::{Act, Core, Lock, NONE, Owner, Phase, Piece, Request, Stage, Sub, Waiter};
use blockdev::stack::Done;
use blockdev::{Nanos, Operation, Status, Verb};

/// Where a piece goes.
enum Route {
    Origin,
    Cache(Cblock),
    Both(Cblock),
    /// It waits for a migration that has begun.
    Waits,
    Fail(Status),
}

/// Write Fault (NVM Command Set 4.1.2.2, media and data integrity errors).
pub(crate) const WRITE_FAULT: Status = Status(2 << 8 | 0x80);
/// Unrecovered Read Error.
const READ_ERROR: Status = Status(2 << 8 | 0x81);

impl Core {
    /// Begins a request of the host. `data` has the length of the blocks: of a write their contents, of a read room for them. It is empty
    /// with every other verb, and where contents are not kept.
    pub fn submit(&mut self, now: Nanos, tag: u32, operation: &Operation, data: Vec<u8>) {
        let request = Request {
            tag,
            operation: *operation,
            data,
            left: 0,
            whole: false,
            stage: Stage::Body,
            status: Status::SUCCESS,
        };
        let request = self.requests.insert(request);
        match self.phase {
            Phase::Running => self.begin(now, request),
            Phase::Opening(_) | Phase::Quiescing(_) | Phase::Changing(_) => self.held.push_back(request),
            Phase::Closed | Phase::Failed(_) => self.end_request(request, Status::NAMESPACE_NOT_READY),
        }
        self.work(now);
    }

    /// A request for this block comes next. Called for each of several requests before the first one begins, it lets the processor fetch what is known
    /// of their chunks at the same time.
    #[inline]
    pub fn touch(&self, lba: u64) {
        if let Some(oblock) = self.shape.oblock(lba) {
            std::hint::black_box(self.policy.find(oblock));
        }
    }

    /// The next request that has ended.
    #[inline]
    pub fn next_done(&mut self) -> Option<Done> {
        self.done.pop_front()
    }

    /// Whether a request has ended that was not [taken](Core::next_done).
    #[inline]
    pub fn has_done(&self) -> bool {
        !self.done.is_empty()
    }

    /// Requests of the host that have not ended.
    #[inline]
    pub fn outstanding(&self) -> usize {
        self.requests.len()
    }

    pub(crate) fn begin(&mut self, now: Nanos, request: u32) {
        let Some(it) = self.requests.get_mut(request) else { return };
        let Operation { verb, lba, blocks } = it.operation;
        let end = |lba: u64| lba.checked_add(blocks.into());
        let size = self.shape.geometry.blocks;
        let sources_end = if let Verb::Copy { from, .. } = verb { end(from) } else { Some(0) };
        if end(lba).is_none_or(|end| end > size) || sources_end.is_none_or(|end| end > size) {
            return self.end_request(request, Status::LBA_OUT_OF_RANGE);
        }
        match verb {
            Verb::Append | Verb::Zone(_) => self.end_request(request, Status::INVALID_OPCODE),
            Verb::Flush | Verb::ReadFua => {
                it.stage = Stage::Before;
                self.join_commit(now, Waiter::Request(request), true);
            }
            _ if blocks == 0 => self.end_request(request, Status::SUCCESS),
            Verb::Copy { from, .. } => {
                it.stage = Stage::Source;
                let bytes = u64::from(blocks) * u64::from(self.shape.geometry.block_size);
                it.data = if self.config.contents { vec![0; bytes as usize] } else { Vec::new() };
                self.split(now, request, Act::Read, from);
            }
            Verb::Read => self.split(now, request, Act::Read, lba),
            Verb::Write | Verb::WriteFua => self.split(now, request, Act::Write, lba),
            Verb::WriteZeroes { deallocate } => {
                self.split(now, request, Act::Zero { deallocate }, lba);
            }
            Verb::Trim => self.discard(request, lba, blocks),
        }
    }

    /// A request goes on after the commit that it waited for.
    pub(crate) fn committed_request(&mut self, now: Nanos, request: u32, result: Result<(), Status>) {
        let refused = self.refuses_flush();
        let Some(it) = self.requests.get_mut(request) else { return };
        let result = result.and(refused.map_or(Ok(()), Err));
        match (it.operation.verb, it.stage, result) {
            (Verb::ReadFua, Stage::Before, Ok(())) => {
                it.stage = Stage::Body;
                let lba = it.operation.lba;
                if it.operation.blocks == 0 {
                    return self.end_request(request, Status::SUCCESS);
                }
                self.split(now, request, Act::Read, lba);
            }
            (_, _, result) => self.end_request(request, result.err().unwrap_or(Status::SUCCESS)),
        }
    }

    /// Why no flush can say that everything is durable. In writeback mode the cache has it, or may have it after a restart.
    fn refuses_flush(&self) -> Option<Status> {
        let lost = self.health.cache_failed && self.policy.dirty() > 0;
        let uncertain = self.health.is_bad() && self.config.mode == Mode::Writeback;
        (lost || uncertain || self.health.origin_failed).then_some(WRITE_FAULT)
    }

    pub(crate) fn end_request(&mut self, request: u32, status: Status) {
        let Some(it) = self.requests.remove(request) else { return };
        let data = match it.operation.verb {
            Verb::Copy { .. } => Vec::new(),
            _ => it.data,
        };
        self.done.push_back(Done { tag: it.tag, status, data });
    }

    /// Marks what is deallocated. Contents of the cache stay as they are.
    fn discard(&mut self, request: u32, lba: u64, blocks: u32) {
        let unit = self.shape.discard_block / u64::from(self.shape.geometry.block_size);
        let end = lba + u64::from(blocks);
        let whole = if end == self.shape.geometry.blocks { end.div_ceil(unit) } else { end / unit };
        (lba.div_ceil(unit)..whole).for_each(|at| {
            self.discards.set(at as u32);
        });
        if !self.config.discard_passdown {
            return self.end_request(request, Status::SUCCESS);
        }
        if let Some(it) = self.requests.get_mut(request) {
            it.left = 1;
        }
        let operation = Operation { verb: Verb::Trim, lba, blocks };
        self.emit(Owner::Discard(request), Device::Origin, operation, Vec::new());
    }

    fn piece(&self, request: u32, act: Act, lba: u64, blocks: u32) -> Piece {
        let verb = self.requests.get(request).map(|it| it.operation.verb);
        let fua = act.writes() && verb.is_some_and(|verb| verb.fua());
        Piece {
            request,
            act,
            oblock: self.shape.oblock(lba),
            lba,
            blocks,
            at: 0,
            outstanding: 0,
            on_origin: false,
            on_cache: false,
            origin_failed: false,
            cache_failed: false,
            status: Status::SUCCESS,
            fua,
            loads_origin: false,
            tick: false,
            counted: false,
            unpromoted: false,
            overwrites: NONE,
            uses_chunk: false,
        }
    }

    /// Cuts a request at the chunks' ends, from this block on.
    fn split(&mut self, now: Nanos, request: u32, act: Act, first: u64) {
        let Some(it) = self.requests.get_mut(request) else { return };
        let blocks = it.operation.blocks;
        let chunk = self.shape.chunk;
        let count = (first + u64::from(blocks)).div_ceil(chunk) - first / chunk;
        (it.left, it.whole) = (count as u32, count == 1);
        let mut at = 0;
        while at < blocks {
            let lba = first + u64::from(at);
            let length = (chunk - lba % chunk).min(u64::from(blocks - at)) as u32;
            let piece = Piece { at, ..self.piece(request, act, lba, length) };
            let piece = self.pieces.insert(piece);
            self.map(now, piece);
            at += length;
        }
    }

    /// Finds where a piece goes, and sends it there.
    pub(crate) fn map(&mut self, now: Nanos, number: u32) {
        let Some(&piece) = self.pieces.get(number) else { return };
        let writes = piece.act.writes();
        let Some(oblock) = piece.oblock else { return self.send(number, Device::Origin, None, true) };
        if let Some(cell) = self.cells.get_mut(&oblock)
            && (cell.lock == Lock::All || cell.lock == Lock::Writes && writes)
        {
            return cell.waiting.push_back(number);
        }
        let route = match self.health.is_bad() {
            true => self.degraded_route(number, oblock),
            false => self.route(now, number, oblock),
        };
        if let Route::Waits = route {
            return;
        }
        if let Some(cell) = self.cells.get_mut(&oblock) {
            cell.pieces += 1;
            cell.writing += u32::from(writes);
        }
        if let Some(it) = self.pieces.get_mut(number) {
            it.uses_chunk = true;
            // Since Linux 4.12 a write to both devices is no tick; one with FUA never was.
            let counts = !(it.fua || !self.config.policy.is_inline() && matches!(route, Route::Both(_)));
            it.tick = counts && std::mem::take(&mut self.tick_wanted);
        }
        match route {
            Route::Waits => {}
            Route::Fail(status) => {
                if let Some(it) = self.pieces.get_mut(number) {
                    it.status = status;
                }
                self.end_piece(now, number);
            }
            Route::Origin => self.send(number, Device::Origin, None, true),
            Route::Cache(cblock) => self.send(number, Device::Cache, Some(cblock), true),
            Route::Both(cblock) => {
                // Counted before either can end.
                self.send(number, Device::Origin, None, false);
                self.send(number, Device::Cache, Some(cblock), true);
            }
        }
    }

    #[inline]
    fn ask(&self, piece: &Piece, oblock: Oblock) -> Ask {
        let write = piece.act.writes();
        let whole = write && u64::from(piece.blocks) == self.shape.chunk;
        let discarded = write && self.discards.get(self.shape.discard_of(oblock));
        let inline = self.config.policy.is_inline();
        let saves_copy = whole || discarded;
        let may_migrate = inline
            && self.config.mode != Mode::Passthrough
            && !piece.unpromoted
            && (discarded || self.spare_bandwidth());
        Ask {
            oblock,
            write,
            fast: saves_copy && (inline || self.config.mode == Mode::Writeback),
            discarded,
            may_migrate,
            sector: self.shape.sectors(piece.lba),
            sectors: self.shape.sectors(piece.blocks.into()),
        }
    }

    fn count(&mut self, number: u32, hit: bool) {
        let Some(piece) = self.pieces.get_mut(number) else { return };
        if std::mem::replace(&mut piece.counted, true) {
            return;
        }
        let counters = &mut self.counters;
        let counter = match (piece.act.writes(), hit) {
            (false, true) => &mut counters.read_hits,
            (false, false) => &mut counters.read_misses,
            (true, true) => &mut counters.write_hits,
            (true, false) => &mut counters.write_misses,
        };
        *counter += 1;
    }

    fn clear_discard(&mut self, oblock: Oblock) {
        self.discards.clear(self.shape.discard_of(oblock));
    }

    fn route(&mut self, now: Nanos, number: u32, oblock: Oblock) -> Route {
        let Some(&piece) = self.pieces.get(number) else { return Route::Waits };
        let ask = self.ask(&piece, oblock);
        let mode = self.config.mode;
        let found = self.policy.lookup(&ask);
        // A request that needs no copy begins nothing in the background, and what it asks for waits for something else to begin.
        self.wake |= !ask.fast && self.policy.has_work();
        match found {
            // Since Linux 4.12 the lookup counts, and before that where the request goes.
            Found::Hit(_) if mode == Mode::Passthrough && !ask.write => {
                self.count(number, !self.config.policy.is_inline());
                Route::Origin
            }
            Found::Hit(cblock) if mode == Mode::Passthrough => {
                self.count(number, !self.config.policy.is_inline());
                self.counters.demotions += 1;
                self.invalidate(now, oblock, cblock, number);
                Route::Waits
            }
            Found::Hit(cblock) => {
                self.count(number, true);
                if !ask.write {
                    return Route::Cache(cblock);
                }
                self.clear_discard(oblock);
                if mode == Mode::Writethrough && !self.policy.is_dirty(cblock) {
                    return Route::Both(cblock);
                }
                self.policy.set_dirty(cblock);
                Route::Cache(cblock)
            }
            Found::Miss => {
                self.count(number, false);
                if ask.write {
                    self.clear_discard(oblock);
                }
                Route::Origin
            }
            Found::Promote { cblock, victim } => {
                let whole = ask.write && u64::from(piece.blocks) == self.shape.chunk;
                let overwrites = mode == Mode::Writeback && whole;
                if !self.config.policy.is_inline()
                    && let Some(piece) = self.pieces.get_mut(number)
                {
                    // It is part of the promotion.
                    piece.counted = true;
                }
                self.promote(now, oblock, cblock, victim, number, overwrites);
                Route::Waits
            }
        }
    }

    /// Where a piece goes after a device failed. In writeback mode nothing is written: the cache may be back after a restart, and then what
    /// it has holds. In the other modes the origin has all that is clean, and goes on alone. Without the origin the cache can be read.
    fn degraded_route(&mut self, number: u32, oblock: Oblock) -> Route {
        let Some(&piece) = self.pieces.get(number) else { return Route::Waits };
        let writes = piece.act.writes();
        let cblock = self.policy.find(oblock);
        let origin_failed = self.health.origin_failed;
        let on_cache = cblock.is_some_and(|cblock| self.policy.is_dirty(cblock)) || origin_failed;
        let route = match cblock {
            _ if writes && (on_cache || self.config.mode == Mode::Writeback) => Route::Fail(WRITE_FAULT),
            Some(_) if on_cache && self.health.cache_failed => Route::Fail(READ_ERROR),
            Some(cblock) if on_cache => Route::Cache(cblock),
            Some(cblock) if writes => {
                self.drop_chunk(oblock, cblock);
                Route::Origin
            }
            Some(_) | None => Route::Origin,
        };
        self.count(number, matches!(route, Route::Cache(_)));
        if writes {
            self.clear_discard(oblock);
        }
        route
    }

    /// Takes a clean chunk out of the cache at once: its mapping does not outlive a session in this mode.
    fn drop_chunk(&mut self, oblock: Oblock, cblock: Cblock) {
        if self.policy.claim(cblock) {
            self.policy.finished(&Work { kind: WorkKind::Demote, oblock, cblock }, true);
            self.counters.demotions += 1;
        }
    }

    /// Sends a piece to a device. `last` says that it goes to no other one after this.
    pub(crate) fn send(&mut self, number: u32, device: Device, cblock: Option<Cblock>, last: bool) {
        let Some(piece) = self.pieces.get_mut(number) else { return };
        piece.outstanding += 1;
        match device {
            Device::Origin => piece.on_origin = true,
            Device::Cache | Device::Metadata => piece.on_cache = true,
        }
        // Since Linux 4.12 a write with FUA counts as load on the origin wherever it goes, and so does one that is all of a promotion.
        let counts = !self.config.policy.is_inline() && (piece.fua || piece.overwrites != NONE);
        if (device == Device::Origin || counts) && !std::mem::replace(&mut piece.loads_origin, true) {
            self.origin_pieces += 1;
        }
        let piece = *piece;
        let lba = match (cblock, piece.oblock) {
            (Some(cblock), Some(oblock)) => {
                self.shape.on_cache(cblock) + (piece.lba - self.shape.on_origin(oblock))
            }
            _ => piece.lba,
        };
        let verb = match piece.act {
            Act::Read => Verb::Read,
            Act::Write => Verb::Write,
            Act::Zero { deallocate } => Verb::WriteZeroes { deallocate },
        };
        let data = self.lend(&piece, last);
        let operation = Operation { verb, lba, blocks: piece.blocks };
        self.emit(Owner::Piece(number), device, operation, data);
    }

    /// The buffer of a piece: that of its request, if it is all of it and goes nowhere else.
    fn lend(&mut self, piece: &Piece, last: bool) -> Vec<u8> {
        let block = self.shape.geometry.block_size as usize;
        let Some(it) = self.requests.get_mut(piece.request) else { return Vec::new() };
        let (at, length) = (piece.at as usize * block, piece.blocks as usize * block);
        match piece.act {
            Act::Zero { .. } => Vec::new(),
            _ if !self.config.contents => Vec::new(),
            _ if it.whole && last && !it.data.is_empty() => std::mem::take(&mut it.data),
            // A device that failed may have kept the buffer.
            Act::Read => vec![0; length],
            Act::Write => it.data.get(at..at + length).map(<[u8]>::to_vec).unwrap_or_default(),
        }
    }

    /// A piece's buffer comes back.
    fn take_back(&mut self, piece: &Piece, data: Vec<u8>) {
        let block = self.shape.geometry.block_size as usize;
        let Some(it) = self.requests.get_mut(piece.request) else { return };
        if it.whole {
            if it.data.is_empty() {
                it.data = data;
            }
        } else if piece.act == Act::Read {
            let at = piece.at as usize * block;
            if let Some(part) = it.data.get_mut(at..at + data.len()) {
                part.copy_from_slice(&data);
            }
        }
    }

    /// Asks a device for something, in the tier's blocks.
    #[inline]
    pub(crate) fn emit(&mut self, owner: Owner, device: Device, operation: Operation, data: Vec<u8>) {
        let writes = !matches!(operation.verb, Verb::Read | Verb::Flush);
        match device {
            Device::Origin => self.commit.origin_unflushed |= writes,
            Device::Cache => self.commit.cache_unflushed |= writes,
            Device::Metadata => {}
        }
        let per = self.shape.per(device);
        let operation = match per {
            1 => operation,
            per => Operation { lba: operation.lba * per, blocks: operation.blocks * per as u32, ..operation },
        };
        let id = self.subs.insert(owner);
        self.out.push_back(Sub { id, device, operation, data });
    }

    /// A device has ended a piece.
    #[inline]
    pub(crate) fn piece_done(
        &mut self,
        now: Nanos,
        number: u32,
        device: Device,
        status: Status,
        data: Vec<u8>,
    ) {
        let Some(piece) = self.pieces.get_mut(number) else { return };
        assert!(piece.outstanding > 0, "a piece ends twice");
        piece.outstanding -= 1;
        let failed = !status.is_success();
        if failed {
            match device {
                Device::Origin => piece.origin_failed = true,
                Device::Cache | Device::Metadata => piece.cache_failed = true,
            }
            piece.status = status;
        }
        let ends_load = piece.outstanding == 0 && std::mem::take(&mut piece.loads_origin);
        let piece = *piece;
        self.take_back(&piece, data);
        if piece.act.writes() {
            match device {
                Device::Origin => self.commit.origin_unflushed = true,
                Device::Cache | Device::Metadata => self.commit.cache_unflushed = true,
            }
        }
        if ends_load {
            self.origin_pieces -= 1;
            self.origin_idle = now;
        }
        if piece.outstanding == 0 {
            self.end_piece(now, number);
        }
    }

    fn end_piece(&mut self, now: Nanos, number: u32) {
        let Some(piece) = self.pieces.get_mut(number) else { return };
        if std::mem::take(&mut piece.tick) {
            self.policy.tick(now);
            self.tick_wanted = true;
        }
        if let (Some(oblock), true) = (piece.oblock, piece.origin_failed || piece.cache_failed)
            && piece.overwrites == NONE
        {
            let found = self.policy.find(oblock);
            let clean = found.filter(|cblock| !self.policy.is_dirty(*cblock));
            if piece.act == Act::Read && piece.cache_failed && (found.is_none() || clean.is_some()) {
                // The origin has the same, also of a chunk that has left the cache meanwhile.
                (piece.cache_failed, piece.on_cache, piece.status) = (false, false, Status::SUCCESS);
                return self.send(number, Device::Origin, None, true);
            }
            if piece.act.writes() && piece.on_origin && piece.on_cache {
                if !piece.origin_failed {
                    piece.status = Status::SUCCESS;
                }
                // The two may differ now.
                if let Some(cblock) = clean {
                    self.invalidate_after(now, oblock, cblock);
                }
            }
        }
        let Some(&Piece { overwrites, status, .. }) = self.pieces.get(number) else { return };
        if overwrites != NONE {
            // It ends when the chunk is in the cache.
            return self.copied(now, overwrites, status);
        }
        let Some(piece) = self.pieces.remove(number) else { return };
        let migration = piece.oblock.and_then(|oblock| self.leave(oblock, piece.act.writes()));
        self.end_piece_of(now, piece.request, piece.status);
        if let Some(migration) = migration {
            self.advance(now, migration);
        }
    }

    /// A piece has left its chunk. The migration that may have waited for it, if there is one.
    fn leave(&mut self, oblock: Oblock, wrote: bool) -> Option<u32> {
        let cell = self.cells.get_mut(&oblock)?;
        assert!(
            cell.pieces >= cell.writing.max(1) && cell.writing >= u32::from(wrote),
            "{oblock:?} is left twice"
        );
        cell.pieces -= 1;
        cell.writing -= u32::from(wrote);
        cell.migration
    }

    pub(crate) fn end_piece_of(&mut self, now: Nanos, request: u32, status: Status) {
        let Some(it) = self.requests.get_mut(request) else { return };
        if it.status.is_success() {
            it.status = status;
        }
        it.left -= 1;
        if it.left > 0 {
            return;
        }
        let (status, operation) = (it.status, it.operation);
        let fua = operation.verb.fua() && operation.verb != Verb::ReadFua;
        match it.stage {
            _ if !status.is_success() => self.end_request(request, status),
            Stage::Source => {
                it.stage = Stage::Body;
                self.split(now, request, Act::Write, operation.lba);
            }
            Stage::Body if fua => {
                it.stage = Stage::After;
                self.join_commit(now, Waiter::Request(request), true);
            }
            Stage::Body | Stage::Before | Stage::After => self.end_request(request, status),
        }
    }
}
