//! The store in memory: the tree, what is not written yet, and where things go. Everything here happens under one lock.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use crate::device::{Append, Condition, DeviceError, Zone, ZoneDevice};
use crate::dirty::Dirty;
use crate::error::Error;
use crate::keys::KeyRange;
use crate::lifetime::Lifetime;
use crate::log::{FrameUnderWay, Log, Position};
use crate::metadata::{BLOCK_BYTES, Claim};
use crate::placement::{Group, Habits, Newcomer, Placement};
use crate::reason::Reason;
use crate::record::{Ino, Record};
use crate::space::{Choice, Space};
use crate::totals::Totals;
use crate::tree::{Contents, EXTENT_BYTES, Tree};

/// When things in memory go to the device. Blocks are logical blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Limits {
    /// Blocks in memory of one file, at most.
    pub(crate) file_blocks: usize,
    /// Blocks in memory of all files, at most.
    pub(crate) total_blocks: usize,
    /// A write of so many whole blocks goes to its zone at once.
    pub(crate) direct: usize,
    /// Blocks of one append of data, at most.
    pub(crate) piece: usize,
    /// Bytes that go into the log with one sync of a file at most. More go to zones of data as whole blocks.
    pub(crate) inline: usize,
    /// Blocks in memory of a file that go to zones with Force Unit Access when it is synced, at most. More need a Flush.
    pub(crate) durable: usize,
    /// Bytes of a file that lie in the log, at most.
    pub(crate) file_patches: u64,
    /// Bytes of all files that lie in the log, at most.
    pub(crate) total_patches: u64,
    /// Bytes of records that wait for the log, at most.
    pub(crate) pending: usize,
    /// Data is sent to zones only while fewer appends are under way.
    pub(crate) under_way: usize,
    /// So many more may be under way for short-lived files, as logs are. The writer of a log need not wait for what others write.
    pub(crate) under_way_of_logs: usize,
}

impl Limits {
    /// Those for blocks of so many bytes.
    pub(crate) fn new(block: usize) -> Self {
        let blocks = |bytes: usize| (bytes / block).max(1);
        Self {
            file_blocks: blocks(2 << 20),
            total_blocks: blocks(64 << 20),
            direct: blocks(256 << 10),
            piece: blocks(1 << 20),
            inline: 16 << 10,
            durable: blocks(64 << 10),
            file_patches: 32 << 10,
            total_patches: 1 << 20,
            pending: 1 << 20,
            under_way: 4,
            under_way_of_logs: 2,
        }
    }
}

/// A file that is open, or has blocks in memory.
#[derive(Default, Debug)]
pub(crate) struct Active {
    /// How often it is open.
    pub(crate) opens: u32,
    /// Blocks that were written.
    pub(crate) dirty: Dirty,
    /// Its size, if the log does not have it yet.
    pub(crate) size: Option<u64>,
    /// When it was written last, if the log does not have it yet.
    pub(crate) mtime: u64,
}

/// Blocks of a file on their way to a zone.
#[derive(Debug)]
pub(crate) struct UnderWay {
    pub(crate) ino: Ino,
    /// Its first block within the file.
    pub(crate) first: u64,
    pub(crate) blocks: u64,
    /// Of these, blocks that the file does not have yet.
    pub(crate) fresh: u64,
    pub(crate) zone: u32,
    /// How long the file is at least, and when it was written.
    pub(crate) size: u64,
    pub(crate) mtime: u64,
    /// It is durable when the append has ended.
    pub(crate) durable: bool,
    pub(crate) append: Arc<dyn Append>,
}

/// Records on their way to the log.
#[derive(Debug)]
pub(crate) struct Writing {
    pub(crate) frame: FrameUnderWay,
    /// How many records the log has with them.
    pub(crate) records: u64,
    /// Zones that they free.
    pub(crate) freed: Vec<u32>,
    /// All records are durable with them.
    pub(crate) durable: bool,
}

