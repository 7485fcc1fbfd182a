//! How users reach a tier that runs: a Unix socket that only its owner can open.
//!
//! A connection carries lines. Each line is a JSON object: a [`Request`] one way, an [`Answer`] the other way.

use crate::error::Error;
use crate::live::{LiveTier, Report};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::Permissions;
use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tier::Control;

/// The longest line that is read: requests are short.
const LINE: u64 = 4096;
/// Connections that wait to be accepted.
const BACKLOG: i32 = 8;

/// What a user wants of a tier.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "lowercase", deny_unknown_fields)]
pub enum Request {
    /// How it is.
    Status,
    /// Another mode.
    Mode {
        /// writeback, writethrough or passthrough.
        mode: String,
    },
    /// Another policy.
    Policy {
        /// mq, smq, smq-4.11 or cleaner.
        policy: String,
    },
    /// A tunable.
    Set {
        /// Its name in dm-cache.
        key: String,
        /// A number.
        value: String,
    },
    /// Write everything dirty back.
    Flush,
    /// Take chunks out of the cache, which must be in passthrough mode.
    Invalidate {
        /// The first place in the cache: 0 if none is given.
        begin: Option<u32>,
        /// One past the last: the end of the cache if none is given.
        end: Option<u32>,
    },
}

/// What the tier answers.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    /// How it is, after what was asked for is done.
    Status(Box<Status>),
    /// Why it is not done.
    Error(String),
}

/// A tier that runs, after what was asked for is done. dm-cache's documentation has the same fields.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema, Deserialize)]
pub struct Status {
    /// Name of the tier.
    pub name: String,
    /// Always true.
    pub running: bool,
    /// The status line of dm-cache.
    pub line: String,
    /// What a write does: `writeback`, `writethrough` or `passthrough`.
    pub mode: String,
    /// Which chunks are cached: `smq`, `mq`, `smq-4.11` or `cleaner`.
    pub policy: String,
    /// Size of a chunk.
    #[schemars(extend("unit" = "bytes"))]
    pub chunk: u64,
    /// Size of the origin, which is that of the tier.
    #[schemars(extend("unit" = "bytes"))]
    pub bytes: u64,
    /// Chunks in the cache.
    pub cached: u32,
    /// Places for chunks in the cache.
    pub chunks: u32,
    /// Chunks whose contents in the cache are newer than on the origin.
    pub dirty: u32,
    /// Reads that the cache answered.
    pub read_hits: u64,
    /// Reads that the origin answered.
    pub read_misses: u64,
    /// Writes that went to the cache.
    pub write_hits: u64,
    /// Writes that went to the origin alone.
    pub write_misses: u64,
    /// Chunks that left the cache since the tier was opened.
    pub demotions: u64,
    /// Chunks that came to the cache since the tier was opened.
    pub promotions: u64,
    /// Chunks that were written back since the tier was opened.
    pub writebacks: u64,
    /// Those in use.
    pub metadata_used: u64,
    /// Blocks of metadata, 4 KiB each.
    pub metadata_blocks: u64,
    /// Tunables by dm-cache's names.
    pub tunables: BTreeMap<String, u64>,
    /// Metadata cannot be written.
    pub read_only: bool,
    /// An operation of metadata failed: the next opening needs --repair.
    pub needs_check: bool,
    /// Devices that are of no more use, with their errors.
    pub failures: Vec<String>,
}

impl Status {
    /// Of a tier that runs.
    pub fn of(tier: &LiveTier) -> Self {
        let Report { status, counters, health: _, troubles } = tier.report();
        let geometry = tier.geometry();
        let mut tunables = BTreeMap::from([("migration_threshold".to_owned(), status.migration_threshold)]);
        tunables.extend(status.policy_arguments.iter().map(|(name, value)| ((*name).to_owned(), *value)));
        Status {
            name: tier.name().to_owned(),
            running: true,
            line: status.to_string(),
            mode: status.mode.to_string(),
            policy: status.policy.to_string(),
            chunk: status.cache_block * tier::SECTOR,
            bytes: geometry.blocks * u64::from(geometry.block_size),
            cached: status.cache_blocks.0,
            chunks: status.cache_blocks.1,
            dirty: status.dirty,
            read_hits: counters.read_hits,
            read_misses: counters.read_misses,
            write_hits: counters.write_hits,
            write_misses: counters.write_misses,
            demotions: counters.demotions,
            promotions: counters.promotions,
            writebacks: counters.writebacks,
            metadata_used: status.metadata_blocks.0,
            metadata_blocks: status.metadata_blocks.1,
            tunables,
            read_only: status.read_only,
            needs_check: status.needs_check,
            failures: troubles,
        }
    }
}

