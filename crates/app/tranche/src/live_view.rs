//! The live view of a drive: what `tranche serve --ui` and `tranche ui` ask for. `sim_view` has what is the run's of `tranche sim --ui`.

use crate::connect::{CONNECT_TIMEOUT, connect, identity};
use crate::options::{Output, Target};
use crate::signals::asked_by;
use crate::{print_json_line, print_text};
use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use host::{DriveTransport, Host, Transport};
use nvme::NSID_ALL;
use schemars::JsonSchema;
use serde::Serialize;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;
use ui::{Listener, Options, Token};

/// Where reports of studies are if nothing else is said.
const STUDIES: &str = "out";
/// How often it looks whether it is to end.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
const FAILED: &str = "cannot serve the live view";
/// More than a token and a line end.
const TOKEN_FILE: u64 = 4096;

/// `tranche ui`.
#[derive(Args, Debug)]
pub struct ServeUi {
    /// Where the page is; with port 0 it takes a free port. The address that is printed has the token that the page asks for
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8420")]
    pub listen: String,
    /// The token that the page asks for, instead of a new one that is printed: a file with 16 to 256 letters, digits, and the signs - _ . ~
    #[arg(long = "ui-token", alias = "token", value_name = "FILE")]
    pub token: Option<PathBuf>,
    /// Reports of studies that the page shows: a directory with NAME/report.html [default: out, if it is there]
    #[arg(long, value_name = "DIR")]
    pub studies: Option<PathBuf>,
    #[command(flatten)]
    pub target: Target,
}

/// A view that is listened for, before there is a drive.
#[derive(Debug)]
pub struct LiveView {
    listener: Listener,
    options: Options,
}

impl LiveView {
    /// Listens before an image is made: an address that is taken is the most likely reason to end here.
    pub fn listen(address: &str, token: Option<&Path>, studies: Option<&Path>) -> Result<LiveView> {
        let token = token.map(read_token).transpose()?;
        let listener =
            Listener::bind(address).with_context(|| format!("cannot serve the live view on {address}"))?;
        if !listener.is_loopback() {
            tracing::warn!(
                "{} can be reached from other machines, and the live view speaks HTTP without TLS: who can listen on the way reads the token, \
                 and may then change the drive",
                listener.address()
            );
        }
        if let Some(dir) = studies.filter(|dir| !dir.is_dir()) {
            bail!("the directory of reports: {} is no directory", dir.display());
        }
        let default = || Some(PathBuf::from(STUDIES)).filter(|dir| dir.is_dir());
        let studies = studies.map(Path::to_owned).or_else(default);
        Ok(LiveView { listener, options: Options { token, studies, ..Options::default() } })
    }

    /// Serves the view of a drive of this process, which hosts find at `address`.
    pub fn start(self, drive: live::Handle, address: String) -> Result<ui::Ui> {
        let options = Options { address, ..self.options };
        ui::Ui::of_handle(self.listener, options, drive).context(FAILED)
    }

    /// Serves the view of a run in virtual time.
    pub fn start_run(self, run: ui::RunView) -> Result<ui::Ui> {
        ui::Ui::of_run(self.listener, self.options, run).context(FAILED)
    }

    /// Serves the view of a drive that `connect` reaches, which hosts find at `address`.
    fn start_on<T: Transport + 'static>(
        self,
        address: String,
        connect: impl FnMut() -> Result<Host<T>, host::Error> + Send + 'static,
    ) -> Result<ui::Ui> {
        let options = Options { address, ..self.options };
        ui::Ui::start(self.listener, options, connect).context(FAILED)
    }
}

/// Printed when the page is served.
#[derive(Serialize, JsonSchema)]
pub struct ServedView {
    /// Address of the live view.
    ui: String,
}

/// `tranche ui`: the view of a drive of another process, until a signal comes.
pub fn serve(options: &ServeUi, output: Output) -> Result<()> {
    let view = LiveView::listen(&options.listen, options.token.as_deref(), options.studies.as_deref())
        .context("choose another place with --listen, or any port that is free with --listen 127.0.0.1:0")?;
    // The file of the token is read: until now a signal ends the command at once.
    let ended = asked_by(&[SIGINT, SIGTERM])?;
    let mut host = connect(&options.target)?;
    let on = options.target.on().clone();
    if let Err(error) = host.namespace_statistics(NSID_ALL) {
        let why = format!(
            "{on} is no drive of Tranche: the live view needs the log Namespace Statistics (D8h), and `tranche top` does without"
        );
        return Err(anyhow::Error::from(error).context(why));
    }
    let identity = identity(&options.target.credentials)?;
    let at = on.to_string();
    let mut first = Some(host);
    let again = move || match first.take() {
        Some(host) => Ok(host),
        None => Host::connect(DriveTransport::new(on.clone(), CONNECT_TIMEOUT), &identity),
    };
    let ui = view.start_on(at, again)?;
    match output {
        Output::Json => print_json_line(&ServedView { ui: ui.url() })?,
        Output::Text => print_text(&format!("ready ui={}", ui.url()))?,
    }
    while !ended.load(Ordering::Relaxed) {
        std::thread::sleep(POLL_INTERVAL);
    }
    Ok(())
}

/// Reads the file with the token. One that others can read is warned of.
fn read_token(path: &Path) -> Result<Token> {
    let failed = || format!("the token: cannot read the file {}", path.display());
    let file = File::open(path).with_context(failed)?;
    if file.metadata().is_ok_and(|meta| meta.permissions().mode() & 0o077 != 0) {
        tracing::warn!(
            "{} has the token of the live view in it, and not only its owner can read it: chmod 600 it",
            path.display()
        );
    }
    let mut text = String::new();
    file.take(TOKEN_FILE).read_to_string(&mut text).with_context(failed)?;
    Token::new(text.trim()).map_err(|wrong| anyhow!("the token in the file {}: {wrong}", path.display()))
}
