//! A simulated drive that is switched off. It can be kept in a file, copied, and started any number of times.
//!
//! A checkpoint is what the drive's media hold after an orderly shutdown; to start from it is to power the drive on, as an image is
//! opened. There is no other way, so a run is the same whether its drive was made just now, copied in memory, or read from a file.
//!
//! A file is little endian. It holds, in this order:
//! - `TRANCHCP`, version (u32), time in nanoseconds (u64),
//! - SHA-256 of the drive's configuration and history ([`Checkpoint::save`]),
//! - length of the state (u64), the state as [`Drive::save`] writes it,
//! - CRC-64/NVME of everything before.

use crate::contents::Contents;
use crate::machine::{Machine, Sim};
use crc_fast::{CrcAlgorithm, Digest};
use device::{Config, ConfigError, Drive, LoadError, Output, Restorer};
use image::Store;
use image::machine::available_memory;
use image::trust::TrustedDir;
use media::Nanos;
use nvme::Status;
use openssl::sha::sha256;
use rustix::fs::OFlags;
use std::io::{self, BufReader, Read, Write};
use std::path::PathBuf;

const MAGIC: [u8; 8] = *b"TRANCHCP";

/// Version of the file; to be changed also when preconditioning comes out differently.
const VERSION: u32 = 4;

/// How long a drive that was shut down may go on by itself: longer than collecting takes what is to be collected.
const MAX_REST: Nanos = Nanos(600_000_000_000);

/// Bytes before the state.
const HEAD: usize = 8 + 4 + 8 + 32 + 8;

/// Bytes that are read at a time, so that a wrong length costs no memory.
const CHUNK: usize = 1 << 20;

