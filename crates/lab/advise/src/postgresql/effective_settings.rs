//! What an installed PostgreSQL makes of settings: `postgres -C NAME` says the value that it takes.
//!
//! The server gets a file of the settings that matter. Others of a configuration may name libraries, or depend on the machine: locales, time
//! zones, the size of the stack.

use std::fs;

use anyhow::Result;

use crate::{
    installed_server::{directory, is_plain, refuse},
    settings::{Setting, Settings},
};
use lab_databases::{postgresql::Server, process};
use lab_report::control::Cancel;

/// Settings with the values that a server takes for `names`; none if it cannot say.
///
/// # Errors
/// It does not start with them; the work is to end.
pub fn settings(
    server: &Server,
    settings: &Settings,
    names: &[String],
    cancel: &Cancel,
) -> Result<Option<Settings>> {
    let told = settings.that_count();
    let asked = names.iter().filter_map(|name| told.get(name.as_str()).copied());
    let asked: Vec<&Setting> = asked.filter(|setting| is_plain(setting)).collect();
    let text: String = asked.iter().map(|setting| line(setting)).collect();
    let Some(directory) = directory(server.account) else { return Ok(None) };
    let file = directory.path().join("postgresql.conf");
    if fs::write(&file, text).is_err() || server.account.give(&file).is_err() {
        return Ok(None);
    }
    let mut taken = settings.clone();
    for setting in &asked {
        let mut command = server.account.command(&server.programs.join("postgres"));
        command.args(["-C", &setting.name, "-D"]).arg(directory.path());
        let Some(said) = process::ask(&mut command, cancel)? else { return Ok(None) };
        if !said.success {
            let Some((setting, why)) = refusal(&said.messages, &asked) else { return Ok(None) };
            refuse(setting, &server.title, why)?;
        }
        let value = said.output.trim_end_matches('\n');
        if value.is_empty() || value.contains('\n') {
            return Ok(None);
        }
        if let Some(last) = taken.all.iter_mut().rfind(|last| last.name == setting.name) {
            last.value = Some(value.to_owned());
        }
    }
    Ok(Some(taken))
}

/// A setting in a file for the server.
fn line(setting: &Setting) -> String {
    let value = setting.value.as_deref().unwrap_or("").replace('\\', "\\\\").replace('\'', "''");
    format!("{} = '{value}'\n", setting.name)
}

/// What a server objects to, and of which setting; none if it objects to something else.
fn refusal<'a, 'b>(messages: &'b str, asked: &[&'a Setting]) -> Option<(&'a Setting, &'b str)> {
    let mut said = messages.lines().filter_map(|line| line.split_once(":  ").map(|(_, said)| said.trim()));
    said.find_map(|said| {
        let setting = asked.iter().find(|setting| said.contains(&format!("\"{}\"", setting.name)))?;
        Some((*setting, said))
    })
}

#[cfg(test)]
mod tests {
    use super::super::{database::Database, file};
    use super::*;
    use crate::server;
    use testkit::skipped;

    fn server() -> Option<Server> {
        let found = Server::installed(&Cancel::default()).unwrap();
        if found.is_none() {
            skipped("values of settings", "there is no PostgreSQL");
        }
        found
    }

    fn read(text: &str) -> file::Files {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("postgresql.conf");
        fs::write(&path, text).unwrap();
        file::read(&path).unwrap()
    }

    fn ask(server: &Server, files: &file::Files) -> Result<Settings> {
        let names: Vec<String> = files.settings.that_count().into_keys().map(str::to_owned).collect();
        let told = settings(server, &files.settings, &names, &Cancel::default())?;
        Ok(told.expect("it answers"))
    }

    #[test]
    fn what_a_server_objects_to_is_told_with_its_place() {
        let Some(server) = server() else { return };
        let error = ask(&server, &read("fsync = on\nbgwriter_delay = 5ms\n")).unwrap_err().to_string();
        assert!(
            error.contains("postgresql.conf:2: PostgreSQL ") && error.contains("bgwriter_delay"),
            "{error}"
        );
        // It is given words with quotes and escapes as they are.
        let error = ask(&server, &read("wal_compression = 'a''b\\\\c'\n")).unwrap_err().to_string();
        assert!(error.contains("a'b\\c"), "{error}");
    }

    /// Random settings: what is read of files means what the server makes of them, where the server takes them.
    #[test]
    fn files_mean_what_the_server_takes() {
        let Some(server) = server() else { return };
        let of = server::Server::of(server::Kind::PostgreSql, (server.major, 0)).unwrap();
        let pairs: [(&str, &[&str]); 8] = [
            ("shared_buffers", &["128MB", "'1 GB'", "16384", "'1.5GB'", "0x4000", "1G", "'2TB'", "8"]),
            ("max_wal_size", &["1GB", "2000", "'0.5GB'", "64MB", "33MB", "1TB"]),
            ("checkpoint_timeout", &["5min", "300", "'1 h'", "30s", "1.5h", "10", "2d"]),
            ("checkpoint_completion_target", &["0.9", ".5", "1", "9e-1", "2"]),
            ("full_page_writes", &["on", "of", "fals", "1", "yes", "o", "TRUE"]),
            ("synchronous_commit", &["on", "off", "local", "remote_write", "0", "tru"]),
            ("wal_buffers", &["-1", "16MB", "64", "'4 kB'", "0"]),
            ("bgwriter_lru_multiplier", &["2", "2.5", "0", "11"]),
        ];
        let (rounds, mut agreed) = (crate::installed_server::rounds(40), 0);
        for seed in 0..rounds {
            let mut rng = rng::Rng::new(seed);
            let mut text = String::new();
            for _ in 0..2 {
                let (name, values) = pairs[rng.below(pairs.len() as u64) as usize];
                text += &format!("{name} = {}\n", values[rng.below(values.len() as u64) as usize]);
            }
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("postgresql.conf");
            fs::write(&path, &text).unwrap();
            // What makes no sense in either way is no silent mistake.
            let Ok(mut files) = file::read(&path) else { continue };
            let (Ok(told), Ok(alone)) = (ask(&server, &files), Database::read(&files, of)) else { continue };
            files.settings = told;
            let theirs = Database::read(&files, of).unwrap();
            let meaning = |of: Database| Database { rows: Vec::new(), left_out: Vec::new(), ..of };
            assert_eq!(meaning(alone), meaning(theirs), "seed {seed}: {text}");
            agreed += 1;
        }
        assert!(agreed > rounds / 10, "{agreed} of {rounds}");
    }
}
