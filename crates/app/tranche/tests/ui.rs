//! `tranche serve --ui`, and `tranche ui`: the live view of a drive that is served.

#[path = "../../../attach/ui/tests/suite/support/mod.rs"]
mod ui_support;

mod common;
#[path = "common/schema.rs"]
mod schema;

use common::{Served, TRANCHE, at, text};
use std::io::{BufRead, BufReader, Read};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use ui_support::{Answer, http};

const DRIVE: &str = "[drive]\ntiming = false\n[[set]]\nmedia = \"dram\"\ncapacity = \"16MiB\"\n[[namespace]]\nsize = \"8MiB\"\n";

/// A view as its address names it: where, and the token.
struct View {
    at: String,
    token: String,
}

impl View {
    fn of_url(url: &str) -> View {
        let (at, query) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
        let token = query.strip_prefix("?token=").unwrap_or_default().to_owned();
        View { at: at.to_owned(), token }
    }

    /// Where the ready line says that the view is.
    fn of(served: &Served) -> View {
        let found = served.ready.split_whitespace().find_map(|word| word.strip_prefix("ui="));
        View::of_url(found.expect("where the view is"))
    }

    /// A request of a program that knows the token.
    fn ask(&self, head: &str, body: &str) -> Answer {
        ask(&self.at, &self.token, head, body)
    }
}

fn ask(address: &str, token: &str, head: &str, body: &str) -> Answer {
    let length = body.len();
    let request = format!(
        "{head} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    http::send(address, request.as_bytes())
}

fn fails(args: &[&str]) -> String {
    let done = Command::new(TRANCHE).args(["serve", "--tcp", "127.0.0.1:0"]).args(args).output().unwrap();
    assert!(!done.status.success());
    text(&done.stderr)
}

#[test]
fn a_drive_is_seen_and_changed() {
    let dir = tempfile::tempdir().unwrap();
    let drive = at(dir.path(), "drive.toml");
    std::fs::write(&drive, DRIVE).unwrap();
    let studies = dir.path().join("studies");
    std::fs::create_dir_all(studies.join("quota")).unwrap();
    std::fs::write(studies.join("quota/report.html"), "<title>Quota</title>").unwrap();
    let (socket, studies) = (at(dir.path(), "socket"), at(dir.path(), "studies"));
    let args = ["--drive", &drive, "--unix", &socket, "--ui", "127.0.0.1:0", "--ui-studies", &studies];
    let served = Served::start(&args);
    let view = View::of(&served);
    assert_eq!(ask(&view.at, "none", "GET /api/state", "").status, 401);
    let page = view.ask("GET /", "");
    assert!(page.status == 200 && page.body.contains("<title>Tranche</title>"), "{}", page.body);
    let state = view.ask("GET /api/state", "").json();
    assert_eq!(state["drive"]["address"], format!("unix://{socket}"));
    assert_eq!(view.ask("GET /api/studies", "").json()[0]["title"], "Quota");
    let new = "{\"set\":1,\"size\":1048576,\"lba_bytes\":512,\"attach\":true}";
    let nsid = view.ask("POST /api/namespaces", new).json()["nsid"].as_u64().unwrap();
    let listed =
        Command::new(TRANCHE).args(["ns", "list", "--on", &format!("unix://{socket}")]).output().unwrap();
    let listed = text(&listed.stdout);
    let is_it = |line: &str| line.split_whitespace().next() == Some(&nsid.to_string());
    assert!(listed.lines().any(is_it), "{listed}");
    // The socket's hosts may cut the power; the view may not.
    assert_eq!(view.ask("POST /api/power-cut", "{}").status, 403);
    served.signal("TERM");
    assert_eq!(served.end(), Some(0));
    assert!(TcpStream::connect(&view.at).is_err());
}

#[test]
fn what_cannot_be_served_is_said_before_an_image_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let image = at(dir.path(), "image");
    let holder = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = holder.local_addr().unwrap();
    let said = fails(&["--image", &image, "--ui", &taken.to_string()]);
    assert!(said.contains(&format!("cannot serve the live view on {taken}")), "{said}");
    let token = at(dir.path(), "token");
    std::fs::write(&token, "short\n").unwrap();
    let said = fails(&["--image", &image, "--ui", "127.0.0.1:0", "--ui-token", &token]);
    assert!(said.contains("16 to 256 characters"), "{said}");
    let said = fails(&["--image", &image, "--ui", "127.0.0.1:0", "--ui-studies", &token]);
    assert!(said.contains("is no directory"), "{said}");
    assert!(fails(&["--ui-token", &token]).contains("--ui"));
    assert!(!Path::new(&image).exists());
}

