//! One drive with everything that it needs to run, stepped by whoever holds it.

use crate::clock::Clock;
use crate::handle::Port;
use crate::hosts::Hosts;
use crate::image::News;
use crate::record::Recorder;
use crate::server::{Answer, ConnectionId, Guard, Server};
use crate::shared::{Delivery, Request};
use crate::store::{Lent, Store};
use crate::wake::{Ready, Sleeper};
use device::{ControllerId, Drive, MAX_IO, Output, Role};
use ftl::Io;
use media::Nanos;
use nvme::command_table::{self, DataSource};
use nvme::{Command, Completion, Status, Transfer};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};

/// Submissions that are taken in before completions are delivered.
const BATCH: isize = 128;

/// Whose a command in flight is.
pub(crate) enum Owner {
    /// Nobody's: the number is free.
    Free,
    /// A queue's in this process.
    Port { port: Arc<Port>, tag: u64 },
    /// The runtime's own: a request for events, for the host with this index.
    EventRequest { front: u32 },
    /// The runtime's own: the log of changed namespaces is read, which clears the event.
    ChangedLog { front: u32 },
    /// The runtime's own: nobody waits for it.
    Ignored,
    /// A connection's.
    Connection { connection: ConnectionId, tag: fabric::Tag },
    /// Of a queue under the virtual clock.
    Actor { queue: u32, tag: u32 },
}

/// A command of a queue under the virtual clock has completed.
pub(crate) struct ActorDone {
    pub(crate) queue: u32,
    pub(crate) tag: u32,
    pub(crate) completion: Completion,
    pub(crate) data: Lent,
}

struct Entry {
    owner: Owner,
    /// Whether it only reads, so that it may succeed when nothing more can be kept.
    reads: bool,
    /// Bytes that go to the host if it succeeds.
    to_host: u32,
}

/// How far a clean stop has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stop {
    No,
    /// The drive empties its buffer.
    Draining,
    /// Everything is on the media.
    Drained,
    Done,
}

/// The drive, its storage, its hosts, and the commands in flight between them.
pub(crate) struct Engine {
    pub(crate) drive: Drive,
    pub(crate) store: Store,
    pub(crate) hosts: Hosts,
    server: Option<Server>,
    /// Writes down what hosts do.
    recorder: Option<Recorder>,
    inbox: Receiver<Request>,
    /// What the drive's thread sleeps on, if there is one.
    sleeper: Option<Arc<Sleeper>>,
    table: Vec<Entry>,
    free: Vec<u32>,
    pub(crate) outputs: Vec<Output>,
    ended: Vec<(Io, Completion)>,
    syncs: Vec<Io>,
    forgets: Vec<(Io, bool)>,
    news: Vec<News>,
    /// A power cut that takes effect after what came before it was delivered.
    cut: Option<Nanos>,
    /// Power cuts so far with which completed writes may have gone.
    losses: u64,
    /// When power comes back.
    power_back: Option<Nanos>,
    stop: Stop,
    /// Completions for queues under the virtual clock.
    pub(crate) actor_done: Vec<ActorDone>,
    /// Until when the drive's thread sleeps; `None` while it is awake.
    pub(crate) sleep_until: Option<Nanos>,
    /// How long before a deadline it wants to wake up.
    pub(crate) lead: u64,
}

impl Engine {
    /// An engine that no other thread can reach.
    pub(crate) fn alone(drive: Drive, store: Store) -> Self {
        let (_, inbox) = sync_channel(0);
        Engine::new(drive, store, inbox, None)
    }

    pub(crate) fn new(
        drive: Drive,
        store: Store,
        inbox: Receiver<Request>,
        sleeper: Option<Arc<Sleeper>>,
    ) -> Self {
        Engine {
            drive,
            store,
            hosts: Hosts::default(),
            server: None,
            recorder: None,
            inbox,
            sleeper,
            table: Vec::new(),
            free: Vec::new(),
            outputs: Vec::with_capacity(1024),
            ended: Vec::with_capacity(1024),
            syncs: Vec::new(),
            forgets: Vec::new(),
            news: Vec::new(),
            cut: None,
            losses: 0,
            power_back: None,
            stop: Stop::No,
            actor_done: Vec::new(),
            sleep_until: None,
            lead: 0,
        }
    }

