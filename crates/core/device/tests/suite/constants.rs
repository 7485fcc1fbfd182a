//! docs/features.md says which fields of vendors' logs are constant on this drive: these are, and all others tell of what happens.

use crate::common::{Bench, pattern};
use media::Rng;
use nvme::Command;
use nvme::admin::{FaultInjection, FaultKind, FormatNvm, SecureErase};
use nvme::log::{LogId, MemblazeItemId, MemblazeSmart, OcpSmart};
use nvme::zerocopy::IntoBytes;
use std::ops::Range;

/// Fields of the OCP's log by nvme-cli's names.
macro_rules! fields {
    ($($name:literal => $field:ident,)*) => {
        [$(($name, {
            let at = std::mem::offset_of!(OcpSmart, $field);
            at..at + size_of_val(&OcpSmart::default().$field)
        }),)*]
    };
}

fn ocp_fields() -> [(&'static str, Range<usize>); 38] {
    fields! {
        "Physical media units written" => physical_media_units_written,
        "Physical media units read" => physical_media_units_read,
        "Bad user nand blocks" => bad_user_nand_blocks,
        "Bad system nand blocks" => bad_system_nand_blocks,
        "XOR recovery count" => xor_recovery_count,
        "Uncorrectable read error count" => uncorrectable_read_error_count,
        "Soft ecc error count" => soft_ecc_error_count,
        "End to end detected errors" => end_to_end_detected_errors,
        "End to end corrected errors" => end_to_end_corrected_errors,
        "System data percent used" => system_data_percent_used,
        "Refresh counts" => refresh_counts,
        "Max User data erase counts" => max_user_data_erase_count,
        "Min User data erase counts" => min_user_data_erase_count,
        "Number of Thermal throttling events" => thermal_throttling_events,
        "Current throttling status" => thermal_throttling_status,
        "PCIe correctable error count" => pcie_correctable_error_count,
        "Incomplete shutdowns" => incomplete_shutdowns,
        "Percent free blocks" => percent_free_blocks,
        "Capacitor health" => capacitor_health,
        "Errata versions" => nvme_errata_versions,
        "Unaligned I/O" => unaligned_io,
        "Security Version Number" => security_version,
        "NUSE - Namespace utilization" => total_nuse,
        "PLP start count" => plp_start_count,
        "PCIe Link Retraining Count" => pcie_link_retraining_count,
        "Power State Change Count" => power_state_change_count,
        "Lowest Permitted Firmware Revision" => lowest_permitted_firmware,
        "Total die failure tolerance" => total_die_failure_tolerance,
        "Media dies offline" => media_dies_offline,
        "Max temperature recorded" => max_temperature_recorded,
        "Form factor" => form_factor,
        "Nand avg erase count" => nand_avg_erase_count,
        "Command timeouts" => command_timeouts,
        "Max peak power capability" => max_peak_power_capability,
        "Current max avg power" => current_max_avg_power,
        "Lifetime power consumed" => lifetime_power_consumed,
        "Dssd firmware build UUID" => dssd_firmware_build_uuid,
        "Dssd firmware build label" => dssd_firmware_build_label,
    }
}

/// What a row of the table in docs/features.md lists as `names`.
fn listed(row: &str) -> Vec<String> {
    let page = format!("{}/../../../docs/features.md", env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(page).unwrap();
    let line = page.lines().find(|line| line.starts_with(&format!("| {row} |")));
    let line = line.unwrap_or_else(|| panic!("docs/features.md has a row {row:?}"));
    line.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

fn log<T: nvme::zerocopy::FromBytes>(b: &mut Bench, lid: LogId) -> T {
    b.ask(Command::get_log_page(lid, nvme::NSID_ALL, 0, 0, 512))
}

fn fault(kind: FaultKind, count: u32) -> FaultInjection {
    FaultInjection { nsid: 0, kind, nvmsetid: 1, count, one_in: 0, param: 0, lba: None }
}

/// A drive that much has happened to, and both logs before and after.
fn worked() -> [(OcpSmart, MemblazeSmart); 2] {
    let mut b = Bench::with_namespaces(&[]);
    let before = (log(&mut b, LogId::OCP_SMART), log(&mut b, LogId::MEMBLAZE_SMART));
    let mut rng = Rng::new(1);
    let mut write = |b: &mut Bench, rounds: u32| {
        for round in 0..rounds {
            b.write(1, rng.below(64) * 16, 16, &pattern(round, 65536));
        }
    };
    // Every block is erased, and counts in units of 32 MiB move.
    write(&mut b, 4000);
    b.admin_ok(fault(FaultKind::PROGRAM_FAILURE, 2), &[]);
    write(&mut b, 500);
    b.admin_ok(fault(FaultKind::ERASE_FAILURE, 1), &[]);
    write(&mut b, 500);
    for lba in (0..1024).step_by(16).cycle().take(600) {
        b.read(1, lba, 16);
    }
    b.admin_ok(fault(FaultKind::UNCORRECTABLE, 1), &[]);
    for lba in 0..1024 {
        b.io(Command::read(1, lba, 1), &[]);
    }
    // Blocks of 512 bytes are no whole units of the drive.
    b.admin_ok(FormatNvm { nsid: 2, lbaf: 1, mset: false, pi: 0, pil: false, ses: SecureErase::NONE }, &[]);
    b.write(2, 1, 1, &[1; 512]);
    b.cut(true);
    b.power_on();
    b.cut(false);
    b.power_on();
    [before, (log(&mut b, LogId::OCP_SMART), log(&mut b, LogId::MEMBLAZE_SMART))]
}

#[test]
fn what_is_constant_is_said_and_all_else_moves() {
    let [(ocp, memblaze), (ocp_after, memblaze_after)] = worked();
    let constant = listed("OCP extended SMART log");
    let mut found = Vec::new();
    for (name, bytes) in ocp_fields() {
        if ocp.as_bytes()[bytes.clone()] == ocp_after.as_bytes()[bytes] {
            found.push(name);
        }
    }
    // Their raw counts and normalized values are one line in the document.
    for system in ["program fail", "uncorrectable read", "erase fail"] {
        assert!(constant.contains(&format!("Sys area {system} count")), "{system}");
    }
    assert_eq!(
        [
            (ocp_after.system_program_fail_raw.get(), ocp_after.system_program_fail_normalized),
            (ocp_after.system_uncorrectable_read_raw.get(), ocp_after.system_uncorrectable_read_normalized),
            (ocp_after.system_erase_fail_raw.get(), ocp_after.system_erase_fail_normalized),
        ],
        [(0, 100); 3]
    );
    let others: Vec<&String> = constant.iter().filter(|name| !name.starts_with("Sys area")).collect();
    let items = memblaze.item.iter().zip(&memblaze_after.item);
    let same: Vec<&str> = items
        .filter(|(before, after)| before.as_bytes() == after.as_bytes())
        .map(|(item, _)| MemblazeItemId(item.id[0]).name().unwrap())
        .collect();
    assert_eq!(others, found);
    assert_eq!(listed("Memblaze's SMART log"), same);
}
