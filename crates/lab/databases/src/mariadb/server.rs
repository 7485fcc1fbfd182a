//! Which database server there is, and as whom it runs.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

use crate::{
    database::{Account, search_path},
    process::{self, run},
};
use lab_report::control::{Cancel, Interrupted};

/// Who makes the server: they differ in options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vendor {
    /// Keeps the doublewrite buffer in the system tablespace.
    MariaDb,
    /// MySQL or Percona Server.
    MySql,
}

/// A database server program.
#[derive(Clone, Debug)]
pub struct Server {
    /// The program.
    pub path: PathBuf,
    /// Its maker.
    pub vendor: Vendor,
    /// Major, minor, patch.
    pub version: (u32, u32, u32),
    /// Name and version as reports print it.
    pub title: String,
    /// The user it runs as: `mysql` where a server package made that user, else `nobody`.
    pub account: Account,
}

impl Server {
    /// The server at `path`, or the one installed on this machine.
    ///
    /// # Errors
    /// When there is none, or it is neither MariaDB 10.6 or later nor MySQL 8.0 or later.
    pub fn find(path: Option<&Path>) -> Result<Self> {
        let path = match path {
            // It does not run in this process's directory.
            Some(path) => std::path::absolute(path).with_context(|| format!("finding {}", path.display()))?,
            None => programs().next().context(
                "no mariadbd or mysqld found; on Debian: apt-get install mariadb-server-core \
                 (scripts/setup-debian.sh does), or name a server with --mysqld PATH",
            )?,
        };
        let account = Account::find("mysql")?;
        // As the user that will run it, who may lack the right to.
        let text = run(account.command(&path).args(["--no-defaults", "--version"]), "mariadb-server-core")
            .with_context(|| match account.user() {
                None => format!("asking {} for its version", path.display()),
                Some(user) => format!("asking {} for its version as user {}", path.display(), user.uid),
            })?;
        Self::parse(path, account, &text)
    }

    /// The server that says so of itself.
    fn parse(path: PathBuf, account: Account, text: &str) -> Result<Self> {
        let (vendor, version, title) = parse_version(text)
            .with_context(|| format!("{} is no MariaDB or MySQL server: it says {text:?}", path.display()))?;
        let oldest = match vendor {
            Vendor::MariaDb => (10, 6, 0),
            Vendor::MySql => (8, 0, 0),
        };
        if version < oldest {
            bail!("{} is {title}; the studies need {}.{} or later", path.display(), oldest.0, oldest.1);
        }
        Ok(Self { path, vendor, version, title, account })
    }

    /// All servers that are installed where programs are looked for. One that does not answer is none.
    ///
    /// # Errors
    /// The work is to end.
    pub fn installed(cancel: &Cancel) -> Result<Vec<Self>, Interrupted> {
        let mut found: Vec<Self> = Vec::new();
        let Ok(account) = Account::find("mysql") else { return Ok(found) };
        for path in programs() {
            let mut command = account.command(&path);
            let said = process::ask(command.args(["--no-defaults", "--version"]), cancel)?;
            let server = said.and_then(|said| Self::parse(path, account, &said.output).ok());
            // MariaDB's `mysqld` is a link to the same program.
            found.extend(server.filter(|server| !found.iter().any(|known| known.title == server.title)));
        }
        Ok(found)
    }

    /// Whether the doublewrite buffer can be given a directory of its own (MySQL 8.0.20 and later).
    pub fn has_doublewrite_dir(&self) -> bool {
        self.vendor == Vendor::MySql && self.version >= (8, 0, 20)
    }

    /// Whether a database is prepared with its doublewrite buffer on. In the system tablespace it is made then. Doublewrite files
    /// would stay behind, unused, on the namespace of the data where a variant has them elsewhere or does without.
    pub fn prepares_doublewrite(&self) -> bool {
        !self.has_doublewrite_dir()
    }

    /// A program of the server's package: beside it or in the `bin` of its tree, else the one installed.
    pub(super) fn companion(&self, name: &str) -> PathBuf {
        let beside = self.path.parent().map(|dir| dir.join(name));
        let base = self.path.parent().and_then(Path::parent).map(|base| base.join("bin").join(name));
        beside.into_iter().chain(base).find(|path| path.is_file()).unwrap_or_else(|| name.into())
    }

    /// A command that runs `program` as the server's user.
    pub(super) fn command(&self, program: &Path) -> Command {
        self.account.command(program)
    }

