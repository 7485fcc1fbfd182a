//! MySQL, Percona Server and MariaDB: their configurations, and the model of InnoDB.

mod database;
mod effective_settings;
mod groups;
mod layouts;
mod model;
mod names;
mod option_file;
mod persisted;
mod values;

use std::path::Path;

use anyhow::Result;
use database_models::innodb::{PAGE, Volume};

use self::database::Database;
use super::{
    database_model::{self, Configuration, Model, Row, Words},
    drive::Drive,
    installed_server,
    layouts::{Arrangement, Excluded, Layout, Plan},
    load::Load,
    server::{Kind, Server},
};
use lab_databases::mariadb;
use lab_report::control::Cancel;

/// Reads a configuration. Without a server its groups and file names tell, and then the server that is installed. That is asked for its
/// values, too, unless `ask` is none: else it is what ends the question.
///
/// # Errors
/// It cannot be read, makes no sense, or has nothing for a server; a value that matters cannot be read, with its place; the installed
/// server does not start with it.
pub fn read(path: &Path, server: Option<Server>, ask: Option<&Cancel>) -> Result<Configuration> {
    let installed = ask.map(mariadb::Server::installed).transpose()?.unwrap_or_default();
    let mut read = groups::read(path, server, &installed)?;
    if read.server.kind == Kind::MySql {
        persisted::add(&mut read.settings, path)?;
    }
    let same = installed.iter().find(|installed| groups::server_of(installed) == read.server);
    let title = same.map(|installed| installed.title.as_str());
    let values_by =
        installed_server::take(&mut read.settings, read.server, title, ask, |settings, cancel| match same {
            Some(installed) => effective_settings::settings(installed, settings, cancel),
            None => Ok(None),
        })?;
    let database = Database::read(&read.settings, read.server)?;
    Ok(Configuration {
        server: read.server,
        told_by: read.told_by,
        values_by,
        files: read.settings.files,
        database: Box::new(database),
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
        self.pool
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
        layouts::moving(self, directory)
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
            model: "InnoDB",
            fitted: Some(
                "The model was fitted to published results of Percona Server 8.0.15 under tpcc-mysql on this drive (docs/studies/doublewrite.md says which values). With other servers, loads and settings it is not fitted to anything.",
            ),
            not_fitted: "The model of the server was fitted to published results on another drive (docs/studies/doublewrite.md). This drive has its own figures, and the two together are fitted to nothing.",
            scaled: "Buffer pool, database and redo log",
            not_modelled: "Locks, the change buffer, purge and reading ahead are not modelled.",
            confirm: "tranche study doublewrite --live",
        }
    }
}

#[cfg(test)]
mod tests;
