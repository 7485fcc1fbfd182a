//! Any bytes as superblocks and journal of a log-structured cache.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    logtier::fuzz(bytes);
});
