//! `tranche fault`: the drive's fault injection (vendor specific command D1h, docs/vendor.md).

use crate::connect::{Connected, connect};
use crate::options::{Output, Target};
use crate::protocol_fault::{self, Commands, Turns};
use crate::refusal::network_refusal;
use crate::table::table;
use crate::{print_json, print_text};
use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use host::view;
use nvme::Status;
use nvme::admin::{FaultInjection, FaultKind};
use nvme::log::{AnaState, InjectedFault};
use nvme::protocol_fault::{ProtocolAction, ProtocolFault};
use schemars::JsonSchema;
use serde::Serialize;

/// `tranche fault`.
#[derive(Subcommand, Debug)]
pub enum Fault {
    /// List the active faults, and a planned power cut
    List {
        #[command(flatten)]
        target: Target,
    },
    /// End all faults: ports come back as they were at first; what was damaged stays so
    Clear {
        #[command(flatten)]
        target: Target,
    },
    /// Reads have bit errors that are corrected, by chance
    BitErrors(Chance),
    /// Reads cannot be corrected
    Uncorrectable(Counted),
    /// Programs fail
    ProgramFailure(Counted),
    /// Erases fail
    EraseFailure(Counted),
    /// A die fails every operation
    StuckDie {
        /// Which die, from 0
        die: u32,
        /// NVM Set, that is the medium; 0 for all
        #[arg(long, alias = "set", value_name = "N", default_value_t = 0)]
        nvm_set: u16,
        #[command(flatten)]
        target: Target,
    },
    /// Programs are reported good and write nothing, by chance
    LostWrite(Chance),
    /// Programs land elsewhere, by chance
    MisdirectedWrite(Chance),
    /// What is written cannot be read until it is written again, by chance: weak pages of flash, grown defects of a disk
    WeakPage(Chance),
    /// Operations are slow, by chance
    Slow {
        /// How many times as long they take: 2 or more
        #[arg(value_parser = clap::value_parser!(u32).range(2..))]
        factor: u32,
        #[command(flatten)]
        chance: Chance,
    },
    /// The disk of the drive's machine, under an image, is full
    HostDiskFull(HostDisk),
    /// The disk of the drive's machine, under an image, fails
    HostDiskError(HostDisk),
    /// A port takes another Asymmetric Namespace Access state
    PortAna {
        /// Port identifier, from 1; 0 for every port
        port: u16,
        /// optimized, non-optimized, inaccessible, persistent-loss or change
        #[arg(value_parser = ana_state)]
        state: AnaState,
        #[command(flatten)]
        target: Target,
    },
    /// A port loses its connections and takes no new ones for a time
    ///
    /// Until then no command reaches the drive through this port, not even `fault clear`. Another port of the drive ends it sooner; a drive with one
    /// port comes back when the time is over.
    PortDown {
        /// Port identifier, from 1
        port: u16,
        /// For how long
        #[arg(long = "for", alias = "for-ms", value_name = "TIME", default_value = "10s", value_parser = some_time)]
        for_ms: u32,
        #[command(flatten)]
        target: Target,
    },
    /// The completion of a command never comes
    Drop {
        /// The command is lost on its way: the drive does not execute it
        #[arg(long)]
        unexecuted: bool,
        #[command(flatten)]
        commands: Commands,
    },
    /// The completion of a command comes late
    Delay {
        /// How late
        #[arg(value_parser = protocol_fault::micros)]
        time: u32,
        #[command(flatten)]
        commands: Commands,
    },
    /// The completion of a command comes twice, over NVMe/TCP and PCI
    Duplicate(Commands),
    /// A command completes with another status
    Status {
        /// internal-error, namespace-not-ready, …, or type and code as 0x281; 0x4000 is Do Not Retry
        #[arg(value_parser = protocol_fault::status)]
        status: Status,
        /// The drive does not execute the command
        #[arg(long)]
        unexecuted: bool,
        #[command(flatten)]
        commands: Commands,
    },
    /// A completion comes without an interrupt, over PCI
    LostInterrupt(Commands),
    /// An interrupt comes without a completion, over PCI
    SpuriousInterrupt {
        /// How much later the completion of the command comes, at least
        #[arg(long = "before", value_name = "TIME", default_value = "1ms", value_parser = protocol_fault::micros)]
        before: u32,
        #[command(flatten)]
        commands: Commands,
    },
    /// Identify returns its data of now, whatever changes
    StaleIdentify {
        /// For this namespace only
        #[arg(long, value_name = "NSID", value_parser = clap::value_parser!(u32).range(1..))]
        nsid: Option<u32>,
        #[command(flatten)]
        turns: Turns,
    },
    /// A controller vanishes when it gets a command
    ///
    /// Over NVMe/TCP its connections end, and those that its host makes end, too. Over PCI all its registers read as ones.
    Vanish {
        /// For how long
        #[arg(long = "for", value_name = "TIME", default_value = "10s", value_parser = protocol_fault::micros)]
        span: u32,
        #[command(flatten)]
        commands: Commands,
    },
    /// A controller that is enabled becomes ready (CSTS.RDY) late or never
    LateReady {
        /// How late, or never
        #[arg(value_parser = protocol_fault::micros_or_never)]
        time: u32,
        #[command(flatten)]
        turns: Turns,
    },
}

