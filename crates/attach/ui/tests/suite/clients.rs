//! Clients of all kinds: of other sites, without the token, hasty and slow ones.

use crate::support::{Drive, bearer};
use serde_json::json;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use ui::{LIMITS, Listener, Options, STREAMS, Token, Ui};

const JSON: &str = "Content-Type: application/json\r\n";
const NEW_NAMESPACE: &str = "{\"set\":2,\"size\":1048576,\"lba_bytes\":512}";

#[test]
fn the_page_is_there_with_its_policy() {
    let drive = Drive::start();
    let page = drive.get("/");
    assert_eq!((page.status, &*page.headers["content-type"]), (200, "text/html; charset=utf-8"));
    let policy = &page.headers["content-security-policy"];
    assert!(
        policy.starts_with("default-src 'none'; script-src 'self'") && !policy.contains("unsafe"),
        "{policy}"
    );
    assert!(policy.contains("frame-ancestors 'none'"));
    assert_eq!(
        (&*page.headers["x-content-type-options"], &*page.headers["cache-control"]),
        ("nosniff", "no-store")
    );
    for path in ["/nothing", "/../Cargo.toml", "/assets/", "/%2e%2e/", "//", "/index.html/"] {
        drive.get(path).refused(404);
    }
    let head = drive.with("HEAD", "/", "", "");
    assert!(head.status == 200 && head.body.is_empty());
    let wrong = drive.with("POST", "/api/state", JSON, "{}");
    assert!(wrong.refused(405).contains("GET") && wrong.headers["allow"].contains("GET"));
}

#[test]
fn requests_across_sites_fail() {
    let drive = Drive::start();
    let at = drive.ui.address();
    let create = |headers: &str| drive.with("POST", "/api/namespaces", headers, NEW_NAMESPACE).status;
    assert_eq!(create(&format!("{JSON}Origin: http://evil.example\r\n")), 403);
    assert_eq!(create(&format!("{JSON}Origin: null\r\n")), 403);
    assert_eq!(create(&format!("{JSON}Sec-Fetch-Site: cross-site\r\n")), 403);
    // What a form of another site can send.
    for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"] {
        assert_eq!(create(&format!("Content-Type: {kind}\r\n")), 403, "{kind}");
    }
    assert_eq!(create(""), 403);
    for method in ["DELETE", "PUT", "PATCH", "OPTIONS"] {
        let refused = drive.with(method, "/api/namespaces/1", "Origin: http://evil.example\r\n", "{}");
        refused.refused(403);
        assert!(!refused.headers.contains_key("access-control-allow-origin"));
    }
    assert_eq!(drive.with("GET", "/api/state", "Origin: http://evil.example\r\n", "").status, 403);
    assert_eq!(drive.json("/api/state")["namespaces"].as_array().unwrap().len(), 3, "nothing was created");
    let own = format!("{JSON}Origin: http://{at}\r\nSec-Fetch-Site: same-origin\r\n");
    assert_eq!(create(&own), 200);
}

/// Nothing of a page whose name leads here knows the token: its cookies are of that name.
#[test]
fn names_that_lead_here_from_elsewhere_fail() {
    let drive = Drive::start();
    let port = drive.ui.address().port();
    for host in ["evil.example".to_owned(), format!("evil.example:{port}"), format!("127.0.0.1:{port}")] {
        let get = format!("GET /api/state HTTP/1.1\r\nHost: {host}\r\n\r\n");
        assert_eq!(drive.send(get.as_bytes()).status, 401, "{host}");
        // Of both parts of a rebinding attack: the page's origin and the name agree.
        let attack = format!(
            "POST /api/namespaces HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\n{JSON}Content-Length: {}\r\n\r\n{NEW_NAMESPACE}",
            NEW_NAMESPACE.len()
        );
        assert_eq!(drive.send(attack.as_bytes()).status, 401, "{host}");
    }
    assert_eq!(drive.send(b"GET /api/state HTTP/1.0\r\n\r\n").status, 403);
}

