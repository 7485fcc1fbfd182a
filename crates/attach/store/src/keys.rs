//! Key ranges: which keys a file of a sorted store holds, as its writer tells. Tables of one level whose keys are near each other die together, when a
//! compaction merges them.

/// Bytes of a key that are kept. What comes behind them does not change where a file goes.
const KEPT_KEY_BYTES: usize = 128;
/// Bytes of a key that count when distances are measured, behind those that all keys have in common.
const MEASURED_KEY_BYTES: usize = 16;

/// The keys of a file, in the order of their bytes, and its level.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct KeyRange {
    /// Level or generation of the file. Files of different levels are not compared.
    level: u8,
    first: Vec<u8>,
    last: Vec<u8>,
}

fn hex(bytes: &[u8], to: &mut Vec<u8>) {
    for byte in bytes {
        to.extend(format!("{byte:02x}").bytes());
    }
}

fn from_hex(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |digit: u8| char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok());
    let pairs = text.chunks(2).map(|pair| match pair {
        [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    });
    pairs.collect()
}

impl KeyRange {
    /// The extended attribute that holds it: level, first and last key as in `2:61-7a`. The keys are in hexadecimal.
    pub const XATTR: &'static [u8] = b"user.tranche.keys";

    /// The range from a smallest to a largest key, both in it. Of each, the first 128 bytes are kept.
    ///
    /// Returns `None` if the last key comes before the first.
    #[must_use]
    pub fn new(level: u8, first: &[u8], last: &[u8]) -> Option<Self> {
        let kept = |key: &[u8]| key[..key.len().min(KEPT_KEY_BYTES)].to_vec();
        (first <= last).then(|| Self { level, first: kept(first), last: kept(last) })
    }

    /// The range that the value of the extended attribute names.
    ///
    /// Returns `None` for a value that names none.
    #[must_use]
    pub fn parse(value: &[u8]) -> Option<Self> {
        let colon = value.iter().position(|byte| *byte == b':')?;
        let (level, keys) = (std::str::from_utf8(&value[..colon]).ok()?.parse().ok()?, &value[colon + 1..]);
        let dash = keys.iter().position(|byte| *byte == b'-')?;
        Self::new(level, &from_hex(&keys[..dash])?, &from_hex(&keys[dash + 1..])?)
    }

    /// The value of the extended attribute.
    #[must_use]
    pub fn attribute(&self) -> Vec<u8> {
        let mut value = format!("{}:", self.level).into_bytes();
        hex(&self.first, &mut value);
        value.push(b'-');
        hex(&self.last, &mut value);
        value
    }

    /// Level or generation of the file.
    #[must_use]
    pub fn level(&self) -> u8 {
        self.level
    }

    /// The smallest key, or how it begins.
    #[must_use]
    pub fn first(&self) -> &[u8] {
        &self.first
    }

    /// The largest key, or how it begins.
    #[must_use]
    pub fn last(&self) -> &[u8] {
        &self.last
    }
}

/// How far files are from another one: the smaller the better.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Nearness {
    /// Their keys overlap, or lie so near to its own that the wider of both would reach them; so much of its keys is not overlapped.
    Near(u128),
    /// They are further away, by so much.
    Far(u128),
}

/// Measures distances between ranges of keys.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ruler {
    /// Bytes with which all keys begin.
    common: usize,
}

impl Ruler {
    /// One for these ranges.
    pub(crate) fn new<'a>(ranges: impl Iterator<Item = &'a KeyRange> + Clone) -> Self {
        let first = ranges.clone().map(|range| range.first.as_slice()).min().unwrap_or_default();
        let last = ranges.map(|range| range.last.as_slice()).max().unwrap_or_default();
        // What the smallest and the largest have in common, all have.
        Self { common: first.iter().zip(last).take_while(|(one, other)| one == other).count() }
    }

    /// A key as a number.
    fn position(self, key: &[u8]) -> u128 {
        let mut bytes = [0; MEASURED_KEY_BYTES];
        let counts = key.get(self.common..).unwrap_or_default();
        let length = counts.len().min(MEASURED_KEY_BYTES);
        bytes[..length].copy_from_slice(&counts[..length]);
        u128::from_be_bytes(bytes)
    }

    /// How far another range is from a file's own.
    pub(crate) fn measure(self, own: &KeyRange, other: &KeyRange) -> Nearness {
        let [from, to] = [&own.first, &own.last].map(|key| self.position(key));
        let [first, last] = [&other.first, &other.last].map(|key| self.position(key));
        let gap = first.saturating_sub(to).max(from.saturating_sub(last));
        if gap > (to - from).max(last - first) {
            return Nearness::Far(gap);
        }
        let shared = to.min(last).saturating_sub(from.max(first));
        Nearness::Near((to - from) - shared)
    }
}

#[cfg(test)]
mod tests {
    use rng::Rng;

    use super::*;

    fn range(first: &[u8], last: &[u8]) -> KeyRange {
        KeyRange::new(1, first, last).unwrap()
    }

    #[test]
    fn an_attribute_says_what_was_told() {
        let told = KeyRange::new(3, b"", b"\xff\x00").unwrap();
        assert_eq!(told.attribute(), b"3:-ff00");
        assert_eq!(KeyRange::parse(b"3:-ff00"), Some(told));
        assert_eq!(KeyRange::parse(b"0:61-7A"), KeyRange::new(0, b"a", b"z"));
        for wrong in [
            &b""[..],
            b"3",
            b"3:",
            b"3:61",
            b"256:61-62",
            b"-1:61-62",
            b"1:6-7",
            b"1:6g-70",
            b"1:62-61",
            b"1:61-62-63",
        ] {
            assert_eq!(KeyRange::parse(wrong), None, "{}", String::from_utf8_lossy(wrong));
        }
        assert_eq!(KeyRange::new(1, b"b", b"a"), None);
        let long = KeyRange::new(1, &[7; 5000], &[8; 5000]).unwrap();
        assert!(long.attribute().len() < 600, "it fits into an attribute");
    }

    #[test]
    fn any_value_is_read_or_refused() {
        for seed in 0..20_000 {
            let mut rng = Rng::new(seed);
            let letters = b"0123456789abcdefF:-x\xff\0";
            let value: Vec<u8> =
                (0..rng.below(12)).map(|_| letters[rng.below(letters.len() as u64) as usize]).collect();
            if let Some(range) = KeyRange::parse(&value) {
                assert!(range.first() <= range.last());
                assert_eq!(KeyRange::parse(&range.attribute()), Some(range), "seed {seed}");
            }
        }
    }

    #[test]
    fn near_and_far() {
        let own = range(b"user:0400", b"user:0500");
        let (beside, within) = (range(b"user:0501", b"user:0600"), range(b"user:0410", b"user:0420"));
        let (all, far) = (range(b"user:0000", b"user:9999"), range(b"user:8000", b"user:8100"));
        let ranges = [&own, &beside, &within, &all, &far];
        let ruler = Ruler::new(ranges.into_iter());
        assert_eq!(ruler.common, 5);
        let measured = |other| ruler.measure(&own, other);
        assert_eq!(measured(&own), Nearness::Near(0));
        assert_eq!(measured(&all), Nearness::Near(0));
        assert!(measured(&within) > Nearness::Near(0) && measured(&within) < measured(&beside));
        assert!(matches!(measured(&beside), Nearness::Near(_)));
        assert!(matches!(measured(&far), Nearness::Far(_)));
        // One key only: it has no width.
        let one = range(b"k", b"k");
        assert_eq!(Ruler::new([&one].into_iter()).measure(&one, &one), Nearness::Near(0));
    }
}
