//! Bringing a new drive into the state that a used one has, in virtual time and without contents.
//!
//! The drive puts the state there directly ([`ftl::WriteHistory`]): every page has its place as if it had been written. This takes seconds where
//! writing takes minutes. Some real random writes follow until write amplification is seen to be steady. Every page that was written so
//! reads as zeros afterwards, as a freshly written one would. It takes no room in memory or in an image.

use crate::checkpoint::{Checkpoint, CheckpointError};
use crate::contents::Contents;
use crate::machine::Sim;
use device::{Config, Drive};
use ftl::{SetId, WriteHistory};
use image::trust::{TrustError, TrustedDir};
use live::Preparation;
use media::Nanos;
use nvme::Status;
use rng::mix;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use workload::executor::ActorTotals;
use workload::{Mix, MixConfig, Order};

/// Host NQN of who writes it.
const NQN: &str = "nqn.2026-11.io.tranche:precondition";

/// What a new drive goes through first.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Precondition {
    /// Nothing: it is empty.
    #[default]
    None,
    /// Every namespace that all hosts have was written once, sequentially.
    Fill,
    /// They were overwritten in pieces of 4 KiB at random until write amplification no longer changed.
    Steady,
}

impl Precondition {
    /// All of them.
    pub const ALL: [Precondition; 3] = [Precondition::None, Precondition::Fill, Precondition::Steady];

    /// As it is written: `none`, `fill`, `steady`.
    pub const fn name(self) -> &'static str {
        match self {
            Precondition::None => "none",
            Precondition::Fill => "fill",
            Precondition::Steady => "steady",
        }
    }

    /// The preparation that brings a new live drive into this state, with this seed; `None` if there is nothing to do.
    pub fn preparation(self, seed: u64) -> Option<Arc<dyn Preparation>> {
        (self != Precondition::None).then(|| Arc::new(Preconditioning { how: self, seed }) as _)
    }

    /// That of this name.
    pub fn named(name: &str) -> Option<Precondition> {
        Precondition::ALL.into_iter().find(|how| how.name() == name)
    }
}

/// Is told the share that is done, in per mille, again and again; false ends it.
pub type Progress<'a> = dyn FnMut(u32) -> bool + 'a;

/// Why a drive is not preconditioned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PreconditionError {
    /// A command failed.
    Failed(Status),
    /// [`Progress`] said so.
    Asked,
}

impl From<PreconditionError> for CheckpointError {
    fn from(ended: PreconditionError) -> Self {
        match ended {
            PreconditionError::Failed(status) => CheckpointError::Precondition(status),
            PreconditionError::Asked => CheckpointError::Interrupted,
        }
    }
}

/// Where a preconditioned drive came from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Origin {
    /// It was made just now; kept here, if it was to be.
    Made(Option<PathBuf>),
    /// It was kept here.
    Kept(PathBuf),
}

impl From<Status> for PreconditionError {
    fn from(status: Status) -> Self {
        PreconditionError::Failed(status)
    }
}

/// Per mille of preconditioning to the steady state that putting the state in place is thought to take. Random writes take the rest.
const AGING_PERMILLE: u32 = 400;
/// Completions between two reports.
const REPORT: u64 = 4096;

/// Windows in which write amplification is compared, per capacity; of large drives more, as windows are [`MAX_WINDOW`].
const WINDOWS_PER_CAPACITY: u64 = 32;
/// Pages of a window that are enough, and superblocks. The state that is put in place is right, except for what is half written or half
/// collected. That concerns a few superblocks, however large the drive is.
const MAX_WINDOW: (u64, u64) = (1 << 22, 4);
/// Real random writes in windows: at least, and at most.
const MIN_WINDOWS: u64 = 4;
const MAX_WINDOWS: u64 = 64;
/// How much write amplification of the last windows may differ, as a fraction of it: a superblock more or less, mostly.
const TOLERANCE: u64 = 50;

/// [`Precondition::preparation`] of a kind.
#[derive(Debug)]
struct Preconditioning {
    how: Precondition,
    seed: u64,
}

impl Preparation for Preconditioning {
    /// The drive is shut down and powered on in between, as one in virtual time is that was kept, so that the two are alike.
    fn prepare(&self, drive: Drive, progress: &mut live::Progress<'_>) -> Result<(Drive, Nanos), Status> {
        let sim = Sim::dry(drive);
        let mut tell = |done| {
            progress(done);
            true
        };
        condition(&sim, self.how, self.seed, &mut tell).map_err(|ended| match ended {
            PreconditionError::Failed(status) => status,
            PreconditionError::Asked => unreachable!("nobody asks for an end"),
        })?;
        let sim = Checkpoint::of(sim).and_then(Checkpoint::start).ok();
        sim.and_then(Sim::into_drive).ok_or(Status::INTERNAL_ERROR)
    }
}