/// Also on loopback, where any user of the machine can connect.
#[test]
fn a_view_makes_a_token_which_its_address_has() {
    let drive = Drive::start();
    let ui =
        Ui::of_handle(Listener::bind("127.0.0.1:0").unwrap(), Options::default(), drive.running.handle());
    let ui = ui.unwrap();
    let url = ui.url();
    let (view, query) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let token = query.strip_prefix("?token=").unwrap();
    assert!(token.len() >= 32, "{token}");
    let get = |address: &str, headers: &str| {
        crate::support::http::send(
            view,
            format!("GET {address} HTTP/1.1\r\nHost: {view}\r\n{headers}\r\n").as_bytes(),
        )
    };
    for address in ["/", "/api/state", "/api/samples", "/assets/", "/?token="] {
        assert_eq!(get(address, "").status, 401, "{address}");
    }
    let given = get(&format!("/{query}"), "");
    assert_eq!(given.status, 303);
    let cookie = given.headers["set-cookie"].split(';').next().unwrap().to_owned();
    assert_eq!(get("/api/state", &format!("Cookie: {cookie}\r\n")).status, 200);
    assert_eq!(get("/api/state", &format!("Authorization: Bearer {token}\r\n")).status, 200);
    // A token that is given is not shown.
    assert!(!drive.ui.url().contains("token"), "{}", drive.ui.url());
}

#[test]
fn a_token_is_asked_for_and_gives_a_cookie() {
    let token = "correct-horse-battery";
    let options = Options { token: Some(Token::new(token).unwrap()), ..Options::default() };
    let drive = Drive::of(&crate::support::drive(), options);
    for address in ["/", "/api/state", "/api/samples", "/?token=wrong-horse-battery", "/api/studies"] {
        assert!(drive.bare("GET", address, "", "").refused(401).contains("--ui-token"), "{address}");
    }
    assert_eq!(drive.bare("POST", "/api/namespaces", JSON, NEW_NAMESPACE).status, 401);
    let bearer = format!("Authorization: Bearer {token}\r\n");
    assert_eq!(drive.bare("GET", "/api/state", &bearer, "").status, 200);
    let given = drive.bare("GET", &format!("/?token={token}"), "", "");
    assert_eq!((given.status, &*given.headers["location"]), (303, "/"));
    let cookie = &given.headers["set-cookie"];
    assert!(
        cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict") && !cookie.contains(token),
        "{cookie}"
    );
    let session = cookie.split(';').next().unwrap();
    let with = format!("Cookie: other=1; {session}\r\n");
    assert_eq!(drive.bare("GET", "/", &with, "").status, 200);
    let again = drive.bare("GET", &format!("/?token={token}"), &with, "");
    assert_eq!(again.status, 303, "the token leaves the address of a browser that has the cookie, too");
    assert_eq!(drive.bare("POST", "/api/namespaces", &format!("{JSON}{with}"), NEW_NAMESPACE).status, 200);
    // The cookie comes along with requests of other sites in some browsers: they fail all the same.
    let other = format!("{JSON}{with}Origin: http://evil.example\r\n");
    assert_eq!(drive.bare("POST", "/api/namespaces", &other, NEW_NAMESPACE).status, 403);
    // A proxy before the view has a name of its own.
    let proxied = |host: &str| {
        let head = format!("GET /api/state HTTP/1.1\r\nHost: {host}\r\nOrigin: https://{host}\r\n{with}\r\n");
        drive.send(head.as_bytes()).status
    };
    assert_eq!(proxied("view.example"), 200);
    let second = Drive::of(
        &crate::support::drive(),
        Options { token: Some(Token::new(token).unwrap()), ..Options::default() },
    );
    assert_eq!(second.bare("GET", "/", &with, "").status, 401, "a cookie is of one view");
}

