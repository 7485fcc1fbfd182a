use super::*;
use crate::disk::ReadsFirst;
use crate::disk::cache::{Extent, ReadAhead};
use crate::disk::geometry::{Geometry, GeometryConfig, HeadOrder, Skew, Sparing, ZoneConfig};
use crate::disk::mechanism::{Mechanism, OnCylinder, Positioning, SeekTable};
use crate::disk::service::Overheads;
use crate::disk::spindle::{Angle, Spindle};
use rng::Rng;

const MS: u64 = 1_000_000;

/// 6,000 rpm, ten sectors a track: a sector is a millisecond. A hundred cylinders with two heads.
fn config() -> DiskConfig {
    let skew = Skew::of_switches(Angle::ZERO, Angle::of(2, 10), Angle::of(4, 10), 2, 1);
    let zone = ZoneConfig { last_cylinder: 99, track_sectors: 10, skew, ..ZoneConfig::default() };
    let config = GeometryConfig {
        surfaces: 2,
        heads: HeadOrder::Ascending,
        sparing: Sparing::None,
        zones: vec![zone],
    };
    let seek =
        || SeekTable::new((0..100u64).map(|d| Nanos(if d == 0 { 0 } else { MS + d * 50_000 }))).unwrap();
    let on_cylinder = OnCylinder { head_switch: Nanos(MS), ..OnCylinder::default() };
    let mechanism = Mechanism {
        geometry: Geometry::new(&config).unwrap(),
        spindle: Spindle::new(6_000_000_000),
        positioning: Positioning {
            seek: [[seek(), seek()], [seek(), seek()]],
            on_cylinder: [[on_cylinder; 2]; 2],
            track_switch: [Nanos(MS); 2],
            cylinder_switch: [Nanos(2 * MS); 2],
        },
        slow: Vec::new(),
    };
    let command = [[[Nanos(100_000); 2]; 2]; 2];
    let overheads = Overheads { command, block: Nanos(10_000), ..Overheads::default() };
    DiskConfig {
        model: Model { mechanism, overheads, write_cache: false },
        cache: CacheConfig {
            extent: Extent::Blocks(8),
            read_ahead: ReadAhead::Always,
            ..CacheConfig::default()
        },
        block_bytes: 512,
        scheduling: Scheduling::Fcfs,
        write_buffer: 0,
    }
}

fn request(id: u64, op: Op, block: u64, count: u32) -> Request {
    Request { id, op, block, count, force: false, reads_first: ReadsFirst::Nothing }
}

fn run(disk: &mut Disk, until: u64) -> Vec<Completion> {
    let mut all = Vec::new();
    while let Some(at) = disk.next_event().filter(|a| a.0 <= until) {
        disk.poll(at, &mut all);
    }
    all
}

#[test]
fn one_request_after_the_other_takes_what_the_model_says() {
    let mut disk = Disk::new(config()).unwrap();
    disk.submit(Nanos(0), request(1, Op::Read, 5, 2));
    let all = run(&mut disk, u64::MAX);
    assert_eq!((all.len(), all[0].id, all[0].at.0, all[0].hit), (1, 1, 7 * MS + 10_000, false));
    // Read-ahead brings a block each 1.2 ms.
    disk.submit(Nanos(20 * MS), request(2, Op::Read, 7, 4));
    let all = run(&mut disk, u64::MAX);
    assert_eq!((all[0].at.0, all[0].hit), (20 * MS + 140_000, true));
    assert_eq!(disk.outstanding(), 0);
    let mut wrong = config();
    wrong.block_bytes = 520;
    assert!(Disk::new(wrong).unwrap_err().to_string().contains("520"));
}

