//! `tranche profile check`: whether a simulated drive is as fast as its data sheet says.
//!
//! The drive is prepared as makers prepare theirs, and measured by fio jobs in virtual time. The sequential figures are those of a drive
//! that was written once in order. For the others the drive is then written at random until its write amplification is steady.

mod report;

use anyhow::{Context, Result, bail};
use host::Host;
use live::{Config, DataSheet};
use schemars::JsonSchema;
use serde::Serialize;
use sim::{Contents, Precondition, Sim, SimTransport, precondition::preconditioned};

use crate::{
    bench::per_second,
    sim::{Moved, play_text},
};
use lab_report::{
    Findings,
    control::{Cancel, Control, Progress},
};

/// Host NQN of the load.
const NQN: &str = "nqn.2026-11.io.tranche:datasheet";
/// How far a figure may be from the data sheet.
pub const TOLERANCE: f64 = 0.1;
/// What each NAND set of a shortened drive offers at least, in bytes: so large beside usual write buffers that they save
/// hardly any write.
const MIN_SET_BYTES: u64 = 32 << 30;
/// Simulated time between writes and reads, in which the write buffer drains and collection, which takes its time then, ends.
const REST_TIME: &str = "60s";
/// Superblocks that are written at random before that is measured, and meanwhile, at least: a drive that has rested has collected ahead, and
/// each victim is a moment of its own.
const CONDITIONING_SUPERBLOCKS: u64 = 4;
const MEASURED_SUPERBLOCKS: u64 = 8;

/// How to measure.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The whole drive instead of a shortened one: as much memory and time as its size takes.
    pub full: bool,
    /// Seed of everything random.
    pub seed: u64,
}

/// What was measured beside what the data sheet says.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Measured {
    /// Where the figures are from.
    pub source: String,
    /// Size of the first namespace of the shortened drive.
    #[schemars(extend("unit" = "bytes", "null" = "the whole drive was measured"))]
    pub shortened_to: Option<u64>,
    /// Seed of everything random.
    pub seed: u64,
    /// Largest distance of ratio from 1 that passes.
    pub tolerance: f64,
    /// The figures.
    pub figures: Vec<Figure>,
}

/// One figure of a data sheet.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Figure {
    /// Its key in the drive's TOML.
    pub figure: &'static str,
    /// Unit of measured and stated.
    pub unit: Unit,
    /// What the simulated drive does.
    pub measured: f64,
    /// What the maker states.
    pub stated: f64,
    /// Measured over stated.
    pub ratio: f64,
    /// Whether the ratio is within the tolerance.
    pub within: bool,
}

/// What a figure counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// How fast data moves.
    BytesPerSecond,
    /// How many I/Os end.
    PerSecond,
    /// How long one takes, on average.
    Nanoseconds,
}

/// How a figure is measured.
struct Test {
    figure: &'static str,
    unit: Unit,
    stated: u64,
    /// Options of the fio job but for how much it does.
    job: String,
    /// Index of the direction: read, write.
    direction: usize,
    /// I/Os of the job.
    ios: u64,
    /// I/Os in front of it that count for nothing: in them, buffers come into their usual state.
    before: u64,
}

/// I/Os of a test of reads, which are all alike.
const READS: u64 = 1 << 18;
/// I/Os of a test with one at a time.
const SINGLE_IOS: u64 = 1 << 14;

impl Test {
    fn new(figure: &'static str, unit: Unit, stated: u64, job: &str, depth: u32, ios: u64) -> Self {
        let direction = usize::from(figure.contains("write"));
        let rest = if direction == 0 { format!("startdelay={REST_TIME}\n") } else { String::new() };
        let job = format!("[{figure}]\n{job}\niodepth={depth}\n{rest}");
        Self { figure, unit, stated, job, direction, ios: ios.max(1), before: ios.div_ceil(4).max(1) }
    }

    /// Those of the sequential figures. `capacity` is that of the namespace in bytes.
    fn sequential(sheet: &DataSheet, capacity: u64) -> Vec<Self> {
        let ios = |share: u64| (capacity / share) >> 17;
        let test = |figure, stated: Option<u64>, rw: &str, ios| {
            let job = format!("rw={rw}\nbs=128k");
            Some(Self::new(figure, Unit::BytesPerSecond, stated?, &job, sheet.sequential_depth, ios))
        };
        let tests = [
            test("sequential_write", sheet.sequential_write, "write", ios(4)),
            test("sequential_read", sheet.sequential_read, "read", (READS >> 4).min(ios(1))),
        ];
        tests.into_iter().flatten().collect()
    }

