//! The view's host: what it knows of the drive, and keeps between two questions.

use crate::refusal::Refusal;
use crate::sample::Sampler;
use host::{Error, Host, IoQueue, Transport};
use std::time::Instant;

/// Entries of the queue that manages zones.
const DEPTH: u16 = 4;

/// The drive as the view's host sees it.
pub(crate) struct View<T: Transport> {
    connect: Box<dyn FnMut() -> Result<Host<T>, Error> + Send>,
    pub host: Option<Connected<T>>,
    /// Where hosts connect.
    pub address: String,
    pub begun: Instant,
    pub sampler: Sampler,
}

/// A host with its controller.
pub(crate) struct Connected<T: Transport> {
    pub host: Host<T>,
    queue: Option<IoQueue<T::Queue>>,
}

impl<T: Transport> Connected<T> {
    /// The queue for commands to zones.
    pub fn queue(&mut self) -> Result<&mut IoQueue<T::Queue>, Error> {
        let queue = match self.queue.take() {
            Some(queue) => queue,
            None => self.host.io_queue(DEPTH)?,
        };
        Ok(self.queue.insert(queue))
    }
}

impl<T: Transport> View<T> {
    pub fn new(connect: impl FnMut() -> Result<Host<T>, Error> + Send + 'static, address: String) -> View<T> {
        View {
            connect: Box::new(connect),
            host: None,
            address,
            begun: Instant::now(),
            sampler: Sampler::default(),
        }
    }

    /// The host, connected if it was not.
    pub fn connected(&mut self) -> Result<&mut Connected<T>, Error> {
        let connected = match self.host.take() {
            Some(connected) => connected,
            None => {
                self.sampler.forget();
                Connected { host: (self.connect)()?, queue: None }
            }
        };
        Ok(self.host.insert(connected))
    }

    /// Does something, and forgets the association if it turns out to have gone.
    pub fn attempt<R>(&mut self, act: impl FnOnce(&mut Self) -> Result<R, Error>) -> Result<R, Error> {
        let result = act(self);
        if result.as_ref().is_err_and(Error::is_lost) {
            self.host = None;
        }
        result
    }

    /// Looks: once more if the association had gone, as after a loss of power.
    pub fn look<R>(&mut self, mut act: impl FnMut(&mut Self) -> Result<R, Error>) -> Result<R, Error> {
        match self.attempt(&mut act) {
            Err(error) if error.is_lost() => self.attempt(act),
            other => other,
        }
    }

    /// Changes something: once. That the association is there is found out before.
    pub fn change<R>(
        &mut self,
        act: impl FnOnce(&mut Connected<T>) -> Result<R, Refusal>,
    ) -> Result<R, Refusal> {
        self.look(|view| view.connected()?.host.active_namespaces())?;
        act(self.connected()?)
    }

    /// Keeps the association alive.
    pub fn tend(&mut self) {
        if self.host.is_some() {
            // One that has gone is found out by whoever needs it.
            let _ = self.attempt(|view| view.connected()?.host.tend());
        }
    }
}
