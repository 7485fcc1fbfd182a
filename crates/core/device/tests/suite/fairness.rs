//! Fair sharing of an NVM Set among namespaces without limits.

use crate::common::load::{OutstandingLoad, quota, run, set, statistics, weigh};
use crate::common::{Bench, bytes, initial, small};
use device::{Config, InitialNamespace};
use media::Rng;
use nvme::admin::{GetLbaStatus, LbaStatusAction};
use nvme::quota::QuotaKind;
use nvme::{Command, NSID_ALL};

const MILLISECOND: u64 = 1_000_000;
const BLOCKS: u64 = 1024;

/// Eight dies, and so many namespaces of 4 MiB on them.
fn config(namespaces: usize) -> Config {
    let mut config = small(&[
        ("[drive]", "[drive]\ntiming = true"),
        ("dies = 4", "dies = 8"),
        ("channels = 2", "channels = 8"),
        ("read = \"1GB/s\"", "read = \"4GB/s\""),
        ("write = \"1GB/s\"\ncommand", "write = \"4GB/s\"\ncommand"),
    ]);
    config.namespaces = vec![initial(1, BLOCKS * 4096); namespaces];
    config
}

/// A drive whose namespaces are written.
fn drive(namespaces: usize) -> Bench {
    let mut b = Bench::new(config(namespaces));
    for nsid in 1..=namespaces as u32 {
        for at in (0..BLOCKS).step_by(64) {
            b.write(nsid, at, 64, &vec![1; 64 * 4096]);
        }
    }
    assert_eq!(b.io(Command::flush(NSID_ALL), &[]).0, nvme::Status::SUCCESS);
    b
}

fn random(nsid: u32, blocks: u32) -> impl FnMut() -> Command {
    let mut rng = Rng::new(nsid.into());
    move || Command::read(nsid, rng.below(BLOCKS / u64::from(blocks)) * u64::from(blocks), blocks)
}

fn reads(nsid: u32, depth: usize, blocks: u32) -> OutstandingLoad {
    OutstandingLoad::of(depth, 0, random(nsid, blocks))
}

fn writes(nsid: u32, depth: usize, blocks: u32) -> OutstandingLoad {
    let mut read = random(nsid, blocks);
    OutstandingLoad::of(depth, blocks as usize * 4096, move || Command {
        opc: nvme::IoOpcode::WRITE.0,
        ..read()
    })
}

/// Of each load, what ended in a time after a start.
fn rates(b: &mut Bench, loads: &mut [OutstandingLoad]) -> Vec<u64> {
    run(b, 20 * MILLISECOND, loads);
    loads.iter_mut().for_each(|load| load.done = 0);
    run(b, 200 * MILLISECOND, loads);
    loads.iter().map(|load| load.done).collect()
}

fn close(a: u64, b: u64, percent: u64) -> bool {
    a.abs_diff(b) * 100 <= a.max(b) * percent
}

#[test]
fn weights_share_what_all_want() {
    let mut b = drive(3);
    for (nsid, weight) in [(1, 100), (2, 200), (3, 400)] {
        weigh(&mut b, nsid, weight);
    }
    // However many commands they have outstanding.
    let done = rates(&mut b, &mut [reads(1, 200, 1), reads(2, 120, 1), reads(3, 150, 1)]);
    assert!(close(2 * done[0], done[1], 4) && close(2 * done[1], done[2], 4), "{done:?}");
    // A new weight holds at once.
    weigh(&mut b, 3, 200);
    let done = rates(&mut b, &mut [reads(1, 200, 1), reads(2, 120, 1), reads(3, 150, 1)]);
    assert!(close(2 * done[0], done[1], 4) && close(done[1], done[2], 4), "{done:?}");
}

#[test]
fn large_commands_win_nothing() {
    let mut b = drive(2);
    let done = rates(&mut b, &mut [reads(1, 128, 1), reads(2, 64, 8)]);
    assert!(close(done[0], 8 * done[1], 12), "{done:?}");
}

