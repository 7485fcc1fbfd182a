//! PostgreSQL: its configurations, and its model.

mod database;
mod effective_settings;
mod file;
mod layouts;
mod model;
mod names;
mod values;

use std::path::Path;

use anyhow::{Context, Result, anyhow};
use database_models::{innodb::Volume, postgresql::PAGE};

use self::{database::Database, file::Files};
use super::{
    database_model::{self, Configuration, Model, Row, Words},
    drive::Drive,
    installed_server,
    layouts::{Arrangement, Excluded, Layout, Plan},
    listing::content,
    load::Load,
    server::{Kind, Server},
};
use lab_databases::postgresql;
use lab_report::control::Cancel;

/// Reads a configuration. Without a server its directory and its data directory tell the release series, and then the server that is
/// installed. That is asked for its values, too, unless `ask` is none: else it is what ends the question.
///
/// # Errors
/// It cannot be read, or makes no sense; a value that matters cannot be read, with its place; the installed server does not start with it.
pub fn read(path: &Path, server: Option<Server>, ask: Option<&Cancel>) -> Result<Configuration> {
    let mut files = file::read(path)?;
    let installed = ask.map(postgresql::Server::installed).transpose()?.flatten();
    let (server, told_by) = match server {
        Some(server) => (server, "--server".to_owned()),
        None => detect(path, &files, installed.as_ref())?,
    };
    let mut database = Database::read(&files, server)?;
    let same = installed.filter(|installed| (installed.major, 0) == server.version);
    let title = same.as_ref().map(|installed| installed.title.as_str());
    let said = database.rows.iter().filter(|row| !row.default);
    let names: Vec<String> = said.map(|row| row.name.clone()).collect();
    let values_by =
        installed_server::take(&mut files.settings, server, title, ask, |settings, cancel| match &same {
            Some(installed) => effective_settings::settings(installed, settings, &names, cancel),
            None => Ok(None),
        })?;
    // The values may be others now.
    database = Database::read(&files, server)?;
    Ok(Configuration {
        server,
        told_by,
        values_by,
        files: files.settings.files,
        database: Box::new(database),
    })
}

/// The release series. The data directory tells it, else the name of a directory, as Debian has it, else the installed server.
fn detect(path: &Path, files: &Files, installed: Option<&postgresql::Server>) -> Result<(Server, String)> {
    let of = |series: &str| Some((series.trim().parse::<u32>().ok()?, 0));
    let mark = files.data.join("PG_VERSION");
    if let Ok(bytes) = content(&mark)
        && let Some(version) = of(&String::from_utf8_lossy(&bytes))
    {
        let told = mark.display().to_string();
        let server = Server::of(Kind::PostgreSql, version).map_err(|wrong| anyhow!("{told}: {wrong}"))?;
        return Ok((server, told));
    }
    let full = std::fs::canonicalize(path).with_context(|| format!("cannot read {}", path.display()))?;
    for place in [path, &full, &files.data] {
        let parts: Vec<_> = place.components().map(|part| part.as_os_str().to_string_lossy()).collect();
        for pair in parts.windows(2).filter(|pair| pair[0] == "postgresql" || pair[0] == "pgsql") {
            if let Some(server) = of(&pair[1]).and_then(|v| Server::of(Kind::PostgreSql, v).ok()) {
                return Ok((server, format!("the name of {}", place.display())));
            }
        }
    }
    let here =
        installed.and_then(|here| Some((Server::of(Kind::PostgreSql, (here.major, 0)).ok()?, &here.title)));
    Ok(match here {
        Some((server, title)) => (server, format!("the installed {title}")),
        None => {
            (Server::usual(Kind::PostgreSql), "its settings; nothing tells its release series".to_owned())
        }
    })
}

impl database_model::Database for Database {
    fn rows(&self) -> &[Row] {
        &self.rows
    }

    fn left_out(&self) -> &[String] {
        &self.left_out
    }

    fn pool(&self) -> u64 {
        self.shared_buffers
    }

    fn waits_at_commit(&self) -> bool {
        self.flush_at_commit
    }

    fn page(&self) -> u64 {
        PAGE
    }

    fn memory(&self) -> u64 {
        model::memory(self)
    }

    fn divisor(&self) -> u64 {
        model::divisor(self)
    }

    fn layouts(&self) -> &'static [Layout] {
        &layouts::ALL
    }

    fn plans(&self, drive: &Drive) -> Vec<Plan> {
        layouts::plans(self, drive)
    }

    fn excluded(&self, drive: &Drive) -> Vec<Excluded> {
        layouts::excluded(self, drive)
    }

    fn streams(
        &self,
        load: &Load,
        arrangement: Arrangement,
        volumes: [Volume; 2],
    ) -> Result<Vec<(u64, u64)>> {
        model::streams(self, load, arrangement, volumes)
    }

    fn moving(&self, directory: &str) -> Vec<String> {
        layouts::moving(self, directory).into()
    }

    fn model(
        &self,
        load: &Load,
        arrangement: Arrangement,
        volumes: [Volume; 2],
        seed: u64,
        cancel: &Cancel,
    ) -> Result<Box<dyn Model>> {
        model::new(self, load, arrangement, volumes, seed, cancel)
    }

    fn words(&self) -> Words {
        Words {
            model: "PostgreSQL",
            fitted: None,
            not_fitted: "The model of the server follows PostgreSQL's documentation and source. Only the bytes of its log are fitted, to one run of pgbench (docs/howto/postgresql.md). Its throughput is fitted to nothing: a gain is worth less than one of MySQL's model.",
            scaled: "shared_buffers, database, max_wal_size and checkpoint_timeout",
            not_modelled: "The page cache of the system, vacuum, hint bits, locks, replication and reading ahead are not modelled. Reads that a page cache would serve are reads of the drive here.",
            confirm: "tranche compare layouts/postgresql.toml layouts/postgresql-atomic.toml (docs/howto/postgresql.md)",
        }
    }
}

#[cfg(test)]
mod tests;
