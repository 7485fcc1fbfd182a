//! A running export.

use crate::backend::{Backend, DEFAULT_MODE, Follower};
use crate::directory::Directory;
use crate::drive::Zones;
use crate::drive::{Drive, Reports};
use crate::error::ExportError;
use crate::file_table::{Changes, File, ROOT};
use crate::loop_records::LoopRecord;
use crate::loops::LoopDevice;
use crate::mount::{self, Programs};
use crate::mountinfo::Mount;
use crate::uring::{self, Rings};
use fuser::{BackgroundSession, INodeNo, Notifier};
use rustix::mount::UnmountFlags;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long requests of the kernel may take to end after unmounting before its connection is cut.
const LAST_REQUESTS: Duration = Duration::from_secs(1);

/// Threads at the device, where nobody says how many.
const THREADS: usize = 2;

/// How requests come from the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum FuseTransport {
    /// Through io_uring where the kernel offers it, else through the device.
    #[default]
    Auto,
    /// Through io_uring.
    Uring,
    /// Through `/dev/fuse`, a system call for each request and each answer.
    Device,
}

/// How to export.
#[derive(Clone, Debug)]
pub struct Options {
    /// Attach a loop device to every file.
    pub loops: bool,
    /// Threads that take requests from the kernel, 1 or more; `None` is two through the device and one for each
    /// processor through io_uring.
    pub threads: Option<usize>,
    /// How they take them.
    pub transport: FuseTransport,
}

impl Default for Options {
    fn default() -> Self {
        Options { loops: false, threads: None, transport: FuseTransport::Auto }
    }
}

/// A namespace as the system sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Device {
    /// Namespace identifier.
    pub nsid: u32,
    /// The block file, or the directory of a zoned namespace.
    pub file: PathBuf,
    /// Its loop device, if it has one.
    pub node: Option<PathBuf>,
    /// Size in bytes. Of a zoned namespace, what can be written in all its zones.
    pub bytes: u64,
    /// Its zones, if it is zoned.
    pub zones: Option<Zones>,
    /// Bytes per logical block.
    pub block_size: u32,
    /// Whether writes are refused.
    pub read_only: bool,
}

/// A directory with a block file for each attached namespace of a drive, and their loop devices. A zoned namespace is a directory with a file
/// for each zone. It follows the drive: files appear and vanish with the namespaces.
///
/// [`stop`](Export::stop) it in the end; dropping it does the same, but can only log what was in the way.
pub struct Export {
    shared: Arc<Shared>,
    backend: Arc<Backend>,
    session: Option<Served>,
    mount: Option<Mount>,
}

/// The threads that take requests from the kernel.
struct Served {
    session: BackgroundSession,
    /// Where most requests come, if they come through io_uring.
    rings: Option<Rings>,
}

impl Served {
    /// Whether the kernel has no requests any more.
    fn is_finished(&self) -> bool {
        self.session.guard.is_finished() && self.rings.as_ref().is_none_or(Rings::ended)
    }
}

struct Shared {
    dir: PathBuf,
    options: Options,
    notifier: Notifier,
    /// By inode number.
    loops: Mutex<BTreeMap<u64, LoopDevice>>,
    /// What the next start finds them by if this process is killed.
    record: Mutex<Option<LoopRecord>>,
}

impl Export {
    /// Mounts `dir`, an empty directory, and fills it with the namespaces that the drive has attached to the
    /// host [`HOST_NQN`](crate::HOST_NQN). What a killed process left there is cleared away first.
    ///
    /// # Errors
    /// If the directory cannot be used, there is no FUSE, the privilege is missing, or the drive does not
    /// answer. Nothing stays mounted or attached then.
    pub fn start(handle: &live::Handle, dir: &Path, options: Options) -> Result<Self, ExportError> {
        let dir = mount::prepare(dir)?;
        Self::begin(Backend::start(handle)?, dir, options)
    }

