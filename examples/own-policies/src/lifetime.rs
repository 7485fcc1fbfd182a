//! What will soon be overwritten goes to other superblocks than the rest. How soon is guessed: a page lives about as long as its version before
//! did. That is how SepBIT treats what users write (Q. Wang, J. Li, P. P. C. Lee, T. Ouyang, C. Shi, L. Huang, "Separating Data via Block
//! Invalidation Time Inference for Write Amplification Reduction in Log-Structured Storage", FAST 2022). What SepBIT does with each moved
//! page by its age is not done here: a drive moves all pages of a superblock to one stream.

use live::policies::{Candidate, HostWrite, PlacementPolicy, Writer};

/// Streams of what hosts write.
const SHORT_LIVED_STREAM: usize = 0;
const LONG_LIVED_STREAM: usize = 1;

/// Two streams for hosts, and two for collection: of what was thought to be short-lived, and of everything else.
#[derive(Clone)]
pub struct ByLifetime {
    /// By logical page: pages that hosts had written when it was written last, and one; 0 if it never was.
    last: Vec<u64>,
    /// Lifetimes that are shorter are short.
    threshold: u64,
}

impl Default for ByLifetime {
    fn default() -> Self {
        // Until one superblock of short-lived data was collected, every page that is overwritten is short-lived.
        Self { last: Vec::new(), threshold: u64::MAX }
    }
}

impl PlacementPolicy for ByLifetime {
    fn host_streams(&self, _handles: usize) -> usize {
        2
    }

    fn relocation_streams(&self, _handles: usize) -> usize {
        2
    }

    fn host(&mut self, write: HostWrite) -> usize {
        let page = write.page as usize;
        if self.last.len() <= page {
            self.last.resize(page + 1, 0);
        }
        let before = std::mem::replace(&mut self.last[page], write.written + 1);
        let lived = (write.written + 1).saturating_sub(before);
        if before > 0 && lived < self.threshold { SHORT_LIVED_STREAM } else { LONG_LIVED_STREAM }
    }

    fn relocated(&mut self, victim: &Candidate) -> Writer {
        if victim.writer == Writer::Host(SHORT_LIVED_STREAM) {
            // In pages programmed. Some of those are no host's, so it is a little long.
            let lived = victim.age * u64::from(victim.usable);
            self.threshold = match self.threshold {
                u64::MAX => lived,
                threshold => (15 * threshold + lived) / 16,
            };
        }
        match victim.writer {
            Writer::Host(SHORT_LIVED_STREAM) => Writer::Relocation(0),
            Writer::Host(_) | Writer::Relocation(_) => Writer::Relocation(1),
        }
    }
}
