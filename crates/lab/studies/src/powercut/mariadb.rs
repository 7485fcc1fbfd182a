//! MariaDB and MySQL: InnoDB with a layout of its doublewrite buffer, or MyRocks on zones.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use mysql::{Conn, prelude::Queryable};

use super::{
    database::{Database, Placed, each_row},
    ledger::{Session, letter},
    pages,
};
use crate::layouts::{
    doublewrite::{layout, system_tablespace},
    zoned,
};
use lab_databases::{
    database::Instance,
    layout::Layout,
    mariadb::{
        self, Files, Server, SystemTablespace, Tuning, Vendor, check_pages, connect, rocksdb_logs,
        rocksdb_options,
    },
    mounted_drive::MountedDrive,
    scratch::Scratch,
};
use lab_models::innodb;
use lab_report::{control::Cancel, profile};

/// The storage engine of the tables.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Engine {
    /// InnoDB with a layout of its doublewrite buffer.
    InnoDb(innodb::Variant),
    /// MyRocks on a store on zones.
    Rocks,
}

impl Engine {
    /// Its name in SQL.
    fn name(self) -> &'static str {
        if self == Self::Rocks { "RocksDB" } else { "InnoDB" }
    }

    fn tuning(self) -> Tuning {
        let doublewrite = match self {
            Self::InnoDb(variant) => variant.doublewrite(),
            Self::Rocks => true,
        };
        let mut extra = Vec::new();
        if self == Self::Rocks {
            extra = rocksdb_options(16);
            // A write that the cut met may be in the log in part. The default, 1, takes that for damage and does not start. 0 forgives it at
            // the end of the log only.
            extra.push("--rocksdb-wal-recovery-mode=0".to_owned());
        }
        // The binary log would bring back what a storage engine has lost.
        let binlog = self != Self::Rocks;
        Tuning { buffer_pool_mib: 16, redo_mib: 64, doublewrite, binlog, extra, ..Tuning::default() }
    }

    /// Where the system tablespace goes.
    fn system(self, mounted: &MountedDrive) -> Result<SystemTablespace> {
        match self {
            Self::InnoDb(variant) => system_tablespace(variant, mounted),
            Self::Rocks => Ok(SystemTablespace::BesideData),
        }
    }
}

/// A server with a variant's settings.
pub(super) struct MariaDb<'a> {
    pub server: &'a Server,
    pub engine: Engine,
}

impl MariaDb<'_> {
    fn start(&self, scratch: &Scratch, files: &Files, tuning: &Tuning) -> Result<Instance> {
        mariadb::start(scratch, self.server, files, tuning, "db", Duration::from_secs(120))
    }
}

impl Database for MariaDb<'_> {
    fn layout(&self, drive: &str, media: &[String]) -> Result<Layout> {
        match self.engine {
            Engine::InnoDb(variant) => {
                let files = self.server.has_doublewrite_dir();
                layout(variant.family(), drive, media, &[variant], files)
            }
            Engine::Rocks if self.server.vendor != Vendor::MariaDb => bail!(
                "{} has no MyRocks plug-in as MariaDB has it: leave out the variant myrocks-zones",
                self.server.title
            ),
            // The drive of the study of zones.
            Engine::Rocks => {
                let name = zoned::DEFAULT_PROFILE;
                zoned::Variant::Zones.layout(name, &profile::table(name)?)
            }
        }
    }

    fn prepare(
        &self,
        mounted: &MountedDrive,
        scratch: &Scratch,
        connections: u32,
        progress: &mut dyn FnMut(&str),
    ) -> Result<()> {
        let files = files(mounted, SystemTablespace::BesideData)?;
        self.server.make_dir(&files.data)?;
        let doublewrite = self.server.prepares_doublewrite();
        let tuning = Tuning { buffer_pool_mib: 64, binlog: false, doublewrite, ..self.engine.tuning() };
        progress("installing the database");
        mariadb::install(self.server, &files, &tuning, scratch.cancel())?;
        let instance = self.start(scratch, &files, &tuning)?;
        progress("filling the tables");
        create(instance.socket(), self.engine.name(), connections, scratch.cancel())?;
        instance.stop()
    }

    fn place(&self, mounted: &MountedDrive) -> Result<Box<dyn Placed + '_>> {
        let files = files(mounted, self.engine.system(mounted)?)?;
        files.place_system_tablespace(self.server)?;
        Ok(Box::new(OnDrive { database: self, files }))
    }
}

