//! Any file system of this process, mounted.

use crate::error::ExportError;
use crate::mount::{self, Programs};
use crate::mountinfo::Mount;
use fuser::{BackgroundSession, Filesystem};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long requests of the kernel may take to end after unmounting before its connection is cut.
const LAST_REQUESTS: Duration = Duration::from_secs(2);

/// A file system that this process serves at a directory. Dropping it leaves it mounted until the process ends.
pub struct MountedFileSystem {
    session: BackgroundSession,
    dir: PathBuf,
    mount: Option<Mount>,
}

impl MountedFileSystem {
    /// Mounts a file system at `dir`, an empty directory, and answers with so many threads. What a killed process left there is cleared
    /// away first.
    ///
    /// # Errors
    /// If the directory cannot be used, there is no FUSE, or the privilege is missing.
    pub fn start<FS: Filesystem>(filesystem: FS, dir: &Path, threads: usize) -> Result<Self, ExportError> {
        let dir = mount::prepare(dir)?;
        let session = mount::mount(filesystem, &dir, threads, Programs::Run)?;
        let mount = mount::mounted(&dir);
        let session = session.spawn().map_err(|reason| ExportError::Mount { dir: dir.clone(), reason })?;
        Ok(Self { session, dir, mount })
    }

    /// Whether somebody has unmounted it.
    pub fn has_ended(&self) -> bool {
        self.session.guard.is_finished()
    }

    /// Unmounts it, lazily if it is in use, and waits until the requests that the kernel has sent are answered.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn stop(self) -> Result<(), ExportError> {
        if let Some(mount) = &self.mount {
            mount::unmount_ours(&self.dir, mount)?;
        }
        // A process that keeps a file open keeps the connection. Its requests fail from then on.
        let deadline = Instant::now() + LAST_REQUESTS;
        while !self.session.guard.is_finished() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        if let Some(mount) = self.mount.as_ref().filter(|_| !self.session.guard.is_finished()) {
            tracing::warn!(
                "{}: some process still has a file open; its requests fail from now on",
                self.dir.display()
            );
            mount::abort(mount);
        }
        if let Err(error) = self.session.join() {
            tracing::debug!(%error, "the FUSE session ended with an error");
        }
        Ok(())
    }
}
