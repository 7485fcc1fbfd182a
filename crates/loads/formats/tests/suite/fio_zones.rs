//! Jobs with `zonemode=zbd`, on a drive that holds them to the rules of zones.

use crate::common::zoned;

use load_formats::fio::{Job, Zone, ZoneAccess, ZoneGeometry, begin_zones};
use proptest::prelude::*;
use workload::{Request, Verb, ZoneAction};
use zoned::{BLOCK, CAPACITY, GEOMETRY, ZONE, ZONES, ZonedDrive, empty, jobs, run};

/// What one zone holds, in bytes.
const ZONE_BYTES: u64 = CAPACITY * BLOCK;

/// A job on empty zones.
fn of(lines: &str) -> (ZonedDrive, Vec<Job>) {
    let mut drive = ZonedDrive::new(empty(), 6, 1);
    let jobs = run(lines, &mut drive).unwrap_or_else(|error| panic!("{lines}: {error}"));
    (drive, jobs)
}

fn written(job: &Job) -> u64 {
    job.stats().traffic[1].bytes
}

/// Where writes went, as zones and blocks in them.
fn writes(drive: &ZonedDrive) -> Vec<(u64, u64)> {
    let is_write = |request: &&Request| request.verb == Verb::Write;
    let place = |request: &Request| (request.lba / ZONE, request.lba % ZONE);
    drive.counts.issued.iter().map(|(_, request)| request).filter(is_write).map(place).collect()
}

#[test]
fn jobs_in_order_go_zone_by_zone() {
    let (drive, jobs) = of("rw=write\nbs=8k\nsize=3z\noffset=1z\niodepth=4");
    let wanted: Vec<_> = (1..4).flat_map(|zone| (0..6).map(move |n| (zone, n * 16))).collect();
    assert_eq!(writes(&drive), wanted);
    assert_eq!((written(&jobs[0]), drive.counts.resets), (3 * ZONE_BYTES, 0));
    // The second pass writes them again.
    let (drive, jobs) = of("rw=write\nbs=8k\nsize=3z\nloops=2");
    assert_eq!((written(&jobs[0]), drive.counts.resets, jobs[0].stats().zone_resets), (6 * ZONE_BYTES, 3, 3));
    // What a zone has no room for is finished; the job goes on in the next.
    // Also the last one, whose last write ends when the job has nothing more to ask for.
    for depth in [1, 4, 16] {
        for end in ["", "io_size=120k", "number_ios=12"] {
            let (drive, jobs) = of(&format!("rw=write\nbs=10k\nsize=3z\n{end}\niodepth={depth}"));
            assert_eq!((written(&jobs[0]), drive.counts.finishes), (3 * 4 * 10240, 3), "{end} {depth}");
        }
    }
}

#[test]
fn writes_go_on_at_write_pointers() {
    let mut zones = empty();
    zones[0] = Zone { written: 32, active: true, ..zones[0] };
    zones[2] = Zone { written: CAPACITY, ..zones[2] };
    let mut drive = ZonedDrive::new(zones, 6, 1);
    let jobs = run("rw=write\nbs=16k\nsize=3z", &mut drive).unwrap();
    let wanted = [(0, 32), (0, 64), (1, 0), (1, 32), (1, 64), (2, 0), (2, 32), (2, 64)];
    assert_eq!((writes(&drive), jobs[0].stats().zone_resets), (wanted.to_vec(), 1));
}

