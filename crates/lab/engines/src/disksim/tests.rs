//! A disk that does not exist, its parameter files, and a trace that a model of it makes.

use std::path::{Path, PathBuf};

use media::Nanos;
use media::disk::Op;
use media::disk::cache::{Extent, ReadAhead};
use media::disk::service::State;
use rng::Rng;

use super::check::compare;
use super::params::{Block, parse_text};
use super::spec::{self, Spec};
use super::trace::{self, Measured};

fn files() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/disksim")
}

fn small() -> Spec {
    spec::read(&files().join("small.diskspecs")).unwrap()
}

/// The text of a file with one part in another form.
fn changed(file: &str, from: &str, to: &str) -> String {
    let text = std::fs::read_to_string(files().join(file)).unwrap();
    assert!(text.contains(from), "{from}");
    text.replace(from, to)
}

/// The disk with one part of one of its files in another form.
fn with_file(file: &str, from: &str, to: &str) -> anyhow::Result<Spec> {
    let dir = tempfile::tempdir().unwrap();
    for name in ["small.diskspecs", "small.model", "small.seek"] {
        std::fs::copy(files().join(name), dir.path().join(name)).unwrap();
    }
    std::fs::write(dir.path().join(file), changed(file, from, to)).unwrap();
    spec::read(&dir.path().join("small.diskspecs"))
}

/// The disk whose `.model` has one part in another form.
fn with(from: &str, to: &str) -> anyhow::Result<Spec> {
    with_file("small.model", from, to)
}

fn fails(from: &str, to: &str) -> String {
    format!("{:#}", with(from, to).map(|_| ()).unwrap_err())
}

#[test]
fn parameter_files_become_a_model() {
    let spec = small();
    assert_eq!(spec.name, "SMALL");
    let mechanism = &spec.model.mechanism;
    let geometry = &mechanism.geometry;
    // 50 ranges of 4,000 sectors less 20 spares, and 40 of 3,280.
    assert_eq!((geometry.blocks(), geometry.cylinders()), (50 * 3980 + 40 * 3260, 901));
    assert_eq!(spec.notes, ["the files state 328800 blocks, and the zones have 329400"]);
    assert_eq!(geometry.place(50 * 3980).cylinder, 501);
    let remapped = geometry.place(50 * 3980 + 777);
    assert_eq!((remapped.cylinder, remapped.head, remapped.sector), (510, 3, 72));
    let seek = &mechanism.positioning.seek;
    let ms = |op: usize, distance| seek[op][0].time(distance).0 as f64 / 1e6;
    assert_eq!((ms(0, 1), ms(0, 5), ms(1, 5)), (1.0, 1.2, 1.7));
    assert!((ms(0, 30) - 2.05).abs() < 1e-6 && (ms(0, 900) - 10.0).abs() < 1e-6);
    assert_eq!(mechanism.positioning.on_cylinder[1][0].head_switch, Nanos(1_300_000));
    assert_eq!(spec.model.overheads.command[1][1], [Nanos(400_000), Nanos(350_000)]);
    assert!(spec.model.write_cache);
    let cache = spec.cache;
    assert_eq!((cache.read_ahead, cache.extent), (ReadAhead::Always, Extent::Blocks(128)));
    assert!(cache.keeps_read && cache.written == 1);
}

#[test]
fn all_ways_to_give_seek_times_are_read() {
    let curve = "Seek type = extracted,\n      Full seek curve = small.seek";
    let time = |to: &str, distance| {
        let spec = with(curve, to).unwrap();
        spec.model.mechanism.positioning.seek[0][0].time(distance).0 as f64 / 1e6
    };
    let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-3, "{a} {b}");
    close(time("Seek type = constant, Constant seek time = 5", 7), 5.0);
    let three = "Single cylinder seek time = 1.0, Average seek time = 6.0, Full strobe seek time = 12.0";
    close(time(&format!("Seek type = linear, {three}"), 1), 1.0);
    close(time(&format!("Seek type = linear, {three}"), 900), 12.0);
    close(time(&format!("Seek type = curve, {three}"), 1), 1.0);
    // (-10 + 90 - 60) / (3 sqrt(901)) * sqrt(899) + (7 - 90 + 96) / (3 * 901) * 899 + 1
    close(time(&format!("Seek type = curve, {three}"), 900), 11.983);
    let hpl = "HPL seek equation values = [ 100, 2.0, 0.5, 5.0, 0.01, -1.0 ]";
    close(time(&format!("Seek type = hpl, {hpl}"), 1), 2.5);
    close(time(&format!("Seek type = hpl, {hpl}"), 25), 4.5);
    close(time(&format!("Seek type = hpl, {hpl}"), 300), 8.0);
    let ten = "First ten seek times = [ 1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8, 1.9 ]";
    close(time(&format!("Seek type = hplplus10, {hpl}, {ten}"), 10), 1.9);
    close(time(&format!("Seek type = hplplus10, {hpl}, {ten}"), 25), 4.5);
}

