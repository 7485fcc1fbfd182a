//! NBD of a served drive: where, and who may connect.

use anyhow::{Context, Result};
use export::nbd::{Listener, Place};
use std::net::SocketAddr;

/// A place to listen at: `ADDRESS:PORT`, or the path of a socket, which has a slash.
pub fn place(text: &str) -> Result<Place, String> {
    if text.contains('/') {
        return Ok(Place::Unix(text.into()));
    }
    let address: Option<SocketAddr> = text.parse().ok();
    address.map(Place::Tcp).ok_or_else(|| {
        format!("'{text}' is no place for NBD: expected ADDRESS:PORT, as in 127.0.0.1:10809, or a path with a slash")
    })
}

/// Listens before an image is made: a place that is taken is the most likely reason to end here.
///
/// # Errors
/// A place cannot be listened at, or other machines could go round the list of hosts there.
pub fn listen(places: &[Place], has_hosts: bool) -> Result<Vec<Listener>> {
    if let Some(at) = places.iter().filter(|_| has_hosts).find(|place| is_far(place)) {
        lab_report::misuse!(
            "--nbd {at}: --hosts says which hosts may use the drive, and NBD asks nobody who he is; listen on 127.0.0.1 or on a Unix \
             socket, and reach that through a tunnel"
        );
    }
    let listen =
        |place: &Place| Listener::bind(place.clone()).with_context(|| format!("cannot serve NBD on {place}"));
    let listeners: Vec<Listener> = places.iter().map(listen).collect::<Result<_>>()?;
    for at in listeners.iter().map(Listener::place) {
        match at {
            Place::Tcp(_) if is_far(at) => tracing::warn!(
                "WARNING: {at} can be reached from other machines, and NBD has no authentication: anyone who can connect can read and \
                 overwrite every namespace that has a block file. Listen on 127.0.0.1 or on a Unix socket instead."
            ),
            Place::Tcp(_) if has_hosts => tracing::warn!(
                "{at}: --hosts does not count for NBD, any user of this machine may read and overwrite every namespace that has a block \
                 file; a Unix socket (--nbd /PATH) is for its owner alone"
            ),
            _ => {}
        }
    }
    Ok(listeners)
}

/// Whether other machines can reach it.
fn is_far(place: &Place) -> bool {
    matches!(place, Place::Tcp(address) if !address.ip().to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_addresses_or_paths() {
        assert_eq!(place("./drive").unwrap(), Place::Unix("./drive".into()));
        assert_eq!(place("[::1]:0").unwrap(), Place::Tcp("[::1]:0".parse().unwrap()));
        for wrong in ["drive", "10809", "127.0.0.1", "localhost:10809", ""] {
            assert!(place(wrong).unwrap_err().contains("ADDRESS:PORT"), "{wrong}");
        }
    }

    #[test]
    fn far_places_are_those_beyond_loopback() {
        for (text, far) in [
            ("127.0.0.1:1", false),
            ("[::1]:1", false),
            ("[::ffff:127.0.0.1]:1", false),
            ("/run/socket", false),
            ("0.0.0.0:1", true),
            ("[::]:1", true),
            ("192.0.2.1:1", true),
        ] {
            assert_eq!(is_far(&place(text).unwrap()), far, "{text}");
        }
        let error = listen(&[place("127.0.0.1:0").unwrap(), place("0.0.0.0:0").unwrap()], true).unwrap_err();
        assert!(error.to_string().contains("--nbd 0.0.0.0:0"), "{error}");
    }
}
