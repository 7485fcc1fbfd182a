//! Texts of a chart.

/// What a chart says around its data.
#[derive(Clone, Debug, Default)]
pub struct Labels {
    /// Above the chart.
    pub title: String,
    /// Along the y axis.
    pub y: String,
    /// Below the x axis.
    pub x: String,
    /// Logarithmic y axis.
    pub log: bool,
}
