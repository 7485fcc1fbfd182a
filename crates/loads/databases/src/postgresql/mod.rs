//! PostgreSQL under TPC-C, as a drive sees it: a closed-loop model in virtual time.
//!
//! Connections run TPC-C's transactions ([`TransactionKind`]) without pause. They are those of [`innodb`](crate::innodb), on a heap with indexes. A transaction is a
//! sequence of uses of pages: a processor among [`Config::cores`], then the leaf of the index, then the page of the heap. Each is in the buffer pool, or is read
//! while the connection waits.
//!
//! The rules, and where they are from ("documentation" and "source" are PostgreSQL's, of 13 to 18):
//!
//! - **Buffer pool**: pages of 8 KiB. A clock hand goes over them; each use counts, up to 5, and each pass of the hand takes one away
//!   (source, `storage/buffer/README` and `freelist.c`). Who needs the place of a dirty page writes that page first (`bufmgr.c`, `GetVictimBuffer`).
//! - **Log before data**: a page is written after the log of its last change was flushed (documentation, "Write-Ahead Logging").
//! - **Full-page images**: the first change of a page after the begin of a checkpoint has the page whole in the log (documentation, `full_page_writes`).
//! - **Log**: it is written in whole pages of 8 KiB, and flushed for all who wait at once (source, `xlog.c`, `XLogFlush`). A commit waits `commit_delay` before that
//!   if as many others as `commit_siblings` are active (documentation). It is written early when `wal_buffers` are full, and each `wal_writer_delay`.
//!   Segments are used again, so nothing but their content is synced (`wal_recycle`). Without that, each new one is filled with zeroes before (`wal_init_zero`).
//! - **Checkpoints** begin after `checkpoint_timeout`, or when there is `max_wal_size` / (1 + `checkpoint_completion_target`) of log since the begin of the one before
//!   (source, `xlog.c`, `CalculateCheckpointSegments`). All pages that are dirty then are written, in the order of their places (`bufmgr.c`, `BufferSync`). The
//!   checkpointer sleeps for 100 ms when it is ahead of its target in time and in log (`checkpointer.c`, `IsCheckpointOnSchedule`). After the last page the files are
//!   synced, and the log has a record.
//! - **Background writer**: each `bgwriter_delay` it looks for clean pages ahead of the hand (`bufmgr.c`, `BgBufferSync`). It wants as many as were needed
//!   lately, times `bgwriter_lru_multiplier`. It writes dirty ones on the way, `bgwriter_lru_maxpages` at most. It does not sleep for longer when there is little to do.
//!
//! The figures:
//!
//! - [`Config::record`], [`Config::commit_record`] and [`Config::image`] are fitted to one measurement of pgbench with PostgreSQL 15 (`docs/howto/postgresql.md`):
//!   565 bytes of log for a transaction with four changes, and 1.88 images for one with 15,266 bytes.
//! - The sizes of rows are those of the live study's tables in InnoDB, within the few bytes by which the headers of rows differ.
//! - [`Config::statement`] is that of the InnoDB model, which was fitted to Percona Server. It is fitted to nothing of PostgreSQL.
//!
//! Simplified: the page cache of the operating system is left out. A read that misses the buffer pool reads the drive. A written page goes to the drive at once, and who wrote it waits
//! (a connection), or has so many under way as `checkpoint_flush_after` says (the checkpointer). Rows are changed on the page that they are on (heap-only tuples), so that no index changes.
//! All connections but the one that commits count as active (`commit_siblings`). The model begins with a checkpoint. The sync at the end of a checkpoint is one flush. Not modelled: locks, vacuum, hint bits, splits of pages, reading ahead, replication, and
//! the file system's journal.
//!
//! ```
//! use database_models::postgresql::{Config, Postgresql, Volume};
//! use workload::{Actor, Next, Verb};
//!
//! let volume = Volume { blocks: 1 << 20, block_bytes: 4096 };
//! let mut model = Postgresql::new(Config::new(4, volume, 1)).ok_or("too small")?;
//! let mut now = 0;
//! let first = loop {
//!     match model.next(now) {
//!         Next::Submit(request) if request.verb == Verb::Read => break request,
//!         // The first checkpoint has no pages; it is a flush.
//!         Next::Submit(_) => {}
//!         // Processors are at work.
//!         Next::At(at) => now = at,
//!         Next::Wait | Next::Done => return Err("sooner or later it has to read"),
//!     }
//! };
//! assert_eq!(first.blocks, 2);
//! # Ok::<(), &str>(())
//! ```

mod changed;
mod checkpoint;
mod config;
mod pool;
mod server;
#[cfg(test)]
mod tests;

pub use config::{Config, Counts, OwnCounts, PAGE};
pub use server::Postgresql;

pub use crate::database::{Area, TransactionKind, Volume};
