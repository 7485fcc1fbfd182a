//! Blocks that tell whether they are what was written: no memory is needed to check them.
//!
//! A written I/O consists of units of `verify_interval` bytes. Each starts with a header and goes on with
//! random bytes that follow from the job's seed and the unit's place:
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 8 | "TrVerify" |
//! | 8 | 8 | place of the unit on the namespace in bytes, little endian |
//! | 16 | 4 | length of the unit in bytes |
//! | 20 | 4 | kind of checksum |
//! | 24 | 8 | seed of the contents |
//! | 32 | 64 | checksum of everything behind the header, zero-padded |
//! | 96 | 4 | CRC-32C of the header up to here |
//! | 100 | 4 | zero |

use super::options::Verify;
use md5::Md5;
use sha1::Sha1;
use sha2::digest::Digest;
use sha2::{Sha256, Sha512};
use workload::Rng;

/// Bytes of the header.
pub(super) const HEADER: usize = 104;
const MAGIC: &[u8; 8] = b"TrVerify";
const CHECKSUM: std::ops::Range<usize> = 32..96;

/// A block that is not what was written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mismatch {
    /// Where it is, in bytes from the start of the namespace.
    pub offset: u64,
    /// What is wrong, with what was expected and what is there.
    pub problem: String,
}

impl std::fmt::Display for Mismatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "verify failed at offset {}: {}", self.offset, self.problem)
    }
}

/// Makes and checks the contents of a job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Verifier {
    pub kind: Verify,
    /// Bytes of a unit.
    pub unit: usize,
    pub seed: u64,
    pub pattern: Vec<u8>,
}

impl Verifier {
    /// Fills whole units that start at this offset of the namespace.
    pub fn fill(&self, offset: u64, buffer: &mut [u8]) {
        if self.kind == Verify::Pattern {
            let from = (offset % self.pattern.len() as u64) as usize;
            let bytes = self.pattern.iter().cycle().skip(from);
            buffer.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
            return;
        }
        for (place, unit) in (offset..).step_by(self.unit).zip(buffer.chunks_exact_mut(self.unit)) {
            let (header, contents) = unit.split_at_mut(HEADER);
            random(self.seed ^ place.rotate_left(32), contents);
            header.fill(0);
            header[..8].copy_from_slice(MAGIC);
            header[8..16].copy_from_slice(&place.to_le_bytes());
            header[16..20].copy_from_slice(&(self.unit as u32).to_le_bytes());
            header[20..24].copy_from_slice(&(self.kind as u32).to_le_bytes());
            header[24..32].copy_from_slice(&self.seed.to_le_bytes());
            header[CHECKSUM].copy_from_slice(&self.checksum(contents));
            let crc = crc32c(&header[..96]);
            header[96..100].copy_from_slice(&crc.to_le_bytes());
        }
    }

    /// Checks whole units that start at this offset of the namespace.
    pub fn check(&self, offset: u64, buffer: &[u8]) -> Result<(), Mismatch> {
        if self.kind == Verify::Pattern {
            let from = (offset % self.pattern.len() as u64) as usize;
            let bytes = self.pattern.iter().cycle().skip(from);
            return match buffer.iter().zip(bytes).zip(offset..).find(|((is, wanted), _)| is != wanted) {
                None => Ok(()),
                Some(((is, wanted), offset)) => Err(Mismatch {
                    offset,
                    problem: format!("the byte is {is:#04x}, the pattern has {wanted:#04x}"),
                }),
            };
        }
        for (place, unit) in (offset..).step_by(self.unit).zip(buffer.chunks_exact(self.unit)) {
            self.check_unit(place, unit).map_err(|problem| Mismatch { offset: place, problem })?;
        }
        Ok(())
    }

    fn check_unit(&self, place: u64, unit: &[u8]) -> Result<(), String> {
        let (header, contents) = unit.split_at(HEADER);
        let word =
            |at: usize| header[at..at + 8].iter().rev().fold(0u64, |word, byte| word << 8 | u64::from(*byte));
        if &header[..8] != MAGIC {
            let what = if unit.iter().all(|byte| *byte == 0) { "all zeroes" } else { "no header" };
            return Err(format!(
                "{what} (the first bytes are {:016x}, a header starts with {:016x})",
                word(0),
                magic()
            ));
        }
        let (crc, stated) = (crc32c(&header[..96]), word(96) as u32);
        if crc != stated {
            return Err(format!("the header is damaged (its checksum is {crc:08x}, it says {stated:08x})"));
        }
        if word(8) != place {
            return Err(format!("the block belongs to offset {}", word(8)));
        }
        let (unit, kind) = (word(16) as u32, (word(16) >> 32) as u32);
        if unit as usize != self.unit || kind != self.kind as u32 {
            return Err(format!(
                "written with another verify_interval or verify ({unit} bytes, kind {kind}; expected {} bytes, kind {})",
                self.unit, self.kind as u32
            ));
        }
        let (is, stated) = (self.checksum(contents), &header[CHECKSUM]);
        if is != stated {
            return Err(format!("the checksum is {}, the header says {}", hex(&is), hex(stated)));
        }
        Ok(())
    }

