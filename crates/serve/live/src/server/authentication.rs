//! Commands at the gate of a connection: those of authentication, and all others until it has succeeded.

use super::helper::Task;
use super::peer::Peer;
use super::peer_warnings::warn_limited;
use fabric::Tag;
use fabric::auth::Target;
use fabric::target::Incoming;
use nvme::auth::SECP_NVME;
use nvme::command::FABRICS_OPCODE;
use nvme::fabrics::{FabricsCommand, FabricsType};
use nvme::{Completion, Status};

/// What became of a command at the gate.
pub(super) enum GateVerdict {
    /// It goes on: it has nothing to do with authentication.
    On,
    /// It was answered.
    Answered,
    /// It is answered when this is done.
    Later(Task),
}

/// Answers a command that is the gate's business.
pub(super) fn pass(peer: &mut Peer, incoming: &Incoming) -> GateVerdict {
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
        Some(FabricsType::DISCONNECT | FabricsType::CONNECT) => return GateVerdict::On,
        _ if peer.gate.shut => Status::AUTHENTICATION_REQUIRED.with_dnr(),
        _ => return GateVerdict::On,
    };
    let _ = peer.wire.respond(incoming.tag, Completion::new(0, status), 0);
    GateVerdict::Answered
}

/// Executes Authentication Send and Receive (Base 6.1, 6.2).
fn authenticate(peer: &mut Peer, incoming: &Incoming) -> Result<GateVerdict, Status> {
    if peer.queue.is_none() && peer.discovery.is_none() {
        return Err(Status::COMMAND_SEQUENCE_ERROR.with_dnr());
    }
    let Some(mut chap) = peer.gate.chap.take() else { return Err(Status::INVALID_OPCODE.with_dnr()) };
    let tag = incoming.tag;
    match message(peer, incoming) {
        Ok((true, data)) => {
            let message = data.to_vec();
            Ok(GateVerdict::Later(Task::Message { tag, chap, message }))
        }
        Ok((false, data)) => {
            let filled = data.len();
            let given = chap.give(data).inspect(|len| data[*len..].fill(0));
            let answer = given.map(|_| filled);
            proceed(peer, tag, chap, answer);
            Ok(GateVerdict::Answered)
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
/// [`Gate::is_shut`](super::gate::Gate::is_shut).
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
        peer.gate.failures.chap += 1;
        warn_limited(format_args!("{host} ({}) is refused: {reason} (DH-HMAC-CHAP)", peer.stream.name()));
        peer.leaving = true;
    }
}
