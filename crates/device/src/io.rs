//! Commands of I/O queues (NVM 3.3).

use crate::contents::Contents;
use crate::core::{CommandKind, ControllerId, Cx, Failure, Output, Token, Turn};
use crate::drive::Drive;
use crate::fdp;
use crate::streams;
use crate::treatment::Action;
use ftl::{Answer, Extent, Source, VolumeId};
use media::Nanos;
use nvme::io::{Blocks, DatasetManagement, DsmRange};
use nvme::zerocopy::FromBytes;
use nvme::{IoCommand, NSID_ALL, Status};

/// What one Dataset Management deallocates: this many ranges (DMRL), and this many logical blocks of each (DMRSL) and of all
/// (DMSL). So that no command holds up the drive for long.
pub(crate) const DSM_RANGES: u8 = 255;
pub(crate) const DSM_BLOCKS: u32 = 4 << 20;

/// Where a command's blocks are, after every check.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub volume: VolumeId,
    pub extent: Extent,
    /// Whether the blocks are more than plain bytes: see [`Drive::treat`].
    pub treated: bool,
    /// Bytes of metadata that travel with all of the blocks.
    metadata: u32,
    /// Placement handle of what is written.
    pub handle: u8,
}

impl Drive {
    /// Executes a command of an I/O queue, now or when its turn comes.
    #[inline]
    pub(crate) fn submit_io<S: Contents>(
        &mut self,
        token: Token,
        id: ControllerId,
        command: &IoCommand,
        data: &[u8],
        cx: &mut Cx<'_, S>,
    ) {
        match self.core.arbitrate(&token, id, command, data, cx.now) {
            Turn::Now => self.execute_io(token, command, data, cx),
            Turn::Held => {
                token.park();
            }
        }
    }

    /// Executes a command whose turn has come.
    #[inline]
    pub(crate) fn execute_io<S: Contents>(
        &mut self,
        token: Token,
        command: &IoCommand,
        data: &[u8],
        cx: &mut Cx<'_, S>,
    ) {
        let entry = self.core.commands.get_mut(&token);
        if entry.fused
            && let IoCommand::Write(blocks) = command
        {
            return self.execute_pair(token, blocks, cx);
        }
        let (id, opcode, nsid) = (ControllerId(entry.controller), entry.opcode, entry.nsid);
        if let Err(failure) = self.core.check_reservation(id, opcode, nsid) {
            return self.core.fail(token, failure, cx);
        }
        let result = match command {
            IoCommand::Read(blocks) => self.read(&token, id, blocks, cx),
            IoCommand::Write(blocks) => self.write(&token, id, blocks, cx),
            IoCommand::Flush { nsid } => self.flush(&token, id, *nsid, cx),
            IoCommand::WriteZeroes(blocks) => self.write_zeroes(&token, id, blocks, cx),
            IoCommand::Compare(blocks) => self.compare(&token, id, blocks, cx),
            IoCommand::Verify(blocks) => self.verify(&token, id, blocks, cx),
            IoCommand::DatasetManagement(dsm) => self.dataset_management(&token, id, *dsm, data, cx),
            IoCommand::ReservationRegister(_)
            | IoCommand::ReservationReport(_)
            | IoCommand::ReservationAcquire(_)
            | IoCommand::ReservationRelease(_) => {
                self.reservations.execute(&mut self.core, &token, id, *command, data, cx)
            }
            IoCommand::IoManagementReceive(c) => fdp::receive(&self.core, id, *c).map(|bytes| {
                cx.out.push(Output::Data { io: token.io(), bytes });
                Some(cx.now)
            }),
            IoCommand::IoManagementSend(c) => fdp::send(&mut self.core, id, *c, data, cx).map(Some),
            IoCommand::Fabrics(command) => return self.fabrics(token, id, *command, cx),
            IoCommand::WriteUncorrectable(blocks) => self.write_uncorrectable(&token, id, blocks, cx),
            IoCommand::Copy(copy) => self.copy(&token, id, copy, data, cx),
        };
        match result {
            Ok(Some(at)) => self.core.schedule(token, at, cx),
            // The translation layer brings it back.
            Ok(None) => {
                token.park();
            }
            Err(failure) => self.core.fail(token, failure, cx),
        }
    }

