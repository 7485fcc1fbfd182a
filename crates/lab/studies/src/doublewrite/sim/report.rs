//! What the study says: the published tables beside ours.

use std::path::Path;

use super::super::{published, report as common, settings::Settings};
use lab_models::innodb::{SETTLED_PERCENT, WINDOWS, drive, figures::whole, fitted};
use lab_report::{
    counters::{NamespaceCounts, total, total_on_flash},
    figure::{show, show_size, show_some},
    report::{Section, Table, comparison_table, show_point},
    results::{Point, QUICK_RUN_NOTE, Results, Run, median, points},
};

fn percent(ratio: f64) -> String {
    format!("{:+.1}%", (ratio - 1.0) * 100.0)
}

/// `ours`, and how far it is from what was published.
fn beside(ours: Option<f64>, published: Option<f64>) -> [String; 3] {
    let off = ours.zip(published).map_or("-".into(), |(ours, theirs)| percent(ours / theirs));
    [show_some(ours), show_some(published), off]
}

fn threads(at: &Point) -> u64 {
    at.get("threads").copied().unwrap_or(0)
}

/// tpmC by connections.
fn throughput(results: &Results) -> Table {
    let mut table = Table::new([
        "connections",
        "nand",
        "published",
        "off by",
        "dram",
        "published",
        "off by",
        "gain",
        "published",
        "settled",
    ]);
    for at in points(&results.variants) {
        let ours = |variant: &str| results.median(variant, "tpmC", &at);
        let theirs = |variant: &str| published::throughput(variant, threads(&at));
        let gain = |pair: Option<(f64, f64)>| pair.map_or("-".into(), |(dram, nand)| percent(dram / nand));
        let mut row = vec![threads(&at).to_string()];
        row.extend(beside(ours("nand"), theirs("nand")));
        row.extend(beside(ours("dram"), theirs("dram")));
        row.push(gain(ours("dram").zip(ours("nand"))));
        row.push(gain(theirs("dram").zip(theirs("nand"))));
        row.push(settled(results, &at));
        table.rows.push(row);
    }
    table
}

/// `"yes"`, or the variants whose figures still moved at a point.
fn settled(results: &Results, at: &Point) -> String {
    let moving = |name: &&str| results.median(name, "settled", at).is_some_and(|settled| settled < 1.0);
    let names: Vec<&str> =
        results.variants.iter().map(|variant| variant.name.as_str()).filter(moving).collect();
    match &names[..] {
        [] => "yes".into(),
        names => format!("not {}", names.join(", ")),
    }
}

/// The run of a variant at the point of which the traffic was published.
fn busiest<'a>(results: &'a Results, variant: &str) -> Option<&'a Run> {
    let wanted = Point::from([("threads".into(), published::TRAFFIC_THREADS)]);
    results.variant(variant)?.runs.iter().find(|run| run.at == wanted)
}

/// Commands, bytes and latencies of each namespace with 64 connections.
fn traffic(results: &Results) -> Table {
    let mut table = Table::new(["64 connections", "ours", "published", "off by"]);
    for theirs in &published::TRAFFIC {
        let Some(run) = busiest(results, theirs.variant) else { continue };
        let Some(n) = run.namespaces.iter().find(|n| n.medium == theirs.medium) else { continue };
        let name = |what: &str| format!("{}, {} namespace: {what}", theirs.variant, theirs.medium);
        for (what, ours, theirs) in figures(run, n, theirs) {
            if theirs > 0.0 {
                let mut row = vec![name(what)];
                row.extend(beside(Some(ours), Some(theirs)));
                table.rows.push(row);
            }
        }
    }
    table
}

