//! Which server a configuration is of.

use std::path::Path;

use anyhow::{Context, Result, bail};

use super::{
    database_model::Configuration,
    innodb, listing, postgresql,
    server::{Kind, Server},
};
use lab_report::control::Cancel;

/// Reads a configuration. Without a server it tells its server: by its syntax, its groups and the names of its files. With `ask`, which ends
/// that, an installed server is asked for its values.
///
/// # Errors
/// It cannot be read, makes no sense, or is of another server; an installed server does not start with it.
pub fn read(path: &Path, server: Option<Server>, ask: Option<&Cancel>) -> Result<Configuration> {
    let postgresql = is_of_postgresql(path)?;
    match server {
        Some(server) if server.kind == Kind::PostgreSql => postgresql::read(path, Some(server), ask),
        None if postgresql => postgresql::read(path, None, ask),
        Some(server) if postgresql => {
            bail!("{} is a configuration of PostgreSQL, and --server says {server}", path.display())
        }
        _ => innodb::read(path, server, ask),
    }
}

/// Settings by which a configuration of PostgreSQL is known.
const OF_POSTGRESQL: [&str; 12] = [
    "shared_buffers",
    "full_page_writes",
    "wal_",
    "max_wal_size",
    "min_wal_size",
    "checkpoint_",
    "data_directory",
    "hba_file",
    "bgwriter_",
    "synchronous_commit",
    "max_wal_senders",
    "listen_addresses",
];

/// Whether a file is PostgreSQL's: its name says so, or it has settings of PostgreSQL without a group before them.
fn is_of_postgresql(path: &Path) -> Result<bool> {
    let named =
        path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with("postgresql"));
    let bytes = listing::content(path).with_context(|| "reading the configuration")?;
    let text = String::from_utf8_lossy(&bytes);
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(['#', ';']));
    let known = |line: &str| OF_POSTGRESQL.iter().any(|name| line.starts_with(name));
    Ok(named || lines.take_while(|line| !line.starts_with(['[', '!'])).any(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_of_postgresql_is_known() {
        let dir = tempfile::tempdir().unwrap();
        let told = |name: &str, text: &str, server: Option<&str>| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            read(&path, server.map(|server| server.parse().unwrap()), None)
                .map(|read| read.server.kind)
                .map_err(|error| error.to_string())
        };
        assert_eq!(told("postgresql.conf", "# nothing\n", None), Ok(Kind::PostgreSql));
        assert_eq!(told("x.conf", "port = 1\nmax_wal_size = 1GB\n", None), Ok(Kind::PostgreSql));
        assert_eq!(told("x.conf", "port = 1\n", Some("postgresql-16")), Ok(Kind::PostgreSql));
        assert_eq!(told("my.cnf", "[mysqld]\nwal_x = 1\n", None), Ok(Kind::MySql));
        let refused = told("x.conf", "shared_buffers = 1GB\n", Some("mysql")).unwrap_err();
        assert!(refused.contains("--server says MySQL 8.4"), "{refused}");
        assert!(told("my.cnf", "[mysqld]\na=1\n", Some("postgresql")).unwrap_err().contains("my.cnf:1: "));
    }
}