    /// Those of the random figures. `superblock` is the largest in 4 KiB pages.
    fn random(sheet: &DataSheet, capacity: u64, superblock: u64) -> Vec<Self> {
        let test = |figure, unit, stated: Option<u64>, depth, ios| {
            let rw = if figure == "random_write_iops" || figure == "write_latency" {
                "randwrite"
            } else {
                "randread"
            };
            Some(Self::new(figure, unit, stated?, &format!("rw={rw}\nbs=4k\nnorandommap=1"), depth, ios))
        };
        let latency = |time: Option<sim::Nanos>| time.map(|time| time.0);
        let writes = ((capacity / 16) >> 12).max(MEASURED_SUPERBLOCKS * superblock);
        let random_writes =
            test("random_write_iops", Unit::PerSecond, sheet.random_write_iops, sheet.random_depth, writes);
        let tests = [
            random_writes
                .map(|test| Self { before: test.before.max(CONDITIONING_SUPERBLOCKS * superblock), ..test }),
            test("random_read_iops", Unit::PerSecond, sheet.random_read_iops, sheet.random_depth, READS),
            test("read_latency", Unit::Nanoseconds, latency(sheet.read_latency), 1, SINGLE_IOS),
            test("write_latency", Unit::Nanoseconds, latency(sheet.write_latency), 1, SINGLE_IOS),
        ];
        tests.into_iter().flatten().collect()
    }

    /// The job, and what goes before it.
    fn run(&self, sim: &Sim, host: &mut Host<SimTransport>, seed: u64, cancel: &Cancel) -> Result<Figure> {
        self.play(sim, host, self.before, seed.wrapping_add(1), cancel)?;
        let moved = self.play(sim, host, self.ios, seed, cancel)?;
        let measured = match self.unit {
            Unit::BytesPerSecond => per_second(moved.bytes, moved.nanos),
            Unit::PerSecond => per_second(moved.ios, moved.nanos),
            Unit::Nanoseconds => moved.mean,
        };
        #[expect(clippy::cast_precision_loss, reason = "for reading")]
        let stated = self.stated as f64;
        let ratio = measured / stated;
        let within = (ratio - 1.0).abs() <= TOLERANCE;
        Ok(Figure { figure: self.figure, unit: self.unit, measured, stated, ratio, within })
    }

    fn play(
        &self,
        sim: &Sim,
        host: &mut Host<SimTransport>,
        ios: u64,
        seed: u64,
        cancel: &Cancel,
    ) -> Result<Moved> {
        let text = format!("{}number_ios={ios}\ntime_based=1\nruntime=1000d\n", self.job);
        let traffic = play_text(self.figure, &text, sim, host, seed, cancel)?;
        Ok(traffic[self.direction])
    }
}

/// Measures the figures of the drive's data sheet. `name` is what it is called.
///
/// # Errors
/// The drive has no data sheet or no namespace, or cannot be simulated; the user ended it. A figure that is too far off is the
/// outcome's failure.
pub fn check(
    name: &str,
    config: &Config,
    settings: Settings,
    control: &Control,
) -> Result<Findings<Measured>> {
    let Some(sheet) = &config.data_sheet else {
        bail!("{name} has no data sheet: add [datasheet] to its TOML (docs/drive-toml.md)");
    };
    let short = if settings.full { None } else { config.shortened(MIN_SET_BYTES) };
    let mut measured = Measured {
        source: sheet.source.clone(),
        shortened_to: short.as_ref().map(first),
        seed: settings.seed,
        tolerance: TOLERANCE,
        figures: Vec::new(),
    };
    let mut config = short.unwrap_or_else(|| config.clone());
    // Without time there is nothing to measure, and without contents nothing is recovered.
    config.timing = true;
    config.ftl.durable = false;
    let Some(capacity) = config.namespaces.first().map(|namespace| namespace.bytes) else {
        bail!("{name} has no namespace to be measured: add [[namespace]] to its TOML");
    };
    let parts = [
        (Precondition::Fill, "writing the drive in order", Test::sequential(sheet, capacity)),
        (
            Precondition::Steady,
            "writing the drive at random until it is steady",
            Test::random(sheet, capacity, config.largest_superblock() >> 12),
        ),
    ];
    let steps = parts.iter().map(|(_, _, tests)| tests.len() + usize::from(!tests.is_empty())).sum::<usize>();
    let mut progress = Progress::new(control, steps as u64);
    for (how, what, tests) in parts.into_iter().filter(|(_, _, tests)| !tests.is_empty()) {
        progress.begin(what);
        let mut tell = |done: u32| {
            progress.detail(&format!("{} %", done / 10));
            !control.is_cancelled()
        };
        let made = preconditioned(config.clone(), Contents::None, how, settings.seed, None, &mut tell);
        control.check()?;
        let sim = made?.0.start()?;
        progress.end("");
        let mut host = sim.host(NQN).context("connecting to the drive")?;
        for test in tests {
            progress.begin(test.figure);
            // Reads in the very order of earlier writes would find their data side by side, as no host does.
            let seed = settings.seed.wrapping_add(2 * (measured.figures.len() as u64 + 1));
            measured.figures.push(test.run(&sim, &mut host, seed, control.cancel())?);
            progress.end("");
        }
    }
    drop(progress);
    let off: Vec<String> = measured.figures.iter().filter(|figure| !figure.within).map(report::off).collect();
    let failure =
        (!off.is_empty()).then(|| format!("{name} is not what its data sheet says: {}", off.join("; ")));
    Ok(Findings { text: report::text(&measured), results: measured, written: None, failure })
}

