//! Which server a configuration is of.

use std::{fmt, path::Path, str::FromStr};

use anyhow::{Context, Result, bail};

use super::{option_file, settings::Settings};

/// Who makes a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// MySQL, and Percona Server, which has the same settings.
    MySql,
    /// MariaDB.
    MariaDb,
}

/// A server and the release series whose defaults hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Server {
    /// Its maker.
    pub kind: Kind,
    /// Major and minor.
    pub version: (u32, u32),
}

impl Kind {
    /// The series that is taken if none is named: the newest with long-term support when this was written.
    fn usual(self) -> (u32, u32) {
        match self {
            Kind::MySql => (8, 4),
            Kind::MariaDb => (11, 8),
        }
    }

    /// The oldest series whose defaults are known here.
    fn oldest(self) -> (u32, u32) {
        match self {
            Kind::MySql => (8, 0),
            Kind::MariaDb => (10, 6),
        }
    }

    /// Where its defaults are documented.
    pub fn source(self) -> &'static str {
        match self {
            Kind::MySql => {
                "MySQL Reference Manual, \"InnoDB Startup Options and System Variables\" and \"Binary Logging Options and Variables\""
            }
            Kind::MariaDb => {
                "MariaDB documentation, \"InnoDB System Variables\" and \"Replication and Binary Log System Variables\""
            }
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::MySql => "MySQL",
            Kind::MariaDb => "MariaDB",
        })
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}.{}", self.kind, self.version.0, self.version.1)
    }
}

impl FromStr for Server {
    type Err = String;

    /// `mysql`, `percona-8.0`, `mariadb-10.11`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (name, version) = match text.split_once('-') {
            Some((name, version)) => (name, Some(version)),
            None => (text, None),
        };
        let kind = match name.to_ascii_lowercase().as_str() {
            "mysql" | "percona" => Kind::MySql,
            "mariadb" => Kind::MariaDb,
            _ => {
                return Err(format!(
                    "there is no server {name:?}: mysql, percona or mariadb, perhaps with a version as in mysql-8.0"
                ));
            }
        };
        let Some(version) = version else { return Ok(Server { kind, version: kind.usual() }) };
        let parsed = version
            .split_once('.')
            .and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
        let version = parsed
            .ok_or_else(|| format!("{version:?} is no release series: write mysql-8.0 or mariadb-10.11"))?;
        if version < kind.oldest() {
            let (major, minor) = kind.oldest();
            return Err(format!("defaults are known of {kind} {major}.{minor} and later"));
        }
        Ok(Server { kind, version })
    }
}

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
pub struct Configuration {
    /// The server.
    pub server: Server,
    /// How it was told.
    pub told_by: String,
    /// The settings that it reads.
    pub settings: Settings,
}

/// Reads a configuration. Without a server its groups and file names tell.
///
/// # Errors
/// It cannot be read, makes no sense, or has nothing for a server.
pub fn read(path: &Path, server: Option<Server>) -> Result<Configuration> {
    if is_of_postgresql(path)? {
        bail!(
            "{} is a configuration of PostgreSQL: this advises on InnoDB (MySQL, Percona Server, MariaDB), because no model of PostgreSQL is here; \
             docs/howto/postgresql.md measures full_page_writes live",
            path.display()
        );
    }
    let all = option_file::read(path)?;
    let (server, told_by) = match server {
        Some(server) => (server, "--server".to_owned()),
        None => detect(&all),
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
    Ok(Configuration { server, told_by, settings })
}

/// Whether a file is PostgreSQL's: what it says first is a setting without a group before it, or its name says so.
fn is_of_postgresql(path: &Path) -> Result<bool> {
    let named =
        path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with("postgresql"));
    let bytes = option_file::content(path).with_context(|| "reading the configuration")?;
    let text = String::from_utf8_lossy(&bytes);
    let first = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with(['#', ';']));
    let known = [
        "shared_buffers",
        "full_page_writes",
        "wal_",
        "max_wal_size",
        "checkpoint_",
        "data_directory",
        "include",
    ];
    let looks = first
        .is_some_and(|line| !line.starts_with(['[', '!']) && known.iter().any(|name| line.starts_with(name)));
    Ok(named || looks)
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

/// The server, by groups that only one has and by names of files.
fn detect(all: &Settings) -> (Server, String) {
    let of = |kind: Kind| Server { kind, version: kind.usual() };
    if let Some(setting) = all.all.iter().find(|setting| only_mariadb(&setting.group)) {
        return (of(Kind::MariaDb), format!("the group [{}] in {}", setting.group, setting.place()));
    }
    let named =
        |name: &str| all.files.iter().find(|file| file.to_string_lossy().to_ascii_lowercase().contains(name));
    if let Some(file) = named("mariadb") {
        return (of(Kind::MariaDb), format!("the name of {}", file.display()));
    }
    (of(Kind::MySql), "nothing that only MariaDB has".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detected(files: &[(&str, &str)]) -> Result<Configuration> {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        read(&dir.path().join(files[0].0), None)
    }

    #[test]
    fn servers_are_named() {
        let server = |text: &str| text.parse::<Server>();
        assert_eq!(server("mysql").unwrap().to_string(), "MySQL 8.4");
        assert_eq!(server("percona-8.0").unwrap(), Server { kind: Kind::MySql, version: (8, 0) });
        assert_eq!(server("MariaDB-10.11").unwrap().to_string(), "MariaDB 10.11");
        for (text, words) in [
            ("oracle", "there is no server"),
            ("mysql-8", "no release series"),
            ("mysql-5.7", "8.0 and later"),
        ] {
            assert!(server(text).unwrap_err().contains(words), "{text}");
        }
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
        assert!(refused("shared_buffers = 1GB\n").contains("PostgreSQL"));
        assert!(refused("[client]\nport=1\n").contains("its groups are client"));
        assert!(
            detected(&[("postgresql.conf", "# nothing\n")]).unwrap_err().to_string().contains("PostgreSQL")
        );
        assert!(detected(&[("my.cnf", "# nothing\n")]).unwrap().settings.all.is_empty());
    }
}
