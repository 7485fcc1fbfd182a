//! Predictable Latency Mode: a host that has deterministic windows whenever the drive can give them.

use anyhow::Result;
use host::{Host, Transport};
use load_formats::fio::Response;
use nvme::plm::WindowSelect;

use lab_engines::stage::Nanos;

/// How often the host reads the log of the window.
const LOG_POLL_NANOS: Nanos = 5_000_000;

/// It begins a window with half of DTWIN Writes Typical (1 / this): beside a neighbour that never stops writing, all of it is there again only after
/// seconds. With less a window ends within milliseconds, as whole superblocks are used up.
const BEGIN: u64 = 2;

/// What the host does. It begins a deterministic window when two things are true. The set has a part of what a window may write, and it
/// has been in a non-deterministic window for as long as the log (Predictable Latency Per NVM Set) asks at least. The host ends the window
/// after a time, if the controller has not done so before.
#[derive(Clone, Debug)]
pub(super) struct WindowSchedule {
    nvmsetid: u16,
    /// Length of a deterministic window at most.
    longest: Nanos,
    /// The one that lasts: when it began, and when the log said so last.
    lasts: Option<(Nanos, Nanos)>,
    ended: Nanos,
    /// Those that are over.
    windows: Vec<(Nanos, Nanos)>,
    /// How many of them the controller has ended.
    pub cut_short: u32,
}

impl WindowSchedule {
    pub fn new(nvmsetid: u16, longest: Nanos) -> Self {
        Self { nvmsetid, longest, lasts: None, ended: 0, windows: Vec::new(), cut_short: 0 }
    }

    /// A step of a [`Script`](lab_engines::stage::Script).
    pub fn step<T: Transport>(&mut self, host: &mut Host<T>, now: Nanos) -> Result<Option<Nanos>> {
        let log = host.predictable_latency(self.nvmsetid)?;
        let deterministic = log.status == WindowSelect::DETERMINISTIC;
        match &mut self.lasts {
            Some((since, seen)) if deterministic => {
                *seen = now;
                if now.saturating_sub(*since) >= self.longest {
                    host.set_window(self.nvmsetid, WindowSelect::NON_DETERMINISTIC)?;
                    self.end(now);
                }
            }
            Some(_) => {
                self.cut_short += 1;
                self.end(now);
            }
            None => {
                let rested = now.saturating_sub(self.ended) / 1_000_000 >= log.ndwintml.get();
                let first = self.windows.is_empty();
                if (rested || first) && log.dtwinwe.get() >= log.dtwinwt.get() / BEGIN {
                    host.set_window(self.nvmsetid, WindowSelect::DETERMINISTIC)?;
                    self.lasts = Some((now, now));
                }
            }
        }
        Ok(Some(now + LOG_POLL_NANOS))
    }

    fn end(&mut self, now: Nanos) {
        self.windows.extend(self.lasts.take());
        self.ended = now;
    }

    /// The deterministic windows, each as far as the log has confirmed it.
    fn deterministic(&self) -> impl Iterator<Item = (Nanos, Nanos)> + '_ {
        self.windows.iter().copied().chain(self.lasts)
    }

    /// Latencies of the reads that were due and completed within one deterministic window, and of the others; both ascending.
    pub fn split(&self, responses: &[Response]) -> [Vec<Nanos>; 2] {
        let mut parts = [Vec::new(), Vec::new()];
        for response in responses {
            let within = |(since, seen): (Nanos, Nanos)| response.due >= since && response.completed <= seen;
            let part = usize::from(!self.deterministic().any(within));
            parts[part].push(response.completed.saturating_sub(response.due));
        }
        parts.iter_mut().for_each(|part| part.sort_unstable());
        parts
    }
}

/// The latency in milliseconds that so many millionths of them, which ascend, do not exceed.
#[expect(clippy::cast_precision_loss, reason = "for reading")]
pub(super) fn quantile(ascending: &[Nanos], millionths: usize) -> Option<f64> {
    let rank = (ascending.len() * millionths).div_ceil(1_000_000).max(1);
    ascending.get(rank - 1).map(|nanos| *nanos as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_belong_to_a_window_as_a_whole() {
        let mut schedule = WindowSchedule::new(1, 100);
        schedule.windows.push((10, 20));
        schedule.lasts = Some((40, 50));
        let read = |due, completed| Response { due, completed };
        let reads = [read(9, 12), read(10, 20), read(15, 21), read(20, 40), read(41, 44), read(50, 51)];
        assert_eq!(schedule.split(&reads), [vec![3, 10], vec![1, 3, 6, 20]]);
    }

    #[test]
    fn quantiles() {
        let values: Vec<Nanos> = (1..=100).map(|n| n * 1_000_000).collect();
        assert_eq!(quantile(&values, 500_000), Some(50.0));
        assert_eq!(quantile(&values, 990_000), Some(99.0));
        assert_eq!(quantile(&values, 1), Some(1.0));
        assert_eq!(quantile(&[], 500_000), None);
    }
}
