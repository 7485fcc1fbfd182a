//! Zones as files, with the contract of Linux's zonefs (`Documentation/filesystems/zonefs.rst`), as with its mount options `explicit-open`
//! and `errors=repair`.
//!
//! The drive is asked for sizes and states, because other hosts may use the zones, too. It also judges where a write may go. What changes
//! the state of a zone (opening its file for writing, closing that, truncating it) takes turns, zone by zone.

use crate::access::AccessChange;
use crate::attributes::Shown;
use crate::file_table::File;
use crate::request_queue::{Answer, RequestQueue};
use crate::task::{self, promise};
use fuser::{Errno, FopenFlags, OpenAccMode, OpenFlags};
use nvme::zone::{ZoneDescriptor, ZoneReport, ZoneSendAction, ZoneState};
use rustix::fs::OFlags;
use std::sync::Arc;
use std::time::Duration;

/// How long a request waits for another one that the kernel may have sent before it.
const REORDER_TIMEOUT: Duration = Duration::from_millis(500);

/// A zone as the drive reports it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Zone {
    state: ZoneState,
    /// Logical blocks that can be read, from its begin.
    written: u64,
}

impl Zone {
    /// Whether it can never be written again.
    fn is_bad(self) -> bool {
        matches!(self.state, ZoneState::READ_ONLY | ZoneState::OFFLINE)
    }
}

/// How much zones have room for.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Room {
    /// Logical blocks that can be written in all zones, if they are empty.
    pub blocks: u64,
    /// Logical blocks that can be written without a reset.
    pub free: u64,
    /// Number of zones.
    pub zones: u64,
}

/// The files of zones.
#[derive(Clone)]
pub struct ZoneFs {
    requests: Arc<RequestQueue>,
}

impl ZoneFs {
    /// The zones of the drive that these requests go to.
    pub fn new(requests: Arc<RequestQueue>) -> Self {
        ZoneFs { requests }
    }

    /// What `stat` shows of a zone.
    pub async fn show(&self, file: &Arc<File>, zone: u32) -> Result<Shown, Errno> {
        let now = self.look(file, zone).await?;
        Ok(Shown::zone(file, zone, now.state, now.written))
    }

    /// Opens a zone's file, with the flags of `open`. For writing it opens the zone, so that no write fails because others have too
    /// many open.
    pub async fn open(&self, file: &Arc<File>, zone: u32, flags: u32) -> Result<FopenFlags, Errno> {
        // As for block files. Writes to a zone follow each other, so the kernel keeps them apart.
        let opened = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_NOFLUSH;
        if !writes(flags) {
            return Ok(opened);
        }
        if file.namespace.read_only {
            return Err(Errno::EROFS);
        }
        let _turn = Turn::take(file, zone).await;
        let now = self.look(file, zone).await?;
        if now.is_bad() {
            return Err(Errno::EPERM);
        }
        if now.state != ZoneState::FULL {
            let first = self.manage(file, zone, ZoneSendAction::OPEN).await;
            if first == Err(Errno::EBUSY) {
                // The kernel says that another file is closed after `close` has returned.
                let (giver, over) = promise::<()>();
                drop_later(giver);
                over.await;
                self.manage(file, zone, ZoneSendAction::OPEN).await?;
            } else {
                first?;
            }
        }
        file.zones().add_writer(zone);
        Ok(opened)
    }

    /// A file that was opened with these flags is closed. With the last one for writing it closes the zone.
    pub async fn release(&self, file: &Arc<File>, zone: u32, flags: u32) -> Result<(), Errno> {
        if !writes(flags) {
            return Ok(());
        }
        let _turn = Turn::take(file, zone).await;
        if file.zones().remove_writer(zone) > 0 {
            return Ok(());
        }
        match self.look(file, zone).await? {
            // A closed zone is active, even if nothing is written.
            Zone { state: ZoneState::EXPLICITLY_OPENED, written: 0 } => {
                self.manage(file, zone, ZoneSendAction::RESET).await
            }
            Zone { state: ZoneState::EXPLICITLY_OPENED, .. } => {
                self.manage(file, zone, ZoneSendAction::CLOSE).await
            }
            _ => Ok(()),
        }
    }

    /// Changes permissions, owner and size. A size of 0 resets the zone, and one of its capacity finishes it. There is no other.
    pub async fn change(
        &self,
        file: &Arc<File>,
        zone: u32,
        access: AccessChange,
        size: Option<u64>,
    ) -> Result<Shown, Errno> {
        let _turn = Turn::take(file, zone).await;
        let now = self.look(file, zone).await?;
        if now.is_bad() {
            return Err(Errno::EPERM);
        }
        match size {
            None => {}
            Some(_) if file.namespace.read_only => return Err(Errno::EROFS),
            Some(0) => self.reset(file, zone, now).await?,
            Some(size) if size == file.namespace.zone_bytes() => self.finish(file, zone, now).await?,
            Some(_) => return Err(Errno::EPERM),
        }
        file.zones().change_access(zone, access);
        self.show(file, zone).await
    }

