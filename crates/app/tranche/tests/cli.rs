//! The program from outside.

mod common;

use common::{Served, at, text};
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use testkit::wait_for;

fn tranche(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tranche")).args(args).output().unwrap()
}

/// Standard output of a command that succeeds and says nothing else.
fn out(args: &[&str]) -> String {
    let output = tranche(args);
    assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "", "{args:?}");
    text(&output.stdout)
}

/// Standard error of a command that fails and prints no result.
fn err(args: &[&str]) -> String {
    let output = tranche(args);
    assert!(!output.status.success(), "{args:?}: {}", text(&output.stdout));
    assert_eq!(text(&output.stdout), "", "{args:?}");
    text(&output.stderr)
}

/// Clients come and go while namespaces are made, attached, listed and deleted.
#[test]
fn clients_do_not_disturb_each_other() {
    let temp = tempfile::tempdir().unwrap();
    let socket = at(temp.path(), "s");
    let _served = Served::start(&["--unix", &socket]);
    let on = format!("unix://{socket}");
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let lister = scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                out(&["ns", "list", "--on", &on]);
            }
        });
        for _ in 0..60 {
            let nsid = out(&["ns", "create", "--nvm-set", "2", "--size", "1MiB", "--attach", "--on", &on]);
            out(&["ns", "delete", nsid.trim(), "--force", "--on", &on]);
        }
        over.store(true, Ordering::Relaxed);
        lister.join().unwrap();
    });
}

#[test]
fn namespaces_are_managed_over_a_unix_socket() {
    let temp = tempfile::tempdir().unwrap();
    let (socket, image) = (at(temp.path(), "s"), at(temp.path(), "image"));
    let served = Served::start(&["--unix", &socket, "--image", &image]);
    assert_eq!(served.ready, format!("ready unix={socket} nqn=nqn.2026-11.io.tranche:drive\n"));
    let on = format!("unix://{socket}");
    assert_eq!(out(&["ns", "create", "--nvm-set", "2", "--size", "16MiB", "--attach", "--on", &on]), "2\n");
    let list = out(&["ns", "list", "--on", &on]);
    let rows: Vec<Vec<&str>> = list.lines().map(|l| l.split_whitespace().collect()).collect();
    assert_eq!(rows[1][..5], ["1", "1", "1GiB", "0B", "4096"]);
    assert_eq!(rows[2][..5], ["2", "2", "16MiB", "0B", "4096"]);
    let json: serde_json::Value =
        serde_json::from_str(&out(&["ns", "list", "--output", "json", "--on", &on])).unwrap();
    assert_eq!(json["Devices"][1]["PhysicalSize"], 16 << 20);
    assert_eq!(json["Devices"][1]["SectorSize"], 4096);
    assert_eq!(out(&["ns", "format", "2", "--lba", "512", "--on", &on]), "namespace 2: formatted\n");
    assert!(out(&["ns", "list", "--on", &on]).lines().nth(2).unwrap().contains(" 512 "));
    assert_eq!(out(&["ns", "detach", "2", "--on", &on]), "namespace 2: detached from controllers 1\n");
    assert_eq!(out(&["ns", "list", "--attached", "--on", &on]).lines().count(), 2);
    assert_eq!(out(&["ns", "attach", "2", "--on", &on]), "namespace 2: attached to controllers 1\n");
    let full = err(&["ns", "create", "--nvm-set", "2", "--size", "1GiB", "--on", &on]);
    assert!(full.contains("NVM Set 2 has 48MiB unallocated"), "{full}");
    let odd = err(&["ns", "create", "--size", "1000", "--on", &on]);
    assert!(odd.contains("not a multiple"), "{odd}");
    assert!(err(&["ns", "create", "--size", "1MiB", "--lba", "520", "--on", &on]).contains("512 or 4096"));
    let none = err(&["ns", "create", "--size", "1MiB", "--lba", "4096+24", "--on", &on]);
    assert!(none.contains("no LBA format 4096+24, but 4096, 512, 512+8"), "{none}");
    let bare = err(&["ns", "format", "2", "--lba", "512", "--pi", "1", "--on", &on]);
    assert!(bare.contains("--pi 1 needs metadata"), "{bare}");
    for (format, pi, shown) in [("4096+8", "1", "4096+8 PI 1"), ("4096+16:64:16", "3", "4096+16 PI 3")] {
        assert_eq!(
            out(&["ns", "format", "2", "--lba", format, "--pi", pi, "--on", &on]),
            "namespace 2: formatted\n"
        );
        assert!(out(&["ns", "list", "--on", &on]).contains(shown));
        // As it is.
        assert_eq!(out(&["ns", "format", "2", "--on", &on]), "namespace 2: formatted\n");
        assert!(out(&["ns", "list", "--on", &on]).contains(shown));
    }
    let create = ["ns", "create", "--size", "1MiB", "--lba", "512+8", "--pi", "2", "--pi-first", "--on", &on];
    assert_eq!(out(&create), "3\n");
    assert!(out(&["ns", "list", "--on", &on]).contains("512+8 PI 2"));
    assert_eq!(out(&["ns", "delete", "3", "--on", &on]), "namespace 3: deleted\n");
    assert_eq!(out(&["ns", "delete", "2", "--on", &on]), "namespace 2: deleted\n");
    assert!(err(&["ns", "delete", "2", "--on", &on]).contains("deleting namespace 2"));
    let id: serde_json::Value = serde_json::from_str(&out(&["id", "--output", "json", "--on", &on])).unwrap();
    assert_eq!(id["subnqn"], "nqn.2026-11.io.tranche:drive");
    assert!(out(&["smart", "--on", &on]).contains("avail_spare"));
    let namespace = out(&["id", "--nsid", "1", "--on", &on]);
    assert!(
        namespace.lines().any(|l| l.starts_with("stored ") && l.ends_with(" in the clear")),
        "{namespace}"
    );
    assert!(out(&["smart", "--nvm-set", "1", "--on", &on]).contains("avl_spare"));
    assert!(out(&["smart", "--nsid", "1", "--on", &on]).contains("host_bytes_written"));
    served.signal("TERM");
    assert_eq!(served.end(), Some(0));
    assert!(!Path::new(&socket).exists());
}

