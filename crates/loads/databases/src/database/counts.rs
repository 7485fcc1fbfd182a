//! What a model counts.

/// What the model has done since it began; differences are what happened in between.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts<T = ()> {
    /// Transactions that ended, in the order of [`TransactionKind::ALL`](super::TransactionKind::ALL); new orders without those that were rolled back. Sysbench's
    /// are the first.
    pub transactions: [u64; 5],
    /// Nanoseconds from their begin to their end, in the same order.
    pub latency: [u64; 5],
    /// Pages read.
    pub page_reads: u64,
    /// Pages written in place.
    pub page_writes: u64,
    /// Uses of pages, inner ones among them.
    pub uses: u64,
    /// Commits that wrote something.
    pub commits: u64,
    /// Flushes of the log in which some waited.
    pub groups: u64,
    /// Bytes of logs, as they were written: whole blocks.
    pub log_bytes: u64,
    /// Connections' time in nanoseconds: waiting for pages that are read.
    pub read_wait: u64,
    /// Waiting for a free frame.
    pub free_wait: u64,
    /// In commits.
    pub commit_wait: u64,
    /// On a processor, or waiting for one.
    pub processor: u64,
    /// Of that, on one.
    pub busy: u64,
    /// Commands that failed.
    pub failed: u64,
    /// What only this server counts.
    pub own: T,
}

impl Counts {
    /// What happened since an earlier count.
    pub fn since(&self, earlier: &Counts) -> Counts {
        let mut counts = *self;
        for (now, then) in counts.all().zip(earlier.clone().all()) {
            *now -= *then;
        }
        counts
    }

    fn all(&mut self) -> impl Iterator<Item = &mut u64> {
        let rest = [
            &mut self.page_reads,
            &mut self.page_writes,
            &mut self.uses,
            &mut self.commits,
            &mut self.groups,
            &mut self.log_bytes,
            &mut self.read_wait,
            &mut self.free_wait,
            &mut self.commit_wait,
            &mut self.processor,
            &mut self.busy,
            &mut self.failed,
        ];
        self.transactions.iter_mut().chain(&mut self.latency).chain(rest)
    }
}
