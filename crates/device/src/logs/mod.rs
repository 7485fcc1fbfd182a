//! Log pages that are about the drive as a whole.

pub(crate) mod capacity;
mod effects;
mod health;

pub(crate) use effects::{command_effects, feature_effects};
