//! Any stream of bytes on either end of a connection.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fabric::fuzz(bytes));
