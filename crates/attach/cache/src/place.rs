//! Where a device is, as people write it.

use host::{Addr, AddrError};
use nvme::Nsid;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Which of the three devices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// The large and slow one.
    Origin,
    /// The small and fast one.
    Cache,
    /// What says what lies on the cache.
    Metadata,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Role::Origin => "origin",
            Role::Cache => "cache device",
            Role::Metadata => "metadata device",
        })
    }
}

/// Where a device of a tier is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    /// A namespace of any NVMe/TCP drive: `ADDR/NSID`.
    Namespace {
        /// Where the drive listens.
        addr: Box<Addr>,
        /// Namespace identifier.
        nsid: Nsid,
    },
    /// A regular file or a block device of this machine.
    Path(PathBuf),
    /// A namespace of the drive that the tier is served with. Only a drive's TOML names one, by its number.
    Own(Nsid),
}

/// What is wrong with a place.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlaceError {
    /// The address.
    #[error(transparent)]
    Addr(#[from] AddrError),
    /// No namespace.
    #[error(
        "'{0}' names no namespace: write ADDR/NSID, as tcp://127.0.0.1:4420/1 or unix:///run/tranche.sock/1"
    )]
    NoNamespace(String),
    /// A number alone.
    #[error(
        "'{0}' does not say of which drive: write ADDR/NSID, as unix:///run/tranche.sock/{0}, or ./{0} for a file"
    )]
    NoDrive(String),
    /// Nothing.
    #[error("a device is the path of a file or block device, or ADDR/NSID")]
    Empty,
}

impl FromStr for Place {
    type Err = PlaceError;

    fn from_str(text: &str) -> Result<Self, PlaceError> {
        if text.contains("://") {
            let parts = text.rsplit_once('/');
            let nsid = |number: &str| number.parse().ok().filter(|nsid| (1..u32::MAX).contains(nsid));
            return match parts.and_then(|(addr, number)| Some((addr, nsid(number)?))) {
                Some((addr, nsid)) => Ok(Place::Namespace { addr: Box::new(addr.parse()?), nsid }),
                None => Err(PlaceError::NoNamespace(text.to_owned())),
            };
        }
        match text {
            "" => Err(PlaceError::Empty),
            number if number.bytes().all(|byte| byte.is_ascii_digit()) => {
                Err(PlaceError::NoDrive(number.to_owned()))
            }
            path => Ok(Place::Path(path.into())),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Namespace { addr, nsid } => write!(f, "{addr}/{nsid}"),
            Place::Path(path) => write!(f, "{}", path.display()),
            Place::Own(nsid) => write!(f, "namespace {nsid}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_as_they_are_written() {
        for text in [
            "tcp://127.0.0.1:4420/1",
            "tcp://[::1]:4420/4294967294",
            "unix:///run/tranche.sock/3",
            "tcp://drive:4420?nqn=nqn.2026-11.org.example:d/7",
            "/dev/sdb",
            "disk.img",
            "./3",
        ] {
            assert_eq!(text.parse::<Place>().unwrap().to_string(), text);
        }
        let Ok(Place::Namespace { addr, nsid: 3 }) = "unix:///run/t.sock/3".parse() else { panic!() };
        assert_eq!(addr.to_string(), "unix:///run/t.sock");
    }

    #[test]
    fn mistakes_are_named() {
        for (text, problem) in [
            ("", "path of a file"),
            ("3", "of which drive"),
            ("tcp://drive:4420", "names no namespace"),
            ("unix:///run/tranche.sock", "names no namespace"),
            ("tcp://drive/0", "names no namespace"),
            ("tcp://drive/4294967295", "names no namespace"),
            ("rdma://drive/1", "unknown scheme"),
        ] {
            let error = text.parse::<Place>().unwrap_err().to_string();
            assert!(error.contains(problem), "{text}: {error}");
        }
    }
}
