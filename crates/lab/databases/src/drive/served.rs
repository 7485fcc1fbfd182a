//! `tranche serve` as a child process.

use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, bail};
use host::{Host, Identity, SocketTransport, Transport, TransportError, namespace_create};
use nvme::{Csi, NSID_ALL, admin::PowerCut, identify::ZonedCreate};
use rustix::fs::OFlags;

use super::start::{DRIVE_TIMEOUT, Start, media};
use crate::{
    layout::{Filesystem, Namespace, Size},
    process::{Process, run},
    scratch::{self, Role, Scratch},
};
use lab_report::{counters::Counters, figure::show_size};

/// Who the studies are to the drive.
pub const HOST_NQN: &str = "nqn.2026-11.io.tranche:lab";

/// How the power is cut.
#[derive(Clone, Copy, Debug)]
pub struct Cut {
    /// Media operations until then; 0 is at once.
    pub after_media_ops: u32,
    /// How long the power stays away.
    pub off: Duration,
    /// What is torn is drawn from this.
    pub seed: u32,
    /// The capacitors do not do their work either.
    pub without_protection: bool,
}

/// A drive in a process of its own.
#[derive(Debug)]
pub(super) struct Served {
    /// The program that it runs.
    program: PathBuf,
    pub(super) process: Process,
    pub(super) unix: PathBuf,
    pub(super) media: Vec<String>,
    files: PathBuf,
    host: Option<Host<SocketTransport>>,
}

impl Served {
    pub(super) fn start(program: &Path, scratch: &Scratch, start: &Start<'_>) -> Result<Self> {
        let unix = start.directory.join("nvme.sock");
        let files = start.directory.join("dev");
        fs::create_dir_all(&files).with_context(|| format!("making {}", files.display()))?;
        let mut command = Command::new(program);
        command.arg("serve");
        let path = start.directory.join("drive.toml");
        let text = toml::to_string(start.toml).context("writing the drive's TOML")?;
        fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
        command.arg("--drive").arg(path).arg("--image").arg(start.image);
        command.arg("--unix").arg(&unix).arg("--fuse").arg(&files);
        command.args(["--loop", "--no-host-sync", "--timing", if start.timing { "on" } else { "off" }]);
        let log = start.directory.join("drive.log");
        let name = "the drive (tranche serve)";
        let mut process = Process::start(scratch, Role::Drive, name, command, &log, Some(Stdio::piped()))?;
        wait_for_ready(&mut process)?;
        let program = program.to_owned();
        let mut served = Self { program, process, unix, files, media: media(start.toml), host: None };
        served.reconnect()?;
        Ok(served)
    }

    /// Connects, as soon as the drive accepts that.
    pub(super) fn reconnect(&mut self) -> Result<()> {
        self.host = None;
        let deadline = Instant::now() + DRIVE_TIMEOUT;
        loop {
            self.process.cancel().check()?;
            self.process.check()?;
            match self.connect(Duration::from_secs(30))? {
                Ok(host) => {
                    self.host = Some(host);
                    return Ok(());
                }
                Err(error) if Instant::now() > deadline => {
                    return Err(error).context("connecting to the drive");
                }
                Err(_) => thread::sleep(Duration::from_millis(50)),
            }
        }
    }

    fn host(&mut self) -> Result<&mut Host<SocketTransport>> {
        if self.host.is_none() {
            self.reconnect()?;
        }
        self.host.as_mut().context("not connected to the drive")
    }

    pub(super) fn delete_all(&mut self) -> Result<()> {
        let host = self.host()?;
        if !host.allocated_namespaces()?.is_empty() {
            host.delete_namespace(NSID_ALL)?;
        }
        // A new namespace may get the same name: its device must not be taken for that of the old one.
        let files = self.files.clone();
        let exported = || scratch::loops().iter().any(|(_, backing)| backing.starts_with(&files));
        self.process
            .wait_until(Duration::from_secs(20), || !exported())
            .context("the devices of the drive's own namespaces did not go away")
    }

    pub(super) fn create(&mut self, namespace: &Namespace) -> Result<u32> {
        let host = self.host()?;
        if let (Filesystem::Store, Size::Bytes(bytes)) = (namespace.filesystem, namespace.size) {
            if !host.has_zones()? {
                bail!("the drive has no zones: give an NVM Set of NAND `zone` in its TOML");
            }
            return create_zoned_namespace(host, namespace.set, bytes, namespace.lba);
        }
        let set = host
            .nvm_sets()?
            .into_iter()
            .find(|set| set.nvmsetid.get() == namespace.set)
            .with_context(|| format!("the drive has no NVM Set {}", namespace.set))?;
        // Capacity is given out in MiB.
        let left = u64::try_from(set.unvmsetcap.get() >> 20 << 20).unwrap_or(u64::MAX);
        let bytes = match namespace.size {
            Size::Bytes(bytes) => bytes,
            Size::Rest => left,
        };
        if bytes > left {
            bail!(
                "NVM Set {} has {} unallocated, and the namespace is to have {}",
                namespace.set,
                show_size(left),
                show_size(bytes)
            );
        }
        create_namespace(host, namespace.set, bytes, namespace.lba, None)
    }

