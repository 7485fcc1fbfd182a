//! How a replay's latencies agree with those in its recording.

use anyhow::Result;
use host::Host;
use live::latencies_between;
use load_formats::trace::recording::{CommandClass, Latencies};
use nvme::{Nsid, log::NamespaceStatistics};
use sim::{Nanos, SimTransport};

use super::load_document::{LatencyPair, LatencySummary};
use lab_report::terminal::{self, Look};

/// Replay over recording, at most so far from 1, are the same.
const TOLERANCE: f64 = 0.05;

/// What namespaces had counted before the replay.
pub(super) struct Agreement(Vec<NamespaceStatistics>);

/// One kind of command of one namespace.
struct Row {
    /// By the drive's clock, then and now.
    recorded: Latencies,
    replayed: Latencies,
    /// Until the completion was handed to the host, then.
    host: Option<Latencies>,
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

    /// The replay has ended. Returns a table, empty if the recording has no latencies, and the same for programs.
    ///
    /// # Errors
    /// The drive does not answer.
    pub fn end(
        self,
        host: &mut Host<SimTransport>,
        told: &[Latencies],
    ) -> Result<(String, Vec<LatencyPair>)> {
        let mut rows = Vec::new();
        for before in &self.0 {
            let nsid = before.nsid.get();
            let after = host.namespace_statistics(nsid)?;
            for of in CommandClass::ALL {
                let find = |host| told.iter().find(|l| (l.nsid, l.of, l.host) == (nsid, of, host)).copied();
                let Some(recorded) = find(false) else { continue };
                let replayed = latencies_between(before, &after, of);
                rows.push(Row { recorded, replayed, host: find(true) });
            }
        }
        Ok((table(&rows), rows.iter().map(Row::document).collect()))
    }
}

fn summary(latencies: &Latencies) -> LatencySummary {
    let Latencies { count, p50, p99, max, .. } = *latencies;
    LatencySummary { commands: count, mean_ns: mean(latencies), p50_ns: p50, p99_ns: p99, max_ns: max }
}

fn mean(latencies: &Latencies) -> u64 {
    latencies.mean().unwrap_or(0)
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
        ratio(mean(&self.replayed), mean(&self.recorded))
    }

    fn p99(&self) -> Option<f64> {
        ratio(self.replayed.p99, self.recorded.p99)
    }

    /// Whether the recorded drive took time. One without timing ends its commands when they come, and there is nothing to hold ours against.
    fn timed(&self) -> bool {
        self.recorded.max > 0
    }

    /// Whether they agree, if they can be compared.
    fn agrees(&self) -> Option<bool> {
        let near = |ratio: Option<f64>| ratio.is_some_and(|ratio| (ratio - 1.0).abs() <= TOLERANCE);
        let near = || near(self.mean()) && near(self.p99());
        self.timed().then(|| self.recorded.count == self.replayed.count && near())
    }

    fn document(&self) -> LatencyPair {
        LatencyPair {
            nsid: self.recorded.nsid,
            commands: self.recorded.of.name(),
            recorded: summary(&self.recorded),
            replayed: summary(&self.replayed),
            recorded_at_host: self.host.as_ref().map(summary),
            mean_ratio: self.mean(),
            p99_ratio: self.p99(),
            within_5_percent: self.agrees(),
        }
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
    let cells = |row: &Row| {
        let Row { recorded, replayed, host } = row;
        let or_none = |text: Option<String>| text.unwrap_or("-".to_owned());
        let then = |ns: u64| or_none(row.timed().then(|| format!("{:.2}", us(ns))));
        let times = |ratio: Option<f64>| or_none(ratio.map(|ratio| format!("{ratio:.3}")));
        let host =
            |ns: fn(&Latencies) -> u64| or_none(host.as_ref().map(|host| format!("{:.2}", us(ns(host)))));
        vec![
            format!("{} {}", recorded.nsid, recorded.of.name()),
            recorded.count.to_string(),
            then(mean(recorded)),
            then(recorded.p99),
            format!("{:.2}", us(mean(replayed))),
            format!("{:.2}", us(replayed.p99)),
            times(row.mean()),
            times(row.p99()),
            host(mean),
            host(|host| host.p99),
        ]
    };
    let cells: Vec<_> = rows.iter().map(cells).collect();
    text.push_str(&terminal::table(
        Look { text: 1, indent: 2, ..Look::default() },
        &head.map(str::to_owned),
        &cells,
    ));
    let told: Vec<bool> = rows.iter().filter_map(Row::agrees).collect();
    if told.len() < rows.len() {
        text.push_str(
            "  - : the recorded drive ran without timing, so that its commands took no time of its own and there is nothing to compare with; \
             record with `tranche serve --timing on --record FILE` to compare latencies\n",
        );
    }
    match told[..] {
        [] => {}
        _ if told.iter().all(|&agrees| agrees) => {
            text.push_str("  all means and 99th percentiles are within 5 %: it is the same drive\n");
        }
        _ => text.push_str(
            "  not all are within 5 %: this is another drive, it was prepared in another way, or the load is not the whole of what was recorded\n",
        ),
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORDED_LATENCIES: Latencies = Latencies {
        nsid: 3,
        of: CommandClass::Reads,
        host: false,
        count: 10,
        sum: 1_000_000,
        max: 250_000,
        p50: 90_000,
        p99: 200_000,
    };

    fn row(recorded: Latencies, replayed: Latencies) -> Row {
        Row { recorded, replayed, host: None }
    }

    #[test]
    fn as_many_commands_with_near_means_and_percentiles_agree() {
        let near = row(
            RECORDED_LATENCIES,
            Latencies { sum: 1_040_000, p99: 191_000, p50: 1, max: 1, ..RECORDED_LATENCIES },
        );
        assert!(near.agrees() == Some(true) && near.document().within_5_percent == Some(true));
        let far = [
            Latencies { sum: 1_060_000, ..RECORDED_LATENCIES },
            Latencies { p99: 189_000, ..RECORDED_LATENCIES },
            Latencies { count: 9, sum: 900_000, ..RECORDED_LATENCIES },
        ];
        let far = far.map(|replayed| row(RECORDED_LATENCIES, replayed));
        for row in &far {
            assert!(row.agrees() == Some(false) && row.document().within_5_percent == Some(false));
        }
        assert!(table(&[]).is_empty());
        let text = table(&[near]);
        assert!(
            text.contains("3 reads") && text.contains(" 1.040") && text.contains("the same drive"),
            "{text}"
        );
        assert!(table(&far).contains("not all are within 5 %"));
    }

    #[test]
    fn a_drive_without_timing_is_nothing_to_compare_with() {
        let none = Latencies { sum: 0, max: 0, p50: 0, p99: 0, ..RECORDED_LATENCIES };
        let host = Some(Latencies { host: true, ..RECORDED_LATENCIES });
        let untimed = || Row { host, ..row(none, RECORDED_LATENCIES) };
        assert!(untimed().agrees().is_none() && untimed().document().within_5_percent.is_none());
        let text = table(&[untimed()]);
        assert!(text.contains("ran without timing") && text.contains("--timing on"), "{text}");
        assert!(!text.contains("another drive") && !text.contains("the same drive"), "{text}");
        assert!(text.contains(" 100.00 ") && text.contains(" - "), "what the host saw is still told: {text}");
        // A quota holds commands of such a drive, too: those took time.
        let text = table(&[untimed(), row(RECORDED_LATENCIES, RECORDED_LATENCIES)]);
        assert!(text.contains("ran without timing") && text.contains("the same drive"), "{text}");
    }
}
