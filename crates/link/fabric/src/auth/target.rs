//! The controller's side of DH-HMAC-CHAP.

use nvme::Status;
use nvme::auth::{
    AuthFailure, AuthId, AuthType, Challenge, DhGroupId, Failure, HashId, MessageHeader, Negotiate,
    ProtocolDescriptor, Reply, Success1, Success2,
};
use nvme::zerocopy::IntoBytes;
use nvme::{U16, U32};

use super::chap::{AUTHID, ChallengeInput, Role, challenge, cut, failure, open};
use super::crypto::{Random, Result, Wiped, equal};
use super::dh::{self, Exchange};
use super::parties::{ChapKeys, Methods, Parties};

/// Authenticates the host on one queue, and the controller to it if the host asks for that.
///
/// A host may authenticate again on a queue that works: the queue stays authenticated meanwhile, unless that
/// fails.
#[derive(Debug)]
pub struct Target {
    parties: Parties,
    keys: ChapKeys,
    methods: Methods,
    state: TargetHandshake,
    t_id: u16,
    authenticated: bool,
}

#[derive(Debug, Default)]
enum TargetHandshake {
    /// Waits for AUTH_Negotiate: nothing has begun, or all has ended well.
    #[default]
    Idle,
    /// The challenge waits to be fetched.
    Challenge(Vec<u8>, PendingChallenge),
    /// Waits for the reply.
    Challenged(PendingChallenge),
    /// DH-HMAC-CHAP_Success1 waits to be fetched; whether a Success2 is to follow.
    Success1(Vec<u8>, bool),
    /// Waits for DH-HMAC-CHAP_Success2.
    Success2,
    /// AUTH_Failure1 waits to be fetched.
    Failure1(AuthFailure),
    /// Nothing goes any more.
    Failed(AuthFailure),
}

/// What was asked of the host.
#[derive(Debug)]
struct PendingChallenge {
    hash: HashId,
    challenge: Vec<u8>,
    seqnum: u32,
    exchange: Option<Exchange>,
}

impl Target {
    /// For one queue, on which nothing has come yet.
    #[must_use]
    pub fn new(parties: Parties, keys: ChapKeys, methods: Methods) -> Self {
        Self { parties, keys, methods, state: TargetHandshake::Idle, t_id: 0, authenticated: false }
    }

    /// Between whom it is.
    #[must_use]
    pub fn parties(&self) -> Parties {
        self.parties
    }

    /// Whether the host has authenticated itself (and the controller itself to the host, if that was asked
    /// for): other commands may be executed.
    #[must_use]
    pub fn is_authenticated(&self) -> bool {
        self.authenticated
    }

    /// Why the exchange has failed for good: the connection is to be ended. While AUTH_Failure1 still waits
    /// to be fetched, this is `None`.
    #[must_use]
    pub fn failure(&self) -> Option<AuthFailure> {
        match self.state {
            TargetHandshake::Failed(reason) => Some(reason),
            _ => None,
        }
    }

    /// Takes the data of an Authentication Send. What is wrong with it is told to the host by the next
    /// message that it fetches.
    pub fn take(&mut self, message: &[u8], random: Random<'_>) {
        let state = std::mem::take(&mut self.state);
        self.state = match state {
            TargetHandshake::Failure1(_) | TargetHandshake::Failed(_) => state,
            state => self.process(state, message, random).unwrap_or_else(|reason| self.fail(reason)),
        };
    }

    /// How long the numbers are, in bytes, that [`take`](Target::take) has to calculate with for this message; 0 if it has no Diffie-Hellman exchange. Its
    /// time grows with the third power of it.
    #[must_use]
    pub fn exchange_bytes(&self, message: &[u8]) -> usize {
        match &self.state {
            TargetHandshake::Idle => self.choose(message).map_or(0, |(_, group)| dh::length(group)),
            TargetHandshake::Challenged(pending) => {
                pending.exchange.as_ref().map_or(0, |exchange| exchange.public().len())
            }
            _ => 0,
        }
    }