#[test]
fn the_shortest_positioning_time_is_served_first_but_nobody_waits_for_ever() {
    let order = |scheduling| {
        let mut disk = Disk::new(DiskConfig { scheduling, ..config() }).unwrap();
        // A far one, and near ones that never end.
        let (mut now, mut all, mut next) = (Nanos(0), Vec::new(), 2);
        disk.submit(now, request(0, Op::Read, 9, 1));
        disk.submit(now, request(1, Op::Read, 1990, 1));
        while all.len() < 200 {
            while disk.outstanding() < 8 {
                disk.submit(now, request(next, Op::Read, (next * 13) % 40 + 20, 1));
                next += 1;
            }
            now = now.max(disk.next_event().unwrap());
            disk.poll(now, &mut all);
        }
        all.iter().position(|c| c.id == 1).unwrap_or(200)
    };
    assert_eq!(order(Scheduling::Fcfs), 1);
    let unfair = order(Scheduling::Sptf { age: 0 });
    let fair = order(Scheduling::Sptf { age: 64 });
    assert!(unfair == 200 && fair < 100, "{unfair} {fair}");
}

#[test]
fn a_queue_makes_a_disk_faster() {
    let time = |scheduling| {
        let mut disk = Disk::new(DiskConfig { scheduling, ..config() }).unwrap();
        let mut rng = Rng::new(1);
        let mut now = Nanos(0);
        let mut all = Vec::new();
        for id in 0..500 {
            disk.submit(now, request(id, Op::Read, rng.below(2000), 1));
            while disk.outstanding() >= 16 {
                now = disk.next_event().unwrap();
                disk.poll(now, &mut all);
            }
        }
        now.0
    };
    let (fcfs, sptf) = (time(Scheduling::Fcfs), time(Scheduling::Sptf { age: 16 }));
    assert!(sptf * 10 < fcfs * 7, "{sptf} {fcfs}");
}

#[test]
fn buffered_writes_are_complete_at_once_and_flushed_in_order() {
    let mut config = config();
    (config.model.write_cache, config.write_buffer) = (true, 16);
    config.scheduling = Scheduling::Sptf { age: 0 };
    let mut disk = Disk::new(config).unwrap();
    disk.submit(Nanos(0), request(0, Op::Read, 1900, 1));
    for (id, block) in [(1, 10), (2, 500), (3, 10)] {
        disk.submit(Nanos(10), request(id, Op::Write, block, 4));
    }
    let all = run(&mut disk, 2 * MS);
    assert_eq!(all.iter().map(|c| c.id).collect::<Vec<_>>(), [1, 2, 3], "long before the read");
    assert!(all.iter().all(|c| c.hit));
    // 12 of 16 blocks are taken. A write that has no room goes to the platters.
    disk.submit(Nanos(2 * MS), request(4, Op::Write, 800, 8));
    disk.submit(Nanos(2 * MS), request(5, Op::Read, 501, 2));
    disk.flush(Nanos(2 * MS), 6);
    let all = run(&mut disk, u64::MAX);
    let at = |id| all.iter().find(|c| c.id == id).unwrap();
    assert!(at(5).hit, "a read of what is in the buffer");
    assert!(!at(4).hit && at(4).at > at(0).at);
    assert!(at(6).at.0 > at(0).at.0 && disk.outstanding() == 0);
    let forced = Request { force: true, ..request(7, Op::Write, 3, 1) };
    disk.submit(Nanos(500 * MS), forced);
    assert!(!run(&mut disk, u64::MAX)[0].hit);
}

