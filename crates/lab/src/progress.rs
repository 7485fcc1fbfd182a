//! What a study is doing, on standard error: a bar on a terminal, lines elsewhere.

use std::{
    cell::RefCell,
    io::{IsTerminal, stderr},
    sync::{
        LazyLock, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

/// The bars of all studies that run at the same time, one below the other.
static BARS: LazyLock<MultiProgress> =
    LazyLock::new(|| MultiProgress::with_draw_target(ProgressDrawTarget::stderr()));

static SILENT: AtomicBool = AtomicBool::new(false);

/// From now on nothing but errors is said on standard error.
pub fn silence() {
    SILENT.store(true, Ordering::Relaxed);
}

/// A line on standard error, unless only errors are said there.
pub(crate) fn say(line: std::fmt::Arguments<'_>) {
    if !is_silent() {
        eprintln!("{line}");
    }
}

/// Whether nothing but errors is said on standard error.
pub fn is_silent() -> bool {
    SILENT.load(Ordering::Relaxed)
}

/// Whether standard error is a terminal that shows progress.
pub fn has_terminal() -> bool {
    stderr().is_terminal() && !is_silent()
}

thread_local! {
    static LABEL: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Does something whose progress has this label before each line: which of several studies it is.
pub(crate) fn labelled<R>(label: &str, work: impl FnOnce() -> R) -> R {
    let before = LABEL.replace(format!("{label}: "));
    let done = work();
    LABEL.set(before);
    done
}

/// Progress through the steps of a study.
#[derive(Debug)]
pub struct Progress {
    bar: Option<ProgressBar>,
    steps: u64,
    done: u64,
    label: String,
    step: String,
}

impl Progress {
    /// `steps` steps are to be done.
    pub fn new(steps: u64) -> Self {
        let bar = has_terminal().then(|| {
            let bar = BARS.add(ProgressBar::new(steps));
            let style = ProgressStyle::with_template("{elapsed_precise} [{bar:30}] {pos}/{len} {wide_msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "));
            bar.enable_steady_tick(Duration::from_millis(500));
            bar
        });
        Self { bar, steps, done: 0, label: LABEL.with_borrow(Clone::clone), step: String::new() }
    }

    /// The next step begins.
    pub fn begin(&mut self, step: &str) {
        self.step = format!("{}{step}", self.label);
        match &self.bar {
            Some(bar) => bar.set_message(self.step.clone()),
            None => say(format_args!("[{}/{}] {}", self.done + 1, self.steps, self.step)),
        }
    }

    /// More about the current step; only shown on a terminal.
    pub fn detail(&mut self, detail: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(format!("{}: {detail}", self.step));
        }
    }

    /// Something worth knowing that is no step.
    pub(crate) fn note(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.println(line),
            None => say(format_args!("{line}")),
        }
    }

    /// The current step is done, with this result.
    pub fn end(&mut self, result: &str) {
        self.done += 1;
        match &self.bar {
            Some(bar) => {
                bar.inc(1);
                if !result.is_empty() {
                    bar.println(format!("{}: {result}", self.step));
                }
            }
            None if result.is_empty() => {}
            None => say(format_args!("      {result}")),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
            BARS.remove(bar);
        }
    }
}

/// The same for pieces that are worked on at the same time: a step is told of when it is done.
#[derive(Debug)]
pub(crate) struct Steps(Mutex<Progress>);

impl Steps {
    /// `steps` steps are to be done.
    pub(crate) fn new(steps: u64) -> Self {
        Self(Mutex::new(Progress::new(steps)))
    }

    /// Something worth knowing that is no step.
    pub(crate) fn note(&self, line: &str) {
        if let Ok(progress) = self.0.lock() {
            progress.note(line);
        }
    }

    /// A step is done, with this result.
    pub(crate) fn done(&self, step: &str, result: &str) {
        if let Ok(mut progress) = self.0.lock() {
            progress.begin(step);
            progress.end(result);
        }
    }
}
