//! The host's side of DH-HMAC-CHAP.

use nvme::U32;
use nvme::auth::{
    AuthFailure, AuthId, AuthType, Challenge, DhGroupId, Failure, HashId, MAX_IDS, MessageHeader, Negotiate,
    ProtocolDescriptor, Reply, Success1, Success2,
};
use nvme::zerocopy::IntoBytes;

use super::chap::{AUTHID, ChallengeInput, Role, challenge, cut, failure, open};
use super::crypto::{Random, Result, Wiped, equal};
use super::dh::Exchange;
use super::parties::{ChapKeys, Methods, Parties};
use super::target::long;

/// What the host is to do next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AuthStep {
    /// Send this with an Authentication Send, then ask again.
    Send(Vec<u8>),
    /// Fetch the next message with an Authentication Receive ([`Host::ROOM`] bytes), and bring it.
    Receive,
    /// Both sides are who they say.
    Done,
    /// It has failed. If the host itself found the reason, the controller has been told.
    Failed(HostFailure),
}

/// Why a host could not authenticate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum HostFailure {
    /// The controller refused.
    #[error("the controller refused: {0}")]
    ByController(AuthFailure),
    /// The controller could not prove who it is, or broke the protocol.
    #[error("the controller did not convince this host: {0}")]
    ByHost(AuthFailure),
}

/// Authenticates one queue of a host, and the controller if its key is known.
#[derive(Debug)]
pub struct Host {
    parties: Parties,
    keys: ChapKeys,
    methods: Methods,
    t_id: u16,
    state: HostHandshake,
}

#[derive(Debug)]
enum HostHandshake {
    Start,
    Negotiated,
    /// Waits for DH-HMAC-CHAP_Challenge.
    Challenge,
    /// The reply has gone; what the controller is expected to respond, if it was asked.
    Replied(HashId, Option<Wiped>),
    /// Waits for DH-HMAC-CHAP_Success1.
    Success1(HashId, Option<Wiped>),
    Done,
    Failed(HostFailure),
}

impl Host {
    /// Room for the longest message, in bytes.
    pub const ROOM: usize = 4096;

    /// For one queue. The transaction's identifier should be another for every exchange of the association.
    #[must_use]
    pub fn new(parties: Parties, keys: ChapKeys, methods: Methods, t_id: u16) -> Self {
        Self { parties, keys, methods, t_id, state: HostHandshake::Start }
    }

    /// What to do next; `answer` is what was fetched, after [`AuthStep::Receive`].
    pub fn step(&mut self, answer: Option<&[u8]>, random: Random<'_>) -> AuthStep {
        match std::mem::replace(
            &mut self.state,
            HostHandshake::Failed(HostFailure::ByHost(AuthFailure::FAILED)),
        ) {
            HostHandshake::Start => {
                self.state = HostHandshake::Negotiated;
                match self.negotiate() {
                    Ok(message) => AuthStep::Send(message),
                    Err(reason) => self.give_up(reason),
                }
            }
            HostHandshake::Negotiated => {
                self.state = HostHandshake::Challenge;
                AuthStep::Receive
            }
            HostHandshake::Replied(hash, expected) => {
                self.state = HostHandshake::Success1(hash, expected);
                AuthStep::Receive
            }
            state @ (HostHandshake::Challenge | HostHandshake::Success1(..)) => {
                let Some(answer) = answer else {
                    self.state = state;
                    return AuthStep::Receive;
                };
                let result = match state {
                    HostHandshake::Success1(hash, expected) => self.success1(answer, hash, expected.as_ref()),
                    _ => self.challenge(answer, random),
                };
                match result {
                    Ok(step) => step,
                    Err(HostProblem::Found(reason)) => self.give_up(reason),
                    Err(HostProblem::Told(reason)) => {
                        self.state = HostHandshake::Failed(HostFailure::ByController(reason));
                        AuthStep::Failed(HostFailure::ByController(reason))
                    }
                }
            }
            HostHandshake::Done => {
                self.state = HostHandshake::Done;
                AuthStep::Done
            }
            HostHandshake::Failed(why) => {
                self.state = HostHandshake::Failed(why);
                AuthStep::Failed(why)
            }
        }
    }

    /// AUTH_Failure2, then the end.
    fn give_up(&mut self, reason: AuthFailure) -> AuthStep {
        self.state = HostHandshake::Failed(HostFailure::ByHost(reason));
        AuthStep::Send(failure(AuthId::FAILURE2, self.t_id, reason).as_bytes().to_vec())
    }

