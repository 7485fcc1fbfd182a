//! Keys of `--set` that mean a value of the drive's TOML.

use anyhow::{Result, anyhow, bail};
use toml::{Table, Value};

/// Short names of tables of the first NVM Set on flash.
const OF_THE_SET: [&str; 5] = ["gc", "timing", "placement", "window", "faults"];

/// The keys that there are, in words.
pub(crate) fn words() -> String {
    format!(
        "those of the drive's TOML: drive.KEY, link.KEY, set.N.KEY, namespace.N.KEY; for the first NVM Set on flash ftl.KEY, and {}",
        OF_THE_SET.map(|table| format!("{table}.KEY")).join(", ")
    )
}

/// Which of the tables, or of these words, was meant by the first part of a key, in words.
pub(crate) fn meant(key: &str, words: &[&str]) -> String {
    let first = key.split('.').next().unwrap_or(key);
    let tables = ["drive", "link", "set", "namespace", "ftl"];
    let all = tables.iter().chain(&OF_THE_SET).chain(words).copied();
    units::nearest(first, all).map(|near| format!("; did you mean {near}?")).unwrap_or_default()
}

/// Gives a key of a drive's TOML its value. Whether it is one: other keys are left to others.
///
/// # Errors
/// There is no such key, or it cannot have this value. Whether the drive can be so is not looked at.
pub(crate) fn set(drive: &mut Table, key: &str, text: &str) -> Result<bool> {
    let parts: Vec<&str> = key.split('.').collect();
    if parts.iter().any(|part| part.is_empty()) {
        bail!("{key:?} is no key: write TABLE.KEY, such as set.1.spare");
    }
    match parts[..] {
        ["drive" | "link", _, ..] => put(drive, &parts, text)?,
        ["set" | "namespace", number, _, ..] => {
            let table = element(drive, parts[0], number)?;
            drive_value(table, &parts[2..], text, parts[0] == "set")?;
        }
        ["ftl", _, ..] => drive_value(flash(drive)?, &parts[1..], text, true)?,
        [table, _, ..] if OF_THE_SET.contains(&table) => drive_value(flash(drive)?, &parts, text, true)?,
        _ => return Ok(false),
    }
    Ok(true)
}

/// The first NVM Set on flash.
fn flash(drive: &mut Table) -> Result<&mut Table> {
    let sets = drive.get_mut("set").and_then(Value::as_array_mut);
    let mut tables = sets.into_iter().flatten().filter_map(Value::as_table_mut);
    tables
        .find(|set| set.get("media").and_then(Value::as_str) == Some("nand"))
        .ok_or_else(|| anyhow!("the drive has no NVM Set on flash"))
}

/// One of a list of tables, counted from 1.
fn element<'a>(drive: &'a mut Table, list: &str, number: &str) -> Result<&'a mut Table> {
    let all = drive.get_mut(list).and_then(Value::as_array_mut).map(Vec::as_mut_slice).unwrap_or_default();
    let count = all.len();
    let index = number.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
    index.and_then(|index| all.get_mut(index)).and_then(Value::as_table_mut).ok_or_else(|| match count {
        0 => anyhow!("the drive has no table {list}"),
        count => anyhow!("the drive has {list}.1 to {list}.{count}, and no {list}.{number}"),
    })
}

/// Two of these determine the third.
const SIZES: [&str; 3] = ["superblocks", "spare", "capacity"];

/// A value of an NVM Set or a namespace.
fn drive_value(table: &mut Table, path: &[&str], text: &str, set: bool) -> Result<()> {
    if let [key] = path
        && set
        && SIZES.contains(key)
        && !table.contains_key(*key)
    {
        // The one that was not given before gives way: superblocks, if it may.
        let others = SIZES.into_iter().filter(|other| other != key && table.contains_key(*other));
        let others: Vec<&str> = others.collect();
        if let [gives_way, _] = others[..] {
            table.remove(gives_way);
        }
    }
    put(table, path, text)
}

/// Puts a value where a path of tables leads.
fn put(table: &mut Table, path: &[&str], text: &str) -> Result<()> {
    let Some((last, tables)) = path.split_last() else { return Ok(()) };
    let mut at = table;
    for name in tables {
        let next = at.entry(*name).or_insert_with(|| Table::new().into());
        at = next.as_table_mut().ok_or_else(|| anyhow!("{name:?} is a value, not a table"))?;
    }
    let value = match at.get(*last) {
        Some(Value::Table(_) | Value::Array(_)) if !text.starts_with(['[', '{']) && is_table(at, last) => {
            bail!("{last:?} is a table: write {last}.KEY")
        }
        Some(Value::String(_)) => Value::String(text.to_owned()),
        _ => value(text),
    };
    at.insert((*last).to_owned(), value);
    Ok(())
}

fn is_table(at: &Table, key: &str) -> bool {
    at.get(key).is_some_and(Value::is_table)
}

/// A value as TOML has it, if it is one; else a text.
fn value(text: &str) -> Value {
    let parsed = toml::from_str::<Table>(&format!("value = {text}")).ok();
    let parsed = parsed.filter(|table| table.len() == 1).and_then(|mut table| table.remove("value"));
    parsed.unwrap_or_else(|| Value::String(text.to_owned()))
}