#[test]
fn reads_stay_below_write_pointers() {
    let mut zones = empty();
    zones[1] = Zone { written: 50, active: true, ..zones[1] };
    zones[3] = Zone { written: CAPACITY, access: ZoneAccess::Read, ..zones[3] };
    zones[4] = Zone { written: CAPACITY, access: ZoneAccess::None, ..zones[4] };
    for (lines, ios) in [
        // 6 in zone 1, 12 in zone 3.
        ("rw=read\nbs=4k", 18),
        ("rw=read\nbs=4k\nloops=2", 36),
        ("rw=randread\nbs=4k\niodepth=8\nio_size=9m\nnumber_ios=500", 500),
        ("rw=randread\nbsrange=1k-8k\niodepth=8\nio_size=9m\nnumber_ios=500", 500),
    ] {
        let mut drive = ZonedDrive::new(zones.clone(), 6, 1);
        let jobs = run(lines, &mut drive).unwrap();
        assert_eq!((jobs[0].stats().traffic[0].ios, jobs[0].problem()), (ios, None), "{lines}");
    }
    let mut drive = ZonedDrive::new(zones.clone(), 6, 1);
    drive.beyond = true;
    let jobs = run("rw=read\nbs=4k\nread_beyond_wp=1", &mut drive).unwrap();
    assert_eq!(jobs[0].stats().traffic[0].ios, (ZONES - 1) * 12);
    let (_, jobs) = of("rw=randread\nbs=4k");
    assert!(jobs[0].problem().unwrap().contains("write them first"));
}

#[test]
fn random_writes_stay_within_the_limit_and_reset_what_is_full() {
    for (option, limit) in
        [("max_open_zones=1", 1), ("max_open_zones=3", 3), ("job_max_open_zones=2", 2), ("", 6)]
    {
        let mut drive = ZonedDrive::new(empty(), limit, 7);
        let lines = format!("rw=randwrite\nbs=4k\niodepth=16\n{option}\nio_size=2m");
        let jobs = run(&lines, &mut drive).unwrap();
        assert_eq!((drive.counts.most_open, written(&jobs[0])), (limit, 2 << 20), "{option}");
        assert!(drive.counts.resets >= 28 && drive.counts.early_resets == 0, "{}", drive.counts.resets);
        assert_eq!(drive.counts.resets, jobs[0].stats().zone_resets);
    }
}

#[test]
fn appends_share_a_zone_while_writes_wait() {
    for lines in ["rw=write", "rw=randwrite\nmax_open_zones=1"] {
        let lines = format!("{lines}\nbs=2k\niodepth=8\nsize=4z");
        let (drive, _) = of(&lines);
        assert_eq!(drive.counts.most_appends, 0);
        let (drive, jobs) = of(&format!("{lines}\nzone_append=1"));
        assert_eq!(drive.counts.most_appends, 8, "{lines}");
        assert!(zoned::bytes(&drive.counts).keys().all(|verb| verb == "Append" || verb.starts_with("Zone")));
        assert!(written(&jobs[0]) >= 4 * ZONE_BYTES);
    }
    // What is verified is appended one by one, so that its place is known.
    let (drive, jobs) =
        of("rw=randwrite\nbs=2k\niodepth=8\nmax_open_zones=2\nsize=4z\nzone_append=1\nverify=crc32c");
    assert_eq!((drive.counts.most_appends, jobs[0].mismatches().0), (1, 0));
    assert_eq!(jobs[0].stats().traffic[0].bytes, 4 * ZONE_BYTES);
}

#[test]
fn a_threshold_resets_zones_before_they_are_full() {
    let lines = "rw=randwrite\nbs=4k\nmax_open_zones=2\nio_size=4m\nzone_reset_threshold=0.5\nzone_reset_frequency=0.1";
    let mut drive = ZonedDrive::new(empty(), 2, 3);
    drive.threshold = 500_000;
    let jobs = run(lines, &mut drive).unwrap();
    // 1,024 writes, of which the first 72 fill half of 12 zones with 12 blocks each.
    let resets = drive.counts.resets;
    assert!(drive.counts.early_resets > 20 && resets == jobs[0].stats().zone_resets, "{resets}");
    let (drive, _) = of("rw=randwrite\nbs=4k\nio_size=4m\nzone_reset_threshold=0.5");
    assert_eq!(drive.counts.early_resets, 0, "a threshold alone does nothing");
}