/// Does what is asked for.
fn answer(tier: &LiveTier, request: &Request) -> Answer {
    let done = match request {
        Request::Status => Ok(()),
        Request::Mode { mode } => match mode.parse() {
            Ok(mode) => tier.change(Control::Mode(mode)).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        },
        Request::Policy { policy } => match policy.parse() {
            Ok(policy) => tier.change(Control::Policy(policy)).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        },
        Request::Set { key, value } => tier.set(key, value).map_err(|error| error.to_string()),
        Request::Flush => tier.change(Control::WriteBack).map_err(|error| error.to_string()),
        Request::Invalidate { begin, end } => {
            let begin = begin.unwrap_or(0);
            let end = end.unwrap_or_else(|| tier.report().status.cache_blocks.1);
            tier.change(Control::Invalidate { begin, end }).map_err(|error| error.to_string())
        }
    };
    match done {
        Ok(()) => Answer::Status(Box::new(Status::of(tier))),
        Err(error) => Answer::Error(error),
    }
}

/// The socket of a tier. Dropping it removes the socket's file.
pub struct Server {
    path: PathBuf,
    over: Arc<AtomicBool>,
}

impl Server {
    /// Takes requests for a tier at this path, whose directory is made if need be. A socket that a dead process left is replaced.
    ///
    /// # Errors
    /// Another tier has its socket there, or none can be made.
    pub fn start(tier: &Arc<LiveTier>, path: &Path) -> Result<Self, Error> {
        let about = || format!("the control socket {}", path.display());
        let listener = listen(path).map_err(Error::system(about()))?;
        let (tier, over) = (Arc::downgrade(tier), Arc::new(AtomicBool::new(false)));
        let ends = over.clone();
        std::thread::Builder::new()
            .name("tranche-control".into())
            .spawn(move || {
                for connection in listener.incoming().flatten() {
                    let Some(tier) = tier.upgrade().filter(|_| !ends.load(Ordering::Relaxed)) else { return };
                    // One that waits for a change does not keep others from looking.
                    let serve = move || drop(serve(&tier, &connection));
                    let _ = std::thread::Builder::new().name("tranche-control".into()).spawn(serve);
                }
            })
            .map_err(Error::system(about()))?;
        Ok(Server { path: path.to_owned(), over })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        // Its thread looks when somebody connects.
        let _ = UnixStream::connect(&self.path);
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Listens at a path where nobody listens, so that only the owner can connect from the beginning.
fn listen(path: &Path) -> io::Result<UnixListener> {
    if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    }
    image::trust::check_directory_of(path)?;
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    match UnixStream::connect(path) {
        Ok(_) => {
            let words = "a cache tier that runs has its socket there: choose another name or --control";
            return Err(io::Error::new(ErrorKind::AddrInUse, words));
        }
        Err(error) if is_socket && error.kind() == ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path)?;
        }
        Err(_) => {}
    }
    let socket =
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    let private = std::fs::set_permissions(path, Permissions::from_mode(0o600));
    let listening = private.and_then(|()| Ok(rustix::net::listen(&socket, BACKLOG)?));
    if listening.is_err() {
        let _ = std::fs::remove_file(path);
    }
    listening.map(|()| socket.into())
}

/// Answers the lines of a connection until it ends.
fn serve(tier: &LiveTier, connection: &UnixStream) -> io::Result<()> {
    let mut lines = BufReader::new(connection);
    loop {
        let mut line = String::new();
        let read = io::Read::take(&mut lines, LINE).read_line(&mut line)?;
        if read == 0 {
            return Ok(());
        }
        let answer = match serde_json::from_str(&line) {
            Ok(request) => answer(tier, &request),
            Err(error) => Answer::Error(format!("not a request: {error}")),
        };
        let mut text = serde_json::to_string(&answer)?;
        text.push('\n');
        let mut out = connection;
        out.write_all(text.as_bytes())?;
    }
}

/// Asks the tier whose socket this is, and waits for its answer.
///
/// # Errors
/// Nothing listens there, or it does not answer as a tier does.
pub fn ask(path: &Path, request: &Request) -> io::Result<Answer> {
    let mut connection = UnixStream::connect(path)?;
    let mut line = serde_json::to_string(request)?;
    line.push('\n');
    connection.write_all(line.as_bytes())?;
    let mut answer = String::new();
    BufReader::new(connection).read_line(&mut answer)?;
    if answer.is_empty() {
        return Err(io::Error::new(ErrorKind::UnexpectedEof, "the tier ended before it answered"));
    }
    Ok(serde_json::from_str(&answer)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_lines_of_json() {
        for (request, line) in [
            (Request::Status, r#"{"request":"status"}"#),
            (Request::Mode { mode: "writethrough".into() }, r#"{"request":"mode","mode":"writethrough"}"#),
            (
                Request::Set { key: "migration_threshold".into(), value: "4096".into() },
                r#"{"request":"set","key":"migration_threshold","value":"4096"}"#,
            ),
            (Request::Flush, r#"{"request":"flush"}"#),
        ] {
            assert_eq!(serde_json::to_string(&request).unwrap(), line);
            assert_eq!(serde_json::from_str::<Request>(line).unwrap(), request);
        }
        for bad in ["", "{}", r#"{"request":"stop"}"#, r#"{"request":"mode"}"#] {
            assert!(serde_json::from_str::<Request>(bad).is_err(), "{bad}");
        }
    }
}
