//! What a configuration means for PostgreSQL, and so for the drive.

use anyhow::Result;
use database_models::postgresql::PAGE;

use super::{
    file::Files,
    names::unknown,
    values::{self, Unit},
};
use crate::{
    database_model::Row,
    server::Server,
    settings::{Setting, Settings},
};
use lab_report::figure::{show, show_size};

/// How a server uses its drive.
#[derive(Clone, PartialEq, Debug)]
pub struct Database {
    /// The data directory.
    pub data: String,
    /// Whether the log has pages whole.
    pub full_page_writes: bool,
    /// Whether anything is synced.
    pub fsync: bool,
    /// Bytes of the buffer pool.
    pub shared_buffers: u64,
    /// Nanoseconds between checkpoints at most.
    pub checkpoint_timeout: u64,
    /// Bytes of log that may be there, about.
    pub max_wal_size: u64,
    /// `checkpoint_completion_target`, per mille.
    pub completion_target: u32,
    /// `checkpoint_flush_after`, in pages.
    pub flush_after: u32,
    /// Bytes of log that wait in memory at most.
    pub wal_buffers: u64,
    /// Whether a commit waits for the log.
    pub flush_at_commit: bool,
    /// Nanoseconds that a commit waits for others.
    pub commit_delay: u64,
    /// `commit_siblings`.
    pub commit_siblings: u32,
    /// Whether whole pages in the log are compressed.
    pub compressed: bool,
    /// Bytes of each new segment that are filled with zeroes; 0: segments are used again.
    pub new_segment: u64,
    /// Nanoseconds between flushes of the log for nobody.
    pub wal_writer_delay: u64,
    /// Nanoseconds between rounds of the background writer.
    pub bgwriter_delay: u64,
    /// `bgwriter_lru_maxpages`.
    pub bgwriter_pages: u32,
    /// `bgwriter_lru_multiplier`, per mille.
    pub bgwriter_multiplier: u32,
    /// What was read.
    pub rows: Vec<Row>,
    /// What the model leaves out of it.
    pub left_out: Vec<String>,
}

/// Bytes of a segment of the log; `initdb` may have made others.
pub const SEGMENT: u64 = 16 << 20;

/// The largest `max_wal_size` that is simulated, in MiB.
const MOST_WAL_MEGABYTES: i64 = 256 << 10;

struct Reader<'a> {
    settings: &'a Settings,
    server: Server,
    rows: Vec<Row>,
    left_out: Vec<String>,
}

impl<'a> Reader<'a> {
    fn row(&mut self, name: &str, value: String, from: Option<&Setting>, meaning: impl Into<String>) {
        self.rows.push(Row::new(self.server, name, value, from, meaning));
    }

    fn text(&self, name: &str) -> Option<(&'a str, &'a Setting)> {
        self.settings.get(name).map(|setting| (setting.value.as_deref().unwrap_or(""), setting))
    }

    /// A whole number in what it counts without a unit, from `least` to `most`.
    fn whole(
        &self,
        name: &str,
        unit: Unit,
        usual: i64,
        (least, most): (i64, i64),
    ) -> Result<(i64, Option<&'a Setting>)> {
        let Some((text, setting)) = self.text(name) else { return Ok((usual, None)) };
        let value =
            values::whole(text, unit).ok_or_else(|| setting.wrong(&format!("it is {}", unit.names())))?;
        if !(least..=most).contains(&value) {
            let of = |value: i64| shown(value, unit);
            return Err(setting.wrong(&format!("{} to {} are possible", of(least), of(most))));
        }
        Ok((value, Some(setting)))
    }

    /// A number between two, in thousandths.
    fn thousandths(&self, name: &str, usual: u32, most: u32) -> Result<(u32, Option<&'a Setting>)> {
        let Some((text, setting)) = self.text(name) else { return Ok((usual, None)) };
        let value = values::real(text, Unit::None)
            .filter(|value| (0.0..=f64::from(most)).contains(value))
            .ok_or_else(|| setting.wrong(&format!("it is a number from 0 to {most}")))?;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is 0 to 10")]
        Ok(((value * 1000.0).round() as u32, Some(setting)))
    }

    fn switch(&self, name: &str, usual: bool) -> Result<(bool, Option<&'a Setting>)> {
        let Some((text, setting)) = self.text(name) else { return Ok((usual, None)) };
        let on = values::switch(text).ok_or_else(|| setting.wrong("it is on or off"))?;
        Ok((on, Some(setting)))
    }

