//! How commands end: replies, failures, modelled times, completions and their counts.

use super::async_events::{AnsweredEventRequest, AsyncEvent};
use super::controller::{Controller, ControllerId};
use super::failure::{AdminResult, Failure, Reply};
use super::fused;
use super::in_flight::{CommandKind, CommandStage, InFlight, Token};
use super::namespace::Admission;
use super::output::Output;
use super::state::{Core, Cx, TimedEvent};
use crate::contents::Contents;
use media::Nanos;
use nvme::command_table::LatencyClass;
use nvme::io::Blocks;
use nvme::log::ErrorInformation;
use nvme::{Completion, IoOpcode, Status, U16, U32, U64};

/// The counts of the drive's life are recorded after so many writes.
const WRITES_PER_RECORD: u64 = 16_384;

impl Core {
    /// Goes on with what an admin command replied.
    pub(crate) fn reply<S: Contents>(&mut self, token: Token, outcome: AdminResult, cx: &mut Cx<'_, S>) {
        let (dw0, dw1) = match outcome {
            Err(failure) => return self.fail(token, failure, cx),
            Ok(Reply::Parked) => {
                token.park();
                return;
            }
            Ok(Reply::Done(dw0)) => (dw0, 0),
            Ok(Reply::Data(bytes, dw0)) => {
                cx.out.push(Output::Data { io: token.io(), bytes });
                (dw0, 0)
            }
            Ok(Reply::Wide(value)) => (value as u32, (value >> 32) as u32),
        };
        let entry = self.commands.get_mut(&token);
        entry.dw0 = dw0;
        entry.dw1 = dw1;
        self.schedule(token, cx.now, cx);
    }

    /// Ends a command with a status, and logs it.
    pub(crate) fn fail<S: Contents>(&mut self, token: Token, failure: Failure, cx: &mut Cx<'_, S>) {
        self.note_failure(&token, failure);
        self.schedule(token, cx.now, cx);
    }

    /// Gives a command its status and logs it; it goes on to its end in its own time.
    #[cold]
    pub(crate) fn note_failure(&mut self, token: &Token, failure: Failure) {
        let entry = self.commands.get_mut(token);
        if !entry.status.is_success() {
            return;
        }
        entry.status = failure.status;
        if entry.qid != 0 && entry.opcode == IoOpcode::COPY.0 {
            // No range counts as copied (NVM 3.3.2.5).
            entry.dw0 = 0;
        }
        let id = ControllerId(entry.controller);
        let entry = *entry;
        self.persistent.error_entries += 1;
        // Not what the medium did.
        let refused = [Status::COMPARE_FAILURE, Status::ACCESS_DENIED].iter().any(|s| failure.status.is(*s));
        if failure.status.sct() == nvme::status::Sct::MEDIA && !refused {
            self.persistent.media_errors += 1;
            if let Some(ns) = self.namespaces.get_mut(entry.nsid) {
                ns.stats.media_errors += 1;
                self.persistent.traffic_mut(ns.set).media_errors += 1;
            }
        }
        let Some(controller) = self.controllers.get_mut(id) else { return };
        self.commands.get_mut(token).status = failure.status.with_more();
        controller.log_error(ErrorInformation {
            sqid: U16::new(entry.qid),
            cmdid: U16::new(entry.cid),
            status_info: U16::new(failure.status.with_more().0 << 1),
            pel: U16::new(failure.location),
            lba: U64::new(entry.lba),
            nsid: U32::new(entry.nsid),
            opc: entry.opcode,
            cs: U64::new(failure.information),
            lpver: 1,
            ..ErrorInformation::default()
        });
    }

    /// The translation layer has answered: the command ends at `at`, plus what the link and the firmware
    /// take.
    #[inline]
    pub(crate) fn schedule<S: Contents>(&mut self, token: Token, at: Nanos, cx: &mut Cx<'_, S>) {
        let mut at = at.max(cx.now);
        let entry = self.commands.get_mut(&token);
        if entry.status.is_success() {
            let (link, rate) = match entry.kind {
                CommandKind::Read => (&mut self.read_link, self.link.read_bytes_per_second),
                CommandKind::Write | CommandKind::Compare => {
                    (&mut self.write_link, self.link.write_bytes_per_second)
                }
                _ => (&mut self.read_link, 0),
            };
            if rate != 0 {
                let span = Nanos::of_transfer(entry.bytes.into(), rate);
                at = link.reserve(cx.now, at, span) + span;
            }
            let span = self.link.command_interval;
            if span != Nanos::ZERO
                && matches!(entry.kind, CommandKind::Read | CommandKind::Write | CommandKind::Compare)
            {
                at = self.processor.reserve(cx.now, at, span) + span;
            }
        }
        at += match entry.kind {
            CommandKind::Write => self.link.write_overhead,
            _ => self.link.command_overhead,
        };
        entry.at = at;
        if at <= cx.now {
            self.end(token, cx);
        } else {
            self.events.push(at, TimedEvent::End(token.park()));
        }
    }

