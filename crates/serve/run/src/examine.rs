//! Looking at an image that may be damaged, without changing it: what its files say, and what its pages hold.

pub use crate::image::{DamagedFile, Findings, LastShutdown, Missing};
pub use crate::store::PageCondition;

use crate::image::{ImageError, Presence, Salvaged, presence, salvage};
use crate::keys::DriveKey;
use crate::memory::SLOT;
use crate::start::{Opened, Options, StartError, open_found};
use crate::store::Store;
use device::{Drive, NamespaceLayout, SPARE_BYTES};
use ftl::{PAGE, PageState};
use media::Slot;
use std::fs::File;
use std::io;
use std::path::Path;

/// A page of a namespace: the blocks in it. What is damaged or lost reads as zeros.
#[derive(Clone, Copy, Debug)]
pub struct Page<'a> {
    /// Its first block.
    pub lba: u64,
    /// Its blocks.
    pub blocks: u32,
    /// What it is.
    pub is: PageCondition,
    /// Bit by bit the blocks that a host had marked uncorrectable.
    pub marked: u8,
    /// Data of its blocks, decrypted if their key is open.
    pub data: &'a [u8],
    /// Their metadata.
    pub metadata: &'a [u8],
}

/// A namespace of an image.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Namespace {
    /// Its identifier.
    pub nsid: u32,
    /// Bytes of data of a block.
    pub block_size: u32,
    /// Bytes of metadata of a block.
    pub metadata: u32,
    /// Its blocks.
    pub blocks: u64,
    /// Whether they are encrypted.
    pub encrypted: bool,
    /// Whether they are, and no key was given.
    pub locked: bool,
}

/// An image that is looked at. Nothing of it is changed.
pub struct Examination {
    findings: Findings,
    drive: Drive,
    store: Store,
    _lock: Option<File>,
}

impl Examination {
    /// Opens an image, to the newest state that its files still lead to. `key` is for what is to be decrypted.
    ///
    /// # Errors
    /// If it is in use, or its files lead to no state.
    pub fn open(dir: &Path, key: Option<DriveKey>) -> Result<Self, StartError> {
        if presence(dir)? == Presence::Nothing {
            return Err(ImageError::Missing { path: dir.to_owned() }.into());
        }
        let Salvaged { findings, locked, found, lock } = salvage(dir)?;
        let options = Options { drive_key: key, ..Options::default() };
        let Opened { drive, store, .. } = open_found(locked, found, dir, &options)?;
        Ok(Examination { findings, drive, store, _lock: lock })
    }

    /// What the image's files say.
    pub fn findings(&self) -> &Findings {
        &self.findings
    }

    /// The namespaces that it holds.
    pub fn namespaces(&self) -> Vec<Namespace> {
        let namespace = |layout: NamespaceLayout| Namespace {
            nsid: layout.nsid,
            block_size: 1 << layout.transform.shift,
            metadata: layout.transform.metadata.into(),
            blocks: layout.blocks,
            encrypted: layout.transform.encrypted,
            locked: layout.locked,
        };
        self.drive.namespace_layouts().map(namespace).collect()
    }

    /// Goes through all pages of a namespace, in order.
    ///
    /// # Errors
    /// What `each` says.
    pub fn pages(&mut self, nsid: u32, each: &mut dyn FnMut(&Page<'_>) -> io::Result<()>) -> io::Result<()> {
        let Some(layout) = self.drive.namespace_layouts().find(|layout| layout.nsid == nsid) else {
            return Ok(());
        };
        let mut transform = layout.transform;
        let (mut page, mut beside) = ([0; SLOT], [0; SPARE_BYTES]);
        transform.fill_unwritten(&mut page, &mut beside);
        let nothing = beside;
        let per_page = PAGE >> transform.shift;
        let zeros = [0; SLOT];
        for number in 0..layout.blocks.div_ceil(per_page.into()) {
            let lba = number * u64::from(per_page);
            let blocks = (layout.blocks - lba).min(per_page.into()) as u32;
            let (mut is, mut marked) = (PageCondition::Nothing, 0);
            match self.drive.ftl().page_state(layout.volume, number) {
                None => {}
                Some(PageState::Lost) => is = PageCondition::Lost,
                Some(PageState::Held(Slot::NONE)) => is = PageCondition::Whole,
                Some(PageState::Held(slot)) => {
                    transform.slba = lba;
                    (is, marked) = self.store.look(&transform, !layout.locked, slot, &mut page, &mut beside);
                }
            }
            let (data, metadata) = match is {
                PageCondition::Whole | PageCondition::Unchecked => (&page, &beside),
                _ => (&zeros, &nothing),
            };
            each(&Page {
                lba,
                blocks,
                is,
                marked,
                data: &data[..(blocks as usize) << transform.shift],
                metadata: &metadata[..blocks as usize * usize::from(transform.metadata)],
            })?;
            if is != PageCondition::Nothing {
                (page, beside) = (zeros, nothing);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::{FormatError, checkpoint_name, generation_of};
    use crate::{Buffer, HostIdentity, NoEvents, Running, testing};
    use nvme::Command;
    use std::fs;
    use std::path::PathBuf;
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
            self.running = Some(crate::start(Some(shape), &options, &mut |_| ()).unwrap());
        }

        /// Stops the drive, which leaves a checkpoint, and starts it again.
        fn restart(&mut self) {
            self.running.take().unwrap().stop();
            self.start();
        }

        /// Writes pages, one by one, and flushes them.
        fn write(&self, nsid: u32, pages: std::ops::Range<u64>) {
            let host = HostIdentity::new("nqn.2026-11.test:host").unwrap();
            let controller =
                self.running.as_ref().unwrap().handle().connect(host, Arc::new(NoEvents)).unwrap();
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
        assert!(
            findings.damaged.is_empty() && findings.missing.is_none(),
            "the files of the state are whole"
        );
        drop(damaged);
        let cut = place(&dir, 1, 12);
        let there: Vec<u64> =
            all_but(0..20, &[7]).into_iter().filter(|&page| place(&dir, 1, page) < cut).collect();
        File::options().write(true).open(dir.join("contents")).unwrap().set_len(cut as u64 + 1).unwrap();
        let mut cut_off = look(&dir);
        let (whole, others) = pages(&mut cut_off, 1);
        assert!(
            whole == there
                && others.len() == 20 - whole.len()
                && others.contains(&(12, PageCondition::Damaged))
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
        assert!(matches!(error, StartError::Image(ImageError::Damaged { .. })), "{error}");
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
        assert_eq!(
            (findings.damaged.len(), &damaged.path, damaged.loses),
            (1, &journal, true),
            "{findings:?}"
        );
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
            Err(StartError::Image(error)) => error,
            Err(other) => panic!("{other}"),
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
        let crc = crate::image::format::crc(&bytes[..72]);
        bytes[72..80].copy_from_slice(&crc.to_le_bytes());
        fs::write(&checkpoint, bytes).unwrap();
        match error(&dir) {
            ImageError::Format { source: FormatError::Newer(99), .. } => {}
            other => panic!("{other}"),
        }
    }
}
