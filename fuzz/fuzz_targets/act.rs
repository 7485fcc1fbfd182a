//! Any text as a configuration of Aerospike's certification tool; what it asks for runs for a while.
#![no_main]
libfuzzer_sys::fuzz_target!(|text: &str| load_formats::act::fuzz(text));
