//! The model as a whole, on a drive that takes a fixed time for each command.

use super::*;
use crate::database::drive::{digest, run};
use std::collections::BTreeSet;
use workload::{Actor, Nanos, Next, Request, Verb};

const DATA: Volume = Volume { blocks: 1 << 20, block_bytes: 4096 };
const SECOND: Nanos = 1_000_000_000;

/// A database of which a quarter is in the pool, with a checkpoint in each second.
fn config(connections: u32) -> Config {
    Config {
        warehouses: 10,
        pool_pages: 32 << 10,
        checkpoint_timeout: SECOND,
        max_wal_size: 256 << 20,
        statement: 20_000,
        ..Config::new(connections, DATA, 7)
    }
}

fn ran(config: Config, until: Nanos) -> Counts {
    let mut model = Postgresql::new(config).unwrap();
    model.warm(5000, || true);
    run(&mut model, until, |_, _, _, _| {});
    model.counts()
}

fn is_in(area: Area, request: &Request) -> bool {
    let at = request.lba * area.block_bytes;
    request.namespace == area.namespace && (area.start..area.start + area.bytes).contains(&at)
}

#[test]
fn images_are_most_of_the_log_after_a_checkpoint_and_fade() {
    let small = Config { warehouses: 2, checkpoint_timeout: 4 * SECOND, max_wal_size: 1 << 30, ..config(8) };
    let mut model = Postgresql::new(small).unwrap();
    model.warm(5000, || true);
    // The number of checkpoints and all counts, after each two hundred commits.
    let mut marks: Vec<(u64, Counts)> = Vec::new();
    run(&mut model, 12 * SECOND, |_, model, _, _| {
        let counts = model.counts();
        if marks.last().is_none_or(|last| last.1.commits + 200 <= counts.commits) {
            marks.push((counts.own.checkpoints, counts));
        }
    });
    let parts: Vec<_> = marks
        .windows(2)
        .filter(|pair| pair[0].0 == 2 && pair[1].0 == 2)
        .map(|pair| {
            let (a, b) = (&pair[0].1, &pair[1].1);
            let images = (b.own.images - a.own.images) * u64::from(config(8).image);
            (images as f64 / (b.own.wal_bytes - a.own.wal_bytes) as f64, b.own.wal_bytes - a.own.wal_bytes)
        })
        .collect();
    assert!(parts.len() >= 4, "{}", parts.len());
    let (first, last) = (parts[0], parts[parts.len() - 1]);
    assert!(first.0 > 0.8, "{parts:?}");
    assert!(last.0 < first.0 - 0.1 && last.1 * 2 < first.1, "{parts:?}");
}

#[test]
fn without_full_page_writes_there_is_less_log() {
    let on = ran(config(8), 5 * SECOND);
    let off = ran(Config { full_page_writes: false, ..config(8) }, 5 * SECOND);
    let each = |counts: &Counts| counts.own.wal_bytes / counts.commits;
    assert!(on.own.images > 1000 && off.own.images == 0, "{on:?}");
    assert!(each(&on) > 3 * each(&off), "{} {}", each(&on), each(&off));
    // The log of a change is what was measured: 565 bytes for four changes and a commit.
    let config = config(8);
    assert_eq!(4 * config.record + config.commit_record, 565);
}

#[test]
fn all_pages_of_a_checkpoint_reach_the_drive_before_it_ends() {
    for connections in [1, 32] {
        let mut model = Postgresql::new(config(connections)).unwrap();
        model.warm(5000, || true);
        let area = model.data();
        let (mut begun, mut ended, mut flushed) = (0, 0, false);
        let mut owed: BTreeSet<u64> = BTreeSet::new();
        let mut most = 0;
        run(&mut model, 5 * SECOND, |_, model, done, request| {
            let counts = model.counts();
            if done && request.verb == Verb::Write && is_in(area, request) {
                owed.remove(&request.lba);
            }
            if !done && request.verb == Verb::Flush && request.namespace == 0 && owed.is_empty() {
                flushed = true;
            }
            if counts.own.checkpoints_ended > ended {
                assert!(owed.is_empty(), "{} pages were not written", owed.len());
                assert!(flushed, "the data was flushed after them");
                ended = counts.own.checkpoints_ended;
            }
            if counts.own.checkpoints > begun {
                begun = counts.own.checkpoints;
                flushed = false;
                owed = model.owed_places().into_iter().collect();
                most = most.max(owed.len());
            }
        });
        assert!(ended >= 3 && begun > ended - 1 && most > 300, "{begun} {ended} {most}");
        assert!(model.counts().own.checkpoint_writes > 300);
    }
}

#[test]
fn checkpoints_are_spread_over_their_target() {
    // When the pages of the second checkpoint are written, in the time from its begin: the middle of them.
    let middle = |completion_target| {
        let config =
            Config { completion_target, checkpoint_timeout: 4 * SECOND, max_wal_size: 1 << 40, ..config(2) };
        let mut model = Postgresql::new(config).unwrap();
        model.warm(5000, || true);
        let mut seen = Vec::new();
        run(&mut model, 9 * SECOND, |now, model, _, _| {
            let counts = model.counts();
            if counts.own.checkpoints == 2 {
                seen.push((now, counts.own.checkpoint_writes));
            }
        });
        let (first, last) = (seen[0], seen[seen.len() - 1]);
        let half = (first.1 + last.1) / 2;
        let at = seen.iter().find(|one| one.1 >= half).unwrap().0;
        (at - first.0) as f64 / (last.0 - first.0) as f64
    };
    let (slow, fast) = (middle(900), middle(100));
    assert!((0.25..0.65).contains(&slow) && fast < 0.15, "{slow} {fast}");
}

