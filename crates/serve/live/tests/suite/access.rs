//! Who may connect over the network: the list of hosts and DH-HMAC-CHAP, over real sockets.

use crate::common::shape;
use fabric::auth::{AuthStep, ChapKey, ChapKeys, Methods, Parties};
use host::{Data, Error, Host, Identity, Queue, SocketQueue, SocketTransport};
use live::access::{Access, Rule};
use live::{AuthenticationFailures, Limits, Options, Role, Running};
use nvme::auth::{AuthFailure, DhGroupId, HashId, SECP_NVME};
use nvme::fabrics::{Authentication, Connect, ConnectAttributes, ConnectData, ConnectResult, FabricsCommand};
use nvme::property::PropertyOffset;
use nvme::zerocopy::IntoBytes;
use nvme::{CNTLID_DYNAMIC, Command, Completion, Nqn, Status};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use testkit::wait_for;

/// Less than the 30 s after which the drive shows out who was not let in, unless told.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(25);

fn nqn(name: &str) -> Nqn {
    format!("nqn.2026-11.test:{name}").parse().unwrap()
}

fn key() -> ChapKey {
    ChapKey::generate(Some(HashId::SHA256), None, &mut host::fill_random).unwrap()
}

fn start(access: Access) -> Running {
    start_within(access, Limits::default())
}

fn start_within(access: Access, limits: Limits) -> Running {
    let options = Options {
        tcp: vec!["127.0.0.1:0".into()],
        access: Some(Arc::new(access)),
        limits,
        ..Options::default()
    };
    live::start(Some(shape()), &options, &mut |_| ()).unwrap()
}

fn connect(running: &Running, name: &str, chap: Option<ChapKeys>) -> Result<Host<SocketTransport>, Error> {
    let mut identity = Identity::new(nqn(name));
    identity.subnqn = Some(running.handle().subsystem_nqn().parse().unwrap());
    identity.chap = chap;
    let addr = format!("tcp://{}", running.tcp().unwrap()).parse().unwrap();
    Host::connect(SocketTransport::new(addr, ANSWER_TIMEOUT), &identity)
}

/// Reads and writes.
fn use_it(mut host: Host<SocketTransport>) {
    let namespace = host.namespace(1).unwrap();
    let mut queues = [host.io_queue(8).unwrap(), host.io_queue(8).unwrap()];
    for (i, queue) in queues.iter_mut().enumerate() {
        let data = vec![i as u8 + 1; 65536];
        queue.write(&namespace, 0, &data, false).unwrap();
        let mut back = vec![0; data.len()];
        queue.read(&namespace, 0, &mut back).unwrap();
        assert!(data == back);
    }
    drop(queues);
    host.shutdown().unwrap();
}

#[test]
fn only_listed_hosts_connect() {
    let expired = Rule { expires: Some(SystemTime::UNIX_EPOCH), ..Rule::named(nqn("late")) };
    let later = SystemTime::now() + Duration::from_secs(3600);
    let early = Rule { expires: Some(later), ..Rule::named(nqn("early")) };
    // Host Identifiers of `connect` are zeroes or made of the name.
    let bound = Rule { hostid: Some([0xB0; 16]), ..Rule::named(nqn("bound")) };
    let running = start(Access::new(vec![Rule::named(nqn("a")), expired, early, bound]));
    use_it(connect(&running, "a", None).unwrap());
    use_it(connect(&running, "early", None).unwrap());
    for stranger in ["b", "late", "bound"] {
        let error = connect(&running, stranger, None).map(|_| ()).unwrap_err();
        assert!(error.status().unwrap().is(Status::CONNECT_INVALID_HOST), "{error}");
    }
    // The discovery service does not say what is here.
    let addr: host::Addr = format!("tcp://{}", running.tcp().unwrap()).parse().unwrap();
    let seek = |name| {
        let transport = SocketTransport::new(addr.clone(), ANSWER_TIMEOUT);
        Host::connect(transport, &Identity::new(nqn(name))).map(|_| ())
    };
    seek("a").unwrap();
    let error = seek("b").unwrap_err().to_string();
    assert!(
        error.contains("tells nqn.2026-11.test:b of none: ") && error.contains("list of hosts"),
        "{error}"
    );
    // Two at the drive, one at the discovery service.
    assert_eq!(failures(&running), AuthenticationFailures { unknown_host: 3, ..Default::default() });
}

