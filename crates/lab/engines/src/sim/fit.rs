//! Whether all runs can begin, looked at before the first does.
//!
//! A sweep may take hours, and it replaces the results of an earlier one. A point that cannot run must not show itself at the end of that.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use sim::{Contents, Sim};

use super::case::{Case, NQN};
use lab_report::control::Cancel;

/// Makes each drive that is asked for, empty, and looks whether the loads of its runs fit it. A drive that several runs share is made once.
///
/// # Errors
/// A drive cannot be so, or a load does not fit its drive: what is different in that run, and what is wrong. It was cancelled.
pub(super) fn check(cases: &[Case], cancel: &Cancel) -> Result<()> {
    let mut drives: BTreeMap<String, Vec<&Case>> = BTreeMap::new();
    for case in cases {
        drives.entry(format!("{:?}", case.config)).or_default().push(case);
    }
    for cases in drives.into_values() {
        cancel.check()?;
        let Some(first) = cases.first() else { continue };
        let mut config = first.timed();
        // Policies of one's own may count how often they are made, and nothing is collected here.
        config.ftl.set_policies(&Default::default());
        let made = Sim::new(config, Contents::None).map_err(anyhow::Error::from);
        let sim = said(first, made)?;
        let mut host = said(first, sim.host(NQN).context("connecting to the drive"))?;
        for case in cases {
            said(case, case.fits(&mut host))?;
        }
    }
    Ok(())
}

/// What went wrong, with what is different in this run.
fn said<T>(case: &Case, result: Result<T>) -> Result<T> {
    match case.parameters.is_empty() {
        true => result,
        false => result.with_context(|| case.settings()),
    }
}
