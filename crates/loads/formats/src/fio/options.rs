//! The options of a job, with fio's names, defaults and meanings.

use super::names::{self, OptionSupport};
use super::value::{self, Amount, MILLION};
use super::zone_options::ZoneOptions;
use workload::Nanos;

/// Direction of an I/O: also the index into everything that exists once for each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// Reads.
    Read = 0,
    /// Writes.
    Write = 1,
    /// Deallocations.
    Trim = 2,
}

/// What a job does (`rw`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pattern {
    /// Places are drawn at random.
    pub random: bool,
    /// Which directions there are: reads, writes, trims. Writes with trims are `trimwrite`: each place is trimmed,
    /// then written.
    pub does: [bool; 3],
}

impl Pattern {
    fn parse(text: &str) -> Result<Self, String> {
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        if !rest.is_empty() {
            return Err(format!("{text:?}: a number after the pattern (rw=read:8) is not supported"));
        }
        let (random, does) = match name {
            "read" => (false, [true, false, false]),
            "write" => (false, [false, true, false]),
            "trim" => (false, [false, false, true]),
            "rw" | "readwrite" => (false, [true, true, false]),
            "randread" => (true, [true, false, false]),
            "randwrite" => (true, [false, true, false]),
            "randtrim" => (true, [false, false, true]),
            "randrw" => (true, [true, true, false]),
            "trimwrite" => (false, [false, true, true]),
            "randtrimwrite" => (true, [false, true, true]),
            _ => {
                const NAMES: [&str; 10] = [
                    "read",
                    "write",
                    "rw",
                    "trim",
                    "randread",
                    "randwrite",
                    "randrw",
                    "randtrim",
                    "trimwrite",
                    "randtrimwrite",
                ];
                return Err(one_of(text, "no pattern", &NAMES));
            }
        };
        Ok(Self { random, does })
    }

    /// As fio shows it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match (self.random, self.does) {
            (false, [true, true, _]) => "rw",
            (true, [true, true, _]) => "randrw",
            (false, [_, true, true]) => "trimwrite",
            (true, [_, true, true]) => "randtrimwrite",
            (false, [true, ..]) => "read",
            (true, [true, ..]) => "randread",
            (false, [_, true, _]) => "write",
            (true, [_, true, _]) => "randwrite",
            (false, _) => "trim",
            (true, _) => "randtrim",
        }
    }
}

/// Block sizes of one direction, in bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Sizes {
    /// From the first to the second, uniformly, in multiples of the first.
    Range(u64, u64),
    /// Each with its percentage; together 100.
    Split(Vec<(u64, u32)>),
}

impl Sizes {
    /// The smallest.
    #[must_use]
    pub fn least(&self) -> u64 {
        match self {
            Self::Range(least, _) => *least,
            Self::Split(parts) => parts.iter().map(|(size, _)| *size).min().unwrap_or(1),
        }
    }

    /// The largest.
    #[must_use]
    pub fn most(&self) -> u64 {
        match self {
            Self::Range(_, most) => *most,
            Self::Split(parts) => parts.iter().map(|(size, _)| *size).max().unwrap_or(1),
        }
    }

    fn one(text: &str, base: u64) -> Result<Self, String> {
        let size = block(text, base)?;
        Ok(Self::Range(size, size))
    }

