//! RocksDB's plug-in, built from this tree. Needs g++, RocksDB's headers and its tools.

use crate::common::store_library;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use testkit::{has_program, skipped};

/// Whether the machine has what the plug-in needs. Says so loudly where it has not.
pub fn can_build(test: &str) -> bool {
    let programs =
        ["make", "g++", "db_bench", "ldb", "sst_dump"].into_iter().find(|program| !has_program(program));
    let headers = Path::new("/usr/include/rocksdb/file_system.h").exists();
    let missing = programs.or_else(|| (!headers).then_some("librocksdb-dev"));
    if let Some(missing) = missing {
        skipped(test, &format!("needs {missing} (scripts/setup-debian.sh installs it)"));
    }
    missing.is_none()
}

/// The plug-ins and the programs of their tests, made once.
pub fn plugins() -> &'static Path {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    MADE.get_or_init(|| {
        let store = store_library();
        // Beside `deps`, where the library is.
        let out = store.parent().unwrap().parent().unwrap().join("test-plugins");
        let plugins = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../plugins");
        for (dir, goals) in [("rocksdb", ["all", "tests"].as_slice()), ("hints", &["all"])] {
            let mut make = Command::new("make");
            make.env_remove("MAKEFLAGS").args(["-j2", "-C"]).arg(plugins.join(dir)).args(goals);
            make.args([format!("STORE={}", store.display()), format!("OUT={}", out.display())]);
            let output = make.arg("CXXFLAGS=-O1").output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
        out
    })
}
