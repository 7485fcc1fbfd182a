//! What the live study says.

use super::{
    super::{
        cell::Job,
        options::{Live, Options},
        published,
    },
    drives,
};
use lab_report::{
    figure::{show, show_size, show_some},
    report::{
        Headline, MetricRow, MetricTable, Report, Section, Table,
        charts::{self, Bar, Data, Labels},
    },
    results::{Point, Results},
};

fn median(results: &Results, variant: &str, metric: &str) -> Option<f64> {
    results.median(variant, metric, &Point::new())
}

/// A variant's name.
fn variant(drive: &str, filesystem: &str) -> String {
    format!("{drive}-{filesystem}")
}

fn filesystems(live: &Live) -> Vec<&'static str> {
    live.filesystems.iter().map(|filesystem| filesystem.name()).collect()
}

fn ratio(of: Option<f64>, over: Option<f64>) -> String {
    of.zip(over).map_or("-".into(), |(of, over)| format!("{}x", show(of / over)))
}

/// Each job on each file system of each drive, beside virtual time.
fn direct(results: &Results, live: &Live) -> Table {
    let rows = drives::KINDS.into_iter().flat_map(|kind| {
        let drive = drives::name(kind);
        filesystems(live).into_iter().flat_map(move |filesystem| {
            Job::ALL.map(|job| MetricRow {
                labels: vec![drive.into(), filesystem.into(), job.name().into()],
                metric: job.metric(""),
                ..MetricRow::of(variant(drive, filesystem))
            })
        })
    });
    let iops = |row: &MetricRow, variant: &str| median(results, variant, &format!("{}iops", row.metric));
    let in_virtual_time = |row: &MetricRow, drive: &str| iops(row, &format!("virtual-{drive}"));
    MetricTable::new(results, ["drive", "file system", "job"])
        .metrics([
            ("IOPS measured", "wall_iops"),
            ("IOPS", "iops"),
            ("mean us", "mean_us"),
            ("p99 us", "p99_us"),
            ("mean of the job us", "job_us"),
        ])
        .column("NVMe over it", |row| {
            ratio(iops(row, &variant("nvme", &row.labels[1])), iops(row, &row.variant))
        })
        .column("virtual time IOPS", |row| show_some(in_virtual_time(row, &row.labels[0])))
        .column("virtual time NVMe over it", |row| {
            ratio(in_virtual_time(row, "nvme"), in_virtual_time(row, &row.labels[0]))
        })
        .rows(rows)
}

/// The same requests without direct I/O.
fn page_cache(results: &Results) -> Table {
    let mut table =
        Table::new(["where", "drive", "job", "ext4 requests/s", "xfs requests/s", "xfs over ext4"]);
    for kind in drives::KINDS {
        let drive = drives::name(kind);
        for job in Job::ALL {
            let of = |filesystem: &str| {
                median(results, &variant(drive, filesystem), &format!("page_cache_{}_iops", job.name()))
            };
            let (ext4, xfs) = (of("ext4"), of("xfs"));
            table.rows.push(vec![
                "page cache".into(),
                drive.into(),
                job.name().into(),
                show_some(ext4),
                show_some(xfs),
                ratio(xfs, ext4),
            ]);
        }
    }
    table
}

fn chart(results: &Results, live: &Live) -> String {
    let categories: Vec<String> = Job::ALL.iter().map(|job| job.name().to_owned()).collect();
    let colours = ["#2f6db5", "#d08a2e", "#7a7a7a"];
    let series: Vec<Data<Bar>> = drives::KINDS
        .into_iter()
        .zip(colours)
        .flat_map(|(kind, colour)| {
            filesystems(live).into_iter().map(move |filesystem| {
                let name = variant(drives::name(kind), filesystem);
                let values =
                    Job::ALL.iter().map(|job| Bar::of(&[median(results, &name, &job.metric("iops"))?]));
                Data { values: values.collect(), name, colour, dashed: filesystem == "xfs" }
            })
        })
        .collect();
    let labels = Labels {
        title: "4 KiB requests, direct I/O".into(),
        y: "requests per second of the drive's time".into(),
        x: "job".into(),
        log: true,
    };
    charts::bars(&labels, &categories, &series)
}

