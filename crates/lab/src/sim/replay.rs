//! A block trace on a drive in virtual time.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, ErrorKind, Read},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, anyhow};
use flate2::bufread::MultiGzDecoder;
use host::Host;
use nvme::Nsid;
use run::sim::{Nanos, Sim, SimTransport};
use ruzstd::decoding::{
    BlockDecodingStrategy, FrameDecoder,
    errors::{FrameDecoderError, ReadFrameHeaderError::SkipFrame},
};
use serde_json::json;
use workload::trace::{Fold, Format, Options, Pace, Reader, Replay, Space, Speed};

use super::{
    agreement::Agreement,
    jobs::LoadResult,
    tally::{self, Tally},
    watch::Watch,
};
use crate::{bench::progress::Goal, control::Cancel, input::Input};

/// How traces are replayed.
#[derive(Clone, Debug)]
pub struct TraceOptions {
    /// How much faster time passes; `None` is as recorded.
    pub speed: Option<Speed>,
    /// Not at their times, but as fast as so many outstanding requests allow.
    pub depth: Option<u32>,
    /// Where addresses beyond the end of the namespace lie.
    pub fold: Fold,
    /// Only these devices, each on its namespace; none: all devices, on the namespaces in turn.
    pub device: Vec<(String, Nsid)>,
    /// Traces of blkparse: the action that counts, Q (queued) or D (issued to the device).
    pub action: char,
    /// In which form it is written; `None`: its first line tells.
    pub format: Option<Format>,
}

impl Default for TraceOptions {
    fn default() -> Self {
        Self { speed: None, depth: None, fold: Fold::Wrap, device: Vec::new(), action: 'Q', format: None }
    }
}

/// A trace that is to be replayed.
#[derive(Clone, Debug)]
pub(super) struct Trace {
    pub path: PathBuf,
    pub name: String,
    pub options: TraceOptions,
}

/// A file of Zstandard: frames, one behind the other, of which some may be there to be skipped.
struct Zstandard<R> {
    frame: FrameDecoder,
    source: R,
}

impl<R: BufRead> Zstandard<R> {
    fn new(source: R) -> Self {
        Self { frame: FrameDecoder::new(), source }
    }

    /// Begins the next frame that has data; false at the end of the file.
    fn begin(&mut self) -> io::Result<bool> {
        while !self.source.fill_buf()?.is_empty() {
            match self.frame.reset(&mut self.source) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(SkipFrame { length, .. })) => {
                    let mut skipped = self.source.by_ref().take(length.into());
                    if io::copy(&mut skipped, &mut io::sink())? < length.into() {
                        return Err(ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(error) => return Err(of_zstandard(error)),
            }
        }
        Ok(false)
    }

    /// At the end of a frame: whether its data are what they were.
    fn check(&self) -> io::Result<()> {
        match (self.frame.get_checksum_from_data(), self.frame.get_calculated_checksum()) {
            (Some(told), Some(found)) if told != found => Err(io::Error::new(
                ErrorKind::InvalidData,
                "the checksum of the Zstandard data does not match",
            )),
            _ => Ok(()),
        }
    }
}

impl<R: BufRead> Read for Zstandard<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // Before the first frame the decoder is at an end, too.
        while self.frame.can_collect() == 0 {
            if self.frame.is_finished() {
                self.check()?;
                if !self.begin()? {
                    return Ok(0);
                }
            } else {
                let one = BlockDecodingStrategy::UptoBlocks(1);
                self.frame.decode_blocks(&mut self.source, one).map_err(of_zstandard)?;
            }
        }
        self.frame.read(buffer)
    }
}

/// An error of the decoder. A file that ends too early is told as by other readers: it is at the root of an error of the decoder's own.
fn of_zstandard(error: FrameDecoderError) -> io::Error {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&error);
    while let Some(one) = cause {
        if one.downcast_ref::<io::Error>().is_some_and(|one| one.kind() == ErrorKind::UnexpectedEof) {
            return ErrorKind::UnexpectedEof.into();
        }
        cause = one.source();
    }
    io::Error::other(error)
}

