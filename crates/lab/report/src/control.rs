//! What work that takes a while needs of its caller: a token that ends it early, and somebody who is told how far it is.
//!
//! Nothing in this crate prints or handles signals. The command line shows [`Event`]s on standard error and cancels when a signal comes;
//! another caller does what suits it.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use crate::processors::Processors;

/// The error of work that was cancelled.
#[derive(Debug)]
pub struct Interrupted;

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("interrupted")
    }
}

impl std::error::Error for Interrupted {}

/// Why a command fails that reports although it was interrupted.
pub const PARTIAL: &str = "interrupted: the results are those of the part that ran";

/// A token that ends work early. Clones are the same token; once cancelled it stays so.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// A token that this flag cancels, when it becomes true.
    pub fn by(flag: Arc<AtomicBool>) -> Self {
        Self(flag)
    }

    /// Asks the work to end.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the work is to end.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// # Errors
    /// [`Interrupted`] when the work is to end.
    pub fn check(&self) -> Result<(), Interrupted> {
        if self.is_cancelled() { Err(Interrupted) } else { Ok(()) }
    }

    /// Sleeps, but not after the token was cancelled.
    ///
    /// # Errors
    /// [`Interrupted`] when the work is to end.
    pub fn sleep(&self, time: Duration) -> Result<(), Interrupted> {
        let end = Instant::now() + time;
        loop {
            self.check()?;
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            thread::sleep(left.min(Duration::from_millis(100)));
        }
    }
}

/// Numbers a piece of work among those of a [`Control`] and its clones.
pub type WorkId = u64;

/// What a piece of work consists of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Parts {
    /// So many steps, which are told one by one.
    Steps(u64),
    /// So many simulated runs, some of them at the same time.
    Runs(usize),
    /// Jobs of the load generator, which run at the same time.
    Jobs,
}

