//! What a device really does: sampled from the kernel, or counted in a recording.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, bail, ensure};
use load_formats::trace::TraceError;
use schemars::JsonSchema;
use serde::Serialize;
use workload::Verb;

use lab_engines::sim::{TraceForm, open_trace};
use lab_report::control::Control;

/// Bytes of a sector, in which the kernel counts (Documentation/block/stat.rst).
const SECTOR: u64 = 512;

/// Requests and bytes of a second.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct Rates {
    /// The device or the recording.
    pub source: String,
    /// For how long.
    #[schemars(extend("unit" = "s"))]
    pub seconds: f64,
    /// Reads.
    #[schemars(extend("unit" = "1/s"))]
    pub reads_per_second: f64,
    /// Bytes read.
    #[schemars(extend("unit" = "bytes/s"))]
    pub read_bytes_per_second: f64,
    /// Writes.
    #[schemars(extend("unit" = "1/s"))]
    pub writes_per_second: f64,
    /// Bytes written.
    #[schemars(extend("unit" = "bytes/s"))]
    pub written_bytes_per_second: f64,
    /// Flushes.
    #[schemars(extend("unit" = "1/s", "null" = "the kernel does not count them: before Linux 5.5, and for partitions"))]
    pub flushes_per_second: Option<f64>,
}

/// Counts of one moment, or of a time.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Counts {
    reads: u64,
    read_bytes: u64,
    writes: u64,
    written_bytes: u64,
    flushes: Option<u64>,
}

impl Counts {
    /// A line of `/sys/block/DEVICE/stat`.
    fn parse(text: &str) -> Option<Self> {
        let fields: Vec<u64> = text.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
        let &[reads, _, read_sectors, _, writes, _, written_sectors, ..] = &fields[..] else { return None };
        Some(Self {
            reads,
            read_bytes: read_sectors.checked_mul(SECTOR)?,
            writes,
            written_bytes: written_sectors.checked_mul(SECTOR)?,
            flushes: fields.get(15).copied(),
        })
    }

    /// What happened since an earlier moment.
    fn since(self, earlier: Self) -> Self {
        let flushes = self.flushes.zip(earlier.flushes).map(|(now, then)| now.saturating_sub(then));
        Self {
            reads: self.reads.saturating_sub(earlier.reads),
            read_bytes: self.read_bytes.saturating_sub(earlier.read_bytes),
            writes: self.writes.saturating_sub(earlier.writes),
            written_bytes: self.written_bytes.saturating_sub(earlier.written_bytes),
            flushes,
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "for reading")]
    fn rates(self, source: String, seconds: f64) -> Rates {
        let each = |count: u64| count as f64 / seconds.max(1e-9);
        Rates {
            source,
            seconds,
            reads_per_second: each(self.reads),
            read_bytes_per_second: each(self.read_bytes),
            writes_per_second: each(self.writes),
            written_bytes_per_second: each(self.written_bytes),
            flushes_per_second: self.flushes.map(each),
        }
    }
}

/// Where the kernel says what its block devices do.
#[derive(Clone, Debug)]
pub struct Kernel(pub PathBuf);

impl Default for Kernel {
    fn default() -> Self {
        Self("/sys/class/block".into())
    }
}

impl Kernel {
    /// What a block device does for so long. Only counters of the kernel are read; the device itself is not opened.
    ///
    /// # Errors
    /// It is no block device of this machine, its counters cannot be read, nothing was written, or an interruption.
    pub fn sample(&self, device: &Path, time: Duration, control: &Control) -> Result<Rates> {
        let file = std::fs::canonicalize(device)
            .with_context(|| format!("there is no device {}", device.display()))?;
        let name = file.file_name().with_context(|| format!("{} is no device", device.display()))?;
        let stat = self.0.join(name).join("stat");
        ensure!(
            stat.exists(),
            "{} is no block device of this machine: {} is not there",
            device.display(),
            stat.display()
        );
        let read = || -> Result<Counts> {
            let text =
                std::fs::read_to_string(&stat).with_context(|| format!("cannot read {}", stat.display()))?;
            Counts::parse(&text)
                .with_context(|| format!("{} has not the counters of a block device", stat.display()))
        };
        control.note(&format!("sampling {} for {} s", device.display(), time.as_secs()));
        let (before, begin) = (read()?, Instant::now());
        control.cancel().sleep(time)?;
        let (counts, seconds) = (read()?.since(before), begin.elapsed().as_secs_f64());
        if counts.writes == 0 {
            bail!(
                "nothing was written to {} within {seconds:.0} s: sample it while the database is at work",
                device.display()
            );
        }
        Ok(counts.rates(format!("{}, for {seconds:.0} s", device.display()), seconds))
    }
}

