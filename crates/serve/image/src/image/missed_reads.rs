//! Reads that miss the host's page cache: threads wait for the disk, and the drive goes on meanwhile.
//!
//! A slot never changes while it has references. So each read holds a reference to its slot, and needs nothing
//! else. The command's completion is held until all of its reads have ended.

use super::disk::DiskFile;
use super::error::ImageError;
use super::helper::join;
use super::sums::{self, Damage};
use ftl::Io;
use media::Slot;
use nvme::{Completion, Status};
use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Threads: reads that a disk gets at once.
const READERS: usize = 8;

struct ReadRequest {
    ticket: u64,
    slot: Slot,
    /// Checksum of its page.
    sum: u32,
    /// Byte of the page.
    page: u32,
    bytes: Vec<u8>,
}

struct ReadAnswer {
    ticket: u64,
    bytes: Result<Vec<u8>, Damage>,
}

/// A read that is under way.
struct PendingRead {
    io: Io,
    /// Where in the command's buffer its bytes belong.
    host: Range<usize>,
    slot: Slot,
}

#[derive(Default)]
struct Command {
    /// Reads under way.
    reads: u32,
    failed: bool,
    /// How the drive ended it, once it has.
    completion: Option<Completion>,
}

/// A read that has ended.
pub(crate) struct MissedReadEnd {
    pub(crate) io: Io,
    pub(crate) host: Range<usize>,
    /// No longer referred to.
    pub(crate) slot: Slot,
    /// `None` if the disk failed.
    pub(crate) bytes: Option<Vec<u8>>,
    /// The command's completion, if nothing more is to be waited for.
    pub(crate) completion: Option<Completion>,
}

/// Reads under way, and the commands that wait for them.
pub(crate) struct MissedReads {
    readers: Readers,
    under: HashMap<u64, PendingRead>,
    commands: HashMap<Io, Command>,
    next: u64,
}

/// Who waits for the disk.
enum Readers {
    Threads {
        asks: Option<Sender<ReadRequest>>,
        answers: Receiver<ReadAnswer>,
        threads: Vec<JoinHandle<()>>,
    },
    /// No threads: a read ends when [`MissedReads::step`] is called.
    Stepped {
        contents: Arc<dyn DiskFile>,
        asks: Vec<ReadRequest>,
        answers: VecDeque<ReadAnswer>,
    },
}

fn answer(contents: &dyn DiskFile, ask: ReadRequest) -> ReadAnswer {
    let ReadRequest { ticket, slot, sum, page, mut bytes } = ask;
    let read = sums::read(contents, slot, sum, page, &mut bytes);
    ReadAnswer { ticket, bytes: read.map(|()| bytes) }
}

impl MissedReads {
    pub(crate) fn start(
        contents: &Arc<dyn DiskFile>,
        notify: &Arc<dyn Fn() + Send + Sync>,
        dir: &Path,
    ) -> Result<Self, ImageError> {
        let (asks, todo) = channel::<ReadRequest>();
        let (done, answers) = channel();
        let todo = Arc::new(Mutex::new(todo));
        let mut threads = Vec::with_capacity(READERS);
        for _ in 0..READERS {
            let (file, todo, done, notify) = (contents.clone(), todo.clone(), done.clone(), notify.clone());
            let work = move || {
                loop {
                    let ask = todo.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok(ask) = ask else { break };
                    if done.send(answer(&*file, ask)).is_err() {
                        break;
                    }
                    notify();
                }
            };
            let thread = std::thread::Builder::new().name("tranche-read".to_owned()).spawn(work);
            threads.push(thread.map_err(ImageError::io("start a thread for", dir))?);
        }
        Ok(MissedReads::with(Readers::Threads { asks: Some(asks), answers, threads }))
    }

    /// Reads end only when they are told to.
    pub(crate) fn stepped(contents: &Arc<dyn DiskFile>) -> Self {
        let contents = contents.clone();
        MissedReads::with(Readers::Stepped { contents, asks: Vec::new(), answers: VecDeque::new() })
    }

    /// The host's disk answers one of the reads, whichever `choice` says.
    pub(crate) fn step(&mut self, choice: u64) {
        let Readers::Stepped { contents, asks, answers } = &mut self.readers else { return };
        if !asks.is_empty() {
            let ask = asks.swap_remove((choice % asks.len() as u64) as usize);
            answers.push_back(answer(&**contents, ask));
        }
    }

    fn with(readers: Readers) -> Self {
        MissedReads { readers, under: HashMap::new(), commands: HashMap::new(), next: 0 }
    }

    /// Begins a read; the caller has counted a reference for the slot.
    pub(crate) fn begin(&mut self, io: Io, host: Range<usize>, slot: Slot, sum: u32, page: u32) {
        let ticket = self.next;
        self.next += 1;
        let bytes = vec![0; host.len()];
        self.commands.entry(io).or_default().reads += 1;
        self.under.insert(ticket, PendingRead { io, host, slot });
        let ask = ReadRequest { ticket, slot, sum, page, bytes };
        match &mut self.readers {
            Readers::Threads { asks, .. } => {
                if let Some(asks) = asks {
                    // The threads live as long as this does.
                    let _ = asks.send(ask);
                }
            }
            Readers::Stepped { asks, .. } => asks.push(ask),
        }
    }

