//! Any messages of authentication, to both sides.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fabric::auth::fuzz(bytes));
