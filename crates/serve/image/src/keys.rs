//! The drive key, and the keys of namespaces that it wraps: AES-256-XTS for blocks, AES-256-GCM for keys.
//!
//! A wrapped key is 92 bytes: a random nonce (12), the encrypted key (64), the tag (16). The namespace's NSID (little endian) and
//! UUID are authenticated with it. So keys cannot be exchanged, within an image or with another one of the same drive key.
//! Keys of older images are authenticated with the NSID alone.

use crate::xts::{self, WideXts};
use device::{DriveKeyId, WrappedKey};
use openssl::cipher::Cipher;
use openssl::cipher_ctx::CipherCtx;
use openssl::error::ErrorStack;
use openssl::sha::Sha256;
use openssl::symm;
use std::fmt;
use std::str::FromStr;

const PREFIX: &str = "tranche-drive-key-1:";
/// Bytes of a drive key.
const DRIVE_KEY: usize = 32;
/// Bytes of a namespace's key: two of AES-256.
const NAMESPACE_KEY: usize = 64;
const NONCE: usize = 12;
const TAG: usize = 16;

/// The key that wraps the keys of a drive's namespaces. It is never written anywhere. With it, the drive can be read.
#[derive(Clone, PartialEq, Eq)]
pub struct DriveKey([u8; DRIVE_KEY]);

/// Why a text is no drive key. It does not repeat the text.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("not a drive key: it is \"{PREFIX}\" and 64 hexadecimal digits, as `tranche key drive` makes it")]
pub struct DriveKeyError;

impl DriveKey {
    /// What their text begins with.
    pub const PREFIX: &str = PREFIX;

    /// A new one; `random` fills bytes from a source fit for keys.
    pub fn generate(random: &mut dyn FnMut(&mut [u8])) -> DriveKey {
        let mut key = DriveKey([0; DRIVE_KEY]);
        random(&mut key.0);
        key
    }

    /// As text, to be kept secret.
    #[must_use]
    pub fn to_secret_text(&self) -> String {
        let digits: String = self.0.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{PREFIX}{digits}")
    }

    fn id(&self) -> DriveKeyId {
        let mut hash = Sha256::new();
        hash.update(b"tranche drive key identifier");
        hash.update(&self.0);
        let mut id = DriveKeyId::default();
        id.copy_from_slice(&hash.finish()[..16]);
        id
    }
}

impl FromStr for DriveKey {
    type Err = DriveKeyError;

    fn from_str(text: &str) -> Result<Self, DriveKeyError> {
        let digits = text.strip_prefix(PREFIX).map(str::as_bytes).ok_or(DriveKeyError)?;
        let (pairs, rest) = digits.as_chunks::<2>();
        if pairs.len() != DRIVE_KEY || !rest.is_empty() || !digits.iter().all(u8::is_ascii_hexdigit) {
            return Err(DriveKeyError);
        }
        let mut key = DriveKey([0; DRIVE_KEY]);
        for (byte, pair) in key.0.iter_mut().zip(pairs) {
            let digit = |d: u8| (d as char).to_digit(16).unwrap_or(0) as u8;
            *byte = digit(pair[0]) << 4 | digit(pair[1]);
        }
        Ok(key)
    }
}

impl fmt::Debug for DriveKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DriveKey(secret)")
    }
}

impl Drop for DriveKey {
    fn drop(&mut self) {
        wipe(&mut self.0);
    }
}

/// Forgets key material.
fn wipe(bytes: &mut [u8]) {
    bytes.fill(0);
    // The compiler must not leave this out because nothing reads the bytes later.
    std::hint::black_box(bytes);
}

/// Which cipher whole steps go through.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum CipherChoice {
    /// What is faster on this machine.
    #[default]
    Faster,
    #[cfg(test)]
    OpenSsl,
    #[cfg(test)]
    Wide,
}

