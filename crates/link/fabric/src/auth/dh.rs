//! Diffie-Hellman in the groups of RFC 7919, as DH-HMAC-CHAP uses it (Base 8.3.5.5.3, 8.3.5.5.4).

use std::sync::OnceLock;

use nvme::auth::{AuthFailure, DhGroupId};
use openssl::bn::{BigNum, BigNumContext, BigNumRef};
use openssl::error::ErrorStack;

use super::crypto::{Random, Wiped, failed};

/// Groups with a modulus: all but NULL.
const GROUPS: usize = DhGroupId::ALL.len() - 1;

/// Bits of the modulus, the constant X of its definition, and bytes of a private exponent: twice the group's
/// strength or more (RFC 7919, Appendix A).
const DEFINITIONS: [(i32, u32, usize); GROUPS] = [
    (2048, 560_316, 32),
    (3072, 2_625_351, 36),
    (4096, 5_736_041, 42),
    (6144, 15_705_020, 48),
    (8192, 10_965_728, 52),
];

/// The modulus of a group: p = 2^b - 2^(b-64) + {[2^(b-130) e] + X} 2^64 - 1 (RFC 7919, Appendix A).
fn compute_modulus(bits: i32, x: u32) -> Result<BigNum, ErrorStack> {
    // e is the sum of the reciprocal factorials; 64 bits below the point make the rounding errors harmless.
    const GUARD: i32 = 64;
    let one = BigNum::from_u32(1)?;
    let power = |n: i32| {
        let mut p = BigNum::new()?;
        p.lshift(&one, n)?;
        Ok::<_, ErrorStack>(p)
    };
    let mut term = power(bits - 130 + GUARD)?;
    let mut e = BigNum::new()?;
    let mut k = 0;
    while term.num_bits() > 0 {
        let sum = &e + &term;
        e = sum;
        k += 1;
        term.div_word(k)?;
    }
    let mut middle = BigNum::new()?;
    middle.rshift(&e, GUARD)?;
    middle.add_word(x)?;
    let mut shifted = BigNum::new()?;
    shifted.lshift(&middle, 64)?;
    let mut p = &(&power(bits)? - &power(bits - 64)?) + &shifted;
    p.sub_word(1)?;
    Ok(p)
}

/// Bytes of the numbers of a group; 0 for the group NULL, and for one that is not known.
pub(super) fn length(group: DhGroupId) -> usize {
    let index = usize::from(group.0).checked_sub(1);
    let bits = index.and_then(|index| DEFINITIONS.get(index)).map_or(0, |(bits, ..)| *bits);
    usize::try_from(bits).unwrap_or(0) / 8
}

fn definition(group: DhGroupId) -> Result<(&'static BigNumRef, usize), AuthFailure> {
    static MODULI: [OnceLock<BigNum>; GROUPS] = [const { OnceLock::new() }; GROUPS];
    let index = usize::from(group.0).checked_sub(1).filter(|index| *index < GROUPS);
    let index = index.ok_or(AuthFailure::DH_GROUP_NOT_USABLE)?;
    let (bits, x, private) = DEFINITIONS[index];
    if MODULI[index].get().is_none() {
        // Two threads may compute it. Both get the same.
        let _ = MODULI[index].set(compute_modulus(bits, x).map_err(failed)?);
    }
    let modulus = MODULI[index].get().ok_or(AuthFailure::FAILED)?;
    Ok((modulus, private))
}

/// One side of an exchange: a private exponent, and the value for the other side.
pub(super) struct Exchange {
    group: DhGroupId,
    private: Exponent,
    public: Vec<u8>,
}

/// A private exponent, wiped when dropped.
struct Exponent(BigNum);

impl Drop for Exponent {
    fn drop(&mut self) {
        self.0.clear();
    }
}

impl std::fmt::Debug for Exchange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Exchange({}, secret)", self.group)
    }
}

impl Exchange {
    /// Chooses a private exponent; `None` for the group NULL.
    pub fn new(group: DhGroupId, random: Random<'_>) -> Result<Option<Self>, AuthFailure> {
        if group == DhGroupId::NULL {
            return Ok(None);
        }
        let (modulus, private) = definition(group)?;
        let mut bytes = Wiped::zeroed(private);
        random(bytes.as_mut());
        // Never zero, even if the source of randomness gives zeros.
        bytes.as_mut()[0] |= 0x80;
        let mut exponent = BigNum::new_secure().map_err(failed)?;
        exponent.copy_from_slice(&bytes).map_err(failed)?;
        exponent.set_const_time();
        let private = Exponent(exponent);
        let two = BigNum::from_u32(2).map_err(failed)?;
        let public = power(&two, &private, modulus)?.to_vec();
        Ok(Some(Self { group, private, public }))
    }

