//! Stepping the engine: what is due is done, what has ended goes to its front end.

use super::front_end::{EngineTurn, FrontEnd};
use super::{Engine, Stop};
use device::Output;
use ftl::Io;
use image::DiskEvent;
use media::Nanos;
use nvme::admin::FaultKind;
use nvme::protocol_fault::CompletionFault;
use nvme::{Completion, Status};

impl Engine {
    /// Takes in what hosts have sent, and runs what is due. A drive that has stopped takes nothing in any more: its image says
    /// already that it was stopped in order.
    pub(crate) fn turn<F: FrontEnd>(&mut self, turn: &mut EngineTurn<'_>, front_ends: &mut F) {
        if self.has_stopped() {
            return;
        }
        front_ends.poll(self, turn);
        self.settle(turn.now, front_ends);
    }

    /// When the drive or a front end wants to be stepped next.
    #[inline]
    pub(crate) fn next_deadline<F: FrontEnd>(&self, front_ends: &F) -> Nanos {
        match self.has_stopped() {
            true => Nanos::MAX,
            false => self.deadline().min(front_ends.deadline()),
        }
    }

    /// Runs the drive until nothing is due and everything is delivered.
    pub fn settle<F: FrontEnd>(&mut self, now: Nanos, front_ends: &mut F) {
        self.now = self.now.max(now);
        if self.power_back.is_some_and(|back| back <= now) {
            self.power_returns(now, front_ends);
        }
        if self.drive.due() <= now {
            self.drive.poll(now, &mut self.store, &mut self.outputs);
        }
        if self.struck.due <= now {
            self.carry_out_faults(now, front_ends);
        }
        while self.sort_outputs(front_ends) || front_ends.has_to_flush() || self.store.has_image() {
            if self.carry_out(now, front_ends) {
                break;
            }
        }
        if self.stop == Stop::Drained && !self.store.is_loading() {
            self.finish_stop(now, front_ends);
        }
    }

    /// Goes on with what [`sort_outputs`](Engine::sort_outputs) has left. Whether nothing came of it.
    fn carry_out<F: FrontEnd>(&mut self, now: Nanos, front_ends: &mut F) -> bool {
        let kept = self.store.commit(now).is_ok();
        if !self.ended.is_empty() {
            self.deliver(now, kept, front_ends);
        }
        if let Some(off) = self.cut.take() {
            self.power_lost(now, off, front_ends);
        }
        self.synchronize(now);
        self.checkpoint_if_due(now);
        let all_told = front_ends.flush(self, now);
        all_told && !self.has_news()
    }

    /// Puts what the drive says where it belongs. Whether there is something to be carried out.
    #[inline]
    fn sort_outputs<F: FrontEnd>(&mut self, front_ends: &mut F) -> bool {
        let mut others = false;
        // Without an image nothing has to be written or read before a command ends.
        let at_once = !self.store.has_image() && self.recorder.is_none();
        let mut outputs = std::mem::take(&mut self.outputs);
        for output in &outputs {
            match *output {
                Output::Complete { io, completion, .. } if at_once => self.end(io, completion, front_ends),
                Output::Complete { io, completion, .. } => self.ended.push((io, completion)),
                ref other => {
                    others = true;
                    self.sort_other(other, front_ends);
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
    fn sort_other<F: FrontEnd>(&mut self, output: &Output, front_ends: &mut F) {
        match *output {
            Output::Complete { io, completion, .. } => self.ended.push((io, completion)),
            Output::Data { io, ref bytes } => self.store.fill(io, bytes),
            Output::Sync { io } => self.syncs.push(io),
            Output::Forget { io, all } => self.forgets.push((io, all)),
            Output::Disconnect { controller } => {
                self.forget_controller(controller);
                front_ends.controller_lost(controller);
            }
            Output::PowerCut { off, lossy } => {
                let kept =
                    if lossy { "completed writes may be lost" } else { "every completed write is kept" };
                tracing::warn!("the drive loses its power for {} ms: {kept}", off.0.div_ceil(1_000_000));
                self.cut = Some(off);
                self.losses += u64::from(lossy);
            }
            Output::FaultInjected { kind, nvmsetid } => {
                let place = match nvmsetid {
                    0 => String::new(),
                    id if kind.is_of_port() || kind.is_of_protocol() => format!(", port {id}"),
                    id => format!(", NVM Set {id}"),
                };
                self.faults_changed(kind == FaultKind::STALE_IDENTIFY);
                match kind {
                    FaultKind::CLEAR => tracing::info!("injected faults are cleared"),
                    _ => tracing::warn!("injected fault: {kind}{place} (`tranche fault list` shows all)"),
                }
            }
            Output::HostDiskFault { full, count } => self.store.arm_fault(full, count),
            Output::PortDown { port, span } => front_ends.port_down(port, span),
            Output::PortsUp => front_ends.ports_up(),
            Output::ClearHostDiskFaults => self.store.clear_faults(),
            Output::ShutDown => self.stop = Stop::Drained,
        }
    }

    /// A command has ended.
    #[inline]
    fn end<F: FrontEnd>(&mut self, io: Io, completion: Completion, front_ends: &mut F) {
        if self.table[io.0 as usize].is_struck {
            return self.end_struck(io, completion, front_ends);
        }
        self.return_command(io, completion, CompletionFault::None, front_ends);
    }

    /// Gives back what has ended. Without `kept`, changes did not reach the image. Then a command that changes something must
    /// not succeed.
    fn deliver<F: FrontEnd>(&mut self, now: Nanos, kept: bool, front_ends: &mut F) {
        let mut ended = std::mem::take(&mut self.ended);
        for (io, completion) in ended.drain(..) {
            let Some(mut completion) = self.store.hold(io, completion) else { continue };
            let reads = self.table[io.0 as usize].reads;
            if !kept && !reads && completion.status().is_success() {
                completion = completion.with_status(Status::INTERNAL_ERROR);
            }
            if let Some(recorder) = &mut self.recorder {
                recorder.ended(now, io, completion.status().is_success());
            }
            self.end(io, completion, front_ends);
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
                DiskEvent::Synced(io, ok) => {
                    self.drive.synced(now, io, ok, &mut self.store, &mut self.outputs)
                }
                DiskEvent::Loaded(io, completion) => self.ended.push((io, completion)),
                DiskEvent::SlotsFree => self.drive.poll(now, &mut self.store, &mut self.outputs),
            }
        }
        self.news = news;
    }

    fn checkpoint_if_due(&mut self, now: Nanos) {
        // Records that are not in the journal yet would be lost between the two. A drive without power has nothing to be saved but
        // what its capacitors keep.
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
}
