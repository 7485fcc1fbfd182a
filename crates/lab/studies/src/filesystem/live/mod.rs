//! The study with the real fio on real file systems: ext4 and XFS on block devices of scaled drives in slow motion.
//!
//! Direct I/O asks the drive; the same requests without it ask the page cache, as the published IOzone did.

mod drives;
mod fio;
mod report;

use std::{
    collections::BTreeMap,
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

use self::fio::{Fio, Found, Span};
use super::{
    cell::{Cell, DriveTables, Job},
    options::{Live, Options},
    published,
    setup::{Kind, SETUPS},
};
use crate::StudyDrive;
use lab_databases::{
    drive::Program,
    mounted_drive::{self, BaseImage, MountedDrive, discard},
    process::missing,
    scratch::{self, Scratch},
};
use lab_engines::sim::{Cache, usual_cache};
use lab_report::{
    Findings,
    control::{Control, Progress},
    figure::show,
    parallel,
    pieces::Piece,
    profile,
    report::publish,
    results::{self, Comparison, Point, Published, Results, Run, Variant, compare_pairs, seed_of},
};

/// Order of the buffered runs: the file is written before it is read, as IOzone does it.
const BUFFERED_JOBS: [Job; 4] =
    [Job::SequentialWrite, Job::SequentialRead, Job::RandomRead, Job::RandomWrite];

/// Why the study cannot run live here; `None` if it can, as far as can be seen without trying.
fn obstacle() -> Option<String> {
    let programs = [("fio", fio::PACKAGE), ("mkfs.ext4", "e2fsprogs"), ("mkfs.xfs", "xfsprogs")];
    mounted_drive::obstacle()
        .or_else(|| programs.into_iter().find_map(|(program, package)| missing(program, package)))
}

/// Runs the study and writes its results.
///
/// # Errors
/// When something that it needs is missing, says what and where to get it; when fio or a drive fails, with the end of their logs. Nothing is left mounted
/// or running.
pub(super) fn run(options: &Options, control: &Control) -> Result<Findings<Results>> {
    let live = &options.real;
    live.check()?;
    if let Some(why) = obstacle() {
        bail!("the study cannot run live here: {why}");
    }
    let program = Program::find_or_this()?;
    results::directory(options.out.path())?;
    // Two copies of the largest drive, and all that is prepared.
    let parent = live.scratch.clone().map_or_else(|| scratch::default_parent(6 << 30), Ok)?;
    let scratch = Scratch::new(&parent, control.cancel())?;
    let study = Study { options, live, program, scratch, control };
    let results = study.scratch.keep_logs(study.run(), &options.out.path().join("logs"))?;
    publish(results, options.out.path(), false, |results| report::report(results, live))
}

/// What the runs share.
struct Study<'a> {
    options: &'a Options,
    live: &'a Live,
    program: Program,
    scratch: Scratch,
    control: &'a Control,
}

/// A mounted file system of a drive.
struct Place {
    kind: Kind,
    variant: usize,
    name: String,
    mount: PathBuf,
    repetition: u32,
}

