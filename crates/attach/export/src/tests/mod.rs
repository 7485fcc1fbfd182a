//! Tests over a drive in memory: of the requests alone, and through the kernel.

mod backend;
mod extents;
mod memory;
mod mounted;
mod nbd;
mod nbd_parser;
mod replaced;
mod request_queue;
mod ublk;
mod zoned;
mod zones;
