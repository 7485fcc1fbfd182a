//! A stock Linux kernel, booted in an emulated machine, as a host of the drive over NVMe/TCP and PCI Express: see the scripts in `guest/`.
//! Needs what `scripts/guest.sh` needs; says so where it is missing.

mod common;
#[path = "guest/dm_cache.rs"]
mod dm_cache;
#[path = "guest/pci.rs"]
mod pci;

use common::{Served, TRANCHE};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use serde_json::Value;

const NQN: &str = "nqn.2026-11.io.tranche:drive";

/// A drive in an image, on one port.
struct Drive {
    served: Served,
    port: u16,
}

impl Drive {
    fn start(image: &Path, port: u16) -> Self {
        Self::start_with(image, port, &[])
    }

    fn start_with(image: &Path, port: u16, more: &[&OsStr]) -> Self {
        let at = format!("127.0.0.1:{port}");
        let arguments = ["serve", "--timing", "off", "--no-host-sync", "--tcp", &at, "--image"];
        let served = Served::run(Command::new(TRANCHE).args(arguments).arg(image).args(more));
        let port = port_of(&served.tcp()[0]);
        Drive { served, port }
    }

    /// Write commands of hosts so far.
    fn writes(&self) -> u64 {
        let on = &self.served.tcp()[0];
        let smart = Command::new(TRANCHE).args(["smart", "--output", "json", "--on", on]).output().unwrap();
        let smart: Value = serde_json::from_slice(&smart.stdout).expect("SMART");
        smart["host_write_commands"].as_u64().expect("a count")
    }
}

/// The port of an address.
fn port_of(address: &str) -> u16 {
    address.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).expect("a port")
}

/// A script of `guest/`, running in a guest with the drive's address, port and NQN, and further arguments.
struct Guest {
    process: Child,
    log: PathBuf,
    begun: Instant,
    _temporary: tempfile::TempDir,
}

/// How a guest has ended.
enum Ended {
    /// There is no kernel to boot: why.
    Skipped(String),
    /// Its exit status, and all that it said.
    With(ExitStatus, String),
}

impl Guest {
    /// Boots it, unless something that it needs is missing.
    fn boot(test: &str, script: &str, needed: &[&str], port: u16, more: &[&str]) -> Option<Self> {
        Self::boot_with(test, script, needed, &["-t", "400"], port, more)
    }

    /// Boots it with options of `scripts/guest.sh`.
    fn boot_with(
        test: &str,
        script: &str,
        needed: &[&str],
        options: &[&str],
        port: u16,
        more: &[&str],
    ) -> Option<Self> {
        let always = ["qemu-system-x86_64", "busybox", "nvme", "cpio", "modprobe", "xz"];
        if !testkit::possible(test, &[&always, needed].concat()) {
            return None;
        }
        let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../..");
        let temporary = tempfile::tempdir().unwrap();
        let log = temporary.path().join("log");
        let file = std::fs::File::create(&log).unwrap();
        let process = Command::new(root.join("scripts/guest.sh"))
            .args(options)
            .arg("sh")
            .arg(root.join("crates/app/tranche/tests/guest").join(script).canonicalize().unwrap())
            .args(["10.0.2.2", &port.to_string(), NQN])
            .args(more)
            .stdout(file.try_clone().unwrap())
            .stderr(file)
            .spawn()
            .unwrap();
        Some(Guest { process, log, begun: Instant::now(), _temporary: temporary })
    }

    /// Waits for its end, which must be a good one; all that it said, unless it was skipped.
    fn must_be_well(self, test: &str) -> Option<String> {
        self.must_be_well_while(test, || {})
    }

    /// Does this again and again until it has ended well; all that it said, unless it was skipped.
    fn must_be_well_while(mut self, test: &str, mut meanwhile: impl FnMut()) -> Option<String> {
        loop {
            match self.ended() {
                Some(Ended::Skipped(why)) => {
                    testkit::skipped(test, &why);
                    return None;
                }
                Some(Ended::With(status, log)) => {
                    assert!(status.success() && log.contains("== all is well"), "{status}");
                    return Some(log);
                }
                None => meanwhile(),
            }
        }
    }

