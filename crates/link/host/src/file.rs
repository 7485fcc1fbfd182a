//! Regular files and block devices, as block devices.
//!
//! A read or write of a file blocks, so threads do the work: as many as parts may be under way.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, IoSlice, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use blockdev::{BlockDevice, Completed, Geometry, Limits, Nanos, Operation, Status, Verb};
use rustix::fs::{Advice, FallocateFlags, OFlags, fadvise, fallocate, ioctl_blksszget};
use rustix::io::{Errno, ReadWriteFlags, pwritev2};

/// Logical blocks of a regular file.
const BLOCK: u32 = 512;
/// Bytes of one deallocation.
const DEALLOCATE: u32 = 1 << 30;
/// Buffers of direct I/O begin at a multiple of these bytes. No device asks for more.
const ALIGNMENT: usize = 4096;

/// A regular file or a block device that is open to be read and written. Its size stays as it is.
///
/// The page cache is not used where the file system has direct I/O.
///
/// The system reports a write that it lost to one sync, and forgets it. So after a sync that failed every later one fails, on every device of
/// this file, until the file is opened anew.
#[derive(Clone, Debug)]
pub struct BlockFile {
    file: Arc<File>,
    /// A sync has failed: what was not synced before it is in doubt.
    in_doubt: Arc<AtomicBool>,
    path: PathBuf,
    block_size: u32,
    blocks: u64,
    direct: bool,
}

