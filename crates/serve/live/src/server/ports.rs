//! The ports of the subsystem: where it listens, which of them a host is told of, and those that are down.

use super::socket::{Listener, Stream};
use device::PortId;
use fabric::discovery;
use media::Nanos;
use nvme::Nqn;
use nvme::log::{AnaState, DiscoveryEntry, TransportType};
use std::net::{IpAddr, SocketAddr};

/// Ports of a drive, at most: their listeners have the first numbers among the sockets that are watched.
pub const MAX_PORTS: usize = 16;

/// Hosts for which the drive is not there, at most: their controllers have vanished.
const MAX_HIDDEN: usize = 64;

/// A TCP address to listen on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TcpPort {
    /// Address and port, IPv4 or IPv6; port 0 is any that is free.
    pub address: String,
    /// State of the ANA group for hosts that come through this port.
    pub ana: AnaState,
}

impl From<&str> for TcpPort {
    /// An optimized port.
    fn from(address: &str) -> Self {
        TcpPort { address: address.to_owned(), ana: AnaState::OPTIMIZED }
    }
}

pub(crate) struct Port {
    pub(crate) listener: Listener,
    pub(crate) id: PortId,
    /// The ANA state at first.
    pub(crate) ana: AnaState,
    /// While it is down: until when.
    down: Option<Nanos>,
}

impl Port {
    pub(super) fn is_down(&self) -> bool {
        self.down.is_some()
    }
}

/// All ports, and what the discovery log says of them.
pub(crate) struct Ports {
    list: Vec<Port>,
    /// Changes of the log (GENCTR).
    generation: u64,
    /// The last discovery controller's identifier.
    discovery: u16,
    /// Hosts whose controller has vanished, and until when.
    hidden: Vec<(Nqn, Nanos)>,
}

