use super::*;

fn zone(cylinders: std::ops::RangeInclusive<u32>, track_sectors: u32) -> ZoneConfig {
    ZoneConfig {
        first_cylinder: *cylinders.start(),
        last_cylinder: *cylinders.end(),
        track_sectors,
        skew: Skew { group_cylinders: 1, ..Skew::default() },
        ..ZoneConfig::default()
    }
}

fn disk(sparing: Sparing, zones: Vec<ZoneConfig>) -> Geometry {
    Geometry::new(&GeometryConfig { surfaces: 2, heads: HeadOrder::Ascending, sparing, zones }).unwrap()
}

/// Cylinder, head and sector of each block.
fn places(geometry: &Geometry) -> Vec<(u32, u32, u32)> {
    (0..geometry.blocks()).map(|b| geometry.place(b)).map(|p| (p.cylinder, p.head, p.sector)).collect()
}

/// What a map must keep: places differ, are no slips, are not between zones, and runs agree with them.
fn check(geometry: &Geometry, slipped: &[(u32, u32, u32)]) {
    let all = places(geometry);
    let mut sorted = all.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(sorted.len(), all.len(), "two blocks on one sector");
    assert!(slipped.iter().all(|s| !all.contains(s)), "a block on a slipped sector");
    let mut block = 0;
    while block < geometry.blocks() {
        let run = geometry.run(block, 1000);
        let here = &all[block as usize..][..run.count as usize];
        assert!(here.iter().all(|p| (p.0, p.1) == (run.place.cylinder, run.place.head)), "block {block}");
        assert!(here.is_sorted(), "block {block}");
        assert_eq!(geometry.track_start(block), geometry.track_start(block + u64::from(run.count) - 1));
        block += u64::from(run.count);
    }
    for block in 0..geometry.blocks() {
        check_run(geometry, block);
    }
}

/// A run from any block on ends with the place of its last block, and the next block lies on another track, or before.
fn check_run(geometry: &Geometry, block: u64) {
    for most in 1..=8 {
        let run = geometry.run(block, most);
        let last = geometry.place(block + u64::from(run.count) - 1);
        assert_eq!(run.last, last, "{most} blocks from {block} on");
        assert!((1..=most).contains(&run.count) && last.straight > 0);
        let next = block + u64::from(run.count);
        if run.count < most && next < geometry.blocks() {
            let next = geometry.place(next);
            let on_track = (next.zone, next.cylinder, next.head) == (last.zone, last.cylinder, last.head);
            assert!(!on_track || next.sector <= last.sector, "{most} blocks from {block} on");
        }
    }
    let place = geometry.place(block);
    for further in 0..place.straight {
        let there = geometry.place(block + u64::from(further));
        let on_track = (there.cylinder, there.head) == (place.cylinder, place.head);
        assert!(on_track && there.sector == place.sector + further, "{further} behind {block}");
    }
}

#[test]
fn blocks_go_along_tracks_heads_and_cylinders_and_jump_over_gaps() {
    let geometry = disk(Sparing::None, vec![zone(0..=1, 3), zone(4..=4, 2)]);
    assert_eq!(geometry.blocks(), 12 + 4);
    let all = places(&geometry);
    assert_eq!(all[..4], [(0, 0, 0), (0, 0, 1), (0, 0, 2), (0, 1, 0)]);
    assert_eq!(all[11..14], [(1, 1, 2), (4, 0, 0), (4, 0, 1)]);
    check(&geometry, &[]);
    assert_eq!((geometry.track_end(1), geometry.track_start(2), geometry.cylinder_end(1)), (3, 0, 6));
}

#[test]
fn serpentine_cylinders_keep_the_head() {
    let config = |heads| GeometryConfig {
        surfaces: 2,
        heads,
        sparing: Sparing::None,
        zones: vec![zone(1..=2, 1), zone(3..=4, 1)],
    };
    let of_zone = Geometry::new(&config(HeadOrder::SerpentineInZone)).unwrap();
    assert_eq!(places(&of_zone).iter().map(|p| p.1).collect::<Vec<_>>(), [0, 1, 1, 0, 0, 1, 1, 0]);
    let of_disk = Geometry::new(&config(HeadOrder::Serpentine)).unwrap();
    assert_eq!(places(&of_disk).iter().map(|p| p.1).collect::<Vec<_>>(), [1, 0, 0, 1, 1, 0, 0, 1]);
    assert_eq!(of_disk.step(of_disk.place(0)), 0);
}

#[test]
fn spares_of_a_range_absorb_its_slips_only() {
    let mut config = zone(0..=4, 4);
    (config.spares, config.slips) = (2, vec![5, 16, 1]);
    let geometry = disk(Sparing::Range(2), vec![config]);
    // Two ranges of 16 sectors with 2 spares each, and a last one of 8 without.
    assert_eq!(geometry.blocks(), 14 + 14 + 8);
    let all = places(&geometry);
    assert_eq!(all[1], (0, 0, 2), "behind slip 1");
    assert_eq!(all[4], (0, 1, 2), "behind slip 5");
    assert_eq!(all[13], (1, 1, 3), "the last of the range uses the spares");
    assert_eq!(all[14], (2, 0, 1), "slip 16 is the first of the second range");
    assert_eq!(all[28], (4, 0, 0));
    check(&geometry, &[(0, 0, 1), (0, 1, 1), (2, 0, 0)]);
}

