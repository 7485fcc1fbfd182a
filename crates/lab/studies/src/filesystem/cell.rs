//! One job on one drive.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use live::Config;
use sim::{Contents, Precondition};
use toml::Table;

use super::{
    options::Options,
    published,
    setup::{Kind, Setup},
};
use lab_engines::{
    machine::{Attachment, Drives, HostPath, play},
    sim::Cache,
};
use lab_report::{
    control::Control,
    figure::{show, show_size},
    pieces::Piece,
    results::{Point, Run, seed_of},
};

/// Bytes of a shortened SSD, as `tranche profile check` has them.
const MIN_SSD_BYTES: u64 = 32 << 30;

/// What a job does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Job {
    RandomRead,
    RandomWrite,
    SequentialRead,
    SequentialWrite,
}

impl Job {
    pub(super) const ALL: [Self; 4] =
        [Self::RandomRead, Self::RandomWrite, Self::SequentialRead, Self::SequentialWrite];

    /// fio's name of it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::RandomRead => "randread",
            Self::RandomWrite => "randwrite",
            Self::SequentialRead => "read",
            Self::SequentialWrite => "write",
        }
    }

    /// Whether it writes.
    pub(super) fn writes(self) -> bool {
        matches!(self, Self::RandomWrite | Self::SequentialWrite)
    }

    /// The name of one of its figures.
    pub(super) fn metric(self, figure: &str) -> String {
        format!("{}_{figure}", self.name())
    }
}

/// A job on a drive, with what the host takes.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    pub setup: Setup,
    pub job: Job,
    pub path: HostPath,
    /// Which of the host's times differs.
    pub at: Point,
    pub repetition: u32,
}

/// The TOML of the drives.
pub(super) struct DriveTables {
    pub nvme: Table,
    pub sas: Table,
    pub disk: Table,
}

/// Measured seconds of a cell.
fn seconds(options: &Options, kind: Kind) -> f64 {
    match (kind, options.quick) {
        (Kind::Disk, true) => 4.0,
        (Kind::Disk, false) => 60.0,
        (_, true) => 0.05,
        (_, false) => 1.0,
    }
}

impl DriveTables {
    fn of(&self, kind: Kind) -> &Table {
        match kind {
            Kind::Nvme => &self.nvme,
            Kind::Sas => &self.sas,
            Kind::Disk => &self.disk,
        }
    }

    /// The drive, and the bytes of each job's file on it. SSDs have short blocks, and the files are smaller in proportion. A disk has its size.
    fn config(&self, options: &Options, kind: Kind) -> Result<(Config, u64)> {
        let config = Config::from_toml(&toml::to_string(self.of(kind))?)?;
        let first = |config: &Config| config.namespaces.first().map_or(0, |namespace| namespace.bytes);
        let whole = first(&config);
        let short = if options.full || kind == Kind::Disk { None } else { config.shortened(MIN_SSD_BYTES) };
        let config = short.unwrap_or(config);
        let file = u128::from(published::FILE) * u128::from(first(&config)) / u128::from(whole.max(1));
        let file = file as u64 / (1 << 20) * (1 << 20);
        if file == 0 || file * u64::from(published::JOBS) > first(&config) {
            bail!(
                "its first namespace has {}, less than {} files of {}",
                show_size(whole),
                published::JOBS,
                show_size(published::FILE)
            );
        }
        Ok((config, file))
    }

    /// # Errors
    /// One of them is no drive, or the files do not fit on it.
    pub(super) fn check(&self, options: &Options) -> Result<()> {
        for (kind, name) in
            [(Kind::Nvme, &options.nvme), (Kind::Sas, &options.sas), (Kind::Disk, &options.disk)]
        {
            self.config(options, kind).with_context(|| format!("the drive {name}"))?;
        }
        Ok(())
    }
}

/// What the cells of a study share: drives that are prepared once are in the cache.
pub(super) type Shared<'a> = (&'a Options, DriveTables, Cache);

impl Piece<Shared<'_>> for Cell {
    fn variant(&self) -> (String, String) {
        (self.setup.name.to_owned(), self.setup.about.to_owned())
    }

    fn name(&self) -> String {
        let at = self.at.iter().map(|(name, value)| format!(", {name} {value}")).collect::<String>();
        format!("{} {}{at}", self.setup.name, self.job.name())
    }

    fn run(&self, (options, tables, cache): &Shared<'_>, control: &Control) -> Result<Vec<Run>> {
        Ok(vec![Run {
            at: self.at.clone(),
            repetition: self.repetition,
            seconds: seconds(options, self.setup.kind),
            metrics: self.metrics(options, tables, cache, control)?,
            ..Run::default()
        }])
    }

    fn summary(&self, runs: &[Run]) -> String {
        let rates = runs.iter().filter_map(|run| run.metrics.get(&self.job.metric("iops")));
        rates.map(|iops| format!("{} IOPS", show(*iops))).collect()
    }
}

impl Cell {
    /// The printed job. Files lie side by side. A first part is not counted.
    fn text(&self, options: &Options, file: u64) -> String {
        let seconds = seconds(options, self.setup.kind);
        let micros = |seconds: f64| format!("{}us", (seconds * 1e6) as u64);
        // A write cache fills at first.
        let fills = self.job.writes() && self.setup.controller.is_some();
        let ramp = if fills { seconds * 4.0 } else { seconds / 4.0 };
        format!(
            "[files]\nrw={}\nbs=4k\niodepth={}\nnumjobs={}\nsize={file}\noffset_increment={file}\nnorandommap=1\ntime_based=1\nruntime={}\n\
             ramp_time={}\nrandrepeat=1\n",
            self.job.name(),
            published::DEPTH,
            published::JOBS,
            micros(seconds),
            micros(ramp),
        )
    }

    /// Its figures.
    pub(super) fn metrics(
        &self,
        options: &Options,
        tables: &DriveTables,
        cache: &Cache,
        control: &Control,
    ) -> Result<BTreeMap<String, f64>> {
        control.check()?;
        let seed = seed_of(options.seed, self.repetition);
        let (config, file) = tables.config(options, self.setup.kind)?;
        let how = match (self.setup.kind, self.job) {
            (Kind::Disk, _) => Precondition::None,
            (_, Job::RandomWrite) => Precondition::Steady,
            _ => Precondition::Fill,
        };
        let cancel = control.cancel().clone();
        let (sim, _) = cache.drive(config, Contents::None, how, seed, &mut |_| !cancel.is_cancelled())?;
        let drives = Drives::with(self.path, sim);
        let attachment = self.setup.controller.map_or(Attachment::Nvme, Attachment::Sas);
        let device = drives.device(0, attachment)?;
        let played = play(&drives, device, &self.text(options, file), seed, control, |_| false)?;
        let direction = usize::from(self.job.writes());
        let moved = played.traffic[direction];
        let real = |nanos: u64| std::time::Duration::from_nanos(nanos).as_secs_f64() * 1e6;
        #[expect(clippy::cast_precision_loss, reason = "for reading")]
        let iops = moved.ios as f64 * 1e9 / (moved.nanos.max(1) as f64);
        // All requests of the jobs, over their rate: with the time in which they wait for the request queue.
        let whole = f64::from(published::JOBS * published::DEPTH) * 1e6 / iops.max(1.0);
        let figures = [
            ("iops", iops),
            ("job_us", whole),
            ("mean_us", moved.mean / 1e3),
            ("p99_us", real(moved.p99)),
            ("p999_us", real(moved.p999)),
        ];
        Ok(figures.into_iter().map(|(name, value)| (self.job.metric(name), value)).collect())
    }
}
