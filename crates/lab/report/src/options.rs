//! Options of the command line that libraries have as values.

use std::{
    marker::PhantomData,
    path::{Path, PathBuf},
};

use anyhow::Result;
use clap::{Args, Command};

use crate::results::Overwrite;

/// Options as a command line without arguments has them.
///
/// # Panics
/// An option is required.
pub fn defaults<T: Args>() -> T {
    let command = T::augment_args(Command::new("defaults").no_binary_name(true));
    let parsed = command.try_get_matches_from([""; 0]).and_then(|matches| T::from_arg_matches(&matches));
    parsed.expect("every option has a default")
}

/// Checks that an option names nothing twice.
///
/// # Errors
/// It does.
pub fn once<T: PartialEq>(option: &str, values: &[T]) -> Result<()> {
    if (1..values.len()).any(|at| values[..at].contains(&values[at])) {
        crate::misuse!("{option} names one twice");
    }
    Ok(())
}

/// Options of a study, which writes its results into a directory.
pub trait DefaultDirectory {
    /// The directory if none is named.
    const DIRECTORY: &'static str;
    /// The files that it receives, for the help text.
    const FILES: &'static str = "report.html, results.json and results.csv";
}

/// The directory that receives the results of a study with the options `O`.
#[derive(Args, Clone, Debug)]
pub struct ResultsDirectory<O: DefaultDirectory> {
    #[arg(long, value_name = "DIR", help = help::<O>())]
    out: Option<PathBuf>,
    /// Whether results that are in `out` may go.
    #[command(flatten)]
    overwrite: Overwrite,
    #[arg(skip)]
    of: PhantomData<O>,
}

fn help<O: DefaultDirectory>() -> String {
    let (files, usual) = (O::FILES, O::DIRECTORY);
    format!(
        "Directory for {files} [default: {usual}, or the first of {usual}-2, {usual}-3, … without results]"
    )
}

impl<O: DefaultDirectory> ResultsDirectory<O> {
    /// This directory.
    pub fn at(out: impl Into<PathBuf>) -> Self {
        Self { out: Some(out.into()), overwrite: Overwrite::default(), of: PhantomData }
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        self.out.as_deref().unwrap_or(Path::new(O::DIRECTORY))
    }

    /// A directory without results, or with results that may go.
    ///
    /// # Errors
    /// The named directory has results that stay.
    pub fn free(&self) -> Result<Self> {
        self.overwrite.directory(self.out.as_deref(), O::DIRECTORY).map(Self::at)
    }
}
