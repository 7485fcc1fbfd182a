//! Ports: discovery with its events, ports that go down, and peers that take too long.

use crate::common::shape_with;
use fabric::host::{Config, Data as Payload};
use host::{Data, Host, Identity, Queue, Session, SocketQueue, SocketTransport, TransportError};
use live::access::{Access, Rule};
use live::{Limits, Options, Running, TcpPort};
use nvme::admin::{FaultInjection, FaultKind};
use nvme::fabrics::{Connect, ConnectAttributes, ConnectData, ConnectResult, FabricsCommand};
use nvme::feature::{AsyncEventConfiguration, FeatureId};
use nvme::log::{AnaState, DiscoveryEntry, DiscoveryHeader, LogId, SubsystemType};
use nvme::property::{Cc, PropertyOffset};
use nvme::zerocopy::{FromBytes, FromZeros, IntoBytes};
use nvme::{AdminCommand, CNTLID_DYNAMIC, Command, Nqn, SglDescriptor, Status, U16};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};
use testkit::wait_for;

const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// Two TCP ports, the second non-optimized, and a Unix socket in `dir`.
fn start(dir: &std::path::Path, limits: Limits) -> Running {
    start_with(dir, limits, "")
}

/// The same with further keys in the drive's `[drive]` table.
fn start_with(dir: &std::path::Path, limits: Limits, drive: &str) -> Running {
    let second = TcpPort { ana: AnaState::NON_OPTIMIZED, ..TcpPort::from("[::1]:0") };
    let options = Options {
        tcp: vec!["127.0.0.1:0".into(), second],
        unix: Some(dir.join("s")),
        limits,
        ..Options::default()
    };
    live::start(Some(shape_with(drive)), &options, &mut |_| ()).unwrap()
}

fn identity(running: &Running) -> Identity {
    let mut identity = Identity::new("nqn.2026-11.test:host".parse().unwrap());
    identity.subnqn = Some(running.handle().subsystem_nqn().parse().unwrap());
    identity
}

fn over(addr: &str) -> SocketTransport {
    SocketTransport::new(addr.parse().unwrap(), ANSWER_TIMEOUT)
}

fn tcp(running: &Running, port: usize) -> SocketTransport {
    over(&format!("tcp://{}", running.ports()[port].address))
}

fn port_fault(kind: FaultKind, port: u16, param: u32) -> FaultInjection {
    FaultInjection { nsid: 0, kind, nvmsetid: port, count: 0, one_in: 0, param, lba: None }
}

fn fault(dir: &std::path::Path, running: &Running, kind: FaultKind, port: u16, param: u32) {
    let unix = over(&format!("unix://{}", dir.join("s").display()));
    let mut host = Host::connect(unix, &identity(running)).unwrap();
    host.inject_fault(port_fault(kind, port, param)).unwrap();
}

/// A connection whose Connect command has gone out, with its answer.
fn connected(running: &Running, subnqn: &str, kato: u32) -> SocketQueue {
    let seeker = "nqn.2026-11.test:seeker".parse::<Nqn>().unwrap().to_field();
    connected_as(running, subnqn, seeker, kato).0
}

/// The same of any host, and the identifier of its controller.
fn connected_as(running: &Running, subnqn: &str, hostnqn: [u8; 256], kato: u32) -> (SocketQueue, u16) {
    let stream = TcpStream::connect(running.ports()[0].address).unwrap();
    let mut queue = SocketQueue::over_tcp(stream, Config::default(), ANSWER_TIMEOUT).unwrap();
    let connect = Connect {
        recfmt: 0,
        qid: 0,
        sqsize_z: 31,
        cattr: ConnectAttributes::new().with_dis_sqflow(true),
        kato,
    };
    let data = ConnectData {
        cntlid: U16::new(CNTLID_DYNAMIC),
        subnqn: subnqn.parse::<Nqn>().unwrap().to_field(),
        hostid: [9; 16],
        hostnqn,
        ..ConnectData::new_zeroed()
    };
    let connect = Command::from(FabricsCommand::Connect(connect));
    let answer = ask(&mut queue, connect, Data::Out(data.as_bytes().to_vec()));
    let cntlid = ConnectResult::from_dw0(answer.completion.dw0.get()).cntlid;
    let cc = Cc::new().with_en(true).with_iosqes(6).with_iocqes(4).into_bits().get();
    let enable = FabricsCommand::PropertySet { offset: PropertyOffset::CC, wide: false, value: cc.into() };
    ask(&mut queue, enable.into(), Data::None);
    (queue, cntlid)
}

