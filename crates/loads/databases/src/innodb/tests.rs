//! The model as a whole, on a drive that takes a fixed time for each command.

use super::*;
use crate::database::drive::{digest, run};
use std::collections::{BTreeMap, BTreeSet};
use workload::{Actor, Next, Request, Verb};

const DATA: Volume = Volume { blocks: 1 << 20, block_bytes: 4096 };
const COPIES: Volume = Volume { blocks: 1 << 17, block_bytes: 512 };

fn config(connections: u32) -> Config {
    let config = Config::published(connections, DATA, 7);
    Config {
        pool_pages: 4096,
        warehouses: 20,
        scan_depth: 64,
        redo_capacity: 64 << 20,
        statement: 20_000,
        ..config
    }
}

fn elsewhere(config: Config) -> Config {
    let doublewrite = config.doublewrite.map(|d| Doublewrite { namespace: 1, ..d });
    Config { doublewrite, copies: Some(COPIES), ..config }
}

#[test]
fn a_page_is_written_after_its_copy_was_flushed_and_its_log_was() {
    let logs = Volume { blocks: COPIES.blocks * 4, ..COPIES };
    let together = Config { copies: None, logs: Some(logs), ..elsewhere(config(8)) };
    for config in [config(8), elsewhere(config(8)), together] {
        let mut model = Innodb::new(config).unwrap();
        model.warm(2000, 1_000_000, || true);
        let areas = *model.areas();
        let (redo, data, copies) = (areas.redo, areas.data, areas.copies.unwrap());
        let inside = |area: &Area, request: &Request| {
            let at = request.lba * area.block_bytes;
            request.namespace == area.namespace
                && at >= area.start
                && at + u64::from(request.blocks) * area.block_bytes <= area.start + area.bytes
        };
        // Pages whose copies are written, are durable, and were written in place; flushes say what had been done before.
        let (mut copied, mut durable, mut written) = (0u64, 0u64, 0u64);
        let mut before_flush: BTreeMap<u32, u64> = BTreeMap::new();
        let (mut logs, mut reads) = (0, 0);
        run(&mut model, 3_000_000_000, |_, _, done, request| {
            if request.verb == Verb::Flush {
                if !done {
                    before_flush.insert(request.tag, copied);
                } else if request.namespace == copies.namespace {
                    durable = durable.max(before_flush[&request.tag]);
                }
            } else if request.verb == Verb::Read {
                assert!(inside(&data, request));
                reads += u32::from(done);
            } else if inside(&copies, request) {
                assert!(u64::from(request.blocks) * copies.block_bytes <= 124 << 10);
                copied += u64::from(done) * u64::from(request.blocks) * copies.block_bytes;
            } else if inside(&data, request) {
                if !done {
                    written += 1;
                    assert!(
                        written * PAGE <= durable,
                        "page {written} is written, {durable} bytes of copies are durable"
                    );
                }
            } else {
                logs += u32::from(done && inside(&redo, request));
            }
        });
        let counts = model.counts();
        assert!(written > 1000 && reads > 1000 && logs > 100, "{written} {reads} {logs}");
        assert!(counts.page_writes >= written && counts.page_reads >= u64::from(reads), "{counts:?}");
        assert_eq!((counts.failed, counts.transactions[0] > 100), (0, true));
    }
}

#[test]
fn without_a_doublewrite_buffer_there_are_no_copies() {
    let mut model = Innodb::new(Config { doublewrite: None, ..config(8) }).unwrap();
    model.warm(2000, 1_000_000, || true);
    let data = model.areas().data;
    let logs = model.areas().journal;
    let mut pages = 0;
    run(&mut model, 1_000_000_000, |_, _, done, request| {
        if request.verb == Verb::Write && !done {
            let at = request.lba * 4096;
            pages += u64::from(at >= data.start);
            assert!(at >= data.start || at < logs.start + logs.bytes);
        }
    });
    assert_eq!(pages, model.counts().page_writes);
    assert!(pages > 100);
}