    /// What the other side gets, as long as the modulus.
    pub fn public(&self) -> &[u8] {
        &self.public
    }

    /// The secret that the other side's value makes.
    ///
    /// # Errors
    /// Incorrect Payload if the value has another length than the modulus, or gives the secret away
    /// (0, 1, p-1 and beyond; RFC 7919, 5.1).
    pub fn agree(&self, theirs: &[u8]) -> Result<Wiped, AuthFailure> {
        let (modulus, _) = definition(self.group)?;
        if Some(theirs.len()) != self.group.value_bytes() {
            return Err(AuthFailure::INCORRECT_PAYLOAD);
        }
        let theirs = BigNum::from_slice(theirs).map_err(failed)?;
        let one = BigNum::from_u32(1).map_err(failed)?;
        if theirs <= one || theirs >= modulus - &one {
            return Err(AuthFailure::INCORRECT_PAYLOAD);
        }
        power(&theirs, &self.private, modulus)
    }
}

/// `base` to the power of the exponent, as long as the modulus.
fn power(base: &BigNumRef, exponent: &Exponent, modulus: &BigNumRef) -> Result<Wiped, AuthFailure> {
    let compute = || {
        let mut context = BigNumContext::new_secure()?;
        let mut result = BigNum::new_secure()?;
        result.mod_exp(base, &exponent.0, modulus, &mut context)?;
        let bytes = result.to_vec_padded(modulus.num_bytes());
        result.clear();
        bytes
    };
    compute().map(Wiped::from).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use openssl::hash::{MessageDigest, hash};

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The moduli as OpenSSL has them: SHA-256 of each, from
    /// `openssl genpkey -genparam -algorithm DHX -pkeyopt group:ffdhe2048`.
    #[test]
    fn moduli_are_those_of_rfc_7919() {
        let expected = [
            "9cd3b7f336872f46c09428d1bbc19877a4d440512cda8d1c1cf0cd6e33698966",
            "0eaf67db3a839156d5013494a5318a772b5697d270d721f37f092efc69ea5a17",
            "4648414224ac881b3d0dc59b466f96d06a558278776807797ecf1f66ff397b3e",
            "227ac9066b3ddd9e193670cda2388fa884f65ba0cf98b742d1fe77a6687c79c7",
            "770b14efaf6f049929c523113b3fa99a8d11dab1b18af3609590122075d19833",
        ];
        for ((group, bits), expected) in
            DhGroupId::ALL[1..].iter().zip([2048, 3072, 4096, 6144, 8192]).zip(expected)
        {
            let (p, private) = definition(*group).unwrap();
            assert_eq!(p.num_bits(), bits);
            assert_eq!(Some(p.to_vec().len()), group.value_bytes());
            assert!(private * 8 >= 225);
            assert_eq!(hex(&hash(MessageDigest::sha256(), &p.to_vec()).unwrap()), expected, "{group}");
        }
    }

    #[test]
    fn both_sides_agree_and_bad_values_are_refused() {
        let mut seed = 1u8;
        let mut random = |bytes: &mut [u8]| {
            for byte in bytes {
                seed = seed.wrapping_mul(77).wrapping_add(13);
                *byte = seed;
            }
        };
        for group in &DhGroupId::ALL[1..] {
            let a = Exchange::new(*group, &mut random).unwrap().unwrap();
            let b = Exchange::new(*group, &mut random).unwrap().unwrap();
            assert_ne!(a.public(), b.public());
            assert_eq!(a.agree(b.public()).unwrap(), b.agree(a.public()).unwrap());
            let len = a.public().len();
            let (p, _) = definition(*group).unwrap();
            let mut all_but_one = p.to_vec();
            *all_but_one.last_mut().unwrap() -= 1;
            let mut one = vec![0; len];
            one[len - 1] = 1;
            for bad in [vec![0; len], one, all_but_one, p.to_vec(), vec![0xFF; len], vec![2; len - 1], vec![]]
            {
                assert_eq!(a.agree(&bad).unwrap_err(), AuthFailure::INCORRECT_PAYLOAD);
            }
        }
        assert!(Exchange::new(DhGroupId::NULL, &mut random).unwrap().is_none());
        assert!(Exchange::new(DhGroupId(6), &mut random).is_err());
    }
}