    /// The checks that all commands on blocks share: namespace, range, fields that only mean something
    /// with what this drive does not have.
    #[inline]
    pub(crate) fn place(
        &mut self,
        token: &Token,
        id: ControllerId,
        b: &Blocks,
        kind: CommandKind,
    ) -> Result<Place, Failure> {
        let ns = self.core.attached(id, b.nsid)?;
        let (shift, blocks, volume, layout) = (ns.shift, ns.blocks(), ns.volume, ns.layout);
        let handle = ns.handle(0).unwrap_or(0);
        let entry = self.core.commands.get_mut(token);
        entry.lba = b.slba;
        entry.kind = kind;
        let end = b.end().filter(|end| *end <= blocks).ok_or(Failure {
            // Bytes 40 to 47: the starting LBA.
            location: 40,
            ..Status::LBA_OUT_OF_RANGE.into()
        })?;
        debug_assert!(end >= b.slba);
        let bytes = b.nlb << shift;
        entry.bytes = bytes;
        if (b.prinfo.into_bits() != 0 || b.stc) && layout.protection.is_none() {
            return Err(Failure { location: 51, ..Status::INVALID_PROTECTION_INFORMATION.into() });
        }
        if b.cetype != 0 {
            return Err(Failure::field(50));
        }
        let metadata = u32::from(layout.wire(b.prinfo.pract())) * b.nlb;
        let extent = Extent { start: b.slba << shift, bytes };
        Ok(Place { volume, extent, treated: layout.treated, metadata, handle })
    }

    /// Commands that move data between host and controller: MDTS.
    #[inline]
    pub(crate) fn check_size(&self, place: &Place) -> Result<(), Failure> {
        // Metadata counts, as it lies between the data.
        if place.extent.bytes.saturating_add(place.metadata) > self.core.config.max_transfer {
            return Err(Failure::field(48));
        }
        Ok(())
    }

    #[inline]
    fn read<S: Contents>(
        &mut self,
        token: &Token,
        id: ControllerId,
        blocks: &Blocks,
        cx: &mut Cx<'_, S>,
    ) -> Result<Option<Nanos>, Failure> {
        let place = self.place(token, id, blocks, CommandKind::Read)?;
        self.check_size(&place)?;
        if place.treated {
            self.treat(token, id, blocks, Action::Read, cx)?;
        }
        self.core.enter(token);
        let end = self.core.ftl.read(cx.now, token.io(), place.volume, place.extent, cx.storage);
        let end = end.map_err(|fault| self.read_failure(token, fault, CommandKind::Read, cx))?;
        if blocks.fua { self.make_durable(token, end, cx) } else { Ok(Some(end)) }
    }

    /// Brings everything that was accepted so far to non-volatile media before the command, which has come as far as
    /// `end`, completes: a Flush, or a read with FUA (NVM 3.2.4), which returns what is there.
    fn make_durable<S: Contents>(
        &mut self,
        token: &Token,
        end: Nanos,
        cx: &mut Cx<'_, S>,
    ) -> Result<Option<Nanos>, Failure> {
        self.core.commands.get_mut(token).sync = true;
        match self.core.ftl.flush(cx.now, token.io(), cx.storage) {
            Answer::At(at) => Ok(Some(at.max(end))),
            Answer::Later => {
                let entry = self.core.commands.get_mut(token);
                (entry.parts, entry.at) = (1, end);
                Ok(None)
            }
            Answer::Failed(fault) => Err(Failure::of_fault(fault, CommandKind::Write)),
        }
    }

    fn compare<S: Contents>(
        &mut self,
        token: &Token,
        id: ControllerId,
        blocks: &Blocks,
        cx: &mut Cx<'_, S>,
    ) -> Result<Option<Nanos>, Failure> {
        let place = self.place(token, id, blocks, CommandKind::Compare)?;
        self.check_size(&place)?;
        if place.treated {
            self.treat(token, id, blocks, Action::Compare, cx)?;
        }
        self.core.enter(token);
        let end = self.core.ftl.compare(cx.now, token.io(), place.volume, place.extent, cx.storage);
        end.map(Some).map_err(|fault| self.read_failure(token, fault, CommandKind::Compare, cx))
    }

    fn verify<S: Contents>(
        &mut self,
        token: &Token,
        id: ControllerId,
        blocks: &Blocks,
        cx: &mut Cx<'_, S>,
    ) -> Result<Option<Nanos>, Failure> {
        let place = self.place(token, id, blocks, CommandKind::Other)?;
        if place.treated {
            self.treat(token, id, blocks, Action::Verify, cx)?;
        }
        self.core.enter(token);
        let end = match place.treated {
            // What they hold is to be looked at.
            true => self.core.ftl.read(cx.now, token.io(), place.volume, place.extent, cx.storage),
            false => self.core.ftl.verify(cx.now, token.io(), place.volume, place.extent, cx.storage),
        };
        end.map(Some).map_err(|fault| self.read_failure(token, fault, CommandKind::Other, cx))
    }