impl CipherChoice {
    fn takes(self, wide: &WideXts) -> bool {
        match self {
            CipherChoice::Faster => wide.is_fast(),
            #[cfg(test)]
            CipherChoice::OpenSsl => false,
            #[cfg(test)]
            CipherChoice::Wide => true,
        }
    }
}

/// Encrypts and decrypts the blocks of one namespace.
pub(crate) struct BlockCipher {
    to_medium: CipherCtx,
    from_medium: CipherCtx,
    /// The same cipher, for data units of whole steps; `None` where OpenSSL is faster.
    wide: Option<WideXts>,
}

impl BlockCipher {
    fn new(key: &[u8; NAMESPACE_KEY], choice: CipherChoice) -> Result<BlockCipher, ErrorStack> {
        let (mut to_medium, mut from_medium) = (CipherCtx::new()?, CipherCtx::new()?);
        to_medium.encrypt_init(Some(Cipher::aes_256_xts()), Some(key), None)?;
        from_medium.decrypt_init(Some(Cipher::aes_256_xts()), Some(key), None)?;
        let wide = match key.as_chunks::<32>().0 {
            [data, tweaks] => Some(WideXts::new(data, tweaks)).filter(|wide| choice.takes(wide)),
            _ => None,
        };
        Ok(BlockCipher { to_medium, from_medium, wide })
    }

    /// The tweak: the LBA, little endian.
    fn tweak(lba: u64) -> [u8; 16] {
        u128::from(lba).to_le_bytes()
    }

    /// Encrypts a block, with its metadata if it has any, where it lies. It has 16 bytes at least.
    pub(crate) fn encrypt(&mut self, lba: u64, block: &mut [u8]) -> Result<(), ErrorStack> {
        self.to_medium.encrypt_init(None, None, Some(&Self::tweak(lba)))?;
        let len = block.len();
        self.to_medium.cipher_update_inplace(block, len).map(|_| ())
    }

    /// The cipher that decrypts blocks of this length, without metadata, fast and without errors; `None` where
    /// [`decrypt_to`](BlockCipher::decrypt_to) is faster.
    #[inline]
    pub(crate) fn wide(&self, len: usize) -> Option<&WideXts> {
        self.wide.as_ref().filter(|_| len.is_multiple_of(xts::STEP))
    }

    /// Encrypts a block from one place to another of the same length.
    pub(crate) fn encrypt_to(&mut self, lba: u64, from: &[u8], to: &mut [u8]) -> Result<(), ErrorStack> {
        if let Some(wide) = self.wide(from.len()) {
            wide.encrypt_to(lba, from, to);
            return Ok(());
        }
        self.to_medium.encrypt_init(None, None, Some(&Self::tweak(lba)))?;
        self.to_medium.cipher_update(from, Some(to)).map(|_| ())
    }

    /// Decrypts what [`encrypt`](BlockCipher::encrypt) made.
    pub(crate) fn decrypt(&mut self, lba: u64, block: &mut [u8]) -> Result<(), ErrorStack> {
        self.from_medium.decrypt_init(None, None, Some(&Self::tweak(lba)))?;
        let len = block.len();
        self.from_medium.cipher_update_inplace(block, len).map(|_| ())
    }

    /// Decrypts a block from one place to another of the same length.
    pub(crate) fn decrypt_to(&mut self, lba: u64, from: &[u8], to: &mut [u8]) -> Result<(), ErrorStack> {
        if let Some(wide) = self.wide(from.len()) {
            wide.decrypt_to(lba, from, to, &[]);
            return Ok(());
        }
        self.from_medium.decrypt_init(None, None, Some(&Self::tweak(lba)))?;
        self.from_medium.cipher_update(from, Some(to)).map(|_| ())
    }
}

/// What is authenticated with a wrapped key: whose it is.
fn bound_to(nsid: u32, uuid: &[u8; 16]) -> [u8; 20] {
    let mut bound = [0; 20];
    bound[..4].copy_from_slice(&nsid.to_le_bytes());
    bound[4..].copy_from_slice(uuid);
    bound
}

