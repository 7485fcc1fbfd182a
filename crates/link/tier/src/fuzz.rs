//! What a fuzzer calls: any bytes as the metadata of a tier.

use crate::config::{Config, Mode, PolicyKind};
use crate::device::TierDevice;
use crate::metadata::{BLOCK, checksum};
use crate::open::Start;
use crate::state::Control;
use blockdev::conformance::Memory;
use blockdev::{BlockDevice, Namespace, Nanos, Operation, Verb};

type Tier = TierDevice<Memory, Memory, Memory>;

/// Bytes of a chunk.
const CHUNK: u64 = 32 << 10;
/// Chunks of the origin and of the cache, and blocks of metadata.
const ORIGIN: u64 = 24;
const CACHE: u64 = 6;
const METADATA: u64 = 40;
/// More than opening, a few requests and closing take.
const ROUNDS: u32 = 10_000;

fn memory(bytes: u64, seed: u64) -> Memory {
    Memory::new(Namespace::plain(1, bytes / BLOCK, BLOCK as u32), 32, seed)
}

/// Time until a device has news, or a second.
fn pass(tier: &Tier, now: &mut Nanos, left: &mut u32) -> Nanos {
    *left -= 1;
    assert!(*left > 0, "it does not end");
    *now = match tier.next_work() {
        Nanos::MAX => *now + 1_000_000_000,
        next => next.max(*now),
    };
    *now
}

fn request(tier: &mut Tier, now: &mut Nanos, left: &mut u32, verb: Verb, lba: u64, blocks: u32) {
    let operation = Operation { verb, lba, blocks };
    let data = vec![7; operation.bytes(tier.block_size()) as usize];
    let Ok(()) = tier.submit(*now, 1, &operation, data);
    while let Ok(None) = tier.poll(*now) {
        pass(tier, now, left);
    }
}

/// A metadata device that a tier has written: in order, or in the middle of a session.
fn written(config: Config, closed: bool) -> Option<Vec<u8>> {
    let devices = (memory(ORIGIN * CHUNK, 1), memory(CACHE * CHUNK, 2), memory(METADATA * BLOCK, 3));
    let (mut now, mut left) = (0, ROUNDS);
    let start = Start::Create { seed: 1, replace: false };
    let mut tier = crate::open(config, start, devices, 0, |tier| pass(tier, &mut now, &mut left)).ok()?;
    for chunk in 0..4 {
        request(&mut tier, &mut now, &mut left, Verb::Write, chunk * (CHUNK / BLOCK), (CHUNK / BLOCK) as u32);
    }
    request(&mut tier, &mut now, &mut left, Verb::Trim, 10 * (CHUNK / BLOCK), (CHUNK / BLOCK) as u32);
    request(&mut tier, &mut now, &mut left, Verb::Flush, 0, 0);
    if closed {
        tier.change(now, Control::Close, |tier| pass(tier, &mut now, &mut left)).ok()?;
    }
    Some(tier.metadata().contents().to_vec())
}

/// Opens a tier on metadata that the bytes say, uses it where it opens, and closes it. Returns whether it opened.
///
/// The first byte chooses how the tier is opened, and what lies on the device first: nothing, what a tier has written in order, or in the
/// middle of a session. Then come changes: a byte that chooses the block, and whether its checksum is made right afterwards; two that
/// say where in the block; one that says how many bytes; and these.
///
/// # Panics
/// If the tier has a mistake: it panics, or it does not end.
pub fn fuzz(bytes: &[u8]) -> bool {
    let Some((&first, mut bytes)) = bytes.split_first() else { return false };
    let modes = [Mode::Writeback, Mode::Writethrough, Mode::Passthrough, Mode::Writeback];
    let kinds = [PolicyKind::Smq, PolicyKind::Mq, PolicyKind::SmqBefore412, PolicyKind::Cleaner];
    let made = Config { chunk: CHUNK, ..Config::default() };
    let metadata = match first >> 5 & 3 {
        0 => None,
        1 => written(made, true),
        _ => written(made, false),
    };
    let mut metadata = metadata.unwrap_or_else(|| vec![0; (METADATA * BLOCK) as usize]);
    while let [of, low, high, count, rest @ ..] = bytes {
        // The first blocks are what matters most.
        let block =
            if of & 0x40 == 0 { usize::from(of & 3) } else { usize::from(of & 0x3f) % METADATA as usize };
        let at = usize::from(u16::from_le_bytes([*low, *high])) % BLOCK as usize;
        let count = usize::from(*count).min(rest.len()).min(BLOCK as usize - at);
        let place = &mut metadata[block * BLOCK as usize..][..BLOCK as usize];
        place[at..at + count].copy_from_slice(&rest[..count]);
        if of & 0x80 == 0 {
            checksum::seal(place);
        }
        bytes = &rest[count..];
    }
    let config = Config {
        mode: modes[usize::from(first & 3)],
        policy: kinds[usize::from(first >> 2 & 3)],
        repair: first >> 4 & 1 != 0,
        ..made
    };
    open(config, first >> 7 != 0, &metadata)
}

