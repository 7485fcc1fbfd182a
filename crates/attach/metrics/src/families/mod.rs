//! The table of metrics.
//!
//! Names follow Prometheus's conventions: `tranche_`, what is measured, its base unit, and `_total` for what only grows. Latencies are
//! the drive's own, in its time: from a command's arrival at the controller to its completion.

mod drive;
mod namespaces;
mod sets;
mod transport;

use live::Snapshot;
use prometheus_client::registry::Unit;

/// What all names begin with.
pub const PREFIX: &str = "tranche";

/// Type of a metric.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Only grows, until what counts it begins again.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Latencies in buckets.
    Histogram,
    /// Always 1: its labels say something.
    Info,
}

impl Kind {
    /// Its name in both text formats' documentation.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
            Kind::Info => "info",
        }
    }
}

/// Base unit of a metric.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BaseUnit {
    /// A number of things.
    None,
    /// Bytes.
    Bytes,
    /// Bytes in a second.
    BytesPerSecond,
    /// Degrees Celsius.
    Celsius,
    /// A share, or a quotient of two things of one unit.
    Ratio,
    /// Seconds.
    Seconds,
}

impl BaseUnit {
    /// As the text formats know it.
    pub fn unit(self) -> Option<Unit> {
        match self {
            BaseUnit::None => None,
            BaseUnit::Bytes => Some(Unit::Bytes),
            BaseUnit::BytesPerSecond => Some(Unit::Other("bytes_per_second".to_owned())),
            BaseUnit::Celsius => Some(Unit::Celsius),
            BaseUnit::Ratio => Some(Unit::Other("ratio".to_owned())),
            BaseUnit::Seconds => Some(Unit::Seconds),
        }
    }
}

/// A value of a metric.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// Of a counter of things.
    Count(u64),
    /// Of any other counter, and of gauges.
    Number(f64),
    /// Latencies: their sum, and how many are in each bucket, with its upper bound in seconds. The last bound is infinite.
    Histogram(f64, Vec<(f64, u64)>),
    /// Of an info.
    Info,
}

/// One line of a metric, or all lines of a histogram.
#[derive(Clone, PartialEq, Debug)]
pub struct Sample {
    /// Labels with their values, in the order of the metric's [`labels`](Family::labels).
    pub labels: Vec<(&'static str, String)>,
    /// The value.
    pub value: Value,
}

/// Samples of one metric.
pub(crate) struct Samples {
    names: &'static [&'static str],
    list: Vec<Sample>,
}

impl Samples {
    fn add(&mut self, labels: &[&dyn ToString], value: Value) {
        debug_assert_eq!(self.names.len(), labels.len(), "{:?}", self.names);
        let labels = self.names.iter().zip(labels).map(|(name, label)| (*name, label.to_string())).collect();
        self.list.push(Sample { labels, value });
    }

    fn count(&mut self, labels: &[&dyn ToString], count: u64) {
        self.add(labels, Value::Count(count));
    }

    #[expect(clippy::cast_precision_loss, reason = "for reading")]
    fn gauge(&mut self, labels: &[&dyn ToString], number: u64) {
        self.add(labels, Value::Number(number as f64));
    }

    fn flag(&mut self, labels: &[&dyn ToString], is: bool) {
        self.gauge(labels, is.into());
    }

    fn percent(&mut self, labels: &[&dyn ToString], percent: u8) {
        self.add(labels, Value::Number(f64::from(percent) / 100.0));
    }

    fn seconds(&mut self, labels: &[&dyn ToString], ns: u64) {
        self.add(labels, Value::Number(seconds(ns)));
    }

    /// A quotient, if there is one.
    #[expect(clippy::cast_precision_loss, reason = "for reading")]
    fn quotient(&mut self, labels: &[&dyn ToString], of: u64, by: u64) {
        if by > 0 {
            self.add(labels, Value::Number(of as f64 / by as f64));
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "for reading")]
fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// A metric.
#[derive(Debug)]
pub struct Family {
    /// Its name, without prefix, unit and suffix.
    name: &'static str,
    /// Its type.
    pub kind: Kind,
    /// Its unit, which is part of the full name.
    pub unit: BaseUnit,
    /// What it is, in a phrase.
    pub help: &'static str,
    /// Names of its labels.
    pub labels: &'static [&'static str],
    take: fn(&Snapshot, &mut Samples),
}

impl Family {
    const fn new(
        name: &'static str,
        kind: Kind,
        unit: BaseUnit,
        labels: &'static [&'static str],
        help: &'static str,
        take: fn(&Snapshot, &mut Samples),
    ) -> Family {
        Family { name, kind, unit, help, labels, take }
    }

    /// Its name, without prefix, unit and suffix.
    pub(crate) fn stem(&self) -> &'static str {
        self.name
    }

    /// Its name as queries write it. Histograms add `_bucket`, `_sum` and `_count`.
    pub fn name(&self) -> String {
        let unit = self.unit.unit().map_or_else(String::new, |unit| format!("_{}", unit.as_str()));
        let suffix = match self.kind {
            Kind::Counter => "_total",
            Kind::Info => "_info",
            Kind::Gauge | Kind::Histogram => "",
        };
        format!("{PREFIX}_{}{unit}{suffix}", self.name)
    }

    /// What it is in a snapshot.
    pub fn samples(&self, snapshot: &Snapshot) -> Vec<Sample> {
        let mut samples = Samples { names: self.labels, list: Vec::new() };
        (self.take)(snapshot, &mut samples);
        samples.list
    }
}

/// All metrics.
pub fn all() -> impl Iterator<Item = &'static Family> {
    [drive::FAMILIES, namespaces::FAMILIES, sets::FAMILIES, transport::FAMILIES].into_iter().flatten()
}
