//! The command line: `tranche`. See `docs/commands.md`.
//!
//! [`main`] is the program. [`command`] and [`schemas`] describe it, for tests and for the book.
//!
//! Results go to standard output, everything else to standard error. The exit code tells kinds of errors apart ([`exit`]); it is 130
//! after a second signal.

#![allow(
    rustdoc::broken_intra_doc_links,
    reason = "comments of arguments are help texts: what is in brackets there is no link"
)]

mod advise;
mod args;
mod bench;
mod cache_tier;
mod connect;
mod default_address;
mod demo;
mod doctor;
mod exit;
mod fault;
mod firmware;
mod fit;
mod image;
mod key;
mod live_view;
mod meaning;
mod ns;
mod numbers;
mod options;
mod power;
mod profiles;
mod progress;
mod protocol_fault;
mod quota;
mod refusal;
mod sanitize;
pub mod schemas;
mod secret;
mod serve;
mod served_nbd;
mod served_tiers;
mod show;
mod signals;
mod sim;
mod sim_view;
mod store;
mod studies;
mod table;
mod tell;
mod top;
mod trace_form;
mod zone;
mod zone_change;
mod zone_read;
mod zone_shape;
mod zone_target;

use anyhow::{Context, Result, bail};
use args::{Cli, Command};
use clap::{ColorChoice, CommandFactory, Parser};
use options::Output;
use schemars::JsonSchema;
use serde::Serialize;
use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;
use tell::tell;
use tracing_subscriber::{filter::Targets, layer::SubscriberExt, util::SubscriberInitExt};

/// The command line, as its parser has it.
#[must_use]
pub fn command() -> clap::Command {
    Cli::command()
}

/// Runs the command of the process's arguments.
#[must_use]
pub fn main() -> ExitCode {
    let line: Vec<_> = std::env::args_os().collect();
    let parsed = Cli::try_parse_from(&line).map_err(|error| numbers::explain(error, command(), &line));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() && wants_json(&line) => return exit::usage(&error.to_string()),
        Err(error) => error.exit(),
    };
    log_to_stderr(&cli);
    if cli.quiet {
        progress::silence();
    }
    let output = cli.output;
    run(cli).unwrap_or_else(|error| exit::error(&error, output))
}

/// Whether a command line that cannot be parsed asks for JSON.
fn wants_json(arguments: &[OsString]) -> bool {
    let after = |pair: &[OsString]| pair[0] == "--output" && pair[1] == "json";
    arguments.windows(2).any(after) || arguments.iter().any(|argument| argument == "--output=json")
}

fn log_to_stderr(cli: &Cli) {
    let level = match cli.verbose {
        _ if cli.quiet => tracing::Level::ERROR,
        0 => tracing::Level::INFO,
        1 => tracing::Level::DEBUG,
        _ => tracing::Level::TRACE,
    };
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let color = match cli.color {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => !plain && std::io::stderr().is_terminal(),
    };
    let format = tracing_subscriber::fmt()
        .log_internal_errors(false)
        .with_writer(std::io::stderr)
        .with_target(false)
        .without_time();
    // What a client of vfio-user asks for is of interest when something is looked for.
    let vfio_user = if cli.verbose == 0 { level.min(tracing::Level::WARN) } else { level };
    let filter = Targets::new().with_default(level).with_target("vfio_user", vfio_user);
    format.with_ansi(color).with_max_level(level).finish().with(filter).init();
}

