//! How far work is, on standard error: bars on a terminal, lines elsewhere. Signals end the work.

use crate::signals::asked_by;
use crate::tell::tell;
use anyhow::Result;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use lab_report::control::{Cancel, Control, Event, Observer, Parts, WorkId};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::collections::BTreeMap;
use std::io::{IsTerminal, stderr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

static IS_SILENT: AtomicBool = AtomicBool::new(false);

/// From now on nothing but errors is said on standard error.
pub fn silence() {
    IS_SILENT.store(true, Ordering::Relaxed);
}

/// Whether nothing but errors is said on standard error.
pub fn is_silent() -> bool {
    IS_SILENT.load(Ordering::Relaxed)
}

/// Whether standard error is a terminal that shows progress.
pub fn has_terminal() -> bool {
    stderr().is_terminal() && !is_silent()
}

/// The control of a command: from now on the first signal cancels it, and the second ends the process at once. The next run removes what
/// that leaves.
///
/// # Errors
/// The handlers cannot be installed.
pub fn control() -> Result<Control> {
    let asked = asked_by(&[SIGINT, SIGTERM, SIGHUP])?;
    let cancel = Cancel::by(asked);
    lab_report::input::wait_until(&cancel);
    Ok(Control::new(cancel, Arc::new(Display::new())))
}

/// A line on standard error, unless only errors are said there.
pub fn say(line: &str) {
    if !is_silent() {
        tell!("{line}");
    }
}

/// Shows events.
struct Display {
    /// The bars of all works that go on at the same time, one below the other; none without a terminal.
    all: Option<MultiProgress>,
    bars: Mutex<BTreeMap<WorkId, Bar>>,
    /// Without a terminal: when the works that go on are told of next.
    paces: Mutex<BTreeMap<WorkId, Pace>>,
}

/// When a piece of work is told of where there is no terminal: after 5 s, then ever less often, and each minute at last.
struct Pace {
    began: Instant,
    next: Duration,
}

impl Pace {
    const FIRST_DELAY: Duration = Duration::from_secs(5);
    const PERIOD_MAX: Duration = Duration::from_secs(60);

    fn begin() -> Self {
        Self { began: Instant::now(), next: Self::FIRST_DELAY }
    }

    /// Whether it is time to tell, so long after the beginning.
    fn is_due(&mut self, elapsed: Duration) -> bool {
        let due = elapsed >= self.next;
        if due {
            self.next = elapsed + elapsed.min(Self::PERIOD_MAX);
        }
        due
    }
}

/// The bar of a piece of work.
struct Bar {
    bar: ProgressBar,
    began: Instant,
}

/// Of the bar of runs.
const RUN_BAR_LENGTH: f64 = 1e6;

impl Display {
    fn new() -> Self {
        let all = has_terminal().then(|| MultiProgress::with_draw_target(ProgressDrawTarget::stderr()));
        Self { all, bars: Mutex::default(), paces: Mutex::default() }
    }

    /// A bar for work of these parts.
    fn begin(&self, work: WorkId, parts: Parts) {
        let Some(all) = &self.all else {
            self.paces.lock().unwrap_or_else(PoisonError::into_inner).insert(work, Pace::begin());
            return;
        };
        let (length, template) = match parts {
            Parts::Steps(steps) => (Some(steps), "{elapsed_precise} [{bar:30}] {pos}/{len} {wide_msg}"),
            Parts::Runs(_) => {
                (Some(RUN_BAR_LENGTH as u64), "{elapsed_precise} [{bar:30}] {percent:>3}% {wide_msg}")
            }
            Parts::Jobs => (None, "{msg}"),
        };
        let bar = all.add(length.map_or_else(ProgressBar::no_length, ProgressBar::new));
        let style = ProgressStyle::with_template(template);
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "));
        if let Parts::Steps(_) = parts {
            bar.enable_steady_tick(Duration::from_millis(500));
        }
        let mut bars = self.bars.lock().unwrap_or_else(PoisonError::into_inner);
        bars.insert(work, Bar { bar, began: Instant::now() });
    }

    fn end(&self, work: WorkId) {
        self.paces.lock().unwrap_or_else(PoisonError::into_inner).remove(&work);
        let bar = self.bars.lock().unwrap_or_else(PoisonError::into_inner).remove(&work);
        if let (Some(all), Some(Bar { bar, .. })) = (&self.all, bar) {
            bar.finish_and_clear();
            all.remove(&bar);
        }
    }

    /// Without a terminal, says a line about a piece of work when it is time for one.
    fn say_at_times(&self, work: WorkId, line: impl FnOnce(Duration) -> String) {
        let mut paces = self.paces.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(pace) = paces.get_mut(&work) else { return };
        let elapsed = pace.began.elapsed();
        if pace.is_due(elapsed) {
            say(&line(elapsed));
        }
    }

    /// Changes the bar of a piece of work; `None` if it has none.
    fn with<R>(&self, work: WorkId, change: impl FnOnce(&Bar) -> R) -> Option<R> {
        self.bars.lock().unwrap_or_else(PoisonError::into_inner).get(&work).map(change)
    }
}

impl Observer for Display {
    fn event(&self, event: Event<'_>) {
        match event {
            Event::Note(line) => say(line),
            Event::Began(work, parts) => self.begin(work, parts),
            Event::Ended(work) => self.end(work),
            Event::WorkNote(work, line) => {
                if self.with(work, |bar| bar.bar.println(line)).is_none() {
                    say(line);
                }
            }
            Event::StepBegan { work, number, of, step } => {
                if self.with(work, |bar| bar.bar.set_message(step.to_owned())).is_none() {
                    say(&format!("[{number}/{of}] {step}"));
                }
            }
            Event::Detail { work, step, detail } => {
                let line = || format!("{step}: {detail}");
                if self.with(work, |bar| bar.bar.set_message(line())).is_none() {
                    self.say_at_times(work, |_| format!("      {}", line()));
                }
            }
            Event::StepEnded { work, step, result } => {
                let shown = self.with(work, |bar| {
                    bar.bar.inc(1);
                    if !result.is_empty() {
                        bar.bar.println(format!("{step}: {result}"));
                    }
                });
                if shown.is_none() && !result.is_empty() {
                    say(&format!("      {result}"));
                }
            }
            Event::Share { work, done, ended, of } => {
                let line = |elapsed| match of {
                    1 => left(elapsed, done),
                    of => format!("{ended} of {of} runs, {}", left(elapsed, done)),
                };
                let shown = self.with(work, |bar| {
                    bar.bar.set_position((done * RUN_BAR_LENGTH) as u64);
                    bar.bar.set_message(line(bar.began.elapsed()));
                });
                if shown.is_none() {
                    self.say_at_times(work, |elapsed| format!("{:.0} %, {}", done * 100.0, line(elapsed)));
                }
            }
            Event::RunEnded { ended, of, settings, .. } => {
                if of > 1 && !stderr().is_terminal() {
                    say(&format!("[{ended}/{of}] {settings}"));
                }
            }
            Event::Status(work, line) => {
                if self.with(work, |bar| bar.bar.set_message(line.to_owned())).is_none() {
                    self.say_at_times(work, |_| line.to_owned());
                }
            }
        }
    }
}

/// How long work takes that has taken so long for this share.
fn left(elapsed: Duration, done: f64) -> String {
    if done <= 0.005 {
        return "begins".to_owned();
    }
    let left = (elapsed.as_secs_f64() * (1.0 - done) / done).clamp(0.0, 1e9) as u64;
    format!("{:02}m:{:02}s left", left / 60, left % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_terminal_long_work_is_told_of_ever_less_often() {
        let mut pace = Pace::begin();
        let told: Vec<u64> = (0..=400).filter(|second| pace.is_due(Duration::from_secs(*second))).collect();
        assert_eq!(told, [5, 10, 20, 40, 80, 140, 200, 260, 320, 380]);
    }
}