    /// Takes over listeners; their connections are served from now on.
    pub(crate) fn set_server(&mut self, server: Server) {
        self.server = Some(server);
    }

    /// Records what hosts do from now on.
    pub(crate) fn record(&mut self, recorder: Recorder) {
        self.recorder = Some(recorder);
    }

    /// Gives them back.
    pub(crate) fn take_server(&mut self) -> Option<Server> {
        self.server.take()
    }

    /// Takes in submissions, runs what is due, and fills `deliveries`. Returns how many submissions. A drive that has stopped
    /// takes nothing in any more: its image says already that it was stopped in order.
    pub(crate) fn turn(&mut self, clock: &Clock, deliveries: &mut Vec<Delivery>) -> isize {
        let mut taken = 0;
        if self.has_stopped() {
            return taken;
        }
        let mut now = clock.now();
        while taken < BATCH {
            let Ok(request) = self.inbox.try_recv() else { break };
            taken += 1;
            // A few commands take about as long as reading the clock is worth.
            if taken % 8 == 0 {
                now = clock.now();
            }
            match request {
                Request::Command { port, tag, command, buffer } => {
                    self.port_command(now, port, tag, &command, buffer.into(), deliveries);
                }
                Request::Stop => self.begin_stop(now),
                Request::Guard(guard) => self.set_guard(now, *guard),
                other => self.host_request(now, other),
            }
        }
        self.settle(now, deliveries);
        taken
    }

    /// Lets sockets with news speak.
    pub(crate) fn serve(&mut self, ready: &Ready, clock: &Clock) {
        if self.has_stopped() {
            return;
        }
        if let Some(mut server) = self.server.take() {
            server.serve(self, ready, clock.now());
            self.server = Some(server);
        }
    }

    /// Whether something waits to be delivered that did not come of what was due.
    #[inline]
    pub(crate) fn has_news(&self) -> bool {
        !(self.outputs.is_empty() && self.ended.is_empty())
    }

    /// Whether there is something to be done beside what the drive says.
    #[inline]
    fn has_chores(&self) -> bool {
        self.server.is_some() || self.store.has_image()
    }

    /// When the drive wants to be stepped next.
    #[inline]
    pub(crate) fn deadline(&self) -> Nanos {
        if self.has_stopped() {
            return Nanos::MAX;
        }
        let next = self.drive.due();
        let next = self.server.as_ref().map_or(next, |server| server.deadline().min(next));
        self.power_back.map_or(next, |back| back.min(next))
    }

    /// Makes sure that the sleeping thread wakes up for a deadline.
    pub(crate) fn wake_for(&mut self, deadline: Nanos, clock: &Clock) {
        let (Some(until), Some(sleeper)) = (self.sleep_until, &self.sleeper) else { return };
        let wanted = Nanos(deadline.0.saturating_sub(self.lead));
        if deadline != Nanos::MAX && wanted < until {
            sleeper.set_timer(Some(clock.on_the_wall(wanted.since(clock.now()))));
            self.sleep_until = Some(wanted);
        }
    }

    /// Power cuts so far with which completed writes may have gone.
    pub(crate) fn losses(&self) -> u64 {
        self.losses
    }

    pub(crate) fn has_stopped(&self) -> bool {
        self.stop == Stop::Done
    }

    fn port_command(
        &mut self,
        now: Nanos,
        port: Arc<Port>,
        tag: u64,
        command: &Command,
        buffer: Lent,
        deliveries: &mut Vec<Delivery>,
    ) {
        match self.hosts.controller_of(&port) {
            Ok((controller, qid)) => {
                if qid != 0 {
                    self.drive.prefetch(command);
                }
                self.submit(now, Owner::Port { port, tag }, controller, qid, *command, buffer);
            }
            Err(status) => {
                let completion = Completion::new(0, status);
                deliveries.push(Delivery::Complete { port, tag, completion, buffer: buffer.into_own() });
            }
        }
    }

    /// How many commands more can be in flight.
    #[inline]
    pub(crate) fn room(&self) -> usize {
        (MAX_IO as usize + self.free.len()).saturating_sub(self.table.len())
    }

