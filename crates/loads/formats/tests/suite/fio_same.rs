//! Beside fio itself: the same job file does the same work. fio runs on a file and logs its I/Os.

#![expect(clippy::disallowed_methods, reason = "fio reads and writes files")]
use crate::common::zoned;

use crate::common::{Run, job, run};
use load_formats::fio::JobFile;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use testkit::skipped;
use workload::Verb;

/// What was done: direction, offset, bytes.
type IssuedRequests = Vec<(Verb, u64, u64)>;

/// What fio does with a job on a file that it makes, or, where the job takes a percentage, on one of 64 MiB.
fn fio(dir: &Path, lines: &str) -> IssuedRequests {
    let (job, log, target) = (dir.join("job.fio"), dir.join("log"), dir.join("target"));
    let _ = std::fs::remove_file(&log);
    let _ = std::fs::remove_file(&target);
    if lines.contains('%') {
        std::fs::File::create(&target).unwrap().set_len(64 << 20).unwrap();
    } else if lines.contains("zonemode") {
        // fio gives a file zones that it keeps to.
        std::fs::File::create(&target).unwrap().set_len(zoned::ZONES * zoned::ZONE * zoned::BLOCK).unwrap();
    }
    let head = format!("ioengine=psync\nfilename={}\nwrite_iolog={}", target.display(), log.display());
    std::fs::write(&job, format!("[x]\n{head}\n{lines}\n")).unwrap();
    let output = Command::new("fio").arg(&job).current_dir(dir).output().unwrap();
    assert!(output.status.success(), "{lines}: {}", String::from_utf8_lossy(&output.stdout));
    let log = std::fs::read_to_string(&log).unwrap();
    let parse = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        // "time file action offset length" in the third version of the format, without time before.
        let at =
            words.iter().position(|word| matches!(*word, "read" | "write" | "trim" | "sync" | "datasync"))?;
        let verb = match words[at] {
            "read" => Verb::Read,
            "write" => Verb::Write,
            "trim" => Verb::Trim,
            _ => return Some((Verb::Flush, 0, 0)),
        };
        Some((verb, words[at + 1].parse().unwrap(), words[at + 2].parse().unwrap()))
    };
    log.lines().filter_map(parse).collect()
}

fn ours(lines: &str) -> IssuedRequests {
    let run: Run = run(job(lines), 1000);
    let done = run.issued.iter().map(|(_, r)| (r.verb, r.lba * 512, u64::from(r.blocks) * 512));
    done.collect()
}

/// What fio does with a job on a file with the zones of the drive in memory, and what we do on that drive.
fn on_zones(dir: &Path, lines: &str) -> (IssuedRequests, IssuedRequests) {
    let sizes =
        format!("zonesize={}\nzonecapacity={}", zoned::ZONE * zoned::BLOCK, zoned::CAPACITY * zoned::BLOCK);
    let fios = fio(dir, &format!("zonemode=zbd\n{sizes}\n{lines}"));
    let mut drive = zoned::ZonedDrive::new(zoned::empty(), 6, 1);
    drive.threshold = 500_000;
    zoned::run(lines, &mut drive).unwrap();
    let moves = drive.counts.issued.iter().filter(|(_, r)| r.blocks > 0);
    let ours = moves.map(|(_, r)| (r.verb, r.lba * 512, u64::from(r.blocks) * 512)).collect();
    (ours, fios)
}

/// fio, if it is there.
fn with_fio(name: &str, test: impl Fn(&Path)) {
    if Command::new("fio").arg("--version").output().is_err() {
        return skipped(name, "fio is not installed");
    }
    test(tempfile::tempdir().unwrap().path());
}

fn bytes(done: &IssuedRequests, verb: Verb) -> u64 {
    done.iter().filter(|(of, ..)| *of == verb).map(|(_, _, bytes)| bytes).sum()
}

/// What fio says of its options: the name of each, with which a line begins.
fn names(help: &[&str]) -> Vec<String> {
    let output = Command::new("fio").args(help).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let of = |line: &str| line.split_once(" : ").map(|(name, _)| name.trim().to_owned());
    text.lines().filter_map(of).filter(|name| !name.contains(' ')).collect()
}

