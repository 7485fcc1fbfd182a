//! Whether a live drive and the same one in virtual time agree.

use crate::results::Comparison;

/// Figures that should agree within this.
pub const TOLERANCE: f64 = 0.10;

/// How far apart two neighbouring buckets of the drive's histogram may be.
const BUCKET: f64 = 0.13;

/// What a study's figures are. The names of all latencies end with `_ms`.
#[derive(Clone, Copy, Debug)]
pub struct Figures<'a> {
    /// Latencies in the drive's own time (log D8h): not the host's.
    pub own: &'a [&'a str],
    /// Those of them that are to a bucket of 12.5 %: two neighbours are the same to the drive.
    pub in_buckets: &'a [&'a str],
    /// Figures that say nothing about agreement: they are a handful of events, say.
    pub rare: &'a [&'a str],
}

/// What a point says about live and virtual time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Rates, the drive's own latencies and those that the host sees are the same.
    Agrees,
    /// The drive did the same; what the host sees besides, or the pace of its load, comes from this machine.
    Machine,
    /// The drive did not do the same.
    Differs,
}

impl Verdict {
    /// For reading.
    pub fn name(self) -> &'static str {
        match self {
            Self::Agrees => "agrees",
            Self::Machine => "this machine",
            Self::Differs => "differs",
        }
    }

    /// Of a point's rows: live over virtual time.
    pub fn of(rows: &[&Comparison], figures: &Figures<'_>) -> Self {
        let has = |names: &[&str], row: &Comparison| names.contains(&row.metric.as_str());
        let within = |row: &Comparison| {
            let most = if has(figures.in_buckets, row) { BUCKET } else { TOLERANCE };
            (row.ratio - 1.0).abs() <= most
        };
        let counts = |row: &&&Comparison| !has(figures.rare, row);
        let off: Vec<&&Comparison> = rows.iter().filter(counts).filter(|row| !within(row)).collect();
        let outside = |row: &Comparison| row.metric.ends_with("_ms") && !has(figures.own, row);
        match off {
            off if off.is_empty() => Self::Agrees,
            off if off.iter().all(|row| outside(row)) || rows.iter().any(|row| row.host_bound) => {
                Self::Machine
            }
            _ => Self::Differs,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Point;

    const FIGURES: Figures<'_> =
        Figures { own: &["own_mean_ms", "own_p99_ms"], in_buckets: &["own_p99_ms"], rare: &["p999_ms"] };

    fn row(metric: &str, ratio: f64, host_bound: bool) -> Comparison {
        Comparison {
            metric: metric.into(),
            of: "none".into(),
            over: "none@sim".into(),
            at: Some(Point::new()),
            ratio,
            low: ratio,
            high: ratio,
            published: None,
            host_bound,
        }
    }

    #[test]
    fn what_differs_outside_of_the_drive_is_the_machine() {
        let verdict = |rows: &[(&str, f64, bool)]| {
            let rows: Vec<_> =
                rows.iter().map(|(metric, ratio, bound)| row(metric, *ratio, *bound)).collect();
            Verdict::of(&rows.iter().collect::<Vec<_>>(), &FIGURES)
        };
        let same = ("MBps", 0.95, false);
        assert_eq!(verdict(&[same, ("own_mean_ms", 1.05, false), ("p99_ms", 1.09, false)]), Verdict::Agrees);
        assert_eq!(verdict(&[same, ("own_p99_ms", 1.125, false), ("p999_ms", 3.0, false)]), Verdict::Agrees);
        assert_eq!(verdict(&[same, ("own_mean_ms", 1.05, false), ("p50_ms", 1.5, false)]), Verdict::Machine);
        assert_eq!(verdict(&[same, ("own_mean_ms", 1.2, false)]), Verdict::Differs);
        assert_eq!(verdict(&[("MBps", 0.6, true), ("own_mean_ms", 0.7, true)]), Verdict::Machine);
    }
}