#[test]
fn the_list_is_not_for_the_unix_socket() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("drive.sock");
    let options = Options {
        unix: Some(path.clone()),
        access: Some(Arc::new(Access::new(Vec::new()))),
        ..Options::default()
    };
    let _running = live::start(Some(shape()), &options, &mut |_| ()).unwrap();
    let addr = format!("unix://{}", path.display()).parse().unwrap();
    use_it(Host::connect(SocketTransport::new(addr, ANSWER_TIMEOUT), &Identity::new(nqn("b"))).unwrap());
}

#[test]
fn hosts_authenticate_themselves_and_the_drive() {
    let (one, two, drive) = (key(), key(), key());
    let keys = |host: &ChapKey, controller: Option<&ChapKey>| {
        Some(ChapKeys { host: host.clone(), controller: controller.cloned() })
    };
    let rule = |name, keys, hash, group| Rule {
        chap: keys,
        methods: Methods { hashes: vec![hash], dh_groups: vec![group] },
        ..Rule::named(nqn(name))
    };
    let running = start(Access::new(vec![
        rule("one", keys(&one, None), HashId::SHA256, DhGroupId::NULL),
        rule("two", keys(&two, Some(&drive)), HashId::SHA512, DhGroupId::FFDHE2048),
        Rule::named(nqn("free")),
    ]));
    use_it(connect(&running, "one", keys(&one, None)).unwrap());
    use_it(connect(&running, "two", keys(&two, None)).unwrap());
    use_it(connect(&running, "two", keys(&two, Some(&drive))).unwrap());
    use_it(connect(&running, "free", keys(&one, None)).unwrap());

    let refused =
        |name, keys: Option<ChapKeys>| connect(&running, name, keys).map(|_| ()).unwrap_err().to_string();
    let failed = AuthFailure::FAILED.to_string();
    let words = refused("one", keys(&two, None));
    assert!(words.contains("controller refused") && words.contains(&failed), "{words}");
    let words = refused("one", None);
    assert!(words.contains("authenticate itself"), "{words}");
    let words = refused("one", keys(&one, Some(&drive)));
    assert!(words.contains("controller refused"), "{words}");
    let words = refused("two", keys(&two, Some(&one)));
    assert!(words.contains("did not convince"), "{words}");
    // A drive that does not ask cannot prove anything.
    let words = refused("free", keys(&one, Some(&drive)));
    assert!(words.contains("cannot prove"), "{words}");
    // The discovery service asks, too.
    let addr: host::Addr = format!("tcp://{}", running.tcp().unwrap()).parse().unwrap();
    let mut identity = Identity::new(nqn("two"));
    let seek = |identity: &Identity| {
        Host::connect(SocketTransport::new(addr.clone(), ANSWER_TIMEOUT), identity).map(|_| ())
    };
    assert!(seek(&identity).is_err());
    identity.chap = keys(&two, Some(&drive));
    seek(&identity).unwrap();
    // All the while everybody else is served.
    use_it(connect(&running, "one", keys(&one, None)).unwrap());
    // A wrong answer, a proof that the drive has no key for, and one of the drive that the host does not believe. Two never began.
    let all = AuthenticationFailures { chap: 3, unfinished: 2, ..Default::default() };
    wait_for("the count of all failures", || failures(&running) == all);
}

/// An admin queue, command by command.
struct Raw {
    queue: SocketQueue,
    parties: Parties,
}

impl Raw {
    fn connect(running: &Running, name: &str) -> (Self, ConnectResult) {
        let stream = TcpStream::connect(running.tcp().unwrap()).unwrap();
        let queue = SocketQueue::over_tcp(stream, Default::default(), ANSWER_TIMEOUT).unwrap();
        let subsystem = running.handle().subsystem_nqn().parse().unwrap();
        let mut raw = Raw { queue, parties: Parties { host: nqn(name), subsystem } };
        let done = raw.call(raw.connect_command(), Data::Out(raw.connect_data())).unwrap();
        (raw, ConnectResult::from_dw0(done.0.dw0.get()))
    }

    fn connect_command(&self) -> Command {
        let cattr = ConnectAttributes::new();
        FabricsCommand::Connect(Connect { recfmt: 0, qid: 0, sqsize_z: 31, cattr, kato: 0 }).into()
    }

    fn connect_data(&self) -> Vec<u8> {
        let mut data = ConnectData {
            hostid: [7; 16],
            subnqn: self.parties.subsystem.to_field(),
            hostnqn: self.parties.host.to_field(),
            ..ConnectData::default()
        };
        data.cntlid.set(CNTLID_DYNAMIC);
        data.as_bytes().to_vec()
    }

