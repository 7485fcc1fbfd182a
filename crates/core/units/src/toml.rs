//! Messages of TOML files, for people.

use crate::nearest;

/// What serde expects, by its own words and by those of a user.
const EXPECTED: [(&str, &str); 6] = [
    ("u8", "a whole number from 0 to 255"),
    ("u16", "a whole number from 0 to 65,535"),
    ("u32", "a whole number from 0 to 4,294,967,295"),
    ("u64", "a whole number from 0 to 18,446,744,073,709,551,615"),
    ("a sequence", "a list"),
    ("a map", "a table"),
];

/// What is wrong with a TOML text. `shown` is the parser's error with its place, which ends with `message`. Names of types become
/// what a user can write. A word that is not known gets the one that may have been meant.
#[must_use]
pub fn toml_error(shown: &str, message: &str) -> String {
    let mut text = shown.trim_end().to_owned();
    if let Some((before, expected)) = text.rsplit_once(", expected ") {
        let table = expected.starts_with("struct ").then_some("a table");
        let known = EXPECTED.iter().find(|(word, _)| *word == expected).map(|(_, words)| *words);
        if let Some(words) = table.or(known) {
            text = format!("{before}, expected {words}");
        }
    }
    if message == "integer number overflowed" {
        text.push_str(": there are whole numbers up to 18,446,744,073,709,551,615");
    }
    match meant(message) {
        Some(near) => format!("{text}: did you mean {near}?"),
        None => text,
    }
}

/// The word that was meant in a message of the form "unknown field `x`, expected one of `y`, `z`".
fn meant(message: &str) -> Option<&str> {
    let rest =
        message.strip_prefix("unknown field `").or_else(|| message.strip_prefix("unknown variant `"))?;
    let (word, expected) = rest.split_once('`')?;
    nearest(word, expected.split('`').skip(1).step_by(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_what_was_meant() {
        assert_eq!(meant("unknown field `spair`, expected one of `dies`, `spare`"), Some("spare"));
        assert_eq!(meant("unknown variant `greddy`, expected `greedy` or `fifo`"), Some("greedy"));
        assert_eq!(meant("unknown field `spair`"), None);
        assert_eq!(meant("missing field `dies`"), None);
        let text = toml_error(
            "at line 1\nunknown field `dyes`, expected `dies`\n",
            "unknown field `dyes`, expected `dies`",
        );
        assert_eq!(text, "at line 1\nunknown field `dyes`, expected `dies`: did you mean dies?");
    }

    #[test]
    fn types_are_said_in_words() {
        let message = "invalid value: integer `-1`, expected u16";
        let text = toml_error(&format!("at line 1\n{message}\n"), message);
        assert_eq!(text, "at line 1\ninvalid value: integer `-1`, expected a whole number from 0 to 65,535");
        let message = "invalid type: integer `5`, expected struct GcConfig";
        assert_eq!(toml_error(message, message), "invalid type: integer `5`, expected a table");
        let message = "invalid type: string \"x\", expected a boolean";
        assert_eq!(toml_error(message, message), message);
    }
}