#[test]
fn a_power_cut_tears_between_sectors() {
    let mut disk = Disk::new(config()).unwrap();
    disk.submit(Nanos(0), request(1, Op::Write, 2, 5));
    // Sectors 2 and 3 are written at 4 ms, and sector 4 is under the head.
    let cut = disk.power_cut(Nanos(4 * MS + MS / 2));
    assert_eq!((cut.written, cut.torn, cut.lost.len()), (Some((2, 2)), Some(4), 0));
    assert_eq!((disk.next_event(), disk.outstanding()), (None, 0));
    disk.submit(Nanos(20 * MS), request(2, Op::Read, 3, 2));
    let failed = run(&mut disk, u64::MAX)[0];
    assert_eq!(failed.failed, Some(4));
    assert!(failed.at.0 > 100 * MS, "retries take revolutions");
    disk.submit(Nanos(200 * MS), request(3, Op::Write, 4, 1));
    assert_eq!(run(&mut disk, u64::MAX)[0].failed, None);
    disk.submit(Nanos(300 * MS), request(4, Op::Read, 4, 1));
    let slow = run(&mut disk, u64::MAX)[0];
    assert_eq!(slow.failed, None);
    assert!(slow.at.0 - 300 * MS > 20 * MS, "a reassigned block takes two revolutions more");
}

#[test]
fn a_power_cut_loses_what_was_in_the_buffer() {
    let mut config = config();
    (config.model.write_cache, config.write_buffer) = (true, 100);
    let mut disk = Disk::new(config).unwrap();
    disk.submit(Nanos(0), request(0, Op::Read, 1900, 1));
    disk.submit(Nanos(0), request(1, Op::Write, 40, 3));
    disk.submit(Nanos(0), request(2, Op::Write, 90, 3));
    let cut = disk.power_cut(Nanos(MS));
    assert_eq!((cut.written, cut.torn), (None, None));
    assert_eq!(cut.lost, [(40, 3), (90, 3)]);
}

#[test]
fn every_request_ends_once_whatever_comes() {
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let mut config = config();
        config.scheduling = if rng.below(2) == 0 { Scheduling::Fcfs } else { Scheduling::Sptf { age: 20 } };
        (config.model.write_cache, config.write_buffer) = (rng.below(2) == 0, rng.below(64));
        config.cache.segments = rng.below(4) as u32;
        config.cache.keeps_read = rng.below(2) == 0;
        let mut disk = Disk::new(config).unwrap();
        let (mut now, mut all, mut ids) = (Nanos(0), Vec::new(), 0);
        for _ in 0..300 {
            now += Nanos(rng.below(8 * MS));
            match rng.below(20) {
                0 => disk.flush(now, ids),
                1 => disk.grow_defect(rng.below(2000)),
                _ => {
                    let op = if rng.below(2) == 0 { Op::Read } else { Op::Write };
                    let force = rng.below(10) == 0;
                    let request =
                        Request { force, ..request(ids, op, rng.below(1950), 1 + rng.below(50) as u32) };
                    disk.submit(now, request);
                }
            }
            ids += 1;
            if rng.below(2) == 0 {
                disk.poll(now, &mut all);
            }
        }
        while let Some(at) = disk.next_event() {
            now = now.max(at);
            disk.poll(now, &mut all);
        }
        assert_eq!(disk.outstanding(), 0, "seed {seed}");
        let mut seen: Vec<u64> = all.iter().map(|c| c.id).collect();
        seen.sort_unstable();
        let before = seen.len();
        seen.dedup();
        assert_eq!(seen.len(), before, "seed {seed}: a request ended twice");
    }
}

#[test]
fn a_flush_waits_for_what_came_before_it_and_for_nothing_else() {
    let mut config = config();
    (config.model.write_cache, config.write_buffer) = (true, 100);
    config.scheduling = Scheduling::Sptf { age: 0 };
    let mut disk = Disk::new(config).unwrap();
    // The arm is busy near block 1900 while the buffer fills: a far block first, near ones after the flush.
    disk.submit(Nanos(0), request(0, Op::Read, 1900, 1));
    disk.submit(Nanos(0), request(1, Op::Write, 10, 1));
    disk.flush(Nanos(0), 2);
    for id in 3..8 {
        disk.submit(Nanos(0), request(id, Op::Write, 1900 + id * 2, 1));
    }
    let (mut order, mut landed) = (Vec::new(), Vec::new());
    while let Some(at) = disk.next_event() {
        let mut all = Vec::new();
        disk.poll(at, &mut all);
        disk.take_landed(&mut landed);
        let flushed = all.iter().any(|c| c.id == 2);
        order.append(&mut landed);
        if flushed {
            assert!(order.contains(&1), "complete before its write was on the platters: {order:?}");
            order.push(2);
        }
    }
    assert_eq!(order.len(), 7, "{order:?}");
    assert_ne!(order[0], 1, "the near ones are first, else this shows nothing");
}