/// Whether a file can be nothing but a trace: it is compressed, or its first line is one of a trace and of no job file. Only regular files
/// are looked at, of which the beginning can be read again.
pub(super) fn begins_as_trace(path: &Path) -> bool {
    let mut first = Vec::new();
    let regular = path.to_str() != Some("-") && path.is_file();
    let mut read = || File::open(path)?.take(4096).read_to_end(&mut first);
    if !regular || read().is_err() {
        return false;
    }
    let text = String::from_utf8_lossy(&first);
    let line = text.trim_start_matches('\u{feff}').trim_start().lines().next().unwrap_or("");
    match Format::detect(line) {
        Some(Format::Recording) => true,
        // Sections and remarks of job files may have any number of commas.
        Some(_) => !line.starts_with(['[', ';', '#']),
        None => compressed(&first).is_some(),
    }
}

/// How a file is compressed, by its first bytes.
fn compressed(first: &[u8]) -> Option<Compression> {
    match first {
        [0x1F, 0x8B, ..] => Some(Compression::Gzip),
        // A frame with data, or one to be skipped.
        [0x28, 0xB5, 0x2F, 0xFD, ..] | [0x50..=0x5F, 0x2A, 0x4D, 0x18, ..] => Some(Compression::Zstandard),
        _ => None,
    }
}

enum Compression {
    Gzip,
    Zstandard,
}

/// Opens a trace; compressed ones (gzip, Zstandard) are known by their first bytes.
pub(crate) fn open(path: &Path, cancel: &Cancel) -> Result<Box<dyn BufRead>> {
    let raw = Input::open(path, cancel).with_context(|| format!("reading {}", path.display()))?;
    let mut raw = BufReader::with_capacity(1 << 18, raw);
    let first = raw.fill_buf().with_context(|| format!("reading {}", path.display()))?;
    Ok(match compressed(first) {
        Some(Compression::Gzip) => Box::new(BufReader::with_capacity(1 << 18, MultiGzDecoder::new(raw))),
        Some(Compression::Zstandard) => Box::new(BufReader::with_capacity(1 << 18, Zstandard::new(raw))),
        None => Box::new(raw),
    })
}

impl Trace {
    fn reader(&self, cancel: &Cancel) -> Result<Reader<Box<dyn BufRead>>> {
        Reader::new(open(&self.path, cancel)?, self.options.format, Some(self.options.action))
            .map_err(|error| anyhow!("{}:{}: {}", self.name, error.line, error.problem))
    }

    /// Whether it begins as a trace does.
    ///
    /// # Errors
    /// It cannot be read, or is no trace. What comes later shows when it is replayed.
    pub fn check(&self) -> Result<()> {
        // What was read of a pipe would be missing later.
        if self.path.is_file() {
            self.reader(&Cancel::default())?;
        }
        Ok(())
    }

    /// The namespaces of its devices, their spaces, and the options of its replay.
    fn lay(
        &self,
        host: &mut Host<SimTransport>,
        nsid: Option<Nsid>,
    ) -> Result<(Vec<Nsid>, Vec<Space>, Options)> {
        let nsids = match nsid {
            Some(nsid) => vec![nsid],
            None => host.active_namespaces()?,
        };
        let mut spaces = Vec::new();
        for &nsid in &nsids {
            let namespace = host.namespace(nsid)?;
            spaces.push(Space { nsid, blocks: namespace.blocks, block_bytes: namespace.block_size });
        }
        let mut devices = Vec::new();
        for (name, nsid) in &self.options.device {
            let Some(at) = nsids.iter().position(|known| known == nsid) else {
                crate::misuse!("--only {name}={nsid}: the load has no namespace {nsid}, there are {nsids:?}");
            };
            devices.push((name.clone(), at as u16));
        }
        let pace = match self.options.depth {
            Some(depth) => Pace::Depth(depth),
            None => Pace::Recorded(self.options.speed.unwrap_or(Speed::ONE)),
        };
        Ok((nsids, spaces, Options { pace, fold: self.options.fold, devices, powered: None }))
    }

    /// Whether the drive has the namespaces that it needs. Nothing is read or written, also not of the trace.
    ///
    /// # Errors
    /// It has not.
    pub fn fits(&self, host: &mut Host<SimTransport>, nsid: Option<Nsid>) -> Result<()> {
        self.lay(host, nsid).map(drop)
    }

