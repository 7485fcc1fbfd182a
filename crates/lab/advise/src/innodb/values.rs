//! Values of option files: switches, numbers with K to E, and prefixes of names.

use anyhow::Result;

use crate::settings::{Setting, Settings};

impl Settings {
    /// Those of some groups only, with prefixes of option files (`loose_`, `skip_`, `disable_`, `enable_`) taken away.
    #[must_use]
    pub fn of_groups(&self, wanted: impl Fn(&str) -> bool) -> Self {
        let all = self.all.iter().filter(|setting| wanted(&setting.group)).cloned().map(plain).collect();
        Self { all, ..self.clone() }
    }

    /// A switch: on, off, or alone, which is on.
    ///
    /// # Errors
    /// It is no switch.
    pub fn switch(&self, name: &str) -> Result<Option<(bool, &Setting)>> {
        let Some(setting) = self.get(name) else { return Ok(None) };
        let on = setting.switched.or_else(|| switch(setting.value.as_deref()));
        let on = on.ok_or_else(|| setting.wrong("it is on, true, 1, off, false or 0"))?;
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
        (setting.loose, setting.name) = (true, rest.to_owned());
    }
    for (prefix, on) in [("skip_", false), ("disable_", false), ("enable_", true)] {
        let Some(rest) = setting.name.strip_prefix(prefix) else { continue };
        // A value of 0 turns the prefix around. No other does.
        let is_on = on == (setting.value.as_deref() != Some("0"));
        (setting.switched, setting.value) = (Some(is_on), Some(if is_on { "ON" } else { "OFF" }.to_owned()));
        setting.name = rest.to_owned();
        break;
    }
    setting
}

/// A switch of an option file; an option alone is on. Of other words MariaDB takes the default, and MySQL takes off.
pub fn switch(text: Option<&str>) -> Option<bool> {
    let Some(text) = text else { return Some(true) };
    match text.to_ascii_lowercase().as_str() {
        "on" | "1" | "true" => Some(true),
        "off" | "0" | "false" => Some(false),
        _ => None,
    }
}

/// A number of an option file: K, M, G, T, P, E in either case are powers of 1,024 (MySQL 8.4 manual, "Program Option Modifiers" and "Using
/// Options to Set Program Variables"). The servers look at that letter alone: what follows it means nothing, as in `4GB` and `256M ; half`.
pub fn number(text: &str) -> Option<u64> {
    let text = text.trim_start();
    let (digits, suffix) = text.split_at(text.bytes().take_while(u8::is_ascii_digit).count());
    let shift = match suffix.bytes().next().map(|letter| letter.to_ascii_uppercase()) {
        None => 0,
        Some(b'K') => 10,
        Some(b'M') => 20,
        Some(b'G') => 30,
        Some(b'T') => 40,
        Some(b'P') => 50,
        Some(b'E') => 60,
        Some(_) => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

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
            ("12MBB", Some(12 << 20)),
            ("12MX", Some(12 << 20)),
            ("256M ; pool", Some(256 << 20)),
            (" 5", Some(5)),
            ("5 ", None),
            ("-1", None),
            ("16E", None),
            ("99999999999999999999", None),
            ("1ä", None),
        ] {
            assert_eq!(number(text), wanted, "{text}");
        }
        assert_eq!(
            [None, Some("On"), Some("1"), Some("FALSE"), Some("off"), Some("yes"), Some("")].map(switch),
            [Some(true), Some(true), Some(true), Some(false), Some(false), None, None]
        );
    }

    #[test]
    fn the_last_counts_and_prefixes_are_understood() {
        let all = Settings::of_lines([
            ("mysqld", "innodb_doublewrite", Some("ON")),
            ("client", "sync_binlog", Some("7")),
            ("mysqld", "skip_innodb_doublewrite", None),
            ("mysqld", "loose_sync_binlog", Some("1")),
            ("mysqld", "skip_log_bin", Some("0")),
            ("mysqld", "loose_enable_x", None),
            ("mysqld", "disable_y", None),
            ("mysqld", "skip_w", Some("OFF")),
        ]);
        let all = all.of_groups(|group| group == "mysqld");
        assert!(!all.switch("innodb_doublewrite").unwrap().unwrap().0);
        assert_eq!(all.number("sync_binlog").unwrap().unwrap().0, 1);
        assert!(all.switch("log_bin").unwrap().unwrap().0);
        assert!(all.switch("x").unwrap().unwrap().0);
        assert!(!all.switch("y").unwrap().unwrap().0);
        assert!(!all.switch("w").unwrap().unwrap().0, "no value but 0 turns a prefix around");
        assert!(all.get("z").is_none());
    }

    #[test]
    fn what_cannot_be_read_is_told_with_its_place() {
        let all = Settings::of_lines([("mysqld", "a", Some("12 parsecs"))]);
        let error = all.number("a").unwrap_err().to_string();
        assert!(error.starts_with("my.cnf:1: a = \"12 parsecs\": it is a whole number"), "{error}");
        assert!(all.switch("a").is_err());
    }
}
