//! What an installed MySQL or MariaDB makes of settings: `mysqld --verbose --help` lists the values that it takes, and MySQL says with
//! `--validate-config` what it does not take.
//!
//! The server gets the settings of InnoDB and of the binary log, and none of other parts: `plugin_load` would run a library.

use std::collections::BTreeMap;

use anyhow::{Result, bail};

use crate::{
    advise::{
        asked::{self, Said},
        settings::{Setting, Settings},
    },
    control::Cancel,
    mariadb::{Server, Vendor},
};

/// Messages of a server that are looked at.
const LINES: usize = 1000;
/// Names that a server does not list which are told.
const NAMES: usize = 20;
/// What a setting without a value has in the list.
const NO_VALUE: &str = "(No default value)";

/// The settings as a server takes them; none if it cannot say.
///
/// # Errors
/// It does not start with them; the work is to end.
pub fn settings(server: &Server, settings: &Settings, cancel: &Cancel) -> Result<Option<Settings>> {
    let asked: Vec<&Setting> = settings.all.iter().filter(|setting| is_asked(setting)).collect();
    let Some(said) = ask(server, &asked, cancel)? else { return Ok(None) };
    let names: BTreeMap<&str, &Setting> =
        asked.iter().map(|setting| (setting.name.as_str(), *setting)).collect();
    let named = |line: &str| {
        // The longest name is the one that is meant: others may be a part of it.
        let line = line.replace('-', "_");
        let found = names.iter().filter(|(name, _)| line.contains(**name));
        found.max_by_key(|(name, _)| name.len()).map(|(_, setting)| *setting)
    };
    let errors = said.messages.lines().take(LINES).filter_map(|line| line.split_once("[ERROR] "));
    if let Some((setting, error)) = errors.filter_map(|(_, error)| Some((named(error)?, error))).next() {
        bail!(
            "{}: {} does not start with it: {error} (--no-ask asks no server)",
            setting.place(),
            server.title
        );
    }
    let values = values(&said.list);
    if values.is_empty() {
        return Ok(None);
    }
    let mut settings = settings.clone();
    for setting in settings.all.iter_mut().filter(|setting| is_asked(setting)) {
        take(setting, &values);
    }
    for (_, warning) in said.messages.lines().take(LINES).filter_map(|line| line.split_once("[Warning] ")) {
        if named(warning).is_some() {
            settings.ignored.push(format!("{}: {warning}", server.title));
        }
    }
    settings.ignored.extend(unlisted(&settings, &values).map(|names| {
        format!("{} lists no setting of these names, and may not start with them: {names}", server.title)
    }));
    Ok(Some(settings))
}

/// A server's list with these settings, and what it says of them.
fn ask(server: &Server, settings: &[&Setting], cancel: &Cancel) -> Result<Option<Said>> {
    // Both servers try out in the data directory whether names are the same in either case.
    let Ok(data) = tempfile::tempdir() else { return Ok(None) };
    if let Some(user) = server.account.user()
        && std::os::unix::fs::chown(data.path(), Some(user.uid), Some(user.gid)).is_err()
    {
        return Ok(None);
    }
    let run = |options: &[&str]| {
        let mut command = server.account.command(&server.path);
        command.arg("--no-defaults").arg("--datadir").arg(data.path()).args(options);
        asked::run(command.args(settings.iter().map(|setting| option(setting))), cancel)
    };
    let Some(mut said) = run(&["--verbose", "--help"])? else { return Ok(None) };
    // MySQL lists values without a word about what it does not take.
    if server.vendor == Vendor::MySql {
        let quiet = ["--secure-file-priv=NULL", "--log-error-verbosity=2", "--validate-config"];
        let Some(checked) = run(&quiet)? else { return Ok(None) };
        said.messages = checked.messages;
    }
    Ok(Some(said))
}

/// Whether the server is asked about a setting: whether it is one of InnoDB, or of the binary log.
fn is_asked(setting: &Setting) -> bool {
    setting.name.starts_with("innodb_")
        || setting.name == "sync_binlog"
        // A value names the log. Only a prefix turns it off, and the server then lists no value.
        || (setting.name == "log_bin" && setting.switched.is_none())
}

/// A setting on the server's command line.
fn option(setting: &Setting) -> String {
    let loose = if setting.loose { "loose-" } else { "" };
    match &setting.value {
        Some(value) => format!("--{loose}{}={value}", setting.name),
        None => format!("--{loose}{}", setting.name),
    }
}

