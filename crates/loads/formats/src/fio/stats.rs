//! What a job has done, counted as fio counts it.

use super::options::Direction;
use hdrhistogram::Histogram;
use workload::Nanos;

/// Count, sum, sum of squares and extremes of numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "they are named after what they are")]
pub struct Series {
    pub count: u64,
    pub sum: u128,
    pub squares: u128,
    pub min: u64,
    pub max: u64,
}

impl Default for Series {
    fn default() -> Self {
        Self { count: 0, sum: 0, squares: 0, min: u64::MAX, max: 0 }
    }
}

impl Series {
    #[inline]
    pub(super) fn add(&mut self, value: u64) {
        self.count += 1;
        self.sum += u128::from(value);
        self.squares = self.squares.saturating_add(u128::from(value) * u128::from(value));
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.sum += other.sum;
        self.squares = self.squares.saturating_add(other.squares);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }
}

/// Latencies with their distribution, in nanoseconds.
#[derive(Clone, PartialEq, Debug)]
pub struct Latency {
    /// Their sums.
    pub series: Series,
    /// Their distribution, exact to a hundredth, up to an hour.
    pub histogram: Histogram<u64>,
}

impl Default for Latency {
    fn default() -> Self {
        #[expect(clippy::expect_used, reason = "constant bounds; a test makes one")]
        let histogram = Histogram::new_with_bounds(1, 3_600_000_000_000, 2).expect("bounds in order");
        Self { series: Series::default(), histogram }
    }
}

impl Latency {
    #[inline]
    fn add(&mut self, value: Nanos) {
        self.series.add(value);
        self.histogram.saturating_record(value);
    }

    /// The latency that so many millionths of them do not exceed; 0 if there are none.
    #[must_use]
    pub fn quantile(&self, millionths: u32) -> Nanos {
        self.histogram.value_at_quantile(f64::from(millionths) / 1e6)
    }

    /// Adds others.
    pub fn merge(&mut self, other: &Self) {
        self.series.merge(&other.series);
        // Both have the same bounds.
        let _ = self.histogram.add(&other.histogram);
    }
}

/// I/Os of one direction.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Traffic {
    /// I/Os that succeeded.
    pub ios: u64,
    /// Their bytes.
    pub bytes: u64,
    /// How long the job was at it.
    pub runtime: Nanos,
    /// From when the job decided on the I/O until it was handed to the system.
    pub submission: Series,
    /// From then until its completion.
    pub completion: Latency,
    /// Both.
    pub total: Series,
    /// Of a job with a rate: from when an I/O was due until its completion. While the job keeps up with its rate
    /// that is its latency; when it has fallen behind, because all of its I/Os are outstanding, it counts what
    /// somebody who arrives at that rate waits. Not among what fio reports.
    pub response: Latency,
    /// Bandwidth over windows of 500 ms, in KiB/s.
    pub bandwidth: Series,
    /// I/Os per second over the same windows.
    pub rate: Series,
    window_ios: u64,
    window_bytes: u64,
}

/// Length of a window that is a sample of the bandwidth.
const WINDOW: Nanos = 500_000_000;

/// Classes of queue depths: 1, 2, 4, 8, 16, 32, 64 and more; of batches: 0, up to 4, 8, 16, 32, 64, more.
pub const CLASSES: usize = 7;

/// An I/O of a job with a rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Response {
    /// When it was due.
    pub due: Nanos,
    /// When it completed.
    pub completed: Nanos,
}

/// [`Response`]s that are kept at most.
const RESPONSES: usize = 1 << 24;

/// What a job, or a group of them, has done.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Stats {
    /// Reads, writes and trims.
    pub traffic: [Traffic; 3],
    /// Flushes.
    pub sync: Latency,
    /// I/Os by the number outstanding when they were issued.
    pub depth: [u64; CLASSES],
    /// Submissions by the number of I/Os that went together.
    pub submit: [u64; CLASSES],
    /// Wake-ups by the number of I/Os that had completed.
    pub complete: [u64; CLASSES],
    /// I/Os that were issued, by direction; the last is flushes.
    pub issued: [u64; 4],
    /// Zones that were reset so that they could be written.
    pub zone_resets: u64,
    /// I/Os that failed.
    pub failed: u64,
    /// How long it ran, without ramp and start delay.
    pub runtime: Nanos,
    /// The I/Os of [`Traffic::response`] one by one, as they completed; nothing unless they are
    /// [kept](super::Job::keep_responses). After some 16 million no more are.
    pub responses: Option<Vec<Response>>,
    window_start: Nanos,
}

impl Stats {
    /// Starts to count at this time; everything before is forgotten.
    pub(super) fn start(&mut self, now: Nanos) {
        let responses = self.responses.as_ref().map(|_| Vec::new());
        *self = Self { window_start: now, failed: self.failed, responses, ..Self::default() };
    }