#[test]
fn quotas_hold_at_once_and_are_kept_when_saved() {
    let temp = tempfile::tempdir().unwrap();
    let (socket, image) = (at(temp.path(), "s"), at(temp.path(), "image"));
    let on = format!("unix://{socket}");
    let json = |args: &[&str]| -> serde_json::Value {
        let args = [args, &["--output", "json", "--on", &on]].concat();
        serde_json::from_str(&out(&args)).unwrap()
    };
    let served = Served::start(&["--unix", &socket, "--image", &image]);
    let none = json(&["quota", "get", "1"]);
    assert!(none["current"]["read"].is_null() && none["current"]["weight"] == 100);
    let text =
        out(&["quota", "set", "1", "--read", "391MB/s", "--write-iops", "5000", "--save", "--on", &on]);
    let rows: Vec<Vec<&str>> = text.lines().skip(1).map(|l| l.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["in", "force", "391MB/s", "none", "none", "5000", "1000us", "100"]);
    assert_eq!(rows[1][1..], rows[0][2..]);
    // What is not named stays, and what is not saved ends with power.
    let set = json(&["quota", "set", "1", "--read", "none", "--weight", "300", "--burst", "2ms"]);
    assert_eq!(set["current"]["write_iops"], 5000);
    assert_eq!((&set["current"]["weight"], &set["current"]["burst_us"]), (&300.into(), &2000.into()));
    assert!(set["current"]["read"].is_null() && set["saved"]["read"] == 391_000_000);
    served.signal("TERM");
    assert_eq!(served.end(), Some(0));
    let served = Served::start(&["--unix", &socket, "--image", &image]);
    let kept = json(&["quota", "get", "1"]);
    assert_eq!(kept["current"], kept["saved"]);
    assert_eq!(kept["current"]["read"], 391_000_000);
    assert!(json(&["quota", "clear", "1", "--save"])["saved"]["read"].is_null());
    assert!(err(&["quota", "get", "9", "--on", &on]).contains("there is no namespace 9 (the drive has 1)"));
    assert_eq!(
        json(&["quota", "set", "1", "--write-iops", "0"])["current"]["write_iops"],
        serde_json::Value::Null
    );
    assert!(err(&["quota", "set", "1", "--read", "1kB/s", "--on", &on]).contains("or none"));
    assert!(err(&["quota", "set", "1", "--on", &on]).contains("--read"));
    served.signal("TERM");
    assert_eq!(served.end(), Some(0));
}