    /// A word that some words mean on, and others off.
    fn word(
        &self,
        name: &str,
        (on, off): (&[&str], &[&str]),
        usual: (&'a str, bool),
    ) -> Result<(&'a str, bool, Option<&'a Setting>)> {
        let Some((text, setting)) = self.text(name) else { return Ok((usual.0, usual.1, None)) };
        let is = |words: &[&str], plain: &[&str]| {
            words.iter().chain(plain).any(|word| text.eq_ignore_ascii_case(word))
        };
        match (is(on, &["on", "true", "yes", "1"]), is(off, &["off", "false", "no", "0"])) {
            (true, _) => Ok((text, true, Some(setting))),
            (_, true) => Ok((text, false, Some(setting))),
            _ => Err(setting.wrong(&format!("it is on, off, {}", on.join(", ")))),
        }
    }
}

/// A number as people read it.
fn shown(value: i64, unit: Unit) -> String {
    let size = |base: u64| value.unsigned_abs().saturating_mul(base);
    match unit {
        _ if value < 0 => value.to_string(),
        Unit::None => value.to_string(),
        Unit::Bytes(base) => show_size(size(base)),
        Unit::Micros(base) => match size(base) {
            time if time >= 60_000_000 && time.is_multiple_of(60_000_000) => {
                format!("{} min", time / 60_000_000)
            }
            time if time >= 1_000_000 && time.is_multiple_of(1_000_000) => format!("{} s", time / 1_000_000),
            time if time >= 1000 && time.is_multiple_of(1000) => format!("{} ms", time / 1000),
            time => format!("{time} us"),
        },
    }
}

fn on_off(on: bool) -> String {
    if on { "on" } else { "off" }.to_owned()
}

fn narrow(value: i64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

const BLOCKS: Unit = Unit::Bytes(PAGE);
const MEGABYTES: Unit = Unit::Bytes(1 << 20);
const SECONDS: Unit = Unit::Micros(1_000_000);
const MILLISECONDS: Unit = Unit::Micros(1000);

impl Database {
    /// # Errors
    /// A value that matters cannot be read, with its place; pages that the model does not know.
    pub fn read(files: &Files, server: Server) -> Result<Self> {
        let mut reader = Reader {
            settings: &files.settings,
            server,
            rows: Vec::new(),
            left_out: files.unread.iter().cloned().collect(),
        };
        let r = &mut reader;
        for (setting, said) in r.settings.misspelt(unknown) {
            r.row(&setting.name, setting.value.clone().unwrap_or_default(), Some(setting), said);
        }
        fixed(r)?;
        data_directory(r, files);
        let (full_page_writes, of) = r.switch("full_page_writes", true)?;
        let meaning = match full_page_writes {
            true => {
                "the log has each page whole that changes for the first time after the begin of a checkpoint"
            }
            false => "the log has changes only; a power cut may tear pages",
        };
        r.row("full_page_writes", on_off(full_page_writes), of, meaning);
        let fsync = fsync(r)?;
        let shared_buffers = shared_buffers(r)?;
        let (checkpoint_timeout, max_wal_size) = between_checkpoints(r)?;
        let (completion_target, flush_after) = checkpoint(r)?;
        let wal_buffers = wal_buffers(r, shared_buffers)?;
        let flush_at_commit = synchronous_commit(r)?;
        let (commit_delay, commit_siblings) = commit_delay(r)?;
        let compressed = wal_compression(r)?;
        let new_segment = new_segment(r)?;
        let (delay, of) = r.whole("wal_writer_delay", MILLISECONDS, 200, (1, 10_000))?;
        r.row(
            "wal_writer_delay",
            shown(delay, MILLISECONDS),
            of,
            "the log is flushed as often even if no commit waits",
        );
        let (bgwriter_delay, bgwriter_pages, bgwriter_multiplier) = bgwriter(r)?;
        reading_ahead(r)?;
        let is_told = |name: &str| r.rows.iter().any(|row| row.name == name);
        let others = r.settings.names(|name| !is_told(name));
        r.left_out.extend(others.map(|names| format!("settings that the model does not have ({names})")));
        Ok(Self {
            data: files.data.display().to_string(),
            full_page_writes,
            fsync,
            shared_buffers,
            checkpoint_timeout,
            max_wal_size,
            completion_target,
            flush_after,
            wal_buffers,
            flush_at_commit,
            commit_delay,
            commit_siblings,
            compressed,
            new_segment,
            wal_writer_delay: millis(delay),
            bgwriter_delay,
            bgwriter_pages,
            bgwriter_multiplier,
            rows: reader.rows,
            left_out: reader.left_out,
        })
    }
}

fn millis(value: i64) -> u64 {
    value.unsigned_abs() * 1_000_000
}

/// What no file can set.
fn fixed(r: &mut Reader<'_>) -> Result<()> {
    for name in ["block_size", "wal_block_size", "wal_segment_size"] {
        if let Some((_, setting)) = r.text(name) {
            return Err(
                setting.wrong("the server refuses it: it is chosen when the server or the cluster is made")
            );
        }
    }
    let meaning = "each page is a write of 8 KiB, which a drive may tear unless it writes 8 KiB atomically";
    r.row("block_size", show_size(PAGE), None, meaning);
    Ok(())
}

fn data_directory(r: &mut Reader<'_>, files: &Files) {
    let of = r.text("data_directory").map(|(_, setting)| setting);
    let meaning = "place of the data and, in pg_wal, of the log";
    r.row("data_directory", files.data.display().to_string(), of, meaning);
}

fn fsync(r: &mut Reader<'_>) -> Result<bool> {
    let (fsync, of) = r.switch("fsync", true)?;
    let meaning = match fsync {
        true => "what must be durable is flushed on the drive",
        false => "nothing is flushed: a power cut may destroy the database",
    };
    r.row("fsync", on_off(fsync), of, meaning);
    if !fsync {
        r.left_out.push(
            "fsync=off: the model flushes the drive in all layouts, because without that none is safe".into(),
        );
    }
    Ok(fsync)
}

fn shared_buffers(r: &mut Reader<'_>) -> Result<u64> {
    let (blocks, of) = r.whole("shared_buffers", BLOCKS, 16 << 10, (16, 1 << 30))?;
    let meaning = "what fits is read once, and pages that leave it dirty are written";
    r.row("shared_buffers", shown(blocks, BLOCKS), of, meaning);
    Ok(blocks.unsigned_abs() * PAGE)
}

/// The longest time between checkpoints, and the log by which one comes earlier.
fn between_checkpoints(r: &mut Reader<'_>) -> Result<(u64, u64)> {
    let (time, of) = r.whole("checkpoint_timeout", SECONDS, 300, (30, 86_400))?;
    let meaning =
        "a checkpoint writes all dirty pages as often; then each page is whole in the log once more";
    r.row("checkpoint_timeout", shown(time, SECONDS), of, meaning);
    let (size, of) = r.whole("max_wal_size", MEGABYTES, 1024, (2, i64::from(i32::MAX)))?;
    if let Some(setting) = of.filter(|_| size > MOST_WAL_MEGABYTES) {
        let most = shown(MOST_WAL_MEGABYTES, MEGABYTES);
        return Err(
            setting.wrong(&format!("the model takes {most} at most: it simulates the log from end to end"))
        );
    }
    if let Some(setting) = of.filter(|_| size < 32) {
        return Err(setting.wrong("it is two segments at least, 32 MB"));
    }
    let meaning = "a checkpoint begins earlier when there is so much log, about: pg_wal has that size";
    r.row("max_wal_size", shown(size, MEGABYTES), of, meaning);
    Ok((time.unsigned_abs() * 1_000_000_000, size.unsigned_abs() << 20))
}

fn checkpoint(r: &mut Reader<'_>) -> Result<(u32, u32)> {
    let usual = if r.server.version < (14, 0) { 500 } else { 900 };
    let (target, of) = r.thousandths("checkpoint_completion_target", usual, 1)?;
    let value = show(f64::from(target) / 1000.0);
    r.row(
        "checkpoint_completion_target",
        value,
        of,
        "share of the time between checkpoints over which one spreads its writes",
    );
    let (pages, of) = r.whole("checkpoint_flush_after", BLOCKS, 32, (0, 256))?;
    r.row(
        "checkpoint_flush_after",
        shown(pages, BLOCKS),
        of,
        "pages of a checkpoint that are on their way to the drive at the same time",
    );
    if pages == 0 {
        r.left_out.push("checkpoint_flush_after=0: the system writes pages when it likes; the model has 256 KiB of them on their way".into());
    }
    Ok((target, if pages == 0 { 32 } else { narrow(pages) }))
}

fn wal_buffers(r: &mut Reader<'_>, shared_buffers: u64) -> Result<u64> {
    let (blocks, of) = r.whole("wal_buffers", BLOCKS, -1, (-1, 262_143))?;
    // A 32nd of the pool, from 64 KiB to a segment.
    let bytes = match u64::try_from(blocks) {
        Ok(blocks) => (blocks * PAGE).max(4 * PAGE),
        Err(_) => (shared_buffers / 32).clamp(64 << 10, SEGMENT),
    };
    r.row("wal_buffers", show_size(bytes), of, "more log than this is written before a commit wants it");
    Ok(bytes)
}

fn synchronous_commit(r: &mut Reader<'_>) -> Result<bool> {
    let on = ["local", "remote_write", "remote_apply"];
    let (word, waits, of) = r.word("synchronous_commit", (&on, &[]), ("on", true))?;
    let meaning = match waits {
        true => "each group of commits waits for a flush of the drive",
        false => "commits do not wait: a crash may lose the last ones, three times wal_writer_delay",
    };
    r.row("synchronous_commit", word.to_ascii_lowercase(), of, meaning);
    Ok(waits)
}

fn commit_delay(r: &mut Reader<'_>) -> Result<(u64, u32)> {
    let micros = Unit::Micros(1);
    let (delay, of) = r.whole("commit_delay", micros, 0, (0, 100_000))?;
    let meaning = match delay {
        0 => "a commit flushes the log at once",
        _ => "a commit waits for others before it flushes the log",
    };
    r.row("commit_delay", shown(delay, micros), of, meaning);
    let (siblings, of) = r.whole("commit_siblings", Unit::None, 5, (0, 1000))?;
    if delay > 0 {
        r.row("commit_siblings", siblings.to_string(), of, "it waits if so many others are active");
    }
    Ok((delay.unsigned_abs() * 1000, narrow(siblings)))
}

fn wal_compression(r: &mut Reader<'_>) -> Result<bool> {
    let methods: &[&str] = if r.server.version < (15, 0) { &[] } else { &["pglz", "lz4", "zstd"] };
    let (word, on, of) = match methods {
        [] => {
            let (on, of) = r.switch("wal_compression", false)?;
            (if on { "on" } else { "off" }, on, of)
        }
        methods => r.word("wal_compression", (methods, &[]), ("off", false))?,
    };
    let meaning = match on {
        true => "whole pages in the log are compressed",
        false => "whole pages in the log are as they are",
    };
    r.row("wal_compression", word.to_ascii_lowercase(), of, meaning);
    if on {
        r.left_out.push(
            "how well pages compress (wal_compression): the model assumes that half of each is left".into(),
        );
    }
    Ok(on)
}

fn new_segment(r: &mut Reader<'_>) -> Result<u64> {
    let (recycle, of) = r.switch("wal_recycle", true)?;
    let meaning = match recycle {
        true => "segments of the log are used again: their blocks are written over",
        false => "each segment of the log is a new file",
    };
    r.row("wal_recycle", on_off(recycle), of, meaning);
    let (zero, of) = r.switch("wal_init_zero", true)?;
    if !recycle {
        let meaning = match zero {
            true => "a new segment is filled with zeroes first: the log is written twice",
            false => "a new segment is not filled first",
        };
        r.row("wal_init_zero", on_off(zero), of, meaning);
    }
    Ok(if !recycle && zero { SEGMENT } else { 0 })
}

fn bgwriter(r: &mut Reader<'_>) -> Result<(u64, u32, u32)> {
    let (delay, of) = r.whole("bgwriter_delay", MILLISECONDS, 200, (10, 10_000))?;
    let meaning = "so often the background writer looks for dirty pages that will leave the pool";
    r.row("bgwriter_delay", shown(delay, MILLISECONDS), of, meaning);
    let (pages, of) = r.whole("bgwriter_lru_maxpages", Unit::None, 100, (0, i64::from(i32::MAX / 2)))?;
    let meaning = match pages {
        0 => "it writes none: connections write pages before they read others",
        _ => "it writes so many at most; connections write the rest before they read",
    };
    r.row("bgwriter_lru_maxpages", pages.to_string(), of, meaning);
    let (multiplier, of) = r.thousandths("bgwriter_lru_multiplier", 2000, 10)?;
    let value = show(f64::from(multiplier) / 1000.0);
    r.row(
        "bgwriter_lru_multiplier",
        value,
        of,
        "it looks for so many times the pages that were needed lately",
    );
    Ok((millis(delay), narrow(pages), multiplier))
}

fn reading_ahead(r: &mut Reader<'_>) -> Result<()> {
    let usual = if r.server.version < (18, 0) { 1 } else { 16 };
    let (ahead, of) = r.whole("effective_io_concurrency", Unit::None, usual, (0, 1000))?;
    let meaning = "reads ahead of scans, which the load does not have";
    r.row("effective_io_concurrency", ahead.to_string(), of, meaning);
    Ok(())
}
