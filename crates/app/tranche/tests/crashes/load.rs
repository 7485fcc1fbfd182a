//! Writers that put a random load on namespaces and know what must be there.

use super::disk::{AccessPath, Disk, open};
use super::drive::Drive;
use super::model::{Clock, Flushed, Memory, Sectors};
use super::stamp::{self, Random};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A namespace under test.
#[derive(Debug)]
pub struct Space {
    pub nsid: u32,
    pub sector: u32,
    pub sectors: u64,
    pub memory: Memory,
    /// Identifies what is written since it was created or formatted.
    pub owner: u64,
    pub flushed: Flushed,
}

impl Space {
    pub fn new(nsid: u32, sector: u32, bytes: u64) -> Self {
        let owner = u64::from(nsid) << 32 | 1;
        let sectors = bytes / u64::from(sector);
        Space { nsid, sector, sectors, memory: Memory::Buffered, owner, flushed: Flushed::default() }
    }
}

/// What a load shares.
#[derive(Debug)]
pub struct Shared {
    pub clock: Clock,
    /// Acknowledged operations.
    pub operations: AtomicU64,
    /// Something was done to the drive: commands may fail.
    pub crashing: AtomicBool,
    pub stop: AtomicBool,
    /// One operation of so many is a Flush. Many of them hide what FUA does not do.
    pub flush_one_in: AtomicU64,
    /// Commands may fail, as the drive has run out of flash.
    pub worn: bool,
}

impl Shared {
    pub fn new(worn: bool) -> Self {
        let (operations, crashing, stop) = <(AtomicU64, AtomicBool, AtomicBool)>::default();
        Shared { clock: Clock::new(), operations, crashing, stop, flush_one_in: AtomicU64::new(16), worn }
    }
}

/// Some sectors of a namespace, which nobody else writes: stripes that share pages with those of others, and one long
/// stretch.
#[derive(Debug)]
pub struct Writer {
    pub space: usize,
    stripes: Vec<(u64, u64)>,
    pub sectors: Sectors,
    random: Random,
    /// What is written once before the random load begins.
    to_fill: Vec<(u64, u64)>,
}

/// What a drive maps: less is not deallocated.
pub const PAGE: u64 = 4096;

/// Sectors of a stripe: not as many as a page has.
const STRIPE: u64 = 5;

/// Which of `writers` writers of a namespace owns a sector.
pub fn owner(space: &Space, writers: usize, lba: u64) -> usize {
    let half = space.sectors / 2;
    let writers = writers as u64;
    let index =
        if lba < half { lba / STRIPE % writers } else { (lba - half) * writers / (space.sectors - half) };
    usize::try_from(index).unwrap()
}

impl Writer {
    /// One of `writers` of a namespace.
    pub fn new(
        spaces: &[Space],
        space: usize,
        index: usize,
        writers: usize,
        fill: bool,
        random: Random,
    ) -> Self {
        let mut stripes: Vec<(u64, u64)> = Vec::new();
        for lba in (0..spaces[space].sectors).filter(|lba| owner(&spaces[space], writers, *lba) == index) {
            match stripes.last_mut() {
                Some((first, sectors)) if *first + *sectors == lba => *sectors += 1,
                _ => stripes.push((lba, 1)),
            }
        }
        let chunks = stripes.iter().flat_map(|&(first, sectors)| {
            (first..first + sectors).step_by(64).map(move |at| (at, (first + sectors - at).min(64)))
        });
        let to_fill = if fill { chunks.collect() } else { Vec::new() };
        Writer { space, stripes, sectors: Sectors::default(), random, to_fill }
    }

    /// A range of its sectors. One in four is of the long stretch.
    fn range(&mut self) -> (u64, u64) {
        let count = self.stripes.len() as u64;
        let stripe = if self.random.one_in(4) { count - 1 } else { self.random.below(count) };
        let (first, sectors) = self.stripes[usize::try_from(stripe).unwrap()];
        let most = if self.random.one_in(4) { 128 } else { 16 };
        let wanted = 1 + self.random.below(sectors.min(most));
        (first + self.random.below(sectors - wanted + 1), wanted)
    }

    /// Writes until it is stopped or something fails. Fails if that, or what it reads, is wrong.
    pub fn run(&mut self, space: &Space, disk: &mut dyn Disk, shared: &Shared) -> Result<(), String> {
        while !shared.stop.load(Ordering::SeqCst) {
            match self.operation(space, disk, shared) {
                Ok(()) => shared.operations.fetch_add(1, Ordering::SeqCst),
                Err(Failure::Wrong(what)) => return Err(what),
                Err(Failure::Refused(_)) if shared.crashing.load(Ordering::SeqCst) || shared.worn => {
                    return Ok(());
                }
                Err(Failure::Refused(what)) => {
                    return Err(format!("namespace {}: refused without a reason: {what}", space.nsid));
                }
            };
        }
        Ok(())
    }

    /// Ends quietly with a few small writes, that with FUA or a Flush are durable: what comes next must not lose them.
    pub fn finish(
        &mut self,
        space: &Space,
        disk: &mut dyn Disk,
        shared: &Shared,
        flush: bool,
    ) -> Result<(), String> {
        let mut ends = || {
            for _ in 0..3 {
                let (first, sectors) = self.range();
                self.write(space, disk, shared, (first, sectors.min(2)), Some(!flush))?;
            }
            if flush { self.flush(space, disk, shared) } else { Ok(()) }
        };
        match ends() {
            Err(Failure::Wrong(what)) => Err(what),
            Err(Failure::Refused(what)) if !shared.worn => Err(format!("refused without a reason: {what}")),
            _ => Ok(()),
        }
    }