fn files(mounted: &MountedDrive, system: SystemTablespace) -> Result<Files> {
    let mount = mounted.volume("data")?.mount.as_deref().context("the data's namespace is not mounted")?;
    Ok(Files { data: Path::new(mount).join("db"), system })
}

struct OnDrive<'a> {
    database: &'a MariaDb<'a>,
    files: Files,
}

impl Placed for OnDrive<'_> {
    fn start(&self, scratch: &Scratch) -> Result<Instance> {
        self.database.start(scratch, &self.files, &self.database.engine.tuning())
    }

    fn session(&self, socket: &Path) -> Result<Box<dyn Session>> {
        Ok(Box::new(connect(socket, "ledger")?))
    }

    fn torn_pages(&self) -> Result<u64> {
        pages::torn_pages(&self.files.data, self.database.server.vendor)
    }

    fn check_tables(&self, socket: &Path) -> Result<()> {
        check_tables(socket)
    }

    fn logs(&self) -> Vec<PathBuf> {
        match self.database.engine {
            Engine::InnoDb(_) => Vec::new(),
            Engine::Rocks => rocksdb_logs(&self.files),
        }
    }

    fn check_files(&self) -> Result<()> {
        check_pages(self.database.server, &self.files)
    }
}

/// Makes the tables, of a storage engine.
fn create(socket: &Path, engine: &str, connections: u32, cancel: &Cancel) -> Result<()> {
    connect(socket, "")?.query_drop("CREATE DATABASE ledger CHARACTER SET latin1")?;
    let mut conn = connect(socket, "ledger")?;
    conn.query_drop(format!(
        "CREATE TABLE entries (conn INT NOT NULL, seq BIGINT NOT NULL, note VARCHAR(100) NOT NULL, PRIMARY KEY (conn, seq))
         ENGINE={engine}"
    ))?;
    conn.query_drop(format!(
        "CREATE TABLE pages (conn INT NOT NULL, id INT NOT NULL, seq BIGINT NOT NULL, pad VARCHAR(1600) NOT NULL,
         PRIMARY KEY (id, conn)) ENGINE={engine}"
    ))?;
    let insert = conn.prep("INSERT INTO pages VALUES (?, ?, 0, REPEAT('a', 1500))")?;
    conn.query_drop("BEGIN")?;
    let row = |conn: &mut Conn, connection, id| Ok(conn.exec_drop(&insert, (connection, id))?);
    each_row(&mut conn, connections, cancel, row, |conn| {
        conn.query_drop("COMMIT")?;
        Ok(conn.query_drop("BEGIN")?)
    })
}

impl Session for Conn {
    fn write(&mut self, connection: u32, seq: u64, rows: &[u32]) -> Result<()> {
        self.query_drop("BEGIN")?;
        self.exec_drop(
            "INSERT INTO entries VALUES (?, ?, 'acknowledged when the client says so')",
            (connection, seq),
        )?;
        let letter = letter(seq);
        for row in rows {
            self.exec_drop(
                "UPDATE pages SET seq=?, pad=REPEAT(?, 1500) WHERE conn=? AND id=?",
                (seq, &letter, connection, row),
            )?;
        }
        Ok(self.query_drop("COMMIT")?)
    }

    fn entries(&mut self, connection: u32) -> Result<(u64, u64)> {
        let (last, count): (Option<u64>, u64) = self
            .exec_first("SELECT MAX(seq), COUNT(*) FROM entries WHERE conn=?", (connection,))?
            .context("no answer about the ledger")?;
        Ok((last.unwrap_or(0), count))
    }

    fn rows(&mut self, connection: u32) -> Result<Vec<(u32, u64)>> {
        Ok(self.exec("SELECT id, seq FROM pages WHERE conn=?", (connection,))?)
    }
}

/// `CHECK TABLE` of both tables.
fn check_tables(socket: &Path) -> Result<()> {
    let mut conn = connect(socket, "ledger")?;
    let rows: Vec<(String, String, String, String)> = conn.query("CHECK TABLE entries, pages EXTENDED")?;
    let bad: Vec<String> = rows
        .iter()
        .filter(|(_, _, kind, text)| {
            // MyRocks checks its blocks when it reads them, and has no check of its own.
            let unchecked = text.contains("doesn't support check");
            !unchecked && (kind == "error" || kind == "warning" || (kind == "status" && text != "OK"))
        })
        .map(|(table, _, kind, text)| format!("{table}: {kind}: {text}"))
        .collect();
    if bad.is_empty() { Ok(()) } else { bail!("CHECK TABLE: {}", bad.join("; ")) }
}
