//! The helper carries out the jobs of an image. It is a thread that waits for the host's disk, so that the drive never does. In a test the
//! caller that asks for the next step does the work.

use super::error::ImageError;
use super::jobs::{Job, JobFiles, JobReport};
use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// What carries out jobs, and waits for the host's disk.
pub(crate) enum Helper {
    /// A thread, and the two queues to and from it.
    Thread {
        work: Arc<JobFiles>,
        jobs: Option<Sender<Job>>,
        todo: Arc<Mutex<Receiver<Job>>>,
        reports: Receiver<JobReport>,
        thread: Option<JoinHandle<()>>,
    },
    /// No thread: jobs go on a step at a time when [`Helper::step`] is called.
    Stepped { work: Arc<JobFiles>, jobs: Mutex<VecDeque<Job>>, reports: Mutex<VecDeque<JobReport>> },
}

impl Helper {
    /// Starts the thread. It calls `notify` after each report, where it may go on with the drive: all of this can be called there.
    pub(crate) fn start(
        work: Arc<JobFiles>,
        notify: Arc<dyn Fn() + Send + Sync>,
    ) -> Result<Self, ImageError> {
        let (jobs, todo) = channel();
        let (done, reports) = channel();
        let todo = Arc::new(Mutex::new(todo));
        let place = work.disk.path().to_owned();
        let (its_work, its_jobs) = (work.clone(), todo.clone());
        let run = move || {
            loop {
                let job = lock(&its_jobs).recv();
                let Ok(job) = job else { break };
                if done.send(its_work.carry_out(job)).is_err() {
                    break;
                }
                notify();
            }
        };
        let thread = std::thread::Builder::new().name("tranche-image".to_owned()).spawn(run);
        let thread = Some(thread.map_err(ImageError::io("start a thread for", &place))?);
        Ok(Helper::Thread { work, jobs: Some(jobs), todo, reports, thread })
    }

    /// Goes on only when it is told to.
    pub(crate) fn stepped(work: Arc<JobFiles>) -> Self {
        Helper::Stepped { work, jobs: Mutex::default(), reports: Mutex::default() }
    }

    /// Queues a job.
    pub(crate) fn ask(&self, job: Job) {
        match self {
            // The thread lives as long as this does; were it gone, the missing report is what tells.
            Helper::Thread { jobs, .. } => {
                if let Some(jobs) = jobs {
                    let _ = jobs.send(job);
                }
            }
            Helper::Stepped { jobs, .. } => lock(jobs).push_back(job),
        }
    }

    /// A report that has arrived.
    pub(crate) fn report(&self) -> Option<JobReport> {
        match self {
            Helper::Thread { reports, .. } => reports.try_recv().ok(),
            Helper::Stepped { reports, .. } => lock(reports).pop_front(),
        }
    }

    /// Waits for a report; `None` if none can come any more.
    pub(crate) fn wait(&self) -> Option<JobReport> {
        match self {
            Helper::Thread { work, todo, reports, thread, .. } => match thread {
                // This is the helper's own thread: no other one would carry them out.
                Some(thread) if is_this(thread) => {
                    let done = || lock(todo).try_recv().ok().map(|job| work.carry_out(job));
                    reports.try_recv().ok().or_else(done)
                }
                _ => reports.recv().ok(),
            },
            Helper::Stepped { .. } => {
                while self.step() {}
                self.report()
            }
        }
    }

    /// Does a step of the first job; whether there is more to do.
    pub(crate) fn step(&self) -> bool {
        let Helper::Stepped { work, jobs, reports } = self else { return false };
        let mut jobs = lock(jobs);
        let Some(job) = jobs.front_mut() else { return false };
        if let Some(report) = work.step(job) {
            jobs.pop_front();
            lock(reports).push_back(report);
        }
        !jobs.is_empty()
    }
}

fn is_this(thread: &JoinHandle<()>) -> bool {
    thread.thread().id() == std::thread::current().id()
}

/// Waits for the end of a thread that has nothing more to do. The last one to use a drive may be that thread: then it ends by
/// itself.
pub(super) fn join(thread: JoinHandle<()>) {
    if !is_this(&thread) {
        let _ = thread.join();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Helper {
    fn drop(&mut self) {
        if let Helper::Thread { jobs, thread, .. } = self {
            *jobs = None;
            thread.take().into_iter().for_each(join);
        }
    }
}
