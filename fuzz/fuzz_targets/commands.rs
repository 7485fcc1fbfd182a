//! Any 64 bytes parse to a typed command or a status.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    use zerocopy::FromBytes;
    if let Ok((command, _)) = nvme::Command::ref_from_prefix(bytes) {
        let _ = nvme::AdminCommand::parse(command);
        let _ = nvme::IoCommand::parse(command);
        let _ = nvme::fabrics::FabricsCommand::parse(command);
    }
});
