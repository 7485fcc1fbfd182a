//! What a job's thread asks of the device that it loads, beside what every block device does: it waits.

use blockdev::{BlockDevice, Completed};
use host::{FileDevice, NamespaceDevice, Queue};
use std::{fmt::Display, time::Duration};

/// A device that a thread may wait for.
pub(crate) trait JobDevice: BlockDevice<Error: Display> {
    /// What messages call it: `namespace 1`.
    fn name(&self) -> String;

    /// Parts without an answer.
    fn outstanding(&mut self) -> usize;

    /// Sends what was submitted.
    fn flush(&mut self) -> Result<(), Self::Error>;

    /// The next part that ends, waited for so long at most.
    fn wait(&mut self, timeout: Duration) -> Result<Option<Completed>, Self::Error>;

    /// A part that came together with the last one, if that is known without looking.
    fn arrived(&mut self) -> Option<Completed>;

    /// Nobody waits for what is outstanding any more.
    fn abandon(&mut self);
}

impl<Q: Queue> JobDevice for NamespaceDevice<Q> {
    fn name(&self) -> String {
        format!("namespace {}", self.namespace().nsid)
    }

    fn outstanding(&mut self) -> usize {
        self.queue().outstanding()
    }

    fn flush(&mut self) -> Result<(), Self::Error> {
        self.queue().queue().flush()
    }

    fn wait(&mut self, timeout: Duration) -> Result<Option<Completed>, Self::Error> {
        self.next(Some(timeout))
    }

    fn arrived(&mut self) -> Option<Completed> {
        NamespaceDevice::arrived(self)
    }

    fn abandon(&mut self) {
        self.queue().queue().abandon();
    }
}

impl JobDevice for FileDevice {
    fn name(&self) -> String {
        self.file().path().display().to_string()
    }

    fn outstanding(&mut self) -> usize {
        FileDevice::outstanding(self)
    }

    fn flush(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }

    fn wait(&mut self, timeout: Duration) -> Result<Option<Completed>, Self::Error> {
        self.next(timeout)
    }

    fn arrived(&mut self) -> Option<Completed> {
        None
    }

    fn abandon(&mut self) {}
}
