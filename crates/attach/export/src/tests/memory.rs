//! A drive in memory, for tests: completes its commands at once, or later and in any order.

use super::zoned::ZoneModel;
use crate::drive::{Completions, Drive, DriveCommand, DriveNotice, Namespace, Reports};
use blockdev::{Operation, Verb};
use fuser::Errno;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak, mpsc};

/// What its commands may carry.
#[derive(Clone, Copy)]
pub struct Limits {
    /// Bytes of a read or write.
    pub transfer: u32,
    /// Bytes of zeroes.
    pub zero: u32,
    /// Commands in flight.
    pub commands: u32,
}

pub struct Memory {
    completions: Weak<dyn Completions>,
    news: Option<mpsc::Sender<DriveNotice>>,
    limits: Limits,
    losses: AtomicU64,
    state: Mutex<MemoryState>,
}

#[derive(Default)]
struct MemoryState {
    namespaces: BTreeMap<u32, (Namespace, Vec<u8>)>,
    /// Zones by namespace.
    zones: BTreeMap<u32, ZoneModel>,
    seen: Vec<DriveCommand>,
    in_flight: u32,
    most_in_flight: u32,
    fail: Option<Errno>,
    /// How often it cannot identify its namespaces.
    unidentified: u32,
    /// Held back until [`Memory::release`], when there is something.
    held: Option<Vec<Held>>,
}

type Held = (u64, Result<(), Errno>, Vec<u8>);

pub fn namespace(nsid: u32, block_size: u32, bytes: u64) -> Namespace {
    let device = blockdev::Namespace::plain(nsid, bytes / u64::from(block_size), block_size);
    Namespace { nguid: [nsid as u8; 16], ..Namespace::new(device) }
}

impl Memory {
    pub fn new(completions: Weak<dyn Completions>, limits: Limits, namespaces: &[Namespace]) -> Arc<Self> {
        Self::build(completions, None, limits, namespaces)
    }

    pub fn reporting(reports: Reports, limits: Limits, namespaces: &[Namespace]) -> Arc<Self> {
        Self::build(reports.completions, Some(reports.news), limits, namespaces)
    }

    fn build(
        completions: Weak<dyn Completions>,
        news: Option<mpsc::Sender<DriveNotice>>,
        limits: Limits,
        namespaces: &[Namespace],
    ) -> Arc<Self> {
        let memory = Memory { completions, news, limits, losses: AtomicU64::new(0), state: Mutex::default() };
        for namespace in namespaces {
            memory.attach(*namespace);
        }
        Arc::new(memory)
    }

    pub fn attach(&self, mut namespace: Namespace) {
        let size = namespace.block_size();
        let limits = &mut namespace.device.limits;
        (limits.transfer, limits.write_zeroes) = (self.limits.transfer / size, self.limits.zero / size);
        let room = vec![0; namespace.device.blocks as usize * size as usize];
        let mut state = self.state.lock().unwrap();
        state.namespaces.insert(namespace.nsid(), (namespace, room));
        state.zones.extend(namespace.zones.map(|zones| (namespace.nsid(), ZoneModel::new(zones))));
        drop(state);
        self.tell();
    }

    /// The next questions for its namespaces fail.
    pub fn fail_identification(&self, times: u32) {
        self.state.lock().unwrap().unidentified = times;
    }

    pub fn detach(&self, nsid: u32) {
        self.state.lock().unwrap().namespaces.remove(&nsid);
        self.tell();
    }

    /// A power cut takes completed writes along, of all namespaces.
    pub fn lose(&self) {
        self.losses.fetch_add(1, Ordering::SeqCst);
        self.tell();
    }

    fn tell(&self) {
        if let Some(news) = &self.news {
            let _ = news.send(DriveNotice::Namespaces);
        }
    }

    /// Looks at the zones of a namespace, or changes them behind the back of the directory.
    pub fn zones<T>(&self, nsid: u32, look: impl FnOnce(&mut ZoneModel) -> T) -> T {
        look(self.state.lock().unwrap().zones.get_mut(&nsid).unwrap())
    }

    pub fn content(&self, nsid: u32) -> Vec<u8> {
        self.state.lock().unwrap().namespaces[&nsid].1.clone()
    }

