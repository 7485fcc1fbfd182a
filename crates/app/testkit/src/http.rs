//! A plain HTTP client: it sends any bytes, and reads what comes.

use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// A connection that waits for two minutes at most.
pub fn connect(address: impl ToSocketAddrs) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    stream
}

/// What comes until the connection ends, in answer to these bytes.
pub fn send(address: impl ToSocketAddrs, request: &[u8]) -> Answer {
    let mut stream = connect(address);
    // What is refused may be refused before all of it is written.
    let _ = stream.write_all(request);
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    Answer::parse(&String::from_utf8(bytes).unwrap())
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// By their names in small letters.
    pub headers: BTreeMap<String, String>,
    /// What follows the head.
    pub body: String,
}

impl Answer {
    /// Reads a whole answer.
    pub fn parse(text: &str) -> Answer {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head: {text:?}"));
        let mut lines = head.lines();
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let header = |line: &str| {
            let (name, value) = line.split_once(": ").unwrap();
            (name.to_ascii_lowercase(), value.to_owned())
        };
        Answer { status, headers: lines.map(header).collect(), body: body.to_owned() }
    }

    /// Its body as JSON.
    ///
    /// # Panics
    /// It is no JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    /// Why a request was refused: the text `error` of its body.
    ///
    /// # Panics
    /// The answer has another status, or no reason.
    pub fn refused(&self, status: u16) -> String {
        assert_eq!(self.status, status, "{}", self.body);
        let why = self.json()["error"].as_str().unwrap().to_owned();
        assert!(why.len() > 10, "{why}");
        why
    }
}
