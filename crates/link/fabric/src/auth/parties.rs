//! Who authenticates whom, with which methods and keys.

use super::key::ChapKey;
use nvme::Nqn;
use nvme::auth::{DhGroupId, HashId};

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