    /// Exports the drive that `connect` returns. The drive reports its completions and news to what `connect` is given.
    ///
    /// # Errors
    /// If the directory cannot be used, there is no FUSE, the privilege is missing, or the drive does not
    /// answer. Nothing stays mounted or attached then.
    pub fn over(
        connect: impl FnOnce(Reports) -> Result<Arc<dyn Drive>, String>,
        dir: &Path,
        options: Options,
    ) -> Result<Self, ExportError> {
        let dir = mount::prepare(dir)?;
        Self::begin(Backend::over(connect, DEFAULT_MODE)?, dir, options)
    }

    /// Exports a drive that other front ends may show as well. When the export ends, requests on its files end for all of them: stop it last.
    ///
    /// # Errors
    /// If the directory cannot be used, there is no FUSE, or the privilege is missing. Nothing stays mounted or attached then.
    pub fn of(backend: &Arc<Backend>, dir: &Path, options: Options) -> Result<Self, ExportError> {
        Self::begin(backend.clone(), mount::prepare(dir)?, options)
    }

    fn begin(backend: Arc<Backend>, dir: PathBuf, options: Options) -> Result<Self, ExportError> {
        let (served, mount) = serve(&dir, &backend, &options)?;
        let shared = Arc::new(Shared {
            notifier: served.session.notifier(),
            record: Mutex::new(options.loops.then(|| LoopRecord::new(&dir)).flatten()),
            dir,
            options,
            loops: Mutex::new(BTreeMap::new()),
        });
        let export = Export { shared: shared.clone(), backend, session: Some(served), mount };
        // From here on, dropping it on an error cleans up.
        let attach = |files: &[Arc<File>]| files.iter().try_for_each(|file| shared.attach(file));
        export.backend.subscribe(shared.clone(), attach)?;
        Ok(export)
    }

    /// The namespaces as they are now, by ascending NSID.
    pub fn devices(&self) -> Vec<Device> {
        let loops = self.shared.loops();
        let device = |file: Arc<File>| Device {
            nsid: file.namespace.nsid(),
            file: self.shared.path(&file),
            node: loops.get(&file.ino).map(LoopDevice::node),
            bytes: file.namespace.bytes(),
            zones: file.namespace.zones,
            block_size: file.namespace.block_size(),
            read_only: file.namespace.read_only,
        };
        self.backend.files().all().into_iter().map(device).collect()
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.shared.dir
    }

    /// Whether the directory was taken away from outside: unmounted, or its connection aborted. A sentence that says
    /// what happened and what to do. Cheap enough to be asked every second.
    pub fn lost(&self) -> Option<String> {
        let served = self.session.as_ref()?;
        let there = self.mount.is_none() || mount::mounted(&self.shared.dir) == self.mount;
        let dir = self.shared.dir.display();
        if served.rings.as_ref().is_some_and(Rings::failed) {
            return Some(format!(
                "{dir}: the block files are gone, FUSE over io_uring has failed; start the drive again with --fuse-io device"
            ));
        }
        if there && !served.session.guard.is_finished() {
            return None;
        }
        Some(format!(
            "{dir}: the block files are gone, somebody has unmounted the directory (umount, fusermount3 -u) or \
             aborted its connection; start the drive again to have them back"
        ))
    }

    /// Detaches the loop devices and unmounts the directory, even if they are in use. File systems that the user
    /// has mounted on the loop devices are unmounted first, so that their data gets to the drive. A busy
    /// one is synchronised and unmounted lazily.
    ///
    /// Returns what was in the way, a sentence for each. Doing it twice is harmless.
    pub fn stop(&mut self) -> Vec<String> {
        let mut in_the_way = Vec::new();
        let follower: Arc<dyn Follower> = self.shared.clone();
        self.backend.unsubscribe(&follower);
        let loops = std::mem::take(&mut *self.shared.loops());
        for device in loops.values() {
            release(device, &mut in_the_way);
        }
        let record = self.shared.record().take();
        // One that could not be detached is for the next start.
        if let Some(record) = record
            && !loops.values().any(LoopDevice::is_attached)
        {
            record.remove();
        }
        let Some(served) = self.session.take() else { return in_the_way };
        if let Some(mount) = self.mount.take()
            && let Err(error) = mount::unmount_ours(&self.shared.dir, &mount)
        {
            in_the_way.push(error.to_string());
        } else {
            self.end(served, &mut in_the_way);
        }
        in_the_way
    }