#[test]
fn a_power_cut_is_survived() {
    let temp = tempfile::tempdir().unwrap();
    let (socket, said) = (at(temp.path(), "s"), at(temp.path(), "said"));
    let mut command = Command::new(common::TRANCHE);
    let served = Served::run(command.args(["serve", "--unix", &socket]).stderr(File::create(&said).unwrap()));
    let on = format!("unix://{socket}");
    out(&["fault", "host-disk-full", "--count", "3", "--on", &on]);
    out(&["fault", "clear", "--on", &on]);
    assert_eq!(
        out(&["power-cut", "--off", "10ms", "--on", &on]),
        "power was off for 10 ms; the drive is back\n"
    );
    let start = Instant::now();
    while !tranche(&["id", "--on", &on]).status.success() {
        assert!(start.elapsed() < Duration::from_secs(60), "the drive does not come back");
    }
    let smart: serde_json::Value =
        serde_json::from_str(&out(&["smart", "--output", "json", "--on", &on])).unwrap();
    assert_eq!(smart["unsafe_shutdowns"], 1);
    assert!(out(&["power-cut", "--no-plp", "--on", &on]).contains("the drive is back"));
    served.signal("INT");
    assert_eq!(served.end(), Some(0));
    let said = std::fs::read_to_string(said).unwrap();
    for line in [
        "injected fault: host disk full",
        "injected faults are cleared",
        "the drive loses its power for 10 ms: every completed write is kept",
        "the drive has power again",
        "completed writes may be lost",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
}

#[test]
fn tcp_says_its_port() {
    let served = Served::start(&["--tcp", "127.0.0.1:0"]);
    let listed = out(&["ns", "list", "--on", &served.tcp()[0]]);
    assert_eq!(listed.lines().count(), 2);
    served.signal("HUP");
    assert_eq!(served.end(), Some(0));
}

#[test]
fn several_ports_and_what_can_be_done_to_them() {
    let temp = tempfile::tempdir().unwrap();
    let socket = at(temp.path(), "s");
    let served =
        Served::start(&["--tcp", "127.0.0.1:0", "--tcp", "[::1]:0,ana=inaccessible", "--unix", &socket]);
    let ports = served.tcp();
    assert_eq!(ports.len(), 2);
    let unix = format!("unix://{socket}");
    // What touches a namespace is refused through the second port, and after that through the first.
    assert!(err(&["ns", "format", "1", "--on", &ports[1]]).contains("Inaccessible"));
    assert_eq!(out(&["ns", "format", "1", "--on", &ports[0]]), "namespace 1: formatted\n");
    assert_eq!(out(&["fault", "port-ana", "0", "non-optimized", "--on", &unix]), "");
    assert_eq!(out(&["ns", "format", "1", "--on", &ports[1]]), "namespace 1: formatted\n");
    assert_eq!(out(&["fault", "clear", "--on", &unix]), "");
    assert!(err(&["ns", "format", "1", "--on", &ports[1]]).contains("Inaccessible"));
    assert!(
        err(&["fault", "port-ana", "9", "optimized", "--on", &unix])
            .contains("there is no port 9 (the drive has 1 to 3)")
    );
    assert!(err(&["fault", "clear", "--on", &ports[0]]).contains("allow_network_faults"));
    assert!(
        err(&["fault", "port-ana", "1", "fast", "--on", &unix]).contains("none of optimized, non-optimized")
    );
    // A port that is down is waited for.
    let down = out(&["fault", "port-down", "1", "--for", "300ms", "--on", &unix]);
    assert!(down.contains("port 1 takes no connections for 0.3 s: wait (--wait)"), "{down}");
    assert!(out(&["id", "--wait", "60", "--on", &ports[0]]).contains("Tranche"));
    for fault in [
        &["bit-errors", "--one-in", "1000"][..],
        &["uncorrectable", "--count", "1"],
        &["program-failure", "--nvm-set", "1", "--one-in", "100"],
        &["erase-failure", "--count", "2"],
        &["stuck-die", "0", "--nvm-set", "1"],
        &["lost-write", "--one-in", "9"],
        &["misdirected-write", "--one-in", "9"],
        &["slow", "3", "--one-in", "2"],
        &["host-disk-full", "--count", "1"],
        &["host-disk-error"],
        &["drop", "--command", "write", "--nsid", "1", "--unexecuted", "--count", "3", "--portid", "1"],
        &["delay", "5ms", "--command", "flush", "--after", "9", "--every", "100", "--portid", "1"],
        &["duplicate", "--command", "io:0x0C", "--one-in", "1000"],
        &["status", "internal-error", "--block-range", "8+4", "--cntlid", "7"],
        &["lost-interrupt", "--nsid", "9"],
        &["spurious-interrupt", "--nsid", "9"],
        &["stale-identify", "--nsid", "9"],
        &["vanish", "--for", "3s", "--nsid", "9"],
        &["late-ready", "never", "--portid", "1"],
    ] {
        assert_eq!(out(&[&["fault"], fault, &["--on", &unix]].concat()), "", "{fault:?}");
        let listed = out(&["fault", "list", "--on", &unix]);
        assert!(listed.lines().any(|line| line.trim_start().starts_with(fault[0])), "{fault:?}: {listed}");
    }
    let listed = out(&["fault", "list", "--on", &unix]);
    for line in [
        "bit-errors         NVM Set 2    one in 1000  -                 when cleared",
        "uncorrectable      NVM Set 1    always       -                 after 1 operations",
        "stuck-die          NVM Set 1    always       die 0             when cleared",
        "slow               NVM Set 2    one in 2     3 times as long   when cleared",
        "drop   write, namespace 1, port 1   always; struck 0   not executed   after 3 operations",
        "delay   flush, port 1   after 9, every 100; struck 0   5000 us   when cleared",
        "duplicate   verify   one in 1000; struck 0   -   when cleared",
        "status   I/O commands, blocks 8+4, controller 7   always; struck 0   Internal Error (SCT 0h, SC 06h)   when cleared",
        "vanish   I/O commands, namespace 9   always; struck 0   3000000 us   when cleared",
        "late-ready   fabrics-commands, port 1   always; struck 0   never   when cleared",
    ] {
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert!(listed.lines().any(|other| words(other) == words(line)), "{line}: {listed}");
    }
    out(&["fault", "clear", "--on", &unix]);
    assert_eq!(out(&["fault", "list", "--on", &unix]), "no faults are injected\n");
    for (wrong, range) in [
        (&["stuck-die", "99", "--nvm-set", "1"][..], "there is no die 99 in NVM Set 1 (it has 0 to 3)"),
        (&["stuck-die", "5"], "there is no die 5 in NVM Set 1 (it has 0 to 3)"),
        (&["lost-write", "--nvm-set", "7"], "there is no NVM Set 7 (the drive has 1 to 2)"),
        (&["slow", "1"], "'<FACTOR>': 1 is not in 2.."),
        (&["slow", "2", "--one-in", "2000000000"], "'--one-in <N>': 2000000000 is not in 1..=1000000000"),
        (&["uncorrectable", "--count", "0"], "'--count <N>': 0 is not in 1.."),
        (&["host-disk-full", "--count", "0"], "'--count <N>': 0 is not in 1.."),
        (&["port-down", "1", "--for", "0s"], "'--for <TIME>': it must be more than 0"),
        (&["drop", "--command", "wirte"], "(did you mean write?)"),
        (&["drop", "--portid", "8"], "there is no port 8 (the drive has 3)"),
        (&["delay", "0"], "it must be whole microseconds, more than 0 and less than 71 minutes"),
        (&["status", "successful-completion"], "it must be a failure"),
        (&["vanish", "--block-range", "8"], "write the first block and their number, such as 0+8"),
        (&["drop", "--command", "identify", "--block-range", "0+8"], "have no range of blocks"),
        (&["port-down", "8"], "there is no port 8 (the drive has 1 to 3)"),
    ] {
        let said = err(&[&["fault"], wrong, &["--on", &unix]].concat());
        assert!(said.contains(range), "{wrong:?}: {said}");
    }
    let bad = tranche(&["serve", "--tcp", "127.0.0.1:0,speed=9"]);
    assert!(text(&bad.stderr).contains("no setting of a port"), "{}", text(&bad.stderr));
}

/// Words that are nearly right: the message has the right one.
#[test]
fn nearly_right_words_are_told_from_right_ones() {
    for (command, near) in [
        ("fault port-ana 1 optimised", "optimized"),
        ("serve --tcp 127.0.0.1:0,anna=optimized", "ana"),
        ("serve --tcp 127.0.0.1:0,ana=inaccesible", "inaccessible"),
        ("cache mode write-back", "writeback"),
        ("cache create --mode writethru", "writethrough"),
        ("cache create --policy sqm", "smq"),
        ("cache serve --mode pass-through", "passthrough"),
        ("cache policy cleanr", "cleaner"),
        ("advise my.cnf --server mariabd", "mariadb"),
        ("advise my.cnf --server postgressql-15", "postgresql"),
    ] {
        let output = tranche(&command.split(' ').collect::<Vec<_>>());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{command}: {said}");
        assert!(said.contains(&format!("(did you mean {near}?)")), "{command}: {said}");
    }
}

#[test]
fn errors_say_what_was_asked_and_what_to_do() {
    let served = Served::start(&["--tcp", "127.0.0.1:0"]);
    let on = served.tcp().remove(0);
    assert!(err(&["ns", "delete", "99", "--on", &on]).contains("there is no namespace 99 (the drive has 1)"));
    for _ in 2..=32 {
        out(&["ns", "create", "--size", "1MiB", "--on", &on]);
    }
    let full = err(&["ns", "create", "--size", "1MiB", "--on", &on]);
    assert!(full.contains("has the 32 namespaces that it can have"), "{full}");
    let other = err(&["id", "--on", &format!("{on}?nqn=nqn.2026-11.test:another")]);
    assert!(other.contains("does not take this host") && other.contains("the subsystem NQN"), "{other}");
    assert!(err(&["id", "--nsid", "33", "--on", &on]).contains("there is no namespace 33"));
    drop(served);
    let gone = err(&["id", "--on", &on]);
    assert!(gone.contains("nothing listens there"), "{gone}");
    assert_eq!(gone.matches("os error").count(), 1, "{gone}");
    // Something else listens.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let on = format!("tcp://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        use std::io::Write;
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"SSH-2.0-OpenSSH_9.2\r\n").unwrap();
        std::thread::sleep(Duration::from_secs(1));
    });
    let other = err(&["id", "--on", &on]);
    assert!(other.contains("does not speak NVMe/TCP"), "{other}");
}

