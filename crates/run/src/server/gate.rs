//! What stands between a connection and the drive: the list of hosts, and authentication.

use super::helper::Task;
use super::note::note;
use super::peer::Peer;
use super::socket::Stream;
use crate::access::{Access, Rule};
use device::Role;
use fabric::Tag;
use fabric::auth::{Parties, Target};
use fabric::target::Incoming;
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

/// What became of a command at the gate.
pub(super) enum Passed {
    /// It is somebody else's business.
    On,
    /// It was answered.
    Answered,
    /// It is answered when this is done.
    Later(Task),
}

/// Who may pass.
pub(super) struct Gate {
    access: Option<Arc<Access>>,
    /// What hosts may do if there is no list.
    role: Role,
    /// The host, once it was found in the list.
    host: Option<Nqn>,
    chap: Option<Box<Target>>,
    /// Commands other than those of authentication are refused.
    shut: bool,
    /// A host that nobody knows, at a discovery controller: it learns nothing there.
    stranger: bool,
}

impl Gate {
    /// Before a connection. `role` is what hosts may do without a list.
    pub(super) fn new(access: Option<Arc<Access>>, role: Role) -> Self {
        Gate { access, role, host: None, chap: None, shut: false, stranger: false }
    }

    /// Another list from now on. What the new one says of a host that the old one let in; `None` if it would not be let in by the same
    /// proof.
    pub(super) fn replace(&mut self, access: &Arc<Access>, now: SystemTime) -> Option<Role> {
        let before = self.access.replace(access.clone());
        let Some(host) = &self.host else {
            // It has not connected yet; or it is a host that nobody knew, which may ask again.
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

    /// Who leaves without having authenticated itself, though it should have.
    pub(super) fn unproven(&self) -> Option<Nqn> {
        let chap = self.chap.as_ref().filter(|_| self.shut)?;
        chap.failure().is_none().then(|| chap.parties().host)
    }

    /// Whether the host is one that nobody knows, at a discovery controller: it is told nothing.
    pub(super) fn is_stranger(&self) -> bool {
        self.stranger
    }

    /// Whether a host may connect to this subsystem, and what it may do there.
    ///
    /// # Errors
    /// Connect Invalid Host.
    pub(super) fn admit(&mut self, stream: &Stream, host: &Nqn, subsystem: &Nqn) -> Result<Role, Status> {
        let Some(access) = &self.access else { return Ok(self.role.clone()) };
        let refused = |why: &dyn std::fmt::Display| {
            note(format_args!("{host} ({}) is refused: {why}", stream.name()));
            Err(Status::CONNECT_INVALID_HOST.with_dnr())
        };
        let rule = match access.admit(host, SystemTime::now()) {
            Ok(rule) => rule,
            Err(why) if subsystem.as_str() == Nqn::DISCOVERY && !matches!(stream, Stream::Tls(_)) => {
                note(format_args!("{host} ({}) is told of nothing here: {why}", stream.name()));
                self.stranger = true;
                return Ok(Role::Guest);
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
        self.host = Some(*host);
        Ok(rule.role.clone())
    }

    /// After a successful Connect: whether the host must authenticate itself now (ATR).
    pub(super) fn close(&mut self) -> bool {
        self.shut = self.chap.is_some();
        self.shut
    }
}

/// Answers a command that is the gate's business.
pub(super) fn pass(peer: &mut Peer, incoming: &Incoming) -> Passed {
    let sqe = &incoming.sqe;
    let fabrics = (sqe.opc == FABRICS_OPCODE).then(|| sqe.fctype());
    let status = match fabrics {
        Some(FabricsType::AUTHENTICATION_SEND | FabricsType::AUTHENTICATION_RECEIVE) => {
            match authenticate(peer, incoming) {
                Ok(passed) => return passed,
                Err(status) => status,
            }
        }
        // Disconnect ends an I/O queue in any case; Connect has its own answer.
        Some(FabricsType::DISCONNECT | FabricsType::CONNECT) => return Passed::On,
        _ if peer.gate.shut => Status::AUTHENTICATION_REQUIRED.with_dnr(),
        _ => return Passed::On,
    };
    let _ = peer.wire.respond(incoming.tag, Completion::new(0, status), 0);
    Passed::Answered
}

/// Executes Authentication Send and Receive (Base 6.1, 6.2).
fn authenticate(peer: &mut Peer, incoming: &Incoming) -> Result<Passed, Status> {
    if peer.queue.is_none() && peer.discovery.is_none() {
        return Err(Status::COMMAND_SEQUENCE_ERROR.with_dnr());
    }
    let Some(mut chap) = peer.gate.chap.take() else { return Err(Status::INVALID_OPCODE.with_dnr()) };
    let tag = incoming.tag;
    match message(peer, incoming) {
        Ok((true, data)) => {
            let message = data.to_vec();
            Ok(Passed::Later(Task::Message { tag, chap, message }))
        }
        Ok((false, data)) => {
            let filled = data.len();
            let given = chap.give(data).inspect(|len| data[*len..].fill(0));
            let answer = given.map(|_| filled);
            proceed(peer, tag, chap, answer);
            Ok(Passed::Answered)
        }
        Err(status) => {
            peer.gate.chap = Some(chap);
            Err(status)
        }
    }
}

/// The data of Authentication Send (true) and Receive (false).
fn message<'a>(peer: &'a mut Peer, incoming: &Incoming) -> Result<(bool, &'a mut [u8]), Status> {
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
    Ok((sends, data.get_mut(..length).ok_or(Status::DATA_SGL_LENGTH_INVALID.with_dnr())?))
}

/// Answers a command of authentication, and says what has come of it. Whether the host has proved itself follows from
/// [`Gate::is_shut`].
pub(super) fn proceed(peer: &mut Peer, tag: Tag, chap: Box<Target>, answer: Result<usize, Status>) {
    let (authenticated, failure) = (chap.is_authenticated(), chap.failure());
    let host = chap.parties().host;
    peer.gate.chap = Some(chap);
    let (completion, filled) = match answer {
        Ok(filled) => (Completion::success(0, 0), filled),
        Err(status) => (Completion::new(0, status), 0),
    };
    let _ = peer.wire.respond(tag, completion, filled);
    if authenticated && peer.gate.shut {
        tracing::debug!("{host} ({}) has authenticated itself", peer.stream.name());
    }
    peer.gate.shut = !authenticated;
    if let Some(reason) = failure {
        note(format_args!("{host} ({}) is refused: {reason} (DH-HMAC-CHAP)", peer.stream.name()));
        peer.leaving = true;
    }
}
