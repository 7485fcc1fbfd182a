//! A snapshot as text.

use crate::families::{self, Family, Kind, PREFIX, Sample, Value};
use live::Snapshot;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, prometheus_text, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use std::fmt;

/// How a snapshot is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// Prometheus's text format, version 0.0.4.
    Text,
}

impl Format {
    /// The format that a client asks for with its `Accept` header. Who does not ask for OpenMetrics gets text.
    pub fn accepted(accept: &str) -> Format {
        let (mut open, mut plain) = (0.0, 0.0);
        for range in accept.split(',') {
            let mut parts = range.split(';').map(str::trim);
            let medium = parts.next().unwrap_or_default();
            let quality = parts.filter_map(|part| part.strip_prefix("q=")).next_back();
            let quality: f64 = quality.map_or(1.0, |quality| quality.parse().unwrap_or(0.0));
            match medium.to_ascii_lowercase().as_str() {
                "application/openmetrics-text" => open = quality.max(open),
                "text/plain" => plain = quality.max(plain),
                _ => {}
            }
        }
        if open > 0.0 && open >= plain { Format::OpenMetrics } else { Format::Text }
    }

    /// Its media type.
    pub fn content_type(self) -> &'static str {
        match self {
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Format::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// All metrics of a snapshot.
///
/// # Errors
/// None that a snapshot can cause: writing to a string does not fail.
pub fn write(snapshot: Snapshot, format: Format) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix(PREFIX);
    registry.register_collector(Box::new(Scrape(snapshot)));
    let mut page = String::new();
    match format {
        Format::OpenMetrics => text::encode(&mut page, &registry)?,
        Format::Text => prometheus_text::encode(&mut page, &registry)?,
    }
    Ok(page)
}

/// The metrics of one scrape.
#[derive(Debug)]
struct Scrape(Snapshot);

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        families::all().try_for_each(|family| encode(family, &family.samples(&self.0), &mut encoder))
    }
}

fn encode(
    family: &Family,
    samples: &[Sample],
    encoder: &mut DescriptorEncoder<'_>,
) -> Result<(), fmt::Error> {
    let unit = family.unit.unit();
    let kind = match family.kind {
        Kind::Counter => MetricType::Counter,
        Kind::Gauge => MetricType::Gauge,
        Kind::Histogram => MetricType::Histogram,
        Kind::Info => MetricType::Info,
    };
    let mut metric = encoder.encode_descriptor(family.stem(), family.help, unit.as_ref(), kind)?;
    for Sample { labels, value } in samples {
        if let Value::Info = value {
            metric.encode_info(labels)?;
            continue;
        }
        let mut line = metric.encode_family(labels)?;
        match (value, family.kind) {
            (Value::Count(count), Kind::Counter) => ConstCounter::new(*count).encode(line)?,
            (Value::Number(number), Kind::Counter) => ConstCounter::new(*number).encode(line)?,
            (Value::Number(number), _) => ConstGauge::new(*number).encode(line)?,
            (Value::Histogram(sum, buckets), _) => {
                let count = buckets.iter().map(|(_, count)| count).sum();
                line.encode_histogram::<Vec<(String, String)>>(*sum, count, buckets, None)?;
            }
            // The table has no other pairs: a test asks it.
            (Value::Count(_) | Value::Info, _) => return Err(fmt::Error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_get_what_they_ask_for() {
        let prometheus = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,\
                          text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        for (accept, format) in [
            (prometheus, Format::OpenMetrics),
            ("Application/OpenMetrics-Text", Format::OpenMetrics),
            ("application/openmetrics-text;q=0.2, text/plain;q=0.9", Format::Text),
            ("application/openmetrics-text;q=0", Format::Text),
            ("application/openmetrics-text;q=lots", Format::Text),
            ("*/*", Format::Text),
            ("", Format::Text),
            ("text/html,,;q=,", Format::Text),
        ] {
            assert_eq!(Format::accepted(accept), format, "{accept}");
        }
    }
}