/// Names with underscores, and values, of a server's list. It begins behind a line of dashes.
fn values(list: &str) -> BTreeMap<String, String> {
    let lines = list.lines().skip_while(|line| !line.starts_with("-----")).skip(1);
    lines
        .map_while(|line| line.split_once(char::is_whitespace))
        .map(|(name, value)| (name.replace('-', "_"), value.trim().to_owned()))
        .collect()
}

/// The setting of the list that a name is, which may be cut short.
fn whole<'a>(name: &str, values: &'a BTreeMap<String, String>) -> Option<(&'a String, &'a String)> {
    let mut longer = values.range(name.to_owned()..).take_while(|(listed, _)| listed.starts_with(name));
    let first = longer.next()?;
    (first.0 == name || longer.next().is_none()).then_some(first)
}

/// Gives a setting the name and the value that the server has for it.
fn take(setting: &mut Setting, values: &BTreeMap<String, String>) {
    let Some((name, value)) = whole(&setting.name, values) else { return };
    if value != NO_VALUE && setting.value.is_some() {
        setting.value = Some(value.clone());
    }
    setting.name.clone_from(name);
}

/// Names that the list does not have. A plugin that the configuration loads has settings of its own.
fn unlisted(settings: &Settings, values: &BTreeMap<String, String>) -> Option<String> {
    let plugins = |setting: &Setting| setting.name.starts_with("plugin_load") || setting.name == "plugin_dir";
    if settings.all.iter().any(plugins) {
        return None;
    }
    let all = settings.that_count();
    let unlisted = |setting: &&Setting| {
        !setting.loose && !setting.name.is_empty() && whole(&setting.name, values).is_none()
    };
    let names = all.values().copied().filter(unlisted).take(NAMES).map(|setting| {
        let near = units::nearest(&setting.name, values.keys().map(String::as_str));
        let near = near.map(|near| format!(" (did you mean {near}?)")).unwrap_or_default();
        format!("{}{near}, {}", setting.name, setting.place())
    });
    let names: Vec<String> = names.collect();
    (!names.is_empty()).then(|| names.join("; "))
}

#[cfg(test)]
mod tests {
    use super::super::{database::Database, groups::server_of};
    use super::*;
    use crate::{advise::server, skip::skipped};

    fn all(settings: &[(&str, Option<&str>)]) -> Settings {
        let setting = |(line, &(name, value)): (u32, &(&str, Option<&str>))| Setting {
            group: "mysqld".into(),
            name: name.into(),
            value: value.map(str::to_owned),
            switched: None,
            loose: false,
            file: "my.cnf".into(),
            line,
        };
        Settings { all: (1..).zip(settings).map(setting).collect(), ..Settings::default() }
            .of_groups(|_| true)
    }

    /// Servers of this machine whose defaults are known.
    fn servers() -> Vec<Server> {
        let known = |server: &Server| {
            let of = server_of(server);
            server::Server::of(of.kind, of.version).is_ok()
        };
        let servers: Vec<_> = Server::installed().into_iter().filter(known).collect();
        if servers.is_empty() {
            skipped("values of settings", "no server is installed");
        }
        servers
    }

    fn ask(server: &Server, of: &[(&str, Option<&str>)]) -> Result<Settings> {
        let told = settings(server, &all(of), &Cancel::default())?;
        Ok(told.unwrap_or_else(|| panic!("{} gives no list", server.title)))
    }

    /// What a configuration means, without the words of the report.
    fn meaning(server: &Server, settings: &Settings) -> Result<Database> {
        Ok(Database {
            rows: Vec::new(),
            left_out: Vec::new(),
            ..Database::read(settings, server_of(server))?
        })
    }

    #[test]
    fn what_a_server_objects_to_is_told_with_its_place() {
        for server in servers() {
            let error = |of: &[(&str, Option<&str>)]| ask(&server, of).unwrap_err().to_string();
            let told = error(&[("innodb_io_capacity", Some("100")), ("innodb_nonsense", Some("1"))]);
            assert!(told.starts_with("my.cnf:2: ") && told.contains("does not start with it"), "{told}");
            let told = error(&[("innodb_io_capacity", Some("100x"))]);
            assert!(told.starts_with("my.cnf:1: "), "{told}");
            let told = ask(&server, &[("loose_innodb_nonsense", Some("1"))]).unwrap();
            assert!(
                told.ignored
                    .iter()
                    .any(|line| line.contains("innodb-nonsense") || line.contains("innodb_nonsense"))
            );
            let told = ask(&server, &[("max_conections", Some("1")), ("port", Some("1"))]).unwrap();
            let unlisted = told.ignored.iter().find(|line| line.contains("lists no setting")).unwrap();
            assert!(
                unlisted.ends_with(": max_conections (did you mean max_connections?), my.cnf:1"),
                "{unlisted}"
            );
        }
    }

