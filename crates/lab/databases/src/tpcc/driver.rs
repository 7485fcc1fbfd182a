//! Runs the load from several connections and measures a window of it.

use std::{
    sync::{
        Barrier,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, ScopedJoinHandle},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow};
use database_models::innodb::TransactionKind;
use hdrhistogram::Histogram;

use super::{
    connection::Error,
    database::Database,
    random::{Constants, Rng},
    transactions::{Deck, Terminal},
};
use lab_report::control::Cancel;

/// What to run.
#[derive(Clone, Debug)]
pub struct LoadSettings {
    /// The server.
    pub database: Database,
    /// Warehouses that were loaded.
    pub warehouses: u32,
    /// Connections.
    pub threads: u32,
    /// Time before the measured window.
    pub warmup: Duration,
    /// Length of the measured window.
    pub window: Duration,
    /// Seed; each connection has a stream of its own.
    pub seed: u64,
    /// Ends the load before its time.
    pub cancel: Cancel,
}

/// Where the load is; the driver calls back at each, about every 200 ms.
#[derive(Clone, Copy, Debug)]
pub enum Phase {
    /// Warming up.
    Warmup {
        /// Since the load began.
        elapsed: Duration,
        /// New orders so far.
        new_orders: u64,
    },
    /// The window begins now.
    Start,
    /// In the window.
    Measuring {
        /// Since the window began.
        elapsed: Duration,
        /// New orders in the window so far.
        new_orders: u64,
    },
    /// The window ends now.
    End,
}

/// Latencies in microseconds, up to ten minutes, to three digits.
fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 600_000_000, 3).unwrap_or_else(|_| unreachable!("the bounds are valid"))
}

/// The measured window.
#[derive(Clone, Debug)]
pub struct Window {
    /// Its true length.
    pub length: Duration,
    /// Latency of finished transactions in microseconds, in the order of [`TransactionKind::ALL`].
    pub latency: Vec<Histogram<u64>>,
    /// Latency of the COMMIT of transactions that wrote, in microseconds.
    pub commit: Histogram<u64>,
    /// Transactions that were run again after a deadlock or a lock timeout.
    pub retries: u64,
}

impl Window {
    fn new() -> Self {
        Self {
            length: Duration::ZERO,
            latency: TransactionKind::ALL.iter().map(|_| histogram()).collect(),
            commit: histogram(),
            retries: 0,
        }
    }

    fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.latency.iter_mut().zip(&other.latency) {
            mine.add(theirs).unwrap_or_else(|_| unreachable!("all histograms have the same bounds"));
        }
        self.commit
            .add(&other.commit)
            .unwrap_or_else(|_| unreachable!("all histograms have the same bounds"));
        self.retries += other.retries;
    }

    /// New orders finished in the window.
    pub fn new_orders(&self) -> u64 {
        self.latency[0].len()
    }

    /// New orders per minute.
    pub fn tpm_c(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
        let orders = self.new_orders() as f64;
        orders * 60.0 / self.length.as_secs_f64().max(1e-9)
    }
}

/// What [`run()`] measured.
#[derive(Clone, Debug)]
pub struct LoadResult {
    /// The measured window.
    pub window: Window,
    /// New orders in each full second of warm-up and window, from the first.
    pub per_second: Vec<u64>,
}

/// Shared by the connections of a run.
struct Shared {
    /// Nobody starts before all are connected.
    start: Barrier,
    measuring: AtomicBool,
    stop: AtomicBool,
    new_orders: AtomicU64,
}

