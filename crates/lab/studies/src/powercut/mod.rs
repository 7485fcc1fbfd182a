//! `tranche study powercut`: the drive loses its power under a database's load, and the database must come back with
//! every transaction that it acknowledged.
//!
//! A round: a copy of the prepared drive is brought up; connections write and note what was acknowledged; at a random
//! moment the power is cut; the server is killed and the file systems are given up before the power returns, as a machine
//! without power writes nothing more; then the file system recovers, torn pages are counted in the files as they are, the
//! server recovers, and everything is checked.

mod database;
mod ledger;
mod mariadb;
mod pages;
mod postgresql;
mod variant;

use std::{
    fs,
    path::PathBuf,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

pub use self::variant::{Protection, Variant};
use self::{
    database::{Database, Placed},
    mariadb::{Engine, MariaDb},
    postgresql::PostgreSql,
};
use crate::layouts::doublewrite::DEFAULT_PROFILE;
use lab_databases::{
    database::Instance,
    drive::{Cut, Program},
    mounted_drive::{BaseImage, MountedDrive, discard, require_root},
    scratch::{self, Scratch},
    tpcc::Rng,
};
use lab_report::{
    Findings,
    control::{Control, Progress},
    options::{DefaultDirectory, ResultsDirectory, defaults},
    report::Table,
};

/// Options of `tranche study powercut`.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Rounds for each variant
    #[arg(long, default_value_t = 10, value_name = "N")]
    pub rounds: u32,
    /// Layouts to try; `off` and `postgres-torn` are expected to show torn pages, the others must lose nothing
    #[arg(long, value_delimiter = ',', default_value = "nand,dram,atomic,off", value_name = "NAME,…")]
    pub variants: Vec<Variant>,
    /// Connections that write
    #[arg(long, alias = "threads", default_value_t = 4, value_name = "N")]
    pub connections: u32,
    /// Seed of every cut and of the load [default: from the clock; it is printed]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Drive of InnoDB and PostgreSQL: a profile or a TOML file
    #[arg(long, alias = "profile", default_value = DEFAULT_PROFILE, value_name = "NAME|FILE")]
    pub drive: String,
    /// Database server, instead of the one installed: MariaDB, MySQL or Percona Server
    #[arg(long, value_name = "PATH")]
    pub mysqld: Option<PathBuf>,
    /// PostgreSQL's program postgres, instead of the newest one installed
    #[arg(long, value_name = "PATH")]
    pub postgres: Option<PathBuf>,
    /// Where results go.
    #[command(flatten)]
    pub out: ResultsDirectory<Self>,
    /// Directory for drive images and mount points meanwhile [default: /dev/shm when it has room, else /tmp]
    #[arg(long, value_name = "DIR")]
    pub scratch: Option<PathBuf>,
}

impl DefaultDirectory for Options {
    const DIRECTORY: &'static str = "out/powercut";
    const FILES: &'static str = "powercut.json";
}

impl Default for Options {
    fn default() -> Self {
        defaults()
    }
}

/// What the rounds of one variant found.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Counts {
    /// Its name.
    pub variant: String,
    /// Whether capacitors protect the buffer and DRAM.
    pub power_loss_protection: bool,
    /// Power cuts.
    pub rounds: u32,
    /// Transactions that were acknowledged.
    pub acknowledged: u64,
    /// Of these, lost.
    pub lost: u64,
    /// Rows with a wrong value.
    pub wrong_rows: u64,
    /// Pages with bad checksums before the server's recovery.
    pub torn_pages: u64,
    /// Rounds with such pages.
    pub rounds_torn: u32,
    /// Rounds after which the server did not start, or something was damaged.
    pub rounds_damaged: u32,
    /// What was wrong, with its round.
    pub failures: Vec<String>,
}

/// The campaign: also the content of powercut.json, without `results`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Campaign {
    /// The seed that repeats it.
    pub seed: u64,
    /// The database server.
    pub server: String,
    /// By layout.
    pub variants: Vec<Counts>,
}

impl Campaign {
    /// Whether nothing was lost where nothing may be.
    pub fn passed(&self) -> bool {
        let safe = self.variants.iter().filter(|c| Variant::is_safe(&c.variant));
        let clean = |c: &Counts| c.lost == 0 && c.wrong_rows == 0 && c.rounds_damaged == 0;
        safe.clone().all(clean) && safe.filter(|c| Variant::is_whole(&c.variant)).all(|c| c.torn_pages == 0)
    }

