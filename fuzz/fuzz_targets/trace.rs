//! Any bytes as a block trace, which is replayed.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| load_formats::trace::fuzz(bytes));
