//! Figures of a series of samples.

use load_formats::fio::Series;

/// A series in the figures that are shown.
pub(super) struct Figures {
    pub count: u64,
    pub min: u64,
    pub max: u64,
    pub mean: f64,
    pub deviation: f64,
}

impl Figures {
    #[expect(clippy::cast_precision_loss, reason = "for reading")]
    pub fn of(series: &Series) -> Self {
        if series.count == 0 {
            return Self { count: 0, min: 0, max: 0, mean: 0.0, deviation: 0.0 };
        }
        let count = series.count as f64;
        let mean = series.sum as f64 / count;
        // n Σx² - (Σx)² in whole numbers, where floating point would lose the difference.
        let spread = u128::from(series.count)
            .checked_mul(series.squares)
            .zip(series.sum.checked_mul(series.sum))
            .map_or(0.0, |(a, b)| a.saturating_sub(b) as f64);
        let deviation = if series.count > 1 { (spread / (count * (count - 1.0))).sqrt() } else { 0.0 };
        Self { count: series.count, min: series.min, max: series.max, mean, deviation }
    }
}
