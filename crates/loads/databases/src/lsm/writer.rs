//! The writer: records into the log and the memtable, as fast as the engine lets it.

use super::engine::{Engine, Event, Memtable, Purpose, Writer};
use super::keys::scale;
use super::pick::{self, Stall};
use super::space::FileSpace;
use workload::Nanos;

/// Bytes of records that the writer writes between two looks at the clock.
const STEP: u64 = 32 << 10;
/// A slowed writer is never slower than this, in bytes per second (`kMinWriteRate`).
const MIN_BYTES_PER_SECOND: u64 = 16 << 10;
const SECOND: u64 = 1_000_000_000;

impl<S: FileSpace> Engine<S> {
    /// Records of a step, and of what is left in the memtable.
    fn step(&self) -> u64 {
        let step = STEP / u64::from(self.config.log_record.max(1));
        let room = self.config.write_buffer / u64::from(self.config.memory_record.max(1));
        step.min(room.saturating_sub(self.active.records)).max(1)
    }

    /// Its records of the last step are written; it begins with the next ones.
    pub(super) fn writer_goes_on(&mut self) {
        if self.writer != Writer::Busy {
            return;
        }
        let done = std::mem::take(&mut self.ready);
        if done > 0 && !self.put(done) {
            return;
        }
        if !self.config.writer {
            self.writer = Writer::Ended;
            return;
        }
        if let Stall::Stopped(why) = self.stall {
            self.writer = Writer::Stopped(self.now, why);
            return;
        }
        self.ready = self.step();
        let bytes = self.ready * u64::from(self.config.log_record);
        let work = self.ready * self.config.write;
        // Of a slowed writer each step takes longer; a limited one waits between them, which is no latency.
        let slowed = match self.stall {
            Stall::Slowed { .. } => scale(bytes, SECOND, self.delayed_rate.max(MIN_BYTES_PER_SECOND)),
            _ => 0,
        };
        let takes = work.max(slowed);
        self.counts.slowed += takes - work;
        let each = takes / self.ready;
        let _ = self.write_latency.record_n(each.max(1), self.ready);
        let mut end = self.now + takes;
        if self.config.write_limit > 0 {
            self.paced = self.paced.max(self.now) + scale(bytes, SECOND, self.config.write_limit);
            end = end.max(self.paced);
        }
        self.at(end, Event::Writer);
    }

    /// Records are in the log and in the memtable. `false`: the writer waits.
    fn put(&mut self, records: u64) -> bool {
        let bytes = records * u64::from(self.config.log_record);
        self.counts.writes += records;
        self.counts.user_bytes += bytes;
        if self.config.log {
            if self.active.log.is_none() {
                self.active.log = self.new_log();
            }
            self.log_rest += bytes;
        }
        self.active.records += records;
        let most = self.config.write_buffer / u64::from(self.config.memory_record.max(1));
        let is_full = self.active.records >= most;
        self.write_log(is_full);
        if is_full {
            if let Some(log) = self.active.log {
                self.change(|space, out| space.close(log, out));
            }
            self.full.push_back(std::mem::take(&mut self.active));
            self.changed();
        }
        let under_way: u32 = self.log_writes.values().sum();
        if under_way >= self.config.log_depth.max(1) {
            self.writer = Writer::Log(self.now);
            return false;
        }
        true
    }

    /// Writes of the log: whole ones, and the rest at the end of a file.
    fn write_log(&mut self, rest: bool) {
        let Some(log) = self.active.log else { return };
        let whole = u64::from(self.config.log_write.max(4096));
        while self.log_rest >= whole || (rest && self.log_rest > 0) {
            let bytes = self.log_rest.min(whole);
            self.log_rest -= bytes;
            let blocks = bytes.div_ceil(super::job::BLOCK) as u32;
            let took = self.append(log, blocks, Purpose::Log(log));
            if took > 0 {
                *self.log_writes.entry(log).or_default() += 1;
            }
            self.counts.log_bytes += u64::from(took) * super::job::BLOCK;
            if took < blocks {
                // Without room it stays in memory: the next write is longer.
                if !rest {
                    self.log_rest += bytes - (u64::from(took) * super::job::BLOCK).min(bytes);
                }
                break;
            }
        }
    }

    /// A write of the log has ended.
    pub(super) fn log_written(&mut self) {
        if let Writer::Log(since) = self.writer {
            self.waited(since);
        }
    }

    /// The writer has waited since then, and goes on.
    fn waited(&mut self, since: Nanos) {
        let waited = self.now - since;
        let _ = self.write_latency.record(waited.max(1));
        self.writer = Writer::Busy;
        self.at(self.now, Event::Writer);
    }

    /// Writes may go on, if nothing is against it.
    pub(super) fn wake_writer(&mut self) {
        if let (Writer::Stopped(since, why), false) = (self.writer, matches!(self.stall, Stall::Stopped(_))) {
            self.counts.stopped[why] += self.now - since;
            self.waited(since);
        }
    }

    /// Whether writes must wait, and how slow a slowed writer is (`SetupDelay` in db/column_family.cc). `before`: what compaction was behind until now.
    pub(super) fn set_stall(&mut self, before: u64) {
        let was = self.stall;
        self.stall = pick::stall(&self.config, &self.levels, self.pending, self.full.len());
        let most = self.config.delayed_rate;
        let slowed = |stall: Stall| matches!(stall, Stall::Slowed { .. });
        self.delayed_rate = match (self.stall, was) {
            (Stall::Slowed { near: true }, was) if slowed(was) => self.delayed_rate * 3 / 5,
            (Stall::Slowed { .. }, Stall::Stopped(_)) => self.delayed_rate * 3 / 5,
            (Stall::Slowed { .. }, was) if slowed(was) && before > 0 && before <= self.pending => {
                self.delayed_rate * 4 / 5
            }
            (Stall::Slowed { .. }, was) if slowed(was) && before > self.pending => {
                (self.delayed_rate * 5 / 4).min(most)
            }
            (Stall::None, was) if was != Stall::None => (self.delayed_rate * 7 / 5).min(most),
            _ => self.delayed_rate,
        }
        .max(MIN_BYTES_PER_SECOND);
    }

    /// The oldest full memtable was flushed.
    pub(super) fn flushed(&mut self) {
        let Some(Memtable { log, .. }) = self.full.pop_front() else { return };
        if let Some(log) = log {
            self.condemn(log);
        }
    }
}
