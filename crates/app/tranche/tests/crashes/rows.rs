//! Rows whose commit a database acknowledged are there after a crash of the drive, and no others.

use super::Options;
use super::databases::{Database, Engine, Row};
use super::events::Event;
use super::mounted::{MountSetup, Mounted};
use super::scene::Scene;
use super::stamp::Random;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const SESSIONS: u64 = 2;

/// What a session did: its transactions are numbered from 1, and follow from their numbers.
#[derive(Debug, Default)]
struct Ledger {
    session: u64,
    acknowledged: u64,
}

impl Ledger {
    /// A new row, and an older one that changes.
    fn transaction(&self, number: u64) -> Vec<Row> {
        let mut random = Random::new(self.session << 32 ^ number);
        let mut ids = vec![number, 1 + random.below(number)];
        ids.dedup();
        let mut body = |id: u64| {
            let len = 10 + random.below(if random.clone().one_in(8) { 3000 } else { 200 });
            let words = (0..len / 16).map(|_| format!("{:016x}", random.next()));
            (id, format!("s{}t{number}r{id}", self.session) + &words.collect::<String>())
        };
        ids.into_iter().map(&mut body).collect()
    }

    /// Compares, and takes what is there for what was acknowledged.
    fn check(&mut self, found: Vec<Row>) -> Result<(), String> {
        let mut right: BTreeMap<u64, String> = BTreeMap::new();
        (1..=self.acknowledged).for_each(|number| right.extend(self.transaction(number)));
        let found: BTreeMap<u64, String> = found.into_iter().collect();
        if found == right {
            return Ok(());
        }
        let sure = right.clone();
        right.extend(self.transaction(self.acknowledged + 1));
        if found == right {
            self.acknowledged += 1;
            return Ok(());
        }
        let wrong = |id: &u64| sure.get(id) != found.get(id);
        let short = |row: Option<&String>| row.map(|body| body.chars().take(40).collect::<String>());
        let ids = sure.keys().chain(found.keys().filter(|id| !sure.contains_key(id)));
        let told: Vec<String> = ids
            .filter(|id| wrong(id))
            .take(5)
            .map(|id| {
                format!("row {id}: {:?} expected, {:?} found", short(sure.get(id)), short(found.get(id)))
            })
            .collect();
        let (session, last) = (self.session, self.acknowledged);
        Err(format!("session {session}, {last} transactions acknowledged: {}", told.join("; ")))
    }
}

pub fn campaign(
    engine: Engine,
    kind: MountSetup,
    scene: &Scene,
    rounds: u32,
    options: &Options,
) -> Result<String, String> {
    let mut random = Random::new(options.seed);
    let mut mounted = Mounted::new(kind, scene, &mut random, options)?;
    let mut database = Database::new(engine, &mounted.point, &scene.dir);
    database.prepare()?;
    database.create(SESSIONS)?;
    database.start()?;
    let new = || (0..SESSIONS).map(|session| Ledger { session, acknowledged: 0 }).collect::<Vec<_>>();
    let mut ledgers = new();
    let (mut committed, mut faults) = (0, 0);
    for round in super::rounds(rounds) {
        let event = mounted.events.next(&mut random);
        committed += load(&mut mounted, &mut database, &mut ledgers, event, &mut random)?;
        let recovered = mounted.recover(event, &mut random).and_then(|same| {
            if !same {
                ledgers = new();
                database.create(SESSIONS)?;
            }
            let checked = database.start().and_then(|()| {
                ledgers.iter_mut().try_for_each(|ledger| ledger.check(database.rows(ledger.session)?))
            });
            if checked.is_ok() || !database.is_at_fault() {
                return checked;
            }
            faults += 1;
            eprintln!(
                "round {round}: made anew, as the log was read behind its end: {}",
                checked.unwrap_err()
            );
            ledgers = new();
            database.remove()?;
            database.create(SESSIONS)?;
            database.start()
        });
        recovered.map_err(|error| format!("round {round}, {}: {error}", mounted.events.story()))?;
    }
    database.stop()?;
    mounted.end()?;
    let faults = match faults {
        0 => String::new(),
        times => format!(", made anew {times} times after faults of the database's own"),
    };
    Ok(format!("{committed} transactions acknowledged, {}{faults}", mounted.events.summary()))
}

/// The sessions write until so much is acknowledged, then the event happens. Returns how much.
fn load(
    mounted: &mut Mounted,
    database: &mut Database,
    ledgers: &mut [Ledger],
    event: Event,
    random: &mut Random,
) -> Result<u64, String> {
    let (stop, crashing, done) = (AtomicBool::new(false), AtomicBool::new(false), AtomicU64::new(0));
    let enough = 1 + random.below(300);
    let struck = std::thread::scope(|scope| {
        let (stop, crashing, done, database) = (&stop, &crashing, &done, &*database);
        let threads: Vec<_> = ledgers
            .iter_mut()
            .map(|ledger| {
                scope.spawn(move || {
                    let mut session = database.session(ledger.session)?;
                    while !stop.load(Ordering::SeqCst) {
                        let rows = ledger.transaction(ledger.acknowledged + 1);
                        if session.commit(&database.transaction(ledger.session, &rows)) {
                            ledger.acknowledged += 1;
                            done.fetch_add(1, Ordering::SeqCst);
                        } else if crashing.load(Ordering::SeqCst) {
                            return Ok(());
                        } else {
                            return Err(format!("session {} ends, though nothing happened", ledger.session));
                        }
                    }
                    Ok(())
                })
            })
            .collect();
        while done.load(Ordering::SeqCst) < enough && threads.iter().all(|thread| !thread.is_finished()) {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        crashing.store(event != Event::Stop, Ordering::SeqCst);
        let struck = mounted.strike(event, random);
        stop.store(true, Ordering::SeqCst);
        let ended: Result<Vec<()>, String> =
            threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        ended.and(struck)
    });
    match event {
        Event::Stop => database.stop()?,
        _ => database.kill(),
    }
    struck.map(|()| done.load(Ordering::SeqCst))
}