#[test]
fn all_sparing_schemes_and_mappings_are_read() {
    let blocks = |scheme: u32| {
        let scheme = format!("Sparing scheme used = {scheme}");
        with("Sparing scheme used = 8", &scheme).unwrap().model.mechanism.geometry.blocks()
    };
    let all = 500 * 400 + 400 * 328;
    assert_eq!(blocks(0), all - 2);
    assert_eq!(blocks(3), all - 20 * (2000 + 1600));
    assert_eq!(blocks(2), all - 20 * 900);
    assert_eq!((blocks(4), blocks(5), blocks(6)), (all - 20 * 900 - 2, all - 20 * 900, all - 20 * 900 - 2));
    assert_eq!((blocks(7), blocks(9), blocks(10)), (all - 2, all - 40, all - 42));
    for scheme in [1, 2] {
        let mapping = format!("LBN-to-PBN mapping scheme = {scheme}");
        let spec = with("LBN-to-PBN mapping scheme = 0", &mapping).unwrap();
        assert_eq!(spec.model.mechanism.geometry.place(400).head, 3, "cylinder 1 begins with the last head");
    }
    let turns = with("Skew for track switch = 20.0", "Skew units = revolutions, Skew for track switch = 0.2");
    let plain = small().model.mechanism.geometry.skew(0).head;
    let off = turns.unwrap().model.mechanism.geometry.skew(0).head - plain;
    assert!(off.0.min(off.0.wrapping_neg()) < 1 << 20);
}

#[test]
fn layouts_as_trees_are_read() {
    let model = std::fs::read_to_string(files().join("small.model")).unwrap();
    let (start, end) = (model.find("dm_layout_g1 {").unwrap(), model.find("   Mechanical Model").unwrap());
    let zoned = &model[start..end];
    let tree = "dm_layout_g4 {
      TP = [ 0, 99, 100, 0, 81, 82 ],
      IDX = [
         [ 0, 0, 0.0, 100, 1, 0.2, 100, 1, TRACK, 0, 0,
           100, 0, 0.2, 100, 1, 0.2, 100, 1, TRACK, 0, 1 ],
         [ 0, 0, 0.0, 82, 1, 0.5, 82, 1, TRACK, 1, 0 ],
         [ 0, 0, 0.0, 200, 1, 0.7, 1000, 5, IDX, 0,
           1000, 5, 0.25, 82, 1, 0.5, 820, 10, IDX, 1 ]
      ],
      Slips = [ 150, 1 ],
      Remaps = [ 7, 1, 9, 0, 3, 82 ]
   },
";
    let read = |tree: &str| with(zoned, tree).map(|spec| spec.model.mechanism.geometry);
    assert_eq!(read(tree).unwrap().blocks(), 1819, "what the layout covers, not the 328,800 that are stated");
    let dir = tempfile::tempdir().unwrap();
    let model = model.replace(zoned, tree).replace("Block count = 328800", "Block count = 1800");
    std::fs::write(dir.path().join("small.model"), &model).unwrap();
    for name in ["small.diskspecs", "small.seek"] {
        std::fs::copy(files().join(name), dir.path().join(name)).unwrap();
    }
    let geometry = spec::read(&dir.path().join("small.diskspecs")).unwrap().model.mechanism.geometry;
    let place = |block| {
        let p = geometry.place(block);
        (p.cylinder, p.head, p.sector)
    };
    assert_eq!((geometry.blocks(), geometry.zones()), (1800, 2));
    assert_eq!((place(149), place(150), place(7)), ((0, 1, 49), (0, 1, 51), (9, 0, 3)));
    assert_eq!((place(199), place(1000), place(1081)), ((1, 0, 0), (5, 0, 1), (6, 0, 0)));
    let angle = |block: u64| geometry.place(block).angle.0 as f64 / 2f64.powi(64);
    assert!((angle(199) - 0.7).abs() < 1e-9 && (angle(1081) - 0.75).abs() < 1e-9);
    for (from, to) in [("TRACK, 0, 0", "TRACKS, 0, 0"), ("TP = [ 0,", "TP = ["), ("IDX, 1 ]", "IDX, 2 ]")] {
        assert!(!format!("{:#}", read(&tree.replace(from, to)).map(|_| ()).unwrap_err()).is_empty());
    }
}