/// The store.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) tree: Tree,
    pub(crate) space: Space,
    pub(crate) log: Log,
    pub(crate) active: BTreeMap<Ino, Active>,
    /// Blocks in memory, of all files.
    pub(crate) dirty_blocks: usize,
    /// Of these, blocks that have no place on the device yet.
    pub(crate) fresh_blocks: usize,
    /// Blocks of a write that place in the log is reserved for, before they are under way.
    pub(crate) reserved_blocks: u64,
    /// Data on its way to zones.
    pub(crate) under_way: VecDeque<UnderWay>,
    /// Records that the tree has, and that no append to the log has yet.
    pub(crate) pending: Vec<u8>,
    /// An append to the log that has not ended.
    pub(crate) writing: Option<Writing>,
    /// Counts records: those of the tree, those of the log, those that are durable.
    pub(crate) recorded: u64,
    pub(crate) logged: u64,
    pub(crate) durable_records: u64,
    /// The log is durable up to here.
    pub(crate) durable: Position,
    /// Counts what was appended to zones of data: all of it, and what is durable.
    pub(crate) appends: u64,
    pub(crate) durable_appends: u64,
    /// The store writes nothing.
    pub(crate) read_only: bool,
    /// The zones of the log when it was read.
    pub(crate) log_zones: Vec<Zone>,
    /// When the store became this program's own, or shortly after.
    pub(crate) claimed: Instant,
    /// When it was this program's own for certain.
    pub(crate) looked: Option<Instant>,
    /// Why the store takes no changes any more.
    pub(crate) stopped: Option<Reason>,
    /// Files of which something that was written is lost. Nobody can say what they hold.
    pub(crate) lost: BTreeSet<Ino>,
    pub(crate) placement: Placement,
    pub(crate) limits: Limits,
    pub(crate) counters: Counters,
    pub(crate) totals: Totals,
}

/// What the store has done since it was opened. Blocks are logical blocks of the device.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct Counters {
    /// Blocks of files that were written to zones of data.
    pub data_blocks: u64,
    /// Of these, blocks that garbage collection wrote.
    pub moved_blocks: u64,
    /// Zones of data that were reset.
    pub resets: u64,
    /// Epochs of the log that began.
    pub epochs: u64,
}

impl State {
    /// Whether changes are taken.
    pub(crate) fn writable(&self) -> Result<(), Error> {
        match &self.stopped {
            Some(why) => Err(Error::Stopped(why.clone())),
            None if self.read_only => Err(Error::ReadOnly),
            None => Ok(()),
        }
    }

    /// What was to be written is not, or nobody knows. From now on the store takes no changes.
    pub(crate) fn stop(&mut self, error: &Error) {
        self.stopped.get_or_insert_with(|| Reason::new(error.clone()));
    }

