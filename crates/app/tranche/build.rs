//! Puts the commit that the program is built from into its version.

use std::path::Path;
use std::process::Command;

/// What git says, if this is a clone and git is there.
fn git(arguments: &[&str]) -> Option<String> {
    let output =
        Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().to_owned())
}

fn main() {
    let version = std::env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let commit = git(&["rev-parse", "--short=10", "HEAD"]);
    let version = commit.map_or(version.clone(), |commit| format!("{version} ({commit})"));
    println!("cargo::rustc-env=TRANCHE_VERSION={version}");
    println!("cargo::rerun-if-changed=build.rs");
    // The log of HEAD grows with each commit and checkout.
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"]).filter(|path| Path::new(path).exists());
    if let Some(log) = log {
        println!("cargo::rerun-if-changed={log}");
    }
}