#[test]
fn messages_name_the_file_and_the_line() {
    let has = |error: String, parts: &[&str]| {
        assert!(parts.iter().all(|p| error.contains(p)), "{error}");
    };
    has(
        fails("Number of data surfaces = 4", "Number of data surfaces = 0"),
        &["small.model:2", "not in 1..="],
    );
    has(fails("Number of data surfaces = 4,", ""), &["small.model:1", "no 'Number of data surfaces'"]);
    has(fails("Blocks per track = 82", "Blocks per track = many"), &["small.model:26", "not a word"]);
    has(fails("Last cylinder number = 499", "Last cylinder number = 502"), &["cylinder 501 belongs"]);
    has(fails("defects = [ 777, 3270 ]", "defects = [ 777 ]"), &["small.model:33", "pairs"]);
    has(fails("Full seek curve = small.seek", "Full seek curve = none.seek"), &["none.seek"]);
    has(fails("dm_mech_g1", "dm_mech_g9"), &["dm_mech_g9"]);
    has(fails("Seek type = extracted", "Seek type = quick"), &["seek type 'quick'", "small.model:39"]);
    has(fails("= 7200", "= 7200 7200"), &["small.model:47", "'7200'"]);
    has(
        fails("Rotation speed (in rpms) = 7200", "Rotation speed (in rpms) = 7"),
        &["small.model:47", "7 rpm"],
    );
    has(fails("dm_layout_g1 {", "dm_layout_g2 {"), &["dm_layout_g2", "small.model:5"]);
    let missing = spec::read(&files().join("missing.diskspecs")).map(|_| ()).unwrap_err();
    has(format!("{missing:#}"), &["missing.diskspecs"]);
    has(format!("{:#}", spec::read(&files().join("small.seek")).map(|_| ()).unwrap_err()), &["small.seek:1"]);
    has(
        format!("{:#}", spec::read(&files().join("small.model")).map(|_| ()).unwrap_err()),
        &["disksim_disk"],
    );
}