    fn negotiate(&self) -> Result<Vec<u8>> {
        let negotiate = Negotiate {
            header: MessageHeader::new(AuthType::COMMON, AuthId::NEGOTIATE, self.t_id),
            sc_c: 0,
            napd: 1,
        };
        let mut descriptor = ProtocolDescriptor { authid: AUTHID, ..ProtocolDescriptor::default() };
        for (place, hash) in descriptor.hashes.iter_mut().zip(&self.methods.hashes) {
            *place = *hash;
        }
        for (place, group) in descriptor.dh_groups.iter_mut().zip(&self.methods.dh_groups) {
            *place = *group;
        }
        let count = |len: usize| u8::try_from(len.min(MAX_IDS)).map_err(|_| AuthFailure::FAILED);
        descriptor.halen = count(self.methods.hashes.len())?;
        descriptor.dhlen = count(self.methods.dh_groups.len())?;
        Ok([negotiate.as_bytes(), descriptor.as_bytes()].concat())
    }

    /// Checks that a message is the expected one of this transaction.
    fn check(&self, message: &[u8], expected: AuthId) -> std::result::Result<(), HostProblem> {
        let (header, _) = open::<MessageHeader>(message)?;
        if (header.auth_type, header.auth_id) == (AuthType::COMMON, AuthId::FAILURE1) {
            return Err(HostProblem::Told(open::<Failure>(message)?.0.rescodeexp));
        }
        if (header.auth_type, header.auth_id) != (AuthType::DH_HMAC_CHAP, expected) {
            return Err(AuthFailure::INCORRECT_MESSAGE.into());
        }
        if header.t_id.get() != self.t_id {
            return Err(AuthFailure::INCORRECT_PAYLOAD.into());
        }
        Ok(())
    }

    fn challenge(
        &mut self,
        message: &[u8],
        random: Random<'_>,
    ) -> std::result::Result<AuthStep, HostProblem> {
        self.check(message, AuthId::CHALLENGE)?;
        let (fixed, rest) = open::<Challenge>(message)?;
        let hash = fixed.hashid;
        let len = hash.hash_bytes().filter(|_| self.methods.hashes.contains(&hash));
        let len = len.ok_or(AuthFailure::HASH_NOT_USABLE)?;
        let value_len = fixed.dhgid.value_bytes().filter(|_| self.methods.dh_groups.contains(&fixed.dhgid));
        let value_len = value_len.ok_or(AuthFailure::DH_GROUP_NOT_USABLE)?;
        if usize::from(fixed.hl) != len || usize::from(fixed.dhvlen.get()) != value_len {
            return Err(AuthFailure::INCORRECT_PAYLOAD.into());
        }
        let (c1, rest) = cut(rest, len)?;
        let (theirs, _) = cut(rest, value_len)?;
        let exchange = match fixed.dhgid {
            DhGroupId::NULL => None,
            group => Exchange::new(group, random)?,
        };
        let shared = exchange.as_ref().map(|exchange| exchange.agree(theirs)).transpose()?;
        let input = |challenge, seqnum| ChallengeInput {
            hash,
            challenge,
            shared: shared.as_ref(),
            seqnum,
            t_id: self.t_id,
        };
        let r1 = input(c1, fixed.seqnum.get()).response(Role::Host, &self.keys.host, &self.parties)?;
        let (mut c2, mut s2) = (vec![0; len], 0);
        let mut expected = None;
        if let Some(key) = &self.keys.controller {
            (c2, s2) = challenge(hash, random)?;
            expected = Some(input(&c2, s2).response(Role::Controller, key, &self.parties)?);
        }
        let reply = Reply {
            header: MessageHeader::chap(AuthId::REPLY, self.t_id),
            hl: fixed.hl,
            cvalid: expected.is_some().into(),
            dhvlen: long(value_len)?,
            seqnum: U32::new(s2),
            ..Reply::default()
        };
        let value = exchange.as_ref().map_or(&[][..], Exchange::public);
        self.state = HostHandshake::Replied(hash, expected);
        Ok(AuthStep::Send([reply.as_bytes(), &r1, &c2, value].concat()))
    }

    fn success1(
        &mut self,
        message: &[u8],
        hash: HashId,
        expected: Option<&Wiped>,
    ) -> std::result::Result<AuthStep, HostProblem> {
        self.check(message, AuthId::SUCCESS1)?;
        let (fixed, rest) = open::<Success1>(message)?;
        if Some(usize::from(fixed.hl)) != hash.hash_bytes() {
            return Err(AuthFailure::INCORRECT_PAYLOAD.into());
        }
        self.state = HostHandshake::Done;
        let Some(expected) = expected else { return Ok(AuthStep::Done) };
        if fixed.rvalid & 1 == 0 || !equal(expected, cut(rest, expected.len())?.0) {
            return Err(AuthFailure::FAILED.into());
        }
        let success = Success2 { header: MessageHeader::chap(AuthId::SUCCESS2, self.t_id), rsvd6: [0; 10] };
        Ok(AuthStep::Send(success.as_bytes().to_vec()))
    }
}

/// Why an exchange does not go on.
enum HostProblem {
    /// This host found it.
    Found(AuthFailure),
    /// The controller told it.
    Told(AuthFailure),
}

impl From<AuthFailure> for HostProblem {
    fn from(reason: AuthFailure) -> Self {
        Self::Found(reason)
    }
}