    /// Makes a zone empty. If it is open for writing, it stays so.
    async fn reset(&self, file: &Arc<File>, zone: u32, now: Zone) -> Result<(), Errno> {
        let has_writers = file.zones().writers(zone) > 0;
        let is_reset = match now.state {
            ZoneState::EMPTY => !has_writers,
            ZoneState::EXPLICITLY_OPENED => has_writers && now.written == 0,
            _ => false,
        };
        if is_reset {
            return Ok(());
        }
        self.manage(file, zone, ZoneSendAction::RESET).await?;
        match has_writers {
            true => self.manage(file, zone, ZoneSendAction::OPEN).await,
            false => Ok(()),
        }
    }

    /// Makes a zone full.
    async fn finish(&self, file: &Arc<File>, zone: u32, now: Zone) -> Result<(), Errno> {
        match now.state {
            ZoneState::FULL => Ok(()),
            _ => self.manage(file, zone, ZoneSendAction::FINISH).await,
        }
    }

    /// Reads `size` bytes at `offset`, as many of them as are written.
    pub fn read(&self, file: Arc<File>, zone: u32, offset: u64, size: u32, answer: Answer) {
        let block_size = u64::from(file.namespace.block_size());
        let known = file.zones().written(zone).unwrap_or(0) * block_size;
        if offset.saturating_add(size.into()) <= known {
            return self.requests.read_zone(file, zone, offset, size, answer);
        }
        let zonefs = self.clone();
        task::run(async move {
            let end = match zonefs.look(&file, zone).await {
                Ok(Zone { state: ZoneState::OFFLINE, .. }) => return answer.fail(Errno::EPERM),
                Ok(now) => now.written * block_size,
                Err(errno) => return answer.fail(errno),
            };
            // Not larger than `size`.
            let within = u32::try_from(end.saturating_sub(offset).min(size.into())).unwrap_or(size);
            zonefs.requests.read_zone(file, zone, offset, within, answer);
        });
    }

    /// Writes `data` at `offset`, with the flags of `open`: whole blocks, with direct I/O, at the end of the file.
    pub fn write(
        &self,
        file: Arc<File>,
        zone: u32,
        offset: u64,
        data: Vec<u8>,
        mode: WriteMode,
        answer: Answer,
    ) {
        let room = file.namespace.zone_bytes().saturating_sub(offset);
        let len = room.min(data.len() as u64);
        if room == 0 {
            return self.refuse(file, zone, Errno::EFBIG, answer);
        }
        if !mode.direct {
            return self.refuse(file, zone, Errno::EIO, answer);
        }
        if !(offset | len).is_multiple_of(file.namespace.block_size().into()) {
            return self.refuse(file, zone, Errno::EINVAL, answer);
        }
        let at = offset / u64::from(file.namespace.block_size());
        if file.zones().written(zone) == Some(at) {
            return self.requests.write_zone(file, zone, offset, data, mode.durable, answer);
        }
        let zonefs = self.clone();
        task::run(async move {
            zonefs.wait_for_block(&file, zone, at).await;
            zonefs.requests.write_zone(file, zone, offset, data, mode.durable, answer);
        });
    }

    /// Refuses a write that no zone takes. That a zone can never be written again is the better reason.
    fn refuse(&self, file: Arc<File>, zone: u32, errno: Errno, answer: Answer) {
        let zonefs = self.clone();
        task::run(async move {
            let is_bad = zonefs.look(&file, zone).await.is_ok_and(Zone::is_bad);
            answer.fail(if is_bad { Errno::EPERM } else { errno });
        });
    }

    /// The kernel cuts large writes of asynchronous I/O into several, and sends them at once. A later part that comes first waits for those
    /// before it. If they do not come, the drive refuses it.
    async fn wait_for_block(&self, file: &Arc<File>, zone: u32, at: u64) {
        // Another host may have written them. An error shows when the drive gets the write.
        let _ = self.look(file, zone).await;
        if let Some(come) = file.zones().wait_for_block(zone, at) {
            drop_later(Patience { file: file.clone(), zone });
            come.await;
        }
    }