/// Waits until only so many controllers are left besides the one that asks.
fn wait_for_others(running: &Running, left: usize, why: &str) {
    wait_for(why, || {
        let mut host = Host::connect(tcp(running, 0), &identity(running)).unwrap();
        host.controllers().unwrap().len() == left + 1
    });
}

/// As SPDK's tools connect.
#[test]
fn a_host_without_a_name_is_known_again() {
    let temp = tempfile::tempdir().unwrap();
    let running = start(temp.path(), Limits::default());
    let drive = running.handle().subsystem_nqn().to_owned();
    let (nameless, first) = connected_as(&running, &drive, [0; 256], 0);
    let named = "nqn.2026-11.test:named".parse::<Nqn>().unwrap().to_field();
    let (_named, second) = connected_as(&running, &drive, named, 0);
    assert_ne!(first, second);
    drop(nameless);
    wait_for_others(&running, 1, "the end of the nameless host");
    let (_nameless, again) = connected_as(&running, &drive, [0; 256], 0);
    assert_eq!(again, first, "a host that comes again finds its controller's identifier again");
}

fn ask(queue: &mut SocketQueue, command: Command, data: Data) -> host::CompletedCommand {
    queue.submit(command, data).unwrap();
    let done = queue.next(Some(ANSWER_TIMEOUT)).unwrap().expect("an answer");
    assert!(done.completion.status().is_success(), "{}", done.completion.status());
    done
}

fn discovery_log(queue: &mut SocketQueue) -> (u64, Vec<DiscoveryEntry>) {
    let mut command = Command::get_log_page(LogId::DISCOVERY, 0, 0, 0, 8 * 1024);
    // Without Retain Asynchronous Event.
    command.cdw10.set(command.cdw10.get() & !0x8000);
    let log = ask(queue, command, Data::room(8 * 1024)).data.into_buffer();
    let (header, entries) = DiscoveryHeader::read_from_prefix(&log).unwrap();
    let entries = entries.chunks(1024).take(header.numrec.get() as usize);
    (header.genctr.get(), entries.map(|entry| DiscoveryEntry::read_from_bytes(entry).unwrap()).collect())
}

fn text(field: &[u8]) -> String {
    String::from_utf8_lossy(field).trim_end_matches([' ', '\0']).to_owned()
}

