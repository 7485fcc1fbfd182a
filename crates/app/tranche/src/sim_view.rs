//! The live view of a run in virtual time: what `tranche sim --ui` asks for.

use crate::live_view::LiveView;
use crate::options::Output;
use crate::progress;
use crate::{print_outcome, progress::say};
use anyhow::Result;
use clap::Args;
use host::Host;
use lab_engines::sim::{Inspector, Nanos, Onlooker, Pace, Settings};
use std::path::PathBuf;
use std::time::Duration;
use ui::{RunEnd, RunView, Speed};

/// How often it looks whether it is to end.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Options of the view.
#[derive(Args, Clone, Debug)]
pub struct View {
    /// Show the run in a browser while it goes: serve the live view on this address (docs/howto/live-view.md). When the run is over, its results are
    /// printed as always, and the page stays until Ctrl-C. For one run only, not for a sweep. The address that is said has the token that
    /// the page asks for
    #[arg(long, value_name = "ADDRESS:PORT")]
    ui: Option<String>,
    /// The token that the live view asks for, instead of a new one that is printed: a file with 16 to 256 letters, digits, and the signs - _ . ~
    #[arg(long, value_name = "FILE", requires = "ui")]
    ui_token: Option<PathBuf>,
    /// How fast the run goes that is shown, in virtual seconds for each real one: 1 is as fast as a drive that is served, 0.01 is slow
    /// motion, max is as fast as this machine can. The page can change it. The results are the same at each speed
    #[arg(long, value_name = "SPEED|max", requires = "ui", default_value = "1")]
    ui_speed: Speed,
}

/// The thread of the run has this, and tells it what there is to see.
struct Shown(RunView);

impl Onlooker for Shown {
    fn prepares(&self, permille: u32) {
        self.0.waits(&format!("The drive is being preconditioned: {} %.", permille / 10));
    }

    fn pace(&self) -> Pace {
        let pace = self.0.pace();
        let speed = match pace.speed {
            Speed::Times(speed) => Some(speed),
            Speed::Max => None,
        };
        Pace { speed, paused: pace.paused }
    }

    fn show(&self, drive: &mut Host<Inspector>, at: Nanos, done: Option<f64>) -> Result<()> {
        Ok(self.0.show(drive, at.0, done)?)
    }
}

/// Makes the runs and prints what comes of them. One is shown meanwhile, if the options say so.
///
/// # Errors
/// As of [`lab_engines::sim::run_before`]; the view cannot be served, or there are several runs.
pub fn run(settings: &Settings, load: String, view: &View, output: Output) -> Result<()> {
    let Some(address) = &view.ui else {
        return print_outcome(output, &lab_engines::sim::run(settings, &progress::control()?)?);
    };
    let runs = lab_engines::sim::planned(settings)?.len();
    if runs != 1 {
        lab_report::misuse!(
            "--ui shows one run, and --set asks for {runs}: give each key one value, or make the sweep without --ui"
        );
    }
    let listening = LiveView::listen(address, view.ui_token.as_deref(), None)?;
    let control = progress::control()?;
    let shown = RunView::new(load, view.ui_speed);
    let ui = listening.start_run(shown.clone())?;
    say(&format!("ready ui={}", ui.url()));
    let ran = lab_engines::sim::run_before(settings, &control, Some(&Shown(shown.clone())));
    shown.end(match &ran {
        _ if control.is_cancelled() => RunEnd::Interrupted,
        Ok(found) if found.failure.is_none() => RunEnd::Complete,
        _ => RunEnd::Failed,
    });
    let printed = print_outcome(output, &ran?);
    if !control.is_cancelled() {
        say(&format!("the run is over: {} shows its last state until Ctrl-C", ui.url()));
    }
    while !control.is_cancelled() {
        std::thread::sleep(POLL_INTERVAL);
    }
    printed
}