    fn checksum(&self, data: &[u8]) -> [u8; 64] {
        let mut sum = [0; 64];
        let mut put = |bytes: &[u8]| sum[..bytes.len()].copy_from_slice(bytes);
        match self.kind {
            Verify::Crc32c => put(&crc32c(data).to_le_bytes()),
            Verify::Crc32 => put(&checksum(crc_fast::CrcAlgorithm::Crc32IsoHdlc, data).to_le_bytes()[..4]),
            Verify::Crc64 => put(&checksum(crc_fast::CrcAlgorithm::Crc64Nvme, data).to_le_bytes()),
            Verify::Md5 => put(&Md5::digest(data)),
            Verify::Sha1 => put(&Sha1::digest(data)),
            Verify::Sha256 => put(&Sha256::digest(data)),
            Verify::Sha512 => put(&Sha512::digest(data)),
            Verify::Xxhash => put(&twox_hash::XxHash64::oneshot(0, data).to_le_bytes()),
            Verify::Meta | Verify::Pattern => {}
        }
        sum
    }
}

fn magic() -> u64 {
    u64::from_le_bytes(*MAGIC)
}

fn hex(bytes: &[u8]) -> String {
    let end = bytes.iter().rposition(|byte| *byte != 0).map_or(1, |last| last + 1);
    bytes[..end].iter().map(|byte| format!("{byte:02x}")).collect()
}

fn checksum(algorithm: crc_fast::CrcAlgorithm, data: &[u8]) -> u64 {
    crc_fast::checksum(algorithm, data)
}

fn crc32c(data: &[u8]) -> u32 {
    checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, data) as u32
}

/// Fills with random bytes that follow from the seed.
pub(super) fn random(seed: u64, buffer: &mut [u8]) {
    let mut rng = Rng::new(seed);
    for chunk in buffer.chunks_mut(8) {
        chunk.copy_from_slice(&rng.next_u64().to_le_bytes()[..chunk.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [Verify; 10] = [
        Verify::Crc32,
        Verify::Crc32c,
        Verify::Crc64,
        Verify::Md5,
        Verify::Sha1,
        Verify::Sha256,
        Verify::Sha512,
        Verify::Xxhash,
        Verify::Meta,
        Verify::Pattern,
    ];

    #[test]
    fn every_kind_sees_what_it_promises_to_see() {
        for kind in KINDS {
            let verifier = Verifier { kind, unit: 512, seed: 7, pattern: vec![1, 2, 3] };
            let mut buffer = vec![0; 2048];
            verifier.fill(4096, &mut buffer);
            assert_eq!(verifier.check(4096, &buffer), Ok(()), "{kind:?}");
            let moved = verifier.check(8192, &buffer);
            assert_eq!(moved.unwrap_err().offset, 8192, "{kind:?}");
            for at in [0, 9, 40, 97, 511, 600, 2047] {
                let mut damaged = buffer.clone();
                damaged[at] ^= 0x10;
                let seen = verifier.check(4096, &damaged).is_err();
                let meant = kind != Verify::Meta || at % 512 < 100;
                assert_eq!(seen, meant, "{kind:?}, byte {at}");
            }
            assert!(verifier.check(4096, &[0; 2048]).is_err());
        }
    }

    #[test]
    fn says_what_is_there_instead() {
        let verifier = Verifier { kind: Verify::Crc32c, unit: 512, seed: 7, pattern: Vec::new() };
        let mut buffer = vec![0; 512];
        verifier.fill(512, &mut buffer);
        assert_eq!(
            verifier.check(0, &buffer).unwrap_err().to_string(),
            "verify failed at offset 0: the block belongs to offset 512"
        );
        buffer[300] ^= 1;
        assert!(verifier.check(512, &buffer).unwrap_err().problem.starts_with("the checksum is "));
        assert!(verifier.check(0, &[0; 512]).unwrap_err().problem.starts_with("all zeroes"));
    }
}
