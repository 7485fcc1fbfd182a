//! `tranche serve --metrics`: a drive that is scraped from outside.

#[path = "../../../attach/metrics/tests/suite/support/mod.rs"]
mod metrics_support;

mod common;

use common::{Served, TRANCHE, at, text};
use metrics_support::{Answer, Page};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};

const DRIVE: &str = "[drive]\ntiming = false\n[[set]]\nmedia = \"dram\"\ncapacity = \"16MiB\"\n[[namespace]]\nsize = \"16MiB\"\n";

fn address(served: &Served) -> String {
    let found = served.ready.split_whitespace().find_map(|word| word.strip_prefix("metrics="));
    found.expect("where metrics are").to_owned()
}

fn scrape(address: &str) -> Page {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let answer = Answer::parse(&text(&bytes));
    assert_eq!(answer.status, 200);
    Page::parse(&answer.body, false)
}

/// Serves a drive of a directory, and its metrics.
fn serve(dir: &Path) -> Served {
    std::fs::write(dir.join("drive.toml"), DRIVE).unwrap();
    let (drive, image, socket) = (at(dir, "drive.toml"), at(dir, "image"), at(dir, "socket"));
    Served::start(&["--drive", &drive, "--image", &image, "--unix", &socket, "--metrics", "127.0.0.1:0"])
}

fn write(dir: &Path, mib: u32) {
    let job = format!("[write]\nrw=write\nbs=64k\nsize={mib}m\n");
    std::fs::write(dir.join("job.fio"), job).unwrap();
    let on = format!("unix://{}", at(dir, "socket"));
    let done = Command::new(TRANCHE).args(["bench", "--on", &on, &at(dir, "job.fio")]).output().unwrap();
    assert!(done.status.success(), "{}", text(&done.stderr));
}

#[test]
fn counts_of_a_drive_go_on_after_a_restart_and_those_of_the_process_begin_anew() {
    let dir = tempfile::tempdir().unwrap();
    let ns = [("nsid", "1")];
    let set = [("set", "1")];
    let unix = [("transport", "unix")];
    let served = serve(dir.path());
    write(dir.path(), 3);
    let page = scrape(&address(&served));
    let mib = f64::from(1 << 20);
    assert_eq!(page.get("tranche_namespace_written_bytes_total", &ns), 3.0 * mib);
    assert_eq!(page.get("tranche_set_host_written_bytes_total", &set), 3.0 * mib);
    assert!(page.get("tranche_transport_received_bytes_total", &unix) > 3.0 * mib);
    assert!(page.get("tranche_connections_accepted_total", &unix) >= 2.0);
    served.signal("TERM");
    assert_eq!(served.end(), Some(0));

    let served = serve(dir.path());
    write(dir.path(), 1);
    let page = scrape(&address(&served));
    assert_eq!(page.get("tranche_namespace_written_bytes_total", &ns), mib);
    assert_eq!(page.get("tranche_set_host_written_bytes_total", &set), 4.0 * mib);
    assert_eq!(page.get("tranche_power_cycles_total", &[]), 2.0);
    assert_eq!(page.get("tranche_power_cuts_total", &[]), 0.0);
    assert!(page.get("tranche_transport_received_bytes_total", &unix) < 3.0 * mib);
}

#[test]
fn a_host_that_breaks_the_protocol_is_counted() {
    let dir = tempfile::tempdir().unwrap();
    let served = serve(dir.path());
    let at_socket = at(dir.path(), "socket");
    let mut stream = std::os::unix::net::UnixStream::connect(at_socket).unwrap();
    stream.write_all(&[0xFF; 256]).unwrap();
    // The drive says why, and ends the connection.
    let mut said = Vec::new();
    stream.read_to_end(&mut said).unwrap();
    let page = scrape(&address(&served));
    assert_eq!(page.get("tranche_transport_protocol_errors_total", &[("transport", "unix")]), 1.0);
    assert_eq!(page.get("tranche_connections", &[("transport", "unix")]), 0.0);
}

#[test]
fn an_unknown_host_is_counted() {
    let dir = tempfile::tempdir().unwrap();
    let hosts = at(dir.path(), "hosts.toml");
    std::fs::write(&hosts, "[[host]]\nnqn = \"nqn.2026-11.test:known\"\nrole = \"admin\"\n").unwrap();
    let served = Served::start(&[
        "--tcp",
        "127.0.0.1:0",
        "--timing",
        "off",
        "--hosts",
        &hosts,
        "--metrics",
        "[::1]:0",
    ]);
    let refused = Command::new(TRANCHE).args(["ns", "list", "--on", &served.tcp()[0]]).output().unwrap();
    assert!(!refused.status.success());
    let page = scrape(&address(&served));
    assert!(page.get("tranche_authentication_failures_total", &[("reason", "unknown_host")]) >= 1.0);
}

#[test]
fn an_address_that_is_taken_or_wrong_leaves_no_image() {
    let dir = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    for wrong in [taken.local_addr().unwrap().to_string(), "9420".to_owned()] {
        let image = at(dir.path(), "image");
        let args = ["serve", "--tcp", "127.0.0.1:0", "--image", &image, "--metrics", &wrong];
        let done = Command::new(TRANCHE).args(args).output().unwrap();
        assert!(!done.status.success());
        let said = text(&done.stderr);
        assert!(said.contains(&format!("cannot serve metrics on {wrong}")), "{said}");
        assert!(!Path::new(&image).exists());
    }
}

#[test]
fn an_address_for_other_machines_is_warned_of() {
    let mut served = Served::run(
        Command::new(TRANCHE)
            .args(["serve", "--tcp", "127.0.0.1:0", "--timing", "off", "--metrics", "0.0.0.0:0"])
            .stderr(Stdio::piped()),
    );
    let page = scrape(&address(&served));
    assert_eq!(page.get("tranche_drive_powered", &[]), 1.0);
    served.signal("TERM");
    let mut said = String::new();
    served.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(said.contains("can read the metrics"), "{said}");
    assert_eq!(served.end(), Some(0));
}
