//! Hosts that do anything on several connections to a whole drive.
#![no_main]

use signal_hook::consts::SIGPIPE;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

libfuzzer_sys::fuzz_target!(
    init: {
        // Whose socket has gone is a result of a write. Rust's own start of a program sees to that, which is not used here.
        let _ = signal_hook::flag::register(SIGPIPE, Arc::new(AtomicBool::new(false)));
    },
    |script: &[u8]| live::fuzz_hosts(script)
);