    fn call(&mut self, command: Command, data: Data) -> Result<(Completion, Vec<u8>), host::TransportError> {
        self.queue.submit(command, data)?;
        let done = self.queue.next(Some(ANSWER_TIMEOUT))?.expect("an answer in time");
        Ok((done.completion, done.data.into_buffer()))
    }

    fn status(&mut self, command: FabricsCommand, data: Data) -> Status {
        self.call(command.into(), data).unwrap().0.status()
    }

    fn property(&mut self) -> Status {
        self.status(FabricsCommand::PropertyGet { offset: PropertyOffset::CAP, wide: true }, Data::None)
    }

    /// A whole exchange; how it ends.
    fn authenticate(&mut self, keys: &ChapKeys) -> AuthStep {
        let random = &mut host::fill_random;
        let mut host = fabric::auth::Host::new(self.parties, keys.clone(), Methods::default(), 3);
        let mut answer: Option<Vec<u8>> = None;
        loop {
            match host.step(answer.take().as_deref(), random) {
                AuthStep::Send(message) => {
                    let send = parameters(message.len() as u32);
                    let status = self.status(FabricsCommand::AuthenticationSend(send), Data::Out(message));
                    assert!(status.is_success(), "{status}");
                }
                AuthStep::Receive => {
                    let receive = FabricsCommand::AuthenticationReceive(parameters(4096));
                    answer = Some(self.call(receive.into(), Data::room(4096)).unwrap().1);
                }
                end => return end,
            }
        }
    }
}

fn parameters(length: u32) -> Authentication {
    Authentication { spsp0: 1, spsp1: 1, secp: SECP_NVME, length }
}

#[test]
fn nothing_goes_before_authentication_and_again_it_goes_at_any_time() {
    let keys = ChapKeys { host: key(), controller: None };
    let rule = Rule { chap: Some(keys.clone()), ..Rule::named(nqn("a")) };
    let running = start(Access::new(vec![rule, Rule::named(nqn("free"))]));

    let (mut raw, result) = Raw::connect(&running, "a");
    assert!(result.atr && !result.ascr);
    assert!(raw.property().is(Status::AUTHENTICATION_REQUIRED));
    let identify = Command::identify(nvme::identify::Cns::CONTROLLER, 0);
    let status = raw.call(identify, Data::room(4096)).unwrap().0.status();
    assert!(status.is(Status::AUTHENTICATION_REQUIRED), "{status}");
    let wrong = FabricsCommand::AuthenticationSend(Authentication { secp: 1, ..parameters(8) });
    assert!(raw.status(wrong, Data::Out(vec![0; 8])).is(Status::INVALID_FIELD));
    let none = FabricsCommand::AuthenticationSend(parameters(0));
    assert!(raw.status(none, Data::None).is(Status::INVALID_FIELD));
    let more = FabricsCommand::AuthenticationSend(parameters(72));
    assert!(raw.status(more, Data::Out(vec![0; 8])).is(Status::DATA_SGL_LENGTH_INVALID));
    assert!(raw.property().is(Status::AUTHENTICATION_REQUIRED));
    assert_eq!(raw.authenticate(&keys), AuthStep::Done);
    assert!(raw.property().is_success());
    // Again, on the queue as it works.
    assert_eq!(raw.authenticate(&keys), AuthStep::Done);
    assert!(raw.property().is_success());
    // A failure ends the connection.
    let other = ChapKeys { host: key(), controller: None };
    assert!(matches!(raw.authenticate(&other), AuthStep::Failed(_)));
    let property = FabricsCommand::PropertyGet { offset: PropertyOffset::CAP, wide: true };
    let end = raw.call(property.into(), Data::None);
    assert!(end.is_err(), "{end:?}");

    // Who need not authenticate cannot.
    let (mut raw, result) = Raw::connect(&running, "free");
    assert!(!result.atr);
    let send = FabricsCommand::AuthenticationSend(parameters(8));
    assert!(raw.status(send, Data::Out(vec![0; 8])).is(Status::INVALID_OPCODE));
    assert!(raw.property().is_success());
}

