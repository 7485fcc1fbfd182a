//! Tests over a drive in memory: of the requests alone, and through the kernel.

mod engine;
mod memory;
mod mounted;
#[path = "../../tests/support/mod.rs"]
mod support;
mod zoned;
mod zones;
