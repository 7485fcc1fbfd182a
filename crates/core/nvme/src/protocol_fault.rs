//! Faults of the protocol: which commands they strike, which of them, and what happens (vendor specific command D1h, kinds 30h and
//! above).
//!
//! - [`CommandMatch`] says which commands are meant.
//! - [`Recurrence`] says which of those a fault strikes.
//! - [`ProtocolAction`] says what happens to a struck one.
//!
//! The three are independent, so that triggers of other things can use the first two.

pub use crate::admin::ProtocolFaultInjection;
use crate::command::{AdminOpcode, Command, FABRICS_OPCODE, IoOpcode};
use crate::command_table::{self, DataSource};
use crate::fault::FaultKind;
pub use crate::fault_selector::{FaultSelector, FaultSelectorFlags, QueueKind};
use crate::io::Blocks;
use crate::log::LogId;
use crate::{NSID_ALL, Nsid, Status, U16, U32, U64};
use zerocopy::{FromBytes, IntoBytes};

/// A range of logical blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockRange {
    /// The first of them.
    pub slba: u64,
    /// How many they are: at least 1.
    pub blocks: u64,
}

impl BlockRange {
    /// Whether both have a block in common.
    #[must_use]
    pub fn meets(self, other: BlockRange) -> bool {
        let ends_after = |a: BlockRange, b: BlockRange| a.slba.saturating_add(a.blocks) > b.slba;
        ends_after(self, other) && ends_after(other, self)
    }
}

/// Which commands are meant: those that fulfil all of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CommandMatch {
    /// The kind of their queue.
    pub queue: QueueKind,
    /// Their opcode; `None` for any. Fabrics commands are meant by their opcode only, and so is each admin command.
    pub opcode: Option<u8>,
    /// Their namespace; `None` for any.
    pub nsid: Option<Nsid>,
    /// The controller that they came to; `None` for any.
    pub controller: Option<u16>,
    /// The port of that controller; `None` for any.
    pub port: Option<u16>,
    /// They read or write one of these blocks; `None` for any command.
    pub blocks: Option<BlockRange>,
}

/// Where a command came from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CommandSource {
    /// Its queue.
    pub queue: QueueKind,
    /// Its controller.
    pub controller: u16,
    /// The port of the controller; 0 for none.
    pub port: u16,
}

impl CommandMatch {
    /// Whether the controller is one of those meant.
    #[must_use]
    pub fn is_of(&self, source: CommandSource) -> bool {
        self.queue == source.queue
            && self.controller.is_none_or(|controller| controller == source.controller)
            && self.port.is_none_or(|port| port == source.port)
    }

    /// Whether a command is meant. Commands that inject, list and clear faults never are.
    #[must_use]
    pub fn matches(&self, source: CommandSource, command: &Command) -> bool {
        let admin = source.queue == QueueKind::Admin;
        let implied = !admin && command.opc != FABRICS_OPCODE;
        self.is_of(source)
            && self.opcode.map_or(implied, |opcode| opcode == command.opc)
            && self.nsid.is_none_or(|nsid| nsid == command.nsid.get())
            && self.blocks.is_none_or(|range| blocks_of(command, admin).is_some_and(|own| own.meets(range)))
            && !(admin && controls_faults(command))
    }
}

/// The logical blocks that a command reads or writes, if its fields name one range of them.
#[must_use]
pub fn blocks_of(command: &Command, admin: bool) -> Option<BlockRange> {
    let info = command_table::of(command.opc, admin).filter(|_| !admin)?;
    let has_range = info.data == DataSource::Contents
        || [IoOpcode::WRITE_UNCORRECTABLE, IoOpcode::WRITE_ZEROES, IoOpcode::VERIFY]
            .contains(&IoOpcode(command.opc));
    has_range.then(|| {
        let Blocks { slba, nlb, .. } = Blocks::parse(command);
        BlockRange { slba, blocks: nlb.into() }
    })
}

/// Whether a command of the admin queue injects, lists or clears faults, or cuts the power: a drive stays manageable under each fault.
fn controls_faults(command: &Command) -> bool {
    match AdminOpcode(command.opc) {
        AdminOpcode::POWER_CUT | AdminOpcode::FAULT_INJECTION => true,
        AdminOpcode::GET_LOG_PAGE => command.cdw10.get() & 0xFF == u32::from(LogId::INJECTED_FAULTS.0),
        _ => false,
    }
}