    pub fn fill(&self, nsid: u32, value: u8) {
        self.state.lock().unwrap().namespaces.get_mut(&nsid).unwrap().1.fill(value);
    }

    /// Commands since the last call.
    pub fn seen(&self) -> Vec<DriveCommand> {
        std::mem::take(&mut self.state.lock().unwrap().seen)
    }

    pub fn most_in_flight(&self) -> u32 {
        self.state.lock().unwrap().most_in_flight
    }

    /// Makes all commands fail, or succeed again.
    pub fn fail(&self, with: Option<Errno>) {
        self.state.lock().unwrap().fail = with;
    }

    /// Holds completions back from now on.
    pub fn hold(&self) {
        self.state.lock().unwrap().held = Some(Vec::new());
    }

    /// Delivers one held completion, chosen by `pick`; `false` if there is none.
    pub fn release(&self, pick: usize) -> bool {
        let mut state = self.state.lock().unwrap();
        let Some(held) = state.held.as_mut().filter(|held| !held.is_empty()) else { return false };
        let at = pick % held.len();
        let held = held.swap_remove(at);
        state.in_flight -= 1;
        drop(state);
        self.deliver(held);
        true
    }

    fn deliver(&self, (tag, result, data): Held) {
        if let Some(completions) = self.completions.upgrade() {
            completions.complete(tag, result, data);
        }
    }
}

impl MemoryState {
    fn execute(&mut self, nsid: u32, command: DriveCommand, data: &mut [u8]) -> Result<(), Errno> {
        if let Some(errno) = self.fail {
            return Err(errno);
        }
        let (namespace, room) = self.namespaces.get_mut(&nsid).ok_or(Errno::ENODEV)?;
        let size = namespace.block_size() as usize;
        let range = |lba: u64, blocks: u32| -> Result<std::ops::Range<usize>, Errno> {
            let start = lba as usize * size;
            let end = start + blocks as usize * size;
            if blocks == 0 || end > room.len() { Err(Errno::EINVAL) } else { Ok(start..end) }
        };
        match command {
            DriveCommand::Blocks(Operation { verb, lba, blocks }) => match verb {
                Verb::Read => data.copy_from_slice(&room[range(lba, blocks)?]),
                Verb::Write | Verb::WriteFua => {
                    let range = range(lba, blocks)?;
                    if let Some(zones) = self.zones.get_mut(&nsid) {
                        zones.write(lba, blocks)?;
                    }
                    room[range].copy_from_slice(data);
                }
                Verb::WriteZeroes { .. } => {
                    let range = range(lba, blocks)?;
                    room[range].fill(0);
                }
                Verb::Flush => {}
                other => panic!("{other:?} is no command of files"),
            },
            DriveCommand::Report { lba } => self.zones.get(&nsid).ok_or(Errno::EOPNOTSUPP)?.report(lba, data),
            DriveCommand::Zone { lba, action } => {
                self.zones.get_mut(&nsid).ok_or(Errno::EOPNOTSUPP)?.manage(lba, action)?;
            }
        }
        Ok(())
    }
}

impl Drive for Memory {
    fn queue_entries(&self) -> u32 {
        self.limits.commands
    }

    fn namespaces(&self) -> Result<Vec<Namespace>, String> {
        let losses = self.losses();
        let mut state = self.state.lock().unwrap();
        if state.unidentified > 0 {
            state.unidentified -= 1;
            return Err("a sanitize is in progress".to_owned());
        }
        let namespaces = state.namespaces.values();
        Ok(namespaces.map(|(namespace, _)| Namespace { losses, ..*namespace }).collect())
    }

    fn losses(&self) -> u64 {
        self.losses.load(Ordering::SeqCst)
    }

    fn submit(&self, tag: u64, of: &blockdev::Namespace, command: DriveCommand, mut data: Vec<u8>) {
        let nsid = of.nsid;
        let mut state = self.state.lock().unwrap();
        state.seen.push(command);
        state.in_flight += 1;
        state.most_in_flight = state.most_in_flight.max(state.in_flight);
        assert!(state.in_flight <= self.limits.commands, "more commands than the queue holds");
        let result = state.execute(nsid, command, &mut data);
        if let Some(held) = &mut state.held {
            return held.push((tag, result, data));
        }
        state.in_flight -= 1;
        drop(state);
        self.deliver((tag, result, data));
    }
}
