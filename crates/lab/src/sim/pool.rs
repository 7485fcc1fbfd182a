//! Runs on all processors.

use std::{
    io::{IsTerminal, stderr},
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
    case::{Case, Ran},
    progress::Bar,
};
use crate::{interrupt, progress::say};

/// How often the progress is shown.
const SHOWN: Duration = Duration::from_millis(200);

/// Makes all runs, `threads` of them at the same time. What came of them is in their order; `None` for those that were not begun
/// before the user ended it.
pub(super) fn run(cases: &[Case], cache: &Cache, threads: usize) -> Vec<Option<Result<Ran>>> {
    let shares: Vec<AtomicU32> = cases.iter().map(|_| AtomicU32::new(0)).collect();
    let places: Vec<Mutex<Option<Result<Ran>>>> = cases.iter().map(|_| Mutex::new(None)).collect();
    let next = AtomicUsize::new(0);
    let ended = AtomicUsize::new(0);
    let work = || {
        while !interrupt::asked() {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(case) = cases.get(index) else { return };
            let ran = case.run(cache, &shares[index]);
            if let Ok(mut place) = places[index].lock() {
                *place = Some(ran);
            }
            let ended = ended.fetch_add(1, Ordering::Release) + 1;
            if cases.len() > 1 && !stderr().is_terminal() {
                say(format_args!("[{ended}/{}] {}", cases.len(), case.settings()));
            }
        }
    };
    let mut bar = Bar::new(cases.len());
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.clamp(1, cases.len().max(1))).map(|_| scope.spawn(work)).collect();
        let display = thread::current();
        // Whoever ends last wakes the display, so that nothing waits for it.
        let watcher = scope.spawn(move || {
            let panicked = workers.into_iter().map(thread::ScopedJoinHandle::join).filter(Result::is_err);
            let panicked = panicked.count();
            display.unpark();
            panicked
        });
        while !watcher.is_finished() {
            bar.show(&shares, ended.load(Ordering::Acquire));
            thread::park_timeout(SHOWN);
        }
    });
    drop(bar);
    let taken = |place: Mutex<Option<Result<Ran>>>| match place.into_inner() {
        Ok(ran) => ran,
        Err(_) => Some(Err(anyhow!("a run ended by a panic"))),
    };
    places.into_iter().map(taken).collect()
}