/// Runs the load: warm-up, then the window. `on_phase` is called from the calling thread, at `Phase::Start` and
/// `Phase::End` exactly once each.
///
/// # Errors
/// When the server fails or goes away, when `on_phase` fails, or when the load is cancelled.
pub fn run(load: &LoadSettings, mut on_phase: impl FnMut(Phase) -> Result<()>) -> Result<LoadResult> {
    let constants = Constants::for_run(load.seed);
    let mut terminals = Vec::new();
    for thread in 0..load.threads {
        let conn = load.database.connect()?;
        let rng = Rng::new(load.seed, u64::from(thread) + 1);
        terminals.push(
            Terminal::new(conn, rng, constants, load.warehouses).context("preparing the TPC-C statements")?,
        );
    }
    let shared = Shared {
        start: Barrier::new(terminals.len() + 1),
        measuring: AtomicBool::new(false),
        stop: AtomicBool::new(false),
        new_orders: AtomicU64::new(0),
    };
    thread::scope(|scope| {
        let workers: Vec<ScopedJoinHandle<'_, Result<Window>>> = terminals
            .into_iter()
            .map(|terminal| {
                scope.spawn(|| {
                    shared.start.wait();
                    let result = work(terminal, &shared);
                    if result.is_err() {
                        shared.stop.store(true, Ordering::Relaxed);
                    }
                    result
                })
            })
            .collect();
        shared.start.wait();
        let timed = time(load, &shared, &mut on_phase);
        shared.measuring.store(false, Ordering::Relaxed);
        shared.stop.store(true, Ordering::Relaxed);

        let mut window = Window::new();
        let mut failure = None;
        for worker in workers {
            match worker.join().unwrap_or_else(|_| Err(anyhow!("a TPC-C connection's thread panicked"))) {
                Ok(part) => window.add(&part),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        // A lost server shows at the connections first; their error says more than that the clock stopped early.
        match (failure, timed) {
            (Some(failure), _) if !load.cancel.is_cancelled() => Err(failure),
            (_, Err(error)) => Err(error),
            (_, Ok((length, per_second))) => {
                window.length = length;
                Ok(LoadResult { window, per_second })
            }
        }
    })
}

/// Walks through the phases; returns the window's true length and the new orders per second.
fn time(
    load: &LoadSettings,
    shared: &Shared,
    on_phase: &mut impl FnMut(Phase) -> Result<()>,
) -> Result<(Duration, Vec<u64>)> {
    let count = || shared.new_orders.load(Ordering::Relaxed);
    let begin = Instant::now();
    let mut per_second = Vec::new();
    let mut last_count = 0;
    // One loop for both phases, so that the seconds of the timeline run on.
    let mut tick = |elapsed: Duration| {
        while elapsed.as_secs() > per_second.len() as u64 {
            let now = count();
            per_second.push(now - last_count);
            last_count = now;
        }
    };
    let mut started: Option<(Instant, u64)> = None;
    loop {
        load.cancel.check()?;
        if shared.stop.load(Ordering::Relaxed) {
            return Err(anyhow!("the load stopped early"));
        }
        let elapsed = begin.elapsed();
        tick(elapsed);
        let next = match started {
            None if elapsed >= load.warmup => {
                on_phase(Phase::Start)?;
                started = Some((Instant::now(), count()));
                shared.measuring.store(true, Ordering::Relaxed);
                continue;
            }
            None => {
                on_phase(Phase::Warmup { elapsed, new_orders: count() })?;
                load.warmup - elapsed
            }
            Some((start, at_start)) => {
                let inside = start.elapsed();
                if inside >= load.window {
                    shared.measuring.store(false, Ordering::Relaxed);
                    let length = start.elapsed();
                    on_phase(Phase::End)?;
                    return Ok((length, per_second));
                }
                on_phase(Phase::Measuring { elapsed: inside, new_orders: count() - at_start })?;
                load.window - inside
            }
        };
        thread::sleep(next.min(Duration::from_millis(200)));
    }
}

/// One connection's loop.
fn work(mut terminal: Terminal, shared: &Shared) -> Result<Window> {
    let mut window = Window::new();
    let mut deck = Deck::new();
    while !shared.stop.load(Ordering::Relaxed) {
        let kind = deck.draw(terminal.rng());
        let start = Instant::now();
        let done = loop {
            match terminal.run(kind) {
                Ok(done) => break done,
                Err(Error::Conflict(_)) => {
                    terminal.rollback().context("rolling back after a conflict")?;
                    if shared.measuring.load(Ordering::Relaxed) {
                        window.retries += 1;
                    }
                }
                Err(error) => {
                    return Err(error).with_context(|| format!("running a {} transaction", kind.name()));
                }
            }
        };
        let latency = start.elapsed();
        if kind == TransactionKind::NewOrder {
            shared.new_orders.fetch_add(1, Ordering::Relaxed);
        }
        if shared.measuring.load(Ordering::Relaxed) {
            let index = TransactionKind::ALL.iter().position(|&k| k == kind).unwrap_or(0);
            window.latency[index].saturating_record(micros(latency));
            if done.committed && !matches!(kind, TransactionKind::OrderStatus | TransactionKind::StockLevel) {
                window.commit.saturating_record(micros(done.commit));
            }
        }
    }
    Ok(window)
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
