//! HTTP by hand: any header, and clients that say nothing.

use crate::attack::Attack;
use crate::drive::{BYSTANDER_NSID, Page, World, program};
use crate::wire::{Stop, Tally};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Silent connections, more than an endpoint serves at a time.
const SILENT_CONNECTIONS: usize = 256;

pub const ATTACKS: &[Attack] = &[
    Attack::new("view-silent", |world, stop| silent(&world.view, stop)).lasting_ms(600),
    Attack::new("view-slow-request", |world, stop| slow(&world.view, stop)).lasting_ms(600),
    Attack::new("view-without-token", without_token),
    Attack::new("view-streams-without-token", streams),
    Attack::new("view-foreign-site", foreign_site),
    Attack::new("view-lent-by-ui", lent),
    Attack::new("metrics-silent", |world, stop| silent(&world.metrics, stop)).lasting_ms(600),
    Attack::new("metrics-foreign-host", foreign_host),
];

/// Sends a request; the status of the answer, and all of it.
pub fn ask(world: &World, page: &Page, request: &str) -> Result<(u16, String), String> {
    let mut stream = world.page(page).map_err(|error| error.to_string())?;
    stream.write_all(request.as_bytes()).map_err(|error| error.to_string())?;
    let mut answer = Vec::new();
    stream.take(1 << 20).read_to_end(&mut answer).map_err(|error| error.to_string())?;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let status = answer.split(' ').nth(1).and_then(|word| word.parse().ok());
    status.map(|status| (status, answer.clone())).ok_or_else(|| format!("no answer: {answer:.40}"))
}

pub fn expect(status: u16, answer: Result<(u16, String), String>) -> Result<(), String> {
    match answer? {
        (found, _) if found == status => Ok(()),
        (found, _) => Err(format!("status {found}")),
    }
}

fn get(world: &World, page: &Page, path: &str, headers: &str) -> Result<(u16, String), String> {
    let host = page.at;
    let host = if headers.starts_with("Host:") { String::new() } else { format!("Host: {host}\r\n") };
    ask(world, page, &format!("GET {path} HTTP/1.1\r\n{host}{headers}Connection: close\r\n\r\n"))
}

/// Whoever may look looks.
pub fn get_with_token(world: &World, page: &Page, path: &str) -> Result<(u16, String), String> {
    get(world, page, path, &bearer(page))
}

fn bearer(page: &Page) -> String {
    page.token.as_ref().map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default()
}

/// Connections that say nothing.
fn silent(page: &Page, stop: &Stop) -> Tally {
    let mut tally = Tally::default();
    let held: Vec<_> = (0..SILENT_CONNECTIONS)
        .map_while(|_| TcpStream::connect_timeout(&page.at, Duration::from_secs(1)).ok())
        .collect();
    tally.done += held.len() as u64;
    stop.wait();
    tally
}

/// Connections that say what they want byte by byte.
fn slow(page: &Page, stop: &Stop) -> Tally {
    let mut tally = Tally::default();
    let mut held: Vec<_> = (0..SILENT_CONNECTIONS)
        .map_while(|_| TcpStream::connect_timeout(&page.at, Duration::from_secs(1)).ok())
        .collect();
    let request = format!("GET /api/state HTTP/1.1\r\nHost: {}\r\nX-Long: {}", page.at, "x".repeat(4096));
    for byte in request.bytes() {
        held.iter_mut().for_each(|stream| tally.count(stream.write_all(&[byte]).is_ok()));
        std::thread::sleep(Duration::from_millis(20));
        if stop.is_set() {
            break;
        }
    }
    tally
}