    fn answer(&mut self) -> Option<ReadAnswer> {
        match &mut self.readers {
            Readers::Threads { answers, .. } => answers.try_recv().ok(),
            Readers::Stepped { answers, .. } => answers.pop_front(),
        }
    }

    /// The drive has ended a command: gives the completion back if it need not wait.
    #[inline]
    pub(crate) fn hold(&mut self, io: Io, completion: Completion) -> Option<Completion> {
        if self.commands.is_empty() {
            return Some(completion);
        }
        match self.commands.get_mut(&io) {
            Some(command) if command.reads > 0 => {
                command.completion = Some(completion);
                None
            }
            // A read of it has failed.
            Some(_) => {
                self.commands.remove(&io);
                Some(spoilt(completion))
            }
            None => Some(completion),
        }
    }

    /// A read that has ended since.
    pub(crate) fn ended(&mut self) -> Option<MissedReadEnd> {
        loop {
            let ReadAnswer { ticket, bytes } = self.answer()?;
            // The read belonged to a command that ended with the power. Another command may have its number by now.
            let Some(PendingRead { io, host, slot }) = self.under.remove(&ticket) else { continue };
            if let Err(damage) = &bytes {
                tracing::error!("{damage}");
            }
            let command = self.commands.entry(io).or_default();
            command.reads = command.reads.saturating_sub(1);
            command.failed |= bytes.is_err();
            let failed = command.failed;
            let mut completion = None;
            if command.reads == 0 {
                completion = command.completion.take();
                completion = if failed { completion.map(spoilt) } else { completion };
                // Without a completion the drive is still at it, and a failure is to be remembered until it has ended.
                if completion.is_some() || !failed {
                    self.commands.remove(&io);
                }
            }
            return Some(MissedReadEnd { io, host, slot, bytes: bytes.ok(), completion });
        }
    }

    /// The slots that reads under way refer to, each as often as it is read.
    pub(crate) fn slots(&self) -> impl Iterator<Item = Slot> {
        self.under.values().map(|read| read.slot)
    }

    /// Whether any read is under way.
    pub(crate) fn is_busy(&self) -> bool {
        !self.under.is_empty()
    }

    /// Power was lost, or all references are counted anew: nobody waits any more.
    pub(crate) fn forget(&mut self) {
        self.under.clear();
        self.commands.clear();
    }
}

impl Drop for MissedReads {
    fn drop(&mut self) {
        if let Readers::Threads { asks, threads, .. } = &mut self.readers {
            *asks = None;
            threads.drain(..).for_each(join);
        }
    }
}

