//! Installed servers. What they make of a configuration counts more than what is read of its files.
//!
//! A server is started as a user with few rights, for a list of its settings only. It gets the settings that matter, and no others. It opens no
//! data, no socket, and no library that a configuration names.

use anyhow::{Result, bail};

use super::{
    server::Server,
    settings::{Setting, Settings},
};
use lab_databases::database::Account;
use lab_report::control::Cancel;

/// Whether a server may be given a setting. A line break in a value could forge a line of its answer.
pub fn is_plain(setting: &Setting) -> bool {
    setting.value.as_deref().is_none_or(|value| !value.contains(char::is_control))
}

/// Words of a server or a file without what a terminal would obey.
pub fn clean(text: &str) -> String {
    let shown = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    text.chars().map(shown).collect()
}

/// Takes the values of the installed server of this title, if there is one and `ask`, which ends the question, is there. Returns who told
/// the values, for the report.
///
/// # Errors
/// As of the question.
pub fn take(
    settings: &mut Settings,
    server: Server,
    title: Option<&str>,
    ask: Option<&Cancel>,
    question: impl FnOnce(&Settings, &Cancel) -> Result<Option<Settings>>,
) -> Result<String> {
    let why = match (ask, title) {
        (None, _) => "--no-ask".to_owned(),
        (_, None) => format!("no {server} is installed here"),
        (Some(cancel), Some(title)) => match question(settings, cancel)? {
            Some(taken) => {
                *settings = taken;
                return Ok(format!("{title} of this machine"));
            }
            None => format!("{title} could not be asked"),
        },
    };
    Ok(format!("the files alone: {why}"))
}

/// A directory for a server's user, which goes with the value; none if there can be none.
pub fn directory(account: Account) -> Option<tempfile::TempDir> {
    tempfile::tempdir().ok().filter(|made| account.give(made.path()).is_ok())
}

/// A server does not start with a setting.
///
/// # Errors
/// Always.
pub fn refuse(setting: &Setting, title: &str, why: &str) -> Result<()> {
    bail!("{}: {title} does not start with it: {} (--no-ask asks no server)", setting.place(), clean(why))
}

/// Rounds of a campaign beside an installed server: so many, unless `TRANCHE_OPTION_FILE_ROUNDS` says otherwise.
#[cfg(test)]
pub fn rounds(usual: u64) -> u64 {
    std::env::var("TRANCHE_OPTION_FILE_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_shown_as_text() {
        assert_eq!(clean("a\u{1b}[2Jb\u{7}\nü"), "a\\u{1b}[2Jb\\u{7}\\nü");
    }
}
