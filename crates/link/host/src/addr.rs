//! Addresses of drives: `tcp://HOST:PORT`, `unix://PATH`, `pci://PATH`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use nvme::Nqn;

/// Where a drive listens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Addr {
    /// Its socket.
    pub endpoint: Endpoint,
    /// NQN of the subsystem (`?nqn=…` at the address's end); `None` asks the discovery service there.
    pub subnqn: Option<Nqn>,
}

/// The socket of an [`Addr`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Endpoint {
    /// NVMe/TCP.
    Tcp {
        /// Host name or address, without brackets.
        host: String,
        /// Port, 4420 unless told.
        port: u16,
    },
    /// The same PDUs over a Unix socket.
    Unix(PathBuf),
    /// A PCI device over vfio-user, by its Unix socket.
    Pci(PathBuf),
}

/// The port of NVMe/TCP.
pub const DEFAULT_PORT: u16 = 4420;

impl Default for Addr {
    /// `tcp://127.0.0.1:4420`.
    fn default() -> Self {
        Self { endpoint: Endpoint::Tcp { host: "127.0.0.1".into(), port: DEFAULT_PORT }, subnqn: None }
    }
}

/// What is wrong with an address.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{problem} in the address '{addr}': expected tcp://HOST:PORT, unix://PATH or pci://PATH")]
pub struct AddrError {
    addr: String,
    problem: String,
}

impl FromStr for Addr {
    type Err = AddrError;

    fn from_str(addr: &str) -> Result<Self, AddrError> {
        let wrong = |problem: &str| AddrError { addr: addr.into(), problem: problem.into() };
        let (rest, subnqn) = match addr.split_once("?nqn=") {
            Some((rest, nqn)) => {
                (rest, Some(Nqn::new(nqn).map_err(|e| wrong(&format!("not an NQN ({e})")))?))
            }
            None => (addr, None),
        };
        if rest.starts_with("tcp://") && rest.contains('?') {
            return Err(wrong("something other than ?nqn=NQN behind the place"));
        }
        let socket = |path: &str| match path.len() {
            0 => Err(wrong("no path")),
            // sun_path of Linux, with its terminating zero.
            1..=107 => Ok(PathBuf::from(path)),
            _ => Err(wrong("a path longer than the 107 bytes of a Unix socket")),
        };
        let endpoint = if let Some(path) = rest.strip_prefix("unix://") {
            Endpoint::Unix(socket(path)?)
        } else if let Some(path) = rest.strip_prefix("pci://") {
            Endpoint::Pci(socket(path)?)
        } else if let Some(rest) = rest.strip_prefix("tcp://") {
            let rest = rest.strip_suffix('/').unwrap_or(rest);
            let (host, port) = match rest.strip_prefix('[') {
                Some(v6) => {
                    let (host, port) = v6.split_once(']').ok_or_else(|| wrong("an unclosed '['"))?;
                    let port = match port.strip_prefix(':') {
                        Some(port) => Some(port),
                        None if port.is_empty() => None,
                        None => return Err(wrong("something other than a port after ']'")),
                    };
                    (host, port)
                }
                None => match rest.split_once(':') {
                    Some((_, port)) if port.contains(':') => {
                        return Err(wrong("an IPv6 address without brackets"));
                    }
                    Some((host, port)) => (host, Some(port)),
                    None => (rest, None),
                },
            };
            if host.is_empty() {
                return Err(wrong("no host"));
            }
            let port = match port {
                Some(port) => port
                    .parse()
                    .ok()
                    .filter(|port| *port != 0)
                    .ok_or_else(|| wrong("a port that is not 1 to 65535"))?,
                None => DEFAULT_PORT,
            };
            Endpoint::Tcp { host: host.into(), port }
        } else if let Some((scheme, _)) = rest.split_once("://") {
            return Err(wrong(&format!("the unknown scheme '{scheme}'")));
        } else {
            return Err(wrong("no scheme"));
        };
        Ok(Self { endpoint, subnqn })
    }
}

impl fmt::Display for Addr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.endpoint {
            Endpoint::Tcp { host, port } if host.contains(':') => write!(f, "tcp://[{host}]:{port}")?,
            Endpoint::Tcp { host, port } => write!(f, "tcp://{host}:{port}")?,
            Endpoint::Unix(path) => write!(f, "unix://{}", path.display())?,
            Endpoint::Pci(path) => write!(f, "pci://{}", path.display())?,
        }
        if let Some(nqn) = &self.subnqn {
            write!(f, "?nqn={nqn}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for (text, shown) in [
            ("tcp://127.0.0.1:4420", "tcp://127.0.0.1:4420"),
            ("tcp://drive", "tcp://drive:4420"),
            ("tcp://[::1]:1234", "tcp://[::1]:1234"),
            ("tcp://[::1]", "tcp://[::1]:4420"),
            ("tcp://drive:4421/", "tcp://drive:4421"),
            ("unix:///run/drive.sock", "unix:///run/drive.sock"),
            ("pci:///run/vm.sock", "pci:///run/vm.sock"),
            ("unix://d.sock?nqn=nqn.2026-11.org.example:d", "unix://d.sock?nqn=nqn.2026-11.org.example:d"),
        ] {
            assert_eq!(text.parse::<Addr>().unwrap().to_string(), shown);
        }
        assert_eq!(Addr::default().to_string(), "tcp://127.0.0.1:4420");
    }

    #[test]
    fn mistakes_are_named() {
        for (text, problem) in [
            ("", "no scheme"),
            ("127.0.0.1:4420", "no scheme"),
            ("rdma://x", "unknown scheme 'rdma'"),
            ("tcp://", "no host"),
            ("tcp://:4420", "no host"),
            ("tcp://x:0", "port that is not"),
            ("tcp://x:66000", "port that is not"),
            ("tcp://::1:4420", "without brackets"),
            ("tcp://[::1", "unclosed"),
            ("tcp://[::1]4420", "after ']'"),
            ("unix://", "no path"),
            ("pci://", "no path"),
            ("tcp://x?nqn=foo", "not an NQN"),
            ("tcp://x:4420?nqx=foo", "other than ?nqn="),
        ] {
            let error = text.parse::<Addr>().unwrap_err().to_string();
            assert!(error.contains(problem), "{text}: {error}");
            assert!(error.contains("expected tcp://HOST:PORT, unix://PATH or pci://PATH"));
        }
        assert!(format!("unix:///{}", "x".repeat(107)).parse::<Addr>().is_err());
    }
}