impl Study<'_> {
    fn run(&self) -> Result<Results> {
        let (options, live) = (self.options, self.live);
        let tables = drives::KINDS.map(|kind| drives::table(options, live, kind));
        let tables: Vec<_> = tables.into_iter().collect::<Result<_>>()?;
        let each = live.filesystems.len() as u64 * (Job::ALL.len() as u64 + 2) * u64::from(options.repeat);
        let mut progress = Progress::new(self.control, drives::KINDS.len() as u64 * (1 + each));
        let mut bases = Vec::new();
        for (kind, table) in drives::KINDS.into_iter().zip(&tables) {
            progress.begin(&format!("preparing {}", drives::name(kind)));
            let start = Instant::now();
            let base = self.prepare(kind, table, &mut |detail| progress.detail(detail));
            bases.push(base.with_context(|| format!("preparing {}", drives::name(kind)))?);
            progress.end(&format!("{} s", start.elapsed().as_secs()));
        }
        let mut variants = self.variants();
        for repetition in 0..options.repeat {
            for (kind, base) in drives::KINDS.into_iter().zip(&bases) {
                let runs = self.repetition(base, kind, repetition, &mut progress);
                let runs =
                    runs.with_context(|| format!("{}, repetition {}", drives::name(kind), repetition + 1))?;
                for (variant, run) in runs {
                    variants[variant].runs.push(run);
                }
            }
        }
        drop(progress);
        if !options.quick {
            self.control.note("the same drives as published, in virtual time");
            variants.extend(self.in_virtual_time()?);
        }
        let named: BTreeMap<_, _> = drives::KINDS.map(drives::name).into_iter().zip(&tables).collect();
        let mut results = Results {
            drive: serde_json::json!(StudyDrive {
                nvme: Some(&options.nvme),
                sas: Some(&options.sas),
                disk: Some(&options.disk),
                scale: Some(live.scale),
                slow_motion: Some(live.slow_motion),
                tomls: Some(named),
                ..StudyDrive::default()
            }),
            comparisons: comparisons(&variants, live),
            variants,
            ..Results::empty("filesystem", "live", options.seed, vec!["fio".into()])
        };
        results.note(report::notes(&results, options, live), options.quick);
        Ok(results)
    }

    /// A variant for each drive and file system, without runs.
    fn variants(&self) -> Vec<Variant> {
        let of = |kind| {
            self.live.filesystems.iter().map(move |&filesystem| Variant {
                name: format!("{}-{}", drives::name(kind), filesystem.name()),
                description: format!(
                    "{} on {}, in slow motion.",
                    filesystem.name(),
                    match kind {
                        Kind::Nvme => "the NVMe drive",
                        Kind::Sas => "the SAS SSD",
                        Kind::Disk => "the hard disk",
                    }
                ),
                runs: Vec::new(),
            })
        };
        drives::KINDS.into_iter().flat_map(of).collect()
    }

    /// Makes a drive with its file systems and the files of the jobs.
    fn prepare(&self, kind: Kind, table: &toml::Table, progress: &mut dyn FnMut(&str)) -> Result<BaseImage> {
        let layout = drives::layout(self.live, self.options.quick, kind, table, &self.scratch)?;
        let fio = Fio::new(&self.scratch)?;
        BaseImage::make(&self.scratch, &self.program, &layout, progress, |mounted, progress| {
            for volume in mounted.volumes() {
                progress(&format!("writing the files on {}", volume.name));
                let mount = volume.mount.as_ref().context("a file system is not mounted")?;
                fio.lay_out(mount, drives::file(self.live))?;
            }
            Ok(())
        })
    }

    /// All jobs on a fresh copy of a prepared drive: the runs by their variants.
    fn repetition(
        &self,
        base: &BaseImage,
        kind: Kind,
        repetition: u32,
        progress: &mut Progress,
    ) -> Result<Vec<(usize, Run)>> {
        const NAME: &str = "run";
        let mut mounted = base.open(&self.scratch, &self.program, NAME, &toml::Table::new())?;
        let first =
            drives::KINDS.iter().position(|of| *of == kind).unwrap_or(0) * self.live.filesystems.len();
        let mounts: Vec<PathBuf> =
            mounted.volumes().iter().filter_map(|volume| volume.mount.clone()).collect();
        let names: Vec<String> = self.variants().into_iter().map(|variant| variant.name).collect();
        let mut runs = Vec::new();
        for (number, mount) in mounts.into_iter().enumerate() {
            let name = names[first + number].clone();
            let place = Place { kind, variant: first + number, name, mount, repetition };
            self.place(&mut mounted, &place, progress, &mut runs)?;
        }
        mounted.close()?;
        discard(&self.scratch, NAME)?;
        Ok(runs)
    }

    /// All jobs on a file system.
    fn place(
        &self,
        mounted: &mut MountedDrive,
        place: &Place,
        progress: &mut Progress,
        runs: &mut Vec<(usize, Run)>,
    ) -> Result<()> {
        let (name, repetition) = (place.name.clone(), place.repetition);
        for job in Job::ALL {
            progress.begin(&format!("{name} {}, repetition {}", job.name(), repetition + 1));
            let run = self.direct(mounted, place, job)?;
            let of = |figure: &str| show(run.metrics.get(&job.metric(figure)).copied().unwrap_or_default());
            progress.end(&format!("{} IOPS, {} in the drive's time", of("wall_iops"), of("iops")));
            runs.push((place.variant, run));
        }
        progress.begin(&format!("{name}, page cache, repetition {}", repetition + 1));
        let run = self.buffered(mounted, place)?;
        progress.end("");
        runs.push((place.variant, run));
        progress.begin(&format!("{name}, verifying, repetition {}", repetition + 1));
        let run = self.verified(place)?;
        progress.end(&format!("{} KiB", show(run.metrics.values().sum())));
        runs.push((place.variant, run));
        Ok(())
    }

    /// The measured time, and that before.
    fn span(&self, kind: Kind) -> Span {
        let millis = match (kind, self.options.quick) {
            (Kind::Disk, true) => 3000,
            (_, true) => 800,
            (Kind::Disk, false) => u64::from(self.live.disk_seconds) * 1000,
            (_, false) => u64::from(self.live.seconds) * 1000,
        };
        Span { millis, ramp: millis / 4 }
    }

    /// The printed job with direct I/O.
    fn direct(&self, mounted: &mut MountedDrive, place: &Place, job: Job) -> Result<Run> {
        let fio = Fio::new(&self.scratch)?;
        let drive: Vec<_> = mounted.drive()?.id().map(|id| ("drive", id)).into_iter().collect();
        let (file, seed) = (drives::file(self.live), seed_of(self.options.seed, place.repetition));
        let span = self.span(place.kind);
        let (cpu, found) = fio.direct(&place.mount, (job, file), span, seed, &drive)?;
        let slow = f64::from(self.live.slow_motion);
        let metrics = [
            ("iops", Some(found.iops * slow)),
            ("wall_iops", Some(found.iops)),
            ("mean_us", Some(found.mean_us / slow)),
            ("p99_us", found.p99_us.map(|us| us / slow)),
            ("job_us", Some(found.job_us / slow)),
        ];
        let metrics =
            metrics.into_iter().filter_map(|(figure, value)| Some((job.metric(figure), value?))).collect();
        Ok(Run {
            repetition: place.repetition,
            seconds: seconds(span.millis),
            metrics,
            cpu,
            ..Run::default()
        })
    }

    /// The same requests without direct I/O, one job on one file. Nothing of it is in the drive's time.
    fn buffered(&self, mounted: &MountedDrive, place: &Place) -> Result<Run> {
        let fio = Fio::new(&self.scratch)?;
        let millis = if self.options.quick { 300 } else { 3000 };
        let mut metrics = BTreeMap::new();
        for job in BUFFERED_JOBS {
            let (file, seed) = (drives::file(self.live), seed_of(self.options.seed, place.repetition));
            let Found { iops, .. } = fio.buffered(&place.mount, (job, file), millis, seed)?;
            metrics.insert(format!("page_cache_{}_iops", job.name()), iops);
        }
        // What is dirty goes to the drive before something else is measured.
        mounted.sync()?;
        Ok(Run { repetition: place.repetition, seconds: seconds(millis), metrics, ..Run::default() })
    }

    /// Data comes back as it was written.
    fn verified(&self, place: &Place) -> Result<Run> {
        let fio = Fio::new(&self.scratch)?;
        let bytes = if place.kind == Kind::Disk { 128 << 10 } else { 4 << 20 };
        let start = Instant::now();
        let verified = fio.verify(&place.mount, bytes, seed_of(self.options.seed, place.repetition))?;
        if verified < bytes {
            bail!("fio has verified {verified} of {bytes} bytes");
        }
        #[expect(clippy::cast_precision_loss, reason = "for reading")]
        let metrics = BTreeMap::from([("verified_KiB".to_owned(), verified as f64 / 1024.0)]);
        let seconds = start.elapsed().as_secs_f64();
        Ok(Run { repetition: place.repetition, seconds, metrics, ..Run::default() })
    }

    /// The same jobs on the drives as published, in virtual time. SAS SSD and disk have no write cache before them, as here.
    fn in_virtual_time(&self) -> Result<Vec<Variant>> {
        let options = self.options;
        let drives = DriveTables {
            nvme: profile::table(&options.nvme)?,
            sas: profile::table(&options.sas)?,
            disk: profile::table(&options.disk)?,
        };
        let setups = ["nvme", "sas-ssd-h330", "hdd-h330"];
        let setups =
            setups.into_iter().filter_map(|name| SETUPS.into_iter().find(|setup| setup.name == name));
        let cell = |setup, job| Cell { setup, job, path: options.path, at: Point::new(), repetition: 0 };
        let cells: Vec<Cell> = setups.flat_map(|setup| Job::ALL.map(|job| cell(setup, job))).collect();
        let cache = Cache::new(usual_cache());
        let done =
            parallel::map(self.control, &cells, |cell| cell.metrics(options, &drives, &cache, self.control));
        let mut variants: Vec<Variant> = Vec::new();
        for (cell, metrics) in cells.iter().zip(done) {
            let run = Run { metrics: metrics.with_context(|| cell.name())?, ..Run::default() };
            let name = format!("virtual-{}", drives::name(cell.setup.kind));
            match variants.iter_mut().find(|variant| variant.name == name) {
                Some(variant) => variant.runs.push(run),
                None => variants.push(Variant {
                    name,
                    description: format!("In virtual time: {}", cell.setup.about),
                    runs: vec![run],
                }),
            }
        }
        Ok(variants)
    }
}

fn seconds(millis: u64) -> f64 {
    Duration::from_millis(millis).as_secs_f64()
}

fn comparisons(variants: &[Variant], live: &Live) -> Vec<Comparison> {
    let filesystems = live.filesystems.iter().map(|filesystem| ("", format!("-{}", filesystem.name())));
    let pairs: Vec<(String, String)> = filesystems
        .chain([("virtual-", String::new())])
        .flat_map(|(begin, end)| {
            let name = move |drive| format!("{begin}{drive}{end}");
            [("nvme", "sas-ssd"), ("nvme", "hdd"), ("sas-ssd", "hdd")]
                .map(|(of, over)| (name(of), name(over)))
        })
        .collect();
    let figures = ["iops", "mean_us", "p99_us"];
    let metrics: Vec<String> =
        Job::ALL.iter().flat_map(|job| figures.map(|figure| job.metric(figure))).collect();
    compare_pairs(variants, &pairs, &metrics, |row| {
        published::ratio(&row.metric, &row.of, &row.over).map(Published::ratio)
    })
}
