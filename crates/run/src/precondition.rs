//! Bringing a new drive into the state that a used one has, in virtual time and without contents.
//!
//! Every page that this writes reads as zeros afterwards, as a freshly written one would, and takes no room in
//! memory or in an image; the flash below has really been programmed and collected.

use crate::sim::{Outcome, Sim};
use device::Drive;
use ftl::SetId;
use media::Nanos;
use nvme::Status;
use workload::{Mix, MixConfig, Order};

/// Host NQN of who writes it.
const NQN: &str = "nqn.2026-11.io.tranche:precondition";

/// What a new drive goes through first.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Precondition {
    /// Nothing: it is empty.
    #[default]
    None,
    /// Every namespace is written once, sequentially.
    Fill,
    /// That, and then 4 KiB random writes until write amplification no longer changes.
    Steady,
}

/// Is told the share that is done, in per mille.
pub type Progress<'a> = dyn FnMut(u32) + 'a;

/// Windows in which write amplification is compared, per capacity.
const WINDOWS: u64 = 4;
/// Random writes in capacities: at least, and at most.
const LEAST: u64 = 1;
const MOST: u64 = 6;

/// Writes a new drive; returns it with its time.
pub(crate) fn run(
    drive: Drive,
    how: Precondition,
    seed: u64,
    progress: &mut Progress<'_>,
) -> Result<(Drive, Nanos), Status> {
    if how == Precondition::None {
        return Ok((drive, Nanos::ZERO));
    }
    let namespaces: Vec<u32> = (1..=drive.config().namespaces.len() as u32).collect();
    let sim = Sim::dry(drive);
    let total = namespaces.len().max(1) as u32;
    for (done, &nsid) in namespaces.iter().enumerate() {
        let space = match Space::of(&sim, nsid) {
            Ok(space) => space,
            // Not attached to everybody: it is its owner's.
            Err(status) if status.is(Status::INVALID_NAMESPACE) => continue,
            Err(status) => return Err(status),
        };
        let mut tell = |per_mille: u32| progress((done as u32 * 1000 + per_mille) / total);
        fill(&sim, space, &mut tell)?;
        if how == Precondition::Steady {
            settle(&sim, space, seed ^ u64::from(nsid), &mut tell)?;
        }
    }
    sim.into_drive().ok_or(Status::INTERNAL_ERROR)
}

/// A namespace.
#[derive(Clone, Copy)]
struct Space {
    nsid: u32,
    blocks: u64,
    lba_bytes: u32,
}

impl Space {
    fn of(sim: &Sim, nsid: u32) -> Result<Space, Status> {
        let mut host = sim.host(NQN).map_err(|e| status(&e))?;
        match host.namespace(nsid) {
            Ok(namespace) => Ok(Space { nsid, blocks: namespace.blocks, lba_bytes: namespace.block_size }),
            // An inactive namespace identifies itself as zeros.
            Err(host::Error::Answer { .. }) => Err(Status::INVALID_NAMESPACE),
            Err(error) => Err(status(&error)),
        }
    }
}

fn status(error: &host::Error) -> Status {
    error.status().unwrap_or(Status::INTERNAL_ERROR).code()
}

fn check(outcome: Result<Outcome, host::Error>) -> Result<Outcome, Status> {
    match outcome {
        Ok(outcome) if outcome.failed > 0 => Err(Status::WRITE_FAULT),
        Ok(outcome) => Ok(outcome),
        Err(error) => Err(status(&error)),
    }
}

fn fill(sim: &Sim, space: Space, tell: &mut impl FnMut(u32)) -> Result<(), Status> {
    let most = sim.drive().config().max_transfer.min(128 << 10);
    let blocks = u64::from(most / space.lba_bytes).clamp(1, space.blocks);
    let whole = space.blocks / blocks;
    let config = MixConfig {
        range: space.blocks,
        blocks: blocks as u32,
        order: Order::Sequential,
        writes_per_mille: 1000,
        depth: 32,
        count: Some(whole),
        seed: 0,
    };
    let outcome = sim.run(space.nsid, &mut Mix::new(config), |step| {
        let requests = step.outcome.requests;
        if requests % 1024 == 0 {
            tell((requests * 300 / whole.max(1)) as u32);
        }
        false
    });
    check(outcome).map(drop)
}

/// Bytes programmed on all sets.
fn programmed(drive: &Drive) -> u64 {
    (0..drive.config().ftl.sets.len())
        .map(|i| drive.ftl().set_stats(SetId(i as u8)).media_written_bytes)
        .sum()
}

fn settle(sim: &Sim, space: Space, seed: u64, tell: &mut impl FnMut(u32)) -> Result<(), Status> {
    let blocks = (4096 / space.lba_bytes).max(1);
    let pages = space.blocks / u64::from(blocks);
    let window = (pages / WINDOWS).max(1);
    let mut before = Vec::new();
    for n in 0..MOST * WINDOWS {
        let config = MixConfig {
            range: space.blocks,
            blocks,
            order: Order::Random,
            writes_per_mille: 1000,
            depth: 64,
            count: Some(window),
            seed: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(n),
        };
        let start = programmed(&sim.drive());
        let outcome = check(sim.run(space.nsid, &mut Mix::new(config), |_| false))?;
        // Per mille of what the host wrote.
        let ratio = (programmed(&sim.drive()) - start).saturating_mul(1000) / outcome.bytes.max(1);
        before.push(ratio);
        tell((300 + n * 700 / (MOST * WINDOWS)) as u32);
        if n + 1 >= LEAST * WINDOWS
            && let [.., a, b, c] = before[..]
        {
            let (low, high) = (a.min(b).min(c), a.max(b).max(c));
            if high - low <= high / 50 {
                break;
            }
        }
    }
    Ok(())
}
