//! PostgreSQL, whose pages of 8 KiB whole pages in the log protect, or atomic writes, or nothing.

use std::{fs, path::Path, time::Duration};

use anyhow::{Context, Result, bail};
use postgres::{Client, Statement};

use super::{
    database::{Database, Placed, each_row},
    ledger::{Session, letter},
    variant::Protection,
};
use lab_databases::{
    database::Instance,
    layout::{Filesystem, Layout, Namespace, Size},
    mounted_drive::MountedDrive,
    postgresql::{self, Files, SUPERUSER, Server, Tuning, amcheck, bad_pages, check_pages, connect},
    scratch::Scratch,
};

/// A server with a variant's settings.
pub(super) struct PostgreSql<'a> {
    pub server: &'a Server,
    pub protection: Protection,
}

impl PostgreSql<'_> {
    fn tuning(&self) -> Tuning {
        // Pages are to be on their way to the drive all the time, and not only at a checkpoint.
        let extra = [
            ("checkpoint_timeout", "30s"),
            ("bgwriter_delay", "10ms"),
            ("bgwriter_flush_after", "64kB"),
            ("backend_flush_after", "64kB"),
            ("checkpoint_flush_after", "64kB"),
        ];
        Tuning {
            shared_buffers_mib: 4,
            max_wal_mib: 64,
            full_page_writes: self.protection == Protection::FullPages,
            extra: extra.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
            ..Tuning::default()
        }
    }

    fn start(&self, scratch: &Scratch, files: &Files, tuning: &Tuning) -> Result<Instance> {
        postgresql::start(scratch, self.server, files, tuning, "db", Duration::from_secs(120))
    }
}

/// The first kernel whose XFS has blocks that are larger than a page of memory.
const LARGE_BLOCKS: (u32, u32) = (6, 12);

/// Arguments of mkfs that make a page of the database a block of the file system. PostgreSQL writes through the page cache, which writes
/// back blocks: of blocks of 4 KiB it may write half a page.
fn blocks_of_a_page() -> Result<Vec<String>> {
    let release =
        fs::read_to_string("/proc/sys/kernel/osrelease").context("asking for the kernel's release")?;
    if kernel(&release).is_none_or(|kernel| kernel < LARGE_BLOCKS) {
        bail!(
            "the variant postgres-atomic needs Linux 6.12, whose XFS has blocks of 8 KiB, which keep a page of PostgreSQL whole on its way \
             to the drive; this is {}",
            release.trim()
        );
    }
    Ok(["-b", "size=8k"].map(str::to_owned).to_vec())
}

/// Major and minor version of a kernel's release: `6.18.44-amd64`.
fn kernel(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.trim().split(|c: char| !c.is_ascii_digit()).map(|number| number.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

/// Makes the first NVM Set, if it is NAND, one die that programs 4 KiB at a time, with superblocks of the same size. The halves of a page
/// of 8 KiB are then programmed one after the other, and a power cut often comes in between. Where a program takes several pages of the
/// database, only few of them lie across two programs.
fn tear_often(sets: &mut [toml::Value]) {
    // Bytes that a program takes.
    const PAGE: u64 = 4096;
    let Some(set) = sets.first_mut().and_then(toml::Value::as_table_mut) else { return };
    let number =
        |key: &str| set.get(key).and_then(toml::Value::as_integer).and_then(|n| u64::try_from(n).ok());
    let page =
        set.get("nand_page").and_then(toml::Value::as_str).and_then(|text| units::parse_size(text).ok());
    let (Some(page), Some(pages)) = (page, number("pages_per_block")) else { return };
    let bytes = page * pages * number("planes").unwrap_or(1) * number("dies").unwrap_or(1);
    let pages = i64::try_from(bytes / PAGE).unwrap_or(i64::MAX);
    for (key, value) in [("channels", 1), ("dies", 1), ("planes", 1), ("pages_per_block", pages)] {
        set.insert(key.into(), value.into());
    }
    set.insert("nand_page".into(), "4KiB".into());
    if let Some(timing) = set.get_mut("timing").and_then(toml::Value::as_table_mut) {
        timing.insert("program".into(), "600us".into());
    }
}

impl Database for PostgreSql<'_> {
    fn layout(&self, drive: &str, _: &[String]) -> Result<Layout> {
        let blocks = blocks_of_a_page();
        let namespace = Namespace {
            filesystem: Filesystem::Xfs,
            // Without atomic writes it makes no difference whether the kernel or the drive tears a page.
            mkfs: if self.protection == Protection::AtomicWrites {
                blocks?
            } else {
                blocks.unwrap_or_default()
            },
            mount: vec!["noatime".into()],
            ..Namespace::raw("data", 1, Size::Rest)
        };
        let mut layout = Layout::new("postgresql", Some(drive.to_owned()), vec![namespace]);
        if self.protection != Protection::AtomicWrites {
            let mut table = layout.drive_toml()?;
            if let Some(sets) = table.get_mut("set").and_then(toml::Value::as_array_mut) {
                tear_often(sets);
                layout.overrides.insert("set".into(), sets.clone().into());
            }
        }
        let mut changes = toml::Table::new();
        changes.insert("atomic_write".into(), self.protection.atomic_write().into());
        layout.overrides.insert("drive".into(), changes.into());
        Ok(layout)
    }

    fn prepare(
        &self,
        mounted: &MountedDrive,
        scratch: &Scratch,
        connections: u32,
        progress: &mut dyn FnMut(&str),
    ) -> Result<()> {
        let files = files(mounted)?;
        let tuning = Tuning { shared_buffers_mib: 64, ..self.tuning() };
        progress("installing the database");
        postgresql::install(self.server, &files, &tuning, scratch.cancel())?;
        let instance = self.start(scratch, &files, &tuning)?;
        progress("filling the tables");
        let mut client = connect(instance.socket(), SUPERUSER)?;
        // Rows have room beside them for their next versions, so that transactions write the same pages again.
        client.batch_execute(
            "CREATE TABLE entries (conn int, seq bigint, note text NOT NULL, PRIMARY KEY (conn, seq));
             CREATE TABLE pages (conn int, id int, seq bigint NOT NULL, pad varchar(1600) NOT NULL, PRIMARY KEY (id, conn))
             WITH (fillfactor = 50);
             ALTER TABLE pages ALTER pad SET STORAGE PLAIN;
             BEGIN",
        )?;
        let insert =
            client.prepare("INSERT INTO pages VALUES ($1::bigint, $2::bigint, 0, repeat('a', 1500))")?;
        let row = |client: &mut Client, connection, id| {
            let [connection, id] = [connection, id].map(i64::from);
            Ok(client.execute(&insert, &[&connection, &id]).map(drop)?)
        };
        each_row(&mut client, connections, scratch.cancel(), row, |client| {
            Ok(client.batch_execute("COMMIT; BEGIN")?)
        })?;
        client.batch_execute("COMMIT")?;
        drop(client);
        instance.stop()
    }

    fn place(&self, mounted: &MountedDrive) -> Result<Box<dyn Placed + '_>> {
        Ok(Box::new(OnDrive { database: self, files: files(mounted)? }))
    }
}