#[test]
fn bodies_that_make_no_sense_or_have_no_end_are_refused() {
    let drive = Drive::start();
    let post = |body: &str| drive.with("POST", "/api/namespaces", JSON, body);
    for body in ["", "{", "[1]", "{\"set\":1}", "{\"set\":\"1\",\"size\":1,\"lba_bytes\":1}", "\u{0}\u{1}"] {
        post(body).refused(400);
    }
    let large = format!("{{\"set\":1,\"more\":\"{}\"}}", "x".repeat(ui::BODY));
    post(&large).refused(413);
    // One whose length is not said in advance.
    let at = drive.ui.address();
    let mut stream = drive.connect();
    write!(
        stream,
        "POST /api/namespaces HTTP/1.1\r\nHost: {at}\r\n{}{JSON}Transfer-Encoding: chunked\r\n\r\n",
        bearer()
    )
    .unwrap();
    let chunk = "x".repeat(1000);
    for _ in 0..100 {
        if write!(stream, "{:x}\r\n{chunk}\r\n", chunk.len()).is_err() {
            break;
        }
    }
    let mut said = Vec::new();
    let _ = stream.read_to_end(&mut said);
    assert!(said.is_empty() || said.starts_with(b"HTTP/1.1 413"), "{}", String::from_utf8_lossy(&said));
    assert_eq!(drive.send(b"\0\0\0\0\r\n\r\n").status, 400);
    let long = "x".repeat(2 * LIMITS.head);
    assert_eq!(drive.with("GET", "/", &format!("Long: {long}\r\n"), "").status, 431);
    assert_eq!(drive.json("/api/state")["namespaces"].as_array().unwrap().len(), 3);
}

#[test]
fn slow_clients_hold_up_neither_the_drive_nor_others() {
    let drive = Drive::start();
    // As many streams as there may be, of which nobody reads, and clients that say nothing or half.
    let unread: Vec<TcpStream> = (0..STREAMS)
        .map(|_| {
            let mut stream = drive.connect();
            let host = drive.ui.address();
            write!(stream, "GET /api/samples HTTP/1.1\r\nHost: {host}\r\n{}\r\n", bearer()).unwrap();
            let mut begin = [0; 12];
            stream.read_exact(&mut begin).unwrap();
            assert_eq!(&begin, b"HTTP/1.1 200");
            stream
        })
        .collect();
    assert!(drive.get("/api/samples").refused(503).contains("close one"));
    let silent: Vec<TcpStream> = (0..2 * LIMITS.connections)
        .map(|n| {
            let mut stream = drive.connect();
            if n % 2 == 0 {
                stream.write_all(b"GET /api/st").unwrap();
            }
            stream
        })
        .collect();
    // A host does its work, and the page is served.
    let mut host = drive.host("worker");
    let ns = host.namespace(1).unwrap();
    let mut queue = host.io_queue(8).unwrap();
    for block in 0..2000 {
        queue.write(&ns, block, &[5; 4096], false).unwrap();
    }
    assert_eq!(drive.get("/").status, 200);
    assert_eq!(drive.namespace(1).unwrap()["nsid"], 1);
    drop(unread);
    // Who says nothing is given up.
    for mut stream in silent {
        let mut rest = Vec::new();
        let ended = stream.read_to_end(&mut rest);
        assert!(ended.is_ok() || ended.is_err_and(|e| e.kind() == ErrorKind::ConnectionReset));
    }
    // The places are free again.
    let mut events = drive.events();
    assert_eq!(events.next().0, "state");
}

#[test]
fn reports_of_studies_are_listed_and_shown() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("quota")).unwrap();
    std::fs::write(dir.path().join("quota/report.html"), "<title>Quota</title><b>7</b>").unwrap();
    let options = Options { studies: Some(dir.path().to_owned()), ..Options::default() };
    let drive = Drive::of(&crate::support::drive(), options);
    let expected = json!([{ "name": "quota", "title": "Quota", "url": "/studies/quota/report.html" }]);
    assert_eq!(drive.json("/api/studies"), expected);
    let report = drive.get("/studies/quota/report.html");
    assert!(report.status == 200 && report.body.contains("<b>7</b>"));
    let policy = &report.headers["content-security-policy"];
    assert!(policy.contains("sandbox") && !policy.contains("script-src"), "{policy}");
    for path in [
        "/studies/other/report.html",
        "/studies/../report.html",
        "/studies/quota/other.html",
        "/studies/quota",
    ] {
        drive.get(path).refused(404);
    }
}

#[test]
fn it_ends_with_the_drive_and_the_address_is_free_again() {
    let drive = Drive::start();
    let address = drive.ui.address();
    assert_eq!(drive.get("/").status, 200);
    let mut events = drive.events();
    events.wait("sample");
    let Drive { ui, running } = drive;
    running.stop();
    events.wait("gone");
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET /api/state HTTP/1.1\r\nHost: {address}\r\n{}\r\n", bearer()).unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    assert!(said.starts_with("HTTP/1.1 503"), "{said}");
    drop(ui);
    assert!(TcpStream::connect(address).is_err());
}