#[test]
fn requests_for_the_same_blocks_keep_their_order() {
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let mut config = config();
        config.scheduling = Scheduling::Sptf { age: 0 };
        (config.model.write_cache, config.write_buffer) = (rng.below(2) == 0, 1 + rng.below(64));
        let mut disk = Disk::new(config).unwrap();
        let mut asked: Vec<Request> = Vec::new();
        let (mut now, mut all, mut landed, mut ends) = (Nanos(0), Vec::new(), Vec::new(), Vec::new());
        let mut step = |disk: &mut Disk, at: Nanos| {
            disk.poll(at, &mut all);
            disk.take_landed(&mut landed);
            // A buffered write ends when it lands.
            ends.append(&mut landed);
            ends.extend(all.drain(..).filter(|c: &Completion| !c.hit).map(|c| c.id));
        };
        for id in 0..120 {
            let op = if rng.below(3) == 0 { Op::Read } else { Op::Write };
            let force = rng.below(3) == 0;
            let ask = Request { force, ..request(id, op, rng.below(60), 1 + rng.below(8) as u32) };
            disk.submit(now, ask);
            asked.push(ask);
            now += Nanos(rng.below(4 * MS));
            while let Some(at) = disk.next_event().filter(|at| *at <= now) {
                step(&mut disk, at);
            }
        }
        while let Some(at) = disk.next_event() {
            step(&mut disk, at);
        }
        let writes: Vec<&Request> =
            ends.iter().map(|id| &asked[*id as usize]).filter(|r| r.op == Op::Write).collect();
        assert_eq!(writes.len(), asked.iter().filter(|r| r.op == Op::Write).count(), "seed {seed}");
        for (i, later) in writes.iter().enumerate() {
            let end = |r: &Request| r.block + u64::from(r.count);
            let overtaken =
                writes[i..].iter().find(|r| r.id < later.id && r.block < end(later) && later.block < end(r));
            assert_eq!(overtaken, None, "seed {seed}: overtaken by {later:?}");
        }
    }
}

#[test]
fn the_buffer_never_gives_what_the_platters_cannot() {
    let mut config = config();
    (config.model.write_cache, config.write_buffer) = (true, 100);
    let mut disk = Disk::new(config).unwrap();
    disk.grow_defect(20);
    let mut now = 0;
    for id in 0..3 {
        disk.submit(Nanos(now), request(id, Op::Read, 18, 4));
        let read = run(&mut disk, u64::MAX)[0];
        assert_eq!((read.failed, read.hit), (Some(20), false), "read {id}");
        now = read.at.0;
    }
    // A write of a part of the block does not make it readable, and no read finds it in the buffer.
    disk.submit(
        Nanos(now),
        Request {
            reads_first: ReadsFirst::Ends { first: true, last: false },
            ..request(3, Op::Write, 20, 1)
        },
    );
    disk.submit(Nanos(now), request(4, Op::Read, 20, 1));
    let all = run(&mut disk, u64::MAX);
    assert_eq!(
        all.iter().map(|c| c.failed).collect::<Vec<_>>(),
        [Some(20); 2],
        "nothing is promised that cannot be kept"
    );
    disk.submit(Nanos(now * 10), request(5, Op::Write, 20, 1));
    disk.submit(Nanos(now * 10), request(6, Op::Read, 20, 1));
    assert_eq!(run(&mut disk, u64::MAX)[1].failed, None, "it is written as a whole");
}