/// Which of the matching commands are struck.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Recurrence {
    /// This many pass first.
    pub after: u32,
    /// Then one in this number has its turn, the first of them first; 0 and 1: each.
    pub every: u32,
    /// Of these, one in this number by chance; 0 and 1: each.
    pub one_in: u32,
    /// It ends when it has struck this number; 0: when it is cleared.
    pub count: u32,
}

/// What happens to a struck command. Times are in microseconds of the drive's time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProtocolAction {
    /// Its completion never comes. `unexecuted`: it is not executed either.
    Drop {
        /// The command is lost before it is executed.
        unexecuted: bool,
    },
    /// Its completion comes later by this time.
    Delay(u32),
    /// Its completion comes twice.
    Duplicate,
    /// Its completion has this status. `unexecuted`: it is not executed.
    Status {
        /// The status: no success.
        status: Status,
        /// The command is not executed.
        unexecuted: bool,
    },
    /// Its completion comes without an interrupt.
    LoseInterrupt,
    /// An interrupt comes at once, and the completion no earlier than after this time.
    SpuriousInterrupt(u32),
    /// An Identify returns the data of the moment when the fault was armed.
    StaleIdentify,
    /// Its controller vanishes for this time.
    Vanish(u32),
    /// A controller that is enabled becomes ready later by this time; [`ProtocolAction::ENDLESS_US`]: never.
    LateReady(u32),
}

impl ProtocolAction {
    /// A delay that does not end: the controller never becomes ready.
    pub const ENDLESS_US: u32 = u32::MAX;

    /// Converts nanoseconds to the microseconds of an action. `None` for a part of a microsecond, and from 71 minutes on.
    #[must_use]
    pub fn whole_us(nanos: u64) -> Option<u32> {
        let whole = nanos.is_multiple_of(1000).then(|| u32::try_from(nanos / 1000).ok()).flatten();
        whole.filter(|time| *time != Self::ENDLESS_US)
    }

    /// The admin command that alone can be struck; `None` if any can be. The enabling of a controller goes by the opcode of fabrics commands.
    #[must_use]
    pub fn own_command(self) -> Option<AdminOpcode> {
        match self {
            Self::StaleIdentify => Some(AdminOpcode::IDENTIFY),
            Self::LateReady(_) => Some(AdminOpcode::FABRICS),
            _ => None,
        }
    }

    /// The kind of the fault.
    #[must_use]
    pub fn kind(self) -> FaultKind {
        match self {
            Self::Drop { .. } => FaultKind::DROP,
            Self::Delay(_) => FaultKind::DELAY,
            Self::Duplicate => FaultKind::DUPLICATE,
            Self::Status { .. } => FaultKind::STATUS,
            Self::LoseInterrupt => FaultKind::LOST_INTERRUPT,
            Self::SpuriousInterrupt(_) => FaultKind::SPURIOUS_INTERRUPT,
            Self::StaleIdentify => FaultKind::STALE_IDENTIFY,
            Self::Vanish(_) => FaultKind::VANISH,
            Self::LateReady(_) => FaultKind::LATE_READY,
        }
    }

    /// The parameter of the command D1h.
    #[must_use]
    pub fn param(self) -> u32 {
        match self {
            Self::Delay(time)
            | Self::SpuriousInterrupt(time)
            | Self::Vanish(time)
            | Self::LateReady(time) => time,
            Self::Status { status, .. } => status.0.into(),
            Self::Drop { .. } | Self::Duplicate | Self::LoseInterrupt | Self::StaleIdentify => 0,
        }
    }

    /// Whether a struck command is not executed.
    #[must_use]
    pub fn is_unexecuted(self) -> bool {
        match self {
            Self::Drop { unexecuted } | Self::Status { unexecuted, .. } => unexecuted,
            Self::Vanish(_) => true,
            _ => false,
        }
    }
}

/// How a fault changes the way of a completion to its host. A host without queue entries and interrupts notices nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CompletionFault {
    /// Nothing.
    #[default]
    None,
    /// The host gets it twice.
    Duplicate,
    /// It comes without an interrupt, if its queue has room.
    LostInterrupt,
}

/// Faults of the protocol that a drive can have at once.
pub const MAX_FAULTS: usize = 64;

/// A fault of the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProtocolFault {
    /// Which commands are meant.
    pub commands: CommandMatch,
    /// Which of them it strikes.
    pub recurrence: Recurrence,
    /// What happens.
    pub action: ProtocolAction,
}

/// A field of a fault that is out of its range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FaultField {
    /// In the command, at this byte.
    Command(u16),
    /// In its data, at this byte.
    Data(u16),
}

/// What is wrong with a fault that could not be injected, in words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WrongFault {
    /// The field.
    pub field: FaultField,
    /// What it must be.
    pub rule: &'static str,
}

