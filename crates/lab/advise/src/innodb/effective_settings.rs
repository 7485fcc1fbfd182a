//! What an installed MySQL or MariaDB makes of settings: `mysqld --verbose --help` lists the values that it takes, and MySQL says with
//! `--validate-config` what it does not take.
//!
//! The server gets the settings of InnoDB and of the binary log, and none of other parts: `plugin_load` would run a library.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;

use super::database::is_of_storage;
use crate::{
    installed_server::{clean, directory, is_plain, refuse},
    settings::{Setting, Settings},
};
use lab_databases::{
    mariadb::{Server, Vendor},
    process::{self, Said},
};
use lab_report::control::{Cancel, Interrupted};

/// Messages of a server that are looked at: so many errors, and so many warnings.
const LINES: usize = 1000;
/// Names and warnings that are told.
const MAX_REPORTED: usize = 20;
/// What a setting without a value has in the list.
const NO_VALUE: &str = "(No default value)";

/// What a server knows.
struct Known {
    /// Its variables with their values.
    values: BTreeMap<String, String>,
    /// Options: the variables, and others.
    options: BTreeSet<String>,
    /// Whether it takes names that are cut short.
    takes_short: bool,
}

/// The settings as a server takes them; none if it cannot say.
///
/// # Errors
/// It does not start with them; the work is to end.
pub fn settings(server: &Server, settings: &Settings, cancel: &Cancel) -> Result<Option<Settings>> {
    let Some(known) = ask(server, &[], cancel)?.and_then(|said| Known::of(server, &said.output)) else {
        return Ok(None);
    };
    let mut settings = settings.clone();
    for setting in &mut settings.all {
        if let Some((name, _)) = known.whole(&setting.name) {
            setting.name.clone_from(name);
        }
    }
    let asked: Vec<&Setting> = settings.all.iter().filter(|setting| is_asked(setting)).collect();
    let Some(said) = ask(server, &asked, cancel)? else { return Ok(None) };
    if let Some((setting, error)) = first_error(&said.messages, &asked) {
        refuse(setting, &server.title, error)?;
    }
    let Some(known) = Known::of(server, &said.output) else { return Ok(None) };
    let warnings = warnings(&said.messages, &asked);
    for setting in settings.all.iter_mut().filter(|setting| is_asked(setting)) {
        if let (Some(value), Some(_)) = (known.values.get(&setting.name), &setting.value)
            && value != NO_VALUE
        {
            setting.value = Some(value.clone());
        }
    }
    settings.ignored.extend(warnings.into_iter().map(|warning| format!("{}: {warning}", server.title)));
    settings.ignored.extend(known.unlisted(&settings).map(|names| {
        format!("{} lists no setting of these names, and may not start with them: {names}", server.title)
    }));
    Ok(Some(settings))
}

/// A server's list with these settings, and what it says of them.
fn ask(server: &Server, settings: &[&Setting], cancel: &Cancel) -> Result<Option<Said>, Interrupted> {
    // Both servers try out in the data directory whether names are the same in either case.
    let Some(data) = directory(server.account) else { return Ok(None) };
    let run = |options: &[&str]| {
        let mut command = server.account.command(&server.path);
        command.arg("--no-defaults").arg("--datadir").arg(data.path()).args(options);
        process::ask(command.args(settings.iter().map(|setting| option(setting))), cancel)
    };
    let Some(mut said) = run(&["--verbose", "--help"])? else { return Ok(None) };
    // MySQL lists values without a word about what it does not take.
    if server.vendor == Vendor::MySql && !settings.is_empty() {
        let quiet = ["--secure-file-priv=NULL", "--log-error-verbosity=2", "--validate-config"];
        let Some(checked) = run(&quiet)? else { return Ok(None) };
        said.messages = checked.messages;
    }
    Ok(Some(said))
}

