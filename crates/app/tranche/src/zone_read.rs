//! `tranche zone read`: the data of a zone.

use crate::options::Output;
use crate::print_found;
use crate::zone_target::{Of, about_zone, look, open, start};
use anyhow::{Context, Result, bail};
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;

/// Most bytes that are read at once.
const PIECE_BYTES: u64 = 1 << 20;

/// `tranche zone read`.
#[derive(Args, Debug)]
pub struct ReadOf {
    /// Number of the zone; the first is 0
    zone: u64,
    /// Write the data to this new file [default: standard output]
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Overwrite the file
    #[arg(long, requires = "file")]
    force: bool,
    /// The first logical block, counted from the zone's begin
    #[arg(long, value_name = "BLOCK", default_value_t = 0)]
    at: u64,
    /// So many logical blocks [default: up to the write pointer; of a full zone up to its capacity]
    #[arg(long, value_name = "N")]
    blocks: Option<u64>,
    #[command(flatten)]
    of: Of,
}

/// What was read to a file. Without a file there is no JSON.
#[derive(Serialize, JsonSchema)]
pub struct Read {
    /// The first block, from the zone's begin.
    #[schemars(extend("unit" = "logical blocks"))]
    at: u64,
    /// How many were read.
    #[schemars(extend("unit" = "logical blocks"))]
    blocks: u64,
    /// The same.
    #[schemars(extend("unit" = "bytes"))]
    bytes: u64,
    /// Namespace identifier.
    nsid: u32,
    /// Number of the zone.
    zone: u64,
}

/// `tranche zone read`.
pub fn read(options: &ReadOf, output: Output) -> Result<()> {
    if output == Output::Json && options.file.is_none() {
        lab_report::misuse!("--output json needs --file FILE: standard output can have the data or JSON");
    }
    let (_host, ns, mut queue) = open(&options.of)?;
    let (zone, block) = (options.zone, u64::from(ns.namespace.block_size));
    let start = start(&ns, zone)?;
    let now = look(&mut queue, &ns, start)?;
    let capacity = now.zcap.get();
    let written = now.write_pointer().map_or(capacity, |pointer| pointer.saturating_sub(start));
    let end = match options.blocks {
        Some(blocks) => options.at.saturating_add(blocks),
        None => written.max(options.at),
    };
    if end > capacity {
        bail!(
            "there is no block {} in zone {zone}, which has {capacity} logical blocks (--at, --blocks)",
            end - 1
        );
    }
    let mut out = target(options)?;
    let most = (PIECE_BYTES / block).max(1);
    let mut at = options.at;
    while at < end {
        let blocks = most.min(end - at);
        let mut data = vec![0; usize::try_from(blocks * block)?];
        let done = queue.read(&ns.namespace, start + at, &mut data);
        about_zone(&mut queue, &ns, zone, done)?;
        match out.write_all(&data) {
            // A reader that has gone away is no error.
            Err(error) if error.kind() == ErrorKind::BrokenPipe && options.file.is_none() => return Ok(()),
            result => result.context("writing the data")?,
        }
        at += blocks;
    }
    match out.flush() {
        Err(error) if error.kind() == ErrorKind::BrokenPipe && options.file.is_none() => {}
        result => result.context("writing the data")?,
    }
    let blocks = end - options.at;
    match &options.file {
        None => Ok(()),
        Some(file) => {
            let read = Read { at: options.at, blocks, bytes: blocks * block, nsid: ns.namespace.nsid, zone };
            print_found(&read, &format!("zone {zone}: {blocks} logical blocks"), file, output)
        }
    }
}

/// The file, or standard output.
fn target(options: &ReadOf) -> Result<Box<dyn Write>> {
    let Some(path) = &options.file else { return Ok(Box::new(std::io::stdout())) };
    let mut how = File::options();
    how.write(true).truncate(true);
    let opened = if options.force { how.create(true).open(path) } else { how.create_new(true).open(path) };
    Ok(Box::new(opened.with_context(|| match path.exists() {
        true if !options.force => format!("{} is there already: overwrite it with --force", path.display()),
        _ => format!("cannot write the file {}", path.display()),
    })?))
}
