//! `tranche fault`: the drive's fault injection (vendor specific command D1h, docs/vendor.md).

use crate::connect::connect;
use crate::options::{Output, Target};
use crate::refusal::{about_set, network_refusal};
use crate::{print_json, print_text};
use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use nvme::admin::{FaultInjection, FaultKind};
use nvme::log::AnaState;
use serde_json::json;

/// `tranche fault`.
#[derive(Subcommand, Debug)]
pub enum Fault {
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
    /// One in so many
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub one_in: u32,
    #[command(flatten)]
    pub target: Target,
}

/// Operations that fail by chance, or the next so many.
#[derive(Args, Debug)]
pub struct Counted {
    /// So many of the next operations, then no more [default: until cleared]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true, conflicts_with = "one_in")]
    pub count: u32,
    #[command(flatten)]
    pub chance: Chance,
}

/// Operations of the host's disk.
#[derive(Args, Debug)]
pub struct HostDisk {
    /// So many of the next operations, then no more [default: until cleared]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub count: u32,
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
    /// The command, and where it goes.
    fn command(&self) -> (FaultInjection, &Target) {
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
            let one_in = if c.count == 0 { c.chance.one_in } else { 0 };
            FaultInjection { count: c.count, one_in, ..plain(kind, c.chance.nvm_set, 0) }
        };
        match self {
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
            Fault::HostDiskFull(d) => {
                (FaultInjection { count: d.count, ..plain(FaultKind::HOST_DISK_FULL, 0, 0) }, &d.target)
            }
            Fault::HostDiskError(d) => {
                (FaultInjection { count: d.count, ..plain(FaultKind::HOST_DISK_ERROR, 0, 0) }, &d.target)
            }
            Fault::PortAna { port, state, target } => {
                (plain(FaultKind::PORT_ANA, *port, state.0.into()), target)
            }
            Fault::PortDown { port, for_ms, target } => (plain(FaultKind::PORT_DOWN, *port, *for_ms), target),
        }
    }
}

/// `tranche fault`.
pub fn fault(fault: &Fault, output: Output) -> Result<()> {
    let (command, target) = fault.command();
    let mut host = connect(target)?;
    let injected = host.inject_fault(command);
    if let Err(error) = injected {
        return match network_refusal(&host, &error) {
            Some(why) => Err(anyhow::Error::from(error).context(why)),
            None if [FaultKind::PORT_ANA, FaultKind::PORT_DOWN].contains(&command.kind) => Err(error)
                .with_context(|| {
                    format!("is there a port {}? `tranche serve` numbers them from 1", command.nvmsetid)
                }),
            None => {
                let named = about_set(&mut host, command.nvmsetid, Err(error));
                named.with_context(|| match fault {
                    Fault::StuckDie { die, .. } => {
                        format!("is there a die {die}? They are numbered from 0 in each NVM Set on flash, as many as its TOML has `dies`")
                    }
                    _ => "the drive does not take this fault".to_owned(),
                })
            }
        };
    }
    match output {
        Output::Json => print_json(&json!({
            "fault": command.kind.name(),
            "id": command.nvmsetid,
            "count": command.count,
            "one_in": command.one_in,
            "parameter": command.param,
        })),
        Output::Text => match fault {
            Fault::PortDown { port, for_ms, .. } => print_text(&format!(
                "port {port} takes no connections for {} s: wait (--wait), or end it through another port (`tranche fault clear --on ADDR`)",
                f64::from(*for_ms) / 1000.0
            )),
            _ => Ok(()),
        },
    }
}
