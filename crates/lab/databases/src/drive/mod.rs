//! The drive under study: `tranche serve` as a child process, spoken to as an NVMe host.

mod plain;
mod served;
mod start;

use std::{
    env,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};

pub(crate) use self::start::DRIVE_TIMEOUT;
use self::{served::Served, start::media};
pub use self::{
    served::{Cut, HOST_NQN, create_namespace, create_zoned_namespace},
    start::Start,
};
use crate::{
    layout::{Layout, Namespace},
    process::Process,
    scratch::Scratch,
};
use lab_report::{counters::Counters, profile};

/// The program that serves drives.
#[derive(Clone, Debug)]
pub struct Program(ProgramKind);

#[derive(Clone, Debug)]
enum ProgramKind {
    Tranche(PathBuf),
    /// No drive: plain files behind loop devices.
    Plain,
}

impl Program {
    /// The program that the environment variable `TRANCHE` names.
    ///
    /// # Errors
    /// When it is not set.
    pub fn find() -> Result<Self> {
        let path = env::var_os("TRANCHE").context("the environment variable TRANCHE names no program")?;
        Ok(Self::at(Path::new(&path)))
    }

    /// Like [`find`](Program::find); without the variable it is this process's own program, which must be tranche.
    ///
    /// # Errors
    /// When this process does not know its own program.
    pub fn find_or_this() -> Result<Self> {
        Self::find()
            .or_else(|_| Ok(Self::at(&env::current_exe().context("finding this program's own path")?)))
    }

    /// The program at this path.
    pub fn at(path: &Path) -> Self {
        Self(ProgramKind::Tranche(path.to_owned()))
    }

    /// Plain files behind loop devices instead of a drive, with nothing counted: to test what is above a drive.
    pub fn plain() -> Self {
        Self(ProgramKind::Plain)
    }

    /// The TOML of a layout's drive; of plain files, the layout's changes alone.
    ///
    /// # Errors
    /// Those of [`Layout::drive_toml`].
    pub fn drive_toml(&self, layout: &Layout) -> Result<toml::Table> {
        match &self.0 {
            ProgramKind::Plain => Ok(layout.overrides.clone()),
            ProgramKind::Tranche(_) => layout.drive_toml(),
        }
    }

    /// Starts a drive and waits until it accepts connections.
    ///
    /// # Errors
    /// When it refuses its TOML or image, or cannot export, with what it said.
    pub fn serve(&self, scratch: &Scratch, start: &Start<'_>) -> Result<Drive> {
        match &self.0 {
            ProgramKind::Plain => Ok(Drive { inner: Inner::Plain(plain::Plain::open(start.image)?) }),
            ProgramKind::Tranche(path) => {
                Ok(Drive { inner: Inner::Served(Box::new(Served::start(path, scratch, start)?)) })
            }
        }
    }
}

/// A running drive. Dropped, it is stopped.
#[derive(Debug)]
pub struct Drive {
    inner: Inner,
}

#[derive(Debug)]
enum Inner {
    Served(Box<Served>),
    Plain(plain::Plain),
}

impl Drive {
    /// Creates a namespace and attaches it; returns its identifier.
    ///
    /// # Errors
    /// When the drive refuses, for instance for want of capacity.
    pub fn create(&mut self, namespace: &Namespace) -> Result<u32> {
        match &mut self.inner {
            Inner::Served(served) => served.create(namespace),
            Inner::Plain(plain) => plain.create(namespace),
        }
    }

    /// Deletes every namespace.
    ///
    /// # Errors
    /// When the drive refuses.
    pub fn delete_all(&mut self) -> Result<()> {
        match &mut self.inner {
            Inner::Served(served) => served.delete_all(),
            Inner::Plain(_) => Ok(()),
        }
    }

    /// Cuts the drive's power, as soon as the drive has accepted that.
    ///
    /// # Errors
    /// When the drive refuses.
    pub fn cut_power(&mut self, cut: &Cut) -> Result<()> {
        match &mut self.inner {
            Inner::Served(served) => served.cut_power(cut),
            Inner::Plain(_) => bail!("plain files have no power to cut"),
        }
    }

