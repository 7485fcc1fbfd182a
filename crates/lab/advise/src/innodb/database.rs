//! What a configuration means for InnoDB, and so for the drive.

use anyhow::Result;
use database_models::innodb::PAGE;

use super::{
    names::unknown,
    values::{number, switch},
};
use crate::{
    database_model::Row,
    server::{Kind, Server},
    settings::{Setting, Settings},
};
use lab_report::figure::show_size;

/// How a server uses its drive.
#[derive(Clone, PartialEq, Debug)]
pub struct Database {
    /// The server.
    pub server: Server,
    /// Whether pages are written twice.
    pub doublewrite: bool,
    /// Shards of the doublewrite buffer.
    pub shards: u32,
    /// Bytes of the buffer pool.
    pub pool: u64,
    /// Its instances.
    pub instances: u32,
    /// Instances whose dirty pages are flushed at the same time.
    pub page_cleaners: u32,
    /// Bytes of redo log.
    pub redo: u64,
    /// Whether a commit waits for the log.
    pub flush_at_commit: bool,
    /// Whether there is a binary log that each group of commits syncs.
    pub binlog: bool,
    /// Whether a sync makes the times of a file durable.
    pub journal_times: bool,
    /// `innodb_io_capacity`.
    pub io_capacity: u32,
    /// `innodb_io_capacity_max`.
    pub io_capacity_max: u32,
    /// `innodb_max_dirty_pages_pct_lwm`.
    pub dirty_low: u32,
    /// `innodb_max_dirty_pages_pct`.
    pub dirty_high: u32,
    /// `innodb_lru_scan_depth`.
    pub scan_depth: u32,
    /// What was read.
    pub rows: Vec<Row>,
    /// What the model leaves out of it.
    pub left_out: Vec<String>,
}

struct Reader<'a> {
    settings: &'a Settings,
    server: Server,
    rows: Vec<Row>,
    left_out: Vec<String>,
}

impl Reader<'_> {
    fn row(&mut self, name: &str, value: String, from: Option<&Setting>, meaning: impl Into<String>) {
        self.rows.push(Row::new(self.server, name, value, from, meaning));
    }

    /// A number between bounds.
    fn number(&self, name: &str, usual: u64, most: u64) -> Result<(u64, Option<Setting>)> {
        match self.settings.number(name)? {
            Some((value, setting)) if value > most => Err(setting.wrong(&format!("it is {most} at most"))),
            Some((value, setting)) => Ok((value, Some(setting.clone()))),
            None => Ok((usual, None)),
        }
    }

    fn switch(&self, name: &str, usual: bool) -> Result<(bool, Option<Setting>)> {
        Ok(self.settings.switch(name)?.map_or((usual, None), |(on, setting)| (on, Some(setting.clone()))))
    }
}

fn on_off(on: bool) -> String {
    if on { "ON" } else { "OFF" }.to_owned()
}

