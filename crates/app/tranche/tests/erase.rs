//! Erasing for good from the command line: `tranche ns format --ses` and `tranche sanitize`.

mod common;

use common::{Served, TRANCHE};
use host::{Host, Identity, SocketTransport};
use nvme::Nqn;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

const SECRET: &[u8] = b"what nobody is to find afterwards";

fn on(served: &Served, args: &[&str]) -> Output {
    let place = served.tcp().remove(0);
    Command::new(TRANCHE).args(args).args(["--on", &place]).output().unwrap()
}

fn words(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

fn host(served: &Served) -> Host<SocketTransport> {
    let transport = SocketTransport::new(served.tcp()[0].parse().unwrap(), Duration::from_secs(60));
    Host::connect(transport, &Identity::new(Nqn::new("nqn.2026-11.test:host").unwrap())).unwrap()
}

fn block() -> Vec<u8> {
    SECRET.iter().copied().cycle().take(4096).collect()
}

fn write(served: &Served) {
    let mut host = host(served);
    let namespace = host.namespace(1).unwrap();
    let mut queue = host.io_queue(4).unwrap();
    queue.write(&namespace, 0, &block(), true).unwrap();
}

fn read(served: &Served) -> Vec<u8> {
    let mut host = host(served);
    let namespace = host.namespace(1).unwrap();
    let mut data = vec![0xEE; 4096];
    host.io_queue(4).unwrap().read(&namespace, 0, &mut data).unwrap();
    data
}

/// Whether a file of an image has the secret in it.
fn is_found(image: &Path) -> bool {
    std::fs::read_dir(image).unwrap().any(|entry| {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        bytes.windows(SECRET.len()).any(|window| window == SECRET)
    })
}

fn serve(image: &Path, key: Option<&Path>) -> Served {
    let mut command = Command::new(TRANCHE);
    command.args(["serve", "--tcp", "127.0.0.1:0", "--timing", "off", "--image"]).arg(image);
    if let Some(key) = key {
        command.arg("--drive-key").arg(key);
    }
    Served::run(&mut command)
}

#[test]
fn what_is_erased_is_not_in_the_image_any_more() {
    let erasures: [&[&str]; 4] = [
        &["ns", "format", "1", "--ses", "user-data"],
        &["ns", "format", "1", "--ses", "1"],
        &["sanitize", "block", "--force"],
        &["sanitize", "overwrite", "--passes", "2", "--pattern", "DEADBEEF", "--invert", "--force"],
    ];
    for erasure in erasures {
        let temp = tempfile::tempdir().unwrap();
        let image = temp.path().join("image");
        let served = serve(&image, None);
        write(&served);
        assert!(read(&served) == block() && is_found(&image), "{erasure:?}");
        let done = on(&served, erasure);
        assert!(done.status.success(), "{erasure:?}: {}", words(&done));
        assert!(!is_found(&image), "{erasure:?}");
        assert_eq!(read(&served), [0; 4096], "{erasure:?}");
    }
}

#[test]
fn a_plain_format_is_for_the_host_only_and_crypto_needs_a_key() {
    let temp = tempfile::tempdir().unwrap();
    let served = serve(&temp.path().join("image"), None);
    write(&served);
    let plain = on(&served, &["ns", "format", "1"]);
    assert!(plain.status.success() && read(&served) == [0; 4096], "{}", words(&plain));
    for refused in [&["ns", "format", "1", "--ses", "crypto"][..], &["sanitize", "crypto", "--force"]] {
        let refused = on(&served, refused);
        assert!(!refused.status.success() && words(&refused).contains("--drive-key"), "{}", words(&refused));
    }
    let key = temp.path().join("key");
    let made = Command::new(TRANCHE).args(["key", "drive"]).output().unwrap();
    std::fs::write(&key, made.stdout).unwrap();
    let served = serve(&temp.path().join("keyed"), Some(&key));
    for erasure in [&["ns", "format", "1", "--ses", "crypto"][..], &["sanitize", "crypto", "--force"]] {
        write(&served);
        let done = on(&served, erasure);
        assert!(done.status.success() && read(&served) == [0; 4096], "{}", words(&done));
    }
}

#[test]
fn a_sanitize_operation_is_meant_told_and_counted() {
    let temp = tempfile::tempdir().unwrap();
    let served = serve(&temp.path().join("image"), None);
    assert!(words(&on(&served, &["sanitize", "status"])).contains("never sanitized"));
    write(&served);
    let refused = on(&served, &["sanitize", "block"]);
    assert!(!refused.status.success() && words(&refused).contains("--force"), "{}", words(&refused));
    assert_eq!(read(&served), block());
    let done = on(&served, &["sanitize", "overwrite", "--passes", "3", "--force", "--output", "json"]);
    let status: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(status["sprog"], 65_535);
    assert_eq!(status["sstat"]["global_erased"], 1);
    assert_eq!(status["sstat"]["no_cmplted_passes"], 3);
    assert_eq!(status["sstat"]["status"], "(1) completed");
    let told = words(&on(&served, &["sanitize", "status"]));
    assert!(told.contains("Overwrite has completed 3 passes; nothing was written since"), "{told}");
    write(&served);
    let told = words(&on(&served, &["sanitize", "status"]));
    assert!(told.contains("data was written since"), "{told}");
    for (wrong, problem) in [(["--passes", "17"], "1..=16"), (["--pattern", "xyz"], "hexadecimal")] {
        let wrong = on(&served, &[&["sanitize", "overwrite", "--force"], &wrong[..]].concat());
        assert!(wrong.status.code() == Some(2) && words(&wrong).contains(problem), "{}", words(&wrong));
    }
}
