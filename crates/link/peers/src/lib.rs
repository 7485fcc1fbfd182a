//! Peers of a server: the network that a peer is of, and places that peers share.
//!
//! A server has a limited number of places (connections, controllers). [`Pool`] shares them, so that no peer keeps the others
//! out. Addresses cost an attacker nothing: all of 127.0.0.0/8 are one machine, and an IPv6 host has 2^64 of them. So peers
//! count by their [`Network`].

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The addresses that count as one peer: this machine's loopback addresses, one IPv4 address, or an IPv6 /64.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Network {
    /// 127.0.0.0/8 and ::1, mapped addresses among them.
    Loopback,
    /// An IPv4 address, also where IPv6 maps it.
    V4(Ipv4Addr),
    /// The first half of IPv6 addresses; the other half is zero.
    V6(Ipv6Addr),
}

impl From<IpAddr> for Network {
    fn from(address: IpAddr) -> Network {
        match address.to_canonical() {
            address if address.is_loopback() => Network::Loopback,
            IpAddr::V4(address) => Network::V4(address),
            IpAddr::V6(address) => Network::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Network::Loopback => f.write_str("this machine"),
            Network::V4(address) => address.fmt(f),
            Network::V6(address) => write!(f, "{address}/64"),
        }
    }
}

/// Places that parties share. A party may take one more while it holds fewer than are free.
///
/// So one party holds half of the places at most, `n` parties leave `1 / (n + 1)` of them, and a newcomer finds a place. Each
/// operation takes constant time.
#[derive(Debug)]
pub struct Pool<P> {
    free: usize,
    /// Places that a party may hold at most, whatever is free.
    largest_share: usize,
    held: HashMap<P, usize>,
}

impl<P: Clone + Eq + Hash> Pool<P> {
    /// A pool of `places`, all of them free.
    pub fn new(places: usize) -> Self {
        Pool { free: places, largest_share: usize::MAX, held: HashMap::new() }
    }

    /// The same pool, where a party holds at most this many places.
    #[must_use]
    pub fn with_largest_share(self, places: usize) -> Self {
        Pool { largest_share: places, ..self }
    }

    /// Whether a party may take one more place.
    pub fn has_place_for(&self, party: &P) -> bool {
        self.held(party) < self.free.min(self.largest_share)
    }

    /// Takes a place, if the party may have one.
    #[must_use]
    pub fn take(&mut self, party: &P) -> bool {
        let may = self.has_place_for(party);
        if may {
            self.free -= 1;
            *self.held.entry(party.clone()).or_default() += 1;
        }
        may
    }

    /// Gives back a place that the party took.
    pub fn give_back(&mut self, party: &P) {
        let Some(held) = self.held.get_mut(party) else { return };
        *held -= 1;
        self.free += 1;
        if *held == 0 {
            self.held.remove(party);
        }
    }

    /// Places that a party holds.
    pub fn held(&self, party: &P) -> usize {
        self.held.get(party).copied().unwrap_or(0)
    }

    /// Parties that hold places.
    pub fn parties(&self) -> usize {
        self.held.len()
    }

    /// Whether all places are free.
    pub fn is_unused(&self) -> bool {
        self.held.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(address: &str) -> Network {
        address.parse::<IpAddr>().unwrap().into()
    }

    #[test]
    fn addresses_of_one_machine_are_one_network() {
        for address in ["127.0.0.1", "127.255.3.4", "::1", "::ffff:127.9.9.9"] {
            assert_eq!(network(address), Network::Loopback, "{address}");
        }
        assert_eq!(network("2001:db8::1"), network("2001:db8::ffff:1:2:3"));
        assert_ne!(network("2001:db8::1"), network("2001:db8:0:1::1"));
        assert_eq!(network("::ffff:192.0.2.7"), network("192.0.2.7"));
        assert_ne!(network("192.0.2.7"), network("192.0.2.8"));
        assert_eq!(network("2001:db8::1:2").to_string(), "2001:db8::/64");
    }

    #[test]
    fn a_newcomer_finds_a_place_whatever_others_take() {
        for greedy in [1, 2, 9, 99] {
            let mut pool = Pool::new(1000);
            while (0..greedy).map(|party| pool.take(&party)).filter(|took| *took).count() > 0 {}
            assert!(pool.held(&0) >= 1000 / (greedy + 1) - 1, "{greedy}");
            assert!(pool.take(&greedy), "{greedy} parties took all");
            for party in 0..=greedy {
                while pool.held(&party) > 0 {
                    pool.give_back(&party);
                }
            }
            assert!(pool.is_unused() && pool.free == 1000);
        }
        let mut pool = Pool::new(100).with_largest_share(3);
        assert_eq!((0..50).filter(|_| pool.take(&"one")).count(), 3);
        pool.give_back(&"no such party");
        assert_eq!(pool.free, 97);
    }
}