    /// How it ended, if it has.
    fn ended(&mut self) -> Option<Ended> {
        let Some(status) = self.process.try_wait().unwrap() else {
            assert!(self.begun.elapsed() < Duration::from_secs(1000), "the guest hangs");
            std::thread::sleep(Duration::from_millis(300));
            return None;
        };
        let log = std::fs::read(&self.log).unwrap();
        let log = String::from_utf8_lossy(&log).into_owned();
        println!("{log}");
        if status.code() == Some(77) { Some(Ended::Skipped(log)) } else { Some(Ended::With(status, log)) }
    }
}

/// A set of NAND of this capacity, with a namespace of 1 GiB.
fn nand_with_1_gib(capacity: &str) -> String {
    format!(
        r#"
[[set]]
media = "nand"
cell = "tlc"
capacity = "{capacity}"
spare = "12.5%"
channels = 4
dies = 4
planes = 2
nand_page = "16KiB"
pages_per_block = 48
rated_cycles = 3000
[[namespace]]
size = "1GiB"
lba = 4096
"#
    )
}

#[test]
fn a_linux_host_attaches_uses_and_keeps_the_drive() {
    let name = "a_linux_host_attaches_uses_and_keeps_the_drive";
    let temporary = tempfile::tempdir().unwrap();
    let image = temporary.path().join("image");
    let mut drive = Drive::start(&image, 0);
    let port = drive.port;
    let Some(guest) = Guest::boot(name, "host.sh", &["fio", "mkfs.xfs"], port, &[]) else { return };
    // The last load makes 8,192 writes; all before it make fewer than 4,000.
    let mut killed = false;
    let ended = guest.must_be_well_while(name, || {
        if !killed && drive.writes() > 6_000 {
            drive.served.kill();
            std::thread::sleep(Duration::from_secs(1));
            drive = Drive::start(&image, port);
            killed = true;
        }
    });
    assert!(killed || ended.is_none());
}

/// A runner of a CI system that connects its own kernel to a drive: see `guest/ci-drive.sh`.
#[test]
fn a_job_has_a_device_of_the_kernel() {
    let name = "a_job_has_a_device_of_the_kernel";
    let scripts = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../scripts").canonicalize().unwrap();
    let arguments = [scripts.to_str().unwrap(), TRANCHE];
    if let Some(guest) = Guest::boot(name, "ci-drive.sh", &[], 0, &arguments) {
        guest.must_be_well(name);
    }
}

/// The list of hosts and DH-HMAC-CHAP: see `guest/auth.sh`.
#[test]
fn a_linux_host_proves_who_it_is() {
    let name = "a_linux_host_proves_who_it_is";
    let temporary = tempfile::tempdir().unwrap();
    let key = |file: &str, hmac: &str| {
        let made = Command::new(TRANCHE).args(["key", "dhchap", "--hmac", hmac]).output().unwrap();
        std::fs::write(temporary.path().join(file), &made.stdout).unwrap();
    };
    for (file, hmac) in
        [("plain", "0"), ("sha384", "2"), ("group", "1"), ("both", "3"), ("both.ctrl", "1"), ("late", "0")]
    {
        key(file, hmac);
    }
    let hosts = temporary.path().join("hosts.toml");
    let list = r#"
        [[host]]
        nqn = "nqn.2026-11.test:free"
        [[host]]
        nqn = "nqn.2026-11.test:plain"
        dhchap_key_file = "plain"
        [[host]]
        nqn = "nqn.2026-11.test:sha384"
        dhchap_key_file = "sha384"
        dhchap_hash = "sha384"
        [[host]]
        nqn = "nqn.2026-11.test:group"
        dhchap_key_file = "group"
        dhchap_hash = ["sha512"]
        dhchap_dhgroup = ["ffdhe3072", "ffdhe2048"]
        [[host]]
        nqn = "nqn.2026-11.test:both"
        dhchap_key_file = "both"
        dhchap_ctrl_key_file = "both.ctrl"
        dhchap_dhgroup = "ffdhe2048"
        [[host]]
        nqn = "nqn.2026-11.test:late"
        dhchap_key_file = "late"
        expires = 2001-01-01
    "#;
    std::fs::write(&hosts, list).unwrap();
    let image = temporary.path().join("image");
    let drive = Drive::start_with(&image, 0, &["--hosts".as_ref(), hosts.as_ref()]);
    let keys = temporary.path().to_str().unwrap();
    let Some(guest) = Guest::boot(name, "auth.sh", &[], drive.port, &[keys]) else { return };
    guest.must_be_well(name);
}