/// How far work is. Events of different works, and those of runs, come from several threads.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// A line that is worth knowing, of no work in particular.
    Note(&'a str),
    /// A piece of work begins.
    Began(WorkId, Parts),
    /// A piece of work is over; nothing more is told of it.
    Ended(WorkId),
    /// A line that is worth knowing while this work goes on.
    WorkNote(WorkId, &'a str),
    /// A step begins.
    StepBegan {
        /// Of this work.
        work: WorkId,
        /// Counted from 1.
        number: u64,
        /// Of so many.
        of: u64,
        /// What is done, with the label of the [`Control`].
        step: &'a str,
    },
    /// More about the step that is being done, often.
    Detail {
        /// Of this work.
        work: WorkId,
        /// What is done.
        step: &'a str,
        /// More about it.
        detail: &'a str,
    },
    /// A step is done.
    StepEnded {
        /// Of this work.
        work: WorkId,
        /// What was done.
        step: &'a str,
        /// What came of it; may be empty.
        result: &'a str,
    },
    /// How far runs are, several times a second.
    Share {
        /// Of this work.
        work: WorkId,
        /// The share of all runs together that is done: 0 to 1.
        done: f64,
        /// Runs that have ended.
        ended: usize,
        /// Of so many.
        of: usize,
    },
    /// A run has ended.
    RunEnded {
        /// Of this work.
        work: WorkId,
        /// Runs that have ended.
        ended: usize,
        /// Of so many.
        of: usize,
        /// What is different in this run.
        settings: &'a str,
    },
    /// What jobs are doing, twice a second: it takes the place of the line before.
    Status(WorkId, &'a str),
}

/// Is told how far work is.
pub trait Observer: Send + Sync {
    /// Something has happened. Work waits until this returns.
    fn event(&self, event: Event<'_>);
}

/// Nobody.
struct Nobody;

impl Observer for Nobody {
    fn event(&self, _: Event<'_>) {}
}

/// What a caller gives to work: its clones are cancelled together, and tell the same observer.
#[derive(Clone)]
pub struct Control {
    cancel: Cancel,
    observer: Arc<dyn Observer>,
    /// Works so far.
    works: Arc<AtomicU64>,
    processors: Arc<Processors>,
    /// Stands before each step.
    label: String,
}

impl Default for Control {
    /// Nobody is told, and nobody ends the work.
    fn default() -> Self {
        Self::new(Cancel::default(), Arc::new(Nobody))
    }
}

impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Control").field("cancel", &self.cancel).finish_non_exhaustive()
    }
}

impl Control {
    /// Work is ended by this token, and this observer is told.
    pub fn new(cancel: Cancel, observer: Arc<dyn Observer>) -> Self {
        let (works, processors) = Default::default();
        Self { cancel, observer, works, processors, label: String::new() }
    }

    /// The token that ends the work.
    pub fn cancel(&self) -> &Cancel {
        &self.cancel
    }

    /// Whether the work is to end.
    pub fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled()
    }

    /// # Errors
    /// [`Interrupted`] when the work is to end.
    pub fn check(&self) -> Result<(), Interrupted> {
        self.cancel.check()
    }

    /// The same for one of several pieces of work: this label stands before each step.
    pub fn labelled(&self, label: &str) -> Self {
        Self { label: format!("{label}: "), ..self.clone() }
    }

    /// What pieces of all the work share.
    pub(crate) fn processors(&self) -> &Processors {
        &self.processors
    }

    /// Tells the observer.
    pub fn tell(&self, event: Event<'_>) {
        self.observer.event(event);
    }

    /// Tells a line that is worth knowing.
    pub fn note(&self, line: &str) {
        self.tell(Event::Note(line));
    }

    /// Begins a piece of work, which is over when what is returned is dropped.
    pub fn begin(&self, parts: Parts) -> Work {
        let id = self.works.fetch_add(1, Ordering::Relaxed);
        self.tell(Event::Began(id, parts));
        Work { control: self.clone(), id }
    }
}

/// A piece of work that an observer is told of.
#[derive(Debug)]
pub struct Work {
    control: Control,
    id: WorkId,
}

impl Work {
    /// Its number.
    pub fn id(&self) -> WorkId {
        self.id
    }

    /// Tells the observer.
    pub fn tell(&self, event: Event<'_>) {
        self.control.tell(event);
    }

    /// What stands before each step.
    fn label(&self) -> &str {
        &self.control.label
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.control.tell(Event::Ended(self.id));
    }
}

/// Progress through the steps of a study.
#[derive(Debug)]
pub struct Progress {
    work: Work,
    steps: u64,
    done: u64,
    step: String,
}

impl Progress {
    /// `steps` steps are to be done.
    pub fn new(control: &Control, steps: u64) -> Self {
        Self { work: control.begin(Parts::Steps(steps)), steps, done: 0, step: String::new() }
    }

    /// The next step begins.
    pub fn begin(&mut self, step: &str) {
        self.step = format!("{}{step}", self.work.label());
        let (work, number, of) = (self.work.id, self.done + 1, self.steps);
        self.work.tell(Event::StepBegan { work, number, of, step: &self.step });
    }

    /// More about the current step.
    pub fn detail(&mut self, detail: &str) {
        self.work.tell(Event::Detail { work: self.work.id, step: &self.step, detail });
    }

    /// Something worth knowing that is no step.
    pub fn note(&self, line: &str) {
        self.work.tell(Event::WorkNote(self.work.id, line));
    }

    /// The current step is done, with this result.
    pub fn end(&mut self, result: &str) {
        self.done += 1;
        self.work.tell(Event::StepEnded { work: self.work.id, step: &self.step, result });
    }
}

/// The same for steps that are done at the same time: of each it is told when it is done.
#[derive(Debug)]
pub struct Steps(std::sync::Mutex<Progress>);

impl Steps {
    /// `steps` steps are to be done.
    pub fn new(control: &Control, steps: u64) -> Self {
        Self(Progress::new(control, steps).into())
    }

    /// Something worth knowing that is no step.
    pub fn note(&self, line: &str) {
        if let Ok(progress) = self.0.lock() {
            progress.note(line);
        }
    }

    /// A step is done, with this result.
    pub fn done(&self, step: &str, result: &str) {
        if let Ok(mut progress) = self.0.lock() {
            progress.begin(step);
            progress.end(result);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[derive(Default)]
    struct Lines(Mutex<Vec<String>>);

    impl Observer for Lines {
        fn event(&self, event: Event<'_>) {
            self.0.lock().unwrap().push(format!("{event:?}"));
        }
    }

    #[test]
    fn an_observer_is_told_of_each_piece_of_work() {
        let lines = Arc::new(Lines::default());
        let control = Control::new(Cancel::default(), lines.clone());
        let mut progress = Progress::new(&control, 2);
        let other = control.labelled("seed=1").begin(Parts::Jobs);
        progress.begin("first");
        progress.end("done");
        drop((progress, other));
        let told = lines.0.lock().unwrap();
        assert_eq!(told[..2], ["Began(0, Steps(2))", "Began(1, Jobs)"]);
        assert_eq!(told[3], "StepEnded { work: 0, step: \"first\", result: \"done\" }");
        assert_eq!(told[4..], ["Ended(0)", "Ended(1)"]);
        drop(told);
        let steps = Steps::new(&control.labelled("seed=1"), 1);
        steps.done("a", "");
        assert!(lines.0.lock().unwrap().iter().any(|line| line.contains("step: \"seed=1: a\"")));
    }

    #[test]
    fn all_clones_are_cancelled_together() {
        let control = Control::default();
        let (token, other) = (control.cancel().clone(), control.labelled("x"));
        assert!(other.check().is_ok() && token.sleep(Duration::from_millis(1)).is_ok());
        let waiter = thread::spawn(move || other.cancel().sleep(Duration::from_secs(3600)));
        token.cancel();
        assert!(waiter.join().unwrap().is_err() && control.is_cancelled());
    }
}
