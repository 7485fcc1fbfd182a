//! Which hosts may connect over the network, and how they prove who they are. `docs/access.md` is the user's view.
//!
//! This belongs to how a drive is run, not to what it is: it is no part of an image. It guards TCP only; who
//! may open the Unix socket is up to the file system, and a host in this process is the process's own. Both administer the
//! drive. Without a list so do hosts on this machine; others are guests.

mod file;

use device::Role;
use fabric::auth::{ChapKeys, IdentityVersion, Methods, Parties, TlsPsk};
use nvme::Nqn;
use std::fmt;
use std::path::PathBuf;
use std::time::SystemTime;

/// The hosts that may connect. All others are refused.
#[derive(Clone, Debug)]
pub struct Access {
    hosts: Vec<Rule>,
}

/// What is known of one host.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Its NQN.
    pub nqn: Nqn,
    /// Keys of DH-HMAC-CHAP; `None` lets the host in by its name alone.
    pub chap: Option<ChapKeys>,
    /// Functions and groups of DH-HMAC-CHAP that are accepted.
    pub methods: Methods,
    /// Configured PSK of TLS.
    pub tls: Option<TlsPsk>,
    /// From when on it is refused.
    pub expires: Option<SystemTime>,
    /// What it may do.
    pub role: Role,
    /// The only Host Identifier that it may have; `None` if any.
    pub hostid: Option<[u8; 16]>,
    /// Controllers of the drive that it may have at a time, from 1.
    pub max_controllers: u16,
}

/// Why a host is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// It is not among those that may connect.
    Unknown,
    /// Its time is over.
    Expired,
    /// Its Host Identifier is another one.
    HostIdentifier,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown => "it is not in the list of hosts (--hosts)",
            Self::Expired => "its entry in the list of hosts (--hosts) has expired",
            Self::HostIdentifier => {
                "its Host Identifier is not the hostid of its entry in the list of hosts (--hosts)"
            }
        })
    }
}

/// What is wrong with a file of hosts. Secrets are never part of it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AccessError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// What the operating system says.
        source: std::io::Error,
    },
    /// Something in it makes no sense.
    #[error("{}, line {line}: {problem}", path.display())]
    Content {
        /// Which file.
        path: PathBuf,
        /// Its line, from 1.
        line: usize,
        /// What is wrong, and what is expected.
        problem: String,
    },
}

impl Access {
    /// These hosts.
    #[must_use]
    pub fn new(hosts: Vec<Rule>) -> Self {
        Self { hosts }
    }

    /// The hosts.
    #[must_use]
    pub fn hosts(&self) -> &[Rule] {
        &self.hosts
    }

    /// What takes the hosts' TLS connections to this subsystem, and to the discovery service beside it.
    ///
    /// # Errors
    /// No host has a key, or OpenSSL does not do what is needed: words for the user.
    pub(crate) fn acceptor(&self, subsystem: Nqn) -> Result<tls::Acceptor, String> {
        let failed = |error: &dyn fmt::Display| format!("cannot set up TLS: {error}");
        let discovery = Nqn::new(Nqn::DISCOVERY).map_err(|error| failed(&error))?;
        let mut keys = Vec::new();
        for rule in &self.hosts {
            let Some(psk) = &rule.tls else { continue };
            for subsystem in [subsystem, discovery] {
                for version in [IdentityVersion::V0, IdentityVersion::V1] {
                    let parties = Parties { host: rule.nqn, subsystem };
                    let key = psk.tls_key(&parties, version).map_err(|error| failed(&error))?;
                    keys.extend(key.map(|key| (key, rule.nqn)));
                }
                // What the nvme-cli of many a Linux host puts into its keyring.
                let parties = Parties { host: rule.nqn, subsystem };
                let key = psk.tls_key_of_libnvme(&parties).map_err(|error| failed(&error))?;
                keys.extend(key.map(|key| (key, rule.nqn)));
            }
        }
        if keys.is_empty() {
            return Err(
                "TLS needs a key: give at least one host a tls_psk in the list of hosts (--hosts)".to_owned()
            );
        }
        tls::Acceptor::new(keys).map_err(|error| error.to_string())
    }

    /// What is known of a host, be it expired or not.
    pub(crate) fn rule(&self, host: &Nqn) -> Option<&Rule> {
        self.hosts.iter().find(|rule| rule.nqn == *host)
    }

    /// What is known of a host that wants to connect at this time.
    ///
    /// # Errors
    /// Why it may not.
    pub fn admit(&self, host: &Nqn, now: SystemTime) -> Result<&Rule, Refusal> {
        let rule = self.rule(host).ok_or(Refusal::Unknown)?;
        if rule.expires.is_some_and(|expires| expires <= now) {
            return Err(Refusal::Expired);
        }
        Ok(rule)
    }
}

impl Rule {
    /// Controllers of a host at a time, unless its rule says otherwise. Linux makes one for each path.
    pub const DEFAULT_MAX_CONTROLLERS: u16 = 64;

    /// A host that needs no more than its name, and may do everything.
    #[must_use]
    pub fn named(nqn: Nqn) -> Self {
        Self {
            nqn,
            chap: None,
            methods: Methods::default(),
            tls: None,
            expires: None,
            role: Role::Administrator,
            hostid: None,
            max_controllers: Self::DEFAULT_MAX_CONTROLLERS,
        }
    }

    /// Whether it may have this Host Identifier.
    ///
    /// # Errors
    /// [`Refusal::HostIdentifier`].
    pub fn check_identifier(&self, id: &[u8; 16]) -> Result<(), Refusal> {
        match self.hostid.is_none_or(|own| own == *id) {
            true => Ok(()),
            false => Err(Refusal::HostIdentifier),
        }
    }

    /// Whether a host that has proved itself by one of the two rules has done so by the other, too.
    pub(crate) fn proves_as(&self, other: &Rule) -> bool {
        (&self.chap, &self.methods, &self.tls, &self.hostid)
            == (&other.chap, &other.methods, &other.tls, &other.hostid)
    }
}
