//! `tranche demo` as somebody who tries it runs it.

mod common;
#[path = "common/schema.rs"]
mod schema;

use common::TRANCHE;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

/// A demonstration, and where its view is.
struct Demo {
    process: Child,
    said: BufReader<ChildStdout>,
    view: String,
    token: String,
}

impl Demo {
    fn start(time: &str) -> Demo {
        let mut command = Command::new(TRANCHE);
        command.args(["--output", "json", "demo", "--port", "0", "--time", time]).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut said = BufReader::new(process.stdout.take().unwrap());
        let first = line(&mut said);
        schema::check("demo", &first);
        let url = first["ui"].as_str().unwrap();
        let (view, token) = url.strip_prefix("http://").unwrap().split_once("/?token=").unwrap();
        let (view, token) = (view.to_owned(), token.to_owned());
        Demo { process, said, view, token }
    }

    fn get(&self, path: &str) -> Value {
        let token = &self.token;
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n"
        );
        let answer = testkit::http::send(&*self.view, request.as_bytes());
        assert_eq!(answer.status, 200, "{answer:?}");
        serde_json::from_str(&answer.body).unwrap()
    }

    fn post(&self, path: &str, body: &str) -> u16 {
        let (length, token) = (body.len(), &self.token);
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        );
        testkit::http::send(&*self.view, request.as_bytes()).status
    }

    /// What it says at its end, which must be a good one.
    fn end(mut self) -> Value {
        let done = line(&mut self.said);
        schema::check("demo-done", &done);
        assert!(self.process.wait().unwrap().success());
        done
    }
}

fn line(said: &mut impl BufRead) -> Value {
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
}

#[test]
fn every_namespace_works_also_after_a_power_cut() {
    let demo = Demo::start("15s");
    assert_eq!(demo.get("/api/state")["namespaces"].as_array().unwrap().len(), 4);
    assert_eq!(demo.post("/api/power-cut", r#"{"off_ms": 100}"#), 200);
    let done = demo.end();
    for namespace in done["namespaces"].as_array().unwrap() {
        // The counts of a power cycle: what was written after the cut.
        assert!(namespace["written_bytes"].as_u64().unwrap() > 0, "{namespace}");
    }
}

#[test]
fn an_interrupt_ends_it_with_its_results() {
    let demo = Demo::start("1000s");
    let pid = rustix::process::Pid::from_child(&demo.process);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(demo.end()["namespaces"].as_array().unwrap().len(), 4);
}

#[test]
fn a_port_that_is_taken_is_named_with_its_cure() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let output = Command::new(TRANCHE).args(["demo", "--port", &port]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("--port 0") && said.contains(&port), "{said}");
}