    fn range(text: &str, base: u64) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no range: write 4k-64k");
        let (least, most) = text.split_once('-').or_else(|| text.split_once(':')).ok_or_else(wrong)?;
        let (least, most) = (block(least, base)?, block(most, base)?);
        if least > most {
            Err(format!("{text:?}: the first is larger than the second"))
        } else {
            Ok(Self::Range(least, most))
        }
    }

    /// `4k/10:64k/50:32k/40`; those without percentage share what is left. As in fio, what lacks to 100 goes to the part that has most, and
    /// a part of 0 % is none.
    fn split(text: &str, base: u64) -> Result<Self, String> {
        let mut parts = Vec::new();
        for part in text.split(':') {
            let (size, percent) = part.split_once('/').unwrap_or((part, ""));
            let percent = match percent.trim() {
                "" => None,
                given => Some(value::number(given, base, 0, 100)?),
            };
            parts.push((block(size, base)?, percent));
        }
        if parts.len() > 64 {
            return Err("more than 64 block sizes".to_owned());
        }
        let given: u64 = parts.iter().filter_map(|(_, percent)| *percent).sum();
        let open = parts.iter().filter(|(_, percent)| percent.is_none()).count() as u64;
        if given > 100 {
            return Err(format!("{text:?}: the percentages make {given}, not 100"));
        }
        let mut left = 100 - given;
        if open == 0 {
            match parts.iter_mut().filter_map(|(_, percent)| percent.as_mut()).max() {
                Some(most) if *most > 0 => *most += left,
                _ => return Err(format!("{text:?}: all block sizes have 0 percent")),
            }
        }
        let mut sharing = open;
        let shared = parts.into_iter().map(|(size, percent)| {
            let percent = percent.unwrap_or_else(|| {
                let share = left / sharing;
                sharing -= 1;
                left -= share;
                share
            });
            (size, u32::try_from(percent).unwrap_or(100))
        });
        Ok(Self::Split(shared.filter(|(_, percent)| *percent > 0).collect()))
    }
}

/// Largest block size.
const BLOCK_MAX: u64 = 1 << 30;

fn block(text: &str, base: u64) -> Result<u64, String> {
    match value::size(text, base)? {
        0 => Err("a block size of 0".to_owned()),
        size @ 1..=BLOCK_MAX => Ok(size),
        _ => Err(format!("{text:?}: blocks have at most 1 GiB")),
    }
}

/// Where random places lie (`random_distribution`). Anything but `Random` goes without a random map.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Distribution {
    /// Uniform.
    Random,
    /// Zipf's law with this exponent, in millionths; where the hottest place lies, in millionths of the range.
    Zipf(u64, Option<u64>),
    /// Zipf's law of a larger range: each place stands for this number of places, whose ranks follow each other. fio has none.
    ScaledZipf(u64, u64),
    /// Pareto's, of this power, in millionths; the hottest place as above.
    Pareto(u64, Option<u64>),
    /// Normal: the standard deviation in millionths of a percent of the range; its centre as above.
    Normal(u64, u64),
    /// Percent of the accesses, and where the zone ends: percent of the range, cumulated.
    Zoned(Vec<(u32, Amount)>),
    /// Zones whose places lie all over the range. fio has none.
    ShuffledZones(Vec<(u32, Amount)>),
}

impl Distribution {
    fn parse(text: &str, base: u64) -> Result<Self, String> {
        let (name, rest) = text.split_once([':', '=']).unwrap_or((text, ""));
        let mut numbers = rest.split(':');
        let mut next = || numbers.next().filter(|part| !part.is_empty()).map(value::millionths).transpose();
        let centre = |centre: Option<u64>| match centre {
            Some(centre) if centre > MILLION => Err("the centre is from 0 to 1".to_owned()),
            centre => Ok(centre),
        };
        match name {
            "random" => Ok(Self::Random),
            "zipf" => Ok(Self::Zipf(exponent(next()?, text)?, centre(next()?)?)),
            "zipf_scaled" => match (exponent(next()?, text)?, next()?) {
                (theta, Some(scale))
                    if scale.is_multiple_of(MILLION) && (1..=MAX_ZIPF_SCALE).contains(&(scale / MILLION)) =>
                {
                    Ok(Self::ScaledZipf(theta, scale / MILLION))
                }
                _ => Err(format!(
                    "{text:?}: the scale is a whole number from 1 to 1,000,000, such as zipf_scaled:0.9:250"
                )),
            },
            "pareto" => match next()?.unwrap_or(200_000) {
                power @ 1..MILLION => Ok(Self::Pareto(power, centre(next()?)?)),
                _ => Err(format!("{text:?}: the power is between 0 and 1")),
            },
            "normal" => match next()?.unwrap_or(0) {
                deviation @ 0..=100_000_000 => {
                    Ok(Self::Normal(deviation, centre(next()?)?.unwrap_or(MILLION / 2)))
                }
                _ => Err(format!("{text:?}: the deviation is from 0 to 100 percent")),
            },
            "zoned" | "zoned_abs" => Self::zones(rest, name == "zoned_abs", base).map(Self::Zoned),
            "zoned_shuffled" => Self::zones(rest, false, base).map(Self::ShuffledZones),
            _ => {
                let names = [
                    "random",
                    "zipf",
                    "zipf_scaled",
                    "pareto",
                    "normal",
                    "zoned",
                    "zoned_abs",
                    "zoned_shuffled",
                ];
                Err(one_of(text, "no distribution", &names))
            }
        }
    }