#[test]
fn one_that_is_alone_never_waits() {
    let mut alone = drive(1);
    let expected = rates(&mut alone, &mut [reads(1, 256, 1)]);
    let mut b = drive(2);
    // That the other one wrote something is forgotten soon.
    run(&mut b, 20 * MILLISECOND, &mut [reads(1, 1, 1)]);
    let before = statistics(&mut b, 1).shared_read_commands;
    let done = rates(&mut b, &mut [reads(1, 256, 1)]);
    assert!(done[0] * 100 >= expected[0] * 98, "{done:?} of {expected:?}");
    assert_eq!(statistics(&mut b, 1).shared_read_commands, before);
}

#[test]
fn what_one_leaves_the_others_use() {
    let mut alone = drive(1);
    let all = rates(&mut alone, &mut [reads(1, 256, 1)])[0];
    let mut b = drive(3);
    weigh(&mut b, 1, 1000);
    // The first does one command at a time.
    let done = rates(&mut b, &mut [reads(1, 1, 1), reads(2, 128, 1), reads(3, 128, 1)]);
    let sum: u64 = done.iter().sum();
    assert!(sum * 100 >= all * 85, "{done:?} of {all}");
    assert!(close(done[1], done[2], 4), "{done:?}");
    assert!(statistics(&mut b, 2).shared_read_ns.get() > 0);
}

#[test]
fn a_light_load_does_not_queue_behind_a_heavy_one() {
    let mean = |b: &mut Bench| {
        let log = statistics(b, 1);
        log.read_latency_sum.sum_ns.get() / log.host_read_commands.get()
    };
    let mut alone = drive(1);
    run(&mut alone, 200 * MILLISECOND, &mut [reads(1, 1, 1)]);
    let quiet = mean(&mut alone);
    let mut b = drive(2);
    run(&mut b, 200 * MILLISECOND, &mut [reads(1, 1, 1), reads(2, 512, 1)]);
    // 512 reads among 16 planes are 32 senses one after the other; the window lets 8 be there.
    let noisy = mean(&mut b);
    assert!(noisy < 12 * quiet, "{noisy} ns instead of {quiet}");
    let waited = statistics(&mut b, 1).shared_read_ns.get();
    assert_eq!(waited, 0, "whoever is behind does not wait");
}

#[test]
fn large_writes_hold_nobody_up_who_wants_little() {
    // The 99th percentile of reads in the drive's histogram, and how many of them had to wait for their turn.
    let measure = |fair, weight| {
        let mut b = Bench::new(Config { fair_sharing: fair, ..config(2) });
        weigh(&mut b, 1, weight);
        for nsid in 1..=2 {
            for at in (0..BLOCKS).step_by(64) {
                b.write(nsid, at, 64, &vec![1; 64 * 4096]);
            }
        }
        run(&mut b, 400 * MILLISECOND, &mut [reads(1, 4, 1), writes(2, 16, 32)]);
        let log = statistics(&mut b, 1);
        let counts = log.read_latency.count.map(|n| n.get());
        let most = counts.iter().sum::<u64>() * 99 / 100;
        let mut seen = 0;
        let bucket = counts.iter().position(|n| {
            seen += n;
            seen > most
        });
        (nvme::log::latency_bucket_low(bucket.unwrap()), log.shared_read_commands.get())
    };
    let (plain, _) = measure(false, 100);
    for weight in [100, 1000] {
        let (p99, held) = measure(true, weight);
        assert!(p99 <= plain, "with weight {weight} {p99} ns instead of {plain}, {held} reads held");
        assert_eq!(held, 0, "with weight {weight}");
    }
}

#[test]
fn writers_share_too_and_readers_are_not_shut_out() {
    let mut b = drive(3);
    weigh(&mut b, 2, 300);
    let done = rates(&mut b, &mut [writes(1, 64, 4), writes(2, 64, 4), reads(3, 64, 1)]);
    assert!(close(3 * done[0], done[1], 12), "{done:?}");
    assert!(done[2] > 1000, "{done:?}");
}

#[test]
fn limits_hold_besides_and_what_they_leave_is_shared() {
    let mut b = drive(3);
    b.admin_ok(set(1, false), &bytes(&quota(&[(QuotaKind::ReadCommands, 10_000)])));
    let done = rates(&mut b, &mut [reads(1, 64, 1), reads(2, 128, 1), reads(3, 256, 1)]);
    assert!(close(done[0], 2000, 1), "{done:?}");
    assert!(close(done[1], done[2], 4), "{done:?}");
    let log = statistics(&mut b, 1);
    assert!(log.throttled_read_ns.get() > 20 * log.shared_read_ns.get());
}