    /// How much the zones of a namespace have room for.
    pub async fn room(&self, file: &Arc<File>) -> Result<Room, Errno> {
        let Some(zones) = file.namespace.zones else { return Ok(Room::default()) };
        let mut room =
            Room { blocks: u64::from(zones.count) * zones.capacity, free: 0, zones: zones.count.into() };
        let mut zone = 0;
        while zone < zones.count {
            let asked = file.namespace.zones_of_report().min(zones.count - zone);
            let found = self.report(file, zone, asked).await?;
            if found.is_empty() {
                return Err(Errno::EIO);
            }
            let good = found.iter().filter(|zone| !zone.is_bad());
            room.free += good.map(|zone| zones.capacity - zone.written).sum::<u64>();
            zone = zone.saturating_add(u32::try_from(found.len()).unwrap_or(u32::MAX));
        }
        Ok(room)
    }

    /// Asks the drive for a zone.
    async fn look(&self, file: &Arc<File>, zone: u32) -> Result<Zone, Errno> {
        let before = file.zones().changes(zone);
        let now = self.report(file, zone, 1).await?.first().copied().ok_or(Errno::EIO)?;
        file.zones().note_report(zone, before, now.written);
        Ok(now)
    }

    /// A report of so many zones, at most as many as one report has.
    async fn report(&self, file: &Arc<File>, first: u32, zones: u32) -> Result<Vec<Zone>, Errno> {
        let (giver, page) = promise();
        self.requests.report(file.clone(), first, zones, Box::new(move |page| giver.give(page)));
        let page = page.await.ok_or(Errno::EIO)??;
        let report = ZoneReport::parse(&page, 0).ok_or(Errno::EIO)?;
        Ok((first..).zip(report.zones()).map(|(number, (zone, _))| reported(file, number, zone)).collect())
    }

    async fn manage(&self, file: &Arc<File>, zone: u32, action: ZoneSendAction) -> Result<(), Errno> {
        file.zones().note_written(zone, None);
        let (giver, done) = promise();
        self.requests.manage(file.clone(), zone, action, Box::new(move |done| giver.give(done)));
        let done = done.await.ok_or(Errno::EIO)?;
        // Reports of before do not count.
        file.zones().note_written(zone, None);
        done.map(drop)
    }
}

/// Flag of an open file whose writes are to be durable (Linux, `asm-generic/fcntl.h`). What `rustix` calls so is `O_SYNC`.
pub const O_DSYNC: u32 = 0o10_000;

/// What the flags of `open` say of a write.
#[derive(Clone, Copy, Debug)]
pub struct WriteMode {
    /// It goes past the kernel's page cache (`O_DIRECT`).
    pub direct: bool,
    /// It is to be durable (`O_DSYNC`).
    pub durable: bool,
}

impl WriteMode {
    /// The kernel adds `O_DSYNC` for a single write with `RWF_DSYNC`, too. `O_SYNC` contains it.
    pub fn new(flags: u32) -> Self {
        let has = |flag: u32| flags & flag != 0;
        WriteMode { direct: has(OFlags::DIRECT.bits()), durable: has(O_DSYNC) }
    }
}

/// Whether a file that is opened with these flags can be written.
fn writes(flags: u32) -> bool {
    OpenFlags(flags.cast_signed()).acc_mode() != OpenAccMode::O_RDONLY
}

/// What a zone descriptor says. Not all zones have a write pointer.
fn reported(file: &File, number: u32, zone: &ZoneDescriptor) -> Zone {
    let capacity = file.namespace.zones.map_or(0, |zones| zones.capacity);
    let written = match (zone.state(), zone.write_pointer()) {
        (ZoneState::OFFLINE, _) => 0,
        // What was written before can still be read. Blocks that never were read as zeroes.
        (ZoneState::READ_ONLY, _) => file.zones().last_written(number).unwrap_or(capacity),
        (_, Some(at)) => at.saturating_sub(zone.zslba.get()),
        (_, None) => capacity,
    };
    Zone { state: zone.state(), written: written.min(capacity) }
}

/// The right to change the state of a zone. It ends when this is dropped.
struct Turn {
    file: Arc<File>,
    zone: u32,
}

impl Turn {
    async fn take(file: &Arc<File>, zone: u32) -> Self {
        let (giver, come) = promise();
        if let Some(giver) = file.zones().enter(zone, giver) {
            giver.give(());
        }
        come.await;
        Turn { file: file.clone(), zone }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(next) = self.file.zones().leave(self.zone) {
            next.give(());
        }
    }
}

/// Ends the waiting of writes to a zone when it is dropped.
struct Patience {
    file: Arc<File>,
    zone: u32,
}

impl Drop for Patience {
    fn drop(&mut self) {
        self.file.zones().end_waiting(self.zone);
    }
}

/// Drops a value when a request has waited long enough. Rare, so it takes a thread of its own. If there is none, it does not wait.
fn drop_later(value: impl Send + 'static) {
    let wait = move || {
        std::thread::sleep(REORDER_TIMEOUT);
        drop(value);
    };
    let _ = std::thread::Builder::new().name("zone-wait".into()).spawn(wait);
}
