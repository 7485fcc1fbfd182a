//! Sessions over a pair of sockets, blocking and not.

use std::io::{ErrorKind, IoSlice};
use std::os::unix::net::UnixStream;

use fabric::auth::{IdentityVersion, Parties, TlsKey, TlsPsk};
use nvme::Nqn;
use nvme::auth::HashId;
use tls::{Acceptor, Connector, Session};

fn parties(host: &str) -> Parties {
    Parties {
        host: Nqn::new(&format!("nqn.2026-11.test:{host}")).unwrap(),
        subsystem: Nqn::new("nqn.2026-11.test:drive").unwrap(),
    }
}

fn key(host: &str, transform: HashId, version: IdentityVersion, fill: u8) -> (TlsKey, Nqn) {
    let psk = TlsPsk::generate(Some(transform), None, &mut |bytes: &mut [u8]| bytes.fill(fill)).unwrap();
    (psk.tls_key(&parties(host), version).unwrap().unwrap(), parties(host).host)
}

fn pair() -> (UnixStream, UnixStream) {
    let (a, b) = UnixStream::pair().unwrap();
    a.set_nonblocking(true).unwrap();
    b.set_nonblocking(true).unwrap();
    (a, b)
}

type Pair = (Session<UnixStream>, Session<UnixStream>);

/// Both handshakes, to their end or to the first error.
fn shake((client, server): &mut Pair) -> Result<(), std::io::Error> {
    for _ in 0..20 {
        for session in [&mut *client, &mut *server] {
            match session.flush() {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        if client.is_established() && server.is_established() {
            return Ok(());
        }
    }
    panic!("neither an end nor an error");
}

#[test]
fn both_hashes_and_versions_and_who_it_was() {
    let mut keys = Vec::new();
    for (n, hash) in [HashId::SHA256, HashId::SHA384].into_iter().enumerate() {
        for version in [IdentityVersion::V0, IdentityVersion::V1] {
            keys.push(key(&format!("host{n}{version:?}"), hash, version, n as u8));
        }
    }
    let acceptor = Acceptor::new(keys.clone()).unwrap();
    for (key, host) in keys {
        let (a, b) = pair();
        let connector = Connector::new(key).unwrap();
        let mut pair = (connector.connect(a).unwrap(), acceptor.accept(b).unwrap());
        assert_eq!(pair.1.host(), None, "not before it is sure");
        shake(&mut pair).unwrap();
        assert_eq!(pair.1.host(), Some(&host));
        assert_eq!(pair.0.host(), None);
        // Several slices become one record.
        let (client, server) = &mut pair;
        assert_eq!(client.write_vectored(&[IoSlice::new(b"one "), IoSlice::new(b"two")]).unwrap(), 7);
        let mut room = [0; 100];
        assert_eq!(server.read(&mut room).unwrap(), 7);
        assert_eq!(&room[..7], b"one two");
        assert_eq!(server.read(&mut room).unwrap_err().kind(), ErrorKind::WouldBlock);
    }
}

#[test]
fn a_full_socket_holds_what_was_taken() {
    let known = key("a", HashId::SHA256, IdentityVersion::V1, 1);
    let (a, b) = pair();
    let acceptor = Acceptor::new([known.clone()]).unwrap();
    let mut pair = (Connector::new(known.0).unwrap().connect(a).unwrap(), acceptor.accept(b).unwrap());
    shake(&mut pair).unwrap();
    let (client, server) = &mut pair;
    let data: Vec<u8> = (0..4_000_000u32).map(|i| (i % 251) as u8).collect();
    let (mut sent, mut received) = (0, Vec::new());
    let mut room = vec![0; 5000];
    let mut was_full = false;
    while received.len() < data.len() {
        loop {
            if sent == data.len() && !client.is_holding() {
                break;
            }
            // Other bytes behind what is held do not matter.
            match client.write_vectored(&[IoSlice::new(&data[sent..])]) {
                Ok(count) => sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => panic!("{error}"),
            }
        }
        was_full |= client.is_holding();
        loop {
            match server.read(&mut room) {
                Ok(count) => received.extend_from_slice(&room[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => panic!("{error}"),
            }
        }
    }
    assert!(was_full && received == data);
}

#[test]
fn wrong_keys_and_strangers_get_nowhere() {
    let right = key("a", HashId::SHA256, IdentityVersion::V0, 1);
    let acceptor = Acceptor::new([right.clone()]).unwrap();
    // The same identity with another key; another host; another hash.
    for (wrong, _) in [
        key("a", HashId::SHA256, IdentityVersion::V0, 2),
        key("b", HashId::SHA256, IdentityVersion::V0, 1),
        key("a", HashId::SHA384, IdentityVersion::V0, 1),
    ] {
        let (a, b) = pair();
        let mut pair = (Connector::new(wrong).unwrap().connect(a).unwrap(), acceptor.accept(b).unwrap());
        let error = shake(&mut pair).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData, "{error}");
        assert!(!pair.1.is_established());
    }
    // No key at all, and no TLS at all.
    let (a, b) = pair();
    let mut server = acceptor.accept(b).unwrap();
    let plain = openssl::ssl::SslContext::builder(openssl::ssl::SslMethod::tls()).unwrap().build();
    let mut stream = openssl::ssl::SslStream::new(openssl::ssl::Ssl::new(&plain).unwrap(), a).unwrap();
    assert!(stream.connect().is_err());
    assert_eq!(server.flush().unwrap_err().kind(), ErrorKind::InvalidData);
    let (mut a, b) = pair();
    std::io::Write::write_all(&mut a, &[0; 128]).unwrap();
    let mut server = acceptor.accept(b).unwrap();
    assert_eq!(server.read(&mut [0; 10]).unwrap_err().kind(), ErrorKind::InvalidData);
    let (a, b) = pair();
    drop(a);
    let mut server = acceptor.accept(b).unwrap();
    assert_eq!(server.read(&mut [0; 10]).unwrap_err().kind(), ErrorKind::ConnectionAborted);
}