#[test]
fn slips_to_the_end_push_the_whole_zone() {
    let mut config = zone(0..=3, 4);
    (config.spares, config.slips) = (1, vec![2, 9]);
    let sparing = Sparing::Cylinder { front: false, slip_to_end: true };
    let geometry = disk(sparing, vec![config.clone()]);
    assert_eq!(geometry.blocks(), 4 * 7 - 2);
    let all = places(&geometry);
    assert_eq!(all[2], (0, 0, 3));
    assert_eq!(all[6], (1, 0, 0), "the sixth usable sector of the first cylinder is taken");
    assert_eq!(all[7], (1, 0, 2));
    check(&geometry, &[(0, 0, 2), (1, 0, 1)]);
    let front = Sparing::Cylinder { front: true, slip_to_end: false };
    config.slips = vec![9];
    let geometry = disk(front, vec![config]);
    let all = places(&geometry);
    assert_eq!(all[0], (0, 0, 1));
    assert_eq!(all[7..9], [(1, 0, 0), (1, 0, 2)], "the slip uses the spare at the front");
    assert_eq!(all[13..15], [(1, 1, 3), (2, 0, 1)]);
    check(&geometry, &[(1, 0, 1)]);
}

#[test]
fn whole_tracks_slip_and_are_remapped() {
    let mut config = zone(0..=2, 3);
    (config.spares, config.slips, config.remaps, config.reserved) = (2, vec![1], vec![(3, 5)], 3);
    let geometry = disk(Sparing::Tracks, vec![config]);
    assert_eq!(geometry.blocks(), 18 - 6 - 3);
    let all = places(&geometry);
    assert_eq!(all[0], (1, 0, 0), "track 0 is reserved, track 1 slipped");
    assert_eq!(all[3], (2, 1, 0), "track 3 lies on track 5");
    assert_eq!(all[6], (2, 0, 0));
    check(&geometry, &[(0, 1, 0)]);
}

#[test]
fn spares_of_tracks_zones_and_disks() {
    let mut config = zone(0..=1, 4);
    (config.spares, config.slips, config.remaps) = (1, vec![5], vec![(10, 15)]);
    let geometry = disk(Sparing::Track, vec![config.clone()]);
    assert_eq!(geometry.blocks(), 12);
    let all = places(&geometry);
    assert_eq!(all[3..6], [(0, 1, 0), (0, 1, 2), (0, 1, 3)]);
    assert_eq!(all[8], (1, 1, 3), "remapped to the last spare");
    let run = geometry.run(6, 9);
    assert_eq!(run.count, 2, "the remapped block is not on the track");
    config.remaps.clear();
    let geometry = disk(Sparing::Zone, vec![config.clone()]);
    assert_eq!(geometry.blocks(), 15);
    assert_eq!(places(&geometry)[14], (1, 1, 3));
    config.spares = 0;
    let geometry = disk(Sparing::None, vec![config]);
    assert_eq!(geometry.blocks(), 15, "a slip without spares costs a block");
    check(&geometry, &[(0, 1, 1)]);
}

#[test]
fn skews_say_where_tracks_start() {
    let mut config = zone(0..=3, 8);
    let eighth = |n| Angle::of(n, 8);
    config.skew = Skew::of_switches(eighth(1), eighth(2), eighth(3), 2, 1);
    let geometry = disk(Sparing::None, vec![config.clone()]);
    let angle = |block| geometry.place(block).angle;
    assert_eq!(angle(0), eighth(1));
    assert_eq!(angle(3), eighth(4));
    assert_eq!(angle(8), eighth(3), "a track switch");
    assert_eq!(angle(16), eighth(6), "and a cylinder switch");
    assert_eq!(angle(48), eighth(8));
    config.skew = Skew { cylinder: eighth(1), group: eighth(3), group_cylinders: 2, ..config.skew };
    let geometry = disk(Sparing::None, vec![config]);
    let angle = |block| geometry.place(block).angle;
    assert_eq!((angle(16), angle(32), angle(48)), (eighth(2), eighth(4), eighth(5)));
}

#[test]
fn impossible_shapes_are_refused() {
    let error = |config: GeometryConfig| Geometry::new(&config).unwrap_err().to_string();
    let one = |surfaces, sparing, zones| GeometryConfig { surfaces, sparing, zones, ..Default::default() };
    assert!(error(one(0, Sparing::None, vec![zone(0..=1, 3)])).contains("0 surfaces"));
    assert!(error(one(1, Sparing::None, vec![])).contains("needs a zone"));
    assert!(
        error(one(1, Sparing::None, vec![zone(0..=1, 3), zone(1..=2, 3)])).contains("zone 2: cylinder 1")
    );
    assert!(error(one(1, Sparing::None, vec![zone(0..=1, 0)])).contains("0 sectors a track"));
    assert!(error(one(1, Sparing::Range(0), vec![zone(0..=1, 3)])).contains("range of 0"));
    let with = |change: fn(&mut ZoneConfig)| {
        let mut config = zone(0..=1, 3);
        change(&mut config);
        vec![config]
    };
    assert!(error(one(1, Sparing::Track, with(|z| z.spares = 3))).contains("3 spares"));
    assert!(error(one(1, Sparing::None, with(|z| z.slips = vec![6]))).contains("slip or remap 6"));
    assert!(error(one(1, Sparing::None, with(|z| z.reserved = 6))).contains("no room"));
    assert!(
        error(one(1, Sparing::Zone, with(|z| (z.spares, z.slips) = (1, vec![1, 3])))).contains("more slips")
    );
}
