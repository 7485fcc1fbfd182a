//! How late the owner looks at the drive changes nothing of what the drive does: events that are due are run at their own times.

use crate::common::load::{limit, statistics};
use crate::common::{Bench, bytes, initial, small};
use media::Nanos;
use nvme::copy::{Copy, CopySource};
use nvme::io::{Blocks, DsmRange};
use nvme::log::NamespaceStatistics;
use nvme::quota::QuotaKind;
use nvme::{Command, IoCommand};
use rng::Rng;

const BLOCKS: u64 = 4096;

/// Any command that moves or forgets blocks, and its data.
fn any(random: &mut Rng, namespaces: u32) -> (Command, Vec<u8>) {
    let nsid = 1 + random.below(namespaces.into()) as u32;
    let blocks = 1 + random.below(8) as u32;
    let lba = random.below(BLOCKS - 8);
    let durable = Blocks { fua: true, ..Blocks::new(nsid, lba, blocks) };
    let data = || vec![7; blocks as usize * 4096];
    match random.below(20) {
        0 => (Command::flush(nsid), Vec::new()),
        1 => (IoCommand::Write(durable).into(), data()),
        2 => (IoCommand::Read(durable).into(), Vec::new()),
        3 => (Command::deallocate(nsid, 1), bytes(&DsmRange::new(lba, blocks))),
        4..8 => {
            // The target lies in the upper half, the sources in the lower one.
            let nr = 1 + random.below(4) as u16;
            let mut data = Vec::new();
            for _ in 0..nr {
                let slba = random.below(BLOCKS / 2 - 8);
                let source = CopySource { slba, nlb: 1 + random.below(8) as u32, ..CopySource::default() };
                source.write(0, |bytes| data.extend_from_slice(bytes));
            }
            let sdlba = BLOCKS / 2 + random.below(BLOCKS / 2 - 32);
            let fua = random.below(4) == 0;
            (Copy { nsid, sdlba, nr, fua, ..Copy::default() }.into(), data)
        }
        8..15 => (Command::write(nsid, lba, blocks), data()),
        _ => (Command::read(nsid, lba, blocks), Vec::new()),
    }
}

/// When the owner looks.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Looks {
    /// Whenever something is due.
    InTime,
    /// When a command comes, and then at everything that was due since the last one.
    WithCommands,
    /// The same, and now and then between.
    AtRandom,
}

/// Plays commands that come at the same times; the order in which they completed, and what the drive counted (log D8h): latencies
/// among it.
fn play(seed: u64, looks: Looks, namespaces: u32) -> (Vec<u32>, Vec<NamespaceStatistics>) {
    let mut config = small(&[("write_buffer = \"1MiB\"", "timing = true\nwrite_buffer = \"256KiB\"")]);
    for _ in 0..namespaces {
        config.namespaces.push(initial(1, BLOCKS * 4096));
    }
    let mut b = Bench::new(config);
    // One alone fills the buffer. Of two, which are held for the other's share, one has a quota as well.
    if namespaces == 2 {
        limit(&mut b, 2, &[(QuotaKind::WriteCommands, 8000)]);
    }
    // When a host's disk has synced is another matter.
    b.memory.no_disk = true;
    b.order.clear();
    let (mut random, mut lateness) = (Rng::new(seed), Rng::new(!seed));
    let mut at = b.now;
    let look = |b: &mut Bench, at: Nanos| {
        b.now = at;
        let mut out = Vec::new();
        b.drive.poll(at, &mut b.memory, &mut out);
        b.deliver(out);
    };
    for _ in 0..3000 {
        let pause = if random.below(300) == 0 { 20_000_000 } else { random.below(60_000) };
        let next = at + Nanos(pause);
        match looks {
            Looks::InTime => b.run_until(next),
            Looks::WithCommands => {}
            Looks::AtRandom => {
                while lateness.below(3) == 0 {
                    at += Nanos(lateness.below(next.since(at).0.max(1)));
                    look(&mut b, at);
                }
            }
        }
        at = next;
        look(&mut b, at);
        let (command, data) = any(&mut random, namespaces);
        b.submit(b.controller, 1, &command, &data);
    }
    at += Nanos(1_000_000_000);
    look(&mut b, at);
    let counts = (1..=namespaces).map(|nsid| statistics(&mut b, nsid)).collect();
    (std::mem::take(&mut b.order), counts)
}

#[test]
fn completions_are_the_same_however_late_the_owner_looks() {
    for (seed, namespaces) in [(1, 1), (2, 2), (3, 1), (4, 2)] {
        let (order, counts) = play(seed, Looks::InTime, namespaces);
        let sum = |count: fn(&NamespaceStatistics) -> u64| counts.iter().map(count).sum::<u64>();
        let waited = match namespaces {
            1 => sum(|c| c.stalled_write_commands.get()),
            _ => sum(|c| c.shared_write_commands.get()).min(sum(|c| c.throttled_write_commands.get())),
        };
        assert!(waited > 50, "seed {seed}: only {waited} writes waited");
        for looks in [Looks::WithCommands, Looks::AtRandom] {
            let (late_order, late_counts) = play(seed, looks, namespaces);
            let differs = order.iter().zip(&late_order).position(|(a, b)| a != b);
            assert_eq!((differs, order.len()), (None, late_order.len()), "seed {seed}, {looks:?}: the order");
            for (a, b) in counts.iter().zip(&late_counts) {
                let differs = bytes(a).iter().zip(&bytes(b)).position(|(a, b)| a != b);
                assert_eq!(differs, None, "seed {seed}, {looks:?}: log D8h of namespace {}", a.nsid);
            }
        }
    }
}
