//! Keys of a drive's TOML that are missing or unknown. A person who writes a file is told all of them at once.

use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The keys that a set on flash must have, with values that any drive can have.
const NAND: &str = "cell = \"tlc\"\nchannels = 1\ndies = 1\nplanes = 1\nnand_page = \"16KiB\"\npages_per_block = 3\nrated_cycles = 1";
/// The keys that a disk must have, likewise.
const DISK: &str = "rpm = 1\nheads = 1\ncylinders = 1\nouter_sectors = 1\ninner_sectors = 1\nread_seek = [\"1ms\", \"1ms\", \"1ms\"]";
/// The keys that a namespace must have, likewise.
const NAMESPACE: &str = "size = \"1MiB\"";
/// The keys that a fault must have, likewise.
const FAULT: &str = "kind = \"drop\"";

/// Gives tables of a text the keys that they lack, so that they can be read on. Returns which these are, a line for each table.
pub(crate) fn complete(document: &mut DeTable<'_>, text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, required) in [("set", None), ("namespace", Some(NAMESPACE)), ("fault", Some(FAULT))] {
        let Some(DeValue::Array(tables)) = document.get_mut(name).map(Spanned::get_mut) else { continue };
        for (number, table) in (1..).zip(tables.iter_mut()) {
            let line = 1 + text.bytes().take(table.span().start).filter(|byte| *byte == b'\n').count();
            let DeValue::Table(table) = table.get_mut() else { continue };
            let of_media = || match table.get("media")?.get_ref().as_str()? {
                "nand" => Some(NAND),
                "disk" => Some(DISK),
                _ => None,
            };
            let Some(required) = required.or_else(of_media) else { continue };
            let Ok(required) = DeTable::parse(required) else { continue };
            let mut missing = Vec::new();
            for (key, value) in required.into_inner() {
                if !table.contains_key(&**key.get_ref()) {
                    missing.push((key.span().start, key.get_ref().to_string()));
                    table.insert(key, value);
                }
            }
            missing.sort();
            if !missing.is_empty() {
                let keys: Vec<String> = missing.into_iter().map(|(_, key)| key).collect();
                lines.push(format!("at line {line}, {name}.{number} lacks {}", keys.join(", ")));
            }
        }
    }
    lines
}

/// Takes out the key that an error is about, if it is an unknown one. Whether it did.
pub(crate) fn remove_unknown(document: &mut DeTable<'_>, error: &toml::de::Error) -> bool {
    let name = error.message().strip_prefix("unknown field `").and_then(|rest| rest.split_once('`'));
    match (name, error.span()) {
        (Some((name, _)), Some(span)) => remove(document, name, &span),
        _ => false,
    }
}

fn remove(table: &mut DeTable<'_>, name: &str, span: &Range<usize>) -> bool {
    if table.keys().any(|key| &**key.get_ref() == name && key.span() == *span) {
        return table.remove(name).is_some();
    }
    table.iter_mut().any(|(_, value)| remove_within(value.get_mut(), name, span))
}

fn remove_within(value: &mut DeValue<'_>, name: &str, span: &Range<usize>) -> bool {
    match value {
        DeValue::Table(table) => remove(table, name, span),
        DeValue::Array(values) => values.iter_mut().any(|value| remove_within(value.get_mut(), name, span)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use crate::Config;
    use crate::drive_toml::DEFAULT_DRIVE;

    fn error(text: &str) -> String {
        Config::from_toml(text).unwrap_err().to_string()
    }

    #[test]
    fn all_missing_keys_are_told_at_once() {
        let text = "[[set]]\nmedia = \"nand\"\ndies = 4\n[[set]]\nmedia = \"disk\"\n[[namespace]]\n[[namespace]]\nsize = \"1MiB\"\n";
        assert_eq!(
            error(text),
            "at line 1, set.1 lacks cell, channels, planes, nand_page, pages_per_block, rated_cycles\n\
             at line 4, set.2 lacks rpm, heads, cylinders, outer_sectors, inner_sectors, read_seek\n\
             at line 6, namespace.1 lacks size"
        );
    }

    #[test]
    fn all_unknown_keys_are_told_at_once_and_with_the_missing_ones() {
        let text = DEFAULT_DRIVE
            .replace("[drive]", "[drive]\nsereal = \"x\"")
            .replace("channels = 4", "chanels = 4")
            .replace("program = \"700us\"", "programm = \"700us\"")
            .replace("lba = 4096", "lbas = 4096");
        let said = error(&text);
        assert!(said.contains(", set.1 lacks channels\n"), "{said}");
        let meant = ["serial", "channels", "program", "lba"];
        assert!(meant.iter().all(|meant| said.contains(&format!("did you mean {meant}?"))), "{said}");
        assert_eq!(said.matches("unknown field").count(), meant.len(), "{said}");
        // A value that is wrong ends the list.
        let said = error(&text.replace("dies = 4", "dies = \"four\""));
        assert!(said.contains("lacks channels") && said.contains("dies = \"four\""), "{said}");
    }
}
