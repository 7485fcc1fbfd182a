//! The file store on zones, for C and C++.
//!
//! `include/tranche_store.h` says what the functions do. A static library, `libtranche_store.a`, has them; the RocksDB plug-in in `plugins/rocksdb`
//! is made of it.
//!
//! - `place` reads the place of a store, as `tranche://HOST:PORT/NSID`.
//! - `opened` is a store that this process has open: all users of a place share it.
//! - `paths` finds files by paths; `appender` collects what is appended to a file in small pieces.
//! - `ffi` is the C interface: the only place with `unsafe`. A panic never crosses it.

mod appender;
mod failure;
mod ffi;
mod file;
mod opened;
mod paths;
mod place;

pub use failure::{Code, Failure};
pub use file::{File, Mode};
pub use opened::Opened;
pub use place::Place;