    /// A command's time has come.
    #[inline]
    pub(crate) fn end<S: Contents>(&mut self, token: Token, cx: &mut Cx<'_, S>) {
        let entry = self.commands.get_mut(&token);
        if entry.sync && entry.status.is_success() && (entry.forget || cx.storage.must_sync()) {
            entry.stage = CommandStage::Syncing;
            let forget = entry.forget;
            let io = token.io();
            token.park();
            cx.out.push(if forget { Output::Forget { io, all: false } } else { Output::Sync { io } });
            return;
        }
        self.complete(token, cx);
    }

    /// Delivers a command's completion.
    #[inline]
    pub(crate) fn complete<S: Contents>(&mut self, token: Token, cx: &mut Cx<'_, S>) {
        let io = token.io();
        if self.commands.get_mut(&token).fused {
            self.abandon_first(&token, cx);
        }
        let entry = self.commands.end(token);
        if entry.cost != 0 {
            self.fair.end(entry.set, entry.cost);
            if let Some(ns) = self.namespaces.get_mut(entry.nsid) {
                ns.arbitration.end(entry.cost);
            }
        }
        if entry.qid != 0 {
            self.end_busy(entry.at.max(entry.submitted));
            self.account(&entry, cx);
        }
        let mut completion = Completion::success(entry.cid, entry.dw0).with_status(entry.status);
        completion.dw1 = U32::new(entry.dw1);
        cx.out.push(Output::Complete {
            controller: ControllerId(entry.controller),
            qid: entry.qid,
            io,
            completion,
        });
    }

    /// Gives back a parked command of its controller with a status, as a reset or an abort does.
    pub(crate) fn return_parked<S: Contents>(&mut self, io: u32, status: Status, cx: &mut Cx<'_, S>) {
        if let Some(token) = self.commands.unpark(io) {
            self.commands.get_mut(&token).status = status;
            self.complete(token, cx);
        }
    }

    /// A parked Asynchronous Event Request is answered.
    pub(crate) fn answer_event<S: Contents>(&mut self, answered: AnsweredEventRequest, cx: &mut Cx<'_, S>) {
        if let Some(token) = self.commands.unpark(answered.io) {
            let entry = self.commands.get_mut(&token);
            (entry.dw0, entry.dw1) = (answered.dw0, answered.dw1);
            self.complete(token, cx);
        }
    }

    /// Raises an event for all controllers, and answers the requests of those that wait for one.
    pub(crate) fn raise_for_all<S: Contents>(&mut self, event: AsyncEvent, cx: &mut Cx<'_, S>) {
        self.raise_where(event, |_| true, cx);
    }

    /// Raises an event for the controllers that it concerns, which are told first.
    pub(crate) fn raise_where<S: Contents>(
        &mut self,
        event: AsyncEvent,
        mut concerns: impl FnMut(&mut Controller) -> bool,
        cx: &mut Cx<'_, S>,
    ) {
        for id in self.controllers.ids() {
            let Some(controller) = self.controllers.get_mut(id) else { continue };
            if concerns(controller)
                && let Some(answered) = controller.raise(event)
            {
                self.answer_event(answered, cx);
            }
        }
    }

    /// Counts a command of an I/O queue that completes.
    #[inline]
    pub(crate) fn account<S: Contents>(&mut self, entry: &InFlight, cx: &mut Cx<'_, S>) {
        let unit = self.config.atomic_bytes();
        let Some(ns) = self.namespaces.get_mut(entry.nsid) else { return };
        ns.in_flight -= u32::from(entry.entered).min(ns.in_flight);
        self.drained |= ns.admission != Admission::Open && ns.in_flight == 0;
        let (stats, shift, set) = (&mut ns.stats, ns.shift, ns.set);
        if !entry.status.is_success() {
            stats.failed += 1;
            if entry.entered && !entry.status.is(Status::COMPARE_FAILURE) {
                self.requests.health = true;
            }
            return;
        }
        let latency = entry.at.since(entry.submitted);
        let bytes = u64::from(entry.bytes);
        match entry.kind {
            CommandKind::Read => {
                stats.reads += 1;
                stats.read_bytes += bytes;
                stats.read_latency.record(latency);
                let traffic = self.persistent.traffic_mut(set);
                traffic.reads += 1;
                traffic.read_bytes += bytes;
                traffic.unaligned += u64::from((entry.lba << shift | bytes) & 4095 != 0);
            }
            CommandKind::Write => {
                stats.writes += 1;
                stats.written_bytes += bytes;
                match entry.opcode == IoOpcode::WRITE.0 {
                    true => stats.write_latency.record(latency),
                    false => stats.record(entry.opcode, Some(LatencyClass::Write), latency),
                }
                stats.count_atomicity(entry.lba << shift, bytes, unit);
                if entry.stalled {
                    stats.stalled_writes += 1;
                    stats.stalled_ns += latency.0;
                }
                let traffic = self.persistent.traffic_mut(set);
                traffic.writes += 1;
                traffic.written_bytes += bytes;
                traffic.unaligned += u64::from((entry.lba << shift | bytes) & 4095 != 0);
                if stats.writes.is_multiple_of(256) {
                    ns.arbitration.weigh_writes(&self.ftl.volume_stats(ns.volume));
                }
                let writes = traffic.writes;
                if writes.is_multiple_of(1024) {
                    self.requests.wear = true;
                }
                if writes.is_multiple_of(WRITES_PER_RECORD) {
                    // So that a crash of the process loses little of the counts.
                    self.record(cx.storage);
                }
            }
            CommandKind::Flush => {
                stats.flushes += 1;
                stats.flush_latency.record(latency);
            }
            CommandKind::Deallocate => {
                stats.deallocates += 1;
                stats.record(entry.opcode, Some(LatencyClass::Deallocate), latency);
            }
            CommandKind::Compare | CommandKind::Other | CommandKind::Admin | CommandKind::Event => {
                stats.others += 1;
                stats.record(entry.opcode, None, latency);
                if entry.kind == CommandKind::Compare {
                    // Counted as a read by SMART (Base 5.1.12.1.3).
                    let traffic = self.persistent.traffic_mut(set);
                    traffic.reads += 1;
                    traffic.read_bytes += bytes;
                }
                // A reset of zones erases, and can wear out the set.
                self.requests.wear |= entry.kind == CommandKind::Other && ns.zones.is_some();
            }
        }
    }

