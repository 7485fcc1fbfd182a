//! Selectors: where a result has our figure.
//!
//! | part | value |
//! |---|---|
//! | `@nand[threads=64].metrics.tpmC` | of the runs of variant `nand` at exactly this point: their metric. `[]` is the point without axes; without brackets, all runs |
//! | `$.figures[figure=read_latency].measured` | from the root of the document: fields, and elements of lists that have these values |
//! | `$.runs.simulation[parameters/seed=1].write_amplification` | a `/` leads into objects: the runs of a sweep by their parameters |
//! | `sum(PATH)`, `geomean(PATH)` | sum, or geometric mean, of all numbers that a path finds. Without it, the median: repetitions of a run |
//! | `+ - * / ( )`, numbers | arithmetic; operators stand between blanks |

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

/// The figure that a selector finds in a document.
///
/// # Errors
/// The selector is no expression, or finds no number.
pub fn evaluate(selector: &str, document: &Value) -> Result<f64> {
    let words: Vec<&str> = selector.split_whitespace().collect();
    let mut parser = Parser { words: &words, document };
    let value = parser.sum().with_context(|| format!("the selector {selector:?}"))?;
    ensure!(parser.words.is_empty(), "the selector {selector:?}: {:?} is too much", parser.words.join(" "));
    ensure!(value.is_finite(), "the selector {selector:?} finds no finite number");
    Ok(value)
}

struct Parser<'a> {
    words: &'a [&'a str],
    document: &'a Value,
}

impl Parser<'_> {
    fn take(&mut self, any: &[&str]) -> Option<String> {
        let (first, rest) = self.words.split_first()?;
        any.contains(first).then(|| {
            self.words = rest;
            (*first).to_owned()
        })
    }

    fn sum(&mut self) -> Result<f64> {
        let mut value = self.product()?;
        while let Some(operator) = self.take(&["+", "-"]) {
            let next = self.product()?;
            value = if operator == "+" { value + next } else { value - next };
        }
        Ok(value)
    }

    fn product(&mut self) -> Result<f64> {
        let mut value = self.factor()?;
        while let Some(operator) = self.take(&["*", "/"]) {
            let next = self.factor()?;
            value = if operator == "*" { value * next } else { value / next };
        }
        Ok(value)
    }

    fn factor(&mut self) -> Result<f64> {
        if self.take(&["("]).is_some() {
            let value = self.sum()?;
            ensure!(self.take(&[")"]).is_some(), "a parenthesis is not closed");
            return Ok(value);
        }
        let Some((word, rest)) = self.words.split_first() else { bail!("it ends too early") };
        self.words = rest;
        if let Ok(number) = word.parse() {
            return Ok(number);
        }
        let of = |name: &str| word.strip_prefix(name)?.strip_prefix('(')?.strip_suffix(')');
        if let Some(path) = of("sum") {
            return Ok(find(path, self.document)?.iter().sum());
        }
        if let Some(path) = of("geomean") {
            let logs: Vec<f64> = find(path, self.document)?.iter().map(|value| value.ln()).collect();
            return Ok(crate::score::mean(&logs).unwrap_or(f64::NAN).exp());
        }
        crate::score::median(&find(word, self.document)?).context("no number")
    }
}

/// The numbers that a path leads to: at least one.
fn find(path: &str, document: &Value) -> Result<Vec<f64>> {
    let mut rest = path;
    let mut found = match rest.chars().next() {
        Some('@') => {
            let name = word(&rest[1..]);
            rest = &rest[1 + name.len()..];
            runs(document, name, point(&mut rest)?.as_deref())
        }
        Some('$') => {
            rest = &rest[1..];
            vec![document]
        }
        _ => bail!("{path:?} starts with neither @ nor $"),
    };
    while !rest.is_empty() {
        if let Some(values) = point(&mut rest)? {
            found.retain(|value| values.iter().all(|(key, wanted)| has(value, key, wanted)));
        } else if let Some(more) = rest.strip_prefix('.') {
            let name = word(more);
            ensure!(!name.is_empty(), "{path:?}: a name is missing before {more:?}");
            rest = &more[name.len()..];
            found = found.into_iter().filter_map(|value| value.get(name)).flat_map(elements).collect();
        } else {
            bail!("{path:?}: {rest:?} is neither .NAME nor [KEY=VALUE]");
        }
    }
    let numbers: Vec<f64> = found.into_iter().filter_map(Value::as_f64).collect();
    ensure!(!numbers.is_empty(), "{path:?} leads to no number");
    Ok(numbers)
}

/// The name at the start of a text.
fn word(text: &str) -> &str {
    let is_of_name = |c: char| c.is_alphanumeric() || "_-".contains(c);
    &text[..text.find(|c| !is_of_name(c)).unwrap_or(text.len())]
}

