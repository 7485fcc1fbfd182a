//! Where a store is: `tranche://HOST[:PORT][/NSID][?OPTION=VALUE&…]`, or `tranche:///PATH/OF/SOCKET[?…]`.

use std::str::FromStr;
use std::time::Duration;

use host::{Addr, Endpoint};
use nvme::{Nqn, Nsid};
use store::Placement;

use crate::failure::Failure;

/// How a place begins.
const SCHEME: &str = "tranche://";
/// I/O queues unless told: so many reads and writes are under way at once.
const QUEUES: u16 = 8;
/// Options, as messages name them.
const OPTIONS: &str = "nsid, nqn, hostnqn, queues, placement, wait";

/// A store on a drive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// Where the drive listens.
    pub addr: Addr,
    /// The namespace; `None`: the only zoned one that is attached to this host.
    pub nsid: Option<Nsid>,
    /// Host NQN to connect with; `None`: that of this machine.
    pub hostnqn: Option<Nqn>,
    /// I/O queues, 1 to 64.
    pub queues: u16,
    /// What decides which data shares zones; `None`: what the store was made with.
    pub placement: Option<Placement>,
    /// How long to try while the drive cannot be reached.
    pub wait: Duration,
}

fn number<N: FromStr>(text: &str, what: &str) -> Result<N, String> {
    text.parse().map_err(|_| format!("'{text}' is no {what}"))
}

impl Place {
    fn parse(text: &str) -> Result<Self, String> {
        let rest = text.strip_prefix(SCHEME).ok_or_else(|| format!("it does not begin with {SCHEME}"))?;
        let (place, options) = rest.split_once('?').unwrap_or((rest, ""));
        let (addr, nsid) = match place.split_once('/') {
            Some(("", "")) => return Err("no path".into()),
            // There is no host, so this is the path of a socket.
            Some(("", path)) => (format!("unix:///{path}"), None),
            Some((host, "")) => (format!("tcp://{host}"), None),
            Some((host, nsid)) => (format!("tcp://{host}"), Some(number(nsid, "number of a namespace")?)),
            None => (format!("tcp://{place}"), None),
        };
        let addr: Addr = addr.parse().map_err(|error: host::AddrError| error.to_string())?;
        let mut found =
            Self { addr, nsid, hostnqn: None, queues: QUEUES, placement: None, wait: Duration::ZERO };
        for option in options.split('&').filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').ok_or_else(|| format!("'{option}' has no value"))?;
            found.set(name, value)?;
        }
        Ok(found)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let nqn = || value.parse::<Nqn>().map_err(|error| format!("{name}: {error}"));
        match name {
            "nsid" => self.nsid = Some(number(value, "number of a namespace")?),
            "nqn" => self.addr.subnqn = Some(nqn()?),
            "hostnqn" => self.hostnqn = Some(nqn()?),
            "queues" => self.queues = number(value, "number of queues")?,
            "wait" => self.wait = Duration::from_secs(number::<u32>(value, "number of seconds")?.into()),
            "placement" => {
                let known = Placement::parse(value.as_bytes());
                let mistake = || format!("placement '{value}' is none of 'none', 'lifetime' and 'overlap'");
                self.placement = Some(known.ok_or_else(mistake)?);
            }
            _ => return Err(format!("'{name}' is none of the options {OPTIONS}")),
        }
        if (1..=64).contains(&self.queues) {
            Ok(())
        } else {
            Err(format!("'{value}' is no number of queues from 1 to 64"))
        }
    }
}

impl FromStr for Place {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        Self::parse(text).map_err(|problem| {
            Failure::invalid(format!(
                "{problem} in the place '{text}': expected tranche://HOST:PORT/NSID or tranche:///PATH/OF/SOCKET, with options as in \
                 ?nsid=1&nqn=NQN"
            ))
        })
    }
}

impl Place {
    /// Whether the drive is on this machine, by a Unix socket.
    #[must_use]
    pub fn is_local(&self) -> bool {
        matches!(self.addr.endpoint, Endpoint::Unix(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places() {
        for (text, addr, nsid) in [
            ("tranche://drive:4421/2", "tcp://drive:4421", Some(2)),
            ("tranche://drive", "tcp://drive:4420", None),
            ("tranche://[::1]:4420/", "tcp://[::1]:4420", None),
            ("tranche:///run/t.sock", "unix:///run/t.sock", None),
            ("tranche:///run/t.sock?nsid=7", "unix:///run/t.sock", Some(7)),
            (
                "tranche://drive/3?nqn=nqn.2026-11.org.example:d",
                "tcp://drive:4420?nqn=nqn.2026-11.org.example:d",
                Some(3),
            ),
        ] {
            let place: Place = text.parse().unwrap();
            assert_eq!((place.addr.to_string().as_str(), place.nsid), (addr, nsid), "{text}");
        }
        let place: Place =
            "tranche:///s?queues=3&placement=none&wait=5&hostnqn=nqn.2026-11.org.example:h".parse().unwrap();
        assert_eq!((place.queues, place.placement, place.wait.as_secs()), (3, Some(Placement::None), 5));
        assert_eq!(place.hostnqn.unwrap().to_string(), "nqn.2026-11.org.example:h");
    }

    #[test]
    fn mistakes_are_named() {
        for (text, problem) in [
            ("posix://x", "does not begin with"),
            ("tranche://", "no host"),
            ("tranche:///", "no path"),
            ("tranche://drive:x/1", "a port that is not"),
            ("tranche://drive/one", "'one' is no number of a namespace"),
            ("tranche://drive/1?nsid", "'nsid' has no value"),
            ("tranche://drive/1?queues=0", "from 1 to 64"),
            ("tranche://drive/1?placement=best", "none of 'none'"),
            ("tranche://drive/1?nqx=1", "none of the options nsid, nqn"),
            ("tranche://drive/1?nqn=foo", "nqn: "),
        ] {
            let failure = text.parse::<Place>().unwrap_err().to_string();
            assert!(failure.contains(problem), "{text}: {failure}");
            assert!(failure.contains("expected tranche://HOST:PORT/NSID"), "{failure}");
        }
    }
}
