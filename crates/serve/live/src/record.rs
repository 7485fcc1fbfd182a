//! Writing down what hosts do, while they do it.
//!
//! The drive's thread leaves each I/O command with the time that the drive was told in a bounded queue; a thread of its own
//! writes them to the file ([`blockdev::recording`]) and makes no noise: it looks now and then instead of being woken.
//! When the drive ends, it leaves what its commands took by its own clock, and until their completions were handed over:
//! what the machine adds. Nothing of this ever holds up the drive. If the file cannot be written, or not as fast as commands come, the recording
//! ends, what was written stays, and the log says so.

use blockdev::Verb;
use blockdev::recording::{CommandClass, Entry, HEAD, Latencies};
use device::{ControllerId, Drive};
use ftl::Io;
use image::trust;
use media::Nanos;
use nvme::command_table::{self, LatencyClass};
use nvme::copy::{Copy, CopySource};
use nvme::io::DsmRange;
use nvme::log::{LatencyHistogram, LatencySum, NamespaceStatistics, latency_bucket};
use nvme::zerocopy::FromBytes;
use nvme::{Command, IoCommand};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Commands that may wait to be written: 12 MiB.
const QUEUE: usize = 1 << 18;
/// How often the writing thread looks.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A line of the file.
enum Line {
    Command(Entry),
    /// Boxed, because there are few.
    Latencies(Box<Latencies>),
}

/// Latencies of commands of one kind on one namespace.
#[derive(Default)]
struct HandedOver {
    histogram: Box<LatencyHistogram>,
    sum: LatencySum,
}

/// What the drive's thread has of a recording.
pub(crate) struct Recorder {
    queue: Option<SyncSender<Line>>,
    /// When commands under way came, by their numbers, and what they are.
    under_way: Vec<Option<(Nanos, u32, CommandClass)>>,
    handed_over: BTreeMap<(u32, CommandClass), HandedOver>,
    /// What the drive had counted before.
    before: BTreeMap<u32, NamespaceStatistics>,
    start: Nanos,
    path: PathBuf,
    writer: Option<JoinHandle<()>>,
}

impl Recorder {
    /// Begins a recording at the drive's time `start`. A file that has something in it is not overwritten.
    pub(crate) fn begin(path: &Path, start: Nanos, drive: &Drive) -> io::Result<Recorder> {
        let mut file = BufWriter::with_capacity(1 << 18, open(path)?);
        writeln!(file, "{HEAD}")?;
        file.flush()?;
        let (queue, lines) = sync_channel(QUEUE);
        let to = path.to_owned();
        let writer = std::thread::Builder::new()
            .name("tranche-record".to_owned())
            .spawn(move || keep(file, &lines, &to))?;
        Ok(Recorder {
            queue: Some(queue),
            under_way: Vec::new(),
            handed_over: BTreeMap::new(),
            before: drive.statistics().map(|counts| (counts.nsid.get(), counts)).collect(),
            start,
            path: path.to_owned(),
            writer: Some(writer),
        })
    }

    /// A command of an I/O queue has come.
    #[inline]
    pub(crate) fn note(
        &mut self,
        now: Nanos,
        controller: ControllerId,
        qid: u16,
        command: &Command,
        data: &[u8],
        drive: &Drive,
    ) {
        if self.queue.is_none() {
            return;
        }
        let Ok(parsed) = IoCommand::parse(command) else { return };
        let Some((block, blocks)) = drive.geometry(command.nsid.get()) else { return };
        let at = now.since(self.start).0;
        let queue = u32::from(controller.0) << 16 | u32::from(qid);
        let mut put = |verb, slba: u64, count: u64| {
            // What the drive will refuse is not worth doing again.
            if slba.checked_add(count).is_none_or(|end| end > blocks) {
                return;
            }
            let (offset, bytes) = (slba * u64::from(block), count * u64::from(block));
            self.put(Entry { at, nsid: command.nsid.get(), queue, verb, offset, bytes });
        };
        match parsed {
            IoCommand::Read(b) if b.fua => put(Verb::ReadFua, b.slba, b.nlb.into()),
            IoCommand::Read(b) | IoCommand::Compare(b) => put(Verb::Read, b.slba, b.nlb.into()),
            IoCommand::Write(b) if b.fua => put(Verb::WriteFua, b.slba, b.nlb.into()),
            IoCommand::Write(b) => put(Verb::Write, b.slba, b.nlb.into()),
            IoCommand::Copy(c) => self.copy(at, queue, &c, data, drive),
            IoCommand::WriteZeroes(b) if b.nsz => put(Verb::Trim, 0, blocks),
            IoCommand::WriteZeroes(b) => put(Verb::Trim, b.slba, b.nlb.into()),
            IoCommand::Flush { .. } => put(Verb::Flush, 0, 0),
            IoCommand::DatasetManagement(d) if d.ad => {
                for range in data.chunks_exact(size_of::<DsmRange>()).take(d.nr.into()) {
                    if let Ok(range) = DsmRange::read_from_bytes(range)
                        && range.lengthlb.get() > 0
                    {
                        put(Verb::Trim, range.slba.get(), range.lengthlb.get().into());
                    }
                }
            }
            _ => {}
        }
    }

