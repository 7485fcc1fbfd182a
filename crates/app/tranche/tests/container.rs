//! The container image: `scripts/image.sh` with a static program, its layout, and a drive in nothing but its files.

mod common;

use common::{Served, TRANCHE, repository, text};
use serde_json::Value;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Compiles the program of these tests once more, without shared libraries. What it is made of is compiled already, and is not again: the build directory is
/// copied as links, and cargo builds there what it has built for this test. The workspace is named, as the suite names it: each crate has the same features
/// then. A wrapper of the compiler gives further options to the program alone.
fn static_program(work: &Path) -> PathBuf {
    let built = Path::new(TRANCHE).parent().unwrap();
    let directory = built.file_name().unwrap().to_str().unwrap();
    let profile = if directory == "debug" { "dev" } else { directory };
    // On the file system of the build directory, for links.
    let temporary = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let copy = temporary.path();
    std::fs::create_dir(copy.join(directory)).unwrap();
    for part in ["deps", "build", ".fingerprint"] {
        let [from, to] =
            [built.join(part), copy.join(directory).join(part)].map(|path| path.display().to_string());
        testkit::run("cp", &["-al", &from, &to]);
    }
    // Cargo must think that the program is not there.
    for entry in std::fs::read_dir(copy.join(directory).join(".fingerprint")).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name().unwrap().to_str().unwrap().starts_with("tranche-") {
            std::fs::remove_dir_all(path).unwrap();
        }
    }
    // A directory with OpenSSL's static libraries only, so that the linker takes these.
    let libraries = work.join("libraries");
    std::fs::create_dir(&libraries).unwrap();
    let from = testkit::run("pkg-config", &["--variable=libdir", "openssl"]);
    for library in ["libssl.a", "libcrypto.a"] {
        std::os::unix::fs::symlink(Path::new(from.trim()).join(library), libraries.join(library)).unwrap();
    }
    let wrapper = work.join("rustc");
    let script = format!(
        r#"#!/bin/sh
rustc=$1
shift
case " $* " in
*" --crate-name tranche "*" --crate-type bin "*) set -- "$@" -C target-feature=+crt-static -L native='{}' ;;
esac
exec "$rustc" "$@"
"#,
        libraries.display()
    );
    std::fs::write(&wrapper, script).unwrap();
    testkit::run("chmod", &["755", wrapper.to_str().unwrap()]);
    let output = Command::new(env!("CARGO"))
        .args(["test", "--no-run", "--locked", "--offline", "--workspace", "--test", "container"])
        .args(["--profile", profile])
        .current_dir(repository())
        .env("CARGO_TARGET_DIR", copy)
        .env("RUSTC_WRAPPER", &wrapper)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let program = work.join("static-tranche");
    std::fs::copy(copy.join(directory).join("tranche"), &program).unwrap();
    program
}

/// What `sha256sum` says of bytes.
fn sha256(bytes: &[u8]) -> String {
    let mut child = Command::new("sha256sum").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(bytes).unwrap();
    text(&child.wait_with_output().unwrap().stdout)[..64].to_owned()
}