    fn zones(text: &str, absolute: bool, base: u64) -> Result<Vec<(u32, Amount)>, String> {
        let (mut accesses, mut end) = (0, 0u64);
        let mut zones = Vec::new();
        for part in text.split(':') {
            let wrong = || format!("{part:?} is no zone: write accesses/size, such as 60/10");
            let (share, size) = part.split_once('/').ok_or_else(wrong)?;
            let share = value::number(share, base, 0, 100)?;
            let size = if absolute {
                value::size(size, base)?
            } else {
                value::number(size.trim_end_matches('%'), base, 1, 100)?
            };
            accesses += share;
            end = end.checked_add(size).ok_or_else(wrong)?;
            let end = if absolute { Amount::Bytes(end) } else { Amount::Percent(end) };
            zones.push((u32::try_from(share).unwrap_or(100), end));
        }
        if zones.len() > 256 {
            return Err("more than 256 zones".to_owned());
        }
        if accesses != 100 || (!absolute && end > 100) {
            return Err(format!("{text:?}: the accesses must make 100 percent, the sizes no more"));
        }
        Ok(zones)
    }
}

/// Places of a larger drive for one place, at most.
const MAX_ZIPF_SCALE: u64 = 1_000_000;

/// An exponent of Zipf's law in millionths.
fn exponent(given: Option<u64>, text: &str) -> Result<u64, String> {
    match given.unwrap_or(1_100_000) {
        MILLION => Err("zipf with an exponent of 1 is not defined: use 0.99 or 1.01".to_owned()),
        theta @ 1..=10_000_000 => Ok(theta),
        _ => Err(format!("{text:?}: the exponent is above 0 and at most 10")),
    }
}

/// That a word is none of these, and which of them it may have been.
pub(super) fn one_of(text: &str, is: &str, names: &[&str]) -> String {
    let near = units::did_you_mean(text, names.iter().copied());
    format!("{text:?} is {is}: {}{near}", names.join(", "))
}

/// How blocks are checked (`verify`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "they are named after what they are")]
pub enum Verify {
    Crc32,
    Crc32c,
    Crc64,
    Md5,
    Sha1,
    Sha256,
    Sha512,
    Xxhash,
    /// Only the header, which says which block it is.
    Meta,
    /// Against `verify_pattern`, without header.
    Pattern,
}

impl Verify {
    fn parse(text: &str) -> Result<Option<Self>, String> {
        Ok(Some(match text {
            "0" | "none" => return Ok(None),
            "crc32" => Self::Crc32,
            "crc32c" | "crc32c-intel" => Self::Crc32c,
            "crc64" => Self::Crc64,
            "md5" => Self::Md5,
            "sha1" => Self::Sha1,
            "sha256" => Self::Sha256,
            "sha512" => Self::Sha512,
            "xxhash" => Self::Xxhash,
            "meta" => Self::Meta,
            "pattern" => Self::Pattern,
            _ => {
                const NAMES: [&str; 11] = [
                    "crc32c",
                    "crc32c-intel",
                    "crc32",
                    "crc64",
                    "md5",
                    "sha1",
                    "sha256",
                    "sha512",
                    "xxhash",
                    "meta",
                    "pattern",
                ];
                return Err(one_of(text, "not supported", &NAMES));
            }
        }))
    }
}

