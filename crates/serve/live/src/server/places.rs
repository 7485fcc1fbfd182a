//! Places of connections, and of the controllers behind them: how many a host, a network or a user may hold.
//!
//! A connection is unproven until its host has connected, is listed, and has authenticated itself if it must. Until then it
//! holds a place of its network, and a newer connection of the same network may take that place over. After that it counts for
//! its host if a key proves who that is, otherwise for its network: a name alone costs nothing. Connections on the Unix
//! socket have places of their own.

use super::connection_id::ConnectionId;
use super::gate::Admitted;
use super::socket::Source;
use super::timers::Limits;
use nvme::Nqn;
use peers::{Network, Pool};
use std::collections::{BTreeMap, HashMap};
use std::fmt;

/// Unproven connections at a time.
const MAX_UNPROVEN: usize = 1024;
/// Connections over the network whose hosts are in.
const MAX_CONNECTIONS: usize = 4096;
/// Controllers of these hosts. With one for each unproven connection they leave 1,024 of the drive's 4,096 to the Unix socket
/// and to hosts in this process.
const MAX_CONTROLLERS: usize = 2048;
/// Connections on the Unix socket.
const MAX_LOCAL_CONNECTIONS: usize = 4096;

/// For whom a connection counts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "there are few of them, and they are compared more often than moved"
)]
pub(super) enum Party {
    /// A host that a key has proved.
    Host(Nqn),
    /// All hosts of a network that no key has proved.
    Network(Network),
    /// A user of this machine, on the Unix socket.
    User(u32),
}

impl Party {
    /// For whom a connection of a network counts whose host is in: for the host, if a key says who that is.
    pub(super) fn of(network: Network, entry: Option<Admitted>, has_key: bool) -> Party {
        let proven = entry.filter(|_| has_key);
        proven.map_or(Party::Network(network), |entry| Party::Host(entry.host))
    }
}

/// The place that a connection holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "there are few of them, and they are compared more often than moved"
)]
pub(super) enum Place {
    Local(u32),
    /// The number grows with each connection.
    Unproven(Network, u64),
    Proven(Claim),
}

impl Place {
    /// For whom it counts.
    pub(super) fn party(&self) -> Party {
        match *self {
            Place::Local(user) => Party::User(user),
            Place::Unproven(network, _) => Party::Network(network),
            Place::Proven(Claim { party, .. }) => party,
        }
    }
}

/// What a connection takes whose host is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Claim {
    pub(super) party: Party,
    /// Whether it is the admin queue of a controller of the drive.
    pub(super) controller: bool,
    /// The host's entry in the list of hosts, if there is a list.
    pub(super) entry: Option<Admitted>,
}

/// Why there is no place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Full {
    Connections,
    Controllers,
    ControllersOfHost(u16),
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Full::Connections => f.write_str("it has its share of the drive's connections"),
            Full::Controllers => f.write_str("it has its share of the drive's controllers"),
            Full::ControllersOfHost(most) => {
                write!(f, "it has {most} controllers already (max_controllers in the list of hosts)")
            }
        }
    }
}

/// The places of a server.
pub(super) struct Places {
    local: Pool<u32>,
    unproven: Pool<Network>,
    /// The unproven connections of each network, the oldest first.
    queues: HashMap<Network, BTreeMap<u64, ConnectionId>>,
    /// The number of the last unproven connection.
    number: u64,
    connections: Pool<Party>,
    controllers: Pool<Party>,
    /// Controllers of each listed host.
    of_host: HashMap<Nqn, u16>,
}

impl Places {
    pub(super) fn new(limits: &Limits) -> Self {
        Places {
            local: Pool::new(MAX_LOCAL_CONNECTIONS),
            unproven: Pool::new(MAX_UNPROVEN).with_largest_share(limits.unproven),
            queues: HashMap::new(),
            number: 0,
            connections: Pool::new(MAX_CONNECTIONS),
            controllers: Pool::new(MAX_CONTROLLERS),
            of_host: HashMap::new(),
        }
    }

