//! Keys and the list of hosts, from outside.

mod common;

use common::{Served, TRANCHE, text};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use testkit::{skipped, wait_for};

fn tranche(args: &[&str]) -> Output {
    Command::new(TRANCHE).args(args).output().unwrap()
}

fn key(args: &[&str]) -> String {
    let made = tranche(&[&["key"], args].concat());
    assert!(made.status.success(), "{args:?}: {}", text(&made.stderr));
    text(&made.stdout).trim().to_owned()
}

/// What a drive has said until now, when it is killed.
fn said_by(mut served: Served) -> String {
    served.child.kill().unwrap();
    served.child.wait().unwrap();
    let mut said = String::new();
    served.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    said
}

#[test]
fn a_key_in_a_file_is_its_owner_s_and_never_overwritten() {
    let temp = tempfile::tempdir().unwrap();
    let file = temp.path().join("alpha.key");
    let make = || tranche(&["key", "dhchap", "--hmac", "1", "--file", file.to_str().unwrap()]);
    let made = make();
    assert!(made.status.success(), "{}", text(&made.stderr));
    let kept = std::fs::read_to_string(&file).unwrap();
    assert!(kept.starts_with("DHHC-1:01:") && kept.ends_with(":\n"), "{kept}");
    assert!(!text(&made.stdout).contains(kept.trim()), "a key that is kept is not printed");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let again = make();
    assert!(!again.status.success() && text(&again.stderr).contains("alpha.key"), "{}", text(&again.stderr));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), kept);
}

/// A key proves who a host is, and protects nothing that comes after.
#[test]
fn keys_without_tls_are_warned_of_beyond_loopback() {
    let temp = tempfile::tempdir().unwrap();
    let hosts = temp.path().join("hosts.toml");
    let text = format!(
        "[[host]]\nnqn = 'nqn.2026-11.test:a'\nrole = 'admin'\ndhchap_key = '{}'\n",
        key(&["dhchap"])
    );
    std::fs::write(&hosts, text).unwrap();
    std::fs::set_permissions(&hosts, std::fs::Permissions::from_mode(0o600)).unwrap();
    for (address, warned) in [("0.0.0.0:0", true), ("127.0.0.1:0", false)] {
        let mut command = Command::new(TRANCHE);
        command.args(["serve", "--tcp", address, "--timing", "off", "--hosts", hosts.to_str().unwrap()]);
        let said = said_by(Served::run(command.stderr(Stdio::piped())));
        assert_eq!(
            said.contains("DH-HMAC-CHAP") && said.contains("--tls protects"),
            warned,
            "{address}: {said}"
        );
    }
}

