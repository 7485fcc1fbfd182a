//! How the program ends: its exit code, and what it says of an error (`docs/commands.md` has the list).

use crate::options::Output;
use crate::refusal;
use crate::tell::tell;
use host::TransportError;
use serde_json::json;
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
            let status = status.map(|status| {
                json!({ "sct": status.sct().0, "sc": status.sc(), "dnr": status.dnr(), "text": status.to_string() })
            });
            say(kind, code, &words, hint, status);
        }
    }
    ExitCode::from(code)
}

/// The exit code of a check that has failed. People have read it in the results; in JSON it is an error, too.
pub fn failed_check(words: &str, output: Output) -> ExitCode {
    if output == Output::Json {
        say("check", CHECK, words, None, None);
    }
    ExitCode::from(CHECK)
}

/// Says in JSON that the command line makes no sense.
pub fn usage(message: &str) -> ExitCode {
    say("usage", USAGE, message.trim_end(), None, None);
    ExitCode::from(USAGE)
}

fn say(kind: &str, code: u8, message: &str, hint: Option<&str>, status: Option<serde_json::Value>) {
    let mut error = json!({ "kind": kind, "exit_code": code, "message": message });
    if let Some(hint) = hint {
        error["hint"] = hint.into();
    }
    if let Some(status) = status {
        error["status"] = status;
    }
    tell!("{}", json!({ "error": error }));
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
    use nvme::Status;
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
