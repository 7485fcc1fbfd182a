//! `tranche fault drop`, `delay` and the others that are faults of the protocol.

use crate::options::Target;
use clap::Args;
use nvme::keyword::CommandName;
use nvme::log::InjectedFault;
use nvme::protocol_fault::{BlockRange, CommandMatch, ProtocolAction, ProtocolFault, QueueKind, Recurrence};
use nvme::{Nsid, Status};

/// Which commands a fault strikes.
#[derive(Args, Debug)]
pub struct Commands {
    /// Strike this command: write, read, flush, identify, …, or io:0x01, admin:0x06 [default: any command of I/O queues]
    #[arg(long, value_name = "COMMAND", value_parser = command)]
    pub command: Option<CommandName>,
    /// Strike commands of this namespace only
    #[arg(long, value_name = "NSID", value_parser = clap::value_parser!(u32).range(1..))]
    pub nsid: Option<Nsid>,
    /// Strike commands on these logical blocks only: FIRST+NUMBER
    #[arg(long, value_name = "RANGE", value_parser = block_range)]
    pub block_range: Option<BlockRange>,
    #[command(flatten)]
    pub turns: Turns,
}

/// Whom a fault strikes, and when.
#[derive(Args, Debug)]
pub struct Turns {
    /// Strike commands to this controller only, by its identifier
    #[arg(long, value_name = "ID")]
    pub cntlid: Option<u16>,
    /// Strike commands through this port only, from 1; 0 for every port
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub portid: u16,
    /// Let N matching commands pass first
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub after: u32,
    /// Then strike each Nth of them, the first of these first
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub every: u32,
    /// Strike one in N of these by chance, at most 1000000000
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(InjectedFault::CERTAINTY_PPB)))]
    pub one_in: u32,
    /// Strike N commands only [default: until cleared]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub count: Option<u32>,
    #[command(flatten)]
    pub target: Target,
}

/// A command by its name.
fn command(text: &str) -> Result<CommandName, String> {
    CommandName::parse(text).ok_or_else(|| {
        let names: Vec<String> = CommandName::all().map(|(keyword, _)| keyword.to_string()).collect();
        format!("the command '{text}' is none of {}{}", names.join(", "), units::did_you_mean(text, &names))
    })
}

/// A status by its name or number.
pub fn status(text: &str) -> Result<Status, String> {
    let found = Status::parse(text).ok_or_else(|| {
        let near = units::did_you_mean(text, Status::named().map(|(keyword, _)| keyword.to_string()));
        format!("no status has this name{near}: write internal-error, or type and code as 0x281")
    })?;
    if found.is_success() { Err("it must be a failure".to_owned()) } else { Ok(found) }
}

/// A range of blocks: FIRST+NUMBER.
fn block_range(text: &str) -> Result<BlockRange, String> {
    let parts =
        text.split_once('+').and_then(|(slba, blocks)| Some((slba.parse().ok()?, blocks.parse().ok()?)));
    match parts {
        Some((slba, blocks)) if blocks > 0 => Ok(BlockRange { slba, blocks }),
        _ => Err("write the first block and their number, such as 0+8".to_owned()),
    }
}

/// A time above 0 in microseconds.
pub fn micros(text: &str) -> Result<u32, String> {
    let nanos = units::parse_time(text).map_err(|wrong| wrong.to_string())?;
    ProtocolAction::whole_us(nanos)
        .filter(|time| *time > 0)
        .ok_or_else(|| "it must be whole microseconds, more than 0 and less than 71 minutes".to_owned())
}

/// The same, or never.
pub fn micros_or_never(text: &str) -> Result<u32, String> {
    if text == "never" { Ok(ProtocolAction::ENDLESS_US) } else { micros(text) }
}

impl Turns {
    fn fault(&self, commands: CommandMatch, action: ProtocolAction) -> ProtocolFault {
        ProtocolFault {
            commands: CommandMatch {
                controller: self.cntlid,
                port: (self.portid > 0).then_some(self.portid),
                ..commands
            },
            recurrence: Recurrence {
                after: self.after,
                every: self.every,
                one_in: self.one_in,
                count: self.count.unwrap_or(0),
            },
            action,
        }
    }

