//! A stock Linux kernel with drives on its PCI bus, over vfio-user: see `pci.sh`. `scripts/qemu.sh` fetches a QEMU that has such devices.

use super::{Drive, Ended, Guest, TRANCHE, nand_with_1_gib, tenants_drive, unprotected, upkeep_drive};
use host::{Host, Identity, SocketTransport};
use std::ffi::OsStr;
use std::net::TcpListener;
use std::path::PathBuf;
use std::time::Duration;

/// `pci.sh` flushes this text before the drive is killed.
const FLUSHED: &str = "flushed before the drive was killed\n";
/// The first of its blocks of 4 KiB.
const FLUSHED_LBA: u64 = 8256 * 16;
/// Bytes of it.
const FLUSHED_BYTES: usize = 4 << 20;

/// Options of `tranche serve` for PCI devices.
fn options(sockets: &[PathBuf]) -> Vec<&OsStr> {
    sockets.iter().flat_map(|socket| ["--pci".as_ref(), socket.as_os_str()]).collect()
}

/// The text that was flushed is in the image.
fn has_what_was_flushed(drive: &Drive) {
    let address = drive.served.tcp()[0].parse().unwrap();
    let transport = SocketTransport::new(address, Duration::from_secs(60));
    let mut host =
        Host::connect(transport, &Identity::new("nqn.2026-11.test:host".parse().unwrap())).unwrap();
    let namespace = host.namespace(1).unwrap();
    let mut queue = host.io_queue(8).unwrap();
    let mut bytes = vec![0; FLUSHED_BYTES];
    queue.read(&namespace, FLUSHED_LBA, &mut bytes).unwrap();
    let expected: Vec<u8> = FLUSHED.bytes().cycle().take(FLUSHED_BYTES).collect();
    assert!(bytes == expected, "what was flushed before the drive was killed");
}

#[test]
fn a_linux_host_has_drives_on_its_pci_bus() {
    let name = "a_linux_host_has_drives_on_its_pci_bus";
    let temporary = tempfile::tempdir().unwrap();
    let at = |file: &str| temporary.path().join(file);
    let sockets = ["first", "second", "upkeep", "volatile"].map(|socket| at(&format!("{socket}.sock")));
    let _tenants = tenants_drive(temporary.path(), &options(&sockets[..2]));
    let _upkeep = upkeep_drive(temporary.path(), &options(&sockets[2..3]));
    let (toml, image) = (at("volatile.toml"), at("volatile"));
    std::fs::write(&toml, unprotected() + &nand_with_1_gib("1152MiB")).unwrap();
    let more = [&[toml.as_os_str()][..], &options(&sockets[3..])].concat();
    let mut volatile = Drive::start_with(&image, 0, &more);
    // The guest connects when the drive is to be killed.
    let signal = TcpListener::bind("127.0.0.1:0").unwrap();
    signal.set_nonblocking(true).unwrap();
    let port = signal.local_addr().unwrap().port();

    let mut guest_options = vec!["-t", "900", "-c", "6"];
    guest_options.extend(sockets.iter().flat_map(|socket| ["-v", socket.to_str().unwrap()]));
    let Some(mut guest) = Guest::boot_with(name, "pci.sh", &["fio"], &guest_options, port, &[TRANCHE]) else {
        return;
    };
    let mut is_killed = false;
    loop {
        match guest.ended() {
            Some(Ended::Skipped(why)) => return testkit::skipped(name, &why),
            Some(Ended::With(status, log)) => {
                let is_well = status.success() && log.contains("== all is well after the kill");
                // QEMU 11.1 may stop at an assertion of its own when a device goes away under load.
                let has_qemu_failed = is_killed && log.contains("error_setv: Assertion");
                assert!(is_well || has_qemu_failed, "{status}");
                break;
            }
            None if signal.accept().is_ok() => {
                volatile.served.kill();
                is_killed = true;
            }
            None => {}
        }
    }
    assert!(is_killed, "the guest did not ask for it");
    has_what_was_flushed(&Drive::start_with(&image, 0, &[]));
}