#[test]
fn nobody_else_can_open_the_unix_socket() {
    let temp = tempfile::tempdir().unwrap();
    let socket = temp.path().join("socket");
    let _served = Served::start(&["--timing", "off", "--unix", socket.to_str().unwrap()]);
    assert_eq!(std::fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn keys_are_those_of_nvme_cli() {
    let nvme = |args: &[&str]| Command::new("nvme").args(args).output();
    let possible = nvme(&["version"]).is_ok_and(|done| done.status.success());
    for hmac in ["0", "1", "2", "3"] {
        let key = key(&["dhchap", "--hmac", hmac]);
        assert!(key.starts_with(&format!("DHHC-1:0{hmac}:")), "{hmac}");
        if possible {
            let done = nvme(&["check-dhchap-key", &format!("--key={key}")]).unwrap();
            assert!(done.status.success(), "{}", text(&done.stderr));
        }
    }
    for hmac in ["1", "2"] {
        let key = key(&["tls", "--hmac", hmac]);
        assert!(key.starts_with(&format!("NVMeTLSkey-1:0{hmac}:")), "{hmac}");
    }
    assert_ne!(key(&["tls"]), key(&["tls"]));
    let wrong = tranche(&["key", "dhchap", "--hmac", "1", "--key-length", "64"]);
    assert!(text(&wrong.stderr).contains("64 bytes does not go with"), "{}", text(&wrong.stderr));
    if !possible {
        skipped("keys_are_those_of_nvme_cli", "there is no nvme-cli, so a part is left out");
    }
}

#[test]
fn hosts_need_their_keys_and_nobody_repeats_them() {
    let temp = tempfile::tempdir().unwrap();
    let [chap, controller, psk] = [&["dhchap"][..], &["dhchap", "--hmac", "3"], &["tls"]].map(key);
    let file = |name: &str, content: &str| {
        let path = temp.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.display().to_string()
    };
    let hosts = file(
        "hosts.toml",
        &format!(
            "[[host]]\nnqn = 'nqn.2026-11.test:a'\ndhchap_key = '{chap}'\ndhchap_ctrl_key = '{controller}'\n\
             tls_psk = '{psk}'\n"
        ),
    );
    let (chap_file, psk_file) = (file("chap", &chap), file("psk", &psk));
    let mut said = String::new();
    for tls in [&[][..], &["--tls"]] {
        let arguments = ["serve", "--tcp", "127.0.0.1:0", "--hosts", &hosts];
        let served = Served::run(Command::new(TRANCHE).args(arguments).args(tls).stderr(Stdio::piped()));
        let on = served.tcp().remove(0);
        let ask = |args: &[&str]| {
            let mut command = Command::new(TRANCHE);
            command.args(["id", "--on", &on, "--hostnqn", "nqn.2026-11.test:a"]).args(args);
            if !tls.is_empty() {
                command.args(["--tls-psk", &psk_file]);
            }
            command
        };
        let fine =
            ask(&["--dhchap-secret", &chap_file, "--dhchap-ctrl-secret", &controller]).output().unwrap();
        assert!(fine.status.success(), "{}", text(&fine.stderr));
        let fine = ask(&[]).env("TRANCHE_DHCHAP_SECRET", &chap).output().unwrap();
        assert!(fine.status.success(), "{}", text(&fine.stderr));
        for (args, problem) in [
            (&[][..], "authenticate itself"),
            (&["--dhchap-secret", &controller], "controller refused"),
            (&["--dhchap-secret", &chap, "--dhchap-ctrl-secret", &chap], "did not convince"),
            (&["--dhchap-ctrl-secret", &chap], "needs --dhchap-secret"),
            (&["--dhchap-secret", &chap[..chap.len() - 9]], "--dhchap-secret: "),
            (&["--dhchap-secret", "/nonexistent"], "cannot read the file /nonexistent"),
        ] {
            let refused = ask(args).output().unwrap();
            let words = text(&refused.stderr);
            assert!(!refused.status.success() && words.contains(problem), "{problem}: {words}");
            said += &words;
        }
        said += &said_by(served);
    }
    assert!(said.contains("is refused"), "{said}");
    for secret in [&chap, &controller, &psk] {
        assert!(!said.contains(&secret[16..32]), "{said}");
    }
}

/// Each way of not being let in ends with the same exit code, and names what keeps the host out.
#[test]
fn a_host_that_is_not_let_in_is_told_why() {
    let temp = tempfile::tempdir().unwrap();
    let [chap, other] = [&["dhchap"][..], &["dhchap"]].map(key);
    let hosts = temp.path().join("hosts.toml");
    let late = "[[host]]\nnqn = 'nqn.2026-11.test:late'\nexpires = 2001-01-01\n";
    let keyed = format!("[[host]]\nnqn = 'nqn.2026-11.test:keyed'\ndhchap_key = '{chap}'\n");
    std::fs::write(&hosts, format!("{late}{keyed}[[host]]\nnqn = 'nqn.2026-11.test:fine'\n")).unwrap();
    let served = Served::start(&["--tcp", "127.0.0.1:0", "--hosts", hosts.to_str().unwrap()]);
    let place = served.tcp().remove(0);
    let id: serde_json::Value =
        serde_json::from_slice(&on(&place, "fine", &["id", "--output", "json"]).stdout).unwrap();
    let named = format!("{place}?nqn={}", id["subnqn"].as_str().unwrap());
    let elsewhere = format!("{place}?nqn=nqn.2026-11.test:nothing");
    for (place, host, more, why) in [
        (&place, "stranger", &[][..], "list of hosts does not admit"),
        (&place, "late", &[], "list of hosts does not admit"),
        (&named, "stranger", &[], "list of hosts does not admit"),
        (&named, "late", &[], "list of hosts does not admit"),
        (&elsewhere, "fine", &[], "the subsystem NQN"),
        (&named, "keyed", &[], "authenticate itself"),
        (&named, "keyed", &["--dhchap-secret", &other], "the keys on both sides must match"),
        (
            &named,
            "fine",
            &["--dhchap-secret", &chap, "--dhchap-ctrl-secret", &chap],
            "asks for no authentication",
        ),
    ] {
        let refused = on(place, host, &[&["ns", "list", "--output", "json"], more].concat());
        let error: serde_json::Value = serde_json::from_slice(&refused.stderr).unwrap();
        let (error, words) = (&error["error"], error["error"]["message"].as_str().unwrap());
        assert_eq!(refused.status.code(), Some(3), "{place} {host}: {words}");
        assert_eq!((&error["kind"], &error["exit_code"]), (&"no_drive".into(), &3.into()));
        assert!(words.contains(why), "{place} {host}: {words}");
    }
}

#[test]
fn tls_needs_hosts() {
    let alone = tranche(&["serve", "--tls"]);
    assert!(text(&alone.stderr).contains("--hosts"), "{}", text(&alone.stderr));
}

fn on(place: &str, name: &str, args: &[&str]) -> Output {
    let nqn = format!("nqn.2026-11.test:{name}");
    tranche(&[args, &["--on", place, "--hostnqn", &nqn]].concat())
}

#[test]
fn the_list_of_hosts_gives_roles_and_is_read_again_on_sighup() {
    let temp = tempfile::tempdir().unwrap();
    let hosts = temp.path().join("hosts.toml");
    let list = |tenant: &str| {
        let admin = "[[host]]\nnqn = 'nqn.2026-11.test:admin'\nrole = 'admin'\n";
        std::fs::write(&hosts, format!("{admin}[[host]]\nnqn = 'nqn.2026-11.test:tenant'\n{tenant}\n"))
            .unwrap();
    };
    list("role = 'tenant'\nnamespaces = []");
    let arguments = ["serve", "--tcp", "127.0.0.1:0", "--hosts", hosts.to_str().unwrap()];
    let served = Served::run(Command::new(TRANCHE).args(arguments).stderr(Stdio::piped()));
    let place = served.tcp().remove(0);
    let namespaces = |name: &str| text(&on(&place, name, &["ns", "list", "--output", "json"]).stdout);
    assert!(!namespaces("tenant").contains("\"NameSpace\": 1"), "{}", namespaces("tenant"));
    assert!(namespaces("admin").contains("\"NameSpace\": 1"), "{}", namespaces("admin"));
    let refused = on(&place, "tenant", &["ns", "delete", "1", "--force"]);
    let words = text(&refused.stderr);
    assert!(!refused.status.success() && words.contains("Operation Denied"), "{words}");
    assert!(words.contains("the drive's list of hosts (serve --hosts) does not allow this"), "{words}");

    list("role = 'tenant'\nnamespaces = [1]");
    served.signal("HUP");
    wait_for("namespace 1 for the tenant", || namespaces("tenant").contains("\"NameSpace\": 1"));
    // A list that makes no sense changes nothing.
    list("role = 'king'");
    served.signal("HUP");
    std::thread::sleep(Duration::from_millis(300));
    assert!(namespaces("tenant").contains("\"NameSpace\": 1"));
    list("expires = 2001-01-01");
    served.signal("HUP");
    wait_for("the end of the tenant", || !on(&place, "tenant", &["id"]).status.success());
    assert!(on(&place, "admin", &["ns", "delete", "1", "--force"]).status.success());
    let said = said_by(served);
    for words in ["hosts.toml was read again", "the list of hosts stays as it was", "line 6", "role is"] {
        assert!(said.contains(words), "{words}: {said}");
    }
}

#[test]
fn without_a_list_hosts_of_other_machines_are_guests() {
    // An address of this machine that is not loopback looks like another machine.
    let address = format!("192.0.2.{}", 1 + std::process::id() % 250);
    let ip = |act: &str| {
        let arguments = ["address", act, &format!("{address}/32"), "dev", "lo"];
        Command::new("ip").args(arguments).stderr(Stdio::null()).status().is_ok_and(|done| done.success())
    };
    if !ip("add") {
        skipped("without_a_list_hosts_of_other_machines_are_guests", "no address can be added (ip, root)");
        return;
    }
    let served = Served::start(&["--tcp", &format!("{address}:0"), "--tcp", "127.0.0.1:0"]);
    let places = served.tcp();
    let (far, near) = (&places[0], &places[1]);
    let list = text(&on(far, "some", &["ns", "list", "--output", "json"]).stdout);
    let refused = on(far, "some", &["ns", "delete", "1", "--force"]);
    let format = on(far, "some", &["quota", "set", "1", "--read", "1MB/s"]);
    let done = on(near, "some", &["ns", "delete", "1", "--force"]);
    ip("del");
    assert!(list.contains("\"NameSpace\": 1"), "{list}");
    for refused in [refused, format] {
        let words = text(&refused.stderr);
        assert!(!refused.status.success() && words.contains("only from its own machine"), "{words}");
    }
    assert!(done.status.success(), "{}", text(&done.stderr));
}