/// The blob that a descriptor of an image names, held against it.
fn blob(image: &Path, descriptor: &Value) -> Vec<u8> {
    let digest = descriptor["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
    let bytes = std::fs::read(image.join("blobs/sha256").join(digest)).unwrap();
    assert_eq!(sha256(&bytes), digest);
    assert_eq!(descriptor["size"].as_u64(), Some(bytes.len() as u64));
    bytes
}

fn json(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

/// Makes the image in a directory; the layout.
fn image(program: &Path, out: &Path) -> PathBuf {
    let script = repository().join("scripts/image.sh");
    let made = testkit::run(script.to_str().unwrap(), &[out.to_str().unwrap(), program.to_str().unwrap()]);
    PathBuf::from(made.trim().strip_suffix(".tar").unwrap())
}

#[test]
fn a_program_with_shared_libraries_makes_no_image() {
    let dir = tempfile::tempdir().unwrap();
    let script = repository().join("scripts/image.sh");
    let output = Command::new(script).arg(dir.path()).arg(TRANCHE).output().unwrap();
    assert!(
        !output.status.success() && text(&output.stderr).contains("needs shared libraries"),
        "{output:?}"
    );
}

#[test]
fn a_drive_runs_in_the_image_and_nothing_else() {
    let test = "a_drive_runs_in_the_image_and_nothing_else";
    if !testkit::possible(test, &["skopeo", "chroot", "unshare"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let program = static_program(dir.path());
    let made = image(&program, &dir.path().join("first"));
    let again = image(&program, &dir.path().join("again"));
    let archive = |layout: &Path| std::fs::read(format!("{}.tar", layout.display())).unwrap();
    assert!(archive(&made) == archive(&again), "two images differ");

    // The layout, by its specification: from the index to the layer, each by its digest and size, and nothing that nobody names.
    let read = |name: &str| json(&std::fs::read(made.join(name)).unwrap());
    assert_eq!(read("oci-layout")["imageLayoutVersion"], "1.0.0");
    let index = read("index.json");
    let manifest = json(&blob(&made, &index["manifests"][0]));
    let config = json(&blob(&made, &manifest["config"]));
    let layer = blob(&made, &manifest["layers"][0]);
    assert_eq!(std::fs::read_dir(made.join("blobs/sha256")).unwrap().count(), 3);
    let packed = dir.path().join("layer.tar.gz");
    std::fs::write(&packed, &layer).unwrap();
    let unpacked = Command::new("gzip").args(["-dc", packed.to_str().unwrap()]).output().unwrap().stdout;
    assert_eq!(config["rootfs"]["diff_ids"][0], format!("sha256:{}", sha256(&unpacked)));
    let settings = &config["config"];
    assert_eq!(settings["Labels"]["org.opencontainers.image.version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(settings["Healthcheck"]["Test"], serde_json::json!(["CMD", "/usr/bin/tranche", "id"]));

    // Others read it, too: a copy has the same layer.
    let copy = dir.path().join("copy");
    let tag = env!("CARGO_PKG_VERSION");
    let source = format!("oci-archive:{}.tar:{tag}", made.display());
    testkit::run("skopeo", &["--insecure-policy", "copy", "-q", &source, &format!("dir:{}", copy.display())]);
    let copied: Value = json(&std::fs::read(copy.join("manifest.json")).unwrap());
    assert_eq!(copied["layers"][0]["digest"], manifest["layers"][0]["digest"]);

    // A file system with nothing else, not even /proc; the entry point and its arguments as process 1 of the image's user.
    let root = dir.path().join("root");
    std::fs::create_dir(&root).unwrap();
    let [layer, place] = [&packed, &root].map(|path| path.to_str().unwrap());
    testkit::run("tar", &["-xzf", layer, "-C", place]);
    let user = settings["User"].as_str().unwrap();
    assert!(!user.starts_with('0'), "the image runs as root");
    let home = std::fs::metadata(root.join("var/lib/tranche")).unwrap();
    assert_eq!(format!("{}:{}", home.uid(), home.gid()), user);
    let words = |key: &str| -> Vec<String> {
        let list = settings[key].as_array().unwrap().iter();
        list.map(|word| word.as_str().unwrap().replace("0.0.0.0:4420", "127.0.0.1:0")).collect()
    };
    // The directory is this test's user's alone.
    testkit::run("chmod", &["755", dir.path().to_str().unwrap()]);
    let chroot = |namespace: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(namespace).args(["chroot", "--userspec", user]).arg(&root).env_clear();
        command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command.envs(
            words("Env").iter().filter_map(|pair| pair.split_once('=')).filter(|(name, _)| *name != "PATH"),
        );
        command
    };
    let mut command = chroot(&["--pid", "--fork", "--kill-child"]);
    command.args(words("Entrypoint")).args(words("Cmd")).stderr(Stdio::null());
    let served = Served::run(&mut command);
    let on = served.tcp().remove(0);
    testkit::run(TRANCHE, &["id", "--on", &on]);
    let health = chroot(&[]).args(words_of(&settings["Healthcheck"]["Test"])).output().unwrap();
    assert!(health.status.success(), "{}", text(&health.stderr));
    testkit::run(TRANCHE, &["ns", "create", "--nvm-set", "2", "--size", "16MiB", "--attach", "--on", &on]);
    let cut = chroot(&[]).args(["/usr/bin/tranche", "power-cut"]).output().unwrap();
    assert!(cut.status.success(), "{}", text(&cut.stderr));
    testkit::run(TRANCHE, &["ns", "list", "--wait", "60", "--on", &on]);

    // Process 1 of the namespace gets the signal that a container is stopped with.
    let parent = served.child.id();
    let drive = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap();
    testkit::run("kill", &["-TERM", drive.trim()]);
    assert_eq!(served.end(), Some(0));
    // As the user of the image: another one does not trust the directory.
    let checked = chroot(&[]).args(["/usr/bin/tranche", "image", "check", "/var/lib/tranche/drive"]).output();
    let checked = checked.unwrap();
    assert!(checked.status.success(), "{}", text(&checked.stderr));
    let checked = text(&checked.stdout);
    assert!(checked.contains("namespace 2: ") && checked.contains("nothing is damaged"), "{checked}");
}

/// The words of a health check behind its first one, which says how it is run.
fn words_of(test: &Value) -> Vec<String> {
    test.as_array().unwrap()[1..].iter().map(|word| word.as_str().unwrap().to_owned()).collect()
}