/// Preconditions the drive of a simulation, which must be new: those of its namespaces that are attached to every host.
pub(crate) fn condition(
    sim: &Sim,
    how: Precondition,
    seed: u64,
    progress: &mut Progress<'_>,
) -> Result<(), PreconditionError> {
    let history = match how {
        Precondition::None => return Ok(()),
        Precondition::Fill => WriteHistory::Filled,
        Precondition::Steady => WriteHistory::Overwritten(seed),
    };
    let spaces = Space::all(sim)?;
    let nsids: Vec<u32> = spaces.iter().map(|s| s.nsid).collect();
    let superblocks: u64 = spaces.iter().filter_map(Space::superblocks).sum();
    let (mut asked, mut written) = (false, 0);
    let aged = sim.precondition(&nsids, history, &mut || {
        // Spare superblocks have state, too.
        let share = (u64::from(AGING_PERMILLE) * written / superblocks.max(1)) as u32;
        written += 1;
        asked |= !progress(share.min(AGING_PERMILLE));
        !asked
    });
    if asked {
        return Err(PreconditionError::Asked);
    }
    if !aged {
        return Err(PreconditionError::Failed(Status::COMMAND_SEQUENCE_ERROR));
    }
    if how == Precondition::Steady {
        // Media that are written in place have no state to settle.
        let flash: Vec<Space> = spaces.into_iter().filter(|s| s.superblock.is_some()).collect();
        settle(sim, &flash, seed, progress)?;
    }
    if progress(1000) { Ok(()) } else { Err(PreconditionError::Asked) }
}

/// A namespace.
#[derive(Clone, Copy)]
struct Space {
    nsid: u32,
    blocks: u64,
    lba_bytes: u32,
    /// Pages of a superblock, if it is on NAND.
    superblock: Option<u64>,
}

impl Space {
    /// Those that a host has without being named.
    fn all(sim: &Sim) -> Result<Vec<Space>, Status> {
        let mut host = sim.host(NQN).map_err(|e| status(&e))?;
        let mut spaces = Vec::new();
        for nsid in host.active_namespaces().map_err(|e| status(&e))? {
            let space = host.namespace(nsid).map_err(|e| status(&e))?;
            let set = host.identify_namespace(nsid).map_err(|e| status(&e))?.nvmsetid.get();
            let drive = sim.drive();
            let set = usize::from(set).checked_sub(1).and_then(|set| drive.config().ftl.sets.get(set));
            let superblock = set.map_or(0, |set| set.properties().superblock_pages);
            let superblock = (superblock > 0).then_some(superblock.into());
            spaces.push(Space { nsid, blocks: space.blocks, lba_bytes: space.block_size, superblock });
        }
        Ok(spaces)
    }

    /// Superblocks that its pages fill, if it is on NAND.
    fn superblocks(&self) -> Option<u64> {
        self.superblock.map(|pages| self.pages().div_ceil(pages))
    }

    /// Its pages of 4 KiB.
    fn pages(&self) -> u64 {
        (self.blocks / self.page_blocks()).max(1)
    }

    fn page_blocks(&self) -> u64 {
        u64::from(4096 / self.lba_bytes).max(1)
    }
}

fn status(error: &host::Error) -> Status {
    error.status().unwrap_or(Status::INTERNAL_ERROR).code()
}

fn check(outcome: Result<ActorTotals, host::Error>) -> Result<ActorTotals, Status> {
    match outcome {
        Ok(outcome) if outcome.failed > 0 => Err(Status::WRITE_FAULT),
        Ok(outcome) => Ok(outcome),
        Err(error) => Err(status(&error)),
    }
}

/// Bytes programmed on all sets.
fn programmed(drive: &Drive) -> u64 {
    (0..drive.config().ftl.sets.len())
        .map(|i| drive.ftl().set_stats(SetId(i as u8)).media_written_bytes)
        .sum()
}

