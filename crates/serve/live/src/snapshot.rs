//! A running drive at one moment, as plain data: what monitors of this process show.

use device::DriveSnapshot;
use serde::Serialize;

/// A running drive at one moment.
#[derive(Clone, Debug, Serialize)]
pub struct Snapshot {
    /// What the drive itself counts.
    pub drive: DriveSnapshot,
    /// Nanoseconds of the wall's clock since the drive was started in this process.
    pub uptime_ns: u64,
    /// Losses of power since then with which completed writes may have gone.
    pub lossy_power_cuts: u64,
    /// How hosts come over sockets: Unix sockets, TCP, TLS. Counts are since the start.
    pub transports: Vec<TransportSnapshot>,
    /// Connections that were closed before anything was read: too many, or no descriptor or TLS session for them.
    pub refused_connections: u64,
    /// Hosts that were not let in, by the reason.
    pub authentication_failures: AuthenticationFailures,
}

/// Connections of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TransportSnapshot {
    /// `unix`, `tcp` or `tls`.
    pub name: &'static str,
    /// Connections now. Each is a queue.
    pub connections: u64,
    /// What they and those before them counted.
    pub counts: ConnectionCounts,
}

/// What connections count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ConnectionCounts {
    /// Connections that were accepted.
    pub accepted: u64,
    /// Bytes from hosts, PDUs and all.
    pub received_bytes: u64,
    /// Bytes to hosts, likewise.
    pub sent_bytes: u64,
    /// Connections that ended because the host broke the protocol.
    pub protocol_errors: u64,
    /// Connections that ended because a header digest was wrong.
    pub header_digest_errors: u64,
    /// PDUs whose data digest was wrong: their commands fail.
    pub data_digest_errors: u64,
    /// Connections that ended because the host took too long.
    pub timeouts: u64,
}

impl ConnectionCounts {
    /// Adds what others counted.
    pub(crate) fn add(&mut self, other: &ConnectionCounts) {
        self.accepted += other.accepted;
        self.received_bytes += other.received_bytes;
        self.sent_bytes += other.sent_bytes;
        self.protocol_errors += other.protocol_errors;
        self.header_digest_errors += other.header_digest_errors;
        self.data_digest_errors += other.data_digest_errors;
        self.timeouts += other.timeouts;
    }
}

/// Hosts that were not let in, by the reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AuthenticationFailures {
    /// The list of hosts does not have them, or their time is over.
    pub unknown_host: u64,
    /// The TLS key is another host's.
    pub tls_key: u64,
    /// The TLS handshake failed.
    pub tls_handshake: u64,
    /// DH-HMAC-CHAP failed.
    pub chap: u64,
    /// They left without having authenticated themselves, though they should have.
    pub unfinished: u64,
}

impl AuthenticationFailures {
    /// Adds others.
    pub(crate) fn add(&mut self, other: &AuthenticationFailures) {
        self.unknown_host += other.unknown_host;
        self.tls_key += other.tls_key;
        self.tls_handshake += other.tls_handshake;
        self.chap += other.chap;
        self.unfinished += other.unfinished;
    }
}
