//! Which groups of an option file a server reads, and which server a configuration is of.

use std::path::Path;

use anyhow::{Result, bail};

use super::option_file;
use crate::{
    server::{Kind, Server},
    settings::Settings,
};
use lab_databases::mariadb;

impl Server {
    /// Whether the doublewrite buffer is in files of its own, for which there is a directory (MySQL 8.0.20). Else it is in the system tablespace.
    pub fn has_doublewrite_files(self) -> bool {
        self.kind == Kind::MySql
    }

    /// Whether the server reads this group of an option file.
    pub fn reads(self, group: &str) -> bool {
        let (name, version) = parts(group);
        let known = matches!(
            (self.kind, name, version),
            (_, "server", None)
                | (_, "mysqld", _)
                | (Kind::MariaDb, "mariadb" | "mariadbd", _)
                | (Kind::MariaDb, "galera" | "client-server", None)
        );
        let (major, minor) = self.version;
        known && version.is_none_or(|version| version == format!("{major}.{minor}"))
    }
}

/// A configuration with the server that it is of.
#[derive(Clone, Debug)]
pub struct Read {
    /// The server.
    pub server: Server,
    /// How it was told.
    pub told_by: String,
    /// The settings that it reads.
    pub settings: Settings,
}

/// The server whose defaults an installed one has.
pub fn server_of(installed: &mariadb::Server) -> Server {
    let kind = match installed.vendor {
        mariadb::Vendor::MariaDb => Kind::MariaDb,
        mariadb::Vendor::MySql => Kind::MySql,
    };
    Server { kind, version: (installed.version.0, installed.version.1) }
}

/// Reads a configuration. Without a server its groups and file names tell. What they do not tell is that of the installed server.
///
/// # Errors
/// It cannot be read, makes no sense, or has nothing for a server.
pub fn read(path: &Path, server: Option<Server>, installed: &[mariadb::Server]) -> Result<Read> {
    let all = option_file::read(path)?;
    let (server, told_by) = match server {
        Some(server) => (server, "--server".to_owned()),
        None => detect(&all, installed),
    };
    let settings = all.of_groups(|group| server.reads(group));
    if !all.all.iter().any(|setting| server.reads(&setting.group))
        && !all.all.is_empty()
        && settings.files.len() == 1
    {
        let groups: std::collections::BTreeSet<_> =
            all.all.iter().map(|setting| setting.group.as_str()).collect();
        let groups: Vec<_> = groups.into_iter().collect();
        bail!("{} has nothing for {server}: its groups are {}", path.display(), groups.join(", "));
    }
    Ok(Read { server, told_by, settings })
}

/// The name of a group, and the release series that it is for.
fn parts(group: &str) -> (&str, Option<&str>) {
    match group.rsplit_once('-') {
        Some((name, version)) if version.starts_with(|c: char| c.is_ascii_digit()) => (name, Some(version)),
        _ => (group, None),
    }
}

/// Whether no server but MariaDB, and no client but its own, reads a group.
fn only_mariadb(group: &str) -> bool {
    matches!(parts(group).0, "mariadb" | "mariadbd" | "galera" | "client-server" | "client-mariadb")
}

/// Whether no server but MySQL reads a group: MariaDB's series begin with 10.
fn only_mysql(group: &str) -> bool {
    let major = |version: &str| version.split('.').next().and_then(|major| major.parse::<u32>().ok());
    matches!(parts(group), ("mysqld", Some(version)) if major(version).is_some_and(|major| major < 10))
}

/// The server, by groups that only one has and by names of files.
fn detect(all: &Settings, installed: &[mariadb::Server]) -> (Server, String) {
    let of = |kind: Kind| {
        let here = installed.iter().map(server_of).find(|server| server.kind == kind);
        here.unwrap_or_else(|| Server::usual(kind))
    };
    if let Some(setting) = all.all.iter().find(|setting| only_mariadb(&setting.group)) {
        return (of(Kind::MariaDb), format!("the group [{}] in {}", setting.group, setting.place()));
    }
    let named =
        |name: &str| all.files.iter().find(|file| file.to_string_lossy().to_ascii_lowercase().contains(name));
    if let Some(file) = named("mariadb") {
        return (of(Kind::MariaDb), format!("the name of {}", file.display()));
    }
    if let Some(setting) = all.all.iter().find(|setting| only_mysql(&setting.group)) {
        return (of(Kind::MySql), format!("the group [{}] in {}", setting.group, setting.place()));
    }
    match installed.first() {
        Some(here) => (server_of(here), format!("the installed {}", here.title)),
        None => (of(Kind::MySql), "nothing that only MariaDB has".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detected(files: &[(&str, &str)]) -> Result<Read> {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        read(&dir.path().join(files[0].0), None, &[])
    }

    #[test]
    fn groups_are_those_that_a_server_reads() {
        let (mysql, mariadb): (Server, Server) =
            ("mysql-8.4".parse().unwrap(), "mariadb-10.11".parse().unwrap());
        for (group, of_mysql, of_mariadb) in [
            ("mysqld", true, true),
            ("server", true, true),
            ("mysqld-8.4", true, false),
            ("mysqld-10.11", false, true),
            ("mariadb", false, true),
            ("mariadb-10.11", false, true),
            ("mariadb-11.4", false, false),
            ("galera", false, true),
            ("client", false, false),
            ("mysqldump", false, false),
            ("", false, false),
        ] {
            assert_eq!((mysql.reads(group), mariadb.reads(group)), (of_mysql, of_mariadb), "{group}");
        }
    }

    #[test]
    fn the_kind_is_told_by_groups_and_names() {
        let kind = |files: &[(&str, &str)]| detected(files).unwrap().server.kind;
        assert_eq!(kind(&[("my.cnf", "[mysqld]\nport=1\n")]), Kind::MySql);
        assert_eq!(kind(&[("my.cnf", "[mysqld]\nport=1\n[mariadb-10.6]\nport=2\n")]), Kind::MariaDb);
        assert_eq!(
            kind(&[("my.cnf", "!includedir mariadb.conf.d\n"), ("mariadb.conf.d/50.cnf", "[mysqld]\na=1\n")]),
            Kind::MariaDb
        );
        assert_eq!(kind(&[("my.cnf", "[client-server]\nport=1\n[mysqld]\na=1\n")]), Kind::MariaDb);
        assert_eq!(kind(&[("my.cnf", "[mysqld-8.0]\na=1\n[mysqld]\nb=1\n")]), Kind::MySql);
        let refused = |text: &str| detected(&[("x.conf", text)]).unwrap_err().to_string();
        assert!(refused("[client]\nport=1\n").contains("its groups are client"));
        assert!(detected(&[("my.cnf", "# nothing\n")]).unwrap().settings.all.is_empty());
    }
}