    /// Looks whether the store is still this program's own. If not, it stops.
    pub(crate) fn look<D: ZoneDevice>(&mut self, device: &D) -> Result<(), Error> {
        let now = Instant::now();
        match self.log.look(device) {
            Ok(()) => self.looked = Some(now),
            Err(error) => {
                self.looked = None;
                if matches!(error, Error::Taken | Error::Changed) {
                    self.stop(&error);
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// Whether what was read, or written to, belongs to the files that this program knows: nobody has reset a zone meanwhile. It looks only if the last look
    /// is older than the [lease](ZoneDevice::lease).
    ///
    /// A store that only reads is not told of resets. They follow a change of the log.
    pub(crate) fn hold<D: ZoneDevice>(&mut self, device: &D) -> Result<(), Error> {
        if self.read_only {
            let unchanged = device.first_zones(self.log.layout().log_zones)? == self.log_zones;
            return if unchanged { Ok(()) } else { Err(Error::Moved) };
        }
        match self.looked {
            Some(looked) if looked.elapsed() < device.lease() => Ok(()),
            _ => self.look(device),
        }
    }

    /// Changes the tree, and keeps the record for the log.
    pub(crate) fn record(&mut self, record: &Record) -> Result<(), Error> {
        self.tree.apply(record).inspect_err(|misfit| {
            let why = format!("it was about to do what cannot be: {misfit}");
            self.stopped.get_or_insert(why.into());
        })?;
        record.encode(&mut self.pending);
        self.recorded += 1;
        Ok(())
    }

    pub(crate) fn contents(&self, ino: Ino) -> Result<&Contents, Error> {
        let inode = self.tree.get(ino).ok_or(Error::NotFound)?;
        match inode.contents() {
            Some(contents) => Ok(contents),
            None if inode.directory().is_some() => Err(Error::IsDirectory),
            None => Err(Error::Invalid("a symbolic link has no contents")),
        }
    }

    /// The size of a file as programs see it.
    pub(crate) fn size(&self, ino: Ino) -> Result<u64, Error> {
        let logged = self.contents(ino)?.size;
        Ok(self.active.get(&ino).and_then(|active| active.size).unwrap_or(logged))
    }

    /// The blocks from `first` to `last` (exclusive) of a file, which a program wrote, as data that needs a place.
    pub(crate) fn newcomer(&mut self, ino: Ino, first: u64, last: u64) -> Newcomer {
        let (mut group, keys) = self.group(ino);
        let replaced = self.replaced(ino, first, last);
        if let Some(lba) = replaced {
            self.space.rewritten(lba);
        }
        if group == Group::default() && self.placement != Placement::None {
            group.lifetime = self.habits(ino, replaced).lifetime();
        }
        let (is_rewritten, since) = (replaced.is_some(), self.totals.written);
        Newcomer { group, is_rewritten, table: keys.map(|keys| (ino, keys)), since }
    }

    /// Blocks of a file that garbage collection moves, as data that needs a place. They are like the others in the zone of a logical block.
    fn survivor(&self, lba: u64) -> Newcomer {
        let group = Group { is_moved: self.placement != Placement::None, ..Group::default() };
        let (since, is_rewritten) = self.space.habits(lba);
        Newcomer { group, is_rewritten, table: None, since }
    }

    /// Where the first block lies that is replaced when the blocks from `first` to `last` (exclusive) of a file are written. The last block of a file does not count: it is written
    /// again because the file grows.
    fn replaced(&self, ino: Ino, first: u64, last: u64) -> Option<u64> {
        let contents = self.tree.get(ino)?.contents()?;
        let end = contents.size.div_ceil(self.tree.block()).saturating_sub(1);
        contents.extents.within(first, last.min(end)).next().map(|(_, run)| run.lba)
    }

    /// The group that a file's hints tell, and its keys, as far as the placement counts them.
    pub(crate) fn group(&self, ino: Ino) -> (Group, Option<KeyRange>) {
        let (lifetime, keys) = match self.placement {
            Placement::None => (Lifetime::Unknown, None),
            Placement::Lifetime => (self.hints(ino).0, None),
            Placement::Overlap => self.hints(ino),
        };
        // A lifetime says more than a level.
        let level = keys.as_ref().map(KeyRange::level).filter(|_| lifetime == Lifetime::Unknown);
        (Group { lifetime, level, is_moved: false }, keys)
    }

    /// The lifetime and the keys that a writer gave a file.
    pub(crate) fn hints(&self, ino: Ino) -> (Lifetime, Option<KeyRange>) {
        let xattr = |name| self.tree.get(ino).and_then(|inode| inode.xattrs.get(name));
        let lifetime = xattr(Lifetime::XATTR).and_then(|value| Lifetime::parse(value)).unwrap_or_default();
        (lifetime, xattr(KeyRange::XATTR).and_then(|value| KeyRange::parse(value)))
    }

    /// Whether data of a file may be sent to zones.
    pub(crate) fn may_begin(&self, ino: Ino) -> bool {
        let Limits { under_way, under_way_of_logs, .. } = self.limits;
        let now = self.under_way.len();
        now < under_way || now < under_way + under_way_of_logs && self.hints(ino).0 == Lifetime::Short
    }

    fn habits(&self, ino: Ino, replaced: Option<u64>) -> Habits {
        let size = self.tree.get(ino).and_then(|inode| inode.contents()).map_or(0, |contents| contents.size);
        Habits {
            replaced: replaced.map(|lba| self.totals.written.saturating_sub(self.space.habits(lba).0)),
            is_large: size / self.tree.block() >= self.space.capacity(),
            live: self.tree.live_total(),
        }
    }

    /// Blocks that a zone of the log holds: those of data hold as many.
    pub(crate) fn log_capacity(&self) -> u64 {
        self.space.capacity()
    }

    /// A zone did not take what it should. It takes nothing any more.
    pub(crate) fn retire<D: ZoneDevice>(&mut self, device: &D, zone: u32) -> Result<(), Error> {
        // A full zone does not tell how much of it is there after a loss of power. So everything must be, also what other files have under way to it.
        self.wait_for(zone);
        self.flush(device)?;
        // Not on trust: a zone that another program writes to now would be full for it.
        self.look(device)?;
        let _ = device.finish(zone);
        let state = device.zone(zone)?;
        self.space.close(zone, state);
        Ok(())
    }

    /// Zones that take no data, and are not full, must not take the places of others. Nothing in the log depends on how far they were
    /// written, and everything is durable.
    pub(crate) fn finish_others<D: ZoneDevice>(&mut self, device: &D) -> Result<(), Error> {
        for zone in self.space.unfinished() {
            let _ = device.finish(zone);
            let state = device.zone(zone)?;
            self.space.finished(zone, state);
        }
        Ok(())
    }

    /// An open zone with room.
    pub(crate) fn place<D: ZoneDevice>(
        &mut self,
        device: &D,
        newcomer: &Newcomer,
        collecting: bool,
    ) -> Result<u32, Error> {
        loop {
            self.hold(device)?;
            // Without place in the log for what moves, groups cannot be kept apart.
            let may_collect = !collecting && self.metadata_room(Claim::Move) >= BLOCK_BYTES;
            match self.space.choose(newcomer, &self.tree, (collecting, may_collect), self.durable) {
                Choice::Open(zone) => {
                    self.space.welcome(zone, newcomer);
                    return Ok(zone);
                }
                Choice::Empty(zone) => {
                    if self.space.is_crowded() {
                        // Zones that become full must have done so, or too many would be open.
                        self.wait_for_all();
                        self.flush(device)?;
                        self.space.settle_all();
                    }
                    self.space.open(zone, newcomer.group);
                }
                Choice::Reset(zone) => self.reset(device, zone)?,
                Choice::Commit => self.commit(device)?,
                Choice::Collect if collecting => return Err(Error::NoSpace),
                Choice::Collect if !self.under_way.is_empty() => self.land_all(device)?,
                Choice::Collect => {
                    if !self.space.bury(&self.tree) {
                        self.collect(device)?;
                    }
                }
            }
        }
    }

    /// Empties a zone of data that no file needs.
    pub(crate) fn reset<D: ZoneDevice>(&mut self, device: &D, zone: u32) -> Result<(), Error> {
        assert_eq!(self.tree.live(zone), 0, "zone {zone} has blocks of files");
        // A program that had the store before may still read, until it looks.
        let quiet = (device.lease() * 2).saturating_sub(self.claimed.elapsed());
        if !quiet.is_zero() {
            device.pause(quiet)?;
        }
        self.look(device)?;
        match device.reset(zone) {
            Ok(()) => {
                self.space.emptied(zone);
                self.counters.resets += 1;
            }
            Err(DeviceError::Zone { .. }) => self.space.broke(zone),
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// A zone that was to be emptied cannot be read. If it went offline, files have lost what they had in it, and it is left alone.
    fn lost<D: ZoneDevice>(&mut self, device: &D, zone: u32, error: DeviceError) -> Result<(), Error> {
        let state = device.zone(zone)?;
        if state.condition != Condition::Offline {
            return Err(error.into());
        }
        self.space.close(zone, state);
        Ok(())
    }

    /// Empties a zone of data: what files have in it is written elsewhere.
    pub(crate) fn collect<D: ZoneDevice>(&mut self, device: &D) -> Result<(), Error> {
        let victim = self.space.victim(&self.tree, self.totals.written).ok_or(Error::NoSpace)?;
        let shape = device.shape();
        let mut moves = Vec::new();
        for (ino, inode) in self.tree.inodes() {
            let runs = inode.contents().into_iter().flat_map(|contents| contents.extents.iter());
            moves.extend(
                runs.filter(|(_, run)| shape.zone_of(run.lba) == victim).map(|(at, run)| (ino, at, run)),
            );
        }
        for (ino, at, run) in moves {
            let newcomer = self.survivor(run.lba);
            let mut from = 0;
            while from < run.blocks {
                let blocks = (self.limits.piece as u64).min(run.blocks - from);
                // It can come to lie in as many runs as it has blocks.
                let blocks = blocks.min(self.metadata_room(Claim::Move) / EXTENT_BYTES);
                if blocks == 0 {
                    return Err(Error::NoSpace);
                }
                let mut data = vec![0; usize::try_from(blocks).unwrap_or(0) * shape.block];
                if let Err(error) = device.read(run.lba + from, &mut data) {
                    return self.lost(device, victim, error);
                }
                let (mut block, mut data) = (at + from, data.as_slice());
                while !data.is_empty() {
                    for run in self.put(device, &newcomer, data, true)? {
                        self.record(&Record::Moved { ino, block, run })?;
                        block += run.blocks;
                        data = &data[usize::try_from(run.blocks).unwrap_or(0) * shape.block..];
                    }
                }
                from += blocks;
            }
        }
        self.space.bury(&self.tree);
        Ok(())
    }
}