    fn fail(&mut self, reason: AuthFailure) -> TargetHandshake {
        self.authenticated = false;
        TargetHandshake::Failure1(reason)
    }

    fn process(
        &mut self,
        state: TargetHandshake,
        message: &[u8],
        random: Random<'_>,
    ) -> Result<TargetHandshake> {
        let (header, _) = open::<MessageHeader>(message)?;
        if (header.auth_type, header.auth_id) == (AuthType::COMMON, AuthId::FAILURE2) {
            let (told, _) = open::<Failure>(message)?;
            self.authenticated = false;
            return Ok(TargetHandshake::Failed(told.rescodeexp));
        }
        let kind = (header.auth_type, header.auth_id);
        match (state, kind) {
            (TargetHandshake::Idle, (AuthType::COMMON, AuthId::NEGOTIATE)) => {
                self.t_id = header.t_id.get();
                self.negotiate(message, random)
            }
            (TargetHandshake::Challenged(pending), (AuthType::DH_HMAC_CHAP, AuthId::REPLY)) => {
                self.check_transaction(header)?;
                self.reply(&pending, message)
            }
            (TargetHandshake::Success2, (AuthType::DH_HMAC_CHAP, AuthId::SUCCESS2)) => {
                self.check_transaction(header)?;
                open::<Success2>(message)?;
                self.authenticated = true;
                Ok(TargetHandshake::Idle)
            }
            _ => Err(AuthFailure::INCORRECT_MESSAGE),
        }
    }

    fn check_transaction(&self, header: &MessageHeader) -> Result<()> {
        if header.t_id.get() == self.t_id { Ok(()) } else { Err(AuthFailure::INCORRECT_PAYLOAD) }
    }

    /// What both sides can, by the controller's taste, of what an AUTH_Negotiate offers.
    fn choose(&self, message: &[u8]) -> Result<(HashId, DhGroupId)> {
        let (negotiate, mut rest) = open::<Negotiate>(message)?;
        if negotiate.sc_c != 0 {
            return Err(AuthFailure::CONCATENATION_MISMATCH);
        }
        if negotiate.napd == 0 {
            return Err(AuthFailure::INCORRECT_PAYLOAD);
        }
        let mut offered = None;
        for _ in 0..negotiate.napd {
            let (descriptor, next) = open::<ProtocolDescriptor>(rest)?;
            rest = next;
            if descriptor.authid == AUTHID {
                offered = offered.or(Some(descriptor));
            }
        }
        let offered = offered.ok_or(AuthFailure::PROTOCOL_NOT_USABLE)?;
        let count = |len: u8| Some(usize::from(len)).filter(|len| *len > 0);
        let hashes = count(offered.halen).and_then(|len| offered.hashes.get(..len));
        let groups = count(offered.dhlen).and_then(|len| offered.dh_groups.get(..len));
        let (hashes, groups) = hashes.zip(groups).ok_or(AuthFailure::INCORRECT_PAYLOAD)?;
        let hash = self.methods.hashes.iter().copied().find(|hash| hashes.contains(hash));
        let hash = hash.ok_or(AuthFailure::HASH_NOT_USABLE)?;
        let group = self.methods.dh_groups.iter().copied().find(|group| groups.contains(group));
        let group = group.ok_or(AuthFailure::DH_GROUP_NOT_USABLE)?;
        Ok((hash, group))
    }

    fn negotiate(&self, message: &[u8], random: Random<'_>) -> Result<TargetHandshake> {
        let (hash, group) = self.choose(message)?;
        let (challenge, seqnum) = challenge(hash, random)?;
        let exchange = Exchange::new(group, random)?;
        let value = exchange.as_ref().map_or(&[][..], Exchange::public);
        let fixed = Challenge {
            header: MessageHeader::chap(AuthId::CHALLENGE, self.t_id),
            hl: short(challenge.len())?,
            hashid: hash,
            dhgid: group,
            dhvlen: long(value.len())?,
            seqnum: U32::new(seqnum),
            ..Challenge::default()
        };
        let message = [fixed.as_bytes(), &challenge, value].concat();
        Ok(TargetHandshake::Challenge(message, PendingChallenge { hash, challenge, seqnum, exchange }))
    }