/// Whether the server is asked about a setting: whether it is one of InnoDB, or of the binary log.
fn is_asked(setting: &Setting) -> bool {
    // A value names the log. Only a prefix turns it off, and the server then lists no value.
    let names_log = setting.switched.is_none() && setting.value.is_some();
    is_of_storage(&setting.name) && (setting.name != "log_bin" || names_log) && is_plain(setting)
}

/// A setting on the server's command line.
fn option(setting: &Setting) -> String {
    let loose = if setting.loose { "loose-" } else { "" };
    match &setting.value {
        Some(value) => format!("--{loose}{}={value}", setting.name),
        None => format!("--{loose}{}", setting.name),
    }
}

/// The setting that a message is about. Of several it has the longest name, because others may be a part of it, and then the value that is
/// said.
fn subject<'a>(message: &str, settings: &[&'a Setting]) -> Option<&'a Setting> {
    let line = message.replace('-', "_");
    let is_value = |setting: &Setting| setting.value.as_deref().is_some_and(|value| message.contains(value));
    let named = settings.iter().filter(|setting| line.contains(&setting.name));
    named.max_by_key(|setting| (setting.name.len(), is_value(setting))).copied()
}

/// The first error that is about a setting.
fn first_error<'a, 'b>(messages: &'b str, settings: &[&'a Setting]) -> Option<(&'a Setting, &'b str)> {
    let errors = messages.lines().filter_map(|line| Some(line.split_once("[ERROR] ")?.1)).take(LINES);
    errors.filter_map(|error| Some((subject(error, settings)?, error))).next()
}

/// The first warnings that are about settings, and how many more there are.
fn warnings(messages: &str, settings: &[&Setting]) -> Vec<String> {
    let all = messages.lines().filter_map(|line| Some(line.split_once("[Warning] ")?.1)).take(LINES);
    let all: Vec<&str> = all.filter(|warning| subject(warning, settings).is_some()).collect();
    let told = all.iter().take(MAX_REPORTED).map(|warning| clean(warning.trim_end_matches('.')));
    told.chain((all.len() > MAX_REPORTED).then(|| format!("{} warnings more", all.len() - MAX_REPORTED)))
        .collect()
}