#[expect(clippy::cast_precision_loss, reason = "for reading")]
fn figures(run: &Run, n: &NamespaceCounts, theirs: &published::Traffic) -> [(&'static str, f64, f64); 8] {
    const MIB: f64 = 1_048_576.0;
    let seconds = run.seconds.max(1e-9);
    let (reads, writes) = (n.counted.reads as f64 / seconds, n.counted.writes as f64 / seconds);
    let (read, written) = (
        n.counted.host_bytes_read as f64 / MIB / seconds,
        n.counted.host_bytes_written as f64 / MIB / seconds,
    );
    let kib = |mib: f64, iops: f64| mib * 1024.0 / iops.max(1e-9);
    [
        ("read IOPS", reads, theirs.read_iops),
        ("read MiB/s", read, theirs.read_mib),
        (
            "read KiB",
            kib(read, reads),
            if theirs.read_iops > 0.0 { kib(theirs.read_mib, theirs.read_iops) } else { 0.0 },
        ),
        ("read latency ms", n.counted.read_latency.percentiles().mean, theirs.read_ms),
        ("write IOPS", writes, theirs.write_iops),
        ("write MiB/s", written, theirs.write_mib),
        ("write KiB", kib(written, writes), kib(theirs.write_mib, theirs.write_iops)),
        ("write latency ms", n.counted.write_latency.percentiles().mean, theirs.write_ms),
    ]
}

/// Bytes and write amplification, over all points, each with the weight of its work, as the published campaign.
fn bytes(results: &Results) -> Table {
    let mut table = Table::new([
        "variant",
        "host GiB",
        "NAND GiB",
        "WA all",
        "published",
        "off by",
        "WA nand",
        "published",
        "off by",
        "NAND per new order",
    ]);
    for variant in &results.variants {
        let sum = |f: &dyn Fn(&Run) -> f64| variant.runs.iter().map(f).sum::<f64>();
        let all = sum(&|run| float(total(&run.namespaces).host_bytes_written));
        let data = sum(&|run| float(total_on_flash(&run.namespaces).host_bytes_written));
        let nand = sum(&|run| float(total_on_flash(&run.namespaces).media_bytes_written));
        let orders = sum(&|run| run.metrics.get("tpmC").copied().unwrap_or(0.0) * run.seconds / 60.0);
        if data <= 0.0 || orders <= 0.0 {
            continue;
        }
        let theirs = published::amplification(&variant.name);
        let gib = |bytes: f64| show(bytes / 1_073_741_824.0);
        let mut row = vec![variant.name.clone(), gib(all), gib(nand)];
        row.extend(beside(Some(nand / all), theirs.map(|t| t.0)));
        row.extend(beside(Some(nand / data), theirs.map(|t| t.1)));
        row.push(show_size(whole(nand / orders)));
        table.rows.push(row);
    }
    table
}

#[expect(clippy::cast_precision_loss, reason = "for reading")]
fn float(bytes: u64) -> f64 {
    bytes as f64
}

/// Where connections spend their time, and whether the window was long enough.
fn inside(results: &Results) -> Table {
    let mut table = Table::new([
        "variant",
        "at",
        "page reads",
        "page writes",
        "read ms",
        "free ms",
        "commit ms",
        "processor ms",
        "commits a group",
        "dirty",
        "tpmC drifts",
        "WA drifts",
    ]);
    for variant in &results.variants {
        for at in points(std::slice::from_ref(variant)) {
            let get = |name: &str| variant.median(name, &at).unwrap_or(0.0);
            let mut row = vec![variant.name.clone(), show_point(Some(&at))];
            row.extend(
                [
                    "page_reads_per_new_order",
                    "page_writes_per_new_order",
                    "read_wait_ms_per_new_order",
                    "free_wait_ms_per_new_order",
                    "commit_wait_ms_per_new_order",
                    "processor_ms_per_new_order",
                    "commits_per_group",
                ]
                .map(|name| show(get(name))),
            );
            row.push(format!("{}%", show(get("dirty_pages_percent"))));
            row.extend(["drift_tpmC_percent", "drift_write_amplification_percent"].map(|name| {
                match get(name) {
                    drift if drift.abs() > UNUSABLE_DRIFT_PERCENT => "-".to_owned(),
                    drift => percent(drift / 100.0 + 1.0),
                }
            }));
            table.rows.push(row);
        }
    }
    table
}

/// Mean distance of a variant's tpmC from the published, over the points that were published; and the largest.
fn distance(
    results: &Results,
    ours: impl Fn(&Point) -> Option<f64>,
    theirs: impl Fn(u64) -> Option<f64>,
) -> Option<(f64, f64)> {
    let off: Vec<f64> = points(&results.variants)
        .iter()
        .filter_map(|at| Some((ours(at)? / theirs(threads(at))? - 1.0).abs() * 100.0))
        .collect();
    #[expect(clippy::cast_precision_loss, reason = "a handful of points")]
    let mean = off.iter().sum::<f64>() / off.len().max(1) as f64;
    let largest = off.iter().copied().reduce(f64::max)?;
    Some((mean, largest))
}

fn of_variant(results: &Results, variant: &str) -> Option<(f64, f64)> {
    distance(
        results,
        |at| results.median(variant, "tpmC", at),
        |threads| published::throughput(variant, threads),
    )
}

/// What the model is one of.
pub(super) fn modelled(options: &Settings) -> &'static str {
    match options.like {
        None => "a model of Percona Server 8.0.15 under tpcc-mysql",
        Some(_) => "a model of the live study's MariaDB",
    }
}