    /// Waits until the kernel has no requests any more. Files that somebody keeps open would make that take
    /// for ever.
    fn end(&self, served: Served, in_the_way: &mut Vec<String>) {
        if !ended_within(&served, LAST_REQUESTS) {
            self.backend.files().update(&[]);
            let name = self.shared.dir.display();
            in_the_way.push(format!(
                "{name}: some process still has a block file open; its requests fail from now on"
            ));
            if let Some(mount) = &self.mount
                && mount::abort(mount)
            {
                ended_within(&served, LAST_REQUESTS);
            }
        }
        if served.is_finished() {
            if let Err(error) = served.session.join() {
                tracing::debug!(%error, "the FUSE session ended with an error");
            }
        } else {
            // Its threads answer with errors until the process ends. Waiting for them here would not end.
            drop(served);
        }
    }
}

impl Drop for Export {
    fn drop(&mut self) {
        for obstacle in self.stop() {
            tracing::warn!("{obstacle}");
        }
    }
}

/// Mounts the directory, in the way that is asked for, and takes its requests.
fn serve(dir: &Path, backend: &Backend, options: &Options) -> Result<(Served, Option<Mount>), ExportError> {
    let (files, requests) = (backend.files(), backend.requests());
    let begin = |rings| begin(dir, Directory::new(files.clone(), requests.clone(), rings), options.threads);
    let refused = |why| ExportError::NoRings { dir: dir.to_owned(), why };
    if options.transport == FuseTransport::Device {
        tracing::info!("block files: requests come through /dev/fuse, as asked for");
        return begin(false)?.map_err(refused);
    }
    let begun = match uring::offered() {
        Ok(()) => begin(true)?,
        Err(why) => Err(why),
    };
    match begun {
        Ok(begun) => {
            tracing::info!("block files: requests come through io_uring");
            Ok(begun)
        }
        Err(why) if options.transport == FuseTransport::Uring => Err(refused(why)),
        Err(why) => {
            tracing::info!("block files: requests come through /dev/fuse; io_uring is faster, but {why}");
            begin(false)?.map_err(refused)
        }
    }
}

type Begun = Result<(Served, Option<Mount>), String>;

/// Mounts the directory and starts the threads. The inner error says why there is no io_uring if that was asked for;
/// nothing is mounted then.
fn begin(dir: &Path, directory: Directory, threads: Option<usize>) -> Result<Begun, ExportError> {
    let wanted = directory.asks_for_rings();
    // Few requests come through the device if most come through rings.
    let session = mount::mount(
        directory.clone(),
        dir,
        if wanted { 1 } else { threads.unwrap_or(THREADS).max(1) },
        Programs::Refused,
    )?;
    let mount = mount::mounted(dir);
    let undo = || {
        if let Some(mount) = &mount {
            let _ = mount::unmount_ours(dir, mount);
        }
    };
    if wanted && !directory.has_rings() {
        undo();
        return Ok(Err("the kernel does not offer it".into()));
    }
    let fuse = session.as_fd().try_clone_to_owned();
    let start = move || {
        // Inherited by the threads. Needs CAP_SYS_RESOURCE; without it there are no loop devices either.
        let _ = rustix::process::configure_io_flusher_behavior(true);
        let rings = if wanted { Some(Rings::start(fuse?, &directory, threads)) } else { None };
        match rings.transpose() {
            Ok(rings) => session.spawn().map(|session| Ok(Served { session, rings })),
            Err(error) => Ok(Err(error.to_string())),
        }
    };
    // The kernel, when it is short of memory and wants to write to one of our files, does not wait for these threads
    // while they wait for memory.
    let started = std::thread::scope(|scope| scope.spawn(start).join());
    let started = started.unwrap_or_else(|_| Err(std::io::Error::other("the session's thread panicked")));
    match started {
        Ok(Ok(served)) => Ok(Ok((served, mount))),
        Ok(Err(why)) => {
            undo();
            Ok(Err(why))
        }
        Err(reason) => {
            undo();
            Err(ExportError::System { what: "starting a thread".into(), reason })
        }
    }
}

