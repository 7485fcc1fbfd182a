//! Names of commands and statuses as programs write them: the specification's words in lower case, joined by `-`.

use crate::command::{AdminOpcode, IoOpcode};
use crate::command_table;
use crate::fault_selector::{FaultSelector, QueueKind};
use crate::status::{Sct, Status};
use core::fmt;

/// The specification's words as a program writes them.
#[derive(Clone, Copy, Debug)]
pub struct Keyword(pub &'static str);

impl Keyword {
    /// Its characters. What stands in parentheses is no part of it.
    fn chars(self) -> impl Iterator<Item = char> {
        let words = self.0.split('(').next().unwrap_or_default();
        let parts = words.split(|c: char| !c.is_ascii_alphanumeric()).filter(|part| !part.is_empty());
        let dashed = parts.enumerate().flat_map(|(i, part)| {
            let dash = (i > 0).then_some('-');
            dash.into_iter().chain(part.chars())
        });
        dashed.map(|c| c.to_ascii_lowercase())
    }

    /// Whether a text is this keyword.
    #[must_use]
    pub fn is(self, text: &str) -> bool {
        self.chars().eq(text.chars())
    }
}

impl fmt::Display for Keyword {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.chars().try_for_each(|c| fmt::Write::write_char(f, c))
    }
}

/// A number, decimal or hexadecimal with `0x`.
fn number(text: &str) -> Option<u16> {
    match text.strip_prefix("0x") {
        Some(digits) => u16::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// A command by queue and opcode: `write`, `identify`, `io:0x01`, `admin:0x06`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CommandName {
    /// The kind of its queue.
    pub queue: QueueKind,
    /// Its opcode.
    pub opcode: u8,
}

impl CommandName {
    /// All commands that the drive knows by a name.
    pub fn all() -> impl Iterator<Item = (Keyword, CommandName)> {
        let of = |queue| move |opcode: u8| CommandName { queue, opcode };
        // Fabrics commands are those of the admin queue.
        let io = command_table::io_commands().map(|info| info.opcode);
        let io = io.filter(|opcode| *opcode != crate::command::FABRICS_OPCODE).map(of(QueueKind::Io));
        let admin = command_table::admin_commands().map(|info| info.opcode).map(of(QueueKind::Admin));
        io.chain(admin).filter_map(|command| Some((command.keyword()?, command)))
    }

    /// The command of a text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let numbered = |queue, digits: &str| {
            let opcode = u8::try_from(number(digits)?).ok()?;
            Some(CommandName { queue, opcode })
        };
        match text.split_once(':') {
            Some(("io", digits)) => numbered(QueueKind::Io, digits),
            Some(("admin", digits)) => numbered(QueueKind::Admin, digits),
            Some(_) => None,
            None => Self::all().find(|(keyword, _)| keyword.is(text)).map(|(_, command)| command),
        }
    }

    fn keyword(self) -> Option<Keyword> {
        let words = match self.queue {
            QueueKind::Io => IoOpcode(self.opcode).name(),
            QueueKind::Admin => AdminOpcode(self.opcode).name(),
        };
        words.map(Keyword)
    }
}

impl FaultSelector {
    /// The command, if it names one.
    #[must_use]
    pub fn command(&self) -> Option<CommandName> {
        let queue = if self.flags.admin() { QueueKind::Admin } else { QueueKind::Io };
        self.flags.opcode().then_some(CommandName { queue, opcode: self.opcode })
    }
}

impl fmt::Display for CommandName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let queue = if self.queue == QueueKind::Io { "io" } else { "admin" };
        match self
            .keyword()
            .filter(|keyword| Self::all().any(|(known, at)| at == *self && known.0 == keyword.0))
        {
            Some(keyword) => keyword.fmt(f),
            None => write!(f, "{queue}:0x{:02X}", self.opcode),
        }
    }
}

impl Status {
    /// All statuses that the crate knows by a name.
    pub fn named() -> impl Iterator<Item = (Keyword, Status)> {
        let all = (0..8).flat_map(|sct| (0..=255).map(move |sc| Status::new(Sct(sct), sc)));
        all.filter_map(|status| Some((Keyword(status.words()?), status)))
    }

    /// The status of a text: its words in lower case, joined by `-`, or the number of type and code, such as `0x281`. Do Not Retry is
    /// 0x4000 of a number.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let named = Self::named().find(|(keyword, _)| keyword.is(text)).map(|(_, status)| status);
        named.or_else(|| number(text).filter(|bits| *bits < 0x8000).map(Status))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_its_own() {
        for (keyword, command) in CommandName::all() {
            assert!(!keyword.0.is_empty());
            let same = CommandName::all().filter(|(other, _)| other.0 == keyword.0).count();
            assert_eq!(same, 1, "{}", keyword.0);
            struct Text([u8; 64], usize);
            impl fmt::Write for Text {
                fn write_str(&mut self, text: &str) -> fmt::Result {
                    self.0[self.1..self.1 + text.len()].copy_from_slice(text.as_bytes());
                    self.1 += text.len();
                    Ok(())
                }
            }
            let mut text = Text([0; 64], 0);
            fmt::Write::write_fmt(&mut text, format_args!("{command}")).unwrap();
            let text = core::str::from_utf8(&text.0[..text.1]).unwrap();
            assert_eq!(CommandName::parse(text), Some(command), "{text}");
        }
    }

    #[test]
    fn commands_and_statuses_are_found_by_name_and_number() {
        let io = |opcode: IoOpcode| Some(CommandName { queue: QueueKind::Io, opcode: opcode.0 });
        let admin = |opcode: AdminOpcode| Some(CommandName { queue: QueueKind::Admin, opcode: opcode.0 });
        assert_eq!(CommandName::parse("write"), io(IoOpcode::WRITE));
        assert_eq!(CommandName::parse("dataset-management"), io(IoOpcode::DATASET_MANAGEMENT));
        assert_eq!(CommandName::parse("io:0x02"), io(IoOpcode::READ));
        assert_eq!(CommandName::parse("admin:6"), admin(AdminOpcode::IDENTIFY));
        assert_eq!(CommandName::parse("async-event-request"), None, "it is asynchronous-event-request");
        assert_eq!(CommandName::parse("asynchronous-event-request"), admin(AdminOpcode::ASYNC_EVENT_REQUEST));
        assert_eq!(CommandName::parse("fabrics-commands"), admin(AdminOpcode::FABRICS));
        assert_eq!(CommandName::parse("device-self-test"), admin(AdminOpcode::DEVICE_SELF_TEST));
        for wrong in ["", "Write", "io:256", "io:", "disk:1", "0x01"] {
            assert_eq!(CommandName::parse(wrong), None, "{wrong}");
        }
        assert_eq!(Status::parse("internal-error"), Some(Status::INTERNAL_ERROR));
        assert_eq!(Status::parse("0x4082"), Some(Status::NAMESPACE_NOT_READY.with_dnr()));
        assert_eq!((Status::parse("0x8000"), Status::parse("none")), (None, None));
    }
}