/// Writes the metadata to a device, as another program would, and opens a tier there.
fn open(config: Config, grown: bool, metadata: &[u8]) -> bool {
    let (mut now, mut left) = (0, ROUNDS);
    let mut device = memory(METADATA * BLOCK, 3);
    for (lba, block) in (0..).zip(metadata.chunks(BLOCK as usize)) {
        let Ok(()) = device.submit(now, 0, &Operation { verb: Verb::Write, lba, blocks: 1 }, block.to_vec());
        now = device.next_event();
        let Ok(_) = device.poll(now);
    }
    let cache = if grown { 2 * CACHE } else { CACHE };
    let devices = (memory(ORIGIN * CHUNK, 1), memory(cache * CHUNK, 2), device);
    let opened = crate::open(config, Start::Open, devices, now, |tier| pass(tier, &mut now, &mut left));
    let mut tier = match opened {
        Ok(tier) => tier,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return false;
        }
    };
    let status = tier.core().status();
    assert!(u64::from(status.cache_blocks.0) <= cache && u64::from(status.dirty) <= cache, "{status}");
    for chunk in 0..ORIGIN {
        let verb = if chunk % 3 == 0 { Verb::Write } else { Verb::Read };
        request(&mut tier, &mut now, &mut left, verb, chunk * (CHUNK / BLOCK), 1);
    }
    request(&mut tier, &mut now, &mut left, Verb::Flush, 0, 0);
    let _ = tier.change(now, Control::Close, |tier| pass(tier, &mut now, &mut left));
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_untouched_opens_and_nothing_does_not() {
        // Closed in order, and not; every mode but passthrough, which wants a clean cache.
        for first in [0x20, 0x21, 0x24, 0x40, 0x41, 0x48, 0xa0] {
            assert!(fuzz(&[first]), "{first:#x}");
        }
        assert!(!fuzz(&[0]) && !fuzz(&[]) && !fuzz(&[0x22]));
    }

    #[test]
    fn numbers_that_cannot_grow_are_refused() {
        // The sequence, the epoch, and the four counts.
        for at in [16u8, 24, 104, 112, 120, 128] {
            for first in [0x20, 0x40] {
                let mut script = vec![first];
                for slot in [0, 1] {
                    script.extend([slot, at, 0, 8]);
                    script.extend([0xff; 8]);
                }
                assert!(!fuzz(&script), "byte {at}");
            }
        }
    }

    #[test]
    fn any_change_of_the_metadata_is_refused_or_taken() {
        let mut opened = 0;
        for seed in 0..600 {
            let mut rng = rng::Rng::new(seed);
            let mut script = vec![rng.next_u64() as u8];
            for _ in 0..rng.below(4) {
                // Within the fields, and seldom elsewhere.
                let at = if rng.below(8) == 0 { rng.below(4096) } else { 8 + rng.below(150) };
                let count = 1 + rng.below(8) as u8;
                let [low, high] = (at as u16).to_le_bytes();
                let of = rng.next_u64() as u8;
                script.extend([of & 0x7f | of & (rng.next_u64() as u8) & 0x80, low, high, count]);
                let extreme = rng.below(3);
                script.extend((0..count).map(|_| match extreme {
                    0 => 0xff,
                    1 => 0,
                    _ => rng.next_u64() as u8,
                }));
            }
            println!("seed {seed}");
            opened += u32::from(fuzz(&script));
        }
        assert!((60..540).contains(&opened), "{opened} of 600 opened");
    }
}
