//! Hosts that do anything on several connections to a whole drive.
#![no_main]
libfuzzer_sys::fuzz_target!(|script: &[u8]| run::fuzz_hosts(script));
