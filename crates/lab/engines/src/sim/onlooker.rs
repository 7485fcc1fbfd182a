//! Somebody who looks on while a run goes, at a speed of their choice.
//!
//! The run goes in parts of virtual time. Between two parts the thread of the run tells what the drive is like, and waits until real time
//! has come as far. Neither changes the run: what is looked at takes no virtual time.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use host::Host;
use sim::{Inspector, Nanos, Sim};

use lab_report::control::Cancel;

/// How long a part of the run takes on this machine, about.
const PART_TIME: Duration = Duration::from_millis(20);
/// From one time that the drive is shown to the next.
const SHOW_INTERVAL: Duration = Duration::from_millis(500);
/// The longest sleep: then it is looked again whether the speed is another one, or the run is to end.
const MAX_SLEEP: Duration = Duration::from_millis(20);
/// A run that lags behind by more than this does not catch up.
const MAX_LAG: Duration = Duration::from_millis(250);
/// Virtual time of the first part.
const FIRST_PART_NANOS: u64 = 1_000_000;

/// How fast a run goes that somebody looks at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// Virtual seconds for each real one, above 0; `None`: as many as this machine can.
    pub speed: Option<f64>,
    /// Whether virtual time stands still.
    pub paused: bool,
}

/// Looks on while a run goes. All of it is called on the thread of the run, which waits.
pub trait Onlooker: Send + Sync {
    /// The drive is being preconditioned: so many per mille of that are done.
    fn prepares(&self, permille: u32);

    /// How fast the run is to go on. It is asked often.
    fn pace(&self) -> Pace;

    /// What the drive is like. It is called twice a second of real time, at the begin, when the run pauses, and at the end. `at` is the
    /// virtual time since the load began. `done` is the share of the load, 0 to 1; `None` if it is not known. What `drive` asks takes no virtual time, and changes
    /// nothing.
    ///
    /// # Errors
    /// The drive cannot be shown. That ends the run.
    fn show(&self, drive: &mut Host<Inspector>, at: Nanos, done: Option<f64>) -> Result<()>;
}

/// Says how long to wait, and how far to go.
#[derive(Debug)]
struct Pacer {
    pace: Pace,
    /// A moment of real time, and of virtual time that belongs to it.
    anchor: (Duration, Nanos),
    /// Nanoseconds of virtual time that this machine simulates in a [`PART_TIME`], about.
    step: u64,
}

impl Pacer {
    fn new(pace: Pace, now: Nanos) -> Self {
        Self { pace, anchor: (Duration::ZERO, now), step: FIRST_PART_NANOS }
    }

    /// How long to wait before virtual time goes on from `now`; `None`: it goes on.
    #[expect(clippy::cast_precision_loss, reason = "a time to sleep")]
    fn wait(&mut self, real: Duration, now: Nanos, pace: Pace) -> Option<Duration> {
        if pace.paused || pace != self.pace {
            (self.pace, self.anchor) = (pace, (real, now));
        }
        if pace.paused {
            return Some(MAX_SLEEP);
        }
        let speed = pace.speed?;
        let (began, from) = self.anchor;
        let due = began.saturating_add(seconds(now.since(from).0 as f64 / 1e9 / speed));
        if real > due + MAX_LAG {
            self.anchor = (real, now);
        }
        (due > real).then(|| (due - real).min(MAX_SLEEP))
    }

    /// Where the next part ends that begins now.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a step, which saturates")]
    fn next(&self, now: Nanos) -> Nanos {
        let smooth = self.pace.speed.map_or(u64::MAX, |speed| (speed * PART_TIME.as_nanos() as f64) as u64);
        Nanos(now.0.saturating_add(self.step.min(smooth).max(1)))
    }

    /// A part took this machine so long.
    fn took(&mut self, real: Duration) {
        if real > PART_TIME * 2 {
            self.step = (self.step / 2).max(1);
        } else if real < PART_TIME / 2 {
            self.step = self.step.saturating_mul(2);
        }
    }
}

/// Seconds as a time; what is too long is as long as can be.
fn seconds(number: f64) -> Duration {
    Duration::try_from_secs_f64(number).unwrap_or(Duration::MAX)
}

/// A run with somebody who looks on.
pub(super) struct Stage<'a> {
    onlooker: &'a dyn Onlooker,
    drive: Host<Inspector>,
    /// When the load began.
    origin: Nanos,
    began: Instant,
    pacer: Pacer,
    /// When the part at hand ends.
    next: Nanos,
    /// When the drive was shown last, in real and in virtual time.
    shown: Option<(Duration, Nanos)>,
}

