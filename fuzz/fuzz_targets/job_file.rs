//! Any text as a fio job file; what it asks for runs for a while.
#![no_main]
libfuzzer_sys::fuzz_target!(|text: &str| load_formats::fio::fuzz(text));