#[test]
fn who_takes_too_long_is_shown_out() {
    let rule = Rule { chap: Some(ChapKeys { host: key(), controller: None }), ..Rule::named(nqn("a")) };
    let access = Access::new(vec![rule, Rule::named(nqn("free"))]);
    let running = start_within(access, Limits { setup: Duration::from_millis(300), ..Limits::default() });
    let (mut free, _) = Raw::connect(&running, "free");
    let (mut slow, _) = Raw::connect(&running, "a");
    let begun = Instant::now();
    assert!(slow.queue.next(Some(ANSWER_TIMEOUT)).is_err(), "the connection is closed");
    assert!(begun.elapsed() < ANSWER_TIMEOUT);
    // Who is in stays in.
    assert!(free.property().is_success());
    wait_for("its count", || {
        let snapshot = running.handle().snapshot().unwrap();
        let timeouts: u64 = snapshot.transports.iter().map(|of| of.counts.timeouts).sum();
        (timeouts, snapshot.authentication_failures.unfinished) == (1, 1)
    });
}

/// What a host sees.
fn sees(host: &mut Host<SocketTransport>) -> Vec<u32> {
    host.active_namespaces().unwrap()
}

/// Hosts that were not let in, as monitors see them.
fn failures(running: &Running) -> AuthenticationFailures {
    running.handle().snapshot().unwrap().authentication_failures
}

#[test]
fn the_list_gives_hosts_their_roles() {
    let tenant = |own: &[u32]| Rule { role: Role::Tenant(own.to_vec()), ..Rule::named(nqn("tenant")) };
    let running = start(Access::new(vec![Rule::named(nqn("admin")), tenant(&[1])]));
    let mut admin = connect(&running, "admin", None).unwrap();
    let mut host = connect(&running, "tenant", None).unwrap();
    assert_eq!(sees(&mut host), [1]);
    let denied = host.delete_namespace(1).unwrap_err();
    assert!(denied.status().unwrap().is(Status::OPERATION_DENIED), "{denied}");
    // Another list counts at once for hosts that are connected.
    running.set_access(Access::new(vec![Rule::named(nqn("admin")), tenant(&[])])).unwrap();
    wait_for("the loss of the tenant's namespace", || sees(&mut host).is_empty());
    running.set_access(Access::new(vec![Rule::named(nqn("admin")), Rule::named(nqn("tenant"))])).unwrap();
    wait_for("the role of an administrator", || !sees(&mut host).is_empty());
    host.delete_namespace(1).unwrap();
    assert!(admin.allocated_namespaces().unwrap().iter().all(|nsid| *nsid != 1));
}

#[test]
fn a_new_list_lets_in_and_shows_out() {
    let (old, new) = (key(), key());
    let chap = |key: &ChapKey| ChapKeys { host: key.clone(), controller: None };
    let with_key = |key: &ChapKey| Rule { chap: Some(chap(key)), ..Rule::named(nqn("keyed")) };
    let running = start(Access::new(vec![
        Rule::named(nqn("stays")),
        Rule::named(nqn("goes")),
        Rule::named(nqn("late")),
        with_key(&old),
    ]));
    let mut stays = connect(&running, "stays", None).unwrap();
    let mut gone = [
        connect(&running, "goes", None).unwrap(),
        connect(&running, "late", None).unwrap(),
        connect(&running, "keyed", Some(chap(&old))).unwrap(),
    ];
    let expired = Rule { expires: Some(SystemTime::UNIX_EPOCH), ..Rule::named(nqn("late")) };
    let listed = vec![Rule::named(nqn("stays")), expired, with_key(&new), Rule::named(nqn("comes"))];
    running.set_access(Access::new(listed)).unwrap();
    for host in &mut gone {
        wait_for("the end of the host", || host.active_namespaces().is_err());
    }
    assert!(!sees(&mut stays).is_empty());
    use_it(connect(&running, "comes", None).unwrap());
    use_it(connect(&running, "keyed", Some(chap(&new))).unwrap());
    for (name, keys) in [("goes", None), ("late", None), ("keyed", Some(chap(&old)))] {
        assert!(connect(&running, name, keys).is_err(), "{name}");
    }
}

#[test]
fn a_host_that_has_not_proved_itself_holds_nothing() {
    let keys = ChapKeys { host: key(), controller: None };
    let rule = Rule { chap: Some(keys.clone()), ..Rule::named(nqn("a")) };
    let running = start(Access::new(vec![rule, Rule::named(nqn("admin"))]));
    let mut admin = connect(&running, "admin", None).unwrap();
    let me = admin.cntlid();
    let (mut raw, _) = Raw::connect(&running, "a");
    assert_eq!(admin.controllers().unwrap(), [me]);
    assert_eq!(raw.authenticate(&keys), AuthStep::Done);
    assert_eq!(admin.controllers().unwrap().len(), 2);
}