#[test]
fn a_killed_drive_leaves_an_image_that_opens_and_a_socket_that_is_replaced() {
    let temp = tempfile::tempdir().unwrap();
    let (socket, image) = (at(temp.path(), "s"), at(temp.path(), "image"));
    let on = format!("unix://{socket}");
    for round in 0..5 {
        let served = Served::start(&["--unix", &socket, "--image", &image]);
        let listed = out(&["ns", "list", "--on", &on]);
        assert_eq!(listed.lines().count(), 2 + round, "{listed}");
        out(&["ns", "create", "--nvm-set", "2", "--size", "1MiB", "--on", &on]);
        served.signal("KILL");
        assert_eq!(served.end(), None);
    }
}

/// An image that is served without its drive key, or with another one, says so, can be looked at, and loses nothing.
#[test]
fn an_encrypted_image_opens_locked_without_its_key() {
    let temp = tempfile::tempdir().unwrap();
    let (socket, image) = (at(temp.path(), "s"), at(temp.path(), "image"));
    let (right, wrong) = (at(temp.path(), "right"), at(temp.path(), "wrong"));
    for file in [&right, &wrong] {
        std::fs::write(file, out(&["key", "drive"])).unwrap();
    }
    let (on, said) = (format!("unix://{socket}"), temp.path().join("said"));
    let serve = |key: Option<&str>| {
        let mut command = Command::new(common::TRANCHE);
        command
            .args(["serve", "--unix", &socket, "--image", &image])
            .args(key.map(|key| ["--drive-key", key]).iter().flatten());
        command.env_remove("TRANCHE_DRIVE_KEY").stderr(File::create(&said).unwrap());
        Served::run(&mut command)
    };
    let stop = |served: Served| {
        served.signal("TERM");
        assert_eq!(served.end(), Some(0));
        std::fs::read_to_string(&said).unwrap()
    };
    let page = b"nobody reads this without the key".repeat(200)[..4096].to_vec();
    let connect = || {
        let identity = host::Identity::new("nqn.2026-11.test:writer".parse().unwrap());
        let transport = host::SocketTransport::new(on.parse().unwrap(), Duration::from_secs(30));
        let mut host = host::Host::connect(transport, &identity).unwrap();
        let namespace = host.namespace(1).unwrap();
        let queue = host.io_queue(8).unwrap();
        (host, namespace, queue)
    };
    let served = serve(Some(&right));
    let (host, namespace, mut queue) = connect();
    queue.write(&namespace, 7, &page, false).unwrap();
    drop((queue, host));
    assert!(
        tranche(&["ns", "create", "--zoned", "--size", "32MiB", "--attach", "--on", &on]).status.success()
    );
    assert!(!stop(served).contains("LOCKED"));
    let job = temp.path().join("read.fio");
    std::fs::write(&job, "[a]\nrw=read\nbs=4k\nsize=64k\n").unwrap();
    for (key, why) in [(None, "no drive key was given"), (Some(wrong.as_str()), "is not that of this drive")]
    {
        let served = serve(key);
        let smart = out(&["smart", "--output", "json", "--on", &on]);
        assert_eq!(serde_json::from_str::<serde_json::Value>(&smart).unwrap()["critical_warning"], 0);
        assert!(out(&["id", "--nsid", "1", "--on", &on]).contains("encrypted, and locked"));
        assert_eq!(out(&["ns", "list", "--on", &on]).lines().count(), 3);
        let (host, namespace, mut queue) = connect();
        let mut read = vec![0; 4096];
        for refused in [queue.read(&namespace, 7, &mut read), queue.write(&namespace, 7, &read, false)] {
            let refused = refused.unwrap_err().to_string();
            assert!(refused.contains("Access Denied"), "{refused}");
        }
        drop((queue, host));
        for refused in [
            err(&["ns", "format", "1", "--lba", "4096", "--on", &on]),
            err(&["ns", "delete", "1", "--force", "--on", &on]),
            err(&["ns", "create", "--nvm-set", "2", "--size", "1MiB", "--on", &on]),
            err(&["zone", "report", "--nsid", "2", "--on", &on]),
            err(&["zone", "reset", "0", "--nsid", "2", "--on", &on]),
            err(&["store", "format", "--force", "--nsid", "2", "--on", &on]),
            err(&["profile", "fit", "--file", "/dev/null", "--force", "--seconds", "1s", "--on", &on]),
        ] {
            assert!(refused.contains("LOCKED") && refused.contains("--drive-key"), "{refused}");
        }
        // It reports what it did all the same.
        let bench = tranche(&["bench", job.to_str().unwrap(), "--on", &on]);
        let said = String::from_utf8_lossy(&bench.stderr);
        assert!(!bench.status.success() && said.contains("LOCKED"), "{said}");
        let said = stop(served);
        assert!(said.contains("LOCKED") && said.contains(why), "{said}");
    }
    let served = serve(Some(&right));
    let (host, namespace, mut queue) = connect();
    let mut read = vec![0; 4096];
    queue.read(&namespace, 7, &mut read).unwrap();
    assert_eq!(read, page);
    drop((queue, host));
    assert!(!stop(served).contains("LOCKED"));
}

