//! Appends of any length to zones.

use std::time::Duration;

use nvme::Status;
use nvme::io::appended_lba;

use crate::queue::{Data, Queue, Tag};
use crate::zones::{Zoned, Zones, describe};
use crate::{Error, IoQueue, TransportError};

/// How long one command may take.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Bytes of buffers that a queue keeps for its next append.
const MAX_SPARE_BYTES: usize = 4 << 20;

/// An append that was begun, of as many commands as it takes.
#[derive(Debug)]
pub struct Appends {
    ns: Zoned,
    zslba: u64,
    /// Commands that have not ended: each with the number of its piece of the data.
    waiting: Vec<(Tag, usize)>,
    /// Where the pieces lie, and their bytes, as far as their commands have ended.
    lbas: Vec<u64>,
    pieces: Vec<Vec<u8>>,
    failed: Option<Status>,
}

impl Appends {
    /// The data, once the append has ended.
    #[must_use]
    pub fn into_data(self) -> Vec<u8> {
        self.pieces.concat()
    }
}

impl<Q: Queue> IoQueue<Q> {
    /// Begins to append whole blocks to the zone that begins at `zslba`, with as many commands as it takes, each of `limits.append` blocks of
    /// the namespace. The drive carries them out in any order. With `fua` the blocks are durable when the append has ended. Returns when all
    /// commands are sent. The queue takes no other command until [`end_appends`](IoQueue::end_appends) has returned.
    ///
    /// # Errors
    /// The length is not one of whole blocks, or the transport is broken.
    pub fn begin_appends(
        &mut self,
        ns: &Zoned,
        zslba: u64,
        data: &[u8],
        fua: bool,
    ) -> Result<Appends, Error> {
        let block = ns.namespace.block_size as usize;
        if !data.len().is_multiple_of(block.max(1)) {
            let what = describe("appending to", ns.namespace.nsid, Zones::One(zslba));
            return Err(Error::Usage(format!("{what}: no whole number of blocks of {block} bytes")));
        }
        let pieces = data.chunks(ns.namespace.limits.append as usize * block);
        let count = pieces.len();
        let mut appends = Appends {
            ns: *ns,
            zslba,
            waiting: Vec::with_capacity(count),
            lbas: vec![0; count],
            pieces: vec![Vec::new(); count],
            failed: None,
        };
        for (index, piece) in pieces.enumerate() {
            if appends.waiting.len() == self.raw().capacity() {
                self.end_one(&mut appends)?;
            }
            if appends.failed.is_some() {
                appends.pieces[index] = piece.to_vec();
                continue;
            }
            let blocks = u32::try_from(piece.len() / block).unwrap_or(u32::MAX);
            let command = match fua {
                true => ns.namespace.append_durably(zslba, blocks),
                false => ns.namespace.append(zslba, blocks),
            };
            let mut buffer = self.spare.pop().unwrap_or_default();
            buffer.extend_from_slice(piece);
            appends.waiting.push((self.raw().submit(command, Data::Out(buffer))?, index));
        }
        self.raw().flush()?;
        Ok(appends)
    }

    /// Waits until an append on this queue has ended. The result has the LBA of the first block of each piece of `limits.append` blocks, in the
    /// order of the data.
    ///
    /// # Errors
    /// A command failed (others may have been carried out), or the transport is broken.
    pub fn end_appends(&mut self, appends: &mut Appends) -> Result<Vec<u64>, Error> {
        while !appends.waiting.is_empty() {
            self.end_one(appends)?;
        }
        match appends.failed {
            None => {
                self.keep(std::mem::take(&mut appends.pieces));
                Ok(std::mem::take(&mut appends.lbas))
            }
            Some(status) => {
                let what = describe("appending to", appends.ns.namespace.nsid, Zones::One(appends.zslba));
                Err(Error::Command { what, status })
            }
        }
    }

    /// Keeps buffers. Memory that goes back to the system would have to be faulted in again for the next append.
    fn keep(&mut self, buffers: Vec<Vec<u8>>) {
        let mut kept: usize = self.spare.iter().map(Vec::capacity).sum();
        for mut buffer in buffers {
            kept += buffer.capacity();
            if kept > MAX_SPARE_BYTES {
                return;
            }
            buffer.clear();
            self.spare.push(buffer);
        }
    }

    fn end_one(&mut self, appends: &mut Appends) -> Result<(), Error> {
        let done = self.raw().next(Some(TIMEOUT))?.ok_or(TransportError::Timeout(TIMEOUT))?;
        let position = appends.waiting.iter().position(|(tag, _)| *tag == done.tag);
        let Some(position) = position else { return Ok(()) };
        let (_, index) = appends.waiting.swap_remove(position);
        match done.completion.status().ok() {
            Ok(()) => appends.lbas[index] = appended_lba(&done.completion),
            Err(status) => appends.failed = appends.failed.or(Some(status)),
        }
        appends.pieces[index] = done.data.into_buffer();
        Ok(())
    }
}
