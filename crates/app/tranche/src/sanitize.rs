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
use schemars::JsonSchema;
use serde::Serialize;
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

/// The keys of `nvme sanitize-log` (nvme-cli 2).
#[derive(Serialize, JsonSchema)]
pub struct SanitizeLog {
    /// CDW10 of the sanitize command.
    cdw10_info: u32,
    /// Sanitize State Information.
    sanitize_state_information: StateInformation,
    /// Sanitize Progress; 65535 when none is in progress.
    #[schemars(extend("unit" = "1/65536"))]
    sprog: u16,
    /// Sanitize Status.
    sstat: LoggedStatus,
    /// Of a block erase; 4294967295 not reported.
    #[schemars(extend("unit" = "s"))]
    time_block_erase: u32,
    /// Of a block erase without deallocation; 4294967295 not reported.
    #[schemars(extend("unit" = "s"))]
    time_block_erase_no_dealloc: u32,
    /// Of a crypto erase; 4294967295 not reported.
    #[schemars(extend("unit" = "s"))]
    time_crypto_erase: u32,
    /// Of a crypto erase without deallocation; 4294967295 not reported.
    #[schemars(extend("unit" = "s"))]
    time_crypto_erase_no_dealloc: u32,
    /// Estimated time of an overwrite; 4294967295 not reported.
    #[schemars(extend("unit" = "s"))]
    time_over_write: u32,
    /// Of an overwrite without deallocation; 4294967295 not reported.
    #[schemars(extend("unit" = "s"))]
    time_over_write_no_dealloc: u32,
    /// Of deallocation after media verification; 4294967295 not reported.
    #[schemars(extend("unit" = "s"))]
    time_post_verification_dealloc: u32,
}

/// Sanitize Status.
#[derive(Serialize, JsonSchema)]
struct LoggedStatus {
    /// 1 if nothing was written since.
    #[schemars(range(max = 1))]
    global_erased: u8,
    /// 1 if media verification was canceled.
    #[schemars(range(max = 1))]
    media_verification_canceled: u8,
    /// Completed overwrite passes.
    no_cmplted_passes: u8,
    /// Number and words of the state.
    status: String,
}

/// Sanitize State Information.
#[derive(Serialize, JsonSchema)]
struct StateInformation {
    /// Number and words of the state.
    sanitize_state: String,
}

impl From<&SanitizeStatus> for SanitizeLog {
    fn from(log: &SanitizeStatus) -> Self {
        let (operation, state) = (log.sstat.sos(), log.ssi.sans());
        Self {
            cdw10_info: log.scdw10.get(),
            sanitize_state_information: StateInformation { sanitize_state: format!("({}) {state}", state.0) },
            sprog: log.sprog.get(),
            sstat: LoggedStatus {
                global_erased: u8::from(log.sstat.gde()),
                media_verification_canceled: u8::from(log.sstat.mvcncld()),
                no_cmplted_passes: log.sstat.opc(),
                status: format!("({}) {operation}", operation.0),
            },
            time_block_erase: log.etbe.get(),
            time_block_erase_no_dealloc: log.etbend.get(),
            time_crypto_erase: log.etce.get(),
            time_crypto_erase_no_dealloc: log.etcend.get(),
            time_over_write: log.eto.get(),
            time_over_write_no_dealloc: log.etond.get(),
            time_post_verification_dealloc: log.etpvds.get(),
        }
    }
}

/// How much of an operation is done, in percent.
fn percent(status: &SanitizeStatus) -> u32 {
    u32::from(status.sprog.get()) * 100 / 0x1_0000
}

/// What the log tells; the exit code is 5 if the operation has failed.
fn show(status: &SanitizeStatus, output: Output) -> Result<ExitCode> {
    let operation = status.sstat.sos();
    match output {
        Output::Json => print_json(&SanitizeLog::from(status))?,
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