    /// Whether a write must be durable before it completes: FUA, or a volatile write cache that is off.
    #[inline]
    pub(crate) fn must_be_durable(&self, id: ControllerId, fua: bool) -> bool {
        let cache_off = || {
            self.core.config.has_volatile_write_cache()
                && self.core.controllers.get(id).is_some_and(|c| !c.values.write_cache)
        };
        fua || cache_off()
    }

    #[inline]
    fn write<S: Contents>(
        &mut self,
        token: &Token,
        id: ControllerId,
        blocks: &Blocks,
        cx: &mut Cx<'_, S>,
    ) -> Result<Option<Nanos>, Failure> {
        let place = self.prepare_write(token, id, blocks, cx)?;
        self.store(token, id, place, Source::Host, blocks.fua, cx)
    }

    /// Everything of a Write but the writing.
    #[inline]
    pub(crate) fn prepare_write<S: Contents>(
        &mut self,
        token: &Token,
        id: ControllerId,
        blocks: &Blocks,
        cx: &mut Cx<'_, S>,
    ) -> Result<Place, Failure> {
        let mut place = self.place(token, id, blocks, CommandKind::Write)?;
        self.check_size(&place)?;
        if blocks.dtype != 0 {
            place.handle = self.directed(id, blocks, cx.now)?;
        }
        if place.treated {
            self.treat(token, id, blocks, Action::Write, cx)?;
        }
        Ok(place)
    }

    /// The placement handle that a directive of a write asks for.
    fn directed(&mut self, id: ControllerId, blocks: &Blocks, now: Nanos) -> Result<u8, Failure> {
        match blocks.dtype {
            nvme::fdp::DATA_PLACEMENT => {
                fdp::place_by_identifier(&mut self.core, blocks.nsid, blocks.dspec, now)
            }
            1 => streams::place_by_stream(&mut self.core, id, blocks.nsid, blocks.dspec),
            _ => Err(Failure::field(50)),
        }
    }

    /// Hands a range to the translation layer to be written, as one part of a command.
    #[inline]
    pub(crate) fn store<S: Contents>(
        &mut self,
        token: &Token,
        id: ControllerId,
        place: Place,
        source: Source,
        fua: bool,
        cx: &mut Cx<'_, S>,
    ) -> Result<Option<Nanos>, Failure> {
        self.core.enter(token);
        self.store_entered(token, id, place, source, fua, cx)
    }

    /// The same for a command that counts as one of its namespace's already.
    #[inline]
    pub(crate) fn store_entered<S: Contents>(
        &mut self,
        token: &Token,
        id: ControllerId,
        place: Place,
        source: Source,
        fua: bool,
        cx: &mut Cx<'_, S>,
    ) -> Result<Option<Nanos>, Failure> {
        let durable = self.must_be_durable(id, fua);
        self.core.commands.get_mut(token).sync |= durable;
        let Place { volume, extent, handle, .. } = place;
        let answer = self.core.ftl.write_placed(
            cx.now,
            token.io(),
            volume,
            extent,
            source,
            durable,
            handle,
            cx.storage,
        );
        match answer {
            Answer::At(at) => Ok(Some(at)),
            Answer::Later => {
                let entry = self.core.commands.get_mut(token);
                entry.parts = 1;
                entry.stalled = !durable;
                Ok(None)
            }
            Answer::Failed(fault) => Err(Failure::of_fault(fault, CommandKind::Write)),
        }
    }

