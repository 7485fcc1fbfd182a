//! Keys of TLS: from the configured PSK to what TLS uses (TCP 3.6.1.3 to 3.6.1.5).

use std::fmt;
use std::str::FromStr;

use nvme::auth::{AuthFailure, HashId};

use super::crypto::{Random, Result, Wiped, derive, expand, hmac};
use super::key::{KeyError, format, parse};
use super::parties::Parties;

/// A configured PSK: `NVMeTLSkey-1:hh:BASE64:`.
///
/// Its `Debug` shows nothing of it, and its memory is wiped.
#[derive(Clone, PartialEq, Eq)]
pub struct TlsPsk {
    /// The function that binds it to the host's NQN; `None` uses it as it is.
    transform: Option<HashId>,
    key: Wiped,
}

/// Form of a PSK identity (TCP 3.6.1.3).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum IdentityVersion {
    /// `NVMe0R…`: names only.
    V0,
    /// `NVMe1R…`: with a digest of the PSK.
    V1,
}

/// A PSK as TLS uses it.
#[derive(Clone, PartialEq, Eq)]
pub struct TlsKey {
    /// Its identity, which the client sends.
    pub identity: String,
    /// Its hash function, which goes with one cipher suite: SHA-256 with TLS_AES_128_GCM_SHA256, SHA-384 with
    /// TLS_AES_256_GCM_SHA384.
    pub hash: HashId,
    key: Wiped,
}

impl TlsKey {
    /// The key itself.
    #[must_use]
    pub fn secret(&self) -> &[u8] {
        &self.key
    }
}

impl fmt::Debug for TlsKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TlsKey({}, secret)", self.identity)
    }
}

impl TlsPsk {
    const PREFIX: &'static str = "NVMeTLSkey-1";

    /// A new PSK. `transform`, SHA-256 or SHA-384, also gives its length; without it, `bytes` does: 32 or 48.
    ///
    /// # Errors
    /// Another function or length, or a length that does not go with the function.
    pub fn generate(
        transform: Option<HashId>,
        bytes: Option<usize>,
        random: Random<'_>,
    ) -> std::result::Result<Self, KeyError> {
        if transform.is_some_and(|hash| !matches!(hash, HashId::SHA256 | HashId::SHA384)) {
            return Err(KeyError::Hash(Self::PREFIX, 2));
        }
        let bytes = bytes.or(transform.and_then(HashId::hash_bytes)).unwrap_or(32);
        let mut key = Wiped::zeroed(bytes.min(64));
        random(key.as_mut());
        Self::new(transform, key).filter(|_| bytes <= 64).ok_or(KeyError::Length(bytes))
    }

    fn new(transform: Option<HashId>, key: Wiped) -> Option<Self> {
        let fits = match transform {
            Some(hash) => hash.hash_bytes() == Some(key.len()),
            None => matches!(key.len(), 32 | 48),
        };
        fits.then_some(Self { transform, key })
    }

    /// The text of the PSK (PSK interchange format), for the other side's configuration. It is secret.
    #[must_use]
    pub fn to_secret_text(&self) -> String {
        format(Self::PREFIX, self.transform.map_or(0, |hash| hash.0), &self.key)
    }

    /// The hash function of the cipher suite that the PSK is for.
    #[must_use]
    pub fn hash(&self) -> HashId {
        if self.key.len() == 48 { HashId::SHA384 } else { HashId::SHA256 }
    }

    /// What TLS uses between these two. `None` if the names are too long for identities of this version.
    ///
    /// # Errors
    /// The cryptographic library failed.
    pub fn tls_key(&self, parties: &Parties, version: IdentityVersion) -> Result<Option<TlsKey>> {
        let names = (parties.host.as_str(), parties.subsystem.as_str());
        let retained = self.retained(names.0)?;
        tls_key(self.hash(), &retained, names, version)
    }

    /// The same as libnvme has made it up to its version 1.15, without the lengths that HKDF-Expand-Label puts
    /// before label and context. Only where the identity tells the two apart: version 1, and a PSK that is bound to
    /// the host.
    ///
    /// # Errors
    /// The cryptographic library failed.
    pub fn tls_key_of_libnvme(&self, parties: &Parties) -> Result<Option<TlsKey>> {
        let Some(hash) = self.transform else { return Ok(None) };
        libnvme_key(hash, &self.key, (parties.host.as_str(), parties.subsystem.as_str())).map(Some)
    }

