//! What policies decide, request by request.

use super::{Ask, Found, Pace, Policy, Work, WorkKind};
use crate::chunk::{Cblock, Oblock};
use crate::config::{MqTunables, PolicyKind};

const SECOND: u64 = 1_000_000_000;

fn read(oblock: u32) -> Ask {
    Ask {
        oblock: Oblock(oblock),
        write: false,
        fast: false,
        discarded: false,
        may_migrate: true,
        sector: u64::from(oblock) * 1000,
        sectors: 8,
    }
}

fn mq(chunks: u32) -> Policy {
    Policy::new(PolicyKind::Mq, MqTunables::default(), chunks, 1000, 0)
}

/// How many requests, each in a tick of its own, until a chunk is promoted.
fn requests(policy: &mut Policy, ask: &Ask) -> u32 {
    for n in 1..1000 {
        if let Found::Promote { cblock, victim } = policy.lookup(ask) {
            if victim.is_some() {
                policy.evict(cblock);
            }
            let work = Work { kind: WorkKind::Promote, oblock: ask.oblock, cblock };
            policy.finished(&work, true);
            return n;
        }
        policy.tick(u64::from(n));
    }
    panic!("it is never promoted");
}

#[test]
fn mq_counts_hits_once_in_a_tick_and_wants_more_of_them_for_writes() {
    let mut policy = mq(4);
    // The threshold is 0 while there is room: 4 more hits for a read, 8 for a write.
    assert_eq!(requests(&mut policy, &read(1)), 5);
    assert_eq!(requests(&mut policy, &Ask { write: true, ..read(2) }), 9);
    let discarded = Ask { write: true, discarded: true, fast: true, ..read(3) };
    assert_eq!(requests(&mut policy, &discarded), 1);
    let mut policy = mq(4);
    for _ in 0..100 {
        assert_eq!(policy.lookup(&read(1)), Found::Miss, "one tick counts once");
    }
}

#[test]
fn mq_replaces_the_clean_chunk_with_the_fewest_hits() {
    let mut policy = mq(2);
    requests(&mut policy, &read(1));
    requests(&mut policy, &read(2));
    for n in 0..20 {
        policy.lookup(&read(1));
        policy.tick(n);
    }
    // Its hits are 5 now; the new one needs 4 more.
    assert_eq!(requests(&mut policy, &read(3)), 10);
    let there: Vec<bool> = (1..4).map(|n| policy.find(Oblock(n)).is_some()).collect();
    assert_eq!(there, [true, false, true]);
    let cblock = policy.find(Oblock(3)).expect("it was promoted");
    policy.set_dirty(cblock);
    policy.set_dirty(policy.find(Oblock(1)).expect("it stayed"));
    for n in 0..60 {
        assert_eq!(policy.lookup(&read(4)), Found::Miss, "nothing is clean");
        policy.tick(n);
    }
    let work = policy.next_work(Pace::Busy).expect("something is dirty");
    assert_eq!((work.kind, work.oblock), (WorkKind::WriteBack, Oblock(3)));
    policy.finished(&work, true);
    assert_eq!(policy.dirty(), 1);
}

#[test]
fn mq_promotes_nothing_while_requests_come_in_sequence() {
    let mut policy = Policy::new(
        PolicyKind::Mq,
        MqTunables { sequential_threshold: 20, ..MqTunables::default() },
        64,
        1000,
        0,
    );
    let promoted = |policy: &mut Policy, sequential: bool| {
        let mut count = 0;
        for n in 0..200u64 {
            // Sixteen requests for each chunk.
            let oblock = (n / 16) as u32;
            let sector = if sequential { n * 8 } else { n * 8 % 128 * 1000 };
            let found = policy.lookup(&Ask { sector, ..read(100 + oblock) });
            if let Found::Promote { cblock, .. } = found {
                let work = Work { kind: WorkKind::Promote, oblock: Oblock(100 + oblock), cblock };
                policy.finished(&work, true);
                count += 1;
            }
            policy.tick(n);
        }
        count
    };
    // One chunk, before it is seen that the load is sequential.
    assert_eq!(promoted(&mut policy, true), 1);
    assert!(promoted(&mut policy, false) > 8);
}

#[test]
fn smq_since_4_12_promotes_in_the_background_and_demotes_when_little_is_free() {
    let mut policy = Policy::new(PolicyKind::Smq, MqTunables::default(), 8, 1000, 0);
    let mut now = 0;
    let mut promoted = 0;
    let mut demoted = 0;
    for n in 0..4000u32 {
        // A loop of more chunks than the cache has, and then four others that are all that is used.
        let ask = read(if n < 2000 { n % 40 } else { 100 + n % 4 });
        policy.lookup(&ask);
        now += SECOND / 20;
        policy.tick(now);
        while let Some(work) = policy.next_work(Pace::Busy) {
            match work.kind {
                WorkKind::Promote => promoted += 1,
                WorkKind::Demote => demoted += 1,
                WorkKind::WriteBack => panic!("nothing is dirty"),
            }
            policy.finished(&work, true);
        }
    }
    assert!(promoted > 8 && demoted > 0, "{promoted} promoted, {demoted} demoted");
    assert!(promoted - demoted <= 8);
    let there = (100..104).filter(|n| policy.find(Oblock(*n)).is_some()).count();
    assert_eq!(there, 4, "what is used is in the cache");
}

#[test]
fn smq_keeps_the_cache_dirty_under_load_and_cleans_it_when_idle() {
    let dirty = |kind| {
        let mut policy = Policy::new(kind, MqTunables::default(), 100, 1000, 0);
        for n in 0..100 {
            policy.load(Cblock(n), Oblock(n), n < 50, Some(32));
        }
        let mut done = 0;
        let mut drain = |policy: &mut Policy, pace| {
            while let Some(work) = policy.next_work(pace) {
                policy.finished(&work, true);
                done += 1;
            }
            done
        };
        (drain(&mut policy, Pace::Busy), drain(&mut policy, Pace::Idle), policy.dirty())
    };
    assert_eq!(dirty(PolicyKind::Smq), (0, 50, 0));
    assert_eq!(dirty(PolicyKind::SmqBefore412), (0, 50, 0));
    assert_eq!(dirty(PolicyKind::Cleaner), (50, 50, 0));
    // mq does not ask.
    assert_eq!(dirty(PolicyKind::Mq), (50, 50, 0));
}

#[test]
fn hints_bring_a_policy_back() {
    for kind in [PolicyKind::Mq, PolicyKind::Smq, PolicyKind::SmqBefore412] {
        let mut policy = Policy::new(kind, MqTunables::default(), 8, 100, 0);
        policy.load(Cblock(3), Oblock(7), false, Some(9));
        assert_eq!((policy.hint(Cblock(3)), policy.oblock(Cblock(3))), (9, Some(Oblock(7))), "{kind}");
        assert_eq!((policy.resident(), policy.find(Oblock(7))), (1, Some(Cblock(3))));
    }
}