    /// How often the drive was powered on; 0 for plain files.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn power_cycles(&mut self) -> Result<u128> {
        match &mut self.inner {
            Inner::Served(served) => served.power_cycles(),
            Inner::Plain(_) => Ok(0),
        }
    }

    /// Whether the drive has power.
    ///
    /// # Errors
    /// When it has died.
    pub fn powered(&mut self) -> Result<bool> {
        match &mut self.inner {
            Inner::Served(served) => served.powered(),
            Inner::Plain(_) => Ok(true),
        }
    }

    /// Waits until the drive answers again after a power cut.
    ///
    /// # Errors
    /// When it does not.
    pub fn wait_for_power(&mut self) -> Result<()> {
        match &mut self.inner {
            Inner::Served(served) => served.reconnect(),
            Inner::Plain(_) => Ok(()),
        }
    }

    /// The block device of an attached namespace; waits until it has appeared.
    ///
    /// # Errors
    /// When it does not appear.
    pub fn device(&mut self, nsid: u32) -> Result<PathBuf> {
        match &mut self.inner {
            Inner::Served(served) => served.device(nsid),
            Inner::Plain(plain) => plain.device(nsid),
        }
    }

    /// The block device of a cache tier that is served with the drive; waits until it has appeared.
    ///
    /// # Errors
    /// When it does not appear. Plain files have no tiers.
    pub fn tier_device(&mut self, name: &str) -> Result<PathBuf> {
        match &mut self.inner {
            Inner::Served(served) => served.tier_device(name),
            Inner::Plain(_) => bail!("plain files have no cache tiers"),
        }
    }

    /// How a cache tier is: the JSON of `tranche cache status`.
    ///
    /// # Errors
    /// When it does not answer. Plain files have no tiers.
    pub fn tier_status(&self, name: &str) -> Result<serde_json::Value> {
        match &self.inner {
            Inner::Served(served) => served.tier_status(name),
            Inner::Plain(_) => bail!("plain files have no cache tiers"),
        }
    }

    /// The directory of a zoned namespace, with a file for each zone.
    ///
    /// # Errors
    /// Plain files have no zones.
    pub fn zones(&self, nsid: u32) -> Result<PathBuf> {
        Ok(self.served()?.exported(nsid))
    }

    /// Makes a store on a zoned namespace, with further arguments of `tranche store format`.
    ///
    /// # Errors
    /// When that fails.
    pub fn format_store(&self, nsid: u32, arguments: &[String]) -> Result<()> {
        self.served()?.format_store(nsid, arguments)
    }

    /// Mounts the store of a zoned namespace. The process serves it until it is stopped. `options` are those of `tranche store mount`, as
    /// `name=value`.
    ///
    /// # Errors
    /// When that fails, with what it said.
    pub fn mount_store(
        &self,
        scratch: &Scratch,
        nsid: u32,
        at: &Path,
        options: &[String],
        log: &Path,
    ) -> Result<Process> {
        self.served()?.mount_store(scratch, nsid, at, options, log)
    }

    fn served(&self) -> Result<&Served> {
        match &self.inner {
            Inner::Served(served) => Ok(served),
            Inner::Plain(_) => bail!("plain files have no zones"),
        }
    }

    /// The medium of each NVM Set: `"nand"`, `"dram"`, `"pmem"`, …
    pub fn media(&self) -> Vec<String> {
        match &self.inner {
            Inner::Served(served) => served.media.clone(),
            Inner::Plain(_) => Vec::new(),
        }
    }

    /// A namespace's counters now (log D8h).
    ///
    /// # Errors
    /// When the drive does not answer.
    pub fn counters(&mut self, nsid: u32) -> Result<Counters> {
        match &mut self.inner {
            Inner::Served(served) => served.counters(nsid),
            Inner::Plain(_) => Ok(Counters::default()),
        }
    }

    /// Bytes that may be written to the medium of an NVM Set before its rated cycles are used up; 0 when not known.
    ///
    /// # Errors
    /// When the drive does not answer.
    pub fn endurance(&mut self, set: u16) -> Result<u128> {
        match &mut self.inner {
            Inner::Served(served) => served.endurance(set),
            Inner::Plain(_) => Ok(0),
        }
    }

    /// The process that is the drive, to measure its use of the processor.
    pub fn id(&self) -> Option<u32> {
        match &self.inner {
            Inner::Served(served) => Some(served.process.id()),
            Inner::Plain(_) => None,
        }
    }

    /// Its Unix socket.
    pub fn unix(&self) -> Option<&Path> {
        match &self.inner {
            Inner::Served(served) => Some(&served.unix),
            Inner::Plain(_) => None,
        }
    }

    /// # Errors
    /// When it has died, with the end of its log.
    pub fn check(&mut self) -> Result<()> {
        match &mut self.inner {
            Inner::Served(served) => served.process.check(),
            Inner::Plain(_) => Ok(()),
        }
    }

    /// Stops it cleanly: it writes its state to the image, detaches its loop devices and unmounts its files.
    ///
    /// # Errors
    /// When it does not end well.
    pub fn stop(self) -> Result<()> {
        match self.inner {
            Inner::Served(served) => served.process.stop(DRIVE_TIMEOUT),
            Inner::Plain(plain) => plain.close(),
        }
    }
}

impl Program {
    /// The media of a profile's NVM Sets.
    ///
    /// # Errors
    /// When there is no such profile.
    pub fn media(&self, profile: &str) -> Result<Vec<String>> {
        if matches!(self.0, ProgramKind::Plain) {
            return Ok(["nand", "dram", "pmem"].map(str::to_owned).to_vec());
        }
        Ok(media(&profile::table(profile)?))
    }
}
