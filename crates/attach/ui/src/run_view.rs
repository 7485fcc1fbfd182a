//! A run in virtual time, as a source of a view: the thread of the run hands over what it is like, and requests are answered from that.

use crate::ask::Ask;
use crate::map::map;
use crate::pace::{NewPace, Speed};
use crate::refusal::Refusal;
use crate::sample::Sampler;
use crate::source::{Answer, Feed, Source};
use crate::state::state;
use host::{Error, Host, Transport};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;
use web::StatusCode;

/// Why a page changes nothing of the drive.
const SIMULATION_REFUSAL: &str = "this drive is simulated: its load and its seed alone decide what happens. Use tranche serve --ui for a drive that can \
                     be changed.";
/// Why zones are not shown.
const ZONES: &str = "a run has no list of zones: the map of the set shows which superblocks have zones";
/// So many samples are handed over between two looks at what changes seldom.
const SAMPLES: u32 = 4;

/// How a run has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RunEnd {
    /// Its load has come to its end.
    Complete,
    /// It was interrupted.
    Interrupted,
    /// It failed.
    Failed,
}

/// How a run is to go on.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Pace {
    /// Virtual time for each real second.
    pub speed: Speed,
    /// Whether virtual time stands still.
    pub paused: bool,
}

/// What is known of the run.
struct Known {
    load: String,
    pace: Pace,
    end: Option<RunEnd>,
    /// Why there is nothing to see yet.
    waits: String,
    state: Option<Value>,
    maps: BTreeMap<u16, Value>,
    sampler: Sampler,
    /// Samples so far.
    samples: u32,
}

struct Shared {
    known: Mutex<Known>,
    feed: watch::Sender<Feed>,
}

/// What the view of a run shows. Its clones are the same one: the thread of the run has one, and the view another.
#[derive(Clone)]
pub struct RunView(Arc<Shared>);

impl std::fmt::Debug for RunView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunView").finish_non_exhaustive()
    }
}

fn text(value: &Value) -> Arc<str> {
    value.to_string().into()
}

impl Known {
    /// The state with what is so of the run now.
    fn state(&self) -> Option<Value> {
        let mut state = self.state.clone()?;
        let speed = match self.pace.speed {
            Speed::Times(number) => json!(number),
            Speed::Max => json!("max"),
        };
        let end = self.end.map(|end| match end {
            RunEnd::Complete => "complete",
            RunEnd::Interrupted => "interrupted",
            RunEnd::Failed => "failed",
        });
        state["run"] = json!({ "load": self.load, "speed": speed, "paused": self.pace.paused, "end": end });
        Some(state)
    }
}