    /// Hands a command to the drive.
    #[inline]
    pub(crate) fn submit(
        &mut self,
        now: Nanos,
        owner: Owner,
        controller: ControllerId,
        qid: u16,
        mut command: Command,
        buffer: Lent,
    ) {
        if let Some(recorder) = self.recorder.as_mut().filter(|_| qid != 0) {
            recorder.note(now, controller, qid, &command, buffer.as_slice(), &self.drive);
        }
        // What was due before the command comes before it, however late this thread is.
        if self.drive.due() <= now {
            self.drive.poll(now, &mut self.store, &mut self.outputs);
        }
        let info = command_table::of(command.opc, qid == 0);
        let reads = info.is_some_and(|info| !info.changes);
        // Room without bytes holds whatever the drive moves.
        let transfer = match buffer {
            Lent::Void => Transfer::None,
            _ => self.drive.transfer(controller, qid, &command),
        };
        let to_host = match transfer {
            Transfer::ToHost(bytes) => u32::try_from(bytes).unwrap_or(u32::MAX),
            _ => 0,
        };
        let io = self.number(Entry { owner, reads, to_host });
        if let Some(recorder) = &mut self.recorder {
            recorder.begun(now, io, qid, &command);
        }
        // A connection's identifiers are the host's; those of queues in this process are ours.
        if !matches!(self.table[io.0 as usize].owner, Owner::Connection { .. }) {
            command.cid.set(io.0 as u16);
        }
        if io.0 >= MAX_IO {
            self.store.lend(io, buffer);
            self.ended.push((io, Completion::new(command.cid.get(), Status::INTERNAL_ERROR)));
            return;
        }
        if !buffer.holds(transfer.bytes()) {
            self.store.lend(io, buffer);
            let status = Status::DATA_SGL_LENGTH_INVALID.with_dnr();
            self.ended.push((io, Completion::new(command.cid.get(), status)));
            return;
        }
        let contents = info.is_some_and(|info| info.data == DataSource::Contents);
        if contents {
            self.store.lend(io, buffer);
            self.drive.submit(now, controller, qid, io, &command, &[], &mut self.store, &mut self.outputs);
        } else {
            let data = match transfer {
                Transfer::ToController(bytes) => &buffer.as_slice()[..bytes as usize],
                _ => &[],
            };
            self.drive.submit(now, controller, qid, io, &command, data, &mut self.store, &mut self.outputs);
            self.store.lend(io, buffer);
        }
    }

    /// What was submitted last is the first command of a fused operation whose second does not follow.
    pub(crate) fn end_fused(&mut self, now: Nanos, controller: ControllerId, qid: u16) {
        self.drive.end_fused(now, controller, qid, &mut self.store, &mut self.outputs);
    }

    fn number(&mut self, entry: Entry) -> Io {
        match self.free.pop() {
            Some(index) => {
                self.table[index as usize] = entry;
                Io(index)
            }
            None => {
                self.table.push(entry);
                Io(self.table.len() as u32 - 1)
            }
        }
    }

    /// Whether the drive has ended controllers whose connections are not closed yet. Their identifiers may be free already.
    pub(crate) fn is_expelling(&self) -> bool {
        self.outputs.iter().any(|output| matches!(output, Output::Disconnect { .. }))
    }

    /// A host is gone, with its controller.
    pub(crate) fn drive_disconnect(&mut self, now: Nanos, controller: ControllerId) {
        self.drive.disconnect(now, controller, &mut self.store, &mut self.outputs);
    }

    /// A host has another role.
    pub(crate) fn set_role(&mut self, now: Nanos, controller: ControllerId, role: Role) {
        self.drive.set_role(now, controller, role, &mut self.store, &mut self.outputs);
    }

    /// Takes over who may connect over the network from now on.
    fn set_guard(&mut self, now: Nanos, guard: Guard) {
        if let Some(mut server) = self.server.take() {
            server.set_guard(self, guard, now);
            self.server = Some(server);
        }
    }

