//! Any bytes as the metadata of a cache tier.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    tier::fuzz(bytes);
});