impl RunView {
    /// The view of a run that has not begun. `load` is what it runs, for people to read.
    pub fn new(load: String, speed: Speed) -> RunView {
        let known = Known {
            load,
            pace: Pace { speed, paused: false },
            end: None,
            waits: "the run has not begun yet".to_owned(),
            state: None,
            maps: BTreeMap::new(),
            sampler: Sampler::default(),
            samples: 0,
        };
        RunView(Arc::new(Shared { known: Mutex::new(known), feed: watch::Sender::new(Feed::default()) }))
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How the run is to go on, as the page wants it.
    pub fn pace(&self) -> Pace {
        self.known().pace
    }

    /// There is nothing to see yet, for this reason.
    pub fn waits(&self, why: &str) {
        let mut known = self.known();
        if known.waits != why && known.state.is_none() {
            why.clone_into(&mut known.waits);
            let gone = text(&json!({ "reason": why, "yet": true }));
            // Each reason is news.
            self.0.feed.send_modify(|feed| feed.gone = Some(gone));
        }
    }

    /// Hands over what the run is like now: `at_ns` nanoseconds of virtual time after its begin, and this share of its load done, if that is
    /// known. What this host asks must take no time of the run.
    ///
    /// # Errors
    /// The host cannot look.
    pub fn show<T: Transport>(&self, host: &mut Host<T>, at_ns: u64, done: Option<f64>) -> Result<(), Error> {
        let mut known = self.known();
        let mut sample = known.sampler.sample(host, at_ns)?;
        sample["done"] = done.into();
        let has_news = known.samples.is_multiple_of(SAMPLES);
        known.samples += 1;
        if has_news {
            let mut state = state(host, "")?;
            state["allows"] = json!({ "namespaces": SIMULATION_REFUSAL, "quotas": SIMULATION_REFUSAL, "power_cut": SIMULATION_REFUSAL, "faults": SIMULATION_REFUSAL });
            // What looks is no host of its own.
            for host in state["hosts"].as_array_mut().into_iter().flatten() {
                host["view"] = false.into();
            }
            known.state = Some(state);
        }
        known.maps.clear();
        for set in host.nvm_sets()? {
            let set = set.nvmsetid.get();
            known.maps.insert(set, map(host, set)?);
        }
        let state = known.state().filter(|_| has_news);
        self.tell(state.as_ref(), Some(&sample));
        Ok(())
    }

    /// The run is over. What was shown last stays.
    pub fn end(&self, end: RunEnd) {
        let mut known = self.known();
        if known.end.is_none() {
            known.end = Some(end);
            "the run ended before there was anything to see".clone_into(&mut known.waits);
            self.tell(known.state().as_ref(), None);
        }
    }

    fn tell(&self, state: Option<&Value>, sample: Option<&Value>) {
        self.0.feed.send_modify(|feed| {
            feed.gone = None;
            if let Some(sample) = sample {
                feed.sample = Some(text(sample));
            }
            if let Some(state) = state.map(text).filter(|state| feed.state.as_ref() != Some(state)) {
                feed.state = Some(state);
            }
        });
    }

    fn change_pace(&self, new: &NewPace) -> Answer {
        let speed = new.speed().map_err(Refusal::bad)?;
        let mut known = self.known();
        if known.end.is_some() {
            return Err(Refusal::new(StatusCode::CONFLICT, "the run is over"));
        }
        known.pace.speed = speed.unwrap_or(known.pace.speed);
        known.pace.paused = new.paused.unwrap_or(known.pace.paused);
        let state = known.state();
        if state.is_some() {
            self.tell(state.as_ref(), None);
        }
        Ok(json!({}))
    }

    fn answer(&self, ask: &Ask) -> Answer {
        let known = self.known();
        let not_yet = || Refusal::new(StatusCode::TOO_EARLY, known.waits.clone());
        match ask {
            Ask::State => known.state().ok_or_else(not_yet),
            Ask::Map { .. } if known.maps.is_empty() => Err(not_yet()),
            Ask::Map { set } => known.maps.get(set).cloned().ok_or_else(|| {
                let all: Vec<String> = known.maps.keys().map(u16::to_string).collect();
                let why = format!("there is no NVM Set {set} (the drive has {})", all.join(", "));
                Refusal::new(StatusCode::NOT_FOUND, why)
            }),
            Ask::Zones { .. } => Err(Refusal::new(StatusCode::FORBIDDEN, ZONES)),
            Ask::Pace(new) => {
                drop(known);
                self.change_pace(new)
            }
            Ask::Create(_)
            | Ask::Delete { .. }
            | Ask::Attach { .. }
            | Ask::Detach { .. }
            | Ask::Quota { .. }
            | Ask::Zone { .. }
            | Ask::PowerCut(_)
            | Ask::Fault(_) => Err(Refusal::new(StatusCode::FORBIDDEN, SIMULATION_REFUSAL)),
        }
    }
}

impl Source for RunView {
    async fn ask(&self, ask: Ask) -> Answer {
        self.answer(&ask)
    }

    fn watch(&self) -> watch::Receiver<Feed> {
        self.0.feed.subscribe()
    }

    fn is_current(&self) -> bool {
        true
    }
}
