//! Drives in virtual time, from outside: one program, which compiles faster than one for each file.

mod block_devices;
mod block_layer;
#[path = "../../../live/tests/suite/common/mod.rs"]
mod common;
mod machine;
mod protocol_faults;
mod virtual_time;
