//! The translation layer, from outside: one program, which compiles faster than one for each file.

mod amplification;
mod buffer;
mod disk;
mod flush;
mod full_load;
mod groups;
mod lost;
mod model;
mod policies;
mod purge;
mod sets;
mod streams;
mod support;
mod zone_flash;
mod zones;
