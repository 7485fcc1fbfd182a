//! What this machine can do for Tranche, and the command that mends what it cannot.
//!
//! [`examine`] looks for what commands need, one thing after the other. [`abilities`] says which commands that is enough for.

use std::{
    fs::{self, File},
    io::ErrorKind,
    path::PathBuf,
};

use schemars::JsonSchema;
use serde::Serialize;

use crate::{database::search_path, mariadb, mounted_drive::may_mount, postgresql, scratch};

/// One thing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Finding {
    /// Its name, as in `--require`.
    pub name: &'static str,
    /// What it is for.
    pub purpose: &'static str,
    /// Whether it is there and can be used.
    pub ready: bool,
    /// What was found, or why it cannot be used.
    pub detail: String,
    /// The command that mends it.
    #[schemars(extend("null" = "it is ready, or no command mends it"))]
    pub mend: Option<String>,
}

/// A command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Ability {
    /// The command.
    pub command: &'static str,
    /// Whether all of it works.
    pub ready: bool,
    /// Names of findings that it lacks.
    pub missing: Vec<&'static str>,
    /// What it does without them.
    #[schemars(extend("null" = "nothing is missing, or it does nothing"))]
    pub otherwise: Option<&'static str>,
}

/// Where it is looked for. A test looks elsewhere.
#[derive(Clone, Debug)]
pub struct Machine {
    /// What stands before absolute paths.
    pub root: PathBuf,
    /// Directories of programs.
    pub programs: Vec<PathBuf>,
}

impl Default for Machine {
    /// This machine.
    fn default() -> Self {
        Self { root: "/".into(), programs: search_path() }
    }
}

/// The names of all findings, in their order.
pub const NAMES: [&str; 23] = [
    "root",
    "fuse",
    "fuse-mount",
    "fuse-uring",
    "loop",
    "nvme-tcp",
    "nbd",
    "ublk",
    "memory",
    "room",
    "losetup",
    "mkfs.xfs",
    "mkfs.ext4",
    "fio",
    "sysbench",
    "nvme",
    "nbd-client",
    "qemu-system-x86_64",
    "db_bench",
    "g++",
    "chromium",
    "mariadb",
    "postgresql",
];

/// Bytes that a study needs on disk, and in memory.
const ROOM: u64 = 5 << 30;
const MEMORY: u64 = 4 << 30;

/// Programs: name, what for, Debian's package.
const PROGRAMS: [(&str, &str, &str); 11] = [
    ("losetup", "block devices of namespaces", "util-linux"),
    ("mkfs.xfs", "file systems of the studies", "xfsprogs"),
    ("mkfs.ext4", "file systems of layouts", "e2fsprogs"),
    ("fio", "loads on block files and file systems", "fio"),
    ("sysbench", "loads on MariaDB", "sysbench"),
    ("nvme", "NVMe commands of a Linux host (nvme-cli)", "nvme-cli"),
    ("nbd-client", "attaches what is served over NBD to this kernel", "nbd-client"),
    ("qemu-system-x86_64", "a guest with a stock kernel, emulated (scripts/guest.sh)", "qemu-system-x86"),
    ("db_bench", "loads on RocksDB", "rocksdb-tools"),
    ("g++", "builds the RocksDB plug-in (make plugin)", "g++"),
    ("chromium", "the tests of the live view (make test)", "chromium"),
];

/// Commands: what they need, and what they do without.
const COMMANDS: [(&str, &[&str], Option<&str>); 12] = [
    ("tranche serve", &[], None),
    ("tranche sim", &[], None),
    ("tranche serve --fuse", &["fuse", "fuse-mount"], None),
    (
        "tranche serve --tcp, with Linux as the host",
        &["nvme-tcp", "nvme"],
        Some("the guest of scripts/guest.sh has such a kernel"),
    ),
    (
        "tranche serve --nbd, with Linux as the client",
        &["nbd", "nbd-client"],
        Some("nbdcopy, qemu-img and fio need no kernel, and the guest of scripts/guest.sh has such a one"),
    ),
    (
        "tranche serve --ublk",
        &["root", "ublk"],
        Some(
            "--nbd and --fuse --loop make block devices, too, and the guest of scripts/guest.sh has such a kernel",
        ),
    ),
    ("scripts/guest.sh", &["qemu-system-x86_64"], None),
    (
        "tranche study doublewrite",
        &["root", "fuse", "loop", "losetup", "mkfs.xfs", "memory", "room", "mariadb"],
        Some("it runs in virtual time"),
    ),
    (
        "tranche compare",
        &["root", "fuse", "loop", "losetup", "memory", "room"],
        Some("--sim runs fio jobs in virtual time"),
    ),
    (
        "tranche study powercut",
        &["root", "fuse", "loop", "losetup", "mkfs.xfs", "memory", "room", "mariadb"],
        None,
    ),
    (
        "tranche study powercut --variants postgres-fpw",
        &["root", "fuse", "loop", "losetup", "mkfs.xfs", "memory", "room", "postgresql"],
        None,
    ),
    (
        "tranche study zoned --live",
        &["root", "fuse", "loop", "losetup", "mkfs.xfs", "memory", "room", "mariadb", "sysbench", "db_bench"],
        Some("without --live it runs in virtual time"),
    ),
];

