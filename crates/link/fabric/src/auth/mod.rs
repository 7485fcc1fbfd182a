//! In-band authentication: DH-HMAC-CHAP for both sides (Base 8.3.5), and the keys of TLS.
//!
//! [`Target`] and [`Host`] are state machines without I/O: messages of Authentication Send and Receive go in
//! and come out. Randomness comes in as an argument; time limits are the caller's business, and so is to end
//! the connection when a side [has failed](Target::failure).
//!
//! Every hash function and DH group of the specification, in one direction or in both, for the first time on a
//! queue or again. Not here: secure channel concatenation (refused with its reason).
//!
//! Secrets are wiped when dropped and never part of `Debug` or of an error.

mod chap;
mod crypto;
mod dh;
mod fuzz;
mod host;
mod key;
mod parties;
mod psk;
mod target;

pub use crypto::Random;
pub use fuzz::fuzz;
pub use host::{AuthStep, Host, HostFailure};
pub use key::{ChapKey, KeyError};
pub use parties::{ChapKeys, Methods, Parties};
pub use psk::{IdentityVersion, TlsKey, TlsPsk};
pub use target::Target;