#[test]
fn verification_reads_each_zone_to_its_write_pointer() {
    let full: Vec<Zone> = empty().into_iter().map(|zone| Zone { written: CAPACITY, ..zone }).collect();
    for lines in [
        "rw=write\nbs=8k\nverify=crc32c",
        "rw=randwrite\nbs=2k\nsize=5z\niodepth=8\nverify=md5",
        "rw=randwrite\nbsrange=1k-16k\nsize=5z\niodepth=8\nverify=sha256",
        "rw=randwrite\nbs=10k\nio_size=100k\nverify=crc32c",
        "rw=randrw\nbs=4k\nsize=5z\niodepth=4\nverify=crc32c",
        "rw=randwrite\nbs=4k\nsize=2z\nverify=xxhash\ntime_based\nruntime=10ms",
    ] {
        // What was there before goes first.
        let mut drive = ZonedDrive::new(full.clone(), 6, 1);
        let mut all = run(lines, &mut drive).unwrap();
        let job = all.remove(0);
        assert_eq!((job.mismatches().1, job.problem()), (&[][..], None), "{lines}");
        let region =
            drive.zones.iter().filter(|zone| zone.start * BLOCK < job.plan().start + job.plan().size);
        let there: u64 = region.map(|zone| zone.written * BLOCK).sum();
        let finished = drive.counts.finishes > 0;
        let reads = job.stats().traffic[0].bytes;
        assert!(
            if finished || lines.contains("randrw") { reads > 0 } else { reads == there },
            "{lines}: {reads}, {there}"
        );
        // And once more; then somebody else has changed a byte.
        if !finished {
            let again = run(&format!("{lines}\nverify_only"), &mut drive).unwrap().remove(0);
            assert_eq!((again.mismatches().0, again.stats().traffic[0].bytes), (0, there), "{lines}");
            let first = drive.zones.iter().find(|zone| zone.written > 0).unwrap().start;
            drive.contents[(first * BLOCK) as usize + 700] ^= 1;
            let wrong = run(&format!("{lines}\nverify_only"), &mut drive).unwrap().remove(0);
            assert!(wrong.mismatches().0 > 0, "{lines}");
        }
    }
}

#[test]
fn trims_reset_zones_that_are_not_empty() {
    for rw in ["trim", "randtrim"] {
        let mut zones = empty();
        for index in [1, 4, 5] {
            zones[index] = Zone { written: 40, active: true, ..zones[index] };
        }
        let mut drive = ZonedDrive::new(zones, 6, 1);
        drive.threshold = 0;
        let jobs = run(&format!("rw={rw}\nsize=5z\niodepth=4"), &mut drive).unwrap();
        let stats = jobs[0].stats();
        assert_eq!(
            (stats.traffic[2].ios, stats.traffic[2].bytes, stats.zone_resets),
            (2, 2 * ZONE * BLOCK, 0),
            "{rw}"
        );
        assert_eq!(drive.zones[5].written, 40, "outside of its region");
    }
}

#[test]
fn jobs_share_the_zones_that_may_be_open() {
    let lines = "rw=randwrite\nbs=4k\niodepth=8\nsize=4z\noffset_increment=4z\nnumjobs=3";
    let (drive, jobs) = of(lines);
    assert_eq!((drive.counts.most_open, jobs.len()), (6, 3));
    // One zone outside of their regions is active: of 8, 7 are left, and 6 may be open.
    let mut zones = empty();
    zones[11] = Zone { written: 5, active: true, ..zones[11] };
    let mut drive = ZonedDrive::new(zones.clone(), 7, 1);
    run("rw=randwrite\nbs=4k\niodepth=8\nsize=3z\noffset_increment=3z\nnumjobs=3", &mut drive).unwrap();
    assert_eq!(drive.counts.most_open, 7);
    let few = "rw=randwrite\nbs=4k\nsize=3z\noffset_increment=3z\nnumjobs=3\nmax_open_zones=2";
    let mut drive = ZonedDrive::new(zones, 7, 1);
    let jobs = run(few, &mut drive).unwrap();
    assert!(jobs[0].problem().is_none() && jobs[1].problem().is_none());
    assert!(jobs[2].problem().unwrap().contains("3 jobs write at the same time, and they may have 2 zones"));
}