/// Looks for everything.
pub fn examine(machine: &Machine) -> Vec<Finding> {
    let mut all = vec![
        root(machine),
        device(machine, "fuse", "/dev/fuse", "namespaces as block files"),
        fuse_mount(machine),
        fuse_rings(machine),
        device(machine, "loop", "/dev/loop-control", "block devices of namespaces"),
        nvme_tcp(machine),
        nbd(machine),
        ublk(machine),
        memory(machine),
        room(),
    ];
    all.extend(PROGRAMS.map(|(name, purpose, package)| program(machine, name, purpose, package)));
    let server = |found: anyhow::Result<String>| found.map_err(|error| format!("{error:#}"));
    let found = server(mariadb::Server::find(None).map(|server| server.title));
    all.push(package(machine, "mariadb", "studies of MariaDB or MySQL", found, "mariadb-server-core"));
    let found = server(postgresql::Server::find(None).map(|server| server.title));
    all.push(package(
        machine,
        "postgresql",
        "comparisons and power cuts with PostgreSQL",
        found,
        "postgresql",
    ));
    all
}

/// What that is enough for.
pub fn abilities(findings: &[Finding]) -> Vec<Ability> {
    let lacks = |name: &&str| !findings.iter().any(|finding| finding.name == *name && finding.ready);
    COMMANDS
        .iter()
        .map(|&(command, needs, otherwise)| {
            let missing: Vec<&str> = needs.iter().copied().filter(lacks).collect();
            let otherwise = otherwise.filter(|_| !missing.is_empty());
            Ability { command, ready: missing.is_empty(), missing, otherwise }
        })
        .collect()
}

fn finding(
    name: &'static str,
    purpose: &'static str,
    found: Result<String, String>,
    mend: impl Into<Option<String>>,
) -> Finding {
    match found {
        Ok(detail) => Finding { name, purpose, ready: true, detail, mend: None },
        Err(detail) => Finding { name, purpose, ready: false, detail, mend: mend.into() },
    }
}

impl Machine {
    fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// The contents of a file, or nothing.
    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap_or_default()
    }

    fn program(&self, name: &str) -> Option<PathBuf> {
        self.programs.iter().map(|dir| dir.join(name)).find(|file| file.is_file())
    }

    /// The command that loads a module, if this kernel has modules.
    fn modprobe(&self, module: &str) -> Option<String> {
        let release = self.text("/proc/sys/kernel/osrelease");
        let modules = self.path("/lib/modules").join(release.trim());
        (!release.is_empty() && modules.is_dir()).then(|| format!("modprobe {module}"))
    }

    /// The command that installs a package of Debian.
    fn install(&self, package: &str) -> String {
        match self.program("apt-get") {
            Some(_) => format!("apt-get install {package}"),
            None => format!("install {package} (Debian's name of it)"),
        }
    }
}

fn root(machine: &Machine) -> Finding {
    let found = match may_mount(&machine.text("/proc/self/status")) {
        true => Ok("this process may mount file systems".to_owned()),
        false => Err("this process may not mount file systems (it lacks CAP_SYS_ADMIN)".to_owned()),
    };
    let mend = "run tranche as root; a container is started with --privileged";
    finding("root", "file systems on namespaces", found, mend.to_owned())
}

fn device(machine: &Machine, name: &'static str, path: &'static str, purpose: &'static str) -> Finding {
    let opened = File::options().read(true).write(true).open(machine.path(path));
    let (found, mend) = match opened {
        Ok(_) => (Ok(path.to_owned()), None),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let container = format!("start a container with --device {path}");
            let mend =
                machine.modprobe(name).map_or(container.clone(), |load| format!("{load}; {container}"));
            (Err(format!("there is no {path}")), Some(mend))
        }
        Err(error) => {
            (Err(format!("{path} cannot be opened: {error}")), Some("run tranche as root".to_owned()))
        }
    };
    finding(name, purpose, found, mend)
}

/// What mounts FUSE: the kernel for root, fusermount3 for others.
fn fuse_mount(machine: &Machine) -> Finding {
    let found = match machine.program("fusermount3") {
        Some(path) => Ok(path.display().to_string()),
        None if may_mount(&machine.text("/proc/self/status")) => Ok("root needs no fusermount3".to_owned()),
        None => Err("there is no fusermount3, which mounts for users".to_owned()),
    };
    finding("fuse-mount", "mounts block files", found, machine.install("fuse3"))
}