    /// The connection that gives its place to a new one from this source, if there is none left for it otherwise.
    pub(super) fn oldest_in_the_way(&self, source: Source) -> Option<ConnectionId> {
        let Source::Network(network) = source else { return None };
        let is_full = !self.unproven.has_place_for(&network);
        let queue = self.queues.get(&network).filter(|_| is_full)?;
        queue.values().next().copied()
    }

    /// A place for a new connection.
    pub(super) fn admit(&mut self, source: Source, id: ConnectionId) -> Option<Place> {
        match source {
            Source::User(user) => self.local.take(&user).then_some(Place::Local(user)),
            Source::Network(network) => self.unproven.take(&network).then(|| {
                self.number += 1;
                self.queues.entry(network).or_default().insert(self.number, id);
                Place::Unproven(network, self.number)
            }),
        }
    }

    /// Whether a connection may take this.
    ///
    /// # Errors
    /// Why not.
    pub(super) fn check(&self, claim: &Claim) -> Result<(), Full> {
        if !self.connections.has_place_for(&claim.party) {
            return Err(Full::Connections);
        }
        if !claim.controller {
            return Ok(());
        }
        if let Some(Admitted { host, max_controllers }) = claim.entry
            && self.of_host.get(&host).is_some_and(|held| *held >= max_controllers)
        {
            return Err(Full::ControllersOfHost(max_controllers));
        }
        self.controllers.has_place_for(&claim.party).then_some(()).ok_or(Full::Controllers)
    }

    /// The host of an unproven connection is in: it takes this in exchange for its place.
    ///
    /// # Errors
    /// There is no room: the connection keeps the place that it has.
    pub(super) fn prove(&mut self, place: &mut Place, claim: Claim) -> Result<(), Full> {
        self.check(&claim)?;
        // Both have room.
        let _ = self.connections.take(&claim.party);
        if claim.controller {
            let _ = self.controllers.take(&claim.party);
            if let Some(entry) = claim.entry {
                *self.of_host.entry(entry.host).or_default() += 1;
            }
        }
        self.give_back(std::mem::replace(place, Place::Proven(claim)));
        Ok(())
    }

    /// A connection has ended.
    pub(super) fn give_back(&mut self, place: Place) {
        match place {
            Place::Local(user) => self.local.give_back(&user),
            Place::Unproven(network, number) => {
                self.unproven.give_back(&network);
                if let Some(queue) = self.queues.get_mut(&network) {
                    queue.remove(&number);
                    if queue.is_empty() {
                        self.queues.remove(&network);
                    }
                }
            }
            Place::Proven(Claim { party, controller, entry }) => {
                self.connections.give_back(&party);
                if !controller {
                    return;
                }
                self.controllers.give_back(&party);
                let held = entry.and_then(|entry| Some((entry.host, self.of_host.get_mut(&entry.host)?)));
                if let Some((host, held)) = held {
                    *held -= 1;
                    if *held == 0 {
                        self.of_host.remove(&host);
                    }
                }
            }
        }
    }

    /// Whether parties have to take turns: there are several.
    pub(super) fn are_shared(&self) -> bool {
        self.local.parties() + self.unproven.parties() + self.connections.parties() > 1
    }