/// A time above 0 in milliseconds.
fn some_time(text: &str) -> Result<u32, String> {
    match units::parse_millis(text) {
        Ok(0) => Err("it must be more than 0".to_owned()),
        Ok(time) => Ok(time),
        Err(wrong) => Err(wrong.to_string()),
    }
}

/// Operations that fail by chance.
#[derive(Args, Debug)]
pub struct Chance {
    /// NVM Set, that is the medium; 0 for all
    #[arg(long, alias = "set", value_name = "N", default_value_t = 0)]
    pub nvm_set: u16,
    /// Strike one in N operations, at most 1000000000
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(InjectedFault::CERTAINTY_PPB)))]
    pub one_in: u32,
    #[command(flatten)]
    pub target: Target,
}

/// Operations that fail by chance, or the next so many.
#[derive(Args, Debug)]
pub struct Counted {
    /// Strike the next N operations only [default: until cleared]
    #[arg(long, value_name = "N", conflicts_with = "one_in", value_parser = clap::value_parser!(u32).range(1..))]
    pub count: Option<u32>,
    #[command(flatten)]
    pub chance: Chance,
}

/// Operations of the host's disk.
#[derive(Args, Debug)]
pub struct HostDisk {
    /// Strike the next N operations only [default: until cleared]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub count: Option<u32>,
    #[command(flatten)]
    pub target: Target,
}

/// An ANA state by its name.
pub fn ana_state(text: &str) -> Result<AnaState, String> {
    let all = [
        AnaState::OPTIMIZED,
        AnaState::NON_OPTIMIZED,
        AnaState::INACCESSIBLE,
        AnaState::PERSISTENT_LOSS,
        AnaState::CHANGE,
    ];
    let found = all.into_iter().find(|state| state.name() == Some(text));
    found.ok_or_else(|| {
        let names: Vec<&str> = all.into_iter().filter_map(AnaState::name).collect();
        let near = units::did_you_mean(text, names.iter().copied());
        format!("the ANA state '{text}' is none of {}{near}", names.join(", "))
    })
}

