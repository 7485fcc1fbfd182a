//! The live view: a drive in a browser.
//!
//! An HTTP server with a page in it. The page shows what a drive does (the maps of its sets, traffic, latencies, quotas), and changes it. All
//! of that goes through a typed NVMe host ([`host::Host`]). So the view works on any Tranche that a host can connect to, and the drive decides what is
//! allowed. `docs/howto/live-view.md` says who may use it, `docs/live-view-api.md` lists the addresses.
//!
//! A run in virtual time is shown by the same service ([`RunView`]). The thread of the run hands over what the drive is like. A page changes
//! nothing of it but its speed.
//!
//! Two threads: one answers HTTP ([`web::Endpoint`]), the other talks to the drive, a command at a time. The second takes a sample twice a
//! second while anybody watches. A slow browser holds up neither.

mod ask;
mod assets;
mod change;
mod drive;
mod events;
mod faults;
mod guard;
mod map;
mod pace;
mod refusal;
mod run_view;
mod sample;
mod service;
mod source;
mod state;
mod studies;
mod view;

pub use guard::Token;
pub use pace::Speed;
pub use run_view::{Pace, RunEnd, RunView};
pub use service::{BODY, STREAMS};
pub use web::Listener;

use drive::Drive;
use guard::Guard;
use host::{Host, Identity, Transport};
use live::{Handle, LocalTransport};
use service::Service;
use source::Source;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::thread::JoinHandle;
use studies::Studies;
use view::View;
use web::Limits;

/// The host NQN of the view of a drive in this process.
pub const HOST_NQN: &str = "nqn.2026-11.io.tranche:ui";

/// What clients may take. Streams of samples take some of the places.
pub const LIMITS: Limits = Limits::of(64);

/// How a view is served.
#[derive(Clone, Default, Debug)]
pub struct Options {
    /// Where hosts connect to the drive, for people to read; empty if unknown.
    pub address: String,
    /// What clients have to know. Without, the view makes a token, which its [address](Ui::url) has.
    pub token: Option<Token>,
    /// The directory with reports of studies: `NAME/report.html`.
    pub studies: Option<PathBuf>,
}

/// Why a view is not served.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The system refuses an event queue or a thread.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// A view that is served. Dropping it ends it.
#[derive(Debug)]
pub struct Ui {
    endpoint: Option<web::Endpoint>,
    thread: Option<JoinHandle<()>>,
    address: SocketAddr,
    /// The token that the view has made.
    token: Option<Token>,
}

impl Ui {
    /// Serves a view of the drive that `connect` connects to, again and again if the association goes.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn start<T: Transport + 'static>(
        listener: Listener,
        options: Options,
        connect: impl FnMut() -> Result<Host<T>, host::Error> + Send + 'static,
    ) -> Result<Ui, StartError> {
        let address = options.address.clone();
        let (drive, thread) = Drive::start(move || View::new(connect, address))?;
        let mut ui = Ui::of_source(listener, options, drive)?;
        ui.thread = Some(thread);
        Ok(ui)
    }

    /// Serves a view of a run in virtual time.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn of_run(listener: Listener, options: Options, run: RunView) -> Result<Ui, StartError> {
        Ui::of_source(listener, options, run)
    }

    /// Serves a view of a source.
    fn of_source(listener: Listener, options: Options, source: impl Source) -> Result<Ui, StartError> {
        let at = listener.address();
        let (token, made) = match options.token {
            Some(token) => (token, None),
            None => {
                let token = Token::random();
                (token.clone(), Some(token))
            }
        };
        let guard = Guard::new(token, at.port());
        let service = Service::new(source, guard, Studies::new(options.studies));
        let endpoint = web::Endpoint::start(listener, "tranche-ui", LIMITS, service)?;
        Ok(Ui { endpoint: Some(endpoint), thread: None, address: at, token: made })
    }

    /// Serves a view of a drive in this process. To the drive it is a host on the network, because it does what its clients ask.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn of_handle(listener: Listener, options: Options, drive: Handle) -> Result<Ui, StartError> {
        let connect = move || {
            let nqn = HOST_NQN
                .parse()
                .map_err(|error: nvme::nqn::NqnError| host::Error::Usage(error.to_string()))?;
            Host::connect(LocalTransport::for_network(drive.clone()), &Identity::new(nqn))
        };
        Ui::start(listener, options, connect)
    }

    /// The address, with the port that it really has.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where the page is: with the token if the view has made it, and without one that was [given](Options::token).
    pub fn url(&self) -> String {
        let token = self.token.as_ref().map(|token| format!("?token={}", token.text()));
        format!("http://{}/{}", self.address, token.unwrap_or_default())
    }
}

impl Drop for Ui {
    fn drop(&mut self) {
        self.endpoint = None;
        if let Some(thread) = self.thread.take() {
            // It ends with the last request. A panic of it is told by the panic itself.
            let _ = thread.join();
        }
    }
}
