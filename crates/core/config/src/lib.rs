//! The configuration of a drive: its types, and the TOML that people write.
//!
//! [`Config::from_toml`] reads a drive's TOML, completes it from the default drive, and checks it. A [`ConfigError`] names the key, the value and the
//! rule. Crate `device` makes a drive of a [`Config`].

mod config;
mod config_error;
mod datasheet;
mod disk_table;
mod drive_toml;
mod fault_table;
mod lba_format;
mod limits;
mod namespace_table;
pub mod protection;
mod quantity;
mod shortened;
mod toml_keys;
mod toml_names;
mod zone_table;

pub use config::{Attach, Config, ConfigError, FlashSpace, GRANULE_BYTES, Identity, InitialNamespace, Link};
pub use datasheet::DataSheet;
pub use lba_format::LbaFormat;
pub use limits::Limits;
