//! The host that a request names, and whether it is this machine.

use hyper::header::{HOST, HeaderMap};
use std::net::IpAddr;

/// The name or address of a `Host` header, without the port.
#[must_use]
pub fn name_of(host: &str) -> Option<&str> {
    let (name, port) = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let is_port =
        |port: &str| !port.is_empty() && port.len() <= 5 && port.bytes().all(|byte| byte.is_ascii_digit());
    (port.is_empty() || port.strip_prefix(':').is_some_and(is_port))
        .then_some(name)
        .filter(|name| !name.is_empty())
}

/// Whether a request is for a host of this machine. A page of another site may let its name lead to a loopback address (DNS
/// rebinding): its requests bear that name.
#[must_use]
pub fn is_for_this_machine(headers: &HeaderMap) -> bool {
    let mut hosts = headers.get_all(HOST).iter();
    let host = hosts.next().and_then(|host| host.to_str().ok()).filter(|_| hosts.next().is_none());
    host.and_then(name_of).is_some_and(is_of_this_machine)
}

fn is_of_this_machine(name: &str) -> bool {
    let loopback = |address: IpAddr| address.to_canonical().is_loopback();
    name.eq_ignore_ascii_case("localhost") || name.parse().is_ok_and(loopback)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_for(hosts: &[&str]) -> bool {
        let mut headers = HeaderMap::new();
        for host in hosts {
            headers.append(HOST, host.parse().unwrap());
        }
        is_for_this_machine(&headers)
    }

    #[test]
    fn only_names_of_this_machine_are_its_own() {
        let own = [
            "127.0.0.1:8420",
            "localhost",
            "LOCALHOST:80",
            "[::1]:8420",
            "127.1.2.3:9",
            "[::ffff:127.0.0.1]:1",
        ];
        for host in own {
            assert!(is_for(&[host]), "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:8420",
            "127.0.0.1.evil.example",
            "10.0.0.1:8420",
            "",
            ":8420",
            "localhost:",
            "localhost:x",
            "[::1",
            "[::2]:1",
            "localhost:123456",
            "user@localhost",
            "localhost/",
        ] {
            assert!(!is_for(&[host]), "{host}");
        }
        assert!(!is_for(&[]) && !is_for(&["localhost", "localhost"]));
    }
}