/// DiskSim takes more than it writes, and so do people who write such files.
#[test]
fn what_disksim_takes_is_taken() {
    let plain = small();
    let seek = |spec: &Spec, d| spec.model.mechanism.positioning.seek[0][0].time(d).0;
    let same_seeks = |spec: &Spec| (1..901).all(|d| seek(spec, d) == seek(&plain, d));
    let of_seeks = |from: &str, to: &str| with_file("small.seek", from, to);
    for (from, to) in [
        ("Seek distances measured: 8\n", ""),
        ("10,\t1.6", "10, 1.600000, 0.012500"),
        ("10,\t1.6", "10 1.6"),
        ("10,\t1.6\n50,\t2.5", "# a remark\n\n50,\t2.5\n10,\t1.6\n10,\t1.7"),
    ] {
        let spec = of_seeks(from, to).unwrap();
        assert!(same_seeks(&spec) && spec.notes == plain.notes, "{to}: {:?}", spec.notes);
    }
    let spec = of_seeks("900,\t10.0", "900,\t10.0\nend of file").unwrap();
    assert!(same_seeks(&spec) && spec.notes.iter().any(|n| n.contains("small.seek:10: 'end of file'")));
    let cut = of_seeks("200,\t4.5\n500,\t7.0\n900,\t10.0", "200,\t4").map(|_| ()).unwrap_err();
    assert!(format!("{cut:#}").contains("6 seek times of the 8"), "{cut:#}");

    let sparse = |from: &str, to: &str| with(from, to).unwrap();
    let settle = sparse("Add. write settling delay = 0.5", "Add. write settling delay = .5");
    assert_eq!(settle.model.mechanism.positioning, plain.model.mechanism.positioning);
    let speed = sparse("Rotation speed (in rpms) = 7200", "Rotation speed (in rpms) = +7200.5");
    let [before, after] = [&plain, &speed].map(|s| s.model.mechanism.spindle.revolution().0);
    assert!((500..700).contains(&(before - after)), "{before} {after}");
    let last = sparse("Head switch time = 0.8", "Head switch time = 5.0, Head switch time = 0.8");
    assert_eq!(last.model.mechanism.positioning, plain.model.mechanism.positioning);
    assert!(last.notes[0].contains("small.model:46") && last.notes[0].contains("the last one counts"));
    let none = sparse(
        "Empty space at zone front = 0,\n            Skew for track switch = 17",
        "Skew for track switch = 17",
    );
    assert_eq!(none.model.mechanism.geometry.blocks(), plain.model.mechanism.geometry.blocks());
    let outside = sparse("slips = [ 4321, 150123 ]", "slips = [ 4321.0, 150123, 200000 ]");
    assert_eq!(outside.model.mechanism.geometry.blocks(), plain.model.mechanism.geometry.blocks());
    assert!(outside.notes[0].contains("1 slips or defects are outside"), "{:?}", outside.notes);
    let range = "Sparing scheme used = 8,\n      Rangesize for sparing = 10";
    assert!(with(range, "Sparing scheme used = 9, Rangesize for sparing = 0").is_ok());
    assert!(with(range, "Sparing scheme used = 8, Rangesize for sparing = 0").is_err());
    let moved = with_file("small.diskspecs", "source small.model", "source ../disks/small.model").unwrap();
    assert_eq!(moved.notes, plain.notes);
    let negative = "Write hit over. after write = -0.1";
    let negative = with_file("small.diskspecs", "Write hit over. after write = 0.35", negative).unwrap();
    assert_eq!(negative.model.overheads.command[1][1][1], Nanos(0));
    assert!(negative.notes.iter().any(|n| n.contains("'Write hit over. after write' makes -0.1 ms")));
    assert!(with_file("small.diskspecs", "disksim_disk SMALL {", "disksim_disk {").is_ok());
}

#[test]
fn requests_behind_the_last_zone_are_at_its_end() {
    let spec = with("Block count = 328800", "Block count = 400000").unwrap();
    assert_eq!((spec.blocks, spec.model.mechanism.geometry.blocks()), (400_000, 329_400));
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t");
    std::fs::write(&path, "R Hit 399996 4 1000 20\nR Hit 329398 2 1000 20\n").unwrap();
    let mut requests = trace::read(&path, spec.blocks).unwrap();
    assert_eq!(trace::move_back(&mut requests, spec.model.mechanism.geometry.blocks()), 1);
    assert_eq!((requests[0].block, requests[1].block), (329_396, 329_398));
    assert_eq!(compare(&spec, &requests).requests, 2);
    assert_eq!((trace::move_back(&mut requests, 3), requests[0].count), (2, 3), "a disk of three blocks");
}

#[test]
fn a_file_cannot_source_itself_for_ever() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a"), "x y { z = source a }").unwrap();
    let error = format!("{:#}", spec::read(&dir.path().join("a")).map(|_| ()).unwrap_err());
    assert!(error.contains("source each other"), "{error}");
    let deep = format!("a b {{ c = {} }}", "[".repeat(100));
    assert!(parse_text(&deep).unwrap_err().to_string().contains("nested"));
}

#[test]
fn traces_are_checked_line_by_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t");
    let read = |text: &str| {
        std::fs::write(&path, text).unwrap();
        trace::read(&path, 1000)
    };
    let good = read("R Hit 10 4 1000.5 20\n\nW Miss 996 4 1 0\n").unwrap();
    assert_eq!(good[0].response, Nanos(1_000_500));
    assert_eq!((good[1].op, good[1].block, good[1].count), (Op::Write, 996, 4));
    for (text, part) in [
        ("", "no request"),
        ("R Hit 10 4 1000", "t:1: expected R|W"),
        ("R Hit 10 4 1 1\nX Hit 10 4 1 1", "t:2: 'X'"),
        ("R Hit -1 4 1 1", "'-1' is no block"),
        ("R Hit 1 0 1 1", "'0' is no number"),
        ("R Hit 997 4 1 1", "t:1: 4 blocks from 997"),
        ("R Hit 1 4 -1 1", "times in microseconds"),
        ("R Hit 1 4 1e99 1", "times in microseconds"),
        ("R Hit 1 4 NaN 1", "times in microseconds"),
    ] {
        let error = format!("{:#}", read(text).unwrap_err());
        assert!(error.contains(part), "{text}: {error}");
    }
}