/// Encrypts a namespace's key with the drive key, and authenticates whose it is.
fn wrap(drive: &DriveKey, bound: &[u8], key: &[u8]) -> Result<Option<WrappedKey>, ErrorStack> {
    let (mut nonce, mut tag) = ([0; NONCE], [0; TAG]);
    openssl::rand::rand_bytes(&mut nonce)?;
    let gcm = symm::Cipher::aes_256_gcm();
    let sealed = symm::encrypt_aead(gcm, &drive.0, Some(&nonce), bound, key, &mut tag)?;
    Ok(WrappedKey::new([&nonce[..], &sealed, &tag].concat()))
}

/// The drive key, and the keys of namespaces that are open.
#[derive(Default)]
pub struct Keyring {
    drive: Option<DriveKey>,
    /// By namespace identifier.
    open: Vec<Option<BlockCipher>>,
    choice: CipherChoice,
}

impl Keyring {
    /// No keys yet. Those of new namespaces are wrapped with the drive key, if there is one.
    pub fn new(drive: Option<DriveKey>) -> Keyring {
        Keyring { drive, ..Keyring::default() }
    }

    /// A ring with a drive key of its own, whose blocks go through [`WideXts`] on every machine.
    #[cfg(test)]
    pub(crate) fn wide() -> Keyring {
        let drive = Some(DriveKey([5; DRIVE_KEY]));
        Keyring { drive, choice: CipherChoice::Wide, ..Keyring::default() }
    }

    pub(crate) fn drive_key(&self) -> Option<DriveKeyId> {
        self.drive.as_ref().map(DriveKey::id)
    }

    /// The cipher of a namespace whose key is open.
    #[inline]
    pub(crate) fn cipher(&mut self, nsid: u32) -> Option<&mut BlockCipher> {
        self.open.get_mut(nsid as usize)?.as_mut()
    }

    fn keep(&mut self, nsid: u32, cipher: Option<BlockCipher>) {
        let index = nsid as usize;
        if index >= self.open.len() {
            self.open.resize_with(index + 1, || None);
        }
        self.open[index] = cipher;
    }

    /// Makes a key, keeps it open, and wraps it; `None` without a drive key.
    pub(crate) fn make(&mut self, nsid: u32, uuid: &[u8; 16]) -> Result<Option<WrappedKey>, ErrorStack> {
        self.keep(nsid, None);
        let Some(drive) = &self.drive else { return Ok(None) };
        let mut key = [0; NAMESPACE_KEY];
        // XTS with equal halves is refused by OpenSSL, and would be weak; it does not happen.
        while key[..32] == key[32..] {
            openssl::rand::rand_priv_bytes(&mut key)?;
        }
        let cipher = BlockCipher::new(&key, self.choice);
        let wrapped = wrap(drive, &bound_to(nsid, uuid), &key);
        wipe(&mut key);
        let wrapped = wrapped?;
        self.keep(nsid, Some(cipher?));
        Ok(wrapped)
    }

    /// Wraps a namespace's key for another UUID; `None` if it cannot be unwrapped. The key that is open stays open.
    pub(crate) fn rewrap(
        &self,
        nsid: u32,
        [from, to]: [&[u8; 16]; 2],
        wrapped: &WrappedKey,
    ) -> Result<Option<WrappedKey>, ErrorStack> {
        let (Some(drive), Some(mut key)) = (&self.drive, self.unwrap(nsid, from, wrapped)) else {
            return Ok(None);
        };
        let again = wrap(drive, &bound_to(nsid, to), &key);
        wipe(&mut key);
        again
    }

    /// Opens a wrapped key; false if it was not wrapped with this drive key, or is damaged.
    pub(crate) fn open(&mut self, nsid: u32, uuid: &[u8; 16], wrapped: &WrappedKey) -> bool {
        let cipher = self.unwrap(nsid, uuid, wrapped).and_then(|mut plain| {
            let key = plain.as_slice().try_into().ok();
            let cipher = key.and_then(|key| BlockCipher::new(key, self.choice).ok());
            wipe(&mut plain);
            cipher
        });
        let opened = cipher.is_some();
        self.keep(nsid, cipher);
        opened
    }

