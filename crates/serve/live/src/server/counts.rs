//! What the connections of a server count, those that have ended among them.

use super::peer::Peer;
use super::socket::Stream;
use crate::snapshot::{AuthenticationFailures, ConnectionCounts, TransportSnapshot};

/// The kinds of connections.
const NAMES: [&str; 3] = ["unix", "tcp", "tls"];

fn kind(stream: &Stream) -> usize {
    match stream {
        Stream::Unix(_) => 0,
        Stream::Tcp(_) => 1,
        Stream::Tls(_) | Stream::Away(_) => 2,
    }
}

/// What connections counted that have ended.
#[derive(Default)]
pub(super) struct Counts {
    ended: [ConnectionCounts; 3],
    failures: AuthenticationFailures,
    /// Connections that were closed before anything was read.
    pub(super) refused: u64,
}

impl Counts {
    /// A connection ends.
    pub(super) fn end(&mut self, peer: &Peer) {
        self.ended[kind(&peer.stream)].add(&peer.counts());
        self.failures.add(&peer.gate.failures);
        self.failures.unfinished += u64::from(peer.gate.unproven().is_some());
    }

    /// With those that go on.
    pub(super) fn with<'a>(
        &self,
        peers: impl Iterator<Item = &'a Peer>,
    ) -> (Vec<TransportSnapshot>, AuthenticationFailures) {
        let mut failures = self.failures;
        let mut all: Vec<_> = (0..NAMES.len())
            .map(|kind| TransportSnapshot { name: NAMES[kind], connections: 0, counts: self.ended[kind] })
            .collect();
        for peer in peers {
            let transport = &mut all[kind(&peer.stream)];
            transport.connections += 1;
            transport.counts.add(&peer.counts());
            failures.add(&peer.gate.failures);
        }
        (all, failures)
    }
}
