//! How far modelled response times are from measured ones.

use schemars::JsonSchema;
use serde::Serialize;

/// Distances between two lists of response times of the same requests.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, JsonSchema)]
pub struct Figures {
    /// Mean of the measured response times.
    #[schemars(extend("unit" = "ms"))]
    pub measured_mean_ms: f64,
    /// Mean of the modelled response times.
    #[schemars(extend("unit" = "ms"))]
    pub model_mean_ms: f64,
    /// Demerit: the root mean square of the horizontal distance between the two distributions. Both lists are sorted, and the
    /// n-th is compared with the n-th. Ruemmler and Wilkes, "An introduction to disk drive modeling", IEEE Computer 27(3), 1994.
    #[schemars(extend("unit" = "ms"))]
    pub demerit_ms: f64,
    /// Root mean square of the error of each request.
    #[schemars(extend("unit" = "ms"))]
    pub rms_request_error_ms: f64,
}

impl Figures {
    /// The figures of pairs of a measured and a modelled response time in nanoseconds.
    ///
    /// # Panics
    /// If there are none.
    pub fn of(pairs: &[(u64, u64)]) -> Figures {
        assert!(!pairs.is_empty(), "there are requests");
        let (mut measured, mut modelled): (Vec<u64>, Vec<u64>) = pairs.iter().copied().unzip();
        let rms_request_error_ms = distance(&measured, &modelled);
        measured.sort_unstable();
        modelled.sort_unstable();
        Figures {
            measured_mean_ms: mean(&measured),
            model_mean_ms: mean(&modelled),
            demerit_ms: distance(&measured, &modelled),
            rms_request_error_ms,
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "nanoseconds of a response, as milliseconds to read")]
fn mean(times: &[u64]) -> f64 {
    times.iter().map(|&t| t as f64).sum::<f64>() / times.len() as f64 / 1e6
}

#[expect(clippy::cast_precision_loss, reason = "as above")]
fn distance(a: &[u64], b: &[u64]) -> f64 {
    let square = |(&a, &b): (&u64, &u64)| (a.abs_diff(b) as f64 / 1e6).powi(2);
    (a.iter().zip(b).map(square).sum::<f64>() / a.len() as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_demerit_compares_distributions_and_the_request_error_requests() {
        let figures = Figures::of(&[(1_000_000, 3_000_000), (3_000_000, 1_000_000)]);
        assert_eq!((figures.demerit_ms, figures.rms_request_error_ms), (0.0, 2.0));
        let figures = Figures::of(&[(1_000_000, 2_000_000), (5_000_000, 6_000_000)]);
        assert!((figures.demerit_ms - 1.0).abs() < 1e-12);
        assert_eq!((figures.measured_mean_ms, figures.model_mean_ms), (3.0, 4.0));
    }
}
