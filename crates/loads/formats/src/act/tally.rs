//! What is counted, judged and printed.

use super::config::{ActProgram, Config};
use super::histogram::Histogram;
use super::placement::Space;
use super::rates::Rates;
use super::report::{self, Window};
use std::fmt::Write;
use workload::Nanos;

const SECOND: Nanos = 1_000_000_000;

/// Histograms of small reads, or of small writes.
#[derive(Clone, Debug)]
struct Small {
    /// From when they were generated.
    all: Histogram,
    /// From when they were issued; the same where no queue is between.
    issued: Histogram,
    /// The same by device.
    devices: Vec<Histogram>,
}

impl Small {
    fn add(&mut self, device: usize, latency: Nanos, issued: Nanos) {
        self.all.add(latency);
        self.issued.add(issued);
        self.devices[device].add(issued);
    }

    fn push_to<'a>(&'a self, queues: bool, all: &mut Vec<&'a Histogram>) {
        all.push(&self.all);
        all.extend(queues.then_some(&self.issued));
        all.extend(&self.devices);
    }
}

/// Counts of a test, and its text.
#[derive(Clone, Debug)]
pub(super) struct Tally {
    reads: Small,
    writes: Small,
    pub large_reads: Histogram,
    pub large_writes: Histogram,
    /// Names of what is printed: reads, large blocks, writes.
    names: Vec<String>,
    does: [bool; 3],
    queues: bool,
    text: Option<String>,
    report_sec: u64,
    reports: u64,
    /// All small reads, those until the last window's end, and the windows.
    so_far: Window,
    until_window: Window,
    window: Nanos,
    windows: Vec<Window>,
}

impl Tally {
    pub(super) fn new(config: &Config, rates: &Rates, window_sec: u32) -> Tally {
        let histogram = Histogram::new(config.microsecond_histograms);
        let devices = config.device_names.len();
        let small = || Small {
            all: histogram.clone(),
            issued: histogram.clone(),
            devices: vec![histogram.clone(); devices],
        };
        let large = config.kind == ActProgram::Storage && config.write_reqs_per_sec != 0;
        let does = [rates.reads != 0, large, rates.writes + rates.cache != 0];
        let mut names = Vec::new();
        for (what, does) in ["reads", "", "writes"].into_iter().zip(does) {
            match what {
                _ if !does => {}
                "" => names.extend(["large-block-reads".to_owned(), "large-block-writes".to_owned()]),
                _ => {
                    names.push(what.to_owned());
                    names.extend((config.num_queues != 0).then(|| format!("device-{what}")));
                    names.extend(config.device_names.iter().map(|name| format!("{name}-{what}")));
                }
            }
        }
        Tally {
            reads: small(),
            writes: small(),
            large_reads: histogram.clone(),
            large_writes: histogram.clone(),
            names,
            does,
            queues: config.num_queues != 0,
            text: None,
            report_sec: config.report_interval_sec.into(),
            reports: 0,
            so_far: Window::default(),
            until_window: Window::default(),
            window: Nanos::from(window_sec.max(1)) * SECOND,
            windows: Vec::new(),
        }
    }

    /// Starts the text with its head.
    pub(super) fn print(&mut self, config: &Config, rates: &Rates, spaces: &[Space]) {
        self.text = Some(report::head(config, rates, spaces, &self.names));
    }

    /// Adds to the text, if it is kept.
    pub(super) fn say(&mut self, text: &str) {
        if let Some(all) = &mut self.text {
            all.push_str(text);
        }
    }

    pub(super) fn take_text(&mut self) -> String {
        self.text.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// When the next report or window ends, since the start.
    pub(super) fn next(&self) -> Nanos {
        let window = (self.windows.len() as u64 + 1).saturating_mul(self.window);
        self.next_report().min(window)
    }

    fn next_report(&self) -> Nanos {
        (self.reports + 1).saturating_mul(self.report_sec).saturating_mul(SECOND)
    }

    /// So much time has passed since the start: what ends until then is written down.
    pub(super) fn pass(&mut self, elapsed: Nanos, queued: u64) {
        while self.next() <= elapsed {
            if self.next() == self.next_report() {
                self.report(queued);
            } else {
                self.windows.push(self.so_far.since(&self.until_window));
                self.until_window = self.so_far;
            }
        }
    }

    /// Writes a report.
    pub(super) fn report(&mut self, queued: u64) {
        self.reports += 1;
        let Some(mut text) = self.text.take() else { return };
        // Writing to a string does not fail.
        let _ = writeln!(text, "after {} sec:", self.reports * self.report_sec);
        if self.queues {
            let _ = writeln!(text, "requests-queued: {queued}");
        }
        for (name, histogram) in self.names.iter().zip(self.histograms()) {
            histogram.dump(name, &mut text);
        }
        text.push('\n');
        self.text = Some(text);
    }

    /// What is printed, in the order of the names.
    fn histograms(&self) -> Vec<&Histogram> {
        let mut all = Vec::with_capacity(self.names.len());
        let [reads, large, writes] = self.does;
        if reads {
            self.reads.push_to(self.queues, &mut all);
        }
        if large {
            all.extend([&self.large_reads, &self.large_writes]);
        }
        if writes {
            self.writes.push_to(self.queues, &mut all);
        }
        all
    }

    /// Counts a small request that was generated and issued so long ago.
    pub(super) fn small(&mut self, write: bool, device: usize, latency: Nanos, issued: Nanos) {
        if write {
            self.writes.add(device, latency, issued);
        } else {
            self.reads.add(device, latency, issued);
            self.so_far.add(latency);
        }
    }

    pub(super) fn windows(&self) -> &[Window] {
        &self.windows
    }

    /// Small reads since the last window's end.
    pub(super) fn rest(&self) -> Window {
        self.so_far.since(&self.until_window)
    }
}
