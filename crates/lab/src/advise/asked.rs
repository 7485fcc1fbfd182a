//! Installed servers: what they make of a configuration is the truth, and what is read of its files is second to it.
//!
//! A server is started for a list of its settings only, as a user with few rights. It gets the settings that matter, and no others: it opens no
//! data, no socket, and no library that a configuration names.

use crate::advise::settings::Setting;

/// Whether a server may be given a setting. A line break in a value could forge a line of its answer.
pub fn is_plain(setting: &Setting) -> bool {
    setting.value.as_deref().is_none_or(|value| !value.contains(char::is_control))
}

/// Words of a server or a file without what a terminal would obey.
pub fn clean(text: &str) -> String {
    let shown = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    text.chars().map(shown).collect()
}

/// What the report says where nobody was asked.
pub fn alone(why: &str) -> String {
    format!("the files alone: {why}")
}

/// What it says of a server that was asked.
pub fn by(title: &str) -> String {
    format!("{title} of this machine")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_shown_as_text() {
        assert_eq!(clean("a\u{1b}[2Jb\u{7}\nü"), "a\\u{1b}[2Jb\\u{7}\\nü");
    }
}
