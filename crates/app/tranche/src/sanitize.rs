//! `tranche sanitize`: everything that a drive ever stored is erased for good.

use crate::args::{Sanitize, StartSanitize};
use crate::connect::connect;
use crate::exit;
use crate::options::Output;
use crate::tell::{tell, tell_part};
use crate::{print_json, print_text};
use anyhow::{Context, Result, bail};
use nvme::admin::{self, SanitizeAction};
use nvme::log::{SanitizeOperationStatus, SanitizeStatus};
use serde_json::json;
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

/// Time between two looks at the progress.
const PAUSE: Duration = Duration::from_millis(50);

/// `tranche sanitize`.
pub fn sanitize(command: &Sanitize, output: Output) -> Result<ExitCode> {
    let plain = |sanact| admin::Sanitize { sanact, ..Default::default() };
    match command {
        Sanitize::Block(options) => start(plain(SanitizeAction::BLOCK_ERASE), options, output),
        Sanitize::Crypto(options) => start(plain(SanitizeAction::CRYPTO_ERASE), options, output),
        Sanitize::Overwrite { passes, pattern, invert, start: options } => {
            // 16 is written as 0.
            let how = admin::Sanitize {
                owpass: passes % 16,
                oipbp: *invert,
                ovrpat: *pattern,
                ..Default::default()
            };
            start(admin::Sanitize { sanact: SanitizeAction::OVERWRITE, ..how }, options, output)
        }
        Sanitize::ExitFailure(target) => {
            let mut host = connect(target)?;
            host.sanitize(plain(SanitizeAction::EXIT_FAILURE_MODE))?;
            show(&host.sanitize_status()?, output)
        }
        Sanitize::Status(target) => show(&connect(target)?.sanitize_status()?, output),
    }
}

fn start(command: admin::Sanitize, options: &StartSanitize, output: Output) -> Result<ExitCode> {
    if !options.force {
        bail!(
            "this erases everything on all namespaces of the drive, also those of other hosts; --force says that you want that"
        );
    }
    let mut host = connect(&options.target)?;
    let can = host.controller().sanicap;
    let possible = match command.sanact {
        SanitizeAction::BLOCK_ERASE => can.bes(),
        SanitizeAction::CRYPTO_ERASE => can.ces(),
        _ => can.ows(),
    };
    let none = !(can.bes() || can.ces() || can.ows());
    // A host that may not sanitize is offered nothing; the drive's own answer says why.
    if !possible && !none {
        let why = match command.sanact {
            SanitizeAction::CRYPTO_ERASE => " (a drive has keys with tranche serve --drive-key)",
            _ => "",
        };
        bail!("this drive has no {}{why}", command.sanact);
    }
    host.sanitize(admin::Sanitize { ause: options.unrestricted, ..command })?;
    let mut status = host.sanitize_status()?;
    let terminal = crate::progress::has_terminal() && !options.no_wait;
    while !options.no_wait && status.sstat.sos() == SanitizeOperationStatus::IN_PROGRESS {
        if terminal {
            tell_part!("\r{}: {} %  ", command.sanact, percent(&status));
            let _ = std::io::stderr().flush();
        }
        std::thread::sleep(PAUSE);
        status = host
            .sanitize_status()
            .context("the operation goes on, but the drive does not say how far it is")?;
    }
    if terminal {
        tell!("");
    }
    show(&status, output)
}

/// How much of an operation is done, in percent.
fn percent(status: &SanitizeStatus) -> u32 {
    u32::from(status.sprog.get()) * 100 / 0x1_0000
}

/// What the log tells; the exit code is 5 if the operation has failed.
fn show(status: &SanitizeStatus, output: Output) -> Result<ExitCode> {
    let operation = status.sstat.sos();
    match output {
        // nvme-cli's keys.
        Output::Json => print_json(&json!({
            "sprog": status.sprog.get(),
            "sstat": {
                "media_verification_canceled": u8::from(status.sstat.mvcncld()),
                "global_erased": u8::from(status.sstat.gde()),
                "no_cmplted_passes": status.sstat.opc(),
                "status": format!("({}) {operation}", operation.0),
            },
            "cdw10_info": status.scdw10.get(),
            "time_over_write": status.eto.get(),
            "time_block_erase": status.etbe.get(),
            "time_crypto_erase": status.etce.get(),
            "time_over_write_no_dealloc": status.etond.get(),
            "time_block_erase_no_dealloc": status.etbend.get(),
            "time_crypto_erase_no_dealloc": status.etcend.get(),
            "time_post_verification_dealloc": status.etpvds.get(),
            "sanitize_state_information": {
                "sanitize_state": format!("({}) {}", status.ssi.sans().0, status.ssi.sans()),
            },
        }))?,
        Output::Text => print_text(&words(status))?,
    }
    Ok(match operation {
        SanitizeOperationStatus::FAILED => exit::failed_check(&words(status), output),
        _ => ExitCode::SUCCESS,
    })
}

fn words(status: &SanitizeStatus) -> String {
    let action = SanitizeAction((status.scdw10.get() & 7) as u8);
    let erased = if status.sstat.gde() {
        "nothing was written since"
    } else {
        "data was written since, or the drive was not sanitized"
    };
    match status.sstat.sos() {
        SanitizeOperationStatus::NEVER => "the drive was never sanitized".to_owned(),
        SanitizeOperationStatus::IN_PROGRESS => {
            format!("{action} is in progress: {} % done", percent(status))
        }
        SanitizeOperationStatus::FAILED => format!("{action} has failed: start a sanitize operation again"),
        SanitizeOperationStatus::COMPLETED if action == SanitizeAction::OVERWRITE => {
            format!("{action} has completed {} passes; {erased}", status.sstat.opc())
        }
        ended => format!("{action}: {ended}; {erased}"),
    }
}
