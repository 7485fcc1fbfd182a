use super::*;
use crate::disk::drive::Disk;
use crate::disk::{Op, ReadsFirst, Request};
use rng::Rng;

const US: u64 = 1_000;

fn shape() -> DiskShape {
    let seek = |track, average, full| SeekTimes {
        track: Nanos(track * US),
        average: Nanos(average * US),
        full: Nanos(full * US),
    };
    DiskShape {
        rpm: 15_000,
        heads: 4,
        cylinders: 60_000,
        zones: 12,
        outer_sectors: 1_400,
        inner_sectors: 800,
        sector_bytes: 512,
        read_seek: seek(200, 2_600, 5_200),
        write_seek: seek(400, 3_100, 5_700),
        head_switch: [Nanos(300 * US); 2],
        overhead: Nanos(50 * US),
        link: 600_000_000,
        cache: CacheConfig::default(),
        write_cache: false,
        write_buffer: 0,
        scheduling: Scheduling::Fcfs,
    }
}

#[test]
fn seeks_have_the_three_times_of_the_data_sheet() {
    for (cylinders, times) in
        [(60_000u32, shape().read_seek), (60_000, shape().write_seek), (200, shape().read_seek)]
    {
        let curve = Curve::through(&times, cylinders, "read").unwrap();
        assert_eq!(curve.time(0), 0);
        assert_eq!(curve.time(1), i128::from(times.track.0));
        let full = curve.time(u64::from(cylinders) - 1);
        assert!((full - i128::from(times.full.0)).abs() < 100, "{full}");
        // All pairs, weighted by their number.
        let n = i128::from(cylinders);
        let (sum, pairs) = (1..n)
            .fold((0i128, 0i128), |(sum, pairs), d| (sum + curve.time(d as u64) * (n - d), pairs + (n - d)));
        let (mean, average) = (sum / pairs, i128::from(times.average.0));
        assert!((mean - average).abs() * 50 < average, "{mean} {average}");
    }
    let falling = SeekTimes { full: Nanos(2_650 * US), ..shape().read_seek };
    assert!(DiskShape { read_seek: falling, ..shape() }.config().unwrap_err().to_string().contains("rises"));
    let swapped = SeekTimes { track: Nanos(3_000 * US), ..shape().read_seek };
    assert!(
        DiskShape { write_seek: swapped, ..shape() }
            .config()
            .unwrap_err()
            .to_string()
            .contains("write seeks")
    );
}

#[test]
fn a_random_read_takes_an_average_seek_and_half_a_turn() {
    let mut disk = Disk::new(shape().config().unwrap()).unwrap();
    let (mut rng, mut now, mut total) = (Rng::new(3), Nanos(0), 0);
    let mut done = Vec::new();
    for id in 0..4_000 {
        let start = now;
        disk.submit(
            now,
            Request {
                id,
                op: Op::Read,
                block: rng.below(disk.blocks() / 8) * 8,
                count: 8,
                force: false,
                reads_first: ReadsFirst::Nothing,
            },
        );
        while done.is_empty() {
            now = disk.next_event().unwrap();
            disk.poll(now, &mut done);
        }
        done.clear();
        total += (now - start).0;
    }
    let mean = total / 4_000;
    // Blocks lie more often outside, where there are more of them on a track.
    let expected = (2_600 + 2_000 + 50) * US;
    assert!(mean.abs_diff(expected) * 40 < expected, "{mean} {expected}");
}

#[test]
fn a_long_read_has_the_sustained_rate() {
    let mut shape = shape();
    shape.cache.segments = 0;
    let mut disk = Disk::new(shape.config().unwrap()).unwrap();
    assert_eq!(disk.blocks(), shape.sectors());
    let sectors = 1_400 * 4 * 200;
    disk.submit(
        Nanos(0),
        Request {
            id: 0,
            op: Op::Read,
            block: 0,
            count: sectors,
            force: false,
            reads_first: ReadsFirst::Nothing,
        },
    );
    let mut done = Vec::new();
    while done.is_empty() {
        let now = disk.next_event().unwrap();
        disk.poll(now, &mut done);
    }
    let rate = u64::from(sectors) * 512 * 1_000_000_000 / done[0].at.0;
    let expected = shape.sustained_bytes_per_second(0);
    assert!(rate.abs_diff(expected) * 100 < expected, "{rate} {expected}");
    assert!(shape.sustained_bytes_per_second(11) < expected * 6 / 10);
}

#[test]
fn a_disk_that_cannot_be_is_an_error() {
    let with = |change: fn(&mut DiskShape)| {
        let mut shape = shape();
        change(&mut shape);
        shape.config().map(|_| ()).unwrap_err().to_string()
    };
    assert!(with(|s| s.rpm = 3).contains("revolutions"));
    assert!(with(|s| s.heads = 0).contains("heads"));
    assert!(with(|s| s.cylinders = 1).contains("cylinders"));
    assert!(with(|s| s.zones = 0).contains("zones"));
    assert!(with(|s| s.inner_sectors = 1_401).contains("sectors of a track"));
    assert!(with(|s| s.sector_bytes = 520).contains("520"));
    assert!(with(|s| s.write_cache = true).contains("write cache"));
    assert!(with(|s| s.head_switch[1] = Nanos(4_000 * US)).contains("revolution"));
    let small = DiskShape { cylinders: 5, zones: 2, ..shape() };
    assert_eq!(small.config().map(|_| ()), Ok(()));
}

#[test]
fn requests_behind_each_other_lose_no_revolution() {
    for scheduling in [Scheduling::Fcfs, Scheduling::Sptf { age: 4 }] {
        for op in [Op::Read, Op::Write] {
            let mut shape = DiskShape { scheduling, ..shape() };
            shape.cache.segments = 0;
            let mut disk = Disk::new(shape.config().unwrap()).unwrap();
            let (mut now, mut done, mut next) = (Nanos(0), Vec::new(), 0);
            while done.len() < 2_000 {
                while disk.outstanding() < 8 {
                    let block = next * 256;
                    let reads_first = ReadsFirst::Nothing;
                    disk.submit(now, Request { id: next, op, block, count: 256, force: false, reads_first });
                    next += 1;
                }
                now = disk.next_event().unwrap();
                disk.poll(now, &mut done);
            }
            let rate = 2_000 * 256 * 512 * 1_000_000_000 / now.0;
            let expected = shape.sustained_bytes_per_second(0);
            assert!(rate * 100 > expected * 97, "{scheduling:?} {op:?}: {rate} of {expected}");
        }
    }
}
