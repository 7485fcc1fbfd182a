//! Bringing a layout up and down: drive, namespaces, file systems, mounts.
//!
//! A [`BaseImage`] is a layout that was made once and kept as a drive image. Its namespaces are created, its flash is preconditioned, and its file
//! systems hold what the study puts on them. Every run opens a copy of it. So all runs start equal, on a drive that has aged
//! equally.

mod tier;

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, ErrorKind, Seek, SeekFrom, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};
use rustix::fs::OFlags;

pub use self::tier::Tier;
use crate::{
    drive::{DRIVE_TIMEOUT, Drive, Program, Start},
    layout::{Filesystem, Layout, Namespace, Precondition},
    process::{Process, run, run_long},
    scratch::{self, Scratch},
    tpcc::Rng,
};
use lab_report::{
    control::Cancel,
    counters::{Counters, NamespaceCounts},
    figure::show_size,
};

/// A namespace of a layout that is up.
#[derive(Clone, Debug)]
pub struct Volume {
    /// Its name in the layout.
    pub name: String,
    /// Namespace identifier.
    pub nsid: u32,
    /// NVM Set.
    pub set: u16,
    /// What is on it.
    pub filesystem: Filesystem,
    /// The block device; of a zoned namespace, the directory with a file for each zone.
    pub device: PathBuf,
    /// Where its file system is mounted.
    pub mount: Option<PathBuf>,
}

/// A layout that is up. Dropped, it is taken down.
#[derive(Debug)]
pub struct MountedDrive {
    drive: Option<Drive>,
    volumes: Vec<Volume>,
    /// What serves the mounted stores, by namespace.
    stores: BTreeMap<u32, Process>,
    directory: PathBuf,
}

impl MountedDrive {
    /// The namespace of this name.
    ///
    /// # Errors
    /// When the layout has none.
    pub fn volume(&self, name: &str) -> Result<&Volume> {
        self.volumes
            .iter()
            .find(|v| v.name == name)
            .with_context(|| format!("the layout has no namespace {name:?}"))
    }

    /// All namespaces.
    pub fn volumes(&self) -> &[Volume] {
        &self.volumes
    }

    /// The drive.
    pub fn drive(&mut self) -> Result<&mut Drive> {
        self.drive.as_mut().context("the drive is down")
    }

    /// The drive's counters now, in the order of the volumes.
    ///
    /// # Errors
    /// When the drive does not answer.
    pub fn counters(&mut self) -> Result<Vec<Counters>> {
        let nsids: Vec<u32> = self.volumes.iter().map(|v| v.nsid).collect();
        let drive = self.drive()?;
        nsids.into_iter().map(|nsid| drive.counters(nsid)).collect()
    }

    /// What the drive counted between two samples, by namespace.
    pub fn counted(&self, before: &[Counters], after: &[Counters]) -> Vec<NamespaceCounts> {
        let media = self.drive.as_ref().map(Drive::media).unwrap_or_default();
        self.volumes
            .iter()
            .zip(before.iter().zip(after))
            .map(|(volume, (before, after))| NamespaceCounts {
                name: volume.name.clone(),
                nsid: volume.nsid,
                set: volume.set,
                medium: usize::from(volume.set)
                    .checked_sub(1)
                    .and_then(|set| media.get(set).cloned())
                    .unwrap_or_else(|| format!("set {}", volume.set)),
                counted: after.since(before),
            })
            .collect()
    }

    /// Writes out everything that the file systems hold back, and their journals.
    ///
    /// # Errors
    /// When a file system cannot write.
    pub fn sync(&self) -> Result<()> {
        for mount in self.volumes.iter().filter_map(|volume| volume.mount.as_ref()) {
            let directory = File::open(mount).with_context(|| format!("opening {}", mount.display()))?;
            rustix::fs::syncfs(directory).with_context(|| format!("syncing {}", mount.display()))?;
        }
        Ok(())
    }

