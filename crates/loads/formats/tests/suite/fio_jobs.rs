//! What jobs do, on a virtual clock.

use crate::common::{MIB, Run, SPACE, job, run};
use load_formats::fio::{Job, JobFile};
use workload::{Actor, Next, Verb};

const SECOND: u64 = 1_000_000_000;

#[test]
fn a_random_map_covers_each_block_once_in_each_pass() {
    for lines in
        ["rw=randwrite\nsize=1m\nloops=3", "rw=randwrite\nbssplit=512/30:4k/30:12k/40\nsize=1m\nloops=2"]
    {
        let done = Run::of(lines);
        let passes = if lines.contains("loops=3") { 3 } else { 2 };
        assert_eq!(done.bytes(Verb::Write), passes * MIB, "{lines}");
        let mut count = [0u64; 2048];
        for request in done.only(Verb::Write) {
            let start = usize::try_from(request.lba).unwrap();
            count[start..start + request.blocks as usize].iter_mut().for_each(|n| *n += 1);
        }
        assert!(count.iter().all(|n| *n == passes), "{lines}");
    }
    let order = |lines| Run::of(lines).issued.iter().map(|(_, r)| r.lba).collect::<Vec<_>>();
    assert_eq!(order("rw=randread\nsize=1m"), order("rw=randread\nsize=1m"));
    assert_ne!(order("rw=randread\nsize=1m"), order("rw=randread\nsize=1m\nrandseed=7"));
    let loops = order("rw=randread\nsize=1m\nloops=2");
    assert_ne!(loops[..256], loops[256..], "passes differ");
}

#[test]
fn sequential_jobs_go_in_order_and_start_again() {
    let done = Run::of("rw=write\nbs=4k\noffset=1m\nsize=64k\nio_size=96k\niodepth=4");
    let lbas: Vec<u64> = done.only(Verb::Write).map(|r| r.lba).collect();
    let wanted: Vec<u64> = (0..16).chain(0..8).map(|block| 2048 + block * 8).collect();
    assert_eq!(lbas, wanted);
    assert_eq!(done.deepest, 4);
    // Each direction of a mixed job has a place of its own.
    let done = Run::of("rw=rw\nrwmixread=30\nsize=1m");
    for verb in [Verb::Read, Verb::Write] {
        let lbas: Vec<u64> = done.only(verb).map(|r| r.lba).collect();
        assert_eq!(lbas, (0..lbas.len() as u64).map(|n| n * 8).collect::<Vec<_>>());
    }
    assert_eq!(done.issued.len(), 256);
    let reads = done.only(Verb::Read).count();
    assert!((55..100).contains(&reads), "{reads}");
    // Each place is trimmed, then written.
    let done = Run::of("rw=trimwrite\nsize=64k");
    assert_eq!((done.bytes(Verb::Trim), done.bytes(Verb::Write)), (65536, 65536));
    for pair in done.issued.chunks(2) {
        assert_eq!((pair[0].1.verb, pair[1].1.verb, pair[0].1.lba), (Verb::Trim, Verb::Write, pair[1].1.lba));
    }
}

#[test]
fn rates_hold_on_average() {
    let done = Run::of("rw=randread\nrate_iops=1000\nruntime=2\ntime_based\niodepth=8");
    assert!((1999..=2001).contains(&done.issued.len()), "{}", done.issued.len());
    let done = Run::of("rw=randwrite\nrate=4m\nruntime=2\ntime_based");
    assert!((2047..=2049).contains(&done.issued.len()), "{}", done.issued.len());
    // Each direction its own, whatever the mix.
    let done = Run::of("rw=randrw\nrate_iops=100,400\nruntime=5\ntime_based\niodepth=4");
    let (reads, writes) = (done.only(Verb::Read).count(), done.only(Verb::Write).count());
    assert!((490..=510).contains(&reads) && (1990..=2010).contains(&writes), "{reads} {writes}");
    let done =
        Run::of("rw=randread\nrate_iops=1000\nrate_process=poisson\nruntime=20\ntime_based\niodepth=64");
    assert!((19_400..=20_600).contains(&done.issued.len()), "{}", done.issued.len());
    let gaps = done.issued.windows(2).map(|pair| pair[1].0 - pair[0].0);
    let short = gaps.filter(|gap| *gap < 693_147).count() as u64 * 100 / done.issued.len() as u64;
    assert!((48..=52).contains(&short), "half of the gaps are below ln 2 of the mean: {short} %");
}

#[test]
fn times() {
    let done = Run::of("rw=randread\nruntime=3\ntime_based\nramp_time=2\nstartdelay=1\nrate_iops=100");
    assert!(done.end.abs_diff(6 * SECOND) < SECOND / 50, "{}", done.end);
    assert!(done.issued[0].0 >= SECOND);
    let stats = done.job.stats();
    assert!((298..=302).contains(&stats.traffic[0].ios), "without the ramp: {}", stats.traffic[0].ios);
    assert!(stats.traffic[0].runtime.abs_diff(3 * SECOND) < SECOND / 50);
    assert_eq!(stats.traffic[0].completion.series.min, 1000);
    let done = run(job("rw=read\nsize=40k\nthinktime=100\nthinktime_blocks=2\niodepth=8"), 1000);
    assert_eq!(done.deepest, 2, "thinking caps the depth");
    assert_eq!(done.end / 100_000, 5, "after each two of ten: {}", done.end);
    // Without time_based a runtime is only a limit.
    assert_eq!(Run::of("rw=read\nsize=1m\nruntime=100").issued.len(), 256);
}