    /// From here on the command counts as one of its namespace's until it completes.
    #[inline]
    pub(crate) fn enter(&mut self, token: &Token) {
        let entry = self.commands.get_mut(token);
        entry.entered = true;
        let nsid = entry.nsid;
        if let Some(ns) = self.namespaces.get_mut(nsid) {
            ns.in_flight += 1;
        }
    }

    /// Takes a pair apart: the first command, and its blocks.
    pub(crate) fn part(&mut self, second: &Token) -> Option<(Token, Blocks)> {
        self.commands.get_mut(second).fused = false;
        let (io, blocks) = self.fused.pairs.remove(&second.io().0)?;
        Some((self.commands.unpark(io)?, blocks))
    }

    /// The second command of a pair ends without having been executed: the first ends before it.
    #[cold]
    pub(crate) fn abandon_first<S: Contents>(&mut self, second: &Token, cx: &mut Cx<'_, S>) {
        if let Some((first, _)) = self.part(second) {
            self.note_failure(&first, fused::other_failed());
            self.complete(first, cx);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Drive};
    use ftl::{Io, NoContents};

    /// The core of a drive whose link takes a microsecond for a block of 4,096 bytes, and nothing else.
    fn core() -> Core {
        let mut core = Drive::new(Config::default_drive()).unwrap().core;
        core.link = crate::Link { read_bytes_per_second: 4_096_000_000, ..crate::Link::default() };
        core
    }

    fn begin(core: &mut Core, io: u32) -> Token {
        core.begin_busy(Nanos::ZERO);
        let read = InFlight {
            qid: 1,
            nsid: 1,
            bytes: 4096,
            kind: CommandKind::Read,
            entered: true,
            ..InFlight::FREE
        };
        core.commands.begin(Io(io), read).unwrap()
    }

    #[test]
    fn commands_share_the_link() {
        let mut core = core();
        let mut out = Vec::new();
        let mut cx = Cx { now: Nanos::ZERO, storage: &mut NoContents, out: &mut out };
        for io in [0, 1] {
            let token = begin(&mut core, io);
            core.schedule(token, Nanos(500), &mut cx);
        }
        let ends: Vec<u64> =
            std::iter::from_fn(|| core.events.pop_due(Nanos::MAX)).map(|(at, _)| at.0).collect();
        assert_eq!(ends, [1500, 2500]);
        assert!(out.is_empty(), "their time has not come");
    }

    #[test]
    fn a_failure_is_counted_once_and_asks_for_a_look_at_the_media() {
        let mut core = core();
        let mut out = Vec::new();
        let mut cx = Cx { now: Nanos::ZERO, storage: &mut NoContents, out: &mut out };
        let token = begin(&mut core, 0);
        core.note_failure(&token, Status::UNRECOVERED_READ_ERROR.into());
        core.note_failure(&token, Status::INTERNAL_ERROR.into());
        core.complete(token, &mut cx);
        assert_eq!((core.persistent.error_entries, core.persistent.media_errors), (1, 1));
        assert!(core.requests.health && !core.io_under_way());
        let [Output::Complete { completion, .. }] = &out[..] else { panic!("{out:?}") };
        assert!(completion.status().is(Status::UNRECOVERED_READ_ERROR));
        assert_eq!(core.commands.len(), 0);
    }
}
