//! What people read.

use std::fmt::Write as _;

use super::{
    advice::{Advice, Loaded, Modelled, Recommendation},
    database_model::Database,
    figures::{Figure, SETTLED_PERCENT},
    installed_server::clean,
    simulate::{Found, More},
};
use lab_report::{
    figure::{show, show_size},
    results::Spread,
    terminal::{self, Look},
};

/// Throughput and writes that change by less than this are not worth a change of layout: the spread of the model itself is of this size.
const MIN_GAIN: f64 = 0.03;
/// A model that writes so many times what was measured is heavier than the real load.
const HEAVY_MODEL_RATIO: f64 = 1.5;
/// Processors of the published server, which the program takes where none are said.
const PROCESSORS: u32 = 16;
/// Throughput that moves by more than this within a window, in percent, is told.
const MAX_DRIFT_PERCENT: f64 = 10.0;

/// A 99th percentile of commits that is higher by this part of what is configured is told.
const MAX_SLOWDOWN: f64 = 0.2;

/// What is recommended: what can be done on this drive, the best first, and then what wants another. It is the safe layouts whose throughput is higher with every seed, or whose writes are fewer without a loss of
/// throughput; and where what is configured is not safe, those that are. `light`: the real load is lighter than the model's, so that more throughput
/// is of no use.
pub fn recommended(found: &[Found], light: bool) -> Vec<Recommendation> {
    let Some((first, others)) = found.split_first() else { return Vec::new() };
    let mut good: Vec<(&Found, String)> = Vec::new();
    for layout in others.iter().filter(|layout| layout.safe && layout.choice) {
        let (faster, fewer) = (layout.throughput_ratio, layout.nand_bytes_ratio);
        let mut reasons = Vec::new();
        if !first.safe {
            reasons.push("a power cut damages no page, as it can with what is configured".to_owned());
        }
        if faster.low > 1.0 + MIN_GAIN && !light {
            reasons.push(format!("{} throughput", change(faster)));
        }
        if fewer.high < 1.0 - MIN_GAIN && faster.high > 1.0 - MIN_GAIN {
            reasons.push(format!("{} bytes on flash for each transaction", change(fewer)));
        }
        if !reasons.is_empty() {
            reasons.extend(slower_commits(layout, first));
            good.push((layout, reasons.join("; ")));
        }
    }
    good.sort_by(|(a, _), (b, _)| {
        let faster = b.throughput_ratio.median.total_cmp(&a.throughput_ratio.median);
        a.needs.is_some().cmp(&b.needs.is_some()).then(faster)
    });
    good.into_iter().map(|(layout, why)| Recommendation { layout: layout.name, why }).collect()
}

/// What to say of a layout with which commits wait longer: the median of its 99th percentile, over that of what is configured.
fn slower_commits(layout: &Found, first: &Found) -> Option<String> {
    let (ours, theirs) = (layout.commit_p99_ms?.median, first.commit_p99_ms?.median);
    (ours > theirs * (1.0 + MAX_SLOWDOWN)).then(|| {
        format!(
            "but the slowest hundredth of commits takes {} ms, as configured {} ms",
            show(ours),
            show(theirs)
        )
    })
}

/// `+31.0 % (+29.5 to +33.1)`.
fn change(ratio: Spread) -> String {
    let [median, low, high] =
        [ratio.median, ratio.low, ratio.high].map(|value| format!("{:+.1}", (value - 1.0) * 100.0));
    if low == high { format!("{median} %") } else { format!("{median} % ({low} to {high})") }
}

