//! TLS 1.3 with pre-shared keys, over real sockets.

use crate::common::shape;
use fabric::auth::{ChapKey, ChapKeys, IdentityVersion, Parties, TlsPsk};
use host::{Data, Error, Host, Identity, Queue, SocketQueue, SocketTransport, Transport};
use live::access::{Access, Rule};
use live::{Limits, Options, Running};
use nvme::auth::HashId;
use nvme::fabrics::{Connect, ConnectData, FabricsCommand};
use nvme::log::{DiscoveryEntry, LogId};
use nvme::zerocopy::{FromBytes, IntoBytes};
use nvme::{CNTLID_DYNAMIC, Nqn, Status};
use std::io::Read;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

/// Less than the 30 s after which the drive shows out who was not let in, unless told.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(25);

fn nqn(name: &str) -> Nqn {
    format!("nqn.2026-11.test:{name}").parse().unwrap()
}

fn psk(hash: Option<HashId>) -> TlsPsk {
    TlsPsk::generate(hash, None, &mut host::fill_random).unwrap()
}

fn start(access: Access, tls: bool) -> Running {
    let access = Some(Arc::new(access));
    let options = Options { tcp: vec!["127.0.0.1:0".into()], access, tls, ..Options::default() };
    live::start(Some(shape()), &options, &mut |_| ()).unwrap()
}

fn identity(name: &str, tls: Option<&TlsPsk>) -> Identity {
    let mut identity = Identity::new(nqn(name));
    identity.tls = tls.cloned();
    identity
}

fn connect(running: &Running, identity: &Identity) -> Result<Host<SocketTransport>, Error> {
    let addr = format!("tcp://{}", running.tcp().unwrap()).parse().unwrap();
    Host::connect(SocketTransport::new(addr, ANSWER_TIMEOUT), identity)
}

/// Reads and writes much, in pieces large and small.
fn use_it(mut host: Host<SocketTransport>) {
    let namespace = host.namespace(1).unwrap();
    let mut queue = host.io_queue(32).unwrap();
    let data: Vec<u8> = (0..3 << 20).map(|i: u32| (i / 512) as u8 ^ (i % 251) as u8).collect();
    queue.write(&namespace, 7, &data, false).unwrap();
    let mut back = vec![0; data.len()];
    queue.read(&namespace, 7, &mut back).unwrap();
    assert!(data == back);
    for at in 0..64 {
        queue.write(&namespace, at, &data[..4096], false).unwrap();
        queue.read(&namespace, at, &mut back[..4096]).unwrap();
        assert!(data[..4096] == back[..4096]);
    }
    drop(queue);
    host.shutdown().unwrap();
}

/// A TLS session under a host's key, before its Connect.
fn session(running: &Running, name: &str, subsystem: Nqn, psk: &TlsPsk) -> SocketQueue {
    let parties = Parties { host: nqn(name), subsystem };
    let key = psk.tls_key(&parties, IdentityVersion::V0).unwrap().unwrap();
    let stream = TcpStream::connect(running.tcp().unwrap()).unwrap();
    SocketQueue::over_tls(stream, &tls::Connector::new(key).unwrap(), Default::default(), ANSWER_TIMEOUT)
        .unwrap()
}

/// Sends a Connect command in a host's name; its status.
fn connect_over(queue: &mut SocketQueue, name: &str, subsystem: Nqn) -> Result<Status, Error> {
    let connect = Connect { recfmt: 0, qid: 0, sqsize_z: 31, cattr: Default::default(), kato: 0 };
    let mut data =
        ConnectData { subnqn: subsystem.to_field(), hostnqn: nqn(name).to_field(), ..Default::default() };
    data.cntlid.set(CNTLID_DYNAMIC);
    queue.submit(FabricsCommand::Connect(connect).into(), Data::Out(data.as_bytes().to_vec()))?;
    Ok(queue.next(Some(ANSWER_TIMEOUT))?.expect("an answer").completion.status())
}

#[test]
fn hosts_with_keys_of_either_hash() {
    let keys = [("plain", None), ("sha256", Some(HashId::SHA256)), ("sha384", Some(HashId::SHA384))]
        .map(|(name, hash)| (name, psk(hash)));
    let chap = ChapKeys {
        host: ChapKey::generate(None, None, &mut host::fill_random).unwrap(),
        controller: Some(ChapKey::generate(None, None, &mut host::fill_random).unwrap()),
    };
    let mut rules: Vec<Rule> =
        keys.iter().map(|(name, psk)| Rule { tls: Some(psk.clone()), ..Rule::named(nqn(name)) }).collect();
    // One of them authenticates itself over TLS, too.
    rules[1].chap = Some(chap.clone());
    let running = start(Access::new(rules), true);
    for (name, psk) in &keys {
        // Without a subsystem: the discovery service is asked first, over TLS as well.
        let mut who = identity(name, Some(psk));
        if *name == "sha256" {
            assert!(connect(&running, &who).is_err());
            who.chap = Some(chap.clone());
        }
        use_it(connect(&running, &who).unwrap());
    }

    // What the discovery service says of it.
    let mut who = identity("plain", Some(&keys[0].1));
    who.subnqn = Some(Nqn::new(Nqn::DISCOVERY).unwrap());
    let addr = format!("tcp://{}", running.tcp().unwrap()).parse().unwrap();
    let mut transport = SocketTransport::new(addr, ANSWER_TIMEOUT);
    let mut admin = transport.connect(&who).unwrap().admin;
    let log = nvme::Command::get_log_page(LogId::DISCOVERY, 0, 0, 1024, 1024);
    admin.submit(log, Data::room(1024)).unwrap();
    let done = admin.next(Some(ANSWER_TIMEOUT)).unwrap().unwrap();
    let entry = DiscoveryEntry::read_from_bytes(&done.data.into_buffer()).unwrap();
    assert_eq!((entry.treq & 3, entry.tsas[0]), (1, 2));
}