fn run(cli: Cli) -> Result<ExitCode> {
    let output = cli.output;
    if let Some(on) = cli.on {
        options::look_for_drives_on(on);
    }
    match cli.command {
        Command::Image(command) => return image::image(&command, output),
        Command::Serve(options) => serve::serve(&options, output),
        Command::Ns(command) => ns::ns(&command, output),
        Command::Id(target) => show::id(&target, output),
        Command::Smart(smart) => show::smart(&smart, output),
        Command::Top(options) => top::top(&options, output),
        Command::Ui(options) => live_view::serve(&options, output),
        Command::Quota(command) => quota::quota(&command, output),
        Command::Zone(command) => zone::zone(&command, output),
        Command::Store(command) => store::store(&command, output),
        Command::Cache(command) => cache_tier::cache(&command, output),
        Command::Fault(fault) => fault::fault(&fault, output),
        Command::PowerCut(cut) => power::power_cut(&cut, output),
        Command::Sanitize(command) => return sanitize::sanitize(&command, output),
        Command::Key(command) => key::key(&command, output),
        Command::Firmware(command) => firmware::firmware(&command, output),
        Command::Advise(options) => print_outcome(output, &advise::advise(&options)?),
        Command::Doctor(options) => doctor::doctor(&options, output),
        Command::Demo(options) => demo::demo(&options, output),
        Command::Completions { shell } => completions(shell),
        Command::Man { dir, force } => man(&dir, force, output),
        Command::Bench(bench) => print_outcome(output, &bench::bench(&bench)?),
        Command::Sim(options) => sim::sim(&options, output),
        Command::Profile(command) => profiles::profile(&command, output),
        Command::Study(study) => print_outcome(output, &studies::study(&study)?),
        Command::Compare(options) => print_outcome(output, &studies::compare(*options)?),
    }?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the completions of a shell.
fn completions(shell: clap_complete::Shell) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command(), "tranche", &mut script);
    print_text(String::from_utf8(script)?.trim_end())
}

/// Writes a manual page for each command.
fn man(dir: &Path, force: bool, output: Output) -> Result<()> {
    if !force && dir.join("tranche.1").exists() {
        bail!(
            "{} has manual pages already: name another directory, or overwrite them with --force",
            dir.display()
        );
    }
    std::fs::create_dir_all(dir).with_context(|| format!("making {}", dir.display()))?;
    clap_mangen::generate_to(command(), dir)
        .with_context(|| format!("writing manual pages to {}", dir.display()))?;
    print_written(&ManPages {}, dir, output)
}

/// The manual pages.
#[derive(Serialize, JsonSchema)]
struct ManPages {}

// Its own description is that of the results.
#[derive(Serialize, JsonSchema)]
struct Written<R> {
    #[serde(flatten)]
    own: R,
    /// What the command has written: a file, or a directory of files.
    results: String,
}

// Likewise.
#[derive(Serialize, JsonSchema)]
struct PerhapsWritten<R> {
    #[serde(flatten)]
    own: R,
    /// Directory of the results.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("absent" = "without --out"))]
    results: Option<String>,
}

/// Prints what a command has written that prints nothing else for people: where it is, and in JSON what there is to say of it.
fn print_written(about: &impl Serialize, place: &Path, output: Output) -> Result<()> {
    match output {
        Output::Json => print_json(&Written { own: about, results: place.display().to_string() }),
        Output::Text => {
            say_results(place);
            Ok(())
        }
    }
}

/// Prints what a command has found, and where it has written it.
fn print_found(results: &impl Serialize, text: &str, place: &Path, output: Output) -> Result<()> {
    if output == Output::Text {
        print_text(text)?;
    }
    print_written(results, place, output)
}

/// Says on standard error where results are.
fn say_results(place: &Path) {
    if !progress::is_silent() {
        tell!("results: {}", place.display());
    }
}

/// Prints what a study has found; fails if it says so.
fn print_outcome(output: Output, outcome: &lab_report::Findings<impl Serialize>) -> Result<()> {
    match output {
        Output::Json => {
            let results = outcome.written.as_ref().map(|place| place.display().to_string());
            print_json(&PerhapsWritten { own: &outcome.results, results })?;
        }
        Output::Text => {
            print_text(&outcome.text)?;
            outcome.written.iter().for_each(|place| say_results(place));
        }
    }
    match &outcome.failure {
        Some(failure) => Err(exit::FailedCheck(failure.clone()).into()),
        None => Ok(()),
    }
}

/// Prints a JSON document.
fn print_json(value: &impl Serialize) -> Result<()> {
    print_text(&serde_json::to_string_pretty(value)?)
}

/// A value as one line of JSON, of which there are several.
fn print_json_line(value: &impl Serialize) -> Result<()> {
    print_text(&serde_json::to_string(value)?)
}

/// Prints a text and a line end. A reader that has gone away is no error.
fn print_text(text: &str) -> Result<()> {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => Err(e).context("writing to standard output"),
        _ => Ok(()),
    }
}
