//! Runs on all processors.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicU32, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use anyhow::{Result, anyhow};

use super::{
    cache::Cache,
    case::{Case, RunResult},
    onlooker::Onlooker,
    watch::WHOLE_LOAD_PPM,
};
use lab_report::control::{Control, Event, Parts};

/// How often the progress is told.
const REPORT_INTERVAL: Duration = Duration::from_millis(200);

/// Makes all runs, `threads` of them at the same time. What came of them is in their order; `None` for those that were not begun
/// before it was cancelled. Somebody may look on. What is wanted of each is made on its thread, as soon as it ends.
pub(super) fn run<T: Send>(
    cases: &[&Case],
    cache: &Cache,
    threads: usize,
    control: &Control,
    onlooker: Option<&dyn Onlooker>,
    wanted: &(dyn Fn(&Case, Result<RunResult>) -> T + Sync),
) -> Vec<Option<T>> {
    let of = cases.len();
    let progress = control.begin(Parts::Runs(of));
    let work = progress.id();
    let shares: Vec<AtomicU32> = cases.iter().map(|_| AtomicU32::new(0)).collect();
    let places: Vec<Mutex<Option<T>>> = cases.iter().map(|_| Mutex::new(None)).collect();
    let next = AtomicUsize::new(0);
    let count = AtomicUsize::new(0);
    let worker = || {
        while !control.is_cancelled() {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(case) = cases.get(index) else { return };
            let ran = wanted(case, case.run(cache, &shares[index], control.cancel(), onlooker));
            if let Ok(mut place) = places[index].lock() {
                *place = Some(ran);
            }
            let ended = count.fetch_add(1, Ordering::Release) + 1;
            control.tell(Event::RunEnded { work, ended, of, settings: &case.settings() });
        }
    };
    thread::scope(|scope| {
        let workers: Vec<_> =
            (0..threads.clamp(1, cases.len().max(1))).map(|_| scope.spawn(worker)).collect();
        let display = thread::current();
        // The last to end wakes the display, so that nothing waits for it.
        let watcher = scope.spawn(move || {
            let panicked = workers.into_iter().map(thread::ScopedJoinHandle::join).filter(Result::is_err);
            let panicked = panicked.count();
            display.unpark();
            panicked
        });
        while !watcher.is_finished() {
            let (done, ended) = (share(&shares), count.load(Ordering::Acquire));
            control.tell(Event::Share { work, done, ended, of });
            thread::park_timeout(REPORT_INTERVAL);
        }
    });
    drop(progress);
    let taken = |(case, place): (&&Case, Mutex<Option<T>>)| match place.into_inner() {
        Ok(ran) => ran,
        Err(_) => Some(wanted(case, Err(anyhow!("a run ended by a panic")))),
    };
    cases.iter().zip(places).map(taken).collect()
}

/// The share of all runs that is done.
#[expect(clippy::cast_precision_loss, reason = "for reading")]
fn share(shares: &[AtomicU32]) -> f64 {
    let done: u64 = shares.iter().map(|share| u64::from(share.load(Ordering::Relaxed))).sum();
    done as f64 / (shares.len().max(1) as f64 * f64::from(WHOLE_LOAD_PPM))
}
