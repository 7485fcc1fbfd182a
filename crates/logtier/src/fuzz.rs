//! What a fuzzer calls: any bytes as superblocks and journal of a cache.

use crate::config::{BLOCK, Config, Mode};
use crate::device::LogDevice;
use crate::format;
use crate::open::Start;
use crate::state::Control;
use blockdev::conformance::Memory;
use blockdev::{BlockDevice, Namespace, Nanos, Operation, Verb};

type Cache = LogDevice<Memory, Memory>;

/// Blocks of the origin and of the cache device.
const ORIGIN: u64 = 300;
const CACHE: u64 = 292;
/// More than opening, a few requests and closing take.
const ROUNDS: u32 = 20_000;
const CONFIG: Config = Config {
    bucket: 64 << 10,
    mode: Mode::Writeback,
    replacement: crate::config::Replacement::Lru,
    sequential_cutoff: 0,
    dirty_target: 10,
    writeback_rate: (4096, 1 << 20),
    origin: crate::config::OriginId([7; 16]),
    contents: true,
};

fn memory(blocks: u64, seed: u64) -> Memory {
    Memory::new(Namespace::plain(1, blocks, BLOCK as u32), 32, seed)
}

/// Time until a device has news, or a second.
fn pass(cache: &Cache, now: &mut Nanos, left: &mut u32) -> Nanos {
    *left -= 1;
    assert!(*left > 0, "it does not end");
    *now = match cache.next_work() {
        Nanos::MAX => *now + 1_000_000_000,
        next => next.max(*now),
    };
    *now
}

fn request(cache: &mut Cache, now: &mut Nanos, left: &mut u32, verb: Verb, lba: u64, blocks: u32) {
    let operation = Operation { verb, lba, blocks };
    let data = vec![7; operation.bytes(cache.block_size()) as usize];
    let Ok(()) = cache.submit(*now, 1, &operation, data);
    while let Ok(None) = cache.poll(*now) {
        pass(cache, now, left);
    }
}

/// A cache device that a cache has written: in order, or in the middle of a session.
fn written(closed: bool) -> Option<Vec<u8>> {
    let (mut now, mut left) = (0, ROUNDS);
    let devices = (memory(ORIGIN, 1), memory(CACHE, 2));
    let start = Start::Create { seed: 1, replace: false };
    let mut cache = crate::open(CONFIG, start, devices, 0, |cache| pass(cache, &mut now, &mut left)).ok()?;
    for n in 0..20 {
        request(&mut cache, &mut now, &mut left, Verb::WriteFua, n * 13, 3);
        request(&mut cache, &mut now, &mut left, Verb::Read, n * 14, 2);
    }
    if closed {
        cache.change(now, Control::Close, |cache| pass(cache, &mut now, &mut left)).ok()?;
    }
    Some(cache.cache().contents().to_vec())
}

/// Opens a cache on what the bytes say, uses it where it opens, and closes it. Returns whether it opened.
///
/// The first byte chooses what lies on the device first: nothing, what a cache has written in order, or in the middle of a session. Then
/// come changes: a byte that chooses the block, and whether its checksum is made right afterwards; two that say where in the block; one
/// that says how many bytes; and these.
///
/// # Panics
/// If the cache has a mistake: it panics, or it does not end.
pub fn fuzz(bytes: &[u8]) -> bool {
    let Some((&first, mut bytes)) = bytes.split_first() else { return false };
    let contents = match first & 3 {
        0 => None,
        1 => written(true),
        _ => written(false),
    };
    let mut contents = contents.unwrap_or_else(|| vec![0; (CACHE * BLOCK) as usize]);
    while let [of, low, high, count, rest @ ..] = bytes {
        let block = usize::from(of & 0x3f);
        let at = usize::from(u16::from_le_bytes([*low, *high])) % BLOCK as usize;
        let count = usize::from(*count).min(rest.len()).min(BLOCK as usize - at);
        let place = &mut contents[block * BLOCK as usize..][..BLOCK as usize];
        place[at..at + count].copy_from_slice(&rest[..count]);
        if of & 0x80 == 0 {
            format::seal(place);
        }
        bytes = &rest[count..];
    }
    open(&contents)
}

/// Writes contents to a device, as another program would, and opens a cache there.
fn open(contents: &[u8]) -> bool {
    let (mut now, mut left) = (0, ROUNDS);
    let mut device = memory(CACHE, 3);
    for (lba, block) in (0..).zip(contents.chunks(BLOCK as usize)) {
        let Ok(()) = device.submit(now, 0, &Operation { verb: Verb::Write, lba, blocks: 1 }, block.to_vec());
        now = device.next_event();
        let Ok(_) = device.poll(now);
    }
    let devices = (memory(ORIGIN, 1), device);
    let opened = crate::open(CONFIG, Start::Open, devices, now, |cache| pass(cache, &mut now, &mut left));
    let mut cache = match opened {
        Ok(cache) => cache,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return false;
        }
    };
    let status = cache.core().status();
    assert!(status.dirty <= status.cached && u64::from(status.cached) <= CACHE, "{status:?}");
    for n in 0..ORIGIN / 3 {
        let verb = if n % 3 == 0 { Verb::Write } else { Verb::Read };
        request(&mut cache, &mut now, &mut left, verb, n * 3, 2);
    }
    request(&mut cache, &mut now, &mut left, Verb::Flush, 0, 0);
    let _ = cache.change(now, Control::Close, |cache| pass(cache, &mut now, &mut left));
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_untouched_opens_and_nothing_does_not() {
        assert!(fuzz(&[1]) && fuzz(&[2]));
        assert!(!fuzz(&[0]) && !fuzz(&[]));
    }

    #[test]
    fn any_change_is_refused_or_taken() {
        let mut opened = 0;
        for seed in 0..300 {
            let mut rng = rng::Rng::new(seed);
            let mut script = vec![1 + rng.below(2) as u8];
            for _ in 0..rng.below(4) {
                let at = if rng.below(8) == 0 { rng.below(4096) } else { 8 + rng.below(150) };
                let count = 1 + rng.below(8) as u8;
                let [low, high] = (at as u16).to_le_bytes();
                let of = rng.below(24) as u8 | if rng.below(8) == 0 { 0x80 } else { 0 };
                script.extend([of, low, high, count]);
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
        assert!((30..290).contains(&opened), "{opened} of 300 opened");
    }
}
