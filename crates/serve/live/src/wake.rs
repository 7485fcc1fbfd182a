//! What the drive's thread sleeps on: sockets, a timer, and a bell that other threads ring.

use media::Nanos;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, OwnedFd};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
use std::io;

/// Reports of an [`epoll`] wait that are not a socket's.
const BELL: u64 = u64::MAX;
const TIMER: u64 = u64::MAX - 1;
/// Bits of the number that a front end gives a socket. The front end's own number stands above them, and is less than 255.
const BITS: u32 = 56;

/// What a report says of a socket.
fn key(front_end: u8, number: u64) -> EventData {
    EventData::new_u64(u64::from(front_end) << BITS | number & ((1 << BITS) - 1))
}

pub(crate) struct Sleeper {
    poll: OwnedFd,
    bell: OwnedFd,
    timer: OwnedFd,
}

/// Events of sockets, by the front end and the number under which each was added.
pub(crate) struct Ready {
    events: Vec<epoll::Event>,
}

impl Ready {
    pub(crate) fn new() -> Self {
        Ready { events: Vec::with_capacity(64) }
    }

    /// Whether anything was reported.
    pub(crate) fn has_news(&self) -> bool {
        !self.events.is_empty()
    }

    /// Whether any socket has news.
    pub(crate) fn has_sockets(&self) -> bool {
        self.events.iter().map(|e| e.data).any(|data| data.u64() < TIMER)
    }

    /// Numbers of a front end's sockets with news, and whether the other end has closed its side.
    pub(crate) fn sockets(&self, front_end: u8) -> impl Iterator<Item = (u64, bool)> + '_ {
        let gone = EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR;
        let news = self.events.iter().map(move |e| {
            let (data, flags) = (e.data, e.flags);
            (data.u64(), flags.intersects(gone))
        });
        let of_front_end = news.filter(move |(key, _)| key >> BITS == u64::from(front_end));
        of_front_end.map(|(key, gone)| (key & ((1 << BITS) - 1), gone))
    }
}

impl Sleeper {
    pub(crate) fn new() -> io::Result<Self> {
        let poll = epoll::create(CreateFlags::CLOEXEC)?;
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let timer = rustix::time::timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK,
        )?;
        epoll::add(&poll, &bell, EventData::new_u64(BELL), EventFlags::IN)?;
        epoll::add(&poll, &timer, EventData::new_u64(TIMER), EventFlags::IN)?;
        Ok(Sleeper { poll, bell, timer })
    }

    /// Watches a socket: it becomes ready when it can be read, or, once its buffer had been full, written.
    pub(crate) fn watch(&self, socket: impl AsFd, front_end: u8, number: u64) -> io::Result<()> {
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::ET | EventFlags::RDHUP;
        Ok(epoll::add(&self.poll, socket, key(front_end, number), flags)?)
    }

    /// Watches a listener: it becomes ready as long as somebody waits.
    pub(crate) fn watch_listener(&self, socket: impl AsFd, front_end: u8, number: u64) -> io::Result<()> {
        Ok(epoll::add(&self.poll, socket, key(front_end, number), EventFlags::IN)?)
    }

    /// Wakes the sleeper, or keeps it from falling asleep.
    pub(crate) fn ring(&self) {
        // It can only fail because it was rung 2^64 times already.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }

    /// Sets the timer to ring after `span`; `None` never.
    pub(crate) fn set_timer(&self, span: Option<Nanos>) {
        // A zero would switch the timer off.
        let span = span.map_or(0, |s| s.0.max(1));
        let it_value = Timespec {
            tv_sec: i64::try_from(span / 1_000_000_000).unwrap_or(i64::MAX),
            tv_nsec: i64::from((span % 1_000_000_000) as u32),
        };
        let it_interval = Timespec { tv_sec: 0, tv_nsec: 0 };
        let spec = Itimerspec { it_interval, it_value };
        // The descriptor is a timer and the time is valid.
        let _ = rustix::time::timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &spec);
    }

    /// Waits for something to happen; `wait` false only looks.
    pub(crate) fn sleep(&self, ready: &mut Ready, wait: bool) {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let timeout = if wait { None } else { Some(&now) };
        ready.events.clear();
        // An interrupted sleep is one that ended early.
        let _ = epoll::wait(&self.poll, rustix::buffer::spare_capacity(&mut ready.events), timeout);
        let mut drained = [0; 8];
        for number in ready.events.iter().map(|e| e.data).map(EventData::u64).filter(|&n| n >= TIMER) {
            let fd = if number == BELL { &self.bell } else { &self.timer };
            let _ = rustix::io::read(fd, &mut drained);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    #[test]
    fn front_ends_hear_of_their_own_sockets() {
        let sleeper = Sleeper::new().unwrap();
        let (mut far, near) = UnixStream::pair().unwrap();
        let (mut other_far, other_near) = UnixStream::pair().unwrap();
        let largest = (1 << BITS) - 1;
        sleeper.watch_listener(&near, 1, largest).unwrap();
        sleeper.watch_listener(&other_near, 254, largest).unwrap();
        let mut ready = Ready::new();
        sleeper.ring();
        sleeper.sleep(&mut ready, false);
        assert!(ready.has_news() && !ready.has_sockets(), "the bell is no socket");
        far.write_all(b"x").unwrap();
        sleeper.sleep(&mut ready, false);
        let numbers = |ready: &Ready, front_end| ready.sockets(front_end).collect::<Vec<_>>();
        assert_eq!((numbers(&ready, 1), numbers(&ready, 254)), (vec![(largest, false)], vec![]));
        other_far.write_all(b"x").unwrap();
        sleeper.sleep(&mut ready, false);
        assert_eq!(
            (numbers(&ready, 1).len(), numbers(&ready, 254).len(), numbers(&ready, 2).len()),
            (1, 1, 0)
        );
    }
}
