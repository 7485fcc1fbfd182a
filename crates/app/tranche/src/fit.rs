//! `tranche profile fit`: a profile of a device from measurements of it.

use crate::args::Fit;
use crate::connect::connect;
use crate::progress;
use crate::refusal::must_be_there;
use anyhow::{Context, Result, bail};
use host::BlockFile;
use lab_engines::fit::{Done, Fitted, How, Load, Settings};
use lab_report::Findings;
use nvme::Csi;
use nvme::identify::ascii_text;
use std::path::Path;
use std::time::Duration;

/// Runs it.
pub fn fit(options: &Fit) -> Result<Findings<Fitted>> {
    match &options.device {
        Some(path) => of_file(options, path),
        None => of_namespace(options),
    }
}

fn settings(options: &Fit, about: String, bytes: u64) -> Settings {
    let seconds = |seconds: u32| Duration::from_secs(seconds.max(1).into());
    let writes = options.overwrite_device.then(|| seconds(options.settle));
    let how = How { time: seconds(options.seconds), writes };
    Settings { about, bytes, how, file: options.file.clone(), force: options.force, seed: options.seed }
}

/// The name of what runs the loads, in messages.
const LOAD: &str = "the load";

/// What a load has done, if nothing went wrong.
fn done(findings: Findings<serde_json::Value>, load: &Load) -> Result<Done> {
    match findings.failure {
        Some(failure) => bail!(failure),
        None => Done::of_results(&findings.results, load),
    }
}

fn of_file(options: &Fit, path: &Path) -> Result<Findings<Fitted>> {
    let opened = match options.overwrite_device {
        true => BlockFile::open(path),
        false => BlockFile::open_read_only(path),
    };
    let file = opened.with_context(|| format!("cannot open {}", path.display()))?;
    if !file.is_direct() {
        bail!("{}: its file system has no direct I/O, so this would measure the page cache", path.display());
    }
    let kind = kind(path)?;
    let control = progress::control()?;
    let bytes = file.blocks() * u64::from(file.block_size());
    let settings = settings(options, format!("{kind} {}", path.display()), bytes);
    let mut run =
        |load: &Load| done(lab_engines::bench::run_on_file(LOAD, &load.job(), &file, false, &control)?, load);
    lab_engines::fit::fit(&settings, &mut run, &control)
}

fn of_namespace(options: &Fit) -> Result<Findings<Fitted>> {
    let mut host = connect(&options.target)?;
    must_be_there(&mut host, options.nsid)?;
    let namespace = lab_engines::bench::namespace(&mut host, options.nsid)?;
    let nsid = namespace.nsid;
    if host.has_zones()? && host.command_set(nsid)? == Csi::ZONED {
        bail!("namespace {nsid} is zoned: a profile is fitted to conventional namespaces");
    }
    let bytes = namespace.blocks * u64::from(namespace.block_size);
    let model = ascii_text(&host.controller().mn).trim().to_owned();
    let settings = settings(options, format!("{model}, namespace {nsid}"), bytes);
    let control = progress::control()?;
    let on = lab_engines::bench::Settings { nsid: Some(nsid), poll: false };
    let mut run =
        |load: &Load| done(lab_engines::bench::run(LOAD, &load.job(), &mut host, on, &control)?, load);
    let fitted = lab_engines::fit::fit(&settings, &mut run, &control);
    // The results count even if the drive is gone meanwhile.
    if let Err(error) = host.shutdown() {
        tracing::debug!("disconnecting: {error}");
    }
    fitted
}

/// What a device is: its model, as the kernel knows it. A hard disk has no dies to fit.
fn kind(path: &Path) -> Result<String> {
    let name = std::fs::canonicalize(path)?;
    let name = name.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let of_kernel = |what: &str| std::fs::read_to_string(format!("/sys/class/block/{name}/{what}")).ok();
    let block = of_kernel("queue/rotational").or_else(|| of_kernel("../queue/rotational"));
    // A loop device says what the file system below says.
    if block.as_deref().map(str::trim) == Some("1") && !name.starts_with("loop") {
        bail!(
            "{}: it is a hard disk, and this fits models of flash; docs/disk-sets.md says how a disk is described",
            path.display()
        );
    }
    let model = of_kernel("device/model").or_else(|| of_kernel("../device/model"));
    Ok(model.map_or_else(|| "device".to_owned(), |model| model.trim().to_owned()))
}
