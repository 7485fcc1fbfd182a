//! A job that verifies finds nothing wrong on a correct drive. Random jobs end by bytes, by I/Os, by loops and by time.
//!
//!     TRANCHE_VERIFY_ROUNDS=100000 cargo test -p load-formats --test suite fio_verify::   (a campaign)
//!     TRANCHE_VERIFY_SEED=42 cargo test -p load-formats --test suite fio_verify::      (repeats one seed)

use crate::common::{SPACE, job};
use load_formats::fio::Job;
use std::fmt::Write as _;
use workload::{Actor, Next, Request, Rng, Verb};

/// Does what is outstanding in any order.
struct MemoryDrive {
    bytes: Vec<u8>,
    outstanding: Vec<(Request, Vec<u8>)>,
}

impl MemoryDrive {
    fn submit(&mut self, job: &Job, request: Request) {
        let mut data = vec![0; request.blocks as usize * 512];
        if request.verb == Verb::Write {
            assert!(job.fill(request.tag, 0, &mut data));
        }
        self.outstanding.push((request, data));
    }

    fn complete(&mut self, job: &mut Job, now: u64, which: usize) {
        let (request, data) = self.outstanding.swap_remove(which);
        let first = usize::try_from(request.lba).unwrap() * 512;
        let place = first..first + request.blocks as usize * 512;
        match request.verb {
            Verb::Write => self.bytes[place].copy_from_slice(&data),
            Verb::Trim => self.bytes[place].fill(0),
            Verb::Read => job.check(request.tag, 0, &self.bytes[place]),
            Verb::Flush | Verb::Zone(_) => {}
            other => panic!("{other:?} is not expected"),
        }
        job.completed(now, request.tag, true);
    }
}

/// A job that verifies, with random options.
fn random_job(rng: &mut Rng) -> String {
    let mut pick = |from: &[&str]| from[rng.below(from.len() as u64) as usize].to_owned();
    let rw = pick(&[
        "write",
        "randwrite",
        "rw",
        "randrw",
        "trimwrite",
        "randtrimwrite",
        "trimwrite",
        "randtrimwrite",
    ]);
    let mut lines = format!("rw={rw}\nverify={}\n", pick(&["crc32c", "meta", "xxhash"]));
    let sizes = ["bs=4k", "bs=512", "bs=8k", "bsrange=512-4k", "bssplit=1k/30:4k/70", "bs=3k"];
    let _ = writeln!(lines, "{}\nsize={}k", pick(&sizes), pick(&["8", "10", "64", "100", "256"]));
    let _ = writeln!(lines, "iodepth={}", pick(&["1", "2", "7", "32"]));
    for option in [
        ["io_size=10k", "io_size=77k", "io_size=300k", ""],
        ["number_ios=1", "number_ios=7", "number_ios=50", ""],
        ["loops=2", "loops=3", "", ""],
        ["runtime=3us", "runtime=40us", "runtime=40us\ntime_based", ""],
        ["norandommap", "", "", ""],
        ["thinktime=1\nthinktime_blocks=3", "rate_iops=300000", "ramp_time=5us", ""],
        ["fsync=3", "end_fsync=1", "", ""],
    ] {
        let _ = writeln!(lines, "{}", pick(&option));
    }
    lines
}

fn run(seed: u64) {
    let mut rng = Rng::new(seed);
    let lines = random_job(&mut rng);
    let mut job = job(&lines);
    let mut drive = MemoryDrive { bytes: vec![0; SPACE.blocks as usize * 512], outstanding: Vec::new() };
    let mut now = 1;
    loop {
        let wake = match job.next(now) {
            Next::Submit(request) => {
                drive.submit(&job, request);
                continue;
            }
            Next::Done => break,
            Next::At(at) => at,
            Next::Wait => u64::MAX,
        };
        now += rng.below(1500);
        match drive.outstanding.len() as u64 {
            0 => now = now.max(wake),
            count => drive.complete(&mut job, now, rng.below(count) as usize),
        }
        assert!(now < u64::MAX, "seed {seed}: it waits for nothing\n{lines}");
    }
    let (wrong, first) = job.mismatches();
    assert_eq!(wrong, 0, "seed {seed}: {:?}\n{lines}", first.first());
}

#[test]
fn what_verifies_is_right_however_it_ends() {
    if let Ok(seed) = std::env::var("TRANCHE_VERIFY_SEED") {
        return run(seed.parse().expect("TRANCHE_VERIFY_SEED is a number"));
    }
    let rounds = std::env::var("TRANCHE_VERIFY_ROUNDS").ok().and_then(|rounds| rounds.parse().ok());
    (0..rounds.unwrap_or(2000)).for_each(run);
}