#[test]
fn discovery_lists_the_ports_and_tells_of_changes() {
    let temp = tempfile::tempdir().unwrap();
    let running = start(temp.path(), Limits::default());
    let mut queue = connected(&running, Nqn::DISCOVERY, 60_000);
    let (first, entries) = discovery_log(&mut queue);
    let shown: Vec<_> = entries
        .iter()
        .map(|e| (e.subtype, e.adrfam, e.portid.get(), text(&e.traddr), text(&e.trsvcid), e.eflags.get()))
        .collect();
    let services: Vec<String> = running.ports().iter().map(|p| p.address.port().to_string()).collect();
    let v4 = "127.0.0.1".to_owned();
    assert_eq!(
        shown,
        [
            (SubsystemType::CURRENT_DISCOVERY, 1, 1, v4.clone(), services[0].clone(), 2),
            (SubsystemType::NVM, 1, 1, v4, services[0].clone(), 0),
            (SubsystemType::NVM, 2, 2, "::1".to_owned(), services[1].clone(), 0),
        ]
    );
    assert!(entries.iter().all(|e| e.cntlid.get() == CNTLID_DYNAMIC && e.asqsz.get() >= 32));

    let on = AsyncEventConfiguration::new().with_dlpcn(true).into_bits().get();
    ask(&mut queue, Command::set_features(FeatureId::ASYNC_EVENT_CONFIGURATION, 0, on), Data::None);
    let request = queue.submit(AdminCommand::AsyncEventRequest.into(), Data::None).unwrap();
    queue.flush().unwrap();
    fault(temp.path(), &running, FaultKind::PORT_DOWN, 2, 3_600_000);
    let told = queue.next(Some(ANSWER_TIMEOUT)).unwrap().expect("an event");
    assert_eq!((told.tag, told.completion.dw0.get()), (request, 0x0070_F002));
    let (second, entries) = discovery_log(&mut queue);
    assert!(second > first && entries.iter().all(|e| e.portid.get() == 1) && entries.len() == 2);
    // It comes back when faults are cleared.
    let request = queue.submit(AdminCommand::AsyncEventRequest.into(), Data::None).unwrap();
    queue.flush().unwrap();
    fault(temp.path(), &running, FaultKind::CLEAR, 0, 0);
    assert_eq!(queue.next(Some(ANSWER_TIMEOUT)).unwrap().expect("an event").tag, request);
    assert_eq!(discovery_log(&mut queue).1.len(), 3);
}

#[test]
fn a_stranger_learns_of_no_port_whatever_changes() {
    let temp = tempfile::tempdir().unwrap();
    let listed = Rule::named("nqn.2026-11.test:listed".parse().unwrap());
    let options = Options {
        tcp: vec!["127.0.0.1:0".into(), "[::1]:0".into()],
        unix: Some(temp.path().join("s")),
        access: Some(Arc::new(Access::new(vec![listed]))),
        ..Options::default()
    };
    let running = live::start(Some(shape_with("")), &options, &mut |_| ()).unwrap();
    let mut stranger = connected(&running, Nqn::DISCOVERY, 60_000);
    let before = discovery_log(&mut stranger);
    assert!(before.1.is_empty());
    fault(temp.path(), &running, FaultKind::PORT_DOWN, 2, 3_600_000);
    assert_eq!(discovery_log(&mut stranger), before);
}

#[test]
fn a_port_that_is_down_refuses_hosts_and_comes_back() {
    let temp = tempfile::tempdir().unwrap();
    let running = start(temp.path(), Limits::default());
    let (address, mut identity) = (running.ports()[0].address, identity(&running));
    identity.kato_ms = 60_000;
    let make = move || over(&format!("tcp://{address}"));
    let mut session = Session::connect(make, identity.clone(), &[4, 4], ANSWER_TIMEOUT).unwrap();
    let mut other = Host::connect(tcp(&running, 1), &identity).unwrap();
    let begun = Instant::now();
    fault(temp.path(), &running, FaultKind::PORT_DOWN, 1, 300);
    // Which of the two was noticed first does not matter: both are over.
    for queue in session.queues() {
        let lost = queue.submit(Command::flush(1), Data::None).and_then(|_| queue.next(Some(ANSWER_TIMEOUT)));
        assert!(matches!(lost, Err(TransportError::Closed | TransportError::Io { .. })), "{lost:?}");
    }
    assert!(Host::connect(tcp(&running, 0), &identity).is_err() || begun.elapsed().as_millis() >= 300);
    assert_eq!(other.active_namespaces().unwrap(), [1], "the other port is as it was");
    let lost = session.recover().unwrap();
    assert!(begun.elapsed().as_millis() >= 300);
    assert_eq!(lost.len(), 2, "the flushes that were in flight: {lost:?}");
    assert!(lost.iter().all(|l| l.command.opc == Command::flush(1).opc) && lost[0].queue != lost[1].queue);
    session.tend().unwrap();
    assert_eq!(session.host().active_namespaces().unwrap(), [1]);
    let queue = &mut session.queues()[1];
    queue.submit(Command::flush(1), Data::None).unwrap();
    assert!(queue.next(Some(ANSWER_TIMEOUT)).unwrap().unwrap().completion.status().is_success());
    assert_eq!(queue.in_flight().count(), 0);
}

