//! Compare and write as one command.

use super::Ftl;
use crate::answer::Fault;
use crate::config::PAGE;
use crate::write::Write;
use crate::zone::ZoneFault;

impl Ftl {
    /// Why a write cannot compare, if it is to. What it compares is what it replaces, however long it has to wait: an atomic group.
    #[inline]
    pub(super) fn compare_fault(&self, write: &Write) -> Option<Fault> {
        write.compare?;
        let group = u64::from(self.config.atomic_pages) * u64::from(PAGE);
        if write.start == write.end || write.start / group != (write.end - 1) / group {
            return Some(Fault::OutOfRange);
        }
        // What is written to a zone has not been written before.
        self.is_zoned(write.volume).then_some(Fault::Zone(ZoneFault::InvalidWrite))
    }
}
