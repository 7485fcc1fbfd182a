//! What authentication needs of the cryptographic library, and memory that is wiped.

use std::fmt;
use std::hint::black_box;
use std::ops::Deref;

use nvme::auth::{AuthFailure, HashId};
use openssl::error::ErrorStack;
use openssl::hash::MessageDigest;
use openssl::pkey::PKey;
use openssl::sign::Signer;

/// A source of randomness: fills the bytes. Fit for keys, outside of tests.
pub type Random<'a> = &'a mut dyn FnMut(&mut [u8]);

/// Why an exchange cannot go on, as the other side is told.
pub(super) type Result<T> = std::result::Result<T, AuthFailure>;

/// Secret bytes: wiped when dropped, never printed.
#[derive(Clone, PartialEq, Eq, Default)]
pub(crate) struct Wiped(Vec<u8>);

impl Wiped {
    pub fn zeroed(len: usize) -> Self {
        Self(vec![0; len])
    }

    pub fn as_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

impl From<Vec<u8>> for Wiped {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

impl Deref for Wiped {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Wiped {
    fn drop(&mut self) {
        self.0.fill(0);
        // The compiler may not leave the stores out.
        black_box(&mut self.0);
    }
}

impl fmt::Debug for Wiped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

/// The library failed, for want of memory or because it was built without the algorithm.
pub(crate) fn failed(_: ErrorStack) -> AuthFailure {
    AuthFailure::FAILED
}

fn function(hash: HashId) -> Result<MessageDigest> {
    match hash {
        HashId::SHA256 => Ok(MessageDigest::sha256()),
        HashId::SHA384 => Ok(MessageDigest::sha384()),
        HashId::SHA512 => Ok(MessageDigest::sha512()),
        _ => Err(AuthFailure::HASH_NOT_USABLE),
    }
}

/// The hash of these bytes.
pub(crate) fn digest(hash: HashId, bytes: &[u8]) -> Result<Wiped> {
    Ok(openssl::hash::hash(function(hash)?, bytes).map_err(failed)?.to_vec().into())
}

/// HMAC over the concatenation of the parts.
pub(crate) fn hmac(hash: HashId, key: &[u8], parts: &[&[u8]]) -> Result<Wiped> {
    let function = function(hash)?;
    let compute = || {
        let key = PKey::hmac(key)?;
        let mut signer = Signer::new(function, &key)?;
        for part in parts {
            signer.update(part)?;
        }
        signer.sign_to_vec()
    };
    compute().map(Wiped::from).map_err(failed)
}

/// HKDF-Extract without salt, then HKDF-Expand-Label of one hash's length or less (RFC 5869, RFC 8446 7.1).
pub(crate) fn derive(hash: HashId, input: &[u8], label: &str, context: &[u8], len: usize) -> Result<Wiped> {
    let byte = |n: usize| u8::try_from(n).map_err(|_| AuthFailure::INCORRECT_PAYLOAD);
    let label = [b"tls13 ", label.as_bytes()].concat();
    let (head, middle) = ([0, byte(len)?, byte(label.len())?], [byte(context.len())?]);
    expand(hash, input, &[&head, &label, &middle, context], len)
}

/// HKDF-Extract without salt, then HKDF-Expand of one hash's length or less.
pub(crate) fn expand(hash: HashId, input: &[u8], info: &[&[u8]], len: usize) -> Result<Wiped> {
    let full = hash.hash_bytes().filter(|full| len <= *full).ok_or(AuthFailure::HASH_NOT_USABLE)?;
    let prk = hmac(hash, &[0; 64][..full], &[input])?;
    let mut key = hmac(hash, &prk, &[info, &[&[1]]].concat())?;
    key.0[len..].fill(0);
    key.0.truncate(len);
    Ok(key)
}

/// Whether two values are the same, in a time that does not tell where they differ.
pub(crate) fn equal(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && openssl::memcmp::eq(a, b)
}

/// CRC-32 (that of Ethernet), little endian: what the text forms of keys end with.
pub(crate) fn crc32(bytes: &[u8]) -> [u8; 4] {
    let crc = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32IsoHdlc, bytes).to_le_bytes();
    [crc[0], crc[1], crc[2], crc[3]]
}
