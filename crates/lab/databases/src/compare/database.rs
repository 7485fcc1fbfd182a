//! The private server of a layout's `[database]`: made when the layout is prepared, started for each run.

use std::{collections::BTreeMap, path::Path, process::Command, sync::Arc, time::Duration};

use anyhow::{Context, Result};

use crate::{
    database::Instance,
    layout::{Database, Layout},
    mounted_drive::MountedDrive,
    postgresql::{self, Files, SUPERUSER, Server, Tuning, WalCounts, client_environment, count_wal},
    process::run_long,
    scratch::Scratch,
    tpcc,
};

/// What the rows of TPC-C are drawn from.
pub(super) const SEED: u64 = 1;

/// How long a server may take to start.
const START_TIMEOUT: Duration = Duration::from_secs(120);
const NAME: &str = "db";

fn files(mounted: &MountedDrive, database: &Database) -> Result<Files> {
    let place = |name: &str| -> Result<std::path::PathBuf> {
        let mount = mounted.volume(name)?.mount.as_ref();
        Ok(mount.with_context(|| format!("namespace {name} is not mounted"))?.clone())
    };
    // Not the file systems' own directories, in which there is more.
    let wal = database.wal.as_deref().map(|name| place(name).map(|mount| mount.join("pg_wal")));
    Ok(Files { data: place(&database.data)?.join("pgdata"), wal: wal.transpose()? })
}

/// Makes the database, and pgbench's tables if the layout wants them.
pub(super) fn prepare(
    server: &Server,
    database: &Database,
    mounted: &MountedDrive,
    scratch: &Scratch,
    progress: &mut dyn FnMut(&str),
) -> Result<()> {
    let (files, tuning) = (files(mounted, database)?, database.tuning()?);
    progress("installing the database");
    postgresql::install(server, &files, &tuning, scratch.cancel())?;
    if database.pgbench_scale == 0 && database.tpcc_warehouses == 0 {
        return Ok(());
    }
    let quick = [("fsync", "off"), ("full_page_writes", "off")].map(|(a, b)| (a.to_owned(), b.to_owned()));
    let tuning = Tuning { extra: tuning.extra.iter().cloned().chain(quick).collect(), ..tuning };
    let instance = postgresql::start(scratch, server, &files, &tuning, NAME, START_TIMEOUT)?;
    if database.pgbench_scale > 0 {
        progress("filling the tables of pgbench");
        let mut fill = Command::new("pgbench");
        client_environment(&mut fill, server, instance.socket(), SUPERUSER);
        fill.args(["--initialize", "--quiet", "--scale", &database.pgbench_scale.to_string()]);
        run_long(&mut fill, "postgresql", scratch.cancel()).context("filling the tables of pgbench")?;
    }
    if database.tpcc_warehouses > 0 {
        progress(&format!("loading {} warehouses", database.tpcc_warehouses));
        let at = tpcc::Database::PostgreSql(instance.socket().to_owned());
        tpcc::load(&at, database.tpcc_warehouses, SEED, &Arc::default(), scratch.cancel())?;
    }
    scratch.cancel().check()?;
    progress("shutting the database down");
    instance.stop()
}

/// The server of a run.
pub(super) struct Running<'a> {
    server: &'a Server,
    instance: Instance,
    before: WalCounts,
}

impl<'a> Running<'a> {
    /// Starts the server of a layout, where it has one.
    pub(super) fn start(
        server: Option<&'a Server>,
        layout: &Layout,
        mounted: &MountedDrive,
        scratch: &Scratch,
    ) -> Result<Option<Self>> {
        let (Some(database), Some(server)) = (&layout.database, server) else { return Ok(None) };
        let files = files(mounted, database)?;
        files.link_wal()?;
        let instance = postgresql::start(scratch, server, &files, &database.tuning()?, NAME, START_TIMEOUT)?;
        let before = count_wal(server, instance.socket())?;
        Ok(Some(Self { server, instance, before }))
    }

    /// Its process number.
    pub(super) fn id(&self) -> u32 {
        self.instance.id()
    }

    /// # Errors
    /// When it has died, with the end of its log.
    pub(super) fn check(&mut self) -> Result<()> {
        self.instance.check()
    }

    /// Tells the command where it is.
    pub(super) fn tell(&self, command: &mut Command) {
        client_environment(command, self.server, self.instance.socket(), SUPERUSER);
    }

    /// What it wrote so far does not count.
    pub(super) fn forget(&mut self) -> Result<()> {
        self.before = count_wal(self.server, self.instance.socket())?;
        Ok(())
    }

    /// Where TPC-C finds it.
    pub(super) fn at(&self) -> tpcc::Database {
        tpcc::Database::PostgreSql(self.instance.socket().to_owned())
    }

    /// What it wrote to its log since it started, and its figures.
    pub(super) fn metrics(&self) -> Result<BTreeMap<String, f64>> {
        let counts = count_wal(self.server, self.instance.socket())?.since(self.before);
        let figures = METRICS.iter().zip([counts.bytes, counts.full_pages, counts.checkpoints]);
        Ok(figures.map(|(metric, value)| (metric.0.to_owned(), value as f64)).collect())
    }

    /// Shuts it down cleanly; its log of messages is kept in `directory`.
    pub(super) fn stop(self, scratch: &Scratch, directory: &Path) -> Result<()> {
        self.instance.stop()?;
        let log = scratch.path().join(NAME).join("error.log");
        std::fs::rename(&log, directory.join("database.log"))
            .or_else(|_| std::fs::copy(&log, directory.join("database.log")).map(drop))
            .with_context(|| format!("keeping {}", log.display()))
    }
}

/// Figures of the server, with their units.
pub(super) const METRICS: [(&str, &str); 3] =
    [("wal_bytes", "bytes"), ("wal_full_pages", "pages"), ("checkpoints", "checkpoints")];
