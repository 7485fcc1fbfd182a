//! Stamped blocks: drives of all kinds under random loads, crashed in every way again and again.

use super::disk::{AccessPath, open};
use super::drive::{Drive, Setup};
use super::events::{Event, Events};
use super::load::{Shared, Space, Writer, verify};
use super::reshape::{erase_unused, reshape};
use super::scene::Scene;
use super::stamp::Random;
use super::{Options, drives};
use nvme::admin::{FaultInjection, FaultKind};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A campaign with one kind of drive.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub drive: drives::DriveKind,
    pub paths: &'static [AccessPath],
    pub no_host_sync: bool,
    pub key: bool,
}

pub const ALL_PATHS: &[AccessPath] = &[AccessPath::File, AccessPath::Loop, AccessPath::Unix, AccessPath::Tcp];
pub const SOCKETS: &[AccessPath] = &[AccessPath::Unix, AccessPath::Tcp];

/// Writers of each namespace.
const WRITERS: usize = 2;

/// Everything that lives through the crashes.
struct Campaign {
    random: Random,
    case: Case,
    drive: Drive,
    spaces: Vec<Space>,
    /// Those of the first namespace, then those of the second, …
    writers: Vec<Writer>,
    shared: Shared,
    events: Events,
    round: u32,
    /// Of the namespace that was created or formatted last.
    incarnation: u64,
    options: Options,
}

/// Runs it; what it did, in a few words, or what was wrong.
pub fn campaign(case: Case, scene: &Scene, rounds: u32, options: &Options) -> Result<String, String> {
    let mut campaign = Campaign::new(case, &scene.dir, options)?;
    let (mut retired, mut before) = (0, 0);
    for round in super::rounds(rounds) {
        campaign.round = round;
        campaign.round().map_err(|error| format!("round {round}, {}: {error}", campaign.events.story()))?;
        if case.drive == drives::DriveKind::Worn && campaign.worn_out() {
            // Enough blocks have gone bad: a new drive.
            campaign.drive.stop()?;
            std::fs::remove_dir_all(scene.dir.join("image")).unwrap();
            before += campaign.shared.operations.load(Ordering::SeqCst);
            retired += 1;
            let (random, events) = (campaign.random.fork(), std::mem::take(&mut campaign.events));
            campaign = Campaign { random, events, ..Campaign::new(case, &scene.dir, options)? };
        }
    }
    let last = campaign.drive.stop().and_then(|()| campaign.drive.start()).and_then(|()| campaign.verify());
    last.map_err(|error| format!("after the last round, {}: {error}", campaign.events.story()))?;
    campaign.drive.stop()?;
    let operations = before + campaign.shared.operations.load(Ordering::SeqCst);
    let worn = if retired > 0 { format!(", {retired} drives worn out") } else { String::new() };
    let older: u64 = campaign.writers.iter().map(|writer| writer.sectors.older).sum();
    let older = format!("{older} times a sector was older than written, as it may");
    Ok(format!("{operations} operations, {}{worn}, {older}", campaign.events.summary()))
}

impl Campaign {
    fn new(case: Case, dir: &Path, options: &Options) -> Result<Self, String> {
        let mut random = Random::new(options.seed);
        let (toml, spaces) = case.drive.describe();
        let fuse = case.paths.contains(&AccessPath::File);
        let setup = Setup { toml, key: case.key, no_host_sync: case.no_host_sync, fuse, tcp: true };
        let drive = Drive::new(setup, dir, options)?;
        let fill = case.drive == drives::DriveKind::Worn;
        let writers = (0..spaces.len() * WRITERS)
            .map(|n| Writer::new(&spaces, n / WRITERS, n % WRITERS, WRITERS, fill, random.fork()))
            .collect();
        let shared = Shared::new(fill);
        let events = Events::new(case.drive.protected(), case.drive.lost_on_cuts());
        Ok(Campaign {
            random,
            case,
            drive,
            spaces,
            writers,
            shared,
            events,
            round: 0,
            incarnation: 1,
            options: options.clone(),
        })
    }

    fn path(&mut self) -> AccessPath {
        self.case.paths[self.random.below(self.case.paths.len() as u64) as usize]
    }

    /// A load, a crash in the middle of it, and what is there afterwards.
    fn round(&mut self) -> Result<(), String> {
        if self.case.drive == drives::DriveKind::Worn {
            self.damage()?;
        }
        let event = self.events.next(&mut self.random);
        self.load(event)?;
        self.events.come_back(event, &mut self.drive, &mut self.random)?;
        if event == Event::Stop {
            self.writers.iter_mut().for_each(|writer| writer.sectors.settle());
        }
        if self.case.drive == drives::DriveKind::Shifting {
            self.reshape()?;
        }
        // What is idle collects, syncs and writes back.
        if self.random.one_in(3) {
            self.verify()?;
        }
        std::thread::sleep(Duration::from_millis(self.random.below(1500)));
        if self.random.one_in(2) {
            self.verify()?;
        }
        Ok(())
    }