/// Why there is no checkpoint, or no drive from it.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// It cannot be as configured.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A host is connected.
    #[error("a host is still connected to the drive")]
    InUse,
    /// Contents are not part of a checkpoint.
    #[error("a drive in virtual time that keeps contents cannot be kept as a checkpoint")]
    Contents,
    /// The file cannot be read or written.
    #[error("{what} {}: {source}", .path.display())]
    File {
        /// What was tried.
        what: &'static str,
        /// Where.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file is none, or not whole.
    #[error("checkpoint: {0}")]
    Malformed(&'static str),
    /// Of another version of the program.
    #[error("the checkpoint has version {0}, this program reads version {VERSION}")]
    Version(u32),
    /// Of another drive.
    #[error("the checkpoint is that of another drive, or of one with another past")]
    Other,
    /// Its state does not fit the drive.
    #[error(transparent)]
    State(#[from] LoadError),
    /// A command of the preconditioning failed.
    #[error("preconditioning failed: {0}")]
    Precondition(Status),
    /// The observer of its progress ended it.
    #[error("interrupted while the drive was preconditioned")]
    Interrupted,
}

/// A simulated drive without power.
#[derive(Clone)]
pub struct Checkpoint {
    state: Restorer,
    contents: Contents,
    time: Nanos,
}

impl Checkpoint {
    /// Shuts a drive down.
    ///
    /// # Errors
    /// A host is still connected, or the machine is in use; the drive keeps contents.
    pub fn of(sim: Sim) -> Result<Checkpoint, CheckpointError> {
        let (mut drive, mut store, mut time) = sim.into_parts().ok_or(CheckpointError::InUse)?;
        let contents = match (store.keeps(), store.is_dry()) {
            (true, _) => return Err(CheckpointError::Contents),
            (false, true) => Contents::Later,
            (false, false) => Contents::None,
        };
        let mut out = Vec::new();
        drive.power_on(time, &mut store);
        drive.shut_down(time, &mut store, &mut out);
        // Until it has come to rest, too: of a superblock that is half collected there are two copies of pages, and with versions recovery
        // may choose the other one than without.
        let mut end = None;
        loop {
            if end.is_none() && out.iter().any(|o| matches!(o, Output::ShutDown)) {
                end = Some(time + MAX_REST);
            }
            let Some(next) = drive.next_event().filter(|&next| end.is_none_or(|end| next <= end)) else {
                break;
            };
            time = time.max(next);
            drive.poll(time, &mut store, &mut out);
        }
        Ok(Checkpoint { state: drive.park(time), contents, time })
    }

    /// Powers the drive on, on a machine of its own. [`Machine::power_on`] puts it beside others.
    ///
    /// # Errors
    /// Its state, read from a file, contradicts itself.
    pub fn start(self) -> Result<Sim, CheckpointError> {
        Machine::new().power_on(self)
    }

    /// The drive and its store, powered on at a time that is not before its own.
    fn power_on(self, now: Nanos) -> Result<(Drive, Store), CheckpointError> {
        // It has none of what was written before.
        let before = if self.contents == Contents::Memory { Contents::Later } else { self.contents };
        let mut store = before.store(self.state.config());
        let drive = self.state.finish(now, &mut store)?;
        if self.contents == Contents::Memory {
            store = Contents::Memory.store(drive.config());
        }
        Ok((drive, store))
    }

    /// The drive's time when it was switched off.
    pub fn time(&self) -> Nanos {
        self.time
    }

    /// What the drive was built from.
    pub fn config(&self) -> &Config {
        self.state.config()
    }

    /// The same drive with other contents, which it has none of yet.
    pub(crate) fn with_contents(self, contents: Contents) -> Checkpoint {
        Checkpoint { contents, ..self }
    }

    /// Names a file for a drive of this configuration, contents and past.
    pub(crate) fn file_name(config: Config, contents: Contents, past: &str) -> String {
        let hash = identity(&contents.shape(config), past);
        let hash: String = hash[..12].iter().map(|b| format!("{b:02x}")).collect();
        format!("{hash}.checkpoint")
    }

    /// Writes it. `past` says in words what the drive went through; the configuration and it are checked by [`open`](Checkpoint::open).
    ///
    /// # Errors
    /// Those of `to`.
    pub fn save(&self, past: &str, to: &mut impl Write) -> io::Result<()> {
        let state = self.state.save();
        let mut head = Vec::with_capacity(HEAD);
        head.extend_from_slice(&MAGIC);
        head.extend_from_slice(&VERSION.to_le_bytes());
        head.extend_from_slice(&self.time.0.to_le_bytes());
        head.extend_from_slice(&identity(self.state.config(), past));
        head.extend_from_slice(&(state.len() as u64).to_le_bytes());
        let mut crc = Digest::new(CrcAlgorithm::Crc64Nvme);
        crc.update(&head);
        crc.update(&state);
        to.write_all(&head)?;
        to.write_all(&state)?;
        to.write_all(&crc.finalize().to_le_bytes())
    }

    /// Reads what [`save`](Checkpoint::save) wrote of a drive of this configuration, contents and past.
    ///
    /// # Errors
    /// It is none, is damaged, or is another drive's.
    pub fn open(
        config: Config,
        contents: Contents,
        past: &str,
        from: &mut impl Read,
    ) -> Result<Checkpoint, CheckpointError> {
        let config = contents.shape(config);
        let short = |_| CheckpointError::Malformed("it ends too early");
        let mut head = [0; HEAD];
        from.read_exact(&mut head).map_err(short)?;
        let mut crc = Digest::new(CrcAlgorithm::Crc64Nvme);
        crc.update(&head);
        let mut rest = &head[..];
        if take(&mut rest) != MAGIC {
            return Err(CheckpointError::Malformed("it does not begin with TRANCHCP"));
        }
        let version = u32::from_le_bytes(take(&mut rest));
        if version != VERSION {
            return Err(CheckpointError::Version(version));
        }
        let time = Nanos(u64::from_le_bytes(take(&mut rest)));
        if take(&mut rest) != identity(&config, past) {
            return Err(CheckpointError::Other);
        }
        let mut left = u64::from_le_bytes(take(&mut rest));
        if left > available_memory().unwrap_or(u64::MAX) {
            return Err(CheckpointError::Malformed("it promises more bytes than there is memory for"));
        }
        let mut state = Vec::new();
        while left > 0 {
            let (at, more) = (state.len(), left.min(CHUNK as u64) as usize);
            state.resize(at + more, 0);
            from.read_exact(&mut state[at..]).map_err(short)?;
            crc.update(&state[at..]);
            left -= more as u64;
        }
        let mut end = [0; 8];
        from.read_exact(&mut end).map_err(short)?;
        if u64::from_le_bytes(end) != crc.finalize() {
            return Err(CheckpointError::Malformed("its checksum is wrong: it is damaged"));
        }
        Ok(Checkpoint { state: Drive::restore(config, &state)?, contents, time })
    }

    /// [`save`](Checkpoint::save) to a file of a directory, which is there as a whole or not at all.
    ///
    /// # Errors
    /// The file system refuses it.
    pub fn keep(&self, past: &str, dir: &TrustedDir, name: &str) -> Result<(), CheckpointError> {
        // Two at a time do not disturb each other: each file is whole, and the last one stays.
        let stem = name.split('.').next().unwrap_or(name);
        let partial = format!("{stem}.{}.partial", std::process::id());
        let write = || {
            let mut to = dir.open_file(&partial, OFlags::WRONLY | OFlags::CREATE)?;
            to.set_len(0)?;
            self.save(past, &mut to)?;
            to.sync_data()
        };
        write().inspect_err(|_| drop(dir.remove(&partial))).map_err(failed("cannot write", dir, &partial))?;
        dir.rename(&partial, name).map_err(failed("cannot write", dir, name))
    }

    /// [`open`](Checkpoint::open) of a file of a directory; `None` if there is none.
    ///
    /// # Errors
    /// As for [`open`](Checkpoint::open).
    pub fn kept(
        config: Config,
        contents: Contents,
        past: &str,
        dir: &TrustedDir,
        name: &str,
    ) -> Result<Option<Checkpoint>, CheckpointError> {
        match dir.open_file(name, OFlags::RDONLY) {
            Ok(file) => Checkpoint::open(config, contents, past, &mut BufReader::new(file)).map(Some),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(failed("cannot read", dir, name)(source)),
        }
    }
}

fn failed(
    what: &'static str,
    dir: &TrustedDir,
    name: &str,
) -> impl FnOnce(io::Error) -> CheckpointError + use<> {
    let path = dir.path().join(name);
    move |source| CheckpointError::File { what, path, source }
}

impl Machine {
    /// Powers a drive on that was kept as a checkpoint. The clock is not before the drive's own time afterwards: the drives that are there
    /// already run until then.
    ///
    /// # Errors
    /// Its state, read from a file, contradicts itself.
    pub fn power_on(&self, checkpoint: Checkpoint) -> Result<Sim, CheckpointError> {
        self.run_until(checkpoint.time());
        let (drive, store) = checkpoint.power_on(self.now())?;
        Ok(self.insert(drive, store))
    }
}

fn take<const N: usize>(from: &mut &[u8]) -> [u8; N] {
    let mut taken = [0; N];
    if let Some((head, rest)) = from.split_at_checked(N) {
        taken.copy_from_slice(head);
        *from = rest;
    }
    taken
}

/// Tells drives and their pasts from each other.
fn identity(config: &Config, past: &str) -> [u8; 32] {
    sha256(format!("{config:?}\n{past}").as_bytes())
}