impl Ports {
    /// Gives the ports their identifiers, from 1, in their order.
    pub(crate) fn new(listeners: Vec<(Listener, AnaState)>) -> Self {
        let ports = (1..).zip(listeners);
        let list =
            ports.map(|(id, (listener, ana))| Port { listener, id: PortId(id), ana, down: None }).collect();
        Ports { list, generation: 1, discovery: 0, hidden: Vec::new() }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Port> {
        self.list.iter()
    }

    /// The port whose listener has this number.
    pub(super) fn by_number(&self, number: usize) -> Option<&Port> {
        self.list.get(number)
    }

    /// Takes a port out of service; whether that is news.
    pub(super) fn take_down(&mut self, id: PortId, until: Nanos) -> bool {
        let Some(port) = self.list.iter_mut().find(|port| port.id == id) else { return false };
        let news = port.down.is_none();
        port.down = Some(until);
        self.generation += u64::from(news);
        news
    }

    /// Brings back the ports whose time is over, or all; whether there were any.
    pub(super) fn bring_up(&mut self, now: Option<Nanos>) -> bool {
        if now.is_none() {
            self.hidden.clear();
        }
        let mut news = false;
        for port in &mut self.list {
            if port.down.is_some_and(|until| now.is_none_or(|now| until <= now)) {
                port.down = None;
                news = true;
            }
        }
        self.generation += u64::from(news);
        news
    }

    /// The drive is not there for a host until this time.
    pub(super) fn hide_from(&mut self, host: &Nqn, until: Nanos) {
        self.hidden.retain(|(hidden, _)| hidden != host);
        if self.hidden.len() == MAX_HIDDEN {
            self.hidden.remove(0);
        }
        self.hidden.push((*host, until));
    }

    /// Whether the drive is not there for a host.
    pub(super) fn is_hidden_from(&mut self, host: &Nqn, now: Nanos) -> bool {
        self.hidden.retain(|(_, until)| *until > now);
        self.hidden.iter().any(|(hidden, _)| hidden == host)
    }

    /// When the next port comes back.
    pub(super) fn due(&self) -> Nanos {
        self.list.iter().filter_map(|port| port.down).min().unwrap_or(Nanos::MAX)
    }

    /// A discovery controller for the host behind a connection.
    pub(super) fn discovery(
        &mut self,
        stream: &Stream,
        port: PortId,
        subsystem: &Nqn,
        max_transfer: u32,
    ) -> discovery::Controller {
        // FFF0h and above have other meanings.
        self.discovery = self.discovery % 0xFFEF + 1;
        let entries = self.entries(stream, port, subsystem);
        discovery::Controller::new(self.discovery, &entries, self.generation).with_max_transfer(max_transfer)
    }

    /// Tells a discovery controller what the log is now.
    pub(super) fn update(
        &self,
        controller: &mut discovery::Controller,
        stream: &Stream,
        port: PortId,
        subsystem: &Nqn,
    ) {
        controller.update(&self.entries(stream, port, subsystem), self.generation);
    }

    /// What a host is told: the discovery service itself, and every port through which it can reach the subsystem.
    /// Where a port listens on every address of the machine, the one that the host came to is shown.
    fn entries(&self, stream: &Stream, own: PortId, subsystem: &Nqn) -> Vec<DiscoveryEntry> {
        let came_to = stream.tcp().and_then(|s| s.local_addr().ok());
        let up = self.list.iter().filter(|port| port.down.is_none());
        let mut entries = Vec::new();
        for port in up {
            let (address, service, is_unix) = match (&port.listener, came_to) {
                (Listener::Tcp(_, at), Some(came_to)) => match reachable(*at, came_to) {
                    Some(address) => (address.to_string(), at.port().to_string(), false),
                    None => continue,
                },
                (Listener::Unix(_, path), None) => (path.display().to_string(), String::new(), true),
                _ => continue,
            };
            let mut found = vec![discovery::entry(subsystem, &address, &service, port.id.0)];
            if port.id == own {
                found.insert(0, discovery::current(&address, &service, port.id.0));
            }
            if is_unix {
                // The transport is this project's own; "loop" and "intra-host" come nearest.
                for entry in &mut found {
                    (entry.trtype, entry.adrfam) = (TransportType::LOOP, 254);
                }
            }
            if matches!(stream, Stream::Tls(_)) {
                found = found.into_iter().map(discovery::with_tls).collect();
            }
            entries.extend(found);
        }
        entries
    }
}

/// The address under which a host that came to `came_to` reaches a port that listens at `at`; `None` if it cannot, as
/// far as can be told.
fn reachable(at: SocketAddr, came_to: SocketAddr) -> Option<IpAddr> {
    let host = came_to.ip().to_canonical();
    match at.ip() {
        // One that listens on all IPv6 addresses takes IPv4 too.
        IpAddr::V6(all) if all.is_unspecified() => Some(host),
        IpAddr::V4(all) if all.is_unspecified() => host.is_ipv4().then_some(host),
        one => (!one.is_loopback() || host.is_loopback()).then_some(one),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_shown_what_they_can_reach() {
        let shown = |at: &str, came_to: &str| {
            let address = reachable(at.parse().unwrap(), came_to.parse().unwrap());
            address.map_or("-".to_owned(), |address| address.to_string())
        };
        assert_eq!(shown("127.0.0.1:4420", "127.0.0.1:4421"), "127.0.0.1");
        assert_eq!(shown("127.0.0.1:4420", "192.0.2.1:4421"), "-");
        assert_eq!(shown("[::1]:4420", "127.0.0.1:4421"), "::1");
        assert_eq!(shown("192.0.2.1:4420", "127.0.0.1:4421"), "192.0.2.1");
        assert_eq!(shown("0.0.0.0:4420", "192.0.2.7:4421"), "192.0.2.7");
        assert_eq!(shown("0.0.0.0:4420", "[2001:db8::1]:4421"), "-");
        assert_eq!(shown("[::]:4420", "[2001:db8::1]:4421"), "2001:db8::1");
        assert_eq!(shown("[::]:4420", "[::ffff:192.0.2.7]:4420"), "192.0.2.7");
    }
}