/// Kind, port, count, chance and parameter of D1h.
const CDW10: u16 = 40;
const CDW12: u16 = 48;
const CDW13: u16 = 52;

impl ProtocolFault {
    /// Puts a fault together as the parts of D1h have it.
    ///
    /// # Errors
    /// The first field that is out of its range.
    pub fn parse(command: &ProtocolFaultInjection, data: &[u8]) -> Result<Self, WrongFault> {
        let wrong = |field, rule| Err(WrongFault { field, rule });
        let Ok((selector, _)) = FaultSelector::ref_from_prefix(data) else {
            return wrong(FaultField::Data(0), "64 bytes of data are needed");
        };
        if selector.version != FaultSelector::VERSION {
            return wrong(FaultField::Data(0), "the version of the data is 1");
        }
        let flags = selector.flags;
        let reserved = flags.into_bits() & 0xF0 != 0
            || selector.rsvd3 != 0
            || selector.rsvd6.get() != 0
            || selector.rsvd32 != [0; 32];
        if reserved {
            return wrong(FaultField::Data(1), "reserved fields are 0");
        }
        let ProtocolFaultInjection { nsid, kind, port, count, one_in, param } = *command;
        let unexecuted = flags.unexecuted();
        let action = match kind {
            FaultKind::DROP => ProtocolAction::Drop { unexecuted },
            FaultKind::DELAY => ProtocolAction::Delay(param),
            FaultKind::DUPLICATE => ProtocolAction::Duplicate,
            FaultKind::STATUS => {
                let status = Status(u16::try_from(param).unwrap_or(0) & 0x7FFF);
                ProtocolAction::Status { status, unexecuted }
            }
            FaultKind::LOST_INTERRUPT => ProtocolAction::LoseInterrupt,
            FaultKind::SPURIOUS_INTERRUPT => ProtocolAction::SpuriousInterrupt(param),
            FaultKind::STALE_IDENTIFY => ProtocolAction::StaleIdentify,
            FaultKind::VANISH => ProtocolAction::Vanish(param),
            FaultKind::LATE_READY => ProtocolAction::LateReady(param),
            _ => return wrong(FaultField::Command(CDW10), "the kind is one of 30h to 38h"),
        };
        if param != action.param() {
            return wrong(FaultField::Command(CDW13), "the bits that this kind of fault does not use are 0");
        }
        if unexecuted && !action.is_unexecuted() {
            return wrong(FaultField::Data(1), "only a drop or a status leaves a command unexecuted");
        }
        let blocks = (selector.blocks.get() > 0)
            .then(|| BlockRange { slba: selector.slba.get(), blocks: selector.blocks.get() });
        let fault = ProtocolFault {
            commands: CommandMatch {
                queue: if flags.admin() { QueueKind::Admin } else { QueueKind::Io },
                opcode: flags.opcode().then_some(selector.opcode),
                nsid: (nsid != 0 && nsid != NSID_ALL).then_some(nsid),
                controller: flags.controller().then_some(selector.cntlid.get()),
                port: (port != 0).then_some(port),
                blocks,
            },
            recurrence: Recurrence {
                after: selector.after.get(),
                every: selector.every.get(),
                one_in,
                count,
            },
            action,
        };
        fault.check().map(|()| fault)
    }

    /// Checks what the types do not say.
    ///
    /// # Errors
    /// The first field that is out of its range.
    pub fn check(&self) -> Result<(), WrongFault> {
        let ProtocolFault { commands, recurrence, action } = self;
        let wrong = |field, rule| Err(WrongFault { field, rule });
        let opcode = commands.opcode.map(AdminOpcode);
        let admin = commands.queue == QueueKind::Admin;
        let is_own = admin && opcode == action.own_command();
        if recurrence.one_in > crate::log::InjectedFault::CERTAINTY_PPB {
            return wrong(FaultField::Command(CDW12), "one in at most 1,000,000,000 commands");
        }
        if admin && commands.blocks.is_some() {
            return wrong(FaultField::Data(16), "commands of the admin queue have no range of blocks");
        }
        match action {
            ProtocolAction::Delay(0) | ProtocolAction::Vanish(0) | ProtocolAction::LateReady(0) => {
                wrong(FaultField::Command(CDW13), "a time above 0 is needed")
            }
            ProtocolAction::Status { status, .. } if status.is_success() => {
                wrong(FaultField::Command(CDW13), "the status is that of a failure")
            }
            ProtocolAction::StaleIdentify if !is_own => {
                wrong(FaultField::Data(2), "it strikes Identify on the admin queue")
            }
            // It is no command that is struck, but the enabling of a controller.
            ProtocolAction::LateReady(_) if !is_own || commands.nsid.is_some() => {
                wrong(FaultField::Data(2), "it strikes opcode 7Fh on the admin queue, without a namespace")
            }
            _ if admin && opcode.is_none() => {
                wrong(FaultField::Data(2), "a fault of admin commands names an opcode")
            }
            _ => Ok(()),
        }
    }