#[test]
fn what_does_not_go_with_zones_is_refused() {
    for (lines, said) in [
        ("rw=write\nbs=64k", "more than the drive writes in one command, 32768 bytes"),
        ("rw=write\nbs=32k\nzone_append=1", "more than the drive appends in one command, 16384 bytes"),
        ("rw=trimwrite", "does not go with zonemode=zbd"),
        ("rw=write\nzonesize=1m", "zonesize is 1048576 bytes, but the zones of the namespace have 65536"),
        ("rw=randread\nrandom_distribution=zipf:1.1", "random_distribution is random"),
        ("rw=write\nmax_open_zones=7", "the namespace allows 6 open zones"),
        ("rw=write\nsize=1k", "hold no whole zone of 65536 bytes"),
        ("rw=write\noffset=100k\nsize=90k", "hold no whole zone"),
        ("rw=randread\nverify=md5\nread_beyond_wp", "does not go with verify"),
        ("rw=write\nsize=4z\nnumjobs=2", "another job writes in the same zones"),
        ("rw=write\nsize=4z\noffset_increment=3z\nnumjobs=2", "another job writes in the same zones"),
    ] {
        let error = jobs(lines, GEOMETRY).unwrap_err();
        assert!(error.contains(said), "{lines}: {error}");
    }
    let open = ZoneGeometry { max_open: None, max_active: None, ..GEOMETRY };
    assert!(jobs("rw=write\nmax_open_zones=100", open).is_ok());
    assert!(jobs("rw=write\nmax_open_zones=7\nignore_zone_limits=1", GEOMETRY).is_ok());
    assert!(jobs("rw=read\nnumjobs=4", GEOMETRY).is_ok(), "readers may be anywhere");
    // What only the zones' states show.
    let problem = |lines: &str, zones: Vec<Zone>| {
        let mut jobs = jobs(lines, GEOMETRY).unwrap();
        begin_zones(&mut jobs.iter_mut().collect::<Vec<_>>(), &zones);
        jobs[0].problem().unwrap_or_default().to_owned()
    };
    let partly: Vec<Zone> =
        empty().into_iter().map(|zone| Zone { written: 1, active: zone.start < 7 * ZONE, ..zone }).collect();
    assert!(
        problem("rw=write", partly)
            .contains("7 zones of its region are written in part, and it may have 6 open")
    );
    let offline: Vec<Zone> =
        empty().into_iter().map(|zone| Zone { access: ZoneAccess::None, ..zone }).collect();
    assert!(problem("rw=write", offline).contains("no zone of its region can be written"));
    let small: Vec<Zone> = empty().into_iter().map(|zone| Zone { capacity: 4, ..zone }).collect();
    assert!(problem("rw=write\nbs=4k", small).contains("more than a zone holds, 2048 bytes"));
    assert!(problem("rw=write", empty()[1..].to_vec()).contains("not reported all zones"));
}

/// Lines of a random job.
fn lines() -> impl Strategy<Value = String> {
    let rw = prop::sample::select(vec![
        "write",
        "randwrite",
        "rw",
        "randrw",
        "read",
        "randread",
        "trim",
        "randtrim",
    ]);
    let bs = prop::sample::select(vec![
        "bs=512",
        "bs=4k",
        "bs=10k",
        "bs=16k",
        "bsrange=1k-8k",
        "bssplit=512/30:4k/70",
    ]);
    let length =
        prop::sample::select(vec!["", "loops=2", "io_size=1m", "number_ios=300", "time_based\nruntime=1ms"]);
    let verify = prop::sample::select(vec!["", "", "verify=crc32c", "verify=meta"]);
    let resets = prop::sample::select(vec!["", "zone_reset_threshold=0.3\nzone_reset_frequency=0.2"]);
    let own = (0u32..2, 0u32..4, 0u32..7);
    let region = (1u64..4, 1u64..=4, 0u64..3, 1u32..20);
    (rw, bs, length, verify, resets, own, region).prop_map(
        |(rw, bs, length, verify, resets, (append, job_most, most), (numjobs, size, offset, depth))| {
            let verify = if bs.starts_with("bsrange") && rw.ends_with("read") { "" } else { verify };
            format!(
                "rw={rw}\n{bs}\n{length}\n{verify}\n{resets}\nzone_append={append}\njob_max_open_zones={job_most}\n\
                 max_open_zones={most}\nnumjobs={numjobs}\nsize={size}z\noffset={offset}z\noffset_increment={size}z\n\
                 iodepth={depth}\nrandseed={size}{depth}"
            )
        },
    )
}

