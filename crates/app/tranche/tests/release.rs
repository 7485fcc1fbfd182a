//! What a release has: the crates, the Nix flake, the files of `scripts/release.sh`.

mod common;

use common::repository;
use std::collections::BTreeSet;
use std::process::Command;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The script checks each package, and fails on what cargo warns of.
#[test]
fn all_crates_are_packed_without_a_warning() {
    let dir = tempfile::tempdir().unwrap();
    let script = repository().join("scripts/crates.sh");
    testkit::run(script.to_str().unwrap(), &[dir.path().to_str().unwrap()]);
    let name = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
    let packed: BTreeSet<String> = std::fs::read_dir(dir.path()).unwrap().map(name).collect();
    let within =
        |folder: std::path::PathBuf| std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let folders = within(repository().join("crates")).filter(|floor| floor.is_dir()).flat_map(within);
    let manifests = folders.filter_map(|folder| std::fs::read_to_string(folder.join("Cargo.toml")).ok());
    let expected: BTreeSet<String> = manifests
        .map(|manifest| {
            manifest.parse::<toml::Table>().unwrap()["package"]["name"].as_str().unwrap().to_owned()
        })
        // Published as a wheel, or not at all.
        .filter(|name| !["py", "testkit", "lab-fidelity"].contains(&&**name))
        .map(|name| if name == "tranche" { "ssd".to_owned() } else { name })
        .map(|name| format!("tranche-{name}-{VERSION}.crate"))
        .collect();
    assert_eq!(packed, expected);

    // The program's package: it depends on the others under their published names, in exactly this version, and is still `tranche`.
    let archive = dir.path().join(format!("tranche-ssd-{VERSION}.crate"));
    let manifest = format!("tranche-ssd-{VERSION}/Cargo.toml");
    let manifest = testkit::run("tar", &["-xzOf", archive.to_str().unwrap(), &manifest]);
    let manifest: toml::Table = manifest.parse().unwrap();
    let nvme = &manifest["dependencies"]["nvme"];
    assert_eq!(nvme["package"].as_str(), Some("tranche-nvme"), "{nvme}");
    assert_eq!(nvme["version"].as_str(), Some(format!("={VERSION}").as_str()), "{nvme}");
    assert!(nvme.get("path").is_none(), "{nvme}");
    assert_eq!(manifest["bin"][0]["name"].as_str(), Some("tranche"));
    for field in ["description", "license", "readme", "keywords", "categories"] {
        assert!(manifest["package"].get(field).is_some(), "{field}");
    }
    // What the crate includes from elsewhere in the tree is in its package.
    let report = dir.path().join(format!("tranche-lab-report-{VERSION}.crate"));
    let files = testkit::run("tar", &["-tzf", report.to_str().unwrap()]);
    for profile in std::fs::read_dir(repository().join("profiles")).unwrap().map(name) {
        assert!(files.contains(&format!("/profiles/{profile}\n")), "{profile}");
    }
    let ui = dir.path().join(format!("tranche-ui-{VERSION}.crate"));
    let files = testkit::run("tar", &["-tzf", ui.to_str().unwrap()]);
    assert!(files.contains("/page/dist/index.html\n"), "{files}");
}

/// nixpkgs is not here: a stand-in shows that the flake evaluates, and what it asks nixpkgs to build.
#[test]
fn the_flake_evaluates_to_the_package() {
    let test = "the_flake_evaluates_to_the_package";
    if Command::new("nix-instantiate").arg("--version").output().is_err() {
        return testkit::skipped(test, "needs nix-instantiate (scripts/setup-debian.sh installs it)");
    }
    let store = tempfile::tempdir().unwrap();
    let expression = format!(
        r#"
        let
          genAttrs = names: make: builtins.listToAttrs (map (name: {{ inherit name; value = make name; }}) names);
          lib = {{ inherit genAttrs; licenses.asl20 = "Apache-2.0"; }};
          pkgs = {{
            callPackage = make: _: make {{
              inherit lib;
              rustPlatform.buildRustPackage = build: build;
              installShellFiles = "installShellFiles"; pkg-config = "pkg-config"; openssl = "openssl";
            }};
          }};
          root = {root};
          flake = import (root + "/flake.nix");
          outputs = flake.outputs {{
            self = outputs;
            nixpkgs = {{ inherit lib; legacyPackages = {{ x86_64-linux = pkgs; aarch64-linux = pkgs; }}; }};
          }};
          package = outputs.packages.x86_64-linux.default;
        in
          package.pname + " " + package.version + " " + package.meta.mainProgram + " "
          + builtins.concatStringsSep " " (builtins.attrNames outputs.packages ++ builtins.attrNames outputs.devShells)
        "#,
        root = repository().display()
    );
    let output = Command::new("nix-instantiate")
        .args(["--eval", "--strict", "--store", store.path().to_str().unwrap(), "-E", &expression])
        .env("HOME", store.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let systems = "aarch64-linux x86_64-linux";
    assert_eq!(
        said.trim(),
        format!("\"tranche {VERSION} tranche {systems} {systems}\""),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// A clone with a change is no release, and the wrong version is none.
#[test]
fn a_release_is_refused_where_the_tree_is_not_one() {
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().join("tree");
    std::fs::create_dir_all(tree.join("scripts")).unwrap();
    std::fs::copy(repository().join("scripts/release.sh"), tree.join("scripts/release.sh")).unwrap();
    let write = |name: &str, text: &str| std::fs::write(tree.join(name), text).unwrap();
    write("Cargo.toml", "[workspace.package]\nversion = \"1.2.0\"\n");
    write("CHANGELOG.md", "# Changelog\n\n## Unreleased\n\n- x\n");
    let git = |arguments: &[&str]| {
        let done = Command::new("git")
            .args(["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"])
            .args(arguments)
            .current_dir(&tree)
            .output()
            .unwrap();
        assert!(done.status.success(), "{done:?}");
    };
    let dry_run = |version: &str| {
        let script = tree.join("scripts/release.sh");
        let output = Command::new(script).args(["--dry-run", version]).output().unwrap();
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    };
    git(&["init", "-q"]);
    git(&["add", "."]);
    git(&["commit", "-q", "-m", "x"]);

    let (ready, said) = dry_run("1.2.0");
    assert!(!ready && said.contains("the first heading of CHANGELOG.md is \"Unreleased\""), "{said}");
    assert!(!said.contains("not committed") && !said.contains("has version"), "{said}");

    write("CHANGELOG.md", "# Changelog\n\n## 1.2.0 (2026-01-31)\n\n- x\n");
    let (ready, said) = dry_run("1.2.0");
    assert!(!ready && said.contains("not committed") && !said.contains("heading"), "{said}");

    git(&["commit", "-q", "-a", "-m", "release"]);
    let (ready, said) = dry_run("1.2.0");
    assert!(ready && said.contains("would make in out/release"), "{said}");
    assert!(!tree.join("out").exists(), "a dry run makes nothing");
    let (ready, said) = dry_run("1.3.0");
    assert!(!ready && said.contains("Cargo.toml has version 1.2.0, not 1.3.0"), "{said}");

    git(&["tag", "v1.2.0"]);
    assert!(dry_run("1.2.0").0, "the tag may be on this commit");
    write("more", "x");
    git(&["add", "."]);
    git(&["commit", "-q", "-m", "more"]);
    let (ready, said) = dry_run("1.2.0");
    assert!(!ready && said.contains("the tag v1.2.0 is another commit"), "{said}");
}
