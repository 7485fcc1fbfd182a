//! How a replay's latencies agree with those that a recording tells of.

use std::fmt::Write;

use anyhow::Result;
use host::Host;
use nvme::{
    Nsid,
    log::{LatencyHistogram, LatencySum, NamespaceStatistics},
};
use run::sim::{Nanos, SimTransport};
use serde_json::{Value, json};
use workload::trace::recording::{Latencies, Of};

/// Replay over recording, at most so far from 1, are the same.
const WITHIN: f64 = 0.05;

/// What namespaces had counted before the replay.
pub(super) struct Agreement(Vec<NamespaceStatistics>);

/// One kind of command of one namespace.
struct Row {
    nsid: u32,
    of: Of,
    /// By the drive's clock, then and now.
    recorded: Figures,
    replayed: Figures,
    /// Until the completion was handed to the host, then.
    host: Option<Figures>,
}

#[derive(Clone, Copy, Default)]
struct Figures {
    count: u64,
    mean: u64,
    p50: u64,
    p99: u64,
    max: u64,
}

impl Agreement {
    /// A replay is about to begin.
    ///
    /// # Errors
    /// The drive does not answer.
    pub fn begin(host: &mut Host<SimTransport>, nsids: &[Nsid]) -> Result<Self> {
        let before = nsids.iter().map(|&nsid| host.namespace_statistics(nsid));
        Ok(Self(before.collect::<Result<_, _>>()?))
    }

    /// How long the drive has been powered on.
    pub fn powered_for(&self) -> Option<Nanos> {
        self.0.iter().map(|page| Nanos(page.time_ns.get())).max()
    }

    /// It has ended: a table, empty if the recording tells of no latencies, and the same for programs.
    ///
    /// # Errors
    /// The drive does not answer.
    pub fn end(self, host: &mut Host<SimTransport>, told: &[Latencies]) -> Result<(String, Value)> {
        let mut rows = Vec::new();
        for before in &self.0 {
            let nsid = before.nsid.get();
            let after = host.namespace_statistics(nsid)?;
            for of in Of::ALL {
                let find = |host| told.iter().find(|l| (l.nsid, l.of, l.host) == (nsid, of, host));
                let Some(recorded) = find(false) else { continue };
                let replayed = Figures::between(select(before, of), select(&after, of));
                let host = find(true).map(Figures::told);
                rows.push(Row { nsid, of, recorded: Figures::told(recorded), replayed, host });
            }
        }
        let document = rows.iter().map(Row::json).collect();
        Ok((table(&rows), document))
    }
}

fn select(page: &NamespaceStatistics, of: Of) -> (&LatencyHistogram, &LatencySum) {
    match of {
        Of::Reads => (&page.read_latency, &page.read_latency_sum),
        Of::Writes => (&page.write_latency, &page.write_latency_sum),
        Of::Flushes => (&page.flush_latency, &page.flush_latency_sum),
        Of::Deallocates => (&page.deallocate_latency, &page.deallocate_latency_sum),
    }
}

impl Figures {
    fn told(told: &Latencies) -> Self {
        let Latencies { count, p50, p99, max, .. } = *told;
        Self { count, mean: told.mean().unwrap_or(0), p50, p99, max }
    }

    fn between(
        (old, old_sum): (&LatencyHistogram, &LatencySum),
        (new, sum): (&LatencyHistogram, &LatencySum),
    ) -> Self {
        let histogram = new.since(old);
        let (count, max) = (histogram.total(), sum.max_ns.get());
        let total = sum.sum_ns.get().saturating_sub(old_sum.sum_ns.get());
        let percentile = |parts| histogram.percentile(parts, 100).unwrap_or(0).min(max);
        let mean = total.checked_div(count).unwrap_or(0);
        Self { count, mean, p50: percentile(50), p99: percentile(99), max: percentile(100) }
    }

    fn json(self) -> Value {
        let Self { count, mean, p50, p99, max } = self;
        json!({ "commands": count, "mean_ns": mean, "p50_ns": p50, "p99_ns": p99, "max_ns": max })
    }
}

