//! Metrics of connections over sockets. Counts are since the program started the drive.

use super::BaseUnit::{Bytes, None};
use super::Family;
use super::Kind::{Counter, Gauge};
use super::Samples;
use live::{Snapshot, TransportSnapshot};

const TRANSPORT: &[&str] = &["transport"];

fn counts(s: &Snapshot, out: &mut Samples, count: fn(&TransportSnapshot) -> u64) {
    s.transports.iter().for_each(|transport| out.count(&[&transport.name], count(transport)));
}

pub(super) const FAMILIES: &[Family] = &[
    Family::new(
        "connections",
        Gauge,
        None,
        TRANSPORT,
        "Connections now, each of which is a queue: unix, tcp or tls",
        |s, out| s.transports.iter().for_each(|of| out.gauge(&[&of.name], of.connections)),
    ),
    Family::new(
        "connections_accepted",
        Counter,
        None,
        TRANSPORT,
        "Connections that were accepted",
        |s, out| {
            counts(s, out, |of| of.counts.accepted);
        },
    ),
    Family::new(
        "connections_refused",
        Counter,
        None,
        &[],
        "Connections that were closed before anything was read: too many, or no descriptor for them",
        |s, out| out.count(&[], s.refused_connections),
    ),
    Family::new(
        "transport_received",
        Counter,
        Bytes,
        TRANSPORT,
        "Bytes from hosts, PDUs and all",
        |s, out| {
            counts(s, out, |of| of.counts.received_bytes);
        },
    ),
    Family::new("transport_sent", Counter, Bytes, TRANSPORT, "Bytes to hosts, PDUs and all", |s, out| {
        counts(s, out, |of| of.counts.sent_bytes);
    }),
    Family::new(
        "transport_protocol_errors",
        Counter,
        None,
        TRANSPORT,
        "Connections that ended because the host broke the protocol",
        |s, out| counts(s, out, |of| of.counts.protocol_errors),
    ),
    Family::new(
        "transport_digest_errors",
        Counter,
        None,
        &["transport", "digest"],
        "Wrong digests: a header's ends its connection, a data digest fails its command",
        |s, out| {
            for of in &s.transports {
                out.count(&[&of.name, &"header"], of.counts.header_digest_errors);
                out.count(&[&of.name, &"data"], of.counts.data_digest_errors);
            }
        },
    ),
    Family::new(
        "transport_timeouts",
        Counter,
        None,
        TRANSPORT,
        "Connections that ended because the host took too long",
        |s, out| counts(s, out, |of| of.counts.timeouts),
    ),
    Family::new(
        "authentication_failures",
        Counter,
        None,
        &["reason"],
        "Hosts that were not let in: unknown_host, tls_key (another host's), tls_handshake, dh_hmac_chap, unfinished",
        |s, out| {
            let failures = &s.authentication_failures;
            for (reason, count) in [
                ("unknown_host", failures.unknown_host),
                ("tls_key", failures.tls_key),
                ("tls_handshake", failures.tls_handshake),
                ("dh_hmac_chap", failures.chap),
                ("unfinished", failures.unfinished),
            ] {
                out.count(&[&reason], count);
            }
        },
    ),
];
