//! The live view, from outside: one program, which compiles faster than one for each file.

mod changes;
mod clients;
mod run;
mod support;
mod view;