    /// Where a namespace is exported.
    pub(super) fn exported(&self, nsid: u32) -> PathBuf {
        self.files.join(format!("nvme0n{nsid}"))
    }

    /// A `tranche store` command for a namespace.
    fn store_command(&self, verb: &str, nsid: u32) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["store", verb, "--nsid", &nsid.to_string()]);
        command.arg("--on").arg(format!("unix://{}", self.unix.display()));
        // Namespaces are attached to the study's host.
        command.args(["--hostnqn", HOST_NQN]);
        command
    }

    /// Makes a store on a zoned namespace, with further arguments of `tranche store format`.
    pub(super) fn format_store(&self, nsid: u32, arguments: &[String]) -> Result<()> {
        run(self.store_command("format", nsid).args(arguments), "tranche").map(|_| ())
    }

    /// Mounts the store of a zoned namespace. The process ends when it is unmounted.
    pub(super) fn mount_store(
        &self,
        scratch: &Scratch,
        nsid: u32,
        at: &Path,
        options: &[String],
        log: &Path,
    ) -> Result<Process> {
        let mut command = self.store_command("mount", nsid);
        for option in options {
            match option.split_once('=') {
                Some((name, value)) => command.arg(format!("--{name}")).arg(value),
                None => command.arg(format!("--{option}")),
            };
        }
        command.arg(at);
        let name = "the store (tranche store mount)";
        let mut process = Process::start(scratch, Role::Client, name, command, log, Some(Stdio::piped()))?;
        wait_for_ready(&mut process)?;
        Ok(process)
    }

    /// NAND bytes that an NVM Set's rated cycles allow (Endurance Group log, in units of 10^9).
    pub(super) fn endurance(&mut self, set: u16) -> Result<u128> {
        let host = self.host()?;
        let sets = host.nvm_sets()?;
        let found = sets.iter().find(|s| s.nvmsetid.get() == set);
        let group = found.with_context(|| format!("the drive has no NVM Set {set}"))?.endgid.get();
        Ok(host.endurance_group(group)?.endurance_estimate.get().saturating_mul(1_000_000_000))
    }

    pub(super) fn counters(&mut self, nsid: u32) -> Result<Counters> {
        let counters = Counters::read(self.host()?, nsid);
        if counters.is_err() {
            // The connection may be broken; if the drive died, its log says more.
            self.host = None;
            thread::sleep(Duration::from_millis(100));
            self.process.check()?;
        }
        counters.context("reading the drive's counters")
    }

    pub(super) fn cut_power(&mut self, cut: &Cut) -> Result<()> {
        let command = PowerCut {
            after_media_ops: cut.after_media_ops,
            off_ms: u32::try_from(cut.off.as_millis()).unwrap_or(u32::MAX),
            seed: cut.seed,
            no_plp: cut.without_protection,
        };
        let result = self.host()?.power_cut(command);
        self.host = None;
        Ok(result?)
    }

    /// How often the drive was powered on (SMART log).
    pub(super) fn power_cycles(&mut self) -> Result<u128> {
        let smart = self.host()?.smart().context("reading how often the drive was powered on")?;
        Ok(smart.power_cycles.get())
    }

    /// Whether the drive takes connections. A busy machine may answer late: only a refusal means that there is no power.
    pub(super) fn powered(&mut self) -> Result<bool> {
        self.process.check()?;
        self.host = None;
        let late = |error| matches!(error, host::Error::Transport(TransportError::Timeout(_)));
        Ok(self.connect(Duration::from_millis(200))?.map_or_else(late, |_| true))
    }

    fn connect(&self, timeout: Duration) -> Result<Result<Host<SocketTransport>, host::Error>> {
        let identity = Identity::new(HOST_NQN.parse().map_err(|e| anyhow!("the study's own NQN: {e}"))?);
        let address: host::Addr = format!("unix://{}", self.unix.display()).parse()?;
        Ok(Host::connect(SocketTransport::new(address, timeout), &identity))
    }

    pub(super) fn device(&mut self, nsid: u32) -> Result<PathBuf> {
        let device = self.device_of(&self.exported(nsid));
        device.with_context(|| format!("no loop device appeared for namespace {nsid}"))
    }

    /// The block device of a cache tier.
    pub(super) fn tier_device(&mut self, name: &str) -> Result<PathBuf> {
        let device = self.device_of(&self.files.join(format!("cache-{name}")));
        device.with_context(|| format!("no loop device appeared for the cache tier {name}"))
    }

    fn device_of(&mut self, file: &Path) -> Result<PathBuf> {
        // After a power cut that took writes along, the old device fails and a new one appears.
        let find = || {
            let devices = scratch::loops().into_iter().filter(|(_, backing)| *backing == file);
            devices.map(|(device, _)| device).find(|device| readable(device))
        };
        self.process.wait_until(Duration::from_secs(20), || find().is_some())?;
        find().with_context(|| format!("the loop device of {} vanished", file.display()))
    }

    /// How a cache tier is: what `tranche cache status` says.
    pub(super) fn tier_status(&self, name: &str) -> Result<serde_json::Value> {
        let mut command = Command::new(&self.program);
        command.args(["--output", "json", "cache", "status", "--name", name]);
        let said = run(&mut command, "tranche")?;
        serde_json::from_str(&said).context("the status of a cache tier is no JSON")
    }
}

