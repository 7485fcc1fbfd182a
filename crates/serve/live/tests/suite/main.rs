//! A drive under the wall clock, from outside: one program, which compiles faster than one for each file.

mod access;
mod common;
mod faults;
mod greedy_hosts;
mod live;
mod machine;
mod machine_faults;
mod machines;
mod ports;
mod power;
mod recording;
mod sockets;
mod tls;
