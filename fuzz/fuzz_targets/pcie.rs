//! Any accesses of a PCI host and any contents of its memory.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pcie::fuzz(bytes));
