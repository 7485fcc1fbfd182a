//! Power cuts, and the stop in order.

use super::front_end::{EndedCommand, FrontEnd};
use super::{Engine, Stop};
use device::Output;
use ftl::Io;
use media::Nanos;
use nvme::protocol_fault::CompletionFault;
use nvme::{Completion, Status};

impl Engine {
    pub(super) fn power_lost<F: FrontEnd>(&mut self, now: Nanos, off: Nanos, front_ends: &mut F) {
        self.power_back = Some(now + off);
        self.syncs.clear();
        self.forgets.clear();
        if let Some(image) = self.store.image() {
            image.forget_waiters();
        }
        self.forget_struck_commands();
        front_ends.power_lost(&mut self.store);
        for index in 0..self.table.len() {
            let Some(owner) = self.table[index].owner.take() else { continue };
            let io = Io(index as u32);
            let mut data = self.store.give_back(io);
            if let Some(memory) = data.lent_mut() {
                self.store.end_references(memory);
            }
            self.free.push(io.0);
            let (completion, fault) = (Completion::new(0, Status::POWER_LOSS), CompletionFault::None);
            front_ends.complete(EndedCommand { owner, completion, to_host: 0, fault, data }, &mut self.store);
        }
    }

    pub(super) fn power_returns<F: FrontEnd>(&mut self, now: Nanos, front_ends: &mut F) {
        self.power_back = None;
        self.drive.power_on(now, &mut self.store);
        tracing::info!("the drive has power again");
        front_ends.power_returned(self, now);
    }

    /// Begins the stop in order. It ends with the next [`settle`](Engine::settle), or when data that is on its way has come.
    pub(crate) fn begin_stop(&mut self, now: Nanos) {
        if self.stop != Stop::No {
            return;
        }
        self.stop = Stop::Draining;
        if let Some(recorder) = &mut self.recorder {
            recorder.finish(&self.drive);
        }
        // The buffer goes to the media in the media's own time, but nobody has to wait for it. The drive's clock runs ahead of
        // the wall's from here on.
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

    pub(super) fn finish_stop<F: FrontEnd>(&mut self, now: Nanos, front_ends: &mut F) {
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
        front_ends.stopped(&mut self.store);
    }

    /// Stops in order, at once. Nothing may be in flight.
    pub fn stop_now<F: FrontEnd>(&mut self, now: Nanos, front_ends: &mut F) {
        self.begin_stop(now);
        self.settle(now, front_ends);
        debug_assert!(self.has_stopped());
    }
}
