//! CRC32C, the digest of headers and data (TCP 3.3.1).

use crc_fast::{CrcAlgorithm, Digest};

/// The digest of these bytes, as it stands in a PDU.
pub(crate) fn crc32c(bytes: &[u8]) -> [u8; 4] {
    word(crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, bytes))
}

/// A digest over pieces.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunningDigest(Digest);

impl RunningDigest {
    pub fn new() -> Self {
        Self(Digest::new(CrcAlgorithm::Crc32Iscsi))
    }

    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub fn finish(&self) -> [u8; 4] {
        word(self.0.finalize())
    }
}

/// The lower 32 bits, little endian.
fn word(crc: u64) -> [u8; 4] {
    let b = crc.to_le_bytes();
    [b[0], b[1], b[2], b[3]]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Vectors of RFC 3720, B.4.
    #[test]
    fn known_vectors() {
        assert_eq!(crc32c(&[0; 32]), 0x8A91_36AAu32.to_le_bytes());
        assert_eq!(crc32c(&[0xFF; 32]), 0x62A8_AB43u32.to_le_bytes());
        let mut running = RunningDigest::new();
        running.update(b"1234");
        running.update(b"56789");
        assert_eq!(running.finish(), 0xE306_9283u32.to_le_bytes());
    }
}