    /// A Copy, range by range. One of another namespace is a read there and a write here.
    fn copy(&mut self, at: u64, queue: u32, copy: &Copy, data: &[u8], drive: &Drive) {
        let (Some(each), Some((block, blocks))) = (CopySource::bytes(copy.desfmt), drive.geometry(copy.nsid))
        else {
            return;
        };
        let mut to = copy.sdlba;
        for source in data.chunks_exact(each).take(copy.nr.into()) {
            let Some(source) = CopySource::parse(copy.desfmt, source) else { return };
            let nsid = source.snsid.unwrap_or(copy.nsid);
            let Some((from_block, from_blocks)) = drive.geometry(nsid) else { return };
            let count = u64::from(source.nlb);
            let fits = |slba: u64, blocks| slba.checked_add(count).is_some_and(|end| end <= blocks);
            if !fits(to, blocks) || !fits(source.slba, from_blocks) {
                return;
            }
            let (offset, bytes) = (to * u64::from(block), count * u64::from(block));
            let from = source.slba * u64::from(from_block);
            let here = Entry { at, nsid: copy.nsid, queue, verb: Verb::Write, offset, bytes };
            if nsid == copy.nsid {
                self.put(Entry { verb: Verb::Copy { from, fua: copy.fua }, ..here });
            } else {
                let bytes = count * u64::from(from_block);
                self.put(Entry { nsid, verb: Verb::Read, offset: from, bytes, ..here });
                let verb = if copy.fua { Verb::WriteFua } else { Verb::Write };
                self.put(Entry { verb, ..here });
            }
            to += count;
        }
    }

    /// A command begins, under this number.
    pub(crate) fn begun(&mut self, now: Nanos, io: Io, qid: u16, command: &Command) {
        let of = match command_table::of(command.opc, qid == 0).and_then(|info| info.latency) {
            Some(LatencyClass::Read) => CommandClass::Reads,
            Some(LatencyClass::Write) => CommandClass::Writes,
            Some(LatencyClass::Flush) => CommandClass::Flushes,
            Some(LatencyClass::Deallocate) => CommandClass::Deallocates,
            None => return,
        };
        if self.queue.is_none() {
            return;
        }
        let index = io.0 as usize;
        if self.under_way.len() <= index {
            self.under_way.resize(index + 1, None);
        }
        self.under_way[index] = Some((now, command.nsid.get(), of));
    }

    /// The completion of this number is handed over.
    pub(crate) fn ended(&mut self, now: Nanos, io: Io, ok: bool) {
        let Some((began, nsid, of)) = self.under_way.get_mut(io.0 as usize).and_then(Option::take) else {
            return;
        };
        if !ok {
            return;
        }
        let latency = now.since(began).0;
        let of = self.handed_over.entry((nsid, of)).or_default();
        let count = &mut of.histogram.count[latency_bucket(latency)];
        count.set(count.get().saturating_add(1));
        of.sum.sum_ns.set(of.sum.sum_ns.get().saturating_add(latency));
        of.sum.max_ns.set(of.sum.max_ns.get().max(latency));
    }