/// Whether the device answers, and not only the page cache.
fn readable(device: &Path) -> bool {
    // Bytes that a direct read is aligned to.
    const PAGE: usize = 4096;
    let direct = i32::try_from(OFlags::DIRECT.bits()).unwrap_or(0);
    let mut room = vec![0; 2 * PAGE];
    let at = room.as_ptr().align_offset(PAGE);
    let file = fs::File::options().read(true).custom_flags(direct).open(device);
    file.is_ok_and(|file| file.read_exact_at(&mut room[at..at + PAGE], 0).is_ok())
}

/// Creates a namespace of so many bytes in an NVM Set, and attaches it to every controller of the drive. Its logical blocks have `lba`
/// bytes. If a reclaim unit handle is named, the namespace has it for itself. Returns its identifier.
///
/// # Errors
/// The drive has no such format, or refuses.
pub fn create_namespace<T: Transport>(
    host: &mut Host<T>,
    set: u16,
    bytes: u64,
    lba: u32,
    handle: Option<u16>,
) -> Result<u32> {
    let mut create = namespace_create(bytes / u64::from(lba), format_of(host, lba)?, set);
    if let Some(handle) = handle {
        // Each set of this drive is the Endurance Group of the same number.
        create.endgid = set.into();
        create.nphndls = 1.into();
        create.phndl[0] = handle.into();
    }
    let nsid = host.create_namespace(&create)?;
    attach_to_all(host, nsid)?;
    Ok(nsid)
}

/// Creates a zoned namespace on a drive that has zones, and attaches it to every controller of the drive. It may have all active zones that the set has left.
pub fn create_zoned_namespace<T: Transport>(
    host: &mut Host<T>,
    set: u16,
    bytes: u64,
    lba: u32,
) -> Result<u32> {
    let mut create = namespace_create(bytes / u64::from(lba), format_of(host, lba)?, set);
    create.set_zoned(&ZonedCreate::default());
    let nsid = host.create_namespace_of(Csi::ZONED, &create)?;
    attach_to_all(host, nsid)?;
    Ok(nsid)
}

/// The LBA format with logical blocks of so many bytes.
fn format_of<T: Transport>(host: &mut Host<T>, lba: u32) -> Result<u8> {
    let formats = host.identify_namespace(NSID_ALL)?.lbaf;
    let count = formats.iter().position(|f| 1u32.checked_shl(f.lbads.into()) == Some(lba));
    count
        .and_then(|index| u8::try_from(index).ok())
        .with_context(|| format!("the drive offers no logical blocks of {lba} bytes"))
}

/// To everyone who is connected: this host and the others. The drive remembers it by host.
fn attach_to_all<T: Transport>(host: &mut Host<T>, nsid: u32) -> Result<()> {
    let controllers = host.controllers()?;
    Ok(host.attach_namespace(nsid, &controllers)?)
}

/// Waits for the line that says that connections are accepted.
fn wait_for_ready(process: &mut Process) -> Result<()> {
    let stdout = process.child().stdout.take().context("the drive's standard output is not piped")?;
    let (sender, lines) = mpsc::channel();
    // Also keeps the pipe empty, should the drive ever write more.
    thread::spawn(move || {
        BufReader::new(stdout).lines().map_while(Result::ok).for_each(|line| drop(sender.send(line)));
    });
    let deadline = Instant::now() + DRIVE_TIMEOUT;
    loop {
        process.cancel().check()?;
        match lines.recv_timeout(Duration::from_millis(50)) {
            Ok(line) if line.starts_with("ready") => return Ok(()),
            Ok(_) => {}
            Err(RecvTimeoutError::Timeout) if Instant::now() < deadline => process.check()?,
            Err(RecvTimeoutError::Timeout) => {
                bail!("the drive was not ready after {} s", DRIVE_TIMEOUT.as_secs())
            }
            // Its output is closed: it is about to end.
            Err(RecvTimeoutError::Disconnected) => {
                process.wait_until(Duration::from_secs(5), || false)?;
            }
        }
    }
}
