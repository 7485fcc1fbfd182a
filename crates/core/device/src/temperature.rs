//! The drive's temperatures. Heat is not modelled.

/// Composite temperature in kelvins (40 °C).
pub(crate) const TEMPERATURE: u16 = 313;
/// Warning Composite Temperature Threshold (70 °C).
pub(crate) const WARNING_TEMPERATURE: u16 = 343;
/// Critical Composite Temperature Threshold (85 °C).
pub(crate) const CRITICAL_TEMPERATURE: u16 = 358;