fn files(mounted: &MountedDrive) -> Result<Files> {
    let mount = mounted.volume("data")?.mount.as_deref().context("the data's namespace is not mounted")?;
    Ok(Files { data: mount.join("db"), wal: None })
}

struct OnDrive<'a> {
    database: &'a PostgreSql<'a>,
    files: Files,
}

impl Placed for OnDrive<'_> {
    fn start(&self, scratch: &Scratch) -> Result<Instance> {
        self.database.start(scratch, &self.files, &self.database.tuning())
    }

    fn session(&self, socket: &Path) -> Result<Box<dyn Session>> {
        let mut client = connect(socket, SUPERUSER)?;
        let note = client
            .prepare("INSERT INTO entries VALUES ($1::bigint, $2, 'acknowledged when the client says so')")?;
        let update = client.prepare(
            "UPDATE pages SET seq = $1, pad = repeat($2, 1500) WHERE conn = $3::bigint AND id = $4::bigint",
        )?;
        Ok(Box::new(Connection { client, note, update }))
    }

    fn torn_pages(&self) -> Result<u64> {
        bad_pages(&self.files.data)
    }

    fn check_tables(&self, socket: &Path) -> Result<()> {
        amcheck(self.database.server, socket, SUPERUSER)
    }

    fn check_files(&self) -> Result<()> {
        check_pages(self.database.server, &self.files)
    }
}

/// A connection to the ledger with its statements.
struct Connection {
    client: Client,
    note: Statement,
    update: Statement,
}

impl Session for Connection {
    fn write(&mut self, connection: u32, seq: u64, rows: &[u32]) -> Result<()> {
        let (connection, letter) = (i64::from(connection), letter(seq));
        let seq = i64::try_from(seq)?;
        let mut transaction = self.client.transaction()?;
        transaction.execute(&self.note, &[&connection, &seq])?;
        for row in rows {
            transaction.execute(&self.update, &[&seq, &letter, &connection, &i64::from(*row)])?;
        }
        Ok(transaction.commit()?)
    }

    fn entries(&mut self, connection: u32) -> Result<(u64, u64)> {
        let sql = "SELECT coalesce(max(seq), 0), count(*) FROM entries WHERE conn = $1::bigint";
        let row = self.client.query_one(sql, &[&i64::from(connection)]).context("reading the ledger")?;
        Ok((u64::try_from(row.get::<_, i64>(0))?, u64::try_from(row.get::<_, i64>(1))?))
    }

    fn rows(&mut self, connection: u32) -> Result<Vec<(u32, u64)>> {
        let sql = "SELECT id, seq FROM pages WHERE conn = $1::bigint";
        let rows = self.client.query(sql, &[&i64::from(connection)]).context("reading the rows")?;
        let numbers = rows
            .iter()
            .map(|row| Ok((u32::try_from(row.get::<_, i32>(0))?, u64::try_from(row.get::<_, i64>(1))?)));
        numbers.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_that_tears_often_keeps_its_superblocks() {
        let text = "[[set]]\nmedia = \"nand\"\nchannels = 2\ndies = 2\nplanes = 2\nnand_page = \"16KiB\"\npages_per_block = 48\n\
                    timing = { program = \"2.2ms\", erase = \"10ms\" }\n[[set]]\nmedia = \"dram\"\n";
        let mut table: toml::Table = toml::from_str(text).unwrap();
        let sets = table.get_mut("set").unwrap().as_array_mut().unwrap();
        tear_often(sets);
        let expected = "[[set]]\nmedia = \"nand\"\nchannels = 1\ndies = 1\nplanes = 1\nnand_page = \"4KiB\"\npages_per_block = 768\n\
                        timing = { program = \"600us\", erase = \"10ms\" }\n[[set]]\nmedia = \"dram\"\n";
        assert_eq!(table, toml::from_str::<toml::Table>(expected).unwrap());
        let mut disk: Vec<toml::Value> = vec![toml::Table::new().into()];
        tear_often(&mut disk);
        assert_eq!(disk, [toml::Value::from(toml::Table::new())]);
    }

    #[test]
    fn kernels_are_read() {
        assert_eq!(kernel("6.18.44-fc-v669\n"), Some((6, 18)));
        assert_eq!(kernel("6.1.0-40-amd64"), Some((6, 1)));
        assert_eq!(kernel("unknown"), None);
    }
}