impl<'a> Stage<'a> {
    /// The load begins. The onlooker sees what the controller of this identifier sees.
    ///
    /// # Errors
    /// The drive cannot be shown.
    pub fn new(onlooker: &'a dyn Onlooker, sim: &Sim, cntlid: u16) -> Result<Self> {
        let drive = sim.inspect(cntlid).context("looking at the drive")?;
        let now = sim.now();
        let pacer = Pacer::new(onlooker.pace(), now);
        let next = pacer.next(now);
        let mut stage =
            Self { onlooker, drive, origin: now, began: Instant::now(), pacer, next, shown: None };
        stage.show(sim, Some(0.0))?;
        Ok(stage)
    }

    /// When the part at hand ends.
    pub fn next(&self) -> Nanos {
        self.next
    }

    /// A part is over that took this machine so long. Shows the drive if it is time to, and returns when the next part may begin, or the
    /// run is to end. `done` is the share of the load that is done, 0 to 1.
    ///
    /// # Errors
    /// The drive cannot be shown.
    pub fn look(&mut self, sim: &Sim, took: Duration, done: f64, cancel: &Cancel) -> Result<()> {
        let now = sim.now();
        if now < self.next {
            return Ok(());
        }
        self.pacer.took(took);
        loop {
            let (real, pace) = (self.began.elapsed(), self.onlooker.pace());
            let is_time = self.shown.is_none_or(|(at, _)| real >= at + SHOW_INTERVAL);
            if is_time || pace.paused {
                self.show(sim, Some(done))?;
            }
            match self.pacer.wait(real, now, pace) {
                Some(span) if !cancel.is_cancelled() => thread::sleep(span),
                _ => break,
            }
        }
        self.next = self.pacer.next(now);
        Ok(())
    }

    /// The load is over.
    ///
    /// # Errors
    /// The drive cannot be shown.
    pub fn end(mut self, sim: &Sim, interrupted: bool) -> Result<()> {
        self.shown = None;
        self.show(sim, (!interrupted).then_some(1.0))
    }