/// FUSE over io_uring, which Linux 6.14 has and which is off by default.
fn fuse_rings(machine: &Machine) -> Finding {
    const SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";
    let (found, mend) = match machine.text(SWITCH).trim() {
        "Y" => (Ok("on".to_owned()), None),
        "" => (Err("the kernel has no FUSE over io_uring: Linux 6.14 does".to_owned()), None),
        _ => (Err("off".to_owned()), Some(format!("echo Y > {SWITCH}"))),
    };
    finding("fuse-uring", "faster block files", found, mend)
}

fn nvme_tcp(machine: &Machine) -> Finding {
    let load = machine.modprobe("nvme-tcp");
    let found = match (machine.path("/dev/nvme-fabrics").exists(), &load) {
        (true, _) => Ok("/dev/nvme-fabrics".to_owned()),
        (false, Some(_)) => Err("the kernel's NVMe/TCP host is not loaded".to_owned()),
        (false, None) => Err("this kernel has no NVMe/TCP host, and no modules".to_owned()),
    };
    finding("nvme-tcp", "Linux as the host of a drive", found, load)
}

/// The kernel's client of NBD.
fn nbd(machine: &Machine) -> Finding {
    let load = machine.modprobe("nbd");
    let found = match (machine.path("/dev/nbd0").exists(), &load) {
        (true, _) => Ok("/dev/nbd0".to_owned()),
        (false, Some(_)) => Err("the kernel's NBD driver is not loaded".to_owned()),
        (false, None) => Err("this kernel has no NBD driver, and no modules".to_owned()),
    };
    finding("nbd", "block devices over NBD", found, load)
}

/// The kernel's ublk driver, which is spoken to through io_uring. Linux 6.0 has it, and 6.5 all that is needed of it.
fn ublk(machine: &Machine) -> Finding {
    const CONTROL: &str = "/dev/ublk-control";
    let load = machine.modprobe("ublk_drv");
    let root = || Some("run tranche as root".to_owned());
    let opened = File::options().read(true).write(true).open(machine.path(CONTROL));
    let (found, mend) = match (opened, &load) {
        (Ok(_), _) if machine.text("/proc/sys/kernel/io_uring_disabled").trim() == "2" => {
            (Err("io_uring is turned off".to_owned()), Some("sysctl kernel.io_uring_disabled=0".to_owned()))
        }
        (Ok(_), _) if version(&machine.text("/proc/sys/kernel/osrelease")).is_some_and(|it| it < (6, 5)) => {
            (Err("this kernel's ublk driver is too old: Linux 6.5 has all that is needed".to_owned()), None)
        }
        (Ok(_), _) => (Ok(CONTROL.to_owned()), None),
        (Err(error), _) if error.kind() != ErrorKind::NotFound => {
            (Err(format!("{CONTROL} cannot be opened: {error}")), root())
        }
        (Err(_), Some(_)) => (Err("the kernel's ublk driver is not loaded".to_owned()), load),
        (Err(_), None) => (Err("this kernel has no ublk driver, and no modules".to_owned()), None),
    };
    finding("ublk", "block devices of namespaces, without loop devices", found, mend)
}

/// The first two numbers of a kernel's version.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|sign: char| !sign.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn memory(machine: &Machine) -> Finding {
    let text = machine.text("/proc/meminfo");
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib =
        line.and_then(|rest| rest.split_whitespace().next()).and_then(|number| number.parse::<u64>().ok());
    let (found, mend) = match kib.map(|kib| kib << 10) {
        None => (Err("the system does not say how much memory is free".to_owned()), None),
        Some(bytes) if bytes < MEMORY => (
            Err(format!("{} are free, a study needs {}", size(bytes), size(MEMORY))),
            Some("end other programs, or use smaller drives".to_owned()),
        ),
        Some(bytes) => (Ok(format!("{} are free", size(bytes))), None),
    };
    finding("memory", "drives and databases of studies", found, mend)
}

/// Room for scratch files, where the studies look for it.
fn room() -> Finding {
    let found = match scratch::default_parent(ROOM) {
        Ok(dir) => Ok(format!("{} in {}", size(ROOM), dir.display())),
        Err(error) => Err(format!("{error:#}")),
    };
    finding("room", "scratch files of studies", found, "set TMPDIR to a directory with more room".to_owned())
}

fn program(machine: &Machine, name: &'static str, purpose: &'static str, package: &str) -> Finding {
    let found = match machine.program(name) {
        Some(path) => Ok(path.display().to_string()),
        None => Err("not installed".to_owned()),
    };
    finding(name, purpose, found, machine.install(package))
}

