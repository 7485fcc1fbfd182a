//! `tranche image`: looking at an image, and saving what is left of one.

pub mod documents;

use crate::args::Image;
use crate::options::Output;
use crate::tell::tell;
use crate::{exit, print_found, print_json, print_text};
use anyhow::{Context, Result, bail};
use documents::{BlockRange, Checked, CheckedNamespace, Renewed, Saved, SavedNamespace};
use host::view::uuid;
use image::ImageError;
use image::examine::{Examination, Findings, LastShutdown, Namespace, Page, PageCondition};
use image::trust::TrustedDir;
use live::DriveKey;
use live::renew::NewNames;
use rustix::fs::OFlags;
use serde_json::to_value;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::ExitCode;

/// Bytes of a page of contents, which a checksum is that of.
const PAGE: u32 = 4096;

/// `tranche image`.
pub fn image(command: &Image, output: Output) -> Result<ExitCode> {
    match command {
        Image::Check { dir } => check(dir, output),
        Image::Salvage { dir, out, drive_key } => {
            salvage(dir, out, crate::serve::drive_key(drive_key.as_ref())?, output)
        }
        Image::Renew { dir, serial, nqn, drive_key } => {
            let names = NewNames { serial: serial.clone(), nqn: nqn.clone() };
            renew(dir, &names, crate::serve::drive_key(drive_key.as_ref())?, output)
        }
    }
}