/// NVMe/TCP over TLS 1.3, with the kernel's record layer and tlshd: see `guest/tls.sh`.
#[test]
fn a_linux_host_speaks_tls() {
    let name = "a_linux_host_speaks_tls";
    let temporary = tempfile::tempdir().unwrap();
    let userland = match userland() {
        Ok(root) => root,
        Err(why) => return testkit::skipped(name, &why),
    };
    for (file, kind, hmac) in [
        ("alone", "tls", "1"),
        ("both", "tls", "1"),
        ("other", "tls", "1"),
        ("chap", "dhchap", "0"),
        ("chap.ctrl", "dhchap", "1"),
    ] {
        let made = Command::new(TRANCHE).args(["key", kind, "--hmac", hmac]).output().unwrap();
        std::fs::write(temporary.path().join(file), &made.stdout).unwrap();
    }
    let hosts = temporary.path().join("hosts.toml");
    let list = r#"
        [[host]]
        nqn = "nqn.2026-11.test:alone"
        tls_psk_file = "alone"
        [[host]]
        nqn = "nqn.2026-11.test:both"
        tls_psk_file = "both"
        dhchap_key_file = "chap"
        dhchap_ctrl_key_file = "chap.ctrl"
        [[host]]
        nqn = "nqn.2026-11.test:wrong"
        tls_psk_file = "other"
        [[host]]
        nqn = "nqn.2026-11.test:keyless"
    "#;
    std::fs::write(&hosts, list).unwrap();
    let image = temporary.path().join("image");
    let drive = Drive::start_with(&image, 0, &["--tls".as_ref(), "--hosts".as_ref(), hosts.as_ref()]);
    let more = [temporary.path(), &userland].map(|path| path.to_str().unwrap());
    let Some(guest) = Guest::boot(name, "tls.sh", &[], drive.port, &more) else { return };
    guest.must_be_well(name);
}

/// The file of the default drive, with power cuts and faults for hosts on the network.
fn harmful(directory: &Path) -> PathBuf {
    let shown = Command::new(TRANCHE).args(["profile", "show", "default"]).output().unwrap();
    let toml = String::from_utf8(shown.stdout).unwrap();
    let toml = toml.replacen("[drive]\n", "[drive]\nallow_network_faults = true\n", 1);
    let file = directory.join("drive.toml");
    std::fs::write(&file, toml).unwrap();
    file
}

/// Native multipath of the kernel, over two ports that change their states and go down under load.
#[test]
fn a_linux_host_with_two_paths_loses_nothing() {
    let name = "a_linux_host_with_two_paths_loses_nothing";
    let temporary = tempfile::tempdir().unwrap();
    let file = harmful(temporary.path());
    let (first, second) = ("127.0.0.1:0", "127.0.0.1:0,ana=non-optimized");
    let arguments = ["serve", "--timing", "off", "--tcp", first, "--tcp", second];
    let served = Served::run(Command::new(TRANCHE).args(arguments).arg(&file));
    let ports = served.tcp();
    let (first, second) = (port_of(&ports[0]), port_of(&ports[1]).to_string());
    let Some(guest) = Guest::boot(name, "multipath.sh", &["fio", "python3"], first, &[&second]) else {
        return;
    };
    guest.must_be_well(name);
}

/// The file of a drive with one conventional namespace of 1 GiB, without power-loss protection: with capacitors, a Flush has nothing to do, and says
/// nothing about what is left when they fail.
fn volatile(directory: &Path) -> PathBuf {
    let file = harmful(directory);
    let toml = std::fs::read_to_string(&file).unwrap();
    let toml = toml.replacen("[drive]\n", "[drive]\npower_loss_protection = false\n", 1);
    std::fs::write(&file, toml.replace("zone = { zrwa = 14 }\n", "")).unwrap();
    file
}

