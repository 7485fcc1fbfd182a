//! Studies, from outside: one program, which compiles faster than one for each file.

mod common;
mod machine;
mod namespaces;
mod python;
mod quota;
mod zoned;