    fn show(&mut self, sim: &Sim, done: Option<f64>) -> Result<()> {
        let now = sim.now();
        if self.shown.is_some_and(|(_, at)| at == now) {
            return Ok(());
        }
        self.onlooker.show(&mut self.drive, now.since(self.origin), done)?;
        self.shown = Some((self.began.elapsed(), now));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::sim::{Contents, LoadFile, Precondition, Settings, Simulated, simulate, simulate_before};
    use lab_report::control::Control;

    const MS: Duration = Duration::from_millis(1);

    fn at(speed: f64) -> Pace {
        Pace { speed: Some(speed), paused: false }
    }

    #[test]
    fn virtual_time_waits_for_real_time() {
        let mut pacer = Pacer::new(at(2.0), Nanos(0));
        // 20 ms of virtual time take 10 ms.
        assert_eq!(pacer.wait(MS * 4, Nanos(20_000_000), at(2.0)), Some(MS * 6));
        assert_eq!(pacer.wait(MS * 10, Nanos(20_000_000), at(2.0)), None);
        // Naps are short, so that another speed holds soon.
        assert_eq!(pacer.wait(MS * 10, Nanos(8_000_000_000), at(2.0)), Some(MAX_SLEEP));
        // Another speed holds from now on, and not for what was before.
        assert_eq!(pacer.wait(MS * 10, Nanos(20_000_000), at(0.5)), None);
        assert_eq!(pacer.wait(MS * 10, Nanos(21_000_000), at(0.5)), Some(MS * 2));
        let fast = Pace { speed: None, paused: false };
        assert_eq!(pacer.wait(MS * 10, Nanos(u64::MAX), fast), None);
    }

    #[test]
    fn a_pause_and_a_lag_are_not_made_up_for() {
        let mut pacer = Pacer::new(at(1.0), Nanos(0));
        let paused = Pace { paused: true, ..at(1.0) };
        assert_eq!(pacer.wait(MS * 10, Nanos(10_000_000), paused), Some(MAX_SLEEP));
        assert_eq!(pacer.wait(MS * 900, Nanos(10_000_000), paused), Some(MAX_SLEEP));
        assert_eq!(pacer.wait(MS * 900, Nanos(10_000_000), at(1.0)), None);
        assert_eq!(pacer.wait(MS * 900, Nanos(15_000_000), at(1.0)), Some(MS * 5));
        // A machine that is too slow by a little catches up; by much, it begins anew from there.
        assert_eq!(pacer.wait(MS * 1000, Nanos(15_000_000), at(1.0)), None);
        assert_eq!(pacer.wait(MS * 1000, Nanos(110_000_000), at(1.0)), None);
        assert_eq!(pacer.wait(MS * 1500, Nanos(120_000_000), at(1.0)), None);
        assert_eq!(pacer.wait(MS * 1500, Nanos(125_000_000), at(1.0)), Some(MS * 5));
    }

    #[test]
    fn parts_are_as_long_as_the_machine_and_the_speed_let_them_be() {
        let mut pacer = Pacer::new(at(1.0), Nanos(0));
        assert_eq!(pacer.next(Nanos(5)), Nanos(5 + FIRST_PART_NANOS));
        for _ in 0..100 {
            pacer.took(MS);
        }
        assert_eq!(pacer.next(Nanos(0)), Nanos(PART_TIME.as_nanos() as u64), "smooth at the speed");
        pacer.pace.speed = None;
        assert_eq!(pacer.next(Nanos(7)), Nanos(u64::MAX));
        for _ in 0..100 {
            pacer.took(PART_TIME * 3);
        }
        assert_eq!(pacer.next(Nanos(7)), Nanos(8), "time goes on");
        pacer.pace.speed = Some(1e-12);
        assert_eq!(pacer.next(Nanos(7)), Nanos(8));
        let step = pacer.step;
        pacer.took(PART_TIME);
        assert_eq!(pacer.step, step);
    }

    /// Looks on as fast as the machine can.
    #[derive(Default)]
    struct Watcher {
        prepared: AtomicU32,
        /// Writes of namespace 1, moments of virtual time, and shares that are done, as they were shown.
        shown: std::sync::Mutex<Vec<(u64, Nanos, Option<f64>)>>,
    }

    impl Onlooker for Watcher {
        fn prepares(&self, permille: u32) {
            self.prepared.fetch_max(permille, Ordering::Relaxed);
        }

        fn pace(&self) -> Pace {
            Pace { speed: None, paused: false }
        }

        fn show(&self, drive: &mut Host<Inspector>, at: Nanos, done: Option<f64>) -> Result<()> {
            assert_eq!(drive.die_times(1)?.len(), drive.set_map_header(1)?.units.get() as usize);
            let writes = drive.namespace_statistics(1)?.host_write_commands.get();
            self.shown.lock().unwrap().push((writes, at, done));
            Ok(())
        }
    }

    fn settings(set: &[&str]) -> Settings {
        let load = "[w]\nrw=randwrite\nbs=4k\niodepth=8\nsize=32m\n[r]\nstonewall\nrw=randread\nsize=4m\n";
        Settings {
            load: LoadFile::fio("x", load).unwrap(),
            drive: "default".to_owned(),
            toml: lab_report::profile::read("default").unwrap(),
            nsid: None,
            precondition: Precondition::Fill,
            contents: Contents::None,
            seed: 1,
            set: set.iter().map(ToString::to_string).collect(),
            out: None,
            overwrite: lab_report::results::Overwrite::default(),
            resume: false,
            cache: None,
            until_steady: false,
            interval: Some(10_000_000),
            policies: Default::default(),
            parallel: Some(1),
        }
    }

    #[test]
    fn a_run_with_an_onlooker_is_the_run_without() {
        let control = Control::default();
        let alone = simulate(&settings(&[]), &control).unwrap();
        let watcher = Watcher::default();
        let watched = simulate_before(&settings(&[]), &control, Some(&watcher)).unwrap();
        for figure in ["digest", "simulated_seconds", "requests", "write_amplification", "namespaces"] {
            let of = |ran: &Simulated| ran.document["simulation"][figure].clone();
            assert_eq!(of(&watched.results), of(&alone.results), "{figure}");
            assert_ne!(of(&alone.results), serde_json::Value::Null, "{figure}");
        }
        assert_eq!(watched.results.series.csv(), alone.results.series.csv());
        assert_eq!(watcher.prepared.into_inner(), 1000);
        let shown = watcher.shown.into_inner().unwrap();
        let (first, last) = (shown[0], shown[shown.len() - 1]);
        assert_eq!((first.1, first.2), (Nanos::ZERO, Some(0.0)));
        assert_eq!((last.0 - first.0, last.2), (8192, Some(1.0)));
        assert_eq!(last.1.0 as f64 / 1e9, alone.results.document["simulation"]["simulated_seconds"]);
        assert!(shown.is_sorted_by_key(|(writes, at, _)| (*writes, *at)), "{shown:?}");
    }

    #[test]
    fn one_run_is_looked_at() {
        let watcher = Watcher::default();
        let sweep = settings(&["seed=1,2,3"]);
        let error = simulate_before(&sweep, &Control::default(), Some(&watcher)).unwrap_err();
        assert_eq!(error.to_string(), "one run at a time can be looked at, and 3 are asked for");
        let one = settings(&["seed=2"]);
        simulate_before(&one, &Control::default(), Some(&watcher)).unwrap();
        assert!(watcher.shown.into_inner().unwrap().len() > 1);
    }
}
