//! What the study says: the four jobs on each drive, beside what was published.

use super::{
    cell::Job,
    options::Options,
    published,
    setup::{LOCKS, PROCESSOR},
};
use lab_report::{
    figure::{show, show_some},
    report::{
        Headline, MetricRow, MetricTable, Report, Section, Table,
        charts::{self, Bar, Data, Labels},
    },
    results::{Point, Results, Variant},
};

/// Each job on each drive.
fn jobs(results: &Results) -> Table {
    let over = |row: &MetricRow| {
        let of = |name: &str| results.median(name, &format!("{}iops", row.metric), &row.at);
        of("nvme").zip(of(&row.variant)).map_or("-".into(), |(nvme, own)| format!("{}x", show(nvme / own)))
    };
    let of_drive = |variant: &Variant| {
        Job::ALL.map(|job| MetricRow {
            labels: vec![variant.name.clone(), job.name().into()],
            metric: job.metric(""),
            ..MetricRow::of(&variant.name)
        })
    };
    MetricTable::new(results, ["drive", "job"])
        .metrics([
            ("IOPS", "iops"),
            ("mean us", "mean_us"),
            ("p99 us", "p99_us"),
            ("p99.9 us", "p999_us"),
            ("mean of the job us", "job_us"),
        ])
        .column("NVMe over it", over)
        .rows(results.variants.iter().flat_map(of_drive))
}

/// Random reads with other times of the host.
fn host(results: &Results) -> Table {
    let mut table = Table::new(["of the host", "us", "NVMe IOPS", "SAS SSD IOPS", "NVMe over SAS SSD"]);
    let metric = Job::RandomRead.metric("iops");
    let axes = [
        ("lock_ns", "lock of the request queue, twice a request", &LOCKS[..]),
        ("processor_ns", "processor, a request", &PROCESSOR),
    ];
    for (axis, title, values) in axes {
        for &nanos in values {
            let at = Point::from([(axis.to_owned(), nanos)]);
            // The lock is not on the way to the NVMe drive.
            let usual = results.median("nvme", &metric, &Point::new());
            let nvme = if axis == "lock_ns" { usual } else { results.median("nvme", &metric, &at) };
            let sas = results.median("sas-ssd", &metric, &at);
            let ratio = nvme.zip(sas).map_or("-".into(), |(nvme, sas)| format!("{:.2}x", nvme / sas));
            #[expect(clippy::cast_precision_loss, reason = "for reading")]
            let micros = show(nanos as f64 / 1e3);
            table.rows.push(vec![title.into(), micros, show_some(nvme), show_some(sas), ratio]);
        }
    }
    table
}

fn chart(results: &Results) -> String {
    let categories: Vec<String> = Job::ALL.iter().map(|job| job.name().to_owned()).collect();
    let data = |(name, colour): (&str, &'static str)| Data {
        name: name.to_owned(),
        colour,
        dashed: false,
        values: Job::ALL
            .iter()
            .map(|job| Bar::of(&[results.median(name, &job.metric("iops"), &Point::new())?]))
            .collect(),
    };
    let series: Vec<Data<Bar>> =
        [("nvme", "#2f6db5"), ("sas-ssd", "#d08a2e"), ("hdd", "#7a7a7a")].into_iter().map(data).collect();
    let labels = Labels {
        title: "4 KiB requests".into(),
        y: "requests per second".into(),
        x: "job".into(),
        log: true,
    };
    charts::bars(&labels, &categories, &series)
}

fn sections(results: &Results) -> Vec<Section> {
    let (four, five) = published::NVME_OVER_SAS;
    vec![
        Section {
            heading: "Jobs of 4 KiB".into(),
            text: format!(
                "{} jobs with {} requests each, files of 4 GiB, direct I/O. Latencies count from the moment when the request queue takes a request; \
                 the mean of the job has the wait for it, too. Published: \"when compared to SAS SSD by 400%\", \
                 which is {four} or {five} times; sixteen plots without values.",
                published::JOBS,
                published::DEPTH
            ),
            charts: vec![chart(results)],
            table: Some(jobs(results)),
        },
        Section {
            heading: "What the assumed times of the host do".into(),
            text: "Random reads. No source states these times for the published kernel, so they are swept."
                .into(),
            charts: Vec::new(),
            table: Some(host(results)),
        },
    ]
}

fn ratio(results: &Results) -> Option<f64> {
    let metric = Job::RandomRead.metric("iops");
    let of = |name: &str| results.median(name, &metric, &Point::new());
    Some(of("nvme")? / of("sas-ssd")?)
}

fn answer(results: &Results) -> String {
    let (four, five) = published::NVME_OVER_SAS;
    match ratio(results) {
        Some(ratio) => format!(
            "The NVMe drive does {ratio:.1} times as many random reads as the SAS SSD. Published: 400 %, {four} or {five} times."
        ),
        None => "The random reads did not run.".into(),
    }
}

/// What a reader must know.
pub(super) fn notes(options: &Options) -> Vec<String> {
    let path = options.path;
    let micros = |nanos: u64| format!("{}.{}", nanos / 1000, nanos % 1000 / 100);
    vec![
        "The published SAS SSD is not named. The profile is a drive of that year with published rates: the ratio is as much its as the study's."
            .into(),
        "Nothing was found of the NVMe drive's writes: its rows of writes are those of a drive of its class.".into(),
        format!(
            "The host: {} processors (published), {} us of one for a request ({} and {}), {} us of a SCSI device's lock twice a request, {} \
             requests in its queue. The times are assumptions.",
            path.processors,
            micros(path.submission + path.completion),
            micros(path.submission),
            micros(path.completion),
            micros(path.lock),
            path.requests
        ),
        "Requests side by side are not merged in the request queue, as a scheduler may do with them. Drives that were written in order before all \
         jobs but random writes, and at random until they were steady before those."
            .into(),
        "A file system is not simulated: direct I/O on a file that was written before gives the drive the job's requests. ext4 and XFS differ in \
         virtual time in nothing."
            .into(),
    ]
}

/// The page.
pub(super) fn report(results: &Results) -> Report<'_> {
    let headlines = ratio(results).map(|ratio| Headline {
        label: "random reads, NVMe over SAS SSD".into(),
        value: format!("{ratio:.1}x"),
        detail: "published 400 %: 4 or 5 times".into(),
    });
    Report {
        title: "NVMe, SAS SSD and hard disk".into(),
        question: "How many requests of 4 KiB does a host get from an NVMe drive, a SAS SSD and a hard disk?"
            .into(),
        answer: answer(results),
        headlines: headlines.into_iter().collect(),
        results,
        sections: sections(results),
    }
}