fn renew(dir: &Path, names: &NewNames, key: Option<DriveKey>, output: Output) -> Result<ExitCode> {
    let [before, now] = live::renew::renew(dir, names, key)?;
    match output {
        Output::Json => {
            print_json(&Renewed { before: (&before).into(), now: (&now).into() })?;
        }
        Output::Text => {
            let mut text = format!("serial number {}\nNQN {}\n", now.serial, now.nqn);
            for ((nsid, from), (_, to)) in before.namespaces.iter().zip(&now.namespaces) {
                let _ = writeln!(text, "namespace {nsid}: UUID {}, before {}", uuid(to), uuid(from));
            }
            print_text(&text)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Whether an error says that the image is damaged, and not that it cannot be looked at.
fn is_damage(error: &ImageError) -> bool {
    use image::FormatError::Newer;
    match error {
        ImageError::Format { source, .. } => !matches!(source, Newer(_)),
        ImageError::Damaged { .. }
        | ImageError::DamagedJournal { .. }
        | ImageError::Gap { .. }
        | ImageError::State { .. }
        | ImageError::Unfinished { .. } => true,
        _ => false,
    }
}

fn check(dir: &Path, output: Output) -> Result<ExitCode> {
    let mut examination = match Examination::open(dir, None) {
        Err(error) if is_damage(&error) => {
            let words = error.to_string();
            match output {
                Output::Json => {
                    print_json(&Checked::Unusable { damaged: true, error: words.clone(), usable: false })?
                }
                Output::Text => tell!("tranche: {words}"),
            }
            return Ok(exit::failed_check(&words, output));
        }
        other => other?,
    };
    let mut counts = Vec::new();
    for namespace in examination.namespaces() {
        let mut count = Count::new(namespace);
        examination.pages(namespace.nsid, &mut |page| {
            count.page(page);
            Ok(())
        })?;
        counts.push(count);
    }
    let findings = examination.findings();
    let damaged = !findings.damaged.is_empty() || counts.iter().any(|count| !count.damaged.0.is_empty());
    match output {
        Output::Json => {
            let (findings, namespaces) = (findings.into(), counts.iter().map(Count::document).collect());
            // A value has its keys in order.
            print_json(&to_value(Checked::Usable { findings, damaged, namespaces, usable: true })?)?;
        }
        Output::Text => {
            let mut text = findings_text(findings);
            for count in &counts {
                count.text(&mut text);
            }
            text.push_str(verdict(findings, &counts));
            print_text(&text)?;
        }
    }
    Ok(match damaged {
        true => exit::failed_check(verdict(findings, &counts), output),
        false => ExitCode::SUCCESS,
    })
}

/// What is lost, and what is not.
fn verdict(findings: &Findings, counts: &[Count]) -> &'static str {
    let blocks = counts.iter().any(|count| !count.damaged.0.is_empty());
    match (findings.missing.is_some(), blocks, findings.damaged.is_empty()) {
        (false, false, true) => "nothing is damaged",
        (false, false, false) => {
            "no data is lost: the drive opens with its newest state, and replaces what is damaged as it goes on"
        }
        (false, true, _) => {
            "the damaged blocks are lost: reads of them fail until they are written again. All others are as they were written"
        }
        (true, false, _) => {
            "the drive does not open, and what was completed last is lost. What was before that is whole: \
             `tranche image salvage` saves it"
        }
        (true, true, _) => {
            "the drive does not open, and what was completed last is lost. Of what was before that, the damaged blocks are \
             lost as well; `tranche image salvage` saves the others"
        }
    }
}

/// Ranges of blocks: first and count.
#[derive(Default)]
struct Ranges(Vec<(u64, u64)>);

impl Ranges {
    fn add(&mut self, lba: u64, blocks: u64) {
        match self.0.last_mut() {
            Some((first, count)) if *first + *count == lba => *count += blocks,
            _ => self.0.push((lba, blocks)),
        }
    }

    fn blocks(&self) -> u64 {
        self.0.iter().map(|(_, count)| count).sum()
    }

    fn documents(&self) -> Vec<BlockRange> {
        self.0.iter().map(|&(lba, blocks)| BlockRange { blocks, lba }).collect()
    }

    fn lines(&self, what: &str, text: &mut String) {
        for (first, count) in &self.0 {
            let _ = match count {
                1 => writeln!(text, "  LBA {first}: {what}"),
                _ => writeln!(text, "  LBA {first} to {}: {what}", first + count - 1),
            };
        }
    }
}

/// What there is of a namespace.
struct Count {
    namespace: Namespace,
    /// Blocks that hold data and are whole.
    whole: u64,
    /// Of those, blocks that no checksum vouches for.
    unchecked: u64,
    damaged: Ranges,
    lost: Ranges,
    marked: Ranges,
}

impl Count {
    fn new(namespace: Namespace) -> Self {
        let (damaged, lost, marked) = <(Ranges, Ranges, Ranges)>::default();
        Count { namespace, whole: 0, unchecked: 0, damaged, lost, marked }
    }

    fn page(&mut self, page: &Page<'_>) {
        let blocks = u64::from(page.blocks);
        match page.is {
            PageCondition::Nothing => {}
            PageCondition::Damaged => self.damaged.add(page.lba, blocks),
            PageCondition::Lost => self.lost.add(page.lba, blocks),
            PageCondition::Whole | PageCondition::Unchecked => {
                self.whole += blocks;
                self.unchecked += if page.is == PageCondition::Unchecked { blocks } else { 0 };
                for block in (0..blocks).filter(|block| page.marked >> block & 1 != 0) {
                    self.marked.add(page.lba + block, 1);
                }
            }
        }
    }

    fn document(&self) -> CheckedNamespace {
        let Namespace { nsid, block_size, metadata, blocks, encrypted, locked: _ } = self.namespace;
        CheckedNamespace {
            block_size,
            blocks,
            bytes: blocks * u64::from(block_size),
            damaged: self.damaged.documents(),
            encrypted,
            lost_by_drive: self.lost.documents(),
            marked_uncorrectable: self.marked.documents(),
            metadata,
            nsid,
            page_blocks: PAGE / block_size.max(1),
            whole: self.whole,
            without_checksum: self.unchecked,
        }
    }

    fn text(&self, text: &mut String) {
        let Namespace { nsid, block_size, blocks, encrypted, .. } = self.namespace;
        let encrypted = if encrypted { ", encrypted" } else { "" };
        let _ = writeln!(
            text,
            "namespace {nsid}: {blocks} blocks of {block_size} bytes{encrypted}; {} hold data, {} are damaged",
            self.whole + self.damaged.blocks() + self.lost.blocks(),
            self.damaged.blocks(),
        );
        if self.unchecked > 0 {
            let _ = writeln!(
                text,
                "  {} blocks are from an earlier version and have no checksum",
                self.unchecked
            );
        }
        let in_page = PAGE / block_size.max(1);
        if in_page > 1 && !self.damaged.0.is_empty() {
            let _ = writeln!(
                text,
                "  a checksum is that of a page of {PAGE} bytes: where one block is damaged, all {in_page} of its page count as damaged"
            );
        }
        self.damaged.lines("damaged", text);
        self.lost.lines("lost by the drive itself, to a fault of its media", text);
        self.marked.lines("marked uncorrectable by a host", text);
    }
}

fn last_shutdown(findings: &Findings) -> &'static str {
    match findings.last_shutdown {
        LastShutdown::Clean => "the drive was stopped in order",
        LastShutdown::Killed => "the drive's process was killed: everything that was completed counts",
        LastShutdown::HostDown => "the host went down, or a sync failed: what was flushed counts",
    }
}

fn list(numbers: &[u64]) -> String {
    numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")
}

fn findings_text(findings: &Findings) -> String {
    let mut text = format!(
        "format version {}; checkpoints {}; journals {}\nstate: checkpoint {}",
        findings.version,
        list(&findings.checkpoints),
        list(&findings.journals),
        findings.checkpoint,
    );
    let _ = match findings.end {
        (_, 0) => writeln!(text, ", no journal"),
        (generation, byte) => writeln!(text, " and the journals up to byte {byte} of journal {generation}"),
    };
    let _ = writeln!(text, "left: {}", last_shutdown(findings));
    for note in &findings.notes {
        let _ = writeln!(text, "note: {note}");
    }
    for file in &findings.damaged {
        let loses = if file.loses { "" } else { " (nothing is lost by that)" };
        let _ = writeln!(text, "damaged: {}: {}{loses}", file.path.display(), file.what);
    }
    if let Some(missing) = findings.missing {
        let _ = writeln!(
            text,
            "OLD STATE: what was completed later is missing, at least {:.3} s of the drive's time; {} bytes of journals are left out",
            documents::seconds(missing.time.0),
            missing.journal_bytes
        );
    }
    text
}

/// Makes the directory, or takes an empty one; none within the image.
fn make(out: &Path, image: &Path) -> Result<TrustedDir> {
    let place = out.display();
    let above = match out.parent() {
        Some(above) if !above.as_os_str().is_empty() => above,
        _ => Path::new("."),
    };
    let real = |path: &Path| path.canonicalize().with_context(|| format!("cannot find {}", path.display()));
    if real(above)?.starts_with(real(image)?) {
        bail!("{place} is in the image, which is not to be changed: name another directory");
    }
    let dir = TrustedDir::make(out)?;
    match dir.names().with_context(|| format!("cannot list {place}"))?.is_empty() {
        true => Ok(dir),
        false => bail!("{place} is not empty: name an empty or a new directory"),
    }
}

/// A new file of this length, all of it a hole.
fn sparse(dir: &TrustedDir, name: &str, bytes: u64) -> Result<File> {
    let create = || {
        let file = dir.open_file(name, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL)?;
        file.set_len(bytes)?;
        io::Result::Ok(file)
    };
    create().with_context(|| format!("cannot create {}", dir.path().join(name).display()))
}

/// Writes what is not zeros.
fn put(file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
    if bytes.iter().all(|&byte| byte == 0) { Ok(()) } else { file.write_all_at(bytes, at) }
}

/// Saves one namespace; the name of its file, and of that of its metadata.
fn save(
    examination: &mut Examination,
    count: &mut Count,
    out: &TrustedDir,
) -> Result<(String, Option<String>)> {
    let Namespace { nsid, block_size, metadata, blocks, .. } = count.namespace;
    let (name, beside) = (format!("namespace-{nsid}.img"), format!("namespace-{nsid}.meta"));
    let data = sparse(out, &name, blocks * u64::from(block_size))?;
    let meta = match metadata {
        0 => None,
        _ => Some(sparse(out, &beside, blocks * u64::from(metadata))?),
    };
    let saved = examination.pages(nsid, &mut |page| {
        count.page(page);
        put(&data, page.data, page.lba * u64::from(block_size))?;
        match &meta {
            Some(meta) => put(meta, page.metadata, page.lba * u64::from(metadata)),
            None => Ok(()),
        }
    });
    let synced = saved.and_then(|()| data.sync_all()).and_then(|()| meta.iter().try_for_each(File::sync_all));
    synced.with_context(|| format!("cannot write {}", out.path().join(&name).display()))?;
    Ok((name, meta.map(|_| beside)))
}

fn salvage(dir: &Path, out: &Path, key: Option<DriveKey>, output: Output) -> Result<ExitCode> {
    let mut examination = Examination::open(dir, key)?;
    let saved = make(out, dir)?;
    let mut text = findings_text(examination.findings());
    let mut namespaces = Vec::new();
    let mut whole = examination.findings().missing.is_none();
    for namespace in examination.namespaces() {
        let mut count = Count::new(namespace);
        let mut files = None;
        match namespace.locked {
            true => examination.pages(namespace.nsid, &mut |page| {
                count.page(page);
                Ok(())
            })?,
            false => files = Some(save(&mut examination, &mut count, &saved)?),
        }
        whole &= files.is_some() && count.damaged.0.is_empty() && count.lost.0.is_empty();
        count.text(&mut text);
        let mut document = SavedNamespace::new(count.document(), files.is_some());
        match files {
            Some((data, metadata)) => {
                let beside =
                    metadata.as_ref().map_or_else(String::new, |name| format!(", its metadata as {name}"));
                let _ = writeln!(text, "  saved as {data}{beside}");
                document.file = Some(data);
                document.metadata_file = Some(metadata);
            }
            None => {
                let why = "NOT SAVED: it is encrypted, and its drive key was not given (--drive-key), or another one";
                let _ = writeln!(text, "  {why}");
                document.why_not = Some(why);
            }
        }
        namespaces.push(document);
    }
    let findings = examination.findings().into();
    // A value has its keys in order.
    let document = to_value(Saved { findings, complete: whole, namespaces })?;
    text.push_str(match whole {
        true => "everything is saved",
        false => "not everything is saved: see above",
    });
    // It comes last: without it the files are not complete.
    let report = sparse(&saved, "report.json", 0)?;
    let bytes = serde_json::to_vec_pretty(&document)?;
    (&report)
        .write_all(&bytes)
        .and_then(|()| report.sync_all())
        .and_then(|()| saved.sync())
        .with_context(|| format!("cannot write {}", out.join("report.json").display()))?;
    print_found(&document, &text, out, output)?;
    Ok(match whole {
        true => ExitCode::SUCCESS,
        false => exit::failed_check("not everything is saved", output),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_side_by_side_are_one_range() {
        let mut ranges = Ranges::default();
        for (lba, blocks) in [(0, 8), (8, 8), (24, 8), (32, 1), (40, 1)] {
            ranges.add(lba, blocks);
        }
        assert_eq!((&ranges.0[..], ranges.blocks()), (&[(0, 16), (24, 9), (40, 1)][..], 26));
        let mut text = String::new();
        ranges.lines("damaged", &mut text);
        assert_eq!(text, "  LBA 0 to 15: damaged\n  LBA 24 to 32: damaged\n  LBA 40: damaged\n");
    }
}
