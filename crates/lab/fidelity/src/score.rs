//! How far figures are from published ones.

use crate::data_set::Bound;

/// |ln(ours / published)| of two figures that differ by 10 %, rounded up.
pub const CLOSE_LN_RATIO: f64 = 0.095_311;

/// |ln(ours / published)| of rows together.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Summary {
    /// How many rows.
    pub rows: usize,
    /// The median.
    pub median: f64,
    /// The largest.
    pub worst: f64,
    /// Share of the rows within 10 %, 0 to 1.
    pub close: f64,
}

/// |ln(ours / published)|, or 0 where ours keeps to a bound: 0 if they are equal, and the same for half and double. Both figures are above 0.
pub fn distance(ours: f64, published: f64, bound: Option<Bound>) -> f64 {
    let distance = (ours / published).ln();
    match bound {
        None => distance.abs(),
        Some(Bound::Most) => distance.max(0.0),
        Some(Bound::Least) => (-distance).max(0.0),
    }
}

impl Summary {
    /// Of the distances of some rows; none without rows.
    pub fn of(distances: &[f64]) -> Option<Self> {
        let close = distances.iter().filter(|distance| **distance <= CLOSE_LN_RATIO).count();
        Some(Self {
            rows: distances.len(),
            median: median(distances)?,
            worst: distances.iter().copied().reduce(f64::max)?,
            close: float(close) / float(distances.len()),
        })
    }

    /// Of data sets, each with the same weight, however many rows it has: means of their medians and shares, and the worst of all.
    pub fn of_sets(sets: &[Self]) -> Option<Self> {
        let all = |of: fn(&Self) -> f64| sets.iter().map(of).collect::<Vec<_>>();
        Some(Self {
            rows: sets.iter().map(|set| set.rows).sum(),
            median: mean(&all(|set| set.median))?,
            worst: all(|set| set.worst).into_iter().reduce(f64::max)?,
            close: mean(&all(|set| set.close))?,
        })
    }
}

#[expect(clippy::cast_precision_loss, reason = "a number of rows")]
fn float(count: usize) -> f64 {
    count as f64
}

/// The middle value, or the mean of both middle ones; none without values.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (low, high) = (*sorted.get(sorted.len().checked_sub(1)? / 2)?, *sorted.get(sorted.len() / 2)?);
    Some(low.midpoint(high))
}

/// The mean; none without values.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / float(values.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed by hand: 110 of 100, 50 of 100, 100 of 100 and 300 of 100 are 0.0953, 0.6931, 0 and 1.0986.
    #[test]
    fn a_summary_computed_by_hand() {
        let distances: Vec<f64> =
            [110.0, 50.0, 100.0, 300.0].map(|ours| distance(ours, 100.0, None)).to_vec();
        let summary = Summary::of(&distances).unwrap();
        assert_eq!((summary.rows, summary.close), (4, 0.5));
        assert!(
            (summary.median - f64::midpoint(0.095_310, std::f64::consts::LN_2)).abs() < 1e-5,
            "{summary:?}"
        );
        assert!((summary.worst - 1.098_612).abs() < 1e-5, "{summary:?}");
    }

    #[test]
    fn sets_count_equally() {
        let one = Summary { rows: 1, median: 0.1, worst: 0.1, close: 1.0 };
        let many = Summary { rows: 99, median: 0.5, worst: 0.9, close: 0.0 };
        let both = Summary::of_sets(&[one, many]).unwrap();
        assert_eq!((both.rows, both.median, both.worst, both.close), (100, 0.3, 0.9, 0.5));
        assert_eq!((Summary::of(&[]), Summary::of_sets(&[]), median(&[])), (None, None, None));
    }

    #[test]
    fn half_and_double_are_equally_far() {
        assert!((distance(2.0, 1.0, None) - distance(1.0, 2.0, None)).abs() < 1e-15);
        assert_eq!(median(&[3.0, 1.0]), Some(2.0));
        let [most, least] = [Bound::Most, Bound::Least].map(|bound| distance(2.0, 1.0, Some(bound)));
        assert_eq!((most, least), (distance(2.0, 1.0, None), 0.0));
    }
}