#[test]
fn commits_of_many_connections_share_groups() {
    let of = |connections| {
        let mut model = Innodb::new(config(connections)).unwrap();
        model.warm(2000, 1_000_000, || true);
        run(&mut model, 2_000_000_000, |_, _, _, _| {});
        let counts = model.counts();
        (counts.commits as f64 / counts.groups as f64, counts)
    };
    let (one, alone) = of(1);
    let (many, together) = of(64);
    assert!(one < 1.01 && many > 2.0, "{one} {many}");
    assert!(together.transactions[0] > alone.transactions[0] * 3, "{alone:?} {together:?}");
    // What connections do adds up to the time that there was.
    let spent = alone.read_wait + alone.free_wait + alone.commit_wait + alone.processor;
    assert!(spent.abs_diff(2_000_000_000) < 50_000_000, "{spent} {alone:?}");
    assert!(alone.busy.abs_diff(alone.processor) < 1_000_000, "no one else wants a processor");
}

#[test]
fn page_cleaners_take_turns_with_the_instances() {
    for cleaners in [1, 3, 8] {
        // Nothing leaves the pool: only lists of dirty pages are flushed.
        let plenty = Config { pool_pages: 1 << 17, scan_depth: 1, dirty_low: 0, ..config(8) };
        let mut model = Innodb::new(Config { page_cleaners: cleaners, ..plenty }).unwrap();
        let areas = *model.areas();
        let copies = areas.copies.unwrap();
        let inside = |area: Area, request: &Request| {
            let at = (request.lba * area.block_bytes).checked_sub(area.start)?;
            (request.verb == Verb::Write && at < area.bytes).then_some(at / PAGE)
        };
        // Pages of each instance that are copied and not yet in place; commands of each shard that are under way.
        let (mut batches, mut shards) = (BTreeMap::<u64, u64>::new(), BTreeMap::<u64, u32>::new());
        let (mut most, mut seen) = (0, BTreeSet::new());
        run(&mut model, 4_000_000_000, |_, _, done, request| {
            if let Some(at) = inside(copies, request) {
                let shard = at / 120;
                assert_eq!(shard % 2, 1, "it is a list's");
                if done {
                    *shards.get_mut(&shard).unwrap() -= 1;
                    shards.retain(|_, commands| *commands > 0);
                } else {
                    *shards.entry(shard).or_default() += 1;
                    *batches.entry(shard / 2).or_default() += u64::from(request.blocks) * copies.block_bytes;
                    seen.insert(shard);
                }
            } else if let Some(page) = inside(areas.data, request)
                && done
            {
                *batches.get_mut(&((page >> 6) % 8)).unwrap() -= PAGE;
                batches.retain(|_, bytes| *bytes > 0);
            }
            assert!(shards.len() <= 1, "one batch is written to the doublewrite file at a time");
            most = most.max(batches.len());
        });
        assert!(most <= cleaners as usize && (cleaners > 1) == (most > 1), "{most} of {cleaners}");
        assert_eq!(seen.len(), 8, "each has its turn");
    }
}

#[test]
fn times_of_files_cost_commits_of_the_journal() {
    let of = |journal_times| {
        let mut model = Innodb::new(Config { journal_times, ..config(1) }).unwrap();
        model.warm(2000, 1_000_000, || true);
        let journal = model.areas().journal;
        let mut blocks = 0;
        run(&mut model, 2_000_000_000, |_, _, done, request| {
            let at = request.lba * 4096;
            let inside = at >= journal.start && at < journal.start + journal.bytes;
            blocks += u64::from(request.verb == Verb::Write && !done && inside);
        });
        let counts = model.counts();
        (blocks, counts.commits, counts.commit_wait / counts.commits)
    };
    let ((data, data_commits, data_wait), (all, all_commits, all_wait)) = (of(false), of(true));
    // Of the binary log: a commit's blocks and its record.
    assert!(data.abs_diff(2 * data_commits) <= 2, "{data} {data_commits}");
    // Of the redo log as well, and of what flushers write; the one commit waits for the other.
    assert!(all > 4 * all_commits - 4, "{all} {all_commits}");
    assert!(all_wait > data_wait + 50_000, "{data_wait} {all_wait}");
}