#[test]
fn much_log_makes_a_checkpoint_before_its_time() {
    let long = Config { checkpoint_timeout: 1000 * SECOND, statement: 200_000, ..config(16) };
    let seldom = ran(long.clone(), 5 * SECOND);
    let often = ran(Config { max_wal_size: 64 << 20, ..long.clone() }, 5 * SECOND);
    assert!(often.own.by_wal > 3 && often.own.by_wal > seldom.own.by_wal, "{seldom:?} {often:?}");
    // Between two there are 64 MiB over 1.9 of log, or somewhat more if one takes longer than that.
    let between = often.own.wal_bytes / often.own.checkpoints;
    assert!((32 << 20..50 << 20).contains(&between), "{between}");
    let off = ran(Config { max_wal_size: 64 << 20, full_page_writes: false, ..long }, 5 * SECOND);
    let each = |counts: &Counts| counts.commits / counts.own.checkpoints;
    assert!(each(&off) > each(&often) * 2, "images bring the next checkpoint closer");
}

#[test]
fn commits_share_flushes() {
    let share = |counts: &Counts| counts.commits as f64 / counts.groups as f64;
    let (one, many) = (ran(config(1), 2 * SECOND), ran(config(64), 2 * SECOND));
    assert!(share(&one) < 1.01 && share(&many) > 2.0, "{one:?} {many:?}");
    // A delay makes groups larger, but not if fewer are active than siblings say.
    let delayed =
        |commit_siblings| ran(Config { commit_delay: 2_000_000, commit_siblings, ..config(64) }, 2 * SECOND);
    assert!(share(&delayed(5)) > share(&many) * 1.2, "{} {}", share(&delayed(5)), share(&many));
    assert_eq!(delayed(64), many);
    // Without a wait for the log there are no groups, and the log is flushed all the same.
    let off = ran(Config { flush_at_commit: false, ..config(8) }, 2 * SECOND);
    assert!(
        off.groups == 0 && off.commits > one.commits && off.log_bytes >= off.own.wal_bytes / 2,
        "{off:?}"
    );
}

#[test]
fn no_page_is_written_before_its_log() {
    let mut model = Postgresql::new(Config { pool_pages: 2048, ..config(16) }).unwrap();
    model.warm(5000, || true);
    let (data, log) = (model.data(), model.log());
    let (mut pages, mut logs) = (0, 0);
    run(&mut model, 3 * SECOND, |_, _, done, request| {
        if request.verb == Verb::Write && !done {
            assert!(is_in(data, request) != is_in(log, request));
            pages += u64::from(is_in(data, request));
            logs += u64::from(is_in(log, request));
        }
    });
    let counts = model.counts();
    assert_eq!(
        pages,
        counts.own.backend_writes + counts.own.background_writes + counts.own.checkpoint_writes
    );
    assert!(
        counts.own.backend_writes > 100 && counts.own.background_writes > 100 && logs > 100,
        "{counts:?}"
    );
    assert!(counts.page_reads > 1000 && counts.failed == 0);
    let none = ran(Config { pool_pages: 2048, bgwriter_pages: 0, ..config(16) }, 3 * SECOND);
    assert!(none.own.background_writes == 0 && none.own.backend_writes > counts.own.backend_writes);
}

#[test]
fn the_log_may_have_a_namespace_of_its_own_and_new_segments() {
    let volume = Volume { blocks: 1 << 16, block_bytes: 512 };
    let mut model = Postgresql::new(Config { wal: Some(volume), ..config(8) }).unwrap();
    model.warm(2000, || true);
    let mut writes = [0u64; 2];
    run(&mut model, 2 * SECOND, |_, _, done, request| {
        if request.verb == Verb::Write && done {
            writes[usize::from(request.namespace)] += 1;
        }
        assert!(request.namespace == 0 || request.lba + u64::from(request.blocks) <= 1 << 16);
    });
    assert!(writes[0] > 100 && writes[1] > 100, "{writes:?}");
    let again = ran(config(8), 2 * SECOND);
    let new = ran(Config { new_segment: 16 << 20, ..config(8) }, 2 * SECOND);
    assert!(again.log_bytes < again.own.wal_bytes * 2, "{again:?}");
    assert!(
        new.log_bytes - new.own.wal_bytes > again.own.wal_bytes / 2,
        "each segment is written twice: {new:?}"
    );
    let tiny = Volume { blocks: 100, block_bytes: 4096 };
    assert!(Postgresql::new(Config { data: tiny, ..config(1) }).is_none());
    assert!(Postgresql::new(Config { wal: Some(tiny), ..config(1) }).is_none());
}

#[test]
fn equal_seeds_give_equal_requests() {
    let of = |seed| {
        let mut model = Postgresql::new(Config { seed, ..config(8) }).unwrap();
        model.warm(500, || true);
        digest(&mut model, SECOND / 5)
    };
    // On every machine, and as long as nobody means to change the model.
    assert_eq!([of(1), of(2)], [589_574_496_177_935_952, 1_057_992_865_138_397_821]);
}

#[test]
fn it_ends_when_it_is_stopped() {
    let mut model = Postgresql::new(config(4)).unwrap();
    run(&mut model, 10_000_000, |_, _, _, _| {});
    model.stop();
    assert_eq!(model.next(20_000_000), Next::Done);
}
