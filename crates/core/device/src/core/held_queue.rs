//! The queues of a namespace for commands that arbitration holds back, and these commands.

use super::fair_queueing::{Share, UNIT_FACTOR};
use super::meter::Meter;
use ftl::VolumeStats;
use media::Nanos;
use nvme::IoCommand;

/// No command.
pub(super) const NO_COMMAND: u32 = u32::MAX;

/// The commands of one namespace and direction that are held, and the meters of its quota.
#[derive(Clone, Debug)]
pub(crate) struct HeldQueue {
    pub(super) bytes: Meter,
    pub(super) commands: Meter,
    /// First and last command that is held.
    pub(super) first: u32,
    pub(super) last: u32,
    /// Time of the event that lets the first one go; [`Nanos::MAX`] if there is none.
    pub(super) timer: Nanos,
    /// Since when it waits for nothing but its turn on the set; [`Nanos::MAX`] if it does not wait there.
    pub(super) ready: Nanos,
}

impl Default for HeldQueue {
    fn default() -> Self {
        HeldQueue {
            bytes: Meter::default(),
            commands: Meter::default(),
            first: NO_COMMAND,
            last: NO_COMMAND,
            timer: Nanos::MAX,
            ready: Nanos::MAX,
        }
    }
}

impl HeldQueue {
    pub(super) fn due(&self) -> Nanos {
        self.bytes.due().max(self.commands.due())
    }

    pub(super) fn is_limited(&self) -> bool {
        self.bytes.is_on() || self.commands.is_on()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.first == NO_COMMAND
    }

    pub(super) fn charge(&mut self, now: Nanos, bytes: u64) {
        self.bytes.charge(now, bytes);
        self.commands.charge(now, 1);
    }
}

/// A namespace's part in arbitration.
#[derive(Clone, Debug)]
pub(crate) struct NamespaceArbitration {
    /// Whether commands must ask at all.
    pub(super) watched: bool,
    /// Whether the NVM Set is shared with others.
    pub(super) shares: bool,
    pub(super) share: Share,
    /// Media bytes written for each byte of the host, times [`UNIT_FACTOR`].
    pub(super) write_factor: u32,
    /// What was written for the host, and by garbage collection, when the write factor was found.
    written: (u64, u64),
    pub(super) queues: [HeldQueue; 2],
}

impl Default for NamespaceArbitration {
    fn default() -> Self {
        NamespaceArbitration {
            watched: false,
            shares: false,
            share: Share::default(),
            write_factor: UNIT_FACTOR,
            written: (0, 0),
            queues: Default::default(),
        }
    }
}

impl NamespaceArbitration {
    pub(super) fn watch(&mut self) {
        self.watched = self.shares || self.queues.iter().any(HeldQueue::is_limited);
    }

    /// A command of this cost has ended.
    #[inline]
    pub fn end(&mut self, cost: u32) {
        self.share.under_way = self.share.under_way.saturating_sub(cost.into());
    }

    /// Finds out what writes cost lately.
    pub fn weigh_writes(&mut self, media: &VolumeStats) {
        let host = media.media_host_bytes.saturating_sub(self.written.0);
        if host < RECENT_BYTES {
            return;
        }
        let collected = media.media_gc_bytes.saturating_sub(self.written.1);
        self.written = (media.media_host_bytes, media.media_gc_bytes);
        let factor = (host.saturating_add(collected)).saturating_mul(UNIT_FACTOR.into()) / host;
        let factor = u32::try_from(factor).unwrap_or(u32::MAX).min(MAX_FACTOR);
        self.write_factor = (3 * self.write_factor + factor) / 4;
    }
}

/// Bytes written for the host that tell what writes cost.
const RECENT_BYTES: u64 = 1 << 20;

/// The highest write amplification that counts.
const MAX_FACTOR: u32 = 64 * UNIT_FACTOR;

/// Commands that are held, by their number.
#[derive(Debug, Default)]
pub(crate) struct HeldCommands {
    table: Vec<Option<HeldCommand>>,
}

#[derive(Clone, Debug)]
pub(super) struct HeldCommand {
    pub(super) command: IoCommand,
    /// Its data, if the controller itself reads them.
    pub(super) data: Box<[u8]>,
    /// The next of its held queue.
    pub(super) next: u32,
}

impl HeldCommands {
    pub(super) fn put(&mut self, io: u32, command: IoCommand, data: Box<[u8]>) {
        let index = io as usize;
        if index >= self.table.len() {
            self.table.resize((index + 1).next_power_of_two().max(64), None);
        }
        self.table[index] = Some(HeldCommand { command, data, next: NO_COMMAND });
    }

    pub(super) fn get(&self, io: u32) -> Option<&HeldCommand> {
        self.table.get(io as usize)?.as_ref()
    }

    pub(super) fn link(&mut self, io: u32, next: u32) {
        if let Some(Some(waiting)) = self.table.get_mut(io as usize) {
            waiting.next = next;
        }
    }

    /// Power was lost.
    pub fn clear(&mut self) {
        self.table.fill(None);
    }

    pub(super) fn take(&mut self, io: u32) -> Option<HeldCommand> {
        self.table.get_mut(io as usize)?.take()
    }
}