fn ended_within(served: &Served, limit: Duration) -> bool {
    let start = Instant::now();
    while !served.is_finished() {
        if start.elapsed() > limit {
            return false;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    true
}

/// Takes a loop device down with what is on it.
fn release(device: &LoopDevice, in_the_way: &mut Vec<String>) {
    let node = device.node();
    let node = node.display();
    for point in device.mounts() {
        if mount::unmount(&point, UnmountFlags::empty()).is_ok() {
            tracing::info!("unmounted {}, which was on {node}", point.display());
            continue;
        }
        let written = std::fs::File::open(&point).is_ok_and(|dir| rustix::fs::syncfs(&dir).is_ok());
        let point_name = point.display();
        let data = if written { "its data was written, but" } else { "what it had not written is lost, and" };
        match mount::unmount(&point, UnmountFlags::DETACH) {
            Ok(()) => in_the_way.push(format!(
                "{point_name} was busy on {node}: {data} processes that still use it will get errors"
            )),
            Err(error) => in_the_way.push(error.to_string()),
        }
    }
    match device.detach() {
        Ok(true) => {}
        Ok(false) => {
            let users = device.users();
            let users = if users.is_empty() { "some process".into() } else { users.join(", ") };
            in_the_way.push(format!(
                "{node} is still used by {users}: it fails from now on and detaches itself after that"
            ));
        }
        Err(error) => in_the_way.push(error.to_string()),
    }
}

impl Shared {
    fn path(&self, file: &File) -> PathBuf {
        self.dir.join(file.name())
    }

    fn loops(&self) -> MutexGuard<'_, BTreeMap<u64, LoopDevice>> {
        self.loops.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record(&self) -> MutexGuard<'_, Option<LoopRecord>> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn attach(&self, file: &File) -> Result<(), ExportError> {
        if self.options.loops && file.namespace.zones.is_some() {
            let name = file.name();
            tracing::warn!(
                "{name}: no loop device, because the namespace is zoned; use the files in {name}/seq, or attach it over NVMe/TCP"
            );
        } else if self.options.loops {
            let namespace = &file.namespace;
            let device = LoopDevice::attach(&self.path(file), namespace.block_size(), namespace.read_only)?;
            if let Some(record) = &*self.record() {
                record.add(&device);
            }
            self.loops().insert(file.ino, device);
        }
        Ok(())
    }
}

impl Follower for Shared {
    fn follow(&self, changes: &Changes) {
        for file in &changes.gone {
            let name = file.name();
            if let Err(error) = self.notifier.delete(INodeNo(ROOT), INodeNo(file.ino), OsStr::new(&name)) {
                tracing::debug!(%error, name, "the kernel did not take the removal");
                let _ = self.notifier.inval_entry(INodeNo(ROOT), OsStr::new(&name));
            }
            let device = self.loops().remove(&file.ino);
            let mut in_the_way = Vec::new();
            device.iter().for_each(|device| release(device, &mut in_the_way));
            in_the_way.iter().for_each(|obstacle| tracing::warn!("{obstacle}"));
        }
        for file in &changes.new {
            if let Err(error) = self.attach(file) {
                tracing::warn!("{error}");
            }
            if let Some(device) = self.loops().get(&file.ino) {
                tracing::info!("{} is {}", device.node().display(), file.name());
            }
        }
    }
}