/// The kernel's NBD driver: a file system, discards, and the power of the drive cut under it: see `guest/nbd.sh`.
#[test]
fn a_linux_kernel_without_nvme_uses_nbd() {
    let name = "a_linux_kernel_without_nvme_uses_nbd";
    let temporary = tempfile::tempdir().unwrap();
    let file = volatile(temporary.path());
    let arguments = ["serve", "--timing", "off", "--tcp", "127.0.0.1:0", "--nbd", "127.0.0.1:0"];
    let served = Served::run(Command::new(TRANCHE).args(arguments).arg(&file));
    let (port, nbd) = (port_of(&served.tcp()[0]), port_of(&served.nbd()[0]).to_string());
    let needed = ["nbd-client", "mkfs.ext4", "fsck.ext4", "python3"];
    let Some(guest) = Guest::boot(name, "nbd.sh", &needed, port, &[&nbd, TRANCHE]) else { return };
    guest.must_be_well(name);
}

/// The kernel's ublk driver: a file system, discards, namespaces that come and go, the power of the drive cut under it, and the program stopped and
/// killed: see `guest/ublk.sh`, which serves the drive in the guest.
#[test]
fn a_linux_kernel_has_namespaces_as_ublk_devices() {
    let name = "a_linux_kernel_has_namespaces_as_ublk_devices";
    let temporary = tempfile::tempdir().unwrap();
    let file = volatile(temporary.path());
    let toml =
        std::fs::read_to_string(&file).unwrap() + "\n[[set]] # 3\nmedia = \"dram\"\ncapacity = \"5GiB\"\n";
    std::fs::write(&file, toml).unwrap();
    let needed = ["mkfs.ext4", "fsck.ext4", "python3", "setpriv"];
    let arguments = [file.to_str().unwrap(), TRANCHE];
    let Some(guest) = Guest::boot(name, "ublk.sh", &needed, 0, &arguments) else { return };
    guest.must_be_well(name);
}

/// NVM Set 3, of NAND, with further keys, and namespace 2 on it.
fn placed_set(keys: &str) -> String {
    let flash = testkit::drives::flash("256MiB", keys);
    format!(
        r#"
{flash}
[[namespace]] # 2
set = 3
size = "64MiB"
lba = 4096
"#
    )
}

/// The drive of `guest/tenants.sh` in a directory, with further options.
fn tenants_drive(directory: &Path, options: &[&OsStr]) -> Drive {
    let made = |file: &str, arguments: &[&str], change: fn(String) -> String| {
        let output = Command::new(TRANCHE).args(arguments).output().unwrap();
        let path = directory.join(file);
        std::fs::write(&path, change(String::from_utf8(output.stdout).unwrap())).unwrap();
        path
    };
    let key = made("key", &["key", "drive"], |key| key);
    let toml = made("tenants.toml", &["profile", "show", "default"], |toml| {
        toml + &placed_set("placement = { handles = 4, fdp = true }")
    });
    let more = ["--drive-key".as_ref(), key.as_os_str(), toml.as_os_str()];
    Drive::start_with(&directory.join("tenants"), 0, &[&more, options].concat())
}

/// Namespaces as tenants, with nvme-cli alone: see `guest/tenants.sh`. What it prints is a transcript.
#[test]
fn linux_hosts_manage_namespaces_as_tenants() {
    let name = "linux_hosts_manage_namespaces_as_tenants";
    let temporary = tempfile::tempdir().unwrap();
    let drive = tenants_drive(temporary.path(), &[]);
    let Some(guest) = Guest::boot(name, "tenants.sh", &[], drive.port, &[]) else { return };
    guest.must_be_well(name);
}

/// The drive of `guest/upkeep.sh` in a directory, with further options.
fn upkeep_drive(directory: &Path, options: &[&OsStr]) -> Drive {
    let placed = placed_set("placement = { handles = 4 }\nwindow = { superblocks = 12, time = \"10s\" }");
    let file = directory.join("upkeep.toml");
    std::fs::write(&file, protected() + &placed).unwrap();
    Drive::start_with(&directory.join("upkeep"), 0, &[&[file.as_os_str()][..], options].concat())
}