    /// Unmounts every file system, as a clean shutdown does.
    ///
    /// # Errors
    /// When one stays busy.
    pub fn unmount(&mut self) -> Result<()> {
        for volume in self.volumes.iter_mut().rev() {
            if let Some(store) = self.stores.remove(&volume.nsid) {
                store.stop(DRIVE_TIMEOUT)?;
                volume.mount = None;
            }
            if let Some(mount) = &volume.mount {
                scratch::unmount(mount)?;
                volume.mount = None;
            }
        }
        Ok(())
    }

    /// Unmounts after a power cut: first the file systems are told to write nothing any more, since a machine without
    /// power does not tidy up either.
    ///
    /// # Errors
    /// When one stays busy.
    pub fn abandon(&mut self) -> Result<()> {
        for volume in &mut self.volumes {
            if let Some(store) = self.stores.remove(&volume.nsid) {
                store.kill();
            } else if let Some(mount) = &volume.mount {
                // XFS may have shut itself down already.
                let _ = Command::new("xfs_io").args(["-x", "-c", "shutdown"]).arg(mount).output();
            }
        }
        self.unmount()
    }

    /// The drive's power is back: waits until it answers, and finds its devices, which may be others now.
    ///
    /// # Errors
    /// When it does not answer, or a device does not appear.
    pub fn power_is_back(&mut self) -> Result<()> {
        let drive = self.drive.as_mut().context("the drive is down")?;
        drive.wait_for_power()?;
        for volume in &mut self.volumes {
            // The directory of a zoned namespace stays where it is.
            if volume.filesystem != Filesystem::Store {
                volume.device = drive.device(volume.nsid)?;
            }
        }
        Ok(())
    }

    /// Mounts the file systems again.
    ///
    /// # Errors
    /// When one cannot be mounted, say because it is damaged.
    pub fn mount(&mut self, scratch: &Scratch, layout: &Layout) -> Result<()> {
        for (volume, spec) in self.volumes.iter_mut().zip(&layout.namespaces) {
            if spec.filesystem == Filesystem::Raw || volume.mount.is_some() {
                continue;
            }
            let point = self.directory.join("mnt").join(&volume.name);
            fs::create_dir_all(&point).with_context(|| format!("making {}", point.display()))?;
            let context = || format!("mounting namespace {} of layout {}", volume.name, layout.name);
            if spec.filesystem == Filesystem::Store {
                let drive = self.drive.as_ref().context("the drive is down")?;
                let log = self.directory.join(format!("store-{}.log", volume.name));
                let store = drive.mount_store(scratch, volume.nsid, &point, &spec.mount, &log);
                self.stores.insert(volume.nsid, store.with_context(context)?);
            } else {
                let mut command = Command::new("mount");
                if !spec.mount.is_empty() {
                    command.arg("-o").arg(spec.mount.join(","));
                }
                run(command.arg(&volume.device).arg(&point), "mount").with_context(context)?;
            }
            volume.mount = Some(point);
        }
        Ok(())
    }

    /// Takes everything down.
    ///
    /// # Errors
    /// When a file system stays busy, or the drive does not end well.
    pub fn close(mut self) -> Result<()> {
        self.unmount()?;
        self.drive.take().map_or(Ok(()), Drive::stop)
    }
}

impl Drop for MountedDrive {
    fn drop(&mut self) {
        if let Some(drive) = self.drive.take() {
            let result = self.unmount().and_then(|()| drive.stop());
            if let Err(error) = result {
                tracing::warn!("taking a layout down: {error:#}");
            }
        }
    }
}

/// A layout with contents, kept as a drive image.
#[derive(Debug)]
pub struct BaseImage {
    layout: Layout,
    image: PathBuf,
    toml: toml::Table,
    nsids: Vec<u32>,
}

