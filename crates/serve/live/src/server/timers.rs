//! How long a peer may take: slow, stalled and half-open ones are ended.
//!
//! Nothing is measured on the way of a command. While some connection has something to watch, all of them are looked at
//! a few times per limit; what a connection waits for has a number, and the same number at the next look means that
//! it still does. So a peer has up to a quarter more than its limit.

use media::Nanos;
use std::time::Duration;

/// What is granted to peers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// From the start of a connection until its Connect command has succeeded, and the host has authenticated itself if it
    /// must. A host that is not listed stays no longer, whatever its keep-alive timeout. 30 s.
    pub setup: Duration,
    /// For the rest of a PDU after its first byte, for all data that an R2T asked for, and for taking anything of what
    /// is to be sent. 30 s.
    pub stall: Duration,
    /// Without a command on a discovery controller whose host set no keep-alive timeout. 120 s (Base 3.1.3.3).
    pub discovery: Duration,
    /// Unproven connections of one network (loopback, an IPv4 address, an IPv6 /64) at a time: their hosts have not connected,
    /// are not listed, or have not authenticated themselves. A newer one takes the place of the oldest. 256: a Linux host opens
    /// one for each of its queues before it connects the first.
    pub unproven: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            setup: Duration::from_secs(30),
            stall: Duration::from_secs(30),
            discovery: Duration::from_secs(120),
            unproven: 256,
        }
    }
}

impl Limits {
    /// Time between two looks.
    pub(super) fn interval(&self) -> Nanos {
        let shortest = self.setup.min(self.stall).min(self.discovery) / 4;
        nanos(shortest.clamp(Duration::from_millis(5), Duration::from_secs(1)))
    }
}

pub(super) fn nanos(span: Duration) -> Nanos {
    Nanos(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
}

/// One thing that a connection may wait for.
#[derive(Clone, Copy, Default, Debug)]
struct Watch {
    mark: Option<u64>,
    since: Nanos,
}

impl Watch {
    /// Whether `mark` has been the same for longer than the limit.
    fn is_over(&mut self, mark: Option<u64>, now: Nanos, limit: Duration) -> bool {
        if mark != self.mark {
            *self = Watch { mark, since: now };
        }
        mark.is_some() && now.since(self.since) >= nanos(limit)
    }
}

/// What a connection waits for when it is looked at. An equal value means that nothing has moved since.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct AwaitedProgress {
    /// When the connection began, if its Connect command has not succeeded yet, or authentication is owed.
    pub(super) setup: Option<Nanos>,
    /// The PDU that has come in part.
    pub(super) pdu: Option<u64>,
    /// The R2T that has been outstanding for longest.
    pub(super) r2t: Option<u64>,
    /// Bytes that were ever sent, if there are more to send.
    pub(super) unread: Option<u64>,
    /// When the last command came, and within which time the next must; of discovery controllers.
    pub(super) keep_alive: Option<(Nanos, Nanos)>,
}

/// The watches of one connection.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Watches {
    pdu: Watch,
    r2t: Watch,
    unread: Watch,
}

impl Watches {
    /// Why the connection is to end now, if it is.
    pub(super) fn look(
        &mut self,
        owed: &AwaitedProgress,
        limits: &Limits,
        now: Nanos,
    ) -> Option<&'static str> {
        let stall = limits.stall;
        // Each is asked, so that each knows since when.
        let late = [
            (self.pdu.is_over(owed.pdu, now, stall), "the rest of a PDU did not come in time"),
            (self.r2t.is_over(owed.r2t, now, stall), "data that was asked for (R2T) did not come in time"),
            (self.unread.is_over(owed.unread, now, stall), "the host takes nothing of what is sent to it"),
            (
                owed.setup.is_some_and(|began| now.since(began) >= nanos(limits.setup)),
                "it was not connected and authenticated in time",
            ),
            (
                owed.keep_alive.is_some_and(|(last, within)| now.since(last) >= within),
                "the keep-alive timer of a discovery controller has expired",
            ),
        ];
        late.into_iter().find(|(is_late, _)| *is_late).map(|(_, why)| why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Nanos {
        Nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn what_goes_on_may_take_as_long_as_it_likes_and_what_stalls_may_not() {
        let limits = Limits::default();
        for which in 0..3 {
            let owed = |mark| {
                let mut owed = AwaitedProgress::default();
                *[&mut owed.pdu, &mut owed.r2t, &mut owed.unread][which] = mark;
                owed
            };
            let mut watches = Watches::default();
            for second in 0..100 {
                assert_eq!(watches.look(&owed(Some(second)), &limits, at(second)), None);
            }
            // Idle is no stall.
            assert_eq!(watches.look(&owed(None), &limits, at(1000)), None);
            assert_eq!(watches.look(&owed(Some(7)), &limits, at(2000)), None);
            assert_eq!(watches.look(&owed(Some(7)), &limits, at(2029)), None);
            assert!(watches.look(&owed(Some(7)), &limits, at(2030)).is_some());
        }
    }

    #[test]
    fn a_host_must_connect_and_a_discovering_one_speak() {
        let limits = Limits::default();
        let mut watches = Watches::default();
        let owed = AwaitedProgress { setup: Some(at(5)), ..AwaitedProgress::default() };
        assert_eq!(watches.look(&owed, &limits, at(34)), None);
        assert!(watches.look(&owed, &limits, at(35)).is_some());
        let owed = AwaitedProgress { keep_alive: Some((at(5), at(3))), ..AwaitedProgress::default() };
        assert_eq!(watches.look(&owed, &limits, at(7)), None);
        assert!(watches.look(&owed, &limits, at(8)).is_some());
    }
}