    /// An I/O is issued while so many are outstanding, itself among them.
    #[inline]
    pub(super) fn issue(&mut self, kind: usize, outstanding: usize) {
        self.issued[kind] += 1;
        let class = usize::BITS - outstanding.max(1).leading_zeros() - 1;
        self.depth[(class as usize).min(CLASSES - 1)] += 1;
    }

    #[inline]
    pub(super) fn batch(classes: &mut [u64; CLASSES], count: usize) {
        let class = match count {
            0 => 0,
            1..=4 => 1,
            count => ((usize::BITS - (count - 1).leading_zeros()) as usize - 1).min(CLASSES - 1),
        };
        classes[class] += 1;
    }

    #[inline]
    pub(super) fn complete(
        &mut self,
        direction: Direction,
        bytes: u64,
        submission: Nanos,
        completion: Nanos,
    ) {
        let traffic = &mut self.traffic[direction as usize];
        traffic.ios += 1;
        traffic.bytes += bytes;
        traffic.submission.add(submission);
        traffic.completion.add(completion);
        traffic.total.add(submission + completion);
        traffic.window_ios += 1;
        traffic.window_bytes += bytes;
    }

    #[inline]
    pub(super) fn responded(&mut self, direction: Direction, due: Nanos, completed: Nanos) {
        self.traffic[direction as usize].response.add(completed.saturating_sub(due));
        if let Some(kept) = self.responses.as_mut().filter(|kept| kept.len() < RESPONSES) {
            kept.push(Response { due, completed });
        }
    }

    pub(super) fn flushed(&mut self, latency: Nanos) {
        self.sync.add(latency);
    }

    /// Takes a sample of the bandwidth when it is time.
    #[inline]
    pub(super) fn tick(&mut self, now: Nanos) {
        let passed = now.saturating_sub(self.window_start);
        if passed >= WINDOW {
            self.sample(now, passed);
        }
    }

    fn sample(&mut self, now: Nanos, passed: Nanos) {
        self.window_start = now;
        for traffic in &mut self.traffic {
            let (ios, bytes) =
                (std::mem::take(&mut traffic.window_ios), std::mem::take(&mut traffic.window_bytes));
            if traffic.ios > 0 {
                let per_second = |count: u64| (u128::from(count) * 1_000_000_000 / u128::from(passed)) as u64;
                traffic.bandwidth.add(per_second(bytes) / 1024);
                traffic.rate.add(per_second(ios));
            }
        }
    }

    /// Adds what another job of the group has done at the same time.
    pub fn merge(&mut self, other: &Self) {
        for (traffic, more) in self.traffic.iter_mut().zip(&other.traffic) {
            traffic.ios += more.ios;
            traffic.bytes += more.bytes;
            traffic.runtime = traffic.runtime.max(more.runtime);
            traffic.submission.merge(&more.submission);
            traffic.completion.merge(&more.completion);
            traffic.total.merge(&more.total);
            traffic.response.merge(&more.response);
            traffic.bandwidth.merge(&more.bandwidth);
            traffic.rate.merge(&more.rate);
        }
        self.sync.merge(&other.sync);
        let pairs = [
            (&mut self.depth, &other.depth),
            (&mut self.submit, &other.submit),
            (&mut self.complete, &other.complete),
        ];
        for (counts, more) in pairs {
            counts.iter_mut().zip(more).for_each(|(count, more)| *count += more);
        }
        self.issued.iter_mut().zip(other.issued).for_each(|(count, more)| *count += more);
        self.zone_resets += other.zone_resets;
        self.failed += other.failed;
        if let (Some(kept), Some(more)) = (&mut self.responses, &other.responses) {
            kept.extend(more);
        }
        self.runtime = self.runtime.max(other.runtime);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_fios() {
        let mut stats = Stats::default();
        for depth in [1, 2, 3, 4, 7, 8, 31, 32, 63, 64, 1000] {
            stats.issue(0, depth);
        }
        assert_eq!(stats.depth, [1, 2, 2, 1, 1, 2, 2]);
        let mut classes = [0; CLASSES];
        for count in [0, 1, 4, 5, 8, 9, 16, 17, 32, 33, 64, 65] {
            Stats::batch(&mut classes, count);
        }
        assert_eq!(classes, [1, 2, 2, 2, 2, 2, 1]);
    }

    #[test]
    fn merged_is_as_counted_together() {
        let (mut a, mut b, mut both) = (Stats::default(), Stats::default(), Stats::default());
        for (index, latency) in (1..1000u64).map(|n| (n, n * n * 7)) {
            let one = if index % 3 == 0 { &mut a } else { &mut b };
            one.complete(Direction::Write, 4096, 5, latency);
            both.complete(Direction::Write, 4096, 5, latency);
        }
        a.merge(&b);
        let (a, both) = (&a.traffic[1], &both.traffic[1]);
        assert_eq!(
            (a.ios, a.bytes, a.total, &a.completion),
            (both.ios, both.bytes, both.total, &both.completion)
        );
    }
}
