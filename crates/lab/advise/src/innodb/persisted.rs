//! What `SET PERSIST` has written: MySQL reads `mysqld-auto.cnf` in its data directory after all option files (MySQL 8.4 manual,
//! "Persisted System Variables").

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::{
    listing::{self, content},
    settings::{Setting, Settings},
};

/// The data directory, if no option file says another.
const DATADIR: &str = "/var/lib/mysql";
/// The file's name.
const NAME: &str = "mysqld-auto.cnf";

/// Adds the persisted settings to those of the option files, if there are any. Files below `/etc` are those of this machine: where they name
/// no data directory, the usual one counts.
///
/// # Errors
/// The file makes no sense: the server does not start with it.
pub fn add(settings: &mut Settings, of: &Path) -> Result<()> {
    if settings.switch("persisted_globals_load")?.is_some_and(|(on, _)| !on) {
        return Ok(());
    }
    let said = settings.get("datadir").and_then(|setting| setting.value.as_deref());
    let said = said.filter(|said| !said.is_empty());
    let Some(directory) = said.or_else(|| of.starts_with("/etc").then_some(DATADIR)) else { return Ok(()) };
    let file = Path::new(directory).join(NAME);
    match listing::is_there(&file) {
        Ok(true) => {}
        Ok(false) => return Ok(()),
        Err(error) => {
            let unread = format!("what SET PERSIST has set: {} cannot be read ({error})", file.display());
            settings.ignored.push(unread);
            return Ok(());
        }
    }
    let wrong = || format!("{} is no file of SET PERSIST: the server does not start", file.display());
    let all: Value = serde_json::from_slice(&content(&file)?).with_context(wrong)?;
    let version = all.get("Version").and_then(Value::as_u64);
    anyhow::ensure!(matches!(version, Some(1 | 2)), "{}", wrong());
    gather(&all, &file, &mut settings.all);
    settings.files.push(file);
    Ok(())
}

/// The settings below a value: each is an object with a `Value`, whatever it lies in.
fn gather(of: &Value, file: &Path, found: &mut Vec<Setting>) {
    for (name, inner) in of.as_object().into_iter().flatten() {
        match inner.get("Value").and_then(Value::as_str) {
            Some(value) => found.push(Setting {
                group: String::new(),
                name: name.to_ascii_lowercase(),
                value: Some(value.to_owned()),
                switched: None,
                // The server starts with names that it does not know here.
                loose: true,
                file: PathBuf::from(file),
                line: 1,
            }),
            None => gather(inner, file, found),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As MySQL 9.7 writes it.
    const VERSION_2: &str = r#"{"Version": 2, "mysql_dynamic_variables": {"innodb_io_capacity": {"Value": "700", "Metadata": {"Host": "localhost", "User": "root", "Timestamp": 1}}}, "mysql_static_variables": {"innodb_page_cleaners": {"Value": "3", "Metadata": {"Host": "", "User": "", "Timestamp": 1}}}}"#;
    /// As MySQL 8.0 before 8.0.29 writes it.
    const VERSION_1: &str = r#"{ "Version" : 1 , "mysql_server" : { "innodb_io_capacity" : { "Value" : "700" , "Metadata" : { "Timestamp" : 1 , "User" : "root" , "Host" : "localhost" } } , "mysql_server_static_options" : { "innodb_page_cleaners" : { "Value" : "3" , "Metadata" : { "Timestamp" : 1 , "User" : "root" , "Host" : "localhost" } } } } }"#;

    fn read(text: Option<&str>, more: &[(&str, &str)]) -> Result<Settings> {
        let dir = tempfile::tempdir().unwrap();
        if let Some(text) = text {
            std::fs::write(dir.path().join(NAME), text).unwrap();
        }
        let datadir = dir.path().to_str().unwrap().to_owned();
        let all = more.iter().copied().chain([("datadir", &*datadir), ("innodb_io_capacity", "200")]);
        let mut settings = Settings::of_lines(all.map(|(name, value)| ("mysqld", name, Some(value))));
        add(&mut settings, Path::new("my.cnf"))?;
        Ok(settings)
    }

    #[test]
    fn persisted_settings_count_last_unless_they_are_not_loaded() {
        for text in [VERSION_2, VERSION_1] {
            let settings = read(Some(text), &[]).unwrap();
            let number = |name: &str| settings.number(name).unwrap().unwrap().0;
            assert_eq!((number("innodb_io_capacity"), number("innodb_page_cleaners")), (700, 3), "{text}");
            assert!(settings.files[0].ends_with(NAME));
            let settings = read(Some(text), &[("persisted_globals_load", "OFF")]).unwrap();
            assert_eq!(settings.number("innodb_io_capacity").unwrap().unwrap().0, 200);
        }
        assert!(read(None, &[]).unwrap().files.is_empty());
    }

    #[test]
    fn what_is_no_such_file_is_an_error() {
        for text in ["", "{", "[]", "{}", r#"{"Version": 3}"#, "[mysqld]\na=1\n"] {
            let error = format!("{:#}", read(Some(text), &[]).unwrap_err());
            assert!(error.contains("no file of SET PERSIST"), "{text}: {error}");
        }
    }
}