    /// Makes a directory that belongs to the server's user.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn make_dir(&self, path: &Path) -> Result<()> {
        self.account.make_dir(path)
    }

    /// Gives a file or device to the server's user.
    ///
    /// # Errors
    /// When that is not allowed.
    pub fn give(&self, path: &Path) -> Result<()> {
        self.account.give(path)
    }

    /// The program that fills a new data directory of MariaDB.
    pub(super) fn installer(&self) -> Result<PathBuf> {
        let names = ["mariadb-install-db", "mysql_install_db"];
        let near = self.path.parent().and_then(Path::parent);
        let near = near.into_iter().flat_map(|base| [base.join("scripts"), base.join("bin")]);
        near.chain(search_path())
            .flat_map(|dir| names.map(|name| dir.join(name)))
            .find(|path| path.is_file())
            .with_context(|| {
                format!(
                    "no mariadb-install-db beside {}; on Debian: apt-get install mariadb-server-core",
                    self.path.display()
                )
            })
    }
}

/// Programs of servers, MariaDB's before MySQL's.
fn programs() -> impl Iterator<Item = PathBuf> {
    let dirs = search_path();
    ["mariadbd", "mysqld"]
        .into_iter()
        .flat_map(move |name| dirs.clone().into_iter().map(move |dir| dir.join(name)))
        .filter(|path| path.is_file())
}

/// `…/mysqld  Ver 10.11.14-MariaDB-0+deb12u2 for debian-linux-gnu on x86_64 (Debian 12)`
fn parse_version(text: &str) -> Option<(Vendor, (u32, u32, u32), String)> {
    let (program, rest) = text.split_once("Ver ")?;
    let (program, word) = (program.trim_end(), rest.split_whitespace().next()?);
    let mut numbers = word.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse().ok());
    let version = (numbers.next()??, numbers.next()??, numbers.next()??);
    let (vendor, name) = if word.contains("MariaDB") {
        (Vendor::MariaDb, "MariaDB")
    } else if text.contains("Percona") {
        (Vendor::MySql, "Percona Server")
    } else if text.contains("MySQL") || program.ends_with("mysqld") {
        // Debian's build says nothing but its name and "(Debian)".
        (Vendor::MySql, "MySQL")
    } else {
        return None;
    };
    Some((vendor, version, format!("{name} {}.{}.{}", version.0, version.1, version.2)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn vendors_and_versions() {
        let debian = "mariadbd  Ver 10.11.14-MariaDB-0+deb12u2 for debian-linux-gnu on x86_64 (Debian 12)\n";
        assert_eq!(parse_version(debian), Some((Vendor::MariaDb, (10, 11, 14), "MariaDB 10.11.14".into())));
        let percona = "/opt/bin/mysqld  Ver 8.0.36-28 for Linux on x86_64 (Percona Server (GPL), Release 28, Revision 47601f19)";
        assert_eq!(parse_version(percona), Some((Vendor::MySql, (8, 0, 36), "Percona Server 8.0.36".into())));
        let mysql = "/usr/sbin/mysqld  Ver 8.4.0 for Linux on x86_64 (MySQL Community Server - GPL)";
        assert_eq!(parse_version(mysql), Some((Vendor::MySql, (8, 4, 0), "MySQL 8.4.0".into())));
        let unnamed = "/opt/usr/sbin/mysqld  Ver 9.7.4-2 for Linux on x86_64 ((Debian))\n";
        assert_eq!(parse_version(unnamed), Some((Vendor::MySql, (9, 7, 4), "MySQL 9.7.4".into())));
        let client = "mysql  Ver 9.7.4-2 for Linux on x86_64 ((Debian))\n";
        assert_eq!(parse_version(client), None);
        assert_eq!(parse_version("bash 5.2"), None);
    }

    #[test]
    fn a_program_that_the_database_s_user_cannot_run_is_named() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let closed = tempfile::tempdir().unwrap();
        fs::set_permissions(closed.path(), std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        let program = closed.path().join("mysqld");
        fs::copy("/bin/true", &program).unwrap();
        let error = format!("{:#}", Server::find(Some(&program)).unwrap_err());
        assert!(error.contains("as user") && error.contains("ermission denied"), "{error}");
    }

    #[test]
    fn a_program_that_is_no_server_is_named() {
        let error = format!("{:#}", Server::find(Some(Path::new("/bin/true"))).unwrap_err());
        assert!(error.contains("/bin/true"), "{error}");
    }
}