/// What a trace or recording has, of any format that `tranche sim` reads.
///
/// # Errors
/// It cannot be read, or nothing is written in it.
pub fn of_recording(path: &Path, form: TraceForm, control: &Control) -> Result<Rates> {
    let name = path.display();
    let wrong = |error: TraceError| anyhow!("{name}:{}: {}", error.line, error.problem);
    let mut reader = open_trace(path, form, control.cancel())?;
    let (mut counts, mut first, mut last, mut number) =
        (Counts { flushes: Some(0), ..Counts::default() }, None, 0, 0u64);
    while let Some(event) = reader.next_event().map_err(wrong)? {
        number += 1;
        if number.is_multiple_of(65_536) {
            control.check()?;
        }
        first.get_or_insert(event.at);
        last = event.at;
        match event.verb {
            verb if verb.reads() => {
                (counts.reads, counts.read_bytes) =
                    (counts.reads + 1, counts.read_bytes.saturating_add(event.bytes))
            }
            Verb::Write | Verb::WriteFua => {
                (counts.writes, counts.written_bytes) =
                    (counts.writes + 1, counts.written_bytes.saturating_add(event.bytes))
            }
            Verb::Flush => counts.flushes = counts.flushes.map(|flushes| flushes + 1),
            _ => {}
        }
    }
    if let (count @ 1.., Some(first)) = reader.unknown() {
        tracing::warn!("{name}: lines that make no sense and were left out: {count}, the first is {first}");
    }
    if let Some(line) = reader.cut() {
        tracing::warn!("{name}: the trace ends in the middle of line {line}, which was left out");
    }
    match reader.of_other_action() {
        _ if counts.writes > 0 => {}
        0 => bail!("{name} has no writes"),
        others => bail!(
            "{name} has no writes with the action that counts, and {others} I/Os with another one: choose it with --action"
        ),
    }
    let nanos = last.saturating_sub(first.unwrap_or(0));
    ensure!(nanos >= 1_000_000, "{name} spans less than a millisecond: it says nothing of rates");
    #[expect(clippy::cast_precision_loss, reason = "for reading")]
    let seconds = nanos as f64 / 1e9;
    Ok(counts.rates(format!("{name}, {number} requests"), seconds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use load_formats::trace::{Action, Format};

    const DISK_STATISTICS: &str = "  1000 0 8000 10 2000 5 64000 90 0 100 100 0 0 0 0 30 7\n";

    fn kernel(dir: &Path, text: &str) -> (Kernel, PathBuf) {
        std::fs::create_dir_all(dir.join("nvme9n1")).unwrap();
        std::fs::write(dir.join("nvme9n1/stat"), text).unwrap();
        std::fs::write(dir.join("nvme9n1/dev"), "").unwrap();
        let device = dir.join("dev");
        std::fs::create_dir_all(&device).unwrap();
        std::fs::write(device.join("nvme9n1"), "").unwrap();
        (Kernel(dir.to_owned()), device.join("nvme9n1"))
    }

    #[test]
    fn counters_of_the_kernel_are_differences() {
        let before = Counts::parse(DISK_STATISTICS).unwrap();
        let after = Counts::parse("1100 0 8800 10 2400 5 96000 90 0 100 100 0 0 0 0 50 7").unwrap();
        let rates = after.since(before).rates("x".into(), 10.0);
        assert_eq!((rates.reads_per_second, rates.writes_per_second), (10.0, 40.0));
        assert_eq!(
            (rates.written_bytes_per_second, rates.flushes_per_second),
            (32_000.0 * 512.0 / 10.0, Some(2.0))
        );
        // Kernels before 5.5, and partitions.
        let old = Counts::parse("1 2 3 4 5 6 7 8 9 10 11").unwrap();
        assert_eq!((old.writes, old.flushes), (5, None));
        for text in ["", "1 2 3", "a b c d e f g h"] {
            assert_eq!(Counts::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_device_that_rests_or_is_missing_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let (kernel, device) = kernel(dir.path(), DISK_STATISTICS);
        let sample = |device: &Path| {
            kernel.sample(device, Duration::ZERO, &Control::default()).unwrap_err().to_string()
        };
        assert!(sample(&device).contains("nothing was written"), "{}", sample(&device));
        assert!(sample(&dir.path().join("none")).contains("there is no device"));
        let other = dir.path().join("other");
        std::fs::write(&other, "").unwrap();
        assert!(sample(&other).contains("no block device of this machine"));
        std::fs::write(dir.path().join("nvme9n1/stat"), "what").unwrap();
        assert!(sample(&device).contains("has not the counters"));
    }

    #[test]
    fn a_device_that_works_is_sampled() {
        let dir = tempfile::tempdir().unwrap();
        let (kernel, device) = kernel(dir.path(), DISK_STATISTICS);
        let stat = dir.path().join("nvme9n1/stat");
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            // Somebody writes until the sample ends.
            scope.spawn(|| {
                let mut writes = 2000;
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    writes += 1;
                    let next = dir.path().join("next");
                    std::fs::write(&next, format!("1000 0 8000 10 {writes} 5 {} 90", writes * 32)).unwrap();
                    std::fs::rename(&next, &stat).unwrap();
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
            let rates = kernel.sample(&device, Duration::from_millis(400), &Control::default());
            done.store(true, std::sync::atomic::Ordering::Relaxed);
            let rates = rates.unwrap();
            assert!(rates.writes_per_second > 0.0 && rates.reads_per_second == 0.0, "{rates:?}");
            assert!(
                (rates.written_bytes_per_second / rates.writes_per_second - 16384.0).abs() < 1.0,
                "{rates:?}"
            );
        });
    }

    #[test]
    fn recordings_of_any_format_are_counted() {
        let dir = tempfile::tempdir().unwrap();
        let understood = |text: &str, form: TraceForm| {
            let path = dir.path().join("t");
            std::fs::write(&path, text).unwrap();
            of_recording(&path, form, &Control::default())
        };
        let rates = |text: &str| understood(text, TraceForm::default());
        let found = rates("0,W,0,4096,1000000\n0,W,8192,8192,1500000\n0,R,0,4096,2000000\n").unwrap();
        assert_eq!(
            (found.writes_per_second, found.reads_per_second, found.written_bytes_per_second),
            (2.0, 1.0, 12_288.0)
        );
        // Each I/O is there as it was queued and as it was issued; in twice as many parts.
        let kernel = "8,0 1 1 1.0 1 Q W 0 + 16 [x]\n8,0 1 1 1.1 1 D W 0 + 8 [x]\n8,0 1 1 2.1 1 D W 8 + 8 [x]\n8,0 1 1 3.0 1 Q W 0 + 16 [x]\n";
        let issued = TraceForm { action: Some(Action::Issued), ..TraceForm::default() };
        assert_eq!(rates(kernel).unwrap().written_bytes_per_second, 8192.0);
        assert_eq!(understood(kernel, issued).unwrap().written_bytes_per_second, 8192.0);
        assert_eq!(understood(kernel, issued).unwrap().writes_per_second, 2.0);
        let queued = kernel.lines().next().unwrap();
        assert!(understood(queued, issued).unwrap_err().to_string().contains("choose it with --action"));
        let alibaba = TraceForm { format: Some(Format::Alibaba), ..TraceForm::default() };
        assert!(understood("1,0,8,1,1\n", alibaba).unwrap_err().to_string().contains("opcode"));
        assert!(format!("{:#}", rates("nonsense\n").unwrap_err()).contains("t:1: "));
        assert!(rates("0,R,0,4096,1000000\n").unwrap_err().to_string().contains("no writes"));
        assert!(rates("0,W,0,4096,1000000\n").unwrap_err().to_string().contains("less than a millisecond"));
        assert!(
            of_recording(&dir.path().join("none"), TraceForm::default(), &Control::default())
                .unwrap_err()
                .to_string()
                .contains("reading")
        );
    }
}
