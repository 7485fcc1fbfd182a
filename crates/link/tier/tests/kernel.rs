//! The tier's smq against what the kernel's said, as a guest recorded it once. `crates/app/tranche/tests/guest/dm_cache.rs` asks a kernel each time.

#[path = "kernel/mod.rs"]
mod kernel;

use kernel::{Load, Log, Row, Step, agree, loads, replay};
use std::io::Read;

/// A trace of smq and of the cleaner on Linux 6.12: what loads of 32 to 2,048 KiB a chunk made dm-cache ask, and what its policy answered.
const TRACE: &[u8] = include_bytes!("kernel/smq-6.12.trace.z");

fn recorded() -> String {
    let mut text = String::new();
    flate2::read::ZlibDecoder::new(TRACE).read_to_string(&mut text).expect("a text");
    text
}

#[test]
fn smq_answers_as_the_kernel_did() {
    let (agreement, corrections) = agree(&recorded()).unwrap_or_else(|why| panic!("{why}"));
    println!("{agreement:?}, {corrections} corrections of the trace");
    assert!(corrections < 3, "{corrections} corrections");
    assert!(agreement.lookups > 10_000 && agreement.ticks > 10_000, "{agreement:?}");
    let least = [agreement.promotions / 300, agreement.demotions / 50, agreement.writebacks / 300];
    assert!(agreement.policies > 7 && least.iter().all(|count| *count > 0), "{agreement:?}");
}

/// A comparison that finds no difference where there is one would say nothing.
#[test]
fn a_changed_answer_is_found() {
    let text = recorded();
    let lines: Vec<&str> = text.lines().collect();
    let mut found = 0;
    let answers = (0..lines.len()).filter(|at| lines[*at].starts_with("look ")).step_by(lines.len() / 20);
    for at in answers {
        let mut changed = lines.clone();
        let (rest, answer) = lines[at].rsplit_once(' ').expect("an answer");
        let other = format!("{rest} {}", if answer == "0" { -2 } else { 0 });
        changed[at] = &other;
        let difference = tier::replay_policy(&changed, &std::collections::BTreeSet::new()).unwrap_err();
        assert_eq!(difference.line, at, "{}", difference.why);
        found += 1;
    }
    assert!(found > 3, "{found} answers");
    // One tick less, and something is promoted earlier or later.
    let ticks: Vec<usize> = (0..lines.len()).filter(|at| lines[*at].starts_with("tick ")).collect();
    let fewer: Vec<&str> = (0..lines.len())
        .filter(|at| !ticks[ticks.len() / 8..ticks.len() / 4].contains(at))
        .map(|at| lines[at])
        .collect();
    assert!(tier::replay_policy(&fewer, &std::collections::BTreeSet::new()).is_err());
}

/// A processor of a busy guest may record its call long after others have made theirs.
#[test]
fn a_call_that_is_recorded_late_is_put_back() {
    let text = recorded();
    let lines: Vec<&str> = text.lines().collect();
    let policy = |at: usize| lines[at].split(' ').nth(1);
    let works = |at: &usize| lines[*at].starts_with("work ") && !lines[*at].contains(" -61");
    let mut late = 0;
    for work in (0..lines.len()).filter(works).step_by(40).take(8) {
        // The lookup that made the policy want this.
        let caused = |at: &usize| policy(*at) == policy(work) && lines[*at].starts_with("look ");
        let Some(cause) = (0..work).rev().find(caused) else { continue };
        let to = (work..lines.len()).filter(|at| policy(*at) == policy(work)).nth(9).expect("more calls");
        let mut mixed = lines.clone();
        mixed[cause..=to].rotate_left(1);
        if tier::replay_policy(&mixed, &std::collections::BTreeSet::new()).is_err() {
            let (_, corrections) =
                agree(&mixed.join("\n")).unwrap_or_else(|why| panic!("line {cause}: {why}"));
            assert!(corrections > 0);
            late += 1;
        }
    }
    assert!(late > 0, "no call of these mattered");
}

/// On a fast machine a guest's steps take no time, and migrations of a replay are slower than any that the guest had.
#[test]
fn a_replay_does_the_loads_of_a_guest_that_is_as_fast_as_can_be() {
    for load in loads(1, 1) {
        let row = |at: u64| Row { began: at, ended: at, ..Row::default() };
        let log = Log((0..=load.steps.len() as u64).map(row).collect());
        let replayed = replay(&load, &log, 300_000_000, 1);
        assert_eq!(replayed.0.len(), log.0.len(), "{}", load.name);
    }
}

/// What a guest says of a load whose requests take so many milliseconds each.
fn steady(load: &Load, request: u64) -> Log {
    let mut now = 0;
    let steps = load.steps.iter().map(|step| {
        let began = now;
        now += 1_000_000 * if let Step::Pause(time) = step { *time } else { request };
        Row { began, ended: now, ..Row::default() }
    });
    Log(std::iter::once(Row::default()).chain(steps).collect())
}

/// Idle time cleans chunks up to the migration threshold. Larger ones are written back only where a full cache wants room: how many stay dirty
/// depends on how fast the guest is. So [`compare`](kernel::compare) may hold the count against dm-cache's for the smaller ones alone.
#[test]
fn idle_time_cleans_chunks_up_to_the_migration_threshold() {
    for load in loads(1, 1).into_iter().filter(|load| load.name.starts_with("large")) {
        let dirty = |request: u64| {
            let replayed = replay(&load, &steady(&load, request), 0, 0);
            load.phases.iter().map(|phase| replayed.0[phase.end].counts.dirty).collect::<Vec<_>>()
        };
        let all: Vec<Vec<i64>> = [20, 60, 100, 150].map(dirty).to_vec();
        let [idle, other] = [1, 2].map(|phase| all.iter().map(|dirty| dirty[phase]).collect::<Vec<_>>());
        match load.is_cleaned_when_idle() {
            true => assert!(idle.iter().all(|dirty| *dirty == 0), "{}: {all:?}", load.name),
            false => {
                assert!(idle.iter().all(|dirty| *dirty > 0), "{}: {all:?}", load.name);
                assert!(other.iter().min() < other.iter().max(), "{}: {all:?}", load.name);
            }
        }
    }
}