/// Whatever stands in a parameter file, the answer is a disk or a message. Rounds: `TRANCHE_DISKSIM_ROUNDS`.
#[test]
fn no_text_makes_the_reader_panic() {
    let rounds = std::env::var("TRANCHE_DISKSIM_ROUNDS").ok().and_then(|r| r.parse().ok()).unwrap_or(300);
    let model = std::fs::read_to_string(files().join("small.model")).unwrap();
    let disk = std::fs::read_to_string(files().join("small.diskspecs")).unwrap();
    let seek = format!("{}", files().join("small.seek").display());
    let whole = disk.replace("source small.model", &model).replace("small.seek", &seek);
    let pieces: Vec<&str> = whole.split_inclusive(|c: char| !c.is_alphanumeric()).collect();
    let odd =
        ["{", "}", "[", "]", ",", "=", "-1", "0", "99999999999", "1e300", "nan", "#", "\n", "source ", "é"];
    for seed in 0..rounds {
        let mut rng = Rng::new(seed);
        let mut text: Vec<&str> = pieces.clone();
        for _ in 0..=rng.below(4) {
            let at = rng.below(text.len() as u64) as usize;
            let piece = odd[rng.below(odd.len() as u64) as usize];
            match rng.below(4) {
                0 => text[at] = piece,
                1 => text.insert(at, piece),
                2 => drop(text.remove(at)),
                _ => text.truncate(at + 1),
            }
        }
        let text = text.concat();
        let outcome = parse_text(&text).and_then(|blocks| match blocks.first() {
            Some((name, block)) => disk_of(name, block).map(|_| ()),
            None => Ok(()),
        });
        if let Err(error) = outcome {
            let error = format!("{error:#}");
            assert!(error.contains("text"), "seed {seed}: no place in: {error}");
        }
    }
}

fn disk_of(name: &str, block: &Block) -> anyhow::Result<Spec> {
    spec::of_block(name, block)
}

/// A trace that the model of the files makes agrees with it.
#[test]
fn the_model_is_as_the_files_state_it() {
    let spec = small();
    let (model, mut state) = (&spec.model, State::new(spec.cache));
    let mut rng = Rng::new(7);
    let mut now = Nanos::ZERO;
    let mut trace = Vec::new();
    for _ in 0..500 {
        let op = if rng.below(3) == 0 { Op::Write } else { Op::Read };
        let (block, count) = (rng.below(model.mechanism.geometry.blocks() - 200), 4);
        let think = Nanos(15_000_000 + rng.below(40_000_000));
        let plan = model.plan(&state, now, op, block, count);
        model.commit(&mut state, &plan);
        let response = plan.complete.since(now);
        trace.push(Measured { op, block, count, response, think });
        now = plan.complete + think;
    }
    let stated = compare(&spec, &trace).stated;
    assert_eq!((stated.demerit_ms, stated.rms_request_error_ms), (0.0, 0.0), "{stated:?}");
    for request in &mut trace {
        request.response += Nanos(1_000_000);
    }
    let later = compare(&spec, &trace).stated;
    assert!(
        (later.demerit_ms - 1.0).abs() < 1e-9 && later.model_mean_ms < later.measured_mean_ms,
        "{later:?}"
    );
}

#[test]
fn parameters_that_the_model_has_nothing_for_are_unknown() {
    let names = |spec: &Spec| -> Vec<String> {
        spec.unknown.iter().map(|one| one.split('\'').nth(1).unwrap().to_owned()).collect()
    };
    let spec = small();
    assert_eq!(
        names(&spec),
        ["Percent error in rpms", "Hold bus entire read xfer", "Max queue length", "Scheduler"]
    );
    assert!(spec.unknown[2].contains("small.diskspecs:9"), "{:?}", spec.unknown);
    let zones = with("Number of spares = 20", "Number of spares = 20, Colour = 3").unwrap();
    assert_eq!(names(&zones)[0], "Colour", "once, although both zones have it");
    let bus = with_file("small.diskspecs", "   Bulk sector transfer time = 0.1,\n", "").unwrap();
    assert!(bus.notes.iter().any(|note| note.contains("no time of a block on the bus")), "{:?}", bus.notes);
}
