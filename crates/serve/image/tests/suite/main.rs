//! Contents and their image, from outside: one program, which compiles faster than one for each file.

#[path = "../../../live/tests/suite/common/mod.rs"]
mod common;
mod erase;
mod formats;
mod image;
mod keys;
mod old_images;
