//! Namespaces as exports.

use super::negotiation::{ExportInfo, Exports};
use super::outbox::Reply;
use super::replies::EXTENTS;
use super::wire::MAX_PAYLOAD_BYTES;
use crate::backend::Backend;
use crate::drive::{Extent, ExtentQuery};
use crate::file_table::File;
use crate::request_queue::RequestQueue;
use fuser::Errno;
use std::sync::Arc;

/// Bytes of a page: what the drive deallocates as a whole.
const PAGE: u32 = 4096;

/// The conventional namespaces of a drive.
pub struct Namespaces(pub Arc<Backend>);

impl Namespaces {
    /// The file that an export stands for, unless it is gone.
    pub fn file(&self, export: &ExportInfo) -> Option<Arc<File>> {
        self.conventional().find(|file| file.ino == export.id)
    }

    /// The requests in flight.
    pub fn requests(&self) -> &Arc<RequestQueue> {
        self.0.requests()
    }

    fn conventional(&self) -> impl Iterator<Item = Arc<File>> {
        self.0.files().all().into_iter().filter(|file| file.namespace.zones.is_none())
    }

    fn info(&self, file: &File) -> ExportInfo {
        let namespace = &file.namespace;
        let access = if namespace.read_only { ", read-only" } else { "" };
        ExportInfo {
            id: file.ino,
            name: file.name(),
            description: format!("blocks of {} bytes{access}", namespace.block_size()),
            bytes: namespace.bytes(),
            minimum: namespace.block_size(),
            preferred: namespace.block_size().max(PAGE),
            maximum: MAX_PAYLOAD_BYTES,
            read_only: namespace.read_only,
            fast_zeroes: namespace.abilities.fast_zeroes,
            allocation: namespace.abilities.extents,
        }
    }

    /// Answers which blocks are allocated.
    pub fn status(&self, file: Arc<File>, offset: u64, len: u32, one: bool, reply: Reply) {
        if self.requests().is_void(&file) {
            return reply.fail(Errno::ENODEV);
        }
        let size = file.namespace.block_size();
        let (lba, blocks) = (offset / u64::from(size), u64::from(len / size));
        let query = ExtentQuery::new(&file.namespace.device, lba, blocks, if one { 1 } else { EXTENTS });
        let requests = self.requests().clone();
        let then = move |found: Result<Vec<Extent>, Errno>| match found {
            // The answer may be about another namespace.
            Ok(_) if requests.is_void(&file) => reply.fail(Errno::ENODEV),
            Ok(extents) => reply.status(size, len, &extents),
            Err(errno) => reply.fail(errno),
        };
        self.0.drive().extents(query, Box::new(then));
    }
}

impl Exports for Namespaces {
    fn list(&self) -> Vec<ExportInfo> {
        self.conventional().map(|file| self.info(&file)).collect()
    }
}