    /// The retained PSK: bound to the host.
    fn retained(&self, host: &str) -> Result<Wiped> {
        match self.transform {
            Some(hash) => derive(hash, &self.key, "HostNQN", host.as_bytes(), self.key.len()),
            None => Ok(self.key.clone()),
        }
    }
}

/// The digest of a retained PSK in its identity.
fn psk_digest(hash: HashId, retained: &[u8], (host, subsystem): (&str, &str)) -> Result<String> {
    let parts = [host.as_bytes(), b" ", subsystem.as_bytes(), b" NVMe-over-Fabrics"];
    Ok(openssl::base64::encode_block(&hmac(hash, retained, &parts)?))
}

fn tls_key(
    hash: HashId,
    retained: &[u8],
    (host, subsystem): (&str, &str),
    version: IdentityVersion,
) -> Result<Option<TlsKey>> {
    let indicator = format!("{:02}", hash.0);
    let (identity, context) = match version {
        IdentityVersion::V0 => {
            let identity = format!("NVMe0R{indicator} {host} {subsystem}");
            (identity.clone(), identity)
        }
        IdentityVersion::V1 => {
            let digest = psk_digest(hash, retained, (host, subsystem))?;
            (format!("NVMe1R{indicator} {host} {subsystem} {digest}"), format!("{indicator} {digest}"))
        }
    };
    // The context of HKDF-Expand-Label has a length of one byte.
    if context.len() > 255 {
        return Ok(None);
    }
    let bytes = hash.hash_bytes().ok_or(AuthFailure::HASH_NOT_USABLE)?;
    let key = derive(hash, retained, "nvme-tls-psk", context.as_bytes(), bytes)?;
    Ok(Some(TlsKey { identity, hash, key }))
}

fn libnvme_key(hash: HashId, psk: &[u8], names: (&str, &str)) -> Result<TlsKey> {
    let len = psk.len();
    let bytes = u16::try_from(len).map_err(|_| AuthFailure::INCORRECT_PAYLOAD)?.to_le_bytes();
    let retained = expand(hash, psk, &[&bytes, b"tls13 HostNQN", names.0.as_bytes()], len)?;
    let digest = psk_digest(hash, &retained, names)?;
    let indicator = format!("{:02}", hash.0);
    let context = format!("{indicator} {digest}");
    let key = expand(hash, &retained, &[&bytes, b"tls13 nvme-tls-psk", context.as_bytes()], len)?;
    Ok(TlsKey { identity: format!("NVMe1R{indicator} {} {} {digest}", names.0, names.1), hash, key })
}

impl FromStr for TlsPsk {
    type Err = KeyError;

    /// Parses `NVMeTLSkey-1:hh:BASE64:`.
    fn from_str(text: &str) -> std::result::Result<Self, KeyError> {
        let (hash, key) = parse(text, Self::PREFIX, 2)?;
        let len = key.len();
        Self::new((hash != 0).then_some(HashId(hash)), key).ok_or(KeyError::Length(len))
    }
}

