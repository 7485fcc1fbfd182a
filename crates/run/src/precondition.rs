//! Bringing a new drive into the state that a used one has, in virtual time and without contents.
//!
//! Every page that this writes reads as zeros afterwards, as a freshly written one would, and takes no room in
//! memory or in an image; the flash below has really been programmed and collected.

use crate::clock::Clock;
use crate::engine::Engine;
use crate::sim::{Outcome, SimHost};
use crate::store::{Backing, Store};
use device::Drive;
use ftl::SetId;
use media::Nanos;
use nvme::Status;
use workload::{Mix, MixConfig, Order};

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
    let mut store = Store::new(Backing::None);
    store.dry = true;
    let mut engine = Engine::alone(drive, store);
    let clock = Clock::Virtual(0.into());
    let total = namespaces.len().max(1) as u32;
    for (done, &nsid) in namespaces.iter().enumerate() {
        let mut host = match SimHost::connect(&mut engine, &clock, nsid) {
            Ok(host) => host,
            // Not attached to everybody: it is its owner's.
            Err(status) if status.is(Status::INVALID_NAMESPACE) => continue,
            Err(status) => return Err(status),
        };
        let mut tell = |per_mille: u32| progress((done as u32 * 1000 + per_mille) / total);
        fill(&mut host, &mut tell)?;
        if how == Precondition::Steady {
            settle(&mut host, seed ^ u64::from(nsid), &mut tell)?;
        }
    }
    let time = clock.now();
    Ok((engine.drive, time))
}

fn check(outcome: &Outcome) -> Result<(), Status> {
    if outcome.failed > 0 { Err(Status::WRITE_FAULT) } else { Ok(()) }
}

fn fill(host: &mut SimHost<'_>, tell: &mut impl FnMut(u32)) -> Result<(), Status> {
    let most = host.drive().config().max_transfer.min(128 << 10);
    let blocks = u64::from(most / host.lba_bytes()).clamp(1, host.blocks());
    let whole = host.blocks() / blocks;
    let config = MixConfig {
        range: host.blocks(),
        blocks: blocks as u32,
        order: Order::Sequential,
        writes_per_mille: 1000,
        depth: 32,
        count: Some(whole),
        seed: 0,
    };
    let outcome = host.run_until(&mut Mix::new(config), |o| {
        if o.requests % 1024 == 0 {
            tell((o.requests * 300 / whole.max(1)) as u32);
        }
        false
    });
    check(&outcome)
}

/// Bytes programmed on all sets.
fn programmed(drive: &Drive) -> u64 {
    (0..drive.config().ftl.sets.len())
        .map(|i| drive.ftl().set_stats(SetId(i as u8)).media_written_bytes)
        .sum()
}

fn settle(host: &mut SimHost<'_>, seed: u64, tell: &mut impl FnMut(u32)) -> Result<(), Status> {
    let blocks = (4096 / host.lba_bytes()).max(1);
    let pages = host.blocks() / u64::from(blocks);
    let window = (pages / WINDOWS).max(1);
    let mut before = Vec::new();
    for n in 0..MOST * WINDOWS {
        let config = MixConfig {
            range: host.blocks(),
            blocks,
            order: Order::Random,
            writes_per_mille: 1000,
            depth: 64,
            count: Some(window),
            seed: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(n),
        };
        let start = programmed(host.drive());
        let outcome = host.run(&mut Mix::new(config));
        check(&outcome)?;
        // Per mille of what the host wrote.
        let ratio = (programmed(host.drive()) - start).saturating_mul(1000) / outcome.bytes.max(1);
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