#[test]
fn who_takes_a_port_down_through_itself_is_answered() {
    let temp = tempfile::tempdir().unwrap();
    let running = start_with(temp.path(), Limits::default(), "allow_network_faults = true");
    for _ in 0..20 {
        let mut host = Host::connect(tcp(&running, 1), &identity(&running)).unwrap();
        host.inject_fault(port_fault(FaultKind::PORT_DOWN, 2, 3_600_000)).unwrap();
        assert!(host.active_namespaces().is_err(), "its port is down");
        fault(temp.path(), &running, FaultKind::CLEAR, 0, 0);
    }
}

/// Reads until the drive closes the connection.
#[track_caller]
fn is_closed(mut stream: TcpStream) {
    stream.set_read_timeout(Some(ANSWER_TIMEOUT)).unwrap();
    let mut bytes = [0; 4096];
    loop {
        match stream.read(&mut bytes) {
            Ok(0) => return,
            Ok(_) => {}
            Err(e) if e.kind() == std::io::ErrorKind::ConnectionReset => return,
            Err(e) => panic!("the connection stays: {e}"),
        }
    }
}

fn short() -> Limits {
    let span = Duration::from_millis(80);
    Limits { setup: span, stall: span, discovery: span, ..Limits::default() }
}

/// The bytes that a host sends first, and what the drive answers.
fn initialized(running: &Running) -> (TcpStream, fabric::host::Connection) {
    initialized_with(running, Config::default())
}

fn initialized_with(running: &Running, config: Config) -> (TcpStream, fabric::host::Connection) {
    let mut stream = TcpStream::connect(running.ports()[0].address).unwrap();
    let mut host = fabric::host::Connection::new(config);
    let hello: Vec<u8> = host.transmit().flatten().copied().collect();
    host.sent(hello.len());
    stream.write_all(&hello).unwrap();
    let mut answer = [0; 128];
    stream.read_exact(&mut answer).unwrap();
    host.receive(&answer).unwrap();
    (stream, host)
}

#[test]
fn peers_that_stall_are_ended() {
    let temp = tempfile::tempdir().unwrap();
    let running = start(temp.path(), short());
    let connect = || TcpStream::connect(running.ports()[0].address).unwrap();
    // Nothing at all; half an ICReq; no Connect.
    is_closed(connect());
    let mut half = connect();
    half.write_all(&[0, 0, 128, 0]).unwrap();
    is_closed(half);
    is_closed(initialized(&running).0);
    // Data that an R2T asks for, of a Connect that does not come in its capsule.
    let (mut stream, mut host) = initialized(&running);
    let connect = Connect { recfmt: 0, qid: 0, sqsize_z: 31, cattr: ConnectAttributes::new(), kato: 0 };
    host.submit(Command::from(FabricsCommand::Connect(connect)), Payload::None).unwrap();
    let mut bytes: Vec<u8> = host.transmit().flatten().copied().collect();
    bytes[8 + 24..8 + 40].copy_from_slice(SglDescriptor::transport(1024).as_bytes());
    stream.write_all(&bytes).unwrap();
    let mut r2t = [0; 24];
    stream.read_exact(&mut r2t).unwrap();
    assert_eq!(r2t[0], fabric::pdu::PduType::R2T.0);
    is_closed(stream);
    // A discovering host without a keep-alive timeout that says nothing more.
    let mut queue = connected(&running, Nqn::DISCOVERY, 0);
    assert!(matches!(queue.next(Some(ANSWER_TIMEOUT)), Err(TransportError::Closed)));
    // One whose keep-alive timer runs out.
    let mut queue = connected(&running, Nqn::DISCOVERY, 1);
    assert!(matches!(queue.next(Some(ANSWER_TIMEOUT)), Err(TransportError::Closed)));
    // The keep-alive timer is the controller's affair, and no connection's.
    assert!(counts(&running).timeouts >= 4, "{:?}", counts(&running));
    // A host that is only idle stays.
    let mut host = Host::connect(tcp(&running, 0), &identity(&running)).unwrap();
    std::thread::sleep(short().stall * 3);
    assert_eq!(host.active_namespaces().unwrap(), [1]);
}