/// Zones in any state, with as many active as the drive allows.
fn zones() -> impl Strategy<Value = Vec<Zone>> {
    prop::collection::vec((0u32..10, 1..CAPACITY), ZONES as usize).prop_map(|states| {
        let mut active = 0;
        let mut zones = empty();
        for (zone, (state, written)) in zones.iter_mut().zip(states) {
            match state {
                0..5 => {}
                5 | 6 if active < 3 => {
                    active += 1;
                    (zone.written, zone.active) = (written, true);
                }
                5..8 => zone.written = CAPACITY,
                8 => (zone.written, zone.access) = (CAPACITY, ZoneAccess::Read),
                _ => zone.access = ZoneAccess::None,
            }
        }
        zones
    })
}

proptest! {
    #[test]
    fn any_job_keeps_the_rules(lines in lines(), zones in zones(), seed in any::<u64>()) {
        let option = |name: &str| -> u64 {
            lines.lines().find_map(|line| line.strip_prefix(name)?.parse().ok()).unwrap_or(0)
        };
        let mut drive = ZonedDrive::new(zones, 8, seed);
        // Zones that are reset before they are full: what is verified begins anew, and trims reset anything.
        let any_reset = lines.contains("verify") || lines.contains("trim");
        drive.threshold = if any_reset { 0 } else if lines.contains("threshold") { 300_000 } else { 1_000_001 };
        let Ok(jobs) = run(&lines, &mut drive) else { return Ok(()) };
        let counts = &drive.counts;
        let is_reset = |(_, request): &&(usize, Request)| request.verb == Verb::Zone(ZoneAction::Reset);
        for (number, job) in jobs.iter().enumerate() {
            let of_it: Vec<_> = counts.issued.iter().filter(|(of, _)| *of == number).copied().collect();
            // A job that only reads finds what was there.
            let wrong = if job.plan().options.rw.does[1] { job.mismatches().0 } else { 0 };
            prop_assert!(job.is_done() && wrong == 0, "{:?}", job.mismatches());
            if job.problem().is_some() {
                let does = job.plan().options.rw.does;
                prop_assert!(of_it.is_empty(), "{:?}", job.problem());
                prop_assert!(does[0] || does[1]);
                continue;
            }
            let stats = job.stats();
            let resets = of_it.iter().filter(is_reset).count() as u64;
            prop_assert_eq!(resets, stats.zone_resets + stats.traffic[2].ios);
            let own = option("job_max_open_zones=");
            let bytes: u64 = of_it.iter().map(|(_, request)| u64::from(request.blocks) * BLOCK).sum();
            prop_assert_eq!(bytes, stats.traffic[0].bytes + stats.traffic[1].bytes);
            let end = job.plan().start + job.plan().size;
            for (_, request) in &of_it {
                prop_assert!((job.plan().start..end).contains(&(request.lba * BLOCK)) || request.verb == Verb::Flush);
            }
            // No zone stays open whose rest holds no block.
            let least = job.plan().options.sizes[1].least();
            let is_rest = |zone: &&Zone| zone.active && (zone.capacity - zone.written) * BLOCK < least;
            let its = |zone: &&Zone| (job.plan().start..end).contains(&(zone.start * BLOCK));
            prop_assert!(!job.plan().options.rw.does[1] || drive.zones.iter().filter(its).find(is_rest).is_none());
            prop_assert!(own == 0 || jobs.len() > 1 || counts.most_open as u64 <= own + 3, "{}", counts.most_open);
        }
    }
}
