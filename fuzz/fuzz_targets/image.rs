//! Any bytes as the checkpoint or journal of an image.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    image::fuzz_open(bytes);
});