fn sections(results: &Results, live: &Live) -> Vec<Section> {
    let (four, five) = published::NVME_OVER_SAS;
    vec![
        Section {
            heading: "Direct I/O: the drive".into(),
            text: format!(
                "The printed fio job: {} jobs with {} requests each, on files of {} ({} / {}). The drives have 1/{} of their capacity, and run {} times slower. \
                 IOPS and latencies are in the drive's time; measured are those of the wall's clock. Latencies count from the moment when the kernel has taken \
                 a request; the mean of the job has the wait for that, too. Published: \"when compared to SAS SSD by 400%\", which is {four} or {five} times; \
                 plots without values. Virtual time is the study without --live, of whole drives without a write cache before them.",
                published::JOBS,
                published::DEPTH,
                show_size(drives::file(live)),
                show_size(published::FILE),
                live.scale,
                live.scale,
                live.slow_motion
            ),
            charts: vec![chart(results, live)],
            table: Some(direct(results, live)),
        },
        Section {
            heading: "Page cache: the host's memory".into(),
            text: format!(
                "One job, 4 KiB at a time, without direct I/O, on a file of {} that was just written: what IOzone with a file of 4 GiB measures on a host with \
                 64 GiB. The page cache answers; the drive is hardly asked. Requests per second of the wall's clock. They say nothing about drives.",
                show_size(drives::file(live))
            ),
            charts: Vec::new(),
            table: Some(page_cache(results)),
        },
    ]
}

/// NVMe over the SAS SSD and over the disk in random reads on a file system.
fn gains(results: &Results, filesystem: &str) -> Option<(f64, f64)> {
    let of = |drive: &str| median(results, &variant(drive, filesystem), &Job::RandomRead.metric("iops"));
    let nvme = of("nvme")?;
    Some((nvme / of("sas-ssd")?, nvme / of("hdd")?))
}

fn answer(results: &Results, live: &Live) -> String {
    let (four, five) = published::NVME_OVER_SAS;
    let sentences: Vec<String> = filesystems(live)
        .into_iter()
        .filter_map(|filesystem| {
            let (sas, disk) = gains(results, filesystem)?;
            Some(format!(
                "On {filesystem} the NVMe drive does {sas:.1} times the random reads of the SAS SSD, and {} times those of the disk.",
                show(disk)
            ))
        })
        .collect();
    format!("{} Published over the SAS SSD: 400 %, {four} or {five} times.", sentences.join(" "))
}

/// What a reader must know.
pub(super) fn notes(results: &Results, options: &Options, live: &Live) -> Vec<String> {
    let mut notes = vec![
        format!(
            "Scaled: the capacity of drives and files by {}, the drives' speed by {} (every time is longer, every rate lower). Not scaled: jobs, depth, channels, \
             dies, planes, the host. Blocks of SSDs have fewer pages, so that there are enough of them, and a write buffer that holds a program unit for each die.",
            live.scale, live.slow_motion
        ),
        format!(
            "The block devices are files of a FUSE file system behind loop devices: each takes 128 requests at a time, so the other {} of a job's wait before it, \
             also those of the NVMe drive. In virtual time that drive takes all of them.",
            published::JOBS * published::DEPTH - 128
        ),
        "SAS SSD and disk are attached as the NVMe drive is: no request queue with one lock, no storage controller, no write cache. They compare with those of \
         virtual time on a PERC H330."
            .into(),
        match options.quick {
            true => "SSDs were not overwritten before, and virtual time is left out.".into(),
            false => "SSDs were written once and overwritten at random before the files came.".to_owned(),
        },
        "Data that fio wrote at random was read back and compared with its checksums on every file system (verified_KiB).".into(),
    ];
    if results.host_was_bottleneck() {
        notes.push(results.host_verdict());
    }
    notes
}

/// The page.
pub(super) fn report<'a>(results: &'a Results, live: &Live) -> Report<'a> {
    let headline = |filesystem: &'static str| {
        let (sas, _) = gains(results, filesystem)?;
        Some(Headline {
            label: format!("random reads on {filesystem}, NVMe over SAS SSD"),
            value: format!("{sas:.1}x"),
            detail: "published 400 %: 4 or 5 times".into(),
        })
    };
    Report {
        title: "NVMe, SAS SSD and hard disk, with real file systems".into(),
        question: "How many requests of 4 KiB does fio get from ext4 and XFS on an NVMe drive, a SAS SSD and a hard disk?".into(),
        answer: answer(results, live),
        headlines: filesystems(live).into_iter().filter_map(headline).collect(),
        results,
        sections: sections(results, live),
    }
}