impl Fault {
    /// The command that it injects or clears with, and where it goes.
    fn command(&self) -> Option<(FaultInjection, &Target)> {
        let plain = |kind, nvmsetid, param| FaultInjection {
            nsid: 0,
            kind,
            nvmsetid,
            count: 0,
            one_in: 0,
            param,
            lba: None,
        };
        let by_chance =
            |kind, c: &Chance, param| FaultInjection { one_in: c.one_in, ..plain(kind, c.nvm_set, param) };
        let counted = |kind, c: &Counted| {
            let one_in = if c.count.is_none() { c.chance.one_in } else { 0 };
            FaultInjection { count: c.count.unwrap_or(0), one_in, ..plain(kind, c.chance.nvm_set, 0) }
        };
        let of_disk =
            |kind, disk: &HostDisk| FaultInjection { count: disk.count.unwrap_or(0), ..plain(kind, 0, 0) };
        Some(match self {
            Fault::List { .. } => return None,
            Fault::Clear { target } => (plain(FaultKind::CLEAR, 0, 0), target),
            Fault::BitErrors(c) => (by_chance(FaultKind::BIT_ERRORS, c, 0), &c.target),
            Fault::Uncorrectable(c) => (counted(FaultKind::UNCORRECTABLE, c), &c.chance.target),
            Fault::ProgramFailure(c) => (counted(FaultKind::PROGRAM_FAILURE, c), &c.chance.target),
            Fault::EraseFailure(c) => (counted(FaultKind::ERASE_FAILURE, c), &c.chance.target),
            Fault::StuckDie { die, nvm_set, target } => (plain(FaultKind::STUCK_DIE, *nvm_set, *die), target),
            Fault::LostWrite(c) => (by_chance(FaultKind::LOST_WRITE, c, 0), &c.target),
            Fault::MisdirectedWrite(c) => (by_chance(FaultKind::MISDIRECTED_WRITE, c, 0), &c.target),
            Fault::WeakPage(c) => (by_chance(FaultKind::WEAK_PAGE, c, 0), &c.target),
            Fault::Slow { factor, chance } => (by_chance(FaultKind::SLOW, chance, *factor), &chance.target),
            Fault::HostDiskFull(d) => (of_disk(FaultKind::HOST_DISK_FULL, d), &d.target),
            Fault::HostDiskError(d) => (of_disk(FaultKind::HOST_DISK_ERROR, d), &d.target),
            Fault::PortAna { port, state, target } => {
                (plain(FaultKind::PORT_ANA, *port, state.0.into()), target)
            }
            Fault::PortDown { port, for_ms, target } => (plain(FaultKind::PORT_DOWN, *port, *for_ms), target),
            _ => return None,
        })
    }

    /// The fault of the protocol that it injects, and where it goes.
    fn protocol_fault(&self) -> Option<(ProtocolFault, &Target)> {
        let (commands, action) = match self {
            Fault::Drop { unexecuted, commands } => {
                (commands, ProtocolAction::Drop { unexecuted: *unexecuted })
            }
            Fault::Delay { time, commands } => (commands, ProtocolAction::Delay(*time)),
            Fault::Duplicate(commands) => (commands, ProtocolAction::Duplicate),
            Fault::Status { status, unexecuted, commands } => {
                (commands, ProtocolAction::Status { status: *status, unexecuted: *unexecuted })
            }
            Fault::LostInterrupt(commands) => (commands, ProtocolAction::LoseInterrupt),
            Fault::SpuriousInterrupt { before, commands } => {
                (commands, ProtocolAction::SpuriousInterrupt(*before))
            }
            Fault::Vanish { span, commands } => (commands, ProtocolAction::Vanish(*span)),
            Fault::StaleIdentify { nsid, turns } => {
                let fault = turns.of_own_command(*nsid, ProtocolAction::StaleIdentify);
                return Some((fault, &turns.target));
            }
            Fault::LateReady { time, turns } => {
                let fault = turns.of_own_command(None, ProtocolAction::LateReady(*time));
                return Some((fault, &turns.target));
            }
            _ => return None,
        };
        Some((commands.fault(action), &commands.turns.target))
    }
}

/// The fault that was injected.
#[derive(Serialize, JsonSchema)]
pub struct Injected {
    /// Operations that fail; 0: until cleared.
    count: u32,
    /// Its name.
    fault: &'static str,
    /// NVM Set, or port; 0 for all.
    id: u16,
    /// One in so many; 0 and 1: each.
    one_in: u32,
    /// Parameter of the fault: a die, a factor, a state, a status, milliseconds; microseconds for faults of the protocol.
    parameter: u32,
}

/// The faults that are active, and a planned power cut.
#[derive(Serialize, JsonSchema)]
pub struct ActiveFaults {
    /// One for each fault.
    faults: Vec<view::ActiveFault>,
}

