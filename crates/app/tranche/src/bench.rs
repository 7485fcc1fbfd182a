//! `tranche bench`.

use crate::args::Bench;
use crate::connect::connect;
use crate::refusal::must_be_there;
use anyhow::Result;
use host::BlockFile;
use std::io::ErrorKind;
use std::path::Path;

/// Runs a fio job file.
pub fn bench(bench: &Bench) -> Result<lab_report::Findings<serde_json::Value>> {
    let name = bench.job.display().to_string();
    let text = lab_report::input::read_text(&bench.job)?;
    if let Some(path) = &bench.device {
        return on_file(bench, path, &name, &text);
    }
    let mut host = connect(&bench.target)?;
    must_be_there(&mut host, bench.nsid)?;
    let settings = lab_engines::bench::Settings { nsid: bench.nsid, poll: bench.poll };
    let outcome = lab_engines::bench::run(&name, &text, &mut host, settings, &crate::progress::control()?)?;
    // The results count even if the drive is gone meanwhile.
    if let Err(error) = host.shutdown() {
        tracing::debug!("disconnecting: {error}");
    }
    Ok(outcome)
}

/// Runs a fio job file on a regular file or a block device.
fn on_file(
    bench: &Bench,
    path: &Path,
    name: &str,
    text: &str,
) -> Result<lab_report::Findings<serde_json::Value>> {
    let file = BlockFile::open(path).map_err(|error| match error.kind() {
        ErrorKind::ResourceBusy => anyhow::anyhow!("{}: it is mounted or in use", path.display()),
        _ => anyhow::Error::new(error).context(format!("cannot open {}", path.display())),
    })?;
    if !file.is_direct() {
        tracing::warn!(
            "{}: its file system has no direct I/O, so this measures the page cache",
            path.display()
        );
    }
    lab_engines::bench::run_on_file(name, text, &file, bench.poll, &crate::progress::control()?)
}
