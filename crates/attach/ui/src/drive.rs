//! The thread that talks to the drive. Requests come to it one by one; while anybody watches, it takes samples.

use crate::ask::Ask;
use crate::refusal::{Refusal, explain};
use crate::source::{Answer, Feed, Source};
use crate::state::{self, INTERVAL};
use crate::view::View;
use crate::{change, map};
use host::{Error, Transport};
use serde_json::Value;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;
use web::StatusCode;

/// Requests that may wait.
const MAX_WAITING_REQUESTS: usize = 32;
/// How long a request waits for its answer: less than a connection may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(8);
/// So many samples are taken between two looks at the state.
const SAMPLES: u32 = 4;

struct Job {
    ask: Ask,
    answer: oneshot::Sender<Answer>,
}

/// How requests reach the thread.
#[derive(Clone)]
pub(crate) struct Drive {
    jobs: SyncSender<Job>,
    feed: Arc<watch::Sender<Feed>>,
}

impl Drive {
    /// Starts the thread. It ends when the last clone of what this returns is dropped.
    pub fn start<T: Transport + 'static>(
        view: impl FnOnce() -> View<T> + Send + 'static,
    ) -> io::Result<(Drive, JoinHandle<()>)> {
        let (jobs, taken) = sync_channel(MAX_WAITING_REQUESTS);
        let feed = Arc::new(watch::Sender::new(Feed::default()));
        let told = Arc::downgrade(&feed);
        let thread = std::thread::Builder::new().name("tranche-ui-drive".to_owned()).spawn(move || {
            let mut view = view();
            let feed = move || told.upgrade();
            run(&mut view, &taken, feed);
        })?;
        Ok((Drive { jobs, feed }, thread))
    }
}

impl Source for Drive {
    async fn ask(&self, ask: Ask) -> Answer {
        let (answer, answered) = oneshot::channel();
        let busy = |why| Refusal::new(StatusCode::SERVICE_UNAVAILABLE, why);
        match self.jobs.try_send(Job { ask, answer }) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => {
                return Err(busy("too many requests wait for the drive: try again later"));
            }
            Err(TrySendError::Disconnected(_)) => return Err(busy("the view has ended")),
        }
        match timeout(ANSWER_TIMEOUT, answered).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(busy("the view has ended")),
            Err(_) => {
                let why = format!(
                    "the drive has not answered within {} s: the request may still be carried out",
                    ANSWER_TIMEOUT.as_secs()
                );
                Err(Refusal::new(StatusCode::GATEWAY_TIMEOUT, why))
            }
        }
    }

    fn watch(&self) -> watch::Receiver<Feed> {
        self.feed.subscribe()
    }

    fn is_current(&self) -> bool {
        // Without watchers nothing is sampled.
        false
    }
}

fn run<T: Transport>(
    view: &mut View<T>,
    jobs: &Receiver<Job>,
    feed: impl Fn() -> Option<Arc<watch::Sender<Feed>>>,
) {
    let mut next = Instant::now();
    let mut samples = 0;
    loop {
        // Without watchers nothing is sampled.
        match jobs.recv_timeout(next.saturating_duration_since(Instant::now())) {
            Ok(Job { ask, answer }) => {
                if !ask.only_looks() {
                    samples = 0;
                }
                // Who asked may have gone.
                let _ = answer.send(carry_out(view, ask));
            }
            Err(RecvTimeoutError::Timeout) => {
                next = Instant::now() + INTERVAL;
                let Some(feed) = feed() else { return };
                view.tend();
                if feed.receiver_count() > 0 {
                    tell(view, &feed, samples % SAMPLES == 0);
                    samples += 1;
                }
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

fn tell<T: Transport>(view: &mut View<T>, feed: &watch::Sender<Feed>, with_state: bool) {
    let was_away = feed.borrow().gone.is_some();
    let text = |value: Value| Arc::<str>::from(value.to_string());
    let looked = view.look(|view| {
        let state = if with_state || was_away { Some(state(view)?) } else { None };
        Ok((state, sample(view)?))
    });
    feed.send_modify(|feed| match looked {
        Ok((state, sample)) => {
            feed.gone = None;
            feed.sample = Some(text(sample));
            if let Some(state) = state.map(text).filter(|state| feed.state.as_ref() != Some(state)) {
                feed.state = Some(state);
            }
        }
        Err(error) => feed.gone = Some(text(serde_json::json!({ "reason": explain(&error) }))),
    });
}

fn state<T: Transport>(view: &mut View<T>) -> Result<Value, Error> {
    let address = view.address.clone();
    state::state(&mut view.connected()?.host, &address)
}

fn sample<T: Transport>(view: &mut View<T>) -> Result<Value, Error> {
    let at_ns = u64::try_from(view.begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
    view.connected()?;
    // A host that is new counts from the begin.
    let View { host: Some(connected), sampler, .. } = view else { return Ok(Value::Null) };
    sampler.sample(&mut connected.host, at_ns)
}

fn carry_out<T: Transport>(view: &mut View<T>, ask: Ask) -> Answer {
    match ask {
        Ask::State => Ok(view.look(state)?),
        Ask::Map { set } => Ok(view.look(|view| map::map(&mut view.connected()?.host, set))?),
        Ask::Zones { nsid } => map::zones(view, nsid),
        Ask::Create(new) => view.change(|host| change::create(host, &new)),
        Ask::Delete { nsid, force } => view.change(|host| change::delete(host, nsid, force)),
        Ask::Attach { nsid } => view.change(|host| change::attachment(host, nsid, true)),
        Ask::Detach { nsid } => view.change(|host| change::attachment(host, nsid, false)),
        Ask::Quota { nsid, quota } => view.change(|host| change::quota(host, nsid, &quota)),
        Ask::Zone { nsid, change: zone } => view.change(|host| change::zone(host, nsid, &zone)),
        Ask::PowerCut(cut) => view.change(|host| change::power_cut(host, &cut)),
        Ask::Fault(fault) => view.change(|host| change::fault(host, &fault)),
        Ask::Pace(_) => {
            let why = "this drive is served in real time: only a run of tranche sim has a speed";
            Err(Refusal::new(StatusCode::CONFLICT, why))
        }
    }
}