impl BaseImage {
    /// Makes it: serves an empty drive with timing off, creates the namespaces, preconditions them, makes the file
    /// systems, lets `setup` fill them, and shuts all down cleanly.
    ///
    /// # Errors
    /// When any of that fails.
    pub fn make(
        scratch: &Scratch,
        program: &Program,
        layout: &Layout,
        progress: &mut dyn FnMut(&str),
        setup: impl FnOnce(&mut MountedDrive, &mut dyn FnMut(&str)) -> Result<()>,
    ) -> Result<Self> {
        require_root()?;
        layout.check().with_context(|| format!("in the layout {}", layout.name))?;
        let toml = program.drive_toml(layout)?;
        let image = scratch.dir(&format!("base/{}", layout.name))?.join("image");
        progress("starting the drive");
        let directory = scratch.dir(&format!("make-{}", layout.name))?;
        let start = Start { directory: &directory, toml: &toml, image: &image, timing: false };
        let mut drive = program.serve(scratch, &start)?;
        // The layout says what there is, not the profile.
        drive.delete_all()?;
        let mut volumes = Vec::new();
        for namespace in &layout.namespaces {
            scratch.cancel().check()?;
            let nsid = drive.create(namespace).with_context(|| {
                format!("creating namespace {} of layout {}", namespace.name, layout.name)
            })?;
            let device = device(&mut drive, namespace, nsid)?;
            volumes.push(Volume {
                name: namespace.name.clone(),
                nsid,
                set: namespace.set,
                filesystem: namespace.filesystem,
                device,
                mount: None,
            });
        }
        let nsids: Vec<u32> = volumes.iter().map(|v| v.nsid).collect();
        let mut mounted = MountedDrive { drive: Some(drive), volumes, stores: BTreeMap::new(), directory };
        for (index, namespace) in layout.namespaces.iter().enumerate() {
            let device = mounted.volumes[index].device.clone();
            if namespace.filesystem == Filesystem::Store {
                // A store begins with empty zones: there is nothing that could be overwritten.
                mounted.drive()?.format_store(nsids[index], &namespace.mkfs)?;
                continue;
            }
            let is_nand =
                mounted.drive()?.media().get(usize::from(namespace.set) - 1).is_none_or(|m| m == "nand");
            if is_nand {
                precondition(&device, layout.precondition, scratch.cancel(), progress)
                    .with_context(|| format!("preconditioning namespace {}", namespace.name))
                    .map_err(|error| no_room(error, &mounted.directory))?;
            }
            make_filesystem(&device, namespace.filesystem, &namespace.mkfs, scratch.cancel())?;
        }
        mounted.mount(scratch, layout)?;
        setup(&mut mounted, progress)?;
        progress("shutting the prepared drive down");
        mounted.close()?;
        Ok(Self { layout: layout.clone(), image, toml, nsids })
    }

    /// The layout.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The drive's TOML, with the layout's changes.
    pub fn drive_toml(&self) -> &toml::Table {
        &self.toml
    }

    /// Copies the image and brings it up under `name`, with timing on and `changes` to the drive's TOML.
    ///
    /// # Errors
    /// When the host's disk is full, or the drive or a mount fails.
    pub fn open(
        &self,
        scratch: &Scratch,
        program: &Program,
        name: &str,
        changes: &toml::Table,
    ) -> Result<MountedDrive> {
        let directory = self.copy(scratch, name)?;
        self.serve(scratch, program, directory, changes, true)
    }

    /// Copies the image to a directory of this name.
    ///
    /// # Errors
    /// When the host's disk is full.
    pub fn copy(&self, scratch: &Scratch, name: &str) -> Result<PathBuf> {
        let directory = scratch.dir(name)?;
        let image = directory.join("image");
        let mut copy = Command::new("cp");
        copy.args(["--recursive", "--sparse=always", "--reflink=auto"]).arg(&self.image).arg(&image);
        run_long(&mut copy, "coreutils", scratch.cancel())
            .context("copying the prepared drive; if the disk is full, name another with --scratch")?;
        Ok(directory)
    }

    /// Serves an image that is already in `directory`, for instance again after a power cut.
    ///
    /// # Errors
    /// When the drive or a mount fails.
    pub fn serve(
        &self,
        scratch: &Scratch,
        program: &Program,
        directory: PathBuf,
        changes: &toml::Table,
        timing: bool,
    ) -> Result<MountedDrive> {
        self.serve_behind(scratch, program, directory, changes, timing, None)
    }