    fn reply(&self, pending: &PendingChallenge, message: &[u8]) -> Result<TargetHandshake> {
        let (reply, rest) = open::<Reply>(message)?;
        let len = pending.challenge.len();
        let value_len = pending.exchange.as_ref().map_or(0, |exchange| exchange.public().len());
        if usize::from(reply.hl) != len || usize::from(reply.dhvlen.get()) != value_len {
            return Err(AuthFailure::INCORRECT_PAYLOAD);
        }
        let (r1, rest) = cut(rest, len)?;
        let (c2, rest) = cut(rest, len)?;
        let (value, _) = cut(rest, value_len)?;
        let shared = pending.exchange.as_ref().map(|exchange| exchange.agree(value)).transpose()?;
        let input = |challenge, seqnum| ChallengeInput {
            hash: pending.hash,
            challenge,
            shared: shared.as_ref(),
            seqnum,
            t_id: self.t_id,
        };
        let asked = input(&pending.challenge, pending.seqnum);
        let expected = asked.response(Role::Host, &self.keys.host, &self.parties)?;
        if !equal(&expected, r1) {
            return Err(AuthFailure::FAILED);
        }
        // Without a sequence number, C2 would serve secure channel concatenation only.
        let s2 = reply.seqnum.get();
        let asks = reply.cvalid & 1 != 0 && s2 != 0;
        let r2 = if asks {
            let key = self.keys.controller.as_ref().ok_or(AuthFailure::FAILED)?;
            input(c2, s2).response(Role::Controller, key, &self.parties)?
        } else {
            Wiped::default()
        };
        let fixed = Success1 {
            header: MessageHeader::chap(AuthId::SUCCESS1, self.t_id),
            hl: short(len)?,
            rvalid: asks.into(),
            ..Success1::default()
        };
        Ok(TargetHandshake::Success1([fixed.as_bytes(), &r2].concat(), asks))
    }

    /// Gives the message for an Authentication Receive, and how long it is.
    ///
    /// # Errors
    /// Invalid Field in Command if the room (the Allocation Length) is too small; the message stays.
    pub fn give(&mut self, room: &mut [u8]) -> std::result::Result<usize, Status> {
        let mut put = |message: &[u8]| match room.get_mut(..message.len()) {
            Some(place) => {
                place.copy_from_slice(message);
                Ok(message.len())
            }
            None => Err(Status::INVALID_FIELD.with_dnr()),
        };
        // A host that fetches what there is not has lost its way.
        if matches!(
            self.state,
            TargetHandshake::Idle | TargetHandshake::Challenged(_) | TargetHandshake::Success2
        ) {
            self.state = self.fail(AuthFailure::INCORRECT_MESSAGE);
        }
        let len = match &self.state {
            TargetHandshake::Challenge(message, _) | TargetHandshake::Success1(message, _) => put(message)?,
            TargetHandshake::Failure1(reason) | TargetHandshake::Failed(reason) => {
                put(failure(AuthId::FAILURE1, self.t_id, *reason).as_bytes())?
            }
            TargetHandshake::Idle | TargetHandshake::Challenged(_) | TargetHandshake::Success2 => 0,
        };
        self.state = match std::mem::take(&mut self.state) {
            TargetHandshake::Challenge(_, pending) => TargetHandshake::Challenged(pending),
            TargetHandshake::Success1(_, true) => TargetHandshake::Success2,
            TargetHandshake::Success1(_, false) => {
                self.authenticated = true;
                TargetHandshake::Idle
            }
            TargetHandshake::Failure1(reason) => TargetHandshake::Failed(reason),
            state => state,
        };
        Ok(len)
    }
}

/// A length of one byte.
fn short(len: usize) -> Result<u8> {
    u8::try_from(len).map_err(|_| AuthFailure::FAILED)
}

/// A length of two bytes.
pub(super) fn long(len: usize) -> Result<U16> {
    u16::try_from(len).map(U16::new).map_err(|_| AuthFailure::FAILED)
}
