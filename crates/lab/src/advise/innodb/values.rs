//! Values of option files: switches, numbers with K to E, and prefixes of names.

use anyhow::Result;

use crate::advise::settings::{Setting, Settings};

impl Settings {
    /// Those of some groups only, with prefixes of option files (`loose_`, `skip_`, `disable_`, `enable_`) taken away.
    #[must_use]
    pub fn of_groups(&self, wanted: impl Fn(&str) -> bool) -> Self {
        let all = self.all.iter().filter(|setting| wanted(&setting.group)).cloned().map(plain).collect();
        Self { all, files: self.files.clone() }
    }

    /// A switch: on, off, or alone, which is on.
    ///
    /// # Errors
    /// It is no switch.
    pub fn switch(&self, name: &str) -> Result<Option<(bool, &Setting)>> {
        let Some(setting) = self.get(name) else { return Ok(None) };
        let on = switch(setting.value.as_deref()).ok_or_else(|| setting.wrong("it is on or off"))?;
        Ok(Some((on, setting)))
    }

    /// A number, perhaps with K, M, G, T, P or E.
    ///
    /// # Errors
    /// It is no such number.
    pub fn number(&self, name: &str) -> Result<Option<(u64, &Setting)>> {
        let Some(setting) = self.get(name) else { return Ok(None) };
        let number = setting.value.as_deref().and_then(number);
        let number = number
            .ok_or_else(|| setting.wrong("it is a whole number, perhaps with K, M, G or T behind it"))?;
        Ok(Some((number, setting)))
    }
}

/// The setting that the server makes of an option with a prefix.
fn plain(mut setting: Setting) -> Setting {
    if let Some(rest) = setting.name.strip_prefix("loose_") {
        setting.name = rest.to_owned();
    }
    for (prefix, on) in [("skip_", false), ("disable_", false), ("enable_", true)] {
        let Some(rest) = setting.name.strip_prefix(prefix) else { continue };
        // With a value, as in `skip_log_bin=0`, the prefix holds if the value is on.
        let holds = switch(setting.value.as_deref()).unwrap_or(true);
        setting.value = Some(if on == holds { "ON" } else { "OFF" }.to_owned());
        setting.name = rest.to_owned();
        break;
    }
    setting
}

/// A switch of an option file; nothing is on.
pub fn switch(text: Option<&str>) -> Option<bool> {
    let Some(text) = text else { return Some(true) };
    match text.to_ascii_lowercase().as_str() {
        "" | "on" | "1" | "true" | "yes" => Some(true),
        "off" | "0" | "false" | "no" => Some(false),
        _ => None,
    }
}

/// A number of an option file: K, M, G, T, P, E in either case are powers of 1,024 (MySQL 8.4 manual, "Program Option Modifiers" and "Using
/// Options to Set Program Variables"). The servers look at that letter alone, so `4GB` and `300MiB` are common, too.
pub fn number(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let suffix = text[digits.len()..].to_ascii_uppercase();
    let letter = match suffix.strip_suffix("IB").or_else(|| suffix.strip_suffix('B')) {
        // Not bytes alone: the servers know no such unit.
        Some("") => return None,
        Some(letter) => letter,
        None => &suffix,
    };
    let shift = match letter {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        "P" => 50,
        "E" => 60,
        _ => return None,
    };
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(all: &[(&str, &str, Option<&str>)]) -> Settings {
        let setting = |(line, &(group, name, value)): (u32, &(&str, &str, Option<&str>))| Setting {
            group: group.into(),
            name: name.into(),
            value: value.map(str::to_owned),
            file: "my.cnf".into(),
            line,
        };
        Settings { all: (1..).zip(all).map(setting).collect(), files: Vec::new() }
    }

    #[test]
    fn numbers_have_suffixes_and_switches_words() {
        for (text, wanted) in [
            ("0", Some(0)),
            ("128M", Some(128 << 20)),
            ("2g", Some(2 << 30)),
            ("16K", Some(16 << 10)),
            ("1T", Some(1 << 40)),
            ("", None),
            ("M", None),
            ("1.5G", None),
            ("12MB", Some(12 << 20)),
            ("300MiB", Some(300 << 20)),
            ("12B", None),
            ("12MBB", None),
            ("12MX", None),
            ("-1", None),
            ("16E", None),
            ("99999999999999999999", None),
            ("1ä", None),
        ] {
            assert_eq!(number(text), wanted, "{text}");
        }
        assert_eq!(
            [None, Some("On"), Some("1"), Some("FALSE"), Some("off"), Some("perhaps")].map(switch),
            [Some(true), Some(true), Some(true), Some(false), Some(false), None]
        );
    }

    #[test]
    fn the_last_counts_and_prefixes_are_understood() {
        let all = settings(&[
            ("mysqld", "innodb_doublewrite", Some("ON")),
            ("client", "sync_binlog", Some("7")),
            ("mysqld", "skip_innodb_doublewrite", None),
            ("mysqld", "loose_sync_binlog", Some("1")),
            ("mysqld", "skip_log_bin", Some("0")),
            ("mysqld", "loose_enable_x", None),
            ("mysqld", "disable_y", None),
        ]);
        let all = all.of_groups(|group| group == "mysqld");
        assert!(!all.switch("innodb_doublewrite").unwrap().unwrap().0);
        assert_eq!(all.number("sync_binlog").unwrap().unwrap().0, 1);
        assert!(all.switch("log_bin").unwrap().unwrap().0);
        assert!(all.switch("x").unwrap().unwrap().0);
        assert!(!all.switch("y").unwrap().unwrap().0);
        assert!(all.get("z").is_none());
    }

    #[test]
    fn what_cannot_be_read_is_told_with_its_place() {
        let all = settings(&[("mysqld", "a", Some("12 parsecs"))]);
        let error = all.number("a").unwrap_err().to_string();
        assert!(error.starts_with("my.cnf:1: a = \"12 parsecs\": it is a whole number"), "{error}");
        assert!(all.switch("a").is_err());
    }
}