/// Requests of a local user who does not know the token: 401 or 403 is the only answer.
fn without_token(world: &World, stop: &Stop) -> Tally {
    let at = world.view.at;
    let body = r#"{"weight": 1}"#;
    let length = body.len();
    let json = format!(
        "Host: {at}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n"
    );
    let requests = [
        format!("GET /api/state HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\n\r\n"),
        format!("GET /api/map?set=1 HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\n\r\n"),
        format!("GET /api/state?token= HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\n\r\n"),
        format!(
            "GET /api/state HTTP/1.1\r\nHost: {at}\r\nAuthorization: Bearer \r\nConnection: close\r\n\r\n"
        ),
        format!("GET /api/state HTTP/1.1\r\nHost: {at}\r\nCookie: tranche_ui=\r\nConnection: close\r\n\r\n"),
        format!("PUT /api/namespaces/{BYSTANDER_NSID}/quota HTTP/1.1\r\n{json}\r\n{body}"),
    ];
    let mut tally = Tally::default();
    while !stop.is_set() {
        for request in &requests {
            let answer = ask(world, &world.view, request);
            if let Ok((200..=299, _)) = answer {
                world.violation(format!("without a token: {}", request.lines().next().unwrap()));
            }
            tally.count(matches!(answer, Ok((200..=299, _))));
        }
    }
    tally
}

/// Streams of samples of local users who do not know the token.
fn streams(world: &World, stop: &Stop) -> Tally {
    let mut tally = Tally::default();
    let mut held = Vec::new();
    for _ in 0..64 {
        let Ok(mut stream) = world.page(&world.view) else { continue };
        let request = format!("GET /api/samples HTTP/1.1\r\nHost: {}\r\n\r\n", world.view.at);
        tally.count(stream.write_all(request.as_bytes()).is_ok());
        held.push(stream);
    }
    stop.wait();
    for stream in &mut held {
        let mut start = [0; 12];
        let _ = stream.set_read_timeout(Some(Duration::from_millis(1)));
        if stream.read_exact(&mut start).is_ok() && &start == b"HTTP/1.1 200" {
            world.violation("a stream of samples without a token");
        }
    }
    tally
}

/// What pages of other sites have a browser send.
fn foreign_site(world: &World, stop: &Stop) -> Tally {
    let mut tally = Tally::default();
    let at = world.view.at;
    let port = at.port();
    let headers = [
        format!("Host: {at}\r\nOrigin: http://evil.example\r\n"),
        format!("Host: {at}\r\nOrigin: null\r\n"),
        format!("Host: {at}\r\nSec-Fetch-Site: cross-site\r\n"),
        format!("Host: {at}\r\nHost: evil.example\r\n"),
        format!("Host: evil.example:{port}\r\n"),
        format!("Host: localhost.evil.example:{port}\r\n"),
        format!("Host: 127.0.0.1.evil.example:{port}\r\n"),
    ];
    while !stop.is_set() {
        for header in &headers {
            let passed = matches!(get(world, &world.view, "/api/state", header), Ok((200..=299, _)));
            if passed {
                world.violation(format!("the live view answers {}", header.replace("\r\n", "; ")));
            }
            tally.count(passed);
        }
    }
    tally
}

/// A page that has its own name lead to this machine (DNS rebinding) reads the metrics.
fn foreign_host(world: &World, stop: &Stop) -> Tally {
    let mut tally = Tally::default();
    let port = world.metrics.at.port();
    while !stop.is_set() {
        for name in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "[::1].evil.example",
            "0x7f.1",
        ] {
            let answer = get(world, &world.metrics, "/metrics", &format!("Host: {name}:{port}\r\n"));
            let passed = matches!(answer, Ok((200..=299, _)));
            if passed {
                world.violation(format!("metrics answer a request for the host {name}"));
            }
            tally.count(passed);
        }
    }
    tally
}

/// `tranche ui --on unix://` has the rights of the socket. Another local user may not borrow them.
fn lent(world: &World, _: &Stop) -> Tally {
    let on = format!("unix://{}", world.unix());
    let arguments = ["ui", "--on", &on, "--listen", "127.0.0.1:0"];
    let mut child =
        Command::new(program()).args(arguments).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let mut tally = Tally::default();
    match line.split_whitespace().find_map(|word| word.strip_prefix("ui=")) {
        Some(url) => {
            let page = Page::parse(url);
            let answer = get(world, &page, "/api/state", "");
            if let Ok((200, _)) = &answer {
                world.violation("tranche ui lends the rights of the Unix socket without a token");
            }
            tally.count(answer.is_ok());
            if let Err(error) = expect(200, get_with_token(world, &page, "/api/state")) {
                world.violation(format!("tranche ui with its token: {error}"));
            }
        }
        None => world.violation(format!("tranche ui does not say where it is: {line}")),
    }
    let _ = child.kill();
    let _ = child.wait();
    tally
}
