//! The tables `[[fault]]` of a drive's TOML: faults of the protocol that are armed from the start.

use crate::config_error::ConfigError;
use crate::quantity::Time;
use nvme::keyword::CommandName;
use nvme::protocol_fault::{
    BlockRange, CommandMatch, FaultField, MAX_FAULTS, ProtocolAction, ProtocolFault, QueueKind, Recurrence,
};
use nvme::{Nsid, Status};
use serde::Deserialize;

/// What happens.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    Drop,
    Delay,
    Duplicate,
    Status,
    LostInterrupt,
    SpuriousInterrupt,
    StaleIdentify,
    Vanish,
    LateReady,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProtocolFaultTable {
    kind: Kind,
    command: Option<String>,
    nsid: Option<Nsid>,
    cntlid: Option<u16>,
    portid: Option<u16>,
    block_range: Option<[u64; 2]>,
    #[serde(default)]
    after: u32,
    #[serde(default)]
    every: u32,
    #[serde(default)]
    one_in: u32,
    #[serde(default)]
    count: u32,
    time: Option<TimeOrNever>,
    status: Option<String>,
    #[serde(default = "yes")]
    executed: bool,
}

fn yes() -> bool {
    true
}

/// A time, or one that never comes.
#[derive(Deserialize)]
#[serde(untagged, expecting = "a time such as \"60us\", or \"never\" for kind = \"late-ready\"")]
enum TimeOrNever {
    Time(Time),
    Never(Never),
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Never {
    Never,
}

/// A fault, or the key that is wrong, its value, and the rule.
type Built = Result<ProtocolFault, (&'static str, String, String)>;

impl ProtocolFaultTable {
    fn build(self) -> Built {
        let action = self.action()?;
        let own = action.own_command();
        let implied = own.map(|opcode| CommandName { queue: QueueKind::Admin, opcode: opcode.0 });
        let named = self.command.as_deref().map(|text| {
            CommandName::parse(text).ok_or_else(|| {
                let near =
                    units::did_you_mean(text, CommandName::all().map(|(keyword, _)| keyword.to_string()));
                let rule = format!("a command such as \"write\", \"identify\" or \"io:0x01\"{near}");
                ("command", format!("{text:?}"), rule)
            })
        });
        let command = named.transpose()?.or(implied);
        let blocks = match self.block_range {
            Some([_, 0]) => return Err(("block_range", "empty".to_owned(), "at least one block".to_owned())),
            other => other.map(|[slba, blocks]| BlockRange { slba, blocks }),
        };
        let fault = ProtocolFault {
            commands: CommandMatch {
                queue: command.map_or(QueueKind::Io, |command| command.queue),
                opcode: command.map(|command| command.opcode),
                nsid: self.nsid,
                controller: self.cntlid,
                port: self.portid,
                blocks,
            },
            recurrence: Recurrence {
                after: self.after,
                every: self.every,
                one_in: self.one_in,
                count: self.count,
            },
            action,
        };
        fault.check().map(|()| fault).map_err(|wrong| {
            let (key, value) = match wrong.field {
                FaultField::Command(48) => ("one_in", self.one_in.to_string()),
                FaultField::Data(2) => ("command", self.command.unwrap_or_else(|| "not given".to_owned())),
                FaultField::Data(_) => ("block_range", "given".to_owned()),
                FaultField::Command(_) if self.kind == Kind::Status => {
                    ("status", self.status.unwrap_or_default())
                }
                FaultField::Command(_) => ("time", "0".to_owned()),
            };
            (key, value, wrong.rule.to_owned())
        })
    }

    fn action(&self) -> Result<ProtocolAction, (&'static str, String, String)> {
        let timed =
            matches!(self.kind, Kind::Delay | Kind::SpuriousInterrupt | Kind::Vanish | Kind::LateReady);
        if timed != self.time.is_some() {
            let (given, rule) = match timed {
                true => ("not given", "a time, for this kind"),
                false => ("given", "left out for this kind"),
            };
            return Err(("time", given.to_owned(), rule.to_owned()));
        }
        if (self.kind == Kind::Status) != self.status.is_some() {
            let given = if self.status.is_some() { "given" } else { "not given" };
            return Err(("status", given.to_owned(), "given for kind = \"status\" only".to_owned()));
        }
        if !self.executed && !matches!(self.kind, Kind::Drop | Kind::Status) {
            let rule = "true, but for kind = \"drop\" and kind = \"status\"";
            return Err(("executed", "false".to_owned(), rule.to_owned()));
        }
        let unexecuted = !self.executed;
        Ok(match self.kind {
            Kind::Drop => ProtocolAction::Drop { unexecuted },
            Kind::Delay => ProtocolAction::Delay(self.microseconds()?),
            Kind::Duplicate => ProtocolAction::Duplicate,
            Kind::Status => ProtocolAction::Status { status: self.status()?, unexecuted },
            Kind::LostInterrupt => ProtocolAction::LoseInterrupt,
            Kind::SpuriousInterrupt => ProtocolAction::SpuriousInterrupt(self.microseconds()?),
            Kind::StaleIdentify => ProtocolAction::StaleIdentify,
            Kind::Vanish => ProtocolAction::Vanish(self.microseconds()?),
            Kind::LateReady => ProtocolAction::LateReady(self.microseconds()?),
        })
    }

    fn status(&self) -> Result<Status, (&'static str, String, String)> {
        let text = self.status.as_deref().unwrap_or_default();
        Status::parse(text).ok_or_else(|| {
            let near = units::did_you_mean(text, Status::named().map(|(keyword, _)| keyword.to_string()));
            ("status", format!("{text:?}"), format!("a status such as \"internal-error\" or \"0x281\"{near}"))
        })
    }

    fn microseconds(&self) -> Result<u32, (&'static str, String, String)> {
        let nanos = match &self.time {
            Some(TimeOrNever::Never(Never::Never)) if self.kind == Kind::LateReady => {
                return Ok(ProtocolAction::ENDLESS_US);
            }
            Some(TimeOrNever::Never(Never::Never)) => u64::MAX,
            Some(TimeOrNever::Time(time)) => time.0.0,
            None => 0,
        };
        ProtocolAction::whole_us(nanos).ok_or_else(|| {
            ("time", format!("{nanos} ns"), "whole microseconds, less than 71 minutes".to_owned())
        })
    }
}

/// The faults of all tables.
pub(crate) fn build(tables: Vec<ProtocolFaultTable>) -> Result<Vec<ProtocolFault>, ConfigError> {
    if tables.len() > MAX_FAULTS {
        let rule = format!("at most {MAX_FAULTS}");
        return Err(ConfigError::value("number of [[fault]] tables", tables.len(), rule));
    }
    let one = |(number, table): (usize, ProtocolFaultTable)| {
        let wrong = |(key, value, rule)| ConfigError::value(format!("fault.{number}.{key}"), value, rule);
        table.build().map_err(wrong)
    };
    (1..).zip(tables).map(one).collect()
}

#[cfg(test)]
mod tests {
    use crate::Config;
    use crate::drive_toml::DEFAULT_DRIVE;
    use nvme::Status;
    use nvme::protocol_fault::{BlockRange, ProtocolAction, ProtocolFault, QueueKind};

    fn read(table: &str) -> Result<Vec<ProtocolFault>, String> {
        let text = format!("{DEFAULT_DRIVE}\n[[fault]]\n{table}\n");
        Config::from_toml(&text).map(|config| config.protocol_faults).map_err(|error| error.to_string())
    }

    #[test]
    fn a_table_is_a_fault() {
        let text = "kind = 'delay'\ntime = '5ms'\ncommand = 'write'\nnsid = 2\nafter = 9\nevery = 3\ncount = 1\nblock_range = [8, 4]";
        let [fault] = read(text).unwrap()[..] else { panic!() };
        assert_eq!(fault.action, ProtocolAction::Delay(5000));
        let commands = fault.commands;
        assert_eq!((commands.queue, commands.opcode, commands.nsid), (QueueKind::Io, Some(1), Some(2)));
        assert_eq!(commands.blocks, Some(BlockRange { slba: 8, blocks: 4 }));
        assert_eq!((fault.recurrence.after, fault.recurrence.every, fault.recurrence.count), (9, 3, 1));
        let action = |table: &str| read(table).unwrap()[0].action;
        let status = Status::INTERNAL_ERROR;
        assert_eq!(
            action("kind = 'status'\nstatus = 'internal-error'\nexecuted = false"),
            ProtocolAction::Status { status, unexecuted: true }
        );
        assert_eq!(action("kind = 'late-ready'\ntime = 'never'"), ProtocolAction::LateReady(u32::MAX));
        assert_eq!(action("kind = 'stale-identify'"), ProtocolAction::StaleIdentify);
    }

    #[test]
    fn a_wrong_table_is_refused_with_its_key() {
        for (table, key) in [
            ("kind = 'delay'", "time"),
            ("kind = 'delay'\ntime = 0", "time"),
            ("kind = 'delay'\ntime = 'never'", "time"),
            ("kind = 'delay'\ntime = '1500ns'", "time"),
            ("kind = 'drop'\ntime = '1ms'", "time"),
            ("kind = 'drop'\ncommand = 'wirte'", "command"),
            ("kind = 'drop'\nblock_range = [0, 0]", "block_range"),
            ("kind = 'drop'\ncommand = 'identify'\nblock_range = [0, 1]", "block_range"),
            ("kind = 'drop'\none_in = 2000000000", "one_in"),
            ("kind = 'drop'\nstatus = 'internal-error'", "status"),
            ("kind = 'status'", "status"),
            ("kind = 'status'\nstatus = 'internal-eror'", "status"),
            ("kind = 'status'\nstatus = '0'", "status"),
            ("kind = 'duplicate'\nexecuted = false", "executed"),
            ("kind = 'late-ready'\ntime = '1ms'\ncommand = 'identify'", "command"),
        ] {
            let said = read(table).unwrap_err();
            assert!(said.starts_with(&format!("fault.1.{key} is ")), "{table}: {said}");
        }
        assert!(read("kind = 'drop'\ncommand = 'wirte'").unwrap_err().contains("did you mean write?"));
        assert!(read("command = 'write'").unwrap_err().contains("fault.1 lacks kind"));
        let many = "[[fault]]\nkind = 'drop'\n".repeat(64);
        assert!(read(&format!("kind = 'drop'\n{many}")).unwrap_err().contains("[[fault]]"));
    }
}