/// The answer in a few sentences, with what it is worth.
pub(super) fn answer(results: &Results, options: &Settings) -> String {
    let answer = found(results, options);
    if options.quick { format!("{QUICK_RUN_NOTE} {answer}") } else { answer }
}

fn found(results: &Results, options: &Settings) -> String {
    if options.like.is_some() {
        return "The model with the parameters of the live study, beside what that measured.".into();
    }
    let published = drive::is_published(&options.drive);
    let fit = of_variant(results, "nand").filter(|_| published).map(|(mean, most)| {
        format!(
            "The model was fitted to the published variant nand with 4 and with 64 connections; over all levels its tpmC is {mean:.0}% off \
             (at most {most:.0}%)."
        )
    });
    let test = of_variant(results, "dram").filter(|_| published).map(|(mean, most)| {
        format!(" The variant dram, which no value was chosen to match but which was not unseen (notes), is {mean:.0}% off (at most {most:.0}%).")
    });
    let gains: Vec<String> = points(&results.variants)
        .iter()
        .filter_map(|at| {
            let ours = results.median("dram", "tpmC", at)? / results.median("nand", "tpmC", at)?;
            let theirs =
                published::throughput("dram", threads(at))? / published::throughput("nand", threads(at))?;
            Some(format!("{} (published {}) with {}", percent(ours), percent(theirs), threads(at)))
        })
        .collect();
    let gains = match gains.len() {
        0 => String::new(),
        _ => format!(" Gain of the DRAM namespace by connections: {}.", gains.join(", ")),
    };
    let other = (!published).then(|| {
        format!(
            "The server is the published one's model, the drive is {:?} with its own figures.",
            options.drive
        )
    });
    let all = fit.or(other).unwrap_or_default() + &test.unwrap_or_default() + &gains;
    if all.is_empty() {
        "No point of these was published: there is nothing to hold it against.".into()
    } else {
        all
    }
}

/// Sentences for the reader.
pub(super) fn notes(results: &Results, options: &Settings) -> Vec<String> {
    let model = modelled(options);
    let mut notes = vec![format!(
        "This is {model} with {} warehouses and a buffer pool of {}; docs/studies/doublewrite-model.md has every parameter with its source. Page reads and \
         writes are for each new order.",
        options.warehouses,
        show_size(options.buffer_pool)
    )];
    let folded = results.variants.iter().flat_map(|v| &v.runs).find_map(|run| run.metrics.get("folded"));
    if let Some(times) = folded.filter(|times| **times > 1.05) {
        notes.push(format!(
            "The database is folded onto the drive {:?}: it is {times:.0} times as large as the room for it, and page N of M lies at N/M of the room. So each \
             page is overwritten {times:.0} times as often in relation to the drive, and garbage collection comes into the state that the load makes \
             within minutes instead of hours.",
            options.drive
        ));
    }
    if options.like.is_some() {
        notes.push("Nothing of it is fitted.".into());
        notes.extend(at_rest(results));
        return notes;
    }
    if !drive::is_published(&options.drive) {
        notes.push(
            "The server's free figures were fitted to the published variant nand on the published drive: a statement's processor time, reads beside the \
             rows' pages, bytes of the logs, the share that is filled. The figures of this drive are its own."
                .into(),
        );
        notes.extend(at_rest(results));
        return notes;
    }
    notes.push(format!(
        "Fitted to the published variant nand: the drive's program bandwidth ({} planes, {} us), reads that may postpone a program ({}), the share \
         that is filled, a statement's processor time, reads beside the rows' pages, bytes of the logs. The write buffer of {} is what that bandwidth \
         fills in a few milliseconds. The DRAM is as fast as the link: the figure in the full profile is derived \
         from the variant under test.",
        fitted::PLANES,
        fitted::PROGRAM_US,
        fitted::MAX_SUSPENDS,
        fitted::WRITE_BUFFER
    ));
    notes.push(fitted::ROLES.into());
    notes.extend(at_rest(results));
    notes
}

