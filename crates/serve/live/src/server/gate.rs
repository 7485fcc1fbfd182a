//! What stands between a connection and the drive: the list of hosts, and whether the host still has to authenticate itself.

use super::peer_warnings::warn_limited;
use super::socket::Stream;
use crate::access::{Access, Rule};
use crate::snapshot::AuthenticationFailures;
use device::Role;
use fabric::auth::{Parties, Target};
use nvme::{Nqn, Status};
use std::sync::Arc;
use std::time::SystemTime;

/// Who may connect over the network, and how.
#[derive(Clone, Default)]
pub(crate) struct Guard {
    /// The hosts that may; everybody without.
    pub(crate) access: Option<Arc<Access>>,
    /// TCP connections are taken over TLS, and no others.
    pub(crate) tls: Option<tls::Acceptor>,
}

/// A host that was found in the list, and what its entry allows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Admitted {
    pub(super) host: Nqn,
    pub(super) max_controllers: u16,
}

/// Who may pass.
pub(super) struct Gate {
    access: Option<Arc<Access>>,
    /// What hosts may do if there is no list.
    role: Role,
    /// The host, once it was found in the list.
    pub(super) admitted: Option<Admitted>,
    pub(super) chap: Option<Box<Target>>,
    /// Commands other than those of authentication are refused.
    pub(super) shut: bool,
    /// An unknown host at a discovery controller: it learns nothing there.
    stranger: bool,
    /// How often a host was not let in, and why.
    pub(super) failures: AuthenticationFailures,
}

impl Gate {
    /// Before a connection. `role` is what hosts may do without a list.
    pub(super) fn new(access: Option<Arc<Access>>, role: Role) -> Self {
        let failures = AuthenticationFailures::default();
        Gate { access, role, admitted: None, chap: None, shut: false, stranger: false, failures }
    }

    /// Another list from now on. What the new one says of a host that the old one let in; `None` if it would not be let in by the same
    /// proof.
    pub(super) fn replace(&mut self, access: &Arc<Access>, now: SystemTime) -> Option<Role> {
        let before = self.access.replace(access.clone());
        let Some(Admitted { host, .. }) = &self.admitted else {
            // It has not connected yet. Or it was an unknown host, which may ask again.
            return (!self.stranger).then_some(Role::Guest);
        };
        let before: Option<&Rule> = before.as_ref().and_then(|before| before.rule(host));
        let rule = access.admit(host, now).ok()?;
        before.is_some_and(|before| before.proves_as(rule)).then(|| rule.role.clone())
    }

    /// Whether the host must authenticate itself before anything else.
    pub(super) fn must_prove(&self) -> bool {
        self.chap.is_some()
    }

    /// Whether the host still has to authenticate itself.
    #[inline]
    pub(super) fn is_shut(&self) -> bool {
        self.shut
    }

    /// The host, if it leaves without having authenticated itself, though it should have.
    pub(super) fn unproven(&self) -> Option<Nqn> {
        let chap = self.chap.as_ref().filter(|_| self.shut)?;
        chap.failure().is_none().then(|| chap.parties().host)
    }

    /// Whether the host is an unknown one at a discovery controller: it is told nothing.
    pub(super) fn is_stranger(&self) -> bool {
        self.stranger
    }

    /// Whether a key says who the host is, and not only its name.
    pub(super) fn has_key(&self, stream: &Stream) -> bool {
        self.chap.is_some() || matches!(stream, Stream::Tls(_))
    }

    /// Whether a host may connect to this subsystem, and what it may do there.
    ///
    /// # Errors
    /// Connect Invalid Host.
    pub(super) fn admit(
        &mut self,
        stream: &Stream,
        host: &Nqn,
        id: &[u8; 16],
        subsystem: &Nqn,
    ) -> Result<Role, Status> {
        let Some(access) = &self.access else { return Ok(self.role.clone()) };
        let refused = |why: &dyn std::fmt::Display| {
            warn_limited(format_args!("{host} ({}) is refused: {why}", stream.name()));
            Err(Status::CONNECT_INVALID_HOST.with_dnr())
        };
        let rule = match access.admit(host, SystemTime::now()) {
            Ok(rule) => rule,
            Err(why) if subsystem.as_str() == Nqn::DISCOVERY && !matches!(stream, Stream::Tls(_)) => {
                warn_limited(format_args!("{host} ({}) is told of nothing here: {why}", stream.name()));
                self.stranger = true;
                self.failures.unknown_host += 1;
                return Ok(Role::Guest);
            }
            Err(why) => {
                self.failures.unknown_host += 1;
                return refused(&why);
            }
        };
        if let Err(why) = rule.check_identifier(id) {
            return refused(&why);
        }
        if let Stream::Tls(session) = stream
            && session.host() != Some(host)
        {
            self.failures.tls_key += 1;
            return refused(&"its TLS key is not this host's");
        }
        if let Some(keys) = &rule.chap {
            let parties = Parties { host: *host, subsystem: *subsystem };
            self.chap = Some(Box::new(Target::new(parties, keys.clone(), rule.methods.clone())));
        }
        self.admitted = Some(Admitted { host: *host, max_controllers: rule.max_controllers });
        Ok(rule.role.clone())
    }

    /// After a successful Connect: whether the host must authenticate itself now (ATR).
    pub(super) fn close(&mut self) -> bool {
        self.shut = self.chap.is_some();
        self.shut
    }
}
