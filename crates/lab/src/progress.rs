//! What a study is doing, on standard error: a bar on a terminal, lines elsewhere.

use std::{
    io::{IsTerminal, stderr},
    sync::Mutex,
    time::Duration,
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Progress through the steps of a study.
#[derive(Debug)]
pub struct Progress {
    bar: Option<ProgressBar>,
    steps: u64,
    done: u64,
    step: String,
}

impl Progress {
    /// `steps` steps are to be done.
    pub fn new(steps: u64) -> Self {
        let bar = stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(Some(steps), ProgressDrawTarget::stderr());
            let style = ProgressStyle::with_template("{elapsed_precise} [{bar:30}] {pos}/{len} {wide_msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "));
            bar.enable_steady_tick(Duration::from_millis(500));
            bar
        });
        Self { bar, steps, done: 0, step: String::new() }
    }

    /// The next step begins.
    pub fn begin(&mut self, step: &str) {
        step.clone_into(&mut self.step);
        match &self.bar {
            Some(bar) => bar.set_message(step.to_owned()),
            None => eprintln!("[{}/{}] {step}", self.done + 1, self.steps),
        }
    }

    /// More about the current step; only shown on a terminal.
    pub fn detail(&mut self, detail: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(format!("{}: {detail}", self.step));
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
            None => eprintln!("      {result}"),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
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

    /// A step is done, with this result.
    pub(crate) fn done(&self, step: &str, result: &str) {
        if let Ok(mut progress) = self.0.lock() {
            progress.begin(step);
            progress.end(result);
        }
    }
}