    /// The same with a cache tier, if there is one: the file system of its origin is mounted from the tier. Its other namespaces have no block devices.
    ///
    /// # Errors
    /// When the drive, the tier or a mount fails.
    pub fn serve_behind(
        &self,
        scratch: &Scratch,
        program: &Program,
        directory: PathBuf,
        changes: &toml::Table,
        timing: bool,
        tier: Option<&Tier>,
    ) -> Result<MountedDrive> {
        let mut toml = self.toml.clone();
        crate::layout::merge(&mut toml, changes);
        if let Some(tier) = tier {
            toml.insert("cache".into(), tier.toml(|name| self.nsid(name))?);
        }
        let image = directory.join("image");
        let mut drive =
            program.serve(scratch, &Start { directory: &directory, toml: &toml, image: &image, timing })?;
        let mut volumes = Vec::new();
        for (namespace, &nsid) in self.layout.namespaces.iter().zip(&self.nsids) {
            let device = match tier {
                Some(tier) if tier.origin == namespace.name => drive.tier_device(&tier.name)?,
                Some(tier) if tier.hides(&namespace.name) => PathBuf::new(),
                _ => device(&mut drive, namespace, nsid)?,
            };
            volumes.push(Volume {
                name: namespace.name.clone(),
                nsid,
                set: namespace.set,
                filesystem: namespace.filesystem,
                device,
                mount: None,
            });
        }
        let mut mounted = MountedDrive { drive: Some(drive), volumes, stores: BTreeMap::new(), directory };
        mounted.mount(scratch, &self.layout)?;
        Ok(mounted)
    }

    /// The identifier of a namespace of the layout.
    fn nsid(&self, name: &str) -> Result<u32> {
        let at = self.layout.namespaces.iter().position(|namespace| namespace.name == name);
        at.and_then(|at| self.nsids.get(at).copied())
            .with_context(|| format!("the layout {} has no namespace {name:?}", self.layout.name))
    }
}

/// Removes a run's copy of the image, so that the disk holds one at a time.
///
/// # Errors
/// When it cannot be removed.
pub fn discard(scratch: &Scratch, name: &str) -> Result<()> {
    let path = scratch.path().join(name);
    fs::remove_dir_all(&path).with_context(|| format!("removing {}", path.display()))
}

/// Why this process cannot bring a layout up, with what to do about it; `None` if it can, as far as can be seen without trying.
pub fn obstacle() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("not root, which loop devices and mounts need: run it with sudo".into());
    }
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    if !may_mount(&status) {
        return Some(
            "root without CAP_SYS_ADMIN, which mounts need: start the container with --cap-add SYS_ADMIN"
                .into(),
        );
    }
    let needed = [
        (
            "/dev/fuse",
            "load the module with `modprobe fuse`; a container is started with --device /dev/fuse and --cap-add SYS_ADMIN",
        ),
        (
            "/dev/loop-control",
            "load the module with `modprobe loop`; a container is started with --privileged",
        ),
    ];
    for (device, remedy) in needed {
        if let Err(error) = File::options().read(true).write(true).open(device) {
            return Some(match error.kind() {
                ErrorKind::NotFound => format!("no {device}: {remedy}"),
                _ => format!("{device} cannot be opened ({error}): {remedy}"),
            });
        }
    }
    None
}

/// Whether the effective capabilities in a process's `status` (proc(5)) have CAP_SYS_ADMIN, bit 21 (capabilities(7)). What does not say
/// leaves it to be tried.
pub(crate) fn may_mount(status: &str) -> bool {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    line.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).is_none_or(|bits| bits >> 21 & 1 == 1)
}

/// Loop devices and mounts need root.
///
/// # Errors
/// When there is an [obstacle].
pub fn require_root() -> Result<()> {
    obstacle().map_or(Ok(()), |why| bail!("nothing can be mounted: {why}"))
}

/// Where a namespace of a running drive is.
fn device(drive: &mut Drive, namespace: &Namespace, nsid: u32) -> Result<PathBuf> {
    if namespace.filesystem == Filesystem::Store { drive.zones(nsid) } else { drive.device(nsid) }
}