/// What whoever runs a drive does with it, with nvme-cli alone: see `guest/upkeep.sh`. What it prints is a transcript.
#[test]
fn a_linux_host_looks_after_the_drive() {
    let name = "a_linux_host_looks_after_the_drive";
    let temporary = tempfile::tempdir().unwrap();
    let drive = upkeep_drive(temporary.path(), &[]);
    let Some(guest) = Guest::boot(name, "upkeep.sh", &[], drive.port, &[TRANCHE]) else { return };
    guest.must_be_well(name);
}

/// A set like [`placed_set`]'s with zones of 2 MiB, all of which can be written, as dm-zoned wants them. It opens a zone for each part of its
/// device, and asks for no limit.
const WHOLE_ZONES: &str = r#"
[[set]]
media = "nand"
cell = "qlc"
capacity = "128MiB"
spare = "60%"
channels = 2
dies = 4
planes = 2
nand_page = "4KiB"
pages_per_block = 64
rated_cycles = 1000
zone = { active = 32, share = 0 }
"#;

/// The programs of Debian 13 that a guest needs, in a directory; or why they are missing.
fn userland() -> Result<PathBuf, String> {
    let target = Path::new(TRANCHE).parent().and_then(Path::parent).unwrap();
    let userland = target.join("guest/userland");
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let made = Command::new(root.join("scripts/guest-userland.sh")).arg(&userland).output().unwrap();
    if made.status.code() == Some(77) {
        return Err(String::from_utf8_lossy(&made.stderr).into_owned());
    }
    assert!(made.status.success(), "{made:?}");
    Ok(userland.join("root"))
}

/// A set like [`placed_set`]'s as number `set` with zones of 8 MiB, as btrfs wants at least 4 MiB, and a conventional namespace on which f2fs fits.
fn zones_of_8_mib(set: u32, keys: &str) -> String {
    let zone = format!("zone = {{ active = 17{keys} }}");
    placed_set(&zone)
        .replace("pages_per_block = 48", "pages_per_block = 192")
        .replace("\"256MiB\"", "\"768MiB\"")
        .replace("\"64MiB\"", "\"128MiB\"")
        .replace("set = 3\n", &format!("set = {set}\n"))
}

/// The default drive, whose power hosts may cut.
fn protected() -> String {
    let shown = Command::new(TRANCHE).args(["profile", "show", "default"]).output().unwrap();
    let default = String::from_utf8(shown.stdout).unwrap();
    default.replacen("[drive]\n", "[drive]\nallow_network_faults = true\n", 1)
}

/// A second drive beside it, without power-loss protection, and without sets. Linux takes no namespaces of the same identifiers, which follow from
/// the serial number.
fn unprotected() -> String {
    format!(
        r#"
[drive]
nqn = "{NQN}2"
serial = "TRANCHE0002"
allow_network_faults = true
power_loss_protection = false
"#
    )
}

/// Two such drives in a directory, with what their TOML says of sets.
fn two_drives(directory: &Path, sets: &str, volatile_sets: &str) -> (Drive, Drive) {
    let start = |name: &str, toml: String| {
        let file = directory.join(format!("{name}.toml"));
        std::fs::write(&file, toml).unwrap();
        Drive::start_with(&directory.join(name), 0, &[file.as_os_str()])
    };
    (start("protected", protected() + sets), start("volatile", unprotected() + volatile_sets))
}

/// Linux loses the power of its drive in the middle of what fio, zonefs, btrfs and f2fs do: see `guest/zone-cuts.sh`. dm-zoned is
/// [`a_linux_host_uses_zones`]'s.
#[test]
fn what_linux_synced_on_zones_outlives_power_cuts() {
    let name = "what_linux_synced_on_zones_outlives_power_cuts";
    let temporary = tempfile::tempdir().unwrap();
    let (drive, volatile) = two_drives(temporary.path(), &zones_of_8_mib(3, ""), &zones_of_8_mib(1, ""));
    let needed = ["blkzone", "fio", "mkfs.btrfs", "mkfs.f2fs", "python3"];
    let more = [TRANCHE, &volatile.port.to_string()];
    let Some(guest) = Guest::boot_with(name, "zone-cuts.sh", &needed, &["-t", "900"], drive.port, &more)
    else {
        return;
    };
    guest.must_be_well(name);
}

