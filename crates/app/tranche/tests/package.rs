//! The Debian package, and the drive as a service.

mod common;

use common::{TRANCHE, repository};
use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Makes the package in a directory.
fn package(out: &Path) -> PathBuf {
    let script = repository().join("scripts/deb.sh");
    PathBuf::from(testkit::run(script.to_str().unwrap(), &[out.to_str().unwrap(), TRANCHE]).trim())
}

#[test]
fn the_package_has_the_program_its_manual_and_its_service() {
    let test = "the_package_has_the_program_its_manual_and_its_service";
    if Command::new("dpkg-deb").arg("--version").output().is_err() {
        return testkit::skipped(test, "needs dpkg");
    }
    let dir = tempfile::tempdir().unwrap();
    let made = package(dir.path());
    let again = package(&dir.path().join("again"));
    assert!(std::fs::read(&made).unwrap() == std::fs::read(again).unwrap(), "two packages differ");
    let tree = dir.path().join("tree");
    let [made, root] = [&made, &tree].map(|path| path.to_str().unwrap());
    testkit::run("dpkg-deb", &["-R", made, root]);
    let version = testkit::run(tree.join("usr/bin/tranche").to_str().unwrap(), &["--version"]);
    let control = std::fs::read_to_string(tree.join("DEBIAN/control")).unwrap();
    let field = |name: &str| control.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim();
    let of_program = version.split_whitespace().nth(1).unwrap();
    assert_eq!(field("Version:"), format!("{of_program}-1"));
    assert!(field("Depends:").contains("libc6 (>= ") && field("Depends:").contains("libssl3"), "{control}");
    for file in [
        "lib/systemd/system/tranche@.service",
        "usr/lib/sysusers.d/tranche.conf",
        "usr/share/man/man1/tranche.1.gz",
        "usr/share/man/man1/tranche-serve.1.gz",
        "usr/share/bash-completion/completions/tranche",
        "usr/share/zsh/vendor-completions/_tranche",
        "usr/share/fish/vendor_completions.d/tranche.fish",
        "usr/share/doc/tranche/copyright",
        "usr/share/doc/tranche/changelog.gz",
        "usr/share/doc/tranche/changelog.Debian.gz",
        "usr/share/doc/tranche/examples/drive.conf",
        "usr/share/doc/tranche/examples/credentials.conf",
    ] {
        assert!(tree.join(file).is_file(), "{file}");
    }
    let sums =
        Command::new("md5sum").args(["--quiet", "-c", "DEBIAN/md5sums"]).current_dir(&tree).output().unwrap();
    assert!(sums.status.success(), "{sums:?}");
}

/// A minimal Debian with the package and what it depends on, and nothing else.
#[test]
fn the_package_works_in_a_clean_debian_and_leaves_its_drives() {
    let test = "the_package_works_in_a_clean_debian_and_leaves_its_drives";
    if !testkit::possible(test, &["mmdebstrap", "dpkg-deb"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let package = package(dir.path());
    let output = Command::new(repository().join("scripts/clean-root.sh")).arg(&package).output().unwrap();
    let shown = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(77) {
        return testkit::skipped(test, &format!("the archive cannot be reached: {errors}"));
    }
    assert!(output.status.success(), "{}\n{shown}{errors}", output.status);
    for line in [
        "Setting up tranche ",
        "   2    2  16MiB",
        "nothing is damaged",
        "Removing tranche ",
        "the drive stays",
    ] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
}

/// A drive that does not outlive its test.
struct Served(Child);

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn packaging(name: &str) -> String {
    std::fs::read_to_string(repository().join("packaging").join(name)).unwrap()
}

/// The unit with the credentials of the example, as systemd reads it for the drive `x`.
#[test]
fn systemd_takes_the_unit_and_finds_it_closed() {
    let test = "systemd_takes_the_unit_and_finds_it_closed";
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        return testkit::skipped(test, "needs systemd-analyze");
    }
    let dir = tempfile::tempdir().unwrap();
    let unit = dir.path().join("tranche@x.service");
    let text = packaging("tranche@.service").replace("/usr/bin/tranche", TRANCHE);
    std::fs::write(&unit, text + &packaging("credentials.conf")).unwrap();
    let unit = unit.to_str().unwrap();
    let ask = |args: &[&str]| {
        let output = Command::new("systemd-analyze").args(args).arg(unit).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        // Other units of the machine may have mistakes of their own.
        assert!(!said.lines().any(|line| line.contains("tranche@") && line.contains("Unknown")), "{said}");
    };
    ask(&["verify", "--man=no", "--recursive-errors=no"]);
    ask(&["security", "--offline=true", "--no-pager", "--threshold=20"]);
}

/// The command line of the unit with the options of its example is one.
#[test]
fn the_service_starts_a_drive() {
    let (unit, example) = (packaging("tranche@.service"), packaging("drive.conf"));
    for closed in ["Group=tranche", "RuntimeDirectoryMode=0750", "LimitCORE=0", "UMask=0077"] {
        assert!(unit.lines().any(|line| line == closed), "{closed}");
    }
    let both = format!("{unit}{example}");
    assert!(!both.contains("--tcp"), "every user of the machine could administer the drive");
    let line = unit.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/bin/tranche ")).unwrap();
    let options = example.lines().find_map(|line| line.strip_prefix("OPTIONS=")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    // systemd makes the directories.
    let image = dir.path().join("image");
    let run = dir.path().join("run");
    std::fs::create_dir(&run).unwrap();
    let line = line.replace("/var/lib/tranche/%i", image.to_str().unwrap());
    let line = line.replace("/run/tranche/%i", run.to_str().unwrap()).replace("$OPTIONS", options);
    let line = line.replace("$CREDENTIALS ", "");
    assert!(!line.contains(['%', '$']), "{line}");
    let socket = dir.path().with_extension("notify");
    let manager = UnixDatagram::bind(&socket).unwrap();
    manager.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    let mut drive = Served(
        Command::new(TRANCHE)
            .args(line.split(' '))
            .env("NOTIFY_SOCKET", &socket)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap(),
    );
    let mut said = [0; 256];
    let mut told = || {
        let bytes = manager.recv(&mut said).expect("the drive tells its manager nothing");
        String::from_utf8_lossy(&said[..bytes]).trim().to_owned()
    };
    assert_eq!(told(), "READY=1");
    let mut ready = String::new();
    BufReader::new(drive.0.stdout.take().unwrap()).read_line(&mut ready).unwrap();
    assert!(!ready.contains("tcp="), "{ready}");
    let list = testkit::run(TRANCHE, &["ns", "list", "--on", &format!("unix://{}/socket", run.display())]);
    assert!(list.lines().count() > 1, "{list}");
    testkit::run("kill", &["-TERM", &drive.0.id().to_string()]);
    assert_eq!(told(), "STOPPING=1");
    assert!(drive.0.wait().unwrap().success());
    std::fs::remove_file(socket).unwrap();
}