    /// Lets all writers work until so many operations are through, then the event happens.
    fn load(&mut self, event: Event) -> Result<(), String> {
        let count = if self.round == 1 { 2000 } else { self.random.below(2500) };
        let enough = self.shared.operations.load(Ordering::SeqCst) + count;
        let flush_one_in = [2, 16, 1000][self.random.below(3) as usize];
        self.shared.flush_one_in.store(flush_one_in, Ordering::SeqCst);
        self.shared.stop.store(false, Ordering::SeqCst);
        self.shared.crashing.store(false, Ordering::SeqCst);
        // Half of the time the load has just ended when it happens.
        let (calm, flush) = (self.random.one_in(2), self.random.one_in(2));
        // What ends a quiet load shows best if all came the same way.
        let path = self.path();
        let paths: Vec<AccessPath> =
            (0..self.writers.len()).map(|_| if calm { path } else { self.path() }).collect();
        let mut erases =
            if self.case.drive == drives::DriveKind::Shifting { self.random.below(5) } else { 0 };
        let (mut disks, mut random) = (Vec::new(), self.random.fork());
        for (writer, path) in self.writers.iter().zip(&paths) {
            let space = &self.spaces[writer.space];
            disks.push(open(&self.drive, *path, space.nsid, space.sector)?);
        }
        let (spaces, shared, drive, events) = (&self.spaces, &self.shared, &mut self.drive, &mut self.events);
        let (happened, results) = std::thread::scope(|scope| {
            let threads: Vec<_> = self
                .writers
                .iter_mut()
                .zip(disks)
                .map(|(writer, mut disk)| {
                    scope.spawn(move || {
                        let space = &spaces[writer.space];
                        let mut result = writer.run(space, &mut *disk, shared);
                        if result.is_ok() && calm {
                            result = writer.finish(space, &mut *disk, shared, flush);
                        }
                        if result.is_err() {
                            shared.stop.store(true, Ordering::SeqCst);
                        }
                        result
                    })
                })
                .collect();
            let busy = || threads.iter().any(|thread| !thread.is_finished());
            let more =
                || shared.operations.load(Ordering::SeqCst) < enough && !shared.stop.load(Ordering::SeqCst);
            let mut erased = Ok(());
            while busy() && more() {
                std::thread::sleep(Duration::from_millis(1));
                if erases > 0 && erased.is_ok() {
                    erases -= 1;
                    erased = erase_unused(drive);
                }
            }
            if calm {
                shared.stop.store(true, Ordering::SeqCst);
                while busy() {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            let happened = erased.and_then(|()| events.happen(event, drive, shared, &mut random));
            shared.stop.store(true, Ordering::SeqCst);
            let results: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
            (happened, results)
        });
        let results: Result<Vec<()>, String> = results.into_iter().collect();
        results.map_err(|error| self.drive.died().unwrap_or(error))?;
        if let Some(began) = happened? {
            for writer in &mut self.writers {
                let space = &self.spaces[writer.space];
                writer.sectors.power_lost(began, space);
            }
        }
        Ok(())
    }

    fn verify(&mut self) -> Result<(), String> {
        for index in 0..self.spaces.len() {
            let path = self.path();
            let writers = self.writers.iter_mut().filter(|writer| writer.space == index).collect();
            verify(&self.drive, &self.spaces[index], writers, path, &self.shared)
                .map_err(|error| self.drive.died().unwrap_or(error))?;
        }
        Ok(())
    }

    /// Some namespaces become others; the process may die just after that.
    fn reshape(&mut self) -> Result<(), String> {
        for index in 0..self.spaces.len() {
            if self.random.one_in(2) {
                continue;
            }
            self.incarnation += 1;
            let space = &self.spaces[index];
            let (program, random) = (&self.options.program, &mut self.random);
            self.spaces[index] = reshape(&self.drive, program, space, self.incarnation, random)?;
            for writer in 0..WRITERS {
                let random = self.random.fork();
                self.writers[index * WRITERS + writer] =
                    Writer::new(&self.spaces, index, writer, WRITERS, false, random);
            }
        }
        if self.random.one_in(2) {
            self.drive.kill();
            self.drive.start()?;
        }
        Ok(())
    }

    /// A few blocks go bad, and reads need correction.
    fn damage(&mut self) -> Result<(), String> {
        for kind in [FaultKind::PROGRAM_FAILURE, FaultKind::ERASE_FAILURE, FaultKind::BIT_ERRORS] {
            if self.random.one_in(3) {
                let by_chance = kind == FaultKind::BIT_ERRORS;
                let (count, one_in, param) = if by_chance { (0, 50, 3) } else { (1, 0, 0) };
                let fault = FaultInjection { nsid: 0, kind, nvmsetid: 0, count, one_in, param, lba: None };
                self.drive.fault(fault)?;
            }
        }
        Ok(())
    }

    /// Whether the drive takes no writes any more.
    fn worn_out(&mut self) -> bool {
        let smart = self.drive.host().and_then(|mut host| host.smart().map_err(|error| error.to_string()));
        smart.is_ok_and(|smart| smart.critical_warning.into_bits() != 0)
    }
}