#[test]
fn a_peer_that_reads_nothing_is_ended() {
    let temp = tempfile::tempdir().unwrap();
    let running = start(temp.path(), Limits { stall: Duration::from_millis(80), ..Limits::default() });
    // An admin queue whose host asks for more than the socket's buffers hold, and takes nothing.
    let (mut stream, mut host) = initialized(&running);
    let connect = Connect {
        recfmt: 0,
        qid: 0,
        sqsize_z: 31,
        cattr: ConnectAttributes::new().with_dis_sqflow(true),
        kato: 0,
    };
    let data = ConnectData {
        cntlid: U16::new(CNTLID_DYNAMIC),
        subnqn: running.handle().subsystem_nqn().parse::<Nqn>().unwrap().to_field(),
        hostnqn: "nqn.2026-11.test:deaf".parse::<Nqn>().unwrap().to_field(),
        ..ConnectData::new_zeroed()
    };
    let cc = Cc::new().with_en(true).with_iosqes(6).with_iocqes(4).into_bits().get();
    let enable = FabricsCommand::PropertySet { offset: PropertyOffset::CC, wide: false, value: cc.into() };
    let log = Command::get_log_page(LogId::SMART, 0, 0, 0, 1 << 20);
    let mut send = |command: Command, data| {
        host.submit(command, data).unwrap();
        let bytes: Vec<u8> = host.transmit().flatten().copied().collect();
        host.sent(bytes.len());
        stream.write_all(&bytes).unwrap();
    };
    send(FabricsCommand::Connect(connect).into(), Payload::Out(data.as_bytes().to_vec()));
    send(enable.into(), Payload::None);
    for _ in 0..24 {
        send(log, Payload::In(vec![0; 1 << 20]));
    }
    wait_for_others(&running, 0, "the end of the deaf host");
}

