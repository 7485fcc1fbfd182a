//! Processes that a study starts, watches and ends.

use std::{
    fs::{self, File},
    io::{Read, Seek, SeekFrom},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::{
    descendants::kill_all,
    scratch::{self, Role, Scratch},
};
use lab_report::control::{Cancel, Interrupted};

/// A process that ends, at the latest, when this value is dropped.
#[derive(Debug)]
pub struct Process {
    /// For messages.
    name: String,
    child: Child,
    /// Where it writes its messages.
    log: PathBuf,
    /// Its note in the scratch directory.
    note: PathBuf,
    /// What ends waiting for it.
    cancel: Cancel,
}

impl Process {
    /// Starts `command`, with its standard error (and standard output, unless `command` says otherwise) in `log`. The
    /// process gets a group of its own: a Ctrl-C on the terminal is for the study, which ends its processes in order.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(
        scratch: &Scratch,
        role: Role,
        name: &str,
        mut command: Command,
        log: &Path,
        stdout: Option<Stdio>,
    ) -> Result<Self> {
        let file = File::options().create(true).append(true).open(log);
        let file = file.with_context(|| format!("opening the log {}", log.display()))?;
        let stdout = match stdout {
            Some(stdout) => stdout,
            None => file.try_clone().context("duplicating a log's descriptor")?.into(),
        };
        command.stdin(Stdio::null()).stdout(stdout).stderr(file).process_group(0);
        let program = command.get_program().to_string_lossy().into_owned();
        let mut child = command.spawn().with_context(|| format!("starting {program} as {name}"))?;
        match scratch::note(&scratch.registry(), Pid::from_child(&child), role) {
            Ok(note) => {
                let cancel = scratch.cancel().clone();
                Ok(Self { name: name.to_owned(), child, log: log.to_owned(), note, cancel })
            }
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(error).context("noting a process in the scratch directory")
            }
        }
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// What ends waiting for it.
    pub fn cancel(&self) -> &Cancel {
        &self.cancel
    }

    /// The child, to take its pipes.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// How it ended, if it did.
    pub fn exited(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// An error saying that it ended when it should not have, with the end of its log.
    pub fn died(&self, status: ExitStatus) -> anyhow::Error {
        anyhow::anyhow!("{} ended with {status}; the end of its log:\n{}", self.name, tail(&self.log, 15))
    }

    /// # Errors
    /// When it has ended.
    pub fn check(&mut self) -> Result<()> {
        match self.exited() {
            Some(status) => Err(self.died(status)),
            None => Ok(()),
        }
    }

    /// Asks every 20 ms until `ready` says so.
    ///
    /// # Errors
    /// When the process ends, `patience` runs out, or the run is cancelled.
    pub fn wait_until(&mut self, patience: Duration, mut ready: impl FnMut() -> bool) -> Result<()> {
        let deadline = Instant::now() + patience;
        while !ready() {
            self.cancel.check()?;
            self.check()?;
            if Instant::now() > deadline {
                anyhow::bail!(
                    "{} was not ready after {} s; the end of its log:\n{}",
                    self.name,
                    patience.as_secs(),
                    tail(&self.log, 15)
                );
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Sends SIGTERM and waits for a clean end.
    ///
    /// # Errors
    /// When it ends with an error, or has to be killed after `patience`.
    pub fn stop(self, patience: Duration) -> Result<()> {
        self.stop_by(Signal::TERM, patience)
    }

    /// Sends the signal that it ends cleanly by, and waits for that.
    ///
    /// # Errors
    /// When it ends with an error, or has to be killed after `patience`.
    pub fn stop_by(mut self, signal: Signal, patience: Duration) -> Result<()> {
        if let Some(status) = self.exited() {
            return Err(self.died(status));
        }
        let _ = kill_process(Pid::from_child(&self.child), signal);
        let deadline = Instant::now() + patience;
        loop {
            match self.exited() {
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(self.died(status)),
                None if Instant::now() > deadline => anyhow::bail!(
                    "{} did not stop within {} s and was killed; the end of its log:\n{}",
                    self.name,
                    patience.as_secs(),
                    tail(&self.log, 15)
                ),
                None => thread::sleep(Duration::from_millis(10)),
            }
        }
    }

    /// Kills it at once (SIGKILL), as a crash would, with all that it has started.
    pub fn kill(self) {
        drop(self);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.exited().is_none() {
            kill_all(Pid::from_child(&self.child));
            let _ = self.child.wait();
        }
        let _ = fs::remove_file(&self.note);
    }
}

/// Characters of a line of a log that a message shows. MySQL dumps whole pages in one line.
const MAX_LINE_CHARACTERS: usize = 300;

/// The last lines of a log, shortened.
pub fn tail(path: &Path, lines: usize) -> String {
    let read = || -> std::io::Result<String> {
        let mut file = File::open(path)?;
        let size = file.metadata()?.len();
        file.seek(SeekFrom::Start(size.saturating_sub(16 << 10)))?;
        let mut bytes = Vec::new();
        file.take(16 << 10).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    match read() {
        Ok(text) => {
            let all: Vec<&str> = text.lines().collect();
            let last = &all[all.len().saturating_sub(lines)..];
            if last.is_empty() {
                format!("  (nothing in {})", path.display())
            } else {
                last.iter().map(|line| shortened(line)).collect::<String>().trim_end().to_owned()
            }
        }
        Err(error) => format!("  ({}: {error})", path.display()),
    }
}

fn shortened(line: &str) -> String {
    match line.char_indices().nth(MAX_LINE_CHARACTERS) {
        Some((end, _)) => format!("  {} …\n", &line[..end]),
        None => format!("  {line}\n"),
    }
}

/// Runs a tool to its end.
///
/// # Errors
/// When it is missing (named with the package to install) or fails (with what it said).
pub fn run(command: &mut Command, package: &str) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output =
        command.stdin(Stdio::null()).output().map_err(|error| unstarted(&program, package, &error))?;
    succeeded(&program, output.status, &output.stdout, &output.stderr)
}

/// Runs a tool that may take long. When the work is to end, the tool is killed, with all that it has started.
///
/// # Errors
/// As of [`run`]; the work is to end.
pub fn run_long(command: &mut Command, package: &str, cancel: &Cancel) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let ended = watch(command, cancel, |_, _| false);
    let (status, mut output, mut messages) = ended.map_err(|error| unstarted(&program, package, &error))?;
    cancel.check()?;
    let read = |file: &mut File| {
        let mut bytes = Vec::new();
        file.rewind().and_then(|()| file.read_to_end(&mut bytes)).map(|_| bytes)
    };
    let (output, messages) = (read(&mut output)?, read(&mut messages)?);
    succeeded(&program, status.context("the tool was not waited for")?, &output, &messages)
}

fn unstarted(program: &str, package: &str, error: &std::io::Error) -> anyhow::Error {
    match error.kind() {
        std::io::ErrorKind::NotFound => {
            anyhow::anyhow!("{program} is not installed; on Debian: apt-get install {package}")
        }
        _ => anyhow::anyhow!("running {program}: {error}"),
    }
}

/// What a tool printed, or why it failed.
fn succeeded(program: &str, status: ExitStatus, output: &[u8], messages: &[u8]) -> Result<String> {
    if !status.success() {
        let said = String::from_utf8_lossy(messages);
        let said = if said.trim().is_empty() { String::from_utf8_lossy(output) } else { said };
        anyhow::bail!("{program} failed with {status}: {}", said.trim());
    }
    Ok(String::from_utf8_lossy(output).into_owned())
}

/// Runs a program in a process group of its own until it ends, it is enough, or the work is to end. All that it has started ends with it. Its
/// status if it ended by itself, its output and its messages. `is_enough` sees these two files.
fn watch(
    command: &mut Command,
    cancel: &Cancel,
    is_enough: impl Fn(&File, &File) -> bool,
) -> std::io::Result<(Option<ExitStatus>, File, File)> {
    let (output, messages) = (tempfile::tempfile()?, tempfile::tempfile()?);
    command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(messages.try_clone()?).process_group(0);
    let mut child = command.spawn()?;
    let began = Instant::now();
    let ended = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Some(status),
            Ok(None) if !cancel.is_cancelled() && !is_enough(&output, &messages) => {
                // Long programs are not disturbed.
                let pause = if began.elapsed() < ATTENTIVE_TIME { 2 } else { 20 };
                thread::sleep(Duration::from_millis(pause));
            }
            _ => break None,
        }
    };
    let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
    let _ = child.wait();
    Ok((ended, output, messages))
}

/// What a program said.
#[derive(Debug)]
pub struct Said {
    /// Whether it ended well.
    pub success: bool,
    /// Its output.
    pub output: String,
    /// Its messages.
    pub messages: String,
}

/// Time for which the end of a program is looked for often: short programs are not waited for.
const ATTENTIVE_TIME: Duration = Duration::from_millis(200);
/// A program that only answers does so within a fraction of a second.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);
/// Bytes of its answer at most.
const ANSWER_BYTES: u64 = 8 << 20;

/// Runs a program that answers and ends. Nothing comes of one that does not start, does not end, or says too much. With it end all that it
/// has started.
///
/// # Errors
/// The work is to end.
pub fn ask(command: &mut Command, cancel: &Cancel) -> Result<Option<Said>, Interrupted> {
    let deadline = Instant::now() + ANSWER_TIMEOUT;
    let is_long = |file: &File| file.metadata().is_ok_and(|about| about.len() > ANSWER_BYTES);
    let is_enough =
        |output: &File, messages: &File| Instant::now() >= deadline || is_long(output) || is_long(messages);
    // Messages are looked through for English words.
    let watched = watch(command.env("LC_ALL", "C"), cancel, is_enough);
    let Ok((ended, mut output, mut messages)) = watched else { return Ok(None) };
    cancel.check()?;
    let Some(status) = ended.filter(|_| !is_long(&output) && !is_long(&messages)) else { return Ok(None) };
    let text = |file: &mut File| {
        let mut bytes = Vec::new();
        file.rewind().and_then(|()| file.take(ANSWER_BYTES).read_to_end(&mut bytes)).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    };
    let (Some(output), Some(messages)) = (text(&mut output), text(&mut messages)) else { return Ok(None) };
    Ok(Some(Said { success: status.success(), output, messages }))
}

/// Why a program of this package cannot be run: it is not where [`run`] looks. `None` if it is.
pub fn missing(program: &str, package: &str) -> Option<String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|dir| dir.join(program).is_file());
    (!found).then(|| format!("no {program}: on Debian: apt-get install {package}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_says_is_told_and_one_that_does_not_end_is_ended_with_its_children() {
        let cancel = Cancel::default();
        let shell = |script: &str, cancel: &Cancel| ask(Command::new("sh").args(["-c", script]), cancel);
        let said = shell("echo list; echo message >&2; exit 3", &cancel).unwrap().unwrap();
        assert_eq!((&*said.output, &*said.messages, said.success), ("list\n", "message\n", false));
        assert!(ask(&mut Command::new("/nonexistent/server"), &cancel).unwrap().is_none());
        assert!(shell("yes", &cancel).unwrap().is_none(), "it says too much");
        // Its number is left behind, and its child is not.
        let said = shell("sleep 1000 & echo $!", &cancel).unwrap().unwrap();
        let child = PathBuf::from(format!("/proc/{}", said.output.trim()));
        let deadline = Instant::now() + Duration::from_secs(60);
        while fs::read_to_string(child.join("cmdline")).is_ok_and(|line| line.contains("sleep")) {
            assert!(Instant::now() < deadline, "{} lives", child.display());
            thread::sleep(Duration::from_millis(5));
        }
        cancel.cancel();
        assert!(shell("exec sleep 1000", &cancel).is_err());
        let long =
            |script: &str, cancel: &Cancel| run_long(Command::new("sh").args(["-c", script]), "dash", cancel);
        assert!(long("exec sleep 1000", &cancel).unwrap_err().is::<Interrupted>());
        let other = Cancel::default();
        assert_eq!(long("yes | head -c 9000000", &other).unwrap().len(), 9_000_000);
        assert!(long("echo why >&2; exit 3", &other).unwrap_err().to_string().ends_with("3: why"));
        let missing = run_long(&mut Command::new("/nonexistent/tool"), "some-package", &other).unwrap_err();
        assert!(missing.to_string().contains("apt-get install some-package"), "{missing}");
    }

    #[test]
    fn a_process_that_dies_is_reported_with_the_end_of_its_log() {
        let parent = tempfile::tempdir().unwrap();
        let scratch = Scratch::new(parent.path(), &Cancel::default()).unwrap();
        let log = scratch.path().join("log");
        let mut command = Command::new("sh");
        command.args(["-c", "echo some trouble >&2; exit 3"]);
        let mut process = Process::start(&scratch, Role::Client, "the tool", command, &log, None).unwrap();
        let error = process.wait_until(Duration::from_secs(60), || false).unwrap_err().to_string();
        assert!(error.contains("the tool ended") && error.contains("some trouble"), "{error}");
    }

    #[test]
    fn a_process_that_ignores_the_request_to_stop_is_killed() {
        let parent = tempfile::tempdir().unwrap();
        let scratch = Scratch::new(parent.path(), &Cancel::default()).unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "trap '' TERM; while :; do sleep 1; done"]);
        let log = scratch.path().join("log");
        let process = Process::start(&scratch, Role::Client, "the mule", command, &log, None).unwrap();
        let id = process.id();
        thread::sleep(Duration::from_millis(200));
        let error = process.stop(Duration::from_millis(300)).unwrap_err().to_string();
        assert!(error.contains("was killed"), "{error}");
        assert!(!Path::new(&format!("/proc/{id}")).exists());
    }

    #[test]
    fn long_lines_of_a_log_are_cut() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("log");
        fs::write(&log, format!("first\n{}\nlast\n", "ü".repeat(4 * MAX_LINE_CHARACTERS))).unwrap();
        assert_eq!(tail(&log, 2), format!("  {} …\n  last", "ü".repeat(MAX_LINE_CHARACTERS)));
    }

    #[test]
    fn a_missing_tool_names_its_package() {
        let error = run(&mut Command::new("/nonexistent/tool"), "some-package").unwrap_err().to_string();
        assert!(error.contains("apt-get install some-package"), "{error}");
    }
}