/// `tranche fault`.
pub fn fault(fault: &Fault, output: Output) -> Result<()> {
    if let Fault::List { target } = fault {
        return list(target, output);
    }
    let injected = match fault.protocol_fault() {
        Some((protocol, target)) => {
            inject(target, |host| host.inject_protocol_fault(&protocol))?;
            Injected {
                count: protocol.recurrence.count,
                fault: protocol.action.kind().name().unwrap_or("unknown"),
                id: protocol.commands.port.unwrap_or(0),
                one_in: protocol.recurrence.one_in,
                parameter: protocol.action.param(),
            }
        }
        None => {
            let (command, target) = fault.command().context("a fault without a command")?;
            inject(target, |host| host.inject_fault(command))?;
            Injected {
                count: command.count,
                fault: command.kind.name().unwrap_or("unknown"),
                id: command.nvmsetid,
                one_in: command.one_in,
                parameter: command.param,
            }
        }
    };
    match output {
        Output::Json => print_json(&injected),
        Output::Text => match fault {
            Fault::PortDown { port, for_ms, .. } => print_text(&format!(
                "port {port} takes no connections for {} s: wait (--wait), or end it through another port (`tranche fault clear --on ADDR`)",
                f64::from(*for_ms) / 1000.0
            )),
            _ => Ok(()),
        },
    }
}

/// Sends a drive an order to inject a fault.
fn inject(target: &Target, order: impl FnOnce(&mut Connected) -> Result<(), host::Error>) -> Result<()> {
    let mut host = connect(target)?;
    order(&mut host).map_err(|error| match network_refusal(&host, &error) {
        Some(why) => anyhow::Error::from(error).context(why),
        None => error.into(),
    })
}

/// `tranche fault list`.
fn list(target: &Target, output: Output) -> Result<()> {
    let faults = connect(target)?.injected_faults()?.1;
    match output {
        Output::Json => {
            let faults = faults.iter().map(view::ActiveFault::from).collect();
            // A value has its keys in order.
            print_json(&serde_json::to_value(ActiveFaults { faults })?)
        }
        Output::Text if faults.is_empty() => print_text("no faults are injected"),
        Output::Text => {
            let rows: Vec<[String; 5]> = faults.iter().map(row).collect();
            print_text(&table(&["Fault", "Where", "Strikes", "Parameter", "Ends"], &rows))
        }
    }
}

/// A fault in words.
fn row(fault: &InjectedFault) -> [String; 5] {
    let (kind, id, param) = (fault.kind, fault.nvmsetid.get(), fault.param.get());
    let place = match kind {
        FaultKind::POWER_CUT => "drive".to_owned(),
        _ if kind.is_of_host_disk() => "host's disk".to_owned(),
        _ if kind.is_of_port() => format!("port {id}"),
        _ if kind.is_of_protocol() => protocol_fault::place(fault),
        _ => format!("NVM Set {id}"),
    };
    let strikes = match fault.one_in() {
        _ if kind.is_of_protocol() => protocol_fault::strikes(fault),
        1 => "always".to_owned(),
        one_in => format!("one in {one_in}"),
    };
    let parameter = match kind {
        _ if kind.is_of_protocol() => protocol_fault::parameter(fault),
        FaultKind::STUCK_DIE => format!("die {param}"),
        FaultKind::SLOW => format!("{param} times as long"),
        FaultKind::PORT_ANA => {
            u8::try_from(param).map(AnaState).map_or_else(|_| param.to_string(), |s| s.to_string())
        }
        _ => "-".to_owned(),
    };
    let ends = match fault.remaining.get() {
        0 => "when cleared".to_owned(),
        ms if kind == FaultKind::PORT_DOWN => format!("in {ms} ms"),
        left if kind == FaultKind::POWER_CUT => format!("comes after {left} operations of the media"),
        left => format!("after {left} operations"),
    };
    [kind.keyword().to_owned(), place, strikes, parameter, ends]
}
