//! The judge: quiet and attacked slices in turn, and what has to be as before.
//!
//! **Latency.** The measure is the 99th percentile of the victim's commands in a slice with the attack, over that of the quiet slice before it. Both
//! slices run on the same machine within a second, so its speed cancels out. Noise is of three kinds:
//! - A read of the media takes 400 us by the drive's model, so this machine's own time is the smaller part of a quiet latency. The drive and
//!   the victim run at the highest priority: with 2 GB/s of data from an attack, one of them could wait for a tick of the scheduler (4 ms).
//! - A quiet percentile below [`LATENCY_FLOOR`] counts as that: a read that waits for two others of its die is no harm.
//! - A burst of another program hits one slice. So a ratio above [`MAX_RATIO`] is measured again, up to [`MAX_PAIRS`] times, and the lower quartile counts.
//!   An attack that hurts does so nearly each time: its quartile stays above. One that does not needs noise in three of four pairs to be blamed. A virtual
//!   machine whose processors serve others, too, has that much of it for seconds. So an attack that is slow is judged once more after all others.
//!
//! **Connecting** is measured in the same way, with [`CONNECT_FLOOR`], because it takes two exchanges of keys.
//!
//! **Access** has no noise: one violation is enough. A visitor that is turned away may try again for some seconds, and its time counts.

use crate::attack::Attack;
use crate::drive::{HANG_TIMEOUT, World};
use crate::victim::{VISITORS, Victim, Visit, visit};
use crate::wire::{Stop, Tally, set_niceness};
use std::collections::BTreeSet;
use std::fmt;
use std::time::{Duration, Instant};

/// What a neighbour's latency may become.
pub const MAX_RATIO: f64 = 2.0;
const MAX_PAIRS: usize = 11;
const LATENCY_FLOOR: Duration = Duration::from_micros(1500);
const CONNECT_FLOOR: Duration = Duration::from_millis(100);
const QUIET_SLICE: Duration = Duration::from_millis(150);
/// Between an attack and what is quiet: connections are closed, and the drive ends what it has begun.
const SETTLE_TIME: Duration = Duration::from_millis(60);
/// A hostile host would have processors of its own; here it shares them with the drive and the victim.
pub const DRIVE_NICENESS: i32 = -20;
const ATTACKER_NICENESS: i32 = 10;
/// From the start of an attack until it is measured.
const START_TIME: Duration = Duration::from_millis(20);

/// How long an attack may take to have all its connections.
const FILL_TIMEOUT: Duration = Duration::from_secs(20);

/// One attacked slice and the quiet one before it.
struct Pair {
    quiet: Duration,
    attacked: Duration,
    /// Without and with the attack; none if somebody was not served.
    visits: Option<(Visit, Visit)>,
}

/// What is known of an attack.
pub struct Verdict {
    pub name: &'static str,
    pairs: Vec<Pair>,
    pub violations: BTreeSet<String>,
    tally: Tally,
}

/// The value that one in `part` is not above: of few values the lowest.
fn quantile(mut values: Vec<f64>, part: usize) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len().saturating_sub(1) / part).copied().unwrap_or_default()
}

fn lower_quartile(values: Vec<f64>) -> f64 {
    quantile(values, 4)
}

/// The lower median, to be shown.
fn median(values: Vec<f64>) -> f64 {
    quantile(values, 2)
}

fn ratio(attacked: Duration, quiet: Duration, floor: Duration) -> f64 {
    attacked.as_secs_f64() / quiet.max(floor).as_secs_f64()
}

impl Verdict {
    fn new(name: &'static str) -> Verdict {
        Verdict { name, pairs: Vec::new(), violations: BTreeSet::new(), tally: Tally::default() }
    }

    fn ratio(&self) -> f64 {
        lower_quartile(
            self.pairs.iter().map(|pair| ratio(pair.attacked, pair.quiet, LATENCY_FLOOR)).collect(),
        )
    }

    /// The visitor whose connecting suffers most, and how much.
    fn connect_ratio(&self) -> (&'static str, f64) {
        let of = |who: usize| {
            let visits = self.pairs.iter().filter_map(|pair| pair.visits.as_ref());
            lower_quartile(
                visits.map(|(quiet, attacked)| ratio(attacked[who], quiet[who], CONNECT_FLOOR)).collect(),
            )
        };
        let all = VISITORS.iter().enumerate().map(|(who, name)| (*name, of(who)));
        all.max_by(|(_, a), (_, b)| a.total_cmp(b)).unwrap_or(("", 0.0))
    }

    fn is_slow(&self) -> bool {
        self.ratio() > MAX_RATIO || self.connect_ratio().1 > MAX_RATIO
    }

    /// Whether the attack has done nothing yet: this machine was too busy.
    fn is_idle(&self) -> bool {
        self.tally.done + self.tally.failed == 0
    }

    /// Whether nothing else speaks against it.
    pub fn is_only_slow(&self) -> bool {
        self.is_slow() && self.violations.is_empty()
    }