/// Each option of fio and of its engines is used, ignored with a note, or refused with a reason; none is taken for a mistake.
#[test]
fn every_option_of_fio_is_known() {
    with_fio("every_option_of_fio_is_known", |_| {
        let mut all = names(&["--cmdhelp"]);
        let engines = Command::new("fio").arg("--enghelp").output().unwrap();
        for engine in String::from_utf8_lossy(&engines.stdout).lines().skip(1).map(str::trim) {
            all.extend(names(&[&format!("--enghelp={engine}")]));
        }
        assert!(all.len() > 200, "fio names {} options", all.len());
        for name in all {
            let file = JobFile::parse(&format!("[a]\n{name}=1\n"), &|_| None).unwrap();
            let said = file.jobs().map_or_else(|error| error.to_string(), |jobs| jobs.notes.concat());
            assert!(!said.contains("there is no option"), "{said}");
        }
    });
}

#[test]
fn jobs_in_order_are_the_same_io_for_io() {
    with_fio("jobs_in_order_are_the_same_io_for_io", |dir| {
        for lines in [
            "rw=read\nsize=1m",
            "rw=write\nbs=12k\nsize=1m\nloops=2",
            "rw=write\nsize=64k\nio_size=200k\noffset=1m",
            "rw=read\nsize=10%\nbs=64k\noffset=25%",
            "rw=write\nsize=10k\nio_size=22k",
            "rw=write\nsize=10k\nloops=2",
            "rw=write\nsize=1m\nnumber_ios=20\nfsync=7",
            "rw=read\nsize=16m\nnumber_ios=1k\nbs=2k",
            "rw=write\nsize=256k\nfdatasync=16",
            "rw=write\nsize=1m\nnumber_ios=1000\nio_size=8m\nbs=16k",
            "rw=read\nbs=4k,8k\nsize=256k",
            "rw=write\nbs=4k,8k\nsize=256k",
        ] {
            let (ours, fios) = (ours(lines), fio(dir, lines));
            let first = ours.iter().zip(&fios).position(|(ours, fios)| ours != fios);
            let first = first.map(|at| (at, ours[at], fios[at]));
            assert!(
                ours == fios,
                "{lines}: {} and {} I/Os, first difference {first:?}",
                ours.len(),
                fios.len()
            );
        }
    });
}

#[test]
fn jobs_on_zones_do_the_same() {
    with_fio("jobs_on_zones_do_the_same", |dir| {
        for lines in [
            "rw=write\nbs=8k",
            "rw=write\nbs=8k\nsize=3z\noffset=1z\nloops=2",
            "rw=write\nbs=16k\nsize=4z\nnumber_ios=9",
            "rw=write\nbs=4k\noffset=70k\nsize=200k",
            "rw=write\nbs=16k\nsize=4z\nverify=crc32c",
            "rw=write\nbs=16k\nsize=2z\nfsync=2",
            "rw=write\nbs=16k\nsize=4z\nio_size=500k",
        ] {
            let (ours, fios) = on_zones(dir, lines);
            let fios: IssuedRequests = fios.into_iter().filter(|(verb, ..)| *verb != Verb::Flush).collect();
            assert_eq!(ours, fios, "{lines}");
        }
        for lines in [
            "rw=randwrite\nbs=4k",
            "rw=randwrite\nbs=4k\nsize=5z\nmax_open_zones=2\nio_size=1m",
            "rw=randwrite\nbs=4k\nsize=5z\nverify=md5",
            "rw=randwrite\nbs=4k\nzone_reset_threshold=0.5\nzone_reset_frequency=0.1\nio_size=2m",
        ] {
            let (ours, fios) = on_zones(dir, lines);
            for verb in [Verb::Read, Verb::Write] {
                assert_eq!(bytes(&ours, verb), bytes(&fios, verb), "{lines}");
            }
            // In each zone from its start on, and again from there when it was reset.
            for done in [&ours, &fios] {
                let mut ends = BTreeMap::new();
                for (_, offset, bytes) in done.iter().filter(|(verb, ..)| *verb == Verb::Write) {
                    let zone = offset / (zoned::ZONE * zoned::BLOCK);
                    let start = zone * zoned::ZONE * zoned::BLOCK;
                    let end = ends.insert(zone, offset + bytes).unwrap_or(start);
                    assert!(*offset == end || *offset == start, "{lines}: {offset} after {end}");
                }
            }
        }
    });
}

