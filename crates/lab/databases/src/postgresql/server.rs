//! Which server there is, and as whom it runs.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

use crate::{
    database::{Account, search_path},
    process::{self, run},
};
use lab_report::control::{Cancel, Interrupted};

/// What to install where something is missing.
pub(super) const PACKAGE: &str = "postgresql";

/// The oldest major version that the studies know.
const OLDEST_MAJOR: u32 = 14;

/// A server with the programs of its package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// The directory of its programs.
    pub programs: PathBuf,
    /// Major version.
    pub major: u32,
    /// Name and version as reports print it.
    pub title: String,
    /// The user it runs as: `postgres` where a server package made that user, else `nobody`.
    pub account: Account,
}

impl Server {
    /// The server whose program `postgres` is at `path`, or the newest one installed on this machine.
    ///
    /// # Errors
    /// When there is none, or it is older than PostgreSQL 14.
    pub fn find(path: Option<&Path>) -> Result<Self> {
        let program = match path {
            Some(path) => path.to_owned(),
            None => installed().with_context(|| {
                format!(
                    "no PostgreSQL found; on Debian: apt-get install {PACKAGE} (scripts/setup-debian.sh does, and starts no service)"
                )
            })?,
        };
        // Where a link leads are the other programs.
        let program = program.canonicalize().with_context(|| format!("finding {}", program.display()))?;
        let account = Account::find("postgres")?;
        // As the user that will run it, who may lack the right to.
        let said = run(account.command(&program).arg("--version"), PACKAGE)
            .with_context(|| format!("asking {} for its version", program.display()))?;
        Self::parse(&program, account, &said)
    }

    /// The server in the search path, else the newest of Debian's; none if it does not answer.
    ///
    /// # Errors
    /// The work is to end.
    pub fn installed(cancel: &Cancel) -> Result<Option<Self>, Interrupted> {
        let program = installed().and_then(|program| program.canonicalize().ok());
        let (Some(program), Ok(account)) = (program, Account::find("postgres")) else { return Ok(None) };
        let said = process::ask(account.command(&program).arg("--version"), cancel)?;
        Ok(said.and_then(|said| Self::parse(&program, account, &said.output).ok()))
    }

    /// The server that says so of itself.
    fn parse(program: &Path, account: Account, said: &str) -> Result<Self> {
        let (major, title) = parse_version(said)
            .with_context(|| format!("{} is no PostgreSQL server: it says {said:?}", program.display()))?;
        if major < OLDEST_MAJOR {
            bail!("{} is {title}; the studies need PostgreSQL {OLDEST_MAJOR} or later", program.display());
        }
        let programs = program.parent().map(Path::to_owned).unwrap_or_default();
        Ok(Self { programs, major, title, account })
    }

    /// A command that runs a program of the server's package as the server's user.
    pub(super) fn command(&self, program: &str) -> Command {
        self.account.command(&self.programs.join(program))
    }
}

/// The server in the search path, else the newest of Debian's.
fn installed() -> Option<PathBuf> {
    let in_path = search_path().into_iter().map(|dir| dir.join("postgres")).find(|path| path.is_file());
    in_path.or_else(|| newest_below(Path::new("/usr/lib/postgresql")))
}

/// Debian keeps servers out of the search path, in a directory for each major version.
fn newest_below(directory: &Path) -> Option<PathBuf> {
    let versions = fs::read_dir(directory).ok()?.flatten();
    let numbered =
        versions.filter_map(|entry| Some((entry.file_name().to_str()?.parse::<u32>().ok()?, entry)));
    let programs = numbered.map(|(major, entry)| (major, entry.path().join("bin/postgres")));
    programs.filter(|(_, program)| program.is_file()).max().map(|(_, program)| program)
}

/// `postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)`
fn parse_version(text: &str) -> Option<(u32, String)> {
    let version = text.strip_prefix("postgres (PostgreSQL) ")?.split_whitespace().next()?;
    let digits = version.split(|c: char| !c.is_ascii_digit()).next()?;
    Some((digits.parse().ok()?, format!("PostgreSQL {version}")))
}

/// The search path with a directory before all others.
pub(super) fn path_with(directory: &Path) -> std::ffi::OsString {
    let path = env::var_os("PATH").unwrap_or_default();
    env::join_paths(std::iter::once(directory.to_owned()).chain(env::split_paths(&path))).unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read() {
        let debian = "postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n";
        assert_eq!(parse_version(debian), Some((15, "PostgreSQL 15.18".into())));
        assert_eq!(parse_version("postgres (PostgreSQL) 19beta2\n"), Some((19, "PostgreSQL 19beta2".into())));
        assert_eq!(parse_version("psql (PostgreSQL) 15.18\n"), None);
    }

    #[test]
    fn the_newest_of_several_versions_is_taken() {
        let directory = tempfile::tempdir().unwrap();
        for version in ["9.6", "14", "17", "18-without"] {
            fs::create_dir_all(directory.path().join(version).join("bin")).unwrap();
            fs::write(directory.path().join(version).join("bin/postgres"), "").unwrap();
        }
        assert_eq!(newest_below(directory.path()), Some(directory.path().join("17/bin/postgres")));
    }

    #[test]
    fn a_program_that_is_no_server_is_named() {
        let error = format!("{:#}", Server::find(Some(Path::new("/bin/true"))).unwrap_err());
        assert!(error.contains("/true"), "{error}");
        let error = format!("{:#}", Server::find(Some(Path::new("/nonexistent/postgres"))).unwrap_err());
        assert!(error.contains("/nonexistent/postgres"), "{error}");
    }
}
