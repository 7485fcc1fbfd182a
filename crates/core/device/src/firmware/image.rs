//! Firmware images: their layout, and how one is told from other bytes.

use sha2::{Digest, Sha256};

/// Largest image in bytes.
pub const MAX_FIRMWARE_IMAGE: usize = 1 << 20;

const MAGIC: &[u8; 8] = b"TRANCHFW";
const VERSION: u32 = 1;
/// Bytes of the header: magic (8), version (4), length of the contents (4), revision (8), reserved (8), digest (32).
const HEADER: usize = 64;
/// Bytes of the header that the digest covers; it covers the contents, too.
const COVERED_BYTES: usize = 32;

/// Why there is no firmware image.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FirmwareImageError {
    /// The revision cannot stand in Identify.
    #[error(
        "a firmware revision has 1 to 8 printable ASCII characters, the first and last of which are no spaces"
    )]
    Revision,
    /// It would be too large.
    #[error("a firmware image has at most {max} bytes of contents", max = MAX_FIRMWARE_IMAGE - HEADER)]
    Size,
}

/// Makes a firmware image for this drive. It has a revision, and contents that the drive does not interpret. It is whole
/// dwords long, as Firmware Image Download wants. [docs/vendor.md](../../../../../docs/vendor.md) has its layout.
///
/// # Errors
/// If the revision cannot be one, or the image would be too large.
pub fn firmware_image(revision: &str, contents: &[u8]) -> Result<Vec<u8>, FirmwareImageError> {
    if !is_revision(revision.as_bytes()) {
        return Err(FirmwareImageError::Revision);
    }
    let length = u32::try_from(contents.len()).map_err(|_| FirmwareImageError::Size)?;
    let total = (HEADER + contents.len()).next_multiple_of(4);
    if total > MAX_FIRMWARE_IMAGE {
        return Err(FirmwareImageError::Size);
    }
    let mut image = Vec::with_capacity(total);
    image.extend_from_slice(MAGIC);
    image.extend_from_slice(&VERSION.to_le_bytes());
    image.extend_from_slice(&length.to_le_bytes());
    image.extend_from_slice(&nvme::identify::ascii::<8>(revision));
    image.resize(COVERED_BYTES, 0);
    let digest = Sha256::new().chain_update(&image).chain_update(contents).finalize();
    image.extend_from_slice(&digest);
    image.extend_from_slice(contents);
    image.resize(total, 0);
    Ok(image)
}

pub(super) fn is_revision(text: &[u8]) -> bool {
    let spaced = text.first() == Some(&b' ') || text.last() == Some(&b' ');
    (1..=8).contains(&text.len()) && !spaced && text.iter().all(|b| (0x20..0x7F).contains(b))
}

/// The revision of an image; `None` if the bytes are no image. Bytes after the contents are padding.
pub(super) fn revision_of(image: &[u8]) -> Option<String> {
    let (header, rest) = image.split_at_checked(HEADER)?;
    let (covered, digest) = header.split_at(COVERED_BYTES);
    let (start, reserved) = covered.split_at(24);
    let length = u32::from_le_bytes(start[12..16].try_into().ok()?);
    let contents = rest.get(..usize::try_from(length).ok()?)?;
    let right = start.starts_with(MAGIC)
        && start[8..12] == VERSION.to_le_bytes()
        && reserved.iter().all(|b| *b == 0)
        && Sha256::new().chain_update(covered).chain_update(contents).finalize()[..] == *digest;
    let text = start[16..24].trim_ascii_end();
    (right && is_revision(text)).then(|| String::from_utf8_lossy(text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_what_was_made_or_nothing() {
        let image = firmware_image("2.0", b"contents").unwrap();
        assert_eq!(revision_of(&image), Some("2.0".into()));
        let mut padded = image.clone();
        padded.resize(8192, 0xFF);
        assert_eq!(revision_of(&padded), Some("2.0".into()));
        for i in 0..HEADER + 8 {
            let mut bad = image.clone();
            bad[i] ^= 1;
            assert_eq!(revision_of(&bad), None, "byte {i}");
        }
        for end in 0..HEADER + 8 {
            assert_eq!(revision_of(&image[..end]), None, "{end} bytes");
        }
        for bad in ["", "123456789", " 1", "1 ", "ä"] {
            assert_eq!(firmware_image(bad, &[]), Err(FirmwareImageError::Revision), "{bad:?}");
        }
        assert_eq!(firmware_image("1", &vec![0; MAX_FIRMWARE_IMAGE]), Err(FirmwareImageError::Size));
    }
}