/// The completion of a command whose data could not be read.
fn spoilt(completion: Completion) -> Completion {
    if completion.status().is_success() { completion.with_status(Status::INTERNAL_ERROR) } else { completion }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::disk::{Disk, HostDisk, Open};
    use crate::image::files::CONTENTS;
    use crate::image::tests::{ImageFixture, step, sync};
    use crate::image::{BackgroundWork, Image, ImageOptions};
    use crate::memory::SLOT;
    use media::Nanos;
    use std::fs;
    use std::time::Duration;

    /// A file with bytes, and the directory that it is in.
    fn file(bytes: &[u8]) -> (tempfile::TempDir, Arc<dyn DiskFile>) {
        let temp = tempfile::tempdir().unwrap();
        let file = HostDisk::open_dir(temp.path()).unwrap().open("file", Open::Create).unwrap();
        file.write_at(bytes, 0).unwrap();
        (temp, file)
    }

    fn reads(contents: &Arc<dyn DiskFile>) -> (MissedReads, Receiver<()>) {
        let (rang, bell) = channel();
        let rang = Mutex::new(rang);
        let notify: Arc<dyn Fn() + Send + Sync> = Arc::new(move || {
            let _ = rang.lock().unwrap().send(());
        });
        (MissedReads::start(contents, &notify, Path::new("test")).unwrap(), bell)
    }

    fn next(reads: &mut MissedReads, bell: &Receiver<()>) -> MissedReadEnd {
        bell.recv_timeout(Duration::from_secs(30)).unwrap();
        reads.ended().unwrap()
    }

    #[test]
    fn a_command_ends_with_the_last_of_its_reads() {
        let (_temp, file) = file(&[7; 3 * SLOT]);
        let (mut reads, bell) = reads(&file);
        let fine = Completion::success(5, 9);
        assert_eq!(reads.hold(Io(1), fine), Some(fine), "nothing to wait for");
        reads.begin(Io(1), 0..SLOT, Slot(2), sums::sum(&[7; SLOT]), 0);
        reads.begin(Io(1), SLOT..SLOT + 512, Slot(1), sums::UNKNOWN, 512);
        assert_eq!(reads.hold(Io(1), fine), None);
        assert_eq!(reads.hold(Io(2), fine), Some(fine), "another one's reads");
        let mut ended = [next(&mut reads, &bell), next(&mut reads, &bell)];
        assert_eq!((ended[0].completion, ended[1].completion), (None, Some(fine)));
        ended.sort_by_key(|read| read.slot);
        assert_eq!(
            (ended[0].bytes.as_deref(), ended[0].host.clone()),
            (Some(&[7; 512][..]), SLOT..SLOT + 512)
        );
        assert_eq!(ended[1].bytes.as_deref(), Some(&[7; SLOT][..]));
        assert!(!reads.is_busy());
        assert_eq!(reads.hold(Io(1), fine), Some(fine), "the number's next command");
    }

    #[test]
    fn a_disk_that_fails_fails_the_command_before_or_after_its_end() {
        // What it gives is not what was written.
        let (_temp, file) = file(&[7; SLOT]);
        let sum = sums::sum(&[8; SLOT]);
        let (mut reads, bell) = reads(&file);
        let fine = Completion::success(5, 9);
        reads.begin(Io(1), 0..512, Slot(0), sum, 0);
        assert_eq!(reads.hold(Io(1), fine), None);
        let status = next(&mut reads, &bell).completion.unwrap().status();
        assert!(status.is(Status::INTERNAL_ERROR), "{status:?}");
        reads.begin(Io(1), 0..512, Slot(0), sum, 0);
        assert_eq!(next(&mut reads, &bell).completion, None);
        assert!(reads.hold(Io(1), fine).unwrap().status().is(Status::INTERNAL_ERROR));
        assert_eq!(reads.hold(Io(1), fine), Some(fine));
    }

    #[test]
    fn after_a_power_cut_nobody_gets_what_was_asked_before() {
        let (_temp, file) = file(&[]);
        let (mut reads, bell) = reads(&file);
        reads.begin(Io(1), 0..512, Slot(0), sums::UNKNOWN, 0);
        reads.forget();
        bell.recv_timeout(Duration::from_secs(30)).unwrap();
        assert!(reads.ended().is_none() && !reads.is_busy());
        assert!(reads.hold(Io(1), Completion::success(0, 0)).is_some());
    }

    /// Reads of pages that are not in the host's memory wait for its disk while what they read is erased for good.
    #[test]
    fn what_a_missed_read_refers_to_is_erased_after_the_read() {
        for all in [false, true] {
            let fixture = ImageFixture::new();
            let mut image = fixture.open_by(None, ImageOptions::default(), BackgroundWork::Stepped).unwrap();
            let slots: Vec<Slot> = (0..3).filter_map(|_| image.allocate()).collect();
            slots.iter().for_each(|&slot| image.write(slot, &[7; SLOT], None).unwrap());
            // One page is read twice, one is read and stays.
            for (io, slot) in [(1, slots[0]), (2, slots[0]), (3, slots[2])] {
                image.begin_missed_read(Io(io), 0..512, slot, 0);
            }
            slots[..2].iter().for_each(|&slot| image.release(slot));
            step(&mut image, 0..1);
            image.want_forget(Io(9), all);
            let end_read = |image: &mut Image| {
                image.end_missed_read(0);
                let read = image.missed_reads().ended().unwrap();
                assert_eq!(read.bytes, Some(vec![7; 512]));
                image.release(read.slot);
                image.commit(Nanos(10)).unwrap();
                read.io
            };
            assert!(!image.forget_is_due());
            assert_eq!(end_read(&mut image), Io(1));
            assert!(!image.forget_is_due());
            // The last one takes the place of the first.
            assert_eq!(end_read(&mut image), Io(3));
            assert!(!image.forget_is_due());
            image.begin_missed_read(Io(4), 0..512, slots[2], 0);
            assert_eq!(end_read(&mut image), Io(2));
            assert!(image.forget_is_due(), "the read that is left is of a page that stays");
            image.forget(b"", Nanos(11), &mut Vec::new());
            image.settle(&mut Vec::new());
            let contents = fs::read(fixture.dir().join(CONTENTS)).unwrap();
            let left = contents.iter().filter(|&&byte| byte == 7).count();
            assert_eq!(left, if all { 0 } else { SLOT }, "all {all}");
        }
    }

    /// However many hosts read a page, its slot is free when they have ended.
    #[test]
    fn no_number_of_reads_makes_a_slot_useless() {
        let fixture = ImageFixture::new();
        let mut image = fixture.open_by(None, ImageOptions::default(), BackgroundWork::Stepped).unwrap();
        let slot = image.allocate().unwrap();
        image.write(slot, &[7; SLOT], None).unwrap();
        let begun = (0..1000).filter(|&io| image.begin_missed_read(Io(io), 0..512, slot, 0)).count();
        assert!(begun > 8, "{begun}");
        image.release(slot);
        for _ in 0..begun {
            image.end_missed_read(0);
            let read = image.missed_reads().ended().unwrap();
            image.release(read.slot);
        }
        step(&mut image, 0..1);
        sync(&mut image, 1);
        assert_eq!(image.slots.available(), image.slots.count());
    }
}