/// Bytes of `"abcd"`, `0xdeadbeef` or a number from -128 to 255, one after the other.
fn pattern(text: &str) -> Result<Vec<u8>, String> {
    let wrong = || format!("{text:?} is no pattern: write 0xdeadbeef or \"abcd\"");
    let mut bytes = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        if let Some(string) = rest.strip_prefix('"') {
            let (string, after) = string.split_once('"').ok_or_else(wrong)?;
            bytes.extend_from_slice(string.as_bytes());
            rest = after;
        } else if let Some(hex) = rest.strip_prefix("0x") {
            let end = hex.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(hex.len());
            let (hex, after) = hex.split_at(end);
            let even = if hex.len().is_multiple_of(2) { hex.to_owned() } else { format!("0{hex}") };
            for pair in even.as_bytes().chunks(2) {
                let digits = std::str::from_utf8(pair).map_err(|_| wrong())?;
                bytes.push(u8::from_str_radix(digits, 16).map_err(|_| wrong())?);
            }
            rest = after;
        } else {
            let end = rest.find(|c: char| c != '-' && !c.is_ascii_digit()).unwrap_or(rest.len());
            let (number, after) = rest.split_at(end);
            let number: i16 = number.parse().map_err(|_| wrong())?;
            bytes.push(match number {
                -128..=255 => number.to_le_bytes()[0],
                _ => return Err(wrong()),
            });
            rest = after;
        }
    }
    match bytes.len() {
        1..=512 => Ok(bytes),
        _ => Err("a pattern has 1 to 512 bytes".to_owned()),
    }
}

/// Options of one job.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(
    missing_docs,
    reason = "they are fio's, in docs/bench.md; times are nanoseconds, sizes and rates bytes"
)]
pub struct Options {
    pub rw: Pattern,
    /// Reads among 100 I/Os of a job that reads and writes.
    pub rwmixread: u64,
    pub sizes: [Sizes; 3],
    pub iodepth: u32,
    pub numjobs: u32,
    pub size: Option<Amount>,
    pub io_size: Option<Amount>,
    pub offset: Amount,
    pub offset_increment: Amount,
    pub number_ios: u64,
    pub loops: u64,
    pub norandommap: bool,
    pub randseed: Option<u64>,
    pub randrepeat: bool,
    pub runtime: Nanos,
    pub time_based: bool,
    pub ramp_time: Nanos,
    pub startdelay: Nanos,
    pub rate: [u64; 3],
    pub rate_iops: [u64; 3],
    pub rate_poisson: bool,
    pub distribution: Distribution,
    /// Writes between flushes, 0 for none: the smaller of `fsync` and `fdatasync`.
    pub fsync: u64,
    pub fdatasync: u64,
    pub end_fsync: bool,
    pub verify: Option<Verify>,
    pub verify_interval: u64,
    pub verify_pattern: Vec<u8>,
    pub do_verify: bool,
    pub verify_fatal: bool,
    pub verify_only: bool,
    pub thinktime: Nanos,
    pub thinktime_blocks: u64,
    pub group_reporting: bool,
    pub stonewall: bool,
    pub new_group: bool,
    pub zero_buffers: bool,
    pub zones: ZoneOptions,
    /// The namespace that `filename` names, if it names one.
    pub nsid: Option<u32>,
    /// Percentiles to report, in millionths of a percent, ascending.
    pub percentiles: Vec<u64>,
    kb_base: u64,
}

