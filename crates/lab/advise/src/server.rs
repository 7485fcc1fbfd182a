//! Servers and their release series.

use std::{fmt, str::FromStr};

/// Who makes a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// MySQL, and Percona Server, which has the same settings.
    MySql,
    /// MariaDB.
    MariaDb,
    /// PostgreSQL.
    PostgreSql,
}

/// A server and the release series whose defaults hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Server {
    /// Its maker.
    pub kind: Kind,
    /// Major and minor; PostgreSQL's series have no minor, which is 0.
    pub version: (u32, u32),
}

impl Kind {
    /// The series that is taken if none is named: the newest with long-term support when this was written.
    fn usual(self) -> (u32, u32) {
        match self {
            Kind::MySql => (8, 4),
            Kind::MariaDb => (11, 8),
            Kind::PostgreSql => (18, 0),
        }
    }

    /// The oldest series whose defaults are known here.
    fn oldest(self) -> (u32, u32) {
        match self {
            Kind::MySql => (8, 0),
            Kind::MariaDb => (10, 6),
            Kind::PostgreSql => (13, 0),
        }
    }

    /// The newest, if later ones are refused.
    fn newest(self) -> Option<(u32, u32)> {
        (self == Kind::PostgreSql).then_some((18, 0))
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
            Kind::PostgreSql => {
                "PostgreSQL documentation, \"Server Configuration\": \"Resource Consumption\" and \"Write Ahead Log\""
            }
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::MySql => "MySQL",
            Kind::MariaDb => "MariaDB",
            Kind::PostgreSql => "PostgreSQL",
        })
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, series(self.kind, self.version))
    }
}

/// A release series as its maker writes it.
fn series(kind: Kind, (major, minor): (u32, u32)) -> String {
    if kind == Kind::PostgreSql { major.to_string() } else { format!("{major}.{minor}") }
}

impl Server {
    /// A server whose release series was not said.
    pub fn usual(kind: Kind) -> Self {
        Self { kind, version: kind.usual() }
    }

    /// A server of a release series.
    ///
    /// # Errors
    /// Its defaults are not known.
    pub fn of(kind: Kind, version: (u32, u32)) -> Result<Self, String> {
        let oldest = series(kind, kind.oldest());
        match kind.newest() {
            Some(newest) if version < kind.oldest() || version > newest => {
                Err(format!("defaults are known of {kind} {oldest} to {}", series(kind, newest)))
            }
            None if version < kind.oldest() => {
                Err(format!("defaults are known of {kind} {oldest} and later"))
            }
            _ => Ok(Self { kind, version }),
        }
    }
}

/// A release series: two numbers, or for PostgreSQL one. A further number there is that of a minor release, which has the same defaults.
fn version(kind: Kind, text: &str) -> Option<(u32, u32)> {
    let parts = text.split_once('.');
    if kind != Kind::PostgreSql {
        let (major, minor) = parts?;
        return Some((major.parse().ok()?, minor.parse().ok()?));
    }
    if let Some((_, minor)) = parts {
        minor.parse::<u32>().ok()?;
    }
    Some((parts.map_or(text, |parts| parts.0).parse().ok()?, 0))
}

impl FromStr for Server {
    type Err = String;

    /// `mysql`, `percona-8.0`, `mariadb-10.11`, `postgresql-15`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (name, said) = match text.split_once('-') {
            Some((name, said)) => (name, Some(said)),
            None => (text, None),
        };
        let kind = match name.to_ascii_lowercase().as_str() {
            "mysql" | "percona" => Kind::MySql,
            "mariadb" => Kind::MariaDb,
            "postgresql" | "postgres" => Kind::PostgreSql,
            _ => {
                let near = units::did_you_mean(name, ["mysql", "percona", "mariadb", "postgresql"]);
                return Err(format!(
                    "there is no server {name:?}: mysql, percona, mariadb or postgresql, perhaps with a version as in mysql-8.0{near}"
                ));
            }
        };
        let Some(said) = said else { return Ok(Self::usual(kind)) };
        let version = version(kind, said).ok_or_else(|| {
            format!("{said:?} is no release series: write mysql-8.0, mariadb-10.11 or postgresql-15")
        })?;
        Self::of(kind, version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_named() {
        let server = |text: &str| text.parse::<Server>();
        assert_eq!(server("mysql").unwrap().to_string(), "MySQL 8.4");
        assert_eq!(server("percona-8.0").unwrap(), Server { kind: Kind::MySql, version: (8, 0) });
        assert_eq!(server("MariaDB-10.11").unwrap().to_string(), "MariaDB 10.11");
        assert_eq!(server("postgresql-15").unwrap().to_string(), "PostgreSQL 15");
        assert_eq!(server("postgres").unwrap(), server("postgresql-18.1").unwrap());
        for (text, words) in [
            ("oracle", "there is no server"),
            ("postgresq-15", "(did you mean postgresql?)"),
            ("mysql-8", "no release series"),
            ("mysql-5.7", "8.0 and later"),
            ("postgresql-12", "13 to 18"),
            ("postgresql-19", "13 to 18"),
            ("postgresql-15.x", "no release series"),
        ] {
            assert!(server(text).unwrap_err().contains(words), "{text}");
        }
    }
}