/// Writes through the socket, kills the drive at an arbitrary moment, opens it again, and finds every write that
/// was acknowledged; the one that was under way is there whole or not at all.
#[test]
fn kill_9_under_load_loses_nothing() {
    let temp = tempfile::tempdir().unwrap();
    let (socket, image) = (at(temp.path(), "s"), at(temp.path(), "image"));
    let addr: host::Addr = format!("unix://{socket}").parse().unwrap();
    let identity = host::Identity::new("nqn.2026-11.test:writer".parse().unwrap());
    let mut acknowledged = vec![0u64; 2000];
    let mut pending = vec![];
    let mut random = rng::Rng::new(1);
    let mut stamp = 1u64;
    for round in 0..6 {
        let mut served = Served::start(&["--unix", &socket, "--image", &image]);
        let transport = host::SocketTransport::new(addr.clone(), Duration::from_secs(30));
        let mut host = host::Host::connect(transport, &identity).unwrap();
        let namespace = host.namespace(1).unwrap();
        let mut queue = host.io_queue(8).unwrap();
        let mut page = vec![0; 4096];
        for (lba, &expected) in acknowledged.iter().enumerate() {
            queue.read(&namespace, lba as u64, &mut page).unwrap();
            let found = u64::from_le_bytes(page[..8].try_into().unwrap());
            assert!(page.chunks_exact(8).all(|c| c == &page[..8]), "round {round}: {lba} is torn");
            assert!(
                found == expected || pending.contains(&(lba, found)),
                "round {round}: {lba} has {found}, {expected} was acknowledged"
            );
        }
        // What is there now counts, acknowledged or not.
        for (lba, stamp) in pending.drain(..) {
            queue.read(&namespace, lba as u64, &mut page).unwrap();
            if u64::from_le_bytes(page[..8].try_into().unwrap()) == stamp {
                acknowledged[lba] = stamp;
            }
        }
        let killer = {
            let pid = served.child.id().to_string();
            let wait = Duration::from_millis(30 + round * 40);
            std::thread::spawn(move || {
                std::thread::sleep(wait);
                Command::new("kill").args(["-s", "KILL", &pid]).status().unwrap();
            })
        };
        loop {
            let lba = random.below(2000) as usize;
            let data = stamp.to_le_bytes().repeat(512);
            let done = if stamp.is_multiple_of(50) {
                queue.write(&namespace, lba as u64, &data, false).and_then(|()| queue.flush(1))
            } else {
                queue.write(&namespace, lba as u64, &data, stamp.is_multiple_of(7))
            };
            match done {
                Ok(()) => acknowledged[lba] = stamp,
                Err(_) => {
                    pending.push((lba, stamp));
                    break;
                }
            }
            stamp += 1;
        }
        killer.join().unwrap();
        assert_eq!(served.child.wait().unwrap().code(), None);
    }
    assert!(stamp > 100, "only {stamp} writes were made");
}