/// Percentiles that fio shows.
const PERCENTILES: [u64; 17] = [
    1_000_000, 5_000_000, 10_000_000, 20_000_000, 30_000_000, 40_000_000, 50_000_000, 60_000_000, 70_000_000,
    80_000_000, 90_000_000, 95_000_000, 99_000_000, 99_500_000, 99_900_000, 99_950_000, 99_990_000,
];

impl Default for Options {
    fn default() -> Self {
        Self {
            rw: Pattern { random: false, does: [true, false, false] },
            rwmixread: 50,
            sizes: [const { Sizes::Range(4096, 4096) }; 3],
            iodepth: 1,
            numjobs: 1,
            size: None,
            io_size: None,
            offset: Amount::Bytes(0),
            offset_increment: Amount::Bytes(0),
            number_ios: u64::MAX,
            loops: 1,
            norandommap: false,
            randseed: None,
            randrepeat: true,
            runtime: 0,
            time_based: false,
            ramp_time: 0,
            startdelay: 0,
            rate: [0; 3],
            rate_iops: [0; 3],
            rate_poisson: false,
            distribution: Distribution::Random,
            fsync: 0,
            fdatasync: 0,
            end_fsync: false,
            verify: None,
            verify_interval: 0,
            verify_pattern: Vec::new(),
            do_verify: true,
            verify_fatal: false,
            verify_only: false,
            thinktime: 0,
            thinktime_blocks: 1,
            group_reporting: false,
            stonewall: false,
            new_group: false,
            zero_buffers: false,
            zones: ZoneOptions::default(),
            nsid: None,
            percentiles: PERCENTILES.to_vec(),
            kb_base: 1024,
        }
    }
}

const SECOND: Nanos = 1_000_000_000;
const MICROSECOND: Nanos = 1_000;

impl Options {
    /// What k means in a size: 1024 or 1000.
    pub(super) fn kb_base(&self) -> u64 {
        self.kb_base
    }

    /// Sets one option. The result is a note if it changes nothing here.
    ///
    /// # Errors
    /// The option is unknown or not supported, or its value makes no sense.
    pub fn set(&mut self, name: &str, given: Option<&str>) -> Result<Option<String>, String> {
        let name = names::canonical(name);
        match names::fate(name) {
            OptionSupport::Used => {}
            OptionSupport::Ignored(why) => {
                if name == "ioengine" {
                    names::check_engine(given.unwrap_or_default())
                        .map_err(|problem| format!("{name}: {problem}"))?;
                }
                return Ok(Some(format!("{name} is ignored: {why}")));
            }
            OptionSupport::Refused(why) => return Err(names::refused(name, why)),
            OptionSupport::Unknown => return Err(names::unknown(name)),
        }
        if names::is_flag(name) {
            self.set_flag(name, value::flag(given).map_err(|problem| format!("{name}: {problem}"))?);
            return Ok(None);
        }
        let given = given
            .filter(|text| !text.is_empty())
            .ok_or_else(|| format!("{name} needs a value: write {name}=…"))?;
        if name == "filename" {
            self.nsid = namespace(given).map_err(|problem| format!("{name}: {problem}"))?;
            let note = || format!("filename={given} is ignored: it names no namespace, as nvme0n2 does");
            return Ok(self.nsid.is_none().then(note));
        }
        self.set_value(name, given).map_err(|problem| format!("{name}: {problem}"))?;
        Ok(None)
    }

