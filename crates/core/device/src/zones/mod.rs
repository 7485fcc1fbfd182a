//! Zoned namespaces (Zoned Namespace Command Set): what they say of themselves, and the commands that only they have. The zones are the
//! translation layer's ([`ftl::ZoneLayout`]).

pub(crate) mod changed;
pub(crate) mod commands;
mod describe;
pub(crate) mod report;
pub(crate) mod sweep;

pub(crate) use describe::{EXTENSION_BYTES, are_supported, controller, layout_of_new, namespace};