impl fmt::Debug for TlsPsk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TlsPsk(secret)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nvme::Nqn;

    const TEXTS: [&str; 3] = [
        "NVMeTLSkey-1:00:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:",
        "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:",
        "NVMeTLSkey-1:02:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwP/w0S89ELi3W2LxIcLXVsDn8kXZQ==:",
    ];

    /// The interchange format and identities as in the test data of libnvme (`test/psk.c`).
    #[test]
    fn vectors_of_libnvme() {
        let names = ("nqn.psk-test-host", "nqn.psk-test-subsys");
        let old = [
            None,
            Some(
                "NVMe1R01 nqn.psk-test-host nqn.psk-test-subsys 66GuqV08TsAGII39teWUfwQwizjv06Jy8jOcX3NAAzM=",
            ),
            Some(
                "NVMe1R02 nqn.psk-test-host nqn.psk-test-subsys \
                 RsKmYJ3nAn1ApjjMloJFbAkLPivONDAX/xW327YBUsn2eGShXSjCZvBaOxscLqmz",
            ),
        ];
        for ((text, identity), old) in TEXTS.iter().zip([
            None,
            Some(
                "NVMe1R01 nqn.psk-test-host nqn.psk-test-subsys iSbjiStwJ/1TrTvDlt2fjFmzvsytOJelidNnA+X5lEU=",
            ),
            Some(
                "NVMe1R02 nqn.psk-test-host nqn.psk-test-subsys \
                 QhW2+Rp6RzHlNtCslyRxMnwJ11tKKhz8JCAQpQ+XUD8f9td1VeH5h53yz2wKJG1a",
            ),
        ]).zip(old) {
            let psk: TlsPsk = text.parse().unwrap();
            assert_eq!(psk.to_secret_text(), *text);
            assert!(!format!("{psk:?}").contains("VRLb"));
            let retained = psk.retained(names.0).unwrap();
            let key = tls_key(psk.hash(), &retained, names, IdentityVersion::V1).unwrap().unwrap();
            if let Some(identity) = identity {
                assert_eq!(key.identity, identity);
            }
            if let (Some(hash), Some(identity)) = (psk.transform, old) {
                assert_eq!(libnvme_key(hash, &psk.key, names).unwrap().identity, identity);
            }
            let key = tls_key(psk.hash(), &retained, names, IdentityVersion::V0).unwrap().unwrap();
            assert_eq!(
                key.identity,
                format!("NVMe0R{:02} nqn.psk-test-host nqn.psk-test-subsys", psk.hash().0)
            );
        }
    }

    fn hex(text: &str) -> Vec<u8> {
        let text: String = text.split_whitespace().collect();
        (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
    }

    /// From a retained (there: generated) PSK to its digest and the PSK of TLS, as in the unit tests of
    /// Linux (`drivers/nvme/common/tests/auth_kunit.c`).
    #[test]
    fn vectors_of_linux() {
        for (hash, retained, digest, expected) in [
            (
                HashId::SHA256,
                "1733c59fa7f48fcf37f5f26fc4ff0268ad4f78e030f4f3b0bfd1d47e7bb1447a",
                "OldoKuTfKddMuyCznAZojkWD7P4D9/AtzDzLimtOxqI=",
                "3c17da628474a04d2247c4cab47968c915388193f7c071bd9489cc3666cd7cc8",
            ),
            (
                HashId::SHA384,
                "f14b2dd3234c459694d3bc63f8968bd6b37c2c6de849e22e11874900 1ce4bbe8
                 640b9e3a748cb11ce4b1d71d359cce39",
                "cffMWk8TSS7HOQebjgYEIkrPrjWPV4JE5cdPB8WhEvY4JBW5YynKyv66XscN4A9n",
                "2774753233537b3fa50eb7d16a8e43457d85f4906c005b2236616c5d80939d08
                 98fff15bb8b77119d2be0aac423e7590",
            ),
        ] {
            let names = ("hostnqn", "subsysnqn");
            let retained = hex(retained);
            assert_eq!(psk_digest(hash, &retained, names).unwrap(), digest);
            let key = tls_key(hash, &retained, names, IdentityVersion::V1).unwrap().unwrap();
            assert_eq!(key.secret(), hex(expected));
        }
    }

    #[test]
    fn lengths_and_long_names() {
        let mut random = |bytes: &mut [u8]| bytes.fill(7);
        for (transform, bytes, fine) in [
            (None, None, true),
            (None, Some(48), true),
            (None, Some(64), false),
            (None, Some(1 << 40), false),
            (Some(HashId::SHA256), None, true),
            (Some(HashId::SHA256), Some(48), false),
            (Some(HashId::SHA384), Some(48), true),
            (Some(HashId::SHA512), None, false),
        ] {
            let psk = TlsPsk::generate(transform, bytes, &mut random);
            assert_eq!(psk.is_ok(), fine, "{transform:?} {bytes:?}");
            if let Ok(psk) = psk {
                assert!(psk.to_secret_text().parse::<TlsPsk>().unwrap() == psk);
            }
        }
        assert_eq!("DHHC-1:00:AAAA:".parse::<TlsPsk>().unwrap_err(), KeyError::Form("NVMeTLSkey-1"));
        let long = Nqn::new(&format!("nqn.2026-11.test:{}", "x".repeat(200))).unwrap();
        let parties = Parties { host: long, subsystem: long };
        let psk: TlsPsk = TEXTS[1].parse().unwrap();
        assert!(psk.tls_key(&parties, IdentityVersion::V0).unwrap().is_none());
        assert!(psk.tls_key(&parties, IdentityVersion::V1).unwrap().is_some());
    }
}
