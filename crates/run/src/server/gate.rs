//! What stands between a connection and the drive: the list of hosts, and authentication.

use super::Peer;
use super::note::note;
use super::socket::Stream;
use crate::access::Access;
use fabric::auth::{Parties, Target};
use fabric::target::Incoming;
use host::fill_random;
use nvme::auth::SECP_NVME;
use nvme::command::FABRICS_OPCODE;
use nvme::fabrics::{FabricsCommand, FabricsType};
use nvme::{Completion, Nqn, Status};
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

/// Who may pass. Open for connections that nobody guards.
#[derive(Default)]
pub(super) struct Gate {
    access: Option<Arc<Access>>,
    chap: Option<Box<Target>>,
    /// Commands other than those of authentication are refused.
    shut: bool,
    /// A host that nobody knows, at a discovery controller: it learns nothing there.
    stranger: bool,
}

impl Gate {
    pub(super) fn new(access: Option<Arc<Access>>) -> Self {
        Gate { access, ..Gate::default() }
    }

    /// Whether the host still has to authenticate itself.
    #[inline]
    pub(super) fn is_shut(&self) -> bool {
        self.shut
    }

    /// Who leaves without having authenticated itself, though it should have.
    pub(super) fn unproven(&self) -> Option<Nqn> {
        let chap = self.chap.as_ref().filter(|_| self.shut)?;
        chap.failure().is_none().then(|| chap.parties().host)
    }

    /// Whether the host is one that nobody knows, at a discovery controller: it is told nothing.
    pub(super) fn is_stranger(&self) -> bool {
        self.stranger
    }

    /// Whether a host may connect to this subsystem.
    ///
    /// # Errors
    /// Connect Invalid Host.
    pub(super) fn admit(&mut self, stream: &Stream, host: &Nqn, subsystem: &Nqn) -> Result<(), Status> {
        let Some(access) = &self.access else { return Ok(()) };
        let refused = |why: &dyn std::fmt::Display| {
            note(format_args!("{host} ({}) is refused: {why}", stream.name()));
            Err(Status::CONNECT_INVALID_HOST.with_dnr())
        };
        let rule = match access.admit(host, SystemTime::now()) {
            Ok(rule) => rule,
            Err(why) if subsystem.as_str() == Nqn::DISCOVERY && !matches!(stream, Stream::Tls(_)) => {
                note(format_args!("{host} ({}) is told of nothing here: {why}", stream.name()));
                self.stranger = true;
                return Ok(());
            }
            Err(why) => return refused(&why),
        };
        if let Stream::Tls(session) = stream
            && session.host() != Some(host)
        {
            return refused(&"its TLS key is not this host's");
        }
        if let Some(keys) = &rule.chap {
            let parties = Parties { host: *host, subsystem: *subsystem };
            self.chap = Some(Box::new(Target::new(parties, keys.clone(), rule.methods.clone())));
        }
        Ok(())
    }

    /// After a successful Connect: whether the host must authenticate itself now (ATR).
    pub(super) fn close(&mut self) -> bool {
        self.shut = self.chap.is_some();
        self.shut
    }
}

/// Answers a command that is the gate's business; false if it is somebody else's.
pub(super) fn answered(peer: &mut Peer, incoming: &Incoming) -> bool {
    let sqe = &incoming.sqe;
    let fabrics = (sqe.opc == FABRICS_OPCODE).then(|| sqe.fctype());
    let status = match fabrics {
        Some(FabricsType::AUTHENTICATION_SEND | FabricsType::AUTHENTICATION_RECEIVE) => {
            match authenticate(peer, incoming) {
                Ok(()) => return true,
                Err(status) => status,
            }
        }
        // Disconnect ends an I/O queue in any case; Connect has its own answer.
        Some(FabricsType::DISCONNECT | FabricsType::CONNECT) => return false,
        _ if peer.gate.shut => Status::AUTHENTICATION_REQUIRED.with_dnr(),
        _ => return false,
    };
    let _ = peer.wire.respond(incoming.tag, Completion::new(0, status), 0);
    true
}

/// Executes Authentication Send and Receive (Base 6.1, 6.2).
fn authenticate(peer: &mut Peer, incoming: &Incoming) -> Result<(), Status> {
    if peer.queue.is_none() && peer.discovery.is_none() {
        return Err(Status::COMMAND_SEQUENCE_ERROR.with_dnr());
    }
    let Some(chap) = &mut peer.gate.chap else { return Err(Status::INVALID_OPCODE.with_dnr()) };
    let (command, sends) = match FabricsCommand::parse(&incoming.sqe)? {
        FabricsCommand::AuthenticationSend(command) => (command, true),
        FabricsCommand::AuthenticationReceive(command) => (command, false),
        _ => return Err(Status::INVALID_OPCODE.with_dnr()),
    };
    if (command.secp, command.spsp0, command.spsp1) != (SECP_NVME, 1, 1) || command.length == 0 {
        return Err(Status::INVALID_FIELD.with_dnr());
    }
    let data = peer.wire.data(incoming.tag).unwrap_or_default();
    let length = usize::try_from(command.length).unwrap_or(usize::MAX);
    let data = data.get_mut(..length).ok_or(Status::DATA_SGL_LENGTH_INVALID.with_dnr())?;
    let was_authenticated = chap.is_authenticated();
    let mut filled = 0;
    if sends {
        chap.take(data, &mut fill_random);
    } else {
        let len = chap.give(data)?;
        data[len..].fill(0);
        filled = length;
    }
    let (authenticated, failure) = (chap.is_authenticated(), chap.failure());
    let host = chap.parties().host;
    let _ = peer.wire.respond(incoming.tag, Completion::success(0, 0), filled);
    if authenticated && !was_authenticated {
        tracing::debug!("{host} ({}) has authenticated itself", peer.stream.name());
        peer.gate.shut = false;
    }
    if !authenticated {
        peer.gate.shut = true;
    }
    if let Some(reason) = failure {
        note(format_args!("{host} ({}) is refused: {reason} (DH-HMAC-CHAP)", peer.stream.name()));
        peer.leaving = true;
    }
    Ok(())
}
