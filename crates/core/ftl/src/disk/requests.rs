//! What the disk works on: its requests, and the commands that they are parts of.

use super::faults::Fate;
use crate::answer::Fault;
use crate::storage::Io;
use media::Nanos;
use media::disk::Op;
use std::collections::BTreeMap;
use std::ops::Range;

/// A request of the disk.
#[derive(Clone, Debug)]
pub(super) struct Request {
    /// The command that it is a part of.
    pub command: u64,
    pub op: Op,
    /// Sectors of the disk: first and number.
    pub sectors: (u64, u32),
    /// Sectors that a write gives new contents as a whole. From now on the journal says that they can be read.
    pub rewrites: Range<u64>,
    /// Pages of the set that a write changes.
    pub pages: Range<u32>,
    pub fate: Fate,
    /// The host knows that it is complete. A write may still be in the disk's buffer only.
    pub complete: bool,
}

impl Request {
    /// A read of these sectors, as a part of a command.
    pub fn read(command: u64, sectors: (u64, u32), fate: Fate) -> Self {
        Self { command, op: Op::Read, sectors, rewrites: 0..0, pages: 0..0, fate, complete: false }
    }
}

#[derive(Clone, Debug)]
struct Command {
    io: Io,
    /// Requests that are not complete.
    left: u32,
    at: Nanos,
    result: Result<(), Fault>,
}

/// All of them. Numbers grow.
#[derive(Clone, Default, Debug)]
pub(super) struct Requests {
    requests: BTreeMap<u64, Request>,
    commands: BTreeMap<u64, Command>,
    next: u64,
}

impl Requests {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// A command of so many requests begins.
    pub fn open(&mut self, io: Io, requests: u32) -> u64 {
        let number = self.number();
        self.commands.insert(number, Command { io, left: requests, at: Nanos::ZERO, result: Ok(()) });
        number
    }

    /// A request of a command has ended. Returns the command if it was the last one: when it is done, and how.
    pub fn close(
        &mut self,
        command: u64,
        at: Nanos,
        result: Result<(), Fault>,
    ) -> Option<(Io, Nanos, Result<(), Fault>)> {
        let open = self.commands.get_mut(&command)?;
        open.left -= 1;
        open.at = open.at.max(at);
        open.result = open.result.and(result);
        if open.left > 0 {
            return None;
        }
        let Command { io, at, result, .. } = self.commands.remove(&command)?;
        Some((io, at, result))
    }

    pub fn add(&mut self, request: Request) -> u64 {
        let number = self.number();
        self.requests.insert(number, request);
        number
    }

    pub fn get_mut(&mut self, request: u64) -> Option<&mut Request> {
        self.requests.get_mut(&request)
    }

    pub fn remove(&mut self, request: u64) -> Option<Request> {
        self.requests.remove(&request)
    }

    /// Writes that capacitors save, in their order: those that are complete for the host and not on the platters, and the one that the
    /// disk was writing.
    pub fn saved(&self, under_way: Option<u64>) -> impl Iterator<Item = (u64, Request)> {
        let saved = move |id: u64, request: &Request| request.complete || Some(id) == under_way;
        let writes = self.requests.iter().filter(|(_, request)| request.op == Op::Write);
        writes.filter(move |&(&id, request)| saved(id, request)).map(|(&id, request)| (id, request.clone()))
    }

    /// Whether a write under way gives a sector new contents.
    pub fn rewrite(&self, sector: u64) -> bool {
        self.requests.values().any(|request| request.rewrites.contains(&sector))
    }

    /// Power is lost: nobody is answered.
    pub fn clear(&mut self) {
        self.requests.clear();
        self.commands.clear();
    }

    /// Requests under way, and commands.
    pub fn counts(&self) -> (usize, usize) {
        (self.requests.len(), self.commands.len())
    }
}
