//! What the study says.

use std::path::Path;

use anyhow::Result;
use load_formats::act::HostTime;

use super::{Options, Trials, agreement, published, search::HighestLoad, trial::Limit};
use lab_report::{
    figure::show,
    report::{
        Headline, Report, Section, Table,
        charts::{Data, Labels, lines},
    },
    results::{Point, Results},
};

fn table(found: &[HighestLoad]) -> Table {
    let mut table = Table::new([
        "namespaces",
        "highest load",
        "reads/s",
        "large-block MB/s",
        "reads > 1 ms %",
        "read p99 ms",
        "large read mean ms",
        "large write mean ms",
        "WA",
        "what gives way above",
    ]);
    for one in found {
        let above = one.failed.as_ref().and_then(|t| Some(format!("{}x: {}", t.multiple, t.limit?.text())));
        let mut row = vec![one.count.to_string()];
        match &one.passed {
            None => row.extend(std::iter::repeat_n("-".to_owned(), 8)),
            Some(t) => row.extend([
                format!("{}x", t.multiple),
                show(t.reads_per_second()),
                show(t.large_mb()),
                format!("{:.2}", t.over(0)),
                show(t.latency.p99),
                show(t.large_mean_ms[0]),
                show(t.large_mean_ms[1]),
                format!("{:.2}", t.write_amplification),
            ]),
        }
        row.push(above.unwrap_or_else(|| "nothing that was tried".into()));
        table.rows.push(row);
    }
    table
}

/// The multiple that passes, of a number of namespaces.
fn multiple(results: &Results, count: u32) -> Option<f64> {
    results.variant(&count.to_string())?.median("act_multiple", &Point::new())
}

/// How much better the published number of namespaces is than one.
fn gain(results: &Results) -> Option<f64> {
    let (many, one) = published::PAIR;
    let (many, one) = (multiple(results, many)?, multiple(results, one)?);
    (one > 0.0).then(|| many / one)
}

/// The answer, in some sentences: also why it ends, from what gave way.
fn answer(results: &Results, found: &[HighestLoad]) -> String {
    let mut text = String::new();
    if let Some(gain) = gain(results) {
        let (many, one) = published::PAIR;
        text.push_str(&format!(
            "With {many} namespaces instead of {one} the highest load that passes is {:.0} % higher (published: about {:.0} %, of a metric that is \
             not named). ",
            (gain - 1.0) * 100.0,
            (published::EIGHT_OVER_ONE - 1.0) * 100.0
        ));
    }
    let mut causes: Vec<(Limit, Vec<String>)> = Vec::new();
    for one in found {
        let Some(limit) = one.failed.as_ref().and_then(|t| t.limit) else { continue };
        let count = one.count.to_string();
        match causes.iter_mut().find(|(known, _)| *known == limit) {
            Some((_, counts)) if !counts.contains(&count) => counts.push(count),
            Some(_) => {}
            None => causes.push((limit, vec![count])),
        }
    }
    for (limit, counts) in causes {
        text.push_str(&format!("What gives way first with {}: {}. ", counts.join(", "), limit.text()));
    }
    text.trim_end().to_owned()
}

/// What the application's machine takes.
fn host_note(host: HostTime) -> String {
    if host == HostTime::NONE {
        return "The host takes no time: neither system calls nor the random bytes with which the tool fills each large block before it writes it. A real thread \
                is slower, and one namespace loses more by it than eight."
            .to_owned();
    }
    let micros = |nanos: u64| show(nanos as f64 / 1e3);
    format!(
        "The host takes its time, measured on a machine of our own (docs/studies/namespaces.md): {} µs of a thread for a small request, {} for reading a large block, {} \
         for filling and writing one; a thread that sleeps goes on up to {} µs late, and threads start {} µs apart. --host-time none is without that.",
        micros(host.small),
        micros(host.large_read),
        micros(host.large_write + host.fill),
        micros(host.slack),
        micros(host.start)
    )
}