    fn operation(&mut self, space: &Space, disk: &mut dyn Disk, shared: &Shared) -> Result<(), Failure> {
        if let Some(range) = self.to_fill.pop() {
            return self.write(space, disk, shared, range, None);
        }
        let range = self.range();
        if self.random.one_in(shared.flush_one_in.load(Ordering::SeqCst)) {
            return self.flush(space, disk, shared);
        }
        match self.random.below(32) {
            0..=2 => self.read(space, disk, shared, range),
            3..=7 => self.zero(space, disk, shared, range),
            _ => self.write(space, disk, shared, range, None),
        }
    }

    fn write(
        &mut self,
        space: &Space,
        disk: &mut dyn Disk,
        shared: &Shared,
        range: (u64, u64),
        fua: Option<bool>,
    ) -> Result<(), Failure> {
        let (first, sectors) = range;
        let version = shared.clock.tick();
        let mut data = vec![0; usize::try_from(sectors * u64::from(space.sector)).unwrap()];
        for (lba, sector) in (first..).zip(data.chunks_mut(space.sector as usize)) {
            stamp::fill(sector, space.owner, lba, version);
        }
        let fua = fua.unwrap_or_else(|| self.random.one_in(12));
        self.sectors.begin(first, sectors, version);
        disk.write(first, &data, fua)?;
        self.sectors.complete(first, sectors, shared.clock.tick(), fua, space);
        Ok(())
    }

    fn zero(
        &mut self,
        space: &Space,
        disk: &mut dyn Disk,
        shared: &Shared,
        range: (u64, u64),
    ) -> Result<(), Failure> {
        let how = self.random.below(3);
        let whole = whole_pages(space, range);
        // Dataset Management leaves what is less than a page alone.
        let (first, sectors) = if how == 2 { whole } else { range };
        self.sectors.begin(first, sectors, 0);
        match how {
            0 => disk.zeroes(first, sectors, false)?,
            1 => disk.zeroes(first, sectors, true)?,
            _ => disk.deallocate(range.0, range.1)?,
        }
        self.sectors.complete(first, sectors, shared.clock.tick(), false, space);
        Ok(())
    }

    fn flush(&mut self, space: &Space, disk: &mut dyn Disk, shared: &Shared) -> Result<(), Failure> {
        let began = shared.clock.tick();
        disk.flush()?;
        space.flushed.completed(began);
        Ok(())
    }

    fn read(
        &mut self,
        space: &Space,
        disk: &mut dyn Disk,
        shared: &Shared,
        range: (u64, u64),
    ) -> Result<(), Failure> {
        let (first, sectors) = range;
        let mut data = vec![0; usize::try_from(sectors * u64::from(space.sector)).unwrap()];
        disk.read(first, &mut data)?;
        if shared.crashing.load(Ordering::SeqCst) {
            // Perhaps the power was gone in between: what that took is worked out when the writers have ended.
            return Ok(());
        }
        for (lba, sector) in (first..).zip(data.chunks(space.sector as usize)) {
            self.check(space, lba, sector, shared).map_err(Failure::Wrong)?;
        }
        Ok(())
    }

    fn check(&mut self, space: &Space, lba: u64, found: &[u8], shared: &Shared) -> Result<(), String> {
        let checked = self.sectors.check(space.owner, lba, found, shared.clock.tick());
        let incarnation = space.owner & 0xFFFF_FFFF;
        checked.map_err(|error| {
            format!("namespace {}, incarnation {incarnation}, block {lba}: {error}", space.nsid)
        })
    }
}

/// The part of a range that covers whole pages of flash.
fn whole_pages(space: &Space, (first, sectors): (u64, u64)) -> (u64, u64) {
    let page = PAGE / u64::from(space.sector);
    let (start, end) = (first.next_multiple_of(page), (first + sectors) / page * page);
    (start, end.saturating_sub(start))
}

/// Why an operation did not succeed.
enum Failure {
    /// What was read is wrong.
    Wrong(String),
    /// The drive said no, or nothing.
    Refused(String),
}

impl From<String> for Failure {
    fn from(what: String) -> Self {
        Failure::Refused(what)
    }
}

/// Reads all of a namespace and compares it.
pub fn verify(
    drive: &Drive,
    space: &Space,
    mut writers: Vec<&mut Writer>,
    path: AccessPath,
    shared: &Shared,
) -> Result<(), String> {
    let mut disk = open(drive, path, space.nsid, space.sector)?;
    let count = writers.len();
    let at_once = u64::from(262_144 / space.sector);
    let mut wrong = Vec::new();
    let mut first = 0;
    while first < space.sectors {
        let sectors = at_once.min(space.sectors - first);
        let mut data = vec![0; usize::try_from(sectors * u64::from(space.sector)).unwrap()];
        let nsid = space.nsid;
        disk.read(first, &mut data)
            .map_err(|error| format!("namespace {nsid}, from block {first} on: {error}"))?;
        for (lba, sector) in (first..).zip(data.chunks(space.sector as usize)) {
            let writer = &mut *writers[owner(space, count, lba)];
            wrong.extend(writer.check(space, lba, sector, shared).err());
        }
        first += sectors;
    }
    match wrong.len() {
        0 => Ok(()),
        sectors => Err(format!(
            "{sectors} sectors are wrong, by way of {path:?}:\n{}",
            wrong[..sectors.min(8)].join("\n")
        )),
    }
}