    /// The key that [`wrap`] has wrapped, for the caller to wipe. Keys from before there were UUIDs in it are bound to the NSID alone.
    fn unwrap(&self, nsid: u32, uuid: &[u8; 16], wrapped: &WrappedKey) -> Option<Vec<u8>> {
        let drive = self.drive.as_ref()?;
        let (nonce, rest) = wrapped.as_bytes().split_first_chunk::<NONCE>()?;
        let (sealed, tag) = rest.split_last_chunk::<TAG>()?;
        let open = |bound: &[u8]| {
            symm::decrypt_aead(symm::Cipher::aes_256_gcm(), &drive.0, Some(nonce), bound, sealed, tag).ok()
        };
        open(&bound_to(nsid, uuid)).or_else(|| open(&nsid.to_le_bytes()))
    }

    /// A namespace has gone, or lost its key.
    pub(crate) fn drop_key(&mut self, nsid: u32) {
        self.keep(nsid, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: [u8; 16] = [9; 16];

    fn key(byte: u8) -> DriveKey {
        DriveKey::generate(&mut |bytes| bytes.fill(byte))
    }

    #[test]
    fn drive_keys_are_text_and_no_message_repeats_them() {
        let text = key(0xA7).to_secret_text();
        assert_eq!(text.parse::<DriveKey>(), Ok(key(0xA7)));
        assert!(text.starts_with(DriveKey::PREFIX) && !format!("{:?}", key(0xA7)).contains("a7"));
        for bad in ["", "a7", PREFIX, &text[..text.len() - 1], &format!("{text}0"), &text.replace('a', "ä")]
        {
            let error = bad.parse::<DriveKey>().unwrap_err().to_string();
            assert!(!error.contains("a7a7"), "{error}");
        }
    }

    #[test]
    fn only_the_same_drive_key_opens_and_only_for_the_same_namespace() {
        let mut ring = Keyring::new(Some(key(1)));
        let wrapped = ring.make(3, &UUID).unwrap().unwrap();
        let mut block = *b"some sixteen byt";
        ring.cipher(3).unwrap().encrypt(9, &mut block).unwrap();
        let sealed = block;
        assert_ne!(&sealed, b"some sixteen byt");
        let mut again = Keyring::new(Some(key(1)));
        assert!(again.open(3, &UUID, &wrapped));
        again.cipher(3).unwrap().decrypt(9, &mut block).unwrap();
        assert_eq!(&block, b"some sixteen byt");
        let mut elsewhere = sealed;
        again.cipher(3).unwrap().decrypt(8, &mut elsewhere).unwrap();
        assert_ne!(&elsewhere, b"some sixteen byt", "the LBA is the tweak");
        assert!(!again.open(4, &UUID, &wrapped), "another namespace's");
        assert!(
            !again.open(3, &[8; 16], &wrapped),
            "of another namespace with its NSID, as in another image"
        );
        assert!(
            !Keyring::new(Some(key(2))).open(3, &UUID, &wrapped)
                && !Keyring::new(None).open(3, &UUID, &wrapped)
        );
        assert_ne!(ring.drive_key(), Keyring::new(Some(key(2))).drive_key());
        let renewed = again.rewrap(3, [&UUID, &[8; 16]], &wrapped).unwrap().unwrap();
        assert!(!again.open(3, &UUID, &renewed) && again.open(3, &[8; 16], &renewed));
        block = sealed;
        again.cipher(3).unwrap().decrypt(9, &mut block).unwrap();
        assert_eq!(&block, b"some sixteen byt", "the key itself is the same");
        assert!(again.rewrap(3, [&[8; 16], &UUID], &wrapped).unwrap().is_none(), "wrapped for another UUID");
        for byte in 0..wrapped.as_bytes().len() {
            let mut bytes = wrapped.as_bytes().to_vec();
            bytes[byte] ^= 1;
            assert!(!again.open(3, &UUID, &WrappedKey::new(bytes).unwrap()), "byte {byte}");
        }
        assert!(again.cipher(3).is_none());
        assert!(Keyring::new(None).make(1, &UUID).unwrap().is_none());
    }

    /// Wrapped by a version that bound keys to the NSID alone: nonce, key and tag.
    #[test]
    fn a_key_of_an_older_image_opens() {
        let (drive, nonce, namespace_key) = (key(1), [7; NONCE], [[3; 32], [4; 32]].concat());
        let (gcm, mut tag) = (symm::Cipher::aes_256_gcm(), [0; TAG]);
        let sealed =
            symm::encrypt_aead(gcm, &drive.0, Some(&nonce), &3u32.to_le_bytes(), &namespace_key, &mut tag);
        let old = WrappedKey::new([&nonce[..], &sealed.unwrap(), &tag].concat()).unwrap();
        let mut ring = Keyring::new(Some(drive));
        assert!(ring.open(3, &UUID, &old) && !ring.open(4, &UUID, &old));
    }

    /// IEEE 1619-2007, vector 10 (XTS-AES-256, data unit FFh, 512 bytes): its first bytes.
    #[test]
    fn blocks_are_encrypted_as_the_standard_says() {
        let hex = |text: &str| -> Vec<u8> {
            (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
        };
        let key = hex(
            "27182818284590452353602874713526624977572470936999595749669676273141592653589793238462643383279502884197169399375105820974944592",
        );
        let mut cipher = BlockCipher::new(key.as_slice().try_into().unwrap(), CipherChoice::OpenSsl).unwrap();
        let mut block: Vec<u8> = (0..512).map(|i| i as u8).collect();
        let plain = block.clone();
        cipher.encrypt(0xFF, &mut block).unwrap();
        assert_eq!(block[..16], hex("1c3b3a102f770386e4836c99e370cf9b")[..]);
        let mut to = vec![0; 512];
        cipher.decrypt_to(0xFF, &block, &mut to).unwrap();
        assert_eq!(to, plain);
        // With metadata: a length that is no multiple of 16.
        let mut odd = vec![7; 520];
        cipher.encrypt(1, &mut odd).unwrap();
        cipher.decrypt(1, &mut odd).unwrap();
        assert_eq!(odd, [7; 520]);
    }

    /// Every machine reads what any other one wrote.
    #[test]
    fn both_ciphers_make_the_same_of_a_block() {
        let mut rng = media::Rng::new(20_261_127);
        for round in 0..64 {
            let key: [u8; NAMESPACE_KEY] = std::array::from_fn(|_| rng.below(256) as u8);
            let mut openssl = BlockCipher::new(&key, CipherChoice::OpenSsl).unwrap();
            let mut wide = BlockCipher::new(&key, CipherChoice::Wide).unwrap();
            assert!(openssl.wide(4096).is_none() && wide.wide(4096).is_some());
            // What has no whole steps goes through OpenSSL in both.
            assert!(wide.wide(512).is_none() && wide.wide(4104).is_none());
            let lba = [0, 1, u64::MAX, rng.below(u64::MAX)][round % 4];
            for len in [512, 1024, 2048, 4096, 4104] {
                let plain: Vec<u8> = (0..len).map(|_| rng.below(256) as u8).collect();
                let (mut one, mut other) = (vec![0; len], vec![1; len]);
                openssl.encrypt_to(lba, &plain, &mut one).unwrap();
                wide.encrypt_to(lba, &plain, &mut other).unwrap();
                assert!(one == other, "round {round}: {len} bytes of LBA {lba} are encrypted");
                wide.decrypt_to(lba, &one, &mut other).unwrap();
                assert!(other == plain, "round {round}: {len} bytes of LBA {lba} are decrypted");
            }
        }
    }
}