    fn table(&self) -> Table {
        let mut table = Table::new([
            "variant",
            "PLP",
            "rounds",
            "acknowledged",
            "lost",
            "wrong rows",
            "torn pages",
            "in rounds",
            "damaged rounds",
        ]);
        for c in &self.variants {
            table.rows.push(vec![
                c.variant.clone(),
                if c.power_loss_protection { "on" } else { "off" }.into(),
                c.rounds.to_string(),
                c.acknowledged.to_string(),
                c.lost.to_string(),
                c.wrong_rows.to_string(),
                c.torn_pages.to_string(),
                c.rounds_torn.to_string(),
                c.rounds_damaged.to_string(),
            ]);
        }
        table
    }
}

/// How long the power stays away: long enough to give everything above the drive up.
const OFF: Duration = Duration::from_millis(2_500);

/// Transactions that a load must have committed before the power is cut.
const COMMITS: u64 = 100;
/// How long that is waited for.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// Runs the campaign and writes `powercut.json`. It fails where a variant that must lose nothing did.
///
/// # Errors
/// When something is missing, or the drive or the server cannot be brought up: the message has the seed.
pub fn run(options: &Options, control: &Control) -> Result<Findings<Campaign>> {
    let options = &Options { out: options.out.free()?, ..options.clone() };
    run_on(options, &Program::find_or_this()?, control)
}

/// The same with a given program.
///
/// # Errors
/// Like [`run()`].
pub fn run_on(options: &Options, program: &Program, control: &Control) -> Result<Findings<Campaign>> {
    if options.rounds == 0 || options.connections == 0 || options.connections > 64 {
        lab_report::misuse!("--rounds must be at least 1 and --connections 1 to 64");
    }
    require_root()?;
    let servers = Servers::find(options)?;
    let seed = options.seed.unwrap_or_else(clock_seed);
    lab_report::results::directory(options.out.path())?;
    control.note(&format!("seed {seed}"));
    let parent = options.scratch.clone().map_or_else(|| scratch::default_parent(5 << 30), Ok)?;
    let scratch = Scratch::new(&parent, control.cancel())?;
    let variants = u64::try_from(options.variants.len())?;
    let mut progress = Progress::new(control, variants * (u64::from(options.rounds) + 1));
    let mut campaign = Campaign { seed, server: servers.title(), variants: Vec::new() };
    for &variant in &options.variants {
        let database = servers.of(variant)?;
        let field = Field { options, database: &*database, program, scratch: &scratch, variant };
        let counts = scratch.keep_logs(field.campaign(seed, &mut progress), &options.out.path().join("logs"));
        campaign.variants.push(counts.with_context(|| {
            format!("in variant {variant}; `--seed {seed} --variants {variant}` repeats it")
        })?);
    }
    drop(progress);
    let path = options.out.path().join("powercut.json");
    fs::write(&path, serde_json::to_string_pretty(&campaign)? + "\n")
        .with_context(|| format!("writing {}", path.display()))?;
    let mut text = campaign.table().text();
    text += &format!("\nseed {seed}, {}; details in {}", campaign.server, path.display());
    for counts in campaign.variants.iter().filter(|c| !c.failures.is_empty()) {
        text += &format!("\n{}: {}", counts.variant, counts.failures.join("\n  "));
    }
    let failure = (!campaign.passed()).then(|| {
        format!("a layout that must survive power cuts did not; `--seed {seed}` repeats the campaign")
    });
    Ok(Findings { results: campaign, written: Some(options.out.path().to_owned()), text, failure })
}

fn clock_seed() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::from(now.subsec_nanos()) ^ now.as_secs().rotate_left(20)
}

/// The servers that the variants of a campaign need.
struct Servers {
    mariadb: Option<lab_databases::mariadb::Server>,
    postgresql: Option<lab_databases::postgresql::Server>,
}

impl Servers {
    fn find(options: &Options) -> Result<Self> {
        let of_postgresql = |variant: &Variant| matches!(variant, Variant::PostgreSql(_));
        let mariadb = options.variants.iter().any(|variant| !of_postgresql(variant));
        let postgresql = options.variants.iter().any(of_postgresql);
        Ok(Self {
            mariadb: mariadb
                .then(|| lab_databases::mariadb::Server::find(options.mysqld.as_deref()))
                .transpose()?,
            postgresql: postgresql
                .then(|| lab_databases::postgresql::Server::find(options.postgres.as_deref()))
                .transpose()?,
        })
    }