fn package(
    machine: &Machine,
    name: &'static str,
    purpose: &'static str,
    found: Result<String, String>,
    package: &str,
) -> Finding {
    finding(name, purpose, found, machine.install(package))
}

fn size(bytes: u64) -> String {
    lab_report::figure::show_size(bytes >> 20 << 20)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn machine(root: &Path) -> Machine {
        Machine { root: root.to_owned(), programs: vec![root.join("bin")] }
    }

    fn find(all: &[Finding], name: &str) -> Finding {
        all.iter().find(|finding| finding.name == name).unwrap().clone()
    }

    #[test]
    fn an_empty_machine_lacks_what_commands_name() {
        let dir = tempfile::tempdir().unwrap();
        let all = examine(&machine(dir.path()));
        let fuse = find(&all, "fuse");
        assert_eq!((fuse.ready, &*fuse.detail), (false, "there is no /dev/fuse"));
        assert_eq!(
            fuse.mend.as_deref(),
            Some("start a container with --device /dev/fuse"),
            "no modules are here"
        );
        assert_eq!(find(&all, "nvme-tcp").mend, None);
        let fio = find(&all, "fio");
        assert_eq!(fio.mend.as_deref(), Some("install fio (Debian's name of it)"));
        assert_eq!(find(&all, "fuse-uring").mend, None, "no command gives a kernel that");
        assert!(all.iter().map(|finding| finding.name).eq(NAMES));
        for (command, needs, _) in COMMANDS {
            assert!(needs.iter().all(|need| NAMES.contains(need)), "{command} needs what nobody looks for");
        }
        let abilities = abilities(&all);
        let of = |command: &str| abilities.iter().find(|ability| ability.command == command).unwrap().clone();
        assert!(of("tranche serve").ready && of("tranche sim").ready);
        let study = of("tranche study doublewrite");
        assert!(!study.ready && study.missing.contains(&"fuse"), "{study:?}");
        assert_eq!(study.otherwise, Some("it runs in virtual time"));
    }

    #[test]
    fn what_is_there_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put("dev/fuse", "");
        put("bin/fio", "");
        put("bin/apt-get", "");
        put("proc/meminfo", "MemTotal: 9 kB\nMemAvailable:    8388608 kB\n");
        put("proc/self/status", "CapEff:\t0000000000000000\n");
        put("sys/module/fuse/parameters/enable_uring", "N\n");
        let all = examine(&machine(dir.path()));
        assert!(find(&all, "fuse").ready && find(&all, "fio").ready && find(&all, "memory").ready);
        assert!(!find(&all, "root").ready && !find(&all, "fuse-mount").ready);
        assert_eq!(find(&all, "fuse-mount").mend.as_deref(), Some("apt-get install fuse3"));
        assert!(find(&all, "memory").detail.starts_with('8'), "{:?}", find(&all, "memory"));
        assert!(find(&all, "fuse-uring").mend.unwrap().starts_with("echo Y > /sys"));
        put("proc/sys/kernel/osrelease", "6.12.0\n");
        fs::create_dir_all(dir.path().join("lib/modules/6.12.0")).unwrap();
        let all = examine(&machine(dir.path()));
        assert_eq!(find(&all, "nvme-tcp").mend.as_deref(), Some("modprobe nvme-tcp"));
        assert_eq!(find(&all, "nbd").mend.as_deref(), Some("modprobe nbd"));
        assert_eq!(find(&all, "ublk").mend.as_deref(), Some("modprobe ublk_drv"));
        put("dev/ublk-control", "");
        assert!(find(&examine(&machine(dir.path())), "ublk").ready);
        put("proc/sys/kernel/io_uring_disabled", "2\n");
        let off = find(&examine(&machine(dir.path())), "ublk");
        assert_eq!(off.mend.as_deref(), Some("sysctl kernel.io_uring_disabled=0"));
        put("proc/sys/kernel/io_uring_disabled", "0\n");
        put("proc/sys/kernel/osrelease", "6.1.0-44-amd64\n");
        assert!(find(&examine(&machine(dir.path())), "ublk").detail.contains("6.5"));
        put("proc/sys/kernel/osrelease", "6.12.0\n");
        put("dev/nbd0", "");
        assert!(find(&examine(&machine(dir.path())), "nbd").ready);
        assert!(find(&all, "loop").mend.unwrap().starts_with("modprobe loop; "));
        put("proc/meminfo", "MemAvailable: 1048576 kB\n");
        assert!(!find(&examine(&machine(dir.path())), "memory").ready);
        put("proc/meminfo", "MemAvailable: much\n");
        assert!(!find(&examine(&machine(dir.path())), "memory").ready);
    }
}