#[test]
fn flushes() {
    let done = Run::of("rw=randwrite\nsize=1m\nfsync=16");
    assert_eq!(done.only(Verb::Flush).count(), 15, "none after the last write");
    assert_eq!(done.issued[16].1.verb, Verb::Flush);
    assert_eq!(done.job.stats().sync.series.count, 15);
    assert_eq!(Run::of("rw=randread\nsize=1m\nfsync=1").only(Verb::Flush).count(), 0);
    let done = Run::of("rw=write\nsize=1m\nend_fsync=1\niodepth=8");
    assert_eq!(done.issued.last().map(|(_, r)| r.verb), Some(Verb::Flush));
    assert_eq!(done.issued.len(), 257);
}

#[test]
fn verification_reads_what_was_written() {
    for lines in [
        "rw=randwrite\nsize=1m\nverify=crc32c",
        "rw=randrw\nsize=1m\nverify=crc32c",
        "rw=randwrite\nbsrange=1k-16k\nsize=1m\nverify=crc32c\nnorandommap",
        "rw=write\nsize=1m\nverify=md5\ntime_based\nruntime=2ms",
        "rw=trimwrite\nsize=256k\nverify=sha256",
    ] {
        let done = Run::of(lines);
        let writes: Vec<(u64, u32)> = done.only(Verb::Write).map(|r| (r.lba, r.blocks)).collect();
        let reads: Vec<(u64, u32)> = done.only(Verb::Read).map(|r| (r.lba, r.blocks)).collect();
        assert!(writes.len() > 50, "{lines}");
        assert_eq!(reads[reads.len() - writes.len()..], writes, "{lines}");
        assert_eq!(done.job.mismatches().0, 0);
    }
    let only = Run::of("rw=randwrite\nsize=1m\nverify=crc32c\nverify_only");
    let written = Run::of("rw=randwrite\nsize=1m\nverify=crc32c\ndo_verify=0");
    assert_eq!(only.only(Verb::Write).count(), 0);
    assert!(only.only(Verb::Read).map(|r| r.lba).eq(written.only(Verb::Write).map(|r| r.lba)));
    assert_eq!(written.only(Verb::Read).count(), 0);
}

#[test]
fn what_a_job_writes_it_recognizes() {
    let mut writer = job("rw=randwrite\nsize=1m\nbs=8k\nverify=xxhash\nverify_interval=4k");
    let mut reader = job("rw=read\nsize=1m\nbs=4k\nverify=xxhash");
    let mut drive = vec![0u8; usize::try_from(MIB).unwrap()];
    for _ in 0..128 {
        let Next::Submit(request) = writer.next(1) else { panic!("it writes") };
        let at = usize::try_from(request.lba).unwrap() * 512;
        // In two parts, as a drive with a small MDTS has it.
        assert!(writer.fill(request.tag, 0, &mut drive[at..at + 4096]));
        assert!(writer.fill(request.tag, 4096, &mut drive[at + 4096..at + 8192]));
        writer.completed(1, request.tag, true);
    }
    drive[300_000] ^= 1;
    while let Next::Submit(request) = reader.next(1) {
        let at = usize::try_from(request.lba).unwrap() * 512;
        reader.check(request.tag, 0, &drive[at..at + 4096]);
        reader.completed(1, request.tag, true);
    }
    let (count, first) = reader.mismatches();
    assert_eq!((count, first[0].offset), (1, 300_000 / 4096 * 4096));
}

#[test]
fn a_failure_ends_a_job_and_stop_does() {
    let mut failing = job("rw=randwrite\niodepth=4\nverify=crc32c");
    for _ in 0..4 {
        assert!(matches!(failing.next(1), Next::Submit(_)));
    }
    failing.completed(2, 0, false);
    assert_eq!(failing.next(2), Next::Wait);
    for tag in 1..4 {
        failing.completed(3, tag, true);
    }
    assert_eq!(failing.next(3), Next::Done);
    assert_eq!(failing.stats().failed, 1);
    let mut stopped = job("rw=randwrite\nverify=crc32c\nend_fsync=1");
    assert!(matches!(stopped.next(1), Next::Submit(_)));
    stopped.stop();
    assert_eq!(stopped.next(2), Next::Wait);
    stopped.completed(3, 0, true);
    assert_eq!(stopped.next(3), Next::Done);
}

#[test]
fn what_does_not_fit_is_refused() {
    let refusal = |lines: &str| {
        let file = JobFile::parse(&format!("[x]\n{lines}\n"), &|_| None).unwrap();
        let jobs = file.jobs().unwrap();
        Job::of(&jobs.jobs[0], SPACE, 3, 3, 0).unwrap_err()
    };
    for (lines, part) in [
        ("bs=1000", "no multiple of the namespace's logical block of 512"),
        ("size=65m", "beyond the end"),
        ("offset_increment=30m", "starts beyond the end"),
        ("offset=100", "no multiple of the logical block"),
        ("size=2k", "holds no block"),
        ("verify=crc32c\nverify_interval=3k", "must be multiples of 3072"),
        ("rw=randread\nbs=1536\noffset=512\nverify=md5", "the offset a multiple"),
    ] {
        let error = refusal(lines);
        assert!(error.contains(part), "{lines}: {error}");
    }
}