#[test]
fn what_is_advertised_is_granted_and_no_more() {
    let temp = tempfile::tempdir().unwrap();
    let running = start(temp.path(), Limits::default());
    let identity = identity(&running);
    let mut transport = tcp(&running, 0);
    let mut connected = host::Transport::connect(&mut transport, &identity).unwrap();
    let mqes = u16::try_from(u32::from(connected.cap.mqes_z()) + 1).unwrap();
    let page =
        ask(&mut connected.admin, Command::identify(nvme::identify::Cns::CONTROLLER, 0), Data::room(4096));
    let page = page.data.into_buffer();
    let ctrl = nvme::identify::IdentifyController::read_from_bytes(&page).unwrap();
    assert_eq!(ctrl.maxcmd.get(), mqes);
    // A queue of that size, and one entry more.
    let mut queue = host::Transport::open_io(&mut transport, mqes).unwrap();
    let refused = host::Transport::open_io(&mut transport, mqes + 1).map(drop).unwrap_err();
    assert!(refused.status().unwrap().is(Status::CONNECT_INVALID_PARAMETERS), "{refused}");
    // MAXCMD commands at once.
    for _ in 0..mqes {
        queue.submit(Command::flush(1), Data::None).unwrap();
    }
    for _ in 0..mqes {
        assert!(queue.next(Some(ANSWER_TIMEOUT)).unwrap().unwrap().completion.status().is_success());
    }
    // As much data as MDTS says, and a block more.
    let most = 4096 << ctrl.mdts;
    let blocks = u32::try_from(most / 4096).unwrap();
    for (blocks, fits) in [(blocks, true), (blocks + 1, false)] {
        let bytes = blocks as usize * 4096;
        for (command, data) in [
            (Command::write(1, 0, blocks), Data::Out(vec![7; bytes])),
            (Command::read(1, 0, blocks), Data::room(bytes)),
        ] {
            queue.submit(command, data).unwrap();
            let status = queue.next(Some(ANSWER_TIMEOUT)).unwrap().unwrap().completion.status();
            assert_eq!(status.is_success(), fits, "{blocks} blocks: {status}");
            assert!(fits || status.is(Status::INVALID_FIELD), "{status}");
        }
    }
    // The rest of the capsule, by IOCCSZ: from offset 0 (ICDOFF), and answers of 16 bytes (IORCSZ).
    assert!(ctrl.ioccsz.get() * 16 >= 64 + 8192 && ctrl.icdoff.get() == 0 && ctrl.iorcsz.get() == 1);
    // All queues of an association come through one port.
    let other = running.ports()[1].address;
    let stream = TcpStream::connect(other).unwrap();
    let mut elsewhere = SocketQueue::over_tcp(stream, Config::default(), ANSWER_TIMEOUT).unwrap();
    let connect = Connect { recfmt: 0, qid: 5, sqsize_z: 31, cattr: ConnectAttributes::new(), kato: 0 };
    let data = ConnectData {
        hostid: identity.hostid,
        cntlid: U16::new(connected.cntlid),
        subnqn: identity.subnqn.unwrap().to_field(),
        hostnqn: identity.hostnqn.to_field(),
        ..ConnectData::new_zeroed()
    };
    elsewhere
        .submit(Command::from(FabricsCommand::Connect(connect)), Data::Out(data.as_bytes().to_vec()))
        .unwrap();
    let status = elsewhere.next(Some(ANSWER_TIMEOUT)).unwrap().unwrap().completion.status();
    assert!(status.is(Status::CONNECT_INVALID_PARAMETERS), "{status}");
}

/// What all TCP connections counted.
fn counts(running: &Running) -> live::ConnectionCounts {
    let snapshot = running.handle().snapshot().unwrap();
    snapshot.transports.iter().find(|of| of.name == "tcp").unwrap().counts
}

#[test]
fn wrong_digests_are_counted_by_their_kind() {
    let temp = tempfile::tempdir().unwrap();
    let running = start(temp.path(), Limits::default());
    for header in [false, true] {
        let config = Config { header_digest: true, data_digest: true, ..Config::default() };
        let (mut stream, mut host) = initialized_with(&running, config);
        let connect = Connect { recfmt: 0, qid: 0, sqsize_z: 31, cattr: ConnectAttributes::new(), kato: 0 };
        let data = ConnectData {
            cntlid: U16::new(CNTLID_DYNAMIC),
            subnqn: running.handle().subsystem_nqn().parse::<Nqn>().unwrap().to_field(),
            hostnqn: "nqn.2026-11.test:host".parse::<Nqn>().unwrap().to_field(),
            ..ConnectData::new_zeroed()
        };
        let connect = Command::from(FabricsCommand::Connect(connect));
        host.submit(connect, Payload::Out(data.as_bytes().to_vec())).unwrap();
        let mut bytes: Vec<u8> = host.transmit().flatten().copied().collect();
        // The header's digest is behind the header of 72 bytes, the data's at the end.
        let at = if header { 72 } else { bytes.len() - 1 };
        bytes[at] ^= 1;
        stream.write_all(&bytes).unwrap();
        let begun = Instant::now();
        let wanted = (u64::from(header), 1);
        while (counts(&running).header_digest_errors, counts(&running).data_digest_errors) != wanted {
            assert!(begun.elapsed() < ANSWER_TIMEOUT, "{:?}", counts(&running));
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    assert_eq!(counts(&running).protocol_errors, 0);
}