    /// Whether no connection holds anything.
    pub(super) fn are_unused(&self) -> bool {
        let pools = self.local.is_unused() && self.unproven.is_unused();
        let proven = self.connections.is_unused() && self.controllers.is_unused();
        pools && proven && self.queues.is_empty() && self.of_host.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    const ID: ConnectionId = ConnectionId { index: 0, generation: 0 };

    fn far(number: u32) -> Network {
        Network::V4(Ipv4Addr::from_bits(0x0A00_0000 + number))
    }

    fn host(number: u32) -> Nqn {
        Nqn::new(&format!("nqn.2026-11.test:{number}")).unwrap()
    }

    fn claim(party: Party) -> Claim {
        Claim { party, controller: true, entry: None }
    }

    /// How many more connections a source may have, of so many.
    fn admitted(places: &mut Places, source: Source, most: usize) -> usize {
        (0..most).filter(|_| places.admit(source, ID).is_some()).count()
    }

    /// How many more controllers a party may have, of so many.
    fn proved(places: &mut Places, party: Party, most: usize) -> usize {
        let unproven = |n: &usize| Place::Unproven(far(9), *n as u64);
        (0..most).filter(|n| places.prove(&mut unproven(n), claim(party)).is_ok()).count()
    }

    #[test]
    fn the_network_and_each_user_leave_the_unix_socket_places() {
        let mut places = Places::new(&Limits::default());
        let all: usize = (0..3000).map(|n| admitted(&mut places, Source::Network(far(n)), 9)).sum();
        assert!(all <= MAX_UNPROVEN, "{all} unproven connections");
        assert!(admitted(&mut places, Source::User(7), 9000) <= MAX_LOCAL_CONNECTIONS / 2);
        assert_eq!(admitted(&mut places, Source::User(0), 100), 100);
        let all: usize = (100..4000).map(|user| admitted(&mut places, Source::User(user), 9)).sum();
        assert!(all <= MAX_LOCAL_CONNECTIONS, "{all} connections on the socket");
        let mut places = Places::new(&Limits::default());
        for user in 0..3000 {
            admitted(&mut places, Source::User(user), 9);
        }
        assert_eq!(admitted(&mut places, Source::Network(Network::Loopback), 100), 100);
    }

    #[test]
    fn a_host_with_a_key_finds_a_place_whatever_its_network_took() {
        let mut places = Places::new(&Limits::default());
        let network = Party::Network(Network::Loopback);
        assert!(proved(&mut places, network, 9000) <= MAX_CONTROLLERS / 2);
        assert_eq!(proved(&mut places, Party::Host(host(1)), 100), 100);
        let all: usize = (10..3000).map(|n| proved(&mut places, Party::Host(host(n)), 9)).sum();
        assert!(all <= MAX_CONTROLLERS, "{all} controllers");
        let queue = |n| Claim { controller: false, ..claim(Party::Host(host(n))) };
        let take = |places: &mut Places, n| places.prove(&mut Place::Unproven(far(9), 0), queue(n)).is_ok();
        let all = (0..30_000).filter(|n| take(&mut places, n / 9)).count();
        assert!(all <= MAX_CONNECTIONS, "{all} connections");
    }

    /// Several connections of a host may have been told that there is room, before one of them has proved itself.
    #[test]
    fn whether_there_is_room_is_asked_when_a_host_has_proved_itself() {
        let mut places = Places::new(&Limits::default());
        let entry = Some(Admitted { host: host(1), max_controllers: 1 });
        let claim = Claim { entry, ..claim(Party::Host(host(1))) };
        let source = Source::Network(Network::Loopback);
        let mut held: Vec<Place> = (0..2).filter_map(|_| places.admit(source, ID)).collect();
        assert_eq!(places.check(&claim), Ok(()));
        assert_eq!(places.prove(&mut held[0], claim), Ok(()));
        assert_eq!(places.prove(&mut held[1], claim), Err(Full::ControllersOfHost(1)));
        assert!(matches!(held[1], Place::Unproven(..)));
        held.drain(..).for_each(|place| places.give_back(place));
        assert!(places.are_unused());
    }

    #[test]
    fn a_name_alone_takes_no_places_from_the_host_that_bears_it() {
        let entry = Some(Admitted { host: host(1), max_controllers: 1 });
        assert_eq!(Party::of(far(1), entry, true), Party::Host(host(1)));
        assert_eq!(Party::of(far(1), entry, false), Party::Network(far(1)));
        assert_eq!(Party::of(far(1), None, true), Party::Network(far(1)));
    }

    #[test]
    fn several_parties_take_turns() {
        let mut places = Places::new(&Limits::default());
        let sources = [Source::Network(Network::Loopback), Source::User(0), Source::Network(far(1))];
        let mut held = Vec::new();
        for (at, source) in sources.into_iter().enumerate() {
            held.extend(places.admit(source, ID));
            assert_eq!(places.are_shared(), at > 0, "{source:?}");
        }
        held.drain(1..).for_each(|place| places.give_back(place));
        assert!(!places.are_shared());
        assert_eq!(places.prove(&mut held[0], claim(Party::Host(host(1)))), Ok(()));
        assert!(!places.are_shared());
        held.extend(places.admit(Source::Network(Network::Loopback), ID));
        assert!(places.are_shared());
    }
}