#[test]
fn random_jobs_do_as_much_in_the_same_places() {
    with_fio("random_jobs_do_as_much_in_the_same_places", |dir| {
        for lines in [
            "rw=randread\nsize=1m",
            "rw=randwrite\nsize=1m\nloops=3",
            "rw=randwrite\nsize=1m\nio_size=2500k",
            "rw=randwrite\nsize=1m\nio_size=512k\nloops=2",
            "rw=randwrite\nsize=1m\nbssplit=4k/50:64k/50",
            "rw=randwrite\nsize=1m\nbs=16k\noffset=1m\nnumber_ios=1000",
            "rw=randread\nsize=10k\nio_size=20k",
        ] {
            let (ours, fios) = (ours(lines), fio(dir, lines));
            for verb in [Verb::Read, Verb::Write] {
                assert_eq!(bytes(&ours, verb), bytes(&fios, verb), "{lines}");
            }
            if lines.contains("io_size") {
                continue;
            }
            // How often each 4 KiB was visited.
            let visits = |done: &IssuedRequests| {
                let mut visits = BTreeMap::new();
                for (_, offset, bytes) in done {
                    (offset / 4096..(offset + bytes) / 4096)
                        .for_each(|at| *visits.entry(at).or_insert(0) += 1);
                }
                visits
            };
            assert_eq!(visits(&ours), visits(&fios), "{lines}");
        }
    });
}

#[test]
fn mixes_have_the_same_shares() {
    with_fio("mixes_have_the_same_shares", |dir| {
        for lines in [
            "rw=randrw\nsize=16m\nrwmixread=70",
            "rw=randrw\nsize=16m\nrwmixwrite=90\nio_size=8m",
            "rw=rw\nsize=16m\nrwmixread=30",
            "rw=randread\nnorandommap\nbssplit=4k/60:16k/30:64k/10\nsize=32m",
            "rw=randread\nnorandommap\nbsrange=4k-16k\nsize=32m",
            "rw=randwrite\nnorandommap\nsize=16m",
        ] {
            let (ours, fios) = (ours(lines), fio(dir, lines));
            // Shares of directions and block sizes among 1,000 I/Os, and of halves of the region.
            let shares = |done: &IssuedRequests| {
                let mut shares: BTreeMap<(usize, u64), u64> = BTreeMap::new();
                let end = done.iter().map(|(_, offset, bytes)| offset + bytes).max().unwrap_or(1);
                for (verb, offset, bytes) in done {
                    *shares.entry((usize::from(*verb == Verb::Read), *bytes)).or_default() += 1;
                    *shares.entry((2, 2 * offset / end)).or_default() += 1;
                }
                shares.values_mut().for_each(|share| *share = *share * 1000 / done.len() as u64);
                shares
            };
            let (ours, fios) = (shares(&ours), shares(&fios));
            assert!(ours.keys().eq(fios.keys()), "{lines}: {ours:?} {fios:?}");
            for (key, share) in &ours {
                assert!(share.abs_diff(fios[key]) <= 45, "{lines}: {key:?}: {ours:?} {fios:?}");
            }
        }
    });
}

/// The shape of skewed distributions: which share of the accesses the hottest tenth of the places takes.
#[test]
fn skewed_places_are_as_skewed() {
    with_fio("skewed_places_are_as_skewed", |dir| {
        for lines in [
            "rw=randread\nsize=8m\nio_size=64m\nrandom_distribution=zipf:0.8",
            "rw=randread\nsize=8m\nio_size=64m\nrandom_distribution=zipf:1.2",
            "rw=randread\nsize=8m\nio_size=64m\nrandom_distribution=pareto:0.2",
            "rw=randread\nsize=8m\nio_size=64m\nrandom_distribution=zoned:60/10:30/20:10/70",
        ] {
            let hottest = |done: &IssuedRequests| {
                let mut counts = vec![0u64; 2048];
                done.iter().for_each(|(_, offset, _)| counts[usize::try_from(offset / 4096).unwrap()] += 1);
                counts.sort_unstable_by(|a, b| b.cmp(a));
                counts[..204].iter().sum::<u64>() * 100 / done.len() as u64
            };
            let (ours, fios) = (hottest(&ours(lines)), hottest(&fio(dir, lines)));
            assert!(ours.abs_diff(fios) <= 8, "{lines}: {ours} % {fios} %");
        }
    });
}
