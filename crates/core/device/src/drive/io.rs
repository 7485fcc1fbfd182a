//! Dispatch of commands of I/O queues.

use super::Drive;
use super::steps::CommandWork;
use crate::contents::Contents;
use crate::core::{ControllerId, Core, Cx, Failure, Output, Token};
use crate::fdp;
use crate::io::commands::Deallocated;
use crate::io::{NamespaceLayout, commands, copy, fused};
use crate::streams;
use crate::zones;
use crate::zones::commands::ZonesDone;
use ftl::Source;
use media::Nanos;
use nvme::IoCommand;
use nvme::io::Blocks;

impl Drive {
    /// All namespaces.
    pub fn namespace_layouts(&self) -> impl Iterator<Item = NamespaceLayout> + '_ {
        self.core.namespaces.iter().map(|(nsid, ns)| NamespaceLayout::of(nsid, ns))
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
            return execute_pair(&mut self.core, token, blocks, cx);
        }
        let (id, opcode, nsid) = (ControllerId(entry.controller), entry.opcode, entry.nsid);
        if let Err(failure) = self.core.check_reservation(id, opcode, nsid) {
            return self.core.fail(token, failure, cx);
        }
        let result = match command {
            IoCommand::Read(blocks) => commands::read(&mut self.core, &token, id, blocks, cx),
            IoCommand::Write(blocks) => write(&mut self.core, &token, id, blocks, Source::Host, cx),
            IoCommand::Flush { nsid } => commands::flush(&mut self.core, &token, id, *nsid, cx),
            IoCommand::WriteZeroes(blocks) => write(&mut self.core, &token, id, blocks, Source::Zeros, cx),
            IoCommand::Compare(blocks) => commands::compare(&mut self.core, &token, id, blocks, cx),
            IoCommand::Verify(blocks) => commands::verify(&mut self.core, &token, id, blocks, cx),
            IoCommand::DatasetManagement(dsm) => {
                commands::dataset_management(&mut self.core, &token, id, *dsm, data, cx).map(
                    |done| match done {
                        Deallocated::All(at) => Some(at),
                        Deallocated::Some(rest) => {
                            let rest = CommandWork::Deallocation(rest);
                            self.steps.add(&mut self.core, token.io().0, dsm.nsid, rest);
                            None
                        }
                    },
                )
            }
            IoCommand::ReservationRegister(_)
            | IoCommand::ReservationAcquire(_)
            | IoCommand::ReservationRelease(_)
                if self.core.controller(id).is_ok_and(|c| !c.role.is_administrator()) =>
            {
                let change = CommandWork::Reservation(*command, data.into());
                self.steps.add(&mut self.core, token.io().0, nsid, change);
                Ok(None)
            }
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
            IoCommand::WriteUncorrectable(blocks) => {
                copy::write_uncorrectable(&mut self.core, &token, id, blocks, cx)
            }
            IoCommand::Copy(copy) => copy::copy(&mut self.core, &mut self.copies, &token, id, copy, data, cx),
            IoCommand::ZoneAppend(blocks) => zones::commands::append(&mut self.core, &token, id, blocks, cx),
            IoCommand::ZoneManagementSend(c) => {
                zones::commands::send(&mut self.core, &token, id, c, data, cx)
                    .map(|done| self.go_on_with_zones(&token, nsid, done))
            }
            IoCommand::ZoneManagementReceive(c) => {
                zones::commands::receive(&mut self.core, &token, id, c, cx)
                    .map(|done| self.go_on_with_zones(&token, nsid, done))
            }
        };
        self.settle(token, result, cx);
    }

    /// When a command on zones ends, if it is done; the rest of it is done in steps.
    fn go_on_with_zones(&mut self, token: &Token, nsid: u32, done: ZonesDone) -> Option<Nanos> {
        let rest = match done {
            ZonesDone::All(at) => return at,
            ZonesDone::Swept(sweep) => CommandWork::ZoneSweep(sweep),
            ZonesDone::Reported(report) => CommandWork::ZoneReport(report),
        };
        self.steps.add(&mut self.core, token.io().0, nsid, rest);
        None
    }

    /// A command was executed as far as it goes now: it ends, fails, or waits for what the translation layer answers later.
    #[inline]
    pub(super) fn settle<S: Contents>(
        &mut self,
        token: Token,
        result: Result<Option<Nanos>, Failure>,
        cx: &mut Cx<'_, S>,
    ) {
        match result {
            result if self.core.commands.get_mut(&token).parts > 0 => {
                commands::wait_for_parts(&mut self.core, token, result);
            }
            Ok(Some(at)) => self.core.schedule(token, at, cx),
            // The translation layer brings it back.
            Ok(None) => {
                token.park();
            }
            Err(failure) => self.core.fail(token, failure, cx),
        }
    }
}

/// A Write (`Source::Host`) or a Write Zeroes. A directive chooses another placement handle when the blocks are checked.
#[inline]
fn write<S: Contents>(
    core: &mut Core,
    token: &Token,
    id: ControllerId,
    blocks: &Blocks,
    source: Source,
    cx: &mut Cx<'_, S>,
) -> Result<Option<Nanos>, Failure> {
    let mut location = commands::locate_write(core, token, id, blocks, source)?;
    if blocks.dtype != 0 {
        location.handle = directed(core, id, blocks, cx.now)?;
    }
    match source {
        Source::Host => commands::write(core, token, id, blocks, location, cx),
        Source::Zeros => commands::write_zeroes(core, token, id, blocks, location, cx),
    }
}

/// Executes both commands of a fused operation, whose turn has come.
#[cold]
pub(super) fn execute_pair<S: Contents>(core: &mut Core, second: Token, blocks: &Blocks, cx: &mut Cx<'_, S>) {
    let Some(mut pair) = fused::begin(core, second, blocks, cx) else { return };
    if blocks.dtype != 0 {
        match directed(core, pair.controller(), blocks, cx.now) {
            Ok(handle) => pair.place_at(handle),
            Err(failure) => return fused::refuse(core, pair, failure, cx),
        }
    }
    fused::execute(core, pair, blocks, cx);
}

/// The placement handle that a directive of a write asks for.
fn directed(core: &mut Core, id: ControllerId, blocks: &Blocks, now: Nanos) -> Result<u8, Failure> {
    match blocks.dtype {
        nvme::fdp::DATA_PLACEMENT => fdp::place_by_identifier(core, blocks.nsid, blocks.dspec, now),
        1 => streams::place_by_stream(core, id, blocks.nsid, blocks.dspec),
        _ => Err(Failure::field(50)),
    }
}