impl Known {
    /// What `--verbose --help` says. The values begin behind a line of dashes.
    fn of(server: &Server, list: &str) -> Option<Self> {
        let plain = |name: &str| name.replace('-', "_");
        let lines = list.lines().skip_while(|line| !line.starts_with("-----")).skip(1);
        let values: BTreeMap<String, String> = lines
            .map_while(|line| line.split_once(char::is_whitespace))
            .map(|(name, value)| (plain(name), value.trim().to_owned()))
            .collect();
        let options = list.lines().map(str::trim_start).filter(|line| line.starts_with('-'));
        let options = options.filter_map(|line| line.split_once("--")).map(|(_, option)| {
            plain(option.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').next().unwrap_or(""))
        });
        let options = options.filter(|option| !option.is_empty()).chain(values.keys().cloned()).collect();
        (!values.is_empty()).then(|| Self { values, options, takes_short: server.vendor == Vendor::MariaDb })
    }

    /// The variable that a name is.
    fn whole(&self, name: &str) -> Option<(&String, &String)> {
        if self.options.contains(name) || self.values.contains_key(name) {
            return self.values.get_key_value(name);
        }
        let mut longer = self.options.range(name.to_owned()..).take_while(|option| option.starts_with(name));
        let first = longer.next().filter(|_| self.takes_short)?;
        self.values.get_key_value(first).filter(|_| longer.next().is_none())
    }

    /// Whether the server has an option of this name.
    fn has(&self, setting: &Setting) -> bool {
        let name = setting.name.strip_prefix("maximum_").unwrap_or(&setting.name);
        let has = |name: &str| self.whole(name).is_some() || self.options.contains(name);
        // What a prefix turns off may be known by its whole name only.
        has(name)
            || setting.switched.is_some()
                && ["skip_", "disable_"].iter().any(|of| has(&format!("{of}{name}")))
    }

    /// Names that the server does not list. A plugin that the configuration loads has settings of its own.
    fn unlisted(&self, settings: &Settings) -> Option<String> {
        let plugins =
            |setting: &Setting| setting.name.starts_with("plugin_load") || setting.name == "plugin_dir";
        if settings.all.iter().any(plugins) {
            return None;
        }
        let all = settings.that_count();
        let unlisted = all.values().copied().filter(|setting| !setting.loose && !self.has(setting));
        let names = unlisted.take(MAX_REPORTED + 1).map(|setting| {
            let near = units::nearest(&setting.name, self.values.keys().map(String::as_str));
            let near = near.map(|near| format!(" (did you mean {near}?)")).unwrap_or_default();
            format!("{}{near}, {}", setting.name, setting.place())
        });
        let mut names: Vec<String> = names.collect();
        if names.len() > MAX_REPORTED {
            names[MAX_REPORTED] = "…".to_owned();
        }
        (!names.is_empty()).then(|| names.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{database::Database, groups::server_of};
    use super::*;
    use crate::server;
    use testkit::skipped;

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
        let servers: Vec<_> =
            Server::installed(&Cancel::default()).unwrap().into_iter().filter(known).collect();
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
    fn hostile_and_plain_files_of_strangers_are_read_as_the_server_reads_them() {
        for server in servers() {
            // A line break forges no line of the list, and what a terminal would obey is shown as text.
            let forged = "/x\ninnodb-io-capacity 5\ninnodb-doublewrite FALSE";
            let of = [("innodb_io_capacity", Some("2000")), ("innodb_undo_directory", Some(forged))];
            let told = ask(&server, &of).unwrap();
            assert_eq!(told.number("innodb_io_capacity").unwrap().unwrap().0, 2000);
            let error = ask(&server, &[("innodb_nonsense", Some("1")), ("innodb_io_capacity", Some("200"))]);
            assert!(!error.unwrap_err().to_string().contains(char::is_control));
            // Of two lines the one that is wrong is named, and an error counts behind any number of warnings.
            let two = [("innodb_io_capacity", Some("100x")), ("innodb_io_capacity", Some("200"))];
            assert!(ask(&server, &two).unwrap_err().to_string().starts_with("my.cnf:1: "));
            let names: Vec<String> = (0..1100).map(|number| format!("loose_innodb_x{number}")).collect();
            let mut many: Vec<_> = names.iter().map(|name| (name.as_str(), Some("1"))).collect();
            let told = ask(&server, &many).unwrap();
            assert!(told.ignored.len() <= MAX_REPORTED + 1, "{}", told.ignored.len());
            many.push(("innodb_nonsense", Some("1")));
            assert!(ask(&server, &many).unwrap_err().to_string().starts_with("my.cnf:1101: "));
            // What packages write is known.
            let usual = [
                ("user", Some("mysql")),
                ("skip_name_resolve", None),
                ("skip_networking", None),
                ("binlog_do_db", Some("x")),
                ("pid_file", Some("/run/x")),
                ("bind_address", Some("127.0.0.1")),
                ("character_set_server", Some("utf8mb4")),
                ("maximum_max_connections", Some("5")),
            ];
            let told = ask(&server, &usual).unwrap();
            assert!(told.ignored.is_empty(), "{}: {:?}", server.title, told.ignored);
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
    const COMPUTED_SETTINGS: [&str; 4] = [
        "innodb_io_capacity_max",
        "innodb_flush_method",
        "innodb_buffer_pool_instances",
        "innodb_page_cleaners",
    ];

    /// The defaults of the table are those of the server: a configuration that says each as the server lists it means the same.
    #[test]
    fn defaults_are_those_of_the_server() {
        for server in servers() {
            let said = super::ask(&server, &[], &Cancel::default()).unwrap().unwrap();
            let values = Known::of(&server, &said.output).unwrap().values;
            let listed: Vec<_> = values
                .iter()
                .filter(|(name, value)| {
                    name.starts_with("innodb_")
                        && !COMPUTED_SETTINGS.contains(&name.as_str())
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
        let rounds = crate::installed_server::rounds(40);
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
