//! Which blocks of a namespace are allocated (Get LBA Status, NVM 4.2.1).

use blockdev::Namespace;
use nvme::AdminCommand;
use nvme::admin::{GetLbaStatus, LbaStatusAction, LbaStatusDescriptor, LbaStatusHeader};
use nvme::zerocopy::FromBytes;

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

impl<T: Transport> Host<T> {
    /// Whether the drive answers [`extents`](Host::extents).
    ///
    /// # Errors
    /// The transport is broken.
    pub fn reports_allocation(&mut self) -> Result<bool, Error> {
        Ok(self.controller().oacs.glss() && self.nvm_controller()?.aocs.get() & ALLOCATED_ACTION_BIT != 0)
    }

    /// Which of `blocks` blocks from `lba` on are allocated: at most `most` extents. They may cover fewer blocks, but one at least.
    ///
    /// # Errors
    /// A command failed, the answer makes no sense, or the transport is broken.
    pub fn extents(
        &mut self,
        namespace: &Namespace,
        lba: u64,
        blocks: u64,
        most: usize,
    ) -> Result<Vec<Extent>, Error> {
        let mut found = Vec::new();
        let mut covered = 0;
        for _ in 0..MAX_COMMANDS {
            // The last one may go on in the next answer.
            if covered >= blocks || found.len() > most {
                break;
            }
            let asked = u16::try_from(blocks - covered).unwrap_or(COMMAND_BLOCKS).min(COMMAND_BLOCKS);
            self.lba_status(namespace, lba + covered, asked, &mut found)?;
            let before = covered;
            covered = found.iter().map(|extent| extent.blocks).sum();
            if covered == before {
                break;
            }
        }
        found.truncate(most);
        match found.is_empty() {
            true => Err(wrong(namespace, lba, "it is empty")),
            false => Ok(found),
        }
    }

    /// One command about up to [`COMMAND_BLOCKS`].
    fn lba_status(
        &mut self,
        namespace: &Namespace,
        lba: u64,
        range: u16,
        found: &mut Vec<Extent>,
    ) -> Result<(), Error> {
        let bytes = ANSWER_BYTES.min(self.max_transfer());
        let atype = LbaStatusAction::ALLOCATED;
        let get = GetLbaStatus { nsid: namespace.nsid, slba: lba, dwords: bytes as u64 / 4, range, atype };
        let command = AdminCommand::GetLbaStatus(get).into();
        let done = self.call_of(namespace.generation, command, Data::room(bytes))?;
        let failed = |status| Error::Command { what: question(namespace, lba), status };
        done.completion.status().ok().map_err(failed)?;
        let page = done.data.into_buffer();
        let short = || wrong(namespace, lba, "it is cut short");
        let (header, rest) = LbaStatusHeader::ref_from_prefix(&page).map_err(|_| short())?;
        let end = lba + u64::from(range);
        let mut at = lba;
        let descriptors = rest.chunks_exact(size_of::<LbaStatusDescriptor>());
        for descriptor in descriptors.take(header.nlsd.get() as usize) {
            let descriptor = LbaStatusDescriptor::ref_from_bytes(descriptor).map_err(|_| short())?;
            let start = descriptor.dslba.get().clamp(at, end);
            let next = start.saturating_add(descriptor.nlb.get().into()).min(end);
            add(found, start - at, false);
            add(found, next - start, true);
            at = next;
        }
        // Otherwise there was no room for the ranges that follow.
        if header.cmpc == COMPLETE_CONDITION {
            add(found, end - at, false);
        }
        Ok(())
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

fn question(namespace: &Namespace, lba: u64) -> String {
    format!("reading which blocks of namespace {} are allocated, from block {lba} on", namespace.nsid)
}

fn wrong(namespace: &Namespace, lba: u64, problem: &str) -> Error {
    Error::Answer { what: question(namespace, lba), problem: problem.into() }
}