#[expect(clippy::cast_precision_loss, reason = "for reading")]
fn ratio(of: u64, over: u64) -> Option<f64> {
    (over > 0).then(|| of as f64 / over as f64)
}

#[expect(clippy::cast_precision_loss, reason = "for reading")]
fn us(ns: u64) -> f64 {
    ns as f64 / 1000.0
}

impl Row {
    fn mean(&self) -> Option<f64> {
        ratio(self.replayed.mean, self.recorded.mean)
    }

    fn p99(&self) -> Option<f64> {
        ratio(self.replayed.p99, self.recorded.p99)
    }

    fn agrees(&self) -> bool {
        let near = |ratio: Option<f64>| ratio.is_some_and(|ratio| (ratio - 1.0).abs() <= WITHIN);
        self.recorded.count == self.replayed.count && near(self.mean()) && near(self.p99())
    }

    fn json(&self) -> Value {
        json!({
            "nsid": self.nsid,
            "commands": self.of.name(),
            "recorded": self.recorded.json(),
            "replayed": self.replayed.json(),
            "recorded_at_host": self.host.map(Figures::json),
            "mean_ratio": self.mean(),
            "p99_ratio": self.p99(),
            "within_5_percent": self.agrees(),
        })
    }
}

fn table(rows: &[Row]) -> String {
    let mut text = String::new();
    if rows.is_empty() {
        return text;
    }
    text.push_str(
        "  latencies (us): the recorded drive's by its own clock, this drive's, and what the recorded host saw (its machine's part included)\n",
    );
    let head =
        ["namespace", "commands", "mean", "p99", "here: mean", "p99", "ratio", "p99", "host: mean", "p99"];
    let [a, b, c, d, e, f, g, h, i, j] = head;
    let _ = writeln!(text, "  {a:<21} {b:>9} {c:>9} {d:>9} {e:>11} {f:>9} {g:>6} {h:>6} {i:>11} {j:>9}");
    for row in rows {
        let name = format!("{} {}", row.nsid, row.of.name());
        let Row { recorded, replayed, host, .. } = row;
        let times = |ratio: Option<f64>| ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.3}"));
        let host = host.unwrap_or_default();
        let _ = writeln!(
            text,
            "  {name:<21} {:>9} {:>9.2} {:>9.2} {:>11.2} {:>9.2} {:>6} {:>6} {:>11.2} {:>9.2}",
            recorded.count,
            us(recorded.mean),
            us(recorded.p99),
            us(replayed.mean),
            us(replayed.p99),
            times(row.mean()),
            times(row.p99()),
            us(host.mean),
            us(host.p99),
        );
    }
    text.push_str(match rows.iter().all(Row::agrees) {
        true => "  all means and 99th percentiles are within 5 %: it is the same drive\n",
        false => "  not all are within 5 %: this is another drive, it was prepared in another way, or the load is not the whole of what was recorded\n",
    });
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(recorded: Figures, replayed: Figures) -> Row {
        Row { nsid: 3, of: Of::Reads, recorded, replayed, host: None }
    }

    #[test]
    fn as_many_commands_with_near_means_and_percentiles_agree() {
        let told = Figures { count: 10, mean: 100_000, p50: 90_000, p99: 200_000, max: 250_000 };
        let with = |change: fn(&mut Figures)| {
            let mut replayed = told;
            change(&mut replayed);
            row(told, replayed)
        };
        let near = with(|f| (f.mean, f.p99, f.p50, f.max) = (104_000, 191_000, 1, 1));
        assert!(near.agrees() && near.json()["within_5_percent"] == true);
        let far = [with(|f| f.mean = 106_000), with(|f| f.p99 = 189_000), with(|f| f.count = 9)];
        for row in &far {
            assert!(!row.agrees() && row.json()["within_5_percent"] == false);
        }
        assert!(!row(Figures::default(), Figures::default()).agrees(), "nothing is no agreement");
        assert!(table(&[]).is_empty());
        let text = table(&[near]);
        assert!(
            text.contains("3 reads") && text.contains(" 1.040") && text.contains("the same drive"),
            "{text}"
        );
        assert!(table(&far).contains("not all are within 5 %"));
    }
}