/// Bytes of the first namespace.
fn first(config: &Config) -> u64 {
    config.namespaces.first().map_or(0, |namespace| namespace.bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRIVE: &str = r#"
[drive]
write_buffer = "4MiB"
[link]
read = "3.2GB/s"
write = "3.2GB/s"
command_overhead = "5us"
write_overhead = "9us"
command_interval = "2us"
[[set]]
media = "nand"
cell = "tlc"
capacity = "256MiB"
spare = "28%"
channels = 4
dies = 4
planes = 2
nand_page = "16KiB"
pages_per_block = 12
rated_cycles = 3000
timing = { read = "60us", program = "700us", erase = "4ms", channel = "800MB/s", suspend = "5us", resume = "5us", max_suspends = 8 }
[[namespace]]
size = "256MiB"
[datasheet]
source = "a test"
"#;

    fn measure(sheet: &str) -> Findings<Measured> {
        let config = Config::from_toml(&format!("{DRIVE}{sheet}")).unwrap();
        check("the drive", &config, Settings { full: false, seed: 1 }, &Control::default()).unwrap()
    }

    fn sheet(figures: &[f64; 6]) -> String {
        let [sequential_write, sequential_read, random_write, random_read, read, write] = figures;
        format!(
            "sequential_write = \"{sequential_write:.0}B/s\"\nsequential_read = \"{sequential_read:.0}B/s\"\n\
             random_write_iops = {random_write:.0}\nrandom_read_iops = {random_read:.0}\n\
             read_latency = \"{read:.0}ns\"\nwrite_latency = \"{write:.0}ns\"\nrandom_depth = 64\n"
        )
    }

    #[test]
    fn a_drive_is_as_fast_as_its_parts_and_a_wrong_data_sheet_is_noticed() {
        // 8 planes of 60 us; 60 us, 4 KiB on channel and link, and the controller. The others depend on how it collects garbage.
        let (reads, latency) = (133_333.0, 60_000.0 + 5_120.0 + 1_280.0 + 2_000.0 + 5_000.0);
        let first = measure(&sheet(&[1.0, 1.0, 1.0, reads, latency, 1.0]));
        let found: Vec<f64> = first.results.figures.iter().map(|figure| figure.measured).collect();
        let found: [f64; 6] = found.try_into().unwrap();
        assert!((found[3] / reads - 1.0).abs() < 0.1, "{}", first.text);
        assert!((found[4] / latency - 1.0).abs() < 0.01, "{}", first.text);
        assert!(first.failure.unwrap().contains("random_write_iops"));
        // A data sheet with just what was measured is met; one figure that is 12 % off is named.
        let met = measure(&sheet(&found));
        assert_eq!((met.failure, met.results.shortened_to), (None, None), "{}", met.text);
        let mut off = found;
        off[2] *= 1.12;
        let failure = measure(&sheet(&off)).failure.unwrap();
        assert!(failure.contains("random_write_iops") && !failure.contains("latency"), "{failure}");
    }

    #[test]
    fn what_cannot_be_measured_is_said() {
        let settings = Settings { full: false, seed: 1 };
        let control = Control::default();
        let none = check("x", &Config::default_drive(), settings, &control);
        assert!(none.unwrap_err().to_string().contains("x has no data sheet"));
        let bare = DRIVE.replace("[[namespace]]\nsize = \"256MiB\"\n", "") + "read_latency = \"1us\"";
        let bare = check("x", &Config::from_toml(&bare).unwrap(), settings, &control);
        assert!(bare.unwrap_err().to_string().contains("no namespace"));
    }
}
