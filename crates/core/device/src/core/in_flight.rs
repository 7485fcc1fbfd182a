//! Commands in flight: a flat table indexed by the number that the runner gave each command.

use super::controller::ControllerId;
use ftl::Io;
use media::Nanos;
use nvme::Status;
use nvme::admin::AdminCommand;

/// Commands that can be in flight at once; [`Io`] numbers below this are the runner's.
pub const MAX_IO: u32 = 65_536;

/// The duty to complete one command. It can be neither copied nor made elsewhere. Its holder completes the command, or parks
/// it where an event or a list of waiting commands brings it back.
#[must_use = "a command that is not completed hangs its host"]
#[derive(Debug)]
pub(crate) struct Token(u32);

impl Token {
    /// The command's number.
    #[inline]
    pub fn io(&self) -> Io {
        Io(self.0)
    }

    /// Leaves the command to an event, to the translation layer or to a list of waiting commands.
    #[inline]
    pub fn park(self) -> u32 {
        self.0
    }
}

/// What a command is to the accounts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CommandKind {
    /// Reads contents for the host.
    Read,
    /// Writes contents from the host.
    Write,
    /// Compares the host's contents with the medium's.
    Compare,
    /// Makes writes durable.
    Flush,
    /// Gives blocks up.
    Deallocate,
    /// Any other I/O command.
    Other,
    /// A command of the admin queue.
    Admin,
    /// An Asynchronous Event Request that waits for its event.
    Event,
}

/// Where a command is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CommandStage {
    /// Nowhere: the entry is free.
    Free,
    /// Being executed, or held until its modelled time.
    Running,
    /// Waits for the host's disk.
    Syncing,
    /// Waits for its turn, and has touched nothing yet.
    Held,
}

/// One command in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InFlight {
    pub submitted: Nanos,
    /// Latest end of its parts so far.
    pub at: Nanos,
    /// First logical block, or what the error log is to show in its place.
    pub lba: u64,
    pub nsid: u32,
    pub bytes: u32,
    /// Dword 0 of the completion.
    pub dw0: u32,
    pub dw1: u32,
    /// What it takes of its NVM Set, for fair sharing.
    pub cost: u32,
    pub controller: u16,
    pub qid: u16,
    pub cid: u16,
    pub status: Status,
    /// Parts that the translation layer has not answered yet.
    pub parts: u8,
    /// The NVM Set that it takes this of.
    pub set: u8,
    pub opcode: u8,
    pub kind: CommandKind,
    pub stage: CommandStage,
    /// Whether the host's disk is synced before the command completes.
    pub sync: bool,
    /// Whether nothing that was before it may be left.
    pub forget: bool,
    /// Whether it counts as one of its namespace's.
    pub entered: bool,
    /// The second command of a fused operation whose first is still to be answered.
    pub fused: bool,
    /// A write that waited for room in the write buffer.
    pub stalled: bool,
}

impl InFlight {
    pub const FREE: InFlight = InFlight {
        submitted: Nanos::ZERO,
        at: Nanos::ZERO,
        lba: 0,
        nsid: 0,
        bytes: 0,
        dw0: 0,
        dw1: 0,
        cost: 0,
        controller: 0,
        qid: 0,
        cid: 0,
        status: Status::SUCCESS,
        parts: 0,
        set: 0,
        opcode: 0,
        kind: CommandKind::Other,
        stage: CommandStage::Free,
        sync: false,
        forget: false,
        entered: false,
        fused: false,
        stalled: false,
    };
}

/// All commands in flight.
#[derive(Debug, Default)]
pub(crate) struct CommandsInFlight {
    table: Vec<InFlight>,
    count: u32,
}

impl CommandsInFlight {
    /// Takes a command in. `None` if its number is out of range or already in flight.
    #[inline]
    pub fn begin(&mut self, io: Io, command: InFlight) -> Option<Token> {
        let index = io.0 as usize;
        if index >= self.table.len() {
            self.grow(io)?;
        }
        let entry = self.table.get_mut(index)?;
        if entry.stage != CommandStage::Free {
            return None;
        }
        *entry = InFlight { stage: CommandStage::Running, ..command };
        self.count += 1;
        Some(Token(io.0))
    }

    #[cold]
    fn grow(&mut self, io: Io) -> Option<()> {
        if io.0 >= MAX_IO {
            return None;
        }
        let size = (io.0 as usize + 1).next_power_of_two().max(1024);
        self.table.resize(size, InFlight::FREE);
        Some(())
    }

    /// The entry of a command that is in flight.
    #[inline]
    pub fn get_mut(&mut self, token: &Token) -> &mut InFlight {
        // A token exists only for an entry of the table.
        &mut self.table[token.0 as usize]
    }

    /// Commands in flight, by their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &InFlight)> {
        (0..).zip(&self.table).filter(|(_, c)| c.stage != CommandStage::Free)
    }

    /// The duty that was parked under this number; `None` if no such command is in flight.
    #[inline]
    pub fn unpark(&self, io: u32) -> Option<Token> {
        self.table.get(io as usize).filter(|c| c.stage != CommandStage::Free).map(|_| Token(io))
    }

    /// Ends a command: its number is free again.
    #[inline]
    pub fn end(&mut self, token: Token) -> InFlight {
        let entry = &mut self.table[token.0 as usize];
        self.count -= 1;
        // The other fields of a free entry are never read.
        let ended = *entry;
        entry.stage = CommandStage::Free;
        ended
    }

    /// The command of a queue with this identifier.
    pub fn find(&self, controller: u16, qid: u16, cid: u16) -> Option<u32> {
        let found = self.table.iter().position(|c| {
            c.stage != CommandStage::Free && c.controller == controller && c.qid == qid && c.cid == cid
        })?;
        u32::try_from(found).ok()
    }

    /// How many admin commands of a controller with this opcode are in flight.
    pub fn count_of(&self, controller: u16, opcode: u8) -> usize {
        let same = |c: &&InFlight| {
            c.stage != CommandStage::Free && c.controller == controller && c.qid == 0 && c.opcode == opcode
        };
        self.table.iter().filter(same).count()
    }

    /// A controller is gone. Its commands do not belong to the controller that gets its identifier next.
    pub fn orphan(&mut self, controller: u16) {
        self.table.iter_mut().filter(|c| c.controller == controller).for_each(|c| c.controller = 0);
    }

    /// How many commands are in flight.
    pub fn len(&self) -> u32 {
        self.count
    }

    /// Forgets everything: power was lost.
    pub fn clear(&mut self) {
        self.table.fill(InFlight::FREE);
        self.count = 0;
    }
}

/// An admin command that waits until its namespaces are idle.
pub(crate) struct WaitingAdminCommand {
    pub io: u32,
    pub controller: ControllerId,
    pub command: AdminCommand,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_controller_has_none_of_the_commands_of_the_one_before() {
        let mut flight = CommandsInFlight::default();
        for (io, controller) in [(0, 7), (1, 8)] {
            let command =
                InFlight { controller, cid: 5, opcode: 8, stage: CommandStage::Running, ..InFlight::FREE };
            flight.begin(Io(io), command).unwrap().park();
        }
        flight.orphan(7);
        assert_eq!((flight.find(7, 0, 5), flight.count_of(7, 8)), (None, 0));
        assert_eq!((flight.find(8, 0, 5), flight.count_of(8, 8)), (Some(1), 1));
        assert_eq!(flight.len(), 2, "it still comes back");
    }
}
