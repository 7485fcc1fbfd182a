//! Any 64 bytes parse to a typed command or a status, and any bytes are a report of zones.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    use zerocopy::FromBytes;
    if let Ok((command, _)) = nvme::Command::ref_from_prefix(bytes) {
        let _ = nvme::AdminCommand::parse(command);
        let _ = nvme::IoCommand::parse(command);
        let _ = nvme::fabrics::FabricsCommand::parse(command);
        let _ = nvme::data_transfer(command, false, |_| 4096);
    }
    if let Some((units, bytes)) = bytes.split_first()
        && let Some(report) = nvme::zone::ZoneReport::parse(bytes, usize::from(*units) * 64)
    {
        assert!(report.zones().count() as u64 <= report.nzones());
    }
});
