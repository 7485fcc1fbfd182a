//! Doing again what a trace says.

use super::event::{Event, Format};
use super::reader::{Reader, TraceError};
use std::io::BufRead;
use workload::{Actor, Nanos, Next, Request, Verb};

/// Most requests outstanding at once; what is due beyond them is late.
pub const OUTSTANDING_MAX: u32 = 1 << 20;
/// Bytes that stay together where addresses are scattered.
const EXTENT: u64 = 1 << 20;

/// How much faster time passes than it did, in millionths.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Speed(u64);

impl Speed {
    /// As it was.
    pub const ONE: Speed = Speed(1_000_000);

    /// So many millionths; `None` for 0.
    #[must_use]
    pub fn from_millionths(millionths: u64) -> Option<Speed> {
        (millionths > 0).then_some(Speed(millionths))
    }
}

/// When events are due.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Pace {
    /// At their recorded times after the first one. The ends of earlier requests do not matter.
    Recorded(Speed),
    /// As soon as fewer requests than these are outstanding; at least 1.
    Depth(u32),
}

/// Where on a namespace an address lies that is beyond its end.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Fold {
    /// At the remainder of the division by its size: what follows each other still does. Devices that share a namespace lie over each
    /// other.
    Wrap,
    /// Each MiB of each device has a place of its own on the namespace, as far as there are any: a hash of device and number. Also for
    /// addresses that are not beyond the end.
    Scatter,
}

/// A namespace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Space {
    /// Its identifier, by which recordings name it.
    pub nsid: u32,
    /// Its size in logical blocks, not 0.
    pub blocks: u64,
    /// Bytes of a logical block, not 0.
    pub block_bytes: u32,
}

/// How a trace is replayed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// When.
    pub pace: Pace,
    /// Where.
    pub fold: Fold,
    /// Namespaces (counted from 0) of devices by their names. Other devices are left out.
    ///
    /// If empty, all devices take part. A device of a recording goes to the namespace of its identifier ([`Space::nsid`]). Other devices, and
    /// those without such a namespace, go to the namespaces in turn, in the order in which they appear.
    pub devices: Vec<(String, u16)>,
    /// When the drive was powered on, by the clock of the replay: the times of recordings count from there, so that a drive has as long to settle
    /// before the first request as it had. If not given, and with other traces, the first request is due at once.
    pub powered: Option<Nanos>,
}

/// An actor that does what a trace says, on one or several namespaces.
#[derive(Clone, Debug)]
pub struct Replay<R> {
    reader: Reader<R>,
    options: Options,
    spaces: Vec<Space>,
    /// Namespace of each device of the trace; `None` if it is left out.
    mapped: Vec<Option<u16>>,
    first: Option<Nanos>,
    start: Option<Nanos>,
    pending: Option<(Nanos, Request)>,
    free: Vec<u32>,
    used: u32,
    most: u32,
    events: u64,
    left_out: u64,
    folded: u64,
    late: Nanos,
    failed: u64,
    error: Option<TraceError>,
    ended: bool,
}

impl<R: BufRead> Replay<R> {
    /// The trace, about to start on these namespaces.
    ///
    /// # Errors
    /// There is no namespace, one of them is empty, or a device is for one that is not there.
    pub fn new(reader: Reader<R>, options: Options, spaces: &[Space]) -> Result<Self, String> {
        if spaces.is_empty() || spaces.len() > usize::from(u16::MAX) {
            return Err(format!("there are {} namespaces: there must be 1 to {}", spaces.len(), u16::MAX));
        }
        if let Some(at) = spaces.iter().position(|s| s.blocks == 0 || s.block_bytes == 0) {
            return Err(format!("namespace {at} is empty"));
        }
        if let Some((name, space)) = options.devices.iter().find(|(_, at)| usize::from(*at) >= spaces.len()) {
            return Err(format!("device {name:?} is for namespace {space}: there are {}", spaces.len()));
        }
        let most = match options.pace {
            Pace::Recorded(_) => OUTSTANDING_MAX,
            Pace::Depth(depth) => depth.clamp(1, OUTSTANDING_MAX),
        };
        Ok(Replay {
            reader,
            options,
            spaces: spaces.to_vec(),
            mapped: Vec::new(),
            first: None,
            start: None,
            pending: None,
            free: Vec::new(),
            used: 0,
            most,
            events: 0,
            left_out: 0,
            folded: 0,
            late: 0,
            failed: 0,
            error: None,
            ended: false,
        })
    }

    /// The trace, with what is to be told of it.
    #[must_use]
    pub fn reader(&self) -> &Reader<R> {
        &self.reader
    }

    /// Whether requests are due at the trace's own times.
    #[must_use]
    pub fn is_timed(&self) -> bool {
        matches!(self.options.pace, Pace::Recorded(_))
    }

