//! The live view of a drive: what `--ui` and its companions ask for.

use anyhow::{Context, Result, anyhow, bail};
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use ui::{Listener, Options, Token};

/// Where reports of studies are if nothing else is said.
const STUDIES: &str = "out";
/// More than a token and a line end.
const TOKEN_FILE: u64 = 4096;

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
        ui::check(&listener, token.as_ref())?;
        if !listener.is_loopback() {
            tracing::warn!(
                "{} can be reached from other machines, and the live view speaks HTTP without TLS: who can listen on the way reads the token, \
                 and may then change the drive",
                listener.address()
            );
        }
        if let Some(dir) = studies.filter(|dir| !dir.is_dir()) {
            bail!("--ui-studies: {} is no directory", dir.display());
        }
        let default = || Some(PathBuf::from(STUDIES)).filter(|dir| dir.is_dir());
        let studies = studies.map(Path::to_owned).or_else(default);
        Ok(LiveView { listener, options: Options { token, studies, ..Options::default() } })
    }

    /// Serves the view of a drive of this process, which hosts find at `address`.
    pub fn start(self, drive: run::Handle, address: String) -> Result<ui::Ui> {
        let options = Options { address, ..self.options };
        ui::Ui::of_handle(self.listener, options, drive).context("cannot serve the live view")
    }
}

/// Reads the file with the token. One that others can read is warned of.
fn read_token(path: &Path) -> Result<Token> {
    let failed = || format!("--ui-token: cannot read the file {}", path.display());
    let file = File::open(path).with_context(failed)?;
    if file.metadata().is_ok_and(|meta| meta.permissions().mode() & 0o077 != 0) {
        tracing::warn!(
            "{} has the token of the live view in it, and not only its owner can read it: chmod 600 it",
            path.display()
        );
    }
    let mut text = String::new();
    file.take(TOKEN_FILE).read_to_string(&mut text).with_context(failed)?;
    Token::new(text.trim()).map_err(|wrong| anyhow!("--ui-token: the file {}: {wrong}", path.display()))
}