    /// The data of its command.
    #[must_use]
    pub fn selector(&self) -> FaultSelector {
        let ProtocolFault { commands, recurrence, action } = self;
        let range = commands.blocks.unwrap_or(BlockRange { slba: 0, blocks: 0 });
        FaultSelector {
            version: FaultSelector::VERSION,
            flags: FaultSelectorFlags::new()
                .with_admin(commands.queue == QueueKind::Admin)
                .with_opcode(commands.opcode.is_some())
                .with_controller(commands.controller.is_some())
                .with_unexecuted(action.is_unexecuted() && action.kind() != FaultKind::VANISH),
            opcode: commands.opcode.unwrap_or(0),
            cntlid: U16::new(commands.controller.unwrap_or(0)),
            slba: U64::new(range.slba),
            blocks: U64::new(range.blocks),
            after: U32::new(recurrence.after),
            every: U32::new(recurrence.every),
            ..FaultSelector::default()
        }
    }

    /// The command that injects it, and its data.
    #[must_use]
    pub fn command(&self) -> (Command, [u8; 64]) {
        let mut data = [0; 64];
        data.copy_from_slice(self.selector().as_bytes());
        let injection = ProtocolFaultInjection {
            nsid: self.commands.nsid.unwrap_or(0),
            kind: self.action.kind(),
            port: self.commands.port.unwrap_or(0),
            count: self.recurrence.count,
            one_in: self.recurrence.one_in,
            param: self.action.param(),
        };
        (injection.into(), data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IO: CommandSource = CommandSource { queue: QueueKind::Io, controller: 1, port: 2 };
    const ADMIN: CommandSource = CommandSource { queue: QueueKind::Admin, ..IO };

    fn meant(commands: CommandMatch, source: CommandSource, command: &Command) -> bool {
        commands.matches(source, command)
    }

    #[test]
    fn commands_are_meant_by_queue_opcode_namespace_controller_and_port() {
        let any = CommandMatch::default();
        let (read, flush) = (Command::read(1, 8, 4), Command::new(IoOpcode::FLUSH.0, 2));
        assert!(meant(any, IO, &read) && meant(any, IO, &flush) && !meant(any, ADMIN, &read));
        let of = CommandMatch { opcode: Some(IoOpcode::READ.0), ..any };
        assert!(meant(of, IO, &read) && !meant(of, IO, &flush));
        let of = CommandMatch { nsid: Some(2), ..any };
        assert!(meant(of, IO, &flush) && !meant(of, IO, &read));
        let of = CommandMatch { controller: Some(1), port: Some(2), ..any };
        assert!(meant(of, IO, &read));
        assert!(!meant(of, CommandSource { controller: 2, ..IO }, &read));
        assert!(!meant(of, CommandSource { port: 0, ..IO }, &read));
    }

    #[test]
    fn ranges_of_blocks_meet_or_do_not() {
        let of = |slba, blocks| CommandMatch {
            blocks: Some(BlockRange { slba, blocks }),
            ..CommandMatch::default()
        };
        let read = Command::read(1, 8, 4);
        for (slba, blocks, meets) in [
            (0, 8, false),
            (0, 9, true),
            (11, 1, true),
            (12, 1, false),
            (0, u64::MAX, true),
            (9, u64::MAX, true),
        ] {
            assert_eq!(meant(of(slba, blocks), IO, &read), meets, "{slba}+{blocks}");
        }
        assert!(!meant(of(0, u64::MAX), IO, &Command::new(IoOpcode::FLUSH.0, 1)), "it has no blocks");
        assert!(!meant(of(0, u64::MAX), IO, &Command::new(IoOpcode::DATASET_MANAGEMENT.0, 1)));
    }

    #[test]
    fn a_drive_stays_manageable() {
        let of = |opcode: AdminOpcode| CommandMatch {
            queue: QueueKind::Admin,
            opcode: Some(opcode.0),
            ..CommandMatch::default()
        };
        for opcode in [AdminOpcode::POWER_CUT, AdminOpcode::FAULT_INJECTION] {
            assert!(!meant(of(opcode), ADMIN, &Command::new(opcode.0, 0)));
        }
        let log = |lid| Command::get_log_page(lid, 0, 0, 0, 64);
        assert!(!meant(of(AdminOpcode::GET_LOG_PAGE), ADMIN, &log(LogId::INJECTED_FAULTS)));
        assert!(meant(of(AdminOpcode::GET_LOG_PAGE), ADMIN, &log(LogId::SMART)));
        // No fault of any I/O command strikes what makes a connection.
        assert!(!meant(CommandMatch::default(), IO, &Command::new(FABRICS_OPCODE, 0)));
        let any_admin = CommandMatch { queue: QueueKind::Admin, ..CommandMatch::default() };
        assert!(!meant(any_admin, ADMIN, &Command::new(AdminOpcode::IDENTIFY.0, 0)));
    }

    fn faults() -> [ProtocolFault; 9] {
        let admin = |opcode: AdminOpcode| CommandMatch {
            queue: QueueKind::Admin,
            opcode: Some(opcode.0),
            ..CommandMatch::default()
        };
        let io = CommandMatch {
            opcode: Some(1),
            nsid: Some(3),
            controller: Some(7),
            port: Some(2),
            blocks: Some(BlockRange { slba: 1 << 40, blocks: 9 }),
            ..CommandMatch::default()
        };
        let recurrence = Recurrence { after: 5, every: 3, one_in: 2, count: 4 };
        let status = Status::NAMESPACE_NOT_READY.with_dnr();
        [
            (io, ProtocolAction::Drop { unexecuted: true }),
            (io, ProtocolAction::Delay(1)),
            (io, ProtocolAction::Duplicate),
            (io, ProtocolAction::Status { status, unexecuted: false }),
            (io, ProtocolAction::LoseInterrupt),
            (io, ProtocolAction::SpuriousInterrupt(8)),
            (admin(AdminOpcode::IDENTIFY), ProtocolAction::StaleIdentify),
            (admin(AdminOpcode::KEEP_ALIVE), ProtocolAction::Vanish(9)),
            (admin(AdminOpcode::FABRICS), ProtocolAction::LateReady(ProtocolAction::ENDLESS_US)),
        ]
        .map(|(commands, action)| ProtocolFault { commands, recurrence, action })
    }

    fn parsed(command: &Command, data: &[u8]) -> Result<ProtocolFault, WrongFault> {
        match crate::AdminCommand::parse(command) {
            Ok(crate::AdminCommand::ProtocolFault(injection)) => ProtocolFault::parse(&injection, data),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_fault_survives_its_command() {
        for fault in faults() {
            let (command, data) = fault.command();
            assert_eq!(crate::data_transfer(&command, true, |_| 0), crate::Transfer::ToController(64));
            assert_eq!(parsed(&command, &data), Ok(fault));
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_its_field() {
        let [drop, delay, duplicate, status, .., identify, vanish, ready] = faults();
        let field = |fault: ProtocolFault, change: &dyn Fn(&mut Command, &mut [u8; 64])| {
            let (mut command, mut data) = fault.command();
            change(&mut command, &mut data);
            parsed(&command, &data).map_err(|wrong| wrong.field)
        };
        let at_command = |at| Err(FaultField::Command(at));
        let at_data = |at| Err(FaultField::Data(at));
        assert_eq!(field(drop, &|_, data| data[0] = 2), at_data(0));
        assert_eq!(field(drop, &|_, data| data[1] |= 0x10), at_data(1));
        assert_eq!(field(drop, &|_, data| data[63] = 1), at_data(1));
        assert_eq!(field(delay, &|_, data| data[1] |= 8), at_data(1));
        assert_eq!(field(delay, &|command, _| command.cdw13.set(0)), at_command(52));
        assert_eq!(field(vanish, &|command, _| command.cdw13.set(0)), at_command(52));
        assert_eq!(field(duplicate, &|command, _| command.cdw12.set(1_000_000_001)), at_command(48));
        assert_eq!(field(status, &|command, _| command.cdw13.set(0x4000)), at_command(52));
        assert_eq!(field(identify, &|_, data| data[2] = 2), at_data(2));
        assert_eq!(field(identify, &|_, data| data[1] &= !1), at_data(2));
        assert_eq!(field(ready, &|_, data| data[2] = 6), at_data(2));
        assert_eq!(field(vanish, &|_, data| data[1] &= !2), at_data(2), "any admin command");
        assert_eq!(field(vanish, &|_, data| data[16] = 1), at_data(16));
        let (command, _) = drop.command();
        assert_eq!(parsed(&command, &[]).map_err(|wrong| wrong.field), at_data(0));
    }
}
