//! The connections of an endpoint, and which of them makes room for another.

use crate::Progress;
use peers::Network;
use std::cell::RefCell;
use std::rc::Rc;
use tokio::task::AbortHandle;

struct OpenConnection {
    /// The first has the smallest.
    number: u64,
    network: Network,
    progress: Progress,
    /// Once its task runs.
    task: Option<AbortHandle>,
}

/// The connections of an endpoint.
#[derive(Clone, Default)]
pub(crate) struct Places(Rc<RefCell<Vec<OpenConnection>>>);

/// A place. Dropping it gives it back.
pub(crate) struct Place {
    places: Places,
    number: u64,
}

impl Places {
    /// A place for a new connection, of `most` in all. Without a free one it takes that of the oldest connection which is no
    /// stream, of the network that has most of these: an honest request is over in milliseconds. `None`: all are streams.
    pub(crate) fn take(&self, most: usize, network: Network, progress: Progress) -> Option<Place> {
        let mut all = self.0.borrow_mut();
        if all.len() >= most {
            let at = last_in_line(&all)?;
            if let Some(task) = all.remove(at).task {
                task.abort();
            }
        }
        let number = all.last().map_or(0, |last| last.number + 1);
        all.push(OpenConnection { number, network, progress, task: None });
        Some(Place { places: self.clone(), number })
    }

    /// The newest connection runs in this task.
    pub(crate) fn runs_in(&self, task: AbortHandle) {
        if let Some(newest) = self.0.borrow_mut().last_mut() {
            newest.task = Some(task);
        }
    }
}

/// Which connection makes room.
fn last_in_line(all: &[OpenConnection]) -> Option<usize> {
    let may_go = |of: &&OpenConnection| !of.progress.is_stream();
    let held = |network| all.iter().filter(may_go).filter(|of| of.network == network).count();
    let line = all.iter().enumerate().filter(|(_, of)| may_go(of));
    line.max_by_key(|(_, of)| (held(of.network), std::cmp::Reverse(of.number))).map(|(at, _)| at)
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.0.borrow_mut().retain(|of| of.number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn far(last: u8) -> Network {
        Network::V4([192, 0, 2, last].into())
    }

    fn networks(places: &Places) -> Vec<Network> {
        places.0.borrow().iter().map(|of| of.network).collect()
    }

    #[test]
    fn the_network_with_most_makes_room_and_streams_stay() {
        let places = Places::default();
        let take = |network| places.take(4, network, Progress::default());
        let stream = Progress::default();
        stream.advance();
        let mut held = vec![places.take(4, far(1), stream).unwrap()];
        held.extend([far(2), far(1), far(1)].map(|network| take(network).unwrap()));
        // The oldest of the network with most that are no streams.
        held.push(take(far(3)).unwrap());
        assert_eq!(networks(&places), [far(1), far(2), far(1), far(3)]);
        // Where all have as many, the oldest of all.
        held.push(take(far(4)).unwrap());
        assert_eq!(networks(&places), [far(1), far(1), far(3), far(4)]);
        held.clear();
        assert!(networks(&places).is_empty());
        let streams: Vec<Progress> = (0..4).map(|_| Progress::default()).collect();
        let held: Vec<_> = streams.iter().map(|of| places.take(4, far(1), of.clone()).unwrap()).collect();
        streams.iter().for_each(Progress::advance);
        assert!(take(far(9)).is_none() && held.len() == 4);
    }
}