    fn set_flag(&mut self, name: &str, on: bool) {
        let flag = match name {
            "norandommap" => &mut self.norandommap,
            // Everything is seeded from randseed, so that the two are one.
            "randrepeat" | "allrandrepeat" => &mut self.randrepeat,
            "time_based" => &mut self.time_based,
            "end_fsync" => &mut self.end_fsync,
            "do_verify" => &mut self.do_verify,
            "verify_fatal" => &mut self.verify_fatal,
            "verify_only" => &mut self.verify_only,
            "group_reporting" => &mut self.group_reporting,
            "stonewall" => &mut self.stonewall,
            "read_beyond_wp" => &mut self.zones.read_beyond_wp,
            "ignore_zone_limits" => &mut self.zones.ignore_limits,
            "zone_append" => &mut self.zones.append,
            "new_group" => &mut self.new_group,
            _ => &mut self.zero_buffers,
        };
        *flag = on;
    }

    fn set_value(&mut self, name: &str, text: &str) -> Result<(), String> {
        let base = self.kb_base;
        let mut numbers = text.split([',', ':', '-', '/']);
        if name != "verify_pattern" && numbers.any(|number| number.trim_start().starts_with('(')) {
            return Err(format!("{text:?}: arithmetic in parentheses is not supported: write the value"));
        }
        if self.zones.set(name, text, base)? {
            return Ok(());
        }
        let size = |text: &str| value::size(text, base);
        let narrow = |text, most: u32| {
            value::number(text, base, 1, most.into()).map(|n| u32::try_from(n).unwrap_or(most))
        };
        match name {
            "rw" => self.rw = Pattern::parse(text)?,
            "rwmixread" => self.rwmixread = value::number(text, base, 0, 100)?,
            "rwmixwrite" => self.rwmixread = 100 - value::number(text, base, 0, 100)?,
            "bs" => self.sizes = value::three(text, &self.sizes, |part| Sizes::one(part, base))?,
            "bsrange" => self.sizes = value::three(text, &self.sizes, |part| Sizes::range(part, base))?,
            "bssplit" => self.sizes = value::three(text, &self.sizes, |part| Sizes::split(part, base))?,
            "iodepth" => self.iodepth = narrow(text, 65_535)?,
            "numjobs" => self.numjobs = narrow(text, 1_024)?,
            "size" => {
                self.size = Some(value::amount_or_zones(text, base)?).filter(|size| *size != Amount::Bytes(0))
            }
            "io_size" => {
                self.io_size =
                    Some(value::amount_or_zones(text, base)?).filter(|size| *size != Amount::Bytes(0))
            }
            "offset" => self.offset = value::amount_or_zones(text, base)?,
            "offset_increment" => self.offset_increment = value::amount_or_zones(text, base)?,
            "number_ios" => {
                self.number_ios = match value::number(text, base, 0, u64::MAX)? {
                    0 => u64::MAX,
                    count => count,
                }
            }
            "loops" => self.loops = value::number(text, base, 0, u64::MAX)?.max(1),
            "randseed" => self.randseed = Some(value::number(text, base, 0, u64::MAX)?),
            "runtime" => self.runtime = value::time(text, SECOND)?,
            "ramp_time" => self.ramp_time = value::time(text, SECOND)?,
            "startdelay" => self.startdelay = value::time(text, SECOND)?,
            "thinktime" => self.thinktime = value::time(text, MICROSECOND)?,
            "thinktime_blocks" => self.thinktime_blocks = value::number(text, base, 1, u64::MAX)?,
            "rate" => self.rate = value::three(text, &self.rate, size)?,
            "rate_iops" => {
                self.rate_iops =
                    value::three(text, &self.rate_iops, |part| value::number(part, base, 0, u64::MAX))?;
            }
            "rate_process" => {
                self.rate_poisson = match text {
                    "linear" => false,
                    "poisson" => true,
                    _ => return Err(format!("{text:?} is neither linear nor poisson")),
                }
            }
            "random_distribution" => self.distribution = Distribution::parse(text, base)?,
            "fsync" => self.fsync = value::number(text, base, 0, u64::MAX)?,
            "fdatasync" => self.fdatasync = value::number(text, base, 0, u64::MAX)?,
            "verify" => self.verify = Verify::parse(text)?,
            "verify_interval" => self.verify_interval = size(text)?,
            "verify_pattern" => self.verify_pattern = pattern(text)?,
            "percentile_list" => self.percentiles = percentiles(text)?,
            "kb_base" => {
                self.kb_base = match text {
                    "1000" => 1000,
                    "1024" => 1024,
                    _ => return Err(format!("{text:?} is neither 1000 nor 1024")),
                }
            }
            _ => return Err(names::unknown(name)),
        }
        Ok(())
    }