/// A zoned namespace, with what Linux has for zones: see `guest/zones.sh` and `guest/dm-zoned.sh`.
#[test]
fn a_linux_host_uses_zones() {
    let name = "a_linux_host_uses_zones";
    let temporary = tempfile::tempdir().unwrap();
    let keys = r#", zrwa = 2, zrwa_size = "64KiB", zrwa_granularity = "8KiB""#;
    let sets = zones_of_8_mib(3, keys) + WHOLE_ZONES;
    let (drive, volatile) = two_drives(temporary.path(), &sets, WHOLE_ZONES);
    let needed = ["blkzone", "e2fsck", "fio", "mkfs.btrfs", "mkfs.ext4", "mkfs.f2fs", "python3"];
    let userland = userland();
    let port = volatile.port.to_string();
    let mut more = vec![TRANCHE];
    match &userland {
        Ok(root) => more.extend([port.as_str(), root.to_str().unwrap()]),
        Err(why) => testkit::skipped("dm-zoned", why),
    }
    // It does more than the others.
    let options = ["-t", "900"];
    let Some(guest) = Guest::boot_with(name, "zones.sh", &needed, &options, drive.port, &more) else {
        return;
    };
    let Some(log) = guest.must_be_well(name) else { return };
    assert_eq!(answers(&log), 3);
    if userland.is_ok() {
        let crashed = log.lines().find_map(|line| line.trim().strip_prefix("CRASHED ")).expect("a crash");
        more.extend(crashed.split(' '));
        let Some(guest) = Guest::boot(name, "dm-zoned.sh", &needed, drive.port, &more) else { return };
        guest.must_be_well(name);
    }
}

/// Holds nvme-cli's answers in a log against ours. How many there are.
fn answers(log: &str) -> usize {
    let mut differences = Vec::new();
    let mut asked = 0;
    for line in log.lines().filter_map(|line| line.trim().strip_prefix("ANSWERS ")) {
        let answers: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        let about = answers["nvme"].as_str().unwrap_or_default();
        differ(about, &answers["theirs"], &answers["ours"], &mut differences);
        asked += 1;
    }
    assert_eq!(differences, Vec::<String>::new());
    asked
}

/// Every key of nvme-cli's answers is in ours, with the same value.
#[test]
fn nvme_cli_and_tranche_say_the_same() {
    let name = "nvme_cli_and_tranche_say_the_same";
    let temporary = tempfile::tempdir().unwrap();
    let drive = Drive::start(&temporary.path().join("image"), 0);
    let Some(guest) = Guest::boot(name, "tools.sh", &[], drive.port, &[TRANCHE]) else { return };
    let Some(log) = guest.must_be_well(name) else { return };
    assert_eq!(answers(&log), 10);
    let line = log.lines().find_map(|line| line.trim().strip_prefix("SUBSYSTEMS ")).expect("list-subsys");
    let hosts: Value = serde_json::from_str(line).unwrap();
    let subsystem = &hosts[0]["Subsystems"][0];
    assert_eq!(
        (&subsystem["NQN"], &subsystem["Paths"][0]["State"]),
        (&Value::from(NQN), &Value::from("live"))
    );
}

/// Where nvme-cli and `tranche` differ, except in what must: the controller and the path that each has.
fn differ(at: &str, theirs: &Value, ours: &Value, found: &mut Vec<String>) {
    let own = [" cntlid", "DevicePath", "GenericPath", "psds 0 flags", "for NVMe device"];
    if own.iter().any(|end| at.ends_with(end)) {
        return;
    }
    // Some versions print numbers of 128 bits as text.
    let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    match (theirs, ours) {
        (Value::Object(theirs), Value::Object(ours)) => {
            for (key, value) in theirs {
                differ(&format!("{at} {key}"), value, ours.get(key).unwrap_or(&Value::Null), found);
            }
        }
        (Value::Array(theirs), Value::Array(ours)) if theirs.len() == ours.len() => {
            for (index, (theirs, ours)) in theirs.iter().zip(ours).enumerate() {
                differ(&format!("{at} {index}"), theirs, ours, found);
            }
        }
        _ if plain(theirs) != plain(ours) => found.push(format!("{at}: nvme-cli {theirs}, tranche {ours}")),
        _ => {}
    }
}

