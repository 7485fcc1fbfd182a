//! Requests that take several commands, one after the other, as `async` functions.
//!
//! A [`run`] task goes on in the thread that delivers what it waits for, as requests of one command do. So it must not block.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// Runs a task to its end, or until it waits for something; whoever gives that goes on with it.
pub fn run(future: impl Future<Output = ()> + Send + 'static) {
    let task = Task { future: Mutex::new(Some(Box::pin(future))), woken: AtomicBool::new(true) };
    Arc::new(task).go_on();
}

struct Task {
    future: Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>,
    /// Whether there is something to go on with.
    woken: AtomicBool,
}

impl Task {
    fn go_on(self: Arc<Self>) {
        // Who finds it running leaves the rest to who runs it.
        while self.woken.load(Ordering::SeqCst) {
            let Ok(mut future) = self.future.try_lock() else { return };
            self.woken.store(false, Ordering::SeqCst);
            let Some(running) = future.as_mut() else { return };
            let waker = Waker::from(self.clone());
            if running.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
                *future = None;
            }
        }
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.woken.store(true, Ordering::SeqCst);
        self.go_on();
    }
}

/// A value that is to come, and who gives it.
pub fn promise<T>() -> (Giver<T>, Promised<T>) {
    let state = Arc::new(Mutex::new(State::Waiting(None)));
    (Giver(state.clone()), Promised(state))
}

enum State<T> {
    Waiting(Option<Waker>),
    Given(T),
    /// Nobody will give it, or it was taken.
    Over,
}

/// Gives a value, once. Dropped, it says that there will be none.
pub struct Giver<T>(Arc<Mutex<State<T>>>);

/// Waits for a value; `None` if there will be none.
pub struct Promised<T>(Arc<Mutex<State<T>>>);

impl<T> Giver<T> {
    /// Gives it. The task that waits for it goes on before this returns, unless another thread runs it.
    pub fn give(self, value: T) {
        self.put(State::Given(value));
    }

    fn put(&self, next: State<T>) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !matches!(*state, State::Waiting(_)) {
            return;
        }
        let before = std::mem::replace(&mut *state, next);
        drop(state);
        if let State::Waiting(Some(waker)) = before {
            waker.wake();
        }
    }
}

impl<T> Drop for Giver<T> {
    fn drop(&mut self) {
        self.put(State::Over);
    }
}

impl<T> Future for Promised<T> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut *state, State::Over) {
            State::Waiting(_) => {
                *state = State::Waiting(Some(cx.waker().clone()));
                Poll::Pending
            }
            State::Given(value) => Poll::Ready(Some(value)),
            State::Over => Poll::Ready(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn a_task_goes_on_where_its_values_come_from() {
        let (said, heard) = mpsc::channel();
        let (first, promised) = promise();
        let (second, later) = promise::<u32>();
        run(async move {
            let first: Option<u32> = promised.await;
            said.send((first, std::thread::current().id())).unwrap();
            let second = later.await;
            said.send((second, std::thread::current().id())).unwrap();
        });
        assert!(heard.try_recv().is_err());
        first.give(1);
        assert_eq!(heard.recv().unwrap(), (Some(1), std::thread::current().id()));
        let other = std::thread::spawn(move || {
            second.give(2);
            std::thread::current().id()
        });
        assert_eq!(heard.recv().unwrap(), (Some(2), other.join().unwrap()));
        assert!(heard.recv().is_err(), "the task is gone");
    }

    #[test]
    fn values_that_come_while_the_task_runs_are_not_missed() {
        let (said, heard) = mpsc::channel();
        run(async move {
            for number in 0..1000u32 {
                let (giver, promised) = promise();
                match number % 2 {
                    0 => giver.give(number),
                    _ => drop(std::thread::spawn(move || giver.give(number))),
                }
                said.send(promised.await).unwrap();
            }
        });
        assert_eq!(heard.iter().collect::<Vec<_>>(), (0..1000).map(Some).collect::<Vec<_>>());
    }

    #[test]
    fn a_giver_that_is_dropped_ends_the_waiting() {
        let (said, heard) = mpsc::channel();
        let (giver, promised) = promise::<u32>();
        run(async move { said.send(promised.await).unwrap() });
        drop(giver);
        assert_eq!(heard.recv().unwrap(), None);
    }
}
