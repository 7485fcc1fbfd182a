//! Live or in virtual time.

use anyhow::{Result, bail};

use super::settings::Options;
use lab_databases::{mariadb::Server, mounted_drive};

/// Where a study runs, and why.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Engine {
    /// Real software, because nothing is in the way of it.
    Live,
    /// In virtual time; for this reason, if it was not asked for.
    Sim(Option<String>),
}

impl Engine {
    /// What the options ask for; else live where it is possible.
    ///
    /// # Errors
    /// Live was asked for, or something that only makes sense there, and is not possible.
    pub(super) fn choose(options: &Options, obstacle: impl FnOnce() -> Option<String>) -> Result<Self> {
        if options.sim || options.like_live.is_some() {
            return Ok(Self::Sim(None));
        }
        let only_live = [
            ("--live", options.live),
            ("--mysqld", !options.mysqld.is_empty()),
            ("--scratch", options.scratch.is_some()),
        ];
        match (obstacle(), only_live.iter().find(|option| option.1)) {
            (None, _) => Ok(Self::Live),
            (Some(why), None) => Ok(Self::Sim(Some(why))),
            (Some(why), Some((option, _))) => bail!("{option} asks for a live study: {why}"),
        }
    }

    /// One line for standard error: which and why; `None` if it was asked for.
    pub(super) fn line(&self, options: &Options) -> Option<String> {
        match self {
            Self::Live if options.live => None,
            Self::Live => Some("live: root, FUSE, loop devices and a database server are here".into()),
            Self::Sim(why) => {
                why.as_ref().map(|why| format!("in virtual time (--sim), as it cannot run live: {why}"))
            }
        }
    }
}

/// Why the study cannot run live here: what a drive's devices need, and a server.
pub(super) fn obstacle(options: &Options) -> Option<String> {
    mounted_drive::obstacle().or_else(|| servers(options).err().map(|error| format!("{error:#}")))
}

/// The servers that are named, or else the one installed.
///
/// # Errors
/// Like [`Server::find`].
pub(super) fn servers(options: &Options) -> Result<Vec<Server>> {
    if options.mysqld.is_empty() {
        return Ok(vec![Server::find(None)?]);
    }
    options.mysqld.iter().map(|path| Server::find(Some(path))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn it_runs_live_where_it_can_and_in_virtual_time_elsewhere() {
        let none = || None;
        let root = || Some("not root".to_owned());
        let usual = Options::default;
        let chosen = |options: Options, obstacle: &dyn Fn() -> Option<String>| {
            Engine::choose(&options, obstacle).map(|engine| {
                let line = engine.line(&options);
                (engine, line.unwrap_or_default())
            })
        };
        let (engine, line) = chosen(usual(), &none).unwrap();
        assert!(engine == Engine::Live && line.starts_with("live: "), "{line}");
        assert_eq!(chosen(Options { live: true, ..usual() }, &none).unwrap(), (Engine::Live, String::new()));
        assert_eq!(
            chosen(Options { sim: true, ..usual() }, &none).unwrap(),
            (Engine::Sim(None), String::new())
        );
        let (engine, line) = chosen(Options { connections: vec![4], ..usual() }, &root).unwrap();
        assert_eq!(engine, Engine::Sim(root()));
        assert_eq!(line, "in virtual time (--sim), as it cannot run live: not root");
        for (only_live, options) in [
            ("--live", Options { live: true, ..usual() }),
            ("--mysqld", Options { mysqld: vec!["/x".into()], ..usual() }),
            ("--scratch", Options { scratch: Some("/y".into()), ..usual() }),
        ] {
            let refused = chosen(options, &root).unwrap_err().to_string();
            assert_eq!(refused, format!("{only_live} asks for a live study: not root"));
        }
    }
}