#[test]
fn collection_is_charged_to_whose_writes_made_it_necessary() {
    let mut config = config(2);
    config.timing = false;
    config.namespaces.iter_mut().for_each(|ns| ns.bytes = 24 << 20);
    let mut b = Bench::new(config);
    let blocks = 24 << 8;
    // Both lie on the same superblocks, page by page.
    for at in 0..blocks {
        b.write(1, at, 1, &[1; 4096]);
        b.write(2, at, 1, &[2; 4096]);
    }
    let collected = |b: &mut Bench, nsid| statistics(b, nsid).media_bytes_written_gc.get();
    let mut rng = Rng::new(3);
    let mut overwrite = |b: &mut Bench, times| {
        for _ in 0..times * blocks {
            b.write(2, rng.below(blocks), 1, &[3; 4096]);
        }
    };
    // Until it is forgotten that the first was ever written.
    overwrite(&mut b, 6);
    let before = [1, 2].map(|nsid| collected(&mut b, nsid));
    overwrite(&mut b, 6);
    let (idle, busy) = (collected(&mut b, 1) - before[0], collected(&mut b, 2) - before[1]);
    assert!(busy > 64 << 20, "{busy} bytes were collected");
    assert!(idle * 50 < busy, "{idle} bytes charged to a namespace that nobody wrote, {busy} to the other");
    // Every byte is charged to somebody.
    let all = b.drive.ftl().set_stats(ftl::SetId(0)).media_gc_bytes;
    assert_eq!(collected(&mut b, NSID_ALL), all);
    assert_eq!(collected(&mut b, 1) + collected(&mut b, 2), all);
    // Both write, one three times as much.
    let before = [1, 2].map(|nsid| collected(&mut b, nsid));
    for i in 0..16 * blocks {
        b.write(if i % 4 == 0 { 1 } else { 2 }, rng.below(blocks), 1, &[4; 4096]);
    }
    let after = [1, 2].map(|nsid| collected(&mut b, nsid));
    let (less, more) = (after[0] - before[0], after[1] - before[1]);
    assert!(close(3 * less, more, 25), "{less} and {more} bytes");
}

/// A scan reads the medium. Its reads take their turn in the share of its namespace.
#[test]
fn scans_of_the_medium_leave_a_neighbour_its_share() {
    let mut b = drive(2);
    let loads = || [reads(1, 200, 1), reads(2, 200, 1)];
    let alone = rates(&mut b, &mut loads());
    let scan = GetLbaStatus { nsid: 1, slba: 0, dwords: 1024, range: 0, atype: LbaStatusAction::SCAN };
    for _ in 0..200 {
        b.submit(b.controller, 0, &scan.into(), &[]);
    }
    let beside = rates(&mut b, &mut loads());
    assert!(
        2 * beside[1] > alone[1] && 2 * beside[0] < alone[0],
        "{beside:?} beside scans, {alone:?} without"
    );
}

#[test]
fn another_set_is_another_matter() {
    let mut config = config(1);
    config.namespaces.push(InitialNamespace { set: 2, ..config.namespaces[0] });
    let mut b = Bench::new(config);
    let expected = rates(&mut b, &mut [reads(2, 16, 1)])[0];
    let done = rates(&mut b, &mut [writes(1, 64, 16), reads(2, 16, 1)]);
    assert!(close(done[1], expected, 2), "{done:?} of {expected}");
    assert_eq!(statistics(&mut b, NSID_ALL).shared_read_commands.get(), 0);
}

#[test]
fn without_sharing_the_deeper_queue_gets_more() {
    let shares = |fair| {
        let mut b = Bench::new(Config { fair_sharing: fair, ..config(2) });
        for nsid in 1..=2 {
            for at in (0..BLOCKS).step_by(64) {
                b.write(nsid, at, 64, &vec![1; 64 * 4096]);
            }
        }
        rates(&mut b, &mut [reads(1, 100, 1), reads(2, 500, 1)])
    };
    let (fair, unfair) = (shares(true), shares(false));
    assert!(unfair[1] > 3 * unfair[0], "{unfair:?}");
    assert!(close(fair[0], fair[1], 10), "{fair:?}");
}