    /// The drive ends: what latencies there were.
    pub(crate) fn finish(&mut self, drive: &Drive) {
        for counts in drive.statistics() {
            let nsid = counts.nsid.get();
            let before = self.before.remove(&nsid).unwrap_or_default();
            for of in CommandClass::ALL {
                self.leave(latencies_between(&before, &counts, of));
                if let Some(HandedOver { histogram, sum }) = self.handed_over.remove(&(nsid, of)) {
                    self.leave(latencies(nsid, of, true, &histogram, sum));
                }
            }
        }
        self.queue = None;
    }

    fn leave(&mut self, latencies: Latencies) {
        if latencies.count > 0 {
            self.line(Line::Latencies(Box::new(latencies)));
        }
    }

    fn put(&mut self, entry: Entry) {
        self.line(Line::Command(entry));
    }

    fn line(&mut self, line: Line) {
        let Some(queue) = &self.queue else { return };
        match queue.try_send(line) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => {
                tracing::error!(
                    "the recording to {} has ended: it cannot be written as fast as commands come; what was recorded until now is kept",
                    self.path.display()
                );
                self.queue = None;
            }
            // The writer has said why.
            Err(TrySendError::Disconnected(_)) => self.queue = None,
        }
    }
}

/// What commands of a kind took by the drive's own clock between two states of a namespace's log D8h.
#[must_use]
pub fn latencies_between(
    before: &NamespaceStatistics,
    after: &NamespaceStatistics,
    of: CommandClass,
) -> Latencies {
    let (old, old_sum) = by_drive(before, of);
    let (new, mut sum) = by_drive(after, of);
    sum.sum_ns.set(sum.sum_ns.get().saturating_sub(old_sum.sum_ns.get()));
    latencies(after.nsid.get(), of, false, &new.since(old), sum)
}

fn by_drive(counts: &NamespaceStatistics, of: CommandClass) -> (&LatencyHistogram, LatencySum) {
    match of {
        CommandClass::Reads => (&counts.read_latency, counts.read_latency_sum),
        CommandClass::Writes => (&counts.write_latency, counts.write_latency_sum),
        CommandClass::Flushes => (&counts.flush_latency, counts.flush_latency_sum),
        CommandClass::Deallocates => (&counts.deallocate_latency, counts.deallocate_latency_sum),
    }
}

fn latencies(
    nsid: u32,
    of: CommandClass,
    host: bool,
    histogram: &LatencyHistogram,
    sum: LatencySum,
) -> Latencies {
    // The drive's maximum may be one of before.
    let most = sum.max_ns.get();
    let percentile = |parts| histogram.percentile(parts, 100).unwrap_or(0).min(most);
    let (count, sum) = (histogram.total(), sum.sum_ns.get());
    Latencies { nsid, of, host, count, sum, max: percentile(100), p50: percentile(50), p99: percentile(99) }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(writer) = self.writer.take()
            && writer.join().is_err()
        {
            tracing::error!("the recording to {} is not complete", self.path.display());
        }
    }
}

/// The file, new or empty, or something that is no file (a pipe).
fn open(path: &Path) -> io::Result<File> {
    let file = trust::open_to_write(path)?;
    let metadata = file.metadata()?;
    if metadata.is_file() && metadata.len() > 0 {
        return Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "there is something in this file: name another one, or remove it",
        ));
    }
    Ok(file)
}

/// Writes what comes until nothing more can.
fn keep(mut file: BufWriter<File>, lines: &Receiver<Line>, path: &Path) {
    let mut write = || -> io::Result<()> {
        let mut fresh = false;
        loop {
            match lines.try_recv() {
                Ok(line) => {
                    match line {
                        Line::Command(entry) => entry.write(&mut file)?,
                        Line::Latencies(latencies) => latencies.write(&mut file)?,
                    }
                    fresh = true;
                }
                Err(TryRecvError::Disconnected) => return file.flush(),
                Err(TryRecvError::Empty) => {
                    if std::mem::take(&mut fresh) {
                        file.flush()?;
                    }
                    std::thread::sleep(POLL_INTERVAL);
                }
            }
        }
    };
    if let Err(error) = write() {
        tracing::error!(
            "the recording to {} has ended: {error}; what was recorded until now is kept",
            path.display()
        );
        // What is still buffered cannot be written either.
        drop(file.into_parts());
    }
}
