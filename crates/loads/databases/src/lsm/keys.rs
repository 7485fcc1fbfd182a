//! Keys as numbers: which of them a table holds is told by a range and a count, as if they were spread evenly at random over the range.

/// A stretch of the key space with a number of different keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Segment {
    /// First key, and the first behind it.
    pub from: u64,
    pub to: u64,
    /// Keys that are there, no more than the stretch has.
    pub entries: u64,
}

impl Segment {
    /// How many of its keys come before this one.
    fn before(&self, key: u64) -> u64 {
        let key = key.clamp(self.from, self.to);
        scale(self.entries, key - self.from, self.to - self.from)
    }

    /// Where so many of its keys have come.
    fn position(&self, entries: u64) -> u64 {
        self.from + scale(self.to - self.from, entries, self.entries)
    }
}

/// `value` times `part` over `whole`, rounded down; 0 if there is no whole.
pub(super) fn scale(value: u64, part: u64, whole: u64) -> u64 {
    let product = u128::from(value) * u128::from(part);
    product.checked_div(u128::from(whole)).and_then(|n| u64::try_from(n).ok()).unwrap_or(0)
}

/// How many different keys so many random writes have, of `keys`: the expectation.
pub(super) fn distinct(writes: u64, keys: u64) -> u64 {
    // In steps in which few come twice.
    let step = (keys / 64).max(1);
    let (mut left, mut found) = (writes, 0u64);
    while left > 0 && found < keys {
        let some = left.min(step);
        // Half of a step is there when the middle one comes.
        let free = keys - found;
        let middle = free.saturating_sub(scale(some, free, 2 * keys.max(1)));
        let new = (u128::from(some) * u128::from(middle) + u128::from(keys / 2)) / u128::from(keys);
        found = (found + u64::try_from(new).unwrap_or(some).max(1)).min(keys);
        left -= some;
    }
    found.min(writes)
}

/// Layers of segments become one: a key that several have is there once. Segments of a layer are in order and do not meet.
pub(super) fn merge(layers: &[Vec<Segment>]) -> Vec<Segment> {
    let mut bounds: Vec<u64> = layers.iter().flatten().flat_map(|s| [s.from, s.to]).collect();
    bounds.sort_unstable();
    bounds.dedup();
    let mut at = vec![0usize; layers.len()];
    let mut merged = Vec::with_capacity(bounds.len());
    for pair in bounds.windows(2) {
        let &[from, to] = pair else { continue };
        let width = to - from;
        // Keys that are in none of them.
        let (mut absent, mut any) = (width, false);
        for (layer, at) in layers.iter().zip(&mut at) {
            while layer.get(*at).is_some_and(|s| s.to <= from) {
                *at += 1;
            }
            if let Some(segment) = layer.get(*at).filter(|s| s.from < to) {
                let entries = (segment.before(to) - segment.before(from)).min(width);
                let rest = u128::from(absent) * u128::from(width - entries);
                absent = u64::try_from(rest.div_ceil(u128::from(width))).unwrap_or(absent);
                any = true;
            }
        }
        if any {
            merged.push(Segment { from, to, entries: width - absent });
        }
    }
    merged
}

/// Cuts segments into tables of so many keys at most; the last two are alike, if they would be very different.
pub(super) fn cut(segments: &[Segment], most: u64) -> Vec<Segment> {
    let most = most.max(1);
    let mut tables = Vec::new();
    let mut open: Option<Segment> = None;
    for segment in segments {
        let mut taken = 0;
        while taken < segment.entries {
            let table =
                open.get_or_insert(Segment { from: segment.position(taken), to: segment.to, entries: 0 });
            let some = (most - table.entries).min(segment.entries - taken);
            taken += some;
            table.entries += some;
            table.to = if taken == segment.entries { segment.to } else { segment.position(taken) };
            if table.entries == most {
                tables.extend(open.take());
            }
        }
    }
    tables.extend(open);
    // What rounding left without a key.
    tables.retain(|table| table.to > table.from);
    tables
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sum(segments: &[Segment]) -> u64 {
        segments.iter().map(|s| s.entries).sum()
    }

    /// Segments of a layer of a space of 10,000 keys.
    fn layer() -> impl Strategy<Value = Vec<Segment>> {
        prop::collection::vec((0u64..10_000, 0u64..1000), 1..12).prop_map(|cuts| {
            let mut bounds: Vec<u64> = cuts.iter().map(|cut| cut.0).collect();
            bounds.sort_unstable();
            bounds.dedup();
            let pairs = bounds.windows(2).zip(&cuts);
            pairs
                .filter(|(_, cut)| cut.1 % 3 > 0)
                .map(|(pair, cut)| Segment {
                    from: pair[0],
                    to: pair[1],
                    entries: (pair[1] - pair[0]) * cut.1 / 1000,
                })
                .collect()
        })
    }

    proptest! {
        #[test]
        fn a_merge_has_no_more_keys_than_its_inputs_and_no_fewer_than_the_largest(
            layers in prop::collection::vec(layer(), 1..5)
        ) {
            let merged = merge(&layers);
            let total: u64 = layers.iter().map(|layer| sum(layer)).sum();
            prop_assert!(sum(&merged) <= total);
            prop_assert!(layers.iter().all(|layer| sum(layer) <= sum(&merged)));
            prop_assert!(merged.windows(2).all(|pair| pair[0].to <= pair[1].from));
            prop_assert!(merged.iter().all(|s| s.entries <= s.to - s.from));
        }

        #[test]
        fn cutting_keeps_every_key(layer in layer(), most in 1u64..2000) {
            let tables = cut(&layer, most);
            prop_assert!(tables.iter().all(|t| t.entries <= most));
            prop_assert!(tables.windows(2).all(|pair| pair[0].to <= pair[1].from));
            prop_assert_eq!(sum(&tables), sum(&layer));
        }
    }

    #[test]
    fn two_halves_of_the_keys_are_three_quarters() {
        let half = vec![Segment { from: 0, to: 1000, entries: 500 }];
        assert_eq!(sum(&merge(&[half.clone(), half.clone()])), 750);
        let all = vec![Segment { from: 0, to: 1000, entries: 1000 }];
        assert_eq!(sum(&merge(&[half, all])), 1000);
    }

    #[test]
    fn random_writes_meet() {
        // 1 - 1/e of the keys.
        assert!((627..637).contains(&(distinct(1_000_000, 1_000_000) / 1000)));
        assert_eq!(distinct(10, 1 << 40), 10);
        assert_eq!(distinct(1_000_000, 10), 10);
    }
}
