//! What both sides of DH-HMAC-CHAP do alike.

use nvme::auth::{AuthFailure, AuthId, AuthType, Failure, HashId, MessageHeader};
use nvme::zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use super::crypto::{Random, Result, Wiped, digest, hmac};
use super::key::ChapKey;
use super::parties::Parties;

/// Authentication Protocol Identifier of DH-HMAC-CHAP.
pub(super) const AUTHID: u8 = 1;

/// Who responds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    Host,
    Controller,
}

/// A challenge, and what a response to it depends on besides.
#[derive(Debug)]
pub(super) struct ChallengeInput<'a> {
    pub hash: HashId,
    pub challenge: &'a [u8],
    /// What the Diffie-Hellman exchange gave; `None` with the NULL group.
    pub shared: Option<&'a Wiped>,
    pub seqnum: u32,
    pub t_id: u16,
}

impl ChallengeInput<'_> {
    /// The response R1 or R2 (Base 8.3.5.5.8): HMAC(K, Ca || S || T || SC_C || label || own NQN || 0 || other NQN).
    pub fn response(&self, role: Role, key: &ChapKey, parties: &Parties) -> Result<Wiped> {
        let (label, own, other) = match role {
            Role::Host => ("HostHost", &parties.host, &parties.subsystem),
            Role::Controller => ("Controller", &parties.subsystem, &parties.host),
        };
        // The challenge augmented by the shared secret: Ca = HMAC(H(secret), C).
        let augmented = match self.shared {
            Some(shared) => hmac(self.hash, &digest(self.hash, shared)?, &[self.challenge])?,
            None => self.challenge.to_vec().into(),
        };
        let sc_c = [0];
        hmac(
            self.hash,
            &key.bound_to(own)?,
            &[
                &augmented,
                &self.seqnum.to_le_bytes(),
                &self.t_id.to_le_bytes(),
                &sc_c,
                label.as_bytes(),
                own.as_str().as_bytes(),
                &[0],
                other.as_str().as_bytes(),
            ],
        )
    }
}

/// The fixed part of a message, and what follows.
pub(super) fn open<T>(message: &[u8]) -> Result<(&T, &[u8])>
where
    T: FromBytes + KnownLayout + Immutable + Unaligned,
{
    T::ref_from_prefix(message).map_err(|_| AuthFailure::INCORRECT_PAYLOAD)
}

/// So many bytes, and what follows.
pub(super) fn cut(bytes: &[u8], len: usize) -> Result<(&[u8], &[u8])> {
    bytes.split_at_checked(len).ok_or(AuthFailure::INCORRECT_PAYLOAD)
}

/// AUTH_Failure1 or AUTH_Failure2.
pub(super) fn failure(auth_id: AuthId, t_id: u16, reason: AuthFailure) -> Failure {
    Failure {
        header: MessageHeader::new(AuthType::COMMON, auth_id, t_id),
        rescode: nvme::auth::REASON_AUTHENTICATION_FAILURE,
        rescodeexp: reason,
    }
}

/// A new challenge and its sequence number, which is never 0.
pub(super) fn challenge(hash: HashId, random: Random<'_>) -> Result<(Vec<u8>, u32)> {
    let mut bytes = vec![0; hash.hash_bytes().ok_or(AuthFailure::HASH_NOT_USABLE)?];
    random(&mut bytes);
    let mut seqnum = [0; 4];
    random(&mut seqnum);
    Ok((bytes, u32::from_le_bytes(seqnum).max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nvme::Nqn;

    /// Computed apart from this code, with Python's `hmac`, from the formulas of Base 8.3.5.5.
    #[test]
    fn responses_are_those_of_the_formulas() {
        let bytes: Vec<u8> = (0..32).collect();
        let parties = Parties {
            host: Nqn::new("nqn.2014-08.org.nvmexpress:uuid:00112233-4455-6677-8899-aabbccddeeff").unwrap(),
            subsystem: Nqn::new("nqn.2026-11.io.tranche:drive").unwrap(),
        };
        let shared = Wiped::from((0..=255).collect::<Vec<u8>>());
        for (hash, transform, shared, r1, r2) in [
            (
                HashId::SHA256,
                0,
                None,
                "95dc651b6e4df001f763a8beccf24827b6e95d45f64cfecaebe25448f2a2f222",
                "30afd0c5add0514288135b17d5118cd617dc2566565b35854c20d2513890affe",
            ),
            (
                HashId::SHA384,
                1,
                None,
                "eb94a27e16031771b2f4bcf2a8a094c6d93af4ccf1d0971f8d90ba8f6d830fc6\
                 8cbcbda5791c9da4aba7c72723ed7343",
                "ee9a6772d40d451f4896dff64d7836bf04af7447dbeb4281a207a05e900b9351\
                 323f370b3f274620bee5ae0a170c974a",
            ),
            (
                HashId::SHA512,
                3,
                Some(&shared),
                "402d25cdeaeca25cd12f8e37e73633543730d185d1eba28f2d1b8c7d93b4d660\
                 5a47aa8e6d1b70cd46f37c3733c48a7b99b0c85bb6e7712fb7de4e4407a27b47",
                "8068d87b79af0ee58c30dfa4c05aa634b636feee53cfa1ae664c00a14810b540\
                 1b575f3da362a684e454a8275c779e7f4722d2afb50e72deaa9718a0998bb7ba",
            ),
        ] {
            let key: ChapKey = super::super::key::format("DHHC-1", transform, &bytes).parse().unwrap();
            let challenge: Vec<u8> = (0..hash.hash_bytes().unwrap()).map(|i| 0xA0 ^ i as u8).collect();
            let question =
                ChallengeInput { hash, challenge: &challenge, shared, seqnum: 0x0102_0304, t_id: 0x0506 };
            for (role, expected) in [(Role::Host, r1), (Role::Controller, r2)] {
                let response = question.response(role, &key, &parties).unwrap();
                let hex: String = response.iter().map(|byte| format!("{byte:02x}")).collect();
                assert_eq!(hex, expected, "{hash} {role:?}");
            }
        }
    }
}