#[test]
fn profiles_are_complete() {
    let names = [
        "default",
        "bench-16g",
        "cheetah-15k7-300g",
        "cm7-r-3.84t-scaled",
        "constellation2-1t",
        "d7-p5520-1.92t-scaled",
        "micron-7450-max-800g-scaled",
        "micron-7450-pro-960g-scaled",
        "micron-9300-max-6.4t",
        "micron-9300-max-short",
        "no-capacitors",
        "pblaze5-910-3.84t",
        "pblaze5-910-lab",
        "pblaze5-910-short",
        "pe8110-960g-scaled",
        "pm9a3-960g-scaled",
        "px02sm-400g",
        "qlc-7.68t",
        "savvio-10k4-600g",
        "savvio-15k3-300g",
        "tlc-3.84t",
        "wd-960g-scaled",
        "xs1715-400g",
        "zn540-1t",
        "zn540-2t",
        "zn540-4t",
        "zn540-lab",
    ];
    let list = out(&["profile", "list"]);
    assert_eq!(list.lines().map(|l| l.split_whitespace().next().unwrap()).collect::<Vec<_>>(), names);
    for name in names {
        assert!(out(&["profile", "check", name, "--dry-run"]).starts_with(&format!("{name}: ")));
        let shown = out(&["profile", "show", name]);
        assert!(device::Config::from_toml(&shown).is_ok(), "{name}");
    }
    assert!(err(&["profile", "show", "defualt"]).contains("pblaze5-910-lab"));
}