    /// Runs the drive until nothing is due and everything is delivered.
    pub(crate) fn settle(&mut self, now: Nanos, deliveries: &mut Vec<Delivery>) {
        if self.power_back.is_some_and(|back| back <= now) {
            self.power_returns(now, deliveries);
        }
        if self.server.is_some() {
            self.tick_server(now);
        }
        if self.drive.due() <= now {
            self.drive.poll(now, &mut self.store, &mut self.outputs);
        }
        while self.sort_outputs() || self.has_chores() {
            if self.carry_out(now, deliveries) {
                break;
            }
        }
        if self.stop == Stop::Drained && !self.store.is_loading() {
            self.finish_stop(now, deliveries);
        }
    }

    fn tick_server(&mut self, now: Nanos) {
        if let Some(mut server) = self.server.take_if(|server| server.deadline() <= now) {
            server.tick(self, now);
            self.server = Some(server);
        }
    }

    /// Goes on with what [`sort_outputs`](Engine::sort_outputs) has left. Whether nothing came of it.
    fn carry_out(&mut self, now: Nanos, deliveries: &mut Vec<Delivery>) -> bool {
        let kept = self.store.commit(now).is_ok();
        if !self.ended.is_empty() {
            self.deliver(now, kept, deliveries);
        }
        if let Some(off) = self.cut.take() {
            self.power_lost(now, off, deliveries);
        }
        self.synchronize(now);
        self.checkpoint_if_due(now);
        let mut all_sent = true;
        if let Some(mut server) = self.server.take() {
            all_sent = server.flush(self, now);
            self.server = Some(server);
        }
        all_sent && !self.has_news()
    }

    /// Puts what the drive says where it belongs: completions of queues under the virtual clock are delivered. Whether there is something
    /// else to be carried out.
    #[inline]
    fn sort_outputs(&mut self) -> bool {
        let mut others = false;
        let at_once = !self.store.has_image();
        let mut outputs = std::mem::take(&mut self.outputs);
        for output in &outputs {
            match *output {
                Output::Complete { io, completion, .. } => {
                    let entry = &mut self.table[io.0 as usize];
                    if let Owner::Actor { queue, tag } = entry.owner
                        && at_once
                    {
                        // Without an image nothing has to be written or read first.
                        entry.owner = Owner::Free;
                        self.free.push(io.0);
                        let data = self.store.give_back(io);
                        self.actor_done.push(ActorDone { queue, tag, completion, data });
                    } else {
                        self.ended.push((io, completion));
                    }
                }
                ref other => {
                    others = true;
                    self.sort_other(other);
                }
            }
        }
        // Its memory is kept; nothing was added meanwhile.
        outputs.clear();
        self.outputs = outputs;
        others || !self.ended.is_empty()
    }

    /// What is not a completion.
    #[cold]
    fn sort_other(&mut self, output: &Output) {
        match *output {
            Output::Complete { io, completion, .. } => self.ended.push((io, completion)),
            Output::Data { io, ref bytes } => {
                if let Some(buffer) = self.store.buffer(io) {
                    let room = buffer.as_mut_slice();
                    let len = bytes.len().min(room.len());
                    room[..len].copy_from_slice(&bytes[..len]);
                }
            }
            Output::Sync { io } => self.syncs.push(io),
            Output::Forget { io, all } => self.forgets.push((io, all)),
            Output::Disconnect { controller } => {
                self.hosts.lose(controller);
                if let Some(server) = &mut self.server {
                    server.expel(controller);
                }
            }
            Output::PowerCut { off, lossy } => {
                let kept =
                    if lossy { "completed writes may be lost" } else { "every completed write is kept" };
                tracing::warn!("the drive loses its power for {} ms: {kept}", off.0.div_ceil(1_000_000));
                self.cut = Some(off);
                self.losses += u64::from(lossy);
            }
            Output::HostDiskFault { full, count } => {
                let what = if full { "is full for writes" } else { "fails" };
                let span = if count == 0 { "until that is cleared".into() } else { format!("{count} times") };
                tracing::warn!("injected fault: the host's disk {what}, {span}");
                self.store.arm_fault(full, count);
            }
            Output::PortDown { port, span } => {
                if let Some(server) = &mut self.server {
                    server.port_down(port, span);
                }
            }
            Output::PortsUp => {
                if let Some(mut server) = self.server.take() {
                    server.ports_up(self);
                    self.server = Some(server);
                }
            }
            Output::ClearHostDiskFaults => {
                if self.store.clear_faults() {
                    tracing::info!("injected faults of the host's disk are cleared");
                }
            }
            Output::ShutDown => self.stop = Stop::Drained,
        }
    }

