//! The contents of a drive, and the image in which they outlive the process.
//!
//! A drive (crate `device`) asks for its contents through [`ftl::Storage`]. A [`Store`] answers: nowhere, in memory, or in an image
//! directory, with the keys of encrypted namespaces.
//!
//! - [`presence`] looks whether there is an image; [`Locked`] is one that this process has. [`Locked::make`] and
//!   [`Locked::open`] give the drive with its store.
//! - [`DataBuffer`] is the memory of a command's data, and says who owns it.
//! - [`examine`] looks at an image that may be damaged, and changes nothing.
//! - [`trust`] opens directories that other users cannot change.
//!
//! Who steps the drive, and how hosts reach it, is not known here.

mod buffer;
pub mod examine;
mod image;
mod keys;
pub mod machine;
mod memory;
mod opening;
mod prefault;
mod slots;
mod store;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod trust;
mod xts;

pub use buffer::Buffer;
pub use image::{
    BackgroundWork, DiskEvent, FormatError, Image, ImageError, ImageOptions, Locked, Presence, ScrubOptions,
    check_unused, config, fuzz_open, presence, random,
};
pub use keys::{DriveKey, DriveKeyError, Keyring};
pub use opening::{Opened, Shape};
pub use store::{AnswerPart, DataBuffer, LentMemory, Store, pages};
