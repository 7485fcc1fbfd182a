//! How the program ends: its exit code, and what it says of an error (`docs/commands.md` has the list).

use crate::options::Output;
use crate::refusal;
use crate::tell::tell;
use host::TransportError;
use nvme::Status;
use schemars::JsonSchema;
use serde::Serialize;
use std::process::ExitCode;

/// The command has failed for a reason that no other code tells.
const FAILED: u8 = 1;
/// The command line makes no sense.
pub const USAGE: u8 = 2;
/// No drive can be reached, or none that lets this host in.
const NO_DRIVE: u8 = 3;
/// The drive answered a command with an error, or lacks what was named.
const NVME: u8 = 4;
/// What was checked is not as it should be; the results say what.
const CHECK: u8 = 5;

/// A check that failed: a study whose layout lost data, a drive that misses its data sheet.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct FailedCheck(pub String);

/// The last line of standard error of a command with `--output json` that fails.
#[derive(Serialize, JsonSchema)]
pub struct Failed<'a> {
    /// The error.
    error: Failure<'a>,
}

/// The error.
#[derive(Serialize, JsonSchema)]
struct Failure<'a> {
    /// The exit code.
    #[schemars(range(min = 1, max = 5))]
    exit_code: u8,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("absent" = "the program knows no way"))]
    hint: Option<&'a str>,
    /// Kind of error.
    #[schemars(extend("enum" = ["failed", "usage", "no_drive", "nvme", "check"]))]
    kind: &'a str,
    /// What went wrong.
    #[schemars(length(min = 1))]
    message: &'a str,
    /// The drive's answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("absent" = "no drive answered with an error"))]
    status: Option<DriveStatus>,
}

/// A status of NVMe.
#[derive(Serialize, JsonSchema)]
struct DriveStatus {
    /// Do Not Retry.
    dnr: bool,
    /// Status Code.
    sc: u8,
    /// Status Code Type.
    sct: u8,
    /// In words.
    text: String,
}

impl From<Status> for DriveStatus {
    fn from(status: Status) -> Self {
        Self { dnr: status.dnr(), sc: status.sc(), sct: status.sct().0, text: status.to_string() }
    }
}

/// What kind of error it is, in a word and as an exit code.
fn kind(error: &anyhow::Error) -> (&'static str, u8) {
    if error.downcast_ref::<lab_report::Misuse>().is_some() {
        return ("usage", USAGE);
    }
    for cause in error.chain() {
        if cause.is::<FailedCheck>() {
            return ("check", CHECK);
        }
        match cause.downcast_ref::<host::Error>() {
            Some(host::Error::Command { .. } | host::Error::Absent(_)) => return ("nvme", NVME),
            Some(host::Error::Usage(_)) => return ("usage", USAGE),
            Some(host::Error::Answer { .. }) => return ("failed", FAILED),
            Some(_) => return ("no_drive", NO_DRIVE),
            None if cause.is::<TransportError>() => return ("no_drive", NO_DRIVE),
            None => {}
        }
    }
    ("failed", FAILED)
}

/// Says on standard error what went wrong, in the form of the results, and gives the exit code.
pub fn error(error: &anyhow::Error, output: Output) -> ExitCode {
    let (kind, code) = kind(error);
    let words = words(error);
    let hint = refusal::hint(error, &words);
    match output {
        Output::Text => {
            tell!("tranche: {words}");
            if let Some(hint) = hint {
                tell!("tranche: {hint}");
            }
        }
        Output::Json => {
            let status = error.chain().find_map(|cause| cause.downcast_ref::<host::Error>()?.status());
            say(Failure {
                exit_code: code,
                hint,
                kind,
                message: &words,
                status: status.map(DriveStatus::from),
            });
        }
    }
    ExitCode::from(code)
}

/// The exit code of a check that has failed. People have read it in the results; in JSON it is an error, too.
pub fn failed_check(words: &str, output: Output) -> ExitCode {
    if output == Output::Json {
        say(Failure { exit_code: CHECK, hint: None, kind: "check", message: words, status: None });
    }
    ExitCode::from(CHECK)
}

/// Says in JSON that the command line makes no sense.
pub fn usage(message: &str) -> ExitCode {
    let message = message.trim_end();
    say(Failure { exit_code: USAGE, hint: None, kind: "usage", message, status: None });
    ExitCode::from(USAGE)
}

fn say(error: Failure<'_>) {
    let line = serde_json::to_string(&Failed { error });
    tell!("{}", line.unwrap_or_else(|error| error.to_string()));
}

/// An error and its causes; a cause that the error before it has told already is not told again.
fn words(error: &anyhow::Error) -> String {
    let mut words = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if words.is_empty() {
            words = cause;
        } else if !words.ends_with(&cause) {
            words = format!("{words}: {cause}");
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::{Context, anyhow};
    use store::device::DeviceError;

    /// A store that stopped because of an error of its drive.
    fn below_a_store(error: host::Error) -> anyhow::Error {
        let device = DeviceError::Failed(store::Reason::new(error));
        store::Error::Stopped(store::Reason::new(store::Error::from(device))).into()
    }

    #[test]
    fn kinds_are_told_apart_below_any_context() {
        let command = host::Error::Command { what: "Delete".into(), status: Status::INVALID_FIELD };
        let all = [
            (anyhow!("no such file"), FAILED),
            (anyhow::Error::from(host::Error::Usage("two".into())), USAGE),
            (anyhow::Error::from(host::Error::Transport(TransportError::Closed)), NO_DRIVE),
            (anyhow::Error::from(command), NVME),
            (anyhow::Error::from(host::Error::Absent("9".into())), NVME),
            (
                anyhow::Error::from(host::Error::Connect { what: "a".into(), why: "b".into(), status: None }),
                NO_DRIVE,
            ),
            (anyhow::Error::from(host::Error::Answer { what: "a".into(), problem: "b".into() }), FAILED),
            (anyhow::Error::from(lab_report::Misuse("no profile".into())), USAGE),
            (anyhow!("no such value").context(lab_report::Misuse("--set a=1".into())), USAGE),
            (below_a_store(host::Error::Transport(TransportError::Closed)), NO_DRIVE),
            (below_a_store(host::Error::Command { what: "a".into(), status: Status::ACCESS_DENIED }), NVME),
            (anyhow::Error::from(store::Error::NoStore), FAILED),
            (anyhow::Error::from(FailedCheck("off by 12 %".into())), CHECK),
        ];
        for (error, code) in all {
            assert_eq!(kind(&error).1, code, "{error}");
            assert_eq!(kind(&Err::<(), _>(error).context("more").unwrap_err()).1, code);
        }
    }
}