/// Percent of drift above which a third of a window held too little to be compared.
const UNUSABLE_DRIFT_PERCENT: f64 = 1e4;

/// Whether the windows were long enough.
fn at_rest(results: &Results) -> Option<String> {
    let runs: Vec<_> =
        results.variants.iter().flat_map(|v| v.runs.iter().map(|run| (&*v.name, run))).collect();
    let drifts: Vec<f64> = runs
        .iter()
        .flat_map(|(_, run)| {
            ["drift_tpmC_percent", "drift_write_amplification_percent"].map(|m| run.metrics.get(m))
        })
        .flatten()
        .map(|drift| drift.abs())
        .collect();
    let (middle, most) = (median(&drifts)?, drifts.iter().copied().reduce(f64::max)?);
    let moving: Vec<String> = runs
        .iter()
        .filter(|(_, run)| run.metrics.get("settled").is_some_and(|settled| *settled < 1.0))
        .map(|(name, run)| format!("{name} with {}", threads(&run.at)))
        .collect();
    let verdict = match moving.len() {
        0 => "Settled: all points".to_owned(),
        _ => format!("Not settled: {}", moving.join(", ")),
    };
    if most > UNUSABLE_DRIFT_PERCENT {
        return Some(format!(
            "{verdict}. The windows are too short to say more: in a third of one next to nothing happened. Use longer ones (--seconds)."
        ));
    }
    Some(format!(
        "{verdict}. tpmC and write amplification of the last third of each window differ from those of the third before by {middle:.1}% (median), at most \
         {most:.1}%; up to {SETTLED_PERCENT:.0}% counts as settled, and what is not is measured in up to {WINDOWS} windows."
    ))
}

/// Sections of the report before the common ones.
pub(super) fn sections(results: &Results, options: &Settings) -> Vec<Section> {
    let section = |heading: &str, text: &str, table: Table| Section {
        heading: heading.into(),
        text: text.into(),
        charts: Vec::new(),
        table: Some(table),
    };
    if let Some(measured) = &options.like {
        return vec![
            section(
                "Model beside live",
                "Medians of the live study's repetitions.",
                measured.beside(results),
            ),
            section(
                "Inside the model",
                "For each new order; milliseconds are of connections.",
                inside(results),
            ),
        ];
    }
    vec![
        section("tpmC beside the published", "New orders per minute.", throughput(results)),
        section("Traffic beside the published", "As the drive counted it (log D8h).", traffic(results)),
        section(
            "Bytes and write amplification",
            "Over all points. Published for a campaign whose length is not said; 2.50 of dram is derived.",
            bytes(results),
        ),
        section(
            "Inside the model",
            "For each new order; milliseconds are of connections. Drift: the last third of the window over the third before.",
            inside(results),
        ),
    ]
}

/// The tables and the answer, for a terminal.
pub(super) fn text(results: &Results, options: &Settings, page: &Path) -> String {
    let tables = match &options.like {
        Some(measured) => vec![measured.beside(results), inside(results)],
        None => vec![throughput(results), traffic(results), bytes(results), inside(results)],
    };
    let tables: String = tables.iter().map(|table| table.text() + "\n").collect();
    let notes: String = results.notes.iter().map(|note| format!("- {note}\n")).collect();
    // What is published is of another server.
    let comparison = match options.like {
        Some(_) => String::new(),
        None => comparison_table(&common::essential_and_published(results)).text() + "\n",
    };
    format!("{tables}{comparison}{}\n\n{notes}\nreport: {}", answer(results, options), page.display())
}