    /// A fault that strikes the action's own command only.
    pub fn of_own_command(&self, nsid: Option<Nsid>, action: ProtocolAction) -> ProtocolFault {
        let opcode = action.own_command().map(|opcode| opcode.0);
        self.fault(CommandMatch { queue: QueueKind::Admin, opcode, nsid, ..CommandMatch::default() }, action)
    }
}

impl Commands {
    /// A fault of these commands.
    pub fn fault(&self, action: ProtocolAction) -> ProtocolFault {
        let commands = CommandMatch {
            queue: self.command.map_or(QueueKind::Io, |command| command.queue),
            opcode: self.command.map(|command| command.opcode),
            nsid: self.nsid,
            blocks: self.block_range,
            ..CommandMatch::default()
        };
        self.turns.fault(commands, action)
    }
}

/// The commands of an active fault, in words.
pub fn place(fault: &InjectedFault) -> String {
    let selector = &fault.selector;
    let mut parts =
        vec![selector.command().map_or_else(|| "I/O commands".to_owned(), |command| command.to_string())];
    if fault.nsid.get() != 0 {
        parts.push(format!("namespace {}", fault.nsid.get()));
    }
    if selector.blocks.get() != 0 {
        parts.push(format!("blocks {}+{}", selector.slba.get(), selector.blocks.get()));
    }
    if selector.flags.controller() {
        parts.push(format!("controller {}", selector.cntlid.get()));
    }
    if fault.nvmsetid.get() != 0 {
        parts.push(format!("port {}", fault.nvmsetid.get()));
    }
    parts.join(", ")
}

/// When an active fault strikes, in words.
pub fn strikes(fault: &InjectedFault) -> String {
    let (after, every) = (fault.selector.after.get(), fault.selector.every.get());
    let mut parts = Vec::new();
    if after > 0 {
        parts.push(format!("after {after}"));
    }
    if every > 1 {
        parts.push(format!("every {every}"));
    }
    if fault.one_in() > 1 {
        parts.push(format!("one in {}", fault.one_in()));
    }
    if parts.is_empty() {
        parts.push("always".to_owned());
    }
    format!("{}; struck {}", parts.join(", "), fault.strikes.get())
}

/// The parameter of an active fault, in words.
pub fn parameter(fault: &InjectedFault) -> String {
    use nvme::admin::FaultKind;
    let param = fault.param.get();
    let unexecuted = if fault.selector.flags.unexecuted() { ", not executed" } else { "" };
    match fault.kind {
        FaultKind::STATUS => {
            let status = u16::try_from(param).map(Status).unwrap_or_default();
            format!("{status}{unexecuted}")
        }
        FaultKind::DROP if !unexecuted.is_empty() => "not executed".to_owned(),
        FaultKind::LATE_READY if param == ProtocolAction::ENDLESS_US => "never".to_owned(),
        FaultKind::DELAY | FaultKind::SPURIOUS_INTERRUPT | FaultKind::VANISH | FaultKind::LATE_READY => {
            format!("{param} us")
        }
        _ => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_write_is_understood_or_explained() {
        assert_eq!(block_range("8+4"), Ok(BlockRange { slba: 8, blocks: 4 }));
        assert!(block_range("8").is_err() && block_range("8+0").is_err());
        assert_eq!((micros("5ms"), micros_or_never("never")), (Ok(5000), Ok(u32::MAX)));
        assert!(micros("1500ns").is_err() && micros("0").is_err() && micros("2h").is_err());
        assert!(command("wirte").unwrap_err().contains("did you mean write?"));
        assert!(status("internal-eror").unwrap_err().contains("did you mean internal-error?"));
        assert!(status("0x4000").is_err(), "a success with Do Not Retry");
        assert_eq!(status("0x281"), Ok(Status(0x281)));
    }
}
