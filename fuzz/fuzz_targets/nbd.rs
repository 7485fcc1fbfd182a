//! Any client of NBD.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| export::nbd::fuzz(bytes));
