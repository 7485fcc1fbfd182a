//! Installed servers: what they make of a configuration is the truth, and what is read of its files is second to it.
//!
//! A server is started for a list of its settings only. It opens no data, no socket, and no library that a configuration names.

use std::{
    io::{Read, Seek},
    os::unix::process::CommandExt,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use crate::control::{Cancel, Interrupted};

/// A server lists its settings within a fraction of a second.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a server said.
#[derive(Debug)]
pub struct Said {
    /// Whether it ended well.
    pub success: bool,
    /// Its list.
    pub list: String,
    /// Its messages.
    pub messages: String,
}

/// Runs a server that lists settings and ends. Nothing comes of one that does not start, or does not end.
///
/// # Errors
/// The work is to end.
pub fn run(command: &mut Command, cancel: &Cancel) -> Result<Option<Said>, Interrupted> {
    let (Ok(mut list), Ok(mut messages)) = (tempfile::tempfile(), tempfile::tempfile()) else {
        return Ok(None);
    };
    let (Ok(stdout), Ok(stderr)) = (list.try_clone(), messages.try_clone()) else { return Ok(None) };
    // Messages are looked through for English words.
    command.stdin(Stdio::null()).stdout(stdout).stderr(stderr).process_group(0).env("LC_ALL", "C");
    let Ok(mut child) = command.spawn() else { return Ok(None) };
    let deadline = Instant::now() + PATIENCE;
    let ended = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Some(status),
            Ok(None) if !cancel.is_cancelled() && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(2));
            }
            _ => break None,
        }
    };
    let Some(status) = ended else {
        let _ = child.kill();
        let _ = child.wait();
        cancel.check()?;
        return Ok(None);
    };
    let text = |file: &mut std::fs::File| {
        let mut bytes = Vec::new();
        file.rewind().and_then(|()| file.read_to_end(&mut bytes)).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    };
    let (Some(list), Some(messages)) = (text(&mut list), text(&mut messages)) else { return Ok(None) };
    Ok(Some(Said { success: status.success(), list, messages }))
}

/// What the report says where nobody was asked.
pub fn alone(why: &str) -> String {
    format!("the files alone: {why}")
}

/// What it says of a server that was asked.
pub fn by(title: &str) -> String {
    format!("{title} of this machine")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, cancel: &Cancel) -> Result<Option<Said>, Interrupted> {
        run(Command::new("sh").args(["-c", script]), cancel)
    }

    #[test]
    fn what_a_program_says_is_told_and_one_that_does_not_end_is_ended() {
        let cancel = Cancel::default();
        let said = shell("echo list; echo message >&2; exit 3", &cancel).unwrap().unwrap();
        assert_eq!((&*said.list, &*said.messages, said.success), ("list\n", "message\n", false));
        assert!(run(&mut Command::new("/nonexistent/server"), &cancel).unwrap().is_none());
        cancel.cancel();
        assert!(shell("exec sleep 1000", &cancel).is_err());
    }
}
