//! Hosts as reservations know them: by Host Identifier and NQN.

use nvme::Nqn;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Host Identifier of 128 bits (FID 81h); zero is none.
pub(crate) type HostId = [u8; 16];

/// A host: its Host Identifier and its NQN. A Host Identifier is no secret, so it alone proves nothing. Controllers that both name
/// belong to one host.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct ReservationHost {
    pub id: HostId,
    /// `None` in images of before the NQN was kept: the first host that uses a registration with this identifier has it.
    pub nqn: Option<Nqn>,
}

impl ReservationHost {
    /// Whether a host that sends a command is this one. `self` is what was noted.
    pub fn is(&self, host: &ReservationHost) -> bool {
        self.id == host.id && (self.nqn.is_none() || self.nqn == host.nqn)
    }
}

/// As images have it.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum SavedHost {
    Identifier(HostId),
    Host { id: HostId, nqn: String },
}

impl Serialize for ReservationHost {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let saved = match &self.nqn {
            None => SavedHost::Identifier(self.id),
            Some(nqn) => SavedHost::Host { id: self.id, nqn: nqn.as_str().to_owned() },
        };
        saved.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ReservationHost {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match SavedHost::deserialize(deserializer)? {
            SavedHost::Identifier(id) => Ok(ReservationHost { id, nqn: None }),
            SavedHost::Host { id, nqn } => {
                let nqn = Nqn::new(&nqn).map_err(D::Error::custom)?;
                Ok(ReservationHost { id, nqn: Some(nqn) })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_read_from_old_and_new_images() {
        let nqn = Nqn::new("nqn.2026-11.test:a").unwrap();
        for host in
            [ReservationHost { id: [7; 16], nqn: None }, ReservationHost { id: [7; 16], nqn: Some(nqn) }]
        {
            let text = serde_json::to_string(&host).unwrap();
            assert_eq!(serde_json::from_str::<ReservationHost>(&text).unwrap(), host, "{text}");
        }
        assert_eq!(
            serde_json::to_string(&ReservationHost { id: [1; 16], nqn: None }).unwrap(),
            format!("{:?}", [1; 16]).replace(' ', "")
        );
        assert!(serde_json::from_str::<ReservationHost>("[1,2]").is_err());
    }
}
