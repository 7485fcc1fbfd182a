//! Images that are looked at.

use image::examine::{Examination, LastShutdown, PageCondition};
use image::testing::{self, SLOT, checkpoint_name, crc, generation_of};
use image::{FormatError, ImageError};
use live::{Buffer, HostIdentity, NoEvents, Options, Running};
use nvme::Command;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Namespace 1 has blocks of 4096 bytes, 2 of 512.
const NAMESPACES: [(&str, &str); 2] = [("2MiB", "4096"), ("1MiB", "512")];

/// The first byte of a page that was written.
fn byte(nsid: u32, page: u64) -> u8 {
    nsid as u8 * 100 + page as u8
}

/// A drive in an image, and a copy of that: what a process that is killed leaves.
struct ExamineFixture {
    temp: tempfile::TempDir,
    running: Option<Running>,
}

impl ExamineFixture {
    fn new() -> Self {
        let mut fixture = ExamineFixture { temp: tempfile::tempdir().unwrap(), running: None };
        fixture.start();
        fixture
    }

    fn start(&mut self) {
        let shape = testing::shape(r#"lba_formats = ["4096", "512"]"#, "4MiB", &NAMESPACES);
        let options = Options { image: Some(self.temp.path().join("live")), ..Options::default() };
        self.running = Some(live::start(Some(shape), &options, &mut |_| ()).unwrap());
    }

    /// Stops the drive, which leaves a checkpoint, and starts it again.
    fn restart(&mut self) {
        self.running.take().unwrap().stop();
        self.start();
    }

    /// Writes pages, one by one, and flushes them.
    fn write(&self, nsid: u32, pages: std::ops::Range<u64>) {
        let host = HostIdentity::new("nqn.2026-11.test:host").unwrap();
        let controller = self.running.as_ref().unwrap().handle().connect(host, Arc::new(NoEvents)).unwrap();
        let queue = controller.blocking_queue(4).unwrap();
        let per_page = if nsid == 1 { 1 } else { 8 };
        for page in pages {
            let command = Command::write(nsid, page * per_page, per_page as u32);
            let data = Buffer::from(vec![byte(nsid, page); SLOT]);
            assert!(queue.execute(&command, data).unwrap().0.status().is_success());
        }
        let flushed = queue.execute(&Command::flush(nsid), Buffer::empty()).unwrap();
        assert!(flushed.0.status().is_success());
    }

    fn dead(&self) -> PathBuf {
        let dead = self.temp.path().join("dead");
        let _ = fs::remove_dir_all(&dead);
        fs::create_dir(&dead).unwrap();
        for entry in fs::read_dir(self.temp.path().join("live")).unwrap() {
            let path = entry.unwrap().path();
            fs::copy(&path, dead.join(path.file_name().unwrap())).unwrap();
        }
        dead
    }
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 1;
    fs::write(path, bytes).unwrap();
}

/// Where the contents hold a page.
fn place(dir: &Path, nsid: u32, page: u64) -> usize {
    let contents = fs::read(dir.join("contents")).unwrap();
    contents.chunks(SLOT).position(|bytes| *bytes == [byte(nsid, page); SLOT]).unwrap() * SLOT
}

/// Generations of the files of a kind, and where the bytes of the newest one end.
fn newest(dir: &Path, kind: &str) -> (PathBuf, usize) {
    let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mine = names.filter_map(|path| generation_of(&path).filter(|of| of.0 == kind).map(|of| of.1));
    let path = dir.join(format!("{kind}.{}", mine.max().unwrap()));
    let used = fs::read(&path).unwrap().iter().rposition(|&byte| byte != 0).unwrap() + 1;
    (path, used)
}

fn look(dir: &Path) -> Examination {
    let files = |dir: &Path| {
        let mut files: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files.into_iter().map(|path| (fs::read(&path).unwrap(), path)).collect::<Vec<_>>()
    };
    let before = files(dir);
    let examination = Examination::open(dir, None).unwrap();
    assert!(files(dir) == before, "it changed something");
    examination
}

/// The pages that hold something: numbers of those that are whole, which hold what was written, and of all others, with zeros.
fn pages(examination: &mut Examination, nsid: u32) -> (Vec<u64>, Vec<(u64, PageCondition)>) {
    let (mut whole, mut others) = (Vec::new(), Vec::new());
    let per_page = if nsid == 1 { 1 } else { 8 };
    let mut next = 0;
    examination
        .pages(nsid, &mut |page| {
            assert_eq!((page.lba, page.blocks, page.data.len()), (next, per_page, SLOT));
            next += u64::from(per_page);
            let number = page.lba / u64::from(per_page);
            match page.is {
                PageCondition::Whole => {
                    assert_eq!(page.data, [byte(nsid, number); SLOT]);
                    whole.push(number);
                }
                is => {
                    assert_eq!(page.data, [0; SLOT]);
                    others.extend((is != PageCondition::Nothing).then_some((number, is)));
                }
            }
            Ok(())
        })
        .unwrap();
    assert_eq!(next * u64::from(if nsid == 1 { 4096u32 } else { 512 }), (3 - u64::from(nsid)) << 20);
    (whole, others)
}

fn all_but(pages: std::ops::Range<u64>, without: &[u64]) -> Vec<u64> {
    pages.filter(|page| !without.contains(page)).collect()
}

#[test]
fn damaged_and_missing_contents_are_told_by_page() {
    let fixture = ExamineFixture::new();
    fixture.write(1, 0..20);
    fixture.write(2, 4..8);
    let dir = fixture.dead();
    let mut whole = look(&dir);
    assert_eq!(whole.findings().last_shutdown, LastShutdown::Killed);
    assert_eq!(pages(&mut whole, 1), (all_but(0..20, &[]), vec![]));
    drop(whole);
    flip(&dir.join("contents"), place(&dir, 1, 7) + 4095);
    // One block of eight: none of the page's can be told from the damaged one.
    flip(&dir.join("contents"), place(&dir, 2, 5) + 512);
    let mut damaged = look(&dir);
    assert_eq!(pages(&mut damaged, 1), (all_but(0..20, &[7]), vec![(7, PageCondition::Damaged)]));
    assert_eq!(pages(&mut damaged, 2), (vec![4, 6, 7], vec![(5, PageCondition::Damaged)]));
    let findings = damaged.findings();
    assert!(findings.damaged.is_empty() && findings.missing.is_none(), "the files of the state are whole");
    drop(damaged);
    let cut = place(&dir, 1, 12);
    let there: Vec<u64> =
        all_but(0..20, &[7]).into_iter().filter(|&page| place(&dir, 1, page) < cut).collect();
    File::options().write(true).open(dir.join("contents")).unwrap().set_len(cut as u64 + 1).unwrap();
    let mut cut_off = look(&dir);
    let (whole, others) = pages(&mut cut_off, 1);
    assert!(
        whole == there && others.len() == 20 - whole.len() && others.contains(&(12, PageCondition::Damaged))
    );
}

#[test]
fn a_damaged_checkpoint_is_told_and_loses_nothing() {
    let mut fixture = ExamineFixture::new();
    fixture.write(1, 0..10);
    fixture.restart();
    fixture.write(1, 10..20);
    let dir = fixture.dead();
    let (checkpoint, _) = newest(&dir, "checkpoint");
    flip(&checkpoint, 200);
    let mut examination = look(&dir);
    let findings = examination.findings().clone();
    assert!(findings.missing.is_none() && findings.checkpoint < generation_of(&checkpoint).unwrap().1);
    assert_eq!((&findings.damaged[0].path, findings.damaged[0].loses), (&checkpoint, false));
    assert_eq!(pages(&mut examination, 1), (all_but(0..20, &[]), vec![]));
    drop(examination);
    // Without any other there is no state at all.
    for generation in findings.checkpoints {
        fs::write(dir.join(checkpoint_name(generation)), b"short").unwrap();
    }
    let error = Examination::open(&dir, None).err().unwrap();
    assert!(matches!(error, ImageError::Damaged { .. }), "{error}");
}

#[test]
fn of_a_journal_that_is_damaged_in_the_middle_the_beginning_counts() {
    let fixture = ExamineFixture::new();
    fixture.write(1, 0..10);
    let (_, before) = newest(&fixture.dead(), "journal");
    fixture.write(1, 10..20);
    let dir = fixture.dead();
    let (journal, used) = newest(&dir, "journal");
    assert!(before < used);
    flip(&journal, before + 40);
    let mut examination = look(&dir);
    let findings = examination.findings();
    let damaged = &findings.damaged[0];
    assert_eq!((findings.damaged.len(), &damaged.path, damaged.loses), (1, &journal, true), "{findings:?}");
    let missing = findings.missing.unwrap();
    let (_, end) = findings.end;
    assert!(
        end <= before as u64 + 40 && missing.journal_bytes >= (used - before - 40) as u64,
        "{findings:?}"
    );
    let (whole, others) = pages(&mut examination, 1);
    assert!(whole.starts_with(&all_but(0..10, &[])) && whole.len() < 20, "{whole:?}");
    assert_eq!(others, []);
}

#[test]
fn what_cannot_be_opened_is_an_error() {
    let fixture = ExamineFixture::new();
    fixture.write(1, 0..3);
    let error = |dir: &Path| match Examination::open(dir, None) {
        Ok(_) => panic!("it opens"),
        Err(error) => error,
    };
    assert!(matches!(error(&fixture.temp.path().join("live")), ImageError::Locked { .. }));
    assert!(matches!(error(&fixture.temp.path().join("nowhere")), ImageError::Missing { .. }));
    let dir = fixture.dead();
    fs::remove_file(dir.join("drive.toml")).unwrap();
    match error(&dir) {
        ImageError::Io { path, source, .. } => {
            assert_eq!((path, source.kind()), (dir.join("drive.toml"), io::ErrorKind::NotFound));
        }
        other => panic!("{other}"),
    }
    // A newer program can read what this one cannot: nothing older is to be taken for the newest.
    let dir = fixture.dead();
    let (checkpoint, _) = newest(&dir, "checkpoint");
    let mut bytes = fs::read(&checkpoint).unwrap();
    bytes[8] = 99;
    let crc = crc(&bytes[..72]);
    bytes[72..80].copy_from_slice(&crc.to_le_bytes());
    fs::write(&checkpoint, bytes).unwrap();
    match error(&dir) {
        ImageError::Format { source: FormatError::Newer(99), .. } => {}
        other => panic!("{other}"),
    }
}
