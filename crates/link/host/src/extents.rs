//! Which blocks of a namespace are allocated (Get LBA Status, NVM 4.2.1).

use blockdev::Namespace;
use nvme::admin::{GetLbaStatus, LbaStatusAction, LbaStatusDescriptor, LbaStatusHeader};
use nvme::zerocopy::FromBytes;
use nvme::{AdminCommand, Command};

use crate::queue::{Data, Transport};
use crate::{Error, Host};

/// Logical blocks that one command asks about: the range has 16 bits, and ends with a page of any block size.
const COMMAND_BLOCKS: u16 = u16::MAX / 8 * 8;
/// Bytes of its answer at most: 4,095 ranges.
const ANSWER_BYTES: usize = 64 << 10;
/// Commands for one question at most.
const MAX_COMMANDS: u32 = 64;
/// Completion condition of an answer that has all ranges of the question.
const COMPLETE_CONDITION: u8 = 2;
/// The bit of AOCS that reports the action "allocated" of Get LBA Status (NVM 4.1.5.4).
const ALLOCATED_ACTION_BIT: u16 = 1;

/// Blocks in a row of which the drive says the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// How many, 1 or more.
    pub blocks: u64,
    /// Whether they have a place on the medium. If not, they read as zeroes where the namespace says so (DLFEAT).
    pub allocated: bool,
}

/// A question which blocks of a namespace are allocated, for a host that sends the commands itself: [`next_command`](ExtentQuery::next_command), and
/// [`add`](ExtentQuery::add) with its answer, until no command follows.
#[derive(Clone, Debug)]
pub struct ExtentQuery {
    namespace: Namespace,
    /// The first block that no answer covers.
    next: u64,
    /// One past the last block of the command under way.
    command_end: u64,
    /// One past the last block of the question.
    end: u64,
    most: usize,
    commands: u32,
    found: Vec<Extent>,
}

impl ExtentQuery {
    /// Which of `blocks` blocks (1 or more) from `lba` on are allocated: at most `most` extents. They may cover fewer blocks, but one at least.
    #[must_use]
    pub fn new(namespace: &Namespace, lba: u64, blocks: u64, most: usize) -> Self {
        let end = lba.saturating_add(blocks);
        Self { namespace: *namespace, next: lba, command_end: lba, end, most, commands: 0, found: Vec::new() }
    }

    /// The namespace.
    #[must_use]
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// The next command, and the bytes of its answer; `None` if the question is answered.
    pub fn next_command(&mut self) -> Option<(Command, usize)> {
        // The last extent may continue in the next answer.
        if self.next >= self.end || self.found.len() > self.most || self.commands == MAX_COMMANDS {
            return None;
        }
        self.commands += 1;
        let range = u16::try_from(self.end - self.next).unwrap_or(COMMAND_BLOCKS).min(COMMAND_BLOCKS);
        self.command_end = self.next + u64::from(range);
        let transfer = self.namespace.limits.transfer.saturating_mul(self.namespace.block_size) as usize;
        let bytes = ANSWER_BYTES.min(transfer);
        let (nsid, atype) = (self.namespace.nsid, LbaStatusAction::ALLOCATED);
        let get = GetLbaStatus { nsid, slba: self.next, dwords: bytes as u64 / 4, range, atype };
        Some((AdminCommand::GetLbaStatus(get).into(), bytes))
    }

    /// Takes in the answer to the last command.
    ///
    /// # Errors
    /// It makes no sense.
    pub fn add(&mut self, page: &[u8]) -> Result<(), Error> {
        let (header, rest) =
            LbaStatusHeader::ref_from_prefix(page).map_err(|_| self.wrong("it is cut short"))?;
        let (mut at, end) = (self.next, self.command_end);
        let descriptors = rest.chunks_exact(size_of::<LbaStatusDescriptor>());
        for descriptor in descriptors.take(header.nlsd.get() as usize) {
            let descriptor =
                LbaStatusDescriptor::ref_from_bytes(descriptor).map_err(|_| self.wrong("it is cut short"))?;
            let start = descriptor.dslba.get().clamp(at, end);
            let next = start.saturating_add(descriptor.nlb.get().into()).min(end);
            add(&mut self.found, start - at, false);
            add(&mut self.found, next - start, true);
            at = next;
        }
        // Otherwise there was no room for the ranges that follow.
        if header.cmpc == COMPLETE_CONDITION {
            add(&mut self.found, end - at, false);
            at = end;
        }
        if at == self.next {
            // What is found so far is an answer.
            self.end = at;
        }
        self.next = at;
        if self.found.is_empty() { Err(self.wrong("it is empty")) } else { Ok(()) }
    }

    /// What the answers say.
    #[must_use]
    pub fn into_extents(mut self) -> Vec<Extent> {
        self.found.truncate(self.most);
        self.found
    }

    fn what(&self) -> String {
        let Namespace { nsid, .. } = self.namespace;
        format!("reading which blocks of namespace {nsid} are allocated, from block {} on", self.next)
    }

    fn wrong(&self, problem: &str) -> Error {
        Error::Answer { what: self.what(), problem: problem.into() }
    }
}

impl<T: Transport> Host<T> {
    /// Whether the drive answers an [`ExtentQuery`].
    ///
    /// # Errors
    /// The transport is broken.
    pub fn reports_allocation(&mut self) -> Result<bool, Error> {
        Ok(self.controller().oacs.glss() && self.nvm_controller()?.aocs.get() & ALLOCATED_ACTION_BIT != 0)
    }

    /// Asks, and waits for the answer.
    ///
    /// # Errors
    /// A command failed, the answer makes no sense, or the transport is broken.
    pub fn extents(&mut self, mut query: ExtentQuery) -> Result<Vec<Extent>, Error> {
        while let Some((command, bytes)) = query.next_command() {
            let done = self.call_of(query.namespace.generation, command, Data::room(bytes))?;
            let failed = |status| Error::Command { what: query.what(), status };
            done.completion.status().ok().map_err(failed)?;
            query.add(&done.data.into_buffer())?;
        }
        Ok(query.into_extents())
    }
}

/// Adds blocks, as a part of the last extent if the same is true of them.
fn add(found: &mut Vec<Extent>, blocks: u64, allocated: bool) {
    match found.last_mut() {
        _ if blocks == 0 => {}
        Some(last) if last.allocated == allocated => last.blocks += blocks,
        _ => found.push(Extent { blocks, allocated }),
    }
}
