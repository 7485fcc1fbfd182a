//! Files of traces: compressed ones, and blktrace's, of which there is one for each processor.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, ErrorKind, Read},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, anyhow};
use flate2::bufread::MultiGzDecoder;
use load_formats::trace::{Action, Format, Reader, begins_as_blktrace};
use ruzstd::decoding::{
    BlockDecodingStrategy, FrameDecoder,
    errors::{FrameDecoderError, ReadFrameHeaderError::SkipFrame},
};

use lab_report::{control::Cancel, input::Input};

/// How a trace is understood.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct TraceForm {
    /// Traces in which an I/O makes several events: the one that counts. `None`: as it was queued, or in the kernel's text the first one that comes.
    pub action: Option<Action>,
    /// Traces of NVMe commands: bytes of a logical block; `None`: 512.
    pub block_bytes: Option<u32>,
    /// In which form it is written; `None`: its first line tells.
    pub format: Option<Format>,
}

/// What comes before the processor's number in the names of blktrace's files.
const PROCESSOR: &str = ".blktrace.";

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
    if begins_as_blktrace(&first) {
        return true;
    }
    let text = String::from_utf8_lossy(&first);
    let line = text.trim_start_matches('\u{feff}').trim_start().lines().next().unwrap_or("");
    match Format::detect(line) {
        Some(Format::Recording | Format::Ftrace | Format::Lttng | Format::DfTracer) => true,
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

/// Opens a file; compressed ones (gzip, Zstandard) are known by their first bytes.
fn open_one(path: &Path, cancel: &Cancel) -> Result<Box<dyn BufRead>> {
    let raw = Input::open(path, cancel).with_context(|| format!("reading {}", path.display()))?;
    let mut raw = BufReader::with_capacity(1 << 18, raw);
    let first = raw.fill_buf().with_context(|| format!("reading {}", path.display()))?;
    Ok(match compressed(first) {
        Some(Compression::Gzip) => Box::new(BufReader::with_capacity(1 << 18, MultiGzDecoder::new(raw))),
        Some(Compression::Zstandard) => Box::new(BufReader::with_capacity(1 << 18, Zstandard::new(raw))),
        None => Box::new(raw),
    })
}

/// The parts of a name of blktrace's: `sda.blktrace.3` is what it wrote of `sda` on processor 3. It may be compressed.
fn parts_of_blktrace(name: &str) -> Option<(&str, u32, &str)> {
    let at = name.find(PROCESSOR)? + PROCESSOR.len();
    let (begin, rest) = name.split_at(at);
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (processor, end) = rest.split_at(digits);
    Some((begin, processor.parse().ok()?, end))
}

/// Whether a file is named as blktrace names them.
pub(super) fn is_of_blktrace(name: &str) -> bool {
    parts_of_blktrace(name).is_some()
}

/// The files of all processors, if the file is there and its name is of one.
fn processors(path: &Path) -> Result<Vec<PathBuf>> {
    let parts = path.file_name().and_then(|name| name.to_str()).and_then(parts_of_blktrace);
    let Some((begin, _, end)) = parts.filter(|_| path.exists()) else { return Ok(vec![path.to_owned()]) };
    let directory = path.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
    let reading = || format!("reading {}", directory.display());
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).with_context(reading)? {
        let path = entry.with_context(reading)?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        match name.and_then(parts_of_blktrace) {
            Some((its_begin, processor, its_end)) if (its_begin, its_end) == (begin, end) => {
                found.push((processor, path))
            }
            _ => {}
        }
    }
    found.sort();
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

/// Opens a trace. Of blktrace's files it takes those of all processors, whichever is named.
pub fn open(path: &Path, form: TraceForm, cancel: &Cancel) -> Result<Reader<Box<dyn BufRead>>> {
    let format = form.format;
    let name = if path == Path::new("-") { "standard input".into() } else { path.to_string_lossy() };
    let paths = match format {
        None | Some(Format::Blktrace) => processors(path)?,
        Some(_) => vec![path.to_owned()],
    };
    let mut inputs = paths.iter().map(|path| open_one(path, cancel)).collect::<Result<Vec<_>>>()?;
    let reader = match inputs.len() {
        1 => Reader::new(inputs.remove(0), format),
        _ => Reader::of_processors(inputs),
    };
    let reader = reader.map_err(|error| anyhow!("{name}:{}: {}", error.line, error.problem))?;
    Ok(reader.with_action(form.action).with_block_bytes(form.block_bytes))
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
            let mut reader = open(&path, TraceForm::default(), &Cancel::default())?;
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
        let traces: [&[u8]; 9] = [
            b"[11:04:05.123456789] (+?.?????????) host sched_switch: { cpu_id = 1 }, { }\n",
            b"[\n{\"id\":1,\"name\":\"read\",\"cat\":\"POSIX\",\"ph\":\"X\"}\n",
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

    /// A record of blktrace of a write of 4 KiB.
    fn queued(time: u64, sector: u64) -> Vec<u8> {
        let words = [u64::from(0x6561_7407_u32), time, sector, 0x0112_0001 << 32 | 4096, 8 << 52, 0];
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn the_files_of_all_processors_are_one_trace() {
        let dir = tempfile::tempdir().unwrap();
        let gzip = |bytes: &[u8]| {
            let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            io::Write::write_all(&mut gzip, bytes).unwrap();
            gzip.finish().unwrap()
        };
        let (first, second) =
            ([queued(1, 0), queued(4, 8)].concat(), [queued(2, 16), queued(3, 24)].concat());
        for (name, bytes) in [
            ("sda.blktrace.0", &first),
            ("sda.blktrace.10", &second),
            ("sda.blktrace.2", &Vec::new()),
            ("sdb.blktrace.0", &second),
            ("sda.blktrace.0.gz", &gzip(&first)),
            ("sda.blktrace.1.gz", &gzip(&second)),
        ] {
            std::fs::write(dir.path().join(name), bytes).unwrap();
        }
        let offsets = |name: &str| {
            let mut reader = open(&dir.path().join(name), TraceForm::default(), &Cancel::default()).unwrap();
            let mut offsets = Vec::new();
            while let Some(event) = reader.next_event().unwrap() {
                offsets.push(event.offset / 4096);
            }
            offsets
        };
        for name in ["sda.blktrace.0", "sda.blktrace.2", "sda.blktrace.10", "sda.blktrace.0.gz"] {
            assert_eq!(offsets(name), [0, 2, 3, 1], "{name}");
        }
        assert_eq!(offsets("sdb.blktrace.0"), [2, 3]);
        assert!(is_of_blktrace("sda.blktrace.7") && !is_of_blktrace("sda.blktrace"));
        let missing = open(&dir.path().join("sda.blktrace.5"), TraceForm::default(), &Cancel::default())
            .map(drop)
            .unwrap_err();
        assert!(format!("{missing:#}").contains("sda.blktrace.5"), "{missing:#}");
    }
}
