//! The Connect command (Base 6.3): which controller and queue a connection is.

use super::discover::Discovering;
use super::peer::Peer;
use super::peer_warnings::warn_limited;
use super::places::Places;
use super::ports::Ports;
use crate::engine::Engine;
use device::{ControllerId, Host, TransportModel};
use fabric::discovery;
use fabric::target::Incoming;
use media::Nanos;
use nvme::fabrics::{Connect, ConnectData, ConnectResult, FabricsCommand, connect_invalid_parameter};
use nvme::zerocopy::{FromBytes, IntoBytes};
use nvme::{CNTLID_DYNAMIC, Command, Completion, Nqn, Status};

/// Executes Connect (Base 6.3). `None` for a host whose controller has vanished: its connection ends without an answer.
pub(super) fn connect(
    engine: &mut Engine,
    peer: &mut Peer,
    ports: &mut Ports,
    places: &Places,
    incoming: &Incoming,
    now: Nanos,
) -> Option<Completion> {
    let data = peer.wire.data(incoming.tag).ok().and_then(|bytes| ConnectData::ref_from_prefix(bytes).ok());
    let is_hidden =
        data.and_then(|(data, _)| host_of(data)).is_some_and(|host| ports.is_hidden_from(&host, now));
    (!is_hidden).then(|| execute(engine, peer, ports, places, incoming, now))
}

/// The name of a host that connects.
fn host_of(data: &ConnectData) -> Option<Nqn> {
    match data.hostnqn[0] {
        // SPDK's tools give no name unless told: such a host goes by its Host Identifier.
        0 => Some(Nqn::from_uuid(data.hostid)),
        _ => Nqn::from_field(&data.hostnqn).ok(),
    }
}

fn execute(
    engine: &mut Engine,
    peer: &mut Peer,
    ports: &mut Ports,
    places: &Places,
    incoming: &Incoming,
    now: Nanos,
) -> Completion {
    let failed = |status: Status, at: u32| {
        let mut completion = Completion::new(0, status.with_dnr());
        completion.dw0.set(at);
        completion
    };
    let invalid = |in_data, offset| {
        failed(Status::CONNECT_INVALID_PARAMETERS, connect_invalid_parameter(in_data, offset))
    };
    if peer.queue.is_some() || peer.discovery.is_some() {
        return failed(Status::COMMAND_SEQUENCE_ERROR, 0);
    }
    let Ok(FabricsCommand::Connect(connect)) = FabricsCommand::parse(&incoming.sqe) else {
        return failed(Status::INVALID_FIELD, 0);
    };
    let Connect { recfmt, qid, sqsize_z, kato, .. } = connect;
    if recfmt != 0 {
        return failed(Status::CONNECT_INCOMPATIBLE_FORMAT, 0);
    }
    let data = peer.wire.data(incoming.tag).ok().and_then(|bytes| ConnectData::ref_from_prefix(bytes).ok());
    let Some((data, _)) = data else { return failed(Status::DATA_SGL_LENGTH_INVALID, 0) };
    let data = *data;
    let Ok(subsystem) = Nqn::from_field(&data.subnqn) else { return invalid(true, 256) };
    let discovery = subsystem.as_str() == Nqn::DISCOVERY;
    if subsystem != engine.drive.config().identity.nqn && !discovery {
        return invalid(true, 256);
    }
    let Some(host) = host_of(&data) else { return invalid(true, 512) };
    let role = match peer.gate.admit(&peer.stream, &host, &data.hostid, &subsystem) {
        Ok(role) => role,
        Err(status) => return failed(status, 0),
    };
    if let Some(claim) = peer.claim(qid == 0 && !discovery)
        && let Err(full) = places.check(&claim)
    {
        warn_limited(format_args!("{host} ({}) is refused: {full}", peer.stream.name()));
        // It may try again.
        return Completion::new(0, Status::CONNECT_CONTROLLER_BUSY);
    }
    let cntlid = data.cntlid.get();
    let entries = u32::from(sqsize_z) + 1;
    let most = if qid == 0 { u32::from(discovery::ADMIN_ENTRIES) } else { engine.limits().entries };
    if !(2..=most).contains(&entries) {
        return invalid(false, 44);
    }
    if discovery {
        if qid != 0 {
            return invalid(false, 42);
        }
        return connect_to_discovery(engine, peer, ports, &incoming.sqe, data, now);
    }
    let result = if qid == 0 {
        if cntlid != CNTLID_DYNAMIC {
            return invalid(true, 16);
        }
        if engine.is_expelling() {
            // A connection of before must not speak for the new controller.
            return failed(Status::CONNECT_CONTROLLER_BUSY, 0);
        }
        let proven = !peer.gate.must_prove();
        let transport = TransportModel::Message;
        let host = Host { nqn: host, id: data.hostid, origin: peer.origin, transport, role, proven };
        let connected = engine.drive.connect(now, host, cntlid, kato);
        connected.inspect(|id| engine.drive.arrive(*id, peer.port))
    } else {
        let id = ControllerId(cntlid);
        // All queues of a controller come through one port.
        let same = engine.drive.controllers().any(|(c, h, o)| c == id && *h == host && o == peer.origin)
            && engine.drive.port_of(id) == Some(peer.port);
        if !same {
            return invalid(true, 16);
        }
        // A host that has not proved itself yet takes no queue away from the one that it claims to be.
        peer.promised = peer.gate.must_prove().then_some(entries);
        let added = match peer.promised {
            Some(_) => engine.drive.check_queue(id, qid, entries),
            None => engine.drive.add_queue(id, qid, entries),
        };
        added.map(|()| id)
    };
    match result {
        Ok(id) => {
            peer.queue = Some((id, qid));
            Completion::success(
                0,
                ConnectResult { cntlid: id.0, atr: peer.gate.close(), ascr: false }.to_dw0(),
            )
        }
        Err(status) => Completion::new(0, status),
    }
}

/// The host gets a discovery controller.
fn connect_to_discovery(
    engine: &Engine,
    peer: &mut Peer,
    ports: &mut Ports,
    command: &Command,
    mut data: ConnectData,
    now: Nanos,
) -> Completion {
    let (subsystem, limits) = (engine.drive.config().identity.nqn, engine.limits());
    let mut controller = ports.discovery(&peer.stream, peer.port, &subsystem, limits.transfer);
    if peer.gate.is_stranger() {
        controller.update(&[], 0);
    }
    let (completion, _) = controller.execute(command, data.as_mut_bytes()).unwrap_or_default();
    if !completion.status().is_success() {
        return completion;
    }
    peer.discovery = Some(Discovering::new(controller, now));
    let result = ConnectResult { atr: peer.gate.close(), ..ConnectResult::from_dw0(completion.dw0.get()) };
    Completion::success(0, result.to_dw0())
}
