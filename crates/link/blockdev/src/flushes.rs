//! After a flush that failed, none succeeds.

use crate::{Completed, Status, Verb};

/// The flushes of a device. What is below it may report a loss once and then forget it; this does not.
#[derive(Clone, Default, Debug)]
pub struct Flushes {
    /// Their tags.
    under_way: Vec<u32>,
    /// How the first failed.
    failed: Option<Status>,
}

impl Flushes {
    /// A part has been submitted.
    #[inline]
    pub fn submitted(&mut self, tag: u32, verb: Verb) {
        if verb == Verb::Flush {
            self.under_way.push(tag);
        }
    }

    /// A part has ended. A flush after a failed one gets the status of that one. Returns whether it is the first that failed.
    #[inline]
    pub fn ended(&mut self, done: &mut Completed) -> bool {
        !self.under_way.is_empty() && self.judge(done)
    }

    fn judge(&mut self, done: &mut Completed) -> bool {
        let Some(at) = self.under_way.iter().position(|tag| *tag == done.tag) else { return false };
        self.under_way.swap_remove(at);
        if let Some(status) = self.failed {
            done.status = status;
            return false;
        }
        self.failed = (!done.status.is_success()).then_some(done.status);
        self.failed.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_flush_succeeds_after_one_that_failed() {
        let mut flushes = Flushes::default();
        let mut end = |tag, verb, status| {
            flushes.submitted(tag, verb);
            let mut done = Completed { tag, status, data: Vec::new() };
            (flushes.ended(&mut done), done.status)
        };
        let failed = Status::WRITE_FAULT;
        assert_eq!(end(1, Verb::Flush, Status::SUCCESS), (false, Status::SUCCESS));
        assert_eq!(end(1, Verb::Write, failed), (false, failed));
        assert_eq!(end(1, Verb::Flush, failed), (true, failed));
        assert_eq!(end(2, Verb::Flush, Status::SUCCESS), (false, failed));
        assert_eq!(end(2, Verb::Write, Status::SUCCESS), (false, Status::SUCCESS));
    }
}
