//! A drive with a view of it, and a client.
#![allow(dead_code, reason = "each test takes what it needs")]

use host::{Host, Identity};
use live::{LocalTransport, Options, Running, Shape};
use nvme::Nqn;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
pub use testkit::http::{self, Answer};
use ui::{Listener, Token, Ui};

/// Flash with conventional namespaces and a zoned one; and DRAM.
pub fn drive() -> String {
    let flash = testkit::drives::flash("256MiB", "zone = { active = 14 }");
    format!(
        r#"
[drive]
timing = false
write_buffer = "1MiB"
{flash}
[[set]]
media = "dram"
capacity = "16MiB"

[[namespace]]
size = "176MiB"

[[namespace]]
size = "8MiB"
set = 2

[[namespace]]
size = "32MiB"
lba = 4096
zoned = true
"#
    )
}

/// With power cuts and faults for hosts on the network.
pub fn harmful() -> String {
    drive().replace("timing = false\n", "timing = false\nallow_network_faults = true\n")
}

/// The token of the views, unless a test gives another.
pub const TOKEN: &str = "the-token-of-these-tests";

/// The header of a program that knows it.
pub fn bearer() -> String {
    format!("Authorization: Bearer {TOKEN}\r\n")
}

pub struct Drive {
    pub ui: Ui,
    pub running: Running,
}

impl Drive {
    pub fn start() -> Drive {
        Drive::of(&drive(), ui::Options::default())
    }

    pub fn of(toml: &str, mut options: ui::Options) -> Drive {
        options.token.get_or_insert(Token::new(TOKEN).unwrap());
        let shape = Shape { config: live::Config::from_toml(toml).unwrap(), toml: toml.to_owned() };
        let running = live::start(Some(shape), &Options::default(), &mut |_| ()).unwrap();
        let listener = Listener::bind("127.0.0.1:0").unwrap();
        let ui = Ui::of_handle(listener, options, running.handle()).unwrap();
        Drive { ui, running }
    }

    pub fn host(&self, name: &str) -> Host<LocalTransport> {
        let nqn = Nqn::new(&format!("nqn.2026-11.test:{name}")).unwrap();
        Host::connect(LocalTransport::new(self.running.handle()), &Identity::new(nqn)).unwrap()
    }

    pub fn connect(&self) -> TcpStream {
        http::connect(self.ui.address())
    }

    /// What comes until the connection ends, in answer to these bytes.
    pub fn send(&self, request: &[u8]) -> Answer {
        http::send(self.ui.address(), request)
    }

    /// A request of a program that knows the token.
    pub fn with(&self, method: &str, address: &str, headers: &str, body: &str) -> Answer {
        self.bare(method, address, &(bearer() + headers), body)
    }

    pub fn bare(&self, method: &str, address: &str, headers: &str, body: &str) -> Answer {
        let host = self.ui.address();
        let length = body.len();
        self.send(
            format!("{method} {address} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {length}\r\n{headers}\r\n{body}")
                .as_bytes(),
        )
    }

    pub fn get(&self, address: &str) -> Answer {
        self.with("GET", address, "", "")
    }

    pub fn json(&self, address: &str) -> Value {
        let answer = self.get(address);
        assert_eq!(
            (answer.status, &*answer.headers["content-type"]),
            (200, "application/json"),
            "{}",
            answer.body
        );
        answer.json()
    }

    /// A request that changes something.
    pub fn change(&self, method: &str, address: &str, body: &Value) -> Answer {
        self.with(method, address, "Content-Type: application/json\r\n", &body.to_string())
    }

    /// One that is carried out.
    pub fn done(&self, method: &str, address: &str, body: &Value) -> Value {
        let answer = self.change(method, address, body);
        assert_eq!(answer.status, 200, "{method} {address}: {}", answer.body);
        answer.json()
    }

    /// A namespace in the state.
    pub fn namespace(&self, nsid: u64) -> Option<Value> {
        let state = self.json("/api/state");
        state["namespaces"].as_array().unwrap().iter().find(|ns| ns["nsid"] == nsid).cloned()
    }

    pub fn events(&self) -> Events {
        let mut stream = self.connect();
        let host = self.ui.address();
        write!(stream, "GET /api/samples HTTP/1.1\r\nHost: {host}\r\n{}\r\n", bearer()).unwrap();
        let mut events = Events { reader: BufReader::new(stream), begun: false, pending: String::new() };
        let head = events.head();
        assert!(head.starts_with("HTTP/1.1 200") && head.contains("text/event-stream"), "{head}");
        events
    }
}

/// A stream of Server-Sent Events, in chunks as HTTP/1.1 has them.
pub struct Events {
    reader: BufReader<TcpStream>,
    begun: bool,
    pending: String,
}

impl Events {
    fn line(&mut self) -> String {
        let mut line = String::new();
        assert_ne!(self.reader.read_line(&mut line).unwrap(), 0, "the stream has ended");
        line
    }

    fn head(&mut self) -> String {
        let mut head = String::new();
        loop {
            let line = self.line();
            if line == "\r\n" {
                return head;
            }
            head.push_str(&line);
        }
    }

    /// The next event: its name and its data. Comments are left out.
    pub fn next(&mut self) -> (String, Value) {
        loop {
            while let Some((event, rest)) = self.pending.split_once("\n\n") {
                let (event, rest) = (event.to_owned(), rest.to_owned());
                self.pending = rest;
                if event.starts_with(':') {
                    continue;
                }
                let (name, data) = event.strip_prefix("event: ").unwrap().split_once("\ndata: ").unwrap();
                return (name.to_owned(), serde_json::from_str(data).unwrap());
            }
            if std::mem::replace(&mut self.begun, true) {
                assert_eq!(self.line(), "\r\n", "the end of a chunk");
            }
            let size = self.line();
            let mut chunk = vec![0; usize::from_str_radix(size.trim(), 16).unwrap()];
            self.reader.read_exact(&mut chunk).unwrap();
            self.pending.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }

    /// The next event of this name.
    pub fn wait(&mut self, name: &str) -> Value {
        for _ in 0..1000 {
            let (found, data) = self.next();
            if found == name {
                return data;
            }
        }
        panic!("no event {name}");
    }
}