fn make_filesystem(device: &Path, filesystem: Filesystem, options: &[String], cancel: &Cancel) -> Result<()> {
    // Without discard: a preconditioned drive is to stay so.
    let mut command = match filesystem {
        Filesystem::Raw | Filesystem::Store => return Ok(()),
        Filesystem::Xfs => {
            let mut command = Command::new("mkfs.xfs");
            command.args(["-q", "-f", "-K"]);
            command
        }
        Filesystem::Ext4 => {
            let mut command = Command::new("mkfs.ext4");
            command.args(["-q", "-F", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"]);
            command
        }
    };
    let package = if filesystem == Filesystem::Xfs { "xfsprogs" } else { "e2fsprogs" };
    run_long(command.args(options).arg(device), package, cancel)?;
    Ok(())
}

/// Size of the pieces that are overwritten at random: a database's page.
const PIECE_BYTES: u64 = 16 << 10;

/// Writes the device as asked, around the page cache. The contents are zeroes, which keeps copies of the image sparse;
/// flash state does not depend on contents.
fn precondition(
    device: &Path,
    how: Precondition,
    cancel: &Cancel,
    progress: &mut dyn FnMut(&str),
) -> Result<()> {
    if how == Precondition::None {
        return Ok(());
    }
    let direct = i32::try_from(OFlags::DIRECT.bits()).unwrap_or(0);
    let mut file = File::options()
        .write(true)
        .custom_flags(direct)
        .open(device)
        .with_context(|| format!("opening {}", device.display()))?;
    let bytes = file.seek(SeekFrom::End(0))?;
    file.rewind()?;
    // Direct I/O wants memory aligned to a page.
    let memory = vec![0u8; (1 << 20) + 4096];
    let start = memory.as_ptr().align_offset(4096).min(4096);
    let buffer = &memory[start..start + (1 << 20)];
    let size = show_size(bytes);
    let mut written = 0;
    while written < bytes {
        cancel.check()?;
        let piece = usize::try_from((bytes - written).min(buffer.len() as u64)).unwrap_or(buffer.len());
        file.write_all(&buffer[..piece])?;
        written += piece as u64;
        if written % (64 << 20) == 0 {
            progress(&format!("filling {} of {size}", show_size(written)));
        }
    }
    if how == Precondition::Steady {
        let mut rng = Rng::new(0x5EED, 0);
        let pieces = u32::try_from(bytes / PIECE_BYTES).unwrap_or(u32::MAX);
        for piece in 0..pieces {
            let at = u64::from(rng.uniform(0, pieces - 1)) * PIECE_BYTES;
            file.seek(SeekFrom::Start(at))?;
            file.write_all(&buffer[..16 << 10])?;
            if piece % 4096 == 0 {
                cancel.check()?;
                progress(&format!(
                    "overwriting at random, {} of {size}",
                    show_size(u64::from(piece) * PIECE_BYTES)
                ));
            }
        }
    }
    file.sync_all()?;
    Ok(())
}

/// Says whose disk is full: the drive keeps its contents in the scratch directory.
fn no_room(error: anyhow::Error, directory: &Path) -> anyhow::Error {
    let full = |cause: &io::Error| cause.kind() == ErrorKind::StorageFull;
    match error.root_cause().downcast_ref::<io::Error>().is_some_and(full) {
        true => error.context(format!(
            "there is no room for the drive's image in {}: name a larger directory with --scratch",
            directory.display()
        )),
        false => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounting_needs_its_capability() {
        // What a container without --cap-add has, and what root on a machine has.
        assert!(!may_mount("Name:\tx\nCapEff:\t00000000a80425fb\n"));
        assert!(may_mount("CapEff:\t000001ffffffffff\n"));
        assert!(may_mount("nothing of the kind"), "then it is tried");
    }

    #[test]
    fn a_full_scratch_directory_is_named() {
        let failed = |kind: ErrorKind| {
            let error = anyhow::Error::from(io::Error::from(kind)).context("preconditioning namespace data");
            format!("{:#}", no_room(error, Path::new("/scratch/make-flash")))
        };
        let full = failed(ErrorKind::StorageFull);
        assert!(full.contains("/scratch/make-flash") && full.contains("--scratch"), "{full}");
        assert!(!failed(ErrorKind::BrokenPipe).contains("--scratch"));
    }
}
