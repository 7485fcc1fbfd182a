//! What the front ends of this crate share: a drive as one host of it, its namespaces as files, the requests in flight on them, and the
//! thread that follows the drive.

use crate::access::Access;
use crate::attached::Attached;
use crate::drive::{Drive, DriveNotice, Reports};
use crate::error::ExportError;
use crate::file_table::{Changes, File, FileTable};
use crate::request_queue::RequestQueue;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

/// Permission bits that block files start with, where nobody says otherwise.
pub const DEFAULT_MODE: u16 = 0o600;

/// Pause after the drive failed to identify its namespaces, before the next attempt. Each further pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Who is told when namespaces appear and vanish.
pub trait Follower: Send + Sync + 'static {
    /// Called on the thread that follows the drive, one change after the other.
    fn follow(&self, changes: &Changes);
}

/// A drive whose namespaces front ends show: as block files ([`Export`](crate::Export)), over NBD ([`nbd`](crate::nbd)), as block devices
/// ([`ublk`](crate::ublk)). They share one host of the drive and one queue. It ends when the last of them has ended.
pub struct Backend {
    watched: Arc<Watched>,
    requests: Arc<RequestQueue>,
    news: mpsc::Sender<DriveNotice>,
    watcher: Option<JoinHandle<()>>,
}

struct Watched {
    drive: Arc<dyn Drive>,
    files: Arc<FileTable>,
    followers: Mutex<Vec<Arc<dyn Follower>>>,
}

impl Backend {
    /// The namespaces that the drive has attached to the host [`HOST_NQN`](crate::HOST_NQN).
    ///
    /// # Errors
    /// If the drive does not answer, or there is no thread.
    pub fn start(handle: &live::Handle) -> Result<Arc<Self>, ExportError> {
        let connect = |reports| Ok(Attached::connect(handle, reports)? as Arc<dyn Drive>);
        Self::over(connect, DEFAULT_MODE)
    }

    /// The namespaces of the drive that `connect` returns. The drive reports its completions and news to what `connect` is given. `mode` has the
    /// permission bits that block files start with; write permission is taken from read-only namespaces.
    ///
    /// # Errors
    /// If the drive does not answer, or there is no thread.
    pub fn over(
        connect: impl FnOnce(Reports) -> Result<Arc<dyn Drive>, String>,
        mode: u16,
    ) -> Result<Arc<Self>, ExportError> {
        let requests = Arc::new(RequestQueue::new());
        let (news, inbox) = mpsc::channel();
        let completions = Arc::downgrade(&requests);
        let drive = connect(Reports { completions, news: news.clone() }).map_err(ExportError::Drive)?;
        requests.connect(drive.clone());
        let access = Access {
            mode: mode & 0o7777,
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
        };
        let files = Arc::new(FileTable::new(access, drive.names()));
        files.update(&drive.namespaces().map_err(ExportError::Drive)?);
        let watched = Arc::new(Watched { drive, files, followers: Mutex::default() });
        let mut backend = Backend { watched: watched.clone(), requests, news, watcher: None };
        let watcher = std::thread::Builder::new().name("block-watch".into());
        let watcher = watcher.spawn(move || watched.watch(&inbox));
        backend.watcher = Some(watcher.map_err(ExportError::system("starting a thread"))?);
        Ok(Arc::new(backend))
    }

    /// The drive.
    pub(crate) fn drive(&self) -> &Arc<dyn Drive> {
        &self.watched.drive
    }

    /// Its namespaces.
    pub(crate) fn files(&self) -> &Arc<FileTable> {
        &self.watched.files
    }

    /// The requests in flight.
    pub(crate) fn requests(&self) -> &Arc<RequestQueue> {
        &self.requests
    }

    /// Lets `begin` see the files as they are, and the follower all changes from then on.
    pub(crate) fn subscribe<E>(
        &self,
        follower: Arc<dyn Follower>,
        begin: impl FnOnce(&[Arc<File>]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut followers = self.watched.followers();
        begin(&self.watched.files.all())?;
        followers.push(follower);
        Ok(())
    }

    /// The follower is told nothing any more, and is being told nothing when this returns.
    pub(crate) fn unsubscribe(&self, follower: &Arc<dyn Follower>) {
        self.watched.followers().retain(|other| !Arc::ptr_eq(other, follower));
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        let _ = self.news.send(DriveNotice::Stop);
        if let Some(watcher) = self.watcher.take() {
            let _ = watcher.join();
        }
    }
}

impl Watched {
    fn followers(&self) -> MutexGuard<'_, Vec<Arc<dyn Follower>>> {
        self.followers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs in a thread of its own: the kernel may have to ask a directory while it is being told something about it.
    fn watch(&self, inbox: &mpsc::Receiver<DriveNotice>) {
        // After a failure, when it asks again by itself: no notice may follow.
        let mut again: Option<Duration> = None;
        loop {
            let notice = match again {
                None => inbox.recv().unwrap_or(DriveNotice::Stop),
                Some(pause) => match inbox.recv_timeout(pause) {
                    Err(RecvTimeoutError::Timeout) => DriveNotice::Namespaces,
                    heard => heard.unwrap_or(DriveNotice::Stop),
                },
            };
            // One answer of the drive is enough for all notices until now.
            if notice == DriveNotice::Stop || inbox.try_iter().any(|notice| notice == DriveNotice::Stop) {
                return;
            }
            again = match self.drive.namespaces() {
                Ok(namespaces) => {
                    let followers = self.followers();
                    let changes = self.files.update(&namespaces);
                    self.tell(&changes);
                    followers.iter().for_each(|follower| follower.follow(&changes));
                    None
                }
                Err(error) => {
                    tracing::warn!("the namespaces cannot be identified, files stay as they are: {error}");
                    Some(again.map_or(FIRST_PAUSE, |pause| LONGEST_PAUSE.min(pause * 2)))
                }
            };
        }
    }

    fn tell(&self, changes: &Changes) {
        for file in &changes.gone {
            let name = file.name();
            match file.namespace.losses == self.drive.losses() {
                true => tracing::info!(name, "namespace gone"),
                false => tracing::warn!(
                    "{name}: a power cut took completed writes along; what has the file open fails from now on, open it anew"
                ),
            }
        }
        for file in &changes.new {
            tracing::info!("namespace appeared: {}, {} bytes", file.name(), file.namespace.bytes());
        }
    }
}
