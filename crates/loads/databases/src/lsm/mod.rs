//! A log-structured database (RocksDB), as a drive sees it: a model in virtual time.
//!
//! A writer puts records into a log and a memtable. Full memtables become tables of level 0; compactions merge tables into those of the next level, and delete them. Readers
//! look for single keys, from the newest table to the oldest. Writes are slowed down or stopped where flushes or compactions are behind. Which
//! compaction comes next, and when writes wait, is decided as RocksDB decides it.
//!
//! Keys are numbers; each write takes one at random. A table is a range of keys and a count, as if its keys were spread evenly over the range: merging two is arithmetic on the
//! expected number of keys that both have. So no key is kept, but files, their sizes, lives, requests and times are what they would be.
//!
//! Files lie where a [`FileSpace`] puts them. [`Conventional`] has extents on a conventional namespace. [`Zoned`] has zones, which files share by their expected lives. [`F2fs`] has the
//! logs of a log-structured file system, on either kind.
//!
//! Not modelled: deletions, merges and ranges; column families; the manifest; caches of tables' indexes, which count as there; the operating system's cache of pages,
//! but as a cache of blocks.
//!
//! ```
//! use database_models::lsm::{Config, Conventional, ConventionalConfig, Engine};
//! use workload::{Actor, Next};
//!
//! let space = Conventional::new(ConventionalConfig { blocks: 1 << 20, block_bytes: 4096, discard: false });
//! let mut engine = Engine::new(Config::db_bench(1 << 20, 20, 800, 400, 1), space, 4096);
//! let mut now = 0;
//! let first = loop {
//!     match engine.next(now) {
//!         Next::Submit(request) => break request,
//!         // The writer is at work.
//!         Next::At(at) => now = at,
//!         Next::Wait | Next::Done => return Err("sooner or later it writes to the log"),
//!     }
//! };
//! assert_eq!(first.blocks, 256);
//! # Ok::<(), &str>(())
//! ```

mod background;
mod cache;
mod config;
mod counts;
mod engine;
mod job;
mod keys;
mod pick;
mod reader;
pub mod space;
mod table;
#[cfg(test)]
mod tests;
mod writer;

pub use config::{Config, Lifetime};
pub use counts::{Counts, LEVELS};
pub use engine::Engine;
pub use space::{
    Conventional, ConventionalConfig, F2fs, F2fsConfig, FileSpace, Placement, Usage, Zoned, ZonedConfig,
};