#[test]
fn beyond_loopback_the_token_of_a_file_opens_it() {
    let dir = tempfile::tempdir().unwrap();
    let token = at(dir.path(), "token");
    std::fs::write(&token, "correct-horse-battery\n").unwrap();
    std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o644)).unwrap();
    let mut served = Served::run(
        Command::new(TRANCHE)
            .args([
                "serve",
                "--tcp",
                "127.0.0.1:0",
                "--timing",
                "off",
                "--ui",
                "0.0.0.0:0",
                "--ui-token",
                &token,
            ])
            .stderr(Stdio::piped()),
    );
    assert!(!served.ready.contains("token"), "a token that was given is not shown: {}", served.ready);
    let at = View::of(&served).at.replace("0.0.0.0", "127.0.0.1");
    assert_eq!(ask(&at, "none", "GET /", "").status, 401);
    assert_eq!(ask(&at, "none", "GET /?token=correct-horse-battery", "").status, 303);
    assert_eq!(ask(&at, "correct-horse-battery", "GET /api/state", "").status, 200);
    served.signal("TERM");
    let mut said = String::new();
    served.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(said.contains("without TLS") && said.contains("chmod 600"), "{said}");
    assert!(!said.contains("correct-horse"), "{said}");
    assert_eq!(served.end(), Some(0));
}

/// A view of a drive of another process sees it, changes it, and finds it again when it comes back.
#[test]
fn a_drive_of_another_process_is_seen_and_changed() {
    let dir = tempfile::tempdir().unwrap();
    let drive = at(dir.path(), "drive.toml");
    std::fs::write(&drive, DRIVE).unwrap();
    let socket = at(dir.path(), "socket");
    let on = format!("unix://{socket}");
    let serve = || Served::start(&["--drive", &drive, "--unix", &socket]);
    let served = serve();
    let viewer = Served::run(Command::new(TRANCHE).args(["ui", "--on", &on, "--listen", "127.0.0.1:0"]));
    let view = View::of(&viewer);
    // The socket's rights are not lent to every user of the machine.
    assert_eq!(ask(&view.at, "none", "GET /api/state", "").status, 401);
    let state = view.ask("GET /api/state", "").json();
    assert_eq!((&state["drive"]["address"], &state["sets"][0]["medium"]), (&on.into(), &"dram".into()));
    let new = "{\"set\":1,\"size\":1048576,\"lba_bytes\":512,\"attach\":true}";
    assert!(view.ask("POST /api/namespaces", new).json()["nsid"].as_u64().is_some());
    // A host of the socket may cut the power, as `tranche power-cut` may.
    assert_eq!(view.ask("POST /api/power-cut", "{\"off_ms\":1}").status, 200);
    drop(served);
    assert_eq!(view.ask("GET /api/state", "").status, 503);
    std::fs::remove_file(&socket).unwrap_or_default();
    let again = serve();
    let state = view.ask("GET /api/state", "");
    assert_eq!((state.status, state.json()["namespaces"].as_array().map(Vec::len)), (200, Some(1)));
    viewer.signal("TERM");
    assert_eq!(viewer.end(), Some(0));
    drop(again);
}

#[test]
fn a_view_of_another_process_says_where_it_is_and_what_is_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let drive = at(dir.path(), "drive.toml");
    std::fs::write(&drive, DRIVE).unwrap();
    let on = format!("unix://{}", at(dir.path(), "socket"));
    let view = |args: &[&str]| {
        let mut command = Command::new(TRANCHE);
        command.args(["ui", "--on", &on, "--output", "json"]).args(args);
        command
    };
    let fails = |args: &[&str]| {
        let done = view(args).output().unwrap();
        assert!(!done.status.success() && done.stdout.is_empty());
        text(&done.stderr)
    };
    assert!(fails(&["--listen", "127.0.0.1:0"]).contains("no drive at"));
    let _served = Served::start(&["--drive", &drive, "--unix", &at(dir.path(), "socket")]);
    assert!(fails(&["--listen", "127.0.0.1:0", "--studies", &drive]).contains("is no directory"));
    let mut viewer = view(&["--listen", "127.0.0.1:0"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(viewer.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let said = serde_json::from_str(&line).unwrap();
    schema::check("ui", &said);
    let taken = View::of_url(said["ui"].as_str().unwrap()).at;
    assert!(fails(&["--listen", &taken]).contains("--listen"));
    viewer.kill().unwrap();
    viewer.wait().unwrap();
}
