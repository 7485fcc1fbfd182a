//! The thread that waits for the host's disk, so that the drive never does.

use super::error::ImageError;
use super::files::{self, Journal};
use super::forget;
use super::format::{self, FrameKind, Header, Mark};
use media::Nanos;
use std::fs::File;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// What the thread is asked to do, in order.
pub(crate) enum Job {
    /// Contents and journal up to `mark` onto the host's disk.
    Sync { mark: Mark, time: Nanos },
    /// Write a checkpoint of a generation whose journal has been started.
    Checkpoint { header: Header, body: Vec<u8> },
    /// The same, and then nothing before it is kept, nor the contents of these slots.
    Forget { header: Header, body: Vec<u8>, slots: Vec<u32>, all: bool },
}

/// What became of it.
pub(crate) enum Report {
    Sync(Result<(), ImageError>),
    Checkpoint(Result<(), ImageError>),
    Forget(Result<(), ImageError>),
}

/// The thread, and the two queues to and from it.
pub(crate) struct Helper {
    jobs: Option<Sender<Job>>,
    reports: Receiver<Report>,
    thread: Option<JoinHandle<()>>,
}

struct Work {
    dir: PathBuf,
    /// Contents, and what lies beside them.
    contents: [File; 2],
    journal: Arc<Mutex<Journal>>,
    host_sync: bool,
}

impl Helper {
    /// Starts the thread; `notify` is called after each report.
    pub(crate) fn start(
        dir: PathBuf,
        contents: [File; 2],
        journal: Arc<Mutex<Journal>>,
        host_sync: bool,
        notify: Arc<dyn Fn() + Send + Sync>,
    ) -> Result<Self, ImageError> {
        let (jobs, todo) = channel();
        let (done, reports) = channel();
        let path = dir.clone();
        let work = Work { dir, contents, journal, host_sync };
        let thread = std::thread::Builder::new()
            .name("tranche-image".to_owned())
            .spawn(move || {
                for job in todo {
                    let report = work.carry_out(job);
                    if done.send(report).is_err() {
                        break;
                    }
                    notify();
                }
            })
            .map_err(ImageError::io("start a thread for", &path))?;
        Ok(Helper { jobs: Some(jobs), reports, thread: Some(thread) })
    }

    /// Queues a job.
    pub(crate) fn ask(&self, job: Job) {
        // The thread lives as long as this does; were it gone, the missing report is what tells.
        if let Some(jobs) = &self.jobs {
            let _ = jobs.send(job);
        }
    }

    /// A report that has arrived.
    pub(crate) fn report(&self) -> Option<Report> {
        self.reports.try_recv().ok()
    }

    /// Waits for a report; `None` if none can come any more.
    pub(crate) fn wait(&self) -> Option<Report> {
        self.reports.recv().ok()
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Work {
    fn carry_out(&self, job: Job) -> Report {
        match job {
            Job::Sync { mark, time } => Report::Sync(self.sync(mark, time)),
            Job::Checkpoint { header, body } => {
                Report::Checkpoint(self.checkpoint(&header, &body, self.host_sync))
            }
            Job::Forget { header, body, slots, all } => {
                Report::Forget(self.forget(&header, &body, slots, all))
            }
        }
    }

    fn sync(&self, mark: Mark, time: Nanos) -> Result<(), ImageError> {
        self.sync_contents()?;
        let mut payload = Vec::with_capacity(16);
        format::encode_mark(mark, &mut payload);
        let (files, names) = {
            let mut journal = self.journal.lock().unwrap_or_else(PoisonError::into_inner);
            let path = files::journal_path(&self.dir, journal.generation());
            journal.append_small(FrameKind::Sync, &payload, time).map_err(ImageError::io("write", &path))?;
            let names = std::mem::take(&mut journal.unsynced_names);
            (journal.to_sync().map_err(ImageError::io("sync", &path))?, names)
        };
        for file in &files {
            file.sync_data().map_err(ImageError::io("sync a journal in", &self.dir))?;
        }
        if names {
            files::sync_directory(&self.dir)?;
        }
        // The last one is still written to.
        let mut journal = self.journal.lock().unwrap_or_else(PoisonError::into_inner);
        journal.unsynced.drain(..files.len() - 1);
        Ok(())
    }

    fn sync_contents(&self) -> Result<(), ImageError> {
        for (file, name) in self.contents.iter().zip([files::CONTENTS, files::SPARES]) {
            file.sync_data().map_err(ImageError::io("sync", &self.dir.join(name)))?;
        }
        Ok(())
    }

    /// Whether the host's disk may be behind or not: nothing older is left to fall back to.
    fn forget(&self, header: &Header, body: &[u8], slots: Vec<u32>, all: bool) -> Result<(), ImageError> {
        self.checkpoint(header, body, true)?;
        forget::remove_older(&self.dir, header.generation)?;
        forget::erase(&self.contents, &self.dir, slots, all)?;
        self.sync_contents()
    }

    fn checkpoint(&self, header: &Header, body: &[u8], sync: bool) -> Result<(), ImageError> {
        if sync {
            // What the checkpoint refers to must be on the disk before it is, and so must the journal
            // that leads to it from the generation before.
            self.sync_contents()?;
            let files = {
                let mut journal = self.journal.lock().unwrap_or_else(PoisonError::into_inner);
                journal.unsynced_names = false;
                journal.to_sync().map_err(ImageError::io("sync a journal in", &self.dir))?
            };
            for file in &files {
                file.sync_data().map_err(ImageError::io("sync a journal in", &self.dir))?;
            }
            let mut journal = self.journal.lock().unwrap_or_else(PoisonError::into_inner);
            journal.unsynced.drain(..files.len() - 1);
        }
        files::write_checkpoint(&self.dir, header, body, sync)?;
        // The checkpoint before this one stays, with everything that leads from it to here.
        if let Ok((checkpoints, _)) = files::generations(&self.dir)
            && let Some(&before) = checkpoints.iter().rev().find(|&&g| g < header.generation)
        {
            files::remove_below(&self.dir, before);
        }
        Ok(())
    }
}