/// Takes `[KEY=VALUE,…]` from the start of a text, if it is there.
fn point<'a>(rest: &mut &'a str) -> Result<Option<Vec<(&'a str, &'a str)>>> {
    let Some(inside) = rest.strip_prefix('[') else { return Ok(None) };
    let Some((inside, behind)) = inside.split_once(']') else { bail!("{rest:?} lacks a closing bracket") };
    let pairs = inside.split(',').filter(|pair| !pair.is_empty()).map(|pair| pair.split_once('='));
    let pairs: Option<Vec<_>> = pairs.collect();
    let Some(pairs) = pairs else { bail!("[{inside}] is not [KEY=VALUE,…]") };
    *rest = behind;
    Ok(Some(pairs))
}

fn elements(value: &Value) -> Vec<&Value> {
    value.as_array().map_or_else(|| vec![value], |all| all.iter().collect())
}

fn has(value: &Value, key: &str, wanted: &str) -> bool {
    let found = key.split('/').try_fold(value, |value, name| value.get(name));
    match found {
        Some(Value::String(text)) => text == wanted,
        Some(Value::Number(number)) => *wanted == *number.to_string(),
        Some(Value::Bool(flag)) => wanted.parse() == Ok(*flag),
        _ => false,
    }
}

/// The runs of a study's variant, at a point if one is given.
fn runs<'a>(document: &'a Value, name: &str, point: Option<&[(&str, &str)]>) -> Vec<&'a Value> {
    let variants = document.get("variants").map(elements).unwrap_or_default();
    let of_name = variants.into_iter().filter(|variant| has(variant, "name", name));
    let runs = of_name.filter_map(|variant| variant.get("runs")).flat_map(elements);
    let is_there = |run: &&Value| {
        let at = run.get("at").and_then(Value::as_object);
        point.is_none_or(|point| {
            at.map_or(0, serde_json::Map::len) == point.len()
                && point.iter().all(|(key, wanted)| has(&run["at"], key, wanted))
        })
    };
    runs.filter(is_there).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results() -> Value {
        let run = |threads: u64, tpmc: f64, writes: u64| {
            serde_json::json!({"at": {"threads": threads}, "seconds": 60.0, "metrics": {"tpmC": tpmc},
                "namespaces": [{"medium": "nand", "writes": writes}, {"medium": "dram", "writes": 1}]})
        };
        let nand = [run(4, 1.0, 60), run(4, 3.0, 60), run(4, 2.0, 60), run(8, 7.0, 120)];
        serde_json::json!({"variants": [{"name": "nand", "runs": nand},
            {"name": "xfs-7", "runs": [{"at": {}, "metrics": {"wa": 2.5}}, {"at": {"limit": 0}, "metrics": {"wa": 9.0}}]}],
            "runs": [{"simulation": {"parameters": {"job.rw": "random"}, "wa": 4.0}}, {"simulation": {"parameters": {"job.rw": "zipf:0.2"}, "wa": 3.0}}],
            "figures": [{"figure": "read", "ratio": 1.5}]})
    }

    #[test]
    fn figures_are_found_and_combined() {
        let value = |selector| evaluate(selector, &results()).unwrap();
        assert_eq!(value("@nand[threads=4].metrics.tpmC"), 2.0);
        assert_eq!(value("@xfs-7[].metrics.wa"), 2.5);
        assert_eq!(value("@nand[threads=8].namespaces[medium=nand].writes / @nand[threads=8].seconds"), 2.0);
        assert_eq!(value("sum(@nand.namespaces[medium=nand].writes)"), 300.0);
        assert_eq!(value("$.runs.simulation[parameters/job.rw=zipf:0.2].wa"), 3.0);
        assert_eq!(value("2 * ( $.figures[figure=read].ratio - 0.5 ) + 1"), 3.0);
        assert!((value("geomean(@nand.metrics.tpmC)") - 42_f64.powf(0.25)).abs() < 1e-12);
    }

    #[test]
    fn errors_name_the_mistake() {
        for (selector, what) in [
            ("@dram[threads=4].metrics.tpmC", "no number"),
            ("nand.tpmC", "neither @ nor $"),
            ("@nand[threads=4.metrics", "bracket"),
            ("@nand[threads].metrics", "KEY=VALUE"),
            ("@nand[threads=4].metrics.tpmC 3", "too much"),
            ("1 +", "too early"),
            ("( 1", "not closed"),
            ("1 / 0", "finite"),
            ("$..a", "a name is missing"),
        ] {
            let error = format!("{:#}", evaluate(selector, &results()).unwrap_err());
            assert!(error.contains(what) && error.contains(selector), "{selector}: {error}");
        }
    }
}