    pub fn holds(&self) -> bool {
        !self.is_slow() && self.violations.is_empty()
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |which: fn(&Pair) -> Duration| {
            median(self.pairs.iter().map(|pair| which(pair).as_secs_f64() * 1e3).collect())
        };
        let (quiet, attacked) = (of(|pair| pair.quiet), of(|pair| pair.attacked));
        let (who, connect) = self.connect_ratio();
        let Tally { done, failed } = self.tally;
        let access = if self.violations.is_empty() { "ok" } else { "BROKEN" };
        let (name, ratio, mark) = (self.name, self.ratio(), if self.holds() { "" } else { "  <--" });
        write!(
            f,
            "{name:32} {quiet:9.2} {attacked:9.2} {ratio:7.2} {connect:8.2} {done:8} {failed:8}  {access:6} {mark}"
        )?;
        if connect > MAX_RATIO {
            write!(f, " {who}")?;
        }
        self.violations.iter().try_for_each(|violation| write!(f, "\n    {violation}"))
    }
}

pub const HEAD: &str = "attack                           p99 quiet attacked   ratio  connect     done   failed  access\n\
                        \x20                                      ms        ms                                        ";

fn p99(mut latencies: Vec<Duration>) -> Duration {
    latencies.sort_unstable();
    let place = (latencies.len() * 99).div_ceil(100).saturating_sub(1);
    latencies.get(place).copied().unwrap_or_default()
}

/// The victim, and a drive, which replace each other when an attack has ended one of them.
pub struct Judge {
    pub world: World,
    victim: Victim,
    seed: u64,
}

impl Judge {
    pub fn new(seed: u64) -> Judge {
        let world = World::start();
        let victim = Victim::arrive(&world, seed);
        Judge { world, victim, seed }
    }

    /// Measures an attack once more. Whether it has to be measured again is the caller's to say.
    fn pair(&mut self, attack: &Attack, verdict: &mut Verdict) -> Result<(), String> {
        let Judge { world, victim, .. } = self;
        (attack.prepare)(world, victim);
        victim.arm(world);
        let before = world.audit(victim).map_err(|error| error.to_string())?;
        let quiet = p99(victim.measure(QUIET_SLICE)?);
        let stop = Stop::default();
        let (attacked, attacked_visit, tally) = std::thread::scope(|scope| {
            let (world, stop): (&World, &Stop) = (world, &stop);
            let attacker = scope.spawn(move || {
                set_niceness(ATTACKER_NICENESS);
                (attack.run)(world, stop)
            });
            std::thread::sleep(START_TIME);
            let attacked = victim.measure(attack.slice).map(p99);
            let deadline = Instant::now() + FILL_TIMEOUT;
            while attack.fills && !stop.is_full() && Instant::now() < deadline {
                std::thread::sleep(START_TIME);
            }
            let visit = visit(world);
            stop.set();
            (attacked, visit, attacker.join())
        });
        std::thread::sleep(SETTLE_TIME);
        verdict.tally += tally.map_err(|_| format!("the attack {} itself panicked", attack.name))?;
        let quiet_visit = recover(world)?;
        let visits = match attacked_visit {
            Ok(attacked) => Some((quiet_visit, attacked)),
            Err(error) => {
                world.violation(format!("not served: {error}"));
                None
            }
        };
        verdict.pairs.push(Pair { quiet, attacked: attacked?, visits });
        let note = |result: Result<(), String>| result.unwrap_or_else(|error| world.violation(error));
        note(victim.disarm());
        note(victim.verify());
        let after = world.audit(victim).map_err(|error| error.to_string())?;
        for (before, after) in before.iter().zip(&after).filter(|(before, after)| before != after) {
            world.violation(format!("changed: {before} -> {after}"));
        }
        (attack.check)(world, victim);
        Ok(())
    }

    /// Judges an attack by this many pairs, and by more if they are slow. What it breaks is mended for those that follow.
    pub fn judge(&mut self, attack: &Attack, rounds: usize) -> Verdict {
        let mut verdict = Verdict::new(attack.name);
        for round in 0..rounds.max(MAX_PAIRS) {
            if round >= rounds && !verdict.is_slow() && !verdict.is_idle() {
                break;
            }
            if round > 0 && verdict.is_idle() {
                // It may wait until what another attack took is paid.
                self.world.forgive_debts();
            }
            if let Err(error) = self.pair(attack, &mut verdict) {
                self.world.violation(error);
            }
            let violations = self.world.take_violations();
            if !violations.is_empty() {
                verdict.violations.extend(violations);
                let alive = self.world.is_alive();
                if !alive {
                    verdict.violations.insert(format!("the drive has ended:\n{}", self.world.said()));
                }
                // Another drive: the next attack finds nothing of this one.
                *self = Judge::new(self.seed);
                break;
            }
        }
        if verdict.is_idle() && verdict.violations.is_empty() {
            verdict.violations.insert("the attack did nothing".to_owned());
        }
        verdict
    }
}

/// After a flood the drive serves everybody again within the time.
fn recover(world: &World) -> Result<Visit, String> {
    let start = Instant::now();
    loop {
        match visit(world) {
            Ok(visit) => return Ok(visit),
            Err(error) if start.elapsed() > HANG_TIMEOUT * 2 => {
                return Err(format!("still not served after the attack: {error}"));
            }
            Err(_) => std::thread::sleep(SETTLE_TIME),
        }
    }
}