#[test]
fn connections_that_have_not_proved_themselves_are_limited() {
    let rule = Rule { chap: Some(ChapKeys { host: key(), controller: None }), ..Rule::named(nqn("a")) };
    let access = Access::new(vec![rule, Rule::named(nqn("free"))]);
    let running = start_within(access, Limits { unproven: 3, ..Limits::default() });
    let (mut free, _) = Raw::connect(&running, "free");
    // One has connected and owes the proof; the others have said nothing. A newer one takes the place of the oldest.
    let (mut owes, _) = Raw::connect(&running, "a");
    let silent = [0; 2].map(|_| TcpStream::connect(running.tcp().unwrap()).unwrap());
    assert!(free.property().is_success());
    assert!(matches!(owes.queue.next(Some(Duration::ZERO)), Ok(None)), "there is room for three");
    let newest = TcpStream::connect(running.tcp().unwrap()).unwrap();
    wait_for("room from the oldest", || owes.queue.next(Some(Duration::ZERO)).is_err());
    for mut stream in silent.iter().chain([&newest]) {
        stream.set_nonblocking(true).unwrap();
        let read = std::io::Read::read(&mut stream, &mut [0]);
        assert!(read.is_err_and(|e| e.kind() == std::io::ErrorKind::WouldBlock), "one too many had to go");
    }
    // A host that has proved itself is served all the while, and one more gets in.
    use_it(connect(&running, "free", None).unwrap());
    assert!(free.property().is_success());
}

/// A host connects the I/O queue 1 of a controller.
fn claim_queue(running: &Running, name: &str, cntlid: u16) -> (Raw, Status) {
    let stream = TcpStream::connect(running.tcp().unwrap()).unwrap();
    let queue = SocketQueue::over_tcp(stream, Default::default(), ANSWER_TIMEOUT).unwrap();
    let subsystem = running.handle().subsystem_nqn().parse().unwrap();
    let mut raw = Raw { queue, parties: Parties { host: nqn(name), subsystem } };
    let cattr = ConnectAttributes::new();
    let connect = FabricsCommand::Connect(Connect { recfmt: 0, qid: 1, sqsize_z: 31, cattr, kato: 0 });
    let mut data = raw.connect_data();
    data[16..18].copy_from_slice(&cntlid.to_le_bytes());
    let (done, _) = raw.call(connect.into(), Data::Out(data)).unwrap();
    (raw, done.status())
}

#[test]
fn a_queue_joins_no_controller_of_another_host() {
    let running = start(Access::new(vec![Rule::named(nqn("a")), Rule::named(nqn("b"))]));
    let host = connect(&running, "a", None).unwrap();
    let (_, status) = claim_queue(&running, "b", host.cntlid());
    assert!(status.is(Status::CONNECT_INVALID_PARAMETERS), "{status}");
    let (_raw, status) = claim_queue(&running, "a", host.cntlid());
    assert!(status.is_success(), "{status}");
}

#[test]
fn who_claims_to_be_a_host_takes_no_queue_from_it() {
    let keys = ChapKeys { host: key(), controller: None };
    let rule = Rule { chap: Some(keys.clone()), ..Rule::named(nqn("a")) };
    let running = start(Access::new(vec![rule]));
    let mut host = connect(&running, "a", Some(keys)).unwrap();
    // Both name the queue that the host makes next, and never prove themselves.
    let [mut raw, mut other] = [0; 2].map(|_| {
        let (raw, status) = claim_queue(&running, "a", host.cntlid());
        assert!(status.is_success(), "{status}");
        raw
    });
    assert!(raw.property().is(Status::AUTHENTICATION_REQUIRED));
    let namespace = host.namespace(1).unwrap();
    let mut queue = host.io_queue(8).unwrap();
    queue.write(&namespace, 0, &[7; 4096], false).unwrap();
    // Their ends, and one more claim, are no end of the queue that the host has.
    assert!(other.status(FabricsCommand::Disconnect { recfmt: 0 }, Data::None).is_success());
    drop(raw);
    let (_, status) = claim_queue(&running, "a", host.cntlid());
    assert!(status.is(Status::COMMAND_SEQUENCE_ERROR), "{status}");
    let mut back = [0; 4096];
    queue.read(&namespace, 0, &mut back).unwrap();
    assert_eq!(back, [7; 4096]);
}
