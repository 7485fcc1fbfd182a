//! `--set KEY=A,B,…`: what is varied, and the runs that this makes.

use anyhow::{Result, bail};

use lab_report::Misuse;

/// Most runs of a sweep.
pub(crate) const MAX_RUNS: usize = 10_000;

/// A key and the values that it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Axis {
    pub key: String,
    pub values: Vec<String>,
}

/// The axes of these settings.
///
/// # Errors
/// A setting makes no sense, or a key comes twice.
pub(crate) fn parse(settings: &[String]) -> Result<Vec<Axis>> {
    let mut axes: Vec<Axis> = Vec::new();
    for setting in settings {
        let Some((key, values)) = setting.split_once('=') else {
            bail!(Misuse(format!(
                "--set {setting}: there is no value: write --set KEY=VALUE or --set KEY=A,B,C"
            )));
        };
        let key = key.trim().to_owned();
        if key.is_empty() {
            bail!(Misuse(format!("--set {setting}: there is no key before the equals sign")));
        }
        if axes.iter().any(|axis| axis.key == key) {
            bail!(Misuse(format!(
                "--set {key} is given twice: write all values behind one, as in --set {key}=A,B"
            )));
        }
        let mut all = Vec::new();
        for value in values.split(',').map(str::trim) {
            if value.is_empty() {
                bail!(Misuse(format!("--set {setting}: a value is empty")));
            }
            match value.split_once("..") {
                Some((from, rest)) => range(from, rest, &mut all)
                    .map_err(|problem| Misuse(format!("--set {setting}: {value:?} {problem}")))?,
                None => all.push(value.to_owned()),
            }
            if all.len() > MAX_RUNS {
                bail!(Misuse(format!("--set {key} has more than {MAX_RUNS} values")));
            }
        }
        axes.push(Axis { key, values: all });
    }
    Ok(axes)
}

/// The numbers of a range `from..rest`, where `rest` is `to`, `to:STEP` or `to:xFACTOR`.
fn range(from: &str, rest: &str, all: &mut Vec<String>) -> Result<(), String> {
    let rule =
        || "is no range: write 1..5, 4..64:4 (in steps of 4), 1..64:x2 (doubled), 4KiB..64KiB:x2".to_owned();
    let (to, step) = rest.split_once(':').map_or((rest, None), |(to, step)| (to, Some(step)));
    let (first, unit) = number(from).ok_or_else(rule)?;
    let (last, same) = number(to).ok_or_else(rule)?;
    if unit != same {
        return Err(format!("is no range: both ends have the same unit, as in 4{same}..64{same}"));
    }
    if first > last {
        return Err("is no range: its end is below its beginning".to_owned());
    }
    let (factor, summand) = match step {
        None => (1, 1),
        Some(step) => match step.strip_prefix('x') {
            Some(factor) => (factor.parse::<u64>().ok().filter(|n| *n > 1).ok_or_else(rule)?, 0),
            None => match number(step.strip_prefix('+').unwrap_or(step)) {
                Some((summand, of)) if summand > 0 && (of.is_empty() || of == unit) => (1, summand),
                _ => return Err(rule()),
            },
        },
    };
    if factor > 1 && first == 0 {
        return Err("is no range: twice nothing is nothing".to_owned());
    }
    let mut value = first;
    while value <= last {
        if all.len() > MAX_RUNS {
            return Ok(());
        }
        all.push(format!("{value}{unit}"));
        match value.checked_mul(factor).and_then(|value| value.checked_add(summand)) {
            Some(next) => value = next,
            None => break,
        }
    }
    Ok(())
}

/// A whole number and the unit behind it.
fn number(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    unit.chars().all(|c| c.is_ascii_alphabetic() || c == '%').then_some(())?;
    Some((digits.parse().ok()?, unit))
}

/// Every combination of values: the last axis changes fastest. One, of nothing, if there are no axes.
///
/// # Errors
/// There are too many.
pub(crate) fn product(axes: &[Axis]) -> Result<Vec<Vec<(String, String)>>> {
    let count = axes.iter().try_fold(1usize, |count, axis| count.checked_mul(axis.values.len()));
    if count.is_none_or(|count| count > MAX_RUNS) {
        bail!("the lists of --set make more than {MAX_RUNS} runs");
    }
    let mut all = vec![Vec::new()];
    for axis in axes {
        let longer = |run: Vec<(String, String)>| {
            axis.values.iter().map(move |value| {
                let mut run = run.clone();
                run.push((axis.key.clone(), value.clone()));
                run
            })
        };
        all = all.into_iter().flat_map(longer).collect();
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(setting: &str) -> Result<Vec<String>, String> {
        parse(&[setting.to_owned()]).map(|mut axes| axes.remove(0).values).map_err(|e| e.to_string())
    }

    #[test]
    fn lists_and_ranges() {
        for (setting, expected) in [
            ("a=7%,12.5%", "7% 12.5%"),
            ("seed=1..5", "1 2 3 4 5"),
            ("seed = 3..3", "3"),
            ("a=1..64:x4,100", "1 4 16 64 100"),
            ("a=7%..28%:7", "7% 14% 21% 28%"),
            ("a=7%..28%:+10%", "7% 17% 27%"),
            ("a=4KiB..20KiB:x2", "4KiB 8KiB 16KiB"),
            ("a=b=c", "b=c"),
            ("a=18446744073709551615..18446744073709551615", "18446744073709551615"),
        ] {
            assert_eq!(values(setting).unwrap().join(" "), expected, "{setting}");
        }
        for (setting, problem) in [
            ("a", "there is no value"),
            ("=1", "there is no key"),
            ("a=1,,2", "a value is empty"),
            ("a=5..1", "below its beginning"),
            ("a=1k..2m", "the same unit"),
            ("a=0..8:x2", "twice nothing"),
            ("a=1..8:x1", "write 1..5"),
            ("a=1..8:0", "write 1..5"),
            ("a=x..8", "write 1..5"),
            ("a=1..1000000000", "more than 10000 values"),
        ] {
            let error = values(setting).unwrap_err();
            assert!(error.contains(problem), "{setting}: {error}");
        }
    }

    #[test]
    fn the_last_key_changes_fastest() {
        let axes = parse(&["a=1,2".into(), "b=x,y".into()]).unwrap();
        let all = product(&axes).unwrap();
        let shown: Vec<String> =
            all.iter().map(|run| run.iter().map(|(_, v)| v.as_str()).collect()).collect();
        assert_eq!(shown, ["1x", "1y", "2x", "2y"]);
        assert_eq!(product(&[]).unwrap(), [vec![]]);
        let wide = parse(&["a=1..200".into(), "b=1..200".into()]).unwrap();
        assert!(product(&wide).unwrap_err().to_string().contains("more than 10000 runs"));
        let twice = parse(&["a=1".into(), "a=2".into()]).unwrap_err().to_string();
        assert!(twice.contains("given twice"), "{twice}");
    }
}
