//! What happens to a drive in the middle of its load, and how it comes back.

use super::drive::Drive;
use super::load::Shared;
use super::stamp::Random;
use std::sync::atomic::Ordering;
use std::time::Duration;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// kill -9.
    Kill,
    /// The power fails, and the capacitors hold, if there are any.
    Cut,
    /// The power fails, and the capacitors too.
    UnprotectedCut,
    /// The power fails, and just after it came back, or before, the process dies.
    CutAndKill,
    /// Stopped in good order.
    Stop,
}

/// Chooses events, and knows which may follow which.
#[derive(Debug, Default)]
pub struct Events {
    /// Whether the drive has capacitors.
    protected: bool,
    /// Whether cuts that capacitors do not cover are among the events.
    unprotected_cuts: bool,
    /// In order.
    counts: [u32; 5],
    startups: u32,
    story: Vec<Event>,
}

impl Events {
    pub fn new(protected: bool, unprotected_cuts: bool) -> Self {
        Events { protected, unprotected_cuts, ..Events::default() }
    }

    pub fn next(&mut self, random: &mut Random) -> Event {
        let chosen = match self.story.len() {
            // A short campaign has these, too.
            0 => 0,
            1 => 7,
            2 => 11,
            _ => random.below(16),
        };
        let event = match chosen {
            0..=6 => Event::Kill,
            7..=10 => Event::Cut,
            11..=12 => Event::UnprotectedCut,
            13..=14 => Event::CutAndKill,
            _ => Event::Stop,
        };
        match event {
            Event::UnprotectedCut if !self.unprotected_cuts => Event::Cut,
            event => event,
        }
    }

    /// Counts it; whether what is buffered gets lost.
    pub fn note(&mut self, event: Event) -> bool {
        self.counts[event as usize] += 1;
        self.story.push(event);
        let cut = matches!(event, Event::Cut | Event::CutAndKill);
        event == Event::UnprotectedCut || !self.protected && cut
    }

    /// It happens while the writers write. If what is buffered gets lost: when that began.
    pub fn happen(
        &mut self,
        event: Event,
        drive: &mut Drive,
        shared: &Shared,
        random: &mut Random,
    ) -> Result<Option<u64>, String> {
        let lost = self.note(event);
        let began = lost.then(|| shared.clock.tick());
        if event != Event::Stop {
            shared.crashing.store(true, Ordering::SeqCst);
        }
        match event {
            Event::Kill => drive.kill(),
            Event::Cut => drive.cut(random, true)?,
            Event::UnprotectedCut => drive.cut(random, false)?,
            Event::CutAndKill => {
                let cut = drive.cut(random, true);
                std::thread::sleep(Duration::from_millis(random.below(20)));
                drive.kill();
                cut?;
            }
            Event::Stop => {}
        }
        Ok(began)
    }

    /// The writers have ended: the drive is brought up again, not always at the first attempt.
    pub fn come_back(&mut self, event: Event, drive: &mut Drive, random: &mut Random) -> Result<(), String> {
        match event {
            Event::Cut | Event::UnprotectedCut => return Ok(()),
            Event::Kill | Event::CutAndKill => {}
            Event::Stop => drive.stop()?,
        }
        while random.one_in(3) {
            self.startups += 1;
            let most = if random.one_in(2) { 10 } else { 150 };
            let after = random.below(most);
            drive.start_in_vain(Duration::from_millis(after));
        }
        drive.start()
    }

    /// The last events, to be told with a failure.
    pub fn story(&self) -> String {
        format!("events so far {:?}", self.story)
    }

    pub fn summary(&self) -> String {
        let [kills, cuts, unprotected, both, stops] = self.counts;
        let startups = self.startups;
        format!(
            "{kills} kills, {cuts} cuts, {unprotected} unprotected cuts, {both} cuts with a kill, {startups} kills at the \
             start, {stops} stops"
        )
    }
}