    #[test]
    fn the_value_is_that_which_the_server_takes() {
        for server in servers() {
            let is_mariadb = server.vendor == Vendor::MariaDb;
            let told = ask(&server, &[("innodb_flush_log_at_trx_commit", Some("7"))]).unwrap();
            let value = told.get("innodb_flush_log_at_trx_commit").unwrap().value.clone().unwrap();
            assert_eq!(value, if is_mariadb { "3" } else { "2" });
            assert!(told.ignored.iter().any(|line| line.contains("adjusted")), "{:?}", told.ignored);
            // MariaDB takes names that are cut short.
            let short = ask(&server, &[("innodb_max_dirty_pages_pct_lw", Some("5"))]);
            assert_eq!(short.is_ok(), is_mariadb);
            if let Ok(told) = short {
                let value = told.get("innodb_max_dirty_pages_pct_lwm").unwrap().value.clone().unwrap();
                assert!(value.starts_with('5'), "{value}");
            }
        }
    }

    /// What a server computes when it starts: its list has a mark in place of the value.
    const COMPUTED: [&str; 4] = [
        "innodb_io_capacity_max",
        "innodb_flush_method",
        "innodb_buffer_pool_instances",
        "innodb_page_cleaners",
    ];

    /// The defaults of the table are those of the server: a configuration that says each as the server lists it means the same.
    #[test]
    fn defaults_are_those_of_the_server() {
        for server in servers() {
            let values = values(&super::ask(&server, &[], &Cancel::default()).unwrap().unwrap().list);
            let listed: Vec<_> = values
                .iter()
                .filter(|(name, value)| {
                    name.starts_with("innodb_")
                        && !COMPUTED.contains(&name.as_str())
                        && *value != NO_VALUE
                        && !value.is_empty()
                })
                .map(|(name, value)| (name.as_str(), Some(value.as_str())))
                .collect();
            assert_eq!(
                meaning(&server, &all(&listed)).unwrap(),
                meaning(&server, &all(&[])).unwrap(),
                "{}",
                server.title
            );
        }
    }

    /// Random settings: what is read of files means what the server makes of them, where the server takes them.
    #[test]
    fn files_mean_what_the_server_takes() {
        let numbers = [
            "innodb_io_capacity",
            "innodb_lru_scan_depth",
            "innodb_buffer_pool_size",
            "innodb_log_file_size",
            "innodb_max_dirty_pages_pct",
            "innodb_flush_log_at_trx_commit",
            "sync_binlog",
        ];
        let amounts = [
            "0", "1", "2", "90", "200", "1000", "4k", "8M", "128M", "1G", "2g", "16Kx", "4MB", "1 ", "5 ; x",
        ];
        let words = ["on", "Off", "TRUE", "0", "1", "false", "yes", ""];
        let rounds = std::env::var("TRANCHE_OPTION_FILE_ROUNDS").ok().and_then(|text| text.parse().ok());
        let rounds: u64 = rounds.unwrap_or(40);
        for server in servers() {
            let mut agreed = 0;
            for seed in 0..rounds {
                let mut rng = rng::Rng::new(seed);
                let mut one = |of: &[&'static str]| of[rng.below(of.len() as u64) as usize];
                let of = [(one(&numbers), Some(one(&amounts))), ("innodb_doublewrite", Some(one(&words)))];
                let Ok(told) = ask(&server, &of) else { continue };
                // What the server adjusts is not in the file.
                if told.ignored.iter().any(|line| line.contains("adjusted") || line.contains("ignoring")) {
                    continue;
                }
                // What the model refuses is no silent mistake.
                let Ok(alone) = meaning(&server, &all(&of)) else { continue };
                agreed += 1;
                let theirs = meaning(&server, &told).unwrap();
                assert_eq!(alone, theirs, "seed {seed}, {}: {of:?}", server.title);
            }
            assert!(agreed > rounds / 20, "{agreed} of {rounds}");
        }
    }
}
