//! Questions which blocks are allocated, on their way to the drive. Questions about one namespace follow each other, because the drive answers them
//! one after the other. Those about other namespaces do not wait for them.

use crate::drive::{Extent, Then};
use crate::errno::errno;
use crate::task::{self, promise};
use fuser::Errno;
use host::ExtentQuery;
use live::{AdminQueue, Buffer, RefusedReason};
use nvme::{Completion, Nsid};
use std::collections::VecDeque;
use std::collections::btree_map::{BTreeMap, Entry};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A question, and who receives the answer.
type Question = (ExtentQuery, Then<Vec<Extent>>);

/// The questions to one drive.
pub struct ExtentQueries {
    admin: AdminQueue,
    /// Those that come after the one that is being answered, by namespace. A namespace without one has no entry.
    waiting: Mutex<BTreeMap<Nsid, VecDeque<Question>>>,
}

impl ExtentQueries {
    /// Questions through this queue.
    pub fn new(admin: AdminQueue) -> Arc<Self> {
        Arc::new(ExtentQueries { admin, waiting: Mutex::default() })
    }

    /// Asks. `then` runs on the thread that delivers the answer, perhaps before this returns.
    pub fn begin(self: &Arc<Self>, query: ExtentQuery, then: Then<Vec<Extent>>) {
        let nsid = query.namespace().nsid;
        match self.waiting().entry(nsid) {
            Entry::Occupied(behind) => return behind.into_mut().push_back((query, then)),
            Entry::Vacant(first) => {
                first.insert(VecDeque::new());
            }
        }
        let queries = self.clone();
        task::run(async move {
            let mut next = Some((query, then));
            while let Some((query, then)) = next {
                then(queries.answer(query).await);
                next = queries.next(nsid);
            }
        });
    }

    fn next(&self, nsid: Nsid) -> Option<Question> {
        let mut waiting = self.waiting();
        let next = waiting.get_mut(&nsid)?.pop_front();
        if next.is_none() {
            waiting.remove(&nsid);
        }
        next
    }

    async fn answer(&self, mut query: ExtentQuery) -> Result<Vec<Extent>, Errno> {
        while let Some((command, bytes)) = query.next_command() {
            let (giver, ended) = promise();
            let then = move |completion, page| giver.give((completion, page));
            let generation = query.namespace().generation;
            let posted = self.admin.post(&command, generation, Buffer::from(vec![0; bytes]), then);
            posted.map_err(|refused| match refused {
                RefusedReason::Gone(_) => Errno::ENODEV,
                RefusedReason::Full => Errno::EIO,
            })?;
            let (completion, page): (Completion, Buffer) = ended.await.ok_or(Errno::ENODEV)?;
            completion.status().ok().map_err(errno)?;
            query.add(page.as_slice()).map_err(|error| {
                tracing::warn!("{error}");
                Errno::EIO
            })?;
        }
        Ok(query.into_extents())
    }

    fn waiting(&self) -> MutexGuard<'_, BTreeMap<Nsid, VecDeque<Question>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
