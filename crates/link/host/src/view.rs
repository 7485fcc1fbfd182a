//! What the drive says, as JSON with the keys of nvme-cli 2.x (`-o json` of `id-ctrl`, `id-ns`, `list`,
//! `list-ns`, `smart-log`, `endurance-log`, `error-log`, `nvm-id-ctrl`, `id-nvmset`, `id-endurance-group-list`,
//! `supported-log-pages`, `zns id-ns`, `zns report-zones`). Numbers of 128 bits are plain JSON numbers.

use nvme::identify::ascii_text;

/// Defines a view: a structure whose fields are the keys, made from a structure of the wire.
macro_rules! view {
    ($(#[$meta:meta])* $name:ident($from:ident: $source:ty) {
        $($(#[$fmeta:meta])* $field:ident: $ty:ty = $value:expr,)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Serialize, JsonSchema)]
        pub struct $name {
            $($(#[$fmeta])* $field: $ty,)*
        }

        impl From<&$source> for $name {
            fn from($from: &$source) -> Self {
                Self { $($field: $value,)* }
            }
        }
    };
}

mod controller;
mod logs;
mod namespaces;
mod vendor;
mod zones;

pub use controller::*;
pub use logs::*;
pub use namespaces::*;
pub use vendor::*;
pub use zones::*;

/// nvme-cli prints these with their padding.
fn text(field: &[u8]) -> String {
    match ascii_text(field) {
        "" => String::new(),
        _ => String::from_utf8_lossy(field).trim_end_matches('\0').into(),
    }
}

/// A little-endian number of at most 8 bytes.
fn low(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A UUID as RFC 9562 writes it.
pub fn uuid(bytes: &[u8; 16]) -> String {
    let hex = hex(bytes);
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}