#[test]
fn the_doublewrite_file_has_the_journal_of_its_file_system() {
    let of = |config: Config| {
        let mut model = Innodb::new(config).unwrap();
        model.warm(2000, 1_000_000, || true);
        let areas = *model.areas();
        let elsewhere = areas.second_journal;
        let at = |request: &Request, area: Area| {
            let at = request.lba * area.block_bytes;
            (request.namespace, request.verb) == (area.namespace, Verb::Write)
                && (area.start..area.start + area.bytes).contains(&at)
        };
        let (mut batches, mut data, mut copies) = (0u64, 0u64, 0u64);
        let mut shard = None;
        run(&mut model, 2_000_000_000, |_, _, done, request| {
            if done {
                return;
            }
            data += u64::from(at(request, areas.journal));
            copies += u64::from(elsewhere.is_some_and(|area| at(request, area)));
            if areas.copies.is_some_and(|area| at(request, area)) {
                let to = request.lba / (120 * PAGE / areas.copies.unwrap().block_bytes);
                batches += u64::from(shard.replace(to) != Some(to));
            }
        });
        (model.counts(), batches, data, copies)
    };
    let (_, _, data, copies) = of(config(8));
    assert!(data > 100 && copies == 0, "{data} {copies}");
    let (_, batches, data, copies) = of(elsewhere(config(8)));
    // Blocks and record for each batch, at most: within a tick of the clock the file's time stays what it is.
    assert!(data > 100 && copies > batches / 4 && copies <= batches * 2 + 2, "{batches} {data} {copies}");
    let (counts, _, data, copies) = of(Config { journal: 0, ..elsewhere(config(8)) });
    assert_eq!((data, copies, counts.failed), (0, 0, 0));
    assert!(counts.page_writes > 100);
}

#[test]
fn equal_seeds_give_equal_requests() {
    let of = |seed| {
        let mut model = Innodb::new(Config { seed, ..config(8) }).unwrap();
        model.warm(500, 1_000_000, || true);
        digest(&mut model, 200_000_000)
    };
    // On every machine, and as long as nobody means to change the model.
    assert_eq!([of(1), of(2)], [9_315_375_402_716_255_374, 12_479_706_431_393_701_567]);
}

#[test]
fn a_database_larger_than_its_room_is_folded() {
    let small = Config { warehouses: 1000, ..config(1) };
    let mut model = Innodb::new(small.clone()).unwrap();
    assert!(model.data_pages() * PAGE > 10 * model.areas().data.bytes);
    let data = model.areas().data;
    let (mut low, mut high) = (u64::MAX, 0);
    run(&mut model, 1_000_000_000, |_, _, _, request| {
        if request.verb == Verb::Read {
            (low, high) = (low.min(request.lba * 4096), high.max(request.lba * 4096));
        }
    });
    assert!(low >= data.start && high < data.start + data.bytes);
    assert!(high - low > data.bytes / 2, "it is spread over its room");
    // Half of the namespace is half.
    let half = Innodb::new(Config { filled: 500, ..small.clone() }).unwrap();
    assert!(half.areas().end() <= 1 << 31 && half.areas().end() > (1 << 31) - (1 << 20));
    let tiny = Volume { blocks: 100, block_bytes: 4096 };
    assert!(Innodb::new(Config { data: tiny, ..small.clone() }).is_none());
    assert!(Innodb::new(Config { copies: Some(tiny), ..elsewhere(small) }).is_none());
}

#[test]
fn it_ends_when_it_is_stopped() {
    let mut model = Innodb::new(config(4)).unwrap();
    run(&mut model, 10_000_000, |_, _, _, _| {});
    model.stop();
    assert_eq!(model.next(20_000_000), Next::Done);
}

#[test]
fn sysbench_without_syncs_writes_its_log_seldom() {
    let sysbench = Config {
        schema: Schema::Sysbench { rows: 2_000_000 },
        doublewrite: None,
        binlog_change: 0,
        ..config(8)
    };
    let redo = |flush_at_commit| {
        let mut model = Innodb::new(Config { flush_at_commit, ..sysbench.clone() }).unwrap();
        let area = model.areas().redo;
        let mut writes = 0;
        run(&mut model, 5_000_000_000, |_, _, done, request| {
            let at = request.lba * area.block_bytes;
            let redo = (area.start..area.start + area.bytes).contains(&at);
            writes += u64::from(!done && request.verb == Verb::Write && redo);
        });
        let counts = model.counts();
        assert_eq!(counts.transactions[1..], [0; 4]);
        assert!(
            counts.transactions[0] > 1000 && counts.page_reads > 0 && counts.page_writes > 0,
            "{counts:?}"
        );
        (writes, counts.transactions[0])
    };
    let ((often, slow), (seldom, fast)) = (redo(true), redo(false));
    assert!(seldom < often / 5 && fast > slow, "{often} {seldom}, {slow} {fast}");
}
