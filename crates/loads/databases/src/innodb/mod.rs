//! InnoDB under TPC-C or sysbench, as a drive sees it: a closed-loop model in virtual time.
//!
//! Connections run TPC-C's transactions ([`TransactionKind`]), or those of sysbench's OLTP test, without pause. A transaction is a sequence of uses of pages, each behind the statement
//! that makes it: a processor among [`Config::cores`], then the inner page, then the leaf, each from the buffer pool or read
//! from the drive while the connection waits. Changes make redo and dirty pages; at the end the log and the binary log
//! are written and flushed, for all who wait at once.
//!
//! In the background each instance of the pool has two flushers. One keeps frames free at the end of the LRU list, the other
//! writes the pages that are dirty for longest at the pace of adaptive flushing. Both write batches: copies to the doublewrite buffer, one batch at a time, a sync of its file, the pages
//! in place, a sync of each tablespace in turn. Two rules hold at any time: no page is written before the log of its last change was flushed, and none before its copy was.
//!
//! Not modelled: locks (of rows and pages), the change buffer, purge (undo records are written), splits of pages, reading ahead and
//! checkpoints of the log. Of the operating system only the journal of its file system is modelled. The model's memory is that of the pool's
//! frames: where rows are is arithmetic.
//!
//! ```
//! use database_models::innodb::{Config, Innodb, Volume};
//! use workload::{Actor, Next};
//!
//! let volume = Volume { blocks: 1 << 20, block_bytes: 4096 };
//! let mut model = Innodb::new(Config { pool_pages: 4096, ..Config::published(4, volume, 1) }).ok_or("too small")?;
//! let mut now = 0;
//! let first = loop {
//!     match model.next(now) {
//!         Next::Submit(request) => break request,
//!         // Processors are at work.
//!         Next::At(at) => now = at,
//!         Next::Wait | Next::Done => return Err("sooner or later it has to read"),
//!     }
//! };
//! assert_eq!(first.blocks, 4);
//! # Ok::<(), &str>(())
//! ```

mod config;
mod flush;
mod journal;
mod log;
mod pool;
mod server;
mod space;
#[cfg(test)]
mod tests;

pub use config::{Config, Doublewrite, PAGE};
pub use server::Innodb;
pub use space::Areas;

pub use crate::database::{Area, Counts, Schema, TransactionKind, Volume};