    /// Devices that were asked for and that the trace has not had so far.
    #[must_use]
    pub fn not_there(&self) -> Vec<&str> {
        let names = self.options.devices.iter().map(|(name, _)| name.as_str());
        names.filter(|name| !self.reader.devices().iter().any(|known| known == name)).collect()
    }

    /// Requests so far.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Events of devices that are left out.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Requests that were moved or shortened because they did not fit their namespace.
    #[must_use]
    pub fn folded(&self) -> u64 {
        self.folded
    }

    /// Most by which a request was issued later than it was due.
    #[must_use]
    pub fn late(&self) -> Nanos {
        self.late
    }

    /// Requests that failed.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.failed
    }

    /// The line that made no sense and ended it, if one did.
    #[must_use]
    pub fn error(&self) -> Option<&TraceError> {
        self.error.as_ref()
    }

    /// Namespace of a device.
    fn namespace(&mut self, device: u32) -> Option<u16> {
        let devices = self.reader.devices();
        let recording = self.reader.format() == Format::Recording;
        for (at, name) in devices.iter().enumerate().skip(self.mapped.len()) {
            let same = |space: &Space| recording && name.parse() == Ok(space.nsid);
            self.mapped.push(match &self.options.devices[..] {
                [] => Some(self.spaces.iter().position(same).unwrap_or(at % self.spaces.len()) as u16),
                named => named.iter().find(|(known, _)| known == name).map(|(_, space)| *space),
            });
        }
        self.mapped.get(device as usize).copied().flatten()
    }

    /// Reads on to the next event that counts.
    fn read(&mut self, now: Nanos) -> Option<(Nanos, Request)> {
        loop {
            let event = match self.reader.next_event() {
                Ok(event) => event?,
                Err(error) => {
                    self.error = Some(error);
                    return None;
                }
            };
            let Some(namespace) = self.namespace(event.device) else {
                self.left_out += 1;
                continue;
            };
            let powered = self.options.powered.filter(|_| self.reader.format() == Format::Recording);
            let first = *self.first.get_or_insert(if powered.is_some() { 0 } else { event.at });
            let due = match self.options.pace {
                Pace::Depth(_) => 0,
                Pace::Recorded(Speed(speed)) => {
                    let after = u128::from(event.at - first) * 1_000_000 / u128::from(speed);
                    let after = u64::try_from(after).unwrap_or(u64::MAX);
                    powered.or(self.start).unwrap_or(now).saturating_add(after)
                }
            };
            let space = self.spaces[usize::from(namespace)];
            let (lba, blocks) = self.place(&event, event.offset, space);
            let verb = match event.verb {
                Verb::Copy { from, fua } => {
                    let (from, _) = self.place(&event, from, space);
                    Verb::Copy { from: from.min(space.blocks - u64::from(blocks)), fua }
                }
                other => other,
            };
            return Some((due, Request { tag: 0, verb, namespace, lba, blocks }));
        }
    }

    /// Where on a namespace an event is that is at this byte: first block, and blocks.
    fn place(&mut self, event: &Event, mut offset: u64, space: Space) -> (u64, u32) {
        if event.verb == Verb::Flush {
            return (0, 0);
        }
        let block = u64::from(space.block_bytes);
        let size = space.blocks.saturating_mul(block);
        if self.options.fold == Fold::Scatter {
            let extents = (size / EXTENT).max(1);
            let key = (offset / EXTENT).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (u64::from(event.device) << 32);
            offset = mix(key) % extents * EXTENT + offset % EXTENT;
        }
        let first = offset / block;
        let blocks = (offset % block + event.bytes).div_ceil(block).max(1);
        let fits = blocks.min(space.blocks).min(u32::MAX.into());
        let mut lba = first % space.blocks;
        if lba + fits > space.blocks {
            lba = space.blocks - fits;
        }
        self.folded += u64::from(lba != first || fits != blocks);
        (lba, fits as u32)
    }
}

/// A permutation of 64-bit numbers (the finisher of SplitMix64: Steele, Lea, Flood 2014).
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

impl<R: BufRead> Actor for Replay<R> {
    fn next(&mut self, now: Nanos) -> Next {
        self.start.get_or_insert(now);
        if self.pending.is_none() && !self.ended {
            self.pending = self.read(now);
            self.ended = self.pending.is_none();
        }
        let Some((due, request)) = self.pending else { return Next::Done };
        if due > now {
            return Next::At(due);
        }
        let tag = match self.free.pop() {
            Some(tag) => tag,
            None if self.used < self.most => {
                self.used += 1;
                self.used - 1
            }
            None => return Next::Wait,
        };
        if let Pace::Recorded(_) = self.options.pace {
            self.late = self.late.max(now - due);
        }
        self.pending = None;
        self.events += 1;
        Next::Submit(Request { tag, ..request })
    }

    fn completed(&mut self, _: Nanos, tag: u32, ok: bool) {
        self.failed += u64::from(!ok);
        self.free.push(tag);
    }
}