/// Writes at random, all namespaces in proportion to their sizes, until write amplification is steady.
fn settle(
    sim: &Sim,
    spaces: &[Space],
    seed: u64,
    progress: &mut Progress<'_>,
) -> Result<(), PreconditionError> {
    let mut before = Vec::new();
    let pages: u64 = spaces.iter().map(Space::pages).sum();
    let superblock = spaces.iter().filter_map(|s| s.superblock).max().unwrap_or(1);
    let whole = (pages / WINDOWS_PER_CAPACITY).min(MAX_WINDOW.0.max(MAX_WINDOW.1 * superblock)).max(1);
    // Of each its part, without an overflow: both are numbers of pages.
    let window = |space: &Space| {
        (u128::from(space.pages()) * u128::from(whole) / u128::from(pages.max(1))).max(1) as u64
    };
    for n in 0..MAX_WINDOWS {
        let start = programmed(&sim.drive());
        let (mut bytes, mut written) = (0, 0u64);
        for space in spaces {
            let config = MixConfig {
                range: space.blocks,
                blocks: space.page_blocks() as u32,
                order: Order::Random,
                writes_per_mille: 1000,
                depth: 64,
                count: Some(window(space)),
                // A seed that no load has: a load that repeated these writes would find them all together.
                seed: mix(mix(mix(seed) ^ u64::from(space.nsid)) ^ n),
            };
            let mut asked = false;
            let outcome = sim.run(space.nsid, &mut Mix::new(config), |_| {
                written += 1;
                if written.is_multiple_of(REPORT) {
                    // Mostly the least number of windows is enough.
                    let done = (1000 * n + 1000 * written / whole).min(1000 * MIN_WINDOWS);
                    let left = u64::from(1000 - AGING_PERMILLE);
                    asked = !progress(AGING_PERMILLE + (done * left / (1000 * (MIN_WINDOWS + 1))) as u32);
                }
                asked
            });
            bytes += check(outcome)?.bytes;
            if asked {
                return Err(PreconditionError::Asked);
            }
        }
        // Per mille of what the host wrote.
        let ratio = (programmed(&sim.drive()) - start).saturating_mul(1000) / bytes.max(1);
        before.push(ratio);
        if n + 1 >= MIN_WINDOWS
            && let [.., a, b, c] = before[..]
        {
            let (low, high) = (a.min(b).min(c), a.max(b).max(c));
            if high - low <= high / TOLERANCE {
                break;
            }
        }
    }
    Ok(())
}

/// The name of the file in which [`preconditioned`] keeps such a drive; `None` if it keeps none.
#[must_use]
pub fn kept_as(config: &Config, contents: Contents, how: Precondition, seed: u64) -> Option<String> {
    (how != Precondition::None).then(|| Checkpoint::file_name(config.clone(), contents, &past(how, seed)))
}

/// What a drive went through, in words.
fn past(how: Precondition, seed: u64) -> String {
    format!("{how:?} {seed}")
}

/// A preconditioned drive. The directory `cache` keeps drives by configuration, kind of preconditioning, seed, and whether there will be
/// contents. A drive that is there is taken, and a new one is kept there for the next time. A damaged file is replaced.
///
/// `progress` gets how far the preconditioning is, in per mille. What preconditioning wrote reads as zeros, even if contents will be in
/// memory.
///
/// # Errors
/// The drive cannot be so, or the cache cannot be read or written.
pub fn preconditioned(
    config: Config,
    contents: Contents,
    how: Precondition,
    seed: u64,
    cache: Option<&Path>,
    progress: &mut Progress<'_>,
) -> Result<(Checkpoint, Origin), CheckpointError> {
    let past = past(how, seed);
    let cache = cache.filter(|_| how != Precondition::None);
    let name = Checkpoint::file_name(config.clone(), contents, &past);
    let path = cache.map(|dir| dir.join(&name));
    let refused = |dir: &Path, error: TrustError| CheckpointError::File {
        what: "cannot use the directory",
        path: dir.to_owned(),
        source: error.into(),
    };
    if let (Some(dir), Some(path)) = (cache, &path) {
        let kept = match TrustedDir::open(dir) {
            Ok(dir) => Checkpoint::kept(config.clone(), contents, &past, &dir, &name),
            Err(TrustError::Missing(_)) => Ok(None),
            Err(error) => Err(refused(dir, error)),
        };
        match kept {
            Ok(Some(kept)) => return Ok((kept, Origin::Kept(path.clone()))),
            Ok(None) => {}
            Err(error @ CheckpointError::File { .. }) => return Err(error),
            Err(error) => tracing::warn!("{}: {error}; it is made again", path.display()),
        }
    }
    let before = if contents == Contents::Memory { Contents::Later } else { contents };
    let sim = Sim::new(config, before)?;
    condition(&sim, how, seed, progress)?;
    let made = Checkpoint::of(sim)?.with_contents(contents);
    if let Some(dir) = cache {
        let dir = TrustedDir::make(dir).map_err(|error| refused(dir, error))?;
        made.keep(&past, &dir, &name)?;
    }
    Ok((made, Origin::Made(path)))
}
