//! Any text as the TOML of a drive.
#![no_main]
libfuzzer_sys::fuzz_target!(|text: &str| {
    let _ = device::Config::from_toml(text);
});
