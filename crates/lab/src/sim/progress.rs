//! How far the runs are, on standard error; only on a terminal.

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Instant,
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::watch::WHOLE;

/// The bar.
pub(super) struct Bar {
    bar: Option<ProgressBar>,
    began: Instant,
}

impl Bar {
    /// For so many runs.
    pub fn new(runs: usize) -> Self {
        let bar = crate::progress::has_terminal().then(|| {
            let length = runs as u64 * u64::from(WHOLE);
            let bar = ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::stderr());
            let style = ProgressStyle::with_template("{elapsed_precise} [{bar:30}] {percent:>3}% {wide_msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "));
            bar
        });
        Self { bar, began: Instant::now() }
    }

    /// Shows how far each run is, and how many have ended.
    pub fn show(&mut self, shares: &[AtomicU32], ended: usize) {
        let Some(bar) = &self.bar else { return };
        let done: u64 = shares.iter().map(|share| u64::from(share.load(Ordering::Relaxed))).sum();
        bar.set_position(done);
        #[expect(clippy::cast_precision_loss, reason = "for reading")]
        let share = done as f64 / (shares.len().max(1) as f64 * f64::from(WHOLE));
        let eta = match share {
            share if share > 0.005 => {
                let left = self.began.elapsed().as_secs_f64() * (1.0 - share) / share;
                let left = left.clamp(0.0, 1e9) as u64;
                format!("{:02}m:{:02}s left", left / 60, left % 60)
            }
            _ => "begins".to_owned(),
        };
        match shares.len() {
            1 => bar.set_message(eta),
            runs => bar.set_message(format!("{ended} of {runs} runs, {eta}")),
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