#[test]
fn a_key_is_good_for_its_host_only() {
    let (a, b) = (psk(Some(HashId::SHA256)), psk(Some(HashId::SHA384)));
    let rule = |name, psk: &TlsPsk| Rule { tls: Some(psk.clone()), ..Rule::named(nqn(name)) };
    let running = start(Access::new(vec![rule("a", &a), rule("b", &b), Rule::named(nqn("c"))]), true);
    // Another's key, no key, a host without one, a stranger with one.
    for (name, key) in [("a", Some(&b)), ("a", None), ("c", None), ("c", Some(&a)), ("d", Some(&a))] {
        let error = connect(&running, &identity(name, key)).map(|_| ()).unwrap_err();
        assert!(matches!(error, Error::Transport(_)), "{error}");
    }
    // The right key, and another's name afterwards. Over TLS the discovery service refuses strangers, too.
    let subsystem: Nqn = running.handle().subsystem_nqn().parse().unwrap();
    for (subsystem, name) in [(subsystem, "b"), (Nqn::new(Nqn::DISCOVERY).unwrap(), "d")] {
        let mut queue = session(&running, "a", subsystem, &a);
        let status = connect_over(&mut queue, name, subsystem).unwrap();
        assert!(status.is(Status::CONNECT_INVALID_HOST), "{name}: {status}");
    }
    use_it(connect(&running, &identity("a", Some(&a))).unwrap());
    // Five did not shake hands, one came with another's key, and one with a name that is not listed.
    let begun = std::time::Instant::now();
    loop {
        let failures = running.handle().snapshot().unwrap().authentication_failures;
        if (failures.tls_handshake, failures.tls_key, failures.unknown_host) == (5, 1, 1) {
            break;
        }
        assert!(begun.elapsed() < ANSWER_TIMEOUT, "{failures:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_session_under_a_key_that_is_no_more_lets_nobody_in() {
    let (old, new) = (psk(Some(HashId::SHA256)), psk(Some(HashId::SHA256)));
    let list = |key: &TlsPsk| Access::new(vec![Rule { tls: Some(key.clone()), ..Rule::named(nqn("a")) }]);
    let running = start(list(&old), true);
    let subsystem: Nqn = running.handle().subsystem_nqn().parse().unwrap();
    let mut before = session(&running, "a", subsystem, &old);
    running.set_access(list(&new)).unwrap();
    let answer = connect_over(&mut before, "a", subsystem);
    assert!(answer.is_err(), "{answer:?}");
    use_it(connect(&running, &identity("a", Some(&new))).unwrap());
}

#[test]
fn one_side_alone_does_not_speak_tls() {
    let key = psk(None);
    let rule = Rule { tls: Some(key.clone()), ..Rule::named(nqn("a")) };
    let running = start(Access::new(vec![rule]), false);
    let error = connect(&running, &identity("a", Some(&key))).map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("TLS"), "{error}");
    use_it(connect(&running, &identity("a", None)).unwrap());
}

#[test]
fn tls_needs_a_key() {
    for (access, problem) in
        [(None, "list of hosts"), (Some(Arc::new(Access::new(vec![Rule::named(nqn("a"))]))), "tls_psk")]
    {
        let options = Options { tcp: vec!["127.0.0.1:0".into()], access, tls: true, ..Options::default() };
        let error = live::start(Some(shape()), &options, &mut |_| ()).map(|_| ()).unwrap_err();
        assert!(error.to_string().contains(problem), "{error}");
    }
}

#[test]
fn who_does_not_shake_hands_is_shown_out() {
    let rule = Rule { tls: Some(psk(None)), ..Rule::named(nqn("a")) };
    let options = Options {
        tcp: vec!["127.0.0.1:0".into()],
        access: Some(Arc::new(Access::new(vec![rule]))),
        tls: true,
        limits: Limits { setup: Duration::from_millis(200), ..Limits::default() },
        ..Options::default()
    };
    let running = live::start(Some(shape()), &options, &mut |_| ()).unwrap();
    let mut stream = TcpStream::connect(running.tcp().unwrap()).unwrap();
    stream.set_read_timeout(Some(ANSWER_TIMEOUT)).unwrap();
    assert_eq!(stream.read(&mut [0; 16]).unwrap(), 0, "the connection is closed");
}

#[test]
fn many_hosts_at_once() {
    let keys: Vec<TlsPsk> =
        (0..3).map(|n| psk([Some(HashId::SHA256), Some(HashId::SHA384)][n % 2])).collect();
    let rules = keys
        .iter()
        .enumerate()
        .map(|(n, key)| Rule { tls: Some(key.clone()), ..Rule::named(nqn(&format!("host{n}"))) });
    let running = start(Access::new(rules.collect()), true);
    std::thread::scope(|scope| {
        for (n, key) in keys.iter().enumerate() {
            let running = &running;
            scope.spawn(move || {
                for round in 0..5u64 {
                    let mut host = connect(running, &identity(&format!("host{n}"), Some(key))).unwrap();
                    let namespace = host.namespace(1).unwrap();
                    let mut queue = host.io_queue(8).unwrap();
                    let data = vec![(n as u64 * 50 + round) as u8; 600_000 / 4096 * 4096];
                    queue.write(&namespace, n as u64 * 1000, &data, false).unwrap();
                    let mut back = vec![0; data.len()];
                    queue.read(&namespace, n as u64 * 1000, &mut back).unwrap();
                    assert!(data == back, "host {n}, round {round}");
                }
            });
        }
    });
}
