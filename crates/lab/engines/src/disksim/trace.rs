//! Measured requests: one a line, as DiskSim's validation experiments have them.

use std::path::Path;

use anyhow::{Result, bail};
use media::Nanos;
use media::disk::Op;

use lab_report::input;

/// A request that was put to a real disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Measured {
    /// What it did.
    pub op: Op,
    /// First block of 512 bytes.
    pub block: u64,
    /// Number of blocks.
    pub count: u32,
    /// From issue to completion.
    pub response: Nanos,
    /// The pause on the request's line.
    pub think: Nanos,
}

/// Bytes of the largest trace that is read: 20 million requests.
const MAX_TRACE_BYTES: u64 = 1 << 30;
/// Longest time of a line, in microseconds: an hour.
const MAX_LINE_MICROSECONDS: f64 = 3.6e9;

/// Reads a trace: lines of `R|W`, a word, first block, blocks, response time and think time in microseconds.
///
/// # Errors
/// It cannot be read, is longer than 1 GiB, or has no request. A line is something else, or names blocks that the disk (of `blocks`) does not have.
pub fn read(path: &Path, blocks: u64) -> Result<Vec<Measured>> {
    let text = String::from_utf8(input::read_bytes(path, MAX_TRACE_BYTES)?);
    let text = text.map_err(|_| anyhow::anyhow!("{} is no text: it must be UTF-8", path.display()))?;
    parse(&text, path, blocks)
}

/// Lets requests that go beyond `blocks` end with the last block, and counts them.
pub fn move_back(requests: &mut [Measured], blocks: u64) -> usize {
    let mut moved = 0;
    for request in requests {
        request.count = request.count.min(u32::try_from(blocks).unwrap_or(u32::MAX));
        let first = blocks.saturating_sub(request.count.into());
        if request.block > first {
            (request.block, moved) = (first, moved + 1);
        }
    }
    moved
}

fn parse(text: &str, path: &Path, blocks: u64) -> Result<Vec<Measured>> {
    let mut all = Vec::new();
    for (i, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let at = || format!("{}:{}", path.display(), i + 1);
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let [op, _, block, count, response, think] = fields[..] else {
            bail!(
                "{}: expected R|W Hit|Miss BLOCK BLOCKS RESPONSE THINK, found {} fields",
                at(),
                fields.len()
            );
        };
        let op = match op {
            "R" => Op::Read,
            "W" => Op::Write,
            _ => bail!("{}: '{op}' is neither R nor W", at()),
        };
        let Ok(block) = block.parse::<u64>() else { bail!("{}: '{block}' is no block", at()) };
        let Some(count) = count.parse::<u32>().ok().filter(|&c| c > 0) else {
            bail!("{}: '{count}' is no number of blocks", at())
        };
        if block.checked_add(count.into()).is_none_or(|end| end > blocks) {
            bail!("{}: {count} blocks from {block} on are not on the disk, which has {blocks}", at());
        }
        let (Some(response), Some(think)) = (time(response), time(think)) else {
            bail!("{}: '{response}' and '{think}' must be times in microseconds, of at most an hour", at());
        };
        all.push(Measured { op, block, count, response, think });
    }
    if all.is_empty() {
        bail!("{}: no request in it", path.display());
    }
    Ok(all)
}

fn time(field: &str) -> Option<Nanos> {
    let micros: f64 = field.parse().ok()?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked")]
    (0.0..=MAX_LINE_MICROSECONDS).contains(&micros).then(|| Nanos((micros * 1000.0).round() as u64))
}