    /// Their names and versions.
    fn title(&self) -> String {
        let mariadb = self.mariadb.iter().map(|server| &*server.title);
        mariadb.chain(self.postgresql.iter().map(|server| &*server.title)).collect::<Vec<_>>().join(", ")
    }

    /// That of a variant, with its settings.
    fn of(&self, variant: Variant) -> Result<Box<dyn Database + '_>> {
        let mariadb = |engine| {
            let server = self.mariadb.as_ref().context("no server of MariaDB or MySQL was looked for")?;
            Ok(Box::new(MariaDb { server, engine }) as Box<dyn Database>)
        };
        match variant {
            Variant::InnoDb(variant) => mariadb(Engine::InnoDb(variant)),
            Variant::Rocks => mariadb(Engine::Rocks),
            Variant::PostgreSql(protection) => {
                let server = self.postgresql.as_ref().context("no server of PostgreSQL was looked for")?;
                Ok(Box::new(PostgreSql { server, protection }))
            }
        }
    }
}

/// A variant with what its rounds share.
struct Field<'a> {
    options: &'a Options,
    database: &'a dyn Database,
    program: &'a Program,
    scratch: &'a Scratch,
    variant: Variant,
}

impl Field<'_> {
    fn campaign(&self, seed: u64, progress: &mut Progress) -> Result<Counts> {
        let variant = self.variant;
        progress.begin(&format!("{variant}: preparing"));
        let base = self.prepare(progress)?;
        progress.end("");
        let mut counts = Counts {
            variant: variant.name().into(),
            power_loss_protection: variant.is_protected(),
            ..Counts::default()
        };
        for round in 0..self.options.rounds {
            progress.begin(&format!("{variant}: power cut {}", round + 1));
            let mut rng = Rng::new(seed, variant.number() << 32 | u64::from(round));
            let mut attempts = 0;
            // Giving everything up may, on a busy machine, take longer than the power was away: that proves nothing.
            while !self
                .round(&base, &mut rng, round, &mut counts)
                .with_context(|| format!("in round {}", round + 1))?
            {
                attempts += 1;
                if attempts == 5 {
                    bail!(
                        "the machine is too slow: file systems took longer than {} s to give up",
                        OFF.as_secs_f32()
                    );
                }
            }
            progress.end(&format!(
                "{} torn pages, {} damaged rounds so far",
                counts.torn_pages, counts.rounds_damaged
            ));
        }
        Ok(counts)
    }

    fn prepare(&self, progress: &mut Progress) -> Result<BaseImage> {
        let options = self.options;
        let media = self.program.media(&options.drive)?;
        let mut layout = self.database.layout(&options.drive, &media)?;
        self.variant.finish(&mut layout);
        BaseImage::make(
            self.scratch,
            self.program,
            &layout,
            &mut |d| progress.detail(d),
            |mounted, progress| self.database.prepare(mounted, self.scratch, options.connections, progress),
        )
    }

    /// One power cut. False when the round does not count.
    fn round(&self, base: &BaseImage, rng: &mut Rng, round: u32, counts: &mut Counts) -> Result<bool> {
        const NAME: &str = "run";
        let mut mounted = base.open(self.scratch, self.program, NAME, &toml::Table::new())?;
        let place = self.database.place(&mounted)?;
        let instance = place.start(self.scratch)?;
        // MySQL makes its doublewrite files at the first start and never syncs them: their length and their blocks are in nothing but
        // the file system's memory for up to 30 seconds. A cut within that time loses pages on every drive (`docs/studies/doublewrite.md`).
        mounted.sync()?;

        let stop = AtomicBool::new(false);
        let commits = AtomicU64::new(0);
        let seed = rng.next_u64();
        let run = Duration::from_millis(rng.uniform(600, 3_000).into());
        let cut = Cut {
            // Most cuts hit the media in the middle of an operation, the others fall on a moment of the clock.
            after_media_ops: if rng.percent(75) { rng.uniform(1, 200) } else { 0 },
            off: OFF,
            seed: rng.uniform(1, u32::MAX),
            without_protection: false,
        };
        let socket = instance.socket().to_owned();
        let before = mounted.drive()?.power_cycles()?;
        let (histories, in_time) = thread::scope(|scope| {
            let load = scope.spawn(|| {
                ledger::run(&|| place.session(&socket), self.options.connections, seed, &stop, &commits)
            });
            let result = self.cut(&mut mounted, instance, &cut, run, &commits);
            stop.store(true, Ordering::Relaxed);
            let histories = load.join().unwrap_or_else(|_| Err(anyhow!("the load panicked")));
            let in_time = result?;
            Ok::<_, anyhow::Error>((histories?, in_time))
        })?;
        mounted.power_is_back()?;
        // A cut that is still to come would meet the recovery, and look like damage.
        if !in_time || mounted.drive()?.power_cycles()? == before {
            mounted.close()?;
            discard(self.scratch, NAME)?;
            return Ok(false);
        }
        counts.rounds += 1;
        mounted.mount(self.scratch, base.layout()).context("mounting after the power cut")?;
        let torn = place.torn_pages()?;
        counts.torn_pages += torn;
        counts.rounds_torn += u32::from(torn > 0);
        let acknowledged = commits.load(Ordering::Relaxed);
        let logs = self.options.out.path().join("logs").join(format!("{}-{}", self.variant, round + 1));
        match self.scratch.keep_logs(self.recover(&*place, &histories), &logs) {
            Ok(verdict) => {
                counts.acknowledged += verdict.acknowledged;
                counts.lost += verdict.lost;
                counts.wrong_rows += verdict.wrong_rows;
                if verdict.lost + verdict.wrong_rows > 0 {
                    counts.failures.push(format!(
                        "round {}: {} of {} acknowledged transactions lost, {} wrong rows",
                        round + 1,
                        verdict.lost,
                        verdict.acknowledged,
                        verdict.wrong_rows
                    ));
                }
            }
            Err(error) => {
                self.scratch.cancel().check()?;
                counts.acknowledged += acknowledged;
                counts.rounds_damaged += 1;
                counts.failures.push(format!("round {}: {error:#}", round + 1));
            }
        }
        mounted.close()?;
        discard(self.scratch, NAME)?;
        Ok(true)
    }

    /// Lets the load run, cuts the power and gives everything above the drive up. False when that took longer than the
    /// power was away, or the cut has not come.
    fn cut(
        &self,
        mounted: &mut MountedDrive,
        mut instance: Instance,
        cut: &Cut,
        run: Duration,
        commits: &AtomicU64,
    ) -> Result<bool> {
        self.scratch.cancel().sleep(run)?;
        // On a busy machine the load may have hardly begun by then.
        let patience = Instant::now() + START_TIMEOUT;
        while commits.load(Ordering::Relaxed) < COMMITS && Instant::now() < patience {
            self.scratch.cancel().sleep(Duration::from_millis(50))?;
        }
        instance.check()?;
        mounted.drive()?.cut_power(cut)?;
        let mut start = Instant::now();
        // A cut after so many media operations comes with the load's next writes.
        let deadline = start + Duration::from_secs(1);
        while cut.after_media_ops > 0 && Instant::now() < deadline && mounted.drive()?.powered()? {
            start = Instant::now();
        }
        let gone = !mounted.drive()?.powered()?;
        instance.kill();
        mounted.abandon()?;
        Ok(gone && start.elapsed() < OFF)
    }

    /// Starts the server, which recovers, and checks everything. Of a failure, what the server logged on the drive is kept, too.
    fn recover(&self, place: &dyn Placed, histories: &[ledger::History]) -> Result<ledger::Verdict> {
        let verdict = self.recovered(place, histories);
        if verdict.is_err() {
            place.logs().iter().for_each(|log| self.scratch.keep_log(log));
        }
        verdict
    }

    fn recovered(&self, place: &dyn Placed, histories: &[ledger::History]) -> Result<ledger::Verdict> {
        let instance = place.start(self.scratch).context("the server did not recover")?;
        let verdict = ledger::verify(&mut *place.session(instance.socket())?, histories)?;
        place.check_tables(instance.socket())?;
        instance.stop().context("stopping the recovered server")?;
        place.check_files()?;
        Ok(verdict)
    }
}