    /// Replays it.
    ///
    /// # Errors
    /// It is no trace, or does not fit the drive.
    pub fn play(
        &self,
        sim: &Sim,
        host: &mut Host<SimTransport>,
        nsid: Option<Nsid>,
        watch: &mut Watch<'_>,
    ) -> Result<LoadResult> {
        let (nsids, spaces, options) = self.lay(host, nsid)?;
        let pace = options.pace;
        let agreement = Agreement::begin(host, &nsids)?;
        let powered = agreement.powered_for().map(|span| sim.now().since(span).0);
        let options = Options { powered, ..options };
        let replay = Replay::new(self.reader(watch.cancel())?, options, &spaces)
            .map_err(|problem| anyhow!("{}: {problem}", self.name))?;
        let mut actors = sim.actors();
        actors.add_over(host, &nsids, replay)?;
        let blocks: Vec<u64> = spaces.iter().map(|space| space.block_bytes.into()).collect();
        watch.goals(vec![(Goal::unknown(), blocks[0])], sim.now());
        let mut tally = Tally::new(blocks, sim.now())?;
        watch.run(&mut actors, sim, Nanos::MAX, |step| tally.step(step))?;
        watch.check_time()?;
        let (replay, outcome) = (actors.actor(0), actors.outcome(0));
        // Latencies of other times or fewer commands are others.
        let whole = pace == Pace::Recorded(Speed::ONE) && self.options.device.is_empty();
        let told = if whole { replay.reader().latencies() } else { &[] };
        let (agreement, latencies) = agreement.end(host, told)?;
        let reader = replay.reader();
        let mut problems = Vec::new();
        let (mut notes, mut doubts) = (Vec::new(), Vec::new());
        if let Some(error) = replay.error() {
            problems.push(format!(
                "{}:{}: {}; what came before was replayed",
                self.name, error.line, error.problem
            ));
        }
        if outcome.failed > 0 {
            problems.push(format!("{} requests failed", outcome.failed));
        }
        if let Some(line) = reader.cut() {
            let doubt = format!("the trace ends in the middle of line {line}, which was left out");
            notes.push(doubt.clone());
            doubts.push(format!("{}: {doubt}: perhaps more of it is missing", self.name));
        }
        if replay.late() > 0 {
            notes.push(format!("the latest request was {} us late", replay.late() / 1000));
        }
        for (count, what) in [
            (reader.reordered(), "lines have a time before an earlier one's"),
            (reader.ignored(), "lines are no I/O that counts"),
            (replay.left_out(), "I/Os are of devices that were not asked for"),
            (replay.folded(), "requests were moved or shortened to fit their namespace"),
        ] {
            if count > 0 {
                notes.push(format!("{count} {what}"));
            }
        }
        let traffic = tally.moved(sim.now());
        let document = json!({
            "trace": {
                "format": format!("{:?}", reader.format()),
                "devices": reader.devices(),
                "lines": reader.lines(),
                "requests": replay.events(),
                "cut_at_line": reader.cut(),
                "late_ns": replay.late(),
                "reordered": reader.reordered(),
                "ignored": reader.ignored(),
                "left_out": replay.left_out(),
                "folded": replay.folded(),
                "latencies": latencies,
            },
            "requests": tally::json(&traffic),
        });
        let notes: String = notes.iter().map(|note| format!("  {note}\n")).collect();
        let text = format!(
            "{}: {} requests of {} devices\n{}{agreement}{notes}",
            self.name,
            replay.events(),
            reader.devices().len(),
            tally::text(&traffic)
        );
        Ok(LoadResult {
            document,
            text,
            traffic,
            requests: outcome.requests,
            digest: outcome.digest,
            problems,
            doubts,
            interrupted: watch.interrupted(),
            ..LoadResult::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compressed_traces_are_read() {
        let text = b"0,R,0,4096,1\n0,W,8192,4096,2\n0,R,4096,4096,3\n";
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        io::Write::write_all(&mut gzip, text).unwrap();
        let gzip = gzip.finish().unwrap();
        // A frame of Zstandard (RFC 8878) with blocks as they are: magic number, no content size, a window of 1 KiB; each block's size, and
        // whether it is the last.
        let zstd = |text: &[u8]| {
            let mut frame = vec![0x28, 0xB5, 0x2F, 0xFD, 0, 0];
            let blocks = text.chunks(1000).len();
            for (n, block) in text.chunks(1000).enumerate() {
                let header = u32::from(n + 1 == blocks) | (block.len() as u32) << 3;
                frame.extend(&header.to_le_bytes()[..3]);
                frame.extend(block);
            }
            frame
        };
        let dir = tempfile::tempdir().unwrap();
        let count = |name: &str, bytes: &[u8]| {
            let path = dir.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            let options = TraceOptions::default();
            let mut reader = Trace { path, name: name.to_owned(), options }.reader(&Cancel::default())?;
            let mut events = 0;
            while reader.next_event()?.is_some() {
                events += 1;
            }
            assert_eq!(reader.cut(), None);
            anyhow::Ok(events)
        };
        assert_eq!(count("plain", text).unwrap(), 3);
        assert_eq!(count("gzip", &gzip).unwrap(), 3);
        assert_eq!(count("zstd", &zstd(text)).unwrap(), 3);
        // Several streams in a file, and what is to be skipped between them.
        let skipped = [&[0x50, 0x2A, 0x4D, 0x18, 3, 0, 0, 0][..], b"abc"].concat();
        assert_eq!(count("gzips", &[&gzip[..], &gzip].concat()).unwrap(), 6);
        let frames = [&skipped[..], &zstd(text), &skipped, &zstd(text), &skipped].concat();
        assert_eq!(count("frames", &frames).unwrap(), 6);
        // Wherever one is cut, it is an error: behind its first line, too, and within its checksum.
        let long = zstd(&text.repeat(100));
        for (whole, step) in [(&gzip, 1), (&long, 97), (&long, long.len() - 5)] {
            for end in (4..whole.len()).step_by(step) {
                let error = count("cut", &whole[..end]).unwrap_err().to_string();
                assert!(error.contains("a part of it is missing"), "{end} of {}: {error}", whole.len());
            }
        }
        // Also in the second frame, and in what is to be skipped.
        for end in [frames.len() - 1, frames.len() - skipped.len() - 1] {
            let error = count("cut", &frames[..end]).unwrap_err().to_string();
            assert!(error.contains("a part of it is missing"), "{end}: {error}");
        }
        // A checksum (of no bytes at all the real one is 51D8E999) that does not match.
        let empty = |sum: [u8; 4]| [&[0x28, 0xB5, 0x2F, 0xFD, 4, 0, 1, 0, 0][..], &sum].concat();
        assert_eq!(count("sum", &[&zstd(text)[..], &empty([0x99, 0xE9, 0xD8, 0x51])].concat()).unwrap(), 3);
        let wrong = count("sum", &[&zstd(text)[..], &empty([0; 4])].concat()).unwrap_err().to_string();
        assert!(wrong.contains("line 4") && wrong.contains("checksum"), "{wrong}");
        assert!(count("junk", &[&zstd(text)[..], b"junk"].concat()).is_err());
    }

    #[test]
    fn traces_are_known_by_their_beginning() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("load.txt");
        let begins = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            begins_as_trace(&path)
        };
        let traces: [&[u8]; 7] = [
            b"  8,0    1        1     0.000000000  697  Q   W 223490 + 8 [kjournald]\n",
            b"fio version 2 iolog\r\n/dev/sda add\r\n",
            b"\xEF\xBB\xBF0,R,126703661056,4096,1577808000000046",
            b"128166372003061629,hm,1,Read,2096128,512,6151\n",
            b"# tranche recording 3\n",
            b"\x1F\x8B\x08\0",
            b"\x28\xB5\x2F\xFD\0\0",
        ];
        for trace in traces {
            assert!(begins(trace), "{}", String::from_utf8_lossy(trace));
        }
        for other in
            ["", "[a]\nrw=read\n", "; a, b, c, d, e\n[a]\n", "#a,b,c,d,e\n[a]\n", "[a,b,c,d,e]\n", "x\n"]
        {
            assert!(!begins(other.as_bytes()), "{other}");
        }
        assert!(!begins_as_trace(Path::new("-")) && !begins_as_trace(dir.path()));
    }
}