/// Some of nvme-cli's own end-to-end tests, as Debian 13 packages them; `scripts/nvme-cli-suite.sh` runs them all, which takes minutes.
#[test]
fn nvme_clis_own_tests_pass() {
    let name = "nvme_clis_own_tests_pass";
    let needed = ["qemu-system-x86_64", "busybox", "nvme", "cpio", "modprobe", "xz", "python3", "apt-get"];
    if !testkit::possible(name, &needed) {
        return;
    }
    let target = Path::new(TRANCHE).parent().and_then(Path::parent).unwrap();
    let ran =
        Command::new(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../scripts/nvme-cli-suite.sh"))
            .env("CARGO_TARGET_DIR", target)
            .args(["-p", TRANCHE, "-t", "400"])
            .args(["nvme_attach_detach_ns_test", "nvme_compare_test", "nvme_ctrl_reset_test"])
            .args(["nvme_get_features_test", "nvme_read_write_test", "nvme_writeuncor_test"])
            .output()
            .unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    println!("{said}{}", String::from_utf8_lossy(&ran.stderr));
    if ran.status.code() == Some(77) {
        return testkit::skipped(name, &String::from_utf8_lossy(&ran.stderr));
    }
    assert!(ran.status.success(), "{}", ran.status);
    assert_eq!(said.lines().last(), Some("5 passed, 1 failed as they must, 0 skipped, 0 wrong"));
}

/// A store on the zones of another target: files are made and synced, its program is killed, and the store is whole.
fn a_store_on_zones_of_linux(on: &str, directory: &Path) {
    let run = |arguments: &[&str]| {
        let output = Command::new(TRANCHE).env("TRANCHE_ON", on).args(arguments).output().unwrap();
        let (said, errors) = (common::text(&output.stdout), common::text(&output.stderr));
        assert!(output.status.success(), "{arguments:?}: {errors}");
        said
    };
    let zones: Value = serde_json::from_str(&run(&["zone", "report", "--output", "json"])).unwrap();
    assert_eq!(zones["zone_list"].as_array().unwrap().len(), 32, "{zones}");
    run(&["store", "format"]);
    let point = directory.join("store");
    std::fs::create_dir(&point).unwrap();
    let mount = || {
        let mut command = Command::new(TRANCHE);
        command.env("TRANCHE_ON", on).args(["--quiet", "store", "mount"]).arg(&point);
        Served::run(&mut command)
    };
    let content = |file: u32| -> Vec<u8> { (0..1_500_000).map(|at| (at * 31 + file * 7919) as u8).collect() };
    let path = |file: u32| point.join(format!("file-{file}"));
    let mounted = mount();
    // More than the zones hold, so that files make room for others, and garbage collection moves what is left of them.
    for file in 0..160 {
        std::fs::write(path(file), content(file)).unwrap();
        if file >= 40 && file % 8 != 0 {
            std::fs::remove_file(path(file - 40)).unwrap_or_default();
        }
    }
    let left = || (0..160).filter(|file| path(*file).exists());
    for file in left() {
        std::fs::File::open(path(file)).unwrap().sync_all().unwrap();
    }
    std::fs::write(point.join("unsynced"), "perhaps").unwrap();
    // A killed program's mount is given back by the kernel when its connection to FUSE ends.
    drop(mounted);
    testkit::run("umount", &["-l", point.to_str().unwrap()]);
    let report: Value =
        serde_json::from_str(&run(&["store", "check", "--data", "--output", "json"])).unwrap();
    assert_eq!(report["problems"], Value::Array(Vec::new()), "{report}");
    let mounted = mount();
    assert!(left().count() > 40);
    for file in left() {
        assert!(std::fs::read(path(file)).unwrap() == content(file), "file {file}");
    }
    mounted.signal("TERM");
    mounted.end();
}

/// The other way round: our host, load generator and store, with and without authentication, at Linux's own target.
#[test]
fn our_host_uses_the_target_of_linux() {
    let name = "our_host_uses_the_target_of_linux";
    let temporary = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let output = Command::new(TRANCHE).args(arguments).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() {
            Ok(said)
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into_owned())
        }
    };
    let key = run(&["key", "dhchap", "--hmac", "1"]).unwrap();
    let ctrl = run(&["key", "dhchap"]).unwrap();
    let (key, ctrl) = (key.trim(), ctrl.trim());
    let host = "nqn.2026-11.io.tranche:test-host";
    // Free now, and most likely when the guest is there.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let options = ["-t", "400", "-p", &port.to_string()];
    let Some(mut guest) = Guest::boot_with(name, "target.sh", &[], &options, port, &[host, key, ctrl]) else {
        return;
    };
    let open = format!("tcp://127.0.0.1:{port}?nqn={NQN}");
    let secret = format!("{open}:secret");
    let proven = ["--hostnqn", host, "--dhchap-secret", key, "--dhchap-ctrl-secret", ctrl];
    let job = |name: &str, text: &str| {
        let path = temporary.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let check = job(
        "check.fio",
        "[check]\nrw=randwrite\nbssplit=4k/80:64k/20\nsize=16m\niodepth=16\nverify=crc32c\n",
    );
    let last = job("last.fio", "[last]\nrw=write\nbs=4k\noffset=67104768\nsize=4k\nverify=crc32c\n");

    let found = loop {
        match (run(&["id", "--on", &open, "--output", "json"]), guest.ended()) {
            (Ok(found), _) => break found,
            (Err(_), Some(Ended::Skipped(why))) => return testkit::skipped(name, &why),
            (Err(error), Some(Ended::With(status, _))) => panic!("{status}: {error}"),
            (Err(_), None) => {}
        }
    };
    let controller: Value = serde_json::from_str(&found).unwrap();
    assert_eq!(controller["mn"].as_str().unwrap().trim(), "Linux");
    // By way of the discovery service, which knows two subsystems: neither is chosen.
    let several = run(&["id", "--on", &format!("tcp://127.0.0.1:{port}")]);
    assert!(several.is_err() || several.unwrap().contains("Linux"));
    let list: Value =
        serde_json::from_str(&run(&["ns", "list", "--on", &open, "--output", "json"]).unwrap()).unwrap();
    assert_eq!(list["Devices"][0]["PhysicalSize"], 64 << 20);
    run(&["bench", &check, "--on", &open]).unwrap();
    // It has the SMART log, without numbers of a namespace in a file, and none of the logs that tell more.
    let top =
        run(&["top", "--count", "2", "--interval", "200ms", "--output", "json", "--on", &open]).unwrap();
    let lines: Vec<Value> = top.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2);
    assert!(lines.iter().all(|line| line["namespaces"].is_null() && line["write_amplification"].is_null()));
    let top = run(&["top", "--count", "1", "--interval", "200ms", "--on", &open]).unwrap();
    assert!(!top.trim().is_empty());

    // Linux closes the connection right after its answer, and the answer is lost at times: the reason is there in one of a
    // few attempts. None of them gets in.
    let refused = |more: &[&str], reason: &str| {
        let attempt = |_| run(&[&["id", "--on", &secret], more].concat()).unwrap_err();
        let mut said = (0..10).map(attempt).inspect(|text| eprintln!("{text}"));
        assert!(said.any(|text| text.contains(reason)), "none says {reason:?}");
    };
    refused(&[], "Connect Invalid Host");
    refused(&proven[..2], "wants this host to authenticate itself");
    refused(&["--hostnqn", host, "--dhchap-secret", ctrl], "Authentication failed");
    a_store_on_zones_of_linux(&format!("{open}:zones"), temporary.path());
    run(&[&["bench", &check, "--on", &secret][..], &proven].concat()).unwrap();
    run(&[&["bench", &last, "--on", &secret][..], &proven].concat()).unwrap();
    guest.must_be_well(name);
}