fn narrow(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

impl Database {
    /// # Errors
    /// A value that matters cannot be read, with its place; pages that the model does not know.
    pub fn read(settings: &Settings, server: Server) -> Result<Self> {
        let left_out = settings.ignored.clone();
        let mut reader = Reader { settings, server, rows: Vec::new(), left_out };
        let r = &mut reader;
        page_size(r)?;
        let doublewrite = doublewrite(r)?;
        doublewrite_place(r)?;
        let journal_times = flush_method(r)?;
        let (pool, instances) = pool(r)?;
        let page_cleaners = page_cleaners(r, instances)?;
        let shards = shards(r, instances)?;
        let redo = redo(r)?;
        let flush_at_commit = commit(r)?;
        let binlog = binlog(r, flush_at_commit)?;
        let (io_capacity, io_capacity_max) = io_capacity(r)?;
        let mariadb = server.kind == Kind::MariaDb;
        let (dirty_low, dirty_high) = dirty(r, if mariadb { 0 } else { 10 })?;
        let (scan_depth, of) =
            r.number("innodb_lru_scan_depth", if mariadb { 1536 } else { 1024 }, 1 << 24)?;
        r.row(
            "innodb_lru_scan_depth",
            scan_depth.to_string(),
            of.as_ref(),
            "free pages that are kept ready: what is dirty at the end of the list is written",
        );
        for (setting, said) in r.settings.misspelt(unknown) {
            r.row(&setting.name, setting.value.clone().unwrap_or_default(), Some(setting), said);
        }
        others(r);
        Ok(Database {
            server,
            doublewrite,
            shards,
            pool,
            instances,
            page_cleaners,
            redo,
            flush_at_commit,
            binlog,
            journal_times,
            io_capacity,
            io_capacity_max,
            dirty_low,
            dirty_high,
            scan_depth: narrow(scan_depth),
            rows: reader.rows,
            left_out: reader.left_out,
        })
    }
}

/// Whether a setting is one of InnoDB, or of the binary log.
pub fn is_of_storage(name: &str) -> bool {
    name.starts_with("innodb_") || ["log_bin", "sync_binlog"].contains(&name)
}

/// What a row of another setting tells.
const TOLD_ELSEWHERE: [&str; 2] = ["innodb_log_files_in_group", "innodb_dedicated_server"];

/// Settings that are set and not looked at: of InnoDB, because the model has nothing of the kind, and of other parts of the server.
fn others(r: &mut Reader<'_>) {
    let is_told = |name: &str| TOLD_ELSEWHERE.contains(&name) || r.rows.iter().any(|row| row.name == name);
    let of_storage = r.settings.names(|name| is_of_storage(name) && !is_told(name));
    let of_others = r.settings.names(|name| !is_of_storage(name) && !is_told(name));
    let said = [
        of_storage.map(|names| format!("settings of InnoDB that the model does not have ({names})")),
        of_others.map(|names| format!("settings of other parts of the server ({names})")),
    ];
    r.left_out.extend(said.into_iter().flatten());
}

fn page_size(r: &mut Reader<'_>) -> Result<()> {
    let (page, of) = r.number("innodb_page_size", PAGE, 64 << 10)?;
    if let Some(setting) = of.as_ref().filter(|_| page != PAGE) {
        return Err(setting.wrong("the model of InnoDB has pages of 16 KiB only"));
    }
    r.row(
        "innodb_page_size",
        "16K".into(),
        of.as_ref(),
        "each page is a write of 16 KiB, which a drive may tear unless it writes 16 KiB atomically",
    );
    Ok(())
}

fn doublewrite(r: &mut Reader<'_>) -> Result<bool> {
    let settings = r.settings;
    let Some(setting) = settings.get("innodb_doublewrite") else {
        r.row("innodb_doublewrite", "ON".into(), None, "each page is written twice");
        return Ok(true);
    };
    let word = setting.value.as_deref().unwrap_or("ON");
    let mariadb = r.server.kind == Kind::MariaDb;
    let (on, meaning) = match (word.to_ascii_lowercase().as_str(), switch(Some(word))) {
        ("detect_and_recover", _) if !mariadb => (true, "each page is written twice"),
        ("detect_only", _) if !mariadb => {
            (false, "only metadata goes to the doublewrite buffer: torn pages are found and not mended")
        }
        ("fast", _) if mariadb => {
            r.left_out.push("innodb_doublewrite=FAST is modelled as ON: the model syncs the doublewrite buffer before the pages".into());
            (true, "each page is written twice, with fewer syncs")
        }
        (_, Some(true)) => (true, "each page is written twice"),
        (_, Some(false)) => (false, "each page is written once; a power cut may tear pages"),
        (_, None) => {
            return Err(setting.wrong(if mariadb {
                "it is ON, OFF or FAST"
            } else {
                "it is ON, OFF, DETECT_AND_RECOVER or DETECT_ONLY"
            }));
        }
    };
    r.row("innodb_doublewrite", word.to_ascii_uppercase(), Some(setting), meaning);
    Ok(on)
}

/// Where the doublewrite buffer is.
fn doublewrite_place(r: &mut Reader<'_>) -> Result<()> {
    let settings = r.settings;
    let named =
        |name: &&str| settings.get(name).filter(|s| s.value.as_deref().is_some_and(|v| !v.is_empty()));
    let files = r.server.has_doublewrite_files();
    let (names, what): (&[&str], _) = match files {
        true => (
            &["innodb_doublewrite_dir", "innodb_data_home_dir", "datadir"],
            "the doublewrite files (#ib_*.dblwr)",
        ),
        false => (&["innodb_data_home_dir", "datadir"], "the doublewrite buffer, in the system tablespace"),
    };
    match names.iter().find_map(named) {
        Some(setting) => {
            let path = setting.value.clone().unwrap_or_default();
            r.row(&setting.name, path.clone(), Some(setting), format!("place of {what}"));
            if setting.name != "datadir" {
                r.left_out.push(format!(
                    "the medium of {path}, the place of {what}: \"configured\" has it on the drive of the data"
                ));
            }
        }
        None => r.row("datadir", "/var/lib/mysql".into(), None, format!("place of {what}, beside the data")),
    }
    Ok(())
}

/// Whether syncs make the times of files durable.
fn flush_method(r: &mut Reader<'_>) -> Result<bool> {
    let server = r.server;
    let mysql = server.kind == Kind::MySql;
    let usual = if mysql && server.version < (8, 4) { "fsync" } else { "O_DIRECT" };
    let given = r.settings.word("innodb_flush_method")?;
    let of = given.map(|given| given.1.clone());
    let method = given.map_or(usual, |given| given.0).to_ascii_uppercase();
    // A number is the place of a word in the server's list.
    let words = ["FSYNC", "O_DSYNC", "LITTLESYNC", "NOSYNC", "O_DIRECT", "O_DIRECT_NO_FSYNC"];
    let method =
        method.parse().ok().and_then(|at: usize| words.get(at)).map_or(method, |word| (*word).to_owned());
    let direct = ["O_DIRECT", "O_DIRECT_NO_FSYNC"].contains(&&*method);
    if let Some(setting) = of.as_ref().filter(|_| !words.contains(&&*method)) {
        return Err(setting.wrong("it is fsync, O_DSYNC, O_DIRECT or O_DIRECT_NO_FSYNC"));
    }
    let meaning = if direct {
        "pages go to the drive, past the page cache"
    } else {
        "pages go through the page cache of the system"
    };
    if !direct {
        r.left_out.push(
            "the page cache of the system: the model has O_DIRECT, so the drive sees all reads of pages"
                .into(),
        );
    }
    if method == "O_DIRECT_NO_FSYNC" {
        r.left_out.push("O_DIRECT_NO_FSYNC: the model syncs tablespaces after their pages".into());
    }
    r.row("innodb_flush_method", method, of.as_ref(), meaning);
    if !mysql {
        return Ok(false);
    }
    let (fdatasync, of) = r.switch("innodb_use_fdatasync", server.version >= (8, 4))?;
    r.row(
        "innodb_use_fdatasync",
        on_off(fdatasync),
        of.as_ref(),
        if fdatasync {
            "a sync is a flush of the drive"
        } else {
            "a sync may commit the file system's journal, too"
        },
    );
    Ok(!fdatasync)
}

fn pool(r: &mut Reader<'_>) -> Result<(u64, u32)> {
    let settings = r.settings;
    let (pool, of) = r.number("innodb_buffer_pool_size", 128 << 20, 1 << 50)?;
    if of.is_none()
        && let Some((true, setting)) = settings.switch("innodb_dedicated_server")?
    {
        return Err(setting.wrong("the buffer pool then depends on the machine: say innodb_buffer_pool_size"));
    }
    if let Some(setting) = of.as_ref().filter(|_| pool < 5 << 20) {
        return Err(setting.wrong("it is 5M at least"));
    }
    r.row(
        "innodb_buffer_pool_size",
        show_size(pool),
        of.as_ref(),
        "what fits is read once, and pages that leave it dirty are written",
    );
    if r.server.kind == Kind::MariaDb {
        return Ok((pool, 1));
    }
    let usual = match (pool > 1 << 30, r.server.version < (8, 4)) {
        (false, true) if pool == 1 << 30 => 8,
        (false, _) => 1,
        (true, true) => 8,
        // Half of the chunks of 128 MiB, or a quarter of the processors; those of the server are not known.
        (true, false) => (pool / (256 << 20)).clamp(1, 8),
    };
    let (instances, of) = r.number("innodb_buffer_pool_instances", usual, 64)?;
    let instances = if instances == 0 { usual } else { instances };
    r.row(
        "innodb_buffer_pool_instances",
        instances.to_string(),
        of.as_ref(),
        "flushers that write at the same time",
    );
    Ok((pool, narrow(instances)))
}

fn page_cleaners(r: &mut Reader<'_>, instances: u32) -> Result<u32> {
    if r.server.kind == Kind::MariaDb {
        return Ok(1);
    }
    let usual = if r.server.version < (8, 4) { instances.min(4) } else { instances };
    let (cleaners, of) = r.number("innodb_page_cleaners", usual.into(), 64)?;
    let cleaners = narrow(cleaners).clamp(1, instances);
    let meaning = "instances whose dirty pages are written at the same time";
    r.row("innodb_page_cleaners", cleaners.to_string(), of.as_ref(), meaning);
    Ok(cleaners)
}

fn shards(r: &mut Reader<'_>, instances: u32) -> Result<u32> {
    if !r.server.has_doublewrite_files() {
        return Ok(1);
    }
    let usual = if r.server.version < (8, 4) { u64::from(instances) * 2 } else { 2 };
    let (files, of) = r.number("innodb_doublewrite_files", usual, 256)?;
    let files = if files == 0 { usual } else { files };
    r.row(
        "innodb_doublewrite_files",
        files.to_string(),
        of.as_ref(),
        "batches of copies that are under way at the same time",
    );
    Ok(narrow(files))
}

fn redo(r: &mut Reader<'_>) -> Result<u64> {
    let settings = r.settings;
    let mariadb = r.server.kind == Kind::MariaDb;
    let (capacity, of) = r.number("innodb_redo_log_capacity", 100 << 20, 1 << 50)?;
    let files =
        settings.get("innodb_log_file_size").is_some() || settings.get("innodb_log_files_in_group").is_some();
    let meaning = "when it fills, pages must be written";
    if mariadb || (of.is_none() && files) {
        let (size, of) =
            r.number("innodb_log_file_size", if mariadb { 96 << 20 } else { 48 << 20 }, 1 << 50)?;
        let count = if mariadb { 1 } else { r.number("innodb_log_files_in_group", 2, 100)?.0.max(1) };
        let bytes = size * count;
        r.row(
            "innodb_log_file_size",
            show_size(size),
            of.as_ref(),
            format!("{count} of them, {} of redo log: {meaning}", show_size(bytes)),
        );
        return Ok(bytes.max(4 << 20));
    }
    r.row("innodb_redo_log_capacity", show_size(capacity), of.as_ref(), meaning);
    Ok(capacity.max(8 << 20))
}

fn commit(r: &mut Reader<'_>) -> Result<bool> {
    let (said, of) = r.number("innodb_flush_log_at_trx_commit", 1, u64::MAX)?;
    // The servers take the largest value that they know for a larger one.
    let value = said.min(if r.server.kind == Kind::MariaDb { 3 } else { 2 });
    let waits = value == 1 || value == 3;
    let mut meaning = if waits {
        "each group of commits waits for a flush of the drive"
    } else {
        "the log is flushed once a second: the last second may be lost"
    }
    .to_owned();
    if said != value {
        meaning = format!("{} takes {value} for {said}: {meaning}", r.server.kind);
    }
    r.row("innodb_flush_log_at_trx_commit", value.to_string(), of.as_ref(), meaning);
    Ok(waits)
}

fn binlog(r: &mut Reader<'_>, flush_at_commit: bool) -> Result<bool> {
    let settings = r.settings;
    let mysql = r.server.kind == Kind::MySql;
    // Its value names the log, also if that is OFF or 0. Only a prefix turns it off.
    let (on, of) = match settings.get("log_bin") {
        Some(setting) => (setting.switched.unwrap_or(true), Some(setting.clone())),
        None => (mysql, None),
    };
    r.row(
        "log_bin",
        on_off(on),
        of.as_ref(),
        if on { "commits are written to a binary log as well" } else { "no binary log" },
    );
    if !on {
        return Ok(false);
    }
    let (each, of) = r.number("sync_binlog", u64::from(mysql), u64::from(u32::MAX))?;
    let meaning = match each {
        0 => "the system writes the binary log when it likes",
        1 => "each group of commits syncs the binary log, which grows",
        _ => "some groups of commits sync the binary log",
    };
    r.row("sync_binlog", each.to_string(), of.as_ref(), meaning);
    if each != 1 || !flush_at_commit {
        r.left_out.push("the bytes of the binary log: the model has them only with sync_binlog=1 and innodb_flush_log_at_trx_commit=1".into());
    }
    Ok(each == 1 && flush_at_commit)
}

fn io_capacity(r: &mut Reader<'_>) -> Result<(u32, u32)> {
    let mysql = r.server.kind == Kind::MySql;
    let usual = if mysql && r.server.version >= (8, 4) { 10_000 } else { 200 };
    let (capacity, of) = r.number("innodb_io_capacity", usual, u64::MAX)?;
    r.row(
        "innodb_io_capacity",
        capacity.to_string(),
        of.as_ref(),
        "pages that adaptive flushing writes in a second, about",
    );
    let (most, of) = r.number("innodb_io_capacity_max", (capacity.saturating_mul(2)).max(2000), u64::MAX)?;
    r.row("innodb_io_capacity_max", most.to_string(), of.as_ref(), "the most that it writes");
    Ok((narrow(capacity).max(1), narrow(most).max(1)))
}

fn dirty(r: &mut Reader<'_>, low: u32) -> Result<(u32, u32)> {
    let percent = |r: &Reader<'_>, name: &str, usual: u32| -> Result<(u32, Option<Setting>)> {
        let Some((word, setting)) = r.settings.word(name)? else { return Ok((usual, None)) };
        // Both servers take parts of a percent here.
        let whole = word.split_once('.').map_or(word, |parts| parts.0);
        let value = number(whole)
            .filter(|value| *value <= 100)
            .ok_or_else(|| setting.wrong("it is a percentage from 0 to 100"))?;
        Ok((narrow(value), Some(setting.clone())))
    };
    let (low, of) = percent(r, "innodb_max_dirty_pages_pct_lwm", low)?;
    let meaning = if low == 0 {
        "flushing begins only near innodb_max_dirty_pages_pct"
    } else {
        "share of dirty pages at which flushing begins"
    };
    r.row("innodb_max_dirty_pages_pct_lwm", low.to_string(), of.as_ref(), meaning);
    let (high, of) = percent(r, "innodb_max_dirty_pages_pct", 90)?;
    r.row(
        "innodb_max_dirty_pages_pct",
        high.to_string(),
        of.as_ref(),
        "share of dirty pages that flushing stays below",
    );
    Ok((if low == 0 { high } else { low }, high))
}
