//! Reads that miss the host's page cache: threads wait for the disk, and the drive goes on meanwhile.
//!
//! A slot never changes while somebody refers to it, so the reference that is counted here for each read is all that
//! keeps what was asked for. The command's completion is held until all of its reads have ended.

use super::error::ImageError;
use crate::memory::SLOT;
use ftl::Io;
use media::Slot;
use nvme::{Completion, Status};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Threads: reads that a disk gets at once.
const READERS: usize = 8;

struct Ask {
    ticket: u64,
    /// Byte of the contents.
    at: u64,
    bytes: Vec<u8>,
}

struct Answer {
    ticket: u64,
    bytes: io::Result<Vec<u8>>,
}

/// A read that is under way.
struct Under {
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
pub(crate) struct Ended {
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
pub(crate) struct Cold {
    asks: Option<Sender<Ask>>,
    answers: Receiver<Answer>,
    threads: Vec<JoinHandle<()>>,
    under: HashMap<u64, Under>,
    commands: HashMap<Io, Command>,
    next: u64,
}

impl Cold {
    pub(crate) fn start(
        contents: &File,
        notify: &Arc<dyn Fn() + Send + Sync>,
        dir: &Path,
    ) -> Result<Self, ImageError> {
        let (asks, todo) = channel::<Ask>();
        let (done, answers) = channel();
        let todo = Arc::new(Mutex::new(todo));
        let mut threads = Vec::with_capacity(READERS);
        for _ in 0..READERS {
            let file = contents.try_clone().map_err(ImageError::io("open the contents of", dir))?;
            let (todo, done, notify) = (todo.clone(), done.clone(), notify.clone());
            let work = move || {
                loop {
                    let ask = todo.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok(Ask { ticket, at, mut bytes }) = ask else { break };
                    let bytes = read(&file, at, &mut bytes).map(|()| bytes);
                    if done.send(Answer { ticket, bytes }).is_err() {
                        break;
                    }
                    notify();
                }
            };
            let thread = std::thread::Builder::new().name("tranche-read".to_owned()).spawn(work);
            threads.push(thread.map_err(ImageError::io("start a thread for", dir))?);
        }
        let (under, commands) = (HashMap::new(), HashMap::new());
        Ok(Cold { asks: Some(asks), answers, threads, under, commands, next: 0 })
    }

    /// Begins a read; the caller has counted a reference for the slot.
    pub(crate) fn begin(&mut self, io: Io, host: Range<usize>, slot: Slot, page: u32) {
        let ticket = self.next;
        self.next += 1;
        let at = u64::from(slot.0) * SLOT as u64 + u64::from(page);
        let bytes = vec![0; host.len()];
        self.commands.entry(io).or_default().reads += 1;
        self.under.insert(ticket, Under { io, host, slot });
        if let Some(asks) = &self.asks {
            // The threads live as long as this does.
            let _ = asks.send(Ask { ticket, at, bytes });
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
            // What it has read is not what was asked for.
            Some(_) => {
                self.commands.remove(&io);
                Some(spoilt(completion))
            }
            None => Some(completion),
        }
    }

    /// A read that has ended since.
    pub(crate) fn ended(&mut self) -> Option<Ended> {
        loop {
            let Answer { ticket, bytes } = self.answers.try_recv().ok()?;
            // Of a command that power was lost on: nobody waits, and the number may be another's.
            let Some(Under { io, host, slot }) = self.under.remove(&ticket) else { continue };
            if let Err(e) = &bytes {
                tracing::error!("cannot read the contents of a slot ({}): {e}", slot.0);
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
            return Some(Ended { io, host, slot, bytes: bytes.ok(), completion });
        }
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

impl Drop for Cold {
    fn drop(&mut self) {
        self.asks = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// A command whose data could not be had.
fn spoilt(completion: Completion) -> Completion {
    if completion.status().is_success() { completion.with_status(Status::INTERNAL_ERROR) } else { completion }
}

/// Reads from the contents; what lies beyond their end was never written and is zeros.
pub(super) fn read(file: &File, mut at: u64, mut bytes: &mut [u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.read_at(bytes, at) {
            Ok(0) => {
                bytes.fill(0);
                return Ok(());
            }
            Ok(n) => {
                at += n as u64;
                bytes = &mut bytes[n..];
            }
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn cold(contents: &File) -> (Cold, Receiver<()>) {
        let (rang, bell) = channel();
        let rang = Mutex::new(rang);
        let notify: Arc<dyn Fn() + Send + Sync> = Arc::new(move || {
            let _ = rang.lock().unwrap().send(());
        });
        (Cold::start(contents, &notify, Path::new("test")).unwrap(), bell)
    }

    fn next(cold: &mut Cold, bell: &Receiver<()>) -> Ended {
        bell.recv_timeout(Duration::from_secs(30)).unwrap();
        cold.ended().unwrap()
    }

    #[test]
    fn a_command_ends_with_the_last_of_its_reads() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&[7; 3 * SLOT], 0).unwrap();
        let (mut cold, bell) = cold(&file);
        let fine = Completion::success(5, 9);
        assert_eq!(cold.hold(Io(1), fine), Some(fine), "nothing to wait for");
        cold.begin(Io(1), 0..SLOT, Slot(2), 0);
        cold.begin(Io(1), SLOT..SLOT + 512, Slot(9), 512);
        assert_eq!(cold.hold(Io(1), fine), None);
        assert_eq!(cold.hold(Io(2), fine), Some(fine), "another one's reads");
        let mut ended = [next(&mut cold, &bell), next(&mut cold, &bell)];
        assert_eq!((ended[0].completion, ended[1].completion), (None, Some(fine)));
        ended.sort_by_key(|read| read.slot);
        assert_eq!(ended[0].bytes.as_deref(), Some(&[7; SLOT][..]));
        // Beyond the end of the file.
        assert_eq!(
            (ended[1].bytes.as_deref(), ended[1].host.clone()),
            (Some(&[0; 512][..]), SLOT..SLOT + 512)
        );
        assert!(!cold.is_busy());
        assert_eq!(cold.hold(Io(1), fine), Some(fine), "the number's next command");
    }

    #[test]
    fn a_disk_that_fails_fails_the_command_before_or_after_its_end() {
        // A directory can be opened but not read.
        let directory = tempfile::tempdir().unwrap();
        let file = File::open(directory.path()).unwrap();
        let (mut cold, bell) = cold(&file);
        let fine = Completion::success(5, 9);
        cold.begin(Io(1), 0..512, Slot(0), 0);
        assert_eq!(cold.hold(Io(1), fine), None);
        let status = next(&mut cold, &bell).completion.unwrap().status();
        assert!(status.is(Status::INTERNAL_ERROR), "{status:?}");
        cold.begin(Io(1), 0..512, Slot(0), 0);
        assert_eq!(next(&mut cold, &bell).completion, None);
        assert!(cold.hold(Io(1), fine).unwrap().status().is(Status::INTERNAL_ERROR));
        assert_eq!(cold.hold(Io(1), fine), Some(fine));
    }

    #[test]
    fn after_a_power_cut_nobody_gets_what_was_asked_before() {
        let file = tempfile::tempfile().unwrap();
        let (mut cold, bell) = cold(&file);
        cold.begin(Io(1), 0..512, Slot(0), 0);
        cold.forget();
        bell.recv_timeout(Duration::from_secs(30)).unwrap();
        assert!(cold.ended().is_none() && !cold.is_busy());
        assert!(cold.hold(Io(1), Completion::success(0, 0)).is_some());
    }
}