#[test]
fn a_profile_is_held_against_its_data_sheet() {
    let check = |name: &str, output: &str| {
        Command::new(common::TRANCHE).args(["profile", "check", name, "--output", output]).output().unwrap()
    };
    let run = check("zn540-1t", "json");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let checked: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
    let sheet = &checked["data_sheet"];
    assert!(sheet["shortened_to"].is_u64(), "{sheet}");
    assert_eq!(sheet["figures"][0]["figure"], "sequential_write");
    assert_eq!(sheet["figures"][0]["unit"], "bytes_per_second");
    assert_eq!(sheet["figures"][0]["within"], true, "{sheet}");
    // Without a data sheet the drive is described, and that is said.
    assert!(out(&["profile", "check", "default"]).ends_with("nothing was measured: the TOML has no [datasheet], which says how fast the drive should be (docs/drive-toml.md)\n"));
    assert!(!out(&["profile", "check", "default", "--dry-run"]).contains("measured"));
    // A data sheet that the drive does not meet.
    let temp = tempfile::tempdir().unwrap();
    let wrong = at(temp.path(), "wrong.toml");
    let toml = out(&["profile", "show", "zn540-1t"]);
    let stated = "sequential_write = \"1230MB/s\"";
    assert!(toml.contains(stated));
    std::fs::write(&wrong, toml.replace(stated, "sequential_write = \"1500MB/s\"")).unwrap();
    let run = check(&wrong, "text");
    let (text, error) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(!run.status.success() && text.contains("off by more than 10 %"), "{text}{error}");
    assert!(error.contains("is not what its data sheet says: sequential_write is "), "{error}");
}

#[test]
fn mistakes_are_explained() {
    let temp = tempfile::tempdir().unwrap();
    let nowhere = format!("unix://{}", at(temp.path(), "nobody"));
    let nobody = err(&["ns", "list", "--on", &nowhere]);
    assert!(nobody.contains("no drive at") && nobody.contains("--on"), "{nobody}");
    assert!(err(&["ns", "list", "--on", "http://x"]).contains("unknown scheme"));
    assert!(err(&["ns", "create", "--size", "12parsecs"]).contains("not a size: write 64MiB"));
    assert!(err(&["serve", "missing.toml"]).contains("missing.toml"));
    assert!(err(&["serve", "no-such-profile"]).contains("there is no profile"));
    assert!(err(&["serve", "--drive", "qlc-7.86t"]).contains("did you mean qlc-7.68t?"));
    let bad = at(temp.path(), "bad.toml");
    std::fs::write(&bad, "[drive]\nserail = \"x\"\n").unwrap();
    let unknown = err(&["serve", &bad]);
    assert!(unknown.contains("bad.toml") && unknown.contains("serail"), "{unknown}");
    // The file, the line, the key and what is allowed, wherever a drive is read.
    std::fs::write(&bad, "[[set]]\nmedia = \"dram\"\ncapacity = \"1MiB\"\nbanks = -1\n").unwrap();
    let job = at(temp.path(), "job.fio");
    std::fs::write(&job, "[a]\nrw=read\nsize=1m\n").unwrap();
    for command in [&["serve", &bad][..], &["profile", "check", &bad], &["sim", &job, "--drive", &bad]] {
        let wrong = err(command);
        for part in ["bad.toml", "at line 4, column 9", "banks = -1", "expected a whole number from 0 to"] {
            assert!(wrong.contains(part), "{part}: {wrong}");
        }
    }
    let swept = err(&["sim", &job, "--set", "set.1.dies=four"]);
    assert!(swept.contains("set.1.dies=four") && swept.contains("expected a whole number"), "{swept}");
    let number = err(&["ns", "delete", "one"]);
    assert!(number.contains("'one' for '<NSID>': expected a whole number in 0..=4294967295"), "{number}");
    let foreign = at(temp.path(), "foreign");
    std::fs::create_dir(&foreign).unwrap();
    std::fs::write(temp.path().join("foreign/precious"), "x").unwrap();
    assert!(err(&["serve", "--image", &foreign]).contains("not a Tranche image"));
    let socket = at(temp.path(), "there/is/no/such/directory");
    assert!(err(&["serve", "--unix", &socket]).contains("cannot listen on the Unix socket"));
    assert!(err(&["serve", "--loop"]).contains("--fuse"));
    assert_eq!(tranche(&["serve", "--no-such-flag"]).status.code(), Some(2));
}