    /// Gives back what has ended. Without `kept`, changes did not reach the image: whoever asked for one
    /// must not believe in it.
    fn deliver(&mut self, now: Nanos, kept: bool, deliveries: &mut Vec<Delivery>) {
        let mut ended = std::mem::take(&mut self.ended);
        for (io, completion) in ended.drain(..) {
            let Some(mut completion) = self.store.hold(io, completion) else { continue };
            let index = io.0 as usize;
            let entry = &mut self.table[index];
            let owner = std::mem::replace(&mut entry.owner, Owner::Free);
            let to_host = entry.to_host;
            if !kept && !entry.reads && completion.status().is_success() && !is_event(&owner) {
                completion = completion.with_status(Status::INTERNAL_ERROR);
            }
            if let Some(recorder) = &mut self.recorder {
                recorder.ended(now, io, completion.status().is_success());
            }
            let buffer = self.store.give_back(io);
            self.free.push(io.0);
            match owner {
                Owner::Free | Owner::Ignored => {}
                Owner::Port { port, tag } => {
                    deliveries.push(Delivery::Complete { port, tag, completion, buffer: buffer.into_own() });
                }
                Owner::Connection { connection, tag } => {
                    let parts = self.store.take_parts(io);
                    if let Some(server) = &mut self.server {
                        let answer = Answer { completion, to_host, buffer, parts: &parts };
                        server.complete(connection, tag, answer, &mut self.store);
                    }
                    self.store.keep_parts(io, parts);
                }
                // Refused before it came to the drive.
                Owner::Actor { queue, tag } => {
                    self.actor_done.push(ActorDone { queue, tag, completion, data: buffer });
                }
                Owner::EventRequest { front } => self.event(now, front, completion),
                Owner::ChangedLog { front } => self.changed_log_read(now, front, deliveries),
            }
        }
        ended.append(&mut self.ended);
        self.ended = ended;
    }

    /// Starts and ends what waits for the host's disk.
    fn synchronize(&mut self, now: Nanos) {
        if self.syncs.is_empty() && self.forgets.is_empty() && !self.store.has_image() {
            return;
        }
        let mut news = std::mem::take(&mut self.news);
        for io in self.syncs.drain(..) {
            self.store.want_sync(io, &mut news);
        }
        for (io, all) in self.forgets.drain(..) {
            self.store.want_forget(io, all, &mut news);
        }
        self.store.tend(now, &mut news);
        if let Some(image) = self.store.image() {
            image.tend_scrub(&self.drive);
        }
        self.news = news;
        self.hear(now);
    }

    /// Goes on with what has happened on the host's disk.
    fn hear(&mut self, now: Nanos) {
        let mut news = std::mem::take(&mut self.news);
        for item in news.drain(..) {
            match item {
                News::Synced(io, ok) => self.drive.synced(now, io, ok, &mut self.store, &mut self.outputs),
                News::Loaded(io, completion) => self.ended.push((io, completion)),
                News::SlotsFree => self.drive.poll(now, &mut self.store, &mut self.outputs),
            }
        }
        self.news = news;
    }

    fn checkpoint_if_due(&mut self, now: Nanos) {
        // Records that are not in the journal yet would be lost between the two.
        // A drive without power has nothing to be saved but what its capacitors keep, and its hosts wait for nothing.
        if !self.outputs.is_empty() || !self.drive.is_powered() {
            return;
        }
        let Some(image) = self.store.image() else { return };
        let forget = image.forget_is_due();
        if !(forget || image.checkpoint_is_due()) || self.store.commit(now).is_err() {
            return;
        }
        let state = self.drive.save();
        if forget {
            let Some(image) = self.store.image() else { return };
            image.forget(&state, now, &mut self.news);
            return self.hear(now);
        }
        if let Some(image) = self.store.image()
            && let Err(e) = image.checkpoint(&state, now, false)
        {
            tracing::warn!("no checkpoint could be started, the journal grows on: {e}");
        }
    }

