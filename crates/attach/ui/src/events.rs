//! The stream of samples: Server-Sent Events, as the HTML standard has them.

use crate::ask::Ask;
use crate::source::{Feed, Source};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::timeout;
use web::{Body, Bytes, Progress, StatusCode, stream};

/// After so long without news a comment is sent, so that a reader that has gone is noticed.
const COMMENT_INTERVAL: Duration = Duration::from_secs(2);

/// An event. Its data is JSON without line ends.
fn event(name: &str, data: &str) -> Bytes {
    format!("event: {name}\ndata: {data}\n\n").into()
}

/// What one reader has been told.
#[derive(Default)]
struct Told(Feed);

impl Told {
    /// The events that bring a reader from what it was told to what is so now. What was sent before is known by its place in memory.
    fn news(&mut self, now: &Feed) -> Vec<Bytes> {
        let told = std::mem::replace(&mut self.0, now.clone());
        if let Some(why) = &now.gone {
            // Said once; while the drive is away there is nothing else.
            return told.gone.is_none().then(|| event("gone", why)).into_iter().collect();
        }
        let is_back = told.gone.is_some();
        let news = |name, now: &Option<Arc<str>>, told: &Option<Arc<str>>| {
            let is_old = now.as_ref().zip(told.as_ref()).is_some_and(|(now, told)| Arc::ptr_eq(now, told));
            now.as_ref().filter(|_| is_back || !is_old).map(|data| event(name, data))
        };
        [news("state", &now.state, &told.state), news("sample", &now.sample, &told.sample)]
            .into_iter()
            .flatten()
            .collect()
    }
}

/// A stream for one reader, who has a `place`. It misses samples if it is slow.
pub(crate) fn samples(drive: impl Source, place: OwnedSemaphorePermit, progress: Progress) -> Body {
    let (send, pieces) = mpsc::channel(1);
    tokio::task::spawn_local(async move {
        let _place = place;
        let mut feed = drive.watch();
        let mut told = Told::default();
        if !drive.is_current() {
            told.0.clone_from(&feed.borrow_and_update());
        }
        let first = match drive.ask(Ask::State).await {
            Ok(state) => event("state", &state.to_string()),
            Err(refusal) => {
                let yet = refusal.status == StatusCode::TOO_EARLY;
                event("gone", &json!({ "reason": refusal.why, "yet": yet }).to_string())
            }
        };
        let mut events = vec![first];
        events.extend(told.news(&feed.borrow_and_update()));
        loop {
            for event in events {
                if send.send(event).await.is_err() {
                    return;
                }
            }
            events = match timeout(COMMENT_INTERVAL, feed.changed()).await {
                Ok(Ok(())) => told.news(&feed.borrow_and_update()),
                // The view has ended.
                Ok(Err(_)) => return,
                Err(_) => vec![Bytes::from_static(b": nothing new\n\n")],
            };
        }
    });
    stream(pieces, progress)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(events: &[Bytes]) -> Vec<String> {
        events.iter().map(|event| String::from_utf8(event.to_vec()).unwrap()).collect()
    }

    #[test]
    fn a_reader_is_told_what_is_new_and_every_state() {
        let some = |text: &str| Some(Arc::<str>::from(text));
        let mut told = Told::default();
        let mut feed = Feed { state: some("{1}"), sample: some("{a}"), gone: None };
        assert_eq!(text(&told.news(&feed)), ["event: state\ndata: {1}\n\n", "event: sample\ndata: {a}\n\n"]);
        assert!(told.news(&feed).is_empty());
        feed.sample = some("{a}");
        assert_eq!(text(&told.news(&feed)), ["event: sample\ndata: {a}\n\n"], "the same again is new");
        feed.gone = some("{why}");
        feed.sample = some("{b}");
        assert_eq!(text(&told.news(&feed)), ["event: gone\ndata: {why}\n\n"]);
        feed.gone = some("{why}");
        assert!(told.news(&feed).is_empty(), "that it is away is said once");
        feed.gone = None;
        assert_eq!(text(&told.news(&feed)), ["event: state\ndata: {1}\n\n", "event: sample\ndata: {b}\n\n"]);
    }
}
