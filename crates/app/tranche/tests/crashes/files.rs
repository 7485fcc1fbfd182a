//! Files whose `fsync` was acknowledged are there after a crash of the drive, and the file system is sound.

use super::Options;
use super::events::Event;
use super::mounted::{MountSetup, Mounted};
use super::scene::Scene;
use super::stamp::Random;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{Error, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const WRITERS: u64 = 3;
/// Files of a writer at a time.
const FILES: usize = 40;

const WITNESS: &str = "witness";

/// What is known of a file.
#[derive(Debug, Default)]
struct Known {
    /// Bytes that an acknowledged `fsync` covers, once one of its directory does as well.
    sure: Option<usize>,
    /// Bytes that were written, or nearly.
    tried: usize,
    /// It was removed, but that was not synchronised.
    removed: bool,
}

#[derive(Debug)]
struct Writer {
    index: u64,
    dir: PathBuf,
    files: BTreeMap<u64, Known>,
    /// Why they are not there.
    gone: BTreeMap<u64, &'static str>,
    last: u64,
    random: Random,
}

/// The bytes of a file: those of another, or of another place, are different.
fn content(writer: u64, file: u64, len: usize) -> Vec<u8> {
    let mut random = Random::new(writer << 48 ^ file);
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        bytes.extend(random.next().to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

impl Writer {
    fn path(&self, file: u64) -> PathBuf {
        self.dir.join(file.to_string())
    }

    fn work(&mut self, stop: &AtomicBool, done: &AtomicU64) -> Result<(), Error> {
        while !stop.load(Ordering::SeqCst) {
            if self.files.len() >= FILES || self.random.one_in(6) {
                self.remove()?;
            } else {
                self.extend()?;
            }
            done.fetch_add(1, Ordering::SeqCst);
        }
        Ok(())
    }

    fn any(&mut self) -> Option<u64> {
        let count = self.files.len() as u64;
        let index = if count == 0 { 0 } else { self.random.below(count) };
        self.files.keys().nth(index as usize).copied()
    }

    /// Makes durable which files there are.
    fn synchronise(&self) -> Result<(), Error> {
        File::open(&self.dir)?.sync_all()?;
        // XFS that has shut down, as its log met an error, answers with success for a directory, though what was removed
        // comes back; for a file it tells.
        File::create(self.dir.join(WITNESS))?.sync_all()
    }

    fn remove(&mut self) -> Result<(), Error> {
        let Some(file) = self.any() else { return Ok(()) };
        self.files.get_mut(&file).unwrap().removed = true;
        fs::remove_file(self.path(file))?;
        self.synchronise()?;
        self.files.remove(&file);
        self.gone.insert(file, "removed and synchronised");
        Ok(())
    }

    /// A new file, or more of an old one.
    fn extend(&mut self) -> Result<(), Error> {
        let old = if self.random.one_in(2) { self.any() } else { None };
        let file = old.unwrap_or(self.last + 1);
        self.last = self.last.max(file);
        let most = if self.random.one_in(4) { 200_000 } else { 5000 };
        let more = 1 + self.random.below(most) as usize;
        let path = self.path(file);
        let synchronised = !self.random.one_in(5);
        let known = self.files.entry(file).or_default();
        let from = known.tried;
        known.tried = from + more;
        let bytes = content(self.index, file, known.tried);
        let mut open = OpenOptions::new().append(true).create(true).open(path)?;
        open.write_all(&bytes[from..])?;
        if synchronised {
            open.sync_all()?;
            let (first, tried) = (known.sure.is_none(), known.tried);
            if first {
                self.synchronise()?;
            }
            self.files.get_mut(&file).unwrap().sure = Some(tried);
        }
        Ok(())
    }

    /// Compares with what is there, and takes that for what was acknowledged.
    fn check(&mut self) -> Result<(), String> {
        for (file, why) in &self.gone {
            if self.path(*file).exists() {
                return Err(format!("file {file} of writer {} was {why}, and is there", self.index));
            }
        }
        for (file, known) in std::mem::take(&mut self.files) {
            let who = format!("file {file} of writer {}, {known:?}", self.index);
            let found = match fs::read(self.path(file)) {
                Ok(found) => found,
                Err(error)
                    if error.kind() == ErrorKind::NotFound && (known.removed || known.sure.is_none()) =>
                {
                    self.gone.insert(file, "absent after a crash before");
                    continue;
                }
                Err(error) => return Err(format!("{who}: {error}")),
            };
            let sure = known.sure.unwrap_or(0);
            if found.len() < sure || found.len() > known.tried {
                return Err(format!("{who}: {} bytes", found.len()));
            }
            let right = content(self.index, file, found.len());
            let wrong = (0..found.len()).find(|&at| found[at] != right[at] && (at < sure || found[at] != 0));
            if let Some(at) = wrong {
                return Err(format!(
                    "{who}: byte {at} of {} is {:#04x}, not {:#04x}",
                    found.len(),
                    found[at],
                    right[at]
                ));
            }
            if found == right {
                // Not even this is durable unless it was before.
                self.files.insert(file, Known { sure: known.sure, tried: found.len(), removed: false });
            } else {
                fs::remove_file(self.path(file)).map_err(|error| error.to_string())?;
            }
        }
        Ok(())
    }
}

pub fn campaign(kind: MountSetup, scene: &Scene, rounds: u32, options: &Options) -> Result<String, String> {
    let mut random = Random::new(options.seed);
    let mut mounted = Mounted::new(kind, scene, &mut random, options)?;
    let new = |index, random, point: &Path| {
        let dir = point.join(format!("writer{index}"));
        let (files, gone) = <(BTreeMap<_, _>, BTreeMap<_, _>)>::default();
        fs::create_dir_all(&dir).unwrap();
        Writer { index, dir, files, gone, last: 0, random }
    };
    let mut writers: Vec<Writer> =
        (0..WRITERS).map(|index| new(index, random.fork(), &mounted.point)).collect();
    run_sync(&mounted)?;
    let mut operations = 0;
    for round in super::rounds(rounds) {
        let event = mounted.events.next(&mut random);
        let done = load(&mut mounted, &mut writers, event, &mut random)?;
        operations += done;
        let recovered = mounted.recover(event, &mut random).and_then(|same| {
            if !same {
                let point = &mounted.point;
                writers = (0..WRITERS).map(|index| new(index, random.fork(), point)).collect();
                run_sync(&mounted)?;
            }
            writers.iter_mut().try_for_each(Writer::check)
        });
        recovered.map_err(|error| format!("round {round}, {}: {error}", mounted.events.story()))?;
    }
    mounted.end()?;
    Ok(format!("{operations} operations on files, {}", mounted.events.summary()))
}

/// The directories of the writers are there whatever happens.
fn run_sync(mounted: &Mounted) -> Result<(), String> {
    let point = File::open(&mounted.point).map_err(|error| error.to_string())?;
    rustix::fs::syncfs(&point).map_err(|error| error.to_string())
}

/// The writers work until so much is done, then the event happens. Returns how much.
fn load(
    mounted: &mut Mounted,
    writers: &mut [Writer],
    event: Event,
    random: &mut Random,
) -> Result<u64, String> {
    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let enough = random.below(400);
    let struck = std::thread::scope(|scope| {
        let threads: Vec<_> = writers
            .iter_mut()
            .map(|writer| {
                let (stop, done) = (&stop, &done);
                scope.spawn(move || writer.work(stop, done))
            })
            .collect();
        while done.load(Ordering::SeqCst) < enough && threads.iter().all(|thread| !thread.is_finished()) {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let early: Vec<_> = threads.iter().map(std::thread::ScopedJoinHandle::is_finished).collect();
        let struck = mounted.strike(event, random);
        stop.store(true, Ordering::SeqCst);
        for (thread, early) in threads.into_iter().zip(early) {
            if let (Err(error), true) = (thread.join().unwrap(), early || event == Event::Stop) {
                return Err(format!(
                    "a file cannot be written, though nothing happened to the drive: {error}"
                ));
            }
        }
        struck
    });
    struck.map(|()| done.load(Ordering::SeqCst))
}