    fn power_lost(&mut self, now: Nanos, off: Nanos, deliveries: &mut Vec<Delivery>) {
        self.power_back = Some(now + off);
        self.syncs.clear();
        self.forgets.clear();
        if let Some(image) = self.store.image() {
            image.forget_waiters();
        }
        for index in 0..self.table.len() {
            let owner = std::mem::replace(&mut self.table[index].owner, Owner::Free);
            let io = Io(index as u32);
            if matches!(owner, Owner::Free) {
                continue;
            }
            let buffer = self.store.give_back(io);
            let parts = self.store.take_parts(io);
            self.store.end_loans(&parts);
            self.store.keep_parts(io, parts);
            self.free.push(io.0);
            let completion = Completion::new(0, Status::POWER_LOSS);
            match owner {
                Owner::Port { port, tag } => {
                    deliveries.push(Delivery::Complete { port, tag, completion, buffer: buffer.into_own() });
                }
                Owner::Actor { queue, tag } => {
                    self.actor_done.push(ActorDone { queue, tag, completion, data: buffer });
                }
                // Its connection is closed; the runtime's own are sent again.
                _ => {}
            }
        }
        if let Some(server) = &mut self.server {
            server.close_all(&mut self.store);
        }
        self.hosts.power_lost(deliveries);
    }

    fn power_returns(&mut self, now: Nanos, deliveries: &mut Vec<Delivery>) {
        self.power_back = None;
        self.drive.power_on(now, &mut self.store);
        tracing::info!("the drive has power again");
        self.hosts_return(now, deliveries);
    }

    fn begin_stop(&mut self, now: Nanos) {
        if self.stop != Stop::No {
            return;
        }
        self.stop = Stop::Draining;
        if let Some(recorder) = &mut self.recorder {
            recorder.finish(&self.drive);
        }
        // The buffer goes to the media in the media's own time, but nobody has to wait for it: the drive's
        // clock runs ahead of the wall's from here on.
        let mut at = now;
        loop {
            if !self.drive.is_powered() {
                self.power_back = None;
                self.drive.power_on(at, &mut self.store);
            }
            self.drive.shut_down(at, &mut self.store, &mut self.outputs);
            while !self.outputs.iter().any(|o| matches!(o, Output::ShutDown)) {
                let Some(next) = self.drive.next_event() else { break };
                at = at.max(next);
                self.drive.poll(at, &mut self.store, &mut self.outputs);
            }
            // A cut that was planned may come with the last operations of the media. What it took must be in the journal
            // before the state is saved: the drive recovers first.
            if self.drive.is_powered() {
                break;
            }
        }
        self.stop = Stop::Drained;
    }

    fn finish_stop(&mut self, now: Nanos, deliveries: &mut Vec<Delivery>) {
        self.stop = Stop::Done;
        if self.store.commit(now).is_ok() && self.store.image().is_some() {
            let state = self.drive.save();
            let mut news = Vec::new();
            if let Some(image) = self.store.image() {
                image.settle(&mut news);
                if let Err(e) = image.checkpoint(&state, now, true) {
                    tracing::warn!(
                        "the drive was not closed cleanly and will recover when it is opened: {e}"
                    );
                }
                image.settle(&mut news);
                image.close();
            }
        }
        if let Some(server) = &mut self.server {
            server.close_all(&mut self.store);
        }
        self.hosts.stopped(deliveries);
    }

    /// Stops in order, at once.
    #[cfg(test)]
    pub(crate) fn stop_now(&mut self, now: Nanos) {
        self.begin_stop(now);
        self.settle(now, &mut Vec::new());
        assert!(self.has_stopped());
    }

    /// Lets go of everything that other threads might wait for.
    pub(crate) fn hang_up(&mut self) {
        while self.inbox.try_recv().is_ok() {}
        self.store.close();
    }
}

fn is_event(owner: &Owner) -> bool {
    matches!(owner, Owner::EventRequest { .. } | Owner::ChangedLog { .. } | Owner::Ignored)
}
