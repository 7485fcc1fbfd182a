//! The endpoint with clients of all kinds.

use crate::support::Drive;
use metrics::Listener;
use metrics::endpoint::LIMITS;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

#[test]
fn there_is_one_page_and_it_can_only_be_read() {
    let drive = Drive::start();
    let found = drive.get("/metrics", "Accept: */*\r\n");
    assert_eq!(
        (found.status, &*found.headers["content-type"]),
        (200, "text/plain; version=0.0.4; charset=utf-8")
    );
    assert_eq!(found.headers["content-length"], found.body.len().to_string());
    assert_eq!(drive.get("/metrics?name=x", "").status, 200);
    let index = drive.get("/", "");
    assert!(index.status == 200 && index.body.contains("href=\"/metrics\""), "{index:?}");
    for path in ["/metrics/", "/other", "/..", "//metrics", "/%6Detrics"] {
        assert_eq!(drive.get(path, "").status, 404, "{path}");
    }
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "WHATEVER"] {
        let refused = drive.send(
            format!("{method} /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n").as_bytes(),
        );
        assert_eq!((refused.status, &*refused.headers["allow"]), (405, "GET, HEAD"), "{method}");
    }
    let head = drive.send(b"HEAD /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(head.status == 200 && head.body.is_empty());
}

/// A page of another site whose name leads here reads nothing through a browser of this machine.
#[test]
fn names_that_lead_here_from_elsewhere_fail() {
    let drive = Drive::start();
    let named = |host: &str| drive.send(format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes());
    let port = drive.endpoint.address().port();
    assert_eq!(named(&format!("127.0.0.1:{port}")).status, 200);
    for host in [format!("evil.example:{port}"), "evil.example".to_owned(), String::new()] {
        let refused = named(&host);
        assert!(refused.status == 403 && refused.body.contains("DNS rebinding"), "{host}: {refused:?}");
    }
}

#[test]
fn what_is_no_request_is_refused_and_others_are_served() {
    let drive = Drive::start();
    let long = "x".repeat(2 * LIMITS.head);
    assert_eq!(drive.get("/metrics", &format!("Long: {long}\r\n")).status, 431);
    let many: String = (0..200).map(|n| format!("H{n}: x\r\n")).collect();
    assert_eq!(drive.get("/metrics", &many).status, 431);
    assert_eq!(drive.send(b"\0\0\0\0\r\n\r\n").status, 400);
    assert_eq!(drive.send(b"GET /metrics HTTP/9.9\r\n\r\n").status, 400);
    // One that goes at once, and one that says half.
    drop(drive.connect());
    drive.connect().write_all(b"GET /metr").unwrap();
    assert_eq!(drive.get("/metrics", "").status, 200);
}

#[test]
fn who_says_nothing_makes_room_for_others() {
    let drive = Drive::start();
    let silent: Vec<TcpStream> = (0..LIMITS.connections).map(|_| drive.connect()).collect();
    let mut all = silent.iter();
    assert_eq!(drive.get("/metrics", "").status, 200);
    // One of them made room, at once: the others are still there.
    let is_over = |mut stream: &TcpStream| {
        stream.set_nonblocking(true).unwrap();
        stream.read(&mut [0]).is_ok_and(|read| read == 0)
    };
    assert!(is_over(all.next().unwrap()));
    assert!(!all.any(is_over), "a second one had to go");
}

#[test]
fn it_ends_with_the_drive_and_the_address_is_free_again() {
    let drive = Drive::start();
    let address = drive.endpoint.address();
    let taken = Listener::bind(&address.to_string()).unwrap_err();
    assert_eq!(taken.kind(), ErrorKind::AddrInUse);
    let mut open = drive.connect();
    let handle = drive.running.handle();
    drive.running.stop();
    assert!(handle.snapshot().is_err());
    // A drive that has stopped tells nothing.
    open.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut said = String::new();
    open.read_to_string(&mut said).unwrap();
    assert!(said.starts_with("HTTP/1.1 503"), "{said}");
    drop(drive.endpoint);
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn addresses_are_said_in_full() {
    for wrong in ["", "9420", "127.0.0.1", "127.0.0.1:99999", "nowhere.invalid:9420"] {
        assert!(Listener::bind(wrong).is_err(), "{wrong}");
    }
    let six = Listener::bind("[::1]:0");
    assert!(six.is_err() || six.unwrap().address().port() != 0);
}