    /// Largest block size of the directions that the job has.
    #[must_use]
    pub fn largest_block(&self) -> u64 {
        self.used(Sizes::most).max().unwrap_or(1)
    }

    /// Smallest block size of the directions that the job has.
    #[must_use]
    pub fn smallest_block(&self) -> u64 {
        self.used(Sizes::least).min().unwrap_or(1)
    }

    fn used<'a>(&'a self, of: impl Fn(&Sizes) -> u64 + 'a) -> impl Iterator<Item = u64> + 'a {
        self.sizes.iter().zip(self.rw.does).filter(|(_, does)| *does).map(move |(sizes, _)| of(sizes))
    }
}

/// The namespace of a device's name: 2 of `/dev/nvme0n2`, `nvme0n2` or `/dev/ng0n2`. None of a file that is no such device.
fn namespace(text: &str) -> Result<Option<u32>, String> {
    let one = |name: &str| -> Option<Result<u32, String>> {
        let device = name.strip_prefix("/dev/").unwrap_or(name);
        let numbers = device.strip_prefix("nvme").or_else(|| device.strip_prefix("ng"))?;
        let (drive, nsid) = numbers.split_once('n')?;
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        digits(drive).then_some(())?;
        let whole = "write the whole namespace, as nvme0n1: its number is the NSID, from 1 to 4294967294";
        let number = digits(nsid).then(|| nsid.parse().ok()).flatten();
        let number = number.filter(|nsid| (1..u32::MAX).contains(nsid));
        Some(number.ok_or_else(|| format!("{name:?} is no namespace: {whole}")))
    };
    let all: Vec<_> = text.split(':').map(one).collect();
    match &all[..] {
        [Some(nsid)] => nsid.clone().map(Some),
        _ if all.iter().any(Option::is_some) => {
            Err(format!("{text:?}: a job is on one namespace: write a job for each"))
        }
        _ => Ok(None),
    }
}

fn percentiles(text: &str) -> Result<Vec<u64>, String> {
    let mut list = text.split(':').map(value::millionths).collect::<Result<Vec<u64>, String>>()?;
    if list.len() > 20 || list.iter().any(|p| *p == 0 || *p > 100 * MILLION) {
        return Err(format!("{text:?}: up to 20 percentiles, above 0 and at most 100"));
    }
    list.sort_unstable();
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_namespaces() {
        for (name, nsid) in [
            ("nvme0n2", Ok(Some(2))),
            ("/dev/nvme12n1", Ok(Some(1))),
            ("/dev/ng0n32", Ok(Some(32))),
            ("/dev/sdb", Ok(None)),
            ("/mnt/nvme0n1/file", Ok(None)),
            ("nvmen1", Ok(None)),
            ("a:b", Ok(None)),
            ("/dev/nvme0n1p2", Err("is no namespace")),
            ("/dev/nvme0n0", Err("is no namespace")),
            ("nvme0n4294967295", Err("from 1 to 4294967294")),
            ("/dev/nvme0n1:/dev/nvme0n2", Err("a job for each")),
        ] {
            let mut options = Options::default();
            let set = options.set("filename", Some(name));
            match nsid {
                Ok(nsid) => {
                    assert_eq!(options.nsid, nsid, "{name}");
                    assert_eq!(set.unwrap().is_none(), nsid.is_some(), "{name}");
                }
                Err(problem) => assert!(set.unwrap_err().contains(problem), "{name}"),
            }
        }
    }
}
