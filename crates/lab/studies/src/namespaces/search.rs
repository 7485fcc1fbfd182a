//! The highest load that passes.

use anyhow::Result;

use super::trial::Trial;

/// Where the search begins, and where it gives up.
const FIRST_MULTIPLE: u32 = 40;
const MAX_MULTIPLE: u32 = 20_000;

/// What was found for a number of namespaces.
#[derive(Clone, Debug)]
pub(super) struct HighestLoad {
    /// How many namespaces.
    pub count: u32,
    pub repetition: u32,
    /// The highest multiple that passes, if one does.
    pub passed: Option<Trial>,
    /// The lowest that does not, if one was found.
    pub failed: Option<Trial>,
}

impl HighestLoad {
    /// In a line.
    pub fn summary(&self) -> String {
        let passed =
            self.passed.as_ref().map_or("nothing passes".into(), |t| format!("{}x passes", t.multiple));
        match self.failed.as_ref().and_then(|t| Some((t.multiple, t.limit?))) {
            Some((multiple, limit)) => format!("{passed}; {multiple}x: {}", limit.text()),
            None => passed,
        }
    }
}

/// Looks for the highest multiple that passes, to `step` per cent of it: by doubling, then by halving the gap. It takes for granted that what
/// passes at a load passes below it.
pub(super) fn highest(
    step: u32,
    mut test: impl FnMut(u32) -> Result<Trial>,
) -> Result<(Option<Trial>, Option<Trial>)> {
    let (mut passed, mut failed): (Option<Trial>, Option<Trial>) = (None, None);
    loop {
        let low = passed.as_ref().map_or(0, |trial| trial.multiple);
        let next = match &failed {
            None if low == 0 => FIRST_MULTIPLE,
            None if low * 2 > MAX_MULTIPLE => break,
            None => low * 2,
            Some(failed) if failed.multiple - low <= (low * step / 100).max(1) => break,
            Some(failed) => u32::midpoint(low, failed.multiple),
        };
        let trial = test(next)?;
        match trial.limit {
            None => passed = Some(trial),
            Some(_) => failed = Some(trial),
        }
    }
    Ok((passed, failed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespaces::trial::Limit;

    fn trial(multiple: u32, most: u32) -> Trial {
        let limit = (multiple > most).then_some(Limit::Latency(0));
        Trial { multiple, limit, seconds: 1.0, ..Trial::default() }
    }

    #[test]
    fn the_highest_is_found() {
        for most in [0, 1, 39, 40, 41, 100, 999, 30_000] {
            let mut tests = 0;
            let (passed, failed) = highest(2, |multiple| {
                tests += 1;
                Ok(trial(multiple, most))
            })
            .unwrap();
            let passed = passed.map_or(0, |t| t.multiple);
            assert!(passed <= most && tests < 25, "{most}: {passed} in {tests}");
            match failed {
                Some(failed) => {
                    assert!(failed.multiple > most && failed.multiple - passed <= (passed / 50).max(1))
                }
                None => assert!(most > MAX_MULTIPLE && passed * 2 > MAX_MULTIPLE),
            }
        }
    }
}