impl BlockFile {
    /// Opens a file that exists. A block device must not be mounted or in use, and nobody else can mount or claim it until this is closed.
    ///
    /// # Errors
    /// It cannot be opened, is in use, is neither a regular file nor a block device, or is smaller than one block.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::open_to(path, true)
    }

    /// Opens a file to be read only: writes fail. A block device may be in use.
    ///
    /// # Errors
    /// As of [`open`](BlockFile::open), but that it is in use.
    pub fn open_read_only(path: &Path) -> io::Result<Self> {
        Self::open_to(path, false)
    }

    fn open_to(path: &Path, write: bool) -> io::Result<Self> {
        let kind = std::fs::metadata(path)?.file_type();
        if !kind.is_file() && !kind.is_block_device() {
            return Err(io::Error::new(
                ErrorKind::InvalidInput,
                "it is neither a regular file nor a block device",
            ));
        }
        let exclusive = if kind.is_block_device() && write { OFlags::EXCL } else { OFlags::empty() };
        let open = |flags: OFlags| {
            OpenOptions::new()
                .read(true)
                .write(write)
                .custom_flags((flags | exclusive).bits().cast_signed())
                .open(path)
        };
        let (mut file, direct) = match open(OFlags::DIRECT) {
            Ok(file) => (file, true),
            Err(error) if error.kind() == ErrorKind::InvalidInput => (open(OFlags::empty())?, false),
            Err(error) => return Err(error),
        };
        let block_size = if kind.is_block_device() { ioctl_blksszget(&file)? } else { BLOCK };
        let blocks = file.seek(SeekFrom::End(0))? / u64::from(block_size);
        if blocks == 0 {
            return Err(io::Error::new(
                ErrorKind::InvalidInput,
                format!("it is smaller than {block_size} bytes"),
            ));
        }
        let (file, in_doubt) = (Arc::new(file), Arc::default());
        Ok(Self { file, in_doubt, path: path.to_owned(), block_size, blocks, direct })
    }

    /// Whether reads and writes pass the page cache by.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.direct
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes per logical block.
    #[must_use]
    pub fn block_size(&self) -> u32 {
        self.block_size
    }

    /// Size in logical blocks. What remains behind the last whole one is left alone.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// A block device on it, for so many parts at once (1 or more). There may be several.
    ///
    /// # Errors
    /// There can be no more threads.
    pub fn device(&self, depth: usize) -> io::Result<FileDevice> {
        self.telling_device(depth, || ())
    }

    /// As [`device`](BlockFile::device); `tell` is called on another thread after each part has ended, so that nobody has to poll.
    ///
    /// # Errors
    /// There can be no more threads.
    pub fn telling_device(
        &self,
        depth: usize,
        tell: impl Fn() + Clone + Send + 'static,
    ) -> io::Result<FileDevice> {
        let (work, taken) = mpsc::channel();
        let (done, completed) = mpsc::channel();
        let taken = Arc::new(Mutex::new(taken));
        for _ in 0..depth {
            let (file, taken, done, tell) = (self.clone(), taken.clone(), done.clone(), tell.clone());
            std::thread::Builder::new()
                .name("tranche-file".to_owned())
                .spawn(move || file.work(&taken, &done, &tell))?;
        }
        Ok(FileDevice { file: self.clone(), depth, outstanding: 0, work, completed })
    }

    /// What a thread does until the device is gone.
    fn work(&self, taken: &Mutex<mpsc::Receiver<Part>>, done: &mpsc::Sender<Completed>, tell: &impl Fn()) {
        let mut buffer = Vec::new();
        loop {
            let next = taken.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(Part { tag, part, mut data }) = next else { return };
            let status = match self.execute(&part, &mut data, &mut buffer) {
                Ok(()) => Status::SUCCESS,
                Err(error) => status_of(&error, part.verb),
            };
            if done.send(Completed { tag, status, data }).is_err() {
                return;
            }
            tell();
        }
    }

    fn execute(&self, part: &Operation, data: &mut [u8], buffer: &mut Vec<u8>) -> io::Result<()> {
        let block = u64::from(self.block_size);
        // A write beyond the end would make the file larger.
        let inside = |lba: u64| lba.checked_add(part.blocks.into()).is_some_and(|end| end <= self.blocks);
        if !inside(part.lba) || matches!(part.verb, Verb::Copy { from, .. } if !inside(from)) {
            return Err(ErrorKind::InvalidInput.into());
        }
        let (at, bytes) = (part.lba * block, u64::from(part.blocks) * block);
        match part.verb {
            Verb::Read => self.read(data, at, buffer),
            Verb::ReadFua => {
                self.sync()?;
                self.read(data, at, buffer)
            }
            Verb::Write | Verb::WriteFua => {
                let aligned = aligned(buffer, data.len());
                aligned.copy_from_slice(data);
                self.write(aligned, at, part.verb.fua())
            }
            Verb::Trim => match self.allocate(FallocateFlags::PUNCH_HOLE, at, bytes) {
                // A deallocation is advice.
                Err(Errno::OPNOTSUPP) => Ok(()),
                result => Ok(result?),
            },
            Verb::Flush => self.sync(),
            // It has no zones.
            Verb::Append | Verb::Zone(_) => Err(ErrorKind::Unsupported.into()),
            Verb::Copy { from, fua } => {
                let aligned = aligned(buffer, bytes as usize);
                self.file.read_exact_at(aligned, from * block)?;
                self.write(aligned, at, fua)
            }
            Verb::WriteZeroes { deallocate } => {
                let way = if deallocate { FallocateFlags::PUNCH_HOLE } else { FallocateFlags::ZERO_RANGE };
                match self.allocate(way, at, bytes) {
                    Err(Errno::OPNOTSUPP) => {
                        let zeroes = aligned(buffer, bytes as usize);
                        zeroes.fill(0);
                        self.write(zeroes, at, false)
                    }
                    result => Ok(result?),
                }
            }
        }
    }

    fn read(&self, data: &mut [u8], at: u64, buffer: &mut Vec<u8>) -> io::Result<()> {
        let aligned = aligned(buffer, data.len());
        self.file.read_exact_at(aligned, at)?;
        data.copy_from_slice(aligned);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.judge(self.file.sync_data())?;
        // Another thread may have been told of a loss that this sync should have reported.
        match self.in_doubt.load(Ordering::SeqCst) {
            true => Err(io::Error::other("an earlier sync failed")),
            false => Ok(()),
        }
    }

    /// Keeps in mind that a sync failed.
    fn judge<T, E>(&self, synced: Result<T, E>) -> Result<T, E> {
        if synced.is_err() {
            self.in_doubt.store(true, Ordering::SeqCst);
            // The page cache may still show what was lost. Later reads are to find what the disk has.
            let _ = fadvise(&*self.file, 0, None, Advice::DontNeed);
        }
        synced
    }

    fn write(&self, mut data: &[u8], mut at: u64, durable: bool) -> io::Result<()> {
        let flags = if durable { ReadWriteFlags::DSYNC } else { ReadWriteFlags::empty() };
        while !data.is_empty() {
            let written = match pwritev2(&*self.file, &[IoSlice::new(data)], at, flags) {
                Err(Errno::INTR) => continue,
                // It syncs, and so may be told of what other writes lost.
                written if durable => self.judge(written),
                written => written,
            };
            match written {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(written) => (data, at) = (&data[written..], at + written as u64),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn allocate(&self, way: FallocateFlags, at: u64, bytes: u64) -> Result<(), Errno> {
        loop {
            match fallocate(&*self.file, way | FallocateFlags::KEEP_SIZE, at, bytes) {
                Err(Errno::INTR) => {}
                result => return result,
            }
        }
    }
}

/// So many bytes of a buffer, at a place where direct I/O may begin.
fn aligned(buffer: &mut Vec<u8>, bytes: usize) -> &mut [u8] {
    if buffer.len() < bytes + ALIGNMENT {
        buffer.resize(bytes + ALIGNMENT, 0);
    }
    let start = buffer.as_ptr().align_offset(ALIGNMENT);
    &mut buffer[start..start + bytes]
}

/// The status that a drive would give.
fn status_of(error: &io::Error, verb: Verb) -> Status {
    match error.kind() {
        // Of the check above; the system gives an error a number.
        ErrorKind::InvalidInput if error.raw_os_error().is_none() => Status::LBA_OUT_OF_RANGE,
        ErrorKind::Unsupported if error.raw_os_error().is_none() => Status::INVALID_OPCODE,
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Status::CAPACITY_EXCEEDED,
        // Somebody has made the file shorter.
        ErrorKind::UnexpectedEof => Status::UNRECOVERED_READ_ERROR,
        _ if verb.reads() => Status::UNRECOVERED_READ_ERROR,
        _ => Status::WRITE_FAULT,
    }
}

/// A part on its way to a thread.
#[derive(Debug)]
struct Part {
    tag: u32,
    part: Operation,
    data: Vec<u8>,
}

/// A [`BlockFile`] as a block device. When it is dropped, what is under way is still done.
#[derive(Debug)]
pub struct FileDevice {
    file: BlockFile,
    depth: usize,
    outstanding: usize,
    work: mpsc::Sender<Part>,
    completed: mpsc::Receiver<Completed>,
}

impl FileDevice {
    /// Bytes of one read, write or copy at most.
    pub const TRANSFER: u32 = 1 << 20;

    /// The file.
    #[must_use]
    pub fn file(&self) -> &BlockFile {
        &self.file
    }

    /// Parts under way.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.outstanding
    }

    /// The next part that ends: waits until `timeout` has passed.
    ///
    /// # Errors
    /// All threads have ended.
    pub fn next(&mut self, timeout: Duration) -> io::Result<Option<Completed>> {
        match self.completed.recv_timeout(timeout) {
            Ok(completed) => {
                self.outstanding -= 1;
                Ok(Some(completed))
            }
            Err(mpsc::RecvTimeoutError::Timeout) => Ok(None),
            Err(mpsc::RecvTimeoutError::Disconnected) => Err(gone()),
        }
    }
}

fn gone() -> io::Error {
    io::Error::other("the threads that read and write the file have ended")
}

impl BlockDevice for FileDevice {
    type Error = io::Error;

    fn geometry(&self) -> Geometry {
        let BlockFile { block_size, blocks, .. } = self.file;
        let fit = |bytes: u32| (bytes / block_size).max(1);
        let transfer = fit(Self::TRANSFER);
        let deallocate = fit(DEALLOCATE);
        let limits =
            Limits { transfer, write_zeroes: transfer, deallocate, copy: transfer, append: transfer };
        Geometry { block_size, blocks, limits }
    }

    fn room(&self) -> usize {
        self.depth - self.outstanding
    }

    fn submit(&mut self, _now: Nanos, tag: u32, part: &Operation, data: Vec<u8>) -> io::Result<()> {
        self.work.send(Part { tag, part: *part, data }).map_err(|_| gone())?;
        self.outstanding += 1;
        Ok(())
    }

    fn poll(&mut self, _now: Nanos) -> io::Result<Option<Completed>> {
        self.next(Duration::ZERO)
    }

    fn next_event(&self) -> Nanos {
        if self.outstanding == 0 { Nanos::MAX } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blockdev::conformance;

    fn file(dir: &tempfile::TempDir, bytes: u64) -> PathBuf {
        let path = dir.path().join("file");
        File::create(&path).unwrap().set_len(bytes).unwrap();
        path
    }

    fn run(device: &mut FileDevice, verb: Verb, lba: u64, blocks: u32, data: Vec<u8>) -> Completed {
        device.submit(0, 7, &Operation { verb, lba, blocks }, data).unwrap();
        let completed = device.next(Duration::from_secs(60)).unwrap().unwrap();
        assert_eq!((completed.tag, device.outstanding()), (7, 0));
        completed
    }

    #[test]
    fn a_file_conforms() {
        for seed in 0..3 {
            let dir = tempfile::tempdir().unwrap();
            // Some bytes behind the last block.
            let path = file(&dir, 600 * 512 + 100);
            let mut device = BlockFile::open(&path).unwrap().device(1 + 3 * seed as usize).unwrap();
            assert_eq!((device.block_size(), device.blocks()), (512, 600));
            conformance::check(&mut device, seed, 150, |_| {
                std::thread::sleep(Duration::from_micros(50));
                0
            });
            assert_eq!(std::fs::metadata(&path).unwrap().len(), 600 * 512 + 100);
        }
    }

    #[test]
    fn what_is_written_is_in_the_file_and_its_size_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = file(&dir, 16 * 4096);
        let mut device = BlockFile::open(&path).unwrap().device(4).unwrap();
        for (verb, lba) in [(Verb::Write, 8), (Verb::WriteFua, 120)] {
            assert!(run(&mut device, verb, lba, 8, vec![lba as u8; 4096]).status.is_success());
        }
        assert!(run(&mut device, Verb::Flush, 0, 0, Vec::new()).status.is_success());
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!((bytes.len(), bytes[4096], bytes[65535], bytes[0]), (65536, 8, 120, 0));
        // The last block, and one more.
        for verb in [
            Verb::Write,
            Verb::Trim,
            Verb::WriteZeroes { deallocate: false },
            Verb::Copy { from: 0, fua: false },
        ] {
            let data = if verb == Verb::Write { vec![1; 1024] } else { Vec::new() };
            assert_eq!(run(&mut device, verb, 127, 2, data).status, Status::LBA_OUT_OF_RANGE);
        }
        let copy = Verb::Copy { from: 127, fua: false };
        assert_eq!(run(&mut device, copy, 0, 2, Vec::new()).status, Status::LBA_OUT_OF_RANGE);
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
    }

    #[test]
    fn a_deallocation_gives_space_back() {
        use std::os::unix::fs::MetadataExt;
        let dir = tempfile::tempdir().unwrap();
        let path = file(&dir, 1 << 20);
        let mut device = BlockFile::open(&path).unwrap().device(1).unwrap();
        assert!(run(&mut device, Verb::Write, 0, 2048, vec![1; 1 << 20]).status.is_success());
        assert!(run(&mut device, Verb::Flush, 0, 0, Vec::new()).status.is_success());
        let before = std::fs::metadata(&path).unwrap().blocks();
        assert!(run(&mut device, Verb::Trim, 0, 2048, Vec::new()).status.is_success());
        let after = std::fs::metadata(&path).unwrap();
        assert!(after.blocks() < before, "{} {before}", after.blocks());
        assert_eq!(after.len(), 1 << 20);
    }

    #[test]
    fn a_file_that_has_become_shorter_fails_reads() {
        let dir = tempfile::tempdir().unwrap();
        let path = file(&dir, 1 << 16);
        let mut device = BlockFile::open(&path).unwrap().device(1).unwrap();
        OpenOptions::new().write(true).open(&path).unwrap().set_len(4096 + 512).unwrap();
        assert!(run(&mut device, Verb::Read, 0, 8, vec![0; 4096]).status.is_success());
        let short = run(&mut device, Verb::Read, 8, 8, vec![0; 4096]);
        assert_eq!((short.status, short.data.len()), (Status::UNRECOVERED_READ_ERROR, 4096));
    }

    #[test]
    fn a_device_that_is_full_says_so() {
        // Every write to it fails for lack of space.
        let mut device = full().device(1).unwrap();
        assert_eq!(run(&mut device, Verb::Write, 0, 1, vec![1; 512]).status, Status::CAPACITY_EXCEEDED);
    }

    /// A file that can be neither written nor synced.
    fn full() -> BlockFile {
        BlockFile {
            file: Arc::new(OpenOptions::new().read(true).write(true).open("/dev/full").unwrap()),
            in_doubt: Arc::default(),
            path: "/dev/full".into(),
            block_size: 512,
            blocks: 100,
            direct: false,
        }
    }

    #[test]
    fn a_sync_that_failed_is_not_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let path = file(&dir, 1 << 16);
        let healthy = BlockFile::open(&path).unwrap();
        for verb in [Verb::Flush, Verb::WriteFua, Verb::ReadFua] {
            let failing = full();
            let blocks = u32::from(verb != Verb::Flush);
            let data = vec![1; 512 * blocks as usize];
            assert!(!run(&mut failing.device(1).unwrap(), verb, 0, blocks, data).status.is_success());
            // The same file, whose system has reported the loss and has no more to say.
            let after = BlockFile { in_doubt: failing.in_doubt.clone(), ..healthy.clone() };
            let mut devices = [after.device(1).unwrap(), after.device(1).unwrap()];
            for device in &mut devices {
                assert!(run(device, Verb::Write, 0, 1, vec![2; 512]).status.is_success());
                assert_eq!(
                    run(device, Verb::Flush, 0, 0, Vec::new()).status,
                    Status::WRITE_FAULT,
                    "{verb:?}"
                );
                assert!(!run(device, Verb::ReadFua, 0, 1, vec![0; 512]).status.is_success());
            }
        }
        let mut anew = BlockFile::open(&path).unwrap().device(1).unwrap();
        assert!(run(&mut anew, Verb::Flush, 0, 0, Vec::new()).status.is_success());
    }

    #[test]
    fn only_files_and_block_devices_that_exist_are_opened() {
        let dir = tempfile::tempdir().unwrap();
        let missing = BlockFile::open(&dir.path().join("nothing")).unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
        assert!(!dir.path().join("nothing").exists());
        for path in [dir.path(), Path::new("/dev/null")] {
            assert!(BlockFile::open(path).unwrap_err().to_string().contains("neither"), "{path:?}");
        }
        assert!(BlockFile::open(&file(&dir, 511)).unwrap_err().to_string().contains("smaller than 512"));
    }
}
