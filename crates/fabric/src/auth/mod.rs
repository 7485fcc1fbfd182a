//! In-band authentication: DH-HMAC-CHAP for both sides (Base 8.3.5), and the keys of TLS.
//!
//! [`Target`] and [`Host`] are state machines without I/O: messages of Authentication Send and Receive go in
//! and come out. Randomness comes in as an argument; time limits are the caller's business, and so is to end
//! the connection when a side [has failed](Target::failure).
//!
//! Every hash function and DH group of the specification, in one direction or in both, for the first time on a
//! queue or again. Not here: secure channel concatenation (refused with its reason).
//!
//! Secrets are wiped when dropped and never part of `Debug` or of an error.

mod chap;
mod crypto;
mod dh;
mod host;
mod key;
mod psk;
mod target;

pub use host::{AuthStep, Host, HostFailure};
pub use key::{ChapKey, KeyError};
use nvme::Nqn;
use nvme::auth::{AuthFailure, DhGroupId, HashId};
pub use psk::{IdentityVersion, TlsKey, TlsPsk};
pub use target::Target;

/// A source of randomness: fills the bytes. Fit for keys, outside of tests.
pub type Random<'a> = &'a mut dyn FnMut(&mut [u8]);

/// Between whom.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parties {
    /// The host's NQN.
    pub host: Nqn,
    /// The subsystem's NQN, as the host's Connect named it: for a discovery controller the well-known one.
    pub subsystem: Nqn,
}

/// What a side offers (host) or accepts (controller), the favourite first. What is used is the controller's
/// favourite among those that the host offers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Methods {
    /// Hash functions.
    pub hashes: Vec<HashId>,
    /// DH groups.
    pub dh_groups: Vec<DhGroupId>,
}

impl Default for Methods {
    /// All. The favourite groups are those of 3,072 bits and more, the smallest first, as these are the fastest. A group of
    /// 2,048 bits comes after them, and no Diffie-Hellman exchange at all is the last choice.
    fn default() -> Self {
        let dh_groups = vec![
            DhGroupId::FFDHE3072,
            DhGroupId::FFDHE4096,
            DhGroupId::FFDHE6144,
            DhGroupId::FFDHE8192,
            DhGroupId::FFDHE2048,
            DhGroupId::NULL,
        ];
        Self { hashes: HashId::ALL.to_vec(), dh_groups }
    }
}

/// Who proves what.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChapKeys {
    /// The host's key, with which it authenticates itself.
    pub host: ChapKey,
    /// The controller's key. A host that has it wants the controller to authenticate itself.
    pub controller: Option<ChapKey>,
}

/// What a `fuzz` target calls: any bytes as messages, to both sides, fresh and in the middle of an exchange.
pub fn fuzz(bytes: &[u8]) {
    let mut state = 0x9E37_79B9u32;
    let mut random = |bytes: &mut [u8]| {
        for byte in bytes {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            *byte = state.to_be_bytes()[0];
        }
    };
    // The first two bytes choose how far a proper exchange goes before the rest comes, and its method.
    let [steps, method, rest @ ..] = bytes else { return };
    let (Ok(a), Ok(b)) = (Nqn::new("nqn.2026-11.test:host"), Nqn::new("nqn.2026-11.test:drive")) else {
        return;
    };
    let parties = Parties { host: a, subsystem: b };
    let (Ok(host), Ok(controller)) =
        (ChapKey::generate(None, None, &mut random), ChapKey::generate(None, None, &mut random))
    else {
        return;
    };
    let keys = ChapKeys { host, controller: (method & 1 != 0).then_some(controller) };
    // The larger groups behave the same, and take long.
    let group = if method & 2 != 0 { DhGroupId::FFDHE2048 } else { DhGroupId::NULL };
    let methods = Methods { hashes: vec![HashId(1 + (method >> 2) % 3)], dh_groups: vec![group] };
    let mut target = Target::new(parties, keys.clone(), methods.clone());
    let mut host = Host::new(parties, keys, methods, 7);
    let mut room = [0; Host::ROOM];
    let mut answer: Option<Vec<u8>> = None;
    for _ in 0..*steps % 6 {
        match host.step(answer.take().as_deref(), &mut random) {
            AuthStep::Send(message) => target.take(&message, &mut random),
            AuthStep::Receive => {
                let filled = target.give(&mut room).unwrap_or(0);
                answer = Some(room[..filled].to_vec());
            }
            AuthStep::Done | AuthStep::Failed(_) => break,
        }
    }
    // Messages with a length before each.
    let mut rest = rest;
    while let [len, tail @ ..] = rest {
        let (message, next) = tail.split_at(usize::from(*len).min(tail.len()));
        rest = next;
        target.take(message, &mut random);
        let filled = target.give(&mut room).unwrap_or(0);
        assert!(filled <= room.len());
        let _ = host.step(Some(message), &mut random);
    }
}

/// Why an exchange cannot go on, as the other side is told.
type Result<T> = std::result::Result<T, AuthFailure>;