#[test]
fn who_waits_for_a_silent_pipe_ends_at_the_first_signal() {
    let temp = tempfile::tempdir().unwrap();
    let (pipe, socket) = (at(temp.path(), "pipe"), at(temp.path(), "s"));
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let serve = ["serve", "--unix", &socket];
    for args in [
        [&serve[..], &["--hosts", &pipe]].concat(),
        [&serve[..], &["--drive-key", &pipe]].concat(),
        [&serve[..], &[&pipe]].concat(),
        vec!["sim", &pipe],
        vec!["sim", "--format", "trace", &pipe],
        vec!["advise", &pipe],
        vec!["compare", &pipe, &pipe, "--", "true"],
        vec!["study", "doublewrite", "--like-live", &pipe],
        vec!["ui", "--listen", "127.0.0.1:0", "--ui-token", &pipe],
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tranche"));
        let child = command.args(&args).env("XDG_CACHE_HOME", temp.path()).spawn().unwrap();
        let served = Served { child, ready: String::new() };
        // Opens when the program has opened the other end.
        let nonblocking = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap();
        let start = Instant::now();
        let writer = loop {
            match File::options().write(true).custom_flags(nonblocking).open(&pipe) {
                Ok(writer) => break writer,
                Err(error) => assert!(start.elapsed() < Duration::from_secs(60), "{args:?}: {error}"),
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        served.signal("TERM");
        assert_ne!(served.end(), Some(0), "{args:?}");
        drop(writer);
    }
}

#[test]
fn the_program_may_have_any_name() {
    let temp = tempfile::tempdir().unwrap();
    let (renamed, layout) = (at(temp.path(), "nvme drive"), at(temp.path(), "layout.toml"));
    // By a process of its own. A file that this one has open for writing is open in what its other threads start, too, and cannot be run then.
    let copied = Command::new("cp").args([env!("CARGO_BIN_EXE_tranche"), &renamed]).status().unwrap();
    assert!(copied.success());
    std::fs::write(
        &layout,
        "drive = \"no such profile\"\n[[namespace]]\nname = \"data\"\nset = 1\nsize = \"rest\"\n",
    )
    .unwrap();
    let output = Command::new(&renamed).args(["compare", &layout, "--", "true"]).output().unwrap();
    let said = text(&output.stderr);
    assert!(
        !output.status.success() && said.contains("no such profile"),
        "it asks itself for the profile: {said}"
    );
    // So do what runs in processes of its own, and a study.
    std::fs::write(temp.path().join("small.toml"), common::SMALL_DRIVE).unwrap();
    std::fs::write(temp.path().join("job.fio"), "[a]\nrw=randwrite\nsize=1m\n").unwrap();
    let study = [&common::SMALL_STUDY[..], &["--out", "study"]].concat();
    for args in [&["sim", "job.fio", "--no-cache", "--set", "seed=1,2"][..], &study] {
        let output = Command::new(&renamed).current_dir(temp.path()).args(args).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
    }
}

#[test]
fn memory_is_ready_before_it_is_written() {
    let started =
        |prefault| Served::start(&["--tcp", "127.0.0.1:0", "--timing", "off", "--prefault", prefault]);
    let (lazy, ready) = (started("0"), started("64MiB"));
    let enough = 60 << 20;
    wait_for("memory that is written to", || ready.memory() >= lazy.memory() + enough);
    for served in [lazy, ready] {
        served.signal("TERM");
        assert_eq!(served.end(), Some(0));
    }
}

/// A full disk, or a reader that has left.
#[test]
fn the_exit_code_stays_where_errors_cannot_be_written() {
    let ends = |args: &[&str]| {
        let full = File::options().write(true).open("/dev/full").unwrap();
        Command::new(common::TRANCHE).args(args).stderr(full).status().unwrap().code()
    };
    let nowhere = ["ns", "list", "--on", "unix:///nonexistent/drive"];
    assert_eq!(ends(&nowhere), Some(3));
    assert_eq!(ends(&[&nowhere[..], &["--output", "json"]].concat()), Some(3));
    assert_eq!(ends(&["image", "check", "/nonexistent"]), Some(1));
}