/// The median, with its range if that is not it.
fn range(spread: Spread, show: impl Fn(f64) -> String) -> String {
    let [median, low, high] = [spread.median, spread.low, spread.high].map(show);
    if low == high { median } else { format!("{median} ({low} to {high})") }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a positive number, for reading")]
fn size(bytes: f64) -> String {
    show_size(bytes.max(0.0) as u64)
}

/// Whether the real load is lighter than the lightest of the model.
pub fn is_light(load: &Loaded) -> bool {
    load.written_over_measured.is_some_and(|ratio| ratio > HEAVY_MODEL_RATIO)
}

/// What the figures do not tell. `cut`: layouts whose checkpoints take longer than the simulation.
pub fn uncertainty(
    database: &dyn Database,
    load: &Loaded,
    drive: &Modelled,
    found: &[Found],
    cut: &[&str],
) -> Vec<String> {
    let words = database.words();
    let mut all = Vec::new();
    all.push(format!(
        "Ranges are over the seeds of the load ({}). They say nothing of how far the model is from your server.",
        load.seeds
    ));
    all.push(words.fitted.filter(|_| drive.fitted).unwrap_or(words.not_fitted).into());
    all.push(match &load.measured {
        None => "The load is a generic one. Its share of writes, its skew and its pauses are TPC-C's, and a gain holds for it alone. A server that waits for something else than its drive gains nothing. --sample and --recording take the weight of your own.".into(),
        Some(_) => "Of the measured load only bytes written in a second count. Its mix, skew and pauses are TPC-C's.".into(),
    });
    if let Some(ratio) = load
        .written_over_measured
        .filter(|ratio| *ratio > HEAVY_MODEL_RATIO || *ratio < 1.0 / HEAVY_MODEL_RATIO)
    {
        let why = if ratio > 1.0 {
            "a single connection without pause writes more"
        } else {
            "no number of connections that was tried writes as much"
        };
        all.push(format!("The model writes {} times what was measured: {why}. Gains of throughput are those of the model's load; years count with the measured weight.", show(ratio)));
    }
    if load.scale > 1 {
        all.push(format!(
            "{} are divided by {} in the model, so that a simulation takes seconds.",
            words.scaled, load.scale
        ));
    }
    all.push(
        "A short --warmup understates gains: garbage collection is not yet in the state that the load makes."
            .into(),
    );
    all.push("The drive has shorter blocks than the whole one, and the database lies folded on it. Its garbage collection began in the state of uniform random writes.".into());
    let moving: Vec<_> = found
        .iter()
        .filter(|layout| layout.drift_percent.abs() > MAX_DRIFT_PERCENT)
        .map(|layout| layout.name)
        .collect();
    if !moving.is_empty() {
        all.push(format!("Throughput still moved by more than {MAX_DRIFT_PERCENT} % within the window of: {}. Longer --warmup and --seconds settle it.", moving.join(", ")));
    }
    let colder = found.iter().flat_map(|layout| &layout.more).any(|more| {
        more.figure == Figure::ReadHitsMoved
            && more.value.low.abs().max(more.value.high.abs()) > SETTLED_PERCENT
    });
    if colder {
        all.push("The cache was still getting warmer when it was measured, so it is understated. A longer --warmup warms it more.".into());
    }
    if !cut.is_empty() {
        all.push(format!("A checkpoint takes longer than the simulation lasts, with: {}. Full-page images are most right after its begin and fade. So the figures there are those of a part of it, and not of the whole. Longer --seconds settle it.", cut.join(", ")));
    }
    if !database.waits_at_commit() {
        all.push("Commits do not wait for the log, so there is no latency of commits.".into());
    }
    all.extend(database.left_out().iter().map(|what| format!("Left out: {}.", clean(what))));
    all.push(words.not_modelled.into());
    all
}

/// The layouts beside each other.
fn table(advice: &Advice) -> String {
    let head = [
        "layout",
        "transactions/s",
        "gain",
        "p99 of commits, ms",
        "NAND bytes each",
        "write amplification",
        "years",
    ];
    let rows: Vec<Vec<String>> = advice
        .layouts
        .iter()
        .enumerate()
        .map(|(at, layout)| {
            vec![
                layout.name.to_owned(),
                range(layout.transactions_per_second, show),
                if at == 0 { "-".into() } else { change(layout.throughput_ratio) },
                layout.commit_p99_ms.map_or_else(|| "-".into(), |ms| range(ms, show)),
                range(layout.nand_bytes_per_transaction, size),
                match layout.write_amplification.high > 0.0 {
                    true => range(layout.write_amplification, show),
                    false => "-".into(),
                },
                layout.years.map_or_else(|| "-".into(), |years| range(years, show)),
            ]
        })
        .collect();
    terminal::table(Look { rule: true, text: 1, indent: 0 }, &head.map(str::to_owned), &rows)
}

/// The whole report. `confirm`: what confirms a gain.
pub fn text(advice: &Advice, confirm: &str) -> String {
    let mut out = String::new();
    let files = match &advice.files[..] {
        [one] => one.clone(),
        [first, others @ ..] => format!("{first} and {} files that it includes", others.len()),
        [] => String::new(),
    };
    let _ = writeln!(out, "{} (told by: {}), from {files}", advice.server, advice.server_told_by);
    let _ = writeln!(out, "Values as told by {}\n", advice.values_told_by);
    let rows: Vec<Vec<String>> = advice
        .settings
        .iter()
        .map(|row| [&row.name, &row.value, &row.from, &row.meaning].map(Clone::clone).to_vec())
        .collect();
    let head = ["setting", "value", "from", "for the drive"].map(str::to_owned);
    out += &terminal::table(Look { rule: true, text: 4, indent: 0 }, &head, &rows);
    if advice.settings.iter().any(|row| row.default) {
        let _ = writeln!(out, "Defaults: {}. Another series is named with --server.", advice.defaults_source);
    }
    let load = &advice.load;
    let _ = writeln!(
        out,
        "\nLoad: {}; a database of {}, {} processors{}; {} s measured; seeds: {}.",
        load.description,
        show_size(load.dataset_bytes),
        load.processors,
        match load.processors {
            PROCESSORS => " (those of the published server: name yours with --processors)",
            _ => "",
        },
        load.seconds,
        load.seeds
    );
    if let Some(rates) = &load.measured {
        let each = |bytes: f64, count: f64| if count > 0.0 { size(bytes / count) } else { "-".into() };
        let _ = writeln!(
            out,
            "Measured: {} reads/s of {}, {} writes/s of {} ({} MB/s), {} flushes/s.",
            show(rates.reads_per_second),
            each(rates.read_bytes_per_second, rates.reads_per_second),
            show(rates.writes_per_second),
            each(rates.written_bytes_per_second, rates.writes_per_second),
            show(rates.written_bytes_per_second / 1e6),
            rates.flushes_per_second.map_or_else(|| "no count of".into(), show)
        );
    }
    let _ = writeln!(
        out,
        "Drive: {}, of which {} ({} %) hold data. Other values of the drive: --drive, --used.\n",
        advice.drive.name,
        show_size(advice.drive.full_bytes),
        advice.drive.full_percent
    );
    out += &table(advice);
    let weight = if load.measured.is_some() {
        "what was measured"
    } else {
        "the rate of \"configured\", without pause"
    };
    let _ = writeln!(
        out,
        "Years: until the rated cycles of the flash are used up, all layouts at the same rate of transactions: {weight}."
    );
    if let Some(first) = advice.layouts.first() {
        for warning in &first.warnings {
            let _ = writeln!(out, "Warning: {warning}");
        }
    }
    comparison(advice, &mut out);
    if !advice.excluded.is_empty() {
        out += "\nNot simulated:\n";
    }
    for excluded in &advice.excluded {
        let _ = writeln!(out, "- {}: {}.", excluded.name, excluded.why);
    }
    recommendation(advice, &mut out);
    out += "\nWhat this does not tell:\n";
    for line in &advice.uncertainty {
        let _ = writeln!(out, "- {line}");
    }
    let _ = write!(out, "Confirm it with a real server before you change one: {confirm}.");
    out
}

/// Layouts that are there to be compared with: what they keep, and what they have beside.
fn comparison(advice: &Advice, out: &mut String) {
    let others: Vec<&Found> = advice.layouts.iter().filter(|layout| !layout.choice).collect();
    if !others.is_empty() {
        out.push_str("\nFor comparison:\n");
    }
    for layout in others {
        let percent = |value: f64| format!("{} %", show(value * 100.0));
        let kept = range(layout.throughput_ratio, percent);
        let _ = write!(
            out,
            "- {}: {}\n  It has {kept} of the throughput of \"configured\"",
            layout.name, layout.description
        );
        for More { figure, value } in &layout.more {
            let _ = write!(out, "; {}: {}", figure.title(), range(*value, |value| figure.show(value)));
        }
        out.push_str(".\n");
        for step in &layout.steps {
            let _ = writeln!(out, "  - {}", step.replace('\n', "\n        "));
        }
        for warning in &layout.warnings {
            let _ = writeln!(out, "  Warning: {warning}");
        }
    }
    if let Some(answer) = cache_or_store(&advice.layouts) {
        let _ = writeln!(out, "{answer}");
    }
}

/// Whether the drive is better as a cache or as the main store.
fn cache_or_store(layouts: &[Found]) -> Option<String> {
    let of = |name: &str| layouts.iter().find(|layout| layout.name == name);
    let (disk, cache) = (of("disk")?, of("cache")?);
    let tps = |found: &Found| found.transactions_per_second.median;
    let mut answer = format!(
        "Cache or main store: the cache has {} times the throughput of the disk alone, and keeps {} % of what the drive has as the main store. For each transaction it writes {} times the bytes on flash.",
        show(tps(cache) / tps(disk).max(1e-9)),
        show(cache.throughput_ratio.median * 100.0),
        show(cache.nand_bytes_ratio.median)
    );
    answer += if cache.throughput_ratio.low >= 1.0 - MIN_GAIN {
        " With this load the cache costs no throughput."
    } else {
        " What fits on the drive belongs on it. The cache is for a database that does not fit."
    };
    Some(answer)
}

fn recommendation(advice: &Advice, out: &mut String) {
    if advice.recommended.is_empty() {
        let _ = writeln!(
            out,
            "\nRecommendation: leave it as it is. With this load no safe layout has {} % more throughput with every seed, or {} % fewer bytes on flash without a loss.",
            MIN_GAIN * 100.0,
            MIN_GAIN * 100.0
        );
        return;
    }
    out.push_str("\nRecommendation, the best that this drive can do first:\n");
    let mut above: Option<&Found> = None;
    for (number, recommended) in (1..).zip(&advice.recommended) {
        let Some(layout) = advice.layouts.iter().find(|layout| layout.name == recommended.layout) else {
            continue;
        };
        let _ = writeln!(out, "{number}. {}: {}\n   {}.", layout.name, layout.description, recommended.why);
        if let Some(needs) = &layout.needs {
            let _ = writeln!(out, "   It wants {needs}.");
        }
        let same = |above: &&Found| above.needs.is_some() == layout.needs.is_some();
        if above.filter(same).is_some_and(|above| layout.throughput_ratio.high >= above.throughput_ratio.low)
        {
            out.push_str("   Its throughput is as good as that of the one above: their ranges overlap.\n");
        }
        above = Some(layout);
        for step in &layout.steps {
            let _ = writeln!(out, "   - {}", step.replace('\n', "\n         "));
        }
        for warning in &layout.warnings {
            let _ = writeln!(out, "   Warning: {warning}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(low: f64, median: f64, high: f64) -> Spread {
        Spread { median, low, high }
    }

    fn found(name: &'static str, safe: bool, faster: Spread, fewer: Spread) -> Found {
        let one = spread(1.0, 1.0, 1.0);
        Found {
            name,
            description: String::new(),
            safe,
            choice: true,
            needs: None,
            transactions_per_second: one,
            throughput_ratio: faster,
            commit_p99_ms: None,
            nand_bytes_per_transaction: one,
            nand_bytes_ratio: fewer,
            host_bytes_per_transaction: one,
            write_amplification: one,
            years: None,
            drift_percent: 0.0,
            more: Vec::new(),
            warnings: Vec::new(),
            steps: Vec::new(),
        }
    }

    fn names(first_is_safe: bool, others: Vec<Found>) -> Vec<&'static str> {
        let one = spread(1.0, 1.0, 1.0);
        let mut all = vec![found("configured", first_is_safe, one, one)];
        all.extend(others);
        recommended(&all, false).into_iter().map(|recommended| recommended.layout).collect()
    }

    #[test]
    fn only_a_gain_with_every_seed_is_recommended() {
        let same = spread(0.99, 1.0, 1.01);
        assert!(names(true, vec![found("a", true, same, same)]).is_empty());
        // Sometimes faster, sometimes slower.
        assert!(names(true, vec![found("a", true, spread(0.9, 1.2, 1.3), same)]).is_empty());
        // Fewer bytes, but slower.
        assert!(names(true, vec![found("a", true, spread(0.8, 0.8, 0.8), spread(0.5, 0.5, 0.5))]).is_empty());
        assert_eq!(names(true, vec![found("a", true, same, spread(0.5, 0.5, 0.5))]), ["a"]);
        // The fastest is first, and what is unsafe is never there.
        let fast = |by| spread(by, by, by);
        let all = vec![
            found("a", true, fast(1.1), same),
            found("b", true, fast(1.4), same),
            found("c", false, fast(9.0), same),
        ];
        assert_eq!(names(true, all), ["b", "a"]);
    }

    #[test]
    fn what_this_drive_can_do_comes_first() {
        let (same, fast) = (spread(0.99, 1.0, 1.01), |by| spread(by, by, by));
        let other = Found { needs: Some("another drive".into()), ..found("a", true, fast(1.9), same) };
        let beside = Found { choice: false, ..found("b", true, fast(3.0), same) };
        let all = vec![other, beside, found("c", true, fast(1.2), same), found("d", true, fast(1.3), same)];
        assert_eq!(names(true, all), ["d", "c", "a"]);
    }

    #[test]
    fn a_light_load_has_no_use_for_throughput() {
        let one = spread(1.0, 1.0, 1.0);
        let fast = found("a", true, spread(1.4, 1.4, 1.4), one);
        let all = [found("configured", true, one, one), fast];
        assert_eq!((recommended(&all, false).len(), recommended(&all, true).len()), (1, 0));
    }

    #[test]
    fn slower_commits_are_told_with_what_is_gained() {
        let one = spread(1.0, 1.0, 1.0);
        let waits = |ms: f64, mut of: Found| {
            of.commit_p99_ms = Some(spread(ms, ms, ms));
            of
        };
        let first = waits(6.0, found("configured", true, one, one));
        let faster = |name| found(name, true, spread(1.2, 1.3, 1.4), one);
        let all = [first, waits(12.7, faster("atomic")), waits(6.5, faster("dram"))];
        let why: Vec<_> = recommended(&all, false).into_iter().map(|found| found.why).collect();
        assert!(
            why[0].ends_with("; but the slowest hundredth of commits takes 12.7 ms, as configured 6.00 ms"),
            "{why:?}"
        );
        assert!(!why[1].contains("commits"), "{why:?}");
    }

    #[test]
    fn what_is_safe_is_recommended_over_what_is_not() {
        let slower = spread(0.7, 0.8, 0.9);
        assert_eq!(names(false, vec![found("a", true, slower, slower)]), ["a"]);
    }

    #[test]
    fn changes_have_their_range() {
        assert_eq!(change(spread(1.25, 1.31, 1.4)), "+31.0 % (+25.0 to +40.0)");
        assert_eq!(range(spread(1.0, 2.0, 3.0), show), "2.00 (1.00 to 3.00)");
        assert_eq!(range(spread(2.0, 2.0, 2.0), show), "2.00");
    }
}
