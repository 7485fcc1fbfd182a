//! Connecting to a drive.

use crate::options::{Credentials, Target};
use anyhow::{Context, Result, bail};
use fabric::auth::ChapKeys;
use host::{Addr, DriveTransport, Endpoint, Host, Identity, TransportError};
use nvme::Nqn;
use std::io::ErrorKind;
use std::sync::OnceLock;
use std::time::Duration;

/// For each step of connecting.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The drive that the command talked to first, and as whom.
static TALKED_TO: OnceLock<(Addr, Credentials)> = OnceLock::new();

/// A connected host.
pub type Connected = Host<DriveTransport>;

/// NQN to connect with.
pub fn hostnqn(target: &Target) -> Result<Nqn> {
    nqn_of(&target.credentials)
}

fn nqn_of(credentials: &Credentials) -> Result<Nqn> {
    if let Some(nqn) = credentials.hostnqn {
        return Ok(nqn);
    }
    host::local_nqn().context("correct it or give --hostnqn")
}

/// Keys of DH-HMAC-CHAP.
fn chap(credentials: &Credentials) -> Result<Option<ChapKeys>> {
    let controller = credentials.dhchap_ctrl_secret.as_ref().filter(|secret| !secret.is_empty());
    let controller = controller.map(|secret| secret.read("--dhchap-ctrl-secret")).transpose()?;
    match (credentials.dhchap_secret.as_ref().filter(|secret| !secret.is_empty()), controller) {
        (Some(secret), controller) => {
            Ok(Some(ChapKeys { host: secret.read("--dhchap-secret")?, controller }))
        }
        (None, Some(_)) => {
            bail!("--dhchap-ctrl-secret needs --dhchap-secret: the drive proves who it is only then")
        }
        (None, None) => Ok(None),
    }
}

/// Connects to the drive.
pub fn connect(target: &Target) -> Result<Connected> {
    connect_to(target.on(), &target.credentials)
}

/// Who connects, with its keys.
pub fn identity(credentials: &Credentials) -> Result<Identity> {
    let mut identity = Identity::new(nqn_of(credentials)?);
    identity.chap = chap(credentials)?;
    let psk = credentials.tls_psk.as_ref().filter(|secret| !secret.is_empty());
    identity.tls = psk.map(|secret| secret.read("--tls-psk")).transpose()?;
    Ok(identity)
}

/// Connects to the drive at this address.
pub fn connect_to(on: &Addr, credentials: &Credentials) -> Result<Connected> {
    let identity = identity(credentials)?;
    let limit = Duration::from_secs(credentials.wait.into());
    TALKED_TO.get_or_init(|| (on.clone(), credentials.clone()));
    let attempt = || Host::connect(DriveTransport::new(on.clone(), CONNECT_TIMEOUT), &identity);
    host::retry(limit, attempt).map_err(|error| {
        let advice = advice(on, &error);
        let error = anyhow::Error::from(error);
        match advice {
            Some(advice) => error.context(advice),
            None => error,
        }
    })
}

/// Connects once more to the drive that the command talked to first, to learn more of its answer.
pub fn again() -> Option<Connected> {
    let (on, credentials) = TALKED_TO.get()?;
    let identity = identity(credentials).ok()?;
    Host::connect(DriveTransport::new(on.clone(), CONNECT_TIMEOUT), &identity).ok()
}

/// What to do about a connection that did not come about.
fn advice(on: &Addr, error: &host::Error) -> Option<String> {
    match error {
        // A drive without power lets this host in later.
        host::Error::Connect { status: Some(status), .. } if !status.dnr() => None,
        host::Error::Connect { .. } => Some(format!(
            "{on} does not take this host (`?nqn=` at the address's end and --hostnqn name others)"
        )),
        host::Error::Transport(TransportError::Io { source, .. }) => Some(match source.kind() {
            ErrorKind::ConnectionRefused | ErrorKind::NotFound => format!(
                "no drive at {on}: nothing listens there (start `tranche serve`, let --on name another place, or give a \
                 drive that is starting time with --wait TIME)"
            ),
            ErrorKind::PermissionDenied => {
                format!("no drive at {on}: this user may not connect to it (the socket's permissions decide)")
            }
            // What TLS says: the other side is there.
            ErrorKind::InvalidData => format!("something listens at {on}, but the two do not come together"),
            _ => format!("no drive can be reached at {on}"),
        }),
        host::Error::Transport(TransportError::Protocol(_)) => {
            Some(format!("what listens at {on} does not speak {} (--on names another place)", protocol(on)))
        }
        host::Error::Transport(TransportError::Timeout(_)) if matches!(on.endpoint, Endpoint::Pci(_)) => {
            Some(format!(
                "the PCI device at {on} does not answer: a virtual machine or another program may have it, and one at a time can \
             (--wait TIME tries for longer)"
            ))
        }
        host::Error::Transport(TransportError::Timeout(_) | TransportError::Closed) => Some(format!(
            "what listens at {on} does not answer as an {} drive does, or not yet (--on names another place, --wait \
             TIME tries for longer; if it wants TLS, give --tls-psk)",
            protocol(on)
        )),
        _ => None,
    }
}

/// What a drive at an address speaks.
fn protocol(on: &Addr) -> &'static str {
    match on.endpoint {
        Endpoint::Pci(_) => "vfio-user",
        Endpoint::Tcp { .. } | Endpoint::Unix(_) => "NVMe/TCP",
    }
}
