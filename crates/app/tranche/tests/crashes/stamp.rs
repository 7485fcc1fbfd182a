//! What a sector holds: everything about it follows from whose it is, where it is and when it was written, so that data
//! of another namespace, place or time shows.

use rng::Rng;

const MAGIC: u64 = u64::from_le_bytes(*b"TRNSTAMP");

/// Random numbers, with what campaigns ask for.
#[derive(Clone, Debug)]
pub struct Random(Rng);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(Rng::new(seed))
    }

    pub fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.0.below(limit)
    }

    pub fn one_in(&mut self, chance: u64) -> bool {
        self.below(chance) == 0
    }

    /// Another stream.
    pub fn fork(&mut self) -> Self {
        Random::new(self.next())
    }
}

/// The content of a sector: `owner` says which namespace it is of, since its last creation or format. Version 0 is zeros.
pub fn fill(sector: &mut [u8], owner: u64, lba: u64, version: u64) {
    if version == 0 {
        return sector.fill(0);
    }
    let mut random = Random::new(owner ^ lba.rotate_left(20) ^ version.rotate_left(40));
    let (head, body) = sector.split_at_mut(32);
    for (word, value) in head.chunks_exact_mut(8).zip([MAGIC, owner, lba, version]) {
        word.copy_from_slice(&value.to_le_bytes());
    }
    for word in body.chunks_exact_mut(8) {
        word.copy_from_slice(&random.next().to_le_bytes());
    }
}

pub fn is(sector: &[u8], owner: u64, lba: u64, version: u64) -> bool {
    if version == 0 {
        return sector.iter().all(|byte| *byte == 0);
    }
    if version_of(sector) != version {
        return false;
    }
    let mut right = vec![0; sector.len()];
    fill(&mut right, owner, lba, version);
    right == sector
}

fn word(sector: &[u8], index: usize) -> u64 {
    u64::from_le_bytes(sector[index * 8..][..8].try_into().unwrap())
}

fn version_of(sector: &[u8]) -> u64 {
    word(sector, 3)
}

/// What a sector holds, in words.
pub fn describe(sector: &[u8]) -> String {
    if sector.iter().all(|byte| *byte == 0) {
        return "zeros".into();
    }
    if word(sector, 0) != MAGIC {
        return format!("bytes without a stamp, {:02x?}…", &sector[..16]);
    }
    let (owner, lba, version) = (word(sector, 1), word(sector, 2), word(sector, 3));
    let whole = is(sector, owner, lba, version);
    let broken = if whole { "" } else { ", and its checksum is wrong" };
    format!(
        "the stamp of namespace {}, incarnation {}, block {lba}, version {version}{broken}",
        owner >> 32,
        owner & 0xFFFF_FFFF
    )
}