    /// Write Zeroes. With DEAC the pages that lie wholly in the range are deallocated, which reads as
    /// zeros too; what remains at the ends is written.
    fn write_zeroes<S: Contents>(
        &mut self,
        token: &Token,
        id: ControllerId,
        blocks: &Blocks,
        cx: &mut Cx<'_, S>,
    ) -> Result<Option<Nanos>, Failure> {
        if blocks.nsz {
            return Err(Failure::field(50));
        }
        let mut place = self.place(token, id, blocks, CommandKind::Other)?;
        if blocks.dtype != 0 {
            place.handle = self.directed(id, blocks, cx.now)?;
        }
        if place.treated {
            self.treat(token, id, blocks, Action::Zeroes, cx)?;
        }
        let page = u64::from(ftl::PAGE);
        let Place { volume, extent, handle, .. } = place;
        let end = extent.start + u64::from(extent.bytes);
        let (first, last) = (extent.start.next_multiple_of(page), end / page * page);
        if !blocks.deac || first >= last {
            return self.store(token, id, place, Source::Zeros, blocks.fua, cx);
        }
        self.core.enter(token);
        let durable = self.must_be_durable(id, blocks.fua);
        self.refuse_read_only(blocks.nsid)?;
        let entry = self.core.commands.get_mut(token);
        entry.sync = durable;
        entry.kind = CommandKind::Deallocate;
        let as_failure = |fault| Failure::of_fault(fault, CommandKind::Write);
        let mut at =
            self.core.ftl.trim(cx.now, volume, first, last - first, cx.storage).map_err(as_failure)?;
        let mut parts = 0;
        for (from, to) in [(extent.start, first), (last, end)] {
            // Less than a page, and so many bytes behind the command's first block: its place is part of how it is treated.
            let (part, host) = (Extent { start: from, bytes: (to - from) as u32 }, from - extent.start);
            if part.bytes == 0 {
                continue;
            }
            match self.core.ftl.write_part(
                cx.now,
                token.io(),
                volume,
                part,
                host as u32,
                Source::Zeros,
                durable,
                handle,
                cx.storage,
            ) {
                Answer::At(end) => at = at.max(end),
                Answer::Later => parts += 1,
                // The other end may still be under way: the command ends with it.
                Answer::Failed(fault) if parts > 0 => self.core.note_failure(token, as_failure(fault)),
                Answer::Failed(fault) => return Err(as_failure(fault)),
            }
        }
        let entry = self.core.commands.get_mut(token);
        entry.parts = parts;
        entry.at = at;
        Ok((parts == 0).then_some(at))
    }

    /// A set that can only be read keeps what it has.
    pub(crate) fn refuse_read_only(&self, nsid: u32) -> Result<(), Failure> {
        match self.core.namespaces.get(nsid) {
            Some(ns) if self.core.is_read_only(ns.set) => Err(Status::WRITE_TO_READ_ONLY_RANGE.into()),
            _ => Ok(()),
        }
    }

    /// Dataset Management: every range is checked before any is deallocated.
    fn dataset_management<S: Contents>(
        &mut self,
        token: &Token,
        id: ControllerId,
        dsm: DatasetManagement,
        data: &[u8],
        cx: &mut Cx<'_, S>,
    ) -> Result<Option<Nanos>, Failure> {
        let ns = self.core.attached(id, dsm.nsid)?;
        let (shift, blocks, volume) = (ns.shift, ns.blocks(), ns.volume);
        let ranges = <[DsmRange]>::ref_from_bytes(data).ok().and_then(|all| all.get(..usize::from(dsm.nr)));
        let ranges = ranges.ok_or(Status::DATA_SGL_LENGTH_INVALID)?;
        for range in ranges {
            let end = range.slba.get().checked_add(range.lengthlb.get().into());
            if end.is_none_or(|end| end > blocks) {
                self.core.commands.get_mut(token).lba = range.slba.get();
                return Err(Status::LBA_OUT_OF_RANGE.into());
            }
        }
        self.core.enter(token);
        let mut at = cx.now;
        if dsm.ad {
            self.core.commands.get_mut(token).kind = CommandKind::Deallocate;
            self.refuse_read_only(dsm.nsid)?;
            // What is beyond the limits stays, and is no mistake (NVM 3.3.3 and ONCS.NVMDSMSV).
            let mut left = DSM_BLOCKS;
            for range in ranges.iter().take(DSM_RANGES.into()) {
                let blocks = range.lengthlb.get().min(left);
                left -= blocks;
                let start = range.slba.get() << shift;
                let bytes = u64::from(blocks) << shift;
                let end = self.core.ftl.trim(cx.now, volume, start, bytes, cx.storage);
                at = at.max(end.map_err(|fault| Failure::of_fault(fault, CommandKind::Write))?);
            }
        }
        Ok(Some(at))
    }

    /// Flush of one namespace or of all (Base 7.2): the drive has one write buffer, so both are the same.
    fn flush<S: Contents>(
        &mut self,
        token: &Token,
        id: ControllerId,
        nsid: u32,
        cx: &mut Cx<'_, S>,
    ) -> Result<Option<Nanos>, Failure> {
        if nsid != NSID_ALL {
            self.core.attached(id, nsid)?;
            self.core.enter(token);
        } else {
            self.core.check_access(id)?;
        }
        self.core.commands.get_mut(token).kind = CommandKind::Flush;
        self.make_durable(token, cx.now, cx)
    }
}