/// What the reader should know.
pub(super) fn notes(results: &Results, done: &Trials, options: &Options) -> Vec<String> {
    let found = &done.found;
    let (service, queues, each) = published::THREADS;
    let mut notes = vec![
        format!(
            "The load is that of the tool's version 5.1 as published: {service} service threads, {queues} queues with {each} threads each, per drive; per \
             device one thread that reads large blocks of 128 KiB and one that writes them. A load of 1x is 2,000 reads and 1,000 writes per second of the \
             whole drive, however many namespaces it has."
        ),
        format!(
            "A load passes if in {} seconds, after {} that are not measured, the reads keep within the tool's limits (5 % over 1 ms, 1 % over 8 ms, 0.1 % over 64 ms), \
             and at the end no thread is behind its rate by more than a hundredth of that time. The real test takes 24 hours, is judged hour by hour and stops \
             when a thread is 10 seconds behind.",
            options.length().window,
            options.length().ramp
        ),
        format!(
            "Before the tests each drive is {}written as act_prep does, all namespaces at the same time: every large block twice in order; and then large blocks at \
             random, as the tests write them, until write amplification changes by less than 2 %.{}",
            options.of.map_or(String::new(), |of| format!("cut into {of} namespaces and ")),
            if options.of.is_some() { " The tests use the first of them, and leave the others alone." } else { "" }
        ),
        host_note(options.host_time.times()),
        "No value was fitted to the published gain; the threads are the tool's. The drive's profile is made from its own figures, but for two: its spare was \
         fitted to the data sheet's random writes, and no source tells to how many dies erases and collection ahead of the host keep (gc.idle_share, an eighth \
         by default). docs/studies/namespaces.md shows a quarter and a sixteenth beside it."
            .to_owned(),
    ];
    if found.iter().any(|one| one.passed.is_none()) {
        notes.push("With some numbers of namespaces no load passes.".to_owned());
    }
    if options.live {
        notes.push(format!(
            "Live, the drive runs in this process with contents in memory, a second of it in {} on the clock on the wall, and one thread plays all threads of the \
             tool. What is looked for is looked for in virtual time; then the highest load that passes, half of it and the lowest that does not pass are done in \
             both, each on the drive as it was prepared. \"drive's\" times are the drive's own (log D8h), of all reads and all writes; the others are what the host sees.",
            options.slow_motion
        ));
        notes.push(agreement::text(results, &done.pairs));
    }
    if results.variants.iter().any(|v| v.runs.len() < 2) {
        notes.push(
            "One repetition: the same seed gives the same figures on every machine; --repeat shows how much they depend on it.".to_owned(),
        );
    }
    notes
}

fn chart(results: &Results, options_counts: &[u32]) -> String {
    let labels = Labels {
        title: "Highest load that passes".into(),
        y: "multiple of the standard load".into(),
        x: "namespaces".into(),
        log: false,
    };
    let values = options_counts.iter().map(|&count| multiple(results, count)).collect();
    let data = Data { name: "ours".into(), colour: "#2563eb", dashed: false, values };
    let one = multiple(results, published::PAIR.1);
    let gain = options_counts.iter().map(|&count| match one {
        Some(one) if count == published::PAIR.1 => Some(one),
        Some(one) if count == published::PAIR.0 => Some(one * published::EIGHT_OVER_ONE),
        _ => None,
    });
    let published = Data {
        name: "published gain on ours".into(),
        colour: "#9ca3af",
        dashed: true,
        values: gain.collect(),
    };
    let categories: Vec<String> = options_counts.iter().map(u32::to_string).collect();
    lines(&labels, &categories, &[data, published], true)
}

fn counts(found: &[HighestLoad]) -> Vec<u32> {
    let mut counts: Vec<u32> = found.iter().map(|one| one.count).collect();
    counts.sort_unstable();
    counts.dedup();
    counts
}

/// Writes the page.
pub(super) fn write(results: &Results, done: &Trials, path: &Path) -> Result<()> {
    let found = &done.found;
    let headlines = gain(results).map(|gain| Headline {
        label: format!("Highest load, {} namespaces over {}", published::PAIR.0, published::PAIR.1),
        value: format!("{gain:.2}x"),
        detail: format!("published: about {}x", published::EIGHT_OVER_ONE),
    });
    let pairs = (!done.pairs.is_empty()).then(|| Section {
        heading: "Live and virtual time".into(),
        text: "Live over virtual time, test by test. \"This machine\": the drive did the same in its own time; what the host sees besides comes from this machine."
            .into(),
        charts: Vec::new(),
        table: Some(agreement::table(results, &done.pairs)),
    });
    Report {
        title: "Namespaces for an application that scales with devices".into(),
        question: "An application has two threads per device that do one large request at a time. What does it gain if a fast drive is shown to it as several \
                   devices, and where does that end?"
            .into(),
        answer: answer(results, found),
        headlines: headlines.into_iter().collect(),
        results,
        sections: std::iter::once(Section {
            heading: "The highest load that passes".into(),
            text: "One row per number of namespaces (and repetition), at the highest load that passes; the last column is the lowest load that did not pass, and \
                   why."
                .into(),
            charts: vec![chart(results, &counts(found))],
            table: Some(table(found)),
        })
        .chain(pairs)
        .collect(),
    }
    .write(path)
}

/// The tables and the answer, for a terminal.
pub(super) fn text(results: &Results, done: &Trials, page: &Path) -> String {
    let notes: String = results.notes.iter().map(|note| format!("- {note}\n")).collect();
    let pairs = match &done.pairs[..] {
        [] => String::new(),
        pairs => format!("live over virtual time:\n{}\n", agreement::table(results, pairs).text()),
    };
    let found = &done.found;
    format!(
        "{}\n{pairs}{}\n\n{notes}\nreport: {}",
        table(found).text(),
        answer(results, found),
        page.display()
    )
}
